//! The walk of one sample over the chunks that its box touches.
//!
//! In: a half-open source box inside the array, not empty. Out: positions (file, chunk in file),
//! strictly increasing, both row-major. Invariant: `file` and `chunk` lie in the ranges that the
//! box touches.

use crate::base::math::linear_from_coordinates;
use crate::limits::RANK_MAX;
use crate::plan::need::Part;
use crate::records::ArrayRecord;

/// Where a sample's walk stands.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    lo: [u64; RANK_MAX],
    hi: [u64; RANK_MAX],
    file: [u64; RANK_MAX],
    chunk: [u64; RANK_MAX],
    position: (u64, u64),
}

impl Cursor {
    /// A cursor without a box.
    pub const IDLE: Cursor = Cursor {
        lo: [0; RANK_MAX],
        hi: [0; RANK_MAX],
        file: [0; RANK_MAX],
        chunk: [0; RANK_MAX],
        position: (0, 0),
    };

    /// At the first chunk of the box `[lo, hi)`, which lies in the array and is not empty.
    pub fn start(record: &ArrayRecord, lo: &[u64; RANK_MAX], hi: &[u64; RANK_MAX]) -> Cursor {
        let mut cursor = Cursor { lo: *lo, hi: *hi, ..Cursor::IDLE };
        for axis in 0..record.axes() {
            assert!(lo[axis] < hi[axis] && hi[axis] <= record.shape[axis]);
            cursor.file[axis] = lo[axis] / record.file_shape()[axis];
            cursor.chunk[axis] = cursor.chunk_range(record, axis).0;
        }
        cursor.set_position(record);
        cursor
    }

    /// Row-major number of the file in the file grid, and of the chunk in the file.
    pub fn position(&self) -> (u64, u64) {
        self.position
    }

    /// The part of the box that lies in the chunk, from the chunk's first element.
    pub fn part(&self, record: &ArrayRecord) -> Part {
        let mut part = Part::NONE;
        for axis in 0..record.axes() {
            let edge = record.chunk_shape[axis];
            let start = self.file[axis] * record.file_shape()[axis] + self.chunk[axis] * edge;
            part.low[axis] = self.lo[axis].saturating_sub(start);
            part.high[axis] = (self.hi[axis] - start).min(edge);
        }
        part
    }

    /// Goes to the next chunk; false past the last one.
    pub fn advance(&mut self, record: &ArrayRecord) -> bool {
        for axis in (0..record.axes()).rev() {
            let (first, limit) = self.chunk_range(record, axis);
            self.chunk[axis] += 1;
            if self.chunk[axis] < limit {
                self.set_position(record);
                return true;
            }
            self.chunk[axis] = first;
        }
        for axis in (0..record.axes()).rev() {
            let edge = record.file_shape()[axis];
            self.file[axis] += 1;
            if self.file[axis] * edge < self.hi[axis] {
                for inner in 0..record.axes() {
                    self.chunk[inner] = self.chunk_range(record, inner).0;
                }
                self.set_position(record);
                return true;
            }
            self.file[axis] = self.lo[axis] / edge;
        }
        false
    }

    /// Chunks of the current file that the box touches along `axis`, half-open.
    ///
    /// Worked example: files of 64, chunks of 16, box [70, 100): in file 1, which starts at 64, the
    /// box is [6, 36), chunks 0 to 3.
    fn chunk_range(&self, record: &ArrayRecord, axis: usize) -> (u64, u64) {
        let edge = record.file_shape()[axis];
        let start = self.file[axis] * edge;
        let first = self.lo[axis].saturating_sub(start);
        let last = (self.hi[axis] - 1 - start).min(edge - 1);
        (first / record.chunk_shape[axis], last / record.chunk_shape[axis] + 1)
    }

    fn set_position(&mut self, record: &ArrayRecord) {
        let axes = record.axes();
        self.position = (
            linear_from_coordinates(&self.file[..axes], &record.file_counts()[..axes]),
            linear_from_coordinates(&self.chunk[..axes], &record.chunk_counts()[..axes]),
        );
    }
}

/// Number of files that the box `[lo, hi)` touches, saturating.
pub fn files_touched(record: &ArrayRecord, lo: &[u64; RANK_MAX], hi: &[u64; RANK_MAX]) -> u64 {
    (0..record.axes()).fold(1u64, |total, axis| {
        let edge = record.file_shape()[axis];
        let count =
            if lo[axis] < hi[axis] { (hi[axis] - 1) / edge - lo[axis] / edge + 1 } else { 0 };
        total.saturating_mul(count)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::vec::Vec;

    pub fn record(shape: &[u64], file: &[u64], chunk: &[u64]) -> ArrayRecord {
        let mut record = ArrayRecord::EMPTY.clone();
        record.rank = shape.len() as u32;
        record.shape[..shape.len()].copy_from_slice(shape);
        record.shard_levels = 1;
        record.shard_shape[0][..shape.len()].copy_from_slice(file);
        record.chunk_shape[..shape.len()].copy_from_slice(chunk);
        record
    }

    /// Every (file, chunk) that a voxel of the box lies in, by asking every voxel.
    pub fn brute(record: &ArrayRecord, lo: &[u64], hi: &[u64]) -> Vec<(u64, u64)> {
        let axes = record.axes();
        let mut found = std::collections::BTreeSet::new();
        let mut at: Vec<u64> = lo.to_vec();
        'voxels: loop {
            let file: Vec<u64> = (0..axes).map(|a| at[a] / record.file_shape()[a]).collect();
            let chunk: Vec<u64> =
                (0..axes).map(|a| at[a] % record.file_shape()[a] / record.chunk_shape[a]).collect();
            found.insert((
                linear_from_coordinates(&file, &record.file_counts()[..axes]),
                linear_from_coordinates(&chunk, &record.chunk_counts()[..axes]),
            ));
            for axis in (0..axes).rev() {
                at[axis] += 1;
                if at[axis] < hi[axis] {
                    continue 'voxels;
                }
                at[axis] = lo[axis];
            }
            return found.into_iter().collect();
        }
    }

    pub fn padded(values: &[u64]) -> [u64; RANK_MAX] {
        let mut array = [0; RANK_MAX];
        array[..values.len()].copy_from_slice(values);
        array
    }

    #[test]
    fn a_cursor_visits_exactly_the_chunks_of_the_box_in_order() {
        let record = record(&[21, 34, 50], &[8, 12, 20], &[4, 3, 10]);
        let mut state = 5u64;
        let mut random = |limit: u64| {
            state = crate::cache::hash_words(&[state]);
            state % limit
        };
        for _ in 0..300 {
            let (mut lo, mut hi) = ([0; 3], [0; 3]);
            for axis in 0..3 {
                lo[axis] = random(record.shape[axis]);
                hi[axis] = lo[axis] + 1 + random(record.shape[axis] - lo[axis]);
            }
            let mut cursor = Cursor::start(&record, &padded(&lo), &padded(&hi));
            let mut visited = std::vec![cursor.position()];
            while cursor.advance(&record) {
                visited.push(cursor.position());
            }
            let expected = brute(&record, &lo, &hi);
            assert_eq!(visited, expected);
            let files: std::collections::BTreeSet<u64> = expected.iter().map(|p| p.0).collect();
            assert_eq!(files_touched(&record, &padded(&lo), &padded(&hi)), files.len() as u64);
        }
    }
}
