//! The sink of log lines: the host's hook, stderr, or nowhere.
//!
//! Lines are built in a fixed buffer on the caller's stack and handed over with no lock held. No
//! name that is in one can begin another. Invariant: the hook is not called any more once `end` has
//! returned true.

use crate::base::abi::LogHook;
use crate::base::text::Text;
use crate::os::Os;
use core::fmt;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicU32};

/// Severity, as `wavetrain_config.log_level` counts.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Level {
    /// Each read that the planner makes.
    Trace = 0,
    /// Sizes that open has computed.
    Debug = 1,
    /// Something that a user may want to know once.
    Info = 2,
    /// Data was skipped, or a call made no sense.
    Warn = 3,
    /// The stream ended.
    Error = 4,
}

/// See the module.
pub struct Sink {
    os: &'static Os,
    hook: LogHook,
    level: u32,
    quiet: bool,
    /// The hook is not to be called any more. Written by `end`, read by all who log, each of whom
    /// counted itself among the callers before: one of the two sees the other.
    has_ended: AtomicBool,
    /// Threads that call the hook, or are about to.
    callers: AtomicU32,
}

// SAFETY: the hook's contract is that its function may be called from any thread.
unsafe impl Send for Sink {}
// SAFETY: by the same contract several threads may call it at once.
unsafe impl Sync for Sink {}

impl Sink {
    /// Lines of at least `level` go to the hook, and to stderr unless `quiet`.
    pub fn new(os: &'static Os, hook: LogHook, level: u32, quiet: bool) -> Sink {
        let (has_ended, callers) = (AtomicBool::new(false), AtomicU32::new(0));
        Sink { os, hook, level, quiet, has_ended, callers }
    }

    /// Whether a line of this level would be seen by anyone.
    pub fn is_heard(&self, level: Level) -> bool {
        level as u32 >= self.level && (self.hook.log.is_some() || !self.quiet)
    }

    /// Calls the hook no more; stderr gets its lines as before. Waits for calls that are under way
    /// for as long as `has_time` says; false where they go on, and then the hook is called as ever.
    pub fn end(&self, has_time: impl Fn() -> bool) -> bool {
        self.has_ended.store(true, SeqCst);
        while self.callers.load(SeqCst) > 0 {
            if !has_time() {
                self.has_ended.store(false, SeqCst);
                return false;
            }
            (self.os.yield_now)();
        }
        true
    }

    /// Logs one line about the sample with this tag (0: about none).
    pub fn log(&self, level: Level, tag: u64, args: fmt::Arguments<'_>) {
        if !self.is_heard(level) {
            return;
        }
        let mut line = Text::<600>::new();
        line.write_line(args);
        if let Some(log) = self.hook.log {
            let bytes = line.as_bytes_nul();
            let count = bytes.len() as u64 - 1;
            self.callers.fetch_add(1, SeqCst);
            if !self.has_ended.load(SeqCst) {
                // SAFETY: the text is NUL-terminated and outlives the call, as the contract asks.
                unsafe { log(self.hook.user, level as u32, tag, bytes.as_ptr().cast(), count) };
            }
            self.callers.fetch_sub(1, SeqCst);
        }
        if !self.quiet {
            let mut shown = Text::<640>::new();
            writeln!(shown, "wavetrain: {line}");
            (self.os.write_stderr)(shown.as_bytes());
        }
    }
}
