#!/usr/bin/env python3
"""Writes arrays of xarray with attributes of the CF conventions, and the numbers that xarray makes
of them, packed in one file.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install xarray==2026.9.0 zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 \
        numpy==2.4.6 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/venv/bin/python tests/data/make_cf.py              # writes tests/data/cf.tar.zst

With these versions the output is the same bytes on every run. The pack is as make_fixtures.py
describes its own, but the list of stores is apart.json, whose pixels and fill values are those of
open_zarr with mask_and_scale, as f64 if it decodes anything. Times stay numbers. xarray leaves
valid_range, valid_min and valid_max to its caller: here what is outside of them is NaN. missing is
the number of chunks that have no file.
"""
import json
import math
import pathlib
import shutil
import sys
import warnings

import numcodecs
import numpy as np
import xarray as xr
import zarr

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_fixtures as base

warnings.simplefilter("ignore")

SHAPE, CHUNK = (14, 18), (5, 4)
RNG = np.random.default_rng(5)
# Rows and columns of a chunk and more have no number.
HEAT = RNG.normal(280, 12, SHAPE)
HEAT[RNG.random(SHAPE) < 0.2] = np.nan
HEAT[4:11, 3:9] = np.nan
FULL = np.nan_to_num(HEAT, nan=281.5)
SMALL = RNG.integers(0, 100, SHAPE)
SMALL[5:10, 4:8] = 7
ANY8 = RNG.integers(0, 256, SHAPE).astype("u1")
LARGE = RNG.integers(-(2**63), 2**63 - 1, SHAPE)


def packed(dtype, scale, offset, fill, **more):
    """The numbers HEAT as xarray packs them."""
    encoding = {"dtype": dtype, "scale_factor": scale, "add_offset": offset, "_FillValue": fill}
    return HEAT, {}, {**encoding, **more}


# name: (what is given to xarray, attributes, encoding)
CASES = {
    "i8": packed("i1", 0.5, 280.0, -128),
    "u8": packed("u1", 0.5, 220.0, 255),
    "i16": packed("i2", 0.01, 273.15, -32768),
    "u16": packed("u2", 0.01, -100.0, 65535),
    "i32": packed("i4", 1e-7, 273.15, -(2**31)),
    "u32": packed("u4", 1e-6, 0.1, 2**32 - 1),
    "i64": (LARGE, {"scale_factor": 1e-9, "add_offset": 0.3}, {}),
    "u64": (LARGE.view("u8"), {"scale_factor": -3.7e-5}, {}),
    "f32": packed("f4", 0.1, 273.15, np.float32(-9999)),
    "f64": packed("f8", 0.1, 273.15, -9999.0),
    "f16": (HEAT.astype("f2"), {}, {"_FillValue": np.float16(-1024)}),
    "i16_raw": packed("i2", 0.01, 273.15, -32768, compressors=None),
    "i16_shards": packed("i2", 0.01, 273.15, -32768, shards=(10, 8)),
    "i16_delta": packed("i2", 0.01, 273.15, -32768, filters=[numcodecs.Delta(dtype="<i2")]),
    "i16_big": packed(">i2", 0.01, 273.15, -32768),
    "scale": (FULL, {}, {"dtype": "i2", "scale_factor": 0.02, "_FillValue": None}),
    "offset": (FULL, {}, {"dtype": "i2", "add_offset": 273.15, "_FillValue": None}),
    "whole_scale": (SMALL.astype("i2"), {"scale_factor": 2.0, "add_offset": 1}, {}),
    "list_of_one": (SMALL.astype("i2"), {"scale_factor": [0.25], "add_offset": [3.5]}, {}),
    "f32_fill": (HEAT.astype("f4"), {}, {"_FillValue": np.float32(9.96921e36)}),
    "f64_fill": (HEAT, {}, {"_FillValue": 1e20}),
    "f32_scale": (-FULL.astype("f4") * 0, {"scale_factor": 0.5}, {"_FillValue": None}),
    "i16_fill": (HEAT, {}, {"dtype": "i2", "_FillValue": -1}),
    "i32_fill": (HEAT, {}, {"dtype": "i4", "_FillValue": -1}),
    "missing": (SMALL.astype("i2"), {"missing_value": 7}, {}),
    "missing_list": (SMALL.astype("u1"), {"missing_value": [7, 8, 99]}, {}),
    "missing_and_fill": (SMALL.astype("i2"), {"missing_value": 7, "_FillValue": 11}, {}),
    "missing_float": (np.floor(FULL), {"missing_value": [280.0, 281.0]}, {}),
    "unsigned": (ANY8.view("i1"), {"_Unsigned": "true", "_FillValue": np.int8(-1),
                                   "scale_factor": 0.5}, {}),
    "signed": (ANY8, {"_Unsigned": "false", "scale_factor": 0.5, "add_offset": 0.25}, {}),
    "unsigned_alone": (ANY8.view("i1"), {"_Unsigned": "true"}, {}),
    "valid_range": (SMALL.astype("i2"), {"valid_range": [10, 90], "scale_factor": 0.1}, {}),
    "valid_min": (SMALL.astype("u1"), {"valid_min": 10, "missing_value": 50}, {}),
    "valid_max": (FULL, {"valid_max": 285.5}, {}),
    "valid_unsigned": (ANY8.view("i1"), {"_Unsigned": "true", "valid_range": [16, -16],
                                         "add_offset": 1.0}, {}),
    "plain": (SMALL.astype("i4"), {"units": "K"}, {}),
    "plain_float": (HEAT.astype("f4"), {}, {}),
    "plain_bool": (SMALL > 50, {}, {"_FillValue": None}),
    "time": (np.arange(14).astype("M8[D]").astype("M8[ns]"), {}, {
        "units": "days since 1970-01-03", "dtype": "i8", "chunks": (5,)}),
    "line": (FULL[0], {}, {
        "dtype": "i2", "scale_factor": 0.1, "_FillValue": -1, "chunks": (7,)}),
}
ONLY = {"i16_shards": 3, "i16_delta": 2, "i16_big": 2}
# The fill value of zarr v3, which is no missing value by itself. xarray writes no chunk of it.
FILLS = {"i8": -128, "i16": -32768, "i16_raw": -32768, "i16_shards": -32768, "missing": 7,
         "missing_list": 7, "valid_min": 7, "plain": 7, "whole_scale": 7}


