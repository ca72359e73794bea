"""Sinks of figures: a file, Ray, Dask.

In: the figures of `Stats.as_metrics`. Out: a function that writes them. An engine is imported by
the call that makes its function.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wavetrain._dataloader import DataLoader
from wavetrain._errors import ShutdownError

Figures = dict[str, float]


def figures_of(given: Any) -> Figures:
    """The figures of a loader, a pipeline or a reader; none if it is not open."""
    if isinstance(given, DataLoader):
        given = given._pipeline  # pyright: ignore[reportPrivateUsage]
    try:
        return {} if given is None else given.stats().as_metrics()
    except ShutdownError:
        return {}


def text_of(figures: Figures) -> str:
    """The figures in the text format of Prometheus, which its node exporter reads from files.

    >>> print(text_of({"wavetrain_batches_held": 2.0}), end="")
    # TYPE wavetrain_batches_held gauge
    wavetrain_batches_held 2.0
    """
    lines: list[str] = []
    for name, value in sorted(figures.items()):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# TYPE {name} {kind}\n{name} {value!r}\n")
    return "".join(lines)


def to_file(path: str | os.PathLike[str]) -> Callable[[Figures], None]:
    """Writes the text to a file that always is whole."""

    def write(figures: Figures) -> None:
        part = Path(f"{os.fspath(path)}.{os.getpid()}.part")
        part.write_text(text_of(figures))
        part.replace(path)

    return write


def to_ray() -> Callable[[Figures], None]:
    """Ray's metrics, of which its dashboard and its exporter know."""
    metrics: Any = importlib.import_module("ray.util.metrics")
    made: dict[str, Any] = {}
    before: Figures = {}

    def write(figures: Figures) -> None:
        for name, value in figures.items():
            # Ray adds _total to the names of counters.
            is_counter = name.endswith("_total")
            if name not in made:
                kind = metrics.Counter if is_counter else metrics.Gauge
                made[name] = kind(name.removesuffix("_total"))
            if not is_counter:
                made[name].set(value)
            elif value > before.get(name, 0.0):
                made[name].inc(value - before.get(name, 0.0))
        before.update(figures)

    return write


def to_dask() -> Callable[[Figures], None]:
    """Events of the topic "wavetrain", which Client.get_events("wavetrain") returns."""
    distributed: Any = importlib.import_module("distributed")
    try:
        worker = distributed.get_worker()
    except ValueError:
        raise RuntimeError(
            "sink is 'dask', and this is not a task of a worker: call metrics in the task that "
            "makes the loader"
        ) from None
    return lambda figures: worker.log_event("wavetrain", figures)
