"""Shared slots: one process loads, others take its batches, and each may end at any moment."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy
import pytest
from cubes import ROOT, config, run_program

import wavetrain
from wavetrain import Box, Field, Sample
from wavetrain.augment import horizontal_flip
from wavetrain.epoch import ChunkShuffle

PATH = os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent)])
SHAPE = (4, 6)
ROWS = numpy.arange(200 * 24, dtype="i4").reshape(200, *SHAPE)


def settings(**changes):
    plain = {"sample_shape": SHAPE, "dtype": "i32", "max_boxes_per_sample": 1}
    return config(**{**plain, **changes})


def rows(*numbers):
    return [Sample(boxes=[Box(array=ROWS[number])], tag=number) for number in range(*numbers)]


@pytest.fixture
def name(request):
    return f"test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"


@pytest.fixture
def serve(name):
    """serve(consumers, .., fields of the config): closed when the test is over."""
    with contextlib.ExitStack() as opened:

        def make(consumers, *, order="round", owner=False, on_lost="fail", limit=60.0, **changes):
            of = {"order": order, "owner": owner, "on_lost": on_lost, "attach_timeout_s": limit}
            return opened.enter_context(wavetrain.serve(settings(**changes), name, consumers, **of))

        yield make


@pytest.fixture
def attach(name):
    """attach(number): closed when the test is over."""
    with contextlib.ExitStack() as opened:

        def make(number, **changes):
            return opened.enter_context(wavetrain.attach(name, number, **changes))

        yield make


def tags(batch):
    """The tags of a batch, whose samples are checked; it is given back."""
    with batch:
        found = batch.info.tags
        numpy.testing.assert_array_equal(batch.numpy(), ROWS[[*found]])
    return found


def taken(consumer):
    """The tags that are left of an epoch."""
    return [tag for batch in consumer for tag in tags(batch)]


def take_into(results, name, number):
    """The work of a process that multiprocessing starts."""
    with wavetrain.attach(name, number) as consumer:
        results.put((number, [taken(consumer) for _ in range(2)]))


UNRELATED = """
import sys, wavetrain
from test_node import taken
with wavetrain.attach(sys.argv[1], int(sys.argv[2])) as consumer:
    print([taken(consumer) for _ in range(2)])
"""


def started(program, *arguments):
    """A process that is not a child of multiprocessing."""
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program)]
        + [str(argument) for argument in arguments],
        env={**os.environ, "PYTHONPATH": PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# ---- Epochs, orders, batches --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_spawned_and_unrelated_processes_get_each_its_batches_of_two_epochs(serve, name):
    owner, results = serve(3), multiprocessing.get_context("spawn").SimpleQueue()
    processes = [
        multiprocessing.get_context(kind).Process(target=take_into, args=(results, name, number))
        for number, kind in enumerate(("fork", "spawn"))
    ]
    for process in processes:
        process.start()
    other = started(UNRELATED, name, 2)
    for _ in range(2):
        owner.push(rows(36))
        owner.wait()
    batches = [[*range(first, first + 4)] for first in range(0, 36, 4)]
    each = [[tag for batch in batches[number::3] for tag in batch] for number in range(3)]
    found = dict(results.get() for _ in processes)
    assert found == {0: [each[0]] * 2, 1: [each[1]] * 2}
    assert other.communicate(timeout=30)[0] == f"{[each[2]] * 2}\n" and other.returncode == 0
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert owner.stats().batches_emitted == 18 and owner.stats().batches_lost == 0


def test_whoever_pops_first_gets_the_next_batch(serve, attach):
    owner = serve(2, order="first")
    busy, idle = attach(0), attach(1)
    owner.push(rows(40))
    first = tags(idle.pop())
    rest = taken_by_both(owner, idle, busy)
    assert sorted([*first, *rest]) == [*range(40)]


def taken_by_both(owner, idle, busy):
    """One takes all batches but those of the other, which pops once the epoch is over."""
    owner.flush()
    found = []
    thread = threading.Thread(target=lambda: found.extend(taken(idle)))
    thread.start()
    wait = time.monotonic() + 30
    while len(found) < 28 and thread.is_alive() and time.monotonic() < wait:
        time.sleep(0.01)
    found_by_busy = taken(busy)
    thread.join(30)
    return found + found_by_busy


@pytest.mark.parametrize("order", ["round", "first", "all"])
def test_arrays_that_outlive_the_close_of_a_consumer_keep_their_memory(serve, attach, name, order):
    owner = serve(2, order=order, on_lost="skip", n_batch_slots=3)
    stays, leaves = attach(0), attach(1)
    owner.push(rows(200))
    owner.flush()
    batch = leaves.pop()
    found, array = batch.info.tags, batch.numpy()
    batch.release()
    leaves.close()
    with pytest.raises(wavetrain.InvalidArgument, match="has closed and keeps batches"):
        wavetrain.attach(name, 1)
    # Each batch of the slots that are left is another one.
    others = taken(stays)
    numpy.testing.assert_array_equal(array, ROWS[[*found]])
    lost = owner.stats().batches_lost
    assert len(others) == {"round": 100, "first": 196, "all": 200}[order]
    assert lost == 0 if order == "first" else 0 < lost < 50
    del array
    deadline = time.monotonic() + 10
    while True:
        wavetrain._pipeline.Loader.sweep()
        try:
            attach(1)
            break
        except wavetrain.InvalidArgument:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert owner.stats().batches_lost == lost


FORKS = """
import os, sys, time, wavetrain
from test_node import settings
owner = wavetrain.serve(settings(), sys.argv[1], 1)
child = os.fork()
if not child:
    time.sleep(60)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_name_that_a_child_of_a_dead_owner_keeps_is_refused_with_the_reason(serve, name):
    owner = started(FORKS, name)
    child = int(owner.stdout.readline())
    owner.wait()
    with pytest.raises(wavetrain.InvalidArgument, match=f"a child that process {owner.pid} forked"):
        serve(1)
    os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while True:
        try:
            assert serve(1).stats().consumers_missing == 1
            break
        except wavetrain.InvalidArgument:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    owner.stdout.close()
    owner.stdin.close()


