//! Arithmetic on floats on their way into a batch.
//!
//! In: floats, as bytes in the machine's order. Out: the same places. include/wavetrain.h has the
//! definition. Invariant: each operation rounds once, and every NaN that is left is one NaN, so
//! that all backends give the same bits.
//!
//! What is not asked for is done with numbers that change nothing: a factor of 1, a term of -0, and
//! infinite limits.

use crate::loops::normal::UPPER_HALF;
pub use crate::loops::simd::{add_noise, run, run_each};

/// The bytes of a float.
pub type FloatBytes = [u8; 4];

/// The NaN that every other becomes.
pub(super) const NAN: u32 = 0x7FC0_0000;

/// Multiplies the number of a place with it.
const PLACE_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// What is done to each float.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The factor.
    pub scale: f32,
    /// The term.
    pub bias: f32,
    /// Least value.
    pub low: f32,
    /// Largest value.
    pub high: f32,
}

/// Limits that limit nothing.
const NO_LIMITS: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

impl Steps {
    /// Nothing, but for NaNs.
    pub const NONE: Steps = Steps { scale: 1.0, bias: -0.0, low: NO_LIMITS.0, high: NO_LIMITS.1 };
}

/// Places of a row that get a value in place of what the steps make, from the first to behind the
/// last.
#[derive(Clone, Copy, Debug)]
pub struct Hole {
    /// Number of the first place in its row.
    pub first: usize,
    /// Number of the place behind the last.
    pub limit: usize,
    /// The value, which is no NaN but the one.
    pub value: f32,
}

impl Hole {
    /// Rows have no such places.
    pub const NONE: Hole = Hole { first: usize::MAX, limit: 0, value: 0.0 };
}

#[inline(always)]
fn stepped(x: f32, scale: f32, bias: f32, (low, high): (f32, f32)) -> f32 {
    let x = x * scale;
    let x = x + bias;
    let x = if x < low { low } else { x };
    let x = if x > high { high } else { x };
    one_nan(x)
}

/// A float, or the one NaN.
#[inline(always)]
pub fn one_nan(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(NAN) } else { x }
}

/// The same steps for all floats.
#[inline(always)] // into what is compiled for the instructions of a level, as the others
pub(super) fn run_plain(floats: &mut [FloatBytes], steps: &Steps) {
    let Steps { scale, bias, low, high } = *steps;
    // Limits that limit nothing take as long as others.
    match (low, high) == NO_LIMITS {
        true => run_within(floats, (scale, bias), NO_LIMITS),
        false => run_within(floats, (scale, bias), (low, high)),
    }
}

#[inline(always)]
fn run_within(floats: &mut [FloatBytes], (scale, bias): (f32, f32), limits: (f32, f32)) {
    for bytes in floats {
        let x = f32::from_ne_bytes(*bytes);
        *bytes = stepped(x, scale, bias, limits).to_ne_bytes();
    }
}

/// The same with a factor and a term for each float, of which there are as many, and limits.
#[inline(always)]
pub(super) fn run_each_plain(
    floats: &mut [FloatBytes],
    (scale, bias): (&[f32], &[f32]),
    limits: (f32, f32),
) {
    for ((bytes, scale), bias) in floats.iter_mut().zip(scale).zip(bias) {
        let x = f32::from_ne_bytes(*bytes);
        *bytes = stepped(x, *scale, *bias, limits).to_ne_bytes();
    }
}

/// Adds noise of a deviation and a key; the first float has place `first` in its sample.
#[inline(always)]
pub(super) fn add_noise_plain(floats: &mut [FloatBytes], (sigma, key): (f32, u64), first: u64) {
    for (place, bytes) in (first..).zip(floats) {
        let noise = sigma * normal(key, place);
        *bytes = (f32::from_ne_bytes(*bytes) + noise).to_ne_bytes();
    }
}

/// A number of the normal distribution for a place.
#[inline(always)]
pub(super) fn normal(key: u64, place: u64) -> f32 {
    let mut hash = key.wrapping_add((place + 1).wrapping_mul(PLACE_FACTOR));
    hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^= hash >> 31;
    quantile(hash >> 53) + quantile(hash >> 42 & 2047)
}

