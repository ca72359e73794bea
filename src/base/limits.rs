//! Every hard cap of the library, each with its reason. Relations between them are checked here.

use crate::base::math::align_up;
use static_assertions::const_assert;

/// Largest rank of an array, a box or a sample shape. Real data stops at 7 (TPCZYX and a spare).
pub const RANK_MAX: usize = 16;

/// Longest uri in bytes: PATH_MAX of Linux without its NUL.
pub const URI_BYTES_MAX: usize = 4095;

/// Longest key of a file in its array: "c", then 16 axes of a separator and 20 digits; and a NUL.
pub const FILE_KEY_BYTES: usize = 1 + RANK_MAX * 21 + 1;

/// Longest path: a uri, a separator and the longest key.
pub const PATH_BYTES_MAX: usize = URI_BYTES_MAX + 1 + FILE_KEY_BYTES;

/// Largest metadata document. Consolidated metadata of large hierarchies reaches megabytes.
pub const METADATA_BYTES_MAX: usize = 4 << 20;

/// Metadata documents up to this size are read into a thread's own buffer; larger ones share the
/// one buffer of METADATA_BYTES_MAX.
pub const METADATA_SMALL_BYTES: usize = 64 << 10;

/// Deepest nesting of JSON that is followed; zarr itself needs about 8, attributes may have more.
pub const JSON_DEPTH_MAX: usize = 128;

/// Most chunks that could not be read of which a loader keeps why: a list that somebody reads.
pub const BAD_CHUNKS_MAX: usize = 64;

/// Bytes of an error text, its NUL included.
pub const ERROR_TEXT_BYTES: usize = 512;
/// Bytes of a text in the statistics, the NUL included: one sentence and a setting.
pub const SHORT_TEXT_BYTES: usize = 256;

/// Longest path of a node inside a group, its NUL included. Labels of fields of wells nest some ten
/// short names; a longer path is refused by name.
pub const ENTRY_PATH_BYTES: usize = 1024;

/// Most processes that take batches of one loader: sets of them are bits of a word.
pub const CONSUMERS_MAX: usize = 64;

/// Longest name under which batches are shared, and longest path: a socket's address has 108 bytes,
/// of which a name leaves some to the number of the user.
pub const SHARE_NAME_BYTES_MAX: usize = 80;
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Most numbered files of all arrays.
pub const PARTS_MAX: u32 = 1 << 24;

/// Most levels of all multiscales of one group. Halving once per level, 2^63 elements end after 63;
/// writers stop near 10.
pub const GROUP_LEVELS_MAX: usize = 64;

/// Most names of a directory that `array_info` looks at: a second or so of system calls, for a
/// group that keeps no list of its nodes.
pub const LISTED_NAMES_MAX: u32 = 1 << 16;

/// Most names of a directory that a load job looks at to say what a group holds: some hundred
/// system calls, no more than other jobs take; the text holds a few dozen names.
pub const REFUSAL_NAMES_MAX: u32 = 256;

/// Bytes of directory entries that are read at a time: any entry fits (its name has at most 255
/// bytes), and it stands on the stack of an io thread.
pub const DIRECTORY_READ_BYTES: usize = 4096;

/// Largest element: complex128, and raw types up to it.
pub const ELEMENT_BYTES_MAX: usize = 16;

/// Most codecs in one chain, filters and checksums included: writers stop at five. The text of
/// `array_info` names as many behind two levels of shards.
pub const CODECS_MAX: usize = 6;

/// Most values that the map of a `cast_value` names: writers name NaN, infinities and a few flags.
pub const CAST_PAIRS_MAX: usize = 64;

/// Most bytes of an element that a filter makes of one byte: f64 of booleans.
pub const FILTER_GROWTH_MAX: u64 = 8;

/// Most shard levels of which chunks are read by themselves: a shard inside a shard. Those inside
/// of them are chunks, which are decoded whole.
pub const SHARD_LEVELS_MAX: usize = 2;

/// Most shards inside each other, those that are decoded whole included. More is refused by name.
pub const SHARDS_MAX: usize = 4;

/// Most runs of equal edges over all axes of a rectilinear grid: a daily axis in monthly chunks has
/// ten a year, so this is a century.
pub const EDGE_RUNS_MAX: usize = 1024;

/// Entries of a shard index that are cached together: 4 KiB of index.
pub const INDEX_PAGE_ENTRIES: usize = 256;

/// Bytes of one index entry: offset and length.
pub const INDEX_ENTRY_BYTES: usize = 16;

/// Most chunks in one shard (tensorstore has the same cap); keeps index sizes far below u64.
pub const SHARD_CHUNKS_MAX: u64 = 1 << 30;

/// Instances that one process may have open at once; handles name a place in this table.
pub const INSTANCES_MAX: usize = 64;

/// Most fields (tensors) in a batch: an image, its mask, labels, weights, and as many again.
pub const FIELDS_MAX: u32 = 8;

/// Most boxes in a sample: a mosaic of 8 by 8 for each of the fields.
pub const BOXES_MAX: u32 = 255;

/// Most indices in the lists of a sample, each of which may be a box: as many as a slot of a batch
/// of a few samples still counts.
pub const INDICES_MAX: u32 = 1 << 16;

/// Tensors of each field of a batch that may live at a time: views of a framework or two on each of
/// a few streams. Their records are taken at open.
pub const TENSORS_PER_SLOT: u32 = 8;

