"""Recipes of augmentation, on batches of numpy and as what a pipeline takes.

    from wavetrain.augment import horizontal_flip, normalize, random_crop, to_float

    filters = [
        random_crop(padding=4, crop_size=32, pad_mode="reflect"),
        horizontal_flip(p=0.5),
        to_float(scale=255.0),
        normalize(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010)),
    ]
    xb, yb = apply_filters((xb, yb), filters)

A recipe is an object. It is called on (xb, yb), which stay as they are, and returns arrays of its
own. Its draws depend on a seed, a place (epoch, position) and its name, as in wavetrain_recipes.h.
The same place gets the same picture at any number of ranks, threads and samples of a batch. Its
`augment(epoch, position, shape)` is what a pipeline takes. Functions of (xb, yb) may stand between
recipes.

Recipes that follow each other are one pass where they can be: x * scale + bias, noise, clamp, erase
in float32, as wavetrain_augment has it, each operation rounded once. So to_float multiplies by
1 / 255 rather than divides, and a pipeline gives the same bits. `split` finds the recipes that a
pipeline can run.

Pictures are arrays [N, C, H, W]; [N, H, W] and [N, C, D, H, W] are taken too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast, overload

from wavetrain import _border
from wavetrain._augmenters import (
    FLOAT32_MAX,
    Clamp,
    ColorJitter,
    Cutout,
    GaussianNoise,
    HorizontalFlip,
    Normalize,
    RandomAffine,
    RandomCrop,
    RandomErase,
    RandomFlip,
    ToFloat,
    floats,
    mode_of,
    number,
    pair,
)
from wavetrain._border import short
from wavetrain._orders import Place
from wavetrain._pixels import Array, numpy_
from wavetrain._recipes import (
    AffineSpec,
    AugmentSpec,
    Erased,
    FilterFn,
    Recipe,
    Values,
    named,
    passes,
    run_of,
    shape_from,
    spatial_of,
    specs_of,
)

__all__ = [
    "AffineSpec",
    "AugmentSpec",
    "Erased",
    "FilterFn",
    "Place",
    "Recipe",
    "apply_color_jitter",
    "apply_filters",
    "augment",
    "basic_cifar10_filters",
    "clamp",
    "color_jitter",
    "cutout",
    "default_cifar10_filters",
    "flip_horizontal",
    "gaussian_noise",
    "horizontal_flip",
    "normalize",
    "random_affine",
    "random_crop",
    "random_erase",
    "random_flip",
    "split",
    "to_float",
]

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


# ---- Recipes that move --------------------------------------------------------------------------


def random_crop(
    padding: int = 4,
    crop_size: int | Iterable[int] = 32,
    pad_mode: str = "reflect",
    pad_value: float = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Recipe:
    """Pads each axis of space at both ends, and cuts a part of crop_size out (one for all axes, or
    one for each), elsewhere for each sample. [N, C, H, W] becomes [N, C, crop_size, crop_size].

    pad_mode: "reflect", "edge" or "constant" of pad_value, as numpy.pad has them.
    """
    return RandomCrop(padding, crop_size, pad_mode, pad_value, name, seed)


def random_flip(
    p: float = 0.5, axis: int = -1, *, name: str | None = None, seed: int | None = None
) -> Recipe:
    """Flips each sample with probability p along an axis of space: -1 the last one, -2, -3."""
    return RandomFlip(p, axis, name, seed)


def horizontal_flip(p: float = 0.5, *, name: str | None = None, seed: int | None = None) -> Recipe:
    """Flips each sample with probability p along its last axis."""
    return HorizontalFlip(p, -1, name, seed)


def random_affine(
    degrees: float | Iterable[float] = 0.0,
    zoom: float | Iterable[float] = 1.0,
    shear: float = 0.0,
    shift: float = 0.0,
    filter: str = "linear",
    pad_mode: str = "constant",
    pad_value: float = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Recipe:
    """Turns, zooms, shears and shifts each sample about its centre; its shape stays.

    degrees: angles are between minus this and this, 0 to 180. Volumes have one about each axis of
        space, or the same for all: (30, 0, 0) turns about the first one.
    zoom: (low, high), 1/256 to 256; 2 shows things twice as large.
    shear: tangents are between minus this and this, 0 to 16.
    shift: in extents of the sample, between minus this and this, 0 to 1.
    filter: "linear", which makes float32, or "nearest", which keeps the type, for labels.
    """
    items = cast("Iterable[Any]", degrees) if isinstance(degrees, Iterable) else [degrees]
    angles = tuple(number(f"degrees[{k}]", each, 0, 180) for k, each in enumerate(items))
    if filter not in ("linear", "nearest"):
        raise ValueError(f"filter must be 'linear' or 'nearest' (got {short(filter)})")
    return RandomAffine(
        angles,
        pair("zoom", zoom, 1 / 256, 256),
        number("shear", shear, 0, 16),
        number("shift", shift, 0, 1),
        filter == "linear",
        (mode_of(pad_mode), _border.real("pad_value", pad_value)),
        name,
        seed,
    )


# ---- Recipes of arithmetic ----------------------------------------------------------------------


def normalize(mean: Values, std: Values) -> Recipe:
    """(x - mean) / std, of each channel or with one number for all: float32. It is computed as
    x * (1 / std) + -mean / std."""
    return Normalize(floats("mean", mean), floats("std", std, 2.0**-126))


def to_float(scale: float = 255.0) -> Recipe:
    """float32 of all types; integers are divided by scale, as x * (1 / scale)."""
    return ToFloat((), (number("scale", scale, 2.0**-126, FLOAT32_MAX),))


@overload
def color_jitter(
    x: None = None,
    brightness: float = 0.2,
    contrast: float = 0.2,
    saturation: float = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Recipe: ...


@overload
def color_jitter(
    x: Array,
    brightness: float = 0.2,
    contrast: float = 0.2,
    saturation: float = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Array: ...
def color_jitter(
    x: Any = None,
    brightness: float = 0.2,
    contrast: float = 0.2,
    saturation: float = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """x * c + b, of each sample its own: c of 1 - contrast to 1 + contrast, b of -brightness to
    brightness, in units of x: float32. With x, the array that it makes of [N, C, H, W]."""
    if saturation != 0:
        raise ValueError(
            f"saturation must be 0 (got {short(saturation)}): channels are not mixed; give a "
            "function of (xb, yb) that does it"
        )
    brightness = number("brightness", brightness, 0, FLOAT32_MAX)
    contrast = number("contrast", contrast, 0, 1 - 2**-24)
    return made_on(x, ColorJitter(brightness, contrast, name, seed))


def made_on(x: Any, recipe: Recipe) -> Any:
    """The recipe, or what it makes of an array."""
    return recipe if x is None else run_of([recipe], x, None, None)


def gaussian_noise(sigma: float, *, name: str | None = None, seed: int | None = None) -> Recipe:
    """Adds normal noise of the standard deviation sigma, in units of x: float32."""
    return GaussianNoise(sigma, name, seed)


def clamp(low: float = float("-inf"), high: float = float("inf")) -> Recipe:
    """Values below low become low, those above high become high: float32. NaN stays."""
    return Clamp(low, high)


# ---- Recipes that erase -------------------------------------------------------------------------


@overload
def cutout(
    x: None = None,
    centers: None = None,
    size: int = 8,
    values: Values = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Recipe: ...


@overload
def cutout(
    x: Array,
    centers: Array | None = None,
    size: int = 8,
    values: Values = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Array: ...
def cutout(
    x: Any = None,
    centers: Any = None,
    size: int = 8,
    values: Values = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Overwrites `size` elements along each axis of space, the centre anywhere, cut at the edges of
    the picture. values: one, or one for each channel.

    With x, the array that it makes of [N, C, H, W]. With centers, whole numbers [N, 2] (y, x), a
    patch begins at centre - size // 2, and nothing is drawn.
    """
    recipe = Cutout(size, values, name, seed)
    return made_on(x, recipe) if centers is None else cut(recipe, x, centers)


