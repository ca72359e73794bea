//! Boxes that are read into memory of the caller, across the C surface.
//!
//! In: a box and a target, each checked here once. Out: a status; nothing here writes the target.

use super::structs::{read_box, told};
use crate::base::abi::{Error, SampleBox};
use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, with_why};
use crate::engine::read::CallerMemory;
use crate::engine::requests::Request;
use crate::fail;
use crate::surface::handles::{Entered, enter};
use core::ffi::c_void;

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_read_into(
    loader: u64,
    source: *const SampleBox,
    box_bytes: usize,
    target: *mut c_void,
    target_bytes: u64,
    strides: *const i64,
    timeout_ns: u64,
    error: *mut Error,
) -> i32 {
    let instance = enter(loader);
    let read = |instance: &Entered| {
        let mut request = Request::empty();
        with_why(|why| match source.is_null() || target.is_null() {
            true => Err(fail!(why, Invalid, "the box or the target is NULL")),
            // SAFETY: the box has `box_bytes` bytes, and leads to what the header says.
            false => unsafe { read_box(&mut request, (source, box_bytes), why) },
        })?;
        // SAFETY: there is one for each axis of the box, if there are any.
        let strides = (!strides.is_null()).then(|| unsafe { read_strides(strides, request.rank) });
        let address = target.expose_provenance();
        let memory = CallerMemory { address, bytes: target_bytes, strides: strides.as_ref() };
        instance.read_into(&mut request, &memory, timeout_ns)
    };
    let result = instance.as_ref().map_or_else(|| Err(Failure::shutdown()), read);
    let Err(failure) = result else { return Status::Ok as i32 };
    if let Some(instance) = &instance {
        instance.set_call_error(&failure);
    }
    // SAFETY: the error is NULL or as the header says.
    unsafe { told(error, &failure) }
}

/// Copies the strides of a caller's, which may be unaligned.
///
/// # Safety
/// There are `rank` of them.
unsafe fn read_strides(strides: *const i64, rank: usize) -> [i64; RANK_MAX] {
    let mut copy = [0; RANK_MAX];
    for (axis, stride) in copy[..rank].iter_mut().enumerate() {
        // SAFETY: there are more than `axis`.
        *stride = unsafe { strides.add(axis).read_unaligned() };
    }
    copy
}
