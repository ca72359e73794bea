//! Arrays that lie in many files along their first axis, each with as many rows as it has.
//!
//! In: the files, in order. Out: a grid whose cells along that axis are the files that have rows.

use super::ArrayRecord;
use super::grid::{AxisGrid, EdgeRun};
use crate::base::version::Version;

/// Most digits of the number of a file.
pub const PART_DIGITS_MAX: u32 = 10;

/// A file of such an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its number, which its name ends with.
    pub number: u32,
    /// First byte of its first element.
    pub offset: u64,
    /// The version of the file whose header was read.
    pub version: Version,
}

impl Part {
    /// None of them.
    pub const EMPTY: Part = Part { number: 0, offset: 0, version: Version::NONE };
}

impl ArrayRecord {
    /// Whether it lies in numbered files.
    pub fn is_in_parts(&self) -> bool {
        self.part_digits > 0
    }

    /// Makes the record of the first file that of the array, whose files `parts` and `runs` are:
    /// each has its number of rows in `limit`. Files without rows go. Chunks have at most `bytes`.
    pub fn join_parts(
        &mut self,
        parts: &'static mut [Part],
        runs: &'static mut [EdgeRun],
        bytes: u64,
    ) {
        let (mut cells, mut rows, mut most, mut least) = (0, 0u64, 0, u64::MAX);
        for number in 0..parts.len() {
            let extent = runs[number].limit;
            if extent == 0 {
                continue;
            }
            // Rows that have a byte fit, whatever others are said to be.
            rows = rows.saturating_add(extent);
            (most, least) = (extent.max(most), extent.min(least));
            parts[cells] = parts[number];
            runs[cells] = EdgeRun { limit: rows, cell_limit: cells as u64 + 1 };
            cells += 1;
        }
        let (first, cells_count) = (0, cells as u64);
        self.shape[0] = rows;
        self.flat_version = None;
        if cells == 0 {
            return;
        }
        self.cut_file(most, bytes);
        self.shard_shape[0][0] = most;
        self.file_grid[0] =
            AxisGrid::Edges { first, count: cells as u32, cells: cells_count, edge_min: least };
        (self.parts, self.edges) = (&parts[..cells], &runs[..cells]);
    }

    /// Strides of a file of `rows` rows, and what a chunk of it has of them.
    pub(super) fn give_rows(&mut self, rows: u64) {
        let extents =
            self.by_axis(&self.shape, |axis| if axis == 0 { rows } else { self.shape[axis] });
        self.lay_out(&extents);
        self.chunk_shape[0] = self.chunk_shape[0].min(rows);
        self.shard_shape[0][0] = rows;
        let chunk = &self.chunk_shape[..self.axes()];
        self.chunk_bytes = chunk.iter().product::<u64>() * u64::from(self.dtype_bytes);
    }
}