def cut(recipe: Cutout, x: Any, centers: Any) -> Array:
    """Patches around centres that are given."""
    numpy: Any = numpy_()
    made, at = numpy.array(x), numpy.asarray(centers)
    shape = made.shape[1:]
    axes = spatial_of(shape)
    if at.shape != (len(made), len(axes)) or at.dtype.kind not in "iu":
        raise ValueError(
            f"centers must be whole numbers [{len(made)}, {len(axes)}] (got {short(centers)})"
        )
    recipe.check(shape, made.dtype)
    values = numpy.array(recipe.values).reshape(-1, *[1] * len(axes)).astype(made.dtype)
    for picture, centre in zip(made, at.tolist()):
        begins = [place - recipe.size // 2 for place in centre]
        spans = [slice(max(each, 0), max(each + recipe.size, 0)) for each in begins]
        picture[(..., *spans)] = values if len(shape) > len(axes) else values[0]
    return made


@overload
def random_erase(
    x: None = None,
    p: float = 0.5,
    scale: float | Iterable[float] = (0.02, 0.2),
    ratio: float | Iterable[float] = (0.3, 3.3),
    values: Values = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Recipe: ...


@overload
def random_erase(
    x: Array,
    p: float = 0.5,
    scale: float | Iterable[float] = (0.02, 0.2),
    ratio: float | Iterable[float] = (0.3, 3.3),
    values: Values = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Array: ...
def random_erase(
    x: Any = None,
    p: float = 0.5,
    scale: float | Iterable[float] = (0.02, 0.2),
    ratio: float | Iterable[float] = (0.3, 3.3),
    values: Values = 0.0,
    *,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Overwrites a rectangle anywhere, with probability p: its area is a part of the picture's of
    scale[0] to scale[1], its height over its width of ratio[0] to ratio[1]. values: one, or one for
    each channel. With x, the array that it makes of [N, C, H, W]."""
    recipe = RandomErase(
        number("p", p, 0, 1),
        pair("scale", scale, 2**-24, 1),
        pair("ratio", ratio, 1 / 256, 256),
        values,
        name,
        seed,
    )
    return made_on(x, recipe)


# ---- The randomness given -----------------------------------------------------------------------


def of_samples(name: str, given: Any, count: int, kinds: str) -> Array:
    found = numpy_().asarray(given)
    if found.shape != (count,) or found.dtype.kind not in kinds:
        raise ValueError(f"{name} must be an array of numbers [{count}] (got {short(given)})")
    return found


def flip_horizontal(x: Any, mask: Any) -> Array:
    """Flips the pictures [N, C, H, W] whose mask [N] is not 0 along their last axis."""
    numpy: Any = numpy_()
    made = numpy.array(x)
    spatial_of(made.shape[1:])
    chosen = of_samples("mask", mask, len(made), "biu") != 0
    made[chosen] = made[chosen][..., ::-1]
    return made


def apply_color_jitter(x: Any, brightness: Any, contrast: Any) -> Array:
    """x * contrast[n] + brightness[n] of the pictures [N, C, H, W]: float32, each operation rounded
    once. brightness and contrast: numbers [N]."""
    numpy: Any = numpy_()
    made = numpy.array(x, "f4")
    spatial_of(made.shape[1:])
    lists = (("contrast", contrast), ("brightness", brightness))
    c, b = (
        of_samples(name, given, len(made), "fiu").astype("f4").reshape(-1, *[1] * (made.ndim - 1))
        for name, given in lists
    )
    return made * c + b


# ---- Lists of filters ---------------------------------------------------------------------------


def filters_of(given: Any) -> list[Any]:
    """A filter or a list of them, each with a name of its own."""
    items = [given] if callable(given) else list(cast("Iterable[Any]", given))
    for k, each in enumerate(items):
        if not callable(each):
            raise TypeError(
                f"filters[{k}] must be a recipe, or a function of (xb, yb) (got {short(each)})"
            )
    return named(items)


def apply_filters(
    batch: tuple[Any, Any],
    filters: FilterFn | Iterable[FilterFn],
    places: Iterable[Place] | None = None,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """A batch (xb, yb) through filters, the first of a list first. Recipes that follow each other
    are as few passes as they can be. places, seed: as a `Recipe` takes them."""
    xb, yb = batch
    at = None if places is None else list(places)
    run: list[Recipe] = []
    for each in [*filters_of(filters), None]:
        if isinstance(each, Recipe):
            run.append(each)
            continue
        if run:
            xb, run = run_of(run, xb, at, seed), []
        if each is not None:
            xb, yb = each(xb, yb)
    return xb, yb


def split(
    transforms: FilterFn | Iterable[FilterFn],
    shape: Sequence[int],
    dtype: Any = "f4",
) -> tuple[list[Recipe], list[FilterFn]]:
    """The recipes at the beginning of a list that a pipeline can run as one pass, and the filters
    that are left for Python. shape [C, H, W], dtype: of a sample of the source.

    `apply_filters` of the second list makes the same of what the first one made as of both lists:
    recipes have the names here that they have in the whole list.
    """
    filters = filters_of(transforms)
    first: list[Recipe] = []
    for each in filters:
        is_recipe = isinstance(each, Recipe)
        if not is_recipe or len(passes([*first, each], shape_from(shape), dtype)) > 1:
            break
        first.append(each)
    return first, filters[len(first) :]


def augment(
    recipes: Iterable[Recipe],
    shape: Sequence[int],
    places: Iterable[Place],
    dtype: Any = "f4",
    seed: int | None = None,
) -> list[AugmentSpec]:
    """The pass that recipes are, for the sample of each place (epoch, position), thousands in a
    call. shape [C, H, W], dtype: of a sample. seed: of recipes that have none."""
    at = [Place(*each) for each in places]
    return specs_of(cast("list[Recipe]", filters_of(list(recipes))), shape, at, dtype, seed)


def default_cifar10_filters() -> list[Recipe]:
    """The usual recipe for CIFAR-10: random_crop, horizontal_flip, to_float, normalize."""
    moves = [random_crop(padding=4, crop_size=32, pad_mode="reflect"), horizontal_flip(p=0.5)]
    return [*moves, *basic_cifar10_filters()]


def basic_cifar10_filters() -> list[Recipe]:
    """Without augmentation: to_float, normalize."""
    return [to_float(scale=255.0), normalize(CIFAR10_MEAN, CIFAR10_STD)]
