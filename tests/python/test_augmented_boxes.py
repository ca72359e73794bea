"""Arithmetic on the elements of boxes, against numpy written as wavetrain.h defines it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics

import ml_dtypes
import numpy as np
import pytest
import zarr
from devices import Gpu

import wavetrain
from wavetrain import Augment, Box, Column, Config, Erase, Field, Pipeline, Sample

NAN = np.uint32(0x7FC00000).view(np.float32)
FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
KINDS = ["bool", "u1", "i1", "<u2", ">u2", "i2", "u4", "i4", "u8", "i8", "f2", "<f4", ">f4", "f8"]


def noise(key: int, count: int) -> np.ndarray:
    """z of the first places of a field."""
    table = np.array(
        [
            statistics.NormalDist().inv_cdf((i + 0.5) / 2048) * 0.7073325951129718
            for i in range(2048)
        ]
    ).astype(np.float32)
    with np.errstate(over="ignore"):
        h = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        h = (h ^ h >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ h >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return table[h >> np.uint64(53)] + table[h >> np.uint64(42) & np.uint64(2047)]


def by_channel(values, shape, axis):
    values = np.asarray(values, np.float32)
    if len(values) == 1:
        return values[0]
    extents = [1] * len(shape)
    extents[axis] = len(values)
    return values.reshape(extents)


def expected(elements: np.ndarray, augment: Augment, target, covered=None) -> np.ndarray:
    """What a field of the shape of `elements` gets. `covered`: what goes through."""
    shape, axis = elements.shape, augment.channel_axis
    with np.errstate(all="ignore"):
        plain = elements.astype(np.float32)
        x = plain.copy()
        if augment.scale:
            x = x * by_channel(augment.scale, shape, axis)
        if augment.bias:
            x = x + by_channel(augment.bias, shape, axis)
        if augment.noise:
            x = x + np.float32(augment.noise) * noise(augment.noise_key, x.size).reshape(shape)
        if augment.clamp:
            low, high = map(np.float32, augment.clamp)
            x = np.where(x < low, low, x)
            x = np.where(x > high, high, x)
        for erase in augment.erase:
            box = tuple(slice(*pair) for pair in zip(erase.begin, erase.end))
            x[box] = np.broadcast_to(by_channel(erase.values, shape, axis), shape)[box]
        x[np.isnan(x)] = NAN
        if covered is not None:
            x = np.where(covered, x, plain)
        return x.astype(target)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def stream(boxes, shape, dtype="f32", **settings) -> np.ndarray:
    """The batch of samples of one box each, which a simulated driver gives too if there is one."""
    config = Config(
        samples_per_batch=len(boxes),
        fields=[Field("x", shape, dtype, **settings.pop("field", {}))],
        augment=True,
        **settings,
    )
    with one_batch(config, boxes) as batch:
        made = np.array(batch, copy=True) if dtype != "bf16" else bf16_of(batch)
    if driver := os.environ.get("SIMULATED_DRIVER"):
        gpu = Gpu(driver)
        on_device = dataclasses.replace(config, backend="cuda", device=0, cuda_driver=driver)
        with one_batch(on_device, boxes) as batch:
            assert (gpu.bytes(batch) == made.view("u1").reshape(-1)).all()
        gpu.found_nothing()
    return made


@contextlib.contextmanager
def one_batch(config: Config, boxes):
    with Pipeline(config) as pipeline:
        pipeline.push(Sample(boxes=[box]) for box in boxes)
        pipeline.flush()
        with pipeline.pop() as batch:
            yield batch


def bf16_of(batch) -> np.ndarray:
    return np.array(np.asarray(batch), copy=True).view(ml_dtypes.bfloat16)


def random_array(kind: str, shape, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        made = (random.standard_normal(shape) * 100).astype(dtype)
        made.reshape(-1)[::37] = np.nan
        made.reshape(-1)[::41] = np.inf
        return made
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return random.integers(
        info.min, info.max, shape, dtype=dtype.newbyteorder("="), endpoint=True
    ).astype(dtype)


def augments(shape, random) -> list[Augment]:
    """One of each kind, and all together, for channels along each axis."""
    begin = [int(random.integers(0, n)) for n in shape]
    end = [int(random.integers(b + 1, n + 1)) for b, n in zip(begin, shape)]
    made = [
        Augment(),
        Augment(scale=1 / 255),
        Augment(bias=-3.25),
        Augment(clamp=(-1, 50.5)),
        Augment(noise=2.5, noise_key=int(random.integers(1 << 63))),
        Augment(erase=Erase(begin, end, 7)),
    ]
    for axis, channels in enumerate(shape):
        if channels <= 64:
            tables = random.standard_normal((3, channels)).astype(np.float32)
            made.append(
                Augment(
                    scale=tables[0],
                    bias=tables[1],
                    channel_axis=axis,
                    clamp=(-20, 30),
                    noise=0.5,
                    noise_key=axis,
                    erase=[Erase(begin, end, tables[2]), Erase([0] * len(shape), [1] * len(shape))],
                )
            )
            made.append(Augment(scale=tables[0], channel_axis=axis))
    return made


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_goes_through_bit_for_bit(tmp_path, kind, target):
    array = random_array(kind, (21, 19, 6), 1)
    np.save(tmp_path / "a.npy", array)
    random = np.random.default_rng(2)
    shape = (13, 11, 3)
    every = augments(shape, random)
    begins = [
        [int(random.integers(0, n - m + 1)) for n, m in zip(array.shape, shape)] for _ in every
    ]
    boxes = [
        Box(tmp_path / "a.npy", [(b, b + n) for b, n in zip(begin, shape)], augment=augment)
        for begin, augment in zip(begins, every)
    ]
    found = stream(boxes, shape, target)
    for begin, augment, made in zip(begins, every, found):
        elements = array[tuple(slice(b, b + n) for b, n in zip(begin, shape))]
        wanted = expected(elements, augment, FLOATS[target])
        assert (bits(made) == bits(wanted)).all(), augment


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["u2", "f4"])
def test_chunks_missing_chunks_steps_and_axes(tmp_path, kind, compressed):
    random = np.random.default_rng(3)
    array = random_array(kind, (40, 30, 8), 4)
    compressors = "auto" if compressed else None
    stored = zarr.create_array(
        tmp_path / "a.zarr",
        shape=array.shape,
        chunks=(7, 9, 3),
        dtype=array.dtype,
        fill_value=5,
        compressors=compressors,
    )
    array[7:21] = 5  # not written: chunks are missing
    stored[:7], stored[21:] = array[:7], array[21:]
    shape = (8, 20, 17)
    for augment in augments(shape, random):
        box = Box(
            stored, [(1, 34), (6, 26), (0, 8)], step=(-2, -1, 1), axes=(2, 1, 0), augment=augment
        )
        elements = array[33:0:-2, 25:5:-1].transpose(2, 1, 0)
        assert elements.shape == shape
        wanted = expected(elements, augment, np.float32)
        assert (bits(stream([box], shape)[0]) == bits(wanted)).all(), augment


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("pad_value", [None, 9.5])
def test_padding(tmp_path, mode, through, pad_value):
    random = np.random.default_rng(5)
    array = random_array("u2", (9, 12), 6)
    stored = zarr.create_array(
        tmp_path / "a.zarr", shape=array.shape, chunks=(4, 5), dtype=array.dtype, fill_value=3
    )
    stored[:] = array
    shape, before = (16, 21), (3, 4)
    after = tuple(m - n - b for m, n, b in zip(shape, array.shape, before))
    sides = list(zip(before, after))
    if mode == "constant":
        padded = np.pad(
            array.astype(np.float32), sides, constant_values=3.0 if pad_value is None else pad_value
        )
    else:
        padded = np.pad(array, sides, mode=mode)
    inside = np.zeros(shape, bool)
    inside[before[0] : before[0] + 9, before[1] : before[1] + 12] = True
    for augment in augments(shape, random):
        augment = dataclasses.replace(augment, pad_goes_through=through)
        box = Box(
            stored, [(-b, n + a) for n, b, a in zip(array.shape, before, after)], augment=augment
        )
        field = {"pad_mode": mode} | ({} if pad_value is None else {"pad_value": pad_value})
        found = stream([box], shape, field=field)[0]
        wanted = expected(padded, augment, np.float32, None if through else inside)
        assert (bits(found) == bits(wanted)).all(), augment


def test_parts_of_a_field_share_its_places_and_what_none_covers_is_left(tmp_path):
    array = random_array("u2", (30, 30), 7)
    np.save(tmp_path / "a.npy", array)
    augment = Augment(
        scale=0.5, bias=1, noise=1, noise_key=9, erase=Erase((2, 2), (9, 20), 4), clamp=(0, 9e9)
    )
    config = Config(
        samples_per_batch=1,
        fields=[Field("x", (12, 20), "f32", pad_value=-1)],
        max_boxes_per_sample=3,
        augment=True,
    )
    boxes = [
        Box(tmp_path / "a.npy", [(0, 12), (0, 7)], augment=augment),
        Box(tmp_path / "a.npy", [(5, 10), (10, 18)], at=(3, 7), augment=augment),
        Box(array=np.full((2, 5), 7, np.int32), at=(0, 15), augment=augment),
    ]
    with Pipeline(config) as pipeline:
        pipeline.push([Sample(boxes=boxes)])
        pipeline.flush()
        with pipeline.pop() as batch:
            found = np.array(batch, copy=True)[0]
    elements, covered = np.full((12, 20), -1.0, np.float32), np.zeros((12, 20), bool)
    for box, part in [
        (np.s_[:, :7], array[:12, :7]),
        (np.s_[3:8, 7:15], array[5:10, 10:18]),
        (np.s_[:2, 15:], 7),
    ]:
        elements[box], covered[box] = part, True
    wanted = expected(elements, augment, np.float32, covered)
    assert (bits(found) == bits(wanted)).all()


def test_tables_have_one_for_all_rows_or_one_for_each(tmp_path):
    array = random_array("u1", (50, 3, 6), 8)
    np.save(tmp_path / "a.npy", array)
    config = Config(samples_per_batch=5, sample_shape=(3, 6), augment=True)
    begins = np.array([[n, 0, 0] for n in (3, 0, 49, 7, 7)])
    each = [Augment(scale=n + 1, bias=(0, n, 2 * n)) for n in range(5)]
    for augment, of in [(each[2], [each[2]] * 5), (each, each)]:
        with Pipeline(config) as pipeline:
            pipeline.push_boxes(Column(tmp_path / "a.npy", begins, (1, 3, 6), augment=augment))
            pipeline.flush()
            with pipeline.pop() as batch:
                found = np.array(batch, copy=True)
        for made, begin, one in zip(found, begins, of):
            assert (made == expected(array[begin[0]], one, np.float32)).all()


@pytest.mark.parametrize("threads", [1, 4])
def test_noise_does_not_depend_on_threads_waves_or_caches(tmp_path, threads):
    array = random_array("u2", (64, 64, 64), 10)
    stored = zarr.create_array(
        tmp_path / "a.zarr", shape=array.shape, chunks=(16, 16, 16), dtype="u2"
    )
    stored[:] = array
    augment = Augment(scale=1e-3, noise=1, noise_key=3)
    boxes = [Box(stored, [(b, b + 40)] * 3, augment=augment) for b in (0, 7, 24)]
    settings = {"n_decode_threads": threads, "max_chunks_per_wave": 7 * threads}
    found = stream(boxes, (40, 40, 40), chunk_cache_bytes=1 << 26, **settings)
    for box, made in zip((0, 7, 24), found):
        wanted = expected(
            array[box : box + 40, box : box + 40, box : box + 40], augment, np.float32
        )
        assert (made == wanted).all()


WRONG = [
    (Augment(scale=(1, 2)), "n_channels = 2, channel_axis = 0: a sample has the shape [3, 6]"),
    (Augment(scale=(1, 2, 3), channel_axis=1), "n_channels = 3, channel_axis = 1"),
    (Augment(scale=(1, 2, 3), channel_axis=5), "channel_axis = 5"),
    (Augment(erase=Erase((0,), (1,))), "erase[0] has 1 axes, and a sample 2"),
    (Augment(erase=Erase((0, 3), (1, 3))), "erase[0]: axis 1: [3, 3) must lie in [0, 6)"),
    (Augment(erase=[Erase((0, 3), (1, 4)), Erase((0, 3), (4, 4))]), "erase[1]: axis 0: [0, 4)"),
]


@pytest.mark.parametrize(("augment", "text"), WRONG)
def test_what_does_not_fit_the_field_is_refused_by_name(tmp_path, augment, text):
    np.save(tmp_path / "a.npy", np.zeros((3, 6), np.uint8))
    with pytest.raises(wavetrain.InvalidArgument) as error:
        stream([Box(tmp_path / "a.npy", [(0, 3), (0, 6)], augment=augment)], (3, 6))
    assert text in str(error.value)


def test_a_pipeline_without_room_and_fields_of_integers_refuse_it(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 6), np.uint8))
    box = Box(tmp_path / "a.npy", [(0, 3), (0, 6)], augment=Augment(scale=2))
    refused = pytest.raises(wavetrain.InvalidArgument, match=r"augment: .* set its augment to 1")
    with Pipeline(Config(samples_per_batch=1, sample_shape=(3, 6))) as pipeline, refused:
        pipeline.push([Sample(boxes=[box])])
    fields = [Field("x", (3, 6), "u8"), Field("y", (3, 6), "f32")]
    config = Config(samples_per_batch=1, fields=fields, augment=True)
    refused = pytest.raises(wavetrain.InvalidArgument, match="x: augment: its elements are u8")
    with Pipeline(config) as pipeline, refused:
        pipeline.push([Sample(boxes=[box])])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"scale": [1] * 65}, "scale must have at most 64 numbers"),
        ({"scale": (1, 2), "bias": (1, 2, 3)}, "as many channels"),
        ({"clamp": (2, 1)}, "clamp must be"),
        ({"noise": -1}, "noise must be at least 0"),
        ({"noise_key": -1}, "noise_key"),
        ({"erase": [Erase((0,), (1,))] * 9}, "at most 8 boxes"),
        ({"erase": [Erase((0,), (1,)), Erase((0, 0), (1, 1))]}, "one number of axes"),
    ],
)
def test_python_says_what_is_wrong(settings, text):
    with pytest.raises((ValueError, TypeError)) as error:
        Augment(**settings)
    assert text in str(error.value)
