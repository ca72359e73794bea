#!/usr/bin/env python3
"""Whole loops of Python users, by wavetrain and by numpy.

    loops.py wavetrain|numpy REQUESTS.jsonl --batch 128 [--threads 2] [--seed 0]
    loops.py recipe IMAGES.npy --batch 128 [--threads 2] [--rounds 41]

An epoch over the .npy file of the list, which holds images as [sample, channel, y, x] of 8 bits, as
netcl's users train on CIFAR: in shuffled batches of f32, each image cropped at random out of itself
padded by 4 pixels of reflection, and flipped half of the time; what both loops draw is the same.
Normalising is outside. Prints one line of JSON with the names of `wavetrain bench --json`;
benches/compare.py runs both.

`recipe` is netcl's whole recipe for CIFAR-10: crop, flip, to_float and normalize. IMAGES.npy is
written first if it is absent: 20,000 images of 3 x 32 x 32 bytes. Epochs of a DataLoader that stays
open and of numpy take turns in one process. numpy has the recipe twice: filter by filter over
stacked samples, as netcl's page has it, and in the fewest passes over whole batches. It prints
medians of milliseconds by the clock and of CPU, and of the ratios of the rounds.
"""

import argparse
import functools
import json
import resource
import time
from pathlib import Path

import numpy as np
import wavetrain
from numpy.lib.stride_tricks import sliding_window_view
from wavetrain.augment import CIFAR10_MEAN, CIFAR10_STD, augment, default_cifar10_filters

PAD = 4
EDGES = [(0, 0), (0, 0), (PAD, PAD), (PAD, PAD)]


def drawn(count, seed):
    """Of every sample of an epoch: image, first row and column of its crop, step along x."""
    dice = np.random.default_rng(seed)
    places = dice.integers(-PAD, PAD + 1, (count, 2))
    return dice.permutation(count), places, dice.choice([-1, 1], count)


def by_numpy(path, options, use):
    images = np.load(path, mmap_mode="r")
    order, places, steps = drawn(len(images), options.seed)
    height, width = images.shape[2:]
    for first in range(0, len(order), options.batch):
        taken = order[first : first + options.batch]
        padded = np.pad(images[taken], EDGES, mode="reflect")
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


SHAPE = (3, 32, 32)
MEAN, STD = (np.array(each, "f4").reshape(3, 1, 1) for each in (CIFAR10_MEAN, CIFAR10_STD))
SCALE, BIAS = 1 / (255 * STD), -MEAN / STD


def by_filters(images, order, corners, flips):
    """A batch of the recipe in numpy, a filter after the other over samples that were stacked."""
    batch = np.stack([images[number] for number in order])
    padded = np.pad(batch, EDGES, mode="reflect")
    for number, (y, x) in enumerate(corners):
        batch[number] = padded[number, :, y : y + SHAPE[1], x : x + SHAPE[2]]
    for number in np.flatnonzero(flips):
        batch[number] = batch[number, :, :, ::-1]
    return (batch.astype(np.float32) / np.float32(255) - MEAN) / STD


def in_few_passes(images, order, corners, flips):
    """The same with each step over the whole batch, and one multiplication and one addition for
    to_float and normalize, in place. It is the fastest of four ways to write it."""
    windows = sliding_window_view(np.pad(images[order], EDGES, mode="reflect"), SHAPE[1:], (2, 3))
    y, x = corners.T
    crops = windows[np.arange(len(order)), :, y, x]
    crops[flips] = crops[flips][..., ::-1]
    made = crops.astype(np.float32)
    made *= SCALE
    made += BIAS
    return made


def recipe_by_numpy(made, path, options, use, seed):
    images, dice = np.load(path, mmap_mode="r"), np.random.default_rng(seed)
    order = dice.permutation(len(images))
    corners, flips = dice.integers(0, 2 * PAD + 1, (len(order), 2)), dice.random(len(order)) < 0.5
    for first in range(0, len(order), options.batch):
        part = slice(first, first + options.batch)
        use(made(images, order[part], corners[part], flips[part]))


class Images:
    """The boxes to read for numbers of images."""

    def __init__(self, path):
        self.path, self.count = path, len(np.load(path, mmap_mode="r"))

    def __len__(self):
        return self.count

    def boxes(self, indices):
        begins = np.zeros((len(indices), 4), np.int64)
        begins[:, 0] = indices
        return {"x": wavetrain.Column(self.path, begins, (1, *SHAPE))}


def check(path, loader, seed):
    """Whether numpy makes what the first batch has, if it draws the same."""
    with next(iter(loader)) as batch:
        specs = augment(default_cifar10_filters(), SHAPE, loader.places, "u1", seed)
        corners = np.array([[PAD + begin for begin in spec.begin[1:]] for spec in specs])
        flips = np.array([spec.step[2] < 0 for spec in specs])
        images, order = np.load(path), np.array(batch.info.tags)
        for way in (by_filters, in_few_passes):
            made = way(images, order, corners, flips)
            np.testing.assert_allclose(batch["x"].numpy(), made, rtol=0, atol=1e-6)


def compare(path, options, use):
    if not path.exists():
        np.save(path, np.random.default_rng(0).integers(0, 256, (20000, *SHAPE), np.uint8))
    config = wavetrain.Config(
        samples_per_batch=options.batch,
        n_decode_threads=options.threads,
        fields=[wavetrain.Field("x", SHAPE, "f32")],
        map_uncompressed=True,
    )
    filters = default_cifar10_filters()
    with wavetrain.DataLoader(
        Images(str(path)), config=config, shuffle=True, seed=options.seed, transforms=filters
    ) as loader:
        assert not loader.plan.python, loader.plan
        check(path, loader, options.seed)

        def by_loader(_):
            for batch in loader:
                with batch:
                    use(batch["x"].numpy())

        ways = {
            way.__name__: functools.partial(recipe_by_numpy, way, path, options, use)
            for way in (by_filters, in_few_passes)
        }
        ways["wavetrain"] = by_loader
        times = {name: [] for name in ways}
        for number in range(options.rounds):
            for name in [ways, reversed(ways)][number % 2]:
                begun = time.perf_counter(), time.process_time()
                ways[name](number)
                ends = time.perf_counter(), time.process_time()
                times[name].append([end - begin for end, begin in zip(ends, begun)])
    rows = {name: 1e3 * np.array(found) for name, found in times.items()}
    for name, row in rows.items():
        wall, cpu = np.median(row, axis=0)
        ratio, of_cpu = np.median(row / rows["wavetrain"], axis=0)
        by_ours = f"by wavetrain {ratio:.2f}, CPU {of_cpu:.2f}"
        print(f"{name:13}: {wall:6.1f} ms, CPU {cpu:6.1f}; {by_ours}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    loops = {"wavetrain": by_wavetrain, "numpy": by_numpy}
    parser.add_argument("program", choices=[*loops, "recipe"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    crcs, count = [], 0

    def use(batch):
        nonlocal count
        count += len(batch)
        # A framework would read every byte.
        crcs.append(int(np.ascontiguousarray(batch).view(np.uint32).sum()))

    if options.program == "recipe":
        compare(options.file, options, use)
        return
    path = json.loads(options.file.open().readline())["uri"]
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
