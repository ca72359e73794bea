"""In which order the samples of an epoch come, and what is random about them.

The numbers are those of wavetrain_epoch.h, which says more, in ints of Python: no numpy, no
library. What an epoch gives is the same for every number of ranks, threads and batches: those only
deal its positions, so that a checkpoint goes on with others.

>>> epoch = Epoch(10, seed=1, shuffle=True, batch=2)
>>> list(epoch)
[4, 0, 3, 6, 7, 5, 1, 8, 2, 9]
>>> first = Epoch(10, seed=1, shuffle=True, batch=2)
>>> [next(first), next(first)]
[4, 0]
>>> state = first.state_dict()
>>> ranks = [Epoch(10, seed=1, shuffle=True, rank=rank, world=2, batch=2) for rank in range(2)]
>>> for rank in ranks:
...     rank.resume(state)
>>> [list(rank) for rank in ranks]
[[3, 7, 1, 2], [6, 5, 8, 9]]

The pieces: `Epoch`, which deals positions; what may stand there (`Subset`, the parts of `split` and
`stratify`, `Weighted`, `Mixed`, `balanced`); the `Free` order, which decodes a chunk while it is
kept, and its `cost`; `Boxes` and `Grids`; and `permute`, `below` and what they are made of.
`wavetrain.DataLoader` takes all of them as its sampler.
"""

from __future__ import annotations

import copy
import dataclasses
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from wavetrain import _border, _dice
from wavetrain._border import U32_MAX, U64_MAX, word
from wavetrain._cost import Cost, cost
from wavetrain._dice import EPOCH_MAX, YOURS
from wavetrain._grids import Aabb, Boxes, Grids
from wavetrain._orders import (
    Draw,
    Mixed,
    Part,
    Place,
    Subset,
    Table,
    Weighted,
    balanced,
    group,
    place_of,
    split,
    stratify,
)

__all__ = [
    "EPOCH_MAX",
    "YOURS",
    "Aabb",
    "Boxes",
    "Cost",
    "Draw",
    "Epoch",
    "Free",
    "Grids",
    "Mixed",
    "Part",
    "Place",
    "State",
    "Subset",
    "Table",
    "Taken",
    "Weighted",
    "balanced",
    "below",
    "cost",
    "group",
    "key",
    "mix",
    "permute",
    "philox",
    "split",
    "stratify",
]

TAILS = ("short", "drop", "pad", "repeat")
STATE = struct.Struct("<4Q")


def mix(position: int, digest: int) -> int:
    """Mixes two numbers: for one position it is a bijection of digests."""
    return _dice.mix(word("position", position), word("digest", digest))


def key(seed: int, epoch: int, purpose: int) -> int:
    """A key of its own for each seed, epoch and purpose; take purposes from YOURS on."""
    return _dice.key(word("seed", seed), word("epoch", epoch), word("purpose", purpose))


