//! The planner: from samples to waves.
//!
//! One thread at a time runs it (`State::planning`). In: the sample queue. Out: active waves. Each
//! run makes a bounded step of each kind:
//!
//! begin    a batch slot is bound to the next samples
//! resolve  the next group of samples with one array waits for its metadata
//! walk     the chunks of the group go to the window, each once with its samples
//! settle   chunks in the window learn where their bytes lie
//! form     settled chunks become a wave
//!
//! Invariant: window entries are settled in any order and leave in order; every entry holds a pin
//! of its array and a place in the `remaining` of its batch.

use crate::arrays::ArrayState;
use crate::assemble::axis::{AxisFault, PadMode, source_range};
use crate::assemble::cast::Cast;
use crate::base::arena::Carver;
use crate::base::math::{align_up, index};
use crate::base::text::List;
use crate::batch::{SampleGeometry, SlotState};
use crate::config::MISSING_ERROR;
use crate::fail;
use crate::limits::{INDEX_PAGE_ENTRIES, RANK_MAX, compressed_bytes_max};
use crate::os::FileStat;
use crate::pipeline::state::State;
use crate::pipeline::{Instance, chunk_failure, sample_failure};
use crate::plan::{Cursor, Merge, files_touched};
use crate::read::{Outcome, Piece, Question, merge_pieces};
use crate::records::ArrayRecord;
use crate::settings::Settings;
use crate::shard_index::{Entry, EntryBytes, IndexPlace, parse_entry};
use crate::status::{Failure, Status, Why};
use crate::wave::{ChunkKind, ChunkTask, ReadOp};
use core::sync::atomic::Ordering::Relaxed;

/// Chunks that one run adds to the window or looks at in it, so that a run stays short.
const RUN_CHUNKS: u64 = 256;
/// Alignment of a read in the slab.
const OP_ALIGN: u64 = 64;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Not looked up yet.
    New,
    /// Waits for an index lookup.
    Waiting(u32),
    /// Lies there.
    Data { offset: u64, bytes: u64, stat: FileStat },
    /// Does not exist.
    Missing,
    /// Is the outside of a sample.
    Pad,
    /// Failed and was reported.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    place: Place,
    slot: u32,
    array: u32,
    array_id: u64,
    batch_id: u64,
    file: u64,
    chunk: u64,
    number: u64,
    pair_first: u64,
    pair_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The group's array is not known yet.
    Resolve,
    /// The group's chunks are being walked.
    Walk,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    slot: u32,
    batch_id: u64,
    sample_count: u32,
    group_first: u32,
    group_limit: u32,
    /// Next sample of the group to look at for outside padding.
    pad_next: u32,
    phase: Phase,
    array: u32,
    array_id: u64,
    chunk_number: u64,
}

/// See the module.
pub struct Planner {
    current: Option<Current>,
    /// Samples of the batch, grouped by uri.
    order: &'static mut [u32],
    merge: Merge,
    record: ArrayRecord,
    window: &'static mut [Planned],
    first: u64,
    limit: u64,
    pairs: &'static mut [u32],
    pair_first: u64,
    pair_limit: u64,
    /// Scratch of `form`: positions in the window, then ranks of reads.
    sorted: &'static mut [u32],
    ranks: &'static mut [u32],
}

impl Planner {
    /// An idle planner.
    pub fn carve(carver: &mut Carver, settings: &Settings) -> Planner {
        let planned = Planned {
            place: Place::Gone,
            slot: 0,
            array: 0,
            array_id: 0,
            batch_id: 0,
            file: 0,
            chunk: 0,
            number: 0,
            pair_first: 0,
            pair_count: 0,
        };
        let chunks = settings.config.max_chunks_per_wave as u64;
        let samples = settings.config.samples_per_batch;
        Planner {
            current: None,
            order: carver.slice("plan cursors", samples as u64, &0),
            merge: Merge::carve(carver, samples),
            record: ArrayRecord::EMPTY,
            window: carver.slice("plan window", settings.window_chunks as u64, &planned),
            first: 0,
            limit: 0,
            pairs: carver.slice("plan window", settings.window_pairs as u64, &0),
            pair_first: 0,
            pair_limit: 0,
            sorted: carver.slice("plan window", chunks, &0),
            ranks: carver.slice("plan window", chunks, &0),
        }
    }

