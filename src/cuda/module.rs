//! Kernels, from the PTX that the library carries to functions that can be launched.
//!
//! In: PTX with a NUL, in an entered context. Out: a [`Module`], or a status with the first line of
//! what the driver's compiler said and what to do about it.

use crate::base::status::{Status, Why};
use crate::cuda::context::Entered;
use crate::cuda::driver::Driver;
use crate::cuda::handles::{Function, JitOption, Module};
use crate::cuda::result::CuResult;
use crate::fail;
use core::ffi::{CStr, c_void};
use core::ptr;

/// Bytes of the compiler's log that are kept.
const LOG_BYTES: usize = 1024;

/// Bytes of its first line that an error text shows.
const LOG_SHOWN_BYTES: usize = 160;

/// Compiles and loads `ptx`.
pub fn load(entered: &Entered<'_>, ptx: &CStr, why: &mut Why) -> Result<Module, Status> {
    let driver = entered.driver();
    let mut log = [0u8; LOG_BYTES];
    let room = ptr::without_provenance_mut::<c_void>(LOG_BYTES - 1);
    let mut options = [
        (JitOption::ERROR_LOG_BUFFER, log.as_mut_ptr().cast::<c_void>()),
        (JitOption::ERROR_LOG_BUFFER_SIZE_BYTES, room),
    ];
    // SAFETY: the log has as many writable bytes as its size says, and a NUL behind them.
    let loaded = unsafe { driver.module_load_data_ex(ptx, &mut options) };
    loaded.map_err(|code| {
        let log = CStr::from_bytes_until_nul(&log).unwrap_or(c"").to_str().unwrap_or("");
        refusal(driver, code, log, why)
    })
}

/// The kernel `name` of a module.
pub fn function(
    entered: &Entered<'_>,
    module: Module,
    name: &CStr,
    why: &mut Why,
) -> Result<Function, Status> {
    let driver = entered.driver();
    driver.module_get_function(module, name).map_err(|code| {
        fail!(
            why,
            Cuda,
            "the driver does not find kernel {}: cuModuleGetFunction says {}",
            name.to_str().unwrap_or(""),
            driver.named(code)
        )
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
    let code_shown = driver.named(code);
    why.fail(
        code.status(),
        format_args!(
            "the driver (CUDA {}.{}) refuses the kernels: cuModuleLoadDataEx says {code_shown} \
             ({line}): {advice}, or set backend = host",
            driver.version() / 1000,
            driver.version() % 1000 / 10
        ),
    )
}
