"""make_digests.py: digests as include/wavetrain.h defines them, word by word in whole numbers.

Prints what the unit test of src/loops/digest.rs expects. Shares nothing with the library;
tests/python/test_digest.py has the same definition over numpy arrays.
"""

MODULUS = 2**64


def mix(position, digest):
    x = digest ^ (position * 0x9E3779B97F4A7C15 % MODULUS)
    x ^= x >> 32
    x = x * 0xD6E8FEB86659FD93 % MODULUS
    x ^= x >> 32
    x = x * 0xD6E8FEB86659FD93 % MODULUS
    return x ^ x >> 32


def digest(data):
    total = 0
    for index in range(0, len(data), 8):
        word = int.from_bytes(data[index : index + 8], "little")
        total += mix(index // 8 + 1, word)
    return mix(len(data), total % MODULUS)


if __name__ == "__main__":
    for position, value in [(0, 0), (1, 0), (MODULUS - 1, 0x0123456789ABCDEF)]:
        print(f"mix({position}, {value:#x}) = {mix(position, value):#018x}")
    for data in [b"", b"\0", b"wavetrain", bytes(range(256))]:
        print(f"digest of {len(data)} bytes = {digest(data):#018x}")
