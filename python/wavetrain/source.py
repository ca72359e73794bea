"""Batches of what Python gives: callbacks, generators, iterables, or what another thread feeds.

In: arrays and numbers, by the batch or by the sample. Out: the batches of a pipeline of `Config`,
in order. The words are those that users of DALI's external_source know; `Source` lists the
differences. `import wavetrain` does not import this module.

This file is over 500 lines because all calls of Source share the place in its stream.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from wavetrain._array_sets import WORKERS_MAX, Failures, Settings, settings_of
from wavetrain._asked import (
    END,
    WORDS,
    Answer,
    BatchInfo,
    Now,
    SampleInfo,
    held,
    is_no_end,
    kind_of,
    until_end,
    wanted_of,
)
from wavetrain._batch import Batch
from wavetrain._border import I64_MAX, flag, short, whole
from wavetrain._config import Config
from wavetrain._errors import PoolStarved, TryAgain
from wavetrain._fed import Fed, feed
from wavetrain._interrupts import Kept
from wavetrain._owned import Owned
from wavetrain._pipeline import Pipeline
from wavetrain._sample import Box, Sample
from wavetrain._words import SOURCE, SOURCE_HAS, knows
from wavetrain._worker import Failed, Request
from wavetrain._workers import Pool

__all__ = ["BatchInfo", "SampleInfo", "Source"]

THREADS_MAX = 1024
AHEAD = 2  # batches that the pipeline is given before the first of them is popped
CYCLES = {None: "no", False: "no", True: "quiet", "no": "no", "quiet": "quiet", "raise": "raise"}


class Place(NamedTuple):
    """A place in the stream: the next batch, and how many samples the epoch has before it."""

    epoch: int
    iteration: int
    samples: int


class Made(NamedTuple):
    """A batch that the pipeline was given, and the place after it."""

    samples: list[Sample]
    behind: Place


@knows(SOURCE)
class Source(Owned):
    """Batches of the data that `source` gives, made by `config`::

        def source(info):  # batch=False: asked for a sample
            if info.idx_in_epoch == len(images):
                raise StopIteration
            return images[info.idx_in_epoch], labels[info.idx_in_epoch]

        with Source(source, config, batch=False, parallel=4, cycle="raise") as batches:
            for batch in batches:
                with batch:
                    train(batch["image"].torch(), batch["label"].torch())

    `source` is a callable that takes one argument: the iteration, a BatchInfo (batch_info=True) or
    a SampleInfo (batch=False). Or it is a callable that takes none, a function that is a generator,
    an iterable, or None, if `feed` is called instead. StopIteration is its end. Samples before it
    that are not a batch come out as a smaller one, or with Config.drop_last not at all.

    It gives an array or a number (as of Box) for each field, in the order of Config.fields, or a
    dict by their names, in which some may be missing. For a single field it gives just that. With
    batch=True it gives whole batches of them: an array with one axis more, or a list, whose arrays
    may have different shapes. An array that is smaller than its field lies at the first place of
    all; Batch.filled_shape is how far it reaches. The tag of a sample is its number in the epoch.

        cycle: at the end "no": StopIteration, until reset. "raise": StopIteration, and the next
            call begins another epoch. "quiet": another epoch begins, and nobody is told.
        parallel: threads that make calls, True for as many as CPUs; or an executor with submit,
            for example a thread pool of the program's own. Results are taken in order. One thread
            asks a source that has a state, as an iterable has. Other callables must not mind the
            order of calls, nor calls after the end.
        workers: "process": worker processes make the calls, `parallel` of them or as many as CPUs;
            a number: that many processes. They are for callables of one argument that hold the GIL,
            and write their results into shared memory. Before each call `random`, numpy's
            global generator and torch's are seeded from the epoch and the number of the sample. A
            sample whose call raises, or whose worker dies or hangs, has a status
            (Config.on_error="skip"), or is a StorageError with the traceback, in its order.
        worker_start: "forkserver" (the default) and "spawn" send the callable by pickle; "fork"
            copies this process, in which no pipeline may be open by then.
        worker_timeout_s: a call that takes longer [60] ends its worker, which is replaced.
        prefetch: batches that these threads are asked for ahead.
        blocking: False: where the next batch was not fed, or the threads are not done, TryAgain.
        repeat_last: where nothing was fed, the last that was is taken again.
        dtype, ndim, layout: of arrays, one for all or a list with one for each field, None for any:
            others are refused. A layout ("HWC") has as many letters as axes.
        copy: arrays are copied when the call returns, by the thread that made it, or by `feed`.
            Otherwise those of more than 64 bytes must not be written to before their batch comes
            out.
        prefetch_queue_depth, no_copy: DALI's names of prefetch, and of copy with the other sign.

    An exception of `source` is raised after the batches before it, and again until reset. Calls are
    made up to two batches before a batch is needed, without threads too. `state_dict()` is the
    place after the last batch that was returned; load_state_dict asks a callable for the batches
    that follow, and skips those that iterables give before. `feed` and `end` may be called from any
    thread, all else from one at a time.
    """

    instead = "make one where it is used, and load the state_dict() of this one there"
    others = SOURCE_HAS

    def __init__(
        self,
        source: Callable[..., Any] | Iterable[Any] | None,
        config: Config,
        *,
        batch: bool = True,
        batch_info: bool = False,
        cycle: str | bool | None = None,
        parallel: Any = 0,
        workers: str | int | None = None,
        worker_start: str | None = None,
        worker_timeout_s: float | None = None,
        prefetch: int | None = None,
        blocking: bool = True,
        repeat_last: bool = False,
        dtype: Any = None,
        ndim: Any = None,
        layout: Any = None,
        copy: bool | None = None,
        prefetch_queue_depth: int | None = None,
        no_copy: bool | None = None,
    ) -> None:
        given: Any = config
        if not isinstance(given, Config):
            raise TypeError(f"config must be a wavetrain.Config (got {short(given)})")
        if not config.fields and not config.max_boxes_per_sample:
            config = dataclasses.replace(config, max_boxes_per_sample=1)
        self._config, self._source = config, source
        self._is_batch, self._batch_info = flag("batch", batch), flag("batch_info", batch_info)
        self._blocking, self._copy = flag("blocking", blocking), copy_of(copy, no_copy)
        self._repeat_last = flag("repeat_last", repeat_last)
        self._prefetch = depth_of(prefetch, prefetch_queue_depth)
        self._kind = kind_of(source)
        if cycle not in CYCLES:
            raise ValueError(f"cycle must be 'no', 'quiet' or 'raise' (got {short(cycle)})")
        self._cycle = CYCLES[cycle]
        if self._cycle != "no" and self._kind in ("fed", "stateful", "iterator"):
            raise ValueError(
                f"cycle must be 'no': a source that is {WORDS[self._kind]} cannot begin again; a "
                "generator function can, such as one with `yield from source`"
            )
        if self._repeat_last and source is not None:
            raise ValueError("repeat_last is for what is fed: source must be None")
        if not self._is_batch and source is None:
            raise ValueError("batch must be True where source is None: whole batches are fed")
        self._fields: list[str | int] = [field.name for field in config.fields] or [0]
        self._wanted = wanted_of(dtype, ndim, layout, len(self._fields))
        count = processes_of(workers, parallel)
        settings = settings_of(count, worker_start, worker_timeout_s)
        self._failures = Failures()
        if settings is None:
            self._executor, self._is_own = self._executor_of(parallel)
        else:
            config = self._failures.given_to(config)
            self._executor, self._is_own = self._pool_of(settings), True
        self._wake = threading.Condition()
        self._fed: collections.deque[list[tuple[Box, ...]] | None] = collections.deque()
        self._last: list[tuple[Box, ...]] | None = None
        try:
            self._pipeline = Pipeline(config)
        except BaseException:
            if self._is_own:
                self._executor.shutdown()
            raise
        self._place = Place(0, 0, 0)  # of what came out
        self._begin(self._place)

    def _executor_of(self, parallel: Any) -> tuple[Any, bool]:
        if callable(getattr(parallel, "submit", None)):
            if self._kind != "indexed":
                raise ValueError(
                    "parallel must be a number: only a callable that takes an argument can be "
                    f"asked by the threads of an executor, and source is {WORDS[self._kind]}"
                )
            return parallel, False
        if isinstance(parallel, bool):
            parallel = len(os.sched_getaffinity(0)) if parallel else 0
        threads = whole("parallel", 0 if parallel is None else parallel, 0, THREADS_MAX)
        if not threads or self._kind == "fed":
            return None, False
        threads = threads if self._kind == "indexed" else 1
        return concurrent.futures.ThreadPoolExecutor(threads, "wavetrain-source"), True

    def _pool_of(self, settings: Settings) -> Pool:
        if self._kind != "indexed":
            raise ValueError(
                "workers must be None: only a callable that takes an argument can be asked by "
                f"several processes, and source is {WORDS[self._kind]}"
            )
        count, start, timeout_s = settings
        pool = Pool("source", cast("Any", self._source), count, start=start, timeout_s=timeout_s)
        weakref.finalize(self, pool.close)
        return pool

    @property
    def pipeline(self) -> Pipeline:
        """That makes the batches: its stats, and where they are."""
        return self._pipeline

    def __iter__(self) -> Source:
        return self

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the pipeline and the threads: idempotent. Calls under way are waited for."""
        self._forget()
        if self._is_own:
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._pipeline.close()

    def reset(self) -> None:
        """Begins the next epoch. Data that was fed and not taken is dropped."""
        self._restart(Place(self._place.epoch + 1, 0, 0))

    def state_dict(self) -> dict[str, int]:
        """The place after the last batch that was returned."""
        return self._place._asdict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continues from there. Only for iterables, in a Source that is new."""
        if self._kind in ("fed", "stateful"):
            raise TypeError(f"a source that is {WORDS[self._kind]} has no place to go to")
        given: Any = state
        if not isinstance(given, Mapping) or any(name not in given for name in Place._fields):
            raise TypeError(
                "state must be what state_dict() of a Source gave, with epoch, iteration and "
                f"samples (got {short(given)})"
            )
        self._restart(Place(*[whole(name, state[name], 0, I64_MAX) for name in Place._fields]))

    # ---- What is under way ----------------------------------------------------------------------

    def _begin(self, place: Place, in_flight: Iterable[Made] = ()) -> None:
        """The place in an epoch; batches of another may still be queued."""
        self._next = place  # that is made next
        self._asked: collections.deque[list[Answer]] = collections.deque()
        self._is_over, self._failure = False, cast("Exception | None", None)
        self._in_flight = collections.deque(in_flight)
        self._is_torn = False  # by an interrupt
        self._iterator = self._iterate(place)

    def _iterate(self, place: Place) -> Iterator[Any] | None:
        source: Any = self._source
        skipped = place.iteration if self._is_batch else place.samples
        if self._kind == "generator":
            return itertools.islice(source(), skipped, None)
        if self._kind in ("iterable", "iterator"):
            return itertools.islice(iter(source), skipped, None)
        return None

    def _forget(self) -> None:
        self._cancel()
        with self._wake:
            self._fed.clear()

    def _cancel(self) -> None:
        for answers in self._asked:
            for answer in answers:
                answer.cancel()
        self._asked.clear()

    def _restart(self, place: Place) -> None:
        self._forget()
        self._pipeline.reset()
        self._place, self._last = place, None
        self._begin(place)

    def __next__(self) -> Batch:
        if self._is_torn:
            self._mend()
        try:
            while len(self._in_flight) < AHEAD and self._make():
                pass
            if self._in_flight:
                batch = self._pipeline.pop()
                self._place = self._in_flight.popleft().behind
                return batch
        except BaseException as error:
            self._is_torn |= not isinstance(error, Exception)
            raise
        if self._failure is not None:
            raise self._failure
        if not self._is_over:
            why = "nothing was fed" if self._source is None else "calls are under way"
            raise TryAgain(f"next: the next batch is not there yet: {why}")
        if self._cycle == "raise":
            self._place = Place(self._next.epoch + 1, 0, 0)
            self._begin(self._place)
        raise StopIteration

    def _mend(self) -> None:
        """Gives the pipeline once more what did not come out: an interrupt may have lost it."""
        self._pipeline.reset()
        for made in self._in_flight:
            self._hand_over(made.samples)
        self._is_torn = False

    def _make(self) -> bool:
        """Gives the pipeline the next batch; whether there was one."""
        if self._is_over or self._failure is not None:
            return False
        try:
            rows, is_end = self._rows()
        except PoolStarved:
            raise
        except TryAgain:
            return False
        except Exception as error:
            self._failure = error
            return False
        epoch, iteration, first = self._next
        is_short = len(rows) < self._config.samples_per_batch
        is_kept = bool(rows) and not (is_short and self._config.drop_last)
        behind = Place(epoch, iteration + bool(rows), first + is_kept * len(rows))
        samples = [Sample(boxes=boxes, tag=first + n) for n, boxes in enumerate(rows)]
        with Kept():  # all of it or nothing
            if self._asked:
                self._asked.popleft()
            elif self._source is None and self._fed and rows is not self._last:
                self._fed.popleft()
                self._last = rows if self._repeat_last and rows else None
            self._next, self._is_over = behind, is_end
            if is_kept:
                self._in_flight.append(Made(samples, behind))
        if is_kept:
            try:
                self._hand_over(samples)
            except Exception as error:
                self._in_flight.pop()
                self._failure = error
                return False
        if is_end:
            self._cancel()
            if self._cycle == "quiet" and behind.samples:
                self._begin(Place(epoch + 1, 0, 0), self._in_flight)
        return True

    def _hand_over(self, samples: list[Sample]) -> None:
        self._pipeline.push(samples)
        if len(samples) < self._config.samples_per_batch:
            self._pipeline.flush()

    # ---- What the source gives ------------------------------------------------------------------

    def _rows(self) -> tuple[list[tuple[Box, ...]], bool]:
        """The samples of the next batch, and whether they are the last. TryAgain where they are not
        there and nobody should wait."""
        if self._source is None:
            return self._rows_fed()
        ahead = self._prefetch + 1 if self._executor is not None else 1
        while len(self._asked) < ahead:
            self._asked.append(self._ask(self._next.iteration + len(self._asked)))
        answers = self._asked[0]
        must_wait = self._blocking and not self._in_flight
        if not must_wait and not all(answer.done() for answer in answers):
            raise TryAgain("next: the calls are not done")
        if self._is_batch:
            value = answers[0].result()
            is_end = value is END
            if isinstance(value, Failed):
                first, size = self._next.samples, self._config.samples_per_batch
                rows = [self._failed(first + number, value) for number in range(size)]
            else:
                rows = [] if is_end else self._split(value)
        else:
            values = (answer.result() for answer in answers)
            rows = [
                self._failed(self._next.samples + number, value)
                if isinstance(value, Failed)
                else self._row(value)
                for number, value in enumerate(itertools.takewhile(is_no_end, values))
            ]
            is_end = len(rows) < len(answers)
        return rows, is_end

    def _ask(self, iteration: int) -> list[Answer]:
        """Has the calls for a batch made."""
        source, calls = cast("Any", self._source), list[Callable[[], Any]]()
        size = self._config.samples_per_batch
        numbers = range(1 if self._is_batch else size)
        if isinstance(self._executor, Pool):
            epoch, first = self._next.epoch, iteration * size
            infos = [self._info(iteration, number) for number in numbers]
            rows = [Request(info, epoch, first + number) for number, info in enumerate(infos)]
            return [*self._executor.ask(rows)]
        for number in numbers:
            call: Callable[[], Any] = source
            if self._iterator is not None:
                call = functools.partial(next, self._iterator)
            elif self._kind == "indexed":
                call = functools.partial(source, self._info(iteration, number))
            calls.append(functools.partial(until_end, call, self._copy))
        if self._executor is None:
            return [Now(call) for call in calls]
        return [self._executor.submit(call) for call in calls]

    def _info(self, iteration: int, number: int) -> Any:
        """The argument of a call."""
        epoch, size = self._next.epoch, self._config.samples_per_batch
        if not self._is_batch:
            return SampleInfo(iteration * size + number, number, iteration, epoch)
        return BatchInfo(iteration, epoch) if self._batch_info else iteration

    def _failed(self, number: int, failed: Failed) -> tuple[Box, ...]:
        """The boxes of a sample that no worker could make."""
        name = f"sample {number} in epoch {self._next.epoch}"
        return self._failures.boxes(name, failed.text, self._fields[0])

    def _outputs(self, value: Any) -> list[tuple[int, Any]]:
        """The values for each field, by its number."""
        if isinstance(value, Mapping):
            named = cast("Mapping[Any, Any]", value)
            for name in named:
                if name not in self._fields:
                    raise ValueError(f"source gives a field {name!r}, and the config has none")
            return [(n, named[name]) for n, name in enumerate(self._fields) if name in named]
        if len(self._fields) == 1:
            return [(0, value)]
        if not isinstance(value, (tuple, list)) or len(cast("Any", value)) != len(self._fields):
            raise TypeError(
                f"source must give a tuple of {len(self._fields)}, or a dict by the names of the "
                f"fields (got {short(value)})"
            )
        return [*enumerate(cast("Any", value))]

    def _row(self, value: Any) -> tuple[Box, ...]:
        """The boxes of one sample."""
        return tuple([self._box(number, each) for number, each in self._outputs(value)])

    def _split(self, value: Any) -> list[tuple[Box, ...]]:
        """The boxes of each sample of a batch."""
        columns = list[list[Box]]()
        for number, column in self._outputs(value):
            items: Iterable[Any] = column
            if not isinstance(column, (list, tuple)):
                whole_column = feed(column)
                if not isinstance(whole_column, Fed) or not whole_column.shape:
                    raise TypeError(
                        f"a batch of {self._fields[number]!r} must be an array with an axis of "
                        f"samples, or a list (got {short(column)})"
                    )
                items = whole_column.rows()
            columns.append([self._box(number, item) for item in items])
        counts = {len(column) for column in columns}
        size = self._config.samples_per_batch
        if len(counts) != 1 or not 1 <= min(counts) <= size:
            found = ", ".join(map(str, sorted(counts)))
            raise ValueError(f"a batch must have 1 to {size} samples, of each field (got {found})")
        return [*zip(*columns)]

    def _box(self, number: int, value: Any) -> Box:
        made, field = feed(value), self._fields[number]
        if made is None:
            raise TypeError(
                f"source must give arrays and numbers (got {short(value)} for {field!r})"
            )
        dtype, ndim = self._wanted[number]
        if ndim is not None and len(made.shape) != ndim:
            raise ValueError(f"{field!r} must have {ndim} axes (got {len(made.shape)})")
        if dtype is not None and isinstance(made, Fed) and made.dtype is not dtype:
            name, found = dtype.name.lower(), made.dtype.name.lower()
            raise TypeError(f"{field!r} must be an array of {name} (got {found})")
        return Box(array=made, field=field)

    # ---- What is fed ----------------------------------------------------------------------------

    def feed(self, data: Any) -> None:
        """Queues a batch, where source is None. A fault in it is raised here."""
        self._check_fed()
        rows = self._split(held(data, self._copy, 2))
        with self._wake:
            self._fed.append(rows)
            self._wake.notify_all()

    def feed_input(
        self,
        name: str,
        data: Any,
        layout: Any = None,
        cuda_stream: Any = None,
        use_copy_kernel: Any = False,
    ) -> None:
        """`feed` as DALI's pipelines have it, where Config.fields has one field, of that name."""
        if self._fields != [name]:
            names = ", ".join(map(repr, self._fields)) if self._config.fields else "none"
            raise ValueError(
                f"feed_input feeds the only field by its name, and Config.fields has {names}: call "
                f"feed(data), or feed of a dict of all fields by their names (got {short(name)})"
            )
        if layout is not None:
            raise ValueError("feed_input has no layout: give Source(None, config, layout=..)")
        if cuda_stream is not None:
            raise ValueError(f"feed_input has no cuda_stream: {SOURCE['cuda_stream']}")
        if use_copy_kernel:
            raise ValueError(f"feed_input has no use_copy_kernel: {SOURCE['use_copy_kernel']}")
        self.feed(data)

    def end(self) -> None:
        """Declares that no more is fed: after the last batch follows StopIteration, until reset."""
        self._check_fed()
        with self._wake:
            self._fed.append(None)
            self._wake.notify_all()

    def _check_fed(self) -> None:
        if self._source is not None:
            raise TypeError(
                f"feed and end are for a Source without a source: Source(None, config) (source is "
                f"{WORDS[self._kind]})"
            )

    def _rows_fed(self) -> tuple[list[tuple[Box, ...]], bool]:
        with self._wake:
            if not self._fed and self._last is not None and not self._in_flight:
                return self._last, False
            if not self._fed and (self._in_flight or not self._blocking):
                raise TryAgain("next: nothing was fed")
            if not self._fed and not self._wake.wait_for(
                lambda: self._fed, self._config.pop_timeout_s
            ):
                raise PoolStarved("next: nothing was fed within Config.pop_timeout_s")
            rows = self._fed[0]
        return rows or [], rows is None


