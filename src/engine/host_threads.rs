//! Work on the host's threads: in calls that wait, in pump, and in jobs of its own (`workers.run`).
//!
//! In: threads of the host. Out: jobs done, one bounded step at a time, and jobs handed to the host
//! while there is work for more threads.
//!
//! A job of the host's is anonymous: it takes a free worker context and works for JOB_NS. Whoever
//! takes a step, and whoever leaves the loader, sees to it that one more job is with the host if
//! there is work and a context for it; so a job that leaves work behind hands itself in again.
//!
//! ```text
//!  there is work, and fewer queued jobs than free contexts ──(offer: run)──▶ queued
//!  queued ──(the host runs it)──▶ steps on a context ──▶ over
//! ```
//!
//! Invariants: `run` is called by one thread at a time, the submitter, with no lock held. Frames of
//! ours never stand on one another: a job that the host runs at once, inside of `run`, only says so
//! and returns, and the submitter does its work below; a job that comes inside of another hook of a
//! step, because the host's thread looks for work while it waits there, returns as well: the thread
//! goes on when its step is over.

use crate::base::math::index;
use crate::base::status::{Failure, Why};
use crate::engine::Engine;
use crate::fail;
use crate::state::job::Role;
use crate::state::lock::{Condition, Locked};
use crate::state::{Life, State};

/// How long a job of the host's works: long beside a hand-over, short beside a frame of a game.
const JOB_NS: u64 = 1_000_000;

impl Engine {
    /// Until when a thread of the host's may sleep: nobody else looks at the device. None where it
    /// is at rest.
    pub fn device_deadline(&self, state: &State) -> Option<u64> {
        let is_ours = self.shared.settings.is_threadless() && state.device.is_at_work();
        is_ours.then(|| self.shared.deadline(state.device.nap_ns))
    }

    /// Waits for a change; without threads of ours does work instead while there is some. The lock
    /// is not given up between the caller's look at the state, the look for work, and the wait.
    pub fn wait_or_help<'a>(
        &'a self,
        mut state: Locked<'a>,
        condition: Condition,
        deadline: u64,
    ) -> Locked<'a> {
        if self.shared.settings.is_threadless() {
            let helped;
            (state, helped) = self.help(state);
            if helped {
                return state;
            }
        }
        state.waiters += 1;
        let look = self.device_deadline(&state);
        state.device.watchers += u32::from(look.is_some());
        state.wait_until(condition, look.map_or(deadline, |look| look.min(deadline)));
        state.device.watchers -= u32::from(look.is_some());
        state.waiters -= 1;
        if state.life == Life::Closing && state.waiters == 0 {
            state.wakes.all(Condition::Idle);
        }
        state
    }

    /// Does one job on a free worker context; false where there is no context or no job.
    fn help<'a>(&'a self, mut state: Locked<'a>) -> (Locked<'a>, bool) {
        let Some(context) = state.contexts.take(None) else { return (state, false) };
        let Some(job) = self.take_job(&mut state, Role::Both, context) else {
            state.contexts.give_back(context);
            return (state, false);
        };
        state.host.holders[index(u64::from(context))] = Some((self.shared.os.thread_id)());
        (state, _) = self.offer(state);
        drop(state);
        (self.run_job(context, job, true), true)
    }

    /// Helps until the deadline, or until there is nothing to do; whether anything was done.
    fn help_until<'a>(&'a self, state: Locked<'a>, deadline: u64) -> (Locked<'a>, bool) {
        let (mut state, did_work) = self.help(state);
        let mut helped = did_work;
        while helped && (self.shared.os.now_ns)() < deadline {
            (state, helped) = self.help(state);
        }
        (state, did_work)
    }

    /// Works until `budget_ns` is over or there is nothing to do; whether anything was done.
    pub fn pump(&self, budget_ns: u64) -> Result<bool, Failure> {
        self.refuse_consumer()?;
        if !self.shared.settings.is_threadless() {
            let mut why = Why::new();
            let text = "pump: thread_mode is own, so wavetrain's threads work";
            let status = fail!(why, Invalid, "{text}");
            return Err(Failure::because(status, &why));
        }
        let deadline = self.shared.deadline(budget_ns);
        let state = self.lock.lock();
        if state.life == Life::Closing {
            return Err(Failure::shutdown());
        }
        let (_state, did_work) = self.help_until(state, deadline);
        Ok(did_work)
    }

    /// Whether another job of the host's would find work and a context.
    fn wants_host(&self, state: &State) -> bool {
        state.host.queued < state.contexts.free
            && !state.work_for(self.shared, Role::Both).is_empty()
    }

    /// Hands the host a job if there is work for one; whether the host has run it at once, on this
    /// thread, which then has to do what the job would have done. Gives the lock up meanwhile.
    fn offer<'a>(&'a self, mut state: Locked<'a>) -> (Locked<'a>, bool) {
        let mut is_inline = false;
        // Ends: every further turn is for a thread that found this one here.
        while self.host.is_there() && !is_inline && self.wants_host(&state) {
            state.host.is_wanted_again = state.host.is_submitting();
            if state.host.is_submitting() {
                break;
            }
            state.host.queued += 1;
            state.host.submitter = Some((self.shared.os.thread_id)());
            drop(state);
            self.host.run();
            state = self.lock.lock();
            state.host.submitter = None;
            is_inline = core::mem::take(&mut state.host.is_inline);
            if state.life != Life::Running {
                state.wakes.all(Condition::Idle);
            }
            if !core::mem::take(&mut state.host.is_wanted_again) {
                break;
            }
        }
        (state, is_inline)
    }

    /// A thread of the host leaves the loader: what it made work for is handed out.
    pub fn hand_out(&self) {
        if !self.host.is_there() {
            return;
        }
        let mut state = self.lock.lock();
        // A loader that is being closed may have given back the places of threads.
        if state.life == Life::Closing || state.host.is_inside((self.shared.os.thread_id)()) {
            return;
        }
        // Ends: every turn but the last does a step, and those who make work are few.
        loop {
            let (offered, is_inline) = self.offer(state);
            if !is_inline {
                return;
            }
            let deadline = self.shared.deadline(JOB_NS);
            let (helped, did_work) = self.help_until(offered, deadline);
            if !did_work {
                return;
            }
            state = helped;
        }
    }

    /// What a job does on the host's thread. If work is left, `hand_out` follows.
    pub fn run_host_job(&self) {
        if !self.host.is_there() {
            return;
        }
        let thread = (self.shared.os.thread_id)();
        let mut state = self.lock.lock();
        state.host.queued = state.host.queued.saturating_sub(1);
        if state.host.submitter == Some(thread) {
            state.host.is_inline = true;
        } else if state.life != Life::Closing && !state.host.is_inside(thread) {
            let deadline = self.shared.deadline(JOB_NS);
            self.help_until(state, deadline);
        }
    }
}
