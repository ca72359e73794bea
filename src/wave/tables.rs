//! The tables of all waves: what the planner writes and workers read, without the lock.

use crate::base::arena::{Carver, Region, Table};
use crate::base::bill::Item;
use crate::base::indexes::{LANES, Lane, WaveIndex};
use crate::wave::{ChunkTask, ReadOp};

/// How many waves each lane has, those of samples first, and of what each has how much.
#[derive(Clone, Copy, Debug)]
pub struct WaveCounts {
    pub waves: [u32; LANES],
    /// Chunk tasks of a wave, and so many reads at most.
    pub chunks: [u32; LANES],
    /// Boxes of all its chunk tasks together.
    pub pairs: [u32; LANES],
}

impl WaveCounts {
    /// Waves of all lanes.
    pub fn all(&self) -> u32 {
        self.waves.iter().sum()
    }

    /// The lane of a wave.
    pub fn lane(&self, wave: WaveIndex) -> Lane {
        if wave.0 < self.waves[0] { Lane::Samples } else { Lane::Readers }
    }

    /// Rows of a table that has so many for each wave of a lane.
    pub fn rows(&self, each: [u32; LANES]) -> u64 {
        self.waves.iter().zip(each).map(|(waves, each)| u64::from(*waves) * u64::from(each)).sum()
    }

    /// The first row of a wave in such a table.
    fn first(&self, wave: WaveIndex, each: [u32; LANES]) -> usize {
        let (of_samples, wave) = (self.waves[0].min(wave.0), wave.0);
        (of_samples * each[0] + (wave - of_samples) * each[1]) as usize
    }

    /// Row of a chunk task, a read, or a position in their order.
    pub fn row(&self, wave: WaveIndex, position: u32) -> usize {
        self.first(wave, self.chunks) + position as usize
    }

    /// The wave and the position of a row.
    pub fn wave_and_position(&self, row: u32) -> (WaveIndex, u32) {
        let of_samples = self.waves[0] * self.chunks[0];
        match row.checked_sub(of_samples) {
            None => (WaveIndex(row / self.chunks[0]), row % self.chunks[0]),
            Some(row) => (WaveIndex(self.waves[0] + row / self.chunks[1]), row % self.chunks[1]),
        }
    }
}

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
