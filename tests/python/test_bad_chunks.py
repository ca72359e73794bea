"""Chunks that cannot be read as NaN, against what zarr-python cannot read of the same store."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest
import zarr
from test_affine_boxes import resampled, turned

import wavetrain
from wavetrain import Affine, Augment, Box, Config, Erase, Field, Pipeline, Sample, Status

SHAPE = (40, 36, 30)
CHUNKS = (10, 9, 15)
CRC = zarr.codecs.Crc32cCodec()
ZSTD = zarr.codecs.ZstdCodec(checksum=True)


def spoil(root: pathlib.Path, random: np.random.Generator) -> None:
    """Other bytes in a few places of each file of chunks."""
    for file in sorted(path for path in (root / "c").rglob("*") if path.is_file()):
        content = bytearray(file.read_bytes())
        for at in random.integers(0, len(content), 1 + len(content) // 20_000):
            content[at] ^= 0x55
        file.write_bytes(content)


def readable(array: zarr.Array, dtype: str) -> tuple[np.ndarray, set[tuple[int, ...]]]:
    """What zarr-python reads, chunk by chunk, and the chunks that it cannot read, as NaN."""
    made, bad = np.full(array.shape, np.nan, dtype), set()
    counts = [-(-extent // chunk) for extent, chunk in zip(array.shape, array.chunks)]
    for place in itertools.product(*map(range, counts)):
        at = tuple(slice(n * chunk, (n + 1) * chunk) for n, chunk in zip(place, array.chunks))
        try:
            made[at] = array[at]
        except Exception:
            bad.add(place)
    return made, bad


@pytest.fixture(scope="module", params=["sharded", "chunked"])
def stored(request, tmp_path_factory):
    """Arrays of floats and integers, spoiled, and what of them can be read."""
    folder, random = tmp_path_factory.mktemp("bad"), np.random.default_rng(3)
    shards = (40, 18, 30) if request.param == "sharded" else None
    found = {}
    types = {"floats": "f4", "doubles": "f8", "image": "u2", "label": "u1"}
    for name, dtype in types.items():
        array = zarr.create_array(
            folder / name,
            shape=SHAPE,
            dtype=dtype,
            chunks=CHUNKS,
            shards=shards,
            compressors=[CRC] if name == "label" else [ZSTD],
            fill_value=0,
        )
        array[...] = random.integers(0, 200, SHAPE)
        if name != "label":
            spoil(folder / name, random)
        found[name] = readable(zarr.open_array(folder / name, mode="r"), "f4")
    bad = {name: len(places) for name, (_, places) in found.items()}
    assert bad.pop("label") == 0 and all(3 < count < 40 for count in bad.values()), bad
    return folder, found


def config(**settings) -> Config:
    settings = {"on_error": "nan", "n_io_threads": 2, "n_decode_threads": 2, **settings}
    return Config(samples_per_batch=2, **settings)


def boxes(random: np.random.Generator, extents, count=20):
    for _ in range(count):
        begin = [int(random.integers(0, s - e + 1)) for s, e in zip(SHAPE, extents)]
        yield [(b, b + e) for b, e in zip(begin, extents)]


def crop(array: np.ndarray, box) -> np.ndarray:
    return array[tuple(slice(*pair) for pair in box)]


@pytest.mark.parametrize("settings", [{}, {"chunk_cache_bytes": 1 << 20}])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("floats", "f32"), ("floats", "f16"), ("doubles", "f64"), ("image", "f32"), ("image", "bf16")],
)
def test_a_bad_chunk_is_nan_in_each_sample_that_reads_it(stored, name, dtype, settings):
    folder, found = stored
    whole, bad = found[name]
    asked = list(boxes(np.random.default_rng(11), (12, 13, 14)))
    made = config(sample_shape=(12, 13, 14), dtype=dtype, **settings)
    with Pipeline(made) as pipeline:
        pipeline.push(Sample(folder / name, box) for box in asked)
        pipeline.flush()
        seen = 0
        for batch in pipeline.batches():
            for row, status in zip(np.array(batch), batch.info.statuses):
                want = crop(whole, asked[seen])
                assert np.array_equal(row, want.astype(row.dtype), equal_nan=True)
                assert (status != Status.OK) == bool(np.isnan(want).any())
                seen += 1
        assert seen == len(asked)
        listed = pipeline.bad_chunks()
        stats = pipeline.stats()
    assert {error.chunk for error in listed} <= bad and len(listed) > 3
    assert len({error.chunk for error in listed}) == len(listed) <= stats.bad_chunks
    for error in listed:
        assert isinstance(error, wavetrain.DecodeError) and str(folder / name) in str(error)
    assert stats.samples_failed == sum(bool(np.isnan(crop(whole, box)).any()) for box in asked)


def test_other_fields_have_pad_value_or_nan_as_they_can(stored):
    folder, found = stored
    whole, label = found["image"][0], found["label"][0]
    asked = list(boxes(np.random.default_rng(5), (12, 13, 14)))
    fields = [
        Field("image", (12, 13, 14), "f32"),
        Field("label", (12, 13, 14), "u8", pad_value=255),
        Field("copy", (12, 13, 14), "u16", pad_value=9),
    ]
    with Pipeline(config(fields=fields)) as pipeline:
        for box in asked:
            pair = [Box(folder / name, box, field=name) for name in ("image", "label")]
            pipeline.push([Sample(boxes=pair)])
        pipeline.flush()
        seen = 0
        for batch in pipeline.batches():
            for n in range(len(batch.info.statuses)):
                want = crop(whole, asked[seen])
                assert np.array_equal(np.array(batch["image"])[n], want, equal_nan=True)
                assert np.array_equal(np.array(batch["label"])[n], crop(label, asked[seen]))
                seen += 1
    assert seen == len(asked)
    # A field of integers cannot hold NaN: its sample is given up, and no field of it is half full.
    with Pipeline(config(fields=fields)) as pipeline:
        for box in asked:
            pipeline.push(
                [
                    Sample(
                        boxes=[
                            Box(folder / "label", box, field="image"),
                            Box(folder / "label", box, field="label"),
                            Box(folder / "image", box, field="copy"),
                        ]
                    )
                ]
            )
        pipeline.flush()
        seen = 0
        for batch in pipeline.batches():
            for n, status in enumerate(batch.info.statuses):
                want = crop(whole, asked[seen])
                rows = {name: np.array(batch[name])[n] for name in ("image", "label", "copy")}
                if status == Status.OK:
                    assert np.array_equal(rows["copy"], want)
                else:
                    assert np.isnan(want).any() and np.isnan(rows["image"]).all()
                    assert (rows["label"] == 255).all() and (rows["copy"] == 9).all()
                seen += 1
    assert seen == len(asked)


def test_arithmetic_keeps_nan_and_erases_it(stored):
    folder, found = stored
    whole = found["image"][0]
    erase = Erase((0, 0, 0), (3, 13, 14), (5.0,))
    augment = Augment(scale=(2.0,), bias=(1.0,), clamp=(0.0, 300.0), erase=(erase,))
    asked = list(boxes(np.random.default_rng(6), (12, 13, 14)))
    made = config(sample_shape=(12, 13, 14), dtype="f32", augment=True)
    with Pipeline(made) as pipeline:
        pipeline.push(Sample(boxes=[Box(folder / "image", box, augment=augment)]) for box in asked)
        pipeline.flush()
        rows = [row for batch in pipeline.batches() for row in np.array(batch)]
    for row, box in zip(rows, asked, strict=True):
        want = np.clip(crop(whole, box) * 2 + 1, 0, 300)
        want[:3] = 5
        assert np.array_equal(row, want.astype("f4"), equal_nan=True)


def test_a_map_gives_nan_where_it_reads_a_bad_chunk(stored):
    folder, found = stored
    random = np.random.default_rng(8)
    shape, count = (12, 13, 14), 0
    settings = {"augment": True, "max_resample_bytes": 64 << 20, "pad_mode": "constant"}
    made = config(sample_shape=shape, dtype="f32", **settings)
    for name in ("floats", "image"):
        whole, _ = found[name]
        maps = [Affine(turned(random, extents=SHAPE), filter="linear") for _ in range(8)]
        with Pipeline(made) as pipeline:
            for affine in maps:
                box = Box(folder / name, [(0, extent) for extent in shape], affine=affine)
                pipeline.push([Sample(boxes=[box])])
            pipeline.flush()
            got = [
                pair
                for batch in pipeline.batches()
                for pair in zip(np.array(batch), batch.info.statuses)
            ]
        for (row, status), affine in zip(got, maps, strict=True):
            want = resampled(whole, affine, shape)
            if status == Status.OK or name == "floats":
                assert np.array_equal(row, want, equal_nan=True)
                count += 1
            else:
                assert status == Status.DECODE and np.isnan(row).all()
    assert count >= 8


def test_read_fails_and_integers_alone_are_refused(stored):
    folder, found = stored
    place = sorted(found["image"][1])[0]
    box = [(n * c, min((n + 1) * c, e)) for n, c, e in zip(place, CHUNKS, SHAPE)]
    made = config(sample_shape=CHUNKS, dtype="f32")
    with wavetrain.Reader(made) as reader, pytest.raises(wavetrain.DecodeError):
        reader.read(folder / "image", box)
    with pytest.raises(wavetrain.InvalidArgument, match="no field has NaN"):
        Pipeline(config(sample_shape=CHUNKS, dtype="u16"))
