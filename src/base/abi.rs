//! The plain structs of the C surface, as include/wavetrain.h declares them.
//!
//! Each starts with `struct_size` and only ever grows at its end. A caller with an older header
//! passes a smaller size: fields past it are neither read nor written. [`Config`] is in `config`.
//!
//! Over 500 lines because the whole ABI stands in one place, beside the one header it mirrors.

use crate::base::limits::{ERROR_TEXT_BYTES, METADATA_BYTES_MAX, RANK_MAX};
use core::ffi::{c_char, c_void};
use core::ptr;

/// Bytes of a short name in an info struct, its NUL included.
pub const NAME_BYTES: usize = 64;
/// Bytes of the codec text in [`ArrayInfo`], its NUL included.
pub const CODECS_TEXT_BYTES: usize = 384;
/// Lines in [`Memory`].
pub const MEMORY_LINES: usize = 32;
/// Buckets of a log2 histogram: bucket b counts values in [2^b, 2^(b+1)) ns, bucket 0 also 0 ns,
/// the last bucket everything above.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// Places of an array that counts by what compressed a chunk: the numbers of
/// [`crate::records::Codec`], with room for more.
pub const CODEC_PLACES: usize = 8;
/// The place of chunks that nothing compressed.
pub const CODEC_NONE: usize = 0;

/// `MemoryLine::kind`: ordinary host memory.
pub const MEMORY_HOST: u32 = 0;
/// `MemoryLine::kind`: page-locked host memory.
pub const MEMORY_PINNED: u32 = 1;
/// `MemoryLine::kind`: device memory.
pub const MEMORY_DEVICE: u32 = 2;
/// Bytes of scratch that `config_fit` and `array_info` ask for: one metadata document and what
/// parsing it takes.
pub const SCRATCH_BYTES: usize = METADATA_BYTES_MAX + (64 << 10);

/// Why a call or a batch failed: `wavetrain_error`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Error {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// The status code.
    pub status: i32,
    /// Number of coordinates in `chunk`; 0 where no chunk is to blame.
    pub chunk_rank: u32,
    /// Tag of the sample to blame.
    pub tag: u64,
    /// Number of the batch to blame, from 0 since open or reset.
    pub batch_id: u64,
    /// Index of the sample in its batch.
    pub sample: u32,
    /// Always 0.
    pub reserved: u32,
    /// Coordinates of the chunk in the array's chunk grid.
    pub chunk: [u64; RANK_MAX],
    /// NUL-terminated UTF-8: names the array, the chunk and the reason.
    pub text: [c_char; ERROR_TEXT_BYTES],
}

/// One line of the memory bill: `wavetrain_memory_line`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemoryLine {
    /// NUL-terminated name of what the bytes are for.
    pub name: [c_char; NAME_BYTES],
    /// MEMORY_HOST, _PINNED or _DEVICE.
    pub kind: u32,
    /// Always 0.
    pub reserved: u32,
    /// How many bytes.
    pub bytes: u64,
}

/// The memory bill of a config: `wavetrain_memory`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memory {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Bytes of ordinary host memory, one block aligned to `host_align`.
    pub host_bytes: u64,
    /// Alignment of the host block.
    pub host_align: u64,
    /// Bytes of page-locked memory; 0 on the host backend.
    pub pinned_bytes: u64,
    /// Bytes of device memory; 0 on the host backend.
    pub device_bytes: u64,
    /// Host bytes that the batch slots take, part of `host_bytes`.
    pub slot_bytes: u64,
    /// Threads that open will start.
    pub threads: u32,
    /// Valid entries of `lines`.
    pub line_count: u32,
    /// Where the bytes go.
    pub lines: [MemoryLine; MEMORY_LINES],
}

/// One field's box: `wavetrain_box`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SampleBox {
    /// UTF-8 path or file:// uri of the array; copied by push.
    pub uri: *const c_char,
    /// Bytes of `uri`, without a NUL.
    pub uri_bytes: u64,
    /// Axes of the box.
    pub rank: u32,
    /// Always 0.
    pub reserved: u32,
    /// First element along each axis.
    pub begin: [i64; RANK_MAX],
    /// One past the last element along each axis.
    pub end: [i64; RANK_MAX],
}

