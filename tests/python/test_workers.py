"""Worker processes read data sets of arrays: batches have the arrays that they return, in order,
even if workers die, and nothing of them is left.

This file is over 500 lines because each of these facts is about the same few processes.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path

import array_sets
import numpy
import pytest
from array_sets import COUNT, Bad, Cells, Dicts, Drawn, Large, Numbers, Ones, Pairs, Pids, image
from cubes import ROOT, run_program

import wavetrain
from wavetrain import DataLoader, Field
from wavetrain._worker import Failed, Request, put
from wavetrain._workers import Pool, pair
from wavetrain.augment import apply_filters, horizontal_flip, normalize, random_crop, to_float
from wavetrain.source import Source

SIZE = 8


@pytest.fixture(scope="module")
def server():
    """The server of forks, which stays."""
    DataLoader(Pairs(), SIZE, num_workers=1).close()


@pytest.fixture(autouse=True)
def nothing_is_left(server):
    """No process, no descriptor, no file in shared memory."""
    gc.collect()
    before, files = (children(), descriptors()), set(os.listdir("/dev/shm"))
    yield
    gc.collect()
    assert (children(), descriptors()) == before
    # Those of other tests, which run meanwhile, are gone after a while.
    left = set(os.listdir("/dev/shm")) - files
    until(lambda: left.isdisjoint(os.listdir("/dev/shm")))


def descriptors():
    """Files that this process has open, without the numbers of sockets and pipes."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0])
    return sorted(found)


def children() -> set[int]:
    """Processes of this one and of the server that forks for it, zombies too."""
    found, left = set[int](), [os.getpid()]
    while left:
        for task in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            numbers = [*map(int, task.read_text().split())]
            left += numbers
            found |= {*numbers}
    return found


@pytest.fixture
def loader():
    """loader(data set, **arguments): closed when the test is over."""
    opened = []

    def make(dataset=None, batch_size=SIZE, num_workers=2, **arguments):
        dataset = Pairs() if dataset is None else dataset
        opened.append(DataLoader(dataset, batch_size, num_workers=num_workers, **arguments))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def config(**changes):
    fields = [Field("x", (3, 5), "u8", pad_value=255), Field("y", (), "i64", pad_value=-1)]
    return wavetrain.Config(samples_per_batch=SIZE, fields=fields, **changes)


def numbers(batches, count=None):
    """The last field of all batches, as one list."""
    found = []
    for batch in itertools.islice(batches, count):
        with batch:
            found += batch.values()[-1].numpy().tolist()
    return found


# ---- Batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_batch_of_a_data_set_of_tuples_has_a_tensor_for_each(loader, workers):
    first = 0
    for x, y in loader(num_workers=workers):
        rows = range(first, min(COUNT, first + SIZE))
        assert (x.dtype, y.dtype) == (wavetrain.Dtype.U8, wavetrain.Dtype.I64)
        numpy.testing.assert_array_equal(x.numpy(), [image(row) for row in rows])
        numpy.testing.assert_array_equal(y.numpy(), rows)
        first += SIZE
    assert first == 56


