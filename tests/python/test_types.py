"""Casts of arrays that zarr-python wrote to every type, against numpy's astype."""

import numpy as np
import pytest

import wavetrain

zarr = pytest.importorskip("zarr")

TRUTH = ["bool"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
SIGNED = ["int8", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]
ALL = [*TRUTH, *UNSIGNED, *SIGNED, *FLOATS]


def has_cast(source, target):
    """Whether the library promises the cast."""
    if source == target or (source == "bool" and target in ALL):
        return True
    if target in ("float16", "float32"):
        return source != "bool"
    if target == "float64":
        return source in UNSIGNED + SIGNED
    is_wider = np.can_cast(source, target)
    if target in ("int32", "int64"):
        return source in UNSIGNED + SIGNED and is_wider
    return source in UNSIGNED and target in UNSIGNED and is_wider


def short(name):
    """The library's name of a type of numpy: u16."""
    return name if name == "bool" else f"{name[0]}{8 * np.dtype(name).itemsize}"


@pytest.mark.parametrize("codec", ["auto", None], ids=["zstd", "uncompressed"])
@pytest.mark.parametrize("source", ALL)
def test_every_type_becomes_what_numpy_makes_of_it_or_is_refused_by_name(tmp_path, source, codec):
    random = np.random.default_rng(3)
    values = random.integers(0, 256, (40, 8 * np.dtype(source).itemsize), dtype=np.uint8)
    values = values % 2 == 1 if source == "bool" else values.view(source)
    uri = str(tmp_path / "a.zarr")
    how = {"chunks": (7, values.shape[1]), "compressors": codec}
    zarr.create_array(uri, shape=values.shape, dtype=source, **how)[:] = values
    box = [(3, 31), (1, values.shape[1])]
    for target in ALL:
        with wavetrain.Reader(dtype=target, backend="host") as reader:
            if not has_cast(source, target):
                with pytest.raises(wavetrain.DtypeMismatch) as refusal:
                    reader.read(uri, box)
                named = str(refusal.value).split("set dtype to one of ")[1]
                named = named.split(", or saturate=True, which clamps")[0].split(", ")
                works = [short(target) for target in ALL if has_cast(source, target)]
                assert sorted(named) == sorted([*works, "bf16", "raw"])
                continue
            found = reader.read(uri, box)
            with np.errstate(over="ignore", invalid="ignore"):
                want = values[3:31, 1:].astype(target)
            assert found.dtype == want.dtype
            if want.dtype.kind == "f":
                is_nan = np.isnan(want)
                np.testing.assert_array_equal(np.isnan(found), is_nan)
                found, want = found[~is_nan], want[~is_nan]
            np.testing.assert_array_equal(found.view(np.uint8), want.view(np.uint8))
