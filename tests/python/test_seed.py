"""Programs written for the loader whose interface this package has run as they are, but for the
import line: `import wavetrain as damacy`."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import inspect
import logging
import re
import types
from pathlib import Path

import numpy
import pytest
from cubes import EDGE, config
from devices import Gpu, TorchEvent, TorchStream

import wavetrain as damacy
from wavetrain.source import Source

DOCTESTS = """
>>> a = Sample(uri="cell.zarr", aabb=[(0, 64), (0, 256), (0, 256)])
>>> b = Sample(
...     uri="cell.zarr",
...     aabb=[slice(0, 64), slice(0, 256), slice(0, 256)],
... )
>>> c = Sample(
...     uri="cell.zarr",
...     aabb=[slice(None, 64), slice(None, 256), slice(None, 256)],
... )
>>> a == b == c
True
>>> hash(a) == hash(b) == hash(c)
True
>>> a.aabb
((0, 64), (0, 256), (0, 256))

>>> Sample(uri="cell.zarr", aabb=[64, 256, 256])
Traceback (most recent call last):
    ...
TypeError: aabb axis 0: expected slice or (start, stop) tuple; got int

>>> Sample(uri="cell.zarr", aabb=[slice(0, 64, 2), slice(0, 256), slice(0, 256)])
Traceback (most recent call last):
    ...
ValueError: aabb axis 0: slice step must be 1 or omitted (got step=2)
>>> Sample(uri="cell.zarr", aabb=[slice(0, None), slice(0, 256), slice(0, 256)])
Traceback (most recent call last):
    ...
ValueError: aabb axis 0: slice stop is required (got slice(0, None, None))

>>> Dtype.coerce("f32") is Dtype.F32
True
>>> Dtype.coerce("BFloat16") is Dtype.BF16
True
>>> Dtype.coerce(Dtype.F32) is Dtype.F32
True
>>> Dtype.coerce("nope")
Traceback (most recent call last):
    ...
