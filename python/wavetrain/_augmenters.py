"""The recipes of `wavetrain.augment` as classes: what each checks, and what it asks of the library.

In: numbers that `augment` has checked, and the structs of `Boxes`. Out: calls of
wavetrain_recipes.h.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from ctypes import byref, sizeof
from typing import Any, cast

from wavetrain import _border, _native
from wavetrain._border import short
from wavetrain._pixels import numpy_
from wavetrain._recipes import (
    EXTENT_MAX,
    PAD_MODES,
    Boxes,
    Recipe,
    Values,
    channel_axis_of,
    spatial_of,
)

FLOAT32_MAX = 3.4028234663852886e38


def number(name: str, given: Any, low: float, high: float) -> float:
    """A number of low to high."""
    found = _border.real(name, given)
    if not low <= found <= high:
        raise ValueError(f"{name} must be {low:g} to {high:g} (got {found:g})")
    return found


def pair(name: str, given: Any, low: float, high: float) -> tuple[float, float]:
    """Two numbers, the lower one first; or one that is both."""
    items = (
        [given, given] if not isinstance(given, Iterable) else list(cast("Iterable[Any]", given))
    )
    if len(items) != 2:
        raise ValueError(f"{name} must be (low, high) (got {short(given)})")
    first, last = (number(f"{name}[{k}]", each, low, high) for k, each in enumerate(items))
    if first > last:
        raise ValueError(f"{name} must have the lower one first (got {short(given)})")
    return first, last


def floats(name: str, given: Any, low: float = -FLOAT32_MAX) -> tuple[float, ...]:
    """One number, or one for each channel."""
    items = cast("Iterable[Any]", given) if isinstance(given, Iterable) else [given]
    made = tuple(number(f"{name}[{k}]", each, low, FLOAT32_MAX) for k, each in enumerate(items))
    if not made:
        raise ValueError(f"{name} must have a number, or one for each channel (got none)")
    return made


def check_channels(what: str, numbers: Sequence[float], shape: Sequence[int]) -> None:
    axis = channel_axis_of(shape, -1)
    channels = 1 if axis < 0 else shape[axis]
    if len(numbers) not in (1, channels):
        raise ValueError(
            f"{what} has {len(numbers)} numbers, and pictures {channels} channels: give one "
            "number, or one for each channel"
        )


def list_of(numbers: Sequence[float]) -> tuple[Any, int]:
    """A list as C has it, and its length. The array lives as long as the first item."""
    words = array.array("f", numbers)
    return (_native.c_float * len(words)).from_buffer(words), len(words)


def text(name: str) -> bytes:
    return name.encode()


def mode_of(given: Any) -> str:
    modes = [mode for mode in PAD_MODES if mode != "none"]
    if given not in modes:
        raise ValueError(
            f"pad_mode must be one of {', '.join(map(repr, modes))} (got {short(given)})"
        )
    return given


def check_values(values: Sequence[float], dtype: Any) -> None:
    """Refuses values that pictures of a type cannot hold."""
    if dtype.kind not in "iub":
        return
    limits = numpy_().iinfo("u1" if dtype.kind == "b" else dtype)
    for value in values:
        if value != int(value) or not limits.min <= value <= limits.max:
            raise ValueError(
                f"values must be whole numbers of {limits.min} to {limits.max}, as pictures are "
                f"{dtype} (got {value:g}): put to_float() first"
            )


class RandomCrop(Recipe):
    """See `random_crop`."""

    kind = "random_crop"
    moves = True

    def __init__(
        self,
        padding: int,
        crop_size: int | Iterable[int],
        pad_mode: str,
        pad_value: float,
        name: str | None,
        seed: int | None,
    ) -> None:
        super().__init__(name, seed)
        self.amount = _border.whole("padding", padding, 0, EXTENT_MAX)
        sizes = crop_size if isinstance(crop_size, Iterable) else [crop_size]
        self.sizes = tuple(_border.whole("crop_size", each, 1, EXTENT_MAX) for each in sizes)
        self.mode = mode_of(pad_mode)
        self.pad_mode = self.mode if self.amount else None
        self.pad_value = _border.real("pad_value", pad_value) if self.amount else 0.0

    def numbers(self) -> dict[str, Any]:
        size = self.sizes[0] if len(self.sizes) == 1 else self.sizes
        told = {"padding": self.amount, "crop_size": size, "pad_mode": self.mode}
        return {**told, "pad_value": self.pad_value} if self.pad_value else told

    def extents(self, shape: Sequence[int]) -> tuple[int, ...]:
        axes = spatial_of(shape)
        sizes = self.sizes * len(axes) if len(self.sizes) == 1 else self.sizes
        if len(sizes) != len(axes):
            raise ValueError(
                f"{self!r}: pictures have {len(axes)} axes of space, crop_size {sizes}"
            )
        return sizes

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        for axis, size in zip(spatial_of(shape), self.extents(shape)):
            if size > shape[axis] + 2 * self.amount:
                raise ValueError(
                    f"{self!r}: crop_size must be <= {shape[axis] + 2 * self.amount}, the extent "
                    f"{shape[axis]} with its padding (got {size}): give more padding"
                )

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[: spatial_of(shape)[0]], *self.extents(shape))

    def put(self, boxes: Boxes) -> int:
        sizes = self.sizes * len(boxes.spatial) if len(self.sizes) == 1 else self.sizes
        extents = (_native.c_uint64 * len(sizes))(*sizes)
        return boxes.ask("crop", text(self.name), self.amount, byref(extents), len(sizes))


class RandomFlip(Recipe):
    """See `random_flip`."""

    kind = "random_flip"
    moves = True

    def __init__(self, p: float, axis: int, name: str | None, seed: int | None) -> None:
        super().__init__(name, seed)
        self.p = number("p", p, 0, 1)
        self.axis = _border.whole("axis", axis, -3, 2)
        if self.axis >= 0:
            raise ValueError(
                f"axis must be -1, -2 or -3, the last axis of space being -1 (got {self.axis})"
            )

    def numbers(self) -> dict[str, Any]:
        return {"p": self.p, "axis": self.axis}

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        if -self.axis > len(spatial_of(shape)):
            raise ValueError(f"{self!r}: pictures have {len(spatial_of(shape))} axes of space")

    def put(self, boxes: Boxes) -> int:
        return boxes.ask("flip", text(self.name), self.p, len(boxes.spatial) + self.axis)


class HorizontalFlip(RandomFlip):
    """See `horizontal_flip`."""

    kind = "horizontal_flip"

    def numbers(self) -> dict[str, Any]:
        return {"p": self.p}


class RandomAffine(Recipe):
    """See `random_affine`."""

    kind = "random_affine"
    moves = maps = True

    def __init__(
        self,
        degrees: tuple[float, ...],
        zoom: tuple[float, float],
        shear: float,
        shift: float,
        is_linear: bool,
        pad: tuple[str, float],
        name: str | None,
        seed: int | None,
    ) -> None:
        super().__init__(name, seed)
        self.degrees, self.zoom, self.shear, self.shift = degrees, zoom, shear, shift
        self.makes_floats = self.is_linear = is_linear
        self.pad_mode, self.pad_value = pad

    def numbers(self) -> dict[str, Any]:
        filter = "linear" if self.is_linear else "nearest"
        told: dict[str, Any] = {"degrees": self.degrees, "zoom": self.zoom, "shear": self.shear}
        told |= {"shift": self.shift, "filter": filter, "pad_mode": self.pad_mode}
        return {**told, "pad_value": self.pad_value} if self.pad_value else told

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        turns = 3 if len(spatial_of(shape)) == 3 else 1
        if len(self.degrees) not in (1, turns):
            raise ValueError(
                f"{self!r}: degrees must have {turns} numbers, one for each axis of turn"
            )

    def put(self, boxes: Boxes) -> int:
        motion = _native.Motion(struct_size=sizeof(_native.Motion))
        degrees = self.degrees * 3 if len(self.degrees) == 1 else self.degrees
        motion.degrees[:] = degrees
        motion.zoom[:] = self.zoom
        motion.shear, motion.shift = self.shear, self.shift
        motion.filter = _native.LINEAR if self.is_linear else _native.NEAREST
        return boxes.ask("affine", text(self.name), byref(motion))


class Normalize(Recipe):
    """See `normalize`."""

    kind = "normalize"
    makes_floats, draws = True, False

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__(None, None)
        self.mean, self.std = mean, std

    def numbers(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std}

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        check_channels("mean", self.mean or (0.0,), shape)
        check_channels("std", self.std, shape)

    def put(self, boxes: Boxes) -> int:
        mean, n_mean = list_of(self.mean)
        std, n_std = list_of(self.std)
        return boxes.ask("normalize", byref(mean), n_mean, byref(std), n_std)


class ToFloat(Normalize):
    """See `to_float`."""

    kind = "to_float"

    def numbers(self) -> dict[str, Any]:
        return {"scale": self.std[0]}

    def does_something(self, dtype: Any) -> bool:
        return dtype.kind in "iub"


class ColorJitter(Recipe):
    """See `color_jitter`."""

    kind = "color_jitter"
    makes_floats = True

    def __init__(
        self, brightness: float, contrast: float, name: str | None, seed: int | None
    ) -> None:
        super().__init__(name, seed)
        self.brightness, self.contrast = brightness, contrast

    def numbers(self) -> dict[str, Any]:
        return {"brightness": self.brightness, "contrast": self.contrast}

    def put(self, boxes: Boxes) -> int:
        return boxes.ask("jitter", text(self.name), self.brightness, self.contrast)


class GaussianNoise(Recipe):
    """See `gaussian_noise`."""

    kind = "gaussian_noise"
    makes_floats = True

    def __init__(self, sigma: float, name: str | None, seed: int | None) -> None:
        super().__init__(name, seed)
        self.sigma = number("sigma", sigma, 0, FLOAT32_MAX)

    def numbers(self) -> dict[str, Any]:
        return {"sigma": self.sigma}

    def put(self, boxes: Boxes) -> int:
        return boxes.ask("noise", text(self.name), self.sigma)


class Clamp(Recipe):
    """See `clamp`."""

    kind = "clamp"
    makes_floats, draws = True, False

    def __init__(self, low: float, high: float) -> None:
        super().__init__(None, None)
        self.low, self.high = _border.real("low", low), _border.real("high", high)
        if not self.low <= self.high:
            raise ValueError(f"low must be <= high (got {short(low)} and {short(high)})")

    def numbers(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}

    def put(self, boxes: Boxes) -> int:
        return boxes.ask("clamp", self.low, self.high)


class Erase(Recipe):
    """Recipes that overwrite a part of a picture."""

    def __init__(self, values: Values, name: str | None, seed: int | None) -> None:
        super().__init__(name, seed)
        self.values = floats("values", values)

    def erases(self) -> int:
        return 1

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        check_channels("values", self.values, shape)
        check_values(self.values, dtype)


class Cutout(Erase):
    """See `cutout`."""

    kind = "cutout"

    def __init__(self, size: int, values: Values, name: str | None, seed: int | None) -> None:
        super().__init__(values, name, seed)
        self.size = _border.whole("size", size, 1, EXTENT_MAX)

    def numbers(self) -> dict[str, Any]:
        return {"size": self.size, "values": self.values}

    def put(self, boxes: Boxes) -> int:
        values, count = list_of(self.values)
        return boxes.ask("cutout", text(self.name), self.size, byref(values), count)


class RandomErase(Erase):
    """See `random_erase`."""

    kind = "random_erase"

    def __init__(
        self,
        p: float,
        scale: tuple[float, float],
        ratio: tuple[float, float],
        values: Values,
        name: str | None,
        seed: int | None,
    ) -> None:
        super().__init__(values, name, seed)
        self.p, self.scale, self.ratio = p, scale, ratio

    def numbers(self) -> dict[str, Any]:
        return {"p": self.p, "scale": self.scale, "ratio": self.ratio, "values": self.values}

    def check(self, shape: Sequence[int], dtype: Any) -> None:
        super().check(shape, dtype)
        if len(spatial_of(shape)) != 2:
            raise ValueError(f"{self!r}: pictures must have two axes of space: give cutout(size)")

    def put(self, boxes: Boxes) -> int:
        values, count = list_of(self.values)
        scale, ratio = list_of(self.scale)[0], list_of(self.ratio)[0]
        lists = byref(scale), byref(ratio), byref(values)
        return boxes.ask("random_erase", text(self.name), self.p, *lists, count)
