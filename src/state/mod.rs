//! The state that the lock guards.
//!
//! In: results of jobs. Out: what is known of slots, waves, files, arrays and lookups. Every change
//! of one happens under one lock; the work itself runs without it. `engine::schedule` chooses
//! what is next.

pub mod attached;
mod bad_chunks;
pub mod claims;
pub mod consumers;
pub mod contexts;
pub mod device;
pub mod early;
pub mod flights;
pub mod host_threads;
pub mod job;
pub mod kept;
mod kept_failures;
mod landing;
pub mod lock;
mod mapped;
pub mod needs;
pub mod owned;
mod publish;
pub mod readers;
pub mod reading;
pub mod resampling;
pub mod scratch;
pub mod shared;
pub mod slab_writer;
pub mod uses;
pub mod waits;
pub mod whole;
pub mod work;
pub mod worker;

use crate::base::arena::{Carver, Region, span_of};
use crate::base::bill::Item;
use crate::base::indexes::{BatchSlot, FileSlot, LANES, WaveIndex};
use crate::base::shelf::Shelf;
use crate::base::stats::Stage;
use crate::base::status::{Failure, Why};
use crate::batch::pieces::Piece;
use crate::batch::record::Elsewhere;
use crate::batch::slots::{SlotState, Slots};
use crate::chunk_cache::ChunkCache;
use crate::cuda::{DeviceEngine, Fault, HAS_DEVICES};
use crate::fail;
use crate::intake::arrays::Arrays;
use crate::intake::edges::EdgeTable;
use crate::intake::parts::PartTable;
use crate::intake::queue::Queue;
use crate::os::Errno;
use crate::os::profiler::At;
use crate::read::{FileTable, FolderTable, PageCache, Requests, Windows};
use crate::setup::geometry::Geometry;
use crate::setup::settings::Settings;
use crate::state::bad_chunks::BadChunks;
use crate::state::consumers::Consumers;
use crate::state::contexts::Contexts;
use crate::state::device::DeviceState;
use crate::state::flights::AsyncReads;
use crate::state::host_threads::HostThreads;
pub use crate::state::kept_failures::KeptFailure;
use crate::state::lock::{Condition, Lock, Locked, Wakes};
use crate::state::owned::Sharing;
use crate::state::readers::Readers;
use crate::state::reading::Reading;
use crate::state::resampling::Resampling;
use crate::state::scratch::Pool;
use crate::state::shared::{Shared, Views};
use crate::state::slab_writer::SlabWriter;
use crate::state::waits::Waits;
use crate::wave::Waves;
use core::ops::Range;

/// Samples whose arrays are looked up at a time, so that the lock is held briefly.
const PREFETCH_SAMPLES: u64 = 256;

/// A pass over a slot.
pub struct Pass {
    /// Begins it on a slot: how many pieces it has, 0 if nothing is to be done, and how many units
    /// of a slab each takes on its way to a device.
    pub begin: fn(&State, &Shared, BatchSlot) -> (u64, u32),
    /// Does a piece on a worker; gives the lock, under which its result was handed in.
    pub run: for<'l> fn(&'l Lock, &Piece, Option<&mut SlabWriter>) -> Locked<'l>,
    /// The kernels that do it on a device in the place of workers.
    pub kernels: Option<Kernels>,
}

/// A pass that kernels do, in one piece.
pub struct Kernels {
    /// Queues it on the post stream.
    pub queue: fn(&Lock, &DeviceEngine, &Piece) -> Result<(), Fault>,
    /// It has run, in so many nanoseconds.
    pub close: fn(&Lock, &Piece, u64),
}

/// The stages of a loader's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Jobs are handed out.
    Running,
    /// Reset waits for the jobs that run.
    Resetting,
    /// Close was called.
    Closing,
}

/// How far a close is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Threads and calls may be at work.
    Working,
    /// A call of close ends threads and descriptors.
    Taken,
    /// They have ended. Slots whose memory is not freed yet, as bits.
    Over { left: u64 },
}

/// The weight of a read that must wait against one that finds its bytes cached. Some systems let a
/// read in six wait although all is cached: more than a fifth is storage.
const MISS_WEIGHT: u32 = 4;

/// Weight at which reads go to the threads that may wait: four misses in a row. At none, after as
/// much as sixteen hits, the decoding threads try again themselves.
const COLD_WEIGHT: u32 = 4 * MISS_WEIGHT;

/// Lookups and chunks that end before the planner is called again, while more are open: it would
/// not be done with one before the next comes.
pub const PLAN_EVERY: u32 = 16;

