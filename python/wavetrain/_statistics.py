"""Numbers for normalisation: `wavetrain.statistics`, as `wavetrain stats` prints them."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from wavetrain import _border
from wavetrain._config import Dtype
from wavetrain._errors import NotFound
from wavetrain._info import ArrayInfo, array_info
from wavetrain._reader import Reader, closed, listed
from wavetrain._sample import Box, uri_of
from wavetrain._words import READ, told

PERCENTS = (0.1, 1, 5, 25, 50, 75, 95, 99, 99.9)
SETS_MAX = 4096  # along an axis
CELL_BYTES = 4 << 20  # that are read at a time: one chunk if that has more
BINS = 1 << 11  # parts of the range of elements of more than 16 bits
COUNTS_MAX = 1 << 25  # that are held at a time: 256 MiB
HALF = (1 << 32) - 1  # of the bits of an integer

# How many values a type of up to 16 bits has: each has a count of its own.
VALUES = {
    **dict.fromkeys((Dtype.BOOL, Dtype.U8, Dtype.I8), 1 << 8),
    **dict.fromkeys((Dtype.U16, Dtype.I16, Dtype.F16, Dtype.BF16), 1 << 16),
}

Ends = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Statistics:
    """The result of `wavetrain.statistics`: numbers of Python for a whole box, arrays of numpy with
    an entry for each index along an axis. Figures of no element are NaN."""

    count: Any  # elements that are not NaN
    min: Any
    max: Any
    mean: Any
    std: Any  # of a population: divided by count
    fill_share: Any  # elements that equal the fill value, as a part of all; 0 to 1
    nan_count: Any
    percentiles: dict[float, Any] | None  # by percentage; None if they were not asked for


@told({**READ, "axes": "give axis"})
def statistics(
    uri: Any,
    box: Iterable[slice[Any, Any, Any] | tuple[int, int]] | None = None,
    axis: int | None = None,
    percentiles: bool = False,
    *,
    files: Any = None,
) -> Statistics:
    """Streams an array, or a box of it, and gives the numbers that normalisation needs::

        found = wavetrain.statistics("cells.zarr/0", axis=0, percentiles=True)
        scale, low = 1 / found.std, found.percentiles[0.1]

    uri: a path or a zarr.Array; files: as of Pipeline.
    box: a slice or (start, stop) for each axis, inside of the array; ends may be open. None: all
        of the array.
    axis: a set of numbers for each index along this axis of the box, 4,096 at most: channels.
    percentiles: also 0.1, 1, 5, 25, 50, 75, 95, 99 and 99.9 %.

    NaN is left out of all figures but nan_count and fill_share. An element equals the fill value
    as numbers are equal; if the fill value is NaN, NaN does. Missing chunks are fill value.

    Mean and std of integers are exact, rounded once; of floats they are as exact as a few roundings
    of a double allow. Percentiles are those of numpy.percentile, "linear": exact for types of 8 and
    16 bits. For others a second pass counts the elements of 2,048 parts of the range of finite
    elements, and each percentile is at most one part off.

    Each chunk is decoded once in a pass, and memory is that of some chunks. Complex and raw arrays
    are a TypeError. Faults of the array are raised as by Reader.read."""
    name, percentiles = uri_of(uri), _border.flag("percentiles", percentiles)
    info = array_info(uri, files=files)
    if info.dtype is None:
        raise NotFound(f"statistics: {name} is a group: name an array")
    if info.dtype in (Dtype.C64, Dtype.C128, Dtype.RAW):
        raise TypeError(
            f"elements of type {info.dtype.name.lower()} have no order, and no statistics: {name}"
        )
    ends = ends_of(name, info, box)
    extent = count_of(axis, ends)
    # A brain float is a float whose lower 16 bits are 0, which numpy has.
    settings: dict[str, Any] = {"dtype": Dtype.F32} if info.dtype is Dtype.BF16 else {}
    at_a_time = SETS_MAX
    if percentiles:
        at_a_time = min(at_a_time, COUNTS_MAX // VALUES.get(info.dtype, BINS + 2))
    sets: list[Set] = []
    with Reader(files=files, fit=[uri], **settings) as reader:
        for first in range(0, extent, at_a_time):
            part = [*ends]
            if axis is not None:
                begin = ends[axis][0] + first
                part[axis] = (begin, min(begin + at_a_time, ends[axis][1]))
            sets += measured(reader, uri, info, tuple(part), axis, percentiles)
    return listed_as(sets, axis is None, percentiles)


def ends_of(name: str, info: ArrayInfo, box: Any) -> Ends:
    """The ends of a box that lies in the array."""
    walks = closed(None if box is None else listed(box), info.shape)
    if len(walks) != len(info.shape):
        raise ValueError(f"box must have {len(info.shape)} axes, as {name} (got {len(walks)})")
    if box is None:
        return tuple(walks)
    made = Box(name, walks)
    if any(step != 1 for step in made.step):
        raise ValueError(f"box must have steps of 1 (got {made.step})")
    if made.lists:
        raise ValueError("box must have no index lists: give a range for each axis")
    for number, ((begin, end), whole) in enumerate(zip(made.aabb, info.shape)):
        if begin < 0 or end > whole:
            raise ValueError(f"box axis {number} must lie in 0:{whole} (got {begin}:{end})")
    return made.aabb


def count_of(axis: int | None, ends: Ends) -> int:
    """How many sets there are."""
    if axis is None:
        return 1
    axis = _border.whole("axis", axis, _border.I64_MIN, _border.I64_MAX)
    if not 0 <= axis < len(ends):
        raise ValueError(f"axis must be from 0 to {len(ends) - 1} (got {axis})")
    count = ends[axis][1] - ends[axis][0]
    if count > SETS_MAX:
        raise ValueError(f"axis {axis} has {count} indices, at most {SETS_MAX}: give a smaller box")
    return count


def cells_of(info: ArrayInfo, ends: Ends) -> Iterator[Ends]:
    """The box in parts of whole chunks, so that each chunk is decoded once."""
    shape = [end - begin for begin, end in ends]
    # "bytes(little)", "sharding_indexed[bytes](index at end, crc32c)", of v2 "order C".
    inner = info.codecs.rpartition("[")[2].partition("]")[0]
    is_plain = "transpose" not in info.codecs and (inner == "order C" or " " not in inner)
    # A part of a chunk that nothing encodes is read alone.
    is_cut = is_plain and info.chunk_bytes > CELL_BYTES
    edges = [1 if is_cut else max(1, edge) for edge in info.chunk_shape]
    for axis in reversed(range(len(shape))):
        room = CELL_BYTES // max(1, info.itemsize * math.prod(map(min, edges, shape)))
        every = -(-ends[axis][1] // edges[axis])
        edges[axis] *= max(1, min(room, every))
        if room < every:
            break
    along = [
        [(max(at, begin), min(at + edge, end)) for at in range(begin // edge * edge, end, edge)]
        for (begin, end), edge in zip(ends, edges)
    ]
    return itertools.product(*along)


class Set:
    """The figures of the elements of a set."""

    def __init__(self, info: ArrayInfo) -> None:
        self.numpy: Any = importlib.import_module("numpy")
        self.dtype: Any = info.dtype
        kind = self.numpy.dtype("f4" if info.dtype is Dtype.BF16 else self.dtype.dtype)
        self.is_real = kind.kind == "f"
        raw = bytes(2) + info.fill if info.dtype is Dtype.BF16 else info.fill
        self.fill = self.numpy.frombuffer(raw, kind)[0]
        self.count = self.nan_count = self.fill_count = 0
        self.ends: tuple[Any, Any] | None = None
        self.finite_ends: tuple[Any, Any] | None = None
        # Exact, and of floats the squares of distances from the mean; and also their plain sum.
        self.total: int | Fraction = 0
        self.squares: int | Fraction = 0
        self.loose = 0.0
        self.is_beyond = False  # squares are more than a double can be
        self.counts: Any = None

    def add(self, row: Any) -> None:
        """Adds the elements of a cell."""
        numpy = self.numpy
        if not self.is_real:
            self.fill_count += int((row == self.fill).sum())
            self._add_whole(row.view("u1") if row.dtype == bool else row)
            return
        is_nan = numpy.isnan(row)
        is_fill = is_nan if numpy.isnan(self.fill) else row == self.fill
        self.fill_count += int(is_fill.sum())
        self.nan_count += int(is_nan.sum())
        row = row[~is_nan]
        if row.size:
            self._add_real(row)

    def _add_whole(self, row: Any) -> None:
        """Sums are of distances from the least element: two halves, whose products fit 64 bits."""
        least, most, count = int(row.min()), int(row.max()), row.size
        distances = row.astype("u8") - row.min().astype("u8")
        low = distances & HALF
        total, squares = int(low.sum()), sum_of(low * low)
        if most - least > HALF:
            high = distances >> 32
            total += int(high.sum()) << 32
            squares += (sum_of(high * low) << 33) + (sum_of(high * high) << 64)
        self.total += total + count * least
        self.squares += squares + 2 * least * total + count * least * least
        self.count += count
        self.ends = self.finite_ends = widened(self.ends, (least, most))

    def _add_real(self, row: Any) -> None:
        """The rule of Chan, Golub and LeVeque, with fractions between cells: a cell's mean is a
        double and what that lacks."""
        numpy, count = self.numpy, row.size
        self.ends = widened(self.ends, (row.min(), row.max()))
        finite = row[numpy.isfinite(row)]
        if finite.size:
            self.finite_ends = widened(self.finite_ends, (finite.min(), finite.max()))
        real = row.astype("f8")
        with numpy.errstate(all="ignore"):
            mean = float(real.mean())
            distances = real - mean
            shift, squares = float(distances.sum()), float((distances * distances).sum())
            self.loose += float(real.sum())
        if math.isfinite(self.loose):
            total = count * Fraction(mean) + Fraction(shift)
            squares -= shift * shift / count
            if self.count:
                between = float(total / count - Fraction(self.total) / self.count)
                squares += between * between * (self.count * count / (self.count + count))
            self.is_beyond |= math.isinf(squares)
            self.squares += Fraction(0 if self.is_beyond else squares)
            self.total += total
        self.count += count

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        if self.count == 0 or not math.isfinite(self.loose):
            return (self.loose / self.count if self.count else math.nan), math.nan
        mean = Fraction(self.total) / self.count
        squares = Fraction(self.squares) / self.count - (0 if self.is_real else mean * mean)
        # Rounding may leave a little less than none.
        return float(mean), math.inf if self.is_beyond else math.sqrt(max(squares, 0))

    def tally(self, row: Any) -> None:
        """Counts the elements of a cell, once it is known where they are counted."""
        numpy = self.numpy
        if self.is_real:
            row = row[~numpy.isnan(row)]
        places = places_of(numpy, row, self.dtype) if self.dtype in VALUES else self._parts(row)
        size = VALUES.get(self.dtype, BINS + 2)
        counts = numpy.bincount(places, minlength=size)
        self.counts = counts if self.counts is None else self.counts + counts

    def _range(self) -> tuple[float, float, float, bool]:
        """The least finite element, the unit of distances from it, how many parts there are for
        each, and whether a part is one integer. Half of a range of doubles is a double."""
        least, most = self.finite_ends or (0, 0)
        unit = 2.0 if self.is_real else 1.0
        width = float(most) / unit - float(least) / unit if self.is_real else float(most - least)
        is_exact = not self.is_real and width < BINS
        scale = 1.0 if is_exact else BINS / width if width > 0 else 0.0
        return float(least), unit, scale, is_exact

    def _parts(self, row: Any) -> Any:
        """The part of the range that each element is in; 0 and the last are those of infinities."""
        numpy = self.numpy
        least, unit, scale, _ = self._range()
        if not self.is_real:
            lowest = numpy.asarray(self.ends and self.ends[0]).astype(row.dtype)
            distances = row.astype("u8") - lowest.astype("u8")
            return 1 + numpy.minimum((distances * scale).astype("i8"), BINS - 1)
        is_finite = numpy.isfinite(row)
        real = numpy.where(is_finite, row, 0).astype("f8")
        inside = ((real / unit - least / unit) * scale).astype("i8").clip(0, BINS - 1)
        return numpy.where(is_finite, 1 + inside, numpy.where(row < 0, 0, BINS + 1))

    def percentiles(self) -> list[float]:
        """The percentiles, by a count for each value or part."""
        if self.count == 0:
            return [math.nan] * len(PERCENTS)
        numpy, last = self.numpy, self.count - 1
        until = self.counts.cumsum()
        least, most = map(float, self.ends or (0, 0))

        def of_rank(rank: int) -> float:
            if rank in (0, last):
                return least if rank == 0 else most
            place = int(numpy.searchsorted(until, rank, "right"))
            before = int(until[place] - self.counts[place])
            return self._value(place, (rank - before + 0.5) / int(self.counts[place]))

        found: list[float] = []
        for percent in PERCENTS:
            part, rank = math.modf(percent / 100 * last)
            below, above = of_rank(int(rank)), of_rank(min(int(rank) + 1, last))
            apart = above - below
            if above == below:
                found.append(below)
            else:  # either way both ends are met exactly
                found.append(below + apart * part if part < 0.5 else above - apart * (1 - part))
        return found

    def _value(self, place: int, part: float) -> float:
        """The number at a part of a place."""
        if self.dtype in VALUES:
            return value_of(self.numpy, place, self.dtype)
        if place in (0, BINS + 1):
            return -math.inf if place == 0 else math.inf
        least, unit, scale, is_exact = self._range()
        if is_exact or scale == 0:
            return least + (place - 1 if is_exact else 0)
        value = (least / unit + (place - 1 + part) / scale) * unit
        return min(max(value, least), float((self.finite_ends or (0, 0))[1]))


def sum_of(products: Any) -> int:
    """The sum of integers of 64 bits without a sign."""
    return int((products & HALF).sum()) + (int((products >> 32).sum()) << 32)


def widened(ends: tuple[Any, Any] | None, more: tuple[Any, Any]) -> tuple[Any, Any]:
    return more if ends is None else (min(ends[0], more[0]), max(ends[1], more[1]))


def places_of(numpy: Any, row: Any, dtype: Dtype) -> Any:
    """The place of each element among all values of its type, in order."""
    if dtype in (Dtype.BOOL, Dtype.U8, Dtype.U16):
        return row.view("u1") if dtype is Dtype.BOOL else row
    if dtype in (Dtype.I8, Dtype.I16):
        return row.astype("i4") + (VALUES[dtype] >> 1)
    bits = row.view("u2") if dtype is Dtype.F16 else (row.view("u4") >> 16).astype("u2")
    return numpy.where(bits >> 15, ~bits, bits | numpy.uint16(1 << 15))


def value_of(numpy: Any, place: int, dtype: Dtype) -> float:
    """The value of a place."""
    if dtype in (Dtype.BOOL, Dtype.U8, Dtype.U16):
        return float(place)
    if dtype in (Dtype.I8, Dtype.I16):
        return float(place - (VALUES[dtype] >> 1))
    bits = place ^ (1 << 15) if place >> 15 else place ^ HALF >> 16
    if dtype is Dtype.F16:
        return float(numpy.uint16(bits).view("f2"))
    return float(numpy.uint32(bits << 16).view("f4"))


def rows_of(
    reader: Reader, uri: Any, info: ArrayInfo, ends: Ends, axis: int | None
) -> Iterator[tuple[int, Any]]:
    """The elements of each set in each cell, and the number of the set."""
    numpy: Any = importlib.import_module("numpy")
    for cell in cells_of(info, ends):
        made = reader.read(uri, cell)
        if axis is None:
            yield 0, made.reshape(-1)
            continue
        rows = numpy.moveaxis(made, axis, 0)
        for number, row in enumerate(rows, cell[axis][0] - ends[axis][0]):
            yield number, row.reshape(-1)


def measured(
    reader: Reader,
    uri: Any,
    info: ArrayInfo,
    ends: Ends,
    axis: int | None,
    percentiles: bool,
) -> list[Set]:
    """The sets of a box. Values that are few are counted at once, others in a second pass."""
    sets = [Set(info) for _ in range(count_of(axis, ends))]
    counts_at_once = percentiles and info.dtype in VALUES
    for number, row in rows_of(reader, uri, info, ends, axis):
        sets[number].add(row)
        if counts_at_once:
            sets[number].tally(row)
    if percentiles and not counts_at_once:
        for number, row in rows_of(reader, uri, info, ends, axis):
            sets[number].tally(row)
    return sets


def listed_as(sets: list[Set], is_alone: bool, percentiles: bool) -> Statistics:
    """The figures of all sets."""
    numpy: Any = importlib.import_module("numpy")

    def given(values: list[Any]) -> Any:
        return values[0] if is_alone else numpy.array(values)

    def number(end: Any) -> Any:
        return end.item() if hasattr(end, "item") else end

    ends: list[tuple[Any, Any]] = [each.ends or (math.nan, math.nan) for each in sets]
    moments = [each.moments() for each in sets]
    sizes = [each.count + each.nan_count for each in sets]
    shares = [each.fill_count / size if size else math.nan for each, size in zip(sets, sizes)]
    found: dict[float, Any] | None = None
    if percentiles:
        columns = zip(*[each.percentiles() for each in sets])
        found = {percent: given([*column]) for percent, column in zip(PERCENTS, columns)}
    return Statistics(
        count=given([each.count for each in sets]),
        min=given([number(low) for low, _ in ends]),
        max=given([number(high) for _, high in ends]),
        mean=given([mean for mean, _ in moments]),
        std=given([deviation for _, deviation in moments]),
        fill_share=given(shares),
        nan_count=given([each.nan_count for each in sets]),
        percentiles=found,
    )
