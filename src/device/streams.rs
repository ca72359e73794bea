//! Streams: encoded bytes of a wave that a warp of the device decodes, each on its own.
//!
//! In: where a stream lies and what it becomes. Out: the record that kernels/streams.cuh reads, and
//! what its word of status says; the records of a zstd frame's blocks (kernels/zstd.cuh), which are
//! as large. Invariant: a record is plain numbers without gaps, 32 bytes; the
//! device checks each before it touches anything, and an extent that is wrong is refused.

// What the kernel says and takes, of which a loader uses a part, and tests the whole.
#![cfg_attr(not(feature = "internals"), allow(dead_code))]

use crate::base::limits::SCRATCH_UNIT;

/// The record of a stream, or of a block of a zstd frame.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stream {
    /// Place of its first encoded byte in the wave; of a frame, the number of its first block.
    pub source: u64,
    /// Place of its first decoded byte in the arena; of a block, four u16: how many blocks before
    /// it those lie that describe its tree and its tables.
    pub target: u64,
    /// Encoded bytes, at most BYTES_MAX; of a frame, the number of its blocks.
    pub source_bytes: u32,
    /// Decoded bytes, at most BYTES_MAX: exactly as many must come out. Of a compressed block the
    /// bytes of its scratch.
    pub target_bytes: u32,
    /// A [`StreamKind`], or of a block its kind.
    pub kind: u32,
    /// Of a block, the place of its scratch, in units of SCRATCH_UNIT. Of a frame, the most bytes
    /// that one of its blocks becomes.
    pub scratch: u32,
}

const _: () = assert!(size_of::<Stream>() == Stream::BYTES as usize);

impl Stream {
    /// Bytes of a record, whose place in a wave is a multiple of 16.
    pub const BYTES: u64 = 32;

    /// The most bytes that a stream has, encoded or decoded; an LZ4 block has less.
    pub const BYTES_MAX: u32 = i32::MAX as u32;

    /// Streams that a block of threads takes: a warp for each.
    pub const IN_BLOCK: u32 = 8;

    /// Blocks of frames that one warp takes.
    pub const BLOCKS_IN_WARP: u32 = 8;

    /// Bytes that scratch memory is given out in.
    pub const SCRATCH_UNIT: u64 = SCRATCH_UNIT;

    /// The bytes of the record.
    pub fn to_bytes(self) -> [u8; Stream::BYTES as usize] {
        let mut bytes = [0; Stream::BYTES as usize];
        let words = [self.source_bytes, self.target_bytes, self.kind, self.scratch];
        bytes[..8].copy_from_slice(&self.source.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.target.to_ne_bytes());
        for (place, word) in bytes[16..].as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }
}

/// What is to be done with a stream.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    /// Nothing: it counts as decoded.
    Nothing = 0,
    /// Its bytes are copied as they are.
    Copy = 1,
    /// It is an LZ4 block.
    Lz4 = 2,
    /// It is a zstd frame.
    Zstd = 3,
}

impl StreamKind {
    /// None of them: the device refuses it.
    pub const NONE: u32 = u32::MAX;
}

/// What the device says of a stream. The host clears the word before: 0 means that no kernel came
/// to it.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamStatus {
    /// Every byte of the target is written. All others are refusals: the target holds anything.
    Decoded = 1,
    /// No such kind.
    Kind = 2,
    /// The source does not lie in the wave, or the target not in the arena, or one is too large.
    Outside = 3,
    /// The block ends in the middle of a sequence.
    Cut = 4,
    /// A match before the first byte of the target, or at its own place.
    Offset = 5,
    /// It holds more than the target.
    TooLong = 6,
    /// It holds less.
    TooShort = 7,
    /// A block of a frame has no sections, a table is none, or bits end elsewhere.
    Broken = 8,
}
