//! The planner's last step: settled chunks become a wave.
//!
//! In: the settled front of the window. Out: an active wave, its reads merged and its tables
//! written. Chunks that are read come first, by file and offset; then those that are only filled.

use crate::base::indexes::{Lane, WaveIndex};
use crate::base::limits::WINDOW_BYTES;
use crate::base::math::index;
use crate::base::version::Version;
use crate::jobs::failures::fail_waiter;
use crate::jobs::plan::front::{End, Prefix};
use crate::jobs::plan::keep::is_keeping;
use crate::jobs::plan::planned::{Left, Place, Planned, Settled};
use crate::jobs::plan::window::Planner;
use crate::os::FileStat;
use crate::os::sink::Level;
use crate::read::{Piece, merge_pieces, staged_bytes};
use crate::setup::settings::LATER_WAVES;
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::needs::way_of;
use crate::state::shared::Shared;
use crate::wave::{ChunkKind, ChunkTask, ReadOp, ReadText, Way};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// The share of the staging, one part in so many, that early batches leave to callers that read
/// boxes. A chunk that takes more may have to wait until a batch is released.
const READERS_SHARE: u64 = 2;

impl Planner {
    /// Makes a wave of the settled chunks at the front of the window, if it is worth one.
    pub fn form(&mut self, lock: &Lock, more_is_coming: bool) -> bool {
        let shared = lock.shared;
        self.drop_gone();
        let (wave, active, has_early_room) = {
            let state = &mut *lock.lock();
            self.refused_device = state.windows.refused_device;
            // Uses are over when the chunks that were planned for them leave the window, not when
            // they came into it: a chunk that still waits for its lookup stays cached for the later
            // batches, which wait for the same one.
            let oldest = (self.first < self.limit).then(|| self.entry(self.first).sample_first);
            self.placed = u64::MAX;
            if self.lane == Lane::Samples {
                state.chunks.pass(oldest.unwrap_or(state.queue.front_number()));
                self.placed = state.slots.placed_turn();
            }
            let waves = shared.settings.config.host_buffer_waves;
            let has_early_room = state.early_waves() + LATER_WAVES < waves;
            let Some(wave) = state.waves.free(self.lane) else { return false };
            (wave, state.waves.active_of(self.lane).count(), has_early_room)
        };
        // What is not early does not wait for staging that is for early batches.
        let has_early = self.placed < u64::MAX && has_early_room;
        self.form_of(lock, (wave, active), has_early_room, more_is_coming)
            || has_early && self.form_of(lock, (wave, active), false, more_is_coming)
    }

    /// The same in this wave, with chunks of early batches if these have room.
    fn form_of(
        &mut self,
        lock: &Lock,
        (wave, active): (WaveIndex, usize),
        has_early_room: bool,
        more_is_coming: bool,
    ) -> bool {
        let Prefix { count, tasks, end } = self.settled_prefix(lock.shared, has_early_room);
        let is_waiting =
            more_is_coming || self.current.is_some() || count < self.limit - self.first;
        let is_small = match end {
            End::Full | End::Early => false,
            End::Window if self.is_early(count) => more_is_coming,
            // Small waves only while little is staged: else wait for chunks that are being looked
            // up.
            End::Window => more_is_coming || is_waiting && active >= 2,
        };
        if tasks == 0 || is_small {
            return false;
        }
        self.sort_prefix(tasks);
        self.fill_wave(lock, wave, count, tasks)
    }

    pub(super) fn entry(&self, at: u64) -> &Planned {
        &self.window[self.place(at)]
    }

    /// The place in the window of an entry that is in it, or of the next one. It is asked for so
    /// often that divisions by the number of places would be felt.
    pub(super) fn place(&self, at: u64) -> usize {
        let (past, places) = (at - self.base, self.window.len() as u64);
        index(if past < places { past } else { past - places })
    }

