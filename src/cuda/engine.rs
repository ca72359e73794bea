//! One loader's share of a device: its memory, streams and events, and what is queued on them.
//!
//! In: slabs to be copied and worked on, slots that wait for a consumer. Out: answers to "is it
//! done". Everything is made at open and given back at close; nothing in between allocates, and
//! nothing but `drain` waits for the device.
//!
//! ```text
//!  input stream   copy of a slab, in pieces ──copied────▶ polled, then
//!  decode stream  decode its streams ─────────decoded───▶ polled, then
//!  post stream    assemble ───────────────────assembled─▶ polled
//!  ready streams  (of each slot) consumers' work ─fences─▶ polled
//!  consumers' streams ────────────────────────────fences─▶ polled
//! ```
//!
//! What comes after something is queued when that was seen to be done: of a stream that waits for
//! another the device may see a queue that everybody's work stands in.
//!
//! `fences` describes the meaning of fences.
//!
//! A kernel that refuses a unit says so in a word of pinned memory, which it writes by the host's
//! address. A copy of such a word out of device memory would wait for every copy of a trainer to
//! the host.
//!
//! If digests are asked for, `digests` reads full batches on the post stream, too.
//!
//! A resident wave is written again only after its `assembled` event was seen, a slab only after
//! `copied`, a slot only after its fences.

use crate::base::arena::Region;
use crate::base::limits::{MEMORY_PAGE_BYTES, USES_PER_SLOT};
use crate::base::math::{align_up, index};
use crate::cuda::Devices;
use crate::cuda::context::Entered;
use crate::cuda::device::DeviceContext;
use crate::cuda::fault::{Fault, check};
use crate::cuda::handles::{DevicePointer, Event, Function, Module, Stream};
use crate::os::sync::Mutex;
use arrayvec::ArrayVec;
use core::ptr::{NonNull, without_provenance_mut};
use core::sync::atomic::AtomicU32;

/// Waves that are in device memory at a time: one is filled while the other is worked on.
pub const RESIDENT_WAVES: usize = 2;

/// Decodings of resident waves whose events stand at a time: those of the waves that are there, and
/// the one before, to which the gap is measured.
pub(super) const DECODINGS: usize = RESIDENT_WAVES + 1;

/// Most slabs, and most batch slots: the sets of both are bits of a u64.
pub const SLABS_MAX: usize = 64;

/// Bytes that device memory is given out in: what we take counts as whole ones.
pub const DEVICE_PAGE_BYTES: u64 = 2 << 20;

/// Pinned bytes for the status words.
const STATUS_BYTES: u64 = 4096;

/// Bytes between two of them: neither is in a line of the other.
const STATUS_STEP: u64 = 64;

/// Threads of a block of the kernels.
pub(super) const BLOCK_THREADS: u32 = 256;

/// Lanes of a warp.
pub(super) const WARP_THREADS: u32 = 32;

/// The sizes that a loader takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of all batch slots.
    pub slots_bytes: u64,
    /// Number of batch slots.
    pub slots: u32,
    /// Bytes of a slab, and of what a resident wave has of it.
    pub wave_bytes: u64,
    /// Bytes after that which the device decodes to.
    pub decoded_bytes: u64,
    /// Bytes after all resident waves that frames are decoded with.
    pub scratch_bytes: u64,
    /// Most streams of a wave that it decodes; 0: it decodes nothing.
    pub streams: u32,
    /// Number of slabs.
    pub slabs: u32,
    /// Bytes of the staging memory for encoded chunks.
    pub staging_bytes: u64,
    /// Shares of digests that a slot has; 0 without digests.
    pub slot_shares: u64,
}

impl Sizes {
    /// Bytes of device memory beside slots and resident waves: the rest of the last page.
    pub fn rest_bytes(&self) -> u64 {
        self.device_bytes() - self.used_bytes()
    }

    /// Bytes of device memory that have a use.
    pub fn used_bytes(&self) -> u64 {
        self.scratch_at() + self.scratch_bytes
    }

    /// The offset of the scratch.
    pub(super) fn scratch_at(&self) -> u64 {
        self.slots_bytes + self.resident_bytes() * RESIDENT_WAVES as u64
    }

    /// Bytes of a resident wave.
    pub fn resident_bytes(&self) -> u64 {
        self.wave_bytes + self.decoded_bytes
    }

    /// Bytes of device memory.
    pub fn device_bytes(&self) -> u64 {
        align_up(self.used_bytes(), DEVICE_PAGE_BYTES)
    }

