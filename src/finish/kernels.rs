//! Passes that kernels do: queued on the post stream by the thread that has the device's job, each
//! slot's between two events.

use crate::base::indexes::BatchSlot;
use crate::batch::pieces::{Doer, Piece};
use crate::cuda::{DeviceEngine, Fault};
use crate::finish::PASSES;
use crate::state::Kernels;
use crate::state::device::bits;
use crate::state::lock::Lock;

fn kernels(piece: &Piece) -> &'static Kernels {
    let Some(kernels) = &PASSES[piece.pass].kernels else { unreachable!("workers do it") };
    kernels
}

/// Queues the passes that wait; whether one was found. In an entered context.
pub fn queue(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let mut progress = false;
    // Ends: the next pass of a slot begins when this thread has seen that the one before has run.
    loop {
        let Some(piece) = lock.lock().slots.next_piece(Doer::Kernels) else { return Ok(progress) };
        engine.begin_pass(piece.slot.0)?;
        (kernels(&piece).queue)(lock, engine, &piece)?;
        engine.end_pass(piece.slot.0)?;
        let state = &mut *lock.lock();
        state.slots.take_piece(&piece, Doer::Kernels);
        state.device.finishing |= 1 << piece.slot.0;
        progress = true;
    }
}

/// Looks whether those of some slots have run; whether they have.
pub fn poll(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let mut progress = false;
    let finishing = lock.lock().device.finishing;
    for slot in bits(finishing).map(BatchSlot) {
        if engine.has_passed(slot.0)? {
            let piece = lock.lock().slots.piece(slot, 0);
            (kernels(&piece).close)(lock, &piece, engine.pass_ns(slot.0));
            let state = &mut *lock.lock();
            state.device.finishing &= !(1 << slot.0);
            state.end_piece(lock.shared, slot);
            progress = true;
        }
    }
    Ok(progress)
}