def test_each_batch_is_for_all_and_none_may_write_to_it(serve, attach):
    owner = serve(3, order="all", n_batch_slots=4)
    consumers = [attach(number) for number in range(3)]
    owner.push(rows(24))
    owner.flush()
    for first in range(0, 24, 4):
        batches = [consumer.pop() for consumer in consumers]
        arrays = [batch.numpy() for batch in batches]
        assert len({array.ctypes.data for array in arrays}) == 3  # of three mappings
        for array in arrays:
            numpy.testing.assert_array_equal(array, ROWS[first : first + 4])
            assert not array.flags.writeable
            with pytest.raises(ValueError):
                array.setflags(write=True)
        assert batches[0].buffer().readonly and not numpy.asarray(batches[1]).flags.writeable
        del array, arrays
        for batch in batches:
            batch.release()
    assert [taken(consumer) for consumer in consumers] == [[], [], []]


def test_a_consumer_of_dlpack_that_cannot_be_told_read_only_gets_no_batch_of_all(serve, attach):
    owner = serve(1, order="all")
    consumer = attach(0)
    owner.push(rows(4))
    with consumer.pop() as batch:
        with pytest.raises(BufferError, match=r"batch\.numpy\(\)\.copy\(\)"):
            batch.__dlpack__()
        assert batch.numpy().copy().flags.writeable
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
            assert not numpy.from_dlpack(batch).flags.writeable


def test_batches_of_one_consumer_each_may_be_written_to(serve, attach):
    owner = serve(1)
    consumer = attach(0)
    owner.push(rows(4))
    with consumer.pop() as batch:
        batch.numpy()[...] = 7
        assert (batch.numpy() == 7).all() and batch.__dlpack__() is not None


def test_an_owner_that_takes_batches_is_consumer_0(serve, attach):
    owner = serve(2, owner=True)
    other = attach(1)
    for _ in range(2):
        owner.push(rows(40))
        owner.flush()
        for first in range(0, 40, 8):
            assert tags(owner.pop()) == (*range(first, first + 4),)
            assert tags(other.pop()) == (*range(first + 4, first + 8),)
        with pytest.raises(wavetrain.EndOfStream):
            owner.pop()
        assert taken(other) == []
    with pytest.raises(TypeError, match="batches"):
        owner.wait()


def test_a_thread_pushes_while_the_owner_does_nothing(serve, attach):
    owner = serve(1, lookahead_samples=4)
    consumer = attach(0)
    owner.push(number for number in rows(40))
    owner.flush()
    assert taken(consumer) == [*range(40)]


