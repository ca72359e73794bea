//! The walk of one box over the chunks that it touches.
//!
//! In: what a box reaches of the array, not empty. Out: positions (file, chunk in file), strictly
//! increasing, both row-major. Invariant: `file` and `chunk` lie in the ranges that the box
//! touches, and no chunk is visited that a step leads over.

use crate::base::limits::RANK_MAX;
use crate::base::math::linear_from_coordinates;
use crate::plan::need::Part;
use crate::records::ArrayRecord;

/// What a box reads of an array: every `step`th element from the least on.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// The least element along each axis.
    pub lo: [u64; RANK_MAX],
    /// Behind the greatest.
    pub hi: [u64; RANK_MAX],
    /// Elements from one that is read to the next, at least 1.
    pub step: [u32; RANK_MAX],
}

impl Reach {
    /// Every element of `[lo, hi)`.
    pub fn of(lo: [u64; RANK_MAX], hi: [u64; RANK_MAX]) -> Reach {
        Reach { lo, hi, step: [1; RANK_MAX] }
    }

    /// Whether it is nothing.
    pub fn is_empty(&self, axes: usize) -> bool {
        (0..axes).any(|axis| self.lo[axis] >= self.hi[axis])
    }

    /// The first element that is read from `from` on; past `hi` where there is none.
    fn next(&self, axis: usize, from: u64) -> u64 {
        let (lo, step) = (self.lo[axis], u64::from(self.step[axis]));
        match from.checked_sub(lo) {
            None => lo,
            Some(_) if step == 1 => from,
            Some(past) => lo + past.div_ceil(step) * step,
        }
    }

    /// Number of files that it touches, saturating.
    pub fn files_touched(&self, record: &ArrayRecord) -> u64 {
        (0..record.axes()).fold(1u64, |total, axis| {
            if self.lo[axis] >= self.hi[axis] {
                return 0;
            }
            total.saturating_mul(self.files_along(record, axis))
        })
    }

    fn files_along(&self, record: &ArrayRecord, axis: usize) -> u64 {
        let (lo, hi, step) = (self.lo[axis], self.hi[axis], u64::from(self.step[axis]));
        if step <= record.file_shape_min()[axis] {
            return record.file_at(axis, hi - 1) - record.file_at(axis, lo) + 1;
        }
        // Ends: every turn goes on to a further file that is read.
        let behind = |at: u64| {
            let file = record.file_cell(axis, record.file_at(axis, at));
            Some(self.next(axis, file.first + file.edge)).filter(|next| *next < hi)
        };
        core::iter::successors(Some(lo), |at| behind(*at)).count() as u64
    }
}

/// Where a box's walk stands.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    reach: Reach,
    file: [u64; RANK_MAX],
    /// A shard has 2^30 chunks at most.
    chunk: [u32; RANK_MAX],
    position: (u64, u64),
}

impl Cursor {
    /// A cursor without a box.
    pub const IDLE: Cursor = Cursor {
        reach: Reach { lo: [0; RANK_MAX], hi: [0; RANK_MAX], step: [1; RANK_MAX] },
        file: [0; RANK_MAX],
        chunk: [0; RANK_MAX],
        position: (0, 0),
    };

    /// At the first chunk of what lies in the array and is not empty.
    pub fn start(record: &ArrayRecord, reach: &Reach) -> Cursor {
        let mut cursor = Cursor { reach: *reach, ..Cursor::IDLE };
        for axis in 0..record.axes() {
            let (lo, hi) = (reach.lo[axis], reach.hi[axis]);
            assert!(lo < hi && hi <= record.shape[axis]);
            cursor.file[axis] = record.file_at(axis, lo);
            cursor.chunk[axis] = cursor.first_chunk(record, axis);
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
            let file = record.file_cell(axis, self.file[axis]);
            let chunk = record.chunk_cell(axis, file.edge, u64::from(self.chunk[axis]));
            let start = file.first + chunk.first;
            let end = start + chunk.edge;
            let step = u64::from(self.reach.step[axis]);
            let (low, limit) = (self.reach.next(axis, start), self.reach.hi[axis].min(end));
            // Elements after the last one that is read.
            let last = if step == 1 { 0 } else { (limit - 1 - low) % step };
            (part.low[axis], part.high[axis]) = (low - start, limit - last - start);
        }
        part
    }

