"""wavetrain.epoch: what its sentences say. tests/ship/epoch compares the library's numbers."""

from __future__ import annotations

import collections
import doctest
import itertools
import math
import re
from fractions import Fraction

import numpy
import pytest

import wavetrain
from wavetrain import _cost, _grids, _orders, epoch
from wavetrain.epoch import (
    Boxes,
    ChunkShuffle,
    Epoch,
    Grids,
    Mixed,
    Part,
    Place,
    State,
    Subset,
    Weighted,
    balanced,
    group,
    permute,
    split,
    stratify,
)


@pytest.mark.parametrize("module", [epoch, _orders, _grids, _cost])
def test_the_doctests(module):
    result = doctest.testmod(module)
    assert result.attempted >= 3 and not result.failed


# ---- Permutations and draws ---------------------------------------------------------------------


def test_permutations_are_bijections_for_every_n_and_other_ones_for_every_key():
    for n in [*range(1, 200), 255, 256, 257, 1023, 1024, 1025, 4999]:
        rows = [[permute(n, key, position) for position in range(n)] for key in range(2)]
        for row in rows:
            assert sorted(row) == [*range(n)]
        assert n < 6 or rows[0] != rows[1]


def test_large_permutations_stay_below_n_and_have_no_two_alike():
    for n in (2**31, 2**32 + 1, 10**12, 2**62):
        found = {permute(n, 7, position) for position in range(n - 3000, n)}
        assert len(found) == 3000 and max(found) < n
        assert max(found) - min(found) > n // 2


def test_numbers_of_a_place_are_spread_evenly():
    counts = collections.Counter(epoch.below(7, 3, position) for position in range(7000))
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 22.5  # p = 0.001
    lanes = {epoch.below(2**64 - 1, 3, 5, lane) for lane in range(100)}
    assert len(lanes) == 100 and epoch.below(0, 1, 1) == 0 == epoch.below(1, 9, 9)


# ---- What ranks get -----------------------------------------------------------------------------

TAILS = ("short", "drop", "pad")


def shares(n, world, batch, tail, **options):
    """What each rank gets, (place, padding) each, in its own order."""
    found = []
    for rank in range(world):
        order = Epoch(n, 3, rank=rank, world=world, batch=batch, tail=tail, **options)
        taken, left = [], order.left
        while (each := order.take()) is not None:
            taken.append(each)
            assert order.left == left - len(taken)
        assert len(taken) == left and order.position == order.n
        found.append(taken)
    return found


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("options", [{}, {"by_batch": True}, {"chunk_shuffle": ChunkShuffle(3, 2)}])
def test_ranks_get_every_position_once_but_for_the_tail(tail, options):
    for n, world, batch in itertools.product(range(26), range(1, 5), range(1, 4)):
        found = shares(n, world, batch, tail, **options)
        positions = [each.place.position for share in found for each in share]
        own = [each.place.position for share in found for each in share if not each.is_padding]
        assert all(position < n for position in positions) and len(own) == len(set(own))
        sizes = {len(share) for share in found}
        if tail != "short":
            assert len(sizes) == 1
        if tail == "drop":
            assert n - len(own) < (world if "chunk_shuffle" in options else world * batch)
        else:
            assert sorted(own) == [*range(n)]
        if tail == "short":
            assert own == positions
        if tail == "pad" and n and "chunk_shuffle" not in options:
            assert sizes.pop() % batch == 0


def test_an_epoch_that_is_shuffled_is_another_one_each_time_and_for_each_seed():
    order, rows = Epoch(40, 1, shuffle=True), []
    for number in range(3):
        assert order.epoch == number
        rows.append([*order])
        order.turn()
    rows.append([*Epoch(40, 2, shuffle=True)])
    assert all(sorted(row) == [*range(40)] for row in rows)
    assert len(set(map(tuple, rows))) == 4


def test_places_and_samples_of_an_epoch_are_those_of_at():
    for chunks in (None, ChunkShuffle(4, 2)):
        order = Epoch(30, 5, shuffle=chunks is None, chunk_shuffle=chunks, world=3, rank=1, batch=2)
        order.begin(6)
        front = order.copy()
        places = [taken.place for taken in iter(order.take, None)]
        assert [order.at(place) for place in places] == [*front]
        assert len(places) == 10 and all(place.epoch == 6 for place in places)


