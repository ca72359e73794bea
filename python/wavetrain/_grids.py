"""Boxes of one shape in an array: on a grid, or anywhere; and several such arrays as one."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from wavetrain import _border, _dice
from wavetrain._orders import Place, items_of, place_of

EXTENT_MAX = 2**60

Aabb = tuple[tuple[int, int], ...]  # (start, stop) of each axis, as a Sample and a Box take them


class Along(NamedTuple):
    """An axis of the grid, counted from where the first box begins."""

    shape: int
    box: int
    before: int  # places of the first box in front of the array
    room: int  # where the last box may begin
    step: int
    chunk: int
    boxes: int  # of the grid

    @property
    def chunks(self) -> int:
        return (self.shape - 1) // self.chunk + 1

    def block(self, box: int) -> int:
        """The chunk that a box belongs to."""
        place = max(box * self.step - self.before, 0)
        return min(place, self.shape - 1) // self.chunk

    def first(self, block: int) -> int:
        """The first box that belongs to a chunk or to one behind it."""
        if block == 0:
            return 0
        if block >= self.chunks:
            return self.boxes
        return min((block * self.chunk + self.before - 1) // self.step + 1, self.boxes)

    def touched(self, begin: int) -> range:
        """The chunks that a box which begins there touches."""
        first, end = max(begin, 0), min(begin + self.box, self.shape)
        if first >= end:
            return range(0)
        return range(first // self.chunk, (end - 1) // self.chunk + 1)

    def distinct(self, is_jittered: bool) -> int:
        """How many chunks boxes of the grid touch, or, jittered, belong to."""
        count = behind = 0
        for box in range(self.boxes):
            own = self.block(box)
            these = range(own, own + 1)
            if not is_jittered:
                these = self.touched(box * self.step - self.before)
            if these and these.stop > behind:
                count += these.stop - max(these.start, behind)
                behind = these.stop
        return count


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Boxes of one shape in an array.

    A box is pairs (start, stop), as a Sample and a Box take them. They may stick out of the array,
    which pad_mode fills. Where the array is smaller than the box and its margins, there is one box
    along that axis, the array in its middle.

        shape: of the array.
        box: extents of a box.
        step: from box to box of the grid; 0: side by side.
        margin: how far a box may stick out at both ends, less than it is long.
        chunk: what is decoded at a time; 0: the whole axis. Boxes of the grid are numbered chunk by
            chunk, which the free order wants.
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
    along: Sequence[Along] = dataclasses.field(init=False, repr=False, compare=False)

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
        numbers: Any = zip(shape, self.box, *[self.step, self.margin, self.chunk])  # pyright: ignore[reportArgumentType]
        keep(self, "along", tuple([along(axis, *each) for axis, each in enumerate(numbers)]))
        _border.whole("the number of boxes", self.count, 1, _dice.EPOCH_MAX)

    @property
    def count(self) -> int:
        """Boxes of the grid."""
        return math.prod(of.boxes for of in self.along)

    @property
    def chunk_count(self) -> int:
        """Chunks of the array."""
        return math.prod(of.chunks for of in self.along)

    def __len__(self) -> int:
        return self.count

    def at(self, number: int, seed: int = 0, epoch: int = 0) -> Aabb:
        """A box of the grid, by its number. Seed and epoch matter with jitter alone."""
        number = _border.whole("number", number, 0, self.count - 1)
        seed, epoch = _border.word("seed", seed), _border.word("epoch", epoch)
        return self.box_at(self.begin_at(number, _dice.key(seed, epoch, _dice.BOX)))

    def begin_at(self, number: int, key: int) -> list[int]:
        """Where a box of the grid begins."""
        firsts, counts = list[int](), list[int]()
        after, within, rest = self.count, 1, number
        for of in self.along:
            after //= of.boxes
            # Boxes in chunks before this one along the axis come first, each with all those of the
            # axes behind, and `within` of them side by side along the axes in front.
            block = of.block(rest // (within * after))
            firsts.append(of.first(block))
            counts.append(of.first(block + 1) - firsts[-1])
            rest -= firsts[-1] * within * after
            within *= counts[-1]
        begin = list[int]()
        for axis in reversed(range(len(self.along))):
            of = self.along[axis]
            rest, place = divmod(rest, counts[axis])
            at = (firsts[axis] + place) * of.step
            if self.jitter:
                cell = min(of.room + 1 - at, of.step)
                # A cell ends with its chunk, so that boxes do not leave the chunk that they belong
                # to.
                block = of.block(firsts[axis] + place)
                if block < of.chunks - 1:
                    cell = min(cell, (block + 1) * of.chunk + of.before - at)
                at += _dice.below(cell, key, number, axis)
            begin.append(at - of.before)
        return begin[::-1]

    def anywhere(self, place: Place, seed: int = 0) -> Aabb:
        """A box that may lie anywhere, all places equally likely: one for each place of an epoch.
        The step does not matter."""
        epoch, position = place_of(place)
        key = _dice.key(_border.word("seed", seed), epoch, _dice.BOX)
        drawn = [
            _dice.below(of.room + 1, key, position, axis) - of.before
            for axis, of in enumerate(self.along)
        ]
        return self.box_at(drawn)

    def around(self, point: Iterable[int], place: Place, seed: int = 0) -> Aabb:
        """A box that holds a point of the array, all such places equally likely: inside a mask's
        foreground, from a table of its points. Draw the point with `Weighted` or `balanced`."""
        epoch, position = place_of(place)
        key = _dice.key(_border.word("seed", seed), epoch, _dice.POINT)
        points = extents("point", point, 0)
        if len(points) != len(self.along):
            raise ValueError(
                f"point must have an item per axis, {len(self.along)} (got {len(points)})"
            )
        begin = list[int]()
        for axis, (of, at) in enumerate(zip(self.along, points)):
            at = _border.whole(f"point[{axis}]", at, 0, of.shape - 1) + of.before
            low, high = max(at - (of.box - 1), 0), min(at, of.room)
            begin.append(low + _dice.below(high - low + 1, key, position, axis) - of.before)
        return self.box_at(begin)

    def box_at(self, begin: Iterable[int]) -> Aabb:
        return tuple([(first, first + of.box) for first, of in zip(begin, self.along)])

    def chunks_of(self, begin: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """The chunks that a box touches."""
        return itertools.product(*[of.touched(first) for first, of in zip(begin, self.along)])


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
                raise TypeError(f"grids[{number}] must be Boxes (got {grid!r})")
        self.ends = [*itertools.accumulate(grid.count for grid in self.grids)]
        if not self.ends:
            raise ValueError("grids must have one")
        _border.whole("the number of boxes", self.ends[-1], 1, _dice.EPOCH_MAX)
        chunks = sum(grid.chunk_count for grid in self.grids)
        _border.whole("the number of chunks", chunks, 1, _dice.EPOCH_MAX)

    def __repr__(self) -> str:
        return f"<Grids of {len(self.grids)} arrays, {len(self)} boxes>"

    def __len__(self) -> int:
        return self.ends[-1]

    def find(self, index: int) -> tuple[int, int]:
        """The array that a sample lies in, and the number of its box there."""
        index = _border.whole("index", index, 0, len(self) - 1)
        found = bisect.bisect_right(self.ends, index)
        return found, index - (self.ends[found - 1] if found else 0)

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


def along(axis: int, shape: int, box: int, step: int, margin: int, chunk: int) -> Along:
    _border.whole(f"margin[{axis}]", margin, 0, box - 1)
    step, chunk = step or box, chunk or shape
    padded = shape + 2 * margin
    if box > padded:
        return Along(shape, box, (box - shape) // 2, 0, step, chunk, 1)
    return Along(shape, box, margin, padded - box, step, chunk, (padded - box) // step + 1)