def test_what_is_wrong_with_an_iterable_is_raised_by_the_owner_behind_what_it_gave(serve, attach):
    def samples():
        yield from rows(130)
        raise LookupError("no more")

    owner = serve(1, lookahead_samples=4)
    consumer = attach(0)
    owner.push(samples())
    found = [tag for _ in range(32) for tag in tags(consumer.pop())]
    assert found == [*range(128)]
    with pytest.raises(LookupError, match="no more"):
        owner.wait()
    owner.push(rows(4))
    owner.flush()
    found = taken(consumer)
    if found == [128, 129]:  # the end of what the iterable gave was there before the rows
        found += taken(consumer)
    assert found == [128, 129, 0, 1, 2, 3]


def test_fields_have_their_names_types_and_shapes_in_consumers(name):
    fields = [Field("x", SHAPE, dtype="f32"), Field("y", dtype="i64")]
    given = config(sample_shape=(), fields=fields)
    with wavetrain.serve(given, name, 1) as owner, wavetrain.attach(name, 0) as consumer:
        x, half = numpy.full(SHAPE, 0.5, "f4"), [*range(8)]
        owner.push([Sample(boxes=[Box(array=x), Box(array=y, field="y")]) for y in half])
        owner.flush()
        for number, batch in enumerate(consumer):
            with batch:
                assert batch.keys() == ("x", "y") and len(batch) == 2
                x, _ = batch
                assert x.shape == (4, *SHAPE) and x.dtype is wavetrain.Dtype.F32
                assert (x.numpy() == 0.5).all()
                assert batch["y"].numpy().tolist() == [*range(4 * number, 4 * number + 4)]
                assert repr(batch).startswith(f"<Batch {number}: x 4 x 4 x 6 f32, y 4 i64")
        assert number == 1


def test_the_end_is_for_each_thread_that_waits_in_pop(serve, attach):
    owner, consumer = serve(1), attach(0)
    check, looks, found = consumer._check_open, [], []

    def look():
        check()
        looks.append(threading.get_ident())

    def take():
        with pytest.raises(wavetrain.EndOfStream):
            consumer.pop()
        found.append("end")

    consumer._check_open = look
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while any(looks.count(thread.ident) < 3 for thread in threads):  # in its second wait
        assert time.monotonic() < deadline
        time.sleep(0.01)
    owner.flush()
    for thread in threads:
        thread.join(10)
    assert found == ["end"] * 4
    owner.push(rows(8))
    owner.flush()
    assert taken(consumer) == [*range(8)]


def test_a_pop_gets_an_end_that_another_thread_takes_between_two_of_its_waits(serve, attach):
    owner, consumer = serve(1), attach(0, pop_timeout_s=5)
    check, looks = consumer._check_open, []

    def look():
        check()
        looks.append("look")
        if len(looks) == 3:  # before the second wait
            owner.flush()
            with pytest.raises(wavetrain.EndOfStream):
                consumer.pop()

    consumer._check_open = look
    with pytest.raises(wavetrain.EndOfStream):
        consumer.pop()
    owner.push(rows(4))
    assert tags(consumer.pop()) == (0, 1, 2, 3)


def test_a_reset_is_an_error_in_its_place_and_the_next_pop_gives_what_follows(serve, attach):
    owner = serve(2)
    consumers = [attach(number) for number in range(2)]
    owner.push(rows(16))
    owner.flush()
    assert tags(consumers[0].pop()) == (0, 1, 2, 3)
    held = consumers[1].pop()
    owner.reset()
    owner.push(rows(30, 38))
    owner.flush()
    for consumer in consumers:
        with pytest.raises(wavetrain.StreamReset) as caught:
            consumer.pop()
        assert caught.value.status is wavetrain.Status.RESET == 4
    with consumers[0].pop() as batch:
        assert batch.info.tags == (30, 31, 32, 33) and batch.batch_id == 0
    assert tags(held) == (4, 5, 6, 7)
    assert [taken(consumer) for consumer in consumers] == [[], [34, 35, 36, 37]]


def test_an_error_of_the_stream_is_that_of_all_until_a_reset(serve, attach):
    owner = serve(2)
    consumers = [attach(number) for number in range(2)]
    owner.push([*rows(4), Sample("/nowhere.zarr", [(0, 4), (0, 6)], tag=9), *rows(4, 11)])
    assert tags(consumers[0].pop()) == (0, 1, 2, 3)
    for consumer in consumers:
        for _ in range(2):
            with pytest.raises(wavetrain.NotFound, match="nowhere") as caught:
                consumer.pop()
            assert caught.value.tag == 9
    owner.reset()
    owner.push(rows(8))
    owner.flush()
    for number, consumer in enumerate(consumers):
        with pytest.raises(wavetrain.StreamReset):
            consumer.pop()
        assert taken(consumer) == [*range(4 * number, 4 * number + 4)]


