//! From a caller's config to settings: every field checked, every derived value filled in.
//!
//! In: [`Config`]. Out: [`Settings`], from which `geometry` follows. Invariant: settings that were
//! accepted stream every array whose chunks are within their caps.
//!
//! Over 500 lines because every field of a config is checked here, in one order.

use crate::assemble::units::chunk_records_max;
use crate::base::abi::{FatalHook, FilesHook, LogHook, MemoryHook, ProfilerHook, WorkersHook};
use crate::base::limits::{
    CHUNK_BYTES_MAX, ELEMENT_BYTES_MAX, MEMORY_PAGE_BYTES, RANK_MAX, SAMPLES_MAX, THREADS_MAX,
};
use crate::base::math::{align_up, product};
use crate::base::status::{Status, Why};
use crate::base::text::part_of;
use crate::chunk_cache::{GRANULE_BYTES, region_bytes};
use crate::cuda::HAS_DEVICES;
use crate::cuda::engine::DEVICE_PAGE_BYTES;
use crate::device::{TILES_BYTES, UNIT_BYTES};
use crate::fail;
use crate::records::Dtype;
use crate::setup::backend;
use crate::setup::config::{self, Config};

/// Host memory above slots and chunk cache where the config leaves the cap open.
const HOST_MEMORY_DEFAULT_BYTES: u64 = 256 << 20;
/// Pinned memory that comes to it on a device, in the place of batch slots; and a unit for each
/// sample in each slab, which the slabs of large batches take at least.
const PINNED_DEFAULT_BYTES: u64 = 256 << 20;
/// Device memory beside batch slots where the config leaves the cap open.
const DEVICE_DEFAULT_BYTES: u64 = 1 << 30;
/// Most samples of lookahead that a chunk cache asks for.
const CACHE_LOOKAHEAD_MAX: u64 = 4096;
/// Uses of chunks that are foreseen at a time, for each granule of the chunk cache.
const USES_PER_GRANULE: u64 = 4;
/// The share of the chunk cache, one part in so many, that its tables take.
const CACHE_BOOK_SHARE: u64 = 32;
/// Smallest chunk cache: less would hold next to nothing.
const CHUNK_CACHE_BYTES_MIN: u64 = 64 << 10;
/// Largest chunk cache: granule numbers stay in 31 bits.
const CHUNK_CACHE_BYTES_MAX: u64 = 1 << 44;
/// Largest batch slot: keeps every sum of the bill far below u64.
const SLOT_BYTES_MAX: u64 = 1 << 44;

/// A checked config with every derived value.
#[derive(Clone)]
pub struct Settings {
    /// The config as given.
    pub config: Config,
    /// Output element type.
    pub dtype: Dtype,
    /// Bytes of an output element.
    pub dtype_bytes: u32,
    /// Bytes of one sample in a batch.
    pub sample_bytes: u64,
    /// Distance from one batch slot to the next.
    pub slot_bytes: u64,
    /// Samples that push takes ahead.
    pub lookahead_samples: u32,
    /// Threads that decode; or threads of the host that work at a time.
    pub decode_threads: u32,
    /// Threads of ours that wait for storage; 0 where the host's threads work.
    pub io_threads: u32,
    /// Most reads in flight of the ring thread; 0: there is none.
    pub ring_depth: u32,
    /// Most reads in flight of an asynchronous files hook; 0: there is none.
    pub async_depth: u32,
    /// The ring reads past the page cache.
    pub reads_direct: bool,
    /// Planned chunks that may wait for their place in a file to be known.
    pub window_chunks: u32,
    /// Chunk x sample pairs in a wave.
    pub pairs_per_wave: u32,
    /// Chunk x sample pairs in the window.
    pub window_pairs: u32,
    /// Bytes for the uris of samples in the lookahead.
    pub uri_pool_bytes: u64,
    /// Bytes of decoded chunks that are kept: chunk_cache_bytes without what keeping book of them
    /// takes.
    pub cache_memory_bytes: u64,
    /// Uses of chunks that are foreseen at a time.
    pub cache_uses: u32,
    /// See the method.
    is_cuda: bool,
    /// Why that backend.
    pub backend_reason: Why,
}

