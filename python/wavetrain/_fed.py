"""The source of a box in the place of an array of a store: memory of the process or of a CUDA
device, or a number.

In: what speaks __array_interface__ (numpy), DLPack (torch, jax), __cuda_array_interface__ (numba)
or the buffer protocol, or a number of Python or numpy. Out: a `Fed`, with the address of the
elements and the object that keeps them there. If they are few and of the process, it has the
elements themselves. Or a `Number`, which gets its type from its field.
"""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import math
import struct
from collections.abc import Iterable
from typing import Any, cast

from wavetrain import _lent, _native
from wavetrain._batch import LAYOUTS, READ_ONLY, python
from wavetrain._border import short
from wavetrain._config import NUMPY, Dtype
from wavetrain._owned import Owned

VALUE_BYTES = 64  # that are copied, see WAVETRAIN_BOX_VALUE in wavetrain.h
HOST_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost
STRIDED_RO, SIMPLE = 0x18 | 0x4, 0  # PyBUF_STRIDES | PyBUF_FORMAT
WRITABLE = 1  # PyBUF_WRITABLE
# By kind and bytes, as __array_interface__ has them. Times are their int64 bits, as everywhere.
TYPES = {
    **{name: dtype for dtype, name in NUMPY.items()},
    "b1": Dtype.BOOL,
    "M8": Dtype.I64,
    "m8": Dtype.I64,
}
# By the codes of dlpack.h.
KINDS = {0: "i", 1: "u", 2: "f", 4: "bfloat", 5: "c", 6: "b"}
# By the letters of struct: their kinds, as sizes differ.
LETTERS = {
    **dict.fromkeys("bhilqn", "i"),
    **dict.fromkeys("BHILQNc", "u"),
    **dict.fromkeys("efd", "f"),
    **dict.fromkeys(("Zf", "Zd", "F", "D"), "c"),
    "?": "b",
}
NUMBERS = {
    Dtype.BOOL: "?",
    Dtype.I8: "b",
    Dtype.U8: "B",
    Dtype.I16: "h",
    Dtype.U16: "H",
    Dtype.I32: "i",
    Dtype.U32: "I",
    Dtype.I64: "q",
    Dtype.U64: "Q",
    Dtype.F16: "e",
    Dtype.F32: "f",
    Dtype.F64: "d",
    Dtype.C64: "ff",
    Dtype.C128: "dd",
}
BF16_LIMIT = float.fromhex("0x1.ffp127")  # from here on a number rounds to infinity


@dataclasses.dataclass(frozen=True)
class Number:
    """A number, which becomes one of its field's type when a pipeline takes it."""

    value: complex  # or what is one: a bool, an int, a float
    shape = ()

    def to(self, dtype: Dtype) -> tuple[Dtype, bytes]:
        """Its bytes in that type, or in one that the library casts to it. A whole number stays as
        it is; a float is rounded if the field has floats, as all of its elements are."""
        given: Any = self.value
        wrong = ValueError(
            f"a number must be one of {dtype.name.lower()} (got {short(given)}): take a wider "
            "dtype for the field"
        )
        if dtype is Dtype.RAW:
            raise wrong
        code = NUMBERS.get(dtype, "d")
        value: Any = given
        held: Any
        if len(code) == 1 and isinstance(given, complex):
            if given.imag != 0:  # nor is NaN
                raise wrong
            value = given.real
        is_whole, is_bool = isinstance(value, int) or code in "?bBhHiIqQ", dtype is Dtype.BOOL
        try:
            if len(code) == 2:
                packed = struct.pack("=" + code, value.real, value.imag)
                held = complex(*struct.unpack("=" + code, packed))
            elif code in "efd":
                packed = struct.pack("=" + code, value)
                held = struct.unpack("=" + code, packed)[0]
            else:
                held = int(value)
                packed = struct.pack("=" + code, held)
            if dtype is Dtype.BF16:
                top = struct.pack(">f", value)[:2] + b"\0\0"
                is_over = math.isfinite(value) and abs(value) >= BF16_LIMIT
                held = math.inf if is_over else struct.unpack(">f", top)[0]
                is_whole |= is_over
        except (struct.error, OverflowError, ValueError) as error:
            raise wrong from error
        if (is_whole and held != value) or (is_bool and held not in (0, 1)):
            raise wrong
        return (Dtype.F64 if dtype is Dtype.BF16 else dtype), packed


