#!/usr/bin/env python3
"""Writes arrays and what numpy finds in them, packed in one file.

    python3.11 -m venv VENV
    VENV/bin/pip install zarr==3.1.6 numcodecs==0.16.6 numpy==2.4.6 zstandard==0.25.0
    VENV/bin/python tests/data/make_statistics.py       # writes tests/data/statistics.tar.zst

The tar has stores of zarr-python and a file of numpy (`stores/NAME`), and cases.json: of a store and
a box, of all of it or of each index along an axis, the figures of `wavetrain stats`. Means and
deviations come out of exact sums (integers and fractions of Python, math.fsum), the others out of
numpy.
"""
import hashlib
import io
import json
import math
import pathlib
import shutil
import sys
import tarfile
import tempfile
from fractions import Fraction

import numpy as np
import zarr
import zstandard
from zarr.codecs import ZstdCodec

zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})
HERE = pathlib.Path(__file__).parent
ROOT = pathlib.Path(tempfile.mkdtemp(prefix="wavetrain-statistics-"))
RNG = np.random.default_rng(23)
PERCENTS = [0.1, 1, 5, 25, 50, 75, 95, 99, 99.9]

# Name: type, shape, chunks, shards, fill value.
SMALL = {
    "u8": ("u1", (9, 17, 23), (4, 5, 7), None, 3),
    "i8": ("i1", (9, 17, 23), (4, 5, 7), None, -3),
    "u16": (">u2", (9, 17, 23), (2, 5, 7), (4, 10, 14), 7),
    "i16": ("i2", (9, 17, 23), (4, 5, 7), None, -7),
    "u32": ("u4", (9, 17, 23), (4, 5, 7), None, 0),
    "i32": ("i4", (9, 17, 23), (4, 5, 7), None, -1),
    "u64": ("u8", (9, 17, 23), (4, 5, 7), None, 2**64 - 1),
    "i64": ("i8", (9, 17, 23), (4, 5, 7), None, 0),
    "f16": ("f2", (9, 17, 23), (4, 5, 7), None, 0.5),
    "f32": (">f4", (9, 17, 23), (4, 5, 7), None, 0.0),
    "f32_nan": ("f4", (9, 17, 23), (2, 5, 7), (4, 10, 14), math.nan),
    "f64": ("f8", (9, 17, 23), (4, 5, 7), None, -1e30),
    "bool": ("?", (9, 17, 23), (4, 5, 7), None, True),
}
# More than one sample each, and chunks that no box meets.
LARGE = {
    "large_u16": ("u2", (3, 130, 150, 70), (1, 64, 64, 64), None, 11),
    "large_f32": ("f4", (150, 130, 90), (32, 48, 64), (64, 96, 128), math.nan),
}
# Integers that no double has, and reals far from 0.
FAR = {"far_i64": ("i8", 2**62), "far_f64": ("f8", 1e9), "near_i32": ("i4", 10**6)}


def image_of(dtype, shape):
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return RNG.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return RNG.integers(info.min, info.max, shape, kind.newbyteorder("="), True).astype(kind)
    image = RNG.normal(5, 3, shape).astype(kind)
    image[RNG.random(shape) < 0.05] = math.nan
    return image


def large_of(dtype, shape):
    """Waves, which compress; of floats some are NaN."""
    places = np.meshgrid(*[np.arange(extent) for extent in shape], indexing="ij", sparse=True)
    wave = sum(place * (7 * axis + 3) for axis, place in enumerate(places)) % 251
    image = np.broadcast_to(wave, shape).astype(dtype)
    if image.dtype.kind == "f":
        image = image / np.float32(8)
        image[wave % 50 == 5] = math.nan
    return image


def write(name, image, chunks, shards, fill):
    array = zarr.create_array(
        ROOT / "stores" / name, shape=image.shape, chunks=chunks, shards=shards, dtype=image.dtype,
        fill_value=fill, compressors=[ZstdCodec(level=19)], config={"write_empty_chunks": False})
    array[...] = image
    assert np.array_equal(array[...], image, equal_nan=image.dtype.kind == "f")


