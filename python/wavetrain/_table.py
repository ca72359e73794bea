"""Tables of boxes: samples as columns of numbers, without an object for each.

In: arrays of whole numbers, of numpy or torch, or lists, and of labels. Out: copies of them, and
the structs of the library that point there.
"""

from __future__ import annotations

import array
import ctypes
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from wavetrain import _border, _native
from wavetrain._affine import BYTES as AFFINE_BYTES
from wavetrain._affine import Affine, Affines
from wavetrain._augmented import BYTES as AUGMENT_BYTES
from wavetrain._augmented import Augment, natives
from wavetrain._border import short
from wavetrain._config import Dtype
from wavetrain._fed import VALUE_BYTES, Fed, Number, feed, of_device, row_major
from wavetrain._sample import uri_of
from wavetrain._words import knows

LIMITS = {"q": (_border.I64_MIN, _border.I64_MAX), "Q": (0, _border.U64_MAX), "I": (0, 2**32 - 1)}


class Rows(NamedTuple):
    """Numbers of each row, or of all."""

    data: Any  # with a buffer
    row_bytes: int
    flag: int  # of wavetrain_column where it is one row for all, else 0

    def address(self, row: int) -> int:
        return address_of(self.data) + (0 if self.flag else row * self.row_bytes)


@knows({"aabb": "give begins and shape", "box": "give begins and shape", "uris": "give uri"})
class Column:
    """A box of each sample of a table, as `Pipeline.push_boxes` takes it. The numbers that a `Box`
    has for one sample are arrays of whole numbers for all, [samples, axes], of numpy, torch or
    lists.

        uri: of the array, as a Box has it; or a list of uris, and `which`, [samples], says which of
            them each sample is of.
        begins: [samples, axes]: the first element; [samples] of an array of one axis.
        shape: places of the box along each axis, the same for all samples or [samples, axes].
        step: elements from one place to the next, likewise; below 0 backwards, down to `begins`.
        at: by axis of the field: where the first place goes, for all or [samples, axes].
        augment: an `Augment` for all samples, or a list of one for each.
        affine: an `Affine` for all samples, or `Affines` with one for each. Along the axes that are
            mapped begins are 0, and shape has the extents of the output.

    The arrays are copied. The box of a sample begins at its lowest element and has `shape` places.
    So begin 10, shape 3 and step -4 read the elements 18, 14 and 10.

    >>> Column("images.npy", [[7, 0, 0], [2, 4, 4]], (1, 28, 28))
    <Column of 2 boxes, images.npy>
    """

    def __init__(
        self,
        uri: Any,
        begins: Any,
        shape: Any,
        *,
        step: Any = None,
        at: Any = None,
        which: Any = None,
        augment: Augment | Sequence[Augment] | None = None,
        affine: Affine | Affines | None = None,
    ) -> None:
        several = isinstance(uri, (list, tuple))
        self.uris = [uri_of(each) for each in cast("list[Any]", uri)] if several else [uri_of(uri)]
        words, extents = numbers("begins", begins, "q")
        if len(extents) not in (1, 2):
            raise ValueError(f"begins must be [samples, axes] (got the shape {extents})")
        self.count, self.rank = extents if len(extents) == 2 else (*extents, 1)
        _border.whole("the number of axes of begins", self.rank, 0, _native.RANK_MAX)
        self.begins = Rows(words, 8 * self.rank, 0)
        self.shape = self.rows("shape", shape, "Q", self.rank, _native.SHAPE_IS_ONE)
        self.step = self.rows("step", step, "q", self.rank, _native.STEP_IS_ONE)
        self.given_at = at if at is None else numbers("at", at, "Q")
        self.which = None
        if which is not None:
            self.which = self.rows("which", which, "I", 1, _native.WHICH_IS_ONE)
        elif several and len(self.uris) != 1:
            raise ValueError(f"which must say of which of {len(self.uris)} uris each sample is")
        self.augment, self.borrowed = None, None
        if augment is not None:
            structs, self.borrowed = natives(augment)
            flag = _native.AUGMENT_IS_ONE if isinstance(augment, Augment) else 0
            if not flag and len(structs) != self.count:
                raise ValueError(
                    f"augment must be an Augment, or {self.count} of them (got {len(structs)})"
                )
            self.augment = Rows(structs, AUGMENT_BYTES, flag)
        self.affine = None if affine is None else self.mapped(affine)

    def __repr__(self) -> str:
        return f"<Column of {self.count} boxes, {', '.join(self.uris)}>"

    def mapped(self, given: Affine | Affines) -> Rows:
        if isinstance(given, Affine):
            return Rows(given.native(self.rank), AFFINE_BYTES, _native.AFFINE_IS_ONE)
        if not isinstance(cast("object", given), Affines):
            raise TypeError(f"affine must be an Affine, or Affines (got {short(given)})")
        if len(given) != self.count:
            raise ValueError(f"affine must be an Affine, or Affines of {self.count} (got {given})")
        return Rows(given.native(self.rank), AFFINE_BYTES, 0)

    def rows(self, name: str, given: Any, letter: str, width: int, flag: int) -> Any:
        """Numbers that are the same for all samples, or `width` for each."""
        if given is None:
            if name == "shape":
                raise TypeError("shape must have the places of the box along each axis (got None)")
            return None
        return self.fitted(name, *numbers(name, given, letter), width, flag)

    def fitted(self, name: str, words: Any, extents: tuple[int, ...], width: int, flag: int) -> Any:
        own = width * words.itemsize
        if extents == (self.count, width) or (width == 1 and extents == (self.count,)):
            return Rows(words, own, 0)
        if extents == (width,) or (width == 1 and extents == ()):
            return Rows(words, own, flag)
        raise ValueError(
            f"{name} must be {width} numbers, by axis, or {self.count} rows of them (got the shape "
            f"{extents})"
        )

    def native(self, field: int, field_rank: int) -> Native:
        made = _native.Column(field=field, rank=self.rank, kind=_native.BOX_URI)
        names = [uri.encode() for uri in self.uris]
        texts = (ctypes.c_char_p * len(names))(*names)
        made.uris, made.n_uris = ctypes.addressof(texts), len(names)
        rows = {"begin": self.begins, "shape": self.shape, "step": self.step, "which": self.which}
        if self.given_at is not None:
            rows["at"] = self.fitted("at", *self.given_at, field_rank, _native.AT_IS_ONE)
        if self.augment is not None:
            made.augment_bytes = AUGMENT_BYTES
            rows["augment"] = self.augment
        if self.affine is not None:
            made.affine_bytes = AFFINE_BYTES
            rows["affine"] = self.affine
        owners = (texts, self.borrowed)
        by_name = {name: each for name, each in rows.items() if each}
        return Native(made, by_name, owners, self.count, self.uris)


