//! The work that is queued for a slab: its copy, and the kernels on the resident wave that it
//! becomes.
//!
//! In: a slab whose writers are done. Out: work on the engine's streams, between events that are
//! polled. Each step is queued when the one before was seen to be done. In an entered context.

use crate::base::arena::Region;
use crate::base::math::index;
use crate::cuda::engine::{BLOCK_THREADS, DeviceEngine, Submit, WARP_THREADS};
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::{DevicePointer, Event, Function, Stream};
use core::ffi::c_void;

/// Bytes of one copy to the device: what a trainer copies gets its turn in between.
const PIECE_BYTES: u64 = 4 << 20;

/// The arguments of all kernels that decode.
#[derive(Clone, Copy)]
struct Decode {
    wave: DevicePointer,
    wave_bytes: u64,
    streams_at: u64,
    streams: u32,
    decoded: DevicePointer,
    decoded_bytes: u64,
    status: DevicePointer,
}

/// Bytes of the record of a stream or a block, and blocks that a warp takes.
const RECORD_BYTES: u64 = 32;
const BLOCKS_IN_WARP: u32 = 8;

impl DeviceEngine {
    /// The status words of the streams of a resident wave; the device has them at the same place.
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
    /// `number`: of it among all decodings.
    pub fn decode(&self, submit: &Submit, number: u64) -> Result<(), Fault> {
        let Submit { resident, streams_at, streams, .. } = *submit;
        assert!(0 < streams && streams <= self.sizes.streams);
        let words = self.verdicts(resident).part(0, u64::from(streams) * size_of::<u32>() as u64);
        // SAFETY: the words are ours, and no kernel uses them while the resident wave is not done.
        unsafe { words.as_ptr().write_bytes(0, index(words.bytes())) };
        let [begun, done] = self.decoding_events(number);
        self.queue_event(begun, self.decoding)?;
        let all = Decode {
            wave: self.wave_address(resident),
            wave_bytes: submit.units_at,
            streams_at,
            streams,
            decoded: self.wave_address(resident).at(self.sizes.wave_bytes),
            decoded_bytes: self.sizes.decoded_bytes,
            status: DevicePointer(words.as_ptr() as u64),
        };
        self.decode_streams(all)?;
        let blocks_at = streams_at + u64::from(streams) * RECORD_BYTES;
        for pass in submit.passes.iter().take_while(|pass| pass.streams > 0) {
            let part = Decode {
                streams_at: streams_at + u64::from(pass.stream) * RECORD_BYTES,
                streams: pass.streams,
                status: all.status.at(u64::from(pass.stream) * size_of::<u32>() as u64),
                ..all
            };
            let at = blocks_at + u64::from(pass.block) * RECORD_BYTES;
            self.decode_frames(part, (at, pass.blocks))?;
        }
        self.queue_event(done, self.decoding)
    }

    /// Queues a kernel that decodes, with so many warps in blocks of so many threads.
    ///
    /// # Safety
    /// These are the kernel's parameters.
    unsafe fn launch_decode(
        &self,
        kernel: Function,
        (warps, threads): (u32, u32),
        parameters: &mut [*mut c_void],
    ) -> Result<(), Fault> {
        let driver = self.context.driver;
        let (grid, block) = ([warps.div_ceil(threads / WARP_THREADS), 1, 1], [threads, 1, 1]);
        // SAFETY: the caller's. It reads data of the wave and records after it, and writes the
        // decoded part of the resident wave, scratch that only this stream uses, and words that
        // nobody looks at before `done` was seen; each stream is checked against all extents.
        let launched =
            unsafe { driver.launch_kernel(kernel, grid, block, 0, self.decoding, parameters) };
        check(driver, "cuLaunchKernel", launched)
    }

    fn decode_streams(&self, mut all: Decode) -> Result<(), Fault> {
        let warps = all.streams;
        let mut parameters: [*mut c_void; 7] = [
            (&raw mut all.wave).cast(),
            (&raw mut all.wave_bytes).cast(),
            (&raw mut all.streams_at).cast(),
            (&raw mut all.streams).cast(),
            (&raw mut all.decoded).cast(),
            (&raw mut all.decoded_bytes).cast(),
            (&raw mut all.status).cast(),
        ];
        // SAFETY: see `LZ4`.
        unsafe { self.launch_decode(self.decode, (warps, BLOCK_THREADS), &mut parameters) }
    }

    /// Queues the three kernels on the frames of a pass, whose blocks begin at that place.
    fn decode_frames(
        &self,
        mut part: Decode,
        (mut blocks_at, mut blocks): (u64, u32),
    ) -> Result<(), Fault> {
        let mut scratch = self.memory.at(self.sizes.scratch_at());
        let (mut scratch_bytes, frames) = (self.sizes.scratch_bytes, part.streams);
        let warps = blocks.div_ceil(BLOCKS_IN_WARP);
        let mut parameters: [*mut c_void; 11] = [
            (&raw mut part.wave).cast(),
            (&raw mut part.wave_bytes).cast(),
            (&raw mut blocks_at).cast(),
            (&raw mut blocks).cast(),
            (&raw mut scratch).cast(),
            (&raw mut scratch_bytes).cast(),
            (&raw mut part.streams_at).cast(),
            (&raw mut part.streams).cast(),
            (&raw mut part.decoded).cast(),
            (&raw mut part.decoded_bytes).cast(),
            (&raw mut part.status).cast(),
        ];
        let [literals, sequences, whole] = self.frames;
        // SAFETY: see `ZSTD` and `ZSTD_MORE`; the first two take the first six.
        unsafe {
            self.launch_decode(literals, (warps, WARP_THREADS), &mut parameters[..6])?;
            self.launch_decode(sequences, (warps, WARP_THREADS), &mut parameters[..6])?;
            self.launch_decode(whole, (frames, BLOCK_THREADS), &mut parameters)
        }
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
        // nobody looks at it before the event after the kernel was seen.
        let launched = unsafe {
            driver.launch_kernel(self.assemble, grid, block, 0, self.post, &mut parameters)
        };
        check(driver, "cuLaunchKernel", launched)
    }
}
