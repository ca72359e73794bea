"""Dask on wavetrain's reader: bytes against numpy, and workers that are killed."""

from __future__ import annotations

import os

import numpy
import pytest
from cubes import Cube, run_engine

import wavetrain
import wavetrain.engines as engines
from wavetrain.engines import _stored

da = pytest.importorskip("dask.array", reason="there is no dask here: pip install dask[array]")
ROWS = [3, 1, 7, 2]


@pytest.fixture
def folder(tmp_path):
    """A folder of numbered files of uneven rows, and what they hold."""
    data = numpy.random.default_rng(5).integers(0, 1 << 16, (sum(ROWS), 6), "u2")
    for number, part in enumerate(numpy.split(data, numpy.cumsum(ROWS)[:-1])):
        numpy.save(tmp_path / f"part_{number:03}.npy", part)
    return tmp_path, data


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ("shard", ((16,) * 4,) * 3),
        ("file", ((16,) * 4,) * 3),
        ("chunk", ((8,) * 8,) * 3),
        ((64, 20, 64), ((64,), (20, 20, 20, 4), (64,))),
        ("auto", ((64,),) * 3),
    ],
)
def test_blocks_are_what_numpy_has(cube, chunks, found):
    array = engines.dask.from_array(cube, chunks)
    assert (array.chunks, array.dtype, array.shape) == (found, "u2", Cube.data.shape)
    with_threads = array.compute(scheduler="threads")
    numpy.testing.assert_array_equal(with_threads, Cube.data)


def test_blocks_of_a_folder_are_its_files(folder):
    path, data = folder
    for uri in (path, f"{path}/part_*.npy"):
        array = engines.dask.from_array(str(uri), "file")
        assert array.chunks == (tuple(ROWS), (6,))
        numpy.testing.assert_array_equal(array.compute(), data)
        numpy.testing.assert_array_equal(array.blocks[2].compute(), data[4:11])
    (path / "part_000.npy").rename(path / "part_004.npy")  # 1 to 4, in another order
    array = engines.dask.from_array(f"{path}/part_*.npy#first=1", "file")
    assert array.chunks == ((1, 7, 2, 3), (6,))
    assert _stored.rows_of_files(path / "part_001.npy") is None


def test_a_slice_is_what_numpy_has(cube):
    array = engines.dask.from_array(cube)
    for box in (
        numpy.s_[5:9, 60:64, 1:2],
        numpy.s_[3, 10:40:7],
        numpy.s_[::-1, 5, ::-3],
        numpy.s_[..., 7],
        numpy.s_[4:4],
        numpy.s_[[5, 1, 60], 0:3],
    ):
        numpy.testing.assert_array_equal(array[box].compute(), Cube.data[box])
    sums = array.astype("f8").mean(axis=(1, 2)).compute()
    numpy.testing.assert_allclose(sums, Cube.data.astype("f8").mean(axis=(1, 2)))


def test_figures_of_a_process_without_a_worker_are_refused():
    pytest.importorskip("distributed", reason="there is no distributed here: pip install it")
    with pytest.raises(RuntimeError, match="call metrics in the task that makes the loader"):
        engines.metrics(None, "dask")


def test_what_is_not_an_array_is_refused(cube, tmp_path):
    with pytest.raises(ValueError, match="chunks must be 'shard', 'file', 'chunk', 'auto'"):
        engines.dask.from_array(cube, "shards")
    with pytest.raises(wavetrain.NotFound, match="none"):
        engines.dask.from_array(tmp_path / "none")
    with pytest.raises(AttributeError, match="it has from_array and Plugin"):
        engines.dask.Plugins  # noqa: B018


def test_a_rewritten_array_has_other_keys(folder):
    path, data = folder
    before = engines.dask.from_array(path / "part_001.npy")
    assert engines.dask.from_array(path / "part_001.npy").name == before.name
    numpy.save(path / "new.npy", data[:1] + 1)
    os.utime(path / "new.npy", ns=(5, 5))
    (path / "new.npy").rename(path / "part_001.npy")
    after = engines.dask.from_array(path / "part_001.npy")
    assert after.name != before.name
    numpy.testing.assert_array_equal(after.compute(), data[:1] + 1)


KILLED = """
import os, pathlib, signal, sys, warnings

warnings.simplefilter("ignore")  # of Dask's own
import dask, numpy
from distributed import Client, LocalCluster
import wavetrain.engines as engines
from wavetrain.engines import _stored

cube, folder = sys.argv[1:]
marks = pathlib.Path(folder)


def seen(block, block_info=None):
    place = block_info[None]["chunk-location"]
    assert _stored.settings == {"n_decode_threads": 1, "n_readers": 2}, _stored.settings
    if place == (2, 1, 3):
        try:
            (marks / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    return block


def main():
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            array = engines.dask.from_array(cube, client=client)
            result = array.map_blocks(seen, dtype=array.dtype).compute()
            numpy.save(marks / "result.npy", result)
            sent = client.submit(figures, cube).result()
            (_, event), = client.get_events("wavetrain")
            assert {name: event[name] for name in sent} == sent
            for uri in ("none.zarr", cube):
                try:
                    print(client.submit(read, uri, pure=False).result())
                except Exception as error:
                    print(type(error).__name__)


def figures(cube):
    import wavetrain
    sample = wavetrain.Sample(cube, numpy.s_[0:8, 0:8, 0:8])
    with engines.loader([sample] * 4, 2) as loader:
        with engines.metrics(loader, "dask", every_s=60) as metrics:
            for batch in loader:
                batch.release()
            return metrics.push()


def read(uri):
    import wavetrain
    return int(wavetrain.reader().read(uri, [(0, 1), (0, 1), (5, 6)])[0, 0, 0])


if __name__ == "__main__":
    main()
"""


def test_a_worker_that_is_killed_loses_no_block(cube, tmp_path):
    pytest.importorskip("distributed", reason="there is no distributed here: pip install it")
    program = tmp_path / "program.py"
    program.write_text(KILLED)
    done = run_engine(program, cube, tmp_path)
    assert (tmp_path / "killed").exists(), done.stderr
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "result.npy"), Cube.data)
    assert done.stdout.splitlines() == ["NotFound", str(Cube.data[0, 0, 5])]
