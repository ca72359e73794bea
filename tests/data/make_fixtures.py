#!/usr/bin/env python3
"""Writes the identity fixtures: zarr v3 stores made by other people's software, packed in one file.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 \
        numpy==2.4.6 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/venv/bin/python tests/data/make_fixtures.py            # writes tests/data/fixtures.tar.zst

With these versions the output is the same bytes on every run. In: nothing. Out: a tar with

    manifest.json      one object per store: name, family, writer, dtype, shape, chunk and shard
                       shape, fill (hex of one little-endian element), raw (file of the pixels)
    raw/*              expected pixels: C order, little endian, each distinct content once
    stores/NAME/       the store

Every store is read back whole (with tensorstore, which wrote a third of them) and compared with the
pixels before it is packed, so that one writer's mistake cannot become the expectation.
"""
import hashlib
import io
import itertools
import json
import os
import pathlib
import shutil
import struct
import sys
import tarfile
import tempfile
import zlib

import ml_dtypes
import numcodecs.blosc
import numpy as np
import tensorstore as ts
import zarr
import zstandard

numcodecs.blosc.use_threads = False
zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})
ROOT = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-fixtures-"))
MANIFEST = []
PIXELS = {}

# wavetrain's name: (zarr's name, numpy's type)
DTYPES = {
    "bool": ("bool", np.dtype("?")),
    "u8": ("uint8", np.dtype("u1")),
    "u16": ("uint16", np.dtype("<u2")),
    "u32": ("uint32", np.dtype("<u4")),
    "u64": ("uint64", np.dtype("<u8")),
    "i8": ("int8", np.dtype("i1")),
    "i16": ("int16", np.dtype("<i2")),
    "i32": ("int32", np.dtype("<i4")),
    "i64": ("int64", np.dtype("<i8")),
    "f16": ("float16", np.dtype("<f2")),
    "f32": ("float32", np.dtype("<f4")),
    "f64": ("float64", np.dtype("<f8")),
    "bf16": ("bfloat16", np.dtype(ml_dtypes.bfloat16)),
    "c64": ("complex64", np.dtype("<c8")),
    "c128": ("complex128", np.dtype("<c16")),
}

# rank: (array, chunk, shard); neither chunks nor shards divide the array.
SHAPES = {
    1: ((997,), (64,), (192,)),
    2: ((37, 29), (8, 9), (16, 18)),
    3: ((11, 13, 7), (4, 5, 3), (8, 5, 6)),
    4: ((3, 7, 9, 5), (2, 3, 4, 3), (4, 3, 8, 3)),
    5: ((2, 3, 5, 7, 4), (1, 2, 3, 4, 3), (2, 2, 3, 8, 3)),
    6: ((2, 3, 3, 4, 5, 3), (2, 1, 2, 3, 2, 2), (2, 2, 2, 3, 4, 4)),
}


