//! The compressed streams of a chunk, found and checked but not decoded: for a decoder elsewhere.
//!
//! In: the encoded chunk, the bytes of it that are needed. Out: the place of each stream in the
//! encoded chunk and in the decoded one, and the filter that is left then. Invariant: every place
//! that is found lies inside of the chunk; a chunk that [`super::decode_chunk`] refuses before it
//! decompresses is refused, too. Why does not matter: whoever decodes it then says that.

use super::compressors::walk_of;
use super::filters::verified;
use super::stream_place::{Sink, Unfit, Walkable, Walked};
use crate::base::status::Why;
use crate::records::{ArrayRecord, Codec, Span};

/// Finds the streams that hold the bytes `need` of a chunk, which [`is_walked`] says can be found,
/// and tells the sink of every one. Checksums of the encoded bytes are verified.
pub fn walk(
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &[u8],
    need: Span,
    sink: &mut dyn Sink,
) -> Result<Walked, Unfit> {
    let (mut why, mut body) = (Why::new(), 0..encoded.len());
    for codec in record.codecs.iter().skip(1).rev() {
        let inner = verified(*codec, &encoded[body.clone()], None, &mut why);
        let inner = inner.map_err(|_| Unfit::Broken)?;
        body = body.start + inner.start..body.start + inner.end;
    }
    let whole = Span { first: 0, limit: record.chunk_bytes };
    let chunk = Walkable {
        bytes: &encoded[body.clone()],
        first: body.start,
        chunk_bytes: record.chunk_bytes,
        span: if record.has_checksum() { whole } else { need },
        max_substreams,
    };
    let walk = record.codecs.first().and_then(|codec| walk_of(*codec)).ok_or(Unfit::Codec)?;
    walk(&chunk, sink)
}

/// Whether what it makes are zstd frames.
pub fn is_frames(codec: Codec) -> bool {
    matches!(codec, Codec::Zstd | Codec::BloscZstd)
}

/// Whether [`walk`] knows the chain: a compressor whose streams a device decodes, and checksums of
/// what it made.
pub fn is_walked(codecs: &[Codec]) -> bool {
    let Some((first, rest)) = codecs.split_first() else { return false };
    walk_of(*first).is_some() && rest.iter().all(|codec| codec.is_sum())
}
