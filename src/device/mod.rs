//! Slabs and resident waves: how chunks come from workers to a device, many at a time.
//!
//! In: reservations of workers. Out: which slab is copied to which resident wave next, and which
//! memory is free again. Only bookkeeping under the lock: the calls to the driver are `cuda`'s, the
//! order of things that of `jobs::device`.
//!
//! ```text
//!  slab      Free ──▶ Filling ──(full, or the device is idle)──▶ Sealed
//!              ▲                                                   │ no writer
//!              └───────────(the copy has run)──────── Copying ◀────┘
//!  resident  Free ──(a slab is submitted)──▶ Busy ──(its kernels have run)──▶ Free
//! ```
//!
//! A slab is page-locked host memory, a resident wave the device memory that it is copied to. Data
//! lies in front of the units, so that one copy takes what is used of both; after the wave lie the
//! bytes that the device decodes, which it alone has:
//!
//! ```text
//!  0      first                 data_bytes                                     bytes()
//!  | free | data, growing down  | units, growing up | tiles | streams | free    | decoded |
//! ```
//!
//! Data is decoded chunks, or encoded ones whose streams the device decodes. Those are *late*:
//! whether one decodes is known when the resident wave is done, and one that does not is read
//! again, for a worker (`wave`, `jobs::plan::redo`).
//!
//! Invariants: a writer has its part of a slab to itself until it is done; a slab is submitted when
//! its last writer is done; the chunks of a slab count as missing in their batches until the
//! resident wave is done.
//!
//! `decode` describes which part of a chunk workers decode and which the kernels.

mod by_worker;
mod passes;
mod streams;

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::base::math::align_up;
use crate::cuda::{DEVICES, Devices, RESIDENT_WAVES};
pub use by_worker::{AUTO_STREAM_BYTES, ByWorker, REFUSALS_MAX};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
pub use passes::Passes;
pub use streams::{Stream, StreamKind, StreamStatus};

/// Bytes of one unit, the record of one piece of work of the assemble kernel.
pub const UNIT_BYTES: u64 = 512;

/// Bytes of host memory that a unit of a slab takes besides: how many blocks work on it, and what
/// they write.
pub const TILES_BYTES: u64 = 16;

/// The alignment of a chunk's data, and the bytes that it may take besides its own, so that
/// elements are aligned in a slab as in the chunk.
pub const DATA_ALIGN: u64 = 16;

/// Sizes of slabs and resident waves, all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Bytes for data.
    pub data_bytes: u64,
    /// Most units.
    pub units: u32,
    /// Most streams that the device decodes; 0: it decodes nothing.
    pub streams: u32,
    /// Bytes of a resident wave that they are decoded to.
    pub decoded_bytes: u64,
    /// Bytes beside all resident waves that frames are decoded with, in passes; 0: it decodes none.
    pub scratch_bytes: u64,
}

impl Layout {
    /// Bytes of a slab, and of what a resident wave has of it.
    pub fn bytes(&self) -> u64 {
        align_up(self.streams_at(self.units) + self.streams_bytes(), MEMORY_PAGE_BYTES)
    }

    /// The offset of the tiles of a slab with so many units.
    pub fn tiles_at(&self, units: u32) -> u64 {
        self.data_bytes + u64::from(units) * UNIT_BYTES
    }

    /// The offset of its streams.
    pub fn streams_at(&self, units: u32) -> u64 {
        let tiles_bytes = (u64::from(units) + 1) * size_of::<u32>() as u64;
        align_up(self.tiles_at(units) + tiles_bytes, DATA_ALIGN)
    }

    fn streams_bytes(&self) -> u64 {
        u64::from(self.streams) * Stream::BYTES
    }
}

/// The most that a job takes of a slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlabNeed {
    /// Bytes of data.
    pub data_bytes: u64,
    /// Units.
    pub units: u32,
    /// Bytes of the resident wave that the device decodes to.
    pub decoded_bytes: u64,
}

impl SlabNeed {
    /// The need of a piece of `bytes` bytes with `units` units.
    pub fn of(bytes: u64, units: u32) -> SlabNeed {
        let data_bytes = if bytes == 0 { 0 } else { align_up(bytes + DATA_ALIGN, DATA_ALIGN) };
        SlabNeed { data_bytes, units, decoded_bytes: 0 }
    }

