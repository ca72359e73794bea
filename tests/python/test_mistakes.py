"""Mistakes of new users, one a row: each text has the name of what is wrong, and the fix.

In: calls that each make one. Out: exceptions of Python or of wavetrain, in words of Python, that
show a refused value in short.
"""

from __future__ import annotations

import re

import numpy
import pytest
from cubes import EDGE, config

import wavetrain
from wavetrain import epoch

BOX, BEGINS = [(0, EDGE)] * 3, [[0, 0, 0]]
ONE = [wavetrain.Sample("a.zarr", BOX)]

CALLS = [
    # Settings.
    (lambda: wavetrain.Config(8), "Config takes names alone: give samples_per_batch=.."),
    (lambda: config(samples_per_batch="8"), "samples_per_batch must be a whole number (got '8')"),
    (lambda: config(samples_per_batch=8.0), "samples_per_batch must be a whole number (got 8.0)"),
    (lambda: config(sample_shape=8), "sample_shape must be a sequence, an item per axis (got 8)"),
    (lambda: config(sample_shape=(8.0, 8)), "sample_shape[0] must be a whole number (got 8.0)"),
    (lambda: config(sample_shape=(None,)), "sample_shape[0] must be a whole number (got None)"),
    (lambda: config(dtype="flaot32"), "unknown dtype: 'flaot32'; it is one of f32, bf16"),
    (lambda: config(dtype="f4"), "unknown dtype: 'f4', which is f32 here; it is one of f32, bf16"),
    (lambda: config(backend="gpu"), "backend must be one of 'auto', 'host', 'cuda' (got 'gpu')"),
    (lambda: config(pad_mode="mirror"), "pad_mode must be one of 'none', 'constant', 'edge'"),
    (lambda: config(pad_value="0"), "pad_value must be a number (got '0')"),
    (lambda: config(sample_shap=(8,)), "Config has no sample_shap: the nearest name is sample_"),
    (lambda: config(batch_size=3), "Config has no batch_size: give samples_per_batch"),
    (lambda: config(chunk_cache_bytes=1e9), "chunk_cache_bytes must be a whole number (got 1000"),
    (lambda: config(digest="yes"), "digest must be True or False (got 'yes')"),
    (lambda: wavetrain.Pipeline(config(memory=5)), "memory must be one that may be written: of"),
    (lambda: wavetrain.Pipeline({}), "config must be a wavetrain.Config (got {})"),
    (
        lambda: wavetrain.Pipeline(config(), files="s3://x"),
        "as wavetrain.fsspec(fs) and",
    ),
    (lambda: wavetrain.set_log_level("debug"), "a number, such as wavetrain.LOG_DEBUG (got 'deb"),
    # Samples and boxes.
    (lambda: wavetrain.Sample("a", (0, 8, 0, 8)), "expected slice or (start, stop) tuple; got int"),
    (lambda: wavetrain.Sample("a", 5), "aabb must be a sequence, an item per axis (got 5)"),
    (lambda: wavetrain.Sample("a", [(0.0, 8.0)]), "aabb axis 0 start must be a whole number (got"),
    (lambda: wavetrain.Sample(b"a", BOX), "uri must be a str or a path (got b'a')"),
    (lambda: wavetrain.Sample(BOX, "a"), "uri must be a str, a path or a zarr.Array (got [(0, 8)"),
    (lambda: wavetrain.Sample("a", BOX, tag="x"), "tag must be a whole number (got 'x')"),
    (lambda: wavetrain.Sample(boxes=[("a", BOX)]), "boxes[0] must be a wavetrain.Box (got ('a'"),
    (lambda: wavetrain.Box(array="x"), "give numpy.asarray(..) of the values (got 'x')"),
    (lambda: wavetrain.Box([1, 2]), "(give numpy.asarray(..) of what is none) or a number (got"),
    (lambda: wavetrain.Box("a", BOX, at=3), "at must be a sequence, an item per axis (got 3)"),
    (lambda: wavetrain.Sample(url="a", aabb=BOX), "Sample has no url: give uri"),
    (lambda: wavetrain.Sample("a", box=BOX), "Sample has no box: give aabb, or boxes=[Box(uri, aa"),
    (lambda: wavetrain.Sample("a", aabbs=BOX), "Sample has no aabbs: the nearest name is aabb"),
    (lambda: wavetrain.Sample("a", BOX, label=1), "Sample has no label: give tag, a whole number"),
    (lambda: wavetrain.Sample("a", BOX, step=1), "give boxes=[Box(uri, aabb, step=..)]"),
    (lambda: wavetrain.Sample("a", BOX, 1, 2), "Sample takes 3 values without a name: give boxes="),
    (lambda: wavetrain.Box("a", roi=BOX), "Box has no roi: give aabb"),
    (lambda: wavetrain.Box("a", BOX, tag=1), "Box has no tag: give it to Sample"),
    (lambda: wavetrain.Box("a", BOX, 0, (0,)), "Box takes 3 values without a name: give at=.."),
    (lambda: wavetrain.Box("a", BOX, augment={}), "augment must be a wavetrain.Augment (got {})"),
    # Tables.
    (lambda: wavetrain.Column("a", BEGINS, None), "shape must have the places of the box along"),
    (lambda: wavetrain.Column("a", [0.0], (8,)), "each of begins must be a whole number (got 0.0)"),
    (lambda: wavetrain.Column("a", BEGINS, (8, 8)), "shape must be 3 numbers, by axis, or 1 rows"),
    (lambda: wavetrain.Column("a", aabb=BOX), "Column has no aabb: give begins and shape"),
    (lambda: wavetrain.Column(*"abcd"), "Column takes 3 values without a name: give step=.."),
    # Arithmetic.
    (lambda: wavetrain.Augment(scale="2"), "scale must be a number (got '2')"),
    (lambda: wavetrain.Augment(scale=["2"]), "scale must be a number (got '2')"),
    (lambda: wavetrain.Augment(clamp=[0, None]), "clamp must be a number (got None)"),
    (lambda: wavetrain.Augment(scales=2), "Augment has no scales: the nearest name is scale"),
    (lambda: wavetrain.Augment(2), "Augment takes names alone: give scale=.."),
    (lambda: wavetrain.Erase((0,), (1,), 0, 1), "Erase takes 3 values without a name (got 4)"),
    (lambda: wavetrain.Erase((0,), (1, 1)), "must have an item per axis (got (0,) and (1, 1))"),
    (lambda: wavetrain.Affine("x"), "matrix must have a row for each axis (got 'x')"),
    (lambda: wavetrain.Affine(5), "matrix must have a row for each axis (got 5)"),
    (lambda: wavetrain.Affine([1, 0]), "matrix must have rows of numbers (got [1, 0])"),
    (lambda: wavetrain.Affine([["a", 0]]), "matrix must be a number (got 'a')"),
    (lambda: wavetrain.Affine([[1, 0]], angle=3), "Affine has no angle: "),
    # Loaders and their orders.
    (lambda: wavetrain.DataLoader("a.zarr", 4), "which is a Sample, as a list of them has (got 'a"),
    (lambda: wavetrain.DataLoader(iter(ONE), 4), "which is a Sample, as a list of them has (got <"),
    (lambda: wavetrain.DataLoader([("a", BOX)], 1), "dataset[0] must be a wavetrain.Sample (got ("),
    (lambda: wavetrain.DataLoader(ONE, 2.5), "batch_size must be a whole number (got 2.5)"),
    (lambda: wavetrain.DataLoader(ONE, 1, shuffle="yes"), "shuffle must be True or False (got 'y"),
    (lambda: wavetrain.DataLoader(ONE, 1, rank=1), "rank must be below world, which is 1 (got 1)"),
    (lambda: wavetrain.DataLoader(ONE, 1, rank=4, world=4), "below world, which is 4 (got 4)"),
    (
        lambda: wavetrain.DataLoader(ONE, 1, collate_fn=list),
        "give transforms, which take the",
    ),
    (
        lambda: wavetrain.DataLoader(ONE, 1, transforms=["flip"]),
        "transforms[0] must be callable",
    ),
    (lambda: epoch.Epoch(10, rank=3, world=2), "rank must be below world, which is 2 (got 3)"),
    (lambda: epoch.Epoch(10, batch_size=3), "Epoch has no batch_size: give batch"),
    (lambda: epoch.split([1, 2], [0.5, 0.5]), "n must be a whole number (got [1, 2])"),
    # The module.
    (lambda: wavetrain.Dataloader, "wavetrain has no Dataloader: the nearest name is DataLoader"),
    (lambda: wavetrain.open, "wavetrain.reader().read(uri, box) reads one box"),
    (lambda: wavetrain.Dataset, "any object with len(dataset) and dataset[index], a Sample"),
    (lambda: wavetrain.store("memory://"), "store must be a Store of zarr-python 3, or a zarr.Arr"),
    (lambda: wavetrain.fsspec("s3"), "fs must be a file system of fsspec (got 's3')"),
    (lambda: wavetrain.array_info("a", store=1), "array_info has no store: give files"),
    (lambda: wavetrain.statistics("a", axes=1), "statistics has no axes: give axis"),
    (lambda: wavetrain.statistics("a", aabb=1), "statistics has no aabb: give box"),
    (lambda: wavetrain.array_info(None), "uri must be a str, a path or a zarr.Array (got None)"),
]

