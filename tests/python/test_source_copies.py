"""The arrays of a source are copied when its call returns, in the thread that made the call: with
copy=True all of them, else those of at most 64 bytes."""

from __future__ import annotations

import concurrent.futures
import threading
import time

import numpy
import pytest
from cubes import config

from wavetrain import Field
from wavetrain.source import Source

COUNT, SIZE = 24, 4
LARGE, SMALL = (40,), (2,)  # 160 and 8 bytes


def table(shape):
    fields = (Field("image", shape, "i32"), Field("label", (), "i64"))
    return config(samples_per_batch=SIZE, sample_shape=(), fields=fields)


class Overwriting:
    """Gives the same array again and again, and nothing else of it may be seen."""

    def __init__(self, shape, is_batch, form):
        self.image = numpy.zeros((SIZE, *shape) if is_batch else shape, "i4")
        self.label = numpy.zeros((SIZE,) if is_batch else (), "i8")
        self.holder = {"image": self.image, "label": self.label}
        self.rows = [list(self.image), self.label] if is_batch else []
        self.is_batch, self.form, self.made = is_batch, form, 0
        self.local, self.shape = threading.local(), shape

    def give(self, number):
        first = number * SIZE if self.is_batch else number
        numbers = numpy.arange(first, first + SIZE)
        self.image[...] = numbers.reshape(-1, 1) if self.is_batch else number
        self.label[...] = numbers if self.is_batch else number
        self.made += 1
        if self.form == "dict":
            return self.holder
        if self.form == "lists" and self.is_batch:
            return self.rows
        return self.image, self.label

    def generator(self):
        for number in range(COUNT // SIZE if self.is_batch else COUNT):
            yield self.give(number)

    def indexed(self, info):
        if not hasattr(self.local, "own"):
            self.local.own = Overwriting(self.shape, self.is_batch, self.form)
        number = info if self.is_batch else info.idx_in_epoch
        if number >= (COUNT // SIZE if self.is_batch else COUNT):
            raise StopIteration
        return self.local.own.give(number)


def check(batches):
    found = []
    for batch in batches:
        with batch:
            image, label = batch["image"].numpy().copy(), batch["label"].numpy().tolist()
        assert (image == numpy.array(label).reshape(-1, 1)).all(), (image[:, 0], label)
        found += label
        time.sleep(0.01)  # the threads of the source go on
    assert found == [*range(COUNT)]


@pytest.mark.parametrize("form", ["tuple", "dict", "lists"])
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("parallel", [0, 1, 4])
@pytest.mark.parametrize(("shape", "copy"), [(LARGE, True), (SMALL, True)])
def test_a_generator_that_writes_to_the_same_array_again(form, is_batch, parallel, shape, copy):
    source = Overwriting(shape, is_batch, form)
    named = {"batch": is_batch, "parallel": parallel, "prefetch": 4, "copy": copy}
    with Source(source.generator, table(shape), **named) as batches:
        check(batches)


@pytest.mark.parametrize("form", ["tuple", "dict"])
@pytest.mark.parametrize("parallel", [0, 1])
def test_small_arrays_are_taken_without_copy_too(form, parallel):
    source = Overwriting(SMALL, False, form)
    named = {"batch": False, "parallel": parallel, "prefetch": 4}
    with Source(source.generator, table(SMALL), **named) as batches:
        check(batches)


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_callbacks_whose_threads_have_an_array_each(is_batch, own):
    source = Overwriting(LARGE, is_batch, "tuple")
    parallel = concurrent.futures.ThreadPoolExecutor(4) if own else 4
    named = {"batch": is_batch, "parallel": parallel, "prefetch": 4, "copy": True}
    with Source(source.indexed, table(LARGE), **named) as batches:
        check(batches)
    if own:
        parallel.shutdown()


def test_what_is_fed_is_taken_by_feed():
    image, label = numpy.zeros((SIZE, *LARGE), "i4"), numpy.zeros(SIZE, "i8")
    with Source(None, table(LARGE), copy=True) as batches:
        for first in range(0, COUNT, SIZE):
            label[:] = numpy.arange(first, first + SIZE)
            image[:] = label.reshape(-1, 1)
            batches.feed((image, label))
        batches.end()
        check(batches)


def test_the_copy_is_made_by_the_thread_of_the_call():
    seen = []

    class Array:
        def __init__(self, number):
            self.data = numpy.full(LARGE, number, "i4")
            self.thread = threading.current_thread()

        @property
        def __array_interface__(self):
            seen.append(self.thread is threading.current_thread())
            return self.data.__array_interface__

    def source(info):
        if info.idx_in_epoch == 8:
            raise StopIteration
        return Array(info.idx_in_epoch), info.idx_in_epoch

    named = {"batch": False, "parallel": 2, "copy": True}
    with Source(source, table(LARGE), **named) as batches:
        assert [batch["label"].numpy().tolist() for batch in batches] == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
        ]
    assert len(seen) >= 8 and all(seen)


def test_an_array_that_is_copied_once_is_not_copied_again(monkeypatch):
    from wavetrain import _fed

    made, inner = [], _fed.Fed.copied
    monkeypatch.setattr(_fed.Fed, "copied", lambda self: (made.append(self), inner(self))[1])
    source = Overwriting(LARGE, True, "tuple")
    with Source(source.generator, table(LARGE), parallel=1, copy=True) as batches:
        check(batches)
    assert len(made) == COUNT // SIZE  # images; labels are small


def test_what_is_no_array_is_an_error_behind_the_batches_before_it():
    def source(info):
        return (numpy.zeros(LARGE, "i4") if info.idx_in_epoch < 4 else object()), 1

    named = {"batch": False, "parallel": 2, "copy": True}
    with Source(source, table(LARGE), **named) as batches:
        next(batches).release()
        for _ in range(2):
            with pytest.raises(TypeError, match="must give arrays and numbers"):
                next(batches)
