"""Data sets that return arrays, as a DataLoader reads them: in worker processes, or here.

In: a data set with `len` and items of arrays, an order. Out: samples whose boxes are the arrays of
blocks, pushed in that order as their batches are complete, before they are popped. A sample that
failed has a box of an array that cannot be read, so that the pipeline gives it its status, or ends
with its text.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
import operator
import random
import struct
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from wavetrain._arrays import SourceInfo
from wavetrain._asked import END, Now
from wavetrain._blocks import HEADER_BYTES, Block, Lease, Writer, type_of, value_of
from wavetrain._border import label, real, short, whole
from wavetrain._config import Config, Dtype, Field
from wavetrain._fed import Fed, Number
from wavetrain._log import line
from wavetrain._native import NAME_BYTES
from wavetrain._orders import Place, Places
from wavetrain._pipeline import Pipeline
from wavetrain._sample import Box, Sample, whole_box
from wavetrain._worker import A_SAMPLE, Failed, Request, made
from wavetrain._workers import Pool, start_of, task_rows

LOGGER = logging.getLogger("wavetrain.workers")
WORKERS_MAX = 1024
AHEAD = 2  # batches that the pipeline has, and batches that workers are asked for in addition
FAILURES_MAX = 4096  # as many texts are kept
TIMEOUT_S = 60.0
INTEGERS = (Dtype.U8, Dtype.U16, Dtype.U32, Dtype.U64, Dtype.I8, Dtype.I16, Dtype.I32, Dtype.I64)
PACKED = {Dtype.I64: "=q", Dtype.I32: "=i", Dtype.U8: "=B", Dtype.F64: "=d"}
FLOATS = (Dtype.F16, Dtype.BF16, Dtype.F32, Dtype.F64)


class Failures:
    """Config.source of a pipeline of arrays: arrays that cannot be read, each with a reason."""

    def __init__(self) -> None:
        self.texts = collections.OrderedDict[str, str]()

    def boxes(self, name: str, text: str, field: str | int) -> tuple[Box, ...]:
        """The boxes of a sample that failed."""
        LOGGER.warning("%s: %s", name, line(text.partition("\n")[0]))
        self.texts.pop(name, None)
        self.texts[name] = text
        if len(self.texts) > FAILURES_MAX:
            self.texts.popitem(last=False)
        return (Box(f"hook:{name}", [(0, 1)], field),)

    def describe(self, name: str) -> SourceInfo:
        raise RuntimeError(self.texts.get(name, "it failed"))

    def read(self, name: str, start: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        raise RuntimeError(self.texts.get(name, "it failed"))

    def given_to(self, config: Config) -> Config:
        if config.source is not None:
            raise ValueError(
                "config.source must be None with worker processes, whose samples name no arrays"
            )
        return dataclasses.replace(config, source=self)


class Settings(NamedTuple):
    """How a data set is read."""

    processes: int  # 0: none, the program reads it
    start: str
    timeout_s: float


def settings_of(num_workers: Any, worker_start: Any, worker_timeout_s: Any) -> Settings | None:
    """None: no processes are asked for."""
    start = start_of(worker_start)
    timeout_s = TIMEOUT_S
    if worker_timeout_s is not None:
        timeout_s = real("worker_timeout_s", worker_timeout_s)
        if not 0 < timeout_s <= 1e6:
            raise ValueError(f"worker_timeout_s must be above 0 and at most 1e6 (got {timeout_s})")
    if num_workers is None:
        return None
    return Settings(whole("num_workers", num_workers, 0, WORKERS_MAX), start, timeout_s)


class Part(NamedTuple):
    """The array that each sample has for a field."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.shape)) or 'one'} {self.dtype.name.lower()}"


