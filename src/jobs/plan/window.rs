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
use crate::base::indexes::{ArraySlot, BatchSlot};
use crate::base::math::index;
use crate::base::sort::sort;
use crate::base::status::{Failure, Why};
use crate::batch::slots::SlotState;
use crate::chunk_cache::GRANULE_BYTES;
use crate::intake::arrays::ArrayState;
use crate::jobs::failures::{fail_sample, sample_failure};
use crate::jobs::plan::bind::{bind_samples, queued_box};
use crate::jobs::plan::boxes::{check_record, source_box};
use crate::jobs::plan::planned::{Place, Planned, Scouted};
use crate::plan::{Cursor, Merge};
use crate::records::{ArrayRecord, Need};
use crate::setup::settings::Settings;
use crate::state::State;
use crate::state::lock::{Condition, Lock};
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

/// Chunks that one run adds to the window or looks at in it, so that a run stays short.
pub const RUN_CHUNKS: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
    batch_id: u64,
    pub(super) sample_count: u32,
    /// Boxes in `order`.
    box_count: u32,
    group_first: u32,
    group_limit: u32,
    /// Next box of the group to look at for outside padding.
    pad_next: u32,
    /// Next field of the next sample to look at for what no box covers, and the first block of it
    /// that is not planned.
    pub(super) blank_next: (u32, u64),
    phase: Phase,
    array: ArraySlot,
    array_id: u64,
    chunk_number: u64,
    /// Number of the sample behind the batch.
    sample_limit: u64,
}

/// See the module.
pub struct Planner {
    pub current: Option<Current>,
    /// Numbers of the boxes of the batch, grouped by uri.
    order: &'static mut [u32],
    merge: Merge,
    record: ArrayRecord,
    pub window: &'static mut [Planned],
    pub first: u64,
    pub limit: u64,
    /// Boxes of the entries, by number in their batch.
    pub pairs: &'static mut [u32],
    pub pair_first: u64,
    pub pair_limit: u64,
    /// Window entries before this one were looked at by `settle`, and are not New.
    pub looked: u64,
    /// Window entries from this one on never waited for a lookup.
    pub asked: u64,
    /// Lookups that had ended when `settle` looked last.
    pub ended: u64,
    /// Number of the window entry that decodes the chunk in each slot of the cache.
    pub owners: &'static mut [u64],
    pub scouted: Scouted,
    /// Number of the last window entry of a chunk, by hash: a later one takes the place of another.
    twins: &'static mut [u64],
    /// Attempts to form a wave.
    pub attempts: u64,
    /// Scratch of `form`: positions in the window, then ranks of reads.
    pub sorted: &'static mut [u32],
    pub ranks: &'static mut [u32],
}