    /// The same, if the device decodes it to so many bytes.
    pub fn decoded_to(self, bytes: u64) -> SlabNeed {
        SlabNeed { decoded_bytes: align_up(bytes, DATA_ALIGN), ..self }
    }

    /// Both together.
    pub fn and(self, other: SlabNeed) -> SlabNeed {
        SlabNeed {
            data_bytes: self.data_bytes + other.data_bytes,
            units: self.units.saturating_add(other.units),
            decoded_bytes: self.decoded_bytes + other.decoded_bytes,
        }
    }

    /// Whether an empty slab has room for it.
    pub fn fits(&self, layout: &Layout) -> bool {
        let fits = self.data_bytes <= layout.data_bytes && self.units <= layout.units;
        fits && self.decoded_bytes <= layout.decoded_bytes
    }
}

/// A part of a slab that is one worker's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlabPart {
    /// The slab.
    pub slab: u32,
    /// First byte of its data in the slab.
    pub data: u64,
    /// First unit.
    pub unit: u32,
    /// First byte that the device decodes to, in the resident wave.
    pub decoded: u64,
    /// How large it is.
    pub need: SlabNeed,
    /// A library without devices has no value of this type, so the code for devices is left out,
    /// too.
    pub devices: Devices,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlabState {
    Free,
    Filling,
    Sealed,
    Copying,
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    state: SlabState,
    /// First byte of data that is taken.
    first: u64,
    /// Units that are taken.
    units: u32,
    /// Bytes of a resident wave that are taken to decode to.
    decoded_bytes: u64,
    /// It has hardly room for streams.
    is_full: bool,
    /// Parts whose workers are not done.
    writers: u32,
    /// Position in the order in which slabs were begun.
    number: u64,
}

impl Slab {
    fn begun(layout: &Layout, number: u64) -> Slab {
        Slab {
            state: SlabState::Filling,
            first: layout.data_bytes,
            units: 0,
            decoded_bytes: 0,
            is_full: false,
            writers: 0,
            number,
        }
    }
}

/// A submission: bytes of a slab to a resident wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// The slab that is copied.
    pub slab: u32,
    /// The resident wave that gets it.
    pub resident: u32,
    /// First byte to copy.
    pub first: u64,
    /// Number of units, those of no work included.
    pub units: u32,
}

/// The end of a list of late chunks.
const NO_ROW: u32 = u32::MAX;

/// See the module.
pub struct Slabs {
    layout: Layout,
    slabs: &'static mut [Slab],
    filling: Option<u32>,
    next_number: u64,
    /// Whether each resident wave is busy.
    busy: [bool; RESIDENT_WAVES],
    /// Chunks by batch slot of each slab, then of each resident wave.
    counts: &'static mut [u64],
    slots: u32,
    /// Streams of each slab so far, which writers count as they find them.
    pub streams: &'static [AtomicU32],
    /// Row of the first late chunk of each slab, then of each resident wave.
    late: &'static mut [u32],
    /// That of the next one, by row of the tables of waves.
    late_next: &'static mut [u32],
}

impl Slabs {
    /// No slab: on the host.
    pub const fn none() -> Slabs {
        Slabs {
            layout: Layout {
                data_bytes: 0,
                units: 0,
                streams: 0,
                decoded_bytes: 0,
                scratch_bytes: 0,
            },
            slabs: &mut [],
            filling: None,
            next_number: 0,
            busy: [false; RESIDENT_WAVES],
            counts: &mut [],
            slots: 0,
            streams: &[],
            late: &mut [],
            late_next: &mut [],
        }
    }

    /// `count` free slabs for batches in `slots` slots and chunks of `rows` rows.
    pub fn carve(carver: &mut Carver, layout: Layout, count: u32, slots: u32, rows: u64) -> Slabs {
        let slab = Slab { state: SlabState::Free, ..Slab::begun(&layout, 0) };
        let owners = u64::from(count) + RESIDENT_WAVES as u64;
        let rows = if layout.streams > 0 { rows } else { 0 };
        Slabs {
            layout,
            slabs: carver.slice(Item::DeviceWaves, u64::from(count), &slab),
            counts: carver.slice(Item::DeviceWaves, owners * u64::from(slots), &0),
            slots,
            streams: carver.slice_from(Item::DeviceWaves, u64::from(count), |_| AtomicU32::new(0)),
            late: carver.slice(Item::DeviceWaves, owners, &NO_ROW),
            late_next: carver.slice(Item::DeviceWaves, rows, &NO_ROW),
            ..Slabs::none()
        }
    }

