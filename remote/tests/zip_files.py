"""Writes the archives of tests/zip.rs into a folder."""

import struct
import sys
import warnings
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
painted = bytes((number * 2654435761 >> 13) & 255 for number in range(200_000))
text = b"the same line again and again\n" * 3000


def archive(name, **options):
    return zipfile.ZipFile(folder / name, "w", **options)


with archive("plain.zip") as target:
    target.writestr("zarr.json", b"{}")
    target.writestr("c/0/0", painted)
    target.writestr("c/0/1", text, zipfile.ZIP_DEFLATED)
    target.writestr("c/0/empty", b"")
    target.writestr("c/0/empty_deflated", b"", zipfile.ZIP_DEFLATED)
    target.mkdir("folder")
    target.writestr("unicode/\u00e4\u4e2d", b"u")
    target.comment = b"a comment " * 100

with archive("zip64.zip") as target:
    for number, method in enumerate([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]):
        info = zipfile.ZipInfo(f"big/{number}")
        info.compress_type = method
        with target.open(info, "w", force_zip64=True) as entry:
            entry.write(painted)

# More than 65535 entries: the end record itself is zip64.
with archive("many.zip") as target:
    for number in range(66_000):
        target.writestr(f"c/{number}", b"%d" % number)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with archive("twice.zip") as target:
        target.writestr("a", b"first")
        target.writestr("b", b"other")
        target.writestr("a", b"second, which counts")

with archive("lzma.zip") as target:
    target.writestr("a", text, zipfile.ZIP_LZMA)

# An archive after a program that unpacks itself: its offsets are relative to its own begin.
(folder / "prefixed.zip").write_bytes(b"#!/bin/sh\n" * 50 + (folder / "twice.zip").read_bytes())


def changed(name, source, change):
    data = bytearray((folder / source).read_bytes())
    change(data)
    (folder / name).write_bytes(data)


def directory_at(data):
    return struct.unpack_from("<I", data, data.rfind(b"PK\x05\x06") + 16)[0]


def encrypt(data):
    at = directory_at(data)
    data[at + 8] |= 1


def flip_stored(data):
    at = data.find(painted[1000:1100])
    data[at] ^= 1


def flip_deflated(data):
    at = directory_at(data)
    while data[at + 46 : at + 46 + 5] != b"c/0/1":
        names = struct.unpack_from("<HHH", data, at + 28)
        at += 46 + sum(names)
    data[at + 16] ^= 1  # the CRC


def overlap(data):
    at = directory_at(data)
    # The first entry claims the bytes of the entries after it.
    struct.pack_into("<II", data, at + 20, 100_000, 100_000)


changed("encrypted.zip", "plain.zip", encrypt)
changed("flipped.zip", "plain.zip", flip_stored)
changed("crc.zip", "plain.zip", flip_deflated)
changed("overlap.zip", "plain.zip", overlap)
(folder / "painted").write_bytes(painted)
(folder / "text").write_bytes(text)
(folder / "broken.zip").write_bytes(painted)
(folder / "empty.zip").write_bytes(b"")
with archive("none.zip"):
    pass
(folder / "folder.zip").mkdir(exist_ok=True)
(folder / "folder.zip" / "zarr.json").write_bytes(b"in a folder")
