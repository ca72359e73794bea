//! A producer of data in memory of device 0, simulated or not: blocks that are written in the time of
//! a stream of its own, each behind an event.
//!
//! In: bytes. Out: where they will be. Invariant: until the event of a block is over its bytes are
//! others, so whoever reads too early is found out.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use wavetrain::cuda::context::Entered;
use wavetrain::cuda::handles::{
    DevicePointer, EVENT_DISABLE_TIMING, MEM_HOST_PORTABLE, STREAM_NON_BLOCKING,
};
use wavetrain::cuda::{DeviceContext, Driver, DriverPath, Event, Stream};
use wavetrain::status::Why;

/// In the primary context, which loaders take where none is current.
pub struct Lender {
    context: DeviceContext,
    stream: Stream,
    lent: RefCell<Vec<Lent>>,
}

struct Lent {
    block: DevicePointer,
    pinned: NonNull<u8>,
    event: Event,
}

impl Lender {
    pub fn new(driver: DriverPath) -> Lender {
        let mut why = Why::new();
        let driver = Driver::load(driver, &mut why).unwrap_or_else(|_| panic!("{why}"));
        let context = DeviceContext::open(driver, 0, &mut why).unwrap_or_else(|_| panic!("{why}"));
        let entered = context.enter().unwrap();
        let stream = driver.stream_create(STREAM_NON_BLOCKING, 0).unwrap();
        drop(entered);
        Lender { context, stream, lent: RefCell::default() }
    }

    fn enter(&self) -> (&'static Driver, Entered) {
        (self.context.driver, self.context.enter().unwrap())
    }

    /// A block of these bytes, and of no more: device, address and event.
    pub fn lend(&self, bytes: &[u8]) -> (u32, u64, *mut c_void) {
        let (driver, _entered) = self.enter();
        let count = bytes.len() as u64;
        let block = driver.mem_alloc(count).unwrap();
        let pinned = driver.mem_host_alloc(count, MEM_HOST_PORTABLE).unwrap();
        let event = driver.event_create(EVENT_DISABLE_TIMING).unwrap();
        // SAFETY: block and pinned bytes are as many, and live as long as this.
        unsafe {
            pinned.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            driver.memset_d8_async(block, 0xB7, count, self.stream).unwrap();
            driver.memcpy_htod_async(block, pinned.as_ptr(), count, self.stream).unwrap();
        }
        driver.event_record(event, self.stream).unwrap();
        self.lent.borrow_mut().push(Lent { block, pinned, event });
        (0, block.0, event.as_raw())
    }

    /// Gives all blocks back: no loader reads them any more.
    pub fn take_back(&self) {
        let (driver, _entered) = self.enter();
        driver.stream_synchronize(self.stream).unwrap();
        for Lent { block, pinned, event } in self.lent.take() {
            // SAFETY: all are this value's, and nobody uses them any more.
            unsafe {
                driver.mem_free(block).unwrap();
                driver.mem_free_host(pinned).unwrap();
                driver.event_destroy(event).unwrap();
            }
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.take_back();
        let (driver, entered) = self.enter();
        // SAFETY: nothing is queued on it, and nothing of the context is left.
        unsafe {
            driver.stream_destroy(self.stream).unwrap();
            drop(entered);
            self.context.close().unwrap();
        }
    }
}
