"""The headers of the archive in ctypes. tools/bindings.py writes this file: change them.

This file is over 500 lines because it is all of them.
"""

from __future__ import annotations

from ctypes import (
    CDLL,
    CFUNCTYPE,
    Array,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
VERSION = (VERSION_MAJOR << 16) | (VERSION_MINOR << 8) | VERSION_PATCH
OK = 0
AGAIN = 1
STARVED = 2
END = 3
RESET = 4
INVALID = -1
NOT_FOUND = -2
DTYPE = -3
RANK = -4
IO = -5
DECODE = -6
UNSUPPORTED = -7
CUDA = -8
OUT_OF_MEMORY = -9
BUDGET = -10
SHUTDOWN = -11
INTERNAL = -12
RANK_MAX = 16
URI_BYTES_MAX = 4095
ERROR_TEXT_BYTES = 512
SHORT_TEXT_BYTES = 256
NAME_BYTES = 64
CODECS_TEXT_BYTES = 384
MEMORY_LINES = 32
HISTOGRAM_BUCKETS = 32
CODEC_PLACES = 8
BY_WORKER_PLACES = 16
SCRATCH_BYTES = 4259840
FOREVER = 0xffffffffffffffff
TENSORS_PER_SLOT = 8
POP_TIMEOUT = 0xffffffffffffffff - 1
UNTIL_RELEASED = 0xffffffffffffffff - 2
NGFF_VERSION_BYTES = 16
FIELDS_MAX = 8
NO_INDEX = 0xffffffff
F32 = 1
BF16 = 2
F16 = 3
I32 = 4
I64 = 5
U8 = 6
I8 = 7
U16 = 8
I16 = 9
U32 = 10
U64 = 11
F64 = 12
BOOL = 13
C64 = 14
C128 = 15
RAW = 16
MEMORY_HOST = 0
MEMORY_PINNED = 1
MEMORY_DEVICE = 2
BOX_URI = 0
BOX_MEMORY = 1
BOX_VALUE = 2
NEAREST = 0
LINEAR = 1
BEGIN_IS_ONE = 1
SHAPE_IS_ONE = 2
STEP_IS_ONE = 4
AT_IS_ONE = 8
WHICH_IS_ONE = 16
VALUES_IS_ONE = 32
AUGMENT_IS_ONE = 64
AFFINE_IS_ONE = 128
CODEC_NONE = 0
CODEC_ZSTD = 1
CODEC_BLOSC = 2
CODEC_GZIP = 3
CODEC_ZLIB = 4
CODEC_LZ4 = 5
CODEC_BZ2 = 6
CODEC_LZMA = 7
STAGE_PLAN = 0
STAGE_META = 1
STAGE_IO = 2
STAGE_INPUT_TRANSFER = 3
STAGE_DECODE = 4
STAGE_POST_DECODE = 5
STAGE_DECODE_GAP = 6
STAGE_ASSEMBLE = 7
STAGE_BIND_WAIT = 8
STAGE_POP_WAIT = 9
STAGE_DIGEST = 10
STAGE_DEVICE_DECODE = 11
BY_WORKER_OFF = 0
BY_WORKER_CODEC = 1
BY_WORKER_KEPT = 2
BY_WORKER_UNNEEDED = 3
BY_WORKER_LARGE = 4
BY_WORKER_ARRAY = 5
BY_WORKER_BROKEN = 6
BY_WORKER_OTHER_CODEC = 7
BY_WORKER_STREAMS = 8
BY_WORKER_ROOM = 9
BY_WORKER_REFUSED = 10
NODE_UNKNOWN = 0
NODE_ARRAY = 1
NODE_GROUP = 2
NODE_IMAGE = 3
NODE_PLATE = 4
NODE_WELL = 5
SOURCE_NGFF = 1
SOURCE_CONSOLIDATED = 2
SOURCE_FOLDER = 4
PACKING_SCALE = 1
PACKING_OFFSET = 2
PACKING_FILL = 4
PACKING_UNSIGNED = 8
PACKING_UNKNOWN = 16
FILE_ABSENT = -1
FILE_FAILED = -2
FILE_CHANGED = -3
FILE_UNLISTED = -4
BACKEND_AUTO = 0
BACKEND_HOST = 1
BACKEND_CUDA = 2
THREADS_OWN = 0
THREADS_PUMP = 1
THREADS_HOOK = 2
ON_ERROR_FAIL = 0
ON_ERROR_SKIP = 1
ON_ERROR_NAN = 2
MISSING_FILL = 0
MISSING_ERROR = 1
PAD_NONE = 0
PAD_CONSTANT = 1
PAD_EDGE = 2
PAD_REFLECT = 3
GDS_AUTO = 0
GDS_OFF = 1
GDS_ON = 2
DECODE_AUTO = 0
DECODE_OFF = 1
DECODE_ON = 2
LOST_FAIL = 0
LOST_SKIP = 1
SHARE_ROUND = 0
SHARE_FIRST = 1
SHARE_ALL = 2
NUMA_AUTO = 0
NUMA_OFF = 1
NUMA_PIN = 2
LOG_TRACE = 0
LOG_DEBUG = 1
LOG_INFO = 2
LOG_WARN = 3
LOG_ERROR = 4
LOG_FATAL = 5
LOG_OFF = 6
EPOCH_MAX = 0x4000000000000000
EPOCH_NO_INDEX = 0xffffffffffffffff
EPOCH_SHUFFLE = 1
EPOCH_BY_BATCH = 2
EPOCH_DROP = 4
EPOCH_PAD = 8
EPOCH_REPEAT = 16
PURPOSE_SHUFFLE = 1
PURPOSE_SPLIT = 2
PURPOSE_WEIGHTED = 3
PURPOSE_MIXED = 4
PURPOSE_BOX = 5
PURPOSE_POINT = 6
PURPOSE_RUNS = 7
PURPOSE_WINDOW = 8
PURPOSE_TAIL = 9
PURPOSE_YOURS = 1024
BOXES_AXES = 16
BOXES_JITTER = 1
BOXES_GRID = 0
BOXES_ANYWHERE = 1
BOXES_AROUND = 2
RECIPE_CHANNELS = 64
RECIPE_ERASES = 8
RECIPE_NO_CHANNELS = 0xffffffff
RECIPE_DONE = 1
RECIPE_NUMBER = 0
RECIPE_FIELD = -1
RECIPE_NAME = -2
RECIPE_CROP = -3
RECIPE_ORDER = -4
RECIPE_ROOM = -5


class Error(Structure):
    struct_size: int
    status: int
    chunk_rank: int
    tag: int
    batch_id: int
    sample: int
    reserved: int
    chunk: Array[c_uint64]
    text: bytes

    _fields_ = [
        ("struct_size", c_size_t),
        ("status", c_int32),
        ("chunk_rank", c_uint32),
        ("tag", c_uint64),
        ("batch_id", c_uint64),
        ("sample", c_uint32),
        ("reserved", c_uint32),
        ("chunk", c_uint64 * RANK_MAX),
        ("text", c_char * ERROR_TEXT_BYTES),
    ]


class MemoryLine(Structure):
    name: bytes
    kind: int
    reserved: int
    bytes: int

    _fields_ = [
        ("name", c_char * NAME_BYTES),
        ("kind", c_uint32),
        ("reserved", c_uint32),
        ("bytes", c_uint64),
    ]


class Memory(Structure):
    struct_size: int
    host_bytes: int
    host_align: int
    pinned_bytes: int
    device_bytes: int
    slot_bytes: int
    threads: int
    line_count: int
    lines: Array[MemoryLine]
    shared_bytes: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("host_bytes", c_uint64),
        ("host_align", c_uint64),
        ("pinned_bytes", c_uint64),
        ("device_bytes", c_uint64),
        ("slot_bytes", c_uint64),
        ("threads", c_uint32),
        ("line_count", c_uint32),
        ("lines", MemoryLine * MEMORY_LINES),
        ("shared_bytes", c_uint64),
    ]


