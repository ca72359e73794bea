"""Tiles of ranks. Their numbers are compared with those of C and C++ by tests/ship/tiles.rs."""

from __future__ import annotations

import doctest
import itertools
import re

import numpy
import pytest

import wavetrain
from wavetrain import tiles
from wavetrain.tiles import Split, cut, grid_box, grid_count


def test_the_doctests_of_tiles():
    result = doctest.testmod(tiles)
    assert result.attempted >= 4 and not result.failed


def test_tiles_in_the_order_of_their_numbers_are_the_rows_and_the_empty_ones_come_last():
    for rows, world, per_rank, unit in itertools.product(
        range(14), range(1, 6), range(1, 4), range(1, 5)
    ):
        split = Split(rows, world, per_rank, unit)
        dealt = [split.tile(rank, k) for k in range(per_rank) for rank in range(world)]
        sizes = [len(range(rows)[tile]) for tile in dealt]
        assert [row for tile in dealt for row in range(rows)[tile]] == list(range(rows))
        assert sizes[: split.tile_count].count(0) == 0 == sum(sizes[split.tile_count :])
        assert set(sizes[: max(split.tile_count - 1, 0)]) <= {split.tile_rows}
        assert all(tile.start % unit == 0 for tile in dealt[: split.tile_count])
        shares = [len(list(split.of_rank(rank))) for rank in range(world)]
        assert max(shares) - min(shares) <= 1 and sum(shares) == split.tile_count


def test_pieces_of_every_range_are_its_rows_in_order():
    for file_rows in itertools.product(range(4), repeat=4):
        rows = [(file, row) for file, count in enumerate(file_rows) for row in range(count)]
        for begin, end in itertools.combinations_with_replacement(range(len(rows) + 1), 2):
            pieces = list(cut(slice(begin, end), file_rows))
            got = [(p.file, row) for p in pieces for row in range(p.rows.start, p.rows.stop)]
            assert got == rows[begin:end]
            filled = numpy.full(end - begin, -1)
            for piece in pieces:
                filled[piece.at] = numpy.arange(sum(file_rows[: piece.file]), 99)[piece.rows]
            assert filled.tolist() == list(range(begin, end))


def test_boxes_of_a_grid_cover_an_array_once():
    for shape in ((), (5,), (4, 3), (3, 1, 7)):
        for edges in itertools.product(range(4), repeat=len(shape)):
            seen = numpy.zeros(shape, int)
            for number in range(grid_count(shape, edges)):
                box = grid_box(shape, edges, number)
                assert seen[box].size
                seen[box] += 1
            assert (seen == 1).all()
    assert grid_count((4, 0), (2, 2)) == 0


def test_a_tile_is_taken_as_a_box():
    rows = Split(10, 3).tile(2)
    assert wavetrain.Sample("a", [rows, (0, 4)]).aabb == ((8, 10), (0, 4))
    assert wavetrain.Box("a", grid_box((10, 4), (4, 0), 2)).aabb == ((8, 10), (0, 4))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Split(-1, 2), "rows must be >= 0"),
        (lambda: Split(5, 0), "world must be >= 1"),
        (lambda: Split(5, 2, 0), "per_rank must be >= 1"),
        (lambda: Split(5, 2, 1, 0), "unit must be >= 1"),
        (lambda: Split(5, 2).tile(2), "rank must be below world, which is 2"),
        (lambda: Split(5, 2).tile(0, 1), "k must be <= 0"),
        (lambda: list(cut(slice(3, 9), [4, 4])), "rows end at 9, but the files have 1 less"),
        (lambda: list(cut(slice(None), [4])), "rows.stop must be a whole number"),
        (lambda: list(cut(slice(0, 4, 2), [4])), "rows must have no step"),
        (lambda: list(cut(slice(0, 4), [-4])), re.escape("file_rows[0] must be >= 0")),
        (lambda: grid_count((4, 4), (2,)), "edges must have an item per axis, 2 "),
        (lambda: grid_box((4, 4), (2, 2), 4), "number must be < 4, the tiles that there are"),
        (lambda: grid_box((0, 4), (2, 2), 0), "number must be < 0, the tiles that there are"),
    ],
)
def test_what_is_no_tile_is_refused_with_its_name(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()
