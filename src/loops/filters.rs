//! The inverses of numcodecs' filters on elements: one pass over bytes into other bytes.
//!
//! In: the bytes that a filter wrote. Out: those that it was given, in another buffer. Invariant:
//! every element is what numpy makes of it (release 2, on x86-64), but where numpy leaves it to the
//! machine: a float that does not fit an integer.
//!
//! Elements go through blocks of 64-bit words: integers as two's complement, floats as f64, which
//! holds each of them. So there is a loop per type and side, not one per pair of types; the filters
//! in between round as numpy does, in the type that numpy computes in. Floats need the default
//! floating-point environment.

use crate::loops::convert::{Half, f32_from_half, half_from_f32, half_from_f64};

/// Elements of a block: 2 KiB, which stay in L1 with what is read and written of them.
const BLOCK: usize = 256;

/// A type of elements, of numpy's name.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

/// A type of elements and the order of their bytes.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    pub kind: Kind,
    pub is_big: bool,
}

impl Kind {
    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Kind::Bool | Kind::I8 | Kind::U8 => 1,
            Kind::I16 | Kind::U16 | Kind::F16 => 2,
            Kind::I32 | Kind::U32 | Kind::F32 => 4,
            Kind::I64 | Kind::U64 | Kind::F64 => 8,
        }
    }

    /// What the words of a block of such elements are.
    const fn word(self) -> Word {
        match self {
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => Word::Signed,
            Kind::Bool | Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 => Word::Unsigned,
            Kind::F16 | Kind::F32 | Kind::F64 => Word::Float,
        }
    }
}

/// What the 64 bits of a word are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Signed,
    Unsigned,
    Float,
}

/// A float that does not fit the integer that it becomes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutOfRange(pub f64);

/// `decoded` of `encoded`, element by element: integers wrap, floats round to nearest even, and
/// lose what is behind the point where they become integers. `target` and `source` hold as many
/// elements.
pub fn as_type(
    encoded: Number,
    decoded: Number,
    source: &[u8],
    target: &mut [u8],
) -> Result<(), OutOfRange> {
    for_blocks(encoded, decoded, source, target, encoded.kind.word(), |_| {})
}

/// Sums of `encoded` as `decoded`: each element is the sum of all up to it. Both are integers, or
/// `decoded` is a float.
pub fn undelta(
    encoded: Number,
    decoded: Number,
    source: &[u8],
    target: &mut [u8],
) -> Result<(), OutOfRange> {
    let from = encoded.kind.word();
    if decoded.kind.word() != Word::Float {
        let mut sum = 0u64;
        return for_blocks(encoded, decoded, source, target, from, |words| {
            for word in words {
                sum = sum.wrapping_add(*word);
                *word = sum;
            }
        });
    }
    // The one number that leaves whatever is added to it as it is: 0.0 would turn -0.0 over.
    let mut sum = -0.0f64;
    for_blocks(encoded, decoded, source, target, Word::Float, |words| {
        to_floats(from, words);
        for word in words {
            let value = f64::from_bits(*word);
            sum = match decoded.kind {
                Kind::F64 => sum + value,
                Kind::F32 => f64::from(sum as f32 + value as f32),
                _ => half(sum as f32 + value as f32),
            };
            *word = sum.to_bits();
        }
    })
}

/// `encoded / scale + offset` as `decoded`. Integers are divided as f64, floats in their own type.
pub fn unscale(
    encoded: Number,
    decoded: Number,
    (scale, offset): (f64, f64),
    source: &[u8],
    target: &mut [u8],
) -> Result<(), OutOfRange> {
    let from = encoded.kind.word();
    let (scale_f32, offset_f32) = (scale as f32, offset as f32);
    let (scale_half, offset_half) = (half_of(scale), half_of(offset));
    for_blocks(encoded, decoded, source, target, Word::Float, |words| {
        to_floats(from, words);
        for word in words {
            let value = f64::from_bits(*word);
            let result = match encoded.kind {
                Kind::F32 => f64::from(value as f32 / scale_f32 + offset_f32),
                Kind::F16 => half(half(value as f32 / scale_half) as f32 + offset_half),
                _ => value / scale + offset,
            };
            *word = result.to_bits();
        }
    })
}

/// The nearest binary16 of an f32.
#[inline(always)]
fn half(value: f32) -> f64 {
    f64::from(f32_from_half(half_from_f32(value)))
}

/// The nearest binary16 of an f64, rounded once.
fn half_of(value: f64) -> f32 {
    f32_from_half(half_from_f64(value))
}

/// Bits, the highest of each byte first, as bytes that are 0 or 1: `target.len()` of them.
pub fn unpack_bits(source: &[u8], target: &mut [u8]) {
    assert!(target.len() <= 8 * source.len());
    for (bits, bytes) in source.iter().zip(target.chunks_mut(8)) {
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = bits >> (7 - place) & 1;
        }
    }
}

/// Calls `change` with block after block of the elements of `source`, and writes each to `target`
/// as words that are then `to`.
fn for_blocks(
    encoded: Number,
    decoded: Number,
    source: &[u8],
    target: &mut [u8],
    to: Word,
    mut change: impl FnMut(&mut [u64]),
) -> Result<(), OutOfRange> {
    let (source_bytes, target_bytes) = (encoded.kind.bytes(), decoded.kind.bytes());
    assert!(source.len().is_multiple_of(source_bytes));
    assert!(source.len() / source_bytes * target_bytes == target.len());
    let mut block = [0; BLOCK];
    let blocks = source.chunks(BLOCK * source_bytes).zip(target.chunks_mut(BLOCK * target_bytes));
    for (source, target) in blocks {
        let words = &mut block[..source.len() / source_bytes];
        load(encoded, source, words);
        change(words);
        store(decoded, to, words, target)?;
    }
    Ok(())
}

