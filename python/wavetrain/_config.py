"""The settings of a pipeline: their types, their limits, and how they reach the library.

This file is over 500 lines because Config has its documentation, its defaults and its checks here.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import importlib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast, overload

from wavetrain import _border, _native
from wavetrain._border import I32_MAX, U64_MAX, short
from wavetrain._library import library
from wavetrain._settings import LIMITS
from wavetrain._words import CONFIG, knows

Given = TypeVar("Given")
Stored = TypeVar("Stored")


class Dtype(enum.IntEnum):
    """Type of the elements of a batch; those of the arrays are cast to it."""

    F32 = _native.F32
    BF16 = _native.BF16
    F16 = _native.F16
    I32 = _native.I32
    I64 = _native.I64
    U8 = _native.U8
    I8 = _native.I8
    U16 = _native.U16
    I16 = _native.I16
    U32 = _native.U32
    U64 = _native.U64
    F64 = _native.F64
    BOOL = _native.BOOL
    C64 = _native.C64
    C128 = _native.C128
    RAW = _native.RAW  # bytes without a meaning, Config.dtype_bytes of them per element

    @classmethod
    def coerce(cls, value: Any) -> Dtype:
        """From itself, its number, a name ("f32", "float32"), or a dtype of numpy or torch.

        >>> Dtype.coerce("f32") is Dtype.F32
        True
        >>> Dtype.coerce("BFloat16") is Dtype.BF16
        True
        """
        # numpy.dtype("u2") prints "uint16", numpy.uint16 is named so, torch.uint16 has its module.
        word = str(getattr(value, "__name__", value)).upper().rpartition(".")[2]
        for long, brief in (("COMPLEX", "C"), ("FLOAT", "F"), ("UINT", "U"), ("INT", "I")):
            word = word.replace(long, brief)
        if isinstance(value, cls):
            return value
        if word in cls.__members__:
            return cls[word]
        try:
            return _border.choice("dtype", value, cls)
        except ValueError as error:
            of_numpy = re.fullmatch("([FIU])([1248])", word)
            fix = f", which is {of_numpy[1]}{8 * int(of_numpy[2])} here".lower() if of_numpy else ""
            raise ValueError(f"unknown dtype: {short(value)}{fix}") from error

    @property
    def dtype(self) -> Any:
        """The dtype of numpy, so that numpy takes a Dtype: numpy.zeros(shape, info.dtype).
        TypeError for RAW, and for BF16 without ml_dtypes.

        >>> Dtype.U16.dtype
        dtype('uint16')
        """
        if self is Dtype.RAW:
            raise TypeError(
                "Dtype.RAW is not a type of numpy: its elements are Config.dtype_bytes bytes, so "
                "give numpy an axis of them more, as batch.numpy() has, and 'uint8'"
            )
        numpy: Any = importlib.import_module("numpy")
        if self is not Dtype.BF16:
            return numpy.dtype(NUMPY[self])
        try:
            return numpy.dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError as error:
            raise TypeError("numpy has no bfloat16: pip install ml_dtypes") from error


# numpy's name of a type. bfloat16 is of ml_dtypes; raw bytes have no type of their own.
NUMPY = {
    Dtype.F32: "f4",
    Dtype.F16: "f2",
    Dtype.I32: "i4",
    Dtype.I64: "i8",
    Dtype.U8: "u1",
    Dtype.I8: "i1",
    Dtype.U16: "u2",
    Dtype.I16: "i2",
    Dtype.U32: "u4",
    Dtype.U64: "u8",
    Dtype.F64: "f8",
    Dtype.BOOL: "?",
    Dtype.C64: "c8",
    Dtype.C128: "c16",
}


class Backend(enum.IntEnum):
    """The place of batches."""

    AUTO = _native.BACKEND_AUTO  # a GPU where there is one that will do, else the host
    HOST = _native.BACKEND_HOST
    CUDA = _native.BACKEND_CUDA


class OnError(enum.IntEnum):
    """The effect of a sample that fails on its stream."""

    FAIL = _native.ON_ERROR_FAIL  # it ends, until Pipeline.reset
    SKIP = _native.ON_ERROR_SKIP  # the sample holds pad_value; BatchInfo.statuses has its status
    NAN = _native.ON_ERROR_NAN  # as SKIP, but floats are NaN, of a bad chunk its own alone


class MissingChunks(enum.IntEnum):
    """The meaning of a chunk that does not exist."""

    FILL = _native.MISSING_FILL  # the array's fill value
    ERROR = _native.MISSING_ERROR  # NotFound


class PadMode(enum.IntEnum):
    """The elements that a box reads outside of its array, as numpy.pad."""

    NONE = _native.PAD_NONE  # such a box is refused
    CONSTANT = _native.PAD_CONSTANT  # pad_value, else the array's fill value
    EDGE = _native.PAD_EDGE
    REFLECT = _native.PAD_REFLECT


class ShareOrder(enum.IntEnum):
    """The order in which processes that share batches get them."""

    ROUND = _native.SHARE_ROUND  # batch k is for consumer k modulo their number
    FIRST = _native.SHARE_FIRST  # batches are for the consumer that pops first
    ALL = _native.SHARE_ALL  # each batch is for all, which may not write to it


class OnConsumerLost(enum.IntEnum):
    """The effect of a consumer that ends without a close, closes while batches wait for it, or does
    not attach in time."""

    FAIL = _native.LOST_FAIL  # the stream ends for all, with ShutdownError
    SKIP = _native.LOST_SKIP  # its batches are dropped, and counted as Stats.batches_lost


class DeviceDecode(enum.IntEnum):
    """The chunks that a device decodes: LZ4, zstd if it is ON, and blosc of both."""

    AUTO = _native.DECODE_AUTO
    OFF = _native.DECODE_OFF
    ON = _native.DECODE_ON


class NumaStrategy(enum.IntEnum):
    """The NUMA node of memory and threads.

    AUTO takes that of the device, or of the thread that opens, PIN_TO takes numa_node, and DISABLED
    leaves both to the system.
    """

    AUTO = _native.NUMA_AUTO
    DISABLED = _native.NUMA_OFF
    PIN_TO = _native.NUMA_PIN


@dataclasses.dataclass(frozen=True, kw_only=True)
class LatencyModel:
    """Synthetic latency of metadata, for benches: each request to the store that is not a read of
    chunks sleeps for baseline_ns + min(exp(mu + sigma * z), cap_ns) nanoseconds before it is made.
    z is a normal number, by the seed and the number of the request. The random part is 0 if mu
    and sigma are, and has no cap if cap_ns is 0. `Stats.metadata_latency_ops` and the figures
    after it report the sleeps."""

    baseline_ns: int = 0
    lognormal_mu_ln_ns: float = 0.0
    lognormal_sigma_ln_ns: float = 0.0
    cap_ns: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                value = _border.whole(field.name, value, 0, U64_MAX)
            else:
                value = _border.finite(field.name, value)
            if field.name == "lognormal_sigma_ln_ns" and value < 0:
                raise ValueError(f"{field.name} must be 0 or more (got {value})")
            object.__setattr__(self, field.name, value)


class Coerced(Generic[Given, Stored]):
    """A field that takes several spellings of a value and keeps one."""

    def __init__(self, coerce: Callable[[Any], Stored], default: Stored) -> None:
        self.coerce, self.default = coerce, default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Stored: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Stored: ...
    def __get__(self, instance: object | None, owner: type) -> Stored:
        return self.default if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: object, value: Given) -> None:
        instance.__dict__[self.name] = self.coerce(value)


class Choice(Coerced["_border.Choice | str | int", _border.Choice]):
    """A field that is one of an enum: a member, its name in any case, or its number."""

    def __init__(self, default: _border.Choice) -> None:
        super().__init__(lambda value: _border.choice(self.name, value, type(default)), default)


def dtype_field(value: Any) -> Dtype:
    try:
        return Dtype.coerce(value)
    except ValueError as error:
        names = ", ".join(member.name.lower() for member in Dtype)
        text = f"dtype: {error}; it is one of {names}, or a dtype of numpy or torch"
        raise ValueError(text) from error


@knows({"shape": CONFIG["shape"]})
@dataclasses.dataclass(frozen=True)
class Field:
    """A tensor of each batch, [samples, *sample_shape], and what it is made like: an image, its
    mask, a label. A sample has a part of it, made of its boxes (`Box.field`).

    name: 1 to 63 bytes, without '/'.
    sample_shape: extents of a sample, up to 16 axes; (): one element for each.
    dtype, dtype_bytes, pad_mode, pad_value: as of Config. Places that no box covers hold pad_value.
    cf: arrays are decoded by the CF conventions, as if their uris ended with #cf=1: missing values
        are NaN, others x * scale_factor + add_offset. Only zarr arrays; what is fed stays as it is.

    >>> Field("label", dtype="int64").dtype is Dtype.I64
    True
    """

    name: str
    sample_shape: Sequence[int] = ()
    dtype: Coerced[Any, Dtype] = Coerced(dtype_field, Dtype.F32)
    dtype_bytes: int = 0
    pad_mode: Choice[PadMode] = Choice(PadMode.NONE)
    pad_value: float | None = None
    cf: bool = False

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "cf", _border.flag("cf", self.cf))
        keep(self, "name", _border.label("name", self.name, _native.NAME_BYTES - 1))
        keep(self, "sample_shape", shape(self.sample_shape, 0))
        keep(self, "dtype_bytes", _border.whole("dtype_bytes", self.dtype_bytes, 0, 16))
        if self.pad_value is not None:
            keep(self, "pad_value", _border.real("pad_value", self.pad_value))


def number(name: str, default: int | None = None, most: int | None = None) -> Any:
    """A whole number with the default and the limits of the library, or others."""
    of_library, low, high = LIMITS[name]
    limits = (low, high if most is None else most)
    return dataclasses.field(
        default=of_library if default is None else default, metadata={"limits": limits}
    )


# Fields that are true or false, and no part of a field's description.
FLAGS = ("keep_loaded", "map_uncompressed", "saturate", "share_owner", "check_memory", "cf")


@knows(CONFIG)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a pipeline, fixed when it opens: nothing grows after that. `Config` refuses a
    wrong value by its name; `Pipeline` checks combinations and the machine.

    Variants are made by dataclasses.replace:

    >>> import dataclasses
    >>> base = Config(samples_per_batch=8, sample_shape=(8, 16), max_gpu_memory_bytes=1 << 30)
    >>> base.dtype is Dtype.F32
    True
    >>> dataclasses.replace(base, samples_per_batch=64, lookahead_samples=128).samples_per_batch
    64
    >>> Config(samples_per_batch=0, sample_shape=(8, 16), max_gpu_memory_bytes=1 << 30)
    Traceback (most recent call last):
        ...
    ValueError: samples_per_batch must be >= 1 (got 0)

    The batch:
        samples_per_batch: 1 to 1,048,576.
        sample_shape: extents of a sample, 1 to 16 axes.
        dtype: type of its elements: a Dtype, its number or name, a dtype of numpy or torch.
        dtype_bytes: bytes of an element where dtype is RAW; else 0.
        saturate: arrays of all numbers become an integer dtype: cut off towards 0, clamped to its
            limits; NaN is 0. False: only integers that always fit.
        cf: arrays are decoded by the CF conventions, as of Field.
        fields: several tensors in a batch: up to 8 of `Field`, in the place of sample_shape, dtype,
            dtype_bytes, pad_mode, pad_value and cf.
        max_boxes_per_sample: up to 255; 0: one for each field. Set it where boxes are a part of
            sample_shape, also where there are no fields.
        max_indices_per_sample: of the axes of boxes that are arrays of indices; of several such
            axes of a box their product. 0: such boxes are refused.
        drop_last: flush discards a batch that is not full.
        digest: each sample gets a digest of its bytes: Batch.digests.
        augment: boxes may have an Augment and an Affine, for which push keeps memory.
        max_resample_bytes: of voxels of boxes with an Affine, until they are resampled; 0: eight
            times the largest field.
    The place of batches:
        backend: auto (a GPU where one will do), host, cuda. `repr(pipeline)` says which and why.
        device: CUDA device. None: the one whose context is current on this thread, else 0.
        consumer_stream: a stream (torch, cupy, number) that batches are used on, which release
            waits for.
        numa_strategy: auto (the NUMA node of the device, or of the thread that opens), pin_to,
            disabled. Memory prefers the node, and the library's threads run on its CPUs of the
            thread's mask. Nothing is done on a machine with one node, or if the node is not known.
        numa_node: for pin_to; InvalidArgument if it is not there or has no memory. Else -1.
    Caps, in bytes, hard:
        max_gpu_memory_bytes: device memory; 0: the batch slots and 1 GiB.
        max_host_memory_bytes: host memory, pinned too; 0: slots, chunk cache and 256 MiB, or 16
            chunks of max_chunk_uncompressed_bytes where that is more, and what stacks and tables
            take beyond 32 MiB.
        max_chunk_uncompressed_bytes: a larger chunk is BudgetExceeded (see Pipeline's fit), unless
            it is a file that nothing compresses, of which only parts are read.
        max_read_op_bytes: to which neighbouring reads are merged.
        chunk_cache_bytes: for decoded chunks that are kept; 0: none.
    Depth:
        lookahead_samples: taken ahead of the batch that is planned, a batch or more; None: two
            batches, with a chunk cache more.
        n_batch_slots: batches filled, ready or held at a time.
        host_buffer_waves, max_chunks_per_wave, max_substreams_per_chunk (0: no limit).
    Workers and caches:
        n_io_threads: threads that wait for storage.
        n_decode_threads: threads that decode; 0: as many as CPUs, on a GPU less two, which the
            trainer's thread and the driver's keep busy, and 1 at least. CPUs are the least of the
            affinity mask, the cgroup's quota and those online, divided by the ranks of the node if
            a launcher names their number. `pipeline.stats().placement_text` names the reason.
        metadata: of arrays, which `wavetrain.metadata` looked up, on whatever machine. Loaders read
            none of it; a file that has changed since is a StorageError.
        cpus: numbers of the CPUs that wavetrain's threads may use. None: those of the thread that
            opens.
        metadata_io_concurrency, n_array_meta_cache, n_shard_index_cache, n_chunk_layout_cache.
        max_open_files: data files that are kept open; 0: an eighth of RLIMIT_NOFILE,
            at least 64.
        hook_stack_bytes: stack of a callback (files, source, log) on each of wavetrain's threads;
            0: 256 KiB, which is little for Python.
        max_shards_per_sample: that a box may touch; 0: no limit.
        device_decode: auto, off, on.
    Arrays:
        source: an object with describe and read (`Arrays`), which has the arrays "hook:NAME".
        max_npy_files: .npy files of all arrays that are folders of numbered ones, "FOLDER" or
            "FOLDER/NAME_*.npy". Pipeline's fit raises it.
    Behaviour:
        pop_timeout_s: after which pop is PoolStarved; None: never.
        reset_timeout_s: after which a reset that waits for reads raises; None: never.
        keep_loaded: the library stays loaded until the process ends.
        map_uncompressed: boxes of uncompressed chunks, .npy and raw files are copied out of
            mappings of the files, if these are on ext4, xfs, btrfs, tmpfs or overlayfs. Several
            times as fast for short rows. TRUNCATION OR A READ ERROR OF A MAPPED FILE ENDS THE
            PROCESS BY SIGBUS: files that are in use may be replaced, and not be written.
        map_bytes_max: address space for that, in windows of 1 GiB.
        n_readers: reads of a Reader that work at a time; others wait in order.
        lent_slots: n: batches lie in what `Pipeline.lend` was given alone, n of them at a time, and
            n_batch_slots does not count. 0: what is lent goes before the slots.
        memory: where the library takes all of its host memory, which then is its cap as well:
            a buffer that may be written, of numpy, torch, mmap. The pipeline keeps it to its end,
            and its batches to theirs. None: the system.
        check_memory: opening raises OutOfMemory for a budget beyond what the cgroup or the system
            has left, before memory is touched. False: nothing is checked.
        on_error: fail, skip, nan.
        missing_chunks: fill, error.
        pad_mode: none, constant, edge, reflect.
        pad_value: what padding and skipped samples hold; None: the fill value, and 0.
    Benches:
        metadata_latency: sleeps before requests for metadata, a LatencyModel; None: no sleeps.
        trace_events: events of stages that are kept for `Pipeline.trace`, of 56 bytes.
    Not built yet, refused when a pipeline opens:
        enable_gds=True.
    Other processes, see `wavetrain.serve`, which sets these:
        share_name: under which they attach, one of this user's on this machine: letters, digits,
            '-', '_' and '.'; with '/' the path of a socket. None: batches are this process's alone.
        share_consumers: their number, 1 to 64 with a share_name.
        share_order: round, first, all: the order in which they get batches.
        share_owner: True: this process pops as consumer 0; False: its pop gives no batch, and is
            EndOfStream once consumers have taken all.
        on_consumer_lost: fail, skip.
        attach_timeout_s: counted from open; a consumer without an attach is then lost. None: never.
    For tests:
        cuda_driver: path of the CUDA driver; None: libcuda.so.1.
    """

    samples_per_batch: int
    sample_shape: Sequence[int] = ()
    max_gpu_memory_bytes: int = number("max_gpu_memory_bytes")
    dtype: Coerced[Any, Dtype] = Coerced(dtype_field, Dtype.F32)
    lookahead_samples: int | None = None
    max_chunk_uncompressed_bytes: int = number("max_chunk_uncompressed_bytes")
    max_read_op_bytes: int = number("max_read_op_bytes")
    host_buffer_waves: int = number("host_buffer_waves")
    max_chunks_per_wave: int = number("max_chunks_per_wave")
    max_substreams_per_chunk: int = number("max_substreams_per_chunk")
    n_io_threads: int = number("n_io_threads")
    metadata_io_concurrency: int = number("metadata_io_concurrency")
    n_array_meta_cache: int = number("n_array_meta_cache")
    n_shard_index_cache: int = number("n_shard_index_cache")
    n_chunk_layout_cache: int = number("n_chunk_layout_cache")
    max_shards_per_sample: int = number("max_shards_per_sample")
    device: int | None = None
    pop_timeout_s: float | None = 30.0
    enable_gds: bool | None = None
    numa_strategy: Choice[NumaStrategy] = Choice(NumaStrategy.AUTO)
    numa_node: int = dataclasses.field(default=-1, metadata={"limits": (-1, I32_MAX)})
    metadata_latency: LatencyModel | None = None
    # Settings that damacy does not have.
    backend: Choice[Backend] = Choice(Backend.AUTO)
    max_host_memory_bytes: int = number("max_host_memory_bytes")
    n_decode_threads: int = number("n_decode_threads")
    n_batch_slots: int = number("n_batch_slots")
    chunk_cache_bytes: int = number("chunk_cache_bytes")
    dtype_bytes: int = number("dtype_bytes", most=16)
    drop_last: bool = False
    on_error: Choice[OnError] = Choice(OnError.FAIL)
    missing_chunks: Choice[MissingChunks] = Choice(MissingChunks.FILL)
    pad_mode: Choice[PadMode] = Choice(PadMode.NONE)
    pad_value: float | None = None
    consumer_stream: Any = None
    cuda_driver: str | None = None
    fields: Sequence[Field] = ()
    max_boxes_per_sample: int = number("max_boxes_per_sample")
    max_npy_files: int = number("max_npy_files")
    max_indices_per_sample: int = number("max_indices_per_sample")
    source: Any = None
    digest: bool = False
    augment: bool = False
    max_resample_bytes: int = number("max_resample_bytes")
    device_decode: Choice[DeviceDecode] = Choice(DeviceDecode.AUTO)
    hook_stack_bytes: int = number("hook_stack_bytes", default=1 << 20)
    max_open_files: int = number("max_open_files")
    keep_loaded: bool = True
    reset_timeout_s: float | None = 30.0
    map_uncompressed: bool = False
    map_bytes_max: int = number("map_bytes_max")
    n_readers: int = number("n_readers")
    lent_slots: int = number("lent_slots")
    trace_events: int = number("trace_events")
    memory: Any = dataclasses.field(default=None, compare=False, repr=False)
    share_name: str | None = None
    share_consumers: int = number("share_consumers")
    share_order: Choice[ShareOrder] = Choice(ShareOrder.ROUND)
    share_owner: bool = False
    on_consumer_lost: Choice[OnConsumerLost] = Choice(OnConsumerLost.FAIL)
    attach_timeout_s: float | None = 60.0
    check_memory: bool = True
    cpus: Sequence[int] | None = None
    saturate: bool = False
    cf: bool = False
    metadata: bytes | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def default(
        cls, *, samples_per_batch: int, sample_shape: Sequence[int] = (), **overrides: Any
    ) -> Config:
        """The same as Config(..): the defaults are the recommended values."""
        return cls(samples_per_batch=samples_per_batch, sample_shape=sample_shape, **overrides)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            limits = field.metadata.get("limits")
            if limits:
                self._keep(
                    field.name, _border.whole(field.name, getattr(self, field.name), *limits)
                )
        samples = _border.whole(
            "samples_per_batch", self.samples_per_batch, *LIMITS["samples_per_batch"][1:]
        )
        self._keep("samples_per_batch", samples)
        self._keep("fields", fields_of(self.fields))
        self._keep("sample_shape", shape(self.sample_shape, 0 if self.fields else 1))
        self._keep("drop_last", _border.flag("drop_last", self.drop_last))
        self._keep("digest", _border.flag("digest", self.digest))
        self._keep("augment", _border.flag("augment", self.augment))
        if self.lookahead_samples is not None:
            most = LIMITS["lookahead_samples"][2]
            ahead = _border.whole("lookahead_samples", self.lookahead_samples, 1, most)
            if ahead < samples:
                text = f"must be at least samples_per_batch = {samples}, or None"
                raise ValueError(f"lookahead_samples = {ahead} {text}")
            self._keep("lookahead_samples", ahead)
        if self.device is not None:
            self._keep("device", _border.whole("device", self.device, 0, I32_MAX))
        if self.enable_gds is not None:
            self._keep("enable_gds", _border.flag("enable_gds", self.enable_gds))
        if self.pad_value is not None:
            self._keep("pad_value", _border.real("pad_value", self.pad_value))
        if self.fields:
            self._check_own()
        if self.cuda_driver is not None:
            self._keep("cuda_driver", _border.path("cuda_driver", self.cuda_driver))
        if self.consumer_stream is not None:
            _border.handle("consumer_stream", self.consumer_stream)
        if self.source is not None:
            _border.methods("source", self.source, "describe(name)", "read(name, start, shape)")
        if self.share_name is not None:
            self._keep("share_name", _border.path("share_name", self.share_name))
        if self.cpus is not None:
            self._keep("cpus", cpu_numbers(self.cpus))
        if self.metadata is not None:
            self._keep("metadata", _border.octets("metadata", self.metadata))
        for name in FLAGS:
            self._keep(name, _border.flag(name, getattr(self, name)))
        for name in ("pop_timeout_s", "reset_timeout_s", "attach_timeout_s"):
            given = getattr(self, name)
            if given is None:
                continue
            limit = _border.real(name, given)
            if not limit > 0:  # nor is NaN
                raise ValueError(f"{name} must be > 0 or None (got {limit})")
            self._keep(name, limit)
        self._check_numa()
        latency: Any = self.metadata_latency
        if latency is not None and not isinstance(latency, LatencyModel):
            raise TypeError(
                f"metadata_latency must be a LatencyModel or None (got {short(latency)})"
            )

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_own(self) -> None:
        """With fields, settings of the one tensor without them have no effect."""
        for field in dataclasses.fields(Field)[1:]:
            if getattr(self, field.name) != field.default:
                raise ValueError(
                    f"{field.name} is set, and so is fields: each Field has its own {field.name}"
                )

    @property
    def shapes(self) -> str:
        """A batch in words: 8 x 64 x 64 f32, or the same of each field by its name."""

        def of(name: str, field: Config | Field) -> str:
            extents = " x ".join(map(str, (self.samples_per_batch, *field.sample_shape)))
            return f"{name}{extents} {field.dtype.name.lower()}"

        named = [of(f"{field.name} ", field) for field in self.fields]
        return ", ".join(named) or of("", self)

    def _check_numa(self) -> None:
        node, strategy = self.numa_node, self.numa_strategy
        if strategy is NumaStrategy.PIN_TO and node < 0:
            raise ValueError(f"numa_node must be >= 0 where numa_strategy is PIN_TO (got {node})")
        if strategy is not NumaStrategy.PIN_TO and node != -1:
            name = strategy.name
            raise ValueError(f"numa_node must be -1 where numa_strategy is {name} (got {node})")


