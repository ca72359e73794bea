"""Arrays and request lists of other kinds than the volumes of benches/data.py, which writes them.

A row of ROWS is one list of boxes, at random places of the arrays of ARRAYS that it names; what those
hold is painted in benches/paint.py. A box has the rank of its array: the axes that a sample does not
have come first and are of extent 1. Labels stay integers: u32 goes out as i64, which is what losses
want, u64 as it is. Families of lists:

    kinds   arrays of all kinds
    ways    each takes one way through the library: chunks that are missing, 1,024 files round and
            round, a files hook, and chunks that are cached
    rows    boxes of 64 rows of a .npy file of 100 MB, and slabs of it in order
    large   the same of a .npy file of 8 GB, of which half is in the page cache
    far     stores whose reads take 50 ms: many small arrays, and chunks that several boxes share
    loops   whole loops of Python: benches/loops.py
    costs   samples so small that what a sample costs is nearly all there is
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from paint import (
    Shape,
    clips,
    cube,
    grains,
    islands,
    long_tape,
    pages,
    photographs,
    pictures,
    rain,
    recording,
    rounded_temperature,
    segments,
    small_cube,
    stack,
    temperature,
    volume,
    wide_segments,
    words,
)
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec


@dataclass(frozen=True)
class Array:
    """How an array is stored. Without a codec: uncompressed."""

    paint: Callable[[int], np.ndarray]
    chunk: Shape
    codec: Any = None
    shard: Shape | None = None
    zarr_format: int = 3
    npy_copies: int = 0  # a .npy file that holds what is painted so many times
    arrays: int = 1  # with the same contents: NAME_0, NAME_1 ..


@dataclass(frozen=True)
class Row:
    """A list of boxes; `axes` of them are the sample's, and the others, before them, of extent 1."""

    arrays: tuple[str, ...]
    box: Shape
    axes: int
    count: int
    batch: int
    dtype: str = "f32"
    family: str = "kinds"
    flags: tuple[str, ...] = ()  # of `wavetrain bench`
    peer_flags: tuple[str, ...] = ()  # of benches/tensorstore_peer.py
    is_in_order: bool = (
        False  # boxes lie one behind the other along the first axis, round and round
    )


def zstd() -> ZstdCodec:
    return ZstdCodec(level=3)


def blosc(cname: str, typesize: int) -> BloscCodec:
    return BloscCodec(cname=cname, clevel=5, shuffle="shuffle", typesize=typesize)


# What zarr-python 2 writes where nothing else is asked for.
V2_DEFAULT = numcodecs.Blosc(cname="lz4", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE)

CACHED = ("--chunk-cache-bytes", "1GiB", "--lookahead-samples", "256")

# Arrays with the same contents stand together: they are painted once.
ARRAYS = {
    "images_zstd": Array(photographs, (1, 1024, 1024, 3), zstd()),
    "images_lz4": Array(photographs, (1, 1024, 1024, 3), blosc("lz4", 1)),
    "tczyx_blosc": Array(stack, (1, 1, 16, 128, 128), blosc("zstd", 2)),
    "tczyx_zstd": Array(stack, (1, 1, 12, 96, 96), zstd(), (1, 1, 48, 576, 576)),
    "audio_zstd": Array(clips, (1, 60_000), zstd()),
    "audio_raw": Array(recording, (1 << 20,)),
    "audio_v2": Array(long_tape, (1 << 18,), V2_DEFAULT, zarr_format=2),
    "weather_smooth_blocks": Array(temperature, (24, 91, 180), blosc("lz4", 4)),
    "weather_smooth_steps": Array(temperature, (1, 181, 360), blosc("lz4", 4)),
    "weather_round_blocks": Array(rounded_temperature, (24, 91, 180), blosc("lz4", 4)),
    "weather_round_steps": Array(rounded_temperature, (1, 181, 360), blosc("lz4", 4)),
    "rain_blocks": Array(rain, (24, 91, 180), blosc("lz4", 4)),
    "rain_steps": Array(rain, (1, 181, 360), blosc("lz4", 4)),
    "labels_u32": Array(segments, (64, 64, 64), zstd()),
    "labels_u64": Array(wide_segments, (48, 64, 64), zstd(), (96, 384, 384)),
    "tiny_raw": Array(small_cube, (8, 8, 8)),
    "tiny_zstd": Array(small_cube, (8, 8, 8), zstd()),
    "tiny_sharded": Array(small_cube, (8, 8, 8), zstd(), (80, 80, 80)),
    "giant_zstd": Array(cube, (256, 256, 256), zstd()),
    "gzip": Array(volume, (32, 64, 64), GzipCodec(level=5)),
    "zlib_v2": Array(volume, (48, 64, 64), numcodecs.Zlib(level=5), zarr_format=2),
    "lz4_v2": Array(volume, (32, 128, 128), V2_DEFAULT, zarr_format=2),
    "islands": Array(islands, (16, 16, 16), zstd()),
    "pages": Array(pages, (1, 256, 256), zstd()),
    "words": Array(words, (), npy_copies=1),
    "many_words": Array(words, (), npy_copies=78),
    "cubes": Array(grains, (16, 16, 16), arrays=400),
    "strips": Array(grains, (16, 16, 16), arrays=5000),
    "far_volume": Array(volume, (32, 32, 32), zstd()),
    "cifar": Array(pictures, (), npy_copies=1),
}
FAR = ("--n-io-threads", "64")
FAR_PEER = ("--io", "64", "--depth", "8", "--count-open")
FAR_CACHED = ("--chunk-cache-bytes", "64MiB")


