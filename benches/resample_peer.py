"""The crops of benches/resample.rs by torch and by scipy: M places per second.

    python benches/resample_peer.py        (torch 2.15, scipy 1.17, numpy 2.4)

A crop is what a training loop does: the hull is cut out of the volume, becomes a tensor of f32, and
goes through affine_grid and grid_sample on two threads; or affine_transform of scipy takes it to
f32, on one. The median of nine turns, per second of the clock and per second of CPU time.
"""

import functools
import math
import statistics
import time

import numpy as np
import scipy.ndimage
import torch

VOLUME, EDGE, TURNS = 160, 64, 9


def turned(centre, scale):
    s, c, t, d = math.sin(0.3), math.cos(0.3), math.sin(0.2), math.cos(0.2)
    matrix = scale * np.array([[c, -s, 0], [s * d, c * d, -t], [s * t, c * t, d]])
    return matrix, centre - matrix.sum(1) * (EDGE - 1) / 2


def cut(volume, matrix, offset):
    """The hull, and the offset from its first voxel on."""
    ends = np.stack([np.minimum(matrix, 0), np.maximum(matrix, 0)]).sum(2) * (EDGE - 1) + offset
    low = np.clip(np.floor(ends[0]).astype(int), 0, VOLUME - 1)
    high = np.clip(np.ceil(ends[1]).astype(int), 0, VOLUME - 1)
    return volume[tuple(slice(a, b + 1) for a, b in zip(low, high))], offset - low


def by_torch(volume, matrix, offset, padding, mode):
    hull, offset = cut(volume, matrix, offset)
    # In the terms of grid_sample -1 and 1 are the centres of the outer voxels, and x is first.
    size, half = np.array(hull.shape), (EDGE - 1) / 2
    centre = matrix.sum(1) * half + offset
    theta = np.column_stack([matrix * half * 2 / (size - 1)[:, None], centre * 2 / (size - 1) - 1])
    theta = theta[::-1][:, [2, 1, 0, 3]]
    image = torch.from_numpy(np.ascontiguousarray(hull)).float()[None, None]
    grid = torch.nn.functional.affine_grid(
        torch.from_numpy(theta.copy()).float()[None], (1, 1, EDGE, EDGE, EDGE), align_corners=True
    )
    sample = torch.nn.functional.grid_sample
    return sample(image, grid, mode=mode, padding_mode=padding, align_corners=True)[0, 0].numpy()


def by_scipy(volume, matrix, offset, padding, order):
    hull, offset = cut(volume, matrix, offset)
    transform = scipy.ndimage.affine_transform
    return transform(
        hull, matrix, offset, (EDGE,) * 3, output=np.float32, order=order, mode=padding
    )


def rates(work):
    """M places per second, by the clock and by the CPU time of all threads."""
    work()
    spent = []
    for _ in range(TURNS):
        start = time.perf_counter(), time.process_time()
        work()
        spent.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return [EDGE**3 / statistics.median(times) / 1e6 for times in zip(*spent, strict=True)]


def main():
    torch.set_num_threads(2)
    volume = np.random.default_rng(1).integers(0, 65536, (VOLUME,) * 3, np.uint16)
    inside, corner = turned(80, 1.1), turned(10, 1.1)
    names = ["torch", "torch, CPU", "scipy", "scipy, CPU"]
    print(f"{'M places/s':32}", *(f"{name:>12}" for name in names))
    for name, (matrix, offset), padding, mode in [
        ("turned, linear, u16 to f32", inside, ("border", "nearest"), ("bilinear", 1)),
        ("turned, nearest, u16 to f32", inside, ("border", "nearest"), ("nearest", 0)),
        ("at a corner, constant, u16", corner, ("zeros", "grid-constant"), ("bilinear", 1)),
        ("at a corner, edge, u16", corner, ("border", "nearest"), ("bilinear", 1)),
        ("at a corner, reflect, u16", corner, ("reflection", "mirror"), ("bilinear", 1)),
    ]:
        rows = [
            rates(functools.partial(crop, volume, matrix, offset, *how))
            for crop, *how in zip((by_torch, by_scipy), padding, mode, strict=True)
        ]
        print(f"{name:32}", *(f"{rate:12.1f}" for peer in rows for rate in peer))


main()
