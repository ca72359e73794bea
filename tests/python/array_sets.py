"""Data sets of arrays for tests of worker processes, which find the classes in this module."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy

import wavetrain

COUNT, SHAPE = 50, (3, 5)


def image(number: int) -> numpy.ndarray:
    return (numpy.arange(15).reshape(SHAPE) + 3 * number).astype("u1")


class Pairs:
    """Tuples, of netcl's and torch's kind."""

    def __init__(self, count: int = COUNT) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return image(index), numpy.int64(index)


class Dicts(Pairs):
    def __getitem__(self, index):
        return {"mask": image(index) > 20, "image": image(index).astype("f4").T, "label": 7 * index}


class Ones(Pairs):
    def __getitem__(self, index):
        return image(index).astype("f8")


class Numbers(Pairs):
    def __getitem__(self, index):
        return 0.5 * index


class Pids(Pairs):
    """The process that reads each sample."""

    def __getitem__(self, index):
        return index, os.getpid()


class Drawn(Pairs):
    """Draws from generators that the data set does not seed."""

    def __getitem__(self, index):
        return index, random.random(), numpy.random.rand(3), numpy.random.randint(1 << 30)


class DrawnByTorch(Pairs):
    """The same of torch, which is imported by the first sample."""

    def __getitem__(self, index):
        import torch

        return index, torch.rand(4), float(torch.randn(()))


class Bad(Pairs):
    """Samples that fail, each in its way, by their numbers."""

    def __init__(self, bad, count=COUNT):
        super().__init__(count)
        self.bad = bad

    def __getitem__(self, index):
        what = self.bad.get(index)
        if what == "raise":
            raise KeyError("no such cell")
        if what == "stop":
            raise StopIteration
        if what == "exit":
            raise SystemExit(3)
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "leave":
            os._exit(5)
        if what == "hang":
            time.sleep(1000)
        if what == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "shape":
            return image(index)[:2], numpy.int64(index)
        if what == "dtype":
            return image(index).astype("f4"), numpy.int64(index)
        if what == "number":
            return image(index), 0.5
        if what == "fewer":
            return (image(index),)
        if what == "text":
            return image(index), "a cat"
        return super().__getitem__(index)


class Sleepers(Pairs):
    """Writes the number of its process to a file for each sample, and then sleeps."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __getitem__(self, index):
        if index:
            with open(f"{self.folder}/{os.getpid()}", "w"):
                time.sleep(1000)
        return super().__getitem__(index)


class Large(Pairs):
    """Arrays of many pages, each of one value."""

    def __getitem__(self, index):
        return numpy.full(200_000, index, "i4"), index


class Pictures(Pairs):
    def __getitem__(self, index):
        return numpy.random.default_rng(index).integers(0, 256, (3, 32, 32), "u1"), index % 10


class Cells(Pairs):
    """Requests of boxes, although the code of the class does not name them."""

    def __init__(self, make, count=COUNT):
        super().__init__(count)
        self.make = make

    def __getitem__(self, index):
        return self.make(index)


def cell(index):
    return wavetrain.Sample("cells.zarr", [(index, index + 1)], tag=index)


class Unsent(Pairs):
    """It is pickled, and cannot be made in another process."""

    def __reduce__(self):
        return made_in, (os.getpid(),)


def made_in(pid):
    raise OSError(f"only {pid} has it")


def four(info):
    """A source of samples: images of several shapes, until the tenth."""
    number = info.idx_in_epoch
    if number == 10:
        raise StopIteration
    return numpy.full((3 + number % 3, 5), number, "u1"), number


def bad_four(info):
    if info.idx_in_epoch == 2:
        raise ValueError("the third")
    if info.idx_in_epoch == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return four(info)


def batch_of_four(iteration):
    if iteration == 3:
        raise StopIteration
    numbers = numpy.arange(4) + 4 * iteration
    return [numpy.full((1 + 40 * number, 5), number, "u1") for number in numbers], numbers


def bad_batch(iteration):
    if iteration == 1:
        raise ValueError("the second batch")
    return batch_of_four(iteration)
