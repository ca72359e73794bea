//! The configuration: one table of its fields, with their types, defaults and limits. `settings`
//! checks what depends on several of them and fills in every derived value.
//!
//! A field whose feature is not built yet is refused by name when it differs from its default, so
//! no option is ever accepted and ignored.

pub use crate::base::abi::MetadataLatency;
use crate::base::abi::{
    FatalHook, FilesHook, LogHook, MemoryHook, ProfilerHook, SourceHook, StoreHook, WorkersHook,
    c_structs,
};
use crate::base::limits::{
    BOXES_MAX, CHUNK_BYTES_MAX, CONSUMERS_MAX, HOOK_STACK_BYTES_MAX, INDICES_MAX, MAP_BYTES_MAX,
    PARTS_MAX, RANK_MAX, READERS_MAX, RESAMPLE_BYTES_MAX, SAMPLES_MAX, THREADS_MAX,
    TRACE_EVENTS_MAX, WINDOW_BYTES,
};
use crate::base::status::{Status, Why};
use crate::cuda::DriverPath;
use crate::fail;
use crate::records::Dtype;
pub use crate::setup::cpu_table::CpuTable;
pub use crate::setup::field_table::FieldTable;
pub use crate::setup::metadata_table::MetadataTable;
pub use crate::setup::share::ShareName;
use core::ffi::c_void;
use core::ptr;

/// `backend`: take CUDA if a device exists, else the host.
pub const BACKEND_AUTO: u32 = 0;
/// `backend`: host memory.
pub const BACKEND_HOST: u32 = 1;
/// `backend`: a CUDA device.
pub const BACKEND_CUDA: u32 = 2;
/// `thread_mode`: the loader starts its own threads at open.
pub const THREADS_OWN: u32 = 0;
/// `thread_mode`: no threads; work happens in `pump` and in waiting pops.
pub const THREADS_PUMP: u32 = 1;
/// `thread_mode`: work runs as jobs of the host.
pub const THREADS_HOOK: u32 = 2;
/// `on_error`: the first failing batch ends the stream.
pub const ON_ERROR_FAIL: u32 = 0;
/// `on_error`: failing samples are filled with pad_value and marked.
pub const ON_ERROR_SKIP: u32 = 1;
/// `on_error`: as ON_ERROR_SKIP, but what fails is NaN in fields that can hold it: of a sample
/// whose chunks cannot be read these alone.
pub const ON_ERROR_NAN: u32 = 2;
/// `missing_chunks`: a chunk that does not exist reads as the fill value.
pub const MISSING_FILL: u32 = 0;
/// `missing_chunks`: a chunk that does not exist is NOT_FOUND.
pub const MISSING_ERROR: u32 = 1;
/// `pad_mode`: a box outside its array is INVALID.
pub const PAD_NONE: u32 = 0;
/// `pad_mode`: outside reads as pad_value, or as the array's fill value.
pub const PAD_CONSTANT: u32 = 1;
/// `pad_mode`: outside repeats the nearest element.
pub const PAD_EDGE: u32 = 2;
/// `pad_mode`: outside mirrors, the edge not repeated.
pub const PAD_REFLECT: u32 = 3;
/// `enable_gds`, which is not built yet, and `numa_strategy`: decide at open.
pub const AUTO: u32 = 0;
/// `enable_gds`: no GPUDirect Storage.
pub const GDS_OFF: u32 = 1;
/// `enable_gds`: open fails without it. Not built yet.
pub const GDS_ON: u32 = 2;
/// `device_decode`: what gains by it.
pub const DECODE_AUTO: u32 = 0;
/// `device_decode`: workers decode everything.
pub const DECODE_OFF: u32 = 1;
/// `device_decode`: everything that a device can decode.
pub const DECODE_ON: u32 = 2;
/// `numa_strategy`: the system places memory and threads.
pub const NUMA_OFF: u32 = 1;
/// `numa_strategy`: memory and threads are on `numa_node`.
pub const NUMA_PIN: u32 = 2;
/// `on_consumer_lost`: the stream ends for all.
pub const LOST_FAIL: u32 = 0;
/// `on_consumer_lost`: its batches are dropped.
pub const LOST_SKIP: u32 = 1;
/// `share_order`: batch k is for consumer k modulo their number.
pub const SHARE_ROUND: u32 = 0;
/// `share_order`: a batch is for the consumer that pops first.
pub const SHARE_FIRST: u32 = 1;
/// `share_order`: each batch is for all.
pub const SHARE_ALL: u32 = 2;
/// `log_level`: every step.
pub const LOG_TRACE: u32 = 0;
/// `log_level`: every decision.
pub const LOG_DEBUG: u32 = 1;
/// `log_level`: what an operator wants to know once.
pub const LOG_INFO: u32 = 2;
/// `log_level`: data that was skipped, and other things that somebody should look at.
pub const LOG_WARN: u32 = 3;
/// `log_level`: what ends a stream.
pub const LOG_ERROR: u32 = 4;
/// `log_level`: what ends the process.
pub const LOG_FATAL: u32 = 5;
/// `log_level`: nothing is logged.
pub const LOG_OFF: u32 = 6;
/// As a timeout of pop: what `pop_timeout_ns` says.
pub const POP_TIMEOUT: u64 = u64::MAX - 1;
/// As a timeout of close: however long batches are held and tensors live.
pub const UNTIL_RELEASED: u64 = u64::MAX - 2;

