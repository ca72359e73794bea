"""Writes affine.bin: what scipy and torch make of affine maps over small arrays.

    python make_affine.py        (scipy 1.17, torch 2.15, numpy 2.4)

The file is a sequence of records, all numbers little-endian: u32 each of maker (0: scipy, 1:
torch), filter (0: nearest, 1: linear), pad (0: constant, 1: edge, 2: reflect), rank, then extents
and places of three axes, of which the first `rank` count; twelve f64 of the matrix; an f64, the pad
value; elements of the array as f32, row-major; and as f64 what each place holds, row-major.

Both compute in doubles, from an array of doubles that are all f32. scipy's `grid-constant`,
`nearest` and `mirror` are constant, edge and reflect; so are torch's `zeros`, `border` and
`reflection` with align_corners.

Half-way between two voxels scipy takes the upper one, as wavetrain does, and torch the even one.
Outside, scipy and torch fold the coordinate and then round it, wavetrain the other way round: a tie
that is mirrored goes to the other voxel. The last record of each maker has ties, all inside; the
last but one has ties that are mirrored; the others have none.
"""

import itertools
import pathlib

import numpy as np
import scipy.ndimage
import torch

RANDOM = np.random.default_rng(20250711)
SCIPY_MODES = ["grid-constant", "nearest", "mirror"]
TORCH_MODES = ["zeros", "border", "reflection"]


def by_scipy(array, matrix, offset, places, order, pad, value):
    modes = {"order": order, "mode": SCIPY_MODES[pad], "cval": value}
    return scipy.ndimage.affine_transform(
        array, matrix, offset, places, output=np.float64, prefilter=False, **modes
    )


def by_torch(array, matrix, offset, places, order, pad):
    """2 or 3 axes. grid_sample has -1 and 1 at the outer voxels, and x first."""
    at = np.stack(np.meshgrid(*map(np.arange, places), indexing="ij"), -1) @ matrix.T + offset
    grid = 2 * at / (np.array(array.shape) - 1) - 1
    sample = torch.nn.functional.grid_sample(
        torch.from_numpy(array)[None, None],
        torch.from_numpy(grid[..., ::-1].copy())[None],
        mode=["nearest", "bilinear"][order],
        padding_mode=TORCH_MODES[pad],
        align_corners=True,
    )
    return sample[0, 0].numpy()


def turned(rank):
    """A turn with some scale and shear."""
    matrix, _ = np.linalg.qr(RANDOM.normal(size=(rank, rank)))
    return matrix * RANDOM.uniform(0.5, 1.6) + RANDOM.normal(size=(rank, rank)) * 0.1


def record(maker, order, pad, matrix, offset, places, array, value):
    rank = array.ndim
    array = array.astype(np.float32).astype(np.float64)
    if maker == 0:
        result = by_scipy(array, matrix, offset, places, order, pad, value)
    else:
        result = by_torch(array, matrix, offset, places, order, pad)
    full = np.zeros((3, 4))
    full[:rank, :rank], full[:rank, 3] = matrix, offset
    extents, counts = ([*numbers, 1, 1, 1][:3] for numbers in (array.shape, places))
    parts = [np.array([maker, order, pad, rank, *extents, *counts], "<u4"), full.astype("<f8")]
    parts += [np.array([value], "<f8"), array.astype("<f4"), result.astype("<f8")]
    return b"".join(part.tobytes() for part in parts)


def random_record(maker, rank, order, pad, shift):
    extents, places = RANDOM.integers(3, 8, rank), RANDOM.integers(1, 7, rank)
    array = RANDOM.normal(size=extents) * 100
    matrix = turned(rank)
    centre = (extents - 1) / 2 + shift + RANDOM.uniform(-0.4, 0.4, rank)
    offset = centre - matrix @ ((places - 1) / 2)
    value = 0.0 if maker else -7.25
    return record(maker, order, pad, matrix, offset, tuple(places), array, value)


def main():
    out = bytearray()
    for maker, ranks in enumerate([(1, 2, 3), (2, 3)]):
        for rank, order, pad in itertools.product(ranks, (0, 1), (0, 1, 2)):
            for shift in (0.0, 2.5, -4.0):
                out += random_record(maker, rank, order, pad, shift)
        # Of an array of 5 x 5 the grid of torch is exact.
        array = RANDOM.permutation(25).reshape(5, 5).astype(np.float64)
        for offset in (-2.5, 0):
            out += record(maker, 0, 2, np.eye(2) * 0.5, np.full(2, offset), (9, 9), array, 0.0)
    pathlib.Path(__file__).with_name("affine.bin").write_bytes(out)


main()
