#!/usr/bin/env python3
"""Writes bz2.tar.zst: stores of bz2 by zarr-python 3 with numcodecs, and by tensorstore.

    python tests/data/make_bz2.py        # with the packages that make_fixtures.py names

With those versions the output is the same bytes on every run. The stores have the manifest of
make_fixtures.py. tensorstore reads those of zarr v2 back, and zarr-python those of v3, of which
tensorstore knows no bz2.
"""

import bz2
import itertools
import json
import pathlib
import shutil
import warnings

import make_fixtures as made
import numcodecs
import numpy as np
import tensorstore as ts
import zarr
from make_fixtures import CRC, MANIFEST, ROOT, SHAPES, paint

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
SHARD_INDEX = [made.little(), CRC]


def check_by_zarr(path, image, name):
    seen = zarr.open_array(str(path), mode="r")[...]
    assert seen.shape == image.shape, name
    assert np.ascontiguousarray(seen).tobytes() == np.ascontiguousarray(image).tobytes(), name


made.check = check_by_zarr


def codec(name, **configuration):
    return {"name": name, "configuration": configuration}


def level(number):
    return codec("numcodecs.bz2", level=number)


def store(name, dtype, codecs, rank=3, sharded=False, **options):
    shape, chunk, shard = SHAPES[rank]
    image = options.pop("image", None)
    image = paint(dtype, shape, 11) if image is None else image
    made.store(
        f"bz2_{name}",
        dtype,
        image,
        options.pop("chunk", chunk),
        options.pop("shard", shard) if sharded else None,
        codecs,
        family="bz2",
        **options,
    )
    return ROOT / "stores" / f"bz2_{name}"


def rename(path, name):
    """The same store under the name that a document may give the codec, too."""
    document = path / "zarr.json"
    document.write_text(document.read_text().replace("numcodecs.bz2", name))
    MANIFEST[-1]["codecs"] = [name]


def version_3():
    for number, dtype in [(1, "u16"), (5, "f32"), (9, "i8")]:
        for sharded in [False, True]:
            store(
                f"level{number}_{sharded}",
                dtype,
                [level(number)],
                rank=1 + number % 4,
                sharded=sharded,
            )
    for sharded in [False, True]:
        store(f"bare_{sharded}", "u16", [codec("numcodecs.bz2")], sharded=sharded)
        rename(store(f"short_{sharded}", "c64", [level(3)], sharded=sharded), "bz2")
        store(f"then_crc_{sharded}", "u16", [level(1), CRC], sharded=sharded)
        store(f"after_crc_{sharded}", "f64", [CRC, level(9)], sharded=sharded)
    store("after_shuffle", "u32", [codec("numcodecs.shuffle", elementsize=4), level(2)])
    store("then_adler32", "u16", [level(2), codec("numcodecs.adler32")], rank=2)
    # Blocks that are full, several in a chunk, and chunks that the common scratch is for.
    large = np.resize(np.random.default_rng(5).integers(0, 99, 3_001).astype("u1"), (1, 600_000))
    for number in [1, 4, 9]:
        store(
            f"large_level{number}",
            "u8",
            [level(number)],
            image=large[:, : 150_000 * number],
            chunk=(1, 600_000),
        )
    # Runs of four make a block longer than what it decodes to.
    runs = np.repeat(np.arange(60_000) % 251, 4).astype("u1")
    store("runs", "u8", [level(9)], image=runs, chunk=(100_000,))


def around_shards():
    """Shards that codecs follow, which are decoded whole."""
    image = paint("u16", (20, 24), 12)
    for name, inside, after in [
        ("bz2_of_zstd", made.zstd(), level(1)),
        ("zstd_of_bz2", level(9), made.zstd()),
        ("bz2_of_bz2", level(2), level(7)),
    ]:
        shard = codec(
            "sharding_indexed",
            chunk_shape=[4, 6],
            codecs=[made.little(), inside],
            index_codecs=SHARD_INDEX,
            index_location="end",
        )
        path = ROOT / "stores" / f"bz2_whole_{name}"
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
        MANIFEST.append(
            {
                "name": path.name,
                "family": "bz2",
                "writer": "zarr",
                "dtype": "u16",
                "shape": list(image.shape),
                "chunk": [8, 12],
                "shard": None,
                "codecs": [inside["name"], after["name"]],
                "raw": made.pixels_file(image),
                "fill": np.array(3, "<u2").tobytes().hex(),
            }
        )


def version_2():
    shape, chunk, _ = SHAPES[3]
    image = paint("i32", shape, 13)
    delta = numcodecs.Delta(dtype="<i4")
    for number, (writer, order, compressor, filters) in enumerate(
        [
            ("zarr", "C", {"id": "bz2", "level": 1}, None),
            ("zarr", "F", {"id": "bz2", "level": 9}, None),
            ("zarr", "C", {"id": "bz2", "level": 5}, [delta]),
            ("zarr", "C", None, [delta, numcodecs.BZ2(level=9)]),
            ("tensorstore", "C", {"id": "bz2", "level": 1}, None),
            ("tensorstore", "F", {"id": "bz2", "level": 6}, None),
        ]
    ):
        path = ROOT / "stores" / f"bz2_v2_{number}_{writer}"
        if writer == "zarr":
            target = zarr.create_array(
                str(path),
                shape=shape,
                chunks=chunk,
                dtype="<i4",
                order=order,
                zarr_format=2,
                fill_value=3,
                compressors=compressor and numcodecs.get_codec(dict(compressor)),
                filters=filters,
                config={"write_empty_chunks": True},
            )
        else:
            target = ts.open(
                {
                    "driver": "zarr",
                    "kvstore": {"driver": "file", "path": f"{path}/"},
                    "metadata": {
                        "shape": list(shape),
                        "chunks": list(chunk),
                        "dtype": "<i4",
                        "order": order,
                        "compressor": compressor,
                        "fill_value": 3,
                        "dimension_separator": ".",
                    },
                    "create": True,
                    "store_data_equal_to_fill_value": True,
                }
            ).result()
        target[...] = image
        (path / ".zattrs").unlink(missing_ok=True)
        assert json.loads((path / ".zarray").read_text())["zarr_format"] == 2
        if filters:
            check_by_zarr(path, image, path.name)
        else:
            spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/"}}
            assert (ts.open(spec, open=True).result().read().result() == image).all(), path
        MANIFEST.append(
            {
                "name": path.name,
                "family": "bz2",
                "writer": writer,
                "dtype": "i32",
                "shape": list(shape),
                "chunk": list(chunk),
                "shard": None,
                "codecs": ["bz2"],
                "raw": made.pixels_file(image),
                "fill": np.array(3, "<i4").tobytes().hex(),
            }
        )


def streams():
    """Chunks of several streams, one of them of no bytes, each of another level."""

    def several(data):
        cuts = [0, 0, 1, len(data) // 3, len(data) // 2, len(data)]
        parts = [data[a:b] for a, b in itertools.pairwise(cuts)]
        return b"".join(bz2.compress(part, 1 + n) for n, part in enumerate(parts))

    path = store("streams", "u16", [level(9)])
    for file in (path / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(several(bz2.decompress(file.read_bytes())))
    check_by_zarr(path, paint("u16", SHAPES[3][0], 11), "streams")


def main():
    try:
        for family in [version_3, around_shards, version_2, streams]:
            family()
        made.pack(HERE / "bz2.tar.zst")
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
