//! Boxes of a field that are erased, as runs of places in what is being written.
//!
//! In: a block of the field that is about to be written, then its rows. Out: where the next erased
//! place is, and rows of floats with the values in them. Invariant: what lies outside of the block
//! is not a run, so that a chunk next to an erased box takes no time for it.
//!
//! Places are those of the field, row-major. A run ends where the next place is not erased: in a
//! field of (2, 4, 8) the box (0..2, 1..3, 0..8) has runs of 16 places from 8 and 40 on.

use super::block::Block;
use crate::base::abi::ERASES_MAX;
use crate::base::limits::RANK_MAX;
use crate::base::math::index;
use crate::loops::augment::{FloatBytes, Hole, one_nan};
use crate::records::{Augment, Erased};
use arrayvec::ArrayVec;

/// The axes of a field.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    pub extents: &'a [u64],
    /// Elements from one place to the next along each axis.
    pub strides: [u64; RANK_MAX],
    /// Bytes of an element.
    pub bytes: u64,
}

/// First place along an axis, and one past the last.
pub type Range = (u64, u64);

impl<'a> Layout<'a> {
    /// The layout of a field of `extents`.
    pub fn new(extents: &'a [u64], bytes: u64) -> Layout<'a> {
        let (mut strides, mut stride) = ([1; RANK_MAX], 1);
        for axis in (0..extents.len()).rev() {
            strides[axis] = stride;
            stride *= extents[axis];
        }
        Layout { extents, strides, bytes }
    }

    /// The part of a block of the field that lies in a range along each of the field's axes, and
    /// its own ranges; None where there is none.
    pub fn cut(
        &self,
        block: &Block,
        range: impl Fn(usize) -> Range,
    ) -> Option<(Block, [Range; RANK_MAX])> {
        let mut rest = block.target / self.bytes;
        let mut part = Block { axes: block.axes.clone(), ..*block };
        let (mut source, mut ranges) = (block.source as i64, [(0, 1); RANK_MAX]);
        for (axis, extent) in self.extents.iter().enumerate() {
            let (stride, place) = (self.strides[axis], rest / self.strides[axis]);
            rest %= stride;
            let (first, limit) = range(axis);
            // All axes of one distance but one have one place.
            let mut axes = part.axes.iter_mut();
            let along = axes.find(|along| {
                along.length > 1 && along.target_step == stride * self.bytes && *extent > 1
            });
            let length = along.as_ref().map_or(1, |along| along.length);
            let (low, high) = (first.max(place), limit.min(place + length));
            if low >= high {
                return None;
            }
            ranges[axis] = (low, high);
            let Some(along) = along else { continue };
            along.length = high - low;
            part.target += (low - place) * along.target_step;
            source += (low - place) as i64 * along.source_step;
        }
        part.source = source as u64;
        Some((part, ranges))
    }
}

/// The boxes that are erased in a block.
pub struct Erasing<'a> {
    layout: Layout<'a>,
    channel_axis: usize,
    boxes: ArrayVec<Cut<'a>, ERASES_MAX>,
}

impl<'a> Erasing<'a> {
    /// None of a block where nothing is erased.
    pub fn of(block: &Block, augment: &Augment<'a>, layout: Layout<'a>) -> Option<Erasing<'a>> {
        let cut = |erased: Erased<'a>| {
            let (_, ranges) = layout.cut(block, |axis| erased.range(axis))?;
            let is_whole = |axis: usize| ranges[axis] == (0, layout.extents[axis]);
            let run_axis = (1..layout.extents.len()).rev().find(|axis| !is_whole(*axis));
            let run_axis = run_axis.unwrap_or(0);
            Some(Cut { erased, ranges, run_axis, runs: Runs::NONE })
        };
        let boxes: ArrayVec<_, ERASES_MAX> = augment.erased().filter_map(cut).collect();
        let channel_axis = augment.channel_axis();
        (!boxes.is_empty()).then_some(Erasing { layout, channel_axis, boxes })
    }

    /// The first erased place from one on; `u64::MAX` if there is none.
    pub fn next(&mut self, from: u64) -> u64 {
        let layout = &self.layout;
        let of = |cut: &mut Cut<'_>| cut.run(layout, from).0.max(from);
        self.boxes.iter_mut().map(of).min().unwrap_or(u64::MAX)
    }

    /// The erased places of a row of one channel, and how many of `rows` rows, `pitch` apart, have
    /// theirs at the same places. None if the row has several runs of them.
    pub fn hole(
        &mut self,
        (first, length): (u64, u64),
        (pitch, rows): (u64, u64),
    ) -> Option<(Hole, u64)> {
        let (layout, limit) = (&self.layout, first + length);
        let (mut found, mut count) = (None, rows);
        // Rows before the one that reaches past a place, of which the first ends before it.
        let rows_before = |place: u64| ((place - limit) / pitch.max(1)).saturating_add(1);
        for cut in &mut self.boxes {
            let (begin, end) = cut.run(layout, first);
            if begin >= limit {
                count = count.min(rows_before(begin));
                continue;
            }
            if found.is_some() || cut.next_run(layout) < limit {
                return None;
            }
            let alike = match (begin < first, limit < end) {
                (false, false) => cut.rows_alike(pitch),
                _ if begin <= first && limit <= end => rows_before(end),
                _ => 1,
            };
            (found, count) =
                (Some((cut.erased, begin.max(first), end.min(limit))), count.min(alike));
        }
        let Some((erased, begin, end)) = found else { return Some((Hole::NONE, count)) };
        let channels = erased.channels() as u64;
        let channel = first / layout.strides[self.channel_axis] % channels;
        let value = one_nan(erased.value(index(channel)));
        Some((Hole { first: index(begin - first), limit: index(end - first), value }, count))
    }

    /// Writes the values over what is erased of a row whose first place is `first`: where boxes
    /// overlap, those of the last one.
    pub fn erase(&mut self, row: &mut [FloatBytes], first: u64) {
        let (layout, limit) = (&self.layout, first + row.len() as u64);
        for cut in &mut self.boxes {
            let mut at = first;
            // Ends: every turn is a run further.
            while at < limit {
                let (begin, end) = cut.run(layout, at);
                if begin >= limit {
                    break;
                }
                let (begin, end) = (begin.max(at), end.min(limit));
                let places = &mut row[index(begin - first)..index(end - first)];
                fill(places, &cut.erased, begin, layout.strides[self.channel_axis]);
                at = end;
            }
        }
    }
}

