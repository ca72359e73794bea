//! Failures of a device, and their texts for the caller.

use crate::base::status::Status;
use crate::cuda::driver::Driver;
use crate::cuda::result::CuResult;
use core::fmt;

/// A call to the driver that failed, or work of the device.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The call and its code.
    Call(&'static str, CuResult, &'static Driver),
    /// The kernel refused a unit: the word that it wrote, the complement of its number.
    Kernel(u32),
    /// The kernel ran, and did not write its word.
    Silent,
    /// A wave has more tiles than a launch takes blocks.
    Tiles,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Call(call, code, driver) => write!(f, "{call} returned {}", driver.named(*code)),
            Fault::Kernel(word) => write!(f, "the assemble kernel refused unit {}", !word),
            Fault::Silent => f.write_str(
                "a kernel ran, and what it writes into pinned memory does not reach the \
                 host: update the NVIDIA driver, or set backend = host",
            ),
            Fault::Tiles => f.write_str(
                "samples of this size and padding give a wave of 2^31 thread blocks or more, which \
                 no launch takes: lower max_gpu_memory_bytes, for smaller waves, or sample_shape",
            ),
        }
    }
}

impl Fault {
    /// Whether the driver failed because the process ends.
    pub fn is_of_exit(&self) -> bool {
        matches!(self, Fault::Call(_, code, _) if code.is_of_exit())
    }

    /// The status of an open that it ends.
    pub fn status(&self) -> Status {
        match self {
            Fault::Call(_, code, _) => code.status(),
            Fault::Kernel(_) => Status::Internal,
            Fault::Silent => Status::Cuda,
            Fault::Tiles => Status::Unsupported,
        }
    }
}

/// The result of a call, with the name of its entry if it failed.
pub(super) fn check<T>(
    driver: &'static Driver,
    entry: &'static str,
    result: Result<T, CuResult>,
) -> Result<T, Fault> {
    result.map_err(|code| Fault::Call(entry, code, driver))
}