# ---- Names and limits ---------------------------------------------------------------------------


def test_a_name_in_use_names_the_process_that_has_it_and_is_free_once_that_closes(serve, name):
    with serve(1), pytest.raises(wavetrain.InvalidArgument, match=f"{name}.*{os.getpid()}"):
        wavetrain.serve(settings(), name, 1)
    serve(1)


def test_a_number_is_for_one_living_process(serve, attach, name):
    owner = serve(2)
    first = attach(1)
    with pytest.raises(wavetrain.InvalidArgument, match=str(os.getpid())):
        attach(1)
    with pytest.raises(wavetrain.InvalidArgument, match="2"):
        attach(2)
    first.close()
    attach(1)
    assert name in repr(owner) and "closed" in repr(first)


def test_attach_waits_for_the_name_and_no_longer_than_it_is_told(serve, attach):
    begin = time.monotonic()
    with pytest.raises(wavetrain.NotFound, match="test-"):
        attach(0, timeout_s=0)
    with pytest.raises(wavetrain.NotFound, match="test-"):
        attach(0, timeout_s=0.25)
    assert 0.25 <= time.monotonic() - begin < 10
    timer = threading.Timer(0.3, lambda: serve(1).push(rows(4)))
    timer.start()
    assert tags(attach(0, timeout_s=None).pop()) == (0, 1, 2, 3)
    timer.join()


def test_attach_to_a_path_where_something_else_lies_fails_at_once(tmp_path):
    (tmp_path / "file").write_text("bytes")
    for path, kind in ((tmp_path, "a folder"), (tmp_path / "file", "a regular file")):
        with pytest.raises(wavetrain.InvalidArgument, match=f"{path}.* is {kind}, not the socket"):
            wavetrain.attach(str(path), 0, timeout_s=5)


def test_attach_to_a_listener_that_hangs_up_ends_with_its_limit(tmp_path):
    path = str(tmp_path / "listener")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(0.05)
        is_over = threading.Event()

        def hang_up():
            while not is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        begun = time.monotonic()
        try:
            with pytest.raises(wavetrain.NotFound, match="hangs up without an answer"):
                wavetrain.attach(path, 0, timeout_s=0.3)
        finally:
            is_over.set()
            thread.join()
    assert time.monotonic() - begun < 5


def test_a_name_that_is_not_utf_8_is_refused_by_its_own_name(serve, attach):
    with pytest.raises(ValueError, match=r"^share_name must be UTF-8"):
        wavetrain.serve(settings(), "n\udcff", 1)
    with pytest.raises(ValueError, match=r"^name must be UTF-8"):
        wavetrain.attach("n\udcff", 0)


def test_a_consumer_that_holds_all_slots_gets_the_fix(serve, attach):
    owner, consumer = serve(1, n_batch_slots=2), attach(0, pop_timeout_s=0.1)
    owner.push(rows(12))
    held = [consumer.pop(), consumer.pop()]
    with pytest.raises(wavetrain.PoolStarved, match="holds 2 of 2 batch slots: release a batch;"):
        consumer.pop()
    arrays = [batch.numpy() for batch in held]
    for batch in held:
        batch.release()
    with pytest.raises(wavetrain.PoolStarved, match=r"2 of them by tensors: .*delete its tensors"):
        consumer.pop()
    del arrays


def test_a_consumer_that_waits_hears_who_has_the_slots(serve, attach):
    owner, idle, other = serve(2, n_batch_slots=4), attach(0), attach(1, pop_timeout_s=0.2)
    owner.push(rows(60))
    for _ in range(2):
        other.pop().release()
    text = "the owner has no free slot: consumer 0 has 4, 4 of them not popped"
    with pytest.raises(wavetrain.PoolStarved, match=text):
        while True:
            other.pop().release()
    idle.pop().release()
    other.pop().release()


def test_a_path_is_a_name_too(tmp_path):
    path = str(tmp_path / "socket")
    with wavetrain.serve(settings(), path, 1) as owner, wavetrain.attach(path, 0) as consumer:
        owner.push(rows(4))
        assert tags(consumer.pop()) == (0, 1, 2, 3)
    assert not os.path.exists(path)