class Tensor(Structure):
    struct_size: int
    data: int | None
    dtype: int
    dtype_bytes: int
    device: int
    reserved: int
    shape: Array[c_uint64]
    strides: Array[c_int64]
    event: int | None

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("dtype", c_uint32),
        ("dtype_bytes", c_uint32),
        ("device", c_int32),
        ("reserved", c_uint32),
        ("shape", c_uint64 * RANK_MAX),
        ("strides", c_int64 * RANK_MAX),
        ("event", c_void_p),
    ]


class Erase(Structure):
    begin: Array[c_uint64]
    end: Array[c_uint64]
    values: int | None
    n_values: int
    reserved: int

    _fields_ = [
        ("begin", c_uint64 * RANK_MAX),
        ("end", c_uint64 * RANK_MAX),
        ("values", c_void_p),
        ("n_values", c_uint32),
        ("reserved", c_uint32),
    ]


class Augment(Structure):
    struct_size: int
    scale: int | None
    bias: int | None
    n_channels: int
    channel_axis: int
    clamp_low: float
    clamp_high: float
    has_clamp: int
    noise_sigma: float
    noise_key: int
    erase: int | None
    n_erase: int
    erase_bytes: int
    pad_goes_through: int
    reserved: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("scale", c_void_p),
        ("bias", c_void_p),
        ("n_channels", c_uint32),
        ("channel_axis", c_uint32),
        ("clamp_low", c_float),
        ("clamp_high", c_float),
        ("has_clamp", c_uint32),
        ("noise_sigma", c_float),
        ("noise_key", c_uint64),
        ("erase", c_void_p),
        ("n_erase", c_uint32),
        ("erase_bytes", c_uint32),
        ("pad_goes_through", c_uint32),
        ("reserved", c_uint32),
    ]


class Affine(Structure):
    struct_size: int
    rank: int
    axes: Array[c_uint32]
    matrix: Array[Array[c_double]]
    filter: int
    level: int
    has_units: int
    reserved: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_uint32),
        ("axes", c_uint32 * 3),
        ("matrix", (c_double * 4) * 3),
        ("filter", c_uint32),
        ("level", c_int32),
        ("has_units", c_uint32),
        ("reserved", c_uint32),
    ]


class IndexList(Structure):
    axis: int
    reserved: int
    indices: int | None
    n_indices: int

    _fields_ = [
        ("axis", c_uint32),
        ("reserved", c_uint32),
        ("indices", c_void_p),
        ("n_indices", c_uint64),
    ]


class Box(Structure):
    uri: bytes | None
    uri_bytes: int
    rank: int
    kind: int
    begin: Array[c_int64]
    end: Array[c_int64]
    field: int
    reserved: int
    at: Array[c_uint64]
    step: Array[c_int64]
    axes: Array[c_uint8]
    tensor: int | None
    augment: int | None
    affine: int | None
    lists: int | None
    n_lists: int
    list_bytes: int

    _fields_ = [
        ("uri", c_char_p),
        ("uri_bytes", c_uint64),
        ("rank", c_uint32),
        ("kind", c_uint32),
        ("begin", c_int64 * RANK_MAX),
        ("end", c_int64 * RANK_MAX),
        ("field", c_uint32),
        ("reserved", c_uint32),
        ("at", c_uint64 * RANK_MAX),
        ("step", c_int64 * RANK_MAX),
        ("axes", c_uint8 * RANK_MAX),
        ("tensor", c_void_p),
        ("augment", c_void_p),
        ("affine", c_void_p),
        ("lists", c_void_p),
        ("n_lists", c_uint32),
        ("list_bytes", c_uint32),
    ]


