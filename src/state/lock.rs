//! The lock around the state, and who is woken when it is given up.
//!
//! In: changes of the state, each of which notes what it makes possible (`State::wakes`). Out: the
//! threads that sleep for it are signalled right before the lock is given up, or before it is
//! waited with; later would touch what a close in another thread has freed.
//!
//! Order of locks: a worker or a draft first, then the state; never two of the
//! same.

use crate::base::arena::span_of;
use crate::cuda::HAS_DEVICES;
use crate::os::sync::{Condvar, Guard, Mutex};
use crate::state::State;
use crate::state::job::Role;
use crate::state::shared::Shared;
use core::ops::{Deref, DerefMut, Range};

/// What a thread sleeps for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// A job for a thread that decodes.
    Decode,
    /// A job for a thread that may wait for storage.
    Io,
    /// Something for the device's thread.
    Device,
    /// A batch to pop.
    Batch,
    /// Room in the sample queue.
    Space,
    /// The end of what runs: reset, close and open wait for it.
    Idle,
    /// A reader that is free, or the end of jobs that a caller who leaves waits for.
    Reader,
    /// The box that a caller reads, or a job that it can do meanwhile.
    Box,
}

const CONDITIONS: usize = 8;

/// What changed since the lock was taken.
#[derive(Clone, Copy, Default)]
pub struct Wakes {
    bits: u32,
}

impl Wakes {
    /// There may be work that was not there before.
    const WORK: u32 = 1 << CONDITIONS;
    /// Only for those who decode.
    const DECODE_WORK: u32 = 1 << (CONDITIONS + 1);

    /// All who sleep for this are to look.
    pub fn all(&mut self, condition: Condition) {
        self.bits |= 1 << condition as u32;
    }

    /// There may be a job: one worker of each kind that has one is to come.
    pub fn work(&mut self) {
        self.bits |= Wakes::WORK;
    }

    /// There may be something to decode. A thread that looked for a read and made chunks ready that
    /// need none says so, and calls none of its own kind, which would look for that read in turn.
    pub fn decode_work(&mut self) {
        self.bits |= Wakes::DECODE_WORK;
    }

    fn has(self, condition: Condition) -> bool {
        self.bits & 1 << condition as u32 != 0
    }
}

/// See the module.
pub struct Lock {
    /// What needs no lock.
    pub shared: &'static Shared,
    state: &'static Mutex<State>,
    conditions: [Condvar; CONDITIONS],
}

impl Lock {
    /// The lock of a state. Call [`Lock::init`] where it will stay.
    pub fn new(shared: &'static Shared, state: &'static Mutex<State>) -> Lock {
        Lock { shared, state, conditions: [const { Condvar::new() }; CONDITIONS] }
    }

    /// Makes the condition variables usable; once, before any other call.
    pub fn init(&self) {
        self.conditions.iter().for_each(Condvar::init);
    }

    /// Takes the lock.
    pub fn lock(&self) -> Locked<'_> {
        Locked { guard: self.state.lock(), lock: self }
    }

    /// The addresses of the state.
    pub fn span(&self) -> Range<usize> {
        span_of(self.state)
    }

    fn condition(&self, condition: Condition) -> &Condvar {
        &self.conditions[condition as usize]
    }

    /// Signals whom the changes concern.
    fn signal(&self, state: &mut State) {
        let may_publish = state.consumers.is_due || state.wakes.has(Condition::Batch);
        if may_publish && state.consumers.records.is_some() {
            state.publish(self.shared);
        }
        let wakes = core::mem::take(&mut state.wakes);
        if wakes.bits == 0 {
            return;
        }
        use Condition::{Batch, Box, Decode, Device, Idle, Io, Reader, Space};
        for condition in [Decode, Io, Device, Batch, Space, Idle, Reader, Box] {
            if wakes.has(condition) {
                self.condition(condition).broadcast();
            }
        }
        if wakes.bits & (Wakes::WORK | Wakes::DECODE_WORK) != 0 {
            self.call_caller(state);
            self.call_decoder(state);
        }
        if wakes.bits & Wakes::WORK != 0 {
            self.call_others(state);
        }
    }

    /// Wakes a caller that waits for its box if there is work for it. One at a time, as below.
    fn call_caller(&self, state: &mut State) {
        let settings = &self.shared.settings;
        let may_come = !settings.is_threadless() && state.contexts.free > 0;
        if may_come
            && state.readers.calls_callers(settings.decode_threads)
            && !state.work_for(self.shared, Role::Reader).is_empty()
        {
            state.readers.is_waking = true;
            self.condition(Condition::Box).signal();
        }
    }

    /// Wakes a sleeping worker that decodes if there is work for it. One at a time is called: it
    /// wakes the next when it has taken a job, and one job rarely makes work for many.
    fn call_decoder(&self, state: &mut State) {
        let is_called = state.threads.idle_decode == 0 || state.threads.is_decode_waking;
        let may_come = !is_called && state.contexts.free > 0;
        if may_come && !state.work_for(self.shared, Role::Decode).is_empty() {
            state.threads.is_decode_waking = true;
            self.condition(Condition::Decode).signal();
        }
    }

    /// The same of all other kinds.
    fn call_others(&self, state: &mut State) {
        let has_work = |state: &State, role| !state.work_for(self.shared, role).is_empty();
        if state.threads.idle_io > 0 && !state.threads.is_io_waking && has_work(state, Role::Io) {
            state.threads.is_io_waking = true;
            self.condition(Condition::Io).signal();
        }
        if HAS_DEVICES && state.device.is_idle && has_work(state, Role::Device) {
            self.condition(Condition::Device).signal();
        }
        // Calls that wait do the work themselves. One that went to sleep before a device had work
        // is called so that somebody looks at it.
        let unwatched = state.device.is_at_work() && state.device.watchers == 0;
        let helps = self.shared.settings.is_threadless() && state.waiters > 0;
        if helps && (unwatched || has_work(state, Role::Both)) {
            for condition in [Condition::Batch, Condition::Space, Condition::Box] {
                self.condition(condition).broadcast();
            }
        }
    }
}

/// The state while it is locked.
pub struct Locked<'a> {
    guard: Guard<'a, State>,
    lock: &'a Lock,
}

impl Locked<'_> {
    /// Signals whom the changes so far concern.
    pub fn signal(&mut self) {
        self.lock.signal(&mut self.guard);
    }

    /// Sleeps until there may be a job for a worker of ours of this role.
    pub fn sleep(&mut self, role: Role) {
        // Before this thread counts as idle: it found nothing, so it does not call itself.
        self.signal();
        if role == Role::Io {
            self.threads.idle_io += 1;
            self.wait(Condition::Io);
            self.threads.idle_io -= 1;
            self.threads.is_io_waking = false;
        } else {
            self.threads.idle_decode += 1;
            self.wait(Condition::Decode);
            self.threads.idle_decode -= 1;
            self.threads.is_decode_waking = false;
        }
    }

    /// Gives the lock up until signalled (or for no reason), and takes it again.
    pub fn wait(&mut self, condition: Condition) {
        self.wait_until(condition, u64::MAX);
    }

    /// Like `wait`, until the clock of `Os::now_ns` shows `deadline_ns` at the latest.
    pub fn wait_until(&mut self, condition: Condition, deadline_ns: u64) {
        self.signal();
        self.lock.condition(condition).wait_until(&mut self.guard, deadline_ns);
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.guard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.guard
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.signal();
    }
}