def test_what_is_asked_wrongly_names_what_is_wrong(name):
    def served(**changes):
        given = {"config": settings(), "name": name, "consumers": 1, **changes}
        wavetrain.serve(**given).close()

    for changes, kind, says in (
        ({"consumers": 0}, ValueError, "consumers must be >= 1"),
        ({"consumers": 65}, ValueError, "consumers must be <= 64"),
        ({"order": "robin"}, ValueError, "order must be one of 'round', 'first', 'all'"),
        ({"owner": 1}, TypeError, "owner must be True or False"),
        ({"on_lost": "wait"}, ValueError, "on_lost must be one of 'fail', 'skip'"),
        ({"attach_timeout_s": 0}, ValueError, "attach_timeout_s must be > 0"),
        ({"config": None}, TypeError, "config must be a wavetrain.Config"),
        ({"name": ""}, ValueError, "share_name must not be empty"),
        ({"name": "two words"}, wavetrain.InvalidArgument, "two words"),
        ({"config": settings(backend="cuda")}, wavetrain.Unsupported, "host"),
        ({"n_consumers": 2}, TypeError, "give consumers"),
    ):
        with pytest.raises(kind, match=says):
            served(**changes)
    for given, kind, says in (
        ((5, 0), TypeError, "name must be"),
        ((name, 64), ValueError, "consumer must be <= 63"),
        ((name, "0"), TypeError, "consumer must be a whole number"),
    ):
        with pytest.raises(kind, match=says):
            wavetrain.attach(*given)
    with pytest.raises(ValueError, match="timeout_s must be >= 0"):
        wavetrain.attach(name, 0, timeout_s=-1)
    with pytest.raises(ValueError, match=r"wavetrain\.serve"):
        wavetrain.Pipeline(settings(share_name=name, share_consumers=1))


# ---- Deaths -------------------------------------------------------------------------------------

OWNS = """
import sys, wavetrain
from test_node import rows, settings
owner = wavetrain.serve(settings(), sys.argv[1], 1)
owner.push(rows(8))
print("open", flush=True)
sys.stdin.read()
"""
POPS = """
import sys, wavetrain
consumer = wavetrain.attach(sys.argv[1], 1)
batch = consumer.pop()
print(batch.info.tags, flush=True)
sys.stdin.read()
"""


def killed(process):
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_of_an_owner_that_is_killed_consumers_hear_soon_behind_what_it_gave(attach, name):
    process = started(OWNS, name)
    assert process.stdout.readline() == "open\n"
    consumer = attach(0)
    held = consumer.pop()
    killed(process)
    begin = time.monotonic()
    assert tags(consumer.pop()) == (4, 5, 6, 7)
    for _ in range(2):
        with pytest.raises(wavetrain.ShutdownError, match=f"{name}.*{process.pid}"):
            consumer.pop()
    assert time.monotonic() - begin < 3
    assert tags(held) == (0, 1, 2, 3)
    with wavetrain.serve(settings(), name, 1):
        pass


def test_a_batch_stays_readable_when_the_owner_closes_and_what_was_made_of_it_longer(serve, attach):
    owner = serve(1)
    consumer = attach(0)
    owner.push(rows(8))
    held, made = consumer.pop(), consumer.pop().numpy()
    owner.close()
    with pytest.raises(wavetrain.ShutdownError, match="has closed"):
        consumer.pop()
    assert tags(held) == (0, 1, 2, 3)
    consumer.close()
    numpy.testing.assert_array_equal(made, ROWS[4:8])
    with pytest.raises(wavetrain.ShutdownError, match="attach again"):
        consumer.pop()


