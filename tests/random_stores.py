#!/usr/bin/env python3
"""Random stores of zarr-python and tensorstore, cropped by the tool, against what was written.

    python -m venv venv && venv/bin/pip install zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86
    cargo build --release --features cli
    venv/bin/python tests/random_stores.py target/release/wavetrain --seed 1 --count 200

Draws rank, shape, chunks, shards, type, byte order, transposes, codecs, keys, order and fill;
writes all of an array or half of each axis; crops one random box. What a writer itself refuses is
drawn again. Prints what differs, with the folder it lies in, and exits with 1 if anything does.
"""
import argparse
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import numcodecs
import numpy as np
import tensorstore as ts
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

warnings.filterwarnings("ignore")
TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
CNAMES = ["zstd", "lz4", "lz4hc", "zlib", "blosclz"]
EDGE_MAX = {1: 5000, 2: 90, 3: 30, 4: 12, 5: 7}


def painted(noise, shape, dtype):
    if dtype.kind == "b":
        return noise.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return noise.integers(0, 100, shape).astype(dtype)
    if dtype.kind == "c":
        return (noise.normal(size=shape) + 1j * noise.normal(size=shape)).astype(dtype)
    return noise.normal(size=shape).astype(dtype)


def shuffled(dice, count):
    return dice.sample(range(count), count)


def zarr3(dice, path, shape, chunk, dtype, fill):
    blosc = BloscCodec(
        cname=dice.choice(CNAMES), clevel=dice.randint(0, 9), typesize=dice.choice([1, 2, 3, 4, 8]),
        shuffle=dice.choice(["noshuffle", "shuffle", "bitshuffle"]),
        blocksize=dice.choice([0, 0, 256, 4096]))
    codecs = dice.choice([
        None, [blosc], [blosc, Crc32cCodec()], [GzipCodec(level=dice.randint(0, 9))],
        [ZstdCodec(level=dice.choice([-5, 1, 3, 9, 19]))],
        [ZstdCodec(level=3, checksum=True), Crc32cCodec()]])
    more = {}
    if dice.random() < 0.5:
        more["shards"] = {"shape": tuple(edge * dice.randint(1, 4) for edge in chunk),
                          "index_location": dice.choice(["start", "end"])}
    if dice.random() < 0.4:
        more["filters"] = [TransposeCodec(order=tuple(shuffled(dice, len(shape))))]
    keys = {"name": dice.choice(["default", "v2"]), "separator": dice.choice("./")}
    return zarr.create_array(
        path, shape=shape, chunks=chunk, dtype=dtype, fill_value=fill, compressors=codecs,
        serializer=BytesCodec(endian=dice.choice(["little", "big"])), chunk_key_encoding=keys,
        **more)


def zarr2(dice, path, shape, chunk, dtype, fill):
    blosc = numcodecs.Blosc(dice.choice(CNAMES), dice.randint(0, 9), dice.randint(-1, 2))
    codec = dice.choice([None, blosc, numcodecs.Zstd(3), numcodecs.LZ4(), numcodecs.Zlib(5),
                         numcodecs.GZip(5)])
    keys = {"name": "v2", "separator": dice.choice("./")}
    return zarr.create_array(
        path, shape=shape, chunks=chunk, dtype=dtype, fill_value=fill, compressors=codec,
        filters=None, zarr_format=2, order=dice.choice("CF"), chunk_key_encoding=keys)


def tensorstore(dice, path, shape, chunk, dtype, fill):
    def transpose(order):
        return {"name": "transpose", "configuration": {"order": order}}

    def endian():
        return {"name": "bytes", "configuration": {"endian": dice.choice(["little", "big"])}}

    codecs = [transpose(shuffled(dice, len(shape)))] if dice.random() < 0.6 else []
    codecs.append(endian())
    codecs += dice.choice([
        [], [{"name": "zstd", "configuration": {"level": 3}}],
        [{"name": "gzip", "configuration": {"level": 5}}],
        [{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}}]])
    grid = list(chunk)
    for level in range(dice.randint(0, 2)):
        order = shuffled(dice, len(shape)) if dice.random() < 0.4 else list(range(len(shape)))
        if level:
            # What is transposed outside is already transposed inside.
            order = list(range(len(shape)))
        index = [endian()] + ([{"name": "crc32c"}] if dice.random() < 0.7 else [])
        shard = {"chunk_shape": [grid[axis] for axis in order], "codecs": codecs,
                 "index_codecs": index, "index_location": dice.choice(["start", "end"])}
        front = [transpose(order)] if order != sorted(order) else []
        codecs = front + [{"name": "sharding_indexed", "configuration": shard}]
        grid = [edge * dice.randint(1, 3) for edge in grid]
    native = dtype.newbyteorder("=")
    value = {"b": bool(fill), "c": [fill, 0]}.get(dtype.kind, fill)
    metadata = {"shape": list(shape), "data_type": native.name, "codecs": codecs,
                "fill_value": value,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}}}
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}, "metadata": metadata}
    return ts.open(spec, create=True).result()


def drawn(dice, noise, path):
    """A store at `path`, and what it holds."""
    rank = dice.randint(1, 5)
    shape = tuple(dice.randint(1, EDGE_MAX[rank]) for _ in range(rank))
    chunk = tuple(dice.randint(1, max(1, min(n + 3, EDGE_MAX[rank] // 2))) for n in shape)
    dtype = np.dtype(dice.choice(TYPES)).newbyteorder(dice.choice("<>"))
    data, fill = painted(noise, shape, dtype), dice.choice([0, 1])
    array = dice.choice([zarr3, zarr3, zarr2, tensorstore])(dice, path, shape, chunk, dtype, fill)
    if dice.random() < 0.3:
        part = tuple(slice(0, math.ceil(n / 2)) for n in shape)
        whole, data = data, np.full(shape, fill, dtype)
        data[part] = whole[part]
        array[part] = whole[part]
    else:
        array[...] = data
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", help="the wavetrain program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    dice, noise = random.Random(arguments.seed), np.random.default_rng(arguments.seed)
    root = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-random-"))
    read, refused, wrong = 0, 0, []
    while read < arguments.count and refused < arguments.count:
        path, out = root / str(read), root / "crop.npy"
        shutil.rmtree(path, ignore_errors=True)
        try:
            data = drawn(dice, noise, str(path))
        except (ValueError, TypeError) as error:
            refused += 1
            print(f"the writer refused: {error}"[:100])
            continue
        read += 1
        box = []
        for extent in data.shape:
            begin = dice.randrange(extent)
            box.append((begin, dice.randint(begin + 1, extent)))
        text = ",".join(f"{begin}:{end}" for begin, end in box)
        done = subprocess.run([arguments.tool, "crop", path, f"--box={text}", "-o", out],
                              capture_output=True, text=True)
        expected = np.ascontiguousarray(data[tuple(slice(*span) for span in box)])
        expected = expected.astype(data.dtype.newbyteorder("<"))
        if done.returncode:
            wrong.append(f"{path} {text}: {done.stderr.strip()}")
        elif np.load(out).shape != expected.shape or np.load(out).tobytes() != expected.tobytes():
            wrong.append(f"{path} {text}: other bytes")
    print("\n".join(wrong))
    print(f"seed {arguments.seed}: {read} stores read, {len(wrong)} wrong, {refused} not drawn")
    if not wrong:
        shutil.rmtree(root)
    return bool(wrong) or read < arguments.count


if __name__ == "__main__":
    sys.exit(main())