    /// Goes to the next chunk; false past the last one.
    pub fn advance(&mut self, record: &ArrayRecord) -> bool {
        for axis in (0..record.axes()).rev() {
            if let Some(chunk) = self.next_chunk(record, axis) {
                let past = chunk - self.chunk[axis];
                self.chunk[axis] = chunk;
                // Most steps are along the last axis, where chunks follow each other.
                match axis + 1 == record.axes() {
                    true => self.position.1 += u64::from(past),
                    false => self.set_chunk(record),
                }
                return true;
            }
            self.chunk[axis] = self.first_chunk(record, axis);
        }
        for axis in (0..record.axes()).rev() {
            let file = record.file_cell(axis, self.file[axis]);
            let next = self.reach.next(axis, file.first + file.edge);
            if next < self.reach.hi[axis] {
                self.file[axis] = match self.reach.step[axis] {
                    1 => self.file[axis] + 1,
                    _ => record.file_at(axis, next),
                };
                for inner in 0..record.axes() {
                    self.chunk[inner] = self.first_chunk(record, inner);
                }
                self.set_position(record);
                return true;
            }
            self.file[axis] = record.file_at(axis, self.reach.lo[axis]);
        }
        false
    }

    /// The first chunk of the current file that the box touches along `axis`.
    ///
    /// Worked example: files of 64, chunks of 16, box [90, 200): of file 1, which starts at 64, it
    /// is chunk 1, of file 2 chunk 0. In steps of 100 the elements are 90 and 190: of file 2, which
    /// starts at 128, it is chunk 3.
    fn first_chunk(&self, record: &ArrayRecord, axis: usize) -> u32 {
        let file = record.file_cell(axis, self.file[axis]);
        let first = self.reach.next(axis, file.first);
        record.chunk_at(axis, first - file.first) as u32
    }

    /// The next chunk of the current file.
    fn next_chunk(&self, record: &ArrayRecord, axis: usize) -> Option<u32> {
        let file = record.file_cell(axis, self.file[axis]);
        let end = file.first + record.chunk_first(axis, u64::from(self.chunk[axis]) + 1);
        let limit = self.reach.hi[axis].min(file.first + file.edge);
        if end >= limit {
            return None;
        }
        if self.reach.step[axis] == 1 {
            return Some(self.chunk[axis] + 1);
        }
        let next = self.reach.next(axis, end);
        (next < limit).then(|| record.chunk_at(axis, next - file.first) as u32)
    }

    fn set_position(&mut self, record: &ArrayRecord) {
        let axes = record.axes();
        self.position.0 =
            linear_from_coordinates(&self.file[..axes], &record.file_counts()[..axes]);
        self.set_chunk(record);
    }