class Sample(Structure):
    boxes: int | None
    n_boxes: int
    box_bytes: int
    tag: int

    _fields_ = [
        ("boxes", c_void_p),
        ("n_boxes", c_uint32),
        ("box_bytes", c_uint32),
        ("tag", c_uint64),
    ]


class Column(Structure):
    struct_size: int
    field: int
    rank: int
    kind: int
    flags: int
    uris: int | None
    n_uris: int
    reserved: int
    which: int | None
    begin: int | None
    shape: int | None
    step: int | None
    at: int | None
    values: int | None
    value_dtype: int
    value_bytes: int
    augment: int | None
    augment_bytes: int
    affine_bytes: int
    affine: int | None

    _fields_ = [
        ("struct_size", c_size_t),
        ("field", c_uint32),
        ("rank", c_uint32),
        ("kind", c_uint32),
        ("flags", c_uint32),
        ("uris", c_void_p),
        ("n_uris", c_uint32),
        ("reserved", c_uint32),
        ("which", c_void_p),
        ("begin", c_void_p),
        ("shape", c_void_p),
        ("step", c_void_p),
        ("at", c_void_p),
        ("values", c_void_p),
        ("value_dtype", c_uint32),
        ("value_bytes", c_uint32),
        ("augment", c_void_p),
        ("augment_bytes", c_uint32),
        ("affine_bytes", c_uint32),
        ("affine", c_void_p),
    ]


class Field(Structure):
    name: bytes
    sample_rank: int
    dtype: int
    dtype_bytes: int
    pad_mode: int
    pad_value_set: int
    cf: int
    sample_shape: Array[c_uint64]
    pad_value: float

    _fields_ = [
        ("name", c_char * NAME_BYTES),
        ("sample_rank", c_uint32),
        ("dtype", c_uint32),
        ("dtype_bytes", c_uint32),
        ("pad_mode", c_uint32),
        ("pad_value_set", c_uint32),
        ("cf", c_uint32),
        ("sample_shape", c_uint64 * RANK_MAX),
        ("pad_value", c_double),
    ]


class BatchView(Structure):
    struct_size: int
    data: int | None
    bytes: int
    rank: int
    dtype: int
    dtype_bytes: int
    backend: int
    device: int
    sample_count: int
    shape: Array[c_uint64]
    ready_stream: int | None
    batch_id: int
    tags: int | None
    statuses: int | None
    failed_samples: int
    reserved: int
    filled_shape: int | None
    digests: int | None
    digest: int
    name: bytes | None
    lend_tag: int
    is_lent: int
    reserved2: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("bytes", c_uint64),
        ("rank", c_uint32),
        ("dtype", c_uint32),
        ("dtype_bytes", c_uint32),
        ("backend", c_uint32),
        ("device", c_int32),
        ("sample_count", c_uint32),
        ("shape", c_uint64 * (RANK_MAX + 1)),
        ("ready_stream", c_void_p),
        ("batch_id", c_uint64),
        ("tags", c_void_p),
        ("statuses", c_void_p),
        ("failed_samples", c_uint32),
        ("reserved", c_uint32),
        ("filled_shape", c_void_p),
        ("digests", c_void_p),
        ("digest", c_uint64),
        ("name", c_char_p),
        ("lend_tag", c_uint64),
        ("is_lent", c_uint32),
        ("reserved2", c_uint32),
    ]


class Target(Structure):
    data: int | None
    bytes: int

    _fields_ = [
        ("data", c_void_p),
        ("bytes", c_uint64),
    ]


class Metric(Structure):
    ns: int
    ns_best: int
    input_bytes: int
    output_bytes: int
    count: int
    histogram: Array[c_uint64]

    _fields_ = [
        ("ns", c_uint64),
        ("ns_best", c_uint64),
        ("input_bytes", c_uint64),
        ("output_bytes", c_uint64),
        ("count", c_uint64),
        ("histogram", c_uint64 * HISTOGRAM_BUCKETS),
    ]


class Event(Structure):
    begin_ns: int
    duration_ns: int
    bytes: int
    batch: int
    kind: int
    thread: int
    wave: int
    slot: int

    _fields_ = [
        ("begin_ns", c_uint64),
        ("duration_ns", c_uint64),
        ("bytes", c_uint64),
        ("batch", c_uint64),
        ("kind", c_uint32),
        ("thread", c_uint32),
        ("wave", c_uint32),
        ("slot", c_uint32),
    ]


