//! Memory of the host that others have, pinned for the context of the thread that copies from it.
//!
//! In: memory that is mapped. Out: a driver's copies of it need no staging of the driver's. A
//! thread without a context, or without a driver, has plain memory.

use crate::base::arena::Region;
use crate::base::status::Why;
use crate::cuda::HAS_DEVICES;
use crate::cuda::context::Entered;
use crate::cuda::driver::Driver;
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::Context;

/// `CU_MEMHOSTREGISTER_PORTABLE`: for all contexts.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTREGISTER_READ_ONLY`: the memory cannot be written.
const READ_ONLY: u32 = 8;

/// Memory that is registered.
pub struct Registered {
    driver: &'static Driver,
    context: Context,
    place: Region,
}

impl Registered {
    /// Registers memory for the context that the calling thread has, if it has one; else None.
    /// `said` gets the outcome, as text.
    pub fn take(place: Region, is_read_only: bool, said: &mut Why) -> Option<Registered> {
        let (driver, context) = Driver::in_use().filter(|_| HAS_DEVICES)?;
        let flags = PORTABLE | if is_read_only { READ_ONLY } else { 0 };
        let register = || -> Result<(), Fault> {
            let entered = Entered::new(driver, context)?;
            // SAFETY: the memory stays mapped until `end`.
            let registered = unsafe { entered.driver.mem_host_register(place, flags) };
            check(driver, "cuMemHostRegister", registered)
        };
        match register() {
            Ok(()) => {
                write!(said, ", pinned");
                Some(Registered { driver, context, place })
            }
            Err(fault) => {
                write!(said, ", not pinned: {fault}");
                None
            }
        }
    }

    /// Bytes that are pinned.
    pub fn bytes(&self) -> u64 {
        self.place.bytes()
    }

    /// Ends it, unless the context has ended before.
    pub fn end(&self) {
        if let Ok(entered) = Entered::new(self.driver, self.context) {
            // SAFETY: the memory was registered, and its batches are given back.
            let _ = unsafe { entered.driver.mem_host_unregister(self.place.start()) };
        }
    }
}
