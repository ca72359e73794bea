//! Memory for batches that callers lend, across the C surface.
//!
//! In: targets of the caller's, each checked here once. Out: a status; nothing here writes them.

use super::structs::read_sized;
use super::{in_instance, invalid};
use crate::base::abi::Target;
use crate::base::status::{Status, Why};
use crate::cuda::Event;
use core::ffi::c_void;

/// See the header. The driver gets `event`; this library does not look into it.
///
/// # Safety
/// Pointers are NULL or as the header says; the memory is the loader's until the caller has it back
/// as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_lend(
    loader: u64,
    targets: *const Target,
    n_targets: u32,
    target_bytes: u32,
    event: *mut c_void,
    tag: u64,
) -> i32 {
    in_instance(loader, |instance| {
        if targets.is_null() {
            return Err(invalid(format_args!("targets is NULL")));
        }
        let sizes = (target_bytes as usize, size_of::<Target>());
        let target = |number: usize, why: &mut Why| {
            let target = targets.wrapping_byte_add(number * sizes.0);
            // SAFETY: lend asks for fewer than `n_targets`, each of which has as many bytes.
            let target = unsafe { read_sized(target, sizes, "target_bytes", why)? };
            Ok((target.data.expose_provenance(), target.bytes))
        };
        // SAFETY: the event is NULL or lives until the call returns, as the caller promises.
        let event = unsafe { Event::from_raw(event) };
        let event = Some(event).filter(|event| !event.is_null());
        instance.lend(n_targets as usize, target, event, tag).map(|()| Status::Ok)
    })
}
