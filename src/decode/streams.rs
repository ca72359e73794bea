//! The compressed streams of a chunk, found and checked but not decoded: for a decoder elsewhere.
//!
//! In: the encoded chunk, the bytes of it that are needed. Out: where each stream lies in the
//! encoded chunk and in the decoded one, and what filter is left then. Invariant: what is found
//! here lies inside of the chunk; what [`super::decode_chunk`] refuses before it decompresses is
//! refused here too. Why does not matter: whoever decodes it then says that.

use super::unshuffle::Shuffle;
use super::{blosc, filters, lz4};
use crate::base::math::index;
use crate::base::status::Why;
use crate::records::{ArrayRecord, Codec, Span};
use core::ops::Range;

/// A stream of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// Its bytes in the encoded chunk.
    pub source: Range<usize>,
    /// What they decode to in the chunk.
    pub target: Range<usize>,
    /// They are the decoded ones.
    pub is_stored: bool,
}

/// What the streams of a chunk decode to together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walked {
    /// These bytes of the chunk.
    pub span: Span,
    /// Their filter, as of [`super::Filtered`].
    pub shuffle: Shuffle,
    /// Bytes of a block; 0 without a filter.
    pub block_bytes: u32,
    /// Bytes of an element of the filter; 0 without one.
    pub typesize: u32,
}

impl Walked {
    pub(super) fn plain(span: Span) -> Walked {
        Walked { span, shuffle: Shuffle::None, block_bytes: 0, typesize: 0 }
    }
}

/// Why a chunk is not for a decoder elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It does not decode, or a checksum is another one.
    Broken,
    /// Its streams are of another codec.
    Codec,
    /// They are too many for its size.
    Streams,
    /// They were not taken.
    NoRoom,
}

/// Who is told of the streams of a chunk.
pub trait Sink {
    /// There are at most so many. False: there is no room for them.
    fn begin(&mut self, count: u64) -> bool;
    /// One of them.
    fn push(&mut self, place: StreamPlace);
}

/// What of a stream's source lies before the encoded bytes that it was found in.
struct Shifted<'a, S> {
    first: usize,
    sink: &'a mut S,
}

impl<S: Sink> Sink for Shifted<'_, S> {
    fn begin(&mut self, count: u64) -> bool {
        self.sink.begin(count)
    }

    fn push(&mut self, place: StreamPlace) {
        let source = self.first + place.source.start..self.first + place.source.end;
        self.sink.push(StreamPlace { source, ..place });
    }
}

/// Finds the streams that hold the bytes `need` of a chunk, which [`is_walked`] says can be found,
/// and tells the sink of every one. Checksums of the encoded bytes are verified.
pub fn walk(
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &[u8],
    need: Span,
    sink: &mut impl Sink,
) -> Result<Walked, Unfit> {
    let (mut why, mut body) = (Why::new(), 0..encoded.len());
    for codec in record.codecs.iter().skip(1).rev() {
        let inner = filters::verified(*codec, &encoded[body.clone()], None, &mut why);
        let inner = inner.map_err(|_| Unfit::Broken)?;
        body = body.start + inner.start..body.start + inner.end;
    }
    let (bytes, whole) = (&encoded[body.clone()], Span { first: 0, limit: record.chunk_bytes });
    let mut sink = Shifted { first: body.start, sink };
    if record.codecs.first() != Some(&Codec::Lz4) {
        let span = if record.has_checksum() { whole } else { need };
        return blosc::walk(bytes, (record.chunk_bytes, span), max_substreams, &mut sink);
    }
    let source = lz4::body(bytes, record.chunk_bytes, &mut why).map_err(|_| Unfit::Broken)?;
    if !sink.begin(1) {
        return Err(Unfit::NoRoom);
    }
    sink.push(StreamPlace { source, target: 0..index(record.chunk_bytes), is_stored: false });
    Ok(Walked::plain(whole))
}

/// Whether [`walk`] knows the chain: a compressor of LZ4 blocks, and checksums of what it made.
pub fn is_walked(codecs: &[Codec]) -> bool {
    let is_sum = |codec: &Codec| matches!(codec, Codec::Crc32c | Codec::Sum(_));
    match codecs {
        [Codec::Lz4 | Codec::BloscLz4, rest @ ..] => rest.iter().all(is_sum),
        _ => false,
    }
}