def paint(dtype, shape, seed=0):
    """A slope along every axis with noise in its lowest bits; extremes and specials strewn in."""
    numpy_type = DTYPES[dtype][1]
    rng = np.random.default_rng([seed, len(shape), zlib.crc32(dtype.encode())])
    slope = sum((i * (3 + 2 * axis)) for axis, i in enumerate(np.indices(shape))) + 1
    noise = rng.integers(0, 4, shape)
    if dtype == "bool":
        return (slope + noise) % 3 == 0
    if numpy_type.kind in "iu":
        bits = 8 * numpy_type.itemsize
        wide = (slope * 4 + noise).astype("u8") * np.uint64((1 << bits) // 5000 + 1)
        image = wide.astype(numpy_type.str.replace("i", "u")).view(numpy_type).copy()
        limits = np.iinfo(numpy_type)
        specials = [limits.min, limits.max, limits.max - 1]
    else:
        if numpy_type.kind == "c":
            part = "f32" if dtype == "c64" else "f64"
            real = paint(part, shape, seed + 1)
            image = np.empty(shape, numpy_type)
            image.real, image.imag = real, real[tuple(slice(None, None, -1) for _ in shape)]
            return image
        image = ((slope - 60) * 1.7 + noise / 8).astype(numpy_type)
        info = ml_dtypes.finfo(numpy_type)
        tiny = info.smallest_subnormal
        specials = [np.inf, -np.inf, -0.0, info.max, info.min, tiny, np.nan, 65519.9, 1 + 2**-11]
    places = rng.permutation(image.size)[: len(specials)]
    flat = image.reshape(-1)
    for place, special in zip(places, specials):
        flat[place] = np.array(special).astype(numpy_type)
    if dtype in ("f16", "f32", "f64"):
        # A quiet NaN with a payload and a sign: a bit copy keeps both.
        words = flat.view(numpy_type.str.replace("f", "u"))
        words[rng.integers(0, flat.size)] = ~words.dtype.type(0) - words.dtype.type(5)
    return image


def pixels_file(image):
    """Name under raw/ of these pixels; equal contents share a file."""
    if image.dtype.kind != "V":
        image = image.astype(image.dtype.newbyteorder("<"))
    data = np.ascontiguousarray(image).tobytes()
    name = hashlib.sha256(data).hexdigest()[:16]
    PIXELS[name] = data
    return name


def little(endian="little"):
    return {"name": "bytes", "configuration": {"endian": endian}}


CRC = {"name": "crc32c"}


def zstd(level=3, checksum=False):
    return {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}


def blosc(shuffle, typesize, clevel=5, blocksize=0):
    options = dict(cname="zstd", clevel=clevel, shuffle=shuffle, typesize=typesize)
    return {"name": "blosc", "configuration": {**options, "blocksize": blocksize}}


def fill_json(image_type, value):
    """The fill value as zarr v3 spells it."""
    if isinstance(value, str):
        return value
    if image_type.kind == "c":
        part = np.dtype("f4") if image_type.itemsize == 8 else np.dtype("f8")
        return [fill_json(part, np.real(value)), fill_json(part, np.imag(value))]
    if image_type.kind in "fV":
        value = float(value)
        if value != value:
            return "NaN"
        return value if abs(value) != np.inf else ("Infinity" if value > 0 else "-Infinity")
    return bool(value) if image_type.kind == "b" else int(value)


def fill_element(dtype, fill):
    """One element of the fill value. Hex strings give the bits, most significant byte first."""
    numpy_type = DTYPES[dtype][1]
    if isinstance(fill, str):
        return np.frombuffer(bytes.fromhex(fill[2:])[::-1], numpy_type)[0]
    return np.array(fill).astype(numpy_type)[()]


def default_fill(dtype):
    return {"b": True, "c": 3 - 2j}.get(DTYPES[dtype][1].kind, 3)


def store(name, dtype, image, chunk, shard=None, codecs=(), writer="zarr", family="matrix",
          fill=None, index_start=False, index_crc=True, endian="little", key=("default", "/"),
          write=None, level_two=None):
    """Writes one store, reads it back, and adds it to the manifest. `write`: the slices to write,
    None for all of it."""
    zarr_name, numpy_type = DTYPES[dtype]
    fill = default_fill(dtype) if fill is None else fill
    chain = [little(endian) if numpy_type.itemsize > 1 else {"name": "bytes"}, *codecs]
    if shard:
        index = [little()] + ([CRC] if index_crc else [])
        chain = [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": list(chunk), "codecs": chain, "index_codecs": index,
            "index_location": "start" if index_start else "end"}}]
    path = ROOT / "stores" / name
    assert not path.exists(), name
    encoding = {"name": key[0], "configuration": {"separator": key[1]}}
    grid = list(shard or chunk)
    fill_text = fill_json(numpy_type, fill)
    if writer == "zarr":
        target = zarr.create(
            store=str(path), shape=image.shape, chunks=grid, dtype=zarr_name, codecs=chain,
            zarr_format=3, chunk_key_encoding=encoding, fill_value=fill_element(dtype, fill))
    else:
        target = ts.open({
            "driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"},
            "metadata": {
                "shape": list(image.shape), "data_type": zarr_name, "codecs": chain,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
                "chunk_key_encoding": encoding, "fill_value": fill_text},
        }, create=True).result()
    for region in [(slice(None),) * image.ndim] if write is None else write:
        target[region] = image[region]
    check(path, image, name)
    MANIFEST.append({
        "name": name, "family": family, "writer": writer, "dtype": dtype,
        "shape": list(image.shape), "chunk": list(chunk), "shard": list(shard) if shard else None,
        "codecs": [codec["name"] for codec in codecs], "raw": pixels_file(image),
        "fill": fill_element(dtype, fill).tobytes().hex()})


