//! From the bytes of a chunk as they lie in a file to its elements.
//!
//! In: the encoded chunk, the array's codec chain, the bytes of the chunk that somebody needs,
//! scratch. Out: those bytes, perhaps with more around them, in the scratch or (nothing compressed
//! them) in the encoded bytes themselves. Invariant: the outcome depends on the encoded bytes, the
//! array and the need alone, and nothing but the scratch is written.

/// Ends a function with DECODE and this text.
macro_rules! broken {
    ($why:expr, $($text:tt)+) => {
        return Err($crate::fail!($why, Decode, $($text)+))
    };
}

pub mod blosc;
pub mod blosclz;
pub mod bz2;
mod chunk;
mod compressors;
mod decoder;
mod filters;
pub mod gzip;
pub mod inflate;
pub mod lz4;
pub mod lzma;
mod shards;
pub mod stream_place;
pub mod streams;
pub mod zstd;
pub mod zstd_blocks;

use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{ArrayRecord, ChunkBytes, Codec, Span};
use chunk::Compressed;
use compressors::decompress;

pub use crate::base::limits::target_bytes;
#[cfg(feature = "internals")]
pub use crate::loops::unshuffle;
pub use chunk::{BlockFilter, Filtered, Scratch, Want};
pub use decoder::Decoder;

/// Bytes of the target that a chunk of `record` takes in the cache: the chunk, as filters leave it
/// at its largest, and the checksum that it was compressed with.
pub fn kept_bytes(record: &ArrayRecord) -> u64 {
    if record.is_whole_shard() {
        return record.chunk_bytes;
    }
    let before = record.codecs.iter().position(|codec| codec.is_compressor());
    before.and_then(|count| record.encoded_bytes(count)).unwrap_or(0).max(record.working_bytes())
}

/// Bytes of the target that a chunk of `record` takes: none if it is used as it was read.
pub fn target_need(record: &ArrayRecord) -> u64 {
    let is_in_place = record.codecs.iter().all(|codec| codec.is_sum());
    match is_in_place {
        true => 0,
        // Its cells are decoded in the block.
        false if record.is_whole_shard() => target_bytes(record.chunk_bytes),
        false => target_bytes(record.working_bytes()),
    }
}

/// Bytes of block scratch that the chunk `encoded` of `record` takes, by what it says itself,
/// unchecked: a lie is found when the chunk is decoded.
pub fn block_need(record: &ArrayRecord, encoded: &[u8]) -> u64 {
    let workspace = workspace_need(record);
    if record.is_filtered() {
        return target_bytes(record.working_bytes()) + workspace;
    }
    if !record.codecs.iter().any(|codec| codec.is_blosc()) {
        return workspace;
    }
    blosc::blocksize_unchecked(encoded).min(target_bytes(record.chunk_bytes))
}

/// Bytes at the end of block scratch that the compressors of a chunk of `record` work in, one after
/// the other: those of bz2 and lzma do. They follow from the record alone.
pub fn workspace_need(record: &ArrayRecord) -> u64 {
    let need = |(place, codec): (usize, &Codec)| match codec {
        Codec::Bz2(level) => {
            let exact = record.encoded_bytes(place);
            let bytes = exact.unwrap_or_else(|| record.sizes(place).encoded_max);
            bz2::workspace_bytes(*level, bytes)
        }
        Codec::Lzma(_) => lzma::WORKSPACE_BYTES as u64,
        _ => 0,
    };
    record.codecs.iter().enumerate().map(need).max().unwrap_or(0)
}

/// Decodes one chunk of `record`, at least the bytes `need` of it. `encoded` is the whole chunk as
/// it lies in its file, or exactly the bytes `need` if `record.is_read_partly()`. `max_substreams`
/// limits the streams of a blosc chunk (0: no limit). Sizes are checked at every step; what a
/// checksum covers is decoded whole and verified, and so are the codecs that cannot do otherwise
/// (lz4); bytes of the others after the last needed byte (zstd) or in other blocks (blosc) are not
/// looked at.
pub fn decode_chunk<'a>(
    decoder: &mut Decoder,
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &'a [u8],
    need: Span,
    scratch: Scratch<'a>,
    why: &mut Why,
) -> Result<ChunkBytes<'a>, Status> {
    let want = Want { span: need, keeps_filter: false };
    let decoded = decode_filtered(decoder, record, max_substreams, encoded, want, scratch, why)?;
    Ok(decoded.chunk)
}

