#!/usr/bin/env python3
"""Writes stores of structured elements with zarr-python, packed in one file. Two releases spell the
type in two ways, so there are two environments:

    python3.12 -m venv /tmp/new && /tmp/new/bin/pip install zarr==3.4.2 numpy==2.4.6
    python -m venv /tmp/venv
    /tmp/venv/bin/pip install zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 \
        numpy==2.4.6 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/new/bin/python tests/data/make_structs.py /tmp/structs    # stores that spell it "struct"
    /tmp/venv/bin/python tests/data/make_structs.py /tmp/structs   # tests/data/structs.tar.zst

The stores stand in apart.json, a line for each field and for each whole element of at most 16 bytes;
the name of a store has the field after it, as its uri has. With these versions the output is the same
bytes on every run.
"""
import json
import pathlib
import shutil
import sys
import warnings

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ZstdCodec

SHAPE, CHUNK, SHARD = (21, 25), (5, 7), (10, 14)
NARROW = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "u1")])
WIDE = np.dtype([("t", "<M8[ms]"), ("flag", "?"), ("name", "S5"), ("z", "<c8"), ("u", "<U2"),
                 ("pair", [("x", "<u2"), ("y", "<f4")]), ("half", "<f2"), ("last", "i1")])
PLAIN = np.dtype([("x", "<u2"), ("raw", "V3"), ("y", "<f4")])
BIG = np.dtype([("a", ">i4"), ("b", ">f8"), ("c", "<u2")])
NAMES = {"<i4": "i32", "<f8": "f64", "|u1": "u8", "<M8[ms]": "i64", "|b1": "bool", "<c8": "c64",
         "<u2": "u16", "<f4": "f32", "<f2": "f16", "|i1": "i8"}


def paint(kind):
    """Bytes in any order; booleans are 0 or 1, texts have no byte of 0 inside."""
    rng = np.random.default_rng([kind.itemsize, len(kind.names)])
    image = rng.integers(0, 256, (*SHAPE, kind.itemsize), "u1").view(kind)[..., 0]
    for name in kind.names:
        field = kind.fields[name][0]
        if field.kind == "b":
            image[name] = rng.integers(0, 2, SHAPE)
        if field.kind in "SU":
            image[name] = np.array(["", "a", "bc"])[rng.integers(0, 3, SHAPE)].astype(field)
    return image


def fill_of(kind):
    return np.frombuffer(bytes(range(1, 1 + kind.itemsize)), kind)[0]


def store(root, name, kind, *, fill=True, **options):
    """Writes a store without its last columns, which are its fill value, or zeros."""
    image = paint(kind)
    value = fill_of(kind) if fill else np.zeros((), kind)[()]
    image[:, -11:] = value
    more = {"fill_value": value} if fill else {}
    array = zarr.create_array(root / "stores" / name, shape=SHAPE, chunks=CHUNK, dtype=kind,
                              **options, **more)
    array[...] = image
    found = zarr.open_array(root / "stores" / name, mode="r")[...]
    assert found.tobytes() == image.tobytes() and found.dtype == image.dtype, name
    np.save(root / f"{name}.npy", image)


def struct(root):
    """As zarr-python 3.4 spells it."""
    little = {"serializer": BytesCodec(endian="little")}
    store(root, "struct", NARROW, compressors=[ZstdCodec(level=3)])
    store(root, "struct_plain", PLAIN, compressors=None)
    store(root, "struct_shard", NARROW, shards=SHARD, compressors=[
        BloscCodec(cname="zstd", shuffle="shuffle", typesize=13), Crc32cCodec()])
    store(root, "struct_wide", WIDE, fill=False, compressors=[ZstdCodec(level=3)], **little)


def structured(root):
    """As zarr-python 3.1 spells it, and in zarr v2."""
    store(root, "structured", NARROW, compressors=[ZstdCodec(level=3)])
    store(root, "structured_wide", WIDE, fill=False, compressors=None)
    store(root, "v2", NARROW, zarr_format=2)
    store(root, "v2_big", BIG, zarr_format=2, order="F", compressors=None)
    store(root, "v2_plain", PLAIN, zarr_format=2)


def entries(base, path):
    """The lines of one store, and the pixels of each of its fields."""
    image = np.load(path)
    kind = image.dtype
    line = {"family": "structs", "writer": "zarr", "shape": list(SHAPE), "chunk": list(CHUNK),
            "shard": list(SHARD) if "shard" in path.stem else None, "codecs": ["zstd"]}

    def entry(name, pixels, dtype):
        fill = np.ascontiguousarray(pixels[0, -1:]).tobytes().hex()
        return {"name": name, **line, "dtype": dtype, "raw": base.pixels_file(pixels), "fill": fill}

    for name in kind.names:
        field = np.ascontiguousarray(image[name])
        if field.dtype.kind == "V":
            yield entry(f"{path.stem}?field={name}", field, "raw")
        elif field.dtype.kind not in "SU":
            little = field.astype(field.dtype.newbyteorder("<"))
            yield entry(f"{path.stem}?field={name}", little, NAMES[little.dtype.str])
    if kind.itemsize <= 16:
        whole = np.ascontiguousarray(image).view(f"V{kind.itemsize}")
        yield entry(path.stem, whole, "raw")


def main():
    root = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    if zarr.__version__ != "3.1.6":
        shutil.rmtree(root, ignore_errors=True)
        (root / "stores").mkdir(parents=True)
        return struct(root)
    structured(root)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import make_fixtures as base

    shutil.rmtree(base.ROOT)
    base.ROOT = root
    found = [each for path in sorted(root.glob("*.npy")) for each in entries(base, path)]
    for path in root.glob("*.npy"):
        path.unlink()
    lines = ",\n".join(map(json.dumps, found))
    (root / "apart.json").write_text(f"[\n{lines}\n]\n")
    base.pack(pathlib.Path(__file__).parent / "structs.tar.zst")
    shutil.rmtree(root)
    print(len(found), "lines")


if __name__ == "__main__":
    main()