/// A hook in a config, which states its size by itself.
pub(crate) struct Hook {
    pub name: &'static str,
    /// Its offset in the config.
    pub offset: usize,
    /// The size that it states.
    pub given: usize,
    /// The size of its type.
    pub known: usize,
}

/// Refuses a value that is not within its limits, ends included.
pub(super) fn range(
    why: &mut Why,
    name: &str,
    value: u64,
    (least, most): (u64, u64),
) -> Result<(), Status> {
    if value < least || value > most {
        return Err(fail!(why, Invalid, "{name} = {value}: must be {least} to {most}"));
    }
    Ok(())
}

/// Refuses a latency of which there is no distribution.
pub(super) fn check_latency(latency: &MetadataLatency, why: &mut Why) -> Result<(), Status> {
    let (mu, sigma) = (latency.lognormal_mu_ln_ns, latency.lognormal_sigma_ln_ns);
    if mu.is_finite() && (0.0..=f64::MAX).contains(&sigma) {
        return Ok(());
    }
    Err(fail!(
        why,
        Invalid,
        "metadata_latency: lognormal_mu_ln_ns = {mu}, lognormal_sigma_ln_ns = {sigma}: they must \
         be finite, and sigma 0 or more"
    ))
}

macro_rules! config {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $default:expr
        $(, [$least:expr, $most:expr])? $(, $hook:ident)?
        $(=> $flag:ident $($choices:ident)? $help:literal)?;
    )+) => {
        c_structs! {
            /// Everything that a loader is told at open: `wavetrain_config`.
            ///
            /// Fill it with [`Config::default`] and change what you need. "0 = derived" is said
            /// where it holds; elsewhere 0 means zero.
            struct Config, DEFAULT { $(
                $(#[$doc])*
                #[doc = concat!(
                    "\n\nDefault: `", stringify!($default), "`."
                    $(, " Limits: `", stringify!($least), "` to `", stringify!($most), "`.")?
                )]
                $name: $type = $default,
            )+ }
        }

        impl Config {
            /// Checks each field that has limits of its own.
            pub(super) fn check_ranges(&self, why: &mut Why) -> Result<(), Status> {
                $($(
                    let limits = ($least as u64, $most as u64);
                    range(why, stringify!($name), u64::from(self.$name), limits)?;
                )?)+
                Ok(())
            }

            /// Shows each hook to `visit`, up to the first that is refused.
            pub(crate) fn each_hook(
                &self,
                mut visit: impl FnMut(Hook) -> Result<(), Status>,
            ) -> Result<(), Status> {
                $($(visit($hook {
                    name: stringify!($name),
                    offset: core::mem::offset_of!(Config, $name),
                    given: self.$name.struct_size,
                    known: size_of::<$type>(),
                })?;)?)+
                Ok(())
            }
        }
    };
}

