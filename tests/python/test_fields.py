"""Several tensors in a batch, and samples of several boxes: what they are made of, and lifetimes.

test_mosaics.py has any of them against numpy; this one has each fact alone.
"""

from __future__ import annotations

import dataclasses
import gc
import re

import numpy
import pytest
from cubes import EDGE
from devices import Gpu
from parts import FILL, Store
from test_stream import starves

import wavetrain
from wavetrain import Box, Field, Sample

IMAGE = Field("image", (4, 6), "f32")
MASK = Field("mask", (4, 6), "u8")
LABEL = Field("label", (), "i64")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("fields"))


@pytest.fixture
def fielded(pipeline):
    """fielded(field, .., **fields of the config): a pipeline of two samples per batch."""

    def make(*fields, **changes):
        plain = {"sample_shape": (), "fields": fields, "samples_per_batch": 2}
        return pipeline(**{**plain, **changes})

    return make


@pytest.fixture
def three(store, fielded):
    """Image, mask and label of the samples 0, 1 .., in batches of two, with one slot."""
    stream = fielded(IMAGE, MASK, LABEL, n_batch_slots=1)
    stream.push(triple(store, number) for number in range(6))
    return stream


def triple(store, z):
    return Sample(
        boxes=[
            store.box("volume", numpy.s_[z : z + 1, 1:5, 2:8], "image"),
            store.box("plane", numpy.s_[z : z + 4, 3:9], "mask"),
            store.box("track", [(z, z + 1)], "label"),
        ],
        tag=z,
    )


def one(store, stream, *boxes):
    """The fields of a batch of one sample, as arrays of numpy."""
    stream.push([Sample(boxes=boxes)])
    stream.flush()
    with stream.pop() as batch:
        return {name: batch[name].numpy()[0].copy() for name in batch.fields}


def test_an_image_its_mask_and_its_label_come_in_one_batch(store, three):
    with three.pop() as batch:
        assert batch.fields == ("image", "mask", "label")
        data = store.data
        numpy.testing.assert_array_equal(batch["image"].numpy(), data["volume"][:2, 1:5, 2:8])
        masks = [data["plane"][z : z + 4, 3:9] for z in (0, 1)]
        numpy.testing.assert_array_equal(batch["mask"].numpy(), masks)
        assert batch["label"].numpy().tolist() == data["track"][:2].tolist()
        kinds = [batch[name].numpy().dtype.str for name in batch.fields]
        assert kinds == ["<f4", "|u1", "<i8"]
        assert [batch[name].shape for name in batch.fields] == [(2, 4, 6), (2, 4, 6), (2,)]
        assert [batch[name].dtype.name for name in batch.fields] == ["F32", "U8", "I64"]
        assert [batch[name].filled_shape.tolist() for name in batch.fields] == [
            [[4, 6]] * 2
        ] * 2 + [[[1]] * 2]
        # The batch alone is the first of them.
        assert batch.info == batch["image"].info and batch.shape == (2, 4, 6)
        assert batch.info.tags == batch["label"].info.tags == (0, 1)
        numpy.testing.assert_array_equal(batch.numpy(), batch["image"].numpy())
        assert "image 2 x 4 x 6 f32, mask 2 x 4 x 6 u8, label 2 i64 in host" in repr(batch)
        assert repr(batch["mask"]) == "<BatchField 'mask' of 0: 2 x 4 x 6 u8 in host memory>"
    assert "released" in repr(batch) + repr(batch["mask"])
    assert "Pipeline of image 2 x 4 x 6 f32, mask 2 x 4 x 6 u8, label 2 i64," in repr(three)


def test_a_field_has_a_name_and_a_number(three):
    with three.pop() as batch:
        for number, name in enumerate(("image", "mask", "label")):
            assert batch.field(number).name == batch.field(name).name == batch[name].name == name
            assert batch.field(number).info == batch[name].info
        for wrong in ("masks", "", "Image"):
            with pytest.raises(KeyError, match=f"no field '{wrong}': the batch has 'image', 'm"):
                batch[wrong]
        for wrong, kind in ((3, ValueError), (-1, ValueError), (1.0, TypeError), (None, TypeError)):
            with pytest.raises(kind, match=r"^field must be"):
                batch.field(wrong)
        with pytest.raises(TypeError, match="by the name of a field"):
            batch[0]


