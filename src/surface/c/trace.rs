//! Events of stages, across the C surface.
//!
//! In: room for events of a caller, checked here once. Out: those that the ring has.

use super::in_instance;
use crate::base::abi::Event;
use crate::base::status::{Status, with_why};
use crate::fail;

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_trace(
    loader: u64,
    events: *mut Event,
    event_count: usize,
    event_bytes: usize,
    written: *mut usize,
) -> i32 {
    in_instance(loader, |instance| {
        with_why(|why| {
            if written.is_null() || events.is_null() && event_count > 0 {
                return Err(fail!(why, Invalid, "trace: events or written is NULL"));
            }
            if event_bytes < size_of::<Event>() {
                let least = size_of::<Event>();
                let text = "trace: event_bytes =";
                return Err(fail!(why, Invalid, "{text} {event_bytes}: an event has {least}"));
            }
            Ok(())
        })?;
        let mut count = 0;
        instance.trace(event_count, |event| {
            // SAFETY: there is room for `event_count` events, each in `event_bytes`, and there are
            // not more of them.
            unsafe { events.byte_add(count * event_bytes).write_unaligned(event) };
            count += 1;
        })?;
        // SAFETY: it is not NULL, and as the header says.
        unsafe { written.write_unaligned(count) };
        Ok(Status::Ok)
    })
}
