//! The codes that a driver call returns, and their names.
//!
//! Source of the numbers and names: cuda.h of CUDA 13.0, `CUresult`.

use crate::base::status::Status;

/// `CUresult`: 0 is success. A plain number, because any driver may return one that is newer than
/// this list.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuResult(pub u32);

macro_rules! results {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl CuResult {
            $($(#[$doc])* pub const $name: CuResult = CuResult($code);)*
        }

        /// Every code that this module names, with the word that follows CUDA_ERROR_ in cuda.h.
        #[cfg(feature = "internals")]
        pub const RESULTS: &[(CuResult, &str)] = &[$((CuResult($code), stringify!($name))),*];
    };
}

results! {
    /// Done.
    SUCCESS = 0;
    /// An argument is wrong.
    INVALID_VALUE = 1;
    /// No device memory, or no memory that can be pinned.
    OUT_OF_MEMORY = 2;
    /// `cuInit` was not called.
    NOT_INITIALIZED = 3;
    /// The driver shuts down: the process is ending.
    DEINITIALIZED = 4;
    /// The library is a stub for linking.
    STUB_LIBRARY = 34;
    /// No device exists.
    NO_DEVICE = 100;
    /// A kernel image is wrong.
    INVALID_IMAGE = 200;
    /// No context is current, or it is not one.
    INVALID_CONTEXT = 201;
    /// No kernel image fits the device.
    NO_BINARY_FOR_GPU = 209;
    /// The PTX does not compile.
    INVALID_PTX = 218;
    /// The driver's compiler library is missing.
    JIT_COMPILER_NOT_FOUND = 221;
    /// The PTX is newer than the driver.
    UNSUPPORTED_PTX_VERSION = 222;
    /// Compilation of PTX was disabled.
    JIT_COMPILATION_DISABLED = 223;
    /// A system call of the driver failed.
    OPERATING_SYSTEM = 304;
    /// A handle is not one, or of another context.
    INVALID_HANDLE = 400;
    /// Something is in a state that forbids the call.
    ILLEGAL_STATE = 401;
    /// Queued work has not run yet; no failure.
    NOT_READY = 600;
    /// A kernel left its memory; the context is lost.
    ILLEGAL_ADDRESS = 700;
    /// A kernel failed in another way.
    LAUNCH_FAILED = 719;
    /// The fabric manager does not run yet.
    SYSTEM_NOT_READY = 802;
    /// The kernel module and the library are of different versions.
    SYSTEM_DRIVER_MISMATCH = 803;
    /// A forward compatibility library on a device that has none.
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804;
    /// The call is not allowed while a stream is captured.
    STREAM_CAPTURE_UNSUPPORTED = 900;
    /// A capture was broken.
    STREAM_CAPTURE_INVALIDATED = 901;
    /// Two captures met.
    STREAM_CAPTURE_MERGE = 902;
    /// A capture was ended in another stream than it was begun in.
    STREAM_CAPTURE_UNMATCHED = 903;
    /// A stream came into a capture and was not waited for in it.
    STREAM_CAPTURE_UNJOINED = 904;
    /// A capture depends on work outside of it.
    STREAM_CAPTURE_ISOLATION = 905;
    /// A capture met the legacy stream.
    STREAM_CAPTURE_IMPLICIT = 906;
    /// An event belongs to a capture.
    CAPTURED_EVENT = 907;
    /// A capture was ended on another thread than it was begun on.
    STREAM_CAPTURE_WRONG_THREAD = 908;
}

impl CuResult {
    /// Success as Ok.
    pub fn ok(self) -> Result<(), CuResult> {
        if self == CuResult::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// The result of a query: whether the work is done.
    pub fn is_done(self) -> Result<bool, CuResult> {
        match self {
            CuResult::SUCCESS => Ok(true),
            CuResult::NOT_READY => Ok(false),
            failed => Err(failed),
        }
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

    /// The fix if `cuInit` failed so.
    pub(super) fn init_advice(self) -> &'static str {
        match self {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