def test_a_batch_without_a_table_has_one_field_without_a_name(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(3))
    stream.flush()
    with stream.pop() as batch:
        assert batch.fields == () and batch.field(0).name == ""
        numpy.testing.assert_array_equal(batch.field(0).numpy(), batch.numpy())
        assert batch.filled_shape.tolist() == [[EDGE] * 3] * 3
        with pytest.raises(KeyError, match="the batch has one tensor"):
            batch["image"]


def takers():
    def torch(tensor):
        return pytest.importorskip("torch", reason="there is no torch here").from_dlpack(tensor)

    def torch_method(tensor):
        pytest.importorskip("torch", reason="there is no torch here")
        return tensor.torch()

    return [numpy.from_dlpack, torch, torch_method, wavetrain.Batch.numpy, wavetrain.Batch.buffer]


def as_numpy(taken):
    if isinstance(taken, memoryview):
        return numpy.frombuffer(taken, "u1").reshape(2, 4, 6)
    return taken if isinstance(taken, numpy.ndarray) else taken.numpy()


@pytest.mark.parametrize("take", takers(), ids=["numpy", "torch", "method", "own", "buffer"])
def test_a_tensor_of_any_field_is_the_slot_itself_and_keeps_it(take, store, three):
    take = getattr(wavetrain.BatchField, take.__name__) if "Batch." in take.__qualname__ else take
    with three.pop() as batch:
        taken = take(batch["mask"])
        array = as_numpy(taken)
        assert array.ctypes.data == batch["mask"].info.device_ptr and array.flags.writeable
        array[1, 3, 5] = 251
        assert batch["mask"].numpy()[1, 3, 5] == 251
    part = array[0, 2:]
    del taken, array, batch
    gc.collect()
    assert "held" in str(starves(three))
    numpy.testing.assert_array_equal(part, store.data["plane"][2:4, 3:9])
    del part
    gc.collect()
    assert three.pop().info.tags == (2, 3)


def test_a_field_keeps_its_batch_and_is_gone_with_it(store, three):
    field = three.pop()["mask"]  # nothing else has the batch
    gc.collect()
    numpy.testing.assert_array_equal(field.numpy()[0], store.data["plane"][:4, 3:9])
    starves(three)
    del field
    gc.collect()
    batch = three.pop()
    field = batch["label"]
    batch.release()
    for call in (lambda: field.shape, lambda: field.filled_shape, field.numpy, field.__dlpack__):
        with pytest.raises(wavetrain.InvalidArgument, match="was released"):
            call()
    assert three.pop().info.tags == (4, 5)


def test_each_field_has_eight_tensors(three):
    with three.pop() as batch:
        kept = [numpy.from_dlpack(batch[name]) for name in batch.fields for _ in range(8)]
        for name in batch.fields:
            with pytest.raises(wavetrain.TryAgain, match="8"):
                batch[name].numpy()
        del kept
        for name in batch.fields * 40:  # capsules that nobody takes
            batch[name].__dlpack__(max_version=(1, 0))
    assert three.pop().info.tags == (2, 3)


def test_fields_on_a_device_say_so(store, simulated_driver):
    gpu = Gpu(simulated_driver)
    fields = {"sample_shape": (), "fields": [IMAGE, MASK, LABEL], "samples_per_batch": 2}
    with gpu.pipeline(**fields) as stream:
        stream.push(triple(store, number) for number in range(2))
        with stream.pop() as batch:
            numpy.testing.assert_array_equal(
                gpu.values(batch), store.data["volume"][:2, 1:5, 2:8].astype("f4")
            )
            assert len({batch[name].info.device_ptr for name in batch.fields}) == 3
            assert all(batch[name].__dlpack_device__() == (2, 0) for name in batch.fields)
            assert batch["mask"].filled_shape.tolist() == [[4, 6]] * 2
            batch["label"].__dlpack__(stream=1, max_version=(1, 0))
            with pytest.raises(BufferError, match="device memory"):
                batch["mask"].numpy()
    gpu.found_nothing()


# ---- What boxes read, and where it goes ---------------------------------------------------------


def test_a_slice_with_a_step_reads_what_numpy_reads(store, fielded):
    track = store.data["track"]
    slices = [
        *(numpy.s_[0:40:7], numpy.s_[:12:5], numpy.s_[3:4:9], numpy.s_[9:3:-1], numpy.s_[9:2:-2]),
        *(numpy.s_[9:2:-3], numpy.s_[39::-8], numpy.s_[0::-1], numpy.s_[7:6:-50]),
    ]
    for each in slices:
        expected = track[each]
        stream = fielded(Field("track", expected.shape, "i32"))
        taken = one(store, stream, store.box("track", [each]))["track"]
        numpy.testing.assert_array_equal(taken, expected)
        stream.close()


