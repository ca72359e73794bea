"""Boxes with an affine map, against the map in numpy as wavetrain.h defines it."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import zarr
from test_augmented_boxes import bits, expected

import wavetrain
from wavetrain import (
    Affine,
    Affines,
    Augment,
    Box,
    Column,
    Config,
    Erase,
    Field,
    Pipeline,
    Sample,
    _pixels,
)
from wavetrain.augment import AffineSpec, AugmentSpec

PADS = ["constant", "edge", "reflect"]
SHAPE = (37, 41, 53)


def resampled(array, affine: Affine, shape, pad="constant", value=0.0) -> np.ndarray:
    """The elements that a box of a shape gets: floats if linear, those of the array if nearest.
    Other axes of the array have the extents of the shape."""
    size = len(affine.matrix)
    axes = affine.axes or tuple(range(len(shape) - size, len(shape)))
    spec: dict = {field.name: None for field in dataclasses.fields(AugmentSpec)}
    spec |= {"shape": shape, "pad_mode": pad, "pad_value": value}
    rows = tuple((*row[:-1], *[0.0] * (3 - size), row[-1]) for row in affine.matrix)
    spec |= {"affine": AffineSpec(axes, rows, affine.filter == "linear")}
    made = _pixels.resampled(array, AugmentSpec(**spec))
    return made.astype("f4") if affine.filter == "linear" else made


def is_outside(array, affine: Affine, shape) -> np.ndarray:
    """Places of which every tap lies outside of the array."""
    return resampled(np.ones(array.shape, "f4"), affine, shape) == 0


def turned(random, size=3, low=-0.6, high=0.6, extents=SHAPE) -> list[list[float]]:
    """A matrix near a whole turn that leads about the middle of an array."""
    turn = np.eye(size) + random.uniform(low, high, (size, size))
    return [[*row, random.uniform(-8, extent)] for row, extent in zip(turn, extents)]


def boxes_of(uri, shape, affine, **more) -> list[Box]:
    return [Box(uri, [(0, extent) for extent in shape], affine=affine, **more)]


def padded(name, shape, dtype, value=0.0, pad_mode="constant") -> Field:
    return Field(name, shape, dtype, pad_mode=pad_mode, pad_value=value)


def stream(samples, fields, batch=1, **settings) -> dict[str, np.ndarray]:
    """All samples, by field."""
    settings = {"augment": True, **settings}
    config = Config(samples_per_batch=batch, fields=fields, **settings)
    made: dict[str, list] = {field.name: [] for field in fields}
    with Pipeline(config) as pipeline:
        pipeline.push(Sample(boxes=boxes) for boxes in samples)
        pipeline.flush()
        for _ in range(-(-len(samples) // batch)):
            with pipeline.pop() as popped:
                for name in made:
                    made[name].append(np.array(popped[name], copy=True))
    return {name: np.concatenate(parts) for name, parts in made.items()}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("affine")
    random = np.random.default_rng(5)
    image = random.integers(0, 65536, SHAPE, dtype="u2")
    label = random.integers(0, 200, SHAPE).astype("u1")
    many = random.standard_normal((3, *SHAPE[1:], 4)).astype("f4")
    arrays = {"image": (image, (16, 11, 20)), "label": (label, (9, 41, 17)), "many": (many, None)}
    for name, (array, chunks) in arrays.items():
        written = zarr.create_array(
            folder / name, shape=array.shape, chunks=chunks or (1, 16, 16, 4), dtype=array.dtype
        )
        written[...] = array
    np.save(folder / "image.npy", image)
    return str(folder), {name: array for name, (array, _) in arrays.items()}


@pytest.mark.parametrize("pad", PADS)
def test_an_image_and_its_labels_go_through_one_map(store, pad):
    folder, arrays = store
    random, shape = np.random.default_rng(7), (12, 15, 18)
    matrices = [turned(random) for _ in range(60)]
    fields = [
        Field("x", shape, "f32", pad_mode=pad, pad_value=3.5),
        Field("y", shape, "u8", pad_mode=pad, pad_value=255),
    ]
    samples = [
        [
            *boxes_of(f"{folder}/image", shape, Affine(matrix), field="x"),
            *boxes_of(f"{folder}/label", shape, Affine(matrix, filter="nearest"), field="y"),
        ]
        for matrix in matrices
    ]
    made = stream(samples, fields, batch=4)
    for number, matrix in enumerate(matrices):
        x = resampled(arrays["image"], Affine(matrix), shape, pad, 3.5)
        y = resampled(arrays["label"], Affine(matrix, filter="nearest"), shape, pad, 255)
        assert (bits(made["x"][number]) == bits(x)).all()
        assert (made["y"][number] == y).all()


def test_whatever_threads_staging_and_caches_the_bits_are_the_same(store):
    folder, _ = store
    random, shape = np.random.default_rng(8), (12, 15, 18)
    samples = [
        boxes_of(f"{folder}/{name}", shape, Affine(turned(random)), field="x")
        for name in ["image", "image.npy"] * 20
    ]
    fields = [Field("x", shape, "bf16", pad_mode="reflect")]
    settings = [
        {"n_decode_threads": 1, "n_io_threads": 1},
        {"n_decode_threads": 5, "max_resample_bytes": 200_000},
        {"chunk_cache_bytes": 4 << 20},
        {"max_chunks_per_wave": 1, "host_buffer_waves": 2},
        {"batch": 40, "max_resample_bytes": 120_000},
    ]
    made = [stream(samples, fields, **{"batch": 5, **each})["x"] for each in settings]
    assert len(made[0]) == 40 and len(np.unique(bits(made[0]))) > 100
    assert all((bits(each) == bits(made[0])).all() for each in made[1:])


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_arithmetic_goes_over_what_was_resampled(store, through, dtype):
    folder, arrays = store
    random, shape = np.random.default_rng(9), (6, 15, 18)
    augment = Augment(
        scale=random.uniform(0.5, 2, 6),
        bias=random.uniform(-1, 1, 6),
        noise=25.0,
        noise_key=77,
        clamp=(-1e5, 9e4),
        erase=[Erase((1, 2, 3), (4, 9, 15), 0.25), Erase((0, 0, 0), (6, 4, 18), [*range(6)])],
        pad_goes_through=through,
    )
    affines = [Affine(turned(random, low=-0.3), filter=f) for f in ["linear", "nearest"] * 6]
    samples = [boxes_of(f"{folder}/image", shape, each, augment=augment) for each in affines]
    made = stream(samples, [padded("x", shape, dtype, -7)], batch=3)["x"]
    kinds = set()
    for number, affine in enumerate(affines):
        x = resampled(arrays["image"].astype("f4"), affine, shape, value=-7)
        covered = None if through else ~is_outside(arrays["image"], affine, shape)
        kinds.add(covered is not None and bool(covered.any() and not covered.all()))
        target = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
        wanted = expected(x, augment, target, covered)
        assert (bits(made[number]).view(bits(wanted).dtype) == bits(wanted)).all()
    assert kinds == {not through} or kinds == {True, False}


def test_other_axes_are_copied_with_steps_and_turned(store):
    folder, arrays = store
    random = np.random.default_rng(10)
    matrix = turned(random, 2, extents=(41, 53))
    affine = Affine(matrix, (1, 2), filter="nearest")
    box = Box(
        f"{folder}/many",
        [(0, 3), (0, 14), (0, 10), (0, 4)],
        affine=affine,
        step=(-1, 1, 1, 2),
        axes=(2, 0, 1, 3),
    )
    shape = (14, 10, 3, 2)
    made = stream([[box]], [padded("x", shape, "f32")])["x"][0]
    turned_array = arrays["many"][::-1, :, :, ::2]
    wanted = resampled(turned_array, affine, (3, 14, 10, 2)).transpose(1, 2, 0, 3)
    assert (bits(made) == bits(np.ascontiguousarray(wanted))).all()


def test_channels_last_have_their_own_factors(store):
    folder, arrays = store
    affine = Affine(turned(np.random.default_rng(11), 2, extents=(41, 53)), (1, 2))
    augment = Augment(scale=(1, 2, 3, 4), bias=(0, 1, 0, -1), channel_axis=3, noise=0.5)
    shape = (3, 9, 8, 4)
    samples = [boxes_of(f"{folder}/many", shape, affine, augment=augment)]
    made = stream(samples, [Field("x", shape, "f16", pad_mode="edge")])["x"][0]
    x = resampled(arrays["many"], affine, shape, "edge")
    assert (bits(made) == bits(expected(x, augment, np.float16))).all()


def test_turns_and_flips_are_what_axes_and_steps_do(store):
    folder, _ = store
    turn = Affine([[0, -1, 0, 30], [1, 0, 0, 4], [0, 0, -1, 25]], filter="linear")
    mapped = Box(f"{folder}/image", [(0, 9), (0, 8), (0, 10)], affine=turn, axes=(0, 1, 2))
    plain = Box(
        f"{folder}/image",
        [slice(30, 22, -1), slice(4, 13), slice(25, 15, -1)],
        axes=(1, 0, 2),
    )
    made = stream([[mapped], [plain]], [Field("x", (9, 8, 10), "f32")])["x"]
    assert (bits(made[0]) == bits(made[1])).all()


def test_boxes_may_be_parts_of_a_sample(store):
    folder, arrays = store
    affines = [Affine(turned(np.random.default_rng(seed))) for seed in (1, 2)]
    uri, shape = f"{folder}/image", (5, 6, 7)
    boxes = [
        Box(uri, [(0, e) for e in shape], affine=affine, at=(0, 6 * number, 0))
        for number, affine in enumerate(affines)
    ]
    fields = [padded("x", (5, 13, 7), "f32", 9)]
    made = stream([boxes], fields, max_boxes_per_sample=2)["x"][0]
    for number, affine in enumerate(affines):
        wanted = resampled(arrays["image"], affine, shape, value=9)
        assert (made[:, 6 * number : 6 * number + 6] == wanted).all()
    assert (made[:, 12:] == 9).all()


def table_of(columns, fields, count, batch=4, **settings) -> dict[str, np.ndarray]:
    """All rows of a table, by field."""
    config = Config(samples_per_batch=batch, fields=fields, augment=True, **settings)
    made: dict[str, list] = {field.name: [] for field in fields}
    with Pipeline(config) as pipeline:
        pipeline.push_boxes(columns)
        for popped in pipeline.batches():
            with popped:
                for name in made:
                    made[name].append(np.array(popped[name], copy=True))
    found = {name: np.concatenate(parts) for name, parts in made.items()}
    assert all(len(each) == count for each in found.values())
    return found


@pytest.mark.parametrize("pad", PADS)
def test_rows_of_a_table_have_maps_of_their_own(store, pad):
    folder, arrays = store
    random, shape, count = np.random.default_rng(12), (12, 15, 18), 30
    matrices = np.array([turned(random) for _ in range(count)])
    fields = [
        Field("x", shape, "f32", pad_mode=pad, pad_value=3.5),
        Field("y", shape, "u8", pad_mode=pad, pad_value=255),
    ]
    begins = np.zeros((count, 3), "i8")
    nearest = Affines(matrices, filter="nearest")
    linear = Affines(matrices.astype(">f8"), (0, 1, 2))
    matrices_then, matrices[:] = matrices.copy(), 99  # copied
    scale = [Augment(scale=1 + row / 8) for row in range(count)]
    columns = {
        "x": Column(f"{folder}/image", begins, shape, affine=linear, augment=scale),
        "y": Column(f"{folder}/label", begins, shape, affine=nearest),
    }
    made = table_of(columns, fields, count)
    for row, matrix in enumerate(matrices_then):
        x = resampled(arrays["image"], Affine(matrix), shape, pad, 3.5)
        covered = ~is_outside(arrays["image"], Affine(matrix), shape) if pad == "constant" else None
        x = expected(x, scale[row], np.float32, covered)
        y = resampled(arrays["label"], Affine(matrix, filter="nearest"), shape, pad, 255)
        assert (bits(made["x"][row]) == bits(x)).all()
        assert (made["y"][row] == y).all()


def test_rows_of_a_table_have_one_map(store):
    folder, arrays = store
    affine = Affine(turned(np.random.default_rng(13), 2, extents=(41, 53)), (1, 2))
    count, shape = 9, (1, 10, 12)
    begins = np.zeros((count, 3), "i8")
    begins[:, 0] = np.arange(count) * 4
    column = Column(f"{folder}/image", begins, shape, affine=affine, augment=Augment(scale=2))
    made = table_of(column, [padded("x", shape[1:], "f32")], count)["x"]
    for row in range(count):
        wanted = 2 * resampled(arrays["image"][4 * row : 4 * row + 1], affine, shape)[0]
        assert (bits(made[row]) == bits(wanted)).all()


def test_what_is_wrong_with_maps_of_rows_is_named(store):
    folder, _ = store
    uri, begins, shape = f"{folder}/image", np.zeros((3, 3), "i8"), (4, 5, 6)
    whole = np.tile(np.eye(3, 4), (3, 1, 1))
    broken = whole.copy()
    broken[1, 2, 3] = np.inf
    for kind, text, make in [
        (ValueError, "[samples, axes, axes + 1] of 1 to 3 axes (got the shape (3, 4))", whole[0]),
        (ValueError, "(got the shape (3, 3, 3))", whole[..., :3]),
        (ValueError, "(got the shape (3, 4, 5))", np.zeros((3, 4, 5))),
        (ValueError, "matrices[1] must have numbers alone", broken),
        (ValueError, "could not convert", [[["a"]]]),
    ]:
        with pytest.raises(kind) as caught:
            Affines(make)
        assert text in str(caught.value)
    with pytest.raises(ValueError, match="axes must name 3 axes, each once"):
        Affines(whole, (0, 1))
    for kind, text, affine in [
        (TypeError, "affine must be an Affine, or Affines", whole),
        (TypeError, "affine must be an Affine, or Affines", [Affine(whole[0])] * 3),
        (ValueError, "Affines of 3 .got <Affines of 2 samples, 3 axes>", Affines(whole[:2])),
    ]:
        with pytest.raises(kind, match=text):
            Column(uri, begins, shape, affine=affine)
    with pytest.raises(ValueError, match="a matrix of 3 rows, but the box has 2 axes"):
        Column(uri, begins[:, :2], shape[:2], affine=Affines(whole))
    # The library names the row.
    whole[2, 1] = whole[2, 0]
    column = Column(uri, begins, shape, affine=Affines(whole))
    with pytest.raises(wavetrain.InvalidArgument, match=r"push: row 2: .*singular"):
        table_of(column, [padded("x", shape, "f32")], 3)
    nothing = Column(uri, begins[:0], shape, affine=Affines(whole[:0]))
    with Pipeline(Config(samples_per_batch=1, sample_shape=shape, augment=True)) as pipeline:
        pipeline.push_boxes(nothing)
        assert not pipeline.pending


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("filter", ["linear", "nearest"])
def test_one_voxel_and_maps_that_miss_the_array(tmp_path, pad, filter):
    array = np.array([[[7.5]]], "f4")
    np.save(tmp_path / "one.npy", array)
    matrices = [
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]],
        [[1, 0, 0, 99], [0, 1, 0, 0], [0, 0, 1, -500]],
        [[0.25, 0, 0, -0.75], [0, -0.5, 0, 0.5], [0, 0, 2, -3]],
    ]
    shape = (4, 3, 5)
    affines = [Affine(matrix, filter=filter) for matrix in matrices]
    samples = [boxes_of(str(tmp_path / "one.npy"), shape, each) for each in affines]
    made = stream(samples, [Field("x", shape, "f32", pad_mode=pad, pad_value=-1)])["x"]
    for affine, each in zip(affines, made):
        assert (bits(each) == bits(resampled(array, affine, shape, pad, -1))).all()


KINDS = ["bool", "u1", "i1", "<u2", ">u2", "i2", "u4", "i4", "u8", "i8", "f2", ">f4", "f8"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_resampled(tmp_path, kind):
    random = np.random.default_rng(3)
    array = random.integers(0, 2 if kind == "bool" else 100, (9, 12, 14)).astype(kind)
    np.save(tmp_path / "a.npy", array)
    affine = Affine(turned(random, extents=array.shape))
    shape, own = (5, 6, 7), {"field": "own"}
    name = np.dtype(kind).newbyteorder("=")
    same = Affine(affine.matrix, filter="nearest")
    boxes = boxes_of(str(tmp_path / "a.npy"), shape, affine, field="x")
    boxes += boxes_of(str(tmp_path / "a.npy"), shape, same, **own)
    made = stream([boxes], [padded("x", shape, "f32"), padded("own", shape, name)])
    native = array.astype(name)
    assert (bits(made["x"][0]) == bits(resampled(native, affine, shape))).all()
    assert (made["own"][0] == resampled(native, same, shape)).all()


def test_chunks_that_are_missing_are_the_fill_value(tmp_path):
    array = zarr.create_array(
        tmp_path / "a", shape=(20, 20), chunks=(8, 8), dtype="i2", fill_value=-5
    )
    array[:8, :8] = 100
    affine = Affine([[1, 0.25, -1], [-0.25, 1, 3]])
    made = stream(
        [boxes_of(str(tmp_path / "a"), (16, 16), affine)],
        [Field("x", (16, 16), "f32", pad_mode="constant")],
    )
    wanted = resampled(array[...], affine, (16, 16), value=-5)
    assert (bits(made["x"][0]) == bits(wanted)).all()


def refusal(box: Box, *, shape=(4, 4), **settings) -> wavetrain.WavetrainError:
    field = Field("x", shape, settings.pop("dtype", "f32"), **settings.pop("field", {}))
    config = Config(samples_per_batch=1, fields=[field], **{"augment": True, **settings})
    with pytest.raises(wavetrain.WavetrainError) as caught, Pipeline(config) as pipeline:
        pipeline.push([Sample(boxes=[box])])
        pipeline.pop()
    return caught.value


@pytest.fixture
def square(tmp_path) -> str:
    np.save(tmp_path / "a.npy", np.arange(64, dtype="u2").reshape(8, 8))
    return str(tmp_path / "a.npy")


WHOLE = [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("aabb", "affine", "settings", "error", "text"),
    [
        ([(0, 4)] * 2, Affine(WHOLE), {"augment": False}, "InvalidArgument", "augment to 1"),
        ([(1, 5), (0, 4)], Affine(WHOLE), {}, "InvalidArgument", "axis 0: begin = 1, step = 1: an"),
        ([(0, 4)] * 2, Affine([[1, 1, 0], [1, 1, 0]]), {}, "InvalidArgument", "singular"),
        ([(0, 4)] * 2, Affine([[1e12, 0, 0], [0, 1, 0]]), {}, "InvalidArgument", "2^31 voxels"),
        ([(0, 4)] * 2, Affine(WHOLE, (0, 2)), {}, "InvalidArgument", "axes[1] = 2"),
        ([(0, 4)] * 2, Affine(WHOLE), {"dtype": "u16"}, "InvalidArgument", "nearest"),
        (
            [(0, 4)] * 2,
            Affine([[1, 0, -1], [0, 1, 0]]),
            {"field": {"pad_mode": "none"}},
            "InvalidArgument",
            "outside of the array",
        ),
        (
            [(0, 4)] * 2,
            Affine([[1, 0]], (0,)),
            {"field": {"pad_mode": "constant"}, "aabb": [(0, 4), (5, 9)]},
            "InvalidArgument",
            "must lie inside",
        ),
    ],
)
def test_what_is_wrong_is_named(square, aabb, affine, settings, error, text):
    settings = {**settings}
    found = refusal(Box(square, settings.pop("aabb", aabb), affine=affine), **settings)
    assert type(found).__name__ == error and text in str(found), found


def test_a_hull_beyond_the_staging_is_the_budget_of_its_sample(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2048, 2048), "u2"))
    uri, shape = str(tmp_path / "a.npy"), (4, 4)
    fields = [Field("x", shape, "f32", pad_value=5)]
    large = Affine([[300, 0, 0], [0, 300, 0]])
    for given in (1 << 20, 1_000_000):  # of whole pages and not
        found = refusal(boxes_of(uri, shape, large)[0], max_resample_bytes=given)
        assert isinstance(found, wavetrain.BudgetExceeded)
        text = f"extents [901, 901], 1623602 bytes, and max_resample_bytes = {given}: raise it"
        assert text in str(found)
    assert (
        stream([boxes_of(uri, shape, large)], fields, max_resample_bytes=1623602)["x"] == 0
    ).all()
    samples = [boxes_of(uri, shape, each) for each in [large, Affine(WHOLE), large, Affine(WHOLE)]]
    config = Config(
        samples_per_batch=4,
        fields=fields,
        augment=True,
        on_error="skip",
        max_resample_bytes=1 << 20,
    )
    with Pipeline(config) as pipeline:
        pipeline.push([Sample(boxes=boxes) for boxes in samples])
        with pipeline.pop() as batch:
            x = np.array(batch["x"], copy=True)
            assert [int(status) != 0 for status in batch.info.statuses] == [True, False] * 2
    assert (x[::2] == 5).all() and (x[1::2] == 0).all()


def test_a_missing_chunk_fails_its_sample_alone(tmp_path):
    """Under missing_chunks = error, with a batch of which others are resampled."""
    array = zarr.create_array(tmp_path / "a", shape=(16, 16), chunks=(4, 4), dtype="u2")
    array[:8] = 9
    near, far = Affine(WHOLE), Affine([[1, 0, 10], [0, 1, 0]])
    config = Config(
        samples_per_batch=2,
        fields=[Field("x", (4, 4), "f32", pad_value=5)],
        augment=True,
        on_error="skip",
        missing_chunks="error",
    )
    with Pipeline(config) as pipeline:
        for _ in range(5):
            pipeline.push(
                [Sample(boxes=boxes_of(str(tmp_path / "a"), (4, 4), each)) for each in (far, near)]
            )
            with pipeline.pop() as batch:
                x = np.array(batch["x"], copy=True)
            assert (x[0] == 5).all() and (x[1] == 9).all()


def test_staging_is_for_maps_alone():
    fields = [Field("x", (64, 64, 64), "f32")]
    with pytest.raises(wavetrain.InvalidArgument, match="set augment to 1"):
        Pipeline(Config(samples_per_batch=2, fields=fields, max_resample_bytes=1))
