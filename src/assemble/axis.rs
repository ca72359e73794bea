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
//! [0, 3) forwards from 0, [3, 6) backwards from 3.

/// The source of a place that has none: in no chunk.
const NO_SOURCE: i64 = -1;

/// What lies outside the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PadMode {
    /// Nothing: a box must lie inside.
    None,
    /// A value; those places have no source.
    Constant,
    /// The nearest element.
    Edge,
    /// The mirror image, edge not repeated, reflected as often as it takes.
    Reflect,
}

/// Why an interval cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AxisFault {
    /// It begins at its end or behind it.
    Empty,
    /// It leaves the array and nothing says what is there; for reflect: it lies wholly outside.
    Outside,
    /// There is no element to repeat or mirror.
    NoElement,
    /// Its length, or the extent, does not fit in an i64.
    Overflow,
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
    /// 1, -1, or 0 where all places take the same element.
    pub step: i8,
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
        PadMode::Reflect if is_apart => return Err(AxisFault::Outside),
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
    let period = 2 * i128::from(extent - 1);
    let phase = i128::from(at).rem_euclid(period);
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
                let number = first.div_euclid(last);
                let wall = i128::from(number + 1) * i128::from(last);
                let limit = wall.min(i128::from(self.end)) as i64;
                let step = if number % 2 == 0 { 1 } else { -1 };
                (limit, reflected(first, self.extent), step)
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
            step: step as i8,
        })
    }
}
