#!/usr/bin/env python3
"""Writes the rectilinear fixtures of zarr-python, packed in one file, and reads those of zarrs.

    python3.12 -m venv VENV
    VENV/bin/pip install zarr==3.4.2 numcodecs==0.17.1 numpy==2.5.5 zstandard==0.25.0
    VENV/bin/python tests/data/make_rectilinear.py         # writes tests/data/rectilinear.tar.zst

zarr-python writes rectilinear grids since 3.2, which needs Python 3.12. With these versions the
output is the same bytes on every run. The tar has the layout of fixtures.tar.zst (see
make_fixtures.py); an entry has `edges` beside the fields there: the lengths of the files along each
axis. Every store is read back whole before it is packed; so is every rectilinear store of
zarrs.tar.zst, so that one writer's mistake cannot become the expectation.
"""
import hashlib
import io
import json
import pathlib
import shutil
import sys
import tarfile
import tempfile
import zlib

import numpy as np
import zarr
import zstandard
from zarr.codecs import BloscCodec, Crc32cCodec, ShardingCodec, ZstdCodec

zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1,
                 "array.rectilinear_chunks": True})
HERE = pathlib.Path(__file__).parent
ROOT = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-rectilinear-"))
MANIFEST = []
PIXELS = {}
DTYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "i16": "<i2", "f32": "<f4", "f64": "<f8"}


