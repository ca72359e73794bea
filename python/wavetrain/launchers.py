"""Which rank this process is, by its launcher: torchrun, mpirun or srun.

>>> who({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
(3, 4)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["launcher_of", "local", "node", "who"]


class Launcher(NamedTuple):
    """A launcher, and the variables that it sets for each process."""

    name: str
    rank: str
    world: str  # how many ranks there are
    local_rank: str  # the rank of the process on its node
    local_world: str  # the number of ranks there
    node: str = ""


# The innermost come first: torchrun runs inside of mpirun and of srun, mpirun inside of a job of
# Slurm, and none of them the other way round.
OMPI, MV2 = "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_"
LAUNCHERS = (
    Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    *(
        Launcher(name, *(each + part for part in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")))
        for name, each in (("mpirun of Open MPI", OMPI), ("mpirun of MVAPICH", MV2))
    ),
    Launcher(
        "mpirun of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"
    ),
)
STEP_TASKS = "SLURM_STEP_TASKS_PER_NODE"  # of each node: "4(x2),3" is 4, 4 and 3
SRUN = Launcher(
    "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", STEP_TASKS, "SLURM_NODEID"
)
SPECIAL_STEPS = 2**32 - 16  # from here on: steps of Slurm that srun did not start


def launcher_of(environ: Mapping[str, str] = os.environ) -> Launcher | None:
    """The innermost launcher of this process, which has all of it; None if no launcher began it.
    RuntimeError in a script of sbatch, or a shell of salloc, for several tasks. It is one process,
    and as rank 0 it would do a part of the work, and no process the rest."""
    for launcher in LAUNCHERS:
        if launcher.rank in environ or launcher.world in environ:
            return launcher
    # Scripts of sbatch have rank 0, and their step is none or a special one. A step has a number of
    # tasks of its own, which may be less than the job's.
    step, tasks = "SLURM_STEP_ID", "SLURM_NTASKS"
    if step in environ and number(environ, step) < SPECIAL_STEPS:
        return SRUN if SRUN.world in environ else SRUN._replace(world=tasks)
    if "PMIX_RANK" in environ:  # which srun and mpirun of Open MPI set, too, next to their own
        raise RuntimeError(
            "PMIX_RANK is set, and its launcher sets no number of ranks: set RANK and WORLD_SIZE, "
            "or use wavetrain.engines.mpi.loader, which has both from a communicator"
        )
    if tasks in environ and number(environ, tasks) > 1:
        raise RuntimeError(
            f"{tasks} is {environ[tasks]}, and {step} is not that of a step of srun, so this "
            "process is the only one: start it with srun, or "
            f"unset {tasks} to do all of the work here"
        )
    return None


def who(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The rank of this process, and the number of them; (0, 1) where there is no launcher. One
    launcher gives both, the innermost. RuntimeError if it gives half of it, or no numbers; and in a
    script of a job of several tasks that srun did not start."""
    found = launcher_of(environ)
    return (0, 1) if found is None else told(environ, found.name, found.rank, found.world)


def local(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The rank of this process on its node, and the number of ranks there. RuntimeError if there
    are several ranks, and their launcher has not set how many of them are on a node.

    >>> names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    >>> local(dict(zip(names, "3814")))
    (1, 4)
    """
    found = launcher_of(environ)
    if found is None:
        return 0, 1
    rank, world = found.local_rank, found.local_world
    if found.name != SRUN.name and world in environ:
        return told(environ, found.name, rank, world)
    if who(environ)[1] == 1:
        return 0, 1
    if found.name == SRUN.name:
        tasks = re.findall(r"(\d+)(?:\(x(\d+)\))?", environ.get(world, ""))
        counts = [int(count) for count, nodes in tasks for _ in range(int(nodes or 1))]
        at = node(environ)
        if at is not None and rank in environ and at < len(counts):
            own, count = number(environ, rank), counts[at]
            if own < count:
                return own, count
    raise RuntimeError(
        "no launcher has set which rank of its node this process is: set RANK, WORLD_SIZE, "
        "LOCAL_RANK and LOCAL_WORLD_SIZE, as torchrun does"
    )


def node(environ: Mapping[str, str] = os.environ) -> int | None:
    """The number of this node, from 0 on; None if there are several nodes, and the launcher of
    this process has not set which of them this is."""
    found = launcher_of(environ)
    if found is not None and found.node in environ:
        return number(environ, found.node)
    is_one = found is None or who(environ)[1] == 1
    if not is_one and found is not None and found.local_world in environ:
        is_one = environ[found.local_world] == environ[found.world]
    return 0 if is_one else None


def told(environ: Mapping[str, str], launcher: str, rank: str, world: str) -> tuple[int, int]:
    for name, other in ((rank, world), (world, rank)):
        if name not in environ:
            text = f"{other} is set, and {name} is not, while {launcher} sets both"
            raise RuntimeError(f"{text}: set {name}, or unset {other}")
    found = number(environ, rank), number(environ, world)
    if found[0] >= found[1]:
        raise RuntimeError(f"{rank} must be below {world}, {found[1]} (got {found[0]})")
    return found


def number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    if not (text.isascii() and text.isdigit()):
        raise RuntimeError(f"{name} must be a number (got {text!r}): set it, or unset it")
    return int(text)
