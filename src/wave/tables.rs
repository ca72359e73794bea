//! The tables of all waves: what the planner writes and workers read, without the lock.

use crate::base::arena::{Carver, Region, Table};
use crate::base::bill::Item;
use crate::base::indexes::{WaveCounts, WaveIndex};
use crate::wave::{ChunkTask, ReadOp};

/// The tables of all waves, one after the other.
pub struct WaveTables {
    /// Chunk tasks; those of a read are neighbours.
    pub chunks: Table<ChunkTask>,
    /// Reads, by file and offset.
    pub ops: Table<ReadOp>,
    /// Reads in the order of issue: alternating across files.
    pub order: Table<u32>,
    /// Boxes of the chunk tasks, by number in their batch.
    pub pairs: Table<u32>,
    /// The staging memory.
    pub slab: Region,
    pub counts: WaveCounts,
}

impl WaveTables {
    /// Tables for so many waves.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, counts: WaveCounts, slab: Region) -> WaveTables {
        let rows = counts.rows(counts.chunks);
        WaveTables {
            chunks: carver.table(Item::Waves, rows, &ChunkTask::EMPTY),
            ops: carver.table(Item::Waves, rows, &ReadOp::EMPTY),
            order: carver.table(Item::Waves, rows, &0),
            pairs: carver.table(Item::Waves, counts.rows(counts.pairs), &0),
            slab,
            counts,
        }
    }

    /// Row of a pair of a wave.
    pub fn pair_row(&self, wave: WaveIndex, pair: u32) -> usize {
        self.counts.first(wave, self.counts.pairs) + pair as usize
    }
}
