"""Arrays that Python has (`Config.source`): what comes out of them, and what goes wrong."""

from __future__ import annotations

import array
import gc
import pickle
import sys
import threading
import weakref

import numpy
import pytest
from cubes import run_program

import wavetrain
from wavetrain import SourceInfo

DICE = numpy.random.default_rng(1)


class Given:
    """The array "a/b c#d"; `change` makes of each part of it what is given instead."""

    def __init__(self, data, chunk_shape=(), change=lambda part, start: part, **said):
        self.data, self.chunk_shape, self.change, self.said = data, chunk_shape, change, said
        self.reads = []

    def describe(self, name):
        if name != "a/b c#d":
            raise KeyError(name)
        return SourceInfo(self.data.shape, self.data.dtype, self.chunk_shape, **self.said)

    def read(self, name, start, shape):
        assert name == "a/b c#d"
        self.reads.append((start, shape))
        box = tuple(slice(first, first + count) for first, count in zip(start, shape))
        return self.change(self.data[box], start)


URI = "hook:a/b c#d"


def boxes(shape, sample, count):
    """Corners all over an array."""
    corners = DICE.integers(0, numpy.array(shape) - sample + 1, (count, len(shape)))
    return [[(at, at + extent) for at, extent in zip(corner, sample)] for corner in corners]


def check(pipeline, given, sample, count=40, **changes):
    """Boxes of it are what numpy has there."""
    fields = {"samples_per_batch": 4, "sample_shape": sample, "dtype": given.data.dtype}
    stream = pipeline(source=given, fit=[URI], **{**fields, **changes})
    wanted = boxes(given.data.shape, sample, count)
    stream.push([wavetrain.Sample(URI, box) for box in wanted])
    found = numpy.concatenate([batch.numpy().copy() for batch in stream.batches()])
    slices = [tuple(slice(*each) for each in box) for box in wanted]
    numpy.testing.assert_array_equal(found, [given.data[each] for each in slices])
    return stream


@pytest.mark.parametrize("chunk_shape", [(), (8, 8, 8), (23, 17, 31), (64, 64, 64), (1, 17, 5)])
@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_boxes_of_every_grid_are_the_elements_that_python_has(pipeline, chunk_shape, cache):
    given = Given(DICE.integers(0, 1 << 30, (23, 17, 31), "i4"), chunk_shape)
    check(pipeline, given, (5, 6, 7), chunk_cache_bytes=cache)
    for start, shape in given.reads:
        for axis, edge in enumerate(chunk_shape):
            assert start[axis] % edge == 0
            assert shape[axis] == min(edge, given.data.shape[axis] - start[axis])


