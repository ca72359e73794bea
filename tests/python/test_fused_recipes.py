"""Recipes in the transforms of a DataLoader: the pipeline makes what they make of arrays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import zarr
from devices import Gpu

from wavetrain import Box, Column, Config, DataLoader, Field, Sample, _pixels
from wavetrain.augment import (
    apply_filters,
    clamp,
    color_jitter,
    cutout,
    default_cifar10_filters,
    gaussian_noise,
    horizontal_flip,
    normalize,
    random_affine,
    random_crop,
    random_erase,
    random_flip,
    to_float,
)

COUNT, BATCH = 37, 8


class Images:
    """Images of a .npy file, each a Sample."""

    def __init__(self, path, shape):
        self.path, self.shape = path, shape

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        ends = [(0, extent) for extent in self.shape]
        return Sample(self.path, [(index, index + 1), *ends], index)


class Labelled(Images):
    """The same, with a label."""

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        image = Box(sample.uri, sample.aabb, "x")
        return Sample(boxes=[image, Box(array=index % 10, field="y")], tag=index)


class Table(Images):
    """The same for many."""

    def boxes(self, indices):
        n = np.array(indices)
        begins = np.stack([n, *[0 * n] * len(self.shape)], 1)
        return {"x": Column(self.path, begins, (1, *self.shape)), "y": n % 10}


class Arrays(Images):
    """The same from memory, the rows of each image from the last to the first."""

    def __init__(self, path, shape):
        super().__init__(path, shape)
        self.backwards = np.ascontiguousarray(np.load(path)[:, :, ::-1])

    def __getitem__(self, index):
        return Sample(boxes=[Box(self.backwards[index, None, :, ::-1])], tag=index)


class Pictures(Table):
    """Many, without labels."""

    def boxes(self, indices):
        return super().boxes(indices)["x"]


@pytest.fixture
def images(tmp_path):
    made = np.random.default_rng(1).integers(0, 256, (COUNT, 3, 32, 32), dtype=np.uint8)
    np.save(tmp_path / "images.npy", made)
    return tmp_path / "images.npy", made


LISTS = {
    "cifar": default_cifar10_filters,
    "erased": lambda: [
        random_crop(padding=3, crop_size=24, pad_mode="constant"),
        horizontal_flip(p=0.5),
        cutout(size=9, values=(1, 2, 3)),
        random_erase(p=0.7),
        to_float(),
        normalize(mean=0.5, std=(0.2, 0.3, 0.4)),
        color_jitter(brightness=0.2, contrast=0.3),
        clamp(-1, 1.5),
    ],
    "noise": lambda: [to_float(), normalize(0.5, 0.25), gaussian_noise(0.1)],
    "linear": lambda: [
        horizontal_flip(),
        random_affine(40, (0.8, 1.4), 0.2, 0.2),
        normalize(5, 50),
    ],
    "turned_and_erased": lambda: [
        random_affine(40, (0.8, 1.4), pad_value=7),
        normalize(5, 50),
        cutout(size=9, values=(1, 2, 3)),
        random_erase(p=0.7),
    ],
    "nearest": lambda: [
        random_affine(180, filter="nearest", pad_value=3),
        to_float(),
        color_jitter(brightness=0.1, contrast=0.2),
    ],
    "reflected": lambda: [random_affine(90, pad_mode="reflect"), gaussian_noise(0.5), clamp(0, 99)],
}
CONFIG = Config(samples_per_batch=1, sample_shape=(3, 32, 32))
FIELDS = [Field("x", (3, 32, 32), "f32"), Field("y", (), "i64")]


def expected(images, filters, loader, tags, seed):
    x, _ = apply_filters((images[tags], None), filters, loader.places, seed)
    return x


@pytest.mark.parametrize("dataset", [Images, Pictures, Arrays])
@pytest.mark.parametrize("name", LISTS)
def test_a_pipeline_makes_what_recipes_make_of_arrays(images, name, dataset):
    path, array = images
    filters = LISTS[name]()
    seen = 0
    shape = (3, 24, 24) if name == "erased" else (3, 32, 32)
    loader = DataLoader(
        dataset(path, (3, 32, 32)),
        BATCH,
        shuffle=True,
        seed=5,
        transforms=filters,
        config=Config(samples_per_batch=1, sample_shape=shape),
    )
    with loader:
        assert loader.plan.pipeline and not loader.plan.python
        for _ in range(2):
            for batch in loader:
                with batch:
                    tags = [*batch.info.tags]
                    found = batch.numpy().copy()
                wanted = expected(array, filters, loader, tags, 5)
                assert found.dtype == np.float32 and found.shape == wanted.shape
                assert (found.view("u4") == wanted.view("u4")).all()
                seen += len(tags)
    assert seen == 2 * COUNT


@pytest.mark.parametrize("dataset", [Labelled, Table])
def test_labels_travel_and_what_python_runs_comes_out_as_a_pair(images, dataset):
    path, array = images
    filters = default_cifar10_filters()
    calls = []

    def own(xb, yb):
        calls.append(len(xb))
        return xb * 2, yb + 1

    after = [own, cutout(size=5, name="late")]
    config = Config(samples_per_batch=BATCH, fields=FIELDS)
    loader = DataLoader(
        dataset(path, (3, 32, 32)),
        shuffle=True,
        seed=9,
        transforms=[*filters, *after],
        config=config,
    )
    with loader:
        assert loader.plan == (filters, after)
        for xb, yb in loader:
            # The label says which images it may be of: each of them is tried.
            places = loader.places
            every, zeros = [*filters, *after], np.zeros(COUNT)
            wanted = [apply_filters((array, zeros), every, [p] * COUNT, 9)[0] for p in places]
            for row, label, made in zip(xb, yb, wanted):
                same = [n for n in range(COUNT) if (made[n] == row).all()]
                assert len(same) == 1 and same[0] % 10 + 1 == label
    assert len(calls) > 5


class Planes:
    """Boxes of 16 x 16 that lie apart in the planes of a larger array."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 6

    def __getitem__(self, index):
        begin = (index % 2, 4 + 2 * index, 7 + 2 * index)
        return Sample(self.path, [(b, b + e) for b, e in zip(begin, (1, 16, 16))], index)