class Layout(NamedTuple):
    """The way from samples to boxes. of: its origin, in words."""

    kind: type  # of a sample: tuple, dict, or Fed if it is one array
    parts: tuple[Part, ...]
    of: str

    def boxes(self, value: Any) -> tuple[Box, ...]:
        """The boxes of a sample. ValueError if it has another layout."""
        parts = self.parts
        if isinstance(value, Mapping):
            named = cast("Mapping[Any, Any]", value)
            if {*named} != {part.name for part in parts}:
                text = f"it has the keys {short([*named])}, and {self.of} {[p.name for p in parts]}"
                raise ValueError(text)
            values = [named[part.name] for part in parts]
        else:
            is_one = not isinstance(value, (tuple, list))
            values = [value] if is_one else cast("list[Any]", value)
            if len(values) != len(parts):
                raise ValueError(f"it has {len(values)} arrays, and {self.of} {len(parts)}")
        return tuple([self.box(part, each) for part, each in zip(parts, values)])

    def box(self, part: Part, value: Any) -> Box:
        if not isinstance(value, (Fed, Number)):
            text = f"field {part.name!r} must be one array or number"
            raise ValueError(f"{text} (got {short(value)})")
        is_config = self.of == "the config"
        dtype = value.dtype if isinstance(value, Fed) else type_of(value)
        is_number = isinstance(value, Number) and is_config  # it takes the type of its field
        is_typed = dtype is part.dtype or is_number or (is_config and casts(dtype, part.dtype))
        if tuple(value.shape) != part.shape or not is_typed:
            found = Part(part.name, dtype, tuple(value.shape))
            raise ValueError(f"field {part.name!r} is {found}, and {self.of} has {part}")
        if isinstance(value, Number):
            dtype, packed = packed_of(value, part.dtype)
            value = Fed(dtype, len(packed), (), (), packed)
        return whole_box(value, part.name or 0)

    def config(self, samples_per_batch: int) -> Config:
        """With a field for each part; for a single array with its type and shape."""
        first = self.parts[0]
        if self.kind is Fed and first.shape:
            return Config(
                samples_per_batch=samples_per_batch,
                sample_shape=first.shape,
                dtype=first.dtype,
                max_boxes_per_sample=1,
            )
        fields = [Field(part.name or "0", part.shape, part.dtype) for part in self.parts]
        return Config(samples_per_batch=samples_per_batch, fields=fields)


def packed_of(number: Number, dtype: Dtype) -> tuple[Dtype, bytes]:
    """`number.to(dtype)`, with a short way for numbers that have the type."""
    value, code = number.value, PACKED.get(dtype, "")
    if type(value) is (float if dtype is Dtype.F64 else int) and code:
        with contextlib.suppress(struct.error):  # out of range, which `to` refuses
            return dtype, struct.pack(code, value)
    return number.to(dtype)


def casts(source: Dtype, target: Dtype) -> bool:
    """Whether the library makes elements of the one type of those of the other."""
    if target in FLOATS:
        return source in FLOATS or source in INTEGERS or source is Dtype.BOOL
    if target in INTEGERS and source in INTEGERS:
        size, room = int(source.name[1:]), int(target.name[1:])
        is_alike = source.name[0] == target.name[0]
        return (is_alike and size <= room) or (source.name[0] == "U" and size < room)
    return source is Dtype.BOOL and target in INTEGERS


def layout_of_config(config: Config) -> Layout:
    parts = [Part(f.name, f.dtype, tuple(f.sample_shape)) for f in config.fields]
    parts = parts or [Part("", config.dtype, tuple(config.sample_shape))]
    return Layout(tuple, tuple(parts), "the config")


def layout_of_value(value: Any, name: str) -> Layout:
    """The layout of the first sample."""

    def part(of: str, each: Any) -> Part:
        if not isinstance(each, (Fed, Number)):
            raise TypeError(f"{name}: field {of!r} must be one array or number (got {short(each)})")
        dtype = each.dtype if isinstance(each, Fed) else type_of(each)
        if dtype is Dtype.RAW:
            raise TypeError(f"config must be given, with the fields: {name} has raw bytes")
        if 0 in each.shape:
            raise ValueError(f"{name}: an array must have elements (got the shape {each.shape})")
        return Part(of, dtype, tuple(each.shape))

    if not value and isinstance(value, (dict, tuple, list)):
        raise TypeError(f"{name} has no array")
    if isinstance(value, dict):
        named = cast("dict[Any, Any]", value)
        parts = [
            part(label(f"a key of {name}", of, NAME_BYTES - 1), each) for of, each in named.items()
        ]
        return Layout(dict, tuple(parts), name)
    if isinstance(value, (tuple, list)):
        items = cast("Sequence[Any]", value)
        return Layout(tuple, tuple([part(str(n), each) for n, each in enumerate(items)]), name)
    return Layout(Fed, (part("" if getattr(value, "shape", ()) else "0", value),), name)


