"""Arrays in memory of a CUDA device: who waits for what, until they are there to be read.

In: the number of a device, the stream that an array was made on. Out: events of the driver, which
the library asks for before it reads. A library that makes an array by DLPack lets wavetrain's
stream wait for it; if __cuda_array_interface__ names a stream, it is waited for on that.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from typing import Any

from wavetrain._interrupts import Kept
from wavetrain._owned import Owned

CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged
NON_BLOCKING, NO_TIMES, RELAXED = 1, 2, 2  # of streams, of events, of a thread that others capture
DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_

# The driver that the last pipeline was opened on, where it is not the system's.
drivers: list[str | None] = [None]
making = threading.Lock()


class Driver:
    """Its entries, by name. An array that they refuse is a ValueError."""

    def __init__(self, path: str | None) -> None:
        try:
            self.library = ctypes.CDLL(path or "libcuda.so.1")
        except OSError as error:
            raise ValueError(f"array must be one that the CUDA driver takes: {error}") from error
        self("cuInit", 0)

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise ValueError(
                f"array must be one that the CUDA driver takes: {name} returned {status}"
            )


class Gpu(Owned):
    """The primary context of a device, and wavetrain's stream in it that waits for arrays. Both
    live as long as the process, as arrays may."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver, self.context = driver, ctypes.c_void_p()
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.stream = self.made("cuStreamCreate", NON_BLOCKING)

    def inside(self, name: str, *arguments: Any) -> None:
        """A call in the context, whatever another thread captures."""
        mode, popped = ctypes.c_int(RELAXED), ctypes.c_void_p()
        with Kept():  # else Ctrl-C would leave the context on the thread
            self.driver("cuCtxPushCurrent_v2", self.context)
            try:
                self.driver("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
                try:
                    self.driver(name, *arguments)
                finally:
                    self.driver("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            finally:
                self.driver("cuCtxPopCurrent_v2", ctypes.byref(popped))

    def made(self, name: str, *arguments: Any) -> int:
        """A handle."""
        handle = ctypes.c_void_p()
        self.inside(name, ctypes.byref(handle), *arguments)
        return handle.value or 0


class Event(Owned):
    """The work that is queued on a stream so far; the driver has it as long as this lives."""

    handle = 0

    def __init__(self, gpu: Gpu, stream: int) -> None:
        self.gpu, self.handle = gpu, gpu.made("cuEventCreate", NO_TIMES)
        gpu.inside("cuEventRecord", ctypes.c_void_p(self.handle), ctypes.c_void_p(stream))

    def __del__(self) -> None:
        if self.handle:
            # At the end of a process, or in a fork of one, the driver may be gone before this.
            with contextlib.suppress(ValueError):
                self.gpu.inside("cuEventDestroy_v2", ctypes.c_void_p(self.handle))


def joined(events: list[Event]) -> Event | None:
    """One event after all of these, whatever streams they were recorded on."""
    if len(events) < 2:
        return events[0] if events else None
    gpu = events[0].gpu
    for event in events:
        gpu.inside(
            "cuStreamWaitEvent", ctypes.c_void_p(gpu.stream), ctypes.c_void_p(event.handle), 0
        )
    return Event(gpu, gpu.stream)


@functools.cache
def driver_at(path: str | None) -> Driver:
    return Driver(path)


@functools.cache
def gpu_at(path: str | None, device: int) -> Gpu:
    return Gpu(driver_at(path), device)


def gpu_of(device: int) -> Gpu:
    with making:
        return gpu_at(drivers[0], device)


def device_of(address: int) -> int:
    """The device whose memory it is. No context need be current for that."""
    with making:
        driver = driver_at(drivers[0])
    number = ctypes.c_int()
    driver(
        *("cuPointerGetAttribute", ctypes.byref(number), DEVICE_ORDINAL, ctypes.c_uint64(address))
    )
    return number.value
