"""Which rank this process is, as its launcher says: torchrun, mpirun or srun.

>>> who({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
(3, 4)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

__all__ = ["local", "who"]

# Launchers, and the variables that they set for each process: its rank, and how many there are.
# The innermost come first: torchrun runs inside of mpirun and of srun, mpirun inside of a job of
# Slurm, and none of them the other way round.
LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpirun of MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("mpirun of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE"),
)
SPECIAL_STEPS = 2**32 - 16  # from here on: steps of Slurm that srun did not start


def who(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The rank of this process, and the number of them; (0, 1) where there is no launcher. One
    launcher says both, the innermost. RuntimeError where it says half of it, or no numbers; and in
    a script of sbatch, or a shell of salloc, for several tasks: it is one process, and as rank 0 it
    would do a part of the work, and nobody the rest."""
    for launcher, rank, world in LAUNCHERS:
        if rank in environ or world in environ:
            return told(environ, launcher, rank, world)
    # Scripts of sbatch have rank 0, and their step is none or a special one. A step has a number of
    # tasks of its own, which may be less than the job's.
    step, tasks = "SLURM_STEP_ID", "SLURM_NTASKS"
    if step in environ and number(environ, step) < SPECIAL_STEPS:
        own = "SLURM_STEP_NUM_TASKS"
        return told(environ, "srun", "SLURM_PROCID", tasks if own not in environ else own)
    if tasks in environ and number(environ, tasks) > 1:
        raise RuntimeError(
            f"{tasks} is {environ[tasks]}, and srun did not start this process, which is the only "
            f"one then: start it with srun, or unset {tasks} to do all of the work here"
        )
    return 0, 1


# Their variables for a node: the rank of a process there, and the number of processes.
LOCAL = (
    ("torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("mpirun of Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("mpirun of MVAPICH", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("mpirun of MPICH or Intel MPI", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


def local(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The rank of this process on its node, and the number of ranks there. RuntimeError if there
    are several ranks, and no launcher has set how many of them are on a node.

    >>> local({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"})
    (1, 4)
    """
    for launcher, rank, world in LOCAL:
        if world in environ:
            return told(environ, launcher, rank, world)
    if who(environ)[1] == 1:
        return 0, 1
    # Slurm has a list of nodes: "4(x2),3" is 4, 4 and 3.
    tasks = re.findall(r"(\d+)(?:\(x(\d+)\))?", environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    counts = [int(count) for count, nodes in tasks for _ in range(int(nodes or 1))]
    node, rank = "SLURM_NODEID", "SLURM_LOCALID"
    if node in environ and rank in environ and number(environ, node) < len(counts):
        own, count = number(environ, rank), counts[number(environ, node)]
        if own < count:
            return own, count
    raise RuntimeError(
        "no launcher has set which rank of its node this process is: set LOCAL_RANK and "
        "LOCAL_WORLD_SIZE, as torchrun does"
    )


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
