#!/usr/bin/env python3
"""Writes stores of transposed chunks and of shards in shards, packed in one file.

    python -m venv /tmp/venv
    /tmp/venv/bin/pip install zarr==3.1.6 numcodecs==0.16.6 tensorstore==0.1.86 \
        numpy==2.4.6 ml_dtypes==0.6.0 zstandard==0.25.0
    /tmp/venv/bin/python tests/data/make_forms.py               # writes tests/data/forms.tar.zst

With these versions the output is the same bytes on every run. The pack is as make_fixtures.py
describes its own: a manifest, the expected pixels, the stores. Every store is read back whole with
tensorstore; those that zarr-python reads too (it refuses a transpose in front of a shard wherever
the inner chunks do not divide the shard both ways round) are read with it as well.
"""
import itertools
import json
import pathlib
import shutil
import sys

import numpy as np
import tensorstore as ts
import zarr

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_fixtures as base
from make_fixtures import CRC, DTYPES, blosc, fill_element, fill_json, little, paint, zstd

# rank: (array, innermost chunk, inner shard, file); nothing divides the array.
SHAPES = {
    1: ((211,), (8,), (24,), (72,)),
    2: ((21, 34), (3, 5), (6, 10), (12, 20)),
    3: ((9, 13, 11), (2, 5, 3), (4, 5, 6), (8, 10, 6)),
    4: ((4, 5, 9, 6), (1, 2, 4, 3), (2, 2, 4, 6), (4, 4, 8, 6)),
    5: ((3, 2, 5, 4, 5), (1, 2, 2, 3, 2), (2, 2, 4, 3, 2), (2, 2, 4, 6, 4)),
    6: ((2, 3, 2, 4, 3, 3), (2, 1, 1, 2, 3, 2), (2, 2, 1, 4, 3, 2), (2, 4, 2, 4, 3, 4)),
}


def transpose(order):
    return {"name": "transpose", "configuration": {"order": [int(axis) for axis in order]}}


def shard(chunk, codecs, crc=True, endian="little", location="end"):
    return {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [int(edge) for edge in chunk], "codecs": codecs,
        "index_codecs": [little(endian)] + ([CRC] if crc else []), "index_location": location}}


def tail(dtype, codecs, endian="little"):
    return [little(endian) if DTYPES[dtype][1].itemsize > 1 else {"name": "bytes"}, *codecs]


def form(name, dtype, shape, chunk, file, codecs, writer, family, byte_codecs=(), write=None,
         both_read=True, image=None):
    """Writes one store with a codec list of its own, reads it back, and adds it to the manifest."""
    zarr_name, numpy_type = DTYPES[dtype]
    fill = base.default_fill(dtype)
    image = paint(dtype, shape) if image is None else image
    path = base.ROOT / "stores" / name
    assert not path.exists(), name
    encoding = {"name": "default", "configuration": {"separator": "/"}}
    if writer == "zarr":
        target = zarr.create(
            store=str(path), shape=shape, chunks=list(file), dtype=zarr_name, codecs=codecs,
            zarr_format=3, chunk_key_encoding=encoding, fill_value=fill_element(dtype, fill))
    else:
        target = ts.open({
            "driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"},
            "metadata": {
                "shape": list(shape), "data_type": zarr_name, "codecs": codecs,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(file)}},
                "chunk_key_encoding": encoding, "fill_value": fill_json(numpy_type, fill)},
        }, create=True).result()
    for region in [(slice(None),) * image.ndim] if write is None else write:
        target[region] = image[region]
    base.check(path, image, name)
    if both_read and dtype != "bf16":
        base.check(path, image, name, "zarr")
    is_sharded = any(codec["name"] == "sharding_indexed" for codec in codecs)
    base.MANIFEST.append({
        "name": name, "family": family, "writer": writer, "dtype": dtype, "shape": list(shape),
        "chunk": list(chunk), "shard": list(file) if is_sharded else None,
        "codecs": [codec["name"] for codec in byte_codecs], "raw": base.pixels_file(image),
        "fill": fill_element(dtype, fill).tobytes().hex()})


def shuffled(rng, rank):
    """A permutation that is not the identity, where there is one."""
    while True:
        order = rng.permutation(rank)
        if rank == 1 or any(order != np.arange(rank)):
            return order


