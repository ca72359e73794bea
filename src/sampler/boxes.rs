//! Boxes of one shape in an array: on a grid, anywhere, or around a point.

use super::random::{below, key, purpose};
use super::{Misfit, Place, SAMPLES_MAX};
use crate::base::limits::RANK_MAX;
use arrayvec::ArrayVec;

/// Numbers of a grid are at most this.
const NUMBER_MAX: u64 = 1 << 60;

/// Where a box begins, by axis. It ends the extents of a box later.
pub type Begin = ArrayVec<i64, RANK_MAX>;

/// Boxes of one shape in an array. Lists that are left out are zeros.
///
/// Where an array is smaller than the box and its margins, there is one box along that axis, the
/// array in its middle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grid<'a> {
    /// Of the array.
    pub shape: &'a [u64],
    /// Extents of a box, at least 1.
    pub extents: &'a [u64],
    /// From box to box; 0: side by side.
    pub step: &'a [u64],
    /// How far a box may stick out of the array at both ends: less than it is long.
    pub margin: &'a [u64],
    /// What is decoded at a time; 0: the whole axis.
    pub chunk: &'a [u64],
    /// A box of the grid begins anywhere in its cell, elsewhere in each epoch: up to where the next
    /// box begins or its chunk ends.
    pub jitters: bool,
}

/// An axis of the grid, counted from where the first box begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Axis {
    pub shape: u64,
    pub extent: u64,
    pub step: u64,
    pub chunk: u64,
    /// Places of the first box in front of the array.
    before: u64,
    /// Where the last box may begin.
    room: u64,
    pub count: u64,
}

impl Axis {
    /// None where the array is empty, or a number is not allowed.
    fn new(shape: u64, extent: u64, step: u64, margin: u64, chunk: u64) -> Option<Axis> {
        let step = if step == 0 { extent } else { step };
        let chunk = if chunk == 0 { shape } else { chunk };
        let is_small = [shape, extent, step, chunk].iter().all(|number| *number <= NUMBER_MAX);
        if shape == 0 || extent == 0 || !is_small || margin >= extent {
            return None;
        }
        let room = (shape + 2 * margin).checked_sub(extent);
        let before = if room.is_some() { margin } else { (extent - shape) / 2 };
        let room = room.unwrap_or(0);
        Some(Axis { shape, extent, step, chunk, before, room, count: room / step + 1 })
    }

    /// Chunks along the axis.
    pub fn chunks(&self) -> u64 {
        (self.shape - 1) / self.chunk + 1
    }

    /// Where a box of the grid begins.
    pub fn begin(&self, number: u64) -> i64 {
        (number * self.step) as i64 - self.before as i64
    }

    /// The chunk that a box of the grid belongs to: where it begins, or the nearest to that.
    pub fn block(&self, number: u64) -> u64 {
        let place = (number * self.step).saturating_sub(self.before);
        place.min(self.shape - 1) / self.chunk
    }

    /// The first box of the grid that belongs to a chunk or to one behind it.
    fn first(&self, block: u64) -> u64 {
        if block == 0 {
            return 0;
        }
        if block >= self.chunks() {
            return self.count;
        }
        ((block * self.chunk + self.before - 1) / self.step + 1).min(self.count)
    }

    /// Places that a box of the grid may begin at, from that of the grid on.
    fn cell(&self, number: u64) -> u64 {
        let (at, block) = (number * self.step, self.block(number));
        let cell = self.step.min(self.room + 1 - at);
        if block + 1 == self.chunks() {
            return cell;
        }
        // A cell ends with its chunk, so that boxes do not leave the chunk that they belong to.
        cell.min((block + 1) * self.chunk + self.before - at)
    }

    /// The chunks that a box touches: the first, and how many.
    pub fn touched(&self, begin: i64) -> (u64, u64) {
        let last = begin + self.extent as i64 - 1;
        let from = begin.max(0) as u64;
        if last < 0 || from >= self.shape {
            return (from / self.chunk, 0);
        }
        let to = (last as u64).min(self.shape - 1);
        (from / self.chunk, to / self.chunk - from / self.chunk + 1)
    }
}

