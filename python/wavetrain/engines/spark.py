"""Spark: a data source of boxes, and a loader in each task of a barrier stage.

In: an array and the shape of its boxes, or a data set. Out: a DataFrame with a number and the bytes
of each box. Or batches in the task that trains, which is the fast way, because no voxel passes
through the pipe of Arrow between Python and the JVM.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

from wavetrain._config import Config
from wavetrain._dataloader import DataLoader
from wavetrain._sample import Sample
from wavetrain.engines import _tasks
from wavetrain.engines import loader as loader_of
from wavetrain.engines._stored import Stored
from wavetrain.tiles import grid_box, grid_count

__all__ = ["barrier_loader", "register"]


def register(session: Any) -> None:
    """Makes the format "wavetrain" known to a session of Spark 4::

        wavetrain.engines.spark.register(spark)
        frame = spark.read.format("wavetrain").option("box", "32,64,64").load("cells.zarr/0")

    Options: box, the extents of a box, by commas; partitions (4); rows of an Arrow batch (8). The
    frame has `number`, that of the box in row-major order, and `data`, its bytes, in C order, of
    the array's type. Boxes at far edges are whole, and hold its fill value outside of the array.
    """
    session.dataSource.register(source())


def barrier_loader(dataset: Any, batch_size: int | None = None, **given: Any) -> DataLoader:
    """A DataLoader of this task of a barrier stage, `rdd.barrier().mapPartitions(train)`.

    given: what else `wavetrain.engines.loader` takes. In a TorchDistributor call that, as it sets
    the variables of torchrun. The state_dict() is for the driver to keep.
    """
    tasks: Any = importlib.import_module("pyspark").BarrierTaskContext
    context = tasks.get()
    if not hasattr(context, "getTaskInfos"):
        raise RuntimeError("this is not a task of a barrier stage: call rdd.barrier() first")
    given["world"] = context.partitionId(), len(context.getTaskInfos())
    return loader_of(dataset, batch_size, **given)


class Boxes:
    """The boxes of an array as a data set."""

    def __init__(self, uri: str, box: tuple[int, ...]) -> None:
        self.stored, self.box = Stored(uri), box
        self.count = grid_count(self.stored.shape, box)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Sample:
        corner = [axis.start for axis in grid_box(self.stored.shape, self.box, number)]
        box = [(at, at + extent) for at, extent in zip(corner, self.box)]
        return Sample(self.stored.uri, box, tag=number)


def batches_of(boxes: Boxes, rows: int, part: range) -> Iterator[Any]:
    """Arrow batches of some boxes."""
    arrow: Any = importlib.import_module("pyarrow")
    config = Config(
        samples_per_batch=rows,
        sample_shape=boxes.box,
        dtype=boxes.stored.dtype,
        pad_mode="constant",
    )
    for each in _tasks.batches_of(boxes, config, part):
        data = [sample.tobytes() for sample in each["x"]]
        columns = [arrow.array(each["tag"], arrow.int64()), arrow.array(data, arrow.binary())]
        yield arrow.RecordBatch.from_arrays(columns, ["number", "data"])


@functools.cache
def source() -> Any:
    spark: Any = importlib.import_module("pyspark.sql.datasource")

    class Part(spark.InputPartition):
        pass

    class Reader(spark.DataSourceReader):
        def __init__(self, options: Any) -> None:
            missing = [name for name in ("path", "box") if name not in options]
            if missing:
                raise ValueError(f"wavetrain needs option({missing[0]!r}, ..): a uri, and extents")
            extents = tuple(int(each) for each in options["box"].split(","))
            self.boxes, self.rows = Boxes(options["path"], extents), int(options.get("rows", 8))
            self.count = int(options.get("partitions", 4))

        def partitions(self) -> list[Any]:
            return [Part(part) for part in _tasks.parts_of(self.boxes, self.count)]

        def read(self, partition: Any) -> Iterator[Any]:
            return batches_of(self.boxes, self.rows, partition.value)

    class Source(spark.DataSource):
        @classmethod
        def name(cls) -> str:
            return "wavetrain"

        def schema(self) -> str:
            return "number bigint, data binary"

        def reader(self, schema: Any) -> Any:
            return Reader(self.options)

    return Source
