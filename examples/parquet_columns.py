"""parquet_columns.py FILE COLUMN..: an epoch of shuffled rows of a Parquet or Arrow (IPC) file.

pyarrow reads row groups and record batches as samples need them, on the pipeline's threads, and
each column is a field of the batch. What a batch cannot hold, nulls and texts, is refused by name.
"""

import functools
import sys

import numpy
import pyarrow
import pyarrow.parquet

import wavetrain
from wavetrain import Box, Field, Sample, SourceInfo, tiles

GROUP_BYTES = 16 << 20  # of a column: a larger row group is kept here, not cut to chunks


class Parquet:
    """A Parquet file. A reader is of one thread, so each read opens one; the footer is kept."""

    def __init__(self, path: str) -> None:
        self.path, self.metadata = path, pyarrow.parquet.read_metadata(path)
        self.schema = self.metadata.schema.to_arrow_schema()
        groups = range(self.metadata.num_row_groups)
        self.rows = [self.metadata.row_group(group).num_rows for group in groups]

    def read(self, group: int, column: str):
        with pyarrow.parquet.ParquetFile(
            self.path, metadata=self.metadata, page_checksum_verification=True
        ) as file:
            return file.read_row_group(group, [column], use_threads=False).column(column)


class Arrow:
    """An Arrow file. Only the column that is asked for is decompressed."""

    def __init__(self, path: str) -> None:
        self.path = path
        with self.reader() as file:
            self.schema, groups = file.schema, file.num_record_batches
        with self.reader(0) as file:
            self.rows = [file.get_batch(group).num_rows for group in range(groups)]

    def reader(self, *columns: int):
        options = pyarrow.ipc.IpcReadOptions(included_fields=[*columns], use_threads=False)
        return pyarrow.ipc.open_file(pyarrow.memory_map(self.path), options=options)

    def read(self, group: int, column: str):
        with self.reader(self.schema.get_field_index(column)) as file:
            return file.get_batch(group).column(column)


class Columns:
    """Uri "hook:FILE#COLUMN" is that column, an array [rows], or of fixed-size lists [rows, size].

    Row groups are the chunks where they have as many rows each. Where they have not, boxes are cut
    out of `kept` groups.
    """

    def __init__(self, kept: int = 16) -> None:
        self.file = functools.lru_cache(None)(self.open)
        self.group = functools.lru_cache(kept)(self.decode)

    def open(self, path: str) -> "Parquet | Arrow":
        with open(path, "rb") as file:
            return Arrow(path) if file.read(6) == b"ARROW1" else Parquet(path)

    def describe(self, name: str) -> SourceInfo:
        path, _, column = name.rpartition("#")
        file = self.file(path)
        if file.schema.names.count(column) != 1:
            raise KeyError(f"{path} has the columns {file.schema.names}, not one {column!r}")
        kind, extents = file.schema.field(column).type, []
        while pyarrow.types.is_fixed_size_list(kind):
            extents.append(kind.list_size)
            kind = kind.value_type
        types = pyarrow.types
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise TypeError(f"column {column!r} of {path} has {kind}, which no batch holds")
        dtype = pyarrow.array([], kind).to_numpy(zero_copy_only=False).dtype
        rows = file.rows[:1] or [1]
        is_even = set(file.rows[:-1]) <= {*rows} and 0 < max(file.rows, default=0) <= rows[0]
        group_bytes = rows[0] * int(numpy.prod(extents)) * dtype.itemsize
        chunk_shape = (rows[0], *extents) if is_even and 0 < group_bytes <= GROUP_BYTES else ()
        return SourceInfo((sum(file.rows), *extents), dtype, chunk_shape)

    def decode(self, path: str, column: str, group: int) -> numpy.ndarray:
        values, extents = self.file(path).read(group, column), []
        if isinstance(values, pyarrow.ChunkedArray):
            values = values.combine_chunks()
        while True:
            if values.null_count:
                raise ValueError(f"column {column!r} of {path} has nulls in group {group}")
            if not pyarrow.types.is_fixed_size_list(values.type):
                # Bits become bytes; all else is as it lies in memory.
                return values.to_numpy(zero_copy_only=False).reshape(-1, *extents)
            extents.append(values.type.list_size)
            values = values.flatten()

    def read(self, name: str, start: tuple[int, ...], shape: tuple[int, ...]) -> numpy.ndarray:
        path, _, column = name.rpartition("#")
        box = tuple(slice(at, at + extent) for at, extent in zip(start, shape))
        parts = [
            self.group(path, column, piece.file)[(piece.rows, *box[1:])]
            for piece in tiles.cut(box[0], self.file(path).rows)
        ]
        return parts[0] if len(parts) == 1 else numpy.concatenate(parts)


def epoch(path: str, columns: list[str], samples_per_batch: int = 256):
    """Batches of all rows, in an order of chance; their tags are the numbers of the rows."""
    source = Columns()
    infos = {column: source.describe(f"{path}#{column}") for column in columns}
    config = wavetrain.Config(
        samples_per_batch=samples_per_batch,
        fields=[Field(column, info.shape[1:], info.dtype) for column, info in infos.items()],
        lookahead_samples=max(8192, samples_per_batch),
        chunk_cache_bytes=256 << 20,
        source=source,
    )

    def sample(row: int) -> Sample:
        rest = {column: [(0, extent) for extent in infos[column].shape[1:]] for column in columns}
        boxes = [
            Box(f"hook:{path}#{each}", [(row, row + 1), *rest[each]], each) for each in columns
        ]
        return Sample(boxes=boxes, tag=row)

    rows = numpy.random.default_rng(0).permutation(infos[columns[0]].shape[0])
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push(sample(int(row)) for row in rows)
        for batch in pipeline.batches():
            with batch:
                yield batch


if __name__ == "__main__":
    for batch in epoch(sys.argv[1], sys.argv[2:]):
        shapes = [f"{name} {tuple(batch[name].info.shape)}" for name in sys.argv[2:]]
        print(f"batch {batch.info.batch_id}: {', '.join(shapes)}")
