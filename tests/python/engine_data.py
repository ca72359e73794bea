"""Shared by the tests of engines: rows of a file as samples, also for workers of an engine."""

from __future__ import annotations

import numpy

import wavetrain


class Rows:
    """The rows of a .npy file, as samples of one row."""

    def __init__(self, path):
        self.path = str(path)
        self.shape = wavetrain.array_info(self.path).shape

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        return wavetrain.Sample(self.path, [(index, index + 1), (0, self.shape[1])], tag=index)


def settings(**changes):
    plain = {"samples_per_batch": 4, "sample_shape": (1, 5), "dtype": "i64", "backend": "host"}
    return wavetrain.Config(**{**plain, "n_io_threads": 2, "n_decode_threads": 1, **changes})


def write(path, rows=60):
    """The file, and what it holds: no two rows are alike."""
    data = numpy.random.default_rng(7).integers(0, 1 << 60, (rows, 5))
    numpy.save(path, data)
    return data


def sums(batch):
    """The tag and the sum of each sample that is not there for padding alone."""
    with batch:
        kept = len(batch.info.tags) - batch.padded
        values = batch.numpy()
        return [(batch.info.tags[at], int(values[at].sum())) for at in range(kept)]
