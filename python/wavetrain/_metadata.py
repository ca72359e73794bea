"""Metadata of arrays, looked up once for loaders in other processes and on other machines.

In: uris. Out: bytes, which travel as they are and which Config(metadata=..) takes.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import threading
from collections.abc import Iterable
from typing import Any, cast

from wavetrain import _native
from wavetrain._border import short, whole
from wavetrain._causes import explained
from wavetrain._config import Config, to_native
from wavetrain._errors import BudgetExceeded
from wavetrain._interrupts import Kept
from wavetrain._library import call, library
from wavetrain._sample import is_stored, uri_of
from wavetrain._stores import files_for, hook_of

SHARDS = 64  # whose indexes one call looks up
OUT_BYTES = 1 << 16  # of the first try; the next has four times as many
THREADS = 16
ROOM = threading.local()  # of a thread: the scratch of the library


def metadata(
    uris: Any, *, config: Config | None = None, files: Any = None, threads: int = THREADS
) -> bytes:
    """Documents, headers of .npy files and shard indexes of arrays, for loaders elsewhere::

        found = wavetrain.metadata(["/data/cells.zarr/0", "/data/labels.npy"])  # the driver
        config = Config(metadata=found, ..)  # each worker

    A loader with such a config reads none of these: it looks at each file once, and raises
    StorageError for one that has changed since. Workers find arrays by the same paths; a relative
    one is of the current folder here.

    uris: paths or a zarr.Array, one or a list. config: of the loaders, if its fields have cf=True.
    files: as of Pipeline. threads: that wait for storage."""
    threads = whole("threads", threads, 1, 1024)
    given: Any = config
    if given is not None and not isinstance(given, Config):
        raise TypeError(f"config must be a wavetrain.Config (got {short(config)})")
    names = names_of(uris)
    files = files_for(files, names)
    hook = None if files is None else hook_of(files, threads)
    native = native_of(config)
    pool = concurrent.futures.ThreadPoolExecutor(threads, "wavetrain-metadata")
    try:
        if hook is not None:
            hook.fill(native)
        with explained(*([hook.causes] if hook else [])):
            firsts = [pool.submit(look_up, native, uri, 0) for uri in names]
            rest = [
                pool.submit(look_up, native, uri, shard)
                for uri, first in zip(names, firsts)
                for shard in range(SHARDS, first.result()[1], SHARDS)
            ]
            return b"".join(part.result()[0] for part in [*firsts, *rest])
    finally:
        pool.shutdown(cancel_futures=True)
        if hook is not None:
            hook.close()


def names_of(uris: Any) -> list[str]:
    """Each array once."""
    if isinstance(uris, (str, bytes, os.PathLike)) or is_stored(uris):
        return [uri_of(uris, name="uris")]
    if not isinstance(uris, Iterable):
        raise TypeError(f"uris must be an array, or a list of arrays (got {short(uris)})")
    given = enumerate(cast("Iterable[Any]", uris))
    return list(dict.fromkeys(uri_of(uri, name=f"uris[{at}]") for at, uri in given))


def native_of(config: Config | None) -> _native.Config:
    if config is not None:
        return to_native(config)
    native = _native.Config()
    library().wavetrain_config_default(ctypes.byref(native), ctypes.sizeof(native))
    return native


def look_up(native: _native.Config, uri: str, first_shard: int) -> tuple[bytes, int]:
    """A part of the metadata of an array, and how many shards it has."""
    scratch = getattr(ROOM, "scratch", None)
    if scratch is None:
        scratch = ROOM.scratch = ctypes.create_string_buffer(_native.SCRATCH_BYTES)
    size = OUT_BYTES
    while True:
        out = ctypes.create_string_buffer(size)
        part = _native.MetadataPart(
            struct_size=ctypes.sizeof(_native.MetadataPart),
            first_shard=first_shard,
            shard_count=SHARDS,
            out=ctypes.addressof(out),
            out_bytes=size,
        )
        arguments = ctypes.byref(native), scratch, len(scratch), ctypes.byref(part)
        try:
            with Kept():
                call("metadata", uri.encode(), *arguments)
        except BudgetExceeded as error:
            if "out_bytes" not in str(error):
                raise
            size *= 4
            continue
        return ctypes.string_at(out, part.written), part.shards