/// One sample: `wavetrain_sample`. Push takes the size of it as an argument.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sample {
    /// `n_fields` boxes.
    pub boxes: *const SampleBox,
    /// Number of boxes: 1.
    pub n_fields: u32,
    /// sizeof(wavetrain_box) as the caller knows it.
    pub box_bytes: u32,
    /// The caller's number for the sample; comes back with the batch.
    pub tag: u64,
}

/// What a popped batch holds: `wavetrain_batch_view`. Pointers are valid until release.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchInfo {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// First byte; host memory on the host backend. Rows are packed, row-major.
    pub data: *mut c_void,
    /// Bytes of the valid samples.
    pub bytes: u64,
    /// Axes of `shape`: 1 + sample_rank.
    pub rank: u32,
    /// Element type code.
    pub dtype: u32,
    /// Bytes of an element.
    pub dtype_bytes: u32,
    /// 1 host, 2 CUDA: what `data` points to.
    pub backend: u32,
    /// CUDA device ordinal; -1 on the host.
    pub device: i32,
    /// Samples in the batch: shape[0].
    pub sample_count: u32,
    /// Extents: samples, then the sample shape.
    pub shape: [u64; RANK_MAX + 1],
    /// CUstream that the data is ready on; NULL on the host, where it is ready now.
    pub ready_stream: *mut c_void,
    /// From 0, in push order, since open or reset.
    pub batch_id: u64,
    /// `sample_count` tags, in push order.
    pub tags: *const u64,
    /// `sample_count` status codes: 0, or why the sample holds pad_value (on_error = skip).
    pub statuses: *const i32,
    /// Samples whose status is not 0.
    pub failed_samples: u32,
    /// Always 0.
    pub reserved: u32,
}

/// One stage's figures: `wavetrain_metric`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Nanoseconds, summed over threads.
    pub ns: u64,
    /// Shortest single observation in nanoseconds; UINT64_MAX before the first.
    pub ns_best: u64,
    /// Bytes that went in.
    pub input_bytes: u64,
    /// Bytes that came out.
    pub output_bytes: u64,
    /// Observations.
    pub count: u64,
    /// log2 histogram of the nanoseconds of an observation.
    pub histogram: [u64; HISTOGRAM_BUCKETS],
}

