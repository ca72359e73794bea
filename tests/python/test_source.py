"""Batches of callbacks, iterables and what is fed: what they give, in its order, to its end."""

from __future__ import annotations

import concurrent.futures
import itertools
import runpy
import threading

import numpy
import pytest
from cubes import ROOT, config

import wavetrain
from wavetrain import Field
from wavetrain.source import BatchInfo, SampleInfo, Source

IMAGE, LABEL = Field("image", (8, 9), "i32", pad_value=-1), Field("label", (), "i64")
SIZE = 4


def table(*fields, **changes):
    fields = fields or (IMAGE, LABEL)
    return config(samples_per_batch=SIZE, sample_shape=(), fields=fields, **changes)


def image(number: int) -> numpy.ndarray:
    shape = (3 + number % 5, 4 + number % 4)
    return (numpy.arange(shape[0] * shape[1], dtype="i4") + 1000 * number).reshape(shape)


@pytest.fixture
def source():
    """source(what, config, **named): closed when the test is over."""
    opened = []

    def make(what, taken=None, **named):
        opened.append(Source(what, taken or table(), **named))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def check(batch, numbers):
    """A batch that is made of these images and labels."""
    images, labels, reach = (batch[name] for name in ("image", "label", "image"))
    assert labels.numpy().tolist() == numbers
    for row, cover, number in zip(images.numpy(), reach.filled_shape, numbers):
        wanted = numpy.full(IMAGE.sample_shape, -1, "i4")
        given = image(number)
        wanted[: given.shape[0], : given.shape[1]] = given
        numpy.testing.assert_array_equal(row, wanted)
        assert tuple(cover) == given.shape


def labels(batches, count=10**9):
    """Of the batches that come, a list for each."""
    found = []
    for batch in itertools.islice(batches, count):
        with batch:
            tensor = batch["label"] if batch.fields else batch
            found.append(tensor.numpy().tolist())
    return found


def cut(*numbers):
    every = [*range(*numbers)]
    return [every[at : at + SIZE] for at in range(0, len(every), SIZE)]


def sample_of(count):
    def one(info):
        assert type(info) is SampleInfo
        assert info.idx_in_epoch == info.iteration * SIZE + info.idx_in_batch
        if info.idx_in_epoch >= count:
            raise StopIteration
        return image(info.idx_in_epoch), info.idx_in_epoch

    return one


# ---- What gives it ------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [0, 1, 3])
def test_a_callback_is_asked_for_samples(parallel, source):
    batches = source(sample_of(10), batch=False, parallel=parallel, prefetch=2)
    for numbers in cut(10):
        with next(batches) as batch:
            check(batch, numbers)
            assert batch.info.tags == tuple(numbers)
    assert labels(batches) == [] == labels(batches)


def batch_of(count):
    def some(info):
        iteration = getattr(info, "iteration", info)
        if iteration * SIZE >= count:
            raise StopIteration
        numbers = range(iteration * SIZE, min(count, (iteration + 1) * SIZE))
        return [image(number) for number in numbers], numpy.array(numbers)

    return some


@pytest.mark.parametrize("parallel", [0, 3])
@pytest.mark.parametrize("batch_info", [False, True])
def test_a_callback_is_asked_for_batches(parallel, batch_info, source):
    asked = []

    def some(info):
        asked.append(info)
        return batch_of(10)(info)

    batches = source(some, batch_info=batch_info, parallel=parallel)
    for numbers in cut(10):
        with next(batches) as batch:
            check(batch, numbers)
    assert labels(batches) == []
    first = BatchInfo(0, 0) if batch_info else 0
    assert first in asked and {type(each) for each in asked} == {type(first)}


class Iterable:
    def __iter__(self):
        for iteration in range(3):
            yield batch_of(10)(iteration)


def generator():
    yield from Iterable()


def samples():
    return ((image(number), number) for number in range(10))


def stateful():
    rest = iter(Iterable())
    return lambda: next(rest)


@pytest.mark.parametrize("parallel", [0, 3])
@pytest.mark.parametrize(
    ("make", "batch"),
    [
        *((Iterable, True), (lambda: generator, True), (generator, True), (stateful, True)),
        *((samples, False), (lambda: [*samples()], False), (lambda: samples().__next__, False)),
    ],
)
def test_what_has_a_state_is_asked_in_order(make, batch, parallel, source):
    batches = source(make(), batch=batch, parallel=parallel, prefetch=3)
    for numbers in cut(10):
        with next(batches) as each:
            check(each, numbers)
    assert labels(batches) == []


