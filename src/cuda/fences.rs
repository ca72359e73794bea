//! What a slot waits for when its consumer gives it back: an event, streams, its own ready stream.
//!
//! In: a slot, events and streams of a consumer's. Out: a fence on the slot's ready stream behind
//! all of them, which is polled. Nothing here waits.
//!
//! A stream that is being captured into a graph is left alone. What we queued there would become a
//! part of the graph, to wait for it would draw our stream into the capture, and to ask it how far
//! it is would break the capture; only whether it is captured may be asked. What cannot be done for
//! that reason says so, and is to be tried again.
//!
//! A capture may begin on another thread between that question and our call. Then the driver
//! refuses the call, which says the same; or it takes a record into the graph, which is asked for
//! behind the record.

use crate::cuda::driver::Driver;
use crate::cuda::engine::{DeviceEngine, Fault, check};
use crate::cuda::handles::{Event, Stream};
use crate::cuda::result::{CuResult, Named};
use core::sync::atomic::Ordering::Relaxed;

/// Whether a call was made; false where it was refused for a capture, and is to be made again.
fn unless_captured(
    driver: &'static Driver,
    entry: &'static str,
    result: Result<(), CuResult>,
) -> Result<bool, Fault> {
    match result {
        Err(code) if code.is_of_capture() => Ok(false),
        made => check(driver, entry, made).map(|()| true),
    }
}

impl DeviceEngine {
    /// Whether what we queued on a stream would become part of a graph, or break it.
    pub fn is_captured(&self, stream: Stream) -> Result<bool, Fault> {
        let driver = self.context.driver;
        match driver.stream_is_capturing(stream) {
            // Of the legacy stream: one that it orders is.
            Err(CuResult::STREAM_CAPTURE_IMPLICIT) => Ok(true),
            asked => check(driver, "cuStreamIsCapturing", asked),
        }
    }

    /// Why what a consumer queues on a stream cannot be waited for; None where it can be, or where
    /// the driver does not tell. In an entered context.
    pub(super) fn flaw_of(&self, stream: Stream) -> Option<&'static str> {
        if [Stream::NULL, Stream::LEGACY, Stream::PER_THREAD].contains(&stream) {
            return None;
        }
        match self.context.driver.stream_get_ctx(stream) {
            Ok(Some(context)) if context != self.context.context => {
                Some("a stream of another context than the loader's: make it in the loader's")
            }
            Err(CuResult::INVALID_HANDLE | CuResult::INVALID_CONTEXT) => {
                Some("no stream, or one that was destroyed: give one that lives")
            }
            _ => None,
        }
    }

    /// The same with no context entered.
    pub fn flaw_of_export(&self, stream: Stream) -> Result<Option<&'static str>, Fault> {
        let _context = self.enter()?;
        Ok(self.flaw_of(stream))
    }

    /// Whether an event was recorded in a capture, so that it stands for a place in a graph and for
    /// no work. Only a query tells, which a capture that is under way may not survive; to wait for
    /// the event would draw the slot's stream into it as well.
    pub fn is_of_capture(&self, event: Event) -> Result<bool, Fault> {
        let _context = self.enter()?;
        let driver = self.context.driver;
        match driver.event_query(event) {
            Err(CuResult::CAPTURED_EVENT) => Ok(true),
            asked => check(driver, "cuEventQuery", asked).map(|_| false),
        }
    }

    /// Whether what a caller's event stands for is done; or what the driver says in place of an
    /// answer, unless it is that there will be none to any call. In an entered context.
    pub fn is_lent_event_over(&self, event: Event) -> Result<Result<bool, Named<'_>>, Fault> {
        let driver = self.context.driver;
        match driver.event_query(event) {
            Err(code) if code.is_of_exit() => Err(Fault::Call("cuEventQuery", code, driver)),
            asked => Ok(asked.map_err(|code| driver.named(code))),
        }
    }

    /// False where either is of a capture.
    fn wait(&self, stream: Stream, event: Event) -> Result<bool, Fault> {
        let driver = self.context.driver;
        unless_captured(driver, "cuStreamWaitEvent", driver.stream_wait_event(stream, event))
    }

    /// False where the stream is being captured: then the event stands for nothing.
    fn record(&self, event: Event, stream: Stream) -> Result<bool, Fault> {
        let driver = self.context.driver;
        let recorded = driver.event_record(event, stream);
        // In a capture that began just before, the record is nothing in a graph; but to wait for it
        // would draw the stream that waits into it, and to ask for it break it.
        Ok(unless_captured(driver, "cuEventRecord", recorded)? && !self.is_captured(stream)?)
    }

    /// The slot's fence comes after what `event` stands for now. In an entered context, as all
    /// below.
    pub fn wait_for_event(&self, slot: u32, event: Event) -> Result<(), Fault> {
        let (place, driver) = (&self.slots[slot as usize], self.context.driver);
        if !self.is_captured(place.ready)? && self.wait(place.ready, event)? {
            return Ok(());
        }
        // The caller may record the event anew at once, so what it stands for is kept in the
        // slot's own, which nobody needs before its fence is queued. The detour is ours, so only an
        // event of a capture, which was not one when it was looked at, is refused here.
        let detour = self.detour.lock();
        check(driver, "cuStreamWaitEvent", driver.stream_wait_event(*detour, event))?;
        check(driver, "cuEventRecord", driver.event_record(place.fence, *detour))?;
        self.detoured.fetch_or(1 << slot, Relaxed);
        Ok(())
    }

    /// The same after what is queued on `stream` so far. False where either is being captured.
    pub fn wait_for_stream(&self, slot: u32, stream: Stream) -> Result<bool, Fault> {
        let ready = self.ready_stream(slot);
        if self.is_captured(stream)? || self.is_captured(ready)? {
            return Ok(false);
        }
        // One event for all: recorded and waited for by one thread at a time.
        let link = self.link.lock();
        Ok(self.record(*link, stream)? && self.wait(ready, *link)?)
    }

    /// The slot is free after that, and after what is queued on its ready stream so far. False
    /// where that is being captured.
    pub fn fence(&self, slot: u32) -> Result<bool, Fault> {
        let place = &self.slots[slot as usize];
        if self.is_captured(place.ready)? {
            return Ok(false);
        }
        // Who gives the slot back has it for himself, so nobody sets the bit meanwhile.
        if self.detoured.load(Relaxed) & (1 << slot) != 0 {
            if !self.wait(place.ready, place.fence)? {
                return Ok(false);
            }
            self.detoured.fetch_and(!(1 << slot), Relaxed);
        }
        self.record(place.fence, place.ready)
    }

    /// Whether that has run.
    pub fn is_unfenced(&self, slot: u32) -> Result<bool, Fault> {
        self.is_done(self.slots[slot as usize].fence)
    }
}
