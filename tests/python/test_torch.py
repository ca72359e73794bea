"""wavetrain.torch: batches as tensors, alone and behind torch's DataLoader.

Each worker process that is spawned imports torch, which takes seconds: what needs no process of its
own is tested in this one, told that it is a worker.

Over 500 lines: the facts of one class, which share an array and its order of samples.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import io
import itertools
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy
import pytest

import wavetrain

torch = pytest.importorskip("torch", reason="torch is not installed")
zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")

import torch.utils.data as samplers  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

import wavetrain.torch  # noqa: E402
from wavetrain.torch import Batches  # noqa: E402

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "train_torch.py"
COUNT = 22  # samples of the array: five batches of four, and one of two
ROWS = 3
PER_EPOCH = 1000


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    """The path of an array of random numbers, and the numbers."""
    path = str(tmp_path_factory.mktemp("torch") / "array")
    shape = (COUNT + ROWS - 1, 8, 8)
    data = numpy.random.default_rng(7).integers(0, 256, shape).astype("u2")
    stored = zarr.create_array(store=path, shape=shape, chunks=(4, 8, 4), dtype="u2")
    stored[:] = data
    return path, data


@pytest.fixture
def config():
    return wavetrain.Config(
        samples_per_batch=4, sample_shape=(ROWS, 8, 8), n_batch_slots=2, backend="host"
    )


class Order:
    """Samples of an epoch, in an order of its own, the epoch in their tags."""

    def __init__(self, path, count=COUNT):
        self.path, self.count = path, count

    def __call__(self, epoch):
        for number in range(self.count):
            at = (number + epoch) % COUNT
            yield wavetrain.Sample(
                self.path, [(at, at + ROWS), (0, 8), (0, 8)], epoch * PER_EPOCH + at
            )


class SizedOrder(Order):
    def __len__(self):
        return self.count


def half(x):
    return x / 2


def doubled(x):
    return {**x, "image": x["image"] * 2}


def tags_of(path, epoch=0):
    return [sample.tag for sample in Order(path)(epoch)]


def check(x, tags, data, factor=1.0):
    assert len(x) == len(tags)
    for sample, tag in zip(x, tags.tolist()):
        at = tag % PER_EPOCH
        assert numpy.array_equal(sample.numpy(), data[at : at + ROWS] * factor)


def drain(source, data):
    """The tags of an epoch, every value checked."""
    tags = []
    for x, some in source:
        check(x, some, data)
        tags += some.tolist()
    return tags


def as_worker(monkeypatch, worker, workers):
    info = types.SimpleNamespace(id=worker, num_workers=workers)
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: info)


def count_opens(monkeypatch):
    """The configs of all pipelines that are opened from now on."""
    opened = []

    class Counted(wavetrain.Pipeline):
        def __init__(self, config, **options):
            opened.append(config)
            super().__init__(config, **options)

    monkeypatch.setattr(wavetrain.torch, "Pipeline", Counted)
    return opened


def python(code, *arguments):
    """Runs Python on this package; what it printed."""
    package = str(Path(wavetrain.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *(["-c", code] if code else []), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The module.


def test_wavetrain_does_not_import_torch():
    python("import sys, wavetrain; assert 'torch' not in sys.modules")


def test_without_torch_the_import_says_what_is_missing():
    code = "import sys; sys.modules['torch'] = None\ntry: import wavetrain.torch\n"
    said = python(code + "except ImportError as error: print(error.name, error)")
    assert said.startswith("torch wavetrain.torch needs torch: pip install torch")


def test_it_is_a_dataset_of_torch(array, config):
    assert isinstance(Batches(config, []), IterableDataset)


# What comes out.


def test_batches_hold_the_values_of_the_array_in_the_order_of_the_samples(array, config):
    path, data = array
    with Batches(config, list(Order(path)(0)), with_tags=True) as batches:
        assert drain(batches, data) == tags_of(path)


def test_the_last_batch_is_shorter(array, config):
    with Batches(config, Order(array[0])) as batches:
        assert [len(x) for x in batches] == [4, 4, 4, 4, 4, 2]


def test_drop_last_leaves_it_out(array, config):
    config = dataclasses.replace(config, drop_last=True)
    with Batches(config, SizedOrder(array[0])) as batches:
        assert [len(x) for x in batches] == [4] * 5
        assert len(batches) == 5


def test_no_samples_are_no_batches(config):
    with Batches(config, []) as batches:
        assert len(batches) == 0
        assert list(batches) == []


def test_a_tensor_alone_comes_out_unless_more_is_asked_for(array, config):
    with Batches(config, Order(array[0])) as batches:
        x = next(iter(batches))
        assert type(x) is torch.Tensor
        assert (x.shape, x.dtype, x.device.type) == ((4, ROWS, 8, 8), torch.float32, "cpu")


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("bf16", torch.bfloat16), ("f16", torch.float16), ("i32", torch.int32), ("i64", torch.int64)],
)
def test_types_are_those_of_torch(array, config, dtype, wanted):
    path, data = array
    config = dataclasses.replace(config, dtype=dtype)
    with Batches(config, Order(path)) as batches:
        x = next(iter(batches))
        assert x.dtype is wanted
        assert numpy.array_equal(x[1].double().numpy(), data[1 : 1 + ROWS])


def test_tags_index_a_tensor_of_labels(array, config):
    path, _ = array
    labels = torch.arange(COUNT) * 10
    with Batches(config, Order(path), with_tags=True) as batches:
        _, tags = next(iter(batches))
        assert labels[tags].tolist() == [0, 10, 20, 30]


def test_a_tag_that_torch_cannot_hold_is_refused(array, config):
    sample = next(Order(array[0])(0))
    samples = [wavetrain.Sample(sample.uri, sample.aabb, 2**63)]
    with (
        Batches(config, samples, with_tags=True) as batches,
        pytest.raises(ValueError, match="tag"),
    ):
        next(iter(batches))


def test_samples_that_were_skipped_are_not_valid(array, config):
    config = dataclasses.replace(config, on_error="skip", pad_value=5)
    samples = list(Order(array[0], 4)(0))
    samples[2] = wavetrain.Sample(array[0] + "-not", samples[2].aabb, 2)
    with Batches(config, samples, with_tags=True, with_valid=True) as batches:
        ((x, tags, valid),) = batches
        assert tags.tolist() == [0, 1, 2, 3]
        assert valid.tolist() == [True, True, False, True]
        assert (x[~valid] == 5).all()


def test_what_transform_returns_comes_out(array, config):
    path, data = array
    with Batches(config, Order(path), transform=half, with_tags=True) as batches:
        for x, tags in batches:
            check(x, tags, data, 0.5)


def test_fields_come_out_by_their_names(array, config):
    path, data = array
    fields = [
        wavetrain.Field("image", (ROWS, 8, 8)),
        wavetrain.Field("flip", (8, 8), "u16"),
        wavetrain.Field("first", (), "i64", pad_value=-1),
    ]
    config = wavetrain.Config(samples_per_batch=4, fields=fields, backend="host")
    samples = []
    for sample in Order(path)(0):
        z = sample.tag
        boxes = [
            wavetrain.Box(path, sample.aabb),
            wavetrain.Box(path, numpy.s_[z : z + 1, 7::-1, 0:8], "flip"),
            wavetrain.Box(path, [(z, z + 1), (0, 1), (0, 1)], "first"),
        ]
        samples.append(wavetrain.Sample(boxes=boxes[: 2 + z % 2], tag=z))
    extra = {"with_tags": True, "with_filled_shape": True}
    with Batches(config, samples, transform=doubled, **extra) as batches:
        assert "Batches of image 4 x 3 x 8 x 8 f32, flip 4 x 8 x 8 u16, first" in repr(batches)
        seen = []
        for x, tags, filled_shape in batches:
            assert [*x] == [*filled_shape] == ["image", "flip", "first"]
            check(x["image"], tags, data, 2)
            assert x["first"].dtype is torch.int64 and filled_shape["first"].dtype is torch.int64
            for row, z in enumerate(tags.tolist()):
                assert numpy.array_equal(x["flip"][row].numpy(), data[z, ::-1])
                assert x["first"][row] == (data[z, 0, 0] if z % 2 else -1)
                assert filled_shape["first"][row].tolist() == [z % 2]
                assert filled_shape["image"][row].tolist() == [ROWS, 8, 8]
            seen += tags.tolist()
        assert seen == tags_of(path)
    with Batches(config, samples) as batches:
        for kept in batches:
            assert [type(x) for x in kept.values()] == [torch.Tensor] * 3
            break
    assert numpy.array_equal(kept["flip"][1].numpy(), data[1, ::-1])  # it outlives the batches


def test_what_is_covered_is_a_tensor_where_there_is_one(array, config):
    with Batches(config, Order(array[0], 2), with_filled_shape=True) as batches:
        ((_, filled_shape),) = batches
        assert filled_shape.tolist() == [[ROWS, 8, 8]] * 2


def test_files_are_read_through(array, config):
    fsspec = pytest.importorskip("fsspec")
    path, data = array
    files = wavetrain.fsspec(fsspec.filesystem("file"))
    with Batches(config, Order(path), files=files, with_tags=True) as batches:
        assert drain(batches, data) == tags_of(path)


def test_fit_raises_caps(array, config):
    config = dataclasses.replace(config, max_chunk_uncompressed_bytes=64)
    with Batches(config, Order(array[0])) as batches, pytest.raises(wavetrain.BudgetExceeded):
        next(iter(batches))
    with Batches(config, Order(array[0]), fit=[array[0]]) as batches:
        assert len(next(iter(batches))) == 4


# Memory.


def test_a_tensor_is_the_slot_itself(array, config):
    config = dataclasses.replace(config, n_batch_slots=1)
    with Batches(config, Order(array[0])) as batches:
        places = set()
        for x in batches:
            places.add(x.data_ptr())
            x.zero_()
            del x
        assert len(places) == 1


def test_tensors_that_are_kept_keep_their_slots(array, config):
    config = dataclasses.replace(config, pop_timeout_s=0.2)
    with Batches(config, Order(array[0])) as batches:
        kept = []
        with pytest.raises(wavetrain.PoolStarved):
            for x in batches:
                kept.append(x[0, 0])  # a view is enough
        assert len(kept) == config.n_batch_slots


def test_copies_leave_the_slots_alone(array, config):
    config = dataclasses.replace(config, n_batch_slots=1, pop_timeout_s=5.0)
    with Batches(config, Order(array[0]), transform=torch.clone) as batches:
        assert len(list(batches)) == 6


def test_tensors_and_views_outlive_the_batches(array, config):
    path, data = array
    batches = Batches(config, Order(path))
    x = next(iter(batches))
    view = x[1]
    batches.close()
    del batches, x
    gc.collect()
    assert numpy.array_equal(view.numpy(), data[1 : 1 + ROWS])
    view += 1  # and may be written to


# Its length.


def test_its_length_is_that_of_an_epoch(array, config):
    samples = list(Order(array[0])(0))
    for count in range(10):
        assert len(Batches(config, samples[:count])) == -(-count // 4)
    assert len(Batches(config, SizedOrder(array[0]))) == 6


def test_a_function_has_no_length_and_the_error_says_what_has(array, config):
    with pytest.raises(TypeError, match="__call__"):
        len(Batches(config, Order(array[0])))
    assert "of them" not in repr(Batches(config, Order(array[0])))
    assert "6 of them" in repr(Batches(config, SizedOrder(array[0])))


def test_tqdm_takes_it_with_and_without_a_length(array, config):
    tqdm = pytest.importorskip("tqdm").tqdm
    for samples, total in ((SizedOrder(array[0]), 6), (Order(array[0]), None)):
        with Batches(config, samples) as batches, tqdm(batches, file=io.StringIO()) as bar:
            assert sum(1 for _ in bar) == 6
            assert bar.total == total


# Epochs.


def test_epochs_count_from_0_and_from_what_set_epoch_says(array, config):
    path, data = array
    with Batches(config, Order(path), with_tags=True) as batches:
        for epoch in (0, 1):
            assert drain(batches, data) == tags_of(path, epoch)
        batches.set_epoch(7)
        for epoch in (7, 8):
            assert drain(batches, data) == tags_of(path, epoch)


def test_a_pipeline_serves_all_epochs(array, config, monkeypatch):
    opened = count_opens(monkeypatch)
    with Batches(config, Order(array[0])) as batches:
        assert opened == []
        for _ in range(5):
            assert sum(len(x) for x in batches) == COUNT
        assert batches.pipeline.stats().batches_emitted == 30
    assert len(opened) == 1


def test_an_epoch_that_was_left_early_leaves_nothing_to_the_next(array, config):
    path, data = array
    with Batches(config, Order(path), with_tags=True) as batches:
        for epoch in range(4):
            for taken, (x, tags) in enumerate(batches):
                check(x, tags, data)
                if taken == epoch:
                    break
            del x
        assert drain(batches, data) == tags_of(path, 4)


def test_an_endless_function_is_pulled_as_far_as_needed(array, config):
    pulled = []

    def endless(_epoch):
        for sample in itertools.cycle(Order(array[0])(0)):
            pulled.append(sample)
            yield sample

    with Batches(config, endless) as batches:
        assert sum(len(x) for x in itertools.islice(batches, 20)) == 80
        assert len(pulled) < 300
        assert len(next(iter(batches))) == 4


def test_a_second_iteration_ends_the_first(array, config):
    with Batches(config, Order(array[0]), transform=torch.clone) as batches:
        first = iter(batches)
        next(first)
        second = iter(batches)
        with pytest.raises(RuntimeError, match="another iteration began"):
            next(first)
        assert len(list(second)) == 6


def test_an_epoch_that_failed_does_not_end_the_next(array, config):
    path, data = array

    def samples(epoch):
        return Order(path + "-not" if epoch == 0 else path)(epoch)

    with Batches(config, samples, with_tags=True) as batches:
        with pytest.raises(wavetrain.NotFound):
            next(iter(batches))
        assert drain(batches, data) == tags_of(path, 1)


def test_an_exception_of_the_samples_comes_through(array, config):
    def samples(epoch):
        yield from Order(array[0], 5)(epoch)
        if epoch == 0:
            raise KeyError("mine")

    with Batches(config, samples) as batches:
        with pytest.raises(KeyError, match="mine"):
            list(batches)
        assert sum(len(x) for x in batches) == 5


# The end.


def test_after_close_iterating_says_so(array, config):
    batches = Batches(config, Order(array[0]))
    running = iter(batches)
    next(running)
    batches.close()
    batches.close()
    for source in (running, batches):
        with pytest.raises(wavetrain.ShutdownError, match="closed"):
            next(iter(source))


def test_one_that_nobody_closed_ends_without_a_warning(array, config):
    loaders = len(wavetrain._pipeline.Loader.alive)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for is_cycle in (False, True):
            batches = Batches(config, Order(array[0]))
            if is_cycle:
                batches.own = batches
            next(iter(batches))
            del batches
            gc.collect()
    assert len(wavetrain._pipeline.Loader.alive) == loaders


def test_the_end_of_a_process_is_silent(array):
    code = """
