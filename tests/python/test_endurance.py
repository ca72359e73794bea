"""Long runs stay flat: memory, Python's objects, descriptors, threads."""

from __future__ import annotations

import gc
import os
import sys
import threading

import numpy
import pytest
from cubes import config, run_program

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
        type(stream._open).sweep()
        tasks, files = (len(os.listdir(f"/proc/self/{each}")) for each in ("task", "fd"))
        return tasks, files, threading.active_count()

    stream = wavetrain.Pipeline(config(**TINY))
    stream.close()
    once()
    before = counts()
    for _ in range(200):
        once()
    assert counts() == before
