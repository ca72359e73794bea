//! Numbers of lognormal distributions: e to the power of a normal number.

use crate::loops::augment::normal;
use core::f64::consts::LOG2_E;

/// ln 2 to 40 bits after the point, so that up to 8,192 of it are exact, and the rest of it.
const LN_2_HIGH: f64 = 0.693_147_180_559_208_2;
const LN_2_LOW: f64 = 7.371_002_565_167_799e-13;

/// Terms of the series of e^x after the first: the next one is below 4.2e-18 for |x| <= ln 2 / 2.
const TERMS: u32 = 13;

/// Number `place` of those that a key has, whose logarithms have a mean and a deviation, to the
/// nearest integer. u64::MAX stands for more. The normal numbers are those of noise, of which none
/// is beyond 4.94 deviations.
pub fn lognormal((key, place): (u64, u64), mean: f64, deviation: f64) -> u64 {
    (exp(mean + deviation * f64::from(normal(key, place))) + 0.5) as u64
}

/// e^x for x from -64 to 64, the nearest of which stands for others; its error is below 1e-15 of
/// it, that of `mean + deviation * normal` apart.
fn exp(x: f64) -> f64 {
    let x = x.clamp(-64.0, 64.0);
    let twos = x * LOG2_E;
    // To the nearest integer, as a conversion cuts what is after the point.
    let twos = (twos + f64::copysign(0.5, twos)) as i64;
    let rest = (x - twos as f64 * LN_2_HIGH) - twos as f64 * LN_2_LOW;
    let series = (1..=TERMS).rev().fold(1.0, |sum, term| 1.0 + rest / f64::from(term) * sum);
    series * f64::from_bits((1023 + twos) as u64 * (1 << 52))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// tests/data/make_lognormal.py prints these.
    #[rustfmt::skip]
    #[allow(clippy::unreadable_literal, clippy::excessive_precision, clippy::approx_constant)]
    const POWERS: [(f64, f64); 40] = [
        (0.0, 1.0),
        (1.0, 2.718281828459045),
        (-1.0, 0.36787944117144233),
        (64.0, 6.235149080811617e+27),
        (-64.0, 1.603810890548638e-28),
        (0.34657359027997, 1.4142135623730914),
        (44.3, 1.7347845605812632e+19),
        (15.731416945881847, 6793093.1850323565),
        (30.948734625373362, 27597177677831.598),
        (37.78477639240917, 2.5687384541164184e+16),
        (56.63363632346244, 3.941629007751157e+24),
        (30.70701756671113, 21671465705093.684),
        (54.05759957317338, 2.9985907680194686e+23),
        (-60.287330779697314, 6.569690551388064e-27),
        (-4.400300239602515, 0.012273654312723776),
        (56.74965977578415, 4.426536916535773e+24),
        (19.068742801526298, 191183221.58725387),
        (51.315262944079706, 1.9316815600423203e+22),
        (-49.50963652439752, 3.1494742100835527e-22),
        (-3.9591618838830414, 0.019079098092143643),
        (-32.43867742466172, 8.166978160432581e-15),
        (5.601389982199095, 270.802556678461),
        (9.4644720547969, 12893.415772252252),
        (-62.32138373262052, 8.593437849266981e-28),
        (-36.258585540627436, 1.7910032671428875e-16),
        (-28.22625715057788, 5.514323933542271e-13),
        (53.292207591494645, 1.3947991865699426e+23),
        (34.01285780853014, 591012219166854.8),
        (-43.570660818171106, 1.195370224520114e-19),
        (38.034814903194174, 3.298452487457344e+16),
        (-46.237770444940395, 8.302166525707567e-21),
        (15.033922619662931, 3381813.3567040674),
        (-47.78249823356548, 1.7714328153403952e-21),
        (-63.772817638075566, 2.012876846615775e-28),
        (47.53980732470811, 4.428697243404036e+20),
        (-37.18958304062491, 7.0594245541601e-17),
        (-36.41841033923427, 1.5264597245579819e-16),
        (61.74990192971843, 6.571154314896784e+26),
        (47.66819397591064, 5.0353957154904834e+20),
        (-26.96893852839341, 1.9388259074773874e-12),
    ];

    #[rustfmt::skip]
    #[allow(clippy::unreadable_literal)]
    const NUMBERS: [((u64, u64), (f64, f64), u64); 7] = [
        ((7, 0), (13.0, 0.5), 356826),
        ((7, 1), (13.0, 0.5), 187822),
        ((18446744073709551615, 999), (16.5, 1.25), 49978597),
        ((0, 5), (9.0, 0.0), 8103),
        ((1, 9223372036854775808), (2.0, 0.7), 10),
        ((1, 12345), (40.0, 0.7), 91356204009004702),
        ((1, 77), (-3.0, 0.7), 0),
    ];

    #[test]
    fn powers_of_e_are_within_their_error() {
        for (x, power) in POWERS {
            assert!((exp(x) / power - 1.0).abs() < 1e-15, "{x}: {} for {power}", exp(x));
        }
        assert_eq!([1e300, -1e300, f64::INFINITY].map(exp), [64.0, -64.0, 64.0].map(exp));
    }

    #[test]
    fn numbers_are_those_of_other_arithmetic() {
        for (place, (mean, deviation), number) in NUMBERS {
            let found = lognormal(place, mean, deviation);
            let error = (found as f64 / number.max(1) as f64 - 1.0).abs();
            assert!(found == number || number > 1 << 40 && error < 1e-14, "{found} for {number}");
        }
        assert_eq!(lognormal((0, 0), 1e6, 0.0), u64::MAX);
        assert_eq!(lognormal((0, 0), -1e6, 0.0), 0);
    }

    #[test]
    fn the_quantiles_are_those_of_the_distribution() {
        const COUNT: usize = 100_000;
        let mut numbers: Vec<u64> =
            (0..COUNT as u64).map(|place| lognormal((9, place), 14.0, 0.6)).collect();
        numbers.sort_unstable();
        // By deviations: the quantile, and the part of the numbers that lie below.
        for (deviations, part) in [(-2.0, 0.02275), (-1.0, 0.15866), (0.0, 0.5), (1.0, 0.84134)] {
            let expected = exp(14.0 + 0.6 * deviations);
            let found = numbers[(part * COUNT as f64) as usize] as f64;
            assert!((found / expected - 1.0).abs() < 0.02, "{deviations}: {found} {expected}");
        }
    }
}
