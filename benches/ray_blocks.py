"""ray_blocks.py FOLDER [ROUNDS]: blocks of Ray Data by wavetrain, next to read_zarr and read_numpy.

    WAVETRAIN_LIBRARY=.. PYTHONPATH=python python benches/ray_blocks.py FOLDER 7

64 boxes of 64^3 u16: chunks of zarr v2 next to ray.data.read_zarr, which reads no v3; the same of
v3 in shards; and files of .npy next to read_numpy. Each is read in Ray's tasks and summed there.
Readers take turns on two CPUs of one cluster; a row has medians of wall seconds, and of the pairs
how many times as fast wavetrain is. FOLDER is written by zarr-python 3, and read_zarr needs 2: write
it with ROUNDS = 0 first.
"""

from __future__ import annotations

import itertools
import logging
import os
import statistics
import sys
import time
from pathlib import Path

import numpy
import ray

import wavetrain
from wavetrain import engines

EDGE, SIZE = 64, 256
CORNERS = [*itertools.product(range(0, SIZE, EDGE), repeat=3)]


class Boxes:
    """A sample for each chunk of an array, or for each of numbered files."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __len__(self) -> int:
        return len(CORNERS)

    def __getitem__(self, number: int) -> wavetrain.Sample:
        if self.uri.endswith("files"):
            box = [(number, number + 1), (0, EDGE), (0, EDGE), (0, EDGE)]
            return wavetrain.Sample(f"{self.uri}/*.npy", box)
        return wavetrain.Sample(self.uri, [(at, at + EDGE) for at in CORNERS[number]])


def write(folder: Path) -> None:
    import zarr

    volume = numpy.random.default_rng(5).integers(0, 300, (SIZE,) * 3, "u2")
    for version, more in ((2, {}), (3, {"shards": (2 * EDGE,) * 3})):
        group = zarr.open_group(folder / f"v{version}.zarr", mode="w", zarr_format=version)
        array = group.create_array(
            "volume", shape=volume.shape, chunks=(EDGE,) * 3, dtype="u2", **more
        )
        array[...] = volume
    (folder / "files").mkdir()
    for number, (z, y, x) in enumerate(CORNERS):
        part = volume[z : z + EDGE, y : y + EDGE, x : x + EDGE]
        numpy.save(folder / f"files/{number:03d}.npy", part[None])


def sums(batch: dict[str, numpy.ndarray]) -> dict[str, list[int]]:
    blocks = batch.get("x", batch.get("chunk", batch.get("data")))
    return {"sum": [sum(int(block.sum(dtype="u8")) for block in blocks)]}


def measure(made: ray.data.Dataset) -> tuple[float, int]:
    wall = time.perf_counter()
    total = sum(row["sum"] for row in made.map_batches(sums, batch_size=8).iter_rows())
    return time.perf_counter() - wall, total


def own(uri: Path) -> ray.data.Dataset:
    config = wavetrain.Config(
        samples_per_batch=8, sample_shape=(EDGE,) * 3, dtype="u16", backend="host", max_npy_files=64
    )
    return ray.data.read_datasource(engines.ray.datasource(Boxes(os.fspath(uri)), config))


def main() -> None:
    folder, rounds = Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 7
    if not (folder / "files").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)
    if rounds == 0:
        return
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    v2, files = folder / "v2.zarr", folder / "files"
    zarr_v2 = {"array_paths": ["volume"], "allow_full_metadata_scan": True}
    cases = {
        "v2": (lambda: own(v2 / "volume"), lambda: ray.data.read_zarr(os.fspath(v2), **zarr_v2)),
        "v3": (lambda: own(folder / "v3.zarr/volume"), None),
        "files": (lambda: own(files), lambda: ray.data.read_numpy(os.fspath(files))),
    }
    print(f"{'case':6} {'wavetrain s':>12} {'other s':>9} {'ratio':>6}", flush=True)
    for name, readers in cases.items():
        turns = [[measure(made()) for made in readers if made] for _ in range(rounds + 1)][1:]
        totals = {total for turn in turns for _, total in turn}
        assert len(totals) == 1, f"{name}: {totals}"
        times = [statistics.median(turn[at][0] for turn in turns) for at in range(len(turns[0]))]
        other = f"{times[1]:9.3f}" if len(times) > 1 else f"{'-':>9}"
        ratio = statistics.median(turn[-1][0] / turn[0][0] for turn in turns)
        print(f"{name:6} {times[0]:12.3f} {other} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
