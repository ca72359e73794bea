//! Waves: fixed structures of arrays of chunk tasks that are read, decoded and assembled together.
//!
//! States of a wave: Free -> (filled by the planner) -> Active -> Free. While a wave is free its
//! tables belong to the planner; while it is active they are read by workers, each of which changes
//! only the rows of the read that it holds.
//!
//! The bytes of a wave lie in one ring of staging memory. Intervals are given back in order, but a
//! wave's record is free at once, so a slow read holds its own bytes and no other wave.

mod ring;
mod tables;
mod tasks;
mod text;

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::cache::{Fifo, List};
use crate::base::indexes::{Lane, WaveCounts, WaveIndex};
pub use ring::Ring;
pub use tables::WaveTables;
pub use tasks::{ChunkKind, ChunkTask, Kept, ReadOp, Way};
pub use text::ReadText;

/// How far an active wave is.
#[derive(Debug)]
pub struct Wave {
    /// Whether the wave is active.
    pub is_active: bool,
    /// Number of reads.
    pub op_count: u32,
    /// Reads that nobody began.
    pub unissued: u32,
    /// Reads before this one, by file and offset, were begun.
    pub by_place: u32,
    /// Reads before this one in `order` were begun.
    pub by_order: u32,
    /// Chunks that are not assembled yet.
    pub remaining: u32,
    /// Those of them that no worker did its part of.
    pub unworked: u32,
    /// Those that a device refused, which are to be read again.
    pub refused: u32,
    /// Number of its interval in the ring.
    pub interval: u64,
    /// When it became active.
    pub activated_ns: u64,
    /// The turn of the last batch that it has chunks of.
    pub last_turn: u64,
    /// Whether one of its chunks was handed out for decoding.
    pub is_bound: bool,
    /// Reads that have to be waited for.
    pub blocking: Fifo,
    /// Those of them that are for an io thread: the host did not bring them.
    pub for_io: Fifo,
    /// Reads whose bytes are read and whose chunks are not all handed out.
    pub ready: Fifo,
    /// Those of them whose next chunk is of a batch that has no memory yet.
    pub early: Fifo,
}

impl Wave {
    /// Whether nothing is left of it but chunks that a device refused.
    pub fn is_for_redo(&self) -> bool {
        let is_all = self.unworked == 0 && self.remaining == self.refused;
        self.is_active && self.refused > 0 && is_all
    }
}

/// The state of a read, whose life ends when the last of its chunks was handed out.
///
/// ```text
/// Wanted ─issue─▶ Leased ─fly─▶ InFlight ─set_ready─▶ Here ─take_chunks─▶ Done
///    ◀──unissue──┘ │ │ │ └───────────────set_ready────▶ │                  ▲
///                  │ │ └──────────────────────finish────│──────────────────┘
///                  │ └─block─▶ Blocking ─take_blocking─▶ Leased
///                  └──leave_to_io, also from InFlight─▶ ForIo ─take_for_io─▶ Leased
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPhase {
    /// Nobody began it.
    Wanted,
    /// A worker has it.
    Leased,
    /// The host has it; or it needs no bytes, but a chunk that others decode.
    InFlight,
    /// It is for those who may wait.
    Blocking,
    /// It is for an io thread, which opens its file, or reads what the host did not.
    ForIo,
    /// Its bytes are staged.
    Here,
    /// All of its chunks were handed out.
    Done,
}

#[derive(Clone, Copy, Debug)]
struct ReadLife {
    phase: ReadPhase,
    /// Its first chunk that was not handed out.
    next: u32,
}

/// Everything about waves that the lock guards.
pub struct Waves {
    /// How far each wave is.
    pub waves: &'static mut [Wave],
    /// Active waves, oldest first.
    active: List,
    /// Number of active waves.
    pub active_count: u32,
    /// How far each read is; the queues of the waves and their cursors are indexes over it.
    reads: &'static mut [ReadLife],
    /// The ring, of which all lanes take.
    pub ring: Ring,
    counts: WaveCounts,
}