import sys, wavetrain.torch
config = wavetrain.Config(samples_per_batch=2, sample_shape=(1, 8, 8), backend="host")
sample = wavetrain.Sample(sys.argv[1], [(0, 1), (0, 8), (0, 8)])
batches = wavetrain.torch.Batches(config, [sample] * 9)
x = next(iter(batches))
"""
    command = [sys.executable, "-W", "error", "-c", code, array[0]]
    package = str(Path(wavetrain.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": package}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


# Arguments.


@pytest.mark.parametrize("samples", [iter(()), 5, None, (s for s in ())])
def test_samples_that_give_one_epoch_or_none_are_refused(config, samples):
    with pytest.raises(TypeError, match="function of the epoch"):
        Batches(config, samples)


def test_other_wrong_arguments_are_refused_by_name(config):
    with pytest.raises(TypeError, match="config"):
        Batches({}, [])
    with pytest.raises(TypeError, match="transform"):
        Batches(config, [], transform=3)
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match="epoch"):
            Batches(config, []).set_epoch(wrong)
    with pytest.raises(TypeError, match="epoch"):
        Batches(config, []).set_epoch(1.5)


# GPUs, as far as a machine without one goes.


def test_batches_are_made_where_torch_works(config, monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: calls.append("init"))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)

    def device(**changes):
        return Batches(dataclasses.replace(config, **changes), [])._config_here().device

    assert device(backend="auto") == 3
    assert device(backend="cuda") == 3
    assert device(backend="cuda", device=1) == 1
    assert device(backend="host") is None
    assert calls == ["init", "init"]


def test_a_worker_makes_batches_in_host_memory(config, monkeypatch):
    as_worker(monkeypatch, 0, 2)
    auto = dataclasses.replace(config, backend="auto", device=0)
    here = Batches(auto, [])._config_here()
    assert (here.backend, here.device) == (wavetrain.Backend.HOST, None)
    cuda = dataclasses.replace(config, backend="cuda")
    with pytest.raises(RuntimeError, match="num_workers=0"):
        next(iter(Batches(cuda, [])))


# Workers, of which this process takes the place of one after the other.


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 6, 8])
@pytest.mark.parametrize("count", [0, 1, 4, 20, 22])
def test_workers_share_whole_batches_in_turn(array, config, monkeypatch, workers, count):
    path, _ = array
    shares = []
    for worker in range(workers):
        as_worker(monkeypatch, worker, workers)
        with Batches(config, Order(path, count), with_tags=True) as batches:
            shares.append([tags.tolist() for _, tags in batches])
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*shares))
    together = [tags for tags in in_turn if tags is not None]
    assert list(itertools.chain.from_iterable(together)) == tags_of(path)[:count]
    assert all(len(tags) == 4 for tags in together[:-1])


def test_workers_share_the_processors(config, monkeypatch):
    as_worker(monkeypatch, 0, 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert Batches(config, [])._config_here().n_decode_threads == 4
    given = dataclasses.replace(config, n_decode_threads=3)
    assert Batches(given, [])._config_here().n_decode_threads == 3
    as_worker(monkeypatch, 0, 20)
    assert Batches(config, [])._config_here().n_decode_threads == 1


# Copies.


def test_a_copy_opens_a_pipeline_of_its_own(array, config):
    path, data = array
    with Batches(config, Order(path), with_tags=True) as batches:
        drain(batches, data)
        for make in (lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy):
            with make(batches) as other:
                assert drain(other, data) == tags_of(path, 1)
                assert other.pipeline is not batches.pipeline
        batches.close()
        with pickle.loads(pickle.dumps(batches)) as other:
            assert drain(other, data) == tags_of(path, 1)


def test_a_stream_stays_in_its_process(array, config):
    config = dataclasses.replace(config, consumer_stream=5)
    assert pickle.loads(pickle.dumps(Batches(config, [])))._config.consumer_stream is None


def test_what_has_no_name_is_refused_before_a_worker_starts(array, config):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no advice of torch to fork
        for batches, wrong in (
            (Batches(config, lambda _epoch: []), "samples"),
            (Batches(config, [], transform=lambda x: x), "transform"),
        ):
            loader = DataLoader(
                batches, batch_size=None, num_workers=1, multiprocessing_context="spawn"
            )
            with pytest.raises(RuntimeError, match=f"{wrong} is .*<lambda>.*num_workers=0"):
                next(iter(loader))


# The DataLoader.


def loader_of(batches, workers, **options):
    context = "spawn" if workers else None
    return DataLoader(
        batches, batch_size=None, num_workers=workers, multiprocessing_context=context, **options
    )


def test_without_workers_the_loader_changes_nothing(array, config):
    path, data = array
    with Batches(config, SizedOrder(path), with_tags=True) as batches:
        loader = loader_of(batches, 0)
        assert len(loader) == 6
        for epoch in (0, 1):
            assert drain(loader, data) == tags_of(path, epoch)


def test_workers_of_each_epoch_go_on_with_its_order(array, config):
    """Each sample comes once and in order, and slots come back: a worker has one, for three."""
    path, data = array
    config = dataclasses.replace(config, n_batch_slots=1, pop_timeout_s=20.0)
    with Batches(config, SizedOrder(path), with_tags=True) as batches:
        loader = loader_of(batches, 2)
        assert len(loader) == 6
        for epoch in (0, 1):
            assert drain(loader, data) == tags_of(path, epoch)
        batches.set_epoch(9)
        kept = list(loader_of(batches, 1))  # what crossed over is no slot
        assert drain(kept, data) == tags_of(path, 9)


def test_persistent_workers_keep_their_pipelines_and_hear_of_set_epoch(array, config):
    path, data = array
    config = dataclasses.replace(config, pop_timeout_s=20.0)
    with Batches(config, Order(path), with_tags=True, transform=half) as batches:
        loader = loader_of(batches, 2, persistent_workers=True)

        def epoch_of(stop=None):
            tags = []
            for x, some in itertools.islice(loader, stop):
                check(x, some, data, 0.5)
                tags += some.tolist()
            return tags

        assert epoch_of() == tags_of(path, 0)
        assert epoch_of(2) == tags_of(path, 1)[:8]
        assert epoch_of() == tags_of(path, 2)
        batches.set_epoch(30)
        assert epoch_of() == tags_of(path, 30)
        assert epoch_of() == tags_of(path, 31)


def test_an_error_in_a_worker_comes_with_its_text(array, config):
    loader = loader_of(Batches(config, Order(array[0] + "-not")), 1)
    with pytest.raises(wavetrain.NotFound, match="array-not"):
        next(iter(loader))


# Fork.

FORK = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@FORK
@pytest.mark.parametrize("is_open", [False, True])
def test_workers_made_by_fork_are_refused_with_the_way_out(array, config, is_open):
    path, data = array
    with Batches(config, Order(path), with_tags=True) as batches:
        if is_open:
            drain(batches, data)
        loader = DataLoader(batches, batch_size=None, num_workers=1, multiprocessing_context="fork")
        with pytest.raises(RuntimeError, match=r"multiprocessing_context='spawn'.*num_workers=0"):
            next(iter(loader))
        assert drain(batches, data) == tags_of(path, int(is_open))


def in_child(work):
    """The exit code of a forked child that does that, and then ends as a program does."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    return child.exitcode


