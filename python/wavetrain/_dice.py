"""The numbers of wavetrain_epoch.h that everything random is made of, in ints of Python.

Nothing is checked here: who calls gives ints of 0 to 2^64 - 1. `wavetrain.epoch` has the same with
checks.
"""

from __future__ import annotations

import functools

from wavetrain._border import U32_MAX, U64_MAX

EPOCH_MAX = 2**62  # samples of an epoch
SHUFFLE, SPLIT, WEIGHTED, MIXED, BOX, POINT, VISITS, WINDOW, TAIL = range(1, 10)
YOURS = 1024
APART, STIR = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
# By round of permute, what `mix` makes of the two positions.
ROUNDS = [(2 * n * APART & U64_MAX, (2 * n + 1) * APART & U64_MAX) for n in range(1, 5)]


def mix(position: int, digest: int) -> int:
    x = (digest ^ position * APART) & U64_MAX
    x = (x ^ x >> 32) * STIR & U64_MAX
    x = (x ^ x >> 32) * STIR & U64_MAX
    return x ^ x >> 32


@functools.lru_cache(maxsize=64)
def key(seed: int, epoch: int, purpose: int) -> int:
    return mix(purpose, mix(epoch, mix(1, seed)))


def philox(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    a, b, c, d = counter
    low, high = key & U32_MAX, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b = (second >> 32) ^ b ^ low, second & U32_MAX
        c, d = (first >> 32) ^ d ^ high, first & U32_MAX
        low, high = low + 0x9E3779B9 & U32_MAX, high + 0xBB67AE85 & U32_MAX
    return a, b, c, d


def below(n: int, key: int, position: int, lane: int) -> int:
    a, b, c, d = philox(key, (position & U32_MAX, position >> 32, lane, 0))
    return ((b << 32 | a) << 64 | d << 32 | c) * n >> 128


@functools.lru_cache(maxsize=64)
def small_row(n: int, keyed: int) -> tuple[int, ...]:
    """A shuffled row of at most 64."""
    row = [*range(n)]
    for place in range(n):
        other = mix(place + 1, keyed) * (place + 1) >> 64
        row[place] = row[other]
        row[other] = place
    return tuple(row)


def permute(n: int, key: int, position: int) -> int:
    """The number at a position below n, which is at most EPOCH_MAX."""
    keyed = mix(n, key)
    if n < 64:
        return small_row(n, keyed)[position]
    bits = max(6, (n - 1).bit_length()) // 2
    mask, rights = (1 << bits) - 1, (n - 1 >> bits) + 1
    while True:
        left, right = position & mask, position >> bits
        for first, second in ROUNDS:
            # mix, written out: its calls would be half of the time.
            x = keyed + right & U64_MAX ^ first
            x = (x ^ x >> 32) * STIR & U64_MAX
            x = (x ^ x >> 32) * STIR & U64_MAX
            left = left + (x ^ x >> 32) & mask
            x = keyed + left & U64_MAX ^ second
            x = (x ^ x >> 32) * STIR & U64_MAX
            x = (x ^ x >> 32) * STIR & U64_MAX
            right += (x ^ x >> 32) * rights >> 64
            if right >= rights:
                right -= rights
        position = right << bits | left
        if position < n:
            return position
