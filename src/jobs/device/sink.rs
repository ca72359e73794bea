//! On its way to a device a chunk goes into a slab, and with it the units that make samples of it.
//!
//! In: a task, its chunk. Out: bytes, units and streams in the slab. A chunk that the device
//! decodes is copied encoded. Of the others as few bytes as possible are copied: if boxes read
//! nearly all of a chunk, it is decoded in the slab; else their rows are copied into it side by
//! side. A read may have chunks of boxes with a map too, whose voxels stay in memory of the host.

use crate::assemble::changes::UnitChange;
use crate::assemble::pieces::ReadBytes;
use crate::assemble::units::{
    ChunkData, DeviceSample, chunk_piece, fill_unit, for_each_outside, missing_piece,
};
use crate::base::math::{align_up, index};
use crate::base::status::Why;
use crate::decode::{BlockFilter, Scratch, Want, decode_filtered};
use crate::device::{DATA_ALIGN, SlabPart};
use crate::jobs::decode::{Refusal, bring, parts};
use crate::jobs::device::crop::{Crop, Read};
use crate::jobs::sink::{BoxPart, Boxes, CpuSink, Part, SentBytes, Sink, Taken};
use crate::read::OpenFault;
use crate::records::{ChunkBytes, Need};
use crate::state::needs::whole_bytes;
use crate::state::shared::Shared;
use crate::state::slab_writer::{SlabChunk, SlabWriter, chunk_data};
use crate::state::worker::DecodeContext;
use crate::wave::{ChunkKind, ChunkTask};
use core::sync::atomic::Ordering::Relaxed;
use static_assertions::const_assert;

const_assert!(Need::PART_ALIGN == DATA_ALIGN);

/// A part of a slab.
pub struct SlabSink {
    pub(super) slab: SlabWriter,
    /// The chunk that `take` took, until it is placed.
    pub(super) taken: Option<ChunkData>,
    /// Chunks that were decoded into the slab, and those of them whose filter was left in.
    in_slab: u64,
    filtered: u64,
}

impl Sink for SlabSink {
    fn read(
        &mut self,
        bytes: u64,
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), OpenFault>,
    ) -> Result<Option<SentBytes>, OpenFault> {
        read(self.slab.front(bytes))?;
        let SlabChunk { claim, data } = self.slab.room(bytes);
        Ok(Some((claim.into_bytes(), data)))
    }

    fn read_pieces(
        &mut self,
        from: &Boxes<'_>,
        part: &Part<'_>,
        buffer: &mut [u8],
        read: &mut ReadBytes<'_, OpenFault>,
    ) -> Option<Result<u64, OpenFault>> {
        match part.task.is_resampled {
            true => CpuSink::new().read_pieces(from, part, buffer, read),
            false => None,
        }
    }

    fn take(
        &mut self,
        from: &Boxes<'_>,
        context: &mut DecodeContext,
        part: &Part<'_>,
        encoded: &[u8],
        place: Option<u64>,
    ) -> Result<Taken, Refusal> {
        if part.task.is_resampled {
            return Ok(Taken::Nothing);
        }
        match part.task.is_for_device() {
            true => Ok(self.take_encoded(from.shared, part, encoded, place)),
            false => self.decode(from.shared, context, part, encoded),
        }
    }

    fn place(&mut self, from: &Boxes<'_>, part: &Part<'_>, chunk: &ChunkBytes<'_>) -> u64 {
        if part.task.is_resampled {
            return CpuSink::new().place(from, part, chunk);
        }
        if part.task.kind == ChunkKind::Blank {
            return from.for_each_blank(part, |to, block, element| {
                let address = from.shared.sample_region(to).as_ptr() as u64;
                let element_bytes = from.shared.field(to.field).dtype_bytes;
                self.slab.push(&fill_unit(address, block, element, element_bytes))
            });
        }
        match self.taken.take() {
            None if is_cropped(&part.task) => self.place_crop(from, part, chunk),
            taken => {
                let data = taken.unwrap_or_else(|| self.copied(&part.task, chunk));
                self.place_data(from, part, chunk, &data)
            }
        }
    }
}

impl SlabSink {
    /// Nothing of the part is used yet.
    pub fn new(slab: SlabWriter) -> SlabSink {
        SlabSink { slab, taken: None, in_slab: 0, filtered: 0 }
    }

    /// Adds what was counted to the figures of the loader, and leaves the part whole.
    pub fn finish(self, shared: &Shared) -> SlabPart {
        shared.stats.chunks_decoded_in_slab.fetch_add(self.in_slab, Relaxed);
        shared.stats.chunks_left_filtered.fetch_add(self.filtered, Relaxed);
        self.slab.finish()
    }

    /// Decodes the chunk of a task into the slab, if its bytes are to lie in it, each at its place.
    /// A filter that the kernel undoes is left in.
    fn decode(
        &mut self,
        shared: &Shared,
        context: &mut DecodeContext,
        part: &Part<'_>,
        encoded: &[u8],
    ) -> Result<Taken, Refusal> {
        let Part { task, record, .. } = part;
        let Some(bytes) = whole_bytes(shared, record, task) else { return Ok(Taken::Nothing) };
        let mut place = self.slab.room(bytes);
        let mut why = Why::new();
        let most = shared.settings.config.max_substreams_per_chunk;
        let (decoder, scratch) = parts(shared, context, task, encoded)?;
        let (target, block) = (place.claim.bytes(), scratch.block);
        let scratch = Scratch { target: &mut *target, block: &mut *block };
        let want = Want { span: task.need.span, keeps_filter: true };
        let decoded = decode_filtered(decoder, record, most, encoded, want, scratch, &mut why)
            .map_err(|status| (status, why))?;
        self.in_slab += 1;
        self.filtered += u64::from(decoded.filter != BlockFilter::NONE);
        let data = chunk_data(place.data, &decoded);
        let (found, first) = (decoded.chunk.bytes.as_ptr_range(), index(decoded.chunk.first));
        bring(found, target, first, [encoded, block]);
        self.taken = Some(data);
        Ok(Taken::Decoded(data.bytes))
    }

