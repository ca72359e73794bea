"""Pictures as an `AugmentSpec` makes them, in numpy: the arithmetic of wavetrain_augment, in
float32, one rounding for each operation.

In: pictures as an array [N, ...], and a spec for each. Out: an array of its own, of the same bits
as a pipeline gives. Nothing here draws.
"""

from __future__ import annotations

import functools
import importlib
import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavetrain._recipes import AugmentSpec

Array = Any  # of numpy

NAN_BITS = 0x7FC00000
TABLE_SIZE, TABLE_SCALE = 2048, 0.7073325951129718
U64 = (1 << 64) - 1
ONE, UNIT = 1 << 32, 1 << 24


@functools.cache
def numpy_() -> Any:
    """numpy, which `import wavetrain` does without."""
    return importlib.import_module("numpy")


@functools.cache
def noise_table() -> Array:
    """The quantiles that noise is added up from: float32 [2048]."""
    numpy: Any = numpy_()
    quantile = statistics.NormalDist().inv_cdf
    places = [(place + 0.5) / TABLE_SIZE for place in range(TABLE_SIZE)]
    return numpy.array([quantile(place) * TABLE_SCALE for place in places]).astype("f4")


def noise(key: int, shape: tuple[int, ...]) -> Array:
    """Normal noise of a key, for the places of a picture: float32 [*shape]."""
    numpy: Any = numpy_()
    count = int(numpy.prod(shape, dtype="u8"))
    with numpy.errstate(over="ignore"):
        h = numpy.arange(1, count + 1, dtype="u8") * numpy.uint64(0x9E3779B97F4A7C15)
        h += numpy.uint64(key)
        h = (h ^ h >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ h >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
        h = h ^ h >> numpy.uint64(31)
    table = noise_table()
    low = table[h >> numpy.uint64(42) & numpy.uint64(TABLE_SIZE - 1)]
    return (table[h >> numpy.uint64(53)] + low).reshape(shape)


def fill(made: Array, x: Array, specs: list[AugmentSpec]) -> None:
    """Writes pictures x [N, *sample] as their specs make them to made [N, *spec.shape]: float32, or
    without arithmetic the type of x."""
    for target, source, spec in zip(made, x, specs):
        moved = picture(source, spec)
        target[...] = computed(moved, spec) if made.dtype == "f4" else moved
        erase(target, spec)


def computed(x: Array, spec: AugmentSpec) -> Array:
    """The arithmetic of one picture but for its erased boxes: float32 of its own."""
    numpy: Any = numpy_()
    with numpy.errstate(all="ignore"):
        x = numpy.array(x, "f4")
        if spec.scale is not None:
            x = x * by_channel(spec.scale, spec, x.ndim)
        if spec.bias is not None:
            x = x + by_channel(spec.bias, spec, x.ndim)
        if spec.noise_sigma:
            x = x + numpy.float32(spec.noise_sigma) * noise(spec.noise_key, x.shape)
        if spec.clamp is not None:
            low, high = (numpy.float32(limit) for limit in spec.clamp)
            x = numpy.where(x < low, low, x)
            x = numpy.where(x > high, high, x)
    x[numpy.isnan(x)] = numpy.uint32(NAN_BITS).view("f4")
    return x


def by_channel(numbers: tuple[float, ...], spec: AugmentSpec, rank: int) -> Array:
    """Numbers along the axis of channels, or one for all."""
    extents = [1] * rank
    if len(numbers) > 1:
        extents[spec.channel_axis] = len(numbers)
    return numpy_().array(numbers, "f4").reshape(extents)


def erase(x: Array, spec: AugmentSpec) -> None:
    """Overwrites the erased boxes of a picture, in place."""
    for each in spec.erases:
        part = x[tuple(slice(begin, end) for begin, end in zip(each.begin, each.end))]
        part[...] = by_channel(each.values, spec, x.ndim).astype(x.dtype)


# ---- Elements that places read ------------------------------------------------------------------


def picture(x: Array, spec: AugmentSpec) -> Array:
    """The elements of a picture that the spec's box reads, padded; may be a view."""
    if spec.affine is not None:
        return resampled(x, spec)
    numpy: Any = numpy_()
    is_outside = None
    for axis, (begin, end, step) in enumerate(zip(spec.begin, spec.end, spec.step)):
        extent = x.shape[axis]
        if (begin, end, step) == (0, extent, 1):
            continue
        first = begin if step > 0 else end - 1
        places = first + step * numpy.arange(-((begin - end) // abs(step)))
        x = x.take(inside(places, extent, spec.pad_mode), axis)
        if spec.pad_mode == "constant":
            along = ((places < 0) | (places >= extent)).reshape(
                [-1 if each == axis else 1 for each in range(x.ndim)]
            )
            is_outside = along if is_outside is None else is_outside | along
    if is_outside is not None and is_outside.any():
        x = numpy.where(is_outside, numpy.asarray(spec.pad_value).astype(x.dtype), x)
    return x


def inside(places: Array, extent: int, pad_mode: str) -> Array:
    """The elements that stand for places, some of which may be outside of [0, extent)."""
    numpy: Any = numpy_()
    if pad_mode == "reflect" and extent > 1:
        period = 2 * (extent - 1)
        places = places % period
        return numpy.where(places < extent, places, period - places)
    return numpy.clip(places, 0, extent - 1)


def resampled(x: Array, spec: AugmentSpec) -> Array:
    """A picture through its affine map, as src/resample has it, in whole multiples of 2^-32.
    Nearest: the voxel floor(v + 1/2). Linear: v is rounded to multiples of 2^-24; then
    a + (b - a) * w along each axis, the last one first, in float32."""
    numpy: Any = numpy_()
    affine = spec.affine
    assert affine is not None
    axes = affine.axes
    extents = [spec.shape[axis] for axis in axes]
    grid = numpy.meshgrid(*map(numpy.arange, extents), indexing="ij")
    rows = [[round(number * ONE) for number in row] for row in affine.matrix]
    voxels: list[Array] = []
    for row in rows[: len(axes)]:
        sums = [number * place.astype("i8") for number, place in zip(row, grid)]
        voxels.append(functools.reduce(numpy.add, sums) + row[3])
    x = numpy.moveaxis(x, axes, range(-len(axes), 0))
    made = linear(x, voxels, spec) if affine.is_linear else nearest(x, voxels, spec)
    return numpy.moveaxis(made, range(-len(axes), 0), axes)


def nearest(x: Array, voxels: list[Array], spec: AugmentSpec) -> Array:
    return tap(x, [voxel + ONE // 2 >> 32 for voxel in voxels], spec)


def tap(x: Array, places: list[Array], spec: AugmentSpec) -> Array:
    """The elements at places of the last axes."""
    numpy: Any = numpy_()
    extents = x.shape[x.ndim - len(places) :]
    pairs = list(zip(places, extents))
    found = x[(..., *(inside(each, extent, spec.pad_mode) for each, extent in pairs))]
    if spec.pad_mode == "constant":
        outside = [(each < 0) | (each >= extent) for each, extent in pairs]
        is_outside = functools.reduce(numpy.logical_or, outside)
        found = numpy.where(is_outside, numpy.asarray(spec.pad_value).astype(x.dtype), found)
    return found


def linear(x: Array, voxels: list[Array], spec: AugmentSpec) -> Array:
    """Edge and reflect fold a voxel into the array before it has two taps."""
    extents = x.shape[x.ndim - len(voxels) :]
    units = [voxel + (1 << 7) >> 8 for voxel in voxels]
    if spec.pad_mode != "constant":
        folded = zip(units, extents)
        units = [inside(each, (extent - 1) * UNIT + 1, spec.pad_mode) for each, extent in folded]
    with numpy_().errstate(all="ignore"):
        return taps(x.astype("f4"), units, spec)


def taps(x: Array, units: list[Array], spec: AugmentSpec, fixed: tuple[Array, ...] = ()) -> Array:
    """Between the two voxels of each axis that is not fixed yet, in multiples of 2^-24."""
    numpy: Any = numpy_()
    if len(fixed) == len(units):
        return tap(x, list(fixed), spec)
    lower, weight = numpy.divmod(units[len(fixed)], UNIT)
    weight = (weight / UNIT).astype("f4")
    a = taps(x, units, spec, (*fixed, lower))
    b = taps(x, units, spec, (*fixed, lower + 1))
    return numpy.where(weight == 0, a, a + (b - a) * weight)
