"""Random numbers from the library, thousands in a call.

Nothing is checked here: callers give ints of 0 to 2^64 - 1. `wavetrain.epoch` has the same with
checks. Arrays of "Q" are words as C has them; a place is two of them, epoch and position.
"""

from __future__ import annotations

import array
from typing import Any

from wavetrain import _native
from wavetrain._border import U64_MAX
from wavetrain._library import library

EPOCH_MAX = _native.EPOCH_MAX  # samples of an epoch
NO_INDEX = _native.EPOCH_NO_INDEX
YOURS = _native.PURPOSE_YOURS
APART, STIR = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93

Words = array.array


def room(count: int, code: str = "Q") -> Words[int]:
    """An array of zeros, for the library to write to."""
    made: Words[int] = array.array(code)
    made.frombytes(bytes(made.itemsize * count))
    return made


def at(words: Words[int] | None) -> int | None:
    """The address of an array."""
    return None if words is None else words.buffer_info()[0]


def ask(what: str, *arguments: Any) -> Any:
    """Calls a function of wavetrain_epoch.h, arrays by where they lie."""
    given = [each if not isinstance(each, Words) else at(each) for each in arguments]  # pyright: ignore[reportUnknownArgumentType]
    return getattr(library(), f"wavetrain_{what}")(*given)


def mix(position: int, digest: int) -> int:
    """wavetrain_mix, which is not a function of the library but inline in its header."""
    x = (digest ^ position * APART) & U64_MAX
    x = (x ^ x >> 32) * STIR & U64_MAX
    x = (x ^ x >> 32) * STIR & U64_MAX
    return x ^ x >> 32


def key(seed: int, epoch: int, purpose: int) -> int:
    return mix(purpose, mix(epoch, mix(1, seed)))


def philox(key: int, counter: tuple[int, ...]) -> tuple[int, int, int, int]:
    out = room(4, "I")
    ask("philox", key, array.array("I", counter), out)
    a, b, c, d = out
    return a, b, c, d


def below(n: int, key: int, position: int, lane: int) -> int:
    words = array.array("Q", [position])
    ask("below_many", n, key, lane, words, 1, words)
    return words[0]


def permute(n: int, key: int, positions: Words[int]) -> Words[int]:
    """The numbers at positions below n, which is at most EPOCH_MAX, in the array of those."""
    ask("permute_many", n, key, positions, len(positions), positions)
    return positions
