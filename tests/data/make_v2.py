#!/usr/bin/env python3
"""Writes the zarr v2 fixtures: stores and documents by zarr-python 3, zarr-python 2 and tensorstore.

    python -m venv /tmp/venv2
    /tmp/venv2/bin/pip install zarr==2.18.7 numcodecs==0.15.2 numpy==2.4.6
    /tmp/venv/bin/python tests/data/make_v2.py /tmp/venv2/bin/python

Runs in the environment of make_fixtures.py, whose pictures and packing it shares; zarr-python 2 is
run in its own. With these versions the output is the same bytes on every run. Out:

    v2.tar.zst          as fixtures.tar.zst; stores that are no picture (void types, empty arrays)
                        stand in apart.json instead of manifest.json
    metadata_v2/        .zarray documents as they were written, and manifest.json: what the writer
                        says of each, or with which status it is refused and what the text names

Every store is read back with tensorstore or zarr-python 3 and compared before it is packed.
"""
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).parent


def zarr2_worker(jobs):
    """Runs under zarr-python 2: makes the stores of a list of jobs."""
    import numcodecs
    import numpy as np
    import zarr

    for job in json.loads(pathlib.Path(jobs).read_text()):
        image = np.load(job["image"])
        compressor = job["compressor"] and numcodecs.get_codec(dict(job["compressor"]))
        filters = job["filters"] and [numcodecs.get_codec(dict(f)) for f in job["filters"]]
        options = {}
        if "object_codec" in job:
            options["object_codec"] = numcodecs.get_codec({"id": job["object_codec"]})
        dtype = [tuple(field) for field in job["dtype"]] if isinstance(job["dtype"], list) else job["dtype"]
        fill = job["fill"]
        if isinstance(fill, dict):
            fill = np.frombuffer(bytes.fromhex(fill["hex"]), fill["dtype"])[0]
        array = zarr.create(
            store=zarr.DirectoryStore(job["path"]), shape=image.shape, chunks=tuple(job["chunks"]),
            dtype=dtype, order=job["order"], dimension_separator=job["separator"], fill_value=fill,
            compressor=compressor, filters=filters, **options)
        for region in job["write"]:
            slices = tuple(slice(first, limit) for first, limit in region)
            array[slices] = image[slices]


if __name__ == "__main__" and sys.argv[1] == "--zarr2":
    zarr2_worker(sys.argv[2])
    sys.exit()

import make_fixtures as base  # noqa: E402
import numcodecs  # noqa: E402
import numpy as np  # noqa: E402
import tensorstore as ts  # noqa: E402
import zarr  # noqa: E402

APART = []
ZARR2 = [sys.argv[1], __file__, "--zarr2"] if len(sys.argv) > 1 else None
NONE, ZSTD = None, {"id": "zstd", "level": 3}


def blosc(shuffle, cname="zstd", clevel=5):
    return {"id": "blosc", "cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": 0}


# rank: (array, chunk); chunks divide no array.
SHAPES = {
    1: ((89,), (16,)), 2: ((13, 11), (5, 4)), 3: ((7, 5, 6), (3, 2, 4)),
    4: ((3, 4, 5, 3), (2, 3, 2, 2)), 5: ((2, 3, 3, 4, 2), (1, 2, 2, 3, 2)),
    6: ((2, 2, 3, 2, 3, 2), (1, 2, 2, 1, 2, 2)),
}

# wavetrain's name and the type strings of the array interface.
TYPES = {name: [f"{order}{kind}" for order in orders] for name, kind, orders in [
    ("bool", "b1", "|"), ("i8", "i1", "|"), ("u8", "u1", "|"), ("i16", "i2", "<>"),
    ("u16", "u2", "<>"), ("i32", "i4", "<>"), ("u32", "u4", "<>"), ("i64", "i8", "<>"),
    ("u64", "u8", "<>"), ("f16", "f2", "<>"), ("f32", "f4", "<>"), ("f64", "f8", "<>"),
    ("c64", "c8", "<>"), ("c128", "c16", "<>")]}


