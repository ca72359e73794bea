//! Chunks, and their places in files: the chunks of the store, or parts of those that are large.
//!
//! In: a record, a file, and the number of a chunk in it. Out: the chunk's elements and first byte.
//!
//! Worked example: files of 40, stored chunks of 20 that are cut into chunks of 8. A stored chunk
//! is three, of 8, 8 and 4; chunk 4 of a file begins at element 28 of it, 8 after the first of its
//! stored chunk.

use super::ArrayRecord;
use super::grid::Cell;
use crate::base::limits::{RANK_MAX, SHARD_CHUNKS_MAX};
use crate::base::math::{coordinates_from_linear, product};

impl ArrayRecord {
    /// Cuts chunks of more than `cap` bytes into chunks of at most `most`, if nothing compresses
    /// them: a box reads only what it needs of one, so none takes memory of its size.
    pub fn cut_chunks(&mut self, cap: u64, most: u64) {
        if !self.is_read_partly() || self.flat.is_some() || self.chunk_bytes <= cap {
            return;
        }
        let (stored, stored_bytes) = (self.chunk_shape, self.chunk_bytes);
        self.cut(&stored, most);
        (self.shard_shape[self.shard_levels as usize], self.is_cut) = (stored, true);
        let in_file = product(&self.chunk_counts()[..self.axes()]);
        let files = product(&self.file_counts()[..self.axes()]).unwrap_or(u64::MAX);
        if in_file
            .is_none_or(|count| count > SHARD_CHUNKS_MAX || count.checked_mul(files).is_none())
        {
            (self.chunk_shape, self.chunk_bytes, self.is_cut) = (stored, stored_bytes, false);
        }
    }

    /// Lays out elements that are as many along each axis, and cuts them into chunks.
    pub(super) fn cut(&mut self, extents: &[u64; RANK_MAX], most: u64) {
        let (axes, bytes, pitch) = (self.axes(), u64::from(self.dtype_bytes), self.pitch());
        self.lay_out(extents);
        let order = self.axis_order[self.shard_levels as usize];
        let mut left = (most / pitch).max(1);
        let mut count = 1;
        for axis in order[..axes].iter().rev().map(|axis| usize::from(*axis)) {
            self.chunk_shape[axis] = extents[axis].clamp(1, left);
            left /= self.chunk_shape[axis];
            count *= self.chunk_shape[axis];
        }
        self.chunk_bytes = (count - 1) * pitch + bytes;
    }

    /// Bytes from an element to the next.
    fn pitch(&self) -> u64 {
        u64::from(if self.pitch > 0 { self.pitch } else { self.dtype_bytes })
    }

    /// Sets the strides to those of elements that are as many along each axis.
    pub(super) fn lay_out(&mut self, extents: &[u64; RANK_MAX]) {
        let order = self.axis_order[self.shard_levels as usize];
        let mut stride = self.pitch();
        for axis in order[..self.axes()].iter().rev().map(|axis| usize::from(*axis)) {
            // Nothing is read of an array without elements, whatever its strides are.
            self.chunk_strides[axis] = i64::try_from(stride).unwrap_or(0);
            stride = stride.saturating_mul(extents[axis].max(1));
        }
    }

    /// Extents of a chunk of the store, of the largest one if they differ.
    pub fn stored_shape(&self) -> &[u64; RANK_MAX] {
        if self.is_cut { &self.shard_shape[self.shard_levels as usize] } else { &self.chunk_shape }
    }

    /// Bytes that a chunk takes in the store; None if something compresses it.
    pub fn stored_bytes(&self) -> Option<u64> {
        match self.is_cut {
            true => {
                let elements = self.stored_shape()[..self.axes()].iter().product::<u64>();
                Some(elements * u64::from(self.dtype_bytes))
            }
            false => self.encoded_bytes(self.codecs.len()),
        }
    }

    /// Number of chunks along `axis` in a file of `edge` elements.
    #[inline(always)] // as said of `file_cell`
    pub fn chunks_along(&self, axis: usize, edge: u64) -> u64 {
        if self.is_cut {
            self.parts_before(axis, edge, true)
        } else {
            edge.div_ceil(self.chunk_shape[axis])
        }
    }

    /// The chunk, by its number along `axis`, that holds element `at` of a file.
    #[inline(always)] // as said of `file_cell`
    pub fn chunk_at(&self, axis: usize, at: u64) -> u64 {
        if self.is_cut { self.parts_before(axis, at, false) } else { at / self.chunk_shape[axis] }
    }

    /// The parts that end at `element` of a file or before it; with `has_last` the one that it lies
    /// in, too.
    #[inline(never)] // rare beside chunks that are stored as they are
    fn parts_before(&self, axis: usize, element: u64, has_last: bool) -> u64 {
        let (part, stored) = (self.chunk_shape[axis], self.stored_shape()[axis]);
        let inside = element % stored;
        let parts = if has_last { inside.div_ceil(part) } else { inside / part };
        element / stored * stored.div_ceil(part) + parts
    }

    /// First element in a file of a chunk, by its number along `axis`; for the number after the
    /// last, the end of the file or an element after it.
    #[inline(always)] // as said of `file_cell`
    pub fn chunk_first(&self, axis: usize, number: u64) -> u64 {
        if self.is_cut { self.part_first(axis, number) } else { number * self.chunk_shape[axis] }
    }

