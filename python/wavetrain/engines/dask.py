"""Dask: arrays whose blocks are read by the workers, each by the one reader of its process.

In: a uri, and how to cut it. Out: a dask.array.Array. A slice of it reads what the slice needs
alone. For random crops, and for training, make a `wavetrain.engines.loader` in a task instead:
a task for each crop costs more than the crop.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from wavetrain._border import short
from wavetrain._info import array_info
from wavetrain.engines import _stored

__all__ = ["Plugin", "from_array"]


def from_array(uri: Any, chunks: Any = "shard", client: Any = None) -> Any:
    """A dask.array.Array of an array at `uri`, that workers can reach by the same name::

        x = wavetrain.engines.dask.from_array("cells.zarr/0")
        mean = x[:100].mean().compute()

    chunks: "shard": a block for each shard, which is the fast one. "file": for each file, so that
        blocks of a folder of numbered .npy files have the rows of these. "chunk": for each chunk of
        the store, of which the scheduler handles some hundred a second. "auto": whole shards of
        Dask's array.chunk-size. Or what Dask takes, as (64, 128, 128).
    client: a Client, on whose workers the `Plugin` is registered. None: readers have the threads
        of the CPUs that the worker may use.
    """
    array: Any = importlib.import_module("dask.array")
    stored = _stored.Stored(uri)
    if client is not None:
        client.register_plugin(plugin()())
    blocks = chunks_of(stored, chunks, array)
    # The array is in each task: a task that a worker dies in needs nothing else of it.
    return array.from_array(
        stored, blocks, asarray=False, fancy=False, lock=False, inline_array=True
    )


def chunks_of(stored: _stored.Stored, given: Any, array: Any) -> Any:
    """Chunks as Dask takes them."""
    if not isinstance(given, str):
        return given
    info = array_info(stored.uri)
    if given == "auto":
        normal: Any = array.core.normalize_chunks
        edges = {"previous_chunks": info.file_shape, "dtype": stored.dtype}
        return normal("auto", stored.shape, **edges)
    if given == "file":
        rows = _stored.rows_of_files(stored.uri)
        return info.file_shape if rows is None else (tuple(rows), *stored.shape[1:])
    if given in ("shard", "chunk"):
        return info.file_shape if given == "shard" else info.chunk_shape
    raise ValueError(
        f"chunks must be 'shard', 'file', 'chunk', 'auto' or extents (got {short(given)})"
    )


if TYPE_CHECKING:

    class Plugin:
        """Opens the readers of a worker with its number of threads, and closes them at its end::

            client.register_plugin(wavetrain.engines.dask.Plugin())

        threads: that decode, in each worker. None: as many as the worker runs tasks at a time."""

        name: str

        def __init__(self, threads: int | None = None) -> None: ...

else:

    def __getattr__(name: str) -> Any:
        if name != "Plugin":
            raise AttributeError(f"{__name__} has no {name}: it has from_array and Plugin")
        return plugin()


@functools.cache
def plugin() -> Any:
    """The class Plugin, which is made of Dask's once that is needed."""
    base: Any = importlib.import_module("distributed").WorkerPlugin

    class Plugin(base):
        name = "wavetrain"

        def __init__(self, threads: int | None = None) -> None:
            self.threads = threads

        def setup(self, worker: Any) -> None:
            count = self.threads or worker.state.nthreads
            _stored.settings |= {"n_decode_threads": count, "n_readers": max(count, 2)}

        def teardown(self, worker: Any) -> None:
            _stored.settings.clear()

    Plugin.__qualname__ = "Plugin"  # by which workers find it
    return Plugin
