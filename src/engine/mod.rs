//! Who works, and when: an open loader, its threads, and the calls that the surfaces make.
//!
//! In: settings, samples. Out: batches. `threads::take_job` and `run_job` are the only engine of
//! work: own threads, pump, jobs of the host's and waiting pops of a loader without threads all
//! loop over them, one bounded job at a time. A thread that finds no job sleeps without giving the
//! lock up in between.
//!
//! No lock is held while a job plans, waits for storage, decodes, or calls a hook.

mod affine;
pub mod attach;
mod augment;
mod axes;
pub mod calls;
pub mod close;
pub mod figures;
mod hello;
pub mod host_threads;
pub mod lend;
mod limits;
mod lists;
pub mod numa;
pub mod open;
pub mod open_device;
pub mod owner;
pub mod read;
pub mod requests;
pub mod run;
pub mod schedule;
pub mod segments;
mod stacks;
pub mod threads;
pub mod ways_out;

use crate::base::indexes::LANES;
use crate::engine::numa::Numa;
use crate::engine::requests::Drafts;
use crate::jobs::plan::window::Planner;
use crate::os::Thread;
use crate::os::sync::Mutex;
use crate::os::workers::Workers;
use crate::state::lock::Lock;
use crate::state::shared::Shared;
use crate::state::worker::Worker;

/// One open loader. Placed in its own arena; shared by reference.
pub struct Engine {
    /// What needs no lock.
    pub shared: &'static Shared,
    /// The state.
    pub lock: Lock,
    /// The host's job system.
    pub host: Workers,
    /// The planner of each lane. Whoever runs one takes it out, so that no lock is held meanwhile.
    pub planners: [Mutex<Option<&'static mut Planner>>; LANES],
    /// Drafts in which push fills samples of several boxes.
    pub drafts: Drafts,
    /// What each worker works with.
    pub workers: &'static [Mutex<Worker>],
    /// Our threads that close has not joined.
    pub threads: &'static [Mutex<Option<Thread>>],
    /// The NUMA node of memory and threads.
    pub numa: Numa,
}
