#!/usr/bin/env python3
"""Writes stores of elements of few bits (int4, int2, float8) with tensorstore, packed in one file.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 \
        numpy==2.4.6 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/venv/bin/python tests/data/make_small.py               # writes tests/data/small.tar.zst

With these versions the output is the same bytes on every run. The pack is as make_fixtures.py
describes its own; the pixels are those of the type that an array is read as: int8, and float16 as
ml_dtypes makes it of a float8, every NaN the quiet one of its sign. make_zarrs writes those that
are packed. Arrays whose unused bits are set are written as int8 by zarr-python; the name of the
type is changed then, and tensorstore reads them.
"""
import json
import pathlib
import shutil
import sys

import ml_dtypes
import numpy as np
import tensorstore as ts
import zarr

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_fixtures as base
from make_fixtures import CRC, blosc, zstd

SHAPE, CHUNK, SHARD = (21, 25), (5, 7), (10, 14)
# zarr's name: wavetrain's name of the type that it is read as, fill value.
TYPES = {
    "int4": ("i8", -3), "int2": ("i8", -2),
    "float8_e4m3fn": ("f16", 0.3125), "float8_e5m2": ("f16", -1.25),
}


def paint(name):
    """Every value, in an order without a pattern."""
    kind = np.dtype(getattr(ml_dtypes, name))
    rng = np.random.default_rng([len(name), 7])
    count = SHAPE[0] * SHAPE[1]
    if kind.name.startswith("int"):
        info = ml_dtypes.iinfo(kind)
        return rng.integers(info.min, info.max + 1, SHAPE).astype(kind)
    bits = np.concatenate([rng.permutation(256), rng.integers(0, 256, count - 256)])
    return bits.astype("u1").view(kind).reshape(SHAPE)


def wide(image, name):
    """The elements as those of the type that the array is read as."""
    if TYPES[name][0] == "i8":
        return image.astype("i1")
    with np.errstate(all="ignore"):
        halves = image.astype(np.float16)
    is_nan, signs = np.isnan(halves), image.view("u1") >> 7
    halves.view("u2")[is_nan] = (0x7E00 | signs.astype("u2") << 15)[is_nan]
    return halves


def entry(name, kind, image, chunk, codecs, writer, shard=None):
    fill = np.array(TYPES[kind][1]).astype(base.DTYPES[TYPES[kind][0]][1])
    base.MANIFEST.append({
        "name": name, "family": "small", "writer": writer, "dtype": TYPES[kind][0],
        "shape": list(SHAPE), "chunk": list(chunk), "shard": shard and list(shard),
        "codecs": [codec["name"] for codec in codecs],
        "raw": base.pixels_file(wide(image, kind)), "fill": fill.tobytes().hex()})


def spec(name, version=3):
    driver = "zarr3" if version == 3 else "zarr"
    return {"driver": driver, "kvstore": {"driver": "file", "path": f"{base.ROOT}/stores/{name}/"}}


def same(a, b):
    assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def store(name, kind, codecs=(), shard=None, version=3):
    """Writes one store of a type, without its last columns, and reads it back."""
    image = paint(kind)
    fill = np.array(TYPES[kind][1]).astype(image.dtype)
    image[:, -8:] = fill
    if version == 2:
        metadata = {"zarr_format": 2, "shape": list(SHAPE), "chunks": list(CHUNK), "dtype": kind,
                    "fill_value": float(fill), "order": "F", "filters": None,
                    "compressor": {"id": "zlib", "level": 5} if codecs else None}
    else:
        chain = [{"name": "bytes"}, *codecs]
        if shard:
            chain = [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": list(CHUNK), "codecs": chain,
                "index_codecs": [base.little(), CRC], "index_location": "end"}}]
        metadata = {"shape": list(SHAPE), "data_type": kind, "codecs": chain,
                    "fill_value": float(fill) if "float" in kind else int(fill),
                    "chunk_grid": {"name": "regular", "configuration": {
                        "chunk_shape": list(shard or CHUNK)}}}
    target = ts.open({**spec(name, version), "metadata": metadata}, create=True).result()
    target[...] = image
    same(ts.open(spec(name, version), open=True).result().read().result(), image)
    entry(name, kind, image, CHUNK, codecs, "tensorstore", shard)


def unused_bits(name, kind):
    """Bytes of which the type has the lowest bits alone."""
    given = np.random.default_rng(99).integers(-128, 128, SHAPE).astype("i1")
    path = base.ROOT / "stores" / name
    target = zarr.create_array(store=str(path), shape=SHAPE, chunks=CHUNK, dtype="int8",
                               compressors=None, fill_value=TYPES[kind][1])
    target[...] = given
    document = json.loads((path / "zarr.json").read_text())
    document["data_type"] = kind
    (path / "zarr.json").write_text(json.dumps(document))
    image = ts.open(spec(name), open=True).result().read().result()
    bits = int(kind[3:])
    same(image.astype("i1"), given << (8 - bits) >> (8 - bits))
    entry(name, kind, image, CHUNK, (), "zarr")


def main():
    try:
        for kind in TYPES:
            store(f"{kind}_bytes", kind)
            store(f"{kind}_zstd", kind, [zstd()])
            store(f"{kind}_shard", kind, [blosc("noshuffle", 1), CRC], SHARD)
            if kind != "int2":
                store(f"{kind}_v2", kind, version=2)
                store(f"{kind}_v2_zlib", kind, [{"name": "zlib"}], version=2)
        unused_bits("int4_unused", "int4")
        unused_bits("int2_unused", "int2")
        base.pack(pathlib.Path(__file__).parent / "small.tar.zst")
    finally:
        shutil.rmtree(base.ROOT)


if __name__ == "__main__":
    main()
