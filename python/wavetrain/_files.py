"""Files that Python serves: the files hook, and any file system of fsspec that it reads."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import logging
import threading
from typing import Any, Protocol, runtime_checkable

from wavetrain import _border, _interrupts, _log, _native
from wavetrain._absence import ABSENT, doubt_of, handled, not_read, status_of
from wavetrain._border import short
from wavetrain._callbacks import callback, shielded
from wavetrain._causes import Causes
from wavetrain._library import library

LOGGER = logging.getLogger("wavetrain.files")
# File systems that one thread at a time may use. Members of an archive share one file and its
# position, whatever its module documents: seeks of zipfile get in each other's way since Python
# 3.13. Its table is made while others look into it, and they would miss what it lacks yet. FTP has
# one connection, on which answers would go to the wrong thread.
LONELY = {"AbstractArchiveFileSystem", "FTPFileSystem"}
ALONE = threading.RLock()
# Caches of fsspec, in which a thread would find a file that another one still fills: by name.
FILLING = [threading.RLock() for _ in range(64)]
# Packages whose `info` is known to raise FileNotFoundError from the answer of the store. That of
# others is confirmed by a read: ossfs, for one, drops a refusal. So is that of references, as what
# they refer to may be gone.
KNOWN = {"fsspec", "s3fs", "gcsfs", "adlfs", "sshfs", "webdav4", "huggingface_hub", "wavetrain"}


@runtime_checkable
class Files(Protocol):
    """The interface that `Pipeline(files=..)` reads through. `name` is a sample's uri, a "/" and
    the key: "s3://bucket/a.zarr/zarr.json", "s3://bucket/a.zarr/c/0/1". Both functions are called
    from several threads at once, and may wait. FileNotFoundError means that there is no such file,
    which for a chunk is data, the fill value; every other exception is a StorageError, whose cause
    it is. So is a FileNotFoundError that was raised from a failure: a PermissionError, a timeout, a
    status of HTTP other than 404 and 410. The library makes a call that failed once more; of an
    object with `retries_itself = True` only a read of a chunk. A file must not change while the
    pipeline is open."""

    def size(self, name: str) -> int:
        """The bytes of the file."""
        ...

    def read(self, name: str, offset: int, target: memoryview) -> int | None:
        """Fills `target` with the bytes from `offset` on: all of it. It may return how many
        they were, as readinto does; fewer are an error."""
        ...


class FsspecFiles:
    """A file system of fsspec as Files. It and its copies may be sent to other processes."""

    def __init__(self, fs: Any) -> None:
        if not callable(getattr(fs, "cat_file", None)):
            raise TypeError(f"fs must be a file system of fsspec (got {short(fs)})")
        self.fs = fs
        behind = file_systems(fs)
        kinds = {kind.__name__ for each in behind for kind in type(each).__mro__}
        # A blockcache has one table of blocks. A thread cannot take those of a failed read from it
        # while another one stores or loads it: the next read would return zeros.
        self.has_blocks = any(type(each).__name__ == "CachingFileSystem" for each in behind)
        self.is_lonely = bool(kinds & LONELY) or self.has_blocks
        self.is_cache = "CachingFileSystem" in kinds
        packages = {type(each).__module__.partition(".")[0] for each in behind}
        is_reference = "ReferenceFileSystem" in kinds
        self.is_known = packages <= KNOWN and not is_reference
        # By path, of a file system of references: bytes, text, or a part of a file elsewhere.
        self.references: Any = getattr(fs, "references", None) if is_reference else None
        self.sizes: dict[str, int] = {}  # of files whose server answers with the whole file

    def __repr__(self) -> str:
        return f"wavetrain.fsspec({type(self.fs).__name__})"

    def size(self, name: str) -> int:
        within = handled()
        try:
            return self.size_of(name)
        except Exception as error:
            self.check_absent(name, error, within)
            if not self.is_known:
                self.confirm(name, within)
            raise FileNotFoundError(name) from error

    def read(self, name: str, offset: int, target: memoryview) -> None:
        within = handled()
        try:
            data = self.bytes_of(name, offset, offset + len(target))
        except Exception as error:
            self.check_absent(name, error, within)
            size = self.size(name)  # of caches, whose `open` asks `exists`, which drops errors
            raise OSError(f"{name}: {size} bytes were found, and could not be read") from error
        if len(data) != len(target):
            data = self.part_of_whole(name, data, offset, len(target))
        target[:] = data

    def size_of(self, name: str) -> int:
        with self.alone(name):
            size = self.fs.size(name) if self.references is None else self.size_referred(name)
        if size is None:
            raise OSError(f"{name}: the server does not say how many bytes it has")
        return int(size)

    def size_referred(self, name: str) -> Any:
        """`info` has the size of a value as it is spelled, in base64 or in characters, and 0 for a
        name with a protocol, which would be a folder."""
        path = self.fs._strip_protocol(name).lstrip("/")
        try:
            part = self.references[path]
        except KeyError as error:
            raise FileNotFoundError(name) from error
        is_elsewhere = isinstance(part, (list, tuple))
        return self.fs.size(path) if is_elsewhere else len(self.fs.cat_file(path))

    def bytes_of(self, name: str, begin: int, end: int) -> Any:
        with self.alone(name):
            try:
                return self.fs.cat_file(name, start=begin, end=end)
            except BaseException:
                self.forget_blocks(name)
                raise

    def alone(self, name: str) -> contextlib.AbstractContextManager[Any]:
        if self.is_lonely:
            return ALONE
        return FILLING[hash(name) % len(FILLING)] if self.is_cache else contextlib.nullcontext()

    def forget_blocks(self, name: str) -> None:
        """A blockcache notes blocks before it has them: where that fails it would give zeros."""
        for each in file_systems(self.fs) if self.has_blocks else ():
            if type(each).__name__ == "CachingFileSystem":
                if each is self.fs:
                    each.pop_from_cache(name)
                else:  # which has another name for it
                    each.clear_cache()

    def check_absent(self, name: str, error: Exception, within: BaseException | None) -> None:
        """Raises what was raised, but for a sure sign that the file is absent."""
        if not isinstance(error, FileNotFoundError):
            if status_of(error) in ABSENT:
                return
            raise error
        doubt = doubt_of(error, within, is_strict=True)
        if doubt is not None:
            raise not_read(name, error, doubt)

    def confirm(self, name: str, within: BaseException | None) -> None:
        """Reads a file that has no size, which must be absent then, too."""
        try:
            self.bytes_of(name, 0, 1)
        except Exception as error:
            self.check_absent(name, error, within)
            return
        raise OSError(f"{name}: the file system has no size of it, and yet reads it")

    def part_of_whole(self, name: str, data: bytes, offset: int, size: int) -> memoryview:
        """A server without ranges answers with the whole file: what was asked for is in it."""
        if name not in self.sizes:
            text = "%s: the server ignores ranges: each read fetches the whole file"
            LOGGER.warning(text, _log.line(name))
            self.sizes[name] = self.size_of(name)
        if len(data) != self.sizes[name] or offset + size > len(data):
            raise OSError(
                f"{name}: {len(data)} bytes came where {size} from {offset} on were asked"
            )
        return memoryview(data)[offset : offset + size]


def file_systems(fs: Any) -> list[Any]:
    """A file system of fsspec, and those that it is made of: of dir, caches, references."""
    found = [fs]
    for each in found:
        # A cache gives what the file system in it has, also in the place of its own __dict__.
        has_any = hasattr(each, "__dict__")
        held: dict[str, Any] = object.__getattribute__(each, "__dict__") if has_any else {}
        named: dict[Any, Any] = held.get("fss") or {}
        inner: list[Any] = [held.get("fs"), held.get("sync_fs"), *named.values()]
        found += [one for one in inner if one is not None and all(one is not old for old in found)]
    return found


def fsspec(fs: Any) -> FsspecFiles:
    """Any file system of fsspec (s3, gcs, http, zip, memory ..) for `Pipeline(files=..)`. A
    file that surely is not there is absent (http: 404, 410); other failures are a StorageError:

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
                "files must have size(name) and read(name, offset, target), as "
                f"wavetrain.fsspec(fs) and wavetrain.store(store) have (got {short(files)})"
            )
        self.files, self.causes = files, Causes(LOGGER)
        given = getattr(files, "retries_itself", False)
        self.retries_itself = _border.flag("files.retries_itself", given)
        self.pool = concurrent.futures.ThreadPoolExecutor(threads, "wavetrain-files")
        failed = _native.FILE_FAILED
        # ctypes keeps none of them alive.
        self.calls = (
            callback(_native.FilesHook_size, self.size, failed),
            callback(_native.FilesHook_read, self.read, failed),
            callback(_native.FilesHook_read_async, self.read_async, failed),
        )

    def fill(self, native: _native.Config) -> None:
        hook = native.files
        hook.size, hook.read, hook.read_async = self.calls
        native.store.retries_itself = self.retries_itself

    def close(self) -> None:
        self.pool.shutdown()

    def size(self, _user: Any, name: bytes) -> int:
        path, within = name.decode(), handled()
        try:
            with _interrupts.heard():
                size = self.files.size(path)
            return _border.whole(f"size of {path}", size, 0, _border.I64_MAX)
        except BaseException as error:
            return self.failed(path, error, within)

    def read(self, _user: Any, name: bytes, offset: int, target: int, size: int) -> int:
        path, within = name.decode(), handled()
        try:
            if size:
                view = memoryview((ctypes.c_char * size).from_address(target)).cast("B")
                with _interrupts.heard():
                    got: Any = self.files.read(path, offset, view)
                view.release()
                if type(got) is int and got != size:  # of readinto
                    raise OSError(f"read of {path} gave {got} bytes of {size}")
            return 0
        except BaseException as error:
            return self.failed(path, error, within)

    def read_async(
        self, user: Any, loader: int, ticket: int, name: bytes, offset: int, target: int, size: int
    ) -> int:
        begun = threading.Lock()  # by the pool, or given up

        def read() -> None:
            if begun.acquire(blocking=False):
                result = shielded(self.read, _native.FILE_FAILED)(user, name, offset, target, size)
                self.complete(loader, ticket, result)

        try:
            self.pool.submit(read)
        except BaseException:
            # The pool has ended, and `read` is asked then; or it has no thread for what it took all
            # the same, and may come to it.
            if begun.acquire(blocking=False):
                return _native.FILE_FAILED
        return 0

    def complete(self, loader: int, ticket: int, result: int | None) -> None:
        library().wavetrain_read_done(loader, ticket, result)

    def failed(self, name: str, error: BaseException, within: BaseException | None) -> int:
        if isinstance(error, FileNotFoundError):
            doubt = doubt_of(error, within)
            if doubt is None:
                return _native.FILE_ABSENT
            error = not_read(name, error, doubt)
        self.causes.failed(name, error)
        return _native.FILE_FAILED
