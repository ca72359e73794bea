"""Batches in arrays of the program, and a pipeline in a block of it."""

from __future__ import annotations

import gc
import mmap
import pickle
import threading
import weakref

import ml_dtypes
import numpy
import pytest
from cubes import SIZE, Cube

import wavetrain
from wavetrain import Box, Config, Field, Pipeline, Sample, TryAgain

EDGE = 8


def config(**settings) -> Config:
    own = {"samples_per_batch": 4, "sample_shape": (EDGE,) * 3, "pop_timeout_s": 20}
    return Config(**{**own, "dtype": "u16", "backend": "host", **settings})


def boxes(uri: str, count: int) -> list[Sample]:
    starts = [(number * 3 % (SIZE - EDGE), number % (SIZE - EDGE), 0) for number in range(count)]
    spans = [[(at, at + EDGE) for at in start] for start in starts]
    return [Sample(uri=uri, aabb=span, tag=number) for number, span in enumerate(spans)]


def wanted(samples: list[Sample]) -> numpy.ndarray:
    cut = [Cube.data[tuple(slice(*span) for span in sample.aabb)] for sample in samples]
    return numpy.stack(cut)


def empty(**kind) -> numpy.ndarray:
    return numpy.full((4, EDGE, EDGE, EDGE), 7, **{"dtype": "u2", **kind})


def test_batches_lie_in_what_was_lent_in_its_order_and_then_in_slots(cube):
    samples = boxes(cube, 16)
    with Pipeline(config()) as pipeline:
        ring = [empty(), empty()]
        for array in ring:
            pipeline.lend(array)
        assert pipeline.stats().memories_lent == 2
        pipeline.push(samples)
        for number, batch in enumerate(pipeline.batches()):
            expected = wanted(samples[4 * number : 4 * number + 4])
            if number < 2:
                assert batch.lent is ring[number]
                assert batch.info.device_ptr == ring[number].ctypes.data
                assert (ring[number] == expected).all()
            else:
                assert batch.lent is None
            assert (batch.numpy() == expected).all()
            batch.release()
        del batch
        gc.collect()
        assert pipeline.stats().memories_lent == 0


@pytest.mark.parametrize("slots", [1, 3])
def test_a_ring_is_lent_again_and_again(cube, slots):
    samples = boxes(cube, 80)
    with Pipeline(config(lent_slots=slots)) as pipeline:
        ring = [empty() for _ in range(slots)]
        for array in ring:
            pipeline.lend(array)
        with pytest.raises(TryAgain, match=f"lent_slots = {slots} memories are lent"):
            pipeline.lend(empty())
        pipeline.push(samples)
        for number in range(20):
            batch = pipeline.pop()
            array = batch.lent
            assert array is ring[number % slots]
            assert (array == wanted(samples[4 * number : 4 * number + 4])).all()
            batch.release()
            pipeline.lend(array)


def test_a_pipeline_without_slots_says_that_it_waits_for_memory(cube):
    with Pipeline(config(lent_slots=2, pop_timeout_s=0.05)) as pipeline:
        pipeline.push(boxes(cube, 4))
        with pytest.raises(wavetrain.PoolStarved, match="no memory is lent for the next batch"):
            pipeline.pop()
        pipeline.lend(empty())
        with pipeline.pop() as batch:
            assert batch.lent is not None


def test_memory_is_kept_until_batch_and_tensors_are_gone(cube):
    with Pipeline(config(lent_slots=2)) as pipeline:
        for _ in range(2):
            pipeline.lend(empty())
        pipeline.push(boxes(cube, 8))
        batches = [pipeline.pop(), pipeline.pop()]
        arrays = [weakref.ref(batch.lent) for batch in batches]
        view = numpy.from_dlpack(batches[0])
        for batch in batches:
            batch.release()
        del batches, batch
        gc.collect()
        # That a tensor keeps one of them is all that is known, so both stay.
        assert pipeline.stats().memories_lent == 1
        assert all(array() is not None for array in arrays)
        assert (view == wanted(boxes(cube, 4))).all()
        with pytest.raises(wavetrain.InvalidArgument, match="overlaps memory that is lent"):
            pipeline.lend(arrays[0]())
        del view
        gc.collect()
        pipeline.lend(empty())
        assert [array() for array in arrays] == [None, None]


def test_reset_and_close_let_go_of_what_no_batch_has(cube):
    pipeline = Pipeline(config(lent_slots=3))
    arrays = [empty() for _ in range(3)]
    seen = [weakref.ref(array) for array in arrays]
    for array in arrays:
        pipeline.lend(array)
    pipeline.push(boxes(cube, 4))
    batch = pipeline.pop()
    pipeline.reset()
    assert pipeline.stats().memories_lent == 1
    again = arrays[1]
    pipeline.lend(again)
    del arrays, array
    gc.collect()
    assert [at() is None for at in seen] == [False, False, True]
    view = batch.numpy()
    pipeline.close()
    assert (view == wanted(boxes(cube, 4))).all()
    del again
    gc.collect()
    assert [at() is None for at in seen] == [False, True, True]
    batch.release()
    assert (view == wanted(boxes(cube, 4))).all()
    del batch, view
    for _ in range(100):
        gc.collect()
        if seen[0]() is None:
            break
        threading.Event().wait(0.05)
    assert seen[0]() is None


