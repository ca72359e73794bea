"""Maps from the places of boxes to the voxels of arrays, as push takes them."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Any, NoReturn, cast

from wavetrain import _border, _native
from wavetrain._border import short
from wavetrain._pixels import Array, numpy_
from wavetrain._words import refusal

AXES_MAX = 3  # as wavetrain_affine of wavetrain.h
BYTES = ctypes.sizeof(_native.Affine)
FILTERS = {"nearest": _native.NEAREST, "linear": _native.LINEAR}


@dataclasses.dataclass(frozen=True, init=False)
class Affine:
    """A map from the places of a Box to voxels of its array. It needs Config(augment=True).

    matrix has a row for each axis that is mapped, up to three. Each row has a factor for each of
    them and a term: place (i, j, k) of the box reads about the voxel

        matrix @ (i, j, k, 1)

    along these axes, which begin at 0 and end at the output's extent in the box. Place p and voxel
    p are centres. Other axes are copied. The library reads the voxels that the map needs, and no
    others; outside of the array pad_mode of the field has its elements.

        axes: which axes of the array are mapped; None: the last ones.
        filter: "linear", between the two voxels of each axis, for fields of f32, bf16 and f16; or
            "nearest", the voxel floor(v + 1/2), for labels and all else.
        level: which level of an OME-NGFF image is read, if the uri of the box names that; None: the
            coarsest whose voxels are no longer than the steps of the map. The matrix leads to
            voxels of level 0 whatever level is read.
        units: the matrix leads to physical units of the image, not to voxels.

    wavetrain.h has the arithmetic: it is one of whole numbers as far as it decides what is read, so
    an image and its labels with one map never part.

    >>> Affine([[0.5, 0, 10], [0, 0.5, 20]]).axes is None
    True
    >>> Affine([[1, 0, 0], [0, 1]])
    Traceback (most recent call last):
        ...
    ValueError: matrix must have rows of 3 numbers, of which it has 2 (got [[1, 0, 0], [0, 1]])
    """

    matrix: tuple[tuple[float, ...], ...]
    axes: tuple[int, ...] | None = None
    filter: str = "linear"
    level: int | None = None
    units: bool = False

    def __init__(
        self,
        matrix: Any,
        axes: Iterable[int] | None = None,
        *more: NoReturn,
        filter: str = "linear",
        level: int | None = None,
        units: bool = False,
        **others: NoReturn,
    ) -> None:
        if more or others:
            raise refusal("Affine", Affine.__init__, {}, (matrix, axes, *more), others)
        keep = object.__setattr__
        if isinstance(matrix, (str, bytes)) or not isinstance(matrix, Iterable):
            raise TypeError(f"matrix must have a row for each axis (got {short(matrix)})")
        given_rows = [*cast("Iterable[Any]", matrix)]
        if not all(isinstance(row, Iterable) for row in given_rows):
            raise TypeError(f"matrix must have rows of numbers (got {short(matrix)})")
        rows = [tuple(_border.rounded("matrix", each) for each in row) for row in given_rows]
        rank = len(rows)
        if not 1 <= rank <= AXES_MAX:
            raise ValueError(f"matrix must have 1 to {AXES_MAX} rows (got {rank})")
        if any(len(row) != rank + 1 for row in rows):
            raise ValueError(
                f"matrix must have rows of {rank + 1} numbers, of which it has {rank} "
                f"(got {short(matrix)})"
            )
        if not all(math.isfinite(each) for row in rows for each in row):
            raise ValueError(f"matrix must have numbers alone (got {short(matrix)})")
        keep(self, "matrix", tuple(rows))
        if axes is not None:
            given = tuple(
                _border.whole(f"axes[{number}]", axis, 0, _native.RANK_MAX - 1)
                for number, axis in enumerate(axes)
            )
            if len(given) != rank or len({*given}) != rank:
                raise ValueError(f"axes must name {rank} axes, each once (got {given})")
            keep(self, "axes", given)
        if filter not in FILTERS:
            raise ValueError(f"filter must be 'linear' or 'nearest' (got {filter!r})")
        keep(self, "filter", filter)
        if level is not None:
            keep(self, "level", _border.whole("level", level, 0, 2**31 - 1))
        if not isinstance(cast("object", units), bool):
            raise TypeError(f"units must be True or False (got {short(units)})")
        keep(self, "units", units)

    def native(self, rank: int) -> _native.Affine:
        """As the library takes it, for a box of so many axes."""
        size = len(self.matrix)
        if self.axes is None and size > rank:
            raise ValueError(f"affine has a matrix of {size} rows, but the box has {rank} axes")
        axes = tuple(range(rank - size, rank)) if self.axes is None else self.axes
        made = _native.Affine(struct_size=BYTES, rank=size)
        made.axes[:size] = axes
        for target, row in zip(made.matrix, self.matrix):
            target[:size], target[AXES_MAX] = row[:-1], row[-1]
        made.filter, made.has_units = FILTERS[self.filter], self.units
        made.level = -1 if self.level is None else self.level
        return made


class Affines:
    """A map for each sample of a `Column`, as an array of their matrices, without an object for
    each.

        matrices: [samples, axes, axes + 1], of numpy: the matrix of an `Affine` for each sample.
            They are copied.
        axes, filter, level, units: as of an `Affine`, the same for all.

    >>> import numpy
    >>> shifts = numpy.tile(numpy.eye(2, 3), (100, 1, 1))
    >>> shifts[:, :, 2] = numpy.random.default_rng(0).uniform(-4, 4, (100, 2))
    >>> Affines(shifts, filter="nearest")
    <Affines of 100 samples, 2 axes>
    """

    def __init__(
        self,
        matrices: Any,
        axes: Iterable[int] | None = None,
        *,
        filter: str = "linear",
        level: int | None = None,
        units: bool = False,
    ) -> None:
        numpy = numpy_()
        self.matrices: Array = numpy.array(matrices, "f8")
        extents: tuple[int, ...] = self.matrices.shape
        if len(extents) != 3 or not 1 <= extents[1] <= AXES_MAX or extents[2] != extents[1] + 1:
            raise ValueError(
                f"matrices must be [samples, axes, axes + 1] of 1 to {AXES_MAX} axes (got the "
                f"shape {extents})"
            )
        is_wrong = ~numpy.isfinite(self.matrices).all((1, 2))
        if is_wrong.any():
            number = int(is_wrong.argmax())
            raise ValueError(f"matrices[{number}] must have numbers alone")
        # All but the matrices.
        self.common = Affine(numpy.eye(*extents[1:]), axes, filter=filter, level=level, units=units)

    def __len__(self) -> int:
        return len(self.matrices)

    def __repr__(self) -> str:
        return f"<Affines of {len(self)} samples, {self.matrices.shape[1]} axes>"

    def native(self, rank: int) -> Any:
        """As the library takes them, side by side, for boxes of so many axes."""
        made = (_native.Affine * len(self))()
        if len(self):
            records, size = records_of(made), self.matrices.shape[1]
            records[:] = records_of(self.common.native(rank))
            records["matrix"][:, :size, :size] = self.matrices[:, :, :size]
            records["matrix"][:, :size, AXES_MAX] = self.matrices[:, :, size]
        return made


def records_of(structs: Any) -> Array:
    """Structs of the library, one or side by side, as records of numpy in the same memory."""
    return numpy_().frombuffer(structs, record_type())


@functools.cache
def record_type() -> Any:
    """The type of such a record, which takes numpy 50 us to find."""
    return numpy_().dtype(_native.Affine)


def check(given: Any) -> Affine:
    if not isinstance(given, Affine):
        raise TypeError(f"affine must be a wavetrain.Affine (got {short(given)})")
    return given
