//! The inverses of `scale_offset` and `cast_value`: one pass over elements into other elements.
//!
//! In: the elements that a codec wrote. Out: those that it was given, in another buffer. Source:
//! the specifications in zarr-extensions, and cast-value-rs 0.5 if they leave something open: an
//! infinity has no place among integers, whatever the rule is for values beyond them. Invariant:
//! integers are exact. An element that has no value in the type refuses the chunk.
//!
//! Elements go through the blocks of words that numcodecs' filters go through.

use super::filters::{Misfit, Word, as_type, for_blocks, unscale};
use crate::records::grid::EdgeRun;
use crate::records::{Beyond, Cast, Dtype, Pair, Rounding, Scaling, Types};

/// The sign of an f64.
const SIGN: u64 = 1 << 63;

/// `encoded / scale + offset`: integers without a rest, floats in the roundings of their own type.
pub fn scale_offset(
    types: Types,
    Scaling { scale, offset }: Scaling,
    source: &[u8],
    target: &mut [u8],
) -> Result<(), Misfit> {
    let word = Word::of(types.decoded.dtype);
    if word == Word::Float {
        return unscale(types, (f64::from_bits(scale), f64::from_bits(offset)), source, target);
    }
    let limits = limits(types.decoded.dtype);
    for_blocks(types, source, target, word, &mut |words| {
        for word_here in words {
            let (value, offset) = (whole(word, *word_here), whole(word, offset));
            let sum = quotient(word, *word_here, scale).ok_or(Misfit::Rest(value))? + offset;
            *word_here = within(limits, Beyond::Error, sum).ok_or(Misfit::Whole(sum))?;
        }
        Ok(())
    })
}

/// An integer divided by another one, if nothing is left.
#[inline(always)]
fn quotient(word: Word, value: u64, scale: u64) -> Option<i128> {
    if word == Word::Unsigned {
        let is_whole = value.checked_rem(scale)? == 0;
        return is_whole.then_some((value / scale).into());
    }
    let (value, scale) = (value as i64, scale as i64);
    if scale == -1 {
        // The least integer has no negative of its size.
        return Some(-i128::from(value));
    }
    let is_whole = value.checked_rem(scale)? == 0;
    value.checked_div(scale).filter(|_| is_whole).map(i128::from)
}

/// Values of `encoded` as `decoded`; those that `pairs` name become what those say.
pub fn cast(
    cast: &Cast,
    pairs: &[EdgeRun],
    source: &[u8],
    target: &mut [u8],
) -> Result<(), Misfit> {
    let types = cast.types;
    if pairs.is_empty() && is_plain(cast) {
        return as_type(types, source, target);
    }
    let (from, to) = (Word::of(types.encoded.dtype), Word::of(types.decoded.dtype));
    // A float of the target has each value of such integers, or rounds it once.
    let is_short = types.encoded.dtype.bytes() <= 4 || types.decoded.dtype == Dtype::F64;
    if is_plain(cast) && is_short && from != Word::Float {
        return for_blocks(types, source, target, to, &mut |words| {
            for word in words {
                let float = if from == Word::Signed { *word as i64 as f64 } else { *word as f64 };
                *word = paired(pairs, from, *word).unwrap_or(float.to_bits());
            }
            Ok(())
        });
    }
    let rule = Rule::of(cast);
    for_blocks(types, source, target, to, &mut |words| {
        for word in words {
            *word = match paired(pairs, from, *word) {
                Some(decoded) => decoded,
                None => rule.convert(from, to, *word)?,
            };
        }
        Ok(())
    })
}

/// Whether numpy's conversion is the cast: to floats, to nearest even, and none is too large.
fn is_plain(cast: &Cast) -> bool {
    let (from, to) = (cast.types.encoded.dtype, cast.types.decoded.dtype);
    let fits = match to {
        Dtype::F32 | Dtype::F64 => Word::of(from) != Word::Float || from.bytes() <= to.bytes(),
        Dtype::F16 => matches!(from, Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::F16),
        _ => false,
    };
    fits && cast.rounding == Rounding::NearestEven
}

/// The value that a pair maps a word to. Zeros of both signs are one value, and so are all NaNs.
fn paired(pairs: &[EdgeRun], from: Word, word: u64) -> Option<u64> {
    let found = pairs.iter().map(|row| Pair::of_row(*row)).find(|pair| match from {
        Word::Float => {
            let (value, named) = (f64::from_bits(word), f64::from_bits(pair.encoded));
            value == named || value.is_nan() && named.is_nan()
        }
        _ => word == pair.encoded,
    });
    found.map(|pair| pair.decoded)
}

/// The rule for a value that no pair names.
struct Rule {
    rounding: Rounding,
    beyond: Beyond,
    /// The least and the largest integer.
    limits: (i128, i128),
    /// The format of floats.
    format: Format,
}

/// A binary format of IEEE 754.
struct Format {
    /// Bits of a number, the leading one included.
    precision: i32,
    /// The power of two of its least normal number.
    least: i32,
    /// The power of two of its largest number.
    largest: i32,
}

impl Rule {
    fn of(cast: &Cast) -> Rule {
        let dtype = cast.types.decoded.dtype;
        let (precision, largest) = match dtype {
            Dtype::F16 => (11, 15),
            Dtype::F32 => (24, 127),
            _ => (53, 1023),
        };
        Rule {
            rounding: cast.rounding,
            beyond: cast.beyond,
            limits: limits(dtype),
            format: Format { precision, least: 1 - largest, largest },
        }
    }

