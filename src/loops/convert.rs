//! One element into one of another type: the portable conversions, and the oracle of the vector
//! ones.
//!
//! In: an element. Out: the element that numpy and ml_dtypes give, or the quiet NaN of its sign.
//! Invariant: only the operations of the default floating-point environment matter.

pub use crate::loops::simd::{Brain, Half};

/// Exact. A subnormal half is a normal f32: its 10 bits in an f32 of exponent -14, less that
/// exponent's leading one.
#[inline(always)]
pub fn f32_from_half(half: Half) -> f32 {
    const LEADING_ONE: u32 = (127 - 14) << 23;
    let sign = u32::from(half.0 & 0x8000) << 16;
    let magnitude = u32::from(half.0 & 0x7FFF) << 13;
    let normal = magnitude + ((127 - 15) << 23);
    let subnormal = f32::from_bits(magnitude + LEADING_ONE) - f32::from_bits(LEADING_ONE);
    let finite = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
    let infinite = if magnitude == 0x1F << 23 { 0x7F80_0000 } else { 0x7FC0_0000 };
    f32::from_bits(sign | if magnitude < 0x1F << 23 { finite } else { infinite })
}

/// Exact.
#[inline(always)]
pub fn f32_from_brain(brain: Brain) -> f32 {
    let bits = u32::from(brain.0) << 16;
    let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    f32::from_bits(if is_nan { bits & 0x8000_0000 | 0x7FC0_0000 } else { bits })
}

/// One rounding to nearest even.
#[inline(always)]
pub fn f32_from_f64(value: f64) -> f32 {
    let sign = ((value.to_bits() >> 32) as u32) & 0x8000_0000;
    let quiet = f32::from_bits(sign | 0x7FC0_0000);
    if value.is_nan() { quiet } else { value as f32 }
}

/// One rounding to nearest even, by adding just under half of the last place that stays, and one
/// more where that place is odd.
#[inline(always)]
pub fn brain_from_f32(value: f32) -> Brain {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 & 0x8000 | 0x7FC0;
    Brain(if value.is_nan() { quiet } else { rounded })
}

/// Rounded twice to nearest even, to an f32 and from there, which is what ml_dtypes does.
#[inline(always)]
pub fn brain_from_f64(value: f64) -> Brain {
    brain_from_f32(f32_from_f64(value))
}

/// One rounding to nearest even. Normal results round as in [`brain_from_f32`]; subnormal ones by
/// adding 0.5, whose last place is that of a subnormal half, in the float unit.
#[inline(always)]
pub fn half_from_f32(value: f32) -> Half {
    const NORMAL_MIN: u32 = (127 - 14) << 23;
    const INFINITE_MIN: u32 = 0x477F_F000;
    const INFINITY: u32 = 0x7F80_0000;
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xFFF + odd) >> 13;
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < NORMAL_MIN { subnormal } else { normal };
    let infinite = if magnitude > INFINITY { 0x7E00 } else { 0x7C00 };
    let half = if magnitude < INFINITE_MIN { finite } else { infinite };
    Half((bits >> 16) as u16 & 0x8000 | half as u16)
}

/// One rounding to nearest even: through an f32 that is rounded to odd.
#[inline(always)]
pub fn half_from_f64(value: f64) -> Half {
    half_from_f32(odd_f32_from_f64(value))
}

/// An f32 that rounds to the half that `value` would: cut off below the last place of an f32, that
/// place set if anything was lost, by a carry out of the lower bits into it. What is beyond an f32
/// is infinite or 0 as a half, too.
#[inline(always)]
pub fn odd_f32_from_f64(value: f64) -> f32 {
    const BELOW: u64 = (1 << 29) - 1;
    let bits = value.to_bits();
    f32_from_f64(f64::from_bits((bits | ((bits & BELOW) + BELOW)) & !BELOW))
}
