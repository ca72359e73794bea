//! What one worker works with: scratch, a buffer, a decoder.
//!
//! One thread at a time has a worker; all of it lies in the arena.

use crate::base::limits::METADATA_SMALL_BYTES;
use crate::base::math::index;
use crate::decode::{Decoder, Scratch};
use crate::state::scratch::Hold;

/// What a worker works with; one thread at a time has it.
pub struct Worker {
    /// Place for an encoded chunk of ordinary size that is decoded as soon as it is read.
    pub staging: &'static mut [u8],
    /// What chunks are decoded with.
    pub context: DecodeContext,
    /// Buffer for metadata and index pieces of a worker that only reads.
    pub own_buffer: &'static mut [u8],
}

/// What chunks are decoded with.
pub struct DecodeContext {
    /// None for workers that only read.
    pub decoder: Option<Decoder>,
    /// Place for a decoded chunk of ordinary size.
    pub target: &'static mut [u8],
    /// Place for a block before its filter is undone.
    pub block: &'static mut [u8],
    /// Common scratch, while a large chunk is decoded.
    pub large: Option<Hold>,
    /// When the worker's last decode ended; 0: none did since its thread slept.
    pub decoded_ns: u64,
}

impl Worker {
    /// Buffer for metadata and index pieces. A worker that decodes looks files up in pump mode
    /// only, and never while it decodes.
    pub fn buffer(&mut self) -> &mut [u8] {
        match self.own_buffer {
            [] => &mut self.staging[..METADATA_SMALL_BYTES],
            _ => self.own_buffer,
        }
    }
}

impl DecodeContext {
    /// The decoder, and the places for a chunk and a block: of common scratch, so many bytes of it,
    /// where the worker's own do not suffice.
    pub fn parts(
        &mut self,
        (target_bytes, block_bytes): (u64, u64),
    ) -> (Option<&mut Decoder>, Scratch<'_>) {
        let mut scratch = Scratch { target: self.target, block: self.block };
        if let Some(large) = &mut self.large {
            let (target, rest) = large.claim.bytes().split_at_mut(index(target_bytes));
            if target_bytes > 0 {
                scratch.target = target;
            }
            if block_bytes > 0 {
                scratch.block = &mut rest[..index(block_bytes)];
            }
        }
        (self.decoder.as_mut(), scratch)
    }
}