    /// Whether [`Slabs::reserve`] would give a part; never for more than an empty slab holds.
    pub fn has_room(&self, need: SlabNeed) -> bool {
        if !need.fits(&self.layout) {
            return false;
        }
        let fits = |slab: &Slab| self.fits_in(slab, need);
        self.filling.is_some_and(|slab| fits(&self.slabs[slab as usize])) || self.has_free()
    }

    fn has_free(&self) -> bool {
        self.slabs.iter().any(|slab| slab.state == SlabState::Free)
    }

    fn fits_in(&self, slab: &Slab, need: SlabNeed) -> bool {
        !(slab.is_full && need.decoded_bytes > 0)
            && need.data_bytes <= slab.first
            && need.units <= self.layout.units - slab.units
            && need.decoded_bytes <= self.layout.decoded_bytes - slab.decoded_bytes
    }

    /// Takes a part of a slab for one worker; None until a slab is free. A slab that has no room
    /// for it is sealed.
    pub fn reserve(&mut self, need: SlabNeed) -> Option<SlabPart> {
        assert!(need.fits(&self.layout));
        if let Some(filling) = self.filling {
            let slab = &self.slabs[filling as usize];
            // Nothing is gained by keeping it open if this has no room: parts are taken in the
            // order of the plan. And if writers follow each other without an end, a device without
            // work waits for those of a slab that is worth it, and for no further ones.
            let is_wanted = self.busy_count() == 0 && self.is_worth(slab) && self.has_free();
            if is_wanted || !self.fits_in(slab, need) {
                self.seal(filling);
            }
        }
        if self.filling.is_none() {
            self.filling = Some(self.begin()?);
        }
        let number = self.filling?;
        let slab = &mut self.slabs[number as usize];
        slab.first -= need.data_bytes;
        slab.units += need.units;
        slab.writers += 1;
        let unit = slab.units - need.units;
        let decoded = self.layout.bytes() + slab.decoded_bytes;
        slab.decoded_bytes += need.decoded_bytes;
        Some(SlabPart { slab: number, data: slab.first, unit, decoded, need, devices: DEVICES? })
    }

    /// Begins to fill a free slab.
    fn begin(&mut self) -> Option<u32> {
        let free = self.slabs.iter().position(|slab| slab.state == SlabState::Free)?;
        self.slabs[free] = Slab::begun(&self.layout, self.next_number);
        self.streams[free].store(0, Relaxed);
        self.next_number += 1;
        Some(free as u32)
    }

    fn seal(&mut self, slab: u32) {
        assert!(self.slabs[slab as usize].state == SlabState::Filling);
        self.slabs[slab as usize].state = SlabState::Sealed;
        self.filling = None;
    }

    /// A worker is done with its part.
    pub fn finish(&mut self, part: &SlabPart) {
        let slab = &mut self.slabs[part.slab as usize];
        assert!(matches!(slab.state, SlabState::Filling | SlabState::Sealed));
        assert!(slab.writers > 0);
        slab.writers -= 1;
        // Streams are not reserved: how many a chunk has is known when it was read. Room is left
        // for those of the parts that are out.
        let (streams, most) = (self.streams[part.slab as usize].load(Relaxed), self.layout.streams);
        slab.is_full = streams > most / 4 * 3;
    }

    /// `chunks` more chunks of the batch in `slot` come with a slab.
    pub fn add_chunks(&mut self, slab: u32, slot: BatchSlot, chunks: u64) {
        // A slab is not sent before all of its writers have said what comes with it.
        assert!(self.slabs[slab as usize].writers > 0);
        self.counts[self.row(slab) + slot.at()] += chunks;
    }

    /// The late chunk in a row comes with a slab.
    pub fn add_late(&mut self, slab: u32, row: u32) {
        assert!(self.slabs[slab as usize].writers > 0);
        let first = &mut self.late[slab as usize];
        self.late_next[row as usize] = core::mem::replace(first, row);
    }

    /// Row of the first late chunk that a resident wave was given.
    pub fn first_late(&self, resident: u32) -> Option<u32> {
        Some(self.late[self.slabs.len() + resident as usize]).filter(|row| *row != NO_ROW)
    }

