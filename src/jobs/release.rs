//! Batch slots on their way back from the consumer of a device.
//!
//! In: batches that are released, after an event or not, and tensors that are deleted, on any
//! thread. Out: slots that wait for fences, which stand for all that was queued on their streams
//! before; `jobs::device` looks when they have run. None of these calls waits.
//!
//! A stream that is being captured is not touched: work that is queued on it would become part of
//! the graph, or break it. The slot stays `captured` until the capture is over, and whoever looks
//! at the device tries again. Invariant: a slot in state Fenced has its bit in `fenced` or in
//! `captured`, and the streams of a captured one are still known.

use crate::base::indexes::BatchSlot;
use crate::base::status::{Failure, Why};
use crate::batch::slots::SlotState;
use crate::cuda::{DeviceEngine, Event, Fault, Stream};
use crate::fail;
use crate::jobs::failures::fail_device;
use crate::state::device::bits;
use crate::state::lock::{Condition, Lock};
use crate::state::shared::Shared;
use crate::state::uses::Use;
use crate::state::{Life, State};

/// Makes a slot wait for an event, and for what is queued so far on the streams that it is used on.
/// False if one of them is being captured: then all but the event is to be done again.
fn queue_fences(
    engine: &DeviceEngine,
    slot: BatchSlot,
    event: Option<Event>,
    streams: impl Iterator<Item = Stream> + Clone,
) -> Result<bool, Fault> {
    let _context = engine.enter()?;
    if let Some(event) = event {
        engine.fence_event(slot.0, event)?;
    }
    engine.fence_streams(slot.0, streams)
}

/// A stream as the calling thread names it.
pub fn use_of(shared: &Shared, stream: Stream) -> Use {
    Use::of(stream, shared.os)
}

/// A batch is handed out: the stream that the config names is used for it.
pub fn note_consumer(shared: &Shared, state: &mut State, slot: BatchSlot) {
    if let Some(stream) = shared.engine().and_then(|engine| engine.consumer) {
        // The first of a slot: it has room.
        let _ = state.device.remember(slot, use_of(shared, stream));
    }
}

/// Whether batch `token` can be given back after an event; the event, if it must still be waited
/// for, or the call that failed. Err: it cannot, and stays held.
pub fn accept_event(
    lock: &Lock,
    token: u64,
    event: Option<Event>,
) -> Result<Result<Option<Event>, Fault>, Failure> {
    let shared = lock.shared;
    let Some(event) = event else { return Ok(Ok(None)) };
    if shared.engine().is_some() && lock.lock().slots.held(token).is_none() {
        return Err(no_such_batch(token));
    }
    check_event(shared, event, "the batch is still held")
}

/// The event, if it is to be waited for, or the call that failed. Err, and `outcome`: none that can
/// be.
pub fn check_event(
    shared: &Shared,
    event: Event,
    outcome: &str,
) -> Result<Result<Option<Event>, Fault>, Failure> {
    let mut why = Why::new();
    let status = match shared.engine().map(|engine| engine.is_event_over(event)) {
        Some(Ok(Some(is_over))) => return Ok(Ok((!is_over).then_some(event))),
        Some(Err(fault)) => return Ok(Err(fault)),
        Some(Ok(None)) => fail!(
            why,
            Unsupported,
            "the event was recorded in a stream that was being captured, so it stands for no \
             work, or it is destroyed: {outcome}. Record an event outside of captures, or give none"
        ),
        None => fail!(
            why,
            Unsupported,
            "batches of this loader are in host memory, which no event of a device is for: \
             {outcome}; give none"
        ),
    };
    Err(Failure::because(status, &why))
}

