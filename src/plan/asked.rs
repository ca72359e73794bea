//! Chunks of arrays that somebody is asked for, by their first and last elements.
//!
//! In: what a box reads, or a cell of a grid. Out: a grid for that box alone; the numbers of a
//! chunk. Invariant: no chunk is larger than the cap on chunks, and none reaches past the array or,
//! if a chunk is what a box reads, past that.

use crate::base::limits::RANK_MAX;
use crate::plan::Reach;
use crate::records::{ArrayRecord, Need, Span};

impl Reach {
    /// Makes `record` stand for what this reads of it alone, in chunks of at most `most` bytes, and
    /// counts from its first element.
    pub fn turn_to_box(&mut self, record: &mut ArrayRecord, most: u64) {
        let mut left = (most / u64::from(record.dtype_bytes)).max(1);
        for axis in (0..record.axes()).rev() {
            let extent = self.hi[axis] - self.lo[axis];
            (self.lo[axis], self.hi[axis], record.shape[axis]) = (0, extent, extent);
            record.chunk_shape[axis] = extent.min(left);
            left = (left / record.chunk_shape[axis]).max(1);
        }
        record.pack_chunk();
    }
}

/// The numbers and the bytes of the chunk that cell number `cell` of the grid `walked` is, whose
/// first element is the one at `origin` of `array`.
///
/// Worked example: an array of 10 x 10 in cells of 4 x 4. Cell 5 has elements [4, 8) x [8, 10): its
/// first is number 48, its last 79.
pub fn asked_chunk(
    walked: &ArrayRecord,
    origin: &[u64; RANK_MAX],
    array: &ArrayRecord,
    cell: u64,
) -> ((u64, u64), Need) {
    let (axes, at) = (walked.axes(), walked.file_coordinates(cell));
    let (mut low, mut high) = ([0; RANK_MAX], [0; RANK_MAX]);
    let mut limit = u64::from(walked.dtype_bytes);
    for axis in 0..axes {
        let (first, edge) = (at[axis] * walked.chunk_shape[axis], walked.chunk_shape[axis]);
        let behind = walked.shape[axis].min(first + edge);
        (low[axis], high[axis]) = (origin[axis] + first, origin[axis] + behind);
        limit *= behind - first;
    }
    (array.numbers_of(&low[..axes], &high[..axes]), Need::of(Span { first: 0, limit }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::arena::Carver;
    use crate::plan::cursor::tests::{padded, record};
    use crate::plan::{Cursor, Merge};
    use crate::records::{Origin, chunk_origin};
    use std::vec::Vec;

    fn array(shape: &[u64], chunk: &[u64], origin: Origin) -> ArrayRecord {
        let mut array = record(shape, chunk, chunk);
        (array.shard_levels, array.origin) = (0, origin);
        array.pack_chunk();
        array
    }

    /// The elements of a chunk by its numbers.
    fn elements(array: &ArrayRecord, position: (u64, u64)) -> Vec<(u64, u64)> {
        let (mut own, low) = (None, chunk_origin(array, position.0, position.1));
        let chunk = array.of_chunk(position, &mut own);
        (0..array.axes()).map(|axis| (low[axis], low[axis] + chunk.chunk_shape[axis])).collect()
    }

    #[test]
    fn a_cell_is_cut_at_the_edge_of_the_array() {
        let array = array(&[10, 10], &[4, 4], Origin::CHUNKS);
        let (position, need) = asked_chunk(&array, &[0; RANK_MAX], &array, 5);
        assert_eq!((position, need.span.limit), ((48, 79), 8));
        assert_eq!(elements(&array, position), [(4, 8), (8, 10)]);
    }

    #[test]
    fn a_box_is_one_chunk_below_the_cap_and_else_chunks_that_cover_what_it_reads() {
        let whole = array(&[100, 20, 30], &[1, 1, 1], Origin::BOXES);
        let cases =
            [(1300, 1, 1), (1000, 1, 2), (26, 1, 50), (25, 1, 100), (7, 1, 200), (7, 25, 8)];
        for (most, step, chunks) in cases {
            let (lo, hi) = (padded(&[10, 3, 5]), padded(&[60, 5, 30 - 12]));
            let mut reach = Reach::of(lo, hi);
            reach.step[0] = step;
            let mut walked = whole.clone();
            reach.turn_to_box(&mut walked, most);
            let mut merge = Merge::carve(&mut Carver::leaked(1 << 12), (1, 0));
            merge.add(0, Cursor::start(&walked, &reach));
            let mut seen = std::vec![0u32; 100 * 20 * 30];
            let mut count = 0;
            while let Some((cell, _)) = merge.next(&walked, |_| {}) {
                let (position, need) = asked_chunk(&walked, &lo, &whole, cell.0);
                let found = elements(&whole, position);
                assert!(need.span.limit <= most);
                assert_eq!(need.span.limit, found.iter().map(|(a, b)| b - a).product::<u64>());
                for z in found[0].0..found[0].1 {
                    for y in found[1].0..found[1].1 {
                        for x in found[2].0..found[2].1 {
                            seen[((z * 20 + y) * 30 + x) as usize] += 1;
                        }
                    }
                }
                count += 1;
            }
            assert_eq!(count, chunks, "{most} {step}");
            for (at, seen) in seen.iter().enumerate() {
                let at = at as u64;
                let (z, y, x) = (at / 600, at / 30 % 20, at % 30);
                let is_read = (10..60).contains(&z) && (3..5).contains(&y) && (5..18).contains(&x);
                let is_first = (z - 10.min(z)) % u64::from(step) == 0;
                assert!(*seen <= u32::from(is_read), "{z} {y} {x}");
                assert!(*seen == 1 || !is_read || !is_first, "{z} {y} {x}");
            }
        }
    }
}
