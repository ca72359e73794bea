//! Passes over batches whose last chunk has been placed, before they are popped. A new pass is a
//! file of this room and a row of [`PASSES`].
//!
//! In: a slot that is Finishing, which `state::whole` leads through the list. Out: its rows, as the
//! pass left them, and what the pass found. A pass is cut into pieces. Workers do them; on a device
//! kernels do if the pass has some, else workers write units into slabs.

mod digest;
pub mod kernels;
mod patch;

use crate::base::indexes::Lane;
use crate::batch::pieces::{Doer, Piece};
use crate::device::SlabNeed;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::state::{Pass, State};

/// All passes, in the order in which they go over a slot.
pub static PASSES: [Pass; 2] = [patch::PASS, digest::PASS];

/// The next piece for a worker, if its memory has room.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let piece = state.slots.next_piece(Doer::Workers)?;
    let slab = state.reserve(shared, Lane::Samples, SlabNeed::of(0, piece.units)).ok()?;
    state.slots.take_piece(&piece, Doer::Workers);
    Some(Job::Finish { piece, slab })
}

/// Does a piece.
pub fn run<'l>(lock: &'l Lock, piece: &Piece, mut slab: Option<SlabWriter>) -> Locked<'l> {
    let mut state = (PASSES[piece.pass].run)(lock, piece, slab.as_mut());
    match slab.map(SlabWriter::finish) {
        // It ends when the slab has arrived.
        Some(part) => {
            state.device.slabs.add_chunks(part.slab, piece.slot, 1);
            state.end_part(Some(part));
        }
        None => state.end_piece(lock.shared, piece.slot),
    }
    state
}

#[cfg(test)]
mod digest_tests;
