//! The places of the streams of a chunk, and the sink that is told of them.

use super::chunk::BlockFilter;
use super::zstd_blocks::{BlockPlace, Measured, blocks, measure};
use crate::base::limits::streams_max;
use crate::base::math::index;
use crate::records::Span;
use core::ops::Range;

/// A stream of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPlace {
    /// Its bytes in the encoded chunk.
    pub source: Range<usize>,
    /// The bytes of the chunk that they decode to.
    pub target: Range<usize>,
    /// Their kind.
    pub kind: Encoded,
}

/// The kind of the bytes of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoded {
    /// The decoded ones.
    Stored,
    /// An LZ4 block.
    Lz4,
    /// A zstd frame, of so many blocks.
    Zstd(Measured),
}

/// The sizes of all streams of a chunk together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walked {
    /// These bytes of the chunk.
    pub span: Span,
    /// Their filter.
    pub filter: BlockFilter,
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

/// The receiver of the streams of a chunk.
pub trait Sink {
    /// There are at most so many, with the blocks of frames. False: there is no room for them.
    fn begin(&mut self, count: u64) -> bool;
    /// One of them.
    fn push(&mut self, place: StreamPlace);
    /// A block of the frame that was told last.
    fn push_block(&mut self, place: BlockPlace);
}

/// A compressed chunk whose streams are looked for.
pub(super) struct Walkable<'a> {
    /// The bytes, without checksums around them.
    pub bytes: &'a [u8],
    /// How many bytes lie before them in the encoded chunk.
    pub first: usize,
    /// Bytes of the decoded chunk.
    pub chunk_bytes: u64,
    /// Those that are needed.
    pub span: Span,
    /// Most streams of a blosc chunk; 0: no limit.
    pub max_substreams: u32,
}

impl Walkable<'_> {
    /// Tells the sink that the chunk is one stream.
    pub fn walk_one(
        &self,
        source: Range<usize>,
        kind: Encoded,
        sink: &mut dyn Sink,
    ) -> Result<Walked, Unfit> {
        let place = StreamPlace { source, target: 0..index(self.chunk_bytes), kind };
        let rows = place.rows();
        if rows > streams_max(self.chunk_bytes) {
            return Err(Unfit::Streams);
        }
        if !sink.begin(rows) {
            return Err(Unfit::NoRoom);
        }
        self.tell(place, sink);
        let span = Span { first: 0, limit: self.chunk_bytes };
        Ok(Walked { span, filter: BlockFilter::NONE })
    }

    /// Tells the sink of a stream in these bytes, and of the blocks of a frame.
    pub fn tell(&self, place: StreamPlace, sink: &mut dyn Sink) {
        let StreamPlace { source, target, kind } = place.clone();
        let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
        sink.push(StreamPlace { source: moved(source.clone(), self.first), ..place });
        if matches!(kind, Encoded::Zstd(_)) {
            let first = self.first + source.start;
            let push = |block: BlockPlace| {
                sink.push_block(BlockPlace { source: moved(block.source.clone(), first), ..block });
            };
            let found = blocks(&self.bytes[source], target.len() as u64, push);
            assert!(found.is_ok(), "it was measured before");
        }
    }
}

impl StreamPlace {
    /// How many the sink is told of.
    pub(super) fn rows(&self) -> u64 {
        match self.kind {
            Encoded::Zstd(measured) => 1 + u64::from(measured.blocks),
            _ => 1,
        }
    }
}

/// The zstd frame that decodes to so many bytes.
pub(super) fn encoded_frame(frame: &[u8], target_bytes: usize) -> Result<Encoded, Unfit> {
    let measured = measure(frame, target_bytes as u64).map_err(|_| Unfit::Codec)?;
    Ok(Encoded::Zstd(measured))
}