    /// Drops everything that is planned.
    pub fn clear(&mut self) {
        self.current = None;
        self.merge.clear();
        self.first = self.limit;
        self.pair_first = self.pair_limit;
    }

    /// One bounded step of each kind; whether any did something.
    pub fn run(&mut self, instance: &Instance) -> bool {
        let mut progress = self.begin(instance);
        progress |= self.resolve(instance);
        progress |= self.walk(instance);
        progress |= self.settle(instance);
        progress | self.form(instance, progress)
    }

    fn begin(&mut self, instance: &Instance) -> bool {
        let state = &mut *instance.lock.lock();
        state.prefetch_arrays();
        if self.current.is_some() || state.is_halted {
            return false;
        }
        let config = &instance.settings.config;
        let Some(count) = state.queue.next_batch(config.samples_per_batch) else { return false };
        if count < config.samples_per_batch && config.drop_last == 1 {
            state.queue.consume(count);
            instance.space_ready.broadcast();
            return true;
        }
        let Some(slot) = state.slots.find(SlotState::Free) else { return false };
        let batch_id = state.slots.begin(slot, count);
        for sample in 0..count {
            let queued = *state.queue.sample(sample);
            let row = state.slots.row(slot, sample);
            state.slots.tags.write(row, queued.tag);
            let geometry = SampleGeometry { begin: queued.begin, end: queued.end };
            state.slots.geometry.write(row, geometry);
            self.order[sample as usize] = sample;
        }
        let queue = &state.queue;
        self.order[..count as usize].sort_unstable_by(|a, b| {
            let (a_uri, a_hash) = queue.uri(queue.sample(*a));
            let (b_uri, b_hash) = queue.uri(queue.sample(*b));
            (a_hash, a_uri, *a).cmp(&(b_hash, b_uri, *b))
        });
        self.current = Some(Current {
            slot,
            batch_id,
            sample_count: count,
            group_first: 0,
            group_limit: 0,
            pad_next: 0,
            phase: Phase::Resolve,
            array: 0,
            array_id: 0,
            chunk_number: 0,
        });
        true
    }

    /// Finds the array of the next group, or asks for it.
    fn resolve(&mut self, instance: &Instance) -> bool {
        let Some(mut current) = self.current else { return false };
        if current.phase != Phase::Resolve {
            return false;
        }
        let mut guard = instance.lock.lock();
        let state = &mut *guard;
        let queue = &state.queue;
        let uri_of = |at: u32| queue.uri(queue.sample(self.order[at as usize])).0;
        let first = current.group_first;
        let mut limit = first + 1;
        while limit < current.sample_count && uri_of(limit) == uri_of(first) {
            limit += 1;
        }
        current.group_limit = limit;
        let (uri, hash) = queue.uri(queue.sample(self.order[first as usize]));
        let Some(array) = state.arrays.find(uri, hash) else {
            instance.stats.array_meta_misses.fetch_add(1, Relaxed);
            return state.arrays.load(uri, hash, None).is_some();
        };
        match state.arrays.state(array) {
            ArrayState::Ready => {
                instance.stats.array_meta_hits.fetch_add(1, Relaxed);
                state.arrays.pin(array, 1);
                current.array = array;
                current.array_id = state.arrays.id(array);
                self.record = state.arrays.records.read(array as usize);
                current.phase = Phase::Walk;
                current.pad_next = first;
                self.current = Some(current);
                drop(guard);
                self.start_group(instance, &current);
                true
            }
            ArrayState::Failed(status) => {
                let failure = Failure::because(status, state.arrays.why(array));
                state.arrays.forget_failed(array);
                drop(guard);
                for at in first..limit {
                    instance.fail_sample(current.slot, self.order[at as usize], 0, &failure);
                }
                self.end_group(instance, current, false);
                true
            }
            ArrayState::Empty
            | ArrayState::Queued
            | ArrayState::QueuedLarge
            | ArrayState::Loading => false,
        }
    }

