"""Epochs of batches: the samples that an order deals are asked of a data set and pushed in advance,
and batches are returned in that order.

In: a data set, which makes a request of a number, and an `epoch.Epoch`. Out: batches of a pipeline.
The place that a checkpoint holds moves when a batch is given to the caller, never when it was only
loaded in advance.

This file is over 500 lines because a loader and the arguments of its order belong together.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, cast

from wavetrain import _node_loader, _table
from wavetrain._array_sets import ArraySet, Settings, may_return_arrays, settings_of
from wavetrain._batch import Batch
from wavetrain._border import U64_MAX, flag, short, whole
from wavetrain._config import Config
from wavetrain._dice import room
from wavetrain._errors import EndOfStream, PoolStarved, ShutdownError, TryAgain
from wavetrain._fused import Fused, Plan, has_recipes
from wavetrain._node import Consumer
from wavetrain._orders import Places
from wavetrain._owned import Owned
from wavetrain._pipeline import Pipeline
from wavetrain._sample import Sample
from wavetrain._samplers import Resampled, check_reach, is_for_epochs, resampled, subset_of
from wavetrain._settings import LIMITS
from wavetrain._stores import files_and_uris
from wavetrain._words import LOADER, knows
from wavetrain.epoch import ChunkShuffle, Draw, Epoch, Place, State, Table, named_of

SIZE_MAX = 1 << 20  # samples of a batch
DEALT_AT_ONCE = 4096  # samples, so that a call of the library costs next to nothing for each
FUSED_AT_ONCE = 512  # the same of samples with recipes, whose records of 5 KB stay in L2


class Run:
    """How far an epoch was pushed. It knows nothing of its loader, so that one that is dropped
    ends at once: the pipeline holds this."""

    def __init__(self) -> None:
        # For each batch that was pushed and not popped: the places of its samples, and how many of
        # these only pad.
        self.pushed: collections.deque[tuple[Places, int]] = collections.deque()
        self.is_whole = False  # all samples of the epoch were pushed
        self.is_torn = False  # a call was ended on its way: some of them may be lost
        self.is_over = False
        self.error: Exception | None = None  # raised after the batches before it

    def fail(self) -> None:
        """Raises the error, if there is one, and forgets it: it keeps whatever the calls on its way
        hold, a batch and the loader among them."""
        try:
            if self.error is not None:
                raise self.error
        finally:
            self.error = None


class NodeRun(Run):
    """The same of the ranks of a node: each has its own way through it, local rank 0 pushes."""

    def __init__(self) -> None:
        super().__init__()
        self.popped = self.total = self.group = 0
        self.pushed = collections.deque(maxlen=0)  # by the thread of local rank 0, for all ranks
        self.own: collections.deque[tuple[Places, int]] = collections.deque()
        self.leaves_after: int | None = None  # rounds, after which nothing is pushed
        self.rest: Any = None  # what is pushed of the last round once rank 0 is there

    def begin(self, order: Epoch, is_whole_only: bool, batch: int) -> None:
        size, left = order.batch, order.left
        self.size, self.batch = size, batch
        self.total = left // size * (size // batch) if is_whole_only else -(-left // batch)
        self.whole, self.has_part = divmod(self.total, size // batch)  # rounds
        if left == U64_MAX:
            self.has_part = 0
        self.rounds = itertools.chain.from_iterable(
            batches for _, _, batches in dealt(order, is_whole_only)
        )
        self.round = next(self.rounds, (Places(room(0)), 0))

    def take(self) -> None:
        """Moves to the next round."""
        self.group = len(self.round[0])
        self.round = next(self.rounds, (Places(room(0)), 0))

    def expected(self, slot: int) -> tuple[Places, int]:
        """The places of this rank's batch of the round, and how many samples only pad."""
        places, padded = self.round
        first = slot * self.batch
        own, begin = places[first : first + self.batch], len(places) - padded
        return own, max(0, first + len(own) - max(begin, first))

    def until_left(self, given: Iterable[Any], size: int) -> Iterator[Any]:
        """Gives `given` on, `size` of them a round, until the ranks have left the loop. An error of
        the data set is raised after whole rounds."""
        for number, each in enumerate(given):
            is_left = self.leaves_after is not None and self.leaves_after <= number // size
            if is_left and number % size == 0:
                return
            yield each
        self.fail()