NUMPY = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
WAYS = {
    "as it is": lambda part, _: part,
    "row-major": lambda part, _: numpy.ascontiguousarray(part),
    "column-major": lambda part, _: numpy.asfortranarray(part),
    "backwards": lambda part, _: part[::-1, ::-1].copy()[::-1, ::-1],
    "a view": lambda part, _: memoryview(part),
    "torch": lambda part, _: sys.modules["torch"].from_numpy(part.copy()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", NUMPY)
def test_every_type_comes_however_the_part_is_given(pipeline, kind, way):
    if way == "torch":
        pytest.importorskip("torch", reason="there is no torch here")
    data = DICE.integers(0, 2 if kind == "?" else 100, (40, 30)).astype(kind)
    if kind in ("f4", "f8"):
        data[3, 4], data[5, 6] = numpy.inf, -0.0
    check(pipeline, Given(data, change=WAYS[way]), (9, 7))


def test_types_that_numpy_lacks(pipeline):
    types = pytest.importorskip("ml_dtypes", reason="there is no ml_dtypes here")
    data = DICE.normal(size=(30, 20)).astype(types.bfloat16)
    check(pipeline, Given(data, (8, 8)), (9, 7))
    words = DICE.bytes(24 * 12)

    class Raw:
        def describe(self, name):
            return SourceInfo((24,), "raw", (6,), fill=b"twelve bytes", dtype_bytes=12)

        def read(self, name, start, shape):
            return numpy.frombuffer(words, "V12")[start[0] : start[0] + shape[0]]

    stream = pipeline(
        source=Raw(), sample_shape=(20,), dtype="raw", dtype_bytes=12, pad_mode="constant"
    )
    stream.push([wavetrain.Sample("hook:x", [(5, 25)])] * 4)
    assert stream.pop().numpy()[3].tobytes() == words[60:] + b"twelve bytes"


@pytest.mark.parametrize(
    "part", [numpy.full((), 7, "i2"), numpy.int16(7), 7, array.array("h", [7])]
)
def test_an_array_without_axes_is_one_element(pipeline, part):
    class One:
        def describe(self, name):
            return SourceInfo((), "int16")

        def read(self, name, start, shape):
            assert (start, shape) == ((), ())
            return part

    stream = pipeline(source=One(), sample_shape=(1,), dtype="i16", samples_per_batch=1)
    stream.push([wavetrain.Sample("hook:one", [])])
    if isinstance(part, array.array):  # which has an axis
        with pytest.raises(wavetrain.StorageError, match=r"<one i16> \(got <1 i16>\)"):
            stream.pop()
    else:
        assert stream.pop().numpy().tolist() == [[7]]


def test_what_is_outside_or_missing_is_the_fill_value_or_not_found(pipeline):
    def missing(part, start):
        if start == (8, 0):
            raise FileNotFoundError("not written yet")
        return part

    given = Given(numpy.arange(16 * 4, dtype="f4").reshape(16, 4), (8, 4), missing, fill=-2.5)
    plain = {"source": given, "sample_shape": (4, 4), "samples_per_batch": 1, "dtype": "f32"}
    stream = pipeline(**plain, pad_mode="constant")
    for first, wanted in ((-2, [-2.5, -2.5, 0, 4]), (6, [24, 28, -2.5, -2.5])):
        stream.push([wavetrain.Sample(URI, [(first, first + 4), (0, 4)])])
        assert stream.pop().numpy()[0, :, 0].tolist() == wanted
    strict = pipeline(**plain, missing_chunks="error")
    strict.push([wavetrain.Sample(URI, [(6, 10), (0, 4)])])
    with pytest.raises(wavetrain.NotFound, match="FileNotFoundError: not written yet") as caught:
        strict.pop()
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_an_array_that_nobody_knows_is_not_found(pipeline):
    given = Given(numpy.zeros((4,), "u1"))
    stream = pipeline(source=given, sample_shape=(4,), samples_per_batch=1)
    stream.push([wavetrain.Sample("hook:other", [(0, 4)])])
    with pytest.raises(wavetrain.NotFound, match=r"hook:other.*\(KeyError: 'other'\)$") as caught:
        stream.pop()
    assert isinstance(caught.value.__cause__, KeyError)
    without = pipeline(sample_shape=(4,), samples_per_batch=1)
    without.push([wavetrain.Sample("hook:other", [(0, 4)])])
    with pytest.raises(wavetrain.InvalidArgument, match=r"only Config\(source=\.\.\)"):
        without.pop()


class Odd(Exception):
    def __str__(self):
        raise ValueError("it has no text")


KINDS = [OSError, ValueError, MemoryError, KeyboardInterrupt, SystemExit, StopIteration, Odd]
KINDS += [GeneratorExit, RecursionError, IndexError]


def failing(kind):
    def fail(*_):
        raise kind("the disk burns")

    return fail


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["describe", "read"])
def test_what_python_raises_is_the_cause_and_in_the_text(pipeline, kind, place):
    given = Given(numpy.zeros((16,), "u1"))
    setattr(given, place, failing(kind))
    stream = pipeline(source=given, sample_shape=(4,), samples_per_batch=2)
    stream.push([wavetrain.Sample(URI, [(0, 4)])] * 2)
    said = kind.__name__ if kind is Odd else f"{kind.__name__}: the disk burns"
    for call in (stream.pop, stream.flush, stream.pop):
        with pytest.raises(wavetrain.StorageError, match="hook:a/b c#d") as caught:
            call()
        assert type(caught.value.__cause__) is kind
        assert str(caught.value).endswith(f"({said})"), caught.value


def test_an_interrupt_on_the_callers_own_thread_is_the_callers(pipeline):
    for kind in (KeyboardInterrupt, SystemExit):
        given = Given(numpy.zeros((16,), "u1"))
        given.describe = failing(kind)
        with pytest.raises(kind):
            pipeline(source=given, fit=[URI])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda part, _: part[:-1], r"must give <4 x 3 u16> \(got <3 x 3 u16>\)"),
        (lambda part, _: part.T, r"must give <4 x 3 u16> \(got <3 x 4 u16>\)"),
        (lambda part, _: part.ravel(), r"\(got <12 u16>\)"),
        (lambda part, _: part.astype("i2"), r"\(got <4 x 3 i16>\)"),
        (lambda part, _: part.astype("u4"), r"\(got <4 x 3 u32>\)"),
        (lambda part, _: part.astype(">u2"), "byte order"),
        (lambda part, _: numpy.ma.masked_array(part, part > 3), "masked"),
        (lambda part, _: part.astype("O"), "must have elements of a type of wavetrain"),
        (lambda part, _: part.tolist(), "must give an array"),
        (lambda *_: None, r"must give an array \(got None\)"),
        (lambda *_: 3, "must give an array"),
        (lambda *_: numpy.uint16(3), "must give an array"),
        (lambda *_: b"", r"got <0 u8>"),
        (lambda part, _: part[None], r"\(got <1 x 4 x 3 u16>\)"),
    ],
)
def test_what_is_no_such_array_is_an_error_and_never_data(pipeline, change, said):
    given = Given(numpy.arange(60, dtype="u2").reshape(20, 3), (4, 3), change)
    stream = pipeline(source=given, sample_shape=(4, 3), samples_per_batch=1, dtype="u16")
    stream.push([wavetrain.Sample(URI, [(4, 8), (0, 3)], tag=9)])
    with pytest.raises(wavetrain.StorageError, match=said) as caught:
        stream.pop()
    assert "elements [4, 0] to [7, 2]" in str(caught.value) and caught.value.tag == 9