@dataclasses.dataclass(frozen=True, repr=False)
class Fed:
    """An array. Equal are those of the same memory, and small ones of the same elements."""

    dtype: Dtype
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    data: int | bytes  # the address of the first element; or all of them, row-major, VALUE_BYTES
    owner: Any = dataclasses.field(default=None, compare=False)  # keeps what is at the address
    device: int = -1  # of CUDA; -1: memory of the process
    event: _lent.Event | None = dataclasses.field(default=None, compare=False)  # complete after it
    is_read_only: bool = dataclasses.field(default=False, compare=False)  # as DLPack has it

    def __repr__(self) -> str:
        return f"<{' x '.join(map(str, self.shape)) or 'one'} {self.dtype.name.lower()}>"

    def __reduce__(self) -> Any:
        low, _ = self.reach()
        return from_bytes, (self.dtype, self.itemsize, self.shape, self.strides, self.span(), low)

    @property
    def is_borrowed(self) -> bool:
        return not isinstance(self.data, bytes)

    def reach(self) -> tuple[int, int]:
        """Bytes from the first element to the lowest address, and to the end of the highest."""
        if not all(self.shape):
            return 0, 0
        ends = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides)]
        return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + self.itemsize

    def span(self) -> bytes:
        """All bytes from the lowest to the highest."""
        if isinstance(self.data, bytes):
            return self.data
        if self.device >= 0:
            raise ValueError(of_device("to be copied or pickled", self.device))
        low, high = self.reach()
        return ctypes.string_at(self.data + low, high - low)

    def copied(self) -> Fed:
        """The same in memory of its own: what lies between its elements is copied, too."""
        low, _ = self.reach()
        return from_bytes(self.dtype, self.itemsize, self.shape, self.strides, self.span(), low)

    def rows(self) -> Iterable[Fed]:
        """The arrays along its first axis."""
        shape, strides, size = self.shape[1:], self.strides[1:], self.itemsize
        if isinstance(self.data, bytes):
            size *= math.prod(shape)
            parts = [self.data[at * size : (at + 1) * size] for at in range(self.shape[0])]
            return [Fed(self.dtype, self.itemsize, shape, strides, part) for part in parts]
        address = self.data
        return [
            fed(
                *(self.dtype, size, shape, strides, address + at * self.strides[0], self.owner),
                *(self.device, self.event),
            )
            for at in range(self.shape[0])
        ]