/// The counts of wavetrain's threads.
#[derive(Default)]
pub struct Threads {
    /// Threads that wait for a decoding job.
    pub idle_decode: u32,
    /// Threads that wait for an io job.
    pub idle_io: u32,
    /// A thread that waits for a decoding job was called and did not come yet.
    pub is_decode_waking: bool,
    /// A thread that waits for an io job was called and did not come yet.
    pub is_io_waking: bool,
    /// Threads that have not ended.
    pub alive: u32,
    /// Threads that were started and have not begun.
    pub starting: u32,
    /// The least that a thread found of its stack, if it was too little.
    pub stack_left: Option<u64>,
    /// A CPU of the config that a thread was not let onto.
    pub cpu_refused: Option<u32>,
    /// Why one could not be kept to the CPUs of its NUMA node.
    pub unkept: Option<Errno>,
}

/// See the module.
pub struct State {
    /// The stage of the loader's life.
    pub life: Life,
    /// How far a close is.
    pub ending: Ending,
    /// A call of reset is at it.
    pub has_resetter: bool,
    /// A reset ran out of time: nothing is pushed or popped before one has returned Ok.
    pub is_reset_due: bool,
    /// The error that ended the stream.
    pub sticky: Option<Failure>,
    /// Why a call failed last. Its place is apart: this struct is made on the stack of open.
    call_error: &'static mut [Option<Failure>],
    /// The log was told that close could not end because of batches or tensors.
    has_warned_of_kept: bool,
    /// The same of work in flight.
    has_warned_of_work: bool,
    /// A batch failed: begin no further one.
    pub is_halted: bool,
    /// Flush was called and nothing pushed since.
    pub is_flushed: bool,
    /// Samples that wait.
    pub queue: Queue,
    /// Callers that read boxes.
    pub readers: Readers,
    /// Array metadata.
    pub arrays: Arrays,
    pub parts: PartTable,
    /// Runs of rectilinear grids.
    pub edges: EdgeTable,
    /// Files.
    pub files: FileTable,
    /// Parts of files that are mapped.
    pub windows: Windows,
    /// Folders that files were found in.
    pub folders: FolderTable,
    /// Index pages.
    pub pages: PageCache,
    /// Index lookups.
    pub requests: Requests,
    /// The cache of decoded chunks.
    pub chunks: ChunkCache,
    /// Why chunks for the cache failed, for tasks that were planned to wait for them.
    pub kept_failures: Shelf<KeptFailure>,
    /// Chunks that could not be read.
    pub bad_chunks: BadChunks,
    /// Waves.
    pub waves: Waves,
    /// The state of transfers to a device.
    pub device: DeviceState,
    /// Batches.
    pub slots: Slots,
    /// The processes that take them.
    pub consumers: Consumers,
    /// The planner of a lane may be able to do something.
    pub plan_wanted: [bool; LANES],
    /// A worker runs the planner of a lane.
    pub planning: [bool; LANES],
    /// Number of the window entry of samples that decodes the chunk in each slot of the cache.
    pub owners: &'static mut [u64],
    /// Many of the last reads had to wait: reads go to the threads that may.
    pub is_cold: bool,
    /// How many, against those that found everything cached.
    pub miss_weight: u32,
    /// Metadata loads found no descriptor: leases that had ended by then. They wait for another.
    pub loads_wait_since: Option<u64>,
    /// The common scratch.
    pub pool: Pool,
    /// Boxes with a map.
    pub resampling: Resampling,
    /// Reads that the host will complete.
    pub async_reads: AsyncReads,
    /// Worker contexts that decode and are free.
    pub contexts: Contexts,
    /// The threads of the host that are at work.
    pub host: HostThreads,
    /// The read of each worker context, if it has one.
    pub readings: &'static mut [Option<Reading>],
    /// Jobs that run.
    pub running: u32,
    /// Calls that wait in pop or push.
    pub waiters: u32,
    /// wavetrain's threads.
    pub threads: Threads,
    /// The threads that are to look, now that it changed.
    pub wakes: Wakes,
    /// The waits of pops.
    pub waits: Waits,
    /// Samples up to this number were looked at for their array.
    prefetched: u64,
}

fn carve_chunks(carver: &mut Carver, settings: &Settings) -> ChunkCache {
    let (waves, bytes) = (settings.wave_counts(), settings.cache_memory_bytes);
    ChunkCache::carve(carver, bytes, settings.cache_uses, waves.rows(waves.chunks) as u32)
}

