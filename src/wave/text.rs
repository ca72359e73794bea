//! The work of the planner as text: a line for each read of a wave.
//!
//! `log_level` TRACE logs these lines, and tests compare them.

use crate::base::indexes::WaveIndex;
use crate::wave::{ChunkKind, ChunkTask, ReadOp, WaveTables, Way};
use core::fmt;

/// A read of a wave, with its chunks.
pub struct ReadText<'a> {
    /// The wave.
    pub wave: WaveIndex,
    /// The number of the read in it.
    pub number: u32,
    /// The read.
    pub read: ReadOp,
    /// Its chunks.
    pub chunks: &'a [ChunkTask],
    /// The tables that have the wave.
    pub tables: &'a WaveTables,
}

impl fmt::Display for ReadText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadOp { array_id, file, offset, bytes, .. } = self.read;
        write!(f, "wave {}, read {}: ", self.wave.0, self.number)?;
        match bytes {
            0 => f.write_str("no bytes")?,
            _ => write!(f, "array {array_id}, file {file}, bytes {offset} to {}", offset + bytes)?,
        }
        for task in self.chunks {
            let (what, by) = match (task.kind, task.way) {
                (ChunkKind::Data, Way::Worker | Way::Refused) => ("chunk", ""),
                (ChunkKind::Data, Way::Device | Way::Late { .. }) => ("chunk", " on the device"),
                (ChunkKind::Kept, _) => ("cached chunk", ""),
                (ChunkKind::Missing, _) => ("missing chunk", ""),
                (ChunkKind::Fed, _) => ("fed chunk", ""),
                (ChunkKind::Pad, _) => ("outside", ""),
                (ChunkKind::Blank, _) => ("places without a box", ""),
                (ChunkKind::Broken, _) => ("failed chunk", ""),
            };
            write!(f, "; {what}")?;
            if !matches!(task.kind, ChunkKind::Pad | ChunkKind::Blank) {
                write!(f, " {}", task.chunk)?;
            }
            f.write_str(by)?;
            for pair in task.pair_first..task.pair_first + task.pair_count {
                let number = self.tables.pairs.read(self.tables.pair_row(self.wave, pair));
                write!(f, ", box {number} of slot {}", task.slot.0)?;
            }
        }
        Ok(())
    }
}
