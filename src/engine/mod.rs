//! The instance: its memory, its threads, and the calls that the surfaces make.
//!
//! In: settings, samples. Out: batches. `take_job` and `run_job` are the only engine of work: own
//! threads, pump, jobs of the host's and waiting pops of an instance without threads all loop over
//! them, one bounded job at a time. A thread that finds no job sleeps without giving the lock up in
//! between.
//!
//! No lock is held while a job plans, waits for storage, decodes, or calls a hook.

pub mod calls;
pub mod figures;
pub mod host_threads;
pub mod open;
pub mod open_device;
pub mod run;
pub mod schedule;
pub mod threads;
pub mod ways_out;
