//! From a caller's config to settings: all of it checked, every derived value filled in.
//!
//! In: [`Config`]. Out: [`Settings`], from which `geometry` follows. Invariant: settings that were
//! accepted stream every array whose chunks are within their caps.

use crate::assemble::units::chunk_records_max;
use crate::base::abi::FilesHook;
use crate::base::limits::{
    FILE_CHUNK_BYTES, MAPPED_CHUNK_BYTES, MEMORY_PAGE_BYTES, SAMPLES_MAX, THREADS_MAX, WINDOW_BYTES,
};
use crate::base::math::align_up;
use crate::base::status::{Status, Why};
use crate::batch::slots::PerSample;
use crate::chunk_cache::{GRANULE_BYTES, region_bytes};
use crate::cuda::HAS_DEVICES;
use crate::cuda::engine::DEVICE_PAGE_BYTES;
use crate::device::{TILES_BYTES, UNIT_BYTES};
use crate::fail;
use crate::setup::allotted::Allotted;
use crate::setup::augment::{augment_words, resample_bytes};
use crate::setup::backend;
use crate::setup::config::{self, Config, FieldTable, Hook, check_latency, range};
use crate::setup::counts::lookahead_samples;
use crate::setup::fields::{Fields, fields_from_config};
use crate::setup::numa::check_numa;
use crate::setup::share::{Part, Share};
use crate::setup::store::{async_depth, check_store};

/// CPUs that do not decode if batches are made on a device and the config does not say.
const DEVICE_CPUS: u32 = 2;
/// Host memory above slots and chunk cache if the config leaves the cap open.
const HOST_MEMORY_DEFAULT_BYTES: u64 = 256 << 20;
/// Chunks of the largest size that this memory is for at least: each decoder takes one encoded and
/// one decoded. In 256 MiB those of 64 MiB would be decoded one after the other.
const CHUNKS_DEFAULT: u64 = 16;
/// Pinned memory that comes to it on a device, in the place of batch slots; and a unit for each
/// sample in each slab, which the slabs of large batches take at least.
const PINNED_DEFAULT_BYTES: u64 = 256 << 20;
/// Device memory besides batch slots if the config leaves the cap open.
const DEVICE_DEFAULT_BYTES: u64 = 1 << 30;
/// Bytes that tables and stacks may take of that memory. The cap grows by the bytes that they take
/// beyond it, as large counts and stacks of the config make them.
const TABLES_DEFAULT_BYTES: u64 = 32 << 20;
/// Uses of chunks that are foreseen at a time, for each granule of the chunk cache.
const USES_PER_GRANULE: u64 = 4;
/// The share of the chunk cache, one part in so many, that its tables take.
pub const CACHE_BOOK_SHARE: u64 = 32;

/// Bytes of a chunk cache that chunks lie in.
pub const fn cache_memory_bytes(chunk_cache_bytes: u64) -> u64 {
    region_bytes(chunk_cache_bytes - chunk_cache_bytes / CACHE_BOOK_SHARE)
}
/// Batch slots that together have this many bytes are not in any cache when they are read: rows of
/// whole lines are then stored past the caches. Scans of aligned boxes gain 10 to 20 %.
const STREAMED_SLOTS_BYTES: u64 = 48 << 20;

