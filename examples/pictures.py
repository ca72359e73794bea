"""PNG files, for the examples that draw."""

import pathlib
import struct
import zlib

import numpy


def write_png(path: str, image: numpy.ndarray) -> None:
    """image: [rows, columns] or [rows, columns, 3] of 8 bits."""
    height, width = image.shape[:2]
    kind = 2 if image.ndim == 3 else 0
    rows = numpy.insert(image.reshape(height, -1), 0, 0, axis=1)  # each begins with its filter, 0

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(rows.tobytes()))
    pathlib.Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + head + data + chunk(b"IEND", b""))
