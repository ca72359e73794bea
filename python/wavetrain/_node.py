"""One pipeline for the processes of a node: an owner, which loads, and consumers, which take.

In: a config and a name; in the other processes the name. Out: batches in memory that all of them
map. A consumer gets a list of batches, an end, an error and a reset, each in its place, once. If an
interrupt ended a call that has taken one and not raised it, the next call raises it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from wavetrain import _border, _native
from wavetrain._batch import VIEW_BYTES, Batch
from wavetrain._border import short
from wavetrain._config import Config, OnConsumerLost, ShareOrder
from wavetrain._errors import (
    EndOfStream,
    NotFound,
    PoolStarved,
    ShutdownError,
    StreamReset,
    WavetrainError,
)
from wavetrain._interrupts import Kept
from wavetrain._library import call, failure, library, new_error
from wavetrain._owned import Opened
from wavetrain._pipeline import CLOSE_S, SLICE_NS, SLICE_S, Loader, Pipeline
from wavetrain._settings import LIMITS
from wavetrain._stats import Stats, read_stats
from wavetrain._stores import files_for
from wavetrain._window import Window
from wavetrain._words import NODE_HAS, SERVE, told

ROOM_S = 0.001  # between two looks for room, if there was none
CONSUMERS_MAX = LIMITS["share_consumers"][2]
ONCE = (_native.END, _native.RESET)  # a list has them once


class List:
    """How a list is taken: of an owner that takes batches, and of each consumer."""

    def __init__(self) -> None:
        self.orphans: list[Batch] = []  # popped by a call that an interrupt ended
        self.unheard: list[int] = []  # and statuses that a list has once
        self.ends = 0  # that were raised; one for all calls that waited for it

    def take(
        self,
        loader: int,
        limit_s: float | None,
        look: Callable[[], None],
        given: Callable[[Batch], Batch],
        explained: Callable[[WavetrainError], WavetrainError],
    ) -> Batch:
        """The next batch, as `given` returns it. look: called before each wait, which is cut so
        that Ctrl-C takes effect. Python raises that after calls and at the turns of a loop: a batch
        passes from one place to another by statements without a call."""
        deadline = math.inf if limit_s is None else time.monotonic() + limit_s
        batch, error, status = Batch(loader), new_error(), _native.OK
        handle, ends = ctypes.byref(batch.handle), self.ends
        try:
            while True:
                look()
                if self.ends > ends:  # another thread took it between two waits of this one
                    raise explained(failure("pop", _native.END, error))
                if self.orphans:
                    batch = self.orphans[-1]
                    del self.orphans[-1]
                    return given(batch)
                if self.unheard:
                    made = explained(failure("pop", self.unheard[-1], error))
                    del self.unheard[-1]
                    raise made
                left = deadline - time.monotonic()
                wait = SLICE_NS if left > SLICE_S else max(0, int(left * 1e9))
                with Kept():
                    status = library().wavetrain_pop(loader, wait, handle, ctypes.byref(error))
                if status == _native.OK:
                    return given(batch)
                if status not in (_native.STARVED, _native.AGAIN) or left <= SLICE_S:
                    raise explained(failure("pop", status, error))
        except EndOfStream:
            if self.ends == ends:
                self.ends = ends + 1
            raise
        except StreamReset:
            raise
        except BaseException:  # an interrupt after the call: the next pop gives the batch
            if batch.handle.value:
                self.orphans.append(batch)
            elif status in ONCE:
                self.unheard.append(status)
            raise

    def drop(self) -> None:
        self.unheard.clear()
        while self.orphans:
            self.orphans.pop().release()


class Owner(Pipeline):
    """A pipeline whose batches other processes take: `serve` opens one, `attach` takes them.

    A thread of its own pushes samples that the lookahead has no room for, as fast as consumers take
    batches. An error of an iterable that it pulls is raised by the next push, flush, pop or wait.

    push, flush, reset, stats and close are those of a Pipeline; `wait` returns once all was taken.
    pop gives batches with owner=True alone, as consumer 0; else it is EndOfStream once consumers
    have taken all that was flushed. The next epoch is pushed after that."""

    others = NODE_HAS
    shares = True
    _ends = False

    def __init__(self, config: Config, *, files: Any = None, fit: Iterable[Any] = ()) -> None:
        self._list, self._failure = List(), list[BaseException]()
        self._work = threading.Event()
        self._emitted = 0  # batches until the last reset
        super().__init__(config, files=files, fit=fit)
        arguments = (weakref.ref(self), self._work)
        threading.Thread(target=push_ahead, args=arguments, daemon=True).start()

    def __repr__(self) -> str:
        name = self._config.share_name
        told = f": {self._config.shapes}" if self._loader else ", closed"
        return f"<Owner of {name!r}{told}>"

    def __enter__(self) -> Owner:
        return self

    def close(self) -> None:
        """As of a Pipeline. Consumers take their published batches, then pop is ShutdownError."""
        self._ends = True
        self._work.set()
        has_lock = self._lock.acquire(timeout=CLOSE_S)  # unless the thread is at a slow iterable
        try:
            super().close()
            self._list.drop()
        finally:
            if has_lock:
                self._lock.release()

    def push(self, samples: Any) -> None:
        self._hear()
        super().push(samples)

    def flush(self) -> None:
        self._hear()
        super().flush()

    def reset(self) -> None:
        """As of a Pipeline. Consumers get StreamReset in the place of batches not yet popped."""
        with self._lock:
            super().reset()
            self._list.drop()
            self._failure.clear()
            self._emitted = self.stats().batches_emitted

    def wait(self) -> None:
        """Flushes, and returns once consumers have taken all that was pushed."""
        if self._config.share_owner:
            raise TypeError(
                "an owner that takes batches itself does not wait for them: iterate over batches()"
            )
        self.flush()
        while True:
            try:
                self.pop()
            except PoolStarved:
                continue
            except EndOfStream:
                return

    def _hear(self) -> None:
        """Raises the error that ended an iterable on the other thread."""
        if self._failure:
            raise self._failure.pop(0)

    def _pop(self, limit: float | None, deadline: float) -> Batch:
        given = functools.partial(self._given, self._window)
        return self._list.take(self._loader, limit, self._look, given, self._explained)

    def _given(self, window: Window, batch: Batch) -> Batch:
        return super()._given(window, batch.renamed(self._names))

    def _look(self) -> None:
        self._hear()
        self._top_up()

    def _drain(self) -> None:
        super()._drain()
        if self._window.held and not self._config.share_owner:
            # This process pops nothing: arrays that published batches borrowed are done with.
            count = self.stats().batches_emitted - self._emitted
            if count:
                self._window.let_go(count - 1)
        if self.pending:
            self._work.set()

    def push_ahead(self) -> bool:
        """Pushes samples as far as there is room; whether there may be more to push."""
        self._work.clear()
        if self._ends:
            return False
        try:
            self._top_up()
        except BaseException as error:
            self._failure.append(error)
        return True

    def _find_store(self) -> None:
        self._finds_store = False
        if files_for(None, self._window.names()) is None:
            return
        self._drop_pulled()
        raise ValueError(
            "samples are in a store that needs files, and the pipeline is shared already: give "
            "serve(.., fit=[array]), or files=wavetrain.store(..) or wavetrain.remote(..)"
        )


def push_ahead(of: weakref.ref[Owner], work: threading.Event) -> None:
    """The thread of an owner, which keeps nothing of it while there is nothing to push."""
    while True:
        work.wait()
        owner = of()
        if owner is None or not owner.push_ahead():
            return
        is_full = owner.pending
        del owner
        if is_full:
            work.set()
            time.sleep(ROOM_S)


class Consumer(Opened):
    """Batches of a pipeline that another process owns: `attach` returns one.

    A loop over it ends with the owner's flush, and the next loop takes what is pushed after it.
    Batches are those of Pipeline.pop: names of fields, types and shapes are the owner's."""

    instead = "attach where it is used, with the name and a number of its own"
    others = NODE_HAS

    def __init__(
        self, name: str, consumer: int, *, timeout_s: float | None, pop_timeout_s: float | None
    ) -> None:
        self._name, self._number, self._limit_s = name, consumer, pop_timeout_s
        self._list = List()
        self._names: tuple[str, ...] | None = None  # from its first batch on
        self._open = Attached(name, consumer, timeout_s)
        self._loader = self._open.handle

    def __repr__(self) -> str:
        told = "" if self._loader else ", closed"
        return f"<Consumer {self._number} of {self._name!r}{told}>"

    @property
    def name(self) -> str:
        """The name under which it attached."""
        return self._name

    @property
    def number(self) -> int:
        """The number of the consumer, from 0."""
        return self._number

    def __enter__(self) -> Consumer:
        return self

    def close(self) -> None:
        """Detaches: idempotent. Batches that wait for it are lost; those that it popped, and arrays
        that were made of them, stay readable. Another process may attach with its number."""
        if self._loader:
            self._list.drop()
            self._open.close(CLOSE_S)
            self._loader = 0
        Loader.sweep()

    def _check_open(self) -> None:
        if not self._loader:
            raise ShutdownError("this consumer is closed: attach again")

    def pop(self) -> Batch:
        """The next batch of this consumer.

        EndOfStream after the last batch that was flushed, once: the next pop waits for batches that
        are pushed after it. Each thread that waits in pop at that moment gets it. StreamReset if
        the owner called reset. An error of the owner's stream is raised after all batches before
        it, and again until a reset. PoolStarved after pop_timeout_s: a later pop gets the same
        batch. ShutdownError after the last batch of an owner that is closed or has ended."""
        self._check_open()
        limit, look = self._limit_s, self._check_open
        return self._list.take(self._loader, limit, look, self._named, as_it_is)

    def _named(self, batch: Batch) -> Batch:
        if self._names is None:
            self._names = names_of(self._loader, batch.handle)
        return batch.renamed(self._names)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            try:
                batch = self.pop()
            except EndOfStream:
                return
            yield batch

    def batches(self, *_: Any) -> NoReturn:
        raise TypeError("iterate over the consumer itself: one loop is all that the owner flushed")

    def stats(self) -> Stats:
        """Figures of this consumer: batches that it took and holds. The owner has all others."""
        self._check_open()
        return read_stats(self._loader)


