"""The shared library: found, opened once, and its statuses made exceptions."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from pathlib import Path
from typing import Any

from wavetrain import _native
from wavetrain._errors import CLASSES, Status, WavetrainError

NAME = f"libwavetrain.so.{_native.VERSION_MAJOR}"


@functools.cache
def library() -> Any:
    """The library, from $WAVETRAIN_LIBRARY or from the folder of this package, its functions
    declared."""
    beside = Path(__file__).parent / "lib" / NAME
    path = os.environ.get("WAVETRAIN_LIBRARY") or str(beside)
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"{error}: install the wheel of tools/dist.sh, or name a {NAME} in $WAVETRAIN_LIBRARY"
        ) from error
    opened.wavetrain_version.restype = ctypes.c_uint32
    version = opened.wavetrain_version()
    if version >> 16 != _native.VERSION_MAJOR or version < _native.VERSION:
        found, wanted = version_text(version), version_text(_native.VERSION)
        raise ImportError(
            f"{path} is of version {found}: this package needs {wanted} or later of "
            "the same major version"
        )
    _native.declare(opened)
    return opened


def version() -> str:
    """The version of this package: that of the header that it was made from."""
    return version_text(_native.VERSION)


def version_text(version: int) -> str:
    return f"{version >> 16}.{version >> 8 & 255}.{version & 255}"


# Words of wavetrain.h in the texts of the library, and what a program in Python writes.
SPELLED = {
    "answer for its files in config.files": "pip install wavetrain-remote for s3, gs, az and http, "
    "or give files=wavetrain.store(..) or wavetrain.fsspec(..)",
    "only config.source has such arrays, and it is not set: set it": "only Config(source=..) has "
    "such arrays, and it is not set: give it",
    "or let config_fit set it": "or give Pipeline(config, fit=[uri])",
    "saturate = 1": "saturate=True",
    " cf = 1": " cf=True",
    "pop_timeout_ns": "pop_timeout_s",
    "reset_timeout_ns": "reset_timeout_s",
    "stats.io and stats.decode": "stats().io and stats().decode",
    "(stats.meta)": "(stats().meta)",
    "batch slots are held: release one": "batch slots are held: release a batch, or clone tensors "
    "that you keep",
    "release a batch or delete its tensors": "release a batch, or clone tensors that you keep",
    ", or set thread_mode = pump or hook": "",
    "backend = host": "Config(backend='host')",
    "config_fit: ": "fit: ",
    "node_info: ": "array_info: ",
    "wavetrain_metadata ": "wavetrain.metadata ",
    "attach_timeout_ns": "attach_timeout_s",
    "set on_consumer_lost to skip": "give serve(.., on_lost='skip')",
}

# Schemes of stores that lie in no folder which could be mounted.
UNMOUNTED = re.compile(r"(scheme (?:memory|zip|\w+store):// is not read: )mount .*?, or ")


def new_error() -> _native.Error:
    return _native.Error(struct_size=ctypes.sizeof(_native.Error))


def failure(what: str, status: int, error: _native.Error) -> WavetrainError:
    """The exception of a status other than OK, with the library's text."""
    kind = CLASSES[Status(status)]
    text = f"{what}: {error.text.decode(errors='replace') or Status(status).name}"
    for of_library, of_python in SPELLED.items():
        text = text.replace(of_library, of_python)
    text = UNMOUNTED.sub(r"\1", text)
    made = kind(text)
    made.what = what
    made.tag, made.batch_id, made.sample = error.tag, error.batch_id, error.sample
    made.chunk = tuple(error.chunk[: error.chunk_rank])
    return made


def call(what: str, *arguments: Any) -> None:
    """Calls wavetrain_`what`, whose last argument is an error of the caller's."""
    error = new_error()
    status = getattr(library(), f"wavetrain_{what}")(*arguments, ctypes.byref(error))
    if status != _native.OK:
        raise failure(what, status, error)


def call_on(what: str, loader: int, *arguments: Any) -> None:
    """Calls wavetrain_`what` on a loader, which keeps the text of what fails."""
    status = getattr(library(), f"wavetrain_{what}")(loader, *arguments)
    if status != _native.OK:
        raise last_failure(what, status, loader)


def bad_chunks(loader: int) -> list[WavetrainError]:
    """The failures of chunks that a loader lists."""
    found: list[WavetrainError] = []
    while True:
        error = new_error()
        status = library().wavetrain_bad_chunk(loader, len(found), ctypes.byref(error))
        if status == _native.END:
            return found
        if status != _native.OK:
            raise last_failure("bad_chunk", status, loader)
        found.append(failure("bad_chunk", error.status, error))


def last_failure(what: str, status: int, loader: int) -> WavetrainError:
    error = new_error()
    library().wavetrain_last_error(loader, ctypes.byref(error))
    if error.status != status:
        error.text = b"a call that failed on another thread took the place of the text"
    return failure(what, status, error)
