//! The host's job system: a job of ours goes in, and is run when the host sees fit.
//!
//! The argument of a job is the loader's token, not an address: a job that the host runs after
//! close touches no memory that was given back.

use crate::base::abi::{HostJob, WorkersHook};
use core::ptr::without_provenance_mut;

/// See the module.
#[derive(Clone, Copy)]
pub struct Workers {
    hook: WorkersHook,
    job: HostJob,
    token: u64,
}

// SAFETY: the hook's contract is that its function may be called from any thread.
unsafe impl Send for Workers {}
// SAFETY: by the same contract several threads may call it at once.
unsafe impl Sync for Workers {}

impl Workers {
    /// Jobs go to the hook, where it has a function; `job` enters the loader of `token`.
    pub fn new(hook: WorkersHook, job: HostJob, token: u64) -> Workers {
        Workers { hook, job, token }
    }

    /// Whether the host runs jobs.
    pub fn is_there(&self) -> bool {
        self.hook.run.is_some()
    }

    /// Hands a job to the host, which may run it before this returns. No lock may be held.
    pub fn run(&self) {
        if let Some(run) = self.hook.run {
            // SAFETY: the job may be run on any thread at any time, and knows what to do with its
            // argument.
            unsafe { run(self.hook.user, self.job, without_provenance_mut(self.token as usize)) };
        }
    }
}
