"""Boxes of memory with an affine map: the bits of the same array in a file with the same map."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import zarr
from devices import Gpu
from test_affine_boxes import PADS, WHOLE, boxes_of, refusal, resampled, stream, turned
from test_augmented_boxes import KINDS, bits, random_array

import wavetrain
from wavetrain import Affine, Augment, Box, Config, Erase, Field, Pipeline, Sample

SHAPE = (21, 19, 23)
MADE = (6, 9, 11)

# Views of an array that has no gaps, and of what is copied of it alike.
VIEWS = {
    "as_it_is": lambda a: a,
    "backwards": lambda a: a[::-1, :, ::-1],
    "turned": lambda a: a.transpose(2, 0, 1)[:, ::-1],
    "every_other": lambda a: a[1::2, ::-3],
    "one_plane_over_and_over": lambda a: np.broadcast_to(a[3], (5, *a.shape[1:])),
    "of_fortran": np.asfortranarray,
}


def cases(random, extents, size=3) -> list[Affine]:
    """Maps near a whole turn, quarter turns with flips, and maps that miss the array."""
    matrices = [turned(random, size, extents=extents) for _ in range(6)]
    for signs in ([1, -1, 1], [-1, -1, -1]):
        turn = np.diag(signs[:size])[random.permutation(size)]
        matrices.append([[*row, float(random.integers(-3, 20))] for row in turn.tolist()])
    near = np.eye(size)
    matrices.append([[*row, -400.0] for row in near.tolist()])
    matrices.append([[*row, at] for row, at in zip(near.tolist(), (500.5, -3.25, 2.0))])
    return [Affine(each, filter=f) for each in matrices for f in ("linear", "nearest")]


@pytest.mark.parametrize("kind", [*KINDS, "bf16"])
def test_every_type_has_the_bits_of_a_file(tmp_path, kind):
    kind = ml_dtypes.bfloat16 if kind == "bf16" else np.dtype(kind)
    array = random_array("f4" if kind == ml_dtypes.bfloat16 else kind, SHAPE, 1)
    array = np.nan_to_num(array).astype(kind) if kind == ml_dtypes.bfloat16 else array
    affines = cases(np.random.default_rng(2), SHAPE)
    if kind == ml_dtypes.bfloat16:
        array.tofile(tmp_path / "a")
        uri = f"raw:{tmp_path}/a?dtype=bf16&shape={','.join(map(str, SHAPE))}"
    else:
        np.save(tmp_path / "a.npy", array)
        uri = str(tmp_path / "a.npy")
    # numpy's memory has this machine's byte order.
    fed = array.astype(array.dtype.newbyteorder("="))
    for number, target in enumerate(["f32", "bf16", "f16"]):
        fields = [Field("x", MADE, target, pad_mode=PADS[number], pad_value=3.5)]
        made = [
            stream([boxes_of(of, MADE, each) for each in affines], fields, 3, **more)["x"]
            for of, more in [(uri, {}), (fed, {"n_decode_threads": 3})]
        ]
        assert (bits(made[0]) == bits(made[1])).all()
        # Large integers are all infinite in f16.
        assert target == "f16" or len(np.unique(bits(made[0]))) > 20


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("view", VIEWS)
def test_memory_of_any_strides_has_the_bits_of_a_zarr(tmp_path, view, pad):
    given = VIEWS[view](random_array("u2", SHAPE, 3))
    stored = zarr.create_array(
        tmp_path / "a", shape=given.shape, chunks=(4, 5, 6), dtype=given.dtype
    )
    stored[...] = given
    random = np.random.default_rng(4)
    affines = cases(random, given.shape)
    augment = Augment(scale=0.5, bias=-3, noise=2.0, erase=[Erase((1, 2, 3), (4, 9, 9), 7)])
    # Two samples of each map, of which one has arithmetic; two axes with the third one copied.
    boxes = [boxes_of(of, MADE, each)[0] for each in affines for of in (given, stored)]
    boxes += [
        boxes_of(of, MADE, each, augment=augment)[0] for each in affines for of in (given, stored)
    ]
    for each in cases(random, given.shape[1:], 2):
        few = (given.shape[0] // 2, *MADE[1:])
        aabb = [(0, given.shape[0] // 2 * 2), (0, few[1]), (0, few[2])]
        boxes += [
            Box(of, aabb, affine=Affine(each.matrix, (1, 2), filter=each.filter), step=(-2, 1, 1))
            for of in (given, stored)
        ]
    extents = (max(MADE[0], given.shape[0]), *MADE[1:])
    fields = [Field("x", extents, "f32", pad_mode=pad, pad_value=-1)]
    made = stream([[box] for box in boxes], fields, 4, max_boxes_per_sample=1)["x"]
    assert (bits(made[::2]) == bits(made[1::2])).all()
    for number, each in enumerate(affines):
        wanted = resampled(given.astype("f4"), each, MADE, pad, -1)
        assert (bits(made[2 * number][: MADE[0]]) == bits(wanted)).all()


def test_few_bytes_of_staging_and_a_device_give_the_same_bits(simulated_driver):
    gpu = Gpu(simulated_driver)
    array = random_array("f4", SHAPE, 5)[::-1]
    affines = cases(np.random.default_rng(6), SHAPE)
    fields = [Field("x", MADE, "f32", pad_mode="edge")]
    boxes = [boxes_of(array, MADE, each) for each in affines]
    wanted = stream(boxes, fields, 4)["x"]
    least = array.nbytes
    assert (bits(stream(boxes, fields, 4, max_resample_bytes=least)["x"]) == bits(wanted)).all()
    for more in ({}, {"max_resample_bytes": least}, {"n_decode_threads": 3}):
        config = Config(
            samples_per_batch=4,
            sample_shape=MADE,
            pad_mode="edge",
            max_boxes_per_sample=1,
            augment=True,
            backend="cuda",
            device=0,
            cuda_driver=gpu.path,
            **more,
        )
        with Pipeline(config) as pipeline:
            pipeline.push(Sample(boxes=[Box(array, b[0].aabb, affine=b[0].affine)]) for b in boxes)
            for first in range(0, len(boxes), 4):
                with pipeline.pop() as batch:
                    found = gpu.values(batch)
                assert (bits(found) == bits(wanted[first : first + 4])).all()
    gpu.found_nothing()


def test_a_hull_beyond_the_staging_is_the_budget_of_its_sample():
    array, shape = np.zeros((2048, 2048), "u2"), (4, 4)
    large, whole = Affine([[300, 0, 0], [0, 300, 0]]), Affine(WHOLE)
    found = refusal(boxes_of(array, shape, large)[0], max_resample_bytes=1 << 20)
    assert isinstance(found, wavetrain.BudgetExceeded)
    assert "extents [901, 901], 1623602 bytes, and max_resample_bytes = 1048576" in str(found)
    config = Config(
        samples_per_batch=4,
        fields=[Field("x", shape, "f32", pad_value=5)],
        augment=True,
        on_error="skip",
        max_resample_bytes=1 << 20,
    )
    with Pipeline(config) as pipeline:
        pipeline.push(
            Sample(boxes=boxes_of(array, shape, each)) for each in (large, whole, large, whole)
        )
        with pipeline.pop() as batch:
            x = np.array(batch["x"], copy=True)
            assert [int(status) != 0 for status in batch.info.statuses] == [True, False] * 2
    assert (x[::2] == 5).all() and (x[1::2] == 0).all()


@pytest.mark.parametrize(
    ("aabb", "affine", "settings", "text"),
    [
        ([(0, 4)] * 2, Affine(WHOLE), {"augment": False}, "augment to 1"),
        ([(1, 5), (0, 4)], Affine(WHOLE), {}, "axis 0: begin = 1, step = 1: an"),
        ([(0, 4)] * 2, Affine([[1, 1, 0], [1, 1, 0]]), {}, "singular"),
        ([(0, 4)] * 2, Affine([[1e12, 0, 0], [0, 1, 0]]), {}, "2^31 voxels"),
        ([(0, 4)] * 2, Affine(WHOLE), {"dtype": "u16"}, "nearest"),
        ([(0, 4)] * 2, Affine(WHOLE, level=1), {}, "level"),
        ([(0, 4)] * 2, Affine(WHOLE, units=True), {}, "units"),
        (
            [(0, 4)] * 2,
            Affine([[1, 0, -1], [0, 1, 0]]),
            {"field": {"pad_mode": "none"}},
            "outside of the array",
        ),
        ([(0, 4), (5, 9)], Affine([[1, 0]], (0,)), {}, "must lie inside"),
    ],
)
@pytest.mark.parametrize("is_backwards", [False, True])
def test_what_is_wrong_is_named(is_backwards, aabb, affine, settings, text):
    array = np.arange(64, dtype="u2").reshape(8, 8)
    given = array[::-1, ::-1] if is_backwards else array
    settings = {"field": {"pad_mode": "constant"}, **settings}
    found = refusal(Box(given, aabb, affine=affine), **settings)
    assert type(found).__name__ in ("InvalidArgument", "Unsupported"), found
    assert text in str(found), found


def test_a_step_of_a_mapped_axis_is_refused_whichever_way_memory_lies():
    array = np.arange(64, dtype="u2").reshape(8, 8)
    for given in (array, array[::-1, ::-1]):
        for aabb in ([(0, 4)] * 2, [(4, 8), (0, 4)]):
            found = refusal(Box(given, aabb, affine=Affine(WHOLE), step=(-1, 1)))
            assert "axis 0: begin = " in str(found) and "step = -1" in str(found), found


@pytest.mark.parametrize("entry", [float("nan"), float("inf")])
def test_a_matrix_that_is_not_finite_is_refused(entry):
    with pytest.raises((ValueError, wavetrain.InvalidArgument), match="matrix"):
        raise refusal(
            Box(np.zeros((8, 8), "u2"), [(0, 4)] * 2, affine=Affine([[1, 0, entry], [0, 1, 0]]))
        )
