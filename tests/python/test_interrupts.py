"""Ctrl-C is heard in every wait, and afterwards the pipeline goes on or closes. Facts run in
processes of their own, with a time after which they count as hung."""

from __future__ import annotations

import gc
import re
import textwrap

import pytest
from cubes import config, run_program

import wavetrain

PRELUDE = """
import itertools, os, signal, sys, threading, time
import numpy, wavetrain
from cubes import Cube, Interrupts, config
from test_files import Folder, is_chunk
cube = Cube(sys.argv[1])

def soon(seconds=0.3):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

def interrupted(call):
    soon()
    try:
        call()
    except KeyboardInterrupt:
        return
    raise AssertionError("no KeyboardInterrupt")

def comes_out(stream, *numbers):
    for first in range(0, len(numbers), 4):
        with stream.pop() as batch:
            assert batch.info.tags == numbers[first : first + 4], batch.info.tags
            assert (batch.numpy() == cube.holds(*batch.info.tags)).all()

go_on = threading.Event()
slow = Folder(lambda name: is_chunk(name) and go_on.wait(20))
"""

FACTS = {
    "a_pop_that_starves": """
        with wavetrain.Pipeline(config(pop_timeout_s=None)) as stream:
            interrupted(stream.pop)
            stream.push(cube.samples(4))
            comes_out(stream, 0, 1, 2, 3)
    """,
    "a_pop_amid_a_slow_read": """
        with wavetrain.Pipeline(config(n_batch_slots=1), files=slow) as stream:
            stream.push(cube.samples(8))
            interrupted(stream.pop)
            go_on.set()
            comes_out(stream, *range(8))
    """,
    "a_push_into_a_slow_generator": """
        def samples():
            yield cube.sample(0)
            while True:
                time.sleep(0.01)
        with wavetrain.Pipeline(config()) as stream:
            interrupted(lambda: stream.push(samples()))
            assert not stream.pending or stream.flush() is None
            stream.push(cube.samples(1, 4))
            stream.flush()
            assert sum(len(batch.info.tags) for batch in stream.batches()) == 4
    """,
    "a_pop_that_pulls_a_slow_generator": """
        def samples():
            yield from cube.samples(100)
            while True:
                time.sleep(0.01)
        with wavetrain.Pipeline(config(lookahead_samples=4)) as stream:
            stream.push(samples())
            def loop():
                for batch in stream.batches(1000):
                    with batch:
                        seen.extend(batch.info.tags)
            seen = []
            interrupted(loop)
            seen += [tag for batch in stream.batches() for tag in batch.info.tags]
            assert seen == [*range(100)], seen
    """,
    "a_close_with_a_read_in_flight": """
        stream = wavetrain.Pipeline(config(), files=slow)
        stream.push(cube.samples(8))
        time.sleep(0.2)
        interrupted(stream.close)
        go_on.set()
        stream.close()
        assert repr(stream) == "<Pipeline, closed>" and stream._open.handle == 0
    """,
    "an_endless_loop_over_batches": """
        with wavetrain.Pipeline(config(n_batch_slots=2)) as stream:
            stream.push(map(cube.sample, itertools.cycle(range(40))))
            def loop():
                for batch in stream.batches(10**9):
                    with batch:
                        pass
            for _ in range(3):
                interrupted(loop)
            stream.reset()
            assert stream.stats().batches_held == 0
            stream.push(cube.samples(8))
            comes_out(stream, *range(8))
    """,
    "many_interrupts_lose_no_slot_and_no_batch": """
        # One slot: a batch that is lost with its slot would starve the rest.
        with wavetrain.Pipeline(config(n_batch_slots=1, samples_per_batch=1)) as stream:
            stream.push(cube.sample(number) for number in range(10**6))
            interrupts = Interrupts(3, 0.003)
            while interrupts.go_on():
                try:
                    interrupts.is_armed = True
                    try:
                        stream.pop().release()
                    except wavetrain.TryAgain:
                        pass
                    interrupts.is_armed = False
                except KeyboardInterrupt:
                    pass
            assert interrupts.heard > 10, interrupts.heard
            assert stream.stats().batches_held <= len(stream._orphans)
            stream.reset()
            assert stream.stats().batches_held == 0
            stream.push([cube.sample(3)])
            assert stream.pop().info.tags == (3,)
    """,
    "many_interrupts_of_a_loader_which_keeps_its_place": """
        class Cubes:
            def __len__(self):
                return 37
            def __getitem__(self, index):
                return cube.sample(index)
        # One slot: a batch that is lost with its slot would starve the rest.
        # The lookahead is short, so that an epoch begins between two interrupts.
        settings = config(n_batch_slots=1, lookahead_samples=8)
        with wavetrain.DataLoader(Cubes(), config=settings) as loader:
            interrupts, popped, batches = Interrupts(3, 0.013), 0, None
            while interrupts.go_on():
                try:
                    interrupts.is_armed = True
                    batches = batches or iter(loader)
                    first = loader.state_dict()["position"]
                    batch = next(batches, None)
                    if batch is None:
                        batches = None
                    else:
                        places = [place.position for place in loader.places]
                        assert [*batch.info.tags] == places == [*range(first, min(first + 4, 37))]
                        batch.release()
                        popped += 1
                    interrupts.is_armed = False
                except KeyboardInterrupt:
                    batch = None
            assert interrupts.heard > 10 and popped > 10, (interrupts.heard, popped)
    """,
    "stats_and_what_does_not_wait": """
        with wavetrain.Pipeline(config()) as stream:
            def loop():
                while True:
                    stream.stats()
                    repr(stream)
            interrupted(loop)
            stream.push(cube.samples(4))
            comes_out(stream, 0, 1, 2, 3)
    """,
    "a_slow_read_of_fsspec": """
        import fsspec
        fs = fsspec.filesystem("file")
        inner = fs.cat_file
        fs.cat_file = lambda name, **k: (is_chunk(name) and go_on.wait(20), inner(name, **k))[1]
        with wavetrain.Pipeline(config(), files=wavetrain.fsspec(fs)) as stream:
            stream.push(cube.samples(4))
            interrupted(stream.pop)
            go_on.set()
            comes_out(stream, 0, 1, 2, 3)
    """,
    "array_info_of_slow_files": """
        files = Folder(lambda name: [time.sleep(0.01) for _ in range(1000)])
        interrupted(lambda: wavetrain.array_info(cube, files=files))
    """,
}