    /// The first entry of the window is that one from now on.
    pub(super) fn begin_at(&mut self, first: u64) {
        // Entries that are in the window at a time are no more than its places.
        let is_round = first - self.base >= self.window.len() as u64;
        self.base += if is_round { self.window.len() as u64 } else { 0 };
        self.first = first;
    }

    fn drop_gone(&mut self) {
        while self.first < self.limit && matches!(self.entry(self.first).place, Place::Gone) {
            self.leave(1);
        }
        self.free_pairs();
    }

    /// The first `count` entries leave the window.
    fn leave(&mut self, count: u64) {
        let mut gone = (self.first..self.first + count).rev().map(|at| self.entry(at));
        if let Some(last) = gone.find(|entry| entry.version.is_some()) {
            self.left = Left::of(last);
        }
        self.begin_at(self.first + count);
    }

    fn free_pairs(&mut self) {
        self.pair_first = if self.first < self.limit {
            self.entry(self.first).pair_first
        } else {
            self.pair_limit
        };
    }

    /// Sorts the tasks of the prefix: those that are read first, by file, version and offset; then
    /// the others, by batch and array.
    fn sort_prefix(&mut self, tasks: u32) {
        let (sorted, none) = (core::mem::take(&mut self.sorted), Version::NONE);
        sorted[..tasks as usize].sort_unstable_by_key(|offset| {
            let entry = self.entry(self.first + u64::from(*offset));
            match entry.place {
                Place::Known(Settled::Data { offset, bytes, stat }) => {
                    let file = (entry.array_id, entry.file, stat.version());
                    (0, file, (offset, bytes, entry.turn, entry.number))
                }
                Place::Known(Settled::Kept) => {
                    (2, (entry.turn, entry.array_id, none), (0, 0, 0, entry.number))
                }
                _ => (1, (entry.turn, entry.array_id, none), (0, 0, 0, entry.number)),
            }
        });
        self.sorted = sorted;
    }

    fn fill_wave(&mut self, lock: &Lock, wave: WaveIndex, count: u64, tasks: u32) -> bool {
        let shared = lock.shared;
        let data = (0..tasks).take_while(|task| self.is_data(*task)).count();
        let mut slab_bytes = 0;
        self.each_read(shared, data, |first, _, bytes| {
            let (offset, _, stat) = self.data(first);
            slab_bytes += self.staged(shared, self.task(first), (offset, bytes, stat));
        });
        // A caller that reads a box finds room for its chunks, whoever holds batches.
        let is_left = self.is_early(count) && shared.settings.config.n_readers > 0;
        let reserve = if is_left { shared.geometry.slab_bytes / READERS_SHARE } else { 0 };
        let taken = {
            let state = &mut *lock.lock();
            let taken = state.waves.ring.take_beside(slab_bytes, reserve);
            if self.lane == Lane::Readers {
                state.readers.lacks_staging = taken.is_none();
            }
            taken
        };
        let Some((interval, slab_start)) = taken else { return false };
        let reads = self.write_reads(shared, wave, data, slab_start);
        let ops = self.write_idle(shared, wave, reads, data..tasks as usize);
        let mut last_turn = 0;
        for task in 0..tasks as usize {
            let at = self.first + u64::from(self.sorted[task]);
            let place = self.place(at);
            let entry = &mut self.window[place];
            last_turn = last_turn.max(entry.turn);
            entry.place = Place::Gone;
        }
        assert!(reads.0 <= ops && ops <= tasks);
        self.write_order(shared, wave, reads.0);
        log_reads(shared, wave, ops);
        self.leave(count);
        self.drop_gone();
        let now = (shared.os.now_ns)();
        let mut failed = 0;
        {
            let state = &mut *lock.lock();
            state.waves.activate(wave, tasks, (ops, ops - reads.0), interval, now);
            state.waves.waves[wave.at()].last_turn = last_turn;
            for op in reads.0..ops {
                if !set_idle_ready(shared, state, wave, op) {
                    self.sorted[failed] = op;
                    failed += 1;
                }
            }
        }
        self.sorted[..failed].iter().for_each(|op| fail_kept(lock, wave, *op));
        shared.stats.chunks_to_load.fetch_add(data as u64, Relaxed);
        true
    }

