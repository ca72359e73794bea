"""Legate's recipe on a runtime that stands in for it: tiles of any arrays, each written once.

The stand-in checks what Legate does not: as many tasks as tiles, each with its own tile. The last
tests are Legate's own runs, where it is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
import types

import numpy
import pytest
from cubes import ROOT, Cube, run_engine

import wavetrain
import wavetrain.engines as engines

EXAMPLE = ROOT / "examples" / "legate_fill.py"


class Runtime:
    """Tasks of a launch run in threads, two at a time, and their exceptions reach the fence."""

    def __init__(self, processors):
        self.processors, self.launches, self.errors = processors, [], []

    def get_machine(self):
        return types.SimpleNamespace(count=lambda: self.processors)

    def create_manual_task(self, library, task_id, shape):
        self.launches.append(Launch(self, task_id, shape))
        return self.launches[-1]

    def issue_execution_fence(self, block):
        for thread in self.launches[-1].threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


class Launch:
    def __init__(self, runtime, body, shape):
        self.runtime, self.body, self.shape, self.threads = runtime, body, shape, []

    def add_output(self, tiles):
        self.tiles = [tiles.array] if isinstance(tiles, Store) else tiles

    def throws_exception(self, kind):
        self.kind = kind

    def execute(self):
        assert self.shape == (len(self.tiles),)
        for number, tile in enumerate(self.tiles):
            assert tile.size
            self.threads.append(threading.Thread(target=self.run, args=(number, tile)))
            self.threads[-1].start()

    def run(self, number, tile):
        try:
            self.body(types.SimpleNamespace(task_index=(number,)), tile)
        except self.kind as error:
            self.runtime.errors.append(error)


class Store:
    def __init__(self, array):
        self.array = self.data = array
        self.data = self

    def partition_by_tiling(self, tile):
        assert len(tile) == self.array.ndim and tile[1:] == self.array.shape[1:] and tile[0] > 0
        return [self.array[at : at + tile[0]] for at in range(0, len(self.array), tile[0])]


@pytest.fixture
def legate(monkeypatch):
    def install(processors):
        runtime = Runtime(processors)
        core, task = types.ModuleType("legate.core"), types.ModuleType("legate.core.task")
        core.get_legate_runtime, core.as_logical_array = lambda: runtime, Store
        core.TaskContext, task.OutputStore = object, numpy.ndarray
        core.VariantCode = types.SimpleNamespace(CPU=1, OMP=2)
        core.__path__ = []
        task.task = lambda variants: (
            lambda body: types.SimpleNamespace(library=None, task_id=body, variants=variants)
        )
        numeric = types.ModuleType("cupynumeric")
        numeric.empty = lambda shape, dtype: numpy.full(shape, 7, dtype)
        made = {"legate": types.ModuleType("legate"), "legate.core": core, "legate.core.task": task}
        for name, module in {**made, "cupynumeric": numeric}.items():
            monkeypatch.setitem(sys.modules, name, module)
        engines.legate.task.cache_clear()
        return runtime

    yield install
    engines.legate.task.cache_clear()


@pytest.mark.parametrize(("processors", "tiles"), [(1, 1), (3, 1), (2, 4), (100, 1)])
def test_tiles_are_what_numpy_has(legate, cube, processors, tiles):
    runtime = legate(processors)
    numpy.testing.assert_array_equal(engines.legate.load(cube, tiles), Cube.data)
    (count,) = runtime.launches[0].shape
    assert processors == 100 or count == processors * tiles


def test_the_store_of_releases_without_as_logical_array_is_found(legate, cube, monkeypatch):
    class Array(numpy.ndarray):
        @property
        def __legate_data_interface__(self):
            return {"version": 1, "data": {"field": Store(self.view(numpy.ndarray))}}

    legate(2)
    monkeypatch.delattr(sys.modules["legate.core"], "as_logical_array")
    monkeypatch.setattr(
        sys.modules["cupynumeric"], "empty", lambda shape, dtype: Array(shape, dtype)
    )
    numpy.testing.assert_array_equal(engines.legate.load(cube, 3), Cube.data)


def test_numbered_files_of_uneven_rows_are_one_array(legate, tmp_path):
    parts = [numpy.arange(9 * rows).reshape(rows, 9) + rows for rows in (4, 1, 0, 13)]
    for number, part in enumerate(parts):
        numpy.save(tmp_path / f"shard_{number:04}.npy", part)
    legate(5)
    numpy.testing.assert_array_equal(engines.legate.load(tmp_path, 2), numpy.concatenate(parts))
    numpy.save(tmp_path / "shard_0003.npy", numpy.zeros((0, 9), "i8"))
    legate(5)
    assert engines.legate.load(tmp_path, 2).shape == (5, 9)


def test_an_array_of_no_axes_is_one_tile(legate, tmp_path):
    numpy.save(tmp_path / "scalar.npy", numpy.array(7.5))
    legate(2)
    made = engines.legate.load(tmp_path / "scalar.npy", 3)
    assert (made.shape, made.dtype, made[()]) == ((), "f8", 7.5)


def test_an_exception_of_a_task_is_raised(legate, cube, monkeypatch):
    legate(2)

    def fails(uri, box, out):
        raise wavetrain.NotFound("read: none.zarr")

    monkeypatch.setattr(engines.legate._stored, "read", fails)
    with pytest.raises(wavetrain.NotFound, match=r"none\.zarr"):
        engines.legate.load(cube)
    with pytest.raises(ValueError, match="K must be"):
        engines.legate.load(cube, 0)


@pytest.fixture
def by_legate(monkeypatch):
    """Runs a program on two CPUs of Legate, and returns what it prints."""
    if importlib.util.find_spec("legate") is None:
        pytest.skip("there is no legate here: tools/engines.sh")
    monkeypatch.delenv("LEGATE_CONFIG", raising=False)
    flags = ("--cpus", "2", "--gpus", "0", "--sysmem", "1000")

    return lambda *words: run_engine("legate", *flags, *words).stdout


def test_legate_itself_loads_an_array_of_no_axes(by_legate, tmp_path):
    numpy.save(tmp_path / "scalar.npy", numpy.array(7.5))
    program = tmp_path / "scalar.py"
    program.write_text(
        "import sys\nfrom wavetrain.engines import legate\n"
        "for tiles in (1, 3):\n"
        "    made = legate.load(sys.argv[1], tiles)\n"
        "    print(made.shape, made.dtype, float(made))\n"
    )
    assert by_legate(program, tmp_path / "scalar.npy").endswith("() float64 7.5\n" * 2)


def test_legate_itself_runs_the_example(by_legate, tmp_path):
    rows = [numpy.full((count, 7), count, "i2") for count in (3, 17, 0, 40)]
    for number, part in enumerate(rows):
        numpy.save(tmp_path / f"shard_{number:04d}.npy", part)
    printed = by_legate(EXAMPLE, tmp_path, "--tiles", "3")
    assert f"60x7, sum {sum(part.sum() for part in rows)}, " in printed


def test_legate_itself_raises_the_exception_of_a_task_in_the_example(by_legate, cube, tmp_path):
    damaged = tmp_path / "damaged.zarr"
    shutil.copytree(cube, damaged)
    os.truncate(next(file for file in (damaged / "c").rglob("*") if file.is_file()), 20)
    program = tmp_path / "caught.py"
    program.write_text(
        "import runpy, sys, wavetrain\n"
        "sys.argv.pop(0)\n"
        "try:\n"
        "    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except wavetrain.DecodeError as error:\n"
        "    print('caught', error)\n"
    )
    assert "caught read: " in by_legate(program, EXAMPLE, damaged)