def test_a_batch_may_be_an_array_a_list_a_tensor_or_a_dict(source):
    torch = pytest.importorskip("torch", reason="there is no torch here")
    data = numpy.arange(4 * 72, dtype="i4").reshape(4, 8, 9)
    given = [
        (data[::-1], [0, 1, 2, 3]),
        {"label": numpy.arange(4), "image": [*data]},
        {"label": numpy.arange(4)[::-1]},
        (torch.from_numpy(data), torch.arange(4)),
        (data[:2], [5, 6]),
    ]
    found = [
        (batch["image"].numpy().copy(), batch["label"].numpy().tolist()) for batch in source(given)
    ]
    numpy.testing.assert_array_equal(found[0][0], data[::-1])
    numpy.testing.assert_array_equal(found[1][0], data)
    assert (found[2][0] == -1).all() and found[2][1] == [3, 2, 1, 0]
    numpy.testing.assert_array_equal(found[3][0], data)
    numpy.testing.assert_array_equal(found[4][0], data[:2])
    assert [labels for _, labels in found[3:]] == [[0, 1, 2, 3], [5, 6]]


def test_one_field_or_none_takes_bare_values(source):
    for taken in (table(LABEL), config(samples_per_batch=SIZE, sample_shape=(2,), dtype="i64")):
        rank = len(taken.sample_shape)
        given = numpy.arange(SIZE * 2).reshape(SIZE, 2)[(..., 0)[: 2 - rank]]
        batches = source([given, [*given]], taken)
        assert labels(batches) == [given.tolist()] * 2


# ---- Order --------------------------------------------------------------------------------------


def test_results_are_in_order_whatever_the_order_of_the_threads(source):
    """Each call waits until the one behind it in its batch is done."""
    over = [threading.Event() for _ in range(3 * SIZE)]
    done = []

    def one(info):
        number = info.idx_in_epoch
        if number >= len(over):
            raise StopIteration
        if info.idx_in_batch < SIZE - 1:
            assert over[number + 1].wait(20)
        done.append(number)
        over[number].set()
        return image(number), number

    batches = source(one, batch=False, parallel=SIZE, prefetch=1)
    for numbers in cut(3 * SIZE):
        with next(batches) as batch:
            check(batch, numbers)
    assert sorted(done) == [*range(3 * SIZE)]
    assert [number for number in done if number < SIZE] == [*range(SIZE)][::-1]


def test_threads_of_the_program_make_the_calls(source):
    with concurrent.futures.ThreadPoolExecutor(2, "ours") as pool:
        names = set()

        def one(info):
            names.add(threading.current_thread().name.split("_")[0])
            return sample_of(6)(info)

        batches = source(one, batch=False, parallel=pool)
        assert labels(batches) == cut(6) and names == {"ours"}
        batches.close()
        assert pool.submit(lambda: 5).result() == 5
        with pytest.raises(ValueError, match="parallel must be a number"):
            Source(Iterable(), table(), parallel=pool)


@pytest.mark.parametrize("name", ["prefetch", "prefetch_queue_depth"])
def test_prefetch_says_how_many_batches_are_asked_for_ahead(name, source):
    asked, is_ahead = [], threading.Event()

    def some(iteration):
        asked.append(iteration)
        if iteration == 1:
            is_ahead.set()
        return batch_of(100)(iteration)

    batches = source(some, parallel=1, **{name: 3})
    next(batches).release()
    # Nothing else has to be taken for it.
    assert is_ahead.wait(60)
    batches.close()
    # One came out, another is in the pipeline, and no more than 4 are asked for at a time.
    assert max(asked) <= 5


# ---- The end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [0, 2])
@pytest.mark.parametrize("make", [Iterable, lambda: generator, lambda: batch_of(10)])
def test_cycles(make, parallel, source):
    epoch = cut(10)
    batches = source(make(), cycle="raise", parallel=parallel)
    for _ in range(3):
        assert labels(batches) == epoch
    for cycle in ("quiet", True):
        assert labels(source(make(), cycle=cycle, parallel=parallel), 8) == (epoch * 3)[:8]
    for cycle in ("no", None, False):
        batches = source(make(), cycle=cycle, parallel=parallel)
        assert labels(batches) == epoch and labels(batches) == []
        batches.reset()
        assert labels(batches) == epoch