def composed(layout, rng, rank, chunk, inner, cell):
    """Codec list of a layout without its end, as a function of the end. A letter t is a transpose,
    s a shard; edges go in the order that the axes have there."""
    shapes = {1: [chunk], 2: [inner, chunk]}[max(layout.count("s"), 1)]
    axes, steps = np.arange(rank), []
    for letter in layout:
        if letter == "t":
            order = shuffled(rng, rank)
            axes = axes[order]
            steps.append(lambda end, order=order: [transpose(order), *end])
        else:
            shape = np.array(shapes[0])[axes]
            shapes = shapes[1:]
            location = ["end", "start"][int(rng.integers(2))]
            steps.append(lambda end, shape=shape, location=location: [
                shard(shape, end, location=location)])

    def apply(end):
        for step in reversed(steps):
            end = step(end)
        return end

    return apply


def transposed():
    """Every rank x element size; layouts, codecs and byte orders go round."""
    layouts = ["t", "st", "ts", "tst", "tt", "sst", "tsts", "tstst"]
    for (rank, shapes), (d, dtype) in itertools.product(
            SHAPES.items(), enumerate(["u8", "u16", "f32", "f64", "c128"])):
        shape, chunk, inner, cell = shapes
        for turn in range(2 if d < 2 else 1):
            number = (rank * 5 + d) * 2 + turn
            layout = layouts[number % len(layouts)]
            rng = np.random.default_rng([rank, d, turn])
            size = DTYPES[dtype][1].itemsize
            codecs = [[], [zstd()], [blosc("shuffle", size)], [], [CRC]][(number // 3) % 5]
            end = tail(dtype, codecs, ["little", "big"][(number // 2) % 2])
            outer_first = layout.startswith("ts")
            writer = "tensorstore" if outer_first or number % 2 else "zarr"
            form(f"transpose_rank{rank}_{dtype}_{layout}_{turn}", dtype, shape, chunk,
                 cell if "s" in layout else chunk,
                 composed(layout, rng, rank, chunk, inner, cell)(end),
                 writer, "transpose", codecs, both_read=not outer_first)


def permutations():
    """All orders of three axes in front of uncompressed chunks, plain and in a shard."""
    shape, chunk, _, cell = SHAPES[3]
    for order in itertools.permutations(range(3)):
        word = "".join(map(str, order))
        end = [transpose(order), *tail("u16", [])]
        form(f"order_{word}_plain", "u16", shape, chunk, chunk, end, "zarr", "order")
        form(f"order_{word}_shard", "u16", shape, chunk, cell, [shard(chunk, end)], "tensorstore",
             "order")
    # Chunks that both readers take either way round, so that zarr-python checks the outer order.
    for order in [(1, 2, 0), (2, 1, 0)]:
        word = "".join(map(str, order))
        chunk = np.array((1, 2, 3))[list(order)]
        codecs = [transpose(order), shard(chunk, tail("f32", [zstd()]))]
        form(f"order_{word}_outer", "f32", (13, 8, 17), (1, 2, 3), (6, 6, 6), codecs,
             "tensorstore", "order", [zstd()])
    # Old writers spelled the two common orders as words, which the libraries of today refuse.
    for word, order in [("F", (2, 1, 0)), ("C", (0, 1, 2))]:
        name = f"order_word_{word}"
        chunk = SHAPES[3][1]
        form(name, "u16", shape, chunk, chunk, [transpose(order), *tail("u16", [zstd()])], "zarr",
             "order", [zstd()])
        document = base.ROOT / "stores" / name / "zarr.json"
        metadata = json.loads(document.read_text())
        assert metadata["codecs"][0]["configuration"]["order"] == list(order)
        metadata["codecs"][0]["configuration"]["order"] = word
        document.write_text(json.dumps(metadata))
    # Rows that are far apart: strips of pages are read alone.
    form("order_strips", "u16", (60, 70, 50), (40, 60, 50), (40, 60, 50),
         [transpose((1, 0, 2)), *tail("u16", [])], "zarr", "order",
         image=np.resize(paint("u16", (997,)), (60, 70, 50)))


def nested():
    """Shards in shards: every place and form of both indexes, every codec, both writers."""
    shape, chunk, inner, cell = SHAPES[2]
    forms = itertools.product(["end", "start"], [True, False], ["little", "big"])
    forms = list(forms)
    for n, (outer_form, inner_form) in enumerate(zip(forms, forms[3:] + forms[:3])):
        dtype = ["u16", "f32", "u8", "i64"][n % 4]
        size = DTYPES[dtype][1].itemsize
        codecs = [[zstd()], [], [blosc("bitshuffle", size)], [CRC]][n % 4]
        (location, crc, endian), (location_1, crc_1, endian_1) = outer_form, inner_form
        codec_list = [shard(inner, [shard(chunk, tail(dtype, codecs), crc_1, endian_1, location_1)],
                            crc, endian, location)]
        form(f"nested_{n}", dtype, shape, chunk, cell, codec_list,
             ["zarr", "tensorstore"][n % 2], "nested", codecs)
    for rank, (shape, chunk, inner, cell) in SHAPES.items():
        codec_list = [shard(inner, [shard(chunk, tail("u16", [zstd()]))])]
        form(f"nested_rank{rank}", "u16", shape, chunk, cell, codec_list,
             ["zarr", "tensorstore"][rank % 2], "nested", [zstd()])
    # The index of a single level, big endian or without a checksum, at either end.
    shape, chunk, _, cell = SHAPES[2]
    for n, (location, crc, endian) in enumerate(forms):
        codec_list = [shard(chunk, tail("u16", [zstd()]), crc, endian, location)]
        form(f"index_{n}", "u16", shape, chunk, cell, codec_list,
             ["tensorstore", "zarr"][n % 2], "nested", [zstd()])


def nested_shapes():
    """Degenerate and large levels, and levels of which parts are missing."""
    def one(name, dtype, shape, chunk, inner, cell, codecs=(), writer="tensorstore", **options):
        codec_list = [shard(inner, [shard(chunk, tail(dtype, list(codecs)))])]
        form(f"nested_{name}", dtype, shape, chunk, cell, codec_list, writer, "nested", codecs,
             **options)

    one("one_chunk_each", "u16", (7, 9), (3, 4), (3, 4), (3, 4))
    one("one_inner_shard", "u16", (7, 9), (2, 2), (4, 6), (4, 6), [zstd()])
    one("one_chunk_per_inner", "f32", (7, 9), (2, 3), (2, 3), (4, 6), [zstd()])
    one("one_element_chunks", "u8", (11, 7), (1, 1), (2, 3), (6, 6))
    one("smaller_than_a_chunk", "u16", (2, 3), (4, 4), (8, 8), (16, 16))
    # 400 entries an inner index, so each has two pages; four inner shards a file.
    one("two_pages", "u8", (45, 38), (1, 1), (20, 20), (40, 40))
    # 400 inner shards, so the outer index has two pages.
    one("two_outer_pages", "u8", (45, 38), (1, 1), (1, 2), (20, 40), writer="zarr")
    blank = np.full((30, 40), base.fill_element("u16", 3), "<u2")
    for writer in ["zarr", "tensorstore"]:
        image, painted, keep = blank.copy(), paint("u16", blank.shape, 9), []
        # Whole files, whole inner shards of 6 x 10 and chunks of 3 x 5 are missing.
        for number, region in enumerate(base.cells(blank.shape, (3, 5), lambda _: True)):
            file = (region[0].start // 12, region[1].start // 20)
            inner = (region[0].start // 6, region[1].start // 10)
            if sum(file) % 3 != 1 and sum(inner) % 3 != 2 and number % 5 != 2:
                image[region] = painted[region]
                keep.append(region)
        one(f"sparse_{writer}", "u16", blank.shape, (3, 5), (6, 10), (12, 20), [zstd()], writer,
            image=image, write=keep)
        files = [p for p in (base.ROOT / "stores" / f"nested_sparse_{writer}" / "c").rglob("*")
                 if p.is_file()]
        assert 0 < len(files) < 6, files


def main():
    try:
        for family in [transposed, permutations, nested, nested_shapes]:
            family()
        base.pack(pathlib.Path(__file__).parent / "forms.tar.zst")
    finally:
        shutil.rmtree(base.ROOT)


if __name__ == "__main__":
    main()