    /// Row of the one after another.
    pub fn next_late(&self, row: u32) -> Option<u32> {
        Some(self.late_next[row as usize]).filter(|row| *row != NO_ROW)
    }

    /// Takes the row of a late chunk that a resident wave has brought, or not.
    pub fn take_late(&mut self, resident: u32) -> Option<u32> {
        let row = self.first_late(resident)?;
        self.late[self.slabs.len() + resident as usize] = self.late_next[row as usize];
        Some(row)
    }

    fn row(&self, owner: u32) -> usize {
        owner as usize * self.slots as usize
    }

    fn resident_row(&self, resident: u32) -> usize {
        self.row(self.slabs.len() as u32 + resident)
    }

    /// Number of resident waves that are worked on.
    pub fn busy_count(&self) -> usize {
        self.busy.iter().filter(|busy| **busy).count()
    }

    /// Whether a slab could be submitted now. One that has little waits while the device has work,
    /// because it is fuller then.
    pub fn has_submission(&self) -> bool {
        self.next_submission().is_some()
    }

    /// Whether a slab has enough for a copy and a launch of its own, beside others.
    fn is_worth(&self, slab: &Slab) -> bool {
        let data_bytes = self.layout.data_bytes;
        let used = data_bytes - slab.first;
        // A device without work does not wait, however many more bytes are to be decoded.
        let decoded = self.layout.decoded_bytes.min(2 * data_bytes);
        used >= data_bytes / 4
            || slab.units >= self.layout.units / 4
            || decoded > 0 && slab.decoded_bytes >= decoded / 4
    }

    fn next_submission(&self) -> Option<usize> {
        let busy = self.busy_count();
        if busy == RESIDENT_WAVES {
            return None;
        }
        let is_next = |slab: &Slab| match slab.state {
            SlabState::Sealed => slab.writers == 0,
            SlabState::Filling => slab.writers == 0 && (busy == 0 || self.is_worth(slab)),
            _ => false,
        };
        let found = self.slabs.iter().enumerate().filter(|(_, slab)| is_next(slab));
        found.min_by_key(|(_, slab)| slab.number).map(|(at, _)| at)
    }

    /// Takes the next slab to submit, and a resident wave for it.
    pub fn submit(&mut self) -> Option<Submission> {
        let at = self.next_submission()?;
        let resident = self.busy.iter().position(|busy| !busy)?;
        if self.slabs[at].state == SlabState::Filling {
            self.seal(at as u32);
        }
        self.slabs[at].state = SlabState::Copying;
        self.busy[resident] = true;
        let (from, to) = (self.row(at as u32), self.resident_row(resident as u32));
        for slot in 0..self.slots as usize {
            self.counts[to + slot] = core::mem::take(&mut self.counts[from + slot]);
        }
        let late = core::mem::replace(&mut self.late[at], NO_ROW);
        self.late[self.slabs.len() + resident] = late;
        let Slab { first, units, .. } = self.slabs[at];
        Some(Submission { slab: at as u32, resident: resident as u32, first, units })
    }

    /// The copy from a slab is done: it may be filled again.
    pub fn copied(&mut self, slab: u32) {
        assert!(self.slabs[slab as usize].state == SlabState::Copying);
        self.slabs[slab as usize].state = SlabState::Free;
    }

    /// A resident wave is done: it may take another.
    pub fn done(&mut self, resident: u32) {
        assert!(self.busy[resident as usize]);
        self.busy[resident as usize] = false;
    }

    /// Takes the chunks of the batch in `slot` that a resident wave has brought.
    pub fn take_chunks(&mut self, resident: u32, slot: BatchSlot) -> u64 {
        let row = self.resident_row(resident);
        core::mem::take(&mut self.counts[row + slot.at()])
    }

    /// Forgets all that is under way; no worker writes and the device is at rest.
    pub fn clear(&mut self) {
        assert!(self.slabs.iter().all(|slab| slab.writers == 0));
        self.slabs.iter_mut().for_each(|slab| slab.state = SlabState::Free);
        self.filling = None;
        self.busy = [false; RESIDENT_WAVES];
        self.counts.fill(0);
        self.late.fill(NO_ROW);
    }
}

#[cfg(test)]
mod tests;