class Batches(Owned):
    """An iteration."""

    instead = "copy or send the DataLoader, with the place of its state_dict()"

    def __init__(self, loader: DataLoader, run: Run) -> None:
        self._loader, self._run = loader, run

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        return self._loader._next(self._run)  # pyright: ignore[reportPrivateUsage]


class Asked:
    """A data set, as it is asked."""

    def __init__(self, dataset: Any) -> None:
        self.at_place = getattr(dataset, "at_place", None)
        self.boxes: Any = getattr(dataset, "boxes", None)
        can_ask = callable(self.at_place) or hasattr(dataset, "__getitem__")
        can_ask = can_ask or callable(self.boxes)
        if isinstance(dataset, (str, bytes)) or not isinstance(dataset, Sized) or not can_ask:
            raise TypeError(
                "dataset must have len(dataset) and dataset[index], which is a Sample, as a list "
                f"of them has (got {short(dataset)})"
            )
        self.dataset: Any = dataset
        self.fused: Fused | None = None  # recipes that samples go through

    def sample(self, index: int, place: Place | None = None) -> Sample:
        sample = self.at_place(index, place) if self.at_place else self.dataset[index]
        if not isinstance(sample, Sample):
            raise TypeError(
                f"dataset[{index}] must be a wavetrain.Sample (got {short(sample)}); for a data "
                "set of arrays give num_workers, the number of processes that read it"
            )
        return sample

    def samples(self, order: Epoch, is_whole_only: bool, run: Run) -> Iterator[Sample]:
        """Those that are left of an epoch, each batch noted before it is pushed."""
        for _, indices, batches in dealt(order, is_whole_only):
            for number, batch in enumerate(batches):
                first = number * order.batch
                try:
                    # Not by map, which a StopIteration of the data set would end.
                    asked = indices[first : first + order.batch]
                    if self.at_place:
                        pairs = zip(asked, batch[0])
                        samples = [self.sample(index, place) for index, place in pairs]
                    else:
                        samples = [self.sample(index) for index in asked]
                    if self.fused is not None:
                        samples = self.fused.samples(samples, batch[0])
                except Exception as error:
                    run.error = error
                    return
                run.pushed.append(batch)
                yield from samples
        run.is_whole = True

    def tables(
        self,
        order: Epoch,
        is_whole_only: bool,
        run: Run,
        made: Callable[[Any], _table.Table],
        most: int = DEALT_AT_ONCE,
    ) -> Iterator[_table.Table]:
        """The same, of a data set that answers for many, `most` at a time or fewer."""
        at_once = min(most, DEALT_AT_ONCE if self.fused is None else FUSED_AT_ONCE)
        for places, indices, batches in dealt(order, is_whole_only, at_once):
            try:
                given = self.boxes(indices)
                if self.fused is not None:
                    given = self.fused.table(given, places)
                table = made(given)
                if table.count != len(indices):
                    raise ValueError(
                        f"dataset.boxes must return a row for each of {len(indices)} indices (got "
                        f"{table.count})"
                    )
                table.tags = table.tagged(indices)
            except Exception as error:
                run.error = error
                return
            run.pushed.extend(batches)
            yield table
        run.is_whole = True


