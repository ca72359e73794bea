//! The inputs and outputs of codecs: parts of a chunk, the scratch for them, and the errors that
//! all of them have.

use crate::base::status::{Status, Why};
use crate::loops::unshuffle::Shuffle;
use crate::records::{ChunkBytes, Span};
use core::fmt;

/// Bytes of a checksum before or after the bytes that it is of.
pub(super) const SUM_BYTES: usize = 4;

/// The memory that decoding works in.
pub struct Scratch<'a> {
    /// For the decoded chunk: at least [`target_need`](super::target_need) bytes.
    pub target: &'a mut [u8],
    /// For a blosc block before its filter is undone, or the chunk between two filters, and after
    /// that for codecs that work in memory: at least [`block_need`](super::block_need) bytes.
    pub block: &'a mut [u8],
}

/// The part of a chunk to decode, and in what form.
#[derive(Clone, Copy)]
pub struct Want {
    /// Its bytes.
    pub span: Span,
    /// The filter of the first codec is not undone, if [`leaves_filter`](super::leaves_filter).
    pub keeps_filter: bool,
}

/// A chunk for its compressor.
pub(super) struct Compressed<'a> {
    /// The chunk.
    pub bytes: &'a [u8],
    /// The part of it to decode.
    pub want: Want,
    /// Most streams of a blosc chunk; 0: no limit.
    pub max_substreams: u32,
    /// As many bytes as [`workspace_need`](super::workspace_need) has, for codecs to work in.
    pub workspace: &'a mut [u8],
    /// The target is as long as the whole chunk must be.
    pub scratch: Scratch<'a>,
}

/// The filter that blocks of a chunk still have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockFilter {
    /// The shuffle, as [`Shuffle::of_block`] gives it for each block. Not `Bytes` of elements of
    /// one byte.
    pub shuffle: Shuffle,
    /// Bytes of a block; the last one of the chunk may be shorter. 0 without a filter.
    pub block_bytes: u32,
    /// Bytes of an element of the filter, 1 to 255. 0 without one.
    pub typesize: u32,
}

impl BlockFilter {
    /// Without a filter.
    pub const NONE: BlockFilter =
        BlockFilter { shuffle: Shuffle::None, block_bytes: 0, typesize: 0 };
}

/// Decoded bytes of a chunk that may still be filtered.
#[derive(Clone, Copy, Debug)]
pub struct Filtered<'a> {
    /// The bytes; of a filtered chunk whole blocks, each filtered for itself.
    pub chunk: ChunkBytes<'a>,
    /// Their filter.
    pub filter: BlockFilter,
}

impl<'a> Filtered<'a> {
    /// Bytes that are not filtered.
    pub fn plain(chunk: ChunkBytes<'a>) -> Filtered<'a> {
        Filtered { chunk, filter: BlockFilter::NONE }
    }
}

/// DECODE if something gave another number of bytes.
pub(super) fn expect_bytes(
    what: fmt::Arguments<'_>,
    count: usize,
    expected: usize,
    why: &mut Why,
) -> Result<(), Status> {
    if count != expected {
        broken!(why, "{what} decodes to {count} bytes where {expected} are expected");
    }
    Ok(())
}

/// DECODE if a checksum is another one.
pub(super) fn expect_sum(
    sum: fmt::Arguments<'_>,
    stored: u32,
    computed: u32,
    why: &mut Why,
) -> Result<(), Status> {
    if stored != computed {
        broken!(why, "{sum} mismatch: stored {stored:#010x}, computed {computed:#010x}");
    }
    Ok(())
}