@pytest.mark.parametrize("tail", ["short", "drop", "pad", "repeat"])
@pytest.mark.parametrize("samples", [103, Subset(range(500, 603)), Weighted([1, 2, 3], n=103)])
def test_many_samples_at_once_are_those_one_by_one(samples, tail):
    for count in (0, 1, 7, 60, 5000):
        one = Epoch(samples, seed=3, rank=1, world=2, batch=4, tail=tail)
        many, skipped = one.copy(), one.copy()
        places, numbers = many.deal(count)
        expected = [*itertools.islice(one, count)]
        assert numbers == expected and len(places) == len(expected)
        assert [many.at(place) for place in places] == expected
        assert skipped.skip(count) == len(expected)
        assert one.state == many.state == skipped.state
        assert one.take() == many.take() == skipped.take()


def test_more_samples_than_there_are_take_no_memory():
    assert Epoch(3).deal(2**62)[1] == [0, 1, 2]
    assert Epoch(0).deal(2**62) == ([], [])


def test_a_chunk_shuffle_keeps_runs_together_within_shuffle_windows():
    order = Epoch(60, 2, chunk_shuffle=ChunkShuffle(run=4, window=3))
    assert order.shuffle_window == 12
    row = [*order]
    for first in range(0, 60, 12):
        window = sorted(row[first : first + 12])
        assert row[first : first + 12] != window  # shuffled
        runs = [window[begin : begin + 4] for begin in range(0, 12, 4)]
        assert all(run == [*range(run[0], run[0] + 4)] for run in runs)
    assert sorted(row) == [*range(60)]


def test_a_state_is_32_bytes_and_goes_on_at_any_world():
    order = Epoch(20, 4, shuffle=True, batch=3)
    first = [next(order) for _ in range(7)]
    assert order.position == 6  # the batch under way does not count
    state = order.state
    assert len(state.pack()) == 32 and State.unpack(state.pack()) == state
    order.resume(state)  # in the middle of a batch, which begins anew
    assert [next(order) for _ in range(1)] == first[6:]
    for given in (state, state.pack(), order.state_dict()):
        rest = []
        for rank in range(3):
            other = Epoch(20, 4, shuffle=True, rank=rank, world=3)
            other.resume(given)
            rest += [*other]
        assert sorted(first[:6] + rest) == [*range(20)]


def test_in_the_middle_of_a_window_a_state_is_for_its_world():
    order = Epoch(20, 4, chunk_shuffle=ChunkShuffle(2, 2), world=2)
    front = order.state
    next(order)
    assert not order.is_portable
    assert order.state.order_hash != front.order_hash
    other = Epoch(20, 4, chunk_shuffle=ChunkShuffle(2, 2), world=3)
    with pytest.raises(ValueError, match="in the middle of a window, the number of ranks"):
        other.resume(order.state)
    with pytest.raises(
        ValueError, match="is for 2 ranks, and lies in the middle of a shuffle window"
    ):
        other.resume(order.state_dict())
    assert other.position == 0
    other.resume(front)
    same = Epoch(20, 4, chunk_shuffle=ChunkShuffle(2, 2), world=2)
    same.resume(order.state.pack())
    assert [*same] == [*order]


# ---- Splits, weights, mixtures ------------------------------------------------------------------


def test_parts_share_no_sample_and_are_all_of_them():
    for n, fractions in [(10, [0.8, 0.1, 0.1]), (7, [1, 1, 1]), (1000, [700, 200, 100]), (0, [1])]:
        parts = split(n, fractions, seed=3)
        assert sorted(itertools.chain(*parts)) == [*range(n)]
        total = sum(fractions)
        for part, fraction in zip(parts, fractions):
            assert abs(len(part) - n * fraction / total) < 1
    assert [len(part) for part in split(1000, [700, 200, 100])] == [700, 200, 100]
    thirds = [Fraction(1, 3), Fraction(2, 3)]
    assert [len(part) for part in split(9, thirds)] == [3, 6]
    assert [*split(50, [0.5, 0.5], seed=1)[0]] != [*split(50, [0.5, 0.5], seed=2)[0]]
    first, second = split(50, [1, 1], seed=1)
    assert first[-1] == [*first][24] and first[2:4] == [*first][2:4]
    assert Epoch(first, 1).order_hash != Epoch(second, 1).order_hash


def test_fractions_are_the_numbers_that_their_digits_say():
    assert _orders.share_weights("f", [0.8, 0.1, 0.1]) == (8, 1, 1)
    assert _orders.share_weights("f", [0.7, 0.2, 0.1]) == (7, 2, 1)
    assert _orders.share_weights("f", numpy.array([0.9, 0.1], "f4")) == (9, 1)
    assert _orders.share_weights("f", [1, 0.0]) == (1, 0)
    assert _orders.share_weights("f", [1e-3, 0.999]) == (1, 999)


