#!/usr/bin/env python3
"""Writes shards.tar.zst: shards that are compressed as a whole, and shards in shards in shards, by
zarr-python, zarrs and tensorstore.

    python3.12 -m venv /tmp/new
    /tmp/new/bin/pip install zarr==3.4.2 cast-value-rs==0.5.1 numcodecs==0.17.1 numpy==2.5.5 \
        zarrs==0.2.3 tensorstore==0.1.86 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/new/bin/python tests/data/make_shards.py

With these versions the output is the same bytes on every run. All stores stand in apart.json. Each
is read by zarr-python, and by zarrs and tensorstore as far as they read it, and compared with what
was written. Every array has chunks that are missing as files, and chunks
that are missing in shards, which are its fill value.
"""

import gzip as python_gzip
import json
import pathlib
import shutil
import warnings

import make_fixtures as made
import numpy as np
import tensorstore as ts
import zarr
import zarrs  # noqa: F401
from make_fixtures import (
    CRC,
    DTYPES,
    ROOT,
    blosc,
    fill_element,
    fill_json,
    paint,
    pixels_file,
    zstd,
)
from make_fixtures import little as words

HERE = pathlib.Path(__file__).parent
APART = []
SHAPE, OUTER, INNER, LEAST = (21, 29), (8, 12), (4, 6), (2, 3)
PIPELINES = {
    "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}


def shard(chunk, *codecs, start=False, crc=True, endian="little"):
    index = [words(endian)] + ([CRC] if crc else [])
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": list(chunk),
            "codecs": list(codecs),
            "index_codecs": index,
            "index_location": "start" if start else "end",
        },
    }


def turned(*order):
    return {"name": "transpose", "configuration": {"order": list(order)}}


def gzip(level=5):
    return {"name": "gzip", "configuration": {"level": level}}


def numcodecs(name, **options):
    return {"name": f"numcodecs.{name}", "configuration": options}


def scaled():
    offset = {"name": "scale_offset", "configuration": {"offset": 0, "scale": 2}}
    cast = {"name": "cast_value", "configuration": {"data_type": "uint8"}}
    return [offset, cast]


def as_zarr(pipeline):
    return zarr.config.set(
        {"codec_pipeline.path": PIPELINES[pipeline], "codec_pipeline.strict": True}
    )


def seen_by(reader, path):
    if reader == "tensorstore":
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
        return ts.open(spec, open=True).result().read().result()
    with as_zarr(reader):
        return zarr.open_array(str(path), mode="r")[...]


def write(writer, path, image, written, metadata, fill):
    if writer == "tensorstore":
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
        target = ts.open({**spec, "metadata": metadata}, create=True).result()
        target[written] = image[written]
        return
    grid = metadata["chunk_grid"]["configuration"]
    with as_zarr("zarr"):
        zarr.create(
            store=str(path),
            shape=image.shape,
            chunks=grid["chunk_shape"],
            dtype=metadata["data_type"],
            codecs=metadata["codecs"],
            zarr_format=3,
            fill_value=fill,
        )
    with as_zarr(writer):
        # Whole chunks alone, since zarrs reads no part of one.
        zarr.open_array(str(path), mode="r+")[written] = image[written]