    pub(super) fn is_data(&self, task: u32) -> bool {
        matches!(self.settled(task as usize), Settled::Data { .. })
    }

    fn task(&self, task: usize) -> &Planned {
        self.entry(self.first + self.sorted[task] as u64)
    }

    /// The answer about a task of the wave.
    fn settled(&self, task: usize) -> Settled {
        match self.task(task).place {
            Place::Known(settled) => settled,
            _ => unreachable!("a wave takes what is settled, once"),
        }
    }

    /// The place of the bytes of a task that is read: from which byte of its file on, how many, and
    /// what the file looked like.
    fn data(&self, task: usize) -> (u64, u64, FileStat) {
        match self.settled(task) {
            Settled::Data { offset, bytes, stat } => (offset, bytes, stat),
            _ => unreachable!("tasks that are read come first"),
        }
    }

    /// Whether the bytes of an entry are copied out of one window.
    fn is_mapped(
        &self,
        shared: &Shared,
        entry: &Planned,
        (offset, bytes, stat): (u64, u64, FileStat),
    ) -> bool {
        shared.settings.windows > 0
            && shared.engine().is_none()
            && entry.kept.is_none()
            && self.refused_device != Some(stat.device)
            && offset / WINDOW_BYTES == (offset + bytes - 1) / WINDOW_BYTES
            && shared.array_record(entry.array).is_read_partly()
    }

    /// What the read of an entry takes of the slab: none if it is mapped.
    pub(super) fn staged(
        &self,
        shared: &Shared,
        entry: &Planned,
        (offset, bytes, stat): (u64, u64, FileStat),
    ) -> u64 {
        match self.is_mapped(shared, entry, (offset, bytes, stat)) {
            true => 0,
            false => staged_bytes(bytes),
        }
    }

    fn each_read(&self, shared: &Shared, data: usize, emit: impl FnMut(usize, usize, u64)) {
        let piece = |task: usize| {
            let entry = self.task(task);
            let (offset, bytes, stat) = self.data(task);
            let origin = shared.array_record(entry.array).origin;
            let asked = (!origin.has_files).then_some(entry.chunk);
            let is_mapped = self.is_mapped(shared, entry, (offset, bytes, stat));
            let asked = if is_mapped { Some(task as u64) } else { asked };
            let (array_id, file, version) = (entry.array_id, entry.file, stat.version());
            Piece { array_id, file, version, offset, bytes, asked, rank: self.rank(entry) }
        };
        merge_pieces(data, piece, shared.merges(), emit);
    }

    /// Writes the first `data` chunks of the wave, their pairs and their reads; the number of reads
    /// and of pairs.
    fn write_reads(
        &self,
        shared: &Shared,
        wave: WaveIndex,
        data: usize,
        slab_start: u64,
    ) -> (u32, u32) {
        let tables = &shared.tables;
        let (base, mut ops, mut slab, mut pairs) = (shared.wave_row(wave, 0), 0, slab_start, 0);
        self.each_read(shared, data, |first, limit, bytes| {
            let entry = self.task(first);
            let (offset, _, stat) = self.data(first);
            let is_partly = shared.array_record(entry.array).is_read_partly();
            let need = |task: usize| {
                let need = &self.task(task).need;
                let bytes = if is_partly { need.box_bytes } else { need.span.bytes() };
                bytes.max(4096)
            };
            let read = ReadOp {
                array: entry.array,
                array_id: entry.array_id,
                file: entry.file,
                stat,
                offset,
                bytes,
                slab_offset: slab,
                is_mapped: self.is_mapped(shared, entry, (offset, bytes, stat)),
                chunk_first: first as u32,
                chunk_count: (limit - first) as u32,
                decoded_bytes: (first..limit).map(need).sum(),
            };
            tables.ops.write(base + ops as usize, read);
            let (mut before, mut decoded) = (0, 0);
            for task in first..limit {
                let mates = self.mates(task, limit);
                self.write_task(shared, wave, task, (slab, offset, mates), &mut pairs);
                decoded += u64::from(before == 0);
                before = mates;
            }
            if is_keeping(shared, shared.array_record(entry.array)) {
                shared.stats.chunk_cache_misses.fetch_add(decoded, Relaxed);
            }
            slab += self.staged(shared, entry, (offset, bytes, stat));
            ops += 1;
        });
        (ops, pairs)
    }

