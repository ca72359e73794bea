//! The memory bill of a loader: how many bytes of which memory are for what.
//!
//! In: each piece that a layout takes. Out: lines, in the order of the layout.

use crate::base::text::part_of;
use arrayvec::ArrayVec;
use core::fmt;

/// Which memory a line of the bill counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ordinary host memory.
    Host,
    /// Page-locked host memory, for copies to a device.
    Pinned,
    /// Device memory.
    Device,
    /// Host memory that processes share.
    Shared,
}

impl Kind {
    /// Its name in texts.
    pub fn name(self) -> &'static str {
        part_of("host,pinned,device,shared", ',', self as usize)
    }
}

macro_rules! items {
    ($($item:ident $name:literal)+) => {
        /// What bytes are for. Shown by its name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Item {
            $(#[doc = $name] $item,)+
        }

        const NAMES: &str = concat!($($name, ",",)+);
    };
}

items! {
    Instance "instance"
    Workers "workers"
    ThreadStacks "thread stacks"
    DecodeScratch "decode scratch"
    Decoders "decoders"
    IoBuffers "io buffers"
    BatchSlots "batch slots"
    BatchStates "batch states"
    TensorRecords "tensor records"
    SampleQueue "sample queue"
    Augmentation "augmentation"
    Resampling "resampling"
    IndexLists "index lists"
    Uris "uris"
    ArrayMetadata "array metadata"
    PartTable "part table"
    FileLayouts "file layouts"
    IndexPages "index pages"
    IndexLookups "index lookups"
    PlanWindow "plan window"
    Waves "waves"
    StagingSlabs "staging slabs"
    PinnedSlabs "pinned slabs"
    CommonScratch "common scratch"
    ReadsInFlight "reads in flight"
    ChunkCache "chunk cache"
    ChunkCacheTables "chunk cache tables"
    DeviceWaves "device waves"
    ResidentWaves "resident waves"
    DecodedWaves "decoded waves"
    Trace "trace"
    Rounding "rounding"
}

/// Most lines of a bill.
pub const LINES_MAX: usize = 32;

const _: () = assert!((Item::Rounding as usize) < LINES_MAX);

impl Item {
    /// Its name.
    pub fn name(self) -> &'static str {
        part_of(NAMES, ',', self as usize)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of the bill.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// What the bytes are for.
    pub item: Item,
    /// Where they lie.
    pub kind: Kind,
    /// How many, padding for alignment included.
    pub bytes: u64,
}

/// The lines. Of an item and a kind there is one.
#[derive(Clone, Debug, Default)]
pub struct Bill {
    lines: ArrayVec<Line, LINES_MAX>,
}

impl Bill {
    /// The lines, in the order of the layout.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Sum of the lines of one kind.
    #[inline(never)]
    pub fn total(&self, kind: Kind) -> u64 {
        self.lines.iter().filter(|line| line.kind == kind).map(|line| line.bytes).sum()
    }

    /// Moves bytes of the host from one line to another.
    pub fn shift(&mut self, from: Item, to: Item, bytes: u64) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.item == from && bytes > 0) {
            line.bytes -= bytes;
            self.add(to, Kind::Host, bytes);
        }
    }

    /// Adds bytes to the line of that item and kind.
    pub fn add(&mut self, item: Item, kind: Kind, bytes: u64) {
        match self.lines.iter_mut().find(|line| line.item == item && line.kind == kind) {
            Some(line) => line.bytes += bytes,
            None => self.lines.push(Line { item, kind, bytes }),
        }
    }
}
