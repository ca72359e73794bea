"""The snippets of the READMEs, run as they stand."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest
import zarr

import wavetrain

ROOT = Path(__file__).parent.parent.parent


def snippets(path: str) -> list[str]:
    text = (ROOT / path).read_text()
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


@pytest.mark.parametrize("readme", ["README.md", "python/README.md"])
def test_the_first_snippet_streams_the_array_that_it_names(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = zarr.create_array("cells.zarr/0", shape=(640, 128, 128), chunks=(64,) * 3, dtype="u1")
    array[:] = numpy.broadcast_to(numpy.arange(640)[:, None, None] % 256, array.shape)
    if importlib.util.find_spec("torch") is None:
        stands_in = types.SimpleNamespace(from_dlpack=numpy.from_dlpack)
        monkeypatch.setitem(sys.modules, "torch", stands_in)
    planes = []
    names = {"train": lambda x, *_: planes.extend(numpy.asarray(x)[:, :, 5, 9].ravel().tolist())}
    exec(snippets(readme)[0], names)
    assert planes == [z % 256 for z in range(640)]


def test_all_snippets_are_python():
    found = [(path, text) for path in ("README.md", "python/README.md") for text in snippets(path)]
    assert len(found) >= 3
    for path, text in found:
        compile(text, path, "exec")


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

    exec(snippets("python/README.md")[1], {"train": train})
    images, masks = numpy.concatenate(images), numpy.concatenate(masks)
    numpy.testing.assert_array_equal(images[:, 0], data[:, ::-1])
    numpy.testing.assert_array_equal(images[:, 1], data[::-1, ::-1])
    assert not images[:, 2].any() and labels == [number * 3 for number in range(16)]
    numpy.testing.assert_array_equal(masks, data[:, ::-1] // 2)


def test_the_snippet_of_a_source_streams_what_it_has():
    prices, found = numpy.arange(9000, dtype="i4") * 3, []
    (snippet,) = [text for text in snippets("python/README.md") if "class Tables" in text]
    imports = "import numpy, wavetrain\n"
    read = "    found.append(next(pipeline.batches()).numpy()[0].tolist())\n"
    exec(imports + snippet + read, {"columns": {"prices": prices}, "found": found})
    assert found == [prices[1000:1064].tolist()]


def test_the_snippet_of_a_store_streams_an_array_in_a_zip(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, found = numpy.arange(64 * 128 * 128, dtype="u4").reshape(64, 128, 128), []
    with zarr.storage.ZipStore("cells.zip", mode="w") as store:
        zarr.create_array(store, name="0", data=data, chunks=(32, 64, 64))
    (snippet,) = [text for text in snippets("python/README.md") if "ZipStore" in text]
    read = "    found.append(next(pipeline.batches()).numpy()[0])\n"
    config = wavetrain.Config(samples_per_batch=1, sample_shape=data.shape, dtype="u32")
    names = {"config": config, "found": found}
    exec("import numpy, wavetrain, zarr\n" + snippet + read, names)
    names["array"].store.close()
    numpy.testing.assert_array_equal(found[0], data)


def test_the_snippet_of_epochs_gives_a_rank_its_share_of_every_epoch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = zarr.create_array("cells.zarr/0", shape=(640, 128, 128), chunks=(64,) * 3, dtype="u1")
    array[:] = numpy.broadcast_to(numpy.arange(640)[:, None, None] % 256, array.shape)
    (snippet,) = [text for text in snippets("python/README.md") if "class Cells" in text]
    found = []

    def train(values, tags):
        assert values.shape == (8, 1, 128, 128)
        assert [(value == tag % 256).all() for value, tag in zip(values, tags)] == [True] * 8
        found.extend(tags)

    exec(snippet.replace("10)", "2)"), names := {"place": None, "train": train})
    assert len(found) == len(names["loader"]) * 16 == 320
    assert len(set(found[:160])) == len(set(found[160:])) == 160
    assert found[:160] != found[160:] and names["place"]["epoch"] == 1


def test_the_snippet_of_recipes_makes_pictures_for_cifar():
    x = numpy.random.default_rng(1).integers(0, 256, (8, 3, 32, 32), "u1")
    (snippet,) = [
        text for text in snippets("python/README.md") if "default" not in text and "cutout(" in text
    ]
    names = {"xb": x, "yb": numpy.arange(8), "places": [(0, position) for position in range(8)]}
    exec(snippet, names)
    assert names["xb"].shape == x.shape and names["xb"].dtype == "f4"
    assert (names["xb"] == 0).sum() >= 8 * 3 * 16 and abs(names["xb"].mean()) < 0.5


def test_the_snippet_of_augment_normalizes_and_erases(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = numpy.random.default_rng(2).integers(0, 256, (4, 3, 32, 32), "u1")
    numpy.save("images.npy", x)
    (snippet,) = [text for text in snippets("python/README.md") if "Augment(" in text]
    exec(snippet, names := {})
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


def test_the_snippet_of_worker_processes_runs_as_a_script(tmp_path):
    (snippet,) = [text for text in snippets("python/README.md") if "class Pictures" in text]
    (tmp_path / "script.py").write_text(snippet)
    command = [sys.executable, tmp_path / "script.py"]
    path = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == 10 and sum(int(label) for _, label in found) == 4500
    assert all(0.49 < float(mean) < 0.51 for mean, _ in found)


def test_the_snippet_of_a_node_takes_what_the_owner_pushed():
    (snippet,) = [text for text in snippets("python/README.md") if "wavetrain.serve(" in text]
    exec(snippet, names := {})
    assert names["seen"] == [*range(16)]
