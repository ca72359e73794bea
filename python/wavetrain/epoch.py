"""In which order the samples of an epoch come, and what is random about them.

The library deals; wavetrain_epoch.h describes how. The samples of an epoch are the same for every
number of ranks, threads and batches. Those only deal its positions, so that a checkpoint continues
with others.

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

`Epoch` deals positions. A position may stand for a sample of `Subset`, the parts of `split` and
`stratify`, `Weighted`, `Mixed` or `balanced`. `ChunkShuffle` decodes a chunk while it is cached,
and has a `cost`. `Boxes` and `Grids` number boxes. `permute`, `below` and others are the pieces of
these. `wavetrain.DataLoader` takes all of them as its sampler.
"""

from __future__ import annotations

import array
import dataclasses
import struct
from collections.abc import Mapping
from ctypes import byref, c_uint64
from typing import Any, NamedTuple, cast

from wavetrain import _border, _dice, _native
from wavetrain._border import U32_MAX, U64_MAX, short, word
from wavetrain._cost import Cost, cost
from wavetrain._dice import EPOCH_MAX, YOURS, Words, ask, room
from wavetrain._grids import Aabb, Boxes, Grids
from wavetrain._library import library
from wavetrain._orders import (
    Draw,
    Mixed,
    Part,
    Place,
    Places,
    Subset,
    Table,
    Weighted,
    balanced,
    group,
    place_of,
    split,
    stratify,
)
from wavetrain._words import ORDER, knows

__all__ = [
    "EPOCH_MAX",
    "YOURS",
    "Aabb",
    "Boxes",
    "ChunkShuffle",
    "Cost",
    "Draw",
    "Epoch",
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

TAILS = {
    "short": 0,
    "drop": _native.EPOCH_DROP,
    "pad": _native.EPOCH_PAD,
    "repeat": _native.EPOCH_REPEAT,
}
STATE = struct.Struct("<3Qq")


def mix(position: int, digest: int) -> int:
    """Mixes two numbers: for one position it is a bijection of digests."""
    return _dice.mix(word("position", position), word("digest", digest))


def key(seed: int, epoch: int, purpose: int) -> int:
    """A key of its own for each seed, epoch and purpose; take purposes from `YOURS` on."""
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
    positions = array.array("Q", [_border.whole("position", position, 0, n - 1)])
    return _dice.permute(n, word("key", key), positions)[0]


@dataclasses.dataclass(frozen=True)
class ChunkShuffle:
    """The chunk-aware shuffle: samples, numbered chunk by chunk as `Boxes` does, are cut into runs,
    the runs are shuffled, and samples are shuffled within shuffle windows of several runs. A chunk
    is decoded once for each run, if what a window needs fits into half of Config.chunk_cache_bytes
    (while one window ends the next begins), see `cost`.

        run: samples, those of a chunk or a part of them. Larger ones decode less.
        window: runs of a shuffle window. Larger ones mix better.

    Windows, not positions, are dealt to ranks. In the middle of a window a checkpoint is for the
    same number of ranks; for another take it where Epoch.is_portable.
    """

    run: int
    window: int

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "run", _border.whole("run", self.run, 1, U64_MAX))
        keep(self, "window", _border.whole("window", self.window, 1, U64_MAX))


class State(NamedTuple):
    """The contents of a checkpoint."""

    seed: int
    epoch: int
    position: int  # all before it were dealt, to whatever rank
    order_hash: int  # of what decides the order: 64 bits as an int64, which every format has

    def pack(self) -> bytes:
        """32 bytes, those of C on a little-endian machine."""
        return STATE.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> State:
        if len(data) != STATE.size:
            raise ValueError(f"a state has {STATE.size} bytes (got {len(data)})")
        return cls(*STATE.unpack(data))


