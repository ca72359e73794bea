"""The names that a program gets of the package."""

from __future__ import annotations

import sys

import wavetrain

# Modules that stand beside it in a program.
OTHERS = {"fsspec", "numpy", "torch", "jax", "cupy", "zarr", "h5py", "dask", "ray", "tiles"}


def test_a_star_hides_no_module():
    names: dict[str, object] = {}
    exec("from wavetrain import *", names)
    assert not {*names} & (sys.stdlib_module_names | OTHERS)
    assert callable(wavetrain.fsspec)
