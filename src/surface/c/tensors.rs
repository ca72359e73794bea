//! The DLPack functions of the C surface.
//!
//! In: batches. Out: tensors, which carry the deleters of `surface::handles`.

use super::{in_taker, invalid};
use crate::base::limits::TENSORS_PER_SLOT;
use crate::base::status::{Failure, Status};
use crate::batch::exports::{DlManagedTensor, DlManagedTensorVersioned, Exported};
use crate::cuda::Stream;
use crate::jobs::tensors;
use crate::surface::handles::DELETERS;
use core::ffi::c_void;
use core::ptr::NonNull;

/// What stands for no stream: (void *)-1.
const NO_STREAM: usize = usize::MAX;

/// See the header.
///
/// # Safety
/// `tensor` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_dlpack(
    loader: u64,
    batch: u64,
    field: u32,
    stream: *mut c_void,
    tensor: *mut *mut DlManagedTensorVersioned,
) -> i32 {
    // SAFETY: `tensor` is NULL or writable.
    unsafe { export((loader, batch, field), stream, tensor, |exported| exported.versioned, true) }
}

/// See the header.
///
/// # Safety
/// `tensor` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_dlpack_legacy(
    loader: u64,
    batch: u64,
    field: u32,
    stream: *mut c_void,
    tensor: *mut *mut DlManagedTensor,
) -> i32 {
    // SAFETY: `tensor` is NULL or writable.
    unsafe { export((loader, batch, field), stream, tensor, |exported| exported.legacy, false) }
}

/// Hands a tensor over a batch out in the form that `take` picks. `has_flag`: the form has a flag
/// for memory that cannot be written.
///
/// # Safety
/// `target` is NULL or writable.
unsafe fn export<T>(
    (loader, batch, field): (u64, u64, u32),
    stream: *mut c_void,
    target: *mut *mut T,
    take: fn(&Exported) -> NonNull<T>,
    has_flag: bool,
) -> i32 {
    in_taker(loader, |instance| {
        if target.is_null() {
            return Err(invalid(format_args!("tensor is NULL")));
        }
        if instance.shared.sharing.is_read_only() && !has_flag {
            let text = "batches for all consumers are read-only, and this form of DLPack has no \
                        flag for that: export the versioned one, or copy";
            return Err(Failure::of(Status::Unsupported, format_args!("{text}")));
        }
        let has_device = instance.device().is_some();
        if !stream.is_null() && !has_device {
            let text = format_args!("stream is set, but the batch is in host memory");
            return Err(Failure::of(Status::Unsupported, text));
        }
        // SAFETY: on a device it is a stream of the caller's, as the header says.
        let stream =
            (has_device && stream.addr() != NO_STREAM).then(|| unsafe { Stream::from_raw(stream) });
        let exported = tensors::export(&instance.lock, (batch, field), stream, &DELETERS)?;
        let exported = exported.ok_or_else(|| {
            let text = format_args!(
                "the field has {TENSORS_PER_SLOT} tensors that live, or the batch was exported to \
                 as many streams: delete a tensor, or use one of the streams"
            );
            Failure::of(Status::Again, text)
        })?;
        // SAFETY: it is not NULL, so it is writable.
        unsafe { target.write(take(&exported).as_ptr()) };
        Ok(Status::Ok)
    })
}
