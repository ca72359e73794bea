//! Boxes that read memory of the device: the kernel reads it where it lies.
//!
//! In: boxes of batches that are being filled, whose elements the caller lends, each behind an
//! event or not. Out: units in a slab, which hold the address; nothing of the memory is copied. The
//! event is asked for, as often as the device is looked at, and no stream is made to wait for it:
//! so what is queued before it in a stream of the caller's holds nothing up but its batch. Boxes of
//! a batch go in their order, and wait for none of another batch.
//!
//! Invariant: a batch is complete only when the kernels have run that read memory for it, and reset
//! waits for them, so the memory is the caller's again when either is seen.

use crate::assemble::SampleBox;
use crate::assemble::changes::UnitChange;
use crate::assemble::units::{DeviceSample, for_each_outside, memory_piece};
use crate::base::indexes::{BatchSlot, Lane};
use crate::base::status::{Failure, Why};
use crate::cuda::{DeviceEngine, Fault};
use crate::device::SlabNeed;
use crate::fail;
use crate::jobs::failures::fail_sample;
use crate::jobs::sink::change_of;
use crate::records::{BoxRecord, DeviceMemory, Fed};
use crate::state::device::bits;
use crate::state::lock::Lock;
use crate::state::needs::NoRoom;
use crate::state::shared::Shared;

/// Boxes of a batch that one look at the device takes: a step stays short.
const BOXES_MAX: u32 = 64;

/// Sends the boxes whose memory is there on their way; whether there was one. In an entered
/// context, by one thread at a time.
pub fn send_boxes(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let (lending, mut progress) = (lock.lock().device.lending, false);
    for slot in bits(lending).map(BatchSlot) {
        for _ in 0..BOXES_MAX {
            if !send_next(lock, engine, slot)? {
                break;
            }
            progress = true;
        }
    }
    Ok(progress)
}

/// The same for the next box of a batch. False where it has none, its event is not over, or no slab
/// has room.
fn send_next(lock: &Lock, engine: &DeviceEngine, slot: BatchSlot) -> Result<bool, Fault> {
    let shared = lock.shared;
    let next = {
        let device = &lock.lock().device;
        if device.lending & (1 << slot.0) == 0 {
            return Ok(false);
        }
        device.lent[slot.at()].next
    };
    // Nobody binds other boxes to the slot before all of these are done with.
    let number = next_box(shared, slot, next);
    let (source, fed) = (shared.box_record(slot, number), shared.fed(slot, number));
    let Some(memory) = fed.on_device() else {
        unreachable!("a box that reads memory of a device is fed such")
    };
    let asked = match shared.fed_event(memory) {
        Some(event) => engine.is_lent_event_over(event)?,
        None => Ok(true),
    };
    match asked {
        Ok(false) => return Ok(false),
        Ok(true) => {}
        Err(named) => {
            let mut why = Why::new();
            let boxed = number % shared.settings.per_sample.boxes;
            let status = fail!(
                why,
                Cuda,
                "box {boxed}: tensor.event: cuEventQuery returned {named}: give an event that \
                 lives until the batch is popped, and was recorded outside of captures, or none"
            );
            fail_sample(lock, source.to(slot), &Failure::because(status, &why));
            let state = &mut *lock.lock();
            state.device.lent_one(slot, number + 1);
            if state.slots.sub_remaining(slot, 1) {
                state.complete_slot(shared, slot);
            }
            return Ok(true);
        }
    }
    Ok(send_box(lock, (slot, number), source, (fed, memory)).is_ok())
}

/// The first box from `next` on of the batch in a slot that reads memory of a device: there is one.
fn next_box(shared: &Shared, slot: BatchSlot, mut next: u32) -> u32 {
    let boxes = shared.settings.per_sample.boxes;
    // Ends: at the box that is there.
    loop {
        let record = shared.box_record(slot, next);
        match record.field == BoxRecord::EMPTY.field {
            // Of this sample there are no more.
            true => next += boxes - next % boxes,
            false if record.is_on_device => return next,
            false => next += 1,
        }
    }
}

/// Lays what the box reads of memory, and what lies outside of that, into a slab.
fn send_box(
    lock: &Lock,
    (slot, number): (BatchSlot, u32),
    source: &BoxRecord,
    (fed, memory): (&Fed, &DeviceMemory),
) -> Result<(), NoRoom> {
    let shared = lock.shared;
    let (field, pad) = (shared.field(source.field), shared.padding(source.field));
    let record = fed.whole_record();
    let cast = &field.checked_cast(&record);
    let (shape, strides) = (&source.shape, &field.strides);
    let first = shape.at * u64::from(field.dtype_bytes);
    let sample = SampleBox { record: &record, cast, shape, first, strides, pad: pad.mode };
    let address = shared.sample_region(source.to(slot)).as_ptr() as u64;
    let change = change_of(shared, &record, (slot, number), source);
    let change = change.and_then(|change| UnitChange::new(&change, &sample));
    let target = DeviceSample { sample, dtype: field.dtype, address, change };
    // Without an element there is no span, and nothing to read.
    let piece = fed.span().and_then(|bytes| memory_piece(&target, memory.address, bytes));
    let mut units = piece.map_or(0, |piece| piece.record_count());
    for_each_outside(&target, pad.element, |piece| units += piece.record_count());
    let slab = lock.lock().reserve(shared, Lane::Samples, SlabNeed::of(0, units))?;
    let part = slab.map(|mut slab| {
        piece.iter().for_each(|piece| {
            slab.push_piece(piece);
        });
        for_each_outside(&target, pad.element, |piece| {
            slab.push_piece(piece);
        });
        slab.finish()
    });
    // Only a loader with a device has such boxes.
    let Some(part) = part else { return Err(NoRoom) };
    let state = &mut *lock.lock();
    let read = piece.map_or(0, |piece| piece.unit.elements * u64::from(piece.unit.source_bytes));
    state.device.lent_bytes[part.slab as usize] += read;
    state.device.slabs.add_chunks(part.slab, slot, 1);
    state.end_part(Some(part));
    state.device.lent_one(slot, number + 1);
    Ok(())
}
