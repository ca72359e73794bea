"""wavetrain.DataLoader: epochs of a data set, dealt to ranks, and gone on with.

This file is over 500 lines because the facts of one class share its data sets.
"""

from __future__ import annotations

import gc
import itertools
import math
import multiprocessing
import os
import pickle
import random
import re
import weakref

import numpy
import pytest
from cubes import config, run_program
from test_files import Folder, is_chunk

import wavetrain
from wavetrain import DataLoader
from wavetrain.epoch import (
    Boxes,
    ChunkShuffle,
    Epoch,
    Mixed,
    Subset,
    Weighted,
    balanced,
    cost,
    mix,
    split,
    stratify,
)

COUNT = 50


class Cubes:
    """Samples of the cube by their numbers."""

    def __init__(self, cube, count=COUNT):
        self.cube, self.count, self.asked = cube, count, 0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.asked += 1
        return self.cube.sample(index)


class Placed(Cubes):
    """The same, and their tags tell where they stand."""

    def at_place(self, index, place):
        sample = self.cube.sample(index)
        return wavetrain.Sample(sample.uri, sample.aabb, place.epoch * 1000 + place.position)


class Turns:
    """A sampler that is not a sequence: the numbers turned by its epoch, or by how often it was
    asked."""

    def __init__(self, count=10, size=None):
        self.count, self.size, self.asked = count, size, []
        self.batch_size = size

    def __len__(self):
        return math.ceil(self.count / (self.size or 1))

    def __iter__(self):
        by = self.turn_by()
        self.asked.append(by)
        numbers = [(number + by) % self.count for number in range(self.count)]
        if self.size is None:
            return iter(numbers)
        return (numbers[at : at + self.size] for at in range(0, self.count, self.size))

    def turn_by(self):
        return len(self.asked)


