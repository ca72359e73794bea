//! What the caller feeds: parts of its memory, and values, on their way to a field.
//!
//! In: tasks of one box each. Out: places of a sample; on the way to a device the elements that the
//! box reads, side by side in the slab, because memory may be as sparse as its strides are long.

use crate::assemble::units::{DeviceSample, chunk_piece, for_each_outside};
use crate::assemble::{SampleBox, Target, fill_outside, outside_element, scatter};
use crate::jobs::crop::Crop;
use crate::records::{ChunkBytes, chunk_origin};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::wave::{ChunkKind, ChunkTask};

/// Brings box `number` what a task has of it, or what lies outside; how many bytes.
pub fn scatter_fed(
    shared: &Shared,
    task: &ChunkTask,
    number: u32,
    slab: Option<&mut SlabWriter>,
) -> u64 {
    let (source, fed) = (shared.box_record(task.slot, number), shared.fed(task.slot, number));
    let (field, pad) = (shared.field(source.field), shared.padding(source.field));
    let record = shared.fed_record(fed);
    let cast = field.checked_cast(&record).streamed(shared.settings.streams_slots());
    let (shape, strides) = (&source.shape, &field.strides);
    let sample = SampleBox { record: &record, cast, shape, strides, pad: pad.mode };
    let to = source.to(task.slot);
    let address = shared.sample_region(to).as_ptr() as u64;
    let element = outside_element(&sample, pad.element);
    let element_bytes = field.dtype_bytes as usize;
    let mut target = Target { sample, claim: shared.claim_sample(to) };
    let dtype = field.dtype;
    match (task.kind, slab) {
        (ChunkKind::Pad, None) => fill_outside(&mut target, &element[..element_bytes]),
        (ChunkKind::Pad, Some(slab)) => {
            let mut written = 0;
            let target = DeviceSample { sample, dtype, address };
            for_each_outside(&target, &element, |unit| written += slab.push(unit));
            written
        }
        (_, slab) => {
            let origin = chunk_origin(&record, task.file, task.chunk);
            let origin = &origin[..record.axes()];
            let first = (0..).zip(origin).map(|(axis, at)| fed.strides[axis] * at).sum::<u64>();
            let span = task.need.span;
            let bytes = shared.fed_bytes(fed, first + span.first, span.bytes());
            let chunk = ChunkBytes { bytes, first: span.first };
            let Some(slab) = slab else { return scatter(&mut target, origin, &chunk) };
            let crop = Crop::copy(&record, origin, &sample.read_of(origin), &chunk, slab);
            assert!(crop.data.bytes == task.bytes);
            let sample = SampleBox { record: &crop.record, ..sample };
            let target = DeviceSample { sample, dtype, address };
            let piece = chunk_piece(&target, &crop.origin[..record.axes()], &crop.data);
            piece.map_or(0, |piece| slab.push_piece(&piece))
        }
    }
}
