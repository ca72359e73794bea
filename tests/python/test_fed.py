"""Boxes of memory and of numbers: what comes out is what numpy has, bit for bit, and what cannot be
fed is refused by name."""

from __future__ import annotations

import array
import copy
import importlib.util
import pickle
import types

import numpy
import pytest
from cubes import run_program

import wavetrain
from wavetrain import Box, Field, Sample

ml_dtypes = pytest.importorskip("ml_dtypes", reason="there is no ml_dtypes here")
LARGE = numpy.arange(5 * 6 * 7, dtype="i4").reshape(5, 6, 7) * 1009


class Array(numpy.ndarray):
    """One that a weak reference may be made to, as of every subclass."""


def large(seed: int = 0) -> Array:
    return (LARGE + seed).view(Array)


def fields(*tables, **changes):
    return {"sample_shape": (), "fields": tables, **changes}


def one(pipeline, field: Field, *boxes: Box, **changes) -> numpy.ndarray:
    """The one sample of a batch that these boxes make."""
    stream = pipeline(samples_per_batch=1, **fields(field, max_boxes_per_sample=8, **changes))
    stream.push([Sample(boxes=boxes)])
    with stream.pop() as batch:
        return batch.numpy()[0].copy()


def refused(text, make, *arguments, **named):
    with pytest.raises((TypeError, ValueError)) as caught:
        make(*arguments, **named)
    assert text in str(caught.value), str(caught.value)


# ---- What comes out -----------------------------------------------------------------------------

VIEWS = {
    "as_it_is": LARGE,
    "turned": LARGE.T,
    "backwards": LARGE[::-1, :, ::-1],
    "every_other": LARGE[::2, 1::3],
    "backwards_with_steps": LARGE.transpose(1, 2, 0)[::-2, ::3, ::-1],
    "one_axis_over_and_over": numpy.broadcast_to(LARGE[:, None, 2], (5, 9, 7)),
    "one_element_over_and_over": numpy.broadcast_to(LARGE[3, 4, 5], (5, 9, 7)),
    "one_element_with_axes_of_1": numpy.broadcast_to(LARGE[3, 4, 5], (1, 90, 1)),
    "windows": numpy.lib.stride_tricks.sliding_window_view(LARGE[2, 3], 3)[::-1],
    "few": LARGE[1, 2, ::-2],
    "few_over_and_over": numpy.broadcast_to(LARGE[1, 2, 3], (2, 3)),
    "unaligned": numpy.frombuffer(b"x" + LARGE.tobytes(), "u1")[1:].view("i4").reshape(5, 42),
    "large": numpy.arange(1 << 20, dtype="i4").reshape(1024, 1024).T[::-1, 7:1000:5],
    "of_fortran": numpy.asfortranarray(LARGE),
}


@pytest.mark.parametrize("view", VIEWS)
def test_an_array_of_any_strides_comes_out_as_it_is(view, pipeline):
    given = VIEWS[view]
    found = one(pipeline, Field("a", given.shape, "i32"), Box(given, field="a"))
    numpy.testing.assert_array_equal(found, given)
    as_floats = one(pipeline, Field("a", given.shape, "f32"), Box(given, field="a"))
    numpy.testing.assert_array_equal(as_floats, given.astype("f4"))


def test_a_region_of_an_array_goes_to_a_place_of_the_field(pipeline):
    field = Field("a", (9, 8), "i32", pad_value=-1)
    found = one(
        pipeline,
        field,
        Box(LARGE, numpy.s_[2:3, ::-2, 1:6:2], "a", at=(1, 2), axes=(None, 1, 0)),
        Box(LARGE[4], [(0, 2), (3, 7)], "a", at=(7, 0)),
        Box(5, field="a", at=(6, 7)),
    )
    wanted = numpy.full((9, 8), -1, "i4")
    wanted[1:4, 2:5] = LARGE[2, ::-2, 1:6:2].T
    wanted[7:, :4] = LARGE[4, :2, 3:7]
    wanted[6, 7] = 5
    numpy.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", ["edge", "reflect", "constant"])
