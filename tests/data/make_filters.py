#!/usr/bin/env python3
"""Writes filters.tar.zst: stores with numcodecs' filters and checksums, times, scalars, and what
xarray writes.

    pip install xarray==2026.9.0
    python tests/data/make_filters.py       # with the packages that make_fixtures.py names

With those versions the output is the same bytes on every run. The stores have the manifest of
make_fixtures.py; what they read as is what zarr-python reads, because some filters lose digits.
Times and scalars, which not every test of pictures can stream, stand in apart.json; so does
astype between every two types.
"""
import itertools
import json
import pathlib
import shutil
import warnings

import numcodecs
import numcodecs.fletcher32
import numpy as np
import xarray
import zarr
import zarr.codecs.numcodecs as zn
from zarr.codecs import BytesCodec, TransposeCodec, ZstdCodec

import make_fixtures as made
from make_fixtures import DTYPES, MANIFEST, ROOT, pixels_file

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
APART = []
# rank: (array, chunk, shard); chunks divide no array.
SHAPES = {1: ((389,), (64,), (128,)), 2: ((37, 29), (8, 9), (16, 18)),
          3: ((11, 13, 7), (4, 5, 3), (8, 5, 6))}


def slope(dtype, shape):
    """Numbers that fit every filter here: a slope with noise, floats with a few digits."""
    numpy_type = DTYPES[dtype][1]
    rng = np.random.default_rng([7, len(shape)])
    steps = sum(i * (1 + axis) for axis, i in enumerate(np.indices(shape)))
    numbers = steps % 97 + rng.integers(0, 4, shape)
    if dtype == "bool":
        return numbers % 3 == 0
    if numpy_type.kind in "iu":
        return numbers.astype(numpy_type)
    return ((numbers - 40) / 8).astype(numpy_type)


def entry(name, writer, dtype, image, chunk, shard, codecs, fill, manifest=MANIFEST):
    manifest.append({
        "name": name, "family": "filters", "writer": writer, "dtype": dtype,
        "shape": list(image.shape), "chunk": list(chunk), "shard": list(shard) if shard else None,
        "codecs": codecs, "raw": pixels_file(image), "fill": fill.hex()})


def store(name, version, dtype, rank, filters=(), compressors=(), serializer="auto", shards=False,
          order="C", typestr=None, lossy=False, manifest=MANIFEST):
    """One store by zarr-python. Its last chunk is missing; `typestr` is numpy's spelling."""
    shape, chunk, shard = SHAPES[rank]
    image = slope(dtype, shape)
    numpy_type = np.dtype(typestr or DTYPES[dtype][1])
    fill = np.array(1, numpy_type.newbyteorder("<"))
    name = f"v{version}_{name}"
    path = ROOT / "stores" / name
    assert not path.exists(), name
    options = {"order": order} if version == 2 else {"serializer": serializer}
    if version == 2 and isinstance(compressors, (list, tuple)):
        compressors = compressors[0] if compressors else None
    array = zarr.create_array(
        str(path), shape=shape, chunks=chunk, shards=shard if shards else None, dtype=numpy_type,
        zarr_format=version, filters=list(filters) or None, compressors=compressors or None,
        fill_value=fill[()], **options)
    written = tuple(slice(0, n - n % c) if axis == 0 else slice(None)
                    for axis, (n, c) in enumerate(zip(shape, shard if shards else chunk)))
    array[written] = image[written]
    seen = np.ascontiguousarray(zarr.open_array(str(path), mode="r")[...])
    assert seen.shape == image.shape, name
    if not lossy:
        assert (seen[written] == image[written]).all(), name
    codecs = array.compressors or ()
    names = [codec.codec_id if version == 2 else codec.to_dict()["name"] for codec in codecs]
    entry(name, "zarr", dtype, seen, chunk, shard if shards else None, names, fill.tobytes(),
          manifest)


