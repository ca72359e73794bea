//! Tensors of popped batches: handed out as DLPack, and deleted.
//!
//! In: the token of a held batch; the address of a tensor whose deleter is called. Out: a filled
//! record. `batch` stores under the lock which records live, so that a slot is bound again only
//! when its batch is released and the last tensor of it deleted.

use crate::base::limits::BUFFER_ALIGN;
use crate::base::status::{Failure, Status, Why};
use crate::batch::exports::{DEVICE_CPU, DEVICE_CUDA, Deleters, DlDevice, Exported, Source};
use crate::cuda::Stream;
use crate::fail;
use crate::jobs::failures::fail_device;
use crate::jobs::release::{give_slot_back, no_such_batch, use_of};
use crate::os::sink::Level;
use crate::state::Life;
use crate::state::lock::Lock;
use crate::state::shared::Shared;

/// A tensor over a field of a held batch, for work on `stream`, if one is to be waited for before
/// the slot is used again. None if as many live, or are waited for, as a slot has records for.
pub fn export(
    lock: &Lock,
    (token, field): (u64, u32),
    stream: Option<Stream>,
    deleters: &Deleters,
) -> Result<Option<Exported>, Failure> {
    let result = try_export(lock, (token, field), stream, deleters);
    if let Err(failure) = &result
        && failure.status == Status::Invalid
    {
        lock.shared.sink.log(Level::Warn, 0, format_args!("dlpack: {}", failure.text));
    }
    result
}

fn try_export(
    lock: &Lock,
    (token, field): (u64, u32),
    stream: Option<Stream>,
    deleters: &Deleters,
) -> Result<Option<Exported>, Failure> {
    let shared = lock.shared;
    let flaw = flaw_of(lock, stream)?;
    let state = &mut *lock.lock();
    if state.life == Life::Closing {
        return Err(Failure::shutdown());
    }
    let Some(slot) = state.slots.held(token) else { return Err(no_such_batch(token)) };
    check_field(shared, field)?;
    if let Some(flaw) = flaw {
        let mut why = Why::new();
        let status = fail!(why, Invalid, "stream is {flaw}");
        return Err(Failure::because(status, &why));
    }
    // A stream is remembered only when a tensor is handed out: it need not live any longer else.
    if !state.slots.has_tensor_room(slot, field) {
        return Ok(None);
    }
    if let Some(stream) = stream
        && !state.device.remember(slot, use_of(shared, stream))
    {
        return Ok(None);
    }
    let Some(number) = state.slots.take_tensor(slot, field) else { return Ok(None) };
    let sample_count = state.slots.sample_count(slot);
    let source = Source {
        data: shared.field_region(slot, field, sample_count),
        device: match shared.engine() {
            None => DlDevice { device_type: DEVICE_CPU, device_id: 0 },
            Some(engine) => DlDevice { device_type: DEVICE_CUDA, device_id: engine.device() },
        },
        sample_count,
        sample_shape: shared.field(field).extents(),
        dtype: shared.field(field).dtype,
        dtype_bytes: shared.field(field).dtype_bytes,
        is_read_only: shared.sharing.is_read_only(),
    };
    let is_lent = state.slots.loan_tag(slot).is_some();
    assert!(is_lent || (source.data.as_ptr() as u64).is_multiple_of(BUFFER_ALIGN));
    // Filled under the lock: a deleter that is called twice may name this very record.
    Ok(Some(shared.exports.fill((slot, field, number), &source, deleters)))
}

/// Whether a batch has this tensor.
pub fn check_field(shared: &Shared, field: u32) -> Result<(), Failure> {
    let count = shared.settings.fields.len();
    if (field as usize) < count {
        return Ok(());
    }
    let text = format_args!("field = {field}: a batch has {count}, counted from 0");
    Err(Failure::of(Status::Invalid, text))
}

/// Why a consumer's stream will not do. A driver that fails ends the stream.
fn flaw_of(lock: &Lock, stream: Option<Stream>) -> Result<Option<&'static str>, Failure> {
    let (Some(engine), Some(stream)) = (lock.shared.engine(), stream) else { return Ok(None) };
    engine.flaw_of_export(stream).map_err(|fault| {
        fail_device(lock, &fault);
        let mut why = Why::new();
        let status = fail!(why, Cuda, "dlpack: {fault}");
        Failure::because(status, &why)
    })
}

/// Whether a tensor at this address is one of this loader's records, dead or alive.
pub fn has_tensor(shared: &Shared, address: usize) -> bool {
    shared.exports.find(address).is_some()
}

/// The tensor at this address is not used any more. Nothing if it does not live.
pub fn delete_tensor(lock: &Lock, address: usize) {
    let Some(tensor) = lock.shared.exports.find(address) else { return };
    if lock.lock().slots.delete_tensor(tensor) {
        // A failure ended the stream and was logged; a deleter has nobody to tell.
        let _ = give_slot_back(lock, tensor.0, Ok(None));
    }
}