    /// Writes the chunks that need no bytes after the reads: chunks that are only filled as one
    /// read of no bytes, and each cached chunk as a read of its own, because each is ready by
    /// itself. The number of reads in all.
    fn write_idle(
        &self,
        shared: &Shared,
        wave: WaveIndex,
        (mut ops, mut pairs): (u32, u32),
        tasks: Range<usize>,
    ) -> u32 {
        let is_kept = |task: &usize| matches!(self.settled(*task), Settled::Kept);
        let mut first = tasks.start;
        while first < tasks.end {
            let filled = (first..tasks.end).take_while(|task| !is_kept(task)).count();
            let limit = first + filled.max(1);
            let idle = ReadOp {
                chunk_first: first as u32,
                chunk_count: (limit - first) as u32,
                ..ReadOp::EMPTY
            };
            shared.tables.ops.write(shared.wave_row(wave, ops), idle);
            for task in first..limit {
                self.write_task(shared, wave, task, (0, 0, 0), &mut pairs);
            }
            ops += 1;
            first = limit;
        }
        ops
    }

    /// Tasks after `task`, before `limit`, that are of the same chunk, which none of them caches.
    fn mates(&self, task: usize, limit: usize) -> u32 {
        let of = |task: usize| {
            let entry = self.task(task);
            let is_shared = entry.is_shared && entry.kept.is_none() && self.rank(entry) == 0;
            is_shared.then_some((entry.array_id, entry.file, entry.chunk))
        };
        let Some(own) = of(task) else { return 0 };
        (task + 1..limit).take_while(|other| of(*other) == Some(own)).count() as u32
    }

    /// Writes the boxes of an entry to the table of a wave, from row `first` of its part on.
    fn write_pairs(&self, shared: &Shared, wave: WaveIndex, entry: &Planned, first: u32) {
        let tables = &shared.tables;
        for pair in 0..entry.pair_count {
            tables.pairs.write(tables.pair_row(wave, first + pair), self.pair(entry, pair));
        }
    }

    /// `slab` is the place at which byte `start` of the file is staged.
    fn write_task(
        &self,
        shared: &Shared,
        wave: WaveIndex,
        task: usize,
        (slab, start, mates): (u64, u64, u32),
        pairs: &mut u32,
    ) {
        let entry = self.task(task);
        let (kind, offset, bytes) = match self.settled(task) {
            Settled::Data { offset, bytes, .. } => (ChunkKind::Data, offset, bytes),
            Settled::Pad => (ChunkKind::Pad, start, 0),
            Settled::Blank => (ChunkKind::Blank, start, 0),
            Settled::Fed => (ChunkKind::Fed, start, entry.need.box_bytes),
            Settled::Kept => (ChunkKind::Kept, start, 0),
            Settled::Missing => (ChunkKind::Missing, start, 0),
            Settled::Broken => (ChunkKind::Broken, start, 0),
        };
        self.write_pairs(shared, wave, entry, *pairs);
        // Tasks of blanks name the first box of their sample, and are not of that. Those of an
        // array, or of what is fed, are of boxes that all have a map, or none.
        let is_resampled = kind != ChunkKind::Blank
            && shared.box_record(entry.slot, self.pair(entry, 0)).is_resampled;
        let way = match kind {
            ChunkKind::Data if !is_resampled => {
                let (array, mut own) = (shared.array_record(entry.array), None);
                let record = array.of_chunk((entry.file, entry.chunk), &mut own);
                way_of(shared, record, (entry.slot, entry.array), (entry.kept, bytes, entry.need))
            }
            _ => Way::Worker,
        };
        shared.tables.chunks.write(
            shared.wave_row(wave, task as u32),
            ChunkTask {
                kind,
                slot: entry.slot,
                array: entry.array,
                file: entry.file,
                chunk: entry.chunk,
                number: entry.number,
                mates,
                pair_first: *pairs,
                pair_count: entry.pair_count,
                need: entry.need,
                kept: entry.kept,
                offset,
                bytes,
                slab_offset: slab + (offset - start),
                way,
                is_resampled,
            },
        );
        *pairs += entry.pair_count;
        assert!(*pairs <= shared.tables.counts.pairs[self.lane as usize]);
    }