class StatsView(Structure):
    struct_size: int
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
    waves_emitted: int
    chunks_planned: int
    chunks_to_load: int
    chunks_dispatched: int
    chunks_missing: int
    chunk_uses: int
    reads_issued: int
    files_opened: int
    worker_steps: int
    host_bytes_committed: int
    pinned_bytes_committed: int
    gpu_bytes_committed: int
    backend: int
    batches_held: int
    backend_reason: bytes
    chunk_cache_hits: int
    chunk_cache_misses: int
    chunk_cache_evictions: int
    chunk_cache_bytes_saved: int
    chunk_cache_bytes_held: int
    reserved3: int
    reserved: int
    reserved_text: bytes
    gpu_overhead_bytes: int
    chunks_decoded: Array[c_uint64]
    chunks_decoded_in_slab: int
    chunks_left_filtered: int
    backend_text: bytes
    digest: Metric
    device_decode: Metric
    chunks_decoded_on_device: Array[c_uint64]
    chunks_redone: Array[c_uint64]
    chunks_not_on_device: Array[c_uint64]
    device_decode_mode: int
    reserved2: int
    files_changed: int
    batches_lost: int
    mapped_bytes: int
    bytes_copied_out: int
    metadata_latency_ops: int
    metadata_latency_stat_ops: int
    metadata_latency_submit_ops: int
    metadata_latency_active: int
    metadata_latency_max_active: int
    metadata_latency_total_sleep_ns: int
    metadata_latency_max_sleep_ns: int
    metadata_backend_read_jobs: int
    metadata_backend_read_active: int
    metadata_backend_read_max_active: int
    limit_text: bytes
    placement_text: bytes
    oldest_held_batch: int
    oldest_held_since_ns: int
    memories_lent: int
    consumers_missing: int
    bad_chunks: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("plan", Metric),
        ("meta", Metric),
        ("io", Metric),
        ("input_transfer", Metric),
        ("decode", Metric),
        ("post_decode", Metric),
        ("decode_gap", Metric),
        ("assemble", Metric),
        ("bind_wait", Metric),
        ("pop_wait", Metric),
        ("array_meta_hits", c_uint64),
        ("array_meta_misses", c_uint64),
        ("shard_index_hits", c_uint64),
        ("shard_index_misses", c_uint64),
        ("chunk_layout_hits", c_uint64),
        ("chunk_layout_misses", c_uint64),
        ("samples_pushed", c_uint64),
        ("samples_failed", c_uint64),
        ("batches_emitted", c_uint64),
        ("waves_emitted", c_uint64),
        ("chunks_planned", c_uint64),
        ("chunks_to_load", c_uint64),
        ("chunks_dispatched", c_uint64),
        ("chunks_missing", c_uint64),
        ("chunk_uses", c_uint64),
        ("reads_issued", c_uint64),
        ("files_opened", c_uint64),
        ("worker_steps", c_uint64),
        ("host_bytes_committed", c_uint64),
        ("pinned_bytes_committed", c_uint64),
        ("gpu_bytes_committed", c_uint64),
        ("backend", c_uint32),
        ("batches_held", c_uint32),
        ("backend_reason", c_char * NAME_BYTES),
        ("chunk_cache_hits", c_uint64),
        ("chunk_cache_misses", c_uint64),
        ("chunk_cache_evictions", c_uint64),
        ("chunk_cache_bytes_saved", c_uint64),
        ("chunk_cache_bytes_held", c_uint64),
        ("reserved3", c_uint32),
        ("reserved", c_uint32),
        ("reserved_text", c_char * NAME_BYTES),
        ("gpu_overhead_bytes", c_uint64),
        ("chunks_decoded", c_uint64 * CODEC_PLACES),
        ("chunks_decoded_in_slab", c_uint64),
        ("chunks_left_filtered", c_uint64),
        ("backend_text", c_char * ERROR_TEXT_BYTES),
        ("digest", Metric),
        ("device_decode", Metric),
        ("chunks_decoded_on_device", c_uint64 * CODEC_PLACES),
        ("chunks_redone", c_uint64 * CODEC_PLACES),
        ("chunks_not_on_device", c_uint64 * BY_WORKER_PLACES),
        ("device_decode_mode", c_uint32),
        ("reserved2", c_uint32),
        ("files_changed", c_uint64),
        ("batches_lost", c_uint64),
        ("mapped_bytes", c_uint64),
        ("bytes_copied_out", c_uint64),
        ("metadata_latency_ops", c_uint64),
        ("metadata_latency_stat_ops", c_uint64),
        ("metadata_latency_submit_ops", c_uint64),
        ("metadata_latency_active", c_uint64),
        ("metadata_latency_max_active", c_uint64),
        ("metadata_latency_total_sleep_ns", c_uint64),
        ("metadata_latency_max_sleep_ns", c_uint64),
        ("metadata_backend_read_jobs", c_uint64),
        ("metadata_backend_read_active", c_uint64),
        ("metadata_backend_read_max_active", c_uint64),
        ("limit_text", c_char * SHORT_TEXT_BYTES),
        ("placement_text", c_char * SHORT_TEXT_BYTES),
        ("oldest_held_batch", c_uint64),
        ("oldest_held_since_ns", c_uint64),
        ("memories_lent", c_uint32),
        ("consumers_missing", c_uint32),
        ("bad_chunks", c_uint64),
    ]


class Axis(Structure):
    name: bytes | None
    kind: bytes | None
    unit: bytes | None

    _fields_ = [
        ("name", c_char_p),
        ("kind", c_char_p),
        ("unit", c_char_p),
    ]


class GroupEntry(Structure):
    path: bytes | None
    image_name: bytes | None
    axes: int | None
    kind: int
    rank: int
    image: int
    level: int
    row: int
    column: int
    acquisition: int
    has_transform: int
    scale: Array[c_double]
    translation: Array[c_double]

    _fields_ = [
        ("path", c_char_p),
        ("image_name", c_char_p),
        ("axes", c_void_p),
        ("kind", c_uint32),
        ("rank", c_uint32),
        ("image", c_uint32),
        ("level", c_uint32),
        ("row", c_uint32),
        ("column", c_uint32),
        ("acquisition", c_uint32),
        ("has_transform", c_uint32),
        ("scale", c_double * RANK_MAX),
        ("translation", c_double * RANK_MAX),
    ]


