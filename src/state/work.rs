//! The work that can be done: one answer, for the worker that takes a job and for the thread that
//! wakes another.
//!
//! In: the state, a role. Out: the kinds of work that a worker of that role might find. It may be
//! wrong if a file is busy or room is short; then nothing is taken, and whoever ends the lease or
//! makes room looks again.

use crate::base::indexes::Lane;
use crate::batch::pieces::Doer;
use crate::cuda::HAS_DEVICES;
use crate::state::job::Role;
use crate::state::shared::Shared;
use crate::state::{Life, State};

/// Bytes to decode from which on callers that read boxes call other threads.
const HELPED_BYTES: u64 = 256 << 10;

/// Bytes that are copied in the time that one is decoded.
const COPIES: u64 = 8;

/// A kind of work. A worker takes it in this order: first the work that keeps the later stages
/// busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Submit to the device, and look what is done.
    Device,
    /// Run the planner.
    Plan,
    /// Look at the paths of files.
    Look,
    /// Look whether what an array was loaded from is what it was.
    LookArray,
    /// Do a piece of a pass over a full batch.
    Finish,
    /// Resample a piece of a box.
    Resample,
    /// Decode and assemble what is staged.
    Assemble,
    /// Read what nobody began, decoding as it comes; never waits.
    OwnRead,
    /// Load metadata.
    Load,
    /// Read headers of the files of an array.
    Parts,
    /// Answer a lookup.
    LookUp,
    /// Read what the host did not bring.
    IoRead,
    /// Read what has to be waited for.
    WaitingRead,
}

const ALL: [Work; 13] = [
    Work::Device,
    Work::Plan,
    Work::Look,
    Work::LookArray,
    Work::Finish,
    Work::Resample,
    Work::Assemble,
    Work::OwnRead,
    Work::Load,
    Work::Parts,
    Work::LookUp,
    Work::IoRead,
    Work::WaitingRead,
];

/// A set of kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Works(u32);

impl Works {
    fn add(&mut self, work: Work, is_there: bool) {
        self.0 |= u32::from(is_there) << work as u32;
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds in the set, the first to take first. A caller reads what is planned of its box
    /// before it plans on, so that no other thread is called for what it does next.
    pub fn iter(self, role: Role) -> impl Iterator<Item = Work> {
        let first = if role == Role::Reader { Work::Finish as u32 } else { 0 };
        let has = move |work: &Work| self.0 & 1 << *work as u32 != 0;
        let turned = ALL.into_iter().cycle().skip(first as usize).take(ALL.len());
        turned.filter(has)
    }
}

impl State {
    /// The work that a worker of this role might find.
    pub fn work_for(&self, shared: &Shared, role: Role) -> Works {
        let mut works = Works(0);
        if self.life != Life::Running {
            return works;
        }
        if matches!(role, Role::Decode | Role::Both | Role::Reader) {
            self.add_decode_work(shared, role, &mut works);
        }
        if matches!(role, Role::Io | Role::Both) {
            works.add(Work::Load, self.has_load());
            works.add(Work::Parts, self.parts.has_slice());
            works.add(Work::LookUp, self.requests.has_queued());
            works.add(Work::IoRead, self.waves.each_active().any(|wave| !wave.for_io.is_empty()));
            works.add(Work::WaitingRead, self.has_waiting_read(shared));
        }
        // Looks at paths need no wait if reads of bytes need none: whoever plans then also looks,
        // and no other thread is woken for it.
        let is_looker = match role {
            Role::Io => self.must_wait_for_looks(shared),
            Role::Decode | Role::Reader => !self.must_wait_for_looks(shared),
            Role::Both => true,
            Role::Device => false,
        };
        if is_looker {
            works.add(Work::Look, self.requests.has_looks());
            works.add(Work::LookArray, self.arrays.has_looks());
        }
        let is_for_device = matches!(role, Role::Device | Role::Both);
        works.add(Work::Device, is_for_device && self.has_device_work(shared, role));
        works
    }

    /// Whether the planner of a lane may be able to do something, for a worker of this role.
    pub fn wants_plan(&self, shared: &Shared, lane: Lane, role: Role) -> bool {
        let number = lane as usize;
        self.is_open(shared, lane, role) && self.plan_wanted[number] && !self.planning[number]
    }

    /// Whether a worker of this role is to look for work of a lane.
    fn is_open(&self, shared: &Shared, lane: Lane, role: Role) -> bool {
        role.takes(lane)
            && (role != Role::Decode
                || lane == Lane::Samples
                || self.readers.calls_others(shared.settings.decode_threads))
    }

