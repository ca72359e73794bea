"""The snippets of Python in README.md, python/README.md and docs/, run as they stand.

A comment before a snippet tells what to do with it: tests/common/pages.rs has the list. Each is
compiled; "run" and "run torch" are run below, each in an empty folder, with a store as the demo's.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy
import pytest
import zarr

import wavetrain

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "python/README.md", *ROOT.glob("docs/**/*.md")])
SNIPPET = re.compile(r"(?:^<!-- test: ((?:(?!-->).)*)-->\n\n?)?^```python\n(.*?)^```$", re.S | re.M)


class Snippet(NamedTuple):
    page: str
    mark: str
    before: str
    code: str
    after: str


def snippets() -> list[Snippet]:
    found = []
    for path in PAGES:
        for comment, code in SNIPPET.findall(path.read_text()):
            mark, _, hidden = comment.partition("\n")
            before, _, after = hidden.partition("...\n")
            page = path.relative_to(ROOT).as_posix()
            found.append(Snippet(page, mark.strip(), before, code, after))
    return found


def snippet(words: str) -> str:
    """The one snippet with these words."""
    (found,) = [each.code for each in snippets() if words in each.code]
    return found


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """A home with arrays as those of `wavetrain demo`, of which a corner is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = tmp_path / ".cache/wavetrain/demo"
    corner = numpy.broadcast_to(numpy.arange(64)[:, None, None], (64, 128, 128))
    for name, dtype in (("bodies", "u2"), ("fibres", "u2"), ("mask", "u1")):
        shape, chunks = (192, 512, 512), (32, 64, 64)
        array = zarr.create_array(store / name, shape=shape, chunks=chunks, dtype=dtype)
        array[:64, :128, :128] = corner.astype(dtype)
    return store


def test_all_snippets_are_python():
    assert len(snippets()) > 20
    for each in snippets():
        compile(each.before + each.code + each.after, each.page, "exec")


def to_run(*marks: str) -> list[object]:
    found = [each for each in snippets() if each.mark in marks]
    assert found
    return [pytest.param(each, id=f"{each.page}-{number}") for number, each in enumerate(found)]


