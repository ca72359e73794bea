"""A field of structured elements in a .npy file is an array like any other, whoever reads it."""

from __future__ import annotations

import numpy
import pytest

import wavetrain
from wavetrain import engines

KIND = numpy.dtype(
    [("b", "u1"), ("mass", "<f4"), ("when", "<f8"), ("id", ">i2"), ("raw", "V3"), ("z", "c8")]
)
NAMES = ("b", "mass", "when", "id", "z")


def elements(rows: int) -> numpy.ndarray:
    made = numpy.zeros((rows, 7), KIND)
    for number, name in enumerate(NAMES):
        made[name] = numpy.arange(rows * 7).reshape(rows, 7) % 200 + number
    made["raw"] = numpy.frombuffer(bytes(range(3)) * rows * 7, "V3").reshape(rows, 7)
    return made


@pytest.fixture
def stored(tmp_path):
    """The uri of all elements, and the elements."""
    whole = elements(10)
    numpy.save(tmp_path / "s.npy", whole)
    return str(tmp_path / "s.npy"), whole


@pytest.mark.parametrize("name", [*NAMES, "raw"])
def test_every_reader_gives_the_elements_of_a_field(stored, name):
    uri, whole = f"{stored[0]}?field={name}", stored[1][name]
    info = wavetrain.array_info(uri)
    assert (info.shape, info.itemsize) == (whole.shape, whole.itemsize)
    wanted = whole.astype(whole.dtype.newbyteorder("="))
    with wavetrain.Reader() as reader:
        made = reader.read(uri)
        assert made.dtype == wanted.dtype
        numpy.testing.assert_array_equal(made, wanted)
        into = numpy.zeros((7, 4), wanted.dtype)
        reader.read(uri, numpy.s_[2:6, :], into.T)
        numpy.testing.assert_array_equal(into.T, wanted[2:6])
    numpy.testing.assert_array_equal(engines.legate._stored.read(uri, None, None), wanted)


def test_elements_of_up_to_16_bytes_are_read_whole(tmp_path):
    whole = elements(10)[["b", "mass", "id"]].astype([("b", "u1"), ("mass", "<f4"), ("id", ">i2")])
    numpy.save(tmp_path / "s.npy", whole)
    with wavetrain.Reader() as reader:
        made = reader.read(tmp_path / "s.npy", numpy.s_[1:9:2, :])
        assert made.dtype == "V7"
        numpy.testing.assert_array_equal(made.view(whole.dtype), whole[1:9:2])


def test_numbers_of_a_field_are_counted_and_shared(stored):
    uri, whole = f"{stored[0]}?field=mass", stored[1]["mass"]
    found = wavetrain.statistics(uri)
    assert (found.count, found.min, found.max) == (whole.size, whole.min(), whole.max())
    numpy.testing.assert_allclose(found.mean, whole.mean(), rtol=1e-6)
    shares = engines.shares(uri, 3, unit="bytes")
    assert sum(share.bytes for share in shares) == whole.nbytes
    config = wavetrain.Config(samples_per_batch=2, sample_shape=(5, 7), backend="host")
    with wavetrain.Pipeline(config) as pipeline:
        pipeline.push(wavetrain.Sample(uri, [(at, at + 5), (0, 7)]) for at in (0, 5))
        numpy.testing.assert_array_equal(pipeline.pop().numpy().reshape(10, 7), whole)
