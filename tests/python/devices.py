"""The simulated driver, and streams and events as torch and cupy have them."""

from __future__ import annotations

import ctypes

import numpy
from cubes import config

import wavetrain


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
        """What lies in device memory."""
        info = batch.info
        floats = numpy.empty(info.shape, "f4")
        source, size = ctypes.c_uint64(info.device_ptr), ctypes.c_size_t(info.bytes)
        self("cuMemcpyDtoH_v2", ctypes.c_void_p(floats.ctypes.data), source, size)
        return floats

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
