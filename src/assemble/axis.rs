//! One axis of a box against one axis of an array: which source elements a padded interval needs,
//! and which of its places one chunk fills.
//!
//! In: a half-open interval in array coordinates, which may begin before 0 and end behind the
//! extent, and a padding mode with the meaning that numpy.pad gives it. Out: the source interval,
//! and runs of places. Invariant: over all chunks of the axis, runs cover every place that has a
//! source exactly once.
//!
//! Worked example: extent 4, interval [-3, 6), reflect. Source coordinates 3 2 1 | 0 1 2 3 | 2 1,
//! as three runs for a chunk that holds the whole axis: segment [-3, 0) backwards from 3,
//! [0, 4) forwards from 0, [4, 6) backwards from 2.

pub use crate::records::PadMode;

/// The source of a place that has none: in no chunk.
const NO_SOURCE: i64 = -1;

/// Why an interval cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AxisFault {
    /// It begins at its end or behind it.
    Empty,
    /// It leaves the array, and no padding is there.
    Outside,
    /// It lies wholly outside, and the padding is a mirror image.
    Apart,
    /// There is no element to repeat or mirror.
    NoElement,
    /// Its length, or the extent, does not fit in an i64.
    Overflow,
    /// It leaves the array in steps of more than one element.
    StepsOutside,
}

/// A run of places along an axis: place `target + i` takes element `source + i * step`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First place, counted from the begin of the interval.
    pub target: u64,
    /// Element of the first place, counted from the begin of the chunk.
    pub source: u64,
    /// Number of places, at least 1.
    pub length: u64,
    /// Elements from one place to the next; 0 where all places take the same one.
    pub step: i64,
}

impl Run {
    /// Element of the last place.
    pub fn last(&self) -> u64 {
        (self.source as i64 + (self.length as i64 - 1) * self.step) as u64
    }
}

/// The half-open interval of source coordinates that the places of `[begin, end)` need on an axis
/// of `extent` elements: their hull, and (0, 0) where none has a source.
pub fn source_range(
    begin: i64,
    end: i64,
    extent: u64,
    mode: PadMode,
) -> Result<(u64, u64), AxisFault> {
    if begin >= end {
        return Err(AxisFault::Empty);
    }
    let extent = i64::try_from(extent).map_err(|_| AxisFault::Overflow)?;
    end.checked_sub(begin).ok_or(AxisFault::Overflow)?;
    let is_inside = begin >= 0 && end <= extent;
    let is_apart = begin >= extent || end <= 0;
    let last = extent - 1;
    let (first, limit) = match mode {
        _ if is_inside => (begin, end),
        PadMode::None => return Err(AxisFault::Outside),
        PadMode::Constant if is_apart => (0, 0),
        PadMode::Constant => (begin.max(0), end.min(extent)),
        PadMode::Edge | PadMode::Reflect if extent == 0 => return Err(AxisFault::NoElement),
        PadMode::Edge => (begin.clamp(0, last), (end - 1).clamp(0, last) + 1),
        PadMode::Reflect if is_apart => return Err(AxisFault::Apart),
        PadMode::Reflect => reflected_hull(begin, end, extent),
    };
    Ok((first as u64, limit as u64))
}

/// The hull of an interval that touches the array. Coordinates go up and down between walls at the
/// multiples of `extent - 1`: the hull is that of both ends and of every wall between them.
fn reflected_hull(begin: i64, end: i64, extent: i64) -> (i64, i64) {
    let (from, to) = (reflected(begin, extent), reflected(end - 1, extent));
    // The interval touches the array, so the walls that it can contain first are 0 and the last
    // element; any other comes behind one of them.
    let walls = [0, extent - 1].into_iter().filter(|wall| begin <= *wall && *wall < end);
    let (low, high) = (from.min(to), from.max(to));
    let low = walls.clone().fold(low, i64::min);
    let high = walls.fold(high, i64::max);
    let second_wall = i128::from(end) > 2 * i128::from(extent - 1)
        || i128::from(begin) <= -i128::from(extent - 1);
    if second_wall { (0, extent) } else { (low, high + 1) }
}