def test_what_is_no_batch_is_refused_by_name(cube):
    frozen = empty()
    frozen.flags.writeable = False
    cases = [
        (empty(dtype="f4"), TypeError, r"array must have elements of u16 \(got f32\)"),
        (empty()[:3], ValueError, r"array must have the shape of a batch, \(4, 8, 8, 8\)"),
        (numpy.asfortranarray(empty()), ValueError, "array must be row-major, without gaps"),
        (frozen, ValueError, "array must be one that may be written"),
        (bytes(4096), TypeError, "array must be one that may be written"),
        (3, TypeError, "array must be one that may be written"),
    ]
    with Pipeline(config()) as pipeline:
        for given, error, text in cases:
            with pytest.raises(error, match=text):
                pipeline.lend(given)
        with pytest.raises(wavetrain.WavetrainError, match="no event of a device is for"):
            pipeline.lend(empty(), event=16)
        assert pipeline.stats().memories_lent == 0
    with pytest.raises(wavetrain.ShutdownError):
        pipeline.lend(empty())


def test_each_field_has_an_array_of_its_own(cube):
    fields = [Field("x", (EDGE,) * 3, "bf16"), Field("y", (), "i64")]
    own = config(sample_shape=(), dtype="f32", fields=fields, lent_slots=1)
    with Pipeline(own) as pipeline:
        arrays = {"x": empty(dtype=ml_dtypes.bfloat16), "y": numpy.zeros(4, "i8")}
        with pytest.raises(ValueError, match="a dict of an array for each of 'x', 'y'"):
            pipeline.lend(arrays["x"])
        with pytest.raises(TypeError, match="array of 'y' must have elements of i64"):
            pipeline.lend({**arrays, "y": numpy.zeros(4, "i4")})
        pipeline.lend(arrays)
        samples = boxes(cube, 4)
        pipeline.push(
            Sample(boxes=[Box(sample.uri, sample.aabb, "x"), Box(array=number, field="y")])
            for number, sample in enumerate(samples)
        )
        with pipeline.pop() as batch:
            assert batch.lent is arrays
            assert (arrays["y"] == range(4)).all()
            assert (arrays["x"] == wanted(samples).astype(ml_dtypes.bfloat16)).all()


def test_raw_elements_go_to_bytes_or_to_voids(cube):
    samples = boxes(cube, 8)
    with Pipeline(config(dtype="raw", dtype_bytes=2, lent_slots=2)) as pipeline:
        ring = [numpy.zeros((4, EDGE, EDGE, EDGE, 2), "u1"), empty(dtype="V2")]
        for array in ring:
            pipeline.lend(array)
        pipeline.push(samples)
        for number, batch in enumerate(pipeline.batches()):
            expected = wanted(samples[4 * number : 4 * number + 4])
            assert (ring[number].view("u2").reshape(expected.shape) == expected).all()
            batch.release()


def test_threads_lend_pop_and_release(cube):
    samples, turns, ends = boxes(cube, 400), threading.Lock(), []
    with Pipeline(config(lent_slots=4)) as pipeline:
        for _ in range(4):
            pipeline.lend(empty())
        pipeline.push(samples)

        def work() -> None:
            while True:
                with turns:
                    if len(ends) == 100:
                        return
                    batch = pipeline.pop()
                    ends.append(batch.batch_id)
                array, first = batch.lent, 4 * batch.batch_id
                assert (array == wanted(samples[first : first + 4])).all()
                batch.release()
                pipeline.lend(array)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ends == [*range(100)]


def test_a_pipeline_lives_in_a_block_of_the_program(cube):
    samples = boxes(cube, 8)
    block = mmap.mmap(-1, 64 << 20)
    memory = config(memory=block, max_chunk_uncompressed_bytes=1 << 20)
    with Pipeline(memory) as pipeline:
        assert pipeline.stats().host_bytes_committed <= 64 << 20
        begin = numpy.frombuffer(block, "u1").ctypes.data
        pipeline.push(samples)
        batch = pipeline.pop()
        assert begin <= batch.info.device_ptr < begin + (64 << 20)
        view = batch.numpy()
        assert (view == wanted(samples[:4])).all()
        with pytest.raises(ValueError, match="memory is that of another pipeline"):
            Pipeline(memory)
    # What was made of the batch keeps it.
    batch.release()
    with pytest.raises(ValueError, match="memory is that of another pipeline"):
        Pipeline(memory)
    with pytest.raises(BufferError):
        block.close()
    assert (view == wanted(samples[:4])).all()
    del batch, view
    for _ in range(100):
        gc.collect()
        try:
            Pipeline(memory).close()
            break
        except ValueError:
            threading.Event().wait(0.05)
    else:
        pytest.fail("the block is still in use")


def test_a_block_that_will_not_do_is_refused(cube):
    small = numpy.zeros(1 << 20, "u1")
    with pytest.raises(wavetrain.BudgetExceeded, match="needs at least"):
        Pipeline(config(memory=small))
    with pytest.raises(ValueError, match="memory must be without gaps"):
        Pipeline(config(memory=numpy.zeros((1 << 12, 1 << 10), "u1")[:, ::2]))
    with pytest.raises(TypeError, match="memory must be one that may be written"):
        Pipeline(config(memory=bytes(1 << 20)))
    assert config(memory=small) == config()
    assert " memory=" not in repr(config(memory=small))
    assert (pickle.loads(pickle.dumps(config(memory=small))).memory == small).all()
