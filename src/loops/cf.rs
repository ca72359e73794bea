//! The decoding of the CF conventions: one pass over elements into f64.
//!
//! In: the elements as they are stored. Out: NaN where one is missing, else `x * scale + offset`,
//! the product and the sum each rounded once, in another buffer. Sources: CF 2.5.1 and 8.1, and
//! `CFMaskCoder` and `CFScaleOffsetCoder` of xarray, which compare elements as they are stored and
//! then compute. Invariant: every NaN is the one quiet NaN, and a 64-bit integer rounds once before
//! it is scaled.
//!
//! Types of up to 32 bits are exact in f64, and are compared there: all CPUs have vectors of f64,
//! and not all have those of 64-bit integers. Elements go through blocks that stay in L1.

use super::filters::Word;
use crate::loops::convert::{Half, f32_from_half};
use crate::records::grid::EdgeRun;
use crate::records::{ByteOrder, Cf};

/// Elements of a block.
const BLOCK: usize = 256;

/// Bytes of an f64, and of the largest element.
const WIDE: usize = size_of::<f64>();

/// Decodes elements, as many as `target` has f64s, in the byte order of this machine. The first of
/// `rows` has the least and the largest value that is not missing, each other one a value that is.
pub fn cf(cf: &Cf, rows: &[EdgeRun], source: &[u8], target: &mut [u8]) {
    let bytes = cf.types.encoded.dtype.bytes() as usize;
    assert!(source.len() * WIDE == target.len() * bytes);
    let targets = target.as_chunks_mut::<WIDE>().0.chunks_mut(BLOCK);
    let blocks = source.chunks(BLOCK * bytes).zip(targets);
    if bytes == 1 || cf.types.encoded.byte_order == ByteOrder::Little {
        return blocks.for_each(|(source, target)| decode_block(cf, rows, source, target));
    }
    let mut swapped = [0; BLOCK * WIDE];
    for (source, target) in blocks {
        for (place, byte) in swapped.chunks_exact_mut(bytes).zip(source.chunks_exact(bytes)) {
            place.copy_from_slice(byte);
            place.reverse();
        }
        decode_block(cf, rows, &swapped[..source.len()], target);
    }
}

/// Decodes a block of elements in the byte order of this machine.
fn decode_block(cf: &Cf, rows: &[EdgeRun], source: &[u8], target: &mut [[u8; WIDE]]) {
    let mut floats = [0.0; BLOCK];
    let floats = &mut floats[..target.len()];
    let dtype = cf.types.encoded.dtype;
    let word = Word::of(dtype);
    match (word, dtype.bytes()) {
        (Word::Signed, 1) => load(source, floats, |bytes| i8::from_le_bytes(bytes).into()),
        (Word::Signed, 2) => load(source, floats, |bytes| i16::from_le_bytes(bytes).into()),
        (Word::Signed, 4) => load(source, floats, |bytes| i32::from_le_bytes(bytes).into()),
        (Word::Unsigned, 1) => load(source, floats, |bytes| u8::from_le_bytes(bytes).into()),
        (Word::Unsigned, 2) => load(source, floats, |bytes| u16::from_le_bytes(bytes).into()),
        (Word::Unsigned, 4) => load(source, floats, |bytes| u32::from_le_bytes(bytes).into()),
        (Word::Float, 2) => {
            load(source, floats, |bytes| f32_from_half(Half(u16::from_le_bytes(bytes))).into());
        }
        (Word::Float, 4) => load(source, floats, |bytes| f32::from_le_bytes(bytes).into()),
        (Word::Float, _) => load(source, floats, f64::from_le_bytes),
        (Word::Signed, _) => {
            let mut values = [0; BLOCK];
            load(source, &mut values, i64::from_le_bytes);
            return each(cf, rows, &values, target, |word| word as i64, |value| value as f64);
        }
        (Word::Unsigned, _) => {
            let mut values = [0; BLOCK];
            load(source, &mut values, u64::from_le_bytes);
            return each(cf, rows, &values, target, |word| word, |value| value as f64);
        }
    }
    let of_word: fn(u64) -> f64 = match word {
        Word::Signed => |word| word as i64 as f64,
        Word::Unsigned => |word| word as f64,
        Word::Float => f64::from_bits,
    };
    each(cf, rows, floats, target, of_word, |value| value);
}

/// Turns elements into values, side by side.
#[inline(always)]
fn load<const N: usize, T>(source: &[u8], values: &mut [T], from: impl Fn([u8; N]) -> T) {
    for (value, bytes) in values.iter_mut().zip(source.as_chunks::<N>().0) {
        *value = from(*bytes);
    }
}

/// Decodes values; `of_word` gives the value of a row, and `number` the float that a value is.
#[inline(always)]
fn each<T: Copy + PartialOrd>(
    cf: &Cf,
    rows: &[EdgeRun],
    values: &[T],
    target: &mut [[u8; WIDE]],
    of_word: impl Fn(u64) -> T,
    number: impl Fn(T) -> f64,
) {
    let Some((limits, missing)) = rows.split_first() else {
        unreachable!("metadata give limits, if only those of the type");
    };
    let (least, largest) = (of_word(limits.limit), of_word(limits.cell_limit));
    let nan = f64::NAN.to_ne_bytes();
    for (target, value) in target.iter_mut().zip(values) {
        // A NaN is not within any limits.
        let is_there = least <= *value && *value <= largest;
        let decoded = number(*value) * cf.scale + cf.offset;
        *target = if is_there { decoded.to_ne_bytes() } else { nan };
    }
    for value_missing in missing.iter().map(|row| of_word(row.limit)) {
        for (target, value) in target.iter_mut().zip(values) {
            *target = if *value == value_missing { nan } else { *target };
        }
    }
}