/// The source coordinate of coordinate `at` under reflection.
fn reflected(at: i64, extent: i64) -> i64 {
    if extent == 1 {
        return 0;
    }
    // Below 2^64, where a period of i64 would overflow.
    let period = 2 * (extent - 1) as u64;
    let phase = at.unsigned_abs() % period;
    // A reflection at 0 is the same backwards, so the sign does not matter.
    phase.min(period - phase) as i64
}

/// The runs of the places of `[begin, end)` whose source lies in `[chunk_first, chunk_limit)`. The
/// interval and mode are such that [`source_range`] accepts them, and the chunk is cut at the
/// extent.
pub fn runs(
    begin: i64,
    end: i64,
    extent: u64,
    mode: PadMode,
    chunk_first: u64,
    chunk_limit: u64,
) -> Runs {
    assert!(begin < end);
    assert!(chunk_first < chunk_limit);
    assert!(chunk_limit <= extent);
    assert!(extent <= i64::MAX as u64);
    Runs {
        begin,
        end,
        at: begin,
        extent: extent as i64,
        mode,
        chunk_first: chunk_first as i64,
        chunk_limit: chunk_limit as i64,
    }
}

/// See [`runs`]. Each step of the iterator takes at least one place of the interval, so it ends
/// after as many steps as the interval has places, or as the segments that it crosses.
#[derive(Clone, Debug)]
pub struct Runs {
    begin: i64,
    end: i64,
    /// First place that no step has looked at, in array coordinates.
    at: i64,
    extent: i64,
    mode: PadMode,
    chunk_first: i64,
    chunk_limit: i64,
}

impl Iterator for Runs {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        while self.at < self.end {
            let first = self.at;
            let (limit, source, step) = self.segment(first);
            self.at = limit;
            if let Some(run) = self.cut(first, limit, source, step) {
                return Some(run);
            }
        }
        None
    }
}

impl Runs {
    /// The longest stretch from `first` on whose source goes one way: its limit, the source of its
    /// first place and the step.
    fn segment(&self, first: i64) -> (i64, i64, i64) {
        let last = self.extent - 1;
        match self.mode {
            PadMode::None | PadMode::Constant if first < 0 => (self.end.min(0), NO_SOURCE, 0),
            PadMode::None | PadMode::Constant if first > last => (self.end, NO_SOURCE, 0),
            PadMode::None | PadMode::Constant => (self.end.min(self.extent), first, 1),
            PadMode::Edge if first < 0 => (self.end.min(0), 0, 0),
            PadMode::Edge if first <= last => (self.end.min(self.extent), first, 1),
            PadMode::Edge => (self.end, last, 0),
            PadMode::Reflect if last == 0 => (self.end, 0, 0),
            PadMode::Reflect => {
                let (number, at) = (first.div_euclid(last), first.rem_euclid(last));
                let wall = i128::from(number + 1) * i128::from(last);
                // The way forwards has both of its walls, so a box in the array is one stretch.
                let (limit, source, step) = match number % 2 == 0 {
                    true => (wall + 1, at, 1),
                    false => (wall, last - at, -1),
                };
                (limit.min(i128::from(self.end)) as i64, source, step)
            }
        }
    }

