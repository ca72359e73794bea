//! A worker and its jobs: `run` does one, on the worker's own scratch and buffers.
//!
//! In: a job that the state handed out. Out: its result, handed in under the lock. No lock is held
//! while files are read, chunks decoded or rows written.

use crate::cuda::HAS_DEVICES;
use crate::jobs::assemble::run_assemble;
use crate::jobs::device::run_device;
use crate::jobs::load::run_load;
use crate::jobs::look_up::run_locate;
use crate::jobs::patch::run_patch;
use crate::jobs::read::cached::run_stream;
use crate::jobs::read::wait::run_read;
use crate::os::profiler;
use crate::state::job::Job;
use crate::state::shared::Instance;
use crate::state::worker::Worker;
use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;

/// Does the job and hands the result in.
pub fn run(instance: &Instance, worker: &mut Worker, job: Job) {
    instance.stats.worker_steps.fetch_add(1, Relaxed);
    // Jobs that decode have a range for each chunk instead.
    let _range = range_name(&job).map(|name| instance.profiler.range(name));
    match job {
        Job::Plan => run_plan(instance),
        Job::LoadArray { array, large } => run_load(instance, worker, array, large),
        Job::Locate { request, question, lease } => {
            run_locate(instance, worker, request, &question, &lease);
        }
        Job::Read { wave, op, read, lease, cached_only, ticket } => {
            run_read(instance, (wave, op), &read, &lease, (cached_only, ticket));
        }
        Job::Stream { wave, first, count, lease, part } => {
            run_stream(instance, worker, (wave, first, count), &lease, part.as_ref());
        }
        Job::Assemble { wave, first, count, large, part } => {
            run_assemble(instance, worker, (wave, first, count), (large, part));
        }
        Job::Patch { slot, part } => run_patch(instance, slot, part.as_ref()),
        Job::Device => {
            if HAS_DEVICES {
                run_device(instance);
            }
        }
    }
}

fn range_name(job: &Job) -> Option<&'static CStr> {
    match job {
        Job::Plan => Some(profiler::PLAN),
        Job::LoadArray { .. } | Job::Locate { .. } => Some(profiler::META),
        Job::Read { .. } => Some(profiler::IO),
        Job::Patch { .. } => Some(profiler::ASSEMBLE),
        Job::Stream { .. } | Job::Assemble { .. } | Job::Device => None,
    }
}

fn run_plan(instance: &Instance) {
    let start = (instance.os.now_ns)();
    let planner = instance.planner.lock().take();
    // One worker at a time gets this job, and puts the planner back.
    let Some(planner) = planner else { return };
    let progress = planner.run(instance);
    *instance.planner.lock() = Some(planner);
    instance.stats.plan.observe((instance.os.now_ns)() - start, 0, 0);
    let state = &mut *instance.lock.lock();
    state.planning = false;
    state.plan_wanted |= progress;
}