    /// Lays what the samples of a task read of its chunk into the slab.
    fn copied(&mut self, task: &ChunkTask, chunk: &ChunkBytes<'_>) -> ChunkData {
        let span = task.need.span;
        let bytes = match task.kind {
            ChunkKind::Data | ChunkKind::Kept => {
                &chunk.bytes[index(span.first - chunk.first)..][..index(span.bytes())]
            }
            _ => &[],
        };
        self.slab.put(bytes, span.first)
    }

    /// Copies what boxes read of the chunk of a task to the slab, and brings it to all of its
    /// samples; how many bytes are written.
    fn place_crop(&mut self, from: &Boxes<'_>, part: &Part<'_>, chunk: &ChunkBytes<'_>) -> u64 {
        let Part { task, record, .. } = *part;
        let alone = |pair: u32| {
            let task = ChunkTask { pair_first: task.pair_first + pair, pair_count: 1, ..task };
            Part { task, ..*part }
        };
        let bytes_of = |read: &Read| {
            let extents = read.iter().map(|(first, limit)| limit - first);
            extents.product::<u64>() * u64::from(record.dtype_bytes)
        };
        let apart = |pair| align_up(bytes_of(&read_of(from, &alone(pair))), Need::PART_ALIGN);
        // As the planner counted them.
        let apart_bytes = (0..task.pair_count).map(apart).sum::<u64>();
        let around = read_of(from, part);
        let bytes = apart_bytes.min(bytes_of(&around));
        assert!(bytes == task.need.box_bytes);
        let mut place = |part: &Part<'_>, read: &Read| {
            let origin = &part.origin[..record.axes()];
            let Crop { record, origin, data } =
                Crop::copy(record, origin, read, chunk, &mut self.slab);
            self.place_data(from, &Part { record: &record, origin, ..*part }, chunk, &data)
        };
        if bytes < apart_bytes {
            return place(part, &around);
        }
        (0..task.pair_count).map(alone).map(|part| place(&part, &read_of(from, &part))).sum()
    }

    /// Adds what the samples of a task get of its chunk, which lies at `data`.
    fn place_data(
        &mut self,
        from: &Boxes<'_>,
        part: &Part<'_>,
        chunk: &ChunkBytes<'_>,
        data: &ChunkData,
    ) -> u64 {
        let (shared, slab) = (from.shared, &mut self.slab);
        from.for_each(part, chunk, |of| {
            let BoxPart { sample, to, origin, .. } = *of;
            let address = shared.sample_region(to).as_ptr() as u64;
            let change = of.change.and_then(|change| UnitChange::new(change, &sample));
            let dtype = shared.field(to.field).dtype;
            let target = DeviceSample { sample, dtype, address, change };
            let piece = match part.task.kind {
                ChunkKind::Data | ChunkKind::Kept => chunk_piece(&target, origin, data),
                ChunkKind::Missing | ChunkKind::Broken => missing_piece(&target, origin),
                ChunkKind::Fed => {
                    // Memory may be as sparse as its strides are long.
                    let read = sample.read_of(origin);
                    let crop = Crop::copy(sample.record, origin, &read, of.chunk, slab);
                    assert!(crop.data.bytes == part.task.bytes);
                    let sample = crop.of(sample);
                    let origin = &crop.origin[..crop.record.axes()];
                    let target = DeviceSample { sample, ..target };
                    let piece = chunk_piece(&target, origin, &crop.data);
                    return piece.map_or(0, |piece| slab.push_piece(&piece));
                }
                ChunkKind::Pad => {
                    let (element, mut written) = (shared.padding(to.field).element, 0);
                    for_each_outside(&target, element, |piece| written += slab.push_piece(piece));
                    return written;
                }
                ChunkKind::Blank => None,
            };
            piece.map_or(0, |piece| slab.push_piece(&piece))
        })
    }
}

/// Whether what boxes read of the chunk of a task has gaps, over which it goes to a device.
fn is_cropped(task: &ChunkTask) -> bool {
    matches!(task.kind, ChunkKind::Data | ChunkKind::Kept)
        && task.need.box_bytes < task.need.span.bytes()
}

/// The box around all that the boxes of a task read of its chunk.
fn read_of(from: &Boxes<'_>, part: &Part<'_>) -> Read {
    let origin = &part.origin[..part.record.axes()];
    let mut read = Read::from_iter(origin.iter().map(|_| (u64::MAX, 0)));
    for (number, source) in from.of(part) {
        let mut own = None;
        let sample = from.sample(part.record, (part.task.slot, number), source, &mut own);
        let parts = sample.read_of(origin);
        for (hull, part) in read.iter_mut().zip(parts) {
            *hull = (hull.0.min(part.0), hull.1.max(part.1));
        }
    }
    read
}