impl State {
    /// The state of a loader that was just opened.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        settings: &Settings,
        geometry: &Geometry,
        files_max: u32,
        (common_scratch, sharing): (Region, &Sharing),
    ) -> State {
        let config = &settings.config;
        let (waves, keeps) = (settings.wave_counts(), settings.per_sample.keeps());
        let ahead = settings.queue_counts();
        let (counts, is_shared) = (settings.slot_counts(), settings.share.is_shared());
        let rows = Elsewhere::of(is_shared, sharing.records);
        State {
            life: Life::Running,
            ending: Ending::Working,
            has_resetter: false,
            is_reset_due: false,
            sticky: None,
            call_error: carver.slice_from(Item::Instance, 1, |_| None),
            has_warned_of_kept: false,
            has_warned_of_work: false,
            is_halted: false,
            is_flushed: false,
            queue: Queue::carve(carver, ahead, settings.uri_pool_bytes, keeps),
            readers: Readers::carve(carver, settings),
            arrays: Arrays::carve(carver, config.n_array_meta_cache, settings.resample_bytes() > 0),
            edges: EdgeTable::carve(carver, config.n_array_meta_cache),
            parts: PartTable::carve(carver, config.max_npy_files),
            files: FileTable::carve(carver, config.n_chunk_layout_cache, files_max),
            windows: Windows::carve(carver, settings.windows),
            folders: FolderTable::carve(carver, config.n_chunk_layout_cache),
            pages: PageCache::carve(carver, config.n_shard_index_cache),
            requests: Requests::carve(carver, config.metadata_io_concurrency),
            chunks: carve_chunks(carver, settings),
            waves: Waves::carve(carver, waves, geometry.slab_bytes),
            device: DeviceState::carve(carver, settings, geometry.device),
            kept_failures: KeptFailure::carve(carver),
            bad_chunks: BadChunks::carve(carver, settings),
            slots: Slots::carve(carver, counts, &settings.per_sample, rows),
            consumers: Consumers::carve(carver, settings, sharing),
            plan_wanted: [false; LANES],
            planning: [false; LANES],
            owners: carver.slice(Item::ChunkCacheTables, settings.cache_granules(), &0),
            is_cold: false,
            miss_weight: 0,
            loads_wait_since: None,
            pool: Pool::carve(carver, common_scratch),
            resampling: Resampling::carve(carver, settings),
            async_reads: AsyncReads::carve(carver, settings),
            contexts: Contexts::carve(carver, settings.decode_threads),
            host: HostThreads::carve(carver, settings),
            readings: carver.slice(Item::Workers, u64::from(settings.worker_count()), &None),
            running: 0,
            waiters: 0,
            threads: Threads::default(),
            wakes: Wakes::default(),
            waits: Waits::NONE,
            prefetched: 0,
        }
    }

    /// Copies of the addresses of its tables.
    pub fn views(&self) -> Views {
        Views {
            records: self.arrays.records.share(),
            edges: self.edges.runs.share(),
            parts: self.parts.parts.share(),
            runs: self.parts.runs.share(),
            uris: self.arrays.uris.share(),
            boxes: self.slots.boxes.share(),
            fed: self.slots.fed.share(),
            augment: self.slots.augment.share(),
            resampled: self.resampling.boxes.share(),
            rows: self.slots.rows.share(),
            targets: self.readers.targets.share(),
            addresses: self.readers.addresses,
            stream_counts: self.device.slabs.streams,
            refusals: self.device.refusals,
        }
    }

    /// Begins to load the arrays of samples that wait, into slots that no sample needs. Looks at a
    /// bounded number of samples; true if more are to be looked at.
    pub fn prefetch_arrays(&mut self) -> bool {
        let front = self.queue.front_number();
        self.prefetched = self.prefetched.max(front);
        let limit = self.prefetched + PREFETCH_SAMPLES;
        while self.prefetched < front + self.queue.len() {
            let boxes = self.queue.boxes((self.prefetched - front) as u32);
            for queued in boxes.iter().filter(|queued| !queued.is_fed) {
                let (uri, hash) = self.queue.uri(queued);
                let found = self.arrays.find(uri, hash);
                let Some(array) = found.or_else(|| self.arrays.load(uri, hash, Some(front))) else {
                    return false;
                };
                self.arrays.want(array, self.prefetched);
            }
            self.prefetched += 1;
            if self.prefetched >= limit {
                return true;
            }
        }
        false
    }

    /// Notes whether a read found its bytes in the page cache.
    pub fn note_cached(&mut self, is_cached: bool) {
        self.miss_weight = match is_cached {
            true => self.miss_weight.saturating_sub(1),
            false => (self.miss_weight + MISS_WEIGHT).min(COLD_WEIGHT),
        };
        if self.miss_weight == 0 || self.miss_weight == COLD_WEIGHT {
            let was_cold = core::mem::replace(&mut self.is_cold, self.miss_weight > 0);
            if self.is_cold != was_cold {
                // Reads and looks are for other threads now, and batches may be early.
                self.want_plan(self.is_cold);
                self.wakes.work();
            }
        }
    }

    /// Measures how long a wave waited for its first worker. Since when it may be worked on.
    pub fn note_bound(&mut self, shared: &Shared, wave: WaveIndex) -> u64 {
        let entry = &mut self.waves.waves[wave.at()];
        if !entry.is_bound {
            entry.is_bound = true;
            let at = At::NOWHERE.of_wave(wave.0);
            shared.observe(Stage::BindWait, entry.activated_ns, (0, 0), at);
        }
        entry.activated_ns
    }

    /// Why a call failed last.
    pub fn call_error(&self) -> Option<&Failure> {
        self.call_error.first().and_then(Option::as_ref)
    }

    /// The addresses of the record of that failure.
    pub fn call_error_span(&self) -> Range<usize> {
        span_of(&*self.call_error)
    }

    /// Keeps why a call failed, or forgets it.
    pub fn set_call_error(&mut self, failure: Option<Failure>) {
        if let Some(place) = self.call_error.first_mut() {
            *place = failure;
        }
    }

    /// A thread of ours ends.
    pub fn end_thread(&mut self) {
        assert!(self.threads.alive > 0);
        self.threads.alive -= 1;
        self.wakes.all(Condition::Idle);
    }

    /// A job is handed out.
    pub fn begin_job(&mut self) {
        assert!(self.life == Life::Running);
        self.running += 1;
    }

    /// A job is over.
    pub fn end_job(&mut self) {
        assert!(self.running > 0);
        self.running -= 1;
        if self.running == 0 && self.life != Life::Running {
            self.wakes.all(Condition::Idle);
        }
    }

    /// A file is not what it was: what is known of it, and what was decoded of it, is forgotten.
    /// Gives the descriptors to close.
    pub fn forget_file(&mut self, slot: FileSlot) -> Option<i32> {
        let (array_id, file) = self.files.name(slot);
        self.chunks.invalidate(|key| (key.array_id, key.file) == (array_id, file));
        self.files.forget(slot)
    }

    /// The log line about a close that could not end, once for each reason: who drops a loader
    /// without a look at the result keeps its memory in use. A close that does not wait
    /// (`timeout_ns` 0) asks, so work in flight is no surprise to it.
    pub fn close_warning(&mut self, is_kept: bool, timeout_ns: u64) -> Option<Why> {
        let has_warned = match is_kept {
            true => &mut self.has_warned_of_kept,
            false => &mut self.has_warned_of_work,
        };
        if *has_warned || (!is_kept && timeout_ns == 0) {
            return None;
        }
        *has_warned = true;
        let mut why = Why::new();
        if is_kept {
            fail!(
                why,
                Again,
                "batches not released: {}, tensors not deleted: {}; their memory stays in use \
                 until they are and close was called again",
                self.slots.in_state(SlotState::Held),
                self.slots.live_tensors()
            );
        } else {
            fail!(
                why,
                Again,
                "reads, calls or work on a device did not end in time; memory and hooks stay in \
                 use until they have and close was called again"
            );
        }
        Some(why)
    }

    /// Forgets everything that is under way; no job runs. Bytes that the host still reads are not
    /// used, but their place in the slab stays taken.
    pub fn reset(&mut self) {
        assert!(self.running == 0);
        self.sticky = self.device.failure.clone();
        self.set_call_error(None);
        self.is_halted = self.device.is_dead();
        self.is_flushed = false;
        self.queue.clear();
        self.parts.reset();
        self.edges.rows.waits_since = None;
        self.arrays.reset();
        self.files.reset();
        self.folders.clear();
        self.requests.clear();
        self.chunks.clear();
        self.kept_failures.clear();
        self.bad_chunks.clear();
        self.waves.clear(self.async_reads.drop_all());
        self.reset_consumers();
        self.slots.reset();
        self.resampling.clear();
        self.readers.reset();
        if HAS_DEVICES {
            self.device.clear();
        }
        self.plan_wanted = [false; LANES];
        self.planning = [false; LANES];
    }
}
