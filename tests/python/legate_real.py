"""What Legate itself makes of wavetrain.engines.legate: bytes of all kinds, and errors of tasks.

    LEGATE_CONFIG='--cpus 2 --gpus 0' python tests/python/legate_real.py FOLDER

tools/engines.sh runs it. test_engines_legate.py has the rest, on a runtime that stands in.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy
import pytest
import zarr

import wavetrain
from wavetrain.engines import legate

random = numpy.random.default_rng(1)
folder = Path(sys.argv[1])


def drawn(shape: tuple[int, ...], dtype: str) -> numpy.ndarray:
    return random.integers(0, 2 if dtype == "?" else 120, shape).astype(dtype)


def check(uri: Path, wanted: numpy.ndarray) -> None:
    for tiles in (1, 3, 64):
        made = numpy.asarray(legate.load(uri, tiles))
        assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape), uri
        numpy.testing.assert_array_equal(made, wanted, str(uri))


def test_files() -> None:
    for dtype in ("u1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "?"):
        for shape in ((37, 5, 3), (101,), (2, 9)):
            wanted = drawn(shape, dtype)
            numpy.save(folder / "a.npy", wanted)
            check(folder / "a.npy", wanted)


def test_numbered_files() -> None:
    wanted, at = drawn((50, 8), "i4"), 0
    (folder / "parts").mkdir()
    for number, rows in enumerate((7, 1, 20, 0, 22)):
        numpy.save(folder / f"parts/p_{number:02d}.npy", wanted[at : at + rows])
        at += rows
    check(folder / "parts", wanted)
    check(folder / "parts/p_*.npy", wanted)


def test_zarr_and_errors() -> None:
    wanted = drawn((70, 33, 20), "u2")
    array = zarr.create_array(
        folder / "z.zarr", shape=wanted.shape, chunks=(8,) * 3, shards=(32,) * 3, dtype="u2"
    )
    array[...] = wanted
    check(folder / "z.zarr", wanted)
    shutil.copytree(folder / "z.zarr", folder / "damaged.zarr")
    file = folder / "damaged.zarr/c/1/0/0"
    data = bytearray(file.read_bytes())
    data[:4] = bytes(4)
    file.write_bytes(data)
    for _ in range(2):
        with pytest.raises(wavetrain.DecodeError, match=r"chunk \[4, 0, 0\] in c/1/0/0"):
            legate.load(folder / "damaged.zarr", 2)
        # The runtime works on.
        check(folder / "z.zarr", wanted)
    with pytest.raises(wavetrain.NotFound, match="absent"):
        legate.load(folder / "absent.npy")
    numpy.save(folder / "short.npy", wanted)
    whole = (folder / "short.npy").read_bytes()
    (folder / "short.npy").write_bytes(whole[:-5])
    with pytest.raises(wavetrain.DecodeError, match="its shape needs"):
        legate.load(folder / "short.npy")


test_files()
test_numbered_files()
test_zarr_and_errors()
print("legate: bytes and errors are as they should be")
