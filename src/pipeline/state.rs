//! What the lock guards, and the choice of the next job.
//!
//! In: results of jobs. Out: the next job for a worker. Every change of a slot, wave, file, array
//! or lookup happens here under one lock; the work itself runs without it. A worker takes the job
//! that keeps the stages behind it busy: planning, then decoding what is there, then reading.

use crate::arrays::Arrays;
use crate::base::arena::Carver;
use crate::batch::{SlotState, Slots};
use crate::cache::Fifo;
use crate::pipeline::Instance;
use crate::queue::Queue;
use crate::read::{FileTable, Lease, LeaseOutcome, PageCache, Question, Requests};
use crate::settings::{SMALL_CHUNK_BYTES, Settings};
use crate::status::Failure;
use crate::wave::{ChunkKind, ChunkTask, ReadOp, Waves};

/// Decoded bytes that are handed out at a time: enough to make the lock cheap, little enough to
/// share a wave evenly.
const RUN_BYTES: u64 = 256 << 10;

/// Samples whose arrays are looked up at a time, so that the lock is held briefly.
const PREFETCH_SAMPLES: u64 = 256;

/// What a worker may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Plan, read what is in the page cache, decode. Never waits for storage.
    Decode,
    /// Wait for storage.
    Io,
    /// Everything, in one thread (pump).
    Both,
}

/// One bounded piece of work.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// Run the planner.
    Plan,
    /// Load the metadata of an array.
    LoadArray {
        /// Slot of the array.
        array: u32,
        /// The large buffer is ours.
        large: bool,
    },
    /// Answer an index lookup.
    Locate {
        /// The lookup.
        request: u32,
        /// What it asks.
        question: Question,
        /// The file.
        lease: Lease,
    },
    /// Read chunk data.
    Read {
        /// Wave of the read.
        wave: u32,
        /// Its number in the wave.
        op: u32,
        /// The read.
        read: ReadOp,
        /// The file.
        lease: Lease,
        /// Do not wait for storage.
        cached_only: bool,
    },
    /// Decode and assemble chunks of one batch and one array.
    Assemble {
        /// Wave of the chunks.
        wave: u32,
        /// First chunk.
        first: u32,
        /// Number of chunks.
        count: u32,
        /// Number of the large scratch that is ours.
        large: Option<u32>,
    },
    /// Fill the failed samples of a batch.
    Patch {
        /// Slot of the batch.
        slot: u32,
    },
}

/// Where the instance is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Jobs are handed out.
    Running,
    /// Reset waits for the jobs that run.
    Resetting,
    /// Close was called.
    Closing,
}

/// See the module.
pub struct State {
    /// Where the instance is in its life.
    pub life: Life,
    /// The error that ended the stream.
    pub sticky: Option<Failure>,
    /// Why push refused a sample last.
    pub push_error: Option<Failure>,
    /// A batch failed: begin no further one.
    pub is_halted: bool,
    /// Flush was called and nothing pushed since.
    pub is_flushed: bool,
    /// Samples that wait.
    pub queue: Queue,
    /// Array metadata.
    pub arrays: Arrays,
    /// Files.
    pub files: FileTable,
    /// Index pages.
    pub pages: PageCache,
    /// Index lookups.
    pub requests: Requests,
    /// Waves.
    pub waves: Waves,
    /// Batches.
    pub slots: Slots,
    /// The planner may be able to do something.
    pub plan_wanted: bool,
    /// A worker runs the planner.
    pub planning: bool,
    /// The last cached-only read had to wait: reads go to the threads that may.
    pub is_cold: bool,
    /// Reads in a row that found everything cached.
    pub warm_reads: u32,
    /// Metadata loads found no descriptor: leases that had ended by then. They wait for another.
    pub loads_wait_since: Option<u64>,
    /// Slots whose patching was handed out, as bits.
    pub patching: u64,
    /// Large scratch that is free, as bits.
    pub large_free: u64,
    /// Worker contexts that are free (pump).
    pub contexts: Fifo,
    /// Jobs that run.
    pub running: u32,
    /// Calls that wait in pop or push.
    pub waiters: u32,
    /// Threads that wait for a decoding job.
    pub idle_decode: u32,
    /// Threads that wait for an io job.
    pub idle_io: u32,
    /// Threads that have not ended.
    pub threads: u32,
    /// Samples up to this number were looked at for their array.
    prefetched: u64,
}