    /// Bytes of pinned host memory: slabs, status words, staging, shares of digests.
    pub fn pinned_bytes(&self) -> u64 {
        self.shares_at() + self.shares_bytes()
    }

    /// The offset of the shares of digests.
    pub(super) fn shares_at(&self) -> u64 {
        align_up(self.slabs_bytes() + self.staging_bytes, size_of::<u64>() as u64)
    }

    /// Bytes of the shares of digests of all slots.
    pub fn shares_bytes(&self) -> u64 {
        self.slot_shares * size_of::<u64>() as u64 * u64::from(self.slots)
    }

    /// Bytes of it that slabs and status words take: whole pages.
    pub fn slabs_bytes(&self) -> u64 {
        self.verdicts_at() + self.verdict_bytes() * RESIDENT_WAVES as u64
    }

    /// The offset of the status words of streams.
    pub(super) fn verdicts_at(&self) -> u64 {
        self.wave_bytes * u64::from(self.slabs) + STATUS_BYTES
    }

    /// Bytes of those of a resident wave.
    pub(super) fn verdict_bytes(&self) -> u64 {
        align_up(u64::from(self.streams) * size_of::<u32>() as u64, MEMORY_PAGE_BYTES)
    }
}

/// The work on a slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submit {
    /// The slab.
    pub slab: u32,
    /// The resident wave that it goes to.
    pub resident: u32,
    /// First byte that is copied.
    pub first: u64,
    /// The byte after the last.
    pub limit: u64,
    /// First byte of the units.
    pub units_at: u64,
    /// First byte of the table of tiles.
    pub tiles_at: u64,
    /// Number of units.
    pub units: u32,
    /// Number of tiles, at least 1.
    pub tiles: u32,
    /// First byte of the streams.
    pub streams_at: u64,
    /// Number of streams.
    pub streams: u32,
    /// The passes that its frames are decoded in, up to the first without a stream.
    pub passes: [Pass; PASSES_MAX],
}

/// Frames whose blocks fit the scratch together. Streams of other kinds may lie between them. All
/// passes of all waves use the same scratch, one after the other on one stream.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pass {
    /// The first of its streams.
    pub stream: u32,
    /// How many they are.
    pub streams: u32,
    /// The first of their blocks, after all streams.
    pub block: u32,
    /// How many those are.
    pub blocks: u32,
}

/// Passes of a wave at most. Frames that none of them takes are not looked at, and so refused.
pub const PASSES_MAX: usize = 16;

impl Submit {
    /// Nothing is done.
    pub const NOTHING: Submit = Submit {
        slab: 0,
        resident: 0,
        first: 0,
        limit: 0,
        units_at: 0,
        tiles_at: 0,
        units: 0,
        tiles: 0,
        streams_at: 0,
        streams: 0,
        passes: [Pass { stream: 0, streams: 0, block: 0, blocks: 0 }; PASSES_MAX],
    };
}

/// Events around the work on a slab, and on a resident wave: they take the time between them.
pub(super) type Pair = [Event; 2];

/// Fences of a slot: of each stream that it is used on, of a caller's event, of its ready stream,
/// and of the event behind which the memory of the loan of the same number is there.
pub(super) const FENCES: usize = USES_PER_SLOT as usize + 3;

/// The fences of a slot: in the host's memory, because all slots' are too many for a stack.
pub type Fences = [Event; FENCES];

/// Those of a slot that is not made yet.
pub const NO_FENCES: Fences = [Event::NULL; FENCES];

/// A batch slot.
pub(super) struct Slot {
    /// The stream for the consumer's work.
    pub ready: Stream,
    /// After what was queued when the slot was given back.
    pub fences: &'static mut Fences,
    /// Those of them that stand for something since the slot was free, as bits. Written by who has
    /// the slot, read by who looks whether it is free; the lock of the state is between them.
    pub fenced: AtomicU32,
    /// Around the reading of its samples for their digests; none without digests.
    pub digests: Pair,
}

