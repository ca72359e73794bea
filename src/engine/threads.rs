//! Threads of ours, and the loop that all who work run: take a job, do it, look again.

use crate::base::cpus::CpuSet;
use crate::base::indexes::Lane;
use crate::base::math::index;
use crate::base::text::Text;
use crate::cuda::HAS_DEVICES;
use crate::engine::Engine;
use crate::engine::schedule::next_job;
use crate::jobs::device::device_main;
use crate::setup::settings::Settings;
use crate::simd::FloatEnvironment;
use crate::state::job::{Job, Role};
use crate::state::lock::{Condition, Locked};
use crate::state::reading::Reading;
use crate::state::{Life, State};

/// The name of own thread `number`, with the number if the 15 bytes that the kernel keeps have room
/// for it.
fn thread_name(settings: &Settings, number: u32) -> Text<16> {
    let (role, number) = match number.checked_sub(settings.decode_threads) {
        None => ("wavetrain-dec", Some(number)),
        Some(io) if number < settings.worker_count() => ("wavetrain-io", Some(io)),
        Some(_) if settings.is_owner() => ("wavetrain-own", None),
        Some(_) => ("wavetrain-gpu", None),
    };
    let mut name = Text::new();
    name.push_str(role);
    if let Some(number) = number {
        write!(name, "{number}");
    }
    if name.is_cut() {
        name.clear();
        name.push_str(role);
    }
    name
}

impl Engine {
    /// Takes the next job for a worker of `role`, and wakes whoever can do something beside it.
    pub fn take_job(&self, state: &mut State, role: Role, context: u32) -> Option<Job> {
        let job = next_job(state, self.shared, role);
        if let Some(job) = &job {
            state.readings[index(u64::from(context))] = Reading::of_job(job, self.shared);
            if job.lane(state) == Some(Lane::Readers) {
                state.readers.begin_job(context);
            }
            state.wakes.work();
        } else if role == Role::Io {
            // Looking for a read made chunks ready that need none, such as missing ones.
            state.wakes.decode_work();
        }
        job
    }

    /// Does a job on the worker context `context`, and takes the lock again. `is_first`: since its
    /// thread slept or came.
    pub fn run_job(&self, context: u32, job: Job, is_first: bool) -> Locked<'_> {
        let mut state = {
            let _float = FloatEnvironment::enter();
            let worker = &mut *self.workers[context as usize].lock();
            if is_first {
                worker.context.decoded_ns = 0;
            }
            self.run(worker, job)
        };
        state.readings[index(u64::from(context))] = None;
        state.end_job();
        if state.readers.end_job(context) {
            state.wakes.all(Condition::Reader);
        }
        if context < self.shared.settings.decode_threads {
            state.contexts.give_back(context);
        }
        if self.shared.settings.is_threadless() {
            state.host.leave(context);
        }
        state.wakes.work();
        state
    }

    /// A thread of ours is there: `open` waits for all of them.
    fn note_started(state: &mut State) {
        state.threads.starting -= 1;
        if state.threads.starting == 0 {
            state.wakes.all(Condition::Idle);
        }
    }

    /// An own thread found so few bytes left of its stack, and ends.
    pub fn thread_refused(&self, left: u64) {
        let state = &mut *self.lock.lock();
        let least = state.threads.stack_left.map_or(left, |least| least.min(left));
        state.threads.stack_left = Some(least);
        state.end_thread();
        Engine::note_started(state);
    }

    /// Keeps this thread to the CPUs that the config names; the first that it may not use.
    #[inline(never)] // its sets are not to stand on the stack of all that a thread does
    fn refused_cpu(&self) -> Option<u32> {
        let (os, cpus) = (self.shared.os, self.shared.cpus?);
        // A system that refuses all of them leaves the thread where it was.
        let kept = (os.keep_to_cpus)(cpus).map_or(CpuSet::EMPTY, |()| (os.cpus)());
        cpus.first_beyond(&kept)
    }

    /// What own thread number `number` does until close.
    pub fn thread_main(&self, number: u32) {
        let settings = &self.shared.settings;
        if let Some(cpu) = self.refused_cpu() {
            let state = &mut *self.lock.lock();
            state.threads.cpu_refused = Some(cpu);
            state.end_thread();
            return Engine::note_started(state);
        }
        if settings.is_cuda() && number < settings.decode_threads {
            // A system that forbids it leaves the thread as it is.
            let _ = (self.shared.os.be_batch)();
        }
        // A system that forbids it leaves the thread with the program's name.
        let name = thread_name(settings, number);
        let _ = (self.shared.os.name_thread)(name.as_bytes_nul());
        let kept = self.numa.keep_thread(self.shared.os);
        {
            let state = &mut *self.lock.lock();
            state.threads.unkept = state.threads.unkept.or(kept.err());
            Engine::note_started(state);
        }
        if settings.is_owner() && number >= settings.worker_count() {
            return self.share_main();
        }
        if HAS_DEVICES && number >= settings.worker_count() {
            return device_main(&self.lock);
        }
        let role = if number < settings.decode_threads { Role::Decode } else { Role::Io };
        let mut state = self.lock.lock();
        let mut is_first = true;
        loop {
            let context = match role {
                Role::Decode => state.contexts.take(Some(number)),
                _ => Some(number),
            };
            let job = context.and_then(|context| self.take_job(&mut state, role, context));
            if let Some((context, job)) = context.zip(job) {
                drop(state);
                state = self.run_job(context, job, is_first);
                is_first = false;
                continue;
            }
            if role == Role::Decode {
                context.into_iter().for_each(|context| state.contexts.give_back(context));
            }
            // The lock was not given up since no job was found, so whoever makes one from here on
            // sees this thread among the idle ones and wakes it.
            if state.life == Life::Closing {
                return state.end_thread();
            }
            state.sleep(role);
            is_first = true;
        }
    }
}
