"""Boxes with an affine map in OME-NGFF images: their level, and physical units."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import zarr
from test_affine_boxes import boxes_of, refusal, resampled, stream, turned
from test_augmented_boxes import bits

import wavetrain
from wavetrain import Affine, Box, Config, Field, Pipeline, Sample

SHAPE = (2, 96, 120)  # c, y, x
UNIT = (1.0, 0.5, 0.4)  # length of a voxel of level 0
BEGIN = (0.0, 10.0, -3.0)  # where voxel 0 of level 0 lies
MAPPED = (1, 2)
FIELD = Field("x", (2, 12, 15), "f32", pad_mode="reflect")


def placements(levels: int) -> list[tuple[list[float], list[float]]]:
    """Scale and translation of each level; a coarse voxel lies at the middle of four finer ones."""
    found = []
    for level in range(levels):
        zoom = [1, 2**level, 2**level]
        scale = [unit * each for unit, each in zip(UNIT, zoom)]
        middles = [(each - 1) / 2 * unit for unit, each in zip(UNIT, zoom)]
        found.append((scale, [begin + middle for begin, middle in zip(BEGIN, middles)]))
    return found


def image(folder, version="0.5", levels=4, **changes) -> tuple[str, list[np.ndarray]]:
    """A group of zarr-python with a pyramid. The levels have nothing to do with each other, so that
    a voxel of the wrong one is seen. `changes` has a function of each dataset."""
    random = np.random.default_rng(levels)
    form = 3 if version == "0.5" else 2
    group = zarr.open_group(folder, mode="w", zarr_format=form)
    arrays, datasets = [], []
    for level, (scale, translation) in enumerate(placements(levels)):
        shape = [SHAPE[0], *(extent >> level for extent in SHAPE[1:])]
        values = random.integers(0, 60000, shape, dtype="u2")
        chunks = (1, 32, 32)
        written = group.create_array(f"s{level}", shape=shape, chunks=chunks, dtype="u2")
        written[...] = values
        arrays.append(values)
        steps = [{"type": "scale", "scale": scale}]
        steps += [{"type": "translation", "translation": translation}]
        datasets.append({"path": f"s{level}", "coordinateTransformations": steps})
    kinds = {"c": "channel", "y": "space", "x": "space"}
    axes = [{"name": name, "type": kind} for name, kind in kinds.items()]
    for change in changes.values():
        datasets = [change(level, dataset) for level, dataset in enumerate(datasets)]
    multiscale = {"axes": axes, "datasets": datasets}
    if version == "0.5":
        group.attrs["ome"] = {"version": version, "multiscales": [multiscale]}
    else:
        group.attrs["multiscales"] = [{"version": version, **multiscale}]
    return str(folder), arrays


@pytest.fixture(scope="module", params=["0.4", "0.5"])
def pyramid(request, tmp_path_factory):
    return image(tmp_path_factory.mktemp("pyramid") / "image", request.param)


def in_level(affine: Affine, level: int, levels: int = 4) -> Affine:
    """The same map in voxels of a level, in the order of operations that wavetrain.h has."""
    (scale, begin), (to_scale, to_begin) = placements(levels)[0], placements(levels)[level]
    if not affine.units and level == 0:
        return Affine(affine.matrix, affine.axes, filter=affine.filter)
    rows = []
    for axis, row in zip(affine.axes or MAPPED, affine.matrix):
        *factors, term = row
        if not affine.units:
            factors = [factor * scale[axis] for factor in factors]
            term = term * scale[axis] + begin[axis]
        rows.append(
            [*(f / to_scale[axis] for f in factors), (term - to_begin[axis]) / to_scale[axis]]
        )
    return Affine(rows, affine.axes, filter=affine.filter)


def zoomed(step: float, **more) -> Affine:
    return Affine([[step, 0, 7.3], [0, step, 5.1]], **more)


def streamed(uri, affines, shape=FIELD.sample_shape, **settings) -> np.ndarray:
    samples = [boxes_of(uri, tuple(shape), affine) for affine in affines]
    return stream(samples, [FIELD], **settings)["x"]


@pytest.mark.parametrize("step", [0.3, 1, 1.99, 1.9999999, 2, 3.9, 4, 7.99, 8, 20])
def test_the_coarsest_level_that_is_fine_enough_is_read(pyramid, step):
    uri, arrays = pyramid
    level = max(0, min(3, math.floor(math.log2(step * (1 + 1e-6)))))
    made = streamed(uri, [zoomed(step)])[0]
    by_hand = in_level(zoomed(step), level)
    assert (bits(made) == bits(streamed(f"{uri}/s{level}", [by_hand])[0])).all()
    wanted = resampled(arrays[level], by_hand, FIELD.sample_shape, "reflect")
    assert (bits(made) == bits(wanted)).all()


@pytest.mark.parametrize(
    "settings", [{}, {"chunk_cache_bytes": 4 << 20}, {"n_array_meta_cache": 1}]
)
def test_boxes_of_one_batch_may_read_different_levels(pyramid, settings):
    uri, arrays = pyramid
    random = np.random.default_rng(6)
    affines, levels = [], []
    for number in range(48):
        zoom = [1, 2, 4, 8][number * 7 % 4] * 1.3
        matrix = turned(random, 2, extents=SHAPE[1:], low=-0.1, high=0.1)
        matrix = [[*(zoom * factor for factor in row[:-1]), row[-1]] for row in matrix]
        given = None if number % 3 else int(random.integers(4))
        steps = [math.hypot(*row[:-1]) for row in matrix]
        levels.append(math.floor(math.log2(min(*steps, 15))) if given is None else given)
        affines.append(Affine(matrix, level=given, filter="linear" if number % 2 else "nearest"))
    assert {*levels} == {0, 1, 2, 3}
    made = streamed(uri, affines, batch=16, **settings)
    for affine, level, each in zip(affines, levels, made):
        wanted = resampled(arrays[level], in_level(affine, level), FIELD.sample_shape, "reflect")
        assert (bits(each) == bits(wanted.astype("f4"))).all()


@pytest.mark.parametrize("level", [None, 0, 1, 3])
def test_units_with_a_rotation(pyramid, level):
    uri, arrays = pyramid
    turn, step = math.radians(30), 1.1
    matrix = [
        [step * math.cos(turn), -step * math.sin(turn), 24.0],
        [step * math.sin(turn), step * math.cos(turn), 6.5],
    ]
    affine = Affine(matrix, level=level, units=True)
    taken = 1 if level is None else level  # voxels of level 1 have 1.0 and 0.8
    made = streamed(uri, [affine])[0]
    wanted = resampled(arrays[taken], in_level(affine, taken), FIELD.sample_shape, "reflect")
    assert (bits(made) == bits(wanted)).all()


def test_maps_and_plain_boxes_of_an_image_are_told_apart(pyramid):
    uri, arrays = pyramid
    box = [(0, 2), (3, 15), (4, 19)]
    samples = [[Box(f"{uri}#level=0", box)], boxes_of(uri, (2, 12, 15), zoomed(1))] * 3
    made = stream(samples, [FIELD], batch=6)["x"]
    wanted = resampled(arrays[0], zoomed(1), (2, 12, 15), "reflect")
    assert (made[0] == arrays[0][:, 3:15, 4:19]).all() and (made[1] == wanted).all()
    assert (made[2:] == np.tile(made[:2], (2, 1, 1, 1))).all()
    found = refusal(Box(uri, box), shape=(2, 12, 15), augment=False)
    assert isinstance(found, wavetrain.NotFound) and "s0" in str(found)


def test_a_level_is_read_once(pyramid):
    """The document of an image is not read again for each batch."""
    uri, _ = pyramid
    with Pipeline(Config(samples_per_batch=1, fields=[FIELD], augment=True)) as pipeline:
        opened = []
        for _ in range(4):
            pipeline.push([Sample(boxes=boxes_of(uri, (2, 12, 15), zoomed(2)))])
            pipeline.pop().release()
            opened.append(pipeline.stats().array_meta_misses)
    assert opened[1:] == opened[:1] * 3


def test_what_is_rewritten_is_found_after_forget(tmp_path):
    uri, _ = image(tmp_path / "image")
    config = Config(samples_per_batch=1, fields=[FIELD], augment=True)
    with Pipeline(config) as pipeline:

        def popped() -> np.ndarray:
            pipeline.push([Sample(boxes=boxes_of(uri, (2, 12, 15), zoomed(8)))])
            with pipeline.pop() as batch:
                return np.array(batch["x"], copy=True)[0]

        popped()
        _, arrays = image(tmp_path / "image", levels=2)
        pipeline.forget(uri)
        wanted = resampled(arrays[1], in_level(zoomed(8), 1), FIELD.sample_shape, "reflect")
        assert (popped() == wanted).all()


def without(name):
    def change(_, dataset):
        return {key: value for key, value in dataset.items() if key != name}

    return change


def scaled(level, scale):
    def change(at, dataset):
        if at == level:
            dataset["coordinateTransformations"][0]["scale"] = scale
        return dataset

    return change


def of_channels(level, dataset):
    dataset["coordinateTransformations"][1]["translation"][0] = float(level)
    return dataset


@pytest.mark.parametrize(
    ("affine", "change", "error", "text"),
    [
        (zoomed(1, level=4), None, "NotFound", "has no level 4, there are 4"),
        (zoomed(1, level=1), without("coordinateTransformations"), "Unsupported", "gives no scale"),
        (zoomed(1, units=True), without("coordinateTransformations"), "Unsupported", "has_units"),
        (zoomed(1, level=2), scaled(2, [1, 0, 1]), "InvalidArgument", "axis 1: with its scale"),
        (zoomed(1, level=2), scaled(2, [1, 1, 5e-324]), "InvalidArgument", "axis 2: with its"),
        (zoomed(1, level=2), scaled(2, [1, 1e308, 1]), "InvalidArgument", "singular"),
        (zoomed(1, level=2), scaled(0, [1, 0, 1]), "InvalidArgument", "singular"),
        (zoomed(1e300, level=2), scaled(0, [1, 1e308, 1]), "InvalidArgument", "matrix"),
        (zoomed(8), of_channels, "InvalidArgument", "axis 0 is copied"),
    ],
)
def test_what_is_wrong_with_an_image_is_named(tmp_path, affine, change, error, text):
    changes = {} if change is None else {"change": change}
    uri, _ = image(tmp_path / "image", **changes)
    found = refusal(boxes_of(uri, (2, 12, 15), affine)[0], shape=(2, 12, 15))
    assert type(found).__name__ == error and text in str(found), found
    assert "\\0" not in str(found) and "\0" not in str(found)
    assert uri in str(found) or text == "matrix"


@pytest.mark.parametrize("settings", [{}, {"n_array_meta_cache": 1}])
def test_an_axis_that_is_copied_has_the_extent_of_level_0(tmp_path, settings):
    uri, arrays = image(tmp_path / "image")
    other = np.concatenate([arrays[1], arrays[1][:1]])
    written = zarr.create_array(f"{uri}/s1", shape=other.shape, dtype="u2", overwrite=True)
    written[...] = other
    text = "axis 0 is copied, and has 3 voxels in level 1 and 2 in level 0: map it too"
    for affine in [zoomed(2), zoomed(2, level=1), zoomed(1, level=1, filter="nearest")]:
        box = boxes_of(uri, (2, 12, 15), affine)[0]
        found = refusal(box, shape=(2, 12, 15), field={"pad_mode": "edge"}, **settings)
        assert type(found).__name__ == "InvalidArgument" and text in str(found), found
        assert f"{uri}/s1" in str(found)
    # Other levels have the extents of level 0, and a box that maps all axes copies none.
    for step, level in (1, 0), (4, 2), (8, 3):
        made = streamed(uri, [zoomed(step)] * 3, **settings)
        wanted = resampled(arrays[level], in_level(zoomed(step), level), (2, 12, 15), "reflect")
        assert all((bits(each) == bits(wanted)).all() for each in made)
    every = Affine([[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]], (0, 1, 2))
    wanted = resampled(other, in_level(every, 1), (2, 12, 15), "reflect")
    assert (bits(streamed(uri, [every], **settings)[0]) == bits(wanted)).all()


def test_extents_are_those_of_the_files_that_are_there(tmp_path):
    uri, arrays = image(tmp_path / "image")
    wanted = resampled(arrays[1], in_level(zoomed(2), 1), (2, 12, 15), "reflect")
    shutil.move(f"{uri}/s0", f"{uri}/moved")  # as of an image of which coarse levels were copied
    assert (bits(streamed(uri, [zoomed(2)])[0]) == bits(wanted)).all()
    shutil.move(f"{uri}/moved", f"{uri}/s0")
    config = Config(samples_per_batch=1, fields=[FIELD], augment=True)
    document = tmp_path / "image" / "s0" / "zarr.json"
    whole = document.read_text()
    with Pipeline(config) as pipeline:
        for extent in (2, 5, 2):
            made = json.loads(whole)
            made["shape"][0] = extent
            document.write_text(json.dumps(made))
            pipeline.push([Sample(boxes=boxes_of(uri, (2, 12, 15), zoomed(2)))])
            if extent == 2:
                with pipeline.pop() as batch:
                    assert (bits(np.array(batch["x"])[0]) == bits(wanted)).all()
                continue
            with pytest.raises(wavetrain.InvalidArgument, match="2 voxels in level 1 and 5 in"):
                pipeline.pop()
            pipeline.reset()


def test_an_image_without_scales_has_its_level_0(tmp_path):
    uri, arrays = image(tmp_path / "image", change=without("coordinateTransformations"))
    made = streamed(uri, [zoomed(8), zoomed(8, level=0)])
    wanted = resampled(arrays[0], zoomed(8), FIELD.sample_shape, "reflect")
    assert (made == wanted).all()


def test_an_array_has_level_0_alone(pyramid):
    uri, arrays = pyramid
    for affine, text in [
        (zoomed(1, level=1), "names an array, which has level 0 alone"),
        (zoomed(1, units=True), "names an array, which has no physical units"),
    ]:
        found = refusal(boxes_of(f"{uri}/s0", (2, 12, 15), affine)[0], shape=(2, 12, 15))
        assert isinstance(found, wavetrain.InvalidArgument) and text in str(found), found
    made = streamed(f"{uri}/s1", [zoomed(8, level=0)])[0]
    assert (made == resampled(arrays[1], zoomed(8), FIELD.sample_shape, "reflect")).all()


def test_groups_that_are_no_image_name_their_arrays(tmp_path):
    group = zarr.open_group(tmp_path / "plain", mode="w")
    group.create_array("inside", shape=(4, 4, 4), dtype="u1")
    found = refusal(boxes_of(str(tmp_path / "plain"), (2, 4, 4), zoomed(1))[0], shape=(2, 4, 4))
    assert isinstance(found, wavetrain.NotFound) and "inside" in str(found), found
    found = refusal(boxes_of(str(tmp_path / "none"), (2, 4, 4), zoomed(1))[0], shape=(2, 4, 4))
    assert isinstance(found, wavetrain.NotFound) and str(tmp_path / "none") in str(found), found


def test_a_mark_in_the_uri_is_refused_and_so_are_levels_below_0(pyramid):
    uri, _ = pyramid
    box = boxes_of(f"{uri}#level=1", (2, 12, 15), zoomed(1))[0]
    assert "leave out what begins with #" in str(refusal(box, shape=(2, 12, 15)))
    with pytest.raises(ValueError, match="level"):
        zoomed(1, level=-1)
    with pytest.raises(TypeError, match="units"):
        zoomed(1, units=1)


def test_several_images_in_a_group_are_refused(tmp_path):
    uri, _ = image(tmp_path / "image")
    document = json.loads((tmp_path / "image" / "zarr.json").read_text())
    document["attributes"]["ome"]["multiscales"] *= 2
    (tmp_path / "image" / "zarr.json").write_text(json.dumps(document))
    found = refusal(boxes_of(uri, (2, 12, 15), zoomed(1))[0], shape=(2, 12, 15))
    assert isinstance(found, wavetrain.Unsupported) and "several images" in str(found), found