def make(writer, path, image, typestr, chunks, order="C", separator=".", compressor=NONE, fill=0,
         regions=None, filters=None, object_codec=None):
    """One store. `fill` is a number, None, or for tensorstore its JSON."""
    regions = [tuple(slice(0, n) for n in image.shape)] if regions is None else regions
    if writer == "zarr3":
        target = zarr.create_array(
            str(path), shape=image.shape, chunks=chunks, dtype=typestr, order=order, zarr_format=2,
            fill_value=fill, chunk_key_encoding={"name": "v2", "separator": separator},
            compressors=compressor and numcodecs.get_codec(dict(compressor)), filters=filters,
            config={"write_empty_chunks": True})
    elif writer == "tensorstore":
        target = ts.open({
            "driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/"},
            "metadata": {
                "shape": list(image.shape), "chunks": list(chunks), "dtype": typestr,
                "order": order if image.ndim > 1 else "C", "compressor": compressor,
                "filters": filters, "fill_value": fill, "dimension_separator": separator},
            "create": True, "store_data_equal_to_fill_value": True,
        }).result()
    else:
        with tempfile.TemporaryDirectory() as folder:
            picture, jobs = f"{folder}/image.npy", f"{folder}/jobs.json"
            np.save(picture, image)
            if isinstance(fill, (complex, np.void, bytes)):
                kind = typestr if isinstance(fill, complex) else f"V{len(bytes(fill))}"
                fill = {"hex": np.array(fill, kind).tobytes().hex(), "dtype": kind}
            job = {
                "image": picture, "path": str(path), "chunks": list(chunks), "dtype": typestr,
                "order": order, "separator": separator, "compressor": compressor, "fill": fill,
                "filters": filters,
                "write": [[(s.start, s.stop) for s in region] for region in regions]}
            if object_codec:
                job["object_codec"] = object_codec
            pathlib.Path(jobs).write_text(json.dumps([job]))
            subprocess.run([*ZARR2, jobs], check=True)
        return
    for region in regions:
        target[region] = image[region]


def read(path):
    """The store as another library than ours sees it."""
    written = json.loads((path / ".zarray").read_text())["compressor"]
    # Neither the codec nor the parameter is one of tensorstore's.
    if written and (written["id"] == "lz4" or "checksum" in written):
        return zarr.open_array(str(path), mode="r")[...]
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return ts.open(spec, open=True).result().read().result()


def little(image):
    """One layout for all: C order, little endian."""
    if image.dtype.kind == "V" or image.dtype.itemsize == 1:
        return np.ascontiguousarray(image)
    return np.ascontiguousarray(image.astype(image.dtype.newbyteorder("<")))


def store(name, writer, dtype, typestr, image, chunks, compressor=NONE, fill=3, fill_value=None,
          apart=False, **options):
    """Makes a store, reads it back and lists it. `fill_value`: one element of the fill."""
    path = base.ROOT / "stores" / f"v2_{name}"
    assert not path.exists(), name
    make(writer, path, image, typestr, chunks, compressor=compressor, fill=fill, **options)
    (path / ".zattrs").unlink(missing_ok=True)
    if compressor and compressor["id"] == "gzip":
        for file in path.rglob("[0-9]*"):
            # The header holds the time of writing, which would make every run another pack.
            data = file.read_bytes()
            file.write_bytes(data[:4] + bytes(4) + data[8:])
    if image.size and dtype != "raw":
        seen = little(np.asarray(read(path)))
        assert seen.tobytes() == little(image).tobytes(), name
    element = little(np.asarray(fill if fill_value is None else fill_value).astype(image.dtype))
    (APART if apart else base.MANIFEST).append({
        "name": path.name, "family": "v2", "writer": writer, "dtype": dtype,
        "shape": list(image.shape), "chunk": list(chunks), "shard": None,
        "codecs": [compressor["id"]] if compressor else [],
        "raw": base.pixels_file(little(image)), "fill": element.tobytes().hex()})


def default_fill(typestr):
    return {"b": True, "c": 3 - 2j}.get(np.dtype(typestr).kind, 3)


def json_fill(fill):
    """A fill value as tensorstore takes it."""
    if isinstance(fill, complex):
        return [json_fill(fill.real), json_fill(fill.imag)]
    if isinstance(fill, float) and not np.isfinite(fill):
        return "NaN" if fill != fill else ("Infinity" if fill > 0 else "-Infinity")
    return fill


