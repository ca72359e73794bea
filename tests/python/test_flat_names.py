"""Names of .npy and raw files, and what numpy, ml_dtypes and other systems leave beside them."""

from __future__ import annotations

import numpy
import pytest

import wavetrain


def write(folder, names):
    """A file of three rows for each name; the rows of all of them."""
    folder.mkdir(exist_ok=True)
    rows = []
    for number, name in enumerate(names):
        part = numpy.arange(12, dtype="u2").reshape(3, 4) + 100 * number
        numpy.save(folder / name, part)
        rows.append(part)
    return numpy.concatenate(rows)


def read(uri, **settings):
    with wavetrain.Reader(fit=[uri], **settings) as reader:
        shape = wavetrain.array_info(uri).shape
        return reader.read(uri, tuple(slice(0, extent) for extent in shape))


def test_files_that_systems_leave_beside_numbered_ones_are_none_of_them(tmp_path):
    rows = write(tmp_path, [f"part_{number:04d}.npy" for number in range(3)])
    for name in (".DS_Store", "._part_0000.npy", "._part_0001.npy", ".part_0000.npy.swp"):
        (tmp_path / name).write_bytes(b"\x00\x05\x16\x07")
    for uri in (str(tmp_path), f"{tmp_path}/part_*.npy"):
        numpy.testing.assert_array_equal(read(uri), rows)


@pytest.mark.parametrize("first", [1, 2, 10, 999])
@pytest.mark.parametrize("width", [1, 4])
def test_a_sequence_that_begins_elsewhere_is_refused_with_the_uri_that_reads_it(
    tmp_path, first, width
):
    rows = write(tmp_path, [f"part_{number:0{width}d}.npy" for number in range(first, first + 3)])
    fixed = f"{tmp_path}/part_*.npy#first={first}"
    for uri in (str(tmp_path), f"{tmp_path}/part_*.npy"):
        with pytest.raises(wavetrain.NotFound) as caught:
            read(uri)
        assert fixed in str(caught.value)
    numpy.testing.assert_array_equal(read(fixed), rows)
    numpy.testing.assert_array_equal(read(f"file://{fixed}"), rows)
    config = wavetrain.Config(samples_per_batch=9, sample_shape=(4,), dtype="u16", max_npy_files=3)
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push(wavetrain.Sample(fixed, numpy.s_[row : row + 1, 0:4]) for row in range(9))
        with next(iter(pipeline.batches(1))) as batch:
            numpy.testing.assert_array_equal(batch.numpy(), rows)


def test_a_first_file_that_is_lost_never_shifts_rows(tmp_path):
    write(tmp_path, [f"part_{number:04d}.npy" for number in range(1, 4)])
    fixed = f"{tmp_path}/part_*.npy#first=1"
    (tmp_path / "part_0001.npy").unlink()
    with pytest.raises(wavetrain.NotFound, match=r"part_0001\.npy: is not there"):
        read(fixed)
    write(tmp_path, ["part_0000.npy", "part_0001.npy"])
    with pytest.raises(wavetrain.DecodeError, match="a file lies before the first one: 0"):
        read(fixed)


def test_names_may_go_on_behind_the_number(tmp_path):
    rows = write(tmp_path, [f"case_{number}_img.npy" for number in range(12)])
    write(tmp_path, [f"case_{number}_mask.npy" for number in range(12)])
    numpy.testing.assert_array_equal(read(f"{tmp_path}/case_*_img.npy"), rows)


def test_files_of_two_types_are_told_before_their_number(tmp_path):
    write(tmp_path, ["part_0.npy", "part_1.npy"])
    numpy.save(tmp_path / "part_2.npy", numpy.zeros((3, 4), "f8"))
    config = wavetrain.Config(samples_per_batch=1, sample_shape=(4,), dtype="u16")
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push([wavetrain.Sample(str(tmp_path), numpy.s_[0:1, 0:4])])
        with pytest.raises(wavetrain.DecodeError, match=r"part_2\.npy: has elements of f64"):
            pipeline.pop()
    (tmp_path / "part_2.npy").unlink()
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push([wavetrain.Sample(str(tmp_path), numpy.s_[0:1, 0:4])])
        with pytest.raises(wavetrain.BudgetExceeded, match="max_npy_files = 0"):
            pipeline.pop()


@pytest.mark.parametrize("name", ["u16", "uint16", "<u2"])
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_raw_files_take_types_of_numpy_and_file_uris(tmp_path, name, prefix):
    folder = tmp_path / "a folder"
    folder.mkdir()
    values = numpy.arange(12, dtype="u2").reshape(3, 4)
    values.tofile(folder / "x.bin")
    path = str(folder / "x.bin")
    path = path.replace(" ", "%20") if prefix else path
    numpy.testing.assert_array_equal(read(f"raw:{prefix}{path}?dtype={name}&shape=3,4"), values)


def test_bfloat16_of_ml_dtypes_is_read_as_the_text_says(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no bfloat16")
    values = numpy.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    path = tmp_path / "x.npy"
    numpy.save(path, values)
    with pytest.raises(wavetrain.DtypeMismatch, match="if it is bfloat16") as caught:
        read(str(path), dtype="f32")
    fixed = str(caught.value).partition("name it ")[2].split()[0].replace("FILE", str(path))
    numpy.testing.assert_array_equal(read(fixed, dtype="f32"), values.astype("f4"))
