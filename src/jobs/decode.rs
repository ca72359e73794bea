//! Chunks are decoded in a worker's memory, or in their place of the chunk cache.
//!
//! In: the encoded bytes of a task. Out: the bytes that boxes need of its chunk.

use crate::base::status::{Status, Why};
use crate::decode::{Decoder, Scratch, decode_chunk, kept_bytes};
use crate::fail;
use crate::records::{ArrayRecord, ChunkBytes};
use crate::state::needs::scratch_need;
use crate::state::shared::Shared;
use crate::state::worker::DecodeContext;
use crate::wave::ChunkTask;
use core::ops::Range;

/// Why a chunk does not decode.
pub type Refusal = (Status, Why);

/// The decoder, and places for the chunk of a task and for a block of it.
pub fn parts<'b>(
    shared: &Shared,
    context: &'b mut DecodeContext,
    task: &ChunkTask,
    encoded: &[u8],
) -> Result<(&'b mut Decoder, Scratch<'b>), Refusal> {
    let is_large = context.large.is_some();
    let need = if is_large { scratch_need(shared, task, encoded) } else { (0, 0) };
    let (decoder, scratch) = context.parts(need);
    decoder.map(|decoder| (decoder, scratch)).ok_or_else(no_decoder)
}

/// A chunk came to a worker without a decoder, which takes no such job.
#[cold]
fn no_decoder() -> Refusal {
    let mut why = Why::new();
    let text = "a worker without a decoder was to decode it: a defect of wavetrain, report it";
    (fail!(why, Internal, "{text}"), why)
}

/// Decodes what is needed of the chunk of a task, which is of `record`.
pub fn decoded<'b>(
    shared: &Shared,
    context: &'b mut DecodeContext,
    record: &ArrayRecord,
    task: &ChunkTask,
    encoded: &'b [u8],
) -> Result<ChunkBytes<'b>, Refusal> {
    let mut why = Why::new();
    let most = shared.settings.config.max_substreams_per_chunk;
    let (decoder, scratch) = parts(shared, context, task, encoded)?;
    let span = task.need.span;
    let Some(kept) = task.kept else {
        let decoded = decode_chunk(decoder, record, most, encoded, span, scratch, &mut why);
        return decoded.map_err(|status| (status, why));
    };
    let target = shared.claim_kept(kept, kept_bytes(record)).into_bytes();
    let block = scratch.block;
    let scratch = Scratch { target: &mut *target, block: &mut *block };
    let decoded = decode_chunk(decoder, record, most, encoded, span, scratch, &mut why)
        .map_err(|status| (status, why))?;
    let (found, first) = (decoded.bytes.as_ptr_range(), decoded.first);
    let count = decoded.bytes.len();
    bring(found, target, 0, [encoded, block]);
    Ok(ChunkBytes { bytes: &target[..count], first })
}

/// Brings decoded bytes, which lie at the addresses `found`, to byte `to` of `target`. Uncompressed
/// chunks lie in the encoded bytes; bytes after a filter may lie in a block; a checksum that
/// precedes them moves them by its length.
pub fn bring(found: Range<*const u8>, target: &mut [u8], to: usize, others: [&[u8]; 2]) {
    let count = found.end as usize - found.start as usize;
    let within = |bytes: &[u8]| {
        let at = (found.start as usize).checked_sub(bytes.as_ptr() as usize)?;
        (at + count <= bytes.len()).then_some(at..at + count)
    };
    if let Some(range) = within(target) {
        if range.start != to {
            target.copy_within(range, to);
        }
        return;
    }
    let other = others.into_iter().find_map(|bytes| within(bytes).map(|range| &bytes[range]));
    // Decoding returns nothing else.
    assert!(other.is_some());
    other.into_iter().for_each(|bytes| target[to..][..count].copy_from_slice(bytes));
}
