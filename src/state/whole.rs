//! Batches whose last chunk is there: which pass goes over their slots next, and who is to look.
//!
//! `finish` has the list of passes, and does them. Here a slot goes from one to the next.

use crate::base::indexes::BatchSlot;
use crate::batch::pieces::{Doer, Piece};
use crate::cuda::{DeviceEngine, Fault};
use crate::state::State;
use crate::state::lock::{Condition, Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;

/// A pass over a slot.
pub struct Pass {
    /// Begins it on a slot: how many pieces there are, 0 where there is nothing to do, and how many
    /// units of a slab each takes on its way to a device.
    pub begin: fn(&State, &Shared, BatchSlot) -> (u64, u32),
    /// Does a piece on a worker; gives the lock, under which its result was handed in.
    pub run: for<'l> fn(&'l Lock, &Piece, Option<&mut SlabWriter>) -> Locked<'l>,
    /// What does it on a device in the place of workers.
    pub kernels: Option<Kernels>,
}

/// A pass that kernels do, in one piece.
pub struct Kernels {
    /// Queues it on the post stream.
    pub queue: fn(&Lock, &DeviceEngine, &Piece) -> Result<(), Fault>,
    /// It has run, in so many nanoseconds.
    pub close: fn(&Lock, &Piece, u64),
}

impl State {
    /// The last chunk of a batch is there.
    pub fn complete_slot(&mut self, shared: &Shared, slot: BatchSlot) {
        if self.slots.complete(slot, shared.skips_errors()) {
            self.pass_over(shared, slot, 0);
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
