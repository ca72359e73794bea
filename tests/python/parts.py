"""What the tests of fields share: arrays that zarr-python wrote, and what numpy makes of boxes."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import wavetrain

MARGIN = 24  # to which an array goes on outside of itself
FILL = 3
CONSTANT = {"constant": lambda fill: {"constant_values": fill}}


def arrays() -> dict[str, numpy.ndarray]:
    random = numpy.random.default_rng(5)
    return {
        "volume": random.integers(0, 60_000, (12, 10, 14)).astype("u2"),
        "plane": random.integers(0, 250, (20, 18)).astype("u1"),
        "track": random.integers(-(2**31), 2**31, 40).astype("i4"),
        "one": numpy.array(-77, "i2"),
        "real": random.normal(size=(9, 16)),
    }


CHUNKS = {"volume": (5, 4, 6), "plane": (7, 5), "track": (16,), "one": (), "real": (4, 16)}


class Store:
    """A folder of these arrays."""

    def __init__(self, folder: Path) -> None:
        zarr = pytest.importorskip("zarr", minversion="3", reason="there is no zarr-python 3 here")
        self.folder, self.data = folder, arrays()
        for name, data in self.data.items():
            array = zarr.create_array(
                folder / name,
                shape=data.shape,
                dtype=data.dtype,
                chunks=CHUNKS[name],
                fill_value=FILL,
            )
            array[...] = data

    def uri(self, name: str) -> str:
        return str(self.folder / name)

    def box(self, name: str, aabb: object, field: str | int = 0, **place: object) -> wavetrain.Box:
        return wavetrain.Box(self.uri(name), aabb, field, **place)

    def read(self, box: wavetrain.Box, field: wavetrain.Field) -> numpy.ndarray:
        """The elements of a box, in the order of its axes."""
        data = self.data[Path(box.uri).name].astype(field.dtype.dtype)
        mode, margin = field.pad_mode.name.lower(), 0
        if mode != "none" and data.ndim:
            margin = MARGIN
            fill = FILL if field.pad_value is None else field.pad_value
            data = numpy.pad(data, margin, mode, **CONSTANT.get(mode, lambda _: {})(fill))
        steps = box.step or (1,) * data.ndim
        index = [
            numpy.arange(begin, end)[::step] + margin for (begin, end), step in zip(box.aabb, steps)
        ]
        return data[numpy.ix_(*index)] if index else data

    def holds(
        self, config: wavetrain.Config, samples: list[wavetrain.Sample]
    ) -> dict[str, numpy.ndarray]:
        """What a batch of these samples is, by field."""
        made = {}
        for number, field in enumerate(config.fields):
            blank = 0 if field.pad_value is None else field.pad_value
            shape = (len(samples), *field.sample_shape)
            batch = made[field.name] = numpy.full(shape, blank, field.dtype.dtype)
            for row, sample in enumerate(samples):
                for box in sample.boxes:
                    if box.field in (number, field.name):
                        put(batch, row, self.read(box, field), box)
        return made


def put(batch: numpy.ndarray, row: int, values: numpy.ndarray, box: wavetrain.Box) -> None:
    """Where a box says. Without axes it is a whole sample, or has the last axes of the field."""
    shape = batch.shape[1:]
    rank, axes = len(shape), box.axes
    if axes is None and values.size == batch[row].size:
        batch[row] = values.reshape(shape)
        return
    if axes is None:
        dropped = values.ndim - rank
        axes = (*[None] * dropped, *range(rank))
    counts = [1] * rank
    for axis, to in enumerate(axes):
        if to is not None:
            counts[to] = values.shape[axis]
    order = sorted(range(values.ndim), key=lambda axis: -1 if axes[axis] is None else axes[axis])
    at = box.at or (0,) * rank
    places = [slice(first, first + count) for first, count in zip(at, counts)]
    batch[(row, *places)] = values.transpose(order).reshape(counts)


def reach(config: wavetrain.Config, samples: list[wavetrain.Sample]) -> dict[str, numpy.ndarray]:
    """What `filled_shape` is by field, of boxes that have axes."""
    made = {}
    for number, field in enumerate(config.fields):
        rank = len(field.sample_shape)
        rows = made[field.name] = numpy.zeros((len(samples), max(1, rank)), "i8")
        for row, sample in zip(rows, samples):
            for box in sample.boxes:
                if box.field in (number, field.name):
                    limits = [1 + first for first in box.at or (0,) * rank] or [1]
                    for axis, to in enumerate(box.axes or ()):
                        if to is not None:
                            limits[to] += box.places(axis) - 1
                    row[:] = numpy.maximum(row, limits)
    return made