/// Stack that a hook has on an own thread if the config does not say.
const HOOK_STACK_DEFAULT_BYTES: u64 = 256 << 10;
/// Most batches that are begun and not freed: sets of them are bits of a word.
const BATCHES_MAX: u32 = 64;
/// Waves that early batches leave to others.
pub const LATER_WAVES: u32 = 2;
/// Smallest chunk cache: less would hold next to nothing.
const CHUNK_CACHE_BYTES_MIN: u64 = 64 << 10;
/// Largest chunk cache: granule numbers stay in 31 bits.
const CHUNK_CACHE_BYTES_MAX: u64 = 1 << 44;
/// A checked config with every derived value.
#[derive(Clone)]
pub struct Settings {
    /// The config as given, but for its fields; n_batch_slots is lent_slots where that is set.
    pub config: Config,
    /// The tensors of a batch, one at least.
    pub fields: Fields,
    /// Most boxes in a sample, and the extents of all its fields, of which a scalar has one.
    pub per_sample: PerSample,
    /// Boxes may cover a part of a field, and be fed.
    pub takes_parts: bool,
    /// Distance from one batch slot to the next.
    pub slot_bytes: u64,
    /// Samples that push takes ahead.
    pub lookahead_samples: u32,
    /// Threads that decode; or threads of the host that work at a time.
    pub decode_threads: u32,
    /// wavetrain's threads that wait for storage; 0 if the host's threads work.
    pub io_threads: u32,
    /// Most reads in flight of an asynchronous files hook; 0: it does not exist.
    pub async_depth: u32,
    /// Windows of mapped files.
    pub windows: u32,
    /// Bytes of a chunk of a flat file at most.
    pub file_chunk_bytes: u64,
    /// Planned chunks that may wait for their place in a file to be known.
    pub window_chunks: u32,
    /// Chunk x sample pairs in a wave.
    pub pairs_per_wave: u32,
    /// Chunk x sample pairs in the window.
    pub window_pairs: u32,
    /// Bytes for the uris of samples in the lookahead.
    pub uri_pool_bytes: u64,
    /// Bytes of decoded chunks that are cached: chunk_cache_bytes without what keeping book of them
    /// takes.
    pub cache_memory_bytes: u64,
    /// Bytes of staging for boxes with a map, unless batches are made on a device.
    pub(super) resample_bytes: u64,
    /// Uses of chunks that are foreseen at a time.
    pub cache_uses: u32,
    /// Bytes of the tables and stacks whose sizes the config says.
    tables_bytes: u64,
    /// See the method.
    is_cuda: bool,
    /// The part of the machine that may be used.
    pub(super) allotted: Allotted,
    /// Why that backend.
    pub backend_reason: Why,
    /// The part in batches that processes share.
    pub share: Share,
}

/// The least memory that settings can be opened with.
#[derive(Clone, Copy)]
pub struct Floor {
    /// Host bytes, pinned ones included.
    pub bytes: u64,
    /// Those of them that are tables and stacks whose sizes the config says.
    pub tables_bytes: u64,
}

/// Checks `config`. `allotted` stands for "0 = derived" threads.
#[inline(never)] // what it makes on the way is not to stand on the stack of all that follows
pub fn settings_from_config(
    config: &Config,
    allotted: &Allotted,
    why: &mut Why,
) -> Result<Settings, Status> {
    check(config, why)?;
    let share = Share::of(config, why)?;
    let (is_cuda, backend_reason) = backend::choose(config, &share, why)?;
    let (fields, slot_bytes) = fields_from_config(config, why)?;
    let boxes_per_sample = boxes_per_sample(config, &fields, why)?;
    let sample_bytes = fields.iter().map(|field| field.sample_bytes).sum();
    let lookahead_samples = lookahead_samples(config, sample_bytes, why)?;
    let n_batch_slots = match config.n_batch_slots {
        _ if config.lent_slots > 0 => config.lent_slots,
        3 if share.is_shared() => (2 * share.consumers + 1).min(BATCHES_MAX),
        given => given,
    };
    let cache_memory_bytes = cache_memory_bytes(config.chunk_cache_bytes);
    let own_threads = config.thread_mode == config::THREADS_OWN;
    let chunks = config.max_chunks_per_wave;
    let takes_fed = !config.fields.is_empty() || config.max_boxes_per_sample > 0;
    let listed = config.max_indices_per_sample;
    let boxes = config.samples_per_batch * boxes_per_sample;
    let mut settings = Settings {
        config: Config { fields: FieldTable::NONE, n_batch_slots, ..*config },
        per_sample: PerSample {
            fields: fields.len() as u32,
            takes_fed,
            augment_words: augment_words(config, &fields),
            digests: config.digest * fields.len() as u32,
            boxes: boxes_per_sample,
            listed,
            filled_shape: fields.iter().map(|field| field.filled_extents() as u32).sum(),
        },
        resample_bytes: resample_bytes(config, &fields),
        fields,
        takes_parts: takes_fed || listed > 0,
        slot_bytes: align_up(slot_bytes, MEMORY_PAGE_BYTES),
        lookahead_samples,
        decode_threads: config.n_decode_threads,
        io_threads: if own_threads { config.n_io_threads } else { 0 },
        async_depth: async_depth(config),
        windows: windows(config),
        file_chunk_bytes: file_chunk_bytes(config),
        window_chunks: 2 * chunks,
        pairs_per_wave: boxes + 2 * chunks,
        window_pairs: 2 * boxes + 4 * chunks,
        uri_pool_bytes: uri_pool_bytes(lookahead_samples * (boxes_per_sample - listed)),
        cache_memory_bytes,
        tables_bytes: 0,
        is_cuda,
        allotted: *allotted,
        backend_reason,
        share,
        cache_uses: (cache_memory_bytes / GRANULE_BYTES * USES_PER_GRANULE).min(1 << 30) as u32,
    };
    settings.derive_threads();
    Ok(settings)
}

