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
use crate::records::{ByteOrder, Dtype, Number, Types};

/// Elements of a block: 2 KiB, which stay in L1 with what is read and written of them.
const BLOCK: usize = 256;

/// What the 64 bits of a word are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Signed,
    Unsigned,
    Float,
}

impl Word {
    /// Of a block of such elements.
    pub(super) fn of(dtype: Dtype) -> Word {
        match dtype {
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Word::Signed,
            Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Word::Unsigned,
            Dtype::F16 | Dtype::F32 | Dtype::F64 => Word::Float,
            Dtype::Bf16 | Dtype::C64 | Dtype::C128 | Dtype::Raw => {
                unreachable!("metadata lets no filter have them")
            }
        }
    }
}

/// An element that the type has no value for that it becomes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Misfit {
    /// A float.
    Float(f64),
    /// An integer.
    Whole(i128),
    /// An integer that is not a multiple of the scale.
    Rest(i128),
}

/// `decoded` of `encoded`, element by element: integers wrap, floats round to nearest even, and
/// lose what is behind the point where they become integers. `target` and `source` hold as many
/// elements.
pub fn as_type(types: Types, source: &[u8], target: &mut [u8]) -> Result<(), Misfit> {
    for_blocks(types, source, target, Word::of(types.encoded.dtype), &mut |_| Ok(()))
}

/// Sums of `encoded` as `decoded`: each element is the sum of all up to it. Both are integers, or
/// `decoded` is a float.
pub fn undelta(types: Types, source: &[u8], target: &mut [u8]) -> Result<(), Misfit> {
    let from = Word::of(types.encoded.dtype);
    if Word::of(types.decoded.dtype) != Word::Float {
        let mut sum = 0u64;
        return for_blocks(types, source, target, from, &mut |words| {
            for word in words {
                sum = sum.wrapping_add(*word);
                *word = sum;
            }
            Ok(())
        });
    }
    // The one number that leaves whatever is added to it as it is: 0.0 would turn -0.0 over.
    let mut sum = -0.0f64;
    for_blocks(types, source, target, Word::Float, &mut |words| {
        to_floats(from, words);
        for word in words {
            let value = f64::from_bits(*word);
            sum = match types.decoded.dtype {
                Dtype::F64 => sum + value,
                Dtype::F32 => f64::from(sum as f32 + value as f32),
                _ => half(sum as f32 + value as f32),
            };
            *word = sum.to_bits();
        }
        Ok(())
    })
}

/// `encoded / scale + offset` as `decoded`. Integers are divided as f64, floats in their own type.
pub fn unscale(
    types: Types,
    (scale, offset): (f64, f64),
    source: &[u8],
    target: &mut [u8],
) -> Result<(), Misfit> {
    let from = Word::of(types.encoded.dtype);
    let (scale_f32, offset_f32) = (scale as f32, offset as f32);
    let half_of = |value: f64| f32_from_half(half_from_f64(value));
    let (scale_half, offset_half) = (half_of(scale), half_of(offset));
    let (line_f32, line_f64) =
        (|value| value / scale_f32 + offset_f32, |value| value / scale + offset);
    let is_little = [types.encoded, types.decoded].map(|n| n.byte_order) == [ByteOrder::Little; 2];
    // Floats that stay what they are need no words.
    match (types.encoded.dtype, types.decoded.dtype) {
        (Dtype::F32, Dtype::F32) if is_little => {
            let line = |bytes| line_f32(f32::from_le_bytes(bytes)).to_le_bytes();
            return each_element(source, target, line);
        }
        (Dtype::F64, Dtype::F64) if is_little => {
            let line = |bytes| line_f64(f64::from_le_bytes(bytes)).to_le_bytes();
            return each_element(source, target, line);
        }
        _ => {}
    }
    for_blocks(types, source, target, Word::Float, &mut |words| {
        to_floats(from, words);
        for word in words {
            let value = f64::from_bits(*word);
            let result = match types.encoded.dtype {
                Dtype::F32 => f64::from(line_f32(value as f32)),
                Dtype::F16 => half(half(value as f32 / scale_half) as f32 + offset_half),
                _ => line_f64(value),
            };
            *word = result.to_bits();
        }
        Ok(())
    })
}

/// Changes elements one by one, without words.
fn each_element<const N: usize>(
    source: &[u8],
    target: &mut [u8],
    change: impl Fn([u8; N]) -> [u8; N],
) -> Result<(), Misfit> {
    assert!(source.len() == target.len() && source.len().is_multiple_of(N));
    for (place, element) in target.as_chunks_mut().0.iter_mut().zip(source.as_chunks().0) {
        *place = change(*element);
    }
    Ok(())
}

