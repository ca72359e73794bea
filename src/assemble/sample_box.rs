//! A box over its array, in a field of a sample: which blocks of it a chunk fills, and which no
//! chunk does.
//!
//! In: an array, a box of it, a padding mode, the field that the box goes to. Out: blocks, with
//! distances in bytes on both sides. Invariant: over all chunks the blocks cover every place that
//! has a source exactly once, and those outside cover the rest.

use super::axis::{PadMode, Run};
use super::block::{Block, BlockAxis};
use super::cast::Cast;
use super::walk::{AxisView, WalkRuns, walk_range};
use crate::base::limits::RANK_MAX;
use crate::records::{ArrayRecord, AxisOrder, BoxShape, IN_ORDER};
use crate::simd::RowFold;
use arrayvec::ArrayVec;
use core::iter;

/// Most runs of an axis that are looked at to find the end of a fold. Padding of a chunk is a few
/// reflections; with more, the fold goes on to the end of the box.
const FOLD_RUNS_MAX: usize = 16;

/// A box of an array, and the field whose elements it is. The box is one that
/// [`walk_range`] accepts along every axis.
#[derive(Clone, Copy)]
pub struct SampleBox<'a> {
    /// The array.
    pub record: &'a ArrayRecord,
    /// From the array's element type to the field's.
    pub cast: &'a Cast,
    /// The elements that it reads, and the axes of the field that they go to.
    pub shape: &'a BoxShape,
    /// Byte of the field that its first place goes to.
    pub first: u64,
    /// Bytes from one element of the field to the next along each of its axes.
    pub strides: &'a [u64; RANK_MAX],
    /// What lies outside the array.
    pub pad: PadMode,
}

