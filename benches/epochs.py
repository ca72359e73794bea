#!/usr/bin/env python3
"""Epochs of boxes in a chunk-aware shuffle and a full one, by wavetrain and by tensorstore.

    PYTHONPATH=python python3 benches/epochs.py ARRAY... --box 64,64,64 [--kept 8] [--run 64]

Each ARRAY is one table: its boxes on a grid, in the chunk-aware shuffle of wavetrain_epoch.h, with
shuffle windows for half of a cache of --kept chunks, and shuffled. Every program gets the same
lists, in every repeat once, in an order shuffled from a seed:

    free            wavetrain, a cache of --kept chunks
    random          wavetrain on the shuffled list, the same cache
    random-bare     wavetrain on the shuffled list without a cache
    ts-free         tensorstore on the list of `free`, a cache of as many bytes
    ts-random       tensorstore on the shuffled list, the same cache

Prints samples per second, medians; chunks decoded where the program counts them, in all and for
each sample; and what the epoch in a chunk-aware shuffle was said to cost. A shuffled list may be
long work: --random takes only its first samples, of which those that fill the cache cost most.
Needs tensorstore and `cargo build --release --features cli`.
"""

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from pathlib import Path

import compare

import wavetrain
from wavetrain import epoch

PROGRAMS = ["free", "random", "random-bare", "ts-free", "ts-random"]


def whole_numbers(text):
    return [int(word) for word in text.split(",")]


def write(path, uri, boxes):
    path.write_text("".join(json.dumps({"uri": uri, "box": box}) + "\n" for box in boxes))


class Row:
    """An array, its lists of boxes, and what they cost."""

    def __init__(self, array, options, folder):
        self.array = array
        info = wavetrain.array_info(array)
        self.chunk_bytes = info.chunk_bytes
        shape, chunk = info.shape, info.chunk_shape
        step, jitter = options.step or 0, options.jitter
        self.grid = epoch.Boxes(shape, options.box, step=step, chunk=chunk, jitter=jitter)
        count = len(self.grid)
        run = options.run or max(1, count // self.grid.chunk_count)
        # Chunks that a run touches: a box that begins anywhere in one reaches into the next ones.
        pairs = zip(chunk, options.box, strict=True)
        touched = math.prod(-(-box // of) + (jitter and box > 1) for of, box in pairs)
        window = max(1, options.kept // 2 // touched)
        order = epoch.Epoch(count, seed=1, chunk_shuffle=epoch.ChunkShuffle(run, window))
        self.cost = epoch.cost(order, self.grid)
        boxes = [self.grid.at(index, seed=1) for index in order]
        self.lists = {"free": folder / "free.jsonl", "random": folder / "random.jsonl"}
        write(self.lists["free"], array, boxes)
        random.Random(1).shuffle(boxes)
        write(self.lists["random"], array, boxes[: options.random or None])
        self.text = f"runs of {run}, shuffle windows of {window}"

    def command(self, program, options):
        requests = str(self.lists[program.removeprefix("ts-").removesuffix("-bare")])
        # What granules and tables take besides.
        kept = str(int(options.kept * self.chunk_bytes * 1.05))
        shared = ["--batch", str(options.batch), "--threads", str(options.threads)]
        if program.startswith("ts-"):
            peer = [sys.executable, str(compare.HERE / "tensorstore_peer.py"), requests]
            return [*peer, *shared, "--cache-bytes", kept]
        shape = ",".join(str(extent) for extent in self.grid.box)
        start = [options.wavetrain, "bench", "--json", "--requests", requests, *shared]
        start += ["--sample-shape", shape, "--dtype", "f32"]
        return [*start, *([] if program == "random-bare" else ["--chunk-cache-bytes", kept])]


def measure(row, options):
    runs = {program: [] for program in options.programs}
    compare.warm({"arrays": [row.array]})
    dice = random.Random(options.repeats)
    for _ in range(options.repeats):
        for program in dice.sample(options.programs, len(options.programs)):
            figures, words = compare.run(row.command(program, options), options.quiet_wait)
            if figures is None:
                sys.exit(f"{program}: {words}")
            runs[program].append(figures)
            compare.say(f"  {program:12} {figures['samples_per_s']:8.1f} samples/s")
    return runs


def report(row, runs):
    chunks, samples = row.grid.chunk_count, len(row.grid)
    size, (distinct, windows, largest) = row.chunk_bytes >> 10, row.cost
    print(f"\n{row.array}: {samples} boxes in {chunks} chunks of {size} KiB, {row.text}")
    print(f"an epoch is to decode {distinct} to {windows} chunks, at most {largest} in a window\n")
    print("| program | samples/s | of free | chunks decoded | each sample |\n|---|---|---|---|---|")
    free = statistics.median(run["samples_per_s"] for run in runs["free"])
    for program, of in runs.items():
        rate = statistics.median(run["samples_per_s"] for run in of)
        decoded = [run["chunks_decoded"] for run in of if "chunks_decoded" in run]
        said = f"{statistics.median(decoded):.0f}" if decoded else "-"
        each = f"{statistics.median(decoded) / of[0]['samples']:.3f}" if decoded else "-"
        print(f"| {program} | {rate:.1f} | {rate / free:.3f} | {said} | {each} |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arrays", nargs="+", metavar="ARRAY")
    parser.add_argument("--box", type=whole_numbers, required=True, help="its extents")
    parser.add_argument("--step", type=whole_numbers, help="from box to box; default: side by side")
    parser.add_argument("--jitter", action="store_true", help="boxes that begin anywhere in a cell")
    parser.add_argument("--kept", type=int, default=8, help="chunks that the cache has room for")
    parser.add_argument("--run", type=int, default=0, help="samples; default: those of a chunk")
    parser.add_argument("--random", type=int, help="samples of the shuffled list; default: all")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--quiet-wait", type=float, default=20)
    parser.add_argument("--wavetrain", default="target/release/wavetrain", help="the program")
    options = parser.parse_args()
    options.programs = options.programs.split(",")
    if "free" not in options.programs:
        parser.error("--programs must have free, which the others are compared with")
    for array in options.arrays:
        with tempfile.TemporaryDirectory() as folder:
            row = Row(array, options, Path(folder))
            report(row, measure(row, options))


if __name__ == "__main__":
    main()
