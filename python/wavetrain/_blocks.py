"""Blocks: memory that several processes map, and values of Python whose arrays lie in it.

In: arrays and numbers, in tuples, lists and dicts. Out: the same value in another process, with
arrays in the memory that the first process wrote. A block is a memfd, which has no name in any file
system: it is freed with the last process that has it, however that ends. All of its pages are
reserved when it is made, and it can neither grow nor shrink.

Invariant: a `Lease`, and each array that was made of one, keeps the memory. A block gets its next
user after the last of them is freed.
"""

from __future__ import annotations

import collections
import ctypes
import fcntl
import mmap
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from wavetrain._arrays import write_strided
from wavetrain._border import short
from wavetrain._config import Dtype
from wavetrain._fed import TYPES, Fed, Number, fed, feed, row_major
from wavetrain._owned import Owned

ALIGN = 64  # bytes, of each array in a block
HEADER_BYTES = 64  # of words that both sides read and write
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class Block(Owned):
    """Memory of `size` bytes, new, or that of a descriptor of another process, which is taken."""

    fd = -1
    number = -1  # for its owner

    def __init__(self, size: int, fd: int = -1) -> None:
        self.size, self.fd = size, fd if fd >= 0 else memory_of(size)
        if os.fstat(self.fd).st_size < size:
            raise ValueError(f"a block of {size} bytes must have them")
        self.map = mmap.mmap(self.fd, size)
        self.words = (ctypes.c_uint64 * (HEADER_BYTES // 8)).from_buffer(self.map)
        self.address = ctypes.addressof(self.words)  # `words` keeps the mapping

    def forget_descriptor(self) -> None:
        """Closes it: the mapping stays."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.forget_descriptor()


def memory_of(size: int) -> int:
    """The descriptor of a new memfd, whose pages are all reserved."""
    fd = os.memfd_create("wavetrain", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except OSError as error:
        os.close(fd)
        raise MemoryError(
            f"no memory for a block of {size} bytes that worker processes write into ({error}): "
            "give a smaller batch_size, fewer workers or a smaller prefetch"
        ) from error
    return fd


class Free(Owned):
    """Blocks without a user."""

    def __init__(self) -> None:
        self.blocks: collections.deque[Block] = collections.deque()
        self.is_closed = False

    def put(self, block: Block) -> None:
        """From any thread."""
        if not self.is_closed:
            self.blocks.append(block)

    def close(self) -> None:
        """Frees them, and those that are given back later."""
        self.is_closed = True
        self.blocks.clear()


class Lease(Owned):
    """A block that is in use; at its end the block is one of those that are free."""

    free: Free | None = None

    def __init__(self, block: Block, free: Free | None = None) -> None:
        self.block, self.free = block, free

    def __del__(self) -> None:
        if self.free is not None:
            self.free.put(self.block)


class At(NamedTuple):
    """An array of a value, and its place: in the block of the task, or in one of its own."""

    dtype: int
    itemsize: int
    shape: tuple[int, ...]
    block: int  # 0: that of the task
    offset: int


class Typed(Number):
    """A number that has a type: one of numpy's."""

    dtype: Dtype

    def __init__(self, value: complex, dtype: Dtype) -> None:
        super().__init__(value)
        object.__setattr__(self, "dtype", dtype)

    def __reduce__(self) -> Any:
        return Typed, (self.value, self.dtype)


def type_of(number: Number) -> Dtype:
    """As numpy has it."""
    if isinstance(number, Typed):
        return number.dtype
    kinds = {bool: Dtype.BOOL, int: Dtype.I64, float: Dtype.F64, complex: Dtype.C128}
    return kinds[type(number.value)]


def aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


class Writer:
    """Writes the arrays of values into a block, one after the other from its header on. Arrays that
    find no room get new blocks, each at least twice as large as the one before."""

    def __init__(self, block: Block) -> None:
        self.blocks = [block]
        self.end = HEADER_BYTES  # of the part of the last one that is taken
        self.bytes = 0  # of the arrays of the last value

    def value(self, given: Any) -> Any:
        """The same value, with an `At` for each array and a `Number` for each number."""
        self.bytes = 0
        return self.put(given, 2)

    def put(self, given: Any, depth: int) -> Any:
        """`depth` containers deep: by fields, and in a batch by samples."""
        if depth and isinstance(given, Mapping):
            named = cast("Mapping[Any, Any]", given)
            return {key(name): self.put(each, depth - 1) for name, each in named.items()}
        if depth and isinstance(given, (tuple, list)):
            made = [self.put(each, depth - 1) for each in cast("Any", given)]
            return tuple(made) if isinstance(given, tuple) else made
        return self.leaf(given)

    def leaf(self, given: Any) -> At | Number:
        made = feed(given)
        if made is None:
            raise TypeError(f"a sample must be made of arrays and numbers (got {short(given)})")
        if isinstance(made, Number):
            dtype = TYPES.get(getattr(getattr(given, "dtype", None), "str", "")[1:])
            return made if dtype is None else Typed(made.value, dtype)
        if made.device >= 0:
            raise ValueError(
                f"a sample of a worker process must be in host memory (an array is on CUDA device "
                f"{made.device}): return array.cpu()"
            )
        dense = row_major(made.shape, made.itemsize)
        size = max(1, made.itemsize * product(made.shape))
        number, address, offset = self.room(size)
        if isinstance(made.data, bytes):
            ctypes.memmove(address, made.data, len(made.data))
        elif made.strides == dense:
            ctypes.memmove(address, made.data, size)
        else:
            numpy: Any = sys.modules.get("numpy")
            if numpy is not None and hasattr(given, "__array_interface__"):
                made = cast("Fed", feed(numpy.ascontiguousarray(given).reshape(made.shape)))
                ctypes.memmove(address, cast("int", made.data), size)
            else:
                write_strided(made, address, size)
        return At(made.dtype, made.itemsize, made.shape, number, offset)

    def room(self, size: int) -> tuple[int, int, int]:
        """The number of a block, an address in it, and how far that is from its start."""
        self.bytes += aligned(size)
        if self.end + size > self.blocks[-1].size:
            self.blocks.append(Block(max(HEADER_BYTES + size, 2 * self.blocks[-1].size)))
            self.end = HEADER_BYTES
        offset, block = self.end, self.blocks[-1]
        self.end += aligned(size)
        return len(self.blocks) - 1, block.address + offset, offset


def key(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of a dict must be a str, the name of its field (got {short(name)})")
    return name


def product(extents: tuple[int, ...]) -> int:
    made = 1
    for extent in extents:
        made *= extent
    return made


def value_of(tree: Any, leases: list[Lease]) -> Any:
    """The value that a `Writer` was given, with its arrays in blocks; each keeps its lease."""
    if isinstance(tree, At):
        lease = leases[tree.block]
        block, size = lease.block, tree.itemsize * product(tree.shape)
        if tree.offset + size > block.size:
            raise ValueError("an array of a worker process must lie in its block")
        address = block.address + tree.offset
        return fed(Dtype(tree.dtype), tree.itemsize, tree.shape, None, address, lease)
    if isinstance(tree, dict):
        named = cast("dict[Any, Any]", tree)
        return {name: value_of(each, leases) for name, each in named.items()}
    if isinstance(tree, (tuple, list)):
        made = [value_of(each, leases) for each in cast("Any", tree)]
        return tuple(made) if isinstance(tree, tuple) else made
    return tree