/// Streams of consumers that are remembered for a slot: the config's, and eight of its tensors of
/// all fields. A tensor on one stream more is AGAIN.
pub const USES_PER_SLOT: u32 = 1 + 8;

/// Alignment of every batch and staging buffer: what DLPack and CUDA copies ask for.
pub const BUFFER_ALIGN: u64 = 256;

/// A page of memory: what large pieces of the arena start at.
pub const MEMORY_PAGE_BYTES: u64 = 4096;

/// Fewest bytes between rows or strips of uncompressed data that are left out: a page. Out of the
/// page cache, at 5 to 8 GB/s, they take longer than the call that a row of its own costs. With
/// 2 KiB some lists gained 5 % and others lost 2 %.
pub const GAP_BYTES_MIN: u64 = 4096;

/// Bytes of a chunk of a flat file at most: enough for a job, little enough to share a large box
/// among several.
pub const FILE_CHUNK_BYTES: u64 = 1 << 20;

/// The same if it is mapped: what a box does not need of it costs nothing, and each task does.
pub const MAPPED_CHUNK_BYTES: u64 = 16 << 20;

/// Address space of a window of a mapped file: a page table of its own.
pub const WINDOW_BYTES: u64 = 1 << 30;

/// Most address space for windows: half of what a process has.
pub const MAP_BYTES_MAX: u64 = 1 << 46;
/// Most bytes of staging for boxes with a map.
pub const RESAMPLE_BYTES_MAX: u64 = 1 << 44;

/// Largest chunk cap that a config may ask for: offsets inside a chunk stay in u32.
pub const CHUNK_BYTES_MAX: u64 = 1 << 31;

/// Most samples in a batch, and most samples of lookahead.
pub const SAMPLES_MAX: u32 = 1 << 20;

/// Most stack that a hook may be given: more is a mistake.
pub const HOOK_STACK_BYTES_MAX: u64 = 1 << 30;

/// Words of the largest set of CPUs: Linux has 8,192 CPUs at most.
pub const CPU_WORDS_MAX: usize = 128;

/// Most threads of either kind.
pub const THREADS_MAX: u32 = 1024;

/// Most reads in flight of a host: more than a network has use for, and few enough that their
/// tickets take some megabytes.
pub const READS_MAX: u32 = 1 << 14;

/// Most calls of read_into that work at a time.
pub const READERS_MAX: u32 = 1024;
/// Places in the ring of events: with all of them it takes 896 MiB.
pub const TRACE_EVENTS_MAX: u32 = 1 << 24;

/// Largest number of bytes that a well-formed compressed chunk of `chunk_bytes` may take: bounds of
/// zstd and lz4 are n + n/256 and n + n/255 plus headers, deflate adds 5 bytes per stored block,
/// c-blosc stores a chunk that would grow; the constant covers small chunks with extra frames,
/// members, padding or checksums. A longer one is refused unread, so that the
/// answer depends on the array alone and never on the staging memory of a loader.
pub const fn compressed_bytes_max(chunk_bytes: u64) -> u64 {
    chunk_bytes + chunk_bytes / 64 + (64 << 10)
}

/// Bytes of memory that a chunk of up to `chunk_bytes` is decoded into: the chunk, with the
/// checksums that a compressor may have wrapped in, to the end of a cache line.
pub const fn target_bytes(chunk_bytes: u64) -> u64 {
    align_up(chunk_bytes + (4 * CODECS_MAX) as u64, SCRATCH_ALIGN)
}

/// Alignment of the memory that chunks are decoded in: a cache line.
pub const SCRATCH_ALIGN: u64 = 64;

const_assert!(INDEX_PAGE_ENTRIES * INDEX_ENTRY_BYTES == 4096);
// A stored chunk that is cut has its extents after those of the levels.
const_assert!(SHARD_LEVELS_MAX < SHARDS_MAX);
const_assert!(SHARD_CHUNKS_MAX < u64::MAX / INDEX_ENTRY_BYTES as u64);
const_assert!(METADATA_SMALL_BYTES < METADATA_BYTES_MAX);
const_assert!(CODECS_MAX * CAST_PAIRS_MAX < EDGE_RUNS_MAX);
const_assert!(compressed_bytes_max(CHUNK_BYTES_MAX) < u32::MAX as u64);
// However often filters widen a chunk, and checksums follow, its size stays in u64.
const_assert!(CHUNK_BYTES_MAX < u64::MAX >> (3 * CODECS_MAX as u64 + 1));
const_assert!(FILTER_GROWTH_MAX == 1 << 3);
const_assert!(ERROR_TEXT_BYTES >= 256);
// Batch slots start at pages.
const_assert!(MEMORY_PAGE_BYTES.is_multiple_of(BUFFER_ALIGN));
// A worker's place for an encoded chunk, of whatever size, holds a small metadata document too.
const_assert!(compressed_bytes_max(1) >= METADATA_SMALL_BYTES as u64);

/// Bytes that a device gives scratch for blocks of zstd frames out in.
pub const SCRATCH_UNIT: u64 = 16;

/// Most streams that a device decodes of a chunk of so many bytes: each costs a record and a warp.
pub fn streams_max(chunk_bytes: u64) -> u64 {
    64 + chunk_bytes / 1024
}
