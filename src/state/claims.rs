//! Memory that jobs write and read outside of the lock: here alone a region becomes bytes.
//!
//! In: what a job was handed. Out: claims and views of the parts of memory that belong to it. No
//! type says who else has a part of a slab that all workers share, so each function says the fact
//! that makes its claim sound, and asserts of it what the state knows. A claim is owned from then
//! on: it lives in the job, and is gone with it.

use crate::base::arena::{Claim, Region};
use crate::base::indexes::{BatchSlot, WaveIndex};
use crate::base::math::index;
use crate::cuda::Event;
use crate::device::{SlabPart, Stream, UNIT_BYTES};
use crate::read::Window;
use crate::records::Part;
use crate::records::grid::EdgeRun;
use crate::records::{Destination, DeviceMemory, Fed, FedData};
use crate::state::State;
use crate::state::resampling::Resampled;
use crate::state::scratch::{Hold, Pool};
use crate::state::shared::Shared;
use crate::state::slab_writer::{SlabWriter, Tiles};
use crate::wave::{ChunkTask, Kept, ReadOp, ReadPhase};
use core::ffi::c_void;
use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};
use core::slice;
use core::sync::atomic::Ordering::Relaxed;

impl State {
    /// The place in the staging slab of a read that the caller was handed.
    pub fn claim_read(
        &self,
        shared: &Shared,
        wave: WaveIndex,
        op: u32,
        read: &ReadOp,
    ) -> Claim<'static> {
        assert!(self.waves.phase(wave, op) == ReadPhase::Leased);
        let place = shared.tables.slab.part(read.slab_offset, read.bytes);
        // SAFETY: one job has a leased read, no two reads of a wave share a byte of its interval,
        // and nobody reads the bytes before the read is Here.
        unsafe { Claim::new(place) }
    }

    /// A part of a slab that was just reserved, to be filled by one job.
    pub(super) fn claim_part(&self, shared: &Shared, part: SlabPart) -> Option<SlabWriter> {
        let (engine, layout) = (shared.engine()?, &shared.geometry.device);
        let slab = engine.slab(part.slab);
        let records_at = layout.data_bytes + u64::from(part.unit) * UNIT_BYTES;
        let row = u64::from(part.slab) * u64::from(layout.units) + u64::from(part.unit);
        let units = u64::from(part.need.units);
        // SAFETY: parts that writers have not ended never overlap, in data, records or tiles, and a
        // slab is neither sent nor looked at before its last writer has ended.
        unsafe {
            let data = Claim::new(slab.part(part.data, part.need.data_bytes));
            let records = Claim::new(slab.part(records_at, units * UNIT_BYTES));
            let tiles = shared.device_tiles.rows_mut(index(row), index(units));
            Some(SlabWriter::new(part, data, records, tiles))
        }
    }
}

/// A part of the common scratch; None until others are given back.
pub fn claim_hold(pool: &mut Pool, bytes: u64) -> Option<Hold> {
    let place = pool.take(bytes)?;
    // SAFETY: the pool gives each byte to one hold at a time, and nobody else uses the scratch.
    Some(Hold { claim: unsafe { Claim::new(place) } })
}

/// The samples of a batch that is popped and on the host.
pub fn popped_samples(data: &Region) -> &[u8] {
    // SAFETY: nobody writes a slot that is Held, and who has the batch's view keeps it so.
    unsafe { data.view() }
}

