//! The planner: from samples to waves.
//!
//! One thread at a time runs it (`State::planning`). In: the sample queue. Out: active waves. Each
//! run makes a bounded step of each kind:
//!
//! begin    a batch slot is bound to the next samples
//! scout    the chunk cache learns which chunks the waiting samples will use
//! resolve  the next group of boxes with one array waits for its metadata
//! walk     the chunks of the group go to the window, each once with its boxes; behind the last
//!          group, what no box covers
//! settle   chunks in the window learn where their bytes lie
//! form     settled chunks become a wave
//!
//! Invariant: window entries are settled in any order and leave in order; every entry holds a pin
//! of its array and a place in the `remaining` of its batch.

use crate::assemble::axis::PadMode;
use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::hash_words;
use crate::base::indexes::{ArraySlot, BatchSlot, Lane};
use crate::base::limits::RANK_MAX;
use crate::base::math::index;
use crate::base::text::Uri;
use crate::jobs::lease::drop_retired;
use crate::jobs::plan::bind::{bind_samples, sort_boxes};
use crate::jobs::plan::look::{ArrayLooks, look_at_arrays};
use crate::jobs::plan::planned::{Left, Place, Planned, Scouted, Settled};
use crate::jobs::plan::redo::redo;
use crate::plan::{Merge, asked_chunk};
use crate::records::{ArrayRecord, LevelChoice, Need};
use crate::setup::settings::Settings;
use crate::state::State;
use crate::state::lock::{Condition, Lock};
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

/// Chunks that one run adds to the window or looks at in it, so that a run stays short.
pub const RUN_CHUNKS: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The group's array is not known yet.
    Resolve,
    /// The group's chunks are being walked.
    Walk,
    /// All groups are planned; what no box covers is not.
    Blank,
}

#[derive(Clone, Copy, Debug)]
pub struct Current {
    pub(super) slot: BatchSlot,
    pub(super) turn: u64,
    pub(super) sample_count: u32,
    /// Boxes in `order`.
    pub(super) box_count: u32,
    pub(super) group_first: u32,
    pub(super) group_limit: u32,
    /// Next box of the group to look at for outside padding.
    pub(super) pad_next: u32,
    /// Next field of the next sample to look at for what no box covers, and the first block of it
    /// that is not planned.
    pub(super) blank_next: (u32, u64),
    pub(super) phase: Phase,
    pub(super) array: ArraySlot,
    pub(super) array_id: u64,
    /// The group's array is the one at the planner's `target`.
    pub(super) is_alias: bool,
    chunk_number: u64,
    /// Number of the first sample after the batch.
    sample_limit: u64,
}

impl Current {
    /// What a slot of so many samples, and boxes of arrays, begins with. `sample_limit`: the number
    /// of the first sample after it.
    pub(super) fn new(
        (slot, turn): (BatchSlot, u64),
        (sample_count, box_count): (u32, u32),
        sample_limit: u64,
    ) -> Current {
        let has_boxes = box_count > 0;
        Current {
            slot,
            turn,
            sample_count,
            box_count,
            group_first: 0,
            group_limit: 0,
            pad_next: 0,
            blank_next: (0, 0),
            phase: if has_boxes { Phase::Resolve } else { Phase::Blank },
            array: if has_boxes { ArraySlot(0) } else { ArraySlot::NONE },
            array_id: 0,
            is_alias: false,
            chunk_number: 0,
            sample_limit,
        }
    }
}

