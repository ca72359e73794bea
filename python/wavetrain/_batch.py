"""A popped batch, and how other libraries take its memory.

This file is over 500 lines because a batch and its fields share each way to take them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from wavetrain import _border, _native
from wavetrain._border import short
from wavetrain._callbacks import callback
from wavetrain._config import Backend, Dtype
from wavetrain._errors import InvalidArgument, ShutdownError, Status
from wavetrain._library import call_on, last_failure, library
from wavetrain._owned import Owned
from wavetrain._words import BATCH, fix_of

KDL_CPU, KDL_CUDA = 1, 2
READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
VIEW_BYTES = ctypes.sizeof(_native.BatchView)
GIVEN_BACK = (_native.OK, _native.CUDA)  # of release
LEGACY_STREAM = 1  # the driver's number of the legacy default stream
RAW_AS = "u1"  # raw bytes have an axis more in numpy


class DLTensor(ctypes.Structure):
    """From dlpack.h, as are the two below."""

    data: int
    byte_offset: int

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLManagedTensor(ctypes.Structure):
    deleter: Any

    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    deleter: Any
    flags: int

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


# By the name of the capsule that a tensor travels in.
LAYOUTS: dict[bytes, type[DLManagedTensor | DLManagedTensorVersioned]] = {
    b"dltensor": DLManagedTensor,
    b"dltensor_versioned": DLManagedTensorVersioned,
}

# Not ctypes.pythonapi, whose prototypes all modules share.
python = ctypes.PyDLL(None)
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


def delete(tensor: int, name: bytes) -> None:
    LAYOUTS[name].from_address(tensor).deleter(tensor)


def end_of_capsule(capsule: int) -> None:
    """Deletes the tensor of a capsule that nobody took: who takes one gives it another name."""
    for name in LAYOUTS:
        if python.PyCapsule_IsValid(capsule, name):
            delete(python.PyCapsule_GetPointer(capsule, name), name)


# Lives as long as the process: a capsule may outlive this module.
_END_OF_CAPSULE = callback(ctypes.PYFUNCTYPE(None, ctypes.c_void_p), end_of_capsule)
ctypes.PyDLL(None).Py_IncRef(ctypes.py_object(_END_OF_CAPSULE))
_END_OF_CAPSULE_AT = ctypes.cast(_END_OF_CAPSULE, ctypes.c_void_p)


class OwnTensor(Owned):
    """A DLPack tensor that this module itself consumes: what keeps it keeps the slot."""

    tensor = 0

    def __init__(self, tensor: int) -> None:
        self.tensor = tensor

    @property
    def is_read_only(self) -> bool:
        return bool(DLManagedTensorVersioned.from_address(self.tensor).flags & READ_ONLY)

    def __del__(self) -> None:
        if self.tensor:
            delete(self.tensor, b"dltensor_versioned")


@dataclasses.dataclass(frozen=True)
class BatchInfo:
    """The description of a batch. `device_ptr` is its address, in host memory where `device` is
    -1."""

    device_ptr: int
    shape: tuple[int, ...]
    dtype: Dtype
    ready_stream: int  # CUstream of the slot, 0 on the host
    batch_id: int  # from 0 since open or reset
    device: int
    backend: Backend
    bytes: int
    tags: tuple[int, ...]  # of the samples
    statuses: tuple[Status, ...]  # not OK: it holds pad_value, or NaN in places (on_error)


class Taken(Owned):
    """A tensor of a batch, and how it is taken. Every consumer of DLPack takes it, without a copy:
    numpy.from_dlpack, torch.from_dlpack, jax.dlpack.from_dlpack. Tensors and arrays of it keep the
    memory of the batch."""

    instead = "give batch.numpy().copy(), or batch.torch().clone(), of the batch or of its fields"
    handle = ctypes.c_uint64()  # 0: not popped, or given back

    def __init__(
        self, loader: int, handle: ctypes.c_uint64, number: int, capsules: dict[int, list[Any]]
    ) -> None:
        self._loader, self.handle = loader, handle
        self._number, self._capsules = number, capsules  # of the field; of all, by number

    def __eq__(self, other: object) -> bool:
        has_values = isinstance(other, (int, float, list, tuple)) or hasattr(other, "__array__")
        if has_values and not isinstance(other, Taken):
            raise TypeError(
                "a batch does not compare to numbers: give batch.numpy() or batch.torch(), which "
                f"do (got {short(other)})"
            )
        return self is other

    __hash__ = Owned.__hash__

    def _view(self) -> _native.BatchView:
        view = _native.BatchView(struct_size=VIEW_BYTES)
        try:
            call_on("batch_info", self._loader, self.handle, self._number, ctypes.byref(view))
        except InvalidArgument:
            if self.handle.value:
                raise
            raise InvalidArgument(
                "this batch was released: read it before release() or the end of its with, or keep "
                "batch.numpy() or batch.torch(), which stay valid"
            ) from None
        return view

    @property
    def info(self) -> BatchInfo:
        """Shape, type, place, tags and statuses. InvalidArgument after release."""
        view = self._view()
        tags = (ctypes.c_uint64 * view.sample_count).from_address(view.tags or 0)
        statuses = (ctypes.c_int32 * view.sample_count).from_address(view.statuses or 0)
        return BatchInfo(
            device_ptr=view.data or 0,
            shape=tuple(view.shape[: view.rank]),
            dtype=Dtype(view.dtype),
            ready_stream=view.ready_stream or 0,
            batch_id=view.batch_id,
            device=view.device,
            backend=Backend(view.backend),
            bytes=view.bytes,
            tags=tuple(tags),
            statuses=(
                tuple(map(Status, statuses))
                if view.failed_samples
                else (Status.OK,) * view.sample_count
            ),
        )

    @property
    def batch_id(self) -> int:
        """As of info."""
        return self._view().batch_id

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples, and the extents of one."""
        view = self._view()
        return tuple(view.shape[: view.rank])

    @property
    def dtype(self) -> Dtype:
        return Dtype(self._view().dtype)

    @property
    def filled_shape(self) -> Any:
        """How far the boxes of each sample reach: an array of numpy [samples, axes of a sample],
        the largest place along each axis + 1. It is 0 if no box covers a part of the field. A
        scalar has one axis here. A copy."""
        numpy: Any = importlib.import_module("numpy")
        view = self._view()
        shape = (view.sample_count, max(1, view.rank - 1))
        data = (ctypes.c_uint64 * (shape[0] * shape[1])).from_address(view.filled_shape or 0)
        return numpy.frombuffer(data, "u8").astype("i8").reshape(shape)

    @property
    def digests(self) -> Any:
        """A digest of the bytes of each sample, as wavetrain.h defines it: an array of numpy
        [samples], uint64, a copy. None without Config.digest."""
        numpy: Any = importlib.import_module("numpy")
        view = self._view()
        if not view.digests:
            return None
        data = (ctypes.c_uint64 * view.sample_count).from_address(view.digests)
        return numpy.array(data, "u8")

    @property
    def digest(self) -> int:
        """The sum over the samples of mix(position in the stream, digest), modulo 2 ** 64; 0
        without Config.digest."""
        return self._view().digest

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            fix = fix_of(name, [each for each in dir(self) if each[0] != "_"], BATCH, "Batch")
            raise AttributeError(f"a batch has no {name}: {fix}", name=name, obj=self)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self._view().device
        return (KDL_CPU, 0) if device < 0 else (KDL_CUDA, device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule with a tensor of the slot itself. `stream` is as DLPack numbers them."""
        view = self._view()
        here = (KDL_CPU, 0) if view.device < 0 else (KDL_CUDA, view.device)
        if copy or (dl_device is not None and tuple(dl_device) != here):
            raise BufferError("a batch is not copied or moved: do that with its tensor")
        is_versioned = max_version is not None and max_version[0] >= 1
        capsules = self._capsules.setdefault(self._number, [])
        if len(capsules) == _native.TENSORS_PER_SLOT:
            capsules.clear()  # those that nobody took end here
        tensor = self._export(is_versioned, stream_of(stream, view))
        name = b"dltensor_versioned" if is_versioned else b"dltensor"
        # Kept until release, so that one whose consumer fails does not end while an exception is
        # under way, which a destructor in Python would lose.
        capsules.append(python.PyCapsule_New(tensor, name, _END_OF_CAPSULE_AT))
        return capsules[-1]

    def _export(self, is_versioned: bool, stream: int | None) -> int:
        tensor = ctypes.c_void_p()
        what = "dlpack" if is_versioned else "dlpack_legacy"
        function = getattr(library(), f"wavetrain_{what}")
        status = function(self._loader, self.handle, self._number, stream, ctypes.byref(tensor))
        if status == _native.SHUTDOWN:
            raise ShutdownError(
                f"{what}: the pipeline of this batch is closed, or of the process that this one "
                "was forked from: take batch.numpy() or batch.torch() before close()"
            )
        if status == _native.UNSUPPORTED and not is_versioned:
            raise BufferError(
                "the batch is read-only, as all processes of the node get it, and this consumer of "
                "DLPack has no flag for that: give it a copy, batch.numpy().copy()"
            )
        if status != _native.OK or not tensor.value:
            raise last_failure(what, status, self._loader)
        return tensor.value

    def buffer(self) -> memoryview:
        """The bytes, which may be written to, unless all processes of a node get the batch; it
        keeps the slot. Only batches in host memory have it."""
        view = self._view()
        if view.device >= 0:
            raise BufferError("the batch is in device memory: take it with torch.from_dlpack")
        owner = OwnTensor(self._export(is_versioned=True, stream=None))
        data: Any = (ctypes.c_char * view.bytes).from_address(view.data or 0)
        data.owner = owner
        made = memoryview(data).cast("B")
        return made.toreadonly() if owner.is_read_only else made

    def numpy(self) -> Any:
        """As a numpy array that may be written to, with any numpy, and for bfloat16 with ml_dtypes.
        numpy.from_dlpack does the same if it has the type. Batches that all processes of a node
        get (share_order="all") are read-only."""
        numpy: Any = importlib.import_module("numpy")
        view = self._view()
        dtype, shape = Dtype(view.dtype), tuple(view.shape[: view.rank])
        kind: Any = RAW_AS
        if dtype is Dtype.RAW:
            shape = (*shape, view.dtype_bytes)
        else:
            try:
                kind = dtype.dtype
            except TypeError as error:
                raise BufferError(str(error)) from error
        return numpy.frombuffer(self.buffer(), kind).reshape(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """numpy.asarray(batch) is batch.numpy(), of batches in host memory alone. dtype and copy
        are as numpy has them."""
        device = self._view().device
        if device >= 0:
            raise TypeError(
                f"the batch is in memory of CUDA device {device}, and numpy takes none: give "
                "batch.torch().cpu().numpy(), or cupy.asnumpy(cupy.from_dlpack(batch))"
            )
        made = self.numpy()
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                text = f"an array of {dtype} of a batch of {made.dtype} is a copy, and copy=False"
                raise ValueError(text)
            return made.astype(dtype)
        return made.copy() if copy else made

    def torch(self) -> Any:
        """The same as torch.from_dlpack."""
        return importlib.import_module("torch").from_dlpack(self)


class Batch(Taken):
    """A popped batch. Every consumer of DLPack takes it, without a copy: numpy.from_dlpack(batch),
    torch.from_dlpack(batch), jax.dlpack.from_dlpack(batch).

    If Config.fields has several tensors, batch["mask"] is the one of that name, and takes the place
    of `batch`: numpy.from_dlpack(batch["mask"]). The batch itself is the first of them.

    `with pipeline.pop() as batch:` gives the slot back at its end. Tensors, arrays and buffers of
    the batch keep its memory. They stay valid when batch and pipeline are gone, and the slot takes
    the next batch when the last of them is gone."""

    # For batches of a DataLoader: how many of the last samples are repeats, which make the batch
    # whole.
    padded: int = 0
    _loan: Any = None  # the memory that it lies in, if that is lent

    def __init__(self, loader: int, fields: tuple[str, ...] = ()) -> None:
        super().__init__(loader, ctypes.c_uint64(), 0, {})
        self._fields = fields

    def renamed(self, fields: tuple[str, ...]) -> Batch:
        """The batch, with these names of fields. A consumer gets the names from its first
        batch."""
        self._fields = fields
        return self

    def take_loan(self, loan_of: Callable[[_native.BatchView], Any]) -> None:
        """For the pipeline: the memory of the batch belongs to it."""
        self._loan = loan_of(self._view())

    @property
    def lent(self) -> Any:
        """The arrays given to `Pipeline.lend`, if the batch is in them; else None."""
        return None if self._loan is None else self._loan.arrays

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the tensors, in the order of Config.fields; none where it has none."""
        return self._fields

    def field(self, field: str | int) -> BatchField:
        """One of the tensors, by its name or its number. KeyError where there is no such name."""
        if not isinstance(field, str):
            last = max(1, len(self._fields)) - 1
            return BatchField(self, _border.whole("field", field, 0, last))
        if field not in self._fields:
            names = ", ".join(map(repr, self._fields)) or "one tensor: Config.fields names several"
            raise KeyError(f"there is no field {field!r}: the batch has {names}")
        return BatchField(self, self._fields.index(field))

    def __getitem__(self, name: str) -> BatchField:
        given: Any = name
        if not isinstance(given, str):
            raise TypeError(
                "a batch is indexed by the name of a field: batch.numpy()[0] is its first sample, "
                f"and batch.field(0) its first field (got {short(given)})"
            )
        return self.field(name)

    def __iter__(self) -> Iterator[BatchField]:
        """The fields in their order, as torch's loaders give them: `for x, y in loader`."""
        if not self._fields:
            raise TypeError(
                "a batch of one tensor is none to unpack: take batch.torch() or batch.numpy(), its "
                "tags with batch.info.tags, and several tensors with Config.fields"
            )
        return iter(self.values())

    def __len__(self) -> int:
        """How many fields; of a batch of one tensor how many samples."""
        return len(self._fields) or self._view().sample_count

    def __bool__(self) -> bool:
        """True, also of a batch that was released."""
        return True

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def keys(self) -> tuple[str, ...]:
        """The names of the fields, as of a dict."""
        return self._fields

    def values(self) -> list[BatchField]:
        """The fields, in their order."""
        return [self.field(number) for number in range(len(self._fields))]

    def items(self) -> list[tuple[str, BatchField]]:
        """Names and fields."""
        return list(zip(self._fields, self.values()))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The tensor of a batch with one. A batch with several is not an array: its fields are."""
        if len(self._fields) > 1:
            fields = ", ".join(f"batch[{name!r}]" for name in self._fields)
            raise TypeError(f"a batch of several fields is not one array: give {fields}")
        return super().__array__(dtype, copy)

    def __repr__(self) -> str:
        if not self.handle.value:
            return "<Batch, released>"
        info = self.info
        shapes = [f"{name} {told(field.info)}" for name, field in self.items()] or [told(info)]
        return f"<Batch {info.batch_id}: {', '.join(shapes)} in {place_of(info)}>"

    def release(self, *, event: Any = None) -> None:
        """Gives the slot back. Idempotent. On a device the slot is used again after `event`. This
        is a CUevent as an int, an event of torch or cupy, or a stream of theirs, which stands for
        the work that is queued on it now. Without one, it is used after the work that is queued on
        the batch's ready stream and on those that it was exported to. On the host there are no
        events."""
        if not self.handle.value:
            return
        event = event_of(event)  # alive until the call has returned
        handle = None if event is None else event_handle(event)
        status = self._give_back(handle)
        if status in GIVEN_BACK:
            self.handle.value = 0
            self._capsules.clear()
        if status != _native.OK:
            raise last_failure("release", status, self._loader)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if self.handle.value:
            self._give_back(None)

    def _give_back(self, event: int | None) -> int:
        def release() -> int:
            return library().wavetrain_release(self._loader, self.handle, event)

        return release() if self._loan is None else self._loan.release(release)


class BatchField(Taken):
    """One of the tensors of a batch, which it keeps from being given back at its end. Like the
    batch it is gone after release; what was made of it is not."""

    def __init__(self, batch: Batch, number: int) -> None:
        super().__init__(batch._loader, batch.handle, number, batch._capsules)
        self._batch = batch

    @property
    def name(self) -> str:
        """As Config.fields has it; "" where it has none."""
        return self._batch.fields[self._number] if self._batch.fields else ""

    def __repr__(self) -> str:
        if not self.handle.value:
            return f"<BatchField {self.name!r}, released>"
        info = self.info
        return f"<BatchField {self.name!r} of {info.batch_id}: {told(info)} in {place_of(info)}>"


def told(info: BatchInfo) -> str:
    return f"{' x '.join(map(str, info.shape))} {info.dtype.name.lower()}"


def place_of(info: BatchInfo) -> str:
    return "host memory" if info.device < 0 else f"CUDA device {info.device}"


def stream_of(stream: Any, view: _native.BatchView) -> int | None:
    """The driver's number of the stream that a consumer names; NULL on the host."""
    if view.device < 0:
        return None
    if stream == -1:  # the consumer waits by itself
        return view.ready_stream
    return LEGACY_STREAM if stream in (None, 0) else _border.handle("stream", stream)


def event_of(event: Any) -> Any:
    """For a stream of torch or cupy: an event after the work that is queued there now."""
    if hasattr(event, "wait_event"):
        record = getattr(event, "record_event", None) or event.record
        return record()
    return event


def event_handle(event: Any) -> int:
    for attribute in ("cuda_event", "ptr"):
        event = getattr(event, attribute, event)
    return _border.whole("event", event, 1, _border.U64_MAX)