ValueError: unknown dtype: 'nope'
"""

# Every field by its name, at the seed's values or within its limits.
FIELDS = {
    "samples_per_batch": 8,
    "sample_shape": (EDGE,) * 3,
    "max_gpu_memory_bytes": 1 << 30,
    "dtype": "float32",
    "lookahead_samples": None,
    "max_chunk_uncompressed_bytes": 512 << 10,
    "max_read_op_bytes": 1 << 20,
    "host_buffer_waves": 4,
    "max_chunks_per_wave": 256,
    "max_substreams_per_chunk": 64,
    "n_io_threads": 4,
    "metadata_io_concurrency": 16,
    "n_array_meta_cache": 64,
    "n_shard_index_cache": 256,
    "n_chunk_layout_cache": 64,
    "max_shards_per_sample": 27,
    "device": None,
    "pop_timeout_s": 30.0,
    "enable_gds": False,
    "numa_strategy": damacy.NumaStrategy.AUTO,
    "numa_node": -1,
    "metadata_latency": None,
}


def run_doctests(text: str, names: dict) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, "doctests", None, 0)
    result = doctest.DocTestRunner().run(test)
    assert result.attempted > 0 and result.failed == 0


@pytest.fixture
def samples(cube):
    return cube.samples(64)


@pytest.fixture
def cfg():
    return damacy.Config(**FIELDS)


def test_the_doctests_of_sample_and_dtype():
    run_doctests(DOCTESTS, vars(damacy).copy())


@pytest.mark.parametrize("module", ["_sample", "_config", "_border", "_batch", "_pipeline"])
def test_the_doctests_of_the_package(module):
    result = doctest.testmod(vars(damacy)[module])
    assert result.failed == 0


def test_a_pipeline_of_a_config_is_a_context(cfg, samples):
    with damacy.Pipeline(cfg) as p:
        assert p.config is cfg and p.device in (-1, 0)
        p.push(samples)
        assert isinstance(p.pop(), damacy.Batch)


def test_batches_are_contexts_that_torch_takes(cfg, cube, samples):
    torch = pytest.importorskip("torch", reason="there is no torch here")
    total = 0
    with damacy.Pipeline(dataclasses.replace(cfg, max_gpu_memory_bytes=1 << 28)) as d:
        d.push(samples)
        for batch in d.batches(8):
            with batch as t:
                x = torch.from_dlpack(t)
                total += x.sum(dtype=torch.float64).item()
            del x
    assert total == cube.holds(*range(64)).sum()


def test_pop_is_a_context_that_torch_takes(cfg, cube, samples):
    torch = pytest.importorskip("torch", reason="there is no torch here")
    with damacy.Pipeline(cfg) as d:
        d.push(samples)
        with d.pop() as batch:
            x = torch.from_dlpack(batch)
        numpy.testing.assert_array_equal(x.numpy(), cube.holds(*range(8)))


class Tensor:
    """What the fake torch makes of a batch."""

    def __init__(self, batch: damacy.Batch, stream: TorchStream) -> None:
        self.capsule = batch.__dlpack__(stream=stream.cuda_stream)

    def copy_(self, other: Tensor) -> None:
        self.other = other


def test_release_behind_a_side_stream(simulated_driver, cube, samples):
    gpu = Gpu(simulated_driver)
    side_stream = TorchStream(gpu)
    torch = types.SimpleNamespace(
        empty_like=lambda _: Tensor.__new__(Tensor),
        from_dlpack=lambda batch: Tensor(batch, side_stream),
        cuda=types.SimpleNamespace(stream=contextlib.nullcontext),
    )
    with gpu.pipeline() as d:
        d.push(samples)

        batch = d.pop()
        tensor = torch.empty_like(...)  # on side_stream
        with torch.cuda.stream(side_stream):
            tensor.copy_(torch.from_dlpack(batch))
        batch.release(event=side_stream)  # no host sync

        del tensor
        event = TorchEvent(gpu, side_stream.cuda_stream)
        d.pop().release(event=event)
        d.pop().release(event=event.cuda_event)
        batch = d.pop()
        batch.release(event=None)
        batch.release()
    gpu.found_nothing()


def test_a_cuda_pipeline_says_where_it_is(simulated_driver, cube, samples):
    gpu = Gpu(simulated_driver)
    with gpu.pipeline(device=None) as d:
        assert d.device == 0
        d.push(samples)
        info = d.pop().info
        assert info.device_ptr and info.ready_stream and info.batch_id == 0
        assert info.shape == (4, EDGE, EDGE, EDGE) and info.dtype is damacy.Dtype.F32
        assert d.stats().gpu_bytes_committed > 0
    gpu.found_nothing()


def test_every_field_is_a_field(cfg):
    assert {name: getattr(cfg, name) for name in FIELDS} == {**FIELDS, "dtype": damacy.Dtype.F32}
    assert damacy.Config.default(**FIELDS) == cfg
    least = {name: FIELDS[name] for name in ("samples_per_batch", "sample_shape")}
    default = damacy.Config.default(max_gpu_memory_bytes=1 << 30, n_io_threads=2, **least)
    assert default.n_io_threads == 2
    assert dataclasses.replace(cfg, samples_per_batch=64).samples_per_batch == 64
    with pytest.raises(dataclasses.FrozenInstanceError):
        cfg.samples_per_batch = 9


def test_a_config_is_refused_by_its_own_check():
    for wrong in (
        {"samples_per_batch": 0},
        {"lookahead_samples": 7},
        {"n_io_threads": 0},
        {"metadata_io_concurrency": 0},
        {"max_chunk_uncompressed_bytes": 0},
        {"host_buffer_waves": 1},
        {"max_chunks_per_wave": 0},
        {"pop_timeout_s": 0},
        {"numa_node": 1},
        {"numa_strategy": "pin_to"},
        {"sample_shape": ()},
        {"sample_shape": (8, 0, 8)},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong)) if len(wrong) == 1 else ""):
            damacy.Config(**{**FIELDS, **wrong})
    with pytest.raises(TypeError, match="metadata_latency must be a LatencyModel or None"):
        damacy.Config(**{**FIELDS, "metadata_latency": 5})
    text = r"samples_per_batch must be >= 1 \(got 0\)"
    with pytest.raises(ValueError, match=text):
        damacy.Config(**{**FIELDS, "samples_per_batch": 0})


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_gds": True},
    ],
)
def test_what_is_not_built_yet_is_refused_by_name(changes):
    with pytest.raises(damacy.Unsupported, match=next(iter(changes))) as caught:
        damacy.Pipeline(damacy.Config(**{**FIELDS, **changes}))
    assert "not built" in str(caught.value)


def test_a_latency_model_makes_requests_for_metadata_late(cube):
    model = damacy.LatencyModel(baseline_ns=2_000_000, lognormal_mu_ln_ns=13.0, seed=1)
    with damacy.Pipeline(damacy.Config(**{**FIELDS, "metadata_latency": model})) as d:
        d.push([damacy.Sample(cube, numpy.s_[0:8, 0:8, 0:8])] * 4)
        d.flush()
        d.pop().release()
        stats = d.stats()
        assert stats.metadata_latency_ops > 0
        least = stats.metadata_latency_ops * 2_000_000
        assert stats.metadata_latency_total_sleep_ns > least
        d.stats_reset()
        assert d.stats().metadata_latency_ops == 0


def test_a_latency_model_of_zeros_is_none(cube):
    damacy.Pipeline(damacy.Config(**{**FIELDS, "metadata_latency": damacy.LatencyModel()})).close()


def test_push_takes_more_than_fits_and_pending_says_so(cfg, cube):
    with damacy.Pipeline(cfg) as d:
        assert d.pending is False
        d.push(cube.sample(number) for number in range(400))
        assert d.pending is True
        for batch in d.batches(50):
            with batch:
                pass
        assert d.pending is False


def test_stats_have_every_field(cfg, samples):
    with damacy.Pipeline(cfg) as d:
        d.push(samples)
        for batch in d.batches(8):
            batch.release()
        stats = d.stats()
        for name in (
            *("plan", "io", "input_transfer", "decode", "post_decode", "decode_gap"),
            *("assemble", "bind_wait", "pop_wait"),
        ):
            metric = getattr(stats, name)
            assert metric.name == name and metric.ms >= 0 and metric.count >= 0
            assert metric.best_ms > 0 and metric.input_bytes >= 0 and metric.output_bytes >= 0
        for name in (
            *("array_meta_hits", "array_meta_misses", "shard_index_hits", "shard_index_misses"),
            *("chunk_layout_hits", "chunk_layout_misses", "metadata_latency_ops"),
            *("metadata_latency_stat_ops", "metadata_latency_submit_ops"),
            *("metadata_latency_active", "metadata_latency_max_active"),
            *("metadata_latency_total_sleep_ns", "metadata_latency_max_sleep_ns"),
            *("metadata_backend_read_jobs", "metadata_backend_read_active"),
            *("metadata_backend_read_max_active", "batches_emitted", "waves_emitted"),
            *("chunks_planned", "chunks_to_load", "chunks_dispatched", "reads_issued"),
            *("worker_steps", "gpu_bytes_committed"),
        ):
            assert isinstance(getattr(stats, name), int)
        assert stats.batches_emitted == 8 and stats.array_meta_misses >= 1
        d.stats_reset()
        assert d.stats().io.count == 0
    with pytest.raises(damacy.ShutdownError):
        d.stats()
    with pytest.raises(damacy.ShutdownError):
        d.push(samples)


def test_pop_past_the_batches_starves(cfg, samples):
    with damacy.Pipeline(dataclasses.replace(cfg, pop_timeout_s=0.2)) as d:
        d.push(samples[:12])
        d.pop().release()
        with pytest.raises(damacy.PoolStarved):
            d.pop()


def test_errors_have_a_status_and_say_where(cfg):
    with damacy.Pipeline(cfg) as d:
        d.push([damacy.Sample("/nowhere/cell.zarr", [(0, EDGE)] * 3)] * 8)
        for _ in range(2):  # the stream has ended
            with pytest.raises(damacy.NotFound) as caught:
                d.pop()
            assert caught.value.status is damacy.Status.NOT_FOUND and caught.value.what == "pop"
    for name in (
        *("TryAgain", "InvalidArgument", "NotFound", "DtypeMismatch", "RankMismatch"),
        *("StorageError", "DecodeError", "NativeCudaError", "OutOfMemory", "BudgetExceeded"),
        *("ShutdownError", "PoolStarved"),
    ):
        assert issubclass(getattr(damacy, name), damacy.WavetrainError)


def test_a_batch_has_no_info_after_release(cfg, samples):
    with damacy.Pipeline(cfg) as d:
        d.push(samples)
        batch = d.pop()
        batch.release()
        batch.release()
        with pytest.raises(damacy.InvalidArgument, match="was released"):
            batch.info  # noqa: B018


def test_log_lines_go_to_the_logger_and_where_asked_to_stderr(cfg, caplog, capfd):
    def lines():
        with damacy.Pipeline(cfg) as d:
            d.push([damacy.Sample("/nowhere/cell.zarr", [(0, EDGE)] * 3)] * 8)
            with pytest.raises(damacy.NotFound):
                d.pop()
        return capfd.readouterr().err

    try:
        with caplog.at_level(logging.DEBUG, "wavetrain"):
            assert lines() == "" and "cell.zarr" in caplog.text
            damacy.set_log_quiet(False)
            damacy.set_log_level(damacy.LOG_ERROR)
            shown = lines()
            assert "wavetrain ERROR" in shown and "cell.zarr" in shown and "INFO" not in shown
            damacy.set_log_level(0)
            assert "wavetrain INFO" in lines()
            damacy.set_log_level(damacy.LOG_FATAL)
            assert lines() == ""
    finally:
        damacy.set_log_level(damacy.LOG_WARN)
        damacy.set_log_quiet(True)
    for wrong, kind in ((6, ValueError), (-1, ValueError), ("INFO", TypeError), (True, TypeError)):
        with pytest.raises(kind, match=r"^level must"):
            damacy.set_log_level(wrong)
    with pytest.raises(TypeError, match=r"^quiet must"):
        damacy.set_log_quiet(1)


# ---- Names that users of other loaders type first -----------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda **named: config(**named), "Config has no batch_size: give samples_per_batch"),
        (lambda **named: config(**named), "Config has no num_workers: give n_decode_threads"),
        (lambda **named: config(**named), "Config has no shuffle: give it to wavetrain.DataLoader"),
        (lambda **named: config(**named), "Config has no n_io_thread: the nearest name is n_io_th"),
        (lambda **named: config(**named), "Config has no xyz: help(Config) lists the names"),
        (lambda **named: damacy.Field("x", **named), "Field has no shape: give sample_shape"),
        (
            lambda **named: damacy.Pipeline(config(), **named),
            "Pipeline has no pad_mode: give Pipeline(Config(pad_mode=..))",
        ),
        (
            lambda **named: damacy.Pipeline(config(), **named),
            "Pipeline has no prefetch: give n_batch_slots, in its Config",
        ),
        (
            lambda **named: damacy.DataLoader([], **named),
            "DataLoader has no use_shared_mem: worker processes write into shared memory in any",
        ),
        (lambda **named: damacy.DataLoader([], **named), "DataLoader has no pin_memory: give"),
        (lambda **named: damacy.DataLoader([], **named), "DataLoader has no collate_fn: samples"),
        (lambda **named: Source(None, config(), **named), "Source has no num_outputs: Config.fiel"),
        (lambda **named: Source(None, config(), **named), "Source has no bytes_per_sample_hint: "),
        (lambda **named: Source(None, config(), **named), "Source has no cuda_stream: what an arr"),
    ],
)
def test_a_name_of_another_loader_is_refused_with_the_name_that_has_it(make, text):
    name = text.split()[3].rstrip(":")
    with pytest.raises(TypeError, match=re.escape(text)):
        make(**{name: 1})


def test_a_name_that_the_package_has_not_is_refused_with_the_one_that_has_it():
    for name, text in {
        "random_split": r"wavetrain\.epoch\.split\(len\(dataset\), fractions\)",
        "Piplein": "the nearest name is Pipeline",
        "DataLoder": "the nearest name is DataLoader",
    }.items():
        with pytest.raises(AttributeError, match=f"wavetrain has no {name}: .*{text}"):
            getattr(damacy, name)
    assert not hasattr(damacy, "random_split")


def test_signatures_are_those_that_were_written():
    assert "samples_per_batch" in inspect.signature(damacy.Config).parameters
    assert list(inspect.signature(damacy.Pipeline).parameters) == ["config", "files", "fit"]


def test_a_node_is_found_by_itself_or_named(cfg):
    """AUTO is the default, as in the reference; a node that is not there is refused by name."""
    auto = damacy.Config(
        samples_per_batch=8, sample_shape=(EDGE,) * 3, max_gpu_memory_bytes=1 << 30
    )
    assert (auto.numa_strategy, auto.numa_node) == (damacy.NumaStrategy.AUTO, -1)
    with damacy.Pipeline(cfg):
        pass
    online = Path("/sys/devices/system/node/online")
    if not online.exists():
        pytest.skip("this system has no list of nodes")
    pinned = {**FIELDS, "numa_strategy": "pin_to"}
    with damacy.Pipeline(damacy.Config(**{**pinned, "numa_node": int(online.read_text()[0])})):
        pass
    with pytest.raises(damacy.InvalidArgument, match="numa_node = 1023 is not there"):
        damacy.Pipeline(damacy.Config(**{**pinned, "numa_node": 1023}))