    /// The part of a stretch whose source lies in the chunk.
    fn cut(&self, first: i64, limit: i64, source: i64, step: i64) -> Option<Run> {
        let length = limit - first;
        // Places to skip before the source enters the chunk, and places before it leaves again.
        let (skip, stop) = match step {
            0 if (self.chunk_first..self.chunk_limit).contains(&source) => (0, length),
            0 => return None,
            1 => (self.chunk_first - source, self.chunk_limit - source),
            _ => (source - self.chunk_limit + 1, source - self.chunk_first + 1),
        };
        let (skip, stop) = (skip.max(0), stop.min(length));
        if skip >= stop {
            return None;
        }
        Some(Run {
            target: (first - self.begin + skip) as u64,
            source: (source + step * skip - self.chunk_first) as u64,
            length: (stop - skip) as u64,
            step,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::vec::Vec;

    pub const MODES: [PadMode; 4] =
        [PadMode::None, PadMode::Constant, PadMode::Edge, PadMode::Reflect];

    /// The source of coordinate `at`, found by walking there from 0 one element at a time.
    pub fn walked(at: i64, extent: i64, mode: PadMode) -> Option<i64> {
        let mut source = 0;
        let mut direction = 1;
        for _ in 0..at.abs() {
            let next = source + direction;
            let is_inside = (0..extent).contains(&next);
            match mode {
                _ if is_inside => source = next,
                PadMode::Reflect if extent > 1 => {
                    direction = -direction;
                    source += direction;
                }
                _ => {}
            }
        }
        // Walking left from 0 mirrors walking right; it stays at the edge, or leaves.
        match mode {
            PadMode::Reflect => Some(source),
            PadMode::Edge => Some(if at < 0 { 0 } else { source }),
            _ => (0..extent).contains(&at).then_some(at),
        }
    }

    /// Every interval around every small axis, with its sources.
    fn each_interval(mut check: impl FnMut(i64, i64, i64, PadMode, &[Option<i64>])) {
        for mode in MODES {
            for extent in 0..6i64 {
                for begin in -13..13i64 {
                    for end in begin + 1..begin + 20 {
                        if source_range(begin, end, extent as u64, mode).is_err() {
                            continue;
                        }
                        let sources: Vec<_> =
                            (begin..end).map(|at| walked(at, extent, mode)).collect();
                        check(begin, end, extent, mode, &sources);
                    }
                }
            }
        }
    }

    #[test]
    fn the_source_range_is_the_hull_of_the_sources() {
        each_interval(|begin, end, extent, mode, sources| {
            let found = sources.iter().flatten();
            let hull = match (found.clone().min(), found.max()) {
                (Some(low), Some(high)) => (*low as u64, *high as u64 + 1),
                _ => (0, 0),
            };
            let range = source_range(begin, end, extent as u64, mode);
            assert_eq!(range, Ok(hull), "[{begin}, {end}) of {extent}, {mode:?}");
        });
    }

    #[test]
    fn runs_of_all_chunks_give_every_place_its_source_exactly_once() {
        each_interval(|begin, end, extent, mode, sources| {
            for edge in 1..4 {
                let mut places = std::vec![None; sources.len()];
                for first in (0..extent).step_by(edge) {
                    let limit = (first + edge as i64).min(extent) as u64;
                    for run in runs(begin, end, extent as u64, mode, first as u64, limit) {
                        assert!(run.length > 0);
                        for at in 0..run.length as i64 {
                            let source = run.source as i64 + run.step * at + first;
                            assert!((first..limit as i64).contains(&source));
                            let place = &mut places[run.target as usize + at as usize];
                            assert_eq!(*place, None);
                            *place = Some(source);
                        }
                    }
                }
                assert_eq!(places, sources, "[{begin}, {end}) of {extent}, {mode:?}, edge {edge}");
            }
        });
    }

    #[test]
    fn reflection_and_edges_are_those_of_numpy_pad() {
        let sources = |begin, end, extent, mode| -> Vec<u64> {
            let mut places = std::vec![u64::MAX; (end - begin) as usize];
            for run in runs(begin, end, extent, mode, 0, extent) {
                for at in 0..run.length {
                    let source = run.source as i64 + run.step * at as i64;
                    places[(run.target + at) as usize] = source as u64;
                }
            }
            places
        };
        // numpy.pad(numpy.arange(3), (5, 6), "reflect")
        let expected = [1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0];
        assert_eq!(sources(-5, 9, 3, PadMode::Reflect), expected);
        // numpy.pad(numpy.arange(1), (2, 3), "reflect")
        assert_eq!(sources(-2, 4, 1, PadMode::Reflect), [0; 6]);
        // numpy.pad(numpy.arange(3), (2, 3), "edge")
        assert_eq!(sources(-2, 6, 3, PadMode::Edge), [0, 0, 0, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn reflection_makes_one_run_of_each_way_that_has_both_of_its_walls_forwards() {
        let run = |target, source, length, step| Run { target, source, length, step };
        let found = |begin, end| runs(begin, end, 4, PadMode::Reflect, 0, 4).collect::<Vec<_>>();
        assert_eq!(found(-3, 6), [run(0, 3, 3, -1), run(3, 0, 4, 1), run(7, 2, 2, -1)]);
        assert_eq!(found(0, 4), [run(0, 0, 4, 1)]);
        assert_eq!(found(3, 6), [run(0, 3, 3, -1)]);
    }

    #[test]
    fn each_fault_has_its_name() {
        let range = source_range;
        assert_eq!(range(3, 3, 10, PadMode::Constant), Err(AxisFault::Empty));
        assert_eq!(range(4, 3, 10, PadMode::None), Err(AxisFault::Empty));
        assert_eq!(range(-1, 3, 10, PadMode::None), Err(AxisFault::Outside));
        assert_eq!(range(0, 11, 10, PadMode::None), Err(AxisFault::Outside));
        assert_eq!(range(10, 11, 10, PadMode::Reflect), Err(AxisFault::Apart));
        assert_eq!(range(-4, 0, 10, PadMode::Reflect), Err(AxisFault::Apart));
        assert_eq!(range(0, 1, 0, PadMode::None), Err(AxisFault::Outside));
        assert_eq!(range(0, 1, 0, PadMode::Edge), Err(AxisFault::NoElement));
        assert_eq!(range(0, 1, 0, PadMode::Reflect), Err(AxisFault::NoElement));
        assert_eq!(range(-1, i64::MAX, 10, PadMode::Edge), Err(AxisFault::Overflow));
        assert_eq!(range(0, 1, u64::MAX, PadMode::None), Err(AxisFault::Overflow));
    }

    #[test]
    fn a_box_wholly_outside_is_legal_for_constant_and_edge() {
        assert_eq!(source_range(10, 12, 10, PadMode::Constant), Ok((0, 0)));
        assert_eq!(source_range(-5, 0, 0, PadMode::Constant), Ok((0, 0)));
        assert_eq!(source_range(10, 12, 10, PadMode::Edge), Ok((9, 10)));
        assert_eq!(source_range(-5, -2, 10, PadMode::Edge), Ok((0, 1)));
    }

    #[test]
    fn coordinates_at_the_limits_of_i64_do_not_overflow() {
        let far = i64::MIN;
        for mode in [PadMode::Constant, PadMode::Edge] {
            assert!(source_range(far, far + 9, 10, mode).is_ok());
            assert!(source_range(far, -1, 10, mode).is_ok());
            let found: u64 = runs(far, -1, 10, mode, 0, 10).map(|run| run.length).sum();
            let expected = if mode == PadMode::Edge { i64::MAX as u64 } else { 0 };
            assert_eq!(found, expected);
            let found: u64 =
                runs(i64::MAX - 5, i64::MAX, 10, mode, 5, 10).map(|run| run.length).sum();
            assert_eq!(found, if mode == PadMode::Edge { 5 } else { 0 });
        }
        let huge = i64::MAX as u64;
        assert_eq!(source_range(-3, 5, huge, PadMode::Reflect), Ok((0, 5)));
        let found: Vec<Run> = runs(-3, 5, huge, PadMode::Reflect, 0, 4).collect();
        let mirror = Run { target: 0, source: 3, length: 3, step: -1 };
        assert_eq!(found, [mirror, Run { target: 3, source: 0, length: 4, step: 1 }]);
    }
}