class EpochTurns(Turns):
    """The same with the method that torch's DistributedSampler has."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def turn_by(self):
        return self.epoch


@pytest.fixture
def loader(cube):
    """loader(dataset or count, ..): closed when the test is over."""
    opened = []

    def make(dataset=COUNT, *arguments, **options):
        dataset = Cubes(cube, dataset) if isinstance(dataset, int) else dataset
        options.setdefault("config", config())
        opened.append(DataLoader(dataset, *arguments, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def tags(batches):
    """Of all batches of an iteration, a tuple each."""
    found = []
    for batch in batches:
        with batch:
            found.append(batch.info.tags)
    return found


def of(batches):
    return [tag for batch in tags(batches) for tag in batch]


def dealt(order):
    return [*order]


# ---- What comes out -----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_an_epoch_holds_what_numpy_reads_in_the_order_of_its_epoch(cube, loader, threads):
    made = loader(shuffle=True, seed=5, config=config(n_decode_threads=threads))
    for epoch in range(3):
        assert made.epoch == epoch
        order, seen = Epoch(COUNT, 5, shuffle=True), []
        order.begin(epoch)
        for batch in made:
            with batch:
                numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*batch.info.tags))
                seen.append(batch.info.tags)
        assert [len(each) for each in seen] == [4] * 12 + [2] and len(made) == 13
        assert [*itertools.chain(*seen)] == dealt(order)


def test_without_shuffle_samples_come_in_order_and_as_torch_s_does_in_batches_of_one(cube):
    with DataLoader(Cubes(cube, 5)) as made:
        assert tags(made) == [(0,), (1,), (2,), (3,), (4,)]
        assert made.config.sample_shape == (8, 8, 8) and made.batch_size == 1


def test_drop_last_leaves_out_what_is_no_batch_for_every_rank(loader):
    made = [loader(drop_last=True, rank=rank, world=3) for rank in range(3)]
    assert [len(each) for each in made] == [4, 4, 4]
    assert sorted(tag for each in made for tag in of(each)) == [*range(48)]
    # As the config says, where nobody else does.
    assert len(loader(10, config=config(drop_last=True))) == 2
    assert len(loader(10, config=config(drop_last=True), drop_last=False)) == 3


def ends(made):
    """Of each batch of an iteration the tags, how many only pad, and the places of the others."""
    found = []
    for batch in made:
        with batch:
            found.append((batch.info.tags, batch.padded, made.places))
    return found


@pytest.mark.parametrize("sampler", [None, "chunks", "weights"])
@pytest.mark.parametrize(
    ("count", "world", "batch"), [(41, 2, 4), (33, 2, 8), (50, 3, 4), (5, 8, 2)]
)
def test_ranks_get_as_many_batches_and_hear_what_only_pads(loader, sampler, count, world, batch):
    kinds = {None: None, "chunks": ChunkShuffle(3, 2), "weights": Weighted([1] * count)}
    made = [
        loader(count, batch, sampler=kinds[sampler], seed=3, rank=rank, world=world)
        for rank in range(world)
    ]
    found = [ends(each) for each in made]
    sizes = [[len(tags) for tags, _, _ in each] for each in found]
    assert sizes == [sizes[0]] * world and [len(each) for each in made] == [len(sizes[0])] * world
    if sampler != "chunks":  # which fills windows, and not batches
        assert sizes[0] == [batch] * -(-count // (world * batch))
    real, places = [], []
    for tags, padded, at in itertools.chain(*found):
        assert len(at) == len(tags) - padded
        real += tags[: len(at)]  # repeats are the last
        places += at
    assert sorted(places) == [(0, position) for position in range(count)]
    if sampler != "weights":
        assert sorted(real) == [*range(count)]
    assert all(0 <= tag < count for tags, _, _ in itertools.chain(*found) for tag in tags)


def test_the_tail_of_an_epoch_is_what_is_asked_for(loader):
    def sizes(rank, **options):
        made = loader(41, 4, rank=rank, world=2, **options)
        found = [(len(tags), padded) for tags, padded, _ in ends(made)]
        assert len(found) == len(made)
        return found[5:]

    assert sizes(0) == sizes(0, tail="pad") == sizes(0, drop_last=False) == [(4, 3)]
    assert sizes(1) == sizes(1, tail="pad") == [(4, 4)]
    assert (sizes(0, tail="short"), sizes(1, tail="short")) == ([(1, 0)], [])
    assert sizes(0, tail="drop") == sizes(1, drop_last=True, tail="drop") == []
    alone = loader(41, 4)
    assert ends(alone)[-1][1:] == (0, ((0, 40),))  # one rank waits for nobody
    repeats = loader(41, 4, rank=0, world=2, tail="repeat")
    with pytest.raises(TypeError, match="have no end"):
        len(repeats)
    found = [tag for batch in itertools.islice(repeats, 12) for tag in batch.info.tags]
    assert found[:21] == [*range(0, 41, 2)] and len(found) == 48


def test_a_rank_that_goes_on_in_the_last_round_pads_as_before(loader):
    whole = ends(loader(41, 4, rank=1, world=2))
    made = loader(41, 4, rank=1, world=2)
    for batch in itertools.islice(made, 5):
        batch.release()
    again = loader(41, 4, rank=1, world=2)
    again.load_state_dict(made.state_dict())
    assert ends(again) == whole[5:] == [(whole[5][0], 4, ())]


def test_no_samples_are_no_batches(loader):
    made = loader(0)
    assert len(made) == made.left == 0 and tags(made) == tags(made) == []
    assert made.epoch == 2


@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("tail", ["short", "drop", "pad"])
def test_len_is_the_number_of_batches_of_each_rank(cube, loader, world, tail):
    for chunks, rank in itertools.product([None, ChunkShuffle(4, 3)], range(world)):
        order = Epoch(COUNT, tail=tail, rank=rank, world=world, batch=4, chunk_shuffle=chunks)
        made = loader(sampler=order)
        assert made.left == len(made)
        found = []
        for batch in made:
            found.append(batch.info.tags)
            assert made.left == len(made) - len(found)
            batch.release()
        assert len(found) == len(made)
        sizes = [len(each) for each in found]
        assert set(sizes[:-1]) <= {4} and (tail == "short" or chunks or set(sizes) == {4})
        if chunks and tail == "drop":
            assert set(sizes) <= {4}


def test_epochs_that_repeat_have_no_end_and_no_len(loader):
    made = loader(10, sampler=Epoch(10, 1, shuffle=True, tail="repeat"))
    with pytest.raises(TypeError, match="no end"):
        len(made)
    found = []
    for batch in itertools.islice(made, 7):
        with batch:
            found += batch.info.tags
    order = Epoch(10, 1, shuffle=True)
    first = dealt(order)
    order.turn()
    second = dealt(order)
    order.turn()
    assert found == (first + second + dealt(order))[:28] and made.epoch == 2


def test_one_pipeline_serves_all_epochs(loader):
    made = loader()
    pipeline = made.pipeline
    for _ in range(3):
        tags(made)
    next(iter(made)).release()
    assert made.pipeline is pipeline
    assert tags(made) == tags(loader())


def test_what_the_transforms_return_comes_out(cube, loader):
    made = loader(transforms=[lambda batch: (batch.numpy(), batch.info.tags), tuple, list])
    for values, numbers in made:
        numpy.testing.assert_array_equal(values, cube.holds(*numbers))
        del values  # a slot is of the array, not of the batch
    one = loader(transforms=lambda batch: batch.info.tags, config=config(n_batch_slots=1))
    assert [*one] == tags(loader())


def test_a_batch_that_nobody_holds_gives_its_slot_back(loader):
    made = loader(config=config(n_batch_slots=2, pop_timeout_s=20.0))
    assert sum(1 for _ in made) == len(made)  # one is held while the next is asked for


def test_what_is_held_starves_the_pool_and_then_the_same_batch_comes(loader):
    made = loader(config=config(n_batch_slots=2, pop_timeout_s=0.05))
    batches = iter(made)
    held = [next(batches), next(batches)]
    for _ in range(2):
        with pytest.raises(wavetrain.PoolStarved):
            next(batches)
    del held[:]
    assert of(batches) == [*range(8, COUNT)]


def test_files_of_the_program_are_read(loader, cube):
    read = set()
    made = loader(9, files=Folder(read.add))
    assert of(made) == [*range(9)] and any(map(is_chunk, read))


# ---- What stands at a place ---------------------------------------------------------------------


def test_samplers_say_which_samples(loader):
    labels = [index % 7 // 3 for index in range(COUNT)]
    train, test = split(COUNT, [0.8, 0.2], seed=1)
    assert sorted(of(loader(sampler=train)) + of(loader(sampler=test))) == [*range(COUNT)]
    assert of(loader(sampler=test, shuffle=True, seed=2)) == dealt(Epoch(test, 2, shuffle=True))
    some, _ = stratify(labels, [1, 1])
    assert of(loader(sampler=some)) == [*some]
    assert of(loader(sampler=[4, 4, 9])) == [4, 4, 9]
    assert of(loader(sampler=numpy.array([4, 1]))) == [4, 1]
    assert of(loader(sampler=range(3, 9, 2))) == [3, 5, 7]
    weighted = Weighted([0.0] * 40 + [0.25] * 10, n=30)
    drawn = of(loader(sampler=weighted, seed=3))
    assert drawn == dealt(Epoch(weighted, 3)) and len(drawn) == 30 and min(drawn) >= 40
    even = of(loader(sampler=balanced(labels), seed=3))
    counts = numpy.bincount(numpy.array(labels)[even])
    assert len(even) == COUNT and counts.max() - counts.min() <= 1
    mixed = of(loader(sampler=Mixed([10, 40], [1, 1], n=20)))
    assert sum(index < 10 for index in mixed) == 10
    chunks = loader(sampler=ChunkShuffle(5, 2), seed=4)
    assert of(chunks) == dealt(Epoch(COUNT, 4, chunk_shuffle=ChunkShuffle(5, 2)))


def test_num_workers_and_prefetch_go_to_the_config(cube, loader):
    made = loader(10, num_workers=1, prefetch=4)
    assert made.config.n_decode_threads == 1 and made.config.n_batch_slots == 5
    assert of(made) == [*range(10)]
    plain = loader(10)
    assert plain.config.n_decode_threads == 2 and plain.config.n_batch_slots == 3
    assert DataLoader(Cubes(cube), prefetch=63).config.n_batch_slots == 64


# ---- Samplers that are asked anew in each epoch -------------------------------------------------


def turned(by, count=10):
    return [(number + by) % count for number in range(count)]


def test_a_sampler_is_asked_once_as_each_epoch_begins(cube, loader):
    sampler = Turns()
    made = loader(sampler=sampler)
    assert len(made) == 3 and made.left == 3 and sampler.asked == []
    assert tags(made) == [tuple(turned(0)[at : at + 4]) for at in (0, 4, 8)]
    assert made.epoch == 1 and sampler.asked == [0]
    with next(iter(made)) as batch:  # an iteration that is left early
        assert batch.info.tags == tuple(turned(1)[:4]) and made.left == 2
        numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*batch.info.tags))
    assert of(made) == turned(2) and sampler.asked == [0, 1, 2]


@pytest.mark.parametrize(("options", "count"), [({"drop_last": True}, 2), ({"tail": "pad"}, 3)])
def test_the_tail_of_a_sampler_that_is_asked_anew_is_that_of_the_loader(loader, options, count):
    made = loader(sampler=Turns(), **options)
    found = tags(made)
    assert len(made) == len(found) == count and {len(each) for each in found} == {4}
    assert found[-1][-2:] == ((6, 7) if count == 2 else (0, 1))


@pytest.mark.parametrize("size", [None, 4])
def test_set_epoch_of_a_sampler_has_the_number_of_the_epoch(loader, size):
    name = "sampler" if size is None else "batch_sampler"
    sampler = EpochTurns(size=size)
    made = loader(**{name: sampler})
    made.set_epoch(7)
    assert of(made) == turned(7) and sampler.epoch == 7
    sampler.set_epoch(8)  # as loops for torch do
    assert of(made) == turned(8)
    sampler.set_epoch(3)
    text = f"{name}.epoch was set to 3, and this DataLoader begins epoch 9: call set_epoch\\(3\\)"
    with pytest.raises(ValueError, match=text):
        iter(made)
    made.set_epoch(3)
    assert of(made) == turned(3)


@pytest.mark.parametrize("size", [None, 4])
def test_a_place_within_an_epoch_of_a_sampler_is_gone_on_with(loader, size):
    name = "sampler" if size is None else "batch_sampler"
    first = loader(**{name: EpochTurns(size=size)})
    first.set_epoch(2)
    with next(iter(first)):
        place = first.state_dict()
    second = loader(**{name: EpochTurns(size=size)})
    second.load_state_dict(place)
    assert second.left == 2 and of(second) == turned(2)[4:] and of(second) == turned(3)
    front = second.state_dict()
    third = loader(**{name: EpochTurns(size=size)})
    third.load_state_dict(front)
    assert third.epoch == 4 and of(third) == turned(4)
    # The same loader goes on with what it has, and does not ask for another order.
    plain = Turns(size=size)
    same = loader(**{name: plain})
    with next(iter(same)):
        same.load_state_dict(same.state_dict())
    assert of(same) == turned(0)[4:] and plain.asked == [0]


def test_a_place_that_a_sampler_does_not_give_again_is_refused(loader):
    first = loader(sampler=Turns())
    of(first)
    with next(iter(first)):
        place = first.state_dict()  # of an order that is turned by 1
    second = loader(sampler=Turns())
    with pytest.raises(ValueError, match="the sampler gives other samples in epoch 1 than before"):
        second.load_state_dict(place)
    assert second.epoch == 0
    shuffled = loader(10, shuffle=True)
    with pytest.raises(ValueError, match="the sampler gives other samples in epoch 0"):
        second.load_state_dict(shuffled.state_dict())
    with pytest.raises(ValueError, match="the checkpoint is of another order"):
        shuffled.load_state_dict(loader(sampler=Turns()).state_dict())


def test_a_batch_sampler_makes_the_batches(loader):
    made = loader(batch_sampler=Turns(10, 3), config=config(samples_per_batch=8))
    assert len(made) == 4 and made.batch_size == made.config.samples_per_batch == 3
    assert tags(made) == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9,)]
    assert tags(loader(batch_sampler=[[5, 6, 7, 8], [1, 1]])) == [(5, 6, 7, 8), (1, 1)]


def test_without_a_config_the_shape_is_that_of_the_first_sample(loader):
    sampler = Turns()
    made = loader(sampler=sampler, config=None)
    assert made.config.sample_shape == (8, 8, 8) and sampler.asked == []
    assert of(made) == turned(0)


class Endless(Turns):
    __len__ = None

    def __iter__(self):
        return itertools.count()


class Short(Turns):
    def __len__(self):
        return self.count - 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sampler": Turns(COUNT + 1)}, f"sampler has sample {COUNT}, and the data set {COUNT}"),
        ({"sampler": Turns(10, 4)}, "one that gives lists of them, as BatchSampler does, is a"),
        ({"batch_sampler": Turns(10)}, "one that gives a number for each sample is a sampler"),
        ({"batch_sampler": [[1], [1, 2, 3, 4]]}, "batch_sampler gives 1 samples in batch 0, and 4"),
        ({"batch_sampler": [[1] * 5]}, "batch_sampler gives 5 samples in batch 0, and 4 are"),
        ({"batch_sampler": [[0.5] * 4]}, "batch_sampler[0] must be a whole number (got 0.5)"),
        ({"sampler": Short()}, "sampler gives more than len(sampler), which is 9"),
        ({"sampler": Endless()}, "and has no len(): an epoch must end"),
    ],
)
def test_what_a_sampler_gives_that_is_no_order_is_refused(loader, monkeypatch, options, text):
    monkeypatch.setattr("wavetrain._samplers.UNSIZED_MAX", 1000)
    made = loader(**options)
    for _ in range(2):
        with pytest.raises((ValueError, TypeError), match=re.escape(text)):
            iter(made)


def test_without_a_length_of_the_sampler_there_is_none_of_the_loader(loader):
    with pytest.raises(TypeError, match=r"Endless, the sampler, has no len\(\)"):
        len(loader(sampler=Endless()))


def test_a_loader_with_a_sampler_that_is_asked_anew_is_copied_with_its_place(loader):
    made = loader(sampler=EpochTurns())
    with next(iter(made)):
        other = pickle.loads(pickle.dumps(made))
    with other:
        assert of(other) == turned(0)[4:] and of(other) == turned(1)


def test_boxes_that_are_drawn_for_a_place_are_others_in_each_epoch(cube, loader):
    boxes = Boxes((64, 64, 64), (8, 8, 8))

    class Drawn(Cubes):
        def at_place(self, index, place):
            return wavetrain.Sample(self.cube, boxes.anywhere(place, seed=1), tag=index)

    made, seen = loader(Drawn(cube, 8)), []
    for _ in range(2):
        for batch in made:
            with batch:
                for row, index in zip(batch.numpy(), batch.info.tags):
                    box = boxes.anywhere((made.epoch, index), seed=1)
                    seen.append(box)
                    expected = cube.data[tuple(slice(*axis) for axis in box)]
                    numpy.testing.assert_array_equal(row, expected)
    assert len(set(seen)) == 16


def test_what_a_chunk_shuffle_decodes_lies_between_its_bounds_and_a_shuffle_decodes_more(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")
    values = numpy.random.default_rng(1).integers(0, 256, (1024, 1024), "u1")
    path = str(tmp_path / "array")
    zarr.create_array(path, shape=(1024, 1024), chunks=(128, 128), dtype="u1")[...] = values
    boxes = Boxes((1024, 1024), (32, 32), chunk=128)  # 16 in each of 64 chunks

    class Tiles:
        def __len__(self):
            return len(boxes)

        def __getitem__(self, index):
            return wavetrain.Sample(path, boxes.at(index), tag=index)

    def decoded(sampler):
        settings = wavetrain.Config(
            samples_per_batch=8,
            sample_shape=(32, 32),
            dtype="u8",
            backend="host",
            chunk_cache_bytes=16 * 128 * 128,
            n_decode_threads=2,
        )
        with DataLoader(Tiles(), sampler=sampler, config=settings) as made:
            for batch in made:
                with batch:
                    for row, index in zip(batch.numpy(), batch.info.tags):
                        (top, bottom), (left, right) = boxes.at(index)
                        assert (row == values[top:bottom, left:right]).all()
            return sum(made.pipeline.stats().chunks_decoded.values())

    order = Epoch(len(boxes), 1, chunk_shuffle=ChunkShuffle(run=16, window=8))
    bound = cost(order, boxes)
    assert bound.distinct == 64 and bound.largest == 8
    assert bound.distinct <= decoded(order) <= bound.windows
    assert decoded(Epoch(len(boxes), 1, shuffle=True)) > 4 * bound.windows


# ---- Checkpoints --------------------------------------------------------------------------------


def test_the_place_is_behind_the_last_batch_that_came_out_not_what_was_loaded_ahead(cube, loader):
    made = loader(shuffle=True)
    places, found = [made.state_dict()], []
    for batch in made:
        with batch:
            found.append(batch.info.tags)
        places.append(made.state_dict())
        assert made.dataset.asked == COUNT or made.dataset.asked > 4 * len(found)
    assert [place["position"] for place in places] == [*range(0, 49, 4), COUNT]
    assert made.state_dict()["position"] == 0 and made.epoch == 1
    following = tags(made)
    for number, place in enumerate(places):
        other = loader(shuffle=True)
        other.load_state_dict(pickle.loads(pickle.dumps(place)))
        assert other.epoch == 0 and other.left == 13 - number
        assert tags(other) == found[number:]
        assert tags(other) == following


def killed(cube, dice, expected, world, place, settings, options):
    """What the ranks of a world give until they are killed after some batches each, from a place
    on: samples by their positions; the place then, and whether that is the end."""
    steps, found, places, left = dice.randint(1, 5), {}, [], 0
    for rank in range(world):
        order = Epoch(COUNT, 6, shuffle=True, rank=rank, world=world, **options)
        with DataLoader(Placed(cube), sampler=order, config=settings) as made:
            if place is not None:
                made.load_state_dict(place)
            for batch in itertools.islice(made, min(steps, made.left)):
                with batch:
                    for value, position in zip(batch.numpy(), batch.info.tags):
                        index = expected.at((0, position))
                        numpy.testing.assert_array_equal(value, cube.holds(index)[0])
                        assert position not in found
                        found[position] = index
            places.append(made.state_dict())
            left += made.left
    # Ranks that get nothing of a tail stay in front of it.
    place = max(places, key=lambda each: each["position"])
    assert places.count(place) == world or (options["tail"] == "short" and left == 0)
    return found, place, left == 0


@pytest.mark.parametrize("by_batch", [False, True])
@pytest.mark.parametrize("tail", ["short", "drop"])
def test_killed_and_gone_on_with_at_other_worlds_the_global_order_is_the_same(cube, tail, by_batch):
    dice, worlds = random.Random(f"{tail} {by_batch}"), set()
    expected = Epoch(COUNT, 6, shuffle=True)
    for _ in range(6):
        place, found, is_over = None, {}, False
        while not is_over:
            world, batch = dice.choice([1, 2, 3, 8]), dice.choice([1, 2, 3])
            options = {"batch": batch, "tail": tail, "by_batch": by_batch}
            settings = config(n_decode_threads=dice.choice([1, 2, 8]))
            more, place, is_over = killed(*(cube, dice, expected, world, place, settings, options))
            assert not found.keys() & more.keys()
            found.update(more)
            worlds.add(world)
            # What has come is a front of the order, whoever had it.
            assert sorted(found) == [*range(len(found))]
        assert len(found) == COUNT or (tail == "drop" and COUNT - len(found) < world * batch)
    assert len(worlds) == 4


@pytest.mark.parametrize("chunks", [None, ChunkShuffle(4, 2)])
def test_the_digest_of_an_epoch_is_the_same_for_every_world(cube, chunks):
    sums = []
    for world, batch in [(1, 4), (2, 4), (3, 1), (8, 3)]:
        proof, count = 0, 0
        for rank in range(world):
            order = Epoch(
                COUNT, 6, shuffle=not chunks, chunk_shuffle=chunks, rank=rank, world=world
            )
            settings = config(digest=True)
            with DataLoader(Cubes(cube), batch, sampler=order, config=settings) as made:
                for one in made:
                    with one:
                        tags = [order.at(place) for place in made.places]
                        assert tags == [*one.info.tags]
                        for place, digest in zip(made.places, one.digests):
                            proof += mix(place.position, int(digest))
                            count += 1
        assert count == COUNT
        sums.append(proof % 2**64)
    assert len(set(sums)) == 1 and sums[0]


def test_the_loops_of_docs_go_on_where_they_were(loader):
    first, found = loader(shuffle=True), []
    for epoch in range(first.epoch, 3):
        first.set_epoch(epoch)  # as those who have a DistributedSampler do
        for number, batch in enumerate(first):
            with batch:
                found.append(batch.info.tags)
            if (epoch, number) == (1, 6):
                place = first.state_dict()
                kept = len(found)
    second, again = loader(shuffle=True), []
    second.load_state_dict(place)
    for epoch in range(second.epoch, 3):
        second.set_epoch(epoch)
        again += tags(second)
    assert found[kept:] == again


def test_a_state_of_another_order_is_refused_and_nothing_changes(loader):
    made = loader(shuffle=True, seed=1)
    others = [
        loader(shuffle=True, seed=2),
        loader(shuffle=False, seed=1),
        loader(COUNT - 1, shuffle=True, seed=1),
        loader(sampler=Subset(range(COUNT)), shuffle=True, seed=1),
        loader(sampler=Weighted([1] * COUNT), seed=1),
        loader(sampler=ChunkShuffle(5, 2), seed=1),
    ]
    tags(itertools.islice(made, 2))
    before = made.state_dict()
    for other in others:
        with pytest.raises(ValueError, match=r"has seed|of another order"):
            made.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="lacks seed, epoch, position"):
        made.load_state_dict({"order_hash": 1})
    with pytest.raises(ValueError, match="of another order"):
        made.load_state_dict({**before, "position": COUNT + 1})
    assert made.state_dict() == before


def test_a_chunk_shuffle_goes_on_at_another_world_where_it_is_portable_and_says_so(cube, loader):
    def ranks(world):
        options = {"sampler": ChunkShuffle(4, 2), "tail": "short", "world": world}
        return [loader(rank=rank, **options) for rank in range(world)]

    found, places = [], []
    for made in ranks(2):
        for batch in itertools.islice(made, 2):
            found.append(batch.info.tags)
            places.append((made.state_dict(), made.is_portable))
            batch.release()
    (middle, _), (bound, _) = places[:2]
    assert places == 2 * [(middle, False), (bound, True)]
    again, three = ranks(2)[0], ranks(3)
    again.load_state_dict(middle)
    assert tags(again)[0] == found[1]
    with pytest.raises(
        ValueError, match="is for 2 ranks, and lies in the middle of a shuffle window"
    ):
        three[0].load_state_dict(middle)
    rest = []
    for made in three:
        made.load_state_dict(bound)
        rest += of(made)
    assert sorted([*itertools.chain(*found), *rest]) == [*range(COUNT)]


# ---- Iterations ---------------------------------------------------------------------------------


def test_an_epoch_that_is_left_early_is_followed_by_the_next(loader):
    made, whole = loader(shuffle=True), loader(shuffle=True)
    next(iter(made)).release()
    assert made.epoch == 0
    tags(whole)
    assert tags(made) == tags(whole) and made.epoch == 2


def test_set_epoch_begins_it_and_keeps_a_place_that_was_loaded(loader):
    made, whole = loader(shuffle=True), loader(shuffle=True)
    epochs = [tags(whole) for _ in range(3)]
    made.set_epoch(2)
    assert tags(made) == epochs[2] and made.epoch == 3
    made.set_epoch(1)
    next(iter(made)).release()
    place = made.state_dict()
    made.set_epoch(1)  # it is under way: from its front
    assert tags(made) == epochs[1]
    made.load_state_dict(place)
    made.set_epoch(1)
    assert tags(made) == epochs[1][1:]
    with pytest.raises(ValueError, match="epoch must be >= 0"):
        made.set_epoch(-1)


def test_another_iteration_or_place_ends_the_one_before(loader):
    made = loader()
    first = iter(made)
    next(first).release()
    place = made.state_dict()
    second = iter(made)
    with pytest.raises(RuntimeError, match="another iteration began"):
        next(first)
    made.load_state_dict(place)
    with pytest.raises(RuntimeError, match="another iteration began, or the place was set"):
        next(second)
    assert of(made) == [*range(4, COUNT)]


def test_behind_its_end_an_iteration_stays_at_its_end(loader):
    made = loader(9)
    first = iter(made)
    assert of(first) == [*range(9)] and next(first, None) is None
    assert of(made) == [*range(9)] and next(first, None) is None


# ---- What goes wrong ----------------------------------------------------------------------------


class Broken(Cubes):
    """One of the samples is not what it should be."""

    def __init__(self, cube, number, make):
        super().__init__(cube)
        self.number, self.make = number, make

    def __getitem__(self, index):
        return self.make(self.cube) if index == self.number else super().__getitem__(index)


def raises(_):
    raise KeyError("no such cell")


WRONG = {
    "an exception": (raises, KeyError, "no such cell"),
    "no sample": (lambda _: 5, TypeError, r"dataset\[30\] must be a wavetrain.Sample"),
    "another shape": (
        lambda cube: wavetrain.Sample(cube, [(0, 4)] * 3, tag=99),
        wavetrain.WavetrainError,
        "extents",
    ),
    "two boxes": (
        lambda cube: wavetrain.Sample(boxes=[wavetrain.Box(cube, [(0, 8)] * 3)] * 2),
        ValueError,
        "max_boxes_per_sample",
    ),
    "no array": (
        lambda cube: wavetrain.Sample(cube + "-not", [(0, 8)] * 3),
        wavetrain.NotFound,
        "cube.zarr-not",
    ),
    "outside": (
        lambda cube: wavetrain.Sample(cube, [(60, 68)] * 3),
        wavetrain.WavetrainError,
        "60",
    ),
}


@pytest.mark.parametrize("why", [*WRONG])
def test_what_is_wrong_comes_out_behind_the_batches_before_it_and_again(cube, loader, why):
    make, error, text = WRONG[why]
    made, found = loader(Broken(cube, 30, make)), []
    batches = iter(made)
    with pytest.raises(error, match=text):
        for batch in batches:
            with batch:
                found.append(batch.info.tags)
    assert [*itertools.chain(*found)] == [*range(28)]
    assert made.state_dict()["position"] == 28 and made.epoch == 0
    with pytest.raises(error, match=text):
        next(batches)
    made.dataset.number = None
    made.load_state_dict(made.state_dict())
    assert of(made) == [*range(28, COUNT)]
    assert of(made) == [*range(COUNT)]  # and the next epoch as ever


def test_a_batch_whose_transform_fails_has_not_come_out(loader):
    def fail(batch):
        assert 8 not in batch.info.tags, "not these"
        return batch.info.tags

    made, found = loader(transforms=fail), []
    with pytest.raises(AssertionError, match="not these"):
        found.extend(made)
    assert made.state_dict()["position"] == 8
    with pytest.raises(AssertionError, match="not these"):
        made.load_state_dict(made.state_dict())
        next(iter(made))


def test_what_is_wrong_in_the_store_comes_before_what_is_wrong_behind_it(cube, loader):
    class Both(Broken):
        def __getitem__(self, index):
            return raises(index) if index == 14 else super().__getitem__(index)

    made, found = loader(Both(cube, 5, WRONG["no array"][0])), []
    with pytest.raises(wavetrain.NotFound):
        for batch in made:
            with batch:
                found += batch.info.tags
    assert found == [0, 1, 2, 3]
    made.dataset.number = None
    made.load_state_dict(made.state_dict())
    with pytest.raises(KeyError, match="no such cell"):
        for batch in made:
            with batch:
                found += batch.info.tags
    assert found == [*range(12)]


@pytest.mark.parametrize("error", [StopIteration, wavetrain.TryAgain, wavetrain.PoolStarved])
@pytest.mark.parametrize("where", ["the data set", "a transform"])
def test_no_exception_of_others_is_taken_for_one_of_the_loader(cube, loader, where, error):
    left = [True]

    def fail(tag):
        if tag == 8 and left and left.pop():
            raise error("of somebody else")

    class Failing(Cubes):
        def __getitem__(self, index):
            if where == "the data set":
                fail(index)
            return super().__getitem__(index)

    def transform(batch):
        if where == "a transform":
            fail(batch.info.tags[0])
        return batch.info.tags

    made = loader(Failing(cube), transforms=transform)
    batches, found = iter(made), []
    with pytest.raises(RuntimeError if error is StopIteration else error):
        while True:
            found.append(next(batches))
    assert [*itertools.chain(*found)] == [*range(8)] and made.state_dict()["position"] == 8
    found += batches  # asked again, it goes on
    assert [*itertools.chain(*found)] == [*range(COUNT)] and made.epoch == 1


def test_a_transform_that_fails_keeps_no_slot_and_no_loader(cube):
    def fail(batch):
        values = batch.numpy()
        raise ValueError(values.shape)

    settings = config(n_batch_slots=1, pop_timeout_s=0.5)
    made = DataLoader(Cubes(cube), config=settings, transforms=fail)
    seen = weakref.ref(made)
    gc.disable()
    try:
        for _ in range(3):
            with pytest.raises(ValueError, match="4, 8, 8, 8"):
                next(iter(made))
            made.load_state_dict(made.state_dict())
        del made
        assert seen() is None
    finally:
        gc.enable()


def test_an_error_that_is_gone_when_it_is_tried_again_is_forgotten(cube, loader):
    left = ["interrupt", "error"]

    class Once(Cubes):
        def __getitem__(self, index):
            if index == 9 and left[-1:] == ["error"]:
                left.pop()
                raise KeyError(index)
            return super().__getitem__(index)

    def transform(batch):
        if left == ["interrupt"]:
            left.pop()
            raise KeyboardInterrupt
        return batch.info.tags

    made = loader(Once(cube), transforms=transform)
    batches = iter(made)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert [*itertools.chain(*batches)] == [*range(COUNT)]


@pytest.mark.parametrize("where", ["the data set", "a transform"])
def test_after_an_interrupt_the_next_batch_is_the_one_that_it_ended(cube, loader, where):
    left = [False, True, True]

    def interrupt(tag):
        if tag == 36 and left.pop():
            raise KeyboardInterrupt

    class Interrupted(Cubes):
        def __getitem__(self, index):
            if where == "the data set":
                interrupt(index)
            return super().__getitem__(index)

    def transform(batch):
        if where == "a transform":
            interrupt(batch.info.tags[0])
        return batch.info.tags

    made, found = loader(Interrupted(cube), transforms=transform), []
    batches, interrupts = None, 0
    while True:
        try:
            batches = batches or iter(made)
            found.append(next(batches))
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts == 2
    assert [*itertools.chain(*found)] == [*range(COUNT)]


def test_who_uses_the_pipeline_beside_it_is_told(loader):
    made = loader()
    batches = iter(made)
    next(batches).release()
    made.pipeline.reset()
    made.pipeline.flush()
    with pytest.raises(RuntimeError, match="somebody else used the pipeline"):
        next(batches)


def test_a_loader_that_is_closed_says_so(cube):
    made = DataLoader(Cubes(cube), config=config())
    batches = iter(made)
    held = next(batches).numpy()
    made.close()
    made.close()
    numpy.testing.assert_array_equal(held, cube.holds(0, 1, 2, 3))
    for call in (lambda: next(batches), lambda: iter(made), lambda: made.pipeline):
        with pytest.raises(wavetrain.ShutdownError, match="closed"):
            call()


def test_a_loader_that_is_dropped_ends_at_once(cube):
    made = DataLoader(Cubes(cube), config=config())
    batches = iter(made)
    next(batches).release()
    pipeline, seen = made.pipeline, weakref.ref(made)
    gc.disable()
    try:
        del made, batches
        assert seen() is None
    finally:
        gc.enable()
    with pytest.raises(wavetrain.ShutdownError):
        pipeline.stats()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dataset": iter([])}, "dataset must have len(dataset) and dataset[index]"),
        ({"dataset": 5}, "dataset must have len(dataset) and dataset[index]"),
        ({"batch_size": 0}, "batch_size must be >= 1"),
        ({"num_workers": 0}, "num_workers must be >= 1 (got 0): a pipeline always has threads"),
        ({"num_workers": -1}, "num_workers must be >= 0 (got -1)"),
        ({"num_workers": 2.0}, "num_workers must be a whole number (got 2.0)"),
        ({"prefetch": 0}, "prefetch must be >= 1 (got 0)"),
        ({"prefetch": 64}, "prefetch must be <= 63 (got 64)"),
        ({"sampler": numpy.zeros((3, 3))}, "sampler[0] must be a whole number (got an array of 3"),
        ({"config": {}}, "config must be a wavetrain.Config"),
        ({"shuffle": 1}, "shuffle must be True or False"),
        ({"drop_last": "no"}, "drop_last must be True or False"),
        ({"tail": "cut"}, "tail must be one of 'short', 'drop', 'pad', 'repeat' (got 'cut')"),
        ({"tail": "pad", "drop_last": True}, "drop_last=True and tail='pad' are both given"),
        ({"tail": "pad", "sampler": Epoch(3)}, "tail and an Epoch as sampler are both given"),
        ({"seed": -1}, "seed must be >= 0"),
        ({"world": 0}, "world must be >= 1"),
        ({"rank": 2, "world": 2}, "rank must be below world, which is 2"),
        ({"transforms": 5}, "transforms[0] must be callable"),
        ({"transforms": [len, None]}, "transforms[1] must be callable"),
        ({"sampler": iter([1])}, "sampler must be numbers of samples that can be iterated anew"),
        ({"sampler": 5}, "sampler must be numbers of samples"),
        ({"sampler": {1, 2}}, "no iterator or set: give list(..) of it"),
        ({"sampler": Turns(), "shuffle": True}, "shuffle must be False with a sampler that is"),
        ({"sampler": Turns(), "world": 2}, "world must be 1 with a sampler that is asked anew"),
        ({"sampler": Turns(), "seed": 1}, "seed and a sampler that is asked anew are both given"),
        ({"sampler": Turns(), "tail": "repeat"}, "tail must not be 'repeat' with a sampler"),
        ({"batch_sampler": [[1]], "sampler": [1]}, "sampler and batch_sampler are both given"),
        ({"batch_sampler": [[1]], "batch_size": 1}, "batch_size and batch_sampler are both given"),
        ({"batch_sampler": Turns(9, 2), "tail": "pad"}, "tail and batch_sampler are both given"),
        ({"batch_sampler": Turns(9, 2), "drop_last": True}, "drop_last and batch_sampler are both"),
        ({"batch_sampler": Turns(9, 2), "world": 2}, "world must be 1 with a batch_sampler"),
        ({"batch_sampler": [[1]]}, "config must be given: batch_sampler has no batch_size"),
        ({"batch_sampler": iter([[1]])}, "batch_sampler must be an iterable of lists"),
        (
            {"sampler": ChunkShuffle(5, 2), "shuffle": True},
            "shuffle must be False with a chunk_shuffle",
        ),
        (
            {"sampler": Epoch(3), "config": config(drop_last=True)},
            "drop_last and an Epoch as sampler are both given",
        ),
        ({"sampler": [3, COUNT]}, f"sampler has sample {COUNT}, and the data set {COUNT} of them"),
        ({"sampler": Epoch(COUNT + 1)}, f"sampler has sample {COUNT}, and the data set {COUNT}"),
        ({"sampler": split(COUNT + 1, [1, 1])[0]}, f"sampler has sample {COUNT}, and the data set"),
        ({"sampler": Weighted([1]), "shuffle": True}, "shuffle must be False with <Weighted"),
        ({"sampler": Epoch(3), "seed": 0}, "seed and an Epoch as sampler are both given"),
        ({"sampler": Epoch(3), "shuffle": True}, "shuffle and an Epoch as sampler are both given"),
        (
            {"sampler": Epoch(3, batch=2), "batch_size": 4},
            "batch_size is 4, and that of the sampler 2",
        ),
        ({"fit": "name"}, "fit must be a list of arrays"),
    ],
)
def test_what_makes_no_loader_is_refused_with_its_name(cube, options, text):
    dataset = options.pop("dataset", Cubes(cube))
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        DataLoader(dataset, **{"batch_size": None, **options})


def test_without_a_config_the_first_sample_tells_the_shape_and_fits_the_caps(cube, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr-python writes the arrays")
    values = numpy.arange(3 << 20).reshape(3, 1 << 20)
    path = str(tmp_path / "wide")
    zarr.create_array(path, shape=values.shape, chunks=values.shape, dtype="f8")[:] = values

    class Rows(list):
        def __getitem__(self, index):
            return wavetrain.Sample(path, [(index, index + 1), (7, 9)])

    with DataLoader(Rows("abc"), batch_size=2, shuffle=True, seed=1) as made:
        rows = numpy.concatenate([batch.numpy().copy() for batch in made])
    order = dealt(Epoch(3, 1, shuffle=True))
    numpy.testing.assert_array_equal(rows[:, 0], values[order, 7:9].astype("f4"))
    with pytest.raises(ValueError, match="config must be given: there is no sample"):
        DataLoader(Cubes(cube, 0))

    class Boxed(Rows):
        def __getitem__(self, index):
            return wavetrain.Sample(boxes=[wavetrain.Box(5, field="label")])

    with pytest.raises(ValueError, match="config must be given, with the fields"):
        DataLoader(Boxed("abc"))


@pytest.mark.parametrize("is_mapped", [False, True])
def test_rows_of_a_file_come_out_of_its_mapping_where_that_is_asked_for(tmp_path, is_mapped):
    values = numpy.arange(64 * 100, dtype=">u2").reshape(64, 100)
    path = str(tmp_path / "values.npy")
    numpy.save(path, values)
    boxes = [wavetrain.Sample(path, numpy.s_[row : row + 4, 5:8]) for row in range(60)]
    with DataLoader(boxes, batch_size=6, map_uncompressed=is_mapped) as made:
        for number, batch in enumerate(made):
            with batch:
                firsts = range(number * 6, number * 6 + 6)
                wanted = [values[row : row + 4, 5:8].astype("f4") for row in firsts]
                numpy.testing.assert_array_equal(batch.numpy(), wanted)
        mapped = made.pipeline.stats().mapped_bytes
        assert mapped == (os.path.getsize(path) if is_mapped else 0)


# ---- Processes ----------------------------------------------------------------------------------


def rest_of(made):
    with made:
        return tags(made)


def test_sent_to_another_process_it_goes_on_there(cube, loader):
    made = loader(shuffle=True, config=config(consumer_stream=None))
    for batch in itertools.islice(made, 3):
        batch.release()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(rest_of, [made])
    here = loader(shuffle=True)
    assert there == tags(here)[3:]


def test_a_forked_child_is_told_and_may_have_its_own(cube):
    program = """
    import os, sys, warnings
    import wavetrain
    from cubes import Cube, config
    from test_dataloader import Cubes, tags
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork, where there are threads
    cube = Cube(sys.argv[1])
    opened, unopened = (wavetrain.DataLoader(Cubes(cube), config=config()) for _ in range(2))
    batches = iter(opened)
    next(batches).release()
    child = os.fork()
    if child == 0:
        seen = []
        for call in (lambda: next(batches), lambda: [*opened]):
            try:
                call()
            except wavetrain.ShutdownError as error:
                seen.append("fork" in str(error))
        seen.append(len(tags(unopened)))
        print(seen, flush=True)
        unopened.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(len(tags(batches)), len(tags(unopened)))
    opened.close()
    unopened.close()
    """
    assert run_program(program, cube).stdout == "[True, True, 13]\n12 13\n"


def test_the_end_of_a_program_that_closes_nothing_is_silent(cube):
    program = """
    import sys, wavetrain
    from cubes import Cube, config
    from test_dataloader import Cubes
    made = wavetrain.DataLoader(Cubes(Cube(sys.argv[1])), config=config())
    batches = iter(made)
    held = next(batches)
    """
    assert run_program(program, cube).stderr == ""
