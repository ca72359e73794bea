//! The table of files of arrays that lie in many: rows that arrays take when they are loaded.
//!
//! One such array is loaded at a time, by many workers, each of which reads the headers of some of
//! its files. Rows are given up with the array that has them.
//!
//! In: numbers of files. Out: ranges of rows; slices of work. Invariant: rows of a range are
//! written by those who load its array, and read once it is Ready.

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::indexes::ArraySlot;
use crate::base::status::{Status, Why};
use crate::intake::rows::{IsNeeded, RowRanges};
use crate::records::Part;
use crate::records::grid::EdgeRun;

/// Files of one slice: enough to make the lock cheap, few enough to share them out.
const SLICE_PARTS: u32 = 256;

/// Most arrays that have rows at a time, where there are as many rows.
const ARRAYS_MAX: u32 = 1024;

/// An array that is being loaded.
#[derive(Clone, Copy, Debug)]
struct Loading {
    array: ArraySlot,
    first: u32,
    count: u32,
    /// Files that nobody took yet begin here.
    next: u32,
    /// Slices that somebody works at.
    running: u32,
    /// The first file that cannot be read, and why.
    failed: Option<(u32, Status, Why)>,
}

/// Files whose headers one worker reads.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The array.
    pub array: ArraySlot,
    /// Row of the table of the first of them.
    pub row: u32,
    /// Number of the first of them.
    pub first: u32,
    /// How many they are.
    pub count: u32,
}

/// How a load ended: rows of the array, or why it cannot be read.
pub type Loaded = Result<(usize, usize), (Status, Why)>;

/// See the module.
pub struct PartTable {
    /// What is known of each file.
    pub parts: Table<Part>,
    /// Rows of each file, and, once its array is loaded, of all before it.
    pub runs: Table<EdgeRun>,
    /// Whose they are.
    pub rows: RowRanges,
    /// A place of its own, because it is large and tables move on the stack as they are made.
    loading: &'static mut [Option<Loading>],
}

impl PartTable {
    /// A table of that many rows.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, rows: u32) -> PartTable {
        let item = Item::PartTable;
        PartTable {
            parts: carver.table(item, u64::from(rows), &Part::EMPTY),
            runs: carver.table(item, u64::from(rows), &EdgeRun::EMPTY),
            rows: RowRanges::carve(carver, item, rows, rows.min(ARRAYS_MAX)),
            loading: carver.slice_from(Item::Instance, 1, |_| None),
        }
    }

    /// Begins to load an array of `count` files, at least one. False while there is no room.
    pub fn begin(
        &mut self,
        (array, array_id): (ArraySlot, u64),
        count: u32,
        is_needed: IsNeeded<'_>,
    ) -> bool {
        if self.loading().is_some() {
            return false;
        }
        let Some(first) = self.rows.take((array, array_id), count, is_needed) else {
            return false;
        };
        let loading = Loading { array, first, count, next: 0, running: 0, failed: None };
        self.loading.iter_mut().for_each(|place| *place = Some(loading));
        true
    }

    fn loading(&self) -> Option<&Loading> {
        self.loading.first().and_then(Option::as_ref)
    }

    /// Whether there is a slice that nobody took.
    pub fn has_slice(&self) -> bool {
        self.loading().is_some_and(|loading| loading.next < loading.count)
    }

    /// The next of them.
    pub fn take(&mut self) -> Option<Slice> {
        let loading =
            self.loading.first_mut()?.as_mut().filter(|loading| loading.next < loading.count)?;
        let first = loading.next;
        let count = SLICE_PARTS.min(loading.count - first);
        loading.next += count;
        loading.running += 1;
        Some(Slice { array: loading.array, row: loading.first + first, first, count })
    }

    /// Ends a slice; the array and its rows with the last of them. After a failure no further slice
    /// begins, so that the first file that cannot be read is the one that is told.
    pub fn finish(&mut self, failed: Option<(u32, Status, Why)>) -> Option<(ArraySlot, Loaded)> {
        let loading = self.loading.first_mut()?.as_mut()?;
        assert!(loading.running > 0);
        loading.running -= 1;
        if let Some(failure) = failed {
            loading.next = loading.count;
            if loading.failed.as_ref().is_none_or(|before| failure.0 < before.0) {
                loading.failed = Some(failure);
            }
        }
        if loading.running > 0 || loading.next < loading.count {
            return None;
        }
        let Loading { array, first, count, failed, .. } = self.loading.first_mut()?.take()?;
        let rows = (first as usize, count as usize);
        Some((array, failed.map_or(Ok(rows), |(_, status, why)| Err((status, why)))))
    }

    /// Ends the load that was going on. Nobody works at a slice.
    pub fn reset(&mut self) {
        self.loading.iter_mut().for_each(|place| *place = None);
        self.rows.waits_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: u32) -> PartTable {
        PartTable::carve(&mut Carver::leaked(1 << 20), rows)
    }

    #[test]
    fn one_array_is_loaded_at_a_time_in_slices_that_cover_it() {
        let mut table = table(1000);
        assert!(table.begin((ArraySlot(1), 1), 600, &mut |_, _, _| false));
        assert!(!table.begin((ArraySlot(2), 2), 1, &mut |_, _, _| true));
        let slices: std::vec::Vec<Slice> = core::iter::from_fn(|| table.take()).collect();
        let covered = slices.iter().map(|slice| (slice.row, slice.first, slice.count));
        assert!(covered.eq([(0, 0, 256), (256, 256, 256), (512, 512, 88)]));
        assert!(table.finish(None).is_none() && table.finish(None).is_none());
        assert!(table.finish(None).is_some());
    }

    #[test]
    fn the_first_file_that_fails_is_told_once_all_slices_have_ended() {
        let mut table = table(1000);
        let why = |text: &str| {
            let mut why = Why::new();
            why.push_str(text);
            why
        };
        assert!(table.begin((ArraySlot(1), 1), 600, &mut |_, _, _| false));
        let (_, _) = (table.take(), table.take());
        assert!(table.finish(Some((300, Status::Decode, why("late")))).is_none());
        assert!(!table.has_slice());
        let (_, loaded) = table.finish(Some((7, Status::Io, why("early")))).unwrap();
        let (status, why) = loaded.err().unwrap();
        assert_eq!((status, why.as_str()), (Status::Io, "early"));
    }
}
