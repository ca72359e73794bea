"""dask_blocks.py FOLDER [ROUNDS]: sums of Dask arrays by wavetrain, next to dask.array.from_zarr.

    WAVETRAIN_LIBRARY=.. PYTHONPATH=python python benches/dask_blocks.py FOLDER 11

A volume of u16 in shards of zstd, summed on Dask's threads, by blocks of a shard and of a chunk,
and a folder of .npy files next to dask.array.from_delayed of numpy.load. Readers take turns; a row
has the medians of the wall and CPU seconds of the process, and how many times as fast wavetrain is.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import dask
import dask.array
import numpy
import zarr

from wavetrain import engines

FILES = 24


def write(folder: Path) -> None:
    random = numpy.random.default_rng(5)
    volume = random.integers(0, 300, (256, 256, 256), "u2")
    array = zarr.create_array(
        folder / "volume.zarr", shape=volume.shape, chunks=(32,) * 3, shards=(128,) * 3, dtype="u2"
    )
    array[...] = volume
    (folder / "rows").mkdir()
    for number in range(FILES):
        part = random.random((1000, 512), "f4")
        numpy.save(folder / f"rows/part_{number:03d}.npy", part)


def by_numpy(folder: Path) -> dask.array.Array:
    load = dask.delayed(numpy.load)
    files = sorted(folder.glob("*.npy"))
    shape = numpy.load(files[0], mmap_mode="r").shape
    parts = [dask.array.from_delayed(load(file), shape, "f4") for file in files]
    return dask.array.concatenate(parts)


def measure(array: dask.array.Array) -> tuple[float, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    total = float(array.sum(dtype="f8").compute(scheduler="threads"))
    return time.perf_counter() - wall, time.process_time() - cpu, total


def main() -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 11
    if not (folder / "rows").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)
    volume, rows = os.fspath(folder / "volume.zarr"), folder / "rows"
    edges = zarr.open_array(volume, mode="r").chunks
    pairs = {
        "shards": (
            engines.dask.from_array(volume),
            dask.array.from_zarr(volume, chunks=(128,) * 3),
        ),
        "chunks": (
            engines.dask.from_array(volume, "chunk"),
            dask.array.from_zarr(volume, chunks=edges),
        ),
        "files": (engines.dask.from_array(os.fspath(rows), "file"), by_numpy(rows)),
    }
    print(f"{'case':8} {'reader':10} {'wall s':>8} {'CPU s':>8} {'ratio':>12}")
    for name, (own, other) in pairs.items():
        measured = [(measure(own), measure(other)) for _ in range(rounds + 1)][1:]
        sums = {figures[2] for pair in measured for figures in pair}
        assert max(sums) - min(sums) <= 1e-9 * max(sums), f"{name}: {sums}"
        wall, cpu = (statistics.median(b[at] / a[at] for a, b in measured) for at in (0, 1))
        for reader, which in (("wavetrain", 0), ("other", 1)):
            columns = list(zip(*(pair[which] for pair in measured)))[:2]
            times = "".join(f" {statistics.median(column):8.4f}" for column in columns)
            ratio = f" {wall:5.2f} {cpu:5.2f}" if which == 0 else ""
            print(f"{name:8} {reader:10}{times}{ratio}", flush=True)


if __name__ == "__main__":
    main()