class Attached(Loader):
    """The open loader of a consumer, which uses nothing of Python's."""

    def __init__(self, name: str, consumer: int, timeout_s: float | None) -> None:
        self.handle, self.waiter = 0, threading.Lock()
        self.windows, self.loans, self.memory = [], None, None
        self.hook = self.arrays = None
        self.causes = []
        Loader.sweep()
        handle, text = ctypes.c_uint64(), name.encode()
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not handle.value:
                left = deadline - time.monotonic()
                wait = SLICE_NS if left > SLICE_S else max(0, int(left * 1e9))
                try:
                    call("attach", text, consumer, wait, ctypes.byref(handle))
                except NotFound:  # a slice is over
                    if left <= SLICE_S:
                        raise
            self.handle = handle.value
            Loader.alive.add(self)
        except BaseException:  # it is open if an interrupt was raised after the call
            self.handle = handle.value
            self.close(CLOSE_S)
            raise


def as_it_is(error: WavetrainError) -> WavetrainError:
    return error


def names_of(loader: int, handle: ctypes.c_uint64) -> tuple[str, ...]:
    """The names of the fields of a batch; none if the owner's config has no fields."""
    names = list[str]()
    view = _native.BatchView(struct_size=VIEW_BYTES)
    for number in range(_native.FIELDS_MAX):
        if library().wavetrain_batch_info(loader, handle, number, ctypes.byref(view)):
            break
        names.append((view.name or b"").decode())
    return tuple(names) if any(names) else ()


