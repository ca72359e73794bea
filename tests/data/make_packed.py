#!/usr/bin/env python3
"""Writes arrays that xarray packs: attributes say what their elements mean, packed in one file.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install xarray==2026.9.0 zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 \
        numpy==2.4.6 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/venv/bin/python tests/data/make_packed.py              # writes tests/data/packed.tar.zst

With these versions the output is the same bytes on every run. The pack is as make_fixtures.py
describes its own, but the list of stores is apart.json, whose pixels are the elements as zarr-python
reads them: packed. packing.json says of each store which attributes it has, and whether xarray
makes other numbers of its elements because of them.
"""
import json
import pathlib
import shutil
import sys
import warnings

import numpy as np
import xarray as xr
import zarr

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_fixtures as base

warnings.simplefilter("ignore")

WHOLE = np.arange(24, dtype="i4").reshape(4, 6)
MEASURED = (WHOLE * 0.5 + 100).astype("f4")
HOLED = MEASURED.copy()
HOLED[1, 2] = np.nan

# name: (elements before they are packed, attributes, xarray's encoding)
CASES = {
    "plain": (WHOLE, {}, {}),
    "plain_float": (HOLED, {}, {"_FillValue": None}),
    "nan": (HOLED, {}, {}),
    "nan_twice": (HOLED, {"missing_value": np.float32(np.nan)}, {}),
    "packed": (HOLED, {}, {
        "dtype": "int16", "scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -9999}),
    "scaled": (MEASURED, {}, {"dtype": "int16", "scale_factor": 0.5, "_FillValue": None}),
    "offset": (MEASURED, {}, {"dtype": "int16", "add_offset": 100.0, "_FillValue": None}),
    "neutral": (WHOLE.astype("f4"), {}, {
        "dtype": "int16", "scale_factor": 1.0, "add_offset": 0.0, "_FillValue": None}),
    "holes": (HOLED, {}, {"_FillValue": np.float32(9.96921e36)}),
    "whole_holes": (WHOLE, {"missing_value": 7}, {}),
    "two_holes": (WHOLE, {"missing_value": [7, 8]}, {}),
    "unsigned": ((WHOLE + 116).astype("u1").view("i1"), {"_Unsigned": "true"}, {}),
    "years": (MEASURED, {"units": "K", "scale": 2.0, "long_name": "scale_factor"}, {
        "_FillValue": None}),
}
NAMES = ["scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"]


def main():
    target = pathlib.Path(__file__).parent / "packed.tar.zst"
    target = sys.argv[1] if len(sys.argv) > 1 else target
    says = {}
    try:
        for version in [2, 3]:
            path = str(base.ROOT / "stores" / f"v{version}")
            arrays = {name: (("y", "x"), data, dict(more)) for name, (data, more, _) in CASES.items()}
            encoding = {name: {**more, "chunks": (3, 4)} for name, (_, _, more) in CASES.items()}
            xr.Dataset(arrays).to_zarr(
                path, zarr_format=version, encoding=encoding, consolidated=False)
            read = xr.open_zarr(path, consolidated=False)
            for name in CASES:
                array = zarr.open_array(f"{path}/{name}", mode="r")
                stored, meant = array[...], read[name].values
                kind = next(k for k, (z, t) in base.DTYPES.items() if t == stored.dtype)
                fill = 0 if array.metadata.fill_value is None else array.metadata.fill_value
                base.MANIFEST.append({
                    "name": f"v{version}/{name}", "family": "packed", "writer": "xarray",
                    "dtype": kind, "shape": list(stored.shape), "chunk": list(array.chunks),
                    "shard": None, "codecs": ["zstd"], "raw": base.pixels_file(stored),
                    "fill": np.array(fill).astype(stored.dtype).tobytes().hex()})
                known = [known for known in NAMES if known in array.attrs]
                if version == 2 and fill and fill == fill:
                    known.append("_FillValue")  # xarray keeps it as the fill value
                says[f"v{version}/{name}"] = {
                    "attributes": known,
                    "changes": not np.array_equal(stored, meant, equal_nan=stored.dtype.kind == "f")}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(what)}" for name, what in says.items())
        (base.ROOT / "packing.json").write_text(f"{{\n{lines}\n}}\n")
        entries = ",\n".join(json.dumps(entry) for entry in base.MANIFEST)
        (base.ROOT / "apart.json").write_text(f"[\n{entries}\n]\n")
        base.MANIFEST.clear()
        base.pack(target)
        print(lines)
    finally:
        shutil.rmtree(base.ROOT)


if __name__ == "__main__":
    main()
