"""Writes casts.bin: what numpy and ml_dtypes make of chosen values, for every cast of the contract;
and clamps.bin: likewise for every other cast to an integer, which clamps.

    python make_casts.py        (numpy 2.4, ml_dtypes 0.6)

A file is a sequence of records, all numbers little-endian u32 unless said:
source type, target type (numbers of the C header), count, source elements, target elements.
A NaN in the result is replaced by the quiet NaN with the sign of its source, as the contract says;
numpy itself keeps part of the payload. Casts to bfloat16 go through float32, as ml_dtypes does it.
Casts that clamp are numpy.clip of numpy.trunc in long doubles, which hold every integer of 64 bits
(on x86-64), and 0 for NaN. clamps.bin has no record of pairs that casts.bin has, and the values of
each source once: its count is 0 in records that take those of the record before.
"""

import pathlib

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
CODES = {
    "float32": 1, "bfloat16": 2, "float16": 3, "int32": 4, "int64": 5, "uint8": 6, "int8": 7,
    "uint16": 8, "int16": 9, "uint32": 10, "uint64": 11, "float64": 12, "bool": 13,
}
QUIET = {"float32": (0x7FC00000, np.uint32, 31), "float16": (0x7E00, np.uint16, 15),
         "bfloat16": (0x7FC0, np.uint16, 15)}
RANDOM = np.random.default_rng(20240607)


def has_cast(source, target):
    """The table of src/assemble/cast.rs: of types that differ."""
    if source.kind == "b" or target.name in ("float32", "bfloat16", "float16"):
        return True
    if source.kind not in "iu" or target.name == "float64":
        return source.kind in "iu"
    is_unsigned = source.kind == target.kind == "u"
    return (is_unsigned or target.name in ("int32", "int64")) and np.can_cast(source, target)


def integers(dtype):
    """Everything for 8 bits and for bool, in bytes that are not all 0 or 1; else extremes, powers of two and their neighbours, and ties."""
    if dtype.kind == "b":
        return np.arange(256, dtype=np.uint8).view(dtype)
    info = np.iinfo(dtype)
    if info.bits == 8:
        return np.arange(256, dtype=np.uint8).view(dtype)
    values = {info.min, info.max, 0}
    for bit in range(info.bits):
        for last in (8, 11, 24):  # significant bits of bfloat16, float16, float32
            place = 1 << max(bit - last, 0)  # half of the last place of 2^bit
            for base in (1 << bit, (1 << bit) + 2 * place, (1 << bit) + 3 * place):
                values.update((base - place, base, base + place, base + 1, base - 1))
    values.update((65503, 65504, 65505, 65519, 65520, 65521, 65535, 65536))
    values.update(-value for value in list(values))
    for bits in RANDOM.integers(1, info.bits + 1, 150):
        values.add(int(RANDOM.integers(0, 1 << 63, dtype=np.uint64)) >> (64 - int(bits)))
    return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype=dtype)


