"""Boxes of one shape in an array: on a grid, or anywhere; and several such arrays as one."""

from __future__ import annotations

import array
import dataclasses
import math
from collections.abc import Iterable, Sequence
from ctypes import byref
from typing import Any

from wavetrain import _border, _native
from wavetrain._border import short
from wavetrain._dice import EPOCH_MAX, Words, ask, room
from wavetrain._orders import Place, items_of, place_of

EXTENT_MAX = 2**60

Aabb = tuple[tuple[int, int], ...]  # (start, stop) of each axis, as a Sample and a Box take them


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Boxes of one shape in an array.

    A box is pairs (start, stop), as a Sample and a Box take them. They may stick out of the array,
    which pad_mode fills. If the array is smaller than the box and its margins, there is one box
    along that axis, the array in its middle.

        shape: of the array.
        box: extents of a box.
        step: from box to box of the grid; 0: side by side.
        margin: how far a box may stick out at both ends, less than it is long.
        chunk: what is decoded at a time; 0: the whole axis. Boxes of the grid are numbered chunk by
            chunk, as the `ChunkShuffle` needs it.
        jitter: a box of the grid begins there or behind it, elsewhere in each epoch: in front of
            where the next one does, and of the end of its chunk.

    Numbers for step, margin and chunk are for all axes, or a sequence has one for each.

    >>> grid = Boxes((6, 8), (2, 4), chunk=(4, 4))
    >>> len(grid)
    6
    >>> [grid.at(number) for number in range(3)]
    [((0, 2), (0, 4)), ((2, 4), (0, 4)), ((0, 2), (4, 8))]
    >>> grid.anywhere(Place(epoch=0, position=5), seed=1)
    ((2, 4), (2, 6))
    >>> Boxes((6, 8), (2, 4), margin=2)
    Traceback (most recent call last):
        ...
    ValueError: margin[0] must be <= 1 (got 2)
    """

    shape: Sequence[int]
    box: Sequence[int]
    step: int | Sequence[int] = 0
    margin: int | Sequence[int] = 0
    chunk: int | Sequence[int] = 0
    jitter: bool = False
    count: int = dataclasses.field(init=False, repr=False, compare=False)  # boxes of the grid
    record: _native.Boxes = dataclasses.field(init=False, repr=False, compare=False)  # for C

    def __post_init__(self) -> None:
        keep = object.__setattr__
        shape = extents("shape", self.shape, 1)
        keep(self, "shape", shape)
        keep(self, "box", for_axes("box", self.box, shape, 1))
        for name in ("step", "margin", "chunk"):
            given: Any = getattr(self, name)
            given = (given,) * len(shape) if hasattr(given, "__index__") else given
            keep(self, name, for_axes(name, given, shape, 0))
        keep(self, "jitter", _border.flag("jitter", self.jitter))
        numbers: Any = (shape, self.box, self.step, self.margin, self.chunk)
        for axis, (box, margin) in enumerate(zip(numbers[1], numbers[3])):
            _border.whole(f"margin[{axis}]", margin, 0, box - 1)
        flags = _native.BOXES_JITTER if self.jitter else 0
        places = [_native.c_uint64 * _native.BOXES_AXES] * len(numbers)
        lists = [place(*each) for place, each in zip(places, numbers)]
        keep(self, "record", _native.Boxes(len(shape), flags, *lists))
        count = ask("boxes_count", byref(self.record), 1, None)
        if count == 0:  # all else was checked
            raise ValueError(f"the number of boxes must be <= {EPOCH_MAX}")
        keep(self, "count", count)

    @property
    def chunk_count(self) -> int:
        """Chunks of the array."""
        pairs: Any = zip(self.shape, self.chunk)  # pyright: ignore[reportArgumentType]
        return math.prod(-(-shape // (chunk or shape)) for shape, chunk in pairs)

    def __len__(self) -> int:
        return self.count

    def at(self, number: int, seed: int = 0, epoch: int = 0) -> Aabb:
        """A box of the grid, by its number. Seed and epoch matter with jitter alone."""
        number = _border.whole("number", number, 0, self.count - 1)
        seed, epoch = _border.word("seed", seed), _border.word("epoch", epoch)
        return self._box(_native.BOXES_GRID, seed, epoch, number)

    def anywhere(self, place: Place, seed: int = 0) -> Aabb:
        """A box that may lie anywhere, all places equally likely: one for each place of an epoch.
        The step does not matter."""
        epoch, position = place_of(place)
        return self._box(_native.BOXES_ANYWHERE, _border.word("seed", seed), epoch, position)

    def around(self, point: Iterable[int], place: Place, seed: int = 0) -> Aabb:
        """A box that holds a point of the array, all such places equally likely: inside a mask's
        foreground, from a table of its points. Draw the point with `Weighted` or `balanced`."""
        epoch, position = place_of(place)
        seed = _border.word("seed", seed)
        points = extents("point", point, 0)
        if len(points) != len(self.shape):
            raise ValueError(
                f"point must have an item per axis, {len(self.shape)} (got {len(points)})"
            )
        for axis, (at, shape) in enumerate(zip(points, self.shape)):
            _border.whole(f"point[{axis}]", at, 0, shape - 1)
        words = array.array("Q", points)
        return self._box(_native.BOXES_AROUND, seed, epoch, position, words)

    def _box(
        self, of: int, seed: int, epoch: int, position: int, point: Words[int] | None = None
    ) -> Aabb:
        begin, place = room(len(self.shape), "q"), array.array("Q", [epoch, position])
        ask("boxes_many", byref(self.record), of, seed, place, point, 1, begin)
        return tuple([(first, first + extent) for first, extent in zip(begin, self.box)])


class Grids:
    """The boxes of several arrays as one row: those of the first array come first.

    >>> grids = Grids([Boxes((6,), (2,)), Boxes((8,), (2,))])
    >>> len(grids), grids.find(5)
    (7, (1, 2))
    """

    def __init__(self, grids: Iterable[Boxes]) -> None:
        self.grids = tuple(items_of("grids", grids))
        for number, grid in enumerate(self.grids):
            if not isinstance(grid, Boxes):
                raise TypeError(f"grids[{number}] must be Boxes (got {short(grid)})")
        if not self.grids:
            raise ValueError("grids must have one")
        self.count = sum(grid.count for grid in self.grids)
        _border.whole("the number of boxes", self.count, 1, EPOCH_MAX)
        chunks = sum(grid.chunk_count for grid in self.grids)
        _border.whole("the number of chunks", chunks, 1, EPOCH_MAX)
        records = b"".join([bytes(grid.record) for grid in self.grids])
        self.records = array.array("Q", records)
        self.ends = room(2 * len(self.grids))  # boxes and chunks up to each array
        ask("boxes_count", self.records, len(self.grids), self.ends)

    def __repr__(self) -> str:
        return f"<Grids of {len(self.grids)} arrays, {len(self)} boxes>"

    def __len__(self) -> int:
        return self.count

    def find(self, index: int) -> tuple[int, int]:
        """The array that a sample lies in, and the number of its box there."""
        index = _border.whole("index", index, 0, len(self) - 1)
        number = room(1)
        return ask("boxes_find", self.ends, len(self.grids), index, number), number[0]

    def at(self, index: int, seed: int = 0, epoch: int = 0) -> tuple[int, Aabb]:
        """The array that a sample lies in, and its box."""
        array, number = self.find(index)
        return array, self.grids[array].at(number, seed, epoch)


def extents(name: str, given: Any, low: int) -> tuple[int, ...]:
    def extent(axis: int, one: Any) -> int:
        return _border.whole(f"{name}[{axis}]", one, low, EXTENT_MAX)

    return _border.axes(name, given, 0, extent)


def for_axes(name: str, given: Any, shape: Any, low: int) -> tuple[int, ...]:
    made = extents(name, given, low)
    if len(made) != len(shape):
        raise ValueError(f"{name} must have an item per axis, {len(shape)} (got {len(made)})")
    return made
