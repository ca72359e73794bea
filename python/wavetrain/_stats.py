"""Figures of a pipeline."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import time
from typing import Any

from wavetrain import _native
from wavetrain._config import Backend, DeviceDecode
from wavetrain._library import call_on

NO_BEST_MS = 1e30  # before the first observation
# What compressed a chunk, in the order of the header's numbers.
CODECS = tuple(
    name.removeprefix("CODEC_").lower()
    for name in vars(_native)
    if name.startswith("CODEC_") and name != "CODEC_PLACES"
)
BY_WORKER = (
    "off",
    "codec",
    "kept",
    "unneeded",
    "large",
    "array",
    "broken",
    "other_codec",
    "streams",
    "room",
    "refused",
)

# Figures that may become less, with their names for dashboards; all other numbers are counters.
GAUGES = {
    "batches_held": "batches_held",
    "host_bytes_committed": "host_committed_bytes",
    "pinned_bytes_committed": "pinned_committed_bytes",
    "gpu_bytes_committed": "gpu_committed_bytes",
    "gpu_overhead_bytes": "gpu_overhead_bytes",
    "chunk_cache_bytes_held": "chunk_cache_held_bytes",
    "mapped_bytes": "mapped_bytes",
    "memories_lent": "memories_lent",
    "consumers_missing": "consumers_missing",
    "metadata_latency_active": "metadata_latency_active",
    "metadata_latency_max_active": "metadata_latency_max_active",
    "metadata_backend_read_active": "metadata_backend_read_active",
    "metadata_backend_read_max_active": "metadata_backend_read_max_active",
}
# Counters whose unit is not at the end of their name. Nanoseconds become seconds.
COUNTERS = {
    "chunk_cache_bytes_saved": "chunk_cache_saved_bytes",
    "bytes_copied_out": "copied_out_bytes",
    "metadata_latency_total_sleep_ns": "metadata_latency_sleep_seconds",
}
# The names of batches and choices, and times that as_metrics has in another form.
NOT_METRICS = {
    *("device_decode_mode", "backend", "backend_text", "limit_text", "placement_text"),
    *("oldest_held_batch", "oldest_held_since_ns", "metadata_latency_max_sleep_ns"),
}


@dataclasses.dataclass(frozen=True, repr=False)
class Metric:
    """The work of one stage: `ms` summed over threads, `best_ms` the shortest observation (1e30
    before the first), bytes in and out, `count` observations."""

    name: str
    ms: float
    best_ms: float
    input_bytes: float
    output_bytes: float
    count: int
    # Observations of [2^b, 2^(b+1)) ns, a count for each b.
    histogram: tuple[int, ...] = ()

    def __repr__(self) -> str:
        if self.count == 0:
            return f"{self.name:15} -"
        rate = self.output_bytes / self.ms / 1e6 if self.ms else 0.0
        return (
            f"{self.name:15} {self.count:10} x {self.ms / self.count:10.3f} ms"
            f" (best {self.best_ms:.3f}), {self.input_bytes / 1e6:.1f} MB in,"
            f" {self.output_bytes / 1e6:.1f} MB out, {rate:.2f} GB/s per thread"
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Stats:
    """Figures since the pipeline opened, or stats_reset; those of memory are as of now. print()
    makes a table of them, and repr() one line. wavetrain.h describes what each counts."""

    plan: Metric
    meta: Metric
    io: Metric
    input_transfer: Metric
    decode: Metric
    post_decode: Metric
    decode_gap: Metric
    assemble: Metric
    bind_wait: Metric
    pop_wait: Metric
    array_meta_hits: int
    array_meta_misses: int
    shard_index_hits: int
    shard_index_misses: int
    chunk_layout_hits: int
    chunk_layout_misses: int
    samples_pushed: int
    samples_failed: int
    batches_emitted: int
    batches_held: int
    waves_emitted: int
    chunks_planned: int
    chunks_to_load: int
    chunks_dispatched: int
    chunks_missing: int
    chunk_uses: int
    reads_issued: int
    files_opened: int
    worker_steps: int
    chunk_cache_hits: int
    chunk_cache_misses: int
    chunk_cache_evictions: int
    chunk_cache_bytes_saved: int
    chunk_cache_bytes_held: int
    host_bytes_committed: int
    pinned_bytes_committed: int
    gpu_bytes_committed: int
    gpu_overhead_bytes: int
    chunks_decoded: dict[str, int]  # by codec
    chunks_decoded_in_slab: int
    chunks_left_filtered: int
    chunks_decoded_on_device: dict[str, int]  # on the device, by codec
    chunks_redone: dict[str, int]  # of these, those that were left to the CPU after all
    chunks_not_on_device: dict[str, int]  # why the CPU decodes a chunk for a device
    files_changed: int  # replaced or rewritten files, of which what was cached was forgotten
    mapped_bytes: int  # of files
    bytes_copied_out: int  # of batches, by copies of the library's own
    device_decode_mode: DeviceDecode
    digest: Metric
    device_decode: Metric
    backend: Backend
    backend_text: str  # which was taken and why
    limit_text: str  # what bounds the run, and the one setting to try; "" before the 4th batch
    placement_text: str  # how many threads there are, on which CPUs, and why
    oldest_held_batch: int  # the batch that is held the longest
    oldest_held_since_ns: int  # when it was popped, as time.monotonic_ns; 0: none is held
    batches_lost: int  # that consumers had popped, or were to get, which were lost
    memories_lent: int  # that are not given back: Pipeline.lend
    consumers_missing: int  # that have not attached yet; of a Consumer: that are not attached now
    bad_chunks: int  # that could not be read, each time that a batch needed one
    metadata_latency_ops: int  # requests that slept by Config.metadata_latency:
    metadata_latency_stat_ops: int  # those that open, look or list ..
    metadata_latency_submit_ops: int  # .. and those that read documents and indexes
    metadata_latency_active: int  # those that sleep now
    metadata_latency_max_active: int  # most that slept at a time
    metadata_latency_total_sleep_ns: int  # sleeps as they were drawn, all ..
    metadata_latency_max_sleep_ns: int  # .. and the longest
    metadata_backend_read_jobs: int  # reads of documents and indexes; also without latency
    metadata_backend_read_active: int  # those that the store works on now
    metadata_backend_read_max_active: int  # most that it worked on at a time

    def __repr__(self) -> str:
        bound = self.limit_text.partition(":")[0]
        return (
            f"<Stats of {self.samples_pushed} samples: {self.batches_emitted} batches in"
            f" {self.backend.name.lower()} memory, {self.chunks_dispatched} chunks,"
            f" {self.io.output_bytes / 1e6:.1f} MB read, {self.decode.output_bytes / 1e6:.1f} MB"
            f" decoded{', limit: ' + bound if bound else ''}>"
        )

    def __str__(self) -> str:
        lines: list[str] = ["Stats:"]
        for field in dataclasses.fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, Metric):
                lines.append(f"  {value!r}")
            elif value and not field.name.startswith("metadata_"):
                shown = value.name.lower() if isinstance(value, enum.Enum) else value
                lines.append(f"  {field.name:24} {shown}")
        return "\n".join(lines)

    def as_metrics(self) -> dict[str, float]:
        """The figures for a dashboard, by names as Prometheus has them: those that end in _total
        are counters, which never become less but by stats_reset, all others are gauges. Units are
        seconds and bytes, and stand at the end of a name."""
        made: dict[str, float] = {}
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if isinstance(value, Metric):
                made[f"wavetrain_{name}_seconds_total"] = value.ms / 1e3
                made[f"wavetrain_{name}_input_bytes_total"] = value.input_bytes
                made[f"wavetrain_{name}_output_bytes_total"] = value.output_bytes
                made[f"wavetrain_{name}_observations_total"] = float(value.count)
            elif isinstance(value, dict):
                counts: dict[str, int] = getattr(self, name)
                made |= {f"wavetrain_{name}_{key}_total": float(n) for key, n in counts.items()}
            elif name in GAUGES:
                made[f"wavetrain_{GAUGES[name]}"] = float(value)
            elif name not in NOT_METRICS:
                unit = 1e9 if name.endswith("_ns") else 1.0
                made[f"wavetrain_{COUNTERS.get(name, name)}_total"] = value / unit
        since = self.oldest_held_since_ns
        made["wavetrain_oldest_held_seconds"] = (time.monotonic_ns() - since) / 1e9 if since else 0
        longest = self.metadata_latency_max_sleep_ns
        made["wavetrain_metadata_latency_max_sleep_seconds"] = longest / 1e9
        return made


def read_stats(loader: int) -> Stats:
    view = _native.StatsView(struct_size=ctypes.sizeof(_native.StatsView))
    call_on("stats", loader, ctypes.byref(view))
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Stats):
        value: Any = getattr(view, field.name, 0)
        if isinstance(value, _native.Metric):
            value = read_metric(field.name, value)
        elif isinstance(value, bytes):
            value = value.decode(errors="replace")
        values[field.name] = value
    for name in ("chunks_decoded", "chunks_decoded_on_device", "chunks_redone"):
        values[name] = dict(zip(CODECS, getattr(view, name)))
    values["chunks_not_on_device"] = dict(zip(BY_WORKER, view.chunks_not_on_device))
    values["device_decode_mode"] = DeviceDecode(view.device_decode_mode)
    values["backend"] = Backend(view.backend)
    return Stats(**values)


def read_metric(name: str, metric: _native.Metric) -> Metric:
    return Metric(
        name,
        metric.ns / 1e6,
        metric.ns_best / 1e6 if metric.count else NO_BEST_MS,
        float(metric.input_bytes),
        float(metric.output_bytes),
        metric.count,
        tuple(metric.histogram),
    )
