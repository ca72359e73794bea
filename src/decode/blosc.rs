//! Blosc1 chunks: the header, and each block by itself.
//!
//! In: the bytes of one chunk. Out: a checked [`Header`], decoded blocks, or the whole chunk.
//! Invariant: a [`Header`] exists only for bytes whose every field was checked against their real
//! length, and each offset and size after it is checked again before it is used.
//!
//! Layout (c-blosc README_CHUNK_FORMAT.rst): 16 bytes of header, one little-endian i32 per block
//! with the block's offset from the start of the chunk, then streams, each an i32 size and that
//! many bytes. Blocks lie in any order, because c-blosc writes them from several threads; a block's
//! size never follows from the next offset. Worked example: 100,000 bytes in blocks of 32,768 are
//! three whole blocks and a last one of 1,696; the offsets fill bytes 16 to 32.

#[cfg(feature = "internals")]
use super::chunk::Want;
use super::chunk::{BlockFilter, Compressed, Filtered, Scratch, expect_bytes};
use super::decoder::Decoder;
use super::stream_place::{Encoded, Sink, StreamPlace, Unfit, Walkable, Walked, encoded_frame};
use super::{blosclz, lz4};
use crate::base::limits::streams_max;
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::loops::simd::Level;
use crate::loops::unshuffle::{Shuffle, unshuffle, unshuffle_planes};
use crate::records::{ChunkBytes, Span};
use arrayvec::ArrayVec;
use core::ops::Range;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;

/// The format version of blosc1. Blosc2 writes 3 and more.
const VERSION: u8 = 2;

/// The version of every codec's format inside blosc1.
const VERSION_CODEC: u8 = 1;

const FLAG_SHUFFLE: u8 = 0x01;
const FLAG_MEMCPYED: u8 = 0x02;
const FLAG_BITSHUFFLE: u8 = 0x04;
const FLAG_RESERVED: u8 = 0x08;
const FLAG_WHOLE: u8 = 0x10;
const CODEC_SHIFT: u32 = 5;

/// Largest element that blosc splits into streams.
const SPLIT_TYPESIZE_MAX: u32 = 16;

/// Fewest elements of a block that blosc splits.
const SPLIT_ELEMENTS_MIN: u32 = 128;

/// The compressor of a chunk's streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressor {
    /// blosc's own.
    Blosclz,
    /// LZ4 blocks, of either of its compressors.
    Lz4,
    /// zlib streams.
    Zlib,
    /// zstd frames.
    Zstd,
}

/// A checked header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes of an element as the filters see it, 1 to 255. It need not be the array's.
    pub typesize: u32,
    /// Bytes of the decoded chunk.
    pub nbytes: u32,
    /// Bytes of a decoded block; the last block may be shorter. At least 1.
    pub blocksize: u32,
    /// Bytes of the chunk, this header included.
    pub cbytes: u32,
    /// Number of blocks; 0 for an empty chunk.
    pub block_count: u32,
    /// Streams of each whole block: 1, or `typesize` if blocks are split.
    pub split_count: u32,
    /// The payload follows the header as it is: no offsets, no streams, no filter.
    pub memcpyed: bool,
    /// The filter of every block.
    pub shuffle: Shuffle,
    /// The kind of the streams.
    pub compressor: Compressor,
}

impl Header {
    /// Bytes of decoded block `block`.
    pub fn block_bytes(&self, block: u32) -> u32 {
        assert!(block < self.block_count);
        self.blocksize.min(self.nbytes - block * self.blocksize)
    }

    /// Streams of block `block`: a last block that is short is never split.
    pub fn block_streams(&self, block: u32) -> u32 {
        if self.block_bytes(block) == self.blocksize { self.split_count } else { 1 }
    }

    /// Streams of the whole chunk.
    pub fn stream_count(&self) -> u64 {
        let whole = self.nbytes / self.blocksize;
        let tail = self.block_count - whole;
        u64::from(whole) * u64::from(self.split_count) + u64::from(tail)
    }