/// See the module.
pub struct Planner {
    /// What it plans. Each lane has a planner of its own.
    pub(super) lane: Lane,
    pub current: Option<Current>,
    /// Numbers of the boxes of the batch, grouped by uri.
    pub(super) order: &'static mut [u32],
    pub(super) merge: Merge,
    /// The subject of the group's walks: its array, or the part of it that its one box reads of an
    /// array that is asked for boxes.
    pub(super) record: ArrayRecord,
    /// First element of that part.
    pub(super) origin: [u64; RANK_MAX],
    /// Extents of the array.
    pub(super) shape: [u64; RANK_MAX],
    /// The uri that the group's own stands for. They are copies, because either entry may be
    /// dropped while the other one is loaded.
    pub(super) target: Uri,
    /// The level of the image that boxes of the group with a map read, and the limit of those that
    /// read it.
    pub(super) choice: LevelChoice,
    pub(super) level_limit: u32,
    pub window: &'static mut [Planned],
    pub first: u64,
    pub limit: u64,
    /// The last entry up to `first` whose place is that at the begin of `window`.
    pub(super) base: u64,
    /// The last entry that left the window and whose file's version was known.
    pub(super) left: Left,
    /// Boxes of the entries, by number in their batch.
    pub pairs: &'static mut [u32],
    pub pair_first: u64,
    pub pair_limit: u64,
    /// Window entries before this one were looked at by `settle`, and are not New.
    pub looked: u64,
    /// Window entries before this one were seen by `look_along`.
    pub(super) glanced: u64,
    /// Window entries from this one on never waited for a lookup.
    pub asked: u64,
    /// The device whose files are not mapped, as of the wave that is formed.
    pub(super) refused_device: Option<u64>,
    /// Lookups that had ended when `settle` looked last.
    pub ended: u64,
    pub scouted: Scouted,
    /// Number of the last window entry of a chunk, by hash: a later one takes the place of another.
    twins: &'static mut [u64],
    /// Batches before this one have memory, as of the wave that is formed.
    pub(super) placed: u64,
    /// Attempts to form a wave.
    pub attempts: u64,
    /// Scratch of `form`: positions in the window; then the next read of each file, and the limit
    /// of its reads.
    pub sorted: &'static mut [u32],
    pub limits: &'static mut [u32],
}

