//! Elements as numbers.
//!
//! In: bytes of an element, in this machine's byte order. Out: a number that can be compared, its
//! exact value, and its place in an order of all values of its type, where these are few.

use super::moments::{Exact, Stable, Tally, Twofold};
use serde_json::{Value as Json, json};
use std::fmt;
use wavetrain::loops::convert::{
    Brain, Half, brain_from_f32, f32_from_brain, f32_from_half, half_from_f32,
};

/// The value of an element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    Whole(i128),
    Real(f64),
}

impl Value {
    /// The nearest double.
    #[inline(always)]
    pub fn real(self) -> f64 {
        match self {
            Value::Whole(whole) => whole as f64,
            Value::Real(real) => real,
        }
    }

    /// How far it is from another one, both integers or both not.
    #[inline(always)]
    pub fn distance(self, other: Value) -> f64 {
        match (self, other) {
            (Value::Whole(whole), Value::Whole(other)) => (whole - other) as f64,
            _ => self.real() - other.real(),
        }
    }

    /// As JSON, which has no number for some: they are spelled as zarr spells them.
    pub fn json(self) -> Json {
        match self {
            Value::Whole(whole) => match i64::try_from(whole) {
                Ok(whole) => json!(whole),
                Err(_) => json!(whole as u64),
            },
            Value::Real(real) if real.is_finite() => json!(real),
            Value::Real(real) if real.is_nan() => json!("NaN"),
            Value::Real(real) => json!(if real > 0.0 { "Infinity" } else { "-Infinity" }),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(whole) => whole.fmt(f),
            Value::Real(real) if *real != 0.0 && !(1e-4..1e9).contains(&real.abs()) => {
                write!(f, "{real:e}")
            }
            Value::Real(real) => real.fmt(f),
        }
    }
}

/// An element type.
pub trait Number: Copy + PartialOrd {
    /// Bytes of an element.
    const BYTES: usize;
    /// How many values the type has, if they can be counted one by one.
    const VALUES: Option<usize>;
    /// How sums and squares are taken.
    type Tally: Tally;

    /// The element of these bytes.
    fn of(bytes: &[u8]) -> Self;
    fn value(self) -> Value;

    fn is_nan(self) -> bool {
        false
    }

    fn is_finite(self) -> bool {
        true
    }

    /// The place among all values of the type, and the value of a place, where VALUES says so.
    fn place(self) -> usize;
    fn at(place: usize) -> Self;

    /// How far it lies above another one, in this unit.
    fn offset(self, least: Self) -> f64;
    const UNIT: f64;
    const IS_WHOLE: bool;
}

/// Integers: their type, that of their squares, how many values, and the bit that turns their bits
/// into places.
macro_rules! whole {
    ($($type:ty, $values:expr, $bits:ty, $flip:expr, $tally:ty;)+) => {$(
        impl Number for $type {
            const BYTES: usize = size_of::<$type>();
            const VALUES: Option<usize> = $values;
            type Tally = $tally;

            #[inline(always)]
            fn of(bytes: &[u8]) -> $type {
                <$type>::from_ne_bytes(bytes.try_into().unwrap_or_default())
            }

            #[inline(always)]
            fn value(self) -> Value {
                Value::Whole(self.into())
            }

            #[inline(always)]
            fn place(self) -> usize {
                (self as $bits ^ $flip) as usize
            }

            fn at(place: usize) -> $type {
                (place as $bits ^ $flip) as $type
            }

            #[inline(always)]
            fn offset(self, least: $type) -> f64 {
                self.abs_diff(least) as f64
            }

            const UNIT: f64 = 1.0;
            const IS_WHOLE: bool = true;
        }
    )+};
}

whole! {
    u8, Some(1 << 8), u8, 0, Exact;
    i8, Some(1 << 8), u8, 1 << 7, Exact;
    u16, Some(1 << 16), u16, 0, Exact;
    i16, Some(1 << 16), u16, 1 << 15, Exact;
    u32, None, u32, 0, Exact;
    i32, None, u32, 1 << 31, Exact;
    u64, None, u64, 0, Stable<i128>;
    i64, None, u64, 1 << 63, Stable<i128>;
}

/// Real numbers: their type, how many values, the type that their order has bits of, and how they
/// come from bytes and bits.
macro_rules! real {
    ($($type:ident, $inner:ty, $values:expr, $bits:ty, $from:expr, $to:expr;)+) => {$(
        #[derive(Clone, Copy, PartialEq, PartialOrd)]
        pub struct $type($inner);

        impl Number for $type {
            const BYTES: usize = size_of::<$bits>();
            const VALUES: Option<usize> = $values;
            type Tally = Stable<Twofold>;

            #[inline(always)]
            fn of(bytes: &[u8]) -> $type {
                $type($from(<$bits>::from_ne_bytes(bytes.try_into().unwrap_or_default())))
            }

            #[inline(always)]
            fn value(self) -> Value {
                Value::Real(self.0.into())
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.0.is_nan()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.0.is_finite()
            }

            /// Bits of negative numbers fall as the numbers rise.
            fn place(self) -> usize {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits: $bits = $to(self.0);
                (if bits & SIGN == 0 { bits | SIGN } else { !bits }) as usize
            }

            fn at(place: usize) -> $type {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = place as $bits;
                $type($from(if bits & SIGN == 0 { !bits } else { bits & !SIGN }))
            }

            #[inline(always)]
            fn offset(self, least: $type) -> f64 {
                f64::from(self.0) / Self::UNIT - f64::from(least.0) / Self::UNIT
            }

            /// The difference of two doubles may be larger than any double.
            const UNIT: f64 = 2.0;
            const IS_WHOLE: bool = false;
        }
    )+};
}

real! {
    F16, f32, Some(1 << 16), u16, |bits| f32_from_half(Half(bits)), |real| half_from_f32(real).0;
    Bf16, f32, Some(1 << 16), u16, |bits| f32_from_brain(Brain(bits)),
        |real| brain_from_f32(real).0;
    F32, f32, None, u32, f32::from_bits, f32::to_bits;
    F64, f64, None, u64, f64::from_bits, f64::to_bits;
}

/// A boolean: any byte but 0 is 1, as casts of the library have it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Bool(u8);

impl Number for Bool {
    const BYTES: usize = 1;
    const VALUES: Option<usize> = Some(2);
    type Tally = Exact;

    fn of(bytes: &[u8]) -> Bool {
        Bool(u8::from(bytes != [0]))
    }

    fn value(self) -> Value {
        Value::Whole(self.0.into())
    }

    fn place(self) -> usize {
        self.0.into()
    }

    fn at(place: usize) -> Bool {
        Bool(place as u8)
    }

    fn offset(self, least: Bool) -> f64 {
        f64::from(self.0 - least.0)
    }

    const UNIT: f64 = 1.0;
    const IS_WHOLE: bool = true;
}