/// Everything that can be wrong with a config on every machine, element type and sizes apart.
fn check(config: &Config, why: &mut Why) -> Result<(), Status> {
    config.check_ranges(why)?;
    check_latency(&config.metadata_latency, why)?;
    let limits = (CHUNK_CACHE_BYTES_MIN, CHUNK_CACHE_BYTES_MAX);
    if config.chunk_cache_bytes != 0 {
        range(why, "chunk_cache_bytes (unless it is 0)", config.chunk_cache_bytes, limits)?;
    }
    config.each_hook(|Hook { name, given, known, .. }| {
        let way_out = "start from config_default";
        let text = format_args!("{name}.struct_size = {given}, not {known}: {way_out}");
        if given == known { Ok(()) } else { Err(why.fail(Status::Invalid, text)) }
    })?;
    check_hooks(config, why)?;
    config.metadata.read(why)?;
    check_built(config, why)?;
    check_numa(config, why)?;
    let is_alone = config.max_resample_bytes > 0 && config.augment == 0;
    refuse(is_alone, "max_resample_bytes is for boxes with a map: set augment to 1", why)?;
    let is_asked = config.device_decode == config::DECODE_ON;
    let has_none = config.backend == config::BACKEND_HOST;
    let text = "device_decode = on needs a device, but backend is host: take cuda or auto";
    refuse(is_asked && has_none, text, why)?;
    if HAS_DEVICES {
        config.cuda_driver.check(why)?;
    }
    Ok(())
}

/// Windows of mapped files: none of those that a hook reads.
fn windows(config: &Config) -> u32 {
    match config.map_uncompressed == 1 && config.files.size.is_none() {
        true => (config.map_bytes_max / WINDOW_BYTES) as u32,
        false => 0,
    }
}

/// Bytes of a chunk that a .npy or raw file is cut into.
fn file_chunk_bytes(config: &Config) -> u64 {
    let most = if windows(config) == 0 { FILE_CHUNK_BYTES } else { MAPPED_CHUNK_BYTES };
    most.min(config.max_chunk_uncompressed_bytes)
}

/// Full-length uris for the first thousand boxes of lookahead and 256 bytes for each beyond: equal
/// neighbours share, so real streams take far less.
fn uri_pool_bytes(lookahead_boxes: u32) -> u64 {
    let full = lookahead_boxes.min(1024) as u64 + 32;
    let beyond = lookahead_boxes.saturating_sub(1024) as u64;
    full * 4096 + beyond * 256
}

pub(super) fn refuse(is_wrong: bool, text: &str, why: &mut Why) -> Result<(), Status> {
    if is_wrong { Err(fail!(why, Invalid, "{text}")) } else { Ok(()) }
}

/// Whether each hook has the functions that it needs.
fn check_hooks(config: &Config, why: &mut Why) -> Result<(), Status> {
    let (memory, profiler) = (&config.memory, &config.profiler);
    let (runs_jobs, has_run) =
        (config.thread_mode == config::THREADS_HOOK, config.workers.run.is_some());
    let has_half_a_block = memory.host_block.is_null() != (memory.host_block_bytes == 0);
    let has_half_a_heap = memory.alloc.is_some() != memory.free.is_some();
    let has_half_a_range = profiler.begin.is_some() != profiler.end.is_some();
    refuse(has_half_a_heap, "memory: alloc and free must be set together", why)?;
    refuse(has_half_a_block, "memory: host_block and host_block_bytes contradict", why)?;
    refuse(has_half_a_range, "profiler: begin and end must be set together", why)?;
    check_files(&config.files, why)?;
    check_store(config, why)?;
    let has_half_a_source = config.source.describe.is_some() != config.source.read.is_some();
    refuse(has_half_a_source, "source: describe and read must be set together", why)?;
    refuse(runs_jobs && !has_run, "thread_mode = hook needs workers.run", why)?;
    refuse(has_run && !runs_jobs, "workers.run is set, but thread_mode is not hook", why)
}