def test_a_callback_is_told_the_epoch(source):
    epochs = []

    def one(info):
        if info.idx_in_epoch < 6:
            epochs.append(info.epoch_idx)
        return sample_of(6)(info)

    assert len(labels(source(one, batch=False, cycle="quiet"), 6)) == 6
    assert epochs[: 3 * 6] == [0] * 6 + [1] * 6 + [2] * 6


def test_a_cycle_of_nothing_ends(source):
    for cycle in ("quiet", "raise", "no"):
        assert labels(source([], cycle=cycle)) == []
    short = [batch_of(2)(0)]
    assert labels(source(short, table(IMAGE, LABEL, drop_last=True), cycle="quiet")) == []


def test_a_last_batch_that_is_not_full_may_be_dropped(source):
    taken = table(IMAGE, LABEL, drop_last=True)
    assert labels(source(sample_of(10), taken, batch=False)) == cut(8)
    assert labels(source(Iterable(), taken, cycle="quiet"), 5) == (cut(8) * 3)[:5]


def test_an_error_comes_behind_the_batches_before_it(source):
    for parallel in (0, 2):

        def some(iteration):
            if iteration == 3:
                raise KeyError("three")
            return batch_of(100)(iteration)

        batches, seen = source(some, parallel=parallel), []
        with pytest.raises(KeyError, match="three"):
            for batch in batches:
                seen.append(batch["label"].numpy().tolist())
        assert seen == cut(12)
        with pytest.raises(KeyError, match="three"):
            next(batches)
        batches.reset()
        assert labels(batches, 2) == cut(8)


# ---- Resumed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cycle", ["raise", "quiet"])
@pytest.mark.parametrize("parallel", [0, 3])
@pytest.mark.parametrize(
    ("make", "batch"),
    [
        *((Iterable, True), (lambda: generator, True), (lambda: batch_of(10), True)),
        *((lambda: [*samples()], False), (lambda: sample_of(10), False)),
    ],
)
def test_a_source_goes_on_where_another_was(make, batch, parallel, cycle, source):
    named = {"batch": batch, "parallel": parallel, "cycle": cycle}
    wanted = (cut(10) * 4)[:8]

    def run(batches, count):
        found = []
        while len(found) < count:
            found += labels(batches, count - len(found))
        return found

    for count in range(8):
        first = source(make(), **named)
        assert run(first, count) == wanted[:count]
        state = first.state_dict()
        assert set(state) == {"epoch", "iteration", "samples"}
        first.close()
        other = source(make(), **named)
        other.load_state_dict(state)
        assert other.state_dict() == state and run(other, 8 - count) == wanted[count:]


def test_what_has_no_place_is_refused(source):
    for what in (stateful(), None):
        batches = source(what)
        with pytest.raises(TypeError, match="no place to go to"):
            batches.load_state_dict(batches.state_dict())
    with pytest.raises(ValueError, match="iteration must be >= 0"):
        source(Iterable()).load_state_dict({"epoch": 0, "iteration": -1, "samples": 0})


# ---- Fed ----------------------------------------------------------------------------------------


def test_what_is_fed_comes_out(source):
    batches = source(None, blocking=False)
    with pytest.raises(wavetrain.TryAgain, match="not there yet: nothing was fed"):
        next(batches)
    for iteration in range(3):
        batches.feed(batch_of(10)(iteration))
    batches.end()
    assert labels(batches) == cut(10)
    batches.reset()
    batches.feed(batch_of(10)(1))
    assert labels(batches, 1) == [[4, 5, 6, 7]]
    with pytest.raises(wavetrain.TryAgain):
        next(batches)
    with pytest.raises(TypeError, match="feed and end are for a Source without a source"):
        source(Iterable()).feed([])


def test_a_wait_for_what_is_fed_ends_when_it_is(source):
    batches = source(None)
    thread = threading.Thread(target=lambda: (batches.feed(batch_of(10)(0)), batches.end()))
    timer = threading.Timer(0.2, thread.start)
    timer.start()
    assert labels(batches) == [[0, 1, 2, 3]]
    timer.join()
    thread.join()
    starved = source(None, table(pop_timeout_s=0.01))
    with pytest.raises(wavetrain.PoolStarved, match="nothing was fed within"):
        next(starved)
    starved.feed(batch_of(10)(0))
    assert labels(starved, 1) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("blocking", [True, False])
