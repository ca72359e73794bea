"""Boxes that are read into arrays of the caller, one by one, from any thread.

In: a box of an array, and an array to write to. Out: that array, whose places the library has
written itself: nothing is copied in Python.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import importlib
import itertools
import math
import os
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any, NoReturn, cast

from wavetrain import _native
from wavetrain._border import short
from wavetrain._causes import explained
from wavetrain._config import NUMPY, Backend, Config, Dtype
from wavetrain._errors import (
    BudgetExceeded,
    InvalidArgument,
    NotFound,
    ShutdownError,
    WavetrainError,
)
from wavetrain._fed import Fed, target
from wavetrain._info import ArrayInfo, described
from wavetrain._interrupts import Kept
from wavetrain._library import call_on, failure, library, new_error
from wavetrain._owned import Owned
from wavetrain._pipeline import CLOSE_S, Loader
from wavetrain._sample import Box, Served, named, root_of, uri_of
from wavetrain._stats import Stats, read_stats
from wavetrain._stores import files_for, needs_files, store, uris_of
from wavetrain._table import Fields
from wavetrain._window import (
    BOX_BYTES,
    FORMATS,
    LIST_BYTES,
    PLACED,
    PLACED_AT,
    ZEROS,
    native_lists,
)
from wavetrain._words import READ, refusal

BYTES = {Dtype.BF16: 2, Dtype.BOOL: 1, Dtype.RAW: 1} | {
    dtype: int(name[1:]) for dtype, name in NUMPY.items() if name[1:]
}
SLICE_S = 0.5  # the first part of a wait of the main thread; the next is twice as long
KNOWN_MAX = 4096  # arrays whose types are kept
STRIDES = [ctypes.c_int64 * rank for rank in range(_native.RANK_MAX + 1)]


@dataclasses.dataclass(frozen=True)
class Known:
    """The description of an array."""

    dtype: Dtype
    itemsize: int
    shape: tuple[int, ...]


class Reader(Owned):
    """Reads boxes of arrays into your own memory, from any thread::

        with wavetrain.Reader() as reader:
            tile = reader.read("cells.zarr/0", numpy.s_[0:64, 0:128, 0:128])
            reader.read("cells.zarr/0", numpy.s_[64:128, 0:128, 0:128], out=tile)

    The library writes to the array itself: what is not compressed is read straight into it, all
    else is decoded and scattered there. `wavetrain.reader()` has one for the process.

    Without `config` an array is returned with its own type; `settings` are those of Config. With
    one its dtype, or that of the field, is the type of the result, and its pad_mode gives the
    elements outside of an array. `files` and `fit` are as of Pipeline. Without `files` a zarr.Array
    in a store that only zarr-python reads (memory, zip ..) is read as well, by a reader of that
    store. It is opened by `fit` or the first read and stays as long as this one.

    Opened once, it keeps metadata, descriptors, indexes and, with chunk_cache_bytes, decoded
    chunks. A process that was forked opens its own."""

    instead = "open one where it is used"
    _open: Loader | None = None
    _process = 0

    def __init__(
        self,
        config: Config | None = None,
        *,
        files: Any = None,
        fit: Iterable[Any] = (),
        **settings: Any,
    ) -> None:
        if config is not None and settings:
            raise TypeError(f"config is given, and also {', '.join(settings)}: give one of them")
        given: Any = config
        if config is None:
            config = of_any_type(settings)
        elif not isinstance(given, Config):
            raise TypeError(f"config must be a wavetrain.Config (got {short(config)})")
        numbers = {field.name: number for number, field in enumerate(config.fields)}
        dtypes = [field.dtype for field in config.fields] or [config.dtype]
        self._fields = Fields(numbers, dtypes, [0] * len(dtypes))
        self._config = config
        self._files, uris = files, uris_of(fit)
        self._fit = [uri for uri in uris if files is not None or not needs_files(uri)]
        self._lock, self._known = threading.Lock(), dict[str, Known]()
        self._of_stores = dict[
            Any, Reader
        ]()  # by the root of a store, or the way to stores far away
        self._changes = 0  # versions of files that had changed when types were asked for
        self._local, self._process = threading.local(), os.getpid()
        self._open = Loader(config, self._files, self._fit, reads=True)
        try:
            self.refit(*(uri for uri in uris if uri not in self._fit))
        except BaseException:  # nobody has the reader, so nobody could close it
            self.close()
            raise

    def __repr__(self) -> str:
        return "<Reader, closed>" if self._open is None else "<Reader>"

    @property
    def config(self) -> Config:
        """The config that it was opened with."""
        return self._config

    @property
    def fit(self) -> tuple[str, ...]:
        """The arrays that it was opened for."""
        return tuple(self._fit)

    @property
    def is_open(self) -> bool:
        """Whether it reads: not after close, and not in a process that was forked later."""
        return self._open is not None and self._process == os.getpid()

    def read(
        self,
        uri: Any,
        box: Iterable[slice[Any, Any, Any] | tuple[int, int] | Any] | None = None,
        out: Any = None,
        *more: NoReturn,
        field: str | int = 0,
        **others: NoReturn,
    ) -> Any:
        """Reads a box of the array at `uri`, a path or a zarr.Array, and gives `out`.

        box: a slice, (start, stop) or an array of indices for each axis, as of Box; ends may be
            open. Indices need a config whose max_indices_per_sample is at least their number, of
            several axes the product. None: all of the array.
        out: what is written: of numpy, torch, or what has __array_interface__, DLPack or a buffer,
            with any strides. Its shape is that of the box, of which extents of 1 may be left out.
            None: a new array of numpy.
        field: of Config.fields, the one that gives the type of the result.

        Faults are raised as by pop (NotFound, StorageError ..); it is PoolStarved if it takes
        longer than Config.pop_timeout_s. Nothing is written to `out` after that."""
        if more or others:
            raise refusal("read", Reader.read, READ, (uri, box, out, *more), others)
        name, walks = uri_of(uri), None if box is None else listed(box)
        other = self._reader_of(name)
        if other is not None:
            return other.read(name, walks, out, field=field)
        name = self._named(name, field)
        while True:
            made, known = self._box(uri, name, walks, field)
            number = self._fields.number(made.field)
            own = known if self._fields.dtypes[0] is Dtype.RAW else None
            dtype = own.dtype if own else self._fields.dtypes[number]
            itemsize = own.itemsize if own else BYTES[dtype]
            places = tuple([made.places(axis) for axis in range(len(made.aabb))])
            result = empty(places, dtype, itemsize) if out is None else out
            to = target_of(result)
            try:
                check_type(to, dtype, itemsize)
                strides = strides_of(to, places)
            except (TypeError, ValueError):
                if known is None or not self._is_another(name, known):
                    raise
                continue
            try:
                self._read(made, number, to, strides)
            except InvalidArgument:  # the places of elements of another size, or another extent
                if known is None or not self._has_changed(name, known):
                    raise
                continue
            if known is None or not self._has_changed(name, known):
                return result

    def _reader_of(self, uri: str) -> Reader | None:
        """The reader of the store that an array is in, if this one has no files."""
        if self._files is not None or not needs_files(uri):
            return None
        served = uri if isinstance(uri, Served) and uri.way is None else None
        found = files_for(None, [uri]) if served is None else store(served.store)
        if found is None:  # the package that reads it is not installed, which the library refuses
            return None
        root = found if served is None else root_of(served.store)
        with self._lock:
            self._loader()  # which refuses if this one is closed
            if root not in self._of_stores:
                self._of_stores[root] = Reader(self._config, files=found)
            return self._of_stores[root]

    def _named(self, uri: str, field: str | int) -> str:
        fields = self._config.fields
        if not any(each.cf for each in fields):
            return named(uri, self._config.cf)
        return named(uri, fields[self._fields.number(field)].cf)

    def _box(
        self, uri: Any, name: str, walks: list[Any] | None, field: str | int
    ) -> tuple[Box, Known | None]:
        """The box, and the description of the array if the type or an end depends on it."""
        is_own = self._fields.dtypes[0] is Dtype.RAW
        known = self._ask(name) if is_own or is_open(walks) else None
        if known is not None:
            walks = closed(walks, known.shape)
        return Box(uri, walks, field), known

    def _ask(self, uri: str) -> Known:
        """The description of an array, which is asked once."""
        known = self._known.get(uri)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            info = self._described(uri)
            if info.dtype is None:
                inside = ", ".join(entry.path for entry in info.entries) or "nothing that is known"
                raise NotFound(f"read: {uri} is a group, of {inside}: name an array")
            known = self._known[uri] = Known(info.dtype, info.itemsize, info.shape)
        return known

    def _has_changed(self, uri: str, known: Known) -> bool:
        """Whether an array is another by now than the one that was read: it was written anew."""
        view = _native.StatsView(struct_size=ctypes.sizeof(_native.StatsView))
        call_on("stats", self._loader().handle, ctypes.byref(view))
        if view.files_changed == self._changes:
            return False
        self._changes = view.files_changed
        return self._is_another(uri, known)

    def _is_another(self, uri: str, known: Known) -> bool:
        """The same of the array as it is now."""
        self._known.clear()
        return self._ask(uri) != known

    def _loader(self) -> Loader:
        if self._open is None:
            raise ShutdownError("the reader is closed")
        if os.getpid() != self._process:
            raise ShutdownError("a process that was forked opens a reader of its own")
        return self._open

    def _read(self, box: Box, field: int, to: Fed, strides: tuple[int, ...]) -> None:
        """The places of the box are written."""
        loader = self._loader()
        rank = len(box.aabb)
        native, text = self._native(box, field)
        low, high = to.reach()
        address = to.data if isinstance(to.data, int) else 0
        wait = self._config.pop_timeout_s
        limit = math.inf if wait is None else time.monotonic() + wait
        is_main = threading.current_thread() is threading.main_thread()
        part = SLICE_S if is_main else math.inf
        arguments = (
            native,
            BOX_BYTES,
            ctypes.c_void_p(address),
            high - low,
            STRIDES[rank](*strides),
        )
        while True:
            left = limit - time.monotonic()
            timeout = min(left, part)
            status, error = self._call(loader, arguments, timeout)
            if status == _native.OK:
                return
            if status == _native.SHUTDOWN and self._open not in (None, loader):
                loader = self._loader()  # a larger one took its place
            elif status not in (_native.STARVED, _native.AGAIN) or left <= part:
                made = failure("read", status, error)
                if isinstance(made, BudgetExceeded):
                    made.args = (
                        f"{made}; reader.refit({box.uri!r}) opens one that is large enough",
                    )
                for causes in loader.causes:
                    causes.explain(made)
                raise made
            part *= 2  # it begins anew, because only Python hears Ctrl-C
        del text

    def _call(self, loader: Loader, arguments: Any, timeout: float) -> tuple[int, _native.Error]:
        nanoseconds = _native.FOREVER if timeout == math.inf else max(0, int(timeout * 1e9))
        error = new_error()
        read = library().wavetrain_read_into
        if not loader.causes:
            return read(loader.handle, *arguments, nanoseconds, ctypes.byref(error)), error
        # Hooks run on this thread as well, where ctypes would print an interrupt.
        with explained(*loader.causes), Kept():
            return read(loader.handle, *arguments, nanoseconds, ctypes.byref(error)), error

    def _native(self, box: Box, field: int) -> tuple[Any, Any]:
        """The box as the library has it, and the text of its uri."""
        rank, text = len(box.aabb), ctypes.create_string_buffer(box.uri.encode())
        begins, ends = zip(*box.aabb) if rank else ((), ())
        native = ctypes.create_string_buffer(BOX_BYTES)
        address, size = ctypes.addressof(text), len(text) - 1
        FORMATS[rank].pack_into(native, 0, address, size, rank, 0, *begins, *ends)
        steps = box.step or ZEROS[:rank]
        lists = native_lists(box.lists) if box.lists else None
        at = 0 if lists is None else ctypes.addressof(lists[0])
        counts = (len(box.lists), LIST_BYTES if lists else 0)
        PLACED[rank][0].pack_into(native, PLACED_AT, field, 0, *steps, b"", 0, 0, 0, at, *counts)
        return native, (text, lists)

    def refit(self, *uris: Any) -> None:
        """Opens a larger one in its place, whose caps suffice for these arrays as well. Reads that
        are under way begin anew there."""
        given = uris_of(uris)
        others = [(uri, self._reader_of(uri)) for uri in given]
        for uri, other in others:
            if other is not None and uri not in other.fit:
                other.refit(uri)
        own = [uri for uri, other in others if other is None]
        if not own:
            return
        with self._lock:
            before = self._loader()
            fit = [*dict.fromkeys([*self._fit, *own])]
            try:
                opened = Loader(self._config, self._files, fit, reads=True)
            except WavetrainError:  # an array may be gone that was read long ago
                there = [uri for uri in fit if uri in own or self._is_there(uri)]
                if len(there) == len(fit):
                    raise
                fit = there
                opened = Loader(self._config, self._files, fit, reads=True)
            self._open, self._fit = opened, fit
        before.close(CLOSE_S)

    def _described(self, uri: str) -> ArrayInfo:
        return described(uri, files_for(self._files, [uri]), self._config.metadata)

    def _is_there(self, uri: str) -> bool:
        try:
            self._described(uri)
        except WavetrainError:
            return False
        return True

    def stats(self) -> Stats:
        """Figures since it was opened or refitted."""
        return read_stats(self._loader().handle)

    def forget(self, uri: Any = None) -> None:
        """Forgets what is cached of an array, or of all: for one of `files` that was rewritten,
        whose objects have no version but their size."""
        name = None if uri is None else uri_of(uri)
        for other in [*self._of_stores.values()]:
            other.forget(name)
        if self._files is None and name is not None and needs_files(name):
            return
        self._known.clear()
        call_on("forget", self._loader().handle, None if name is None else name.encode())

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self.is_open:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)
            finally:  # where warnings are errors too
                self.close()

    def close(self) -> None:
        """Ends it: idempotent. Reads of other threads end with ShutdownError."""
        loader, is_open, self._open = self._open, self.is_open, None
        if loader is not None and is_open:
            while self._of_stores:
                self._of_stores.popitem()[1].close()
            loader.close(CLOSE_S)


def of_any_type(settings: dict[str, Any]) -> Config:
    """A config of a reader whose arrays have their own types as they come out, or one for all."""
    own: dict[str, Any] = {"samples_per_batch": 1, "n_batch_slots": 1, "backend": Backend.HOST}
    made = own | settings
    if "fields" not in made:
        made.setdefault("sample_shape", (1,))
        if "dtype" not in made:
            made.update(dtype=Dtype.RAW, dtype_bytes=1)
    return Config(**made)


def listed(box: Any) -> list[Any]:
    """The axes of a box. For an array of one axis numpy.s_ gives a slice alone."""
    if isinstance(box, slice):
        return [box]
    if not isinstance(box, Iterable):
        raise TypeError(f"box must have a slice or (start, stop) for each axis (got {short(box)})")
    return [*itertools.islice(cast("Iterable[Any]", box), _native.RANK_MAX + 1)]


def is_open(walks: list[Any] | None) -> bool:
    return walks is None or any(has_open_end(axis) for axis in walks)


def has_open_end(axis: Any) -> bool:
    """Whether it is a slice an end of which the array has to say."""
    given: Any = axis
    return isinstance(axis, slice) and (given.start if is_back(given) else given.stop) is None


def is_back(axis: Any) -> bool:
    return isinstance(axis.step, int) and axis.step < 0


def closed(walks: list[Any] | None, shape: tuple[int, ...]) -> list[Any]:
    """The same axes with the ends of the array."""
    if walks is None:
        return [(0, extent) for extent in shape]
    made = [*walks]
    for number, (axis, extent) in enumerate(zip(walks, shape)):
        if has_open_end(axis):
            ends = (extent - 1, axis.stop) if is_back(axis) else (axis.start, extent)
            made[number] = slice(*ends, axis.step)
    return made


def empty(shape: tuple[int, ...], dtype: Dtype, itemsize: int) -> Any:
    numpy: Any = importlib.import_module("numpy")
    if dtype is Dtype.RAW:
        return numpy.empty(shape, f"V{itemsize}")
    try:
        return numpy.empty(shape, dtype.dtype)
    except TypeError as error:
        raise BufferError(f"{error}, or give out") from error


def target_of(out: Any) -> Fed:
    try:
        return target(out)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("array", "out", 1)) from error


def check_type(to: Fed, dtype: Dtype, itemsize: int) -> None:
    if to.dtype is not dtype or to.itemsize != itemsize:
        wanted = f"{dtype.name.lower()} of {itemsize} bytes"
        given = f"{to.dtype.name.lower()} of {to.itemsize}"
        raise TypeError(f"out must be an array of {wanted} (got {given})")


def strides_of(to: Fed, places: tuple[int, ...]) -> tuple[int, ...]:
    """Bytes from one place of the box to the next, along each of its axes."""
    if to.shape == places:
        return to.strides
    left = [*zip(to.shape, to.strides)]
    strides: list[int] = []
    for extent in places:
        is_next = bool(left) and left[0][0] == extent
        strides.append(left.pop(0)[1] if is_next else 0)
        if not is_next and extent != 1:
            left = [(-1, 0)]
    if left:
        raise ValueError(f"out must have the shape of the box, {places} (got {to.shape})")
    return tuple(strides)


readers: dict[tuple[tuple[str, Any], ...], Reader] = {}
opening = threading.Lock()


def reader(fit: Iterable[Any] = (), **settings: Any) -> Reader:
    """The reader of this process for these settings of Config: opened by the first call, and anew
    after a fork. `fit` names arrays that it is to have room for; one that needs more than it has is
    BudgetExceeded, and Reader.refit opens a larger one. Not to be closed: it ends with the
    process."""
    key = tuple(sorted(settings.items()))
    uris = uris_of(fit)
    with opening:
        found = readers.get(key)
        if found is None or not found.is_open:
            found = readers[key] = Reader(fit=uris, **settings)
    missing = [uri for uri in uris if uri not in found.fit]
    if missing:
        found.refit(*missing)
    return found


@atexit.register
def close_readers() -> None:
    for found in [*readers.values()]:
        found.close()
    readers.clear()
