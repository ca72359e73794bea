//! What the lock guards of the host's threads.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::math::index;
use crate::setup::settings::Settings;

/// What the lock guards of the host's threads.
pub struct HostThreads {
    /// Jobs that the host has and did not begin. A host that runs one twice makes it lower.
    pub queued: u32,
    /// The thread that is inside of `run`.
    pub submitter: Option<u64>,
    /// The host has run a job at once, on the submitter.
    pub is_inline: bool,
    /// Somebody found the submitter busy.
    pub is_wanted_again: bool,
    /// The thread that works on each context.
    pub holders: &'static mut [Option<u64>],
}

impl HostThreads {
    /// Nobody is at work.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings) -> HostThreads {
        HostThreads {
            queued: 0,
            submitter: None,
            is_inline: false,
            is_wanted_again: false,
            holders: carver.slice(Item::Workers, u64::from(settings.worker_count()), &None),
        }
    }

    /// Whether `run` is being called.
    pub fn is_submitting(&self) -> bool {
        self.submitter.is_some()
    }

    /// Whether the thread has a frame of ours below it.
    pub fn is_inside(&self, thread: u64) -> bool {
        self.submitter == Some(thread) || self.holders.contains(&Some(thread))
    }

    /// A step on a context is over.
    pub fn leave(&mut self, context: u32) {
        self.holders[index(u64::from(context))] = None;
    }
}
