//! Rows of a table that arrays take when they are loaded. An array has its rows side by side, and
//! gives them up with its entry.
//!
//! In: numbers of rows, and which arrays still need theirs. Out: the first row of each range.
//! Invariant: ranges are sorted and do not overlap.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::indexes::ArraySlot;

/// Rows of an array, and whose they are.
#[derive(Clone, Copy, Debug)]
struct Range {
    array: ArraySlot,
    array_id: u64,
    first: u32,
    count: u32,
}

/// Whether an array that has rows needs them: by its slot, its identity, and whether it is to give
/// them up if it can.
pub type IsNeeded<'a> = &'a mut dyn FnMut(ArraySlot, u64, bool) -> bool;

/// See the module.
pub struct RowRanges {
    rows: u64,
    ranges: &'static mut [Range],
    used: usize,
    /// Place of the range that is asked first to give its rows up: behind the one that came last.
    next: usize,
    /// Uses of arrays that had ended when there was no room last.
    pub waits_since: Option<u64>,
}

impl RowRanges {
    /// All `rows` are free; `arrays` have some at most at a time.
    pub fn carve(carver: &mut Carver, item: Item, rows: u32, arrays: u32) -> RowRanges {
        let none = Range { array: ArraySlot(0), array_id: 0, first: 0, count: 0 };
        let ranges = carver.slice(item, u64::from(arrays), &none);
        RowRanges { rows: u64::from(rows), ranges, used: 0, next: 0, waits_since: None }
    }

    /// The first of `count` rows that an array gets, at least one. If there is no room, arrays that
    /// need not have theirs give them up, one after the other, until there is.
    pub fn take(
        &mut self,
        (array, array_id): (ArraySlot, u64),
        count: u32,
        is_needed: IsNeeded<'_>,
    ) -> Option<u32> {
        let mut kept = 0;
        for at in 0..self.used {
            let range = self.ranges[at];
            if is_needed(range.array, range.array_id, false) {
                self.ranges[kept] = range;
                kept += 1;
            }
        }
        self.used = kept;
        let mut room = self.find_room(count);
        for _ in 0..kept {
            if room.is_some() {
                break;
            }
            self.next = if self.next < self.used { self.next } else { 0 };
            let range = self.ranges[self.next];
            if is_needed(range.array, range.array_id, true) {
                self.next += 1;
                continue;
            }
            self.ranges.copy_within(self.next + 1..self.used, self.next);
            self.used -= 1;
            room = self.find_room(count);
        }
        let (place, first) = room?;
        self.ranges.copy_within(place..self.used, place + 1);
        self.ranges[place] = Range { array, array_id, first, count };
        (self.used, self.next) = (self.used + 1, place + 1);
        self.waits_since = None;
        Some(first)
    }

    /// The first gap of `count` rows: its place among the ranges, and its first row.
    fn find_room(&self, count: u32) -> Option<(usize, u32)> {
        if self.used == self.ranges.len() {
            return None;
        }
        let mut first = 0;
        for (place, range) in self.ranges[..self.used].iter().enumerate() {
            if range.first - first >= count {
                return Some((place, first));
            }
            first = range.first + range.count;
        }
        (self.rows >= u64::from(first) + u64::from(count)).then_some((self.used, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The array of that identity takes rows, while those that `needed` names keep theirs.
    fn take(rows: &mut RowRanges, id: u64, count: u32, needed: &[u64]) -> Option<u32> {
        let is_needed = &mut |_, id, must_go: bool| !must_go || needed.contains(&id);
        rows.take((ArraySlot(id as u32), id), count, is_needed)
    }

    fn rows(count: u32) -> RowRanges {
        RowRanges::carve(&mut Carver::leaked(1 << 20), Item::PartTable, count, 8)
    }

    #[test]
    fn the_first_gap_is_taken_and_the_oldest_give_up_no_more_than_is_wanted() {
        let mut rows = rows(1000);
        assert_eq!(take(&mut rows, 1, 400, &[]), Some(0));
        assert_eq!(take(&mut rows, 2, 300, &[]), Some(400));
        assert_eq!(take(&mut rows, 3, 301, &[1, 2]), None);
        assert_eq!(take(&mut rows, 4, 300, &[]), Some(700));
        // The next in turn is the first again, then those behind it.
        assert_eq!(take(&mut rows, 5, 200, &[2, 4]), Some(0));
        assert_eq!(take(&mut rows, 6, 200, &[2, 4, 5]), Some(200));
        assert_eq!(take(&mut rows, 7, 1, &[2, 4, 5, 6]), None);
        assert_eq!(take(&mut rows, 8, 600, &[5]), Some(400));
        assert_eq!(take(&mut rows, 9, 1001, &[]), None);
        assert_eq!(take(&mut rows, 10, 1000, &[]), Some(0));
    }

    #[test]
    fn rows_of_arrays_that_are_gone_are_free() {
        let mut rows = rows(10);
        assert_eq!(take(&mut rows, 1, 4, &[]), Some(0));
        assert_eq!(take(&mut rows, 2, 6, &[]), Some(4));
        let is_needed = &mut |_, id, _| id == 2;
        assert_eq!(rows.take((ArraySlot(3), 3), 4, is_needed), Some(0));
    }

    #[test]
    fn no_more_arrays_have_rows_than_there_is_a_place_for() {
        let mut rows = rows(1000);
        for id in 0..8 {
            assert_eq!(take(&mut rows, id, 1, &[]), Some(id as u32));
        }
        assert_eq!(take(&mut rows, 8, 1, &[0, 1, 2, 3, 4, 5, 6, 7]), None);
        assert_eq!(take(&mut rows, 9, 1, &[0, 1, 2, 4, 5, 6, 7]), Some(3));
    }
}
