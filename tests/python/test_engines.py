"""Engines: which rank a process is, loaders of ranks, metrics."""

from __future__ import annotations

import ast
import concurrent.futures
import os
import random
import re
import shutil
import sys

import pytest
from cubes import ROOT, config, run_engine, run_program, wait_until

import wavetrain
import wavetrain.engines as engines
from wavetrain import _stats
from wavetrain.engines import World, world
from wavetrain.epoch import Epoch, Subset

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "PMIX_RANK": "3",
}
BATCH = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_NODEID": "0"}
SRUN = {
    **BATCH,
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, World()),
        (TORCHRUN, (3, 4, 1, 2, None, "torchrun")),
        ({**TORCHRUN, "GROUP_RANK": "1"}, (3, 4, 1, 2, 1, "torchrun")),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2, None, None, None, "torchrun")),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, 0, 1, 0, "torchrun")),
        (OPEN_MPI, (3, 4, 3, 4, 0, "mpirun of Open MPI")),
        (HYDRA, (1, 2, 1, 2, 0, "mpirun of MPICH or Intel MPI")),
        (SRUN, (5, 6, 1, 2, 2, "srun")),
        ({**SRUN, "PMIX_RANK": "5"}, (5, 6, 1, 2, 2, "srun")),  # srun --mpi=pmix
        # One inside of another: a node that only the outer one names is not taken.
        ({**SRUN, **TORCHRUN}, (3, 4, 1, 2, None, "torchrun")),
        ({**SRUN, "RANK": "1", "WORLD_SIZE": "2"}, (1, 2, None, None, None, "torchrun")),
        ({**BATCH, **TORCHRUN}, (3, 4, 1, 2, None, "torchrun")),
        ({**SRUN, **OPEN_MPI}, (3, 4, 3, 4, 0, "mpirun of Open MPI")),
        ({**BATCH, **HYDRA}, (1, 2, 1, 2, 0, "mpirun of MPICH or Intel MPI")),
        ({**SRUN, "PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, None, None, None, HYDRA)),
        ({**BATCH, "SLURM_NTASKS": "1"}, World()),
    ],
)
def test_the_innermost_launcher_sets_all_of_a_world(environ, found):
    made = world(environ)
    wanted = [*found]
    if wanted[-1] is HYDRA:
        wanted[-1] = "mpirun of MPICH or Intel MPI"
    assert [*made] == wanted


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"RANK": "1"}, "set WORLD_SIZE"),
        ({"PMI_RANK": "1", "WORLD_SIZE": "4"}, "set RANK"),
        ({**SRUN, "WORLD_SIZE": "4"}, "set RANK"),
        ({"RANK": "", "WORLD_SIZE": "4"}, "RANK must be a number"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK must be below"),
        ({**TORCHRUN, "LOCAL_RANK": "2"}, "LOCAL_RANK must be below"),
        ({**TORCHRUN, "LOCAL_RANK": ""}, "LOCAL_RANK must be a number"),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, "set LOCAL_RANK"),
        ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-1"}, "engines.mpi.loader"),
        ({**BATCH, "PMIX_RANK": "1"}, "engines.mpi.loader"),
        (BATCH, "start it with srun"),
    ],
)
def test_half_of_a_world_is_an_error_with_the_fix(environ, says):
    with pytest.raises(RuntimeError, match=re.escape(says)):
        world(environ)


# Each process writes a file of its own: a launcher may mix the lines that processes print.
PROGRAM = """
import os
import sys
from pathlib import Path
import wavetrain.engines
Path(sys.argv[1], str(os.getpid())).write_text(repr([*wavetrain.engines.world()]))
"""