/// Cumulative figures since open or stats_reset: `wavetrain_stats_view`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Batches planned; one observation is one bounded planning step.
    pub plan: Metric,
    /// Array metadata and index reads.
    pub meta: Metric,
    /// Reads of chunk data; in: bytes asked for, out: bytes that chunks needed.
    pub io: Metric,
    /// Copies to the device; all 0 on the host.
    pub input_transfer: Metric,
    /// Chunks decoded; in: encoded bytes, out: decoded bytes.
    pub decode: Metric,
    /// Decoded chunks that threads of the CPU laid out for the device; all 0 on the host.
    pub post_decode: Metric,
    /// All 0: nothing is decoded on a device, which could idle between decodes.
    pub decode_gap: Metric,
    /// Chunks cast and scattered into batches; in: source bytes, out: batch bytes.
    pub assemble: Metric,
    /// Waves, from when their reads may begin to their first decode.
    pub bind_wait: Metric,
    /// Pops that waited, whatever came of it.
    pub pop_wait: Metric,
    /// Lookups of array metadata that found it.
    pub array_meta_hits: u64,
    /// Lookups of array metadata that had to load it.
    pub array_meta_misses: u64,
    /// Lookups of index pages that found them.
    pub shard_index_hits: u64,
    /// Lookups of index pages that had to load them.
    pub shard_index_misses: u64,
    /// Lookups of a file's layout (size, presence, index checksums) that found it.
    pub chunk_layout_hits: u64,
    /// Lookups of a file's layout that had to look at the file.
    pub chunk_layout_misses: u64,
    /// Samples taken by push.
    pub samples_pushed: u64,
    /// Samples whose status was not OK (on_error = skip).
    pub samples_failed: u64,
    /// Batches popped.
    pub batches_emitted: u64,
    /// Waves whose last chunk was assembled.
    pub waves_emitted: u64,
    /// Distinct chunks that batches needed, missing ones included.
    pub chunks_planned: u64,
    /// Chunks that had to be read.
    pub chunks_to_load: u64,
    /// Chunks handed to workers.
    pub chunks_dispatched: u64,
    /// Chunks that do not exist and read as the fill value.
    pub chunks_missing: u64,
    /// Pairs of chunk and sample; more than `chunks_planned` where samples share chunks.
    pub chunk_uses: u64,
    /// Reads of chunk data, after merging.
    pub reads_issued: u64,
    /// Files opened.
    pub files_opened: u64,
    /// Steps that did work.
    pub worker_steps: u64,
    /// Host bytes taken at open.
    pub host_bytes_committed: u64,
    /// Page-locked bytes taken at open.
    pub pinned_bytes_committed: u64,
    /// Device bytes taken at open.
    pub gpu_bytes_committed: u64,
    /// 1 host, 2 CUDA: the backend that was taken.
    pub backend: u32,
    /// Slots that popped batches, or tensors of such, keep.
    pub batches_held: u32,
    /// NUL-terminated: `backend_text`, cut to fit.
    pub backend_reason: [c_char; NAME_BYTES],
    /// Chunks that were found decoded in the chunk cache.
    pub chunk_cache_hits: u64,
    /// Chunks that were decoded although there is a chunk cache.
    pub chunk_cache_misses: u64,
    /// Chunks that left the chunk cache for others.
    pub chunk_cache_evictions: u64,
    /// Decoded bytes of the hits: what was not decoded again.
    pub chunk_cache_bytes_saved: u64,
    /// Decoded bytes in the chunk cache now.
    pub chunk_cache_bytes_held: u64,
    /// READER_THREADS, _URING or _DIRECT: who reads chunk data that is not in the page cache.
    pub reader: u32,
    /// Always 0.
    pub reserved: u32,
    /// NUL-terminated: `reader_text`, cut to fit.
    pub reader_reason: [c_char; NAME_BYTES],
    /// Device memory that the driver took for kernels and streams at open.
    pub gpu_overhead_bytes: u64,
    /// Chunks that workers decoded, by what compressed them; they add up to `decode.count`.
    pub chunks_decoded: [u64; CODEC_PLACES],
    /// Those of them that were decoded into a slab; 0 on the host.
    pub chunks_decoded_in_slab: u64,
    /// Those of these whose filter was left to the device; 0 on the host.
    pub chunks_left_filtered: u64,
    /// NUL-terminated: why this backend was taken.
    pub backend_text: [c_char; ERROR_TEXT_BYTES],
    /// NUL-terminated: why this reader was taken.
    pub reader_text: [c_char; ERROR_TEXT_BYTES],
}

/// `GroupEntry::row` and its like where the store does not say.
pub const NO_INDEX: u32 = u32::MAX;
/// `ArrayInfo::entry_sources`: OME-NGFF attributes name entries.
pub const SOURCE_NGFF: u32 = 1;
/// `ArrayInfo::entry_sources`: consolidated metadata names entries.
pub const SOURCE_CONSOLIDATED: u32 = 2;
/// `ArrayInfo::entry_sources`: the folder of the group was listed.
pub const SOURCE_FOLDER: u32 = 4;
/// Bytes of `ArrayInfo::ngff_version`, its NUL included.
pub const NGFF_VERSION_BYTES: usize = 16;

/// An axis of an image: `wavetrain_axis`. Strings are NUL-terminated, empty where nothing is said.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AxisInfo {
    /// "z".
    pub name: *const c_char,
    /// "space", "time" or "channel".
    pub kind: *const c_char,
    /// "micrometer".
    pub unit: *const c_char,
}

/// A node in a group: `wavetrain_group_entry`. Pointers lead into the caller's scratch block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupEntry {
    /// Path below the group, NUL-terminated.
    pub path: *const c_char,
    /// Name of the image that a level is of, NUL-terminated; empty where it has none.
    pub image_name: *const c_char,
    /// `rank` axes of a level; NULL for others.
    pub axes: *const AxisInfo,
    /// NODE_.
    pub kind: u32,
    /// Axes of a level; 0 for others.
    pub rank: u32,
    /// Which image of the group a level is of; NO_INDEX for others.
    pub image: u32,
    /// Place of a level in its image, 0 the finest; NO_INDEX for others.
    pub level: u32,
    /// Row of a well, or NO_INDEX.
    pub row: u32,
    /// Column of a well, or NO_INDEX.
    pub column: u32,
    /// Acquisition of a field, or NO_INDEX.
    pub acquisition: u32,
    /// 1: the store says scale or translation of this level.
    pub has_transform: u32,
    /// Physical units per element.
    pub scale: [f64; RANK_MAX],
    /// Physical units of element 0.
    pub translation: [f64; RANK_MAX],
}

