"""Uncompressed chunks above max_chunk_uncompressed_bytes, against zarr-python: parts of them are
read, so that no memory of their size is needed."""

import pathlib

import numpy as np
import pytest

import wavetrain

google_crc32c = pytest.importorskip("google_crc32c")
zarr = pytest.importorskip("zarr")
pytestmark = pytest.mark.filterwarnings("ignore:Combining a .sharding_indexed. codec")

SHAPE, CHUNKS, BOX, CAP = (37, 50, 41), (20, 50, 30), (6, 9, 21), 4096
TURN, BIG = zarr.codecs.TransposeCodec(order=(1, 2, 0)), zarr.codecs.BytesCodec(endian="big")
# Parts of a chunk of 23 x 19 x 29 differ: neither its rows nor their halves divide it.
ODD, EVEN, SHARD = (23, 19, 29), (20, 16, 24), (40, 32, 48)


def sharded(inner, *before, serializer=BIG, **how):
    codecs = [*before, serializer]
    return {"serializer": zarr.codecs.ShardingCodec(chunk_shape=inner, codecs=codecs, **how)}


NESTED = sharded(EVEN, index_location="start")["serializer"]
ORDERS = {
    "v2, order C": {"zarr_format": 2, "order": "C"},
    "v2, order F": {"zarr_format": 2, "order": "F"},
    "v3": {},
    "v3, transposed": {"filters": [TURN]},
    "v3, big-endian": {"serializer": BIG},
    "v3, parts of several sizes": {"chunks": ODD},
    "v3, parts of several sizes, transposed": {"chunks": ODD, "filters": [TURN]},
    "shards": {"chunks": EVEN, "shards": SHARD},
    "shards, parts of several sizes": {"chunks": ODD, "shards": tuple(2 * n for n in ODD)},
    "shards of one chunk": {"chunks": CHUNKS, "shards": CHUNKS},
    "shards, chunks transposed": {"chunks": SHARD, **sharded(EVEN, TURN)},
    "shards, transposed": {"chunks": (40,) * 3, "filters": [TURN], **sharded((20, 10, 40))},
    "shards in shards": {"chunks": (80, 64, 96), **sharded(SHARD, serializer=NESTED)},
}


def array(path, **how):
    how = {"chunks": CHUNKS, "compressors": None, "fill_value": 7, **how}
    made = zarr.create_array(path, shape=SHAPE, dtype="u2", **how)
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


PLACES = [(-3, 5), (40, 49), (15, 25)]
TURNED = wavetrain.Affine([[0.8, -0.6, 0.1, 9], [0.6, 0.8, 0, 4], [0, 0.3, 1.1, 12]])
WAYS = {
    "steps": {"aabb": [(1, 16), (2, 27), (10, 38)], "step": (-2, 3, -3)},
    "padding": {"aabb": PLACES},
    "arithmetic": {"aabb": PLACES, "augment": wavetrain.Augment(scale=0.5, bias=1)},
    "map": {"aabb": [(0, 8), (0, 9), (0, 10)], "affine": TURNED},
}


@pytest.mark.parametrize("how", [ORDERS[name] for name in ORDERS if "several" in name])
@pytest.mark.parametrize("pad_mode", ["constant", "edge", "reflect"])
def test_boxes_of_every_kind_have_the_bits_of_an_array_that_is_not_cut(tmp_path, how, pad_mode):
    np.save(tmp_path / "a.npy", array(tmp_path / "a.zarr", **{**how, "fill_value": 0})[:])

    def read(name):
        words = {"sample_shape": (8, 9, 10), "dtype": "f32", "samples_per_batch": len(WAYS)}
        with wavetrain.Pipeline(config(augment=True, pad_mode=pad_mode, **words)) as pipeline:
            boxes = [wavetrain.Box(tmp_path / name, **words) for words in WAYS.values()]
            pipeline.push([wavetrain.Sample(boxes=[box]) for box in boxes])
            with pipeline.pop() as batch:
                return batch.numpy().copy()

    np.testing.assert_array_equal(read("a.zarr"), read("a.npy"))


def test_a_part_of_a_chunk_that_is_absent_holds_the_fill_value(tmp_path):
    stored = array(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/c/0/0/1").unlink()
    whole = [(0, extent) for extent in SHAPE]
    with wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host") as reader:
        found = reader.read(str(tmp_path / "a.zarr"), whole)
    np.testing.assert_array_equal(found, stored[:])
    assert (found[:20, :, 30:] == 7).all()


def test_a_chunk_of_a_shard_that_is_absent_holds_the_fill_value_in_all_its_parts(tmp_path):
    stored = array(tmp_path / "a.zarr", chunks=ODD, shards=tuple(2 * n for n in ODD))
    # A chunk of nothing else is not written.
    stored[23:, :19, 29:] = 7
    whole = [(0, extent) for extent in SHAPE]
    with wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host") as reader:
        found = reader.read(str(tmp_path / "a.zarr"), whole)
    np.testing.assert_array_equal(found, stored[:])


def test_an_entry_of_another_size_than_its_chunk_is_an_error_that_names_the_chunk(tmp_path):
    array(tmp_path / "a.zarr", chunks=EVEN, shards=SHARD)
    file = tmp_path / "a.zarr/c/0/0/0"
    # The second word of the last entry of the index, and the checksum of all of them.
    data = bytearray(file.read_bytes())
    data[-12:-4] = (1234).to_bytes(8, "little")
    index = data[-8 * 16 - 4 : -4]
    data[-4:] = google_crc32c.value(bytes(index)).to_bytes(4, "little")
    file.write_bytes(data)
    want = r"chunk \[1, 1, 1\] .* 1234 bytes where an uncompressed chunk has 15360"
    reader = wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host")
    with reader, pytest.raises(wavetrain.DecodeError, match=want):
        reader.read(str(tmp_path / "a.zarr"), [(30, 31), (20, 21), (30, 31)])


def test_a_file_of_another_size_than_its_chunk_is_an_error_that_names_the_chunk(tmp_path):
    array(tmp_path / "a.zarr")
    file = pathlib.Path(tmp_path / "a.zarr/c/1/0/0")
    file.write_bytes(file.read_bytes()[:-2])
    want = r"chunk \[1, 0, 0\] in c/1/0/0: the file has 59998 bytes, the chunk needs 60000"
    reader = wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host")
    with reader, pytest.raises(wavetrain.DecodeError, match=want):
        reader.read(str(tmp_path / "a.zarr"), [(30, 31), (0, 1), (0, 1)])


def test_fit_takes_memory_for_large_chunks_only_if_they_are_compressed(tmp_path):
    plain, packed, shards = (str(tmp_path / name) for name in ("plain", "packed", "shards"))
    large = {"shape": (20, 1024, 1024), "chunks": (20, 1024, 1024), "dtype": "u2"}
    zarr.create_array(plain, compressors=None, **large)
    zarr.create_array(packed, **large)
    zarr.create_array(shards, compressors=None, shards=(20, 2048, 1024), **large)
    usual = wavetrain.Config(samples_per_batch=3, sample_shape=BOX, dtype="u16", backend="host")

    def committed(*fit):
        with wavetrain.Pipeline(usual, fit=fit) as pipeline:
            return pipeline.stats().host_bytes_committed

    assert committed() == committed(plain) == committed(shards) < committed(packed)
    reader = wavetrain.Reader(max_chunk_uncompressed_bytes=CAP, backend="host")
    want = "max_chunk_uncompressed_bytes = 4096"
    with reader, pytest.raises(wavetrain.BudgetExceeded, match=want):
        reader.read(packed, [(0, 1)] * 3)
