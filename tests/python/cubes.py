"""What the tests share: an array that zarr-python wrote, samples of it, and what they hold."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

import wavetrain

EDGE = 8  # of a sample
SIZE = 64  # of the cube
FILL = 42
ROOT = Path(__file__).resolve().parents[2]


def voxels(size: int = SIZE) -> numpy.ndarray:
    """The cube: no two neighbours are alike, and some chunks are the fill value alone."""
    z, y, x = numpy.ogrid[:size, :size, :size]
    values = (z * 2309 + y * 151 + x * 7).astype("u2")
    chunks = z // 8 * 4 + y // 8 * 2 + x // 8
    return numpy.where(chunks % 11 == 5, numpy.uint16(FILL), values)


def corner(number: int) -> list[int]:
    return [number * step % (SIZE - EDGE + 1) for step in (5, 11, 17)]


def box(number: int) -> tuple[slice, ...]:
    return tuple(slice(at, at + EDGE) for at in corner(number))


class Cube(str):
    """The uri of a cube."""

    data = voxels()

    def sample(self, number: int) -> wavetrain.Sample:
        return wavetrain.Sample(self, box(number), tag=number)

    def samples(self, *numbers: int) -> list[wavetrain.Sample]:
        return [self.sample(number) for number in range(*numbers)]

    def holds(self, *numbers: int) -> numpy.ndarray:
        """What a batch of these samples is."""
        return numpy.stack([self.data[box(number)] for number in numbers])


def config(**changes: object) -> wavetrain.Config:
    plain = {
        "samples_per_batch": 4,
        "sample_shape": (EDGE,) * 3,
        "backend": "host",
        "n_io_threads": 4,
        "n_decode_threads": 2,
    }
    return wavetrain.Config(**{**plain, **changes})


def write_cube(store: object, data: numpy.ndarray | None = None, **changes: object) -> None:
    """Through zarr-python: v3, shards of 16^3, chunks of 8^3, zstd."""
    zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")
    data = voxels() if data is None else data
    plain = {"chunks": (EDGE,) * 3, "shards": (2 * EDGE,) * 3, "fill_value": FILL}
    array = zarr.create_array(store, shape=data.shape, dtype=data.dtype, **{**plain, **changes})
    array[...] = data


class Interrupts:
    """Ctrl-C again and again, from another thread. It raises where `is_armed` alone, once: what a
    test does between its steps is not made for it."""

    def __init__(self, seconds: float, every: float) -> None:
        self.is_armed, self.heard = False, 0
        signal.signal(signal.SIGINT, self._raise)
        self.thread = threading.Thread(target=self._send, args=(seconds, every))
        self.thread.start()

    def _raise(self, *_: object) -> None:
        if self.is_armed:
            self.is_armed = False
            self.heard += 1
            raise KeyboardInterrupt

    def _send(self, seconds: float, every: float) -> None:
        stop, sent = time.monotonic() + seconds, 0
        while time.monotonic() < stop:
            # A pause after each third: on a busy machine nothing would end between two of them.
            time.sleep(every if sent % 4 < 3 else 8 * every)
            sent += 1
            os.kill(os.getpid(), signal.SIGINT)

    def go_on(self) -> bool:
        return self.thread.is_alive()


def wait_until(is_so: Callable[[], bool], timeout: float = 60) -> None:
    """Waits for what another thread does."""
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run_program(
    program: str, *arguments: object, timeout: float = 60, ends_with: int = 0
) -> subprocess.CompletedProcess:
    """The program in a fresh, strict interpreter, with the modules of these tests."""
    path = os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent)])
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(
        command + [str(argument) for argument in arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == ends_with, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done


def run_engine(*command: object, timeout: float = 100) -> subprocess.CompletedProcess:
    """A program under an engine, whose own warnings are not looked at; the first word is the file
    of the program, or the engine's launcher. No variable of another launcher is set."""
    gone = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "OMPI_", "PMI", "MV2_", "SLURM_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    own = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    path = os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parent), *own])
    environ |= {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    environ |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = [str(word) for word in command]
    if words[0].endswith(".py"):
        words.insert(0, sys.executable)
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done
