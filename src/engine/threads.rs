//! What threads do.

use crate::cuda::HAS_DEVICES;
use crate::engine::run;
use crate::os::sync::Guard;
use crate::simd::FloatEnvironment;
use crate::state::job::{Job, Role};
use crate::state::shared::Instance;
use crate::state::{Life, State};

impl Instance {
    /// Takes the next job for a worker of `role`, and wakes whoever can do something beside it.
    pub fn take_job(&self, state: &mut State, role: Role) -> Option<Job> {
        let job = state.next_job(self, role);
        if job.is_some() {
            self.wake(state);
        } else if role == Role::Io && state.idle_decode > 0 && state.has_job(self, Role::Decode) {
            // Looking for a read made chunks ready that need none, such as missing ones.
            self.work_ready.signal();
        }
        job
    }

    /// Does a job on the worker context `context`, and takes the lock again.
    pub fn run_job(&self, context: u32, job: Job) -> Guard<'_, State> {
        {
            let _float = FloatEnvironment::enter();
            let worker = &mut *self.workers[context as usize].lock();
            run::run(self, worker, job);
        }
        let mut state = self.lock.lock();
        self.end_job(&mut state);
        if self.settings.is_threadless() {
            state.contexts.push(context);
            state.crew.let_go(context);
        }
        self.wake(&state);
        state
    }

    /// A job is over.
    pub fn end_job(&self, state: &mut State) {
        state.running -= 1;
        if state.running == 0 && state.life != Life::Running {
            self.idle.broadcast();
        }
    }

    /// Wakes a sleeping worker of each kind for which there is work. One at a time is called: it
    /// wakes the next when it has taken a job, and one job rarely makes work for many.
    pub fn wake(&self, state: &State) {
        let (decode, io) = (&state.is_decode_waking, &state.is_io_waking);
        if state.idle_decode > 0 && !decode.get() && state.has_job(self, Role::Decode) {
            decode.set(true);
            self.work_ready.signal();
        }
        if state.idle_io > 0 && !io.get() && state.has_job(self, Role::Io) {
            io.set(true);
            self.io_ready.signal();
        }
        self.wake_ring(state);
        self.wake_device(state);
        if self.settings.is_threadless() && state.waiters > 0 && state.has_job(self, Role::Both) {
            self.batch_ready.broadcast();
            self.space_ready.broadcast();
        }
    }

    /// A thread of ours is there: `open` waits for all of them.
    pub fn note_started(&self, state: &mut State) {
        state.starting -= 1;
        if state.starting == 0 {
            self.idle.broadcast();
        }
    }

    /// An own thread found so few bytes left of its stack, and ends.
    pub fn thread_refused(&self, left: u64) {
        let state = &mut *self.lock.lock();
        let least = state.stack_left.map_or(left, |least| least.min(left));
        state.stack_left = Some(least);
        state.threads -= 1;
        self.note_started(state);
        self.idle.broadcast();
    }

    /// What own thread number `number` does until close.
    pub fn thread_main(&self, number: u32) {
        self.note_started(&mut self.lock.lock());
        if number >= self.settings.worker_count() {
            let is_ring = number == self.settings.worker_count() && self.settings.ring_depth > 0;
            return if !HAS_DEVICES || is_ring { self.ring_main() } else { self.device_main() };
        }
        let role = if number < self.settings.decode_threads { Role::Decode } else { Role::Io };
        let mut state = self.lock.lock();
        loop {
            if let Some(job) = self.take_job(&mut state, role) {
                drop(state);
                state = self.run_job(number, job);
                continue;
            }
            // The lock was not given up since no job was found, so whoever makes one from here on
            // sees this thread among the idle ones and wakes it.
            if state.life == Life::Closing {
                state.threads -= 1;
                self.idle.broadcast();
                return;
            }
            match role {
                Role::Io => {
                    state.idle_io += 1;
                    self.io_ready.wait(&mut state);
                    state.idle_io -= 1;
                    state.is_io_waking.set(false);
                }
                _ => {
                    state.idle_decode += 1;
                    self.work_ready.wait(&mut state);
                    state.idle_decode -= 1;
                    state.is_decode_waking.set(false);
                }
            }
        }
    }
}