class ArrayView(Structure):
    struct_size: int
    rank: int
    dtype: int
    dtype_bytes: int
    byte_order: int
    shape: Array[c_uint64]
    chunk_shape: Array[c_uint64]
    file_shape: Array[c_uint64]
    shard_levels: int
    index_at_start: int
    chunk_bytes: int
    fill: Array[c_uint8]
    dtype_name: bytes
    codecs: bytes
    kind: int
    entry_count: int
    entry_total: int
    entries: int | None
    entry_sources: int
    entries_are_cut: int
    image_count: int
    row_count: int
    column_count: int
    field_count: int
    ngff_version: bytes
    name: bytes
    is_rectilinear: int
    reserved: int
    file_shape_min: Array[c_uint64]
    file_counts: Array[c_uint64]
    packing: int
    reserved2: int
    file_ends: int | None

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_uint32),
        ("dtype", c_uint32),
        ("dtype_bytes", c_uint32),
        ("byte_order", c_uint32),
        ("shape", c_uint64 * RANK_MAX),
        ("chunk_shape", c_uint64 * RANK_MAX),
        ("file_shape", c_uint64 * RANK_MAX),
        ("shard_levels", c_uint32),
        ("index_at_start", c_uint32),
        ("chunk_bytes", c_uint64),
        ("fill", c_uint8 * 16),
        ("dtype_name", c_char * NAME_BYTES),
        ("codecs", c_char * CODECS_TEXT_BYTES),
        ("kind", c_uint32),
        ("entry_count", c_uint32),
        ("entry_total", c_uint64),
        ("entries", c_void_p),
        ("entry_sources", c_uint32),
        ("entries_are_cut", c_uint32),
        ("image_count", c_uint32),
        ("row_count", c_uint32),
        ("column_count", c_uint32),
        ("field_count", c_uint32),
        ("ngff_version", c_char * NGFF_VERSION_BYTES),
        ("name", c_char * NAME_BYTES),
        ("is_rectilinear", c_uint32),
        ("reserved", c_uint32),
        ("file_shape_min", c_uint64 * RANK_MAX),
        ("file_counts", c_uint64 * RANK_MAX),
        ("packing", c_uint32),
        ("reserved2", c_uint32),
        ("file_ends", c_void_p),
    ]


MemoryHook_alloc = CFUNCTYPE(
    c_void_p, c_void_p, c_uint64, c_uint64
)
MemoryHook_free = CFUNCTYPE(
    None, c_void_p, c_void_p, c_uint64, c_uint64
)

class MemoryHook(Structure):
    struct_size: int
    user: int | None
    host_block: int | None
    host_block_bytes: int
    alloc: Any
    free: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("host_block", c_void_p),
        ("host_block_bytes", c_uint64),
        ("alloc", MemoryHook_alloc),
        ("free", MemoryHook_free),
    ]


FilesHook_size = CFUNCTYPE(
    c_int64, c_void_p, c_char_p
)
FilesHook_read = CFUNCTYPE(
    c_int64, c_void_p, c_char_p, c_uint64, c_void_p, c_uint64
)
FilesHook_read_async = CFUNCTYPE(
    c_int64, c_void_p, c_uint64, c_uint64, c_char_p, c_uint64, c_void_p, c_uint64
)

class FilesHook(Structure):
    struct_size: int
    user: int | None
    size: Any
    read: Any
    read_async: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("size", FilesHook_size),
        ("read", FilesHook_read),
        ("read_async", FilesHook_read_async),
    ]


class SourceInfo(Structure):
    struct_size: int
    rank: int
    dtype: int
    dtype_bytes: int
    reserved: int
    shape: Array[c_uint64]
    chunk_shape: Array[c_uint64]
    fill: Array[c_uint8]

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_uint32),
        ("dtype", c_uint32),
        ("dtype_bytes", c_uint32),
        ("reserved", c_uint32),
        ("shape", c_uint64 * 16),
        ("chunk_shape", c_uint64 * 16),
        ("fill", c_uint8 * 16),
    ]


SourceHook_describe = CFUNCTYPE(
    c_int64, c_void_p, c_char_p, c_void_p
)
SourceHook_read = CFUNCTYPE(
    c_int64, c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_uint64
)

class SourceHook(Structure):
    struct_size: int
    user: int | None
    describe: Any
    read: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("describe", SourceHook_describe),
        ("read", SourceHook_read),
    ]


StoreHook_read_tail = CFUNCTYPE(
    c_int64, c_void_p, c_char_p, c_void_p, c_uint64, c_void_p, c_void_p, c_void_p
)
StoreHook_read_version = CFUNCTYPE(
    c_int64, c_void_p, c_char_p, c_void_p, c_uint64, c_void_p, c_uint64
)
StoreHook_read_version_async = CFUNCTYPE(
    c_int64, c_void_p, c_uint64, c_uint64, c_char_p, c_void_p, c_uint64, c_void_p, c_uint64
)
StoreHook_list = CFUNCTYPE(
    c_int64, c_void_p, c_char_p, c_void_p, c_void_p
)

class StoreHook(Structure):
    struct_size: int
    read_tail: Any
    read_version: Any
    read_version_async: Any
    list: Any
    merge_gap_bytes: int
    merge_bytes_max: int
    reads_max: int
    retries_itself: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("read_tail", StoreHook_read_tail),
        ("read_version", StoreHook_read_version),
        ("read_version_async", StoreHook_read_version_async),
        ("list", StoreHook_list),
        ("merge_gap_bytes", c_uint64),
        ("merge_bytes_max", c_uint64),
        ("reads_max", c_uint32),
        ("retries_itself", c_uint32),
    ]


LogHook_log = CFUNCTYPE(
    None, c_void_p, c_uint32, c_uint64, c_char_p, c_uint64
)

class LogHook(Structure):
    struct_size: int
    user: int | None
    log: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("log", LogHook_log),
    ]


FatalHook_fatal = CFUNCTYPE(
    None, c_void_p, c_char_p, c_uint32, c_char_p
)

class FatalHook(Structure):
    struct_size: int
    user: int | None
    fatal: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("fatal", FatalHook_fatal),
    ]


WorkersHook_run = CFUNCTYPE(
    None, c_void_p, c_void_p, c_void_p
)

class WorkersHook(Structure):
    struct_size: int
    user: int | None
    run: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("run", WorkersHook_run),
    ]


ProfilerHook_begin = CFUNCTYPE(
    None, c_void_p, c_char_p
)
ProfilerHook_end = CFUNCTYPE(
    None, c_void_p
)

class ProfilerHook(Structure):
    struct_size: int
    user: int | None
    begin: Any
    end: Any

    _fields_ = [
        ("struct_size", c_size_t),
        ("user", c_void_p),
        ("begin", ProfilerHook_begin),
        ("end", ProfilerHook_end),
    ]


