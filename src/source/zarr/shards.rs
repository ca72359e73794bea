//! The codec `sharding_indexed`: shards whose chunks are read by themselves, and shards that are
//! decoded whole.
//!
//! Comes in: its configuration, and the codecs after it. Goes out: shapes, axis orders and index
//! layouts in a record; for shards that are decoded whole also codecs of the chunk. Source: its
//! specification.
//!
//! Invariant: a shard is decoded whole if codecs follow it, if it lies in SHARD_LEVELS_MAX others,
//! or in another one that is.

use super::codecs::{read_array_to_bytes, read_bytes_codecs};
use super::grid::read_edges_of;
use super::node::{Extension, Extents, Node};
use crate::base::limits::{CODECS_MAX, SHARD_CHUNKS_MAX, SHARD_LEVELS_MAX};
use crate::base::math::product;
use crate::base::status::Status;
use crate::base::text::List;
use crate::fail;
use crate::records::grid::AxisGrid;
use crate::records::{ArrayRecord, Codec, CodecChain, Dtype, Filter, IndexLayout, Number};

/// The shards of an array that are decoded whole.
#[derive(Default)]
pub(super) struct WholeShards {
    /// The level of the outermost of them; None: all chunks are read by themselves.
    first: Option<usize>,
    /// Them and the codecs after each, in the order of encoding.
    codecs: CodecChain,
}

impl WholeShards {
    /// Takes the shard of a level, and the codecs after it.
    pub fn add(
        &mut self,
        list: Node<'_, '_>,
        level: usize,
        after: CodecChain,
    ) -> Result<(), Status> {
        if let Some(filter) = after.iter().find(|codec| codec.is_filter()) {
            let (name, way) = (filter.name(), "put it among the codecs of the shard");
            let reason = format_args!("after sharding_indexed is not read: {way}");
            return Err(fail!(list, Unsupported, "codec {name} {reason}"));
        }
        if self.first.is_none() && level < SHARD_LEVELS_MAX && after.is_empty() {
            return Ok(());
        }
        self.first.get_or_insert(level);
        let mut codecs = CodecChain::new();
        let shard = Codec::Filter(Filter::Shard(level as u8));
        let inner_first = [&[shard][..], &after, &self.codecs];
        let mut all = inner_first.iter().copied().flatten();
        let is_full = all.try_for_each(|codec| codecs.try_push(*codec));
        is_full.map_err(|_| list.too_many(CODECS_MAX, "codecs"))?;
        self.codecs = codecs;
        Ok(())
    }

    /// Makes a chunk of the outermost of them, once all codecs are read.
    pub fn settle(self, list: Node<'_, '_>, record: &mut ArrayRecord) -> Result<(), Status> {
        let Some(first) = self.first else { return Ok(()) };
        let is_full = record.codecs.try_extend_from_slice(&self.codecs);
        is_full.map_err(|_| list.too_many(CODECS_MAX, "codecs"))?;
        let levels = record.shard_levels as usize;
        record.shard_levels = first as u32;
        // A shard's extents are those of a cell of the one around it.
        for shape in record.shard_shape[first..levels].iter_mut().rev() {
            core::mem::swap(shape, &mut record.chunk_shape);
        }
        record.axis_order[first..=levels].rotate_right(1);
        Ok(())
    }
}

/// The configuration of a shard whose shape is `record.chunk_shape` so far; gives the codecs of
/// what it holds.
pub(super) fn read_shard<'r, 'a>(
    shard: &Extension<'r, 'a>,
    record: &mut ArrayRecord,
) -> Result<Node<'r, 'a>, Status> {
    let [chunk_shape, codecs, index_codecs, location, ..] =
        shard.pick("chunk_shape codecs index_codecs index_location", 3)?;
    let level = record.shard_levels as usize;
    // The shard's own axes: a transpose in front of it gave them another order.
    let order = &record.axis_order[level][..record.rank as usize];
    let inner = read_edges_of(chunk_shape, record)?;
    let is_empty = record.shape[..record.axes()].contains(&0);
    for (axis, edge) in order.iter().zip(&inner).filter(|_| is_empty && level == 0) {
        // A file's edge of 0 was read as 1, and is as good as that of a chunk.
        let axis = usize::from(*axis);
        if record.chunk_shape[axis] == 1 && record.file_grid[axis] == AxisGrid::Regular {
            record.chunk_shape[axis] = *edge;
        }
    }
    let outer: Extents = order.iter().map(|axis| record.chunk_shape[usize::from(*axis)]).collect();
    check_division(chunk_shape, &outer, &inner)?;
    record.shard_shape[level] = record.chunk_shape;
    for (axis, edge) in order.iter().zip(&inner) {
        record.chunk_shape[usize::from(*axis)] = *edge;
    }
    record.shard_levels += 1;
    record.index[level] = read_index_codecs(index_codecs)?;
    if let Some(location) = location.found() {
        record.index[level].at_start = location.choice("start end", Status::Unsupported)? == 0;
    }
    Ok(codecs)
}

/// Whether chunks of `inner` divide a shard of `outer` exactly, into not too many.
fn check_division(node: Node<'_, '_>, outer: &[u64], inner: &[u64]) -> Result<(), Status> {
    let mut pairs = outer.iter().zip(inner);
    if outer.len() != inner.len() || !pairs.all(|(shard, chunk)| shard % chunk == 0) {
        let (chunk, shard) = (List(inner), List(outer));
        return Err(fail!(node, Decode, "chunks of {chunk} do not divide shards of {shard}"));
    }
    let counts: Extents = outer.iter().zip(inner).map(|(shard, chunk)| shard / chunk).collect();
    if product(&counts).is_none_or(|count| count > SHARD_CHUNKS_MAX) {
        let way = format_args!("more than {SHARD_CHUNKS_MAX}: use larger chunks");
        let counts = List(&counts);
        return Err(fail!(node, Unsupported, "{counts} chunks per shard, {way}"));
    }
    Ok(())
}

/// The codecs of a shard index: `bytes` of u64 words, then nothing or one `crc32c`.
fn read_index_codecs(list: Node<'_, '_>) -> Result<IndexLayout, Status> {
    let mut items = list.items()?;
    let Some(first) = items.next() else {
        return Err(fail!(list, Decode, "the list of codecs is empty"));
    };
    let first = first.extension()?;
    let Extension { node, name, .. } = first;
    if name.place_in("transpose sharding_indexed").is_some() {
        return Err(fail!(node, Unsupported, "codec {name} in front of an index is not read"));
    }
    let byte_order = read_array_to_bytes(&first, 8)?;
    let mut codecs = CodecChain::new();
    read_bytes_codecs(&first, items, Number { dtype: Dtype::U64, byte_order }, &mut codecs)?;
    let has_crc = codecs.as_slice() == [Codec::Crc32c];
    if !has_crc && !codecs.is_empty() {
        let reason = "an index other than bytes, or bytes and crc32c, is not read";
        return Err(fail!(list, Unsupported, "{reason}"));
    }
    Ok(IndexLayout { at_start: false, has_crc, byte_order })
}
