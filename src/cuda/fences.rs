//! The events that a slot waits for when its consumer gives it back: an event, streams, its own
//! ready stream; and the one that memory comes with which a caller lends.
//!
//! In: a slot, events and streams of a consumer's. Out: fences, one recorded on each of these
//! streams, which are polled; the slot is free when all have run. Nothing in this module waits.
//!
//! No stream of ours is made to wait for a consumer's stream: a device has few queues for all
//! streams of a process, and work that waits in one delays the trainer's work after it. Only what a
//! caller's event stands for is waited for, because the event is the caller's again at once.
//!
//! A stream that is being captured into a graph is left alone. Work that is queued on it would
//! become a part of the graph, a wait for it would draw wavetrain's stream into the capture, and a
//! query of it would break the capture; only whether it is captured may be asked. A call that
//! cannot be made for that reason returns so, and is to be tried again.
//!
//! A capture may begin on another thread between that question and our call. Then the driver
//! refuses the call, which says the same; or it takes a record into the graph, which is asked for
//! after the record.

use crate::base::arena::span_of;
use crate::cuda::driver::{Driver, Named};
use crate::cuda::engine::{DeviceEngine, FENCES, Slot};
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::{DevicePointer, Event, MEMORY_OF_DEVICE, PointerAttribute, Stream};
use crate::cuda::result::CuResult;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Fences of a slot: of the streams that it is used on, of a caller's event that the detour waits
/// for, of its ready stream. The event that is over last is mostly the first one, so one look is
/// enough.
const OF_STREAMS: usize = 0;
const OF_EVENT: usize = FENCES - 3;
const OF_READY: usize = FENCES - 2;
/// That of a loan, which no slot waits for.
const OF_LOAN: usize = FENCES - 1;

/// Why memory will not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It is no memory of a device.
    NoDevice,
    /// It is that of this device.
    OtherDevice(u32),
}

impl Slot {
    /// Fences that stand for something since the slot was free.
    pub(super) fn recorded(&self) -> impl Iterator<Item = Event> {
        let fenced = self.fenced.load(Relaxed);
        let fences = self.fences.iter().enumerate();
        fences.filter(move |(number, _)| fenced & (1 << number) != 0).map(|(_, fence)| *fence)
    }
}

