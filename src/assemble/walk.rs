//! A walk along one axis of an array, forwards, backwards or in steps, as runs of places that one
//! chunk fills.
//!
//! In: an [`AxisWalk`], the extent of the axis, a padding mode. Out: what of the axis is read, and
//! runs. Invariant: as of `axis`, whose runs these are where the walk takes every element. A walk
//! backwards is one forwards over the mirrored axis, because padding is the same from both ends.

use super::axis::{AxisFault, PadMode, Run, Runs, runs, source_range};
use crate::records::AxisWalk;

/// The half-open interval of source coordinates that the places of a walk need: their hull, and
/// (0, 0) where none has a source. `mode` is for steps of one element; others stay in the array.
pub fn walk_range(walk: &AxisWalk, extent: u64, mode: PadMode) -> Result<(u64, u64), AxisFault> {
    let ((begin, end), (step, is_back)) = (walk.range(), walk.step());
    if step == 1 {
        let range = source_range(begin, end, extent, mode)?;
        // The walk is mirrored to be looked at from its first place.
        let mirrored = !is_back || mirror(extent, begin).is_some();
        return if mirrored { Ok(range) } else { Err(AxisFault::Overflow) };
    }
    let is_inside = begin >= 0 && u64::try_from(end).is_ok_and(|end| end <= extent);
    if is_inside { Ok((begin as u64, end as u64)) } else { Err(AxisFault::StepsOutside) }
}

/// A bound of a half-open interval as seen from the other end of the axis: of [2, 5) out of 10
/// elements, 5 and 8. Padding is the same from both ends.
fn mirror(extent: u64, bound: i64) -> Option<i64> {
    i64::try_from(extent).ok()?.checked_sub(bound)
}

/// A walk along an axis of an array, as one looks at it from its first place: of a walk backwards
/// all coordinates are mirrored, so that places and coordinates both grow.
#[derive(Clone, Copy, Debug)]
pub struct AxisView {
    /// Coordinate of the first place.
    pub begin: i64,
    /// Coordinate behind the last one.
    pub end: i64,
    /// Elements from one place to the next.
    step: u64,
    extent: u64,
    is_mirrored: bool,
}

impl AxisView {
    /// A walk that [`walk_range`] accepts.
    pub fn new(walk: &AxisWalk, extent: u64) -> AxisView {
        let ((begin, end), (step, is_mirrored)) = (walk.range(), walk.step());
        let (begin, end) = match (is_mirrored, mirror(extent, end), mirror(extent, begin)) {
            (true, Some(begin), Some(end)) => (begin, end),
            _ => (begin, end),
        };
        AxisView { begin, end, step, extent, is_mirrored }
    }

    /// An interval of elements of the array as coordinates, or the other way round.
    pub fn interval(&self, (first, limit): (u64, u64)) -> (u64, u64) {
        match self.is_mirrored {
            false => (first, limit),
            true => (self.extent - limit, self.extent - first),
        }
    }

    /// The element of the array at coordinate `at`, counted from `chunk_first`, and which way
    /// elements go from there.
    pub fn element(&self, at: u64, chunk_first: u64) -> (u64, i64) {
        match self.is_mirrored {
            false => (at - chunk_first, 1),
            true => (self.extent - 1 - at - chunk_first, -1),
        }
    }

    /// The runs of its places whose source lies in the chunk that has the elements from `first` to
    /// `limit` of the axis.
    pub fn runs(&self, mode: PadMode, (first, limit): (u64, u64)) -> WalkRuns {
        let (low, high) = self.interval((first, limit));
        if self.step > 1 {
            let one = self.strided(low, high).map(|run| self.turned(run, limit - first));
            return WalkRuns { one, view: *self, length: limit - first, runs: None };
        }
        let runs = runs(self.begin, self.end, self.extent, mode, low, high);
        WalkRuns { one: None, view: *self, length: limit - first, runs: Some(runs) }
    }