def check(path, image, name, reader="tensorstore"):
    """The store holds the pixels, as the reader sees it, bit for bit."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    if reader == "tensorstore":
        seen = ts.open(spec, open=True).result().read().result()
    else:
        seen = zarr.open_array(str(path), mode="r")[...]
    assert seen.shape == image.shape, name
    assert np.ascontiguousarray(seen).tobytes() == np.ascontiguousarray(image).tobytes(), name


def codec_of(kind, size):
    chains = {"bytes": [], "zstd": [zstd()]}
    shuffle = {"blosc": "noshuffle", "blosc_byte": "shuffle", "blosc_bit": "bitshuffle"}
    return chains[kind] if kind in chains else [blosc(shuffle[kind], size)]


def matrix():
    """Every type x codec x layout; the rank goes round, a third of the stores by tensorstore."""
    kinds = ["bytes", "zstd", "blosc", "blosc_byte", "blosc_bit"]
    layouts = ["plain", "shard", "start"]
    for d, dtype in enumerate(DTYPES):
        for (k, kind), (l, layout) in itertools.product(enumerate(kinds), enumerate(layouts)):
            rank = 1 + (d + k + 2 * l) % 6
            shape, chunk, shard = SHAPES[rank]
            writer = "tensorstore" if dtype == "bf16" or (d + k + l) % 3 == 0 else "zarr"
            store(f"{dtype}_{kind}_{layout}", dtype, paint(dtype, shape), chunk,
                  None if layout == "plain" else shard,
                  codec_of(kind, DTYPES[dtype][1].itemsize), writer=writer,
                  index_start=layout == "start")


def every_rank():
    """u16 and f32 of every rank, so that no rank depends on how the matrix goes round."""
    for rank, dtype in itertools.product(SHAPES, ["u16", "f32"]):
        shape, chunk, shard = SHAPES[rank]
        store(f"rank{rank}_{dtype}", dtype, paint(dtype, shape), chunk, shard, [zstd()],
              family="rank")


def variants():
    """One difference each from a plain sharded or unsharded store."""
    shape, chunk, shard = SHAPES[3]
    u16, f32 = paint("u16", shape), paint("f32", shape)

    def one(name, dtype, image, sharded=True, chunk=chunk, shard=shard, **options):
        store(f"variant_{name}", dtype, image, chunk, shard if sharded else None,
              family="variant", **options)

    for sharded in [False, True]:
        tail = "shard" if sharded else "plain"
        one(f"crc_{tail}", "u16", u16, sharded, codecs=[CRC])
        one(f"zstd_crc_{tail}", "f32", f32, sharded, codecs=[zstd(), CRC])
        one(f"blosc_crc_{tail}", "u16", u16, sharded, codecs=[blosc("shuffle", 2), CRC])
        one(f"checksum_{tail}", "u16", u16, sharded, codecs=[zstd(5, True)])
        one(f"dot_{tail}", "u16", u16, sharded, codecs=[zstd()], key=("default", "."))
        one(f"v2_{tail}", "f32", f32, sharded, codecs=[zstd()], key=("v2", "."))
        one(f"v2_slash_{tail}", "u16", u16, sharded, codecs=[zstd()], key=("v2", "/"))
        one(f"big_{tail}", "u16", u16, sharded, endian="big")
        one(f"big_zstd_{tail}", "f32", f32, sharded, codecs=[zstd()], endian="big")
        one(f"big_c64_{tail}", "c64", paint("c64", shape), sharded, codecs=[zstd()], endian="big")
        for level in [-5, 1, 9, 19]:
            one(f"level{level}_{tail}", "u16", u16, sharded, codecs=[zstd(level)],
                writer="tensorstore")
    for writer in ["zarr", "tensorstore"]:
        one(f"index_plain_end_{writer}", "u16", u16, codecs=[zstd()], index_crc=False,
            writer=writer)
        one(f"index_plain_start_{writer}", "f32", f32, codecs=[zstd()], index_crc=False,
            index_start=True, writer=writer)
    one("one_chunk_shards", "u16", u16, shard=chunk, codecs=[zstd()])
    one("one_chunk_array", "f32", f32, False, chunk=(16, 16, 16), codecs=[zstd()])
    one("one_chunk_one_shard", "u16", u16, chunk=(12, 14, 8), shard=(12, 14, 8), codecs=[zstd()])
    one("one_element_axis", "u16", u16[:, :1], chunk=(4, 1, 3), shard=(8, 1, 6), codecs=[zstd()])


def many_chunks():
    """Shards of 4,096 one-element chunks, and one of 4,096 chunks that the array does not fill."""
    image = paint("u16", (64, 64))
    options = dict(family="many", writer="tensorstore")
    store("many_bytes", "u16", image, (1, 1), (64, 64), **options)
    store("many_zstd", "u8", paint("u8", (64, 64)), (1, 1), (64, 64), [zstd()], **options)
    image = paint("f32", (50, 61))
    store("many_edge", "f32", image, (1, 1), (64, 64), index_start=True, **options)


def cells(shape, edge, keep):
    """Slices of the grid cells whose running number `keep` accepts."""
    counts = [-(-n // e) for n, e in zip(shape, edge)]
    for number, cell in enumerate(itertools.product(*map(range, counts))):
        if keep(number):
            yield tuple(slice(i * e, min((i + 1) * e, n)) for i, e, n in zip(cell, edge, shape))


def sparse():
    """Chunks, shards or everything missing, under fills that a zeroed buffer cannot fake."""
    fills = {
        "u8_42": ("u8", 42), "u16_42": ("u16", 42), "i16_minus1": ("i16", -1),
        "i32_minus1": ("i32", -1), "f32_minus1": ("f32", -1.0), "f32_nan": ("f32", np.nan),
        "f64_nan": ("f64", np.nan), "f64_minus_inf": ("f64", -np.inf),
        "f32_inf": ("f32", np.inf), "f16_tiny": ("f16", 6e-8), "f16_near2": ("f16", 1.9999),
        "f32_minus_zero": ("f32", -0.0), "u64_max": ("u64", 2**64 - 1),
        "i64_min": ("i64", -(2**63)), "i8_min": ("i8", -128), "bool_true": ("bool", True),
        "c64_nan": ("c64", complex(np.nan, -1)), "c128": ("c128", 1e300 + 2j),
        "f32_hex": ("f32", "0x7fc00123"), "f64_hex": ("f64", "0xfff8000000000456"),
        "f16_hex": ("f16", "0xfe01"), "bf16_hex": ("bf16", "0xffc1"), "bf16_minus1": ("bf16", -1),
    }
    for n, (name, (dtype, fill)) in enumerate(fills.items()):
        shape, chunk, shard = SHAPES[1 + (n + 1) % 4]
        odd = isinstance(fill, str) or dtype == "bf16"
        for layout, missing in itertools.product(["plain", "shard"], ["some", "all"]):
            if missing == "all" and n % 3:
                continue
            blank = np.full(shape, fill_element(dtype, fill), DTYPES[dtype][1])
            image, painted = blank, paint(dtype, shape, 9)
            keep = []
            if missing == "some":
                # Two files of three are there; of the chunks in them, every second.
                files = list(cells(shape, shard, lambda number: number % 3 != 1))
                for region in cells(shape, chunk, lambda number: number % 2 == 0):
                    inside = any(all(f.start <= c.start and c.stop <= f.stop
                                     for f, c in zip(file, region)) for file in files)
                    if inside:
                        image[region] = painted[region]
                        keep.append(region)
                assert 0 < len(keep)
            store(f"sparse_{name}_{missing}_{layout}", dtype, image, chunk,
                  shard if layout == "shard" else None, [zstd()], family="sparse", fill=fill,
                  writer="tensorstore" if odd or n % 4 == 0 else "zarr", write=keep,
                  index_start=n % 2 == 0)
            check_sparse(ROOT / "stores" / f"sparse_{name}_{missing}_{layout}", layout, missing)


def check_sparse(path, layout, missing):
    """The store really lacks what it is meant to lack."""
    files = [p for p in path.rglob("*") if p.is_file() and p.name != "zarr.json"]
    if missing == "all":
        assert not files, path
    elif layout == "shard":
        assert files and any(b"\xff" * 16 in p.read_bytes() for p in files), path


def blosc_shapes():
    """The blosc layouts that small chunks never show: tails, stored blocks, stored chunks."""
    def one(name, dtype, image, chunk, shuffle, clevel, shard=None, blocksize=0):
        codec = blosc(shuffle, DTYPES[dtype][1].itemsize, clevel, blocksize)
        store(f"blosc_{name}", dtype, image, (chunk,), shard, [codec], family="blosc")

    rng = np.random.default_rng(7)
    for dtype, shuffle in [("u8", "noshuffle"), ("u16", "shuffle"), ("u16", "bitshuffle"),
                           ("f64", "shuffle"), ("f64", "bitshuffle"), ("u8", "bitshuffle")]:
        size = DTYPES[dtype][1].itemsize
        image = np.resize(paint(dtype, (700,)), 110_000 // size)
        # 100,000 bytes at level 1: three blocks of 32 KiB and a tail of 1,696 bytes.
        one(f"tail_{dtype}_{shuffle}", dtype, image, 100_000 // size, shuffle, 1)
    image = np.resize(paint("u8", (900,)), 100_000)
    image[32768:65536] = rng.integers(0, 256, 32768)
    image[98304:] = rng.integers(0, 256, 1696)
    one("stored_middle_and_tail", "u8", image, 100_000, "noshuffle", 1)
    one("stored_middle_and_tail_shard", "u8", image, 100_000, "shuffle", 1, shard=(200_000,))
    odd = np.resize(paint("u16", (500,)), 34_000 + 3)
    # A tail whose element count is no multiple of 8 is stored without the bit transposition.
    one("odd_bitshuffle_tail", "u16", odd, len(odd), "bitshuffle", 1)
    one("odd_length", "u16", np.resize(odd, 2006), 1003, "bitshuffle", 5)
    large = np.resize(paint("u16", (1000,)), 500_000)
    one("a_million_bytes", "u16", large, 500_000, "shuffle", 3)
    noise = rng.integers(0, 256, 6000).astype("u1")
    one("memcpyed", "u8", noise, 2000, "noshuffle", 5)
    one("memcpyed_shuffle", "u16", noise.view("<u2"), 1000, "shuffle", 5)
    one("memcpyed_bitshuffle", "f32", (noise[:4000].view("<u4") & 0x7F7FFFFF).view("<f4"), 500,
        "bitshuffle", 5, shard=(1000,))
    one("eight_bytes", "u16", paint("u16", (42,)), 4, "shuffle", 5, shard=(16,))
    one("constant", "f32", np.full(9000, 2.5, "<f4"), 4096, "shuffle", 5)
    one("constant_bit", "u16", np.full(70_000, 0x1234, "<u2"), 65_536, "bitshuffle", 1)
    for clevel in range(10):
        shuffle = ["noshuffle", "shuffle", "bitshuffle"][clevel % 3]
        one(f"clevel{clevel}", "u16", paint("u16", (2500,)), 1200, shuffle, clevel)
    for dtype in ["u8", "u32", "u64"]:
        one(f"blocksize_{dtype}", dtype, np.resize(paint(dtype, (600,)), 4000), 3001, "shuffle", 5,
            blocksize=1024)
    for dtype, kind in itertools.product(["u8", "u16", "u32", "u64"], ["shuffle", "bitshuffle"]):
        one(f"{dtype}_{kind}", dtype, np.resize(paint(dtype, (500,)), 3000), 2800, kind, 5,
            shard=(5600,))


def mixed():
    """Arrays for one batch: no two agree in type, codec, chunk shape and rank."""
    def one(name, dtype, shape, chunk, shard=None, codecs=(), **options):
        store(f"mixed_{name}", dtype, paint(dtype, shape, 3), chunk, shard, codecs,
              family="mixed", **options)

    one("a", "u8", (20, 22), (7, 6))
    one("b", "u16", (3, 18, 21), (1, 8, 5), (2, 16, 10), [zstd()])
    one("c", "i16", (19, 2, 20), (6, 1, 9), None, [blosc("shuffle", 2)])
    one("d", "f32", (2, 2, 17, 19), (1, 2, 5, 16), (2, 2, 15, 32), [blosc("bitshuffle", 4), CRC])
    one("e", "f16", (1, 3, 1, 18, 18), (1, 1, 1, 18, 18), None, [zstd(3, True)])
    one("f", "i32", (21, 17), (4, 4), (12, 8), endian="big")
    one("g", "u32", (2, 16, 25), (2, 5, 5), (2, 10, 15), [CRC], index_start=True)
    one("h", "i8", (24, 16), (24, 3), None, [blosc("noshuffle", 1)], writer="tensorstore")
    one("i", "f64", (16, 1, 23), (16, 1, 1), (16, 1, 8), [zstd()], writer="tensorstore")
    one("j", "bf16", (16, 33), (3, 11), (9, 22), [zstd()], writer="tensorstore")


def blosc_census():
    """Every shuffle occurs in chunks of blocks and in stored chunks: asserts and prints it."""
    counts = {}
    for entry in MANIFEST:
        if entry["codecs"][:1] == ["blosc"] and not entry["shard"]:
            for file in (ROOT / "stores" / entry["name"] / "c").rglob("*"):
                if file.is_file():
                    flags = file.read_bytes()[2]
                    assert flags >> 5 == 4, entry["name"]
                    key = ({0: "none", 1: "byte", 4: "bit"}[flags & 5], bool(flags & 2))
                    counts[key] = counts.get(key, 0) + 1
    print("blosc chunks by shuffle and whether stored:", counts)
    assert len(counts) == 6


def frames():
    """zstd frames that neither writer makes today but older ones and streams do: without a content
    size, several in a chunk, with a wide window. The chunk files of a plain store are replaced."""
    def unsized(data, **options):
        return zstandard.ZstdCompressor(write_content_size=False, **options).compress(data)

    def streamed(data):
        stream = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
        parts = [stream.compress(data[:100]), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
        return b"".join([*parts, stream.compress(data[100:]), stream.flush()])

    def several(data):
        cuts = [0, 1, len(data) // 3, len(data) // 2, len(data)]
        return b"".join(zstandard.compress(data[a:b]) for a, b in zip(cuts, cuts[1:]))

    wide = zstandard.ZstdCompressionParameters.from_level(
        3, window_log=24, enable_ldm=True, write_content_size=False)
    makers = {
        "unsized": lambda data: unsized(data, level=3),
        "unsized_checksum": lambda data: unsized(data, level=1, write_checksum=True),
        "streamed": streamed,
        "several": several,
        "several_unsized": lambda data: unsized(data[:50]) + unsized(data[50:]),
        "wide": lambda data: zstandard.ZstdCompressor(compression_params=wide).compress(data),
    }
    for name, make in makers.items():
        for dtype in ["u16", "f32"]:
            shape, chunk, _ = SHAPES[3]
            image = paint(dtype, shape)
            full = f"frames_{name}_{dtype}"
            store(full, dtype, image, chunk, None, [zstd()], family="frames")
            for file in (ROOT / "stores" / full / "c").rglob("*"):
                if file.is_file():
                    file.write_bytes(make(zstandard.decompress(file.read_bytes())))
            # tensorstore stops behind the first frame; the zstd codec has no such rule.
            reader = "zarr" if "several" in name else "tensorstore"
            check(ROOT / "stores" / full, image, full, reader)


def pack(target):
    """One tar of everything, in name order and without times, compressed."""
    (ROOT / "raw").mkdir()
    for name, data in PIXELS.items():
        (ROOT / "raw" / name).write_bytes(data)
    lines = ",\n".join(json.dumps(entry) for entry in MANIFEST)
    (ROOT / "manifest.json").write_text(f"[\n{lines}\n]\n")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(p for p in ROOT.rglob("*") if p.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(ROOT)))
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    options = zstandard.ZstdCompressionParameters.from_level(
        19, window_log=25, enable_ldm=True, write_checksum=True)
    packed = zstandard.ZstdCompressor(compression_params=options).compress(buffer.getvalue())
    pathlib.Path(target).write_bytes(packed)
    print(len(MANIFEST), "stores,", len(PIXELS), "images,", buffer.tell(), "bytes,", len(packed),
          "packed, sha256", hashlib.sha256(packed).hexdigest()[:16])
    assert len(packed) <= 4 << 20


def main():
    target = pathlib.Path(__file__).parent / "fixtures.tar.zst"
    target = sys.argv[1] if len(sys.argv) > 1 else target
    try:
        for family in [matrix, every_rank, variants, many_chunks, sparse, blosc_shapes, frames,
                       mixed]:
            family()
        blosc_census()
        pack(target)
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
