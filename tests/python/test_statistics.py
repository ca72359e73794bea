"""Statistics are those of numpy, for every type, along every axis, in every box."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import ml_dtypes
import numpy
import pytest
import zarr

import wavetrain
from wavetrain import _statistics
from wavetrain._statistics import PERCENTS

SHAPE, CHUNK = (9, 17, 23), (4, 5, 7)
ROUNDING = 1e-15  # of a mean or a deviation
PART = 5e-4  # of the range, that a percentile may be off
EXACT = ["?", "u1", "i1", "u2", "i2", "f2", "bfloat16"]
OTHERS = ["u4", "i4", "u8", "i8", "f4", "f8"]


def image_of(name: str) -> numpy.ndarray:
    dice, kind = numpy.random.default_rng(5), numpy.dtype(name)
    if kind.kind == "b":
        return dice.integers(0, 2, SHAPE).astype(kind)
    if kind.kind in "iu":
        info = numpy.iinfo(kind)
        return dice.integers(info.min, info.max, SHAPE, kind, True)
    image = dice.normal(5, 3, SHAPE).astype(kind)
    image[dice.random(SHAPE) < 0.05] = math.nan
    return image


def moments_of(numbers: numpy.ndarray) -> tuple[float, float]:
    whole = [Fraction(number.item()) for number in numbers]
    mean = sum(whole) / len(whole)
    return float(mean), math.sqrt(sum((number - mean) ** 2 for number in whole) / len(whole))


def check(found: wavetrain.Statistics, image: numpy.ndarray, fill: object, axis: int | None):
    """The figures of all sets."""
    sets = [image] if axis is None else numpy.moveaxis(image, axis, 0)
    given = (lambda each: [each]) if axis is None else list
    columns = [given(each) for each in (found.count, found.nan_count, found.fill_share)]
    columns += [given(each) for each in (found.min, found.max, found.mean, found.std)]
    assert all(len(column) == len(sets) for column in columns)
    for number, elements in enumerate(sets):
        elements = numpy.ravel(elements)
        is_nan = elements != elements
        is_fill = is_nan if fill != fill else elements == fill
        numbers = elements[~is_nan]
        count, nans, share, low, high, mean, deviation = (column[number] for column in columns)
        assert (count, nans) == (numbers.size, is_nan.sum())
        assert share == is_fill.sum() / elements.size
        assert (low, high) == (numbers.min(), numbers.max())
        assert (mean, deviation) == pytest.approx(moments_of(numbers), rel=ROUNDING, abs=0)
        if found.percentiles is None:
            continue
        expected = numpy.percentile(numbers.astype("f8"), PERCENTS)
        made = [given(each)[number] for each in found.percentiles.values()]
        is_exact = numbers.dtype.itemsize < 4
        bound = 0 if is_exact else PART * (float(high) - float(low))
        assert made == pytest.approx(expected.tolist(), rel=0, abs=bound)


@pytest.fixture
def written(tmp_path):
    """The uri of an array that has chunks which are not written."""

    def write(image: numpy.ndarray, fill: object, chunks: tuple[int, ...] = CHUNK) -> str:
        array = zarr.create_array(
            tmp_path / "a",
            shape=image.shape,
            chunks=chunks,
            dtype=image.dtype,
            fill_value=fill,
            config={"write_empty_chunks": False},
        )
        array[...] = image
        return str(tmp_path / "a")

    return write


@pytest.mark.parametrize("name", [name for name in EXACT + OTHERS if name != "bfloat16"])
def test_figures_are_those_of_numpy(written, name):
    image = image_of(name)
    fill = math.nan if name == "f8" else image.dtype.type(1)
    image[4:, 5:11] = fill
    uri = written(image, fill)
    box = numpy.s_[1:8, 3:, 5:22]
    for axis in (None, 0, 1, 2):
        check(wavetrain.statistics(uri, axis=axis, percentiles=True), image, fill, axis)
    for axis in (None, 1):
        check(wavetrain.statistics(uri, box, axis, True), image[box], fill, axis)
    check(wavetrain.statistics(uri, [(0, 1), (0, 2), (0, 3)]), image[:1, :2, :3], fill, None)
    assert wavetrain.statistics(uri).percentiles is None


def test_brain_floats_have_exact_percentiles(tmp_path):
    image = image_of("bfloat16")
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [*SHAPE],
        "data_type": "bfloat16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*SHAPE]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 2.5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    (tmp_path / "c/0/0").mkdir(parents=True)
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    (tmp_path / "c/0/0/0").write_bytes(image.tobytes())
    found = wavetrain.statistics(tmp_path, axis=2, percentiles=True)
    check(found, image, ml_dtypes.bfloat16(2.5), 2)


def test_a_box_is_read_in_cells_of_whole_chunks(written, monkeypatch):
    monkeypatch.setattr(_statistics, "CELL_BYTES", 3000)
    image = image_of("f4")
    uri = written(image, 0.0)
    info = wavetrain.array_info(uri)
    ends = ((1, 9), (0, 17), (5, 23))
    cells = [*_statistics.cells_of(info, ends)]
    assert len(cells) > 5
    for cell in cells:
        for (begin, end), (first, limit), edge in zip(cell, ends, CHUNK):
            assert begin in (first, begin // edge * edge)
            assert end in (limit, end // edge * edge)
    covered = numpy.zeros(SHAPE, int)
    for cell in cells:
        covered[tuple(slice(*axis) for axis in cell)] += 1
    assert (covered[1:, :, 5:] == 1).all() and covered.sum() == covered[1:, :, 5:].size
    for axis in (None, 2):
        found = wavetrain.statistics(uri, ends, axis, True)
        check(found, image[1:, :, 5:], 0.0, axis)


FORMS = {
    "v2": ({"zarr_format": 2}, True),
    "v2, order F": ({"zarr_format": 2, "order": "F"}, False),
    "v3": ({}, True),
    "shards": ({"shards": tuple(2 * edge for edge in CHUNK)}, True),
    "compressed": ({"compressors": "auto"}, False),
}


@pytest.mark.parametrize(("how", "is_cut"), FORMS.values(), ids=FORMS)
def test_a_large_chunk_of_plain_rows_is_read_in_parts(tmp_path, monkeypatch, how, is_cut):
    zarr = pytest.importorskip("zarr")
    size = math.prod(CHUNK) * 4 // 3
    monkeypatch.setattr(_statistics, "CELL_BYTES", size)
    image = image_of("f4")
    how = {"compressors": None, "fill_value": 0, **how}
    zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=CHUNK, dtype="f4", **how)[:] = image
    info = wavetrain.array_info(tmp_path / "a")
    cells = _statistics.cells_of(info, tuple((0, extent) for extent in SHAPE))
    largest = max(4 * math.prod(limit - first for first, limit in cell) for cell in cells)
    assert (largest <= size) == is_cut
    check(wavetrain.statistics(tmp_path / "a", percentiles=True), image, 0.0, None)


def test_more_sets_than_there_is_room_to_count_take_several_passes(written, monkeypatch):
    monkeypatch.setattr(_statistics, "COUNTS_MAX", 5 << 16)
    image = image_of("u2")
    check(wavetrain.statistics(written(image, 0), None, 2, True), image, 0, 2)


@pytest.mark.parametrize(("dtype", "offset"), [("i8", 2**62), ("u8", 2**63), ("f8", 1e9)])
def test_numbers_far_from_0_keep_their_deviation(written, monkeypatch, dtype, offset):
    monkeypatch.setattr(_statistics, "CELL_BYTES", 3000)
    noise = numpy.random.default_rng(6).integers(0, 50, SHAPE)
    image = (noise.astype(dtype) + numpy.asarray(offset, dtype)).astype(dtype)
    check(wavetrain.statistics(written(image, 0)), image, 0, None)


def test_infinite_and_missing_numbers(tmp_path):
    path = tmp_path / "a.npy"
    numpy.save(path, numpy.array([1, math.inf, 2, math.nan], "f4"))
    found = wavetrain.statistics(path)
    assert (found.count, found.nan_count, found.min, found.max) == (3, 1, 1, math.inf)
    assert found.mean == math.inf and math.isnan(found.std)
    numpy.save(path, numpy.array([1e300, -1e300]))
    found = wavetrain.statistics(path)
    assert (found.mean, found.std) == (0, math.inf)
    numpy.save(path, numpy.array([[math.nan, 3]]))
    found = wavetrain.statistics(path, axis=1, percentiles=True)
    numpy.testing.assert_array_equal(found.mean, [math.nan, 3])
    numpy.testing.assert_array_equal(found.percentiles[50], [math.nan, 3])
    numpy.save(path, numpy.zeros((0, 3), "u1"))
    found = wavetrain.statistics(path, axis=1)
    numpy.testing.assert_array_equal(found.count, [0, 0, 0])
    assert numpy.isnan(found.mean).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([(0, 10)],), r"box must have 3 axes, as .* \(got 1\)"),
        ((numpy.s_[:, :, 5:24],), r"box axis 2 must lie in 0:23 \(got 5:24\)"),
        ((numpy.s_[:, ::2, :],), r"box must have steps of 1"),
        ((None, 3), r"axis must be from 0 to 2 \(got 3\)"),
        ((None, -1), r"axis must be from 0 to 2 \(got -1\)"),
    ],
)
def test_a_box_or_an_axis_that_the_array_lacks_is_a_value_error(written, arguments, text):
    with pytest.raises(ValueError, match=text):
        wavetrain.statistics(written(image_of("u1"), 0), *arguments)


def test_elements_that_are_no_numbers_and_arrays_that_are_not_there(tmp_path):
    numpy.save(tmp_path / "c.npy", numpy.zeros(3, "c8"))
    with pytest.raises(TypeError, match="elements of type c64 have no order"):
        wavetrain.statistics(tmp_path / "c.npy")
    with pytest.raises(wavetrain.NotFound):
        wavetrain.statistics(tmp_path / "none")
    numpy.save(tmp_path / "wide.npy", numpy.zeros((1, 4097), "u1"))
    with pytest.raises(ValueError, match="axis 1 has 4097 indices, at most 4096"):
        wavetrain.statistics(tmp_path / "wide.npy", axis=1)
