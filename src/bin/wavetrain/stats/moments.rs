//! Count, ends, mean and deviation of the elements of a set.
//!
//! In: elements, sample by sample. Out: figures that depend on the elements and on how they are cut
//! into samples, and on nothing else: samples are added in their order.
//!
//! Integers of up to 32 bits have exact sums and squares. Of others each sample is looked at twice:
//! once for its mean, once for the squares of the distances from it; sets are merged by the rule of
//! Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample
//! variances", 1979), with sums of twice the precision of a double.

use super::number::{Number, Value};

/// The elements of a set, one sample's after the other's.
pub struct Moments<T: Number> {
    /// Elements that are numbers.
    pub count: u64,
    pub nan_count: u64,
    /// Elements that equal the fill value; if that is NaN, those that are NaN.
    pub fill_count: u64,
    /// The least and the greatest; None without a number.
    pub ends: Option<[T; 2]>,
    /// The same of those that are finite.
    pub finite_ends: Option<[T; 2]>,
    tally: T::Tally,
}

/// Sums and squares.
pub trait Tally: Default {
    /// Adds a sample's elements, of which `count` are numbers, to `before` of other samples.
    fn add<T: Number>(&mut self, before: u64, bytes: &[u8], count: u64);

    /// The mean of `count` numbers, and the sum of the squares of their distances from it.
    fn mean_and_squares(&self, count: u64) -> [f64; 2];
}

/// The elements of these bytes.
pub fn elements<T: Number>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(T::BYTES).map(T::of)
}

impl<T: Number> Moments<T> {
    /// No elements yet.
    pub fn new() -> Moments<T> {
        Moments {
            count: 0,
            nan_count: 0,
            fill_count: 0,
            ends: None,
            finite_ends: None,
            tally: T::Tally::default(),
        }
    }

    /// Adds a sample's elements.
    pub fn add(&mut self, bytes: &[u8], fill: T) {
        let (mut nan_count, mut fill_count) = (0u64, 0u64);
        for element in elements::<T>(bytes) {
            nan_count += u64::from(element.is_nan());
            fill_count += u64::from(element == fill);
        }
        self.fill_count += if fill.is_nan() { nan_count } else { fill_count };
        self.nan_count += nan_count;
        widen(&mut self.ends, elements(bytes).filter(|element: &T| !element.is_nan()));
        widen(&mut self.finite_ends, elements(bytes).filter(|element: &T| element.is_finite()));
        let count = (bytes.len() / T::BYTES) as u64 - nan_count;
        if count > 0 {
            self.tally.add::<T>(self.count, bytes, count);
            self.count += count;
        }
    }

    /// Mean and standard deviation of the set as a population; NaN without a number.
    pub fn mean_and_deviation(&self) -> [f64; 2] {
        if self.count == 0 {
            return [f64::NAN; 2];
        }
        let [mean, squares] = self.tally.mean_and_squares(self.count);
        [mean, (squares / self.count as f64).sqrt()]
    }

    /// Elements that are the fill value, as a part of all, NaN among them; NaN without an element.
    pub fn fill_share(&self) -> f64 {
        self.fill_count as f64 / (self.count + self.nan_count) as f64
    }
}

fn widen<T: Number>(ends: &mut Option<[T; 2]>, mut elements: impl Iterator<Item = T>) {
    let Some(first) = elements.next() else { return };
    let [least, most] = ends.unwrap_or([first; 2]);
    let least = if first < least { first } else { least };
    let most = if first > most { first } else { most };
    *ends = Some(elements.fold([least, most], |[least, most], element| {
        [if element < least { element } else { least }, if element > most { element } else { most }]
    }));
}

/// Sums of integers of up to 32 bits: exact for 2^62 of them.
#[derive(Default)]
pub struct Exact {
    sum: i128,
    squares: u128,
}

/// Integers of 32 bits in a run: their sum fits 64 bits, and so does each half of their squares'.
const EXACT_RUN: usize = 1 << 12;

impl Tally for Exact {
    fn add<T: Number>(&mut self, _before: u64, bytes: &[u8], _count: u64) {
        for run in bytes.chunks(EXACT_RUN * T::BYTES) {
            let (mut sum, mut low, mut high) = (0i64, 0u64, 0u64);
            for element in elements::<T>(run) {
                let Value::Whole(whole) = element.value() else { continue };
                let whole = whole as i64;
                let square = whole.unsigned_abs() * whole.unsigned_abs();
                sum += whole;
                low += square & u64::from(u32::MAX);
                high += square >> 32;
            }
            self.sum += i128::from(sum);
            self.squares += (u128::from(high) << 32) + u128::from(low);
        }
    }

    /// With q and r of sum = q * count + r, the squares of the distances from q are
    /// squares - 2 * q * sum + q * q * count, and those from the mean r * r / count less. Worked
    /// example: 2, 2, 3: q = 2, r = 1; 17 - 28 + 12 = 1, less 1 / 3.
    fn mean_and_squares(&self, count: u64) -> [f64; 2] {
        let number = i128::from(count);
        let (quotient, rest) = (self.sum.div_euclid(number), self.sum.rem_euclid(number));
        // Each product fits 128 bits; the result is less than the squares, so that it does, too.
        let about = self.squares as i128 - 2 * quotient * self.sum + quotient * quotient * number;
        let less = rest * rest;
        let squares = (about - less / number) as f64 - (less % number) as f64 / count as f64;
        [self.sum as f64 / count as f64, squares]
    }
}

