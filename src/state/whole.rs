//! Batches whose last chunk is there: which pass goes over their slots next, and who is to look.
//!
//! `finish` has the list of passes, and does them. Here a slot goes from one to the next.

use crate::base::arena::Carver;
use crate::base::indexes::BatchSlot;
use crate::batch::digests::Digests;
use crate::batch::pieces::{Doer, Piece, Pieces};
use crate::cuda::{DeviceEngine, Fault};
use crate::setup::settings::Settings;
use crate::state::State;
use crate::state::lock::{Condition, Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;

/// A pass over a slot.
pub struct Pass {
    /// Begins it on a slot: what there is to do.
    pub begin: fn(&mut State, &Shared, BatchSlot) -> Pieces,
    /// Does a piece on a worker; gives the lock, under which its result was handed in.
    pub run: for<'l> fn(&'l Lock, &Piece, Option<&mut SlabWriter>) -> Locked<'l>,
    /// What does it on a device in the place of workers.
    pub kernels: Option<Kernels>,
}

/// A pass that kernels do.
pub struct Kernels {
    /// Queues a piece on the post stream.
    pub queue: fn(&Lock, &DeviceEngine, &Piece) -> Result<(), Fault>,
    /// All pieces have run, in so many nanoseconds; this is the first.
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
            if pieces.count > 0 {
                let by_kernels = shared.engine().is_some() && pass.kernels.is_some();
                let by = if by_kernels { Doer::Kernels } else { Doer::Workers };
                self.slots.begin_pass(slot, number, pieces, by);
                return self.wakes.work();
            }
        }
        self.slots.finish(slot);
        self.wakes.all(Condition::Batch);
    }

    /// Pieces of the pass over a slot are over.
    pub fn end_pieces(&mut self, shared: &Shared, slot: BatchSlot, count: u64) {
        if let Some(next) = self.slots.end_pieces(slot, count) {
            self.pass_over(shared, slot, next);
        }
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