/// Where boxes of a [`Grid`] begin.
#[derive(Clone, Debug)]
pub struct Boxes {
    axes: ArrayVec<Axis, RANK_MAX>,
    jitters: bool,
    count: u64,
}

impl Boxes {
    /// Checks a grid, which has [`SAMPLES_MAX`] boxes at most.
    pub fn new(grid: Grid<'_>) -> Result<Boxes, Misfit> {
        let rank = grid.shape.len();
        let lists = [grid.step, grid.margin, grid.chunk];
        let fits = |list: &&[u64]| list.is_empty() || list.len() == rank;
        if rank > RANK_MAX || grid.extents.len() != rank || !lists.iter().all(fits) {
            return Err(Misfit::Grid);
        }
        let mut axes = ArrayVec::new();
        let mut count = 1u64;
        for axis in 0..rank {
            let of = |list: &[u64]| list.get(axis).copied().unwrap_or(0);
            let [step, margin, chunk] = lists.map(of);
            let axis = Axis::new(grid.shape[axis], grid.extents[axis], step, margin, chunk)
                .ok_or(Misfit::Grid)?;
            count = count.checked_mul(axis.count).ok_or(Misfit::Grid)?;
            axes.push(axis);
        }
        if count > SAMPLES_MAX {
            return Err(Misfit::Grid);
        }
        Ok(Boxes { axes, jitters: grid.jitters, count })
    }

    /// Boxes of the grid, at least 1.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Boxes of the grid that belong to a chunk that lies in the middle: what a run of a
    /// [`super::ChunkShuffle`] is made of. Where their numbers differ, their mean, rounded.
    pub fn per_chunk(&self) -> u64 {
        let along = |axis: &Axis| ((axis.chunk + axis.step / 2) / axis.step).clamp(1, axis.count);
        self.axes.iter().map(along).product()
    }

    /// Axes of a box.
    pub(crate) fn rank(&self) -> usize {
        self.axes.len()
    }

    pub(super) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    pub(super) fn jitters(&self) -> bool {
        self.jitters
    }

    /// Where a box of the grid begins, by its number. Boxes are numbered chunk by chunk, in
    /// row-major order of the chunks that they belong to, and in row-major order within a chunk.
    /// `epoch` matters to a grid that jitters. None where there is no such box.
    pub fn at(&self, number: u64, seed: u64, epoch: u64) -> Option<Begin> {
        if number >= self.count {
            return None;
        }
        let key = key(seed, epoch, purpose::BOX);
        let (mut after, mut within, mut rest) = (self.count, 1, number);
        let mut parts = [(0, 1); RANK_MAX];
        for (axis, (first, count)) in self.axes.iter().zip(&mut parts) {
            after /= axis.count;
            // Boxes in chunks before this one along the axis come first, each with all those of the
            // axes behind, and `within` of them side by side along the axes in front.
            let block = axis.block(rest / (within * after));
            *first = axis.first(block);
            *count = axis.first(block + 1) - *first;
            rest -= *first * (within * after);
            within *= *count;
        }
        let mut begin = Begin::new();
        for (lane, (axis, (first, count))) in (0..).zip(self.axes.iter().zip(parts)) {
            within /= count;
            let along = first + rest / within % count;
            let mut at = axis.begin(along);
            if self.jitters {
                at += below(axis.cell(along), key, number, lane) as i64;
            }
            begin.push(at);
        }
        Some(begin)
    }

    /// Where a box begins that may lie anywhere, all places equally likely; the step does not
    /// matter.
    pub fn anywhere(&self, seed: u64, place: Place) -> Begin {
        let key = key(seed, place.epoch, purpose::BOX);
        let begin = |(lane, axis): (u32, &Axis)| {
            below(axis.room + 1, key, place.position, lane) as i64 - axis.before as i64
        };
        (0..).zip(&self.axes).map(begin).collect()
    }

