"""The parts of work that an engine gives to its tasks: the same for every process that asks.

In: a data set, or an array. Out: for each task the samples or rows that it has, what they weigh,
and a hash of the whole plan, by which processes see that they have the same.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from wavetrain import _border
from wavetrain._border import U32_MAX, short
from wavetrain._errors import NotFound
from wavetrain._info import ArrayInfo, array_info
from wavetrain._sample import Box, Sample, is_stored

UNITS = ("samples", "bytes", "files")


class Share(NamedTuple):
    """The work of one task: samples of a data set, or rows of an array."""

    samples: range
    bytes: int  # of their elements in the store, decoded
    files: int | None  # that they lie in: of a data set, arrays; None: their ends are not known
    plan: str  # the same for all shares of a plan, and another one for another plan


def shares(work: Any, n: int, *, unit: str = "samples", files: Any = None) -> list[Share]:
    """n parts of the work, in order, from the first sample to the last; some may be empty::

        mine = wavetrain.engines.shares(dataset, world.world)[world.rank]
        dataset = torch.utils.data.Subset(dataset, mine.samples)

    work: a data set with a length, whose items are Samples, or the uri of an array (or a
        zarr.Array), whose rows are shared: those of its first axis.
    unit: "samples": as many in each part, or one more. "bytes": as many bytes, as far as whole
        samples allow. "files": the same of whole files, so that none is read by two tasks. Those
        of an array are its shards, chunks or numbered .npy files along the first axis. Those of a
        data set are runs of samples of one array.
    files: as of Pipeline. Each array is looked at once."""
    n = _border.whole("n", n, 1, U32_MAX)
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(UNITS)} (got {short(unit)})")
    is_array = isinstance(work, (str, os.PathLike)) or is_stored(work)
    whole, ends, names = rows_of(work, files) if is_array else samples_of(work, files)
    count = len(whole) - 1
    if ends is None and unit == "files":
        raise ValueError(
            f"unit='files': the files of {names[0]} have different extents: give samples or bytes"
        )
    if unit == "samples":
        bounds = [count * part // n for part in range(n + 1)]
    else:
        places = [0, *(ends or [])] if unit == "files" else range(count + 1)
        bounds = weighed(whole, places, n)
    plan = hashlib.blake2b(repr((unit, bounds, names)).encode(), digest_size=8).hexdigest()
    return [
        Share(range(begin, end), whole[end] - whole[begin], touched(ends, begin, end), plan)
        for begin, end in itertools.pairwise(bounds)
    ]


def weighed(whole: Sequence[int], places: Sequence[int], n: int) -> list[int]:
    """The places next to equal parts of the whole, which is `whole[at]` up to each place."""
    total, bounds = whole[-1], [0]
    for part in range(1, n):
        wanted = total * part
        at = bisect.bisect_left(places, wanted, key=lambda place: whole[place] * n)
        before = max(at - 1, 0)
        is_nearer = wanted - whole[places[before]] * n < whole[places[at]] * n - wanted
        bounds.append(max(bounds[-1], places[before if is_nearer else at]))
    return [*bounds, len(whole) - 1]


def touched(ends: Sequence[int] | None, begin: int, end: int) -> int | None:
    """The number of files that some samples lie in."""
    if begin == end or ends is None:
        return None if ends is None else 0
    return bisect.bisect_left(ends, end) - bisect.bisect_right(ends, begin) + 1


def described(uri: Any, files: Any) -> ArrayInfo:
    info = array_info(uri, files=files)
    if info.dtype is None:
        inside = ", ".join(entry.path for entry in info.entries) or "nothing that is known"
        raise NotFound(f"shares: {info.uri} is a group, of {inside}: name an array")
    return info


def rows_of(uri: Any, files: Any) -> tuple[Sequence[int], list[int] | None, list[Any]]:
    """The bytes before each row of an array and before its end, and where its files end."""
    info = described(uri, files)
    if not info.shape:
        raise ValueError(f"shares: {info.uri} has no axis whose rows could be shared")
    rows, row_bytes = info.shape[0], math.prod(info.shape[1:]) * info.itemsize
    ends = [end for end in dict.fromkeys(info.file_ends) if end]  # of files that have rows
    if not ends and not info.is_rectilinear:
        ends = [*range(info.file_shape[0], rows, info.file_shape[0]), rows]
    whole = range(0, rows * row_bytes + 1, row_bytes) if row_bytes else [0] * (rows + 1)
    return whole, ends or None, [info.uri, info.shape, str(info.dtype)]


def samples_of(dataset: Any, files: Any) -> tuple[Sequence[int], list[int], list[Any]]:
    """The same of the samples of a data set, whose files are runs of samples of one array."""
    known: dict[str, int] = {}
    whole = [0]
    ends: list[int] = []
    names: list[Any] = []
    for at in range(len(dataset)):
        sample = dataset[at]
        if not isinstance(sample, Sample):
            raise TypeError(f"items of a data set must be Samples (got {short(sample)})")
        boxes = [box for box in sample.boxes or (sample,) if box.uri]
        weight = 0
        for box in boxes:
            if box.uri not in known:
                known[box.uri] = described(box.uri, files).itemsize
            weight += math.prod(extents_of(box)) * known[box.uri]
        name = [(str(box.uri), box.aabb, extents_of(box)) for box in boxes]
        if names and [uri for uri, *_ in names[-1]] != [uri for uri, *_ in name]:
            ends.append(at)
        whole.append(whole[-1] + weight)
        names.append(name)
    return whole, [*ends, len(names)] if names else [], names


def extents_of(box: Sample | Box) -> list[int]:
    """Elements along each axis that are read."""
    if isinstance(box, Box):
        return [box.places(axis) for axis in range(len(box.aabb))]
    return [end - begin for begin, end in box.aabb]