def test_a_batch_of_a_data_set_of_dicts_is_one_and_arrays_may_lie_in_any_way(loader):
    made = loader(Dicts())
    for batch in itertools.islice(made, 3):
        with batch:
            assert batch.keys() == ("mask", "image", "label")
            for row, tag in enumerate(batch.info.tags):
                wanted = Dicts()[tag]
                for name, tensor in batch.items():
                    numpy.testing.assert_array_equal(tensor.numpy()[row], wanted[name])
    kinds = [field.dtype.name for field in made.config.fields]
    assert kinds == ["BOOL", "F32", "I64"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_of_a_data_set_of_single_arrays_is_one_tensor(loader, workers):
    with next(iter(loader(Ones(), num_workers=workers))) as batch:
        assert batch.fields == ()
        numpy.testing.assert_array_equal(batch.numpy(), [image(row) for row in range(SIZE)])
    with next(iter(loader(Numbers(), num_workers=workers))) as batch:
        numpy.testing.assert_array_equal(batch.numpy(), numpy.arange(SIZE) / 2)


def test_every_sample_is_read_in_a_worker_the_first_one_too(loader):
    pids, made = [], loader(Pids(), num_workers=2)
    for _ in range(2):
        pids += numbers(made)
    assert len(pids) == 2 * COUNT and len({*pids}) == 2 and os.getpid() not in pids
    assert {*numbers(loader(Pids(), num_workers=0))} == {os.getpid()}


@pytest.mark.parametrize("start", ["forkserver", "spawn", "fork"])
def test_every_way_to_start_workers_gives_the_same(loader, start):
    made = loader(num_workers=2, worker_start=start, shuffle=True, seed=5)
    assert numbers(made) == numbers(loader(num_workers=0, shuffle=True, seed=5))
    assert repr(made.config.fields[0].sample_shape) == "(3, 5)"


def test_a_config_gives_fields_their_names_and_types(loader):
    fields = [Field("image", (3, 5), "f32"), Field("label", (), "u8")]
    made = loader(
        Pairs(), None, config=wavetrain.Config(samples_per_batch=4, fields=fields), prefetch=3
    )
    with next(iter(made)) as batch:
        assert batch.keys() == ("image", "label") and batch["image"].dtype is wavetrain.Dtype.F32
        numpy.testing.assert_array_equal(batch["image"].numpy(), [image(row) for row in range(4)])
        assert batch["label"].numpy().tolist() == [0, 1, 2, 3]


def test_recipes_of_augmentation_run_over_arrays_as_over_files(loader):
    filters = [
        random_crop(padding=4, crop_size=32),
        horizontal_flip(),
        to_float(),
        normalize(0.5, 0.25),
    ]
    dataset = array_sets.Pictures()
    made = loader(dataset, transforms=filters, shuffle=True, seed=3)
    for batch in itertools.islice(made, 3):
        with batch:
            given = numpy.stack([dataset[tag][0] for tag in batch.info.tags])
            wanted, _ = apply_filters((given, None), filters, made.places, 3)
            numpy.testing.assert_array_equal(batch.field(0).numpy(), wanted)
            assert batch.field(1).numpy().tolist() == [tag % 10 for tag in batch.info.tags]


# ---- Order and chance ---------------------------------------------------------------------------


def drawn(made):
    return [
        tuple(tensor.numpy()[row].tolist() for tensor in batch)
        for batch in made
        for row in range(batch.shape[0])
    ]


def test_draws_are_the_same_for_every_number_of_workers_and_others_in_each_epoch(loader):
    found = []
    for workers in (0, 1, 2, 3):
        made = loader(Drawn(), num_workers=workers, shuffle=True, seed=9)
        found.append((drawn(made), drawn(made)))
    assert found[0] == found[1] == found[2] == found[3]
    first, second = ({row[0]: row[1:] for row in epoch} for epoch in found[0])
    assert len({str(draw) for draw in first.values()}) == COUNT
    firsts, seconds = ({draw[0] for draw in epoch.values()} for epoch in (first, second))
    assert len(firsts) == COUNT and firsts.isdisjoint(seconds)
    other = drawn(loader(Drawn(), shuffle=True, seed=10))
    assert {row[1] for row in other}.isdisjoint(draw[0] for draw in first.values())


def test_draws_of_torch_are_too_though_the_first_sample_imports_it(loader):
    pytest.importorskip("torch", reason="there is no torch here")
    found = []
    for workers in (1, 2):
        with loader(array_sets.DrawnByTorch(20), num_workers=workers, seed=9) as made:
            found.append(drawn(made))
    assert found[0] == found[1] and len({str(row[1:]) for row in found[0]}) == 20


def test_the_generators_of_the_program_go_on_as_if_no_sample_was_read(loader):
    numpy.random.seed(4)
    wanted = numpy.random.rand(3).tolist()
    numpy.random.seed(4)
    assert len(drawn(loader(Drawn(), num_workers=0))) == COUNT
    assert numpy.random.rand(3).tolist() == wanted


def test_a_loader_goes_on_where_another_was_with_another_number_of_workers(loader):
    named = {"shuffle": True, "seed": 2}
    whole = drawn(loader(Drawn(), **named))
    first = loader(Drawn(), num_workers=3, **named)
    batches = iter(first)
    begun = drawn(itertools.islice(batches, 3))
    state = first.state_dict()
    assert state["position"] == 3 * SIZE
    other = loader(Drawn(), batch_size=5, num_workers=1, **named)
    other.load_state_dict(state)
    assert begun + drawn(other) == whole
    assert begun + drawn(batches) == whole  # and the first one does


def test_an_iteration_that_is_left_early_is_followed_by_the_next_epoch(loader):
    made, whole = loader(Drawn(), shuffle=True), loader(Drawn(), shuffle=True)
    assert len(drawn(itertools.islice(made, 2))) == 2 * SIZE
    drawn(whole)
    assert drawn(made) == drawn(whole)


def test_after_an_interrupt_the_next_batch_is_the_one_that_it_ended(loader):
    left = [False, True, True]

    def transform(batch):
        labels = batch.field(1).numpy().tolist()
        if 16 in labels and left.pop():
            raise KeyboardInterrupt
        return labels

    made, found, interrupts = loader(transforms=transform), [], 0
    batches = iter(made)
    while True:
        try:
            found += next(batches)
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts == 2 and found == [*range(COUNT)]


def test_ranks_get_shares_that_are_the_whole_epoch_and_what_pads_is_said(loader):
    found = []
    for rank in range(2):
        for batch in loader(shuffle=True, rank=rank, world=2):
            with batch:
                labels = batch.field(1).numpy().tolist()
                found += labels[: len(labels) - batch.padded]
    assert sorted(found) == [*range(COUNT)]


# ---- Failures -----------------------------------------------------------------------------------

WHY = {
    "raise": r"KeyError: 'no such cell'",
    "stop": "StopIteration, which is not a sample",
    "exit": "SystemExit: 3",
    "kill": "worker process [0-9]+ was killed by signal 9 while it made this sample",
    "leave": "worker process [0-9]+ ended with exit code 5 while it made this sample",
    "shape": "field '0' is 2 x 5 u8, and dataset\\[0\\] has 3 x 5 u8",
    "dtype": "field '0' is 3 x 5 f32, and dataset\\[0\\] has 3 x 5 u8",
    "number": "field '1' is one f64, and dataset\\[0\\] has one i64",
    "fewer": "it has 1 arrays, and dataset\\[0\\] 2",
    "text": "a sample must be made of arrays and numbers \\(got 'a cat'\\)",
}


@pytest.mark.parametrize("why", [*WHY])
def test_a_sample_that_fails_is_an_error_behind_the_batches_before_it(loader, why):
    made, found = loader(Bad({19: why})), []
    with pytest.raises(wavetrain.StorageError, match=WHY[why]) as caught:
        for batch in made:
            with batch:
                found += batch.field(1).numpy().tolist()
    assert "dataset[19] in epoch 0" in str(caught.value)
    assert found == [*range(16)] and made.state_dict()["position"] == 16
    assert len(str(caught.value).splitlines()) == 1
    if why == "raise":
        assert "in __getitem__\n" in str(caught.value.__cause__)
        assert "Traceback" not in str(caught.value)


def test_samples_that_fail_have_a_status_and_the_others_come_out(loader, caplog):
    bad = {3: "raise", 17: "kill", 18: "leave", 25: "hang", 33: "freeze", 40: "shape"}
    settings = config(on_error="skip")
    made = loader(Bad(bad), None, config=settings, worker_timeout_s=2, shuffle=False)
    tags = []
    for batch in made:
        with batch:
            tags += batch.info.tags
            for row, (tag, status) in enumerate(zip(batch.info.tags, batch.info.statuses)):
                assert (status is wavetrain.Status.OK) == (tag not in bad)
                assert (batch["x"].numpy()[row] == (255 if tag in bad else image(tag))).all()
                assert batch["y"].numpy()[row] == (-1 if tag in bad else tag)
    assert tags == [*range(COUNT)]
    for tag, text in ((3, "KeyError: 'no such cell'"), (25, "took more than worker_timeout_s")):
        assert f"dataset[{tag}]" in caplog.text and text in caplog.text


def pids_of(made):
    pool = made._arrays.pool
    until(lambda: pool.poll(0) or all(worker.is_ready for worker in pool.workers))
    return {worker.pid for worker in pool.workers}


def test_a_worker_that_died_is_replaced_and_one_that_raised_goes_on(loader):
    made = loader(Bad({4: "raise", 41: "kill"}), None, config=config(on_error="skip"))
    first, seen = pids_of(made), []
    for _ in range(2):
        assert len(numbers(made)) == COUNT
        seen.append(pids_of(made))
    assert [len(first), len(seen[0]), len(seen[1])] == [2, 2, 2]
    assert len(first & seen[0]) == 1 and len(seen[0] & seen[1]) == 1


def test_rows_of_a_worker_that_dies_while_it_does_nothing_are_read_by_another():
    with_pool = Pool("it", array_sets.Pairs().__getitem__, 1, start="forkserver", timeout_s=60)
    try:
        (row,) = with_pool.ask([Request(1, 0, 0)])
        row.result()
        os.kill(with_pool.workers[0].pid, signal.SIGKILL)
        values = [row.result() for row in with_pool.ask([Request(n, 0, n) for n in range(20)])]
        assert [value[1].value for value in values] == [*range(20)]
    finally:
        with_pool.close()


def test_the_time_in_which_the_program_was_stopped_is_not_a_workers(tmp_path):
    pool = Pool(
        "it", array_sets.Sleepers(tmp_path).__getitem__, 1, start="forkserver", timeout_s=60
    )
    try:
        pool.ask([Request(1, 0, 0)])
        until(lambda: pool.poll(0) or os.listdir(tmp_path))
        pool.poll(0)
        (worker,) = pool.workers
        worker.since, pool.polled = worker.since - 1000, pool.polled - 1000
        pool.poll(0)
        assert pool.workers == [worker]
        worker.since -= 1000
        pool.poll(0)
        assert worker not in pool.workers
    finally:
        pool.close()


def test_a_first_sample_that_fails_is_an_error_without_a_config_and_a_status_with_one(loader):
    with pytest.raises(
        RuntimeError, match=r"dataset\[0\], which gives .* fields, .*: KeyError: .no such cell"
    ):
        loader(Bad({0: "raise"}))
    made = loader(Bad({0: "kill"}), None, config=config(on_error="skip"))
    assert numbers(made) == [-1, *range(1, COUNT)]


def test_after_an_error_the_epoch_goes_on_if_the_sample_is_there_again(loader, tmp_path):
    made, found = loader(Once(tmp_path)), []
    with pytest.raises(wavetrain.StorageError, match="not yet"):
        for batch in made:
            with batch:
                found += batch.info.tags
    made.load_state_dict(made.state_dict())
    assert found + numbers(made) == [*range(COUNT)] and made.epoch == 1


class Once(Pairs):
    """Sample 20 is there from the second time on."""

    def __init__(self, folder):
        super().__init__()
        self.mark = folder / "mark"

    def __getitem__(self, index):
        if index == 20 and not self.mark.exists():
            self.mark.touch()
            raise OSError("not yet")
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("value", "config_fields", "text"),
    [
        ((image(0), numpy.int64(0)), [("a", (3, 5), "f32")], "it has 2 arrays, and the config 1"),
        (image(0), [("a", (5, 3), "u8")], "'a' is 3 x 5 u8, and the config has 5 x 3 u8"),
        (image(0).astype("f4"), [("a", (3, 5), "u8")], "'a' is 3 x 5 f32, and the config has"),
        ({"b": image(0)}, [("a", (3, 5), "u8")], "it has the keys ['b'], and the config ['a']"),
        ({"a": [image(0)] * 2}, [("a", (3, 5), "u8")], "field 'a' must be one array or number"),
        (300, [("a", (), "u8")], "a number must be one of u8 (got 300)"),
    ],
)
def test_a_sample_that_is_not_as_the_config_says_is_an_error_with_both(
    loader, value, config_fields, text
):
    fields = [Field(*each) for each in config_fields]
    settings = wavetrain.Config(samples_per_batch=1, fields=fields)
    with pytest.raises(wavetrain.StorageError) as caught:
        next(iter(loader(Given(value), None, config=settings)))
    assert text in str(caught.value) and "dataset[0] in epoch 0" in str(caught.value)


