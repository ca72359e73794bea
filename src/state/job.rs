//! The kinds of work: who does them, and what one bounded piece of each is.

use crate::base::arena::Claim;
use crate::base::indexes::{ArraySlot, Lane, WaveIndex};
use crate::base::version::Version;
use crate::batch::pieces::Piece;
use crate::intake::parts::Slice;
use crate::read::{Lease, Looks, Question, Window};
use crate::state::State;
use crate::state::resampling::ResamplePiece;
use crate::state::scratch::Hold;
use crate::state::slab_writer::SlabWriter;
use crate::wave::ReadOp;

/// Decoded bytes that are handed out at a time: enough to make the lock and the look at the file
/// cheap (uncompressed chunks gain 5 % over 256 KiB), little enough to share a wave evenly.
pub const RUN_BYTES: u64 = 1 << 20;

/// The jobs that a worker may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Plan, read what is in the page cache, decode. Never waits for storage.
    Decode,
    /// Wait for storage.
    Io,
    /// Everything, on a thread of the host's.
    Both,
    /// Submit to the device and look what is done.
    Device,
    /// Plan, read and decode the boxes of callers, on the thread of one.
    Reader,
}

impl Role {
    /// Whether it takes work of a lane.
    pub fn takes(self, lane: Lane) -> bool {
        self != Role::Reader || lane == Lane::Readers
    }
}

impl Job {
    /// The lane whose memory the job may write to; None if it writes to that of none.
    pub fn lane(&self, state: &State) -> Option<Lane> {
        match self {
            Job::Stream { wave, .. } | Job::Assemble { wave, .. } => Some(state.waves.lane(*wave)),
            Job::Resample { .. } | Job::Finish { .. } => Some(Lane::Samples),
            _ => None,
        }
    }
}

/// One bounded piece of work, and the memory that is its own.
#[derive(Debug)]
pub enum Job {
    /// Run the planner of a lane.
    Plan(Lane),
    /// Load the metadata of an array.
    LoadArray {
        /// Slot of the array.
        array: ArraySlot,
        /// The part of the common scratch that is ours, for a large document.
        large: Option<Hold>,
    },
    /// Read the headers of some files of an array.
    LoadParts(Slice),
    /// Look at the paths of files.
    Look(Looks),
    /// Look whether the document of an array, its file or its folder is what it was.
    LookArray {
        /// Slot of the array.
        array: ArraySlot,
        /// The version that was read.
        version: Version,
    },
    /// Answer an index lookup.
    Locate {
        /// The lookup.
        request: u32,
        /// Its question.
        question: Question,
        /// The file.
        lease: Lease,
        /// The part of the common scratch that is ours, for a large index.
        large: Option<Hold>,
    },
    /// Read chunk data.
    Read {
        /// Wave of the read.
        wave: WaveIndex,
        /// Its number in the wave.
        op: u32,
        /// The read.
        read: ReadOp,
        /// The target of its bytes.
        target: Claim<'static>,
        /// The file.
        lease: Lease,
        /// Do not wait for storage.
        cached_only: bool,
        /// Let the host begin it, and complete it by this ticket.
        ticket: Option<u64>,
    },
    /// Ask the host for a chunk.
    Ask {
        /// Wave of the read.
        wave: WaveIndex,
        /// Its number in the wave.
        op: u32,
        /// The read.
        read: ReadOp,
        /// The target of its bytes.
        target: Claim<'static>,
    },
    /// Read small chunks, and decode and assemble each as soon as it is read.
    Stream {
        /// Wave of the reads.
        wave: WaveIndex,
        /// First read, by file and offset.
        first: u32,
        /// Number of reads, all of one file.
        count: u32,
        /// When they could begin.
        staged_ns: u64,
        /// The file.
        lease: Lease,
        /// The part of it that is mapped.
        window: Option<Window>,
        /// The part of a slab for its chunks, on their way to a device.
        slab: Option<SlabWriter>,
    },
    /// Decode and assemble chunks of one batch and one array.
    Assemble {
        /// Wave of the chunks.
        wave: WaveIndex,
        /// First chunk.
        first: u32,
        /// Number of chunks.
        count: u32,
        /// When their reads could begin.
        staged_ns: u64,
        /// The part of the common scratch that is ours, for a large chunk.
        large: Option<Hold>,
        /// The part of a slab for them, on their way to a device.
        slab: Option<SlabWriter>,
    },
    /// Resample a piece of a box.
    Resample {
        /// The piece.
        piece: ResamplePiece,
        /// The part of a slab for its places, on their way to a device.
        slab: Option<SlabWriter>,
    },
    /// Do a piece of a pass over a full batch.
    Finish {
        /// The piece.
        piece: Piece,
        /// The part of a slab for its work, on its way to a device.
        slab: Option<SlabWriter>,
    },
    /// Submit to the device and look what is done.
    Device,
}
