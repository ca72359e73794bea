//! One element into one of another type: the portable conversions, and the oracle of the vector
//! ones.
//!
//! In: an element. Out: the element that numpy and ml_dtypes give, or the quiet NaN of its sign.
//! Invariant: only the operations of the default floating-point environment matter.

use crate::loops::simd::Wide;
pub use crate::loops::simd::{Brain, Half};

/// A type that chunks hold.
pub trait Source: Copy {
    /// Bytes of an element.
    const BYTES: usize;

    /// The element whose bytes these are, least significant first.
    fn read(bytes: &[u8]) -> Self;
}

/// A type that batches hold, in the machine's byte order.
pub trait Target: Copy {
    /// Bytes of an element.
    const BYTES: usize;

    /// Writes the bytes of the element.
    fn write(self, bytes: &mut [u8]);
}

/// A change of type as the head of this file tells it.
pub trait Convert<T>: Source + Wide<T> {
    /// The element of the other type.
    fn convert(self) -> T;
}

macro_rules! source {
    ($($element:ty, $word:ty, $from:expr;)*) => {$(
        impl Source for $element {
            const BYTES: usize = size_of::<$word>();

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$word>()];
                word.copy_from_slice(bytes);
                $from(<$word>::from_le_bytes(word))
            }
        }
    )*};
}

source! {
    u8, u8, |word| word;
    i8, u8, |word| word as i8;
    u16, u16, |word| word;
    i16, u16, |word| word as i16;
    u32, u32, |word| word;
    i32, u32, |word| word as i32;
    u64, u64, |word| word;
    i64, u64, |word| word as i64;
    Half, u16, Half;
    Brain, u16, Brain;
    f32, u32, f32::from_bits;
    f64, u64, f64::from_bits;
}

macro_rules! target {
    ($($element:ty, $to:expr;)*) => {$(
        impl Target for $element {
            const BYTES: usize = size_of::<$element>();

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$to(self));
            }
        }
    )*};
}

target! {
    i32, i32::to_ne_bytes;
    i64, i64::to_ne_bytes;
    f32, f32::to_ne_bytes;
    Half, |half: Half| half.0.to_ne_bytes();
    Brain, |brain: Brain| brain.0.to_ne_bytes();
}

macro_rules! convert {
    ($($source:ty => $target:ty, $convert:expr;)*) => {$(
        impl Convert<$target> for $source {
            #[inline(always)]
            fn convert(self) -> $target {
                $convert(self)
            }
        }
    )*};
}

/// Integers to floats. A binary16 is infinite from 65,520 on, so a clamped integer rounds as the
/// whole one would, and it is exact in an f32 on the way.
macro_rules! convert_integer {
    ($($source:ty, $halves:expr;)*) => {$(
        convert! {
            $source => f32, |value| value as f32;
            $source => Half, |value| half_from_f32($halves(value) as f32);
            $source => Brain, |value| brain_from_f32(value as f32);
        }
    )*};
}

convert_integer! {
    u8, i32::from;
    i8, i32::from;
    u16, |value: u16| i32::from(value.min(65_520));
    i16, i32::from;
    u32, |value: u32| value.min(65_520) as i32;
    i32, |value: i32| value.clamp(-65_520, 65_520);
    u64, |value: u64| value.min(65_520) as i32;
    i64, |value: i64| value.clamp(-65_520, 65_520) as i32;
}

convert! {
    u8 => i32, i32::from;
    i8 => i32, i32::from;
    u16 => i32, i32::from;
    i16 => i32, i32::from;
    u8 => i64, i64::from;
    i8 => i64, i64::from;
    u16 => i64, i64::from;
    i16 => i64, i64::from;
    u32 => i64, i64::from;
    i32 => i64, i64::from;
    Half => f32, f32_from_half;
    Half => Brain, |half| brain_from_f32(f32_from_half(half));
    Brain => f32, f32_from_brain;
    Brain => Half, |brain| half_from_f32(f32_from_brain(brain));
    f32 => Half, half_from_f32;
    f32 => Brain, brain_from_f32;
    f64 => f32, f32_from_f64;
    f64 => Half, half_from_f64;
    f64 => Brain, brain_from_f64;
}

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

/// One rounding to nearest even, as [`half_from_f32`] at twice the width: through an f32 it would
/// be two.
#[inline(always)]
pub fn half_from_f64(value: f64) -> Half {
    const NORMAL_MIN: u64 = (1023 - 14) << 52;
    const INFINITE_MIN: u64 = 0x40EF_FE00_0000_0000;
    const INFINITY: u64 = 0x7FF0_0000_0000_0000;
    /// Its last place is 2^-24, that of a subnormal half.
    const ALIGNED: f64 = (1u64 << 28) as f64;
    let bits = value.to_bits();
    let magnitude = bits & !(1 << 63);
    let odd = magnitude >> 42 & 1;
    let normal = magnitude.wrapping_sub((1023 - 15) << 52).wrapping_add((1 << 41) - 1 + odd) >> 42;
    let aligned = (f64::from_bits(magnitude) + ALIGNED).to_bits();
    let subnormal = aligned.wrapping_sub(ALIGNED.to_bits());
    let finite = if magnitude < NORMAL_MIN { subnormal } else { normal };
    let infinite = if magnitude > INFINITY { 0x7E00 } else { 0x7C00 };
    let half = if magnitude < INFINITE_MIN { finite } else { infinite };
    Half((bits >> 48) as u16 & 0x8000 | half as u16)
}
