#!/usr/bin/env python3
"""Boxes of an uncompressed .npy file: builds of the tool beside loops over numpy's memmap.

    cargo build --release --features cli      # TOOL is target/release/wavetrain
    python benches/memmap.py DATA TOOL[=FLAGS].. [--rows 8,64,512,4096,65536] [--runs 5]
                             [--threads 2] [--dtypes f32,u16] [--out FILE]

DATA is a folder, which gets the file (100 MB of u16, warm) and the lists. A box has 64 rows of so
many bytes, 128 KiB apart, at random places; "slabs" are boxes of 8 whole rows in the order of the
file. u16 goes out as f32 and as it is. In each run everything takes its turn: a loop that assigns
boxes to a batch (1 thread), the same with the boxes of each batch dealt to two threads, and each
tool, with its flags after "=". The table: samples per second of the better loop of each kind, the
best of all runs, and those of each tool by each of both.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

SHAPE = (800, 65_536)
BOX_ROWS = 64
SLAB_ROWS = 8
BATCH_BYTES = 8 << 20  # of u16
LIST_BYTES = 256 << 20
BOXES_MAX = 16_384
TARGETS = {"f32": np.float32, "u16": np.uint16}


def write_file(data):
    path = data / "memmap.npy"
    if not path.exists():
        dice = np.random.default_rng(0)
        np.save(data / "partial.npy", dice.integers(0, 1 << 16, SHAPE, dtype=np.uint16))
        (data / "partial.npy").rename(path)
    np.load(path).sum()
    return path


def boxes_of(name):
    """Boxes of a list as first row, first column, rows and columns."""
    if name == "slabs":
        firsts = range(0, SHAPE[0], SLAB_ROWS)
        return [(first, 0, SLAB_ROWS, SHAPE[1]) for first in [*firsts, *firsts]]
    columns = int(name) // 2
    count = min(BOXES_MAX, LIST_BYTES // (BOX_ROWS * columns * 2))
    dice = np.random.default_rng(columns)
    ys = dice.integers(0, SHAPE[0] - BOX_ROWS + 1, count)
    xs = dice.integers(0, SHAPE[1] - columns + 1, count)
    return [(int(y), int(x), BOX_ROWS, columns) for y, x in zip(ys, xs)]


def write_list(stored, name, boxes):
    path = stored.with_name(f"memmap_{name}.jsonl")
    uri = str(stored.resolve())
    lines = [json.dumps({"uri": uri, "box": [[y, y + h], [x, x + w]]}) for y, x, h, w in boxes]
    path.write_text("\n".join(lines) + "\n")
    return path


def by_numpy(path, boxes, batch, target, threads):
    """Seconds of a loop that fills batches, which are used again like the slots of a loader."""
    stored = np.load(path, mmap_mode="r")
    slots = [np.ones((batch, *boxes[0][2:]), target) for _ in range(3)]

    def fill(slot, first, limit):
        for place, (y, x, h, w) in enumerate(boxes[first:limit], first % batch):
            slot[place] = stored[y : y + h, x : x + w]

    with ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        for number, first in enumerate(range(0, len(boxes), batch)):
            slot, limit = slots[number % 3], min(first + batch, len(boxes))
            if threads == 1:
                fill(slot, first, limit)
                continue
            half = (first + limit) // 2
            list(pool.map(fill, (slot, slot), (first, half), (half, limit)))
        return time.perf_counter() - begun


def by_tool(tool, flags, requests, batch, dtype, options):
    command = [tool, "bench", "--requests", requests, "--batch", str(batch), "--json"]
    command += ["--backend", "host", "--threads", str(options.threads), "--dtype", dtype]
    done = subprocess.run([*command, *shlex.split(flags)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tool}: {done.stderr}")
    return json.loads(done.stdout)["seconds"]


def measure(path, name, dtype, options):
    """The best seconds of each loop and each tool, and the number of boxes."""
    boxes = boxes_of(name)
    requests = write_list(path, name, boxes)
    batch = max(2, min(64, BATCH_BYTES // (boxes[0][2] * boxes[0][3] * 2)))
    turns = {
        "numpy 1": lambda: by_numpy(path, boxes, batch, TARGETS[dtype], 1),
        "numpy 2": lambda: by_numpy(path, boxes, batch, TARGETS[dtype], 2),
    }
    for tool in options.tools:
        program, _, flags = tool.partition("=")
        turns[tool] = lambda program=program, flags=flags: by_tool(
            program, flags, requests, batch, dtype, options
        )
    best = dict.fromkeys(turns, float("inf"))
    order = list(turns)
    for run in range(options.runs):
        for turn in order if run % 2 == 0 else order[::-1]:
            best[turn] = min(best[turn], turns[turn]())
    return best, len(boxes)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("tools", nargs="+")
    parser.add_argument("--rows", default="8,64,512,4096,65536,slabs")
    parser.add_argument("--dtypes", default="f32,u16")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="gets a line of JSON for each list and type")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    path = write_file(options.data)
    numbers = range(1, len(options.tools) + 1)
    for number, tool in zip(numbers, options.tools):
        print(f"tool {number}: {tool}")
    head = ["rows", "dtype", "numpy 1/s", "numpy 2/s"]
    head += [f"tool {number} by numpy {threads}" for number in numbers for threads in (1, 2)]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for dtype in options.dtypes.split(","):
        for name in options.rows.split(","):
            best, count = measure(path, name, dtype, options)
            loops = [best.pop("numpy 1"), best.pop("numpy 2")]
            cells = [name, dtype, *(f"{count / loop:.0f}" for loop in loops)]
            cells += [f"{loop / seconds:.2f}" for seconds in best.values() for loop in loops]
            print("| " + " | ".join(cells) + " |", flush=True)
            if options.out:
                row = {"rows": name, "dtype": dtype, "boxes": count, "numpy": loops, **best}
                with options.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
