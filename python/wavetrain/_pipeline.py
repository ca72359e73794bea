"""The stream: samples go in, batches come out in the order of the samples.

This file is over 500 lines because Loader and Pipeline share the life of one handle.
"""

from __future__ import annotations

import _thread
import atexit
import collections
import ctypes
import dataclasses
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from wavetrain import _border, _lent, _log, _native
from wavetrain._arrays import ArraysHook
from wavetrain._batch import Batch, python
from wavetrain._border import short
from wavetrain._causes import Causes, explained
from wavetrain._config import Backend, Config, to_native
from wavetrain._errors import EndOfStream, ShutdownError, Unsupported, WavetrainError
from wavetrain._fed import target
from wavetrain._interrupts import Kept
from wavetrain._library import (
    bad_chunks,
    call,
    call_on,
    failure,
    last_failure,
    library,
    new_error,
)
from wavetrain._loans import Loans
from wavetrain._owned import Opened, Owned
from wavetrain._sample import Sample, Served, uri_of
from wavetrain._stats import Stats, read_stats
from wavetrain._stores import files_and_uris, files_for, hook_of
from wavetrain._table import Column, Table, Tables, table_of
from wavetrain._trace import write_trace
from wavetrain._window import Window
from wavetrain._words import PIPELINE, PIPELINE_HAS, knows

SLICE_S = 0.1  # a wait is cut to these, so that Ctrl-C is heard
SLICE_NS = int(SLICE_S * 1e9)
CLOSE_SLICE_NS = 1_000_000_000  # longer: where one runs out, the library warns
CLOSE_S = 10.0
BLOCK_ALIGN = 4096  # of host_align


class End:
    """Stands among pending iterables for a flush."""


OF_CONFIG = {
    field.name: f"give Pipeline(Config({field.name}=..))" for field in dataclasses.fields(Config)
}


