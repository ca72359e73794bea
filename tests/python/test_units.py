"""Boxes of images in physical units: which level, which voxels."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import zarr

import wavetrain
from wavetrain import Box, Config, Field, Pipeline, Sample

SCALE, BEGIN = (2.0, 0.5, 0.25), (100.0, 0.25, -3.0)  # of level 0: z, y, x


def pyramid(folder, version="0.6", factors=(1, 2, 4), extra=None):
    """An image of zarr-python, c z y x; levels hold numbers that tell which level they are."""
    group = zarr.open_group(folder, mode="w", zarr_format=3)
    datasets, arrays = [], []
    for number, factor in enumerate(factors):
        shape = (2, 16 // factor, 64 // factor, 96 // factor)
        values = np.arange(np.prod(shape), dtype="u4").reshape(shape) + 1_000_000 * number
        array = group.create_array(f"s{number}", shape=shape, chunks=(1, 8, 16, 16), dtype="u4")
        array[...] = values
        arrays.append(values)
        scale = [1.0, *(length * factor for length in SCALE)]
        middle = [(factor - 1) / 2 * length for length in SCALE]
        shift = [0.0, *(begin + more for begin, more in zip(BEGIN, middle))]
        steps = [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": shift},
        ]
        if version == "0.6":
            way = {"input": {"path": f"s{number}"}, "output": {"name": "physical"}}
            steps = [{"type": "sequence", "transformations": steps, **way}]
        datasets.append({"path": f"s{number}", "coordinateTransformations": steps})
    if extra is not None:
        datasets[-1]["coordinateTransformations"] = [extra]
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    named = {"coordinateSystems": [{"name": "physical", "axes": axes}]}
    multiscale = {**(named if version == "0.6" else {"axes": axes}), "datasets": datasets}
    group.attrs["ome"] = {"version": version, "multiscales": [multiscale]}
    return str(folder), arrays


def bounds_of(begins, ends, factor):
    """The corners of voxels of a level, which are those of level 0 as well."""
    found = []
    for begin, end, length, first in zip(begins, ends, SCALE, BEGIN):
        corner = first - length / 2
        found.append((corner + begin * factor * length, corner + end * factor * length))
    return found


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_bounds_at_corners_are_those_voxels_of_the_level_that_is_fine_enough(tmp_path, version):
    uri, arrays = pyramid(tmp_path / "i.zarr", version)
    image = pickle.loads(pickle.dumps(wavetrain.image(uri)))
    assert [axis.name for axis in image.axes] == ["c", "z", "y", "x"]
    assert image.axes[1] == wavetrain.Axis("z", "space", "micrometer")
    random = np.random.default_rng(3)
    config = Config(samples_per_batch=1, fields=[Field("x", (2, 2, 4, 8), "u32")])
    with Pipeline(config) as pipeline:
        for _ in range(60):
            level = int(random.integers(3))
            factor = 2**level
            extents = [2, 4, 8]
            begins = [int(random.integers(max(1, 16 // factor - 2 + 1))),
                      int(random.integers(64 // factor - 4 + 1)),
                      int(random.integers(96 // factor - 8 + 1))]  # fmt: skip
            ends = [begin + extent for begin, extent in zip(begins, extents)]
            units = bounds_of(begins, ends, factor)
            box = image.box(units, shape=extents)
            assert box == Box(uri, units=units, shape=extents)
            assert box.uri == f"{uri}/s{level}", (box, level)
            assert box.aabb == ((0, 2), *zip(begins, ends))
            pipeline.push([Sample(boxes=[box])])
            with pipeline.pop() as batch:
                where = tuple(slice(begin, end) for begin, end in box.aabb)
                np.testing.assert_array_equal(np.from_dlpack(batch)[0], arrays[level][where])


def test_a_voxel_belongs_to_the_box_if_its_centre_does(tmp_path):
    image = wavetrain.image(pyramid(tmp_path / "i.zarr")[0])
    centre = BEGIN[2] + 5 * SCALE[2]
    for low, high, voxels in [
        (centre, centre + 1e-3, (5, 6)),
        (centre - 1e-3, centre + 1e-3, (5, 6)),
        (centre + 1e-3, centre + SCALE[2], (6, 6)),
        (centre - 10.0, centre, (-35, 5)),
    ]:
        assert image.box([None, None, (low, high)]).aabb[3] == voxels
    whole = image.box([(0, 1), None, None, None], level=2)
    assert whole.uri.endswith("s2")
    assert whole.aabb == ((0, 1), (0, 4), (0, 16), (0, 24))


def test_shapes_and_units_that_do_not_fit_are_refused_with_the_fix(tmp_path):
    uri, _ = pyramid(tmp_path / "i.zarr")
    image = wavetrain.image(uri)
    units = bounds_of((0, 0, 0), (2, 4, 8), 1)
    for given, error, part in [
        ({"units": units, "shape": (2, 4, 9)}, ValueError, "no level has so many voxels"),
        ({"units": units, "shape": (1, 4, 8)}, ValueError, "2x4x8 voxels of level 0, not 1x4x8"),
        ({"units": units, "shape": (2, 4)}, ValueError, "a number for each pair of units, 3"),
        ({"units": units[:2]}, ValueError, "each axis of space, 3, or for each axis, 4"),
        ({"units": [(0, 1), (1, 0), (0, 1)]}, ValueError, "low < high"),
        ({"units": [(0, 1), (0, float("nan")), (0, 1)]}, ValueError, "both finite"),
        ({"units": [(0, 1), 3, (0, 1)]}, TypeError, r"\(low, high\)"),
        ({"units": [(0, 1), (0, 1e300), (0, 1)]}, ValueError, "beyond 2"),
        ({"units": units, "level": 3}, ValueError, "level"),
        ({"units": "z"}, TypeError, "for each axis"),
    ]:
        with pytest.raises(error, match=part):
            image.box(**given)
    with pytest.raises(TypeError, match="in the place of aabb"):
        Box(uri, [(0, 1)], units=units)
    with pytest.raises(TypeError, match="in the place of aabb"):
        Box(uri, shape=(1, 2, 3))


def test_images_without_a_scale_that_is_read_are_refused_by_name(tmp_path):
    axes = {"type": "mapAxis", "mapAxis": [0, 1, 3, 2], "output": {"name": "physical"}}
    uri, _ = pyramid(tmp_path / "m.zarr", extra=axes)
    image = wavetrain.image(uri)
    assert image.levels[2].scale is None
    units = bounds_of((0, 0, 0), (2, 4, 8), 1)
    assert image.box(units).uri.endswith("s0")
    with pytest.raises(ValueError, match="level 2 has no scale"):
        image.box(units, shape=(2, 4, 8))
    with pytest.raises(wavetrain.Unsupported, match=r"level 2 has no scale .*mapAxis"):
        wavetrain.array_info(f"{uri}#scale=2,1,1")
    document = tmp_path / "m.zarr" / "zarr.json"
    group = json.loads(document.read_text())
    group["attributes"]["ome"]["version"] = "0.7"
    document.write_text(json.dumps(group))
    listed = wavetrain.array_info(uri)
    assert [(entry.path, entry.level) for entry in listed.entries] == [
        ("s0", None), ("s1", None), ("s2", None)]  # fmt: skip
    for attempt in (
        lambda: wavetrain.image(uri),
        lambda: wavetrain.array_info(f"{uri}#level=0"),
        lambda: wavetrain.array_info(f"{uri}#scale=1,1,1"),
    ):
        with pytest.raises(wavetrain.Unsupported, match=r'"0\.7" is not read, only 0\.1 to'):
            attempt()
    with pytest.raises(wavetrain.WavetrainError, match="is an array"):
        wavetrain.image(f"{uri}/s0")
    assert wavetrain.array_info(f"{uri}/s0").shape == (2, 16, 64, 96)
