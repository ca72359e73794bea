"""torch.distributed: the loader of a rank of a process group, and its place in checkpoints.

In: what torchrun has set, or a process group. Out: a DataLoader. It is Stateful, as
torch.distributed.checkpoint has it: `dcp.save({"net": net, "loader": loader})` saves its place, and
`dcp.load` sets it, in any number of ranks. After an elastic restart the program begins anew, loads
the checkpoint, and no sample after it is left out or given twice.
"""

from __future__ import annotations

import importlib
from typing import Any

from wavetrain._dataloader import DataLoader, one_of
from wavetrain.engines import loader as loader_of

__all__ = ["loader", "state_of"]


def loader(
    dataset: Any, batch_size: int | None = None, *, group: Any = None, **given: Any
) -> DataLoader:
    """A DataLoader of this rank of a process group::

        torch.distributed.init_process_group("nccl")
        with wavetrain.engines.distributed.loader(dataset, 8, shuffle=True) as loader: ..

    group: None: that of all ranks; before init_process_group, what the launcher has set. With a
        data parallel group of a mesh, ranks of one model get the same batches.
    given: what else `wavetrain.engines.loader` takes. With tail="short", ranks that wait for each
        other's gradients wait for ever.
    """
    ranks = ranks_of(group)
    if ranks is not None and given.get("node") is None:
        given["world"] = ranks
    return loader_of(dataset, batch_size, **given)


def state_of(loader: DataLoader, group: Any = None) -> dict[str, int]:
    """The place of all ranks, for a checkpoint that one rank writes. All ranks call it together,
    and all get it. ValueError on all of them if they are not at one place: call it after as many
    batches."""
    ranks, mine = ranks_of(group), loader.state_dict()
    if ranks is None:
        return mine
    states: list[Any] = [None] * ranks[1]
    importlib.import_module("torch.distributed").all_gather_object(states, mine, group=group)
    return dict(one_of(states))


def ranks_of(group: Any) -> tuple[int, int] | None:
    """The rank of this process in a group, and the number of ranks; None before there is one."""
    torch: Any = importlib.import_module("torch.distributed")
    if not (torch.is_available() and torch.is_initialized()):
        if group is not None:
            raise RuntimeError("group is given: call torch.distributed.init_process_group first")
        return None
    rank = torch.get_rank(group)
    if rank < 0:
        raise RuntimeError("this process is not in the group: make a loader on its ranks alone")
    return rank, torch.get_world_size(group)
