//! Sleeping until a word changes that another process may write.
//!
//! In: a word in shared memory, which a waiter may have mapped for reading alone. Out: a wait that
//! ends by a wake, at a deadline, or for no reason.

use crate::os::{now_ns, system_call};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Sleeps while the word is `expected`, until the clock of `Os::now_ns` shows `deadline_ns` at the
/// latest.
pub fn wait(word: &AtomicU32, expected: u32, deadline_ns: u64) {
    let left = deadline_ns.saturating_sub(now_ns());
    let time = libc::timespec {
        tv_sec: (left / 1_000_000_000) as _,
        tv_nsec: (left % 1_000_000_000) as libc::c_long,
    };
    let place = word.as_ptr().addr();
    let time = (&raw const time).addr();
    let arguments = [place, libc::FUTEX_WAIT as usize, expected as usize, time, 0];
    // SAFETY: the kernel reads the word and the time, which outlive the call.
    let _ = unsafe { system_call(libc::SYS_futex, arguments) };
}

/// Sleeps while the word is 0, until the clock of `Os::now_ns` shows `deadline_ns` at the latest.
pub fn sleep(word: &AtomicU32, deadline_ns: u64) {
    // Ends: each turn sleeps until the deadline, unless the word changes or a signal ends it.
    while word.load(Relaxed) == 0 && now_ns() < deadline_ns {
        wait(word, 0, deadline_ns);
    }
}

/// Wakes all threads that sleep on the word.
pub fn wake(word: &AtomicU32) {
    let arguments = [word.as_ptr().addr(), libc::FUTEX_WAKE as usize, i32::MAX as usize, 0, 0];
    // SAFETY: the kernel takes the word's address as a name.
    let _ = unsafe { system_call(libc::SYS_futex, arguments) };
}