fn range(why: &mut Why, name: &str, value: u64, least: u64, most: u64) -> Result<(), Status> {
    if value < least || value > most {
        return Err(fail!(why, Invalid, "{name} = {value}: must be {least} to {most}"));
    }
    Ok(())
}

/// Checks `config`. `cpu_count` stands for "0 = derived" threads.
pub fn settings_from_config(
    config: &Config,
    cpu_count: u32,
    why: &mut Why,
) -> Result<Settings, Status> {
    check_numbers(config, why)?;
    check_choices(config, why)?;
    check_hooks(config, why)?;
    check_not_built(config, why)?;
    check_reader(config, why)?;
    if HAS_DEVICES {
        config.cuda_driver.check(why)?;
    }
    let (is_cuda, backend_reason) = backend::choose(config, why)?;
    let (dtype, dtype_bytes) = output_type(config, why)?;
    let sample_bytes = sample_bytes(config, dtype_bytes, why)?;
    let samples = config.samples_per_batch;
    let slot_bytes = sample_bytes
        .checked_mul(samples as u64)
        .filter(|bytes| *bytes <= SLOT_BYTES_MAX)
        .ok_or_else(|| {
            fail!(
                why,
                Budget,
                "a batch of {samples} samples is over 16 TiB: lower samples_per_batch"
            )
        })?;
    let lookahead_samples = match config.lookahead_samples {
        0 => derived_lookahead(samples, sample_bytes, config.chunk_cache_bytes),
        given if given < samples => {
            return Err(fail!(
                why,
                Invalid,
                "lookahead_samples = {given}: must be at least samples_per_batch = {samples}"
            ));
        }
        given => given,
    };
    let cache_memory_bytes =
        region_bytes(config.chunk_cache_bytes - config.chunk_cache_bytes / CACHE_BOOK_SHARE);
    let own_threads = config.thread_mode == config::THREADS_OWN;
    let has_ring = matches!(config.reader, config::READER_URING | config::READER_DIRECT);
    let chunks = config.max_chunks_per_wave;
    Ok(Settings {
        config: *config,
        dtype,
        dtype_bytes,
        sample_bytes,
        slot_bytes: align_up(slot_bytes, MEMORY_PAGE_BYTES),
        lookahead_samples,
        decode_threads: match config.n_decode_threads {
            0 => cpu_count.clamp(1, THREADS_MAX),
            given => given,
        },
        io_threads: if own_threads { config.n_io_threads } else { 0 },
        ring_depth: if has_ring { 2 * config.n_io_threads } else { 0 },
        async_depth: if config.files.read_async.is_some() { 2 * config.n_io_threads } else { 0 },
        reads_direct: config.reader == config::READER_DIRECT,
        window_chunks: 2 * chunks,
        pairs_per_wave: samples + 2 * chunks,
        window_pairs: 2 * samples + 4 * chunks,
        uri_pool_bytes: uri_pool_bytes(lookahead_samples),
        cache_memory_bytes,
        is_cuda,
        backend_reason,
        cache_uses: (cache_memory_bytes / GRANULE_BYTES * USES_PER_GRANULE).min(1 << 30) as u32,
    })
}

/// Two batches; with a chunk cache as many samples as fill it four times over, so that it knows
/// what comes back: to look farther than that, or than some thousands of samples, gains little.
fn derived_lookahead(samples: u32, sample_bytes: u64, chunk_cache_bytes: u64) -> u32 {
    let known = 4 * chunk_cache_bytes / sample_bytes.max(1);
    let least = samples.saturating_mul(2).min(SAMPLES_MAX);
    least.max(known.min(CACHE_LOOKAHEAD_MAX) as u32)
}

/// Full-length uris for the first thousand samples of lookahead and 256 bytes for each beyond:
/// equal neighbours share, so real streams take far less.
fn uri_pool_bytes(lookahead_samples: u32) -> u64 {
    let full = lookahead_samples.min(1024) as u64 + 32;
    let beyond = lookahead_samples.saturating_sub(1024) as u64;
    full * 4096 + beyond * 256
}

