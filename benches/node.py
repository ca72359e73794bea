"""node.py [--folder F] [--tool T] [--rounds R]: one shared loader, and four that load alone.

Makes a zarr array of zstd chunks with zarr-python and runs `wavetrain bench` in two ways in turn:
shared by four consumers, and as four processes at once. It prints ratios, shared over private, of
samples/s and of decoded chunks: the median of the rounds, and the ends.

    python benches/node.py --tool target/release/wavetrain --rounds 5
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

import numpy as np
import zarr

CONSUMERS = 4
EDGE, CHUNK, BOX = 512, 32, 32


def make(folder: str) -> tuple[str, int]:
    """The array and the bytes of all its chunks."""
    path = os.path.join(folder, "array.zarr")
    codec = zarr.codecs.ZstdCodec(level=3)
    shape, chunks = (EDGE,) * 3, (CHUNK,) * 3
    array = zarr.create_array(path, shape=shape, chunks=chunks, dtype="u2", compressors=codec)
    steps = np.random.default_rng(0).integers(0, 9, shape, dtype="u2")
    array[:] = np.cumsum(steps, axis=2, dtype="u2")
    return path, EDGE**3 * 2


def boxes(path: str, count: int, folder: str) -> list[str]:
    """One list, and its part for each of the four: batches of 8 in turn."""
    draw = random.Random(1)
    lines = []
    for _ in range(count):
        begin = [draw.randrange(EDGE - BOX + 1) for _ in range(3)]
        lines.append(json.dumps({"uri": path, "box": [[at, at + BOX] for at in begin]}))
    parts = [lines]
    for rank in range(CONSUMERS):
        parts.append([line for at, line in enumerate(lines) if at // 8 % CONSUMERS == rank])
    names = [os.path.join(folder, f"list{number}.jsonl") for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        with open(name, "w", encoding="utf-8") as file:
            file.write("\n".join(part))
    return names


def shared(tool: str, requests: str, order: str, flags: list[str]) -> tuple[float, int]:
    """Samples/s of all, and chunks decoded."""
    name = f"bench.{os.getpid()}.{time.monotonic_ns()}"
    command = [tool, "bench", "--json", "--batch", "8", "--requests", requests, "--share", name]
    command += ["--consumers", str(CONSUMERS), "--share-order", order, *flags]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return figures["samples_per_s"], figures["chunks_decoded"]


def private(tool: str, requests: list[str], flags: list[str]) -> tuple[float, int]:
    """The same of four processes: their samples by the time of the slowest."""
    command = [tool, "bench", "--json", "--batch", "8", *flags, "--requests"]
    started = [subprocess.Popen([*command, one], stdout=subprocess.PIPE) for one in requests]
    figures = [json.loads(process.communicate()[0]) for process in started]
    slowest = max(one["seconds"] for one in figures)
    samples = sum(one["samples"] for one in figures)
    return samples / slowest, sum(one["chunks_decoded"] for one in figures)


def main() -> None:
    """Prints a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--tool", default="wavetrain")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, decoded_bytes = make(folder)
        # A box touches nearly 2 chunks along each axis. With one box per chunk each has 8 uses.
        lists = boxes(path, (EDGE // CHUNK) ** 3, folder)
        memory = decoded_bytes * 12 // 10
        cache = ["--chunk-cache-bytes", str(memory)]
        quarter = ["--chunk-cache-bytes", str(memory // CONSUMERS)]
        cases = [
            ("ALL", "all", [lists[0]] * CONSUMERS, [], []),
            ("ROUND, cache of M against M/4", "round", lists[1:], cache, quarter),
            ("ROUND, no cache", "round", lists[1:], [], []),
        ]
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} CPUs, {options.rounds} rounds")
        for title, order, own, flags, own_flags in cases:
            rates, chunks = [], []
            for _ in range(options.rounds):
                one = shared(options.tool, lists[0], order, flags)
                four = private(options.tool, own, own_flags)
                rates.append(one[0] / four[0])
                chunks.append(one[1] / four[1])
            rate, share = statistics.median(rates), statistics.median(chunks)
            ends = f"{min(rates):.2f} to {max(rates):.2f}"
            print(f"{title}: samples/s x {rate:.2f} ({ends}), chunks decoded x {share:.3f}")


if __name__ == "__main__":
    main()
