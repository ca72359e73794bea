"""Tables of boxes: what they give is what the same samples give one by one, and what is wrong with
one has a name."""

from __future__ import annotations

import numpy
import pytest

import wavetrain
from wavetrain import Box, Column, Config, Field, Pipeline, Sample

FIELDS = [
    Field("x", (3, 8, 8), "f32", pad_mode="reflect"),
    Field("y", (), "i64"),
    Field("w", (2, 2), "f32"),
]
COUNT = 40


@pytest.fixture
def files(tmp_path):
    images = numpy.random.default_rng(0).integers(0, 255, (COUNT, 3, 8, 8), "u1")
    numpy.save(tmp_path / "images.npy", images)
    numpy.save(tmp_path / "other.npy", images[::-1].copy())
    numpy.save(tmp_path / "labels.npy", numpy.arange(COUNT) * 7)
    return tmp_path


def config(**changes) -> Config:
    return Config(**{"fields": FIELDS, "samples_per_batch": 8, "n_decode_threads": 1, **changes})


def stream(pipeline: Pipeline) -> list:
    """Tags and fields of each batch."""
    made = []
    for batch in pipeline.batches():
        with batch:
            fields = [batch[field.name].numpy().copy() for field in pipeline.config.fields]
            made.append(([*batch.info.tags], fields))
    return made


def same(one: list, other: list) -> None:
    assert [tags for tags, _ in one] == [tags for tags, _ in other]
    for (_, a), (_, b) in zip(one, other):
        assert all(map(numpy.array_equal, a, b))


@pytest.mark.parametrize("count", [0, 1, 8, 103, 1000])
def test_rows_are_the_samples_that_push_takes_one_by_one(files, count):
    dice = numpy.random.default_rng(count)
    index, shift = dice.integers(0, COUNT, count), dice.integers(-3, 4, (count, 2))
    flip = dice.choice([-1, 1], count)
    which = dice.integers(0, 2, count)
    weights = dice.random((count, 2, 2), "f4")
    tags = dice.integers(0, 2**63, count).astype("u8") * 2
    uris = [files / "images.npy", files / "other.npy"]
    labels = files / "labels.npy"
    begins = numpy.stack([index, 0 * index, *shift.T], 1)
    steps = numpy.stack([0 * index + 1] * 3 + [flip], 1)
    with Pipeline(config()) as pipeline:
        pipeline.push(
            Sample(
                boxes=[
                    Box(
                        uris[which[n]],
                        [(b, b + e) for b, e in zip(begins[n], (1, 3, 8, 8))],
                        "x",
                        step=steps[n],
                    ),
                    Box(labels, [(index[n], index[n] + 1)], "y"),
                    Box(array=weights[n], field="w"),
                ],
                tag=tags[n],
            )
            for n in range(count)
        )
        want = stream(pipeline)
        boxes = Column(uris, begins, (1, 3, 8, 8), step=steps, which=which)
        table = {"x": boxes, "y": Column(labels, index, 1), "w": weights}
        pipeline.push_boxes(table, tags=tags)
        same(stream(pipeline), want)
        # Fewer than the lookahead has room for, in two tables, between other samples.
        half = count // 2
        for rows in slice(0, half), slice(half, None):
            boxes = Column(uris, begins[rows], (1, 3, 8, 8), step=steps[rows], which=which[rows])
            table = {0: boxes, "y": Column(labels, index[rows], 1), "w": weights[rows]}
            pipeline.push([])
            pipeline.push_boxes(table, tags=tags[rows])
        same(stream(pipeline), want)


class Tensor:
    """What is asked of one of torch."""

    def __init__(self, array):
        self.numpy = lambda: array


