"""The kinds of a node at a uri."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
from typing import Any

from wavetrain import _native
from wavetrain._causes import explained
from wavetrain._config import Dtype, lend_metadata
from wavetrain._interrupts import Kept
from wavetrain._library import call, library
from wavetrain._sample import uri_of
from wavetrain._stores import files_for, hook_of
from wavetrain._words import READ, told


class NodeKind(enum.IntEnum):
    """The description of a node of a store. Images, plates and wells are groups of OME-NGFF."""

    UNKNOWN = _native.NODE_UNKNOWN
    ARRAY = _native.NODE_ARRAY
    GROUP = _native.NODE_GROUP
    IMAGE = _native.NODE_IMAGE
    PLATE = _native.NODE_PLATE
    WELL = _native.NODE_WELL


class Packing(enum.IntFlag):
    """Attributes by which other readers, such as xarray, make other numbers of the elements.

    wavetrain applies them if the uri ends with #cf=1; if not, elements are as they are stored."""

    SCALE = _native.PACKING_SCALE  # scale_factor
    OFFSET = _native.PACKING_OFFSET  # add_offset
    FILL = _native.PACKING_FILL  # _FillValue or missing_value: elements equal to it are holes
    UNSIGNED = _native.PACKING_UNSIGNED  # _Unsigned
    UNKNOWN = _native.PACKING_UNKNOWN  # the attributes could not be read


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis of an image; what the store does not give is empty."""

    name: str  # "z"
    kind: str  # "space", "time", "channel"
    unit: str  # "micrometer"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A node in a group: its uri is the group's, a "/" and `path`."""

    path: str
    kind: NodeKind
    level: int | None  # of an image: 0 is the finest
    scale: tuple[float, ...] | None  # of a level: the size of its elements, if the store has it
    translation: tuple[float, ...] | None = None  # of a level: where the centre of element 0 lies
    axes: tuple[Axis, ...] = ()  # of a level
    image: int | None = None  # of a level: the image of the group that has it


@dataclasses.dataclass(frozen=True)
class ArrayInfo:
    """The description of an array or a group. Only uri, kind and entries of a group have a
    meaning."""

    uri: str
    kind: NodeKind
    shape: tuple[int, ...]
    dtype: Dtype | None
    dtype_name: str  # as the store spells it
    chunk_shape: tuple[int, ...]
    file_shape: tuple[int, ...]  # of a shard; of a chunk where there are none
    chunk_bytes: int  # of a decoded chunk
    codecs: str
    entries: tuple[Entry, ...] = ()
    entry_total: int = 0  # that were found; entries holds the first of them
    packing: Packing = Packing(0)
    fill: bytes = b""  # one element of missing chunks, in the byte order of this machine
    file_ends: tuple[int, ...] = ()  # of numbered .npy files: where each ends along axis 0
    is_rectilinear: bool = False  # files have different extents: file_shape is the largest

    @property
    def itemsize(self) -> int:
        """Bytes of an element; 0 of a group."""
        return len(self.fill)


@told({**READ, "store": "give files"})
def array_info(uri: Any, *, files: Any = None) -> ArrayInfo:
    """Describes the array or the group at `uri`, read through `files` as by a Pipeline."""
    path = uri_of(uri)
    return described(path, files_for(files, [path]))


def described(
    path: str, files: Any, metadata: bytes | None = None, size: int = _native.SCRATCH_BYTES
) -> ArrayInfo:
    """The same for a loader, whose metadata was looked up. size: of the library's scratch."""
    scratch = ctypes.create_string_buffer(size)
    view = _native.ArrayView(struct_size=ctypes.sizeof(_native.ArrayView))
    hook = None if files is None else hook_of(files, 1)
    native = _native.Config()
    library().wavetrain_config_default(ctypes.byref(native), ctypes.sizeof(native))
    lend_metadata(native, metadata)
    try:
        if hook is not None:
            hook.fill(native)
        with explained(*([hook.causes] if hook else [])), Kept():
            call(
                "node_info",
                path.encode(),
                ctypes.byref(native),
                scratch,
                len(scratch),
                ctypes.byref(view),
            )
    finally:
        if hook is not None:
            hook.close()
    needed = 16 * view.file_counts[0]  # for the ends of files
    is_short = needed > size // 2 and view.is_rectilinear and not view.file_ends
    if is_short and size == _native.SCRATCH_BYTES:
        return described(path, files, metadata, size + needed)
    rank = view.rank
    count = view.entry_count
    listed = (_native.GroupEntry * count).from_address(view.entries or 0) if count else ()
    ends = (
        (ctypes.c_uint64 * view.file_counts[0]).from_address(view.file_ends or 0)
        if view.file_ends
        else ()
    )
    return ArrayInfo(
        uri=path,
        kind=NodeKind(view.kind),
        shape=tuple(view.shape[:rank]),
        dtype=Dtype(view.dtype) if view.dtype else None,
        dtype_name=view.dtype_name.decode(errors="replace"),
        chunk_shape=tuple(view.chunk_shape[:rank]),
        file_shape=tuple(view.file_shape[:rank]),
        chunk_bytes=view.chunk_bytes,
        codecs=view.codecs.decode(errors="replace"),
        entries=tuple(entry_of(entry) for entry in listed),
        entry_total=view.entry_total,
        packing=Packing(view.packing),
        fill=bytes(view.fill[: view.dtype_bytes]),
        file_ends=tuple(ends),
        is_rectilinear=bool(view.is_rectilinear),
    )


def entry_of(entry: _native.GroupEntry) -> Entry:
    has_scale = entry.has_transform == 1  # 2: it has one that is not read
    is_level = entry.level != _native.NO_INDEX
    axes = (_native.Axis * entry.rank).from_address(entry.axes) if entry.axes else ()
    return Entry(
        path=text(entry.path),
        kind=NodeKind(entry.kind),
        level=entry.level if is_level else None,
        scale=tuple(entry.scale[: entry.rank]) if has_scale else None,
        translation=tuple(entry.translation[: entry.rank]) if has_scale else None,
        axes=tuple(Axis(text(axis.name), text(axis.kind), text(axis.unit)) for axis in axes),
        image=entry.image if is_level else None,
    )


def text(given: bytes | None) -> str:
    return (given or b"").decode(errors="replace")