    /// The position after a step inside a file.
    fn set_chunk(&mut self, record: &ArrayRecord) {
        self.position.1 = (0..record.axes()).fold(0, |linear, axis| {
            let count = record.chunks_along(axis, record.file_cell(axis, self.file[axis]).edge);
            linear * count + u64::from(self.chunk[axis])
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::records::grid::{self, AxisGrid, EdgeList, EdgeRun};
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
            state = crate::base::cache::hash_words(&[state]);
            state % limit
        };
        for _ in 0..300 {
            let (mut lo, mut hi) = ([0; 3], [0; 3]);
            for axis in 0..3 {
                lo[axis] = random(record.shape[axis]);
                hi[axis] = lo[axis] + 1 + random(record.shape[axis] - lo[axis]);
            }
            let mut cursor = Cursor::start(&record, &Reach::of(padded(&lo), padded(&hi)));
            let mut visited = std::vec![cursor.position()];
            while cursor.advance(&record) {
                visited.push(cursor.position());
            }
            let expected = brute(&record, &lo, &hi);
            assert_eq!(visited, expected);
            let files: std::collections::BTreeSet<u64> = expected.iter().map(|p| p.0).collect();
            assert_eq!(
                Reach::of(padded(&lo), padded(&hi)).files_touched(&record),
                files.len() as u64
            );
        }
    }

    /// An array whose files have these edges along each axis, and whose chunks are `chunk`, or the
    /// files themselves.
    pub fn rectilinear(edges: &[Vec<u64>], shape: &[u64], chunk: Option<&[u64]>) -> ArrayRecord {
        let axes = edges.len();
        let table = std::vec![EdgeRun::EMPTY; 64].leak();
        let mut record = ArrayRecord::EMPTY.clone();
        record.rank = axes as u32;
        record.shape[..axes].copy_from_slice(shape);
        let mut used = 0;
        for axis in 0..axes {
            let mut list = EdgeList::new(&mut table[used..], shape[axis]);
            edges[axis].iter().for_each(|edge| list.push(*edge, 1).unwrap());
            match list.finish() {
                Ok(runs) => {
                    let (first, count) = (used as u32, runs.len() as u32);
                    let cells = runs[runs.len() - 1].cell_limit;
                    record.file_grid[axis] = AxisGrid::Edges { first, count, cells, edge_min: 1 };
                    record.chunk_shape[axis] = grid::edges(runs).max().unwrap();
                    used += runs.len();
                }
                Err(edge) => record.chunk_shape[axis] = edge,
            }
        }
        if let Some(chunk) = chunk {
            record.shard_levels = 1;
            record.shard_shape[0] = record.chunk_shape;
            record.chunk_shape[..axes].copy_from_slice(chunk);
        }
        let mut stride = 1;
        for axis in (0..axes).rev() {
            record.chunk_strides[axis] = stride;
            stride *= record.chunk_shape[axis] as i64;
        }
        record.chunk_bytes = stride as u64;
        record.bind_rows(table);
        record
    }

    /// The same array, with chunks that are parts of those, of at most these extents.
    fn cut(mut record: ArrayRecord, part: &[u64]) -> ArrayRecord {
        record.shard_shape[record.shard_levels as usize] = record.chunk_shape;
        record.is_cut = true;
        for (edge, part) in record.chunk_shape.iter_mut().zip(part) {
            *edge = (*edge).min(*part);
        }
        record
    }

    /// File, chunk in the file, and place in the chunk of one voxel, by counting along each axis;
    /// and the extents of the stored chunk.
    fn place(
        edges: &[Vec<u64>],
        shape: &[u64],
        (chunk, part): (Option<&[u64]>, Option<&[u64]>),
        at: &[u64],
    ) -> ((u64, u64), Vec<u64>, Vec<u64>) {
        let (mut position, mut inside, mut extents) = ((0, 0), Vec::new(), Vec::new());
        for axis in 0..at.len() {
            let (mut file, mut first) = (0, 0);
            while first + edges[axis][file] <= at[axis] {
                first += edges[axis][file];
                file += 1;
            }
            let (mut files, mut end) = (0, 0);
            while end < shape[axis] {
                end += edges[axis][files];
                files += 1;
            }
            let edge = chunk.map_or(edges[axis][file], |chunk| chunk[axis]);
            let (from, part) = (at[axis] - first, part.map_or(edge, |part| part[axis]));
            let (parts, stored) = (edge.div_ceil(part), from / edge);
            position.0 = position.0 * files as u64 + file as u64;
            position.1 *= edges[axis][file] / edge * parts;
            position.1 += stored * parts + from % edge / part;
            inside.push(from % edge % part);
            extents.push(edge);
        }
        (position, inside, extents)
    }

    fn voxels(lo: &[u64], hi: &[u64], mut each: impl FnMut(&[u64])) {
        let mut at = lo.to_vec();
        loop {
            each(&at);
            let Some(axis) = (0..at.len()).rev().find(|axis| at[*axis] + 1 < hi[*axis]) else {
                return;
            };
            at[axis] += 1;
            at[axis + 1..].copy_from_slice(&lo[axis + 1..]);
        }
    }

    /// One to five files along each axis, of one to four chunks or elements.
    fn random_edges(
        axes: usize,
        chunk: Option<&[u64]>,
        random: &mut impl FnMut(u64) -> u64,
    ) -> Vec<Vec<u64>> {
        let mut edges = |axis: usize| -> Vec<u64> {
            let unit = chunk.map_or(1, |chunk| chunk[axis]);
            (0..1 + random(5)).map(|_| unit * (1 + random(4))).collect()
        };
        (0..axes).map(&mut edges).collect()
    }

    #[test]
    fn a_cursor_over_random_edges_visits_every_voxel_in_its_place() {
        let mut state = 11u64;
        let mut random = |limit: u64| {
            state = crate::base::cache::hash_words(&[state]);
            state % limit
        };
        let (mut sharded, mut several, mut parted) = (0, 0, 0);
        for _ in 0..800 {
            let axes = 1 + random(4) as usize;
            let is_sharded = random(2) == 0;
            let chunk: Vec<u64> = (0..axes).map(|_| 1 + random(3)).collect();
            let chunk = is_sharded.then_some(&chunk[..]);
            let edges = random_edges(axes, chunk, &mut random);
            let shape: Vec<u64> = edges.iter().map(|list| 1 + random(list.iter().sum())).collect();
            let part: Vec<u64> = (0..axes).map(|_| 1 + random(4)).collect();
            let is_cut = random(2) == 0;
            let part = is_cut.then_some(&part[..]);
            let record = rectilinear(&edges, &shape, chunk);
            let record = part.map_or(record.clone(), |part| cut(record, part));
            let (mut lo, mut hi) = (Vec::new(), Vec::new());
            for extent in &shape {
                lo.push(random(*extent));
                hi.push(lo[lo.len() - 1] + 1 + random((extent - lo[lo.len() - 1]).min(7)));
            }
            // For each chunk: the part that the box has of it, and its bytes.
            let mut expected = std::collections::BTreeMap::new();
            voxels(&lo, &hi, |at| {
                let (position, inside, extents) = place(&edges, &shape, (chunk, part), at);
                let entry = expected.entry(position).or_insert((Part::NONE, (u64::MAX, 0)));
                let byte = inside.iter().zip(&extents).fold(0, |at, (i, e)| at * e + i);
                entry.1 = (entry.1.0.min(byte), entry.1.1.max(byte + 1));
                for axis in 0..at.len() {
                    entry.0.low[axis] = entry.0.low[axis].min(inside[axis]);
                    entry.0.high[axis] = entry.0.high[axis].max(inside[axis] + 1);
                }
            });
            let mut cursor = Cursor::start(&record, &Reach::of(padded(&lo), padded(&hi)));
            let mut files = std::collections::BTreeSet::new();
            for (position, (part, (first, limit))) in &expected {
                assert_eq!(cursor.position(), *position);
                assert_eq!(cursor.part(&record), *part);
                let (mut own, mut of_chunk) = (None, None);
                let need = part.need(record.of_file(position.0, &mut own));
                let cell = record.of_chunk(*position, &mut of_chunk).chunk_shape;
                assert!((0..axes).all(|axis| part.high[axis] <= cell[axis]));
                assert_eq!((need.span.first, need.span.limit), (*first, *limit));
                files.insert(position.0);
                let is_last = Some(position) == expected.keys().last();
                assert_eq!(cursor.advance(&record), !is_last);
            }
            assert_eq!(
                Reach::of(padded(&lo), padded(&hi)).files_touched(&record),
                files.len() as u64
            );
            sharded += is_sharded as u32;
            several += (files.len() > 1) as u32;
            parted += (is_cut && is_sharded) as u32;
        }
        assert!(sharded > 200 && several > 200 && parted > 100, "{sharded} {several} {parted}");
    }
}