@told(SERVE)
def serve(
    config: Config,
    name: str,
    consumers: int,
    *,
    order: ShareOrder | str = "round",
    owner: bool = False,
    on_lost: OnConsumerLost | str = "fail",
    attach_timeout_s: float | None = 60.0,
    files: Any = None,
    fit: Iterable[Any] = (),
) -> Owner:
    """Opens a pipeline whose batches other processes take::

        with wavetrain.serve(config, "train", 4) as owner:
            owner.push(samples)
            owner.wait()

        with wavetrain.attach("train", number) as consumer:  # in each of four processes
            for batch in consumer:
                with batch:
                    x = torch.from_dlpack(batch)

    Chunks are read and decoded once, whatever the number of processes, and batches lie in host
    memory that all of them map: nothing is copied.

    name: one of this user's on this machine: letters, digits, '-', '_' and '.'; with '/' it is the
        path of a socket, for containers that share a folder. One that is in use is InvalidArgument,
        with the process that has it. Nothing is left of it, however a process ends.
    consumers: their number, up to 64.
    order: "round": batch k, counted on over epochs, is for consumer k modulo their number. "first":
        the consumer that pops first gets it. "all": each batch is for all of them, in memory that
        they cannot write to. A write of torch, which does not know of such memory, ends the process
        by SIGSEGV: clone() first.
    owner: True: this process takes batches too, as consumer 0.
    on_lost: the effect of a consumer that ends without a close, closes while batches wait for it,
        or does not attach in attach_timeout_s. fail: the stream ends, for all, with ShutdownError.
        skip: its batches are dropped, and counted as stats().batches_lost. With order first neither
        happens: the next consumer gets those that wait, and those that it had popped are counted.
    files, fit: as Pipeline has them."""
    given: Any = config
    if not isinstance(given, Config):
        raise TypeError(f"config must be a wavetrain.Config (got {short(given)})")
    changes: dict[str, Any] = {
        "share_name": name,
        "share_consumers": _border.whole("consumers", consumers, 1, CONSUMERS_MAX),
        "share_order": _border.choice("order", order, ShareOrder),
        "share_owner": _border.flag("owner", owner),
        "on_consumer_lost": _border.choice("on_lost", on_lost, OnConsumerLost),
        "attach_timeout_s": attach_timeout_s,
    }
    return Owner(dataclasses.replace(config, **changes), files=files, fit=fit)


def attach(
    name: str,
    consumer: int,
    *,
    timeout_s: float | None = 60.0,
    pop_timeout_s: float | None = 30.0,
) -> Consumer:
    """Takes batches of the pipeline that another process opened with `serve` and this name.

    consumer: its number, from 0 on. Each number is for one living process.
    timeout_s: the longest wait until a process has the name, after which attach is NotFound; None:
        as long as it takes.
    pop_timeout_s: after which pop is PoolStarved; None: never.

    A process that was forked cannot use a consumer of its parent: attach in the process that takes
    the batches."""
    _border.path("name", name)
    number = _border.whole("consumer", consumer, 0, CONSUMERS_MAX - 1)
    return Consumer(
        name,
        number,
        timeout_s=limit_of("timeout_s", timeout_s, 0),
        pop_timeout_s=limit_of("pop_timeout_s", pop_timeout_s, 0),
    )


def limit_of(name: str, given: Any, low: float) -> float | None:
    if given is None:
        return None
    limit = _border.real(name, given)
    if not limit >= low:  # nor is NaN
        raise ValueError(f"{name} must be >= {low} or None (got {limit})")
    return limit
