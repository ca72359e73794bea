"""Arrays that Python has: the source hook.

In: the description of an array by `Config.source`, and arrays of elements that it reads. Out: those
elements where the library wants them; statuses, whose exceptions are kept. Invariant: what has not
the type and the shape that was asked for is an error, never data.
"""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import math
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from wavetrain import _border, _interrupts, _native
from wavetrain._absence import doubt_of, handled, not_read
from wavetrain._batch import python
from wavetrain._border import I64_MAX, short
from wavetrain._callbacks import callback
from wavetrain._causes import Causes
from wavetrain._config import Coerced, Dtype, dtype_field
from wavetrain._fed import Buffer, Fed, Number, feed, row_major, words

LOGGER = logging.getLogger("wavetrain.arrays")
INFOS_MAX = 1024  # kept; of others the source is asked again
SHOWN_BYTES = 100  # at the end of a uri, which texts of the library have in any case

python.PyBuffer_ToContiguous.argtypes = [
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_ssize_t,
    ctypes.c_char,
]


@dataclasses.dataclass(frozen=True)
class SourceInfo:
    """The description of an array of `Config.source`.

    shape: extents, up to 16 axes; (): one element.
    dtype: type of the elements: a Dtype, its number or name, a dtype of numpy or torch.
    chunk_shape: reads are whole chunks, cut at the end of the array; each is read once for all
        boxes that need it, and may be kept (Config.chunk_cache_bytes). It may have at most
        Config.max_chunk_uncompressed_bytes, which Pipeline's fit raises. (): any box is one read.
    fill: one element that is read for those that are missing, and outside of the array where
        pad_mode is constant and pad_value None; of RAW bytes.
    dtype_bytes: bytes of an element where dtype is RAW; else 0.

    >>> SourceInfo((640, 480), "float32", chunk_shape=(64, 480)).dtype is Dtype.F32
    True
    >>> SourceInfo((640, 480), "f32", chunk_shape=(64,))
    Traceback (most recent call last):
        ...
    ValueError: chunk_shape must have an extent for each axis of shape, 2 (got 1)
    """

    shape: Sequence[int]
    dtype: Coerced[Any, Dtype] = Coerced(dtype_field, Dtype.F32)
    chunk_shape: Sequence[int] = ()
    fill: complex | bytes = 0
    dtype_bytes: int = 0

    def __post_init__(self) -> None:
        keep = object.__setattr__

        def extents(name: str, low: int) -> tuple[int, ...]:
            def extent(axis: int, given: Any) -> int:
                return _border.whole(f"{name}[{axis}]", given, low, I64_MAX)

            return _border.axes(name, getattr(self, name), 0, extent)

        keep(self, "shape", extents("shape", 0))
        keep(self, "chunk_shape", extents("chunk_shape", 1))
        keep(self, "dtype_bytes", _border.whole("dtype_bytes", self.dtype_bytes, 0, 16))
        if (self.dtype is Dtype.RAW) != (self.dtype_bytes > 0):
            text = "dtype_bytes must be 1 to 16 where dtype is RAW, and else 0"
            raise ValueError(f"{text} (got {self.dtype_bytes})")
        rank, given = len(self.shape), len(self.chunk_shape)
        if given not in (0, rank):
            text = f"chunk_shape must have an extent for each axis of shape, {rank}"
            raise ValueError(f"{text} (got {given})")
        element("fill", self.fill, self.dtype, self.dtype_bytes)