    /// Orders the reads so that they alternate across files, ascending within each.
    fn write_order(&mut self, shared: &Shared, wave: WaveIndex, ops: u32) {
        let tables = &shared.tables;
        let base = shared.wave_row(wave, 0);
        // The reads of a file follow each other: the next of each, and the limit of its reads.
        let (next, limits) = (&mut *self.sorted, &mut *self.limits);
        let (mut before, mut files) = (None, 0);
        for op in 0..ops {
            let read = tables.ops.read(base + op as usize);
            let file = Some((read.array_id, read.file));
            if before != file {
                (before, next[files]) = (file, op);
                files += 1;
            }
            limits[files - 1] = op + 1;
        }
        let mut row = base;
        while files > 0 {
            let mut left = 0;
            for file in 0..files {
                let (op, limit) = (next[file], limits[file]);
                tables.order.write(row, op);
                row += 1;
                if op + 1 < limit {
                    (next[left], limits[left]) = (op + 1, limit);
                    left += 1;
                }
            }
            files = left;
        }
    }
}

/// Logs what a wave is that is filled and not active yet, if anyone asked for that.
fn log_reads(shared: &Shared, wave: WaveIndex, ops: u32) {
    if !shared.sink.is_heard(Level::Trace) {
        return;
    }
    let tables = &shared.tables;
    for number in 0..ops {
        let read = tables.ops.read(shared.wave_row(wave, number));
        let first = shared.wave_row(wave, read.chunk_first);
        let chunks = tables.chunks.rows(first, read.chunk_count as usize);
        let text = ReadText { wave, number, read, chunks, tables };
        shared.sink.log(Level::Trace, 0, format_args!("{text}"));
    }
}

/// A read of no bytes is ready, unless its chunk is still being decoded for the cache. False: that
/// failed.
fn set_idle_ready(shared: &Shared, state: &mut State, wave: WaveIndex, op: u32) -> bool {
    let row = shared.wave_row(wave, op);
    let head = shared.tables.ops.read(row).chunk_first;
    let task = shared.tables.chunks.read(shared.wave_row(wave, head));
    match task.kept {
        Some(kept) if state.chunks.is_failed(kept.slot) => return false,
        Some(kept) if !state.chunks.is_ready(kept.slot) => {
            state.chunks.add_waiter(kept.slot, row as u32);
        }
        _ => state.set_ready(shared, wave, op),
    }
    true
}

/// Fails a chunk of a new wave that was to wait for a cached chunk, which has failed since it was
/// planned. Those that came to wait in time are told by whoever failed.
fn fail_kept(lock: &Lock, wave: WaveIndex, op: u32) {
    let shared = lock.shared;
    let head = shared.tables.ops.read(shared.wave_row(wave, op)).chunk_first;
    let task = shared.tables.chunks.read(shared.wave_row(wave, head));
    let Some(kept) = task.kept else { return };
    let failure = lock.lock().kept_failure(kept.slot);
    fail_waiter(lock, wave, op, failure.status, &failure.why);
}
