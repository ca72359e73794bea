"""The simulated driver, and streams and events as torch and cupy have them."""

from __future__ import annotations

import ctypes

import numpy
from cubes import config

import wavetrain
from wavetrain._batch import _END_OF_CAPSULE_AT, DELETER, DLManagedTensorVersioned, python


class Gpu:
    """Device 0 of the simulated driver, its primary context current on this thread."""

    def __init__(self, path: str) -> None:
        self.path, self.library = path, ctypes.CDLL(path)
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def made(self, name: str, *arguments: object) -> int:
        """A handle that the entry makes."""
        handle = ctypes.c_void_p()
        self(name, ctypes.byref(handle), *arguments)
        return handle.value

    def calls(self, name: str) -> int:
        function = self.library.simcuda_calls
        function.restype = ctypes.c_uint64
        return function(name.encode())

    def pipeline(self, **changes: object) -> wavetrain.Pipeline:
        plain = {"backend": "cuda", "device": 0, "cuda_driver": self.path}
        return wavetrain.Pipeline(config(**{**plain, **changes}))

    def values(self, batch: wavetrain.Batch) -> numpy.ndarray:
        """The numbers in device memory, as float32."""
        return self.bytes(batch).view("f4").reshape(batch.info.shape)

    def bytes(self, batch: wavetrain.Batch) -> numpy.ndarray:
        """What lies in device memory."""
        info = batch.info
        made = numpy.empty(info.bytes, "u1")
        source, size = ctypes.c_uint64(info.device_ptr), ctypes.c_size_t(info.bytes)
        self("cuMemcpyDtoH_v2", ctypes.c_void_p(made.ctypes.data), source, size)
        return made

    def found_nothing(self) -> None:
        text = ctypes.create_string_buffer(4096)
        findings = self.library.simcuda_findings
        findings.restype = ctypes.c_uint64
        assert findings(text, ctypes.c_size_t(4096)) == 0, text.value


class TorchEvent:
    """The driver's event goes with the object."""

    def __init__(self, gpu: Gpu, stream: int) -> None:
        self.gpu, self.cuda_event = gpu, gpu.made("cuEventCreate", 2)
        gpu("cuEventRecord", ctypes.c_void_p(self.cuda_event), ctypes.c_void_p(stream))

    def __del__(self) -> None:
        self.gpu("cuEventDestroy_v2", ctypes.c_void_p(self.cuda_event))


class TorchStream:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.cuda_stream = gpu, gpu.made("cuStreamCreate", 1)

    def wait_event(self, event: object) -> None: ...

    def record_event(self) -> TorchEvent:
        return TorchEvent(self.gpu, self.cuda_stream)


class CupyEvent:
    def __init__(self, gpu: Gpu, stream: int) -> None:
        self.kept = TorchEvent(gpu, stream)
        self.ptr = self.kept.cuda_event


class CupyStream:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.ptr = gpu, gpu.made("cuStreamCreate", 1)

    def wait_event(self, event: object) -> None: ...

    def record(self, event: object = None) -> CupyEvent:
        return CupyEvent(self.gpu, self.ptr)


class DeviceArray:
    """An array in device memory, as numba has one: its bytes arrive in the time of a stream of its
    own, behind poison. `is_held`: not before `go_on`."""

    def __init__(self, gpu: Gpu, values: numpy.ndarray, is_held: bool = False) -> None:
        self.gpu, self.values, self.freed = gpu, values, 0
        self.stream = gpu.made("cuStreamCreate", 1)
        bytes_ = numpy.lib.array_utils.byte_bounds(values)
        self.low, self.size = bytes_[0], bytes_[1] - bytes_[0]
        block, pinned = ctypes.c_uint64(), ctypes.c_void_p()
        gpu("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(self.size))
        gpu("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(self.size), 0)
        self.block, self.pinned = block, pinned
        ctypes.memmove(pinned, self.low, self.size)
        stream, size = ctypes.c_void_p(self.stream), ctypes.c_size_t(self.size)
        gpu("cuMemsetD8Async", block, 0x99, size, stream)
        gpu("cuStreamSynchronize", stream)
        gpu.library.simcuda_hold_stream(stream, int(is_held))
        gpu("cuMemcpyHtoDAsync_v2", block, pinned, size, stream)

    def go_on(self) -> None:
        self.gpu.library.simcuda_hold_stream(ctypes.c_void_p(self.stream), 0)

    def free(self) -> None:
        self.go_on()
        self.gpu("cuStreamSynchronize", ctypes.c_void_p(self.stream))
        self.gpu("cuMemFree_v2", self.block)
        self.gpu("cuMemFreeHost", self.pinned)
        self.gpu("cuStreamDestroy_v2", ctypes.c_void_p(self.stream))

    @property
    def address(self) -> int:
        return self.block.value + self.values.ctypes.data - self.low


class NumbaArray(DeviceArray):
    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "version": 3,
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "strides": self.values.strides,
            "data": (self.address, False),
            "stream": self.stream,
        }


class TorchArray(DeviceArray):
    """As torch hands it over: the stream that is named waits for what is queued."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: int, max_version: tuple[int, int] | None = None) -> object:
        assert max_version == (1, 0)
        event = TorchEvent(self.gpu, self.stream)
        self.gpu("cuStreamWaitEvent", ctypes.c_void_p(stream), ctypes.c_void_p(event.cuda_event), 0)
        tensor = DLManagedTensorVersioned(major=1)
        rank, dtype = self.values.ndim, self.values.dtype
        strides = [stride // dtype.itemsize for stride in self.values.strides]
        self.kept = [(ctypes.c_int64 * rank)(*each) for each in (self.values.shape, strides)]
        tensor.deleter = DELETER(self.give_back)
        given = tensor.dl_tensor
        given.data, given.byte_offset = self.address - 16, 16
        given.device_type, given.device_id, given.ndim = 2, 0, rank
        given.code, given.bits, given.lanes = "iuf".index(dtype.kind), 8 * dtype.itemsize, 1
        given.shape, given.strides = map(ctypes.addressof, self.kept)
        self.tensor = tensor
        name = b"dltensor_versioned"
        return python.PyCapsule_New(ctypes.addressof(tensor), name, _END_OF_CAPSULE_AT)

    def give_back(self, _: int) -> None:
        self.freed += 1