impl State {
    /// The state of an instance that was just opened.
    pub fn carve(
        carver: &mut Carver,
        settings: &Settings,
        slab_bytes: u64,
        large_count: u32,
        files_max: u32,
    ) -> State {
        let config = &settings.config;
        let mut contexts = Fifo::carve(carver, "workers", settings.worker_count());
        if !carver.is_counting() {
            (0..settings.worker_count()).for_each(|context| contexts.push(context));
        }
        State {
            life: Life::Running,
            sticky: None,
            push_error: None,
            is_halted: false,
            is_flushed: false,
            queue: Queue::carve(carver, settings.lookahead_samples, settings.uri_pool_bytes),
            arrays: Arrays::carve(carver, config.n_array_meta_cache),
            files: FileTable::carve(carver, config.n_chunk_layout_cache, files_max),
            pages: PageCache::carve(carver, config.n_shard_index_cache),
            requests: Requests::carve(carver, config.metadata_io_concurrency),
            waves: Waves::carve(
                carver,
                config.host_buffer_waves,
                config.max_chunks_per_wave,
                slab_bytes,
            ),
            slots: Slots::carve(carver, config.n_batch_slots, config.samples_per_batch),
            plan_wanted: false,
            planning: false,
            is_cold: false,
            warm_reads: 0,
            loads_wait_since: None,
            patching: 0,
            large_free: u64::MAX.checked_shr(64 - large_count).unwrap_or(0),
            contexts,
            running: 0,
            waiters: 0,
            idle_decode: 0,
            idle_io: 0,
            threads: 0,
            prefetched: 0,
        }
    }

    /// Begins to load the arrays of samples that wait, into slots that no sample needs. Looks at a
    /// bounded number of samples; true where there are more to look at.
    pub fn prefetch_arrays(&mut self) -> bool {
        let front = self.queue.front_number();
        self.prefetched = self.prefetched.max(front);
        let limit = self.prefetched + PREFETCH_SAMPLES;
        while self.prefetched < front + self.queue.len() {
            let sample = *self.queue.sample((self.prefetched - front) as u32);
            let (uri, hash) = self.queue.uri(&sample);
            let found = self.arrays.find(uri, hash);
            let Some(array) = found.or_else(|| self.arrays.load(uri, hash, Some(front))) else {
                return false;
            };
            self.arrays.want(array, self.prefetched);
            self.prefetched += 1;
            if self.prefetched >= limit {
                return true;
            }
        }
        false
    }

    /// The last chunk of a batch is there.
    pub fn complete_slot(&mut self, instance: &Instance, slot: u32) {
        match self.slots.complete(slot, instance.skips_errors()) {
            SlotState::Patching => {}
            _ => instance.batch_ready.broadcast(),
        }
    }

    /// The next job for a worker of this role, or None while there is none.
    pub fn next_job(&mut self, instance: &Instance, role: Role) -> Option<Job> {
        if self.life != Life::Running {
            return None;
        }
        let job = match role {
            Role::Decode => self.next_decode_job(instance, true),
            Role::Io => self.next_io_job(instance),
            Role::Both => match self.next_decode_job(instance, false) {
                None => self.next_io_job(instance),
                job => job,
            },
        };
        self.running += job.is_some() as u32;
        job
    }

    /// Whether a worker of this role might find a job. It may be wrong where a file is busy; then
    /// whoever ends the lease looks again.
    pub fn has_job(&self, instance: &Instance, role: Role) -> bool {
        if self.life != Life::Running {
            return false;
        }
        let reads_here = self.reads_by(instance, role);
        let mut wave = self.waves.active.first();
        while let Some(at) = wave {
            let entry = &self.waves.waves[at as usize];
            let unissued = entry.issued < entry.op_count && reads_here;
            let found = match role {
                Role::Decode => unissued || !entry.ready.is_empty(),
                Role::Io => unissued || !entry.blocking.is_empty(),
                Role::Both => unissued || !entry.ready.is_empty() || !entry.blocking.is_empty(),
            };
            if found {
                return true;
            }
            wave = self.waves.active.next(at);
        }
        let decodes = role != Role::Io && (self.plan_wanted && !self.planning || self.has_patch());
        let waits = role != Role::Decode && (self.has_load() || self.requests.has_queued());
        decodes || waits
    }

    /// Whether reads that nobody began go to workers of this role.
    fn reads_by(&self, instance: &Instance, role: Role) -> bool {
        let must_wait = self.is_cold || instance.store.uses_hook();
        match role {
            Role::Decode => !must_wait,
            Role::Io => must_wait,
            Role::Both => true,
        }
    }

    /// Whether metadata can be loaded now: some is asked for, and descriptors are to be had.
    fn has_load(&self) -> bool {
        let is_short = self.loads_wait_since == Some(self.files.give_backs());
        self.arrays.has_queued() && !(is_short && self.files.leases() > 0)
    }

    fn has_patch(&self) -> bool {
        (0..self.slots.count()).any(|slot| {
            self.slots.state(slot) == SlotState::Patching && self.patching & (1 << slot) == 0
        })
    }

    fn next_decode_job(&mut self, instance: &Instance, cached_only: bool) -> Option<Job> {
        if self.plan_wanted && !self.planning {
            self.plan_wanted = false;
            self.planning = true;
            return Some(Job::Plan);
        }
        for slot in 0..self.slots.count() {
            let is_open = self.slots.state(slot) == SlotState::Patching;
            if is_open && self.patching & (1 << slot) == 0 {
                self.patching |= 1 << slot;
                return Some(Job::Patch { slot });
            }
        }
        if let Some(job) = self.next_assemble(instance) {
            return Some(job);
        }
        let role = if cached_only { Role::Decode } else { Role::Both };
        if self.reads_by(instance, role) {
            return self.next_read(instance, false, cached_only).or_else(|| {
                // Chunks without bytes became ready while reads were handed out.
                self.next_assemble(instance)
            });
        }
        None
    }

