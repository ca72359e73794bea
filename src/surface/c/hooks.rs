//! What the host's hooks come back with: jobs that it runs, reads that it completes.
//!
//! In: a token, which both carry instead of an address, so that one that comes after close, or
//! twice, touches no memory that was given back.

use crate::base::status::Status;
use crate::jobs::read::hook;
use crate::surface::c::in_instance;

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_read_done(loader: u64, ticket: u64, result: i64) -> i32 {
    in_instance(loader, |instance| {
        hook::read_done(&instance.lock, ticket, result).map(|()| Status::Ok)
    })
}