def words_row(row_bytes: int, dtype: str, array: str = "words") -> Row:
    """Boxes of 64 rows of `array`, 2 GiB of them or 65,536."""
    box_bytes = 64 * row_bytes
    count, batch = min(65_536, (2 << 30) // box_bytes), max(2, min(64, (8 << 20) // box_bytes))
    family = "rows" if array == "words" else "large"
    return Row((array,), (64, row_bytes // 2), 2, count, batch, dtype, family)


def slabs_row(dtype: str) -> Row:
    return Row(("words",), (8, 65_536), 2, 2000, 8, dtype, "rows", is_in_order=True)


WORDS_ROWS = {
    f"rows_{row_bytes}_{dtype}": words_row(row_bytes, dtype)
    for dtype in ("f32", "u16")
    for row_bytes in (8, 64, 512, 4096, 65_536)
}
LARGE_ROWS = {
    f"half_{row_bytes}_{dtype}": words_row(row_bytes, dtype, "many_words")
    for dtype in ("f32", "u16")
    for row_bytes in (64, 4096, 65_536)
}

ROWS = {
    "images_zstd": Row(("images_zstd",), (1, 224, 224, 3), 3, 1536, 32),
    "images_lz4": Row(("images_lz4",), (1, 224, 224, 3), 3, 3072, 32),
    "tczyx_blosc": Row(("tczyx_blosc",), (1, 1, 24, 112, 112), 3, 1024, 16),
    "tczyx_zstd": Row(("tczyx_zstd",), (1, 1, 24, 112, 112), 3, 768, 16),
    "audio_zstd": Row(("audio_zstd",), (1, 32_768), 1, 8192, 64),
    "audio_raw": Row(("audio_raw",), (65_536,), 1, 16384, 32),
    "audio_v2": Row(("audio_v2",), (48_000,), 1, 8192, 32),
    "weather_smooth_blocks": Row(("weather_smooth_blocks",), (16, 72, 72), 3, 640, 16),
    "weather_smooth_steps": Row(("weather_smooth_steps",), (12, 96, 144), 3, 1024, 16),
    "weather_round_blocks": Row(("weather_round_blocks", "rain_blocks"), (16, 72, 72), 3, 1024, 16),
    "weather_round_steps": Row(("weather_round_steps", "rain_steps"), (12, 96, 144), 3, 1536, 16),
    "labels_u32": Row(("labels_u32",), (48, 96, 96), 3, 768, 16, "i64"),
    "labels_u64": Row(("labels_u64",), (48, 96, 96), 3, 768, 16, "u64"),
    "tiny_raw": Row(("tiny_raw",), (32, 32, 32), 3, 1024, 32),
    "tiny_zstd": Row(("tiny_zstd",), (32, 32, 32), 3, 1024, 32),
    "tiny_sharded": Row(("tiny_sharded",), (32, 32, 32), 3, 4096, 32),
    "giant_zstd": Row(("giant_zstd",), (40, 40, 40), 3, 96, 16),
    "gzip": Row(("gzip",), (24, 80, 80), 3, 512, 16),
    "zlib_v2": Row(("zlib_v2",), (24, 80, 80), 3, 512, 16),
    "lz4_v2": Row(("lz4_v2",), (40, 112, 112), 3, 1024, 16),
    "missing": Row(("islands",), (48, 48, 48), 3, 1024, 16, family="ways"),
    "files_1024": Row(("pages",), (1, 256, 256), 2, 8192, 32, family="ways", is_in_order=True),
    "hook": Row(
        ("tiny_sharded",), (32, 32, 32), 3, 4096, 32, family="ways", flags=("--through-hook",)
    ),
    "cached": Row(("labels_u32",), (48, 96, 96), 3, 2048, 16, "i64", family="ways", flags=CACHED),
    **WORDS_ROWS,
    "slabs_f32": slabs_row("f32"),
    "slabs_u16": slabs_row("u16"),
    **LARGE_ROWS,
    "far_arrays_8": Row(("cubes",), (16, 16, 16), 3, 400, 8, "f32", "far", FAR, FAR_PEER, True),
    "far_arrays_1": Row(("cubes",), (16, 16, 16), 3, 400, 1, "f32", "far", FAR, FAR_PEER, True),
    "far_chunks": Row(("far_volume",), (16, 16, 16), 3, 1024, 8, "f32", "far", FAR, FAR_PEER),
    "far_shared": Row(
        ("far_volume",),
        (64, 64, 64),
        3,
        128,
        8,
        "f32",
        "far",
        (*FAR, *FAR_CACHED),
        (*FAR_PEER, "--cache-bytes", str(64 << 20)),
    ),
    "cifar": Row(("cifar",), (1, 3, 32, 32), 3, 20_000, 128, "f32", "loops"),
    "ones_random": Row(("words",), (1, 1), 1, 500_000, 256, family="costs"),
    "ones_in_order": Row(("words",), (1, 1), 1, 500_000, 256, family="costs", is_in_order=True),
    "cubes_8": Row(("tiny_raw",), (8, 8, 8), 3, 250_000, 64, family="costs"),
    "rows_64_few": Row(("words",), (1, 32), 1, 500_000, 256, family="costs"),
    "rows_64_many": Row(
        ("strips",), (1, 1, 16), 1, 250_000, 256, family="costs", flags=("--n-array-meta-cache", "5000")
    ),
    "arrays_5000": Row(("strips",), (16, 16, 16), 3, 20_000, 32, family="costs", is_in_order=True),
}


@lru_cache(maxsize=1)
def painted(paint_array: Callable[[int], np.ndarray], seed: int) -> np.ndarray:
    return paint_array(seed)


def write_npy(path: Path, values: np.ndarray, copies: int) -> None:
    shape = (copies * len(values), *values.shape[1:])
    with path.open("wb") as file:
        header = {"descr": values.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(copies):
            file.write(values.data)


def write_array(path: Path, name: str, seed: int) -> None:
    stored = ARRAYS[name]
    values = painted(stored.paint, seed)
    partial = path.with_name(f"{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    if stored.npy_copies:
        write_npy(partial, values, stored.npy_copies)
        partial.rename(path)
        return
    array = zarr.create_array(
        store=partial,
        shape=values.shape,
        dtype=values.dtype,
        chunks=stored.chunk,
        shards=stored.shard,
        compressors=stored.codec,
        filters=None,
        fill_value=0,
        zarr_format=stored.zarr_format,
    )
    array[...] = values
    partial.rename(path)
    if stored.arrays == 1:
        stored_bytes = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        print(
            f"{path}: {values.nbytes / 2**20:.0f} MiB in {stored_bytes / 2**20:.0f} MiB",
            flush=True,
        )


def paths(out: Path, name: str, family: str) -> list[Path]:
    """The arrays of that name."""
    stored, out = ARRAYS[name], out / "far" if family == "far" else out
    if stored.arrays > 1:
        return [out / f"{name}_{number}" for number in range(stored.arrays)]
    return [out / (f"{name}.npy" if stored.npy_copies else name)]


def shape_of(path: Path) -> Shape:
    is_npy = path.suffix == ".npy"
    return np.load(path, mmap_mode="r").shape if is_npy else zarr.open_array(path, mode="r").shape


def boxes(row: Row, shapes: list[Shape], seed: int) -> Iterator[tuple[int, list[list[int]]]]:
    """The array and the box of every request, at random places unless they are in order."""
    dice = np.random.default_rng([seed, *row.arrays[0].encode()])
    for place in range(row.count):
        number = int(dice.integers(len(shapes)))
        if row.is_in_order:
            place, number = divmod(place, len(shapes))
        limits = [extent - edge + 1 for extent, edge in zip(shapes[number], row.box)]
        first = [int(dice.integers(limit)) for limit in limits]
        if row.is_in_order:
            first[0] = place * row.box[0] % (shapes[number][0] // row.box[0] * row.box[0])
        yield number, [[f, f + e] for f, e in zip(first, row.box)]


def write_kinds(out: Path, names: list[str], seed: int) -> list[dict[str, Any]]:
    """Writes the arrays and lists of these rows; their entries for scenarios.json."""
    needed = {name: ROWS[row].family for row in names for name in ROWS[row].arrays}
    for name in ARRAYS:
        for path in paths(out, name, needed[name]) if name in needed else []:
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                write_array(path, name, seed)
    scenarios = []
    for name in names:
        row = ROWS[name]
        stored = [path for array in row.arrays for path in paths(out, array, row.family)]
        shapes = [shape_of(path) for path in stored]
        shown = out / "slow" if row.family == "far" else out
        uris = [str((shown / path.name).resolve()) for path in stored]
        lines = [json.dumps({"uri": uris[n], "box": box}) for n, box in boxes(row, shapes, seed)]
        (out / "requests" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        scenarios.append(
            {
                "name": name,
                "family": row.family,
                "requests": f"requests/{name}.jsonl",
                "arrays": uris,
                "batch": row.batch,
                "sample_shape": list(row.box[-row.axes :]),
                "dtype": row.dtype,
                "flags": list(row.flags),
                "peer_flags": list(row.peer_flags),
            }
        )
    return scenarios
