#!/usr/bin/env python3
"""Writes stores by software for microscopes, climate and maps: acquire-zarr, netCDF-C and GDAL.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install acquire-zarr==0.10.0 netCDF4==1.7.5.1.post1 rasterio==1.4.4 \
        zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 numpy==2.4.6 ml_dtypes==0.6.0 \
        zstandard==0.25.0
    /tmp/venv/bin/python tests/data/make_others.py              # writes tests/data/others.tar.zst

The pack is as make_fixtures.py describes its own: a manifest, the expected pixels, the stores.
Every store is read back with tensorstore, but for those whose metadata it refuses. acquire-zarr
places the chunks of a shard as its threads come, so packs may differ.
"""
import json
import pathlib
import shutil
import sys

import acquire_zarr as acquire
import netCDF4
import numpy as np
import rasterio
import tensorstore as ts

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_fixtures as base
from make_fixtures import DTYPES, paint

SHAPE, CHUNK = (5, 20, 26), (2, 8, 12)
STORES = base.ROOT / "stores"
READ_BACK = []


def add(name, writer, dtype, image, chunk, codecs=(), shard=None, fill=0):
    """Adds a store that was written to the manifest."""
    is_v2 = (STORES / name / ".zarray").exists()
    spec = {"driver": "zarr" if is_v2 else "zarr3",
            "kvstore": {"driver": "file", "path": f"{STORES / name}/"}}
    try:
        seen = ts.open(spec, open=True).result().read().result()
    except ValueError as refusal:
        print(name, "is not read back:", str(refusal).split("[")[0][:100])
    else:
        assert np.ascontiguousarray(seen).tobytes() == image.tobytes(), name
        READ_BACK.append(name)
    base.MANIFEST.append({
        "name": name, "family": "others", "writer": writer, "dtype": dtype,
        "shape": list(image.shape), "chunk": list(chunk), "shard": list(shard) if shard else None,
        "codecs": list(codecs), "raw": base.pixels_file(image),
        "fill": np.array(fill).astype(DTYPES[dtype][1]).tobytes().hex()})


def acquire_store(name, dtype, codec=None, shuffle=0, chunks_of_shard=(1, 1, 1)):
    """Frames of a microscope, which come one after the other: always a shard."""
    kinds = [acquire.DimensionType.TIME, acquire.DimensionType.SPACE, acquire.DimensionType.SPACE]
    dimensions = [
        acquire.Dimension(name=axis, kind=kind, array_size_px=extent, chunk_size_px=edge,
                          shard_size_chunks=count)
        for axis, kind, extent, edge, count in zip(
            "tyx", kinds, (0, *SHAPE[1:]), CHUNK, chunks_of_shard)]
    compression = codec and acquire.CompressionSettings(
        compressor=acquire.Compressor.ZSTD if codec == "ZSTD" else acquire.Compressor.BLOSC1,
        codec=getattr(acquire.CompressionCodec, codec), level=3, shuffle=shuffle)
    image = paint(dtype, SHAPE)
    folder = base.ROOT / "acquire"
    settings = acquire.StreamSettings(store_path=str(folder), arrays=[acquire.ArraySettings(
        output_key="image", dimensions=dimensions, compression=compression,
        data_type=getattr(acquire.DataType, DTYPES[dtype][0].upper()))])
    settings.version = acquire.ZarrVersion.V3
    stream = acquire.ZarrStream(settings)
    stream.append(image)
    stream.close()
    shutil.move(folder / "image", STORES / name)
    shutil.rmtree(folder)
    shard = [edge * count for edge, count in zip(CHUNK, chunks_of_shard)]
    codecs = {None: [], "ZSTD": ["zstd"]}.get(codec, ["blosc"])
    add(name, "acquire", dtype, image, CHUNK, codecs, shard)