def store(name, codecs, dtype="u16", writer="zarr", *, image=None, chunk=OUTER, readers=None):
    """One store; its last files are missing, and some chunks of its shards are fill values."""
    fill = fill_element(dtype, made.default_fill(dtype))
    image = paint(dtype, SHAPE) if image is None else image
    edge = chunk[-1]
    written = (..., slice(0, image.shape[-1] // edge * edge))
    image[..., written[1].stop :] = fill
    # A corner of each axis' second chunk, and one in the midst of the first.
    image[tuple(slice(c, c + c // 2) for c in chunk)] = fill
    image[tuple(slice(c // 2, c) for c in chunk)] = fill
    path = ROOT / "stores" / name
    assert not path.exists(), name
    metadata = {
        "shape": list(image.shape),
        "data_type": DTYPES[dtype][0],
        "codecs": codecs,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "fill_value": fill_json(DTYPES[dtype][1], fill),
    }
    write(writer, path, image, written, metadata, fill)
    readers = readers or ["zarr", "zarrs"]
    for reader in readers:
        seen = np.ascontiguousarray(seen_by(reader, path))
        assert seen.tobytes() == np.ascontiguousarray(image).tobytes(), (name, reader)
    after = [codec["name"] for codec in codecs if codec["name"] != "transpose"][1:]
    APART.append(
        {
            "name": name,
            "family": "shards",
            "writer": writer,
            "dtype": dtype,
            "shape": list(image.shape),
            "chunk": list(chunk),
            "shard": None,
            "codecs": after,
            "raw": pixels_file(image),
            "fill": np.asarray(fill).tobytes().hex(),
        }
    )


def after():
    """Codecs after a shard, and before it those of its chunks."""
    plain = words()
    chains = {
        "zstd_zstd": ([plain, zstd()], [zstd()]),
        "plain_zstd": ([plain], [zstd(checksum=True)]),
        "zstd_gzip": ([plain, zstd()], [gzip()]),
        "gzip_zstd": ([plain, gzip()], [zstd()]),
        "crc_crc": ([plain, CRC], [CRC]),
        "plain_crc_zstd": ([plain], [CRC, zstd()]),
        "zstd_zstd_crc": ([plain, zstd()], [zstd(), CRC]),
        "blosc_zstd": ([plain, blosc("shuffle", 2)], [zstd()]),
        "plain_blosc": ([plain], [blosc("shuffle", 2)]),
        "zstd_blosc": ([plain, zstd()], [blosc("bitshuffle", 1)]),
        "blosc_blosc": ([plain, blosc("bitshuffle", 2)], [blosc("noshuffle", 4, 9)]),
        "big_zstd": ([words("big"), zstd()], [zstd()]),
        "zstd_crc_crc": ([plain, zstd(), CRC], [CRC]),
    }
    for number, (name, (inner, outer)) in enumerate(chains.items()):
        writer = "zarrs" if number % 3 == 1 else "zarr"
        store(f"after_{name}", [shard(INNER, *inner), *outer], writer=writer)
    # zarrs has these under other names or not at all.
    alone = {
        "zlib": numcodecs("zlib", level=4),
        "lz4": numcodecs("lz4", acceleration=1),
        "adler32": numcodecs("adler32"),
        "crc32": numcodecs("crc32"),
    }
    for name, codec in alone.items():
        store(f"after_{name}", [shard(INNER, plain, zstd()), codec], readers=["zarr"])
        store(f"inside_{name}", [shard(INNER, plain, codec), zstd()], readers=["zarr"])


def indexes():
    for start in [False, True]:
        for crc in [False, True]:
            for endian in ["little", "big"]:
                how = {"start": start, "crc": crc, "endian": endian}
                name = "_".join(["start" if start else "end", "crc" if crc else "bare", endian])
                codecs = [shard(INNER, words(), zstd(), **how), zstd()]
                store(f"index_{name}", codecs)


def types():
    for dtype in DTYPES:
        # zarr-python has none.
        if dtype == "bf16":
            continue
        order = words("big") if DTYPES[dtype][1].itemsize > 1 else {"name": "bytes"}
        # zarrs 0.2.3 takes complex numbers for words of their whole size.
        readers = ["zarr"] if dtype[0] == "c" else None
        store(f"type_{dtype}", [shard(INNER, order, zstd()), zstd()], dtype, readers=readers)


def shapes():
    plain = words()
    image = paint("i32", (13, 11, 17))
    three = [
        turned(2, 0, 1),
        shard((3, 6, 2), turned(1, 2, 0), plain, zstd()),
        zstd(),
    ]
    store("turned_3d", three, "i32", image=image, chunk=(6, 6, 6))
    # zarr-python asks that the shape before a transpose is divided, too.
    both = [turned(1, 0), shard((6, 4), turned(1, 0), plain), gzip()]
    store("turned_both", both, writer="zarrs", chunk=(12, 12))
    store("turned_inside", [shard(INNER, turned(1, 0), plain, zstd()), zstd()])
    front = [turned(1, 0), shard((6, 4), plain, zstd()), zstd()]
    store("turned_front", front, writer="zarrs", chunk=(12, 24))
    store("one_chunk", [shard(OUTER, plain, zstd()), zstd()])
    store("one_element", [shard((1, 1), plain), zstd()])
    store("rows", [shard((1, 12), plain, zstd()), zstd()])
    store("columns", [shard((8, 1), plain, zstd()), zstd()])
    image = paint("f32", (997,))
    store("line", [shard((16,), plain, zstd()), zstd()], "f32", image=image, chunk=(192,))
    noise = np.random.default_rng(5).integers(0, 1 << 16, SHAPE).astype("u2")
    store("noise", [shard(LEAST, plain, gzip()), zstd()], image=noise)
    store(
        "noise_blosc", [shard(LEAST, plain, blosc("shuffle", 2)), blosc("shuffle", 2)], image=noise
    )
    store(
        "delta",
        [shard(INNER, numcodecs("delta", dtype="<u2"), plain, zstd()), zstd()],
        readers=["zarr"],
    )
    small = (3 + np.indices(SHAPE).sum(0) % 90).astype("i2")
    store(
        "scaled",
        [shard(INNER, *scaled(), {"name": "bytes"}, zstd()), zstd()],
        "i16",
        image=small,
        readers=["zarr"],
    )


def nested():
    plain, chunk = words(), (16, 24)
    every = ["zarr", "zarrs", "tensorstore"]
    within = [shard(LEAST, plain, zstd())]
    two = [shard(INNER, *within)]
    three = [shard(OUTER, *two)]
    store("nested_inner", [shard(OUTER, shard(INNER, plain, zstd()), zstd())], chunk=chunk)
    store("nested_outer", [shard(OUTER, shard(INNER, plain, zstd())), zstd()], chunk=chunk)
    store("nested_both", [shard(OUTER, shard(INNER, plain, zstd()), gzip()), zstd()], chunk=chunk)
    store("nested_crc", [shard(OUTER, shard(INNER, plain, zstd()), CRC), CRC], chunk=chunk)
    store(
        "nested_blosc",
        [shard(OUTER, shard(INNER, plain), blosc("shuffle", 2)), zstd()],
        chunk=chunk,
        writer="zarrs",
    )
    store("nested_three", three, chunk=chunk, readers=every)
    store("nested_three_ts", three, "i64", "tensorstore", chunk=chunk, readers=every)
    store("nested_three_zarrs", three, "f64", "zarrs", chunk=chunk, readers=every)
    store(
        "nested_three_plain",
        [shard(OUTER, shard(INNER, shard(LEAST, plain)))],
        chunk=chunk,
        readers=every,
    )
    store("nested_three_zstd", [*three, zstd()], chunk=chunk)
    store("nested_three_low", [shard(OUTER, shard(INNER, *within, gzip()))], chunk=chunk)
    four = [shard(chunk, *three)]
    store("nested_four", four, chunk=(16, 24), readers=every)
    store("nested_four_ts", four, "u8", "tensorstore", chunk=chunk, readers=every)
    store(
        "nested_turned",
        [
            turned(1, 0),
            shard(
                (12, 8),
                turned(1, 0),
                shard((4, 4), turned(1, 0), shard((2, 1), turned(1, 0), plain)),
            ),
        ],
        chunk=(24, 24),
        readers=every,
    )
    image = paint("u16", (19, 13, 27))
    deep = shard((2, 4, 6), turned(2, 0, 1), shard((2, 2, 2), turned(1, 0, 2), plain, zstd()))
    store("nested_3d", [shard((4, 4, 12), deep)], image=image, chunk=(8, 8, 12), readers=every)
    # tensorstore writes chunks that are the fill value only where it is not told otherwise.
    marked = shard(INNER, shard(LEAST, plain, start=True, crc=False), start=True)
    store(
        "nested_start",
        [shard(OUTER, marked, start=True, crc=False)],
        "u32",
        "tensorstore",
        chunk=chunk,
        readers=every,
    )


def main():
    warnings.simplefilter("ignore")
    # gzip writes the time of day into a member, and zarr-python leaves it there.
    python_gzip.time.time = lambda: 0
    try:
        for family in [after, indexes, types, shapes, nested]:
            family()
        lines = ",\n".join(map(json.dumps, APART))
        (ROOT / "apart.json").write_text(f"[\n{lines}\n]\n")
        made.pack(HERE / "shards.tar.zst")
    finally:
        shutil.rmtree(ROOT)
    print(len(APART), "stores")


if __name__ == "__main__":
    main()