/// Checks values against their limits, both in the order of their names.
fn ranges<const N: usize>(
    why: &mut Why,
    names: &'static str,
    values: [u64; N],
    limits: &[(u64, u64); N],
) -> Result<(), Status> {
    for (place, (value, (least, most))) in values.iter().zip(limits).enumerate() {
        range(why, part_of(names, ' ', place), *value, *least, *most)?;
    }
    Ok(())
}

fn check_numbers(config: &Config, why: &mut Why) -> Result<(), Status> {
    let c = config;
    let names = "samples_per_batch sample_rank lookahead_samples n_batch_slots \
                 max_chunk_uncompressed_bytes max_read_op_bytes host_buffer_waves \
                 max_chunks_per_wave n_io_threads n_decode_threads metadata_io_concurrency \
                 n_array_meta_cache n_shard_index_cache n_chunk_layout_cache";
    let values = [
        c.samples_per_batch as u64,
        c.sample_rank as u64,
        c.lookahead_samples as u64,
        c.n_batch_slots as u64,
        c.max_chunk_uncompressed_bytes,
        c.max_read_op_bytes,
        c.host_buffer_waves as u64,
        c.max_chunks_per_wave as u64,
        c.n_io_threads as u64,
        c.n_decode_threads as u64,
        c.metadata_io_concurrency as u64,
        c.n_array_meta_cache as u64,
        c.n_shard_index_cache as u64,
        c.n_chunk_layout_cache as u64,
    ];
    const LIMITS: [(u64, u64); 14] = [
        (1, SAMPLES_MAX as u64),
        (1, RANK_MAX as u64),
        (0, SAMPLES_MAX as u64),
        (1, 64),
        (1, CHUNK_BYTES_MAX),
        (1, u32::MAX as u64),
        (2, 64),
        (1, 65535),
        (1, THREADS_MAX as u64),
        (0, THREADS_MAX as u64),
        (1, 4096),
        (1, 1 << 20),
        (1, 1 << 24),
        (1, 1 << 24),
    ];
    ranges(why, names, values, &LIMITS)?;
    if c.chunk_cache_bytes != 0 {
        let (least, most) = (CHUNK_CACHE_BYTES_MIN, CHUNK_CACHE_BYTES_MAX);
        range(why, "chunk_cache_bytes (unless it is 0)", c.chunk_cache_bytes, least, most)?;
    }
    for axis in 0..c.sample_rank as usize {
        if c.sample_shape[axis] == 0 {
            return Err(fail!(why, Invalid, "sample_shape[{axis}] = 0: must be at least 1"));
        }
    }
    Ok(())
}

fn check_choices(config: &Config, why: &mut Why) -> Result<(), Status> {
    let c = config;
    let names = "backend thread_mode drop_last on_error missing_chunks pad_mode pad_value_set \
                 enable_gds numa_strategy log_level log_quiet reserved reader reserved2";
    let values = [
        c.backend,
        c.thread_mode,
        c.drop_last,
        c.on_error,
        c.missing_chunks,
        c.pad_mode,
        c.pad_value_set,
        c.enable_gds,
        c.numa_strategy,
        c.log_level,
        c.log_quiet,
        c.reserved,
        c.reader,
        c.reserved2,
    ];
    const LIMITS: [(u64, u64); 14] = [
        (0, config::BACKEND_CUDA as u64),
        (0, config::THREADS_HOOK as u64),
        (0, 1),
        (0, config::ON_ERROR_SKIP as u64),
        (0, config::MISSING_ERROR as u64),
        (0, config::PAD_REFLECT as u64),
        (0, 1),
        (0, config::GDS_ON as u64),
        (0, config::NUMA_PIN as u64),
        (0, config::LOG_OFF as u64),
        (0, 1),
        (0, 0),
        (0, config::READER_DIRECT as u64),
        (0, 0),
    ];
    ranges(why, names, values.map(u64::from), &LIMITS)
}