def processes_of(workers: Any, parallel: Any) -> Any:
    """The number of worker processes to be; None: calls are made by threads."""
    if workers is None or isinstance(workers, str):
        if workers not in (None, "thread", "process"):
            text = "workers must be 'process', 'thread' or a number of processes"
            raise ValueError(f"{text} (got {short(workers)})")
        if workers != "process":
            return None
        if parallel is None or isinstance(parallel, bool) or parallel == 0:
            return len(os.sched_getaffinity(0))
        return whole("parallel", parallel, 1, WORKERS_MAX)
    if parallel:
        raise ValueError("workers and parallel are both given: workers='process' takes the number")
    return whole("workers", workers, 1, WORKERS_MAX)


def depth_of(prefetch: Any, prefetch_queue_depth: Any) -> int:
    """Batches that calls are made for in advance."""
    if prefetch is not None and prefetch_queue_depth is not None:
        raise ValueError("prefetch and prefetch_queue_depth are both given: give prefetch")
    if prefetch_queue_depth is not None:
        return whole("prefetch_queue_depth", prefetch_queue_depth, 1, 1 << 20)
    return whole("prefetch", 1 if prefetch is None else prefetch, 1, 1 << 20)


def copy_of(copy: Any, no_copy: Any) -> bool:
    """Whether arrays are copied."""
    if copy is not None and no_copy is not None:
        raise ValueError("copy and no_copy are both given: give copy")
    if no_copy is not None:
        return not flag("no_copy", no_copy)
    return flag("copy", False if copy is None else copy)
