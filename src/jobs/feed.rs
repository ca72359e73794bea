//! What the caller feeds: parts of its memory, and values, on their way to a field.
//!
//! In: tasks of one box each. Out: places of a sample; on the way to a device the elements that the
//! box reads, side by side in the slab, because memory may be as sparse as its strides are long.

use crate::assemble::cast::Cast;
use crate::assemble::units::{ChunkData, DeviceSample, Filter, chunk_piece, for_each_outside};
use crate::assemble::{SampleBox, Target, fill_outside, outside_element, scatter};
use crate::base::limits::RANK_MAX;
use crate::records::{ArrayRecord, BoxShape, ChunkBytes, chunk_origin};
use crate::state::shared::Shared;
use crate::state::slab_writer::{SlabChunk, SlabWriter};
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
    let cast = Cast::find(record.dtype, record.dtype_bytes, field.dtype, field.dtype_bytes);
    let Some(cast) = cast else { unreachable!("push refuses what has no cast") };
    let cast = cast.streamed(shared.settings.streams_slots());
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
            let (packed, low, data) = pack(&sample, origin, &chunk, task.bytes, slab);
            let sample = SampleBox { record: &packed, ..sample };
            let target = DeviceSample { sample, dtype, address };
            let piece = chunk_piece(&target, &low[..record.axes()], &data);
            piece.map_or(0, |piece| slab.push_piece(&piece))
        }
    }
}

/// Copies what a box reads of the chunk at `origin` to a slab, row-major: a record whose chunk is
/// that, where it begins, and where it lies. `bytes` is how much it is.
fn pack(
    sample: &SampleBox<'_>,
    origin: &[u64],
    chunk: &ChunkBytes<'_>,
    bytes: u64,
    slab: &mut SlabWriter,
) -> (ArrayRecord, [u64; RANK_MAX], ChunkData) {
    let record = sample.record;
    let (mut low, mut begin, mut end) = ([0; RANK_MAX], [0; RANK_MAX], [0; RANK_MAX]);
    let mut packed = record.clone();
    for (axis, (first, limit)) in sample.read_of(origin).into_iter().enumerate() {
        low[axis] = first;
        (begin[axis], end[axis]) = (first as i64, limit as i64);
        packed.chunk_shape[axis] = limit - first;
    }
    packed.pack_chunk();
    assert!(packed.chunk_bytes == bytes);
    let SlabChunk { claim, data } = slab.room(bytes);
    let axes = record.axes();
    let shape = BoxShape::forward(&begin[..axes], &end[..axes]);
    let strides = shape.strides(axes, record.dtype_bytes);
    let (dtype, dtype_bytes) = (record.dtype, record.dtype_bytes);
    if let Some(cast) = Cast::find(dtype, dtype_bytes, dtype, dtype_bytes) {
        let copied = SampleBox { record, cast, shape: &shape, strides: &strides, ..*sample };
        scatter(&mut Target { sample: copied, claim }, origin, chunk);
    }
    let filter = Filter::None;
    (packed, low, ChunkData { data, first: 0, bytes, filter, block_bytes: 0, typesize: 0 })
}
