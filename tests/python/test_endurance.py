"""Long runs stay flat: memory, Python's objects, descriptors, threads."""

from __future__ import annotations

import gc
import os
import sys
import threading

import numpy
import pytest
from cubes import config, run_program, wait_until

import wavetrain

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc here")

TINY = {
    "samples_per_batch": 1,
    "sample_shape": (1, 1, 1),
    "n_io_threads": 1,
    "n_decode_threads": 1,
    "chunk_cache_bytes": 1 << 20,
}


def test_a_hundred_thousand_batches_stay_flat(cube):
    program = """
    import gc, itertools, os, sys
    import numpy, wavetrain
    from cubes import Cube, config
    from test_endurance import TINY
    cube = Cube(sys.argv[1])
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    boxes = [wavetrain.Sample(cube, [(at % 8, at % 8 + 1)] * 3, at) for at in range(64)]
    with wavetrain.Pipeline(config(**TINY)) as stream:
        stream.push(itertools.cycle(boxes))
        for number in range(100_000):
            with stream.pop() as batch:
                value = numpy.from_dlpack(batch).item() if number % 10 == 0 else None
                assert value is None or value == cube.data[(number % 64 % 8,) * 3]
            del batch
            if number == 10_000:
                gc.collect()
                early, objects = resident(), len(gc.get_objects())
        gc.collect()
        grown, more = resident() - early, len(gc.get_objects()) - objects
    assert grown < 4 << 20, grown
    assert more < 200, more
    """
    assert run_program(program, cube, timeout=300).stderr == ""


def test_200_pipelines_leave_no_descriptor_and_no_thread(cube):
    def once():
        with wavetrain.Pipeline(config(**TINY)) as stream:
            stream.push([wavetrain.Sample(cube, [(0, 1)] * 3)])
            view = stream.pop().numpy()
        numpy.testing.assert_array_equal(view[0], cube.data[:1, :1, :1])
        del view

    def counts():
        gc.collect()
        wait_until(lambda: not type(stream._open).alive)  # by the threads that close the last
        tasks, files = (len(os.listdir(f"/proc/self/{each}")) for each in ("task", "fd"))
        return tasks, files, threading.active_count()

    stream = wavetrain.Pipeline(config(**TINY))
    stream.close()
    once()
    before = counts()
    for _ in range(200):
        once()
    wait_until(lambda: counts() == before)


ONE_ARRAY = """
import gc, os, sys
import numpy, wavetrain
from cubes import config, wait_until
from wavetrain._pipeline import Loader

folder, take = sys.argv[1], eval("lambda batch: " + sys.argv[2])
for number in range(200):
    numpy.save(f"{folder}/{number}.npy", numpy.full((8, 8, 8), number + 1, "f4"))

def resident():
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("RssAnon"))
    return int(line.split()[1]) << 10

def count(what):
    return len(os.listdir(f"/proc/self/{what}"))

def stream_all():
    stream = wavetrain.Pipeline(config(samples_per_batch=1, chunk_cache_bytes=128 << 20))
    names = [f"{folder}/{number}.npy" for number in range(200)]
    stream.push([wavetrain.Sample(name, [(0, 8)] * 3) for name in names])
    taken = [take(stream.pop())]
    for batch in stream.batches(199):
        batch.release()
    del batch
    gc.collect()
    return stream, taken

stream, taken = stream_all()  # what Python and numpy take for themselves
stream.close()
del taken
wait_until(lambda: not Loader.alive)
before, files, tasks = resident(), count("fd"), count("task")

stream, taken = stream_all()
assert resident() - before > 128 << 20 and count("fd") > files + 150
stream.close()
# The one thread is that which waits for the last of the memory.
assert (count("fd"), count("task")) == (files, tasks + 1)
kept = resident() - before
assert kept < 2 << 20, kept
if not isinstance(taken[0], wavetrain.Batch):
    assert (numpy.asarray(taken[0]) == 1).all()
taken.clear()
wait_until(lambda: count("task") == tasks)
assert not Loader.alive and not Loader.waiting
"""


@pytest.mark.parametrize(
    "take",
    [
        "batch.numpy()",
        "numpy.from_dlpack(batch)",
        "numpy.frombuffer(batch.buffer(), 'f4')",
        "batch",
    ],
)
def test_what_lives_of_a_closed_pipeline_keeps_its_own_memory_and_the_last_of_it_frees_that(
    take, tmp_path
):
    assert run_program(ONE_ARRAY, tmp_path, take).stderr == ""
