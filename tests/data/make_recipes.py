#!/usr/bin/env python3
"""make_recipes.py: writes recipes.json, the answers of wavetrain_recipes.h to lists of recipes.

It needs numpy, whose float32 does the arithmetic, and nothing of wavetrain: all is written here
once more from the text of the header. Sines, powers and logarithms of whole numbers are compared
with those of floats. Numbers of float32 and float64 are bits in hexadecimal.
"""

from __future__ import annotations

import json
import math
import random
import struct
from fractions import Fraction
from pathlib import Path

import numpy

U32, U64 = 2**32 - 1, 2**64 - 1
ONE = 2**32
F = numpy.float32
NUMBER, FIELD, CROP, ORDER, ROOM = 0, -1, -3, -4, -5
PAD_NONE, PAD_CONSTANT = 0, 1


class Refused(Exception):
    pass


# ---- Draws --------------------------------------------------------------------------------------


def mix(position, digest):
    x = digest ^ position * 0x9E3779B97F4A7C15 & U64
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & U64
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & U64
    return x ^ x >> 32


def key_of(seed, epoch, name):
    purpose = 0xCBF29CE484222325
    for byte in name.encode():
        purpose = (purpose ^ byte) * 0x100000001B3 & U64
    return mix(purpose, mix(epoch, mix(1, seed)))


def philox(key, counter):
    low, high = key & U32, key >> 32
    x = list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [b >> 32 ^ x[1] ^ low, b & U32, a >> 32 ^ x[3] ^ high, a & U32]
        low, high = low + 0x9E3779B9 & U32, high + 0xBB67AE85 & U32
    return x


class Drawn:
    def __init__(self, seed, epoch, position, name):
        self.key, self.position = key_of(seed, epoch, name), position

    def below(self, n, lane):
        a, b, c, d = philox(self.key, [self.position & U32, self.position >> 32, lane, 0])
        return (b << 32 | a) * n + ((d << 32 | c) * n >> 64) >> 64

    def happens(self, p, lane):
        return self.below(1 << 24, lane) < Fraction(float(p)) * 2**24

    def signed(self, lane):
        return F((self.below(2**24 + 1, lane) - 2**23) / 2**23)

    def part(self, lane):
        return self.below(2**32 + 1, lane)

    def between(self, most, lane):
        return (self.below(2**33 + 1, lane) - ONE) * most >> 32


# ---- Whole numbers for fractions ----------------------------------------------------------------

PI = Fraction(31415926535897932384626433832795028841971693993751, 10**49)
SINE = [int((PI / 2) ** k / math.factorial(k) * 2**60 + Fraction(1, 2)) for k in range(1, 18, 2)]
ROOTS = [2 << 62]
while len(ROOTS) < 33:
    ROOTS.append(math.isqrt(ROOTS[-1] << 62))


def sine(turns):
    turns &= U32
    half = turns & 2**31 - 1
    x = (2**31 - half if half > 2**30 else half) << 30
    square, total = x * x >> 60, 0
    for term in reversed(SINE):
        total = term - (square * total >> 60)
    value = (x * total >> 60) + 2**27 >> 28
    return -value if turns >= 2**31 else value


def cosine(turns):
    return sine(turns + 2**30)


def log2(number):
    whole = number.bit_length() - 33
    mantissa, log = number << 64 - number.bit_length(), whole << 32
    for bit in reversed(range(32)):
        mantissa = mantissa * mantissa >> 63
        if mantissa >> 64:
            mantissa, log = mantissa >> 1, log + (1 << bit)
    return log


def exp2(power):
    product = 2**62
    for bit in range(32):
        if power >> 31 - bit & 1:
            product = product * ROOTS[1 + bit] >> 62
    return product >> 30 - (power >> 32)


def check_functions():
    for k in range(10000):
        turns = k * 429497 & U32
        assert abs(sine(turns) - math.sin(turns / ONE * math.tau) * ONE) < 1, turns
        assert abs(cosine(turns) - math.cos(turns / ONE * math.tau) * ONE) < 1, turns
        number = (k + 1) ** 2 * 7919
        assert abs(log2(number) - math.log2(number / ONE) * ONE) < 2, number
        power = k * 3435973 - 8 * ONE
        assert abs(exp2(power) - 2.0 ** (power / ONE) * ONE) < 1 + 2.0 ** (power / ONE) / 1e4, power


