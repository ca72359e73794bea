//! Which thread does what, and when: ranges for the host's profiler, and events for the trace.
//!
//! In: the name of a stage, and what was observed of it. Out: calls of the host's hook, on the
//! thread that does the work, with no lock of the state held; an event in the ring for each
//! observation, so that both add up to the figures. A range ends where its value is dropped, so
//! ranges of one thread are nested as the scopes are. Names are the stages of
//! `wavetrain_stats_view`.
//!
//! Chunks take one branch at each end of a range, whether there is a hook, a ring or neither.

use crate::base::abi::{Event, NO_BATCH, NO_PLACE, ProfilerHook};
use crate::base::stats::Stage;
use crate::base::trace::Trace;
use crate::os::Os;
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

/// The place of an observation.
#[derive(Clone, Copy)]
pub struct At {
    /// The kernel's number of the thread; 0: of none.
    pub thread: u32,
    /// The wave; NO_PLACE: of none.
    pub wave: u32,
    /// The batch slot; NO_PLACE: of none.
    pub slot: u32,
}

impl At {
    /// No thread, wave or slot.
    pub const NOWHERE: At = At { thread: 0, wave: NO_PLACE, slot: NO_PLACE };

    /// The same of a wave.
    pub fn of_wave(self, wave: u32) -> At {
        At { wave, ..self }
    }

    /// The same of a slot.
    pub fn of_slot(self, slot: u32) -> At {
        At { slot, ..self }
    }
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Profiler {
    hook: ProfilerHook,
    /// The ring of events; None if nobody wants any.
    pub trace: Option<&'static Trace>,
    os: &'static Os,
    /// There is a hook or a ring.
    is_on: bool,
}

// SAFETY: the hook's contract is that its functions may be called from any thread.
unsafe impl Send for Profiler {}
// SAFETY: by the same contract several threads may call them at once.
unsafe impl Sync for Profiler {}

impl Profiler {
    /// Ranges go to the hook, where it has functions, events to the ring.
    pub fn new(hook: ProfilerHook, trace: Option<&'static Trace>, os: &'static Os) -> Profiler {
        Profiler { hook, trace, os, is_on: hook.begin.is_some() || trace.is_some() }
    }

    /// Begins a range that ends with the value.
    #[must_use]
    pub fn range(&self, name: &'static CStr) -> Range<'_> {
        if self.is_on {
            self.begin(name);
        }
        Range { profiler: self }
    }

    #[cold]
    fn begin(&self, name: &'static CStr) {
        if let Some(begin) = self.hook.begin {
            // SAFETY: the name has a NUL and lives as long as the program.
            unsafe { begin(self.hook.user, name.as_ptr()) };
        }
    }

    #[cold]
    fn end(&self) {
        if let Some(end) = self.hook.end {
            // SAFETY: ends the range that this thread began last, by the scopes.
            unsafe { end(self.hook.user) };
        }
    }

    /// The calling thread, if events are kept. It takes a call of the system: once for a job.
    pub fn here(&self) -> At {
        let thread = self.trace.map_or(0, |_| (self.os.thread_number)() as u32);
        At { thread, ..At::NOWHERE }
    }

    /// Keeps an event of a stage: when it began, and how long it took.
    pub fn keep(&self, stage: Stage, (begin_ns, duration_ns): (u64, u64), bytes: u64, at: At) {
        let Some(trace) = self.trace else { return };
        let At { thread, wave, slot } = at;
        let batch = trace.batch_of(slot).unwrap_or(NO_BATCH);
        let kind = stage as u32;
        trace.add(&Event { begin_ns, duration_ns, bytes, batch, kind, thread, wave, slot });
    }

    /// The same of a stage that took no time of its own.
    pub fn keep_moment(&self, stage: Stage, bytes: u64, at: At) {
        if self.trace.is_some() {
            self.keep(stage, ((self.os.now_ns)(), 0), bytes, at);
        }
    }
}

/// A range of the thread that began it.
pub struct Range<'a> {
    profiler: &'a Profiler,
}

impl Range<'_> {
    /// Keeps an event, and does not end the range.
    pub fn keep_more(&self, stage: Stage, time: (u64, u64), bytes: u64, at: At) {
        if self.profiler.is_on {
            self.profiler.keep(stage, time, bytes, at);
        }
    }

    /// Ends the range, and keeps an event as `Profiler::keep` does.
    pub fn keep(self, stage: Stage, time: (u64, u64), bytes: u64, at: At) {
        if self.profiler.is_on {
            self.profiler.keep(stage, time, bytes, at);
        }
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        if self.profiler.is_on {
            self.profiler.end();
        }
    }
}
