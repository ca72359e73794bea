//! Room on the way to a device: the need of jobs, and whether a slab has as much.
//!
//! In: chunk tasks. Out: parts of slabs, taken before a job is handed out, because a job never
//! waits. On the host a job needs nothing and gets no part.

use crate::assemble::blanks::BLANKS_MAX;
use crate::assemble::units::{chunk_records_max, outside_records_max};
use crate::base::indexes::{ArraySlot, BatchSlot, Lane, WaveIndex};
use crate::base::limits::RANK_MAX;
use crate::decode::streams::{is_frames, is_walked};
use crate::decode::{block_need, kept_bytes, leaves_filter, target_need, workspace_need};
use crate::device::{AUTO_STREAM_BYTES, ByWorker, REFUSALS_MAX, SlabNeed, SlabPart};
use crate::records::{ArrayRecord, Codec, Need};
use crate::setup::config::DECODE_ON;
use crate::setup::geometry::Geometry;
use crate::state::State;
use crate::state::job::RUN_BYTES;
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::wave::{ChunkKind, ChunkTask, Kept, ReadOp, Way};
use core::sync::atomic::Ordering::Relaxed;

/// No slab has room: whoever asked is told when one has.
#[derive(Debug)]
pub struct NoRoom;

impl State {
    /// Takes room on the way to a device; None for what goes to memory of the host. Err until a
    /// slab has room.
    pub fn reserve(
        &mut self,
        shared: &Shared,
        lane: Lane,
        need: SlabNeed,
    ) -> Result<Option<SlabWriter>, NoRoom> {
        if shared.engine().is_none() || lane == Lane::Readers {
            return Ok(None);
        }
        if !self.ask_for_room(shared, need) {
            return Err(NoRoom);
        }
        let part = self.device.slabs.reserve(need).ok_or(NoRoom)?;
        Ok(self.claim_part(shared, part))
    }

    /// The same for chunks, of which those that are not sent need none.
    pub fn reserve_for_chunks(
        &mut self,
        shared: &Shared,
        lane: Lane,
        need: SlabNeed,
    ) -> Option<SlabWriter> {
        // There is room: nobody took of it since it was asked for.
        (need != SlabNeed::default()).then(|| self.reserve(shared, lane, need).ok().flatten())?
    }

    /// A job is done with its part of a slab.
    pub fn end_part(&mut self, part: Option<SlabPart>) {
        if let Some(part) = part {
            self.device.slabs.finish(&part);
        }
    }

    /// Returns whether a slab has room for `need`. If none has, the lack is noted, and workers are
    /// woken once one has room.
    pub fn ask_for_room(&mut self, shared: &Shared, need: SlabNeed) -> bool {
        let needs_none = shared.engine().is_none() || need == SlabNeed::default();
        let has_room = needs_none || self.device.slabs.has_room(need);
        self.device.lacks_room |= !has_room;
        has_room
    }

    /// Chunks from `first`, which is `task` and needs `need` of a slab, that one worker takes:
    /// those of the same batch and array, up to RUN_BYTES, each with its mates, which no chunk has
    /// on the way to a device. How many, and what they need of a slab.
    pub fn run_length(
        &mut self,
        shared: &Shared,
        wave: WaveIndex,
        (task, mut need): (&ChunkTask, SlabNeed),
        first: u32,
        most: u32,
    ) -> (u32, SlabNeed) {
        let mut count = 1 + task.mates;
        let mut bytes = task.cost();
        while count < most {
            let next = shared.tables.chunks.read(shared.wave_row(wave, first + count));
            bytes += next.cost();
            let is_same = (next.slot, next.array, next.kind) == (task.slot, task.array, task.kind);
            let more = need.and(self.task_need(shared, wave, &next));
            let is_large = bytes > RUN_BYTES || pool_need(shared, &next) > 0;
            let is_large = is_large || !fits_slab(shared, more);
            if !is_same || is_large || !self.ask_for_room(shared, more) {
                break;
            }
            need = more;
            count += 1 + next.mates;
        }
        (count, need)
    }

    /// The need of a task of a wave of a slab.
    pub fn task_need(&self, shared: &Shared, wave: WaveIndex, task: &ChunkTask) -> SlabNeed {
        if !shared.is_sent(task) {
            return SlabNeed::default();
        }
        let mut decoded_bytes = 0;
        let bytes = match task.kind {
            ChunkKind::Fed => task.bytes,
            ChunkKind::Data | ChunkKind::Kept => {
                let mut own = None;
                let record =
                    shared.array_record(task.array).of_chunk((task.file, task.chunk), &mut own);
                if task.is_for_device() {
                    decoded_bytes = record.chunk_bytes;
                    task.bytes
                } else {
                    whole_bytes(shared, record, task).unwrap_or(task.need.box_bytes)
                }
            }
            _ => 0,
        };
        let rank = match task.array {
            ArraySlot::NONE => RANK_MAX as u64,
            array => shared.array_record(array).axes() as u64,
        };
        // The units of a box, each with so many records of a change.
        let units_of = |records: u32| match task.kind {
            ChunkKind::Pad => outside_records_max(rank, records),
            ChunkKind::Blank => BLANKS_MAX,
            ChunkKind::Broken if !shared.fills_nan() => 0,
            _ => chunk_records_max(records),
        };
        let units = match shared.settings.change_records() {
            0 => u64::from(task.pair_count) * units_of(0),
            _ => (task.pair_first..task.pair_first + task.pair_count)
                .map(|pair| shared.tables.pairs.read(shared.tables.pair_row(wave, pair)))
                .map(|number| units_of(shared.change_records(task.slot, number)))
                .sum(),
        };
        SlabNeed::of(bytes, units as u32).decoded_to(decoded_bytes)
    }