fn check_hooks(config: &Config, why: &mut Why) -> Result<(), Status> {
    let names = "memory files log fatal workers profiler";
    let given = [
        config.memory.struct_size,
        config.files.struct_size,
        config.log.struct_size,
        config.fatal.struct_size,
        config.workers.struct_size,
        config.profiler.struct_size,
    ];
    const KNOWN: [usize; 6] = [
        size_of::<MemoryHook>(),
        size_of::<FilesHook>(),
        size_of::<LogHook>(),
        size_of::<FatalHook>(),
        size_of::<WorkersHook>(),
        size_of::<ProfilerHook>(),
    ];
    for (place, (given, known)) in given.iter().zip(KNOWN).enumerate() {
        if *given != known {
            let name = part_of(names, ' ', place);
            return Err(fail!(
                why,
                Invalid,
                "{name}.struct_size = {given}, not {known}: start from config_default"
            ));
        }
    }
    let memory = &config.memory;
    if memory.alloc.is_some() != memory.free.is_some() {
        return Err(fail!(why, Invalid, "memory: alloc and free must be set together"));
    }
    if memory.host_block.is_null() != (memory.host_block_bytes == 0) {
        return Err(fail!(why, Invalid, "memory: host_block and host_block_bytes contradict"));
    }
    if config.profiler.begin.is_some() != config.profiler.end.is_some() {
        return Err(fail!(why, Invalid, "profiler: begin and end must be set together"));
    }
    check_files(&config.files, why)?;
    let runs_jobs = config.thread_mode == config::THREADS_HOOK;
    match config.workers.run {
        None if runs_jobs => Err(fail!(why, Invalid, "thread_mode = hook needs workers.run")),
        Some(_) if !runs_jobs => {
            Err(fail!(why, Invalid, "workers.run is set, but thread_mode is not hook"))
        }
        _ => Ok(()),
    }
}

/// Whether a files hook can serve files, or is none.
pub fn check_files(files: &FilesHook, why: &mut Why) -> Result<(), Status> {
    if files.size.is_some() != files.read.is_some() {
        return Err(fail!(why, Invalid, "files: size and read must be set together"));
    }
    if files.read_async.is_some() && files.read.is_none() {
        return Err(fail!(why, Invalid, "files: read_async needs size and read beside it"));
    }
    Ok(())
}

fn check_reader(config: &Config, why: &mut Why) -> Result<(), Status> {
    let name = match config.reader {
        config::READER_URING => "uring",
        config::READER_DIRECT => "direct",
        _ => return Ok(()),
    };
    if config.thread_mode != config::THREADS_OWN {
        return Err(fail!(
            why,
            Invalid,
            "reader = {name} is a thread of its own, which only thread_mode = own has"
        ));
    }
    if config.files.size.is_some() {
        return Err(fail!(why, Invalid, "reader = {name} reads files, but the files hook is set"));
    }
    Ok(())
}

fn check_not_built(config: &Config, why: &mut Why) -> Result<(), Status> {
    let (c, default) = (config, Config::default());
    let names = "enable_gds = auto|enable_gds = on|numa_strategy = auto|numa_strategy = pin|\
                 numa_node|metadata_latency";
    let are_default = [
        c.enable_gds != config::AUTO,
        c.enable_gds != config::GDS_ON,
        c.numa_strategy != config::AUTO,
        c.numa_strategy != config::NUMA_PIN,
        c.numa_node == default.numa_node,
        c.metadata_latency == default.metadata_latency,
    ];
    match are_default.iter().position(|is_default| !is_default) {
        None => Ok(()),
        Some(place) => Err(fail!(
            why,
            Unsupported,
            "{} is not built into this version: leave it at its default",
            part_of(names, '|', place)
        )),
    }
}

fn output_type(config: &Config, why: &mut Why) -> Result<(Dtype, u32), Status> {
    let Some(dtype) = Dtype::from_code(config.dtype) else {
        return Err(fail!(why, Invalid, "dtype = {}: no such element type", config.dtype));
    };
    if dtype == Dtype::Raw {
        range(why, "dtype_bytes (of RAW)", config.dtype_bytes as u64, 1, ELEMENT_BYTES_MAX as u64)?;
        return Ok((dtype, config.dtype_bytes));
    }
    if config.dtype_bytes != 0 && config.dtype_bytes != dtype.bytes() {
        return Err(fail!(
            why,
            Invalid,
            "dtype_bytes = {}: {} has {}",
            config.dtype_bytes,
            dtype.name(),
            dtype.bytes()
        ));
    }
    Ok((dtype, dtype.bytes()))
}