def floats(dtype):
    """Patterns around every boundary of every narrower type, specials, NaNs, random patterns."""
    bits = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}[dtype.name]
    word = np.dtype(f"uint{bits}")
    if bits == 16:
        chosen = np.concatenate([np.arange(0, 65536, 61), np.arange(0, 40), np.arange(0x3F0, 0x410),
                                 np.arange(0x7BF0, 0x7C10), np.arange(0x7F70, 0x7F90),
                                 np.arange(0xFBF0, 0xFC10), np.arange(0xFF70, 0xFF90)])
        return np.unique(chosen).astype(word).view(dtype)
    exact = []
    # Boundaries of float16, bfloat16 and float32: subnormal steps, ties, largest values.
    for exponent in (-25, -24, -23, -15, -14, -13, -1, 0, 1, 14, 15, 16,
                     -134, -133, -126, -127, -149, -150, 126, 127):
        for last in (7, 10, 23):
            for steps in (0, 0.5, 1, 1.5, 2, 2.5, 3):
                exact.append(2.0**exponent * (1 + steps * 2.0**-last))
                exact.append(2.0**exponent * (2 - steps * 2.0**-last))
    for steps in range(1, 12):
        exact += [steps * 2.0**-25, steps * 2.0**-134, steps * 2.0**-150]
    exact += [0.0, 65504.0, 65519.0, 65520.0, 65536.0, 3.3895313892515355e38,
              3.3961775292304e38, 3.4028234663852886e38, 3.4028235677973366e38, 1e308]
    with np.errstate(all="ignore"):
        centre = np.array(exact, dtype=np.float64).astype(dtype)
    patterns = centre.view(word)
    around = [patterns, patterns + word.type(1), patterns - word.type(1)]
    random = RANDOM.integers(0, 1 << bits, 250, dtype=word, endpoint=False) if bits < 64 else \
        RANDOM.integers(0, np.iinfo(np.uint64).max, 250, dtype=word)
    quiet = np.array([dtype.type(np.inf)]).view(word)[0]
    nans = quiet + np.array([0, 1, 2, 77, 1 << (bits // 3)], dtype=word)
    every = np.concatenate([*around, random, nans])
    every = np.concatenate([every, every | word.type(1 << (bits - 1))])
    return np.unique(every).view(dtype)


def cast(values, target):
    with np.errstate(all="ignore"):
        if target == BF16:
            result = values.astype(np.float32).astype(BF16)
        else:
            result = values.astype(target)
    if target.name in QUIET and values.dtype.kind not in "iub":
        pattern, word, shift = QUIET[target.name]
        with np.errstate(all="ignore"):
            is_nan = np.isnan(values)
        bits = values.dtype.itemsize * 8
        sign = (values.view(f"uint{bits}") >> np.uint64(bits - 1)).astype(word)
        result.view(word)[is_nan] = (pattern | (sign << word(shift)))[is_nan]
    return result


def clamp(values, target):
    if values.dtype.kind == "b":
        return (values.view(np.uint8) != 0).astype(target)
    info = np.iinfo(target)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float32) if values.dtype == BF16 else values
        whole = np.trunc(wide.astype(np.longdouble))
    whole = np.where(np.isnan(whole), np.longdouble(0), whole)
    least, most = np.longdouble(info.min), np.longdouble(info.max)
    assert int(least) == info.min and int(most) == info.max
    return np.clip(whole, least, most).astype(target)


def limits(values, integer_types):
    """Some of the values, and what lies around the limits of every integer, in their type."""
    chosen = [values[::4]]
    for info in map(np.iinfo, integer_types):
        for limit in (info.min, info.max):
            for step in (-2, -1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 2):
                with np.errstate(all="ignore"):
                    number = np.array([np.longdouble(limit) + np.longdouble(step)])
                    number = number.astype(np.float64).astype(values.dtype)
                up, down = (values.dtype.type(end) for end in (np.inf, -np.inf))
                chosen += [number, np.nextafter(number, up), np.nextafter(number, down)]
    patterns = np.concatenate(chosen).view(f"uint{8 * values.dtype.itemsize}")
    return np.unique(patterns).view(values.dtype)


def main():
    integer_types = [np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("u", "")]
    float_types = [np.dtype("float16"), BF16, np.dtype("float32"), np.dtype("float64")]
    truth = np.dtype("bool")
    out, clamped = bytearray(), bytearray()
    for source in [*integer_types, *float_types, truth]:
        values = floats(source) if source in float_types else integers(source)
        near = limits(values, integer_types) if source in float_types else values
        is_first = True
        for target in integer_types:
            if target != source and not has_cast(source, target):
                count = len(near) if is_first else 0
                head = [CODES[source.name], CODES[target.name], count]
                clamped += np.array(head, dtype="<u4").tobytes()
                clamped += (near.tobytes() if is_first else b"") + clamp(near, target).tobytes()
                is_first = False
        for target in [*float_types, *integer_types]:
            if target == source or not has_cast(source, target):
                continue
            head = [CODES[source.name], CODES[target.name], len(values)]
            out += np.array(head, dtype="<u4").tobytes()
            out += values.tobytes() + cast(values, target).tobytes()
    pathlib.Path(__file__).with_name("casts.bin").write_bytes(out)
    pathlib.Path(__file__).with_name("clamps.bin").write_bytes(clamped)


main()
