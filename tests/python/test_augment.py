"""wavetrain.augment: batches against plain expressions of numpy, and the library's functions
against tests/data/recipes.json, which tests/data/make_recipes.py wrote without them."""

from __future__ import annotations

import copy
import ctypes
import json
import math
import random
import struct
from ctypes import addressof, byref, c_float, c_uint64, sizeof

import numpy
import pytest
from cubes import ROOT

import wavetrain
from wavetrain import Box, Config, Sample, _native, _pixels, _recipes
from wavetrain._library import library
from wavetrain.augment import (
    Place,
    Recipe,
    apply_color_jitter,
    apply_filters,
    augment,
    basic_cifar10_filters,
    clamp,
    color_jitter,
    cutout,
    default_cifar10_filters,
    flip_horizontal,
    gaussian_noise,
    horizontal_flip,
    normalize,
    random_affine,
    random_crop,
    random_erase,
    random_flip,
    split,
    to_float,
)

N, SHAPE = 16, (3, 20, 24)
LABELS = numpy.arange(N)
PLACES = [Place(3, 100 + position) for position in range(N)]


def pictures(dtype="f4", count=N, shape=SHAPE):
    dice = numpy.random.default_rng(7)
    low, high = (0, 2) if dtype == "?" else (1, 256)
    return dice.integers(low, high, (count, *shape)).astype(dtype)


def made(recipe, x=None, places=PLACES, seed=1):
    """Pictures through a recipe, or through a list of them."""
    x = pictures() if x is None else x
    return apply_filters((x, LABELS), recipe, places, seed)[0]


# ---- The library's functions --------------------------------------------------------------------


def floats_of(words):
    return [struct.unpack(">f", bytes.fromhex(word))[0] for word in words]


def words_of(numbers):
    return [struct.pack(">f", number).hex() for number in numbers]


def c_floats(words):
    return (c_float * len(words))(*floats_of(words)), len(words)


class Vector:
    """A vector of recipes.json, and the structs that its recipes work on."""

    def __init__(self, vector):
        field, box = vector["field"], vector["box"]
        self.rank, self.field_rank = len(box["begin"]), len(field["shape"])
        self.record = _native.Augmented(struct_size=sizeof(_native.Augmented), seed=vector["seed"])
        self.target = _native.Box(rank=self.rank)
        self.augment = _native.Augment(struct_size=sizeof(_native.Augment))
        self.affine = _native.Affine(struct_size=sizeof(_native.Affine))
        self.record.place.epoch, self.record.place.position = vector["epoch"], vector["position"]
        self.record.target, self.record.augment = addressof(self.target), addressof(self.augment)
        self.record.affine = addressof(self.affine)
        for name, numbers in box.items():
            getattr(self.target, name)[: len(numbers)] = numbers
        for name in ("shape", "spatial", "box_spatial"):
            getattr(self.record.field, name)[: len(field[name])] = field[name]
        axis = field["channel_axis"]
        self.record.field.channel_axis = _native.RECIPE_NO_CHANNELS if axis is None else axis
        self.record.field.rank, self.record.field.pad_mode = self.field_rank, field["pad_mode"]
        self.record.field.n_spatial = len(field["spatial"])
        assert self.ask("begin") == 1

    def ask(self, what, *arguments):
        return getattr(library(), f"wavetrain_recipe_{what}")(byref(self.record), 1, *arguments)

    def run(self, kind, name, numbers):
        one = {key: floats_of([word])[0] for key, word in numbers.items() if isinstance(word, str)}
        lists = {
            key: c_floats(words)
            for key, words in numbers.items()
            if isinstance(words, list) and key != "extents"
        }
        arguments = [] if name is None else [name.encode()]
        if kind == "crop":
            extents = (c_uint64 * len(numbers["extents"]))(*numbers["extents"])
            arguments += [numbers["padding"], byref(extents), len(extents)]
        elif kind == "flip":
            arguments += [one["p"], numbers["axis"]]
        elif kind == "affine":
            motion = _native.Motion(struct_size=sizeof(_native.Motion), **one)
            motion.degrees, motion.zoom = lists["degrees"][0], lists["zoom"][0]
            motion.filter = numbers["filter"]
            arguments += [byref(motion)]
        elif kind == "normalize":
            for words, count in (lists["mean"], lists["std"]):
                arguments += [byref(words), count]
        elif kind == "cutout":
            arguments += [numbers["size"], byref(lists["values"][0]), lists["values"][1]]
        elif kind == "random_erase":
            given = (byref(lists[key][0]) for key in ("scale", "ratio", "values"))
            arguments += [one["p"], *given, lists["values"][1]]
        else:
            arguments += one.values()
        return self.ask(kind, *arguments)

    def answer(self):
        target, augment, room, affine = self.target, self.augment, self.record.room, self.affine
        assert target.augment == addressof(augment)
        assert augment.pad_goes_through == 1

        def listed(address, of_room, count):
            if not address:
                return None
            assert address == addressof(of_room)
            return words_of(of_room[:count])

        def erased(number):
            each = _native.Erase.from_address(augment.erase + number * augment.erase_bytes)
            return {
                "begin": each.begin[: self.field_rank],
                "end": each.end[: self.field_rank],
                "values": listed(each.values, room.values[number], each.n_values),
            }

        def mapped():
            assert target.affine == addressof(affine)
            rows = [[struct.pack(">d", number).hex() for number in row] for row in affine.matrix]
            axes = affine.axes[: affine.rank]
            return {"rank": affine.rank, "axes": axes, "filter": affine.filter, "matrix": rows}

        limits = [augment.clamp_low, augment.clamp_high]
        return {
            **{name: getattr(target, name)[: self.rank] for name in ("begin", "end", "step")},
            "n_channels": augment.n_channels,
            "scale": listed(augment.scale, room.scale, augment.n_channels),
            "bias": listed(augment.bias, room.bias, augment.n_channels),
            "clamp": words_of(limits) if augment.has_clamp else None,
            "noise_sigma": words_of([augment.noise_sigma])[0],
            "noise_key": augment.noise_key,
            "erase": [erased(number) for number in range(augment.n_erase)],
            "affine": mapped() if affine.rank else None,
        }