class Buffer(ctypes.Structure):
    """Py_buffer of the stable ABI."""

    data: int | None
    owner: int | None
    bytes: int
    itemsize: int
    ndim: int
    format: bytes | None
    shape: int | None
    strides: int | None

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("bytes", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


class Held(Owned):
    """The buffer of an object, which stays as it is until this is gone."""

    view = Buffer()

    def __init__(self, given: Any, flags: int) -> None:
        self.view = Buffer()
        python.PyObject_GetBuffer(given, ctypes.byref(self.view), flags)

    def __del__(self) -> None:
        if self.view.owner:
            python.PyBuffer_Release(ctypes.byref(self.view))


python.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
python.PyBuffer_Release.argtypes = [ctypes.c_void_p]
python.PyBuffer_Release.restype = None


def feed(given: Any) -> Fed | Number | None:
    """The memory or number that a box reads; None if the object is neither. TypeError and
    ValueError begin with "array"."""
    if isinstance(given, (Fed, Number)):
        return given
    if isinstance(given, bool):
        return Number(given)
    if isinstance(given, (int, float)):
        return Number(int(given) if isinstance(given, int) else float(given))
    if isinstance(given, complex):
        return Number(complex(given))
    kind: Any = type(given)  # pyright: ignore[reportUnknownVariableType]
    if any(base.__name__ == "generic" and base.__module__ == "numpy" for base in kind.__mro__):
        return scalar(given)
    if hasattr(kind, "__array_interface__") or hasattr(given, "__array_interface__"):
        return of_interface(given)
    if hasattr(kind, "__dlpack__"):
        return of_dlpack(given)
    if hasattr(given, "__cuda_array_interface__"):
        return of_cuda_interface(given)
    try:
        held = Held(given, STRIDED_RO)
    except (TypeError, BufferError, ValueError):
        return None
    return of_buffer(held)


def scalar(given: Any) -> Number:
    """For numpy, and ml_dtypes, whose scalars are numpy's."""
    kind, name = given.dtype.kind, given.dtype.name
    if kind in "Mm":
        return Number(int(given.view("i8")))
    value: Any = float(given) if name == "bfloat16" else None
    value = given.item() if kind in "biufc" else value
    if type(value) not in (bool, int, float, complex):
        raise TypeError(f"array must be a number of a type that wavetrain has (got {short(given)})")
    return Number(value)


def target(given: Any, device: int = -1) -> Fed:
    """The target of a box or a batch: an object with one of the protocols, in memory of the process
    or of that CUDA device, which may be written. TypeError and ValueError begin with "array"."""
    kind: Any = type(given)  # pyright: ignore[reportUnknownVariableType]
    if hasattr(kind, "__array_interface__") or hasattr(given, "__array_interface__"):
        data = given.__array_interface__.get("data")
        is_read_only = isinstance(data, tuple) and cast("Any", data)[1]
        made = of_interface(given, copies=False)
    elif hasattr(kind, "__dlpack__"):
        made = of_dlpack(given, copies=False)
        is_read_only = made.is_read_only
    elif hasattr(given, "__cuda_array_interface__"):
        made = of_cuda_interface(given)
        is_read_only = bool(given.__cuda_array_interface__["data"][1])
    else:
        try:
            made = of_buffer(Held(given, STRIDED_RO | WRITABLE), copies=False)
        except (TypeError, BufferError) as error:
            raise TypeError(
                "array must be one that may be written: of numpy, torch, or a buffer such as a "
                f"bytearray (got {short(given)})"
            ) from error
        is_read_only = False
    if is_read_only:
        raise ValueError("array must be one that may be written: this one is read-only")
    if made.device != device:
        if device < 0:
            raise ValueError(of_device("to be written", made.device))
        where = "host memory" if made.device < 0 else f"memory of CUDA device {made.device}"
        raise ValueError(f"array must be in memory of CUDA device {device} (it is in {where})")
    return made


def of_interface(given: Any, *, copies: bool = True) -> Fed:
    if hasattr(given, "mask") and hasattr(given, "filled"):
        raise TypeError("array must not be a masked one: give array.filled(..) or array.data")
    interface: Any = given.__array_interface__
    text, shape, strides = interface["typestr"], interface["shape"], interface.get("strides")
    order, kind, size = text[0], text[1], text[2:].partition("[")[0]
    itemsize = int(size or 0)
    dtype = TYPES.get(kind + size)
    if kind == "V":
        name = str(getattr(getattr(given, "dtype", None), "name", "void"))
        is_raw = name.startswith(("void", "record")) and 1 <= itemsize <= 16
        dtype = Dtype.BF16 if name == "bfloat16" else Dtype.RAW if is_raw else None
        text = name
    check(dtype, text, is_native=itemsize == 1 or order in "|" + native_order())
    data: Any = interface.get("data")
    owner: Any = (given, interface)
    address: Any
    if isinstance(data, tuple):
        address = cast("Any", data[0])
    else:  # a buffer, which need not live longer than this call
        held = Held(given if data is None else data, SIMPLE)
        owner, address = (given, held), (held.view.data or 0) + interface.get("offset", 0)
    return fed(dtype, itemsize, shape, strides, address, owner, copies=copies)


def of_cuda_interface(given: Any) -> Fed:
    interface: Any = given.__cuda_array_interface__
    missing = [name for name in ("typestr", "shape", "data") if name not in interface]
    if missing:
        text = "array must be one whose __cuda_array_interface__ is whole"
        raise TypeError(f"{text} (it lacks {', '.join(missing)})")
    text, shape, strides = interface["typestr"], interface["shape"], interface.get("strides")
    if interface.get("mask") is not None:
        raise TypeError("array must not be a masked one")
    order, kind, size = text[0], text[1], text[2:].partition("[")[0]
    itemsize = int(size or 0)
    dtype = TYPES.get(kind + size)
    if kind == "V" and 1 <= itemsize <= 16:
        dtype = Dtype.RAW
    check(dtype, text, is_native=itemsize == 1 or order in "|" + native_order())
    address, event = interface["data"][0], None
    if not all(shape):
        return fed(dtype, itemsize, shape, strides, 0, None)
    device = _lent.device_of(address)
    if interface.get("stream") is not None:  # what is queued there is to be waited for
        event = _lent.Event(_lent.gpu_of(device), interface["stream"])
    return fed(dtype, itemsize, shape, strides, address, (given, interface), device, event)


def of_dlpack(given: Any, *, copies: bool = True) -> Fed:
    named: Any = {}
    event = None
    try:
        device, number = given.__dlpack_device__()
        if device in _lent.CUDA_DEVICES:
            gpu = _lent.gpu_of(number)
            named = {"stream": gpu.stream}
        elif device not in HOST_DEVICES:
            raise ValueError(f"it is on a device of DLPack's kind {int(device)}")
        try:
            capsule = given.__dlpack__(max_version=(1, 0), **named)
        except TypeError:  # from before 1.0
            capsule = given.__dlpack__(**named)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"array must be one that DLPack takes: {error}") from error
    if named:
        event = _lent.Event(_lent.gpu_of(number), named["stream"])
    # A caller that does not take the tensor out of its capsule keeps it with that.
    name = next(name for name in LAYOUTS if python.PyCapsule_IsValid(id(capsule), name))
    managed = LAYOUTS[name].from_address(python.PyCapsule_GetPointer(id(capsule), name))
    tensor = managed.dl_tensor
    rank, itemsize = tensor.ndim, tensor.bits // 8
    kind = KINDS.get(tensor.code, f"(code {tensor.code}) ")
    text = f"{kind}{tensor.bits}" + (f" x {tensor.lanes}" if tensor.lanes != 1 else "")
    dtype = Dtype.BF16 if text == "bfloat16" else TYPES.get(f"{kind}{itemsize}")
    check(dtype if tensor.lanes == 1 and tensor.bits % 8 == 0 else None, text)
    shape = words(tensor.shape, rank)
    strides = None
    if tensor.strides:
        strides = [stride * itemsize for stride in words(tensor.strides, rank)]
    address = (tensor.data or 0) + tensor.byte_offset
    place = (number, event) if named else (-1, None)
    made = fed(dtype, itemsize, shape, strides, address, capsule, *place, copies=copies)
    is_read_only = bool(getattr(managed, "flags", 0) & READ_ONLY)
    return dataclasses.replace(made, is_read_only=True) if is_read_only else made