@knows({**PIPELINE, **OF_CONFIG})
class Pipeline(Opened):
    """Streams samples into batches::

        cfg = wavetrain.Config(samples_per_batch=8, sample_shape=(64, 128, 128))
        with wavetrain.Pipeline(cfg) as pipeline:
            pipeline.push(samples)
            for batch in pipeline.batches(100):
                with batch:
                    x = torch.from_dlpack(batch)

    `fit` names arrays: caps that are too small for them are raised. `files` serves files that are
    not in the file system: wavetrain.fsspec(fs), wavetrain.store(store), or an object with size and
    read (`Files`). Without it, it is the store of the zarr.Array that `fit` has or, without `fit`,
    of the first samples. The pipeline is then opened a second time as they are pushed. An array of
    another store, or on disk, is an error then.

    All memory is taken and all threads are started here; nothing is allocated by the library after
    that. Methods may be called from any thread. A process that was forked cannot go on with the
    pipelines of its parent: open them where they are used.
    """

    instead = "open one where it is used, with the same Config, which can be"
    others = PIPELINE_HAS
    shares = False  # with other processes

    def __init__(self, config: Config, *, files: Any = None, fit: Iterable[Any] = ()) -> None:
        given: Any = config
        if not isinstance(given, Config):
            raise TypeError(f"config must be a wavetrain.Config (got {short(given)})")
        if config.share_name is not None and not self.shares:
            raise ValueError("share_name is set: open it with wavetrain.serve(config, name, n)")
        self._config = config
        self._names = tuple([field.name for field in config.fields])
        self._lock = threading.RLock()
        self._pending: collections.deque[Iterator[Sample] | Tables | End] = collections.deque()
        self._orphans: list[Batch] = []  # popped by a call that an interrupt ended
        self._window = Window(config)  # pulled, and not in the lookahead yet
        files, uris = files_and_uris(files, fit)
        self._finds_store = files is None and not uris  # of the first samples
        loader = Loader(config, files, uris, reads=False)
        try:
            loader.windows.append(self._window)
            stats = read_stats(loader.handle)
            self._backend, self._reason = stats.backend, stats.backend_text
            self._device = self._find_device()
            if self._device >= 0:
                _lent.drivers[0] = config.cuda_driver
                warn_of_other_devices(config, self._device)
            self._open, self._loader = loader, loader.handle
        except BaseException:  # nobody has the pipeline, so nobody could close it
            self._loader = 0
            loader.close(CLOSE_S)
            raise

    def _find_device(self) -> int:
        if self._backend is not Backend.CUDA:
            return -1
        if self._config.device is not None:
            return self._config.device
        # The device of the context that is current on this thread, which there need not be.
        return ask_driver(self._config.cuda_driver, "cuCtxGetDevice")

    def __repr__(self) -> str:
        if not self._loader:
            return "<Pipeline, closed>"
        choice = self._reason.partition(", ")[0]  # of "host: auto, .. what the driver reported"
        return f"<Pipeline of {self._config.shapes}, {choice}>"

    @property
    def config(self) -> Config:
        """The config that it was opened with."""
        return self._config

    @property
    def device(self) -> int:
        """The CUDA device that batches are on; -1: host memory."""
        return self._device

    @property
    def backend(self) -> Backend:
        """The backend that was taken: HOST or CUDA. `stats().backend_text` has the reason."""
        return self._backend

    @property
    def pending(self) -> bool:
        """Whether samples were accepted that are not in the lookahead yet."""
        return bool(self._pending or self._window.count)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "a Pipeline gives batches one by one: iterate over pipeline.batches(), or "
            "pipeline.batches(n)"
        )

    def __enter__(self) -> Pipeline:
        return self

    def close(self) -> None:
        """Ends the pipeline: idempotent, and every later call is ShutdownError. Waits for reads in
        flight. Batches and tensors that live keep the memory of their slots, on a device all of it;
        it is freed when the last of them is gone. All else has ended by then: threads, descriptors,
        and what was borrowed of samples."""
        if self._loader:
            self._drop_all()
            self._open.close(CLOSE_S)
            self._loader = 0
        Loader.sweep()

    def _drop_all(self) -> None:
        """Everything that is not popped. A thread that is at the old iterables ends with them."""
        window = Window(self._config)
        self._open.windows.append(window)
        self._pending, self._window = collections.deque(), window
        while self._orphans:
            self._orphans.pop().release()

    def _check_open(self) -> None:
        if not self._loader:
            error = ShutdownError("the pipeline is closed: open another")
            error.what = "pipeline"
            raise error

    def push(self, samples: Iterable[Sample] | Tables) -> None:
        """Queues samples: a list, a generator, an endless one. Samples that the lookahead has no
        room for are pulled as pop makes room.

        A sample that is wrong by itself (its extents are not sample_shape) raises here, or in the
        call that pulls it, and ends its iterable. Those before it are queued, and others are not
        touched. So does an exception of the iterable. Errors that depend on the store are raised by
        pop, which then raises them again until reset, as push does."""
        self._check_open()
        try:
            if isinstance(samples, (str, bytes, Mapping)):
                raise TypeError("it gives no samples")
            given = samples if isinstance(samples, Tables) else iter(samples)
        except TypeError as error:
            raise TypeError(
                "samples must be an iterable of wavetrain.Sample: push([sample]) for one (got "
                f"{short(samples)})"
            ) from error
        with self._lock:
            self._pending.append(given)
            self._drain()

    def push_boxes(
        self,
        columns: Any,
        begins: Any = None,
        shape: Any = None,
        *,
        step: Any = None,
        at: Any = None,
        tags: Any = None,
    ) -> None:
        """Queues a table of samples, as `push` does one by one, from arrays of numbers::

            pipeline.push_boxes({"x": Column("images.npy", begins, (1, 3, 32, 32)), "y": labels})
            pipeline.push_boxes("images.npy", begins, shape)  # of one field: as Column takes them

        columns: by field, its name or number, a `Column`, or labels that are copied. Labels are an
            array of one for each sample, of up to 64 bytes, a list of numbers, or one for all.
        tags: a number for each sample, which its batch has, too; None: 0.

        Nothing of Python is made for a sample: a thousand random boxes cost as much as a hundred
        numbers of `push`. Arrays are copied here; what the lookahead has no room for is pushed as
        pop makes room. ValueError names the column that is wrong, and the row."""
        self._check_open()
        if begins is not None:
            columns = Column(columns, begins, shape, step=step, at=at)
        self.push(Tables([self._table(columns, tags)]))

    def _table(self, columns: Any, tags: Any = None) -> Table:
        return table_of(columns, tags, self._window.fields)

    def lend(self, arrays: Any, *, event: Any = None) -> None:
        """Lends your own memory for one batch, which is written there instead of to a slot::

            ring = [torch.empty(8, 64, 64, pin_memory=True) for _ in range(3)]
            for tensor in ring:
                pipeline.lend(tensor)
            for batch in pipeline.batches(100):
                x = batch.lent.cuda(non_blocking=True)  # the very tensor
                batch.release()
                pipeline.lend(batch.lent)  # once the copy is over

        arrays: of the shape and type of a batch, row-major: of numpy, torch, or an object with
            __array_interface__, DLPack, __cuda_array_interface__ or a buffer. With Config.fields a
            dict of one for each field. In CPU memory, or on the device that batches are on.
        event: on a device, after which the memory may be written: a CUevent as an int, an event
            of torch or cupy, or a stream of theirs. None: after the work that the current stream
            of the array's library has queued.

        The next batches that get memory take lent memory in this order, and slots of the pipeline
        if nothing is lent. With Config.lent_slots = n there are no slots, and up to n memories at a
        time. `batch.lent` is what was given here. It is given back once the batch is released and
        its tensors and arrays are gone. If no popped batch lies in it, it is given back after reset
        or close. Until then it is kept. TryAgain: as many as can be are lent."""
        self._check_open()
        with self._lock:
            if self._open.loans is None:
                self._open.loans = Loans(self._loader, self._config, self._device)
        self._open.loans.lend(arrays, event)

    def flush(self) -> None:
        """Declares that these were all samples, for now: the rest is a smaller batch, and then pop
        raises EndOfStream. The next push begins anew."""
        self._check_open()
        with self._lock:
            self._pending.append(End())
            self._drain()

    def _drain(self) -> None:
        """Hands samples over until there is no room. An iterable that fails is dropped."""
        while self.pending:
            if not self._window.count:
                self._pull()
            if self._finds_store and self._window.count:
                self._find_store()
            if self._window.count and not self._hand_over():
                return

    def _pull(self) -> None:
        """The next samples of the first iterable, or the flush that is first."""
        pending, first = self._pending, self._pending[0]
        if isinstance(first, End):
            self._window.cut()
            status = library().wavetrain_flush(self._loader)
            if status != _native.OK:
                raise self._explained(last_failure("flush", status, self._loader))
            pending.popleft()
            return
        try:
            if not self._window.fill(first):
                pending.popleft()
        except BaseException:
            pending[0] = iter(())  # what it gave before it failed is still pushed
            raise
        self._check_open()

    def _find_store(self) -> None:
        """Opens the pipeline anew if its first samples are in a store that only zarr-python reads.
        Nothing was handed over yet. One of the two is open at a time, as each takes all memory."""
        try:
            files = files_for(None, self._window.names())
        except ValueError:
            self._drop_pulled()
            self._window.uris.clear()
            raise
        self._finds_store = False
        if files is None or self._open.loans is not None:
            return
        self._open.close(CLOSE_S)
        try:
            self._open = Loader(self._config, files, [], reads=False)
        except BaseException:
            self._loader = 0
            raise
        self._open.windows.append(self._window)
        self._loader = self._open.handle

    def _drop_pulled(self) -> None:
        """The sample that was pulled and not handed over, and the rest of its iterable."""
        self._window.drop()
        if self._pending and not isinstance(self._pending[0], End):
            self._pending.popleft()

    def _hand_over(self) -> bool:
        """Whether all that was pulled found room."""
        status = self._window.push(self._loader)
        if status in (_native.OK, _native.AGAIN):
            return status == _native.OK
        error = last_failure("push", status, self._loader)
        if self._window.table is not None:  # of which the library had the rows from one on
            row = f"row {self._window.begin}:"
            error.args = (re.sub(r"^push: row \d+:", f"push: {row}", str(error)),)
        for uri in self._window.names():
            if isinstance(uri, Served) and isinstance(error, Unsupported) and uri in str(error):
                error.args = (
                    f"push: {uri} is in a store, and this pipeline has begun without it: open "
                    "another one for the store, with fit=[array]",
                )
        self._drop_pulled()
        raise self._explained(error)

    def pop(self, *given: NoReturn, **named: NoReturn) -> Batch:
        """The next batch, as soon as it is complete.

        PoolStarved after Config.pop_timeout_s: a later pop gets the same batch. EndOfStream after a
        flush. A fault of a store (NotFound, DtypeMismatch, RankMismatch, StorageError, DecodeError
        ..) is raised after all batches before it, and again until reset."""
        if given or named:
            raise TypeError("pop takes nothing: Config(pop_timeout_s=..) is how long it waits")
        self._check_open()
        limit = self._config.pop_timeout_s
        deadline = math.inf if limit is None else time.monotonic() + limit
        while True:
            loader = self._loader
            try:
                return self._pop(limit, deadline)
            except ShutdownError:
                with self._lock:  # another thread may be opening it anew
                    if self._loader in (0, loader):
                        raise

    def _pop(self, limit: float | None, deadline: float) -> Batch:
        batch, window = Batch(self._loader, self._names), self._window
        try:
            self._top_up()
            if self._orphans:
                batch = self._orphans.pop()
                return self._given(window, batch)
            wait = SLICE_NS if limit is None or limit > SLICE_S else int(limit * 1e9)
            handle = ctypes.byref(batch.handle)
            if library().wavetrain_pop(self._loader, wait, handle, None) != _native.OK:
                self._pop_late(handle, deadline)
            return self._given(window, batch)
        except BaseException:
            if batch.handle.value:  # an interrupt came after the call: the next pop gives it
                self._orphans.append(batch)
            raise

    def _given(self, window: Window, batch: Batch) -> Batch:
        """A batch that was popped, with the memory that it lies in, and without what its samples
        borrowed."""
        if window.held:
            window.let_go(batch.batch_id)
        if self._open.loans is not None:
            batch.take_loan(self._open.loans.of)
        return batch

    def _pop_late(self, handle: Any, deadline: float) -> None:
        """Waits on. Apart from the first slice, for which Kept, which has system calls, costs too
        much; the exception that ended that is raised again."""
        error = new_error()
        while True:
            self._top_up()
            left = deadline - time.monotonic()
            wait = SLICE_NS if left > SLICE_S else max(1000, int(left * 1e9))
            with Kept():
                pop = library().wavetrain_pop
                status = pop(self._loader, wait, handle, ctypes.byref(error))
            if status == _native.OK:
                return
            if status != _native.STARVED or left <= SLICE_S:
                raise self._explained(failure("pop", status, error))

    def _top_up(self) -> None:
        """Fills the lookahead, unless another thread is at it."""
        if not self.pending or not self._lock.acquire(blocking=False):
            return
        try:
            self._drain()
        except WavetrainError:
            # If the stream has failed pop reports it, after the batches before. A push of nothing
            # distinguishes that from a sample that is wrong by itself.
            size, taken = ctypes.sizeof(_native.Sample), ctypes.c_size_t()
            push = library().wavetrain_push
            if push(self._loader, None, 0, size, 0, ctypes.byref(taken)) == _native.OK:
                raise
        finally:
            self._lock.release()

    def _explained(self, error: WavetrainError) -> WavetrainError:
        """With the exception of the program's own files or arrays that caused it."""
        for causes in self._open.causes:
            causes.explain(error)
        return error

    def batches(self, n: int | None = None) -> Iterator[Batch]:
        """Pops n batches; without n flushes, and pops all that were pushed."""
        return Batches(self, None if n is None else _border.whole("n", n, 0, _border.I64_MAX))

    def reset(self) -> None:
        """Drops every sample that is not popped, also those of pending iterables, and forgets an
        error of the stream. Held batches and tensors stay. Metadata and indexes stay cached, and
        the version of each file is asked for again before it is used."""
        self._check_open()
        with self._lock, Kept():
            call_on("reset", self._loader)
            # Nothing is borrowed now. A thread that waits in pop has the window before.
            del self._open.windows[:]
            if self._open.loans is not None:
                self._open.loans.reset()
            self._drop_all()

    def forget(self, uri: str | os.PathLike[str] | None = None) -> None:
        """Forgets what is cached of the array at `uri`, or of all arrays: documents, descriptors,
        indexes and decoded chunks. The next sample that names the array finds it as it is then. For
        objects of `files=` and fsspec, whose version is their size alone."""
        self._check_open()
        name = None if uri is None else uri_of(uri).encode()
        call_on("forget", self._loader, name)

    def stats(self) -> Stats:
        """Figures so far. print() shows them as a table."""
        self._check_open()
        return read_stats(self._loader)

    def stats_reset(self) -> None:
        """Sets the figures to 0, but for those of memory."""
        self._check_open()
        call_on("stats_reset", self._loader)

    def bad_chunks(self) -> list[WavetrainError]:
        """Why chunks could not be read, each once with the first sample that needed it, in the
        order in which they failed. Config.on_error is "skip" or "nan"; 64 are kept, until reset,
        and stats().bad_chunks counts all."""
        self._check_open()
        return bad_chunks(self._loader)

    def trace(self, path: str | os.PathLike[str]) -> int:
        """Writes the last `Config.trace_events` events of stages, since the figures began, to a
        JSON file that https://ui.perfetto.dev shows: the work of each thread, by stages. How
        many."""
        self._check_open()
        return write_trace(self._loader, self._config.trace_events, path)


