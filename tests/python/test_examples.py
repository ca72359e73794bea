"""Examples of new users: each runs as it stands, on real files, and what it sees is checked."""

from __future__ import annotations

import itertools
import re
import runpy
import struct
import subprocess
import sys
import zlib

import numpy
import pytest
from cubes import ROOT

import wavetrain

COUNT = 300  # two whole batches and one that is not


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """Images whose colours tell their labels, beneath noise; the example is given their folder."""
    dice = numpy.random.default_rng(5)
    labels = dice.integers(0, 10, COUNT).astype("u1")
    colours = dice.integers(40, 216, (10, 3))
    noise = dice.integers(-40, 40, (COUNT, 3, 32, 32))
    images = (colours[labels][:, :, None, None] + noise).astype("u1")
    numpy.save(tmp_path / "images.npy", images)
    numpy.save(tmp_path / "labels.npy", labels)
    monkeypatch.setattr(sys, "argv", ["netcl_loop.py", str(tmp_path)])
    return images, labels


def cropped(images, dice):
    """What netcl's random_crop and horizontal_flip give, by numpy alone, and the order."""
    order = dice.permutation(COUNT)
    crops, corners = [], dice.integers(-4, 5, (COUNT, 2)) + 4
    for number, (y, x), flip in zip(order, corners, dice.choice([-1, 1], COUNT)):
        padded = numpy.pad(images[number], ((0, 0), (4, 4), (4, 4)), mode="reflect")
        crops.append(padded[:, y : y + 32, x : x + 32][:, :, ::flip])
    return numpy.array(crops), order


