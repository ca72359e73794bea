//! Boxes that callers read into memory of their own: who waits for a reader, where each box goes,
//! and which jobs may write there.
//!
//! In: callers. Out: readers, in the order in which their callers came; the places of a box. When a
//! caller leaves before its box is complete, the address of its target is gone at once: no job that
//! is handed out later writes there, and the caller waits for those that were handed out before.

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::indexes::{ArraySlot, Lane};
use crate::base::math::index;
use crate::base::shelf::Shelf;
use crate::intake::queue::Queue;
use crate::records::CallerPlaces;
use crate::setup::settings::Settings;
use crate::state::State;
use crate::state::lock::Condition;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Most callers that wait in order; those beyond wait for a place among them.
const WAITING_MAX: u64 = 256;

/// Time within which a caller that has its box may begin the next one.
const RETURN_NS: u64 = 1_000_000;

/// See the module.
pub struct Readers {
    /// Boxes that wait to be planned; the tag of each is the number of its reader.
    pub queue: Queue,
    /// The planner has boxes that are not all in waves.
    pub has_planned: bool,
    /// Chunks of the box in turn found no room in the staging.
    pub lacks_staging: bool,
    /// The targets of the boxes.
    pub targets: Table<CallerPlaces>,
    /// Numbers of the callers that wait, oldest first.
    waiting: Shelf<u64>,
    callers: u64,
    /// Of each worker context the number of its job, if that may write to targets; else 0.
    jobs: &'static mut [u64],
    next_job: u64,
    /// Callers that leave and wait for jobs.
    pub leaving: u32,
    /// Callers that are at a job of the lane, after which they look for another.
    pub helping: u32,
    /// Callers that sleep until their box is there, or until there is a job for them.
    pub idle: u32,
    /// One of them was called for a job, and is not awake yet.
    pub is_waking: bool,
    /// The most callers that were there of late, and when they were.
    most: u32,
    most_ns: u64,
    /// What they have before them is worth to call other threads for.
    pub is_much: bool,
    /// Address of the lowest place of each target; 0: it is nobody's.
    pub addresses: &'static [AtomicUsize],
}

