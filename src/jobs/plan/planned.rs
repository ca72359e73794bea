//! A chunk of the window: what it is for, and how far it is.
//!
//! Words for chunks that are one and the same, here and in waves:
//!
//! twin    the next window entry with the same chunk, for a later batch
//! mates   the tasks right behind a task that are of its chunk and its read: twins in one wave
//! kept    the chunk lies in the chunk cache, or one task decodes it to there
//! owner   the window entry of that task

use crate::base::indexes::{ArraySlot, BatchSlot};
use crate::base::version::Version;
use crate::os::FileStat;
use crate::plan::Cursor;
use crate::records::Need;
use crate::wave::Kept;

/// The question about a chunk, until it goes to a wave.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Not looked up yet.
    New,
    /// Waits for an index lookup.
    Waiting(u32),
    /// It is settled.
    Known(Settled),
    /// Failed and was reported, or went to a wave before its turn.
    Gone,
}

/// The answer: how a chunk gets to its samples.
#[derive(Clone, Copy, Debug)]
pub enum Settled {
    /// Its bytes in its file.
    Data { offset: u64, bytes: u64, stat: FileStat },
    /// It is cached, or is being decoded for the cache.
    Kept,
    /// Does not exist.
    Missing,
    /// It failed and was reported.
    Broken,
    /// Lies in what is fed of a box.
    Fed,
    /// Is the outside of a box.
    Pad,
    /// Is what no box covers of a field, from block number `chunk` on.
    Blank,
}

#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub place: Place,
    pub slot: BatchSlot,
    pub array: ArraySlot,
    pub array_id: u64,
    pub turn: u64,
    pub file: u64,
    pub chunk: u64,
    pub number: u64,
    /// Bytes of the decoded chunk to decode.
    pub need: Need,
    /// Several batches that need the chunk decode it once.
    pub is_shared: bool,
    /// Number of the next window entry with the same chunk, if it is known; 0: none.
    pub twin: u64,
    /// Count of the attempt to form a wave that took it last.
    pub taken: u64,
    /// Its place in the cache of decoded chunks, pinned.
    pub kept: Option<Kept>,
    /// The version of its file, once its place is known.
    pub version: Option<Version>,
    /// Number of the first sample of its batch.
    pub sample_first: u64,
    /// Number of the first sample after its batch.
    pub sample_limit: u64,
    pub pair_first: u64,
    pub pair_count: u32,
}

impl Planned {
    /// Its file and its batch; files differ most.
    pub fn file_and_batch(&self) -> (u64, u64, u64) {
        (self.file, self.array_id, self.turn)
    }
}

/// The file and version that an entry was read of, if they are known.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// That of [`Planned::file_and_batch`].
    pub of: (u64, u64, u64),
    pub version: Option<Version>,
}

impl Left {
    /// Nothing left the window yet.
    pub const NONE: Left = Left { of: (0, 0, 0), version: None };

    /// The file and version of an entry.
    pub fn of(entry: &Planned) -> Left {
        Left { of: entry.file_and_batch(), version: entry.version }
    }
}

/// How far the scout is.
#[derive(Clone, Copy, Debug)]
pub struct Scouted {
    /// Number of the next sample to look at.
    pub sample: u64,
    /// Box of that sample.
    pub number: u32,
    /// The place in that box, and the array.
    pub cursor: Option<(u64, Cursor)>,
}

impl Scouted {
    /// Nothing was looked at.
    pub const NONE: Scouted = Scouted { sample: 0, number: 0, cursor: None };
}
