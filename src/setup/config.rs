//! The configuration: every field with its literal default. `settings` checks it and fills in every
//! derived value.
//!
//! A field whose feature is not built yet is refused by name when it differs from its default, so
//! no option is ever accepted and ignored.

use crate::base::abi::{FatalHook, FilesHook, LogHook, MemoryHook, ProfilerHook, WorkersHook};

use crate::base::limits::RANK_MAX;
use crate::cuda::DriverPath;
use crate::records::Dtype;
use core::mem::size_of;
use core::ptr;

/// `backend`: take CUDA where there is a device, else the host.
pub const BACKEND_AUTO: u32 = 0;
/// `backend`: host memory.
pub const BACKEND_HOST: u32 = 1;
/// `backend`: a CUDA device.
pub const BACKEND_CUDA: u32 = 2;
/// `thread_mode`: the instance starts its own threads at open.
pub const THREADS_OWN: u32 = 0;
/// `thread_mode`: no threads; work happens in `pump` and in waiting pops.
pub const THREADS_PUMP: u32 = 1;
/// `thread_mode`: work runs as jobs of the host.
pub const THREADS_HOOK: u32 = 2;
/// `on_error`: the first failing batch ends the stream.
pub const ON_ERROR_FAIL: u32 = 0;
/// `on_error`: failing samples are filled with pad_value and marked.
pub const ON_ERROR_SKIP: u32 = 1;
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
/// `enable_gds`, `numa_strategy`: decide at open. Not built yet.
pub const AUTO: u32 = 0;
/// `enable_gds`: no GPUDirect Storage.
pub const GDS_OFF: u32 = 1;
/// `enable_gds`: open fails where there is none. Not built yet.
pub const GDS_ON: u32 = 2;
/// `numa_strategy`: memory and threads go where the system puts them.
pub const NUMA_OFF: u32 = 1;
/// `numa_strategy`: memory and threads go to `numa_node`. Not built yet.
pub const NUMA_PIN: u32 = 2;
/// `reader`: decide at open.
pub const READER_AUTO: u32 = 0;
/// `reader`: threads that wait in read calls.
pub const READER_THREADS: u32 = 1;
/// `reader`: one thread, many reads in flight through io_uring.
pub const READER_URING: u32 = 2;
/// `reader`: as READER_URING, past the page cache (O_DIRECT) where the bytes are not in it.
pub const READER_DIRECT: u32 = 3;
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

/// `metadata_latency`: synthetic latency of metadata operations, for benches. Not built yet.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MetadataLatency {
    /// Constant part in nanoseconds.
    pub baseline_ns: u64,
    /// Mean of the logarithm of the random part in nanoseconds.
    pub lognormal_mu_ln_ns: f64,
    /// Its standard deviation.
    pub lognormal_sigma_ln_ns: f64,
    /// Largest random part in nanoseconds.
    pub cap_ns: u64,
    /// Seed of the random part.
    pub seed: u64,
}

