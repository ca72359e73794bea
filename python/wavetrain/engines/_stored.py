"""An array as tasks of an engine read it: each block by the reader of the process that runs them.

In: a uri. Out: an array of numpy for each block. The array is a description of some hundred bytes,
so an engine sends it to its workers; each process opens one reader, and keeps it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from typing import Any

from wavetrain._config import Dtype
from wavetrain._errors import BudgetExceeded
from wavetrain._info import ArrayInfo, array_info
from wavetrain._reader import reader

settings: dict[str, Any] = {}  # of the reader of this process, as an engine's plugin sets them
opening = threading.Lock()
NPY_FILES = 4096  # a folder of more is read by a reader that is opened for it


def read(uri: Any, box: Any = None, out: Any = None) -> Any:
    """A box, by the reader of this process: wavetrain.reader, with the settings of its engine."""
    found = reader(max_npy_files=NPY_FILES, **settings)
    try:
        return found.read(uri, box, out)
    except BudgetExceeded:  # an array with larger chunks than those before
        with opening:
            found.refit(uri)
        return found.read(uri, box, out)


def forward(part: Any) -> bool:
    return (part.step or 1) > 0


class Stored:
    """An array that is read when it is indexed, in the process that indexes it."""

    def __init__(self, uri: Any) -> None:
        info = array_info(uri)
        if info.dtype is None:
            inside = ", ".join(entry.path for entry in info.entries) or "nothing that is known"
            raise ValueError(f"uri must be an array: {info.uri} is a group, of {inside}")
        self.uri, self.shape, self.ndim = info.uri, info.shape, len(info.shape)
        self.dtype = dtype_of(info)

    def __repr__(self) -> str:
        return f"<{self.dtype} array of {self.shape} at {self.uri}>"

    def __getitem__(self, box: Any) -> Any:
        """A box, a slice with steps of 1 or more for each axis."""
        given: list[Any] = [*box] if isinstance(box, tuple) else [box]  # pyright: ignore[reportUnknownArgumentType]
        given += [slice(None)] * (self.ndim - len(given))
        if not all(isinstance(part, slice) and forward(part) for part in given):
            raise IndexError(f"a box has a slice with a step above 0 for each axis (got {box})")
        walks = [range(*part.indices(extent)) for part, extent in zip(given, self.shape)]
        if not all(walks):
            numpy: Any = importlib.import_module("numpy")
            return numpy.empty([len(walk) for walk in walks], self.dtype)
        box = [slice(walk.start, walk.stop, walk.step) for walk in walks]
        return read(self.uri, box)

    def __dask_tokenize__(self) -> Any:
        """Changes when the folder or the file does: blocks of a rewritten array have other keys."""
        changed = 0
        with contextlib.suppress(OSError):
            changed = os.stat(self.uri.partition("#")[0].removeprefix("file://")).st_mtime_ns
        return type(self).__name__, self.uri, self.shape, str(self.dtype), changed


def dtype_of(info: ArrayInfo) -> Any:
    """The type that a reader returns, of numpy."""
    numpy: Any = importlib.import_module("numpy")
    if info.dtype is None or info.dtype is Dtype.RAW:
        return numpy.dtype(f"V{info.itemsize}")
    return numpy.dtype(info.dtype.dtype)


def rows_of_files(uri: Any) -> list[int] | None:
    """The rows of each file of numbered .npy files; None for any other array."""
    ends = array_info(uri).file_ends
    return [end - begin for begin, end in zip((0, *ends), ends)] or None
