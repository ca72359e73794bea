//! From decoded chunks to the bytes of a sample in its batch: place, pad, cast.
//!
//! In: a decoded chunk (or the fact that it is missing) and a [`Target`]. Out: those elements of
//! the sample's box whose source lies in that chunk. Invariant: nothing else is written. Other
//! threads fill the rest of the box from other chunks at the same time, so the region is taken as
//! the rows of a plane, with nothing of the gaps between them, and never as a whole; two chunks of
//! an array share no element, so their rows share no byte.
//!
//! All calls expect the thread to hold a [`crate::simd::FloatEnvironment`].

pub mod axis;
pub mod block;
pub mod cast;
mod value;

pub use value::value_element;

use crate::base::arena::{Region, RowsMut};
use crate::base::math::{index, product};
use crate::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::records::{ArrayRecord, ByteOrder, ChunkBytes};
use arrayvec::ArrayVec;
use axis::{PadMode, Run, Runs, runs};
use block::{Block, BlockAxis, BlockPlane};
use cast::{Cast, Plane};

/// Where one sample goes. The box is one that [`axis::source_range`] accepts along every axis.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The array.
    pub record: &'a ArrayRecord,
    /// From the array's element type to the batch's.
    pub cast: Cast,
    /// First coordinate of the box along each axis of the array.
    pub begin: &'a [i64],
    /// Coordinate behind the last one along each axis.
    pub end: &'a [i64],
    /// What lies outside the array.
    pub pad: PadMode,
    /// Exactly the sample's bytes: the box, row-major, in elements of the batch.
    pub region: Region,
}

impl Target<'_> {
    /// Extents of the box.
    fn extents(&self) -> ArrayVec<u64, RANK_MAX> {
        assert!(self.begin.len() == self.record.axes());
        assert!(self.end.len() == self.record.axes());
        self.begin.iter().zip(self.end).map(|(begin, end)| end.abs_diff(*begin)).collect()
    }

    fn target_bytes(&self) -> u64 {
        u64::from(self.cast.target_bytes())
    }

    /// Bytes from one element of the sample to the next along each axis.
    fn steps(&self) -> [u64; RANK_MAX] {
        let extents = self.extents();
        let count = product(&extents).and_then(|count| count.checked_mul(self.target_bytes()));
        assert!(count == Some(self.region.bytes()));
        let mut steps = [0; RANK_MAX];
        let mut step = self.target_bytes();
        for axis in (0..extents.len()).rev() {
            steps[axis] = step;
            step *= extents[axis];
        }
        steps
    }

    /// The runs of each axis for the chunk at `chunk_origin`, cut at the edge of the array.
    fn chunk_runs(&self, chunk_origin: &[u64]) -> ArrayVec<Runs, RANK_MAX> {
        let record = self.record;
        assert!(chunk_origin.len() == record.axes());
        let of_axis = |axis: usize| {
            let first = chunk_origin[axis];
            let extent = record.shape[axis];
            let limit = first.saturating_add(record.chunk_shape[axis]).min(extent);
            runs(self.begin[axis], self.end[axis], extent, self.pad, first, limit)
        };
        (0..record.axes()).map(of_axis).collect()
    }

    /// Calls `each` for every block of the box that the chunk fills. Without padding there is at
    /// most one; reflection makes one per combination of segments.
    fn for_each_block(&self, chunk_origin: &[u64], mut each: impl FnMut(&Block)) {
        let steps = self.steps();
        let starts = self.chunk_runs(chunk_origin);
        let mut iterators = starts.clone();
        let mut current = ArrayVec::<Run, RANK_MAX>::new();
        for iterator in &mut iterators {
            let Some(run) = iterator.next() else { return };
            current.push(run);
        }
        // One turn per combination of runs, innermost axis fastest.
        loop {
            each(&self.block(&current, &steps));
            let mut axis = current.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                if let Some(run) = iterators[axis].next() {
                    current[axis] = run;
                    break;
                }
                iterators[axis] = starts[axis].clone();
                // The same iterator gave a first run before, so it gives it again.
                if let Some(run) = iterators[axis].next() {
                    current[axis] = run;
                }
            }
        }
    }

    fn block(&self, current: &[Run], steps: &[u64; RANK_MAX]) -> Block {
        let mut block = Block { axes: ArrayVec::new(), source: 0, target: 0 };
        let mut source = 0i64;
        for (axis, run) in current.iter().enumerate() {
            let stride = self.record.chunk_strides[axis];
            source += run.source as i64 * stride;
            block.target += run.target * steps[axis];
            block.axes.push(BlockAxis {
                length: run.length,
                source_step: i64::from(run.step) * stride,
                target_step: steps[axis],
            });
        }
        assert!(source >= 0);
        block.source = source as u64;
        block
    }

    fn fill_block(&self, block: &Block, element: &[u8]) -> u64 {
        let target_bytes = self.target_bytes();
        block.for_each_plane(target_bytes, |plane| {
            let mut rows = self.rows_of(plane);
            (0..rows.count()).for_each(|row| fill_row(rows.row(row), element));
        });
        block.element_count() * target_bytes
    }

    fn rows_of(&self, plane: &BlockPlane) -> RowsMut<'static> {
        let row_bytes = plane.length * self.target_bytes();
        self.region.row_grid(plane.target, row_bytes, plane.count, plane.target_pitch)
    }
}