    /// The filter that a block may have.
    fn filter(&self) -> BlockFilter {
        match (self.shuffle, self.typesize) {
            (Shuffle::None, _) | (Shuffle::Bytes, 1) => BlockFilter::NONE,
            (shuffle, typesize) => BlockFilter { shuffle, block_bytes: self.blocksize, typesize },
        }
    }

    /// First byte that a stream may take: after the header and the offsets.
    fn streams_first(&self) -> u64 {
        HEADER_BYTES as u64 + 4 * u64::from(self.block_count)
    }
}

/// Reads and checks the header of the chunk `bytes`, which must be the chunk and nothing else.
/// UNSUPPORTED for what blosc has and wavetrain does not read, DECODE for what blosc never writes.
pub fn header(bytes: &[u8], why: &mut Why) -> Result<Header, Status> {
    let Some(raw) = bytes.first_chunk::<HEADER_BYTES>() else {
        broken!(why, "blosc chunk of {} bytes is too short for a header", bytes.len());
    };
    let compressor = check_format(raw, why)?;
    let typesize = u32::from(raw[3]);
    let nbytes = u32_at(raw, 4);
    let blocksize = u32_at(raw, 8);
    let cbytes = u32_at(raw, 12);
    if u64::from(cbytes) != bytes.len() as u64 {
        let len = bytes.len();
        broken!(why, "blosc chunk declares {cbytes} bytes, {len} are there");
    }
    if typesize == 0 {
        broken!(why, "blosc typesize is 0");
    }
    if blocksize == 0 || (blocksize > nbytes && nbytes > 0) {
        broken!(why, "blosc block of {blocksize} bytes in chunk of {nbytes}");
    }
    let flags = raw[2];
    let split = flags & FLAG_WHOLE == 0
        && typesize <= SPLIT_TYPESIZE_MAX
        && blocksize / typesize >= SPLIT_ELEMENTS_MIN;
    if split && !blocksize.is_multiple_of(typesize) {
        broken!(why, "blosc block of {blocksize} bytes is split into {typesize} streams");
    }
    let header = Header {
        typesize,
        nbytes,
        blocksize,
        cbytes,
        block_count: nbytes.div_ceil(blocksize),
        split_count: if split { typesize } else { 1 },
        memcpyed: flags & FLAG_MEMCPYED != 0,
        shuffle: match flags & (FLAG_SHUFFLE | FLAG_BITSHUFFLE) {
            0 => Shuffle::None,
            FLAG_SHUFFLE => Shuffle::Bytes,
            _ => Shuffle::Bits,
        },
        compressor,
    };
    check_sizes(&header, why)?;
    Ok(header)
}

fn check_format(raw: &[u8; HEADER_BYTES], why: &mut Why) -> Result<Compressor, Status> {
    let [version, version_codec, flags, ..] = *raw;
    if (3..=7).contains(&version) {
        return Err(fail!(why, Unsupported, "blosc2 chunk (format version {version})"));
    }
    if version != VERSION {
        broken!(why, "blosc format version is {version}, not {VERSION}");
    }
    if flags & FLAG_RESERVED != 0 {
        broken!(why, "blosc flags {flags:#04x} have the reserved bit set");
    }
    if flags & FLAG_SHUFFLE != 0 && flags & FLAG_BITSHUFFLE != 0 {
        broken!(why, "blosc flags {flags:#04x} name both shuffles");
    }
    let (compressor, name) = match flags >> CODEC_SHIFT {
        0 => (Compressor::Blosclz, "blosclz"),
        1 => (Compressor::Lz4, "lz4"),
        2 => {
            let known = "only blosclz, lz4, zlib and zstd are read";
            return Err(fail!(why, Unsupported, "blosc codec snappy ({known})"));
        }
        3 => (Compressor::Zlib, "zlib"),
        4 => (Compressor::Zstd, "zstd"),
        unknown => broken!(why, "blosc codec number {unknown} is unknown"),
    };
    if version_codec != VERSION_CODEC {
        broken!(why, "blosc {name} format version is {version_codec}, not 1");
    }
    Ok(compressor)
}

