#!/usr/bin/env python3
"""make_lognormal.py: prints the numbers that the unit test of src/loops/lognormal.rs expects.

Powers of e are by mpmath, normal numbers by make_normal.py, from the words of the header.
Needs mpmath and numpy.
"""

import random
import struct

import mpmath
from make_normal import noise

CASES = [(7, 0, 13.0, 0.5), (7, 1, 13.0, 0.5), (2**64 - 1, 999, 16.5, 1.25), (0, 5, 9.0, 0.0)]
CASES += [(1, place, mu, 0.7) for place, mu in ((2**63, 2.0), (12345, 40.0), (77, -3.0))]


def normal(key: int, place: int) -> float:
    """The normal number as a float."""
    return struct.unpack("<f", struct.pack("<I", noise(key, place)))[0]


def main() -> None:
    """Prints both tables."""
    mpmath.mp.prec = 200
    draw = random.Random(5)
    points = [
        0.0,
        1.0,
        -1.0,
        64.0,
        -64.0,
        0.34657359027997,
        44.3,
        *(draw.uniform(-64, 64) for _ in range(33)),
    ]
    for x in points:
        power = float(mpmath.exp(mpmath.mpf(x)))
        print(f"({x!r}, {power!r}),")
    for key, place, mu, sigma in CASES:
        power = mpmath.exp(mpmath.mpf(mu) + mpmath.mpf(sigma) * mpmath.mpf(normal(key, place)))
        print(f"(({key}, {place}), ({mu}, {sigma}), {int(mpmath.nint(power))}),")


if __name__ == "__main__":
    main()
