//! Batches whose last chunk is there: what their slots become, and who is to look.

use crate::base::arena::Carver;
use crate::base::indexes::BatchSlot;
use crate::batch::digests::Digests;
use crate::batch::slots::SlotState;
use crate::setup::settings::Settings;
use crate::state::State;
use crate::state::lock::Condition;
use crate::state::shared::Shared;

impl State {
    /// The last chunk of a batch is there.
    pub fn complete_slot(&mut self, shared: &Shared, slot: BatchSlot) {
        let state = self.slots.complete(slot, shared.skips_errors());
        self.note_whole(slot, state);
    }

    /// A slot whose last chunk is there, or whose failed samples are filled, became this.
    fn note_whole(&mut self, slot: BatchSlot, state: SlotState) {
        match state {
            SlotState::Patching => {}
            SlotState::Digesting => {
                self.digests.begin(slot, self.slots.sample_count(slot));
                self.wakes.work();
            }
            _ => self.wakes.all(Condition::Batch),
        }
    }

    /// The failed samples of a batch are filled.
    pub fn end_patch(&mut self, slot: BatchSlot) {
        self.patching &= !(1 << slot.0);
        let state = self.slots.patched(slot);
        self.note_whole(slot, state);
    }

    /// The digests of a batch are there.
    pub fn end_digests(&mut self, slot: BatchSlot) {
        self.slots.digested(slot);
        self.wakes.all(Condition::Batch);
    }
}

/// Digests of all batches, where they are asked for.
#[inline(never)] // as Carver::place
pub(super) fn carve_digests(carver: &mut Carver, settings: &Settings) -> Digests {
    let config = &settings.config;
    let (slots, fields) = match settings.per_sample.has_digest {
        true => (config.n_batch_slots, &settings.fields[..]),
        false => (0, &[][..]),
    };
    let bytes = fields.iter().map(|field| field.sample_bytes);
    Digests::carve(carver, (slots, config.samples_per_batch), bytes, settings.is_cuda())
}
