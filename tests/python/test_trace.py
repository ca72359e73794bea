"""Pipeline.trace: the JSON that Perfetto reads, held against the figures."""

from __future__ import annotations

import collections
import json
import os
import threading

import numpy
import pytest

import wavetrain
from wavetrain import Config, Pipeline, Sample


def streamed(folder, **settings):
    """A pipeline that has streamed, on the thread that pops, all of an array."""
    numpy.save(folder / "a.npy", numpy.arange(6 * 8, dtype="u1").reshape(6, 8))
    shape = {"samples_per_batch": 4, "sample_shape": (4, 5), "max_gpu_memory_bytes": 0}
    pipeline = Pipeline(Config(**shape, **settings))
    pipeline.push([Sample(str(folder / "a.npy"), ((1, 5), (2, 7)))] * 40)
    for batch in pipeline.batches():
        batch.release()
    return pipeline


def test_a_trace_adds_up_to_the_figures(tmp_path):
    with streamed(tmp_path, trace_events=1 << 12) as pipeline:
        path, before = tmp_path / "trace.json", None
        # The planner looks once more after the last release.
        while before != (stats := pipeline.stats()):
            before, count = stats, pipeline.trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    shown = [event for event in events if event["ph"] == "X"]
    assert len(shown) == count > 0
    assert {event["pid"] for event in events} == {os.getpid()}
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert set(names) == {event["tid"] for event in shown}
    assert threading.get_native_id() in names
    spent, counts = collections.Counter(), collections.Counter()
    for event in shown:
        spent[event["name"]] += round(event["dur"] * 1e3)
        counts[event["name"]] += 1
    assert counts["decode"] and counts["plan"] and counts["assemble"]
    for name in ("plan", "meta", "io", "decode", "decode_gap", "assemble", "bind_wait", "pop_wait"):
        metric = getattr(stats, name)
        assert counts[name] == metric.count, name
        assert spent[name] == round(metric.ms * 1e6), name


def test_without_a_ring_a_trace_is_refused(tmp_path):
    with (
        streamed(tmp_path) as pipeline,
        pytest.raises(wavetrain.InvalidArgument, match="trace_events"),
    ):
        pipeline.trace(tmp_path / "trace.json")
