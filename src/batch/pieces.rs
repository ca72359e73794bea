//! Passes over batches whose last chunk has been placed: which pass a slot is at, and which pieces
//! of it are handed out.
//!
//! In: a slot that is Finishing, and what a pass has to do on it. Out: pieces, those of the oldest
//! batch first, each for one job; which pass comes next.
//!
//! ```text
//!  complete ─▶ begin_pass ─▶ take_piece, .. ─▶ end_piece, .. ─▶ the last of them ─▶ finish
//!                  ▲                                                   │
//!                  └──────────── the next pass has pieces ─────────────┘
//! ```

use crate::base::indexes::BatchSlot;
use crate::batch::record::SlotState;
use crate::batch::slots::Slots;

/// The doers of the pieces of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doer {
    /// Workers.
    Workers,
    /// Kernels, which the thread of the device queues.
    Kernels,
}

/// A part of a pass over a slot that one job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The slot.
    pub slot: BatchSlot,
    /// Number of the pass.
    pub pass: usize,
    /// Number of the piece.
    pub number: u64,
    /// Units of a slab that it takes on its way to a device.
    pub units: u32,
    /// Samples of the batch.
    pub samples: u32,
    /// Position of the first of them in the stream.
    pub position: u64,
}

/// How far the pass over a slot is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    number: u32,
    units: u32,
    count: u64,
    /// Piece that is handed out next.
    next: u64,
    /// Pieces that are not over.
    left: u64,
}

impl Slots {
    /// A pass goes over a slot in `count` pieces, each of which takes `units` units of a slab.
    pub fn begin_pass(
        &mut self,
        slot: BatchSlot,
        number: usize,
        (count, units): (u64, u32),
        by: Doer,
    ) {
        let pass = &mut self.go(slot, SlotState::Finishing, SlotState::Finishing).pass;
        assert!(pass.left == 0 && count > 0);
        *pass = Progress { number: number as u32, units, count, next: 0, left: count };
        self.waiting[by as usize] |= 1 << slot.0;
    }

    /// Whether a piece is left that no worker has.
    pub fn has_piece(&self, by: Doer) -> bool {
        self.waiting[by as usize] != 0
    }

    /// The next piece of the oldest batch that has one.
    pub fn next_piece(&self, by: Doer) -> Option<Piece> {
        let waiting = self.each().filter(|slot| self.waiting[by as usize] & 1 << slot.0 != 0);
        let slot = waiting.min_by_key(|slot| self.batch_id(*slot))?;
        Some(self.piece(slot, self.slots[slot.at()].pass.next))
    }

    /// Piece `number` of the pass over a slot.
    pub fn piece(&self, slot: BatchSlot, number: u64) -> Piece {
        let entry = &self.slots[slot.at()];
        Piece {
            slot,
            pass: entry.pass.number as usize,
            number,
            units: entry.pass.units,
            samples: entry.sample_count,
            position: entry.position,
        }
    }

    /// Somebody has the piece that came next.
    pub fn take_piece(&mut self, piece: &Piece, by: Doer) {
        let progress = &mut self.slots[piece.slot.at()].pass;
        assert!(progress.next == piece.number);
        progress.next += 1;
        self.waiting[by as usize] &= !(u64::from(progress.next == progress.count) << piece.slot.0);
    }

    /// Pieces of the pass over a slot that are not over.
    pub fn pieces_left(&self, slot: BatchSlot) -> u64 {
        self.slots[slot.at()].pass.left
    }

    /// A piece is over. If it was the last: the number of the pass that comes next.
    #[must_use]
    pub fn end_piece(&mut self, slot: BatchSlot) -> Option<usize> {
        let pass = &mut self.go(slot, SlotState::Finishing, SlotState::Finishing).pass;
        assert!(pass.left > 0);
        pass.left -= 1;
        (pass.left == 0).then_some(pass.number as usize + 1)
    }

    /// No pass has anything to do on a slot any more.
    pub fn finish(&mut self, slot: BatchSlot) {
        assert!(self.pieces_left(slot) == 0);
        self.go(slot, SlotState::Finishing, SlotState::Ready);
    }
}