/// Words that are `from` as floats.
fn to_floats(from: Word, words: &mut [u64]) {
    match from {
        Word::Signed => words.iter_mut().for_each(|word| *word = (*word as i64 as f64).to_bits()),
        Word::Unsigned => words.iter_mut().for_each(|word| *word = (*word as f64).to_bits()),
        Word::Float => {}
    }
}

/// Fills `words` with elements.
fn load(number: Number, source: &[u8], words: &mut [u64]) {
    macro_rules! load {
        ($word:ty, $from:expr) => {
            load_as(number.is_big, source, words, |bytes| $from(<$word>::from_le_bytes(bytes)))
        };
    }
    match number.kind {
        Kind::Bool | Kind::U8 => load!(u8, u64::from),
        Kind::U16 => load!(u16, u64::from),
        Kind::U32 => load!(u32, u64::from),
        Kind::I64 | Kind::U64 => load!(u64, u64::from),
        Kind::I8 => load!(i8, |value| value as u64),
        Kind::I16 => load!(i16, |value| value as u64),
        Kind::I32 => load!(i32, |value| value as u64),
        Kind::F16 => load!(u16, |bits| f64::from(f32_from_half(Half(bits))).to_bits()),
        Kind::F32 => load!(u32, |bits| f64::from(f32::from_bits(bits)).to_bits()),
        Kind::F64 => load!(u64, |bits| bits),
    }
}

#[inline(always)]
fn load_as<const N: usize>(
    is_big: bool,
    source: &[u8],
    words: &mut [u64],
    from: impl Fn([u8; N]) -> u64,
) {
    for (bytes, word) in source.as_chunks::<N>().0.iter().zip(words) {
        let mut bytes = *bytes;
        if is_big {
            bytes.reverse();
        }
        *word = from(bytes);
    }
}

/// Writes `words`, which are `from`, as elements.
fn store(number: Number, from: Word, words: &[u64], target: &mut [u8]) -> Result<(), OutOfRange> {
    let is_big = number.is_big;
    let float = |word: u64| match from {
        Word::Signed => word as i64 as f64,
        Word::Unsigned => word as f64,
        Word::Float => f64::from_bits(word),
    };
    let float_f32 = |word: u64| match from {
        Word::Signed => word as i64 as f32,
        Word::Unsigned => word as f32,
        Word::Float => f64::from_bits(word) as f32,
    };
    match number.kind {
        Kind::Bool => store_as(is_big, words, target, |word| match from {
            Word::Float => [u8::from(f64::from_bits(word) != 0.0)],
            _ => [u8::from(word != 0)],
        }),
        Kind::F64 => store_as(is_big, words, target, |word| float(word).to_le_bytes()),
        Kind::F32 => store_as(is_big, words, target, |word| float_f32(word).to_le_bytes()),
        // What is not an f64 already is exact in one, or beyond every binary16.
        Kind::F16 => {
            store_as(is_big, words, target, |word| half_from_f64(float(word)).0.to_le_bytes())
        }
        kind => {
            if from == Word::Float {
                check_range(kind, words)?;
            }
            let whole = |word: u64| match (from, kind) {
                (Word::Float, Kind::U64) => f64::from_bits(word) as u64,
                (Word::Float, _) => f64::from_bits(word) as i64 as u64,
                _ => word,
            };
            match kind.bytes() {
                1 => store_as(is_big, words, target, |word| (whole(word) as u8).to_le_bytes()),
                2 => store_as(is_big, words, target, |word| (whole(word) as u16).to_le_bytes()),
                4 => store_as(is_big, words, target, |word| (whole(word) as u32).to_le_bytes()),
                _ => store_as(is_big, words, target, |word| whole(word).to_le_bytes()),
            }
        }
    }
    Ok(())
}

#[inline(always)]
fn store_as<const N: usize>(
    is_big: bool,
    words: &[u64],
    target: &mut [u8],
    from: impl Fn(u64) -> [u8; N],
) {
    for (word, place) in words.iter().zip(target.as_chunks_mut::<N>().0) {
        let mut bytes = from(*word);
        if is_big {
            bytes.reverse();
        }
        *place = bytes;
    }
}

/// Whether all floats, cut at their point, are of an integer type.
fn check_range(kind: Kind, words: &[u64]) -> Result<(), OutOfRange> {
    let bits = 8 * kind.bytes() as i32;
    let is_signed = kind.word() == Word::Signed;
    let power = |bits: i32| f64::from_bits(((1023 + bits) as u64) << 52);
    let (least, limit) =
        if is_signed { (-power(bits - 1), power(bits - 1)) } else { (0.0, power(bits)) };
    for word in words {
        let value = f64::from_bits(*word);
        // Exact below 2^53; above, no float lies between the least one and one less.
        let is_above = value > least - 1.0 || value == least;
        if !(is_above && value < limit) {
            return Err(OutOfRange(value));
        }
    }
    Ok(())
}