/// The nearest binary16 of an f32.
#[inline(always)]
fn half(value: f32) -> f64 {
    f64::from(f32_from_half(half_from_f32(value)))
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
pub(super) fn for_blocks(
    types: Types,
    source: &[u8],
    target: &mut [u8],
    to: Word,
    change: &mut dyn FnMut(&mut [u64]) -> Result<(), Misfit>,
) -> Result<(), Misfit> {
    let Types { encoded, decoded } = types;
    let (source_bytes, target_bytes) = (bytes_of(encoded), bytes_of(decoded));
    assert!(source.len().is_multiple_of(source_bytes));
    assert!(source.len() / source_bytes * target_bytes == target.len());
    let mut block = [0; BLOCK];
    let blocks = source.chunks(BLOCK * source_bytes).zip(target.chunks_mut(BLOCK * target_bytes));
    for (source, target) in blocks {
        let words = &mut block[..source.len() / source_bytes];
        load(encoded, source, words);
        change(words)?;
        store(decoded, to, words, target)?;
    }
    Ok(())
}

/// The word of one element, whose bytes these are.
pub fn word_of(number: Number, element: &[u8]) -> u64 {
    let mut words = [0];
    load(number, element, &mut words);
    words[0]
}

fn bytes_of(number: Number) -> usize {
    number.dtype.bytes() as usize
}

/// Changes every word.
#[inline(always)]
fn each(words: &mut [u64], change: impl Fn(u64) -> u64) {
    words.iter_mut().for_each(|word| *word = change(*word));
}

/// Words that are `from` as floats.
fn to_floats(from: Word, words: &mut [u64]) {
    match from {
        Word::Signed => each(words, |word| (word as i64 as f64).to_bits()),
        Word::Unsigned => each(words, |word| (word as f64).to_bits()),
        Word::Float => {}
    }
}

/// The elements' own bytes in the other order, as the lowest of each word.
fn swap(number: Number, words: &mut [u64]) {
    let unused_bits = 64 - 8 * number.dtype.bytes();
    if number.byte_order == ByteOrder::Big {
        each(words, |word| word.swap_bytes() >> unused_bits);
    }
}

/// Fills `words` with elements: first their bits, by size, then what the bits mean.
fn load(number: Number, source: &[u8], words: &mut [u64]) {
    fn widen<const N: usize>(source: &[u8], words: &mut [u64], from: impl Fn([u8; N]) -> u64) {
        for (bytes, word) in source.as_chunks::<N>().0.iter().zip(words) {
            *word = from(*bytes);
        }
    }
    match number.dtype.bytes() {
        1 => widen(source, words, |bytes| u8::from_le_bytes(bytes).into()),
        2 => widen(source, words, |bytes| u16::from_le_bytes(bytes).into()),
        4 => widen(source, words, |bytes| u32::from_le_bytes(bytes).into()),
        _ => widen(source, words, u64::from_le_bytes),
    }
    swap(number, words);
    let unused_bits = 64 - 8 * number.dtype.bytes();
    match number.dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 => {
            each(words, |word| ((word << unused_bits) as i64 >> unused_bits) as u64);
        }
        Dtype::F16 => each(words, |bits| f64::from(f32_from_half(Half(bits as u16))).to_bits()),
        Dtype::F32 => each(words, |bits| f64::from(f32::from_bits(bits as u32)).to_bits()),
        _ => {}
    }
}

/// Writes `words`, which are `from` and then anything, as elements: first as their bits, then those
/// by size.
fn store(number: Number, from: Word, words: &mut [u64], target: &mut [u8]) -> Result<(), Misfit> {
    fn narrow<const N: usize>(words: &[u64], target: &mut [u8], to: impl Fn(u64) -> [u8; N]) {
        for (word, place) in words.iter().zip(target.as_chunks_mut::<N>().0) {
            *place = to(*word);
        }
    }
    match (number.dtype, from) {
        (Dtype::F64, _) => to_floats(from, words),
        (Dtype::F32, Word::Signed) => each(words, |word| (word as i64 as f32).to_bits().into()),
        (Dtype::F32, Word::Unsigned) => each(words, |word| (word as f32).to_bits().into()),
        (Dtype::F32, _) => each(words, |word| (f64::from_bits(word) as f32).to_bits().into()),
        (Dtype::F16, _) => {
            // What is not an f64 already is exact in one, or beyond every binary16.
            to_floats(from, words);
            each(words, |word| half_from_f64(f64::from_bits(word)).0.into());
        }
        (Dtype::Bool, Word::Float) => each(words, |word| (f64::from_bits(word) != 0.0).into()),
        (Dtype::Bool, _) => each(words, |word| (word != 0).into()),
        (dtype, Word::Float) => {
            check_range(dtype, words)?;
            match dtype {
                Dtype::U64 => each(words, |word| f64::from_bits(word) as u64),
                _ => each(words, |word| f64::from_bits(word) as i64 as u64),
            }
        }
        _ => {}
    }
    swap(number, words);
    match number.dtype.bytes() {
        1 => narrow(words, target, |word| (word as u8).to_le_bytes()),
        2 => narrow(words, target, |word| (word as u16).to_le_bytes()),
        4 => narrow(words, target, |word| (word as u32).to_le_bytes()),
        _ => narrow(words, target, u64::to_le_bytes),
    }
    Ok(())
}

/// Whether all floats, cut at their point, are of an integer type.
fn check_range(dtype: Dtype, words: &[u64]) -> Result<(), Misfit> {
    let bits = 8 * dtype.bytes() as i32;
    let is_signed = Word::of(dtype) == Word::Signed;
    let power = |bits: i32| f64::from_bits(((1023 + bits) as u64) << 52);
    let (least, limit) =
        if is_signed { (-power(bits - 1), power(bits - 1)) } else { (0.0, power(bits)) };
    for word in words {
        let value = f64::from_bits(*word);
        // Exact below 2^53; above, no float lies between the least one and one less.
        let is_above = value > least - 1.0 || value == least;
        if !(is_above && value < limit) {
            return Err(Misfit::Float(value));
        }
    }
    Ok(())
}
