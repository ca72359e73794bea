"""MPI: the loader of a rank of a communicator, and one place of all ranks.

In: a communicator of mpi4py, so that parts of a job have loaders of their own. Out: a DataLoader.
A program that mpirun starts, and whose ranks are all one job, needs no communicator:
`wavetrain.engines.loader` has the rank from the launcher.
"""

from __future__ import annotations

from typing import Any

from wavetrain._border import short
from wavetrain._dataloader import DataLoader, one_of
from wavetrain._metadata import metadata
from wavetrain.engines import loader as loader_of

__all__ = ["bcast_metadata", "loader", "state_of"]


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


def bcast_metadata(uris: Any, comm: Any, **given: Any) -> bytes:
    """The bytes that `wavetrain.metadata` gives on rank 0, for Config(metadata=..) of all ranks.

    All ranks call it together. An error of rank 0 is raised on all of them. given: what else
    `wavetrain.metadata` takes."""
    found = error = None
    if ranks_of(comm)[0] == 0:
        try:
            found = metadata(uris, **given)
        except Exception as failed:
            error = failed
    found, error = comm.bcast((found, error))
    if error is not None:
        raise error
    return found


def ranks_of(comm: Any) -> tuple[int, int]:
    """The rank of this process in a communicator, and the number of ranks."""
    if not callable(getattr(comm, "Get_rank", None)):
        raise TypeError(
            f"comm must be a communicator of mpi4py, as MPI.COMM_WORLD is (got {short(comm)})"
        )
    return comm.Get_rank(), comm.Get_size()
