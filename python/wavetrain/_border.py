"""Checks of what comes from a caller, each with the name of what is wrong and what would be right.

ctypes cuts a number to the bits of its member without a word, so none gets there unchecked.
"""

from __future__ import annotations

import enum
import math
import operator
import os
from typing import Any, SupportsFloat, TypeVar, cast

from wavetrain import _native

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
I32_MIN, I32_MAX = -(2**31), 2**31 - 1
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
EXACT_MAX = 2**53  # up to here every int is a float too

Choice = TypeVar("Choice", bound=enum.IntEnum)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int of low to high: an int, or what stands for one, such as numpy's."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number (got {value!r})")
    number = operator.index(value)
    if number < low:
        raise ValueError(f"{name} must be >= {low} (got {number})")
    if number > high:
        raise ValueError(f"{name} must be <= {high} (got {number})")
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, also numpy's."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"{name} must be True or False (got {value!r})")


def real(name: str, value: Any) -> float:
    """`value` as a float that is the same number. NaN and infinity are numbers of a float too."""
    if isinstance(value, (bool, str, bytes)) or not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} must be a number (got {value!r})")
    if hasattr(value, "__index__"):
        return float(whole(name, value, -EXACT_MAX, EXACT_MAX))
    return float(value)


def finite(name: str, value: Any) -> float:
    number = real(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite (got {number})")
    return number


def choice(name: str, value: Any, choices: type[Choice]) -> Choice:
    """A member of `choices`: itself, its name in any case, or its number."""
    if isinstance(value, choices):
        return value
    if isinstance(value, str):
        if value.upper() in choices.__members__:
            return choices[value.upper()]
    elif not isinstance(value, (bool, enum.Enum)) and hasattr(value, "__index__"):
        number = operator.index(value)
        if number in [int(member) for member in choices]:
            return choices(number)
    names = ", ".join(repr(member.name.lower()) for member in choices)
    raise ValueError(f"{name} must be one of {names} (got {value!r})")


def path(name: str, value: Any) -> str:
    """A path or uri that C can read."""
    if isinstance(value, bytes) or not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path (got {value!r})")
    text = os.fspath(cast("os.PathLike[Any]", value))
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a path of text (got {value!r})")
    if not text:
        raise ValueError(f"{name} must not be empty")
    if "\0" in text:
        raise ValueError(f"{name} must have no NUL (got {text!r})")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be UTF-8 (got {text!r})") from error
    if size > _native.URI_BYTES_MAX:
        raise ValueError(f"{name} must have <= {_native.URI_BYTES_MAX} bytes (got {size})")
    return text


def handle(name: str, value: Any) -> int:
    """The driver's number of a stream: the number itself, or an object of torch or cupy."""
    for attribute in ("cuda_stream", "ptr"):
        value = getattr(value, attribute, value)
    return whole(name, value, 0, U64_MAX)