    /// Starts a walk for every sample of the group that fits the array.
    fn start_group(&mut self, instance: &Instance, current: &Current) {
        let mut why = Why::new();
        for at in current.group_first..current.group_limit {
            let sample = self.order[at as usize];
            let queued = *instance.lock.lock().queue.sample(sample);
            let range = check_record(instance, &self.record, &mut why)
                .and_then(|()| source_box(instance, &self.record, &queued, &mut why));
            match range {
                Ok((lo, hi)) => {
                    if (0..self.record.axes()).all(|axis| lo[axis] < hi[axis]) {
                        self.merge.add(sample, Cursor::start(&self.record, &lo, &hi));
                    }
                }
                Err(status) => {
                    let failure = sample_failure(instance, current.array, status, &why);
                    instance.fail_sample(current.slot, sample, 0, &failure);
                }
            }
        }
    }

    /// The group is planned; the next one, or the end of the batch.
    fn end_group(&mut self, instance: &Instance, mut current: Current, is_pinned: bool) {
        let state = &mut *instance.lock.lock();
        if is_pinned {
            state.arrays.unpin(current.array, 1);
        }
        current.group_first = current.group_limit;
        current.phase = Phase::Resolve;
        if current.group_first < current.sample_count {
            self.current = Some(current);
            return;
        }
        self.current = None;
        state.queue.consume(current.sample_count);
        if state.slots.sub_remaining(current.slot, 1) {
            state.complete_slot(instance, current.slot);
        }
        instance.space_ready.broadcast();
    }

    fn walk(&mut self, instance: &Instance) -> bool {
        let Some(mut current) = self.current else { return false };
        if current.phase != Phase::Walk {
            return false;
        }
        let before = self.limit;
        let mut uses = 0u64;
        while self.has_room(&current) && self.limit - before < RUN_CHUNKS && !self.merge.is_empty()
        {
            let pair_first = self.pair_limit;
            let (pairs, pair_limit) = (&mut *self.pairs, &mut self.pair_limit);
            let position = self.merge.next(&self.record, |sample| {
                pairs[index(*pair_limit % pairs.len() as u64)] = sample;
                *pair_limit += 1;
            });
            let Some((file, chunk)) = position else { break };
            uses += self.pair_limit - pair_first;
            self.plan(&mut current, Place::New, file, chunk, pair_first);
        }
        let chunks = self.limit - before;
        if self.merge.is_empty() {
            self.walk_outside(instance, &mut current, before);
        }
        let added = self.limit - before;
        self.current = Some(current);
        if added > 0 {
            let state = &mut *instance.lock.lock();
            state.slots.add_remaining(current.slot, added);
            state.arrays.pin(current.array, added as u32);
            instance.stats.chunks_planned.fetch_add(chunks, Relaxed);
            instance.stats.chunk_uses.fetch_add(uses, Relaxed);
        }
        if self.merge.is_empty() && current.pad_next == current.group_limit {
            self.end_group(instance, current, true);
            return true;
        }
        added > 0
    }

    /// Adds a task for every sample of the group with constant padding to fill.
    fn walk_outside(&mut self, instance: &Instance, current: &mut Current, before: u64) {
        while current.pad_next < current.group_limit {
            if !self.has_room(current) || self.limit - before >= RUN_CHUNKS {
                return;
            }
            let sample = self.order[current.pad_next as usize];
            current.pad_next += 1;
            if instance.pad_mode != PadMode::Constant {
                continue;
            }
            let (is_failed, geometry) = {
                let slots = &instance.lock.lock().slots;
                let row = slots.row(current.slot, sample);
                (slots.statuses.read(row) != 0, slots.geometry.read(row))
            };
            let reaches_out = (0..self.record.axes()).any(|axis| {
                geometry.begin[axis] < 0
                    || geometry.end[axis] as i128 > self.record.shape[axis] as i128
            });
            if is_failed || !reaches_out {
                continue;
            }
            let pair_first = self.pair_limit;
            self.pairs[index(pair_first % self.pairs.len() as u64)] = sample;
            self.pair_limit += 1;
            self.plan(current, Place::Pad, 0, 0, pair_first);
        }
    }

