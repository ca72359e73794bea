#!/usr/bin/env python3
"""Writes lzma.tar.zst: stores of lzma by zarr-python 3 with numcodecs.

    python tests/data/make_lzma.py       # with the packages that make_fixtures.py names

With those versions and liblzma 5.4 the output is the same bytes on every run. The stores have the
manifest of make_fixtures.py. zarr-python reads each back, but for .xz streams whose filters the
document lists: numcodecs writes them and cannot read them. Python's lzma reads those.
"""

import itertools
import json
import lzma
import pathlib
import shutil
import warnings

import make_fixtures as made
import numcodecs
import numpy as np
import zarr
from make_fixtures import CRC, MANIFEST, ROOT, SHAPES, paint

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
SHARD_INDEX = [made.little(), CRC]
DELTA = {"id": lzma.FILTER_DELTA, "dist": 2}
LZMA2 = {"id": lzma.FILTER_LZMA2, "preset": 1}
LZMA1 = {"id": lzma.FILTER_LZMA1, "dict_size": 4096, "lc": 0, "lp": 2, "pb": 1}


def check_by_zarr(path, image, name):
    seen = zarr.open_array(str(path), mode="r")[...]
    assert seen.shape == image.shape, name
    assert np.ascontiguousarray(seen).tobytes() == np.ascontiguousarray(image).tobytes(), name


made.check = check_by_zarr


def codec(name, **configuration):
    return {"name": name, "configuration": configuration}


def by_lzma(**configuration):
    return codec("numcodecs.lzma", **configuration)


def store(name, dtype, codecs, rank=3, sharded=False, **options):
    shape, chunk, shard = SHAPES[rank]
    image = options.pop("image", None)
    image = paint(dtype, shape, 17) if image is None else image
    made.store(
        f"lzma_{name}",
        dtype,
        image,
        options.pop("chunk", chunk),
        options.pop("shard", shard) if sharded else None,
        codecs,
        family="lzma",
        **options,
    )
    return ROOT / "stores" / f"lzma_{name}"


def rename(path, name):
    """The same store under the name that a document may give the codec, too."""
    document = path / "zarr.json"
    document.write_text(document.read_text().replace("numcodecs.lzma", name))
    MANIFEST[-1]["codecs"] = [name]


def version_3():
    for number, dtype in [(0, "u16"), (6, "f32"), (9, "i8")]:
        for sharded in [False, True]:
            store(
                f"preset{number}_{sharded}",
                dtype,
                [by_lzma(preset=number)],
                rank=1 + number % 4,
                sharded=sharded,
            )
    for check in [lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256]:
        store(f"check{check}", "u16", [by_lzma(check=check)], rank=2)
    for sharded in [False, True]:
        store(f"bare_{sharded}", "u16", [codec("numcodecs.lzma")], sharded=sharded)
        rename(store(f"short_{sharded}", "c64", [by_lzma(preset=3)], sharded=sharded), "lzma")
        store(f"then_crc_{sharded}", "u16", [by_lzma(preset=1), CRC], sharded=sharded)
        store(f"after_crc_{sharded}", "f64", [CRC, by_lzma(format=2)], sharded=sharded)
        for name, filters in [("lzma2", [LZMA2]), ("delta", [DELTA, LZMA2]), ("lzma1", [LZMA1])]:
            raw = by_lzma(format=lzma.FORMAT_RAW, filters=filters)
            store(f"raw_{name}_{sharded}", "u16", [raw], sharded=sharded)
    several = [{"id": 3}, {"id": 3, "dist": 5}, {"id": 3, "dist": 256}, LZMA1]
    store("raw_deltas", "u32", [by_lzma(format=3, filters=several)], rank=2)
    store("extreme", "u16", [by_lzma(preset=6 | lzma.PRESET_EXTREME)], rank=2)
    store("after_shuffle", "u32", [codec("numcodecs.shuffle", elementsize=4), by_lzma()])
    store("then_adler32", "u16", [by_lzma(preset=2), codec("numcodecs.adler32")], rank=2)
    # Long repeats, and chunks that do not compress, of several pieces of LZMA2.
    large = np.resize(np.random.default_rng(5).integers(0, 99, 3_001).astype("u1"), (1, 600_000))
    store("large", "u8", [by_lzma(preset=0)], image=large, chunk=(1, 450_000))
    noise = np.random.default_rng(6).integers(0, 256, 100_000).astype("u1")
    for form in [1, 2]:
        store(f"noise_format{form}", "u8", [by_lzma(format=form)], image=noise, chunk=(70_000,))