class Here:
    """Makes rows in this process, whose global generators keep their states."""

    def __init__(self, call: Any, seed: int) -> None:
        self.call, self.seed = call, seed

    def ask(self, rows: Sequence[Request]) -> list[Now]:
        return [Now(functools.partial(self.one, row)) for row in rows]

    def one(self, row: Request) -> Any:
        numpy: Any = sys.modules.get("numpy")
        torch: Any = sys.modules.get("torch")
        kept: list[Any] = [random.getstate()]
        kept.append(numpy and numpy.random.get_state())
        kept.append(torch and torch.get_rng_state())
        try:
            writer = Writer(Block(HEADER_BYTES))
            tree = made(self.call, row, self.seed, writer, Exception)
        finally:
            random.setstate(kept[0])
            if numpy is not None:
                numpy.random.set_state(kept[1])
            if torch is not None:
                torch.set_rng_state(kept[2])
        if tree is None or isinstance(tree, Failed):
            return END if tree is None else tree
        return value_of(tree, [Lease(block) for block in writer.blocks])

    def close(self) -> None:
        """It holds nothing that must be freed."""


class Batch(NamedTuple):
    """A batch that was asked for."""

    places: Places
    padded: int
    indices: list[int]
    answers: list[Any]


class ArraySet:
    """A data set of arrays, and the batches of an epoch that were asked for."""

    def __init__(
        self, dataset: Any, settings: Settings, seed: int, sizes: tuple[int, int | None]
    ) -> None:
        self.dataset, self.settings, self.seed = dataset, settings, seed
        size, prefetch = sizes
        # Each worker has a task, and the next one.
        tasks = -(-size // task_rows(size, max(1, settings.processes)))
        self.ahead = prefetch or max(AHEAD, -(-2 * settings.processes // tasks))
        self.failures, self.fused = Failures(), cast("Any", None)
        self.layout: Layout | None = None
        self.is_of_config = False
        self.boxes: tuple[Box, ...] = ()  # of the first sample, until the loader is made
        self.pool: Any = None
        self.dealt: Iterator[Any] = iter(())
        self.asked: collections.deque[Batch] = collections.deque()
        self.is_flushed = False

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        return state | {"pool": None, "dealt": iter(()), "asked": collections.deque(), "boxes": ()}

    def open(self) -> Pool | Here:
        """The workers, which are started by the first call."""
        if self.pool is None:
            call = functools.partial(operator.getitem, self.dataset)
            processes, start, timeout_s = self.settings
            if processes:
                named: Any = {"start": start, "timeout_s": timeout_s, "seed": self.seed}
                self.pool = Pool("the data set", call, processes, **named)
            else:
                self.pool = Here(call, self.seed)
            weakref.finalize(self, self.pool.close)
        return self.pool

    def close(self) -> None:
        self.asked.clear()
        if self.pool is not None:
            self.pool.close()

    def learn(self, index: int, place: Place, config: Config | None) -> bool:
        """Finds the fields: from config, else from that sample, which a worker reads. False if that
        is a wavetrain.Sample."""
        (answer,) = self.open().ask([Request(index, *place)])
        value = answer.result()
        if value == A_SAMPLE:
            return False
        name = f"dataset[{index}]"
        if config is not None:
            self.layout, self.is_of_config = layout_of_config(config), True
            with contextlib.suppress(ValueError):  # which is that sample's error, at its place
                self.boxes = self.layout.boxes(value)
        elif isinstance(value, Failed) or value is END:
            why = value.text if isinstance(value, Failed) else "StopIteration"
            raise RuntimeError(f"{name}, which gives all samples their fields, failed: {why}")
        else:
            self.layout = layout_of_value(value, name)
            self.boxes = self.layout.boxes(value)
        return True

    def config(self, config: Config | None, samples_per_batch: int) -> Config:
        return config or cast("Layout", self.layout).config(samples_per_batch)

    def sample(self) -> Sample:
        """The first one, for recipes."""
        if not self.boxes:
            raise ValueError("transforms: recipes need a first sample that can be read")
        return Sample(boxes=self.boxes)

    def take_recipes(self, fused: Any, config: Config) -> Config:
        """Applies these to all samples from now on. The config, with room for their results."""
        self.fused, self.boxes = fused, ()
        if self.is_of_config or not fused.plan.pipeline:
            return config
        changes: Any = {"sample_shape": fused.made, "dtype": Dtype.F32}
        if not config.fields:
            return dataclasses.replace(config, **changes)
        first = dataclasses.replace(config.fields[0], **changes)
        return dataclasses.replace(config, fields=[first, *config.fields[1:]])

    # ---- An epoch -------------------------------------------------------------------------------

    def begin(self, dealt: Iterator[Any]) -> None:
        """Drops the batches that were asked for, and asks for those that are dealt."""
        while self.asked:
            for answer in self.asked.popleft().answers:
                answer.cancel()
        self.dealt, self.is_flushed = batches_of(dealt), False
        self.ask(self.open())

    def ask(self, pool: Pool | Here) -> None:
        """Has the next batches made, `ahead` of them at a time."""
        while len(self.asked) < self.ahead:
            dealt = next(self.dealt, None)
            if dealt is None:
                return
            places, padded, indices = dealt
            rows = [Request(index, *place) for index, place in zip(indices, places)]
            self.asked.append(Batch(places, padded, indices, [*pool.ask(rows)]))

    def feed(self, pipeline: Pipeline, run: Any) -> None:
        """Pushes the batches that are complete, until the pipeline has enough of them. Waits if it
        has none."""
        pool = self.open()
        while run.error is None:
            self.ask(pool)
            if not self.asked:
                run.is_whole = True
                break
            batch = self.asked[0]
            if len(run.pushed) >= AHEAD:
                return
            if run.pushed and not all(answer.done() for answer in batch.answers):
                return
            samples = self.samples(batch, [answer.result() for answer in batch.answers])
            self.asked.popleft()
            run.pushed.append((batch.places, batch.padded))
            try:
                pipeline.push(samples)
            except Exception as error:  # raised after the batches before it
                run.error = error
        if not self.is_flushed:
            self.is_flushed = True
            pipeline.flush()

    def samples(self, batch: Batch, values: list[Any]) -> list[Sample]:
        layout = cast("Layout", self.layout)
        boxes, failed = list[tuple[Box, ...]](), set[int]()
        for row, value in enumerate(values):
            try:
                if isinstance(value, Failed):
                    raise ValueError(value.text)
                if value is END:
                    raise ValueError("StopIteration, which is not a sample")
                if value == A_SAMPLE:
                    raise ValueError("a wavetrain.Sample, and others are arrays")
                boxes.append(layout.boxes(value))
            except ValueError as error:
                failed.add(row)
                name = f"dataset[{batch.indices[row]}] in epoch {batch.places[row].epoch}"
                field = layout.parts[0].name or 0
                boxes.append(self.failures.boxes(name, str(error), field))
        samples = [Sample(boxes=each, tag=tag) for each, tag in zip(boxes, batch.indices)]
        if self.fused is None:
            return samples
        rows = [row for row in range(len(samples)) if row not in failed]
        moved = self.fused.samples([samples[r] for r in rows], [batch.places[r] for r in rows])
        for row, sample in zip(rows, moved):
            samples[row] = sample
        return samples


def batches_of(dealt: Iterator[Any]) -> Iterator[tuple[Places, int, list[int]]]:
    for _, indices, batches in dealt:
        first = 0
        for places, padded in batches:
            yield places, padded, indices[first : first + len(places)]
            first += len(places)


def may_return_arrays(dataset: Any) -> bool:
    """False for a data set that returns samples, as far as its code shows that."""
    if callable(getattr(dataset, "at_place", None)) or callable(getattr(dataset, "boxes", None)):
        return False
    if isinstance(dataset, (list, tuple)):
        items = cast("Sequence[Any]", dataset)
        return bool(items) and not isinstance(items[0], Sample)
    for base in type(dataset).__mro__:
        call = vars(base).get("__getitem__")
        names: tuple[str, ...] = getattr(getattr(call, "__code__", None), "co_names", ())
        told = str(getattr(call, "__annotations__", {}).get("return", ""))
        if "Sample" in told or "Sample" in names:
            return False
        if call is not None and "super" not in names:
            return True
    return True
