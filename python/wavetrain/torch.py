"""Batches as torch tensors, for a loop of your own or as the data set of torch's DataLoader.

`import wavetrain` does not import this module, and needs no torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from multiprocessing.context import get_spawning_popen
from typing import Any

from wavetrain._batch import Batch, Taken
from wavetrain._border import I64_MAX, short, whole
from wavetrain._config import Backend, Config
from wavetrain._errors import EndOfStream, ShutdownError, Status
from wavetrain._pipeline import Pipeline
from wavetrain._sample import Sample
from wavetrain._stores import files_and_uris

try:
    from torch.utils.data import (  # pyright: ignore[reportMissingImports]
        IterableDataset,  # pyright: ignore[reportUnknownVariableType]
    )

    # The type is Any, because torch's types are partial, and pyright may run without torch.
    torch: Any = importlib.import_module("torch")
    torch_data: Any = importlib.import_module("torch.utils.data")
except ImportError as error:
    text = f"wavetrain.torch needs torch: pip install torch ({error})"
    raise ImportError(text, name="torch") from error

__all__ = ["Batches"]

_process = object()  # stands for this process: what was made under another is of its parent


def after_fork() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=after_fork)


class Batches(IterableDataset[Any]):  # pyright: ignore[reportUntypedBaseClass]
    """An epoch of batches per iteration, each a tensor [samples, *sample_shape] without a copy::

        config = wavetrain.Config(samples_per_batch=8, sample_shape=(64, 128, 128))
        batches = wavetrain.torch.Batches(config, samples)
        for epoch in range(10):
            for x in tqdm(batches):
                train(x)

    A tensor is the slot that the batch was made in, and may be written to. The slot takes another
    batch when the tensor and all its views are gone: Config.n_batch_slots of them live at a time,
    and whoever keeps more copies them (transform=torch.clone). On a GPU they are for the stream
    that is current when they come out.

    `samples` is a list of Sample, or a function of the number of the epoch that gives an iterable
    of them, endless if you like. With a function each epoch may have an order of its own.
    `transform` takes the tensor, and its result is returned. `files` and `fit` are as Pipeline has
    them.

    The result is a tensor, or, if Config.fields has several, a dict of them by their names, which
    transform takes too: `for batch in batches: train(batch["image"], batch["mask"])`.
    with_tags=True adds the tags, an int64 tensor on the CPU, as in `for x, tags in batches: y =
    labels[tags]`. with_valid=True adds a bool tensor on the CPU, False for samples that
    on_error="skip" filled with pad_value. with_filled_shape=True adds Batch.filled_shape, an int64
    tensor on the CPU, or a dict of them by the same names. The order is tensor, tags, valid,
    filled_shape.

    The pipeline has threads of its own that load in advance, so the DataLoader adds nothing but the
    processes that a costly transform may need::

        loader = DataLoader(batches, batch_size=None, num_workers=2,
                            multiprocessing_context="spawn")

    Each worker opens a pipeline with all the memory of the config (n_decode_threads=0 is its share
    of the CPUs) and loads every num_workers-th batch. Batches have the same order as without
    workers. For that a function of the epoch must give each worker the same samples, so let it seed
    its generator with the epoch. Workers make batches in host memory. Those made by fork are
    refused.

    The pipeline opens with the first iteration in a process and stays open until close, the end of
    a `with`, or the end of the Batches. Tensors outlive it.
    """

    def __init__(
        self,
        config: Config,
        samples: Iterable[Sample] | Callable[[int], Iterable[Sample]],
        *,
        files: Any = None,
        fit: Iterable[Any] = (),
        transform: Callable[[Any], Any] | None = None,
        with_tags: bool = False,
        with_valid: bool = False,
        with_filled_shape: bool = False,
    ) -> None:
        given: Any = config
        if not isinstance(given, Config):
            raise TypeError(f"config must be a wavetrain.Config (got {short(given)})")
        if not callable(samples) and not (isinstance(samples, Sized) and iterable(samples)):
            raise TypeError(
                "samples must be a list of Sample, or a function of the epoch that gives an "
                f"iterable of them: an iterator has one epoch only (got {short(samples)})"
            )
        if transform is not None and not callable(transform):
            raise TypeError(f"transform must be callable (got {short(transform)})")
        self._config, self._samples = config, samples
        self._files, self._fit = files_and_uris(files, fit)
        self._transform = transform
        self._with_tags, self._with_valid = with_tags, with_valid
        self._with_filled_shape = with_filled_shape
        # The last number of set_epoch, and how often it was called: a tensor, because torch shares
        # the memory of those with its workers, also with persistent ones.
        self._order: Any = torch.zeros(2, dtype=torch.int64)
        self._next_epoch: int = 0
        self._orders_seen: int = 0
        self._sent: int = 0  # copies that went to worker processes
        self._start()

    def _start(self) -> None:
        """The state that each process has of its own."""
        self._process = _process
        self._pipeline: Pipeline | None = None
        self._is_closed = False
        self._epoch: object | None = None  # that is under way, or was left early

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_process", "_pipeline", "_is_closed", "_epoch"):
            del state[name]
        state.pop("_closer", None)
        # A stream is of its process.
        state["_config"] = dataclasses.replace(self._config, consumer_stream=None)
        if get_spawning_popen() is not None:  # this copy is for a worker
            check_name("samples", self._samples)
            check_name("transform", self._transform)
            self._sent += 1
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        count = f", {len(self)} of them" if isinstance(self._samples, Sized) else ""
        return f"<Batches of {self._config.shapes}{count}>"

    def __len__(self) -> int:
        """Batches of an epoch, also with workers."""
        if not isinstance(self._samples, Sized):
            raise TypeError(
                "samples is a function, so nobody knows how many batches there are: give a list, "
                "or an object with __call__(epoch) and __len__, or tqdm(batches, total=..)"
            )
        count, size = len(self._samples), self._config.samples_per_batch
        return count // size if self._config.drop_last else -(-count // size)

    def set_epoch(self, epoch: int) -> None:
        """The number that the next iteration gives `samples`, here or in workers; later ones count
        on. Without it they count from 0."""
        self._next_epoch, self._sent = whole("epoch", epoch, 0, I64_MAX), 0
        self._orders_seen += 1
        self._order[0], self._order[1] = self._next_epoch, self._orders_seen

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline of this process: its stats, and where batches are. Opens it."""
        if self._process is not _process:
            raise RuntimeError(forked())
        if self._is_closed:
            raise ShutdownError("these batches are closed: make others")
        if self._pipeline is None:
            config = self._config_here()
            self._pipeline = Pipeline(config, files=self._files, fit=self._fit)
            # Not __del__: when a cycle ends the pipeline's might come first, which warns.
            self._closer = weakref.finalize(self, self._pipeline.close)
        return self._pipeline

    def close(self) -> None:
        """Ends the pipeline of this process: idempotent. Tensors stay valid."""
        self._is_closed = True
        if self._pipeline is not None:
            self._closer()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _config_here(self) -> Config:
        config, worker = self._config, torch_data.get_worker_info()
        if worker is None:
            # The place of torch's work: its current device, whose primary context it has made by
            # then.
            wants_device = config.backend is not Backend.HOST and config.device is None
            if not wants_device or not torch.cuda.is_available():
                return config
            torch.cuda.init()
            return dataclasses.replace(config, device=torch.cuda.current_device())
        if config.backend is Backend.CUDA:
            raise RuntimeError(
                "a worker process of the DataLoader makes batches in host memory: for a GPU set "
                "num_workers=0 (the pipeline has threads of its own), else Config(backend='host')"
            )
        threads = config.n_decode_threads
        if threads == 0:
            threads = max(1, len(os.sched_getaffinity(0)) // worker.num_workers)
        return dataclasses.replace(
            config, backend=Backend.HOST, device=None, n_decode_threads=threads
        )

    def __iter__(self) -> Iterator[Any]:
        worker = torch_data.get_worker_info()
        number = self._count_epoch(worker)
        if worker is None:
            return self._batches(self._begin(number, None))  # loading continues from here
        # A failure outside of next ends a persistent worker without a word.
        return self._later(number, worker)

    def _later(self, number: int, worker: Any) -> Iterator[Any]:
        yield from self._batches(self._begin(number, worker))

    def _begin(self, number: int, worker: Any) -> object:
        """Hands the samples of an epoch over, and what stands for it."""
        pipeline, given = self.pipeline, self._samples
        samples = given(number) if callable(given) else given
        if worker is not None:
            size = self._config.samples_per_batch
            samples = deal(samples, size, worker.id, worker.num_workers)
        if self._epoch is not None:
            pipeline.reset()
        self._epoch = epoch = object()
        pipeline.push(samples)
        pipeline.flush()
        return epoch

    def _count_epoch(self, worker: Any) -> int:
        order: list[int] = self._order.tolist()
        number, orders = order
        if orders != self._orders_seen:
            self._next_epoch, self._orders_seen = number, orders
        elif worker is not None:
            # The workers of an epoch were started one after the other, each with a copy: this is
            # how many epochs had workers before. A persistent worker counts by itself.
            self._next_epoch += max(0, self._sent - worker.id) // worker.num_workers
        self._sent = 0
        number = self._next_epoch
        self._next_epoch += 1
        return number

    def _batches(self, epoch: object) -> Iterator[Any]:
        while True:
            if self._epoch is not epoch:
                raise RuntimeError(
                    "another iteration began, which ended this one: for two at a time make two "
                    "Batches"
                )
            try:
                batch = self.pipeline.pop()
            except EndOfStream:
                self._epoch = None
                return
            yield self._item(batch)  # no name here keeps the tensor while the caller works

    def _item(self, batch: Batch) -> Any:
        with batch:
            made = of_each(batch, torch.from_dlpack)
            info = batch.info if self._with_tags or self._with_valid else None
            filled_shape = of_each(batch, covered_of) if self._with_filled_shape else None
        if self._transform is not None:
            made = self._transform(made)
        if info is None and filled_shape is None:
            return made
        item = [made]
        if info is not None and self._with_tags:
            if max(info.tags) > I64_MAX:
                raise ValueError(f"tag {max(info.tags)} is too large for torch.int64")
            item.append(torch.tensor(info.tags, dtype=torch.int64))
        if info is not None and self._with_valid:
            item.append(torch.tensor([status is Status.OK for status in info.statuses]))
        if filled_shape is not None:
            item.append(filled_shape)
        return tuple(item)


def of_each(batch: Batch, make: Callable[[Any], Any]) -> Any:
    """Its result for the batch, or for each field by its name."""
    return {name: make(field) for name, field in batch.items()} if batch.fields else make(batch)


def covered_of(tensor: Taken) -> Any:
    return torch.from_numpy(tensor.filled_shape)


def iterable(samples: Any) -> bool:
    """Whether it can be iterated more than once."""
    return isinstance(samples, Iterable) and not isinstance(samples, Iterator)


def deal(samples: Iterable[Sample], size: int, worker: int, workers: int) -> Iterator[Sample]:
    """Those of every batch number worker, worker + workers, .. of `size` samples: whole batches,
    so that only the last of all can be smaller."""
    rest = iter(samples)
    for number in itertools.count():
        batch = list(itertools.islice(rest, size))
        if number % workers == worker:
            yield from batch
        if len(batch) < size:
            return


def check_name(name: str, value: Any) -> None:
    """Python sends functions and classes to other processes by name, so they must have one."""
    function = getattr(value, "func", value)  # of functools.partial
    path: str = getattr(function, "__qualname__", type(function).__qualname__)
    if "<" in path:
        # At a TypeError torch would advise to fork.
        raise RuntimeError(
            f"{name} is {path}, which cannot be sent to a worker process: make it a function or a "
            "class at the top of a module, or set num_workers=0"
        )


def forked() -> str:
    text = "these Batches were made before this process was forked, which threads do not survive: "
    if torch_data.get_worker_info() is None:
        return text + "make them in the process that uses them"
    return text + (
        "use DataLoader(.., multiprocessing_context='spawn'), or num_workers=0, as the pipeline "
        "has threads of its own"
    )
