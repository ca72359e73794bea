//! Slots of boxes that are read into memory of callers.
//!
//! ```text
//!        take_reader        begin_reader          complete             end_reader
//!  Free ────────────▶ Queued ──────────▶ Filling ────────▶ Ready, Failed ───────▶ Free
//!   ▲                   └──drop_reader──┬──┘
//!   └──────complete──── Dropped ◀───────┘
//! ```
//!
//! Invariant: a caller has at most one slot, and no other call changes it; but reset frees all of
//! them, which a caller sees by the generation.

use crate::base::indexes::BatchSlot;
use crate::batch::record::{SlotRecord, SlotState};
use crate::batch::slots::Slots;

impl Slots {
    fn readers(&self) -> core::ops::Range<u32> {
        self.counts.batches()..self.counts.all()
    }

    /// A free slot, which is the caller's from now on, and its generation.
    pub fn take_reader(&mut self) -> Option<(BatchSlot, u32)> {
        let is_free = |slot: &BatchSlot| self.state(*slot) == SlotState::Free;
        let slot = self.readers().map(BatchSlot).find(is_free)?;
        let generation = self.slots[slot.at()].generation.wrapping_add(1);
        self.slots[slot.at()] = SlotRecord {
            state: SlotState::Queued,
            generation,
            sample_count: 1,
            remaining: 1,
            ..SlotRecord::default()
        };
        self.clear_failure(slot, 0);
        self.rows.tags(slot).write(0, 0);
        Some((slot, generation))
    }

    /// Readers that are no caller's.
    pub fn free_readers(&self) -> u32 {
        self.readers().filter(|at| self.state(BatchSlot(*at)) == SlotState::Free).count() as u32
    }

    /// How far the box of a caller is, None if a reset dropped it.
    pub fn reader_state(&self, (slot, generation): (BatchSlot, u32)) -> Option<SlotState> {
        let entry = &self.slots[slot.at()];
        (entry.generation == generation).then_some(entry.state)
    }

    /// Begins to plan a box; the number of its turn. None: its caller has left, and it is over.
    pub fn begin_reader(&mut self, slot: BatchSlot) -> Option<u64> {
        let turn = self.next_turn();
        let entry = &mut self.slots[slot.at()];
        if entry.state == SlotState::Dropped {
            entry.state = SlotState::Free;
            return None;
        }
        assert!(entry.state == SlotState::Queued);
        (entry.state, entry.turn) = (SlotState::Filling, turn);
        Some(turn)
    }

    /// The last chunk of a box has been placed.
    pub(super) fn complete_reader(&mut self, slot: BatchSlot) {
        let entry = &mut self.slots[slot.at()];
        assert!(entry.is_filling() && entry.remaining == 0);
        entry.state = match entry.state {
            SlotState::Dropped => SlotState::Free,
            _ if entry.failed_samples > 0 => SlotState::Failed,
            _ => SlotState::Ready,
        };
    }

    /// The caller has what became of its box.
    pub fn end_reader(&mut self, slot: BatchSlot) {
        let entry = &mut self.slots[slot.at()];
        assert!(matches!(entry.state, SlotState::Ready | SlotState::Failed));
        entry.state = SlotState::Free;
    }

    /// The caller leaves before its box is complete.
    pub fn drop_reader(&mut self, slot: BatchSlot) {
        let entry = &mut self.slots[slot.at()];
        assert!(matches!(entry.state, SlotState::Queued | SlotState::Filling));
        entry.state = SlotState::Dropped;
    }

    /// Drops all boxes; their callers are told.
    pub(super) fn reset_readers(&mut self) {
        for at in self.readers() {
            let entry = &mut self.slots[at as usize];
            if entry.state != SlotState::Free {
                entry.state = SlotState::Free;
                entry.generation = entry.generation.wrapping_add(1);
            }
        }
    }
}
