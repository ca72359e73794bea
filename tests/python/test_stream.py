"""The stream: samples go in, batches come out.

Over 500 lines: the life of a pipeline from open to the end of its process, on one array.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import os
import re
import sys
import textwrap
import threading
import warnings

import numpy
import pytest
from cubes import EDGE, config, run_program, write_cube

import wavetrain


def tags(batch):
    with batch:
        return list(batch.info.tags)


def starves(pipeline):
    limit = pipeline._config.pop_timeout_s
    pipeline._config = dataclasses.replace(pipeline._config, pop_timeout_s=0.05)
    with pytest.raises(wavetrain.PoolStarved) as caught:
        pipeline.pop()
    pipeline._config = dataclasses.replace(pipeline._config, pop_timeout_s=limit)
    return caught.value


def test_every_voxel_arrives_in_the_order_of_the_pushes(cube, pipeline):
    stream = pipeline()
    stream.push(cube.sample(number) for number in range(24))
    for first, batch in zip(range(0, 24, 4), stream.batches(6)):
        with batch:
            info = batch.info
            assert info.tags == tuple(range(first, first + 4))
            assert info.shape == (4, EDGE, EDGE, EDGE) and info.dtype is wavetrain.Dtype.F32
            assert info.statuses == (wavetrain.Status.OK,) * 4 and info.batch_id == first // 4
            assert (info.device, info.backend) == (-1, wavetrain.Backend.HOST)
            assert (info.ready_stream, info.bytes) == (0, 4 * EDGE**3 * 4)
            numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*info.tags))


def test_zarr_v2_arrives_too(cube, pipeline, tmp_path):
    write_cube(tmp_path / "v2", cube.data[:16, :16, :16], zarr_format=2, shards=None)
    stream = pipeline(samples_per_batch=1, sample_shape=(16, 16, 16), fit=[tmp_path / "v2"])
    stream.push([wavetrain.Sample(tmp_path / "v2", numpy.s_[:16, :16, :16])])
    numpy.testing.assert_array_equal(stream.pop().numpy()[0], cube.data[:16, :16, :16])


def test_an_endless_generator_is_pulled_lazily(cube, pipeline):
    pulled = []

    def endless():
        for number in itertools.count():
            pulled.append(number)
            yield cube.sample(number)

    stream = pipeline(lookahead_samples=8, n_batch_slots=1)
    stream.push(endless())
    assert stream.pending
    for batch in stream.batches(50):
        with batch:
            numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*batch.info.tags))
    # 200 were popped; ahead of them: the lookahead, a batch, and what one pull takes.
    assert 200 <= len(pulled) <= 200 + 8 + 4 + 64


def test_pushed_iterables_follow_each_other(cube, pipeline):
    stream = pipeline(samples_per_batch=1, lookahead_samples=1)
    stream.push(cube.samples(0, 100))
    stream.push(cube.sample(number) for number in range(100, 103))
    stream.push(iter(()))
    stream.push(map(cube.sample, [103]))
    assert [tags(batch) for batch in stream.batches()] == [[number] for number in range(104)]
    assert not stream.pending


def test_an_iterable_that_raises_ends_and_nothing_else(cube, pipeline):
    def failing():
        yield cube.sample(2)
        raise KeyError("the dataset")

    stream = pipeline(samples_per_batch=1)
    stream.push(cube.samples(2))
    with pytest.raises(KeyError, match="the dataset"):
        stream.push(failing())
    assert [tags(batch) for batch in stream.batches(3)] == [[0], [1], [2]]
    assert not stream.pending
    stream.push([cube.sample(3)])
    assert [tags(batch) for batch in stream.batches()] == [[3]]


def test_an_iterable_that_raises_far_ahead_raises_where_it_is_pulled(cube, pipeline):
    def failing():
        yield from cube.samples(100)
        raise KeyError("far ahead")

    stream = pipeline(samples_per_batch=1, lookahead_samples=1)
    stream.push(failing())
    stream.push(cube.samples(100, 102))
    seen, raised = [], 0
    while len(seen) < 102:
        try:
            seen += tags(stream.pop())
        except KeyError:
            raised += 1
    assert seen == list(range(102)) and raised == 1


def test_a_generator_that_pushes_is_an_error_and_not_a_hang(cube, pipeline):
    stream = pipeline(samples_per_batch=1)

    def inward():
        yield cube.sample(0)
        stream.push(cube.samples(1, 2))

    with pytest.raises(ValueError, match="already executing"):
        stream.push(inward())
    stream.reset()
    stream.push([cube.sample(5)])
    assert tags(stream.pop()) == [5]


def test_pop_starves_after_its_timeout_and_then_gives_the_same_batch(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(3))
    error = starves(stream)
    assert error.status is wavetrain.Status.STARVED and error.what == "pop"
    assert "sample" in str(error)
    stream.push([cube.sample(3)])
    assert tags(stream.pop()) == [0, 1, 2, 3]


def test_pop_without_a_timeout_waits(cube, pipeline):
    stream = pipeline(pop_timeout_s=None)
    pusher = threading.Timer(0.3, lambda: stream.push(cube.samples(4)))
    pusher.start()
    assert tags(stream.pop()) == [0, 1, 2, 3]
    pusher.join()


def test_held_batches_starve_and_the_text_says_so(cube, pipeline):
    stream = pipeline(n_batch_slots=2)
    stream.push(cube.samples(16))
    held = [stream.pop(), stream.pop()]
    assert "held" in str(starves(stream))
    held.pop().release()
    assert tags(stream.pop()) == [8, 9, 10, 11]


def test_batches_end_with_the_samples_and_the_last_may_be_smaller(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(10))
    assert [tags(batch) for batch in stream.batches()] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(wavetrain.EndOfStream):
        stream.pop()
    stream.push(cube.samples(4))
    assert tags(stream.pop()) == [0, 1, 2, 3]


def test_drop_last_drops_what_is_no_batch(cube, pipeline):
    stream = pipeline(drop_last=True)
    stream.push(cube.samples(10))
    assert [tags(batch) for batch in stream.batches()] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_flush_stands_behind_what_was_pushed_before_it(cube, pipeline):
    stream = pipeline(lookahead_samples=4)
    stream.push(cube.samples(102))
    stream.flush()
    stream.push(cube.samples(102, 104))
    stream.flush()
    sizes, ends = [], 0
    while ends < 2:
        try:
            sizes.append(len(tags(stream.pop())))
        except wavetrain.EndOfStream:
            ends += 1
    # A push behind a flush may take back the end that it caused, not the smaller batch.
    assert sum(sizes) == 104 and 2 in sizes and set(sizes) == {2, 4}


def test_reset_drops_all_that_is_not_popped(cube, pipeline):
    stream = pipeline()
    stream.push(cube.sample(number) for number in itertools.count())
    held = stream.pop()
    stream.reset()
    assert not stream.pending
    numpy.testing.assert_array_equal(held.numpy(), cube.holds(0, 1, 2, 3))
    held.release()
    stream.push(cube.samples(10, 14))
    with stream.pop() as batch:
        assert batch.info.tags == (10, 11, 12, 13) and batch.info.batch_id == 0


def test_reset_drops_a_batch_that_an_interrupt_left(cube, pipeline):
    stream = pipeline(n_batch_slots=1)
    stream.push(cube.samples(4))
    stream._orphans.append(stream.pop())  # as an interrupt in pop does
    stream.reset()
    stream.push(cube.samples(4, 8))
    assert tags(stream.pop()) == [4, 5, 6, 7]


def test_a_batch_that_an_interrupt_left_is_given_by_the_next_pop(cube, pipeline):
    stream = pipeline(n_batch_slots=1)
    stream.push(cube.samples(8))
    stream._orphans.append(stream.pop())
    assert tags(stream.pop()) == [0, 1, 2, 3]
    assert tags(stream.pop()) == [4, 5, 6, 7]
    stream.push(cube.samples(4))
    stream._orphans.append(stream.pop())
    stream.close()
    assert not stream._orphans


def test_threads_that_pop_get_different_batches(cube, pipeline):
    stream = pipeline(samples_per_batch=1, pop_timeout_s=30)
    stream.push(map(cube.sample, range(300)))
    stream.flush()
    seen, lock = [], threading.Lock()

    def consume():
        try:
            while True:
                with stream.pop() as batch:
                    number = batch.info.tags[0]
                    numpy.testing.assert_array_equal(batch.numpy(), cube.holds(number))
                    with lock:
                        seen.append(number)
        except wavetrain.EndOfStream:
            pass

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(300))


def test_threads_that_push_lose_nothing(cube, pipeline):
    stream = pipeline(samples_per_batch=1, lookahead_samples=2)
    threads = [
        threading.Thread(target=stream.push, args=(cube.samples(at, at + 50),))
        for at in range(0, 200, 50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [tags(batch)[0] for batch in stream.batches(200)]
    assert sorted(seen) == list(range(200))
    for at in range(0, 200, 50):  # those of a push stay in order
        own = [number for number in seen if at <= number < at + 50]
        assert own == sorted(own)


def test_close_ends_a_pop_that_waits_on_another_thread(pipeline):
    stream = pipeline(pop_timeout_s=None)
    caught, begun = [], threading.Event()

    def wait():
        begun.set()
        try:
            stream.pop()
        except wavetrain.WavetrainError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    threading.Event().wait(0.2)
    stream.close()
    thread.join(10)
    assert not thread.is_alive()
    assert type(caught[0]) is wavetrain.ShutdownError and "closed" in str(caught[0])


def test_close_amid_a_push_on_another_thread_is_shutdown_there(cube, pipeline):
    stream = pipeline(samples_per_batch=1)
    pulling, go_on = threading.Event(), threading.Event()
    caught = []

    def slow(last):
        yield cube.sample(0)
        pulling.set()
        go_on.wait()
        if last is not None:
            yield last

    def push(last):
        try:
            stream.push(slow(last))
        except BaseException as error:
            caught.append(error)

    for last in (cube.sample(1), None):
        stream = pipeline(samples_per_batch=1)
        pulling.clear(), go_on.clear(), caught.clear()
        thread = threading.Thread(target=push, args=(last,))
        thread.start()
        pulling.wait()
        stream.close()
        go_on.set()
        thread.join()
        assert [type(error) for error in caught] == [wavetrain.ShutdownError], caught
        assert "closed" in str(caught[0]) and not stream.pending


def test_close_twice_and_from_two_threads_is_one_close(cube, pipeline):
    for _ in range(20):
        stream = pipeline()
        stream.push(cube.samples(8))
        threads = [threading.Thread(target=stream.close) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream.close()
        assert repr(stream) == "<Pipeline, closed>"


def test_every_call_on_a_closed_pipeline_is_shutdown(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(4))
    batch = stream.pop()
    stream.close()
    for call in (
        stream.pop,
        stream.flush,
        stream.reset,
        stream.stats,
        stream.stats_reset,
        lambda: stream.push([]),
        lambda: next(stream.batches()),
        lambda: next(stream.batches(1)),
    ):
        with pytest.raises(wavetrain.ShutdownError, match="closed: open another"):
            call()
    assert batch.info.tags == (0, 1, 2, 3)  # it keeps what it is until its release
    batch.release()
    stream.close()  # nothing keeps the memory now
    with pytest.raises(wavetrain.ShutdownError, match="open another"):
        batch.info  # noqa: B018


def test_an_unclosed_pipeline_warns_and_is_closed(cube):
    stream = wavetrain.Pipeline(config())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del stream
        gc.collect()
    assert [each.category for each in caught] == [ResourceWarning]
    assert str(caught[0].message).startswith("unclosed <Pipeline of 4 x 8 x 8 x 8 f32")


def test_an_unclosed_pipeline_is_closed_also_where_warnings_are_errors(cube, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: raised.append(told.exc_type))
    stream = wavetrain.Pipeline(config())
    loader = stream._open
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del stream
        gc.collect()
    assert raised == [ResourceWarning] and loader.handle == 0


def test_a_pipeline_that_did_not_open_does_not_warn():
    with pytest.raises(wavetrain.BudgetExceeded):
        wavetrain.Pipeline(config(max_host_memory_bytes=1))
    with pytest.raises(TypeError, match=r"config must be a wavetrain\.Config"):
        wavetrain.Pipeline({"samples_per_batch": 1})
    gc.collect()


def test_threads_are_on_the_cpus_that_the_config_names():
    cpu = min(os.sched_getaffinity(0))
    with wavetrain.Pipeline(config(cpus=[cpu], n_decode_threads=0)) as stream:
        assert "decode 1 threads: 1 CPUs in cpus" in stream.stats().placement_text
    with pytest.raises(wavetrain.InvalidArgument, match=r"CPU 8191 is not online"):
        wavetrain.Pipeline(config(cpus=[cpu, 8191]))


def test_stats_count_what_happened(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(8))
    for batch in stream.batches(2):
        batch.release()
    stats = stream.stats()
    assert (stats.samples_pushed, stats.batches_emitted, stats.samples_failed) == (8, 2, 0)
    assert stats.io.count > 0 and stats.io.input_bytes > 0 and stats.decode.output_bytes > 0
    assert 0 < stats.decode.best_ms <= stats.decode.ms / stats.decode.count
    assert sum(stats.decode.histogram) == stats.decode.count
    assert stats.chunks_decoded["zstd"] == stats.decode.count
    assert stats.backend is wavetrain.Backend.HOST and "host" in stats.backend_text
    assert " threads: " in stats.placement_text
    text = str(stats)
    assert text.startswith("Stats:\n  plan ") and "samples_pushed           8" in text
    assert repr(stats).startswith("<Stats of 8 samples: 2 batches in host memory, ")
    limited = dataclasses.replace(stats, limit_text="slots: all 3 are held: release them sooner")
    assert repr(limited).endswith(" decoded, limit: slots>") and "\n" not in repr(limited)
    stream.stats_reset()
    stats = stream.stats()
    assert stats.decode.count == 0 and stats.decode.best_ms == 1e30


def test_reprs_say_what_a_thing_is(cube, pipeline):
    stream = pipeline()
    assert repr(stream) == "<Pipeline of 4 x 8 x 8 x 8 f32, host: asked for by the config>"
    with wavetrain.Pipeline(config(backend="auto", cuda_driver="/none/libcuda.so.1")) as chosen:
        assert repr(chosen) == "<Pipeline of 4 x 8 x 8 x 8 f32, host: auto>"
        assert "/none/libcuda.so.1" in chosen.stats().backend_text
    stream.push(cube.samples(4))
    batch = stream.pop()
    assert repr(batch) == "<Batch 0: 4 x 8 x 8 x 8 f32 in host memory>"
    batch.release()
    assert repr(batch) == "<Batch, released>"


def test_batches_takes_a_count_and_nothing_else(pipeline):
    stream = pipeline()
    assert list(stream.batches(0)) == []
    for wrong, kind in ((-1, ValueError), (1.5, TypeError), ("2", TypeError), (2**63, ValueError)):
        with pytest.raises(kind, match=r"^n must be"):
            next(stream.batches(wrong))


def test_on_error_skip_gives_pad_value_and_the_status(cube, pipeline):
    stream = pipeline(on_error="skip", pad_value=-3, samples_per_batch=2)
    stream.push([cube.sample(0), wavetrain.Sample(cube + "-missing", [(0, EDGE)] * 3)])
    with stream.pop() as batch:
        assert batch.info.statuses == (wavetrain.Status.OK, wavetrain.Status.NOT_FOUND)
        numpy.testing.assert_array_equal(batch.numpy()[0], cube.holds(0)[0])
        assert (batch.numpy()[1] == -3).all()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_a_box_outside_reads_as_numpy_pads(cube, pipeline, mode):
    sides = {"constant": {"constant_values": 42}}.get(mode, {})
    expected = numpy.pad(cube.data, 3, mode, **sides)[:EDGE, 5 : 5 + EDGE, -EDGE:]
    stream = pipeline(pad_mode=mode, samples_per_batch=1)
    stream.push([wavetrain.Sample(cube, [(-3, 5), (2, 10), (59, 67)])])
    numpy.testing.assert_array_equal(stream.pop().numpy()[0], expected)


def test_a_chunk_cache_gives_the_same_data(cube, pipeline):
    stream = pipeline(chunk_cache_bytes=4 << 20)
    for _ in range(2):
        stream.push(cube.samples(16))
        for batch in stream.batches():
            with batch:
                numpy.testing.assert_array_equal(batch.numpy(), cube.holds(*batch.info.tags))
    assert stream.stats().chunk_cache_hits > 0


def test_more_than_64_open_pipelines_are_out_of_memory_and_closing_frees_them(cube, pipeline):
    small = {
        "samples_per_batch": 1,
        "sample_shape": (1, 1, 1),
        "n_io_threads": 1,
        "n_decode_threads": 1,
        "max_host_memory_bytes": 8 << 20,
        "max_chunk_uncompressed_bytes": 1 << 16,
        "max_read_op_bytes": 1 << 16,
        "n_array_meta_cache": 1,
        "n_shard_index_cache": 1,
        "n_chunk_layout_cache": 1,
        "max_chunks_per_wave": 8,
        "metadata_io_concurrency": 1,
    }
    streams = []
    with pytest.raises(wavetrain.OutOfMemory, match="64") as caught:
        for _ in range(65):
            streams.append(pipeline(**small))
    assert caught.value.what == "open" and len(streams) == 64
    streams.pop().close()
    again = pipeline(**small)
    again.push([wavetrain.Sample(cube, [(0, 1)] * 3)])
    assert again.pop().numpy().item() == cube.data[0, 0, 0]


PRELUDE = """
import sys, numpy, wavetrain
from cubes import Cube, config
cube = Cube(sys.argv[1])
stream = wavetrain.Pipeline(config())
stream.push(cube.samples(40))
"""


# What close says where memory stays in use.
KEPT = re.compile(r"close: batches not released: \d+, tensors not deleted: \d+; .*\n")


def test_the_interpreter_ends_cleanly_with_an_open_pipeline(cube):
    done = run_program(PRELUDE + "batch = stream.pop()\nprint('end')", cube)
    assert done.stdout == "end\n"
    # The one thing that is meant is said as Python says it of files.
    complaint = KEPT.sub("", done.stderr)
    assert complaint.startswith("Exception ignored in: <function Opened.__del__"), complaint
    assert re.fullmatch(r"(?s).*\nResourceWarning: unclosed <Pipeline of [^\n]*>\n", complaint)


def test_the_interpreter_ends_cleanly_with_live_tensors(cube):
    program = """
    batch = stream.pop()
    views = [numpy.from_dlpack(batch), batch.numpy(), batch.buffer()]
    capsule = batch.__dlpack__(max_version=(1, 0))
    batch.release()
    other = stream.pop()
    stream.close()
    print("end")
    """
    done = run_program(PRELUDE + textwrap.dedent(program), cube)
    assert (done.stdout, KEPT.sub("", done.stderr)) == ("end\n", "")


def test_the_interpreter_ends_cleanly_where_a_cycle_keeps_all(cube):
    program = """
    batch = stream.pop()
    ring = [batch, batch.numpy(), stream]
    ring.append(ring)
    sys.modules["ring"] = ring
    stream.close()
    """
    done = run_program(PRELUDE + textwrap.dedent(program), cube)
    assert KEPT.sub("", done.stderr) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_told_and_the_parent_goes_on(cube):
    program = """
    import os, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # of fork, where there are threads
    held = stream.pop()
    view = held.numpy()
    child = os.fork()
    if child == 0:
        seen = []
        for call in (stream.pop, stream.stats, stream.flush, stream.reset,
                     lambda: stream.push(cube.samples(1)), lambda: held.info):
            try:
                call()
            except wavetrain.ShutdownError as error:
                seen.append("fork" in str(error))
        stream.close()
        with wavetrain.Pipeline(config()) as own:  # the child may have its own
            own.push(cube.samples(4))
            with own.pop() as batch:
                seen.append(batch.numpy().tolist() == cube.holds(0, 1, 2, 3).tolist())
        print(seen, flush=True)
        del view, held
        sys.exit(0)
    print(os.waitpid(child, 0)[1] >> 8)
    assert (view == cube.holds(0, 1, 2, 3)).all()
    held.release()
    for batch in stream.batches(9):
        with batch:
            assert (batch.numpy() == cube.holds(*batch.info.tags)).all()
    stream.close()
    """
    done = run_program(PRELUDE + textwrap.dedent(program), cube)
    assert done.stdout == f"{[True] * 7}\n0\n"
    assert KEPT.sub("", done.stderr) == ""


def test_forked_workers_of_multiprocessing_open_their_own(cube):
    if sys.platform != "linux":
        pytest.skip("workers are not forked here")
    program = """
    import multiprocessing, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    def work(number):
        with wavetrain.Pipeline(config(samples_per_batch=1)) as own:
            own.push([cube.sample(number)])
            return own.pop().numpy().sum().item()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        sums = pool.map(work, range(6))
    assert sums == [cube.holds(number).sum().item() for number in range(6)], sums
    stream.close()
    """
    assert run_program(PRELUDE + textwrap.dedent(program), cube).stderr == ""