/// Whether a files hook can serve files, or is none.
pub fn check_files(files: &FilesHook, why: &mut Why) -> Result<(), Status> {
    let (has_size, has_read) = (files.size.is_some(), files.read.is_some());
    refuse(has_size != has_read, "files: size and read must be set together", why)?;
    let lacks_read = files.read_async.is_some() && !has_read;
    refuse(lacks_read, "files: read_async needs size and read, too", why)
}

/// Refuses what is not built by the names of the field and of the choice.
fn check_built(config: &Config, why: &mut Why) -> Result<(), Status> {
    let c = config;
    let asked = [
        ("enable_gds = auto", c.enable_gds == config::AUTO),
        ("enable_gds = on", c.enable_gds == config::GDS_ON),
    ];
    let asked = asked.into_iter().find_map(|(name, is_asked)| is_asked.then_some(name));
    let Some(name) = asked else { return Ok(()) };
    let way_out = "leave it at its default";
    Err(fail!(why, Unsupported, "{name} is not built into this version: {way_out}"))
}

/// Most boxes of a sample: one for each field, if the config does not say, and one for each index
/// of lists.
fn boxes_per_sample(config: &Config, fields: &Fields, why: &mut Why) -> Result<u32, Status> {
    let listed = config.max_indices_per_sample;
    let boxes = match config.max_boxes_per_sample {
        0 => fields.len() as u32 + listed,
        given => given + listed,
    };
    let (samples, lookahead) = (config.samples_per_batch, config.lookahead_samples.max(1));
    let most = SAMPLES_MAX / samples.max(lookahead);
    if boxes > most {
        let name = match listed {
            0 => "max_boxes_per_sample",
            _ => "max_boxes_per_sample + max_indices_per_sample",
        };
        return Err(fail!(
            why,
            Invalid,
            "{name} = {boxes}: of batches, and a lookahead, of {} samples at most {most}, because \
             that many boxes are counted: lower it or those",
            samples.max(lookahead)
        ));
    }
    Ok(boxes)
}

impl Settings {
    /// Whether batches are made on a device.
    pub fn is_cuda(&self) -> bool {
        HAS_DEVICES && self.is_cuda
    }

    /// Takes the host, if the device ended an open with `status`; false if that is an error.
    /// `floor` as for `settle`: batches in the host's memory leave less to threads.
    #[cold]
    #[inline(never)] // its texts are not to stand on the stack of an open
    pub fn take_the_host(
        &mut self,
        (status, why): (Status, &Why),
        floor: impl Fn(&Settings) -> Floor,
    ) -> bool {
        let reason = backend::host_instead(&self.config, status, why).filter(|_| self.is_cuda());
        let Some(reason) = reason else { return false };
        (self.is_cuda, self.backend_reason) = (false, reason);
        self.derive_threads();
        self.settle(floor);
        true
    }

    /// Most boxes of a batch, and those of them that are for index lists.
    pub fn boxes_per_batch(&self) -> (u64, u64) {
        let samples = u64::from(self.config.samples_per_batch);
        let PerSample { boxes, listed, .. } = self.per_sample;
        (samples * u64::from(boxes), samples * u64::from(listed))
    }

    /// Reads of chunks that may be waited for at a time.
    fn reads_at_once(&self) -> u32 {
        self.io_threads.max(self.async_depth)
    }

    /// Batches that may be planned and read before there is memory for them: as many as have two
    /// samples for each read at a time, since a wave of them is begun once the one before it ends.
    /// None on a device, where chunks that it refuses are staged twice, and none if all waves but
    /// two are none.
    pub fn early_batches(&self) -> u32 {
        if self.is_cuda() || self.config.host_buffer_waves <= LATER_WAVES {
            return 0;
        }
        let batches = (2 * self.reads_at_once()).checked_div(self.config.samples_per_batch);
        batches.unwrap_or(0).min(BATCHES_MAX - self.config.n_batch_slots)
    }

    /// Chunks that a wave of early batches reads at least, unless it is full.
    pub fn early_chunks_min(&self) -> u32 {
        self.reads_at_once().div_ceil(2)
    }