class MetadataLatency(Structure):
    baseline_ns: int
    lognormal_mu_ln_ns: float
    lognormal_sigma_ln_ns: float
    cap_ns: int
    seed: int

    _fields_ = [
        ("baseline_ns", c_uint64),
        ("lognormal_mu_ln_ns", c_double),
        ("lognormal_sigma_ln_ns", c_double),
        ("cap_ns", c_uint64),
        ("seed", c_uint64),
    ]


class Config(Structure):
    struct_size: int
    samples_per_batch: int
    sample_rank: int
    sample_shape: Array[c_uint64]
    dtype: int
    dtype_bytes: int
    max_gpu_memory_bytes: int
    max_host_memory_bytes: int
    lookahead_samples: int
    n_batch_slots: int
    max_chunk_uncompressed_bytes: int
    max_read_op_bytes: int
    host_buffer_waves: int
    max_chunks_per_wave: int
    max_substreams_per_chunk: int
    n_io_threads: int
    n_decode_threads: int
    metadata_io_concurrency: int
    n_array_meta_cache: int
    n_shard_index_cache: int
    n_chunk_layout_cache: int
    max_shards_per_sample: int
    chunk_cache_bytes: int
    backend: int
    device: int
    thread_mode: int
    drop_last: int
    on_error: int
    missing_chunks: int
    pad_mode: int
    pad_value_set: int
    pad_value: float
    pop_timeout_ns: int
    enable_gds: int
    numa_strategy: int
    numa_node: int
    log_level: int
    log_quiet: int
    reserved: int
    consumer_stream: int | None
    metadata_latency: MetadataLatency
    memory: MemoryHook
    files: FilesHook
    log: LogHook
    fatal: FatalHook
    workers: WorkersHook
    profiler: ProfilerHook
    reserved6: int
    reserved2: int
    cuda_driver: bytes | None
    fields: int | None
    n_fields: int
    field_bytes: int
    max_boxes_per_sample: int
    max_npy_files: int
    digest: int
    augment: int
    max_resample_bytes: int
    source: SourceHook
    device_decode: int
    cf: int
    store: StoreHook
    hook_stack_bytes: int
    max_open_files: int
    keep_loaded: int
    reset_timeout_ns: int
    map_uncompressed: int
    saturate: int
    map_bytes_max: int
    n_readers: int
    lent_slots: int
    trace_events: int
    max_indices_per_sample: int
    check_memory: int
    on_consumer_lost: int
    share_name: bytes | None
    share_consumers: int
    share_order: int
    share_owner: int
    reserved4: int
    attach_timeout_ns: int
    cpus: int | None
    cpu_words: int
    reserved5: int
    metadata: int | None
    metadata_bytes: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("samples_per_batch", c_uint32),
        ("sample_rank", c_uint32),
        ("sample_shape", c_uint64 * RANK_MAX),
        ("dtype", c_uint32),
        ("dtype_bytes", c_uint32),
        ("max_gpu_memory_bytes", c_uint64),
        ("max_host_memory_bytes", c_uint64),
        ("lookahead_samples", c_uint32),
        ("n_batch_slots", c_uint32),
        ("max_chunk_uncompressed_bytes", c_uint64),
        ("max_read_op_bytes", c_uint64),
        ("host_buffer_waves", c_uint32),
        ("max_chunks_per_wave", c_uint32),
        ("max_substreams_per_chunk", c_uint32),
        ("n_io_threads", c_uint32),
        ("n_decode_threads", c_uint32),
        ("metadata_io_concurrency", c_uint32),
        ("n_array_meta_cache", c_uint32),
        ("n_shard_index_cache", c_uint32),
        ("n_chunk_layout_cache", c_uint32),
        ("max_shards_per_sample", c_uint32),
        ("chunk_cache_bytes", c_uint64),
        ("backend", c_uint32),
        ("device", c_int32),
        ("thread_mode", c_uint32),
        ("drop_last", c_uint32),
        ("on_error", c_uint32),
        ("missing_chunks", c_uint32),
        ("pad_mode", c_uint32),
        ("pad_value_set", c_uint32),
        ("pad_value", c_double),
        ("pop_timeout_ns", c_uint64),
        ("enable_gds", c_uint32),
        ("numa_strategy", c_uint32),
        ("numa_node", c_int32),
        ("log_level", c_uint32),
        ("log_quiet", c_uint32),
        ("reserved", c_uint32),
        ("consumer_stream", c_void_p),
        ("metadata_latency", MetadataLatency),
        ("memory", MemoryHook),
        ("files", FilesHook),
        ("log", LogHook),
        ("fatal", FatalHook),
        ("workers", WorkersHook),
        ("profiler", ProfilerHook),
        ("reserved6", c_uint32),
        ("reserved2", c_uint32),
        ("cuda_driver", c_char_p),
        ("fields", c_void_p),
        ("n_fields", c_uint32),
        ("field_bytes", c_uint32),
        ("max_boxes_per_sample", c_uint32),
        ("max_npy_files", c_uint32),
        ("digest", c_uint32),
        ("augment", c_uint32),
        ("max_resample_bytes", c_uint64),
        ("source", SourceHook),
        ("device_decode", c_uint32),
        ("cf", c_uint32),
        ("store", StoreHook),
        ("hook_stack_bytes", c_uint64),
        ("max_open_files", c_uint32),
        ("keep_loaded", c_uint32),
        ("reset_timeout_ns", c_uint64),
        ("map_uncompressed", c_uint32),
        ("saturate", c_uint32),
        ("map_bytes_max", c_uint64),
        ("n_readers", c_uint32),
        ("lent_slots", c_uint32),
        ("trace_events", c_uint32),
        ("max_indices_per_sample", c_uint32),
        ("check_memory", c_uint32),
        ("on_consumer_lost", c_uint32),
        ("share_name", c_char_p),
        ("share_consumers", c_uint32),
        ("share_order", c_uint32),
        ("share_owner", c_uint32),
        ("reserved4", c_uint32),
        ("attach_timeout_ns", c_uint64),
        ("cpus", c_void_p),
        ("cpu_words", c_uint32),
        ("reserved5", c_uint32),
        ("metadata", c_void_p),
        ("metadata_bytes", c_uint64),
    ]


