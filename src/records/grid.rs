//! How one axis of the file grid is divided into cells: all of one length, or each of its own.
//!
//! In: the lengths ("edges") that the metadata lists, in order. Out: runs of equal cells, and which
//! cell an element lies in. Invariant of the runs of an axis: limits and cell limits increase
//! strictly, the first run begins at element 0, each run is a whole number of cells, and only the
//! last cell may reach past the array. Cells that begin behind the array are checked and left out:
//! no element lies in them.
//!
//! Runs, not cells, because a list is mostly long where it repeats itself: 400 chunks of 512 and a
//! shorter one are two runs.

/// How one axis of a grid is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AxisGrid {
    /// Cells of one edge length, the array record's `file_shape`; the last may reach past the
    /// array.
    Regular,
    /// Cells of two or more edge lengths; the longest is the array record's `file_shape`.
    Edges {
        /// Index of the axis' first run in the array's table of runs.
        first: u32,
        /// Number of runs, at least 2.
        count: u32,
        /// Number of cells.
        cells: u64,
        /// The shortest edge.
        edge_min: u64,
    },
}

/// A run of cells of one edge length; it begins where the run before it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeRun {
    /// Element behind its last cell.
    pub limit: u64,
    /// Number behind its last cell's.
    pub cell_limit: u64,
}

impl EdgeRun {
    /// No cells: what stands before the first run.
    pub const EMPTY: EdgeRun = EdgeRun { limit: 0, cell_limit: 0 };
}

/// A cell of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Its first element.
    pub first: u64,
    /// Its length.
    pub edge: u64,
}

/// Number of the cell that holds `element`, which lies before the last run's limit.
///
/// Worked example: cells of 4, 4, 4, 3 are the runs (limit 12, cell limit 3) and (15, 4); element
/// 13 lies in the second, 13 - 12 = 1 into it, which is cell 3 + 1 / 3 = 3.
#[inline(never)] // rare beside regular grids
pub fn cell_at(runs: &[EdgeRun], element: u64) -> u64 {
    let run = runs.partition_point(|run| run.limit <= element);
    let before = run_before(runs, run);
    before.cell_limit + (element - before.limit) / edge_of(runs, run)
}

/// The runs of an axis.
pub fn runs(edges: &[EdgeRun], first: u32, count: u32) -> &[EdgeRun] {
    &edges[first as usize..][..count as usize]
}

/// Cell `number`, which is less than the last run's cell limit.
#[inline(never)] // as cell_at
pub fn cell(runs: &[EdgeRun], number: u64) -> Cell {
    let run = runs.partition_point(|run| run.cell_limit <= number);
    let (before, edge) = (run_before(runs, run), edge_of(runs, run));
    Cell { first: before.limit + (number - before.cell_limit) * edge, edge }
}

/// The edge lengths of the runs, in order.
pub fn edges(runs: &[EdgeRun]) -> impl Iterator<Item = u64> {
    (0..runs.len()).map(|run| edge_of(runs, run))
}

fn run_before(runs: &[EdgeRun], run: usize) -> EdgeRun {
    if run == 0 { EdgeRun::EMPTY } else { runs[run - 1] }
}

fn edge_of(runs: &[EdgeRun], run: usize) -> u64 {
    let (before, run) = (run_before(runs, run), runs[run]);
    (run.limit - before.limit) / (run.cell_limit - before.cell_limit)
}

/// Why a list of edges is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeFault {
    /// The cells end beyond 2^63 - 1.
    Overflow,
    /// There are more runs than room.
    Full,
}

/// Makes the runs of one axis.
pub struct EdgeList<'a> {
    room: &'a mut [EdgeRun],
    count: usize,
    extent: u64,
    limit: u64,
    /// The edge of the last run; the first edge of all before there is a run.
    edge: u64,
}