fn check_sizes(header: &Header, why: &mut Why) -> Result<(), Status> {
    let Header { nbytes, cbytes, block_count, .. } = *header;
    if header.memcpyed {
        if u64::from(nbytes) + HEADER_BYTES as u64 != u64::from(cbytes) {
            broken!(why, "blosc copied chunk of {cbytes} bytes does not hold {nbytes} bytes");
        }
    } else if header.streams_first() > u64::from(cbytes) {
        let offsets = format_args!("the offsets of {block_count} blocks");
        broken!(why, "blosc chunk of {cbytes} bytes is too short for {offsets}");
    }
    Ok(())
}

/// The block size that a chunk claims in its header; 0 if it has none.
pub fn blocksize_unchecked(bytes: &[u8]) -> u64 {
    if bytes.len() < HEADER_BYTES { 0 } else { u64::from(u32_at(bytes, 8)) }
}

/// The decoded bytes that a chunk claims in its header; 0 if it has none.
pub(super) fn bytes_unchecked(bytes: &[u8]) -> u64 {
    if bytes.len() < HEADER_BYTES { 0 } else { u64::from(u32_at(bytes, 4)) }
}

/// Decodes the blocks of the chunk `bytes` that hold the bytes `span`. `target` is as long as the
/// whole chunk must be; `scratch` at least as long as a block or the target. More streams in the
/// whole chunk than `max_substreams` (0: no limit) are DECODE.
#[cfg(feature = "internals")]
pub fn decode<'a>(
    decoder: &mut Decoder,
    bytes: &'a [u8],
    max_substreams: u32,
    span: Span,
    target: &'a mut [u8],
    scratch: &'a mut [u8],
    why: &mut Why,
) -> Result<ChunkBytes<'a>, Status> {
    let (want, scratch) = (Want { span, keeps_filter: false }, Scratch { target, block: scratch });
    let chunk = Compressed { bytes, want, max_substreams, workspace: &mut [], scratch };
    Ok(decode_as(decoder, chunk, why)?.chunk)
}

/// As [`decode`]; but where `want` keeps the filter, whole blocks come out as they were compressed,
/// each at the place that it would have without its filter, and `scratch` is left alone.
pub(super) fn decode_as<'a>(
    decoder: &mut Decoder,
    chunk: Compressed<'a>,
    why: &mut Why,
) -> Result<Filtered<'a>, Status> {
    let Compressed { bytes, want, max_substreams, scratch, .. } = chunk;
    let Scratch { target, block: scratch } = scratch;
    let header = header(bytes, why)?;
    expect_bytes(format_args!("blosc chunk"), index(header.nbytes.into()), target.len(), why)?;
    let (first, limit) = (index(want.span.first), index(want.span.limit));
    if header.memcpyed {
        let bytes = &bytes[HEADER_BYTES..][first..limit];
        return Ok(Filtered::plain(ChunkBytes { bytes, first: want.span.first }));
    }
    let streams = header.stream_count();
    if max_substreams != 0 && streams > u64::from(max_substreams) {
        let limit = format_args!("max_substreams_per_chunk = {max_substreams}");
        let advice = "raise it, or set 0 for no limit";
        broken!(why, "blosc chunk of {streams} streams exceeds {limit}: {advice}");
    }
    let mut taken = header.streams_first();
    let blocksize = index(u64::from(header.blocksize));
    let keeps_filter = want.keeps_filter && header.filter() != BlockFilter::NONE;
    let blocks = target.chunks_mut(blocksize).enumerate();
    for (number, target) in blocks.take(limit.div_ceil(blocksize)).skip(first / blocksize) {
        let start = number * blocksize;
        let needed = first.saturating_sub(start)..(limit - start).min(target.len());
        let block = Block { bytes, header: &header, number: number as u32, keeps_filter };
        taken += decode_block(decoder, &block, needed, target, scratch, why)?;
        // Disjoint blocks cannot hold more than the chunk; overlapping ones would let a small
        // chunk ask for the same work many times.
        if taken > u64::from(header.cbytes) {
            broken!(why, "blosc blocks overlap before block {number}");
        }
    }
    if !keeps_filter {
        let bytes = &target[first..limit];
        return Ok(Filtered::plain(ChunkBytes { bytes, first: want.span.first }));
    }
    let (first, limit) = (first / blocksize * blocksize, limit.next_multiple_of(blocksize));
    let bytes = &target[first..limit.min(target.len())];
    Ok(Filtered { chunk: ChunkBytes { bytes, first: first as u64 }, filter: header.filter() })
}

