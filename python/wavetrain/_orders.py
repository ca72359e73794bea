"""Which samples an epoch has, where they are not simply 0 to n - 1: tables of them, and draws.

In: indices, weights, labels. Out: of a table the sample at an index; of a draw the sample at a
place. The numbers that each depends on are part of the hash of its order, see `numbers`.
"""

from __future__ import annotations

import array
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, SupportsFloat, cast

from wavetrain import _border, _native
from wavetrain._border import U32_MAX, U64_MAX, short, word
from wavetrain._dice import EPOCH_MAX, Words, ask, key, permute, room

FLOAT_BITS = 62  # what the weights that are no ints add up to is scaled to
LABELS_MAX = 1 << 32


class Place(NamedTuple):
    """The place of a sample."""

    epoch: int
    position: int


class Places(Sequence[Place]):
    """Places as C has them, two words each, of which objects are made when they are asked for."""

    def __init__(self, words: Words[int]) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words) // 2

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = cast("slice", index).indices(len(self.words) // 2)
            assert step == 1
            return Places(self.words[2 * start : 2 * stop])
        at = 2 * range(len(self))[cast("int", index)]
        return Place(*self.words[at : at + 2])

    def __iter__(self) -> Iterator[Place]:
        return map(Place, self.words[::2], self.words[1::2])


def place_of(given: Any) -> Place:
    """(epoch, position)."""
    if not isinstance(given, tuple) or len(given) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"place must be a Place(epoch, position) (got {short(given)})")
    epoch, position = given  # pyright: ignore[reportUnknownVariableType]
    return Place(
        word("place.epoch", epoch),
        word("place.position", position),
    )


def items_of(name: str, given: Any) -> list[Any]:
    if not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a sequence (got {short(given)})")
    return list(cast("Iterable[Any]", given))


def words_of(name: str, given: Any, most: int) -> array.array[int]:
    """Whole numbers of 0 to `most`."""
    if isinstance(given, range) and len(given) and min(given) >= 0 and max(given) <= most:
        return array.array("Q", given)
    items = enumerate(items_of(name, given))
    return array.array("Q", [_border.whole(f"{name}[{k}]", each, 0, most) for k, each in items])


class Table(Sequence[int]):
    """Samples that have a place each: an epoch has every one of them once."""

    reach: int  # above every index

    def __getitem__(self, index: Any) -> Any:
        found = cast("Any", range(len(self)))[index]
        return [*map(self.sample, found)] if isinstance(found, range) else self.sample(found)

    def __iter__(self) -> Iterator[int]:
        return map(self.sample, range(len(self)))

    def sample(self, index: int) -> int:
        """That of table[index], for an index below len, which nobody checks."""
        raise NotImplementedError

    def pick(self, indices: Words[int]) -> list[int]:
        """Those of several indices; the array may be used up."""
        return [*map(self.sample, indices)]

    def numbers(self) -> Iterable[int]:
        """The numbers that its order depends on, as wavetrain_epoch_depends_on takes them."""
        raise NotImplementedError


