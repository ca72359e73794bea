"""Boxes, samples of them and tables of fields: values that are taken as they are, or refused by the
name of what is wrong, before a pipeline has them."""

from __future__ import annotations

import dataclasses
import pickle

import numpy
import pytest
from cubes import config
from test_border import anything, boxes, outcome, thorough

import wavetrain
from wavetrain import Box, Field, Sample, _native
from wavetrain._config import to_native

hypothesis = pytest.importorskip("hypothesis", reason="there is no hypothesis here")
st = hypothesis.strategies

IMAGE = Field("image", (4, 6), "f32")


def refused(name, make, *arguments, **named):
    with pytest.raises((TypeError, ValueError)) as caught:
        make(*arguments, **named)
    assert str(caught.value).startswith(name), str(caught.value)


def test_a_box_is_refused_by_the_name_of_what_is_wrong():
    pairs = [(0, 4), (0, 6)]
    for name, aabb, named in (
        ("uri must", pairs, {"uri": object()}),
        ("aabb axis 1: expected slice", [(0, 4), 6], {}),
        ("aabb axis 0: slice stop is required", [slice(0, None)], {}),
        ("aabb axis 0: slice start is required (got slice(None, 3, -1))", [slice(None, 3, -1)], {}),
        ("aabb axis 0: slice step must not be 0", [slice(0, 4, 0)], {}),
        ("aabb axis 0: slice step must be a whole", [slice(0, 4, 1.5)], {}),
        ("aabb axis 0: slice(0, 4, -1) counts down", [slice(0, 4, -1)], {}),
        ("aabb axis 0 start must be <=", [slice(2**63 - 1, 4, -1)], {}),
        ("field must be", pairs, {"field": None}),
        ("field must be <= 7", pairs, {"field": 8}),
        ("at must be a sequence", pairs, {"at": 3}),
        ("at[1] must be >= 0", pairs, {"at": (0, -1)}),
        ("step[0] must not be 0", pairs, {"step": (0, 1)}),
        ("step must have an item per axis of aabb, 2", pairs, {"step": (2,)}),
        ("step must have an item per axis of aabb, 2", pairs, {"step": (2, 2, 2)}),
        ("step[0] is given, and also the step of a slice", [slice(0, 4, 2)], {"step": (2,)}),
        ("axes[0] must be >= 0", pairs, {"axes": (-1, 0)}),
        ("axes[0] must be <= 15", pairs, {"axes": (16, 0)}),
        ("axes[0] must be a whole", pairs, {"axes": "01"}),
        ("axes[1] must not be 0, as axes[0] is", pairs, {"axes": (0, 0)}),
        ("axes must have an item per axis of aabb, 2", pairs, {"axes": (0,)}),
        ("axes[1] is None, but an axis that is dropped has 1 element", pairs, {"axes": (0, None)}),
        ("the number of axes of at", pairs, {"at": [0] * 17}),
    ):
        refused(name, Box, named.pop("uri", "a"), aabb, **named)


def test_a_box_is_a_value():
    box = Box("a", [(0, 1), slice(7, None, -3)], "mask", at=[1, 2], axes=[None, 1])
    same = Box("a", [(0, 1), (0, 8)], "mask", at=(1, 2), step=(1, -3), axes=(None, 1))
    assert box == same and hash(box) == hash(same) and box.places(1) == 3
    assert pickle.loads(pickle.dumps(box)) == box == dataclasses.replace(box)
    assert Box("a", [(0, 4)], step=[1]) == Box("a", [slice(0, 4, 1)]) and box != Box("a", [(0, 4)])
    sample = Sample(boxes=iter([box, same]), tag=3)
    assert pickle.loads(pickle.dumps(sample)) == sample == Sample(boxes=(box, box), tag=3)
    assert dataclasses.replace(sample, tag=4).boxes == sample.boxes
    assert (sample.uri, sample.aabb) == ("", ())
    assert repr(sample).startswith("Sample(boxes=(Box(uri='a', aabb=((0, 1), (0, 8)), field='mask'")
    plain = Sample("a", [(0, 4)], 3)
    assert plain.boxes == () and dataclasses.replace(plain, tag=4) == Sample("a", [(0, 4)], 4)
    assert repr(plain) == "Sample(uri='a', aabb=((0, 4),), tag=3)"


def test_a_sample_has_boxes_or_a_uri_and_a_box():
    box = Box("a", [(0, 4)])
    refused("uri and boxes are both given", Sample, "a", [(0, 4)], boxes=[box])
    refused("aabb and boxes are both given", Sample, aabb=[(0, 4)], boxes=[box])
    refused("boxes must be a sequence", Sample, boxes=box)
    refused("boxes[1] must be a wavetrain.Box", Sample, boxes=[box, ("a", [(0, 4)])])
    refused("the number of boxes must be >= 1", Sample, boxes=[])
    refused("the number of boxes must be <= 255", Sample, boxes=[box] * 256)
    refused("uri must", Sample)
    refused("aabb must", Sample, "a")
    refused("tag must", Sample, boxes=[box], tag=-1)
    assert len(Sample(boxes=[box] * 255).boxes) == 255