def philox(key: int, counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox 4x32-10: four numbers below 2^32.

    >>> [hex(each) for each in philox(0, (0, 0, 0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    words = [_border.whole(f"counter[{k}]", each, 0, U32_MAX) for k, each in enumerate(counter)]
    _border.whole("the number of words of counter", len(words), 4, 4)
    return _dice.philox(word("key", key), (words[0], words[1], words[2], words[3]))


def below(n: int, key: int, position: int, lane: int = 0) -> int:
    """A number below n, all equally likely, for a key, a position and a lane: which of several
    numbers of that position. 0 for n = 0."""
    lane = _border.whole("lane", lane, 0, U32_MAX)
    return _dice.below(word("n", n), word("key", key), word("position", position), lane)


def permute(n: int, key: int, position: int) -> int:
    """The number at a position in a shuffled row of n, another row for each key: no table is made.

    >>> [permute(5, key=9, position=position) for position in range(5)]
    [4, 1, 3, 2, 0]
    """
    n = _border.whole("n", n, 1, EPOCH_MAX)
    return _dice.permute(n, word("key", key), _border.whole("position", position, 0, n - 1))


@dataclasses.dataclass(frozen=True)
class Free:
    """The free order: samples, numbered chunk by chunk as `Boxes` does, are cut into visits, the
    visits shuffled, and samples shuffled within windows of visits. A chunk is decoded once for each
    visit, if what a window needs fits into half of Config.chunk_cache_bytes (while one window ends
    the next begins), see `cost`.

        visit: samples, those of a chunk or a part of them. Larger ones decode less.
        window: visits. Larger ones mix better.

    Windows, not positions, are dealt to ranks. In the middle of a window a checkpoint is for the
    same number of ranks; for another take it where Epoch.is_bound.
    """

    visit: int
    window: int

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "visit", _border.whole("visit", self.visit, 1, U64_MAX))
        keep(self, "window", _border.whole("window", self.window, 1, U64_MAX))


class State(NamedTuple):
    """What a checkpoint holds."""

    seed: int
    epoch: int
    position: int  # all before it were dealt, to whatever rank
    order_hash: int  # of what decides the order

    def pack(self) -> bytes:
        """32 bytes, those of C on a little-endian machine."""
        return STATE.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> State:
        if len(data) != STATE.size:
            raise ValueError(f"a state has {STATE.size} bytes (got {len(data)})")
        return cls(*STATE.unpack(data))


def named_of(state: Any) -> dict[str, int]:
    """A checkpoint, in any form of it, by names; the world where it is told."""
    given = state
    if isinstance(given, (bytes, bytearray, memoryview)):
        given = State.unpack(bytes(cast("Any", given)))
    if isinstance(given, State):
        given = given._asdict()
    if not isinstance(given, Mapping):
        raise TypeError(f"state must be what state or state_dict() gave (got {state!r})")
    named = cast("Mapping[str, Any]", given)
    missing = [name for name in State._fields if name not in named]
    if missing:
        raise ValueError(f"the state is none of an epoch: it lacks {', '.join(missing)}")
    told = [*State._fields, *(["world"] if "world" in named else [])]
    return {name: word(name, named[name]) for name in told}


class Taken(NamedTuple):
    """A place that was dealt."""

    place: Place
    is_padding: bool


class Epoch:
    """The samples of an epoch that a rank gets: an iterator of their numbers.

        samples: how many there are, or which: a `Subset`, a part of `split` or `stratify`,
            `Weighted`, `Mixed`, `balanced`.
        seed: another order for each.
        shuffle: a new permutation in each epoch.
        free: a `Free` order, which shuffles by itself.
        rank, world: which of how many shares.
        batch: samples that a rank takes at a time, 1 where none is given. Positions are dealt in
            rounds of world batches.
        by_batch: a rank gets positions side by side, not each world-th.
        tail: at the end, where there is less than a batch for each rank: "short", ranks get what
            there is; "drop", nobody gets it; "pad", what is missing is taken from the front again;
            "repeat", the next epoch follows in the same batch, and there is no end.

    At the end iteration stops; `turn` begins the next epoch. `state` is where a checkpoint goes on:
    it moves when a batch is complete, and is the same on all ranks that gave as many batches.
    """

    def __init__(
        self,
        samples: int | Table | Draw,
        seed: int = 0,
        *,
        shuffle: bool = False,
        free: Free | None = None,
        rank: int = 0,
        world: int = 1,
        batch: int | None = None,
        by_batch: bool = False,
        tail: str = "short",
    ) -> None:
        given: Any = samples
        self.samples = None if hasattr(given, "__index__") else cast("Table | Draw", given)
        if self.samples is None:
            self.n = _border.whole("samples", given, 0, EPOCH_MAX)
        elif isinstance(given, (Table, Draw)):
            self.n = len(given)
        else:
            raise TypeError(
                "samples must be a whole number, Subset, Part, Weighted or Mixed: give a list of "
                f"numbers as Subset(numbers) (got {given!r})"
            )
        self.seed = word("seed", seed)
        self.shuffle = _border.flag("shuffle", shuffle)
        self.free = free
        self.world = _border.whole("world", world, 1, U32_MAX)
        self.rank = _border.whole("rank", rank, 0, self.world - 1)
        self.is_batch_given = batch is not None  # else a DataLoader says
        self.batch = 1 if batch is None else _border.whole("batch", batch, 1, U32_MAX)
        self.by_batch = _border.flag("by_batch", by_batch)
        if tail not in TAILS:
            raise ValueError(f"tail must be one of {', '.join(map(repr, TAILS))} (got {tail!r})")
        self.tail = tail
        self._check()
        self.order_hash = self._hash()
        self._epoch = self._position = 0
        self._given = 0  # samples of the batch under way

    def _check(self) -> None:
        """Of numbers that are right each by itself, whether they are together."""
        if self.world * self.batch > EPOCH_MAX:
            raise ValueError(f"world * batch must be <= {EPOCH_MAX}")
        if self.shuffle and isinstance(self.samples, Draw):
            raise ValueError(f"shuffle must be False with {self.samples!r}: it draws by itself")
        if self.free is None:
            return
        if not isinstance(cast("Any", self.free), Free):
            raise TypeError(f"free must be Free(visit, window) (got {self.free!r})")
        if isinstance(self.samples, Draw):
            raise ValueError(f"free must be None with {self.samples!r}: it draws by itself")
        if self.shuffle:
            raise ValueError("shuffle must be False with a free order, which shuffles by itself")
        if self.by_batch:
            raise ValueError("by_batch must be False with a free order, which deals windows")
        if self.tail == "repeat":
            raise ValueError("tail must not be 'repeat' with a free order: call turn")

    def _hash(self) -> int:
        order_hash = _dice.mix(self.n, _dice.key(1, self.seed, self.shuffle))
        if self.free is not None:
            order_hash = depends_on(order_hash, [self.free.visit, self.free.window])
        if self.samples is not None:
            order_hash = depends_on(order_hash, [*self.samples.numbers()])
        return order_hash

    def __repr__(self) -> str:
        place = f"at {self._position} of {self.n} in epoch {self._epoch}"
        return f"<Epoch {place}, rank {self.rank} of {self.world}>"

    # ---- Where it is ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Its number, from 0."""
        return self._epoch

    @property
    def position(self) -> int:
        """All before it were dealt, to whatever rank."""
        return self._position

    @property
    def state(self) -> State:
        """What a checkpoint holds, as of C: 32 bytes by pack()."""
        order_hash = self.hash_at(self._position, self.world)
        return State(self.seed, self._epoch, self._position, order_hash)

    def hash_at(self, position: int, world: int) -> int:
        """That of a state there: inside of a round of windows it is for one world."""
        if self.free is None or self._is_bound(position):
            return self.order_hash
        return self.order_hash ^ _dice.mix(world, _dice.WINDOW)

    def state_dict(self) -> dict[str, int]:
        """The same, and the world."""
        return {**self.state._asdict(), "world": self.world}

    @property
    def is_bound(self) -> bool:
        """Whether a checkpoint is good for any world here. With a free order: between rounds of
        windows; else always."""
        return self.free is None or self._is_bound(self._position)

    def _is_bound(self, position: int) -> bool:
        return position == self.n or position % self.window == 0

    def resume(self, state: State | Mapping[str, int] | bytes) -> None:
        """Goes on where a checkpoint was taken, at any rank, world and batch. ValueError, and
        nothing changes, where it is of another order, or, inside of a round of windows of a free
        order, of another world."""
        named = named_of(state)
        seed, epoch, position, order_hash = [named[name] for name in State._fields]
        if seed != self.seed:
            raise ValueError(f"the checkpoint has seed {seed}, and this epoch {self.seed}")
        world = named.get("world", self.world)
        if position > self.n or order_hash != self.hash_at(position, world):
            told = "the number of samples, shuffle, free, or a table (subset, weights)"
            if self.free is not None and "world" not in named:
                told += ", or, in the middle of a window, the number of ranks"
            raise ValueError(f"the checkpoint is of another order: {told} is not that of {self!r}")
        if order_hash != self.hash_at(position, self.world):
            raise ValueError(
                f"the checkpoint is for {world} ranks, and lies in the middle of a window of the "
                f"free order: resume with as many (not {self.world}), or from one that was taken "
                "where is_bound, as at the end of an epoch"
            )
        self._epoch, self._position, self._given = epoch, position, 0

    def begin(self, epoch: int) -> None:
        """Goes to the front of an epoch."""
        self._epoch, self._position, self._given = word("epoch", epoch), 0, 0

    def turn(self) -> None:
        """Begins the next epoch, wherever this one is."""
        self.begin(self._epoch + 1)

    def copy(self, *, batch: int | None = None) -> Epoch:
        """Another that stands where this one does, with batches of another size if you like."""
        other = copy.copy(self)
        if batch is not None:
            other.batch = _border.whole("batch", batch, 1, U32_MAX)
            other._check()
            other._given = 0  # between two batches
        return other

    # ---- What stands at a place -----------------------------------------------------------------

    def at(self, place: Place) -> int:
        """The sample at a place. IndexError where there is none."""
        epoch, position = place_of(place)
        if position >= self.n:
            raise IndexError(f"position must be < {self.n} (got {position})")
        return self._at(epoch, position)

    def _at(self, epoch: int, position: int) -> int:
        samples = self.samples
        if isinstance(samples, Draw):
            return samples.sample(Place(epoch, position), self.seed)
        if self.free is not None:
            position = self._at_free(self.free.visit, epoch, position)
        elif self.shuffle:
            position = _dice.permute(self.n, _dice.key(self.seed, epoch, _dice.SHUFFLE), position)
        return position if samples is None else samples.sample(position)

    def _at_free(self, size: int, epoch: int, position: int) -> int:
        visits, rest = divmod(self.n, size)
        # The samples that are no whole visit lie between two visits, elsewhere in each epoch.
        tail = size * (_dice.key(self.seed, epoch, _dice.TAIL) * (visits + 1) >> 64)
        window = self.window
        number, place = divmod(position, window)
        first = number * window
        key = _dice.mix(number, _dice.key(self.seed, epoch, _dice.WINDOW))
        drawn = first + _dice.permute(min(self.n - first, window), key, place)
        if drawn >= visits * size:
            return tail + drawn - visits * size
        visit, place = divmod(drawn, size)
        visit = _dice.permute(visits, _dice.key(self.seed, epoch, _dice.VISITS), visit)
        drawn = visit * size + place
        return drawn if drawn < tail else drawn + rest

    # ---- What the rank gets ---------------------------------------------------------------------

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> int:
        taken = self.take()
        if taken is None:
            raise StopIteration
        return self._at(*taken.place)

    @property
    def left(self) -> int:
        """Samples that the rank still gets in this epoch; 2^64 - 1 with "repeat"."""
        if self.n == 0:
            return 0
        if self.free is not None:
            return self._left_free()
        if self.tail == "repeat":
            return U64_MAX
        rounds, tail = divmod(self.n - self._position, self.world * self.batch)
        count, mine = rounds * self.batch, tail - self._ahead(0)
        if tail and self.tail == "pad":
            count += self.batch
        elif mine > 0 and self.tail != "drop":
            count += min(mine, self.batch) if self.by_batch else (mine - 1) // self.world + 1
        return count - self._given

    def _ahead(self, number: int) -> int:
        """The round's sample of that number, counted from the position."""
        if self.by_batch:
            return self.rank * self.batch + number
        return self.rank + number * self.world

    def take(self) -> Taken | None:
        """The place of the rank's next sample; None behind the last one."""
        if self.free is not None:
            return self._take_free()
        if not self.left:
            self._position, self._given = self.n, 0
            return None
        repeats = self.tail == "repeat"
        position = self._position + self._ahead(self._given)
        more, within = divmod(position, self.n)
        epoch = self._epoch + more if repeats else self._epoch
        self._given += 1
        if self._given == self.batch:
            self._given = 0
            self._position += self.world * self.batch
            if repeats:
                turns, self._position = divmod(self._position, self.n)
                self._epoch += turns
        # A last batch that is short or padded is the end of the epoch.
        is_last = self._position > self.n or (self._given > 0 and not self.left)
        if is_last:
            self._position, self._given = self.n, 0
        return Taken(Place(epoch, within), not repeats and more > 0)

    # ---- The free order -------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """Samples of a window of the free order; without one all of them."""
        if self.free is None or self.free.window > self.n // self.free.visit:
            return self.n or 1
        return self.free.visit * self.free.window

    def _share(self, position: int) -> tuple[int, int]:
        """The rank's samples of the round that begins there: the position of the first, and how
        many."""
        rest, window = self.n - position, self.window
        if rest // window >= self.world:
            return position + self.rank * window, window
        each, more = divmod(rest, self.world)
        if self.tail == "pad":
            each, more = each + (more > 0), 0
        elif self.tail == "drop":
            more = 0
        return position + self.rank * each + min(self.rank, more), each + (self.rank < more)

    def _left_free(self) -> int:
        if self._position == self.n:
            return 0
        window = self.window
        done = self._position % window
        start = self._position - done
        rounds = (self.n - start) // window // self.world
        count, last = rounds * window, start + rounds * self.world * window
        if last < self.n:
            count += self._share(last)[1]
        return max(count - done, 0)

    def _take_free(self) -> Taken | None:
        if self._position == self.n:
            return None
        window = self.window
        done = self._position % window
        start = self._position - done
        first, share = self._share(start)
        if done >= share:  # in the last round, of which the rank gets nothing
            self._position = self.n
            return None
        position = first + done
        is_padding = position >= self.n
        if is_padding:  # the front of what was shared out again
            position = start + (position - start) % (self.n - start)
        if done + 1 < share:
            self._position += 1
        elif (self.n - start) // window >= self.world:
            self._position = start + self.world * window
        else:
            self._position = self.n
        return Taken(Place(self._epoch, position), is_padding)


def depends_on(order_hash: int, numbers: list[int]) -> int:
    """The hash of an order that these decide, too."""
    order_hash = _dice.mix(len(numbers), order_hash)
    for place, number in enumerate(numbers):
        order_hash = (_dice.mix(place + 1, order_hash) + _dice.mix(order_hash, number)) & U64_MAX
    return order_hash
