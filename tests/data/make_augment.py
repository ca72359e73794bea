#!/usr/bin/env python3
"""Writes what numpy and scipy make of boxes by files of `--augment`: tests/data/augment.json.

    python3.11 -m venv VENV
    VENV/bin/pip install numpy==2.4.6 scipy==1.17.1
    VENV/bin/python tests/data/make_augment.py [TARGET]

Each case has a .npy file, a box of it and the flags that pad it, the file of --augment, the type
and the bytes of the array that `wavetrain crop` writes; all bytes in hexadecimal. Maps have
multiples of 1/4, so that whole numbers between voxels are interpolated without rounding.
"""
import io
import json
import pathlib
import statistics
import sys

import numpy as np
import scipy.ndimage

RNG = np.random.default_rng(29)
QUANTILES = [statistics.NormalDist().inv_cdf((i + 0.5) / 2048) for i in range(2048)]
TABLE = (np.array(QUANTILES) * 0.7073325951129718).astype("f4")


def noise(key, shape):
    """z of wavetrain.h of the places of a sample."""
    h = np.arange(1, np.prod(shape, dtype="u8") + 1, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    h += np.uint64(key)
    for shift, factor in [(30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)]:
        h = (h ^ h >> np.uint64(shift)) * np.uint64(factor)
    return (TABLE[h >> np.uint64(53)] + TABLE[h >> np.uint64(42) & np.uint64(2047)]).reshape(shape)


def by_channel(numbers, shape, axis):
    """One number, or one for each place of an axis."""
    numbers = np.atleast_1d(np.array(numbers, "f4"))
    extents = [1] * len(shape)
    extents[axis] = numbers.size
    return numbers.reshape(extents) if numbers.size > 1 else numbers[0]


def augmented(elements, file, covered):
    """Floats of a sample; places that the box only pads are as they were, unless they go through."""
    axis = file.get("channel_axis", 0)
    plain = elements.astype("f4")
    x = plain
    if "scale" in file:
        x = x * by_channel(file["scale"], x.shape, axis)
    if "bias" in file:
        x = x + by_channel(file["bias"], x.shape, axis)
    if "noise" in file:
        x = x + np.float32(file["noise"]["sigma"]) * noise(file["noise"].get("key", 0), x.shape)
    low, high = file.get("clamp", [None, None])
    x = x if low is None else np.maximum(x, np.float32(low))
    x = x if high is None else np.minimum(x, np.float32(high))
    x = x.copy()
    for box in file.get("erase", []):
        places = tuple(slice(*ends) for ends in zip(box["begin"], box["end"]))
        values = box.get("values", box.get("value", 0))
        x[places] = np.broadcast_to(by_channel(values, x.shape, axis), x.shape)[places]
    return x if file.get("pad_goes_through") else np.where(covered, x, plain)


def case(image, box, file, dtype="f4", **pad):
    ends = [(max(-begin, 0), max(end - extent, 0)) for (begin, end), extent in zip(box, image.shape)]
    inner = tuple(slice(max(begin, 0), end) for begin, end in box)
    elements = np.pad(image[inner], ends, **pad) if pad else image[inner]
    covered = np.pad(np.ones(image[inner].shape, bool), ends)
    assert elements.shape == tuple(end - begin for begin, end in box)
    flags = ["--dtype", {"f4": "f32", "f2": "f16"}[dtype]] if dtype != "f4" else []
    return written(image, box, file, augmented(elements, file, covered).astype(dtype), flags, pad)


def mapped(image, box, file, mode, value=0):
    """By scipy, which has other names of modes. Axes that are not mapped are whole."""
    affine = file["affine"]
    size, rank = len(affine["matrix"]), len(box)
    matrix, offset = np.eye(rank), np.zeros(rank)
    axes = affine.get("axes", list(range(rank - size, rank)))
    for axis, row in zip(axes, affine["matrix"]):
        matrix[axis, axes], offset[axis] = row[:-1], row[-1]
    shape = tuple(end for _, end in box)
    order = {"nearest": 0, "linear": 1}[affine.get("filter", "linear")]

    def by_scipy(array, mode, value):
        return scipy.ndimage.affine_transform(
            array.astype("f8"), matrix, offset, shape, order=order, cval=value, prefilter=False,
            mode={"constant": "grid-constant", "edge": "nearest", "reflect": "mirror"}[mode])

    elements = by_scipy(image, mode, value)
    covered = (by_scipy(np.ones(image.shape), "constant", 0) > 0) | (mode != "constant")
    dtype = "f4" if order or len(file) > 1 else image.dtype
    made = augmented(elements, file, covered) if len(file) > 1 else elements
    pad = {"mode": mode} | ({"constant_values": value} if mode == "constant" else {})
    return written(image, box, file, made.astype(dtype), [], pad)


def written(image, box, file, expected, flags, pad):
    flags += ["--pad-mode", pad["mode"]] if pad else []
    if "constant_values" in pad:
        flags += ["--pad-value", str(pad["constant_values"])]
    array = io.BytesIO()
    np.save(array, image)
    kind = f"{expected.dtype.kind}{8 * expected.itemsize}"
    return {"array": array.getvalue().hex(), "box": ",".join(f"{b}:{e}" for b, e in box),
            "flags": flags, "file": file, "dtype": kind, "expected": expected.tobytes().hex()}


def cases():
    picture = RNG.integers(0, 256, (3, 6, 8), "u1")
    whole = [(0, 3), (0, 6), (0, 8)]
    yield case(picture, whole, {})
    yield case(picture, whole, {"scale": 0.25, "bias": [-1.5, 0.1, 2], "channel_axis": 0})
    yield case(picture, whole, {
        "scale": [1 / 255, 1 / 127, 3], "bias": -0.5, "noise": {"sigma": 0.3, "key": 2**64 - 1},
        "clamp": [-0.4, 9.5], "channel_axis": 0,
        "erase": [{"begin": [0, 1, 1], "end": [3, 4, 5], "values": [0.1, 0.2, 0.3]},
                  {"begin": [1, 3, 2], "end": [2, 6, 8], "value": -7}, {"begin": [0] * 3, "end": [1] * 3}]})
    yield case(picture, [(1, 2), (0, 6), (2, 8)], {"noise": {"sigma": 2}, "clamp": [None, 200]})
    edges = [(0, 3), (-2, 6), (1, 11)]
    scaled = {"scale": 0.5, "clamp": [3, None]}
    yield case(picture, edges, scaled, mode="reflect")
    yield case(picture, edges, scaled | {"pad_goes_through": True}, mode="reflect")
    yield case(picture, edges, scaled | {"pad_goes_through": False}, mode="constant",
               constant_values=9)
    volume = RNG.integers(-3000, 3000, (4, 5, 6)).astype(">i2")
    channels = {"scale": [1, 2, 3, 4, 5, 6], "channel_axis": 2, "bias": [0.1]}
    yield case(volume, [(0, 4), (0, 5), (0, 6)], channels)
    yield case(volume, [(1, 3), (0, 5), (2, 4)], {"scale": 1e-3, "channel_axis": 2}, "f2")
    turn = {"matrix": [[0.75, -0.5, 1.25], [0.5, 0.75, -0.75]]}
    near = {"matrix": [[0.75, -0.5, 1.375], [0.5, 0.75, -0.625]], "filter": "nearest"}
    scaled = {"scale": 0.5, "bias": [1, -2, 0.25], "channel_axis": 0, "clamp": [-1, 99]}
    pictures, volumes = [(0, 3), (0, 7), (0, 5)], [(0, 5), (0, 4), (0, 3)]
    yield mapped(picture, pictures, {"affine": turn}, "reflect")
    yield mapped(picture, pictures, {"affine": near}, "constant", 7)
    yield mapped(picture, pictures, {"affine": near | {"axes": [2, 1]}} | scaled, "edge")
    yield mapped(picture, pictures, {"affine": turn} | scaled, "constant", 7)
    through = {"affine": turn, "pad_goes_through": True} | scaled
    yield mapped(picture, pictures, through, "constant", 7)
    oblique = [[0.5, 0.25, -0.5, 0.75], [-0.25, 1.25, 0.5, 0], [0.75, 0, -1.5, 4.25]]
    oblique = {"matrix": oblique, "filter": "linear"}
    yield mapped(volume.astype("i2"), volumes, {"affine": oblique}, "edge")
    yield mapped(volume, volumes, {"affine": oblique | {"axes": [2, 0, 1]}}, "constant", -9)
    backwards = {"matrix": [[-0.5, 6.25]], "axes": [1], "level": 0}
    yield mapped(picture[0], [(0, 6), (0, 9)], {"affine": backwards}, "edge")


def main():
    target = pathlib.Path(__file__).with_name("augment.json")
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else target
    lines = ",\n".join(json.dumps(each) for each in cases())
    target.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
