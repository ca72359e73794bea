//! Chunks that could not be read: a list for whoever goes on after them.
//!
//! In: failures of chunks, as they happen. Out: each once, in that order, until the list is full;
//! `stats.bad_chunks` counts all of them. Invariant: a failed chunk is listed with the first batch
//! that needed it.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::limits::BAD_CHUNKS_MAX;
use crate::base::status::{Failure, Status};
use crate::setup::config::ON_ERROR_FAIL;
use crate::setup::settings::Settings;
use crate::state::State;

/// See the module.
pub struct BadChunks {
    failures: &'static mut [Failure],
    count: usize,
}

impl BadChunks {
    /// A list; without places if the stream ends with the first failure.
    pub fn carve(carver: &mut Carver, settings: &Settings) -> BadChunks {
        let is_kept = settings.config.on_error != ON_ERROR_FAIL;
        let most = if is_kept { BAD_CHUNKS_MAX as u64 } else { 0 };
        let failures = carver.slice_from(Item::BatchStates, most, |_| Failure::new(Status::Ok));
        BadChunks { failures, count: 0 }
    }

    /// Those that are listed.
    pub fn list(&self) -> &[Failure] {
        &self.failures[..self.count]
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }
}

impl State {
    /// Lists a chunk that failed first for a sample of the batch in a slot.
    pub fn note_bad_chunk(&mut self, (slot, sample): (BatchSlot, u32), failure: &Failure) {
        let BadChunks { failures, count } = &mut self.bad_chunks;
        let is_same = |other: &Failure| {
            other.chunk == failure.chunk && other.text.as_str() == failure.text.as_str()
        };
        if failures[..*count].iter().any(is_same) {
            return;
        }
        let Some(place) = failures.get_mut(*count) else { return };
        *count += 1;
        place.clone_from(failure);
        place.tag = self.slots.rows.tags(slot).read(sample as usize);
        (place.batch_id, place.sample) = (self.slots.batch_id(slot), sample);
    }
}
