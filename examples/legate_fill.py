"""A folder of numbered .npy files, or any array, loaded into memory that a runtime owns.

    legate --cpus 4 examples/legate_fill.py FOLDER      a cupynumeric array, filled tile by tile
    python examples/legate_fill.py FOLDER               the same tiles, by threads, in numpy

A task gets its tile of the output store, and wavetrain writes there: what is not compressed is
read straight into it, and no tile is held a second time. Each process opens one reader, which knows
files and headers from then on; `wavetrain.reader()` has it, so tasks need nothing but a uri.

--tiles N: tiles along the first axis for each processor, so that no processor waits for another.
Prints the array's shape, the sum of its elements, and megabytes a second.
"""

import argparse
import importlib.util
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy

import wavetrain


def fill(target: Any, uri: str, first: int) -> None:
    """The body of the task: rows of the array, from `first` on, as many as the target has."""
    box = [(first, first + target.shape[0]), *((0, extent) for extent in target.shape[1:])]
    wavetrain.reader(max_npy_files=4096).read(uri, box, target)


def tile_rows(rows: int, processors: int, tiles: int) -> int:
    return -(-rows // (processors * tiles))


def by_threads(uri: str, info: wavetrain.ArrayInfo, tiles: int) -> numpy.ndarray:
    """Stands in for the runtime: an array, and a thread for each processor."""
    store = numpy.empty(info.shape, numpy.dtype(info.dtype_name))
    processors = len(os.sched_getaffinity(0))
    step = tile_rows(info.shape[0], processors, tiles)
    with ThreadPoolExecutor(processors) as threads:
        starts = range(0, info.shape[0], step)
        for done in [threads.submit(fill, store[at : at + step], uri, at) for at in starts]:
            done.result()
    return store


def by_legate(uri: str, info: wavetrain.ArrayInfo, tiles: int) -> Any:
    """A manual launch of one task for each tile of a partition, as Legate's loaders do it."""
    import cupynumeric
    from legate.core import TaskContext, VariantCode, as_logical_array, get_legate_runtime
    from legate.core.task import OutputStore, task

    runtime = get_legate_runtime()
    step = tile_rows(info.shape[0], runtime.get_machine().count(), tiles)

    # Legate looks at the annotations of a task, so they are types: this file does not import
    # annotations from __future__, which makes texts of them.
    @task(variants=(VariantCode.CPU, VariantCode.OMP))
    def load_tile(context: TaskContext, target: OutputStore) -> None:
        fill(numpy.asarray(target), uri, context.task_index[0] * step)

    out = cupynumeric.empty(info.shape, dtype=numpy.dtype(info.dtype_name))
    parts = as_logical_array(out).data.partition_by_tiling((step, *info.shape[1:]))
    count = -(-info.shape[0] // step)
    launch = runtime.create_manual_task(load_tile.library, load_tile.task_id, (count,))
    launch.add_output(parts)
    launch.throws_exception(Exception)  # without it an exception of a task ends the process
    launch.execute()
    runtime.issue_execution_fence(block=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("uri", help="a folder of numbered .npy files, or an array")
    parser.add_argument("--tiles", type=int, default=4, help="for each processor (4)")
    options = parser.parse_args()
    info = wavetrain.array_info(options.uri)
    load = by_threads if importlib.util.find_spec("legate") is None else by_legate
    begun = time.monotonic()
    array = load(options.uri, info, options.tiles)
    seconds = time.monotonic() - begun
    print(f"{'x'.join(map(str, array.shape))}, sum {array.sum(dtype='f8'):.6g}, "
          f"{array.nbytes / 1e6 / seconds:.0f} MB/s")  # fmt: skip


if __name__ == "__main__":
    main()
