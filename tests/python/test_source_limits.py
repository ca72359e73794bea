"""Sources: what is refused and by which name, what lives how long, and Ctrl-C."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy
import pytest
from cubes import run_program
from test_fed import Array
from test_source import SIZE, batch_of, cut, image, labels, source, table

import wavetrain
from wavetrain.source import Source

__all__ = ["source"]


def test_types_axes_and_layouts_are_checked(source):
    for named, text in (
        ({"dtype": ["u8"]}, "'image' must be an array of u8"),
        ({"dtype": [None, "i32"]}, "'label' must be an array of i32"),
        ({"ndim": [3]}, "'image' must have 3 axes"),
        ({"ndim": 2}, "'label' must have 2 axes"),
        ({"layout": ["HWC"]}, "'image' must have 3 axes"),
        ({"layout": ["HW", "x"]}, "'label' must have 1 axes"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            labels(source(batch_of(4), **named))
    rights = {"dtype": [numpy.int32, "i64"], "ndim": [2, 0], "layout": ["HW", ""]}
    assert labels(source(batch_of(4), **rights)) == cut(4)


def test_what_a_source_must_not_be_is_refused_by_name():
    for text, what, named in (
        ("source must be a callable, an iterable or None", 5, {}),
        ("source must take one argument, or none", lambda a, b: a, {}),
        ("cycle must be 'no', 'quiet' or 'raise'", [], {"cycle": "loud"}),
        ("a source that is an iterator cannot begin again", iter([]), {"cycle": True}),
        ("a source that is None cannot", None, {"cycle": "quiet"}),
        ("without an argument cannot", lambda: 1, {"cycle": "raise"}),
        ("repeat_last is for what is fed", [], {"repeat_last": True}),
        ("batch must be True where source is None", None, {"batch": False}),
        ("parallel must be a whole number", [], {"parallel": 1.5}),
        ("prefetch must be >= 1", [], {"prefetch": 0}),
        ("ndim must be 3, as layout 'HWC'", [], {"ndim": 2, "layout": "HWC"}),
        ("layout must be a str of different letters", [], {"layout": "HH"}),
        ("ndim must have an item for each field, 2", [], {"ndim": [1, 2, 3]}),
        ("dtype", [], {"dtype": "f33"}),
        ("blocking must be True or False", [], {"blocking": 1}),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            Source(what, table(), **named)
        assert text in str(caught.value), str(caught.value)
    with pytest.raises(TypeError, match="config must be"):
        Source([], {})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (([image(0)], [1, 2]), r"1 to 4 samples, of each field \(got 1, 2\)"),
        (([image(0)] * 5, [1] * 5), r"got 5"),
        (([], []), r"got 0"),
        ([image(0)], "a tuple of 2"),
        ({"mask": [1]}, "gives a field 'mask'"),
        ((["a"], [1]), "source must give arrays and numbers"),
        ((5, [1]), "an array with an axis of samples"),
        (([image(0).astype(">i4")], [1]), "byte order"),
        (([numpy.zeros((9, 9), "i4")], [1]), "do not fit|sample_shape"),
    ],
)
def test_a_batch_that_is_wrong_is_refused_by_name(given, text, source):
    for batches in (source([given]), source(lambda iteration: given)):
        with pytest.raises((TypeError, ValueError, wavetrain.WavetrainError), match=text):
            next(batches)


def test_what_is_given_lives_until_its_batch_comes_out(source):
    references = []

    def one(info):
        given = numpy.full((8, 9), info.idx_in_epoch, "i4").view(Array)
        references.append(weakref.ref(given))
        return given, info.idx_in_epoch

    batches = source(one, batch=False)
    for count in range(1, 6):
        next(batches).release()
        gc.collect()
        alive = [n for n, reference in enumerate(references) if reference() is not None]
        assert alive == [*range(count * SIZE, len(references))] and len(alive) <= 2 * SIZE


def test_a_copy_lets_the_array_go_and_be_written_to(source):
    memory = numpy.zeros((8, 9), "i4")

    def one(info):
        memory[:] = info.idx_in_epoch
        return memory[::-1, ::-1], info.idx_in_epoch

    for batch in itertools.islice(source(one, batch=False, copy=True), 5):
        with batch:
            found = batch["image"].numpy()
            assert (found == batch["label"].numpy()[:, None, None]).all()


def test_interrupts_lose_no_batch():
    run_program(
        """
        from cubes import Interrupts
        from test_source import SIZE, check, image, table
        from wavetrain.source import Source
        def one(info):
            return image(info.idx_in_epoch), info.idx_in_epoch
        for parallel in (0, 2):
            with Source(one, table(), batch=False, parallel=parallel) as batches:
                interrupts, popped = Interrupts(2, 0.004), 0
                while interrupts.go_on():
                    try:
                        interrupts.is_armed = True
                        place = batches.state_dict()
                        batch = next(batches)
                        first = place["samples"]
                        check(batch, [*range(first, first + SIZE)])
                        batch.release()
                        popped += 1
                        interrupts.is_armed = False
                    except KeyboardInterrupt:
                        batch = None
                assert interrupts.heard > 10 and popped > 10, (interrupts.heard, popped)
    """
    )