def test_functions_of_the_library_give_what_another_implementation_gives():
    vectors = json.loads((ROOT / "tests/data/recipes.json").read_text())
    assert len(vectors) == 200
    for vector in vectors:
        one = Vector(vector)
        for kind, name, numbers, answer in vector["recipes"]:
            assert one.run(kind, name, numbers) == answer, (kind, numbers)
        assert one.answer() == vector["answer"]


# ---- One recipe at a time -----------------------------------------------------------------------


RECIPES = [
    random_crop(padding=4, crop_size=(16, 20)),
    random_crop(padding=3, crop_size=20, pad_mode="constant", pad_value=9),
    random_flip(axis=-2),
    horizontal_flip(),
    to_float(),
    normalize((100, 120, 140), (40, 50, 60)),
    color_jitter(brightness=9, contrast=0.4),
    gaussian_noise(5),
    clamp(50, 200),
    cutout(size=7, values=(1, 2, 3)),
    random_erase(p=0.9),
    random_affine(degrees=40, zoom=(0.8, 1.3), shear=0.2, shift=0.1),
    random_affine(degrees=40, filter="nearest", pad_mode="reflect"),
]
IDS = [repr(recipe).split("(")[0] + str(number) for number, recipe in enumerate(RECIPES)]
DTYPES = ("u1", "i2", "f2", "f4", "f8", "?")