@pytest.mark.parametrize("shape", [(8, 9), (3, 4)])
def test_a_box_that_is_larger_than_its_array_is_padded(mode, shape, pipeline):
    given = LARGE.ravel()[: numpy.prod(shape)].reshape(shape)
    padded = numpy.pad(given, 2, mode)
    found = one(
        pipeline,
        Field("a", padded.shape, "i32", pad_mode=mode),
        Box(given[::-1, ::-1][::-1, ::-1], [(-2, extent + 2) for extent in shape], "a"),
    )
    numpy.testing.assert_array_equal(found, padded)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("dtype", [*wavetrain.Dtype], ids=lambda dtype: dtype.name)
def test_every_type_comes_out_bit_for_bit(dtype, few, pipeline):
    random = numpy.random.default_rng(3)
    count = 3 if few else 300
    if dtype is wavetrain.Dtype.RAW:
        raw = random.integers(0, 256, count * 5, "u1").view("V5")
        field = Field("a", (count,), "raw", dtype_bytes=5)
        found = one(pipeline, field, Box(raw, field="a"))
        assert found.tobytes() == raw.tobytes()
        return
    kind = dtype.dtype
    given = random.integers(0, 2 if kind.kind == "b" else 120, count).astype(kind)
    for each in (given, given[::-1]):
        found = one(pipeline, Field("a", (count,), dtype), Box(each, field="a"))
        assert found.tobytes() == each.tobytes() and found.dtype == given.dtype
    scalar = one(pipeline, Field("a", (), dtype), Box(given[1], field="a"))
    assert scalar.tobytes() == given[1:2].tobytes()


def test_times_are_their_bits(pipeline):
    given = numpy.array(["2026-01-05T07:00", "nat", "1931-02-03"] * 9, "M8[ms]")
    for each in (given, given[:3], given - given[0]):
        found = one(pipeline, Field("a", each.shape, "i64"), Box(each, field="a"))
        numpy.testing.assert_array_equal(found, each.view("i8"))
    assert one(pipeline, Field("a", (), "i64"), Box(given[0], field="a")) == given[:1].view("i8")


class Picture:
    """Says where its elements are as PIL does: in bytes that are made for this."""

    @property
    def __array_interface__(self):
        data = LARGE.tobytes()
        return {"version": 3, "shape": LARGE.shape, "typestr": "<i4", "data": data}


def given_otherwise():
    read_only = LARGE.copy()
    read_only.flags.writeable = False
    flat = array.array("i", LARGE.ravel().tolist())
    return {
        "read_only": read_only,
        "memoryview": memoryview(LARGE),
        "memoryview_backwards": memoryview(LARGE)[::-1],
        "picture": Picture(),
        "bytes": LARGE.tobytes(),
        "bytearray": bytearray(LARGE.tobytes()),
        "array": flat,
        "few_bytes": b"\1\2\3",
        "interface": types.SimpleNamespace(__array_interface__=LARGE.__array_interface__),
    }


@pytest.mark.parametrize("way", given_otherwise())
def test_whatever_has_a_buffer_is_taken(way, pipeline):
    given = given_otherwise()[way]
    wanted = numpy.asarray(given)
    if isinstance(given, (bytes, bytearray)):
        wanted = numpy.frombuffer(given, "u1")
    found = one(pipeline, Field("a", wanted.shape, wanted.dtype), Box(given, field="a"))
    numpy.testing.assert_array_equal(found, wanted)