def version_2():
    zstd, blosc = numcodecs.Zstd(level=3), numcodecs.Blosc(cname="lz4", shuffle=1)
    shuffle = numcodecs.Shuffle
    delta, scale, astype = numcodecs.Delta, numcodecs.FixedScaleOffset, numcodecs.AsType
    sums = [numcodecs.CRC32, numcodecs.Adler32, numcodecs.CRC32C]
    fletcher = numcodecs.fletcher32.Fletcher32()

    for dtype in ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]:
        kind = DTYPES[dtype][1].str
        store(f"delta_{dtype}", 2, dtype, 2, [delta(dtype=kind)], [zstd], order="F")
        store(f"delta_{dtype}_narrow", 2, dtype, 3, [delta(dtype=kind, astype="i1")])
    store("delta_wide", 2, "u8", 2, [delta(dtype="u1", astype="<i4")], [blosc])
    store("delta_big", 2, "i32", 2, [delta(dtype=">i4", astype=">i2")], [zstd], typestr=">i4")
    for dtype, kind in [("f16", "<f2"), ("f32", "<f4"), ("f64", "<f8"), ("f32", ">f4")]:
        store(f"delta_{dtype}_{'big' if kind[0] == '>' else 'little'}", 2, dtype, 2,
              [delta(dtype=kind)], [zstd], typestr=kind)
    store("delta_f64_of_f32", 2, "f64", 2, [delta(dtype="<f8", astype="<f4")])
    store("delta_f32_of_i16", 2, "f32", 2, [delta(dtype="<f4", astype="<i2")], lossy=True)
    store("delta_f32_as_i32", 2, "f32", 2, [delta(dtype="<i4")], [zstd])

    for number, (dtype, kind, encoded) in enumerate([
            ("f32", "<f4", "u1"), ("f32", "<f4", "<i2"), ("f64", "<f8", "<u2"), ("f32", ">f4", ">i4"),
            ("f16", "<f2", "i1"), ("f64", "<f8", "<i8"), ("f32", "<f4", "<f4"), ("f64", "<f8", "<f8"),
            ("f16", "<f2", "<f2"), ("f64", "<f8", "<f2"), ("f32", "<f4", "<u8"), ("f16", "<f2", "<f8"),
            ("i16", "<i2", "u1"), ("i32", "<i4", "<i4"), ("u8", "|u1", "u1"), ("i64", "<i8", "<f4")]):
        factor, offset = [(10, -5), (8.5, 0.25), (3, 0), (100, 1)][number % 4]
        store(f"scale_{number}_{dtype}", 2, dtype, 2,
              [scale(offset=offset, scale=factor, dtype=kind, astype=encoded)],
              [zstd] if number % 2 else [], order="CF"[number % 2], typestr=kind, lossy=True)

    types = {name: DTYPES[name][1].str for name in
             ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"]}
    for number, (dtype, other) in enumerate(itertools.permutations(types, 2)):
        # What is negative or has a fraction does not come back; all that matters is what is read.
        if DTYPES[dtype][1].kind not in "iub" or DTYPES[other][1].kind != "f":
            store(f"astype_{dtype}_of_{other}", 2, dtype, 1,
                  [astype(encode_dtype=types[other], decode_dtype=types[dtype])],
                  [zstd] if number % 5 == 0 else [], lossy=True, manifest=APART)
    store("astype_u8_of_f32", 2, "u8", 2, [astype(encode_dtype=">f4", decode_dtype="u1")], [zstd])
    store("astype_i64_of_f64", 2, "i64", 2, [astype(encode_dtype="<f8", decode_dtype="<i8")])
    store("quantize", 2, "f64", 2, [numcodecs.Quantize(digits=1, dtype="<f8")], [zstd], lossy=True)
    store("quantize_narrow", 2, "f64", 2,
          [numcodecs.Quantize(digits=1, dtype="<f8", astype="<f2")], [zstd], lossy=True)
    store("bitround", 2, "f32", 2, [numcodecs.BitRound(keepbits=3)], lossy=True)

    store("packbits", 2, "bool", 1, [numcodecs.PackBits()])
    store("packbits_padded", 2, "bool", 3, [numcodecs.PackBits()], [zstd])
    for size, dtype in [(2, "u16"), (4, "f32"), (8, "f64"), (3, "u8"), (16, "u64"), (1, "i16")]:
        store(f"shuffle_{size}", 2, dtype, 2, [shuffle(elementsize=size)],
              [zstd] if size != 4 else [])
    for number, checksum in enumerate(sums):
        for location in ["start", "end", None]:
            name = f"{checksum.codec_id}_{location}"
            store(name, 2, "u16", 2, [checksum(location=location)], [zstd] if number else [])
    store("fletcher32", 2, "u16", 2, [fletcher])
    store("fletcher32_odd", 2, "u8", 3, [fletcher], [zstd])
    # As netCDF4 files are told by their references: all filters, no compressor.
    store("hdf5", 2, "f32", 2, [shuffle(elementsize=4), numcodecs.Zlib(level=4), fletcher])
    store("hdf5_scaled", 2, "f64", 3, [
        scale(offset=1, scale=16, dtype="<f8", astype="<i2"), shuffle(elementsize=2),
        numcodecs.Zlib(level=4), fletcher])
    store("chain", 2, "f32", 3, [
        scale(offset=-5, scale=8, dtype="<f4", astype="<i4"), delta(dtype="<i4", astype="<i2"),
        shuffle(elementsize=2), numcodecs.CRC32()], [blosc])
    store("chain_sums", 2, "u16", 2, [
        numcodecs.CRC32(location="start"), numcodecs.Adler32(location="end"), fletcher], [zstd])
    store("chain_copied", 2, "u16", 2, [delta(dtype="<u2"), numcodecs.CRC32C(location="start")],
          [numcodecs.Blosc(cname="zstd", clevel=0)])
    store("delta_of_part", 2, "f64", 2, [delta(dtype="<u2")], [zstd])


def version_3():
    types = {"i16": "int16", "u8": "uint8", "f32": "float32", "f64": "float64", "u32": "<u4"}
    for sharded in [False, True]:
        where = "shards" if sharded else "files"

        def one(name, dtype, filters, compressors=(), rank=2, lossy=False, **more):
            store(f"{name}_{where}", 3, dtype, rank, filters, compressors, shards=sharded,
                  lossy=lossy, **more)

        zstd = [ZstdCodec(level=3)]
        for dtype in ["i16", "u8", "u32", "f32", "f64"]:
            one(f"delta_{dtype}", dtype, [zn.Delta(dtype=types[dtype])], zstd)
        one("delta_narrow", "i16", [zn.Delta(dtype="<i2", astype="|i1")])
        one("scale", "f32", [zn.FixedScaleOffset(offset=-5, scale=8, dtype="float32", astype="uint8")],
            zstd)
        one("scale_bare", "f64", [zn.FixedScaleOffset(offset=0.5, scale=3, astype="<i4")], zstd,
            lossy=True)
        one("scale_same", "f32", [zn.FixedScaleOffset(offset=1, scale=3)], lossy=True)
        one("astype", "f64", [zn.AsType(encode_dtype="float32", decode_dtype="float64")], zstd)
        one("astype_bare", "i16", [zn.AsType(encode_dtype="i1")])
        one("bitround", "f32", [zn.BitRound(keepbits=3)], zstd, lossy=True)
        one("quantize", "f32", [zn.Quantize(digits=1, dtype="float32")], zstd, lossy=True)
        one("quantize_bare", "f32", [zn.Quantize(digits=1)], lossy=True)
        one("shuffle", "f32", [], [zn.Shuffle(elementsize=4), *zstd])
        one("shuffle_bare", "u16", [], [zn.Shuffle(), *zstd], rank=3)
        one("shuffle_alone", "u16", [], [zn.Shuffle(elementsize=2)])
        for item in [zn.CRC32(), zn.CRC32(location="end"), zn.Adler32(), zn.Adler32(location="end"),
                     zn.CRC32C(location="start"), zn.Fletcher32()]:
            configuration = item.to_dict()
            name = configuration["name"].removeprefix("numcodecs.")
            name += "_" + configuration["configuration"].get("location", "default")
            one(f"{name}_before", "u16", [], [item, *zstd])
            one(f"{name}_behind", "u16", [], [*zstd, item])
        one("chain", "f32", [
            zn.FixedScaleOffset(offset=-5, scale=8, dtype="float32", astype="int32"),
            zn.Delta(dtype="int32", astype="int16")],
            [zn.Shuffle(elementsize=2), zn.Fletcher32(), *zstd, zn.Adler32()])
    store("transposed", 3, "i16", 2, [TransposeCodec(order=(1, 0)), zn.AsType(encode_dtype="i1")],
          [ZstdCodec(level=3)])
    store("big_bitround", 3, "f32", 2, [zn.BitRound(keepbits=3)], [ZstdCodec(level=3)],
          serializer=BytesCodec(endian="big"), lossy=True)


def times():
    """Times with every unit, and a fill that is none."""
    rng = np.random.default_rng(11)
    bits = rng.integers(-2**40, 2**40, (37,)).astype("<i8")
    bits[5] = np.iinfo("i8").min
    fills = {"nat": "NaT", "zero": 0, "some": 12345}
    for number, (kind, unit) in enumerate(itertools.product(
            "Mm", ["ns", "us", "ms", "s", "m", "h", "D", "W", "M", "Y", "25s"])):
        fill = list(fills)[number % 3]
        for version in [2, 3]:
            order = ">" if version == 2 and number % 4 == 1 else "<"
            dtype = np.dtype(f"{order}{kind}8[{unit}]")
            name = f"time_v{version}_{kind}_{unit}"
            path = ROOT / "stores" / name
            array = zarr.create_array(
                str(path), shape=(40,), chunks=(8,), dtype=dtype, zarr_format=version,
                fill_value=np.array(fills[fill], dtype)[()])
            array[:37] = bits.view(dtype.newbyteorder("<"))
            (path / ("4" if version == 2 else "c/4")).unlink()
            seen = zarr.open_array(str(path), mode="r")[...]
            seen = seen.astype(seen.dtype.newbyteorder("<")).view("<i8")
            assert (seen[:32] == bits[:32]).all(), name
            element = np.array(array.fill_value, dtype.newbyteorder("<")).tobytes()
            entry(name, "zarr", "i64", seen, (8,), None, ["zstd"], element, APART)
    # Null is no time.
    path = ROOT / "stores" / "time_v2_null"
    zarr.create_array(str(path), shape=(9,), chunks=(4,), dtype="<M8[ns]", zarr_format=2,
                      fill_value=0)
    document = json.loads((path / ".zarray").read_text())
    document["fill_value"] = None
    (path / ".zarray").write_text(json.dumps(document))
    seen = zarr.open_array(str(path), mode="r")[...].view("<i8")
    entry("time_v2_null", "zarr", "i64", seen, (4,), None, ["zstd"], seen[:1].tobytes(), APART)


def scalars():
    for version, dtype in itertools.product([2, 3], ["f32", "u8", "i64"]):
        image = np.array(42, DTYPES[dtype][1])
        name = f"scalar_v{version}_{dtype}"
        path = ROOT / "stores" / name
        zarr.create_array(str(path), data=image, zarr_format=version, chunks=())
        entry(name, "zarr", dtype, image, (), None, ["zstd"], bytes(image.itemsize), APART)
        name = f"scalar_v{version}_{dtype}_missing"
        path = ROOT / "stores" / name
        zarr.create_array(str(path), shape=(), dtype=image.dtype, zarr_format=version, chunks=(),
                          fill_value=image[()])
        entry(name, "zarr", dtype, image, (), None, ["zstd"], image.tobytes(), APART)


def from_xarray():
    """Bare NaN and Infinity among the attributes, and as the fill of floats."""
    image = slope("f32", (37, 29))
    image[3, 4] = np.nan
    attributes = {"valid_range": [float("nan"), float("inf")], "missing": -float("inf")}
    for version in [2, 3]:
        path = ROOT / "stores" / f"xarray_v{version}"
        values = xarray.DataArray(image, dims=["y", "x"], attrs=attributes, name="t")
        times = np.arange(37).astype("datetime64[h]").astype("datetime64[ns]")
        dataset = values.assign_coords(y=times).to_dataset()
        dataset.to_zarr(str(path), zarr_format=version, consolidated=True, encoding={
            "t": {"chunks": (8, 9), "_FillValue": float("nan")}})
        text = (path / "t" / ("zarr.json" if version == 3 else ".zattrs")).read_text()
        assert "NaN" in text and "-Infinity" in text, text
        seen = zarr.open_array(str(path / "t"), mode="r")[...]
        fill = np.array(zarr.open_array(str(path / "t")).fill_value or 0, "<f4")
        entry(f"xarray_v{version}/t", "xarray", "f32", seen, (8, 9), None,
              ["zstd" if version == 3 else "blosc"], fill.tobytes())


def main():
    try:
        version_2()
        version_3()
        times()
        scalars()
        from_xarray()
        lines = ",\n".join(json.dumps(line) for line in APART)
        (ROOT / "apart.json").write_text(f"[\n{lines}\n]\n")
        made.pack(HERE / "filters.tar.zst")
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