    /// Whether another chunk of the group, with all its samples, fits the window.
    fn has_room(&self, current: &Current) -> bool {
        let group = (current.group_limit - current.group_first) as u64;
        self.limit - self.first < self.window.len() as u64
            && self.pair_limit - self.pair_first + group <= self.pairs.len() as u64
    }

    fn plan(&mut self, current: &mut Current, place: Place, file: u64, chunk: u64, pairs: u64) {
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
            pair_first: pairs,
            pair_count: (self.pair_limit - pairs) as u32,
        };
        current.chunk_number += 1;
        self.limit += 1;
    }

    /// Looks up where the chunks of the window lie.
    fn settle(&mut self, instance: &Instance) -> bool {
        let mut progress = false;
        let mut at = self.first;
        let mut record: Option<(u32, ArrayRecord)> = None;
        let mut asked_all = true;
        while at < self.limit && asked_all {
            let mut guard = instance.lock.lock();
            let mut failed = None;
            for _ in 0..RUN_CHUNKS {
                if at == self.limit || failed.is_some() {
                    break;
                }
                let place = index(at % self.window.len() as u64);
                let mut entry = self.window[place];
                at += 1;
                if !matches!(entry.place, Place::New | Place::Waiting(_)) {
                    continue;
                }
                if record.as_ref().is_none_or(|(array, _)| *array != entry.array) {
                    let read = guard.arrays.records.read(entry.array as usize);
                    record = Some((entry.array, read));
                }
                let Some((_, found)) = record.as_ref() else { break };
                let mut why = Why::new();
                match look_up(instance, &mut guard, &mut entry, found, &mut why) {
                    Ok(LookUp::Settled) => progress = true,
                    Ok(LookUp::Asked) => progress |= matches!(self.window[place].place, Place::New),
                    Ok(LookUp::Full) => {
                        asked_all = false;
                        break;
                    }
                    Err(status) => {
                        failed = Some((place, entry, status, why));
                        entry.place = Place::Gone;
                        progress = true;
                    }
                }
                self.window[place] = entry;
            }
            if guard.requests.has_queued() {
                instance.wake(&guard);
            }
            drop(guard);
            if let Some((_, entry, status, why)) = failed {
                self.fail_planned(instance, &entry, status, &why);
            }
        }
        progress
    }

    /// Reports a chunk that cannot be read and takes it out of its batch.
    fn fail_planned(&self, instance: &Instance, entry: &Planned, status: Status, why: &Why) {
        let record = instance.records.read(entry.array as usize);
        let failure =
            chunk_failure(instance, entry.array, &record, (entry.file, entry.chunk), status, why);
        for pair in 0..entry.pair_count as u64 {
            let at = index((entry.pair_first + pair) % self.pairs.len() as u64);
            instance.fail_sample(entry.slot, self.pairs[at], entry.number, &failure);
        }
        let state = &mut *instance.lock.lock();
        state.arrays.unpin(entry.array, 1);
        if state.slots.sub_remaining(entry.slot, 1) {
            state.complete_slot(instance, entry.slot);
        }
    }

    /// Makes a wave of the settled chunks at the front of the window, if it is worth one.
    fn form(&mut self, instance: &Instance, more_is_coming: bool) -> bool {
        self.drop_gone();
        let (wave, active) = {
            let waves = &instance.lock.lock().waves;
            let Some(wave) = waves.free() else { return false };
            (wave, waves.active_count)
        };
        let share =
            instance.tables.slab.bytes() / instance.settings.config.host_buffer_waves as u64;
        let (count, tasks, is_full) = self.settled_prefix(instance, share);
        let is_waiting =
            more_is_coming || self.current.is_some() || count < self.limit - self.first;
        // Small waves only while little is staged: else wait for chunks that are being looked up.
        if tasks == 0 || (!is_full && is_waiting && active >= 2) || (more_is_coming && !is_full) {
            return false;
        }
        self.sort_prefix(count);
        self.fill_wave(instance, wave, count, tasks)
    }

    fn entry(&self, at: u64) -> &Planned {
        &self.window[index(at % self.window.len() as u64)]
    }

    fn drop_gone(&mut self) {
        while self.first < self.limit && matches!(self.entry(self.first).place, Place::Gone) {
            self.first += 1;
        }
        self.free_pairs();
    }

    fn free_pairs(&mut self) {
        self.pair_first = if self.first < self.limit {
            self.entry(self.first).pair_first
        } else {
            self.pair_limit
        };
    }

    /// Settled entries at the front that fit one wave: how many, how many of them are tasks, and
    /// whether the wave is full.
    fn settled_prefix(&self, instance: &Instance, share: u64) -> (u64, u32, bool) {
        let chunks_max = instance.settings.config.max_chunks_per_wave;
        let pairs_max = instance.settings.pairs_per_wave;
        let (mut count, mut tasks, mut pairs, mut bytes) = (0, 0, 0, 0);
        while self.first + count < self.limit {
            let entry = self.entry(self.first + count);
            let more = match entry.place {
                Place::New | Place::Waiting(_) => return (count, tasks, false),
                Place::Gone => {
                    count += 1;
                    continue;
                }
                Place::Data { bytes, .. } => align_up(bytes, OP_ALIGN),
                Place::Missing | Place::Pad => 0,
            };
            let fits = tasks < chunks_max
                && pairs + entry.pair_count <= pairs_max
                && (bytes == 0 || bytes + more <= share);
            if !fits {
                return (count, tasks, true);
            }
            count += 1;
            tasks += 1;
            pairs += entry.pair_count;
            bytes += more;
        }
        (count, tasks, tasks == chunks_max)
    }

    /// Sorts the tasks of the prefix: those that are read first, by file and offset; then the
    /// others, by batch and array.
    fn sort_prefix(&mut self, count: u64) {
        let mut tasks = 0;
        for offset in 0..count {
            if !matches!(self.entry(self.first + offset).place, Place::Gone) {
                self.sorted[tasks] = offset as u32;
                tasks += 1;
            }
        }
        let (window, first) = (&*self.window, self.first);
        self.sorted[..tasks].sort_unstable_by_key(|offset| {
            let entry = &window[index((first + *offset as u64) % window.len() as u64)];
            match entry.place {
                Place::Data { offset, bytes, .. } => {
                    (0, entry.array_id, entry.file, offset, bytes, entry.batch_id, entry.number)
                }
                _ => (1, entry.batch_id, entry.array_id, 0, 0, 0, entry.number),
            }
        });
    }

    fn fill_wave(&mut self, instance: &Instance, wave: u32, count: u64, tasks: u32) -> bool {
        let data = (0..tasks).take_while(|task| self.is_data(*task)).count();
        let mut slab_bytes = 0;
        self.each_read(instance, data, |_, _, bytes| slab_bytes += align_up(bytes, OP_ALIGN));
        let Some((interval, slab_start)) = instance.lock.lock().waves.ring.take(slab_bytes) else {
            return false;
        };
        let ops = self.write_tables(instance, wave, (data, tasks as usize), slab_start);
        self.write_order(instance, wave, ops);
        self.first += count;
        self.drop_gone();
        let now = (instance.os.now_ns)();
        let state = &mut *instance.lock.lock();
        state.waves.activate(wave, tasks, ops, interval, now);
        instance.stats.chunks_to_load.fetch_add(data as u64, Relaxed);
        true
    }

    fn is_data(&self, task: u32) -> bool {
        matches!(self.task(task as usize).place, Place::Data { .. })
    }

    fn task(&self, task: usize) -> &Planned {
        self.entry(self.first + self.sorted[task] as u64)
    }

    fn each_read(&self, instance: &Instance, data: usize, emit: impl FnMut(usize, usize, u64)) {
        let piece = |task: usize| {
            let entry = self.task(task);
            let Place::Data { offset, bytes, .. } = entry.place else {
                return Piece { array_id: 0, file: 0, offset: 0, bytes: 0 };
            };
            Piece { array_id: entry.array_id, file: entry.file, offset, bytes }
        };
        merge_pieces(data, piece, instance.settings.config.max_read_op_bytes, emit);
    }

    /// Writes chunks, pairs and reads of the wave; the number of reads.
    fn write_tables(
        &mut self,
        instance: &Instance,
        wave: u32,
        (data, tasks): (usize, usize),
        slab_start: u64,
    ) -> u32 {
        let tables = &instance.tables;
        let (base, mut ops, mut slab, mut pairs) = (instance.wave_row(wave, 0), 0, slab_start, 0);
        self.each_read(instance, data, |first, limit, bytes| {
            let entry = self.task(first);
            let Place::Data { offset, stat, .. } = entry.place else { return };
            tables.ops.write(
                base + ops as usize,
                ReadOp {
                    array: entry.array,
                    array_id: entry.array_id,
                    file: entry.file,
                    stat,
                    offset,
                    bytes,
                    slab_offset: slab,
                    chunk_first: first as u32,
                    chunk_count: (limit - first) as u32,
                },
            );
            for task in first..limit {
                self.write_task(instance, wave, task, slab, offset, &mut pairs);
            }
            slab += align_up(bytes, OP_ALIGN);
            ops += 1;
        });
        if data < tasks {
            let idle = FileStat { bytes: 0, modified_ns: 0, is_regular: true };
            tables.ops.write(
                base + ops as usize,
                ReadOp {
                    array: 0,
                    array_id: 0,
                    file: 0,
                    stat: idle,
                    offset: 0,
                    bytes: 0,
                    slab_offset: 0,
                    chunk_first: data as u32,
                    chunk_count: (tasks - data) as u32,
                },
            );
            ops += 1;
            for task in data..tasks {
                self.write_task(instance, wave, task, 0, 0, &mut pairs);
            }
        }
        ops
    }

    /// `slab` is where byte `start` of the file is staged.
    fn write_task(
        &self,
        instance: &Instance,
        wave: u32,
        task: usize,
        slab: u64,
        start: u64,
        pairs: &mut u32,
    ) {
        let entry = self.task(task);
        let (kind, offset, bytes) = match entry.place {
            Place::Data { offset, bytes, .. } => (ChunkKind::Data, offset, bytes),
            Place::Pad => (ChunkKind::Pad, start, 0),
            _ => (ChunkKind::Missing, start, 0),
        };
        let tables = &instance.tables;
        for pair in 0..entry.pair_count {
            let at = index((entry.pair_first + pair as u64) % self.pairs.len() as u64);
            tables.pairs.write(tables.pair_row(wave, *pairs + pair), self.pairs[at]);
        }
        tables.chunks.write(
            instance.wave_row(wave, task as u32),
            ChunkTask {
                kind,
                slot: entry.slot,
                array: entry.array,
                file: entry.file,
                chunk: entry.chunk,
                number: entry.number,
                pair_first: *pairs,
                pair_count: entry.pair_count,
                offset,
                bytes,
                slab_offset: slab + (offset - start),
            },
        );
        *pairs += entry.pair_count;
    }

    /// Orders the reads so that they alternate across files, ascending within each.
    fn write_order(&mut self, instance: &Instance, wave: u32, ops: u32) {
        let tables = &instance.tables;
        let base = instance.wave_row(wave, 0);
        let mut before: Option<ReadOp> = None;
        let mut rank = 0;
        for op in 0..ops {
            let read = tables.ops.read(base + op as usize);
            let same = before
                .is_some_and(|before| (before.array_id, before.file) == (read.array_id, read.file));
            rank = if same { rank + 1 } else { 0 };
            // Chunks without bytes are ready at once: hand them out first.
            self.ranks[op as usize] = if read.bytes == 0 { 0 } else { rank + 1 };
            self.sorted[op as usize] = op;
            before = Some(read);
        }
        let ranks = &*self.ranks;
        self.sorted[..ops as usize].sort_unstable_by_key(|op| (ranks[*op as usize], *op));
        for position in 0..ops as usize {
            tables.order.write(base + position, self.sorted[position]);
        }
    }
}

