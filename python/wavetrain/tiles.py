"""Which rows of an array are whose, where many ranks load it together.

The numbers are those of wavetrain_tiles.h, which describes them; slices are taken by numpy and by
boxes.

>>> split = Split(rows=10, world=2, per_rank=2)
>>> [list(split.of_rank(rank)) for rank in range(2)]
[[slice(0, 3, None), slice(6, 9, None)], [slice(3, 6, None), slice(9, 10, None)]]
>>> [(piece.file, piece.rows) for piece in cut(split.tile(1, 0), [4, 0, 6])]
[(0, slice(3, 4, None)), (2, slice(0, 2, None))]
>>> grid_count((10, 64), (4, 0)), grid_box((10, 64), (4, 0), 2)
(3, (slice(8, 10, None), slice(0, 64, None)))
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from wavetrain import _border
from wavetrain._border import I64_MAX, U32_MAX, U64_MAX

__all__ = ["Piece", "Split", "cut", "grid_box", "grid_count"]

Rows = slice  # start and stop are ints, the step is None


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows of an axis in world * per_rank tiles, dealt like cards: tile number k * world + rank is
    the k-th of a rank.

    All have as many rows, the smallest number with which that many tiles suffice, so that the last
    one that has any may have less, and those after it none.

        unit: tiles begin at a multiple of it: the rows of a chunk, or of a file, which then has one
            reader.
    """

    rows: int
    world: int
    per_rank: int = 1
    unit: int = 1

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "rows", _border.whole("rows", self.rows, 0, U64_MAX))
        keep(self, "world", _border.whole("world", self.world, 1, U32_MAX))
        keep(self, "per_rank", _border.whole("per_rank", self.per_rank, 1, U32_MAX))
        keep(self, "unit", _border.whole("unit", self.unit, 1, U64_MAX))

    @property
    def tile_rows(self) -> int:
        """Rows of a tile, at least 1."""
        units = -(-self.rows // self.unit)
        rows = self.unit * max(1, -(-units // (self.world * self.per_rank)))
        return min(rows, U64_MAX)

    @property
    def tile_count(self) -> int:
        """How many tiles have rows."""
        return -(-self.rows // self.tile_rows)

    def tile(self, rank: int, k: int = 0) -> Rows:
        """The k-th tile of a rank."""
        rank = _border.below("rank", rank, "world", self.world)
        k = _border.whole("k", k, 0, self.per_rank - 1)
        begin = min((k * self.world + rank) * self.tile_rows, self.rows)
        return slice(begin, min(begin + self.tile_rows, self.rows))

    def of_rank(self, rank: int) -> Iterator[Rows]:
        """The tiles of a rank that have rows, in order."""
        for k in range(self.per_rank):
            tile = self.tile(rank, k)
            if tile.start == tile.stop:
                return
            yield tile


class Piece(NamedTuple):
    """Rows of one file."""

    file: int  # its number
    rows: Rows  # counted in the file; never none
    at: Rows  # the same, counted from the first row that was asked for


def cut(rows: Rows, file_rows: Iterable[int]) -> Iterator[Piece]:
    """Rows of an array whose rows are those of files, the first file's first: cut where files end.

    Files may have different numbers of rows, and none. If they have less than was asked for, a
    ValueError follows the last piece.
    """
    begin = _border.whole("rows.start", rows.start or 0, 0, U64_MAX)
    end = _border.whole("rows.stop", rows.stop, 0, U64_MAX)
    if rows.step not in (None, 1):
        raise ValueError(f"rows must have no step (got {rows})")
    skipped, left, at = begin, end - begin, 0
    for file, given in enumerate(file_rows):
        if left <= 0:
            return
        count = _border.whole(f"file_rows[{file}]", given, 0, U64_MAX)
        if skipped < count:
            found = min(left, count - skipped)
            yield Piece(file, slice(skipped, skipped + found), slice(at, at + found))
            at, left, skipped = at + found, left - found, 0
        else:
            skipped -= count
    if left > 0:
        raise ValueError(f"rows end at {end}, but the files have {left} less")


def grid_count(shape: Sequence[int], edges: Sequence[int]) -> int:
    """How many tiles of these edges an array has; an edge of 0 is the whole axis."""
    return math.prod(grid_of(shape, edges)[0])


def grid_box(shape: Sequence[int], edges: Sequence[int], number: int) -> tuple[Rows, ...]:
    """The box of a tile, which are numbered in row-major order; those at far edges are cut."""
    counts, shape, edges = grid_of(shape, edges)
    number = _border.whole("number", number, 0, U64_MAX)
    tiles = math.prod(counts)
    if number >= tiles:
        raise ValueError(f"number must be < {tiles}, the tiles that there are (got {number})")
    box: list[Rows] = []
    for count, extent, edge in zip(reversed(counts), reversed(shape), reversed(edges)):
        number, place = divmod(number, count)
        box.append(slice(place * edge, min((place + 1) * edge, extent)))
    return tuple(reversed(box))


Numbers = tuple[int, ...]


def grid_of(shape: Any, edges: Any) -> tuple[Numbers, Numbers, Numbers]:
    """Tiles along each axis, its extent, and the edge of a tile."""

    def extent_of(axis: int, given: Any) -> int:
        return _border.whole(f"shape[{axis}]", given, 0, I64_MAX)

    def edge_of(axis: int, given: Any) -> int:
        return _border.whole(f"edges[{axis}]", given, 0, U64_MAX)

    extents = _border.axes("shape", shape, 0, extent_of)
    given = _border.axes("edges", edges, 0, edge_of)
    if len(extents) != len(given):
        raise ValueError(f"edges must have an item per axis, {len(extents)} (got {len(given)})")
    whole = tuple([edge or max(extent, 1) for edge, extent in zip(given, extents)])
    return tuple([-(-extent // edge) for extent, edge in zip(extents, whole)]), extents, whole