/// A block of a chunk that is not memcpyed.
#[derive(Clone, Copy)]
struct Block<'a> {
    /// The chunk.
    bytes: &'a [u8],
    header: &'a Header,
    number: u32,
    /// Its filter is not undone.
    keeps_filter: bool,
}

/// Decodes a block into `target` (exactly `header.block_bytes(number)` long), at least its bytes
/// `needed`, and returns how many bytes of the chunk its streams take. `scratch` is at least as
/// long as the target.
fn decode_block(
    decoder: &mut Decoder,
    block: &Block<'_>,
    needed: Range<usize>,
    target: &mut [u8],
    scratch: &mut [u8],
    why: &mut Why,
) -> Result<u64, Status> {
    let Block { header, number, keeps_filter, .. } = *block;
    assert!(target.len() as u64 == u64::from(header.block_bytes(number)));
    let start = block.start(why)?;
    let shuffle = header.shuffle.of_block(header.typesize, target.len());
    let mut at = start;
    if keeps_filter || shuffle == Shuffle::None {
        for target in target.chunks_mut(block.stream_bytes()) {
            if let Some(stored) = block.read_stream(decoder, &mut at, target, why)? {
                target.copy_from_slice(stored);
            }
        }
        return Ok((at - start) as u64);
    }
    // A stream that is stored, as the lower bytes of floats often are, is used where it lies.
    let mut streams = ArrayVec::<&[u8], { SPLIT_TYPESIZE_MAX as usize }>::new();
    for scratch in scratch[..target.len()].chunks_mut(block.stream_bytes()) {
        let stored = block.read_stream(decoder, &mut at, scratch, why)?;
        streams.push(stored.unwrap_or(scratch));
    }
    let (first, target) = (needed.start, &mut target[needed]);
    match streams[..] {
        [whole] => unshuffle(shuffle, index(header.typesize.into()), whole, first, target),
        _ => unshuffle_planes(Level::here(), shuffle, &streams, first, target),
    }
    Ok((at - start) as u64)
}

impl<'a> Block<'a> {
    /// The offset of its first stream.
    fn start(&self, why: &mut Why) -> Result<usize, Status> {
        let Block { bytes, header, number, .. } = *self;
        assert!(!header.memcpyed);
        assert!(bytes.len() as u64 == u64::from(header.cbytes));
        let start = u32_at(bytes, HEADER_BYTES + 4 * index(u64::from(number)));
        let (first, limit) = (header.streams_first(), u64::from(header.cbytes));
        if !(first..limit).contains(&start.into()) {
            broken!(why, "blosc block {number} starts at {start}, outside [{first}, {limit})");
        }
        Ok(index(u64::from(start)))
    }

    /// Bytes that each of its streams decodes to.
    fn stream_bytes(&self) -> usize {
        let Block { header, number, .. } = *self;
        index(u64::from(header.block_bytes(number) / header.block_streams(number)))
    }

    /// The bytes of the stream at `at` in the chunk, after its size, which is checked.
    fn stream(&self, at: usize, why: &mut Why) -> Result<Range<usize>, Status> {
        let (Block { bytes, number, .. }, first) = (*self, at + size_of::<i32>());
        let Some(size) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
            broken!(why, "blosc block {number} lies at the end of its chunk");
        };
        let (size, left) = (i32::from_le_bytes(*size), bytes.len() - first);
        match usize::try_from(size) {
            Ok(stream) if 0 < stream && stream <= left => Ok(first..first + stream),
            _ => broken!(
                why,
                "blosc block {number} has a stream of {size} bytes where {left} are left"
            ),
        }
    }

    /// Decodes the stream at `at` in the chunk to all of `target`, and moves on behind it. One that
    /// is stored is given as it lies in the chunk, and the target left alone.
    fn read_stream(
        &self,
        decoder: &mut Decoder,
        at: &mut usize,
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<Option<&'a [u8]>, Status> {
        let range = self.stream(*at, why)?;
        *at = range.end;
        let stream = &self.bytes[range];
        if stream.len() == target.len() {
            return Ok(Some(stream));
        }
        let count = match self.header.compressor {
            Compressor::Blosclz => blosclz::decompress(stream, target, why),
            Compressor::Lz4 => lz4::block(stream, target, why),
            Compressor::Zlib => decoder.inflater.zlib(stream, target, why),
            Compressor::Zstd => decoder.zstd.decompress(stream, target, why),
        }?;
        expect_bytes(format_args!("blosc block {}", self.number), count, target.len(), why)?;
        Ok(None)
    }
}