def test_the_loop_of_netcl_sees_every_image_cropped_and_flipped_and_learns(pictures, capsys):
    images, labels = pictures
    ran = runpy.run_path(str(ROOT / "examples" / "netcl_loop.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        f"epoch {epoch}: {3 * epoch + 3} batches so far" for epoch in range(5)
    ]
    losses = ran["losses"]
    assert losses[0] == pytest.approx(numpy.log(10), rel=1e-5)
    assert losses[-1] < 0.5 * losses[0], losses

    crops, order = cropped(images, numpy.random.default_rng(3))
    with wavetrain.Pipeline(ran["config"]) as pipeline:
        pipeline.push_boxes(ran["boxes"](numpy.random.default_rng(3)))
        found = [
            (batch["x"].numpy().copy(), batch["y"].numpy().copy()) for batch in pipeline.batches()
        ]
    assert [len(x) for x, _ in found] == [128, 128, 44]
    numpy.testing.assert_array_equal(numpy.concatenate([x for x, _ in found]), crops)
    numpy.testing.assert_array_equal(numpy.concatenate([y for _, y in found]), labels[order])
    assert sorted(order) == [*range(COUNT)]


def run_in(folder, name):
    """The lines that an example prints which gets a folder."""
    command = [sys.executable, ROOT / "examples" / name, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def png(path):
    """The pixels of a file, of which each row has filter 0."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, bits, kind = struct.unpack(">IIBB", data[16:26])
    assert bits == 8
    first = data.index(b"IDAT") + 4
    size = int.from_bytes(data[first - 8 : first - 4], "big")
    assert int.from_bytes(data[first + size :][:4], "big") == zlib.crc32(
        data[first - 4 : first + size]
    )
    rows = numpy.frombuffer(zlib.decompress(data[first : first + size]), "u1").reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, *{0: (), 2: (3,)}[kind])


def test_the_recipe_for_cifar_runs_in_the_pipeline_and_its_picture_has_crops(pictures, tmp_path):
    images, _ = pictures
    lines = run_in(tmp_path, "cifar_recipe.py")
    assert len(lines) == 1
    assert lines[0].startswith("Plan(pipeline=[random_crop(") and lines[0].endswith("], python=[])")
    made = png(tmp_path / "recipe.png").transpose(2, 0, 1)
    assert made.shape == (3, 64, 16 * 32)
    befores, afters = (numpy.split(made[:, at : at + 32], 16, axis=2) for at in (0, 32))
    corners = set()
    for before, after in zip(befores, afters):
        assert (images == before).all((1, 2, 3)).any()
        padded = numpy.pad(before, ((0, 0), (4, 4), (4, 4)), mode="reflect")
        crops = {
            (y, x, flip): padded[:, y : y + 32, x : x + 32][:, :, ::flip]
            for y, x, flip in itertools.product(range(9), range(9), (1, -1))
        }
        found = [place for place, crop in crops.items() if (crop == after).all()]
        assert len(found) == 1
        corners.add(found[0])
    assert len(corners) > 8


def test_volumes_and_their_labels_get_the_same_map(tmp_path):
    pytest.importorskip("zarr", reason="zarr-python writes the arrays")
    lines = run_in(tmp_path, "affine_volume.py")
    assert run_in(tmp_path, "affine_volume.py") == lines  # over the arrays that are there
    assert [line.split(":")[0] for line in lines] == [f"label {value}" for value in range(4)]
    for line in lines:
        in_file, in_batches = (float(each) for each in re.findall(r"\d+\.\d", line))
        assert abs(in_file - in_batches) < 6, line  # 60 from one label to the next
    made = png(tmp_path / "slices.png")
    assert made.shape == (96, 2 * 3 * 48)
    above, below = made[:48], made[48:]
    assert {*numpy.unique(below)} == {0, 80, 160, 240}
    old, new = below[:, :144], below[:, 144:]
    assert (old != new).mean() > 0.02
    agrees = numpy.corrcoef(above[:, 144:].ravel(), new.ravel())[0, 1]
    assert agrees > 0.9 > numpy.corrcoef(above[:, 144:].ravel(), old.ravel())[0, 1]


@pytest.fixture
def tiled(tmp_path):
    """An array of chunks that tiles do not fill, and a function that runs the example on it."""
    zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")
    values = numpy.random.default_rng(3).integers(0, 1000, (3, 70, 50)).astype("u2")
    array = str(tmp_path / "array")
    zarr.create_array(array, shape=values.shape, chunks=(1, 32, 32), dtype="u2")[...] = values

    def run(name, *arguments):
        command = [sys.executable, ROOT / "examples" / name, array]
        done = subprocess.run(
            command + [str(each) for each in arguments], capture_output=True, text=True, timeout=120
        )
        assert "Traceback" not in done.stderr and done.returncode == bool(done.stderr), done.stderr
        return done.stdout.splitlines(), done.stderr

    return values, run


def test_epochs_that_are_killed_end_as_those_that_are_not(tiled, tmp_path):
    values, run_any = tiled

    def run(state, *batches):
        return run_any("epochs.py", tmp_path / state, *batches)

    whole, _ = run("whole")
    tiles = [values[:, y : y + 16, x : x + 16] for y in range(0, 64, 16) for x in range(0, 48, 16)]
    mean = numpy.mean(tiles)
    assert [line.split(",")[0] for line in whole] == [
        f"epoch {epoch}: {36 * (epoch + 1)} tiles so far" for epoch in range(3)
    ]
    assert all(f"mean {mean:.3f}" in line for line in whole)
    said = []
    for batches in (4, 5, 1, 12):  # the second ends with an epoch
        lines, error = run("killed", batches)
        assert error.startswith("killed in epoch")
        said += lines
    lines, _ = run("killed")
    said += lines
    assert [line for line in said if line.startswith("epoch")] == whole
    assert [line for line in said if line.startswith("goes on")] == [
        f"goes on in epoch {epoch}, {left} batches before its end"
        for epoch, left in [(0, 5), (0, 0), (1, 8), (2, 5)]
    ]


def test_tiles_go_through_tensors_that_are_lent(tiled):
    pytest.importorskip("torch", reason="the example's tensors are torch's")
    values, run = tiled
    lines, _ = run("pinned.py")
    mean = values[:, :64, :48].mean()
    assert lines == [f"epoch {epoch}: 36 tiles, mean {mean:.3f}" for epoch in range(3)]


def test_ranks_that_share_a_loader_see_each_row_once(tmp_path):
    rows = numpy.arange(203 * 24, dtype="i4").reshape(203, 24)
    numpy.save(tmp_path / "rows.npy", rows)
    program = [sys.executable, str(ROOT / "examples" / "node.py"), str(tmp_path / "rows.npy"), "3"]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    line = re.compile(r"epoch (\d) rank (\d): (\d+) samples, sum ([\d.e+]+)")
    found = [line.fullmatch(each) for each in ran.stdout.splitlines()]
    assert all(found), ran.stdout
    seen = [tuple(map(float, each.groups())) for each in found]
    assert sorted(each[:2] for each in seen) == [*itertools.product(range(3), range(4))]
    for epoch in range(3):
        counts = [each[2] for each in seen if each[0] == epoch]
        assert sum(counts) == 203 and min(counts) >= 48
        assert sum(each[3] for each in seen if each[0] == epoch) == rows.sum()