@FORK
def test_a_fork_in_the_middle_of_an_epoch_does_no_harm(array, config):
    path, data = array
    with Batches(config, Order(path), with_tags=True) as batches:
        tags = []
        for x, some in batches:
            check(x, some, data)
            tags += some.tolist()
            assert in_child(gc.collect) == 0
        del x
        assert tags == tags_of(path)
        assert in_child(batches.close) == 0
        assert drain(batches, data) == tags_of(path, 1)


@FORK
def test_a_child_is_told_to_make_its_own_and_can(array, config):
    path, data = array
    with Batches(config, Order(path), with_tags=True) as batches:
        drain(batches, data)

        def child():
            with pytest.raises(RuntimeError, match="in the process that uses them"):
                next(iter(batches))
            with Batches(config, Order(path), with_tags=True) as own:
                assert drain(own, data) == tags_of(path)

        assert in_child(child) == 0
        assert drain(batches, data) == tags_of(path, 1)


# Samplers of torch, given to the DataLoader of wavetrain. The batches of torch's loader are right.


class Requests:
    def __init__(self, path):
        self.samples = list(Order(path)(0))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


SAMPLERS = {
    "sequential": lambda: samplers.SequentialSampler(range(COUNT)),
    "random": lambda: samplers.RandomSampler(range(COUNT), generator=seeded()),
    "replacement": lambda: samplers.RandomSampler(
        range(COUNT), replacement=True, num_samples=9, generator=seeded()
    ),
    "subset": lambda: samplers.SubsetRandomSampler(range(3, 17), generator=seeded()),
    "weighted": lambda: samplers.WeightedRandomSampler(
        torch.arange(COUNT) * 1.0, 30, generator=seeded()
    ),
    "distributed": lambda: samplers.DistributedSampler(range(COUNT), 4, 3, seed=5),
}