    fn next_io_job(&mut self, instance: &Instance) -> Option<Job> {
        if self.has_load()
            && let Some((array, large)) = self.arrays.next_queued()
        {
            return Some(Job::LoadArray { array, large });
        }
        for _ in 0..self.requests.queued() {
            let Some((request, question)) = self.requests.next_queued() else { break };
            match self.files.lease(question.array_id, question.file, true) {
                LeaseOutcome::Leased(lease) => {
                    return Some(Job::Locate { request, question, lease });
                }
                LeaseOutcome::Busy => self.requests.requeue(request),
            }
        }
        let job = self.next_read(instance, true, false);
        if job.is_none() && self.reads_by(instance, Role::Io) {
            return self.next_read(instance, false, false);
        }
        job
    }

    /// The next read of the oldest wave that has one: of those that were found to block, or of
    /// those that nobody began.
    fn next_read(&mut self, instance: &Instance, blocking: bool, cached_only: bool) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            let entry = &mut self.waves.waves[wave as usize];
            let tries =
                if blocking { entry.blocking.len() as u32 } else { entry.op_count - entry.issued };
            for _ in 0..tries {
                let entry = &mut self.waves.waves[wave as usize];
                let op = if blocking {
                    entry.blocking.pop()
                } else {
                    let position = instance.wave_row(wave, entry.issued);
                    entry.issued += 1;
                    Some(instance.tables.order.read(position))
                };
                let Some(op) = op else { break };
                let read = instance.tables.ops.read(instance.wave_row(wave, op));
                if read.bytes == 0 {
                    entry.ready.push(op);
                    continue;
                }
                match self.files.lease(read.array_id, read.file, false) {
                    LeaseOutcome::Leased(lease) => {
                        return Some(Job::Read { wave, op, read, lease, cached_only });
                    }
                    LeaseOutcome::Busy => self.waves.waves[wave as usize].blocking.push(op),
                }
            }
        }
        None
    }

    fn next_assemble(&mut self, instance: &Instance) -> Option<Job> {
        let mut at = self.waves.active.first();
        while let Some(wave) = at {
            at = self.waves.active.next(wave);
            let Some(op) = self.waves.waves[wave as usize].ready.front() else { continue };
            let row = self.waves.row(wave, op);
            let read = instance.tables.ops.read(instance.wave_row(wave, op));
            let next = self.waves.op_next[row];
            let first = read.chunk_first + next;
            let task = instance.tables.chunks.read(instance.wave_row(wave, first));
            let chunk_bytes = match task.kind {
                ChunkKind::Data => instance.records.read(task.array as usize).chunk_bytes,
                _ => 0,
            };
            let large = if chunk_bytes > SMALL_CHUNK_BYTES {
                if self.large_free == 0 {
                    continue;
                }
                Some(self.large_free.trailing_zeros())
            } else {
                None
            };
            let count =
                run_length(instance, wave, &task, first, read.chunk_count - next, chunk_bytes);
            if let Some(large) = large {
                self.large_free &= !(1 << large);
            }
            self.waves.op_next[row] = next + count;
            let entry = &mut self.waves.waves[wave as usize];
            if next + count == read.chunk_count {
                entry.ready.pop();
            }
            if !entry.is_bound {
                entry.is_bound = true;
                instance.stats.bind_wait.observe(
                    (instance.os.now_ns)().saturating_sub(entry.activated_ns),
                    0,
                    0,
                );
            }
            return Some(Job::Assemble { wave, first, count, large });
        }
        None
    }

    /// Forgets everything that is under way. No job runs.
    pub fn reset(&mut self) {
        assert!(self.running == 0);
        self.sticky = None;
        self.push_error = None;
        self.is_halted = false;
        self.is_flushed = false;
        self.queue.clear();
        self.arrays.reset();
        self.files.reset();
        self.requests.clear();
        self.waves.clear();
        self.slots.reset();
        self.plan_wanted = false;
        self.planning = false;
        self.patching = 0;
    }
}

/// Chunks from `first` that one worker takes: those of the same batch and array, up to RUN_BYTES.
fn run_length(
    instance: &Instance,
    wave: u32,
    task: &ChunkTask,
    first: u32,
    most: u32,
    chunk_bytes: u64,
) -> u32 {
    let mut count = 1;
    let fits = |count: u32| (count as u64 + 1) * chunk_bytes.max(4096) <= RUN_BYTES;
    while count < most && fits(count) {
        let next = instance.tables.chunks.read(instance.wave_row(wave, first + count));
        if (next.slot, next.array) != (task.slot, task.array) || next.kind != task.kind {
            break;
        }
        count += 1;
    }
    count
}
