"""Samples on their way into the library, as the structs that it reads."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterator
from typing import Any

from wavetrain import _native
from wavetrain._library import library
from wavetrain._sample import Sample

SAMPLES = 64  # that are pulled at a time
URIS_MAX = 4096  # whose bytes are kept
BOX_BYTES = ctypes.sizeof(_native.Box)
SAMPLE_BYTES = ctypes.sizeof(_native.Sample)
TAG = struct.Struct("=Q")
TAG_AT = SAMPLE_BYTES - TAG.size


def box_format(rank: int) -> struct.Struct:
    """wavetrain_box with that many axes; the others are 0."""
    blank = (_native.RANK_MAX - rank) * 8
    return struct.Struct(f"=QQII{rank}q{blank}x{rank}q{blank}x")


FORMATS = [box_format(rank) for rank in range(_native.RANK_MAX + 1)]


class Window:
    """A few samples that were pulled, `count` of which, from `begin` on, were not taken yet."""

    def __init__(self) -> None:
        self.begin = self.count = 0
        self.boxes = (_native.Box * SAMPLES)()
        self.samples = (_native.Sample * SAMPLES)()
        for box, sample in zip(self.boxes, self.samples):
            sample.boxes, sample.n_fields = ctypes.addressof(box), 1
            sample.box_bytes = BOX_BYTES
        self.uris: dict[str, tuple[int, int, Any]] = {}  # address, bytes, and what owns them

    def fill(self, source: Iterator[Sample]) -> int:
        """Takes the next samples of an iterator; how many. Those before one that fails stay."""
        if len(self.uris) + SAMPLES > URIS_MAX:
            self.uris.clear()
        self.begin = number = 0
        try:
            for sample in itertools.islice(source, SAMPLES):
                self.write(number, sample)
                number += 1
        finally:
            self.count = number
        return number

    def write(self, number: int, sample: Any) -> None:
        if not isinstance(sample, Sample):
            raise TypeError(f"samples must be wavetrain.Sample (got {sample!r})")
        address, size, _ = self.uris.get(sample.uri) or self.keep(sample.uri)
        rank = len(sample.aabb)
        begins, ends = zip(*sample.aabb) if rank else ((), ())
        box_at, tag_at = number * BOX_BYTES, number * SAMPLE_BYTES + TAG_AT
        FORMATS[rank].pack_into(self.boxes, box_at, address, size, rank, 0, *begins, *ends)
        TAG.pack_into(self.samples, tag_at, sample.tag)

    def keep(self, uri: str) -> tuple[int, int, Any]:
        text = ctypes.create_string_buffer(uri.encode())
        known = self.uris[uri] = (ctypes.addressof(text), len(text) - 1, text)
        return known

    def push(self, loader: int) -> int:
        """Hands over what there is room for; the status."""
        taken = ctypes.c_size_t()
        first = ctypes.byref(self.samples, self.begin * SAMPLE_BYTES)
        status = library().wavetrain_push(
            loader, first, self.count, SAMPLE_BYTES, 0, ctypes.byref(taken)
        )
        self.begin += taken.value
        self.count -= taken.value
        return status
