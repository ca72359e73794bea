//! Batches whose last chunk has been placed: which pass goes over their slots next, and who is to
//! look.
//!
//! `finish` has the list of passes, and does them. This module moves a slot from one to the next.

use crate::base::indexes::BatchSlot;
use crate::batch::pieces::Doer;
use crate::state::State;
use crate::state::lock::Condition;
use crate::state::shared::Shared;

impl State {
    /// The last chunk of a batch has been placed.
    pub fn complete_slot(&mut self, shared: &Shared, slot: BatchSlot) {
        if self.slots.complete(slot, shared.skips_errors()) {
            self.pass_over(shared, slot, 0);
        } else if self.slots.counts.reader(slot).is_some() {
            self.wakes.all(Condition::Box);
            // That of a caller who left.
            self.free_reader();
        } else {
            self.wakes.all(Condition::Batch);
        }
    }

    /// Begins the next pass that has something to do on a slot, from this one on. After the last
    /// its batch is ready.
    fn pass_over(&mut self, shared: &Shared, slot: BatchSlot, first: usize) {
        for (number, pass) in shared.passes.iter().enumerate().skip(first) {
            let pieces = (pass.begin)(self, shared, slot);
            if pieces.0 > 0 {
                let by_kernels = shared.engine().is_some() && pass.kernels.is_some();
                let by = if by_kernels { Doer::Kernels } else { Doer::Workers };
                self.slots.begin_pass(slot, number, pieces, by);
                return self.wakes.work();
            }
        }
        self.slots.finish(slot);
        self.wakes.all(Condition::Batch);
    }

    /// A piece of the pass over a slot is over.
    pub fn end_piece(&mut self, shared: &Shared, slot: BatchSlot) {
        if let Some(next) = self.slots.end_piece(slot) {
            self.pass_over(shared, slot, next);
        }
    }
}
