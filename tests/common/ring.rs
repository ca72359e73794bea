//! Whether rings can be tested on this machine.

use wavetrain::os::SYSTEM;
use wavetrain::os::uring::Ring;

/// Whether the kernel gives this process a ring; says so where it does not.
pub fn is_supported() -> bool {
    match Ring::open(&SYSTEM, 1) {
        Ok(mut ring) => ring.close().is_ok(),
        Err(errno) => {
            println!("skipped: no io_uring here: {errno}");
            false
        }
    }
}