impl Planner {
    /// An idle planner.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> Planner {
        let planned = Planned {
            place: Place::Gone,
            slot: BatchSlot(0),
            array: ArraySlot(0),
            array_id: 0,
            batch_id: 0,
            file: 0,
            chunk: 0,
            number: 0,
            need: Need::NONE,
            is_shared: false,
            twin: 0,
            taken: 0,
            kept: None,
            sample_limit: 0,
            pair_first: 0,
            pair_count: 0,
        };
        let chunks = settings.config.max_chunks_per_wave as u64;
        let boxes = settings.boxes_per_batch();
        Planner {
            current: None,
            order: carver.slice(Item::PlanCursors, boxes as u64, &0),
            merge: Merge::carve(carver, boxes),
            record: ArrayRecord::EMPTY,
            window: carver.slice(Item::PlanWindow, settings.window_chunks as u64, &planned),
            first: 0,
            limit: 0,
            pairs: carver.slice(Item::PlanWindow, settings.window_pairs as u64, &0),
            pair_first: 0,
            pair_limit: 0,
            looked: 0,
            asked: 0,
            ended: 0,
            owners: carver.slice(
                Item::ChunkCacheTables,
                settings.cache_memory_bytes / GRANULE_BYTES,
                &0,
            ),
            scouted: Scouted::NONE,
            twins: carver.slice(Item::PlanWindow, settings.window_chunks as u64, &0),
            attempts: 0,
            sorted: carver.slice(Item::PlanWindow, chunks, &0),
            ranks: carver.slice(Item::PlanWindow, chunks, &0),
        }
    }

    /// Drops everything that is planned.
    pub fn clear(&mut self) {
        self.current = None;
        self.scouted = Scouted::NONE;
        self.merge.clear();
        self.first = self.limit;
        self.pair_first = self.pair_limit;
    }

    /// One bounded step of each kind; whether any did something.
    pub fn run(&mut self, lock: &Lock) -> bool {
        let mut progress = self.begin(lock);
        progress |= self.scout(lock);
        progress |= self.resolve(lock);
        progress |= self.walk(lock);
        progress |= self.settle(lock);
        progress | self.form(lock, progress)
    }

    fn begin(&mut self, lock: &Lock) -> bool {
        let state = &mut *lock.lock();
        let has_more = state.prefetch_arrays();
        self.begin_batch(lock.shared, state) || has_more
    }

    fn begin_batch(&mut self, shared: &Shared, state: &mut State) -> bool {
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
        let Some(slot) = state.slots.find(SlotState::Free) else { return false };
        let batch_id = state.slots.begin(slot, count);
        let boxes = bind_samples(shared, state, (slot, count), self.order);
        let queue = &state.queue;
        let uri_of = |number: u32| queue.uri(queued_box(shared, queue, number));
        sort(&mut self.order[..boxes], |a, b| {
            let ((a_uri, a_hash), (b_uri, b_hash)) = (uri_of(*a), uri_of(*b));
            (a_hash, a_uri, *a) < (b_hash, b_uri, *b)
        });
        self.current = Some(Current {
            slot,
            batch_id,
            sample_count: count,
            box_count: boxes as u32,
            group_first: 0,
            group_limit: 0,
            pad_next: 0,
            blank_next: (0, 0),
            phase: if boxes > 0 { Phase::Resolve } else { Phase::Blank },
            array: if boxes > 0 { ArraySlot(0) } else { ArraySlot::NONE },
            array_id: 0,
            chunk_number: 0,
            sample_limit: queue.front_number() + count as u64,
        });
        true
    }

    /// Finds the array of the next group, or asks for it.
    fn resolve(&mut self, lock: &Lock) -> bool {
        let Some(mut current) = self.current else { return false };
        if current.phase != Phase::Resolve {
            return false;
        }
        let mut guard = lock.lock();
        let state = &mut *guard;
        let queue = &state.queue;
        let uri_of = |at: u32| queue.uri(queued_box(lock.shared, queue, self.order[at as usize]));
        let first = current.group_first;
        let mut limit = first + 1;
        let number = self.order[first as usize];
        let is_fed = queued_box(lock.shared, queue, number).is_fed;
        while !is_fed && limit < current.box_count && uri_of(limit).0 == uri_of(first).0 {
            limit += 1;
        }
        current.group_limit = limit;
        if is_fed {
            let boxes = lock.shared.settings.per_sample.boxes;
            self.record = lock.shared.fed_record(queue.fed(number / boxes, number % boxes));
            (current.array, current.array_id) = (ArraySlot::NONE, 0);
            drop(guard);
            self.begin_group(lock, current);
            return true;
        }
        let (uri, hash) = uri_of(first);
        let Some(array) = state.arrays.find(uri, hash) else {
            let loaded = state.arrays.load(uri, hash, None);
            if let Some(array) = loaded {
                // Loading ahead must not take its place before it was used.
                state.arrays.want(array, queue.front_number());
            }
            return loaded.is_some();
        };
        match state.arrays.state(array) {
            ArrayState::Ready => {
                // The first use of a load is the lookup that missed.
                let is_hit = state.arrays.is_used_again(array) as u64;
                lock.shared.stats.array_meta_hits.fetch_add(is_hit, Relaxed);
                state.arrays.pin(array, 1);
                current.array = array;
                current.array_id = state.arrays.id(array);
                self.record = state.arrays.records.read(array.at());
                drop(guard);
                self.begin_group(lock, current);
                true
            }
            ArrayState::Failed(status) => {
                let failure = Failure::because(status, state.arrays.why(array));
                state.arrays.forget_failed(array);
                drop(guard);
                for at in first..limit {
                    let record = lock.shared.box_record(current.slot, self.order[at as usize]);
                    fail_sample(lock, record.to(current.slot), 0, &failure);
                }
                self.end_group(lock, current, false);
                true
            }
            ArrayState::Empty
            | ArrayState::Queued
            | ArrayState::QueuedLarge
            | ArrayState::Loading => false,
        }
    }

    /// Starts a walk for every box of the group that fits the array and its field.
    fn begin_group(&mut self, lock: &Lock, mut current: Current) {
        (current.phase, current.pad_next) = (Phase::Walk, current.group_first);
        self.current = Some(current);
        let (shared, mut why) = (lock.shared, Why::new());
        for at in current.group_first..current.group_limit {
            let number = self.order[at as usize];
            let queued = *queued_box(shared, &lock.lock().queue, number);
            let field = shared.field(u32::from(queued.field));
            let reach = check_record(shared, &self.record, field, &mut why)
                .and_then(|()| source_box(shared, &self.record, &queued, &mut why));
            match reach {
                Ok(reach) => {
                    if !reach.is_empty(self.record.axes()) {
                        self.merge.add(number, Cursor::start(&self.record, &reach));
                    }
                }
                Err(status) => {
                    let failure = sample_failure(shared, current.array, status, &why);
                    let to = shared.box_record(current.slot, number).to(current.slot);
                    fail_sample(lock, to, 0, &failure);
                }
            }
        }
    }

    /// The group is planned; the next one, what no box covers, or the end of the batch.
    fn end_group(&mut self, lock: &Lock, mut current: Current, is_pinned: bool) {
        let state = &mut *lock.lock();
        if is_pinned && current.array != ArraySlot::NONE {
            state.arrays.unpin(current.array, 1);
        }
        current.group_first = current.group_limit;
        current.phase = Phase::Resolve;
        if current.group_first < current.box_count {
            self.current = Some(current);
            return;
        }
        if lock.shared.settings.takes_parts {
            (current.phase, current.array) = (Phase::Blank, ArraySlot::NONE);
            self.current = Some(current);
            return;
        }
        self.end_batch(lock.shared, state, &current);
    }

    pub(super) fn end_batch(&mut self, shared: &Shared, state: &mut State, current: &Current) {
        self.current = None;
        state.queue.consume(current.sample_count);
        state.chunks.pass(current.sample_limit);
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
            let place = match is_fed {
                true => Place::Fed(self.merge.next_bytes(&self.record)),
                false => Place::New,
            };
            let position = self.merge.next(&self.record, |number| {
                pairs[index(*pair_limit % pairs.len() as u64)] = number;
                *pair_limit += 1;
            });
            let Some((position, need)) = position else { break };
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
            if lock.shared.padding(source.field).mode != PadMode::Constant {
                continue;
            }
            let is_failed = {
                let slots = &lock.lock().slots;
                slots.statuses.read(slots.row(current.slot, source.sample)) != 0
            };
            let reaches_out = (0..self.record.axes()).any(|axis| {
                let (begin, end) = source.shape.axes[axis].range();
                begin < 0 || end as i128 > self.record.shape[axis] as i128
            });
            if is_failed || !reaches_out {
                continue;
            }
            let pair_first = self.pair_limit;
            self.pairs[index(pair_first % self.pairs.len() as u64)] = number;
            self.pair_limit += 1;
            self.plan(current, Place::Pad, (0, 0), Need::NONE, pair_first);
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
        let at = index(self.limit % self.window.len() as u64);
        self.window[at] = Planned {
            place,
            slot: current.slot,
            array: current.array,
            array_id: current.array_id,
            batch_id: current.batch_id,
            file,
            chunk,
            number: current.chunk_number,
            need,
            is_shared: false,
            twin: 0,
            taken: 0,
            kept: None,
            sample_limit: current.sample_limit,
            pair_first: pairs,
            pair_count: (self.pair_limit - pairs) as u32,
        };
        current.chunk_number += 1;
        self.limit += 1;
    }

    /// Makes window entry number `at` known to the one before it with the same chunk.
    fn link_twin(&mut self, at: u64) {
        let window = self.window.len() as u64;
        let entry = &mut self.window[index(at % window)];
        entry.is_shared = true;
        let key = (entry.array_id, entry.file, entry.chunk);
        let place = hash_words(&[key.0, key.1, key.2]) % self.twins.len() as u64;
        let before = core::mem::replace(&mut self.twins[index(place)], at);
        if (self.first..at).contains(&before) {
            let before = &mut self.window[index(before % window)];
            if (before.array_id, before.file, before.chunk) == key {
                before.twin = at;
            }
        }
    }
}

/// Whether several batches that need a chunk of the array decode it once: where decoding costs, and
/// where the chunk is not kept or taken to a device batch by batch.
fn is_shared(shared: &Shared, record: &ArrayRecord) -> bool {
    let is_kept = shared.settings.cache_memory_bytes > 0;
    shared.engine().is_none() && !is_kept && !record.is_read_partly()
}
