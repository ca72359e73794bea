//! Closing: what has to end, and what is given back when.
//!
//! In: a timeout, and whether the calls that were inside before have left. Out: Ok where the memory
//! may go, else how many slots are kept.
//!
//! ```text
//!  Working ──(work is over: one close takes it)──▶ Taken ──(threads, descriptors, hooks)──▶ Over
//!     ▲                                              │
//!     └──(calls, or a hook, do not return in time)───┘
//!
//!  Over, slots are kept: the pages of all others go (Err)    Over, none is: the device (Ok)
//! ```
//!
//! Invariant: once a close found kept slots alone, the loader has no thread and no descriptor,
//! calls no hook but the one that takes its memory back, and looks at nothing that is not named in
//! `spans` here or in `state::kept`.

use crate::base::arena::span_of;
use crate::base::indexes::BatchSlot;
use crate::engine::Engine;
use crate::engine::open::Opened;
use crate::jobs::device::{has_drained, next_look};
use crate::jobs::release::is_device_at_rest;
use crate::os::sink::Level;
use crate::setup::config::UNTIL_RELEASED;
use crate::state::device::bits;
use crate::state::kept::{Spans, spans_of_slot, spans_of_state};
use crate::state::lock::{Condition, Locked};
use crate::state::{Ending, Life, State};

impl Engine {
    /// All calls but those that a closed loader answers are refused from here on, and those that
    /// wait end.
    pub fn stop(&self) {
        let mut state = self.lock.lock();
        let was_running = state.life != Life::Closing;
        state.life = Life::Closing;
        if was_running {
            self.shared.sharing.attached.iter().for_each(|attached| attached.leave());
            self.shared.metadata.end_sleeps();
        }
        self.call_owner();
        use Condition::{Batch, Decode, Device, Idle, Io, Space};
        for condition in [Decode, Io, Device, Batch, Space, Idle] {
            state.wakes.all(condition);
        }
    }

    /// Whether a close has ended threads and descriptors.
    pub fn is_over(&self) -> bool {
        matches!(self.lock.lock().ending, Ending::Over { .. })
    }

    /// The addresses that are used for as long as a slot is kept, apart from those of slots.
    fn spans(&self, state: &State) -> Spans {
        let mut spans = spans_of_state(self.shared, state);
        spans.extend([span_of(self), self.lock.span()]);
        spans
    }
}

fn is_quiet(state: &State) -> bool {
    state.threads.alive == 0
        && state.running == 0
        && state.waiters == 0
        && state.async_reads.is_empty()
        && !state.host.is_submitting()
}

impl Opened {
    /// Stops work and waits for it: Ok when the memory may be given back, else how many slots a
    /// batch or a tensor keeps. The rest of the system's memory is then given back, and with
    /// UNTIL_RELEASED those slots are waited for, too. `have_left`: no call is inside that came
    /// before the loader was stopped.
    pub fn close(&self, timeout_ns: u64, have_left: &dyn Fn() -> bool) -> Result<(), u32> {
        let engine = self.loader;
        let shared = engine.shared;
        let deadline = shared.deadline(timeout_ns);
        engine.stop();
        let mut state = engine.lock.lock();
        loop {
            let held = state.slots.kept();
            let mut wake = deadline;
            match state.ending {
                Ending::Working if is_quiet(&state) => {
                    state.ending = Ending::Taken;
                    drop(state);
                    let is_over = self.end(deadline, have_left);
                    state = engine.lock.lock();
                    let over = Ending::Over { left: u64::MAX };
                    state.ending = if is_over { over } else { Ending::Working };
                    state.wakes.all(Condition::Idle);
                    if is_over {
                        continue;
                    }
                }
                Ending::Over { left } if held > 0 => {
                    let is_news = left != state.slots.kept_set();
                    if is_news {
                        state = self.give_back_rest(state);
                    }
                    // Work ends by itself, batches and tensors do not: a caller who holds one and
                    // closes with a long timeout would wait for itself.
                    if timeout_ns != UNTIL_RELEASED {
                        return Err(held);
                    }
                    if is_news {
                        continue;
                    }
                }
                Ending::Over { .. } => {
                    drop(state);
                    if is_device_at_rest(&engine.lock) {
                        return Ok(());
                    }
                    state = engine.lock.lock();
                    wake = deadline.min(next_look(shared));
                }
                Ending::Working | Ending::Taken => {}
            }
            if (shared.os.now_ns)() >= deadline {
                let warning = state.close_warning(false, timeout_ns);
                drop(state);
                if let Some(why) = warning {
                    shared.sink.log(Level::Warn, 0, format_args!("close: {why}"));
                }
                return Err(held);
            }
            state.wait_until(Condition::Idle, wake);
        }
    }

    /// Ends threads and descriptors, of which none is at work; where slots are kept, calls and
    /// hooks as well, since the loader goes on without them. False: a call did not return in time.
    fn end(&self, deadline: u64, have_left: &dyn Fn() -> bool) -> bool {
        let engine = self.loader;
        let shared = engine.shared;
        let is_kept = engine.lock.lock().slots.kept() > 0;
        let has_time = || (shared.os.now_ns)() < deadline;
        // Ends: calls were told to leave, and what is on its way to batches runs by itself.
        while is_kept && !(have_left() && has_drained(&engine.lock)) {
            if !has_time() {
                return false;
            }
            engine.lock.lock().wait_until(Condition::Idle, deadline.min(next_look(shared)));
        }
        for thread in engine.threads {
            let thread = thread.lock().take();
            thread.into_iter().for_each(shared.os.thread_join);
        }
        // Ends: there are so many files.
        loop {
            let open = engine.lock.lock().files.drain();
            let Some(open) = open else { break };
            shared.store.close(open);
        }
        if let Some(place) = self.taken.windows {
            engine.lock.lock().windows.set_place(None);
            (shared.os.vacate)(place.start(), place.bytes());
        }
        if !is_kept {
            return true;
        }
        let warning = engine.lock.lock().close_warning(true, 0);
        if let Some(why) = warning {
            shared.sink.log(Level::Warn, 0, format_args!("close: {why}"));
        }
        shared.sink.end(has_time)
    }

    /// Gives the pages back that no kept slot needs. Gives the lock up meanwhile: a slot that is no
    /// more kept by then is for another turn.
    fn give_back_rest<'a>(&self, mut state: Locked<'a>) -> Locked<'a> {
        let (engine, kept) = (self.loader, state.slots.kept_set());
        state.ending = Ending::Over { left: kept };
        let spans = engine.spans(&state);
        drop(state);
        self.taken.block.give_back_rest(engine.shared.os, |each| {
            spans.iter().for_each(|span| each(span.clone()));
            bits(kept).for_each(|slot| spans_of_slot(engine.shared, BatchSlot(slot), each));
        });
        engine.lock.lock()
    }
}