def test_each_part_has_its_share_of_each_label():
    labels = [0] * 100 + [1] * 10 + [3] * 33
    parts = stratify(labels, [0.8, 0.2], seed=5)
    assert sorted(itertools.chain(*parts)) == [*range(143)]
    for label, size in collections.Counter(labels).items():
        found = [sum(labels[index] == label for index in part) for part in parts]
        assert abs(found[0] - 0.8 * size) <= 1, (label, found)
    assert [*parts[0]] != [*stratify(labels, [0.8, 0.2], seed=6)[0]]


def test_weights_that_are_floats_become_whole_numbers_that_are_to_each_other_as_they_are():
    for weights in ([0.1, 0.2, 0.7], [1e-300, 2e-300], [1e300, 3e299], [5e-324], [math.pi, 0, 1]):
        whole = Weighted(weights).weights
        assert 2**61 - 2**9 <= sum(whole) < 2**62 + len(weights)
        for a, b in zip(weights, whole):
            assert abs(Fraction(b) / sum(whole) - Fraction(a) / sum(map(Fraction, weights))) < (
                Fraction(1, 2**61)
            )
    assert Weighted([1e-300, 1.0]).weights == [1, 2**61]
    assert Weighted([3, 1]).weights == [3, 1]
    assert Weighted(numpy.array([3, 1])).weights == [3, 1]
    assert Weighted(numpy.array([0.5, 0.5], "f4")).weights == [2**60, 2**60]


def test_samples_come_as_often_as_their_weights_say():
    counts = collections.Counter(Epoch(Weighted([1, 0, 2, 4], n=7000), 8))
    assert counts[1] == 0
    expected = {0: 1000, 2: 2000, 3: 4000}
    assert sum((counts[k] - of) ** 2 / of for k, of in expected.items()) < 13.8  # p = 0.001


def test_sources_are_mixed_by_blocks_and_give_all_their_samples_before_one_again():
    mixed = Mixed([5, 30], [1, 3], n=40)
    picked = [mixed.pick(Place(2, position), seed=9) for position in range(40)]
    for block in range(0, 40, 4):
        assert sum(source == 0 for source, _ in picked[block : block + 4]) == 1
    small = [index for source, index in picked if source == 0]
    assert sorted(small[:5]) == sorted(small[5:]) == [0, 1, 2, 3, 4] and small[:5] != small[5:]
    assert len({index for source, index in picked if source == 1}) == 30
    assert [*Epoch(mixed, 9)][:3] == [
        index + 5 * source
        for source, index in (mixed.pick(Place(0, position), 9) for position in range(3))
    ]


def test_classes_are_balanced_also_where_one_has_no_sample():
    labels = [0] * 90 + [2] * 10
    counts = collections.Counter(labels[index] for index in Epoch(balanced(labels), 1))
    assert counts == {0: 50, 2: 50}
    assert group(labels) == ([90, 90, 100], [*range(100)])


# ---- Boxes --------------------------------------------------------------------------------------


