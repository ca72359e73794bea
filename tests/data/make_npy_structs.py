#!/usr/bin/env python3
"""Writes .npy files of structured elements with numpy.save, packed in one file:

    python -m venv /tmp/venv && /tmp/venv/bin/pip install numpy==2.4.6 zstandard==0.25.0 \
        zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 ml_dtypes==0.6.0
    /tmp/venv/bin/python tests/data/make_npy_structs.py /tmp/npy  # tests/data/npy_structs.tar.zst

The files stand in apart.json, a line for each field that is one number or a small structure, and
for each whole element of at most 16 bytes; the name of a file has the field after it, as its uri.
"""
import json
import pathlib
import shutil
import sys

import numpy as np

SHAPE = (21, 25)
PAIR = [("x", "<u2"), ("y", "<f4")]
KINDS = {
    "narrow": np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "u1")]),
    "padded": np.dtype([("c", "u1"), ("b", "<f8"), ("a", "<i4")], align=True),
    "small": np.dtype([("c", "u1"), ("b", "<f4"), ("e", "<u2")], align=True),
    "big": np.dtype([("a", ">i4"), ("b", ">f8"), ("c", "<u2")]),
    "wide": np.dtype([("t", "<M8[ms]"), ("flag", "?"), ("name", "S5"), ("z", "<c8"), ("u", "<U2"),
                      ("pair", PAIR), ("many", "<i2", (2, 3)), (("a title", "half"), "<f2"),
                      ("one", "<f4", (1,)), ("deep", [("p", PAIR, (2,)), ("q", "<f8")]),
                      ("last", "i1")]),
    "large": np.dtype([("head", "<u4"), ("rest", "V9000"), ("tail", "<f4")]),
}
NAMES = {"<i4": "i32", "<f8": "f64", "|u1": "u8", "<M8[ms]": "i64", "|b1": "bool", "<c8": "c64",
         "<u2": "u16", "<f4": "f32", "<f2": "f16", "|i1": "i8", "<u4": "u32"}


def paint(name, kind):
    """Bytes in any order, those between fields too; booleans are 0 or 1."""
    rng = np.random.default_rng(list(name.encode()))
    if name == "large":
        image = np.zeros((6, 5), kind)
        image["head"], image["tail"] = rng.integers(0, 2**32, (6, 5)), rng.random((6, 5))
        return image
    image = rng.integers(0, 256, (*SHAPE, kind.itemsize), "u1").view(kind)[..., 0]
    for field in kind.names:
        if kind[field].kind == "b":
            image[field] = rng.integers(0, 2, SHAPE)
        if kind[field].kind in "SU":
            image[field] = "a"
    return image


def entries(base, name, image):
    kind, shape = image.dtype, list(image.shape)
    line = {"family": "npy_structs", "writer": "numpy", "shape": shape, "chunk": shape,
            "shard": None, "codecs": []}

    def entry(uri, pixels, dtype):
        fill = bytes(pixels.dtype.itemsize).hex()
        return {"name": uri, **line, "dtype": dtype, "raw": base.pixels_file(pixels), "fill": fill}

    for field in kind.names:
        pixels = np.ascontiguousarray(image[field])
        if kind[field].subdtype or pixels.dtype.kind in "SU" or pixels.dtype.itemsize > 16:
            continue
        if pixels.dtype.kind == "V":
            yield entry(f"{name}.npy?field={field}", pixels, "raw")
        else:
            little = pixels.astype(pixels.dtype.newbyteorder("<"))
            yield entry(f"{name}.npy?field={field}", little, NAMES[little.dtype.str])
    if kind.itemsize <= 16:
        data = image.tobytes("C")
        whole = np.frombuffer(data, f"V{kind.itemsize}").reshape(image.shape)
        yield entry(f"{name}.npy", whole, "raw")


def main():
    root = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import make_fixtures as base

    shutil.rmtree(base.ROOT, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    (root / "stores").mkdir(parents=True)
    base.ROOT, found = root, []
    for name, kind in KINDS.items():
        for order in "CF" if name == "narrow" else "C":
            image, own = paint(name, kind), name + ("_fortran" if order == "F" else "")
            path = root / "stores" / f"{own}.npy"
            np.save(path, np.asarray(image, order=order))
            assert np.load(path).tobytes() == image.tobytes(), name
            found += entries(base, own, image)
    np.save(root / "stores" / "objects.npy", np.zeros(3, [("a", "<i4"), ("b", "O")]))
    lines = ",\n".join(map(json.dumps, found))
    (root / "apart.json").write_text(f"[\n{lines}\n]\n")
    base.pack(pathlib.Path(__file__).parent / "npy_structs.tar.zst")
    shutil.rmtree(root)
    print(len(found), "lines")


if __name__ == "__main__":
    main()
