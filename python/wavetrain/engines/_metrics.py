"""Figures of a loader, for the dashboards of engines.

In: what has stats(), and a sink. Out: its figures there, every few seconds, by the names of
`Stats.as_metrics`. A loader that is not open has no figures, and is not opened for them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, cast

from wavetrain._border import short
from wavetrain.engines._sinks import Figures, figures_of, to_dask, to_file, to_ray


class Metrics(contextlib.AbstractContextManager["Metrics"]):
    """Writes the figures of a loader to a sink until it is closed, or the loader is gone."""

    def __init__(self, loader: Any, write: Callable[[Figures], None], every_s: float) -> None:
        self._loader, self._write = weakref.ref(loader), write
        self._every_s, self._end = every_s, threading.Event()
        self._thread = threading.Thread(target=self._run, name="wavetrain-metrics", daemon=True)
        self._thread.start()

    def push(self) -> Figures:
        """Writes the figures now, and returns them; {} if the loader is not open."""
        found = figures_of(self._loader())
        if found:
            self._write(found)
        return found

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it: idempotent."""
        self._end.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._every_s) and self._loader() is not None:
            try:
                self.push()
            except Exception as error:  # a sink that fails ends no training
                warnings.warn(f"metrics end, as the sink failed: {error}", RuntimeWarning, 1)
                return


def ignore(_: Figures) -> None:
    pass


class Collected(Metrics):
    """Figures that Prometheus asks for: there is no thread, and none are old."""

    def __init__(self, loader: Any) -> None:
        client: Any = importlib.import_module("prometheus_client")
        self._core: Any = importlib.import_module("prometheus_client.core")
        self._loader, self._registry = weakref.ref(loader), client.REGISTRY
        self._write = ignore
        self._registry.register(self)

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> list[Any]:
        """For the registry of prometheus_client."""
        made: list[Any] = []
        for name, value in figures_of(self._loader()).items():
            is_counter = name.endswith("_total")
            kind = self._core.CounterMetricFamily if is_counter else self._core.GaugeMetricFamily
            made.append(kind(name, f"of wavetrain's Stats: {name}", value=value))
        return made

    def close(self) -> None:
        """Ends it: idempotent."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)


def metrics(loader: Any, sink: Any, every_s: float = 5.0) -> Metrics:
    """Writes the figures of a loader to a sink every few seconds, until its close()::

        with wavetrain.engines.metrics(loader, "prometheus"): ..

    loader: a DataLoader, Pipeline or Reader, whose `stats().as_metrics()` are the figures.
    sink: a function, which a thread calls with the dict. "prometheus": the registry of
        prometheus_client, which asks at each scrape. "ray": Ray's metrics. "dask": the events of
        its scheduler, in a task of a worker. Or the path of a file in the text format of
        Prometheus, whose name ends in .prom.
    """
    if not every_s > 0:
        raise ValueError(f"every_s must be above 0, in seconds (got {short(every_s)})")
    if sink == "prometheus":
        return Collected(loader)
    makes: Any = {"ray": to_ray, "dask": to_dask}.get(sink) if isinstance(sink, str) else None
    if callable(sink):
        return Metrics(loader, cast("Any", sink), every_s)
    if makes is not None:
        return Metrics(loader, makes(), every_s)
    path = os.fspath(sink) if isinstance(sink, (str, os.PathLike)) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(path, str) and path.endswith(".prom"):
        return Metrics(loader, to_file(path), every_s)
    raise ValueError(
        "sink must be a function, 'prometheus', 'ray', 'dask', or a path that ends in .prom "
        f"(got {short(sink)})"
    )
