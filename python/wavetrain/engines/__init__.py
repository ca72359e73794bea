"""wavetrain inside of engines that people already run: torchrun, MPI, Ray, Dask, Spark, Legate.

    with wavetrain.engines.loader(dataset, batch_size=8, shuffle=True) as loader:
        for batch in loader: ..   # of this rank, as torchrun, mpirun or srun has set it

An engine moves plans and places, never voxels: each worker has a loader that knows its rank, or a
reader, and the engine's checkpoint has the state of a loader. `distributed`, `mpi`, `ray`, `dask`,
`spark` and `legate` are modules, which import their engine once a function is called.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from wavetrain import launchers
from wavetrain._border import short
from wavetrain._dataloader import DataLoader
from wavetrain._shares import Share, shares
from wavetrain.engines._metrics import Metrics, metrics
from wavetrain.engines._sinks import text_of
from wavetrain.epoch import Epoch

if not TYPE_CHECKING:
    from wavetrain._words import fix_of

MODULES = ("distributed", "mpi", "ray", "dask", "spark", "legate")
__all__ = ["Metrics", "Share", "World", "loader", "metrics", "shares", "text_of", "world"]


class World(NamedTuple):
    """Which rank a process is, of how many."""

    rank: int = 0
    world: int = 1
    local_rank: int | None = 0  # on its node; None: its launcher has not set it
    local_world: int | None = 1  # ranks of the node
    node: int | None = 0  # the number of the node
    told_by: str = "nobody"  # the launcher


def world(env: Mapping[str, str] | None = None) -> World:
    """Which rank this process is, as its innermost launcher has set it: torchrun, mpirun of Open
    MPI, MVAPICH, MPICH or Intel MPI, srun. One launcher has set all of it.

    env: variables in the place of os.environ.

    RuntimeError, with the variable to set, if a launcher has set half of it, or no number. So it is
    in a script of a job of several tasks that srun did not start.

    >>> world({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})[:2]
    (3, 4)
    """
    environ = os.environ if env is None else env
    found = launchers.launcher_of(environ)
    if found is None:
        return World()
    rank, count = launchers.who(environ)
    names = found.local_rank, found.local_world
    own: tuple[int, int] | tuple[None, None] = None, None
    if count == 1 or {*names} & {*environ}:
        own = launchers.local(environ)
    return World(rank, count, *own, launchers.node(environ), found.name)


def loader(
    dataset: Any,
    batch_size: int | None = None,
    *,
    world: World | tuple[int, int] | None = None,
    tail: str = "pad",
    **given: Any,
) -> DataLoader:
    """A DataLoader of the batches of this rank::

        with wavetrain.engines.loader(dataset, 8, shuffle=True, seed=1) as loader: ..

    world: a World, or (rank, number of ranks). None: as the launcher has set it. With node="auto"
        the ranks of a node share one pipeline, and the launcher has to set it.
    tail: "pad", all ranks get as many batches, so that nobody waits for the gradients of a rank
        without one; or another one of DataLoader. drop_last=True is "drop".
    given: what else DataLoader takes.
    """
    for name in ("rank", "world"):
        if name in given:
            raise TypeError(f"{name} is not taken: give world=(rank, number of ranks)")
    if isinstance(given.get("sampler"), Epoch):
        raise ValueError(
            "sampler is an Epoch, which has a rank, a world and a tail of its own: give its "
            "numbers, shuffle and seed instead, or give it to wavetrain.DataLoader"
        )
    if given.get("node") is None:
        rank, count = ranks_of(world)
        given |= {"rank": rank, "world": count}
    elif world is not None:
        raise ValueError("node and world are both given: give node, and a launcher sets the world")
    if given.get("batch_sampler") is None:
        given["tail"] = "drop" if given.get("drop_last") and tail == "pad" else tail
    return DataLoader(dataset, batch_size, **given)


def ranks_of(given: Any) -> tuple[int, int]:
    """The rank and the number of ranks."""
    if given is None:
        return launchers.who()
    if not isinstance(given, tuple) or len(pair := cast("Any", given)[:2]) < 2:
        raise TypeError(f"world must be a World or (rank, number of ranks) (got {short(given)})")
    return pair


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in MODULES:
            return importlib.import_module(f"wavetrain.engines.{name}")
        fix = fix_of(name, [*__all__, *MODULES], {}, __name__)
        raise AttributeError(f"wavetrain.engines has no {name}: {fix}")
