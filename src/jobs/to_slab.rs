//! What workers lay into a slab of what they decode: whole chunks, or what boxes read of them, and
//! the units that make samples of it.
//!
//! In: a chunk task, its bytes. Out: bytes and units in the slab. What travels is as little as may
//! be: where boxes read nearly all of a chunk, it is decoded in the slab; else their rows are
//! copied there side by side.

use crate::assemble::outside_element;
use crate::assemble::units::{
    ChunkData, DeviceSample, chunk_piece, for_each_outside, missing_piece,
};
use crate::base::indexes::WaveIndex;
use crate::base::math::{align_up, index};
use crate::base::status::Why;
use crate::cuda::HAS_DEVICES;
use crate::decode::unshuffle::Shuffle;
use crate::decode::{Filtered, Scratch, decode_chunk, decode_filtered};
use crate::device::{DATA_ALIGN, DecodedBy, decoded_by};
use crate::jobs::assemble::{Assembler, Refusal, bring, no_decoder};
use crate::jobs::crop::{Crop, Read};
use crate::records::{ArrayRecord, ChunkBytes, Need};
use crate::state::needs::whole_bytes;
use crate::state::shared::Padding;
use crate::state::slab_writer::chunk_data;
use crate::state::worker::DecodeContext;
use crate::wave::{ChunkKind, ChunkTask};
use static_assertions::const_assert;

const_assert!(Need::PART_ALIGN == DATA_ALIGN);

