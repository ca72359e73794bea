"""Recipes of a DataLoader that its pipeline runs, and the filters that are left for Python.

In: a list of recipes and filters, a sample of the data set. Out: boxes that are moved and augmented
as the recipes want them, and what the filters make of a batch.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from wavetrain import _affine, _augmented, _native
from wavetrain._affine import AXES_MAX, Affine
from wavetrain._augmented import Augment
from wavetrain._config import Backend, Config, Dtype, Field
from wavetrain._fed import Fed, Number
from wavetrain._info import described
from wavetrain._orders import Place
from wavetrain._pixels import numpy_
from wavetrain._recipes import Boxes, Recipe, pad_of
from wavetrain._sample import Box, Sample, named
from wavetrain._stores import files_for
from wavetrain._table import Column, Rows
from wavetrain.augment import apply_filters, split

FLOATS = (Dtype.F32, Dtype.BF16, Dtype.F16)


class Plan(NamedTuple):
    """The places of the transforms of a DataLoader, each list in its order."""

    pipeline: list[Recipe]  # as elements are read, by threads of the library
    python: list[Callable[..., Any]]  # on the batch, by the thread that iterates


class Given(Augment):
    """The results of recipes, as the library has them."""

    made: tuple[_native.Augment, Any]

    def __init__(self, struct: _native.Augment, owner: Any) -> None:
        object.__setattr__(self, "made", (struct, owner))

    def native(self) -> tuple[_native.Augment, Any]:
        return self.made  # pyright: ignore[reportAttributeAccessIssue]


class GivenMap(Affine):
    """A map that recipes made, as the library has it."""

    made: _native.Affine

    def __init__(self, struct: _native.Affine) -> None:
        object.__setattr__(self, "made", struct)

    def native(self, rank: int) -> _native.Affine:
        return self.made


class Picture(NamedTuple):
    """A sample as the data set gives it: the extents of its last axes, the type of its array."""

    shape: tuple[int, ...]
    dtype: Any


def picture_of(given: Any, field: Field, files: Any, metadata: bytes | None) -> Picture:
    """The boxes of a sample, or of a table of many, that belong to a field."""
    rank = len(field.sample_shape)
    if isinstance(given, Sample):
        boxes = [box for box in given.boxes if is_of(box, field)]
        if given.boxes and len(boxes) != 1:
            raise ValueError(
                f"transforms: recipes take samples with one box for the field {field.name!r} "
                f"(got {len(boxes)})"
            )
        box: Any = boxes[0] if boxes else given
        uri, extents = box.uri, [end - begin for begin, end in box.aabb]
        # An array without channels lies in the last axes of a field with one.
        extents = [1] * (rank - len(extents)) + extents
        fed = boxes[0].array if boxes else None
    else:
        column = column_of(given, field)
        uri, words, fed = column.uris[0], column.shape.data, None
        extents = [int(each) for each in words[: column.rank]]
        if column.rank < rank:
            raise ValueError(
                f"transforms: recipes take Columns of {rank} axes or more (got {column.rank}): "
                "return samples in place of a table"
            )
    if isinstance(fed, Fed):
        kind = fed.dtype
    else:
        name = named(uri, field.cf)
        kind = described(name, files_for(files, [name]), metadata).dtype
    dtype: Any = numpy_().dtype("f4") if kind in (Dtype.BF16, None) else kind.dtype
    return Picture(tuple(extents[len(extents) - rank :]), dtype)


def shape_of(config: Config) -> tuple[int, ...]:
    """The shape of the first field."""
    return tuple((config.fields[0] if config.fields else config).sample_shape)


def is_of(box: Box, field: Field) -> bool:
    return box.field in (0, field.name)


def column_of(given: Any, field: Field) -> Column:
    by_field = cast("Mapping[Any, Any]", given if isinstance(given, Mapping) else {0: given})
    found = [each for name, each in by_field.items() if name in (0, field.name)]
    if len(found) != 1 or not isinstance(found[0], Column):
        raise ValueError(
            f"transforms: recipes take tables with a Column for the field {field.name!r}"
        )
    return found[0]


class Fused:
    """Recipes in front of filters. The field that they work on is the first one."""

    def __init__(self, transforms: Any, given: Any, config: Config | None, files: Any) -> None:
        if config is None:
            extents = [end - begin for begin, end in cast("Sample", given).aabb]
            if len(extents) > 2 and extents[0] == 1:
                raise ValueError(
                    "config must be given, with the sample_shape that recipes work on: the first "
                    f"axis of boxes of {extents} may be a channel, or the number of an image"
                )
            rank = len(extents)
        else:
            rank = len(shape_of(config))
        names = [field.name for field in config.fields] if config else []
        first = config and (config.fields[0] if config.fields else config)
        is_cf = bool(first and first.cf)
        self.field = Field(names[0] if names else "0", (1,) * rank, cf=is_cf)
        self.names = names
        picture = picture_of(given, self.field, files, config.metadata if config else None)
        self.shape, self.dtype = picture
        recipes, rest = split(transforms, self.shape, self.dtype)
        self.plan = Plan(recipes, rest)
        self.made: tuple[int, ...] = self.shape
        for recipe in recipes:
            self.made = recipe.shape_of(self.made)
        self.pad = pad_of(recipes)
        self.seed = 0
        # If draws only move boxes, all samples have the arithmetic of the first.
        self.has_one = all(recipe.moves or not recipe.draws for recipe in recipes)
        self.one: Boxes | None = None

    def config(self, config: Config) -> Config:
        """The config of the pipeline: with room, padding and the shape that the recipes make.
        Filters in Python take arrays of numpy: with some, batches are in host memory."""
        if self.plan.python:
            if config.backend is Backend.CUDA:
                raise ValueError(
                    f"transforms: {self.plan.python[0]!r} runs in Python, on batches in host "
                    "memory: set config.backend to 'host', or call it on the batches"
                )
            config = dataclasses.replace(config, backend=Backend.HOST)
        if not self.plan.pipeline:
            return config
        fields = config.fields
        first = fields[0] if fields else config
        shape, dtype = shape_of(config), first.dtype
        if shape != self.made:
            raise ValueError(
                f"transforms: the recipes make samples of the shape {self.made}, and the field has "
                f"{shape}: change its sample_shape"
            )
        if dtype not in FLOATS:
            raise ValueError(
                f"transforms: recipes make floats, and the field has {dtype.name.lower()}: take "
                "f32, bf16 or f16"
            )
        changes: dict[str, Any] = {}
        mode, value = self.pad
        given = first.pad_mode.name.lower()
        if mode != "none":
            if given not in ("none", mode):
                raise ValueError(
                    f"transforms: the recipes pad by {mode!r}, and the field by {given!r}: leave "
                    "its pad_mode out"
                )
            changes["pad_mode"] = mode
            if mode == "constant":
                changes["pad_value"] = value
        boxes = config.max_boxes_per_sample or len(fields) or 1
        whole = {"augment": True, "max_boxes_per_sample": boxes}
        if fields:
            return dataclasses.replace(
                config, fields=[dataclasses.replace(fields[0], **changes), *fields[1:]], **whole
            )
        return dataclasses.replace(config, **changes, **whole)

    def boxes(self, places: Sequence[Place], moves_only: bool = False) -> Boxes:
        """The boxes that the recipes make of the samples at places, counted from their first
        elements. moves_only: those of the recipes that move them."""
        made = Boxes(self.shape, self.made, self.pad[0], places)
        kind: Any = self.dtype
        for recipe in self.plan.pipeline:
            if recipe.does_something(kind) and (recipe.moves or not moves_only):
                made.put(recipe, recipe.seed_of(self.seed))
            kind = numpy_().dtype("f4") if recipe.makes_floats else kind
        return made

    def samples(self, samples: Sequence[Sample], places: Sequence[Place]) -> list[Sample]:
        """The same samples, moved and augmented."""
        if not self.plan.pipeline:
            return [*samples]
        made = self.boxes(places)
        return [self.moved(sample, made, number) for number, sample in enumerate(samples)]

    def moved(self, sample: Sample, made: Boxes, number: int) -> Sample:
        boxes = sample.boxes or [Box(sample.uri, sample.aabb)]
        moved = [self.box(box, made, number) if is_of(box, self.field) else box for box in boxes]
        return Sample(boxes=moved, tag=sample.tag)

    def box(self, box: Box, made: Boxes, number: int) -> Box:
        rank = len(self.shape)
        front, lacking = max(len(box.aabb) - rank, 0), max(rank - len(box.aabb), 0)
        extents = (1,) * lacking + tuple(end - begin for begin, end in box.aabb[front:])
        has_more = box.step or box.at or box.axes or box.augment or box.affine or box.lists
        is_plain = not has_more and not isinstance(box.array, Number)
        if extents != self.shape or not is_plain:
            raise ValueError(
                "transforms: recipes take boxes of one shape, of no number, without step, at, "
                f"axes, augment, affine and index lists (got {box})"
            )
        target = made.targets[number]
        moves = zip(box.aabb[front:], target.begin[lacking:rank], target.end[lacking:rank])
        aabb = [(base + begin, base + end) for (base, _), begin, end in moves]
        steps = [each or 1 for each in target.step[lacking:rank]]
        affine = self.affine(box, made.affines[number], aabb)
        return Box(
            box.uri or None,
            [*box.aabb[:front], *aabb],
            box.field,
            array=box.array,
            axes=range(lacking, rank) if lacking else None,
            step=[1] * front + steps,
            augment=Given(made.augments[number], made),
            affine=affine,
        )

    def affine(self, box: Box, made: Any, aabb: list[tuple[int, int]]) -> Affine | None:
        """The map of a box, if recipes made one of the box's own elements. aabb: of the last axes;
        those that are mapped get the extents of the output."""
        if not made.rank:
            return None
        struct, front = _native.Affine.from_buffer_copy(made), len(box.aabb) - len(self.shape)
        first = max(front, 0)  # the axis of the box that aabb begins with
        axes: list[int] = [*made.axes[: made.rank]]
        for row, axis in enumerate(axes):
            at = front + axis
            base, (begin, end) = box.aabb[at][0], aabb[at - first]
            struct.axes[row] = at
            struct.matrix[row][AXES_MAX] += base
            aabb[at - first] = begin - base, end - base
        return GivenMap(struct)

    def table(self, given: Any, places: Sequence[Place]) -> Any:
        """The same of what a data set answers for many."""
        if not self.plan.pipeline:
            return given
        column = column_of(given, self.field)
        moved = self.column(column, places)
        if isinstance(given, Mapping):
            by_field = cast("Mapping[Any, Any]", given)
            return {name: moved if each is column else each for name, each in by_field.items()}
        return moved

    def column(self, column: Column, places: Sequence[Place]) -> Column:
        numpy, rank, count = numpy_(), len(self.shape), column.count
        front = column.rank - rank
        if count != len(places):
            return column  # which is refused for that
        shape = [int(each) for each in column.shape.data[: column.rank]]
        more = (column.step, column.given_at, column.augment, column.affine)
        is_plain = all(each is None for each in more)
        if not column.shape.flag or tuple(shape[front:]) != self.shape or not is_plain:
            raise ValueError(
                "transforms: recipes take Columns of one shape for all samples, without step, at, "
                f"augment and affine (got {column})"
            )
        made = self.boxes(places, moves_only=self.has_one)
        records = numpy.frombuffer(made.targets, "u1").reshape(count, ctypes.sizeof(_native.Box))

        def numbers(member: str) -> Any:
            first = getattr(_native.Box, member).offset
            return records[:, first : first + 8 * rank].copy().view("i8")

        begins = numpy.frombuffer(column.begins.data, "i8").reshape(count, column.rank).copy()
        maps = self.maps(made, begins, front)
        begins[:, front:] += numbers("begin")
        steps = numpy.ones((count, column.rank), "i8")
        found = numbers("step")
        steps[:, front:] = numpy.where(found == 0, 1, found)
        moved = Column(column.uris, begins, [*shape[:front], *self.made], step=steps, which=[0])
        moved.which = column.which
        if self.has_one:
            self.one = made = self.one or self.boxes(places[:1])
        flag = _native.AUGMENT_IS_ONE if self.has_one else 0
        moved.augment = Rows(made.augments, _augmented.BYTES, flag)
        moved.borrowed = made
        moved.affine = maps
        return moved

    def maps(self, made: Boxes, begins: Any, front: int) -> Rows | None:
        """The maps of a column, if recipes made some: `affine` of each box. begins become 0 along
        the axes that are mapped."""
        rank = made.affines[0].rank
        if not rank:
            return None
        found = _affine.records_of(made.affines).copy()
        for row, axis in enumerate(front + found["axes"][0, :rank].astype("i8")):
            found["axes"][:, row] = axis
            found["matrix"][:, row, AXES_MAX] += begins[:, axis]
            begins[:, axis] = 0
        return Rows((_native.Affine * len(found)).from_buffer(found), _affine.BYTES, 0)

    def filtered(self, batch: Any, places: Sequence[Place]) -> Any:
        """The result of the filters for a batch: (xb, yb), or the batch itself if there are
        none."""
        if not self.plan.python:
            return batch
        names = self.names or [0]
        with batch:
            arrays = [batch.field(name).numpy().copy() for name in names]
        x, others = arrays[0], arrays[1:]
        y: Any = tuple(others) if len(others) > 1 else others[0] if others else None
        return apply_filters((x, y), self.plan.python, places, self.seed)


def has_recipes(transforms: Iterable[Any]) -> bool:
    return any(isinstance(each, Recipe) for each in transforms)
