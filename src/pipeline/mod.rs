//! The instance: its memory, its threads, and the calls that the surfaces make.
//!
//! In: settings, samples. Out: batches. `take_job` and `run_job` are the only engine of work: own
//! threads, pump, jobs of the host's and waiting pops of an instance without threads all loop over
//! them, one bounded job at a time. A thread that finds no job sleeps without giving the lock up in
//! between.
//!
//! No lock is held while a job plans, waits for storage, decodes, or calls a hook.

mod assemble_jobs;
mod async_jobs;
mod boxes;
mod calls;
mod device_jobs;
mod device_open;
mod figures;
mod file_jobs;
mod form;
mod groups;
mod host_jobs;
mod jobs;
mod lift;
mod lift_jobs;
mod open;
mod planner;
mod read_jobs;
mod ring_jobs;
mod room;
mod scout;
mod scratch;
mod settle;
mod slot_return;
mod state;
mod tensors;
mod ways_out;
mod work;
mod worker;

pub use groups::{GroupPlace, list_nodes, read_group, refuse_group};
pub use open::{Handle, Opened, bill, floor_bill, floor_bytes, open};

use crate::arrays::Uri;
use crate::assemble::axis::PadMode;
use crate::base::arena::{Region, Table};
use crate::batch::SampleGeometry;
use crate::config::ON_ERROR_SKIP;
use crate::cuda::{Engine, HAS_DEVICES, Stream};
use crate::device::Part;
use crate::export::Exports;
use crate::geometry::Geometry;
use crate::grid::EdgeRun;
use crate::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::os::profiler::Profiler;
use crate::os::sink::{Level, Sink};
use crate::os::store::Store;
use crate::os::sync::{Condvar, Guard, Mutex};
use crate::os::workers::Workers;
use crate::os::{Os, Thread};
use crate::records::ArrayRecord;
use crate::settings::Settings;
use crate::simd::FloatEnvironment;
use crate::stats::StatsCells;
use crate::status::{Failure, Why};
use crate::wave::WaveTables;
use core::sync::atomic::AtomicBool;
use jobs::{Job, Role};
use lift::{Lift, Tiles};
use planner::Planner;
use ring_jobs::RingReader;
use state::{Life, State};
use worker::Worker;

/// One open loader. Placed in its own arena; shared by reference.
pub struct Instance {
    /// The system.
    pub os: &'static Os,
    /// The checked config.
    pub settings: Settings,
    /// Sizes of scratch and staging.
    pub geometry: Geometry,
    /// Process that opened the instance.
    pub process_id: i32,
    /// What the surfaces know the instance by.
    token: u64,
    /// Files.
    pub store: Store,
    /// Log.
    pub sink: Sink,
    /// Ranges of the host's profiler.
    pub profiler: Profiler,
    /// The host's job system.
    host: Workers,
    /// Figures.
    pub stats: &'static StatsCells,
    /// Bytes taken at open.
    pub host_bytes: u64,
    lock: &'static Mutex<State>,
    /// Whoever runs the planner takes it out, so that no lock is held meanwhile.
    planner: Mutex<Option<&'static mut Planner>>,
    work_ready: Condvar,
    io_ready: Condvar,
    ring_ready: Condvar,
    batch_ready: Condvar,
    space_ready: Condvar,
    device_ready: Condvar,
    idle: Condvar,
    workers: &'static [Mutex<Worker>],
    /// The ring thread's, from its start to its end.
    ring: Mutex<RingReader>,
    threads: &'static [Mutex<Option<Thread>>],
    has_joined: AtomicBool,
    tables: WaveTables,
    /// Batch slots: memory of the host, or addresses of the device, which nobody looks into.
    batches: Region,
    /// The device; None on the host.
    engine: Option<&'static Engine>,
    /// Tiles of the units of each slab.
    device_tiles: Table<Tiles>,
    exports: Exports,
    common_scratch: Region,
    /// Memory of the cache of decoded chunks.
    chunk_memory: Region,
    /// Copies of table addresses that are read without the lock.
    records: Table<ArrayRecord>,
    /// Runs of rectilinear grids, EDGE_RUNS_MAX for each record.
    edges: Table<EdgeRun>,
    uris: Table<Uri>,
    geometry_table: Table<SampleGeometry>,
    statuses: Table<i32>,
    pad_mode: PadMode,
    /// pad_value, where constant padding takes it instead of the array's fill value.
    pad_element: Option<[u8; ELEMENT_BYTES_MAX]>,
    /// What failed samples hold.
    failed_element: [u8; ELEMENT_BYTES_MAX],
}

