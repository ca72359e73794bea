//! What boxes read of a chunk, its rows side by side in the slab: on its way to a device no byte
//! between them travels.
//!
//! In: decoded bytes of a chunk, and what of it is read along each axis. Out: the same elements as
//! a chunk of their own, which lies in the slab.

use crate::assemble::axis::PadMode;
use crate::assemble::cast::Cast;
use crate::assemble::units::{ChunkData, Filter};
use crate::assemble::{SampleBox, Target, scatter};
use crate::base::limits::RANK_MAX;
use crate::records::{ArrayRecord, BoxShape, ChunkBytes, Dtype};
use crate::state::slab_writer::{SlabChunk, SlabWriter};
use arrayvec::ArrayVec;

/// What boxes read of a chunk along each axis, in elements of the array.
pub type Read = ArrayVec<(u64, u64), RANK_MAX>;

/// See the module.
pub struct Crop {
    /// The array, as if it had such chunks.
    pub record: ArrayRecord,
    /// Its first element.
    pub origin: [u64; RANK_MAX],
    /// Where it lies.
    pub data: ChunkData,
}

impl Crop {
    /// Copies what is read of the chunk at `origin` of the array to a slab, which has room for it.
    pub fn copy(
        record: &ArrayRecord,
        origin: &[u64],
        read: &Read,
        chunk: &ChunkBytes<'_>,
        slab: &mut SlabWriter,
    ) -> Crop {
        let axes = record.axes();
        let mut crop = record.clone();
        let (mut low, mut begin, mut end) = ([0; RANK_MAX], [0; RANK_MAX], [0; RANK_MAX]);
        for (axis, (first, limit)) in read.iter().copied().enumerate() {
            low[axis] = first;
            (begin[axis], end[axis]) = (first as i64, limit as i64);
            crop.chunk_shape[axis] = limit - first;
        }
        // Axes keep their order in memory, so that rows are as long there as they are here.
        crop.pack_chunk();
        let bytes = crop.chunk_bytes;
        let SlabChunk { claim, data } = slab.room(bytes);
        let shape = BoxShape::forward(&begin[..axes], &end[..axes]);
        let strides = crop.chunk_strides.map(i64::unsigned_abs);
        let raw = (Dtype::Raw, record.dtype_bytes);
        let Some(cast) = Cast::find(raw.0, raw.1, raw.0, raw.1) else {
            unreachable!("raw elements of every size are copied to their like")
        };
        let (cast, shape, strides, pad) = (&cast, &shape, &strides, PadMode::None);
        let copied = SampleBox { record, cast, shape, first: 0, strides, pad };
        scatter(&mut Target { sample: copied, claim, change: None }, origin, chunk);
        let filter = Filter::None;
        let data = ChunkData { data, first: 0, bytes, filter, block_bytes: 0, typesize: 0 };
        Crop { record: crop, origin: low, data }
    }

    /// The box of a sample, of the crop in place of the array.
    pub fn of<'c>(&'c self, sample: SampleBox<'c>) -> SampleBox<'c> {
        SampleBox { record: &self.record, ..sample }
    }
}
