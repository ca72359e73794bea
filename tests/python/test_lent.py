"""Boxes of arrays in device memory: they are read where they lie, not before their producer is
done, live until their batch is popped, and are refused by name where that cannot be."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pickle
import types

import numpy
import pytest
from cubes import config
from devices import DeviceArray, Gpu, NumbaArray, TorchArray
from test_fed import LARGE, VIEWS, fields, refused

import wavetrain
from wavetrain import Box, Field, Sample
from wavetrain.source import Source


@pytest.fixture
def gpu(simulated_driver):
    """Arrays of it are given back when a test is over, and the driver has found nothing wrong."""
    made: list[DeviceArray] = []

    def make(kind, *arguments):
        made.append(kind(gpu, *arguments))
        return made[-1]

    gpu = Gpu(simulated_driver)
    gpu.array = make
    with gpu.pipeline():  # says which driver arrays are of
        pass
    yield gpu
    gc.collect()
    for each in made:
        each.free()
    gpu.found_nothing()


def one(gpu: Gpu, field: Field, *boxes: Box) -> numpy.ndarray:
    """The one sample of a batch on the device that these boxes make, of floats."""
    table = fields(field, max_boxes_per_sample=4)
    with gpu.pipeline(samples_per_batch=1, **table) as stream:
        stream.push([Sample(boxes=boxes)])
        with stream.pop() as batch:
            return gpu.values(batch)[0]


KINDS = {"numba": NumbaArray, "torch": TorchArray}
WHOLE = [name for name, view in VIEWS.items() if any(view.strides)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("view", WHOLE)
def test_an_array_of_any_strides_comes_out_as_it_is(view, kind, gpu):
    values = VIEWS[view]
    given = gpu.array(KINDS[kind], values)
    numpy.testing.assert_array_equal(
        one(gpu, Field("a", values.shape, "f32"), Box(given, field="a")), values
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f8", "f4"])
def test_a_region_of_it_is_cast_and_goes_to_a_place(dtype, kind, gpu):
    values = (LARGE % 200).astype(dtype)
    given, scalar = [gpu.array(KINDS[kind], each) for each in (values, values[3, 2, 1, ...])]
    box = Box(given, numpy.s_[2:3, ::-2, 1:6:2], "a", at=(1, 2), axes=(None, 1, 0))
    found = one(gpu, Field("a", (9, 8), "f32"), box, Box(scalar, field="a", at=(8, 7)))
    wanted = numpy.zeros((9, 8))
    wanted[1:4, 2:5], wanted[8, 7] = values[2, ::-2, 1:6:2].T, values[3, 2, 1]
    numpy.testing.assert_array_equal(found, wanted)


def pop(stream):
    while True:
        with contextlib.suppress(wavetrain.PoolStarved):
            return stream.pop()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_read_before_its_producer_is_done_and_nobody_waits(kind, gpu):
    given = gpu.array(KINDS[kind], LARGE, True)
    table = fields(Field("a", LARGE.shape, "f32"), pop_timeout_s=0.05)
    names = "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"
    with gpu.pipeline(samples_per_batch=1, **table) as stream, contextlib.ExitStack() as stack:
        stack.callback(given.go_on)
        waits = [gpu.calls(name) for name in names]
        before, behind = Box(1, field="a", at=(0, 1, 1)), Box(2, field="a", at=(0, 1, 1))
        boxes = before, Box(given, field="a"), behind
        stream.push(Sample(boxes=[box], tag=tag) for tag, box in enumerate(boxes))
        with pop(stream) as batch:
            assert batch.info.tags == (0,)
        for _ in range(2):
            with pytest.raises(wavetrain.PoolStarved, match=r"tensor\.event"):
                stream.pop()
        assert waits == [gpu.calls(name) for name in names]
        given.go_on()
        with pop(stream) as batch:
            assert batch.info.tags == (1,)
            numpy.testing.assert_array_equal(gpu.values(batch)[0], LARGE)
        with pop(stream) as batch:
            assert batch.info.tags == (2,) and gpu.values(batch)[0, 0, 1, 1] == 2


@pytest.mark.parametrize("held", [0, 1])
def test_memory_of_fields_is_lent_after_the_streams_of_all_its_arrays(held, gpu):
    values = numpy.zeros((2, 3, 4), "f4")
    given = [gpu.array(NumbaArray, values, number == held) for number in range(2)]
    table = fields(Field("a", (3, 4), "f32"), Field("b", (3, 4), "f32"), pop_timeout_s=0.05)
    with gpu.pipeline(samples_per_batch=2, **table) as stream, contextlib.ExitStack() as stack:
        stack.callback(given[held].go_on)
        stream.lend({"a": given[0], "b": given[1]})
        boxes = [Box(1, field="a", at=(0, 0)), Box(2, field="b", at=(2, 3))]
        stream.push(Sample(boxes=boxes) for _ in range(2))
        for _ in range(2):
            with pytest.raises(wavetrain.PoolStarved, match="waits for its event"):
                stream.pop()
        given[held].go_on()
        with pop(stream) as batch:
            assert batch.lent == {"a": given[0], "b": given[1]}
            places = [field.info.device_ptr for field in batch]
            assert places == [each.address for each in given]
            assert [gpu.values(field)[1].sum() for field in batch] == [1, 2]


def test_a_tensor_is_given_back_when_its_batch_is_popped(gpu):
    tensors = [gpu.array(TorchArray, LARGE + number) for number in range(4)]
    destroyed = gpu.calls("cuEventDestroy_v2")
    with gpu.pipeline(samples_per_batch=2, **fields(Field("a", LARGE.shape, "f32"))) as stream:
        stream.push([Sample(boxes=[Box(each, field="a")]) for each in tensors])
        for popped in range(2):
            gc.collect()
            assert [each.freed for each in tensors] == [1] * (2 * popped) + [0] * (4 - 2 * popped)
            with stream.pop() as batch:
                wanted = [LARGE + 2 * popped, LARGE + 2 * popped + 1]
                numpy.testing.assert_array_equal(gpu.values(batch), wanted)
        gc.collect()
        assert [each.freed for each in tensors] == [1] * 4
    # An event that waited on a stream, of each tensor and of us.
    assert gpu.calls("cuEventDestroy_v2") - destroyed >= 8


def test_a_tensor_is_given_back_when_the_pipeline_is_reset_or_closed(gpu):
    for end in ("reset", "close"):
        tensor = gpu.array(TorchArray, LARGE, True)
        stream = gpu.pipeline(samples_per_batch=1, **fields(Field("a", LARGE.shape, "f32")))
        stream.push([Sample(boxes=[Box(tensor, field="a")])])
        gc.collect()
        assert tensor.freed == 0
        if end == "reset":
            stream.reset()
            gc.collect()
            assert tensor.freed == 1
        tensor.go_on()  # to unload kernels the driver waits for all that is queued
        stream.close()
        gc.collect()
        assert tensor.freed == 1


def test_a_source_gives_batches_of_them(gpu):
    whole = gpu.array(NumbaArray, LARGE)
    rows = [gpu.array(TorchArray, LARGE[number]) for number in range(5)]
    table = fields(Field("a", LARGE.shape[1:], "f32"), backend="cuda", cuda_driver=gpu.path)
    on_device = config(samples_per_batch=5, device=0, **table)
    with Source(iter([whole, rows]), on_device) as batches:
        for _ in range(2):
            with next(batches) as batch:
                numpy.testing.assert_array_equal(gpu.values(batch), LARGE)
    with Source(iter([whole]), on_device, copy=True) as batches:
        refused("must be in host memory to be copied or pickled (it is on CUDA device 0)",
                next, batches)  # fmt: skip


def test_what_cannot_be_lent_is_refused_by_name(gpu, pipeline):
    def interface(**changes):
        given = gpu.array(NumbaArray, LARGE).__cuda_array_interface__
        return types.SimpleNamespace(__cuda_array_interface__={**given, **changes})

    for text, given in (
        ("must not be a masked one", interface(mask=object())),
        ("byte order (got >i4)", interface(typestr=">i4")),
        ("a type of wavetrain", interface(typestr="<U3")),
        ("a type of wavetrain", interface(typestr="|V17")),
        ("at most 16 axes", interface(shape=(1,) * 17, strides=None)),
        ("cuPointerGetAttribute returned 1", interface(data=(4096, False))),
        ("it lacks shape, data", types.SimpleNamespace(__cuda_array_interface__={"typestr": "u1"})),
        ("must be in host memory to be one element over", interface(strides=(0, 0, 0))),
    ):
        refused(text, Box, given)
    boxes = [Box(gpu.array(kind, LARGE), field="a") for kind in KINDS.values()]
    for box in boxes:
        refused("must be in host memory to be copied or pickled", pickle.dumps, box)
        stream = pipeline(**fields(Field("a", LARGE.shape, "f32")))
        with pytest.raises(
            wavetrain.Unsupported, match=r"tensor\.device = 0, but batches are made"
        ):
            stream.push([Sample(boxes=[box])])


def test_another_kind_of_device_is_refused_by_name():
    class Foreign:
        def __init__(self, kind):
            self.kind = kind

        def __dlpack_device__(self):
            return self.kind, 1

        def __dlpack__(self, **named):
            raise AssertionError("nobody asks")

    refused("it is on a device of DLPack's kind 10", Box, Foreign(10))


def test_an_array_of_another_device_is_refused_by_the_library(gpu):
    gpu.library.simcuda_set_devices(2)
    context = gpu.made("cuCtxGetCurrent")
    try:
        interface = gpu.array(NumbaArray, LARGE).__cuda_array_interface__
        box = Box(types.SimpleNamespace(__cuda_array_interface__=interface), field="a")
        gpu("cuCtxSetCurrent", None)
        elsewhere = {"device": 1, **fields(Field("a", LARGE.shape, "f32"))}
        wrong = pytest.raises(wavetrain.InvalidArgument, match="batches are made on device 1")
        with gpu.pipeline(**elsewhere) as stream, wrong:
            stream.push([Sample(boxes=[box])])
    finally:
        gpu("cuCtxSetCurrent", ctypes.c_void_p(context))
        gpu.library.simcuda_set_devices(1)


def test_an_empty_array_has_no_address(gpu):
    given = types.SimpleNamespace(
        __cuda_array_interface__={"shape": (0, 3), "typestr": "<f4", "data": (0, False)}
    )
    field = Field("a", (4, 3), "f32", pad_mode="constant", pad_value=5)
    found = one(gpu, field, Box(given, [(0, 4), (0, 3)], "a"))
    numpy.testing.assert_array_equal(found, numpy.full((4, 3), 5))
