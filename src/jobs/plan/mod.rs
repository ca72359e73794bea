//! From waiting samples to waves of chunks.

pub mod ask;
pub mod bind;
pub mod boxes;
pub mod cut;
pub mod find;
pub mod foresee;
pub mod front;
pub mod keep;
mod levels;
pub mod look;
pub mod planned;
pub mod reader;
pub mod redo;
pub mod resample;
mod resolve;
pub mod whole;
pub mod window;

use crate::base::indexes::Lane;
use crate::base::stats::Stage;
use crate::jobs::plan::window::Planner;
use crate::os::profiler;
use crate::state::State;
use crate::state::job::{Job, Role};
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;

/// The job of a planner that is wanted; by one thread at a time.
pub fn take(state: &mut State, shared: &Shared, role: Role) -> Option<Job> {
    let lane = Lane::ALL.into_iter().rev().find(|lane| state.wants_plan(shared, *lane, role))?;
    state.plan_wanted[lane as usize] = false;
    state.planning[lane as usize] = true;
    Some(Job::Plan(lane))
}

/// Runs the planner for a bounded step; whether it got anywhere.
pub fn run(lock: &Lock, planner: &mut Planner) -> bool {
    let shared = lock.shared;
    let _range = shared.profiler.range(profiler::PLAN);
    let start = (shared.os.now_ns)();
    let progress = planner.run(lock);
    shared.observe(Stage::Plan, start, (0, 0), shared.profiler.here());
    progress
}

/// The planner is where others find it again.
pub fn settle(lock: &Lock, lane: Lane, progress: bool) -> Locked<'_> {
    let mut state = lock.lock();
    state.planning[lane as usize] = false;
    state.plan_wanted[lane as usize] |= progress;
    state
}