fn sample_bytes(config: &Config, dtype_bytes: u32, why: &mut Why) -> Result<u64, Status> {
    product(&config.sample_shape[..config.sample_rank as usize])
        .and_then(|elements| elements.checked_mul(dtype_bytes as u64))
        .filter(|bytes| *bytes <= SLOT_BYTES_MAX)
        .ok_or_else(|| {
            fail!(why, Budget, "sample_shape: one sample is over 16 TiB: make it smaller")
        })
}

impl Settings {
    /// Whether batches are made on a device.
    pub fn is_cuda(&self) -> bool {
        HAS_DEVICES && self.is_cuda
    }

    /// Takes the host, where the device ended an open with `status`; false where that is an error.
    /// `floor` as for `limit_derived_threads`: batches in the host's memory leave less to threads.
    pub fn take_the_host(
        &mut self,
        (status, why): (Status, &Why),
        floor: impl Fn(&Settings) -> u64,
    ) -> bool {
        let reason = backend::host_instead(&self.config, status, why).filter(|_| self.is_cuda());
        let Some(reason) = reason else { return false };
        (self.is_cuda, self.backend_reason) = (false, reason);
        self.limit_derived_threads(floor);
        true
    }

    /// The cap on host bytes, pinned ones included.
    pub fn host_bytes_max(&self) -> u64 {
        let batches = match self.is_cuda() {
            true => PINNED_DEFAULT_BYTES + self.sample_units_bytes(),
            false => self.slots_bytes(),
        };
        match self.config.max_host_memory_bytes {
            0 => batches + self.config.chunk_cache_bytes + HOST_MEMORY_DEFAULT_BYTES,
            given => given,
        }
    }

    /// Host bytes of units for all samples of a batch, in all slabs.
    fn sample_units_bytes(&self) -> u64 {
        let units = u64::from(self.config.samples_per_batch) * chunk_records_max();
        u64::from(self.config.host_buffer_waves) * units * (UNIT_BYTES + TILES_BYTES)
    }

    /// The cap on device bytes.
    pub fn device_bytes_max(&self) -> u64 {
        match self.config.max_gpu_memory_bytes {
            0 => align_up(self.slots_bytes() + DEVICE_DEFAULT_BYTES, DEVICE_PAGE_BYTES),
            given => given,
        }
    }

    /// Bytes of the batch slots that are host memory.
    pub fn host_slots_bytes(&self) -> u64 {
        if self.is_cuda() { 0 } else { self.slots_bytes() }
    }

    /// Bytes of all batch slots.
    pub fn slots_bytes(&self) -> u64 {
        self.slot_bytes * self.config.n_batch_slots as u64
    }

    /// Workers that may run at once, each with a context of its own.
    pub fn worker_count(&self) -> u32 {
        self.decode_threads + self.io_threads
    }

    /// Threads of ours.
    pub fn thread_count(&self) -> u32 {
        let extra = u32::from(self.ring_depth > 0) + u32::from(self.is_cuda());
        if self.is_threadless() { 0 } else { self.worker_count() + extra }
    }

    /// Whether the instance has no threads of its own: work happens on the host's.
    pub fn is_threadless(&self) -> bool {
        self.config.thread_mode != config::THREADS_OWN
    }

    /// Where the number of decoding threads is derived: as many as there are CPUs, but no more than
    /// take half of what the memory cap leaves beside everything else. `floor(s)` is the least
    /// bill of settings `s`, which is linear in the number of threads.
    pub fn limit_derived_threads(&mut self, floor: impl Fn(&Settings) -> u64) {
        if self.config.n_decode_threads != 0 || self.decode_threads == 1 {
            return;
        }
        let with_threads = |count| floor(&Settings { decode_threads: count, ..self.clone() });
        let one = with_threads(1);
        let each = with_threads(2) - one;
        let spare = self.host_bytes_max().saturating_sub(one) / 2;
        let most = 1 + spare.checked_div(each).unwrap_or(0).min(THREADS_MAX as u64) as u32;
        self.decode_threads = self.decode_threads.min(most);
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
