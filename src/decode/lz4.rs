//! LZ4 blocks, bare and with numcodecs' size before them.
//!
//! In: a block (lz4_Block_format.md), or a little-endian u32 and a block. Out: its bytes, or a
//! status with the reason. The loop is `loops`'.

use super::stream_place::{Encoded, Sink, Unfit, Walkable, Walked};
use crate::base::status::{Status, Why};
use crate::fail;
use core::ops::Range;

/// Bytes of the size that numcodecs writes before a block.
const SIZE_BYTES: usize = 4;

/// Decodes the block `source` and returns how many bytes of `target` it filled. DECODE if it is
/// broken, cut, or holds more than the target, which then holds anything.
pub fn block(source: &[u8], target: &mut [u8], why: &mut Why) -> Result<usize, Status> {
    crate::loops::lz4::block(source, target).map_err(|broken| {
        let (here, wanted) = (source.len(), target.len());
        fail!(why, Decode, "lz4 block of {here} bytes does not decode to {wanted} bytes: {broken}")
    })
}

/// Decodes a chunk of numcodecs' lz4 into `target`, which is as long as the chunk must be.
pub fn decode(source: &[u8], target: &mut [u8], why: &mut Why) -> Result<usize, Status> {
    let body = body(source, target.len() as u64, why)?;
    block(&source[body], target, why)
}

/// The decoded bytes that numcodecs' header claims; 0 without one.
pub(super) fn bytes_unchecked(source: &[u8]) -> u64 {
    source.first_chunk().map_or(0, |size| u32::from_le_bytes(*size).into())
}

/// Tells the sink of the one block of a chunk of numcodecs' lz4.
pub(super) fn walk(chunk: &Walkable<'_>, sink: &mut dyn Sink) -> Result<Walked, Unfit> {
    let source = body(chunk.bytes, chunk.chunk_bytes, &mut Why::new());
    chunk.walk_one(source.map_err(|_| Unfit::Broken)?, Encoded::Lz4, sink)
}

/// The place of the block in a chunk of numcodecs' lz4, whose header must give `wanted` decoded
/// bytes.
fn body(source: &[u8], wanted: u64, why: &mut Why) -> Result<Range<usize>, Status> {
    let Some((size, _)) = source.split_first_chunk::<SIZE_BYTES>() else {
        broken!(why, "lz4 chunk of {} bytes has no size", source.len());
    };
    let size = u32::from_le_bytes(*size);
    if u64::from(size) != wanted {
        broken!(why, "lz4 chunk declares {size} bytes where {wanted} are expected");
    }
    Ok(SIZE_BYTES..source.len())
}
