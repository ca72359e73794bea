//! Boxes with an affine map on their way through staging: planned, gathered, resampled.
//!
//! In: maps that the planner made, chunks that are done with, pieces that are over. Out: pieces for
//! workers, batches that miss one box less. `resampling` has the memory.

use crate::base::indexes::{BatchSlot, WaveIndex};
use crate::device::{DATA_ALIGN, SlabPart};
use crate::resample::Cut;
use crate::state::State;
use crate::state::resampling::{Progress, ResamplePiece, Resampled, Resampling};
use crate::state::shared::Shared;
use crate::wave::ChunkTask;

/// Most places that a worker resamples at a time: some hundred microseconds of work.
const PIECE_PLACES: u64 = 1 << 15;

impl Shared {
    /// The places of a box in pieces, for workers, if it goes to a field. A piece fits into a slab
    /// that is empty.
    pub fn pieces(&self, resampled: &Resampled, field: u32) -> Cut {
        let bytes = u64::from(self.field(field).dtype_bytes);
        let most = match self.engine() {
            None => PIECE_PLACES,
            Some(_) => PIECE_PLACES.min((self.geometry.device.data_bytes - DATA_ALIGN) / bytes),
        };
        Cut::new(&resampled.map, &resampled.layout, most)
    }
}

impl State {
    /// Takes staging for box `number` of the batch in a slot; false until others are over. The
    /// planner has a share of it.
    pub fn begin_resampling(
        &mut self,
        shared: &Shared,
        (slot, number): (BatchSlot, u32),
        mut resampled: Resampled,
    ) -> bool {
        let bytes = resampled.bytes();
        let place = if bytes == 0 { Some(0) } else { self.resampling.holds.take(bytes) };
        let Some(first) = place else { return false };
        resampled.place = (first, bytes);
        let field = shared.box_record(slot, number).field;
        let (row, pieces) =
            (shared.box_row(slot, number), shared.pieces(&resampled, field).count());
        self.resampling.progress[row] =
            Progress { slot, number, shares: 1, next: 0, pieces, left: pieces };
        self.resampling.boxes.write(row, resampled);
        self.slots.add_remaining(slot, pieces);
        true
    }

    /// A chunk of a box was planned.
    pub fn add_share(&mut self, row: usize) {
        let progress = &mut self.resampling.progress[row];
        assert!(progress.shares > 0);
        progress.shares += 1;
    }

    /// All chunks of a box are planned, if it has begun.
    pub fn end_planning(&mut self, row: usize) {
        if self.resampling.progress[row].shares > 0 {
            self.end_share(row);
        }
    }

    /// A chunk of a box is done with.
    pub fn end_share(&mut self, row: usize) {
        let progress = &mut self.resampling.progress[row];
        assert!(progress.shares > 0);
        progress.shares -= 1;
        if progress.shares == 0 {
            self.resampling.ready.push(row as u32);
            self.wakes.work();
        }
    }

    /// A task of a wave is done with.
    pub(super) fn end_shares(&mut self, shared: &Shared, wave: WaveIndex, task: &ChunkTask) {
        if !task.is_resampled {
            return;
        }
        for pair in task.pair_first..task.pair_first + task.pair_count {
            let number = shared.tables.pairs.read(shared.tables.pair_row(wave, pair));
            self.end_share(shared.box_row(task.slot, number));
        }
    }

    /// The next piece for a worker, which [`State::begin_resample_piece`] takes.
    pub fn next_resample_piece(&mut self) -> Option<ResamplePiece> {
        let Resampling { ready, progress, .. } = &mut self.resampling;
        // Boxes of early batches give way to others.
        for _ in 0..ready.len() {
            let row = ready.front()?;
            let Progress { slot, number, next: piece, .. } = progress[row as usize];
            if self.slots.is_early(slot) {
                ready.pop();
                ready.push(row);
                continue;
            }
            return Some(ResamplePiece { slot, number, piece });
        }
        None
    }

    /// A worker takes the next piece.
    pub fn begin_resample_piece(&mut self) {
        let Resampling { ready, progress, .. } = &mut self.resampling;
        let Some(row) = ready.front() else { unreachable!("there is a next piece") };
        let entry = &mut progress[row as usize];
        entry.next += 1;
        if entry.next == entry.pieces {
            ready.pop();
        }
    }

    /// A piece is over, and in its batch once that part of a slab has arrived. With the last piece
    /// its box is over.
    pub fn end_resample_piece(
        &mut self,
        shared: &Shared,
        (slot, row): (BatchSlot, usize),
        part: Option<SlabPart>,
    ) {
        let Resampling { boxes, progress, holds, .. } = &mut self.resampling;
        let progress = &mut progress[row];
        assert!(progress.left > 0);
        progress.left -= 1;
        if progress.left == 0 {
            let (first, bytes) = boxes.rows(row, 1)[0].place;
            if bytes > 0 {
                holds.give_back(first);
            }
            self.want_plan(true);
        }
        if let Some(part) = part {
            self.device.slabs.add_chunks(part.slab, slot, 1);
        } else if self.slots.sub_remaining(slot, 1) {
            self.complete_slot(shared, slot);
        }
        self.end_part(part);
    }
}
