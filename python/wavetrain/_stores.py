"""Stores of zarr-python as files: `wavetrain.store`, and the uris of their arrays.

In: a Store of zarr-python 3. Out: Files, whose names are its keys. Invariant: a name that starts
with a scheme is that of this store, or an error, as two stores may have the same keys.
"""

from __future__ import annotations

import importlib
import os
import pickle
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, cast

from wavetrain._absence import doubt_of, handled, not_read
from wavetrain._border import short
from wavetrain._files import FsspecFiles, Hook
from wavetrain._remote import Remote, RemoteHook, far_of, is_far, way_to
from wavetrain._sample import Served, is_store, is_stored, root_of, uri_of

# Stores of zarr-python that a forked process may use: as they are, or as a copy, which opens its
# own file or connection. Those that are written in Rust have threads, which no fork copies.
FORKED_AS_IS, FORKED_AS_COPY = {"MemoryStore", "LocalStore"}, {"ZipStore", "FsspecStore"}
FORKED = threading.Lock()
PROCESS = os.getpid()  # that imported this: another one was forked from it
ANSWER_S = 10.0  # for which a forked process waits for a store that may have lost its threads


def run(call: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
    """On the loop that zarr-python has for its stores, to which their connections belong."""
    return loaded("zarr.core.sync").sync(call, timeout=timeout_s)


def kind_of(given: Any) -> Any:
    return cast("Any", type(given))


def loaded(name: str) -> Any:
    """A module of a package that is imported when it is needed, and need not be installed."""
    return importlib.import_module(name)


def is_forkable(store: Any, names: Iterable[str] = FORKED_AS_IS | FORKED_AS_COPY) -> bool:
    """Whether it is one of these stores of zarr-python."""
    kind = kind_of(store)
    return kind.__module__.startswith("zarr.storage") and kind.__name__ in names


def check_answers(store: Any) -> None:
    """A store in Rust waits for ever for threads that no fork copied, whichever process opened it,
    if its package had begun them before the fork."""
    try:
        run(store.exists("zarr.json"), ANSWER_S)
    except TimeoutError as error:
        raise RuntimeError(
            f"{kind_of(store).__name__} does not answer within {ANSWER_S:g} s in a process that "
            "was forked, which has none of its threads: start processes with spawn"
        ) from error


class LoopFileSystem:
    """A file system of fsspec that zarr-python uses, with functions that wait for its loop."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs
        self.references = getattr(fs, "references", None)

    def _strip_protocol(self, path: str) -> str:
        return self.fs._strip_protocol(path)

    def size(self, path: str) -> Any:
        return run(self.fs._size(path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> Any:
        return run(self.fs._cat_file(path, start=start, end=end))


class Values:
    """The values of a store, by `get`. It has a byte range for each read."""

    def __init__(self, store: Any) -> None:
        run(loaded("zarr.storage").StorePath.open(store, ""))
        if os.getpid() != PROCESS and not is_forkable(store):
            check_answers(store)
        zarr_store = loaded("zarr.abc.store")
        self.store, self.range = store, zarr_store.RangeByteRequest
        self.prototype = loaded("zarr.core.buffer.cpu").buffer_prototype  # not of a GPU
        self.reads_for_size = kind_of(store).getsize is zarr_store.Store.getsize

    def size(self, key: str) -> int:
        within = handled()
        try:
            size = run(self.size_of(key))
        except (FileNotFoundError, KeyError) as error:  # KeyError: of icechunk
            doubt = doubt_of(error, within, is_strict=True)
            if doubt is not None:
                raise not_read(key, error, doubt) from error
            if self.get(key, 0, 1) is not None:
                raise OSError(f"{key}: the store has no size of it, and yet reads it") from error
            raise FileNotFoundError(key) from error
        if size == 0 and self.get(key, 0, 1) is None:  # icechunk has 0 for a chunk that is absent
            raise FileNotFoundError(key)
        return size

    async def size_of(self, key: str) -> int:
        """zarr-python reads a value for its size where a store has no function for that: those of
        objects and members of an archive are known without."""
        inner: Any = getattr(self.store, "store", None)
        if self.reads_for_size and type(inner).__module__.partition(".")[0] == "obstore":
            return (await loaded("obstore").head_async(inner, key))["size"]
        archive: Any = getattr(self.store, "_zf", None)
        if self.reads_for_size and archive is not None:
            try:
                return archive.getinfo(key).file_size
            except KeyError as error:
                raise FileNotFoundError(key) from error
        return await self.store.getsize(key)

    def get(self, key: str, begin: int, end: int) -> Any:
        return run(self.store.get(key, self.prototype, self.range(begin, end)))

    def read(self, key: str, offset: int, target: memoryview) -> None:
        value = self.get(key, offset, offset + len(target))
        if value is None:
            size = self.size(key)  # which raises FileNotFoundError of a key that went in between
            raise OSError(f"{key}: {size} bytes were found, and could not be read")
        if len(value) != len(target):
            raise OSError(
                f"{key}: {len(value)} bytes came where {len(target)} from {offset} on were asked"
            )
        target[:] = memoryview(value.as_numpy_array()).cast("B")


class StoreFiles:
    """A store of zarr-python as Files. It and its copies may be sent to other processes, if the
    store may. is_found: an array brought it, so that a path is one on disk, and not a key."""

    def __init__(self, store: Any, is_found: bool = False, roots: Iterable[str] = ()) -> None:
        self.store, self.is_found, self.process = store, is_found, os.getpid()
        # The name of a store in memory is another one in each process: uris have that of theirs.
        far = far_of(store)
        own = [root_of(store).rstrip("/"), *([] if far is None else [far[0]])]
        self.roots = dict.fromkeys([*own, *roots])
        self.files = self.files_of(store)

    def __repr__(self) -> str:
        return f"wavetrain.store({self.store!r})"

    def __reduce__(self) -> Any:
        return type(self), (self.store, self.is_found, tuple(self.roots))

    @staticmethod
    def files_of(store: Any) -> FsspecFiles | Values:
        fs: Any = getattr(store, "fs", None)
        return Values(store) if fs is None else FsspecFiles(LoopFileSystem(fs))

    def size(self, name: str) -> int:
        return self.opened().size(self.key_of(name))

    def read(self, name: str, offset: int, target: memoryview) -> None:
        self.opened().read(self.key_of(name), offset, target)

    def key_of(self, name: str) -> str:
        """The key of a name, with the folder of the store where that is one of fsspec."""
        key = self.rest_of(name).lstrip("/")
        if not key:
            raise FileNotFoundError(name)
        folder = self.store.path.rstrip("/") if isinstance(self.files, FsspecFiles) else ""
        return f"{folder}/{key}" if folder else key

    def rest_of(self, name: str) -> str:
        """A name without the root of the store. ValueError: it is not of this store."""
        roots = [root for root in self.roots if name == root or name.startswith(f"{root}/")]
        rest, root = name[len(roots[0]) :] if roots else name, next(iter(self.roots))
        if self.is_found and not roots:
            raise ValueError(
                f"{name} is not in {root}, the store of the first zarr.Array: open another one "
                "for it, or give files=wavetrain.store(array) for keys of that store"
            )
        if "://" in rest:
            raise ValueError(
                f"{name} is not of this store, {root}: give its own, files=wavetrain.store(array)"
            )
        return rest

    def opened(self) -> FsspecFiles | Values:
        """The files, opened anew in a process that was forked."""
        if self.process != os.getpid():
            with FORKED:
                if self.process != os.getpid():
                    self.open_forked()
        return self.files

    def open_forked(self) -> None:
        if is_forkable(self.store, FORKED_AS_COPY):
            self.store = pickle.loads(pickle.dumps(self.store))
        elif not is_forkable(self.store):
            raise RuntimeError(
                f"an open {kind_of(self.store).__name__} cannot be used in a forked process: start "
                "processes with spawn, and open the store in each"
            )
        self.files, self.process = self.files_of(self.store), os.getpid()


def store(given: Any) -> StoreFiles:
    """A store of zarr-python 3 (memory, zip, fsspec, obstore, icechunk ..), or that of a zarr.Array
    or zarr.Group, for `Pipeline(files=..)`. Uris are arrays of it, or their paths in it:

    array = zarr.open_array(zarr.storage.ZipStore("cells.zip"), path="0", mode="r")
    with wavetrain.Pipeline(config, files=wavetrain.store(array)) as pipeline:
        pipeline.push([wavetrain.Sample(array, numpy.s_[0:64, 0:128, 0:128])])

    A key that the store does not have is absent, and an exception of the store a StorageError."""
    found = given.store if is_stored(given) and not is_store(given) else given
    if not is_store(found):
        raise TypeError(
            "store must be a Store of zarr-python 3, or a zarr.Array or zarr.Group in one "
            f"(got {short(given)})"
        )
    return StoreFiles(found)


def uris_of(fit: Any) -> list[str]:
    """The uris of the arrays that `fit` lists."""
    is_name = isinstance(fit, (str, bytes, os.PathLike))
    if is_name or not isinstance(fit, Iterable):  # whose letters would be names
        raise TypeError(f"fit must be a list of arrays (got {short(fit)})")
    arrays = enumerate(cast("Iterable[Any]", fit))
    return [uri_of(array, name=f"fit[{number}]") for number, array in arrays]


def files_and_uris(files: Any, fit: Any) -> tuple[Any, list[str]]:
    """`files`, or the store that arrays of `fit` are in, and their uris."""
    uris = uris_of(fit)
    return files_for(files, uris), uris


def files_for(files: Any, uris: Iterable[str]) -> Any:
    """`files`, or where those are None the store that these arrays are in: all of them, or none.
    A path next to them might be a key of the store, too, where other data lies. Stores far away are
    read by the package wavetrain-remote, which reads paths, too."""
    if files is not None:
        return files
    names = list(uris)
    served = [uri for uri in names if isinstance(uri, Served)]
    by_zarr = next((uri for uri in served if uri.way is None), None)
    if by_zarr is None:
        is_needed = bool(served) or any(is_far(uri) for uri in names)
        return way_to([uri.way for uri in served]) if is_needed else None
    found = StoreFiles(by_zarr.store, is_found=True)
    for uri in names:
        found.rest_of(uri)
    return found


def needs_files(uri: str) -> bool:
    """Whether an array is not read as a file of this machine."""
    return isinstance(uri, Served) or is_far(uri)


def hook_of(files: Any, threads: int) -> Hook | RemoteHook:
    """The hooks of one loader that read through `files`."""
    return RemoteHook(files) if isinstance(files, Remote) else Hook(files, threads)
