"""examples/parquet_columns.py against what pyarrow itself reads."""

from __future__ import annotations

import runpy
import sys

import numpy
import pytest
from cubes import ROOT

import wavetrain

pyarrow = pytest.importorskip("pyarrow", reason="there is no pyarrow here")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow has no Parquet here")

EXAMPLE = ROOT / "examples" / "parquet_columns.py"
EVEN, RAGGED, ONE = [100, 100, 100, 37], [5, 0, 190, 1, 141], [337]


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE), run_name="example")


def table():
    dice, count = numpy.random.default_rng(3), 337
    vectors = pyarrow.array(dice.normal(size=count * 6).astype("f4"))
    columns = {
        "key": pyarrow.array(dice.permutation(count).astype("i8")),
        "small": pyarrow.array(dice.integers(0, 256, count, "u1")),
        "price": pyarrow.array(dice.normal(size=count)),
        "half": pyarrow.array(dice.normal(size=count).astype("f2")),
        "flag": pyarrow.array(dice.integers(0, 2, count).astype("?")),
        "vector": pyarrow.FixedSizeListArray.from_arrays(vectors, 6),
        "matrix": pyarrow.FixedSizeListArray.from_arrays(
            pyarrow.FixedSizeListArray.from_arrays(vectors, 2), 3
        ),
        "text": pyarrow.array([f"row {row}" for row in range(count)]),
        "holes": pyarrow.array([None if row == 250 else row for row in range(count)], "int32"),
        "lists": pyarrow.array([[row] * (row % 3) for row in range(count)]),
    }
    return pyarrow.table(columns)


def write(path, groups, kind, compression):
    """The table in groups of so many rows."""
    whole = table()
    if kind == "arrow":
        options = pyarrow.ipc.IpcWriteOptions(compression=compression)
        writer = pyarrow.ipc.new_file(str(path), whole.schema, options=options)
    else:
        writer = parquet.ParquetWriter(str(path), whole.schema, compression=compression or "none")
    first = 0
    with writer:
        for count in groups:
            part = whole.slice(first, count).combine_chunks()
            batch = part.to_batches()[0] if count else part.schema.empty_table().to_batches()
            if kind == "arrow":
                writer.write_batch(batch or pyarrow.RecordBatch.from_pylist([], part.schema))
            else:
                writer.write_table(part, row_group_size=max(count, 1))
            first += count
    return str(path)


def own(path, kind, name):
    """What pyarrow reads, as rows of Python's numbers."""
    if kind == "arrow":
        with pyarrow.ipc.open_file(path) as file:
            return file.read_all()[name].to_pylist()
    return parquet.read_table(path, columns=[name])[name].to_pylist()


COLUMNS = ["key", "small", "price", "half", "flag", "vector", "matrix"]


@pytest.mark.parametrize("groups", [EVEN, RAGGED, ONE], ids=["even", "ragged", "one"])
@pytest.mark.parametrize(
    ("kind", "compression"),
    [("parquet", "zstd"), ("parquet", None), ("arrow", "lz4"), ("arrow", None)],
)
def test_every_box_of_every_column_is_what_pyarrow_reads(
    example, pipeline, tmp_path, kind, compression, groups
):
    path = write(tmp_path / "table", groups, kind, compression)
    source = example["Columns"](kept=2)
    for name in COLUMNS:
        info = source.describe(f"{path}#{name}")
        assert info.chunk_shape[:1] == ({(100,), (337,)} & {tuple(groups[:1])} or {()}).pop()
        stream = pipeline(
            source=source, sample_shape=(9, *info.shape[1:]), dtype=info.dtype, samples_per_batch=8
        )
        rest = [(0, extent) for extent in info.shape[1:]]
        starts = [*range(0, 320, 7), 328]
        uri = f"hook:{path}#{name}"
        stream.push([wavetrain.Sample(uri, [(at, at + 9), *rest]) for at in starts])
        found = [row for batch in stream.batches() for row in batch.numpy().tolist()]
        rows = own(path, kind, name)
        assert found == [rows[at : at + 9] for at in starts], name


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_an_epoch_has_every_row_once_in_another_order(example, tmp_path, kind):
    path = write(tmp_path / "table", EVEN, kind, "zstd")
    tags, rows = [], {name: [] for name in ("key", "vector", "flag")}
    for batch in example["epoch"](path, [*rows], 64):
        tags += batch.info.tags.tolist() if hasattr(batch.info.tags, "tolist") else batch.info.tags
        for name, found in rows.items():
            found += batch[name].numpy().tolist()
    assert sorted(tags) == [*range(337)] and tags != sorted(tags)
    for name, found in rows.items():
        all_rows = own(path, kind, name)
        assert found == [all_rows[tag] for tag in tags]


def test_it_runs_as_a_program(tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "table.parquet", RAGGED, "parquet", "snappy")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), path, "vector", "key"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "batch 0: vector (256, 6), key (256,)",
        "batch 1: vector (81, 6), key (81,)",
    ]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("groups", [EVEN, RAGGED])
def test_what_no_batch_holds_is_refused_by_name(example, pipeline, tmp_path, kind, groups):
    path = write(tmp_path / "table", groups, kind, "zstd")
    stream = pipeline(
        source=example["Columns"](), sample_shape=(4,), samples_per_batch=1, dtype="i32"
    )
    for uri, error, said in (
        (f"{path}#text", wavetrain.StorageError, "column 'text' of .* has string"),
        (f"{path}#lists", wavetrain.StorageError, "column 'lists' of .* has list"),
        (f"{path}#holes", wavetrain.StorageError, r"column 'holes' of .* has nulls in group \d"),
        (f"{path}#other", wavetrain.NotFound, "not one 'other'"),
        (f"{path}.old#key", wavetrain.NotFound, "FileNotFoundError"),
    ):
        stream.push([wavetrain.Sample(f"hook:{uri}", [(248, 252)])])
        with pytest.raises(error, match=said):
            stream.pop()
        stream.reset()
    stream.push([wavetrain.Sample(f"hook:{path}#holes", [(40, 44)])])
    if groups is EVEN:  # the nulls are in another group
        assert stream.pop().numpy().tolist() == [[40, 41, 42, 43]]


def test_a_damaged_file_is_an_error_and_never_data(example, pipeline, tmp_path):
    path = write(tmp_path / "table", EVEN, "parquet", "zstd")
    whole = (tmp_path / "table").read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "table").write_bytes(whole[:cut])
        stream = pipeline(source=example["Columns"](), sample_shape=(9,), samples_per_batch=1)
        stream.push([wavetrain.Sample(f"hook:{path}#price", [(0, 9)])])
        with pytest.raises(wavetrain.StorageError, match="ArrowInvalid"):
            stream.pop()


def test_a_changed_page_is_an_error_where_the_file_has_checksums(example, pipeline, tmp_path):
    path = tmp_path / "table"
    price = table().select(["price"])
    parquet.write_table(
        price, path, compression="none", use_dictionary=False, write_page_checksum=True
    )
    data = bytearray(path.read_bytes())
    wanted = price["price"][200].as_py()
    at = data.index(numpy.float64(wanted).tobytes())
    for number in (200, 201):
        stream = pipeline(
            source=example["Columns"](), sample_shape=(1,), samples_per_batch=1, dtype="f64"
        )
        stream.push([wavetrain.Sample(f"hook:{path}#price", [(200, 201)])])
        if number == 200:
            assert stream.pop().numpy().tolist() == [[wanted]]
        else:
            with pytest.raises(wavetrain.StorageError, match="checksum"):
                stream.pop()
        data[at + 3] ^= 1
        path.write_bytes(data)