class Given(Pairs):
    def __init__(self, value, count=1):
        super().__init__(count)
        self.value = value

    def __getitem__(self, index):
        return self.value


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: image(0)}, "a key of a dict must be a str, the name of its field (got 0)"),
        ({(1, 2): image(0)}, "a key of a dict must be a str, the name of its field (got (1, 2))"),
        ({"": image(0)}, "a key of dataset[0] must be 1 or more characters, none of them '/'"),
        ({"a/b": image(0)}, "a key of dataset[0] must be 1 or more characters, none of them '/'"),
        ({"a" * 64: image(0)}, "a key of dataset[0] must have <= 63 bytes (got 64)"),
        (image(0)[:0], "dataset[0]: an array must have elements (got the shape (0, 5))"),
        ((image(0), image(0)[:, :0]), "an array must have elements (got the shape (3, 0))"),
    ],
)
def test_a_first_sample_that_has_no_fields_is_refused_with_the_reason(loader, workers, value, text):
    with pytest.raises((RuntimeError, ValueError)) as caught:
        loader(Given(value), num_workers=workers)
    assert text in str(caught.value) and "dataset[0]" in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_key_that_is_not_text_is_an_error_of_its_sample(loader, workers):
    fields = [Field("a", (3, 5), "u8")]
    settings = wavetrain.Config(samples_per_batch=1, fields=fields)
    with pytest.raises(wavetrain.StorageError, match=r"a key of a dict must be a str.*got 7"):
        next(iter(loader(Given({7: image(0)}), None, config=settings, num_workers=workers)))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_set_without_samples_needs_a_config_and_gives_no_batch(loader, workers):
    fields = [Field("a", (3, 5), "u8")]
    settings = wavetrain.Config(samples_per_batch=1, fields=fields)
    for dataset in (Given(image(0), 0), [], numpy.zeros((0, 3, 5), "u1")):
        with pytest.raises(ValueError, match="config must be given: there is no sample to take"):
            loader(dataset, num_workers=workers)
        assert [*loader(dataset, None, config=settings, num_workers=workers)] == []


