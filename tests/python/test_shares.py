"""Shares: the parts of work that an engine gives to its tasks."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy
import pytest
from cubes import Cube, box, run_program, write_cube

import wavetrain
from wavetrain import _shares
from wavetrain.engines import Share, shares

UNITS = ("samples", "bytes", "files")


def numbered(folder, rows):
    """Numbered .npy files with so many rows of 6 elements of two bytes."""
    folder.mkdir()
    for number, count in enumerate(rows):
        numpy.save(folder / f"part_{number:03}.npy", numpy.zeros((count, 6), "u2"))
    return folder


def check(found, count, whole, ends):
    """They follow each other, and say what they hold; `whole` are the bytes before each place."""
    assert [share.samples.start for share in found[1:]] == [
        each.samples.stop for each in found[:-1]
    ]
    assert (found[0].samples.start, found[-1].samples.stop) == (0, count)
    assert len({share.plan for share in found}) == 1
    for share in found:
        begin, end = share.samples.start, share.samples.stop
        assert share.bytes == whole[end] - whole[begin]
        files = {
            next(at for at, last in enumerate(ends) if place < last) for place in share.samples
        }
        assert share.files == len(files)


def test_rows_of_numbered_files_are_shared_by_each_unit(tmp_path):
    dice = random.Random(3)
    for number in range(4):
        rows = [dice.randrange(0, 9) for _ in range(dice.randrange(2, 12))]
        rows[0] = rows[0] or 1
        uri = numbered(tmp_path / str(number), rows)
        ends = list(itertools.accumulate(rows))
        assert wavetrain.array_info(uri).file_ends == tuple(ends)
        whole = [row * 12 for row in range(ends[-1] + 1)]
        for n, unit in itertools.product((1, 3, 40), UNITS):
            found = shares(uri, n, unit=unit)
            assert len(found) == n
            check(found, ends[-1], whole, ends)
            sizes = [len(share.samples) for share in found]
            if unit == "files":
                assert all(share.samples.stop in (0, *ends) for share in found)
                assert max(sizes) <= ends[-1] / n + max(rows)
            else:
                assert max(sizes) - min(sizes) <= 1 + (unit == "bytes")


def test_rows_of_a_zarr_array_have_its_shards_for_files(tmp_path):
    write_cube(tmp_path / "a")
    found = shares(tmp_path / "a", 3, unit="files")
    assert [share.samples for share in found] == [range(16), range(16, 48), range(48, 64)]
    assert [share.files for share in found] == [1, 2, 1]
    assert sum(share.bytes for share in found) == Cube.data.nbytes
    assert [len(share.samples) for share in shares(tmp_path / "a", 3)] == [21, 21, 22]


def samples(tmp_path):
    """Two arrays of elements of two and of eight bytes, in turns of five samples and of one."""
    if not (tmp_path / "a").exists():
        write_cube(tmp_path / "a")
        write_cube(tmp_path / "b", Cube.data.astype("f8"))
    return [
        wavetrain.Sample(tmp_path / ("b" if number % 6 == 5 else "a"), box(number), number)
        for number in range(24)
    ]


def test_samples_are_shared_by_what_they_weigh(tmp_path):
    dataset = samples(tmp_path)
    sizes = [512 * (8 if number % 6 == 5 else 2) for number in range(24)]
    whole = [0, *itertools.accumulate(sizes)]
    ends = sorted([*range(5, 24, 6), *range(6, 25, 6)])
    for n, unit in itertools.product((1, 2, 5, 30), UNITS):
        found = shares(dataset, n, unit=unit)
        check(found, 24, whole, ends)
        if unit == "bytes":
            assert max(share.bytes for share in found) <= whole[-1] / n + max(sizes)
        if unit == "files":
            assert all(share.samples.stop in (0, *ends) for share in found)
    # A share is what torch's Subset takes, and what a list is sliced by.
    mine = shares(dataset, 5)[2].samples
    assert [dataset[number].tag for number in mine] == list(mine)


def test_boxes_of_a_sample_weigh_what_they_read(tmp_path):
    write_cube(tmp_path / "a")
    strided = wavetrain.Box(tmp_path / "a", [(0, 8), (0, 8), (0, 8)], step=[2, 4, 1])
    listed = wavetrain.Box(tmp_path / "a", [numpy.array([5, 1, 60]), slice(0, 2), slice(0, 2)])
    lent = wavetrain.Box(array=numpy.zeros((3, 3)))
    found = shares([wavetrain.Sample(boxes=[strided, listed, lent])], 1)
    assert found == [Share(range(1), 2 * (4 * 2 * 8 + 3 * 2 * 2), 1, found[0].plan)]


def test_every_process_gets_the_same_plan_and_another_plan_has_another_hash(tmp_path):
    dataset = samples(tmp_path)
    ours = shares(dataset, 4)
    program = """
        import pathlib, sys
        from test_shares import samples
        from wavetrain.engines import shares
        print(shares(samples(pathlib.Path(sys.argv[1])), 4))
    """
    assert run_program(program, tmp_path).stdout.strip() == repr(ours)
    others = [shares(dataset, 5), shares(dataset, 4, unit="files"), shares(dataset[:-1], 4)]
    moved = [wavetrain.Sample(each.uri, box(1), each.tag) for each in dataset]
    plans = {found[0].plan for found in [ours, *others, shares(moved, 4)]}
    assert len(plans) == 5


def test_nothing_to_share_and_arguments_that_are_refused(tmp_path):
    for unit in UNITS:
        assert [share[:3] for share in shares([], 2, unit=unit)] == [(range(0), 0, 0)] * 2
    numpy.save(tmp_path / "scalar.npy", numpy.array(3))
    with pytest.raises(ValueError, match="no axis whose rows"):
        shares(tmp_path / "scalar.npy", 2)
    with pytest.raises(TypeError, match="items of a data set must be Samples"):
        shares([3], 2)
    with pytest.raises(ValueError, match="unit must be one of samples, bytes, files"):
        shares([], 2, unit="rows")
    with pytest.raises(ValueError, match="n must be"):
        shares([], 0)
    with pytest.raises(wavetrain.NotFound):
        shares(tmp_path / "nothing", 2)


def test_files_of_different_extents_whose_ends_are_not_known_are_not_guessed(tmp_path, monkeypatch):
    write_cube(tmp_path / "a")
    info = dataclasses.replace(wavetrain.array_info(tmp_path / "a"), is_rectilinear=True)
    monkeypatch.setattr(_shares, "array_info", lambda uri, files: info)
    assert [share.files for share in shares(tmp_path / "a", 2)] == [None, None]
    with pytest.raises(ValueError, match="different extents: give samples or bytes"):
        shares(tmp_path / "a", 2, unit="files")
