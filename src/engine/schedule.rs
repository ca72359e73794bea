//! The choice of the next job.
//!
//! In: the state under the lock. Out: a job for a worker of a role, of the first kind of work that
//! has one.

use crate::finish;
use crate::jobs::read::{own, wait};
use crate::jobs::{assemble, device, load, look, look_array, look_up, parts, plan, resample};
use crate::state::State;
use crate::state::job::{Job, Role};
use crate::state::shared::Shared;
use crate::state::work::Work;

/// The next job for a worker of this role, or None while no job can be taken.
pub fn next_job(state: &mut State, shared: &Shared, role: Role) -> Option<Job> {
    let works = state.work_for(shared, role);
    let job = works.iter(role).find_map(|work| match work {
        Work::Device => Some(device::take(state)),
        Work::Plan => plan::take(state, shared, role),
        Work::Finish => finish::take(state, shared),
        Work::Resample => resample::take(state, shared),
        Work::Assemble => assemble::take(state, shared, role),
        Work::OwnRead => own::take(state, shared, role),
        Work::Look => look::take(state, shared),
        Work::LookArray => look_array::take(state),
        Work::Load => load::take(state),
        Work::Parts => parts::take(state),
        Work::LookUp => look_up::take(state, shared),
        Work::IoRead => wait::take_for_io(state, shared),
        Work::WaitingRead => wait::take(state, shared),
    });
    if job.is_some() {
        state.begin_job();
    }
    job
}
