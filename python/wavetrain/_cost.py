"""What an epoch in free order decodes, before it runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from wavetrain import _dice
from wavetrain._grids import Boxes, Grids
from wavetrain._orders import Place

if TYPE_CHECKING:
    from wavetrain.epoch import Epoch


class Cost(NamedTuple):
    """Chunks that an epoch in free order decodes: at least `distinct`, at most `windows`, if those
    of two windows fit into the cache."""

    distinct: int  # each chunk that any box touches, once; with jitter, that boxes belong to
    windows: int  # the distinct chunks of each window, added up
    largest: int  # those of the window that has most: half a cache


def cost(epoch: Epoch, boxes: Boxes | Grids) -> Cost:
    """What an epoch costs as a whole, whatever it is dealt to. It looks at every box once.

    >>> from wavetrain.epoch import Epoch, Free
    >>> boxes = Boxes((8, 8), (2, 2), chunk=4)
    >>> cost(Epoch(len(boxes), free=Free(visit=4, window=2)), boxes)
    Cost(distinct=4, windows=4, largest=2)
    """
    grids = Grids([boxes]) if isinstance(boxes, Boxes) else boxes
    if epoch.free is None:
        raise ValueError("epoch must have a free order: Epoch(.., free=Free(visit, window))")
    if epoch.samples is not None or epoch.n != len(grids):
        raise ValueError(f"epoch must be of the {len(grids)} boxes (got {epoch!r})")
    size = epoch.window
    met, met_most, met_all = set[Any](), 0, 0
    key = _dice.key(epoch.seed, epoch.epoch, _dice.BOX)
    for position in range(epoch.n):
        array, number = grids.find(epoch.at(Place(epoch.epoch, position)))
        grid = grids.grids[array]
        met.update((array, chunk) for chunk in grid.chunks_of(grid.begin_at(number, key)))
        if (position + 1) % size == 0 or position + 1 == epoch.n:
            met_most, met_all = max(met_most, len(met)), met_all + len(met)
            met.clear()
    distinct = sum(math.prod(of.distinct(grid.jitter) for of in grid.along) for grid in grids.grids)
    return Cost(distinct, met_all, met_most)
