//! Codes in error texts: with the name that the driver has for them, and what to do.

use crate::cuda::driver::Driver;
use crate::cuda::result::CuResult;
use core::fmt;

/// A code as an error text shows it: "CUDA_ERROR_INVALID_PTX (218)".
#[derive(Clone, Copy)]
pub struct Named<'a> {
    driver: &'a Driver,
    code: CuResult,
}

impl<'a> Named<'a> {
    pub(super) fn new(driver: &'a Driver, code: CuResult) -> Named<'a> {
        Named { driver, code }
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code.name(), self.driver.error_name(self.code)) {
            (None, Some(name)) => write!(f, "{name} ({})", self.code.0),
            _ => self.code.fmt(f),
        }
    }
}

/// Why `cuInit` failed, and what to do.
pub struct InitRefusal<'a>(Named<'a>);

impl<'a> InitRefusal<'a> {
    pub(super) fn new(code: Named<'a>) -> InitRefusal<'a> {
        InitRefusal(code)
    }
}

impl fmt::Display for InitRefusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.0.code {
            CuResult::NO_DEVICE => {
                "there is no CUDA device: look at nvidia-smi and CUDA_VISIBLE_DEVICES"
            }
            CuResult::STUB_LIBRARY => {
                "this is the toolkit's stub for linking: take the stubs folder out of \
                 LD_LIBRARY_PATH"
            }
            CuResult::SYSTEM_DRIVER_MISMATCH => {
                "library and kernel module are of different versions: load the new module or \
                 restart"
            }
            CuResult::SYSTEM_NOT_READY => "the fabric manager does not run yet: start it",
            CuResult::COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                "the forward compatibility library does not know this device: take it out of \
                 LD_LIBRARY_PATH"
            }
            CuResult::OPERATING_SYSTEM => {
                "the kernel module is not loaded, or /dev/nvidia* is shut"
            }
            _ => "look at nvidia-smi",
        };
        write!(f, "cuInit says {}: {advice}, or set backend = host", self.0)
    }
}