/// What an array or a group is: `wavetrain_array_view`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ArrayInfo {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Number of axes.
    pub rank: u32,
    /// Element type code.
    pub dtype: u32,
    /// Bytes of an element.
    pub dtype_bytes: u32,
    /// 0 little, 1 big: byte order in the store.
    pub byte_order: u32,
    /// Extents of the array.
    pub shape: [u64; RANK_MAX],
    /// Extents of a chunk, of the largest where `is_rectilinear`.
    pub chunk_shape: [u64; RANK_MAX],
    /// Extents of a file, likewise: a shard, or a chunk where there are no shards.
    pub file_shape: [u64; RANK_MAX],
    /// 0: files are chunks; 1, 2: levels of shards.
    pub shard_levels: u32,
    /// 1: the shard index lies before the chunks.
    pub index_at_start: u32,
    /// Bytes of a decoded chunk, likewise.
    pub chunk_bytes: u64,
    /// One element that missing chunks read as, in this machine's byte order.
    pub fill: [u8; 16],
    /// Element type as the store spells it, NUL-terminated.
    pub dtype_name: [c_char; NAME_BYTES],
    /// Codecs of a chunk as a line: "bytes(little) zstd", of v2 "zstd order F"; NUL-terminated.
    pub codecs: [c_char; CODECS_TEXT_BYTES],
    /// NODE_ARRAY; else a group, and what is above is 0.
    pub kind: u32,
    /// Entries that `entries` has.
    pub entry_count: u32,
    /// Entries that were found.
    pub entry_total: u64,
    /// What is in the group, in the caller's scratch block; NULL where there is nothing.
    pub entries: *const GroupEntry,
    /// SOURCE_ bits: where the entries come from; 0: nothing lists them.
    pub entry_sources: u32,
    /// 1: there are more than `entry_total`; the folder was not listed to its end.
    pub entries_are_cut: u32,
    /// Multiscale images in the group.
    pub image_count: u32,
    /// Rows of a plate.
    pub row_count: u32,
    /// Columns of a plate.
    pub column_count: u32,
    /// Most fields in a well of a plate, where it says so.
    pub field_count: u32,
    /// Version of OME-NGFF, NUL-terminated; empty where it is none or does not say.
    pub ngff_version: [c_char; NGFF_VERSION_BYTES],
    /// Name of the plate or of the first image that has one, NUL-terminated, cut to fit.
    pub name: [c_char; NAME_BYTES],
    /// 1: files have different extents along some axis, and chunk_shape, file_shape and chunk_bytes
    /// are those of the largest; 0: all files are alike.
    pub is_rectilinear: u32,
    /// 0.
    pub reserved: u32,
    /// Extents of the smallest file.
    pub file_shape_min: [u64; RANK_MAX],
    /// Number of files along each axis, missing ones included.
    pub file_counts: [u64; RANK_MAX],
}

/// Copies a name into a fixed field, cut to fit, with its NUL.
pub fn write_text(target: &mut [c_char], text: &str) {
    target.fill(0);
    let most = text.floor_char_boundary(target.len() - 1);
    for (byte, source) in target.iter_mut().zip(&text.as_bytes()[..most]) {
        *byte = *source as c_char;
    }
}

impl Error {
    /// No failure.
    pub const EMPTY: Error = Error {
        struct_size: size_of::<Error>(),
        status: 0,
        chunk_rank: 0,
        tag: 0,
        batch_id: 0,
        sample: 0,
        reserved: 0,
        chunk: [0; RANK_MAX],
        text: [0; ERROR_TEXT_BYTES],
    };
}

impl Memory {
    /// An empty bill.
    pub const EMPTY: Memory = Memory {
        struct_size: size_of::<Memory>(),
        host_bytes: 0,
        host_align: 0,
        pinned_bytes: 0,
        device_bytes: 0,
        slot_bytes: 0,
        threads: 0,
        line_count: 0,
        lines: [MemoryLine { name: [0; NAME_BYTES], kind: 0, reserved: 0, bytes: 0 }; MEMORY_LINES],
    };
}