/// See the module.
pub struct DeviceEngine {
    /// The context.
    pub context: DeviceContext,
    /// The sizes that were taken.
    pub sizes: Sizes,
    pub(super) modules: [Module; 4],
    pub(super) assemble: Function,
    /// None if nothing is decoded on the device.
    pub(super) decode: Function,
    /// Literals, sequences, and what they become. None if no frames are decoded on the device.
    pub(super) frames: [Function; 3],
    /// None without digests.
    pub(super) digest: Function,
    pub(super) memory: DevicePointer,
    /// Slabs, status words, staging, shares of digests. None until it was taken.
    pub(super) pinned: Option<Region>,
    pub(super) input: Stream,
    /// None if nothing is decoded on the device.
    pub(super) decoding: Stream,
    pub(super) post: Stream,
    pub(super) copies: ArrayVec<Pair, SLABS_MAX>,
    pub(super) decodes: [Pair; DECODINGS],
    pub(super) kernels: [Pair; RESIDENT_WAVES],
    pub(super) slots: ArrayVec<Slot, SLABS_MAX>,
    /// Those of slots that are not made yet.
    pub(super) fences: &'static mut [Fences],
    /// The stream that waits for an event while the ready stream of its slot is being captured.
    pub(super) detour: Mutex<Stream>,
    /// The stream that all batches are used on, if the config names one.
    pub consumer: Option<Stream>,
    /// Bytes of the device that kernels and streams took, as far as it was seen: not ours to cap.
    pub overhead_bytes: u64,
    /// A library without devices has no value of this type, so the code for engines is left out,
    /// too.
    pub(super) _devices: Devices,
}

impl DeviceEngine {
    /// Makes our context current on this thread until the result is dropped.
    pub fn enter(&self) -> Result<Entered, Fault> {
        self.context.enter()
    }

    /// Number of the device.
    pub fn device(&self) -> i32 {
        self.context.device.0
    }

    /// The batch slots: addresses of the device.
    pub fn batches(&self) -> Region {
        let start = without_provenance_mut::<u8>(index(self.memory.0));
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        // SAFETY: the bytes are the device's. The host never reads them: the region is an address
        // and a length, and the surfaces hand both on as such.
        unsafe { Region::over(start, self.sizes.slots_bytes) }
    }

    /// A slab.
    pub fn slab(&self, slab: u32) -> Region {
        assert!(slab < self.sizes.slabs);
        self.pinned_part(u64::from(slab) * self.sizes.wave_bytes, self.sizes.wave_bytes)
    }

    /// The memory in which encoded chunks are staged.
    pub fn staging(&self) -> Region {
        self.pinned_part(self.sizes.slabs_bytes(), self.sizes.staging_bytes)
    }

    pub(super) fn pinned_part(&self, offset: u64, bytes: u64) -> Region {
        let Some(pinned) = self.pinned else { unreachable!("an open engine has pinned memory") };
        pinned.part(offset, bytes)
    }

    pub(super) fn wave_address(&self, resident: u32) -> DevicePointer {
        self.memory.at(self.sizes.slots_bytes + u64::from(resident) * self.sizes.resident_bytes())
    }

    /// The status word of a resident wave; the device has it at the same address.
    pub(super) fn status_word(&self, resident: u32) -> *mut u32 {
        let slabs_bytes = self.sizes.wave_bytes * u64::from(self.sizes.slabs);
        self.pinned_part(slabs_bytes + u64::from(resident) * STATUS_STEP, 4).as_ptr().cast()
    }

    pub(super) fn is_done(&self, event: Event) -> Result<bool, Fault> {
        let driver = self.context.driver;
        check(driver, "cuEventQuery", driver.event_query(event))
    }

    /// Whether the copy of a slab has run.
    pub fn is_copied(&self, slab: u32) -> Result<bool, Fault> {
        self.is_done(self.copies[slab as usize][1])
    }

    /// Whether the streams of a resident wave were decoded, as far as they can be. `number` is that
    /// of the decoding.
    pub fn is_decoded(&self, number: u64) -> Result<bool, Fault> {
        self.is_done(self.decoding_events(number)[1])
    }

    /// Whether the work on a resident wave has run, and went well.
    pub fn is_assembled(&self, resident: u32) -> Result<bool, Fault> {
        if !self.is_done(self.kernels[resident as usize][1])? {
            return Ok(false);
        }
        // SAFETY: the kernel has run, and no other is queued until the wave is free.
        match unsafe { self.status_word(resident).read_volatile() } {
            0 => Ok(true),
            word => Err(Fault::Kernel(word)),
        }
    }

    /// Nanoseconds of the copy of a slab that has run; 0 if the driver cannot tell.
    pub fn copy_ns(&self, slab: u32) -> u64 {
        self.elapsed_ns(self.copies[slab as usize])
    }

    /// Nanoseconds of the work on a resident wave that has run, likewise.
    pub fn assemble_ns(&self, resident: u32) -> u64 {
        self.elapsed_ns(self.kernels[resident as usize])
    }