    /// Where a box begins that holds a point of the array, all such places equally likely: boxes
    /// inside a mask's foreground, from a table of its points, or around what belongs to a class.
    /// None where the point lies outside, or has other axes.
    pub fn around(&self, point: &[u64], seed: u64, place: Place) -> Option<Begin> {
        let is_inside = |(axis, at): (&Axis, &u64)| *at < axis.shape;
        if point.len() != self.axes.len() || !self.axes.iter().zip(point).all(is_inside) {
            return None;
        }
        let key = key(seed, place.epoch, purpose::POINT);
        let begin = |(lane, (axis, point)): (u32, (&Axis, &u64))| {
            let at = point + axis.before;
            let (low, high) = (at.saturating_sub(axis.extent - 1), at.min(axis.room));
            let drawn = low + below(high - low + 1, key, place.position, lane);
            drawn as i64 - axis.before as i64
        };
        Some((0..).zip(self.axes.iter().zip(point)).map(begin).collect())
    }

    /// Every box of the grid in one epoch, in the order of their numbers.
    pub fn places(&self, seed: u64, epoch: u64) -> BoxPlaces<'_> {
        BoxPlaces { boxes: self, seed, epoch, next: 0 }
    }
}

/// What [`Boxes::places`] gives.
#[derive(Clone, Debug)]
pub struct BoxPlaces<'a> {
    boxes: &'a Boxes,
    seed: u64,
    epoch: u64,
    next: u64,
}

impl Iterator for BoxPlaces<'_> {
    type Item = Begin;

    fn next(&mut self) -> Option<Begin> {
        let begin = self.boxes.at(self.next, self.seed, self.epoch)?;
        self.next += 1;
        Some(begin)
    }
}

/// Boxes and chunks of arrays up to one, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct End {
    /// Boxes.
    pub boxes: u64,
    /// Chunks.
    pub chunks: u64,
}

impl End {
    /// With those of one more array.
    pub(crate) fn with(self, grid: &Boxes) -> Result<End, Misfit> {
        let mut chunks = 1u64;
        for axis in grid.axes() {
            let product = chunks.checked_mul(axis.chunks());
            chunks = product.filter(|all| *all <= SAMPLES_MAX).ok_or(Misfit::Grid)?;
        }
        let end = End { boxes: self.boxes + grid.count(), chunks: self.chunks + chunks };
        let fits = end.boxes <= SAMPLES_MAX && end.chunks <= SAMPLES_MAX;
        if fits { Ok(end) } else { Err(Misfit::Grid) }
    }

    /// Those before an array.
    pub(super) fn before(ends: &[End], array: usize) -> End {
        array.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default()
    }

    /// The array that a sample lies in, and the number of its box there. None where there is none.
    pub(crate) fn find(ends: &[End], sample: u64) -> Option<(usize, u64)> {
        let array = ends.partition_point(|end| end.boxes <= sample);
        let number = sample.checked_sub(End::before(ends, array).boxes)?;
        (array < ends.len()).then_some((array, number))
    }
}

/// Grids of several arrays, whose boxes are numbered one after another.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    boxes: &'a [Boxes],
    ends: &'a [End],
}

impl<'a> Arrays<'a> {
    /// Adds the grids up. `ends` is memory for as many.
    pub fn new(boxes: &'a [Boxes], ends: &'a mut [End]) -> Result<Arrays<'a>, Misfit> {
        if ends.len() != boxes.len() {
            return Err(Misfit::Memory);
        }
        let mut sum = End::default();
        for (grid, end) in boxes.iter().zip(ends.iter_mut()) {
            sum = sum.with(grid)?;
            *end = sum;
        }
        Ok(Arrays { boxes, ends })
    }

    /// Boxes of all: the samples of an epoch.
    pub fn count(&self) -> u64 {
        self.ends.last().map_or(0, |end| end.boxes)
    }

    /// Boxes and chunks up to each array.
    pub fn ends(&self) -> &'a [End] {
        self.ends
    }

    /// The grid of each array.
    pub fn boxes(&self) -> &'a [Boxes] {
        self.boxes
    }

    /// The array that a sample lies in, and the number of its box there. None where there is none.
    pub fn find(&self, sample: u64) -> Option<(usize, u64)> {
        End::find(self.ends, sample)
    }
}