impl Metric {
    /// All zeroes.
    const ZERO: Metric = Metric {
        ns: 0,
        ns_best: 0,
        input_bytes: 0,
        output_bytes: 0,
        count: 0,
        histogram: [0; HISTOGRAM_BUCKETS],
    };
}

impl Stats {
    /// What takes a copy of the figures.
    pub const EMPTY: Stats = Stats { struct_size: size_of::<Stats>(), ..Stats::ZERO };

    /// All zeroes, which take no bytes in the archive.
    pub const ZERO: Stats = Stats {
        struct_size: 0,
        plan: Metric::ZERO,
        meta: Metric::ZERO,
        io: Metric::ZERO,
        input_transfer: Metric::ZERO,
        decode: Metric::ZERO,
        post_decode: Metric::ZERO,
        decode_gap: Metric::ZERO,
        assemble: Metric::ZERO,
        bind_wait: Metric::ZERO,
        pop_wait: Metric::ZERO,
        array_meta_hits: 0,
        array_meta_misses: 0,
        shard_index_hits: 0,
        shard_index_misses: 0,
        chunk_layout_hits: 0,
        chunk_layout_misses: 0,
        samples_pushed: 0,
        samples_failed: 0,
        batches_emitted: 0,
        waves_emitted: 0,
        chunks_planned: 0,
        chunks_to_load: 0,
        chunks_dispatched: 0,
        chunks_missing: 0,
        chunk_uses: 0,
        reads_issued: 0,
        files_opened: 0,
        worker_steps: 0,
        host_bytes_committed: 0,
        pinned_bytes_committed: 0,
        gpu_bytes_committed: 0,
        backend: 0,
        batches_held: 0,
        backend_reason: [0; NAME_BYTES],
        chunk_cache_hits: 0,
        chunk_cache_misses: 0,
        chunk_cache_evictions: 0,
        chunk_cache_bytes_saved: 0,
        chunk_cache_bytes_held: 0,
        reader: 0,
        reserved: 0,
        reader_reason: [0; NAME_BYTES],
        gpu_overhead_bytes: 0,
        chunks_decoded: [0; CODEC_PLACES],
        chunks_decoded_in_slab: 0,
        chunks_left_filtered: 0,
        backend_text: [0; ERROR_TEXT_BYTES],
        reader_text: [0; ERROR_TEXT_BYTES],
    };
}

impl ArrayInfo {
    /// Of nothing.
    pub const EMPTY: ArrayInfo = ArrayInfo {
        struct_size: size_of::<ArrayInfo>(),
        rank: 0,
        dtype: 0,
        dtype_bytes: 0,
        byte_order: 0,
        shape: [0; RANK_MAX],
        chunk_shape: [0; RANK_MAX],
        file_shape: [0; RANK_MAX],
        shard_levels: 0,
        index_at_start: 0,
        chunk_bytes: 0,
        fill: [0; 16],
        dtype_name: [0; NAME_BYTES],
        codecs: [0; CODECS_TEXT_BYTES],
        kind: 0,
        entry_count: 0,
        entry_total: 0,
        entries: ptr::null(),
        entry_sources: 0,
        entries_are_cut: 0,
        image_count: 0,
        row_count: 0,
        column_count: 0,
        field_count: 0,
        ngff_version: [0; NGFF_VERSION_BYTES],
        name: [0; NAME_BYTES],
        is_rectilinear: 0,
        reserved: 0,
        file_shape_min: [0; RANK_MAX],
        file_counts: [0; RANK_MAX],
    };
}

/// `wavetrain_memory_hook`: where open takes its memory. All zero: from the system.
///
/// Blocks come before functions. Both functions are called on the thread that calls open or close.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemoryHook {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Handed to the functions.
    pub user: *mut c_void,
    /// A block of at least the bill's host_bytes, aligned to its host_align; or NULL.
    pub host_block: *mut c_void,
    /// Bytes of `host_block`.
    pub host_block_bytes: u64,
    /// Returns `bytes` bytes aligned to `align`, or NULL.
    pub alloc:
        Option<unsafe extern "C" fn(user: *mut c_void, bytes: u64, align: u64) -> *mut c_void>,
    /// Takes back what `alloc` gave.
    pub free:
        Option<unsafe extern "C" fn(user: *mut c_void, block: *mut c_void, bytes: u64, align: u64)>,
}

