//! Every outcome that a call can have, and the text that goes with a failure.
//!
//! Negative is an error, zero is success, positive is "not now". The numbers are the C ABI
//! (`wavetrain_status` in include/wavetrain.h) and never change.

use crate::base::limits::{ERROR_TEXT_BYTES, RANK_MAX};
use crate::base::text::Text;
use core::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $status:ident = $code:literal, $name:literal;)+) => {
        /// The outcome of a call or of a sample.
        #[repr(i32)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Status { $($(#[$doc])* $status = $code,)+ }

        /// All statuses, in the order of the header.
        pub const ALL: [Status; 17] = [$(Status::$status),+];

        impl Status {
            /// The status as the header spells it, without the prefix: "NOT_FOUND". NUL-terminated
            /// inside the archive, so that C gets the same bytes.
            pub fn name_nul(self) -> &'static str {
                match self { $(Status::$status => concat!($name, "\0"),)+ }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0, "OK";
    /// Not now: nothing was waited for, try again.
    Again = 1, "AGAIN";
    /// The timeout of pop ran out; a later pop still gets the same batch.
    Starved = 2, "STARVED";
    /// Flushed and every batch popped.
    End = 3, "END";
    /// The owner of shared batches began its stream anew.
    Reset = 4, "RESET";
    /// An argument or config field is wrong; the text names it.
    Invalid = -1, "INVALID";
    /// The named array does not exist.
    NotFound = -2, "NOT_FOUND";
    /// There is no cast from the array's type to the output type.
    Dtype = -3, "DTYPE";
    /// The box and the array or the sample shape have ranks that do not fit.
    Rank = -4, "RANK";
    /// The system or a file hook failed to open or read something that is there.
    Io = -5, "IO";
    /// Bytes of the store are not what the format says.
    Decode = -6, "DECODE";
    /// Well-formed, but something that wavetrain does not read.
    Unsupported = -7, "UNSUPPORTED";
    /// A CUDA driver call failed.
    Cuda = -8, "CUDA";
    /// The system or the caller's allocator gave no memory, thread or handle at open.
    OutOfMemory = -9, "OUT_OF_MEMORY";
    /// A configured cap is too small; the text names it and the floor.
    Budget = -10, "BUDGET";
    /// The loader was closed, never opened, or belongs to the parent process.
    Shutdown = -11, "SHUTDOWN";
    /// A defect in wavetrain itself.
    Internal = -12, "INTERNAL";
}

impl Status {
    /// The status as the header spells it, without the prefix: "NOT_FOUND".
    pub fn name(self) -> &'static str {
        self.name_nul().trim_end_matches('\0')
    }

    /// The status with this number, if there is one.
    pub fn from_code(code: i32) -> Option<Status> {
        ALL.into_iter().find(|status| *status as i32 == code)
    }

    /// Whether `on_error = skip` may go on after this status: the fault is the data's, not ours.
    pub fn is_skippable(self) -> bool {
        matches!(
            self,
            Status::Invalid
                | Status::NotFound
                | Status::Dtype
                | Status::Rank
                | Status::Io
                | Status::Decode
                | Status::Unsupported
                | Status::Budget
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sentence that says what failed and what to do about it. Functions that can fail take one by
/// reference and return the bare status, so that a failure costs no large return value.
pub type Why = Text<ERROR_TEXT_BYTES>;

impl Why {
    /// Replaces the text by `args`, as one line, and returns `status`:
    /// `return Err(why.fail(status, ..))`.
    #[cold]
    #[inline(never)] // there are hundreds of calls
    pub fn fail(&mut self, status: Status, args: fmt::Arguments<'_>) -> Status {
        self.clear();
        self.write_line(args);
        status
    }
}

/// Everything that is known of a failure.
#[derive(Clone)]
pub struct Failure {
    /// What kind.
    pub status: Status,
    /// What failed and what to do about it.
    pub text: Why,
    /// Tag of the sample to blame.
    pub tag: u64,
    /// Batch of that sample.
    pub batch_id: u64,
    /// Its index in the batch.
    pub sample: u32,
    /// Coordinates of the chunk in the array's chunk grid; empty where no chunk is to blame.
    pub chunk: arrayvec::ArrayVec<u64, RANK_MAX>,
}

impl Failure {
    /// A failure without a text.
    pub const fn new(status: Status) -> Failure {
        Failure {
            status,
            text: Why::new(),
            tag: 0,
            batch_id: 0,
            sample: 0,
            chunk: arrayvec::ArrayVec::new_const(),
        }
    }

    /// There is no loader, or none that takes the call.
    pub fn shutdown() -> Failure {
        let text = "the loader is closed or being closed, was never opened, or belongs to the \
                    process that this one was forked from: open another";
        Failure::of(Status::Shutdown, format_args!("{text}"))
    }

    /// A failure that no sample is to blame for, in these words.
    #[cold]
    pub fn of(status: Status, args: fmt::Arguments<'_>) -> Failure {
        let mut failure = Failure::new(status);
        failure.text.fail(status, args);
        failure
    }

    /// A failure that no sample is to blame for.
    pub fn because(status: Status, why: &Why) -> Failure {
        Failure { text: *why, ..Failure::new(status) }
    }
}

/// Makes a call that says why it failed; a failure holds the text.
pub fn with_why<T>(call: impl FnOnce(&mut Why) -> Result<T, Status>) -> Result<T, Failure> {
    let mut why = Why::new();
    call(&mut why).map_err(|status| Failure::because(status, &why))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.text)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Failure {}

/// `fail!(why, Decode, "shard {} is short", name)` is the status with its text filled.
#[macro_export]
#[doc(hidden)]
macro_rules! fail {
    ($why:expr, $status:ident, $($text:tt)+) => {
        $why.fail($crate::base::status::Status::$status, core::format_args!($($text)+))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_own_status() {
        for status in ALL {
            assert_eq!(Status::from_code(status as i32), Some(status));
            assert!(status.name_nul().ends_with('\0'));
            let name = std::format!("{status:?}").to_uppercase();
            assert_eq!(status.name().replace('_', ""), name);
        }
        assert_eq!(Status::from_code(77), None);
    }
}
