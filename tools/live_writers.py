#!/usr/bin/env python3
"""Rewrites small stores over and over while wavetrain streams boxes of them; judges each sample.

    WAVETRAIN_LIBRARY=libwavetrain.so.0 PYTHONPATH=python tools/live_writers.py --seconds 60
    tools/live_writers.py --seconds 5 --cases 'shard*:rename:*,npy:*:warm:*' [--json ROWS.jsonl]

A case is STORE:WRITER:READER:CACHE. Cases of one store and writer run at the same time: one process
writes, and another process streams all of them.

    STORE   shard_zstd, shard_raw (zarr v3, sharded), v3 (zstd), v2 (blosc), npy, parts (a folder of
            numbered .npy files), raw (raw:PATH?..), ome (two levels of an OME-NGFF group)
    WRITER  rename      a new file takes the place of the old one
            inplace     pwrite of the same size, unit by unit: an inner chunk, or four rows
            truncate    open with O_TRUNC, then two writes
            delete      unlink, a pause, then a new file
            append      the shard or .npy file grows; unsharded arrays and folders get more files
            resize      zarr.json gets another shape; a .npy file another header, width and order
            zarr        zarr-python;  tensorstore;  npsave (numpy.save, which truncates)
    READER  warm; cold (half of what is written leaves the page cache); mapped (map_uncompressed,
            uncompressed stores and writers that do not truncate); hook (a files hook in Python),
            fsspec (through wavetrain.fsspec, of the local file system)
    CACHE   plain (chunk_cache_bytes = 0), cached

Each case streams --rounds rounds: on_error skip and fail in turn, batches of 4, 6, 16 and 1. In the
second and the third there is room for one descriptor and one page of an index alone, and for two
thirds of the chunks in the cache. In each the writer stops at the end, and two more checks follow,
without a reset and after one.

An element of version v is the hash of its place, xor v << 16: each element shows its version, and
whether it is at its place. The writer notes in shared memory, before and after each write, which
version a unit has. The promise that is checked (the unit is a file within a batch):

    mixed    a sample with two versions of one file, or with bytes that no version had there
    batch    a sample that is whole, but of another version of a file than its batch
    fill     a fill value, while the file was there all the time from push to pop
    late     an older version than the file had when the batch was pushed: the first touch of a file
             in each batch looks at its path
    stale    after the writer stopped: not the last version, in the next batch, or after a reset
    refused  after the writer stopped: an error; it is allowed before a reset, and not after it
    broken   a crash, a hang, an internal error, a writer that failed

Each of these but `refused` before a reset ends the script with 1. Errors while the writer works are
counted by status, and are allowed. Two more columns are allowed:

    torn     inplace alone: one unit with two versions. The kernel sets mtime before it copies
             bytes, so no reader can see that; one unit of a file is in that state at a time
    missed   hook and fsspec alone: the version of a hook's object is its size. All but fill is
             allowed while the writer works; after that, files whose last size is a new one count

The version of a file is its device, inode, size and mtime, and mtime comes from a clock of 4 ms. So
the writer waits at least --tick milliseconds between two writes to one file. --fresh checks this
script: each batch has a pipeline of its own, and nothing may be wrong. Needs numpy, numcodecs,
google-crc32c, and the packages of the chosen writers and readers. The stores lie in $TMPDIR.

This file is over 500 lines because writer, reader and judge share what a store is.
"""

import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import functools
import itertools
import json
import logging
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np

STORES = ("shard_zstd", "shard_raw", "v3", "v2", "npy", "parts", "raw", "ome")
CHUNKED = ("shard_zstd", "shard_raw", "v3", "v2", "ome")
UNCOMPRESSED = ("shard_raw", "npy", "parts", "raw")
WRITERS = ("rename", "inplace", "truncate", "delete", "append", "resize", "zarr", "tensorstore")
WRITERS += ("npsave",)
READERS = ("warm", "cold", "mapped", "hook", "fsspec")
HOOKS = ("hook", "fsspec")
CACHES = ("plain", "cached")
# on_error, samples per batch, and whether caches have room for a part of the store alone.
ROUNDS = (("skip", 4, False), ("fail", 6, True), ("skip", 16, True), ("fail", 1, False))
BOX = (5, 13, 17)
PLANE = (32, 48)
FILL = 0xFFFFFFFF
IS_FILL = 1 << 16  # in the place of a version
RAW_OFFSET = 64
SHARD_BYTES_MAX = 1 << 18  # of one that grows
FLIGHTS = 4  # batches that are asked for before the first is popped
FINAL_BATCHES = 6
NEVER = ("STARVED", "INTERNAL", "SHUTDOWN", "END", "OUT_OF_MEMORY", "BUDGET", "CUDA")
FAULTS = ("mixed", "batch", "fill", "late", "stale", "stale_reset", "refused_reset", "broken")
WORST_FIRST = ("mixed", "fill", "batch", "late", "torn")
COLUMNS = ("versions", "batches", "samples", "one", "errors", "mixed", "batch", "fill", "late")
COLUMNS += ("torn", "missed", "stale", "refused", "stale_reset", "refused_reset", "broken")


@dataclasses.dataclass
class Array:
    """An array that a uri names. Each version has `rows`; the files have room for `rows_max`."""

    uri: str
    folder: Path
    rows: int
    rows_max: int
    plane: tuple[int, int]
    chunk: tuple[int, int, int]
    reach: int = 0  # rows that boxes are asked of
    hash: np.ndarray = None
    unit: np.ndarray = None


