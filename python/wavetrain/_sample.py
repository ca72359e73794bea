"""What a batch is made of: boxes of arrays."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from wavetrain import _border
from wavetrain._border import I64_MAX, I64_MIN, U64_MAX


@dataclasses.dataclass(frozen=True, init=False)
class Sample:
    """A box of an array, in voxels and in the array's own order of axes.

    `uri` is a path, a file:// uri, with a files hook whatever that serves, or a zarr.Array. Each
    axis of `aabb` is a slice or a pair (start, stop), as numpy.s_[..] makes them; the stored form
    is always pairs. `tag` comes back with the batch and in errors.

    >>> a = Sample(uri="cell.zarr", aabb=[(0, 64), (0, 256), (0, 256)])
    >>> b = Sample(uri="cell.zarr", aabb=[slice(0, 64), slice(0, 256), slice(None, 256)])
    >>> a == b, hash(a) == hash(b)
    (True, True)
    >>> a.aabb
    ((0, 64), (0, 256), (0, 256))
    >>> Sample(uri="cell.zarr", aabb=[64, 256, 256])
    Traceback (most recent call last):
        ...
    TypeError: aabb axis 0: expected slice or (start, stop) tuple; got int
    >>> Sample(uri="cell.zarr", aabb=[slice(0, 64, 2), slice(0, 256), slice(0, 256)])
    Traceback (most recent call last):
        ...
    ValueError: aabb axis 0: slice step must be 1 or omitted (got step=2)
    >>> Sample(uri="cell.zarr", aabb=[slice(0, None), slice(0, 256), slice(0, 256)])
    Traceback (most recent call last):
        ...
    ValueError: aabb axis 0: slice stop is required (got slice(0, None, None))
    """

    uri: str
    aabb: tuple[tuple[int, int], ...]
    tag: int = 0

    def __init__(
        self, uri: Any, aabb: Iterable[slice[Any, Any, Any] | tuple[int, int]], tag: int = 0
    ) -> None:
        keep = object.__setattr__
        keep(self, "uri", uri_of(uri))
        keep(self, "aabb", _border.axes("aabb", aabb, 0, interval))
        keep(self, "tag", _border.whole("tag", tag, 0, U64_MAX))


def interval(axis: int, given: Any) -> tuple[int, int]:
    """(start, stop) of one axis."""
    start: Any
    stop: Any
    pair: Any = given
    if isinstance(given, slice):
        start, stop, step = pair.start, pair.stop, pair.step
        # An array has an index and a length, and compares to an array.
        is_one = hasattr(step, "__index__") and not hasattr(step, "__len__") and step == 1
        if step is not None and not is_one:
            raise ValueError(f"aabb axis {axis}: slice step must be 1 or omitted (got step={step})")
        if stop is None:
            raise ValueError(f"aabb axis {axis}: slice stop is required (got {given})")
        start = 0 if start is None else start
    elif isinstance(given, (tuple, list)) and len(pair) == 2:
        start, stop = pair
    else:
        kind = type(pair).__name__
        raise TypeError(f"aabb axis {axis}: expected slice or (start, stop) tuple; got {kind}")
    # Most are plain: the words for the others cost more than all else here.
    if type(start) is type(stop) is int and I64_MIN <= start <= I64_MAX >= stop >= I64_MIN:
        return start, stop
    return (
        _border.whole(f"aabb axis {axis} start", start, I64_MIN, I64_MAX),
        _border.whole(f"aabb axis {axis} stop", stop, I64_MIN, I64_MAX),
    )


def uri_of(given: Any) -> str:
    """The uri of an array: a path as it is, of a zarr.Array where its store keeps it."""
    if isinstance(given, (str, bytes, os.PathLike)):
        return _border.path("uri", given)
    store: Any = getattr(given, "store", None)
    if store is None or not hasattr(given, "path"):
        raise TypeError(f"uri must be a str, a path or a zarr.Array (got {given!r})")
    fs: Any = getattr(store, "fs", None)
    if fs is not None and hasattr(fs, "unstrip_protocol"):  # zarr's FsspecStore
        root = str(fs.unstrip_protocol(store.path))
    elif hasattr(store, "root"):  # zarr 3's LocalStore
        root = str(store.root)
    elif type(store).__name__ in ("DirectoryStore", "NestedDirectoryStore"):  # of zarr 2
        root = str(store.path)
    else:
        name = type(store).__name__
        raise TypeError(
            f"uri: a zarr.Array in a {name} is not read: put it in a folder, or in a file system "
            "of fsspec with Pipeline(files=wavetrain.fsspec(fs))"
        )
    parts = (root.rstrip("/"), str(given.path))
    return _border.path("uri", "/".join(filter(None, parts)))