@pytest.mark.parametrize("recipe", RECIPES, ids=IDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_fresh_and_of_the_type_that_is_said(recipe, dtype):
    if dtype == "?" and recipe.kind == "cutout":
        recipe = cutout(size=7, values=1)
    x, y = pictures(dtype), LABELS.copy()
    before = x.copy()
    xb, yb = recipe(x, y, PLACES)
    assert yb is y and not numpy.shares_memory(xb, x)
    assert numpy.array_equal(x, before) and xb.flags.writeable
    assert xb.dtype == ("f4" if recipe.makes_floats else x.dtype)
    assert xb.shape == (N, *recipe.shape_of(SHAPE))
    assert recipe.kind == "to_float" or not numpy.array_equal(xb, x)


@pytest.mark.parametrize("recipe", RECIPES, ids=IDS)
def test_pictures_depend_on_seed_and_place_alone(recipe):
    x = pictures()
    whole = made(recipe, x)
    order = numpy.random.default_rng(1).permutation(N)
    for part in (order[:5], order[5:]):  # other batches, another order: another world size
        xb, _ = recipe(x[part], LABELS[part], [PLACES[k] for k in part], seed=1)
        assert numpy.array_equal(xb, whole[part])
    if recipe.kind in ("to_float", "normalize", "clamp"):
        return
    others = [Place(4, place.position) for place in PLACES]
    assert not numpy.array_equal(made(recipe, x, others), whole)
    assert not numpy.array_equal(made(recipe, x, seed=2), whole)
    named = copy.copy(recipe)
    named.name, named.is_named = "another", True
    assert not numpy.array_equal(made(named, x), whole)


def test_without_places_samples_are_counted_on():
    recipe = random_erase(p=1.0, seed=5)
    counted = [recipe(pictures(), LABELS)[0] for _ in range(2)]
    for number, xb in enumerate(counted):
        places = [Place(0, number * N + k) for k in range(N)]
        assert numpy.array_equal(xb, random_erase(p=1.0, seed=5)(pictures(), LABELS, places)[0])
    assert not numpy.array_equal(*counted)


def test_a_recipe_without_a_seed_draws_one_and_keeps_it():
    recipe, other = random_erase(p=1.0), random_erase(p=1.0)
    once = recipe(pictures(), LABELS, PLACES)[0]
    assert numpy.array_equal(once, recipe(pictures(), LABELS, PLACES)[0])
    assert not numpy.array_equal(once, other(pictures(), LABELS, PLACES)[0])


def test_its_own_seed_goes_before_that_of_the_call():
    recipe = random_erase(p=1.0, seed=5)
    assert numpy.array_equal(made(recipe, seed=6), made(recipe, seed=7))


@pytest.mark.parametrize(
    ("mode", "named"), [("reflect", {}), ("edge", {}), ("constant", {"constant_values": 9})]
)
def test_a_crop_is_a_part_of_what_numpy_pads(mode, named):
    x = pictures("u1")
    recipe = random_crop(padding=5, crop_size=20, pad_mode=mode, pad_value=9 if named else 0)
    padded = numpy.pad(x, [(0, 0), (0, 0), (5, 5), (5, 5)], mode=mode, **named)
    begins = set()
    for xb, wide, place in zip(made(recipe, x), padded, PLACES):
        spec = augment([recipe], SHAPE, [place], seed=1)[0]
        y, z = spec.begin[1] + 5, spec.begin[2] + 5
        assert numpy.array_equal(xb, wide[:, y : y + 20, z : z + 20])
        begins.add((y, z))
    assert len(begins) > N / 2
    assert all(0 <= y <= 10 and 0 <= z <= 14 for y, z in begins)


def test_a_flip_is_that_of_numpy():
    x = pictures("u1")
    assert numpy.array_equal(made(horizontal_flip(p=1), x), x[..., ::-1])
    assert numpy.array_equal(made(random_flip(p=1, axis=-2), x), x[..., ::-1, :])
    assert numpy.array_equal(made(horizontal_flip(p=0), x), x)
    volumes = pictures("u1", shape=(2, 5, 6, 7))
    assert numpy.array_equal(made(random_flip(p=1, axis=-3), volumes), volumes[:, :, ::-1])
    some = made(horizontal_flip(p=0.5), x)
    flipped = [numpy.array_equal(each, other[..., ::-1]) for each, other in zip(some, x)]
    kept = [numpy.array_equal(each, other) for each, other in zip(some, x)]
    assert 0 < sum(flipped) < N and sum(flipped) + sum(kept) == N


def test_arithmetic_is_that_of_numpy_in_float32():
    x, f4 = pictures("u1"), numpy.float32
    values = x.astype("f4")
    assert numpy.array_equal(made(to_float(), x), values * (f4(1) / f4(255)))
    assert numpy.allclose(made(to_float(), x), x / 255, rtol=2e-7)
    assert numpy.array_equal(made(to_float(), values), values)
    mean, std = (numpy.array(each, "f4").reshape(3, 1, 1) for each in ((1, 2, 3), (0.1, 3, 7)))
    expected = values * (f4(1) / std) + -mean / std
    assert numpy.array_equal(made(normalize((1, 2, 3), (0.1, 3, 7)), x), expected)
    assert numpy.allclose(expected, (values - mean) / std, rtol=1e-5, atol=1e-4)
    assert numpy.array_equal(made(clamp(50, 200), x), values.clip(50, 200))
    low = made(clamp(low=50), x)
    assert low.min() == 50 and low.max() == values.max()


def test_color_jitter_is_a_factor_and_a_term_for_each_sample():
    x = pictures("u1")
    jittered = made(color_jitter(brightness=30, contrast=0.25), x)
    specs = augment([color_jitter(brightness=30, contrast=0.25)], SHAPE, PLACES, "u1", seed=1)
    c, b = (
        numpy.array([each[0] for each in lists], "f4")
        for lists in zip(*((s.scale, s.bias) for s in specs))
    )
    assert numpy.array_equal(jittered, apply_color_jitter(x, b, c))
    assert (c >= 0.75).all() and (c <= 1.25).all() and c.std() > 0.05
    assert (abs(b) <= 30).all() and b.std() > 8
    many = augment(
        [color_jitter(None, 30, 0.25)],
        SHAPE,
        [Place(0, k) for k in range(4000)],
        seed=1,
    )
    factors = numpy.array([spec.scale[0] for spec in many])
    assert abs(factors.mean() - 1) < 0.01 and abs(factors.std() - 0.25 / math.sqrt(3)) < 0.005


def test_a_cutout_is_a_square_that_the_edges_cut():
    x = pictures("u1")
    xb = made(cutout(size=8), x)
    specs = augment([cutout(size=8)], SHAPE, PLACES, "u1", seed=1)
    expected = x.copy()
    for each, spec in zip(expected, specs):
        (erased,) = spec.erases
        assert erased.begin[0] == 0 and erased.end[0] == 3
        for axis in (1, 2):
            begin, end = erased.begin[axis], erased.end[axis]
            assert 0 <= begin < end <= SHAPE[axis]
            assert end - begin == 8 or (end - begin >= 4 and (begin == 0 or end == SHAPE[axis]))
        each[:, erased.begin[1] : erased.end[1], erased.begin[2] : erased.end[2]] = 0
    assert numpy.array_equal(xb, expected)
    assert len({spec.erases for spec in specs}) > N / 2


def test_random_erase_takes_a_part_of_the_picture():
    x = pictures("u1")
    xb = made(random_erase(p=0.5, values=(1, 2, 3)), x)
    areas = (xb != x).any(axis=1).sum(axis=(1, 2)) / (SHAPE[1] * SHAPE[2])
    hit = areas > 0
    assert 2 <= hit.sum() <= N - 2
    assert (areas[hit] > 0.01).all() and (areas[hit] < 0.24).all()
    for each, before in zip(xb[hit], x[hit]):
        rows, columns = ((each != before).any(axis=axes) for axes in ((0, 2), (0, 1)))
        part = each[
            :,
            rows.argmax() : rows.nonzero()[0][-1] + 1,
            columns.argmax() : columns.nonzero()[0][-1] + 1,
        ]
        assert (part == numpy.reshape([1, 2, 3], (3, 1, 1))).all()


def test_noise_is_normal_and_of_the_header():
    x = numpy.zeros((4, 1, 128, 128), "f4")
    xb = gaussian_noise(2.0, seed=1)(x, None, PLACES[:4])[0]
    assert abs(xb.mean()) < 0.02 and abs(xb.std() - 2) < 0.02 and abs(xb).max() < 2 * 4.94
    assert abs((xb**4).mean() / 16 - 3) < 0.2  # the fourth moment of a normal distribution
    spec = augment([gaussian_noise(2.0)], (1, 128, 128), PLACES[:1], seed=1)[0]
    table = _pixels.noise_table()
    mask = 2**64 - 1
    for n in (0, 1, 77, 128 * 128 - 1):
        h = spec.noise_key + (n + 1) * 0x9E3779B97F4A7C15 & mask
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & mask
        h = (h ^ h >> 27) * 0x94D049BB133111EB & mask
        h = h ^ h >> 31
        z = table[h >> 53] + table[h >> 42 & 2047]
        assert xb[0].ravel()[n] == numpy.float32(2) * z


def test_the_table_of_noise_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="scipy has the quantiles")
    quantiles = stats.norm.ppf((numpy.arange(2048) + 0.5) / 2048)
    assert numpy.array_equal(_pixels.noise_table(), (quantiles * 0.7073325951129718).astype("f4"))