@pytest.mark.parametrize("told", [None, (4, 3), numpy.zeros((4, 3)), {"shape": (4, 3)}])
def test_what_is_no_description_is_an_error(pipeline, told):
    given = Given(numpy.zeros((4,), "u1"))
    given.describe = lambda name: told
    stream = pipeline(source=given, sample_shape=(4,), samples_per_batch=1)
    stream.push([wavetrain.Sample(URI, [(0, 4)])])
    with pytest.raises(wavetrain.StorageError, match=r"must give a wavetrain\.SourceInfo"):
        stream.pop()


def test_a_sample_that_fails_is_skipped_and_the_cause_is_that_of_its_elements(pipeline):
    def fail(part, start):
        raise ValueError(f"the one at {start[0]}")

    def some(part, start):
        return fail(part, start) if start[0] % 8 == 0 else part

    data = numpy.arange(64, dtype="i4")
    plain = {"sample_shape": (4,), "samples_per_batch": 4, "dtype": "i32"}
    stream = pipeline(source=Given(data, (4,), some), on_error="skip", pad_value=-1, **plain)
    stream.push([wavetrain.Sample(URI, [(at, at + 4)]) for at in (4, 8, 12, 16)])
    batch = stream.pop()
    assert batch.numpy()[:, 0].tolist() == [4, -1, 12, -1]
    assert [status.name for status in batch.info.statuses] == ["OK", "IO", "OK", "IO"]
    stream = pipeline(source=Given(data, (4,), fail), **plain)
    for first in (8, 32, 0):
        stream.push(
            [wavetrain.Sample(URI, [(first + at, first + at + 4)]) for at in range(0, 16, 4)]
        )
        with pytest.raises(wavetrain.StorageError) as caught:
            stream.pop()
        place = int(str(caught.value).partition("elements [")[2].partition("]")[0])
        assert f"(ValueError: the one at {place})" in str(caught.value)
        stream.reset()