def run(each: Snippet) -> None:
    """In a process of its own, as a script: it may change its environment."""
    Path("script.py").write_text(each.before + each.code + each.after)
    path = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-W", "error", "script.py"]
    done = subprocess.run(command, env=path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("each", to_run("run"))
def test_a_snippet_runs(each, demo):
    run(each)


@pytest.mark.parametrize("each", to_run("run torch"))
def test_a_snippet_with_torch_runs(each, demo):
    pytest.importorskip("torch", reason="there is no torch here")
    run(each)


def test_the_first_snippet_streams_the_array_that_it_names(demo, capsys):
    for page in ("README.md", "python/README.md"):
        code = next(each.code for each in snippets() if each.page == page)
        found = []
        code = code.replace("print(batch.info.tags, ", "found.append((batch.info.tags, ")
        exec(code.replace("voxels.mean())", "voxels[0, :, 5, 9].tolist()))"), {"found": found})
        assert [tags[0] for tags, _ in found] == [0, 128, 256]
        assert found[0][1] == list(range(64)) and found[1][1] == [0] * 64


def test_the_snippet_of_fields_streams_images_masks_and_labels(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="there is no torch here")
    monkeypatch.chdir(tmp_path)
    data = numpy.arange(16 * 64 * 64).reshape(16, 64, 64) % 251
    for name, values in (("red", data), ("blue", data[::-1]), ("mask", data // 2)):
        array = zarr.create_array(f"{name}.zarr", shape=data.shape, chunks=(4, 64, 64), dtype="u1")
        array[...] = values
    zarr.create_array("label.zarr", shape=16, chunks=5, dtype="i4")[...] = numpy.arange(16) * 3
    images, masks, labels = [], [], []

    def train(image, mask, label, filled_shape):
        images.append(image.numpy().copy())
        masks.append(mask.numpy().copy())
        labels.extend(label.tolist())
        assert filled_shape.tolist() == [[2, 64, 64]] * 8

    exec(snippet("upside down"), {"train": train})
    images, masks = numpy.concatenate(images), numpy.concatenate(masks)
    numpy.testing.assert_array_equal(images[:, 0], data[:, ::-1])
    numpy.testing.assert_array_equal(images[:, 1], data[::-1, ::-1])
    assert not images[:, 2].any() and labels == [number * 3 for number in range(16)]
    numpy.testing.assert_array_equal(masks, data[:, ::-1] // 2)


def test_the_snippet_of_lists_reads_scattered_planes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = numpy.arange(96 * 70 * 64, dtype="u2").reshape(96, 70, 64)
    array = zarr.create_array("volume.zarr", shape=data.shape, chunks=(8, 32, 32), dtype="u2")
    array[...] = data
    found: list[numpy.ndarray] = []
    read = "    pipeline.flush()\n    found.append(numpy.array(pipeline.pop())[0])\n"
    exec(snippet("planes = numpy.array") + read, {"found": found})
    numpy.testing.assert_array_equal(found[0], data[[90, 3, 4, 3], :64])


def test_the_snippet_of_a_source_streams_what_it_has():
    prices, found = numpy.arange(9000, dtype="i4") * 3, []
    code = snippet("class Tables")
    imports = "import numpy, wavetrain\n"
    read = "    found.append(next(pipeline.batches()).numpy()[0].tolist())\n"
    exec(imports + code + read, {"columns": {"prices": prices}, "found": found})
    assert found == [prices[1000:1064].tolist()]


def test_the_snippet_of_a_store_streams_an_array_in_a_zip(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, found = numpy.arange(64 * 128 * 128, dtype="u4").reshape(64, 128, 128), []
    with zarr.storage.ZipStore("cells.zip", mode="w") as store:
        zarr.create_array(store, name="0", data=data, chunks=(32, 64, 64))
    code = snippet("ZipStore")
    read = "    found.append(next(pipeline.batches()).numpy()[0])\n"
    config = wavetrain.Config(samples_per_batch=1, sample_shape=data.shape, dtype="u32")
    names = {"config": config, "found": found}
    exec("import numpy, wavetrain, zarr\n" + code + read, names)
    names["array"].store.close()
    numpy.testing.assert_array_equal(found[0], data)


def test_the_snippet_of_epochs_gives_a_rank_its_share_of_every_epoch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = zarr.create_array("cells.zarr/0", shape=(640, 128, 128), chunks=(64,) * 3, dtype="u1")
    array[:] = numpy.broadcast_to(numpy.arange(640)[:, None, None] % 256, array.shape)
    code = snippet("class Cells")
    found = []

    def train(values, tags):
        assert values.shape == (8, 1, 128, 128)
        assert [(value == tag % 256).all() for value, tag in zip(values, tags)] == [True] * 8
        found.extend(tags)

    exec(code.replace("10)", "2)"), names := {"place": None, "train": train})
    assert len(found) == len(names["loader"]) * 16 == 320
    assert len(set(found[:160])) == len(set(found[160:])) == 160
    assert found[:160] != found[160:] and names["place"]["epoch"] == 1


def test_the_snippet_of_recipes_makes_pictures_for_cifar():
    x = numpy.random.default_rng(1).integers(0, 256, (8, 3, 32, 32), "u1")
    code = snippet("    cutout,\n")
    names = {"xb": x, "yb": numpy.arange(8), "places": [(0, position) for position in range(8)]}
    exec(code, names)
    assert names["xb"].shape == x.shape and names["xb"].dtype == "f4"
    assert (names["xb"] == 0).sum() >= 8 * 3 * 16 and abs(names["xb"].mean()) < 0.5


def test_the_snippet_of_augment_normalizes_and_erases(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = numpy.random.default_rng(2).integers(0, 256, (4, 3, 32, 32), "u1")
    numpy.save("images.npy", x)
    code = snippet("noisy = Augment(")
    exec(code, names := {})
    found = names["first"]
    numpy.testing.assert_array_equal(found, names["second"])
    scale, bias = (
        numpy.float32(t)[:, None, None] for t in ([0.017, 0.018, 0.017], [-2.1, -2, -1.8])
    )
    numpy.testing.assert_array_equal(found[::2], x[::2] * scale + bias)
    assert (found[1::2, :, 8:16, 8:16] == 0.5).all()
    assert found[1::2].min() >= 0 and found[1::2].max() <= 1
    difference = found[1::2, :, 16:] - x[1::2, :, 16:] / numpy.float32(255)
    assert 0.05 < difference.std() < 0.1


def test_the_snippet_of_dali_crops_mirrors_and_normalizes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    numbers = numpy.random.default_rng(2)
    images = [numbers.integers(0, 256, (40 + n, 48, 3), "u1") for n in range(19)]
    for n, image in enumerate(images):
        numpy.save(f"data/{n:02}.npy", image)
    seen = []
    names = {"train": lambda x, tags: seen.extend(zip(tags, x.copy()))}
    exec(snippet("fn.random.coin_flip"), names)
    mean, std = (numpy.float32(each)[:, None, None] for each in (names["MEAN"], names["STD"]))
    assert len(seen) == 2 * len(images)
    mirrored = 0
    for position, (n, found) in enumerate(seen):
        dice = random.Random(f"{position // len(images)} {n}")
        y, x = (dice.randint(0, has - crop) for has, crop in zip(images[n].shape, (32, 40)))
        flip = dice.choice((-1, 1))
        wanted = images[n][y : y + 32, x : x + 40][:, ::flip].transpose(2, 0, 1)
        numpy.testing.assert_allclose(found, (wanted - mean) / std, atol=1e-5)
        mirrored += flip < 0
    assert 0 < mirrored < len(seen)


def test_the_snippet_of_worker_processes_runs_as_a_script(tmp_path):
    code = snippet("class Pictures")
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, tmp_path / "script.py"]
    path = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == 10 and sum(int(label) for _, label in found) == 4500
    assert all(0.49 < float(mean) < 0.51 for mean, _ in found)


def test_the_snippet_of_a_node_takes_what_the_owner_pushed():
    code = snippet("wavetrain.serve(")
    exec(code, names := {})
    assert names["seen"] == [*range(16)]
