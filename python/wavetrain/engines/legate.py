"""Legate: an array, or a folder of numbered .npy files, as an array of cuPyNumeric.

In: a uri that all ranks reach. Out: a cupynumeric.ndarray, of which each task has filled one tile:
the reader of its process writes into memory of the runtime, and no tile is held a second time.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from wavetrain._border import whole
from wavetrain.engines import _stored

__all__ = ["load"]


def load(uri: Any, K: int = 1) -> Any:
    """A cupynumeric.ndarray of the array at `uri`: zarr, a .npy file, or a folder of numbered ones,
    which may have uneven rows::

        x = wavetrain.engines.legate.load("shards/part_*.npy")

    K: tiles for each processor. More of them keep processors busy whose tiles are read sooner.

    An exception of a task, as NotFound, is raised here.
    """
    tiles = whole("K", K, 1, 1 << 20)
    numeric: Any = importlib.import_module("cupynumeric")
    core: Any = importlib.import_module("legate.core")
    stored = _stored.Stored(uri)
    out = numeric.empty(stored.shape, dtype=stored.dtype)
    if 0 in stored.shape:
        return out
    runtime = core.get_legate_runtime()
    rows = stored.shape[0] if stored.shape else 1
    step = -(-rows // (tiles * max(1, runtime.get_machine().count())))
    tile = task(stored.uri, step)
    parts = store_of(core, out)
    if stored.shape:  # a store of no axes is not cut
        parts = parts.partition_by_tiling((step, *stored.shape[1:]))
    # As many tasks as tiles: the runtime does not notice if these differ.
    launch = runtime.create_manual_task(tile.library, tile.task_id, (-(-rows // step),))
    launch.add_output(parts)
    launch.throws_exception(Exception)
    launch.execute()
    runtime.issue_execution_fence(block=True)
    return out


def store_of(core: Any, array: Any) -> Any:
    """The store that an array lies in."""
    made = getattr(core, "as_logical_array", None)
    if made is not None:
        return made(array).data
    (found,) = array.__legate_data_interface__["data"].values()  # release 25.8
    return found.data


def fill(number: int, target: Any, uri: str, step: int) -> None:
    """The work of a task: rows from number * step on, as many as the target has."""
    if not target.size:
        return
    box = [(0, extent) for extent in target.shape]
    if box:
        first = number * step
        box[0] = (first, first + target.shape[0])
    _stored.read(uri, box, target)


@functools.lru_cache(64)
def task(uri: str, step: int) -> Any:
    """The task of an array and a number of rows, registered once."""
    core: Any = importlib.import_module("legate.core")
    tasks: Any = importlib.import_module("legate.core.task")
    numpy: Any = importlib.import_module("numpy")

    def load_tile(context: Any, target: Any) -> None:
        fill(context.task_index[0], numpy.asarray(target), uri, step)

    # The decorator looks at these, and annotations of this file are texts.
    types = {"context": core.TaskContext, "target": tasks.OutputStore, "return": None}
    load_tile.__annotations__ = types
    return tasks.task(variants=(core.VariantCode.CPU, core.VariantCode.OMP))(load_tile)