def exact(numbers):
    """Mean and deviation, rounded once."""
    count = numbers.size
    if numbers.dtype.kind in "iub":
        whole = [int(number) for number in numbers]
        mean = Fraction(sum(whole), count)
        return float(mean), math.sqrt(Fraction(sum(n * n for n in whole), count) - mean * mean)
    real = numbers.astype("f8")
    mean = math.fsum(real) / count
    # The rounding of the mean is made up for.
    shift = math.fsum(real - mean) / count
    return mean, math.sqrt(math.fsum((real - mean) ** 2) / count - shift * shift)


def plain(number):
    """As the tool's JSON has it."""
    number = number.item() if isinstance(number, np.generic) else number
    if isinstance(number, float) and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return int(number) if isinstance(number, bool) else number


def figures(elements, fill):
    elements = elements.ravel().astype(elements.dtype.newbyteorder("="))
    is_real = elements.dtype.kind == "f"
    is_nan = np.isnan(elements) if is_real else np.zeros(elements.size, bool)
    is_fill = is_nan if is_real and math.isnan(fill) else elements == elements.dtype.type(fill)
    numbers = elements[~is_nan]
    found = {"count": numbers.size, "nan_count": int(is_nan.sum()),
             "fill_share": int(is_fill.sum()) / elements.size}
    if numbers.size == 0:
        return found | dict.fromkeys(["min", "max", "mean", "std", "percentiles"])
    mean, std = exact(numbers)
    percentiles = np.percentile(numbers.astype("f8"), PERCENTS)
    return found | {"min": plain(numbers.min()), "max": plain(numbers.max()), "mean": mean,
                    "std": std, "percentiles": percentiles.tolist()}


def case(name, image, fill, box=None, axis=None):
    part = image if box is None else image[tuple(slice(*ends) for ends in box)]
    sets = [part] if axis is None else np.moveaxis(part, axis, 0)
    return {"store": name, "dtype": image.dtype.name, "box": box, "axis": axis,
            "fill_value": plain(np.asarray(fill, image.dtype)[()]),
            "sets": [figures(np.asarray(elements), fill) for elements in sets]}


def cases():
    for name, (dtype, shape, chunks, shards, fill) in SMALL.items():
        image = image_of(dtype, shape)
        # Chunks of fill value, which are not written, and a part of others.
        image[4:, 5:11, :] = fill
        write(name, image, chunks, shards, fill)
        box = [[1, 8], [3, 16], [5, 22]]
        yield case(name, image, fill)
        yield case(name, image, fill, box)
        for axis in range(3):
            yield case(name, image, fill, box if axis == 1 else None, axis)
        yield case(name, image, fill, [[5, 6], [6, 7], [2, 3]])
    for name, (dtype, shape, chunks, shards, fill) in LARGE.items():
        image = large_of(dtype, shape)
        image[..., 64:128, :] = fill
        write(name, image, chunks, shards, fill)
        box = [[1, extent - 2] for extent in shape]
        box[0] = [0, shape[0]]
        yield case(name, image, fill)
        yield case(name, image, fill, box, len(shape) - 1)
        yield case(name, image, fill, box, 0)
    for name, (dtype, offset) in FAR.items():
        noise = RNG.normal(0, 1, (40, 90)) if dtype == "f8" else RNG.integers(0, 50, (40, 90))
        image = (noise.astype(dtype) + np.asarray(offset, dtype)).astype(dtype)
        write(name, image, (7, 20), None, 0)
        yield case(name, image, 0)
        yield case(name, image, 0, None, 1)
    image = np.asfortranarray(image_of("i2", (31, 40)))
    np.save(ROOT / "stores" / "file.npy", image)
    yield case("file.npy", image, 0, [[4, 30], [0, 40]], 0)


def pack(target, listed):
    """One tar of everything, in name order and without times, compressed."""
    lines = ",\n".join(json.dumps(one, allow_nan=False) for one in listed)
    (ROOT / "cases.json").write_text(f"[\n{lines}\n]\n")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(p for p in ROOT.rglob("*") if p.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(ROOT)))
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    packed = zstandard.ZstdCompressor(level=19, write_checksum=True).compress(buffer.getvalue())
    pathlib.Path(target).write_bytes(packed)
    print(len(listed), "cases,", buffer.tell(), "bytes,", len(packed), "packed, sha256",
          hashlib.sha256(packed).hexdigest()[:16])


def main():
    try:
        (ROOT / "stores").mkdir()
        target = HERE / "statistics.tar.zst"
        pack(sys.argv[1] if len(sys.argv) > 1 else target, list(cases()))
    finally:
        shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
