#!/usr/bin/env python3
"""Tasks of a runtime that fill their tiles of an array of numbered .npy files, in one process.

    PYTHONPATH=python python benches/fill.py FOLDER [--threads 2] [--tiles 1,4] [--rounds 41]

Writes 102 MB of uint16 into FOLDER first, ten files of unequal length. Each thread fills as many
tiles of a new array as --tiles says, in one of three ways that take turns in each round:

    mapped     np.load(mmap_mode="r") of each file, and a copy
    read()     os.preadv straight into the tile
    read_into  wavetrain.reader().read(.., out=tile)

Prints medians of milliseconds by the clock and of CPU, and of the ratios of the rounds.
"""

import argparse
import os
import pathlib
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import wavetrain

ROWS, WIDTH = [300, 1500, 700, 1100, 400, 900, 1300, 600, 1000, 1272], 5632


def write(folder: pathlib.Path) -> list[pathlib.Path]:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for number, rows in enumerate(ROWS):
        path = folder / f"shard_{number:04}.npy"
        if not path.exists():
            np.save(path, random.integers(0, 1 << 16, (rows, WIDTH), dtype=np.uint16))
    return sorted(folder.glob("shard_*.npy"))


class Ways:
    def __init__(self, folder: pathlib.Path) -> None:
        self.uri, self.files = str(folder), write(folder)
        self.firsts = np.cumsum([0, *ROWS]).tolist()
        self.opened = [os.open(file, os.O_RDONLY) for file in self.files]

    def parts(self, tile: np.ndarray, first: int):
        """Each file that the tile has rows of: its number, the first of these rows, their place."""
        for number, begin in enumerate(self.firsts[:-1]):
            low, high = max(first, begin), min(first + len(tile), begin + ROWS[number])
            if low < high:
                yield number, low - begin, tile[low - first : high - first]

    def mapped(self, tile: np.ndarray, first: int) -> None:
        for number, row, place in self.parts(tile, first):
            place[...] = np.load(self.files[number], mmap_mode="r")[row : row + len(place)]

    def straight(self, tile: np.ndarray, first: int) -> None:
        for number, row, place in self.parts(tile, first):
            left, at = memoryview(place).cast("B"), 128 + row * WIDTH * 2
            while left:
                got = os.preadv(self.opened[number], [left], at)
                left, at = left[got:], at + got

    def read_into(self, tile: np.ndarray, first: int) -> None:
        reader = wavetrain.reader(max_npy_files=len(ROWS))
        reader.read(self.uri, [(first, first + len(tile)), (0, WIDTH)], tile)


def run(way, tiles: int, threads: int, pool) -> tuple[float, float, np.ndarray]:
    """Milliseconds by the clock and of CPU, and the array."""
    whole = np.empty((sum(ROWS), WIDTH), np.uint16)
    step = -(-len(whole) // (threads * tiles))
    begun = time.perf_counter(), time.process_time()
    firsts = range(0, len(whole), step)
    for task in [pool.submit(way, whole[first : first + step], first) for first in firsts]:
        task.result()
    ends = time.perf_counter(), time.process_time()
    return *(1e3 * (end - begin) for end, begin in zip(ends, begun)), whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tiles", default="1,4")
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    ways = Ways(options.folder)
    names = {"mapped": ways.mapped, "read()": ways.straight, "read_into": ways.read_into}
    with ThreadPoolExecutor(options.threads) as pool:
        for tiles in map(int, options.tiles.split(",")):
            arrays = [run(way, tiles, options.threads, pool)[2] for way in names.values()]
            assert all((array == arrays[0]).all() for array in arrays), "the ways differ"
            times = {name: [] for name in names}
            for number in range(options.rounds):
                for name in [names, reversed(names)][number % 2]:
                    times[name].append(run(names[name], tiles, options.threads, pool)[:2])
            rows = {name: np.array(found) for name, found in times.items()}
            for name, row in rows.items():
                wall, cpu = np.median(row, axis=0)
                ratios = np.median(rows["read_into"] / row, axis=0)
                print(
                    f"{tiles} tiles a thread, {name:9}: {wall:6.1f} ms, CPU {cpu:6.1f}; "
                    f"read_into / it {ratios[0]:.2f}, CPU {ratios[1]:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
