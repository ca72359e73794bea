//! Streams: encoded bytes of a wave that a warp of the device decodes, each on its own.
//!
//! In: where a stream lies and what it becomes. Out: the record that kernels/streams.cuh reads, and
//! what its word of status says. Invariant: a record is plain numbers without gaps, 32 bytes; the
//! device checks each before it touches anything, and an extent that is wrong is refused.

// What the kernel says and takes, of which a loader uses a part, and tests the whole.
#![cfg_attr(not(feature = "internals"), allow(dead_code))]

/// The record of a stream.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stream {
    /// Place of its first encoded byte in the wave.
    pub source: u64,
    /// Place of its first decoded byte in the arena.
    pub target: u64,
    /// Encoded bytes, at most BYTES_MAX.
    pub source_bytes: u32,
    /// Decoded bytes, at most BYTES_MAX: exactly as many must come out.
    pub target_bytes: u32,
    /// A [`StreamKind`].
    pub kind: u32,
    /// Nobody reads it.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Stream>() == Stream::BYTES as usize);

impl Stream {
    /// Bytes of a record, whose place in a wave is a multiple of 16.
    pub const BYTES: u64 = 32;

    /// The most bytes that a stream has, encoded or decoded; an LZ4 block has less.
    pub const BYTES_MAX: u32 = i32::MAX as u32;

    /// Streams that a block of the kernel takes: a warp for each.
    pub const IN_BLOCK: u32 = 8;

    /// The bytes of the record.
    pub fn to_bytes(self) -> [u8; Stream::BYTES as usize] {
        let mut bytes = [0; Stream::BYTES as usize];
        let words = [self.source_bytes, self.target_bytes, self.kind, self.reserved];
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
}
