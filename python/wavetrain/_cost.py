"""The chunks that an epoch in a chunk-aware shuffle decodes, before it runs."""

from __future__ import annotations

from ctypes import byref
from typing import TYPE_CHECKING, NamedTuple

from wavetrain import _native
from wavetrain._border import short
from wavetrain._dice import room
from wavetrain._grids import Boxes, Grids

if TYPE_CHECKING:
    from wavetrain.epoch import Epoch


class Cost(NamedTuple):
    """Chunks that an epoch in a chunk-aware shuffle decodes: at least `distinct`, at most
    `windows`, if those of two windows fit into the cache."""

    distinct: int  # each chunk that any box touches, once; with jitter, that boxes belong to
    windows: int  # the distinct chunks of each window, added up
    largest: int  # those of the window that has most: half a cache


def cost(epoch: Epoch, boxes: Boxes | Grids) -> Cost:
    """The cost of an epoch as a whole, for any ranks. It looks at every box once.

    >>> from wavetrain.epoch import ChunkShuffle, Epoch
    >>> boxes = Boxes((8, 8), (2, 2), chunk=4)
    >>> cost(Epoch(len(boxes), chunk_shuffle=ChunkShuffle(run=4, window=2)), boxes)
    Cost(distinct=4, windows=4, largest=2)
    """
    grids = Grids([boxes]) if isinstance(boxes, Boxes) else boxes
    if epoch.chunk_shuffle is None:
        raise ValueError("epoch must have a chunk_shuffle=ChunkShuffle(run, window)")
    if epoch.samples is not None or epoch.n != len(grids):
        raise ValueError(f"epoch must be of the {len(grids)} boxes (got {short(epoch)})")
    found, words = _native.Cost(), room(4096)
    own = (grids.records, grids.ends, len(grids.grids))
    while (answer := epoch.ask("cost", *own, words, len(words), byref(found))) == 0:
        words = room(2 * len(words))  # it was too little memory
    if answer != 1:
        raise AssertionError(f"the library refuses {epoch!r}")
    return Cost(found.distinct, found.windows, found.largest)