class MetadataPart(Structure):
    struct_size: int
    first_shard: int
    shard_count: int
    out: int | None
    out_bytes: int
    written: int
    shards: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("first_shard", c_uint64),
        ("shard_count", c_uint64),
        ("out", c_void_p),
        ("out_bytes", c_size_t),
        ("written", c_uint64),
        ("shards", c_uint64),
    ]


class EpochState(Structure):
    seed: int
    epoch: int
    position: int
    order_hash: int

    _fields_ = [
        ("seed", c_uint64),
        ("epoch", c_uint64),
        ("position", c_uint64),
        ("order_hash", c_uint64),
    ]


class Epoch(Structure):
    state: EpochState
    n: int
    rank: int
    world: int
    batch: int
    flags: int
    reserved: int

    _fields_ = [
        ("state", EpochState),
        ("n", c_uint64),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("batch", c_uint32),
        ("flags", c_uint32),
        ("reserved", c_uint64),
    ]


class ChunkShuffle(Structure):
    run: int
    window: int

    _fields_ = [
        ("run", c_uint64),
        ("window", c_uint64),
    ]


class Place(Structure):
    epoch: int
    position: int

    _fields_ = [
        ("epoch", c_uint64),
        ("position", c_uint64),
    ]


class EpochView(Structure):
    left: int
    window_samples: int
    is_wrong: int
    is_portable: int

    _fields_ = [
        ("left", c_uint64),
        ("window_samples", c_uint64),
        ("is_wrong", c_uint32),
        ("is_portable", c_uint32),
    ]


class Share(Structure):
    n: int
    weight: int
    reserved: int

    _fields_ = [
        ("n", c_uint64),
        ("weight", c_uint32),
        ("reserved", c_uint32),
    ]


class Boxes(Structure):
    rank: int
    flags: int
    shape: Array[c_uint64]
    box: Array[c_uint64]
    step: Array[c_uint64]
    margin: Array[c_uint64]
    chunk: Array[c_uint64]

    _fields_ = [
        ("rank", c_uint32),
        ("flags", c_uint32),
        ("shape", c_uint64 * BOXES_AXES),
        ("box", c_uint64 * BOXES_AXES),
        ("step", c_uint64 * BOXES_AXES),
        ("margin", c_uint64 * BOXES_AXES),
        ("chunk", c_uint64 * BOXES_AXES),
    ]


class BoxesEnd(Structure):
    boxes: int
    chunks: int

    _fields_ = [
        ("boxes", c_uint64),
        ("chunks", c_uint64),
    ]


class Cost(Structure):
    distinct: int
    windows: int
    largest: int

    _fields_ = [
        ("distinct", c_uint64),
        ("windows", c_uint64),
        ("largest", c_uint64),
    ]


class RecipeField(Structure):
    rank: int
    channel_axis: int
    n_spatial: int
    pad_mode: int
    spatial: Array[c_uint32]
    box_spatial: Array[c_uint32]
    shape: Array[c_uint64]

    _fields_ = [
        ("rank", c_uint32),
        ("channel_axis", c_uint32),
        ("n_spatial", c_uint32),
        ("pad_mode", c_uint32),
        ("spatial", c_uint32 * 3),
        ("box_spatial", c_uint32 * 3),
        ("shape", c_uint64 * RANK_MAX),
    ]


class RecipeRoom(Structure):
    scale: Array[c_float]
    bias: Array[c_float]
    values: Array[Array[c_float]]
    erase: Array[Erase]
    crops: int

    _fields_ = [
        ("scale", c_float * RECIPE_CHANNELS),
        ("bias", c_float * RECIPE_CHANNELS),
        ("values", (c_float * RECIPE_CHANNELS) * RECIPE_ERASES),
        ("erase", Erase * RECIPE_ERASES),
        ("crops", c_uint64),
    ]


class Augmented(Structure):
    struct_size: int
    seed: int
    place: Place
    target: int | None
    augment: int | None
    affine: int | None
    field: RecipeField
    room: RecipeRoom

    _fields_ = [
        ("struct_size", c_size_t),
        ("seed", c_uint64),
        ("place", Place),
        ("target", c_void_p),
        ("augment", c_void_p),
        ("affine", c_void_p),
        ("field", RecipeField),
        ("room", RecipeRoom),
    ]


class Motion(Structure):
    struct_size: int
    degrees: Array[c_float]
    zoom: Array[c_float]
    shear: float
    shift: float
    filter: int

    _fields_ = [
        ("struct_size", c_size_t),
        ("degrees", c_float * 3),
        ("zoom", c_float * 2),
        ("shear", c_float),
        ("shift", c_float),
        ("filter", c_uint32),
    ]