    /// Notes whether the reads of readers that nobody began are worth to call threads for: a thread
    /// that sleeps costs as much to wake as it takes to decode some of a chunk, or to copy a
    /// mebibyte.
    pub fn weigh_readers(&mut self, shared: &Shared) {
        let mut cost = 0;
        let mut at = self.waves.first_active();
        while let Some(wave) = at.filter(|_| cost < HELPED_BYTES) {
            at = self.waves.next_active(wave);
            if self.waves.lane(wave) == Lane::Samples {
                continue;
            }
            let entry = &self.waves.waves[wave.at()];
            cost += if entry.ready.is_empty() { 0 } else { HELPED_BYTES };
            let unissued = (0..entry.op_count).filter(|op| self.waves.is_unissued(wave, *op));
            for op in unissued {
                let read = shared.tables.ops.read(shared.wave_row(wave, op));
                let is_copied = shared.array_record(read.array).is_read_partly();
                cost += read.decoded_bytes / if is_copied { COPIES } else { 1 };
                if cost >= HELPED_BYTES {
                    break;
                }
            }
        }
        self.readers.note_callers((shared.os.now_ns)());
        self.readers.is_much = cost >= HELPED_BYTES || self.readers.has_planned;
    }

    fn add_decode_work(&self, shared: &Shared, role: Role, works: &mut Works) {
        works.add(Work::Plan, Lane::ALL.iter().any(|lane| self.wants_plan(shared, *lane, role)));
        // Decoding needs room on the way to a device, and so do reads that decode at once: a host's
        // thread that was told of them would come in vain, again and again.
        let lacks_room = HAS_DEVICES && self.device.lacks_room;
        let is_full = |lane: Lane| lacks_room && lane == Lane::Samples;
        let is_open = |lane: &Lane| self.is_open(shared, *lane, role) && !is_full(*lane);
        works.add(Work::Finish, is_open(&Lane::Samples) && self.slots.has_piece(Doer::Workers));
        let has_piece = self.resampling.has_piece(&self.slots);
        works.add(Work::Resample, is_open(&Lane::Samples) && has_piece);
        let waves =
            Lane::ALL.into_iter().filter(is_open).flat_map(|lane| self.waves.active_of(lane));
        let (ready, unissued) = waves.fold((false, false), |found, wave| {
            (found.0 | !wave.ready.is_empty(), found.1 | (wave.unissued > 0))
        });
        works.add(Work::Assemble, ready);
        works.add(Work::OwnRead, unissued && !self.must_wait(shared));
    }

    fn has_waiting_read(&self, shared: &Shared) -> bool {
        let must_wait = self.must_wait(shared);
        self.async_reads.has_room()
            && self
                .waves
                .each_active()
                .any(|wave| !wave.blocking.is_empty() || must_wait && wave.unissued > 0)
    }

    /// Whether reads that nobody began go to threads that may wait. If files are mapped, those that
    /// decode take them.
    pub fn must_wait(&self, shared: &Shared) -> bool {
        self.is_cold && shared.settings.windows == 0 || shared.store.row.waits
    }

    /// The same of looks at paths.
    pub fn must_wait_for_looks(&self, shared: &Shared) -> bool {
        self.must_wait(shared) || shared.metadata.row.waits
    }

    /// Whether metadata can be loaded now: some is asked for, and descriptors and rows of the
    /// tables of files and of runs are to be had.
    fn has_load(&self) -> bool {
        let is_short = self.loads_wait_since == Some(self.files.give_backs());
        let full = [self.parts.rows.waits_since, self.edges.rows.waits_since];
        let is_full = full.contains(&Some(self.arrays.uses_ended()));
        self.arrays.has_queued() && !(is_short && self.files.leases() > 0) && !is_full
    }

    fn has_device_work(&self, shared: &Shared, role: Role) -> bool {
        let device = &self.device;
        if shared.engine().is_none() || device.is_dead() || device.is_taken {
            return false;
        }
        let is_rested = || {
            role == Role::Device
                || (shared.os.now_ns)() >= device.polled_ns.saturating_add(device.nap_ns)
        };
        self.has_for_device() || device.is_at_work() && is_rested()
    }

    /// Whether something waits to be handed to the device.
    pub fn has_for_device(&self) -> bool {
        self.device.slabs.has_submission() || self.slots.has_piece(Doer::Kernels)
    }
}
