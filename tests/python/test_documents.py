"""Documents of other writers, and the same arrays as zarr-python reads them.

zarr-python writes each array, and its document is changed to what another writer puts there. What
zarr-python itself reads is compared with it; what it does not, with the array that it wrote.
"""

from __future__ import annotations

import json
import warnings

import numpy
import pytest

import wavetrain

zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")
numcodecs = pytest.importorskip("numcodecs", reason="zarr-python's codecs of zarr v2")

ROWS = 6


@pytest.fixture
def written(tmp_path):
    """Writes an array, of which rows 4 and 5 are the fill value; its folder, and what it holds."""
    count = iter(range(99))

    def write(zarr_format, dtype="i4", shape=(ROWS, 4), **settings):
        folder = tmp_path / str(next(count))
        array = zarr.create_array(
            str(folder),
            shape=shape,
            chunks=(2, 4),
            dtype=dtype,
            zarr_format=zarr_format,
            **settings,
        )
        if shape[0]:
            array[:4] = (numpy.arange(16) % 2).reshape(4, 4).astype(dtype)
        return folder, array[...]

    return write


def change(folder, edit):
    name = "zarr.json" if (folder / "zarr.json").exists() else ".zarray"
    document = json.loads((folder / name).read_text())
    edit(document)
    (folder / name).write_text(json.dumps(document))


def read(folder):
    with wavetrain.Reader() as reader:
        shape = wavetrain.array_info(folder).shape
        return reader.read(folder, tuple(slice(0, extent) for extent in shape))


def of_zarr(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_array(str(folder), mode="r")[...]


FILLS = [
    *[("i4", fill) for fill in (7.0, 0.0, -1.0, "7", "0", "-7")],
    *[("u1", fill) for fill in (255.0, "0", "255")],
    *[("u8", fill) for fill in ("18446744073709551615", 9007199254740991.0)],
    *[("f4", fill) for fill in ("0", "0.0", "7.5", "-1e3", 7)],
    *[("f8", fill) for fill in ("0", "1e-300", "-0.0")],
    *[("bool", fill) for fill in (0, 1, 0.0, 1.0)],
]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "fill"), FILLS)
def test_fill_values_are_numbers_however_they_are_spelled(written, zarr_format, dtype, fill):
    folder, _ = written(zarr_format, dtype)
    change(folder, lambda document: document.update(fill_value=fill))
    numpy.testing.assert_array_equal(read(folder), of_zarr(folder))


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("i4", "7.5"), ("i4", "0x7"), ("u1", "-1"), ("u1", "256"), ("f4", "seven"), ("bool", 2)],
)
def test_what_no_number_is_stays_refused(written, dtype, fill):
    folder, _ = written(2, dtype)
    change(folder, lambda document: document.update(fill_value=fill))
    with pytest.raises(wavetrain.DecodeError, match="fill_value"):
        read(folder)


@pytest.mark.parametrize("member", ["storage_transformers", "dimension_names"])
def test_members_may_be_null(written, member):
    folder, _ = written(3)
    change(folder, lambda document: document.update({member: None}))
    numpy.testing.assert_array_equal(read(folder), of_zarr(folder))


@pytest.mark.parametrize("member", ["filters", "compressor"])
def test_members_of_zarr_2_may_be_absent(written, member):
    folder, _ = written(2, compressors=None)
    change(folder, lambda document: document.pop(member))
    numpy.testing.assert_array_equal(read(folder), of_zarr(folder))


def test_a_document_of_netcdf_has_no_fill_value(written):
    folder, values = written(2)
    change(folder, lambda document: document.pop("fill_value"))
    numpy.testing.assert_array_equal(read(folder), values)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_of_an_array_without_elements_may_have_none(written, zarr_format):
    folder, values = written(zarr_format, shape=(0, 4))

    def edit(document):
        if zarr_format == 2:
            document["chunks"] = [0, 4]
        else:
            document["chunk_grid"]["configuration"]["chunk_shape"] = [0, 4]

    change(folder, edit)
    assert of_zarr(folder).shape == values.shape
    assert wavetrain.array_info(folder).shape == (0, 4)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_blosc_of_java_says_its_threads(written, zarr_format):
    codec = numcodecs.Blosc("lz4") if zarr_format == 2 else zarr.codecs.BloscCodec(cname="lz4")
    folder, values = written(zarr_format, compressors=codec)

    def edit(document):
        if zarr_format == 2:
            document["compressor"]["nthreads"] = 1
        else:
            document["codecs"][-1]["configuration"]["nthreads"] = 1

    change(folder, edit)
    numpy.testing.assert_array_equal(read(folder), values)


def test_parameters_of_netcdf_are_strings(written):
    filters = [numcodecs.Shuffle(4)]
    folder, values = written(2, filters=filters, compressors=numcodecs.Zlib(1))

    def edit(document):
        document["filters"][0]["elementsize"] = "4"
        document["compressor"]["level"] = "1"

    change(folder, edit)
    numpy.testing.assert_array_equal(read(folder), values)


def test_a_configuration_may_be_null(written):
    folder, values = written(3, "u1", compressors=zarr.codecs.ZstdCodec())
    change(
        folder, lambda document: [codec.update(configuration=None) for codec in document["codecs"]]
    )
    change(folder, lambda document: document["chunk_key_encoding"].update(configuration=None))
    numpy.testing.assert_array_equal(read(folder), values)
