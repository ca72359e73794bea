"""netcl's page as its users have it: the custom data set, the loop over shared memory, the ring."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys

import numpy
import pytest
from cubes import ROOT

from wavetrain.netcl import SharedBatchRingBuffer, worker_write_to_shm

SUM = sum(i % 251 + i % 10 for i in range(1000))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("netcl_dataset.py", [f"epoch {epoch}: 1000 samples, sum {SUM}" for epoch in range(2)]),
        ("netcl_shm.py", [f"1000 samples, sum {SUM}"]),
    ],
)
def test_what_netcl_users_write_is_under_30_lines_and_reads_every_sample(name, lines):
    path = ROOT / "examples" / name
    assert len(path.read_text().splitlines()) < 30
    command = [sys.executable, "-X", "dev", "-W", "error", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", lines)


@pytest.fixture
def ring():
    made = SharedBatchRingBuffer([((4, 2, 3), "f4"), ((4,), "i8")], prefetch=1)
    yield made
    made.close()


def test_a_ring_has_two_slots_more_than_are_prefetched_and_no_name_in_any_file_system(ring):
    assert len(ring) == 3 and len(SharedBatchRingBuffer([((4,), "u1")], n_slots=5)) == 5
    assert not any("wavetrain" in name for name in os.listdir("/dev/shm"))
    x, y = ring.slot(2)
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((4, 2, 3), "f4", (4,), "i8")


def test_a_process_writes_by_the_info_alone_and_a_copy_stays_as_it_was(ring):
    xb = [numpy.full((2, 3), number, "f4") for number in range(4)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:

        def write(slot_id, *fields):
            return pool.apply(worker_write_to_shm, (ring.attach_info, slot_id, *fields))

        assert write(1, xb, [5, 6, 7, 8]) == 4
        x, y = ring.slot_copy(1)
        assert write(1, numpy.array(xb)[::-1], numpy.arange(4)) == 4
        assert write(0, xb[:2], [1, 2]) == 2
    numpy.testing.assert_array_equal(x, xb)
    assert y.tolist() == [5, 6, 7, 8]
    numpy.testing.assert_array_equal(ring.slot(1)[0], xb[::-1])
    assert ring.slot_copy(0)[1].tolist() == [1, 2, 0, 0] and not ring.slot(2)[0].any()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (([numpy.zeros((2, 3))], [1], [2]), r"the ring has 2 fields \(got 3\)"),
        (([numpy.zeros((3, 2))], [1]), r"field 0 must have 1 to 4 samples of \(2, 3\)"),
        ((numpy.zeros((5, 2, 3)), [1] * 5), r"field 0 must have 1 to 4 samples"),
        ((numpy.zeros((2, 2, 3), "f4"), [1]), r"field 1 must have .* as many as the others"),
    ],
)
def test_samples_that_are_not_those_of_the_ring_are_refused(ring, fields, text):
    with pytest.raises(ValueError, match=text):
        worker_write_to_shm(ring.attach_info, 0, *fields)
    with pytest.raises(TypeError, match="Cannot cast"):
        worker_write_to_shm(ring.attach_info, 0, numpy.zeros((1, 2, 3), "f4"), [0.5])
    with pytest.raises(ValueError, match="slot_id must be <= 2"):
        ring.slot_copy(3)


def test_a_ring_that_is_closed_is_gone_and_arrays_of_it_are_not(ring):
    info = ring.attach_info
    x, y = ring.slot(0)
    x[:], y[:] = 3, 4
    ring.close()
    ring.unlink()
    gc.collect()
    assert (x == 3).all() and (y == 4).all()
    with pytest.raises(ValueError, match="the ring is closed"):
        ring.slot_copy(0)
    with pytest.raises(ValueError, match="the ring is closed, or of another user"):
        worker_write_to_shm(info, 0, [numpy.zeros((2, 3))], [1])
    with pytest.raises(TypeError, match="dtype must be of numbers"):
        SharedBatchRingBuffer([((4,), object)])
    with pytest.raises(ValueError, match="a shape must begin with the number of samples"):
        SharedBatchRingBuffer([((), "f4")])
    with pytest.raises(ValueError, match=r"fields must have a .shape, dtype. for each array"):
        SharedBatchRingBuffer([])


def test_a_with_block_closes_a_ring():
    with SharedBatchRingBuffer([((4,), "f4")]) as ring:
        worker_write_to_shm(ring.attach_info, 0, numpy.arange(4.0))
        assert (ring.slot_copy(0)[0] == numpy.arange(4)).all()
    with pytest.raises(ValueError, match="the ring is closed"):
        ring.slot_copy(0)