def test_the_last_batch_may_be_repeated(blocking, source):
    batches = source(None, table(pop_timeout_s=0.01), repeat_last=True, blocking=blocking)
    with pytest.raises(wavetrain.PoolStarved if blocking else wavetrain.TryAgain):
        next(batches)
    for iteration, times in ((0, 3), (1, 1), (0, 2)):
        batches.feed(batch_of(10)(iteration))
        assert labels(batches, times) == [cut(8)[iteration]] * times
    batches.end()
    assert labels(batches) == []


def test_nobody_waits_for_threads_where_blocking_is_false(source):
    go_on = threading.Event()

    def one(info):
        assert go_on.wait(20)
        return sample_of(4)(info)

    batches = source(one, batch=False, parallel=2, blocking=False)
    with pytest.raises(wavetrain.TryAgain, match="not there yet"):
        next(batches)
    go_on.set()
    found = []
    while not found:
        try:
            found = labels(batches, 1)
        except wavetrain.TryAgain:
            threading.Event().wait(0.01)
    assert found == cut(4)


# ---- Words of DALI ------------------------------------------------------------------------------


def test_the_only_field_is_fed_by_its_name(source):
    batches = source(None, config(fields=[Field("label", dtype="i32")], sample_shape=()))
    batches.feed_input("label", [1, 2, 3, 4])
    with next(batches) as batch:
        numpy.testing.assert_array_equal(batch.numpy(), [1, 2, 3, 4])
    for named, text in (
        ({"layout": "HWC"}, r"give Source\(None, config, layout=\.\.\)"),
        ({"cuda_stream": 5}, "leave it out"),
        ({"use_copy_kernel": True}, "feed_input has no use_copy_kernel: wavetrain chooses how"),
    ):
        with pytest.raises(ValueError, match=text):
            batches.feed_input("label", [1, 2, 3, 4], **named)
    with pytest.raises(ValueError, match=r"Config\.fields has 'label': call feed.*got 'image'"):
        batches.feed_input("image", [1])
    with pytest.raises(AttributeError, match=r"a Source has no run: give next\(source\)"):
        _ = batches.run
    several = source(None, config(fields=[Field("a"), Field("b")], sample_shape=()))
    with pytest.raises(ValueError, match=r"Config\.fields has 'a', 'b': call feed"):
        several.feed_input("a", [1])


def test_parallel_may_be_true_for_all_cpus(source):
    threads = set()

    def one(info):
        threads.add(threading.current_thread())
        return sample_of(8)(info)

    for parallel in (True, False):
        threads.clear()
        assert labels(source(one, batch=False, parallel=parallel)) == cut(8)
        is_here = threading.current_thread() in threads
        assert is_here is not parallel


def test_no_copy_is_copy_with_the_other_sign(source):
    shared = numpy.zeros((4, 100), "f4")
    fields = config(fields=[Field("a", (100,))], sample_shape=())
    asked = []

    def same_array(iteration):
        if iteration == 2:
            raise StopIteration
        asked.append(iteration)
        shared[:] = iteration
        return shared

    with source(same_array, fields, no_copy=False) as batches:
        for iteration, batch in enumerate(batches):
            with batch:
                assert (batch.numpy() == iteration).all()
    assert asked == [0, 1]


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"copy": True, "no_copy": False}, "copy and no_copy are both given: give copy"),
        ({"no_copy": 1}, "no_copy must be True or False"),
        ({"prefetch": 1, "prefetch_queue_depth": 1}, "prefetch and prefetch_queue_depth are both"),
        ({"prefetch_queue_depth": 0}, "prefetch_queue_depth must be >= 1"),
    ],
)
def test_words_that_do_not_go_together_are_refused(source, named, text):
    with pytest.raises((TypeError, ValueError), match=text):
        source(sample_of(8), batch=False, **named)


@pytest.mark.parametrize("state", [{}, 5, {"epoch": 0, "iteration": 0}])
def test_what_is_no_state_is_refused_with_what_has_one(source, state):
    with pytest.raises(TypeError, match=r"state must be what state_dict\(\) of a Source gave"):
        source(sample_of(8), batch=False).load_state_dict(state)


def test_the_example_runs_as_it_stands(capsys):
    runpy.run_path(str(ROOT / "examples" / "external_source.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines and all("images of" in line for line in lines)