class Native(NamedTuple):
    """A column as the library takes it."""

    column: _native.Column
    rows: dict[str, Rows]  # by member
    owner: Any  # of its uris, and of what its augmentation borrows
    row_count: int | None  # None: one row for all
    uris: Sequence[str] = ()


class Table:
    """Rows that are to be pushed."""

    def __init__(self, columns: list[Native], tags: Any) -> None:
        counts = {each.row_count for each in columns if each.row_count is not None}
        if len(counts) != 1:
            text = f"{sorted(counts)} rows" if counts else "none of them has rows"
            raise ValueError(f"columns must have as many rows each ({text})")
        self.count = counts.pop()
        self.parts = columns
        self.columns = (_native.Column * len(columns))(*[each.column for each in columns])
        for column, each in zip(self.columns, columns):
            column.struct_size = ctypes.sizeof(column)
            column.flags = sum(rows.flag for rows in each.rows.values())
        self.tags = None if tags is None else self.tagged(tags)

    def uris(self) -> Iterable[Sequence[str]]:
        return [each.uris for each in self.parts]

    def tagged(self, tags: Any) -> Rows:
        words, extents = numbers("tags", tags, "Q")
        if extents != (self.count,):
            raise ValueError(f"tags must be {self.count} numbers (got the shape {extents})")
        return Rows(words, 8, 0)

    def push(self, push: Any, loader: int, row: int, taken: ctypes.c_size_t) -> int:
        """Hands over the rows from one on, as many as there is room for; the status."""
        for column, each in zip(self.columns, self.parts):
            for name, rows in each.rows.items():
                setattr(column, name, rows.address(row))
        tags = self.tags.address(row) if self.tags else None
        size = ctypes.sizeof(_native.Column)
        columns, count = self.columns, len(self.columns)
        return push(loader, columns, count, size, self.count - row, tags, 0, ctypes.byref(taken))