def test_a_field_and_a_table_are_refused_by_the_name_of_what_is_wrong():
    for name in ("", "a/b", "a\0", "a\nb", "\x85", "\ud800", "é" * 32, 5, None, b"a"):
        refused("name must", Field, name)
    assert Field("é" * 31 + "x").name.encode()[-1:] == b"x"
    for name, given in (
        ("sample_shape[1] must be >= 1", {"sample_shape": (4, 0)}),
        ("sample_shape must be a sequence", {"sample_shape": 4}),
        ("the number of axes of sample_shape", {"sample_shape": [1] * 17}),
        ("dtype: unknown dtype", {"dtype": "f33"}),
        ("dtype_bytes must be <= 16", {"dtype_bytes": 17}),
        ("pad_mode must be one of", {"pad_mode": "wrap"}),
        ("pad_value must be a number", {"pad_value": "0"}),
    ):
        refused(name, Field, "a", **given)
    for name, given in (
        ("fields must be a sequence", 5),
        ("fields must be a sequence", {"image": IMAGE}),
        ("fields[1] must be a wavetrain.Field", [IMAGE, "mask"]),
        ("fields[1] must have a name of its own (got 'image')", [IMAGE, IMAGE]),
        ("the number of fields must be <= 8", [Field(f"f{n}") for n in range(9)]),
        ("sample_shape is missing", []),
    ):
        refused(name, wavetrain.Config, samples_per_batch=1, fields=given)
    for name, value in (
        *(("sample_shape", (4,)), ("dtype", "u8"), ("dtype_bytes", 1)),
        *(("pad_mode", "edge"), ("pad_value", 0)),
    ):
        named = {"samples_per_batch": 1, "fields": [IMAGE], name: value}
        refused(f"{name} is set, and so is fields", wavetrain.Config, **named)


def test_a_table_is_kept_and_reaches_the_library(pipeline):
    fields = (
        Field("image", iter([4, 6]), numpy.float32, pad_mode="EDGE"),
        Field("mask", [4, 6], "u8", pad_value=numpy.int64(3)),
        Field("label", dtype="int64"),
    )
    taken = config(sample_shape=(), fields=iter(fields))
    assert taken.fields == fields and hash(taken) == hash(config(sample_shape=(), fields=fields))
    assert pickle.loads(pickle.dumps(taken)) == taken
    assert dataclasses.replace(taken, samples_per_batch=2).fields == fields
    assert fields[0] == Field("image", (4, 6), "f32", pad_mode=wavetrain.PadMode.EDGE)
    stream = pipeline(sample_shape=(), fields=[Field(f"f{n}", (n + 1,)) for n in range(8)])
    assert "f7 4 x 8 f32" in repr(stream)
    with pytest.raises(wavetrain.InvalidArgument, match=r"field mask: .*pad_value|pad_value"):
        pipeline(sample_shape=(), fields=[IMAGE, Field("mask", (4,), "u8", pad_value=300)])


@thorough
@hypothesis.given(
    anything,
    boxes | anything,
    anything,
    st.fixed_dictionaries({}, optional=dict.fromkeys(("at", "step", "axes"), anything)),
)
def test_a_box_of_anything_is_refused_by_name_or_holds_it(uri, aabb, field, place):
    names = ("uri", "array", "aabb", "field", "at", "step", "axes")
    taken = outcome(Box, uri, aabb, field, names=names, **place)
    if taken is not None:
        assert all(type(end) is int for axis in taken.aabb for end in axis)
        assert all(type(each) is int for each in (*taken.at, *taken.step))
        same = dataclasses.replace(taken)
        assert taken == same and hash(taken) == hash(same)
        sample = outcome(Sample, boxes=[taken, uri], names=["boxes"])
        assert sample is None or isinstance(uri, Box)


@thorough
@hypothesis.given(
    anything,
    st.dictionaries(
        st.sampled_from(["sample_shape", "dtype", "dtype_bytes", "pad_mode", "pad_value"]),
        anything,
        max_size=2,
    ),
)
def test_a_field_of_anything_is_refused_by_name_or_reaches_the_library(name, given):
    taken = outcome(Field, name, names=["name", *given], **given)
    if taken is not None:
        native = to_native(config(sample_shape=(), fields=[taken]))
        row = _native.Field.from_address(native.fields)
        assert row.name.decode() == taken.name and row.dtype == taken.dtype
        assert tuple(row.sample_shape[: row.sample_rank]) == taken.sample_shape
