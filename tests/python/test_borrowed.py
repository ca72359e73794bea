"""What is borrowed for a sample lives until its batch is popped, and no longer."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest
from cubes import config, run_program
from devices import Gpu
from test_fed import LARGE, Array, fields, large

import wavetrain
from wavetrain import Box, Field, Sample


def watched(count: int, **named):
    """Samples of an array each, and a list that tells which of those are alive."""
    arrays = [large(number) for number in range(count)]
    references = [weakref.ref(each) for each in arrays]
    samples = [Sample(boxes=[Box(each, field="a")], tag=n) for n, each in enumerate(arrays)]

    def alive():
        return [number for number, reference in enumerate(references) if reference() is not None]

    return samples, alive


def drained(samples):
    while samples:
        yield samples.pop(0)


TABLE = Field("a", LARGE.shape, "i32")


def test_an_array_lives_until_its_batch_is_popped(pipeline):
    stream = pipeline(samples_per_batch=2, **fields(TABLE))
    samples, alive = watched(6)
    stream.push(samples)
    del samples
    for first in (0, 2, 4):
        assert alive() == [*range(first, 6)]
        with stream.pop() as batch:
            numpy.testing.assert_array_equal(batch.numpy(), [LARGE + first, LARGE + first + 1])
            assert alive() == [*range(first + 2, 6)]


def test_it_does_so_with_short_batches_and_mixed_samples(pipeline):
    stream = pipeline(samples_per_batch=4, **fields(TABLE, lookahead_samples=64))
    samples, alive = watched(12)
    few = [Sample(boxes=[Box(0, field="a")])]
    for part in (samples[:3], few * 5 + samples[3:4], samples[4:8], few * 4, samples[8:]):
        stream.push(part)
        stream.flush()
        stream.flush()
    del samples, part
    left = []
    while True:
        try:
            stream.pop().release()
        except wavetrain.EndOfStream:
            break
        left.append(12 - len(alive()))
    assert left == [3, 3, 4, 8, 8, 12]


def test_it_does_so_where_batches_that_are_not_full_are_dropped(pipeline):
    stream = pipeline(samples_per_batch=4, **fields(TABLE, drop_last=True, lookahead_samples=64))
    samples, alive = watched(13)
    for part in (samples[:6], samples[6:7], samples[7:12]):
        stream.push(part)
        stream.flush()
    del samples, part
    assert alive() == [*range(12)]
    stream.pop().release()
    assert alive() == [*range(4, 12)]
    stream.pop().release()
    assert alive() == [11]
    stream.reset()
    assert alive() == []


@pytest.mark.parametrize("way", ["reset", "close", "abandon"])
def test_what_is_not_popped_goes_with_the_stream(way, pipeline):
    stream = pipeline(samples_per_batch=2, **fields(TABLE, lookahead_samples=4))
    samples, alive = watched(200)
    stream.push(drained(samples))
    del samples
    stream.pop().release()
    assert alive() == [*range(2, 200)]
    if way == "abandon":
        other = wavetrain.Pipeline(stream.config)
        other.push(watched(2)[0])
        with pytest.warns(ResourceWarning, match="unclosed"):
            del other
            gc.collect()
        stream.close()
    else:
        getattr(stream, way)()
    assert alive() == [] and not stream._window.held
    assert way != "reset" or (stream.push(watched(2)[0]), stream.pop().info.tags)[1] == (0, 1)


def test_a_held_batch_keeps_nothing_that_a_closed_pipeline_borrowed():
    stream = wavetrain.Pipeline(config(samples_per_batch=2, **fields(TABLE)))
    samples, alive = watched(4)
    stream.push(samples)
    del samples
    kept = stream.pop().numpy()
    stream.close()
    assert alive() == []
    numpy.testing.assert_array_equal(kept[1], LARGE + 1)


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_errors_keep_and_free_it_too(on_error, pipeline):
    stream = pipeline(
        samples_per_batch=2, **fields(TABLE, max_boxes_per_sample=2, on_error=on_error)
    )
    samples, alive = watched(6)
    shape = [(0, extent) for extent in LARGE.shape]
    samples[2] = Sample(boxes=[Box("/nowhere.zarr", shape, "a")])
    stream.push(samples)
    del samples
    stream.pop().release()
    if on_error == "skip":
        with stream.pop() as batch:
            assert batch.info.statuses[0] is wavetrain.Status.NOT_FOUND
            numpy.testing.assert_array_equal(batch.numpy()[1], LARGE + 3)
        assert alive() == [4, 5]
        return
    for _ in range(2):
        with pytest.raises(wavetrain.NotFound):
            stream.pop()
    assert alive() == [3, 4, 5]
    stream.reset()
    assert alive() == []


def test_a_sample_that_is_refused_is_not_kept_and_those_before_it_are(pipeline):
    stream = pipeline(samples_per_batch=2, **fields(TABLE))
    samples, alive = watched(4)
    samples[2] = Sample(boxes=[Box(large()[:3], [(2, 9), (0, 6), (0, 7)], field="a")])
    with pytest.raises(wavetrain.InvalidArgument):
        stream.push(samples)
    del samples
    gc.collect()
    assert alive() == [0, 1]
    stream.push(watched(2)[0])
    for first in (0, 0):
        with stream.pop() as batch:
            numpy.testing.assert_array_equal(batch.numpy(), [LARGE + first, LARGE + first + 1])
    assert alive() == [] and not stream._window.held


def test_few_elements_are_copied_and_nothing_is_kept(pipeline):
    stream = pipeline(samples_per_batch=1, **fields(Field("a", (16,), "i32")))
    few = numpy.arange(16, dtype="i4").view(Array)
    reference, box = weakref.ref(few), Box(few, field="a")
    few[:] = 0
    del few
    assert reference() is None
    stream.push([Sample(boxes=[box])])
    assert stream.pop().numpy()[0].tolist() == [*range(16)]


def test_a_buffer_may_be_resized_when_its_batch_is_popped(pipeline):
    memory = bytearray(range(200))
    stream = pipeline(samples_per_batch=1, **fields(Field("a", (200,), "u8")))
    stream.push([Sample(boxes=[Box(memory, field="a")])])
    with pytest.raises(BufferError):
        memory.append(1)
    assert stream.pop().numpy()[0].tolist() == [*range(200)]
    memory.append(1)


def test_a_tensor_of_torch_is_let_go(pipeline):
    torch = pytest.importorskip("torch", reason="there is no torch here")
    owner = large()
    reference, tensor = weakref.ref(owner), torch.from_numpy(owner)
    stream = pipeline(samples_per_batch=1, **fields(TABLE))
    stream.push([Sample(boxes=[Box(tensor, field="a")])])
    del owner, tensor
    gc.collect()
    assert reference() is not None
    numpy.testing.assert_array_equal(stream.pop().numpy()[0], LARGE)
    gc.collect()
    assert reference() is None


def test_on_the_way_to_a_device_it_lives_as_long(simulated_driver):
    gpu = Gpu(simulated_driver)
    table = Field("a", LARGE.shape, "f32")
    with gpu.pipeline(samples_per_batch=2, **fields(table, lookahead_samples=4)) as stream:
        samples, alive = watched(8)
        stream.push(drained(samples))
        for first in (0, 2, 4, 6):
            batch = stream.pop()
            assert alive() == [*range(first + 2, 8)]
            wanted = [LARGE + first, LARGE + first + 1]
            numpy.testing.assert_array_equal(gpu.values(batch), wanted)
            batch.release()
    gpu.found_nothing()


def test_many_interrupts_keep_what_is_borrowed_until_it_is_read():
    program = """
        import contextlib, gc, weakref
        import numpy, wavetrain
        from cubes import Interrupts, config
        from wavetrain import Box, Field, Sample
        alive = []
        class Array(numpy.ndarray):
            def __del__(self):
                self[...] = -1  # whoever reads it now is told
        class Numbers:
            number = 0
            def __iter__(self):
                return self
            def __next__(self):
                given = numpy.full(1000, self.number, "i4").view(Array)
                alive.append(weakref.ref(given))
                sample = Sample(boxes=[Box(given, field="a")], tag=self.number)
                self.number += 1
                return sample
        cfg = config(samples_per_batch=3, sample_shape=(), fields=[Field("a", (1000,), "i32")],
                     lookahead_samples=100)
        with wavetrain.Pipeline(cfg) as stream:
            numbers = Numbers()
            interrupts, popped = Interrupts(4, 0.002), 0
            def pop():
                if not stream.pending:
                    stream.push(numbers)
                with stream.pop() as batch:
                    found = batch.numpy()
                    assert (found == numpy.array(batch.info.tags)[:, None]).all(), found
            while interrupts.go_on():
                with contextlib.suppress(KeyboardInterrupt):
                    interrupts.is_armed = True
                    with contextlib.suppress(wavetrain.TryAgain):
                        pop()
                        popped += 1
                    interrupts.is_armed = False
            assert interrupts.heard > 10 and popped > 10, (interrupts.heard, popped)
            stream.reset()
            gc.collect()
            left = [reference() for reference in alive if reference() is not None]
            assert len(left) <= 1, len(left)
    """
    run_program(program, timeout=60)
