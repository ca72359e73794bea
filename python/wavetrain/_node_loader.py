"""A DataLoader of the processes of a node: local rank 0 loads, the others take.

In: the order of the whole epoch, and the numbers of the launcher. Out: batches of this rank. A node
takes rounds, a batch for each of its ranks. Batch k of a run is for rank (shift + k) modulo their
number; shift counts the batches of the runs before. Each run ends with one end in the list of each
rank. A rank that leaves a loop early drops the batches before it, and local rank 0 then pushes
whole rounds alone, at most to the one that follows. It pushes a last round of less than a batch
each once it was given its batch of the one before. All ranks, which leave a loop after as many
batches, then know whether that was pushed. A failure ends the loader on all ranks.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import itertools
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Mapping
from ctypes import byref
from typing import TYPE_CHECKING, Any

from wavetrain import _table
from wavetrain._batch import Batch
from wavetrain._border import short
from wavetrain._config import Config
from wavetrain._dice import ask
from wavetrain._errors import (
    EndOfStream,
    InvalidArgument,
    NotFound,
    PoolStarved,
    ShutdownError,
    TryAgain,
)
from wavetrain._node import Consumer, Owner, attach, serve
from wavetrain._samplers import Resampled
from wavetrain.epoch import Epoch, named_of, signed
from wavetrain.launchers import local, who

if TYPE_CHECKING:
    from wavetrain._dataloader import DataLoader, NodeRun

DEAL = 0x6E6F6465  # in the hash of an order that is dealt by batch
ATTACH_S = 600.0  # as torch waits for the ranks of a group
SAY_S, LOOK_S = 20.0, 0.005  # until a warning that ranks are missing; between two looks
# A job has one of these, and it is another one for each job that runs on a machine.
JOBS = ("MASTER_PORT", "SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
ORDER = "make loaders, and iterate over them, in the same order on all ranks of a node"
JOB = (
    *JOBS,
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "SLURM_STEP_ID"),
)
TAKEN = ("in use by", "which lives", "another user", "there are")  # texts of a name's second owner
PLAIN = r"[A-Za-z0-9_.-]{1,50}"  # a name, with room for the numbers of the node and the loader
numbers = itertools.count()  # of the loaders of this process


class Node:
    """Which rank of which node this process is, and how far its list was taken."""

    def __init__(self, name: str, place: tuple[int, int, int, int], given: str) -> None:
        self.local, self.count, self.index, self.nodes = place
        self.name, self.given, self.batch = name, given, 1
        self.shift, self.run, self.is_met, self.has_failed = 0, None, False, False
        self.waits_until = 0.0

    run: NodeRun | None  # whose end was not seen

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "shift": 0, "run": None, "is_met": False, "has_failed": False}

    @property
    def slot(self) -> int:
        """Which batch of a round is this rank's."""
        return (self.local - self.shift) % self.count

    def order_of(self, order: Epoch) -> Epoch:
        """The order of the whole epoch, as it is dealt to nodes: a round at a time."""
        if isinstance(order, Resampled):
            raise ValueError(
                "node is set, and each rank would ask a sampler of its own: give a list, or "
                "shuffle=True"
            )
        if order.world != 1:
            raise ValueError(
                f"node is set, and the sampler deals to {order.world} ranks itself: give one of "
                "world=1"
            )
        made, self.batch = order.copy(), order.batch
        made.batch, made.world, made.rank = order.batch * self.count, self.nodes, self.index
        made.by_batch = made.chunk_shuffle is None
        made._check()  # pyright: ignore[reportPrivateUsage]
        made._begun()  # pyright: ignore[reportPrivateUsage]
        mark(made)
        made.begin(order.epoch)
        return made

    def batches_of(self, left: int, is_whole_only: bool) -> int:
        """This rank's, of that many samples of the node."""
        rounds, rest = divmod(left, self.batch * self.count)
        return rounds + (not is_whole_only and rest > self.slot * self.batch)

    def open(self, config: Config, files: Any, fit: Any) -> Owner | Consumer:
        self.waits_until = time.monotonic() + ATTACH_S
        try:
            if self.local:
                return self._attach(config.pop_timeout_s)
            name, limit = self.name, ATTACH_S
            return serve(
                config, name, self.count, owner=True, attach_timeout_s=limit, files=files, fit=fit
            )
        except InvalidArgument as error:
            if any(words in str(error) for words in TAKEN):
                error.args = (f"{error}. {self._fix()}",)
            raise

    def _attach(self, pop_timeout_s: float | None) -> Consumer:
        """Waits for local rank 0, with a warning."""
        try:
            return attach(self.name, self.local, timeout_s=SAY_S, pop_timeout_s=pop_timeout_s)
        except NotFound:
            self._say("local rank 0 to begin its")
        try:
            left = max(0.0, self.waits_until - time.monotonic())
            return attach(self.name, self.local, timeout_s=left, pop_timeout_s=pop_timeout_s)
        except NotFound as error:
            error.args = (
                f"local rank 0 did not begin its iteration in {ATTACH_S:.0f} s: {ORDER} ({error})",
            )
            raise

    def _say(self, whom: str) -> None:
        number = self.name.rpartition("-")[2]
        text = (
            f"local rank {self.local} waits for {whom} iteration of loader {number} of a process, "
            f"counted from 0, for {ATTACH_S:.0f} s at most: {ORDER}"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _fix(self) -> str:
        """For an error of the name."""
        if self.given != "auto":
            return f"If another job on this machine has node={short(self.given)}, give each its own"
        found = ", ".join(told_of(os.environ))
        return (
            f"The name is made of {found}: if another job on this machine has the same, give each "
            "its own MASTER_PORT, or node=NAME"
        )

    # ---- Of a loader ----------------------------------------------------------------------------

    def push(self, loader: DataLoader, run: NodeRun) -> None:
        """Begins a run, once what is left of the one before was taken."""
        pipeline: Any = loader.pipeline
        self._check()
        if self.run is not None:
            self._leave(pipeline, self.run)
        order, is_whole_only = loader._order.copy(), loader._drop_last  # pyright: ignore[reportPrivateUsage]
        run.begin(order.copy(), is_whole_only, self.batch)
        self.run = run
        if self.local:
            return
        asked, size, wrapped = loader._asked, order.batch, iter  # pyright: ignore[reportPrivateUsage]
        given: Any = asked.samples(order.copy(), is_whole_only, run)
        if callable(asked.boxes):
            tables = asked.tables(order.copy(), is_whole_only, run, pipeline._table, size)
            given, size, wrapped = tables, 1, _table.Tables
        given = run.until_left(given, size)
        if run.has_part and run.whole:
            run.rest = wrapped(given)
            given = itertools.islice(given, run.whole * size)
        self._hand(pipeline, run, wrapped(given))

    def _hand(self, pipeline: Any, run: NodeRun, given: Any) -> None:
        """Pushes, and flushes unless a part is to follow."""
        try:
            pipeline.push(given)
            if run.rest is None:
                pipeline.flush()
        except Exception as error:
            self._fail(pipeline, run, error)

    def _fail(self, pipeline: Any, run: NodeRun, error: Exception) -> None:
        """Ends a run after what was pushed of it, and with it the loader: ranks would not agree on
        how much that was."""
        self.has_failed, run.error, run.rest = True, run.error or error, None
        with contextlib.suppress(Exception):  # which the next pop raises
            pipeline.flush()

    def _check(self) -> None:
        if self.has_failed:
            raise RuntimeError("this DataLoader has failed on its node: make another on all ranks")

    def pop(self, pipeline: Any, run: NodeRun, order: Epoch) -> Batch | None:
        """This rank's next batch of the run; after the last one None."""
        if run.error is None:
            self._check()
        self._meet(pipeline)
        while run.own:  # of one whose transform failed
            run.own.popleft()
            order.skip(run.group)
        places, padded = run.expected(self.slot)
        batch = self._pop(pipeline, run)
        if batch is not None:
            if len(places) and batch.shape[0] == len(places):
                run.popped += 1
                run.own.append((places, padded))
                run.take()
                if run.rest is not None and run.popped >= run.whole:
                    given, run.rest = run.rest, None
                    self._hand(pipeline, run, given)
                return batch
            batch.release()  # what was left of a batch that is not whole
        self.has_failed = self.has_failed or bool(len(places)) or batch is not None
        run.fail()
        if self.has_failed:
            raise RuntimeError(
                "local rank 0 ended the epoch before this rank's last batch: its data set failed, "
                "or it left the loop, which all ranks must leave after the same batch"
            )
        return None

    def _pop(self, pipeline: Any, run: NodeRun) -> Batch | None:
        """The next batch of this rank's list; after the last one of the run None."""
        while True:
            try:
                return pipeline.pop()
            except TryAgain:
                raise
            except PoolStarved as error:
                # Local rank 0 waits for ranks that begin late, and its batches fill the slots.
                is_early = self.local and time.monotonic() < self.waits_until
                if not (is_early and pipeline.stats().consumers_missing):
                    raise of_ranks(error) from None
            except EndOfStream:
                self.run = None
                if run.leaves_after is None or run.leaves_after > run.whole:  # the part was pushed
                    self.shift = (self.shift + run.has_part) % self.count
                return None
            except Exception as error:
                # A sample that is wrong by itself is found while batches before it are to come. A
                # stream that has failed raises again.
                if self.local or run.error is not None:
                    self.has_failed, run.error = True, None
                    raise of_ranks(error) from None
                self._fail(pipeline, run, error)

    def _meet(self, pipeline: Any) -> None:
        """Waits until all ranks have attached. Local rank 0 may end after any batch, and a rank
        that attached gets its own batches then as well; one that had not would find nobody."""
        if self.local or self.is_met:
            return
        said = time.monotonic() + SAY_S
        while missing := pipeline.stats().consumers_missing:
            if time.monotonic() > said:
                said = math.inf
                self._say(f"{missing} of the {self.count} ranks of its node to begin their")
            time.sleep(LOOK_S)
        self.is_met = True

    def close(self, pipeline: Any) -> None:
        """Before rank 0 closes: what the others are to get of a run that all have left is given."""
        if self.local or self.run is None or self.has_failed or sys.exc_info()[0] is not None:
            return
        with contextlib.suppress(Exception):
            self._meet(pipeline)
            self._leave(pipeline, self.run)

    def _leave(self, pipeline: Any, run: NodeRun) -> None:
        """Drops what is left of a run, to its end."""
        run.leaves_after = run.popped + 1
        if run.rest is not None:
            run.rest = None
            pipeline.flush()
        while batch := self._pop(pipeline, run):
            batch.release()
        self._check()


def of_ranks(error: Exception) -> Exception:
    """The same in the words of a DataLoader, whose ranks are the consumers."""
    text = re.sub(r"\bconsumer (\d+)", r"local rank \1", str(error))
    if isinstance(error, ShutdownError) and text != str(error):
        error.args = (f"{text.partition(': attach it')[0]}: make another DataLoader on all ranks",)
    elif isinstance(error, PoolStarved):
        limit = "config=Config(pop_timeout_s=..) is how long a rank waits"
        error.args = (f"{text.replace('the owner', 'local rank 0')}; {limit}",)
    return error


def local_of(given: Any, rank: Any, world: Any) -> Node | None:
    """The node of a loader that was given `node`."""
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise TypeError(f"node must be 'auto', a name or None (got {short(given)})")
    if given != "auto" and given.strip().lower() == "auto":
        raise ValueError(f"node must be 'auto', in small letters (got {short(given)})")
    if "/" not in given and not re.fullmatch(PLAIN, given):
        raise ValueError(
            "node must be 'auto', a name of at most 50 letters, digits, '-', '_' and '.', or a "
            f"path with '/' (got {short(given)})"
        )
    (own, count), (number, total) = local(), who()
    if rank not in (None, number) or world not in (None, total):
        raise ValueError(
            f"node is set, and the launcher has rank {number} of {total}: leave rank and world out "
            f"(got {short(rank)} and {short(world)})"
        )
    if count == 1:
        return None
    if total % count or number % count != own:
        raise ValueError(
            f"node needs as many ranks on each node, in order (rank {number} of {total} is local "
            f"rank {own} of {count}): give node=None"
        )
    index, loader = number // count, next(numbers)
    job = given if given != "auto" else job_of(os.environ)
    place = (own, count, index, total // count)
    return Node(f"{job}.node-{index}.loader-{loader}", place, given)


def job_of(environ: Mapping[str, str]) -> str:
    """A name of the job, which no other job on the machine has at the same time."""
    if not any(environ.get(name) for name in JOBS):
        raise RuntimeError(
            "node='auto' finds no job: set MASTER_PORT, as torchrun does, or give node=NAME"
        )
    words = " ".join(told_of(environ))
    return f"wavetrain-{hashlib.sha256(words.encode()).hexdigest()[:16]}"


def told_of(environ: Mapping[str, str]) -> list[str]:
    """The words of a launcher that make the name of its job."""
    return [f"{name}={environ[name]}" for name in JOB if name in environ]


def mark(order: Epoch) -> None:
    """Makes the hash of an order that of one dealt by batch."""
    kept = order._kept  # pyright: ignore[reportPrivateUsage]
    ask("epoch_depends_on", byref(kept), array.array("Q", [DEAL]), 1)
    order.order_hash = signed(kept.state.order_hash)


def check_deal(order: Epoch, node: Node | None, state: Any) -> None:
    """ValueError for a state of the other deal, of the same order otherwise."""
    other, found = order.copy(), named_of(state)["order_hash"]
    if found == order.order_hash or isinstance(order, Resampled):
        return
    other._begun()  # pyright: ignore[reportPrivateUsage]
    if node is None:
        mark(other)
    if found == other.order_hash:
        was, fix = ("without", "with") if node else ("with", "without")
        raise ValueError(
            f"the state is of a DataLoader {was} node, which deals the samples to ranks in another "
            f"way than this one {fix} node: load it into one as it was saved from (the only rank "
            "of a node has none with node='auto', too)"
        )
