//! Kernels, from the PTX that the library carries to functions that can be launched.
//!
//! In: PTX with a NUL, in an entered context. Out: a [`Module`], or a status with the first line of
//! what the driver's compiler said and what to do about it.

use crate::base::status::{Status, Why};
use crate::cuda::context::Entered;
use crate::cuda::driver::Driver;
use crate::cuda::handles::{Function, Module};
use crate::cuda::result::CuResult;
use crate::fail;
use core::ffi::CStr;

/// Bytes of the compiler's log that are kept.
const LOG_BYTES: usize = 1024;

/// Bytes of its first line that an error text shows.
const LOG_SHOWN_BYTES: usize = 160;

/// Compiles and loads `ptx`.
pub fn load(entered: &Entered, ptx: &CStr, why: &mut Why) -> Result<Module, Status> {
    let driver = entered.driver;
    let mut log = [0u8; LOG_BYTES];
    // The last byte stays a NUL.
    let loaded = driver.module_load(ptx, &mut log[..LOG_BYTES - 1]);
    loaded.map_err(|code| {
        let log = CStr::from_bytes_until_nul(&log).unwrap_or(c"").to_str().unwrap_or("");
        refusal(driver, code, log, why)
    })
}

/// The kernel `name` of a module.
pub fn function(
    entered: &Entered,
    module: Module,
    name: &CStr,
    why: &mut Why,
) -> Result<Function, Status> {
    let driver = entered.driver;
    driver.module_get_function(module, name).map_err(|code| {
        let (name, named) = (name.to_str().unwrap_or(""), driver.named(code));
        let call = "cuModuleGetFunction";
        fail!(why, Cuda, "the driver does not find kernel {name}: {call} returned {named}")
    })
}

/// Why PTX was refused.
fn refusal(driver: &Driver, code: CuResult, log: &str, why: &mut Why) -> Status {
    let advice = match code {
        CuResult::UNSUPPORTED_PTX_VERSION
        | CuResult::INVALID_PTX
        | CuResult::NO_BINARY_FOR_GPU
        | CuResult::INVALID_IMAGE => "update the NVIDIA driver to R525 or later",
        CuResult::JIT_COMPILER_NOT_FOUND => {
            "libnvidia-ptxjitcompiler.so.1 of the same version as the driver must be there, in a \
             container NVIDIA_DRIVER_CAPABILITIES=compute,utility mounts it"
        }
        CuResult::JIT_COMPILATION_DISABLED => {
            "CUDA_DISABLE_PTX_JIT forbids the kernels to be compiled: unset it"
        }
        CuResult::OUT_OF_MEMORY => "free device memory",
        _ => "look at nvidia-smi",
    };
    let line = log.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no log");
    let line = &line[..line.floor_char_boundary(line.len().min(LOG_SHOWN_BYTES))];
    let (named, version) = (driver.named(code), driver.version);
    let cuda = format_args!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    let said = format_args!("cuModuleLoadDataEx returned {named} ({line})");
    let refused = format_args!("the driver ({cuda}) refuses the kernels: {said}");
    why.fail(code.status(), format_args!("{refused}: {advice}, or set backend = host"))
}