def launched(folder, *command):
    """The worlds that the processes of a launcher find."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "worlds").mkdir()
    run_engine(*command, folder / "program.py", folder / "worlds")
    return sorted(ast.literal_eval(file.read_text()) for file in (folder / "worlds").iterdir())


def test_mpirun_sets_the_world(tmp_path):
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun here")
    command = ["mpirun", "--oversubscribe", "-n", "3", sys.executable]
    wanted = [[rank, 3, rank, 3, 0, "mpirun of Open MPI"] for rank in range(3)]
    assert launched(tmp_path, *command) == wanted


def test_torchrun_sets_the_world(tmp_path):
    pytest.importorskip("torch", reason="there is no torch here")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    wanted = [[rank, 2, rank, 2, 0, "torchrun"] for rank in range(2)]
    assert launched(tmp_path, *command) == wanted


# ---- Loaders ------------------------------------------------------------------------------------


class Numbers:
    """Samples without an array."""

    def __init__(self, count=24):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return wavetrain.Sample(boxes=[wavetrain.Box(index)], tag=index)


def settings(**changes):
    fields = (wavetrain.Field("n", (), "i64"),)
    return config(**{"samples_per_batch": 2, "sample_shape": (), "fields": fields, **changes})


def test_ranks_have_equally_many_batches_for_any_shape():
    dice = random.Random(21)
    for _ in range(200):
        samples, batch, count = dice.randint(1, 500), dice.randint(1, 40), dice.randint(1, 16)
        tail, seed = dice.choice(("pad", "drop")), dice.randint(0, 99)
        given = {"config": settings(), "shuffle": dice.random() < 0.5, "seed": seed, "tail": tail}
        taken = [
            engines.loader(Numbers(samples), batch, world=(rank, count), **given)
            for rank in range(count)
        ]
        lengths = {len(each) for each in taken}
        assert len(lengths) == 1, (samples, batch, count, tail)
        place = dice.randint(0, lengths.pop())  # and behind a checkpoint, in another world
        state = taken[0].state_dict() | {"position": min(place * batch * count, samples)}
        other = dice.randint(1, 16)
        left = set()
        for rank in range(other):
            each = engines.loader(Numbers(samples), batch, world=(rank, other), **given)
            each.load_state_dict(state)
            left.add(each.left)
        assert len(left) == 1, (samples, batch, count, other, tail, place)


def test_a_loader_is_of_the_world_of_its_launcher(monkeypatch):
    seen = []
    for rank in range(3):
        for name, value in {"RANK": rank, "WORLD_SIZE": 3}.items():
            monkeypatch.setenv(name, str(value))
        with engines.loader(Numbers(), 2, config=settings(), shuffle=True) as loader:
            for batch in loader:
                seen += batch.info.tags
                batch.release()
    assert sorted(seen) == [*range(24)]
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(RuntimeError, match="WORLD_SIZE"):
        engines.loader(Numbers(), 2, config=settings())


def test_a_loader_takes_what_a_data_loader_takes():
    given = {"config": settings(), "world": World(1, 2)}
    assert len(engines.loader(Numbers(25), 2, **given)) == 7
    assert len(engines.loader(Numbers(25), 2, drop_last=True, **given)) == 6
    assert len(engines.loader(Numbers(25), 2, tail="short", **given)) == 6
    assert len(engines.loader(Numbers(25), 2, sampler=Subset([*range(5)]), **given)) == 2
    with pytest.raises(TypeError, match=r"give world=\(rank, number of ranks\)"):
        engines.loader(Numbers(), 2, rank=1, **given)
    with pytest.raises(ValueError, match="an Epoch, which has a rank"):
        engines.loader(Numbers(), sampler=Epoch(24, batch=2), **given)
    with pytest.raises(TypeError, match="world must be a World or"):
        engines.loader(Numbers(), 2, config=settings(), world=2)
    with pytest.raises(ValueError, match="node and world are both given"):
        engines.loader(Numbers(), 2, node="auto", **given)
    with pytest.raises(ValueError, match="rank must be"):
        engines.loader(Numbers(), 2, config=settings(), world=(2, 2))


def test_ranks_of_a_node_share_one_pipeline(tmp_path):
    program = """
    import os, sys, wavetrain, wavetrain.engines as engines
    sys.path.insert(0, sys.argv[1])
    from test_engines import Numbers, settings
    rank = sys.argv[2]
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_PORT": sys.argv[3]}
    with engines.loader(Numbers(), 2, node="auto", config=settings()) as loader:
        tags = []
        for batch in loader:
            tags += batch.info.tags
            batch.release()
    print(tags)
    """
    tests = ROOT / "tests" / "python"
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(run_program, program, tests, n, os.getpid()) for n in range(2)]
        tags = [eval(run.result().stdout) for run in runs]
    assert sorted(tags[0] + tags[1]) == [*range(24)] and len(tags[0]) == len(tags[1])


# ---- Engines are imported by their functions alone ----------------------------------------------


def test_no_engine_is_imported_before_its_function_is_called():
    done = run_program(
        """
        import sys, pkgutil, importlib, wavetrain.engines as engines
        for module in pkgutil.iter_modules(engines.__path__):
            importlib.import_module(f"wavetrain.engines.{module.name}")
        heavy = "torch mpi4py ray dask distributed pyspark pyarrow legate cupynumeric numpy"
        print([name for name in [*heavy.split(), "prometheus_client"] if name in sys.modules])
        """
    )
    assert done.stdout == "[]\n"


def test_files_of_engines_are_short():
    for path in (ROOT / "python" / "wavetrain" / "engines").glob("*.py"):
        assert len(path.read_text().splitlines()) < 120, path


def test_a_name_that_is_missing_has_a_fix():
    with pytest.raises(AttributeError, match="the nearest name is world"):
        engines.worlds  # noqa: B018


# ---- Metrics ------------------------------------------------------------------------------------


@pytest.fixture
def run():
    """A loader that has popped two batches, of which it holds one."""
    with wavetrain.DataLoader(Numbers(), 2, config=settings()) as loader:
        iteration = iter(loader)
        next(iteration).release()
        held = next(iteration)
        yield loader
        held.release()


def test_figures_have_their_unit_and_kind_in_their_names(run):
    stats = run.pipeline.stats()
    made = stats.as_metrics()
    pattern = r"wavetrain_[a-z0-9_]+"
    assert all(re.fullmatch(pattern, name) and isinstance(made[name], float) for name in made)
    assert not [name for name in made if re.search(r"_ns\b|_ns_|_ms|bytes_[a-z]+_total", name)]
    assert made["wavetrain_samples_pushed_total"] == 24
    assert made["wavetrain_batches_emitted_total"] == 2
    assert made["wavetrain_batches_held"] == 1 and made["wavetrain_oldest_held_seconds"] > 0
    assert made["wavetrain_host_committed_bytes"] == stats.host_bytes_committed > 0
    assert made["wavetrain_pop_wait_seconds_total"] == stats.pop_wait.ms / 1e3
    # Each field is there, or known not to be a figure.
    for field in _stats.dataclasses.fields(stats):
        value = getattr(stats, field.name)
        if isinstance(value, (str, wavetrain.Backend, wavetrain.DeviceDecode)):
            assert field.name in _stats.NOT_METRICS
    assert {*_stats.GAUGES, *_stats.COUNTERS, *_stats.NOT_METRICS} <= {
        field.name for field in _stats.dataclasses.fields(stats)
    }
    counts = sum(4 if isinstance(v, wavetrain.Metric) else len(v) if isinstance(v, dict) else 1
                 for v in vars(stats).values())  # fmt: skip
    assert len(made) == counts - len(_stats.NOT_METRICS) + 2


def test_counters_do_not_fall(run):
    before = run.pipeline.stats().as_metrics()
    for batch in run:
        batch.release()
        after = run.pipeline.stats().as_metrics()
        assert not [n for n in after if n.endswith("_total") and after[n] < before[n]]
        before = after
    assert before["wavetrain_batches_emitted_total"] >= 12


def test_a_function_gets_the_figures_until_it_is_closed(run):
    seen = []
    with engines.metrics(run, seen.append, every_s=0.01) as metrics:
        wait_until(lambda: len(seen) > 2)
        assert metrics.push() == seen[-1] or len(seen) > 3
    count = len(seen)
    metrics.close()
    assert len(seen) == count and seen[0]["wavetrain_samples_pushed_total"] == 24


def test_a_loader_that_is_not_open_has_no_figures_and_stays_closed():
    loader = wavetrain.DataLoader(Numbers(), 2, config=settings())
    with engines.metrics(loader, lambda figures: None, every_s=60) as metrics:
        assert metrics.push() == {} and loader._pipeline is None
        next(iter(loader)).release()
        assert metrics.push()["wavetrain_batches_emitted_total"] == 1
        loader.close()
        assert metrics.push() == {}
        del loader
        assert metrics.push() == {}


def test_a_sink_that_fails_ends_alone(run, recwarn):
    def fails(figures):
        raise OSError("no room")

    metrics = engines.metrics(run, fails, every_s=0.01)
    metrics._thread.join(60)
    metrics.close()
    next(iter(run)).release()
    with pytest.raises(OSError, match="no room"):
        metrics.push()


def test_a_file_has_the_text_of_prometheus(run, tmp_path):
    path = tmp_path / "wavetrain.prom"
    with engines.metrics(run, path, every_s=60) as metrics:
        made = metrics.push()
    text = path.read_text()
    assert text == engines.text_of(made) and os.listdir(tmp_path) == [path.name]
    assert (
        "# TYPE wavetrain_samples_pushed_total counter\nwavetrain_samples_pushed_total 24.0\n"
        in text
    )
    prometheus = pytest.importorskip("prometheus_client.parser", reason="there is no client here")
    families = [*prometheus.text_string_to_metric_families(text)]
    assert len(families) == len(made)


def test_the_registry_of_prometheus_asks_for_the_figures(run):
    client = pytest.importorskip("prometheus_client", reason="there is no prometheus_client here")
    name = "wavetrain_batches_emitted_total"
    with engines.metrics(run, "prometheus") as metrics:
        assert client.REGISTRY.get_sample_value(name) == 2
        metrics.close()
    assert client.REGISTRY.get_sample_value(name) is None


def test_a_sink_that_is_none_is_refused_with_those_that_are(run):
    for sink in ("grafana", None, 5, "wavetrain.txt"):
        with pytest.raises(ValueError, match=r"sink must be a function, 'prometheus'"):
            engines.metrics(run, sink)
    with pytest.raises(ValueError, match="every_s must be above 0"):
        engines.metrics(run, print, every_s=0)
