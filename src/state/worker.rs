//! What one worker works with: scratch, a buffer, a decoder.
//!
//! One thread at a time has a worker; all of it lies in the arena.

use crate::base::arena::Region;
use crate::decode::Decoder;

/// What a worker works with; one thread at a time has it.
pub struct Worker {
    /// None for workers that only read.
    pub decoder: Option<Decoder>,
    /// Place for an encoded chunk of ordinary size that is decoded as soon as it is read.
    pub staging: Region,
    /// Place for a decoded chunk of ordinary size.
    pub target: Region,
    /// Place for a block before its filter is undone.
    pub block: Region,
    /// Buffer for metadata and index pieces.
    pub buffer: Region,
}
