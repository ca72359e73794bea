#!/usr/bin/env python3
"""Batches of a data set of arrays that worker processes read: by wavetrain, and by torch.

    workers.py [--samples 512] [--bytes 1048576] [--batch 16] [--workers 2] [--use touch]

A sample is a row of a .npy file that is mapped, copied, and its number. The measure is the way of
the bytes from a worker to the batch. The loaders stay open in one process, and their epochs take
turns, in an order that alternates. --use is the work of the loop: "touch" reads a byte of each page
of a batch, "sum" all bytes, "none" nothing. It prints the medians of samples/s and of the ratios.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import wavetrain


class Rows:
    def __init__(self, path):
        self.path, self.rows = str(path), None
        self.count = len(np.load(self.path, mmap_mode="r"))

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if self.rows is None:
            self.rows = np.load(self.path, mmap_mode="r")
        return np.array(self.rows[i]), i


USES = {
    "none": lambda x: 0,
    "touch": lambda x: int(x[:, ::4096].sum()),
    "sum": lambda x: int(x.view(np.uint64).sum()),  # modulo 2 ** 64
}


def by_wavetrain(rows, options, use):
    loader = wavetrain.DataLoader(
        rows, options.batch, shuffle=True, num_workers=options.workers, prefetch=options.prefetch
    )

    def epoch():
        total = 0
        for x, y in loader:
            total += use(x.numpy()) + int(y.numpy().sum())
        return total % 2**64

    return loader, epoch


def by_torch(rows, options, use):
    loader = torch.utils.data.DataLoader(
        rows,
        options.batch,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=True,
        prefetch_factor=options.prefetch,
    )

    def epoch():
        total = 0
        for x, y in loader:
            total += use(x.numpy()) + int(y.sum())
        return total % 2**64

    return loader, epoch


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--use", choices=[*USES], default="touch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        shape = (options.samples, options.bytes)
        np.save(path, np.random.default_rng(0).integers(0, 256, shape, np.uint8))
        rows = Rows(path)
        ways = {"wavetrain": by_wavetrain, "torch": by_torch}
        made = {name: way(rows, options, USES[options.use]) for name, way in ways.items()}
        rates, totals = {name: [] for name in ways}, set()
        for number in range(options.rounds + 1):
            for name in [ways, reversed(ways)][number % 2]:
                begun = time.perf_counter()
                totals.add(made[name][1]())
                if number:  # the first one warms up
                    rates[name].append(options.samples / (time.perf_counter() - begun))
        assert len(totals) == 1, "both read each sample once"
        for name, found in rates.items():
            print(f"{name:10}: {np.median(found):8.0f} samples/s")
        ratios = np.array(rates["wavetrain"]) / rates["torch"]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        print(f"ratio {middle:.2f} (quartiles {low:.2f} to {high:.2f})")
        made["wavetrain"][0].close()


if __name__ == "__main__":
    main()
