"""Other libraries take batches in place, and what they take outlives batch and pipeline."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import sys
import threading

import numpy
import pytest
from cubes import EDGE, run_program, wait_until, write_cube
from devices import CupyEvent, CupyStream, Gpu, TorchEvent, TorchStream
from test_stream import starves

import wavetrain
from wavetrain import _pipeline
from wavetrain._batch import LAYOUTS

SIGNED = numpy.arange(-32, 32).reshape(4, 4, 4)
# Element types of arrays, and those of batches that lose nothing.
CASTS = [
    *(("u2", name, "u2") for name in ("u16", "raw")),
    *(("u1", name, dtype) for name, dtype in (("u8", "u1"), ("f16", "f2"), ("f32", "f4"))),
    *(("i1", name, dtype) for name, dtype in (("i8", "i1"), ("i32", "i4"), ("f32", "f4"))),
    *(("u2", "i64", "i8"), ("i2", "i16", "i2"), ("u4", "u32", "u4"), ("u8", "u64", "u8")),
    *(("?", "bool", "?"), ("c8", "c64", "c8"), ("c16", "c128", "c16"), ("f8", "f64", "f8")),
]


@pytest.fixture
def batch(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(4))
    return stream.pop()


@pytest.fixture
def single(cube, pipeline):
    """One slot, which the first of the batches 0, 1 .. holds."""
    stream = pipeline(n_batch_slots=1, samples_per_batch=1)
    stream.push(cube.samples(3))
    return stream


def takers():
    """How a batch is taken: a function of the batch to a numpy array."""

    def torch(batch):
        return pytest.importorskip("torch", reason="there is no torch here").from_dlpack(batch)

    return [numpy.from_dlpack, torch, wavetrain.Batch.numpy, wavetrain.Batch.buffer]


def as_numpy(taken, shape=(EDGE,) * 3):
    if isinstance(taken, memoryview):
        return numpy.frombuffer(taken, "f4").reshape(-1, *shape)
    return taken if isinstance(taken, numpy.ndarray) else taken.numpy()


@pytest.mark.parametrize("take", takers(), ids=["numpy", "torch", "batch_numpy", "buffer"])
def test_what_is_taken_is_the_slot_itself_and_may_be_written_to(take, cube, batch):
    array = as_numpy(take(batch))
    assert array.ctypes.data == batch.info.device_ptr and array.flags.writeable
    assert array.shape == (4, EDGE, EDGE, EDGE) and array.dtype == numpy.float32
    numpy.testing.assert_array_equal(array, cube.holds(0, 1, 2, 3))
    array[3, 7, 7, 7] = -5
    assert batch.numpy()[3, 7, 7, 7] == -5


@pytest.mark.parametrize("take", takers(), ids=["numpy", "torch", "batch_numpy", "buffer"])
def test_what_is_taken_keeps_slot_and_memory(take, cube, single):
    with single.pop() as batch:
        taken = take(batch)
    part = as_numpy(taken)[0, 3:]  # a view of the view
    del taken, batch
    gc.collect()
    assert "held" in str(starves(single))
    single.push(cube.samples(3, 6))
    gc.collect()
    numpy.testing.assert_array_equal(part, cube.holds(0)[0, 3:])
    del part
    gc.collect()
    with single.pop() as batch:
        assert batch.info.tags == (1,)


@pytest.mark.parametrize("take", takers(), ids=["numpy", "torch", "batch_numpy", "buffer"])
def test_what_is_taken_outlives_the_pipeline(take, cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(4))
    taken = take(stream.pop())
    stream.close()
    loader = stream._open
    del stream
    gc.collect()
    numpy.testing.assert_array_equal(as_numpy(taken), cube.holds(0, 1, 2, 3))
    assert loader.handle != 0
    del taken
    gc.collect()
    wait_until(lambda: loader.handle == 0)


def test_jax_takes_a_batch(cube):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("there is no jax here")
    # Alone: where jax was imported every later fork warns.
    run_program(
        """
        import sys, jax, numpy, wavetrain
        from cubes import Cube, config
        cube = Cube(sys.argv[1])
        with wavetrain.Pipeline(config()) as pipeline:
            pipeline.push(cube.samples(4))
            with pipeline.pop() as batch:
                array = jax.dlpack.from_dlpack(batch)
                assert array.unsafe_buffer_pointer() == batch.info.device_ptr
            numpy.testing.assert_array_equal(numpy.asarray(array), cube.holds(0, 1, 2, 3))
            del array
        """,
        cube,
    )


@pytest.mark.parametrize(("stored", "name", "made"), CASTS)
def test_every_type_is_taken_as_it_is(pipeline, tmp_path, stored, name, made):
    data = (SIGNED if stored in ("i1", "f8", "c8", "c16") else SIGNED + 32).astype(stored)
    if stored[0] == "c":
        data = data + (1j * data[::-1]).astype(stored)
    write_cube(tmp_path / "typed", data, chunks=(2, 2, 2), shards=None, fill_value=0)
    size = {"dtype_bytes": data.itemsize} if name == "raw" else {}
    stream = pipeline(samples_per_batch=2, sample_shape=(2, 4, 4), dtype=name, **size)
    stream.push(wavetrain.Sample(tmp_path / "typed", numpy.s_[z : z + 2, :4, :4]) for z in (0, 2))
    expected = data.reshape(2, 2, 4, 4)
    expected = expected[..., None].view("u1") if name == "raw" else expected.astype(made)
    with stream.pop() as batch:
        for array in (batch.numpy(), numpy.from_dlpack(batch)):
            assert array.dtype == expected.dtype and array.ctypes.data == batch.info.device_ptr
            numpy.testing.assert_array_equal(array, expected)


def test_bfloat16_is_that_of_ml_dtypes_and_torch(cube, pipeline):
    stream = pipeline(dtype="bf16", samples_per_batch=1)
    stream.push(cube.samples(1))
    with stream.pop() as batch:
        ml_dtypes = pytest.importorskip("ml_dtypes", reason="there is no ml_dtypes here")
        expected = cube.holds(0).astype("f4").astype(ml_dtypes.bfloat16)
        assert batch.numpy().dtype == expected.dtype
        numpy.testing.assert_array_equal(batch.numpy(), expected)
        torch = pytest.importorskip("torch", reason="there is no torch here")
        tensor = torch.from_dlpack(batch)
        assert tensor.dtype is torch.bfloat16
        numpy.testing.assert_array_equal(tensor.float().numpy(), expected.astype("f4"))


@pytest.mark.parametrize("dtype", [each for each in wavetrain.Dtype if each.name != "RAW"])
def test_numpy_takes_a_dtype_and_makes_the_type_of_the_batch(dtype):
    if dtype is wavetrain.Dtype.BF16:
        pytest.importorskip("ml_dtypes", reason="there is no ml_dtypes here")
    made = numpy.zeros(3, dtype)
    assert wavetrain.Dtype.coerce(made.dtype) is dtype and made.dtype == dtype
    assert numpy.ones(3, "u1").astype(dtype).dtype == made.dtype == dtype.dtype


def test_a_dtype_that_numpy_has_not_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="numpy has no bfloat16: pip install ml_dtypes"):
        numpy.zeros(3, wavetrain.Dtype.BF16)
    with pytest.raises(TypeError, match=r"Dtype\.RAW is not a type of numpy.*batch\.numpy\(\)"):
        numpy.zeros(3, wavetrain.Dtype.RAW)


def test_a_ninth_tensor_is_try_again(batch):
    tensors = [numpy.from_dlpack(batch) for _ in range(8)]
    with pytest.raises(wavetrain.TryAgain, match="8"):
        batch.__dlpack__()
    with pytest.raises(wavetrain.TryAgain):
        batch.numpy()
    tensors.pop()
    tensors.append(numpy.from_dlpack(batch))
    batch.release()


VERSIONS = [(None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 0), b"dltensor_versioned")]
python = ctypes.PyDLL(None)
python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


@pytest.mark.parametrize(("version", "name"), VERSIONS)
def test_a_capsule_that_nobody_took_gives_its_tensor_back(single, version, name):
    with single.pop() as batch:
        capsule = batch.__dlpack__(max_version=version)
    assert python.PyCapsule_IsValid(capsule, name)
    starves(single)
    del capsule
    assert single.pop().info.tags == (1,)


@pytest.mark.parametrize(("version", "name"), VERSIONS)
def test_a_capsule_that_was_taken_leaves_its_tensor_to_the_consumer(single, version, name):
    with single.pop() as batch:
        capsule = batch.__dlpack__(max_version=version)
    tensor, used = python.PyCapsule_GetPointer(capsule, name), b"used_" + name
    python.PyCapsule_SetName(capsule, used)
    del capsule
    gc.collect()
    starves(single)  # the tensor lives
    LAYOUTS[name].from_address(tensor).deleter(tensor)
    assert single.pop().info.tags == (1,)


def test_more_capsules_than_tensors_may_go_by_untaken(single):
    with single.pop() as batch:
        for _ in range(40):
            batch.__dlpack__(max_version=(1, 0))
    assert single.pop().info.tags == (1,)


def test_a_consumer_that_fails_loses_neither_its_exception_nor_the_slot(cube, pipeline):
    stream = pipeline(n_batch_slots=1, samples_per_batch=1, dtype="bf16")
    stream.push(cube.samples(2))
    batch = stream.pop()
    for _ in range(20):  # numpy takes no bfloat16, and drops the capsule while it says so
        with pytest.raises((RuntimeError, BufferError)) as caught:
            numpy.from_dlpack(batch)
        assert not isinstance(caught.value, wavetrain.WavetrainError) and str(caught.value)
    batch.release()
    assert stream.pop().info.tags == (1,)


def test_a_batch_is_neither_copied_nor_moved_nor_described_after_its_release(batch):
    assert batch.__dlpack_device__() == (1, 0)
    for arguments in ({"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match="not copied or moved"):
            batch.__dlpack__(**arguments)
    batch.__dlpack__(dl_device=(1, 0), copy=False, stream=None)
    batch.release()
    batch.release()
    for call in (lambda: batch.info, batch.__dlpack__, batch.numpy, batch.buffer):
        with pytest.raises(wavetrain.InvalidArgument, match="was released"):
            call()


def test_an_event_on_the_host_is_refused_and_the_batch_stays(cube, single):
    class Event:
        cuda_event = 4096

    class Stream:
        def wait_event(self, event): ...

        def record_event(self):
            return Event()

    batch = single.pop()
    for event in (4096, Event(), Stream()):
        with pytest.raises(wavetrain.Unsupported, match="event"):
            batch.release(event=event)
        numpy.testing.assert_array_equal(batch.numpy(), cube.holds(0))
    for wrong, kind in ((-1, ValueError), (0, ValueError), (2**64, ValueError), ("x", TypeError)):
        with pytest.raises(kind, match=r"^event must"):
            batch.release(event=wrong)
    batch.release(event=None)
    assert single.pop().info.tags == (1,)


# ---- On a device --------------------------------------------------------------------------------


@pytest.fixture
def gpu(simulated_driver):
    gpu = Gpu(simulated_driver)
    yield gpu
    gpu.found_nothing()


def tensor_of(capsule):
    name = b"dltensor_versioned"
    return LAYOUTS[name].from_address(python.PyCapsule_GetPointer(capsule, name)).dl_tensor


def test_a_batch_on_a_device_says_so_and_its_tensor_too(gpu, cube):
    with gpu.pipeline() as stream:
        stream.push(cube.samples(8))
        assert stream.device == 0 and stream.backend is wavetrain.Backend.CUDA
        with stream.pop() as batch:
            info = batch.info
            assert info.device == 0 and info.ready_stream and info.tags == (0, 1, 2, 3)
            assert "in CUDA device 0" in repr(batch)
            numpy.testing.assert_array_equal(gpu.values(batch), cube.holds(0, 1, 2, 3))
            assert batch.__dlpack_device__() == (2, 0)
            own = TorchStream(gpu)
            for number in (None, 0, 1, 2, -1, info.ready_stream, own.cuda_stream, own):
                capsule = batch.__dlpack__(stream=number, max_version=(1, 0))
                tensor = tensor_of(capsule)
                assert tensor.data == info.device_ptr
                assert (tensor.device_type, tensor.device_id) == (2, 0)
                assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
                shape = (ctypes.c_int64 * tensor.ndim).from_address(tensor.shape)
                assert (*shape,) == info.shape
                del capsule, tensor
            batch.__dlpack__(dl_device=(2, 0))
            for wrong in ((1, 0), (2, 1)):
                with pytest.raises(BufferError):
                    batch.__dlpack__(dl_device=wrong)
            for call in (batch.buffer, batch.numpy):
                with pytest.raises(BufferError, match="device memory"):
                    call()
        with stream.pop() as batch:
            numpy.testing.assert_array_equal(gpu.values(batch), cube.holds(4, 5, 6, 7))


def test_a_device_batch_is_released_behind_events_and_streams(gpu, cube):
    side, other = TorchStream(gpu), CupyStream(gpu)
    with gpu.pipeline(n_batch_slots=1, consumer_stream=side) as stream:
        stream.push(cube.samples(28))
        event = TorchEvent(gpu, side.cuda_stream)
        theirs = CupyEvent(gpu, other.ptr)
        events = (None, event, event.cuda_event, side, theirs, other, None)
        for first, behind in zip(range(0, 28, 4), events):
            batch = stream.pop()
            assert batch.info.tags[0] == first
            before = gpu.calls("cuStreamWaitEvent")
            batch.release(event=behind)
            assert not batch.handle.value and gpu.calls("cuStreamWaitEvent") >= before


def test_device_none_is_the_current_context_and_without_one_device_0(gpu):
    found = []

    def work():  # on a thread of its own, which has no context
        for backend in ("cuda", "auto"):
            with gpu.pipeline(device=None, backend=backend) as stream:
                found.append((stream.backend, stream.device))
        # Not the primary one, which device 0 would be.
        context = gpu.made("cuCtxCreate_v2", 0, 0)
        with gpu.pipeline(device=None) as stream:
            found.append((stream.backend, stream.device))
        gpu("cuCtxDestroy_v2", ctypes.c_void_p(context))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(wavetrain.Backend.CUDA, 0)] * 3


def test_processes_that_may_share_a_device_by_mistake_are_warned(gpu, monkeypatch, recwarn):
    ask = _pipeline.ask_driver
    two = {"cuDeviceGetCount": 2}  # the simulated driver has one
    fake = lambda driver, name: two.get(name) or ask(driver, name)  # noqa: E731
    monkeypatch.setattr(_pipeline, "ask_driver", fake)
    text = r"LOCAL_RANK is 1, but batches are on CUDA device 0 of 2: set Config\.device = 1"
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.warns(RuntimeWarning, match=text):
        gpu.pipeline().close()
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.warns(RuntimeWarning, match="CUDA device 0 of 2, that of the current context"):
        gpu.pipeline(device=None).close()
    recwarn.clear()
    gpu.pipeline().close()
    # CUDA_VISIBLE_DEVICES may leave each rank one device, which is its 0.
    for rank in ("0", "3", "none"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        gpu.pipeline().close()
        gpu.pipeline(device=None).close()
    assert not recwarn.list


def test_a_driver_that_is_not_there_is_named(pipeline):
    with pytest.raises(wavetrain.NativeCudaError, match=r"set Config\(backend='host'\)") as caught:
        pipeline(backend="cuda", cuda_driver="/nowhere/libcuda.so.1")
    assert "/nowhere/libcuda.so.1" in str(caught.value)
    assert pipeline(backend="auto", cuda_driver="/nowhere/libcuda.so.1").device == -1