def test_boxes_of_a_grid_lie_chunk_by_chunk_and_in_the_array_and_its_margin():
    boxes = Boxes((20, 17), (6, 5), step=(3, 4), margin=(2, 0), chunk=(8, 6))
    found = [boxes.at(number) for number in range(len(boxes))]
    assert len(set(found)) == len(found)
    for (top, bottom), (left, right) in found:
        assert top >= -2 and bottom <= 22 and left >= 0 and right <= 17
        assert (bottom - top, right - left) == (6, 5)
    chunks = [(max(top, 0) // 8, left // 6) for (top, _), (left, _) in found]
    assert chunks == sorted(chunks)


def test_boxes_that_jitter_begin_everywhere_in_time():
    boxes = Boxes((12,), (4,), chunk=8, jitter=True)
    begins = collections.Counter(
        boxes.at(number, seed=1, epoch=epoch)[0][0]
        for number in range(len(boxes))
        for epoch in range(300)
    )
    assert sorted(begins) == [*range(9)]


def test_boxes_around_a_point_hold_it():
    boxes = Boxes((9, 9), (4, 3), margin=(1, 2))
    for point in itertools.product(range(9), repeat=2):
        seen = set()
        for position in range(60):
            box = boxes.around(point, Place(0, position), seed=2)
            assert all(start <= at < stop for at, (start, stop) in zip(point, box))
            assert all(-margin <= start and stop <= 9 + margin
                       for margin, (start, stop) in zip((1, 2), box))  # fmt: skip
            seen.add(box)
        assert len(seen) > 4


def test_boxes_of_an_array_that_is_smaller_have_it_in_their_middle():
    boxes = Boxes((5, 20), (9, 10))
    assert len(boxes) == 2 and boxes.at(1) == ((-2, 7), (10, 20))
    assert boxes.anywhere(Place(0, 0))[0] == (-2, 7)


def test_boxes_are_taken_as_samples():
    box = Boxes((8, 8), (4, 4), margin=1).at(0)
    assert wavetrain.Sample("a", box).aabb == box == ((-1, 3), (-1, 3))


def test_an_epoch_costs_between_its_chunks_and_those_of_its_windows():
    grids = Grids([Boxes((40, 40), (8, 8), chunk=16), Boxes((32,) * 2, (8, 8), chunk=16)])
    n, whole = len(grids), None
    for window in (1, 2, 8, 100):
        found = epoch.cost(Epoch(n, 3, chunk_shuffle=ChunkShuffle(4, window)), grids)
        assert found.distinct == 13 <= found.windows
        assert whole is None or found.windows <= whole
        whole = found.windows
    assert found.windows == found.distinct == found.largest


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: permute(0, 1, 0), "n must be >= 1"),
        (lambda: permute(4, 1, 4), "position must be <= 3"),
        (lambda: permute(2**62 + 1, 1, 4), "n must be <= "),
        (lambda: epoch.key(-1, 0, 0), "seed must be >= 0"),
        (lambda: epoch.mix(1.0, 0), "position must be a whole number"),
        (lambda: epoch.below(3, 0, 0, 2**32), "lane must be <= "),
        (lambda: epoch.philox(0, (1, 2, 3)), "the number of words of counter must be >= 4"),
        (lambda: Epoch(-1), "samples must be >= 0"),
        (lambda: Epoch([1, 2]), "give a list of numbers as Subset(numbers)"),
        (lambda: Epoch(5, -1), "seed must be >= 0"),
        (lambda: Epoch(5, shuffle=2), "shuffle must be True or False"),
        (lambda: Epoch(5, rank=1), "rank must be below world, which is 1"),
        (lambda: Epoch(5, world=0), "world must be >= 1"),
        (lambda: Epoch(5, batch=0), "batch must be >= 1"),
        (lambda: Epoch(5, world=2**32 - 1, batch=2**32 - 1), "world * batch must be <= "),
        (lambda: Epoch(5, tail="long"), "tail must be one of 'short', 'drop', 'pad', 'repeat'"),
        (lambda: Epoch(5, chunk_shuffle=(1, 2)), "chunk_shuffle must be ChunkShuffle(run, window)"),
        (
            lambda: Epoch(5, chunk_shuffle=ChunkShuffle(1, 2), tail="repeat"),
            "tail must not be 'repeat' with",
        ),
        (
            lambda: Epoch(5, chunk_shuffle=ChunkShuffle(1, 2), by_batch=True),
            "by_batch must be False with",
        ),
        (
            lambda: Epoch(5, chunk_shuffle=ChunkShuffle(1, 2), shuffle=True),
            "shuffle must be False with a chunk_shuffle",
        ),
        (lambda: Epoch(Weighted([1]), shuffle=True), "shuffle must be False with <Weighted"),
        (
            lambda: Epoch(Weighted([1]), chunk_shuffle=ChunkShuffle(1, 1)),
            "chunk_shuffle must be None with <Weighted",
        ),
        (lambda: Epoch(5).at((0, 5)), "position must be < 5"),
        (lambda: Epoch(5).begin(-1), "epoch must be >= 0"),
        (lambda: Epoch(5).resume(b"short"), "a state has 32 bytes (got 5)"),
        (lambda: Epoch(5).resume(5), "state must be what state or state_dict() gave"),
        (lambda: Epoch(5).resume({"seed": 0}), "lacks epoch, position, order_hash"),
        (lambda: Epoch(5).resume(Epoch(5, 1).state), "the checkpoint has seed 1, and this epoch 0"),
        (lambda: Epoch(5).resume(Epoch(6).state), "the checkpoint is of another order"),
        (lambda: Epoch(5).resume(Epoch(5).state._replace(position=6)), "is of another order"),
        (lambda: Epoch(5).resume(Epoch(Subset([0])).state), "is of another order"),
        (lambda: ChunkShuffle(0, 1), "run must be >= 1"),
        (lambda: ChunkShuffle(1, 0), "window must be >= 1"),
        (lambda: Subset([1, -1]), "indices[1] must be >= 0"),
        (lambda: Subset(5), "indices must be a sequence"),
        (lambda: Subset([5])[1], "index out of range"),
        (lambda: Part(5, 3, 2, 0), "begin must be <= 2"),
        (lambda: split(5, [0.5, 0.4]), "fractions must add up to 1 where they are fractions"),
        (lambda: split(5, [0.5, math.nan]), "fractions[1] must be a finite number"),
        (lambda: split(5, [1.5, -0.5]), "fractions[1] must be >= 0"),
        (lambda: split(5, ["1"]), "fractions[0] must be a number"),
        (lambda: split(5, []), "fractions must have one above 0"),
        (lambda: split(5, [1 / 3, 1 - 1 / 3]), "as whole numbers whose sum is <= 4294967295"),
        (lambda: stratify([0], [1] * 65), "the number of fractions must be <= 64"),
        (lambda: stratify([0, -1], [1]), "labels[1] must be >= 0"),
        (lambda: group([0, 2], 2), "labels[1] must be <= 1"),
        (lambda: group([0], 0), "count must be above every label"),
        (lambda: balanced([]), "labels must have one"),
        (lambda: Weighted([0, 0]), "weights must have one above 0"),
        (lambda: Weighted([]), "weights must have one above 0"),
        (lambda: Weighted([1, -1]), "weights[1] must be >= 0"),
        (lambda: Weighted([0.5, -1]), "weights[1] must be >= 0"),
        (lambda: Weighted([0.5, math.inf]), "weights[1] must be finite"),
        (lambda: Weighted([1e308, 1e308]), "weights must have a sum that fits a float"),
        (lambda: Weighted([2**64 - 1, 1]), "the sum of weights must be <= "),
        (lambda: Weighted([1], n=-1), "n must be >= 0"),
        (lambda: Weighted([1]).sample(Place(0, -1), 1), "place.position must be >= 0"),
        (lambda: Mixed([2], [1]).pick(3, 1), "place must be a Place(epoch, position)"),
        (lambda: Mixed([2], [1]).pick(Place(0, 0), -1), "seed must be >= 0"),
        (lambda: Mixed([1, 2], [1]), "weights must have an item per source, 2 (got 1)"),
        (lambda: Mixed([0, 2], [1, 1]), "weights[0] must be 0, as sizes[0] is"),
        (lambda: Mixed([2], [1], table=[1]), "table must have 2 samples (got 1)"),
        (lambda: Boxes((4, 4), (2,)), "box must have an item per axis, 2 (got 1)"),
        (lambda: Boxes((4, 0), (2, 2)), "shape[1] must be >= 1"),
        (lambda: Boxes((4,), (0,)), "box[0] must be >= 1"),
        (lambda: Boxes((4,), (2,), margin=2), "margin[0] must be <= 1"),
        (lambda: Boxes((4,), (2,), step=[1, 1]), "step must have an item per axis, 1 (got 2)"),
        (lambda: Boxes((2**60,) * 2, (1, 1)), "the number of boxes must be <= "),
        (lambda: Boxes((4,), (2,)).at(2), "number must be <= 1"),
        (lambda: Boxes((4,), (2,)).around((4,), Place(0, 0)), "point[0] must be <= 3"),
        (lambda: Boxes((4,), (2,)).around((), Place(0, 0)), "point must have an item per axis, 1"),
        (lambda: Boxes((4,), (2,)).anywhere(5), "place must be a Place(epoch, position)"),
        (lambda: Grids([]), "grids must have one"),
        (lambda: Grids([5]), "grids[0] must be Boxes"),
        (lambda: Grids([Boxes((4,), (2,))]).find(2), "index must be <= 1"),
        (lambda: epoch.cost(Epoch(2), Boxes((4,), (2,))), "epoch must have a chunk_shuffle"),
        (
            lambda: epoch.cost(Epoch(3, chunk_shuffle=ChunkShuffle(1, 1)), Boxes((4,), (2,))),
            "of the 2 boxes",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(call, text):
    with pytest.raises((ValueError, TypeError, IndexError), match=re.escape(text)):
        call()


def test_a_state_is_of_numbers_that_an_int64_has_and_takes_those_of_a_uint64():
    hashes = set()
    for n in range(1, 40):
        order = Epoch(n, 3, shuffle=True)
        order.skip(1)
        state = order.state
        assert all(-(2**63) <= number < 2**63 for number in state)
        assert State.unpack(state.pack()) == state
        without_sign = state._replace(order_hash=state.order_hash % 2**64)
        for given in (
            state,
            without_sign,
            without_sign._asdict(),
            order.state_dict(),
            state.pack(),
        ):
            again = Epoch(n, 3, shuffle=True)
            again.resume(given)
            assert again.state == state
        hashes.add(state.order_hash < 0)
    assert hashes == {True, False}
    with pytest.raises(ValueError, match="order_hash must be"):
        Epoch(5).resume(Epoch(5).state._replace(order_hash=2**64))
