#!/usr/bin/env python3
"""make_normal.py [--check]: writes the table of the noise of wavetrain_augment, src/loops/normal.rs and kernels/normal.cuh.

The header defines it: entry i of 2,048 is the float next to Q((i + 0.5) / 2048) * 0.7073325951129718,
where Q is the quantile of the normal distribution. Needs mpmath and numpy. The lower half is the upper one with
another sign, so half of it is written. It prints the bits of what the unit test of
src/loops/augment.rs expects of the noise.
"""

import struct
import sys
from pathlib import Path

import mpmath
import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
ENTRIES = 2048

RUST = """\
//! The upper half of the table of quantiles that noise is made of.
//!
//! tests/data/make_normal.py writes this file from the definition in include/wavetrain.h.

/// Bits of entry 1024 + i of the table; entry 1023 - i is the same with another sign.
#[rustfmt::skip]
pub(super) const UPPER_HALF: [u32; 1024] = [
{rows}
];
"""

CUDA = """\
// The upper half of the table of quantiles that noise is made of.
//
// tests/data/make_normal.py writes this file from the definition in include/wavetrain.h.
#pragma once
#include "common.cuh"

constexpr uint32_t kHalfQuantiles = 1024;

// Bits of entry 1024 + i of the table; entry 1023 - i is the same with another sign.
__device__ const uint32_t kUpperHalf[kHalfQuantiles] = {{
{rows}
}};
"""


def bits(number: int) -> int:
    mpmath.mp.prec = 120
    quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * (mpmath.mpf(number) + 0.5) / ENTRIES - 1)
    value = quantile * mpmath.mpf("0.7073325951129718")
    near = struct.unpack("<I", struct.pack("<f", float(value)))[0]
    around = [near - 1, near, near + 1]  # float() rounds to a double first
    floats = [struct.unpack("<f", struct.pack("<I", each))[0] for each in around]
    return min(zip(floats, around), key=lambda pair: abs(pair[0] - value))[1]


def noise(key: int, place: int) -> int:
    """The bits of z of the header."""
    mask = 2**64 - 1
    h = (key + (place + 1) * 0x9E3779B97F4A7C15) & mask
    h = ((h ^ h >> 30) * 0xBF58476D1CE4E5B9) & mask
    h = ((h ^ h >> 27) * 0x94D049BB133111EB) & mask
    h ^= h >> 31
    pair = [np.uint32(bits(entry)).view(np.float32) for entry in (h >> 53, h >> 42 & 2047)]
    return int((pair[0] + pair[1]).view(np.uint32))


def main() -> None:
    words = [f"0x{bits(number):08X}" for number in range(ENTRIES // 2, ENTRIES)]
    rows = ["    " + ", ".join(words[at : at + 8]) + "," for at in range(0, len(words), 8)]
    for name, text in [("src/loops/normal.rs", RUST), ("kernels/normal.cuh", CUDA)]:
        target, text = ROOT / name, text.format(rows="\n".join(rows))
        if sys.argv[1:] != ["--check"]:
            target.write_text(text)
        elif target.read_text() != text:
            sys.exit(f"{name} is not that of the definition")
    for key, place in [(0, 0), (0, 1), (7, 123_456_789_012), (2**64 - 1, 2**64 - 2)]:
        print(f"0x{noise(key, place):08X}")


if __name__ == "__main__":
    main()
