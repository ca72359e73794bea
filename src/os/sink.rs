//! Where log lines go: the host's hook, stderr, or nowhere.
//!
//! Lines are built in a fixed buffer on the caller's stack and handed over with no lock held. No
//! name that is in one can begin another.

use crate::base::abi::LogHook;
use crate::base::text::Text;
use crate::os::Os;
use core::fmt;

/// Severity, as `wavetrain_config.log_level` counts.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Level {
    /// Something that a user may want to know once.
    Info = 2,
    /// Data was skipped, or a call made no sense.
    Warn = 3,
    /// The stream ended.
    Error = 4,
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Sink {
    os: &'static Os,
    hook: LogHook,
    level: u32,
    quiet: bool,
}

// SAFETY: the hook's contract is that its function may be called from any thread.
unsafe impl Send for Sink {}
// SAFETY: by the same contract several threads may call it at once.
unsafe impl Sync for Sink {}

impl Sink {
    /// Lines of at least `level` go to the hook, and to stderr unless `quiet`.
    pub fn new(os: &'static Os, hook: LogHook, level: u32, quiet: bool) -> Sink {
        Sink { os, hook, level, quiet }
    }

    /// Whether a line of this level would be seen by anyone.
    pub fn is_heard(&self, level: Level) -> bool {
        level as u32 >= self.level && (self.hook.log.is_some() || !self.quiet)
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
            // SAFETY: the text is NUL-terminated and outlives the call, as the contract asks.
            unsafe { log(self.hook.user, level as u32, tag, bytes.as_ptr().cast(), count) };
        }
        if !self.quiet {
            let mut shown = Text::<640>::new();
            writeln!(shown, "wavetrain: {line}");
            (self.os.write_stderr)(shown.as_bytes());
        }
    }
}
