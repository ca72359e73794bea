//! The contents of waves: chunk tasks, and the reads that bring their bytes.

use crate::base::indexes::{ArraySlot, BatchSlot};
use crate::os::FileStat;
use crate::records::Need;

/// The kind of a chunk task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// Read, decode, scatter.
    Data,
    /// Cached: scatter.
    Kept,
    /// The chunk does not exist: scatter the fill value.
    Missing,
    /// A part of one box's tensor: scatter.
    Fed,
    /// Not a chunk: fill what lies outside the array in one sample.
    Pad,
    /// Not a chunk: fill the places of one field of one sample that no box fills. `file` is the
    /// field, `chunk` the first of at most BLANKS_MAX blocks.
    Blank,
    /// Its read failed and was reported: nothing left to do.
    Broken,
}

/// A chunk's place in the cache of decoded chunks, pinned by its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Slot in the cache.
    pub slot: u32,
    /// First byte in the cache's memory.
    pub offset: u64,
}

/// One chunk of one batch.
#[derive(Clone, Copy, Debug)]
pub struct ChunkTask {
    /// The work to do.
    pub kind: ChunkKind,
    /// Batch slot.
    pub slot: BatchSlot,
    /// Slot of the array's metadata, pinned by the task.
    pub array: ArraySlot,
    /// Number of the file in the file grid.
    pub file: u64,
    /// Number of the chunk in the file.
    pub chunk: u64,
    /// Number of the chunk in the plan of its batch.
    pub number: u64,
    /// Tasks right after it, of the same read, that are the same chunk for other batches.
    pub mates: u32,
    /// First of its boxes in the pairs of the wave.
    pub pair_first: u32,
    /// Number of boxes that touch it.
    pub pair_count: u32,
    /// Bytes of the decoded chunk to decode: the bytes that its samples read, or all that is
    /// cached.
    pub need: Need,
    /// Its place in the cache, if it is cached or is to be.
    pub kept: Option<Kept>,
    /// First byte to read in the file.
    pub offset: u64,
    /// Bytes to read: the encoded chunk, or exactly `need` if the array is read partly. For a
    /// tensor the bytes of its elements.
    pub bytes: u64,
    /// Their place in the slab, if they are staged in it.
    pub slab_offset: u64,
    /// The one that decodes it.
    pub way: Way,
    /// Its boxes have a map: it goes to their voxels, in memory of the host.
    pub is_resampled: bool,
}

/// The one that decodes a chunk, a worker or a device, and how far a device is.
///
/// ```text
/// Device ─▶ Late ─┐ once more: the numbers of its streams
///   │       │ ▲───┘
///   └───────┴─▶ Refused ─▶ Worker
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A worker.
    Worker,
    /// A device; nobody began.
    Device,
    /// It is on its way to a device, with these streams: rows of its slab, and, once that was
    /// submitted, numbers in its resident wave.
    Late {
        /// The first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// A device did not take it: a worker is to.
    Refused,
}

impl Way {
    /// Whether a chunk goes from this on to `to`.
    pub fn leads_to(self, to: Way) -> bool {
        match to {
            Way::Device => false,
            Way::Late { .. } => matches!(self, Way::Device | Way::Late { .. }),
            Way::Refused => matches!(self, Way::Device | Way::Late { .. }),
            Way::Worker => self == Way::Refused,
        }
    }
}

impl ChunkTask {
    /// The same task, which went on to `way`.
    pub fn gone_to(self, way: Way) -> ChunkTask {
        debug_assert!(self.way.leads_to(way));
        ChunkTask { way, ..self }
    }

    /// Whether a device is to decode it.
    pub fn is_for_device(&self) -> bool {
        // A library that was made for the host alone has none, nor the code for it.
        cfg!(not(wavetrain_host_only)) && self.way == Way::Device && self.kind == ChunkKind::Data
    }

    /// Its cost, for sharing work out: the bytes, at least a page's worth.
    pub fn cost(&self) -> u64 {
        let bytes = if self.kind == ChunkKind::Fed { self.bytes } else { self.need_bytes() };
        bytes.max(4096)
    }

    /// Bytes of the decoded chunk that its samples read; 0 if it has none.
    pub fn need_bytes(&self) -> u64 {
        if self.kind == ChunkKind::Data { self.need.span.bytes() } else { 0 }
    }

    pub(super) const EMPTY: ChunkTask = ChunkTask {
        kind: ChunkKind::Missing,
        slot: BatchSlot(0),
        array: ArraySlot(0),
        file: 0,
        chunk: 0,
        number: 0,
        mates: 0,
        pair_first: 0,
        pair_count: 0,
        need: Need::NONE,
        kept: None,
        offset: 0,
        bytes: 0,
        slab_offset: 0,
        way: Way::Worker,
        is_resampled: false,
    };
}

/// One read and the chunks that it serves; or, with no bytes, chunks that need none.
#[derive(Clone, Copy, Debug)]
pub struct ReadOp {
    /// Slot of the array's metadata.
    pub array: ArraySlot,
    /// Identity of the array.
    pub array_id: u64,
    /// Number of the file in the file grid.
    pub file: u64,
    /// The state of the file when the chunks were located.
    pub stat: FileStat,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes; 0: nothing to read.
    pub bytes: u64,
    /// Their place in the slab.
    pub slab_offset: u64,
    /// It is one chunk that is copied out of a mapping, or read in pieces by a thread that decodes:
    /// it has no place in the slab.
    pub is_mapped: bool,
    /// First of its chunks in the wave.
    pub chunk_first: u32,
    /// Number of its chunks.
    pub chunk_count: u32,
    /// The cost of decoding its chunks, in bytes.
    pub decoded_bytes: u64,
}

impl ReadOp {
    /// A read of nothing.
    pub const EMPTY: ReadOp = ReadOp {
        array: ArraySlot(0),
        array_id: 0,
        file: 0,
        stat: FileStat::of_bytes(0),
        offset: 0,
        bytes: 0,
        slab_offset: 0,
        is_mapped: false,
        chunk_first: 0,
        chunk_count: 0,
        decoded_bytes: 0,
    };
}