impl<'a> EdgeList<'a> {
    /// No cells yet, of an axis of `extent` elements; runs go to `room`.
    pub fn new(room: &'a mut [EdgeRun], extent: u64) -> EdgeList<'a> {
        EdgeList { room, count: 0, extent, limit: 0, edge: 0 }
    }

    /// Element behind the last cell so far, those behind the array included.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Adds `count` cells of length `edge`, both at least 1.
    pub fn push(&mut self, edge: u64, count: u64) -> Result<(), EdgeFault> {
        assert!(edge > 0 && count > 0);
        let first = self.limit;
        let limit = edge.checked_mul(count).and_then(|length| first.checked_add(length));
        self.limit = limit.filter(|limit| *limit <= i64::MAX as u64).ok_or(EdgeFault::Overflow)?;
        if self.edge == 0 {
            self.edge = edge;
        }
        // Of an array without elements no cell begins inside.
        if first >= self.extent {
            return Ok(());
        }
        // Not above `count`, so the products stay below the limit that was checked.
        let cells = count.min((self.extent - first).div_ceil(edge));
        let mut at = self.count;
        if at > 0 && self.edge == edge {
            at -= 1;
        }
        let before = run_before(self.room, self.count);
        let Some(run) = self.room.get_mut(at) else { return Err(EdgeFault::Full) };
        *run = EdgeRun { limit: first + cells * edge, cell_limit: before.cell_limit + cells };
        self.edge = edge;
        self.count = at + 1;
        Ok(())
    }

    /// The runs, if there are cells of two lengths at least; else the one length that there is, 0
    /// where nothing was added.
    pub fn finish(self) -> Result<&'a [EdgeRun], u64> {
        if self.count < 2 { Err(self.edge) } else { Ok(&self.room[..self.count]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn listed(extent: u64, list: &[(u64, u64)]) -> Result<Vec<EdgeRun>, u64> {
        let mut room = [EdgeRun::EMPTY; 8];
        let mut axis = EdgeList::new(&mut room, extent);
        list.iter().for_each(|(edge, count)| axis.push(*edge, *count).unwrap());
        axis.finish().map(<[EdgeRun]>::to_vec)
    }

    fn run(limit: u64, cell_limit: u64) -> EdgeRun {
        EdgeRun { limit, cell_limit }
    }

    #[test]
    fn every_element_lies_in_the_cell_that_counting_finds() {
        let mut state = 5u64;
        let mut random = |limit: u64| {
            state = crate::base::cache::hash_words(&[state]);
            state % limit
        };
        let mut listed_axes = 0;
        for _ in 0..500 {
            let list: Vec<(u64, u64)> =
                (0..1 + random(6)).map(|_| (1 + random(5), 1 + random(4))).collect();
            let cells: Vec<u64> =
                list.iter().flat_map(|(edge, count)| (0..*count).map(|_| *edge)).collect();
            let extent = 1 + random(cells.iter().sum());
            let Ok(runs) = listed(extent, &list) else { continue };
            listed_axes += 1;
            let (mut first, mut number) = (0, 0);
            for element in 0..extent {
                if element == first + cells[number] {
                    first = element;
                    number += 1;
                }
                assert_eq!(cell_at(&runs, element), number as u64, "{list:?} {element}");
                let expected = Cell { first, edge: cells[number] };
                assert_eq!(cell(&runs, number as u64), expected, "{list:?} {number}");
            }
            let last = runs.last().unwrap();
            assert_eq!(last.cell_limit, number as u64 + 1, "{list:?} of {extent}");
            assert_eq!(last.limit, first + cells[number]);
            let mut distinct = cells[..=number].to_vec();
            distinct.dedup();
            assert_eq!(edges(&runs).collect::<Vec<_>>(), distinct);
        }
        assert!(listed_axes > 200, "{listed_axes}");
    }

    #[test]
    fn equal_neighbours_become_one_run() {
        assert_eq!(listed(15, &[(4, 1), (4, 2), (3, 1)]), Ok([run(12, 3), run(15, 4)].to_vec()));
    }

    #[test]
    fn cells_of_one_length_are_no_runs() {
        assert_eq!(listed(12, &[(4, 2), (4, 1)]), Err(4));
        assert_eq!(listed(0, &[(4, 2), (5, 1)]), Err(4));
        assert_eq!(listed(0, &[]), Err(0));
    }

    #[test]
    fn cells_behind_the_array_are_left_out() {
        assert_eq!(listed(9, &[(4, 1), (3, 9), (5, 2)]), Ok([run(4, 1), run(10, 3)].to_vec()));
        assert_eq!(listed(4, &[(4, 1), (5, 2)]), Err(4));
    }

    #[test]
    fn cells_that_end_beyond_the_largest_extent_are_refused_behind_the_array_too() {
        let mut room = [EdgeRun::EMPTY; 2];
        let mut axis = EdgeList::new(&mut room, 5);
        assert_eq!(axis.push(i64::MAX as u64, 1), Ok(()));
        assert_eq!(axis.push(1, 1), Err(EdgeFault::Overflow));
        let mut axis = EdgeList::new(&mut room, 5);
        assert_eq!(axis.push(1 << 32, 1 << 32), Err(EdgeFault::Overflow));
    }

    #[test]
    fn one_run_more_than_there_is_room_for_is_refused() {
        let mut room = [EdgeRun::EMPTY; 2];
        let mut axis = EdgeList::new(&mut room, 50);
        assert_eq!((axis.push(1, 1), axis.push(2, 1), axis.push(2, 1)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(axis.push(1, 1), Err(EdgeFault::Full));
    }
}
