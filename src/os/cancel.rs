//! Threads that somebody cancels (pthread_cancel) while they are in a call of ours.
//!
//! In: a thread at the border of the library. Out: a thread that no cancellation ends until it has
//! left: one that was ended in the middle would keep our locks, because nothing of ours unwinds.

use core::ffi::c_int;
use core::marker::PhantomData;

const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    /// POSIX; the libc crate does not have it for Linux.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While it lives, the thread that made it is not cancelled.
pub struct Uncancelled {
    before: c_int,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Uncancelled {
    /// From here on.
    pub fn enter() -> Uncancelled {
        let mut before = CANCEL_DISABLE;
        // SAFETY: writes one int. It fails for unknown states alone.
        let failed = unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
        assert!(failed == 0);
        Uncancelled { before, thread: PhantomData }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: writes one int; what it was set to before is a state.
        let failed = unsafe { pthread_setcancelstate(self.before, &mut ours) };
        assert!(failed == 0);
    }
}
