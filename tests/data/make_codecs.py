#!/usr/bin/env python3
"""Writes codecs.tar.zst (stores of every codec) and codec_chunks.tar.zst (single blosc chunks).

    python tests/data/make_codecs.py        # with the packages that make_fixtures.py names

With those versions the output is the same bytes on every run, but for the order of the blocks of
two chunks, which two threads write. The stores have the manifest of make_fixtures.py and are read
back by another library where there is one that knows the codec, else by zarr-python.

A chunk is named PATTERN_BYTES_tTYPESIZE_cCLEVEL_sSHUFFLE_CNAME; beside them lie the plain bytes as
PATTERN_BYTES. Every chunk is decoded by numcodecs before it is packed.
"""
import gzip
import io
import itertools
import json
import pathlib
import shutil
import struct
import tarfile
import warnings
import zlib

import numcodecs.blosc
import numpy as np
import zarr
import zstandard

import make_fixtures as made
from make_fixtures import CRC, DTYPES, MANIFEST, ROOT, SHAPES, paint

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
CNAMES = ["zstd", "lz4", "lz4hc", "zlib", "blosclz"]
SHUFFLES = ["noshuffle", "shuffle", "bitshuffle"]

check_by = made.check


def check(path, image, name, reader="tensorstore"):
    """tensorstore knows no numcodecs names."""
    if "numcodecs." in (path / "zarr.json").read_text():
        reader = "zarr"
    check_by(path, image, name, reader)


made.check = check


def codec(name, **configuration):
    return {"name": name, "configuration": configuration}


def store(name, dtype, codecs, rank=3, sharded=False, **options):
    shape, chunk, shard = SHAPES[rank]
    made.store(f"codec_{name}", dtype, paint(dtype, shape, 5), chunk, shard if sharded else None,
               codecs, family="codecs", **options)
    return ROOT / "stores" / f"codec_{name}"


def plain_codecs():
    for level in [0, 1, 5, 9]:
        store(f"gzip_{level}_plain", "u16", [codec("gzip", level=level)])
        store(f"gzip_{level}_shard", "f32", [codec("gzip", level=level)], rank=2, sharded=True)
    for dtype, sharded in itertools.product(["u8", "i32", "f64"], [False, True]):
        store(f"gzip_tensorstore_{dtype}_{sharded}", dtype, [codec("gzip", level=6)], rank=4,
              sharded=sharded, writer="tensorstore")
    numcodecs_names = {
        "gzip": codec("numcodecs.gzip", level=1),
        "gzip_bare": codec("numcodecs.gzip"),
        "zlib_1": codec("numcodecs.zlib", level=1),
        "zlib_default": codec("numcodecs.zlib", level=-1),
        "zlib_0": codec("numcodecs.zlib", level=0),
        "zlib_9": codec("numcodecs.zlib", level=9),
        "lz4": codec("numcodecs.lz4", acceleration=1),
        "lz4_fast": codec("numcodecs.lz4", acceleration=50),
        "lz4_bare": codec("numcodecs.lz4"),
        "zstd": codec("numcodecs.zstd", level=3),
        "zstd_checksum": codec("numcodecs.zstd", level=1, checksum=True),
        "blosc_bare": codec("numcodecs.blosc"),
        "blosc": codec("numcodecs.blosc", cname="lz4hc", clevel=7, shuffle=2, blocksize=0),
        "blosc_auto": codec("numcodecs.blosc", cname="zlib", clevel=3, shuffle=-1, typesize=None),
        "crc32c": codec("numcodecs.crc32c"),
        "crc32c_end": codec("numcodecs.crc32c", location="end"),
    }
    for number, (name, item) in enumerate(numcodecs_names.items()):
        dtype = ["u16", "f32", "i8", "c64"][number % 4]
        for sharded in [False, True]:
            store(f"numcodecs_{name}_{sharded}", dtype, [item], rank=1 + number % 4,
                  sharded=sharded)
    for name, item in [("zlib", codec("numcodecs.zlib", level=2)),
                       ("lz4", codec("numcodecs.lz4", acceleration=1))]:
        # The names that other writers give the same bytes.
        for sharded in [False, True]:
            document = store(f"{name}_{sharded}", "u16", [item], sharded=sharded) / "zarr.json"
            document.write_text(document.read_text().replace(f"numcodecs.{name}", name))
            MANIFEST[-1]["codecs"] = [name]