impl Planner {
    /// An idle planner.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings, lane: Lane) -> Planner {
        let planned = Planned {
            place: Place::Gone,
            slot: BatchSlot(0),
            array: ArraySlot(0),
            array_id: 0,
            turn: 0,
            file: 0,
            chunk: 0,
            number: 0,
            need: Need::NONE,
            is_shared: false,
            twin: 0,
            taken: 0,
            kept: None,
            version: None,
            sample_first: 0,
            sample_limit: 0,
            pair_first: 0,
            pair_count: 0,
        };
        let chunks = u64::from(settings.wave_counts().chunks[lane as usize]);
        let window = u64::from(settings.window_of(lane));
        let listed = u64::from(settings.per_sample.listed);
        let (boxes, pairs) = match lane {
            Lane::Samples => (settings.boxes_per_batch(), u64::from(settings.window_pairs)),
            Lane::Readers => ((1 + listed, listed), window + 2 * listed),
        };
        Planner {
            lane,
            current: None,
            order: carver.slice_of_boxes(Item::PlanWindow, boxes, &0),
            merge: Merge::carve(carver, boxes),
            record: ArrayRecord::EMPTY,
            origin: [0; RANK_MAX],
            shape: [0; RANK_MAX],
            target: Uri::new(),
            choice: LevelChoice::NONE,
            level_limit: u32::MAX,
            window: carver.slice(Item::PlanWindow, window, &planned),
            first: 0,
            limit: 0,
            base: 0,
            left: Left::NONE,
            pairs: carver.slice(Item::PlanWindow, pairs, &0),
            pair_first: 0,
            pair_limit: 0,
            looked: 0,
            glanced: 0,
            refused_device: None,
            asked: 0,
            ended: 0,
            scouted: Scouted::NONE,
            twins: carver.slice(Item::PlanWindow, window, &0),
            placed: 0,
            attempts: 0,
            sorted: carver.slice(Item::PlanWindow, chunks, &0),
            limits: carver.slice(Item::PlanWindow, chunks, &0),
        }
    }

    /// Drops everything that is planned.
    pub fn clear(&mut self) {
        self.current = None;
        self.end_levels();
        self.scouted = Scouted::NONE;
        self.merge.clear();
        self.begin_at(self.limit);
        self.left = Left::NONE;
        self.pair_first = self.pair_limit;
    }

    /// One bounded step of each kind; whether any did something.
    pub fn run(&mut self, lock: &Lock) -> bool {
        let mut progress = match self.lane {
            Lane::Samples => redo(lock) | self.begin(lock) | self.scout(lock),
            Lane::Readers => self.begin_box(lock),
        };
        progress |= self.resolve(lock);
        progress |= self.walk(lock);
        progress |= self.settle(lock);
        // A caller waits for its box alone: nothing that comes later makes its wave better.
        progress |= self.form(lock, progress && self.lane == Lane::Samples);
        self.assert_window();
        progress && (self.lane == Lane::Samples || self.has_more(lock))
    }

    /// Whether boxes of callers wait that are in no wave. If none do, nobody is called to plan.
    fn has_more(&self, lock: &Lock) -> bool {
        let state = &mut *lock.lock();
        state.readers.has_planned = self.current.is_some() || self.first < self.limit;
        state.readers.has_boxes()
    }

    fn assert_window(&self) {
        assert!(self.first <= self.limit && self.pair_first <= self.pair_limit);
        assert!(self.limit - self.first <= self.window.len() as u64);
        assert!(self.pair_limit - self.pair_first <= self.pairs.len() as u64);
        assert!(self.looked.max(self.asked) <= self.limit);
    }

    fn begin(&mut self, lock: &Lock) -> bool {
        let mut looks = ArrayLooks::new();
        let progress = {
            let state = &mut *lock.lock();
            let has_more = state.prefetch_arrays();
            drop_retired(lock.shared, state);
            self.begin_batch(lock.shared, state, &mut looks) || has_more
        };
        look_at_arrays(lock, &looks);
        progress
    }

    fn begin_batch(&mut self, shared: &Shared, state: &mut State, looks: &mut ArrayLooks) -> bool {
        if self.current.is_some() || state.is_halted {
            return false;
        }
        let config = &shared.settings.config;
        let Some(count) = state.queue.next_batch(config.samples_per_batch) else { return false };
        if count < config.samples_per_batch && config.drop_last == 1 {
            state.queue.consume(count);
            state.wakes.all(Condition::Space);
            // A pop that waits for a batch may be at the end now.
            state.wakes.all(Condition::Batch);
            return true;
        }
        let may_be_early = state.may_begin_early(shared);
        let Some(slot) = state.slots.for_next(may_be_early) else { return false };
        let turn = state.slots.begin(slot, count, state.queue.front_position());
        if let Some(trace) = shared.profiler.trace {
            trace.begin_batch(slot.0, state.slots.batch_id(slot));
        }
        let boxes = bind_samples(shared, state, (slot, count), self.order);
        sort_boxes(shared, &state.queue, &mut self.order[..boxes]);
        let limit = state.queue.front_number() + count as u64;
        let current = Current::new((slot, turn), (count, boxes as u32), limit);
        *looks = self.begin_looks(shared, state, &current);
        self.current = Some(current);
        true
    }

    /// The group is planned; the next one, what no box covers, or the end of the batch.
    pub(super) fn end_group(&mut self, lock: &Lock, mut current: Current, is_pinned: bool) {
        assert!(self.merge.is_empty() && current.group_first < current.group_limit);
        let state = &mut *lock.lock();
        self.end_planned(lock.shared, state, &current);
        if is_pinned && current.array != ArraySlot::NONE {
            state.unpin_array(current.array, 1);
        }
        current.group_first = current.group_limit;
        (current.phase, current.is_alias) = (Phase::Resolve, false);
        self.end_levels();
        if current.group_first < current.box_count {
            self.current = Some(current);
            return;
        }
        if lock.shared.settings.takes_parts && self.lane == Lane::Samples {
            (current.phase, current.array) = (Phase::Blank, ArraySlot::NONE);
            self.current = Some(current);
            return;
        }
        self.end_batch(lock.shared, state, &current);
    }

    pub(super) fn end_batch(&mut self, shared: &Shared, state: &mut State, current: &Current) {
        self.current = None;
        match self.lane {
            Lane::Samples => state.queue.consume(current.sample_count),
            Lane::Readers => state.readers.queue.consume(1),
        }
        if state.slots.sub_remaining(current.slot, 1) {
            state.complete_slot(shared, current.slot);
        }
        state.wakes.all(Condition::Space);
    }

    fn walk(&mut self, lock: &Lock) -> bool {
        match self.current {
            Some(current) if current.phase == Phase::Walk => self.walk_group(lock, current),
            Some(current) if current.phase == Phase::Blank => self.walk_blanks(lock, current),
            _ => false,
        }
    }

    fn walk_group(&mut self, lock: &Lock, mut current: Current) -> bool {
        let shared = lock.shared;
        let before = self.limit;
        let is_fed = current.array == ArraySlot::NONE;
        let is_shared = is_shared(shared, &self.record);
        let mut uses = 0u64;
        while self.has_room(&current) && self.limit - before < RUN_CHUNKS && !self.merge.is_empty()
        {
            let pair_first = self.pair_limit;
            let (pairs, pair_limit) = (&mut *self.pairs, &mut self.pair_limit);
            let place = if is_fed { Place::Known(Settled::Fed) } else { Place::New };
            let position = self.merge.next(&self.record, |number| {
                pairs[index(*pair_limit % pairs.len() as u64)] = number;
                *pair_limit += 1;
            });
            let Some((mut position, mut need)) = position else { break };
            if self.record.origin.numbers_elements {
                let array = shared.array_record(current.array);
                let (numbers, whole) = asked_chunk(&self.record, &self.origin, array, position.0);
                (position, need) = (numbers, Need { box_bytes: need.box_bytes, ..whole });
            }
            uses += self.pair_limit - pair_first;
            self.plan(&mut current, place, position, need, pair_first);
            if is_shared {
                self.link_twin(self.limit - 1);
            }
        }
        let chunks = self.limit - before;
        if self.merge.is_empty() {
            self.walk_outside(lock, &mut current, before);
        }
        let added = self.limit - before;
        self.current = Some(current);
        if added > 0 {
            let state = &mut *lock.lock();
            state.slots.add_remaining(current.slot, added);
            if state.resampling.has_boxes() {
                (before..self.limit).for_each(|at| {
                    self.each_resampled(shared, self.entry(at), |row| state.add_share(row));
                });
            }
            if !is_fed {
                state.arrays.pin(current.array, added as u32);
                shared.stats.chunks_planned.fetch_add(chunks, Relaxed);
                shared.stats.chunk_uses.fetch_add(uses, Relaxed);
            }
        }
        if self.merge.is_empty() && current.pad_next == current.group_limit {
            self.end_group(lock, current, true);
            return true;
        }
        added > 0
    }

    /// Adds a task for every box of the group with constant padding to fill.
    fn walk_outside(&mut self, lock: &Lock, current: &mut Current, before: u64) {
        while current.pad_next < current.group_limit {
            if !self.has_room(current) || self.limit - before >= RUN_CHUNKS {
                return;
            }
            let number = self.order[current.pad_next as usize];
            current.pad_next += 1;
            let source = lock.shared.box_record(current.slot, number);
            let is_constant = lock.shared.padding(source.field).mode == PadMode::Constant;
            // The voxels of a map lie inside of the array.
            if !is_constant || source.is_resampled {
                continue;
            }
            let is_failed = lock.lock().slots.is_given_up(current.slot, source.sample);
            let reaches_out = (0..self.record.axes()).any(|axis| {
                let (begin, end) = source.shape.axes[axis].range();
                begin < 0 || end as i128 > self.shape[axis] as i128
            });
            if is_failed || !reaches_out {
                continue;
            }
            let pair_first = self.pair_limit;
            self.pairs[index(pair_first % self.pairs.len() as u64)] = number;
            self.pair_limit += 1;
            self.plan(current, Place::Known(Settled::Pad), (0, 0), Need::NONE, pair_first);
        }
    }

    /// Whether another chunk of the group, with all its boxes, fits the window.
    pub(super) fn has_room(&self, current: &Current) -> bool {
        let group = ((current.group_limit - current.group_first) as u64).max(1);
        self.limit - self.first < self.window.len() as u64
            && self.pair_limit - self.pair_first + group <= self.pairs.len() as u64
    }

    pub(super) fn plan(
        &mut self,
        current: &mut Current,
        place: Place,
        (file, chunk): (u64, u64),
        need: Need,
        pairs: u64,
    ) {
        assert!(self.limit - self.first < self.window.len() as u64);
        let at = self.place(self.limit);
        self.window[at] = Planned {
            place,
            slot: current.slot,
            array: current.array,
            array_id: current.array_id,
            turn: current.turn,
            file,
            chunk,
            number: current.chunk_number,
            need,
            is_shared: false,
            twin: 0,
            taken: 0,
            kept: None,
            version: None,
            sample_first: current.sample_limit - u64::from(current.sample_count),
            sample_limit: current.sample_limit,
            pair_first: pairs,
            pair_count: (self.pair_limit - pairs) as u32,
        };
        current.chunk_number += 1;
        self.limit += 1;
    }

    /// Makes window entry number `at` known to the one before it with the same chunk.
    fn link_twin(&mut self, at: u64) {
        let own = self.place(at);
        let entry = &mut self.window[own];
        entry.is_shared = true;
        let key = (entry.array_id, entry.file, entry.chunk);
        let place = hash_words(&[key.0, key.1, key.2]) % self.twins.len() as u64;
        let before = core::mem::replace(&mut self.twins[index(place)], at);
        if (self.first..at).contains(&before) {
            let before = self.place(before);
            let before = &mut self.window[before];
            if (before.array_id, before.file, before.chunk) == key {
                before.twin = at;
            }
        }
    }
}

/// Whether several batches that need a chunk of the array decode it once, unless it is cached: not
/// if it is taken to a device batch by batch.
fn is_shared(shared: &Shared, record: &ArrayRecord) -> bool {
    shared.engine().is_none() && record.is_decoded()
}
