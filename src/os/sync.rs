//! A lock and a condition variable over pthreads: correct, known to sanitizers, no allocation.
//!
//! A lock must not move once it was used; loaders place theirs in the arena.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Looks at a lock before its thread sleeps for it, and pauses between two looks: some microseconds
/// in all. Locks are held for less than it takes to sleep and be woken, which took a sixth of the
/// rate of small files.
const TRIES: u32 = 16;
const TRY_PAUSES: u32 = 8;

/// A value that one thread at a time may touch.
pub struct Mutex<T> {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, which holds the pthread mutex.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: an unlocked mutex and its value may move to another thread.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex over `value`.
    pub const fn new(value: T) -> Self {
        Mutex {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the value is free, and takes it.
    pub fn lock(&self) -> Guard<'_, T> {
        for _ in 0..TRIES {
            // SAFETY: the mutex is initialised and does not move.
            if unsafe { libc::pthread_mutex_trylock(self.lock.get()) } == 0 {
                return Guard { mutex: self };
            }
            (0..TRY_PAUSES).for_each(|_| core::hint::spin_loop());
        }
        // SAFETY: the mutex was made by `new` and does not move once it was used.
        let failed = unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        assert!(failed == 0);
        Guard { mutex: self }
    }
}

/// The value, held.
pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the mutex.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: locked by this thread.
        let failed = unsafe { libc::pthread_mutex_unlock(self.mutex.lock.get()) };
        assert!(failed == 0);
    }
}

/// A condition variable on the monotonic clock. Call [`Condvar::init`] where it will stay.
pub struct Condvar {
    condition: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: pthread conditions are made to be shared.
unsafe impl Sync for Condvar {}
// SAFETY: an unused condition may move.
unsafe impl Send for Condvar {}

impl Condvar {
    /// A condition that is not initialised yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Condvar { condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER) }
    }

    /// Chooses the monotonic clock; once, before any other call.
    pub fn init(&self) {
        let mut attributes = core::mem::MaybeUninit::<libc::pthread_condattr_t>::uninit();
        // SAFETY: attributes are initialised, used and destroyed; the condition is not in use.
        let failed = unsafe {
            libc::pthread_condattr_init(attributes.as_mut_ptr())
                | libc::pthread_condattr_setclock(attributes.as_mut_ptr(), libc::CLOCK_MONOTONIC)
                | libc::pthread_cond_init(self.condition.get(), attributes.as_ptr())
                | libc::pthread_condattr_destroy(attributes.as_mut_ptr())
        };
        assert!(failed == 0);
    }

    /// Gives the guard's mutex up until signalled (or for no reason), and takes it again.
    pub fn wait<T>(&self, guard: &mut Guard<'_, T>) {
        // SAFETY: the guard holds the mutex that all waiters of this condition use.
        let failed =
            unsafe { libc::pthread_cond_wait(self.condition.get(), guard.mutex.lock.get()) };
        assert!(failed == 0);
    }

    /// Like `wait`, until the clock of `Os::now_ns` shows `deadline_ns` at the latest.
    pub fn wait_until<T>(&self, guard: &mut Guard<'_, T>, deadline_ns: u64) {
        if deadline_ns == u64::MAX {
            return self.wait(guard);
        }
        let deadline = libc::timespec {
            tv_sec: (deadline_ns / 1_000_000_000) as _,
            tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the guard holds the mutex that all waiters use; the deadline outlives the call.
        let failed = unsafe {
            libc::pthread_cond_timedwait(self.condition.get(), guard.mutex.lock.get(), &deadline)
        };
        assert!(failed == 0 || failed == libc::ETIMEDOUT);
    }

    /// Wakes one waiter.
    pub fn signal(&self) {
        // SAFETY: the condition is initialised.
        unsafe { libc::pthread_cond_signal(self.condition.get()) };
    }

    /// Wakes all waiters.
    pub fn broadcast(&self) {
        // SAFETY: the condition is initialised.
        unsafe { libc::pthread_cond_broadcast(self.condition.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_contended_counter_loses_nothing() {
        let counter = Arc::new(Mutex::new(0u64));
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || (0..10_000).for_each(|_| *counter.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*counter.lock(), 40_000);
    }

    #[test]
    fn a_timed_wait_ends_at_its_deadline() {
        let mutex = Mutex::new(());
        let condition = Condvar::new();
        condition.init();
        let deadline = (crate::os::SYSTEM.now_ns)() + 1_000_000;
        let mut guard = mutex.lock();
        while (crate::os::SYSTEM.now_ns)() < deadline {
            condition.wait_until(&mut guard, deadline);
        }
    }
}