class Arrays(Protocol):
    """The type of `Config.source`: it has the array NAME of each uri "hook:NAME".

    Both methods are called on the pipeline's own threads, n_io_threads of them, several at once: a
    library that is not thread-safe needs a lock around it. They may wait, and run in parallel as
    far as they let go of the GIL, as reads of files and decompression do. They must not wait for
    the pipeline, and what they read must not change while it is open.

    An exception becomes a StorageError of the sample that needed the elements, with the same text,
    and is its `__cause__`. An array of another shape or type than was asked for is a StorageError,
    too.
    """

    def describe(self, name: str) -> SourceInfo:
        """The description of the array. FileNotFoundError and KeyError: there is no such array,
        NotFound."""
        ...

    def read(self, name: str, start: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """The elements start[axis] <= i < start[axis] + shape[axis]: an array of numpy, torch, or
        what else a Box takes, of that shape and the type that describe gave, with any strides. It
        is copied, and not kept. FileNotFoundError: they are missing, which is data, the fill value,
        or NotFound with missing_chunks="error"."""
        ...


class ArraysHook:
    """The source hook of one pipeline."""

    def __init__(self, arrays: Any) -> None:
        self.arrays, self.causes = arrays, Causes(LOGGER)
        self.infos: dict[str, SourceInfo] = {}
        failed = _native.FILE_FAILED
        # ctypes keeps none of them alive.
        self.calls = (
            callback(_native.SourceHook_describe, self.describe, failed),
            callback(_native.SourceHook_read, self.read, failed),
        )

    def fill(self, hook: _native.SourceHook) -> None:
        hook.describe, hook.read = self.calls

    def describe(self, _user: Any, name: bytes, target: int) -> int:
        text, within = name.decode(), handled()
        try:
            info = self.ask(text)
            native = _native.SourceInfo.from_address(target)
            native.rank, native.dtype = len(info.shape), info.dtype
            native.dtype_bytes = info.dtype_bytes
            native.shape[: native.rank] = info.shape
            native.chunk_shape[: len(info.chunk_shape)] = info.chunk_shape
            fill = element("fill", info.fill, info.dtype, info.dtype_bytes)
            native.fill[: len(fill)] = fill
            return 0
        except (FileNotFoundError, KeyError) as error:
            return self.missed(text, error, within)
        except BaseException as error:
            self.causes.failed(shown(text), error)
            return _native.FILE_FAILED

    def ask(self, name: str) -> SourceInfo:
        with _interrupts.heard():
            info: Any = self.arrays.describe(name)
        if not isinstance(info, SourceInfo):
            raise TypeError(f"describe must give a wavetrain.SourceInfo (got {short(info)})")
        if len(self.infos) >= INFOS_MAX:
            self.infos.clear()
        self.infos[name] = info
        return info

    def read(
        self, _user: Any, name: bytes, begin: int | None, end: int | None, target: int, size: int
    ) -> int:
        text, within, place = name.decode(), handled(), ""
        try:
            info = self.infos.get(text) or self.ask(text)
            start, stop = words(begin, len(info.shape)), words(end, len(info.shape))
            place = f"elements {start} to {[each - 1 for each in stop]}"
            shape = tuple([each - first for first, each in zip(start, stop)])
            with _interrupts.heard():
                given = self.arrays.read(text, tuple(start), shape)
            write(given, info, shape, (target, size))
            return 0
        except FileNotFoundError as error:
            return self.missed(text, error, within, place)
        except BaseException as error:
            self.causes.failed(shown(text), error, place)
            return _native.FILE_FAILED

    def missed(
        self, name: str, error: BaseException, within: BaseException | None, place: str = ""
    ) -> int:
        doubt = doubt_of(error, within)
        if doubt is None:
            self.causes.missed(shown(name), error, place)
            return _native.FILE_ABSENT
        self.causes.failed(shown(name), not_read(name, error, doubt), place)
        return _native.FILE_FAILED


def shown(name: str) -> str:
    """As the library's texts have it, or the end of that."""
    return f"hook:{name}".encode()[-SHOWN_BYTES:].decode(errors="ignore") + ":"


def element(name: str, value: Any, dtype: Dtype, dtype_bytes: int) -> bytes:
    """The bytes of a number in that type."""
    if dtype is Dtype.RAW:
        made = bytes(dtype_bytes) if value == 0 else value
        if not isinstance(made, bytes) or len(made) != dtype_bytes:
            raise ValueError(f"{name} must be {dtype_bytes} bytes, or 0 (got {short(value)})")
        return made
    number = feed(value)
    if not isinstance(number, Number):
        raise TypeError(f"{name} must be a number (got {short(value)})")
    try:
        found, packed = number.to(dtype)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if found is dtype:
        return packed
    # Only bfloat16 has another type there: it is the upper half of a float.
    (real,) = struct.unpack("=d", packed)
    upper = struct.unpack("=I", struct.pack("=f", real))[0] >> 16
    (exact,) = struct.unpack("=f", struct.pack("=I", upper << 16))
    if exact != real and not math.isnan(real):
        raise ValueError(f"{name} must be a number of bfloat16 (got {short(value)})")
    return struct.pack("=H", upper)


def write(given: Any, info: SourceInfo, shape: tuple[int, ...], target: tuple[int, int]) -> None:
    """Copies the elements that `read` gave, row-major."""
    array = feed(given)
    if isinstance(array, Number) and shape == () and info.dtype is not Dtype.RAW:
        packed = element("the element", array, info.dtype, 0)
        array = Fed(info.dtype, len(packed), (), (), packed)
    if not isinstance(array, Fed):
        raise TypeError(f"read must give an array (got {short(given)})")
    address, size = target
    is_wanted = (array.shape, array.dtype) == (shape, info.dtype)
    if not is_wanted or math.prod(shape) * array.itemsize != size:
        wanted = " x ".join(map(str, shape)) or "one"
        raise ValueError(
            f"read must give <{wanted} {info.dtype.name.lower()}> (got {short(array)})"
        )
    if isinstance(array.data, bytes):
        ctypes.memmove(address, array.data, size)
    elif array.strides == row_major(shape, array.itemsize):
        ctypes.memmove(address, array.data, size)  # without the GIL
    else:
        write_strided(array, address, size)


def write_strided(array: Fed, address: int, size: int) -> None:
    rank = len(array.shape)
    shape = (ctypes.c_ssize_t * rank)(*array.shape)
    strides = (ctypes.c_ssize_t * rank)(*array.strides)
    view = Buffer(
        data=array.data,
        bytes=size,
        itemsize=array.itemsize,
        readonly=1,
        ndim=rank,
        format=b"B",
        shape=ctypes.addressof(shape),
        strides=ctypes.addressof(strides),
    )
    python.PyBuffer_ToContiguous(address, ctypes.byref(view), size, b"C")