def test_a_data_set_that_cannot_be_sent_is_refused_with_the_fix(loader):
    class Local(Pairs):
        pass

    for dataset in (Local(), Given(open(os.devnull))):  # noqa: SIM115
        with pytest.raises(TypeError, match=r"cannot be sent to worker processes.*fork'") as caught:
            loader(dataset)
        assert "at the top of a module" in str(caught.value)
    dataset.value.close()
    with pytest.raises(RuntimeError, match=r"(?s)cannot be used in a worker.*only [0-9]+ has it"):
        loader(array_sets.Unsent())
    assert numbers(loader(Local(), worker_start="fork")) == [*range(COUNT)]


def test_a_fork_comes_before_a_pipeline_is_open_and_is_replaced_behind_it(loader, cube):
    made = loader(
        Bad({9: "kill", 30: "hang"}),
        None,
        config=config(on_error="skip"),
        worker_start="fork",
        worker_timeout_s=2,
    )
    assert [n for n in numbers(made) if n >= 0] == [*{*range(COUNT)} - {9, 30}]
    with pytest.raises(RuntimeError, match="without open pipelines"):
        loader(worker_start="fork")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"worker_start": "thread"}, "worker_start must be one of 'forkserver', 'spawn', 'fork'"),
        ({"worker_timeout_s": 0}, "worker_timeout_s must be above 0"),
        ({"num_workers": -1}, "num_workers must be >= 0"),
        ({"num_workers": 5000}, "num_workers must be <= 1024"),
    ],
)
def test_what_makes_no_workers_is_refused(loader, arguments, text):
    with pytest.raises(ValueError, match=text):
        loader(**arguments)


