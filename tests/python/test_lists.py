"""Boxes of which axes are lists of indices, against zarr-python's oindex and numpy.ix_."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
import zarr

import wavetrain
from wavetrain import Box, Config, DataLoader, Field, Pipeline, Sample

SHAPE = (90, 70, 33)


def config(**settings) -> Config:
    return Config(
        **{
            "samples_per_batch": 1,
            "sample_shape": (4, 5, 6),
            "dtype": "u16",
            "max_indices_per_sample": 4096,
            "lookahead_samples": 4,
            "n_io_threads": 2,
            "n_decode_threads": 2,
            **settings,
        }
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """An array that zarr-python writes with shards and without, and numpy as a file."""
    folder = tmp_path_factory.mktemp("lists")
    data = np.random.default_rng(7).integers(1, 60000, SHAPE, dtype=np.uint16)
    arrays = {}
    for name, shards in (("sharded", (32, 20, 33)), ("chunked", None)):
        array = zarr.create_array(
            folder / name, shape=SHAPE, dtype="u2", chunks=(16, 10, 11), shards=shards
        )
        array[...] = data
        arrays[name] = array
    np.save(folder / "flat.npy", data)
    return folder, data, arrays


def read(sample: Sample, made: Config) -> np.ndarray:
    with Pipeline(made) as pipeline:
        pipeline.push([sample])
        pipeline.flush()
        return np.array(pipeline.pop())[0]


def draw(random: np.random.Generator, extent: int) -> np.ndarray:
    """Indices in one of the ways in which people have them."""
    count = int(random.integers(1, 12))
    kind = random.integers(0, 5)
    if kind == 0:
        return np.sort(random.choice(extent, count, replace=False))
    if kind == 1:
        return np.arange(extent)[:: int(random.integers(1, 4))][:count]
    if kind == 2:
        return np.arange(extent)[::-1][:count]
    if kind == 3:
        return np.repeat(random.integers(0, extent, -(-count // 2)), 2)[:count]
    return random.integers(0, extent, count)


@pytest.mark.parametrize("name", ["sharded", "chunked", "flat.npy"])
def test_products_of_lists_and_ranges_are_those_of_zarr_and_numpy(stored, name):
    folder, data, arrays = stored
    random = np.random.default_rng(len(name))
    for _ in range(60):
        axes, where = [], []
        for extent in SHAPE:
            if random.integers(0, 3) == 0:
                begin = int(random.integers(0, extent - 8))
                axes.append(slice(begin, begin + int(random.integers(1, 8))))
                where.append(np.arange(axes[-1].start, axes[-1].stop))
            else:
                axes.append(draw(random, extent))
                where.append(axes[-1])
        expected = data[np.ix_(*where)]
        if name in arrays:
            assert (arrays[name].oindex[tuple(where)] == expected).all()
        sample = Sample(str(folder / name), axes)
        got = read(sample, config(sample_shape=expected.shape))
        assert np.array_equal(got, expected), axes


def test_far_apart_indices_of_a_long_axis(tmp_path):
    array = zarr.create_array(
        tmp_path / "a", shape=(1 << 40,), dtype="f4", chunks=(64,), fill_value=-1
    )
    places = np.array([5, (1 << 40) - 1, 1 << 33, 5, (1 << 33) + 1])
    array[5], array[(1 << 40) - 1], array[1 << 33] = 50, 60, 70
    got = read(Sample(array, [places]), config(sample_shape=(5,), dtype="f32"))
    assert got.tolist() == [50, 60, 70, 50, -1]


def test_chunks_are_decoded_once_for_all_indices(stored):
    folder, data, _ = stored
    rows = np.random.default_rng(3).permutation(32)
    with Pipeline(config(sample_shape=(32, 20, 33))) as pipeline:
        pipeline.push([Sample(str(folder / "sharded"), [rows, (0, 20), (0, 33)])])
        pipeline.flush()
        assert np.array_equal(np.array(pipeline.pop())[0], data[rows, :20])
        assert pipeline.stats().chunks_planned == 2 * 2 * 3


def test_indices_outside_are_padding(stored):
    folder, data, _ = stored
    axes = [np.array([-1, 0, 89, 90]), (0, 5), (0, 6)]
    made = config(pad_mode="constant", pad_value=9)
    expected = np.full((4, 5, 6), 9, np.uint16)
    expected[1], expected[2] = data[0, :5, :6], data[89, :5, :6]
    assert np.array_equal(read(Sample(str(folder / "sharded"), axes), made), expected)
    edge = read(Sample(str(folder / "sharded"), axes), config(pad_mode="edge"))
    assert np.array_equal(edge, data[[0, 0, 89, 89], :5, :6])
    with pytest.raises(wavetrain.InvalidArgument, match="exceeds the array"):
        read(Sample(str(folder / "sharded"), axes), config())


def test_boxes_of_lists_have_places_in_fields(stored):
    folder, data, _ = stored
    uri, picked = str(folder / "sharded"), np.array([60, 3, 4, 3])
    made = config(
        sample_shape=(),
        dtype="f32",
        fields=[
            Field("image", (4, 12), "u16", pad_value=5),
            Field("mask", (3, 2), "u16"),
        ],
        max_boxes_per_sample=4,
    )
    boxes = [
        Box(uri, [picked, (7, 8), (0, 6)], "image", axes=(0, None, 1)),
        Box(uri, [(2, 4), (7, 8), np.array([8, 1, 30])], "mask", axes=(1, None, 0)),
    ]
    with Pipeline(made) as pipeline:
        pipeline.push([Sample(boxes=boxes)])
        pipeline.flush()
        batch = pipeline.pop()
        image, mask = np.array(batch["image"])[0], np.array(batch["mask"])[0]
    expected = np.full((4, 12), 5, np.uint16)
    expected[:, :6] = data[picked, 7, :6]
    assert np.array_equal(image, expected)
    assert np.array_equal(mask, data[2:4, 7][:, [8, 1, 30]].T)
    over = [boxes[0], dataclasses.replace(boxes[0], at=(0, 5))]
    overlap = pytest.raises(wavetrain.InvalidArgument, match="boxes 0 and 1 overlap")
    with Pipeline(made) as pipeline, overlap:
        pipeline.push([Sample(boxes=over)])


def test_limits_are_named_with_both_numbers(stored):
    uri, shape = str(stored[0] / "sharded"), (4, 5, 6)
    axes = [np.arange(0, 8, 2), np.arange(5), (0, 6)]
    assert read(Sample(uri, axes), config(max_indices_per_sample=20)).shape == shape
    for most in (0, 19):
        with pytest.raises(
            wavetrain.InvalidArgument, match=rf"20 indices.*max_indices_per_sample = {most}: raise"
        ):
            read(Sample(uri, axes), config(max_indices_per_sample=most))
    with pytest.raises(wavetrain.InvalidArgument, match="axis 1: 6 places from 0 on do not fit"):
        read(Sample(uri, [(0, 4), np.array([1, 3, 5, 1, 3, 5]), (0, 6)]), config())


def test_what_is_no_list_of_indices():
    for given, kind, words in (
        (np.zeros((2, 2), int), ValueError, "one axis"),
        (np.array([True, False]), TypeError, "flatnonzero"),
        (np.array([1.5]), (TypeError, ValueError), "index"),
        (np.array([], int), ValueError, "one at least"),
        (np.array([1 << 63], np.uint64), (ValueError, OverflowError), "index"),
    ):
        with pytest.raises(kind, match=words):
            Box("a", [given])
    box = Box(array=np.ones((4, 5)), aabb=[np.array([0, 2]), (0, 5)])
    made = config(sample_shape=(2, 5), dtype="f64", max_boxes_per_sample=1)
    refused = pytest.raises(wavetrain.InvalidArgument, match="gather its elements")
    with Pipeline(made) as pipeline, refused:
        pipeline.push([Sample(boxes=[box])])


def test_a_box_of_lists_is_a_value():
    box = Box("a", [np.array([3, 1]), (0, 4)])
    assert box.aabb == ((0, 2), (0, 4)) and box.lists == ((0, (3, 1)),)
    assert box == Box("a", [(0, 2), (0, 4)], lists=[(0, [3, 1])]) and hash(box) == hash(box)
    assert pickle.loads(pickle.dumps(box)) == box
    assert dataclasses.replace(box, field=1).lists == box.lists
    with pytest.raises(ValueError, match="axis 0 has 3 indices"):
        Box("a", [(0, 2)], lists=[(0, [3, 1, 2])])
    assert Sample("a", [np.array([3, 1]), (0, 4)]) == Sample(boxes=[box])


@pytest.mark.parametrize("name", ["sharded", "chunked", "flat.npy"])
def test_readers_read_them_into_arrays_of_any_strides(stored, name):
    folder, data, _ = stored
    uri, random = str(folder / name), np.random.default_rng(11)
    with wavetrain.Reader(max_indices_per_sample=4096) as reader:
        for turn in range(40):
            where = [draw(random, extent) for extent in SHAPE]
            expected = data[np.ix_(*where)]
            assert np.array_equal(reader.read(uri, where), expected), where
            block = np.zeros([2 * extent for extent in expected.shape[::-1]], np.uint16)
            out = block[::-2, ::2, ::-2].T if turn % 2 else block[::2, 1::2, ::2].T
            assert reader.read(uri, where, out=out) is out
            assert np.array_equal(out, expected), where
            assert np.count_nonzero(block) == expected.size
        got = reader.read(uri, [np.array([3, 1]), slice(None), slice(4, 6)])
        assert np.array_equal(got, data[[3, 1], :, 4:6])
        with pytest.raises(wavetrain.InvalidArgument, match="exceeds the array"):
            reader.read(uri, [np.array([3, 90]), (0, 4), (0, 4)])
    refused = pytest.raises(wavetrain.InvalidArgument, match="max_indices_per_sample = 0: raise")
    with wavetrain.Reader(dtype="u16") as reader, refused:
        reader.read(uri, [np.array([3, 1]), (0, 4), (0, 4)])


def test_a_loader_takes_them(stored):
    folder, data, _ = stored
    rows = np.random.default_rng(5).integers(0, 90, (12, 4))

    class Rows:
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            return Sample(str(folder / "sharded"), [rows[index], (0, 5), (0, 6)], tag=index)

    made = config(sample_shape=(4, 5, 6), max_indices_per_sample=4, samples_per_batch=3)
    with DataLoader(Rows(), 3, shuffle=True, config=made) as loader:
        seen = set()
        for batch in loader:
            for index, sample in zip(batch.info.tags, np.array(batch)):
                assert np.array_equal(sample, data[rows[index], :5, :6])
                seen.add(int(index))
    assert seen == set(range(12))


def test_recipes_and_statistics_refuse_them(stored):
    uri = str(stored[0] / "sharded")
    rows = np.array([60, 3, 4, 3])

    class Rows:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return Sample(uri, [rows, (0, 8), (0, 8)], tag=index)

    recipe = [wavetrain.augment.horizontal_flip(p=1.0)]
    made = config(sample_shape=(4, 8, 8), samples_per_batch=2, dtype="f32")
    with (
        pytest.raises((ValueError, wavetrain.WavetrainError), match="index lists"),
        DataLoader(Rows(), 2, transforms=recipe, config=made) as loader,
    ):
        next(iter(loader))
    with pytest.raises(ValueError, match="index lists"):
        wavetrain.statistics(uri, [rows, (0, 8), (0, 8)])


def test_a_loader_without_a_config_says_what_it_needs(stored):
    uri = str(stored[0] / "sharded")

    class Rows:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return Sample(uri, [np.array([60, 3]), (0, 8), (0, 8)], tag=index)

    with pytest.raises((ValueError, wavetrain.WavetrainError), match="config"):
        DataLoader(Rows(), 2)