@pytest.mark.parametrize("on_lost", ["fail", "skip"])
def test_of_a_consumer_that_is_killed_the_batches_are_lost(serve, attach, name, on_lost, capfd):
    owner = serve(2, on_lost=on_lost)
    consumer = attach(0)
    owner.push(rows(40))
    owner.flush()
    process = started(POPS, name)
    assert process.stdout.readline() == "(4, 5, 6, 7)\n"
    killed(process)
    if on_lost == "fail":
        with pytest.raises(wavetrain.ShutdownError, match=f"consumer 1.*{process.pid}"):
            taken(consumer)
        return
    assert taken(consumer) == [tag for tag in range(40) if tag // 4 % 2 == 0]
    owner.wait()
    assert owner.stats().batches_lost == 5


def test_who_does_not_attach_in_time_is_lost(serve, attach):
    owner = serve(2, limit=0.5)
    consumer = attach(0)
    owner.push(rows(40))
    with pytest.raises(wavetrain.ShutdownError, match="consumer 1"):
        taken(consumer)


def test_a_pop_that_waits_names_who_has_not_attached(serve, attach):
    serve(3)
    consumer = attach(1, pop_timeout_s=0.1)
    with pytest.raises(wavetrain.PoolStarved, match=r"not attached yet: consumers? 0"):
        consumer.pop()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_attaches_anew(serve, attach, name):
    owner = serve(2)
    consumer = attach(0)
    owner.push(rows(8))
    owner.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            with pytest.raises(wavetrain.ShutdownError):
                consumer.pop()
            with wavetrain.attach(name, 1) as own:
                code = 0 if taken(own) == [4, 5, 6, 7] else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert taken(consumer) == [0, 1, 2, 3]


def test_a_consumer_that_nobody_closes_warns_and_closes(serve, name):
    serve(1)
    with pytest.warns(ResourceWarning, match="unclosed <Consumer 0"):
        wavetrain.attach(name, 0)
    wavetrain.attach(name, 0).close()


# ---- Ctrl-C -------------------------------------------------------------------------------------

PRELUDE = """
import os, signal, sys, threading, time
import wavetrain
from cubes import Interrupts
from test_node import rows, settings, tags, taken
name = sys.argv[1]
def interrupted(call):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        assert time.monotonic() - begin < 5
        return
    raise AssertionError("no KeyboardInterrupt")
"""
FACTS = {
    "attach": """
        interrupted(lambda: wavetrain.attach(name, 0))
        with wavetrain.serve(settings(), name, 1), wavetrain.attach(name, 0):
            pass
    """,
    "pop": """
        with wavetrain.serve(settings(), name, 1) as owner, wavetrain.attach(name, 0) as consumer:
            interrupted(consumer.pop)
            interrupted(owner.wait)
            assert taken(consumer) == []  # wait flushes
            owner.push(rows(4))
            owner.flush()
            assert taken(consumer) == [0, 1, 2, 3]
    """,
    "many_pops_that_lose_no_batch_and_no_end": """
        given = settings(samples_per_batch=1, pop_timeout_s=20)
        with wavetrain.serve(given, name, 2, owner=True) as owner:
            consumer = wavetrain.attach(name, 1, pop_timeout_s=20)
            interrupts, epochs = Interrupts(3, 0.003), 0
            while interrupts.go_on() or epochs < 3:
                owner.push(rows(40))
                owner.flush()
                seen, ends = [[], []], [False, False]
                while not all(ends):
                    which = min((each for each in range(2) if not ends[each]),
                                key=lambda each: len(seen[each]))
                    batch = None
                    try:
                        interrupts.is_armed = True
                        batch = (owner, consumer)[which].pop()
                        interrupts.is_armed = False
                    except KeyboardInterrupt:
                        pass
                    except wavetrain.EndOfStream:
                        interrupts.is_armed = False
                        ends[which] = True
                    if batch is not None:
                        seen[which] += tags(batch)
                epochs += 1
                assert seen == [[*range(0, 40, 2)], [*range(1, 40, 2)]], seen
            assert interrupts.heard > 10, interrupts.heard
            consumer.close()
    """,
}


@pytest.mark.parametrize("fact", FACTS)
def test_ctrl_c_is_heard_in(fact, name):
    run_program(PRELUDE + textwrap.dedent(FACTS[fact]), name, timeout=40)


# ---- A DataLoader -------------------------------------------------------------------------------


class Rows:
    """A data set."""

    def __len__(self):
        return 150

    def __getitem__(self, index):
        return Sample(boxes=[Box(array=ROWS[index])], tag=index)


class Images(Rows):
    """A data set of arrays."""

    def __getitem__(self, index):
        return ROWS[index], index


class Tables(Rows):
    """The same, with many items at a time."""

    def boxes(self, indices):
        begins = [[index, 0, 0] for index in indices]
        return wavetrain.Column(os.environ["TEST_ROWS"], begins, (1, *SHAPE))


RANK = """
import os, sys, wavetrain
from test_node import Rows, Tables, settings, tags
given = eval(sys.argv[1])
kind = given.pop("kind", Rows)
loader = wavetrain.DataLoader(kind(), config=settings(), node="auto", seed=3, **given)
seen = []
with loader:
    for epoch in range(3):
        here, count = [], len(loader)
        for batch in loader:
            assert [*batch.info.tags] == [loader._order.at(place) for place in
                [*loader.places]] + [*batch.info.tags][len(loader.places):]
            here.append(([place.position for place in loader.places], tags(batch)))
            if epoch == 1 and len(here) == 2:
                break
        assert len(here) == (2 if epoch == 1 else count), (here, count)
        seen.append(here)
    state = loader.state_dict()
print((seen, state))
"""


def ranks(given, nodes=1, count=4, program=RANK, **environ):
    """The lines that the ranks of a job print."""
    run = {"MASTER_PORT": str(os.getpid()), "MASTER_ADDR": given + str(nodes), **environ}
    processes = []
    for rank in range(nodes * count):
        local = {"RANK": str(rank), "WORLD_SIZE": str(nodes * count)}
        local |= {"LOCAL_RANK": str(rank % count), "LOCAL_WORLD_SIZE": str(count)}
        run.update(local)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in run.items():
                patch.setenv(name, value)
            processes.append(started(program, given))
    threads = [threading.Timer(40, process.kill) for process in processes]
    for thread in threads:
        thread.start()
    lines = [process.communicate(timeout=60)[0] for process in processes]
    for thread, process in zip(threads, processes):
        thread.cancel()
        assert process.returncode == 0
    return [eval(line) for line in lines]


@pytest.mark.parametrize(
    ("given", "nodes", "count"),
    [
        ("{'shuffle': True}", 1, 4),
        ("{'shuffle': True}", 2, 4),
        ("{'drop_last': True, 'kind': Tables}", 2, 2),
        ("{'shuffle': True, 'tail': 'short'}", 1, 4),
        ("{'tail': 'short', 'kind': Tables}", 2, 4),
    ],
)
def test_the_epochs_of_the_ranks_of_nodes_are_those_of_one_process(given, nodes, count, tmp_path):
    numpy.save(tmp_path / "rows.npy", ROWS)
    world = nodes * count
    found = ranks(given, nodes, count, TEST_ROWS=str(tmp_path / "rows.npy"))
    plain = {name: value for name, value in eval(given).items() if name != "kind"}
    with wavetrain.DataLoader(Rows(), config=settings(), seed=3, **plain) as loader:
        for epoch in range(3):
            at_position = {}
            loader.set_epoch(epoch)
            for batch in loader:
                positions = [place.position for place in loader.places]
                at_position.update(zip(positions, tags(batch)))
            of_ranks = [tag for seen, _ in found for tag in seen[epoch]]
            assert all(
                tags[: len(positions)] == tuple(at_position[each] for each in positions)
                for positions, tags in of_ranks
            )
            positions = sorted(each for positions, _ in of_ranks for each in positions)
            most = 150 if "drop" not in given else 150 // (4 * world) * 4 * world
            assert positions == [*range(8 * world if epoch == 1 else most)]
    states = [state for _, state in found]
    assert all(state == states[0] for state in states)
    assert (states[0]["epoch"], states[0]["position"]) == (3, 0)


LEFT = """
import os, sys, time, wavetrain
from test_node import Rows, settings, tags
time.sleep(0.4 * int(os.environ["LOCAL_RANK"]))
with wavetrain.DataLoader(Rows(), config=settings(), node="auto", **eval(sys.argv[1])) as loader:
    for batch in loader:
        print(tags(batch))
        break
"""


def test_local_rank_0_ends_once_ranks_that_begin_late_have_what_is_theirs():
    assert ranks("{}", program=LEFT) == [
        (0, 1, 2, 3),
        (4, 5, 6, 7),
        (8, 9, 10, 11),
        (12, 13, 14, 15),
    ]


FAILS = """
import os, sys, numpy, wavetrain
from test_node import ROWS, Box, Rows, Sample, settings, tags
class Failing(Rows):
    def __getitem__(self, index):
        if first <= index and os.environ["LOCAL_RANK"] == "0":
            {failure}
        return super().__getitem__(index)
found, (first, given) = [], eval(sys.argv[1])
with wavetrain.DataLoader(Failing(), config=settings(), node="auto", **given) as loader:
    for epoch in range(2):
        found.append([])
        try:
            for batch in loader:
                found[-1].append(tags(batch)[0])
        except Exception as error:
            found[-1].append(str(error).split(",")[0])
print(found)
"""
FAILURES = {
    "raise OSError('no such row')": "no such row",
    "return None": "dataset[",
    "return Sample(boxes=[Box(array=ROWS[:5, 0])])": "push: ",
    "return Sample('/no/such/array', numpy.s_[0:4, 0:6])": "pop: ",
}


@pytest.mark.parametrize(
    ("failure", "first", "given"),
    [
        (failure, first, {"tail": tail})
        for number, failure in enumerate(FAILURES)
        for first, tail in [((0, "pad"), (70, "short"), (149, "short"), (148, "pad"))[number]]
    ],
)
def test_ranks_whose_data_set_fails_hear_of_it_and_get_nothing_else(failure, first, given):
    program = FAILS.format(failure=failure)
    for rank, (failed, after) in enumerate(ranks(repr((first, given)), program=program)):
        mine = [*range(4 * rank, 150, 16)]
        got, text = (failed[:-1], failed[-1]) if isinstance(failed[-1], str) else (failed, "")
        assert got == mine[: len(got)] and len(got) >= first // 16
        if rank == 0:
            assert text.startswith(FAILURES[failure])
            assert after == ["this DataLoader has failed on its node: make another on all ranks"]
        else:
            assert text or len(got) == len(mine)
            assert isinstance(after[0], str) and len(after) == 1


RESUMES = """
import sys, wavetrain
from wavetrain.augment import horizontal_flip
from wavetrain.epoch import ChunkShuffle
from test_node import Rows, settings
given, found, place = eval(sys.argv[1]), [], None
for part in range(2):
    with wavetrain.DataLoader(Rows(), config=settings(dtype="f32"), node="auto", **given) as loader:
        if place is not None:
            loader.load_state_dict(place)
        for number, batch in enumerate(loader):
            with batch:
                positions = [each.position for each in loader.places]
                found += zip(positions, batch.info.tags, batch.numpy().tolist())
            if part == 0 and number == 2:
                break
        place = loader.state_dict()
print(found)
"""


@pytest.mark.parametrize(
    "given",
    [
        "{'shuffle': True, 'tail': 'short', 'transforms': [horizontal_flip(0.5)]}",
        "{'sampler': ChunkShuffle(16, 1), 'seed': 3}",
    ],
)
def test_ranks_of_new_loaders_go_on_in_the_middle_of_an_epoch(given):
    found = [each for rank in ranks(given, program=RESUMES) for each in rank]
    assert sorted(position for position, _, _ in found) == [*range(150)]
    if "short" in given:
        assert sorted(tag for _, tag, _ in found) == [*range(150)]
    names = {"ChunkShuffle": ChunkShuffle, "horizontal_flip": horizontal_flip}
    plain = eval(given, names)
    with wavetrain.DataLoader(Rows(), config=settings(dtype="f32"), **plain) as loader:
        for batch in loader:
            positions, values = [each.position for each in loader.places], batch.numpy().tolist()
            assert "Chunk" in given or all(
                each in found for each in zip(positions, batch.info.tags, values)
            )
            batch.release()


def launched(patch, rank=0, world=2):
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("MASTER_PORT", os.getpid())):
        patch.setenv(name, str(value))
    patch.setenv("WORLD_SIZE", str(world))
    patch.setenv("LOCAL_WORLD_SIZE", str(world))


