"""Ray: a Datasource, a reader in actors, and loaders of Train workers that are killed."""

from __future__ import annotations

import json

import pytest
from cubes import run_engine
from engine_data import write

pytest.importorskip("ray", reason="there is no ray here: tools/engines.sh")

START = """
import json, os, pathlib, signal, sys
os.environ |= {"RAY_TRAIN_ENABLE_PRINT_PATCH": "0", "RAY_USAGE_STATS_ENABLED": "0"}
import numpy, ray, ray.data
import wavetrain, wavetrain.engines as engines
from engine_data import Rows, settings, sums

path, folder = sys.argv[1], pathlib.Path(sys.argv[2])
variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
ray.init(
    num_cpus=4, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False,
    object_store_memory=200 << 20, runtime_env={"env_vars": variables},
)
rows = Rows(path)
"""

DATA = """
class Killing(Rows):
    def __getitem__(self, index):
        if index == 33 and os.environ.get("KILLS"):
            try:
                (folder / "killed").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return super().__getitem__(index)

    def __reduce__(self):
        os.environ["KILLS"] = ""
        return made, (self.path,)


def made(path):
    os.environ["KILLS"] = "1"
    return Killing(path)


source = engines.ray.datasource(Killing(path), settings())
assert source.estimate_inmemory_data_size() == len(rows) * 5 * 8
found = {}
for batch in ray.data.read_datasource(source, override_num_blocks=5).iter_batches(batch_size=7):
    assert batch["x"].shape[1:] == (1, 5) and batch["x"].dtype == "i8"
    found |= {int(tag): x.tolist() for tag, x in zip(batch["tag"], batch["x"])}
mapped = ray.data.range(len(rows)).map_batches(
    engines.ray.Reader, fn_constructor_args=(rows, settings()), batch_size=9, concurrency=1
)
read = {row["id"]: row["x"].tolist() for row in mapped.take_all()}
try:
    ray.data.read_datasource(engines.ray.datasource(rows, settings(sample_shape=(1, 4)))).count()
    ray.data.read_datasource(engines.ray.datasource(rows, settings(sample_shape=(1, 4)))).take_all()
except Exception as error:
    error = error.cause if hasattr(error, "cause") else error
    print(isinstance(error, wavetrain.WavetrainError), type(error).__name__)
(folder / "found.json").write_text(json.dumps([sorted(found.items()), sorted(read.items())]))
ray.shutdown()
"""


def run(program, *arguments, path):
    (path / "program.py").write_text(START + program)
    return run_engine(path / "program.py", path / "a.npy", path, *arguments, timeout=280)


def test_blocks_and_actors_read_each_sample_once(tmp_path):
    data = write(tmp_path / "a.npy")
    done = run(DATA, path=tmp_path)
    assert (tmp_path / "killed").exists()
    wanted = [[number, [row.tolist()]] for number, row in enumerate(data)]
    assert json.loads((tmp_path / "found.json").read_text()) == [wanted, wanted], done.stdout


TRAIN = """
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # TorchTrainer without torch


def train(told):
    import ray.train
    rank, world = (ray.train.get_context().get_world_rank(), told["world"])
    with engines.ray.loader(Rows(path), 4, config=settings(), shuffle=True, seed=3) as loader:
        sink = engines.metrics(loader, "ray", every_s=60)
        for number, batch in enumerate(loader):
            seen = sums(batch)
            assert sink.push()["wavetrain_batches_emitted_total"] == number + 1
            position = loader.state_dict()["position"]
            if position == told["kill_at"] and rank == 1:
                try:
                    (folder / "killed").touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass
            engines.ray.report({"position": position}, loader)
            (folder / f"seen-{position}-{rank}.json").write_text(json.dumps(seen))
            if position == told["stop_at"]:
                break
        sink.close()


for world, kill_at, stop_at in ((2, 16, 24), (3, 0, 0)):
    trainer = DataParallelTrainer(
        train,
        train_loop_config={"world": world, "kill_at": kill_at, "stop_at": stop_at},
        scaling_config=ScalingConfig(num_workers=world),
        run_config=RunConfig(
            name="places", storage_path=str(folder / "runs"), failure_config=FailureConfig(2)
        ),
    )
    print(trainer.fit().metrics)
ray.shutdown()
"""


def test_workers_that_are_killed_leave_no_sample_out(tmp_path):
    data = write(tmp_path / "a.npy")
    done = run(TRAIN, path=tmp_path)
    assert (tmp_path / "killed").exists(), done.stdout
    seen = [each for path in tmp_path.glob("seen-*.json") for each in json.loads(path.read_text())]
    assert sorted(seen) == [[number, int(row.sum())] for number, row in enumerate(data)]
