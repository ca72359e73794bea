"""Arrays that are lent to a pipeline, each for one batch, and kept until they are given back.

In: arrays of any library, in memory of the host or of a device. Out: targets for the library, and
the same arrays with the batch that lies in them. The library reports how many memories it has;
those that no queued and no popped batch accounts for are kept by tensors.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from wavetrain import _native
from wavetrain._batch import GIVEN_BACK, event_handle, event_of
from wavetrain._config import Config, Dtype, Field
from wavetrain._fed import Fed, row_major, target
from wavetrain._interrupts import Kept
from wavetrain._lent import joined
from wavetrain._library import last_failure, library
from wavetrain._owned import Owned

TARGET_BYTES = ctypes.sizeof(_native.Target)


class Loan(Owned):
    """Arrays that one batch lies in, or will."""

    def __init__(self, loans: Loans, tag: int, arrays: Any, places: list[Fed]) -> None:
        self.loans, self.tag, self.arrays = loans, tag, arrays
        self.places = places  # which keep what is at their addresses
        self.is_popped = False

    def release(self, release: Callable[[], int]) -> int:
        """The batch in it is given back; tensors may keep it."""
        with self.loans.lock:
            status = release()
            if status in GIVEN_BACK:
                self.loans.released.append(self.loans.lent.pop(self.tag))
                self.loans.sweep()
        return status


class Loans(Owned):
    """The memory that is lent to the loader of a pipeline."""

    def __init__(self, loader: int, config: Config, device: int) -> None:
        self.loader, self.device, self.samples = loader, device, config.samples_per_batch
        self.fields: list[Field | Config] = [*config.fields] or [config]
        self.names = [field.name for field in config.fields]
        self.lock = threading.RLock()  # the garbage collector may end a batch in any call
        self.lent: dict[int, Loan] = {}  # by tag, those that no batch has given back
        self.released: list[Loan] = []  # that tensors may keep
        self.next = 1

    def lend(self, arrays: Any, event: Any) -> None:
        given = self.listed(arrays)
        places = [self.place(number, array) for number, array in enumerate(given)]
        event = event_of(event)  # alive until the call has returned
        handle = None if event is None else event_handle(event)
        if handle is None:  # after the work that the makers of the arrays have queued on them
            event = joined([place.event for place in places if place.event is not None])
            handle = None if event is None else event.handle
        targets = (_native.Target * len(places))()
        for native, place in zip(targets, places):
            native.data = place.data if isinstance(place.data, int) else 0
            native.bytes = place.reach()[1]
        with self.lock, Kept():
            self.sweep()
            loan = Loan(self, self.next, arrays, places)
            self.next += 1
            status = library().wavetrain_lend(
                self.loader, targets, len(targets), TARGET_BYTES, handle, loan.tag
            )
            # After a CUDA failure the memory is kept until a reset or the end.
            if status in (_native.OK, _native.CUDA):
                self.lent[loan.tag] = loan
        if status != _native.OK:
            raise last_failure("lend", status, self.loader)

    def listed(self, arrays: Any) -> list[Any]:
        """One array for each field, in their order."""
        if not self.names:
            return [arrays]
        given = cast("Mapping[Any, Any]", arrays)
        if not isinstance(arrays, Mapping) or set(given) != set(self.names):
            names = ", ".join(map(repr, self.names))
            raise ValueError(f"arrays must be a dict of an array for each of {names}")
        return [given[name] for name in self.names]

    def place(self, number: int, given: Any) -> Fed:
        """The target of a field of a batch, if the array has the type and the shape of the
        batch."""
        field, name = self.fields[number], self.names[number] if self.names else ""
        of = f"array of {name!r}" if name else "array"
        shape: tuple[int, ...] = (self.samples, *field.sample_shape)
        try:
            made = target(given, self.device)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("array", of, 1)) from None
        if field.dtype is Dtype.RAW and made.dtype is not Dtype.RAW:  # an axis of bytes, as numpy()
            shape, kind = (*shape, field.dtype_bytes), Dtype.U8
        else:
            kind = field.dtype
        if made.dtype is not kind:
            got, want = made.dtype.name.lower(), kind.name.lower()
            raise TypeError(f"{of} must have elements of {want} (got {got})")
        if made.shape != shape:
            raise ValueError(f"{of} must have the shape of a batch, {shape} (got {made.shape})")
        dense = row_major(made.shape, made.itemsize)
        if any(extent > 1 and at != step
               for extent, at, step in zip(made.shape, made.strides, dense)):  # fmt: skip
            raise ValueError(f"{of} must be row-major, without gaps (got strides {made.strides})")
        return made

    def of(self, view: _native.BatchView) -> Loan | None:
        """The loan that holds a popped batch, or None."""
        if not view.is_lent:
            return None
        loan = self.lent[view.lend_tag]
        loan.is_popped = True
        return loan

    def sweep(self) -> None:
        """Lets go of what was released, once no tensor keeps any of it."""
        count = len(self.released)  # a batch may end meanwhile, in the middle of this
        if not count:
            return
        view = _native.StatsView(struct_size=ctypes.sizeof(_native.StatsView))
        status = library().wavetrain_stats(self.loader, ctypes.byref(view))
        if status != _native.OK or view.memories_lent <= len(self.lent):
            del self.released[:count]

    def reset(self) -> None:
        """The program gets back all memory that holds no popped batch."""
        with self.lock:
            for tag in [tag for tag, loan in self.lent.items() if not loan.is_popped]:
                del self.lent[tag]
