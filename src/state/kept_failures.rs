//! Why chunks for the cache failed, for tasks that were planned to wait for them.
//!
//! In: a slot of the cache whose chunk failed. Out: the reason, until nobody can ask for it.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::shelf::Shelf;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::state::State;

/// Most reasons of failed chunks that are remembered at a time; others are told without theirs.
const KEPT_FAILURES_MAX: u64 = 16;

/// Why the chunk in a slot of the cache failed.
#[derive(Clone, Copy)]
pub struct KeptFailure {
    pub(super) slot: u32,
    /// Its status.
    pub status: Status,
    /// The reason.
    pub why: Why,
}

impl KeptFailure {
    pub(super) fn carve(carver: &mut Carver) -> Shelf<KeptFailure> {
        let none = KeptFailure { slot: 0, status: Status::Ok, why: Why::new() };
        Shelf::new(carver.slice(Item::ChunkCache, KEPT_FAILURES_MAX, &none))
    }
}

impl State {
    /// The chunk in a slot failed, and nobody waits for it who was not told.
    pub fn abandon_kept(&mut self, slot: u32, status: Status, why: &Why) {
        self.chunks.abandon(slot);
        if !self.kept_failures.is_full() {
            self.kept_failures.push(KeptFailure { slot, status, why: *why });
        }
    }

    /// Why the chunk in a slot failed.
    pub fn kept_failure(&self, slot: u32) -> KeptFailure {
        let found = self.kept_failures.iter().find(|failure| failure.slot == slot);
        found.copied().unwrap_or_else(|| {
            let mut why = Why::new();
            let status = fail!(
                why,
                Decode,
                "the chunk failed in an earlier batch, whose error has the reason"
            );
            KeptFailure { slot, status, why }
        })
    }
}
