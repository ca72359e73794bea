"""Multiscale images: boxes in physical units."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

from wavetrain import _border
from wavetrain._border import short
from wavetrain._info import Axis, NodeKind, array_info
from wavetrain._sample import CF_MARK, Box, uri_of

ROUNDING = 1e-6  # as of "#scale=": voxels are no longer than asked for but for this part
Pair = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Level:
    """A level of an image: element i of an axis has its centre at i * scale + translation."""

    uri: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] | None  # None: the image gives none, or one that is not read
    translation: tuple[float, ...] | None


@dataclasses.dataclass(frozen=True)
class Image:
    """The levels of a multiscale image, the finest first, and its axes.

    `wavetrain.image(uri)` looks at the store once; nothing here does so again. Images pickle, and
    any thread may use them.
    """

    uri: str
    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]

    def box(
        self,
        units: Iterable[tuple[float, float] | None],
        shape: Iterable[int] | None = None,
        *,
        level: int | None = None,
        **more: Any,
    ) -> Box:
        """The voxels whose centres lie in a box of physical units, low <= centre < high.

        A box whose bounds are corners of voxels has exactly those voxels: the corners of voxel i
        are half a voxel before and after its centre. Places outside the image are padded, as
        everywhere.

        units: (low, high) of each axis of space, or of each axis; None is all of an axis, and so
            are axes without a pair.
        shape: voxels along the axes of `units`. The coarsest level is read whose voxels are no
            longer than these; the box must have as many there.
        level: that level instead; without `shape` and `level`, level 0.
        more: as of a `Box`: field, at, step, axes, augment.
        """
        pairs = self.pairs(units)
        wanted = None if shape is None else self.wanted(shape, pairs)
        number = self.level_of(pairs, wanted, level)
        chosen = self.levels[number]
        scale, translation = self.transform(number)
        aabb: list[tuple[int, int]] = []
        for axis, extent in enumerate(chosen.shape):
            pair = pairs.get(axis)
            if pair is None:
                aabb.append((0, extent))
                continue
            first, last = ((bound - translation[axis]) / scale[axis] for bound in pair)
            aabb.append((up(first), up(last)))
        found = [end - begin for begin, end in aabb]
        if wanted is not None and any(found[axis] != count for axis, count in wanted.items()):
            asked = "x".join(str(count) for count in wanted.values())
            has = "x".join(str(found[axis]) for axis in wanted)
            raise ValueError(
                f"these units are {has} voxels of level {number}, not {asked}: give bounds that "
                "are whole voxels apart, or Box(affine=Affine(.., units=True)), which resamples"
            )
        return Box(chosen.uri, aabb, **more)

    def pairs(self, units: Any) -> dict[int, Pair]:
        """The bounds by axis of the arrays."""
        if isinstance(units, str) or not isinstance(units, Iterable):
            raise TypeError(f"units must have (low, high) for each axis (got {short(units)})")
        given = list(cast("Iterable[Any]", units))
        space = [axis for axis, each in enumerate(self.axes) if each.kind == "space"]
        axes = space if len(given) == len(space) else range(len(self.axes))
        if len(given) != len(axes):
            names = ", ".join(each.name for each in self.axes)
            raise ValueError(
                f"units must have (low, high) for each axis of space, {len(space)}, or for each "
                f"axis, {len(self.axes)} ({names}; got {len(given)})"
            )
        return {axis: bounds(axis, each) for axis, each in zip(axes, given) if each is not None}

    def wanted(self, shape: Any, pairs: dict[int, Pair]) -> dict[int, int]:
        """The number of voxels by axis of the arrays."""
        counts = _border.axes("shape", shape, 1, count_of)
        if len(counts) != len(pairs):
            raise ValueError(
                f"shape must have a number for each pair of units, {len(pairs)} (got {counts})"
            )
        return dict(zip(pairs, counts))

    def level_of(
        self, pairs: dict[int, Pair], wanted: dict[int, int] | None, level: int | None
    ) -> int:
        if level is not None:
            return _border.whole("level", level, 0, len(self.levels) - 1)
        if not wanted:
            return 0
        best = None
        for number in range(len(self.levels)):
            scale, _ = self.transform(number)
            longest = {
                axis: (pairs[axis][1] - pairs[axis][0]) / count for axis, count in wanted.items()
            }
            is_fine = all(scale[axis] <= most * (1 + ROUNDING) for axis, most in longest.items())
            length = math.prod(scale[axis] for axis in wanted)
            if is_fine and (best is None or length > best[0]):
                best = (length, number)
        if best is None:
            finest = ", ".join(str(self.transform(0)[0][axis]) for axis in wanted)
            raise ValueError(
                f"{self.uri}: no level has so many voxels in these units, those of level 0 are "
                f"{finest} long: give a smaller shape"
            )
        return best[1]

    def transform(self, number: int) -> tuple[Sequence[float], Sequence[float]]:
        level = self.levels[number]
        if level.scale is None or level.translation is None or min(level.scale) <= 0.0:
            raise ValueError(
                f"{self.uri}: level {number} has no scale above 0 along each of its axes, or none "
                f"that is read: give a box in voxels of {level.uri}"
            )
        return level.scale, level.translation


def image(uri: Any, *, files: Any = None) -> Image:
    """The levels of the multiscale image at `uri`, read through `files` as by a Pipeline. Its boxes
    are decoded by the CF conventions if it ends with #cf=1."""
    name = uri_of(uri)
    group = name.removesuffix(CF_MARK)
    path, mark = group.rstrip("/"), name[len(group) :]
    info = array_info(path, files=files)
    levels = [entry for entry in info.entries if entry.level is not None]
    if info.kind != NodeKind.IMAGE or not levels or len({entry.image for entry in levels}) != 1:
        array_info(f"{path}#level=0", files=files)  # raises the error of the library
        raise ValueError(f"{path} is not a multiscale image: give a box in voxels")
    made: list[Level] = []
    for entry in levels:
        place = f"{path}/{entry.path}{mark}"
        shape = array_info(place, files=files).shape
        made.append(Level(place, shape, entry.scale, entry.translation))
    return Image(path + mark, levels[0].axes, tuple(made))


def up(number: float) -> int:
    """The first whole number that is not below; rounding may have put it a hair above one."""
    if not abs(number) < 2.0**52:
        raise ValueError(f"units lead to voxel {number}, which is beyond 2^52")
    nearest = round(number)
    return nearest if abs(number - nearest) <= ROUNDING else math.ceil(number)


def count_of(axis: int, given: Any) -> int:
    return _border.whole(f"shape[{axis}]", given, 1, 2**63 - 1)


def bounds(axis: int, given: Any) -> Pair:
    try:
        low, high = (float(bound) for bound in given)
    except (TypeError, ValueError):
        text = f"units of axis {axis} must be (low, high) (got {short(given)})"
        raise TypeError(text) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"units of axis {axis} must be low < high, both finite (got {low}, {high})"
        )
    return (low, high)
