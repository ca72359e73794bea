"""Many ranks: what a launcher says of them, and the place that all of them go on from."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy
import pytest
from cubes import ROOT, config

import wavetrain
from wavetrain import Field
from wavetrain.epoch import Epoch, State
from wavetrain.launchers import local, who

EXAMPLE = ROOT / "examples" / "parallel_load.py"

# ---- Launchers ----------------------------------------------------------------------------------

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "none"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
MPICH = {"PMI_RANK": "5", "PMI_SIZE": "6"}
MVAPICH = {"MV2_COMM_WORLD_RANK": "6", "MV2_COMM_WORLD_SIZE": "9"}
JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_NPROCS": "8"}
BATCH = {**JOB, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
SRUN = {**JOB, "SLURM_PROCID": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"}
SLURM_NODE = {"SLURM_NODEID": "0", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}
LAST_STEPS = [str(2**32 - number) for number in range(3, 7)]  # batch, extern, interactive ..


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, (0, 1)),
        ({"PATH": "/bin", "LOCAL_RANK": "1"}, (0, 1)),
        (TORCHRUN, (3, 4)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
        (OPEN_MPI, (1, 2)),
        (MPICH, (5, 6)),
        (MVAPICH, (6, 9)),
        (SRUN, (2, 8)),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "3"}, (2, 3)),  # of a step of a larger job
        ({**{k: v for k, v in SRUN.items() if k != "SLURM_STEP_NUM_TASKS"}}, (2, 8)),
        # One inside of another.
        ({**SRUN, **TORCHRUN}, (3, 4)),
        ({**BATCH, **TORCHRUN}, (3, 4)),
        ({**OPEN_MPI, **TORCHRUN}, (3, 4)),
        ({**MPICH, **TORCHRUN}, (3, 4)),
        ({**BATCH, **OPEN_MPI}, (1, 2)),
        ({**SRUN, **OPEN_MPI}, (1, 2)),
        ({**SRUN, **MPICH}, (5, 6)),
        ({**JOB, **OPEN_MPI}, (1, 2)),
        ({**SRUN, **OPEN_MPI, **TORCHRUN}, (3, 4)),
        # Jobs of one task, and shells of one.
        ({**BATCH, "SLURM_NTASKS": "1", "SLURM_NPROCS": "1"}, (0, 1)),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}, (0, 1)),
        ({**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (0, 1)),
    ],
)
def test_the_innermost_launcher_says_all(environ, found):
    assert who(environ) == found


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"RANK": "1"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "4"}, "RANK"),
        ({**SRUN, "WORLD_SIZE": "4"}, "RANK"),
        ({**SRUN, "RANK": "1"}, "WORLD_SIZE"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_SIZE"),
        ({"OMPI_COMM_WORLD_RANK": "1", "WORLD_SIZE": "4"}, "RANK"),
        ({"OMPI_COMM_WORLD_SIZE": "4", "PMI_RANK": "1"}, "OMPI_COMM_WORLD_RANK"),
        ({"PMI_SIZE": "4"}, "PMI_RANK"),
        ({"MV2_COMM_WORLD_SIZE": "4"}, "MV2_COMM_WORLD_RANK"),
        ({"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"}, "SLURM_PROCID"),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "4"}, "SLURM_NTASKS"),
        # Scripts and shells of a job of many tasks, which srun did not start.
        (BATCH, "srun"),
        (JOB, "srun"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, "srun"),
        *[({**BATCH, "SLURM_STEP_ID": step}, "srun") for step in LAST_STEPS],
        # Values that are not a rank or a world.
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK"),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "RANK"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK"),
        ({"RANK": "one", "WORLD_SIZE": "4"}, "RANK"),
        ({"RANK": "1", "WORLD_SIZE": "4x"}, "WORLD_SIZE"),
        ({"RANK": "", "WORLD_SIZE": "4"}, "RANK"),
        ({**BATCH, "SLURM_NTASKS": "many"}, "SLURM_NTASKS"),
    ],
)
def test_half_of_what_a_launcher_says_is_an_error(environ, says):
    with pytest.raises(RuntimeError) as caught:
        who(environ)
    assert says in str(caught.value) and len(str(caught.value)) > 30


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, (0, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "2"}, (1, 2)),
        ({**SRUN, **TORCHRUN, "LOCAL_WORLD_SIZE": "2"}, (1, 2)),
        ({**MPICH, "MPI_LOCALRANKID": "2", "MPI_LOCALNRANKS": "3"}, (2, 3)),
        ({**SRUN, **SLURM_NODE, "SLURM_NODEID": "1"}, (1, 4)),
        ({**SRUN, **SLURM_NODE, "SLURM_NODEID": "2"}, (1, 3)),
        ({**SRUN, **SLURM_NODE, "SLURM_STEP_TASKS_PER_NODE": "8"}, (1, 8)),
        (TORCHRUN, None),
        (MPICH, None),
        (SRUN, None),
        ({**SRUN, **SLURM_NODE, "SLURM_NODEID": "3"}, None),
        ({**SRUN, **SLURM_NODE, "SLURM_LOCALID": "4"}, None),
        ({**SRUN, **SLURM_NODE, "SLURM_STEP_TASKS_PER_NODE": "many"}, None),
    ],
)
def test_the_rank_of_a_node_is_what_a_launcher_set_or_an_error(environ, found):
    if found is None:
        with pytest.raises(RuntimeError, match="LOCAL_RANK"):
            local(environ)
    else:
        assert local(environ) == found


def clean():
    gone = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_", "PMI_", "MV2_", "SLURM_")
    return {name: value for name, value in os.environ.items() if not name.startswith(gone)}


def run(*arguments, **environ):
    path = str(ROOT / "python")
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", *map(str, arguments)],
        env={**clean(), "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_script_of_a_job_that_srun_did_not_start_loads_nothing(tmp_path):
    numpy.save(tmp_path / "part_0.npy", numpy.arange(64).reshape(16, 4))
    done = run(EXAMPLE, tmp_path, **BATCH)
    assert done.returncode != 0 and not done.stdout and "srun" in done.stderr
    found = [run(EXAMPLE, tmp_path, **{**SRUN, **TORCHRUN, "RANK": str(n)}) for n in range(4)]
    assert [done.returncode for done in found] == [0] * 4
    rows = [done.stdout.split(",")[0] for done in found]
    assert rows == [f"rank {n}: rows {4 * n} to {4 * n + 4}" for n in range(4)]


# ---- Places -------------------------------------------------------------------------------------


class Numbers:
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return wavetrain.Sample(boxes=[wavetrain.Box(index)], tag=index)


@pytest.fixture
def loaders():
    """The ranks of a world."""
    opened = []

    def make(world, **changes):
        settings = config(samples_per_batch=2, sample_shape=(), fields=(Field("n", (), "i64"),))
        plain = {"seed": 1, "shuffle": True, "config": settings, "world": world}
        made = [
            wavetrain.DataLoader(Numbers(), 2, rank=rank, **{**plain, **changes})
            for rank in range(world)
        ]
        opened.extend(made)
        return made

    yield make
    for each in opened:
        each.close()


def take(loader, count):
    iteration, found = iter(loader), []
    for _ in range(count):
        with next(iteration) as batch:
            found += batch.info.tags
    return found


def test_the_states_of_all_ranks_are_one_place(loaders):
    ranks = loaders(3)
    before = [tag for rank in ranks for tag in take(rank, 2)]
    states = [rank.state_dict() for rank in ranks]
    for given in (states, tuple(states), states[0], json.loads(json.dumps(states)), states[:1]):
        others = loaders(2)
        for rank in others:
            rank.load_state_dict(given)
            assert rank.state_dict() == {**states[0], "world": 2}
        after = [tag for rank in others for tag in take(rank, rank.left)]
        assert sorted(before + after) == [*range(24)]


def test_states_of_another_kind_are_taken_in_a_list_too(loaders):
    order = Epoch(24, seed=1, shuffle=True, batch=2)
    order.take()
    order.take()
    (loader,) = loaders(1)
    for given in (order.state, [order.state] * 2, order.state.pack(), [order.state.pack()] * 2):
        loader.load_state_dict(given)
        assert loader.state_dict()["position"] == 2
    assert isinstance(order.state, State)
    with pytest.raises(ValueError, match=r"position 2, .*position 0"):
        loader.load_state_dict([order.state, Epoch(24, seed=1, shuffle=True, batch=2).state_dict()])


def test_states_that_differ_are_refused_with_both_places(loaders):
    ranks = loaders(3)
    for rank, count in zip(ranks, (2, 2, 3)):
        take(rank, count)
    states = [rank.state_dict() for rank in ranks]
    (loader,) = loaders(1)
    before = loader.state_dict()
    places = r"rank 0 .*epoch 0, position 12.*rank 2 .*epoch 0, position 18"
    for given in (states, tuple(states)):
        with pytest.raises(ValueError, match=places) as caught:
            loader.load_state_dict(given)
        assert "save" in str(caught.value)
    assert loader.state_dict() == before
    first, second = loaders(2)
    take(first, first.left)
    for batch in second:
        batch.release()
    states = [first.state_dict(), second.state_dict()]
    with pytest.raises(ValueError, match=r"epoch 0, position 24.*epoch 1, position 0"):
        loader.load_state_dict(states)


def test_states_of_other_orders_are_refused_with_what_differs(loaders):
    states = [loaders(1)[0].state_dict(), loaders(1, seed=2)[0].state_dict()]
    (loader,) = loaders(1)
    with pytest.raises(ValueError, match="seed"):
        loader.load_state_dict(states)
    with pytest.raises(ValueError, match="world"):
        loader.load_state_dict([states[0], {**states[0], "world": 5}])


@pytest.mark.parametrize("given", [[], (), [None], [5], ["state"], [[{}]], "state", None, 5, [{}]])
def test_what_is_no_state_is_refused(loaders, given):
    (loader,) = loaders(1)
    with pytest.raises((TypeError, ValueError), match="state"):
        loader.load_state_dict(given)


# ---- The example --------------------------------------------------------------------------------


def test_ranks_gather_one_place_and_go_on_in_another_number(tmp_path):
    """Killed and gone on with by other numbers of ranks, all tiles come once."""
    data = numpy.arange(96 * 80, dtype="u2").reshape(96, 80)  # 30 tiles
    numpy.save(tmp_path / "a.npy", data)
    example, state = ROOT / "examples" / "checkpoint_ranks.py", tmp_path / "state.json"
    totals = []
    for ranks, batches in ((3, 2), (1, 4), (2, 0)):
        limit = [batches] if batches else []
        done = run(example, tmp_path / "a.npy", state, ranks, *limit)
        assert done.returncode == 0, done.stderr
        assert bool(done.stdout) == (not batches)
        totals.append(json.loads(state.read_text())["total"])
    assert totals == sorted(totals)
    done = run(example, tmp_path / "a.npy", tmp_path / "other.json", 1)
    assert done.stdout == f"all tiles, twice: sum {2 * int(data.astype('u8').sum())}\n"
    assert totals[-1] == json.loads((tmp_path / "other.json").read_text())["total"]
    saved = json.loads(state.read_text())
    saved["places"][1]["position"] += 1
    state.write_text(json.dumps(saved))
    done = run(example, tmp_path / "a.npy", state, 1)
    assert done.returncode != 0 and "the states of the ranks differ" in done.stderr
