//! The DLPack functions of the C surface.
//!
//! In: batches. Out: tensors, which carry the deleters of `surface::deleters`.

use super::{in_instance, invalid, no_such_field};
use crate::base::limits::{FIELDS_MAX, TENSORS_PER_SLOT};
use crate::base::status::{Failure, Status, Why};
use crate::batch::exports::{DlManagedTensor, DlManagedTensorVersioned, Exported};
use crate::cuda::Stream;
use crate::fail;
use crate::jobs::tensors;
use crate::surface::deleters::DELETERS;
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
    // SAFETY: as the function asks.
    unsafe { export((loader, batch), field, stream, tensor, |exported| exported.versioned) }
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
    // SAFETY: as the function asks.
    unsafe { export((loader, batch), field, stream, tensor, |exported| exported.legacy) }
}

/// Hands a tensor over a batch out in one of its forms.
///
/// # Safety
/// `target` is NULL or writable.
unsafe fn export<T>(
    (loader, batch): (u64, u64),
    field: u32,
    stream: *mut c_void,
    target: *mut *mut T,
    form: fn(&Exported) -> NonNull<T>,
) -> i32 {
    in_instance(loader, |instance| {
        if target.is_null() {
            return Err(invalid("tensor is NULL"));
        }
        if field >= FIELDS_MAX {
            return Err(no_such_field(field));
        }
        let mut why = Why::new();
        if !stream.is_null() && instance.device().is_none() {
            let status = fail!(why, Unsupported, "stream is set, but the batch is in host memory");
            return Err(Failure::because(status, &why));
        }
        let is_one = instance.device().is_some() && stream.addr() != NO_STREAM;
        // SAFETY: on a device it is a stream of the caller's, as the header says.
        let stream = is_one.then(|| unsafe { Stream::from_raw(stream) });
        let Some(exported) = tensors::export(&instance.lock, (batch, field), stream, &DELETERS)?
        else {
            let status = fail!(
                why,
                Again,
                "the batch has {TENSORS_PER_SLOT} tensors that live, or was exported to as many \
                 streams: delete a tensor, or use one of the streams"
            );
            return Err(Failure::because(status, &why));
        };
        // SAFETY: it is not NULL, so it is writable.
        unsafe { target.write(form(&exported).as_ptr()) };
        Ok(Status::Ok)
    })
}