# Name, result, parameters.
FUNCTIONS: list[tuple[str, Any, list[Any]]] = [
    ("wavetrain_version", c_uint32, []),
    ("wavetrain_status_str", c_char_p, [c_int32]),
    ("wavetrain_config_default", c_int32, [c_void_p, c_size_t]),
    ("wavetrain_config_fit", c_int32, [c_void_p, c_void_p, c_uint32, c_void_p, c_size_t, c_void_p]),
    ("wavetrain_memory_need", c_int32, [c_void_p, c_void_p, c_void_p]),
    ("wavetrain_open", c_int32, [c_void_p, c_void_p, c_void_p]),
    ("wavetrain_close", c_int32, [c_uint64, c_uint64, c_void_p]),
    ("wavetrain_push", c_int32, [c_uint64, c_void_p, c_size_t, c_size_t, c_uint64, c_void_p]),
    ("wavetrain_push_table", c_int32, [c_uint64, c_void_p, c_uint32, c_uint32, c_size_t, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_read_into", c_int32, [c_uint64, c_void_p, c_size_t, c_void_p, c_uint64, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_lend", c_int32, [c_uint64, c_void_p, c_uint32, c_uint32, c_void_p, c_uint64]),
    ("wavetrain_flush", c_int32, [c_uint64]),
    ("wavetrain_pop", c_int32, [c_uint64, c_uint64, c_void_p, c_void_p]),
    ("wavetrain_batch_info", c_int32, [c_uint64, c_uint64, c_uint32, c_void_p]),
    ("wavetrain_release", c_int32, [c_uint64, c_uint64, c_void_p]),
    ("wavetrain_dlpack", c_int32, [c_uint64, c_uint64, c_uint32, c_void_p, c_void_p]),
    ("wavetrain_dlpack_legacy", c_int32, [c_uint64, c_uint64, c_uint32, c_void_p, c_void_p]),
    ("wavetrain_reset", c_int32, [c_uint64]),
    ("wavetrain_forget", c_int32, [c_uint64, c_char_p]),
    ("wavetrain_pump", c_int32, [c_uint64, c_uint64]),
    ("wavetrain_read_done", c_int32, [c_uint64, c_uint64, c_int64]),
    ("wavetrain_stats", c_int32, [c_uint64, c_void_p]),
    ("wavetrain_stats_reset", c_int32, [c_uint64]),
    ("wavetrain_trace", c_int32, [c_uint64, c_void_p, c_size_t, c_size_t, c_void_p]),
    ("wavetrain_bad_chunk", c_int32, [c_uint64, c_uint32, c_void_p]),
    ("wavetrain_last_error", c_int32, [c_uint64, c_void_p]),
    ("wavetrain_array_info", c_int32, [c_char_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    ("wavetrain_node_info", c_int32, [c_char_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    ("wavetrain_metadata", c_int32, [c_char_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    ("wavetrain_epoch_begin", c_int32, [c_void_p, c_void_p, c_uint64, c_uint64, c_uint32]),
    ("wavetrain_epoch_depends_on", c_int32, [c_void_p, c_void_p, c_uint64]),
    ("wavetrain_epoch_look", c_int32, [c_void_p, c_void_p, c_void_p]),
    ("wavetrain_epoch_resume", c_int32, [c_void_p, c_void_p, c_void_p]),
    ("wavetrain_epoch_turn", c_int32, [c_void_p, c_void_p]),
    ("wavetrain_epoch_take_many", c_int64, [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p, c_void_p]),
    ("wavetrain_epoch_at_many", c_int32, [c_void_p, c_void_p, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_philox", c_int32, [c_uint64, c_void_p, c_void_p]),
    ("wavetrain_below_many", c_int32, [c_uint64, c_uint64, c_uint32, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_permute_many", c_int32, [c_uint64, c_uint64, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_part_begin", c_uint64, [c_uint64, c_void_p, c_uint32, c_uint32]),
    ("wavetrain_group", c_int32, [c_void_p, c_uint64, c_uint32, c_void_p, c_void_p]),
    ("wavetrain_stratify", c_uint64, [c_void_p, c_uint32, c_void_p, c_void_p, c_uint32, c_uint32, c_uint64, c_void_p]),
    ("wavetrain_accumulate", c_int32, [c_void_p, c_uint64]),
    ("wavetrain_weighted_many", c_int32, [c_void_p, c_uint64, c_uint64, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_mixed_many", c_int32, [c_void_p, c_uint32, c_uint64, c_void_p, c_uint64, c_void_p, c_void_p]),
    ("wavetrain_boxes_count", c_uint64, [c_void_p, c_uint64, c_void_p]),
    ("wavetrain_boxes_find", c_uint64, [c_void_p, c_uint64, c_uint64, c_void_p]),
    ("wavetrain_boxes_many", c_uint64, [c_void_p, c_uint32, c_uint64, c_void_p, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_epoch_cost", c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_uint64, c_void_p, c_uint64, c_void_p]),
    ("wavetrain_recipe_begin", c_int32, [c_void_p, c_uint64]),
    ("wavetrain_recipe_crop", c_int32, [c_void_p, c_uint64, c_char_p, c_uint64, c_void_p, c_uint32]),
    ("wavetrain_recipe_flip", c_int32, [c_void_p, c_uint64, c_char_p, c_float, c_uint32]),
    ("wavetrain_recipe_affine", c_int32, [c_void_p, c_uint64, c_char_p, c_void_p]),
    ("wavetrain_recipe_normalize", c_int32, [c_void_p, c_uint64, c_void_p, c_uint32, c_void_p, c_uint32]),
    ("wavetrain_recipe_jitter", c_int32, [c_void_p, c_uint64, c_char_p, c_float, c_float]),
    ("wavetrain_recipe_noise", c_int32, [c_void_p, c_uint64, c_char_p, c_float]),
    ("wavetrain_recipe_clamp", c_int32, [c_void_p, c_uint64, c_float, c_float]),
    ("wavetrain_recipe_cutout", c_int32, [c_void_p, c_uint64, c_char_p, c_uint64, c_void_p, c_uint32]),
    ("wavetrain_recipe_random_erase", c_int32, [c_void_p, c_uint64, c_char_p, c_float, c_void_p, c_void_p, c_void_p, c_uint32]),
    ("wavetrain_recipe_key", c_uint64, [c_uint64, c_uint64, c_char_p]),
    ("wavetrain_recipe_text", c_char_p, [c_int32]),
    ("wavetrain_attach", c_int32, [c_char_p, c_uint32, c_uint64, c_void_p, c_void_p]),
]


def declare(library: CDLL) -> None:
    """Gives ctypes the arguments and the result of each function of the library."""
    for name, result, parameters in FUNCTIONS:
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
