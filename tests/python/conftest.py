"""Fixtures: stores that zarr-python writes, pipelines that are closed at the end of a test.

    WAVETRAIN_LIBRARY=.. PYTHONPATH=python PYTHONMALLOC=debug python -W error -m pytest tests/python

$SIMULATED_DRIVER names the driver of tests/cuda_sim; without it facts about devices are skipped.
"""

from __future__ import annotations

import gc
import os

import pytest
from cubes import Cube, config, write_cube

import wavetrain
from wavetrain._pipeline import Loader
from wavetrain._reader import close_readers
from wavetrain.engines._tasks import close_kept


@pytest.fixture(autouse=True)
def nothing_stays_open():
    """A loader that a test leaves open takes one of 64 places and refuses forks to later tests."""
    before = set(Loader.alive)
    yield
    close_readers()
    close_kept()
    if Loader.alive - Loader.waiting - before:
        gc.collect()
    assert not Loader.alive - Loader.waiting - before, "this test left a loader open"


@pytest.fixture(scope="session")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Cube:
    path = tmp_path_factory.mktemp("stores") / "cube.zarr"
    write_cube(path)
    return Cube(path)


@pytest.fixture
def pipeline():
    """pipeline(files=.., fit=.., **fields of the config): closed when the test is over."""
    opened = []

    def make(*, files=None, fit=(), **changes):
        opened.append(wavetrain.Pipeline(config(**changes), files=files, fit=fit))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def simulated_driver() -> str:
    path = os.environ.get("SIMULATED_DRIVER")
    if not path:
        pytest.skip("there is no simulated driver: $SIMULATED_DRIVER names none")
    return path