enum LookUp {
    /// The entry's place is known.
    Settled,
    /// The entry waits for a lookup.
    Asked,
    /// No lookup can be begun now.
    Full,
}

/// Finds where a planned chunk lies, from what is cached or from a lookup that ended.
fn look_up(
    instance: &Instance,
    state: &mut State,
    entry: &mut Planned,
    record: &ArrayRecord,
    why: &mut Why,
) -> Result<LookUp, Status> {
    let page = entry.chunk / INDEX_PAGE_ENTRIES as u64;
    let within = (entry.chunk % INDEX_PAGE_ENTRIES as u64) as usize;
    if let Place::Waiting(request) = entry.place {
        let outcome = state.requests.outcome(request);
        let raw = state.requests.entry(request, within);
        match outcome {
            Outcome::Pending => return Ok(LookUp::Asked),
            Outcome::Failed(_) => *why = *state.requests.why(request),
            Outcome::Absent | Outcome::Found(_) => {}
        }
        state.requests.done(request);
        return match outcome {
            Outcome::Failed(status) => Err(status),
            Outcome::Found(stat) => place_entry(instance, entry, record, raw, stat, why),
            Outcome::Absent | Outcome::Pending => set_missing(instance, entry, why),
        };
    }
    let stats = &instance.stats;
    if let Some(slot) = state.files.find(entry.array_id, entry.file) {
        if state.files.is_absent(slot, entry.batch_id) {
            stats.chunk_layout_hits.fetch_add(1, Relaxed);
            return set_missing(instance, entry, why);
        }
        if let Some((stat, epoch)) = state.files.known(slot) {
            stats.chunk_layout_hits.fetch_add(1, Relaxed);
            if record.shard_levels == 0 {
                state.files.touch(slot);
                return place_entry(instance, entry, record, [0; 16], stat, why);
            }
            if let Some(cached) = state.pages.find(epoch, page) {
                stats.shard_index_hits.fetch_add(1, Relaxed);
                state.files.touch(slot);
                let raw = state.pages.entry(cached, within);
                return place_entry(instance, entry, record, raw, stat, why);
            }
        }
    }
    let question = Question {
        array: entry.array,
        array_id: entry.array_id,
        file: entry.file,
        page: if record.shard_levels == 0 { 0 } else { page },
        batch_id: entry.batch_id,
    };
    let Some(request) = state.requests.ask(question) else { return Ok(LookUp::Full) };
    entry.place = Place::Waiting(request);
    Ok(LookUp::Asked)
}