/// Writes an erased box's values at places from one on; channels are `inner` places long.
fn fill(places: &mut [FloatBytes], erased: &Erased<'_>, first: u64, inner: u64) {
    let channels = erased.channels() as u64;
    if channels == 1 {
        return places.fill(one_nan(erased.value(0)).to_ne_bytes());
    }
    let (mut channel, mut left) = (first / inner % channels, inner - first % inner);
    let mut rest = places;
    while !rest.is_empty() {
        let (places, others) = rest.split_at_mut(index(left.min(rest.len() as u64)));
        places.fill(one_nan(erased.value(index(channel))).to_ne_bytes());
        (rest, left) = (others, inner);
        channel = if channel + 1 == channels { 0 } else { channel + 1 };
    }
}

/// A box that is erased in part of a block.
struct Cut<'a> {
    erased: Erased<'a>,
    /// Its ranges there.
    ranges: [Range; RANK_MAX],
    /// The last axis along which it is not all of the field: a run is a range of it.
    run_axis: usize,
    runs: Runs,
}

/// A run, and those after it at equal distances.
#[derive(Clone, Copy)]
struct Runs {
    /// The place from which on this was looked for.
    since: u64,
    /// Its first place, and one past its last.
    run: Range,
    /// Places to the next one.
    step: u64,
    /// How many there are after it.
    left: u64,
}

impl Runs {
    /// Nothing was looked for.
    const NONE: Runs = Runs { since: u64::MAX, run: (0, 0), step: 0, left: 0 };
    /// There is no further one.
    const END: Range = (u64::MAX, u64::MAX);
}