def netcdf_store(name, dtype, mode="nczarr", compression=None, **options):
    """A variable of a dataset. What shuffles larger elements is refused, and so not here."""
    image = paint(dtype, SHAPE)
    folder = base.ROOT / "netcdf"
    data = netCDF4.Dataset(f"file://{folder}#mode={mode},file", "w")
    for axis, extent in zip("zyx", SHAPE):
        data.createDimension(axis, extent)
    variable = data.createVariable("image", DTYPES[dtype][1].str.lstrip("|<"), ("z", "y", "x"),
                                   chunksizes=CHUNK, compression=compression, **options)
    variable.set_auto_maskandscale(False)
    variable[:] = image
    data.close()
    fill = json.loads((folder / "image/.zarray").read_text())["fill_value"]
    shutil.move(folder / "image", STORES / name)
    shutil.rmtree(folder)
    codecs = [compression.split("_")[0]] if compression else []
    add(name, "netcdf-c", dtype, image, CHUNK, codecs, fill=fill)


def gdal_store(name, dtype, **options):
    """A raster: bands are the first axis, or the last one of pixels side by side."""
    image = paint(dtype, SHAPE)
    folder = base.ROOT / "gdal.zarr"
    by_pixel = options.get("INTERLEAVE") == "PIXEL"
    chunk = (8, 12, 5) if by_pixel else (1, 8, 12)
    bands, height, width = SHAPE
    with rasterio.open(folder, "w", driver="Zarr", count=bands, height=height, width=width,
                       dtype=DTYPES[dtype][1], BLOCKSIZE=",".join(map(str, chunk)),
                       **options) as raster:
        raster.write(image)
    shutil.move(folder / "gdal", STORES / name)
    shutil.rmtree(folder)
    image = np.ascontiguousarray(np.moveaxis(image, 0, -1)) if by_pixel else image
    codecs = [options["COMPRESS"].lower()] if "COMPRESS" in options else []
    add(name, "gdal", dtype, image, chunk, codecs)


def main():
    STORES.mkdir()
    for dtype in ["u8", "i16", "u16", "u32", "i64", "f32", "f64"]:
        acquire_store(f"acquire_{dtype}", dtype)
        netcdf_store(f"netcdf_{dtype}", dtype)
        if dtype != "i64":
            gdal_store(f"gdal_{dtype}", dtype)
    for codec in ["BLOSC_LZ4", "BLOSC_ZSTD"]:
        for shuffle in range(3):
            acquire_store(f"acquire_{codec.lower()}_{shuffle}", "u16", codec, shuffle, (2, 1, 3))
    acquire_store("acquire_zstd", "f32", "ZSTD", 0, (1, 3, 2))
    netcdf_store("netcdf_zstd", "f32", compression="zstd")
    netcdf_store("netcdf_zlib", "i16", compression="zlib", shuffle=False)
    netcdf_store("netcdf_zlib_bytes", "u8", "zarr", "zlib")
    netcdf_store("netcdf_blosc_zstd", "u16", "zarr", "blosc_zstd")
    for codec in ["ZLIB", "GZIP", "ZSTD", "BLOSC"]:
        for interleave in ["BAND", "PIXEL"]:
            gdal_store(f"gdal_{codec.lower()}_{interleave.lower()}", "u16", COMPRESS=codec,
                       INTERLEAVE=interleave)
    for name in ["lz4", "zlib", "blosclz"]:
        for shuffle in ["NONE", "BYTE", "BIT"]:
            gdal_store(f"gdal_blosc_{name}_{shuffle.lower()}", "i16", COMPRESS="BLOSC",
                       BLOSC_CNAME=name, BLOSC_SHUFFLE=shuffle)
    gdal_store("gdal_delta", "u16", FILTER="delta")
    gdal_store("gdal_order_f", "u16", CHUNK_MEMORY_LAYOUT="F")
    gdal_store("gdal_big", "f32", ENDIAN="BIG")
    print(len(READ_BACK), "were read back")
    assert len(READ_BACK) >= 30
    base.pack(pathlib.Path(__file__).parent / "others.tar.zst")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(base.ROOT)