# ---- Memory -------------------------------------------------------------------------------------


def test_a_block_is_used_again_only_after_its_arrays_are_gone():
    pool = Pool("it", Large().__getitem__, 2, start="forkserver", timeout_s=60)
    try:
        held = [row.result()[0] for row in pool.ask([Request(n, 0, n) for n in range(8)])]
        for first in range(8, 48, 8):
            rows = pool.ask([Request(n, 0, n) for n in range(first, first + 8)])
            assert [{*as_array(row.result()[0])} for row in rows] == [
                {n} for n in range(first, first + 8)
            ]
        assert [{*as_array(each)} for each in held] == [{number} for number in range(8)]
        assert len(pool.blocks) <= 4
    finally:
        pool.close()


def as_array(fed):
    return memoryview(fed.span()).cast("i").tolist()


def test_batches_that_are_kept_stay_as_they_were(loader):
    made = loader(Large(), 4, prefetch=3, shuffle=True)
    for _ in range(3):
        kept = [(batch.field(0).numpy(), batch.info.tags) for batch in itertools.islice(made, 2)]
        for x, tags in kept:
            assert (x == numpy.array(tags)[:, None]).all()
    for batch in made:
        with batch:
            x, y = (each.numpy() for each in batch)
            assert (x == y[:, None]).all()


