"""Samples of a data set as tasks of an engine read them: a part of them, through one pipeline.

In: a data set, a config, and which samples. Out: dicts of their tags and of an array for each field
("x" if there are none). These are in memory of their own: an engine keeps more of them than a
pipeline has slots.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
from collections.abc import Iterator
from typing import Any

from wavetrain._config import Config
from wavetrain._pipeline import Pipeline
from wavetrain._reader import BYTES
from wavetrain.tiles import Split

THREADS = 2  # that read: an engine runs a task for each CPU
KEPT_MAX = 2

# Open ones, by what they were opened for: a worker runs many short tasks, and an open takes longer
# than some of them.
kept: dict[bytes, Pipeline] = {}


def parts_of(dataset: Any, count: int) -> list[range]:
    """The samples of each of some tasks; tasks without a sample are left out."""
    split = Split(len(dataset), max(1, count))
    tiles = [tile for rank in range(split.world) for tile in split.of_rank(rank)]
    return [range(tile.start, tile.stop) for tile in tiles]


def batches_of(dataset: Any, config: Config, part: range) -> Iterator[dict[str, Any]]:
    """The tags of some samples and their arrays by field, a batch at a time. The pipeline is left
    to the next task of this process."""
    key = key_of(dataset, config)
    pipeline = kept.pop(key, None) or open_for(dataset, config)
    try:
        yield from read(pipeline, [dataset[number] for number in part])
    except BaseException:  # what is left in it is not of the next task
        pipeline.close()
        raise
    if not key:
        pipeline.close()
        return
    while len(kept) >= KEPT_MAX:
        kept.pop(next(iter(kept))).close()
    kept[key] = pipeline


def close_kept() -> None:
    while kept:
        kept.popitem()[1].close()


def key_of(dataset: Any, config: Config) -> bytes:
    """A name for all that a pipeline is opened with; empty if a part cannot be sent, as a source
    of a script."""
    try:
        return pickle.dumps((os.getpid(), config, uris_of(dataset)))
    except (pickle.PicklingError, AttributeError, TypeError):
        return b""


def uris_of(dataset: Any) -> list[Any]:
    """The array of the first sample, if there is one."""
    uri = dataset[0].uri if len(dataset) else None
    return [uri] if uri else []


def open_for(dataset: Any, config: Config) -> Pipeline:
    """A pipeline for the samples of a data set. A task has one CPU, if the config names none."""
    config = dataclasses.replace(
        config,
        n_decode_threads=config.n_decode_threads or 1,
        n_io_threads=min(config.n_io_threads, THREADS),
        backend="host",
    )
    return Pipeline(config, fit=uris_of(dataset))


def read(pipeline: Pipeline, samples: Any) -> Iterator[dict[str, Any]]:
    """The same of a pipeline that is kept."""
    names = [field.name for field in pipeline.config.fields]
    pipeline.push(samples)
    for batch in pipeline.batches():
        with batch:
            made: dict[str, Any] = {"tag": [*batch.info.tags]}
            made |= {name: batch[name].numpy().copy() for name in names}
            yield made if names else {**made, "x": batch.numpy().copy()}


def bytes_of(config: Config) -> int:
    """Bytes of a sample."""
    fields = config.fields or (config,)
    return sum(math.prod(each.sample_shape) * BYTES.get(each.dtype, 1) for each in fields)