def epochs_of_torch(options, count=3):
    loader = DataLoader(range(COUNT), collate_fn=tuple, **options)
    found = []
    for epoch in range(count):
        sampler = options.get("sampler") or options["batch_sampler"].sampler
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        found.append([*loader])
    return found


def epochs_here(loader, data, count=3):
    found = []
    for _ in range(count):
        found.append([])
        for batch in loader:
            with batch:
                check(batch.torch(), torch.tensor(batch.info.tags), data)
                found[-1].append(batch.info.tags)
        assert len(found[-1]) == len(loader)
    return found


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_samplers_of_torch_give_the_batches_that_they_give_torch(array, config, name, drop_last):
    path, data = array
    wanted = epochs_of_torch({"sampler": SAMPLERS[name](), "batch_size": 4, "drop_last": drop_last})
    with wavetrain.DataLoader(
        Requests(path), sampler=SAMPLERS[name](), drop_last=drop_last, config=config
    ) as loader:
        assert epochs_here(loader, data) == wanted
    wanted = epochs_of_torch(
        {"batch_sampler": samplers.BatchSampler(SAMPLERS[name](), 5, drop_last)}
    )
    with wavetrain.DataLoader(
        Requests(path),
        batch_sampler=samplers.BatchSampler(SAMPLERS[name](), 5, drop_last),
        config=config,
    ) as loader:
        assert epochs_here(loader, data, 1) == wanted[:1]


