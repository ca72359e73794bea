#!/usr/bin/env python3
"""Trains a small 3-D convolutional network with torch on crops of a large array.

    train_torch.py [ARRAY] [--epochs N] [--workers N]

ARRAY is a zarr array of three axes. Without one it takes the volume that `wavetrain demo` writes:
cells under a microscope, 192 x 512 x 512 voxels. The network learns to take noise off them: it sees
a crop with noise on top and is told how the crop was. Runs on a GPU where there is one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import wavetrain
from wavetrain.torch import Batches

CROP = (16, 32, 32)  # z, y, x
CROPS_PER_EPOCH = 320
CROPS_PER_BATCH = 8


class RandomCrops:
    """Samples for an epoch. The order is the same whoever asks, because the epoch seeds it: that
    is what lets worker processes share an epoch without a word between them."""

    def __init__(self, uri: str, shape: tuple[int, ...]) -> None:
        self.uri, self.shape = uri, shape

    def __len__(self) -> int:
        return CROPS_PER_EPOCH

    def __call__(self, epoch: int):
        dice = random.Random(epoch)
        for tag in range(len(self)):
            begins = [dice.randint(0, size - crop) for size, crop in zip(self.shape, CROP)]
            box = [(begin, begin + crop) for begin, crop in zip(begins, CROP)]
            yield wavetrain.Sample(self.uri, box, tag)


def normalise(x: torch.Tensor) -> torch.Tensor:
    """Mean 0 and deviation 1, in place in the memory of the batch, and the axis of channels that
    convolutions want."""
    return x.sub_(x.mean()).div_(x.std()).unsqueeze(1)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv3d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv3d(8, 1, 3, padding=1),
    )


def demo_array() -> str:
    """The array that `wavetrain demo` keeps in a folder: made once, in some seconds."""
    folder = Path.home() / ".cache" / "wavetrain" / "demo"
    if not (folder / "demo.json").exists():
        tool = shutil.which("wavetrain")
        if tool is None:
            sys.exit("there is no `wavetrain` on PATH to make data with: name a zarr array")
        subprocess.run([tool, "demo", "--dir", folder], check=True, stdout=subprocess.DEVNULL)
    return str(folder / "bodies")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("array", nargs="?", help="a zarr array of three axes")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="processes of the DataLoader")
    options = parser.parse_args()
    uri = options.array or demo_array()
    shape = wavetrain.array_info(uri).shape

    # Whatever type the array has, batches come as float32, on the GPU where one will do.
    config = wavetrain.Config(samples_per_batch=CROPS_PER_BATCH, sample_shape=CROP, dtype="f32")
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    with Batches(config, RandomCrops(uri, shape), fit=[uri], transform=normalise) as batches:
        source = batches
        if options.workers:  # seldom worth it: the batches are made by threads as it is
            source = torch.utils.data.DataLoader(
                batches, batch_size=None, num_workers=options.workers, persistent_workers=True,
                multiprocessing_context="spawn",
            )  # fmt: skip
        for epoch in range(options.epochs):
            losses: list[float] = []
            for crops in source:
                crops = crops.to(device)  # no copy where it is there already
                noisy = crops + torch.randn_like(crops)
                loss = nn.functional.mse_loss(model(noisy), crops)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                if len(losses) % 10 == 0:
                    mean = sum(losses[-10:]) / 10
                    print(f"epoch {epoch} batch {len(losses)} of {len(source)}: loss {mean:.3f}")
        if not options.workers:
            waited = batches.pipeline.stats().pop_wait
            print(f"the network waited {waited.ms:.0f} ms for batches")


if __name__ == "__main__":
    main()