impl Readers {
    /// No caller is there.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> Readers {
        let readers = u64::from(settings.config.n_readers);
        let waiting = if readers > 0 { WAITING_MAX } else { 0 };
        Readers {
            queue: Queue::carve_of_callers(
                carver,
                settings.config.n_readers,
                settings.per_sample.box_rows().1,
            ),
            has_planned: false,
            lacks_staging: false,
            targets: carver.table(Item::Instance, readers, &CallerPlaces::EMPTY),
            waiting: Shelf::new(carver.slice(Item::Instance, waiting, &0)),
            callers: 0,
            jobs: carver.slice(Item::Workers, u64::from(settings.worker_count()), &0),
            next_job: 1,
            leaving: 0,
            helping: 0,
            idle: 0,
            is_waking: false,
            most: 0,
            most_ns: 0,
            is_much: false,
            addresses: carver.slice_from(Item::Instance, readers, |_| AtomicUsize::new(0)),
        }
    }

    /// No box is under way any more.
    pub fn reset(&mut self) {
        self.queue.clear();
        (self.has_planned, self.lacks_staging) = (false, false);
        self.addresses.iter().for_each(|address| address.store(0, Relaxed));
    }

    /// Whether boxes wait to be planned, or are not all in waves.
    pub fn has_boxes(&self) -> bool {
        self.has_planned || !self.queue.is_empty()
    }

    /// A caller that waits from now on; None if too many do.
    pub fn wait(&mut self) -> Option<u64> {
        if self.waiting.is_full() {
            return None;
        }
        self.callers += 1;
        self.waiting.push(self.callers);
        Some(self.callers)
    }

    /// Whether a caller, or one that does not wait yet, comes before the others for one of `free`
    /// readers.
    pub fn is_next(&self, caller: Option<u64>, free: u32) -> bool {
        let before = self.waiting.iter().take_while(|waiting| Some(**waiting) != caller).count();
        before < free as usize
    }

    /// Whether anybody waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A caller waits no more.
    pub fn end_wait(&mut self, caller: u64) {
        if let Some(position) = self.waiting.iter().position(|waiting| *waiting == caller) {
            self.waiting.remove(position);
        }
    }

    /// A context has a job that may write to targets.
    pub fn begin_job(&mut self, context: u32) {
        self.jobs[index(u64::from(context))] = self.next_job;
        self.next_job += 1;
    }

    /// The job of a context is over; true if a caller may wait for that before it leaves.
    pub fn end_job(&mut self, context: u32) -> bool {
        core::mem::take(&mut self.jobs[index(u64::from(context))]) != 0 && self.leaving > 0
    }

    /// The job that comes next.
    pub fn next_job(&self) -> u64 {
        self.next_job
    }

    /// Whether a job before this one is not over.
    pub fn has_job_before(&self, job: u64) -> bool {
        self.jobs.iter().any(|at| *at != 0 && *at < job)
    }

    /// A caller is about to take a job: how many there are of late.
    pub fn note_callers(&mut self, now_ns: u64) {
        let callers = self.helping + self.idle + 1;
        if callers >= self.most || now_ns.saturating_sub(self.most_ns) > RETURN_NS {
            (self.most, self.most_ns) = (callers, now_ns);
        }
    }

    /// Whether a caller that sleeps is woken for a job. At most `contexts` jobs run at a time, and
    /// more callers than that would keep others, whose boxes are complete, from the processors.
    pub fn calls_callers(&self, contexts: u32) -> bool {
        self.idle > 0 && !self.is_waking && self.most <= contexts
    }

    /// Whether wavetrain's threads take jobs of the lane: not if `contexts` callers do them.
    pub fn calls_others(&self, contexts: u32) -> bool {
        let callers = if self.most <= contexts { self.helping + self.idle } else { self.helping };
        callers == 0 || self.is_much && self.most != contexts
    }

    /// The lowest place of the box of a reader is at this address from now on.
    pub fn set_address(&self, reader: u32, address: usize) {
        self.addresses[index(u64::from(reader))].store(address, Relaxed);
    }
}

impl State {
    /// The boxes of a lane that wait to be planned.
    pub fn queue_of(&self, lane: Lane) -> &Queue {
        match lane {
            Lane::Samples => &self.queue,
            Lane::Readers => &self.readers.queue,
        }
    }

    /// A reader may be free, for a caller that waits for one.
    pub fn free_reader(&mut self) {
        if self.readers.has_waiting() {
            self.wakes.all(Condition::Reader);
        }
    }

    /// The planners may be able to do something, if so: that of readers if it has boxes.
    pub fn want_plan(&mut self, is_so: bool) {
        self.plan_wanted[Lane::Samples as usize] |= is_so;
        self.plan_wanted[Lane::Readers as usize] |= is_so && self.readers.has_boxes();
    }

    /// `count` uses of an array are over. A box of a reader may wait for its entry.
    pub fn unpin_array(&mut self, array: ArraySlot, count: u32) {
        let is_last = self.arrays.unpin(array, count);
        self.plan_wanted[Lane::Readers as usize] |= is_last && self.readers.has_boxes();
    }

    /// The same as a wave of a lane goes on: a stream without samples does not wait for one of
    /// readers.
    pub fn want_plan_after(&mut self, lane: Lane, is_so: bool) {
        let has_samples = !self.queue.is_empty() || self.slots.has_unpopped();
        let is_idle = lane == Lane::Readers && !has_samples;
        let wanted = self.plan_wanted[Lane::Samples as usize];
        self.want_plan(is_so);
        if is_idle {
            self.plan_wanted[Lane::Samples as usize] = wanted;
        }
    }
}