# ---- Recipes ------------------------------------------------------------------------------------


class Sample:
    """A box, its field, and what recipes have made of both."""

    def __init__(self, seed, epoch, position, field, box):
        self.at = (seed, epoch, position)
        self.field, self.box = field, {name: list(list_) for name, list_ in box.items()}
        self.scale = self.bias = self.clamp = self.affine = None
        self.channels = self.crops = 0
        self.sigma, self.noise_key, self.erases = F(0), 0, []

    def pairs(self):
        return list(zip(self.field["spatial"], self.field["box_spatial"]))

    def step(self, axis):
        return self.box["step"][axis] or 1

    def places(self, axis):
        return -((self.box["begin"][axis] - self.box["end"][axis]) // abs(self.step(axis)))

    def elements(self, axis):
        """Those that the places read, as a range."""
        step, begin, end = self.step(axis), self.box["begin"][axis], self.box["end"][axis]
        first = begin if step > 0 else end - 1
        return range(first, first + self.places(axis) * step, step)

    def read(self, axis, first, last, step):
        """Lets the box read from one element to another."""
        low, high = min(first, last), max(first, last)
        self.box["begin"][axis], self.box["end"][axis] = low, high + 1
        self.box["step"][axis] = step

    def has_arithmetic(self):
        return bool(self.channels or self.clamp or self.sigma or self.erases)

    def crop(self, drawn, padding, extents):
        pads_data = self.field["pad_mode"] == PAD_CONSTANT and self.has_arithmetic()
        pads_early = padding and (self.crops or pads_data)
        if self.sigma or self.erases or self.affine or pads_early:
            raise Refused(ORDER)
        if len(extents) != len(self.pairs()):
            raise Refused(NUMBER)
        if padding and self.field["pad_mode"] == PAD_NONE:
            raise Refused(CROP)
        cropped = []
        for lane, ((_, axis), extent) in enumerate(zip(self.pairs(), extents)):
            room, step = self.places(axis) + 2 * padding - extent, self.step(axis)
            if room < 0 or extent == 0 or (padding and abs(step) != 1):
                raise Refused(CROP)
            first = self.elements(axis)[0] + (drawn.below(room + 1, lane) - padding) * step
            cropped.append((axis, first, first + (extent - 1) * step, step))
        for each in cropped:
            self.read(*each)
        self.crops += 1

    def flip(self, drawn, p, axis):
        of_field, axis = self.pairs()[axis]
        if self.sigma or self.affine:
            raise Refused(ORDER)
        if not drawn.happens(p, 0):
            return
        first, limit = self.box["at"][of_field], self.box["at"][of_field] + self.places(axis)
        for erase in self.erases:
            begin, end = erase["begin"][of_field], erase["end"][of_field]
            erase["begin"][of_field] = first + limit - end
            erase["end"][of_field] = first + limit - begin
        elements = self.elements(axis)
        self.read(axis, elements[-1], elements[0], -elements.step)

    def linear(self, a, d):
        """a and d: None, or a list by channel."""
        count = max(len(a or ()), len(d or ()))
        if not count:
            return
        is_one_a, is_one_d = (len(set(each or [0])) == 1 for each in (a, d))
        if ((self.sigma or self.clamp) and not is_one_a) or (self.clamp and not is_one_d):
            raise Refused(ORDER)

        def of(numbers, channel):
            return None if numbers is None else numbers[0 if len(numbers) == 1 else channel]

        def put(x, channel, with_term=True):
            a_, d_ = of(a, channel), of(d, channel)
            x = x if a_ is None else F(x * a_)
            return x if d_ is None or not with_term else F(x + d_)

        self.sigma = put(self.sigma, 0, with_term=False)
        if self.clamp:
            self.clamp = [put(x, 0) for x in self.clamp]
        self.widen(count)
        channels = range(self.channels)
        if self.scale is not None:
            self.scale = [put(self.scale[c], c, with_term=False) for c in channels]
        elif a is not None:
            self.scale = [of(a, c) for c in channels]
        if self.bias is not None:
            self.bias = [put(self.bias[c], c) for c in channels]
        elif d is not None:
            self.bias = [of(d, c) for c in channels]
        for erase in self.erases:
            values = erase["values"]
            if len(values) < count:
                values = values * count
            erase["values"] = [put(value, c) for c, value in enumerate(values)]

    def widen(self, count):
        if count > self.channels:
            self.channels = count
            self.scale = self.scale and [self.scale[0]] * count
            self.bias = self.bias and [self.bias[0]] * count

    def normalize(self, mean, std):
        a = [F(1) / s for s in std] or None
        count = max(len(mean), len(std)) if mean else 0

        def term(channel):
            m = mean[0 if len(mean) == 1 else channel]
            return -m / std[0 if len(std) == 1 else channel] if std else -m

        self.linear(a, [term(channel) for channel in range(count)] or None)

    def jitter(self, drawn, brightness, contrast):
        d = [F(drawn.signed(0) * brightness)] if brightness else None
        a = [F(F(1) + F(drawn.signed(1) * contrast))] if contrast else None
        self.linear(a, d)

    def noise(self, drawn, sigma):
        if not sigma:
            return
        if self.sigma or self.clamp or self.erases:
            raise Refused(ORDER)
        self.sigma, self.noise_key = sigma, mix(drawn.position, drawn.key)

    def clamp_to(self, low, high):
        def clamped(x):
            return min(max(x, low), high)

        self.clamp = [clamped(x) for x in self.clamp] if self.clamp else [low, high]
        for erase in self.erases:
            erase["values"] = [clamped(value) for value in erase["values"]]

    def check_erase(self):
        if len(self.erases) == 8:
            raise Refused(ROOM)
        for of_field, axis in self.pairs():
            if self.box["at"][of_field] + self.places(axis) > self.field["shape"][of_field]:
                raise Refused(FIELD)

    def erase(self, spans, values):
        begin, end = [0] * len(self.field["shape"]), list(self.field["shape"])
        for (axis, _), (first, limit) in zip(self.pairs(), spans):
            begin[axis] = self.box["at"][axis] + first
            end[axis] = self.box["at"][axis] + limit
        self.widen(len(values) if len(values) > 1 else 0)
        self.erases.append({"begin": begin, "end": end, "values": list(values) or [F(0)]})

    def cutout(self, drawn, size, values):
        self.check_erase()
        spans = []
        for lane, (_, axis) in enumerate(self.pairs()):
            places = self.places(axis)
            begin = drawn.below(places, lane) - size // 2
            spans.append((max(begin, 0), min(begin + size, places)))
        self.erase(spans, values)

    def random_erase(self, drawn, p, scale, ratio, values):
        self.check_erase()
        if len(self.pairs()) != 2:
            raise Refused(FIELD)
        extents = [self.places(axis) for _, axis in self.pairs()]
        if not drawn.happens(p, 0):
            return
        low, high = (int(Fraction(float(x)) * 2**24) for x in scale)
        fraction = low + ((high - low) * drawn.part(1) >> 32)
        low, high = (log2(int(Fraction(float(x)) * ONE)) for x in ratio)
        r = max(exp2(low + ((high - low) * drawn.part(2) >> 32)) >> 8, 1)
        area = extents[0] * extents[1] * fraction
        squares = area * r, (area << 48) // r
        sides = [
            min(max(math.isqrt(square) + 2**23 >> 24, 1), extent)
            for square, extent in zip(squares, extents)
        ]
        begins = [drawn.below(extents[k] - sides[k] + 1, 3 + k) for k in range(2)]
        self.erase([(begin, begin + side) for begin, side in zip(begins, sides)], values)

    def affine_map(self, drawn, degrees, zoom, shear, shift, filter):
        if self.has_arithmetic() or self.affine or self.crops:
            raise Refused(ORDER)
        rank = len(self.pairs())
        if rank < 2 or any(abs(self.step(axis)) != 1 for _, axis in self.pairs()):
            raise Refused(FIELD)

        def unit():
            return [[ONE * (i == j) for j in range(rank)] for i in range(rank)]

        def product(left, right):
            return [
                [sum(row[k] * right[k][j] for k in range(rank)) + 2**31 >> 32 for j in range(rank)]
                for row in left
            ]

        planes = [(0, 1)] if rank == 2 else [(1, 2), (0, 2), (0, 1)]
        turned = unit()
        for lane, (i, j) in enumerate(planes):
            angle = drawn.between(int(float(degrees[lane]) * 2.0**32 / 360.0), lane)
            one = unit()
            one[i][i], one[i][j] = cosine(angle), -sine(angle)
            one[j][i], one[j][j] = sine(angle), cosine(angle)
            turned = product(turned, one)
        sheared = unit()
        above = [(i, j) for i in range(rank) for j in range(i + 1, rank)]
        for lane, (i, j) in enumerate(above):
            sheared[i][j] = drawn.between(int(float(shear) * 2.0**32), 4 + lane)
        turned = product(turned, sheared)
        low, high = (int(float(x) * 2.0**32) for x in zoom)
        inverse = 2**64 // max(low + ((high - low) * drawn.part(3) >> 32), 1)
        matrix = [[0] * 4 for _ in range(3)]
        for i, (_, axis) in enumerate(self.pairs()):
            begin, end = self.box["begin"][axis], self.box["end"][axis]
            sum_ = 0
            for j, (column, _) in enumerate(self.pairs()):
                matrix[i][j] = self.step(axis) * (turned[i][j] * inverse + 2**31 >> 32)
                sum_ += matrix[i][j] * ((self.field["shape"][column] - 1) << 31)
            most = int(float(shift) * (end - begin) * 2.0**32)
            centre = (begin + end - 1) << 31
            matrix[i][3] = centre + drawn.between(most, 7 + i) - (sum_ + 2**31 >> 32)
        axes = [axis for _, axis in self.pairs()]
        self.affine = {"rank": rank, "axes": axes, "filter": filter}
        self.affine["matrix"] = [[bits64(number / ONE) for number in row] for row in matrix]
        for column, axis in self.pairs():
            self.read(axis, 0, self.field["shape"][column] - 1, 1)

    def run(self, kind, name, numbers):
        """One recipe; its answer."""
        drawn = () if name is None else (Drawn(*self.at, name),)
        call = {"clamp": self.clamp_to, "affine": self.affine_map}.get(kind)
        call = call or getattr(self, kind)
        try:
            call(*drawn, **numbers)
        except Refused as why:
            return why.args[0]
        return 1

    def answer(self):
        return {
            **{name: self.box[name] for name in ("begin", "end", "step")},
            "n_channels": self.channels,
            "scale": self.scale and bits(self.scale),
            "bias": self.bias and bits(self.bias),
            "clamp": self.clamp and bits(self.clamp),
            "noise_sigma": bits([self.sigma])[0],
            "noise_key": self.noise_key,
            "erase": [{**erase, "values": bits(erase["values"])} for erase in self.erases],
            "affine": self.affine,
        }


# ---- Vectors ------------------------------------------------------------------------------------


def bits(numbers):
    return [struct.pack(">f", number).hex() for number in numbers]


def bits64(number):
    return struct.pack(">d", number).hex()


def recipes_of(dice, channels, extents, is_mapped):
    """Some recipes in some order: most of what a run does, and orders that are refused."""

    def floats(low, high, count=1):
        return [F(dice.uniform(low, high)) for _ in range(count)]

    def by_channel(low, high, may_lack=True):
        return floats(low, high, dice.choice(([0] if may_lack else []) + [1, channels]))

    cropped = [max(1, extent - dice.randrange(8)) for extent in extents]
    spatial = len(extents)
    first = [
        ("crop", {"padding": dice.choice([0, 4]), "extents": cropped}),
        ("crop", {"padding": dice.choice([0, 0, 4]), "extents": [1] * spatial}),
        ("flip", {"p": floats(0, 1)[0], "axis": dice.randrange(spatial)}),
        ("flip", {"p": F(1), "axis": 0}),
    ]
    motion = {
        "degrees": floats(0, 180, 3),
        "zoom": sorted(floats(0.5, 2, 2)),
        "shear": floats(0, 1)[0],
        "shift": floats(0, 0.5)[0],
        "filter": dice.randrange(2),
    }
    first += [("affine", motion)] * is_mapped
    rest = [
        ("jitter", {"brightness": floats(0, 2)[0], "contrast": floats(0, 0.99)[0]}),
        ("jitter", {"brightness": F(0), "contrast": F(0.5)}),
        ("normalize", {"mean": by_channel(-3, 3), "std": by_channel(0.1, 9)}),
        ("normalize", {"mean": [], "std": [F(255)]}),
        ("noise", {"sigma": floats(0, 2)[0]}),
        ("clamp", dict(zip(("low", "high"), sorted(floats(-2, 2, 2))))),
        ("clamp", {"low": F("-inf"), "high": F(1)}),
        ("cutout", {"size": dice.randrange(1, 20), "values": by_channel(-1, 1)}),
        (
            "random_erase",
            {
                "p": floats(0.3, 1)[0],
                "scale": sorted(floats(0.02, 0.9, 2)),
                "ratio": sorted(floats(0.3, 3.3, 2)),
                "values": by_channel(-1, 1),
            },
        ),
    ]
    chosen = dice.sample(first, dice.randrange(5))
    chosen += dice.choices(rest, k=dice.randrange(8))
    if dice.random() < 0.2:
        dice.shuffle(chosen)
    names = ("crop", "flip", "erase 1", "f\u00e4rbe", "n" * 63)
    unnamed = ("normalize", "clamp")
    return [
        (kind, None if kind in unnamed else dice.choice(names), numbers) for kind, numbers in chosen
    ]


def written(numbers):
    """Parameters, floats as bits."""
    found = {}
    for name, value in numbers.items():
        if isinstance(value, numpy.floating):
            value = bits([value])[0]
        elif isinstance(value, list) and name not in ("extents",):
            value = bits(value)
        found[name] = value
    return found


def vector(dice):
    spatial = dice.choice([1, 2, 2, 2, 3])
    channels = dice.choice([1, 3, 3, 64])
    extents = [dice.randrange(3, 40) for _ in range(spatial)]
    has_channels = dice.random() < 0.8
    lead = has_channels + dice.randrange(2)
    shape = [channels] * has_channels + [2] * (lead - has_channels)
    at = [dice.choice([0, 0, 1, 2]) for _ in range(spatial)]
    shape += [extent + first + dice.choice([0, 0, 3]) for extent, first in zip(extents, at)]
    is_longer = dice.randrange(2)  # the box has an axis more, of one element
    field = {
        "shape": shape,
        "channel_axis": 0 if has_channels else None,
        "pad_mode": dice.choice([PAD_NONE, PAD_CONSTANT, 2, 3, 3]),
        "spatial": [lead + axis for axis in range(spatial)],
        "box_spatial": [is_longer + lead + axis for axis in range(spatial)],
    }
    steps = [dice.choice([0, 1, 1, -1, 1, 2, -3]) for _ in range(spatial)]
    begins = [dice.randrange(-3, 1000) for _ in range(spatial)]
    reach = [(extent - 1) * abs(step or 1) + 1 for extent, step in zip(extents, steps)]
    rest = is_longer + lead
    ends = [begin + count for begin, count in zip(begins, reach)]
    box = {
        "begin": [7] * is_longer + [0] * lead + begins,
        "end": [8] * is_longer + shape[:lead] + ends,
        "step": [0] * rest + steps,
        "at": [0] * lead + at,
    }
    seed, epoch, position = dice.getrandbits(64), dice.randrange(100), dice.getrandbits(40)
    sample = Sample(seed, epoch, position, field, box)
    recipes = recipes_of(dice, channels if has_channels else 1, extents, dice.random() < 0.4)
    made = {"seed": seed, "epoch": epoch, "position": position, "field": field, "box": box}
    answers = [sample.run(*recipe) for recipe in recipes]
    made["recipes"] = [
        [kind, name, written(numbers), answer]
        for (kind, name, numbers), answer in zip(recipes, answers)
    ]
    return {**made, "answer": sample.answer()}


def main():
    check_functions()
    dice = random.Random(20260)
    lines = ",\n".join(json.dumps(vector(dice)) for _ in range(200))
    Path(__file__).with_name("recipes.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
