"""Statuses of the library, and the exception of each."""

from __future__ import annotations

import enum

from wavetrain import _native


class Status(enum.IntEnum):
    """Why a call failed, as wavetrain.h numbers it: below 0 an error, above 0 "not now"."""

    OK = _native.OK
    AGAIN = _native.AGAIN
    STARVED = _native.STARVED
    END = _native.END
    RESET = _native.RESET
    INVALID = _native.INVALID
    NOT_FOUND = _native.NOT_FOUND
    DTYPE = _native.DTYPE
    RANK = _native.RANK
    IO = _native.IO
    DECODE = _native.DECODE
    UNSUPPORTED = _native.UNSUPPORTED
    CUDA = _native.CUDA
    OUT_OF_MEMORY = _native.OUT_OF_MEMORY
    BUDGET = _native.BUDGET
    SHUTDOWN = _native.SHUTDOWN
    INTERNAL = _native.INTERNAL


class WavetrainError(RuntimeError):
    """Base of all errors that the library reports; its text has the fault and the fix."""

    status: Status = Status.INTERNAL
    what: str = ""  # the call that failed: "open", "push", "pop" ..
    tag: int = 0  # of the sample to blame, else 0
    batch_id: int = 0  # of the batch to blame, else 0
    sample: int = 0  # its place in the batch, else 0
    chunk: tuple[int, ...] = ()  # the chunk to blame, by its place in the array's grid


# As the reference spells it.
DamacyError = WavetrainError


class TryAgain(WavetrainError):
    """There is no room now: as many tensors of a batch live as can."""

    status = Status.AGAIN


class PoolStarved(WavetrainError):
    """No batch came within `Config.pop_timeout_s`. The text has the reason: all slots are held
    (drop the tensors of earlier batches, or copy them), reads are pending, or samples are missing.
    A later pop gets the same batch."""

    status = Status.STARVED


class EndOfStream(WavetrainError):
    """Flushed, and every batch popped."""

    status = Status.END


class StreamReset(WavetrainError):
    """The owner of a shared pipeline called reset: batches that were not popped are dropped, and
    batch_id starts at 0 again. The next pop gives a batch of samples that are pushed after it."""

    status = Status.RESET


class InvalidArgument(WavetrainError):
    """An argument or a field of the config is wrong; the text names it."""

    status = Status.INVALID


class NotFound(WavetrainError):
    """There is no such array; or no such chunk, where that is an error."""

    status = Status.NOT_FOUND


class DtypeMismatch(WavetrainError):
    """The array's type has no cast to the type of the batch."""

    status = Status.DTYPE


class RankMismatch(WavetrainError):
    """Box, array and sample shape have ranks that do not fit."""

    status = Status.RANK


class StorageError(WavetrainError):
    """Something that is there could not be opened or read. If files or arrays of Python failed,
    `__cause__` is their exception."""

    status = Status.IO


class DecodeError(WavetrainError):
    """Bytes of the store break the rules of their format."""

    status = Status.DECODE


class Unsupported(WavetrainError):
    """Well-formed, but nothing that this version reads or does."""

    status = Status.UNSUPPORTED


class NativeCudaError(WavetrainError):
    """A call of the CUDA driver failed."""

    status = Status.CUDA


class OutOfMemory(WavetrainError):
    """The system gave no memory or no thread, or too many pipelines are open."""

    status = Status.OUT_OF_MEMORY


class BudgetExceeded(WavetrainError):
    """A cap is too small; the text names it and what it would have to be."""

    status = Status.BUDGET


class ShutdownError(WavetrainError):
    """The pipeline was closed, or belongs to the process that this one was forked from."""

    status = Status.SHUTDOWN


class InternalError(WavetrainError):
    """A defect of wavetrain: please report it."""

    status = Status.INTERNAL


CLASSES = {
    kind.status: kind
    for kind in (
        TryAgain,
        PoolStarved,
        EndOfStream,
        StreamReset,
        InvalidArgument,
        NotFound,
        DtypeMismatch,
        RankMismatch,
        StorageError,
        DecodeError,
        Unsupported,
        NativeCudaError,
        OutOfMemory,
        BudgetExceeded,
        ShutdownError,
        InternalError,
    )
}