impl Cut<'_> {
    /// The first run that ends after a place.
    #[inline]
    fn run(&mut self, layout: &Layout<'_>, from: u64) -> Range {
        let Runs { since, run, step, left } = self.runs;
        if from >= since && from < run.1 {
            return run;
        }
        if from >= since && left > 0 {
            // Mostly the next one.
            let steps = if from - run.1 < step { 1 } else { (from - run.1) / step + 1 };
            if steps <= left {
                let run = (run.0 + steps * step, run.1 + steps * step);
                self.runs = Runs { since: from, run, step, left: left - steps };
                return run;
            }
        }
        self.runs = self.seek(layout, from);
        self.runs.run
    }

    /// The first place of the run after the last one that was found.
    fn next_run(&self, layout: &Layout<'_>) -> u64 {
        let Runs { run, step, left, .. } = self.runs;
        if left > 0 { run.0 + step } else { self.seek(layout, run.1).run.0 }
    }

    /// The rows, `pitch` apart, that have runs at the same places, from that of the last one that
    /// was found on.
    fn rows_alike(&self, pitch: u64) -> u64 {
        if self.runs.step == pitch { self.runs.left + 1 } else { 1 }
    }

    #[inline(never)] // once for many rows
    fn seek(&self, layout: &Layout<'_>, from: u64) -> Runs {
        let (ranges, strides, last) = (&self.ranges, &layout.strides, self.run_axis);
        let (mut at, mut rest) = ([0; RANK_MAX], from);
        for axis in 0..=last {
            at[axis] = rest / strides[axis];
            rest %= strides[axis];
        }
        // Along the first axis that is out of its range all after it begin anew; if it is past the
        // range, one before it takes a step.
        let is_in = |axis: &usize| (ranges[*axis].0..ranges[*axis].1).contains(&at[*axis]);
        let mut axis = (0..=last).find(|axis| !is_in(axis)).unwrap_or(last);
        let is_past = at[axis] >= ranges[axis].1;
        while at[axis] >= ranges[axis].1 {
            if axis == 0 {
                return Runs { since: from, run: Runs::END, step: 0, left: 0 };
            }
            axis -= 1;
            at[axis] += 1;
        }
        let anew = if is_past { axis + 1 } else { axis };
        for axis in anew..=last {
            at[axis] = ranges[axis].0;
        }
        at[last] = ranges[last].0;
        let first = (0..=last).map(|axis| at[axis] * strides[axis]).sum();
        let length = (ranges[last].1 - ranges[last].0) * strides[last];
        let (step, left) = match last.checked_sub(1) {
            Some(axis) => (strides[axis], ranges[axis].1 - 1 - at[axis]),
            None => (0, 0),
        };
        Runs { since: from, run: (first, first + length), step, left }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::BlockAxis;
    use super::*;
    use crate::records::{AugmentHead, AugmentWords};
    use std::vec;
    use std::vec::Vec;

    const EXTENTS: [u64; 3] = [4, 5, 6];

    fn block(first: [u64; 3], lengths: [u64; 3]) -> Block {
        let strides = [120, 24, 4];
        let axes = (0..3).map(|axis| BlockAxis {
            length: lengths[axis],
            source_step: 0,
            target_step: strides[axis],
        });
        let target = (0..3).map(|axis| first[axis] * strides[axis]).sum();
        Block { axes: axes.collect(), source: 0, target }
    }

    /// Calls `each` with each pair of a box and a block along one axis, at all three, and with what
    /// is erased.
    fn for_each_case(mut each: impl FnMut(&mut Erasing<'_>, &dyn Fn(u64) -> bool)) {
        let ranges = |extent: u64| {
            let every = (0..extent).flat_map(move |low| (low + 1..=extent).map(move |n| (low, n)));
            every.filter(move |range| (range.0 + range.1) % 2 == 1 || *range == (0, extent))
        };
        let boxes: Vec<[Range; 3]> = ranges(4)
            .flat_map(|a| ranges(5).flat_map(move |b| ranges(6).map(move |c| [a, b, c])))
            .collect();
        let blocks = [([0; 3], EXTENTS), ([1, 0, 2], [2, 5, 3]), ([3, 4, 1], [1, 1, 4])];
        for (number, ranges) in boxes.iter().enumerate() {
            let mut words = AugmentWords::default();
            assert!(words.begin(&AugmentHead::default(), 3, [].into_iter(), [].into_iter()));
            let [begin, end] = [ranges.map(|range| range.0), ranges.map(|range| range.1)];
            assert!(words.erase(&begin, &end, [1.0].into_iter()));
            let augment = words.view().expect("words");
            let (first, lengths) = blocks[number % 3];
            let is_in = |place: u64| {
                let at = [place / 30, place / 6 % 5, place % 6];
                (0..3).all(|axis| {
                    let block = first[axis]..first[axis] + lengths[axis];
                    (begin[axis]..end[axis]).contains(&at[axis]) && block.contains(&at[axis])
                })
            };
            let layout = Layout::new(&EXTENTS, 4);
            match Erasing::of(&block(first, lengths), &augment, layout) {
                Some(mut erasing) => each(&mut erasing, &is_in),
                None => assert!(!(0..120).any(is_in)),
            }
        }
    }

    #[test]
    fn runs_are_the_places_of_the_box_in_the_block() {
        for_each_case(|erasing, is_in| {
            for length in [1, 6, 7, 40] {
                let expected = |from: u64| (from..120).find(|place| is_in(*place));
                for place in (0..120).step_by(length as usize).chain([17, 3]) {
                    assert_eq!(erasing.next(place), expected(place).unwrap_or(u64::MAX));
                    let mut row = vec![0.0f32.to_ne_bytes(); length as usize];
                    erasing.erase(&mut row, place);
                    for (place, float) in (place..).zip(row) {
                        assert_eq!(f32::from_ne_bytes(float) == 1.0, is_in(place));
                    }
                }
            }
        });
    }

    #[test]
    fn a_hole_is_what_is_erased_of_rows_that_have_it_at_the_same_places() {
        let mut most = 0;
        for_each_case(|erasing, is_in| {
            for (length, pitch) in [(6, 6), (4, 6), (3, 5), (6, 30), (30, 30), (9, 12)] {
                for first in (0..=120 - length).step_by(pitch as usize) {
                    let rows = (120 - length - first) / pitch + 1;
                    let row: Vec<bool> = (first..first + length).map(is_in).collect();
                    let edges = row.windows(2).filter(|pair| pair[0] != pair[1]).count();
                    let ends = usize::from(row[0]) + usize::from(row[row.len() - 1]);
                    let found = erasing.hole((first, length), (pitch, rows));
                    assert_eq!(found.is_some(), edges + ends <= 2, "{row:?}");
                    let Some((hole, count)) = found else { continue };
                    assert!((1..=rows).contains(&count));
                    if edges + ends == 2 {
                        assert_eq!(hole.value, 1.0);
                        most = most.max(count);
                    }
                    let holes = hole.first as u64..hole.limit as u64;
                    for at in (0..count).map(|row| first + row * pitch) {
                        assert!(
                            (0..length).all(|n| is_in(at + n) == holes.contains(&n)),
                            "{row:?}"
                        );
                    }
                }
            }
        });
        assert_eq!(most, 5);
    }
}