fn set_missing(instance: &Instance, entry: &mut Planned, why: &mut Why) -> Result<LookUp, Status> {
    if instance.settings.config.missing_chunks == MISSING_ERROR {
        return Err(fail!(why, NotFound, "the chunk does not exist (missing_chunks = error)"));
    }
    instance.stats.chunks_missing.fetch_add(1, Relaxed);
    entry.place = Place::Missing;
    Ok(LookUp::Settled)
}

/// `raw` is the chunk's index entry where files are shards.
fn place_entry(
    instance: &Instance,
    entry: &mut Planned,
    record: &ArrayRecord,
    raw: [u8; 16],
    stat: FileStat,
    why: &mut Why,
) -> Result<LookUp, Status> {
    if record.shard_levels == 0 {
        let bytes = whole_file_bytes(record, stat.bytes, why)?;
        entry.place = Place::Data { offset: 0, bytes, stat };
        return Ok(LookUp::Settled);
    }
    let place = IndexPlace::find(record, 0, stat.bytes, why)?;
    let rule = EntryBytes::find(record, 0);
    match parse_entry(&raw, &record.index[0], &place, stat.bytes, rule, why)? {
        Entry::Missing => return set_missing(instance, entry, why),
        Entry::Range { offset, bytes } => entry.place = Place::Data { offset, bytes, stat },
    }
    Ok(LookUp::Settled)
}