/// Everything that an instance is told at open: `wavetrain_config`.
///
/// Fill it with [`Config::default`] and change what you need. "0 = derived" is said where it holds;
/// elsewhere 0 means zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    /// Size of this struct as the caller knows it.
    pub struct_size: usize,
    /// Samples in a batch, at least 1. Default 1.
    pub samples_per_batch: u32,
    /// Axes of a sample, 1 to 16. Default 0: must be set.
    pub sample_rank: u32,
    /// Extents of a sample, each at least 1.
    pub sample_shape: [u64; RANK_MAX],
    /// Output element type. Default F32.
    pub dtype: u32,
    /// Bytes of an element where dtype is RAW, else 0.
    pub dtype_bytes: u32,
    /// Cap on device bytes. 0 = derived: output pool + 1 GiB. With BACKEND_HOST it must be 0.
    pub max_gpu_memory_bytes: u64,
    /// Cap on host and pinned bytes. 0 = derived: batch slots + chunk cache + 256 MiB; on a device,
    /// instead of batch slots, 256 MiB and a kilobyte for each sample of a batch and wave.
    pub max_host_memory_bytes: u64,
    /// Samples that push takes ahead of the batch being planned. 0 = derived: two batches; with a
    /// chunk cache as many as fill it four times over, at most 4,096.
    pub lookahead_samples: u32,
    /// Batches that may be filled, ready or held at a time. Default 3.
    pub n_batch_slots: u32,
    /// Largest decoded chunk. Default 16 MiB.
    pub max_chunk_uncompressed_bytes: u64,
    /// Largest read that merging makes; a single chunk may be larger. Default 4 MiB.
    pub max_read_op_bytes: u64,
    /// Waves that are staged at a time, 2 to 64. Default 4.
    pub host_buffer_waves: u32,
    /// Chunks in a wave, 1 to 65535. Default 512.
    pub max_chunks_per_wave: u32,
    /// Most blosc streams in a chunk. 0 = no limit. Default 0.
    pub max_substreams_per_chunk: u32,
    /// Threads that wait for storage, 1 to 1024. Default 16.
    pub n_io_threads: u32,
    /// Threads that decode. 0 = derived: CPUs of the affinity mask, fewer where the host memory cap
    /// has no room for their scratch.
    pub n_decode_threads: u32,
    /// Metadata and index reads in flight, 1 to 4096. Default 64.
    pub metadata_io_concurrency: u32,
    /// Arrays whose metadata is cached, at least 1. Default 64.
    pub n_array_meta_cache: u32,
    /// Index pages (256 chunks each) that are cached, at least 1. Default 1024.
    pub n_shard_index_cache: u32,
    /// Files whose layout (presence, size, index checksums) is cached, at least 1. Default 1024.
    pub n_chunk_layout_cache: u32,
    /// Most shards that a box may touch. 0 = no limit. Default 0.
    pub max_shards_per_sample: u32,
    /// Bytes of the cache of decoded chunks, one part in 32 of them for its tables: 0 for none,
    /// else at least 65,536. Chunks are then decoded whole. Uncompressed chunks are not kept.
    /// Default 0.
    pub chunk_cache_bytes: u64,
    /// BACKEND_AUTO, _HOST or _CUDA. Default HOST.
    pub backend: u32,
    /// CUDA device. -1 = that of the context that is current at open, which is used; where none is,
    /// device 0. Of any other number the primary context is retained until close; a context of
    /// another device, or another one of this device, must not be current. Default -1.
    pub device: i32,
    /// THREADS_OWN, _PUMP or _HOOK. Default OWN.
    pub thread_mode: u32,
    /// 1: flush discards a partial batch. Default 0.
    pub drop_last: u32,
    /// ON_ERROR_FAIL or _SKIP. Default FAIL.
    pub on_error: u32,
    /// MISSING_FILL or _ERROR. Default FILL.
    pub missing_chunks: u32,
    /// PAD_NONE, _CONSTANT, _EDGE or _REFLECT. Default NONE.
    pub pad_mode: u32,
    /// 1: constant padding takes pad_value; 0: the array's fill value. Default 0.
    pub pad_value_set: u32,
    /// What padding and skipped samples hold; must fit the output type. Default 0.
    pub pad_value: f64,
    /// What `POP_TIMEOUT` stands for, in nanoseconds. Default 30 s.
    pub pop_timeout_ns: u64,
    /// GPUDirect Storage: AUTO, GDS_OFF or GDS_ON. Not built yet, so only the default is taken:
    /// GDS_OFF.
    pub enable_gds: u32,
    /// NUMA placement: AUTO, NUMA_OFF or NUMA_PIN. Not built yet, so only the default is taken:
    /// NUMA_OFF.
    pub numa_strategy: u32,
    /// NUMA node; -1 = none. Default -1. Not built yet.
    pub numa_node: i32,
    /// Least severe level that is logged: 0 trace, 1 debug, 2 info, 3 warn, 4 error, 5 fatal,
    /// 6 off. Default 3.
    pub log_level: u32,
    /// 1: nothing on stderr; 0: log lines go there too. Default 1.
    pub log_quiet: u32,
    /// Always 0.
    pub reserved: u32,
    /// CUstream that batches are used on, or NULL: release waits for what is queued on it. Default
    /// NULL.
    pub consumer_stream: *mut core::ffi::c_void,
    /// Synthetic metadata latency. Default none. Not built yet.
    pub metadata_latency: MetadataLatency,
    /// Where memory comes from.
    pub memory: MemoryHook,
    /// Where files come from.
    pub files: FilesHook,
    /// Where log lines go.
    pub log: LogHook,
    /// Last words before a defect of ours ends the process.
    pub fatal: FatalHook,
    /// The host's job system, with `thread_mode` = THREADS_HOOK.
    pub workers: WorkersHook,
    /// The host's profiler.
    pub profiler: ProfilerHook,
    /// READER_AUTO, _THREADS, _URING or _DIRECT: who reads chunk data that is not in the page
    /// cache. Default AUTO.
    pub reader: u32,
    /// Always 0.
    pub reserved2: u32,
    /// Path of the CUDA driver, with a NUL; NULL = libcuda.so.1. Read at open alone. Default NULL.
    pub cuda_driver: DriverPath,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            struct_size: size_of::<Config>(),
            samples_per_batch: 1,
            sample_rank: 0,
            sample_shape: [0; RANK_MAX],
            dtype: Dtype::F32 as u32,
            dtype_bytes: 0,
            max_gpu_memory_bytes: 0,
            max_host_memory_bytes: 0,
            lookahead_samples: 0,
            n_batch_slots: 3,
            max_chunk_uncompressed_bytes: 16 << 20,
            max_read_op_bytes: 4 << 20,
            host_buffer_waves: 4,
            max_chunks_per_wave: 512,
            max_substreams_per_chunk: 0,
            n_io_threads: 16,
            n_decode_threads: 0,
            metadata_io_concurrency: 64,
            n_array_meta_cache: 64,
            n_shard_index_cache: 1024,
            n_chunk_layout_cache: 1024,
            max_shards_per_sample: 0,
            chunk_cache_bytes: 0,
            backend: BACKEND_HOST,
            device: -1,
            thread_mode: THREADS_OWN,
            drop_last: 0,
            on_error: ON_ERROR_FAIL,
            missing_chunks: MISSING_FILL,
            pad_mode: PAD_NONE,
            pad_value_set: 0,
            pad_value: 0.0,
            pop_timeout_ns: 30_000_000_000,
            enable_gds: GDS_OFF,
            numa_strategy: NUMA_OFF,
            numa_node: -1,
            log_level: 3,
            log_quiet: 1,
            reserved: 0,
            consumer_stream: ptr::null_mut(),
            metadata_latency: MetadataLatency {
                baseline_ns: 0,
                lognormal_mu_ln_ns: 0.0,
                lognormal_sigma_ln_ns: 0.0,
                cap_ns: 0,
                seed: 0,
            },
            memory: MemoryHook::NONE,
            files: FilesHook::NONE,
            log: LogHook::NONE,
            fatal: FatalHook::NONE,
            workers: WorkersHook::NONE,
            profiler: ProfilerHook::NONE,
            reader: READER_AUTO,
            reserved2: 0,
            cuda_driver: DriverPath::NULL,
        }
    }
}