def test_a_place_of_a_random_sampler_wants_its_generator_as_it_was(array, config):
    path, data = array
    generator = seeded()
    options = {"sampler": samplers.RandomSampler(range(COUNT), generator=generator)}
    with wavetrain.DataLoader(Requests(path), config=config, **options) as loader:
        epochs_here(loader, data, 1)
        kept, batches = generator.get_state(), iter(loader)
        next(batches).release()
        place, rest = loader.state_dict(), []
        for batch in batches:
            with batch:
                rest.append(batch.info.tags)
    with wavetrain.DataLoader(Requests(path), config=config, **options) as loader:
        generator.manual_seed(3)
        with pytest.raises(ValueError, match="restore its generator"):
            loader.load_state_dict(place)
        generator.set_state(kept)
        loader.load_state_dict(place)
        found = []
        for batch in loader:
            with batch:
                found.append(batch.info.tags)
        assert found == rest


# The example.


def store_of_zarr(folder):
    """A volume as smooth as the demo's, but smaller."""
    z, y, x = numpy.ogrid[:32, :64, :64]
    data = 2000 + 900 * numpy.sin(z / 5) + 700 * numpy.cos(y / 7) * numpy.sin(x / 6)
    stored = zarr.create_array(
        store=str(folder / "bodies"), shape=data.shape, shards=(32, 64, 64), chunks=(16, 32, 32),
        dtype="u2",
    )  # fmt: skip
    stored[:] = data.astype("u2")


def store_of_tool(folder):
    tool = os.environ.get("WAVETRAIN_TOOL") or shutil.which("wavetrain")
    if tool is None:
        pytest.skip("the wavetrain tool is not on PATH, nor named in $WAVETRAIN_TOOL")
    command = [tool, "demo", "--dir", str(folder), "--crops", "24"]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("make_store", [store_of_zarr, store_of_tool])
def test_the_example_learns(tmp_path, make_store):
    make_store(tmp_path)
    said = python(None, str(EXAMPLE), str(tmp_path / "bodies"), "--epochs", "1")
    losses = [float(text) for text in re.findall(r"loss (\S+)", said)]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 2
