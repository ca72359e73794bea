"""Answers the questions of tests/c/epoch.c with wavetrain.epoch, a line each.

Questions that the package refuses, where C has an answer for what makes no sense, are no questions
here, such as a rank that is not below the world.
"""

from __future__ import annotations

from wavetrain import _dice, epoch
from wavetrain.epoch import Boxes, Epoch, Free, Grids, Mixed, Place, State, Weighted

SHUFFLE, BY_BATCH, DROP, PAD, REPEAT = 1, 2, 4, 8, 16
NO_INDEX = 2**64 - 1


def made(n, seed, flags, **others):
    tail = "pad" if flags & PAD else "drop" if flags & DROP else "short"
    tail = "repeat" if flags & REPEAT else tail
    shuffle, by_batch = bool(flags & SHUFFLE), bool(flags & BY_BATCH)
    return Epoch(n, seed, shuffle=shuffle, by_batch=by_batch, tail=tail, **others)


def placed(order, number, position):
    order_hash = order.hash_at(position, order.world)
    order.resume(State(order.seed, number, position, order_hash))


def run(order, number, position, count):
    def left():
        return [order.left] if order.free is None else [order.left, int(order.is_bound)]

    placed(order, number, position)
    out = [1, order.state.order_hash, *left()]
    for _ in range(count):
        taken = order.take()
        if taken is None:
            out.append(0)
        else:
            out += [1 + taken.is_padding, *taken.place, order.at(taken.place)]
        out += [order.epoch, order.position, order.state.order_hash, *left()]
    return out


def deal(n, seed, flags, rank, world, batch, number, position, count):
    return run(made(n, seed, flags, rank=rank, world=world, batch=batch), number, position, count)


def free(n, seed, flags, rank, world, visit, window, number, position, count):
    order = made(n, seed, flags, rank=rank, world=world, free=Free(visit, window))
    return run(order, number, position, count)


def at(n, seed, flags, visit, window, number, position, count):
    order = made(n, seed, 0, free=Free(visit, window)) if visit else made(n, seed, flags)
    wanted = [Place(number, position + k) for k in range(count)]
    return [order.at(place) if place.position < n else NO_INDEX for place in wanted]


def depends(n, seed, flags, *numbers):
    return [epoch.depends_on(made(n, seed, flags).order_hash, list(numbers))]


def resume(n, seed, flags, other_n, other_seed, other_flags, position):
    other = made(other_n, other_seed, other_flags)
    state = State(other.seed, 0, position, other.order_hash).pack()
    try:
        made(n, seed, flags).resume(state)
    except ValueError:
        return [0]
    return [1]


def parts(n, count, *weights):
    if not any(weights):
        return [0] * (count + 1)
    return [0, *[part.end for part in epoch.split(n, weights)]]


def group(count, *labels):
    try:
        ends, table = epoch.group(labels, count)
    except ValueError:
        return [0]
    return [1, *ends, *table]


def stratify(seed, part, count, *rest):
    weights, labels = rest[:count], rest[count + 1 :]
    if not any(weights):
        return []
    return [*epoch.stratify(labels, weights, seed, rest[count])[part]]


def weighted(seed, number, position, count, *weights):
    if sum(weights) > NO_INDEX:
        return [0]
    if not sum(weights):
        return [1] + [NO_INDEX] * count
    drawn = Weighted(weights)
    return [1, *[drawn.sample(Place(number, position + k), seed) for k in range(count)]]


def mixed(seed, number, position, count, *shares):
    try:
        both = Mixed(shares[::2], shares[1::2])
    except ValueError:
        return [0] * count
    out = []
    for k in range(count):
        out += [1, *both.pick(Place(number, position + k), seed)]
    return out


def grid(numbers):
    """The first grid of the numbers, and the others."""
    rank, flags, *rest = numbers
    lists = [rest[rank * k : rank * (k + 1)] for k in range(5)]
    return Boxes(*lists, jitter=bool(flags & 1)), rest[5 * rank :]


def begins(box):
    return [1, *[begin for begin, _ in box]]


def boxes(seed, number, first, count, *numbers):
    try:
        of, _ = grid(numbers)
    except ValueError:
        return [0] * (count + 1)
    out = [len(of)]
    for k in range(first, first + count):
        out += begins(of.at(k, seed, number)) if k < len(of) else [0]
    return out


def anywhere(seed, number, position, count, *numbers):
    try:
        of, _ = grid(numbers)
    except ValueError:
        return [0] * count
    out = []
    for k in range(count):
        out += begins(of.anywhere(Place(number, position + k), seed))
    return out


def around(seed, number, position, count, *numbers):
    try:
        of, point = grid(numbers)
        places = [Place(number, position + k) for k in range(count)]
        found = [of.around(point, place, seed) for place in places]
    except ValueError:
        return [0] * count
    return [each for box in found for each in begins(box)]


def grids(count, numbers):
    found = []
    for _ in range(count):
        of, numbers = grid(numbers)
        found.append(of)
    return Grids(found)


def arrays(index, count, *numbers):
    try:
        row = grids(count, numbers)
    except ValueError:
        return [0]
    out, chunks = [1], 0
    for end, of in zip(row.ends, row.grids):
        chunks += of.chunk_count
        out += [end, chunks]
    return out + ([*row.find(index)] if index < len(row) else [count, 0])


def cost(seed, number, visit, window, words, count, *numbers):
    try:
        row = grids(count, numbers)
    except ValueError:
        return []
    order = Epoch(len(row), seed, free=Free(visit, window))
    order.begin(number)
    return [1, *epoch.cost(order, row)]


ANSWERS = {
    "mix": lambda *numbers: [epoch.mix(*numbers)],
    "key": lambda *numbers: [epoch.key(*numbers)],
    "high": lambda a, b: [a * b >> 64],
    "philox": lambda key, *counter: epoch.philox(key, counter),
    "below": lambda n, key, position, lane, count: [
        epoch.below(n, key, (position + k) % 2**64, lane) for k in range(count)
    ],
    "permute": lambda n, key, position, count: [
        epoch.permute(n, key, position + k) if position + k < n <= _dice.EPOCH_MAX else NO_INDEX
        for k in range(count)
    ],
    "deal": deal,
    "free": free,
    "at": at,
    "depends": depends,
    "resume": resume,
    "parts": parts,
    "group": group,
    "stratify": stratify,
    "weighted": weighted,
    "mixed": mixed,
    "boxes": boxes,
    "anywhere": anywhere,
    "around": around,
    "arrays": arrays,
    "cost": cost,
}


def answer(question: str) -> str:
    word, *numbers = question.split()
    return "".join(f" {int(each)}" for each in ANSWERS[word](*map(int, numbers)))
