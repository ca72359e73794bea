//! Sines, powers and logarithms of whole numbers that stand for fractions of 2^32 (Q32).
//!
//! Integers alone, so that every machine gives the same bits. tests/data/make_recipes.py has the
//! same in Python, and compares it with the functions of floats.

/// 1 as Q32.
pub(super) const ONE: i64 = 1 << 32;

/// (pi / 2)^k / k! * 2^60, rounded, for k = 1, 3, 5 .. 17.
const SINE: [i128; 9] = [
    1_811_004_864_519_280_711,
    744_745_899_218_905_439,
    91_879_342_557_802_013,
    5_397_695_021_890_950,
    184_976_092_165_948,
    4_149_183_757_585,
    65_626_285_697,
    771_077_950,
    6_994_701,
];

/// 2^(2^-1), 2^(2^-2) .. 2^(2^-32) as Q62: each is the root of the one before, rounded down.
const ROOTS: [u64; 32] = {
    let (mut roots, mut root, mut at) = ([0; 32], 2u128 << 62, 0);
    while at < roots.len() {
        root = (root << 62).isqrt();
        roots[at] = root as u64;
        at += 1;
    }
    roots
};

/// The sine of an angle of `turns` / 2^32 turns, as Q32, off by less than 2^-32. The series of the
/// first quarter, in Q60.
pub(super) fn sine(turns: u32) -> i64 {
    const QUARTER: u32 = 1 << 30;
    let in_half = turns & (2 * QUARTER - 1);
    let x = if in_half > QUARTER { 2 * QUARTER - in_half } else { in_half };
    let x = i128::from(x) << 30;
    let square = (x * x) >> 60;
    let sum = SINE.iter().rev().fold(0, |sum, term| term - ((square * sum) >> 60));
    let sine = ((((x * sum) >> 60) + (1 << 27)) >> 28) as i64;
    if turns >= 2 * QUARTER { -sine } else { sine }
}

/// The cosine of the same.
pub(super) fn cosine(turns: u32) -> i64 {
    sine(turns.wrapping_add(1 << 30))
}

/// The logarithm of base 2 of a number above 0, both Q32: a bit for each squaring.
pub(super) fn log2(number: u64) -> i64 {
    let zeros = number.leading_zeros();
    let (mut mantissa, mut log) = (number << (zeros & 63), i64::from(31 - zeros as i32) << 32);
    for bit in (0..32).rev() {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let is_two = square >> 64 != 0;
        mantissa = if is_two { square >> 1 } else { square } as u64;
        log |= i64::from(is_two) << bit;
    }
    log
}

/// 2 to the power of a number of -32 to below 31, both Q32.
pub(super) fn exp2(power: i64) -> u64 {
    let mut product = 1u64 << 62;
    for (bit, root) in (0..32).rev().zip(ROOTS) {
        if power >> bit & 1 != 0 {
            product = ((u128::from(product) * u128::from(root)) >> 62) as u64;
        }
    }
    // Q62 times 2^whole is Q32 after 30 - whole bits are dropped.
    let whole = (power >> 32).clamp(-32, 30);
    product >> (30 - whole).min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_and_cosines_are_those_of_floats() {
        for step in 0..100_000u32 {
            let turns = step.wrapping_mul(42_949_673);
            let angle = f64::from(turns) / 4_294_967_296.0 * core::f64::consts::TAU;
            for (ours, theirs) in [(sine(turns), angle.sin()), (cosine(turns), angle.cos())] {
                assert!((ours as f64 - theirs * ONE as f64).abs() < 1.0, "{turns}");
            }
        }
        assert_eq!([0, 1 << 30, 1 << 31, 3 << 30].map(sine), [0, ONE, 0, -ONE]);
    }

    #[test]
    fn powers_and_logarithms_are_those_of_floats() {
        for step in 1..10_000u64 {
            let number = step * step * 7_919;
            let theirs = (number as f64 / ONE as f64).log2() * ONE as f64;
            assert!((log2(number) as f64 - theirs).abs() < 2.0, "{number}");
            let power = step as i64 * 3_435_973 - 8 * ONE;
            let theirs = (power as f64 / ONE as f64).exp2() * ONE as f64;
            assert!((exp2(power) as f64 - theirs).abs() <= 1.0 + theirs * 1e-15, "{power}");
        }
        assert_eq!((log2(ONE as u64), exp2(0)), (0, ONE as u64));
        assert_eq!((log2(1), log2(u64::MAX) >> 32), (-32 * ONE, 31));
        assert_eq!((exp2(i64::MIN), exp2(i64::MAX) >> 62), (1, 1));
    }
}