    /// The one run of places whose source lies in [low, high), which is all in the array.
    fn strided(&self, low: u64, high: u64) -> Option<Run> {
        let (begin, end) = (self.begin as u64, self.end as u64);
        let target = low.saturating_sub(begin).div_ceil(self.step);
        let source = begin + target * self.step;
        let limit = high.min(end);
        if source >= limit {
            return None;
        }
        let length = (limit - source).div_ceil(self.step);
        Some(Run { target, source: source - low, length, step: self.step as i64 })
    }

    /// A run over a chunk of `length` elements as the array counts them.
    fn turned(&self, run: Run, length: u64) -> Run {
        match self.is_mirrored {
            false => run,
            true => Run { source: length - 1 - run.source, step: -run.step, ..run },
        }
    }
}

/// See [`AxisView::runs`].
#[derive(Clone, Debug)]
pub struct WalkRuns {
    one: Option<Run>,
    runs: Option<Runs>,
    view: AxisView,
    /// Elements of the chunk along the axis.
    length: u64,
}

impl Iterator for WalkRuns {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        match &mut self.runs {
            Some(runs) => runs.next().map(|run| self.view.turned(run, self.length)),
            None => self.one.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::{MODES, walked};
    use super::*;
    use std::vec::Vec;

    #[test]
    fn runs_of_a_walk_give_every_place_its_element_exactly_once() {
        for mode in MODES {
            for extent in 1..7u64 {
                for (begin, end) in (-5..9).flat_map(|b| (b + 1..b + 14).map(move |e| (b, e))) {
                    for step in [1, -1, 2, -2, 3, -3] {
                        let walk = AxisWalk::of(begin, end, step).unwrap();
                        let Ok(range) = walk_range(&walk, extent, mode) else { continue };
                        check_walk(walk, extent, mode, range);
                    }
                }
            }
        }
    }

    fn check_walk(walk: AxisWalk, extent: u64, mode: PadMode, range: (u64, u64)) {
        let ((low, high), (step, is_back)) = (walk.range(), walk.step());
        let places = 0..walk.places() as i64;
        let at = |p: i64| match is_back {
            false => low + p * step as i64,
            true => high - 1 - p * step as i64,
        };
        let expected: Vec<_> = places.map(|p| walked(at(p), extent as i64, mode)).collect();
        let found = expected.iter().flatten();
        let hull = match (found.clone().min(), found.max()) {
            (Some(low), Some(high)) => (*low as u64, *high as u64 + 1),
            _ => (0, 0),
        };
        assert_eq!(range, hull, "{walk:?} of {extent}, {mode:?}");
        let view = AxisView::new(&walk, extent);
        for edge in 1..4 {
            let mut got = std::vec![None; expected.len()];
            for first in (0..extent).step_by(edge) {
                let limit = (first + edge as u64).min(extent);
                for run in view.runs(mode, (first, limit)) {
                    for at in 0..run.length as i64 {
                        let source = run.source as i64 + run.step * at + first as i64;
                        assert!((first as i64..limit as i64).contains(&source));
                        let place = &mut got[run.target as usize + at as usize];
                        assert_eq!(*place, None);
                        *place = Some(source);
                    }
                }
            }
            assert_eq!(got, expected, "{walk:?} of {extent}, {mode:?}, edge {edge}");
        }
    }

    #[test]
    fn steps_of_more_than_one_element_stay_in_the_array() {
        let range = |begin, end, step| {
            walk_range(&AxisWalk::of(begin, end, step).unwrap(), 10, PadMode::Edge)
        };
        assert_eq!(range(0, 10, 3), Ok((0, 10)));
        assert_eq!(range(1, 10, 3), Ok((1, 8)));
        // What lies behind the last place is not read.
        assert_eq!(range(1, 12, 4), Ok((1, 10)));
        assert_eq!(range(-1, 10, 3), Err(AxisFault::StepsOutside));
        assert_eq!(range(2, 12, -3), Err(AxisFault::StepsOutside));
        assert_eq!(range(i64::MIN, i64::MIN + 4, -1), Err(AxisFault::Overflow));
        assert_eq!(range(i64::MIN, i64::MIN + 4, 1), Ok((0, 1)));
    }
}
