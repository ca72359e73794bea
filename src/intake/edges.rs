//! The runs of rectilinear grids: rows that arrays take as they are loaded. Most arrays need none,
//! and few need as many as an array may have.

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::limits::EDGE_RUNS_MAX;
use crate::intake::rows::RowRanges;
use crate::records::grid::EdgeRun;

/// Runs for each array that is cached: of a daily axis in monthly chunks nineteen years.
const RUNS_EACH: u32 = 192;

/// See the module.
pub struct EdgeTable {
    /// The runs; written while an array is loaded, read while it is pinned.
    pub runs: Table<EdgeRun>,
    /// Whose they are.
    pub rows: RowRanges,
}

impl EdgeTable {
    /// A table for a cache of `arrays` arrays, and for one array that has as many as there may be.
    pub fn carve(carver: &mut Carver, arrays: u32) -> EdgeTable {
        let (item, rows) = (Item::ArrayMetadata, (arrays * RUNS_EACH).max(EDGE_RUNS_MAX as u32));
        EdgeTable {
            runs: carver.table(item, u64::from(rows), &EdgeRun::EMPTY),
            rows: RowRanges::carve(carver, item, rows, arrays),
        }
    }
}