impl Waves {
    /// So many free waves of each lane, and the bytes that they are staged in.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, counts: WaveCounts, slab_bytes: u64) -> Waves {
        let (count, mut number) = (counts.all(), 0);
        let mut fifo = |carver: &mut Carver| {
            // Four of each wave.
            number += 1;
            let chunks = counts.chunks[counts.lane(WaveIndex((number - 1) / 4)) as usize];
            Fifo::carve(carver, Item::Waves, chunks)
        };
        let waves = carver.slice_from(Item::Waves, u64::from(count), |carver| Wave {
            is_active: false,
            op_count: 0,
            unissued: 0,
            by_place: 0,
            by_order: 0,
            remaining: 0,
            unworked: 0,
            refused: 0,
            interval: 0,
            activated_ns: 0,
            last_turn: 0,
            is_bound: false,
            blocking: fifo(carver),
            for_io: fifo(carver),
            ready: fifo(carver),
            early: fifo(carver),
        });
        let ops = counts.rows(counts.chunks);
        Waves {
            waves,
            active: List::carve(carver, Item::Waves, count),
            active_count: 0,
            reads: carver.slice(Item::Waves, ops, &ReadLife { phase: ReadPhase::Done, next: 0 }),
            ring: Ring::carve(carver, count * 4, slab_bytes),
            counts,
        }
    }

    /// Row of an op or chunk in the tables.
    pub fn row(&self, wave: WaveIndex, position: u32) -> usize {
        self.counts.row(wave, position)
    }

    /// A wave of the lane that its planner may fill.
    pub fn free(&self, lane: Lane) -> Option<WaveIndex> {
        let mut waves = (0..self.waves.len() as u32).map(WaveIndex);
        waves.find(|wave| self.lane(*wave) == lane && !self.waves[wave.at()].is_active)
    }

    /// The lane of a wave.
    pub fn lane(&self, wave: WaveIndex) -> Lane {
        self.counts.lane(wave)
    }

    /// Active waves of a lane.
    pub fn active_of(&self, lane: Lane) -> impl Iterator<Item = &Wave> {
        let first = if lane == Lane::Samples { 0 } else { self.counts.waves[0] as usize };
        let waves = &self.waves[first..][..self.counts.waves[lane as usize] as usize];
        waves.iter().filter(|wave| wave.is_active)
    }

    /// The planner has filled a wave. The last `idle` of its `ops` reads have nothing to read; they
    /// are ready once `set_ready` says so.
    pub fn activate(
        &mut self,
        wave: WaveIndex,
        chunks: u32,
        (ops, idle): (u32, u32),
        interval: u64,
        now_ns: u64,
    ) {
        let entry = &mut self.waves[wave.at()];
        assert!(!entry.is_active && entry.ready.is_empty() && entry.blocking.is_empty());
        assert!(entry.for_io.is_empty() && entry.early.is_empty() && idle <= ops);
        entry.is_active = true;
        entry.remaining = chunks;
        entry.unworked = chunks;
        entry.refused = 0;
        entry.interval = interval;
        entry.activated_ns = now_ns;
        entry.is_bound = false;
        self.active.push(wave.0);
        self.active_count += 1;
        self.begin_reads((wave, ops), idle);
    }

    /// The last `idle` of the `ops` reads of a wave are in flight, nobody began the others.
    fn begin_reads(&mut self, (wave, ops): (WaveIndex, u32), idle: u32) {
        let row = self.row(wave, 0);
        let entry = &mut self.waves[wave.at()];
        entry.op_count = ops;
        entry.unissued = ops - idle;
        entry.by_place = 0;
        entry.by_order = 0;
        for op in 0..ops {
            let is_idle = op >= ops - idle;
            let phase = if is_idle { ReadPhase::InFlight } else { ReadPhase::Wanted };
            self.reads[row + op as usize] = ReadLife { phase, next: 0 };
        }
    }

    /// The refused chunks of a wave, all that is left of it, are to be read again by `ops` reads.
    pub fn read_again(&mut self, wave: WaveIndex, ops: u32, interval: u64) {
        assert!(self.waves[wave.at()].is_for_redo() && ops > 0);
        let entry = &mut self.waves[wave.at()];
        (entry.unworked, entry.refused) = (core::mem::take(&mut entry.refused), 0);
        entry.interval = interval;
        self.begin_reads((wave, ops), 0);
    }

    /// The oldest wave of which nothing is left but what a device refused.
    pub fn for_redo(&self) -> Option<WaveIndex> {
        let mut waves = core::iter::successors(self.first_active(), |wave| self.next_active(*wave));
        waves.find(|wave| self.waves[wave.at()].is_for_redo())
    }

    /// How far a read is.
    pub fn phase(&self, wave: WaveIndex, op: u32) -> ReadPhase {
        self.reads[self.row(wave, op)].phase
    }

    /// A read goes from one of the phases `from` on to `to`.
    fn go(&mut self, (wave, op): (WaveIndex, u32), from: &[ReadPhase], to: ReadPhase) {
        let row = self.row(wave, op);
        assert!(from.contains(&self.reads[row].phase));
        self.reads[row].phase = to;
    }

    /// The bytes of a read have been read, or the chunk that it needs instead is ready.
    pub fn set_ready(&mut self, wave: WaveIndex, op: u32) {
        self.go((wave, op), &[ReadPhase::Leased, ReadPhase::InFlight], ReadPhase::Here);
        self.waves[wave.at()].ready.push(op);
    }

    /// The same of a read whose first chunk is of a batch that has no memory yet.
    pub fn set_early(&mut self, wave: WaveIndex, op: u32) {
        self.go((wave, op), &[ReadPhase::Leased, ReadPhase::InFlight], ReadPhase::Here);
        self.waves[wave.at()].early.push(op);
    }

    /// The next chunk of the read that is ready first is of such a batch.
    pub fn hold_back(&mut self, wave: WaveIndex) {
        let entry = &mut self.waves[wave.at()];
        entry.ready.pop().into_iter().for_each(|op| entry.early.push(op));
    }

    /// A batch has memory now: the reads that waited for it, as `is_early` says, are ready.
    pub fn end_early(&mut self, is_early: impl Fn(&Waves, WaveIndex, u32) -> bool) {
        let mut at = self.first_active();
        while let Some(wave) = at {
            at = self.next_active(wave);
            for _ in 0..self.waves[wave.at()].early.len() {
                let Some(op) = self.waves[wave.at()].early.pop() else { break };
                let is_early = is_early(self, wave, op);
                let entry = &mut self.waves[wave.at()];
                if is_early { entry.early.push(op) } else { entry.ready.push(op) }
            }
        }
    }

    /// The ring or the host has a read.
    pub fn fly(&mut self, wave: WaveIndex, op: u32) {
        self.go((wave, op), &[ReadPhase::Leased], ReadPhase::InFlight);
    }

    /// A read, of which the chunks before `next` are done, is for those who may wait.
    pub fn block(&mut self, wave: WaveIndex, op: u32, next: u32) {
        self.go((wave, op), &[ReadPhase::Leased], ReadPhase::Blocking);
        let row = self.row(wave, op);
        assert!(self.reads[row].next <= next);
        self.reads[row].next = next;
        self.waves[wave.at()].blocking.push(op);
    }

    /// A read is for an io thread.
    pub fn leave_to_io(&mut self, wave: WaveIndex, op: u32) {
        self.go((wave, op), &[ReadPhase::Leased, ReadPhase::InFlight], ReadPhase::ForIo);
        self.waves[wave.at()].for_io.push(op);
    }

    /// Takes the read that was blocking first.
    pub fn take_blocking(&mut self, wave: WaveIndex) -> Option<u32> {
        let op = self.waves[wave.at()].blocking.pop()?;
        self.go((wave, op), &[ReadPhase::Blocking], ReadPhase::Leased);
        Some(op)
    }

    /// Takes the read that was left to io threads first.
    pub fn take_for_io(&mut self, wave: WaveIndex) -> Option<u32> {
        let op = self.waves[wave.at()].for_io.pop()?;
        self.go((wave, op), &[ReadPhase::ForIo], ReadPhase::Leased);
        Some(op)
    }

    /// The first chunk of a read that was not handed out, counted from its first.
    pub fn next_chunk(&self, wave: WaveIndex, op: u32) -> u32 {
        self.reads[self.row(wave, op)].next
    }

    /// Hands out `count` chunks of the read that is ready first and has `chunks` in all.
    pub fn take_chunks(&mut self, wave: WaveIndex, count: u32, chunks: u32) {
        let Some(op) = self.waves[wave.at()].ready.front() else { unreachable!() };
        let row = self.row(wave, op);
        let next = self.reads[row].next + count;
        assert!(next <= chunks);
        self.reads[row].next = next;
        if next == chunks {
            self.go((wave, op), &[ReadPhase::Here], ReadPhase::Done);
            self.waves[wave.at()].ready.pop();
        }
    }

    /// All chunks of a read were decoded as they came.
    pub fn finish(&mut self, wave: WaveIndex, op: u32) {
        self.go((wave, op), &[ReadPhase::Leased], ReadPhase::Done);
    }

    /// The next read of a wave that nobody began, for a thread that decodes what it reads.
    pub fn next_for_own(&mut self, wave: WaveIndex) -> Option<u32> {
        match self.lane(wave) {
            Lane::Samples => self.next_by_place(wave),
            Lane::Readers => self.next_apart(wave),
        }
    }

    /// The first read of a wave, by file and offset, that nobody began.
    fn next_by_place(&mut self, wave: WaveIndex) -> Option<u32> {
        let row = self.row(wave, 0);
        let entry = &mut self.waves[wave.at()];
        while entry.unissued > 0
            && self.reads[row + entry.by_place as usize].phase != ReadPhase::Wanted
        {
            entry.by_place += 1;
        }
        (entry.unissued > 0).then_some(entry.by_place)
    }

    /// A read of a wave that nobody began, apart from those that others are at: the first that
    /// follows none of these, or the middle of the longest run. Neighbours would meet at a page of
    /// a target that is new, and both clear it.
    fn next_apart(&self, wave: WaveIndex) -> Option<u32> {
        let (mut start, mut longest) = (0, 0..0);
        for op in (0..self.waves[wave.at()].op_count).filter(|op| self.is_unissued(wave, *op)) {
            match op.checked_sub(1).map(|before| self.phase(wave, before)) {
                Some(ReadPhase::Wanted) => {}
                Some(ReadPhase::Leased) => start = op,
                _ => return Some(op),
            }
            if op + 1 - start > longest.len() as u32 {
                longest = start..op + 1;
            }
        }
        (!longest.is_empty()).then(|| longest.start + longest.len() as u32 / 2)
    }

    /// The first read of a wave in `order` that nobody began.
    pub fn next_by_order(&mut self, wave: WaveIndex, order: &Table<u32>) -> Option<u32> {
        let row = self.row(wave, 0);
        let entry = &mut self.waves[wave.at()];
        while entry.unissued > 0 {
            let op = order.read(row + entry.by_order as usize);
            if self.reads[row + op as usize].phase == ReadPhase::Wanted {
                return Some(op);
            }
            entry.by_order += 1;
        }
        None
    }

    /// Whether nobody began a read.
    pub fn is_unissued(&self, wave: WaveIndex, op: u32) -> bool {
        op < self.waves[wave.at()].op_count && self.phase(wave, op) == ReadPhase::Wanted
    }

    /// The oldest active wave.
    pub fn first_active(&self) -> Option<WaveIndex> {
        self.active.first().map(WaveIndex)
    }

    /// The active wave after another one.
    pub fn next_active(&self, wave: WaveIndex) -> Option<WaveIndex> {
        self.active.next(wave.0).map(WaveIndex)
    }

    /// The active waves, oldest first.
    pub fn each_active(&self) -> impl Iterator<Item = &Wave> {
        core::iter::successors(self.first_active(), |wave| self.next_active(*wave))
            .map(|wave| &self.waves[wave.at()])
    }

    /// Somebody begins a read.
    pub fn issue(&mut self, wave: WaveIndex, op: u32) {
        self.go((wave, op), &[ReadPhase::Wanted], ReadPhase::Leased);
        self.waves[wave.at()].unissued -= 1;
    }

    /// A read that was begun was left as it was.
    pub fn unissue(&mut self, wave: WaveIndex, op: u32) {
        assert!(self.next_chunk(wave, op) == 0);
        self.go((wave, op), &[ReadPhase::Leased], ReadPhase::Wanted);
        let entry = &mut self.waves[wave.at()];
        entry.unissued += 1;
        entry.by_place = entry.by_place.min(op);
        entry.by_order = 0;
    }

    /// Chunks of all active waves that are not assembled yet.
    pub fn remaining(&self) -> u64 {
        self.waves.iter().filter(|wave| wave.is_active).map(|wave| u64::from(wave.remaining)).sum()
    }

    /// Workers did their part of `count` chunks. The bytes that were read have no use after the
    /// last.
    pub fn sub_unworked(&mut self, wave: WaveIndex, count: u32) {
        let entry = &mut self.waves[wave.at()];
        assert!(entry.is_active && entry.unworked >= count);
        entry.unworked -= count;
        if entry.unworked > 0 {
            return;
        }
        let (interval, ops) = (entry.interval, entry.op_count);
        assert!((0..ops).all(|op| self.phase(wave, op) == ReadPhase::Done));
        self.ring.give_back(interval);
    }

    /// A device refused a chunk. True if nothing is left but such.
    pub fn refuse(&mut self, wave: WaveIndex) -> bool {
        let entry = &mut self.waves[wave.at()];
        assert!(entry.is_active && entry.refused < entry.remaining);
        entry.refused += 1;
        entry.is_for_redo()
    }

    /// `count` chunks are assembled, of which workers did their part; true when the wave became
    /// free.
    pub fn sub_remaining(&mut self, wave: WaveIndex, count: u32) -> bool {
        let entry = &mut self.waves[wave.at()];
        assert!(entry.is_active && entry.remaining >= count);
        assert!(entry.remaining - count >= entry.unworked + entry.refused);
        entry.remaining -= count;
        if entry.remaining > 0 {
            return false;
        }
        entry.is_active = false;
        self.active.remove(wave.0);
        self.active_count -= 1;
        true
    }

    /// Drops every wave; no worker may be at work on one. `in_flight`: the intervals that the host
    /// still writes to, once for each read; `end_dropped` ends each.
    pub fn clear(&mut self, in_flight: impl Iterator<Item = u64>) {
        while let Some(wave) = self.first_active() {
            self.active.remove(wave.0);
            let entry = &mut self.waves[wave.at()];
            entry.is_active = false;
            entry.blocking.clear();
            entry.for_io.clear();
            entry.ready.clear();
            entry.early.clear();
        }
        self.active_count = 0;
        self.ring.clear(in_flight);
    }

    /// A read into the interval of a wave that was dropped has ended.
    pub fn end_dropped(&mut self, interval: u64) {
        self.ring.end_write(interval);
    }
}

#[cfg(test)]
mod tests;