@dataclasses.dataclass
class File:
    path: Path
    array: Array
    region: tuple[slice, ...]
    number: int
    first_unit: int
    units: list[tuple[slice, ...]]  # in the order in which they are written

    @property
    def span(self):
        return slice(self.first_unit, self.first_unit + len(self.units))


def split(region, chunk):
    """The parts of a region, in C order."""
    starts = [range(axis.start, axis.stop, edge) for axis, edge in zip(region, chunk)]
    return [
        tuple(slice(at, min(at + edge, axis.stop)) for at, edge, axis in zip(corner, chunk, region))
        for corner in itertools.product(*starts)
    ]


class Store:
    """Arrays, their files, and what those hold in a version."""

    def __init__(self, kind, writer, root, seed):
        self.kind, self.writer, self.root, self.seed = kind, writer, Path(root), seed
        self.is_sharded = kind.startswith("shard")
        self.arrays, self.files, self.units = [], [], 0
        (self.root / "tmp").mkdir(parents=True, exist_ok=True)
        getattr(self, f"plan_{kind.partition('_')[0]}")()
        for number, array in enumerate(self.arrays):
            self.paint_array(number, array)
        self.unit_file = np.empty(self.units, np.int64)
        self.unit_place = np.empty(self.units, np.int64)
        for file in self.files:
            self.unit_file[file.span] = file.number
            self.unit_place[file.span] = np.arange(len(file.units))
            for number, region in enumerate(file.units):
                file.array.unit[region] = file.first_unit + number

    def paint_array(self, number, array):
        shape = (array.rows_max, *array.plane)
        dice = np.random.default_rng([self.seed, number])
        # Bytes that do not compress have one size in every version, which `inplace` needs.
        high = 1 << 32 if self.writer == "inplace" else 1 << 16
        array.hash = dice.integers(0, high, shape, np.uint32)
        array.unit = np.zeros(shape, np.int64)
        grows = self.writer in ("append", "resize") and self.kind != "raw"
        grows &= not (self.is_sharded and self.writer == "append")
        grows &= not (self.kind == "npy" and self.writer == "resize")
        array.reach = array.rows_max if grows else array.rows

    def add_file(self, path, array, region, units):
        self.files.append(File(path, array, region, len(self.files), self.units, units))
        self.units += len(units)

    def add_chunked(self, name, array, part):
        """The files of a zarr array: one for each chunk or shard."""
        self.arrays.append(array)
        array.folder.mkdir(parents=True, exist_ok=True)
        whole = tuple(slice(0, extent) for extent in (array.rows_max, *array.plane))
        for region in split(whole, array.chunk):
            key = name([axis.start // edge for axis, edge in zip(region, array.chunk)])
            (array.folder / key).parent.mkdir(parents=True, exist_ok=True)
            self.add_file(array.folder / key, array, region, split(region, part))

    def plan_shard(self):
        folder = self.root / "a.zarr"
        array = Array(str(folder), folder, 16, 24, PLANE, (8, *PLANE))
        self.add_chunked(lambda at: "c/" + "/".join(map(str, at)), array, (4, 16, 24))

    def plan_v3(self):
        folder = self.root / "a.zarr"
        array = Array(str(folder), folder, 16, 24, PLANE, (8, 16, 48))
        self.add_chunked(lambda at: "c/" + "/".join(map(str, at)), array, (8, 16, 48))

    def plan_v2(self):
        folder = self.root / "a.zarr"
        array = Array(str(folder), folder, 16, 24, PLANE, (8, 16, 48))
        self.add_chunked(lambda at: ".".join(map(str, at)), array, (8, 16, 48))

    def plan_ome(self):
        group = self.root / "image.zarr"
        for level, (rows, plane) in enumerate([(16, PLANE), (8, (16, 24))]):
            folder, chunk = group / str(level), (rows // 2, 16, plane[1])
            uri = f"{group}#level={level}"
            array = Array(uri, folder, rows, rows * 3 // 2, plane, chunk)
            self.add_chunked(lambda at: "c/" + "/".join(map(str, at)), array, chunk)
        axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
        scales = [[{"type": "scale", "scale": [float(1 + level)] * 3}] for level in range(2)]
        levels = [
            {"path": str(level), "coordinateTransformations": scale}
            for level, scale in enumerate(scales)
        ]
        image = {"version": "0.5", "multiscales": [{"name": "a", "axes": axes, "datasets": levels}]}
        node = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": image}}
        (group / "zarr.json").write_text(json.dumps(node))

    def plan_flat(self, uri):
        for number in range(2):
            path = self.root / f"{number}.{self.kind}"
            array = Array(uri(path), path, 16, 24, PLANE, (4, *PLANE))
            self.arrays.append(array)
            region = tuple(slice(0, extent) for extent in (24, *PLANE))
            self.add_file(path, array, region, split(region, array.chunk))

    def plan_npy(self):
        self.plan_flat(str)

    def plan_raw(self):
        self.plan_flat(lambda path: f"raw:{path}?dtype=u32&shape=16,32,48&offset={RAW_OFFSET}")

    def plan_parts(self):
        folder = self.root / "parts"
        folder.mkdir(exist_ok=True)
        array = Array(str(folder), folder, 16, 24, PLANE, (4, *PLANE))
        self.arrays.append(array)
        ends = [0, 4, 8, 12, 24] if self.writer == "resize" else [0, 4, 8, 12, 16, 20, 24]
        for number, (begin, end) in enumerate(itertools.pairwise(ends)):
            region = (slice(begin, end), slice(0, PLANE[0]), slice(0, PLANE[1]))
            path = folder / f"rows_{number:04}.npy"
            self.add_file(path, array, region, split(region, array.chunk))

    def base(self):
        """The files that every version has."""
        return [file for file in self.files if file.region[0].start < file.array.rows]

    def painted(self, array, region, version):
        return array.hash[region] ^ np.uint32(version << 16)

    def encoded(self, array, region, version):
        data = self.painted(array, region, version).tobytes()
        if self.kind in ("shard_zstd", "v3", "ome"):
            from numcodecs import zstd

            return zstd.compress(data, 1 + version % 3)
        if self.kind == "v2":
            from numcodecs import Blosc

            return Blosc("lz4", 5, Blosc.SHUFFLE).encode(data)
        return data

    def content(self, file, version, rows=None):
        """A file's bytes, and (offset, bytes) of each of its units."""
        if self.is_sharded:
            return self.shard(file, version)
        if self.kind in CHUNKED:
            data = self.encoded(file.array, file.region, version)
            return data, [(0, len(data))]
        return self.flat(file, version, rows)

    def shard(self, file, version):
        chunks = [self.encoded(file.array, unit, version) for unit in file.units]
        dice, order, spans = random.Random(version), list(range(len(chunks))), [None] * len(chunks)
        is_loose = self.writer not in ("inplace", "append")
        if is_loose:  # other offsets and another size in each version
            dice.shuffle(order)
        data = bytearray()
        for number in order:
            data += bytes(4 * dice.randrange(64) if is_loose else 0)
            spans[number] = (len(data), len(chunks[number]))
            data += chunks[number]
        if is_loose:
            data += bytes(sum(map(len, chunks)) + 256 * len(chunks) + 8 * version - len(data))
        return bytes(data) + shard_index(spans), spans

    def flat(self, file, version, rows):
        """.npy and raw files: a header, then rows."""
        begin, end = file.region[0].start, file.region[0].stop
        rows = rows or (min(end, file.array.rows) if begin < file.array.rows else end)
        region = (slice(begin, rows), *file.region[1:])
        values, is_fortran = self.painted(file.array, region, version), False
        if self.kind == "npy" and self.writer == "resize":
            if version % 4 > 1:
                values = np.concatenate([values, values[:, :, :8] ^ np.uint32(7)], axis=2)
            is_fortran = bool(version % 2)
        head, is_fixed = bytes(RAW_OFFSET), self.writer in ("inplace", "append")
        if self.kind != "raw":
            head = npy_head(values.shape, is_fortran, 2 if is_fixed else 2 + version % 8)
        data = head + values.tobytes(order="F" if is_fortran else "C")
        if self.kind in ("npy", "raw") and not is_fixed:  # another size in each version
            data += bytes(4 * version)
        step = file.array.chunk[0] * file.array.plane[0] * file.array.plane[1] * 4
        count = -(-(rows - begin) // file.array.chunk[0])
        return data, [(len(head) + number * step, step) for number in range(count)]

    def document(self, array, rows):
        """Name and bytes of the document of a zarr array."""
        shape = [rows, *array.plane]
        if self.kind == "v2":
            blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
            zarray = {"zarr_format": 2, "shape": shape, "chunks": array.chunk, "dtype": "<u4"}
            zarray |= {"compressor": blosc, "filters": None, "fill_value": FILL, "order": "C"}
            return ".zarray", json.dumps(zarray).encode()
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        codecs = [little, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}]
        if self.is_sharded:
            inner = codecs if self.kind == "shard_zstd" else [little]
            settings = {"chunk_shape": [4, 16, 24], "codecs": inner, "index_location": "end"}
            settings["index_codecs"] = [little, {"name": "crc32c"}]
            codecs = [{"name": "sharding_indexed", "configuration": settings}]
        node = {"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint32"}
        grid = {"name": "regular", "configuration": {"chunk_shape": array.chunk}}
        keys = {"name": "default", "configuration": {"separator": "/"}}
        node |= {"chunk_grid": grid, "chunk_key_encoding": keys, "codecs": codecs}
        node |= {"fill_value": FILL, "attributes": {}, "dimension_names": ["z", "y", "x"]}
        return "zarr.json", json.dumps(node).encode()


def shard_index(spans):
    import google_crc32c

    index = b"".join(struct.pack("<QQ", *span) for span in spans)
    return index + struct.pack("<I", google_crc32c.value(index))


def npy_head(shape, is_fortran, blocks):
    """A header of 64 * blocks bytes."""
    text = str({"descr": "<u4", "fortran_order": is_fortran, "shape": tuple(shape)})
    size = 64 * blocks - 10
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", size) + text.ljust(size - 1).encode() + b"\n"


class Control:
    """Figures that writer and reader exchange in shared memory."""

    def __init__(self, store, is_new):
        counts = {"head": 8, "begun": store.units, "done": store.units}
        counts |= {name: len(store.files) for name in ("gone", "back", "new_size")}
        counts["rows"] = len(store.arrays)
        path, mode = store.root / "control", "w+" if is_new else "r+"
        words = np.memmap(path, np.int64, mode, shape=(sum(counts.values()),))
        ends = np.cumsum(list(counts.values()))
        for name, end, count in zip(counts, ends, counts.values()):
            setattr(self, name, words[end - count : end])

    stop, pause, paused, version = (
        property(lambda self, at=at: int(self.head[at]), lambda self, to, at=at: self.set(at, to))
        for at in range(4)
    )

    def set(self, at, to):
        self.head[at] = to


class Writer:
    """Writes version after version, by one of the ways."""

    def __init__(self, store, control, options):
        self.store, self.control, self.tick_s = store, control, options.tick / 1000
        self.dice, self.evicts = random.Random(options.seed), options.evict
        self.names, self.parts = itertools.count(), {}
        self.sizes = collections.defaultdict(list)  # by path, in this round
        self.step = getattr(self, f"by_{store.writer}")

    def run(self):
        self.begin()
        control, version, parent = self.control, 1, os.getppid()
        first_rows, late_steps = np.array(control.rows), 0
        while not control.stop and os.getppid() == parent:
            # A round ends with another shape than it began with, if the writer changes shapes.
            is_alike = self.store.writer in ("append", "resize") and version > 1
            is_alike &= np.array_equal(control.rows, first_rows) and late_steps < 4
            if control.pause and not is_alike:
                self.rest()
                first_rows, late_steps = np.array(control.rows), 0
                continue
            late_steps += control.pause
            began, version = time.monotonic(), version + 1
            assert version < 0xFFFF, "versions have 16 bits: fewer seconds, or a longer --tick"
            self.step(version)
            control.version = version
            self.wait(began)

    def wait(self, began):
        """Until mtime is another one for sure."""
        left = began + self.tick_s * self.dice.uniform(1, 2) - time.monotonic()
        time.sleep(max(left, self.tick_s))

    def rest(self):
        for file in self.store.files:
            *before, last = self.sizes[file.path] or [0]
            self.control.new_size[file.number] = last not in before
        self.control.paused = 1
        parent = os.getppid()
        while self.control.pause and not self.control.stop and os.getppid() == parent:
            time.sleep(0.002)
        for sizes in self.sizes.values():
            del sizes[:-1]
        self.control.paused = 0

    def begin(self):
        """The first version."""
        store = self.store
        base = {file.number for file in store.base()}
        self.control.gone[:] = 1
        for file in store.files:
            is_whole = store.writer == "resize" and store.kind in CHUNKED
            if file.number in base or is_whole:
                self.replace(file, store.content(file, 1)[0], 1)
        for number, array in enumerate(store.arrays):
            self.shape(number, array, array.rows)
        if store.kind != "raw":
            return
        for number, array in enumerate(store.arrays):
            self.control.rows[number] = array.rows

    def mark(self, file, version):
        self.control.begun[file.span] = version

    def marked(self, file, version):
        control = self.control
        control.done[file.span] = version
        control.back[file.number] = control.gone[file.number]
        self.sizes[file.path].append(file.path.stat().st_size)

    def put(self, path, data, flags=os.O_CREAT, parts=1):
        """Writes in so many pieces."""
        descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
        step = -(-len(data) // parts)
        for at in range(0, len(data), step):
            os.write(descriptor, data[at : at + step])
            if at + step < len(data):
                time.sleep(0.001)
        self.evict(descriptor)
        os.close(descriptor)

    def evict(self, descriptor):
        """Half of the time, if it is asked for."""
        if self.evicts and self.dice.random() < 0.5:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def swap(self, path, data):
        made = self.store.root / "tmp" / str(next(self.names) % 64)
        self.put(made, data, os.O_CREAT | os.O_TRUNC)
        os.replace(made, path)

    def replace(self, file, data, version):
        self.mark(file, version)
        self.swap(file.path, data)
        self.marked(file, version)

    def remove(self, file):
        self.control.gone[file.number] += 1
        file.path.unlink()

    def shape(self, number, array, rows, is_swap=True):
        """Another zarr.json or .zarray; of others the number of rows alone."""
        if self.store.kind in CHUNKED:
            name, data = self.store.document(array, rows)
            data += b" " * (next(self.names) % 500)  # another size each time
            if is_swap:
                self.swap(array.folder / name, data)
            else:
                self.put(array.folder / name, data, os.O_CREAT | os.O_TRUNC, parts=2)
        self.control.rows[number] = rows

    def by_rename(self, version):
        for file in self.store.base():
            self.replace(file, self.store.content(file, version)[0], version)

    def by_truncate(self, version):
        for file in self.store.base():
            data = self.store.content(file, version)[0]
            self.mark(file, version)
            self.put(file.path, data, os.O_TRUNC, parts=2)
            self.marked(file, version)

    def by_delete(self, version):
        for file in self.store.base():
            data = self.store.content(file, version)[0]
            self.mark(file, version)
            self.remove(file)
            time.sleep(self.dice.uniform(0, 0.004))
            self.put(file.path, data)
            self.marked(file, version)

    def by_inplace(self, version):
        """Each pwrite is a version of the file, so that a tick is between two of them."""
        made = [(file, *self.store.content(file, version)) for file in self.store.base()]
        for number in range(max(len(spans) for _, _, spans in made)):
            began = time.monotonic()
            for file, data, spans in made:
                if number < len(spans):
                    assert len(data) == file.path.stat().st_size, f"{file.path}: another size"
                    self.write_unit(file, number, data, spans[number], version)
            self.wait(began)

    def write_unit(self, file, number, data, span, version):
        unit, (at, size) = file.first_unit + number, span
        self.control.begun[unit] = version
        descriptor = os.open(file.path, os.O_WRONLY)
        os.pwrite(descriptor, data[at : at + size], at)
        self.evict(descriptor)
        os.close(descriptor)
        self.control.done[unit] = version
        self.sizes[file.path].append(len(data))

    def by_append(self, version):
        kind = self.store.kind
        if self.store.is_sharded:
            for file in self.store.base():
                self.grow_shard(file, version)
        elif kind in CHUNKED:
            for number, array in enumerate(self.store.arrays):
                self.grow_array(number, array, version)
        elif kind == "parts":
            self.grow_parts(version)
        else:
            for number, file in enumerate(self.store.files):
                self.grow_rows(number, file, version)

    def grow_shard(self, file, version):
        """New chunks and a new index behind the old ones."""
        data, spans = self.store.content(file, version)
        size = file.path.stat().st_size
        if size + len(data) > SHARD_BYTES_MAX:
            return self.replace(file, data, version)
        end = spans[-1][0] + spans[-1][1]
        index = shard_index([(size + at, count) for at, count in spans])
        self.mark(file, version)
        self.put(file.path, data[:end] + index, os.O_APPEND)
        return self.marked(file, version)

    def grow_array(self, number, array, version):
        more = [f for f in self.store.files if f.array is array and f not in self.store.base()]
        if self.control.rows[number] == array.rows_max:
            self.shape(number, array, array.rows)
            for file in more:
                self.remove(file)
            return
        for file in more:
            self.replace(file, self.store.content(file, version)[0], version)
        self.shape(number, array, array.rows_max)

    def grow_parts(self, version):
        there = [file for file in self.store.files if file.path.exists()]
        rows = self.control.rows
        if version // 8 % 2:
            if len(there) < len(self.store.files):
                file = self.store.files[len(there)]
                self.replace(file, self.store.content(file, version)[0], version)
                rows[0] = file.region[0].stop
        elif len(there) > 4:
            rows[0] = there[-1].region[0].start
            self.remove(there[-1])

    def grow_rows(self, number, file, version):
        """Four rows more, then the header; at the end all anew."""
        rows, array = int(self.control.rows[number]), file.array
        if rows == array.rows_max:
            data = self.store.content(file, version)[0]
            self.parts[number] = version
            self.replace(file, data, version)
            self.control.rows[number] = array.rows
            return
        whole = self.store.content(file, self.parts.get(number, 1), rows + 4)[0]
        size = file.path.stat().st_size
        self.put(file.path, whole[size:], os.O_APPEND)
        if self.store.kind == "npy":
            self.put(file.path, whole[:128], 0)
        self.sizes[file.path].append(file.path.stat().st_size)
        self.control.rows[number] = rows + 4

    def by_resize(self, version):
        store = self.store
        if store.kind == "npy":
            return self.by_rename(version)
        if store.kind == "parts":
            last, rows = store.files[-1], 16 + 4 * (version % 3)
            self.replace(last, store.content(last, version, rows)[0], version)
            self.control.rows[0] = rows
            return None
        for number, array in enumerate(store.arrays):
            rows = array.rows + version % 3 * (array.rows_max - array.rows) // 2
            self.shape(number, array, rows, is_swap=version % 2 == 0)
        return None

    def by_zarr(self, version):
        import zarr

        self.by_library(version, lambda array: zarr.open_array(array.folder, mode="r+"))

    def by_tensorstore(self, version):
        import tensorstore

        driver = "zarr" if self.store.kind == "v2" else "zarr3"

        def opened(array):
            kvstore = {"driver": "file", "path": f"{array.folder}/"}
            return tensorstore.open({"driver": driver, "kvstore": kvstore}).result()

        self.by_library(version, opened)

    def by_library(self, version, open_array):
        for file in self.store.base():
            if id(file.array) not in self.parts:
                self.parts[id(file.array)] = open_array(file.array)
            values = self.store.painted(file.array, file.region, version)
            self.mark(file, version)
            self.parts[id(file.array)][file.region] = values
            self.marked(file, version)

    def by_npsave(self, version):
        for file in self.store.base():
            rows = slice(file.region[0].start, min(file.region[0].stop, file.array.rows))
            values = self.store.painted(file.array, (rows, *file.region[1:]), version)
            self.mark(file, version)
            np.save(file.path, values)
            self.marked(file, version)


class Folder:
    """Files that a hook serves."""

    def size(self, name):
        return os.stat(name).st_size

    def read(self, name, offset, target):
        with open(name, "rb") as file:
            file.seek(offset)
            if file.readinto(target) != len(target):
                raise OSError(f"{name}: it ends before byte {offset + len(target)}")


class Judge:
    """Finds what is wrong with elements that a batch has of files."""

    def __init__(self, store, before, after):
        self.store, self.done, self.back = store, *before
        self.begun, self.gone = after

    def faults(self, keys):
        """File to its fault; keys are unit << 17 | version, or IS_FILL in the version's place."""
        by_file = collections.defaultdict(list)
        for key in keys:
            by_file[int(self.store.unit_file[key >> 17])].append((key >> 17, key & 0x1FFFF))
        found = {}
        for file, parts in by_file.items():
            fault = self.fault(file, parts)
            if fault:
                found[file] = fault
        return found

    def fault(self, file, parts):
        versions = [(unit, version) for unit, version in parts if version != IS_FILL]
        if len(versions) < len(parts):
            if versions:
                return "mixed"
            return None if self.gone[file] > self.back[file] else "fill"
        if any(version > self.begun[unit] for unit, version in versions):
            return "mixed"
        if not self.is_whole(versions):
            is_torn = self.store.writer == "inplace" and self.is_torn(versions)
            return "torn" if is_torn else "mixed"
        if any(version < self.done[unit] for unit, version in versions):
            return "late"
        return None

    def states(self, unit, version):
        """Those states of the file, by the writes to it, in which the unit is of that version."""
        if self.store.writer != "inplace":
            return version, version + 1
        place, count = int(self.store.unit_place[unit]), self.unit_count(unit)
        return version * count + place, (version + 1) * count + place

    def unit_count(self, unit):
        file = self.store.files[int(self.store.unit_file[unit])]
        if self.store.kind in ("npy", "raw"):
            return file.array.rows // file.array.chunk[0]
        return len(file.units)

    def is_whole(self, versions):
        states = [self.states(unit, version) for unit, version in versions]
        return max(first for first, _ in states) < min(end for _, end in states)

    def is_torn(self, versions):
        """Whether one unit alone has two versions, one after the other, and all else is of then."""
        by_unit = collections.defaultdict(list)
        for unit, version in versions:
            by_unit[unit].append(version)
        torn = [(unit, sorted(found)) for unit, found in by_unit.items() if len(found) > 1]
        if len(torn) != 1 or len(torn[0][1]) != 2 or torn[0][1][1] - torn[0][1][0] != 1:
            return False
        at = self.states(torn[0][0], torn[0][1][1])[0]
        rest = [self.states(unit, found[0]) for unit, found in by_unit.items() if len(found) == 1]
        return all(first <= at and end >= at for first, end in rest)


class Stream:
    """One case: a pipeline for each round, and its counts."""

    def __init__(self, name, store, control, options):
        self.name, self.store, self.control = name, store, control
        self.reader, self.cache = name.split(":")[2:]
        self.is_hook, self.is_fresh = self.reader in HOOKS, options.fresh
        self.dice = np.random.default_rng([options.seed, *name.encode()])
        self.counts, self.errors = collections.Counter(), collections.Counter()
        self.notes, self.phase, self.flying = {}, "", collections.deque()

    def opened(self, on_error, size, is_tight):
        import wavetrain

        files = None
        if self.reader == "hook":
            files = Folder()
        elif self.reader == "fsspec":
            import fsspec

            files = wavetrain.fsspec(fsspec.filesystem("file"))
        config = wavetrain.Config(
            samples_per_batch=size,
            sample_shape=BOX,
            dtype="u32",
            backend="host",
            on_error=on_error,
            chunk_cache_bytes=(64 << 10 if is_tight else 8 << 20) * (self.cache == "cached"),
            max_chunk_uncompressed_bytes=1 << 20,
            max_host_memory_bytes=64 << 20,
            n_chunk_layout_cache=1 if is_tight else 1024,
            n_shard_index_cache=1 if is_tight else 1024,
            n_io_threads=4,
            n_decode_threads=2,
            max_npy_files=16 * (self.store.kind == "parts"),
            map_uncompressed=self.reader == "mapped",
            pop_timeout_s=60.0,
        )
        return wavetrain.Pipeline(config, files=files)

    def run(self, on_error, size, is_tight, has_begun, is_over):
        """A round; the threads of all cases of a group run it at the same time."""
        try:
            self.size, self.on_error = size, on_error
            self.open = functools.partial(self.opened, on_error, size, is_tight)
            self.pipeline = self.open()
            with contextlib.closing(self):
                self.begin()
                has_begun.release()
                while not is_over.is_set():
                    while len(self.flying) < (1 if self.is_fresh else FLIGHTS):
                        self.ask(self.box)
                    self.take()
                while self.flying:
                    self.take()
                self.finish()
                if self.reader == "mapped" and not self.is_fresh:
                    assert self.pipeline.stats().mapped_bytes > 0, "nothing was mapped"
        except Exception:
            has_begun.release()
            self.counts["broken"] += 1
            self.note("broken", traceback.format_exc())
        self.flying.clear()

    def close(self):
        self.pipeline.close()

    def begin(self):
        """The writer rests: what is cached now is of the version before all that it will write."""
        self.phase = "now"
        self.ask(self.final_box)
        self.take()
        self.phase = ""

    def finish(self):
        """The writer has stopped."""
        for self.phase in ("now", "reset"):
            if self.phase == "reset":
                self.pipeline.reset()
                self.flying.clear()
            for _ in range(FINAL_BATCHES):
                self.ask(self.final_box)
                if self.flying:
                    self.take()

    def box(self):
        number = int(self.dice.integers(len(self.store.arrays)))
        array = self.store.arrays[number]
        rows = array.reach if self.dice.random() < 0.25 else array.rows
        return number, self.corner(array, rows - BOX[0])

    def final_box(self):
        """A box in rows that are surely there. After a reset: in all rows, or beyond their end."""
        number, array = self.box()[0], None
        array = self.store.arrays[number]
        if self.phase == "now" or array.reach == array.rows:
            return number, self.corner(array, array.rows - BOX[0])
        rows = int(self.control.rows[number])
        if self.on_error == "skip" and rows < array.reach and self.dice.random() < 0.2:
            return number, (rows - BOX[0] + 1, 0, 0)
        first = rows - BOX[0] if self.dice.random() < 0.5 else 0
        return number, (*self.corner(array, first, first)[:1], *self.corner(array, 0)[1:])

    def corner(self, array, last, first=0):
        lasts = [max(last, 0), *(extent - edge for extent, edge in zip(array.plane, BOX[1:]))]
        firsts = [max(first, 0), 0, 0]
        return tuple(int(self.dice.integers(a, b + 1)) for a, b in zip(firsts, lasts))

    def ask(self, draw):
        import wavetrain

        if self.is_fresh:
            self.pipeline.close()
            self.pipeline = self.open()
        asked = [draw() for _ in range(self.size)]
        samples = [
            wavetrain.Sample(
                self.store.arrays[number].uri, [(at, at + e) for at, e in zip(corner, BOX)]
            )
            for number, corner in asked
        ]
        before = np.array(self.control.done), np.array(self.control.back)
        try:
            self.pipeline.push(samples)
            self.flying.append((asked, before))
        except wavetrain.WavetrainError as error:
            self.failed(error)

    def take(self):
        import wavetrain

        if not self.flying:
            return
        try:
            batch = self.pipeline.pop()
        except wavetrain.WavetrainError as error:
            self.failed(error)
            return
        asked, before = self.flying.popleft()
        with batch:
            after = np.array(self.control.begun), np.array(self.control.gone)
            self.counts["batches"] += 1
            statuses = [status.name for status in batch.info.statuses]
            self.check(batch.numpy(), statuses, asked, Judge(self.store, before, after))

    def failed(self, error):
        """A stream that ended: all that was asked is dropped."""
        files = [file.number for file in self.store.base()]
        self.refuse(error.status.name, self.size, str(error), files)
        self.pipeline.reset()
        self.flying.clear()

    def refuse(self, status, count, text, files):
        if status in NEVER:
            self.counts["broken"] += count
            self.note("broken", text)
        elif self.phase and self.is_hook and not self.are_new(files):
            self.counts["missed"] += count
        elif self.phase:
            kind = "refused" if self.phase == "now" else "refused_reset"
            self.counts[kind] += count
            self.note(kind, text)
        else:
            self.errors[status] += count

    def note(self, kind, text):
        """The first of each kind."""
        self.notes.setdefault(kind, text)

    def check(self, values, statuses, asked, judge):
        """Counts the samples of a batch."""
        whole, garbage = {}, set()
        for number, (place, corner) in enumerate(asked):
            array = self.store.arrays[place]
            if statuses[number] != "OK":
                if not self.is_beyond(place, array, corner):
                    text = f"{statuses[number]}: box {asked[number]}"
                    self.refuse(statuses[number], 1, text, self.files_of(array, corner))
                continue
            if self.is_beyond(place, array, corner):
                self.count("late", [], f"a box beyond row {self.control.rows[place]} was read")
                continue
            region = tuple(slice(at, at + edge) for at, edge in zip(corner, BOX))
            shown = values[number] ^ array.hash[region]
            is_fill = values[number] == FILL
            is_bad = (shown & 0xFFFF != 0) & ~is_fill
            keys = array.unit[region] << 17 | np.where(is_fill, IS_FILL, shown >> 16)
            whole[number] = {int(key) for key in np.unique(keys[~is_bad])}
            if is_bad.any():
                garbage.add(number)
        self.counts["samples"] += len(whole)
        faults = judge.faults(set().union(*whole.values()))
        for number, keys in whole.items():
            files = {int(self.store.unit_file[key >> 17]) for key in keys}
            own = judge.faults(keys) if faults else {}
            shared = {"batch" if f == "mixed" else f for n, f in faults.items() if n in files}
            kinds = {"mixed"} if number in garbage else set(own.values())
            kinds |= {kind for kind in shared if kind in ("batch", "torn")}
            kind = next((kind for kind in WORST_FIRST if kind in kinds), "one")
            self.count(kind, files, self.told(keys, asked[number], number in garbage))

    def files_of(self, array, corner):
        region = tuple(slice(at, at + edge) for at, edge in zip(corner, BOX))
        return {int(file) for file in np.unique(self.store.unit_file[array.unit[region]])}

    def are_new(self, files):
        """Whether their last sizes are sizes that they did not have in this round."""
        return all(self.control.new_size[file] for file in files)

    def is_beyond(self, place, array, corner):
        return self.phase == "reset" and corner[0] + BOX[0] > max(
            array.rows, int(self.control.rows[place])
        )

    def told(self, keys, asked, is_garbage):
        parts = [f"unit {key >> 17} {key & 0x1FFFF:#x}" for key in sorted(keys)]
        return f"box {asked}: {', '.join(parts)}{', bytes of no version' if is_garbage else ''}"

    def count(self, kind, files, text):
        if kind in ("mixed", "batch", "late") and self.is_hook:
            kind = kind if self.phase and self.are_new(files) else "missed"
        if kind not in ("one", "torn", "missed"):
            if self.phase:
                kind = "stale" if self.phase == "now" else "stale_reset"
            self.note(kind, text)
        self.counts[kind] += 1

    def row(self, seconds):
        found = {"case": self.name, "seconds": seconds, "versions": self.control.version}
        found |= {name: self.counts[name] for name in COLUMNS if name not in found}
        found["errors"], found["statuses"] = sum(self.errors.values()), dict(self.errors)
        return {**found, "first": self.notes, "is_wrong": any(self.counts[n] for n in FAULTS)}


def is_possible(store, writer, reader):
    """Whether there is such a case."""
    if reader in HOOKS and store == "parts":  # a hook cannot list a folder
        return False
    # A mapped file that is truncated ends the process.
    if reader == "mapped" and (store not in UNCOMPRESSED or writer in ("truncate", "npsave")):
        return False
    if writer in ("zarr", "tensorstore"):
        return store in CHUNKED
    if writer == "npsave":
        return store in ("npy", "parts")
    return (store, writer) != ("raw", "resize")


def cases_of(patterns):
    """Names of cases by (store, writer)."""
    found = {}
    for parts in itertools.product(STORES, WRITERS, READERS, CACHES):
        name = ":".join(parts)
        if is_possible(*parts[:3]) and any(fnmatch.fnmatchcase(name, p) for p in patterns):
            found.setdefault(parts[:2], []).append(name)
    return found


def until(holds, writer, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not holds():
        if writer.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the writer has ended, or does not answer: {writer.poll()}")
        time.sleep(0.001)


def run_group(store_name, writer_name, names, options):
    """Streams all cases of a store and a writer; their rows. In a process of its own."""
    logging.getLogger("wavetrain").setLevel(logging.CRITICAL)
    store = Store(store_name, writer_name, options.root, options.seed)
    control = Control(store, is_new=True)
    control.pause = 1
    evict = any(name.split(":")[2] == "cold" for name in names)
    command = [sys.executable, "-B", __file__, "--write", f"{store_name}:{writer_name}"]
    command += ["--root", options.root]
    command += ["--seed", str(options.seed), "--tick", str(options.tick)]
    writer = subprocess.Popen([*command, "--evict"] if evict else command)
    streams = [Stream(name, store, control, options) for name in names]
    try:
        until(lambda: control.paused, writer)
        for kind in itertools.islice(itertools.cycle(ROUNDS), options.rounds):
            has_begun, is_over = threading.Semaphore(0), threading.Event()
            common = (*kind, has_begun, is_over)
            threads = [threading.Thread(target=stream.run, args=common) for stream in streams]
            for thread in threads:
                thread.start()
            for _ in threads:
                has_begun.acquire()
            control.pause = 0
            until(lambda: not control.paused, writer)
            time.sleep(options.seconds / options.rounds)
            control.pause = 1
            until(lambda: control.paused, writer)
            is_over.set()
            for thread in threads:
                thread.join()
    finally:
        control.stop = 1
        writer.wait(30)
    return [stream.row(options.seconds) for stream in streams]


def run(patterns, seconds, rounds=4, seed=1, tick=12.0, fresh=False, say=lambda text: None):
    """The rows of the cases with these names or globs; each store and writer in its own process."""
    groups = cases_of(patterns)
    for number, ((store, writer), names) in enumerate(groups.items()):
        say(f"{number + 1} of {len(groups)}: {store}:{writer}, {len(names)} cases, {seconds:g} s")
        command = [sys.executable, "-B", "-X", "faulthandler", __file__]
        command += ["--inside", f"{store}:{writer}", "--cases", ",".join(names)]
        command += ["--seconds", str(seconds)]
        command += ["--rounds", str(rounds), "--seed", str(seed), "--tick", str(tick)]
        command += ["--fresh"] * fresh
        with tempfile.TemporaryDirectory(prefix="live-", ignore_cleanup_errors=True) as root:
            yield from rows_of([*command, "--root", root], names, seconds + 120 * rounds)


def rows_of(command, names, timeout_s):
    """The rows that a group prints, also of one that crashes or hangs."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        out = child.communicate(timeout=timeout_s)[0]
        word = f"the process ended with {child.returncode}"
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        word = f"no end after {timeout_s:g} s"
    if child.returncode == 0:
        return [json.loads(line) for line in out.splitlines()]
    blank = {"seconds": 0, **dict.fromkeys(COLUMNS, 0), "statuses": {}}
    blank |= {"broken": 1, "is_wrong": True, "first": {"broken": word}}
    return [{"case": name, **blank} for name in names]


def table(rows):
    head = ["case", *COLUMNS]
    cells = [[row["case"], *(str(row[name] or "") for name in COLUMNS)] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells)]
    for line in [head, *cells]:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths))
        yield "  ".join([line[0].ljust(len(first)), *others]).rstrip()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default="*", help="comma-separated names or globs [all]")
    parser.add_argument("--seconds", type=float, default=60, help="of each case [60]")
    parser.add_argument("--rounds", type=int, default=4, help="pipelines of each case [4]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tick", type=float, default=12, help="ms between writes to a file [12]")
    parser.add_argument("--fresh", action="store_true", help="a pipeline for each batch")
    parser.add_argument("--json", type=Path, help="also write the rows here, one object a line")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    for name in ("--inside", "--write", "--root"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--evict", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        store = Store(*options.write.split(":"), options.root, options.seed)
        return Writer(store, Control(store, is_new=False), options).run()
    patterns = options.cases.split(",")
    if options.inside:
        for row in run_group(*options.inside.split(":"), patterns, options):
            print(json.dumps(row))
        return None
    if options.list:
        return print("\n".join(itertools.chain(*cases_of(patterns).values())))
    if not cases_of(patterns):
        sys.exit(f"--cases: nothing is called {options.cases}")
    rows = []
    for row in run(
        patterns,
        options.seconds,
        options.rounds,
        options.seed,
        options.tick,
        options.fresh,
        lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True),
    ):
        rows.append(row)
        for kind, text in row["first"].items():
            print(f"    {row['case']}: {kind}: {text}", file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text("".join(json.dumps(one) + "\n" for one in rows))
    print("\n".join(table(rows)))
    wrong = sum(row["is_wrong"] for row in rows)
    print(f"{len(rows)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