    /// The need of the chunks of a read of a slab.
    pub fn read_need(&self, shared: &Shared, wave: WaveIndex, read: &ReadOp) -> SlabNeed {
        let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
        if shared.engine().is_none() {
            return SlabNeed::default();
        }
        chunks.fold(SlabNeed::default(), |need, chunk| {
            let task = shared.tables.chunks.read(shared.wave_row(wave, chunk));
            need.and(self.task_need(shared, wave, &task))
        })
    }
}

/// The one that is to decode a chunk of `record`, a worker or the device, of which `bytes` bytes
/// lie in its file and boxes read `need`; a chunk that a worker decodes on its way to a device is
/// counted by why.
pub fn way_of(
    shared: &Shared,
    record: &ArrayRecord,
    (slot, array): (BatchSlot, ArraySlot),
    (kept, bytes, need): (Option<Kept>, u64, Need),
) -> Way {
    if !shared.is_for_device(slot) || record.compressor().is_none() {
        return Way::Worker;
    }
    let layout = &shared.geometry.device;
    let size = SlabNeed::of(bytes, 0).decoded_to(record.chunk_bytes);
    let is_forced = shared.settings.config.device_decode == DECODE_ON;
    let refusals = || shared.views.refusals[array.at()].load(Relaxed);
    let is_one_stream = || record.codecs.first() == Some(&Codec::Lz4);
    let is_left = |codec: &Codec| !is_forced && is_frames(*codec);
    let reason = if layout.streams == 0 {
        ByWorker::Off
    } else if !is_walked(&record.codecs) || record.codecs.first().is_some_and(is_left) {
        ByWorker::Codec
    } else if kept.is_some() {
        ByWorker::Kept
    } else if refusals() >= REFUSALS_MAX {
        ByWorker::Array
    } else if !size.fits(layout) {
        ByWorker::Room
    } else if !is_forced && bytes > need.box_bytes {
        ByWorker::Unneeded
    } else if !is_forced && is_one_stream() && record.chunk_bytes > AUTO_STREAM_BYTES {
        ByWorker::Large
    } else {
        return Way::Device;
    };
    shared.stats.chunks_not_on_device[reason as usize].fetch_add(1, Relaxed);
    Way::Worker
}

/// Bytes of a slab that a worker decodes the chunk of `task`, which is of `record`, into: if boxes
/// read nearly all of it, a copy of these parts would cost more than the transfer of the rest. None
/// if only the parts are copied into the slab: the chunk is uncompressed, it is cached, or the
/// least slab has no room for the checksum inside of it.
///
/// It follows from the task and the array alone, because room is taken before a byte is read.
pub fn whole_bytes(shared: &Shared, record: &ArrayRecord, task: &ChunkTask) -> Option<u64> {
    if !shared.is_sent(task) {
        return None;
    }
    let is_decompressed = record.compressor().is_some();
    let is_decoded = task.kind == ChunkKind::Data && task.kept.is_none() && is_decompressed;
    if !is_decoded || 8 * task.need.box_bytes <= 7 * record.chunk_bytes {
        return None;
    }
    let bytes = kept_bytes(record);
    fits_slab(shared, SlabNeed::of(bytes, 0)).then_some(bytes)
}

/// Whether an empty slab has room for it.
pub fn fits_slab(shared: &Shared, need: SlabNeed) -> bool {
    shared.engine().is_none() || need.fits(&shared.geometry.device)
}

/// Bytes of common scratch that the staged chunk of `task` takes, for the decoded chunk and for a
/// block before its filter is undone: 0 if a worker's own is enough.
pub fn scratch_need(shared: &Shared, task: &ChunkTask, encoded: &[u8]) -> (u64, u64) {
    let mut own = None;
    let record = shared.array_record(task.array).of_chunk((task.file, task.chunk), &mut own);
    let is_whole = whole_bytes(shared, record, task).is_some();
    let is_elsewhere = task.kept.is_some() || is_whole;
    let target_bytes = if is_elsewhere { 0 } else { target_need(record) };
    let keeps_filter = is_whole && leaves_filter(record);
    let block_bytes = if keeps_filter { 0 } else { block_need(record, encoded) };
    (
        beyond(target_bytes, shared.geometry.target_bytes),
        beyond(block_bytes, shared.geometry.block_bytes),
    )
}

/// Whether a worker's own scratch is enough for what codecs of `record` work in.
pub fn has_own_workspace(shared: &Shared, record: &ArrayRecord) -> bool {
    let workspace = workspace_need(record);
    workspace == 0 || block_need(record, &[]) <= shared.geometry.block_bytes
}

/// Bytes of common scratch that chunks of `record` take if its codecs work in memory; 0 if they do
/// not. Caps on chunks ensure that there are enough for all others.
pub fn workspace_pool_need(shared: &Shared, record: &ArrayRecord) -> u64 {
    if workspace_need(record) == 0 {
        return 0;
    }
    let Geometry { target_bytes, block_bytes, .. } = shared.geometry;
    beyond(target_need(record), target_bytes) + beyond(block_need(record, &[]), block_bytes)
}

/// Bytes that a place of `own` bytes is too small for, all of them.
fn beyond(bytes: u64, own: u64) -> u64 {
    if bytes <= own { 0 } else { bytes }
}

pub fn pool_need(shared: &Shared, task: &ChunkTask) -> u64 {
    if task.kind != ChunkKind::Data || task.is_for_device() {
        return 0;
    }
    let (target_bytes, block_bytes) = scratch_need(shared, task, shared.staged(task));
    target_bytes + block_bytes
}