/// An entry of the table.
#[inline(always)]
fn quantile(entry: u64) -> f32 {
    let half = UPPER_HALF.len();
    let entry = entry as usize & (2 * half - 1);
    let (at, sign) = if entry < half { (half - 1 - entry, 1 << 31) } else { (entry - half, 0) };
    f32::from_bits(UPPER_HALF[at] | sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::simd::Level;
    use std::vec::Vec;

    fn bytes(floats: &[f32]) -> Vec<FloatBytes> {
        floats.iter().map(|x| x.to_ne_bytes()).collect()
    }

    fn bits(floats: &[FloatBytes]) -> Vec<u32> {
        floats.iter().map(|x| u32::from_ne_bytes(*x)).collect()
    }

    #[test]
    fn every_level_gives_the_same() {
        let floats: Vec<u32> = (0..1003u32).map(|n| n.wrapping_mul(0x9E37_79B9)).collect();
        let floats: Vec<FloatBytes> = floats.iter().map(|bits| bits.to_ne_bytes()).collect();
        let table: Vec<f32> = (0..1003).map(|n| n as f32 * 0.37 - 100.0).collect();
        let steps = Steps { scale: 0.3, bias: -7.7, low: -1e30, high: 1e30 };
        let of = |level| {
            let mut made = [floats.clone(), floats.clone(), floats.clone()];
            run(level, &mut made[0], &steps);
            run_each(level, &mut made[1], (&table, &table), (-1e30, 1e30));
            add_noise(level, &mut made[2], (3.5, 17), 1 << 40);
            // What the sum of two NaNs holds is not part of the definition: steps come after it.
            run(level, &mut made[2], &Steps::NONE);
            made
        };
        let expected = of(Level::baseline());
        for level in Level::each() {
            assert!(of(level) == expected, "{level:?}");
        }
    }

    #[test]
    fn no_step_changes_only_nans() {
        let odd = [0.0, -0.0, 1e-45, -1e-45, f32::MAX, f32::INFINITY, f32::NEG_INFINITY];
        let mut floats = bytes(&odd);
        run(Level::here(), &mut floats, &Steps::NONE);
        assert_eq!(floats, bytes(&odd));
        let nans = [0x7FC0_0000, 0xFFC0_0000, 0x7F80_0001, 0xFFFF_FFFF];
        let mut floats = bytes(&nans.map(f32::from_bits));
        run(Level::here(), &mut floats, &Steps::NONE);
        assert_eq!(bits(&floats), [NAN; 4]);
    }

    #[test]
    fn each_operation_rounds_once() {
        // Contracted to one operation this is another float.
        let (x, scale, bias) = (1.0 + f32::EPSILON, 1.0 + f32::EPSILON, -1.0 - 2.0 * f32::EPSILON);
        let mut floats = bytes(&[x; 9]);
        run(Level::here(), &mut floats, &Steps { scale, bias, ..Steps::NONE });
        assert_eq!(floats, bytes(&[0.0; 9]));
        assert_ne!(x.mul_add(scale, bias), 0.0);
        let mut floats = bytes(&[x; 9]);
        run_each(Level::here(), &mut floats, (&[scale; 9], &[bias; 9]), (-1.0, 1.0));
        assert_eq!(floats, bytes(&[0.0; 9]));
    }

    #[test]
    fn limits_keep_what_lies_between_and_nans() {
        let mut floats = bytes(&[-3.0, -1.0, -0.0, 2.0, 2.5, f32::INFINITY, f32::NAN]);
        run(Level::here(), &mut floats, &Steps { low: -1.0, high: 2.0, ..Steps::NONE });
        assert_eq!(bits(&floats[6..]), [NAN]);
        assert_eq!(floats[..6], bytes(&[-1.0, -1.0, -0.0, 2.0, 2.0, 2.0])[..]);
    }

    /// tests/data/make_normal.py prints them, from the words of the header alone.
    #[test]
    fn noise_is_that_of_the_definition() {
        let found = [(0, 0), (0, 1), (7, 123_456_789_012), (u64::MAX, u64::MAX - 1)]
            .map(|(key, place)| normal(key, place).to_bits());
        assert_eq!(found, [0xBF19_1CC7, 0x3ECC_23BB, 0xBF1F_AA58, 0x3EED_3617]);
    }

    #[test]
    fn noise_has_the_moments_of_the_normal_distribution() {
        let count = 1 << 20;
        let mut floats = bytes(&std::vec![0.0; count]);
        add_noise(Level::here(), &mut floats, (1.0, 42), 0);
        let moment = |power: i32| {
            let sum: f64 =
                floats.iter().map(|x| f64::from(f32::from_ne_bytes(*x)).powi(power)).sum();
            sum / count as f64
        };
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.02;
        assert!(near(moment(1), 0.0) && near(moment(2), 1.0), "{} {}", moment(1), moment(2));
        assert!(near(moment(3), 0.0) && near(moment(4) - 3.0, 0.0), "{} {}", moment(3), moment(4));
        // A piece is the same wherever it begins.
        let mut piece = bytes(&[0.0; 10]);
        add_noise(Level::here(), &mut piece, (1.0, 42), 1000);
        assert_eq!(piece, floats[1000..1010]);
    }
}