class Subset(Table):
    """These samples, in this order; one may come several times. An epoch that is not shuffled has
    them as they stand here.

    >>> list(Subset([4, 2, 4]))
    [4, 2, 4]
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self.indices = words_of("indices", indices, EPOCH_MAX - 1)
        self.reach = max(self.indices, default=-1) + 1

    def __repr__(self) -> str:
        return f"<Subset of {len(self.indices)}>"

    def __len__(self) -> int:
        return len(self.indices)

    def sample(self, index: int) -> int:
        return self.indices[index]

    def numbers(self) -> Iterable[int]:
        """The indices."""
        return self.indices


class Part(Table):
    """A part of n samples, which `split` makes: nothing is kept of each."""

    def __init__(self, n: int, begin: int, end: int, seed: int) -> None:
        self.n = self.reach = _border.whole("n", n, 0, EPOCH_MAX)
        self.end = _border.whole("end", end, 0, self.n)
        self.begin = _border.whole("begin", begin, 0, self.end)
        self.seed = word("seed", seed)
        self.key = key(self.seed, 0, _native.PURPOSE_SPLIT)

    def __repr__(self) -> str:
        return f"Part(n={self.n}, begin={self.begin}, end={self.end}, seed={self.seed})"

    def __len__(self) -> int:
        return self.end - self.begin

    def sample(self, index: int) -> int:
        return self.pick(array.array("Q", [index]))[0]

    def pick(self, indices: Words[int]) -> list[int]:
        positions = array.array("Q", [self.begin + index for index in indices])
        return permute(self.n, self.key, positions).tolist()

    def numbers(self) -> Iterable[int]:
        """WAVETRAIN_PURPOSE_SPLIT, the seed, n, begin."""
        return _native.PURPOSE_SPLIT, self.seed, self.n, self.begin


class Draw:
    """Samples that are drawn for a place, over and over: an epoch is of as many as you like."""

    n: int  # places of an epoch
    reach: int  # above every index

    def __len__(self) -> int:
        return self.n

    def sample(self, place: Place, seed: int) -> int:
        """The sample of a place."""
        epoch, position = place_of(place)
        return self.draw(array.array("Q", [epoch, position]), word("seed", seed))[0]

    def draw(self, places: Words[int], seed: int) -> list[int]:
        """Those of several places, epoch and position of each."""
        raise NotImplementedError

    def numbers(self) -> Iterable[int]:
        """The numbers that its order depends on, as wavetrain_epoch_depends_on takes them."""
        raise NotImplementedError


class Weighted(Draw):
    """Samples drawn as often as their weights say, with replacement. n: places of an epoch; None:
    as many as there are weights.

    Whole numbers are taken as they are, as in C. If a weight is not a whole number, all are
    multiplied by a power of two. Their sum is then 2^61 or above, and below 2^62 (the sum as
    math.fsum has it). They are rounded to whole numbers, halves to even ones; a weight above 0 is 1
    at least.

    >>> Weighted([0.25, 0, 0.75]).weights == [2**59, 0, 3 * 2**59]
    True
    >>> [Weighted([1, 0, 3]).sample(Place(0, position), seed=7) for position in range(8)]
    [2, 2, 2, 0, 0, 0, 2, 0]
    """

    def __init__(self, weights: Iterable[float], n: int | None = None) -> None:
        self.weights = draw_weights(weights)
        if not any(self.weights):
            raise ValueError("weights must have one above 0")
        _border.whole("the sum of weights", sum(self.weights), 1, U64_MAX)
        self.sums = array.array("Q", self.weights)
        self.reach = len(self.sums)
        ask("accumulate", self.sums, self.reach)
        self.n = _border.whole("n", self.reach if n is None else n, 0, EPOCH_MAX)

    def __repr__(self) -> str:
        return f"<Weighted, {self.n} of {self.reach}>"

    def draw(self, places: Words[int], seed: int) -> list[int]:
        drawn = room(len(places) // 2)
        ask("weighted_many", self.sums, self.reach, seed, places, len(drawn), drawn)
        return drawn.tolist()

    def numbers(self) -> Iterable[int]:
        """WAVETRAIN_PURPOSE_WEIGHTED, and the weights."""
        return itertools.chain([_native.PURPOSE_WEIGHTED], self.weights)


def draw_weights(given: Any) -> list[int]:
    items = items_of("weights", given)
    if all(hasattr(each, "__index__") for each in items):
        return [_border.whole(f"weights[{k}]", each, 0, U64_MAX) for k, each in enumerate(items)]
    floats = [_border.finite(f"weights[{k}]", each) for k, each in enumerate(items)]
    for k, each in enumerate(floats):
        if each < 0:
            raise ValueError(f"weights[{k}] must be >= 0 (got {each})")
    try:
        scale = FLOAT_BITS - math.frexp(math.fsum(floats))[1]
    except OverflowError as error:
        raise ValueError("weights must have a sum that fits a float") from error
    return [max(round(scaled(each, scale)), each > 0) for each in floats]


def scaled(value: float, power: int) -> float:
    """value * 2^power in two steps, as 2^power alone need not be a float."""
    return math.ldexp(math.ldexp(value, power // 2), power - power // 2)


class Mixed(Draw):
    """Several sources, mixed. In each block of as many places as the weights' sum, a source occurs
    as often as its weight, shuffled. It gives all its samples before it gives one again.

    Samples are numbered as if the sources stood one after the other, as torch's ConcatDataset does;
    `pick` returns the source and the number there. Weights are whole numbers, or fractions that add
    up to 1, see `split`. n: places of an epoch; None: as many as all sources have samples. table:
    in its place, sample number k is table[k].

    >>> mixed = Mixed([4, 2], [0.75, 0.25])
    >>> mixed.weights
    (3, 1)
    >>> [mixed.sample(Place(0, position), seed=1) for position in range(8)]
    [0, 3, 2, 4, 5, 1, 0, 1]
    """

    def __init__(
        self,
        sizes: Iterable[int],
        weights: Iterable[float],
        n: int | None = None,
        table: Iterable[int] | None = None,
    ) -> None:
        self.sizes = tuple(words_of("sizes", sizes, EPOCH_MAX))
        self.weights = share_weights("weights", weights)
        if len(self.weights) != len(self.sizes):
            raise ValueError(
                f"weights must have an item per source, {len(self.sizes)} (got {len(self.weights)})"
            )
        for source, (size, weight) in enumerate(zip(self.sizes, self.weights)):
            if weight and not size:
                raise ValueError(f"weights[{source}] must be 0, as sizes[{source}] is")
        self.begins = [*itertools.accumulate(self.sizes, initial=0)]
        total = _border.whole("the sum of sizes", self.begins[-1], 0, EPOCH_MAX)
        pairs = zip(self.sizes, self.weights)
        self.shares = array.array("Q", itertools.chain.from_iterable(pairs))  # wavetrain_share
        self.n = _border.whole("n", total if n is None else n, 0, EPOCH_MAX)
        self.table = None if table is None else words_of("table", table, EPOCH_MAX - 1)
        self.reach = total
        if self.table is not None:
            if len(self.table) != total:
                raise ValueError(f"table must have {total} samples (got {len(self.table)})")
            self.reach = max(self.table) + 1

    def __repr__(self) -> str:
        return f"<Mixed, {self.n} of {len(self.sizes)} sources>"

    def pick(self, place: Place, seed: int) -> tuple[int, int]:
        """The source, and which of its samples."""
        epoch, position = place_of(place)
        sources, indices = self._picked(array.array("Q", [epoch, position]), word("seed", seed))
        return sources[0], indices[0]

    def _picked(self, places: Words[int], seed: int) -> tuple[Words[int], Words[int]]:
        count = len(places) // 2
        sources, indices = room(count, "I"), room(count)
        sizes = len(self.sizes)
        ask("mixed_many", self.shares, sizes, seed, places, count, sources, indices)
        return sources, indices

    def draw(self, places: Words[int], seed: int) -> list[int]:
        sources, indices = self._picked(places, seed)
        numbers = [self.begins[source] + index for source, index in zip(sources, indices)]
        return numbers if self.table is None else [self.table[number] for number in numbers]

    def numbers(self) -> Iterable[int]:
        """WAVETRAIN_PURPOSE_MIXED, size and weight of each source, and the table."""
        return itertools.chain([_native.PURPOSE_MIXED], self.shares, self.table or ())


def group(labels: Iterable[int], count: int | None = None) -> tuple[list[int], list[int]]:
    """Samples by their labels, which are 0 to count - 1 (None: the largest that there is): those of
    label c are table[ends[c - 1] : ends[c]], in order.

    >>> group([1, 0, 1, 1], 3)
    ([1, 4, 4], [1, 0, 2, 3])
    """
    most = LABELS_MAX if count is None else _border.whole("count", count, 0, LABELS_MAX)
    given = words_of("labels", labels, max(most - 1, 0))
    if given and not most:
        raise ValueError("count must be above every label (got 0)")
    ends, table = grouped(given, max(given, default=-1) + 1 if count is None else most)
    return ends.tolist(), table.tolist()


def grouped(labels: Words[int], count: int) -> tuple[Words[int], Words[int]]:
    ends, table = room(count), room(len(labels))
    ask("group", array.array("I", labels), len(labels), count, ends, table)
    return ends, table


def balanced(labels: Iterable[int], n: int | None = None) -> Mixed:
    """Samples balanced by class: every class occurs as often as any other, and gives all its
    samples before it gives one again.

    >>> labels = [0, 0, 0, 0, 0, 1]
    >>> even = balanced(labels, n=6)
    >>> [labels[even.sample(Place(0, position), seed=3)] for position in range(6)]
    [0, 1, 1, 0, 0, 1]
    """
    ends, table = group(labels)
    if not table:
        raise ValueError("labels must have one")
    sizes = [end - begin for begin, end in zip([0, *ends], ends)]
    weights = [min(1, size) for size in sizes]
    return Mixed(sizes, weights, len(table) if n is None else n, table)


def share_weights(name: str, given: Any) -> tuple[int, ...]:
    """Shares as whole numbers in the same ratio: ints, or fractions that are 1 together. Each
    fraction is the number of its digits: 0.1 is a tenth."""
    items = items_of(name, given)
    if all(hasattr(each, "__index__") for each in items):
        shares = [_border.whole(f"{name}[{k}]", each, 0, U32_MAX) for k, each in enumerate(items)]
    else:
        exact = [fraction(f"{name}[{k}]", each) for k, each in enumerate(items)]
        if sum(exact) != 1:
            raise ValueError(
                f"{name} must add up to 1 where they are fractions (got {sum(exact)}): whole "
                "numbers may have any sum, as in [2, 1]"
            )
        unit = math.lcm(*[each.denominator for each in exact])
        shares = [int(each * unit) for each in exact]
    if not sum(shares):
        raise ValueError(f"{name} must have one above 0")
    if sum(shares) > U32_MAX:
        raise ValueError(
            f"{name} must be to each other as whole numbers whose sum is <= {U32_MAX} "
            f"(got {sum(shares)})"
        )
    return tuple(shares)


def fraction(name: str, given: Any) -> Fraction:
    if not isinstance(given, (Fraction, SupportsFloat)) or isinstance(given, (bool, str)):
        raise TypeError(f"{name} must be a number (got {short(given)})")
    try:
        made = given if isinstance(given, Fraction) else Fraction(str(given))
    except ValueError as error:
        raise ValueError(f"{name} must be a finite number (got {short(given)})") from error
    if made < 0:
        raise ValueError(f"{name} must be >= 0 (got {short(given)})")
    return made


def split(n: int, fractions: Iterable[float], seed: int = 0) -> list[Part]:
    """Parts of n samples that have none in common and are all of them together, chosen at random
    once and for all. With the same n, fractions and seed they are the same.

    Fractions are exact (0.1 is a tenth, Fraction(1, 3) a third) and add up to 1. Whole numbers are
    in the ratio of the parts, so that those which add up to n are their sizes.

    >>> train, test = split(10, [0.8, 0.2], seed=4)
    >>> list(train), list(test)
    ([0, 8, 3, 4, 1, 6, 9, 7], [2, 5])
    """
    n = _border.whole("n", n, 0, EPOCH_MAX)
    shares = array.array("I", share_weights("fractions", fractions))
    count = len(shares)
    ends = [ask("part_begin", n, shares, count, part) for part in range(count + 1)]
    return [Part(n, begin, end, seed) for begin, end in itertools.pairwise(ends)]


def stratify(
    labels: Iterable[int], fractions: Iterable[float], seed: int = 0, count: int | None = None
) -> list[Subset]:
    """`split` in which each part, of at most 64, has its share of each label.

    >>> labels = [0, 0, 0, 0, 1, 1, 1, 1]
    >>> [[labels[index] for index in part] for part in stratify(labels, [3, 1])]
    [[0, 0, 0, 1, 1, 1], [0, 1]]
    """
    found, samples = group(labels, count)
    ends, table = array.array("Q", found), array.array("Q", samples)
    shares = array.array("I", share_weights("fractions", fractions))
    seed = word("seed", seed)
    _border.whole("the number of fractions", len(shares), 1, 64)
    parts = list[Subset]()
    for part in range(len(shares)):
        subset = room(len(table))
        own = (table, shares, len(shares), part, seed, subset)
        del subset[ask("stratify", ends, len(ends), *own) :]
        parts.append(Subset(subset))
    return parts
