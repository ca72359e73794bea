#!/usr/bin/env python3
"""Writes values.tar.zst: stores with scale_offset and cast_value, by zarr-python and cast-value-rs,
and with reshape, by zarrs.

    python3.12 -m venv /tmp/new
    /tmp/new/bin/pip install zarr==3.4.2 cast-value-rs==0.5.1 numcodecs==0.17.1 numpy==2.5.5 \
        zarrs==0.2.3 tensorstore==0.1.86 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/new/bin/python tests/data/make_values.py

With these versions the output is the same bytes on every run. All stores stand in apart.json. What
they read as is what zarr-python reads, since most casts lose something; scales are compared with
numpy's own arithmetic, and casts that lose nothing with what was written. A map that encodes puts
values into a store that no value of the array becomes, so that what decodes has work to do.
"""

import itertools
import json
import pathlib
import shutil
import warnings
from dataclasses import dataclass

import make_fixtures as made
import numpy as np
import zarr
import zarr.codecs.numcodecs as zn
import zarrs  # noqa: F401
from make_fixtures import DTYPES, ROOT, pixels_file
from zarr.abc.codec import ArrayArrayCodec
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    CastValue,
    Crc32cCodec,
    ScaleOffset,
    TransposeCodec,
    ZstdCodec,
)
from zarr.registry import register_codec

HERE = pathlib.Path(__file__).parent
APART = []
SHAPE, CHUNK, SHARD = (21, 25), (5, 7), (10, 14)
INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
FLOATS = ["f16", "f32", "f64"]
ROUNDINGS = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]