class Batches(Owned):
    """An iteration of `Pipeline.batches`, which begins with the first batch that is asked for."""

    instead = "send the samples, or numpy.array(batch) of each batch of a list"

    def __init__(self, pipeline: Pipeline, left: int | None) -> None:
        self.pipeline, self.left = pipeline, left  # None: to the end
        self.has_begun = self.is_over = False

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Batch:
        if self.is_over or self.left == 0:
            raise StopIteration
        if self.left is None and not self.has_begun:
            self.pipeline.flush()
            self.has_begun = True
        try:
            batch = self.pipeline.pop()
        except EndOfStream:
            if self.left is not None:
                raise
            self.is_over = True
            raise StopIteration from None
        if self.left is not None:
            self.left -= 1
        return batch


class Loader(Owned):
    """An open loader of the library, and what it uses of Python's for as long as it is open."""

    alive: ClassVar[set[Loader]] = set()
    # Those that a batch or a tensor outlived.
    waiting: ClassVar[set[Loader]] = set()

    def __init__(self, config: Config, files: Any, fit: list[str], *, reads: bool) -> None:
        self.handle = 0
        self.waiter = threading.Lock()  # held, and never given back, by the thread that waits
        self.windows: list[Window] = []  # which hold what the library borrows
        self.loans: Loans | None = None  # which hold what is lent
        self.memory = None if config.memory is None else Memory(config.memory)
        Loader.sweep()
        self.metadata = config.metadata  # which the library has borrowed
        native, handle = to_native(config), ctypes.c_uint64()
        native.device = device_of(config)
        native.n_readers = config.n_readers if reads else 0
        native.log_level, native.log.log = _log.least(), _log.HOOK
        self.hook = None if files is None else hook_of(files, 2 * config.n_io_threads)
        self.arrays = None if config.source is None else ArraysHook(config.source)
        self.causes: list[Causes] = []
        if self.memory is not None:
            self.memory.fill(native)
        try:
            if self.hook is not None:
                self.hook.fill(native)
                self.causes.append(self.hook.causes)
            if self.arrays is not None:
                self.arrays.fill(native.source)
                self.causes.append(self.arrays.causes)
            if fit:
                with explained(*self.causes), Kept():
                    raise_caps(native, fit)
            with Kept():
                call("open", ctypes.byref(native), ctypes.byref(handle))
            self.handle = handle.value
            Loader.alive.add(self)
        except BaseException:
            self.handle = handle.value  # open, if an interrupt came after it
            if self.handle:
                self.close(CLOSE_S)
            elif self.hook is not None:
                self.hook.close()
            raise

    def close(self, timeout_s: float) -> None:
        """Waits that long for work in flight, and leaves the rest to a thread that waits."""
        deadline, held = time.monotonic() + timeout_s, ctypes.c_uint32()
        wait = min(CLOSE_SLICE_NS, int(timeout_s * 1e9))
        while self.handle:
            begin = time.monotonic_ns()
            with Kept():
                status = library().wavetrain_close(self.handle, wait, ctypes.byref(held))
            if status != _native.AGAIN:
                self.end()
            elif held.value and time.monotonic_ns() - begin < wait:
                # Batches and tensors alone are left: nothing of Python's is called or read.
                self.let_go()
                self.leave()
                return
            elif time.monotonic() > deadline:
                self.leave()
                return
        Loader.waiting.discard(self)

    def let_go(self) -> None:
        """Lets go of the objects of Python that the library has used."""
        self.windows.clear()
        if self.loans is not None:
            self.loans.reset()
        hook, self.hook, self.arrays = self.hook, None, None
        if hook is not None:
            hook.close()

    def end(self) -> None:
        """It is closed, whoever did it."""
        self.handle = 0
        Loader.alive.discard(self)
        Loader.waiting.discard(self)
        self.let_go()
        self.loans = self.memory = self.metadata = None

    def leave(self) -> None:
        """Leaves it to a thread that waits for the last batch and tensor, which consumers delete
        without a word to Python. Not one of threading's, whose start takes a lock that this thread
        may have: close is called by destructors, too."""
        Loader.waiting.add(self)
        if not self.waiter.acquire(blocking=False):
            return
        try:
            _thread.start_new_thread(self.wait, (self.handle,))
        except RuntimeError:  # no thread is to be had, or the interpreter ends: the next sweep
            self.waiter.release()

    def wait(self, handle: int) -> None:
        library().wavetrain_close(handle, _native.UNTIL_RELEASED, None)
        self.end()

    @staticmethod
    def sweep() -> None:
        """Closes at once what nothing keeps any more, so that whoever opens a pipeline need not
        wait for the threads that do the same."""
        for loader in list(Loader.waiting):
            loader.close(0)

    @staticmethod
    def close_all() -> None:
        """At the end of the process: no thread of the library may call Python after it. Memory that
        one may still read is never freed."""
        for loader in list(Loader.alive):
            loader.close(CLOSE_S)
        for loader in Loader.alive:
            python.Py_IncRef(ctypes.py_object(loader))


