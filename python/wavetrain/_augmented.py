"""Arithmetic on the elements of a box, as push takes it."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, cast

from wavetrain import _border, _native
from wavetrain._border import U64_MAX, short
from wavetrain._words import refusal

CHANNELS_MAX, ERASES_MAX = 64, 8  # as wavetrain_augment of wavetrain.h
EMPTY: tuple[float, ...] = ()
BYTES = ctypes.sizeof(_native.Augment)


@dataclasses.dataclass(frozen=True, init=False)
class Erase:
    """A box of a field that is overwritten.

    begin, end: by axis of the field, the first place and one past the last.
    values: what the places hold: a float, or one for each channel.

    >>> Erase((0, 4, 4), (3, 12, 12), 0.5)
    Erase(begin=(0, 4, 4), end=(3, 12, 12), values=(0.5,))
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    values: tuple[float, ...]

    def __init__(
        self,
        begin: Iterable[int],
        end: Iterable[int],
        values: Any = 0.0,
        *more: NoReturn,
        **others: NoReturn,
    ) -> None:
        if more or others:
            raise refusal("Erase", Erase.__init__, {}, (begin, end, values, *more), others)
        keep = object.__setattr__
        keep(self, "begin", _border.axes("begin", begin, 0, place))
        keep(self, "end", _border.axes("end", end, 0, place))
        if len(self.begin) != len(self.end):
            raise ValueError(
                f"begin and end must have an item per axis (got {self.begin} and {self.end})"
            )
        keep(self, "values", floats("values", values))
        if not self.values:
            raise ValueError("values must be a float, or one for each channel")