/// An axis of a block of which one chunk fills several runs: place `p` has array coordinate
/// `begin + p`, counted from the end of the axis where the walk goes backwards; padding makes a
/// coordinate below `extent` of it, and the chunk fills the place where that lies in
/// `[first, limit)`.
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
    /// Bytes of an element of the field.
    pub fn target_bytes(&self) -> u64 {
        u64::from(self.cast.target_bytes())
    }

    /// Bytes of the field from the first that the box writes to behind the last.
    pub fn target_span(&self) -> (u64, u64) {
        let reach = |axis: usize| (self.places(axis) - 1) * self.step(axis);
        let last = (0..self.record.axes()).map(reach).sum::<u64>();
        (self.first, self.first + last + self.target_bytes())
    }

    /// Places along an axis.
    fn places(&self, axis: usize) -> u64 {
        self.shape.axes[axis].places()
    }

    /// Bytes from one place to the next in the field; 0 along an axis that is dropped.
    fn step(&self, axis: usize) -> u64 {
        self.shape.axes[axis].to().map_or(0, |to| self.strides[to])
    }

    fn view(&self, axis: usize) -> AxisView {
        AxisView::new(&self.shape.axes[axis], self.record.shape[axis])
    }

    /// The axes in the order of the target: those of the longest distances there first. Few boxes
    /// turn axes, so it is mostly their own.
    fn order<'o>(&self, turned: &'o mut AxisOrder) -> &'o [u8] {
        let axes = self.record.axes();
        if (1..axes).all(|axis| self.step(axis - 1) >= self.step(axis)) {
            return &IN_ORDER[..axes];
        }
        for axis in 0..axes {
            let step = self.step(axis);
            let shorter = turned[..axis].iter().position(|b| self.step(usize::from(*b)) < step);
            let place = shorter.unwrap_or(axis);
            turned.copy_within(place..axis, place + 1);
            turned[place] = axis as u8;
        }
        &turned[..axes]
    }

    /// First coordinate of a chunk at `chunk_origin` along an axis, and the one behind its last:
    /// it is cut at the edge of the array.
    fn chunk_range(&self, axis: usize, chunk_origin: &[u64]) -> (u64, u64) {
        let first = chunk_origin[axis];
        (first, first.saturating_add(self.record.chunk_shape[axis]).min(self.record.shape[axis]))
    }

    /// The runs of an axis for the chunk at `chunk_origin`: the first, and the others. None says
    /// that the chunk fills no place of the axis.
    fn chunk_runs(&self, axis: usize, chunk_origin: &[u64]) -> Option<(Run, Option<WalkRuns>)> {
        let (walk, extent) = (&self.shape.axes[axis], self.record.shape[axis]);
        let ((begin, end), (first, limit)) = (walk.range(), self.chunk_range(axis, chunk_origin));
        // Most axes lie in the array and are read as they are: their one run needs no iterator.
        if walk.step() == (1, false) && begin >= 0 && end as u64 <= extent {
            let (low, high) = (first.max(begin as u64), limit.min(end as u64));
            let (target, source) = (low - begin as u64, low - first);
            let run = Run { target, source, length: high.checked_sub(low)?, step: 1 };
            return (run.length > 0).then_some((run, None));
        }
        let mut runs = self.view(axis).runs(self.pad, (first, limit));
        Some((runs.next()?, Some(runs)))
    }

    /// What the box reads of the chunk along each axis, in elements of the array. The chunk is one
    /// that it reads.
    pub fn read_of(&self, chunk_origin: &[u64]) -> ArrayVec<(u64, u64), RANK_MAX> {
        let of_axis = |axis: usize| {
            let (first, limit) = self.chunk_range(axis, chunk_origin);
            let (walk, extent) = (&self.shape.axes[axis], self.record.shape[axis]);
            if walk.step().0 == 1 {
                let (low, high) = walk_range(walk, extent, self.pad).unwrap_or((first, limit));
                return (first.max(low), limit.min(high));
            }
            let Some(run) = self.view(axis).runs(self.pad, (first, limit)).next() else {
                return (first, limit);
            };
            let (low, high) = (run.source.min(run.last()), run.source.max(run.last()));
            (first + low, first + high + 1)
        };
        (0..self.record.axes()).map(of_axis).collect()
    }

    /// Calls `each` for every block of the box that the chunk fills. Without padding there is at
    /// most one; reflection makes one per combination of segments.
    pub fn for_each_block(&self, chunk_origin: &[u64], each: &mut dyn FnMut(&Block)) {
        self.for_each_row_block(chunk_origin, false, &mut |block, _| each(block));
    }

    /// The same; if rows of several segments may be folded, blocks are of their first elements, and
    /// `each` gets the fold, if there is one.
    pub fn for_each_row_block(
        &self,
        chunk_origin: &[u64],
        folds: bool,
        each: &mut dyn FnMut(&Block, Option<&RowFold>),
    ) {
        assert!(chunk_origin.len() == self.record.axes());
        let mut current = ArrayVec::<Run, RANK_MAX>::new();
        // Axes of several runs: the first run, those behind it, and those of them that are left.
        let mut several = ArrayVec::<(usize, Run, WalkRuns, WalkRuns), RANK_MAX>::new();
        let mut fold = None;
        for axis in 0..self.record.axes() {
            let Some((run, others)) = self.chunk_runs(axis, chunk_origin) else { return };
            current.push(run);
            let Some(others) = others.filter(|others| others.clone().next().is_some()) else {
                continue;
            };
            if folds && let Some((run, folded)) = self.fold_of(axis, run, others.clone()) {
                (current[axis], fold) = (run, Some(folded));
            } else {
                several.push((axis, run, others.clone(), others));
            }
        }
        let mut turned = IN_ORDER;
        let order = self.order(&mut turned);
        // One turn per combination of runs, innermost axis fastest.
        loop {
            each(&self.block(&current, order), fold.as_ref());
            let mut at = several.len();
            loop {
                if at == 0 {
                    return;
                }
                at -= 1;
                let (axis, first, others, left) = &mut several[at];
                if let Some(run) = left.next() {
                    current[*axis] = run;
                    break;
                }
                (current[*axis], *left) = (*first, others.clone());
            }
        }
    }

    /// An axis whose elements are side by side on both sides, of several runs, as a fold, and the
    /// run of its first element. None if the runs have places of other chunks between them.
    fn fold_of(&self, axis: usize, first: Run, others: WalkRuns) -> Option<(Run, RowFold)> {
        let is_dense = self.step(axis) == self.target_bytes()
            && self.record.chunk_strides[axis] == i64::from(self.record.dtype_bytes);
        if !is_dense {
            return None;
        }
        let mut runs = ArrayVec::<_, FOLD_RUNS_MAX>::new();
        let (mut limit, mut low) = (first.target, u64::MAX);
        for run in iter::once(first).chain(others) {
            if run.target != limit {
                return None;
            }
            runs.try_push((run.source, run.step, run.length)).ok()?;
            limit += run.length;
            low = low.min(run.source).min(run.last());
        }
        let fold = RowFold::new(&runs, low)?;
        Some((Run { source: low, length: 1, ..first }, fold))
    }

    /// Everything that the chunk fills, as one block; None where that is nothing.
    pub fn folded_block(&self, chunk_origin: &[u64]) -> Option<FoldedBlock> {
        let mut current = ArrayVec::<Run, RANK_MAX>::new();
        let mut folds = [None; RANK_MAX];
        assert!(chunk_origin.len() == self.record.axes());
        for axis in 0..self.record.axes() {
            let (head, others) = self.chunk_runs(axis, chunk_origin)?;
            let (tail, count) = others
                .into_iter()
                .flatten()
                .take(FOLD_RUNS_MAX)
                .fold((head, 0), |(_, count), run| (run, count + 1));
            if count == 0 {
                current.push(head);
                continue;
            }
            let limit =
                if count < FOLD_RUNS_MAX { tail.target + tail.length } else { self.places(axis) };
            let (chunk_first, chunk_limit) = self.chunk_range(axis, chunk_origin);
            // Of the chunk no more than what the box reads, because no more may be there.
            let extent = self.record.shape[axis];
            let (low, high) =
                walk_range(&self.shape.axes[axis], extent, self.pad).unwrap_or((0, 0));
            let view = self.view(axis);
            let (first, behind) = view.interval((chunk_first.max(low), chunk_limit.min(high)));
            let (source, step) = view.element(first, chunk_first);
            let length = limit - head.target;
            current.push(Run { target: head.target, source, length, step });
            let begin = view.begin + head.target as i64;
            folds[axis] = Some(AxisFold { begin, extent, first, limit: behind });
        }
        let mut turned = IN_ORDER;
        let order = self.order(&mut turned);
        let folds = order.iter().map(|axis| folds[usize::from(*axis)]).collect();
        Some(FoldedBlock { block: self.block(&current, order), folds })
    }

    /// Places of an axis that the array covers: first and limit, counted from the box's begin.
    fn inside(&self, axis: usize) -> (u64, u64) {
        if self.shape.axes[axis].step().0 > 1 {
            return (0, self.places(axis));
        }
        let begin = i128::from(self.view(axis).begin);
        let place = |at: i128| (at - begin).clamp(0, i128::from(self.places(axis))) as u64;
        (place(0), place(i128::from(self.record.shape[axis])))
    }

    /// Whether the box has places outside of the array.
    pub fn has_outside(&self) -> bool {
        (0..self.record.axes()).any(|axis| self.inside(axis) != (0, self.places(axis)))
    }

    /// The places inside of the array along each axis of the field that the box goes to; None if
    /// there are none.
    pub fn inside_ranges(&self) -> Option<[(u64, u64); RANK_MAX]> {
        let mut ranges = [(0, u64::MAX); RANK_MAX];
        let mut rest = self.first;
        let mut begin = [0; RANK_MAX];
        for (axis, begin) in begin.iter_mut().enumerate() {
            // Axes that the field lacks have no stride.
            if let Some(place) = rest.checked_div(self.strides[axis]) {
                *begin = place;
                rest %= self.strides[axis];
            }
        }
        for axis in 0..self.record.axes() {
            let (first, limit) = self.inside(axis);
            if first >= limit {
                return None;
            }
            if let Some(to) = self.shape.axes[axis].to() {
                ranges[to] = (begin[to] + first, begin[to] + limit);
            }
        }
        Some(ranges)
    }

    fn block(&self, current: &[Run], order: &[u8]) -> Block {
        let mut block = Block { axes: ArrayVec::new(), source: 0, target: self.first };
        let mut source = 0i64;
        for axis in order.iter().map(|axis| usize::from(*axis)) {
            let (run, stride) = (&current[axis], self.record.chunk_strides[axis]);
            source += run.source as i64 * stride;
            block.target += run.target * self.step(axis);
            block.axes.push(BlockAxis {
                length: run.length,
                source_step: run.step * stride,
                target_step: self.step(axis),
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
        let mut turned = IN_ORDER;
        let order = self.order(&mut turned);
        // What lies outside along one axis and inside along all axes before it, axis by axis.
        let axes = order.iter().map(|axis| usize::from(*axis));
        for (rank, outside) in axes.clone().enumerate() {
            let (first, limit) = self.inside(outside);
            for (first, limit) in [(0, first), (limit, self.places(outside))] {
                let mut block = Block { axes: ArrayVec::new(), source: 0, target: self.first };
                for (place, axis) in axes.clone().enumerate() {
                    let (first, limit) = match place {
                        place if place < rank => self.inside(axis),
                        place if place == rank => (first, limit),
                        _ => (0, self.places(axis)),
                    };
                    block.target += first * self.step(axis);
                    block.axes.push(BlockAxis {
                        length: limit - first,
                        source_step: 0,
                        target_step: self.step(axis),
                    });
                }
                if block.element_count() > 0 {
                    each(&block);
                }
            }
        }
    }
}
