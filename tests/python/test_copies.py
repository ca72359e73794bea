"""Objects that stand for something of this process are not copied or pickled: a copy would give it
back a second time, and in another process it is nothing. numpy takes batches as arrays."""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import multiprocessing.reduction
import pickle
import pkgutil

import numpy
import pytest
from cubes import config
from devices import Gpu

import wavetrain
from wavetrain import Field
from wavetrain._owned import Owned
from wavetrain.source import Source

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "forking": multiprocessing.reduction.ForkingPickler.dumps,
    **{f"pickle{protocol}": protocol for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
}
FIELDS = (Field("image", (8,), "u16"), Field("label", (), "i64"))


def refused(way, given, match):
    made = WAYS[way]
    with pytest.raises(TypeError, match=match):
        made(given) if callable(made) else pickle.dumps(given, made)


@pytest.fixture
def fields(pipeline):
    stream = pipeline(samples_per_batch=2, sample_shape=(), fields=FIELDS)
    boxes = [
        wavetrain.Box(numpy.arange(8, dtype="u2"), field="image"),
        wavetrain.Box(7, field="label"),
    ]
    stream.push([wavetrain.Sample(boxes=boxes)] * 4)
    return stream


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_and_its_fields_are_not_copied(fields, way):
    batch = fields.pop()
    refused(way, batch, r"^a Batch cannot be copied or pickled.*batch\.numpy\(\)\.copy\(\)")
    refused(way, batch["image"], r"^a BatchField cannot be .*\.numpy\(\)\.copy\(\)")
    if way != "copy":  # a list of the same batch
        refused(way, [batch], "^a Batch cannot")
    gc.collect()
    assert batch["label"].numpy().tolist() == [7, 7]  # the slot is still there
    batch.release()
    refused(way, batch, "^a Batch cannot")


@pytest.mark.parametrize("way", WAYS)
def test_pipelines_and_iterations_are_not_copied(fields, way):
    refused(way, fields, r"^a Pipeline cannot be copied or pickled.*Config")
    iteration = fields.batches(2)
    refused(way, iteration, "cannot be copied or pickled.*list")
    assert next(iteration)["label"].numpy().tolist() == [7, 7]
    refused(way, iteration, "cannot be copied or pickled")


@pytest.mark.parametrize("way", WAYS)
def test_sources_and_iterations_of_a_loader_are_not_copied(way):
    with Source(None, config(sample_shape=(8,))) as source:
        refused(way, source, r"^a Source cannot be copied or pickled.*state_dict")
    with wavetrain.DataLoader(Numbers(), 2, config=numbers()) as loader:
        iteration = iter(loader)
        next(iteration).release()
        refused(way, iteration, r"cannot be copied or pickled.*state_dict")


class Numbers:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        box = wavetrain.Box(numpy.full(40, index, "u2"))
        return wavetrain.Sample(boxes=[box], tag=index)


def numbers():
    return config(samples_per_batch=2, sample_shape=(40,), dtype="u16", max_boxes_per_sample=1)


@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle"])
def test_a_copy_of_a_loader_has_a_place_of_its_own(how):
    make = {"pickle": lambda given: pickle.loads(pickle.dumps(given))}.get(how)
    make = make or getattr(copy, how)

    def tags(batch):
        with batch:
            return batch.info.tags

    with wavetrain.DataLoader(Numbers(), 2, config=numbers()) as loader:
        assert len([tags(batch) for batch in loader]) == 4
        with make(loader) as other:
            assert other.epoch == loader.epoch == 1
            iteration = iter(other)
            assert [tags(next(iteration)) for _ in range(3)] == [(0, 1), (2, 3), (4, 5)]
            assert loader.left == 4 and other.left == 1
            assert [tags(batch) for batch in loader] == [(0, 1), (2, 3), (4, 5), (6, 7)]
            assert tags(next(iteration)) == (6, 7)


