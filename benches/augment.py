#!/usr/bin/env python3
"""What arithmetic on the elements of boxes costs next to the plain crop: medians of CPU ratios.

    PYTHONPATH=python python benches/augment.py FOLDER [--only TEXT] [--rounds 41]

Writes arrays of (3, 64, 384, 384) into FOLDER first: uncompressed .npy and zarr with zstd. One
pipeline with one thread that decodes streams random crops of (3, 32, 128, 128), a batch of eight
at a time. Each round streams the same crops in every way once, and compares the CPU time of the
process with that of the plain crops of the round. The rows:

    flip     backwards along the last axis
    scale    scale and bias, the same for all
    by 3     scale and bias of each of three channels along the first axis
    erase    a box of an eighth of the crop
    all      flip, scale and erase; "all by 3" with three channels
"""

import argparse
import pathlib
import time

import numpy as np
import zarr
from wavetrain import Augment, Box, Config, Erase, Field, Pipeline, Sample

EXTENTS, CROP, BATCH = (3, 64, 384, 384), (3, 32, 128, 128), 8
ONE = {"scale": 1 / 255, "bias": -0.5}
THREE = {"scale": (0.1, 0.2, 0.3), "bias": (1, 2, 3)}
ERASE = {"erase": Erase((0, 8, 32, 40), (3, 24, 96, 104), 0.5)}
WAYS = {
    "plain": (1, None),
    "flip": (-1, None),
    "scale": (1, Augment(**ONE)),
    "by 3": (1, Augment(**THREE)),
    "erase": (1, Augment(**ERASE)),
    "all": (-1, Augment(**ONE, **ERASE)),
    "all by 3": (-1, Augment(**THREE, **ERASE)),
}


def write(folder: pathlib.Path, kind: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    plain, zstd = folder / f"{kind}.npy", folder / f"{kind}.zarr"
    if not zstd.exists():
        random = np.random.default_rng(0)
        wave = 190 + 3 * (np.arange(EXTENTS[-1]) // 64 % 16)
        array = (wave + random.integers(0, 31, EXTENTS)).astype(kind)
        np.save(plain, array)
        chunks = (1, 32, 64, 64)
        zarr.create_array(str(zstd), data=array, chunks=chunks, compressors=zarr.codecs.ZstdCodec())
    return {"uncompressed": str(plain), "zstd": str(zstd)}


def spent(pipeline: Pipeline, samples: list[Sample]) -> float:
    """Milliseconds of CPU for the samples, which are whole batches."""
    begun = time.process_time()
    pipeline.push(samples)
    for _ in range(len(samples) // BATCH):
        pipeline.pop().release()
    return 1e3 * (time.process_time() - begun)


def compare(name: str, uri: str, dtype: str, rounds: int) -> None:
    config = Config(
        samples_per_batch=BATCH,
        fields=[Field("x", CROP, dtype)],
        augment=True,
        n_decode_threads=1,
        n_io_threads=1,
        backend="host",
    )
    random = np.random.default_rng(1)
    times = {way: [] for way in WAYS}
    with Pipeline(config, fit={uri}) as pipeline:
        for number in range(rounds + 1):
            highest = np.array(EXTENTS) - CROP + 1
            begins = random.integers(0, highest, (BATCH, 4))
            for way in [WAYS, reversed(WAYS)][number % 2]:
                step, augment = WAYS[way]
                boxes = [
                    Box(uri, [*zip(b, b + CROP)], step=(1, 1, 1, step), augment=augment)
                    for b in begins
                ]
                found = spent(pipeline, [Sample(boxes=[box]) for box in boxes])
                if number > 0:
                    times[way].append(found)
    plain = np.array(times["plain"])
    row = " ".join(f"{way} {np.median(times[way] / plain):.2f}" for way in WAYS if way != "plain")
    print(f"{name:24} plain {np.median(plain):6.2f} ms; {row}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    for kind, dtype in [("u2", "f32"), ("u2", "bf16"), ("f4", "f32"), ("u1", "f16")]:
        for store, uri in write(options.folder, kind).items():
            name = f"{store} {kind} to {dtype}"
            if options.only in name:
                compare(name, uri, dtype, options.rounds)


if __name__ == "__main__":
    main()