/// Whether a call was made; false if it was refused for a capture, and is to be made again.
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
    /// Whether all that we queued for batches has run.
    pub fn has_drained(&self) -> Result<bool, Fault> {
        let _context = self.enter()?;
        let driver = self.context.driver;
        for stream in self.streams(false) {
            if !check(driver, "cuStreamQuery", driver.stream_query(stream))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The addresses of the fences of all slots.
    pub fn fences_span(&self) -> Range<usize> {
        let spans = self.slots.iter().map(|slot| span_of(&*slot.fences));
        spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end)).unwrap_or(0..0)
    }

    /// Whether what we queued on a stream would become part of a graph, or break it.
    pub fn is_captured(&self, stream: Stream) -> Result<bool, Fault> {
        let driver = self.context.driver;
        match driver.stream_is_capturing(stream) {
            // Of the legacy stream: one that it orders is.
            Err(CuResult::STREAM_CAPTURE_IMPLICIT) => Ok(true),
            asked => check(driver, "cuStreamIsCapturing", asked),
        }
    }

    /// Why what a consumer queues on a stream cannot be waited for; None if it can be, or if the
    /// driver does not tell. In an entered context.
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

    /// Whether what an event stands for has run. None if it was recorded in a capture, so that it
    /// stands for a place in a graph and for no work. Only a query tells, which a capture that is
    /// under way may not survive; to wait for the event would draw the slot's stream into it as
    /// well.
    pub fn is_event_over(&self, event: Event) -> Result<Option<bool>, Fault> {
        let _context = self.enter()?;
        let driver = self.context.driver;
        match driver.event_query(event) {
            // A driver of CUDA 13.0 says the second where the first is documented.
            Err(CuResult::CAPTURED_EVENT | CuResult::INVALID_VALUE) => Ok(None),
            asked => check(driver, "cuEventQuery", asked).map(Some),
        }
    }

    /// Whether what a caller's event stands for is done; or what the driver says in place of an
    /// answer, unless the driver answers no call any more. In an entered context.
    pub fn is_lent_event_over(&self, event: Event) -> Result<Result<bool, Named<'_>>, Fault> {
        let driver = self.context.driver;
        match driver.event_query(event) {
            Err(code) if code.is_of_exit() => Err(Fault::Call("cuEventQuery", code, driver)),
            asked => Ok(asked.map_err(|code| driver.named(code))),
        }
    }

    /// Why bytes at an address are no memory that kernels of the device may write.
    pub fn flaw_of_memory(&self, address: u64, bytes: u64) -> Result<Option<Flaw>, Fault> {
        let (_context, driver) = (self.enter()?, self.context.driver);
        for pointer in [address, address + bytes - 1].map(DevicePointer) {
            let ask = |attribute| {
                let asked = driver.pointer_get_attribute(attribute, pointer);
                check(driver, "cuPointerGetAttribute", asked)
            };
            if ask(PointerAttribute::MEMORY_TYPE)? != Some(MEMORY_OF_DEVICE) {
                return Ok(Some(Flaw::NoDevice));
            }
            let device = ask(PointerAttribute::DEVICE_ORDINAL)?;
            if let Some(device) = device.filter(|device| *device != self.device() as u32) {
                return Ok(Some(Flaw::OtherDevice(device)));
            }
        }
        Ok(None)
    }

    /// The memory of a loan may be written behind what `event` stands for now. `is_loan_over` tells
    /// when that is.
    pub fn fence_loan(&self, loan: u32, event: Event) -> Result<(), Fault> {
        let _context = self.enter()?;
        let driver = self.context.driver;
        // As of a slot whose ready stream is captured: the event is the caller's again at once.
        let detour = self.detour.lock();
        check(driver, "cuStreamWaitEvent", driver.stream_wait_event(*detour, event))?;
        let fence = self.slots[loan as usize].fences[OF_LOAN];
        check(driver, "cuEventRecord", driver.event_record(fence, *detour))
    }

    /// Whether the memory of a loan is there. In an entered context.
    pub fn is_loan_over(&self, loan: u32) -> Result<bool, Fault> {
        self.is_done(self.slots[loan as usize].fences[OF_LOAN])
    }

    /// False if either is of a capture.
    fn wait(&self, stream: Stream, event: Event) -> Result<bool, Fault> {
        let driver = self.context.driver;
        unless_captured(driver, "cuStreamWaitEvent", driver.stream_wait_event(stream, event))
    }

    /// A fence of the slot stands for what is queued on `stream` so far. False if that is being
    /// captured.
    fn record(&self, slot: &Slot, fence: usize, stream: Stream) -> Result<bool, Fault> {
        let driver = self.context.driver;
        let recorded = driver.event_record(slot.fences[fence], stream);
        if !unless_captured(driver, "cuEventRecord", recorded)? {
            return Ok(false);
        }
        slot.fenced.fetch_or(1 << fence, Relaxed);
        // In a capture that began just before, the record is nothing in a graph; but to ask for it
        // would break that.
        let is_captured = self.is_captured(stream)?;
        if is_captured {
            slot.fenced.fetch_and(!(1 << fence), Relaxed);
        }
        Ok(!is_captured)
    }

    /// The slot is free after what `event` stands for now, at least. In an entered context, as all
    /// below.
    pub fn fence_event(&self, slot: u32, event: Event) -> Result<(), Fault> {
        let (slot, driver) = (&self.slots[slot as usize], self.context.driver);
        // The caller may record the event anew at once, or destroy it, so a stream of ours has to
        // wait for what it stands for. On the slot's own stream, whose fence comes after it, no
        // other slot waits for it.
        if !self.is_captured(slot.ready)? && self.wait(slot.ready, event)? {
            return Ok(());
        }
        // The detour is wavetrain's, so the driver refuses only an event of a capture, which was
        // not one when it was looked at.
        let detour = self.detour.lock();
        check(driver, "cuStreamWaitEvent", driver.stream_wait_event(*detour, event))?;
        let recorded = driver.event_record(slot.fences[OF_EVENT], *detour);
        check(driver, "cuEventRecord", recorded)?;
        slot.fenced.fetch_or(1 << OF_EVENT, Relaxed);
        Ok(())
    }

    /// And after what is queued so far on its ready stream, and on `streams`. False if one of these
    /// is being captured: then it is to be done again.
    pub fn fence_streams(
        &self,
        slot: u32,
        streams: impl Iterator<Item = Stream> + Clone,
    ) -> Result<bool, Fault> {
        let slot = &self.slots[slot as usize];
        let places = streams.zip(OF_STREAMS..).chain([(slot.ready, OF_READY)]);
        // Else every further try would leave a record in those that are not captured.
        for (stream, _) in places.clone() {
            if self.is_captured(stream)? {
                return Ok(false);
            }
        }
        for (stream, fence) in places {
            if !self.record(slot, fence, stream)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether all of that has run.
    pub(super) fn have_run(&self, slot: &Slot) -> Result<bool, Fault> {
        for fence in slot.recorded() {
            if !self.is_done(fence)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same; if so, the slot is free.
    pub fn is_unfenced(&self, slot: u32) -> Result<bool, Fault> {
        let slot = &self.slots[slot as usize];
        let is_free = self.have_run(slot)?;
        if is_free {
            slot.fenced.store(0, Relaxed);
        }
        Ok(is_free)
    }
}
