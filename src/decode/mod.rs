//! From the bytes of a chunk as they lie in a file to its elements.
//!
//! In: the encoded chunk, the array's codec chain, scratch. Out: the decoded chunk, exactly as long
//! as the array says, in the scratch or (nothing compressed it) in the encoded bytes themselves.
//! Invariant: the outcome depends on the encoded bytes and the array alone, and nothing but the
//! scratch is written.

pub mod blosc;
pub mod crc32c;
pub mod unshuffle;
pub mod zstd;

use crate::base::math::{align_up, index};
use crate::fail;
use crate::limits::CODECS_MAX;
use crate::records::{ArrayRecord, Codec};
use crate::status::{Status, Why};
use zstd::Decoder;

/// Bytes of a CRC-32C behind the bytes that it covers.
const CRC_BYTES: usize = 4;

/// Alignment of the two halves of the scratch: a cache line.
const SCRATCH_ALIGN: u64 = 64;

/// Bytes of scratch that [`decode_chunk`] takes for chunks of up to `chunk_bytes`: the decoded
/// chunk with the checksums that a compressor may have wrapped in, and as much again, because a
/// blosc block before its filter is undone may be as long as the chunk.
pub fn scratch_bytes(chunk_bytes: u64) -> u64 {
    2 * half_bytes(chunk_bytes)
}

fn half_bytes(chunk_bytes: u64) -> u64 {
    align_up(chunk_bytes + (CRC_BYTES * CODECS_MAX) as u64, SCRATCH_ALIGN)
}

/// Decodes one whole chunk of `record`. `scratch` has at least `scratch_bytes(record.chunk_bytes)`
/// bytes; `max_substreams` limits the streams of a blosc chunk (0: no limit). Every size is checked
/// at every step; the result is `record.chunk_bytes` long.
pub fn decode_chunk<'a>(
    decoder: &mut Decoder,
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &'a [u8],
    scratch: &'a mut [u8],
    why: &mut Why,
) -> Result<&'a [u8], Status> {
    assert!(scratch.len() as u64 >= scratch_bytes(record.chunk_bytes));
    let compressors = record.codecs.iter().filter(|codec| codec.is_compressor()).count();
    if compressors > 1 {
        return Err(fail!(why, Unsupported, "a chain of {compressors} compressors"));
    }
    let mut bytes = encoded;
    let mut scratch = Some(scratch);
    for (position, codec) in record.codecs.iter().enumerate().rev() {
        let bytes_after = record.encoded_bytes(position);
        match codec {
            Codec::Crc32c => bytes = verified(bytes, bytes_after, why)?,
            Codec::Zstd | Codec::Blosc => {
                // One compressor was counted, so the sizes before it are all known and the scratch
                // is still here.
                let (Some(expected), Some(scratch)) = (bytes_after, scratch.take()) else {
                    return Err(fail!(why, Internal, "codec chain without a known size"));
                };
                let (target, block) = scratch.split_at_mut(index(half_bytes(record.chunk_bytes)));
                let target = &mut target[..index(expected)];
                if *codec == Codec::Zstd {
                    decode_zstd(decoder, bytes, target, why)?;
                } else {
                    blosc::decode(decoder, bytes, max_substreams, target, block, why)?;
                }
                bytes = target;
            }
        }
    }
    if bytes.len() as u64 != record.chunk_bytes {
        return Err(fail!(
            why,
            Decode,
            "chunk has {} bytes where {} are expected",
            bytes.len(),
            record.chunk_bytes
        ));
    }
    Ok(bytes)
}

fn decode_zstd(
    decoder: &mut Decoder,
    source: &[u8],
    target: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let count = decoder.decompress(source, target, why)?;
    if count != target.len() {
        let expected = target.len();
        return Err(fail!(
            why,
            Decode,
            "zstd data decodes to {count} bytes where {expected} are expected"
        ));
    }
    Ok(())
}

/// The bytes before a CRC-32C suffix that is right; `expected` is their length where it is known.
fn verified<'a>(bytes: &'a [u8], expected: Option<u64>, why: &mut Why) -> Result<&'a [u8], Status> {
    let Some((body, suffix)) = bytes.split_last_chunk::<CRC_BYTES>() else {
        let len = bytes.len();
        return Err(fail!(why, Decode, "chunk of {len} bytes has no room for its crc32c"));
    };
    if let Some(expected) = expected
        && body.len() as u64 != expected
    {
        let len = body.len();
        return Err(fail!(
            why,
            Decode,
            "chunk has {len} bytes before its crc32c where {expected} are expected"
        ));
    }
    let stored = u32::from_le_bytes(*suffix);
    let computed = crc32c::crc32c(0, body);
    if stored != computed {
        return Err(fail!(
            why,
            Decode,
            "chunk crc32c mismatch: stored {stored:#010x}, computed {computed:#010x}"
        ));
    }
    Ok(body)
}

#[cfg(test)]
mod blosc_tests;
#[cfg(test)]
mod chain_tests;