class PlanesOfMany(Planes):
    """The same for many."""

    def boxes(self, indices):
        n = np.array(indices)
        return Column(self.path, np.stack([n % 2, 4 + 2 * n, 7 + 2 * n], 1), (1, 16, 16))


@pytest.mark.parametrize("dataset", [Planes, PlanesOfMany])
def test_a_map_reads_past_its_box_in_a_larger_array(tmp_path, dataset):
    """As a crop's padding does; and its axes are those of the array."""
    array = np.random.default_rng(2).integers(0, 999, (2, 40, 48), dtype="u2")
    np.save(tmp_path / "planes.npy", array)
    recipe = random_affine(30, (0.9, 1.1), name="turn", seed=9)
    config = Config(samples_per_batch=6, sample_shape=(16, 16), dtype="f32")
    given = dataset(str(tmp_path / "planes.npy"))
    with DataLoader(given, config=config, transforms=[recipe]) as loader:
        assert loader.plan == ([recipe], [])
        (batch,) = loader
        made, places = np.array(batch, copy=True), loader.places
        batch.release()
    for index, (place, picture) in enumerate(zip(places, made)):
        spec = recipe.augment(place.epoch, place.position, (16, 16))
        at = 4 + 2 * index
        rows = tuple(
            (*row[:3], row[3] + base) for row, base in zip(spec.affine.matrix, (at, at + 3))
        )
        spec = dataclasses.replace(spec, affine=dataclasses.replace(spec.affine, matrix=rows))
        wanted = _pixels.resampled(array[index % 2], spec).astype("f4")
        assert (picture.view("u4") == wanted.view("u4")).all()


def test_the_same_pictures_at_another_world_and_after_a_resume(images):
    path, _ = images

    def pictures(loader, count=None):
        made = {}
        for number, batch in enumerate(loader):
            with batch:
                for place, picture in zip(loader.places, batch.numpy().copy()):
                    made[place] = picture
            if number + 1 == count:
                break
        return made

    given = {"shuffle": True, "seed": 3, "transforms": default_cifar10_filters(), "config": CONFIG}
    images_of = Images(path, (3, 32, 32))
    with DataLoader(images_of, BATCH, **given) as loader:
        whole = pictures(loader)
    with DataLoader(images_of, BATCH, **given) as loader:
        first = pictures(loader, 2)
        state = loader.state_dict()
    rest = {}
    for rank in range(2):
        with DataLoader(images_of, 5, rank=rank, world=2, tail="short", **given) as loader:
            loader.load_state_dict(state)
            rest |= pictures(loader)
    both = {**first, **rest}
    assert both.keys() == whole.keys() and len(rest) == COUNT - 2 * BATCH
    assert all((both[place] == whole[place]).all() for place in whole)