def test_a_state_of_the_other_deal_is_refused(monkeypatch):
    launched(monkeypatch)

    def loader(node):
        return wavetrain.DataLoader(Rows(), config=settings(), shuffle=True, node=node)

    for one, other in ((None, "auto"), ("auto", None)):
        state = loader(one).state_dict()
        loader(one).load_state_dict(state)
        with pytest.raises(ValueError, match="another way than this one"):
            loader(other).load_state_dict(state)


def test_loaders_of_a_node_say_what_they_cannot_do(monkeypatch):
    def loader(**given):
        return wavetrain.DataLoader(Rows(), config=settings(), **{"node": "auto", **given})

    assert loader()._node is None  # one process
    launched(monkeypatch)
    assert loader()._node.name != loader()._node.name
    with pytest.raises(ValueError, match="returns arrays"):
        wavetrain.DataLoader(Images(), 4, num_workers=1, node="auto")
    with pytest.raises(ValueError, match="node must be 'auto', in small letters"):
        wavetrain.DataLoader(Images(), 4, node="Auto")
    for given, kind, says in (
        ({"rank": 1}, ValueError, "rank 0 of 2"),
        ({"node": 4}, TypeError, "node must be"),
        ({"sampler": wavetrain.epoch.Epoch(150, world=2, tail="pad")}, ValueError, "world=1"),
    ):
        with pytest.raises(kind, match=says):
            loader(**given)
    monkeypatch.delenv("MASTER_PORT")
    with pytest.raises(RuntimeError, match="MASTER_PORT"):
        loader()