atexit.register(Loader.close_all)


class Memory(Owned):
    """The block that a loader lives in."""

    def __init__(self, given: Any) -> None:
        try:
            self.place = target(given)  # which keeps it
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("array", "memory", 1)) from None
        low, high = self.place.reach()
        count = math.prod(self.place.shape) * self.place.itemsize
        if high - low != count:
            raise ValueError(f"memory must be without gaps (got strides {self.place.strides})")
        begin = (self.place.data if isinstance(self.place.data, int) else 0) + low
        self.begin, self.end = -(-begin // BLOCK_ALIGN) * BLOCK_ALIGN, begin + count

    def fill(self, native: _native.Config) -> None:
        """A loader that it belongs to has it alone."""
        others = [loader.memory for loader in Loader.alive | Loader.waiting]
        if any(other and other.begin < self.end and self.begin < other.end for other in others):
            raise ValueError(
                "memory is that of another pipeline until this one is closed and its batches and "
                "tensors are gone"
            )
        native.memory.host_block = self.begin
        native.memory.host_block_bytes = max(0, self.end - self.begin)
        native.max_host_memory_bytes = native.max_host_memory_bytes or max(1, self.end - self.begin)


def raise_caps(native: _native.Config, uris: list[str]) -> None:
    scratch = ctypes.create_string_buffer(_native.SCRATCH_BYTES)
    names = (ctypes.c_char_p * len(uris))(*(uri.encode() for uri in uris))
    call("config_fit", ctypes.byref(native), names, len(uris), scratch, len(scratch))


def device_of(config: Config) -> int:
    """The library's: -1 is the context that is current on this thread, without which there is no
    device for it."""
    if config.device is not None:
        return config.device
    if config.backend is Backend.HOST:
        return -1
    context = ctypes.c_void_p()
    try:
        driver = ctypes.CDLL(config.cuda_driver or "libcuda.so.1")
        status = driver.cuCtxGetCurrent(ctypes.byref(context))
    except (AttributeError, OSError):  # no driver: the library reports it
        return -1
    return -1 if status == 0 and context.value else 0


def ask_driver(driver: str | None, name: str) -> int:
    """A number of the CUDA driver; 0 if it has none."""
    number = ctypes.c_int(0)
    status = getattr(ctypes.CDLL(driver or "libcuda.so.1"), name)(ctypes.byref(number))
    return 0 if status else number.value


def warn_of_other_devices(config: Config, device: int) -> None:
    """Warns if the processes of a node, one per GPU, may all be on the same."""
    count = ask_driver(config.cuda_driver, "cuDeviceGetCount")
    rank = os.environ.get("LOCAL_RANK", "")
    place = f"batches are on CUDA device {device} of {count}"
    if rank.isdigit() and device != int(rank) < count:
        text = f"LOCAL_RANK is {rank}, but {place}: set Config.device = {rank}"
    elif config.device is None and count > 1 and not rank:
        text = f"{place}, that of the current context: set Config.device to be sure"
    else:
        return
    warnings.warn(text, RuntimeWarning, stacklevel=3)