def fields_of(given: Any) -> tuple[Field, ...]:
    """The table of fields, whose names differ."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, dict)):
        raise TypeError(f"fields must be a sequence of wavetrain.Field (got {short(given)})")
    items = cast("Iterable[Any]", given)
    fields = tuple(itertools.islice(items, _native.FIELDS_MAX + 1))
    names = set[str]()
    for number, field in enumerate(fields):
        if not isinstance(field, Field):
            raise TypeError(f"fields[{number}] must be a wavetrain.Field (got {short(field)})")
        if field.name in names:
            raise ValueError(
                f"fields[{number}] must have a name of its own (got {short(field.name)})"
            )
        names.add(field.name)
    _border.whole("the number of fields", len(fields), 0, _native.FIELDS_MAX)
    return fields


def shape(extents: Any, low: int) -> tuple[int, ...]:
    def extent(axis: int, given: Any) -> int:
        return _border.whole(f"sample_shape[{axis}]", given, 1, U64_MAX)

    return _border.axes("sample_shape", extents, low, extent)


# Fields that C has by the same name and that are numbers there as they are here.
SAME = [
    field.name
    for field in dataclasses.fields(Config)
    if field.metadata.get("limits") or isinstance(vars(Config).get(field.name), Coerced)
] + [
    *("samples_per_batch", "drop_last", "digest", "augment"),
    *FLAGS,
]


def cpu_numbers(cpus: Any) -> tuple[int, ...]:
    """The numbers of CPUs, of which Linux has 8,192 at most."""
    if isinstance(cpus, (str, bytes)) or not isinstance(cpus, Iterable):
        raise TypeError(f"cpus must be a list of numbers or None (got {short(cpus)})")
    given = cast("Iterable[Any]", cpus)
    numbers = tuple(_border.whole(f"cpus[{at}]", cpu, 0, 8191) for at, cpu in enumerate(given))
    if not numbers:
        raise ValueError("cpus is empty: name a CPU, or give None")
    return numbers


def nanoseconds(limit_s: float | None) -> int:
    """A limit as C has it. None, and limits of more than 64 bits, are never."""
    limit = math.inf if limit_s is None else limit_s
    return U64_MAX if limit >= U64_MAX / 1e9 else max(1, int(limit * 1e9))


def to_native_field(field: Field) -> _native.Field:
    native = _native.Field(name=field.name.encode(), sample_rank=len(field.sample_shape))
    native.sample_shape[: native.sample_rank] = field.sample_shape
    native.dtype, native.dtype_bytes = field.dtype, field.dtype_bytes
    native.pad_mode, native.cf = field.pad_mode, int(field.cf)
    if field.pad_value is not None:
        native.pad_value_set, native.pad_value = 1, field.pad_value
    return native


def lend_metadata(native: _native.Config, metadata: bytes | None) -> None:
    if metadata:
        native.metadata_bytes = len(metadata)
        native.metadata = ctypes.cast(ctypes.c_char_p(metadata), ctypes.c_void_p).value
        native.lent_metadata = metadata  # lives as long as what points to it


def to_native(config: Config) -> _native.Config:
    """The struct of wavetrain.h; fields that Config has not keep the library's defaults."""
    native = _native.Config()
    library().wavetrain_config_default(ctypes.byref(native), ctypes.sizeof(native))
    for name in SAME:
        setattr(native, name, int(getattr(config, name)))
    native.sample_rank = len(config.sample_shape)
    native.sample_shape[: native.sample_rank] = config.sample_shape
    if config.fields:
        table = (_native.Field * len(config.fields))(*map(to_native_field, config.fields))
        native.fields, native.n_fields = ctypes.addressof(table), len(table)
        native.field_bytes = ctypes.sizeof(_native.Field)
        native.table = table  # lives as long as what points to it
    native.lookahead_samples = config.lookahead_samples or 0
    native.reset_timeout_ns = nanoseconds(config.reset_timeout_s)
    native.attach_timeout_ns = nanoseconds(config.attach_timeout_s)
    if config.cpus is not None:
        words = (ctypes.c_uint64 * (max(config.cpus) // 64 + 1))()
        for cpu in config.cpus:
            words[cpu // 64] |= 1 << cpu % 64
        native.cpus, native.cpu_words = ctypes.addressof(words), len(words)
        native.cpu_table = words  # lives as long as what points to it
    lend_metadata(native, config.metadata)
    if config.share_name is not None:
        native.share_name = config.share_name.encode()
    native.device = -1 if config.device is None else config.device
    if config.enable_gds is not None:
        native.enable_gds = _native.GDS_ON if config.enable_gds else _native.GDS_OFF
    if config.pad_value is not None:
        native.pad_value_set, native.pad_value = 1, config.pad_value
    if config.consumer_stream is not None:
        native.consumer_stream = _border.handle("consumer_stream", config.consumer_stream)
    if config.cuda_driver is not None:
        native.cuda_driver = config.cuda_driver.encode()
    if config.metadata_latency is not None:
        for name, value in dataclasses.asdict(config.metadata_latency).items():
            setattr(native.metadata_latency, name, value)
    return native