OPEN = [
    (lambda to, _: to.push(5), "push([sample]) for one (got 5)"),
    (
        lambda to, _: to.push([wavetrain.Box("a", BOX)]),
        "made by Sample(uri, aabb) or Sample(",
    ),
    (lambda to, _: to.push_boxes("a.zarr"), "a Column, which a uri with begins and a shape makes"),
    (lambda to, _: to.push_boxes([wavetrain.Column("a", BEGINS, (8, 8, 8))]), "a dict by field, {"),
    (lambda to, _: to.lend(5), "array must be one that may be written: of numpy, torch, or a buff"),
    (lambda to, _: to.forget(5), "uri must be a str, a path or a zarr.Array (got 5)"),
    (lambda to, _: to.batches(2.0), "n must be a whole number (got 2.0)"),
    (lambda to, _: to.get_batch(), "a Pipeline has no get_batch: give pop()"),
    (lambda to, _: to.put([]), "a Pipeline has no put: give push(samples)"),
    (lambda to, _: to.stop(), "a Pipeline has no stop: give close()"),
    (lambda to, _: to.read("a", BOX), "wavetrain.reader().read(uri, box) reads one box"),
    (lambda to, _: to.pusch([]), "a Pipeline has no pusch: the nearest name is push"),
    (lambda to, _: to.pop(timeout=3), "pop takes nothing: Config(pop_timeout_s=..) is how long"),
    (lambda to, _: to.pop(3), "pop takes nothing: Config(pop_timeout_s=..) is how long it waits"),
    (lambda to, _: to.batches(2).next(), "a Batches has no next"),
    (lambda _, batch: batch.data, "a batch has no data: give batch.torch() or batch.numpy()"),
    (lambda _, batch: batch.tag, "a batch has no tag: give batch.info.tags"),
    (lambda to, _: to.run(), "a Pipeline has no run: give pop()"),
    (lambda to, _: to.build(), "a Pipeline has no build: it is open as it is made: leave it out"),
    (lambda _, batch: batch == 3, "give batch.numpy() or batch.torch(), which do (got 3)"),
    (lambda _, batch: batch != numpy.ones(3), "which do (got an array of 3 float64)"),
    (lambda _, batch: batch[0], "batch.numpy()[0] is its first sample"),
]

