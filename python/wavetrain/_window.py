"""Samples on their way into the library, as the structs that it reads."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterator
from typing import Any

from wavetrain import _native
from wavetrain._config import Config
from wavetrain._library import library
from wavetrain._sample import Box, Sample

SAMPLES = 64  # that are pulled at a time
URIS_MAX = 4096  # whose bytes are kept
BOX_BYTES = ctypes.sizeof(_native.Box)
SAMPLE_BYTES = ctypes.sizeof(_native.Sample)
WHOLE = struct.Struct("=QIIQ")  # wavetrain_sample
TAG = struct.Struct("=Q")
TAG_AT = SAMPLE_BYTES - TAG.size


def box_format(rank: int) -> str:
    """wavetrain_box of the first version with that many axes; the others are 0."""
    blank = (_native.RANK_MAX - rank) * 8
    return f"=QQII{rank}q{blank}x{rank}q{blank}x"


def placed_format(rank: int, field_rank: int) -> str:
    """What follows in a box with a place: field, at, step, axes."""
    blank, field_blank = ((_native.RANK_MAX - each) * 8 for each in (rank, field_rank))
    return f"=II{field_rank}Q{field_blank}x{rank}q{blank}x{_native.RANK_MAX}s"


RANKS = range(_native.RANK_MAX + 1)
FORMATS = [struct.Struct(box_format(rank)) for rank in RANKS]
PLACED = [[struct.Struct(placed_format(rank, field)) for field in RANKS] for rank in RANKS]
PLACED_AT = FORMATS[0].size
ZEROS = (0,) * _native.RANK_MAX


class Window:
    """A few samples that were pulled, `count` of which, from `begin` on, were not taken yet."""

    def __init__(self, config: Config | None = None) -> None:
        self.begin = self.count = 0
        self.boxes = (_native.Box * SAMPLES)()  # of samples that have one, to the first field
        self.samples = (_native.Sample * SAMPLES)()
        for number in range(SAMPLES):
            self.point_to_own(number)
        self.uris: dict[str, tuple[int, int, Any]] = {}  # address, bytes, and what owns them
        fields = config.fields if config else ()
        shapes = [field.sample_shape for field in fields] or [config.sample_shape if config else ()]
        self.ranks = [len(shape) for shape in shapes]
        self.numbers = {field.name: number for number, field in enumerate(fields)}
        self.boxes_max = (config.max_boxes_per_sample if config else 0) or len(shapes)
        self.pool: Any = None  # boxes of the others, boxes_max for each sample
        self.pooled: list[int] = []  # samples that have theirs there

    def point_to_own(self, number: int) -> None:
        sample = self.samples[number]
        sample.boxes = ctypes.addressof(self.boxes) + number * BOX_BYTES
        sample.n_boxes, sample.box_bytes = 1, BOX_BYTES

    def fill(self, source: Iterator[Sample]) -> int:
        """Takes the next samples of an iterator; how many. Those before one that fails stay."""
        if len(self.uris) + SAMPLES > URIS_MAX:
            self.uris.clear()
        while self.pooled:
            self.point_to_own(self.pooled.pop())
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
        uri = sample.uri
        if not uri:  # then it has boxes
            self.write_boxes(number, sample)
            return
        address, size, _ = self.uris.get(uri) or self.keep(uri)
        rank = len(sample.aabb)
        begins, ends = zip(*sample.aabb) if rank else ((), ())
        box_at, tag_at = number * BOX_BYTES, number * SAMPLE_BYTES + TAG_AT
        FORMATS[rank].pack_into(self.boxes, box_at, address, size, rank, 0, *begins, *ends)
        TAG.pack_into(self.samples, tag_at, sample.tag)

    def write_boxes(self, number: int, sample: Sample) -> None:
        count = len(sample.boxes)
        if count > self.boxes_max:
            raise ValueError(
                f"the sample of tag {sample.tag} has {count} boxes, the pipeline takes "
                f"{self.boxes_max}: raise Config.max_boxes_per_sample"
            )
        if self.pool is None:
            self.pool = (_native.Box * (SAMPLES * self.boxes_max))()
        first = number * self.boxes_max * BOX_BYTES
        for place, box in enumerate(sample.boxes):
            try:
                self.write_box(first + place * BOX_BYTES, box)
            except ValueError as error:
                raise ValueError(
                    f"box {place} of the sample of tag {sample.tag}: {error}"
                ) from None
        boxes = ctypes.addressof(self.pool) + first
        WHOLE.pack_into(self.samples, number * SAMPLE_BYTES, boxes, count, BOX_BYTES, sample.tag)
        self.pooled.append(number)

    def write_box(self, box_at: int, box: Box) -> None:
        address, size, _ = self.uris.get(box.uri) or self.keep(box.uri)
        rank = len(box.aabb)
        begins, ends = zip(*box.aabb) if rank else ((), ())
        field = self.field_of(box)
        field_rank = self.ranks[field]
        at, step, axes = box.at, box.step, b""
        if at and len(at) != field_rank:
            raise ValueError(f"at must have an item per axis of the field, {field_rank} (got {at})")
        if box.axes is not None:
            axes = native_axes(box.axes, field_rank)
        FORMATS[rank].pack_into(self.pool, box_at, address, size, rank, 0, *begins, *ends)
        PLACED[rank][field_rank].pack_into(
            self.pool,
            box_at + PLACED_AT,
            field,
            0,
            *(at or ZEROS[:field_rank]),
            *(step or ZEROS[:rank]),
            axes,
        )

    def field_of(self, box: Box) -> int:
        """The number of the field that a box goes to."""
        field = box.field
        if isinstance(field, str):
            if field not in self.numbers:
                names = ", ".join(map(repr, self.numbers)) or "none with a name"
                raise ValueError(f"there is no field {field!r}: Config.fields has {names}")
            return self.numbers[field]
        if field >= len(self.ranks):
            raise ValueError(f"there is no field {field}: a batch has {len(self.ranks)}, from 0 on")
        return field

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


def native_axes(axes: tuple[int | None, ...], field_rank: int) -> bytes:
    """The axes of a field as C counts them: from 1, 0 for one that is dropped."""
    for axis, to in enumerate(axes):
        if to is not None and to >= field_rank:
            raise ValueError(
                f"axes[{axis}] must be below {field_rank}, the axes of the field (got {to})"
            )
    made = bytes([0 if to is None else to + 1 for to in axes])
    # None but zeros would mean that they come in order. An axis of one element may be any.
    return b"\1" if made and field_rank and not any(made) else made
