//! Our context on the caller's thread, and off it again.
//!
//! In: a context. Out: [`Entered`], while which lives the context is current and the thread may
//! make every call, whatever stream another thread captures. Invariant: when it is dropped the
//! thread is as it came, on every path, also if one call of the driver failed on the way.

use crate::cuda::driver::Driver;
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::{CaptureMode, Context};
use core::marker::PhantomData;

/// Calls may be made in the context; of this thread, so it stays there.
pub struct Entered {
    /// The driver, for calls.
    pub driver: &'static Driver,
    context: Context,
    /// False if the context was current already.
    is_pushed: bool,
    mode: CaptureMode,
    of_this_thread: PhantomData<*mut ()>,
}

impl Entered {
    /// Makes `context` current and the thread's capture mode relaxed. In any other mode most of our
    /// calls would fail while a trainer captures a graph, and would break its capture.
    pub fn new(driver: &'static Driver, context: Context) -> Result<Entered, Fault> {
        let current = check(driver, "cuCtxGetCurrent", driver.ctx_get_current())?;
        let is_pushed = current != context;
        if is_pushed {
            check(driver, "cuCtxPushCurrent", driver.ctx_push_current(context))?;
        }
        let of_this_thread = PhantomData;
        let exchanged = driver.thread_exchange_stream_capture_mode(CaptureMode::RELAXED);
        if exchanged.is_err() && is_pushed {
            leave(driver, context);
        }
        let mode = check(driver, "cuThreadExchangeStreamCaptureMode", exchanged)?;
        Ok(Entered { driver, context, is_pushed, mode, of_this_thread })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // A driver may report the failure of work that was queued long ago from any call, without
        // making it. Setting a mode twice does no harm.
        if self.driver.thread_exchange_stream_capture_mode(self.mode).is_err() {
            let _ = self.driver.thread_exchange_stream_capture_mode(self.mode);
        }
        if self.is_pushed {
            leave(self.driver, self.context);
        }
    }
}

/// Takes `context`, which was pushed on another one, off the thread. A pop that failed is made
/// again only if the context is still on top: else it would take the caller's.
fn leave(driver: &Driver, context: Context) {
    match driver.ctx_pop_current() {
        Ok(popped) => {
            assert!(popped == context, "contexts are popped in the order of their pushes")
        }
        Err(_) => {
            if driver.ctx_get_current() == Ok(context) {
                let _ = driver.ctx_pop_current();
            }
        }
    }
}