@pytest.mark.parametrize("fact", FACTS)
def test_ctrl_c_is_heard_in(fact, cube):
    if "fsspec" in fact:
        pytest.importorskip("fsspec", reason="there is no fsspec here")
    done = run_program(PRELUDE + textwrap.dedent(FACTS[fact]), cube, timeout=40)
    # Python itself reports an interrupt at the entry of a finalizer, and continues.
    finalizer = re.compile(
        r"Exception ignored .*<function \w+\.__del__ .*\n"
        r"Traceback .*\n(?:\s.*\n|\n)*KeyboardInterrupt.*\n\n?"
    )
    # An interrupt after a call may have it made twice, which is harmless and reported.
    meant = re.compile(r"close: reads, calls|release: batch \S+ is not held")
    lines = finalizer.sub("", done.stderr).splitlines()
    complaints = [line for line in lines if not meant.match(line)]
    assert not complaints, done.stderr


@pytest.mark.parametrize("name", ["read_stats", "Pipeline._find_device"])
def test_an_interrupt_behind_open_leaves_nothing_open(name, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"wavetrain._pipeline.{name}", interrupted)
    before = set(wavetrain._pipeline.Loader.alive)
    with pytest.raises(KeyboardInterrupt):
        wavetrain.Pipeline(config())
    gc.collect()  # a warning of one that is not closed is an error here
    assert wavetrain._pipeline.Loader.alive == before
