//! A worker and its jobs: `run` does one, on the worker's own scratch and buffers.
//!
//! In: a job that the state handed out. Out: the lock, under which its result was handed in. No
//! lock is held while files are read, chunks decoded or rows written.

use crate::engine::Engine;
use crate::finish;
use crate::jobs::read::{ask, cached, wait};
use crate::jobs::{assemble, device, load, look, look_array, look_up, parts, plan, resample};
use crate::state::job::Job;
use crate::state::lock::Locked;
use crate::state::worker::Worker;
use core::sync::atomic::Ordering::Relaxed;

impl Engine {
    /// Does the job and hands the result in.
    pub fn run<'l>(&'l self, worker: &mut Worker, job: Job) -> Locked<'l> {
        let lock = &self.lock;
        self.shared.stats.worker_steps.fetch_add(1, Relaxed);
        match job {
            Job::Plan(lane) => {
                // One worker at a time gets this job, and puts the planner back.
                let place = &self.planners[lane as usize];
                let planner = place.lock().take();
                assert!(planner.is_some());
                let Some(planner) = planner else { return lock.lock() };
                let progress = plan::run(lock, planner);
                *place.lock() = Some(planner);
                plan::settle(lock, lane, progress)
            }
            Job::LoadArray { array, large } => load::run(lock, worker, array, large),
            Job::LoadParts(slice) => parts::run(lock, worker, &slice),
            Job::Look(looks) => look::run(lock, &looks),
            Job::LookArray { array, version } => look_array::run(lock, array, version),
            Job::Locate { request, question, lease, large } => {
                look_up::run(lock, worker, (request, &question), &lease, large)
            }
            Job::Read { wave, op, read, target, lease, cached_only, ticket } => {
                wait::run(lock, (wave, op), (&read, target), &lease, (cached_only, ticket))
            }
            Job::Ask { wave, op, read, target } => ask::run(lock, (wave, op), &read, target),
            Job::Stream { wave, first, count, staged_ns, lease, window, slab } => {
                cached::run(lock, worker, (wave, first, count, staged_ns), (&lease, window), slab)
            }
            Job::Assemble { wave, first, count, staged_ns, large, slab } => {
                assemble::run(lock, worker, (wave, first, count, staged_ns), (large, slab))
            }
            Job::Resample { piece, slab } => resample::run(lock, &piece, slab),
            Job::Finish { piece, slab } => finish::run(lock, &piece, slab),
            Job::Device => device::run(lock).1,
        }
    }
}