def test_many_arrays_are_described_as_often_as_they_must_be(pipeline):
    class Many:
        described = 0

        def describe(self, name):
            self.described += 1
            return SourceInfo((4,), "i32", fill=int(name))

        def read(self, name, start, shape):
            return numpy.full(shape, int(name), "i4")

    many = Many()
    stream = pipeline(
        source=many, sample_shape=(4,), samples_per_batch=100, dtype="i32", n_array_meta_cache=4096
    )
    for _ in range(2):
        stream.push(wavetrain.Sample(f"hook:{number}", [(0, 4)]) for number in range(3000))
        found = numpy.concatenate([batch.numpy()[:, 0].copy() for batch in stream.batches()])
        assert found.tolist() == [*range(3000)]
    assert 3000 <= many.described <= 9000


def test_reads_overlap_and_what_they_gave_is_not_kept(pipeline):
    met, lock, inside, kept = threading.Event(), threading.Lock(), [], []

    class Part(numpy.ndarray):
        pass

    def meet(part, start):
        with lock:
            inside.append(start)
        if len(inside) >= 4:
            met.set()
        assert met.wait(20), "no four reads were in flight at a time"
        part = part.copy().view(Part)
        kept.append(weakref.ref(part))
        return part

    given = Given(DICE.integers(0, 99, (64, 64), "i4"), (8, 64), meet)
    check(pipeline, given, (8, 64), n_io_threads=4)
    gc.collect()
    assert len(kept) >= 4 and all(each() is None for each in kept)


def slow(pipeline):
    begun, go_on = threading.Event(), threading.Event()

    def wait(part, start):
        begun.set()
        assert go_on.wait(20)
        return part

    given = Given(numpy.arange(64, dtype="i4"), (4,), wait)
    stream = pipeline(source=given, sample_shape=(4,), samples_per_batch=4, dtype="i32")
    stream.push([wavetrain.Sample(URI, [(at, at + 4)]) for at in range(0, 64, 4)])
    assert begun.wait(20)
    threading.Timer(0.3, go_on.set).start()
    return stream, go_on


def test_reset_and_close_wait_for_reads_in_flight(pipeline):
    stream, go_on = slow(pipeline)
    stream.reset()
    stream.push([wavetrain.Sample(URI, [(at, at + 4)]) for at in (60, 0, 8, 12)])
    assert stream.pop().numpy()[:, 0].tolist() == [60, 0, 8, 12]
    stream, go_on = slow(pipeline)
    stream.close()
    assert go_on.is_set() and stream._open.handle == 0


def test_the_interpreter_ends_cleanly_with_reads_in_flight():
    program = """
    import sys, time, numpy, wavetrain
    from test_arrays import URI, Given
    given = Given(numpy.zeros((64,), "u1"), (4,), lambda part, _: (time.sleep(0.3), part)[1])
    config = wavetrain.Config(
        samples_per_batch=4, sample_shape=(4,), backend="host", source=given, n_io_threads=2
    )
    stream = wavetrain.Pipeline(config)
    stream.push([wavetrain.Sample(URI, [(at, at + 4)]) for at in range(0, 64, 4)])
    time.sleep(0.5)
    sys.modules["kept"] = stream
    print("end")
    """
    done = run_program(program)
    assert done.stdout == "end\n"
    lines = done.stderr.splitlines()
    assert not lines or lines[-1].startswith("ResourceWarning: unclosed <Pipeline"), lines
    assert len(lines) <= 4, lines