def around_shards():
    """Shards that codecs follow, which are decoded whole."""
    image = paint("u16", (20, 24), 12)
    for name, inside, after in [
        ("lzma_of_zstd", made.zstd(), by_lzma(preset=1)),
        ("zstd_of_lzma", by_lzma(format=2), made.zstd()),
        ("lzma_of_lzma", by_lzma(preset=2), by_lzma(format=3, filters=[LZMA1])),
        ("lzma_of_bz2", codec("numcodecs.bz2", level=1), by_lzma(preset=0)),
    ]:
        shard = codec(
            "sharding_indexed",
            chunk_shape=[4, 6],
            codecs=[made.little(), inside],
            index_codecs=SHARD_INDEX,
            index_location="end",
        )
        path = ROOT / "stores" / f"lzma_whole_{name}"
        target = zarr.create(
            store=str(path),
            shape=image.shape,
            chunks=(8, 12),
            dtype="uint16",
            codecs=[shard, after],
            zarr_format=3,
            fill_value=3,
        )
        target[...] = image
        check_by_zarr(path, image, name)
        entry(path, image, "u16", (8, 12), [inside["name"], after["name"]])


def entry(path, image, dtype, chunk, codecs):
    MANIFEST.append(
        {
            "name": path.name,
            "family": "lzma",
            "writer": "zarr",
            "dtype": dtype,
            "shape": list(image.shape),
            "chunk": list(chunk),
            "shard": None,
            "codecs": codecs,
            "raw": made.pixels_file(image),
            "fill": np.array(3, image.dtype).tobytes().hex(),
        }
    )


def check_by_python(path, image, chunk):
    """Chunks of .xz streams by Python's lzma."""
    for file in path.iterdir():
        if file.name.startswith("."):
            continue
        cell = np.frombuffer(lzma.decompress(file.read_bytes()), image.dtype).reshape(chunk)
        first = [int(number) * side for number, side in zip(file.name.split("."), chunk)]
        part = image[tuple(slice(at, at + side) for at, side in zip(first, chunk))]
        assert (cell[tuple(slice(0, side) for side in part.shape)] == part).all(), file


def version_2():
    shape, chunk, _ = SHAPES[3]
    image = paint("i32", shape, 13)
    delta = numcodecs.Delta(dtype="<i4")
    for number, (order, compressor, filters) in enumerate(
        [
            ("C", numcodecs.LZMA(), None),
            ("F", numcodecs.LZMA(preset=9), None),
            ("C", numcodecs.LZMA(format=lzma.FORMAT_ALONE), None),
            ("C", numcodecs.LZMA(format=lzma.FORMAT_RAW, filters=[DELTA, LZMA2]), None),
            ("C", numcodecs.LZMA(check=lzma.CHECK_SHA256), [delta]),
            ("C", None, [delta, numcodecs.LZMA(preset=0)]),
            ("C", numcodecs.LZMA(filters=[{**DELTA, "dist": 4}, LZMA2]), None),
        ]
    ):
        path = ROOT / "stores" / f"lzma_v2_{number}"
        target = zarr.create_array(
            str(path),
            shape=shape,
            chunks=chunk,
            dtype="<i4",
            order=order,
            zarr_format=2,
            fill_value=3,
            compressors=compressor,
            filters=filters,
            config={"write_empty_chunks": True},
        )
        if compressor is not None and compressor.format == 1 and compressor.filters:
            # Whole chunks, so that none is read before it is written.
            wide = [-(-extent // side) * side for extent, side in zip(shape, chunk)]
            padded = np.zeros(wide, "<i4")
            padded[tuple(slice(0, extent) for extent in shape)] = image
            for cell in itertools.product(*(range(0, e, side) for e, side in zip(wide, chunk))):
                part = padded[tuple(slice(at, at + side) for at, side in zip(cell, chunk))]
                key = ".".join(str(at // side) for at, side in zip(cell, chunk))
                (path / key).write_bytes(compressor.encode(np.ascontiguousarray(part)))
            check_by_python(path, image, chunk)
        else:
            target[...] = image
            check_by_zarr(path, image, path.name)
        (path / ".zattrs").unlink(missing_ok=True)
        assert json.loads((path / ".zarray").read_text())["zarr_format"] == 2
        entry(path, image, "i32", chunk, ["lzma"])


def streams():
    """Chunks of several streams, one of them of no bytes."""

    def several(data, form):
        cuts = [0, 0, 1, len(data) // 3, len(data) // 2, len(data)]
        parts = [data[a:b] for a, b in itertools.pairwise(cuts)]
        encoded = [lzma.compress(part, form, preset=n) for n, part in enumerate(parts)]
        return b"".join(encoded)

    for form in [lzma.FORMAT_XZ, lzma.FORMAT_ALONE]:
        path = store(f"streams{form}", "u16", [by_lzma(format=form)])
        for file in (path / "c").rglob("*"):
            if file.is_file():
                file.write_bytes(several(lzma.decompress(file.read_bytes(), form), form))
        check_by_zarr(path, paint("u16", SHAPES[3][0], 17), "streams")


def main():
    try:
        for family in [version_3, around_shards, version_2, streams]:
            family()
        made.pack(HERE / "lzma.tar.zst")
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