KINDS = (TypeError, ValueError, AttributeError)
OUT = numpy.zeros((EDGE,) * 3, "u2")


@pytest.mark.parametrize(("call", "text"), CALLS, ids=[text for _, text in CALLS])
def test_a_mistake_is_named_with_the_fix(call, text):
    with pytest.raises(KINDS, match=re.escape(text)) as caught:
        call()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(("call", "text"), OPEN, ids=[text for _, text in OPEN])
def test_a_mistake_with_what_is_open_is_named_with_the_fix(cube, pipeline, call, text):
    stream = pipeline(samples_per_batch=1)
    stream.push([cube.sample(0)])
    with stream.pop() as batch, pytest.raises(KINDS, match=re.escape(text)):
        call(stream, batch)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda by, uri: by.read(uri, 5), "box must have a slice or (start, stop) for each axis"),
        (
            lambda by, uri: by.read(uri, BOX, [0] * 8),
            "out must be one that may be written: of",
        ),
        (
            lambda by, uri: by.read(uri, BOX, OUT[0]),
            "out must have the shape of the box, (8, 8",
        ),
        (lambda by, uri: by.read(uri, BOX, OUT.astype("f4")), "out must be an array of u16 of 2 b"),
        (lambda by, uri: by.get(uri, BOX), "a Reader has no get"),
        (lambda by, uri: by.read(uri, aabb=BOX), "read has no aabb: give box"),
        (lambda by, uri: by.read(uri, BOX, OUT, 1), "read takes 3 values without a name: give fi"),
    ],
)
def test_a_mistake_with_a_reader_is_named_with_the_fix(cube, call, text):
    with wavetrain.Reader() as reader, pytest.raises(KINDS, match=re.escape(text)):
        call(reader, cube)