def of_buffer(held: Held, *, copies: bool = True) -> Fed:
    view = held.view
    text = (view.format or b"B").decode()
    letter = text.lstrip("@=<>!|")
    is_native = view.itemsize == 1 or text[0] not in "<>!" or text[0] == native_order()[0]
    dtype = TYPES.get(f"{LETTERS.get(letter, '')}{view.itemsize}")
    check(dtype, repr(text), is_native)
    shape = words(view.shape, view.ndim)
    strides, address = words(view.strides, view.ndim), view.data or 0
    return fed(dtype, view.itemsize, shape, strides, address, held, copies=copies)


def fed(
    dtype: Any,
    itemsize: int,
    shape: Iterable[int],
    strides: Any,
    address: int,
    owner: Any,
    device: int = -1,
    event: _lent.Event | None = None,
    *,
    copies: bool = True,
) -> Fed:
    """Those elements; copied where they are few, unless they are a target. strides: None where they
    are row-major."""
    shape = tuple(map(int, shape))
    if len(shape) > _native.RANK_MAX:
        raise ValueError(f"array must have at most {_native.RANK_MAX} axes (got {len(shape)})")
    dense = row_major(shape, itemsize)
    strides = dense if strides is None else tuple(map(int, strides))
    elements = math.prod(shape)
    is_dense = all(
        extent <= 1 or stride == packed for extent, stride, packed in zip(shape, strides, dense)
    )
    if not copies:
        return Fed(dtype, itemsize, shape, strides, address, owner, device, event)
    if device >= 0 and elements:
        if is_dense:
            strides = dense
        elif not any(strides):  # which the library takes for row-major ones
            raise ValueError(of_device("to be one element over and over", device))
        return Fed(dtype, itemsize, shape, strides, address, owner, device, event)
    if elements * itemsize <= VALUE_BYTES:
        if is_dense:
            data = ctypes.string_at(address, elements * itemsize) if elements else b""
        else:
            walks = [range(0, extent * step, step) if step else [0] * extent
                     for extent, step in zip(shape, strides)]  # fmt: skip
            data = b"".join(
                ctypes.string_at(address + sum(at), itemsize) for at in itertools.product(*walks)
            )
        return Fed(dtype, itemsize, shape, dense, data)
    if not any(strides):
        # One element, over and over. The library takes strides that are all 0 for row-major ones,
        # so it gets one axis of it.
        axis = min((extent, axis) for axis, extent in enumerate(shape) if extent > 1)[1]
        owner = ctypes.create_string_buffer(
            ctypes.string_at(address, itemsize) * shape[axis], itemsize * shape[axis]
        )
        strides = (*strides[:axis], itemsize, *strides[axis + 1 :])
        address = ctypes.addressof(owner)
    return Fed(dtype, itemsize, shape, strides, address, owner)