/// A file that is one chunk: its size must be one that the chunk can have.
fn whole_file_bytes(record: &ArrayRecord, bytes: u64, why: &mut Why) -> Result<u64, Status> {
    if let Some(exact) = record.encoded_bytes(record.codecs.len())
        && bytes != exact
    {
        return Err(fail!(why, Decode, "the file has {bytes} bytes, the chunk needs {exact}"));
    }
    let most = compressed_bytes_max(record.chunk_bytes);
    if bytes == 0 || bytes > most {
        return Err(fail!(
            why,
            Decode,
            "the file has {bytes} bytes; a chunk of {} bytes takes 1 to {most}",
            record.chunk_bytes
        ));
    }
    Ok(bytes)
}

/// What holds for an array in this instance, whatever the box.
fn check_record(instance: &Instance, record: &ArrayRecord, why: &mut Why) -> Result<(), Status> {
    let settings = &instance.settings;
    if record.rank == 0 {
        return Err(fail!(why, Rank, "an array of rank 0 has no boxes"));
    }
    let cast = Cast::find(record.dtype, record.dtype_bytes, settings.dtype, settings.dtype_bytes);
    if cast.is_none() {
        return Err(fail!(
            why,
            Dtype,
            "no cast from {} ({} bytes) to {} ({} bytes): choose another output dtype",
            record.dtype.name(),
            record.dtype_bytes,
            settings.dtype.name(),
            settings.dtype_bytes
        ));
    }
    let cap = settings.config.max_chunk_uncompressed_bytes;
    if record.chunk_bytes > cap {
        return Err(fail!(
            why,
            Budget,
            "a chunk of {} bytes exceeds max_chunk_uncompressed_bytes = {cap}: raise it",
            record.chunk_bytes
        ));
    }
    Ok(())
}

