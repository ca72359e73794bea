"""The class of a Datasource of Ray, which is made of Ray's once that is needed.

In: a data set and a config. Out: read tasks, of some samples each.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from wavetrain._config import Config
from wavetrain.engines import _tasks


def blocks_of(dataset: Any, config: Config, part: range) -> Any:
    """The work of a read task, in a worker."""
    block: Any = importlib.import_module("ray.data.block").BlockAccessor
    return map(block.batch_to_block, _tasks.batches_of(dataset, config, part))


@functools.cache
def source() -> Any:
    data: Any = importlib.import_module("ray.data")
    block: Any = importlib.import_module("ray.data.block")

    class Source(data.Datasource):
        def __init__(self, dataset: Any, config: Config) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.dataset, self.config = dataset, config

        def get_name(self) -> str:
            return "wavetrain"

        def estimate_inmemory_data_size(self) -> int:
            return len(self.dataset) * _tasks.bytes_of(self.config)

        def get_read_tasks(
            self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
        ) -> list[Any]:
            made: list[Any] = []
            for part in _tasks.parts_of(self.dataset, parallelism):
                read = functools.partial(blocks_of, self.dataset, self.config, part)
                size = len(part) * _tasks.bytes_of(self.config)
                about = block.BlockMetadata(len(part), size, None, None)
                made.append(data.ReadTask(read, about, per_task_row_limit=per_task_row_limit))
            return made

    return Source