    #[inline(never)] // as said of `parts_before`
    fn part_first(&self, axis: usize, number: u64) -> u64 {
        let (part, stored) = (self.chunk_shape[axis], self.stored_shape()[axis]);
        let parts = stored.div_ceil(part);
        number / parts * stored + number % parts * part
    }

    /// The range of a chunk, by its number along `axis`, in a file of `edge` elements.
    #[inline(always)] // as said of `file_cell`
    pub fn chunk_cell(&self, axis: usize, edge: u64, number: u64) -> Cell {
        let chunk = self.chunk_shape[axis];
        let (first, limit) = match self.is_cut {
            true => (self.part_first(axis, number), self.part_first(axis, number + 1)),
            false => (number * chunk, number * chunk + chunk),
        };
        Cell { first, edge: limit.min(edge) - first }
    }

    /// The ranges of a chunk in its file, which is at coordinates `files`.
    #[inline]
    fn cells_at(&self, files: &[u64; RANK_MAX], chunk: u64) -> [Cell; RANK_MAX] {
        let (axes, mut chunks) = (self.axes(), [0; RANK_MAX]);
        if chunk > 0 {
            let counts = self.chunk_counts_at(files);
            coordinates_from_linear(chunk, &counts[..axes], &mut chunks[..axes]);
        }
        let mut cells = [Cell { first: 0, edge: 1 }; RANK_MAX];
        for axis in 0..axes {
            let edge = self.file_cell(axis, files[axis]).edge;
            cells[axis] = self.chunk_cell(axis, edge, chunks[axis]);
        }
        cells
    }

    /// The record of a chunk that may be smaller than others of its file.
    pub(super) fn with_cells_of(&self, file: u64, chunk: u64) -> ArrayRecord {
        let mut own = None;
        let mut record = self.of_file(file, &mut own).clone();
        let cells = self.cells_at(&self.file_coordinates(file), chunk);
        record.chunk_shape = self.by_axis(&self.chunk_shape, |axis| cells[axis].edge);
        record
    }

    /// First element of a chunk along each axis, counted from the first of its file.
    pub fn place_in_file(&self, file: u64, chunk: u64) -> [u64; RANK_MAX] {
        self.cells_at(&self.file_coordinates(file), chunk).map(|cell| cell.first)
    }

    /// Bytes from the start of a stored chunk to the part of it that a chunk is. `own`: the record
    /// of its file.
    pub fn offset_in_stored(&self, own: &ArrayRecord, file: u64, chunk: u64) -> u64 {
        if !self.is_cut {
            return 0;
        }
        let (place, stored) = (self.place_in_file(file, chunk), self.stored_shape());
        own.offset_of(&self.by_axis(&place, |axis| place[axis] % stored[axis]))
    }

    /// Coordinates of the chunk of the store that holds a chunk, in the chunk grid of the whole
    /// array.
    pub fn stored_coordinates(&self, file: u64, chunk: u64) -> [u64; RANK_MAX] {
        let files = self.file_coordinates(file);
        let (cells, stored) = (self.cells_at(&files, chunk), self.stored_shape());
        self.by_axis(&files, |axis| match self.shard_levels {
            0 => files[axis] + cells[axis].first / stored[axis],
            // Chunks of shards divide the array evenly, whatever the shards are.
            _ => (self.file_cell(axis, files[axis]).first + cells[axis].first) / stored[axis],
        })
    }

    /// Bytes to an element from the first.
    pub fn offset_of(&self, element: &[u64; RANK_MAX]) -> u64 {
        (0..self.axes()).map(|axis| element[axis] * self.chunk_strides[axis] as u64).sum()
    }
}

/// First element of a chunk along each axis of the array.
pub fn chunk_origin(record: &ArrayRecord, file: u64, chunk: u64) -> [u64; RANK_MAX] {
    if record.origin.numbers_elements {
        return record.element_at(file);
    }
    let files = record.file_coordinates(file);
    let cells = record.cells_at(&files, chunk);
    record.by_axis(&[0; RANK_MAX], |axis| {
        record.file_cell(axis, files[axis]).first + cells[axis].first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_into_parts_of_several_sizes_unless_they_would_be_too_many() {
        let mut record = ArrayRecord::EMPTY;
        record.rank = 2;
        record.shape[..2].copy_from_slice(&[1 << 20; 2]);
        record.shard_levels = 1;
        record.shard_shape[0][..2].copy_from_slice(&[60 << 10; 2]);
        record.chunk_shape[..2].copy_from_slice(&[60; 2]);
        record.pack_chunk();
        // A shard has 2^20 chunks.
        let mut cut = record.clone();
        cut.cut_chunks(3599, 1000);
        assert_eq!(
            (cut.is_cut, &cut.chunk_shape[..2], cut.chunk_bytes),
            (true, &[16, 60][..], 960)
        );
        assert_eq!(cut.chunk_cell(0, 60 << 10, 7), Cell { first: 108, edge: 12 });
        for (cap, most) in [(3600, 1000), (3599, 3)] {
            let mut whole = record.clone();
            whole.cut_chunks(cap, most);
            assert_eq!(
                (whole.is_cut, whole.chunk_shape, whole.chunk_bytes),
                (false, record.chunk_shape, 3600)
            );
        }
    }
}
