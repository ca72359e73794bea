"""The trace of a pipeline, as Perfetto and chrome://tracing read it."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from typing import Any

from wavetrain import _native
from wavetrain._library import call_on

# The first number of a track that is of no thread: Linux has fewer processes.
TRACK_FIRST = 1 << 23
NO_BATCH, NO_PLACE = 2**64 - 1, 2**32 - 1
STAGES = {
    getattr(_native, name): name[len("STAGE_") :].lower()
    for name in dir(_native)
    if name.startswith("STAGE_") and name != "STAGE_FORCE32"
}


def write_trace(loader: int, count: int, path: str | os.PathLike[str]) -> int:
    events, written = (_native.Event * count)(), ctypes.c_size_t()
    size = ctypes.sizeof(_native.Event)
    call_on("trace", loader, ctypes.byref(events), count, size, ctypes.byref(written))
    kept = sorted(events[: written.value], key=lambda event: (event.begin_ns, -event.duration_ns))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": list(all_of(kept)), "displayTimeUnit": "ns"}, file)
    return len(kept)


def all_of(events: list[_native.Event]) -> Iterator[dict[str, Any]]:
    """An X event for each event, and a name for each track. Events of no thread overlap: each stage
    of these has as many tracks as do."""
    ends: dict[int, list[int]] = {}
    threads: set[int] = set()
    for event in events:
        track = event.thread
        if track:
            threads.add(track)
        else:
            lanes = ends.setdefault(event.kind, [])
            free = (lane for lane, end in enumerate(lanes) if end <= event.begin_ns)
            lane = next(free, len(lanes))
            lanes[lane : lane + 1] = [event.begin_ns + event.duration_ns]
            track = TRACK_FIRST + (event.kind << 16) + lane
        yield shown(event, track)
    for thread in sorted(threads):
        yield named(thread, thread_name(thread))
    for kind, lanes in ends.items():
        for lane in range(len(lanes)):
            yield named(TRACK_FIRST + (kind << 16) + lane, f"{STAGES[kind]} {lane}")


def shown(event: _native.Event, track: int) -> dict[str, Any]:
    arguments = {"bytes": event.bytes}
    for name, none in (("batch", NO_BATCH), ("wave", NO_PLACE), ("slot", NO_PLACE)):
        if getattr(event, name) != none:
            arguments[name] = getattr(event, name)
    return {
        "ph": "X",
        "name": STAGES[event.kind],
        "cat": "wavetrain",
        "pid": os.getpid(),
        "tid": track,
        "ts": event.begin_ns / 1e3,  # in microseconds
        "dur": event.duration_ns / 1e3,
        "args": arguments,
    }


def named(track: int, name: str) -> dict[str, Any]:
    arguments = {"name": name}
    return {"ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": track, "args": arguments}


def thread_name(thread: int) -> str:
    """The name of a thread of this process, as debuggers show it."""
    try:
        with open(f"/proc/self/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return f"thread {thread}"