def test_volumes_of_zarr_and_halves(tmp_path):
    array = np.random.default_rng(2).integers(0, 4000, (COUNT, 2, 10, 12, 14), dtype=np.uint16)
    stored = zarr.create_array(
        tmp_path / "a.zarr", shape=array.shape, chunks=(4, 1, 5, 5, 5), dtype="u2"
    )
    stored[:] = array
    filters = [
        random_crop(padding=2, crop_size=8, pad_mode="edge"),
        to_float(4000),
        normalize((0.4, 0.6), (0.3, 0.2)),
    ]
    config = Config(samples_per_batch=BATCH, fields=[Field("x", (2, 8, 8, 8), "f16")])
    images_of = Images(tmp_path / "a.zarr", array.shape[1:])
    with DataLoader(images_of, transforms=filters, config=config, seed=4) as loader:
        for batch in loader:
            with batch:
                tags, found = [*batch.info.tags], batch["x"].numpy().copy()
            wanted = expected(array, filters, loader, tags, 4).astype(np.float16)
            assert (found.view("u2") == wanted.view("u2")).all()


@pytest.mark.parametrize("recipe", [random_flip(axis=-3), random_affine(40, (0.8, 1.4))])
def test_a_volume_without_channels_lies_in_a_field_with_one(tmp_path, recipe):
    shape = (1, 6, 9, 8)
    array = np.random.default_rng(2).integers(0, 4000, (COUNT, *shape), dtype=np.uint16)

    class Volumes(Images):
        def __getitem__(self, index):
            uri = f"{self.path}/{index}.npy"
            np.save(uri, array[index, 0])
            return Sample(boxes=[Box(uri, [(0, 6), (0, 9), (0, 8)], "x")], tag=index)

    filters = [recipe, normalize(mean=800, std=600), cutout(size=3)]
    config = Config(samples_per_batch=BATCH, fields=[Field("x", shape, "f32")])
    given = Volumes(str(tmp_path), shape)
    with DataLoader(given, transforms=filters, config=config, seed=4) as loader:
        assert loader.plan.python == []
        for batch in loader:
            with batch:
                tags, found = [*batch.info.tags], batch["x"].numpy().copy()
            wanted = expected(array, filters, loader, tags, 4)
            assert (found.view("u4") == wanted.view("u4")).all()


def test_a_table_of_volumes_without_channels_names_the_fix(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((6, 9, 8), "u2"))

    class Volumes(Images):
        def boxes(self, indices):
            return Column(self.path, [[0, 0, 0]] * len(indices), (6, 9, 8))

    config = Config(samples_per_batch=1, sample_shape=(1, 6, 9, 8), dtype="f32")
    with pytest.raises(ValueError, match=r"Columns of 4 axes or more \(got 3\): return samples"):
        DataLoader(Volumes(str(tmp_path / "a.npy"), ()), config=config, transforms=[random_flip()])


def test_what_does_not_go_together_names_the_fix(images):
    path, _ = images
    filters = [random_crop(padding=4, crop_size=28, pad_mode="reflect"), to_float()]
    dataset = Labelled(path, (3, 32, 32))
    wrong = [
        (
            Config(samples_per_batch=1, fields=FIELDS),
            "samples of the shape .3, 28, 28., and the field has .3, 32, 32.",
        ),
        (
            Config(samples_per_batch=1, fields=[Field("x", (3, 28, 28), "u8"), FIELDS[1]]),
            "take f32, bf16 or f16",
        ),
        (
            Config(
                samples_per_batch=1,
                fields=[Field("x", (3, 28, 28), "f32", pad_mode="edge"), FIELDS[1]],
            ),
            "pad by 'reflect', and the field by 'edge'",
        ),
        (
            Config(samples_per_batch=1, fields=[FIELDS[1], FIELDS[0]]),
            "one box for the field 'y'|boxes of 0 axes",
        ),
    ]
    for config, text in wrong[:3]:
        with pytest.raises(ValueError, match=text):
            DataLoader(dataset, 4, transforms=filters, config=config)


