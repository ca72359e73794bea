//! include/wavetrain_node.h: batches that another process fills.

use super::structs::{answer, string_from_c};
use crate::base::abi::Error;
use crate::fail;
use crate::os::SYSTEM;
use crate::surface::handles::attach_token;
use core::ffi::c_char;

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_attach(
    share_name: *const c_char,
    consumer: u32,
    timeout_ns: u64,
    loader: *mut u64,
    error: *mut Error,
) -> i32 {
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            if loader.is_null() {
                return Err(fail!(why, Invalid, "loader is NULL"));
            }
            let name = string_from_c("share_name", share_name, why)?;
            loader.write(attach_token(&SYSTEM, (name, consumer), timeout_ns, why)?);
            Ok(())
        })
    }
}
