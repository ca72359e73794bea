#!/usr/bin/env python3
"""How long a folder of many numbered .npy files takes to its first batch, and in how much memory.

    python benches/parts.py FOLDER [FILES]      # writes FILES (100,000) files into FOLDER first

Files have 1 to 7 rows of 32 float32, whose values are their places in the whole array. Runs are warm:
the files were just written. Needs the wavetrain package and numpy.
"""

import pathlib
import sys
import time

import numpy as np
import wavetrain

ROW, BATCH = 32, 64


def write(folder: pathlib.Path, files: int) -> int:
    """Writes what is missing; how many rows there are."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = 0
    for number in range(files):
        count = 1 + number % 7
        path = folder / f"part_{number:06}.npy"
        if not path.exists():
            np.save(
                path,
                np.arange(rows * ROW, (rows + count) * ROW, dtype="f4").reshape(
                    count, ROW
                ),
            )
        rows += count
    return rows


def main() -> None:
    folder, files = (
        pathlib.Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 100_000,
    )
    rows, uri = write(folder, files), str(folder)
    first_rows = np.random.default_rng(1).integers(0, rows - 4, BATCH).tolist()
    config = wavetrain.Config(
        samples_per_batch=BATCH, sample_shape=(4, ROW), backend="host", max_npy_files=files
    )
    begun = time.perf_counter()
    with wavetrain.Pipeline(config) as pipeline:
        opened = time.perf_counter()
        pipeline.push(wavetrain.Sample(uri, [(n, n + 4), (0, ROW)]) for n in first_rows)
        batch = next(pipeline.batches()).numpy()
        ended = time.perf_counter()
    want = [
        np.arange(n * ROW, (n + 4) * ROW, dtype="f4").reshape(4, ROW)
        for n in first_rows
    ]
    assert np.array_equal(batch, want)
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    print(f"{files} files, {rows} rows")
    print(f"open {opened - begun:.2f} s, first batch {ended - opened:.2f} s later")
    print(f"most resident memory of the process {int(peak) / 1024:.0f} MiB")


main()