def test_arrays_of_any_type_and_layout_are_taken_as_they_are(files):
    image = str(files / "images.npy")
    index = numpy.arange(16)
    begins = numpy.stack([index, 0 * index, 0 * index, 0 * index], 1)
    shape = (1, 3, 8, 8)
    ones = Config(samples_per_batch=16, sample_shape=(3, 8, 8), dtype="u8", n_decode_threads=1)
    want = numpy.load(image)[:16]
    wide = numpy.full((32, 8), -9)
    wide[::2, ::2] = begins
    with Pipeline(ones) as pipeline:
        for given, extents in [
            (begins, shape),
            (begins.astype("u1"), numpy.array(shape, "i2")),
            (numpy.asfortranarray(begins), [shape] * 16),
            (wide[::2, ::2], numpy.array([shape] * 16)),
            (begins.astype(">i4"), shape),
            (Tensor(begins), Tensor(numpy.array(shape))),
            (begins.tolist(), list(shape)),
            ([*map(tuple, begins)], shape),
        ]:
            pipeline.push_boxes(image, given, extents)
            given = None  # copied
            [batch] = [batch.numpy().copy() for batch in pipeline.batches(1)]
            assert numpy.array_equal(batch, want)
        changed = begins.copy()
        pipeline.push_boxes(image, numpy.concatenate([changed] * 3), shape, step=(1, 1, 1, -1))
        changed[:] = 99
        for batch in pipeline.batches(3):
            with batch:
                assert numpy.array_equal(batch.numpy(), want[..., ::-1])


def test_labels_are_arrays_lists_or_one_number(files):
    x = Column(files / "images.npy", numpy.zeros((8, 4), "i8"), (1, 3, 8, 8))
    numbers = numpy.arange(16, dtype="i4")
    with Pipeline(config(fields=FIELDS[:2])) as pipeline:
        for given, want in [
            (numbers[:8], range(8)),
            (numbers[::2], range(0, 16, 2)),
            (numbers[:8].astype("u1"), range(8)),
            ([*range(8)], range(8)),
            (numbers[7::-1], range(7, -1, -1)),
            (5, [5] * 8),
            (numpy.int16(-5), [-5] * 8),
        ]:
            pipeline.push_boxes({"x": x, "y": given})
            for batch in pipeline.batches(1):
                with batch:
                    assert [*batch["y"].numpy()] == [*want]


def refused(kind, text, make, *arguments, **named):
    with pytest.raises(kind) as caught:
        make(*arguments, **named)
    assert text in str(caught.value), str(caught.value)


def test_what_is_wrong_with_a_table_has_a_name(files):
    image, begins, shape = files / "images.npy", numpy.zeros((8, 4), "i8"), (1, 3, 8, 8)
    for kind, text, arguments, named in [
        (TypeError, "uri must be", (3, begins, shape), {}),
        (TypeError, "begins must be whole numbers (got float64)", (image, begins * 1.0, shape), {}),
        (TypeError, "begins must be whole numbers (got bool)", (image, begins > 0, shape), {}),
        (TypeError, "begins must be a whole number", (image, "abcd", shape), {}),
        (ValueError, "begins must be [samples, axes]", (image, begins[None], shape), {}),
        (ValueError, "begins must be from", (image, begins.astype("u8") - 1, shape), {}),
        (ValueError, "begins[1] must have 4 numbers", (image, [[0] * 4, [0] * 3], shape), {}),
        (ValueError, "axes of begins must be <= 16", (image, numpy.zeros((8, 17), "i8"), 1), {}),
        (ValueError, "shape must be 4 numbers, by axis, or 8 rows", (image, begins, shape[1:]), {}),
        (ValueError, "shape must be from 0", (image, begins, numpy.array(shape) * -1), {}),
        (ValueError, "shape must be >= 0", (image, begins, (1, 3, 8, -8)), {}),
        (ValueError, "step must be 4 numbers", (image, begins, shape), {"step": begins[:7] + 1}),
        (ValueError, "which must say", ([image] * 2, begins, shape), {}),
        (ValueError, "which must be 1 numbers", ([image] * 2, begins, shape), {"which": [0] * 7}),
    ]:
        refused(kind, text, Column, *arguments, **named)
    x = Column(image, begins, shape)
    with Pipeline(config()) as pipeline:
        many = "columns must have as many rows each ([7, 8] rows)"
        labels, large = "field 'y': labels must be an array, or a list", numpy.zeros((8, 9, 2))
        low = Column(image, begins, shape, at=3)
        for kind, text, table, tags in [
            (ValueError, "there is no field 'z': Config.fields has 'x', 'y', 'w'", {"z": x}, None),
            (ValueError, "there is no field 3: a batch has 3", {3: x}, None),
            (ValueError, "there is no field -1: a batch has 3", {-1: x}, None),
            (ValueError, many, {"x": x, "y": [0] * 7}, None),
            (ValueError, "none of them has rows", {"y": 3}, None),
            (ValueError, "none of them has rows", {}, None),
            (TypeError, labels, {"y": ["a"]}, None),
            (TypeError, "field 'y': must be a Column", {"y": "a"}, None),
            (ValueError, "bytes of the label of a sample must be <= 64", {"w": large}, None),
            (ValueError, "field 'x': at must be 3 numbers", {"x": low}, None),
            (ValueError, "tags must be 8 numbers", {"x": x}, [1]),
            (ValueError, "tags must be >= 0", {"x": x}, [-1] * 8),
        ]:
            refused(kind, text, pipeline.push_boxes, table, tags=tags)
        assert not pipeline.pending


