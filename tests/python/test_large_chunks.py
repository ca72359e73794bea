"""Uncompressed chunks above max_chunk_uncompressed_bytes, against zarr-python: parts of them are
read, so that no memory of their size is needed."""

import pathlib

import numpy as np
import pytest

import wavetrain

zarr = pytest.importorskip("zarr")

SHAPE, CHUNKS, BOX, CAP = (37, 50, 41), (20, 50, 30), (6, 9, 21), 4096
ORDERS = {
    "v2, order C": {"zarr_format": 2, "order": "C"},
    "v2, order F": {"zarr_format": 2, "order": "F"},
    "v3": {"zarr_format": 3},
    "v3, transposed": {"zarr_format": 3, "filters": [zarr.codecs.TransposeCodec(order=(1, 2, 0))]},
    "v3, big-endian": {"zarr_format": 3, "serializer": zarr.codecs.BytesCodec(endian="big")},
}


def array(path, **how):
    made = zarr.create_array(
        path, shape=SHAPE, chunks=CHUNKS, dtype="u2", compressors=None, fill_value=7, **how
    )
    made[:] = np.random.default_rng(1).integers(0, 1 << 16, SHAPE, dtype=np.uint16)
    return made


def config(**more):
    words = {"samples_per_batch": 3, "sample_shape": BOX, "dtype": "u16", **more}
    return wavetrain.Config(max_chunk_uncompressed_bytes=CAP, backend="host", **words)


def boxes(count):
    begins = np.random.default_rng(2).integers(0, np.subtract(SHAPE, BOX) + 1, (count, 3))
    # The last boxes cross both chunks and touch the end of the array.
    begins[-2:] = [(17, 40, 20), np.subtract(SHAPE, BOX)]
    return [[(int(a), int(a) + n) for a, n in zip(begin, BOX)] for begin in begins]


@pytest.mark.parametrize("how", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("words", [{}, {"chunk_cache_bytes": 1 << 20}, {"map_uncompressed": True}])
def test_boxes_of_a_chunk_above_the_cap_are_what_zarr_reads(tmp_path, how, words):
    stored = array(tmp_path / "a.zarr", **how)
    places, seen = boxes(50), 0
    with wavetrain.Pipeline(config(**words)) as pipeline:
        uri = str(tmp_path / "a.zarr")
        pipeline.push(wavetrain.Sample(uri, box, tag=tag) for tag, box in enumerate(places))
        pipeline.flush()
        for batch in pipeline.batches():
            with batch:
                for tag, sample in zip(batch.info.tags, batch.numpy()):
                    want = stored[tuple(slice(*pair) for pair in places[tag])]
                    np.testing.assert_array_equal(sample, want)
                    seen += 1
    assert seen == len(places)


def test_a_part_of_a_chunk_that_is_absent_holds_the_fill_value(tmp_path):
    stored = array(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/c/0/0/1").unlink()
    whole = [(0, extent) for extent in SHAPE]
    with wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host") as reader:
        found = reader.read(str(tmp_path / "a.zarr"), whole)
    np.testing.assert_array_equal(found, stored[:])
    assert (found[:20, :, 30:] == 7).all()


def test_a_file_of_another_size_than_its_chunk_is_an_error_that_names_the_chunk(tmp_path):
    array(tmp_path / "a.zarr")
    file = pathlib.Path(tmp_path / "a.zarr/c/1/0/0")
    file.write_bytes(file.read_bytes()[:-2])
    want = r"chunk \[1, 0, 0\] in c/1/0/0: the file has 59998 bytes, the chunk needs 60000"
    reader = wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host")
    with reader, pytest.raises(wavetrain.DecodeError, match=want):
        reader.read(str(tmp_path / "a.zarr"), [(30, 31), (0, 1), (0, 1)])


def test_fit_takes_memory_for_large_chunks_only_if_they_are_compressed(tmp_path):
    plain, packed = str(tmp_path / "plain.zarr"), str(tmp_path / "packed.zarr")
    large = {"shape": (20, 1024, 1024), "chunks": (20, 1024, 1024), "dtype": "u2"}
    zarr.create_array(plain, compressors=None, **large)
    zarr.create_array(packed, **large)
    usual = wavetrain.Config(samples_per_batch=3, sample_shape=BOX, dtype="u16", backend="host")

    def committed(*fit):
        with wavetrain.Pipeline(usual, fit=fit) as pipeline:
            return pipeline.stats().host_bytes_committed

    assert committed() == committed(plain) < committed(packed)
    reader = wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host")
    want = "max_chunk_uncompressed_bytes = 4096"
    with reader, pytest.raises(wavetrain.BudgetExceeded, match=want):
        reader.read(packed, [(0, 1)] * 3)
