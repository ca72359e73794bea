//! What the host's hooks come back with: jobs that it runs, reads that it completes.
//!
//! In: a token, which both carry instead of an address, so that one that comes after close, or
//! twice, touches no memory that was given back.

use crate::base::status::Status;
use crate::jobs::read::hook;
use crate::surface::c::in_instance;
use crate::surface::handles::enter;
use core::ffi::c_void;

/// The job that `workers.run` is given. Its argument is the token of a loader and no address.
pub extern "C" fn host_job(argument: *mut c_void) {
    if let Some(instance) = enter(argument.addr() as u64) {
        instance.run_host_job();
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_read_done(loader: u64, ticket: u64, result: i64) -> i32 {
    in_instance(loader, |instance| {
        hook::read_done(&instance.lock, ticket, result).map(|()| Status::Ok)
    })
}
