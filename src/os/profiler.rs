//! Ranges for the host's profiler: which thread does what, and when.
//!
//! In: the name of a stage. Out: calls of the host's hook, on the thread that does the work, with
//! no lock of the state held. A range ends where its value is dropped, so ranges of one thread are
//! nested as the scopes are. Names are the stages of `wavetrain_stats_view`.

use crate::base::abi::ProfilerHook;
use core::ffi::CStr;

/// A planning step.
pub const PLAN: &CStr = c"plan";
/// A read of array metadata or of a shard index.
pub const META: &CStr = c"meta";
/// A read of chunk data.
pub const IO: &CStr = c"io";
/// The decoding of a chunk.
pub const DECODE: &CStr = c"decode";
/// The reading of a full batch for the digests of its samples.
pub const DIGEST: &CStr = c"digest";
/// The scatter of a chunk into its batch, or the filling of failed samples.
pub const ASSEMBLE: &CStr = c"assemble";

/// See the module.
#[derive(Clone, Copy)]
pub struct Profiler {
    hook: ProfilerHook,
}

// SAFETY: the hook's contract is that its functions may be called from any thread.
unsafe impl Send for Profiler {}
// SAFETY: by the same contract several threads may call them at once.
unsafe impl Sync for Profiler {}

impl Profiler {
    /// Ranges go to the hook, where it has functions.
    pub fn new(hook: ProfilerHook) -> Profiler {
        Profiler { hook }
    }

    /// Begins a range that ends with the value.
    #[must_use]
    pub fn range(&self, name: &'static CStr) -> Range<'_> {
        if let Some(begin) = self.hook.begin {
            // SAFETY: the name has a NUL and lives as long as the program.
            unsafe { begin(self.hook.user, name.as_ptr()) };
        }
        Range { hook: &self.hook }
    }
}

/// A range of the thread that began it.
pub struct Range<'a> {
    hook: &'a ProfilerHook,
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        if let Some(end) = self.hook.end {
            // SAFETY: ends the range that this thread began last, by the scopes.
            unsafe { end(self.hook.user) };
        }
    }
}