def test_tensors_of_torch_are_taken(pipeline):
    torch = pytest.importorskip("torch", reason="there is no torch here")
    tensor = torch.from_numpy(LARGE.copy())
    for each in (tensor, tensor.permute(2, 0, 1)[::3], tensor[0, 0, :3], tensor.expand(5, 6, 7)):
        found = one(pipeline, Field("a", tuple(each.shape), "i32"), Box(each, field="a"))
        numpy.testing.assert_array_equal(found, each.numpy())
    for kind in ("bool", "bfloat16", "float16", "complex64", "float64", "uint8", "int64"):
        each = tensor.remainder(2).to(getattr(torch, kind))
        found = one(pipeline, Field("a", tuple(each.shape), kind), Box(each, field="a"))
        assert found.tobytes() == bytes(each.contiguous().view(torch.uint8).numpy())
    assert one(pipeline, Field("a"), Box(torch.tensor(2.5), field="a")) == 2.5
    refused("array must be one that DLPack takes", Box, torch.ones(99, requires_grad=True))
    refused("array must be one that DLPack takes", Box, torch.ones(99, device="meta"))


def test_arrays_of_jax_are_taken():
    """In a process of its own: jax warns of every fork behind its first array."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("there is no jax here")
    run_program(
        """
        import jax, numpy, wavetrain
        from cubes import config
        from test_fed import LARGE, fields
        from wavetrain import Box, Field, Sample
        for kind in ("int32", "float32", "bfloat16", "bool"):
            given = jax.numpy.asarray(LARGE % 2, kind)
            table = fields(Field("a", given.shape, kind))
            with wavetrain.Pipeline(config(samples_per_batch=1, **table)) as stream:
                stream.push([Sample(boxes=[Box(given, field="a")])])
                assert stream.pop().numpy().tobytes() == numpy.asarray(given).tobytes()
        """
    )


# ---- Numbers ------------------------------------------------------------------------------------

TAKEN = [
    *(("i8", -128, -128), ("u8", 255.0, 255), ("i64", -(2**63), -(2**63)), ("u8", True, 1)),
    *(("u64", 2**64 - 1, 2**64 - 1), ("i32", 5 + 0j, 5), ("f32", 2**24, 2.0**24)),
    *(("f32", 0.1, numpy.float32(0.1)), ("f16", 0.1, numpy.float16(0.1)), ("f64", 0.1, 0.1)),
    *(("bool", 1, True), ("bool", numpy.bool_(False), False), ("bf16", -2.5, -2.5)),
    *(("c64", 3, 3 + 0j), ("c128", 0.1 - 2j, 0.1 - 2j), ("f32", float("inf"), numpy.inf)),
    *(("u8", numpy.int64(9), 9), ("i16", numpy.float32(-7), -7), ("bf16", 256, 256)),
    ("bf16", 1.00390625, 1.0),  # a tie, to even
]


@pytest.mark.parametrize(("dtype", "given", "wanted"), TAKEN)
def test_a_number_takes_the_type_of_its_field(dtype, given, wanted, pipeline):
    assert one(pipeline, Field("a", (), dtype), Box(given, field="a")) == wanted


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        *(("i8", 128), ("u8", -1), ("i64", 2**63), ("u8", 0.5), ("i32", 1j), ("bool", 2)),
        *(("i32", float("nan")), ("i32", float("inf")), ("f32", 2**24 + 1), ("f16", 1e6)),
        *(("f32", 1e39), ("f64", 2**53 + 1), ("bf16", 257), ("bf16", 3.4e38), ("f64", 10**400)),
        *(("f32", 1j), ("c64", 2**24 + 1), ("raw", 1), ("f32", complex(1, float("nan")))),
        *(("u8", numpy.float64(300)), ("bf16", 10**39)),
    ],
)
def test_a_number_that_the_field_has_not_is_refused(dtype, given, pipeline):
    stream = pipeline(**fields(Field("a", (), dtype, dtype_bytes=4 * (dtype == "raw"))))
    with pytest.raises(ValueError, match=rf"tag 6: a number must be one of {dtype}") as caught:
        stream.push([Sample(boxes=[Box(given, field="a")], tag=6)])
    assert str(caught.value).startswith("box 0 of the sample of tag 6")


def test_a_nan_stays_one(pipeline):
    for dtype in ("f16", "bf16", "f32", "f64"):
        found = one(pipeline, Field("a", (), dtype), Box(float("nan"), field="a"))
        assert numpy.isnan(float(found))


# ---- Refused ------------------------------------------------------------------------------------


def test_what_cannot_be_fed_is_refused_by_name():
    for text, given in (
        ("byte order (got >i4)", LARGE.astype(">i4")),
        ("byte order (got '>i')", memoryview(LARGE.astype(">i4"))),
        ("a type of wavetrain", numpy.array([None, 1])),
        ("(got <U3)", numpy.array(["abc"])),
        ("(got |S3)", numpy.array([b"abc"])),
        ("a type of wavetrain", numpy.zeros(3, ml_dtypes.float8_e4m3fn)),
        ("a type of wavetrain", numpy.zeros(3, "g")),
        ("array must be a number of a type", numpy.longdouble(3)),
        ("a type of wavetrain", numpy.zeros(3, "V17")),
        ("array.filled", numpy.ma.masked_array([1, 2], [0, 1])),
        ("uri must be a str, a path or a zarr.Array, an array in memory", [1, 2]),
        ("give numpy.asarray(..) of what is none", None),
        ("uri must", types.SimpleNamespace(__array__=lambda: LARGE)),
        ("at most 16 axes", numpy.zeros((2,) * 17, "u1")),
        ("it lacks typestr", types.SimpleNamespace(__cuda_array_interface__={})),
    ):
        refused(text, Box, given)
    assert Box(numpy.zeros(3, ">u1")).array.shape == (3,)  # of one byte: there is no order
    refused("aabb must have an item per axis of the array, 3 (got 2)", Box, LARGE, [(0, 1)] * 2)
    refused("aabb must have an item per axis of the array, 0", Box, 5, [(0, 1)])
    refused("aabb must", Box, LARGE, 5)
    refused("uri and array are both given", Box, "a", [], array=LARGE)
    refused("array must be an array or a number", Box, array="a")
    refused("aabb must", Box, "a")


def test_a_box_outside_of_its_array_is_refused_by_the_library(pipeline):
    stream = pipeline(**fields(Field("a", (4,), "i32")))
    for box in (Box(LARGE[0, 0], [(5, 9)], "a"), Box(LARGE.ravel(), [(300, 304)], "a")):
        with pytest.raises(wavetrain.InvalidArgument, match="push"):
            stream.push([Sample(boxes=[box])])
        assert not stream._window.held
    with pytest.raises(wavetrain.DtypeMismatch):
        stream.push([Sample(boxes=[Box(numpy.ones(4, "c8"), field="a")])])


def test_a_box_of_an_array_is_a_value():
    memory = large()
    box = Box(memory, numpy.s_[1:3, ::-1, :], "a", at=(1, 0, 0))
    assert box == Box(memory, numpy.s_[1:3, ::-1, :], "a", at=(1, 0, 0)) != Box(memory.copy())
    assert hash(box) == hash(copy.copy(box)) or box != copy.copy(box)
    assert Box(7) == Box(numpy.uint8(7)) and Box(7) != Box(8) and "uri=''" in repr(Box(7))
    assert Box(b"abc") == Box(numpy.frombuffer(b"abc", "u1")) and "3 u8" in repr(Box(b"abc"))
    for given in (
        memory,
        memory[::-2, :, ::3],
        memory[0, 0],
        7,
        numpy.broadcast_to(memory[0], (9, 6, 7)),
    ):
        sent = pickle.loads(pickle.dumps(Box(given, field="a")))
        assert sent.field == "a" and sent.aabb == Box(given).aabb
        if isinstance(given, numpy.ndarray):
            low, _ = sent.array.reach()
            span = numpy.frombuffer(sent.array.span(), "u1")
            at = numpy.ndarray(given.shape, "i4", span, -low, sent.array.strides)
            numpy.testing.assert_array_equal(at, given)