    /// The cap on host bytes, pinned ones included.
    pub fn host_bytes_max(&self) -> u64 {
        let config = &self.config;
        let batches = if self.is_cuda() {
            // Units for all boxes of a batch, in all slabs.
            let units = self.boxes_per_batch().0 * chunk_records_max(self.change_records());
            let waves = u64::from(config.host_buffer_waves);
            PINNED_DEFAULT_BYTES + waves * units * (UNIT_BYTES + TILES_BYTES)
        } else {
            self.slots_bytes()
        };
        match self.config.max_host_memory_bytes {
            0 => {
                let chunks = CHUNKS_DEFAULT * config.max_chunk_uncompressed_bytes;
                let tables = self.tables_bytes.saturating_sub(TABLES_DEFAULT_BYTES);
                batches + config.chunk_cache_bytes + chunks.max(HOST_MEMORY_DEFAULT_BYTES) + tables
            }
            given => given,
        }
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

    /// Whether rows are stored past the caches.
    pub fn streams_slots(&self) -> bool {
        self.slot_bytes * u64::from(self.config.n_batch_slots) >= STREAMED_SLOTS_BYTES
    }

    /// Whether all memory of batches is lent.
    pub fn is_all_lent(&self) -> bool {
        self.config.lent_slots > 0
    }

    /// Bytes of all batch slots that are the loader's.
    pub fn slots_bytes(&self) -> u64 {
        if self.is_all_lent() { 0 } else { self.slot_bytes * u64::from(self.config.n_batch_slots) }
    }

    /// Whether the loader has no threads of its own: work happens on the host's.
    pub fn is_threadless(&self) -> bool {
        self.config.thread_mode != config::THREADS_OWN
    }

    /// Whether other processes take the batches.
    pub fn is_owner(&self) -> bool {
        self.share.part == Part::Owner
    }

    /// Whether own threads call hooks of the host. Those of memory are called by the thread that
    /// opens and closes, those of workers if wavetrain has no own threads.
    fn has_hooks(&self) -> bool {
        let config = &self.config;
        config.files.size.is_some()
            || config.source.describe.is_some()
            || config.log.log.is_some()
            || config.fatal.fatal.is_some()
            || config.profiler.begin.is_some()
    }

    /// Bytes of its stack that an own thread leaves to a hook; 0: it calls none.
    pub fn hook_stack_bytes(&self) -> u64 {
        match self.config.hook_stack_bytes {
            _ if !self.has_hooks() => 0,
            0 => HOOK_STACK_DEFAULT_BYTES,
            given => given,
        }
    }

    /// Whether another process fills the batches.
    pub fn is_consumer(&self) -> bool {
        self.share.part == Part::Consumer
    }

    /// CPUs of this loader.
    pub fn cpus(&self) -> u32 {
        self.allotted.cpus()
    }

    /// If the number of decoding threads is derived: as many as the loader has CPUs; on a device
    /// but for two, which the trainer's thread and the one that calls the driver keep busy.
    pub(super) fn wished_threads(&self) -> u32 {
        let others = if self.is_cuda() { DEVICE_CPUS } else { 0 };
        self.cpus().saturating_sub(others).clamp(1, THREADS_MAX)
    }

    pub(super) fn derive_threads(&mut self) {
        if self.config.n_decode_threads == 0 {
            self.decode_threads = self.wished_threads();
        }
    }

    /// Derives what depends on the least memory of these settings: the cap, if the config leaves it
    /// open, and the number of decoding threads, if that is derived. `floor(s)` is linear in the
    /// number of threads.
    pub fn settle(&mut self, floor: impl Fn(&Settings) -> Floor) {
        if self.config.n_decode_threads == 0 && self.decode_threads > 1 {
            self.limit_derived_threads(&floor);
        }
        self.tables_bytes = floor(self).tables_bytes;
    }

    /// No more decoding threads than take half of what the memory cap leaves beside everything
    /// else.
    fn limit_derived_threads(&mut self, floor: impl Fn(&Settings) -> Floor) {
        // Tried on these settings themselves: a copy takes kilobytes of a caller's stack.
        let wished = self.decode_threads;
        self.decode_threads = 1;
        let one = floor(self);
        self.tables_bytes = one.tables_bytes;
        let spare = self.host_bytes_max().saturating_sub(one.bytes) / 2;
        self.decode_threads = 2;
        let each = floor(self).bytes - one.bytes;
        let most = 1 + spare.checked_div(each).unwrap_or(0).min(THREADS_MAX as u64) as u32;
        self.decode_threads = wished.min(most);
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