/// What pop found.
pub enum Popped {
    /// A batch: its token.
    Batch(u64),
    /// None is ready, and none was waited for.
    Again(Why),
    /// None became ready in time.
    Starved(Why),
    /// Flushed, and every batch popped.
    End,
}

/// A popped batch, for the surfaces.
pub struct BatchView {
    /// Its samples, one after the other.
    pub data: Region,
    /// Samples in it.
    pub sample_count: u32,
    /// Samples whose status is not OK.
    pub failed_samples: u32,
    /// What a consumer's work may be queued on; None on the host.
    pub ready_stream: Option<Stream>,
    /// Its number.
    pub batch_id: u64,
    /// Tags of the samples.
    pub tags: &'static [u64],
    /// Status codes of the samples.
    pub statuses: &'static [i32],
}

/// One sample as push takes it.
pub struct Request {
    /// Normalised uri.
    pub uri: Uri,
    /// Axes of the box.
    pub rank: usize,
    /// First element along each axis.
    pub begin: [i64; RANK_MAX],
    /// One past the last.
    pub end: [i64; RANK_MAX],
    /// The caller's tag.
    pub tag: u64,
}

impl Request {
    /// A request to be filled.
    pub const EMPTY: Request =
        Request { uri: Uri::new(), rank: 0, begin: [0; RANK_MAX], end: [0; RANK_MAX], tag: 0 };
}