@dataclasses.dataclass(frozen=True, init=False)
class Augment:
    """Arithmetic on the elements of a Box on their way into a field of f32, bf16 or f16. The
    pipeline needs Config(augment=True).

    Each element becomes a float32 x, and then, in this order:

        x = x * scale[c]; x = x + bias[c]; x = x + noise * z; x clamped; x erased; x cast

    with one rounding each. c is the channel, z a number of the normal distribution that depends on
    noise_key and on the place in the field alone. wavetrain.h has every step, at wavetrain_augment:
    all backends give the same bits.

        scale, bias: a float, or one for each channel, up to 64; None or (): none.
        channel_axis: the axis of the field along which the channels lie, counted from 0.
        noise, noise_key: the standard deviation of the noise, and what it is made from.
        clamp: (least, largest).
        erase: up to 8 `Erase`s; where several overlap, the last one counts.
        pad_goes_through: what pad_mode makes outside of the array goes through all of this; else it
            is cast alone.

    >>> Augment(scale=1 / 255, bias=-0.5).scale
    (0.00392156862745098,)
    >>> Augment(scale=(1, 2, 3), bias=(0, 0))
    Traceback (most recent call last):
        ...
    ValueError: scale, bias and values must have as many channels (got 3 and 2)
    """

    scale: tuple[float, ...] = EMPTY
    bias: tuple[float, ...] = EMPTY
    channel_axis: int = 0
    noise: float = 0.0
    noise_key: int = 0
    clamp: tuple[float, float] | None = None
    erase: tuple[Erase, ...] = ()
    pad_goes_through: bool = False

    def __init__(
        self,
        *more: NoReturn,
        scale: Any = None,
        bias: Any = None,
        channel_axis: int = 0,
        noise: float = 0.0,
        noise_key: int = 0,
        clamp: tuple[float, float] | None = None,
        erase: Iterable[Erase] | Erase = (),
        pad_goes_through: bool = False,
        **others: NoReturn,
    ) -> None:
        if more or others:
            raise refusal("Augment", Augment.__init__, {}, more, others)
        keep = object.__setattr__
        keep(self, "scale", floats("scale", scale))
        keep(self, "bias", floats("bias", bias))
        axis = _border.whole("channel_axis", channel_axis, 0, _native.RANK_MAX - 1)
        keep(self, "channel_axis", axis)
        keep(self, "noise", floats("noise", noise)[0])
        if not (self.noise >= 0 and math.isfinite(self.noise)):
            raise ValueError(f"noise must be at least 0 and finite (got {noise!r})")
        keep(self, "noise_key", _border.whole("noise_key", noise_key, 0, U64_MAX))
        if clamp is not None:
            limits = floats("clamp", clamp)
            if len(limits) != 2 or not limits[0] <= limits[1]:
                raise ValueError(f"clamp must be (least, largest) (got {short(clamp)})")
            keep(self, "clamp", limits)
        erased = (erase,) if isinstance(erase, Erase) else tuple(erase)
        for number, each in enumerate(cast("tuple[Any, ...]", erased)):
            if not isinstance(each, Erase):
                raise TypeError(f"erase[{number}] must be a wavetrain.Erase (got {short(each)})")
        if len(erased) > ERASES_MAX:
            raise ValueError(f"erase must have at most {ERASES_MAX} boxes (got {len(erased)})")
        if len({len(each.begin) for each in erased}) > 1:
            raise ValueError("erase must have boxes of one number of axes, that of the field")
        keep(self, "erase", erased)
        keep(self, "pad_goes_through", _border.flag("pad_goes_through", pad_goes_through))
        self.channels()  # else push would find it

    def channels(self) -> int:
        """How many channels are distinguished; 0 and 1: none."""
        tables = [self.scale, self.bias, *[each.values for each in self.erase]]
        counts = sorted({len(table) for table in tables if len(table) > 1}, reverse=True)
        if len(counts) > 1:
            raise ValueError(
                "scale, bias and values must have as many channels "
                f"(got {' and '.join(map(str, counts))})"
            )
        if counts:
            return counts[0]
        return 1 if self.scale or self.bias else 0

    def native(self) -> tuple[_native.Augment, Any]:
        """As the library takes it, and what it borrows."""
        channels = self.channels()
        made = _native.Augment(struct_size=BYTES, n_channels=channels)
        made.channel_axis = self.channel_axis if channels > 1 else 0
        owners: list[Any] = []

        def table(values: Sequence[float], count: int) -> int | None:
            if not values:
                return None
            # One factor of channels that something else distinguishes is that of each.
            values = values if len(values) == count else [*values] * count
            owners.append((ctypes.c_float * len(values))(*values))
            return ctypes.addressof(owners[-1])

        made.scale, made.bias = table(self.scale, channels), table(self.bias, channels)
        if self.clamp is not None:
            made.clamp_low, made.clamp_high = self.clamp
            made.has_clamp = 1
        made.noise_sigma, made.noise_key = self.noise, self.noise_key
        made.pad_goes_through = self.pad_goes_through
        if self.erase:
            boxes = (_native.Erase * len(self.erase))()
            owners.append(boxes)
            for box, each in zip(boxes, self.erase):
                box.begin[: len(each.begin)] = each.begin
                box.end[: len(each.end)] = each.end
                box.values = table(each.values, len(each.values))
                box.n_values = len(each.values)
            made.erase, made.n_erase = ctypes.addressof(boxes), len(boxes)
            made.erase_bytes = ctypes.sizeof(_native.Erase)
        return made, owners


def place(axis: int, given: Any) -> int:
    return _border.whole(f"place {axis}", given, 0, U64_MAX)


def floats(name: str, given: Any) -> tuple[float, ...]:
    """A number, or as many as there are channels."""
    if given is None:
        return EMPTY
    if type(given) is float:
        return (given,)
    one: Any = given
    is_text = isinstance(given, (str, bytes))
    if isinstance(given, Iterable) and getattr(one, "shape", None) != () and not is_text:
        made = tuple(_border.rounded(name, each) for each in cast("Iterable[Any]", given))
    else:
        made = (_border.rounded(name, one),)
    if len(made) > CHANNELS_MAX:
        raise ValueError(f"{name} must have at most {CHANNELS_MAX} numbers (got {len(made)})")
    return made


def check(given: Any) -> Augment | None:
    if given is not None and not isinstance(given, Augment):
        raise TypeError(f"augment must be a wavetrain.Augment (got {short(given)})")
    return given


def natives(given: Augment | Sequence[Augment]) -> tuple[Any, Any]:
    """The structs of some, side by side, and what they borrow."""
    several = [given] if isinstance(given, Augment) else given
    made = [cast("Augment", check(each)).native() for each in several]
    structs = (_native.Augment * len(made))(*[each for each, _ in made])
    return structs, [owners for _, owners in made]
