"""MPI: the loader of a rank of a communicator, and one place of all ranks.

In: a communicator of mpi4py, so that parts of a job have loaders of their own. Out: a DataLoader.
A program that mpirun starts, and whose ranks are all one job, needs no communicator:
`wavetrain.engines.loader` has the rank from the launcher.
"""

from __future__ import annotations

from typing import Any

from wavetrain._border import short
from wavetrain._dataloader import DataLoader, one_of
from wavetrain.engines import loader as loader_of

__all__ = ["loader", "state_of"]


def loader(dataset: Any, batch_size: int | None, comm: Any, **given: Any) -> DataLoader:
    """A DataLoader of this rank of a communicator::

        with wavetrain.engines.mpi.loader(dataset, 8, MPI.COMM_WORLD, shuffle=True) as loader: ..

    comm: of mpi4py. given: what else `wavetrain.engines.loader` takes.
    """
    return loader_of(dataset, batch_size, world=ranks_of(comm), **given)


def state_of(loader: DataLoader, comm: Any) -> dict[str, int]:
    """The place of all ranks, for a checkpoint. All ranks call it together, and all get it.
    ValueError on all of them if they are not at one place: call it after as many batches."""
    ranks_of(comm)
    return dict(one_of(comm.allgather(loader.state_dict())))


def ranks_of(comm: Any) -> tuple[int, int]:
    """The rank of this process in a communicator, and the number of ranks."""
    if not callable(getattr(comm, "Get_rank", None)):
        raise TypeError(
            f"comm must be a communicator of mpi4py, as MPI.COMM_WORLD is (got {short(comm)})"
        )
    return comm.Get_rank(), comm.Get_size()