def paint(name, dtype, shape):
    """A slope along every axis with noise in its lowest bits; a hole of 7 at the far corner."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    slope = sum(i * (3 + 2 * axis) for axis, i in enumerate(np.indices(shape))) + 1
    image = (slope * 4 + rng.integers(0, 4, shape)).astype(DTYPES[dtype])
    image[tuple(slice(extent - extent // 2, None) for extent in shape)] = 7
    return image


def store(name, dtype, shape, edges, codecs=(), inner=None, chunk_shapes=None):
    """One array; `edges` has the length of each file. `chunk_shapes`: another spelling of them,
    as other writers would choose; the library reads it back."""
    image = paint(name, dtype, shape)
    path = ROOT / "stores" / name
    # Edges behind the array are what a resize leaves.
    whole = tuple(e if isinstance(edge, int) else sum(edge) for edge, e in zip(edges, shape))
    options = dict(store=str(path), shape=whole, dtype=DTYPES[dtype], fill_value=7, zarr_format=3)
    if inner:
        serializer = ShardingCodec(chunk_shape=inner, codecs=[zarr.codecs.BytesCodec(), *codecs])
        array = zarr.create_array(
            **options, chunks=edges, serializer=serializer, compressors=None, filters=None)
    else:
        array = zarr.create_array(**options, chunks=edges, compressors=list(codecs))
    if whole != shape:
        array.resize(shape)
    array[...] = image
    document = json.loads((path / "zarr.json").read_text())
    assert document["chunk_grid"]["name"] == "rectilinear", name
    if chunk_shapes:
        document["chunk_grid"]["configuration"]["chunk_shapes"] = chunk_shapes
        (path / "zarr.json").write_text(json.dumps(document))
    check(path, image, name)
    cells = [list_of(edge, extent) for edge, extent in zip(edges, shape)]
    file = [max(cell) for cell in cells]
    raw = hashlib.sha256(image.tobytes()).hexdigest()[:16]
    PIXELS[raw] = image.tobytes()
    names = [codec.to_dict()["name"] for codec in codecs]
    MANIFEST.append({
        "name": name, "family": "rectilinear", "writer": "zarr", "dtype": dtype,
        "shape": list(shape),
        "chunk": list(inner or file), "shard": file if inner else None, "codecs": names,
        "raw": raw, "fill": image.dtype.type(7).tobytes().hex(), "edges": cells})


def list_of(edge, extent):
    """The lengths of the files that begin inside the axis."""
    edges = [edge] * -(-extent // edge) if isinstance(edge, int) else edge
    ends = np.cumsum(edges)
    return [int(e) for e, end in zip(edges, ends) if end - e < extent]


def check(path, image, name):
    """The store holds the pixels, as zarr-python sees it, bit for bit."""
    seen = zarr.open_array(str(path), mode="r")[...]
    assert seen.shape == image.shape, name
    assert np.ascontiguousarray(seen).tobytes() == image.tobytes(), name


def stores():
    months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    zstd, check = ZstdCodec(level=3), ZstdCodec(level=3, checksum=True)
    byte, bit = (BloscCodec(cname="zstd", clevel=5, shuffle=s) for s in ("shuffle", "bitshuffle"))
    crc = Crc32cCodec()
    store("zr_1_list", "u16", (97,), [[10, 1, 31, 7, 48]])
    store("zr_1_months", "f32", (1095,), [months * 3], [zstd])
    store("zr_1_over", "u8", (40,), [[9, 17, 20, 20, 5, 30]], [crc])
    store("zr_1_runs", "u32", (100,), [[30, 30, 30, 10]], [check],
          chunk_shapes=[[[30, 1], 30, [30, 1], [10, 1]]])
    store("zr_2_list", "i16", (37, 29), [[5, 20, 12], [1, 2, 26]], [byte])
    store("zr_2_mixed", "f64", (37, 40), [[8, 8, 3, 18], 16], [bit])
    store("zr_2_ones", "u8", (9, 12), [[1] * 8 + [2], [5, 7]])
    store("zr_3_list", "u16", (11, 13, 17), [[4, 7], [5, 5, 3], [2, 6, 6, 3]], [zstd, crc])
    store("zr_3_mixed", "f32", (11, 13, 17), [[4, 9], 6, [9, 8]], [zstd])
    store("zr_4_list", "u16", (3, 7, 9, 5), [[1, 2], 4, [2, 2, 5], [4, 1]], [zstd])
    store("zr_shard_1", "u16", (90,), [[20, 60, 10]], [zstd], (5,))
    store("zr_shard_2", "f32", (41, 30), [[8, 20, 4, 16], [12, 12, 6]], [crc], (4, 6))
    store("zr_shard_3", "u8", (11, 13, 17), [[4, 8], 6, [9, 3, 6]], [], (2, 3, 3))


def spelt_out(value):
    """Codecs that are a name alone become objects: this version of zarr-python asks for them."""
    if isinstance(value, dict):
        return {key: [{"name": c} if isinstance(c, str) else spelt_out(c) for c in item]
                if key in ("codecs", "index_codecs") else spelt_out(item)
                for key, item in value.items()}
    return value


def check_zarrs():
    """What zarrs wrote reads the same here."""
    packed = zstandard.ZstdDecompressor().decompressobj().decompress(
        (HERE / "zarrs.tar.zst").read_bytes())
    folder = ROOT / "zarrs"
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")
    checked = 0
    for entry in json.loads((folder / "manifest.json").read_text()):
        kinds = {"u8": "u1", "u16": "<u2", "i32": "<i4", "f32": "<f4", "f64": "<f8", "c64": "<c8"}
        data = (folder / "raw" / entry["raw"]).read_bytes()
        image = np.frombuffer(data, kinds[entry["dtype"]]).reshape(entry["shape"])
        document = folder / "stores" / entry["name"] / "zarr.json"
        document.write_text(json.dumps(spelt_out(json.loads(document.read_text()))))
        try:
            check(folder / "stores" / entry["name"], image, entry["name"])
            checked += 1
        except (ValueError, NotImplementedError, TypeError) as error:
            print(entry["name"], "is not read by zarr-python:", error)
    shutil.rmtree(folder)
    print(checked, "stores of zarrs read the same")


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
    packed = zstandard.ZstdCompressor(level=19, write_checksum=True).compress(buffer.getvalue())
    pathlib.Path(target).write_bytes(packed)
    print(len(MANIFEST), "stores,", buffer.tell(), "bytes,", len(packed), "packed, sha256",
          hashlib.sha256(packed).hexdigest()[:16])


def main():
    try:
        stores()
        check_zarrs()
        pack(sys.argv[1] if len(sys.argv) > 1 else HERE / "rectilinear.tar.zst")
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