    fn convert(&self, from: Word, to: Word, word: u64) -> Result<u64, Misfit> {
        if from == Word::Float {
            let value = f64::from_bits(word);
            return match to {
                Word::Float if !value.is_finite() => Ok(word),
                Word::Float => self.float(Exact::of_float(value)).ok_or(Misfit::Float(value)),
                _ if !value.is_finite() => Err(Misfit::Float(value)),
                _ => {
                    let whole = self.rounded(value);
                    within(self.limits, self.beyond, whole).ok_or(Misfit::Float(value))
                }
            };
        }
        let whole = whole(from, word);
        let converted = match to {
            Word::Float => self.float(Exact::of_whole(whole)),
            _ => within(self.limits, self.beyond, whole),
        };
        converted.ok_or(Misfit::Whole(whole))
    }

    /// A finite float as an integer.
    fn rounded(&self, value: f64) -> i128 {
        // From here on every float is a multiple of 2^64, and beyond all integers.
        const HUGE: f64 = (1u128 << 120) as f64;
        const WHOLE: f64 = (1u64 << 52) as f64;
        let size = f64::from_bits(value.to_bits() & !SIGN);
        let sign = if value < 0.0 { -1 } else { 1 };
        if size >= HUGE {
            return sign << 120;
        }
        // Nothing is left of floats from 2^52 on.
        if size >= WHOLE {
            return sign * (size as u128 as i128);
        }
        let cut = size as i64;
        let rest = size - cut as f64;
        let is_up = match self.rounding {
            Rounding::NearestEven => rest > 0.5 || rest == 0.5 && cut & 1 == 1,
            Rounding::NearestAway => rest >= 0.5,
            Rounding::Zero => false,
            Rounding::Positive => rest > 0.0 && sign > 0,
            Rounding::Negative => rest > 0.0 && sign < 0,
        };
        sign * i128::from(cut + i64::from(is_up))
    }

    /// A value in the format, as the bits of an f64; None if the format is too small for it.
    ///
    /// Worked example: 0.3 is 5404319552844595 * 2^-54. As a half its last place is 2^-12: of the
    /// digits 1228.8 rounding to nearest makes 1229, which is 0.300048828125.
    fn float(&self, value: Exact) -> Option<u64> {
        let Format { precision, least, largest } = self.format;
        let sign = if value.is_negative { SIGN } else { 0 };
        if value.digits == 0 {
            return Some(sign);
        }
        let leading = value.digits.ilog2() as i32 + value.power;
        let place = leading.max(least) - precision + 1;
        let digits = match place.checked_sub(value.power) {
            Some(count @ 1..) => self.cut_off(&value, count),
            // As many zeros follow as the precision has room for.
            _ => value.digits << (value.power - place).min(63),
        };
        let is_beyond = digits != 0 && digits.ilog2() as i32 + place > largest;
        if is_beyond {
            let infinity = self.beyond == Beyond::Clamp;
            return infinity.then_some(f64::INFINITY.to_bits() | sign);
        }
        // Both factors are exact, and so is what they make.
        Some((digits as f64 * power_of_two(place)).to_bits() | sign)
    }

    /// The digits without the last `count` bits, rounded.
    fn cut_off(&self, value: &Exact, count: i32) -> u64 {
        // Beyond 64 bits only whether something was there matters.
        let count = count.min(66);
        let digits = u128::from(value.digits);
        let (cut, rest, half) =
            (digits >> count, digits & ((1 << count) - 1), 1u128 << (count - 1));
        let is_up = match self.rounding {
            Rounding::NearestEven => rest > half || rest == half && cut & 1 == 1,
            Rounding::NearestAway => rest >= half,
            Rounding::Zero => false,
            Rounding::Positive => rest > 0 && !value.is_negative,
            Rounding::Negative => rest > 0 && value.is_negative,
        };
        cut as u64 + u64::from(is_up)
    }
}

/// A number, `digits * 2^power`.
struct Exact {
    is_negative: bool,
    digits: u64,
    power: i32,
}

impl Exact {
    /// The exact number that a finite float is.
    fn of_float(value: f64) -> Exact {
        let bits = value.to_bits();
        let (field, low) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        let digits = if field == 0 { low } else { low | 1 << 52 };
        Exact { is_negative: bits & SIGN != 0, digits, power: field.max(1) - 1075 }
    }

    fn of_whole(whole: i128) -> Exact {
        Exact { is_negative: whole < 0, digits: whole.unsigned_abs() as u64, power: 0 }
    }
}

/// Two to a power that an f64 has, subnormal ones included.
fn power_of_two(power: i32) -> f64 {
    let normal = (power + 1023).max(0) as u64;
    let bits = if normal > 0 { normal << 52 } else { 1 << (power + 1074).clamp(0, 51) };
    f64::from_bits(bits)
}

/// A word of integers as a number.
#[inline(always)]
fn whole(word: Word, bits: u64) -> i128 {
    if word == Word::Signed { i128::from(bits as i64) } else { i128::from(bits) }
}

/// The least and the largest integer of a type.
fn limits(dtype: Dtype) -> (i128, i128) {
    let bits = 8 * dtype.bytes();
    match Word::of(dtype) {
        Word::Signed => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The word of an integer as a type with these limits; None if it has no place there.
#[inline(always)]
fn within((least, largest): (i128, i128), beyond: Beyond, whole: i128) -> Option<u64> {
    match beyond {
        _ if least <= whole && whole <= largest => Some(whole as u64),
        Beyond::Error => None,
        Beyond::Clamp => Some(whole.clamp(least, largest) as u64),
        // Its lowest bits are those that are stored.
        Beyond::Wrap => Some(whole as u64),
    }
}
