"""legate_tiles.py FOLDER [ROUNDS]: arrays of cuPyNumeric, beside tasks of numpy and zarr-python.

    legate --cpus 2 --gpus 0 --sysmem 3000 benches/legate_tiles.py FOLDER

tools/engines.sh has what Legate needs where there is no CUDA.

Each reader is a task for each tile, which fills its part of the store in place: numpy copies out of
a memory map of each file, zarr-python reads a selection. Readers take turns; a row has the medians
of the wall and CPU seconds of the process, and wavetrain's speed as a ratio of the other's.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import cupynumeric
import legate.core as core
import numpy
import zarr
from legate.core.task import OutputStore, task

from wavetrain.engines import legate as engine

ROWS, FILES, TILES = 24_000, 12, 4


def write(folder: Path) -> None:
    random = numpy.random.default_rng(5)
    for name, width in (("narrow", 256), ("wide", 2048)):
        (folder / name).mkdir(parents=True)
        rows = ROWS * 256 // width // FILES
        for number in range(FILES):
            part = random.random((rows, width), "f4")
            numpy.save(folder / name / f"part_{number:03d}.npy", part)
    volume = random.integers(0, 300, (256, 256, 256), "u2")
    array = zarr.create_array(
        folder / "volume.zarr", shape=volume.shape, chunks=(32,) * 3, shards=(64, 128, 128),
        dtype="u2",
    )  # fmt: skip
    array[...] = volume


def by_tiles(shape: tuple[int, ...], dtype: str, read):
    """Fills an array by `read(first row, target)` in a task for each tile."""
    step = -(-shape[0] // TILES)

    def tile(context, target) -> None:
        made = numpy.asarray(target)
        read(context.task_index[0] * step, made)

    tile.__annotations__ = {"context": core.TaskContext, "target": OutputStore, "return": None}
    made = task(variants=(core.VariantCode.CPU,))(tile)
    runtime = core.get_legate_runtime()

    def run():
        out = cupynumeric.empty(shape, dtype=dtype)
        parts = engine.store_of(core, out).partition_by_tiling((step, *shape[1:]))
        launch = runtime.create_manual_task(made.library, made.task_id, (-(-shape[0] // step),))
        launch.add_output(parts)
        launch.execute()
        runtime.issue_execution_fence(block=True)
        return out

    return run


def by_numpy(folder: Path):
    files = sorted(folder.glob("*.npy"))
    rows, width = numpy.load(files[0], mmap_mode="r").shape

    def read(first: int, target: numpy.ndarray) -> None:
        at = 0
        while at < len(target):
            number, row = divmod(first + at, rows)
            part = numpy.load(files[number], mmap_mode="r")[row : row + len(target) - at]
            target[at : at + len(part)] = part
            at += len(part)

    return by_tiles((rows * len(files), width), "f4", read)


def by_zarr(path: Path):
    array = zarr.open_array(path, mode="r")

    def read(first: int, target: numpy.ndarray) -> None:
        target[...] = array[first : first + len(target)]

    return by_tiles(array.shape, "u2", read)


def measure(run) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 9
    if not (folder / "volume.zarr").exists():
        write(folder)
    per_processor = TILES // max(1, core.get_legate_runtime().get_machine().count())
    print(f"{'case':8} {'reader':10} {'wall s':>8} {'CPU s':>8} {'ratio':>12}")
    for name in ("narrow", "wide", "volume.zarr"):
        uri = folder / name
        other = by_zarr(uri) if name.endswith(".zarr") else by_numpy(uri)

        def own(uri=uri):
            return engine.load(os.fspath(uri), per_processor)

        assert (numpy.asarray(own()) == numpy.asarray(other())).all(), name
        pairs = [(measure(own), measure(other)) for _ in range(rounds)]
        wall, cpu = (statistics.median(b[at] / a[at] for a, b in pairs) for at in (0, 1))
        for reader, which in (("wavetrain", 0), ("other", 1)):
            columns = zip(*(pair[which] for pair in pairs))
            times = "".join(f" {statistics.median(column):8.4f}" for column in columns)
            ratio = f" {wall:5.2f} {cpu:5.2f}" if which == 0 else ""
            print(f"{name:8.8} {reader:10}{times}{ratio}", flush=True)


if __name__ == "__main__":
    main()