def test_nan_is_one_nan_and_survives_a_clamp():
    x = pictures()
    x[0, 0, 0, 0] = numpy.uint32(0xFFC12345).view("f4")
    for recipe in (clamp(0, 1), cutout(size=1), normalize(1, 2)):
        xb = made(recipe, x, [Place(0, k) for k in range(N)])
        assert xb[0, 0, 0, 0].view("u4") == 0x7FC00000


def test_a_pass_is_line_by_line_that_of_the_header():
    f4, shape = numpy.float32, (3, 6, 5)
    recipes = [
        to_float(200),
        normalize((0.1, 0.2, 0.3), (0.5, 0.25, 0.7)),
        gaussian_noise(0.3),
        color_jitter(brightness=0.2, contrast=0.3),
        clamp(-1, 1.5),
        cutout(size=3, values=(5, 6, 7)),
        cutout(size=2, values=8),
    ]
    x = pictures("u1", 4, shape)
    xb = made(recipes, x, PLACES[:4])
    specs = augment(recipes, shape, PLACES[:4], "u1", seed=1)
    assert len(_recipes.passes(recipes, shape, "u1")) == 1
    for each, source, spec in zip(xb, x, specs):
        z = _pixels.noise(spec.noise_key, shape)
        low, high = map(f4, spec.clamp)
        assert len(spec.erases) == 2 and spec.noise_sigma != f4(0.3)
        for place in numpy.ndindex(*shape):
            c = place[0]
            value = f4(source[place])
            value = f4(value * f4(spec.scale[c]))
            value = f4(value + f4(spec.bias[c]))
            value = f4(value + f4(f4(spec.noise_sigma) * z[place]))
            value = low if value < low else value
            value = high if value > high else value
            for erased in spec.erases:
                spans = zip(erased.begin, place, erased.end)
                if all(begin <= at < end for begin, at, end in spans):
                    value = f4(erased.values[c if len(erased.values) > 1 else 0])
            assert each[place] == value


# ---- Affine maps --------------------------------------------------------------------------------


def test_an_affine_map_of_nothing_is_nothing():
    x = pictures("u1")
    assert numpy.array_equal(made(random_affine(), x), x)
    assert numpy.array_equal(made(random_affine(filter="nearest"), x), x)


