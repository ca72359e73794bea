//! BloscLZ streams: the errors of `loops`' decoder with their context.

use crate::base::status::{Status, Why};
use crate::fail;

/// Decodes `source` and returns how many bytes of `target` it filled. DECODE if the stream is
/// broken, cut, or holds more than the target, which then holds anything.
pub fn decompress(source: &[u8], target: &mut [u8], why: &mut Why) -> Result<usize, Status> {
    crate::loops::blosclz::decompress(source, target).map_err(|broken| {
        let (from, to) = (source.len(), target.len());
        fail!(why, Decode, "blosclz stream of {from} bytes does not decode to {to} bytes: {broken}")
    })
}