def test_open_ends_are_those_of_an_array_of_zarr(store, fielded):
    zarr = pytest.importorskip("zarr")
    plane = zarr.open_array(store.uri("plane"), mode="r")
    for index in (numpy.s_[::-1, ::2], numpy.s_[:, 3::-1], numpy.s_[5:, :], numpy.s_[:0:-3, 17:]):
        expected = store.data["plane"][index]
        stream = fielded(Field("plane", expected.shape, "u8"))
        taken = one(store, stream, Box(plane, index))["plane"]
        numpy.testing.assert_array_equal(taken, expected)
        stream.close()


def test_a_pair_with_a_step_is_read_from_its_other_end(store, fielded):
    stream = fielded(Field("plane", (3, 2), "u8"))
    taken = one(store, stream, store.box("plane", [(2, 8), (5, 7)], step=(-2, -1)))["plane"]
    numpy.testing.assert_array_equal(taken, store.data["plane"][2:8, 5:7][::-1][::2, ::-1])


def test_axes_say_which_axis_of_the_field_each_becomes(store, fielded):
    stream = fielded(Field("turned", (6, 4), "u16"))
    box = store.box("volume", [(1, 5), (3, 4), (2, 8)], axes=(1, None, 0))
    numpy.testing.assert_array_equal(
        one(store, stream, box)["turned"], store.data["volume"][1:5, 3, 2:8].T
    )


def test_an_element_goes_to_any_place(store, fielded):
    stream = fielded(Field("map", (2, 3), "i32", pad_value=-1), max_boxes_per_sample=3)
    boxes = [
        store.box("track", [(8, 9)], at=(0, 2), axes=(None,)),
        store.box("track", [(9, 10)], at=(1, 0), axes=(0,)),
        store.box("plane", [(4, 5), (6, 7)], at=(1, 1), axes=(None, None)),
    ]
    track, plane = store.data["track"], store.data["plane"]
    expected = [[-1, -1, track[8]], [track[9], plane[4, 6], -1]]
    assert one(store, stream, *boxes)["map"].tolist() == expected


def test_the_last_axes_are_meant_where_a_part_has_no_axes(store, fielded):
    stream = fielded(Field("channels", (3, 4, 6), "f32", pad_value=-2), max_boxes_per_sample=2)
    boxes = [
        store.box("volume", [(5, 6), (0, 4), (0, 6)], at=(2, 0, 0)),
        store.box("volume", [(9, 10), (1, 4), (0, 5)], at=(0, 1, 1)),
    ]
    expected = numpy.full((3, 4, 6), -2, "f4")
    expected[2] = store.data["volume"][5, :4, :6]
    expected[0, 1:, 1:] = store.data["volume"][9, 1:4, :5]
    numpy.testing.assert_array_equal(one(store, stream, *boxes)["channels"], expected)


def test_one_tensor_may_be_a_mosaic_too(store, pipeline):
    stream = pipeline(
        sample_shape=(4, 6), dtype="u8", pad_value=9, max_boxes_per_sample=2, samples_per_batch=2
    )
    plane = store.data["plane"]
    stream.push([
        Sample(boxes=[
            store.box("plane", [(0, 4), (0, 3)], at=(0, 3)),
            store.box("plane", [(8, 10), (4, 7)], at=(0, 0)),
        ]),
        Sample(store.uri("plane"), [(5, 9), (5, 10)]),  # a part, where parts are taken
    ])  # fmt: skip
    expected = numpy.full((2, 4, 6), 9, "u1")
    expected[0, :, 3:], expected[0, :2, :3] = plane[:4, :3], plane[8:10, 4:7]
    expected[1, :, :5] = plane[5:9, 5:10]
    with stream.pop() as batch:
        numpy.testing.assert_array_equal(batch.numpy(), expected)
        assert batch.filled_shape.tolist() == [[4, 6], [4, 5]]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_each_field_is_padded_its_own_way(store, fielded, mode):
    value = {"pad_value": 77} if mode == "constant" else {}
    stream = fielded(
        Field("own", (8, 5), "u8", pad_mode=mode, **value),
        Field("fill", (8, 5), "i32", pad_mode="constant"),
    )
    aabb = [(-3, 5), (15, 20)]
    taken = one(store, stream, store.box("plane", aabb), store.box("plane", aabb, "fill"))
    more = {"constant_values": 77} if mode == "constant" else {}
    padded = numpy.pad(store.data["plane"], 4, mode, **more)
    numpy.testing.assert_array_equal(taken["own"], padded[1:9, 19:24])
    padded = numpy.pad(store.data["plane"].astype("i4"), 4, constant_values=FILL)
    numpy.testing.assert_array_equal(taken["fill"], padded[1:9, 19:24])


