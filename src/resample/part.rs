//! Parts of an output: ranges of places, which workers resample one by one.
//!
//! In: a map and a layout, most places of a part. Out: the output cut into [`Part`]s. Invariant:
//! each place is in one part.
//!
//! Worked example: 4 x 100 x 100 places of three channels, parts of at most 2^15 places. A part has
//! all three channels of 100 rows of 100 places; four parts are the output.

use super::layout::Layout;
use super::map::{AXES, Map};
use crate::base::limits::RANK_MAX;
use arrayvec::ArrayVec;
use core::ops::Range;

/// A range of places along each axis of an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Along the axes of the map.
    pub mapped: [Range<u64>; AXES],
    /// Along those that are copied, as the layout has them.
    pub others: ArrayVec<Range<u64>, RANK_MAX>,
}

impl Part {
    /// All of an output.
    #[cfg(any(test, feature = "internals"))]
    pub fn whole(map: &Map, layout: &Layout) -> Part {
        let others = layout.others.iter().map(|other| 0..other.places);
        Part { mapped: map.places.map(|places| 0..places), others: others.collect() }
    }

    /// Number of places.
    pub fn places(&self) -> u64 {
        self.mapped.iter().chain(&self.others).map(|range| range.end - range.start).product()
    }

    /// Bytes from the first place of the output to the first of the part.
    pub fn target(&self, layout: &Layout) -> u64 {
        let others = self.others.iter().zip(&layout.others);
        let others = others.map(|(range, other)| range.start * other.target);
        let mapped = self.mapped.iter().zip(&layout.target);
        mapped.map(|(range, stride)| range.start * stride).chain(others).sum()
    }
}

/// An output in parts: the taps of a row of places serve all places of the axes that are copied, so
/// parts have these first, and as long rows as they can.
pub struct Cut {
    /// Places along an axis, and those of a part: the last axis of the map, those that are copied,
    /// the other two.
    axes: ArrayVec<(u64, u64), { AXES + RANK_MAX }>,
}

impl Cut {
    /// Parts of at most `most` places, which is at least 1.
    pub fn new(map: &Map, layout: &Layout, most: u64) -> Cut {
        let [outer, inner, last] = map.places;
        let others = layout.others.iter().map(|other| other.places);
        let axes = core::iter::once(last).chain(others).chain([inner, outer]);
        let mut room = most.max(1);
        let axes = axes.map(|places| {
            let count = places.div_ceil(room).max(1);
            let length = places.div_ceil(count).max(1);
            room = (room / length).max(1);
            (places, length)
        });
        Cut { axes: axes.collect() }
    }

    /// Number of parts.
    pub fn count(&self) -> u64 {
        self.axes.iter().map(|(places, length)| places.div_ceil(*length).max(1)).product()
    }

    /// Part `number`, which is less than [`Cut::count`].
    pub fn part(&self, mut number: u64) -> Part {
        let mut ranges = self.axes.iter().map(|(places, length)| {
            let count = places.div_ceil(*length).max(1);
            let first = number % count * length;
            number /= count;
            first..(first + length).min(*places)
        });
        let last = ranges.next().unwrap_or(0..0);
        let others = ranges.by_ref().take(self.axes.len() - AXES).collect();
        let inner = ranges.next().unwrap_or(0..0);
        let outer = ranges.next().unwrap_or(0..0);
        Part { mapped: [outer, inner, last], others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::PadMode;
    use crate::resample::Filter;
    use std::vec::Vec;

    /// A map of 5 x 4 x `last` places over as many voxels, with copied axes of 3 and 2 places.
    fn output(last: u64) -> (Map, Layout) {
        let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        let places = [5, 4, last];
        let map = Map::new(3, &identity, &places, &places, Filter::Nearest, PadMode::None).unwrap();
        let (extents, target) = ([3, 5, 4, last, 2], [40 * last, 8 * last, 2 * last, 2, 1]);
        let layout = Layout::new(&map, &[1, 2, 3], &extents, &target).unwrap();
        (map, layout)
    }

    #[test]
    fn parts_have_every_place_once_and_no_more_than_they_may() {
        for last in [1, 7, 100] {
            let (map, layout) = output(last);
            let all = (5 * 4 * last * 3 * 2) as usize;
            for most in [1, 2, 5, 6, 7, 13, 41, 42, 99, 100, 199, 600, 1000, u64::MAX] {
                let cut = Cut::new(&map, &layout, most);
                let mut seen = std::vec![0u8; all];
                for part in (0..cut.count()).map(|number| cut.part(number)) {
                    assert!((1..=most).contains(&part.places()), "{last}, {most}: {part:?}");
                    let ranges: Vec<_> = part.others.iter().chain(&part.mapped).cloned().collect();
                    let strides = layout.others.iter().map(|other| other.target);
                    let strides: Vec<u64> = strides.chain(layout.target).collect();
                    let mut bytes = std::vec![0];
                    for (range, stride) in ranges.into_iter().zip(&strides) {
                        let along = |at: u64| range.clone().map(move |place| at + place * stride);
                        bytes = bytes.into_iter().flat_map(along).collect();
                    }
                    assert_eq!(bytes.iter().min(), Some(&part.target(&layout)));
                    bytes.iter().for_each(|byte| seen[*byte as usize] += 1);
                }
                assert!(seen.iter().all(|count| *count == 1), "{last}, {most}");
                if most == u64::MAX {
                    assert_eq!((cut.count(), cut.part(0)), (1, Part::whole(&map, &layout)));
                }
            }
        }
    }

    #[test]
    fn an_axis_that_does_not_fit_is_cut_evenly() {
        let (map, layout) = output(100);
        let cut = Cut::new(&map, &layout, 99);
        assert_eq!((cut.count(), cut.part(0).mapped[2].clone()), (2 * 3 * 2 * 4 * 5, 0..50));
    }
}