def dealt(
    order: Epoch, is_whole_only: bool, at_once: int = DEALT_AT_ONCE
) -> Iterator[tuple[Places, list[int], list[tuple[Places, int]]]]:
    """The rest of an epoch, some `at_once` samples at a time: their places and indices, and for
    each batch the places and the number of samples that only pad."""
    size, is_end = order.batch, False
    count = size * max(1, at_once // size)
    while not is_end:
        places, indices, padding = order.deal_and_pad(count)
        is_end = len(places) < count
        if is_whole_only:
            whole = len(places) // size * size
            places, indices = places[:whole], indices[:whole]
        if places:
            starts = range(0, len(places), size)
            yield (
                places,
                indices,
                [(places[at : at + size], sum(padding[at : at + size])) for at in starts],
            )


@knows(LOADER)
class DataLoader:
    """Batches of a data set of requests, epoch by epoch::

        class Cells:
            def __len__(self):
                return 640

            def __getitem__(self, index):  # says what is to be read, and reads nothing
                return wavetrain.Sample("cells.zarr/0", numpy.s_[index : index + 1, 0:128, 0:128])

        with wavetrain.DataLoader(Cells(), batch_size=8, shuffle=True) as loader:
            for epoch in range(loader.epoch, 10):
                for batch in loader:
                    with batch:
                        train(torch.from_dlpack(batch))
                torch.save(loader.state_dict(), "place.pt")  # of one rank: after any batch

    dataset: has `len(dataset)` and `dataset[index]`, which gives a Sample. If it has
        `at_place(index, place)` that is called instead: for boxes that are drawn anew in each epoch
        (`wavetrain.epoch.Boxes`), a place being (epoch, position). It is asked in advance, by the
        thread that iterates. If it has `boxes(indices)` that is called instead, with the list of
        thousands of indices. It returns what `Pipeline.push_boxes` takes, a `Column` or a dict of
        columns and labels by field, with a row for each index. No object is made for a sample, and
        tags are the indices.
    batch_size: samples of a batch; None: those of an `Epoch` as sampler, of config, or 1.
    shuffle, seed: another order in each epoch, and for each seed; False and 0 where not given.
    sampler: which samples an epoch has, and in which order: a list of numbers, `epoch.Subset`, a
        part of `epoch.split` or `stratify`, `Weighted`, `Mixed`, `balanced`. Or a `ChunkShuffle`,
        which caches chunks in Config.chunk_cache_bytes, and without those saves next to nothing. Or
        an `Epoch`, which has all of shuffle, drop_last, seed, rank and world.
    tail: for the end of an epoch, if less than a batch for each rank is left. "short": ranks get
        the rest, each sample once, and some a batch less. "drop": no rank gets it. "pad": missing
        samples are taken from the front again, so that all ranks get as many whole batches.
        "repeat": the next epoch follows in the same batch, and there is no end. None: "pad" if
        world > 1, because ranks that wait for the gradients of a rank without a batch wait for
        ever; else "short". `batch.padded` is how many of its last samples are such repeats, and
        `places` has none for them. For sums over a data set, as in evaluation, take "short", or
        leave them out.
    drop_last: True for tail="drop".
    transforms: a callable that takes the batch, or a list of them, each of which takes the result
        of the one before; the result of the last one is returned. `lambda batch: batch.torch()`
        does, and `lambda batch: [field.torch() for field in batch]` for batches of several fields.
        A list with recipes of `wavetrain.augment` is one of filters instead, each of (xb, yb): the
        first field, and the others. The recipes in front run in the pipeline, from the first other
        callable on all run in Python, see `plan`. If some run in Python, (xb, yb) are returned,
        arrays of their own; else the batch is. Draws depend on seed, epoch and position, and on
        no rank or world. Batches are in host memory then.
    config: of the pipeline, with batch_size in the place of its samples_per_batch. None: f32, of
        the extents of the first sample, with caps that fit its array.
    num_workers: of a data set of samples, threads that decode, 1 or more: n_decode_threads of
        config, in its place. For a data set of arrays, worker processes that read it; 0: this one.
    worker_start, worker_timeout_s: of worker processes, see below.
    prefetch: batches that are loaded in advance of the one that is used: n_batch_slots of config is
        one more.
    map_uncompressed: as Config's, in its place.
    rank, world: which share of each epoch, of how many.
    node: "auto": the ranks of a node share one pipeline. Local rank 0 loads, for itself and for the
        others, which take its batches out of memory that all map (`wavetrain.serve`). Which rank,
        node and job is the launcher's word (torchrun). A name takes the job's place. Batches, not
        samples, are dealt to ranks, so that those of all are those of one process; a state is for
        the same deal. tail is "pad" unless given. All ranks make as many loaders in the same order,
        and leave a loop after as many batches. Local rank 0 waits for the others before its first
        batch, and a rank waits as long as pop_timeout_s of config for its next one. A failure of
        the data set or of a store ends the loader on all ranks: make another on each. A batch whose
        transform failed is not given again. The data set must return samples, not arrays. None:
        each loads its own.
    files, fit: as Pipeline has them.

    Each iteration is an epoch; one that is left early is not continued. Its batches are those of
    Pipeline.pop: `with batch` gives the slot back, or its end. The pipeline and its threads serve
    all epochs, from the first iteration to `close`; sent to another process, the loader opens one
    there. An exception of the data set, or of its samples, is raised after the batches before it,
    and the same iteration then tries those samples again. The next iteration is of the next epoch,
    or, after load_state_dict(state_dict()), of the rest of this one.

    Data sets of arrays: with num_workers, `dataset[index]` may be a tuple or a dict of arrays and
    numbers, or one array, as netcl and torch have them. Batches have a field for each, named "0",
    "1" .. or by its key. Worker processes read them and write into shared memory, which the
    pipeline reads. Without a config shapes and types are those of the first sample; a sample of
    others is an error. Before each sample `random`, numpy's global generator and torch's are seeded
    from (seed, epoch, position), so that draws do not depend on num_workers. A sample may raise,
    its worker may die, or it may take longer than worker_timeout_s [60]. With
    Config.on_error="skip" it then has a status; else StorageError is raised in its order, with the
    cause in its text. The worker is replaced. worker_start: "forkserver", the default, and "spawn"
    send the data set by pickle; "fork" copies this process, before any pipeline is open in it.

    `state_dict()` is the place after the last batch that was returned. load_state_dict continues
    there at any rank, world and batch size. A `ChunkShuffle` does so if `is_portable`, and a
    sampler, which is asked anew, at its own rank, if it gives the same samples as in that epoch. It
    takes the states of all ranks, which must be the same: save when each has had as many batches.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool | None = None,
        sampler: Epoch | Table | Draw | ChunkShuffle | Iterable[int] | None = None,
        *,
        batch_sampler: Iterable[Iterable[int]] | None = None,
        tail: str | None = None,
        drop_last: bool | None = None,
        seed: int | None = None,
        transforms: Callable[[Any], Any] | Iterable[Callable[[Any], Any]] | None = None,
        config: Config | None = None,
        map_uncompressed: bool | None = None,
        num_workers: int | None = None,
        worker_start: str | None = None,
        worker_timeout_s: float | None = None,
        prefetch: int | None = None,
        rank: int | None = None,
        world: int | None = None,
        node: str | None = None,
        files: Any = None,
        fit: Iterable[Any] = (),
    ) -> None:
        self._asked = Asked(dataset)
        if config is not None and not isinstance(cast("Any", config), Config):
            raise TypeError(f"config must be a wavetrain.Config (got {short(config)})")
        self._files, self._fit = files_and_uris(files, fit)
        self._transforms = transforms_of(transforms)
        size = None if config is None else config.samples_per_batch
        if batch_sampler is not None:
            size = size_of_batches(batch_sampler, size, sampler, batch_size)
        elif isinstance(sampler, Epoch) and sampler.is_batch_given:
            size = sampler.batch
            if batch_size is not None and batch_size != size:
                raise ValueError(f"batch_size is {batch_size}, and that of the sampler {size}")
        elif batch_size is not None:
            size = whole("batch_size", batch_size, 1, SIZE_MAX)
        if drop_last is None and config is not None and config.drop_last:
            drop_last = True
        self._node = _node_loader.local_of(node, rank, world)
        if self._node is not None:
            rank = world = None
            is_told = drop_last or batch_sampler is not None or isinstance(sampler, Epoch)
            tail = tail if tail is not None or is_told else "pad"
        told: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed}
        told = {**told, "tail": tail, "rank": rank, "world": world}
        given = {name: value for name, value in told.items() if value is not None}
        self._order = order_of(sampler, batch_sampler, len(dataset), size, given)
        self._drop_last = self._order.tail == "drop"
        changes = changes_of(map_uncompressed, prefetch)
        settings = settings_of(num_workers, worker_start, worker_timeout_s)
        config = self._learn_arrays(config, settings, prefetch)
        # A data set of no samples may be one of arrays, which has 0 workers.
        is_of_samples = self._arrays is None and settings is not None
        if is_of_samples and (num_workers or self._first_places()[0]):
            changes["n_decode_threads"] = threads_of(num_workers)
        if has_recipes(self._transforms):
            self._asked.fused = Fused(self._transforms, self._first(config), config, self._files)
            self._asked.fused.seed = self._order.seed
            self._transforms = []
            if self._arrays is not None:
                config = self._arrays.take_recipes(self._asked.fused, cast("Config", config))
        elif self._arrays is not None:
            self._arrays.boxes = ()
        self._config = self._config_of(config)
        self._config = dataclasses.replace(self._config, **changes)
        if self._node is not None:
            self._order = self._node.order_of(self._order)
        self._pipeline: Pipeline | Consumer | None = None
        self._run: Run | None = None
        self._is_clean, self._is_closed = True, False
        self._places: Sequence[Place] = ()

    def _learn_arrays(
        self, config: Config | None, settings: Settings | None, prefetch: int | None
    ) -> Config | None:
        """Finds out whether the data set returns arrays; the config, theirs if none is given."""
        self._arrays: ArraySet | None = None
        if settings is None or not may_return_arrays(self._asked.dataset):
            return config
        places, indices = self._first_places()
        if not places:
            return config
        size = self._order.batch
        arrays = ArraySet(self._asked.dataset, settings, self._order.seed, (size, prefetch))
        try:
            is_array = arrays.learn(indices[0], places[0], config)
        except BaseException:
            arrays.close()
            raise
        if not is_array or self._node is not None:
            arrays.close()
        if not is_array:
            return config
        if self._node is not None:
            raise ValueError(
                "node is set, and the data set returns arrays, which each rank reads by workers of "
                "its own: give node=None and num_workers, or a data set that returns samples"
            )
        self._arrays = arrays
        return arrays.config(config, size)

    def _config_of(self, config: Config | None) -> Config:
        size, fused = self._order.batch, self._asked.fused
        if config is not None:
            # The order drops what is to be dropped.
            given = dataclasses.replace(config, samples_per_batch=size, drop_last=False)
            return given if fused is None else fused.config(given)
        sample = cast("Sample", self._first(None))
        shape = [stop - start for start, stop in sample.aabb]
        if not self._fit:
            self._files, self._fit = files_and_uris(self._files, [sample.uri])
        if fused is not None:
            return fused.config(Config(samples_per_batch=size, sample_shape=fused.made))
        return Config(samples_per_batch=size, sample_shape=shape)

    def _first_places(self) -> tuple[list[Place], list[int]]:
        if isinstance(self._order, Resampled):  # which is asked as an epoch begins, and not here
            return [Place(0, 0)][: self._order.count], [0]
        return self._order.copy().deal(1)

    def _first(self, config: Config | None) -> Any:
        """The first sample of the data set, or what it answers for that one. Without a config, a
        sample of one box."""
        if self._arrays is not None:
            return self._arrays.sample()
        places, indices = self._first_places()
        if not places:
            if config is not None:
                raise ValueError("transforms: recipes need a sample to know its shape")
            raise ValueError("config must be given: there is no sample to take sample_shape from")
        if callable(self._asked.boxes):
            if config is not None:
                return self._asked.boxes(indices[:1])
            raise ValueError("config must be given, with the fields that boxes of samples go to")
        sample = self._asked.sample(indices[0], places[0])
        if sample.boxes and config is None:
            raise ValueError("config must be given, with the fields that boxes of samples go to")
        return sample

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_closer", None)
        # A stream is of its process, and so is a pipeline.
        config = dataclasses.replace(self._config, consumer_stream=None)
        state |= {"_config": config, "_pipeline": None, "_run": None, "_is_clean": True}
        return {**state, "_order": self._order.copy()}  # a copy has a course of its own

    def __repr__(self) -> str:
        return f"<DataLoader of {self._config.shapes}, {self._order!r}>"

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the pipeline and worker processes: idempotent. Batches that came out stay valid."""
        self._is_closed = True
        if self._pipeline is not None:
            if self._node is not None:
                self._node.close(self._pipeline)
            self._closer()
        if self._arrays is not None:
            self._arrays.close()

    # ---- What it is -----------------------------------------------------------------------------

    @property
    def dataset(self) -> Any:
        return self._asked.dataset

    @property
    def batch_size(self) -> int:
        """Samples of a batch."""
        return self._order.batch if self._node is None else self._node.batch

    @property
    def config(self) -> Config:
        """The same of the pipeline."""
        return self._config

    @property
    def pipeline(self) -> Any:
        """The Pipeline that makes the batches: its stats, and where they are; with node= the Owner,
        or a Consumer of it. Opens it."""
        if self._is_closed:
            raise ShutdownError("this DataLoader is closed: make another")
        if self._pipeline is None:
            config = self._config
            if self._arrays is not None:
                self._arrays.open()  # a fork of the program must come before its threads
                config = self._arrays.failures.given_to(config)
            opens = Pipeline if self._node is None else self._node.open
            self._pipeline = opens(config, files=self._files, fit=self._fit)
            # Not __del__: when a cycle ends the pipeline's might come first, which warns.
            self._closer = weakref.finalize(self, self._pipeline.close)
        return self._pipeline

    def __len__(self) -> int:
        """Batches that this rank gets of an epoch."""
        order = self._order.copy()
        order.begin(order.epoch)
        return self._batches_of(order)

    @property
    def left(self) -> int:
        """Batches that this rank still gets of the epoch."""
        return self._batches_of(self._order)

    def _batches_of(self, order: Epoch) -> int:
        count = order.left
        if count == U64_MAX:
            raise TypeError("the epochs of this DataLoader have no end: their tail is 'repeat'")
        if self._node is not None:
            return self._node.batches_of(count, self._drop_last)
        return count // order.batch if self._drop_last else -(-count // order.batch)

    # ---- Where it is ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the batch that was returned last; after its end the next one."""
        return self._order.epoch

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of the samples of the batch that was returned last, also within its
        transforms, without those that only pad. If none is dropped, a sum over them does not depend
        on the world::

            sum(mix(place.position, digest) for place, digest in zip(loader.places, batch.digests))
        """
        return tuple(self._places)

    @property
    def plan(self) -> Plan:
        """The place of transforms: recipes run in the pipeline, the other callables in Python."""
        fused = self._asked.fused
        return Plan([], [*self._transforms]) if fused is None else fused.plan

    @property
    def is_portable(self) -> bool:
        """Whether the place is good for any world: always, but in the middle of a shuffle window of
        a `ChunkShuffle`."""
        return self._order.is_portable

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next iteration, from its front; later ones count on. Nothing changes if
        that is the next one anyway, so that a place which was loaded stays."""
        if self._run is None and self._order.epoch == epoch:
            return
        self._order.begin(epoch)
        self._run = None

    def state_dict(self) -> dict[str, int]:
        """The place after the last batch that was returned. It is one place for all ranks if it is
        taken after as many batches on each. So take it after a batch that all of them got, or after
        the loop over an epoch. In between some have had a batch more."""
        return self._order.state_dict()

    def load_state_dict(self, state: Mapping[str, int] | Sequence[Mapping[str, int]]) -> None:
        """Continues there, with the next iteration, from one state or from the list of those of all
        ranks, which must be the same. ValueError, and nothing changes, where they differ, where the
        state is of another order, or not for this world."""
        place = one_of(state)
        _node_loader.check_deal(self._order, self._node, place)
        self._order.resume(place)
        self._run = None

    # ---- Iteration ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        if self._run is not None:  # which was left early
            self._order.turn()
            self._run = None
        if isinstance(self._order, Resampled):
            self._order.ask_sampler()
        run = Run() if self._node is None else NodeRun()
        self._push(run)
        self._run = run
        return Batches(self, run)

    def _push(self, run: Run) -> None:
        """Hands over what follows the place, as far as there is room. Loading continues from
        here."""
        if isinstance(run, NodeRun) and self._node is not None:
            self._node.push(self, run)
            return
        pipeline = self.pipeline
        if not self._is_clean:
            pipeline.reset()
        self._is_clean, run.is_whole, run.error = False, False, None
        run.pushed.clear()
        if self._arrays is not None:
            self._arrays.begin(dealt(self._order.copy(), self._drop_last))
            return
        samples: Any
        if callable(self._asked.boxes):
            made = pipeline._table  # pyright: ignore[reportPrivateUsage]
            samples = _table.Tables(
                self._asked.tables(self._order.copy(), self._drop_last, run, made)
            )
        else:
            samples = self._asked.samples(self._order.copy(), self._drop_last, run)
        for call in (functools.partial(pipeline.push, samples), pipeline.flush):
            try:
                call()
            except Exception as error:  # after all that was pushed before it
                run.error = run.error or error

    def _next(self, run: Run) -> Any:
        if run.is_over:
            raise StopIteration
        if self._run is not run:
            raise RuntimeError(
                "another iteration began, or the place was set, which ended this one: for two at a "
                "time make two DataLoaders"
            )
        if run.is_torn and self._node is None:
            self._push(run)
        run.is_torn = True  # until this call is at its end
        try:
            batch = self._pop(run)
            made = None if batch is None else self._made(run, batch)
        except StopIteration as error:  # which would be taken for the end of the epoch
            raise RuntimeError("the data set, or a transform, raised StopIteration") from error
        run.is_torn = False
        if batch is not None:
            return made
        self._is_clean, run.is_over, self._run = True, True, None
        self._order.turn()
        raise StopIteration

    def _pop(self, run: Run) -> Batch | None:
        """The next batch; after the last one None, or the error that ended them."""
        if isinstance(run, NodeRun) and self._node is not None:
            return self._node.pop(self.pipeline, run, self._order)
        has_failed = False
        while True:
            try:
                if self._arrays is not None:
                    self._arrays.feed(self.pipeline, run)
                batch = self.pipeline.pop()
            except (PoolStarved, TryAgain):
                run.is_torn = False  # a later call gets the same batch
                raise
            except EndOfStream:
                break
            except Exception as error:
                # A sample that is wrong by itself is found while batches before it are to come. A
                # stream that has failed reports it again, before faults that were found in advance.
                if has_failed:
                    run.error = None
                    raise
                run.error, has_failed = run.error or error, True
                continue
            if run.pushed and batch.shape[0] == len(run.pushed[0][0]):
                return batch
            batch.release()  # what was left of a batch that is not whole
            break
        run.fail()
        if not run.is_whole or run.pushed:
            raise RuntimeError("somebody else used the pipeline of this DataLoader, or reset it")
        return None

    def _made(self, run: Run, batch: Batch) -> Any:
        made: Any = batch
        pushed = run.own if isinstance(run, NodeRun) else run.pushed
        places, batch.padded = pushed[0]
        self._places = places[: len(places) - batch.padded] if batch.padded else places
        for transform in self._transforms:
            made = transform(made)
        if self._asked.fused is not None:
            made = self._asked.fused.filtered(made, places)
        pushed.popleft()
        self._order.skip(run.group if isinstance(run, NodeRun) else len(places))
        return made


def one_of(states: Any) -> Any:
    """The state of all ranks, of one or of a list of them."""
    if isinstance(states, State) or not isinstance(states, (list, tuple)):
        return states
    told = [named_of(state) for state in cast("Sequence[Any]", states)]
    if not told:
        raise ValueError("state must be one, or the states of all ranks (got none)")
    first = told[0]
    for rank, state in enumerate(told):
        for name in {**first, **state}:
            if first.get(name) == state.get(name):
                continue
            if name not in ("epoch", "position"):
                raise ValueError(
                    f"the states of the ranks are not of one run: {name} is {first.get(name)} for "
                    f"rank 0, and {state.get(name)} for rank {rank}"
                )
            places = [
                f"epoch {each['epoch']}, position {each['position']}" for each in (first, state)
            ]
            raise ValueError(
                f"the states of the ranks differ: rank 0 is at {places[0]}, and rank {rank} at "
                f"{places[1]}: save after a batch that all ranks got, or after the loop over an "
                "epoch, and give the states of that"
            )
    return first


def transforms_of(given: Any) -> list[Callable[[Any], Any]]:
    if given is None:
        return []
    made: list[Any] = [given]
    if not callable(given) and isinstance(given, Iterable):
        made = list(cast("Iterable[Any]", given))
    for number, transform in enumerate(made):
        if not callable(transform):
            raise TypeError(f"transforms[{number}] must be callable (got {short(transform)})")
    return made


def threads_of(num_workers: Any) -> int:
    """For a data set of samples, which threads read."""
    if whole("num_workers", num_workers, 0, LIMITS["n_decode_threads"][2]) == 0:
        raise ValueError(
            "num_workers must be >= 1 (got 0): a pipeline always has threads of its own, as many "
            "as CPUs if num_workers is left out"
        )
    return num_workers


def changes_of(map_uncompressed: Any, prefetch: Any) -> dict[str, Any]:
    """Fields of the config that arguments of a loader replace."""
    changes: dict[str, Any] = {}
    if map_uncompressed is not None:
        changes["map_uncompressed"] = map_uncompressed
    if prefetch is not None:
        most = LIMITS["n_batch_slots"][2] - 1
        changes["n_batch_slots"] = whole("prefetch", prefetch, 1, most) + 1
    return changes


def size_of_batches(given: Any, size: int | None, sampler: Any, batch_size: Any) -> int:
    """The samples of a batch of a batch_sampler: its own batch_size, or that of config."""
    for name, other in (("sampler", sampler), ("batch_size", batch_size)):
        if other is not None:
            raise ValueError(f"{name} and batch_sampler are both given: give one of them")
    if not is_for_epochs(given):
        raise TypeError(
            "batch_sampler must be an iterable of lists of numbers, which can be iterated anew in "
            f"each epoch: give a list of an iterator (got {short(given)})"
        )
    own = getattr(given, "batch_size", None)
    own = size if own is None else own
    if own is None:
        raise ValueError(
            "config must be given: batch_sampler has no batch_size, and Config.samples_per_batch "
            "is the number of samples of its batches"
        )
    return whole("batch_sampler.batch_size", own, 1, SIZE_MAX)


def order_of(
    sampler: Any, batch_sampler: Any, count: int, size: int | None, given: dict[str, Any]
) -> Epoch:
    """The order of a loader of that many samples, with batches of that size, and what else was
    given of it."""
    if batch_sampler is not None:
        for name in ("tail", "drop_last"):
            if name in given:
                raise ValueError(f"{name} and batch_sampler are both given: it makes the batches")
    if isinstance(sampler, Epoch):
        for name in given:
            raise ValueError(f"{name} and an Epoch as sampler are both given: it has its own")
        order = sampler.copy(batch=size)
    else:
        drops = flag("drop_last", given.pop("drop_last", False))
        if drops and given.get("tail", "drop") != "drop":
            raise ValueError(f"drop_last=True and tail={given['tail']!r} are both given")
        usual = "drop" if drops else "pad" if given.get("world", 1) != 1 else "short"
        given.setdefault("tail", usual)
        if batch_sampler is not None:
            return resampled(batch_sampler, count, size, given, by_batch=True)
        if is_for_epochs(sampler) and not hasattr(sampler, "__getitem__"):
            return resampled(sampler, count, size, given, by_batch=False)
        samples, chunk_shuffle = samples_of(sampler, count)
        order = Epoch(samples, chunk_shuffle=chunk_shuffle, batch=size, **given)
    reach = order.n if order.samples is None else order.samples.reach
    check_reach("sampler", reach, count)
    return order


def samples_of(sampler: Any, count: int) -> tuple[int | Table | Draw, ChunkShuffle | None]:
    if sampler is None:
        return count, None
    if isinstance(sampler, ChunkShuffle):
        return count, sampler
    if isinstance(sampler, (Table, Draw)):
        return sampler, None
    if not is_for_epochs(sampler):
        raise TypeError(
            "sampler must be numbers of samples that can be iterated anew in each epoch (a list, a "
            "sampler of torch, no iterator or set: give list(..) of it), or of wavetrain.epoch: "
            f"Epoch, ChunkShuffle, Subset, Weighted, .. (got {short(sampler)})"
        )
    return subset_of("sampler", sampler), None