def from_bytes(
    dtype: Dtype,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    span: bytes,
    low: int,
) -> Fed:
    """For a span, in which the first element lies `-low` bytes after the lowest."""
    held = Held(span, SIMPLE)
    return fed(dtype, itemsize, shape, strides, (held.view.data or 0) - low, held)


def row_major(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    below = itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=itemsize)
    return tuple(reversed([*below])) if shape else ()


def words(address: int | None, count: int) -> list[int]:
    return [*(ctypes.c_int64 * count).from_address(address or 0)] if count else []


def native_order() -> str:
    return "<=" if struct.pack("=H", 1) == b"\1\0" else ">="


def check(dtype: Dtype | None, text: str, is_native: bool = True) -> None:
    if dtype is None:
        names = ", ".join(member.name.lower() for member in Dtype)
        raise TypeError(f"array must have elements of a type of wavetrain, {names} (got {text})")
    if not is_native:
        raise TypeError(
            f"array must be in this machine's byte order (got {text}): give "
            "array.astype(array.dtype.newbyteorder('='))"
        )


def of_device(wish: str, device: int) -> str:
    return (
        f"array must be in host memory {wish} (it is on CUDA device {device}): give "
        "array.cpu() of torch, cupy.asnumpy(array), jax.device_get(array)"
    )
