"""Samples on their way into the library, as the structs that it reads, and the memory that they
borrow.

Samples are counted from open or reset on. Objects that sample number n borrows are held from before
the library can have them until the batch of n is popped. Ctrl-C may interrupt between any two
steps, so each of them keeps all that is needed, or more. If a call of push was ended after its
work, `Taken` still has the number of its samples.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from wavetrain import _native
from wavetrain._border import short
from wavetrain._config import Config, Dtype
from wavetrain._fed import VALUE_BYTES, Fed, Number
from wavetrain._library import library
from wavetrain._sample import Box, Sample
from wavetrain._table import Fields, Table, Tables

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
    """The rest of a box with a place: field, at, step, axes, tensor, augment, affine, lists."""
    blank, field_blank = ((_native.RANK_MAX - each) * 8 for each in (rank, field_rank))
    return f"=II{field_rank}Q{field_blank}x{rank}q{blank}x{_native.RANK_MAX}sQQQQII"


def tensor_format(rank: int) -> str:
    """wavetrain_tensor with that many axes."""
    blank = (_native.RANK_MAX - rank) * 8
    return f"=QQIIiI{rank}Q{blank}x{rank}q{blank}xQ"


RANKS = range(_native.RANK_MAX + 1)
FORMATS = [struct.Struct(box_format(rank)) for rank in RANKS]
PLACED = [[struct.Struct(placed_format(rank, field)) for field in RANKS] for rank in RANKS]
PLACED_AT = FORMATS[0].size
TENSORS = [struct.Struct(tensor_format(rank)) for rank in RANKS]
TENSOR_BYTES = ctypes.sizeof(_native.Tensor)
FEED_BYTES = TENSOR_BYTES + VALUE_BYTES  # of a box: its tensor, and after it its value
LIST_BYTES = ctypes.sizeof(_native.IndexList)
VALUE = struct.Struct(f"={VALUE_BYTES}s")
ZEROS = (0,) * _native.RANK_MAX


def native_lists(lists: tuple[tuple[int, tuple[int, ...]], ...]) -> tuple[Any, list[Any]]:
    """The structs of index lists, and the indices that they point to."""
    made = (_native.IndexList * len(lists))()
    indices: list[Any] = []
    for one, (axis, elements) in zip(made, lists):
        indices.append((ctypes.c_int64 * len(elements))(*elements))
        one.axis, one.n_indices = axis, len(elements)
        one.indices = ctypes.addressof(indices[-1])
    return made, indices


class Taken(NamedTuple):
    """How far the samples of a window were taken: one value, so that each change is one step."""

    number: int  # of the first sample of the window
    begin: int  # samples that were taken by earlier calls
    more: ctypes.c_size_t  # and by the last one, which counts them here
    end: int  # samples of the window


class Window:
    """A few samples that were pulled, `count` of which, from `begin` on, were not taken yet, and
    what those borrow that were."""

    def __init__(self, config: Config | None = None) -> None:
        self.taken = Taken(0, 0, ctypes.c_size_t(), 0)
        self.is_filling = False
        self.boxes = (_native.Box * SAMPLES)()  # of samples that have one, to the first field
        self.samples = (_native.Sample * SAMPLES)()
        for number in range(SAMPLES):
            self.point_to_own(number)
        self.uris: dict[str, tuple[int, int, Any]] = {}  # address, bytes, and what owns them
        fields = config.fields if config else ()
        shapes = [field.sample_shape for field in fields] or [config.sample_shape if config else ()]
        self.fields = Fields(
            {field.name: number for number, field in enumerate(fields)},
            [field.dtype for field in fields] or [config.dtype if config else Dtype.F32],
            [len(shape) for shape in shapes],
        )
        self.table: Table | None = None  # whose rows the samples are
        self.boxes_max = (config.max_boxes_per_sample if config else 0) or len(shapes)
        self.pool: Any = None  # boxes of the others, boxes_max for each sample
        self.feeds: Any = None  # what those are fed with, FEED_BYTES each
        self.pooled: list[int] = []  # samples that have theirs there
        self.held: dict[int, list[Any]] = {}  # by the number of a sample, what it borrows
        self.cuts: list[int] = []  # where a flush ended a batch before it was full
        self.mark = (0, 0, 0)  # the batch that is popped next, its first sample, and cuts before
        self.lock = threading.Lock()  # of the mark
        self.batch_samples = config.samples_per_batch if config else 1
        self.drop_last = bool(config and config.drop_last)

    @property
    def begin(self) -> int:
        return self.taken.begin + self.taken.more.value

    @property
    def count(self) -> int:
        return self.taken.end - self.begin

    def point_to_own(self, number: int) -> None:
        sample = self.samples[number]
        sample.boxes = ctypes.addressof(self.boxes) + number * BOX_BYTES
        sample.n_boxes, sample.box_bytes = 1, BOX_BYTES

    def fill(self, source: Iterator[Sample] | Tables) -> int:
        """Takes the next samples of an iterator; how many. Those before one that fails stay."""
        if self.is_filling:
            raise ValueError("an iterable of samples is already executing: it must not push or pop")
        if isinstance(source, Tables):
            return self.fill_rows(source)
        if len(self.uris) + SAMPLES > URIS_MAX:
            self.uris.clear()
        while self.pooled:
            self.point_to_own(self.pooled.pop())
        first, number = self.drop(), 0
        self.table = None
        try:
            self.is_filling = True
            for sample in itertools.islice(source, SAMPLES):
                self.write(number, sample)
                number += 1
        finally:
            self.taken = Taken(first, 0, ctypes.c_size_t(), number)
            self.is_filling = False
        return number

    def fill_rows(self, source: Tables) -> int:
        """Takes the next table; how many rows it has."""
        first = self.drop()
        try:
            self.is_filling = True
            table = next(source, None)
        finally:
            self.is_filling = False
        if table is None:
            return 0
        self.table, self.taken = table, Taken(first, 0, ctypes.c_size_t(), table.count)
        return table.count

    def drop(self) -> int:
        """Forgets what was not taken; the number of the next sample."""
        first = self.taken.number + self.begin
        for number in [*self.held]:
            if number >= first:
                del self.held[number]
        self.taken = Taken(first, 0, ctypes.c_size_t(), 0)
        return first

    def cut(self) -> None:
        """A flush follows the samples that were taken."""
        number = self.taken.number + self.begin
        if not self.cuts or self.cuts[-1] != number:
            self.cuts.append(number)

    def let_go(self, batch: int) -> None:
        """The number of objects that the samples of all batches up to this one borrow."""
        gone: list[Any] = []  # whose ends may run code of anybody's: after the lock
        with self.lock:
            number, end, cut = self.mark
            while number <= batch:
                while cut < len(self.cuts) and self.cuts[cut] <= end:
                    cut += 1
                if cut == len(self.cuts):
                    end += self.batch_samples * (batch + 1 - number)
                    number = batch + 1
                    break
                full = end + self.batch_samples
                is_cut = self.cuts[cut] < full
                end = self.cuts[cut] if is_cut else full
                number += not (is_cut and self.drop_last)  # then these are in no batch
            gone += [self.held.pop(sample, None) for sample in [*self.held] if sample < end]
            self.mark = number, end, cut

    def write(self, number: int, sample: Any) -> None:
        if not isinstance(sample, Sample):
            raise TypeError(
                "samples must be wavetrain.Sample, made by Sample(uri, aabb) or Sample(boxes=[..]) "
                f"(got {short(sample)})"
            )
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
        held: list[Any] = []
        for place, box in enumerate(sample.boxes):
            try:
                fed, borrowed = self.write_box(first + place * BOX_BYTES, box)
                if borrowed is not None:
                    held.append(borrowed)
                if fed is not None and fed.is_borrowed:
                    held.append((fed.owner, fed.event))
            except ValueError as error:
                raise ValueError(
                    f"box {place} of the sample of tag {sample.tag}: {error}"
                ) from None
        boxes = ctypes.addressof(self.pool) + first
        WHOLE.pack_into(self.samples, number * SAMPLE_BYTES, boxes, count, BOX_BYTES, sample.tag)
        self.pooled.append(number)
        if held:
            self.held[self.taken.number + number] = held

    def write_box(self, box_at: int, box: Box) -> tuple[Fed | None, Any]:
        """The array that it is fed from, and the owners of all that it borrows."""
        address = size = kind = tensor = 0
        field, fed = self.fields.number(box.field), None
        if box.array is None:
            address, size, _ = self.uris.get(box.uri) or self.keep(box.uri)
        else:
            fed = self.fed_of(box.array, field)
            kind = _native.BOX_MEMORY if fed.is_borrowed else _native.BOX_VALUE
            tensor = self.write_tensor(box_at // BOX_BYTES * FEED_BYTES, fed)
        rank = len(box.aabb)
        begins, ends = zip(*box.aabb) if rank else ((), ())
        field_rank = self.fields.ranks[field]
        at, step, axes = box.at, box.step, b""
        if at and len(at) != field_rank:
            raise ValueError(f"at must have an item per axis of the field, {field_rank} (got {at})")
        if box.axes is not None:
            axes = native_axes(box.axes, field_rank)
        augment = None if box.augment is None else box.augment.native()
        affine = None if box.affine is None else box.affine.native(rank)
        lists = native_lists(box.lists) if box.lists else None
        FORMATS[rank].pack_into(self.pool, box_at, address, size, rank, kind, *begins, *ends)
        PLACED[rank][field_rank].pack_into(
            self.pool,
            box_at + PLACED_AT,
            field,
            0,
            *(at or ZEROS[:field_rank]),
            *(step or ZEROS[:rank]),
            axes,
            tensor,
            0 if augment is None else ctypes.addressof(augment[0]),
            0 if affine is None else ctypes.addressof(affine),
            0 if lists is None else ctypes.addressof(lists[0]),
            len(box.lists),
            LIST_BYTES if box.lists else 0,
        )
        return fed, None if augment is affine is lists is None else (augment, affine, lists)

    def fed_of(self, array: Fed | Number, field: int) -> Fed:
        if isinstance(array, Fed):
            return array
        dtype, value = array.to(self.fields.dtypes[field])
        return Fed(dtype, len(value), (), (), value)

    def write_tensor(self, at: int, fed: Fed) -> int:
        """Its address."""
        if self.feeds is None:
            self.feeds = (ctypes.c_uint8 * (SAMPLES * self.boxes_max * FEED_BYTES))()
        tensor = ctypes.addressof(self.feeds) + at
        if isinstance(fed.data, bytes):
            address = tensor + TENSOR_BYTES
            VALUE.pack_into(self.feeds, at + TENSOR_BYTES, fed.data)
        else:
            address = fed.data
        size = fed.itemsize if fed.dtype is Dtype.RAW else 0
        TENSORS[len(fed.shape)].pack_into(
            *(self.feeds, at, TENSOR_BYTES, address, fed.dtype, size, fed.device, 0),
            *(*fed.shape, *fed.strides, fed.event.handle if fed.event else 0),
        )
        return tensor

    def names(self) -> Iterable[str]:
        """The uris of what was pulled."""
        return self.uris if self.table is None else [*itertools.chain(*self.table.uris())]

    def keep(self, uri: str) -> tuple[int, int, Any]:
        text = ctypes.create_string_buffer(uri.encode())
        known = self.uris[uri] = (ctypes.addressof(text), len(text) - 1, text)
        return known

    def push(self, loader: int) -> int:
        """Hands over what there is room for; the status."""
        number, begin, end = self.taken.number, self.begin, self.taken.end
        more = ctypes.c_size_t()
        self.taken = Taken(number, begin, more, end)
        if self.table is not None:
            return self.table.push(library().wavetrain_push_table, loader, begin, more)
        first = ctypes.byref(self.samples, begin * SAMPLE_BYTES)
        push = library().wavetrain_push
        return push(loader, first, end - begin, SAMPLE_BYTES, 0, ctypes.byref(more))


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
