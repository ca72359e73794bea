//! The tables of all waves: what the planner writes and workers read, without the lock.

use crate::base::arena::{Carver, Region, Table};
use crate::base::bill::Item;
use crate::base::indexes::WaveIndex;
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
    /// Rows of each wave in `pairs`.
    pub pairs_per_wave: u32,
}

impl WaveTables {
    /// Tables for `count` waves.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        count: u32,
        chunks_per_wave: u32,
        pairs_per_wave: u32,
        slab: Region,
    ) -> WaveTables {
        let rows = count as u64 * chunks_per_wave as u64;
        WaveTables {
            chunks: carver.table(Item::Waves, rows, &ChunkTask::EMPTY),
            ops: carver.table(Item::Waves, rows, &ReadOp::EMPTY),
            order: carver.table(Item::Waves, rows, &0),
            pairs: carver.table(Item::Waves, count as u64 * pairs_per_wave as u64, &0),
            slab,
            pairs_per_wave,
        }
    }

    /// Row of a pair of a wave.
    pub fn pair_row(&self, wave: WaveIndex, pair: u32) -> usize {
        wave.at() * self.pairs_per_wave as usize + pair as usize
    }
}
