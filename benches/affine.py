"""Random affine crops of a volume through the pipeline, beside a crop and torch, and a crop and scipy.

    python benches/affine.py [FOLDER]      (torch 2.15, scipy 1.17, numpy 2.4)

FOLDER gets a volume of 256^3 u16 as zarr (zstd, chunks of 64^3) and as .npy. A crop is 64^3 of f32,
turned about two axes by random angles and zoomed by 0.8 to 1.25. The pipeline gets boxes with a
map, in batches of four, on two threads. The peers read the hull through wavetrain.reader() with
two threads, and resample it: grid_sample on two threads, affine_transform on one. All have the same
maps, round by round in turn; medians of the rounds, and of their ratios to the pipeline.
"""

import math
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import scipy.ndimage
import torch
import zarr

import wavetrain
from wavetrain import Affine, Box, Config, Field, Sample

VOLUME, EDGE, BATCH, CROPS, ROUNDS = 256, 64, 4, 24, 9


def drawn(dice):
    """Matrix and offset of a map about a random centre."""
    (a, b), zoom = dice.uniform(-0.5, 0.5, 2), dice.uniform(0.8, 1.25)
    s, c, t, d = math.sin(a), math.cos(a), math.sin(b), math.cos(b)
    matrix = np.array([[c, -s, 0], [s * d, c * d, -t], [s * t, c * t, d]]) / zoom
    return matrix, dice.uniform(60, VOLUME - 60, 3) - matrix.sum(1) * (EDGE - 1) / 2


def hull_of(matrix, offset):
    ends = np.stack([np.minimum(matrix, 0), np.maximum(matrix, 0)]).sum(2) * (EDGE - 1) + offset
    low = np.clip(np.floor(ends[0]).astype(int), 0, VOLUME - 1)
    return low, np.clip(np.ceil(ends[1]).astype(int), 0, VOLUME - 1) + 1


def by_torch(hull, matrix, offset):
    # In the terms of grid_sample -1 and 1 are the centres of the outer voxels, and x is first.
    size, half = np.array(hull.shape), (EDGE - 1) / 2
    centre = matrix.sum(1) * half + offset
    theta = np.column_stack([matrix * half * 2 / (size - 1)[:, None], centre * 2 / (size - 1) - 1])
    theta = torch.from_numpy(theta[::-1][:, [2, 1, 0, 3]].copy()).float()[None]
    shape = (1, 1, EDGE, EDGE, EDGE)
    grid = torch.nn.functional.affine_grid(theta, shape, align_corners=True)
    image = torch.from_numpy(hull.astype("f4"))[None, None]
    sample = torch.nn.functional.grid_sample
    return sample(image, grid, padding_mode="border", align_corners=True)[0, 0].numpy()


def by_scipy(hull, matrix, offset):
    transform = scipy.ndimage.affine_transform
    return transform(hull, matrix, offset, (EDGE,) * 3, output="f4", order=1, mode="nearest")


def by_pipeline(pipeline, uri, maps):
    whole = [(0, EDGE)] * 3
    boxes = [Box(uri, whole, affine=Affine(np.column_stack(each))) for each in maps]
    pipeline.push(Sample(boxes=[box]) for box in boxes)
    made = []
    for _ in range(len(maps) // BATCH):
        with pipeline.pop() as batch:
            made.append(float(np.asarray(batch)[0, 0, 0, 0]))
    return made


def by_peer(resample, uri, maps):
    reader, made = wavetrain.reader(n_decode_threads=2), []
    for matrix, offset in maps:
        low, high = hull_of(matrix, offset)
        hull = reader.read(uri, list(zip(low.tolist(), high.tolist())))
        made.append(float(resample(hull, matrix, offset - low)[0, 0, 0]))
    return made[::BATCH]


def main():
    torch.set_num_threads(2)
    given = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    folder, dice = pathlib.Path(given), np.random.default_rng(1)
    # As smooth as what a microscope sees, so that zstd has something to do.
    volume = scipy.ndimage.gaussian_filter(dice.normal(0, 9e4, (VOLUME,) * 3).astype("f4"), 4)
    volume = (volume + 3000 + dice.integers(0, 64, volume.shape)).clip(0, 65535).astype("u2")
    zarr.create_array(folder / "volume.zarr", data=volume, chunks=(64,) * 3, overwrite=True)
    np.save(folder / "volume.npy", volume)
    field = Field("x", (EDGE,) * 3, "f32", pad_mode="edge")
    config = Config(
        samples_per_batch=BATCH, fields=[field], augment=True, n_decode_threads=2, backend="host"
    )
    for name in ("volume.zarr", "volume.npy"):
        uri = str(folder / name)
        with wavetrain.Pipeline(config) as pipeline:
            ways = {
                "pipeline": lambda maps: by_pipeline(pipeline, uri, maps),
                "crop, torch": lambda maps: by_peer(by_torch, uri, maps),
                "crop, scipy": lambda maps: by_peer(by_scipy, uri, maps),
            }
            spent = {way: [] for way in ways}
            for turn in range(ROUNDS + 1):
                maps, firsts = [drawn(dice) for _ in range(CROPS)], []
                for way, work in ways.items():
                    start = time.perf_counter(), time.process_time()
                    firsts.append(work(maps))
                    ends = time.perf_counter() - start[0], time.process_time() - start[1]
                    if turn:
                        spent[way].append(ends)
                assert np.allclose(firsts, firsts[0], atol=2), "they resample the same voxels"
        for way, times in spent.items():
            each = statistics.median(clock for clock, _ in times) / CROPS
            ratios = [
                statistics.median(a[k] / b[k] for a, b in zip(times, spent["pipeline"], strict=True))
                for k in range(2)
            ]
            print(
                f"{name:12} {way:12} {1000 * each:7.2f} ms a crop, "
                f"{ratios[0]:6.2f} of the pipeline by clock, {ratios[1]:6.2f} by CPU"
            )


main()