impl Instance {
    /// The record of the array in a slot that the caller, or a task of the caller's, pins.
    fn array_record(&self, array: u32) -> &'static ArrayRecord {
        &self.records.rows(array as usize, 1)[0]
    }

    /// The wave and the position in it of a row of the wave tables.
    fn wave_and_position(&self, row: u32) -> (u32, u32) {
        let chunks = self.settings.config.max_chunks_per_wave;
        (row / chunks, row % chunks)
    }

    /// The uri of the array in a slot, likewise.
    fn array_uri(&self, array: u32) -> &'static str {
        self.uris.rows(array as usize, 1)[0].as_str()
    }

    fn wave_row(&self, wave: u32, position: u32) -> usize {
        wave as usize * self.settings.config.max_chunks_per_wave as usize + position as usize
    }

    fn sample_row(&self, slot: u32, sample: u32) -> usize {
        slot as usize * self.settings.config.samples_per_batch as usize + sample as usize
    }

    fn sample_region(&self, slot: u32, sample: u32) -> Region {
        let offset = slot as u64 * self.settings.slot_bytes;
        self.batches
            .part(offset + sample as u64 * self.settings.sample_bytes, self.settings.sample_bytes)
    }

    /// The device; None on the host.
    fn engine(&self) -> Option<&Engine> {
        self.engine.filter(|_| HAS_DEVICES)
    }

    /// A part of a slab, to be filled.
    fn lift(&self, part: Option<&Part>) -> Option<Lift> {
        let (engine, part) = (self.engine()?, part?);
        let layout = &self.geometry.device;
        Some(Lift::new(engine.slab(part.slab), &self.device_tiles, layout, *part))
    }

    fn skips_errors(&self) -> bool {
        self.settings.config.on_error == ON_ERROR_SKIP
    }

    /// Notes that a sample failed at chunk number `chunk`; with on_error = skip the text is logged.
    fn fail_sample(&self, slot: u32, sample: u32, chunk: u64, failure: &Failure) {
        let (is_lowest, tag) = {
            let state = &mut *self.lock.lock();
            let is_lowest = state.slots.fail(slot, sample, chunk, failure);
            let tag = state.slots.tags.read(state.slots.row(slot, sample));
            state.is_halted |= !self.skips_errors() || !failure.status.is_skippable();
            (is_lowest, tag)
        };
        if is_lowest && self.skips_errors() {
            self.sink.log(Level::Warn, tag, format_args!("{failure}"));
        }
    }

    /// Takes the next job for a worker of `role`, and wakes whoever can do something beside it.
    fn take_job(&self, state: &mut State, role: Role) -> Option<Job> {
        let job = state.next_job(self, role);
        if job.is_some() {
            self.wake(state);
        } else if role == Role::Io && state.idle_decode > 0 && state.has_job(self, Role::Decode) {
            // Looking for a read made chunks ready that need none, such as missing ones.
            self.work_ready.signal();
        }
        job
    }

    /// Does a job on the worker context `context`, and takes the lock again.
    fn run_job(&self, context: u32, job: Job) -> Guard<'_, State> {
        {
            let _float = FloatEnvironment::enter();
            let worker = &mut *self.workers[context as usize].lock();
            work::run(self, worker, job);
        }
        let mut state = self.lock.lock();
        self.end_job(&mut state);
        if self.settings.is_threadless() {
            state.contexts.push(context);
            state.crew.let_go(context);
        }
        self.wake(&state);
        state
    }

    /// A job is over.
    fn end_job(&self, state: &mut State) {
        state.running -= 1;
        if state.running == 0 && state.life != Life::Running {
            self.idle.broadcast();
        }
    }

    /// Wakes a sleeping worker of each kind for which there is work. One at a time is called: it
    /// wakes the next when it has taken a job, and one job rarely makes work for many.
    fn wake(&self, state: &State) {
        let (decode, io) = (&state.is_decode_waking, &state.is_io_waking);
        if state.idle_decode > 0 && !decode.get() && state.has_job(self, Role::Decode) {
            decode.set(true);
            self.work_ready.signal();
        }
        if state.idle_io > 0 && !io.get() && state.has_job(self, Role::Io) {
            io.set(true);
            self.io_ready.signal();
        }
        self.wake_ring(state);
        self.wake_device(state);
        if self.settings.is_threadless() && state.waiters > 0 && state.has_job(self, Role::Both) {
            self.batch_ready.broadcast();
            self.space_ready.broadcast();
        }
    }

    /// A thread of ours is there: `open` waits for all of them.
    fn note_started(&self, state: &mut State) {
        state.starting -= 1;
        if state.starting == 0 {
            self.idle.broadcast();
        }
    }

    /// An own thread found so few bytes left of its stack, and ends.
    fn thread_refused(&self, left: u64) {
        let state = &mut *self.lock.lock();
        let least = state.stack_left.map_or(left, |least| least.min(left));
        state.stack_left = Some(least);
        state.threads -= 1;
        self.note_started(state);
        self.idle.broadcast();
    }

    /// What own thread number `number` does until close.
    fn thread_main(&self, number: u32) {
        self.note_started(&mut self.lock.lock());
        if number >= self.settings.worker_count() {
            let is_ring = number == self.settings.worker_count() && self.settings.ring_depth > 0;
            return if !HAS_DEVICES || is_ring { self.ring_main() } else { self.device_main() };
        }
        let role = if number < self.settings.decode_threads { Role::Decode } else { Role::Io };
        let mut state = self.lock.lock();
        loop {
            if let Some(job) = self.take_job(&mut state, role) {
                drop(state);
                state = self.run_job(number, job);
                continue;
            }
            // The lock was not given up since no job was found, so whoever makes one from here on
            // sees this thread among the idle ones and wakes it.
            if state.life == Life::Closing {
                state.threads -= 1;
                self.idle.broadcast();
                return;
            }
            match role {
                Role::Io => {
                    state.idle_io += 1;
                    self.io_ready.wait(&mut state);
                    state.idle_io -= 1;
                    state.is_io_waking.set(false);
                }
                _ => {
                    state.idle_decode += 1;
                    self.work_ready.wait(&mut state);
                    state.idle_decode -= 1;
                    state.is_decode_waking.set(false);
                }
            }
        }
    }
}