# ---- Samples, which need no process -------------------------------------------------------------


def test_a_data_set_of_samples_keeps_its_threads(loader, tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")
    monkeypatch.chdir(tmp_path)
    zarr.create_array("cells.zarr", shape=(COUNT,), chunks=(8,), dtype="i4")[:] = range(COUNT)
    for dataset in (Cells(array_sets.cell), [array_sets.cell(n) for n in range(COUNT)]):
        made = loader(dataset, num_workers=2)
        assert made.config.n_decode_threads == 2
        found = [batch.numpy()[:, 0].tolist() for batch in made]
        assert [*itertools.chain(*found)] == [*range(COUNT)]


# ---- Ends ---------------------------------------------------------------------------------------

SLEEPERS = """
import os, signal, sys, threading, wavetrain
from array_sets import Sleepers
folder, start = sys.argv[1:]
with wavetrain.DataLoader(Sleepers(folder), 4, num_workers=2, worker_start=start) as made:
    next(iter(made))
"""


def until(what):
    """Waits for it, for 30 s at most."""
    limit = time.monotonic() + 30
    while not what():
        assert time.monotonic() < limit, "it did not happen in 30 s"
        time.sleep(0.01)


def is_gone(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    # It may be a zombie that the first process of a container does not wait for.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def sleeping(folder, start):
    """A program whose workers are both in a sample that never ends, in a group of its own."""
    path = os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent)])
    program = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", SLEEPERS, str(folder), start],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(os.listdir(folder)) == 2 or program.poll() is not None)
    return program, os.listdir(folder)


@pytest.mark.parametrize("start", ["forkserver", "spawn", "fork"])
def test_workers_are_gone_with_a_program_that_is_killed(tmp_path, start):
    program, pids = sleeping(tmp_path, start)
    assert len(pids) == 2 and not any(is_gone(pid) for pid in pids)
    program.kill()
    assert program.wait(30) == -signal.SIGKILL
    until(lambda: all(is_gone(pid) for pid in pids))
    program.stderr.close()


@pytest.mark.parametrize("start", ["forkserver", "spawn", "fork"])
def test_ctrl_c_ends_all_and_only_the_program_says_so(tmp_path, start):
    program, pids = sleeping(tmp_path, start)
    os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=30)
    assert program.returncode == -signal.SIGINT, said
    assert said.count("Traceback") == 1 and said.splitlines()[-1] == "KeyboardInterrupt"
    until(lambda: all(is_gone(pid) for pid in pids))


def test_a_program_that_closes_nothing_ends_its_workers():
    program = """
    import wavetrain
    from array_sets import Pairs
    made = wavetrain.DataLoader(Pairs(), 8, num_workers=2)
    batches = iter(made)
    held = next(batches)
    print(*[worker.pid for worker in made._arrays.pool.workers])
    """
    done = run_program(program)
    assert done.stderr == ""
    until(lambda: all(is_gone(pid) for pid in done.stdout.split()))


def test_a_fork_of_the_program_has_no_workers_and_ends_none():
    program = """
    import os, sys, warnings, wavetrain
    from array_sets import Pairs
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
    made = wavetrain.DataLoader(Pairs(), 8, num_workers=2)
    batches = iter(made)
    next(batches).release()
    child = os.fork()
    if child == 0:
        try:
            next(batches)
        except wavetrain.ShutdownError as error:
            print("fork" in str(error), flush=True)
        made.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(sum(len(batch["1"].numpy()) for batch in batches))
    made.close()
    """
    assert run_program(program).stdout == "True\n42\n"


