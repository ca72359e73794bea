//! The compressed streams of a chunk, found and checked but not decoded: for a decoder elsewhere.
//!
//! In: the encoded chunk, the bytes of it that are needed. Out: where each stream lies in the
//! encoded chunk and in the decoded one, and what filter is left then. Invariant: what is found
//! here lies inside of the chunk; what [`super::decode_chunk`] refuses before it decompresses is
//! refused here too. Why does not matter: whoever decodes it then says that.

use super::unshuffle::Shuffle;
use super::zstd_blocks::{BlockPlace, Measured, blocks, measure};
use super::{blosc, filters, lz4};
use crate::base::limits::streams_max;
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
    /// What they are.
    pub kind: Encoded,
}

/// What the bytes of a stream are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoded {
    /// The decoded ones.
    Stored,
    /// An LZ4 block.
    Lz4,
    /// A zstd frame, of so many blocks.
    Zstd(Measured),
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
    /// Its streams are of another codec, or a frame is broken, or one that libzstd alone decodes.
    Codec,
    /// They are too many for its size.
    Streams,
    /// They were not taken.
    NoRoom,
}

/// Who is told of the streams of a chunk.
pub trait Sink {
    /// There are at most so many, with the blocks of frames. False: there is no room for them.
    fn begin(&mut self, count: u64) -> bool;
    /// One of them.
    fn push(&mut self, place: StreamPlace);
    /// A block of the frame that was told last.
    fn push_block(&mut self, place: BlockPlace);
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

    fn push_block(&mut self, place: BlockPlace) {
        let source = self.first + place.source.start..self.first + place.source.end;
        self.sink.push_block(BlockPlace { source, ..place });
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
    if let Some(Codec::BloscLz4 | Codec::BloscZstd) = record.codecs.first() {
        let span = if record.has_checksum() { whole } else { need };
        return blosc::walk(bytes, (record.chunk_bytes, span), max_substreams, &mut sink);
    }
    let (mut source, target) = (0..bytes.len(), 0..index(record.chunk_bytes));
    let kind = if record.codecs.first() == Some(&Codec::Lz4) {
        source = lz4::body(bytes, record.chunk_bytes, &mut why).map_err(|_| Unfit::Broken)?;
        Encoded::Lz4
    } else {
        encoded_frame(bytes, target.len())?
    };
    let place = StreamPlace { source, target, kind };
    let rows = place.rows();
    if rows > streams_max(record.chunk_bytes) {
        return Err(Unfit::Streams);
    }
    if !sink.begin(rows) {
        return Err(Unfit::NoRoom);
    }
    place.tell(bytes, &mut sink);
    Ok(Walked::plain(whole))
}

/// The zstd frame that decodes to so many bytes.
pub(super) fn encoded_frame(frame: &[u8], target_bytes: usize) -> Result<Encoded, Unfit> {
    let measured = measure(frame, target_bytes as u64).map_err(|_| Unfit::Codec)?;
    Ok(Encoded::Zstd(measured))
}

impl StreamPlace {
    /// How many the sink is told of.
    pub(super) fn rows(&self) -> u64 {
        match self.kind {
            Encoded::Zstd(measured) => 1 + u64::from(measured.blocks),
            _ => 1,
        }
    }

    /// Tells the sink, of a frame of `bytes` with its blocks.
    pub(super) fn tell(self, bytes: &[u8], sink: &mut impl Sink) {
        let (source, target) = (self.source.clone(), self.target.len() as u64);
        let is_frame = matches!(self.kind, Encoded::Zstd(_));
        sink.push(self);
        if is_frame {
            let first = source.start;
            let push = |place: BlockPlace| {
                let source = first + place.source.start..first + place.source.end;
                sink.push_block(BlockPlace { source, ..place });
            };
            let found = blocks(&bytes[source], target, push);
            assert!(found.is_ok(), "it was measured before");
        }
    }
}

/// Whether what it makes are zstd frames.
pub fn is_frames(codec: Codec) -> bool {
    matches!(codec, Codec::Zstd | Codec::BloscZstd)
}

/// Whether [`walk`] knows the chain: a compressor of LZ4 blocks or zstd frames, and checksums of
/// what it made.
pub fn is_walked(codecs: &[Codec]) -> bool {
    let is_sum = |codec: &Codec| matches!(codec, Codec::Crc32c | Codec::Sum(_));
    let Some((first, rest)) = codecs.split_first() else { return false };
    (is_frames(*first) || matches!(first, Codec::Lz4 | Codec::BloscLz4)) && rest.iter().all(is_sum)
}
