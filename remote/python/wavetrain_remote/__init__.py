"""The client of stores far away, for the package `wavetrain`, which finds and uses it by itself.

In: settings by the names of wavetrain_remote.h. Out: a client that fills the hooks of a loader's
config; no code of Python runs when it reads. `wavetrain.remote(..)` is the way to its options.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__version__ = "0.1.0"
__all__ = ["Client", "library_path"]

NAME = "libwavetrain_remote.so.0"
TEXT_BYTES = 1024
OK = 0


class Config(ctypes.Structure):
    """wavetrain_remote_config of the header that the library was built with."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("read_done", ctypes.c_void_p),
        ("on_error", ctypes.c_void_p),
        ("on_error_user", ctypes.c_void_p),
        ("n_threads", ctypes.c_uint32),
        ("reads_max", ctypes.c_uint32),
        ("cache_bytes", ctypes.c_uint64),
        ("max_entry_bytes", ctypes.c_uint64),
        ("n_objects", ctypes.c_uint32),
        ("n_stores", ctypes.c_uint32),
        ("retries_max", ctypes.c_uint32),
        ("whole_files", ctypes.c_uint32),
        ("backoff_min_ns", ctypes.c_uint64),
        ("backoff_max_ns", ctypes.c_uint64),
        ("connect_timeout_ns", ctypes.c_uint64),
        ("idle_timeout_ns", ctypes.c_uint64),
        ("total_timeout_ns", ctypes.c_uint64),
        ("max_age_ns", ctypes.c_uint64),
        ("archive_max_age_ns", ctypes.c_uint64),
        ("merge_gap_bytes", ctypes.c_uint64),
        ("merge_bytes_max", ctypes.c_uint64),
        ("anonymous", ctypes.c_uint32),
        ("allow_http", ctypes.c_uint32),
        ("path_style", ctypes.c_uint32),
        ("n_options", ctypes.c_uint32),
        ("options", ctypes.POINTER(ctypes.c_char_p)),
        ("endpoint", ctypes.c_char_p),
        ("region", ctypes.c_char_p),
        ("ca_file", ctypes.c_char_p),
        ("proxy_url", ctypes.c_char_p),
        ("absent", ctypes.c_char_p),
    ]


class Stats(ctypes.Structure):
    """wavetrain_remote_stats_view."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *[
            (name, ctypes.c_uint64)
            for name in (
                "requests",
                "retries",
                "bytes_received",
                "bytes_read",
                "reads",
                "sizes",
                "lists",
                "absent",
                "failed",
                "changed",
                "cache_hits",
                "cached_bytes",
                "inflated",
                "in_flight",
                "in_flight_max",
                "denied",
            )
        ],
    ]


def library_path() -> Path:
    """The shared library: $WAVETRAIN_REMOTE_LIBRARY, or the one in this package."""
    named = os.environ.get("WAVETRAIN_REMOTE_LIBRARY")
    return Path(named) if named else Path(__file__).parent / "lib" / NAME


@functools.cache
def library() -> Any:
    path = library_path()
    try:
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{error}: install the wheel of remote/wheel.sh, or name a {NAME} in "
            "$WAVETRAIN_REMOTE_LIBRARY"
        ) from error
    for name, arguments in (
        ("config_default", [ctypes.c_void_p, ctypes.c_size_t]),
        ("open", [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
        ("files_hook", [ctypes.c_void_p, ctypes.c_void_p]),
        ("store_hook", [ctypes.c_void_p, ctypes.c_void_p]),
        ("stats", [ctypes.c_void_p, ctypes.c_void_p]),
        ("cancel", [ctypes.c_void_p]),
        ("close", [ctypes.c_void_p]),
    ):
        function = getattr(opened, f"wavetrain_remote_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    opened.wavetrain_remote_last_error.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    opened.wavetrain_remote_last_error.restype = ctypes.c_size_t
    return opened


class Client:
    """An open client. settings: members of wavetrain_remote_config by their names. options:
    texts by the keys of the crate object_store. read_done: the address of wavetrain_read_done."""

    def __init__(
        self, settings: Mapping[str, Any], options: Mapping[str, str], read_done: int
    ) -> None:
        self.handle = ctypes.c_void_p()
        self.process = os.getpid()
        config = Config()
        size = ctypes.sizeof(config)
        if library().wavetrain_remote_config_default(ctypes.byref(config), size) != OK:
            raise ImportError(f"{library_path()} is of another version than this package")
        for name, value in settings.items():
            setattr(config, name, value.encode() if isinstance(value, str) else value)
        pairs = [f"{key}={value}".encode() for key, value in options.items()]
        config.options = (ctypes.c_char_p * len(pairs))(*pairs)
        config.n_options, config.read_done = len(pairs), read_done
        why = ctypes.create_string_buffer(TEXT_BYTES)
        opened = ctypes.byref(self.handle)
        if library().wavetrain_remote_open(ctypes.byref(config), opened, why, len(why)) != OK:
            raise ValueError(f"remote: {why.value.decode(errors='replace')}")

    def fill(self, files: Any, store: Any) -> None:
        """Fills a wavetrain_files_hook and a wavetrain_store_hook, which stay valid until close."""
        library().wavetrain_remote_files_hook(self.handle, ctypes.byref(files))
        library().wavetrain_remote_store_hook(self.handle, ctypes.byref(store))

    def last_error(self) -> str:
        """The text of the last failure of any call; empty: there was none."""
        text = ctypes.create_string_buffer(TEXT_BYTES)
        library().wavetrain_remote_last_error(self.handle, text, len(text))
        return text.value.decode(errors="replace")

    def stats(self) -> dict[str, int]:
        """Figures since it was opened, by the names of wavetrain_remote_stats_view."""
        view = Stats(struct_size=ctypes.sizeof(Stats))
        library().wavetrain_remote_stats(self.handle, ctypes.byref(view))
        return {name: getattr(view, name) for name, *_ in Stats._fields_[1:]}

    def close(self) -> None:
        """Ends it. Loaders that use it must be closed before."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle:
            library().wavetrain_remote_close(handle)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.close()
