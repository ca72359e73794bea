//! Passes that kernels do: queued on the post stream by the thread that has the device's job, each
//! slot's between two events.

use crate::base::indexes::BatchSlot;
use crate::batch::pieces::{Doer, Piece};
use crate::cuda::{DeviceEngine, Fault};
use crate::finish::PASSES;
use crate::state::device::bits;
use crate::state::lock::Lock;
use crate::state::whole::Kernels;

fn kernels(piece: &Piece) -> &'static Kernels {
    let Some(kernels) = &PASSES[piece.pass].kernels else { unreachable!("workers do it") };
    kernels
}

/// Queues the pieces that wait; whether there was one. In an entered context.
pub fn queue(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let mut progress = false;
    // Ends: the pieces of a slot are counted, and its next pass begins when this thread has seen
    // that they have run.
    loop {
        let piece = {
            let slots = &mut lock.lock().slots;
            let piece = slots.next_piece(Doer::Kernels);
            piece.inspect(|piece| slots.take_piece(piece, Doer::Kernels))
        };
        let Some(piece) = piece else { return Ok(progress) };
        if piece.number == 0 {
            engine.begin_digests(piece.slot.0)?;
        }
        (kernels(&piece).queue)(lock, engine, &piece)?;
        if piece.is_last {
            engine.end_digests(piece.slot.0)?;
            lock.lock().device.finishing |= 1 << piece.slot.0;
        }
        progress = true;
    }
}

/// Looks whether those of some slots have run; whether they have.
pub fn poll(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let (shared, mut progress) = (lock.shared, false);
    let finishing = lock.lock().device.finishing;
    for slot in bits(finishing) {
        if !engine.is_digested(slot)? {
            continue;
        }
        let slot = BatchSlot(slot);
        let (piece, count) = {
            let slots = &lock.lock().slots;
            (slots.piece(slot, 0), slots.pieces_left(slot))
        };
        (kernels(&piece).close)(lock, &piece, engine.digest_ns(slot.0));
        let state = &mut *lock.lock();
        state.device.finishing &= !(1 << slot.0);
        state.end_pieces(shared, slot, count);
        progress = true;
    }
    Ok(progress)
}