def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import wavetrain
        class Pairs:
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return index, index
        wavetrain.DataLoader(Pairs(), 2, num_workers=1)
        """)
    )
    path = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, script], env=path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and '`if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def test_a_loader_that_is_closed_or_dropped_ends_its_workers(loader):
    made = DataLoader(Large(), SIZE, num_workers=2)
    with next(iter(made)) as batch:
        x = batch.field(0).numpy()
    pids = pids_of(made)
    assert len(pids) == 2
    made.close()
    made.close()
    assert all(is_gone(pid) for pid in pids) and (x == numpy.arange(8)[:, None]).all()
    with pytest.raises(wavetrain.ShutdownError):
        next(iter(made))
    made = DataLoader(Pairs(), SIZE, num_workers=2)
    pids = pids_of(made)
    del made
    gc.collect()
    assert all(is_gone(pid) for pid in pids)


def test_a_loader_is_sent_without_its_workers(loader):
    made = loader(Drawn(), shuffle=True)
    drawn(itertools.islice(made, 2))
    with pickle.loads(pickle.dumps(made)) as other:
        assert drawn(other) == drawn(loaded(loader(Drawn(), shuffle=True), made.state_dict()))


def loaded(made, state):
    made.load_state_dict(state)
    return made


# ---- Sources ------------------------------------------------------------------------------------


def of_source(**changes):
    fields = [
        Field("image", (500, 9), "i32", pad_value=-1),
        Field("label", (), "i64", pad_value=-1),
    ]
    return wavetrain.Config(samples_per_batch=4, fields=fields, **changes)


@pytest.fixture
def source():
    opened = []

    def make(what, taken=None, **named):
        opened.append(Source(what, taken or of_source(), **named))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.mark.parametrize("named", [{"workers": "process", "parallel": 2}, {"workers": 3}])
def test_worker_processes_call_a_source_as_threads_do(source, named):
    kinds = [(array_sets.four, {"batch": False}), (array_sets.batch_of_four, {})]
    for call, more in kinds:
        found = []
        for batches in (source(call, cycle="raise", **more, **named), source(call, **more)):
            found.append([(b["image"].numpy().copy(), b["image"].filled_shape) for b in batches])
        assert len(found[0]) == len(found[1]) == 3
        for ours, theirs in zip(*found):
            numpy.testing.assert_array_equal(ours[0], theirs[0])
            numpy.testing.assert_array_equal(ours[1], theirs[1])


def test_a_source_in_processes_goes_on_where_another_was(source):
    named = {"batch": False, "cycle": "quiet"}
    first = source(array_sets.four, workers=2, **named)
    assert numbers(first, 5) == [*range(10), 0, 1, 2, 3, 4, 5, 6, 7]
    other = source(array_sets.four, workers=1, **named)
    other.load_state_dict(first.state_dict())
    assert numbers(other, 2) == [8, 9, 0, 1, 2, 3]


def test_calls_of_a_source_that_fail_cost_their_samples(source):
    named = {"batch": False, "workers": 2}
    batches = source(array_sets.bad_four, of_source(on_error="skip"), **named)
    assert numbers(batches) == [0, 1, -1, 3, 4, -1, 6, 7, 8, 9]
    batches = source(array_sets.bad_four, **named)
    with pytest.raises(wavetrain.StorageError, match=r"sample 2 in epoch 0.*ValueError: the third"):
        next(batches)
    batches = source(array_sets.bad_batch, of_source(on_error="skip"), workers=1)
    assert numbers(batches) == [0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11]


def test_what_several_processes_cannot_be_asked_is_refused(source):
    for what in ([1, 2], lambda: 5, None, iter([1])):
        with pytest.raises(ValueError, match="workers must be None: only a callable that takes an"):
            source(what, workers=2)
    with pytest.raises(TypeError, match="source cannot be sent to worker processes"):
        source(lambda info: info, workers="process")
    with pytest.raises(ValueError, match="workers and parallel are both given"):
        source(array_sets.four, workers=2, parallel=3)
    with pytest.raises(ValueError, match="workers must be 'process', 'thread' or a number"):
        source(array_sets.four, workers="processes")


def test_the_last_message_of_a_worker_that_left_a_task_unread_is_heard():
    ours, theirs = pair()
    put(theirs, Failed("why it failed"))
    put(ours, "a task")
    theirs.close()
    lost = []
    pool = types.SimpleNamespace(what="it", failure=None, lose=lambda *given: lost.append(given))
    worker = types.SimpleNamespace(sock=ours, pid=1)
    with ours:
        for _ in range(2):
            Pool.hear(pool, worker)
        assert "why it failed" in pool.failure[1] and not lost
        Pool.hear(pool, worker)
        assert lost


class Interrupted(Pairs):
    """A data set in which Ctrl-C is heard at its sixth sample."""

    def __getitem__(self, index):
        if index == 5:
            raise KeyboardInterrupt
        return super().__getitem__(index)


def test_ctrl_c_in_a_data_set_that_this_process_reads_is_no_sample():
    with DataLoader(Interrupted(), 4, num_workers=0) as loader, pytest.raises(KeyboardInterrupt):
        for batch in loader:
            batch.release()
