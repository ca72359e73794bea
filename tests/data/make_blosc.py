"""Writes blosc/*.blosc: chunks made by c-blosc through numcodecs, one per corner of the format.

    python make_blosc.py        (numcodecs 0.16)

A file is named PATTERN_BYTES_tTYPESIZE_cCLEVEL_sSHUFFLE[_CODEC].blosc, so that a test can paint the
bytes again and compare. Patterns, byte by byte:
  ramp   little-endian words v(k) = (k * k / 65536 + k / 8) mod 2^16
  noise  low bytes of xorshift32 from 2463534242
  tail   ramp, noise from byte 98304 on
  middle ramp, noise from byte 32768 to 65536
"""

import pathlib

import numcodecs.blosc
import numpy as np

FOLDER = pathlib.Path(__file__).with_name("blosc")


def ramp(count):
    k = np.arange((count + 1) // 2, dtype=np.uint64)
    return ((k * k // 65536 + k // 8) & 0xFFFF).astype("<u2").tobytes()[:count]


def noise(count):
    state, out = 2463534242, bytearray()
    for _ in range(count):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        out.append(state & 0xFF)
    return bytes(out)


def paint(pattern, count):
    if pattern == "noise":
        return noise(count)
    painted, random = ramp(count), noise(count)
    if pattern == "tail":
        return painted[:98304] + random[98304:]
    if pattern == "middle":
        return painted[:32768] + random[32768:65536] + painted[65536:]
    return painted


def write(pattern, count, typesize, clevel, shuffle, codec="zstd"):
    painted = paint(pattern, count)
    chunk = numcodecs.blosc.compress(painted, codec.encode(), clevel, shuffle, 0, typesize)
    # numcodecs takes the 0 bytes of an empty chunk for an error.
    assert count == 0 or numcodecs.blosc.decompress(chunk) == painted
    suffix = "" if codec == "zstd" else f"_{codec}"
    name = f"{pattern}_{count}_t{typesize}_c{clevel}_s{shuffle}{suffix}.blosc"
    (FOLDER / name).write_bytes(chunk)
    print(f"{name:45} flags {chunk[2]:#04x} blocksize {chunk[8:12].hex()} {len(chunk)}")
    return chunk


def is_ordered(chunk):
    nbytes, blocksize = np.frombuffer(chunk[4:12], "<u4")
    starts = np.frombuffer(chunk[16:], "<i4", count=-(-int(nbytes) // int(blocksize)))
    return (np.diff(starts) > 0).all()


def main():
    FOLDER.mkdir(exist_ok=True)
    numcodecs.blosc.use_threads = True
    numcodecs.blosc.set_nthreads(2)
    # Copied chunks: clevel 0, tiny, incompressible, empty.
    write("ramp", 3000, 2, 0, 1)
    write("ramp", 8, 2, 5, 1)
    write("noise", 5000, 2, 5, 1)
    write("noise", 5000, 4, 5, 2)
    write("ramp", 0, 2, 5, 1)
    # Short last blocks, one of them stored raw, and a raw block between others.
    for shuffle in (0, 1, 2):
        write("tail", 100000, 2, 1, shuffle)
        write("middle", 100000, 2, 1, shuffle)
    # Two threads write blocks as they finish; usually not in order.
    while is_ordered(write("ramp", 300000, 4, 1, 1)):
        pass
    # Elements that are no multiple of 8, and bytes behind the last whole element.
    write("ramp", 2466, 2, 5, 2)
    write("ramp", 2464, 2, 5, 2)
    write("ramp", 2467, 2, 5, 2)
    write("ramp", 2467, 2, 5, 1)
    for typesize in (1, 2, 3, 4, 8, 12, 16, 100, 255):
        for shuffle in (1, 2):
            write("ramp", 20400, typesize, 5, shuffle)
    for codec in ("lz4", "blosclz", "zlib"):
        write("ramp", 4000, 2, 5, 1, codec)


main()