/// Writes the part of the sample that the decoded chunk at `chunk_origin` (in elements) holds, and
/// returns the number of bytes written. `chunk` has at least the bytes that the box reads.
pub fn scatter(target: &Target<'_>, chunk_origin: &[u64], chunk: &ChunkBytes<'_>) -> u64 {
    assert!(target.cast.source_bytes() == target.record.dtype_bytes);
    let order = target.record.byte_order;
    let target_bytes = target.target_bytes();
    let mut written = 0;
    target.for_each_block(chunk_origin, |block| {
        block.for_each_plane(target_bytes, |plane| {
            let BlockPlane { source, source_step: step, source_pitch: pitch, .. } = *plane;
            let first = source - chunk.first;
            let source = Plane { bytes: chunk.bytes, first, step, pitch, order };
            target.cast.plane(&source, &mut target.rows_of(plane));
        });
        written += block.element_count() * target_bytes;
    });
    written
}

/// Writes the array's fill value where the missing chunk at `chunk_origin` would have been, and
/// returns the number of bytes written.
pub fn scatter_fill(target: &Target<'_>, chunk_origin: &[u64]) -> u64 {
    let element = fill_element(target.record, &target.cast);
    let element = &element[..index(target.target_bytes())];
    let mut written = 0;
    target.for_each_block(chunk_origin, |block| {
        // Where the value comes from does not matter, so all axes may become one row.
        let mut block = block.clone();
        block.axes.iter_mut().for_each(|axis| axis.source_step = 0);
        written += target.fill_block(&block, element);
    });
    written
}

/// The array's fill value as an element of the batch.
pub fn fill_element(record: &ArrayRecord, cast: &Cast) -> [u8; ELEMENT_BYTES_MAX] {
    let mut element = [0; ELEMENT_BYTES_MAX];
    let fill = Plane { bytes: &record.fill, first: 0, step: 0, pitch: 0, order: ByteOrder::Little };
    let target_bytes = index(u64::from(cast.target_bytes()));
    cast.plane(&fill, &mut RowsMut::packed(&mut element[..target_bytes], target_bytes));
    element
}

/// Writes `element` (of the batch's type) at every place of the box that has no source, and returns
/// the number of bytes written. Constant padding is this and the chunks; the other modes have no
/// such places.
pub fn fill_outside(target: &Target<'_>, element: &[u8]) -> u64 {
    assert!(element.len() as u64 == target.target_bytes());
    if target.pad != PadMode::Constant {
        return 0;
    }
    let extents = target.extents();
    let steps = target.steps();
    let inside = |axis: usize| {
        // Places of the box that the array covers: first and limit, counted from its begin.
        let begin = i128::from(target.begin[axis]);
        let place = |at: i128| (at - begin).clamp(0, i128::from(extents[axis])) as u64;
        (place(0), place(i128::from(target.record.shape[axis])))
    };
    let mut written = 0;
    // What lies outside along one axis and inside along all axes before it, axis by axis.
    for outside in 0..extents.len() {
        let (first, limit) = inside(outside);
        for (first, limit) in [(0, first), (limit, extents[outside])] {
            let mut block = Block { axes: ArrayVec::new(), source: 0, target: 0 };
            for axis in 0..extents.len() {
                let (first, limit) = match axis {
                    axis if axis < outside => inside(axis),
                    axis if axis == outside => (first, limit),
                    _ => (0, extents[axis]),
                };
                block.target += first * steps[axis];
                block.axes.push(BlockAxis {
                    length: limit - first,
                    source_step: 0,
                    target_step: steps[axis],
                });
            }
            if block.element_count() > 0 {
                written += target.fill_block(&block, element);
            }
        }
    }
    written
}

/// Writes `element` over the whole of `region`, whose length is a multiple of the element's, and
/// which nobody else writes at this time.
pub fn fill_all(region: &Region, element: &[u8]) {
    fill_row(region.rows(0, region.bytes()), element);
}

fn fill_row(row: &mut [u8], element: &[u8]) {
    assert!(!element.is_empty());
    assert!(row.len().is_multiple_of(element.len()));
    match *element {
        [byte] => row.fill(byte),
        _ if element.iter().all(|byte| *byte == element[0]) => row.fill(element[0]),
        [a, b] => row.as_chunks_mut().0.fill([a, b]),
        [a, b, c, d] => row.as_chunks_mut().0.fill([a, b, c, d]),
        [a, b, c, d, e, f, g, h] => row.as_chunks_mut().0.fill([a, b, c, d, e, f, g, h]),
        _ => row.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element)),
    }
}

#[cfg(test)]
mod cast_tests;
#[cfg(test)]
mod scatter_tests;