def test_what_no_box_goes_to_holds_pad_value(store, fielded):
    stream = fielded(
        Field("image", (4, 6), "f32", pad_value=float("nan")),
        Field("label", (), "i64", pad_value=-1),
        Field("weight", (), "f64"),
        Field("code", (2,), "raw", dtype_bytes=3),
    )
    stream.push([
        Sample(boxes=[store.box("track", [(5, 6)], "label")], tag=1),
        Sample(boxes=[store.box("volume", [(0, 1), (0, 4), (0, 6)], 0),
                      store.box("real", [(2, 3), (7, 8)], "weight")], tag=2),
    ])  # fmt: skip
    with stream.pop() as batch:
        image, label = batch["image"].numpy(), batch["label"].numpy()
        assert numpy.isnan(image[0]).all()
        numpy.testing.assert_array_equal(image[1], store.data["volume"][0, :4, :6])
        assert label.tolist() == [store.data["track"][5], -1]
        assert batch["weight"].numpy().tolist() == [0, store.data["real"][2, 7]]
        assert batch["code"].shape == (2, 2) and batch["code"].numpy().shape == (2, 2, 3)
        assert not batch["code"].numpy().any()
        assert [batch[name].filled_shape.tolist() for name in batch.fields] == [
            *([[0, 0], [4, 6]], [[1], [0]], [[0], [1]], [[0], [0]])
        ]


def test_a_sample_that_is_skipped_holds_pad_value_in_all_fields(store, fielded):
    mask = dataclasses.replace(MASK, pad_value=3)
    stream = fielded(IMAGE, mask, LABEL, on_error="skip")
    good, bad = triple(store, 0), list(triple(store, 1).boxes)
    bad[2] = Box(store.uri("nowhere"), [(0, 1)], "label")
    stream.push([good, Sample(boxes=bad, tag=1)])
    with stream.pop() as batch:
        for name in batch.fields:
            assert [status.name for status in batch[name].info.statuses] == ["OK", "NOT_FOUND"]
        assert not batch["image"].numpy()[1].any() and batch["label"].numpy()[1] == 0
        assert (batch["mask"].numpy()[1] == 3).all()
        numpy.testing.assert_array_equal(batch["mask"].numpy()[0], store.data["plane"][:4, 3:9])


def test_samples_of_one_and_of_several_boxes_mix(store, fielded):
    """More of them than are pulled at a time, in another order in each pull."""
    stream = fielded(IMAGE, MASK, LABEL)
    random = numpy.random.default_rng(3)
    plain = [number for number in range(300) if random.integers(2)]

    def samples():
        for tag in range(300):
            z = tag % 12
            aabb = numpy.s_[z : z + 1, 1:5, 2:8]
            if tag in plain:
                yield Sample(store.uri("volume"), aabb, tag)
            else:
                yield dataclasses.replace(triple(store, z), tag=tag)

    stream.push(samples())
    seen = []
    for batch in stream.batches():
        with batch:
            seen += batch.info.tags
            for row, tag in enumerate(batch.info.tags):
                image, label = batch["image"].numpy()[row], batch["label"].numpy()[row]
                numpy.testing.assert_array_equal(image, store.data["volume"][tag % 12, 1:5, 2:8])
                assert label == (0 if tag in plain else store.data["track"][tag % 12])
                assert batch["mask"].filled_shape[row].any() == (tag not in plain)
    assert seen == list(range(300))


# ---- What is refused ----------------------------------------------------------------------------