def types():
    """Every type and byte order in both element orders; the rest goes round."""
    compressors = [NONE, ZSTD, blosc(0), blosc(1), blosc(2), {**ZSTD, "checksum": True}]
    writers = ["zarr3", "tensorstore", "zarr2"]
    number = 0
    for dtype, typestrs in TYPES.items():
        for typestr, order in itertools.product(typestrs, "CF"):
            shape, chunks = SHAPES[1 + (number // 2 + number % 2) % 6]
            image = base.paint(dtype, shape).astype(np.dtype(typestr))
            writer = writers[number % 3]
            compressor = compressors[number // 2 % 6]
            if writer == "tensorstore" and compressor == compressors[5]:
                compressor = ZSTD
            fill = default_fill(typestr)
            word = {"|": "one", "<": "little", ">": "big"}[typestr[0]]
            store(f"{dtype}_{word}_{order}", writer, dtype, typestr, image, chunks, compressor,
                  json_fill(fill) if writer == "tensorstore" else fill,
                  np.array(fill).astype(typestr), order=order, separator="./"[number // 3 % 2])
            number += 1
    image = base.paint("bf16", SHAPES[3][0])
    for order in "CF":
        store(f"bf16_{order}", "tensorstore", "bf16", "bfloat16", image, SHAPES[3][1], ZSTD,
              1.5, order=order)


def ranks():
    """Both element orders and separators in every rank."""
    for rank, (order, separator) in itertools.product(SHAPES, [("C", "/"), ("F", "."), ("F", "/")]):
        shape, chunks = SHAPES[rank]
        word = "dot" if separator == "." else "slash"
        store(f"rank{rank}_{order}_{word}", ["zarr3", "tensorstore", "zarr2"][rank % 3], "u16", "<u2",
              base.paint("u16", shape), chunks, NONE if rank % 2 else ZSTD, order=order,
              separator=separator)
    # Columns of more than a page: what lies between those that a box needs is worth leaving out.
    tall = np.resize(base.paint("u16", (997,)), (2600, 5))
    store("columns", "zarr3", "u16", "<u2", tall, (2500, 4), order="F")


def sparse():
    """Missing chunks under every kind of fill value, as each writer spells it."""
    fills = [
        ("u8_255", "u8", "|u1", 255), ("i16_minus1", "i16", ">i2", -1),
        ("u64_max", "u64", "<u8", 2**64 - 1), ("i64_min", "i64", ">i8", -(2**63)),
        ("bool_true", "bool", "|b1", True), ("f16_tiny", "f16", "<f2", 6e-8),
        ("f32_nan", "f32", "<f4", float("nan")), ("f32_inf", "f32", ">f4", float("inf")),
        ("f64_minus_inf", "f64", "<f8", float("-inf")), ("f64_tenth", "f64", ">f8", 0.1),
        ("f32_minus_zero", "f32", "<f4", -0.0), ("c64_nan", "c64", "<c8", complex("nan-1j")),
        ("c128_big", "c128", ">c16", complex(1e300, 2)), ("i32_null", "i32", "<i4", None),
        ("f32_null", "f32", ">f4", None), ("c64_null", "c64", "<c8", None),
    ]
    for n, (name, dtype, typestr, fill) in enumerate(fills):
        shape, chunks = SHAPES[1 + n % 4]
        painted = base.paint(dtype, shape, 9).astype(np.dtype(typestr))
        for writer in ["zarr3", "tensorstore", "zarr2"]:
            # tensorstore 0.1.86 writes "-Infinity" as null, zarr-python 2 writes -0.0 as 0.0.
            if (writer == "tensorstore" and fill == float("-inf")) or (
                    writer == "zarr2" and name == "f32_minus_zero"):
                continue
            value = np.array(0 if fill is None else fill).astype(typestr)
            image = np.full(shape, value)
            keep = list(base.cells(shape, chunks, lambda number: number % 2 == n % 2))
            for region in keep:
                image[region] = painted[region]
            given = json_fill(fill) if writer == "tensorstore" else fill
            store(f"sparse_{name}_{writer}", writer, dtype, typestr, image, chunks, ZSTD, given,
                  value, order="CF"[n % 2], regions=keep)


def apart():
    """Void types and empty arrays."""
    shape, chunks = SHAPES[2]
    rng = np.random.default_rng(11)
    for n, (writer, size) in enumerate(itertools.product(["zarr3", "zarr2"], [1, 3, 16])):
        image = rng.integers(0, 256, (*shape, size)).astype("u1").view(f"V{size}")[..., 0]
        fill = np.void(bytes(range(7, 7 + size)))
        keep = list(base.cells(shape, chunks, lambda number: number % 3 != 0))
        blank = np.full(shape, fill, f"V{size}")
        for region in keep:
            blank[region] = image[region]
        store(f"raw{size}_{writer}", writer, "raw", f"|V{size}", blank, chunks,
              [NONE, ZSTD, blosc(1)][n % 3], fill, order="CF"[n % 2], apart=True, regions=keep)
    for writer in ["zarr3", "tensorstore", "zarr2"]:
        store(f"empty_{writer}", writer, "u16", "<u2", np.zeros((0, 5), "<u2"), (2, 3), ZSTD, 42,
              apart=True, regions=[])


def codecs():
    """The compressors beside zstd, and blosc of the compressors beside zstd."""
    shape, chunks = SHAPES[3]
    image = base.paint("u16", shape)
    for cname, shuffle in itertools.product(["lz4", "lz4hc", "blosclz", "zlib"], [0, 1, 2]):
        writer = ["zarr3", "tensorstore", "zarr2"][shuffle]
        store(f"blosc_{cname}_{shuffle}", writer, "u16", "<u2", image, chunks, blosc(shuffle, cname),
              order="CF"[shuffle % 2])
    plain = {"gzip": {"level": 5}, "zlib": {"level": 1}, "lz4": {"acceleration": 1}}
    for name, options in plain.items():
        for writer in ["zarr3", "tensorstore", "zarr2"]:
            if writer == "tensorstore" and name == "lz4":
                continue
            store(f"{name}_{writer}", writer, "u16", ">u2", image.astype(">u2"), chunks,
                  {"id": name, **options}, order="F")
            big = np.resize(base.paint("f32", (997,)), 40_000)
            store(f"{name}_{writer}_long", writer, "f32", "<f4", big, (30_000,),
                  {"id": name, **options})


def documents(target):
    """metadata_v2/: what the writers write, and what they say of it."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    manifest = {}

    def keep(name, path):
        (target / f"{name}.json").write_bytes((path / ".zarray").read_bytes())

    def accepted(name, writer, typestr, fill, dtype_name, codecs, shape=(10, 20), chunks=(4, 10),
                 fill_value=None, element=None, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a"
            kind = np.dtype(element or typestr)
            image = np.frombuffer(bytes([1]) * kind.itemsize * int(np.prod(shape)), kind).reshape(shape)
            last = tuple(slice((n - 1) // c * c, n) for n, c in zip(shape, chunks))
            make(writer, path, image, typestr, chunks, fill=fill, regions=[last], **options)
            keys = [p for p in path.rglob("*") if p.is_file() and not p.name.startswith(".z")]
            assert len(keys) == 1, keys
            keep(name, path)
            value = np.asarray(fill if fill_value is None else fill_value)
            value = value.astype(kind) if value.dtype.kind != "V" else value
            manifest[name] = {
                "shape": list(shape), "chunk_shape": list(chunks), "dtype_bytes": kind.itemsize,
                "fill": little(value).tobytes().hex(), "last_key": keys[0].relative_to(path).as_posix(),
                "dtype_name": dtype_name, "codecs": codecs}

    def refused(name, writer, says, typestr="<u2", fill=0, status="UNSUPPORTED", image=None, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a"
            image = np.zeros((4, 6), "u2") if image is None else image
            make(writer, path, image, typestr, (2, 3), fill=fill, regions=[], **options)
            keep(name, path)
            manifest[name] = {"refused": status, "says": says}

    for writer in ["zarr3", "zarr2", "tensorstore"]:
        accepted(f"{writer}_nan", writer, "<f4", "NaN" if writer == "tensorstore" else float("nan"),
                 "<f4", "zstd order C", fill_value=float("nan"), compressor=ZSTD)
        accepted(f"{writer}_null", writer, ">i4", None, ">i4", "order F", fill_value=0, order="F")
        accepted(f"{writer}_slash", writer, "|u1", 7, "|u1", "blosc order C", separator="/",
                 compressor=blosc(1))
        accepted(f"{writer}_bool", writer, "|b1", True, "|b1", "order C")
        accepted(f"{writer}_complex", writer, ">c8",
                 [1.0, "-Infinity"] if writer == "tensorstore" else complex("1-infj"), ">c8",
                 "zstd order F", fill_value=complex("1-infj"), order="F", compressor=ZSTD)
        accepted(f"{writer}_u64", writer, "<u8", 2**64 - 1, "<u8", "order C",
                 fill_value=np.uint64(2**64 - 1))
    for writer in ["zarr3", "zarr2"]:
        fill = np.void(b"\x01\x00\xff")
        accepted(f"{writer}_void", writer, "|V3", fill, "|V3", "order C", fill_value=fill)
        accepted(f"{writer}_void_16", writer, "|V16", None, "|V16", "order C",
                 fill_value=np.void(bytes(16)))
        accepted(f"{writer}_scalar", writer, "<f8", 0.1, "<f8", "order C", shape=(), chunks=())
        accepted(f"{writer}_rank_16", writer, "<u2", 1, "<u2", "order F", shape=(2,) * 16,
                 chunks=(1,) * 8 + (2,) * 8, order="F")
    for writer, name in itertools.product(["zarr3", "zarr2", "tensorstore"],
                                          ["gzip", "zlib", "lz4", "bz2", "lzma"]):
        if writer != "tensorstore" or name not in ["lz4", "lzma"]:
            accepted(f"{writer}_{name}", writer, "<u2", 1, "<u2", f"{name} order C", compressor={"id": name})
    accepted("zarr3_overflow", "zarr3", "<f2", 1e6, "<f2", "order C", fill_value=np.float16(np.inf))
    accepted("tensorstore_bfloat16", "tensorstore", "bfloat16", 0.1, "bfloat16", "order C",
             element=base.DTYPES["bf16"][1])
    accepted("tensorstore_base64", "tensorstore", ">c8", "P4AAAEAAAAA=", ">c8", "order C",
             fill_value=1 + 2j)
    accepted("zarr3_checksum", "zarr3", "<u2", 1, "<u2", "zstd order C",
             compressor={**ZSTD, "checksum": True})

    for writer in ["zarr3", "zarr2"]:
        def filters(*items):
            return [numcodecs.get_codec(dict(item)) for item in items] if writer == "zarr3" else list(items)

        delta = {"id": "delta", "dtype": "<u2", "astype": "<i4"}
        accepted(f"{writer}_delta", writer, "<u2", 1, "<u2", "delta order C", filters=filters(delta))
        accepted(f"{writer}_hdf5", writer, "<u2", 1, "<u2", "shuffle zlib fletcher32 order F", order="F",
                 filters=filters({"id": "shuffle", "elementsize": 2}, {"id": "zlib", "level": 4},
                                 {"id": "fletcher32"}))
        accepted(f"{writer}_crc32", writer, "<u2", 1, "<u2", "crc32 zstd order C", compressor=ZSTD,
                 filters=filters({"id": "crc32"}))
        for name, typestr in [("datetime", "<M8[ns]"), ("timedelta", ">m8[25s]")]:
            # zarr-python 3 reads a fill of null as no time.
            fill = 0 if writer == "zarr3" else None
            accepted(f"{writer}_{name}", writer, typestr, fill, typestr, "order C",
                     fill_value=np.array("NaT" if fill is None else fill, typestr))
        refused(f"refused_{writer}_base64", writer, ["filters[0].id", "filter \"base64\""],
                filters=filters({"id": "base64"}))
        refused(f"refused_{writer}_snappy", writer, ["compressor.cname", 'blosc of "snappy"'],
                compressor=blosc(1, "snappy"))
        refused(f"refused_{writer}_jenkins", writer, ["compressor.id", 'compressor "jenkins_lookup3"'],
                compressor={"id": "jenkins_lookup3"})
        for name, typestr, fill in [("bytes", "|S5", b"x"), ("text", "<U3", "a"), ("v17", "|V17", None)]:
            fill = None if writer == "zarr2" else fill
            refused(f"refused_{writer}_{name}", writer, ["dtype at byte", f'"{typestr}'], typestr, fill)
    refused("refused_zarr2_object", "zarr2", ["\"|O\""], "|O", None, object_codec="vlen-utf8")
    for name in ["float8_e3m4", "float4_e2m1fn"]:
        refused(f"refused_tensorstore_{name}", "tensorstore", [f'"{name}"'], name, None)
    (target / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    print(len(manifest), "documents")


def packed(families, target):
    """One pack of what the families make."""
    base.ROOT = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-v2-"))
    for kept in [base.MANIFEST, base.PIXELS, APART]:
        kept.clear()
    try:
        for family in families:
            family()
        lines = ",\n".join(json.dumps(entry) for entry in APART)
        (base.ROOT / "apart.json").write_text(f"[\n{lines}\n]\n")
        base.pack(target)
    finally:
        shutil.rmtree(base.ROOT)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    shutil.rmtree(base.ROOT)
    documents(out / "metadata_v2")
    packed([types, ranks, sparse, codecs, apart], out / "v2.tar.zst")