def enders():
    """Every class of the package that ends something with itself."""
    for module in pkgutil.iter_modules(wavetrain.__path__):
        if module.name == "torch":  # which may not be there; its classes end nothing
            continue
        for kind in vars(importlib.import_module(f"wavetrain.{module.name}")).values():
            if not inspect.isclass(kind) or kind.__module__ != f"wavetrain.{module.name}":
                continue
            if "__del__" in vars(kind) and kind.__name__ != "Report":
                yield kind


def test_all_that_ends_something_is_not_copied():
    kinds = [*enders()]
    assert all(issubclass(kind, Owned) for kind in kinds), kinds
    assert {"Batch", "Opened", "OwnTensor", "Event", "Held"} <= {kind.__name__ for kind in kinds}


@pytest.mark.parametrize("kind", [*enders()], ids=lambda kind: kind.__name__)
def test_all_that_an_interrupt_left_unmade_ends_in_silence(kind):
    made = kind.__new__(kind)
    del made  # what its end raises is an error here
    gc.collect()


# ---- numpy --------------------------------------------------------------------------------------


def test_numpy_takes_a_batch_and_a_field_as_arrays(cube, pipeline, fields):
    stream = pipeline()
    stream.push(cube.samples(4))
    with stream.pop() as batch:
        made = numpy.asarray(batch)
    numpy.testing.assert_array_equal(made, cube.holds(*range(4)))  # which keeps the slot
    with fields.pop() as batch:
        image, label = numpy.asarray(batch["image"]), numpy.asarray(batch["label"])
        assert image.dtype == "u2" and image.shape == (2, 8)
        assert label.tolist() == [7, 7]
        assert numpy.shares_memory(image, batch["image"].numpy())
        assert numpy.stack([batch["label"], batch["label"]]).tolist() == [[7, 7], [7, 7]]
        assert float(numpy.mean(batch["label"])) == 7


def test_dtype_and_copy_are_numpys(fields):
    with fields.pop() as batch:
        image = batch["image"]
        slot = image.numpy()
        for copied in (
            numpy.array(image),
            numpy.array(image, copy=True),
            numpy.asarray(image, dtype="f4"),
            numpy.array(image, dtype="u2", copy=True),
        ):
            assert not numpy.shares_memory(copied, slot)
            numpy.testing.assert_array_equal(copied, slot)
        assert numpy.asarray(image, dtype="f4").dtype == "f4"
        for same in (numpy.asarray(image, dtype="u2"), image.__array__(), image.__array__("u2")):
            assert numpy.shares_memory(same, slot)
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
            assert numpy.shares_memory(numpy.asarray(image, copy=False), slot)
            with pytest.raises(ValueError, match="copy"):
                numpy.asarray(image, dtype="f4", copy=False)


def test_a_batch_of_several_fields_is_not_one_array(fields):
    with fields.pop() as batch, pytest.raises(TypeError, match=r"batch\['image'\]"):
        numpy.asarray(batch)


def test_a_batch_of_one_field_is_an_array(pipeline):
    stream = pipeline(samples_per_batch=1, sample_shape=(), fields=FIELDS[:1])
    stream.push([wavetrain.Sample(boxes=[wavetrain.Box(numpy.arange(8, dtype="u2"))])])
    with stream.pop() as batch:
        assert numpy.asarray(batch).tolist() == [[*range(8)]]


def test_a_batch_that_was_given_back_is_no_array(fields):
    batch = fields.pop()
    image = batch["image"]
    batch.release()
    for given in (batch, image):
        with pytest.raises((wavetrain.InvalidArgument, TypeError)):
            numpy.asarray(given)


def test_memory_of_a_device_is_no_array_of_numpy(cube, simulated_driver):
    gpu = Gpu(simulated_driver)
    with gpu.pipeline() as stream:
        stream.push(cube.samples(4))
        with stream.pop() as batch:
            for given in (batch, batch.field(0)):
                with pytest.raises(TypeError, match=r"CUDA device 0.*torch\(\)\.cpu\(\)"):
                    numpy.asarray(given)