impl Assembler<'_> {
    /// Decodes the chunk of a task into the slab, if that is where its bytes are to be, each at its
    /// place. A filter that the kernel undoes is left in.
    pub(super) fn decoded_in_slab(
        &mut self,
        context: &mut DecodeContext,
        record: &ArrayRecord,
        task: &ChunkTask,
        encoded: &[u8],
    ) -> Result<Option<ChunkData>, Refusal> {
        let shared = self.shared;
        let Some(slab) = self.slab.as_mut() else { return Ok(None) };
        let Some(bytes) = whole_bytes(shared, record, task) else { return Ok(None) };
        let mut place = slab.room(bytes);
        let mut why = Why::new();
        let most = shared.settings.config.max_substreams_per_chunk;
        let (decoder, scratch) = self.parts(context, task, encoded);
        let Some(decoder) = decoder else { return Err(no_decoder(why)) };
        let (target, block) = (place.claim.bytes(), scratch.block);
        let (scratch, span) =
            (Scratch { target: &mut *target, block: &mut *block }, task.need.span);
        let decoded = match decoded_by(&record.codecs) {
            DecodedBy::WorkerThenKernel => {
                decode_filtered(decoder, record, most, encoded, span, scratch, &mut why)
            }
            DecodedBy::Worker | DecodedBy::Nobody => {
                decode_chunk(decoder, record, most, encoded, span, scratch, &mut why)
                    .map(Filtered::plain)
            }
        };
        let decoded = decoded.map_err(|status| (status, why))?;
        self.in_slab += 1;
        self.filtered += u64::from(decoded.shuffle != Shuffle::None);
        let data = chunk_data(place.data, &decoded);
        let (found, first) = (decoded.chunk.bytes.as_ptr_range(), index(decoded.chunk.first));
        bring(found, target, first, [encoded, block]);
        Ok(Some(data))
    }

    /// Lays what the samples of a task read of its chunk into the slab; None on the host.
    pub(super) fn copied_to_slab(
        &mut self,
        task: &ChunkTask,
        chunk: &ChunkBytes<'_>,
    ) -> Option<ChunkData> {
        let slab = self.slab.as_mut()?;
        let span = task.need.span;
        let bytes = match task.kind {
            ChunkKind::Data | ChunkKind::Kept => {
                &chunk.bytes[index(span.first - chunk.first)..][..index(span.bytes())]
            }
            _ => &[],
        };
        Some(slab.put(bytes, span.first))
    }

    /// Whether what boxes read of the chunk of a task has gaps, over which it goes to a device.
    pub(super) fn is_cropped(&self, task: &ChunkTask) -> bool {
        let is_chunk = matches!(task.kind, ChunkKind::Data | ChunkKind::Kept);
        HAS_DEVICES
            && self.slab.is_some()
            && is_chunk
            && task.need.box_bytes < task.need.span.bytes()
    }

    /// Copies what boxes read of the chunk of a task to the slab, and brings it to all of its
    /// samples; how many bytes were written.
    #[inline(never)]
    pub(super) fn scatter_crop(
        &mut self,
        wave: WaveIndex,
        record: &ArrayRecord,
        task: &ChunkTask,
        chunk: &ChunkBytes<'_>,
    ) -> u64 {
        let origin = self.origin(task);
        let origin = &origin[..record.axes()];
        let alone =
            |pair: u32| ChunkTask { pair_first: task.pair_first + pair, pair_count: 1, ..*task };
        let bytes_of = |read: &Read| {
            let extents = read.iter().map(|(first, limit)| limit - first);
            extents.product::<u64>() * u64::from(record.dtype_bytes)
        };
        let apart = |pair| {
            let read = self.read_of(wave, record, &alone(pair), origin);
            align_up(bytes_of(&read), Need::PART_ALIGN)
        };
        // As the planner counted them.
        let apart_bytes = (0..task.pair_count).map(apart).sum::<u64>();
        let around = self.read_of(wave, record, task, origin);
        let bytes = apart_bytes.min(bytes_of(&around));
        assert!(bytes == task.need.box_bytes);
        if bytes < apart_bytes {
            return self.scatter_read(wave, record, task, (origin, &around), chunk);
        }
        let each = |pair: u32| {
            let task = alone(pair);
            let read = self.read_of(wave, record, &task, origin);
            self.scatter_read(wave, record, &task, (origin, &read), chunk)
        };
        (0..task.pair_count).map(each).sum()
    }

    /// What the boxes of a task read of its chunk at `origin`: the box around it.
    fn read_of(
        &self,
        wave: WaveIndex,
        record: &ArrayRecord,
        task: &ChunkTask,
        origin: &[u64],
    ) -> Read {
        let mut read = Read::from_iter(origin.iter().map(|_| (u64::MAX, 0)));
        for pair in 0..task.pair_count {
            let row = self.shared.tables.pair_row(wave, task.pair_first + pair);
            let source = self.shared.box_record(task.slot, self.shared.tables.pairs.read(row));
            let parts = self.sample_box(record, source).read_of(origin);
            for (hull, part) in read.iter_mut().zip(parts) {
                *hull = (hull.0.min(part.0), hull.1.max(part.1));
            }
        }
        read
    }

    fn scatter_read(
        &mut self,
        wave: WaveIndex,
        record: &ArrayRecord,
        task: &ChunkTask,
        (origin, read): (&[u64], &Read),
        chunk: &ChunkBytes<'_>,
    ) -> u64 {
        let Some(slab) = self.slab.as_mut() else { return 0 };
        let crop = Crop::copy(record, origin, read, chunk, slab);
        self.scatter_task(wave, (&crop.record, crop.origin), task, chunk, Some(&crop.data))
    }

    /// Adds what a sample gets from a task to the slab.
    pub(super) fn send_sample(
        &mut self,
        kind: ChunkKind,
        target: &DeviceSample<'_>,
        pad: &Padding,
        origin: &[u64],
        data: &ChunkData,
    ) -> u64 {
        // Called where there is one.
        let Some(slab) = self.slab.as_mut() else { return 0 };
        let piece = match kind {
            ChunkKind::Data | ChunkKind::Kept => chunk_piece(target, origin, data),
            ChunkKind::Missing => missing_piece(target, origin),
            ChunkKind::Pad => {
                let (element, mut written) = (outside_element(&target.sample, pad.element), 0);
                for_each_outside(target, &element, |unit| written += slab.push(unit));
                return written;
            }
            ChunkKind::Fed | ChunkKind::Blank | ChunkKind::Broken => None,
        };
        piece.map_or(0, |piece| slab.push_piece(&piece))
    }
}
