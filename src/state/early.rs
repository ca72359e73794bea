//! Early batches: reads of batches that have no memory yet, because others are popped first.
//!
//! In: reads that have ended, memory that is free. Out: reads whose chunks may be handed out.
//! Invariant: no chunk is handed out before its batch has memory. The chunks of a read lie in the
//! order in which their batches get it, and a wave takes a chunk of an early batch only in the
//! order of the plan. So staging memory that an early batch holds is never what an earlier one
//! waits for.

use crate::base::indexes::{Lane, WaveIndex};
use crate::batch::slots::{SlotState, Slots};
use crate::state::lock::Condition;
use crate::state::shared::Shared;
use crate::state::{Life, State};
use crate::wave::{ReadOp, Waves};

impl State {
    /// A slot that tensors held is free. A planner that had another to take did not wait for it,
    /// and is not called: the moment of a release must not decide which waves form.
    pub fn slot_freed(&mut self, shared: &Shared) {
        let is_only = self.slots.free_places() == 1 || self.slots.in_state(SlotState::Free) == 1;
        self.want_plan(is_only);
        // The records of early batches may have been given back.
        match self.life {
            Life::Closing => self.wakes.all(Condition::Idle),
            _ => self.place_early(shared),
        }
        self.wakes.work();
    }

    /// Memory was lent.
    pub fn place_came(&mut self, shared: &Shared) {
        self.want_plan(true);
        self.place_early(shared);
        self.wakes.work();
    }

    /// Whether a batch may be begun without memory: if reads have to be waited for.
    pub fn may_begin_early(&self, shared: &Shared) -> bool {
        shared.settings.early_batches() > 0 && self.must_wait(shared)
    }

    /// The bytes of a read have been read, or the chunk that it needs instead is ready.
    pub fn set_ready(&mut self, shared: &Shared, wave: WaveIndex, op: u32) {
        match self.is_next_early(shared, wave, op) {
            true => self.waves.set_early(wave, op),
            false => self.waves.set_ready(wave, op),
        }
    }

    /// Chunks of the read of a wave that is ready first were handed out. The rest of it may be
    /// early.
    pub fn keep_early(&mut self, shared: &Shared, wave: WaveIndex, op: u32) {
        let is_left = self.waves.waves[wave.at()].ready.front() == Some(op);
        if is_left && self.is_next_early(shared, wave, op) {
            self.waves.hold_back(wave);
        }
    }

    /// Gives memory that is free to early batches.
    pub fn place_early(&mut self, shared: &Shared) {
        // Ends: every turn gives memory to a batch.
        while let Some(slot) = self.slots.place_next() {
            if self.slots.sub_remaining(slot, 1) {
                self.complete_slot(shared, slot);
            }
            let State { slots, waves, .. } = self;
            waves.end_early(|waves, wave, op| is_next_early(shared, (slots, waves), wave, op));
            self.want_plan(true);
            self.wakes.work();
        }
    }

    /// Whether a read has a chunk of an early batch.
    pub fn is_early_read(&self, shared: &Shared, wave: WaveIndex, read: &ReadOp) -> bool {
        let last = shared.wave_row(wave, read.chunk_first + read.chunk_count - 1);
        self.slots.has_early() && self.slots.is_early(shared.tables.chunks.read(last).slot)
    }

    /// Active waves with chunks of early batches.
    pub fn early_waves(&self) -> u32 {
        let first = self.slots.placed_turn();
        let waves = self.waves.active_of(Lane::Samples);
        waves.filter(|wave| wave.last_turn >= first).count() as u32
    }

    fn is_next_early(&self, shared: &Shared, wave: WaveIndex, op: u32) -> bool {
        is_next_early(shared, (&self.slots, &self.waves), wave, op)
    }
}

/// Whether the first chunk of a read that was not handed out is of an early batch.
fn is_next_early(
    shared: &Shared,
    (slots, waves): (&Slots, &Waves),
    wave: WaveIndex,
    op: u32,
) -> bool {
    if !slots.has_early() {
        return false;
    }
    let read = shared.tables.ops.read(shared.wave_row(wave, op));
    let chunk = read.chunk_first + waves.next_chunk(wave, op);
    slots.is_early(shared.tables.chunks.read(shared.wave_row(wave, chunk)).slot)
}