/// A slot is given back (`SlotState::Releasing`): on a device it is free after what is queued
/// so far on its ready stream and on those that its tensors were exported to, and after
/// `event`. Memory that is lent is the caller's at once. With no lock held. A failure, also one
/// that came before, ends the stream.
pub fn give_slot_back(
    lock: &Lock,
    slot: BatchSlot,
    event: Result<Option<Event>, Fault>,
) -> Result<(), Failure> {
    let shared = lock.shared;
    let is_lent = lock.lock().slots.loan_tag(slot).is_some();
    let Some(engine) = shared.engine().filter(|_| !is_lent) else {
        let failed = event.err();
        if let Some(fault) = &failed {
            fail_device(lock, fault);
        }
        let state = &mut *lock.lock();
        if state.slots.released(slot, false) {
            state.device.uses.get_mut(slot.at()).into_iter().for_each(|uses| uses.clear());
            state.slot_freed(shared);
            shared.sharing.attached.iter().for_each(|attached| attached.give_back(slot.0));
        }
        return release_result(failed);
    };
    let uses = lock.lock().device.uses[slot.at()].clone();
    let mut event = event;
    let mut failed = None;
    // A tensor that is deleted meanwhile was used until then, perhaps after the work that was
    // queued on its stream. Ends: a slot has a bounded number of tensors.
    let (is_fenced, mut guard) = loop {
        let streams = uses.iter().map(|each| each.seen_here(shared.os));
        let mut made = event.and_then(|event| queue_fences(engine, slot, event, streams.clone()));
        if let Err(fault) = made {
            fail_device(lock, &fault);
            failed = failed.or(Some(fault));
            // The stream has ended, but what was queued is still waited for before the memory goes.
            // A driver may report an old failure from any call, and the consumer's streams need not
            // live any longer, so it is tried again.
            made = queue_fences(engine, slot, event.unwrap_or(None), streams);
        }
        let mut guard = lock.lock();
        if !guard.slots.take_touched(slot) {
            break (made.unwrap_or(true), guard);
        }
        event = Ok(None);
    };
    let state = &mut *guard;
    if state.slots.released(slot, true) {
        state.slot_freed(shared);
    }
    if state.slots.state(slot) == SlotState::Fenced {
        state.device.hold_back(slot, is_fenced);
        state.wakes.work();
        if state.life == Life::Closing {
            state.wakes.all(Condition::Idle);
        }
    }
    release_result(failed)
}

/// The result of a release in which a call of the driver failed, or none did.
fn release_result(failed: Option<Fault>) -> Result<(), Failure> {
    let Some(fault) = failed else { return Ok(()) };
    let mut why = Why::new();
    let status = fail!(why, Cuda, "release: {fault}");
    Err(Failure::because(status, &why))
}

/// Tries again for the slots whose streams were captured when they were given back; whether one
/// of them has its fences now. By one thread at a time: the one that set `is_taken`.
pub fn fence_captured(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let captured = lock.lock().device.captured;
    let mut progress = false;
    for slot in bits(captured).map(BatchSlot) {
        let uses = lock.lock().device.uses[slot.at()].clone();
        let streams = uses.iter().map(|each| each.seen_here(lock.shared.os));
        if queue_fences(engine, slot, None, streams)? {
            lock.lock().device.hold_back(slot, true);
            progress = true;
        }
    }
    Ok(progress)
}

/// Whether the device has done all that was queued, by consumers too; false while another call
/// looks. On a device that fails, this waits for nothing: its close waits for the work that it did
/// not report by then.
pub fn is_device_at_rest(lock: &Lock) -> bool {
    let Some(engine) = lock.shared.engine() else { return true };
    // Two closes at once may both find that no job runs.
    if core::mem::replace(&mut lock.lock().device.is_taken, true) {
        return false;
    }
    let look = || {
        fence_captured(lock, engine)?;
        let has_captured = lock.lock().device.captured != 0;
        if has_captured { Ok(false) } else { engine.is_at_rest() }
    };
    // A driver may report an old failure from any call, and what is queued runs all the same.
    let is_at_rest = look().or_else(|_: Fault| look()).unwrap_or(true);
    lock.lock().device.is_taken = false;
    is_at_rest
}

pub fn no_such_batch(token: u64) -> Failure {
    let mut why = Why::new();
    let status =
        fail!(why, Invalid, "batch {token:#x} is not held: released before, or never popped");
    Failure::because(status, &why)
}
