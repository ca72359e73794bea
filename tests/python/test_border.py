"""The border: what a caller gives is taken as it is, or refused by name. Nothing is cut.

Over 500 lines: a table of every field, and what it takes and refuses, beside the fuzz of the same.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import decimal
import enum
import fractions
import itertools
import math
import operator
import pathlib
import re
import types

import numpy
import pytest
from cubes import ROOT, config

import wavetrain
from wavetrain import _native
from wavetrain._config import to_native
from wavetrain._library import library

hypothesis = pytest.importorskip("hypothesis", reason="there is no hypothesis here")
st = hypothesis.strategies

U32, U64, I32, I64 = 2**32 - 1, 2**64 - 1, 2**31 - 1, 2**63 - 1
BASE = {"samples_per_batch": 1, "sample_shape": (4,)}
NAN, INF = float("nan"), float("inf")

# Whole numbers: the least and the greatest that is taken.
LIMITS = {
    "samples_per_batch": (1, 1 << 20),
    "max_gpu_memory_bytes": (0, U64),
    "max_chunk_uncompressed_bytes": (1, 1 << 31),
    "max_read_op_bytes": (1, U32),
    "host_buffer_waves": (2, 64),
    "max_chunks_per_wave": (1, 65_535),
    "max_substreams_per_chunk": (0, U32),
    "n_io_threads": (1, 1024),
    "metadata_io_concurrency": (1, 4096),
    "n_array_meta_cache": (1, 1 << 20),
    "n_shard_index_cache": (1, 1 << 24),
    "n_chunk_layout_cache": (1, 1 << 24),
    "max_shards_per_sample": (0, U32),
    "max_host_memory_bytes": (0, U64),
    "n_decode_threads": (0, 1024),
    "n_batch_slots": (1, 64),
    "chunk_cache_bytes": (0, U64),
    "dtype_bytes": (0, 16),
    "lookahead_samples": (1, 1 << 20),
    "device": (0, I32),
    "max_boxes_per_sample": (0, 255),
    "max_indices_per_sample": (0, 1 << 16),
    "max_npy_files": (0, 1 << 24),
    "max_resample_bytes": (0, 1 << 44),
    "hook_stack_bytes": (0, 1 << 30),
    "max_open_files": (0, U32),
    "map_bytes_max": (1 << 30, 1 << 46),
    "n_readers": (0, 1024),
    "trace_events": (0, 1 << 24),
    "lent_slots": (0, 64),
    "share_consumers": (0, 64),
}
CHOICES = {
    "numa_strategy": wavetrain.NumaStrategy,
    "backend": wavetrain.Backend,
    "on_error": wavetrain.OnError,
    "missing_chunks": wavetrain.MissingChunks,
    "pad_mode": wavetrain.PadMode,
    "device_decode": wavetrain.DeviceDecode,
    "share_order": wavetrain.ShareOrder,
    "on_consumer_lost": wavetrain.OnConsumerLost,
}
OTHERS = {
    *("sample_shape", "dtype", "pop_timeout_s", "enable_gds", "numa_node", "metadata_latency"),
    *("drop_last", "pad_value", "consumer_stream", "cuda_driver", "fields", "source", "digest"),
    *("augment", "keep_loaded", "reset_timeout_s", "map_uncompressed", "memory"),
    *("share_name", "share_owner", "attach_timeout_s", "check_memory", "cpus", "saturate"),
    *("cf", "metadata"),
}


def made(**fields):
    """The struct that the library gets."""
    return to_native(wavetrain.Config(**{**BASE, **fields}))


def refused(name, make, *arguments, **fields):
    """It is, with a TypeError or a ValueError that begins with the name."""
    with pytest.raises((TypeError, ValueError)) as caught:
        make(*arguments, **fields)
    assert type(caught.value) in (TypeError, ValueError), repr(caught.value)
    assert str(caught.value).startswith(name), str(caught.value)
    return type(caught.value)


# ---- Limits -------------------------------------------------------------------------------------


def test_these_are_all_fields():
    names = {field.name for field in dataclasses.fields(wavetrain.Config)}
    assert names == {*LIMITS, *CHOICES, *OTHERS}


@pytest.mark.parametrize("name", LIMITS)
def test_a_number_at_its_limits_is_taken_and_one_beyond_is_not(name):
    low, high = LIMITS[name]
    base = {"samples_per_batch": 1}
    for value in (low, high, numpy.uint64(low), numpy.uint64(high)):
        given = {**base, name: value}
        assert getattr(wavetrain.Config(**{**BASE, **given}), name) == value
        assert getattr(made(**given), name) == value
        assert type(getattr(wavetrain.Config(**{**BASE, **given}), name)) is int
    for value in (low - 1, high + 1, high + 2 + U32, high + 2 + U64, -U64, 10**30, -(10**30)):
        kind = refused(name, wavetrain.Config, **{**BASE, name: value})
        assert kind is ValueError
    for value in (float(high), 2.5, NAN, INF, str(low), b"1", True, [low], 1j, object()):
        kind = refused(name, wavetrain.Config, **{**BASE, name: value})
        assert kind is TypeError


def test_lookahead_covers_a_batch():
    assert made(samples_per_batch=8, lookahead_samples=8).lookahead_samples == 8
    assert made(samples_per_batch=8).lookahead_samples == 0
    refused("lookahead_samples", made, samples_per_batch=8, lookahead_samples=7)


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_takes_members_names_and_numbers(name):
    for member in CHOICES[name]:
        node = {"numa_node": 3} if member is wavetrain.NumaStrategy.PIN_TO else {}
        for value in (member, member.name, member.name.lower(), int(member), numpy.int8(member)):
            assert getattr(wavetrain.Config(**BASE, **node, **{name: value}), name) is member
            assert getattr(made(**node, **{name: value}), name) == member
    wrong = [
        99,
        -1,
        2**32,
        2**64,
        "nope",
        "",
        "host\0",
        "\ud800",
        None,
        1.0,
        True,
        b"host",
        object(),
    ]
    for value in (*wrong, wavetrain.Dtype.F32, numpy.array([1, 2]), [], U32 + 1):
        refused(name, made, **{name: value})


def test_a_shape_has_1_to_16_axes_of_1_or_more():
    assert made(sample_shape=[U64] * 16).sample_shape[:] == [U64] * 16
    native = made(sample_shape=numpy.array([4, 5]))
    assert native.sample_rank == 2 and native.sample_shape[:3] == [4, 5, 0]
    assert wavetrain.Config(samples_per_batch=1, sample_shape=iter([2, 3])).sample_shape == (2, 3)
    for shape, name in (
        ((U64 + 1,), "sample_shape[0]"),
        ((4, 0), "sample_shape[1]"),
        ((4, -1), "sample_shape[1]"),
        ((4, 4.5), "sample_shape[1]"),
        ((True,), "sample_shape[0]"),
        ("48", "sample_shape[0]"),
        ((1,) * 17, "the number of axes of sample_shape"),
        ((), "sample_shape is missing: give an item for each axis"),
        (itertools.repeat(1), "the number of axes of sample_shape"),
        (5, "sample_shape"),
        (None, "sample_shape"),
    ):
        refused(name, wavetrain.Config, samples_per_batch=1, sample_shape=shape)


def test_flags_are_true_or_false():
    for value in (False, True, numpy.bool_(False), numpy.bool_(True)):
        assert made(drop_last=value).drop_last == bool(value)
        assert made(digest=value).digest == bool(value)
        expected = _native.GDS_ON if value else _native.GDS_OFF
        assert made(enable_gds=value).enable_gds == expected
    assert made(enable_gds=None).enable_gds == _native.GDS_OFF
    for name in ("drop_last", "digest", "enable_gds"):
        for value in (0, 1, 2, "yes", 1.0, [], numpy.array([True, False])):
            refused(name, made, **{name: value})
    refused("drop_last", made, drop_last=None)


def test_a_node_goes_with_pin_to_alone():
    assert made(numa_node=I32, numa_strategy="pin_to").numa_node == I32
    assert made(numa_node=0, numa_strategy=2).numa_node == 0
    for fields in (
        {"numa_node": -2},
        {"numa_node": 0},
        {"numa_node": 0, "numa_strategy": "auto"},
        {"numa_strategy": "pin_to"},
        {"numa_node": I32 + 1, "numa_strategy": "pin_to"},
        {"numa_node": "0", "numa_strategy": "pin_to"},
        {"numa_node": None},
    ):
        refused("numa_node", made, **fields)


def test_a_timeout_is_above_0_and_may_never_run_out():
    for value in (5e-324, 1, 0.5, INF, numpy.float32(2), fractions.Fraction(1, 2), None):
        assert wavetrain.Config(**BASE, pop_timeout_s=value).pop_timeout_s == value
    for value in (0, -0.0, -1, NAN, -INF, "1", True, 1j, 2**53 + 1, [1.0]):
        refused("pop_timeout_s", wavetrain.Config, **BASE, pop_timeout_s=value)


def test_a_pad_value_reaches_the_library_as_it_is():
    assert made().pad_value_set == 0
    for value in (
        0,
        -1,
        2**53,
        -(2**53),
        0.1,
        5e-324,
        INF,
        -INF,
        numpy.float16(0.5),
        numpy.int8(3),
    ):
        native = made(pad_value=value)
        assert native.pad_value_set == 1 and native.pad_value == value
    assert math.isnan(made(pad_value=NAN).pad_value)
    assert math.copysign(1, made(pad_value=-0.0).pad_value) == -1
    for value in (
        *(2**53 + 1, -(2**53) - 1, "0", True, 1j, [], numpy.array([1.0, 2.0])),
        *(fractions.Fraction(10) ** 400, decimal.Decimal("snan")),
    ):
        refused("pad_value", made, pad_value=value)


def test_a_stream_is_a_number_or_an_object_with_one():
    torch_like = types.SimpleNamespace(cuda_stream=U64)
    cupy_like = types.SimpleNamespace(ptr=7)
    for value, number in ((1, 1), (U64, U64), (torch_like, U64), (cupy_like, 7)):
        assert made(consumer_stream=value).consumer_stream == number
    assert made(consumer_stream=0).consumer_stream is None
    for value in (-1, U64 + 1, 1.0, "1", object(), types.SimpleNamespace(ptr=None)):
        refused("consumer_stream", made, consumer_stream=value)


def test_a_path_of_a_driver_is_text_that_c_can_read():
    for value in ("/a", pathlib.Path("/a"), "é" * 2047, "a" * 4095):
        assert made(cuda_driver=value).cuda_driver == str(value).encode()
    for value in ("", "a\0b", "\udcff", "a" * 4096, "é" * 2048, b"/a", 5, [], object()):
        refused("cuda_driver", made, cuda_driver=value)


def test_a_latency_model_is_numbers_that_reach_the_library():
    model = wavetrain.LatencyModel(
        baseline_ns=numpy.int64(5),
        lognormal_mu_ln_ns=numpy.float32(0.5),
        lognormal_sigma_ln_ns=2,
        cap_ns=U64,
        seed=numpy.uint8(9),
    )
    native = made(metadata_latency=model).metadata_latency
    assert (native.baseline_ns, native.cap_ns, native.seed) == (5, U64, 9)
    assert (native.lognormal_mu_ln_ns, native.lognormal_sigma_ln_ns) == (0.5, 2)
    for name in ("baseline_ns", "cap_ns", "seed"):
        for value in (-1, U64 + 1, 1.0, "1", None, True, NAN):
            refused(name, wavetrain.LatencyModel, **{name: value})
    for name in ("lognormal_mu_ln_ns", "lognormal_sigma_ln_ns"):
        for value in (NAN, INF, "1", None, True, 2**53 + 1):
            refused(name, wavetrain.LatencyModel, **{name: value})
    refused("lognormal_sigma_ln_ns", wavetrain.LatencyModel, lognormal_sigma_ln_ns=-1e-300)
    for value in (0, {}, wavetrain.LatencyModel):
        refused("metadata_latency", wavetrain.Config, **BASE, metadata_latency=value)


def test_a_type_has_many_names():
    for name, member in {
        **dict.fromkeys(
            ("f32", "float32", "F32", "Float32", 1, numpy.float32, "torch.float32"), "F32"
        ),
        **dict.fromkeys(("bf16", "bfloat16", 2), "BF16"),
        **dict.fromkeys(("uint16", "u16", numpy.dtype("<u2"), numpy.uint16), "U16"),
        **dict.fromkeys(("int8", "i8", numpy.dtype("i1")), "I8"),
        **dict.fromkeys(("complex64", "c64", numpy.complex64), "C64"),
        **dict.fromkeys(("complex128", numpy.dtype("c16")), "C128"),
        **dict.fromkeys(("bool", bool, numpy.dtype("?")), "BOOL"),
        "raw": "RAW",
        numpy.int64(5): "I64",
    }.items():
        assert wavetrain.Dtype.coerce(name) is wavetrain.Dtype[member], name
        assert made(dtype=name).dtype == wavetrain.Dtype[member]
    for member in wavetrain.Dtype:
        assert wavetrain.Dtype.coerce(member) is member is wavetrain.Dtype.coerce(int(member))
        assert wavetrain.Dtype.coerce(member.name.lower()) is member
    for value in (0, 17, -1, 2**32 + 1, 2**64 + 1, "nope", "", "float", "int", "f33", "f32\0"):
        kind = refused("unknown dtype: ", wavetrain.Dtype.coerce, value)
        assert kind is ValueError and refused("dtype", made, dtype=value) is ValueError
    for value in (
        None,
        1.0,
        True,
        object(),
        [],
        b"f32",
        numpy.dtype(">u2"),
        float,
        "U",
        numpy.dtype("S4"),
        numpy.datetime64,
        wavetrain.Backend.HOST,
        numpy.array([1, 2]),
    ):
        refused("unknown dtype: ", wavetrain.Dtype.coerce, value)
        refused("dtype", made, dtype=value)


def test_types_of_torch_jax_and_ml_dtypes_are_taken():
    seen = 0
    for module, kinds in (
        ("torch", ("float32", "bfloat16", "float16", "int32", "int64", "uint8", "int8", "bool")),
        ("jax.numpy", ("float32", "bfloat16", "float16", "int32", "uint16", "complex64")),
        ("ml_dtypes", ("bfloat16",)),
    ):
        try:
            found = __import__(module, fromlist=["bfloat16"])
        except ImportError:
            continue
        for kind in kinds:
            name = wavetrain.Dtype.coerce(getattr(found, kind)).name
            assert name == wavetrain.Dtype.coerce(kind).name
            seen += 1
    if not seen:
        pytest.skip("there is neither torch nor jax nor ml_dtypes here")


def test_a_sample_takes_slices_and_pairs_and_refuses_the_rest():
    pairs = wavetrain.Sample("a", [(0, 64), (2, 8)])
    assert pairs == wavetrain.Sample("a", (slice(None, 64), slice(2, 8, 1)))
    assert pairs == wavetrain.Sample("a", numpy.s_[:64, 2:8])
    assert hash(pairs) == hash(wavetrain.Sample("a", [[0, 64], slice(2, 8)]))
    assert pairs.aabb == ((0, 64), (2, 8)) and pairs.tag == 0
    assert wavetrain.Sample("a", []).aabb == ()  # of an array of rank 0
    array = [(numpy.int16(2), numpy.uint64(8))]
    assert wavetrain.Sample("a", array, tag=numpy.uint64(7)) == wavetrain.Sample("a", [(2, 8)], 7)
    for wrong, kind in (
        (64, TypeError),
        (numpy.int64(64), TypeError),
        ((1, 2, 3), TypeError),
        ("ab", TypeError),
        (None, TypeError),
        (..., TypeError),
        (slice(0, 64, 2), ValueError),
        (slice(0, 64, -1), ValueError),
        (slice(3, None), ValueError),
        (slice(0, 64, numpy.array([1, 2])), None),
        ((0, I64 + 1), ValueError),
        ((-I64 - 2, 4), ValueError),
        ((0, U64 + 17), ValueError),
        ((0.5, 4), TypeError),
        ((0, 4.0), TypeError),
        ((0, NAN), TypeError),
        ((None, 4), TypeError),
        ((0, "4"), TypeError),
        ((False, True), TypeError),
    ):
        found = refused("aabb axis 1", wavetrain.Sample, "a", [(0, 1), wrong])
        assert kind is None or found is kind, wrong
    ends = wavetrain.Sample("a", [(-I64 - 1, I64)] * 16, tag=U64)
    assert ends.aabb == ((-I64 - 1, I64),) * 16 and ends.tag == U64
    refused("the number of axes of aabb", wavetrain.Sample, "a", [(0, 1)] * 17)
    refused("the number of axes of aabb", wavetrain.Sample, "a", itertools.repeat((0, 1)))
    refused("aabb", wavetrain.Sample, "a", 5)
    refused("aabb", wavetrain.Sample, "a", None)
    for tag in (U64 + 1, -1, 1.5, "1", None, True):
        refused("tag", wavetrain.Sample, "a", [(0, 4)], tag=tag)
    for uri in ("", "a\0", "\ud800", "a" * 4096, b"a", 5, None, object(), ["a"]):
        refused("uri", wavetrain.Sample, uri, [(0, 4)])
    assert wavetrain.Sample(pathlib.Path("/a/b"), []).uri == "/a/b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        ends.tag = 1


def test_the_box_of_a_sample_reaches_the_library_as_it_is():
    from wavetrain._window import Window

    window = Window()
    samples = [
        wavetrain.Sample(
            "é" * axes or "x", [(-I64 - 1 + axis, I64 - axis) for axis in range(axes)], U64 - axes
        )
        for axes in range(17)
    ]
    assert window.fill(iter(samples)) == 17
    for given, sample, box in zip(samples, window.samples, window.boxes):
        rank = len(given.aabb)
        assert (sample.tag, sample.n_boxes, box.rank, box.kind) == (given.tag, 1, rank, 0)
        assert box.uri_bytes == len(given.uri.encode()) and box.uri == given.uri.encode()
        assert [*zip(box.begin, box.end)] == [*given.aabb, *[(0, 0)] * (16 - rank)]


# ---- The package and the library are one ---------------------------------------------------------


def test_defaults_are_those_of_the_library():
    default = _native.Config()
    library().wavetrain_config_default(ctypes.byref(default), ctypes.sizeof(default))
    ours = made()
    # The package looks for a device, and for its node, and Python takes more stack.
    intended = {"sample_rank", "sample_shape", "backend", "hook_stack_bytes", "numa_strategy"}
    assert ours.backend == _native.BACKEND_AUTO
    assert (ours.numa_strategy, ours.numa_node) == (_native.NUMA_AUTO, -1)
    for name, kind in _native.Config._fields_:
        if name in intended or issubclass(kind, ctypes.Structure):
            continue
        assert getattr(ours, name) == getattr(default, name), name
    timeout = wavetrain.Config(**BASE).pop_timeout_s
    assert timeout == default.pop_timeout_ns / 1e9
    assert made(reset_timeout_s=0.25).reset_timeout_ns == 250_000_000
    assert made(reset_timeout_s=None).reset_timeout_ns == U64
    assert made(reset_timeout_s=1e30).reset_timeout_ns == U64
    for wrong in (0, -1, NAN):
        refused("reset_timeout_s", made, reset_timeout_s=wrong)
    assert made(keep_loaded=False).keep_loaded == 0
    refused("keep_loaded", made, keep_loaded=2)
    assert made(map_uncompressed=True).map_uncompressed == 1
    refused("map_uncompressed", made, map_uncompressed=1)
    assert made(saturate=True).saturate == 1
    refused("saturate", made, saturate=1)
    assert made(cf=True).cf == 1
    refused("cf", made, cf=1)
    assert made(check_memory=False).check_memory == 0
    refused("check_memory", made, check_memory=2)
    assert bytes(ours.metadata_latency) == bytes(default.metadata_latency)


def test_cpus_are_bits_of_words():
    assert (made().cpus, made().cpu_words) == (None, 0)
    native = made(cpus=[0, 2, 64])
    assert (native.cpu_words, list(native.cpu_table)) == (2, [5, 1])
    assert native.cpus == ctypes.addressof(native.cpu_table)
    assert wavetrain.Config(**BASE, cpus=iter([3])).cpus == (3,)
    for wrong in ([], [-1], [8192], [0.5], "0", 3, ["0"], [True]):
        refused("cpus", made, cpus=wrong)


@pytest.mark.parametrize(
    ("kind", "prefix", "other_names"),
    [
        (wavetrain.Status, "", {}),
        (wavetrain.Dtype, "", {}),
        (wavetrain.Backend, "BACKEND_", {}),
        (wavetrain.OnError, "ON_ERROR_", {}),
        (wavetrain.MissingChunks, "MISSING_", {}),
        (wavetrain.PadMode, "PAD_", {}),
        (wavetrain.NumaStrategy, "NUMA_", {"DISABLED": "OFF", "PIN_TO": "PIN"}),
        (wavetrain.NodeKind, "NODE_", {}),
    ],
)
def test_enums_are_those_of_the_header(kind, prefix, other_names):
    text = (ROOT / "include" / "wavetrain.h").read_text()
    numbers = {
        name: int(number) for name, number in re.findall(r"\bWAVETRAIN_(\w+) = (-?\d+)\b", text)
    }
    ours = {prefix + other_names.get(each.name, each.name): int(each) for each in kind}
    assert ours == {name: numbers[name] for name in ours}
    if prefix:
        assert set(ours) == {name for name in numbers if name.startswith(prefix)}


def test_every_status_of_the_library_has_its_name():
    name = library().wavetrain_status_str
    assert all(name(int(status)).decode() == status.name for status in wavetrain.Status)


def test_the_version_is_that_of_the_header():
    text = (ROOT / "include" / "wavetrain.h").read_text()
    parts = re.findall(r"#define WAVETRAIN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    assert wavetrain.__version__ == ".".join(parts)
    assert all(hasattr(wavetrain, name) for name in wavetrain.__all__)


# ---- Anything -----------------------------------------------------------------------------------


class Named(enum.Enum):
    F32 = 1


class Raises:
    """Breaks whatever asks it."""

    def __index__(self):
        raise ZeroDivisionError

    __float__ = __fspath__ = __iter__ = __index__


ODD = [
    *(
        None,
        True,
        False,
        NAN,
        INF,
        -INF,
        -0.0,
        1j,
        "",
        "a\0b",
        "\ud800",
        b"",
        b"\0",
        ...,
        NotImplemented,
    ),
    *(
        numpy.float32(0.1),
        numpy.float64(NAN),
        numpy.uint64(U64),
        numpy.int64(-1),
        numpy.bool_(True),
    ),
    *(numpy.array(3), numpy.array(0.5), numpy.array([1, 2]), numpy.array([])),
    *(numpy.dtype("f4"), numpy.dtype(">f4"), numpy.dtype([("f32", "u1")]), numpy.str_("host")),
    *(numpy.longdouble(3), numpy.datetime64("2020"), numpy.complex64(1)),
    *(decimal.Decimal("1e400"), decimal.Decimal("snan"), fractions.Fraction(10) ** 400),
    *(fractions.Fraction(1, 3), range(3), slice(0, 4), slice(None), Named.F32, wavetrain.Dtype.F16),
    *(wavetrain.Backend.HOST, wavetrain.LatencyModel(), int, object, object(), len, Raises()),
    *(
        pathlib.Path("/x"),
        collections.deque([1]),
        {"a": 1},
        {1, 2},
        memoryview(b"ab"),
        bytearray(2),
    ),
]
scalars = st.one_of(
    st.sampled_from(ODD),
    st.integers(),
    st.integers(-2, 70),
    st.sampled_from(
        [
            sign * (1 << bits) + by
            for sign in (1, -1)
            for bits in (31, 32, 53, 63, 64)
            for by in (-1, 0, 1)
        ]
    ),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.binary(max_size=4),
    st.sampled_from(["host", "CUDA", "skip", "edge", "threads", "pin_to", "f16", "uint8"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner)),
    max_leaves=4,
)
boxes = st.lists(
    st.one_of(
        st.tuples(st.integers(-5, 70), st.integers(-5, 70)),
        st.builds(slice, anything, anything),
        anything,
    ),
    max_size=4,
)
NAMES = [field.name for field in dataclasses.fields(wavetrain.Config)]
thorough = hypothesis.settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def outcome(make, *arguments, names, **fields):
    """What it makes, or None where it is refused with a text that names the field."""
    try:
        return make(*arguments, **fields)
    except (TypeError, ValueError) as error:
        assert type(error) in (TypeError, ValueError), repr(error)
        assert any(name in str(error) for name in names), repr(error)
    except ZeroDivisionError:
        assert any(
            isinstance(value, Raises) or "Raises" in repr(value)
            for value in [*arguments, *fields.values()]
        )
    return None


def is_the_same(given, stored):
    """The struct holds what was given, as a number."""
    if isinstance(given, (float, numpy.floating)) and math.isnan(given):
        return math.isnan(stored)
    return (
        float(given) == stored
        if not hasattr(given, "__index__")
        else operator.index(given) == stored
    )


@thorough
@hypothesis.given(st.dictionaries(st.sampled_from(NAMES), anything, min_size=1, max_size=3))
def test_a_config_of_anything_is_refused_by_name_or_reaches_the_library(fields):
    taken = outcome(wavetrain.Config, names=fields, **{**BASE, **fields})
    if taken is None:
        return
    native = to_native(taken)
    for name, value in fields.items():
        if name in LIMITS and value is not None:
            assert is_the_same(value, getattr(native, name)), name
        elif name == "pad_value" and value is not None:
            assert is_the_same(value, native.pad_value)
        elif name == "pop_timeout_s" and value is not None:
            assert taken.pop_timeout_s == float(value) > 0
        elif name in CHOICES:
            assert getattr(native, name) in [int(member) for member in CHOICES[name]]
        elif name == "sample_shape":
            assert native.sample_shape[: native.sample_rank] == [*map(operator.index, value)]
    repr(taken), hash(taken) if not isinstance(taken.consumer_stream, list) else None
    with contextlib.suppress(TypeError):
        dataclasses.replace(taken, samples_per_batch=1)


@thorough
@hypothesis.given(anything, boxes | anything, anything)
def test_a_sample_of_anything_is_refused_by_name_or_holds_it(uri, aabb, tag):
    taken = outcome(wavetrain.Sample, uri, aabb, tag, names=("uri", "aabb", "tag"))
    if taken is not None:
        assert isinstance(taken.uri, str) and "\0" not in taken.uri and taken.uri.encode()
        assert taken.tag == operator.index(tag)
        assert all(type(end) is int for axis in taken.aabb for end in axis)
        assert hash(taken) == hash(wavetrain.Sample(taken.uri, taken.aabb, taken.tag))


@thorough
@hypothesis.given(anything)
def test_a_dtype_of_anything_is_refused_by_name_or_one_of_them(value):
    taken = outcome(wavetrain.Dtype.coerce, value, names=["unknown dtype"])
    assert taken is None or isinstance(taken, wavetrain.Dtype)


@thorough
@hypothesis.given(
    st.dictionaries(
        st.sampled_from([field.name for field in dataclasses.fields(wavetrain.LatencyModel)]),
        anything,
        min_size=1,
        max_size=2,
    )
)
def test_a_latency_model_of_anything_is_refused_by_name_or_reaches_the_library(fields):
    taken = outcome(wavetrain.LatencyModel, names=fields, **fields)
    if taken is not None:
        native = made(metadata_latency=taken).metadata_latency
        assert all(is_the_same(value, getattr(native, name)) for name, value in fields.items())


@thorough
@hypothesis.given(anything)
def test_a_log_level_of_anything_is_refused_by_name_or_one_of_them(value):
    try:
        if outcome(lambda: wavetrain.set_log_level(value), names=["level"]) is not None:
            assert 0 <= operator.index(value) <= 5
        outcome(lambda: wavetrain.set_log_quiet(value), names=["quiet"])
    except ZeroDivisionError:
        assert isinstance(value, Raises)
    finally:
        wavetrain.set_log_level(wavetrain.LOG_WARN)
        wavetrain.set_log_quiet(True)


def test_a_push_of_anything_is_refused_or_comes_out(cube):
    with wavetrain.Pipeline(config(samples_per_batch=1, lookahead_samples=256)) as stream:

        @thorough
        @hypothesis.given(
            st.one_of(
                anything,
                st.lists(st.one_of(anything, st.integers(0, 50).map(cube.sample)), max_size=5),
            )
        )
        def push(samples):
            good = []
            if isinstance(samples, list):
                good = [
                    *itertools.takewhile(lambda each: isinstance(each, wavetrain.Sample), samples)
                ]
            try:
                stream.push(samples)
                assert not good or len(good) == len(samples)
            except (TypeError, ZeroDivisionError) as error:
                assert "samples must be" in str(error) or "itera" in str(error) or not str(error)
            seen = []
            for batch in stream.batches():
                with batch:
                    seen += batch.info.tags
            assert seen == [sample.tag for sample in good]

        push()


@hypothesis.settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    st.fixed_dictionaries(
        {},
        optional={
            "samples_per_batch": st.integers(1, 8),
            "sample_shape": st.lists(st.integers(1, 4), min_size=1, max_size=16),
            "dtype": st.sampled_from([*wavetrain.Dtype]),
            "dtype_bytes": st.integers(0, 16),
            "lookahead_samples": st.integers(8, 100),
            "max_chunk_uncompressed_bytes": st.sampled_from([1, 7, 4096, 1 << 31]),
            "max_read_op_bytes": st.sampled_from([1, 7, 4096, U32]),
            "max_gpu_memory_bytes": st.sampled_from([0, 1, U64]),
            "max_host_memory_bytes": st.sampled_from([0, 1, 1 << 24, 1 << 26]),
            "chunk_cache_bytes": st.sampled_from([0, 1, 1 << 16, 1 << 20, U64]),
            "host_buffer_waves": st.integers(2, 64),
            "max_chunks_per_wave": st.integers(1, 600),
            "n_batch_slots": st.integers(1, 64),
            "n_io_threads": st.integers(1, 4),
            "n_decode_threads": st.integers(1, 4),
            "n_array_meta_cache": st.sampled_from([1, 64, 1 << 20]),
            "n_shard_index_cache": st.sampled_from([1, 64, 1 << 24]),
            "n_chunk_layout_cache": st.sampled_from([1, 64, 1 << 24]),
            "device": st.sampled_from([None, 0, I32]),
            "backend": st.sampled_from(["host", "cuda"]),
            "pad_mode": st.sampled_from([*wavetrain.PadMode]),
            "pad_value": st.sampled_from([None, 0.5, NAN, INF, 300, -1]),
            "enable_gds": st.sampled_from([None, False, True]),
            "numa_strategy": st.sampled_from(["auto", "disabled"]),
            "consumer_stream": st.sampled_from([None, 1, U64]),
            "cuda_driver": st.sampled_from([None, "/nowhere/libcuda.so.1"]),
            "metadata_latency": st.sampled_from([None, wavetrain.LatencyModel(seed=1)]),
        },
    )
)
def test_a_config_that_is_taken_opens_or_says_why_not(fields):
    plain = {"n_io_threads": 1, "n_decode_threads": 1, "max_host_memory_bytes": 1 << 26}
    taken = config(**{**plain, **fields})
    try:
        stream = wavetrain.Pipeline(taken)
    except wavetrain.WavetrainError as error:
        assert error.what == "open" and len(str(error)) > 20 and error.status < 0
    else:
        stream.close()


@pytest.mark.parametrize(
    "extents", [(U64,), (2**32, 2**32), (2**62, 4), (1 << 40,), (1 << 20,) * 16]
)
def test_a_batch_that_no_memory_holds_is_refused(extents):
    huge = {"sample_shape": extents, "samples_per_batch": 1 << 20}
    with pytest.raises(
        (wavetrain.InvalidArgument, wavetrain.BudgetExceeded, wavetrain.OutOfMemory)
    ):
        wavetrain.Pipeline(config(**huge))
    with pytest.raises((wavetrain.InvalidArgument, wavetrain.BudgetExceeded)):
        wavetrain.Pipeline(config(**huge, max_host_memory_bytes=1 << 30))