@pytest.mark.parametrize(
    ("mode", "of_scipy"), [("constant", "constant"), ("edge", "nearest"), ("reflect", "mirror")]
)
@pytest.mark.parametrize("shape", [(3, 20, 24), (1, 9, 10, 11)])
@pytest.mark.parametrize("order", [0, 1])
def test_an_affine_map_is_that_of_scipy(mode, of_scipy, shape, order):
    ndimage = pytest.importorskip("scipy.ndimage", reason="scipy has the maps")
    x = pictures("f4", 4, shape)
    filter = ("nearest", "linear")[order]
    recipe = random_affine(50, (0.7, 1.5), 0.3, 0.2, filter, mode, seed=3)
    xb = recipe(x, None, PLACES[:4])[0]
    rank = len(shape) - 1
    for each, before, place in zip(xb, x, PLACES):
        spec = recipe.augment(*place, shape)
        matrix = numpy.array(spec.affine.matrix)
        assert spec.affine.axes == tuple(range(1, rank + 1))
        for channel, source in zip(each, before):
            theirs = ndimage.affine_transform(
                source.astype("f8"), matrix[:, :rank], matrix[:, 3], order=order, mode=of_scipy
            )
            # scipy has the constant from the last element on, not between that and the next.
            grid = numpy.indices(channel.shape).reshape(rank, -1)
            at = (matrix[:, :rank] @ grid + matrix[:, 3:]).reshape(rank, *channel.shape)
            ends = numpy.reshape(channel.shape, (rank, *[1] * rank)) - 1
            is_inside = ((at >= 0) & (at <= ends)).all(axis=0)
            is_between = (abs(at - numpy.floor(at) - 0.5) < 1e-6).any(axis=0) & (order == 0)
            same = abs(channel - theirs) < 1e-2
            assert (same | is_between | ((mode == "constant") & ~is_inside)).all()
            assert is_inside.mean() > 0.2


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_a_linear_map_is_place_by_place_that_of_the_pipeline(mode, dtype):
    """The rule of src/resample: coordinates are rounded to multiples of 2^-24, edge and reflect
    fold them into the array, axes are taken from the last to the first."""
    f4, shape, unit = numpy.float32, (1, 5, 6), 1 << 24
    x = pictures(dtype, 6, shape)
    pad = {"pad_value": 7.5} if mode == "constant" else {}
    recipe = random_affine(180, (0.5, 1.5), 0.4, 0.6, "linear", mode, **pad, seed=2)
    xb, _ = recipe(x, None, PLACES[:6])

    def folded(v, extent):
        last = (extent - 1) * unit
        if mode == "edge":
            return min(max(v, 0), last)
        return min(v % (2 * last), -v % (2 * last)) if mode == "reflect" else v

    def element(source, place):
        inside = all(0 <= at < extent for at, extent in zip(place, source.shape))
        return f4(source[place]) if inside else f4(7.5)

    def lerp(source, voxels, fixed=()):
        if len(fixed) == len(voxels):
            return element(source, fixed)
        lower, weight = divmod(voxels[len(fixed)], unit)
        a = lerp(source, voxels, (*fixed, lower))
        if weight == 0:
            return a
        b = lerp(source, voxels, (*fixed, lower + 1))
        return f4(a + f4(f4(b - a) * f4(weight / unit)))

    for each, source, place in zip(xb, x, PLACES):
        matrix = recipe.augment(*place, shape).affine.matrix
        rows = [[round(number * 2**32) for number in row] for row in matrix]
        for i, j in numpy.ndindex(*shape[1:]):
            at = [
                (m0 * i + m1 * j + m3 + 128 >> 8)
                for m0, m1, m3 in [(r[0], r[1], r[-1]) for r in rows]
            ]
            voxels = [folded(v, extent) for v, extent in zip(at, shape[1:])]
            assert each[0, i, j] == lerp(source[0], voxels), (place, i, j)


def test_infinities_of_a_linear_map_warn_of_nothing_and_make_one_nan():
    x = pictures()
    x[:, :, 4:9, 4:9] = numpy.inf
    xb = made(random_affine(45), x)
    is_nan = numpy.isnan(xb)
    assert is_nan.any() and numpy.isinf(xb).any()
    assert (xb[is_nan].view("u4") == 0x7FC00000).all()


def test_an_affine_map_turns_zooms_and_shifts_about_the_centre():
    specs = [
        random_affine(90, 2.0, shift=0.5, seed=1).augment(0, k, (1, 21, 11)) for k in range(500)
    ]
    matrices = numpy.array([spec.affine.matrix for spec in specs])
    turns = matrices[:, :, :2] * 2
    assert numpy.allclose(turns @ turns.transpose(0, 2, 1), numpy.eye(2), atol=1e-8)
    angles = numpy.degrees(numpy.arctan2(turns[:, 1, 0], turns[:, 0, 0]))
    assert angles.min() < -85 and angles.max() > 85 and abs(angles).max() <= 90
    centre = matrices[:, :, :2] @ [10, 5] + matrices[:, :, 2] * 0 + matrices[:, :, 3] - [10, 5]
    assert (abs(centre) <= [10.5, 5.5]).all() and (centre.std(axis=0) > [5, 2.5]).all()


