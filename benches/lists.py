#!/usr/bin/env python3
"""Boxes whose axes are index lists, beside the orthogonal indexing of zarr-python and tensorstore.

    PYTHONPATH=python python benches/lists.py FOLDER [--samples 200] [--rounds 5]

Writes arrays of 512 x 512 x 33 uint16 with zarr-python into FOLDER first: zstd chunks of 32 x 32 x
33, the same in shards of 128 x 128 x 33, and a .npy file. A sample is 32 sorted rows by 20 sorted
columns, all different in each sample, by the whole last axis. The ways take turns in each round:

    batches      Pipeline.push(Sample(uri, [rows, columns, (0, 33)])), the batches popped
    read_into    Reader.read(uri, [rows, columns, (0, 33)], out), one after the other
    mapped       as batches, with Config(map_uncompressed=True), of the .npy file
    box          Pipeline.push of the box around all indices, which reads and keeps everything
    zarr         array.oindex[rows, columns]; of the .npy file array[numpy.ix_(rows, columns)]
    tensorstore  store.oindex[rows, columns], eight reads at a time

Prints milliseconds a sample: medians, and of the ratios to `batches` of the same round.
"""

import argparse
import pathlib
import statistics
import time

import numpy as np
import tensorstore
import zarr

import wavetrain
from wavetrain import Config, Pipeline, Reader, Sample

SHAPE, ROWS, COLUMNS, AT_ONCE = (512, 512, 33), 32, 20, 8


def write(folder: pathlib.Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    data = np.random.default_rng(0).integers(0, 4096, SHAPE, dtype=np.uint16)
    for name, shards in (("chunks", None), ("shards", (128, 128, 33))):
        if not (folder / name).exists():
            array = zarr.create_array(
                folder / name, shape=SHAPE, dtype="u2", chunks=(32, 32, 33), shards=shards
            )
            array[...] = data
    if not (folder / "flat.npy").exists():
        np.save(folder / "flat.npy", data)
    return {name: str(folder / name) for name in ("chunks", "shards", "flat.npy")}


class Ways:
    """Each way reads all samples of an array; the sum of the elements shows that it did."""

    def __init__(self, uri: str, picked: list[tuple[np.ndarray, np.ndarray]]) -> None:
        self.uri, self.picked = uri, picked
        sizes = {"samples_per_batch": 4, "dtype": "u16", "n_decode_threads": 2, "fit": [uri]}
        fit = sizes.pop("fit")
        shape = (ROWS, COLUMNS, SHAPE[2])
        most = {"max_indices_per_sample": ROWS * COLUMNS, "lookahead_samples": 16}
        self.listed = Pipeline(Config(sample_shape=shape, **sizes, **most), fit=fit)
        self.in_map = Pipeline(
            Config(sample_shape=shape, **sizes, **most, map_uncompressed=True), fit=fit
        )
        self.whole = Pipeline(Config(sample_shape=SHAPE, **sizes), fit=fit)
        self.reader = Reader(fit=fit, max_indices_per_sample=ROWS * COLUMNS)
        if uri.endswith(".npy"):
            self.array = np.load(uri, mmap_mode="r")
            return
        self.array = zarr.open_array(uri)
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": uri}}
        self.store = tensorstore.open(spec, read=True).result()

    def names(self) -> list[str]:
        shared = ["batches", "read_into", "box", "zarr"]
        return [*shared, "mapped" if self.uri.endswith(".npy") else "tensorstore"]

    def streamed(self, pipeline: Pipeline, samples: list[Sample]):
        for first in range(0, len(samples), 16):
            pipeline.push(samples[first : first + 16])
            for batch in pipeline.batches():
                with batch:
                    yield from np.array(batch)
            pipeline.reset()

    def samples(self) -> list[Sample]:
        return [Sample(self.uri, [*each, (0, SHAPE[2])]) for each in self.picked]

    def batches(self):
        return self.streamed(self.listed, self.samples())

    def mapped(self):
        return self.streamed(self.in_map, self.samples())

    def box(self):
        axes = [(0, extent) for extent in SHAPE]
        whole = self.streamed(self.whole, [Sample(self.uri, axes)] * len(self.picked))
        return (found[np.ix_(*each)] for found, each in zip(whole, self.picked))

    def read_into(self):
        out = np.empty((ROWS, COLUMNS, SHAPE[2]), np.uint16)
        return (self.reader.read(self.uri, [*e, (0, SHAPE[2])], out) for e in self.picked)

    def zarr(self):
        if self.uri.endswith(".npy"):
            return (self.array[np.ix_(*each)] for each in self.picked)
        return (self.array.oindex[each] for each in self.picked)

    def tensorstore(self):
        for first in range(0, len(self.picked), AT_ONCE):
            some = self.picked[first : first + AT_ONCE]
            for future in [self.store.oindex[each].read() for each in some]:
                yield future.result()

    def time(self, name: str) -> tuple[float, int]:
        begun = time.perf_counter()
        total = sum(int(found.sum()) for found in getattr(self, name)())
        return (time.perf_counter() - begun) * 1e3 / len(self.picked), total

    def close(self) -> None:
        self.listed.close()
        self.in_map.close()
        self.whole.close()
        self.reader.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    random = np.random.default_rng(1)

    def pick(extent: int, count: int) -> np.ndarray:
        return np.sort(random.choice(extent, count, replace=False))

    picked = [(pick(SHAPE[0], ROWS), pick(SHAPE[1], COLUMNS)) for _ in range(options.samples)]
    print(f"wavetrain {wavetrain.__version__}, zarr {zarr.__version__}, {options.samples} samples")
    print(f"{'array':10} {'way':12} {'ms/sample':>9} {'of batches':>10}")
    for label, uri in write(options.folder).items():
        ways = Ways(uri, picked)
        times: dict[str, list[float]] = {name: [] for name in ways.names()}
        for _ in range(options.rounds):
            totals = set()
            for name in times:
                took, total = ways.time(name)
                times[name].append(took)
                totals.add(total)
            assert len(totals) == 1, "the ways read other elements"
        for name, took in times.items():
            ratio = statistics.median(a / b for a, b in zip(took, times["batches"]))
            print(f"{label:10} {name:12} {statistics.median(took):9.2f} {ratio:10.2f}")
        ways.close()


if __name__ == "__main__":
    main()