def chains():
    first = {
        "gzip": codec("gzip", level=3), "zlib": codec("numcodecs.zlib", level=3),
        "lz4": codec("numcodecs.lz4", acceleration=1),
        "blosc": codec("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=2, blocksize=0),
    }
    for name, item in first.items():
        store(f"{name}_then_crc", "u16", [item, CRC], sharded=True)
        store(f"crc_then_{name}", "u16", [CRC, item])
        store(f"crc_{name}_crc", "f16", [CRC, item, CRC], sharded=True)


def blosc_stores():
    types = ["u8", "u16", "u32", "f32", "f64", "c128", "i16"]
    for number, (cname, shuffle) in enumerate(itertools.product(CNAMES, SHUFFLES)):
        dtype = types[number % len(types)]
        size = DTYPES[dtype][1].itemsize
        item = codec("blosc", cname=cname, clevel=1 + number % 9, shuffle=shuffle, typesize=size,
                     blocksize=0)
        # Chunks of 2,100 elements: blosc splits them, and the last is cut by the array.
        image = np.resize(paint(dtype, (300,), 6), 3_500)
        for writer, shard in [("zarr", None), ("tensorstore", (4_200,))]:
            made.store(f"codec_blosc_{cname}_{shuffle}_{writer}", dtype, image, (2_100,), shard,
                       [item], writer=writer, family="codecs")
    for cname in CNAMES:
        # Blocks of 64 KiB, the least that blosc splits, and a short one at the end.
        image = np.resize(paint("u16", (300,), 7), 100_000)
        item = codec("blosc", cname=cname, clevel=5, shuffle="shuffle", typesize=2,
                     blocksize=1 << 16)
        made.store(f"codec_blosc_{cname}_blocks", "u16", image, (80_001,), None, [item],
                   family="codecs")


def members(data):
    """The same bytes in several gzip members, each with other parts of a header."""
    def member(data, flags, more):
        body = zlib.compressobj(6, wbits=-15)
        header = struct.pack("<2sBBIBB", b"\x1f\x8b", 8, flags, 1_700_000_000, 2, 3) + more
        if flags & 2:
            header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
        trailer = struct.pack("<II", zlib.crc32(data), len(data))
        return header + body.compress(data) + body.flush() + trailer

    cuts = [0, 0, 1, len(data) // 4, len(data) // 3, len(data) // 2, len(data)]
    parts = [data[a:b] for a, b in zip(cuts, cuts[1:])]
    extra = struct.pack("<H", 6) + b"wt\x02\x00\x00\x00"
    every = extra + b"a name\x00a comment\x00"
    heads = [(0, b""), (4, extra), (8, b"\x00"), (16, b"c\x00"), (2, b""), (31, every)]
    return b"".join(member(part, *head) for part, head in zip(parts, heads))


def gzip_members():
    def named(data):
        buffer = io.BytesIO()
        with gzip.GzipFile("a file", "wb", 9, buffer, mtime=0) as file:
            file.write(data)
        return buffer.getvalue()

    makers = {
        "members": members, "named": named,
        "padded": lambda data: gzip.compress(data, mtime=0) + bytes(700),
        "zeroes_between": lambda data: (gzip.compress(data[:9], mtime=0) + bytes(5)
                                        + gzip.compress(data[9:], mtime=0)),
    }
    for name, make in makers.items():
        path = store(f"gzip_{name}", "u16", [codec("gzip", level=1)])
        for file in (path / "c").rglob("*"):
            if file.is_file():
                file.write_bytes(make(gzip.decompress(file.read_bytes())))
        check_by(path, paint("u16", SHAPES[3][0], 5), name, "zarr")


def pattern(name, count):
    k = np.arange(count, dtype=np.uint64)
    words = (k * k // 65536 + k // 8) & 0xFFFF
    noise = np.random.default_rng(count).integers(0, 256, count, "u1").tobytes()
    slope = words.astype("<u2").tobytes()[:count]
    if name == "slope":
        return slope
    if name == "noise":
        return noise
    if name == "text":
        words = [b"shard", b"chunk", b"box", b"a", b"wave", b"batch", b"of"]
        picks = np.random.default_rng(3).integers(0, len(words), count)
        return b" ".join(words[pick] for pick in picks)[:count]
    # Runs, so that lengths of every size occur, and far repeats.
    runs = b"".join(bytes([byte]) * (1 + byte * byte % 600) for byte in noise[:60])
    return (runs * (1 + count // len(runs)))[:count]


def chunks(target):
    plain, packed = {}, {}

    def one(kind, count, typesize, clevel, shuffle, cname, blocksize=0):
        data = plain.setdefault(f"{kind}_{count}", pattern(kind, count))
        chunk = numcodecs.blosc.compress(data, cname.encode(), clevel, shuffle, blocksize, typesize)
        assert numcodecs.blosc.decompress(chunk) == data
        block = f"_b{blocksize}" if blocksize else ""
        packed[f"{kind}_{count}_t{typesize}_c{clevel}_s{shuffle}_{cname}{block}"] = chunk
        return chunk

    kinds = ["slope", "text", "runs"]
    sizes = [1, 2, 3, 4, 7, 8, 12, 16, 17, 255]
    for (c, cname), clevel in itertools.product(enumerate(CNAMES), range(10)):
        one(kinds[(c + clevel) % 3], 5100, sizes[(c + 3 * clevel) % 9], clevel, (c + clevel) % 3,
            cname)
    for (c, cname), (t, typesize), shuffle in itertools.product(
            enumerate(CNAMES), enumerate(sizes), range(3)):
        one(kinds[(c + t + shuffle) % 3], 5100, typesize, 5, shuffle, cname)
    for cname in CNAMES:
        # Tails: of a block, of an element, of eight elements.
        for count, typesize, shuffle in [(9001, 2, 1), (9002, 2, 2), (8200, 8, 2), (8191, 3, 1)]:
            one("runs", count, typesize, 5, shuffle, cname, 1024)
        one("runs", 140_003, 2, 5, 1, cname, 1 << 16)
        one("noise", 700, 4, 9, 1, cname)
        one("slope", 127, 2, 5, 1, cname)
        one("slope", 1, 2, 5, 1, cname)
    numcodecs.blosc.use_threads = True
    numcodecs.blosc.set_nthreads(2)
    for cname in ["lz4", "blosclz"]:
        for _ in range(1000):
            if not is_ordered(one("runs", 400_000, 2, 3, 1, cname, 1 << 16)):
                break
        else:
            raise SystemExit("two threads always wrote in order: run it again on two cores")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted({**plain, **packed}.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    data = zstandard.ZstdCompressor(level=19, write_checksum=True).compress(buffer.getvalue())
    target.write_bytes(data)
    splits = sum(1 for chunk in packed.values() if not chunk[2] & 0x12)
    print(len(packed), "chunks,", splits, "of them may be split,", len(data), "packed")


def is_ordered(chunk):
    nbytes, blocksize = np.frombuffer(chunk[4:12], "<u4")
    starts = np.frombuffer(chunk[16:], "<i4", count=-(-int(nbytes) // int(blocksize)))
    return (np.diff(starts) > 0).all()


def main():
    try:
        plain_codecs()
        chains()
        blosc_stores()
        gzip_members()
        made.pack(HERE / "codecs.tar.zst")
        chunks(HERE / "codec_chunks.tar.zst")
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