/// Lanes that a sum is taken in, so that no addition waits for the one before it.
const LANES: usize = 8;

/// A sum of twice the precision of a double: what rounding took from `high` is in `low`.
#[derive(Clone, Copy, Default)]
pub struct Twofold {
    high: f64,
    low: f64,
}

impl Twofold {
    /// Knuth's sum of two doubles and its error.
    #[inline(always)]
    fn add(&mut self, value: f64) {
        let sum = self.high + value;
        let part = sum - self.high;
        self.low += (self.high - (sum - part)) + (value - part);
        self.high = sum;
    }

    /// Errors of sums that are not finite mean nothing.
    fn value(self) -> f64 {
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }

    /// The sum over elements.
    fn of<T: Number>(bytes: &[u8], each: impl Fn(T) -> f64) -> Twofold {
        let mut lanes = [Twofold::default(); LANES];
        for run in bytes.chunks(LANES * T::BYTES) {
            for (lane, element) in lanes.iter_mut().zip(elements::<T>(run)) {
                lane.add(if element.is_nan() { 0.0 } else { each(element) });
            }
        }
        let mut sum = Twofold::default();
        lanes.iter().for_each(|lane| sum.merge(*lane));
        sum
    }

    fn merge(&mut self, other: Twofold) {
        self.add(other.high);
        self.low += other.low;
    }

    /// The sum divided by `count`, as a double and what that lacks.
    fn divided(self, count: f64) -> [f64; 2] {
        let quotient = self.value() / count;
        let rest = (-quotient).mul_add(count, self.high) + self.low;
        [quotient, if quotient.is_finite() { rest / count } else { 0.0 }]
    }
}

/// A sum that a mean comes from.
pub trait Sum: Copy + Default {
    fn of<T: Number>(bytes: &[u8]) -> Self;
    fn merge(&mut self, other: Self);
    /// The sum of `count` numbers, divided by that.
    fn mean(self, count: u64) -> f64;
    /// A number next to that mean.
    fn centre(self, count: u64) -> Value;
    /// How far the mean of so many others is from it.
    fn between(self, count: u64, other: Self, other_count: u64) -> f64;
}

impl Sum for Twofold {
    fn of<T: Number>(bytes: &[u8]) -> Twofold {
        Twofold::of(bytes, |element: T| element.value().real())
    }

    fn merge(&mut self, other: Twofold) {
        Twofold::merge(self, other);
    }

    fn mean(self, count: u64) -> f64 {
        self.value() / count as f64
    }

    fn centre(self, count: u64) -> Value {
        Value::Real(self.mean(count))
    }

    fn between(self, count: u64, other: Twofold, other_count: u64) -> f64 {
        let [here, there] = [self.divided(count as f64), other.divided(other_count as f64)];
        (there[0] - here[0]) + (there[1] - here[1])
    }
}

impl Sum for i128 {
    fn of<T: Number>(bytes: &[u8]) -> i128 {
        let whole = |element: T| if let Value::Whole(whole) = element.value() { whole } else { 0 };
        elements(bytes).map(whole).sum()
    }

    fn merge(&mut self, other: i128) {
        *self += other;
    }

    fn mean(self, count: u64) -> f64 {
        self as f64 / count as f64
    }

    fn centre(self, count: u64) -> Value {
        Value::Whole(self.div_euclid(i128::from(count)))
    }

    fn between(self, count: u64, other: i128, other_count: u64) -> f64 {
        let parts = |sum: i128, count: u64| {
            let number = i128::from(count);
            (sum.div_euclid(number), sum.rem_euclid(number) as f64 / count as f64)
        };
        let (here, there) = (parts(self, count), parts(other, other_count));
        (there.0 - here.0) as f64 + (there.1 - here.1)
    }
}

/// Squares of distances from the mean.
#[derive(Default)]
pub struct Stable<S> {
    sum: S,
    squares: Twofold,
}

impl<S: Sum> Tally for Stable<S> {
    fn add<T: Number>(&mut self, before: u64, bytes: &[u8], count: u64) {
        let sum = S::of::<T>(bytes);
        let centre = sum.centre(count);
        let distance = |element: T| element.value().distance(centre);
        // The distances are from a number next to the mean, which their sum makes up for.
        let shift = Twofold::of(bytes, distance).value();
        self.squares.merge(Twofold::of(bytes, |element| {
            let distance = distance(element);
            distance * distance
        }));
        self.squares.add(-(shift * shift / count as f64));
        if before > 0 {
            let between = self.sum.between(before, sum, count);
            let weight = before as f64 / (before + count) as f64 * count as f64;
            self.squares.add(between * between * weight);
        }
        self.sum.merge(sum);
    }

    fn mean_and_squares(&self, count: u64) -> [f64; 2] {
        // Rounding may leave a little less than none; NaN stays.
        let squares = self.squares.value();
        [self.sum.mean(count), if squares < 0.0 { 0.0 } else { squares }]
    }
}