# ---- The randomness given -----------------------------------------------------------------------


def test_flip_horizontal_flips_where_the_mask_is_set():
    x = pictures("u1")
    mask = (numpy.arange(N) % 3 == 0).astype("u1")
    before = x.copy()
    xb = flip_horizontal(x, mask)
    assert numpy.array_equal(xb, numpy.where(mask.reshape(-1, 1, 1, 1) != 0, x[..., ::-1], x))
    assert numpy.array_equal(x, before) and xb.dtype == "u1" and not numpy.shares_memory(x, xb)


def test_apply_color_jitter_is_x_c_b():
    x = pictures("u1")
    c, b = numpy.linspace(0.5, 2, N), numpy.linspace(-3, 3, N)
    expected = x * c.astype("f4").reshape(-1, 1, 1, 1) + b.astype("f4").reshape(-1, 1, 1, 1)
    xb = apply_color_jitter(x, b, c)
    assert numpy.array_equal(xb, expected) and xb.dtype == "f4"


@pytest.mark.parametrize("size", [1, 7, 8, 100])
def test_a_cutout_around_centers_is_a_square_there(size):
    x = pictures("u1")
    centers = numpy.random.default_rng(1).integers(0, 20, (N, 2)).astype("i4")
    centers[0], centers[1] = (-50, 3), (200, 200)
    expected = x.copy()
    for each, (y, z) in zip(expected, centers):
        rows, columns = numpy.ogrid[:20, :24]
        y, z = y - size // 2, z - size // 2
        each[:, (rows >= y) & (rows < y + size) & (columns >= z) & (columns < z + size)] = 0
    assert numpy.array_equal(cutout(x, centers, size=size), expected)


def test_functions_of_pictures_are_recipes_that_are_called_at_once():
    x = pictures()
    for function, named in ((random_erase, {"p": 1.0}), (cutout, {}), (color_jitter, {})):
        xb = function(x, seed=9, **named)
        assert numpy.array_equal(xb, function(seed=9, **named)(x, LABELS)[0])
        assert not numpy.array_equal(xb, x)


# ---- Lists --------------------------------------------------------------------------------------


def of_list(dice, count):
    """Recipes in any order."""
    makers = [
        lambda: random_crop(
            padding=dice.choice([0, 3]),
            crop_size=dice.choice([14, 18]),
            pad_mode=dice.choice(["reflect", "constant"]),
        ),
        lambda: horizontal_flip(),
        lambda: random_flip(axis=-2),
        lambda: to_float(),
        lambda: normalize(
            [dice.uniform(-1, 1) for _ in range(3)], [dice.uniform(0.5, 3) for _ in range(3)]
        ),
        lambda: normalize(dice.uniform(-1, 1), dice.uniform(0.5, 3)),
        lambda: color_jitter(brightness=dice.uniform(0, 1), contrast=dice.uniform(0, 0.5)),
        lambda: gaussian_noise(dice.uniform(0.1, 1)),
        lambda: clamp(dice.uniform(-2, 0), dice.uniform(0, 2)),
        lambda: cutout(size=dice.randrange(1, 9), values=dice.randrange(4)),
        lambda: random_erase(p=0.8),
        lambda: random_affine(20, (0.9, 1.1)),
    ]
    return [dice.choice(makers)() for _ in range(count)]


@pytest.mark.parametrize("number", range(60))
def test_a_list_makes_what_its_recipes_make_one_after_another(number):
    dice = random.Random(number)
    recipes = _recipes.named(of_list(dice, dice.randrange(1, 8)))
    x = pictures(dice.choice(["f4", "u1"]))
    together = made(recipes, x)
    one_by_one = x
    for recipe in recipes:
        one_by_one, _ = recipe(one_by_one, LABELS, PLACES, 1)
    assert together.dtype == one_by_one.dtype
    # Factors and terms are made one before elements meet them, so the last bits differ.
    assert numpy.allclose(together, one_by_one, rtol=1e-4, atol=1e-3)


def test_moves_and_erases_of_a_list_are_exact():
    recipes = [
        random_crop(4, 16),
        horizontal_flip(),
        cutout(size=5, values=7),
        random_erase(p=1),
        random_flip(axis=-2),
    ]
    x = pictures("u1")
    assert len(_recipes.passes(recipes, SHAPE, "u1")) == 1
    together, one_by_one = made(recipes, x), x
    for recipe in recipes:
        one_by_one, _ = recipe(one_by_one, LABELS, PLACES, 1)
    assert numpy.array_equal(together, one_by_one)