/// The answer of `wavetrain_files_hook.size` for a file that does not exist.
pub const FILE_ABSENT: i64 = -1;
/// The answer of `wavetrain_files_hook.size` for every other failure.
pub const FILE_FAILED: i64 = -2;

/// `wavetrain_files_hook`: files that only the host can read. All zero: the system's files.
///
/// All functions may block and are called from several threads at once.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FilesHook {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Handed to the functions.
    pub user: *mut c_void,
    /// Size of the file in bytes, FILE_ABSENT or FILE_FAILED. `name` is the uri, a separator and
    /// the key, NUL-terminated.
    pub size: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char) -> i64>,
    /// Reads exactly `bytes` bytes at `offset`: 0, or FILE_ABSENT or FILE_FAILED.
    pub read: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            name: *const c_char,
            offset: u64,
            target: *mut c_void,
            bytes: u64,
        ) -> i64,
    >,
    /// Begins the same read of chunk data: 0, and `wavetrain_read_done` follows once; or
    /// FILE_ABSENT or FILE_FAILED, and nothing follows.
    pub read_async: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            loader: u64,
            ticket: u64,
            name: *const c_char,
            offset: u64,
            target: *mut c_void,
            bytes: u64,
        ) -> i64,
    >,
}

/// `wavetrain_log_hook`: where log lines go. All zero: nowhere.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LogHook {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Handed to the function.
    pub user: *mut c_void,
    /// May run on any thread of ours and on callers' threads inside a call; `text` has
    /// `text_bytes` bytes and a NUL, valid during the call. `tag`: the sample's, else 0.
    pub log: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            level: u32,
            tag: u64,
            text: *const c_char,
            text_bytes: u64,
        ),
    >,
}

/// `wavetrain_fatal_hook`: last words before the process ends by a defect of ours.
///
/// Called by the panic handler of the archive. A Rust host has its own panic handler, and keeps it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FatalHook {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Handed to the function.
    pub user: *mut c_void,
    /// Must not return.
    pub fatal: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            file: *const c_char,
            line: u32,
            text: *const c_char,
        ),
    >,
}

/// A job of ours that the host runs: it takes the argument that came with it.
pub type HostJob = unsafe extern "C" fn(argument: *mut c_void);

/// `wavetrain_workers_hook`: the host's job system.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WorkersHook {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Handed to the function.
    pub user: *mut c_void,
    /// Runs `job(argument)` on some thread, or at once.
    pub run: Option<unsafe extern "C" fn(user: *mut c_void, job: HostJob, argument: *mut c_void)>,
}

/// `wavetrain_profiler_hook`: named ranges for a profiler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProfilerHook {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Handed to the functions.
    pub user: *mut c_void,
    /// A range begins on this thread.
    pub begin: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char)>,
    /// The innermost range of this thread ends.
    pub end: Option<unsafe extern "C" fn(user: *mut c_void)>,
}

impl MemoryHook {
    /// Memory from the system.
    pub const NONE: MemoryHook = MemoryHook {
        struct_size: size_of::<MemoryHook>(),
        user: ptr::null_mut(),
        host_block: ptr::null_mut(),
        host_block_bytes: 0,
        alloc: None,
        free: None,
    };
}

impl FilesHook {
    /// The system's files.
    pub const NONE: FilesHook = FilesHook {
        struct_size: size_of::<FilesHook>(),
        user: ptr::null_mut(),
        size: None,
        read: None,
        read_async: None,
    };
}

impl LogHook {
    /// No lines.
    pub const NONE: LogHook =
        LogHook { struct_size: size_of::<LogHook>(), user: ptr::null_mut(), log: None };
}

impl FatalHook {
    /// No last words.
    pub const NONE: FatalHook =
        FatalHook { struct_size: size_of::<FatalHook>(), user: ptr::null_mut(), fatal: None };
}

impl WorkersHook {
    /// No job system.
    pub const NONE: WorkersHook =
        WorkersHook { struct_size: size_of::<WorkersHook>(), user: ptr::null_mut(), run: None };
}

impl ProfilerHook {
    /// No ranges.
    pub const NONE: ProfilerHook = ProfilerHook {
        struct_size: size_of::<ProfilerHook>(),
        user: ptr::null_mut(),
        begin: None,
        end: None,
    };
}