WHOLE, PART = [(0, 4), (0, 6)], [(0, 2), (0, 6)]
RANK, INVALID = wavetrain.RankMismatch, wavetrain.InvalidArgument
# Of which kind, what it says, and the boxes, as Store.box takes them.
WRONG = [
    (
        ValueError,
        "box 0 of the sample of tag 9: there is no field 'masks': Config.fields has 'image'",
        [(WHOLE, "masks", {})],
    ),
    (ValueError, "there is no field 3: a batch has 3", [(WHOLE, 3, {})]),
    (ValueError, "axes[1] must be below 2", [(WHOLE, 0, {"axes": (0, 2)})]),
    (ValueError, "at must have an item per axis of the field, 2", [(PART, 0, {"at": [1]})]),
    (
        ValueError,
        "has 4 boxes, the pipeline takes 3: raise Config.max_boxes_per_sample",
        [(WHOLE, 0, {})] * 4,
    ),
    (
        INVALID,
        "field mask: boxes 1 and 2 overlap",
        [(WHOLE, 0, {}), (PART, "mask", {}), (PART, "mask", {"at": (1, 0)})],
    ),
    (
        INVALID,
        "field image: axis 0: 2 places from 3 on do not fit an extent of 4",
        [(PART, 0, {"at": (3, 0)})],
    ),
    (INVALID, "box [0, 0) is empty", [([(0, 0), (0, 6)], 0, {})]),
    (INVALID, "field label: box extents [1, 2]", [([(0, 1), (0, 2)], "label", {})]),
    (RANK, "field image: box extents [6]", [([(0, 6)], 0, {})]),
]


@pytest.mark.parametrize(("kind", "text", "boxes"), WRONG)
def test_a_sample_that_is_wrong_by_itself_raises_where_it_is_pulled(
    store, fielded, kind, text, boxes
):
    boxes = [store.box("plane", aabb, field, **place) for aabb, field, place in boxes]
    stream = fielded(IMAGE, MASK, LABEL)
    with pytest.raises(kind, match=re.escape(text)) as caught:
        stream.push([triple(store, 0), Sample(boxes=boxes, tag=9), triple(store, 1)])
    assert getattr(caught.value, "tag", 9) == 9
    stream.push([triple(store, 2)])
    with stream.pop() as batch:
        assert batch.info.tags == (0, 2)


def test_a_name_is_refused_where_fields_have_none(store, pipeline):
    stream = pipeline(sample_shape=(4, 6))
    with pytest.raises(ValueError, match=r"no field 'image': Config\.fields has none with a name"):
        stream.push([Sample(boxes=[store.box("plane", [(0, 4), (0, 6)], "image")])])


def test_a_part_is_refused_where_nobody_asked_for_parts(store, pipeline):
    stream = pipeline(sample_shape=(4, 6))
    for place, text in (({}, "do not give"), ({"axes": (0, 1)}, "set max_boxes_per_sample")):
        with pytest.raises(wavetrain.InvalidArgument, match=text):
            stream.push([Sample(boxes=[store.box("plane", [(0, 2), (0, 6)], **place)])])


def test_a_long_step_has_to_stay_inside(store, fielded):
    stream = fielded(Field("track", (3,), "i32", pad_mode="edge"), samples_per_batch=1)
    stream.push([Sample(boxes=[store.box("track", [slice(36, 42, 2)])])])
    with pytest.raises(wavetrain.InvalidArgument, match="step"):
        stream.pop()


def test_a_batch_is_unpacked_into_its_fields_and_looked_at_as_a_dict(cube, pipeline):
    image, label = Field("image", (EDGE,) * 3, "u16"), Field("label", (), "i64")
    stream = pipeline(sample_shape=(), fields=(image, label), samples_per_batch=2)
    box = [(0, EDGE)] * 3
    boxes = [Box(cube, box, field="image"), Box(7, field="label")]
    stream.push(Sample(boxes=boxes, tag=n) for n in range(6))
    for x, y in stream.batches(2):  # kept by the fields alone
        numpy.testing.assert_array_equal(x.numpy(), [cube.data[:EDGE, :EDGE, :EDGE]] * 2)
        assert y.numpy().tolist() == [7, 7]
    del x, y
    with stream.pop() as batch:
        assert batch.keys() == ("image", "label") and len(batch) == len(batch.values()) == 2
        assert [name for name, _ in batch.items()] == [*batch.keys()]
        assert dict(batch)["label"].numpy().tolist() == [7, 7]
        assert "image" in batch and "mask" not in batch
        assert [field.shape for field in batch] == [(2, EDGE, EDGE, EDGE), (2,)]
        with pytest.raises(ValueError, match="unpack"):
            _x, _y, _z = batch


def test_a_batch_of_one_tensor_is_not_unpacked(cube, pipeline):
    stream = pipeline(samples_per_batch=4)
    stream.push(cube.samples(4))
    with stream.pop() as batch:
        assert batch and len(batch) == 4 and batch.keys() == () and "x" not in batch
        with pytest.raises(TypeError, match="one tensor is none to unpack: take batch"):
            _x, _y = batch
