//! Batches that another process filled: the slots of a consumer.
//!
//! ```text
//!        receive           release, and the last tensor
//!  Free ─────────▶ Held ────────────────────────────────▶ Free
//! ```
//!
//! In: an entry of a list. Out: a token, as of any batch. Samples and rows lie in memory of the
//! owner, which fills the slot again after it was given back.

use crate::base::indexes::BatchSlot;
use crate::batch::record::SlotState;
use crate::batch::slots::Slots;

/// A batch that another process filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The slot of its rows.
    pub slot: u32,
    /// The slot of its samples.
    pub place: u32,
    /// Its number.
    pub batch_id: u64,
    /// Samples.
    pub samples: u32,
    /// Those of them that failed.
    pub failed: u32,
}

impl Slots {
    /// Takes a batch that another process filled; its token.
    pub fn receive(&mut self, batch: &Received, now_ns: u64) -> u64 {
        let (slot, place) = (BatchSlot(batch.slot), u64::from(batch.place));
        let entry = self.go(slot, SlotState::Free, SlotState::Held);
        (entry.batch_id, entry.popped_ns) = (batch.batch_id, now_ns);
        (entry.sample_count, entry.failed_samples) = (batch.samples, batch.failed);
        self.free_places &= !(1 << place);
        self.rows.set_place(slot, place);
        self.token(slot)
    }
}
