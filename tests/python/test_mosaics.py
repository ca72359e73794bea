"""Samples of many boxes, against numpy: any fields, arrays, steps, axes, places and padding."""

from __future__ import annotations

import numpy
import pytest
from cubes import config
from parts import Store, reach

import wavetrain

hypothesis = pytest.importorskip("hypothesis", reason="there is no hypothesis here")
st = hypothesis.strategies

SHAPES = {"image": (6, 8), "volume": (3, 5, 4), "signal": (9,), "label": ()}
TYPES = {"image": "f32", "volume": "i64", "signal": "f64", "label": "i32"}
# Whose types have a cast to these.
SOURCES = {
    "image": ["volume", "plane", "track", "real"],
    "volume": ["volume", "plane", "track"],
    "signal": ["real"],
    "label": ["volume", "plane", "track", "one"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("mosaics"))


@st.composite
def field(draw, name):
    return wavetrain.Field(
        name,
        SHAPES[name],
        TYPES[name],
        pad_mode=draw(st.sampled_from(["none", "constant", "edge", "reflect"])),
        pad_value=draw(st.sampled_from([None, 7, 0])),
    )


def split(draw, extents):
    """Parts of a field that do not meet: (first, count) along each axis."""
    parts = [[(0, extent) for extent in extents]]
    for _ in range(draw(st.integers(0, 3))) if extents else ():
        part = parts.pop(draw(st.integers(0, len(parts) - 1)))
        axis = draw(st.integers(0, len(extents) - 1))
        first, count = part[axis]
        cut = draw(st.integers(0, count))
        for begin, length in ((first, cut), (first + cut, count - cut)):
            if length:
                parts.append([*part[:axis], (begin, length), *part[axis + 1 :]])
    kept = [part for part in parts if draw(st.integers(0, 4))]
    return [
        [(first, draw(st.integers(1, count))) if draw(st.booleans()) else (first, count)
         for first, count in part]
        for part in kept
    ]  # fmt: skip


def walk(draw, count, extent, mode):
    """(begin, end, step) of an axis of the array, with that many places; None: it has too few."""
    step = draw(st.sampled_from([1, 1, -1, 2, -2, 3, -3]))
    if count == 1:
        step = draw(st.sampled_from([1, -1, 5, -40]))
    hull = (count - 1) * abs(step) + 1
    if (mode == "none" or abs(step) > 1) and hull > extent:
        step, hull = 1, count
    low, high = 0, extent - hull
    if abs(step) == 1 and mode != "none":
        low, high = (1 - hull, extent - 1) if mode == "reflect" else (-9, extent + 9 - hull)
    if high < low:
        return None
    begin = draw(st.integers(low, high))
    end = begin + hull
    slack = draw(st.integers(0, abs(step) - 1))
    # A range may end behind the last place, before the next: with steps down, in front.
    return (begin - slack, end, step) if step < 0 else (begin, end + slack, step)


def box(draw, store, made, part):
    name = draw(st.sampled_from(SOURCES[made.name]))
    shape, mode = store.data[name].shape, made.pad_mode.name.lower()
    axes, walks = [None] * len(shape), []
    wanted = [axis for axis, (_, count) in enumerate(part) if count > 1 or draw(st.booleans())]
    if len(wanted) > len(shape):
        wanted = [axis for axis in wanted if part[axis][1] > 1]
    if len(wanted) > len(shape):
        return None
    for to, axis in zip(wanted, draw(st.permutations(range(len(shape))))):
        axes[axis] = to
    for axis, to in enumerate(axes):
        walks.append(walk(draw, 1 if to is None else part[to][1], shape[axis], mode))
    if None in walks:
        return None
    return store.box(
        name,
        [(begin, end) for begin, end, _ in walks],
        draw(st.sampled_from([made.name, list(SHAPES).index(made.name)])),
        at=[first for first, _ in part],
        step=[step for *_, step in walks],
        axes=axes,
    )


@hypothesis.settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.generate],  # to shrink one takes minutes
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(st.data())
def test_a_batch_is_what_numpy_makes_of_its_boxes(store, data):
    fields = [data.draw(field(name)) for name in SHAPES]
    samples = []
    for tag in range(data.draw(st.integers(1, 7))):
        boxes = [
            box(data.draw, store, made, part)
            for made in fields
            for part in split(data.draw, made.sample_shape)
        ]
        boxes = [each for each in boxes if each is not None]
        if boxes:
            order = data.draw(st.permutations(boxes))
            samples.append(wavetrain.Sample(boxes=order, tag=tag))
    hypothesis.assume(samples)
    several = config(
        sample_shape=(),
        fields=fields,
        samples_per_batch=3,
        max_boxes_per_sample=16,
        max_host_memory_bytes=1 << 27,
        n_io_threads=1,
    )
    with wavetrain.Pipeline(several) as pipeline:
        pipeline.push(samples)
        for batch in pipeline.batches():
            with batch:
                some, samples = samples[:3], samples[3:]
                assert batch.info.tags == tuple(sample.tag for sample in some)
                holds, filled_shape = store.holds(several, some), reach(several, some)
                for name in SHAPES:
                    array = batch[name].numpy()
                    assert array.dtype == holds[name].dtype and array.shape == holds[name].shape
                    assert array.tobytes() == holds[name].tobytes(), name
                    numpy.testing.assert_array_equal(batch[name].filled_shape, filled_shape[name])
                    del array  # or it outlives the pipeline
    assert not samples
