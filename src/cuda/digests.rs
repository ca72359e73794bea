//! The kernel that reads full batches for the digests of their samples.
//!
//! In: fields of a slot whose every row was written by work that has run. Out: for each part of a
//! sample its share, in pinned memory, once the slot's `digested` event was seen. The host adds
//! them up: no atomics, and no order among blocks. Invariant: a slot's shares are its own until its
//! batch is popped, so nothing is written that somebody reads.

use crate::base::arena::Region;
use crate::base::math::index;
use crate::cuda::engine::{BLOCK_THREADS, DeviceEngine, WARP_THREADS};
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::DevicePointer;
use core::ffi::c_void;

/// Bytes of a part of a sample: what a warp reads in 32 turns.
pub const PART_BYTES: u64 = 16 << 10;

/// Parts of a sample of so many bytes.
pub fn parts(sample_bytes: u64) -> u64 {
    sample_bytes.div_ceil(PART_BYTES)
}

/// Samples of a field, to be read.
#[derive(Clone, Copy, Debug)]
pub struct DigestRead {
    /// Their places: addresses of the device.
    pub samples: Region,
    /// Bytes of each.
    pub sample_bytes: u64,
    /// Place of the first share among those of the slot.
    pub first_share: u64,
}

impl DigestRead {
    /// Number of shares.
    pub fn shares(&self) -> u64 {
        self.samples.bytes() / self.sample_bytes * parts(self.sample_bytes)
    }
}

impl DeviceEngine {
    /// The shares of a slot, which a kernel wrote.
    pub fn shares(&self, slot: u32) -> Region {
        let bytes = self.sizes.slot_shares * size_of::<u64>() as u64;
        self.pinned_part(self.sizes.shares_at() + u64::from(slot) * bytes, bytes)
    }

    /// Before the kernels of a pass over a slot. In an entered context, as below.
    pub fn begin_pass(&self, slot: u32) -> Result<(), Fault> {
        self.record_pass(slot, 0)
    }

    fn record_pass(&self, slot: u32, number: usize) -> Result<(), Fault> {
        self.queue_event(self.slots[index(u64::from(slot))].digests[number], self.post)
    }

    /// Queues the kernel on samples of a slot.
    pub fn read_for_digests(&self, slot: u32, read: &DigestRead) -> Result<(), Fault> {
        let driver = self.context.driver;
        let (mut sample_bytes, mut parts) = (read.sample_bytes, parts(read.sample_bytes));
        let mut count = read.shares();
        let place = self.shares(slot).part(8 * read.first_share, 8 * count);
        let mut data = DevicePointer(read.samples.as_ptr() as u64);
        let mut shares = DevicePointer(place.as_ptr() as u64);
        let mut parameters: [*mut c_void; 5] = [
            (&raw mut data).cast(),
            (&raw mut sample_bytes).cast(),
            (&raw mut parts).cast(),
            (&raw mut count).cast(),
            (&raw mut shares).cast(),
        ];
        let blocks = count.div_ceil(u64::from(BLOCK_THREADS / WARP_THREADS));
        // A slot has 2^44 bytes at most, and a million samples: fewer blocks than a launch takes.
        assert!(blocks <= i32::MAX as u64);
        let (grid, block) = ([blocks as u32, 1, 1], [BLOCK_THREADS, 1, 1]);
        // SAFETY: these are the kernel's parameters. The samples were written by work that has run
        // and nobody writes them before the batch is popped; the shares are the slot's own, and
        // nobody looks at them before the event after the kernel was seen.
        let launched = unsafe {
            driver.launch_kernel(self.digest, grid, block, 0, self.post, &mut parameters)
        };
        check(driver, "cuLaunchKernel", launched)
    }

    /// An event after the kernels of all fields of a slot.
    pub fn end_pass(&self, slot: u32) -> Result<(), Fault> {
        self.record_pass(slot, 1)
    }

    /// Whether they have run.
    pub fn has_passed(&self, slot: u32) -> Result<bool, Fault> {
        self.is_done(self.slots[index(u64::from(slot))].digests[1])
    }

    /// Nanoseconds that they took; 0 if the driver cannot tell.
    pub fn pass_ns(&self, slot: u32) -> u64 {
        self.elapsed_ns(self.slots[index(u64::from(slot))].digests)
    }
}