def test_recipes_before_normalize_are_normalized():
    x = pictures("u1")
    recipes = [cutout(size=8, values=255), to_float(), normalize((0.4, 0.5, 0.6), 0.25)]
    spec = augment(recipes, SHAPE, PLACES[:1], "u1", seed=1)[0]
    f4 = numpy.float32
    values = f4(255) * (f4(1) / f4(255)) * f4(4) + -numpy.array([0.4, 0.5, 0.6], "f4") / f4(0.25)
    assert spec.erases[0].values == tuple(values.tolist())
    (erased,) = spec.erases
    xb = made(recipes, x)[0]
    part = xb[:, erased.begin[1] : erased.end[1], erased.begin[2] : erased.end[2]]
    assert (part == values.reshape(3, 1, 1)).all()


def test_two_recipes_of_a_kind_draw_apart_and_of_one_name_alike():
    first, second = augment([cutout(), cutout()], SHAPE, PLACES[:1], seed=1)[0].erases
    assert first != second
    named = [cutout(name="hole"), cutout(name="hole")]
    first, second = augment(named, SHAPE, PLACES[:1], seed=1)[0].erases
    assert first == second
    # An image and its mask are cut alike.
    boxes = [
        augment([random_crop(2, 16, name="crop")], shape, PLACES, seed=1)
        for shape in (SHAPE, (20, 24))
    ]
    assert [spec.begin[1:] for spec in boxes[0]] == [spec.begin for spec in boxes[1]]


def test_functions_stand_between_recipes():
    x = pictures("u1")
    seen = []

    def own(xb, yb):
        seen.append(xb.dtype)
        return xb * 2, yb + 1

    xb, yb = apply_filters((x, LABELS), [to_float(), own, horizontal_flip(p=1)], PLACES)
    assert seen == ["f4"] and numpy.array_equal(yb, LABELS + 1)
    assert numpy.array_equal(xb, made(to_float(), x)[..., ::-1] * 2)
    xb, yb = apply_filters((x, LABELS), own)
    assert numpy.array_equal(xb, x * 2)
    assert apply_filters((x, LABELS), []) == (x, LABELS)


def test_split_takes_what_one_pass_can_do():
    def own(xb, yb):
        return xb, yb

    def kinds(filters):
        return [getattr(each, "kind", "own") for each in filters]

    default = default_cifar10_filters()
    assert kinds(default) == ["random_crop", "horizontal_flip", "to_float", "normalize"]
    assert kinds(basic_cifar10_filters()) == ["to_float", "normalize"]
    for filters, count in (
        (default, 4),
        ([*default, random_erase()], 5),
        ([*default, own, random_erase()], 4),
        ([own, *default], 0),
        ([random_affine(10), *default], 1),
        ([horizontal_flip(), random_affine(10), to_float(), normalize(1, 2)], 4),
        ([cutout(), random_crop(2, 16)], 1),
        ([gaussian_noise(1), horizontal_flip()], 1),
        ([gaussian_noise(1), normalize(0, (1, 2, 3))], 1),
        ([gaussian_noise(1), normalize((1, 2, 3), 2)], 2),
        ([clamp(0, 1), normalize((1, 2, 3), 2)], 1),
        ([clamp(0, 1), color_jitter(), normalize(1, 2)], 3),
        ([to_float(), random_crop(2, 16)], 2),
        ([to_float(), random_crop(2, 16, "constant")], 1),
        ([random_crop(2, 16, "constant"), to_float()], 2),
        ([random_crop(2, 16, "constant"), random_crop(2, 16, "edge")], 1),
        ([cutout()] * 9, 8),
        ([random_erase()] * 9, 8),
        ([], 0),
    ):
        first, rest = split(filters, (3, 32, 32), "u1")
        assert (len(first), len(first) + len(rest)) == (count, len(filters)), kinds(filters)
        x = pictures("u1", shape=(3, 32, 32))
        parts = made(rest, made(first, x))
        assert numpy.array_equal(parts, made(filters, x)) or own in rest


def test_specs_of_one_batch_are_those_of_the_recipe():
    recipe = random_erase(seed=1)
    specs = augment([recipe], SHAPE, PLACES)
    assert specs == [recipe.augment(*place, SHAPE) for place in PLACES]
    assert specs == augment([recipe], SHAPE, PLACES, seed=2)
    assert augment([], SHAPE, PLACES)[0].end == SHAPE


def test_a_pipeline_reads_what_a_spec_moves():
    x = pictures("u1")
    recipes = [random_crop(6, 18), horizontal_flip(), random_flip(axis=-2)]
    specs = augment(recipes, SHAPE, PLACES, "u1", seed=1)
    config = Config(
        samples_per_batch=N,
        sample_shape=(3, 18, 18),
        dtype="u8",
        pad_mode=specs[0].pad_mode,
        max_boxes_per_sample=1,
    )
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push(
            Sample(boxes=[Box(each, list(zip(spec.begin, spec.end)), step=spec.step)])
            for each, spec in zip(x, specs)
        )
        with pipeline.pop() as batch:
            assert numpy.array_equal(batch.numpy(), made(recipes, x))


