//! The cost of an epoch in a chunk-aware shuffle, before it runs.

use super::boxes::{Arrays, Boxes, End};
use super::random::mix;
use super::{ChunkShuffle, Misfit, Place, State};
use crate::base::limits::RANK_MAX;
use core::borrow::Borrow;

/// Chunks that an epoch in a chunk-aware shuffle decodes, whatever it is dealt to.
///
/// Between the two lies what a cache keeps from one shuffle window to the next. Of ranks that share
/// a window, behind the last whole round, each decodes what it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cost {
    /// At least: each chunk that any box touches, once. Of grids that jitter, the chunks that boxes
    /// belong to.
    pub distinct: u64,
    /// At most, if those of two shuffle windows fit into the cache: the distinct chunks of each
    /// window, added up.
    pub windows: u64,
    /// Distinct chunks of the shuffle window that has most: half a cache.
    pub largest: u64,
}

/// The chunks that a shuffle window has met: a hash table in the lower part of the memory, and a
/// list of what it holds after that.
struct Met<'a> {
    table: &'a mut [u64],
    list: &'a mut [u64],
    count: usize,
}

impl Met<'_> {
    /// None where there is no memory at all.
    fn new(words: &mut [u64]) -> Option<Met<'_>> {
        let mut slots = 1;
        while slots <= words.len() / 3 {
            slots *= 2;
        }
        let (table, list) = words.split_at_mut_checked(slots)?;
        table.fill(0);
        let list = list.get_mut(..slots / 2)?;
        Some(Met { table, list, count: 0 })
    }

    /// Notes a chunk; false where there is no room.
    fn note(&mut self, chunk: u64) -> bool {
        let mask = self.table.len() - 1;
        let mut slot = mix(1, chunk) as usize & mask;
        while self.table[slot] != 0 {
            if self.table[slot] == chunk + 1 {
                return true;
            }
            slot = (slot + 1) & mask;
        }
        let Some(place) = self.list.get_mut(self.count) else { return false };
        *place = slot as u64;
        self.table[slot] = chunk + 1;
        self.count += 1;
        true
    }

    /// Notes the chunks that a box touches.
    fn note_box(&mut self, boxes: &Boxes, chunks_before: u64, begin: &[i64]) -> bool {
        let mut touched = [(0, 1); RANK_MAX];
        for ((axis, begin), touched) in boxes.axes().iter().zip(begin).zip(&mut touched) {
            *touched = axis.touched(*begin);
            if touched.1 == 0 {
                return true;
            }
        }
        let mut at = [0; RANK_MAX];
        loop {
            let mut chunk = 0;
            for (axis, ((first, _), at)) in boxes.axes().iter().zip(touched.iter().zip(&at)) {
                chunk = chunk * axis.chunks() + first + at;
            }
            if !self.note(chunks_before + chunk) {
                return false;
            }
            let rank = boxes.axes().len();
            let Some(next) = (0..rank).rev().find(|axis| at[*axis] + 1 < touched[*axis].1) else {
                return true;
            };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }

    /// Forgets them, and says how many there were.
    fn end_window(&mut self) -> u64 {
        for slot in &self.list[..self.count] {
            self.table[*slot as usize] = 0;
        }
        core::mem::take(&mut self.count) as u64
    }
}

/// Distinct chunks along an axis that boxes of the grid touch, or, where they jitter, that boxes
/// belong to.
fn distinct_along(boxes: &Boxes, axis: usize) -> u64 {
    let axis = &boxes.axes()[axis];
    let (mut count, mut next) = (0, 0);
    for number in 0..axis.count {
        let (first, touched) = match boxes.jitters() {
            true => (axis.block(number), 1),
            false => axis.touched(axis.begin(number)),
        };
        if first + touched > next {
            count += first + touched - first.max(next);
            next = first + touched;
        }
    }
    count
}

/// The cost of the epoch that `shuffle` is in as a whole; it has as many samples as `arrays` has
/// boxes. It looks at every box once.
///
/// `words` is memory for the chunks of a shuffle window: six words for each of them do.
/// [`Misfit::Memory`] says that it was too little.
pub fn cost(
    shuffle: &ChunkShuffle,
    arrays: &Arrays<'_>,
    words: &mut [u64],
) -> Result<Cost, Misfit> {
    cost_of(shuffle, arrays.ends(), |array| Ok(&arrays.boxes()[array]), words)
}

/// The same of grids that are made when they are asked for, by the number of their array.
pub(crate) fn cost_of<B: Borrow<Boxes>>(
    shuffle: &ChunkShuffle,
    ends: &[End],
    grid: impl Fn(usize) -> Result<B, Misfit>,
    words: &mut [u64],
) -> Result<Cost, Misfit> {
    let mut met = Met::new(words).ok_or(Misfit::Memory)?;
    let (mut cost, mut sum) = (Cost::default(), End::default());
    for (array, end) in ends.iter().enumerate() {
        let boxes = grid(array)?;
        sum = sum.with(boxes.borrow())?;
        if sum != *end {
            return Err(Misfit::Samples);
        }
        let along = |axis| distinct_along(boxes.borrow(), axis);
        cost.distinct += (0..boxes.borrow().axes().len()).map(along).product::<u64>();
    }
    if ends.is_empty() || sum.boxes != shuffle.samples() {
        return Err(Misfit::Samples);
    }
    let (State { seed, epoch, .. }, window) = (shuffle.state(), shuffle.window_samples());
    for position in 0..shuffle.samples() {
        let sample = shuffle.at(Place { epoch, position }).ok_or(Misfit::Samples)?;
        let (array, number) = End::find(ends, sample).ok_or(Misfit::Samples)?;
        let boxes = grid(array)?;
        let begin = boxes.borrow().at(number, seed, epoch).ok_or(Misfit::Grid)?;
        if !met.note_box(boxes.borrow(), End::before(ends, array).chunks, &begin) {
            return Err(Misfit::Memory);
        }
        if (position + 1).is_multiple_of(window) || position + 1 == shuffle.samples() {
            let count = met.end_window();
            cost.windows += count;
            cost.largest = cost.largest.max(count);
        }
    }
    Ok(cost)
}
