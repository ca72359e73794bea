"""Writes metadata/*.json and metadata/manifest.json: zarr.json files by zarr-python and tensorstore.

The documents are kept as those libraries wrote them; the manifest says what the same libraries
read back: element size, shapes, the fill element's bytes and the key of the last file. Made with
zarr 3.1.6, tensorstore 0.1.86, numpy 2.4.6 and ml_dtypes 0.6.0:

    python tests/data/make_metadata.py
"""

import json
import pathlib
import shutil
import tempfile
import warnings

import ml_dtypes
import numpy as np
import tensorstore as ts
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)

OUT = pathlib.Path(__file__).parent / "metadata"
manifest = {}
# An element that is written is a file, even where it equals the fill value.
KEEP = {"write_empty_chunks": True}


def record(name, document, dtype_bytes, shape, file_shape, chunk_shape, fill, last_key):
    (OUT / f"{name}.json").write_bytes(document)
    manifest[name] = {
        "dtype_bytes": dtype_bytes,
        "shape": list(shape),
        "file_shape": list(file_shape),
        "chunk_shape": list(chunk_shape),
        "fill": fill.hex(),
        "last_key": last_key,
    }


def last_file(shape, file_shape):
    return tuple(-(-extent // edge) - 1 for extent, edge in zip(shape, file_shape))


def sharding(*shapes):
    """Shards in shards, outermost first."""
    codec = BytesCodec()
    for shape in reversed(shapes):
        codec = ShardingCodec(chunk_shape=shape, codecs=[codec])
    return codec


def from_zarr(name, shape=(10, 20), chunks=(4, 10), shards=None, innermost=None, **options):
    with tempfile.TemporaryDirectory() as store:
        array = zarr.create_array(store, shape=shape, chunks=chunks, shards=shards, config=KEEP, **options)
        file_shape = array.shards or array.chunks
        chunk_shape = innermost or array.chunks
        last = last_file(shape, file_shape)
        # The key is the file that a write of the last element makes.
        array[tuple(extent - 1 for extent in shape)] = np.frombuffer(
            bytes([1] * array.dtype.itemsize), array.dtype
        )[0]
        keys = [p for p in pathlib.Path(store).rglob("*") if p.is_file() and p.name != "zarr.json"]
        assert len(keys) == 1, keys
        key = keys[0].relative_to(store).as_posix()
        assert key == array.metadata.encode_chunk_key(last)
        fill = np.asarray(array.fill_value, array.dtype.newbyteorder("<")).tobytes()
        document = (pathlib.Path(store) / "zarr.json").read_bytes()
    record(
        f"zarr_{name}", document, array.dtype.itemsize, shape, file_shape, chunk_shape, fill, key
    )


def from_tensorstore(name, **metadata):
    metadata = {"shape": [10, 20], "data_type": "float32", **metadata}
    with tempfile.TemporaryDirectory() as store:
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": store + "/"},
            "metadata": metadata,
            "create": True,
            "store_data_equal_to_fill_value": True,
        }
        array = ts.open(spec).result()
        shape = array.shape
        layout = array.chunk_layout
        element = array[tuple(extent - 1 for extent in shape)]
        fill = element.read().result()
        value = np.frombuffer(bytes([1] * fill.itemsize), fill.dtype)[0]
        element.write(value).result()
        keys = [p for p in pathlib.Path(store).rglob("*") if p.is_file() and p.name != "zarr.json"]
        assert len(keys) == 1, keys
        key = keys[0].relative_to(store).as_posix()
        document = (pathlib.Path(store) / "zarr.json").read_bytes()
    record(
        f"tensorstore_{name}",
        document,
        fill.dtype.itemsize,
        shape,
        layout.write_chunk.shape,
        layout.read_chunk.shape,
        fill.tobytes(),
        key,
    )


def groups_and_refused():
    """Documents without a record: a group, and codecs and types that are refused by name."""
    with tempfile.TemporaryDirectory() as store:
        root = zarr.create_group(store)
        root.create_array("a", shape=(4,), chunks=(2,), dtype="uint8")
        zarr.consolidate_metadata(store)
        (OUT / "refused_group.json").write_bytes((pathlib.Path(store) / "zarr.json").read_bytes())
    refused = {
        "numcodecs": {"compressors": [zarr.codecs.numcodecs.JenkinsLookup3()]},
        "snappy": {"compressors": [BloscCodec(cname="snappy")]},
        "string": {"dtype": "str"},
        "text": {"dtype": "U5"},
        "nested": {
            "serializer": sharding((8, 20), (4, 10), (2, 5)),
            "chunks": (8, 20),
            "compressors": None,
        },
    }
    for name, options in refused.items():
        options = {"shape": (16, 20), "chunks": (4, 10), "dtype": "uint16", **options}
        with tempfile.TemporaryDirectory() as store:
            zarr.create_array(store, **options)
            document = (pathlib.Path(store) / "zarr.json").read_bytes()
            (OUT / f"refused_{name}.json").write_bytes(document)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    fills = {
        "bool": True,
        "int8": -128,
        "int16": -1,
        "int32": -(2**31),
        "int64": -(2**63),
        "uint8": 255,
        "uint16": 42,
        "uint32": 2**32 - 1,
        "uint64": 2**64 - 1,
        "float16": 0.1,
        "float32": np.nan,
        "float64": -np.inf,
        "complex64": complex(1, np.nan),
        "complex128": complex(-np.inf, 0.1),
        "V3": b"\x01\x00\xff",
    }
    for dtype, fill in fills.items():
        from_zarr(dtype, dtype=dtype, fill_value=fill)
    u16 = {"dtype": "uint16", "fill_value": 42}
    bytes_big = BytesCodec(endian="big")
    from_zarr("sharded", shards=(8, 20), **u16)
    from_zarr("sharded_blosc", shards=(8, 20), compressors=BloscCodec(cname="zstd"), **u16)
    from_zarr(
        "sharded_start",
        chunks=(8, 20),
        serializer=ShardingCodec(
            chunk_shape=(4, 10),
            codecs=[bytes_big, ZstdCodec(level=3, checksum=True), Crc32cCodec()],
            index_codecs=[BytesCodec()],
            index_location="start",
        ),
        compressors=None,
        **u16,
    )
    from_zarr("transpose", filters=[TransposeCodec(order=(1, 0))], **u16)
    from_zarr(
        "nested",
        chunks=(8, 20),
        innermost=(2, 5),
        serializer=sharding((4, 10), (2, 5)),
        compressors=None,
        **u16,
    )
    from_zarr("raw", compressors=None, **u16)
    from_zarr("crc", compressors=[Crc32cCodec(), ZstdCodec()], **u16)
    from_zarr("names", dimension_names=["y", None], attributes={"é": [1, {}]}, **u16)
    for encoding in ("default", "v2"):
        for separator, word in (("/", "slash"), (".", "dot")):
            key = {"name": encoding, "separator": separator}
            from_zarr(f"key_{encoding}_{word}", chunk_key_encoding=key, **u16)
    from_zarr("scalar", shape=(), chunks=(), **u16)
    from_zarr("rank_16", shape=(2,) * 16, chunks=(1,) * 8 + (2,) * 8, **u16)

    def grid(*shape):
        return {"name": "regular", "configuration": {"chunk_shape": shape}}

    def sharded(**options):
        options = {"chunk_shape": [4, 10], **options}
        return [{"name": "sharding_indexed", "configuration": options}]

    from_tensorstore("plain")
    from_tensorstore("nan_payload", fill_value="0xffc00001")
    from_tensorstore("overflow", fill_value=1e39)
    from_tensorstore("bfloat16", data_type="bfloat16", fill_value="0x7fc1")
    from_tensorstore("bfloat16_number", data_type="bfloat16", fill_value=0.1)
    from_tensorstore("float16", data_type="float16", fill_value="-Infinity")
    from_tensorstore("complex64", data_type="complex64", fill_value=[1, "-Infinity"])
    from_tensorstore("bool", data_type="bool", fill_value=True)
    from_tensorstore("uint64", data_type="uint64", fill_value=2**64 - 1)
    from_tensorstore("key_v2", chunk_key_encoding={"name": "v2"}, chunk_grid=grid(4, 10))
    from_tensorstore("crc", codecs=["bytes", "zstd", "crc32c"], chunk_grid=grid(4, 10))
    blosc = {"name": "blosc", "configuration": {"cname": "zstd", "shuffle": "noshuffle"}}
    from_tensorstore("sharded", codecs=sharded(codecs=["bytes", blosc]), chunk_grid=grid(8, 20))
    from_tensorstore(
        "sharded_start", codecs=sharded(index_location="start"), chunk_grid=grid(8, 20)
    )
    from_tensorstore("extra", extra={"must_understand": False})

    groups_and_refused()
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    # zarr-python warns of every type whose specification is not final.
    warnings.simplefilter("ignore")
    assert ml_dtypes.bfloat16
    main()