def test_a_wrong_row_ends_its_table_behind_those_before_it(files):
    image, shape = files / "images.npy", numpy.array([(1, 3, 8, 8)] * 1000)
    shape[900, 2] = 7
    shape[900, 3] = 9
    begins = numpy.zeros((1000, 4), "i8")
    begins[:, 0] = numpy.arange(1000) % COUNT
    tags, seen = numpy.arange(1000), []
    with Pipeline(config(fields=FIELDS[:1])) as pipeline:
        pipeline.push_boxes({"x": Column(image, begins, shape)}, tags=tags)
        pipeline.push_boxes({"x": Column(image, begins[:8], shape[0])}, tags=tags[:8] + 5000)
        with pytest.raises(wavetrain.InvalidArgument) as caught:
            for batch in pipeline.batches():
                with batch:
                    seen += batch.info.tags
        assert str(caught.value).startswith("push: row 900: field x: axis 2: 9 places")
        assert caught.value.tag == 900
        for batch in pipeline.batches():
            with batch:
                seen += batch.info.tags
    assert seen == [*range(900), *range(5000, 5008)]


class Images:
    """A data set that answers for many."""

    def __init__(self, folder, fail=-1):
        self.folder, self.fail, self.calls = folder, fail, 0

    def __len__(self):
        return COUNT

    def boxes(self, indices):
        self.calls += 1
        if self.fail in indices:
            raise RuntimeError("not this one")
        index = numpy.array(indices)
        begins = numpy.zeros((len(index), 4), "i8")
        begins[:, 0] = index
        x = Column(self.folder / "images.npy", begins, (1, 3, 8, 8))
        return {"x": x, "y": index * 7}


def test_a_data_loader_asks_a_data_set_for_many_at_once(files):
    images = numpy.load(files / "images.npy")
    changes = {"fields": FIELDS[:2], "n_decode_threads": 1, "samples_per_batch": 1}
    for drop_last, batches in (False, 6), (True, 5):
        data = Images(files)
        loader = wavetrain.DataLoader(
            data, 7, shuffle=True, drop_last=drop_last, config=Config(**changes)
        )
        with loader:
            for epoch in range(2):
                seen = []
                for batch in loader:
                    with batch:
                        tags = [*batch.info.tags]
                        assert numpy.array_equal(batch["x"].numpy(), images[tags])
                        assert [*batch["y"].numpy()] == [7 * tag for tag in tags]
                        seen += tags
                assert len(seen) == len({*seen}) == min(COUNT, 7 * batches), epoch
            assert data.calls == 2
    with (
        wavetrain.DataLoader(Images(files, 3), 8, config=Config(**changes)) as loader,
        pytest.raises(RuntimeError, match="not this one"),
    ):
        next(iter(loader))
    short = Images(files)
    short.boxes = lambda indices: {"y": indices[1:]}
    with (
        wavetrain.DataLoader(short, 8, config=Config(**changes)) as loader,
        pytest.raises(ValueError, match="a row for each of 40 indices"),
    ):
        next(iter(loader))
    with pytest.raises(ValueError, match="config must be given"):
        wavetrain.DataLoader(Images(files), 8)