    /// Nanoseconds of a decoding that has run, likewise.
    pub fn decode_ns(&self, number: u64) -> u64 {
        self.elapsed_ns(self.decoding_events(number))
    }

    /// Nanoseconds from the end of the decoding before one that has run to its begin, likewise.
    pub fn decode_gap_ns(&self, number: u64) -> u64 {
        self.elapsed_ns([self.decoding_events(number - 1)[1], self.decoding_events(number)[0]])
    }

    /// Nanoseconds from the end of a decoding to the begin of the copy of a slab, which has run; 0
    /// if it had begun before.
    pub fn unstaged_ns(&self, number: u64, slab: u32) -> u64 {
        self.elapsed_ns([self.decoding_events(number)[1], self.copies[slab as usize][0]])
    }

    pub(super) fn decoding_events(&self, number: u64) -> Pair {
        self.decodes[(number % DECODINGS as u64) as usize]
    }

    pub(super) fn elapsed_ns(&self, [first, last]: Pair) -> u64 {
        let elapsed = self.context.driver.event_elapsed_time(first, last);
        elapsed.map_or(0, |milliseconds| (milliseconds * 1e6) as u64)
    }

    /// The ready stream of a slot.
    pub fn ready_stream(&self, slot: u32) -> Stream {
        self.slots[slot as usize].ready
    }

    /// Copies bytes of a slot to the host, and waits for it. On the slot's ready stream: a copy on
    /// the default stream would break what the caller captures on another one meanwhile. False if
    /// the ready stream itself is being captured.
    pub fn read(&self, slot: Stream, source: &Region, target: &mut [u8]) -> Result<bool, Fault> {
        assert!(source.bytes() == target.len() as u64);
        let _context = self.enter()?;
        let driver = self.context.driver;
        if self.is_captured(slot)? {
            return Ok(false);
        }
        let from = DevicePointer(source.as_ptr() as u64);
        // SAFETY: the target is borrowed until the copy has run, or was refused.
        let queued =
            unsafe { driver.memcpy_dtoh_async(target.as_mut_ptr(), from, source.bytes(), slot) };
        check(driver, "cuMemcpyDtoHAsync", queued)?;
        let mut waited = driver.stream_synchronize(slot);
        // The copy must not outlive the borrow. Ends: a driver that fails does not fail for ever
        // without saying so in its queries, which then fail too.
        while waited.is_err() && driver.stream_query(slot) == Ok(false) {
            waited = driver.stream_synchronize(slot);
        }
        check(driver, "cuStreamSynchronize", waited)?;
        Ok(true)
    }

    /// Every stream of ours, the slots' only with `with_slots`.
    pub(super) fn streams(&self, with_slots: bool) -> impl Iterator<Item = Stream> {
        let slots = self.slots.iter().filter(move |_| with_slots).map(|slot| slot.ready);
        // The streams on which consumers are waited for.
        let detour = Some(*self.detour.lock()).filter(|_| with_slots);
        let ours = [self.input, self.decoding, self.post].into_iter();
        ours.chain(detour).chain(slots).filter(|stream| !stream.is_null())
    }

    /// Waits until all that we queued has run; `with_slots`: and all that slots wait for. A call
    /// that fails keeps none of the others from being made, and is told.
    pub fn drain(&self, with_slots: bool) -> Result<(), Fault> {
        let (_context, mut drained) = match self.enter() {
            Ok(context) => (context, Ok(())),
            Err(fault) => (self.enter()?, Err(fault)),
        };
        let driver = self.context.driver;
        for stream in self.streams(with_slots) {
            let waited = driver.stream_synchronize(stream);
            drained = drained.and(check(driver, "cuStreamSynchronize", waited));
        }
        for slot in self.slots.iter().filter(|_| with_slots) {
            for fence in slot.recorded() {
                let waited = driver.event_synchronize(fence);
                drained = drained.and(check(driver, "cuEventSynchronize", waited));
            }
        }
        drained
    }

    /// Whether all of it has run.
    pub fn is_at_rest(&self) -> Result<bool, Fault> {
        let _context = self.enter()?;
        let driver = self.context.driver;
        for stream in self.streams(true) {
            // A query would break the capture of a ready stream.
            let is_captured = self.is_captured(stream)?;
            if is_captured || !check(driver, "cuStreamQuery", driver.stream_query(stream))? {
                return Ok(false);
            }
        }
        for slot in &self.slots {
            if !self.have_run(slot)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
