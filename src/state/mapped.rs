//! Boxes with an affine map on their way through staging: planned, gathered, resampled.
//!
//! In: maps that the planner made, chunks that are done with, pieces that are over. Out: pieces for
//! workers, batches that miss one box less. `resampling` has the memory.

use crate::base::indexes::{ArraySlot, BatchSlot, WaveIndex};
use crate::state::State;
use crate::state::resampling::{Progress, ResamplePiece, Resampled, Resampling};
use crate::state::shared::Shared;
use crate::wave::ChunkTask;

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
        let (row, pieces) = (shared.box_row(slot, number), resampled.pieces());
        self.resampling.progress[row] =
            Progress { slot, number, shares: 1, next: 0, pieces, left: pieces };
        self.resampling.boxes.write(row, resampled);
        self.slots.add_remaining(slot, 1);
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
        // Tasks of blanks name the first box of their sample, and are not of that.
        if task.array == ArraySlot::NONE {
            return;
        }
        for pair in task.pair_first..task.pair_first + task.pair_count {
            let number = shared.tables.pairs.read(shared.tables.pair_row(wave, pair));
            if shared.box_record(task.slot, number).is_resampled {
                self.end_share(shared.box_row(task.slot, number));
            }
        }
    }

    /// The next piece for a worker.
    pub fn take_resample_piece(&mut self) -> Option<ResamplePiece> {
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
            let entry = &mut progress[row as usize];
            entry.next += 1;
            if entry.next == entry.pieces {
                ready.pop();
            }
            return Some(ResamplePiece { slot, number, piece });
        }
        None
    }

    /// A piece is over. With the last one its box is.
    pub fn end_resample_piece(&mut self, shared: &Shared, slot: BatchSlot, row: usize) {
        let Resampling { boxes, progress, holds, .. } = &mut self.resampling;
        let progress = &mut progress[row];
        assert!(progress.left > 0);
        progress.left -= 1;
        if progress.left > 0 {
            return;
        }
        let (first, bytes) = boxes.rows(row, 1)[0].place;
        if bytes > 0 {
            holds.give_back(first);
        }
        self.want_plan(true);
        if self.slots.sub_remaining(slot, 1) {
            self.complete_slot(shared, slot);
        }
    }
}
