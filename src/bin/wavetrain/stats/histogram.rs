//! Percentiles out of counts.
//!
//! In: elements whose least and greatest are known. Out: percentiles as numpy.percentile has them
//! ("linear": between the two elements next to the rank). Types of 8 and 16 bits have a count for
//! each value, and exact percentiles. Others have a count for each of [`BINS`] parts of the range
//! from the least to the greatest finite element: elements of a part are taken to lie evenly in it,
//! so that a percentile is at most a part off. Integers of fewer values than that are exact.

use super::moments::{Moments, elements};
use super::number::Number;

/// The percentiles.
pub const PERCENTS: [f64; 9] = [0.1, 1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9];

/// Parts of a range: each is less than 0.05 % of it.
const BINS: usize = 1 << 11;

/// Counts of a set's elements. Infinite ones are counted before and after the parts.
pub struct Histogram<T> {
    counts: Vec<u64>,
    /// None if each value has a count, or no element is finite.
    range: Option<Range<T>>,
}

/// A range that is cut into parts.
struct Range<T> {
    least: T,
    most: T,
    /// Parts for each unit of [`Number::offset`].
    scale: f64,
    /// Whether a part is one integer.
    is_exact: bool,
}

/// Counts of a histogram.
pub const fn histogram_counts<T: Number>() -> usize {
    match T::VALUES {
        Some(values) => values,
        None => BINS + 2,
    }
}

impl<T: Number> Histogram<T> {
    /// No elements yet. The finite ones that come lie between the ends.
    pub fn new(finite_ends: Option<[T; 2]>) -> Histogram<T> {
        let range = finite_ends.filter(|_| T::VALUES.is_none()).map(|[least, most]| {
            let width = most.offset(least);
            let is_exact = T::IS_WHOLE && width < BINS as f64;
            let scale = if is_exact { 1.0 } else { BINS as f64 / width };
            Range { least, most, scale: if width > 0.0 { scale } else { 0.0 }, is_exact }
        });
        Histogram { counts: vec![0; histogram_counts::<T>()], range }
    }

    /// Adds a sample's elements.
    pub fn add(&mut self, bytes: &[u8]) {
        for element in elements::<T>(bytes).filter(|element| !element.is_nan()) {
            let place = match &self.range {
                None if T::VALUES.is_some() => element.place(),
                Some(range) if element.is_finite() => {
                    let part = (element.offset(range.least) * range.scale) as usize;
                    1 + part.min(BINS - 1)
                }
                _ if element.value().real() < 0.0 => 0,
                _ => BINS + 1,
            };
            self.counts[place] += 1;
        }
    }

    /// The percentiles of a set; None without a number.
    pub fn percentiles(&self, moments: &Moments<T>) -> Option<[f64; PERCENTS.len()]> {
        let [least, most] = moments.ends?.map(|end| end.value().real());
        let last = moments.count - 1;
        let of_rank = |rank: u64| match rank {
            0 => least,
            _ if rank >= last => most,
            _ => self.of_rank(rank),
        };
        Some(PERCENTS.map(|percent| {
            let rank = percent / 100.0 * last as f64;
            let (below, part) = (of_rank(rank as u64), rank.fract());
            let above = of_rank(rank as u64 + 1);
            let apart = above - below;
            match above == below {
                true => below,
                // Either way both ends are met exactly.
                false if part < 0.5 => below + apart * part,
                false => above - apart * (1.0 - part),
            }
        }))
    }

    /// The element of that rank, from 0 on.
    fn of_rank(&self, rank: u64) -> f64 {
        let mut before = 0;
        for (place, count) in self.counts.iter().enumerate() {
            if rank < before + count {
                return self.value(place, ((rank - before) as f64 + 0.5) / *count as f64);
            }
            before += count;
        }
        f64::NAN
    }

    /// The number at a part of a place.
    fn value(&self, place: usize, part: f64) -> f64 {
        match &self.range {
            None if T::VALUES.is_some() => T::at(place).value().real(),
            Some(range) if (1..=BINS).contains(&place) => {
                let least = range.least.value().real();
                let offset = (place - 1) as f64;
                if range.is_exact {
                    return least + offset;
                }
                let offset = if range.scale > 0.0 { (offset + part) / range.scale } else { 0.0 };
                let value = (least / T::UNIT + offset) * T::UNIT;
                value.clamp(least, range.most.value().real())
            }
            _ if place == 0 => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        }
    }
}