type Corner = [u64; RANK_MAX];

/// The part of the array that a sample's box reads, padding included; empty along an axis where it
/// reads nothing.
fn source_box(
    instance: &Instance,
    record: &ArrayRecord,
    sample: &crate::queue::QueuedSample,
    why: &mut Why,
) -> Result<(Corner, Corner), Status> {
    if sample.rank != record.rank {
        return Err(fail!(
            why,
            Rank,
            "the box has {} axes, the array {}: shape {}",
            sample.rank,
            record.rank,
            List(&record.shape[..record.axes()])
        ));
    }
    let (mut lo, mut hi) = ([0; RANK_MAX], [0; RANK_MAX]);
    for axis in 0..record.axes() {
        let (begin, end, extent) = (sample.begin[axis], sample.end[axis], record.shape[axis]);
        match source_range(begin, end, extent, instance.pad_mode) {
            Ok(range) => (lo[axis], hi[axis]) = range,
            Err(fault) => return Err(axis_failure(axis, begin, end, extent, fault, why)),
        }
    }
    let most = instance.settings.config.max_shards_per_sample;
    let touched = files_touched(record, &lo, &hi);
    if most > 0 && touched > most as u64 {
        return Err(fail!(
            why,
            Invalid,
            "the box touches {touched} files, max_shards_per_sample = {most}: raise it"
        ));
    }
    Ok((lo, hi))
}

fn axis_failure(
    axis: usize,
    begin: i64,
    end: i64,
    extent: u64,
    fault: AxisFault,
    why: &mut Why,
) -> Status {
    let reason = match fault {
        AxisFault::Empty => "the box is empty",
        AxisFault::Outside => "it reaches outside where pad_mode gives no value",
        AxisFault::NoElement => "there is no element to repeat or mirror",
        AxisFault::Overflow => "its length does not fit 63 bits",
    };
    fail!(why, Invalid, "axis {axis}: box [{begin}, {end}) of an extent of {extent}: {reason}")
}
