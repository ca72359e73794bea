//! The box of one sample over its array: which blocks of it a chunk fills, and which no chunk does.
//!
//! In: an array, a box in it, a padding mode, the type of the batch. Out: blocks, with distances in
//! bytes on both sides. Invariant: over all chunks the blocks cover every place that has a source
//! exactly once, and those outside cover the rest.

use super::axis::{PadMode, Run, Runs, runs, source_range};
use super::block::{Block, BlockAxis};
use super::cast::Cast;
use crate::base::limits::RANK_MAX;
use crate::base::math::product;
use crate::records::ArrayRecord;
use arrayvec::ArrayVec;

/// Most runs of an axis that are looked at to find the end of a fold. Padding of a chunk is a few
/// reflections; with more, the fold goes on to the end of the box.
const FOLD_RUNS_MAX: usize = 16;

/// A box of an array whose elements lie row-major in the sample, without gaps. The box is one that
/// [`super::axis::source_range`] accepts along every axis.
#[derive(Clone, Copy)]
pub struct SampleBox<'a> {
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
}

/// An axis of a block of which one chunk fills several runs: place `p` has array coordinate
/// `begin + p`, padding makes a coordinate below `extent` of it, and the chunk fills the place
/// where that lies in `[first, limit)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisFold {
    /// Array coordinate of the first place.
    pub begin: i64,
    /// Extent of the array.
    pub extent: u64,
    /// First coordinate that the box reads of the chunk.
    pub first: u64,
    /// Coordinate behind the last one.
    pub limit: u64,
}

/// Everything that a chunk fills, as one block. Along a folded axis the block has the places from
/// the first to the last run, and its source begins at the first element that the box reads.
#[derive(Clone, Debug)]
pub struct FoldedBlock {
    /// Outermost axis first.
    pub block: Block,
    /// Of each axis of the block.
    pub folds: ArrayVec<Option<AxisFold>, RANK_MAX>,
}

impl SampleBox<'_> {
    /// Bytes of an element of the batch.
    pub fn target_bytes(&self) -> u64 {
        u64::from(self.cast.target_bytes())
    }

    /// Bytes of the sample, if that many can be counted.
    pub fn bytes(&self) -> Option<u64> {
        product(&self.extents()).and_then(|count| count.checked_mul(self.target_bytes()))
    }

    /// Extents of the box.
    fn extents(&self) -> ArrayVec<u64, RANK_MAX> {
        assert!(self.begin.len() == self.record.axes());
        assert!(self.end.len() == self.record.axes());
        self.begin.iter().zip(self.end).map(|(begin, end)| end.abs_diff(*begin)).collect()
    }

    /// Bytes from one element of the sample to the next along each axis.
    fn steps(&self) -> [u64; RANK_MAX] {
        let extents = self.extents();
        let mut steps = [0; RANK_MAX];
        let mut step = self.target_bytes();
        for axis in (0..extents.len()).rev() {
            steps[axis] = step;
            step *= extents[axis];
        }
        steps
    }

    /// First coordinate of a chunk at `chunk_origin` along an axis, and the one behind its last:
    /// it is cut at the edge of the array.
    fn chunk_range(&self, axis: usize, chunk_origin: &[u64]) -> (u64, u64) {
        let first = chunk_origin[axis];
        (first, first.saturating_add(self.record.chunk_shape[axis]).min(self.record.shape[axis]))
    }

    /// The runs of each axis for the chunk at `chunk_origin`.
    fn chunk_runs(&self, chunk_origin: &[u64]) -> ArrayVec<Runs, RANK_MAX> {
        let record = self.record;
        assert!(chunk_origin.len() == record.axes());
        let of_axis = |axis: usize| {
            let (first, limit) = self.chunk_range(axis, chunk_origin);
            runs(self.begin[axis], self.end[axis], record.shape[axis], self.pad, first, limit)
        };
        (0..record.axes()).map(of_axis).collect()
    }

    /// Calls `each` for every block of the box that the chunk fills. Without padding there is at
    /// most one; reflection makes one per combination of segments.
    pub fn for_each_block(&self, chunk_origin: &[u64], each: &mut dyn FnMut(&Block)) {
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

    /// Everything that the chunk fills, as one block; None where that is nothing.
    pub fn folded_block(&self, chunk_origin: &[u64]) -> Option<FoldedBlock> {
        let mut current = ArrayVec::<Run, RANK_MAX>::new();
        let mut folds = ArrayVec::new();
        for (axis, mut runs) in self.chunk_runs(chunk_origin).into_iter().enumerate() {
            let head = runs.next()?;
            let (tail, count) = runs
                .by_ref()
                .take(FOLD_RUNS_MAX)
                .fold((head, 0), |(_, count), run| (run, count + 1));
            if count == 0 {
                current.push(head);
                folds.push(None);
                continue;
            }
            let places = self.end[axis].abs_diff(self.begin[axis]);
            let limit = if count < FOLD_RUNS_MAX { tail.target + tail.length } else { places };
            let (chunk_first, chunk_limit) = self.chunk_range(axis, chunk_origin);
            let (begin, end) = (self.begin[axis], self.end[axis]);
            // Of the chunk no more than what the box reads, because no more may be there.
            let (low, high) =
                source_range(begin, end, self.record.shape[axis], self.pad).unwrap_or((0, 0));
            let first_coordinate = chunk_first.max(low);
            let limit_coordinate = chunk_limit.min(high);
            let length = limit - head.target;
            let source = first_coordinate - chunk_first;
            current.push(Run { target: head.target, source, length, step: 1 });
            folds.push(Some(AxisFold {
                begin: self.begin[axis] + head.target as i64,
                extent: self.record.shape[axis],
                first: first_coordinate,
                limit: limit_coordinate,
            }));
        }
        Some(FoldedBlock { block: self.block(&current, &self.steps()), folds })
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

    /// Calls `each` for the blocks of places that have no source, two per axis at most. Constant
    /// padding is these and the chunks; the other modes have no such places.
    pub fn for_each_outside_block(&self, each: &mut dyn FnMut(&Block)) {
        if self.pad != PadMode::Constant {
            return;
        }
        let extents = self.extents();
        let steps = self.steps();
        let inside = |axis: usize| {
            // Places of the box that the array covers: first and limit, counted from its begin.
            let begin = i128::from(self.begin[axis]);
            let place = |at: i128| (at - begin).clamp(0, i128::from(extents[axis])) as u64;
            (place(0), place(i128::from(self.record.shape[axis])))
        };
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
                    each(&block);
                }
            }
        }
    }
}