def store(
    name,
    dtype,
    image,
    filters,
    *,
    fill=0,
    exact=False,
    shards=False,
    compressors=(),
    chunk=None,
    endian="little",
):
    """One store; its last columns are missing, so that they are its fill value."""
    numpy_type = DTYPES[dtype][1]
    image = image.astype(numpy_type)
    chunk = chunk or CHUNK
    shard = SHARD if shards else None
    path = ROOT / "stores" / name
    assert not path.exists(), name
    value = np.array(fill, numpy_type)[()]
    array = zarr.create_array(
        path,
        shape=image.shape,
        chunks=chunk,
        shards=shard,
        dtype=numpy_type,
        filters=filters,
        compressors=list(compressors) or None,
        fill_value=value,
        serializer=BytesCodec(endian=endian),
    )
    if image.ndim == 2:
        edge = (shard or chunk)[1]
        image[:, image.shape[1] // edge * edge :] = value
        array[:, : image.shape[1] // edge * edge] = image[:, : image.shape[1] // edge * edge]
    else:
        array[...] = image
    seen = np.ascontiguousarray(zarr.open_array(path, mode="r")[...])
    if exact:
        assert seen.tobytes() == image.tobytes(), name
    names = [codec.to_dict()["name"] for codec in array.compressors]
    APART.append(
        {
            "name": name,
            "family": "values",
            "writer": "zarr",
            "dtype": dtype,
            "shape": list(image.shape),
            "chunk": list(chunk),
            "shard": list(shard) if shard else None,
            "codecs": names,
            "raw": pixels_file(seen),
            "fill": value.tobytes().hex(),
        }
    )
    return array, seen


def slope(dtype, step=1):
    """Small numbers that every type has, some of them twice."""
    grid = np.indices(SHAPE)
    return (step * ((3 * grid[0] + 5 * grid[1]) % 23)).astype(DTYPES[dtype][1])


def scales():
    zstd = [ZstdCodec(level=3)]
    for dtype in FLOATS:
        kind = DTYPES[dtype][1].type
        for at, (scale, offset) in enumerate([(0.1, 5), (-3.7, "0.25"), (1000, -1e-3), (1, 2.5)]):
            image = slope(dtype) / 8
            _, seen = store(
                f"scale_{dtype}_{at}",
                dtype,
                image,
                [ScaleOffset(offset=offset, scale=scale)],
                fill=-7.3,
                compressors=zstd if at % 2 else (),
            )
            a, b = kind(scale), kind(offset)
            encoded = (image.astype(kind) - b) * a
            want = encoded / a + b
            assert (seen[:, :21] == want[:, :21]).all() and want.dtype == kind
    limits = {dtype: np.iinfo(DTYPES[dtype][1]) for dtype in INTEGERS}
    for number, dtype in enumerate(INTEGERS):
        high, low = int(limits[dtype].max), int(limits[dtype].min)
        store(
            f"scale_{dtype}_down",
            dtype,
            slope(dtype),
            [ScaleOffset(offset=0, scale=3)],
            exact=True,
            fill=5,
            compressors=zstd,
            shards=number % 2 == 0,
        )
        # Only differences are small.
        image = (high - slope(dtype).astype(object)).astype(DTYPES[dtype][1])
        store(
            f"scale_{dtype}_high",
            dtype,
            image,
            [ScaleOffset(offset=high - 30, scale=2)],
            exact=True,
            fill=high - 30 + 3,
        )
        if low < 0:
            image = (low + slope(dtype).astype(object)).astype(DTYPES[dtype][1])
            store(
                f"scale_{dtype}_low",
                dtype,
                image,
                [ScaleOffset(offset=low, scale=-1)],
                exact=True,
                fill=low,
            )
    store("scale_alone", "i16", slope("i16"), [ScaleOffset()], exact=True)
    store(
        "scale_big",
        "f32",
        slope("f32") / 8,
        [ScaleOffset(offset=5, scale=0.1)],
        fill=1.5,
        endian="big",
    )
    store(
        "scale_big_i64",
        "i64",
        slope("i64"),
        [ScaleOffset(offset=-5, scale=7)],
        fill=1,
        exact=True,
        endian="big",
        compressors=zstd,
    )
    store("scale_hex", "f32", slope("f32"), [ScaleOffset(offset="0x3f800000", scale=2)], exact=True)
    store(
        "scale_twice",
        "f64",
        slope("f64"),
        [ScaleOffset(offset=1, scale=2), ScaleOffset(scale=0.5)],
        exact=True,
        fill=3,
    )


def pairs_of_types():
    """Every type as every other one, by numbers that both have."""
    for dtype, other in itertools.product(INTEGERS + FLOATS, repeat=2):
        image = np.array([0, 1, 2, 3, 64, 100, 127, 5, 17] * 3)
        if dtype[0] != "u" and other[0] != "u":
            image[::4] *= -1
        store(
            f"as_{dtype}_of_{other}",
            dtype,
            image,
            [CastValue(data_type=DTYPES[other][0])],
            exact=True,
            chunk=(12,),
        )


def planted(name, dtype, other, values, *, rounding="nearest-even", beyond=None, decode=()):
    """A store of these values as `other`, put there for the numbers from 1 on."""
    image = np.arange(1, 1 + len(values))
    maps = {"encode": [[i + 1, value] for i, value in enumerate(values)]}
    if decode:
        maps["decode"] = list(decode)
    cast = CastValue(
        data_type=DTYPES[other][0], rounding=rounding, out_of_range=beyond, scalar_map=maps
    )
    store(name, dtype, image, [cast], fill=0, chunk=(16,))


def decoded_by_rules():
    halves = [0.5, 1.5, 2.5, 3.5, 0.25, 0.75, 1.0, 125.5, 126.49, 0.0]
    for rounding, dtype in itertools.product(ROUNDINGS, INTEGERS):
        other = FLOATS[(len(APART) + len(dtype)) % 3]
        values = halves + ([] if dtype[0] == "u" else [-value for value in halves])
        planted(f"round_{dtype}_{rounding}", dtype, other, values, rounding=rounding)
        wide = [-40000, 65000.5, -0.75, 255.5] + (
            [3e9, -3e38, 9.3e18, 1.9e19] if other != "f16" else []
        )
        planted(
            f"clamp_{dtype}_{rounding}",
            dtype,
            other,
            values + wide,
            rounding=rounding,
            beyond="clamp",
        )
    for dtype, other in itertools.permutations(INTEGERS, 2):
        info = np.iinfo(DTYPES[other][1])
        values = [
            int(info.max),
            int(info.min),
            int(info.max) // 3,
            int(info.min) // 5,
            1,
            0,
            200 % info.max,
        ]
        for beyond in ["clamp", "wrap"]:
            planted(f"{beyond}_{dtype}_of_{other}", dtype, other, values, beyond=beyond)
    whole = [
        2**24 + 1,
        2**24 + 3,
        2**53 + 1,
        2**53 + 3,
        2**62 + 2**38 + 1,
        2**63 - 1,
        2049,
        2051,
        4097,
        7,
    ]
    for rounding, dtype in itertools.product(ROUNDINGS, FLOATS):
        for other in ["i64", "u64"]:
            values = whole + [-value for value in whole if other == "i64"]
            planted(
                f"whole_{dtype}_of_{other}_{rounding}",
                dtype,
                other,
                values,
                rounding=rounding,
                beyond="clamp",
            )
    fine = [
        0.1,
        1 / 3,
        65504,
        65519.5,
        65520,
        65536,
        1e-8,
        3e-8,
        5.960464477539063e-08,
        6.1e-5,
        3.5e38,
        1e39,
        1e-46,
        1e-45,
        1.00048828125,
        1.0014648438,
        "NaN",
        "Infinity",
        0.0,
        1e300,
    ]
    for rounding, (dtype, other) in itertools.product(
        ROUNDINGS, [("f32", "f64"), ("f16", "f64"), ("f16", "f32")]
    ):
        values = [value for value in fine if other == "f64" or not 3.4e38 < float(value) < np.inf]
        values += [-value for value in values if not isinstance(value, str)]
        planted(
            f"fine_{dtype}_of_{other}_{rounding}",
            dtype,
            other,
            values,
            rounding=rounding,
            beyond="clamp",
        )


def maps():
    planted(
        "map_nan",
        "f32",
        "u8",
        [7, 255, 254, 0],
        decode=[[255, "NaN"], [254, "-Infinity"], [7, -0.0]],
    )
    planted(
        "map_to_whole",
        "i16",
        "f64",
        ["NaN", "Infinity", "-Infinity", -0.0, 3.0],
        decode=[["NaN", -32768], ["Infinity", 32767], ["-Infinity", -32767], [0.0, 12]],
    )
    planted(
        "map_exact",
        "u64",
        "i64",
        [2**53 + 1, 2**53, -1],
        decode=[[2**53 + 1, 2**64 - 1], [-1, 2**63 + 1]],
    )
    image = np.where(slope("f32") % 5 == 0, np.nan, slope("f32") / 8 + 270)
    packed = [
        ScaleOffset(offset=270, scale=8),
        CastValue(
            data_type="uint8",
            out_of_range="clamp",
            scalar_map={"encode": [("NaN", 255)], "decode": [(255, "NaN")]},
        ),
    ]
    zstd = [ZstdCodec(level=3)]
    store("packed_files", "f32", image, packed, fill=np.nan, compressors=zstd, exact=True)
    store(
        "packed_shards",
        "f32",
        image,
        packed,
        fill=np.nan,
        compressors=zstd,
        exact=True,
        shards=True,
    )
    store("packed_plain", "f32", image, packed, fill=273.1, exact=True)
    wide = [
        ScaleOffset(offset=270, scale=8),
        CastValue(data_type="int16", scalar_map=packed[1].scalar_map),
    ]
    blosc = [BloscCodec(cname="lz4", shuffle="bitshuffle", typesize=2)]
    store("packed_blosc", "f64", image, wide, fill=300, compressors=blosc, exact=True, shards=True)
    store("packed_big", "f32", image, wide, fill=np.nan, exact=True, endian="big")
    store(
        "packed_turned",
        "f32",
        image,
        [TransposeCodec(order=(1, 0)), *wide],
        fill=np.nan,
        exact=True,
        compressors=[ZstdCodec(level=3), Crc32cCodec()],
    )
    store(
        "packed_turned_between",
        "f32",
        image,
        [wide[0], TransposeCodec(order=(1, 0)), wide[1]],
        fill=np.nan,
        exact=True,
        shards=True,
    )
    store(
        "packed_shuffled",
        "f32",
        image,
        wide,
        fill=np.nan,
        exact=True,
        compressors=[zn.Shuffle(elementsize=2), *zstd],
    )
    store(
        "packed_delta",
        "f64",
        slope("f64"),
        [CastValue(data_type="int32"), zn.Delta(dtype="<i4", astype="<i2")],
        exact=True,
        compressors=zstd,
    )
    store(
        "packed_wide",
        "u8",
        slope("u8"),
        [CastValue(data_type="float64")],
        fill=9,
        exact=True,
        endian="big",
        compressors=zstd,
    )


@dataclass(frozen=True)
class Reshape(ArrayArrayCodec):
    """The metadata alone, which zarr-python does not know: zarrs does the work."""

    shape: tuple
    is_fixed_size = True

    @classmethod
    def from_dict(cls, data):
        return cls(tuple(data["configuration"]["shape"]))

    def to_dict(self):
        return {"name": "reshape", "configuration": {"shape": list(self.shape)}}

    def compute_encoded_size(self, size, _):
        return size

    def resolve_metadata(self, spec):
        return spec

    async def _encode_single(self, *_):
        raise AssertionError("zarrs encodes")

    _decode_single = _encode_single


def reshapes():
    """Whole chunks alone, since zarrs reads no part of one."""
    register_codec("reshape", Reshape)
    pipeline = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}
    image = np.arange(18 * 24, dtype="<u2").reshape(18, 24) * 151
    zstd, turn = [ZstdCodec(level=3)], TransposeCodec(order=(1, 0))
    for name, filters, compressors in [
        ("axes", [Reshape(([0], 2, -1))], zstd),
        ("flat", [Reshape(([0, 1],))], []),
        ("turned", [turn, Reshape(([0], 3, 2))], zstd),
    ]:
        path = ROOT / "stores" / f"reshape_{name}"
        with zarr.config.set(pipeline):
            array = zarr.create_array(
                path,
                shape=(18, 24),
                chunks=(6, 8),
                dtype="<u2",
                filters=filters,
                compressors=compressors or None,
            )
            array[...] = image
            assert (zarr.open_array(path, mode="r")[...] == image).all()
        APART.append(
            {
                "name": path.name,
                "family": "values",
                "writer": "zarrs",
                "dtype": "u16",
                "shape": [18, 24],
                "chunk": [6, 8],
                "shard": None,
                "codecs": ["zstd"] if compressors else [],
                "raw": pixels_file(image),
                "fill": "0000",
            }
        )


def main():
    warnings.simplefilter("ignore")
    try:
        scales()
        pairs_of_types()
        decoded_by_rules()
        maps()
        reshapes()
        lines = ",\n".join(map(json.dumps, APART))
        (ROOT / "apart.json").write_text(f"[\n{lines}\n]\n")
        made.pack(HERE / "values.tar.zst")
    finally:
        shutil.rmtree(ROOT)
    print(len(APART), "stores")


if __name__ == "__main__":
    main()