def test_what_runs_in_python_takes_batches_of_the_host(images):
    path, array = images
    after = [to_float(), lambda xb, yb: (xb + 1, yb)]
    given = dataclasses.replace(CONFIG, backend="cuda")
    with pytest.raises(ValueError, match=r"lambda.* runs in Python.*'host'"):
        DataLoader(Images(path, (3, 32, 32)), BATCH, transforms=after, config=given)
    given = dataclasses.replace(CONFIG, backend="auto")
    with DataLoader(Images(path, (3, 32, 32)), BATCH, transforms=after, config=given) as loader:
        assert len(loader.plan.pipeline) == len(loader.plan.python) == 1
        xb, _ = next(iter(loader))
        assert (xb == expected(array, after, loader, range(BATCH), 0)).all()


@pytest.mark.parametrize("name", LISTS)
def test_a_device_gives_what_the_host_gives(images, name, simulated_driver):
    path, array = images
    filters = LISTS[name]()
    gpu = Gpu(simulated_driver)
    shape = (3, 24, 24) if name == "erased" else (3, 32, 32)
    config = Config(
        samples_per_batch=1,
        sample_shape=shape,
        backend="cuda",
        device=0,
        cuda_driver=gpu.path,
    )
    dataset = Images(path, (3, 32, 32))
    with DataLoader(dataset, BATCH, seed=5, transforms=filters, config=config) as loader:
        assert loader.plan.pipeline and not loader.plan.python
        for batch in loader:
            with batch:
                tags, found = [*batch.info.tags], gpu.values(batch)
            assert (found == expected(array, filters, loader, tags, 5)).all()
    gpu.found_nothing()


def test_recipes_behind_another_callable_run_in_python(images):
    path, array = images
    after = [lambda xb, yb: (xb + 1, yb), to_float()]
    with DataLoader(Images(path, (3, 32, 32)), BATCH, transforms=after, config=CONFIG) as loader:
        assert loader.plan == ([], after)
        xb, yb = next(iter(loader))
        assert yb is None and xb.shape == (BATCH, 3, 32, 32)
        assert (xb == array[:BATCH].astype("f4") + 1).all()


def test_without_recipes_transforms_take_the_batch(images):
    path, array = images
    with DataLoader(
        Images(path, (3, 32, 32)), BATCH, transforms=lambda b: b.numpy().copy()
    ) as some:
        assert (next(iter(some))[:, 0] == array[:BATCH]).all()
        assert not some.plan.pipeline and len(some.plan.python) == 1


def test_a_sample_that_recipes_cannot_move_is_refused(images):
    path, _ = images

    class Uneven(Images):
        def __getitem__(self, index):
            return Sample(self.path, [(index, index + 1), (0, 3), (0, 32), (0, 32 - index % 2)])

    given = {"transforms": default_cifar10_filters(), "config": CONFIG}
    refused = pytest.raises(ValueError, match="boxes of one shape")
    with DataLoader(Uneven(path, (3, 32, 32)), 4, **given) as loader, refused:
        list(loader)


def test_without_a_config_planes_have_their_own_shape_and_others_need_one(tmp_path):
    array = np.random.default_rng(3).integers(0, 256, (COUNT, 20, 30), dtype=np.uint8)
    np.save(tmp_path / "a.npy", array)

    class Planes(Images):
        def __getitem__(self, index):
            return Sample(self.path, [(index, index + 3), (0, 20), (0, 30)], index)

        def __len__(self):
            return COUNT - 2

    filters = [random_crop(padding=0, crop_size=16, pad_mode="edge"), normalize(0.5, (1, 2, 3))]
    with DataLoader(Planes(tmp_path / "a.npy", ()), 4, transforms=filters) as loader:
        batch = next(iter(loader))
        with batch:
            tags, found = [*batch.info.tags], batch.numpy().copy()
    stacked = np.stack([array[tag : tag + 3] for tag in tags])
    wanted, _ = apply_filters((stacked, None), filters, loader.places, 0)
    assert found.shape == (4, 3, 16, 16) and (found == wanted).all()
    with pytest.raises(ValueError, match=r"config must be given.*the number of an image"):
        DataLoader(Images(tmp_path / "a.npy", (20, 30)), 4, transforms=filters)
