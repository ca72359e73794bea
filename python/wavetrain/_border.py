"""Checks of a caller's values, each with the name of the wrong one and the values that would be
right.

ctypes cuts a number to the bits of its member without a word, so none gets there unchecked.
"""

from __future__ import annotations

import contextlib
import enum
import math
import numbers
import operator
import os
import reprlib
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, SupportsFloat, TypeVar, cast

from wavetrain import _native

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
I32_MIN, I32_MAX = -(2**31), 2**31 - 1
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
EXACT_MAX = 2**53  # up to here every int is a float too

Choice = TypeVar("Choice", bound=enum.IntEnum)
Axis = TypeVar("Axis")


class Short(reprlib.Repr):
    """Values as errors show them: never all of a list or an array."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlevel = 3

    def repr1(self, x: Any, level: int) -> str:
        extents, kind = (attribute_of(x, name) for name in ("shape", "dtype"))
        is_own = type(x).__module__.startswith("wavetrain.")  # whose repr is short
        if isinstance(extents, tuple) and extents and kind is not None and not is_own:
            sizes = " x ".join(map(str, cast("tuple[Any, ...]", extents)))
            return f"an array of {sizes} {kind}"
        if isinstance(x, int) and x.bit_length() > 128:
            return f"an int of {x.bit_length()} bits"
        return super().repr1(x, level)


def attribute_of(value: Any, name: str) -> Any:
    """An attribute of an object whose properties may raise; None if it has none."""
    with contextlib.suppress(Exception):
        return getattr(value, name, None)
    return None


SHORT, SHORT_MAX = Short(), 300


def short(value: Any) -> str:
    text = SHORT.repr(value)
    return text if len(text) <= SHORT_MAX else f"{text[:SHORT_MAX]}.."


def whole(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int of low to high: an int, or what stands for one, such as numpy's."""
    if type(value) is int and low <= value <= high:  # most are
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number (got {short(value)})")
    try:
        number = operator.index(value)
    except TypeError as error:  # an array has the method and is not a number
        raise TypeError(f"{name} must be a whole number (got {short(value)})") from error
    if number < low:
        raise ValueError(f"{name} must be >= {low} (got {short(number)})")
    if number > high:
        raise ValueError(f"{name} must be <= {high} (got {short(number)})")
    return number


def below(name: str, value: Any, of: str, count: int) -> int:
    """`value` as an int from 0 to below that count."""
    number = whole(name, value, 0, U64_MAX)
    if number >= count:
        raise ValueError(f"{name} must be below {of}, which is {count} (got {number})")
    return number


def word(name: str, value: Any) -> int:
    """`value` as an int of 64 bits."""
    return whole(name, value, 0, U64_MAX)


def axes(name: str, given: Any, low: int, axis_of: Callable[[int, Any], Axis]) -> tuple[Axis, ...]:
    """The results of `axis_of` for each axis; not more are looked at than there may be."""
    if not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a sequence, an item per axis (got {short(given)})")
    items = cast("Iterable[Any]", given)
    made = tuple([axis_of(axis, item) for axis, item in zip(range(_native.RANK_MAX + 1), items)])
    if not made and low:
        raise ValueError(f"{name} is missing: give an item for each axis, such as (64, 128, 128)")
    whole(f"the number of axes of {name}", len(made), low, _native.RANK_MAX)
    return made


def flag(name: str, value: Any) -> bool:
    """True or False, also numpy's."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"{name} must be True or False (got {short(value)})")


def real(name: str, value: Any) -> float:
    """`value` as a float that is the same number. NaN and infinity are numbers of a float too."""
    is_complex = isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real)
    is_text = isinstance(value, (bool, str, bytes))
    if is_complex or is_text or not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} must be a number (got {short(value)})")
    if hasattr(value, "__index__"):
        return float(whole(name, value, -EXACT_MAX, EXACT_MAX))
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be a number that fits a float (got {short(value)})"
        ) from error


def rounded(name: str, value: Any) -> float:
    """`value` as a float, whatever stands for one: a tensor of one element, too."""
    if type(value) is float:
        return value
    cause: Exception | None = None
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError) as error:
            cause = error
    raise TypeError(f"{name} must be a number (got {short(value)})") from cause


def finite(name: str, value: Any) -> float:
    number = real(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite (got {short(number)})")
    return number


def choice(name: str, value: Any, choices: type[Choice]) -> Choice:
    """A member of `choices`: itself, its name in any case, or its number."""
    if isinstance(value, choices):
        return value
    if isinstance(value, str):
        if value.upper() in choices.__members__:
            return choices[value.upper()]
    elif not isinstance(value, (bool, enum.Enum)) and hasattr(value, "__index__"):
        with contextlib.suppress(TypeError, ValueError):  # an array, or 99, is not a choice
            return choices(operator.index(value))
    names = ", ".join(repr(member.name.lower()) for member in choices)
    raise ValueError(f"{name} must be one of {names} (got {short(value)})")


def octets(name: str, value: Any) -> bytes:
    """Bytes that nobody changes: a copy of other buffers."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes(memoryview(value))
    except TypeError as error:
        raise TypeError(f"{name} must be bytes or None (got {short(value)})") from error


def path(name: str, value: Any) -> str:
    """A path or uri that C can read."""
    if isinstance(value, bytes) or not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path (got {short(value)})")
    text = os.fspath(cast("os.PathLike[Any]", value))
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a path of text (got {short(value)})")
    if not text:
        raise ValueError(f"{name} must not be empty")
    if "\0" in text:
        raise ValueError(f"{name} must have no NUL (got {short(text)})")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be UTF-8 (got {short(text)})") from error
    if size > _native.URI_BYTES_MAX:
        raise ValueError(f"{name} must have <= {_native.URI_BYTES_MAX} bytes (got {size})")
    return text


def label(name: str, value: Any, size_max: int) -> str:
    """A name of something: printable, and no path."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str (got {short(value)})")
    if not value or "/" in value or any(unicodedata.category(each) == "Cc" for each in value):
        raise ValueError(
            f"{name} must be 1 or more characters, none of them '/' or a control "
            f"character (got {short(value)})"
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be UTF-8 (got {short(value)})") from error
    if size > size_max:
        raise ValueError(f"{name} must have <= {size_max} bytes (got {size})")
    return value


def handle(name: str, value: Any) -> int:
    """The driver's number of a stream: the number itself, or an object of torch or cupy."""
    for attribute in ("cuda_stream", "ptr"):
        value = getattr(value, attribute, value)
    return whole(name, value, 0, U64_MAX)


def methods(name: str, value: Any, *calls: str) -> None:
    """An object with these methods; a class is none."""
    for each in calls:
        if isinstance(value, type) or not callable(getattr(value, each.partition("(")[0], None)):
            raise TypeError(f"{name} must have {' and '.join(calls)} (got {short(value)})")
