"""Files that Python serves: the files hook, and any file system of fsspec behind it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import logging
import threading
from typing import Any, Protocol, runtime_checkable

from wavetrain import _border, _interrupts, _native
from wavetrain._causes import Causes
from wavetrain._library import library

LOGGER = logging.getLogger("wavetrain.files")
# Members of an archive share one file and its position, also where its module says otherwise:
# seeks of zipfile get in each other's way since Python 3.13.
ARCHIVE = threading.Lock()


@runtime_checkable
class Files(Protocol):
    """What `Pipeline(files=..)` reads through. `name` is a sample's uri, a "/" and the key:
    "s3://bucket/a.zarr/zarr.json", "s3://bucket/a.zarr/c/0/1". Both functions are called from
    several threads at once, and may wait. FileNotFoundError means that there is no such file, which
    for a chunk is data, the fill value; every other exception is a StorageError, whose cause it is.
    A file must not change while the pipeline is open."""

    def size(self, name: str) -> int:
        """The bytes of the file."""
        ...

    def read(self, name: str, offset: int, target: memoryview) -> None:
        """Fills `target` with the bytes from `offset` on."""
        ...


class FsspecFiles:
    """A file system of fsspec as Files. It and its copies may be sent to other processes."""

    def __init__(self, fs: Any) -> None:
        if not callable(getattr(fs, "cat_file", None)):
            raise TypeError(f"fs must be a file system of fsspec (got {fs!r})")
        self.fs = fs
        kinds = [kind.__name__ for kind in type(fs).__mro__]
        self.is_archive = "AbstractArchiveFileSystem" in kinds
        self.sizes: dict[str, int] = {}  # of files whose server answers with the whole file

    def __repr__(self) -> str:
        return f"wavetrain.fsspec({type(self.fs).__name__})"

    def size(self, name: str) -> int:
        size = self.fs.size(name)
        if size is None:
            raise OSError(f"{name}: the server does not say how many bytes it has")
        return int(size)

    def read(self, name: str, offset: int, target: memoryview) -> None:
        with ARCHIVE if self.is_archive else contextlib.nullcontext():
            data = self.fs.cat_file(name, start=offset, end=offset + len(target))
        if len(data) != len(target):
            data = self.part_of_whole(name, data, offset, len(target))
        target[:] = data

    def part_of_whole(self, name: str, data: bytes, offset: int, size: int) -> memoryview:
        """A server without ranges answers with the whole file: what was asked for is in it."""
        if name not in self.sizes:
            LOGGER.warning("%s: the server ignores ranges: each read fetches the whole file", name)
            self.sizes[name] = self.size(name)
        if len(data) != self.sizes[name] or offset + size > len(data):
            raise OSError(
                f"{name}: {len(data)} bytes came where {size} from {offset} on were asked"
            )
        return memoryview(data)[offset : offset + size]


def fsspec(fs: Any) -> FsspecFiles:
    """Any file system of fsspec (s3, gcs, http, zip, memory ..) for `Pipeline(files=..)`:

    fs = fsspec.filesystem("s3", anon=True)
    with wavetrain.Pipeline(config, files=wavetrain.fsspec(fs)) as pipeline:
        pipeline.push([wavetrain.Sample("s3://bucket/cells.zarr/0", numpy.s_[0:64, 0:128, 0:128])])
    """
    return FsspecFiles(fs)


class Hook:
    """The files hook of one pipeline. Chunks are read on a pool of threads, metadata on the
    library's own."""

    def __init__(self, files: Any, threads: int) -> None:
        if not isinstance(files, Files):
            raise TypeError(
                f"files must have size(name) and read(name, offset, target), or be "
                f"wavetrain.fsspec(fs) (got {files!r})"
            )
        self.files, self.causes = files, Causes(LOGGER)
        self.pool = concurrent.futures.ThreadPoolExecutor(threads, "wavetrain-files")
        # ctypes keeps none of them alive.
        self.calls = (
            _native.FilesHook_size(self.size),
            _native.FilesHook_read(self.read),
            _native.FilesHook_read_async(self.read_async),
        )

    def fill(self, hook: _native.FilesHook) -> None:
        hook.size, hook.read, hook.read_async = self.calls

    def close(self) -> None:
        self.pool.shutdown()

    def size(self, _user: Any, name: bytes) -> int:
        path = name.decode()
        try:
            with _interrupts.heard():
                size = self.files.size(path)
            return _border.whole(f"size of {path}", size, 0, _border.I64_MAX)
        except BaseException as error:
            return self.failed(path, error)

    def read(self, _user: Any, name: bytes, offset: int, target: int, size: int) -> int:
        path = name.decode()
        try:
            if size:
                view = memoryview((ctypes.c_char * size).from_address(target)).cast("B")
                with _interrupts.heard():
                    self.files.read(path, offset, view)
                view.release()
            return 0
        except BaseException as error:
            return self.failed(path, error)

    def read_async(
        self, user: Any, loader: int, ticket: int, name: bytes, offset: int, target: int, size: int
    ) -> int:
        def read() -> None:
            result = self.read(user, name, offset, target, size)
            library().wavetrain_read_done(loader, ticket, result)

        try:
            self.pool.submit(read)
            return 0
        except RuntimeError:  # the pool has ended: `read` is asked then
            return _native.FILE_FAILED

    def failed(self, name: str, error: BaseException) -> int:
        if isinstance(error, FileNotFoundError):
            return _native.FILE_ABSENT
        self.causes.failed(name, error)
        return _native.FILE_FAILED
