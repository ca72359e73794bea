//! Chunks that lie in no file: somebody is asked for their elements.
//!
//! In: the numbers of the first and of the last element of a chunk. Out: its record. Those numbers
//! stand where those of a file and of a chunk in it do.

use super::ArrayRecord;
use crate::base::limits::RANK_MAX;
use crate::base::math::{coordinates_from_linear, linear_from_coordinates};

/// What the numbers `file` and `chunk` of a chunk are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// Those of a file in the file grid, and of a chunk in it.
    Grid,
    /// Of the chunk's first and last element in the array, cut at its edge: somebody is asked for
    /// elements. Chunks are those of `chunk_shape`.
    Elements,
    /// The same, and a chunk is whatever one box reads, or a part of that below the cap on chunks.
    Boxes,
}

impl ArrayRecord {
    /// Whether it lies in files, and nobody is asked for its elements.
    pub fn is_in_files(&self) -> bool {
        self.numbering == Numbering::Grid
    }

    /// The record of a chunk: the same array, but the extents, strides and bytes of its file, or
    /// its own, where not all are alike; `own` holds it then.
    #[inline]
    pub fn of_chunk<'a>(
        &'a self,
        (file, chunk): (u64, u64),
        own: &'a mut Option<ArrayRecord>,
    ) -> &'a ArrayRecord {
        if self.is_in_parts() {
            return own.insert(self.with_rows_of(file, chunk));
        }
        match self.is_in_files() {
            true => self.of_file(file, own),
            false => own.insert(self.with_elements(file, chunk)),
        }
    }

    /// Its chunk is the elements from number `first` to number `last`.
    fn with_elements(&self, first: u64, last: u64) -> ArrayRecord {
        let mut record = self.clone();
        let (low, high) = (self.element_at(first), self.element_at(last));
        record.chunk_shape = self.by_axis(&self.chunk_shape, |axis| high[axis] - low[axis] + 1);
        record.pack_chunk();
        record
    }

    /// Coordinates of an element, by its number in row-major order.
    pub fn element_at(&self, number: u64) -> [u64; RANK_MAX] {
        let (mut at, axes) = ([0; RANK_MAX], self.axes());
        coordinates_from_linear(number, &self.shape[..axes], &mut at[..axes]);
        at
    }

    /// The numbers of the chunk whose elements are `[low, high)`, cut at the edge of the array.
    pub fn numbers_of(&self, low: &[u64], high: &[u64]) -> (u64, u64) {
        let shape = &self.shape[..self.axes()];
        let mut last = [0; RANK_MAX];
        for (axis, extent) in shape.iter().enumerate() {
            last[axis] = high[axis].min(*extent) - 1;
        }
        (linear_from_coordinates(low, shape), linear_from_coordinates(&last[..shape.len()], shape))
    }
}