def named_of(state: Any) -> dict[str, int]:
    """A checkpoint, in any form of it, by names; the world if it has it."""
    given = state
    if isinstance(given, (bytes, bytearray, memoryview)):
        given = State.unpack(bytes(cast("Any", given)))
    if isinstance(given, State):
        given = given._asdict()
    if not isinstance(given, Mapping):
        raise TypeError(f"state must be what state or state_dict() gave (got {short(state)})")
    named = cast("Mapping[str, Any]", given)
    missing = [name for name in State._fields if name not in named]
    if missing:
        raise ValueError(f"the state is none of an epoch: it lacks {', '.join(missing)}")
    told = [*State._fields, *(["world"] if "world" in named else [])]
    return {
        name: signed(named[name]) if name == "order_hash" else word(name, named[name])
        for name in told
    }


def signed(order_hash: Any) -> int:
    """The int64 of the same bits, of one or of a number of 64 bits without a sign."""
    bits = _border.whole("order_hash", order_hash, -(1 << 63), U64_MAX)
    return bits - (1 << 64) if bits >> 63 == 1 else bits


class Taken(NamedTuple):
    """A place that was dealt."""

    place: Place
    is_padding: bool


@knows(ORDER)
class Epoch:
    """The samples of an epoch that a rank gets: an iterator of their numbers.

        samples: how many there are, or which: a `Subset`, a part of `split` or `stratify`,
            `Weighted`, `Mixed`, `balanced`.
        seed: another order for each.
        shuffle: a new permutation in each epoch.
        chunk_shuffle: a `ChunkShuffle`, in the place of shuffle.
        rank, world: which of how many shares.
        batch: samples that a rank takes at a time, 1 where none is given. Positions are dealt in
            rounds of world batches.
        by_batch: a rank gets positions side by side, not each world-th.
        tail: at the end, where there is less than a batch for each rank: "short", ranks get what
            there is; "drop", nobody gets it; "pad", what is missing is taken from the front again;
            "repeat", the next epoch follows in the same batch, and there is no end.

    At the end iteration stops; `turn` begins the next epoch. `state` is the place at which a
    checkpoint continues. It moves when a batch is complete, and is the same on all ranks that gave
    as many batches.
    """

    def __init__(
        self,
        samples: int | Table | Draw,
        seed: int = 0,
        *,
        shuffle: bool = False,
        chunk_shuffle: ChunkShuffle | None = None,
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
                f"numbers as Subset(numbers) (got {short(given)})"
            )
        self.seed = word("seed", seed)
        self.shuffle = _border.flag("shuffle", shuffle)
        self.chunk_shuffle = chunk_shuffle
        self.world = _border.whole("world", world, 1, U32_MAX)
        self.rank = _border.below("rank", rank, "world", self.world)
        self.is_batch_given = batch is not None  # else a DataLoader has it
        self.batch = 1 if batch is None else _border.whole("batch", batch, 1, U32_MAX)
        self.by_batch = _border.flag("by_batch", by_batch)
        if not isinstance(cast("Any", tail), str) or tail not in TAILS:
            raise ValueError(
                f"tail must be one of {', '.join(map(repr, TAILS))} (got {short(tail)})"
            )
        self.tail = tail
        self._check()
        self._begun()

    def _check(self) -> None:
        """Whether numbers that are right each by itself are right together."""
        if self.world * self.batch > EPOCH_MAX:
            raise ValueError(f"world * batch must be <= {EPOCH_MAX}")
        if self.shuffle and isinstance(self.samples, Draw):
            raise ValueError(f"shuffle must be False with {self.samples!r}: it draws by itself")
        if self.chunk_shuffle is None:
            return
        if not isinstance(cast("Any", self.chunk_shuffle), ChunkShuffle):
            raise TypeError(
                f"chunk_shuffle must be ChunkShuffle(run, window) (got {short(self.chunk_shuffle)})"
            )
        if isinstance(self.samples, Draw):
            raise ValueError(
                f"chunk_shuffle must be None with {self.samples!r}: it draws by itself"
            )
        if self.shuffle:
            raise ValueError("shuffle must be False with a chunk_shuffle, which shuffles by itself")
        if self.by_batch:
            raise ValueError("by_batch must be False with a chunk_shuffle, which deals windows")
        if self.tail == "repeat":
            raise ValueError("tail must not be 'repeat' with a chunk_shuffle: call turn")

    def _begun(self) -> None:
        """Makes it ready."""
        of = self.chunk_shuffle
        self._chunks = None if of is None else _native.ChunkShuffle(of.run, of.window)
        self._kept = _native.Epoch()
        flags = TAILS[self.tail] | (_native.EPOCH_SHUFFLE if self.shuffle else 0)
        flags |= _native.EPOCH_BY_BATCH if self.by_batch else 0
        if not self.ask("begin", self.n, self.seed, flags):
            raise AssertionError(f"the library refuses {self!r}")
        if self.samples is not None:
            numbers = array.array("Q", self.samples.numbers())
            ask("epoch_depends_on", byref(self._kept), numbers, len(numbers))
        self._kept.rank, self._kept.world, self._kept.batch = self.rank, self.world, self.batch
        self.order_hash = signed(self._kept.state.order_hash)

    def ask(self, what: str, *arguments: Any) -> int:
        """Calls a function of wavetrain_epoch.h on what the library keeps of it."""
        chunks = None if self._chunks is None else byref(self._chunks)
        return ask(f"epoch_{what}", byref(self._kept), chunks, *arguments)

    def _look(self) -> _native.EpochView:
        view = _native.EpochView()
        self.ask("look", byref(view))
        return view

    def __repr__(self) -> str:
        place = f"at {self.position} of {self.n} in epoch {self.epoch}"
        return f"<Epoch {place}, rank {self.rank} of {self.world}>"

    # ---- Where it is ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Its number, from 0."""
        return self._kept.state.epoch

    @property
    def position(self) -> int:
        """All before it were dealt, to whatever rank."""
        return self._kept.state.position

    @property
    def state(self) -> State:
        """The contents of a checkpoint, as in C: 32 bytes by pack()."""
        kept = self._kept.state
        return State(kept.seed, kept.epoch, kept.position, signed(kept.order_hash))

    def state_dict(self) -> dict[str, int]:
        """The same, and the world."""
        return {**self.state._asdict(), "world": self.world}

    @property
    def is_portable(self) -> bool:
        """Whether a checkpoint is good for any world here. With a chunk_shuffle: between rounds of
        shuffle windows; else always."""
        return bool(self._look().is_portable)

    def resume(self, state: State | Mapping[str, int] | bytes) -> None:
        """Continues at a checkpoint, at any rank, world and batch. ValueError, and nothing changes,
        if it is of another order, or, inside of a round of shuffle windows, of another world."""
        named = named_of(state)
        given = _native.EpochState(*[named[name] for name in State._fields])
        if self.ask("resume", byref(given)):
            return
        if given.seed != self.seed:
            raise ValueError(f"the checkpoint has seed {given.seed}, and this epoch {self.seed}")
        world = named.get("world", self.world)
        other = self.copy()
        other._kept.rank, other._kept.world = 0, world
        if other.ask("resume", byref(given)):
            raise ValueError(
                f"the checkpoint is for {world} ranks, and lies in the middle of a shuffle window: "
                f"resume with as many (not {self.world}), or from one that was taken where "
                "is_portable, as at the end of an epoch"
            )
        told = "the number of samples, shuffle, chunk_shuffle, or a table (subset, weights)"
        if self.chunk_shuffle is not None and "world" not in named:
            told += ", or, in the middle of a window, the number of ranks"
        raise ValueError(f"the checkpoint is of another order: {told} is not that of {self!r}")

    def begin(self, epoch: int) -> None:
        """Moves to the front of an epoch."""
        front = _native.EpochState(self.seed, word("epoch", epoch), 0, self.order_hash)
        self.ask("resume", byref(front))

    def turn(self) -> None:
        """Begins the next epoch, wherever this one is."""
        self.ask("turn")

    def copy(self, *, batch: int | None = None) -> Epoch:
        """Another that stands where this one does, with batches of another size if you like."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._kept = _native.Epoch.from_buffer_copy(self._kept)
        if batch is not None:
            other.batch = other._kept.batch = _border.whole("batch", batch, 1, U32_MAX)
            other._check()
            other._kept.reserved = 0  # between two batches
        return other

    __copy__ = copy

    # ---- What stands at a place -----------------------------------------------------------------

    def at(self, place: Place) -> int:
        """The sample at a place. IndexError where there is none."""
        epoch, position = place_of(place)
        if position >= self.n:
            raise IndexError(f"position must be < {self.n} (got {position})")
        places, indices = array.array("Q", [epoch, position]), room(1)
        self.ask("at_many", places, 1, indices)
        return self._samples_of(places, indices)[0]

    def _samples_of(self, places: Words[int], indices: Words[int]) -> list[int]:
        """The samples at places, where an epoch of as many has these."""
        if isinstance(self.samples, Draw):
            return self.samples.draw(places, self.seed)
        return indices.tolist() if self.samples is None else self.samples.pick(indices)

    # ---- What the rank gets ---------------------------------------------------------------------

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> int:
        if self.samples is not None:
            _, samples, _ = self._dealt(1)
            if not samples:
                raise StopIteration
            return samples[0]
        # The same for what most epochs are, in half of the time.
        index = c_uint64()
        chunks = None if self._chunks is None else byref(self._chunks)
        take_many = library().wavetrain_epoch_take_many
        if not take_many(byref(self._kept), chunks, 1, None, byref(index), None):
            raise StopIteration
        return index.value

    @property
    def left(self) -> int:
        """Samples that the rank still gets in this epoch; 2^64 - 1 with "repeat"."""
        return self._look().left

    def take(self) -> Taken | None:
        """The place of the rank's next sample; None after the last one."""
        place, padding = room(2), array.array("B", [0])
        if not self.ask("take_many", 1, place, None, padding):
            return None
        return Taken(Place(place[0], place[1]), bool(padding[0]))

    def deal(self, count: int) -> tuple[list[Place], list[int]]:
        """Takes the rank's next `count` samples: where each stands, and which it is. There are
        fewer at the end of the epoch. Thousands at a time cost less than one by one.

        >>> Epoch(10, seed=1, shuffle=True, batch=2).deal(2)
        ([Place(epoch=0, position=0), Place(epoch=0, position=1)], [4, 0])
        """
        places, samples, _ = self.deal_and_pad(count)
        return [*places], samples

    def deal_and_pad(self, count: int) -> tuple[Places, list[int], Words[int]]:
        """The same, and 1 for each that only pads, which with "pad" are the last of the epoch."""
        places, samples, padding = self._dealt(_border.whole("count", count, 0, EPOCH_MAX))
        return Places(places), samples, padding

    def _dealt(self, count: int) -> tuple[Words[int], list[int], Words[int]]:
        if count > 4096:
            # Room for those that there are; one more, so that the end is met.
            count = min(count, self.left + 1)
        places, indices, padding = room(2 * count), room(count), array.array("B", bytes(count))
        taken = self.ask("take_many", count, places, indices, padding)
        del places[2 * taken :], indices[taken:], padding[taken:]
        return places, self._samples_of(places, indices), padding

    def skip(self, count: int) -> int:
        """Passes over the rank's next `count` samples; how many there were."""
        return self.ask("take_many", _border.whole("count", count, 0, EPOCH_MAX), None, None, None)

    @property
    def shuffle_window(self) -> int:
        """Samples of a shuffle window of the chunk_shuffle; without one all of them."""
        return self._look().window_samples or self.n or 1