class Tables(Iterator[Table]):
    """Tables in the place of samples, one after the other."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self.tables = iter(tables)

    def __next__(self) -> Table:
        return next(self.tables)


def table_of(given: Any, tags: Any, fields: Fields) -> Table:
    """A column, or a dict of columns and labels by field."""
    by_field = cast("Mapping[Any, Any]", given if isinstance(given, Mapping) else {0: given})
    columns = list[Native]()
    for name, each in by_field.items():
        field = fields.number(name)
        try:
            if not isinstance(each, Column):
                columns.append(values_of(each, fields.dtypes[field], field))
                continue
            columns.append(each.native(field, fields.ranks[field]))
        except (TypeError, ValueError) as error:
            raise type(error)(f"field {name!r}: {error}") from error
    return Table(columns, tags)


class Fields(NamedTuple):
    """The fields of a config: number by name, and by number the type and the axes."""

    numbers: dict[str, int]
    dtypes: list[Dtype]
    ranks: list[int]

    def number(self, field: str | int) -> int:
        if isinstance(field, str):
            if field not in self.numbers:
                names = ", ".join(map(repr, self.numbers)) or "none with a name"
                raise ValueError(f"there is no field {field!r}: Config.fields has {names}")
            return self.numbers[field]
        if not 0 <= field < len(self.ranks):
            raise ValueError(f"there is no field {field}: a batch has {len(self.ranks)}, from 0 on")
        return field


def values_of(given: Any, dtype: Dtype, field: int) -> Native:
    """Labels: one of each sample, or one number for all."""
    if isinstance(given, (list, tuple)):
        made = [feed(each) for each in cast("list[Any]", given)]
        if not all(isinstance(each, Number) for each in made):
            raise TypeError(
                "labels must be an array, or a list of numbers, and Columns a dict by field, "
                f"{{'x': Column(..)}} (got {short(given)})"
            )
        packed = [cast("Number", each).to(dtype) for each in made]
        kind = packed[0][0] if packed else dtype
        data = b"".join(each for _, each in packed)
        return valued(field, kind, (), len(packed), data)
    fed = feed(given.copy("C") if hasattr(given, "astype") else given)
    if isinstance(fed, Number):
        kind, data = fed.to(dtype)
        return valued(field, kind, (), None, data)
    if fed is None or not fed.shape:
        raise TypeError(
            "must be a Column, which a uri with begins and a shape makes, an array of labels or a "
            f"number (got {short(given)})"
        )
    return valued(field, fed.dtype, fed.shape[1:], fed.shape[0], dense(fed), fed.itemsize)


def dense(fed: Fed) -> bytes:
    if isinstance(fed.data, bytes):
        return fed.data
    if fed.device >= 0:
        raise ValueError(of_device("to be labels", fed.device))
    if fed.strides != row_major(fed.shape, fed.itemsize):
        raise ValueError("labels must be contiguous")
    return fed.span()


def valued(
    field: int,
    dtype: Dtype,
    shape: tuple[int, ...],
    count: int | None,
    data: bytes,
    itemsize: int = 0,
) -> Native:
    size = itemsize * math.prod(shape) or len(data) // (count or 1)
    _border.whole("bytes of the label of a sample", size, 0 if count == 0 else 1, VALUE_BYTES)
    made = _native.Column(field=field, rank=len(shape), kind=_native.BOX_VALUE)
    made.value_dtype, made.value_bytes = dtype, size
    values = Rows(
        ctypes.create_string_buffer(data, max(1, len(data))),
        size,
        _native.VALUES_IS_ONE if count is None else 0,
    )
    rows = {"values": values}
    if shape:
        rows["shape"] = Rows(array.array("Q", shape), 0, _native.SHAPE_IS_ONE)
    return Native(made, rows, None, count)


def numbers(name: str, given: Any, letter: str) -> tuple[array.array[int], tuple[int, ...]]:
    """Whole numbers, copied, and their extents."""
    low, high = LIMITS[letter]
    words: array.array[int] = array.array(letter)
    if not hasattr(given, "astype") and hasattr(given, "numpy"):  # torch
        given = given.numpy()
    if hasattr(given, "astype"):
        kind, size = given.dtype.kind, words.itemsize
        if kind not in "iu":
            raise TypeError(f"{name} must be whole numbers (got {given.dtype})")
        made = given.astype(f"{'i' if letter == 'q' else 'u'}{size}", order="C")
        if made.dtype != given.dtype and (made != given).any():
            raise ValueError(f"{name} must be from {low} to {high}")
        words.frombytes(made.tobytes())
        return words, tuple(given.shape)
    if not isinstance(given, Iterable):
        words.append(_border.whole(name, given, low, high))
        return words, ()
    rows = list(cast("Iterable[Any]", given))
    if not rows or not isinstance(rows[0], Iterable):
        return listed(name, rows, letter), (len(rows),)
    lists = [list(row) for row in rows]
    width = len(lists[0])
    for number, row in enumerate(lists):
        if len(row) != width:
            raise ValueError(f"{name}[{number}] must have {width} numbers (got {len(row)})")
    return listed(name, [*itertools.chain.from_iterable(lists)], letter), (len(lists), width)


def listed(name: str, given: list[Any], letter: str) -> array.array[int]:
    try:
        return array.array(letter, given)
    except (TypeError, OverflowError):
        low, high = LIMITS[letter]
        each_of = f"each of {name}"
        return array.array(letter, [_border.whole(each_of, each, low, high) for each in given])


def address_of(data: Any) -> int:
    return data.buffer_info()[0] if isinstance(data, array.array) else ctypes.addressof(data)
