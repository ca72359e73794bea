//! The codecs that compress: what undoes each, and what finds its streams for a device.
//!
//! In: a codec. Out: its functions. Invariant: all codecs stand in the one `match` here, or this
//! does not compile. Their other table is [`CODECS`](crate::records::CODECS): records know no
//! decoder, and nothing below this room may name one.

use super::chunk::{Compressed, Filtered, Scratch, expect_bytes};
use super::decoder::Decoder;
use super::stream_place::{Sink, Unfit, Walkable, Walked};
use super::{blosc, bz2, gzip, lz4, lzma, zstd};
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::records::{ChunkBytes, Codec, Lzma};

/// The function that undoes a compressor.
enum Decode {
    /// Decodes the whole chunk into the target, and gives the bytes of it.
    Whole(fn(&mut Decoder, &[u8], &mut [u8], &mut Why) -> Result<usize, Status>),
    /// The same in a workspace.
    InWorkspace(Workspaced),
    /// Decodes at least what is wanted.
    Part(for<'a> fn(&mut Decoder, Compressed<'a>, &mut Why) -> Result<Filtered<'a>, Status>),
}

/// A compressor that is undone in a workspace.
#[derive(Clone, Copy)]
enum Workspaced {
    /// Its blocks are of up to a level.
    Bz2(u8),
    /// In a container.
    Lzma(Lzma),
}

impl Workspaced {
    /// Decodes the whole chunk into the target, and gives the bytes of it.
    fn decode(
        self,
        workspace: &mut [u8],
        source: &[u8],
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<usize, Status> {
        match self {
            Workspaced::Bz2(level) => bz2::decode(level, workspace, source, target, why),
            Workspaced::Lzma(container) => lzma::decode(container, workspace, source, target, why),
        }
    }
}

/// Tells a sink of the streams of a chunk.
type Walk = fn(&Walkable<'_>, &mut dyn Sink) -> Result<Walked, Unfit>;

/// The functions that undo a codec, and that walk its streams if a device decodes them; None of
/// those that compress nothing. Metadata has to say that LZ4 or zstd is in blosc for a device to
/// take it.
fn row(codec: Codec) -> Option<(Decode, Option<Walk>)> {
    use Decode::{InWorkspace, Part, Whole};
    Some(match codec {
        Codec::Zstd => {
            (Part(|decoder, chunk, why| decoder.zstd.decode(chunk, why)), Some(zstd::walk))
        }
        Codec::Blosc => (Part(blosc::decode_as), None),
        Codec::BloscLz4 | Codec::BloscZstd => (Part(blosc::decode_as), Some(blosc::walk)),
        Codec::Gzip => {
            (Whole(|decoder, from, to, why| gzip::decode(decoder.inflater, from, to, why)), None)
        }
        Codec::Zlib => (Whole(|decoder, from, to, why| decoder.inflater.zlib(from, to, why)), None),
        Codec::Lz4 => (Whole(|_, from, to, why| lz4::decode(from, to, why)), Some(lz4::walk)),
        Codec::Bz2(level) => (InWorkspace(Workspaced::Bz2(level)), None),
        Codec::Lzma(container) => (InWorkspace(Workspaced::Lzma(container)), None),
        Codec::Crc32c | Codec::Sum(_) | Codec::Filter(_) => return None,
    })
}

/// The function that finds the streams of encoded bytes, if a device decodes them.
pub(super) fn walk_of(codec: Codec) -> Option<Walk> {
    row(codec)?.1
}

/// Undoes a compressor.
pub(super) fn decompress<'a>(
    decoder: &mut Decoder,
    codec: Codec,
    chunk: Compressed<'a>,
    why: &mut Why,
) -> Result<Filtered<'a>, Status> {
    let row = row(codec);
    if let Some((Decode::Part(decode), _)) = row {
        return decode(decoder, chunk, why);
    }
    let Compressed { bytes, workspace, scratch: Scratch { target, .. }, .. } = chunk;
    let count = match row {
        Some((Decode::Whole(decode), _)) => decode(decoder, bytes, target, why)?,
        Some((Decode::InWorkspace(codec), _)) => codec.decode(workspace, bytes, target, why)?,
        _ => unreachable!("{codec:?} compresses nothing"),
    };
    expect_bytes(format_args!("{} data", codec.name()), count, target.len(), why)?;
    Ok(Filtered::plain(ChunkBytes { bytes: target, first: 0 }))
}

/// Undoes a compressor of a shard, whose bytes are as many as it says, but no more than the target
/// has.
pub(super) fn decompress_up_to<'a>(
    decoder: &mut Decoder,
    codec: Codec,
    mut chunk: Compressed<'a>,
    why: &mut Why,
) -> Result<&'a [u8], Status> {
    let declared = match codec {
        Codec::Lz4 => Some(lz4::bytes_unchecked(chunk.bytes)),
        _ if codec.is_blosc() => Some(blosc::bytes_unchecked(chunk.bytes)),
        _ => None,
    };
    if let Some(bytes) = declared {
        let bytes = bytes.min(chunk.want.span.limit);
        chunk.want.span.limit = bytes;
        chunk.scratch.target = &mut chunk.scratch.target[..index(bytes)];
        return Ok(decompress(decoder, codec, chunk, why)?.chunk.bytes);
    }
    let target = chunk.scratch.target;
    let count = match row(codec) {
        Some((Decode::Whole(decode), _)) => decode(decoder, chunk.bytes, target, why)?,
        Some((Decode::InWorkspace(codec), _)) => {
            codec.decode(chunk.workspace, chunk.bytes, target, why)?
        }
        _ => decoder.zstd.decompress(chunk.bytes, target, why)?,
    };
    Ok(&target[..count])
}
