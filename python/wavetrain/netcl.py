"""netcl's names for batches that worker processes write into shared memory.

    ring = SharedBatchRingBuffer([((64, 3, 32, 32), "u1"), ((64,), "i8")], prefetch=4)
    pool.apply_async(worker_write_to_shm, (ring.attach_info, slot_id, xb, yb))  # in a worker
    xb, yb = ring.slot_copy(slot_id)  # in the program, when the call is over

In: the shape and the type of each field of a batch. Out: slots, one block for each, which a worker
fills and the program copies out; messages of the caller's own hand it over. Nothing has a name in
/dev/shm: slots are freed with the last process that has them. `DataLoader` needs none of it.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from wavetrain._blocks import ALIGN, HEADER_BYTES, Block, aligned
from wavetrain._border import short, whole
from wavetrain._owned import Opened

__all__ = ["SharedBatchRingBuffer", "worker_write_to_shm"]

ATTACHED_MAX = 64  # rings that a process keeps mapped


class Part(NamedTuple):
    """The place of a field in a slot."""

    shape: tuple[int, ...]
    dtype: str
    offset: int


class SharedBatchRingBuffer(Opened):
    """K = prefetch + 2 slots for batches of these fields, each a pair of a shape, whose first axis
    is that of samples, and a dtype of numpy. n_slots gives K itself. A `with` block closes it.

    `attach_info` is a dict of numbers and strings, which any process of the same user attaches by,
    as long as this one lives and has the ring open."""

    instead = "send its attach_info"

    def __init__(
        self, fields: Iterable[tuple[Any, Any]], prefetch: int = 2, *, n_slots: int | None = None
    ) -> None:
        numpy: Any = importlib.import_module("numpy")
        self.parts, end = list[Part](), HEADER_BYTES
        for shape, dtype in fields:
            kind = numpy.dtype(dtype)
            if kind.hasobject:
                raise TypeError(f"dtype must be of numbers, not of objects (got {short(dtype)})")
            extents = tuple(whole("an extent", extent, 0, 1 << 40) for extent in shape)
            if not extents:
                raise ValueError("a shape must begin with the number of samples (got ())")
            self.parts.append(Part(extents, kind.str, end))
            end += aligned(int(numpy.prod(extents, dtype=object)) * kind.itemsize)
        if not self.parts:
            raise ValueError("fields must have a (shape, dtype) for each array (got none)")
        count = whole("prefetch", prefetch, 0, 1 << 16) + 2
        count = count if n_slots is None else whole("n_slots", n_slots, 1, 1 << 16)
        self.blocks = [Block(max(end, ALIGN)) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.blocks)

    def __enter__(self) -> SharedBatchRingBuffer:
        return self

    @property
    def attach_info(self) -> dict[str, Any]:
        self._check_open()
        return {
            "pid": os.getpid(),
            "fds": [block.fd for block in self.blocks],
            "inodes": [os.fstat(block.fd).st_ino for block in self.blocks],
            "slot_size": self.blocks[0].size,
            "fields": [tuple(part) for part in self.parts],
        }

    def slot(self, slot_id: int) -> tuple[Any, ...]:
        """The arrays of a slot themselves, which the next writer of the slot changes."""
        self._check_open()
        number = whole("slot_id", slot_id, 0, len(self.blocks) - 1)
        return arrays_of(self.blocks[number], self.parts)

    def slot_copy(self, slot_id: int) -> tuple[Any, ...]:
        """Copies of the arrays of a slot, which may be written again at once."""
        return tuple([array.copy() for array in self.slot(slot_id)])

    def close(self) -> None:
        """The slots are freed with the last array of one and the last worker. Idempotent."""
        self.blocks.clear()

    unlink = close  # there is no name to remove

    def _check_open(self) -> None:
        if not self.blocks:
            raise ValueError("the ring is closed")


def arrays_of(block: Block, parts: Iterable[Part]) -> tuple[Any, ...]:
    made: Any = importlib.import_module("numpy").ndarray
    return tuple([made(shape, dtype, block.map, offset) for shape, dtype, offset in parts])


@functools.lru_cache(ATTACHED_MAX)
def attached(pid: int, fd: int, inode: int, size: int) -> Block:
    """A slot of another process, or of this one. Once for each process."""
    path = f"/proc/{pid}/fd/{fd}"
    try:
        own = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"the ring is closed, or of another user: {path}: {error}") from error
    if os.fstat(own).st_ino != inode:
        os.close(own)
        raise ValueError(f"the ring is closed: {path} is another file by now")
    block = Block(size, own)
    block.forget_descriptor()
    return block


def worker_write_to_shm(attach_info: Mapping[str, Any], slot_id: int, *fields: Any) -> int:
    """Copies the fields of a batch into a slot, each an array or a list of the samples' arrays.
    If they are fewer than the slot has, they lie at its front. Returns their number. They are cast
    to the type of the slot as numpy's same_kind allows: f8 to f4, not f4 to i4."""
    numpy: Any = importlib.import_module("numpy")
    number = whole("slot_id", slot_id, 0, len(attach_info["fds"]) - 1)
    places = attach_info["pid"], attach_info["fds"][number], attach_info["inodes"][number]
    targets = arrays_of(
        attached(*places, attach_info["slot_size"]),
        [Part(*part) for part in attach_info["fields"]],
    )
    if len(fields) != len(targets):
        raise ValueError(f"the ring has {len(targets)} fields (got {len(fields)})")
    count = len(fields[0])
    for name, (target, given) in enumerate(zip(targets, fields)):
        shapes = {numpy.shape(sample) for sample in given}
        if len(given) != count or count > len(target) or shapes - {target.shape[1:]}:
            raise ValueError(
                f"field {name} must have 1 to {len(target)} samples of {target.shape[1:]}, as many "
                f"as the others (got {len(given)} of {short(sorted(shapes))})"
            )
        for row, sample in enumerate(given):
            numpy.copyto(target[row : row + 1], sample, casting="same_kind")
    return count
