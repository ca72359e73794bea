//! Chunks that lie in no file: somebody is asked for their elements.
//!
//! In: the numbers of the first and of the last element of a chunk. Out: its record. Those numbers
//! take the place of those of a file and of a chunk in it.

use super::ArrayRecord;
use crate::base::limits::RANK_MAX;
use crate::base::math::{coordinates_from_linear, linear_from_coordinates};

/// The owner of an array's elements, and the rules for its chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// They lie in files, which are leased and read in ranges. Else somebody is asked for a chunk.
    pub has_files: bool,
    /// A chunk is of a version, and its place is to be found. Else all of it is known beforehand.
    pub has_versions: bool,
    /// The numbers `file` and `chunk` of a chunk are those of its first and last element in the
    /// array, cut at its edge. Else they are of a file in the file grid, and of a chunk in it.
    pub numbers_elements: bool,
    /// A chunk is whatever one box reads, or a part of that below the cap on chunks. Else it has
    /// `chunk_shape`.
    pub cuts_by_box: bool,
}

impl Origin {
    /// Files of a store.
    pub const FILES: Origin =
        Origin { has_files: true, has_versions: true, numbers_elements: false, cuts_by_box: false };
    /// A host that gives chunks.
    pub const CHUNKS: Origin =
        Origin { has_files: false, has_versions: false, numbers_elements: true, ..Origin::FILES };
    /// A host that gives any box.
    pub const BOXES: Origin = Origin { cuts_by_box: true, ..Origin::CHUNKS };
}

impl ArrayRecord {
    /// The record of a chunk: the same array, but the extents, strides and bytes of its file, or
    /// its own, if not all are alike; `own` holds it then.
    #[inline]
    pub fn of_chunk<'a>(
        &'a self,
        (file, chunk): (u64, u64),
        own: &'a mut Option<ArrayRecord>,
    ) -> &'a ArrayRecord {
        if self.is_in_parts() || self.is_cut {
            return own.insert(self.with_cells_of(file, chunk));
        }
        match self.origin.numbers_elements {
            true => own.insert(self.with_elements(file, chunk)),
            false => self.of_file(file, own),
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