/// The fields of a config, in their order: type and default, then limits, both included, or that
/// it is a hook; after `=>` how the command line reads its flag, and the help. tools/settings.py
/// makes the header's members and Python's limits of it, with the sentences; `NAME_` in one stands
/// for the constants of these names.
#[cfg_attr(feature = "internals", macro_export)]
#[doc(hidden)]
macro_rules! config_table {
    ($make:ident) => { $make! {
        // The batch.
        /// Samples in a batch.
        samples_per_batch: u32 = 1, [1, SAMPLES_MAX] => Count "samples in a batch (short: --batch)";
        /// Axes of a sample. It must be set, unless the config has a table of fields.
        sample_rank: u32 = 0, [0, RANK_MAX] => Count "axes of a sample";
        /// Extents of a sample, each at least 1.
        sample_shape: [u64; RANK_MAX] = [0; RANK_MAX]
            => Shape "extents of a sample: 64,128,128 (sets sample-rank)";
        /// Type of its elements. F32, BF16 and F16 take all real numbers; F64 takes integers.
        /// A wider integer type takes integers if it loses nothing: U16 to U64 take unsigned ones,
        /// I32 and I64 both. BOOL becomes any of these, U8, I8 or I16, as 0 or 1. The array's own
        /// type, or RAW, is a copy of the bits.
        /// With saturate = 1 every integer type takes all real numbers.
        dtype: u32 = Dtype::F32 as u32 => Dtype "output element type";
        /// Bytes of an element if dtype is RAW, 1 to 16; else 0.
        dtype_bytes: u32 = 0 => Count "bytes of a raw element";
        // Caps.
        /// Device bytes. 0 = derived: output pool + 1 GiB. If it is set, a wave may decode to 512
        /// MiB, not 128. Like device, consumer_stream and cuda_driver it speaks of a device: with
        /// backend HOST it is INVALID to set one of them, with AUTO they count if a device is
        /// taken.
        max_gpu_memory_bytes: u64 = 0 => Bytes "cap on device bytes; 0 = derived";
        /// Host and pinned bytes. 0 = derived: batch slots + chunk cache + 256 MiB, or 16 x
        /// max_chunk_uncompressed_bytes if that is more, + what stacks and tables take beyond 32
        /// MiB (and decoders, if n_decode_threads is set). On a device 256 MiB + 1,056 x
        /// samples_per_batch x host_buffer_waves stand for the slots.
        max_host_memory_bytes: u64 = 0 => Bytes "cap on host bytes; 0 = derived";
        /// Samples that push takes before their batch is planned, a batch or more. 0 = derived: two
        /// batches, 64 at least; with a chunk cache as many as fill it four times over, at most
        /// 4,096. Their arrays are looked up in advance.
        lookahead_samples: u32 = 0, [0, SAMPLES_MAX]
            => Count "samples taken in advance; 0 = two batches, 64 at least";
        /// Batches that are filled, ready or held at a time. Chunks of later ones are read as well
        /// while reads have to be waited for. With share_name the default stands for 2 for each
        /// consumer and 1, at most 64.
        n_batch_slots: u32 = 3, [1, 64] => Count "batches in flight";
        /// Largest decoded chunk: a larger one is BUDGET at pop, unless nothing compresses or
        /// checks it, so that only parts of it are read.
        max_chunk_uncompressed_bytes: u64 = 16 << 20, [1, CHUNK_BYTES_MAX]
            => Bytes "largest decoded chunk";
        /// Largest read that neighbouring reads are merged to; a single chunk may be larger.
        max_read_op_bytes: u64 = 4 << 20, [1, u32::MAX] => Bytes "largest merged read";
        /// Waves that are staged at a time. On a device these are pinned slabs, which come from
        /// the NUMA node of the thread that calls open, or that of numa_strategy.
        host_buffer_waves: u32 = 4, [2, 64] => Count "waves staged at a time";
        /// Chunks in a wave.
        max_chunks_per_wave: u32 = 512, [1, 65535] => Count "chunks in a wave";
        /// Most blosc streams of a chunk. 0 = no limit.
        max_substreams_per_chunk: u32 = 0 => Count "most blosc streams in a chunk; 0 = no limit";
        // Workers and caches.
        /// Threads that wait for storage.
        n_io_threads: u32 = 16, [1, THREADS_MAX] => Count "threads that wait for storage";
        /// Threads that decode, or, if wavetrain has none, the number of your threads that work at
        /// a time. 0 = derived: the least of the affinity mask, the cgroup's CPU quota and the CPUs
        /// online. That is divided by the ranks of the node if a launcher names their number. On a
        /// device it is less two, for your thread and the driver's, and 1 at least. It is fewer if
        /// the cap on CPU memory has no room for their scratch.
        n_decode_threads: u32 = 0, [0, THREADS_MAX]
            => Count "threads that decode; 0 = CPUs, on a device less two (short: --threads)";
        /// Metadata and index reads in flight.
        metadata_io_concurrency: u32 = 64, [1, 4096] => Count "metadata reads in flight";
        /// Arrays whose metadata is cached; fewer if their rectilinear grids change the edge length
        /// more than 192 times each.
        n_array_meta_cache: u32 = 64, [1, 1 << 20] => Count "cached arrays";
        /// Index pages that are cached, of 256 chunks each.
        n_shard_index_cache: u32 = 1024, [1, 1 << 24] => Count "cached index pages";
        /// Files whose presence, size and index checksums are cached.
        n_chunk_layout_cache: u32 = 1024, [1, 1 << 24] => Count "cached file layouts";
        /// Most shards that a box may touch. 0 = no limit.
        max_shards_per_sample: u32 = 0 => Count "most shards that a box touches; 0 = no limit";
        /// Bytes for decoded chunks that are cached, a part in 32 of them for tables; 0, or 65,536
        /// or more. The chunks whose next use is farthest away leave first, so let
        /// lookahead_samples be large. Chunks are then decoded whole. Uncompressed chunks are
        /// cached, too, if a read of the whole costs little more than one of the part that boxes
        /// need.
        chunk_cache_bytes: u64 = 0 => Bytes "decoded chunks to keep";
        // Behaviour.
        /// `BACKEND_`: the place of batches.
        backend: u32 = BACKEND_HOST, [0, BACKEND_CUDA] => Choice BACKENDS "where batches are made";
        /// Number of the CUDA device; -1 = the one of the context that is current, see above.
        device: i32 = -1 => Signed "number of the CUDA device";
        /// `THREADS_`: whose threads do the work.
        thread_mode: u32 = THREADS_OWN, [0, THREADS_HOOK]
            => Choice THREAD_MODES "who runs the work";
        /// 1: flush discards a batch that is not full.
        drop_last: u32 = 0, [0, 1] => Switch "discard a partial last batch";
        /// `ON_ERROR_`: the effect of a sample that fails.
        on_error: u32 = ON_ERROR_FAIL, [0, ON_ERROR_NAN]
            => Choice ON_ERRORS "after a failing sample";
        /// `MISSING_`: the meaning of a chunk that does not exist.
        missing_chunks: u32 = MISSING_FILL, [0, MISSING_ERROR]
            => Choice MISSING "what a chunk that does not exist is";
        /// `PAD_`: the elements outside of an array.
        pad_mode: u32 = PAD_NONE, [0, PAD_REFLECT] => Choice PADS "boxes that reach outside";
        /// 1: constant padding takes pad_value; 0: the array's fill value.
        pad_value_set: u32 = 0, [0, 1]
            => Switch "constant padding takes pad-value, not the fill value";
        /// The value that padding and skipped samples hold; it must fit dtype.
        pad_value: f64 = 0.0 => PadValue "what padding holds (sets pad-value-set)";
        /// The meaning of `POP_TIMEOUT`, pop's default in C++.
        pop_timeout_ns: u64 = 30_000_000_000
            => Time "longest wait for a batch: 500ms, 30s; plain numbers are ns";
        /// `GDS_`: GPUDirect Storage. Not built yet.
        enable_gds: u32 = GDS_OFF, [0, GDS_ON] => Choice GDS "GPUDirect Storage; not built yet";
        /// `NUMA_`: the NUMA node of memory and threads. Memory prefers the node: if it is full,
        /// others give theirs. wavetrain's threads run on those CPUs of the node that are in cpus,
        /// or in the mask of the thread that opens, and are derived for them. Your memory and your
        /// threads stay as they are. placement_text has what was placed, and why not.
        numa_strategy: u32 = NUMA_OFF, [0, NUMA_PIN]
            => Choice NUMA "the NUMA node of memory and threads";
        /// The node for PIN, INVALID at open if it is not there or has no memory; else -1.
        numa_node: i32 = -1 => Signed "NUMA node for --numa-strategy pin";
        /// `LOG_`: the least severe level that is logged.
        log_level: u32 = LOG_WARN, [0, LOG_OFF] => Choice LEVELS "least severe level logged";
        /// 1: log lines go to the hook alone; 0: to stderr too.
        log_quiet: u32 = 1, [0, 1] => Switch "no log lines on stderr";
        /// Always 0.
        reserved: u32 = 0, [0, 0];
        /// CUstream that you use batches on, until close: release waits for it. (void *)1 is the
        /// legacy default stream, (void *)2 that of the thread that pops, see wavetrain_dlpack.
        consumer_stream: *mut c_void = ptr::null_mut();
        /// Synthetic latency of requests for metadata.
        metadata_latency: MetadataLatency = MetadataLatency::BLANK
            => Latency "sleep before each request for metadata";
        // Hooks; all built-in by default. Copied by open; what they point to is in use until
        // close.
        /// Allocates memory.
        memory: MemoryHook = MemoryHook::NONE, Hook;
        /// Reads files.
        files: FilesHook = FilesHook::NONE, Hook;
        /// Gets log lines.
        log: LogHook = LogHook::NONE, Hook;
        /// Last words before a defect of wavetrain ends the process.
        fatal: FatalHook = FatalHook::NONE, Hook;
        /// Your job system, with thread_mode HOOK.
        workers: WorkersHook = WorkersHook::NONE, Hook;
        /// Your profiler.
        profiler: ProfilerHook = ProfilerHook::NONE, Hook;
        // The driver.
        /// Always 0.
        reserved6: u32 = 0, [0, 0];
        /// Always 0.
        reserved2: u32 = 0, [0, 0];
        /// Path of the CUDA driver, up to 4,095 bytes and a NUL, read during the call alone; for
        /// tests. NULL is libcuda.so.1.
        cuda_driver: DriverPath = DriverPath::NULL => Path "path of the CUDA driver";
        // Several tensors in a batch, or several boxes in a sample.
        /// The fields of a batch, read during the call alone. sample_rank, sample_shape, dtype,
        /// dtype_bytes, pad_mode, pad_value_set and pad_value keep their defaults then.
        fields: FieldTable = FieldTable::NONE;
        /// Most boxes of a sample. 0 = derived: one for each field. With 0 and no fields the box
        /// of a sample has all of its shape; else it may be a part of it.
        max_boxes_per_sample: u32 = 0, [0, BOXES_MAX]
            => Count "most boxes in a sample; 0 = one for each field";
        /// Numbered .npy files that all arrays in use have together; 64 bytes each.
        max_npy_files: u32 = 0, [0, PARTS_MAX] => Count "numbered .npy files of all arrays";
        /// 1: each sample of each field gets a digest, see below.
        digest: u32 = 0, [0, 1] => Switch "give each sample a digest of its bytes";
        /// 1: boxes may have a wavetrain_augment and a wavetrain_affine, which push copies.
        augment: u32 = 0, [0, 1] => Switch "room for arithmetic on boxes, and for maps";
        /// Host memory for the voxels of boxes that have a wavetrain_affine, until they are
        /// resampled. A box whose map reads more is BUDGET at pop. 0 = derived: eight times the
        /// largest field, at least 1 MiB, if augment is 1.
        max_resample_bytes: u64 = 0, [0, RESAMPLE_BYTES_MAX]
            => Bytes "memory for voxels of boxes with a map; 0 = 8 times a field";
        /// Arrays that only you can read: hook:NAME. Copied by open.
        source: SourceHook = SourceHook::NONE, Hook;
        /// `DECODE_`: the chunks that are decoded on the device.
        device_decode: u32 = DECODE_AUTO, [0, DECODE_ON]
            => Choice DECODES "what is decoded on the device";
        /// 1: arrays that boxes name are decoded by the CF conventions, as if their uris ended with
        /// #cf=1. With fields each field has its own cf.
        cf: u32 = 0, [0, 1] => Switch "arrays are decoded by CF conventions, as with #cf=1";
        /// Functions that the files hook lacks.
        store: StoreHook = StoreHook::NONE, Hook;
        /// Stack of a hook on each of wavetrain's own threads; below it is a guard of 128 KiB. 0 =
        /// derived: 256 KiB. Stacks have no part for hooks, and guards of a page, if no hook but
        /// memory and workers is set.
        hook_stack_bytes: u64 = 0, [0, HOOK_STACK_BYTES_MAX]
            => Bytes "stack that hooks have on own threads; 0 = 256KiB";
        /// Data files that are kept open. 0 = derived: an eighth of RLIMIT_NOFILE, at least 64.
        /// Never more than n_chunk_layout_cache. Metadata and folders take a few descriptors more,
        /// for a moment.
        max_open_files: u32 = 0
            => Count "data files that are kept open; 0 = an eighth of the limit";
        /// 1: the library or plugin that holds wavetrain stays loaded until the process ends, once
        /// a loader was opened; 0: you close before you unload it. A program always stays.
        keep_loaded: u32 = 1, [0, 1] => Switch "the library stays loaded once it was used";
        /// How long reset waits for what runs, before it is AGAIN.
        reset_timeout_ns: u64 = 30_000_000_000 => Time "longest wait of a reset";
        /// 1: boxes of uncompressed chunks, .npy and raw files are copied out of mappings, if the
        /// file is on ext4, xfs, btrfs, tmpfs or overlayfs; other files are read. TRUNCATION OR A
        /// READ ERROR OF A MAPPED FILE ENDS THE PROCESS BY SIGBUS. The storage of a file that is
        /// removed is freed once other files have taken its windows. The page tables are the
        /// system's, and no part of a budget.
        map_uncompressed: u32 = 0, [0, 1] => Switch "copy uncompressed data out of mapped files";
        /// 1: bool, integers and floats of any size become those of an integer dtype, as
        /// numpy.clip(numpy.trunc(x), least, greatest) of exact numbers gives them; NaN is 0.
        /// 0: only integers that fit without it.
        saturate: u32 = 0, [0, 1] => Switch "numbers are clamped to an integer dtype; NaN is 0";
        /// Address space for mapped files, taken at open if map_uncompressed = 1: windows of 1 GiB,
        /// which pass to other files by last use.
        map_bytes_max: u64 = 64 << 30, [WINDOW_BYTES, MAP_BYTES_MAX]
            => Bytes "address space for mapped files";
        /// Calls of read_into that work at a time; others wait in order. 0: read_into is INVALID,
        /// and takes no memory.
        n_readers: u32 = 8, [0, READERS_MAX] => Count "calls of read_into that work at a time";
        /// n: batches lie in memory that is lent alone, n of them at a time, and n_batch_slots does
        /// not count. 0: batches lie in lent memory first, n_batch_slots at a time, and then in the
        /// slots. The tool lends nothing, and has no flag for it.
        lent_slots: u32 = 0, [0, 64];
        /// Places in the ring of events that wavetrain_trace copies, of 56 bytes; 0: no event is
        /// kept.
        trace_events: u32 = 0, [0, TRACE_EVENTS_MAX] => Count "events of stages that are kept";
        /// Most indices in the lists of the boxes of a sample; of a box of several lists their
        /// product counts. Each is room for one more box. Above 0 the box of a sample may be a
        /// part of it, as with max_boxes_per_sample.
        max_indices_per_sample: u32 = 0, [0, INDICES_MAX]
            => Count "most indices in the lists of a sample";
        /// 1: open is OUT_OF_MEMORY, before it touches a page, if the budget is more than the
        /// system allots. That is the least of the rest of the cgroup's memory limit, MemAvailable
        /// + SwapFree, the rest of CommitLimit if the system keeps to it, and the rest of
        /// RLIMIT_AS. 0: nothing is checked.
        check_memory: u32 = 1, [0, 1] => Switch "refuse a budget beyond what the system allots";
        /// `LOST_`: the effect of a consumer that ends without a close, closes while batches for it
        /// are left, or does not attach in time.
        on_consumer_lost: u32 = LOST_FAIL, [0, LOST_SKIP]
            => Choice LOST "after a consumer that is lost";
        /// Name under which other processes attach (wavetrain_node.h), read during the call alone:
        /// letters, digits, '-', '_' and '.', one of this user's on this machine; with '/' the path
        /// of a socket. NULL: batches are this process's alone.
        share_name: ShareName = ShareName::NULL;
        /// Processes that attach, 1 to 64 with share_name.
        share_consumers: u32 = 0, [0, CONSUMERS_MAX];
        /// `SHARE_`: which consumer gets which batch.
        share_order: u32 = SHARE_ROUND, [0, SHARE_ALL]
            => Choice ORDERS "which consumer gets which batch";
        /// 1: the owner pops as consumer 0; 0: its pop gives no batch, and is END once consumers
        /// have taken all there was.
        share_owner: u32 = 0, [0, 1];
        /// Always 0.
        reserved4: u32 = 0, [0, 0];
        /// A consumer that has not attached by then, counted from open, is lost.
        attach_timeout_ns: u64 = 60_000_000_000 => Time "longest wait for a consumer";
        /// Bits of the CPUs that wavetrain's threads may use, whatever the mask of the thread that
        /// opens; read during the call alone. One that is not online, or that the process may not
        /// use, is INVALID. NULL: the mask of that thread.
        cpus: CpuTable = CpuTable::NONE;
        /// Metadata that `wavetrain_metadata` looked up, on whatever machine: the parts it wrote,
        /// one after the other, in use until close. Documents and indexes that it has are not read:
        /// their files are looked at once. A file that has another size or another time of change
        /// than at the look-up is IO (an object that has another version). Others are read as ever.
        metadata: MetadataTable = MetadataTable::NONE;
    } };
}
config_table!(config);

// SAFETY: what the pointers of a config lead to is used by calls alone, and only by those that are
// unsafe, whose callers say that any thread may use it.
unsafe impl Send for Config {}
// SAFETY: threads only read the pointers of a config, and follow none.
unsafe impl Sync for Config {}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}