def write(path, version):
    """The dataset of all cases that the version of zarr has."""
    names = [name for name in CASES if ONLY.get(name, version) == version]
    arrays, encoding = {}, {}
    for name in names:
        data, attributes, more = CASES[name]
        dims = ["time"] if name == "time" else [f"{axis}{name}" for axis in "yx"[:data.ndim]]
        arrays[name] = (dims, data, dict(attributes))
        chunks = {"chunks": CHUNK} if data.ndim == 2 else {}
        fill = {"fill_value": FILLS[name]} if version == 3 and name in FILLS else {}
        encoding[name] = {**chunks, **more, **fill}
    dataset = xr.Dataset(arrays)
    dataset.to_zarr(path, zarr_format=version, encoding=encoding, consolidated=False)
    return names


def masked(stored, attributes, decoded):
    """What CF has valid_range and its halves do, which xarray does not."""
    low, high = attributes.get("valid_range", (None, None))
    low, high = attributes.get("valid_min", low), attributes.get("valid_max", high)
    if attributes.get("_Unsigned") == "true":
        stored = stored.view("u1")
        low, high = (None if end is None else end % 256 for end in (low, high))
    bad = np.zeros(stored.shape, bool)
    bad |= False if low is None else stored < low
    bad |= False if high is None else stored > high
    return np.where(bad, np.nan, decoded) if low is not None or high is not None else decoded


def add(path, version, name, decoded, raw):
    """An entry of the manifest."""
    array = zarr.open_array(f"{path}/{name}", mode="r")
    stored, variable = array[...], raw[name].variable
    pixels = masked(stored, variable.attrs, decoded[name].values)
    fill = np.array([0 if array.metadata.fill_value is None else array.metadata.fill_value])
    alone = xr.Variable(("x",), fill.astype(stored.dtype), dict(variable.attrs))
    meant = xr.conventions.decode_cf_variable(name, alone, decode_times=False).values
    meant = masked(fill.astype(stored.dtype), variable.attrs, meant)
    is_decoded = not np.array_equal(stored, pixels, equal_nan=stored.dtype.kind == "f")
    if name != "unsigned_alone" and (is_decoded or pixels.dtype.kind != stored.dtype.kind):
        pixels, meant = pixels.astype("f8"), meant.astype("f8")
    kind = next(k for k, (_, t) in base.DTYPES.items() if t == pixels.dtype)
    chunks, shards = list(array.chunks), array.shards
    files = shards or chunks
    count = math.prod(-(-n // e) for n, e in zip(array.shape, files))
    names = ("zarr.json", ".zarray", ".zattrs")
    found = [p for p in pathlib.Path(path, name).rglob("*") if p.is_file() and p.name not in names]
    codecs = [] if name == "i16_raw" else ["zstd"]
    base.MANIFEST.append({
        "name": f"v{version}/{name}", "family": "cf", "writer": "xarray", "dtype": kind,
        "shape": list(stored.shape), "chunk": chunks, "shard": shards and list(shards),
        "codecs": codecs, "raw": base.pixels_file(pixels),
        "fill": meant.astype(pixels.dtype).tobytes().hex(), "missing": count - len(found)})


def main():
    target = pathlib.Path(__file__).parent / "cf.tar.zst"
    target = sys.argv[1] if len(sys.argv) > 1 else target
    try:
        for version in [2, 3]:
            path = str(base.ROOT / "stores" / f"v{version}")
            names = write(path, version)
            decoded = xr.open_zarr(path, consolidated=False, decode_times=False)
            raw = xr.open_zarr(path, consolidated=False, mask_and_scale=False, decode_times=False)
            for name in names:
                add(path, version, name, decoded, raw)
        entries = ",\n".join(json.dumps(entry) for entry in base.MANIFEST)
        (base.ROOT / "apart.json").write_text(f"[\n{entries}\n]\n")
        for entry in base.MANIFEST:
            print(entry["name"], entry["dtype"], entry["fill"], entry["missing"])
        base.MANIFEST.clear()
        base.pack(target)
    finally:
        shutil.rmtree(base.ROOT)


if __name__ == "__main__":
    main()
