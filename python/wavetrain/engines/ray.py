"""Ray: a loader in each Train worker, a Datasource, and a reader for map_batches.

In: a data set of samples. Out: batches in the worker that trains, which is the fast way, because no
voxel passes through Ray's object store. Or blocks of a ray.data.Dataset, with a column "tag" and
one for each field ("x" if the config has none).
"""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

from wavetrain._config import Config
from wavetrain._dataloader import DataLoader
from wavetrain.engines import _ray_source, _tasks
from wavetrain.engines import loader as loader_of

__all__ = ["Reader", "datasource", "loader", "report"]

NAME = "wavetrain.json"  # in a checkpoint


def loader(dataset: Any, batch_size: int | None = None, **given: Any) -> DataLoader:
    """A DataLoader of this worker of Ray Train, at the place of the newest checkpoint that `report`
    wrote, also if that was in another number of workers::

        def train(settings):
            with wavetrain.engines.ray.loader(dataset, 8, shuffle=True) as loader:
                for batch in loader: ..
                wavetrain.engines.ray.report({"loss": loss}, loader)

        TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2)).fit()

    given: what else `wavetrain.engines.loader` takes.
    """
    train: Any = importlib.import_module("ray.train")
    context = train.get_context()
    given["world"] = context.get_world_rank(), context.get_world_size()
    made, checkpoint = loader_of(dataset, batch_size, **given), train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            path = Path(folder, NAME)
            if path.exists():
                made.load_state_dict(json.loads(path.read_text()))
    return made


def report(metrics: dict[str, Any], loader: DataLoader, checkpoint: Any = None) -> None:
    """ray.train.report with the place of the loader in the checkpoint. All workers call it, after
    as many batches.

    checkpoint: a Checkpoint of a local folder, which has what else is to be kept; the place is
        written there by rank 0. None: a new one, of the place alone.
    """
    train: Any = importlib.import_module("ray.train")
    is_first = train.get_context().get_world_rank() == 0
    with tempfile.TemporaryDirectory() as folder:
        if is_first and checkpoint is None:
            checkpoint = train.Checkpoint.from_directory(folder)
        if is_first:
            with checkpoint.as_directory() as to:
                Path(to, NAME).write_text(json.dumps(loader.state_dict()))
        train.report(metrics, checkpoint=checkpoint)


def datasource(dataset: Any, config: Config) -> Any:
    """A Datasource for ray.data.read_datasource: read tasks of some samples each, as many as Ray
    asks for. A task that is killed is run again."""
    return _ray_source.source()(dataset, config)


class Reader:
    """For map_batches, a reader in each actor: batches of numbers of samples become their arrays::

    numbers = ray.data.range(len(dataset))
    numbers.map_batches(wavetrain.engines.ray.Reader, fn_constructor_args=(dataset, config))
    """

    def __init__(self, dataset: Any, config: Config, column: str = "id") -> None:
        self.dataset, self.column = dataset, column
        self.pipeline = _tasks.open_for(dataset, config)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        numpy: Any = importlib.import_module("numpy")
        samples = [self.dataset[int(number)] for number in batch[self.column]]
        found = [*_tasks.read(self.pipeline, samples)]
        return batch | {
            name: numpy.concatenate([each[name] for each in found]) for name in found[0]
        }

    def __del__(self) -> None:
        if "pipeline" in self.__dict__:
            self.pipeline.close()
