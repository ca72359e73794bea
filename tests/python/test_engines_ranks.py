"""Ranks of MPI and of torch.distributed: each sample once, also after a crash in another world."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from cubes import run_engine
from engine_data import Rows, settings, write

import wavetrain.engines as engines


def wanted(data):
    return [[number, int(row.sum())] for number, row in enumerate(data)]


def found(folder):
    return sorted(
        each for path in folder.glob("seen-*.json") for each in json.loads(path.read_text())
    )


# ---- MPI ----------------------------------------------------------------------------------------

MPI = """
import json, pathlib, sys
from mpi4py import MPI
import wavetrain.engines as engines
from engine_data import Rows, settings, sums

path, folder, batches = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
comm, state = MPI.COMM_WORLD, folder / "state.json"
told = engines.world()
assert (told.rank, told.world) == (comm.rank, comm.size), told
given = {"config": settings(), "shuffle": True, "seed": 3}
with engines.mpi.loader(Rows(path), 4, comm, **given) as loader:
    if state.exists():
        loader.load_state_dict(json.loads(state.read_text()))
    counts = comm.allgather(loader.left)
    assert len({*counts}) == 1, counts
    seen = []
    for number, batch in enumerate(loader):
        seen += sums(batch)
        if number + 1 == batches:
            break
    place = engines.mpi.state_of(loader, comm)
    if comm.rank == 0:
        state.write_text(json.dumps(place))
        try:
            next(iter(loader)).release()
        except StopIteration:
            pass
    if batches:
        try:
            engines.mpi.state_of(loader, comm)
            raise SystemExit("states that differ were taken")
        except ValueError as error:
            assert "differ" in str(error), error
(folder / f"seen-{comm.size}-{comm.rank}.json").write_text(json.dumps(seen))
"""


def test_ranks_of_a_communicator_go_on_in_another_number(tmp_path):
    pytest.importorskip("mpi4py", reason="there is no mpi4py here: pip install mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun here")
    data = write(tmp_path / "a.npy")
    (tmp_path / "program.py").write_text(MPI)
    for ranks, batches in ((3, 2), (2, 0)):
        command = ["mpirun", "--oversubscribe", "-n", ranks, sys.executable]
        run_engine(*command, tmp_path / "program.py", tmp_path / "a.npy", tmp_path, batches)
    assert found(tmp_path) == wanted(data)


def test_what_is_no_communicator_is_refused(tmp_path):
    write(tmp_path / "a.npy")
    with pytest.raises(TypeError, match=r"comm must be a communicator of mpi4py"):
        engines.mpi.loader(Rows(tmp_path / "a.npy"), 4, "world", config=settings())


# ---- torch.distributed --------------------------------------------------------------------------

TORCH = """
import json, os, pathlib, signal, sys, warnings
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import wavetrain.engines as engines
from engine_data import Rows, settings, sums

path, folder, batches, kills = sys.argv[1], pathlib.Path(sys.argv[2]), *map(int, sys.argv[3:5])
checkpoint = folder / "checkpoint"
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
net = torch.nn.Linear(2, 2)
given = {"config": settings(), "shuffle": True, "seed": 3}
with engines.distributed.loader(Rows(path), 4, **given) as loader:
    assert engines.ranks_of(None) == (rank, world)
    begins = not checkpoint.exists()
    dist.barrier()  # before a rank writes it
    if not begins:
        dcp.load({"net": net, "loader": loader}, checkpoint_id=checkpoint)
    seen = []
    for number, batch in enumerate(loader):
        seen += sums(batch)
        dist.all_reduce(torch.ones(1))  # which waits for ever if a rank has a batch less
        if number + 1 == batches:
            break
        if kills and number == 0 and begins:
            assert engines.distributed.state_of(loader)["position"] == 4 * world
            dcp.save({"net": net, "loader": loader}, checkpoint_id=checkpoint)
            first = folder / f"seen-first-{rank}.json"
            first.write_text(json.dumps(seen))
            dist.barrier()
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    if batches:
        dcp.save({"net": net, "loader": loader}, checkpoint_id=checkpoint)
(folder / f"seen-{world}-{rank}.json").write_text(json.dumps(seen))
dist.destroy_process_group()
"""


def torchrun(folder, ranks, batches, kills):
    (folder / "program.py").write_text(TORCH)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--max-restarts=2", f"--nproc-per-node={ranks}", folder / "program.py"]
    run_engine(*command, folder / "a.npy", folder, batches, kills, timeout=200)


def test_ranks_of_torchrun_go_on_in_another_number(tmp_path):
    pytest.importorskip("torch", reason="there is no torch here")
    data = write(tmp_path / "a.npy")
    torchrun(tmp_path, 2, 3, 0)
    torchrun(tmp_path, 3, 0, 0)
    assert found(tmp_path) == wanted(data)


def test_ranks_that_are_killed_and_started_again_leave_no_sample_out(tmp_path):
    pytest.importorskip("torch", reason="there is no torch here")
    data = write(tmp_path / "a.npy")
    torchrun(tmp_path, 2, 0, 1)
    assert found(tmp_path) == wanted(data)


def test_a_rank_without_torchrun_is_the_only_one(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch.distributed", reason="there is no torch here")
    write(tmp_path / "a.npy")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    loader = engines.distributed.loader(Rows(tmp_path / "a.npy"), 4, config=settings())
    assert len(loader) == 15 and engines.distributed.state_of(loader)["world"] == 1
    with pytest.raises(RuntimeError, match="init_process_group first"):
        engines.distributed.loader(Rows(tmp_path / "a.npy"), 4, group=torch, config=settings())
