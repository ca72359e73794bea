//! What a driver call returns, and what it is called.
//!
//! Source of the numbers and names: cuda.h of CUDA 13.0, `CUresult`.

use crate::base::status::Status;
use core::fmt;

/// `CUresult`: 0 is success. A plain number, because any driver may return one that is newer than
/// this list.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuResult(pub u32);

macro_rules! results {
    ($($(#[$doc:meta])* $constant:ident = $code:literal, $name:ident;)*) => {
        impl CuResult {
            $($(#[$doc])* pub const $constant: CuResult = CuResult($code);)*
        }

        /// Every code that has a name here, with it.
        pub const RESULTS: &[(CuResult, &str)] =
            &[$((CuResult($code), stringify!($name))),*];
    };
}

results! {
    /// Done.
    SUCCESS = 0, CUDA_SUCCESS;
    /// An argument is wrong.
    INVALID_VALUE = 1, CUDA_ERROR_INVALID_VALUE;
    /// No device memory, or no memory that can be pinned.
    OUT_OF_MEMORY = 2, CUDA_ERROR_OUT_OF_MEMORY;
    /// `cuInit` was not called.
    NOT_INITIALIZED = 3, CUDA_ERROR_NOT_INITIALIZED;
    /// The driver shuts down: the process is ending.
    DEINITIALIZED = 4, CUDA_ERROR_DEINITIALIZED;
    /// The library is a stub for linking.
    STUB_LIBRARY = 34, CUDA_ERROR_STUB_LIBRARY;
    /// The device is in use by someone, or in an error state.
    DEVICE_UNAVAILABLE = 46, CUDA_ERROR_DEVICE_UNAVAILABLE;
    /// There is no device.
    NO_DEVICE = 100, CUDA_ERROR_NO_DEVICE;
    /// There is no device of this number.
    INVALID_DEVICE = 101, CUDA_ERROR_INVALID_DEVICE;
    /// A kernel image is wrong.
    INVALID_IMAGE = 200, CUDA_ERROR_INVALID_IMAGE;
    /// No context is current, or it is not one.
    INVALID_CONTEXT = 201, CUDA_ERROR_INVALID_CONTEXT;
    /// No kernel image fits the device.
    NO_BINARY_FOR_GPU = 209, CUDA_ERROR_NO_BINARY_FOR_GPU;
    /// Device memory is broken.
    ECC_UNCORRECTABLE = 214, CUDA_ERROR_ECC_UNCORRECTABLE;
    /// The PTX does not compile.
    INVALID_PTX = 218, CUDA_ERROR_INVALID_PTX;
    /// A link between devices is broken.
    NVLINK_UNCORRECTABLE = 220, CUDA_ERROR_NVLINK_UNCORRECTABLE;
    /// The driver's compiler library is missing.
    JIT_COMPILER_NOT_FOUND = 221, CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    /// The PTX is newer than the driver.
    UNSUPPORTED_PTX_VERSION = 222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    /// Compilation of PTX was disabled.
    JIT_COMPILATION_DISABLED = 223, CUDA_ERROR_JIT_COMPILATION_DISABLED;
    /// A system call of the driver failed.
    OPERATING_SYSTEM = 304, CUDA_ERROR_OPERATING_SYSTEM;
    /// A handle is not one, or of another context.
    INVALID_HANDLE = 400, CUDA_ERROR_INVALID_HANDLE;
    /// Something is in a state that forbids the call.
    ILLEGAL_STATE = 401, CUDA_ERROR_ILLEGAL_STATE;
    /// No such name.
    NOT_FOUND = 500, CUDA_ERROR_NOT_FOUND;
    /// Queued work has not run yet; no failure.
    NOT_READY = 600, CUDA_ERROR_NOT_READY;
    /// A kernel left its memory; the context is lost.
    ILLEGAL_ADDRESS = 700, CUDA_ERROR_ILLEGAL_ADDRESS;
    /// A kernel asks for more registers, threads or shared memory than there are.
    LAUNCH_OUT_OF_RESOURCES = 701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    /// A kernel ran too long.
    LAUNCH_TIMEOUT = 702, CUDA_ERROR_LAUNCH_TIMEOUT;
    /// The context was destroyed.
    CONTEXT_IS_DESTROYED = 709, CUDA_ERROR_CONTEXT_IS_DESTROYED;
    /// A kernel asserted.
    ASSERT = 710, CUDA_ERROR_ASSERT;
    /// The device's own fault.
    HARDWARE_STACK_ERROR = 714, CUDA_ERROR_HARDWARE_STACK_ERROR;
    /// A kernel has an instruction that the device does not.
    ILLEGAL_INSTRUCTION = 715, CUDA_ERROR_ILLEGAL_INSTRUCTION;
    /// A kernel read or wrote at an odd place.
    MISALIGNED_ADDRESS = 716, CUDA_ERROR_MISALIGNED_ADDRESS;
    /// A kernel mixed kinds of memory.
    INVALID_ADDRESS_SPACE = 717, CUDA_ERROR_INVALID_ADDRESS_SPACE;
    /// A kernel jumped away.
    INVALID_PC = 718, CUDA_ERROR_INVALID_PC;
    /// A kernel failed in another way.
    LAUNCH_FAILED = 719, CUDA_ERROR_LAUNCH_FAILED;
    /// The system forbids it.
    NOT_PERMITTED = 800, CUDA_ERROR_NOT_PERMITTED;
    /// The device or the driver cannot do it.
    NOT_SUPPORTED = 801, CUDA_ERROR_NOT_SUPPORTED;
    /// The fabric manager does not run yet.
    SYSTEM_NOT_READY = 802, CUDA_ERROR_SYSTEM_NOT_READY;
    /// The kernel module and the library are of different versions.
    SYSTEM_DRIVER_MISMATCH = 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    /// A forward compatibility library on a device that has none.
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE;
    /// The multi-process service does not answer.
    MPS_CONNECTION_FAILED = 805, CUDA_ERROR_MPS_CONNECTION_FAILED;
    /// The multi-process service takes no more clients.
    MPS_MAX_CLIENTS_REACHED = 808, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
    /// The call is not allowed while a stream is captured.
    STREAM_CAPTURE_UNSUPPORTED = 900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    /// A capture was broken.
    STREAM_CAPTURE_INVALIDATED = 901, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    /// Two captures met.
    STREAM_CAPTURE_MERGE = 902, CUDA_ERROR_STREAM_CAPTURE_MERGE;
    /// A capture was ended in another stream than it was begun in.
    STREAM_CAPTURE_UNMATCHED = 903, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    /// A stream came into a capture and was not waited for in it.
    STREAM_CAPTURE_UNJOINED = 904, CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    /// A capture depends on work outside of it.
    STREAM_CAPTURE_ISOLATION = 905, CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    /// A capture met the legacy stream.
    STREAM_CAPTURE_IMPLICIT = 906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    /// An event belongs to a capture.
    CAPTURED_EVENT = 907, CUDA_ERROR_CAPTURED_EVENT;
    /// A capture was ended on another thread than it was begun on.
    STREAM_CAPTURE_WRONG_THREAD = 908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    /// Anything else.
    UNKNOWN = 999, CUDA_ERROR_UNKNOWN;
}

impl CuResult {
    /// Success as Ok.
    pub fn ok(self) -> Result<(), CuResult> {
        if self == CuResult::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// Of a query: whether the work is done.
    pub fn is_done(self) -> Result<bool, CuResult> {
        match self {
            CuResult::SUCCESS => Ok(true),
            CuResult::NOT_READY => Ok(false),
            failed => Err(failed),
        }
    }

    /// The code's name in cuda.h, as far as it was known when this was written.
    pub fn name(self) -> Option<&'static str> {
        RESULTS.iter().find(|(code, _)| *code == self).map(|(_, name)| *name)
    }

    /// Whether a call in a stream was refused because that, or a stream which it orders, is being
    /// captured: nothing was queued, and it can be once the capture is over.
    pub fn is_of_capture(self) -> bool {
        matches!(
            self,
            CuResult::STREAM_CAPTURE_UNSUPPORTED
                | CuResult::STREAM_CAPTURE_INVALIDATED
                | CuResult::STREAM_CAPTURE_MERGE
                | CuResult::STREAM_CAPTURE_ISOLATION
                | CuResult::STREAM_CAPTURE_IMPLICIT
                | CuResult::CAPTURED_EVENT
        )
    }

    /// Whether the driver is gone because the process ends, as after exit with a loader open.
    pub fn is_of_exit(self) -> bool {
        self == CuResult::DEINITIALIZED
    }

    /// The status that a caller gets for a call that failed so.
    pub fn status(self) -> Status {
        if self == CuResult::OUT_OF_MEMORY { Status::OutOfMemory } else { Status::Cuda }
    }
}

impl fmt::Display for CuResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "CUDA error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_known_code_is_shown_by_its_name_and_number_and_an_unknown_one_by_its_number() {
        assert_eq!(CuResult(2).to_string(), "CUDA_ERROR_OUT_OF_MEMORY (2)");
        assert_eq!(CuResult(4242).to_string(), "CUDA error 4242");
    }

    #[test]
    fn a_query_tells_not_ready_from_a_failure() {
        assert_eq!(CuResult(0).is_done(), Ok(true));
        assert_eq!(CuResult(600).is_done(), Ok(false));
        assert_eq!(CuResult(700).is_done(), Err(CuResult::ILLEGAL_ADDRESS));
        assert_eq!(CuResult(600).ok(), Err(CuResult::NOT_READY));
    }

    #[test]
    fn codes_are_listed_once_in_order() {
        assert!(RESULTS.windows(2).all(|pair| pair[0].0.0 < pair[1].0.0));
    }

    #[test]
    fn only_out_of_memory_is_a_status_of_its_own() {
        assert_eq!(CuResult::OUT_OF_MEMORY.status(), Status::OutOfMemory);
        assert_eq!(CuResult::ILLEGAL_ADDRESS.status(), Status::Cuda);
    }
}
