#!/usr/bin/env python3
"""Whole loops of Python users, by wavetrain and by numpy: benches/compare.py runs them.

    loops.py wavetrain|numpy REQUESTS.jsonl --batch 128 [--threads 2] [--seed 0]

An epoch over the .npy file of the list, which holds images as [sample, channel, y, x] of 8 bits, as
netcl's users train on CIFAR: in shuffled batches of f32, each image cropped at random out of itself
padded by 4 pixels of reflection, and flipped half of the time; what both loops draw is the same.
Normalising is outside. Prints one line of JSON with the names of `wavetrain bench --json`.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import wavetrain

PAD = 4


def drawn(count, seed):
    """Of every sample of an epoch: image, first row and column of its crop, step along x."""
    dice = np.random.default_rng(seed)
    places = dice.integers(-PAD, PAD + 1, (count, 2))
    return dice.permutation(count), places, dice.choice([-1, 1], count)


def by_numpy(path, options, use):
    images = np.load(path, mmap_mode="r")
    order, places, steps = drawn(len(images), options.seed)
    height, width = images.shape[2:]
    edges = [(0, 0), (0, 0), (PAD, PAD), (PAD, PAD)]
    for first in range(0, len(order), options.batch):
        taken = order[first : first + options.batch]
        padded = np.pad(images[taken], edges, mode="reflect")
        batch = np.empty((len(taken), *images.shape[1:]), np.float32)
        for place, (image, number) in enumerate(zip(padded, range(first, first + len(taken)))):
            y, x = places[number] + PAD
            batch[place] = image[:, y : y + height, x : x + width][..., :: steps[number]]
        use(batch)


def by_wavetrain(path, options, use):
    shape = wavetrain.array_info(path).shape
    order, places, steps = drawn(shape[0], options.seed)
    config = wavetrain.Config(
        samples_per_batch=options.batch,
        drop_last=False,
        n_decode_threads=options.threads,
        backend="host",
        fields=[wavetrain.Field("x", shape[1:], "f32", pad_mode="reflect")],
    )

    zeros = np.zeros(len(order), np.int64)
    begins = np.column_stack([order, zeros, places])
    step = np.column_stack([zeros + 1, zeros + 1, zeros + 1, steps])
    with wavetrain.Pipeline(config, fit=[path]) as pipeline:
        pipeline.push_boxes(path, begins, (1, *shape[1:]), step=step)
        for batch in pipeline.batches():
            with batch:
                use(batch["x"].numpy())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    loops = {"wavetrain": by_wavetrain, "numpy": by_numpy}
    parser.add_argument("program", choices=loops)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    path = json.loads(options.requests.open().readline())["uri"]
    crcs, count = [], 0

    def use(batch):
        nonlocal count
        count += len(batch)
        # A framework would read every byte.
        crcs.append(int(np.ascontiguousarray(batch).view(np.uint32).sum()))

    usage, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    loops[options.program](path, options, use)
    seconds, now = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    line = {
        "name": options.program,
        "samples": count,
        "seconds": seconds,
        "samples_per_s": count / seconds,
        "cpu_seconds": now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime,
        "peak_rss_bytes": now.ru_maxrss * 1024,
    }
    print(json.dumps(line | ({"crcs": crcs} if options.verify else {})))


if __name__ == "__main__":
    main()
