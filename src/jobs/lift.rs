//! What workers do with chunks that go to a device instead of into a batch of the host.
//!
//! In: chunk tasks, their encoded or decoded bytes, room in a slab. Out: bytes and units in the
//! slab. Which chunks a worker decodes in place, and what of them it leaves to the kernel, follows
//! from `room` and from the table of codecs in `device`.

use crate::assemble::SampleBox;
use crate::assemble::units::{
    ChunkData, DeviceSample, chunk_piece, for_each_outside, missing_piece,
};
use crate::base::arena::Region;
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::decode::unshuffle::Shuffle;
use crate::decode::{Filtered, Scratch, decode_chunk, decode_filtered};
use crate::device::{Way, way_of};
use crate::jobs::assemble::Hands;
use crate::records::{ArrayRecord, ChunkBytes};
use crate::state::lift::Room;
use crate::state::needs::whole_bytes;
use crate::state::scratch::scratch_need;
use crate::wave::{ChunkKind, ChunkTask};

impl Hands<'_> {
    /// Room in the slab for the whole chunk of a task, if it is to be decoded there.
    pub fn room(&mut self, record: &ArrayRecord, task: &ChunkTask) -> Option<Room> {
        let lift = self.lift.as_mut()?;
        whole_bytes(self.instance, record, task).map(|bytes| lift.room(bytes))
    }

    /// Decodes the chunk of a task into its room in the slab, each byte at its place. A filter that
    /// the kernel undoes is left in.
    pub fn decoded_into<'b>(
        &mut self,
        room: &Room,
        record: &ArrayRecord,
        task: &ChunkTask,
        encoded: &'b [u8],
    ) -> Result<Filtered<'b>, (Status, Why)> {
        let mut why = Why::new();
        let most = self.instance.settings.config.max_substreams_per_chunk;
        // Workers that take this job have a decoder.
        let Some(decoder) = self.decoder.as_deref_mut() else {
            return Err((Status::Internal, why));
        };
        let block_bytes = scratch_need(self.instance, task, encoded).1;
        let block = match self.large {
            Some(large) if block_bytes > 0 => large.part(0, block_bytes),
            _ => self.block,
        };
        let (target, span) = (room.region, task.need.span);
        let scratch =
            Scratch { target: target.rows(0, target.bytes()), block: block.rows(0, block.bytes()) };
        let decoded = match way_of(&record.codecs) {
            Way::WorkerThenKernel => {
                decode_filtered(decoder, record, most, encoded, span, scratch, &mut why)
            }
            Way::Worker | Way::Laid => {
                decode_chunk(decoder, record, most, encoded, span, scratch, &mut why)
                    .map(Filtered::plain)
            }
        };
        let decoded = decoded.map_err(|status| (status, why))?;
        self.in_slab += 1;
        self.filtered += u64::from(decoded.shuffle != Shuffle::None);
        let ChunkBytes { bytes, first } = decoded.chunk;
        if bytes.as_ptr() == target.as_ptr().wrapping_add(index(first)) {
            return Ok(decoded);
        }
        // What blosc only copied lies in the encoded bytes.
        let place = target.rows(first, bytes.len() as u64);
        place.copy_from_slice(bytes);
        Ok(Filtered { chunk: ChunkBytes { bytes: place, first }, ..decoded })
    }

    /// Lays what the samples of a task read of its chunk into the slab; None on the host.
    pub fn lift_bytes(&mut self, task: &ChunkTask, chunk: &ChunkBytes<'_>) -> Option<ChunkData> {
        let lift = self.lift.as_mut()?;
        let span = task.need.span;
        let bytes = match task.kind {
            ChunkKind::Data | ChunkKind::Kept => {
                &chunk.bytes[index(span.first - chunk.first)..][..index(span.bytes())]
            }
            _ => &[],
        };
        Some(lift.put(bytes, span.first))
    }

    /// Adds what a sample gets from a task to the slab.
    pub fn lift_sample(
        &mut self,
        kind: ChunkKind,
        sample: &SampleBox<'_>,
        place: Region,
        origin: &[u64],
        data: &ChunkData,
    ) -> u64 {
        let dtype = self.instance.settings.dtype;
        let target = DeviceSample { sample: *sample, dtype, address: place.as_ptr() as u64 };
        let element = self.outside_element(sample);
        // Called where there is one.
        let Some(lift) = self.lift.as_mut() else { return 0 };
        let piece = match kind {
            ChunkKind::Data | ChunkKind::Kept => chunk_piece(&target, origin, data),
            ChunkKind::Missing => missing_piece(&target, origin),
            ChunkKind::Pad => {
                let mut written = 0;
                for_each_outside(&target, &element, |unit| written += lift.push(unit));
                return written;
            }
            ChunkKind::Broken => None,
        };
        piece.map_or(0, |piece| lift.push_piece(&piece))
    }
}