def test_pictures_have_two_or_three_axes_of_space():
    for shape in ((20, 24), (1, 20, 24), (2, 9, 10, 11)):
        x = pictures("u1", shape=shape)
        filters = [
            random_crop(2, 8),
            horizontal_flip(),
            cutout(size=3),
            to_float(),
            normalize(1, 2),
        ]
        assert made(filters, x).shape == (
            N,
            *shape[: len(shape) > 2],
            *[8] * (len(shape) - (len(shape) > 2)),
        )


def test_no_pictures_are_no_pictures():
    assert made(default_cifar10_filters(), numpy.zeros((0, 3, 40, 40), "u1"), []).shape == (
        0,
        3,
        32,
        32,
    )


def test_a_repr_makes_the_recipe_again():
    for recipe in [*RECIPES, random_erase(name="a", seed=3)]:
        again = eval(repr(recipe))
        assert isinstance(again, Recipe) and repr(again) == repr(recipe)
        assert numpy.array_equal(made(again), made(recipe))


# ---- Refusals -----------------------------------------------------------------------------------


def test_numbers_are_refused_with_what_would_be_right():
    x = pictures("u1")
    for text, call in (
        ("p must be 0 to 1", lambda: horizontal_flip(p=1.5)),
        ("p must be 0 to 1", lambda: random_erase(p=float("nan"))),
        ("p must be a number", lambda: random_erase(p="often")),
        ("axis must be -1, -2 or -3", lambda: random_flip(axis=1)),
        ("padding must be >= 0", lambda: random_crop(padding=-1)),
        ("crop_size must be >= 1", lambda: random_crop(crop_size=0)),
        (
            "pad_mode must be one of 'constant', 'edge', 'reflect'",
            lambda: random_crop(pad_mode="wrap"),
        ),
        ("crop_size must be <= 28", lambda: made(random_crop(4, 29), x)),
        ("crop_size", lambda: made(random_crop(4, (8, 8, 8)), x)),
        ("std\\[0\\] must be", lambda: normalize(0, 0)),
        ("mean must have a number", lambda: normalize((), 1)),
        (
            "mean has 2 numbers, and pictures 3 channels: give one",
            lambda: made(normalize((1, 2), 1), x),
        ),
        ("values must be whole numbers of 0 to 255.*to_float", lambda: made(cutout(values=0.5), x)),
        ("values has 2 numbers", lambda: made(cutout(values=(1, 2)), x)),
        ("saturation must be 0", lambda: color_jitter(saturation=0.1)),
        ("contrast must be 0 to", lambda: color_jitter(contrast=1)),
        ("sigma must be 0 to", lambda: gaussian_noise(-1)),
        ("low must be <= high", lambda: clamp(1, 0)),
        ("low must be <= high", lambda: clamp(float("nan"), 0)),
        ("size must be >= 1", lambda: cutout(size=0)),
        ("scale must be \\(low, high\\)", lambda: random_erase(scale=(0.1, 0.2, 0.3))),
        ("scale must have the lower one first", lambda: random_erase(scale=(0.2, 0.1))),
        ("ratio\\[1\\] must be", lambda: random_erase(ratio=(1, 1000))),
        (
            "two axes of space: give cutout",
            lambda: made(random_erase(), pictures("u1", 2, (1, 4, 5, 6)), PLACES[:2]),
        ),
        ("filter must be 'linear' or 'nearest'", lambda: random_affine(filter="cubic")),
        ("degrees must have 1", lambda: made(random_affine((1, 2, 3)), x)),
        ("name must have <= 63 bytes", lambda: horizontal_flip(name="n" * 64)),
        ("seed must be >= 0", lambda: horizontal_flip(seed=-1)),
        ("reshape them", lambda: made(to_float(), numpy.zeros((N, 5)))),
        ("give x.astype", lambda: made(to_float(), numpy.zeros((N, 3, 4, 5), "c8"))),
        ("places must have one for each of 16 samples", lambda: made(to_float(), x, PLACES[:3])),
        ("centers must be whole numbers \\[16, 2\\]", lambda: cutout(x, numpy.zeros((N, 3), int))),
        ("mask must be an array of numbers \\[16\\]", lambda: flip_horizontal(x, [1])),
        ("contrast must be an array of numbers \\[16\\]", lambda: apply_color_jitter(x, LABELS, 1)),
        ("filters\\[1\\] must be a recipe, or a function", lambda: made([to_float(), 7], x)),
        (
            "put affine, crop and flip first",
            lambda: augment([gaussian_noise(1), random_flip()], SHAPE, PLACES),
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            call()


def test_structs_of_python_are_those_of_the_library():
    assert sizeof(_native.Augmented) > sizeof(_native.RecipeRoom) > 8 * 64 * 4
    text = library().wavetrain_recipe_text(_native.RECIPE_ORDER)
    assert isinstance(text, bytes) and b"one pass" in text
    assert ctypes.string_at(text)