def test_what_a_reader_cannot_read_is_told_without_a_function_of_c(cube):
    with wavetrain.Reader() as reader, pytest.raises(wavetrain.RankMismatch) as caught:
        reader.read(cube, [(0, 1)])
    assert str(caught.value).startswith("read: ") and caught.value.what == "read"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"axis": 1.0}, "axis must be a whole number (got 1.0)"),
        ({"axis": "z"}, "axis must be a whole number (got 'z')"),
        ({"axis": (0, 1)}, "axis must be a whole number (got (0, 1))"),
        ({"axis": 3}, "axis must be from 0 to 2 (got 3)"),
        ({"percentiles": [1, 99]}, "percentiles must be True or False (got [1, 99])"),
    ],
)
def test_a_mistake_with_statistics_is_named(cube, wrong, text):
    with pytest.raises(KINDS, match=re.escape(text)):
        wavetrain.statistics(cube, **wrong)


def test_a_sample_of_a_zarr_array_has_the_ends_that_slices_leave_open(tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "a", shape=(5, 7), dtype="u1")
    assert wavetrain.Sample(array, numpy.s_[:, 2:]).aabb == ((0, 5), (2, 7))
    with pytest.raises(ValueError, match="slice stop is required"):
        wavetrain.Sample(str(tmp_path / "a"), numpy.s_[:, 2:])


@pytest.mark.parametrize("number", [numpy.float32(2), numpy.array(2), numpy.int64(2), True])
def test_what_stands_for_a_number_is_one(number):
    assert wavetrain.Augment(scale=number).scale == (float(number),)
    assert wavetrain.Augment(scale=[number] * 2).scale == (float(number),) * 2
    assert wavetrain.Affine([[number, 0]]).matrix == ((float(number), 0.0),)


def test_a_batch_is_itself_alone(cube, pipeline):
    stream = pipeline(samples_per_batch=1, n_batch_slots=2)
    stream.push(cube.samples(2))
    with stream.pop() as first, stream.pop() as second:
        assert first == first and first != second and first != None  # noqa: E711
        assert [second, first].index(first) == 1 and len({first, second, first}) == 2


def test_a_sample_of_a_group_is_told_by_name(pipeline):
    zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")
    group = zarr.open_group(zarr.storage.MemoryStore())
    stream = pipeline(samples_per_batch=1)
    stream.push([wavetrain.Sample(group, BOX)])
    with pytest.raises(wavetrain.NotFound, match="is a group: name one of the arrays in it"):
        stream.pop()