/// Tells the sink of the streams of a chunk that hold the needed bytes, whole blocks of them, for a
/// decoder elsewhere. A chunk that [`decode_as`] refuses before it decompresses is refused.
pub(super) fn walk(chunk: &Walkable<'_>, sink: &mut dyn Sink) -> Result<Walked, Unfit> {
    let Walkable { bytes, chunk_bytes, span, max_substreams, .. } = *chunk;
    let (why, broken) = (&mut Why::new(), |_| Unfit::Broken);
    let header = header(bytes, why).map_err(broken)?;
    let streams = header.stream_count();
    let is_too_many = max_substreams != 0 && streams > u64::from(max_substreams);
    if u64::from(header.nbytes) != chunk_bytes || !header.memcpyed && is_too_many {
        return Err(Unfit::Broken);
    }
    if header.memcpyed {
        if !sink.begin(1) {
            return Err(Unfit::NoRoom);
        }
        let (first, limit) = (index(span.first), index(span.limit));
        let source = HEADER_BYTES + first..HEADER_BYTES + limit;
        let kind = Encoded::Stored;
        chunk.tell(StreamPlace { source, target: first..limit, kind }, sink);
        return Ok(Walked { span, filter: BlockFilter::NONE });
    }
    if !matches!(header.compressor, Compressor::Lz4 | Compressor::Zstd) {
        return Err(Unfit::Codec);
    }
    if streams > streams_max(chunk_bytes) {
        return Err(Unfit::Streams);
    }
    let size = u64::from(header.blocksize);
    let blocks = span.first / size..span.limit.div_ceil(size);
    let mut rows = (blocks.end - blocks.start) * u64::from(header.split_count);
    if header.compressor == Compressor::Zstd {
        rows = 0;
        each_stream(bytes, &header, blocks.clone(), |place| rows += place.rows())?;
        if rows > streams_max(chunk_bytes) {
            return Err(Unfit::Streams);
        }
    }
    if !sink.begin(rows) {
        return Err(Unfit::NoRoom);
    }
    each_stream(bytes, &header, blocks, |place| chunk.tell(place, sink))?;
    let first = span.first / size * size;
    let limit = span.limit.next_multiple_of(size).min(chunk_bytes);
    Ok(Walked { span: Span { first, limit }, filter: header.filter() })
}

/// Finds the streams of these blocks of a chunk.
fn each_stream(
    bytes: &[u8],
    header: &Header,
    blocks: Range<u64>,
    mut push: impl FnMut(StreamPlace),
) -> Result<(), Unfit> {
    let (why, broken) = (&mut Why::new(), |_| Unfit::Broken);
    let mut taken = header.streams_first();
    for number in blocks {
        let block = Block { bytes, header, number: number as u32, keeps_filter: true };
        let start = block.start(why).map_err(broken)?;
        let (mut at, step) = (start, block.stream_bytes());
        let first = index(number * u64::from(header.blocksize));
        let limit = first + index(u64::from(header.block_bytes(block.number)));
        for first in (first..limit).step_by(step) {
            let source = block.stream(at, why).map_err(broken)?;
            let target = first..limit.min(first + step);
            at = source.end;
            let kind = match header.compressor {
                _ if source.len() == target.len() => Encoded::Stored,
                Compressor::Zstd => encoded_frame(&bytes[source.clone()], target.len())?,
                _ => Encoded::Lz4,
            };
            push(StreamPlace { source, target, kind });
        }
        taken += (at - start) as u64;
        if taken > u64::from(header.cbytes) {
            return Err(Unfit::Broken);
        }
    }
    Ok(())
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|at| bytes[offset + at]))
}