def test_a_config_with_a_source_is_copied_and_sent():
    config = wavetrain.Config(
        samples_per_batch=1, sample_shape=(4,), source=Given(numpy.arange(4), change=None)
    )
    sent = pickle.loads(pickle.dumps(config))
    assert sent.source.data.tolist() == [0, 1, 2, 3]


def test_a_chunk_that_is_larger_than_the_cap_is_fitted(pipeline):
    given = Given(numpy.arange(1 << 12, dtype="i4"), (1 << 12,))
    plain = {"source": given, "sample_shape": (4,), "samples_per_batch": 1, "dtype": "i32"}
    sample = wavetrain.Sample(URI, [(4000, 4004)])
    stream = pipeline(**plain, max_chunk_uncompressed_bytes=1 << 12)
    stream.push([sample])
    with pytest.raises(wavetrain.BudgetExceeded, match="max_chunk_uncompressed_bytes"):
        stream.pop()
    stream = pipeline(**plain, max_chunk_uncompressed_bytes=1 << 12, fit=[URI])
    stream.push([sample])
    assert stream.pop().numpy().tolist() == [[4000, 4001, 4002, 4003]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"shape": 5}, "shape must be a sequence"),
        ({"shape": (-1,)}, r"shape\[0\] must be >= 0"),
        ({"shape": (2**63,)}, r"shape\[0\] must be <="),
        ({"shape": (1,) * 17}, "the number of axes of shape"),
        ({"shape": (4, "4")}, r"shape\[1\] must be a whole number"),
        ({"dtype": ">u2"}, "dtype: unknown"),
        ({"dtype": "text"}, "dtype: unknown"),
        ({"chunk_shape": (0, 4)}, r"chunk_shape\[0\] must be >= 1"),
        ({"chunk_shape": (4,)}, "an extent for each axis of shape, 2"),
        ({"fill": "0"}, "fill must be a number"),
        ({"fill": b"\0\0\0\0"}, "fill must be a number"),
        ({"fill": 0.5}, "fill: a number must be one of i32"),
        ({"fill": 2**31}, "fill: a number must be one of i32"),
        ({"dtype": "bf16", "fill": 1.0001}, "fill must be a number of bfloat16"),
        ({"dtype": "raw"}, "dtype_bytes must be 1 to 16"),
        ({"dtype_bytes": 4}, "dtype_bytes must be 1 to 16 where dtype is RAW"),
        ({"dtype": "raw", "dtype_bytes": 3, "fill": b"12"}, "fill must be 3 bytes"),
    ],
)
def test_descriptions_are_refused_by_name(arguments, said):
    with pytest.raises((TypeError, ValueError), match=said):
        SourceInfo(**{"shape": (8, 8), "dtype": "i32", **arguments})


@pytest.mark.parametrize("fill", [0, 1, -2.0, float("nan"), float("-inf"), 2.0**100, 0.15625])
def test_a_fill_of_bfloat16_is_that_number(pipeline, fill):
    class Empty:
        def describe(self, name):
            return SourceInfo((8,), "bf16", fill=fill)

        def read(self, name, start, shape):
            raise FileNotFoundError

    stream = pipeline(source=Empty(), sample_shape=(8,), samples_per_batch=1, dtype="f32")
    stream.push([wavetrain.Sample("hook:x", [(0, 8)])])
    numpy.testing.assert_array_equal(stream.pop().numpy()[0], [fill] * 8)


@pytest.mark.parametrize("source", [5, "hook", object(), Given, {"describe": 1, "read": 2}])
def test_what_is_no_source_is_refused(source):
    with pytest.raises(TypeError, match=r"^source must have describe\(name\) and read"):
        wavetrain.Config(samples_per_batch=1, sample_shape=(4,), source=source)
