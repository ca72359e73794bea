//! What is queued for a slab: its copy, and the kernels on the resident wave that it becomes.
//!
//! In: a slab whose writers are done. Out: work on the engine's streams, between events that are
//! polled. Each step is queued when the one before was seen to be done. In an entered context.

use crate::base::arena::Region;
use crate::base::math::index;
use crate::cuda::engine::{BLOCK_THREADS, DeviceEngine, Fault, Submit, WARP_THREADS, check};
use crate::cuda::handles::{DevicePointer, Event, Stream};
use core::ffi::c_void;

/// Bytes of one copy to the device: what a trainer copies gets its turn in between.
const PIECE_BYTES: u64 = 4 << 20;

impl DeviceEngine {
    /// The status words of the streams of a resident wave; the device has them there as well.
    fn verdicts(&self, resident: u32) -> Region {
        let bytes = self.sizes.verdict_bytes();
        self.pinned_part(self.sizes.verdicts_at() + u64::from(resident) * bytes, bytes)
    }

    /// The status word of a stream of a resident wave whose streams were decoded.
    pub fn verdict(&self, resident: u32, stream: u32) -> u32 {
        assert!(stream < self.sizes.streams);
        let words = self.verdicts(resident).as_ptr().cast::<u32>();
        // SAFETY: the word is one of them, and the kernel has run.
        unsafe { words.add(stream as usize).read_volatile() }
    }

    pub(super) fn queue_event(&self, event: Event, stream: Stream) -> Result<(), Fault> {
        let driver = self.context.driver;
        check(driver, "cuEventRecord", driver.event_record(event, stream))
    }

    /// Queues the copy of a slab to a resident wave. In an entered context, as what follows.
    pub fn copy(&self, submit: &Submit) -> Result<(), Fault> {
        let driver = self.context.driver;
        let Submit { slab, resident, first, limit, .. } = *submit;
        assert!(first < limit && limit <= self.sizes.wave_bytes);
        let [copying, copied] = self.copies[slab as usize];
        self.queue_event(copying, self.input)?;
        let mut at = first;
        while at < limit {
            let bytes = PIECE_BYTES.min(limit - at);
            let source = self.slab(slab).part(at, bytes).as_ptr();
            let target = self.wave_address(resident).at(at);
            // SAFETY: nobody writes the slab before `copied` was seen, and the resident wave is
            // free.
            let queued = unsafe { driver.memcpy_htod_async(target, source, bytes, self.input) };
            check(driver, "cuMemcpyHtoDAsync", queued)?;
            at += bytes;
        }
        self.queue_event(copied, self.input)
    }

    /// Queues the decoding of the streams of a resident wave that was copied, with clear words.
    pub fn decode(&self, submit: &Submit) -> Result<(), Fault> {
        let driver = self.context.driver;
        let Submit { resident, mut streams_at, streams: mut count, .. } = *submit;
        assert!(0 < count && count <= self.sizes.streams);
        let mut wave = self.wave_address(resident);
        let mut decoded = wave.at(self.sizes.wave_bytes);
        let (mut wave_bytes, mut decoded_bytes) = (submit.units_at, self.sizes.decoded_bytes);
        let words = self.verdicts(resident).part(0, u64::from(count) * size_of::<u32>() as u64);
        // SAFETY: the words are ours, and no kernel uses them while the resident wave is not done.
        unsafe { words.as_ptr().write_bytes(0, index(words.bytes())) };
        let mut status = DevicePointer(words.as_ptr() as u64);
        let mut parameters: [*mut c_void; 7] = [
            (&raw mut wave).cast(),
            (&raw mut wave_bytes).cast(),
            (&raw mut streams_at).cast(),
            (&raw mut count).cast(),
            (&raw mut decoded).cast(),
            (&raw mut decoded_bytes).cast(),
            (&raw mut status).cast(),
        ];
        let [begun, done] = self.decodes[resident as usize];
        self.queue_event(begun, self.decoding)?;
        let blocks = count.div_ceil(BLOCK_THREADS / WARP_THREADS);
        let (grid, block) = ([blocks, 1, 1], [BLOCK_THREADS, 1, 1]);
        // SAFETY: these are the kernel's parameters. It reads data of the wave and its streams, and
        // writes what of the resident wave is decoded, and words that nobody looks at before
        // `done` was seen; each stream is checked against both extents.
        let launched = unsafe {
            driver.launch_kernel(self.decode, grid, block, 0, self.decoding, &mut parameters)
        };
        check(driver, "cuLaunchKernel", launched)?;
        self.queue_event(done, self.decoding)
    }

    /// Queues the work on a resident wave that was copied and decoded.
    pub fn assemble(&self, submit: &Submit) -> Result<(), Fault> {
        let [assembling, assembled] = self.kernels[submit.resident as usize];
        self.queue_event(assembling, self.post)?;
        self.launch(submit)?;
        self.queue_event(assembled, self.post)
    }

    /// Queues the kernel on a resident wave, with a clear status word.
    fn launch(&self, submit: &Submit) -> Result<(), Fault> {
        let driver = self.context.driver;
        let Submit { resident, mut units_at, mut tiles_at, mut units, tiles, .. } = *submit;
        assert!(tiles > 0);
        let mut wave = self.wave_address(resident);
        let (mut decoded_at, mut limit) = (self.sizes.wave_bytes, self.sizes.resident_bytes());
        let word = self.status_word(resident);
        // SAFETY: the word is ours, and no kernel uses it while the resident wave is free.
        unsafe { word.write_volatile(0) };
        let mut status = DevicePointer(word as u64);
        let mut parameters: [*mut c_void; 7] = [
            (&raw mut wave).cast(),
            (&raw mut units_at).cast(),
            (&raw mut tiles_at).cast(),
            (&raw mut units).cast(),
            (&raw mut decoded_at).cast(),
            (&raw mut limit).cast(),
            (&raw mut status).cast(),
        ];
        let (grid, block) = ([tiles, 1, 1], [BLOCK_THREADS, 1, 1]);
        // SAFETY: these are the kernel's parameters. Units were built by `assemble::units`: they
        // read the wave and write slots whose batches are being filled. The word is pinned, and
        // nobody looks at it before the event behind the kernel was seen.
        let launched = unsafe {
            driver.launch_kernel(self.assemble, grid, block, 0, self.post, &mut parameters)
        };
        check(driver, "cuLaunchKernel", launched)
    }
}