/// Whether [`decode_filtered`] may leave the filter of a chunk of `record` to its caller.
pub fn leaves_filter(record: &ArrayRecord) -> bool {
    record.codecs.first().is_some_and(|codec| codec.is_blosc()) && !filters::is_here(record)
}

/// As [`decode_chunk`], with the same outcome, but that the filter of a blosc chunk may be left to
/// the caller, who then has the whole of each block that holds a needed byte; block scratch is then
/// of no use. Under a checksum that covers the bytes without their filter, the filter is undone.
pub fn decode_filtered<'a>(
    decoder: &mut Decoder,
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &'a [u8],
    want: Want,
    scratch: Scratch<'a>,
    why: &mut Why,
) -> Result<Filtered<'a>, Status> {
    let need = want.span;
    assert!(need.first < need.limit && need.limit <= record.chunk_bytes);
    if record.is_read_partly() {
        // Exactly the needed bytes were read.
        if encoded.len() as u64 != need.bytes() {
            let (bytes, expected) = (encoded.len(), need.bytes());
            broken!(why, "chunk has {bytes} bytes where {expected} are expected");
        }
        return Ok(Filtered::plain(ChunkBytes { bytes: encoded, first: need.first }));
    }
    let compressors = record.codecs.iter().filter(|codec| codec.is_compressor()).count();
    if compressors > 1 && !record.is_whole_shard() {
        return Err(fail!(why, Unsupported, "a chain of {compressors} compressors"));
    }
    let Scratch { target, block } = scratch;
    let end = block.len() - index(workspace_need(record));
    let (block, workspace) = block.split_at_mut(end);
    let scratch = Scratch { target, block };
    if filters::is_here(record) {
        let work = filters::Work { decoder, record, max_substreams, workspace };
        return Ok(Filtered::plain(filters::decode(work, encoded, scratch, why)?));
    }
    let mut decoded = Filtered::plain(ChunkBytes { bytes: encoded, first: 0 });
    let mut scratch = Some((scratch, workspace));
    for (position, codec) in record.codecs.iter().enumerate().rev() {
        let bytes_after = record.encoded_bytes(position);
        if *codec == Codec::Crc32c {
            let body = filters::verified(*codec, decoded.chunk.bytes, bytes_after, why)?;
            decoded.chunk.bytes = &decoded.chunk.bytes[body];
            continue;
        }
        // One compressor was counted, so the sizes before it are all known and the scratch is
        // still here.
        let (Some(expected), Some((scratch, workspace))) = (bytes_after, scratch.take()) else {
            return Err(fail!(why, Internal, "codec chain without a known size"));
        };
        let span = if record.has_checksum() { Span { first: 0, limit: expected } } else { need };
        let keeps_filter = want.keeps_filter && leaves_filter(record);
        let (want, Scratch { target, block }) = (Want { span, keeps_filter }, scratch);
        let scratch = Scratch { target: &mut target[..index(expected)], block };
        let bytes = decoded.chunk.bytes;
        let chunk = Compressed { bytes, want, max_substreams, workspace, scratch };
        decoded = decompress(decoder, *codec, chunk, why)?;
    }
    assert!(decoded.chunk.first <= need.first);
    assert!(decoded.chunk.first + decoded.chunk.bytes.len() as u64 >= need.limit);
    Ok(decoded)
}

#[cfg(test)]
mod blosc_tests;
#[cfg(test)]
mod blosclz_tests;
#[cfg(test)]
mod bz2_tests;
#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod codec_tests;
#[cfg(test)]
mod lzma_tests;
#[cfg(test)]
mod margin_tests;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod zstd_tests;
