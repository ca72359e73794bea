"""Uris that end with #cf=1, and fields with cf: numbers are those of the CF conventions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import zarr
from test_affine_levels import FIELD, boxes_of, image, stream, streamed, zoomed

import wavetrain
from wavetrain import Box, Config, Dtype, Field, Pipeline, Reader, Sample

SCALE, OFFSET, MISSING = 0.01, 273.15, -32768


def packed(path) -> tuple[str, np.ndarray]:
    """An array of int16 with attributes, and the numbers that they make of its elements."""
    stored = np.random.default_rng(3).integers(-999, 999, (12, 20), dtype="i2")
    stored[2:5, 3:9] = MISSING
    attributes = {"scale_factor": SCALE, "add_offset": OFFSET, "_FillValue": MISSING}
    array = zarr.create_array(
        path,
        shape=stored.shape,
        chunks=(5, 6),
        dtype="i2",
        fill_value=MISSING,
        attributes=attributes,
    )
    array[...] = stored
    return f"{path}#cf=1", np.where(stored == MISSING, np.nan, stored * SCALE + OFFSET)


def test_batches_have_the_numbers(tmp_path):
    uri, numbers = packed(tmp_path / "a")
    fields = (Field("x", (4, 6), "f32"), Field("y", (4, 6), "f64", pad_mode="constant"))
    config = Config(samples_per_batch=1, fields=fields, max_boxes_per_sample=2, backend="host")
    boxes = [Box(uri, ((1, 5), (2, 8)), "x"), Box(uri, ((10, 14), (16, 22)), "y")]
    with Pipeline(config) as pipeline:
        pipeline.push([Sample(boxes=boxes)])
        with next(pipeline.batches()) as batch:
            np.testing.assert_array_equal(batch["x"].numpy()[0], numbers[1:5, 2:8].astype("f4"))
            np.testing.assert_array_equal(batch["y"].numpy()[0, :2, :4], numbers[10:, 16:])
            # Padding by the fill value, which is a missing one.
            assert np.isnan(batch["y"].numpy()[0, 2:]).all()


def test_a_reader_has_the_numbers(tmp_path):
    uri, numbers = packed(tmp_path / "a")
    with Reader(fit=[uri], dtype="f64") as reader:
        np.testing.assert_array_equal(reader.read(uri), numbers)
        out = np.empty((3, 20), "f8")
        np.testing.assert_array_equal(
            reader.read(uri, (slice(1, 4), slice(None)), out), numbers[1:4]
        )


def test_array_info_has_the_type_and_a_refusal_names_the_attribute(tmp_path):
    uri, _ = packed(tmp_path / "a")
    info = wavetrain.array_info(uri)
    assert (info.dtype, info.codecs[:9]) == (Dtype.F64, "cf(int16)")
    assert wavetrain.array_info(tmp_path / "a").dtype == Dtype.I16
    zarr.open_array(tmp_path / "a", mode="r+").attrs["valid_range"] = [3, 1]
    with pytest.raises(
        wavetrain.Unsupported, match=r"valid_range at byte .*: no value is within the limits"
    ):
        wavetrain.array_info(uri)


def test_a_map_takes_a_level_of_an_image_whose_elements_are_decoded(tmp_path):
    uri, arrays = image(tmp_path / "image", levels=2)
    for level in range(2):
        array = zarr.open_array(tmp_path / f"image/s{level}", mode="r+")
        array.attrs.update({"scale_factor": 0.5, "add_offset": -3})
    plain = streamed(uri, [zoomed(2, filter="nearest")])
    made = streamed(f"{uri}#cf=1", [zoomed(2, filter="nearest")])
    np.testing.assert_array_equal(made, plain * 0.5 - 3)
    assert np.isin(plain, arrays[1]).all() and len(np.unique(plain)) > 100


def test_a_field_with_cf_has_the_numbers_next_to_one_without(tmp_path):
    _, numbers = packed(tmp_path / "a")
    path, stored = tmp_path / "a", zarr.open_array(tmp_path / "a", mode="r")[...]
    fields = (Field("x", (4, 6), "i16"), Field("y", (4, 6), "f64", cf=True))
    config = Config(samples_per_batch=1, fields=fields, backend="host")
    box = ((1, 5), (2, 8))
    with Pipeline(config, fit=[path]) as pipeline:
        pipeline.push([Sample(boxes=[Box(path, box, "x"), Box(path, box, "y")])])
        with next(pipeline.batches()) as batch:
            np.testing.assert_array_equal(batch["x"].numpy()[0], stored[1:5, 2:8])
            np.testing.assert_array_equal(batch["y"].numpy()[0], numbers[1:5, 2:8])
        with pytest.raises(
            wavetrain.Unsupported, match=r"field y: .*a\.npy: cf=True needs attributes, which only"
        ):
            pipeline.push([Sample(boxes=[Box(tmp_path / "a.npy", box, "y")])])
    with Reader(config) as reader:
        np.testing.assert_array_equal(reader.read(path, field="y"), numbers)
        np.testing.assert_array_equal(reader.read(path, field="x"), stored)
    with pytest.raises(TypeError, match="cf"):
        Field("x", cf=1)


def test_a_config_with_cf_has_the_numbers(tmp_path):
    uri, numbers = packed(tmp_path / "a")
    with Reader(cf=True, fit=[tmp_path / "a"]) as reader:
        for given in (uri, tmp_path / "a"):
            made = reader.read(given)
            assert made.dtype == np.float64
            np.testing.assert_array_equal(made, numbers)
    config = Config(samples_per_batch=1, sample_shape=(12, 20), cf=True, backend="host")
    with Pipeline(config) as pipeline:
        pipeline.push([Sample(tmp_path / "a", ((0, 12), (0, 20)))])
        with next(pipeline.batches()) as batch:
            np.testing.assert_array_equal(batch.numpy()[0], numbers.astype("f4"))
    with pytest.raises(ValueError, match="cf"):
        Pipeline(Config(samples_per_batch=1, fields=[Field("x", (3,))], cf=True, backend="host"))


def test_recipes_take_the_type_of_the_numbers(tmp_path):
    from wavetrain._fused import Fused

    packed(tmp_path / "a")
    sample = Sample(tmp_path / "a", ((0, 12), (0, 20)))
    for cf, dtype in ((False, "i2"), (True, "f8")):
        config = Config(samples_per_batch=1, sample_shape=(12, 20), cf=cf, backend="host")
        assert Fused([], sample, config, None).dtype == np.dtype(dtype)


def test_images_take_the_mark_and_the_field(tmp_path):
    uri, arrays = image(tmp_path / "image", levels=2)
    for level in range(2):
        array = zarr.open_array(tmp_path / f"image/s{level}", mode="r+")
        array.attrs.update({"scale_factor": 0.5, "add_offset": -3})
    found, marked = wavetrain.image(uri), wavetrain.image(f"{uri}#cf=1")
    assert marked.uri == f"{uri}#cf=1"
    assert [level.uri for level in marked.levels] == [f"{each.uri}#cf=1" for each in found.levels]
    with Reader(dtype="f64") as reader:
        made = reader.read(marked.levels[1].uri)
        np.testing.assert_array_equal(made, arrays[1] * 0.5 - 3)
    assert wavetrain.array_info(f"{uri}#level=1#cf=1").dtype == Dtype.F64
    plain = streamed(uri, [zoomed(2, filter="nearest")])
    sample = boxes_of(uri, tuple(FIELD.sample_shape), zoomed(2, filter="nearest"))
    made = stream([sample], [dataclasses.replace(FIELD, cf=True)])["x"]
    np.testing.assert_array_equal(made, plain * 0.5 - 3)