impl Shared {
    /// The staged bytes of a task that was handed out for decoding.
    pub fn staged(&self, task: &ChunkTask) -> &'static [u8] {
        let place = self.tables.slab.part(task.slab_offset, task.bytes);
        // SAFETY: its read is Here, so nobody writes them, and its wave keeps the interval until
        // the task is done. Chunks of one read may overlap: then others read the same bytes.
        unsafe { place.view() }
    }

    /// Bytes of a window that is mapped, from byte `first` of the file on.
    pub fn mapped_bytes(&self, window: &Window, first: u64, bytes: u64) -> &'static [u8] {
        let place = window.place.part(first - window.first, bytes);
        // SAFETY: the caller's job pins the window, and the file has the bytes. Who opens a loader
        // that maps says that nobody writes the files meanwhile.
        unsafe { place.view() }
    }

    /// The place of a chunk that a task is to decode and to keep.
    pub fn claim_kept(&self, kept: Kept, bytes: u64) -> Claim<'static> {
        // SAFETY: one task decodes into a slot of the cache, which it pins, and the tasks that wait
        // for it read the slot once it is ready.
        unsafe { Claim::new(self.chunk_memory.part(kept.offset, bytes)) }
    }

    /// A cached chunk.
    pub fn kept_chunk(&self, kept: Kept, bytes: u64) -> &'static [u8] {
        // SAFETY: the slot is ready, so nobody writes it, and the task pins it.
        unsafe { self.chunk_memory.part(kept.offset, bytes).view() }
    }

    /// The staging of a box with a map, of which a job writes what its chunks cover.
    pub fn claim_hull(&self, resampled: &Resampled) -> Claim<'static> {
        let (first, bytes) = resampled.place;
        // SAFETY: the box has the place until it is resampled, which is after its last chunk; two
        // chunks of an array never cover the same element, and a chunk is one job's.
        unsafe { Claim::new(self.resample_memory.part(first, bytes)) }
    }

    /// The voxels of a box whose last chunk is done with.
    pub fn hull_bytes(&self, resampled: &Resampled) -> &'static [u8] {
        let (first, bytes) = resampled.place;
        // SAFETY: nobody writes them any more, and they stay until the last piece of the box is
        // over.
        unsafe { self.resample_memory.part(first, bytes).view() }
    }

    /// Bytes of a tensor, from byte `first` after its first element on.
    pub fn fed_bytes(&self, fed: &'static Fed, first: u64, bytes: u64) -> &'static [u8] {
        match &fed.data {
            // Only kernels read memory of a device.
            FedData::Nothing | FedData::Device(_) => &[],
            FedData::Value(value) => &value[index(first)..][..index(bytes)],
            FedData::Memory(address) => {
                let start = with_exposed_provenance::<u8>(address + index(first));
                // SAFETY: the caller lends the memory from the first element to the last until the
                // batch of its box is popped, or dropped, as the header says.
                unsafe { slice::from_raw_parts(start, index(bytes)) }
            }
        }
    }

    /// The event after which a tensor in memory of a device is complete, if it has one.
    pub fn fed_event(&self, memory: &DeviceMemory) -> Option<Event> {
        let raw = with_exposed_provenance_mut::<c_void>(memory.event);
        // SAFETY: the caller lends it with the memory.
        Some(unsafe { Event::from_raw(raw) }).filter(|event| !event.is_null())
    }

    /// A sample in its batch slot, of which a job writes what its chunks cover; or the target of
    /// the box of a caller, which is None once the caller has left.
    pub fn claim_sample(&self, to: Destination) -> Option<Claim<'static>> {
        let region = match self.reader(to.slot) {
            None => self.sample_region(to),
            Some(reader) => self.target_region(reader)?,
        };
        // SAFETY: the slot is Filling, or Finishing and patched by one job; two chunks of an array
        // never cover the same element of a box, and a chunk is one job's.
        Some(unsafe { Claim::new(region) })
    }

    /// The memory of a caller that its box is read into.
    fn target_region(&self, reader: u32) -> Option<Region> {
        let reader = index(u64::from(reader));
        let address = self.views.addresses[reader].load(Relaxed);
        let start = NonNull::new(with_exposed_provenance_mut::<u8>(address))?;
        let bytes = self.views.targets.rows(reader, 1)[0].bytes;
        // SAFETY: the caller of read_into lends the memory until that returns, which waits for
        // every job that was handed out while the address was there.
        Some(unsafe { Region::over(start, bytes) })
    }

    /// The first bytes of a field of a batch that lies in memory of the caller's.
    pub(super) fn lent_region(&self, slot: BatchSlot, field: u32, bytes: u64) -> Region {
        let rows = &self.views.rows;
        let address = rows.lent_address(rows.place(slot), field);
        let start = NonNull::new(with_exposed_provenance_mut::<u8>(address.unwrap_or(0)));
        let Some(start) = start else { unreachable!("lend refuses memory at NULL") };
        // SAFETY: the caller of lend has exposed the memory, which holds all samples, and lends it
        // until the batch is given back. That of a device is an address, which nobody looks into.
        unsafe { Region::over(start, bytes) }
    }

    /// Bytes of a field of a full batch that a pass reads, and no pass writes meanwhile.
    pub fn finished_bytes(&self, slot: BatchSlot, field: u32, first: u64, bytes: u64) -> &[u8] {
        let place = self.field_region(slot, field, self.settings.config.samples_per_batch);
        // SAFETY: every row of a slot that is Finishing is written, and it stays so until the last
        // piece of the pass is over; nobody has what the consumer may write to before that.
        unsafe { place.part(first, bytes).view() }
    }

    /// The shares of the digests of a slot, which a kernel wrote that has run.
    pub fn digest_shares(&self, slot: BatchSlot) -> &'static [[u8; 8]] {
        let Some(engine) = self.engine() else { return &[] };
        // SAFETY: no other kernel writes them before the batch was popped and its slot used again.
        unsafe { engine.shares(slot.0).view() }.as_chunks().0
    }

    /// Rows of the table of runs, which an array that is being loaded has.
    pub fn claim_edges(&self, first: usize, count: usize) -> &'static mut [EdgeRun] {
        // SAFETY: the caller loads the array; the record, which names the runs, is written after.
        unsafe { self.views.edges.rows_mut(first, count) }
    }

    /// Rows of the table of files, which an array that is being loaded has.
    pub fn claim_parts(
        &self,
        first: usize,
        count: usize,
    ) -> (&'static mut [Part], &'static mut [EdgeRun]) {
        // SAFETY: one job has a slice of an array that is being loaded, and the last of them all of
        // it; the record, which names the rows, is written after.
        unsafe { (self.views.parts.rows_mut(first, count), self.views.runs.rows_mut(first, count)) }
    }

    /// The tiles of a slab that is to be submitted, and the place of their table after its units.
    pub fn claim_tiles(&self, slab: u32, units: u32) -> Option<(&'static [Tiles], Claim<'static>)> {
        let (engine, layout) = (self.engine()?, &self.geometry.device);
        let row = u64::from(slab) * u64::from(layout.units);
        let tiles = self.device_tiles.rows(index(row), index(u64::from(units)));
        let at = layout.tiles_at(units);
        let bytes = (u64::from(units) + 1) * size_of::<u32>() as u64;
        // SAFETY: the last writer of the slab has ended, and one thread at a time submits.
        Some((tiles, unsafe { Claim::new(engine.slab(slab).part(at, bytes)) }))
    }

    /// The place of the streams of such a slab, after that table.
    pub fn claim_streams(&self, slab: u32, units: u32) -> Option<Claim<'static>> {
        let (engine, layout) = (self.engine()?, &self.geometry.device);
        let bytes = u64::from(layout.streams) * Stream::BYTES;
        let place = engine.slab(slab).part(layout.streams_at(units), bytes);
        // SAFETY: likewise, and no tile of a slab of so many units lies there.
        Some(unsafe { Claim::new(place) })
    }
}
