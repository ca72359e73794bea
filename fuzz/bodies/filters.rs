//! A chain of numcodecs' filters and checksums, perhaps around zstd, over chosen bytes: the decoded
//! chunk is what a decoder gives that goes element by element in numbers without a width, and where
//! one refuses, the other does.
//!
//! Choices: bytes of the chunk, the codecs and their types, whether zstd is among them, the encoded
//! elements, and how the result is damaged (never behind zstd, whose own targets do that).

use super::choices::Choices;
use super::guard::with_bench;
use half::f16;
use std::cmp::Ordering;
use wavetrain::base::limits::CODECS_MAX;
use wavetrain::decode::{Scratch, block_need, decode_chunk, kept_bytes, target_need};
use wavetrain::records::grid::EdgeRun;
use wavetrain::records::{
    ArrayRecord, BEYONDS, Beyond, ByteOrder, Cast, Codec, Dtype, Filter, Line, Member, Number,
    Packed, Padding, Pair, ROUNDINGS, Rounding, SMALLS, Scaling, Small, Span, Sum, SumKind, Types,
};
use wavetrain::status::{Status, Why};

/// Largest chunk between its filters: several can each make eight bytes of one.
const WORKING_BYTES_MAX: u64 = 1 << 15;

/// Why a chunk has no expected bytes.
enum No {
    /// It is to be refused.
    Refused,
    /// It depends on the bits of a NaN.
    Unknown,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let choices = &mut Choices::of(data);
    let record = chosen_record(choices);
    if record.working_bytes() > WORKING_BYTES_MAX {
        return;
    }
    let encoded = encoded(&record, choices);
    let whole = Span { first: 0, limit: record.chunk_bytes };
    let first = choices.below(record.chunk_bytes);
    let part = Span { first, limit: first + 1 + choices.below(record.chunk_bytes - first) };
    let is_kept = choices.rarely(2);
    let found = decoded(&record, &encoded, whole, is_kept);
    match expected(&record, &encoded) {
        Ok(bytes) => match &found {
            Ok(found) => assert!(is_same(&record, found, &bytes), "{:?}", record.codecs),
            Err(text) => panic!("refused only by us: {text}: {:?}", record.codecs),
        },
        Err(No::Refused) => assert!(found.is_err(), "taken only by us: {:?}", record.codecs),
        Err(No::Unknown) => {}
    }
    // What is needed decides nothing.
    assert_eq!(found, decoded(&record, &encoded, part, !is_kept));
}

/// Our decoder, between pages that nobody may touch.
fn decoded(
    record: &ArrayRecord,
    encoded: &[u8],
    need: Span,
    is_kept: bool,
) -> Result<Vec<u8>, String> {
    with_bench(|bench| {
        let source = bench.source.copy_of(encoded);
        let target_bytes = if is_kept { kept_bytes(record) } else { target_need(record) };
        let target = bench.target.poisoned(target_bytes as usize, true);
        let block = bench.scratch.poisoned(block_need(record, source) as usize, true);
        let start = target.as_ptr();
        let (scratch, mut why) = (Scratch { target, block }, Why::new());
        let outcome = decode_chunk(&mut bench.decoder, record, 0, source, need, scratch, &mut why);
        match outcome {
            Ok(chunk) => {
                assert_eq!((chunk.first, chunk.bytes.len() as u64), (0, record.chunk_bytes));
                let is_source = source.as_ptr_range().contains(&chunk.bytes.as_ptr());
                assert!(is_source || chunk.bytes.as_ptr() == start);
                Ok(chunk.bytes.to_vec())
            }
            Err(status) => {
                assert_eq!(status, Status::Decode, "{why}");
                assert!(!why.is_empty());
                Err(why.to_string())
            }
        }
    })
}

const DTYPES: [Dtype; 12] = [
    Dtype::I32,
    Dtype::F32,
    Dtype::U8,
    Dtype::I16,
    Dtype::F64,
    Dtype::U16,
    Dtype::I8,
    Dtype::F16,
    Dtype::U32,
    Dtype::I64,
    Dtype::U64,
    Dtype::Bool,
];

fn number(choices: &mut Choices<'_>) -> Number {
    let dtype = choices.one_of(&DTYPES);
    let is_big = choices.rarely(4) && dtype.bytes() > 1;
    Number { dtype, byte_order: if is_big { ByteOrder::Big } else { ByteOrder::Little } }
}

fn is_float(number: Number) -> bool {
    matches!(number.dtype, Dtype::F16 | Dtype::F32 | Dtype::F64)
}

/// Types that metadata lets a delta have: sums are exact, or of the type's own roundings.
fn delta_types(choices: &mut Choices<'_>) -> Types {
    let types = Types { decoded: number(choices), encoded: number(choices) };
    let is_lossless = match types.decoded.dtype {
        Dtype::F64 => true,
        Dtype::F32 => types.encoded.dtype.bytes() <= 2 || types.encoded.dtype == Dtype::F32,
        Dtype::F16 => types.encoded.dtype.bytes() == 1 || types.encoded.dtype == Dtype::F16,
        _ => !is_float(types.encoded),
    };
    let has_bool = [types.decoded, types.encoded].iter().any(|side| side.dtype == Dtype::Bool);
    if is_lossless && !has_bool { types } else { Types { encoded: types.decoded, ..types } }
}

fn chosen_codec(choices: &mut Choices<'_>) -> Codec {
    let kinds = [SumKind::Crc32, SumKind::Adler32, SumKind::Fletcher32, SumKind::Crc32c];
    match choices.below(8) {
        0 if choices.rarely(2) => chosen_values(choices),
        0 => Codec::Filter(Filter::Shuffle(choices.one_of(&[2, 4, 8, 3, 16, 255]))),
        1 => Codec::Filter(Filter::Delta(delta_types(choices))),
        2 => {
            let types = Types { decoded: number(choices), encoded: number(choices) };
            Codec::Filter(Filter::AsType(types))
        }
        3 => {
            let types = Types { decoded: number(choices), encoded: number(choices) };
            let scale = choices.one_of(&[10.0, 0.1, 1.0, -3.5, 1e300, 0.0, 5e-324]);
            let offset = choices.one_of(&[0.0, 100.0, -0.25, 65504.0, 1e38, -1e308]);
            Codec::Filter(Filter::FixedScaleOffset(types, Line { scale, offset }))
        }
        4 => Codec::Filter(Filter::PackBits),
        5 => Codec::Crc32c,
        7 => {
            let small = choices.one_of(&SMALLS);
            if !small.can_be_packed() && choices.rarely(2) {
                let bytes = choices.one_of(&[1, 2, 4, 8, 3, 16]);
                let offset = choices.one_of(&[0, 1, 7, 64]);
                let element_bytes = offset + bytes + choices.one_of(&[0, 1, 5]);
                return Codec::Filter(Filter::Member(Member { element_bytes, offset, bytes }));
            }
            let paddings = [Padding::Absent, Padding::First, Padding::Last];
            let padding = small.can_be_packed().then(|| choices.one_of(&paddings));
            let padding = padding.filter(|_| small == Small::Bit || choices.rarely(2));
            Codec::Filter(Filter::Packed(Packed { small, padding }))
        }
        _ => Codec::Sum(Sum { kind: choices.one_of(&kinds), at_start: choices.rarely(2) }),
    }
}

/// A scale or a cast, as metadata lets them be.
fn chosen_values(choices: &mut Choices<'_>) -> Codec {
    let one = |choices: &mut Choices<'_>| match number(choices) {
        Number { dtype: Dtype::Bool, .. } => {
            Number { dtype: Dtype::U8, byte_order: ByteOrder::Little }
        }
        other => other,
    };
    let decoded = Number { byte_order: ByteOrder::Little, ..one(choices) };
    if choices.rarely(2) {
        let byte_order = if choices.rarely(4) { ByteOrder::Big } else { ByteOrder::Little };
        let byte_order = if decoded.dtype.bytes() > 1 { byte_order } else { ByteOrder::Little };
        let types = Types { decoded, encoded: Number { byte_order, ..decoded } };
        let scale = choices.one_of(&[1i64, 2, 3, 10, 100, 127, -1, -2, -7, 255]);
        let offset = choices.one_of(&[0i64, 1, -1, 100, -128, i64::MAX, i64::MIN, 65535]);
        // Integers are whatever the type has of these bits, which is never 0.
        let word = |value: i64| match decoded.dtype {
            Dtype::F16 | Dtype::F32 | Dtype::F64 => (value as i8 as f64 / 4.0).to_bits(),
            Dtype::I8 => value as i8 as u64,
            Dtype::I16 => value as i16 as u64,
            Dtype::I32 => value as i32 as u64,
            Dtype::U8 => u64::from(value as u8),
            Dtype::U16 => u64::from(value as u16),
            Dtype::U32 => u64::from(value as u32),
            _ => value as u64,
        };
        let scaling = Scaling { scale: word(scale), offset: word(offset) };
        return Codec::Filter(Filter::ScaleOffset(types, scaling));
    }
    let types = Types { decoded, encoded: one(choices) };
    let is_float = is_float(types.encoded);
    let beyond = choices.one_of(&BEYONDS);
    let beyond = if beyond == Beyond::Wrap && is_float { Beyond::Clamp } else { beyond };
    let (rounding, pairs) = (choices.one_of(&ROUNDINGS), choices.below(3) as u16);
    Codec::Filter(Filter::Cast(Cast { types, rounding, beyond, first_pair: 0, pairs }))
}

/// Two pairs, of words that are numbers of any type: zero, and one that no float of few bits is.
static PAIRS: [EdgeRun; 2] = [
    Pair { encoded: 0, decoded: 0 }.row(),
    Pair { encoded: 0x3ff8_0000_0000_0000, decoded: 0 }.row(),
];

/// A chunk of up to 700 bytes, and its chain.
fn chosen_record(choices: &mut Choices<'_>) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY.clone();
    record.pairs = &PAIRS;
    record.rank = 1;
    record.shape[0] = 8 * (1 + choices.below(64)) + choices.one_of(&[0, 0, 0, 1, 4]);
    record.chunk_shape[0] = record.shape[0];
    record.pack_chunk();
    let count = 1 + choices.below(CODECS_MAX as u64 - 1);
    let compressor = choices.below(2 * count + 2);
    for place in 0..count {
        let mut codec = chosen_codec(choices);
        if place > compressor && codec.is_filter() {
            codec = Codec::Crc32c;
        }
        record.codecs.push(codec);
        if place == compressor {
            record.codecs.push(Codec::Zstd);
        }
    }
    // Decoders without a filter and without one of these checksums have a target of their own.
    if record.codecs.iter().all(|codec| matches!(codec, Codec::Crc32c | Codec::Zstd)) {
        record.codecs[0] = Codec::Sum(Sum { kind: SumKind::Crc32, at_start: true });
    }
    record
}

/// A chunk that its chain may have made: checksums are right, what filters made is anything.
fn encoded(record: &ArrayRecord, choices: &mut Choices<'_>) -> Vec<u8> {
    let some = |count: usize, choices: &mut Choices<'_>| -> Vec<u8> {
        let (way, seed) = (choices.below(4), choices.below(1 << 16));
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = (0..count).map(|at| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match way {
                0 => (state >> 32) as u8,
                // Small integers, and floats of which few are NaN.
                1 if at % 4 == 0 => (state >> 32) as u8,
                1 => 0,
                2 => choices.byte(),
                _ => [0x3f, 0x80, 0x40, 0xc0, 0x7f, 0xff, 0, 1][(state >> 40) as usize % 8],
            }
        });
        bytes.collect()
    };
    let mut bytes = some(record.chunk_bytes as usize, choices);
    let mut has_zstd = false;
    for (position, codec) in record.codecs.iter().enumerate() {
        bytes = match codec {
            Codec::Filter(Filter::Shuffle(size)) if bytes.len() % usize::from(*size) == 0 => {
                shuffled(&bytes, usize::from(*size))
            }
            Codec::Filter(Filter::PackBits) => {
                let padding = (8 - bytes.len() % 8) % 8;
                let mut packed = some(1 + bytes.len().div_ceil(8), choices);
                packed[0] = padding as u8;
                packed
            }
            Codec::Filter(_) => {
                // Where sizes do not fit, any.
                let made = record.encoded_bytes(position + 1).unwrap_or(bytes.len() as u64);
                some(made as usize, choices)
            }
            Codec::Crc32c | Codec::Sum(_) => {
                let sum = checksum(*codec, &bytes).to_le_bytes();
                let at = if is_at_start(*codec) { 0 } else { bytes.len() };
                bytes.splice(at..at, sum);
                bytes
            }
            _ => {
                has_zstd = true;
                zstd::bulk::compress(&bytes, 1).expect("it compresses")
            }
        };
    }
    if !has_zstd && choices.rarely(4) {
        let at = choices.below(bytes.len() as u64) as usize;
        match choices.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.push(0),
            _ => bytes[at] ^= 1 << choices.below(8),
        }
    }
    bytes
}

fn is_at_start(codec: Codec) -> bool {
    matches!(codec, Codec::Sum(Sum { at_start: true, .. }))
}

fn shuffled(bytes: &[u8], size: usize) -> Vec<u8> {
    (0..size).flat_map(|byte| bytes.iter().skip(byte).step_by(size).copied()).collect()
}

/// The definitions, a byte or a word at a time.
fn checksum(codec: Codec, bytes: &[u8]) -> u32 {
    let Codec::Sum(Sum { kind, .. }) = codec else { return crc32c::crc32c(bytes) };
    match kind {
        SumKind::Crc32c => crc32c::crc32c(bytes),
        SumKind::Crc32 => {
            let mut crc = flate2::Crc::new();
            crc.update(bytes);
            crc.sum()
        }
        SumKind::Adler32 => {
            let (mut low, mut high) = (1u64, 0u64);
            for byte in bytes {
                low = (low + u64::from(*byte)) % 65_521;
                high = (high + low) % 65_521;
            }
            (high << 16 | low) as u32
        }
        SumKind::Fletcher32 => {
            let (mut low, mut high) = (0u64, 0u64);
            for word in bytes.chunks(2) {
                low += u64::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u64::from(*byte));
                high += low;
            }
            // Modulo 2^16 - 1, where what is not nothing is never 0.
            let folded = |sum: u64| if sum == 0 { 0 } else { (sum - 1) % 65_535 + 1 };
            (folded(high) << 16 | folded(low)) as u32
        }
    }
}

/// One element, of whatever type.
#[derive(Clone, Copy)]
enum Value {
    Whole(i128),
    Float(f64),
}

impl Value {
    fn float(self) -> f64 {
        match self {
            Value::Whole(whole) => whole as f64,
            Value::Float(float) => float,
        }
    }
}

fn values(number: Number, bytes: &[u8]) -> Vec<Value> {
    let size = number.dtype.bytes() as usize;
    let value = |raw: &[u8]| {
        let mut raw = raw.to_vec();
        if number.byte_order == ByteOrder::Big {
            raw.reverse();
        }
        let bits = raw.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        match number.dtype {
            Dtype::F16 => Value::Float(f16::from_bits(bits as u16).to_f64()),
            Dtype::F32 => Value::Float(f64::from(f32::from_bits(bits as u32))),
            Dtype::F64 => Value::Float(f64::from_bits(bits)),
            Dtype::I8 => Value::Whole(i128::from(bits as i8)),
            Dtype::I16 => Value::Whole(i128::from(bits as i16)),
            Dtype::I32 => Value::Whole(i128::from(bits as i32)),
            Dtype::I64 => Value::Whole(i128::from(bits as i64)),
            _ => Value::Whole(i128::from(bits)),
        }
    };
    bytes.chunks(size).map(value).collect()
}

/// The value rounded to a float type, as an f64.
fn rounded(value: Value, dtype: Dtype) -> f64 {
    match (value, dtype) {
        (Value::Whole(whole), Dtype::F32) => f64::from(whole as f32),
        (Value::Float(float), Dtype::F32) => f64::from(float as f32),
        (Value::Whole(whole), Dtype::F16) => f16::from_f32(whole as f32).to_f64(),
        (Value::Float(float), Dtype::F16) => half_of(float).to_f64(),
        (value, _) => value.float(),
    }
}

/// The nearest binary16, through an f32 that is odd where it is not exact. `f16::from_f64` leaves
/// the lower half of the bits out of account, which numpy does not.
fn half_of(value: f64) -> f16 {
    let near = value as f32;
    if value.is_nan() || f64::from(near) == value {
        return f16::from_f32(near);
    }
    let is_beyond = f64::from(near).abs() > value.abs();
    f16::from_f32(f32::from_bits((near.to_bits() - u32::from(is_beyond)) | 1))
}

/// The bytes of values as a type; None where one does not fit.
fn bytes_of(number: Number, values: &[Value]) -> Option<Vec<u8>> {
    let size = number.dtype.bytes() as usize;
    let mut bytes = Vec::new();
    for value in values {
        let bits = match number.dtype {
            Dtype::Bool => u64::from(match value {
                Value::Whole(whole) => *whole != 0,
                Value::Float(float) => *float != 0.0,
            }),
            Dtype::F16 => u64::from(half_of(rounded(*value, Dtype::F16)).to_bits()),
            Dtype::F32 => u64::from((rounded(*value, Dtype::F32) as f32).to_bits()),
            Dtype::F64 => value.float().to_bits(),
            dtype => {
                let is_signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
                let power = 1i128 << (8 * size - usize::from(is_signed));
                let fits =
                    |whole: i128| (if is_signed { -power } else { 0 }..power).contains(&whole);
                match value {
                    Value::Whole(whole) => *whole as u64,
                    Value::Float(float) if float.is_nan() => return None,
                    // As i128 cuts what is behind the point, and stays at its ends.
                    Value::Float(float) if fits(*float as i128) => *float as i128 as u64,
                    Value::Float(_) => return None,
                }
            }
        };
        let mut raw = bits.to_le_bytes()[..size].to_vec();
        if number.byte_order == ByteOrder::Big {
            raw.reverse();
        }
        bytes.extend(raw);
    }
    Some(bytes)
}

/// What a filter with types decodes to.
fn converted(filter: Filter, source: &[u8]) -> Result<Vec<u8>, No> {
    let (types, values) = match filter {
        Filter::AsType(types) => (types, values(types.encoded, source)),
        Filter::Delta(types) => {
            let mut sum =
                if is_float(types.decoded) { Value::Float(-0.0) } else { Value::Whole(0) };
            let mut sums = Vec::new();
            for value in values(types.encoded, source) {
                sum = match (sum, value) {
                    (Value::Whole(sum), Value::Whole(value)) => Value::Whole(sum + value),
                    (sum, value) => {
                        let both = sum.float() + rounded(value, types.decoded.dtype);
                        Value::Float(rounded(Value::Float(both), types.decoded.dtype))
                    }
                };
                sums.push(sum);
            }
            (types, sums)
        }
        Filter::FixedScaleOffset(types, Line { scale, offset }) => {
            // f32 and f16 are rounded once where they are computed in f64.
            let own = if is_float(types.encoded) { types.encoded.dtype } else { Dtype::F64 };
            let (scale, offset) =
                (rounded(Value::Float(scale), own), rounded(Value::Float(offset), own));
            let line = |value: Value| {
                let part = rounded(Value::Float(value.float() / scale), own);
                Value::Float(rounded(Value::Float(part + offset), own))
            };
            (types, values(types.encoded, source).into_iter().map(line).collect())
        }
        Filter::ScaleOffset(types, scaling) => (types, scaled(types, scaling, source)?),
        Filter::Cast(cast) => (cast.types, cast_values(&cast, source)?),
        Filter::Cf(_) => unreachable!("only attributes make it"),
        Filter::Shuffle(_)
        | Filter::PackBits
        | Filter::Packed(_)
        | Filter::Member(_)
        | Filter::Shard(_) => {
            unreachable!("without types")
        }
    };
    bytes_of(types.decoded, &values).ok_or(No::Refused)
}

/// The value of a word of the type.
fn of_word(number: Number, word: u64) -> Value {
    match number.dtype {
        _ if is_float(number) => Value::Float(f64::from_bits(word)),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Value::Whole((word as i64).into()),
        _ => Value::Whole(word.into()),
    }
}

fn scaled(types: Types, scaling: Scaling, source: &[u8]) -> Result<Vec<Value>, No> {
    let dtype = types.decoded.dtype;
    let (scale, offset) =
        (of_word(types.decoded, scaling.scale), of_word(types.decoded, scaling.offset));
    let one = |value: Value| match (value, scale, offset) {
        (Value::Whole(value), Value::Whole(scale), Value::Whole(offset)) => {
            let sum = value / scale + offset;
            let is_whole = value % scale == 0 && limits(dtype).contains(&sum);
            is_whole.then_some(Value::Whole(sum)).ok_or(No::Refused)
        }
        _ => {
            let part = rounded(Value::Float(value.float() / scale.float()), dtype);
            Ok(Value::Float(rounded(Value::Float(part + offset.float()), dtype)))
        }
    };
    values(types.encoded, source).into_iter().map(one).collect()
}

fn limits(dtype: Dtype) -> std::ops::RangeInclusive<i128> {
    let bits = 8 * dtype.bytes();
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            -(1 << (bits - 1))..=(1 << (bits - 1)) - 1
        }
        _ => 0..=(1 << bits) - 1,
    }
}

/// The values of a cast; floats by neighbours among all floats of the type.
fn cast_values(cast: &Cast, source: &[u8]) -> Result<Vec<Value>, No> {
    let Cast { types, rounding, beyond, pairs, .. } = *cast;
    let dtype = types.decoded.dtype;
    let one = |value: Value| {
        for pair in PAIRS[..usize::from(pairs)].iter().map(|row| Pair::of_row(*row)) {
            let is_named = match (value, of_word(types.encoded, pair.encoded)) {
                (Value::Whole(value), Value::Whole(named)) => value == named,
                (value, named) => value.float() == named.float(),
            };
            if is_named {
                return Ok(of_word(types.decoded, pair.decoded));
            }
        }
        if is_float(types.decoded) {
            return nearest(value, dtype, rounding, beyond);
        }
        let whole = match value {
            Value::Whole(whole) => whole,
            Value::Float(float) if !float.is_finite() => return Err(No::Refused),
            // Beyond these all are multiples of 2^64 and outside of every type.
            Value::Float(float) if float.abs() >= 1e36 => (float.signum() as i128) << 100,
            Value::Float(float) => match rounding {
                Rounding::NearestEven => float.round_ties_even() as i128,
                Rounding::NearestAway => float.round() as i128,
                Rounding::Zero => float.trunc() as i128,
                Rounding::Positive => float.ceil() as i128,
                Rounding::Negative => float.floor() as i128,
            },
        };
        let limits = limits(dtype);
        match beyond {
            _ if limits.contains(&whole) => Ok(Value::Whole(whole)),
            Beyond::Error => Err(No::Refused),
            Beyond::Clamp => Ok(Value::Whole(whole.clamp(*limits.start(), *limits.end()))),
            Beyond::Wrap => {
                let modulus = limits.end() - limits.start() + 1;
                let rest = (whole - limits.start()).rem_euclid(modulus);
                Ok(Value::Whole(rest + limits.start()))
            }
        }
    };
    values(types.encoded, source).into_iter().map(one).collect()
}

/// A value among the floats of a type: the two around it are found by halving the range of their
/// bits, and compared with it exactly.
fn nearest(value: Value, dtype: Dtype, rounding: Rounding, beyond: Beyond) -> Result<Value, No> {
    if let Value::Float(float) = value
        && !float.is_finite()
    {
        return Ok(value);
    }
    let (max_bits, of_bits): (u64, fn(u64) -> f64) = match dtype {
        Dtype::F16 => (0x7bff, |bits| f16::from_bits(bits as u16).to_f64()),
        Dtype::F32 => (0x7f7f_ffff, |bits| f64::from(f32::from_bits(bits as u32))),
        _ => (0x7fef_ffff_ffff_ffff, f64::from_bits),
    };
    let is_negative = match value {
        Value::Whole(whole) => whole < 0,
        Value::Float(float) => float.is_sign_negative(),
    };
    // Sizes as integers of a common unit: floats in 2^-1074 would need thousands of bits, so that
    // integers are compared as i128 and floats as f64, which holds all of them.
    let order = |other: f64| match value {
        Value::Float(float) => float.abs().partial_cmp(&other).unwrap(),
        Value::Whole(whole) if other < 1e30 => {
            let (own, cut) = (whole.unsigned_abs() as i128, other as i128);
            own.cmp(&cut).then(if other.fract() > 0.0 { Ordering::Less } else { Ordering::Equal })
        }
        Value::Whole(_) => Ordering::Less,
    };
    let (mut low, mut high) = (0u64, max_bits);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if order(of_bits(middle)) == Ordering::Less { high = middle - 1 } else { low = middle }
    }
    let signed = |size: f64| Value::Float(if is_negative { -size } else { size });
    let below = of_bits(low);
    if order(below) == Ordering::Equal {
        return Ok(signed(below));
    }
    // The next one; after the largest the power of two that an infinity stands for.
    let step = below - if low > 0 { of_bits(low - 1) } else { 0.0 };
    let above = if low == max_bits { below + step } else { of_bits(low + 1) };
    // Exact: one bit more than the type has, which only f64 does not have.
    let half = match (value, dtype) {
        (Value::Whole(whole), Dtype::F64) => {
            let middle = (below as i128 + above as i128) / 2;
            (whole.unsigned_abs() as i128).cmp(&middle)
        }
        _ => order(below + (above - below) / 2.0),
    };
    let is_up = match rounding {
        Rounding::Zero => false,
        Rounding::Positive => !is_negative,
        Rounding::Negative => is_negative,
        Rounding::NearestAway => half != Ordering::Less,
        Rounding::NearestEven => {
            half == Ordering::Greater || half == Ordering::Equal && low & 1 == 1
        }
    };
    let is_beyond = low == max_bits && (is_up || order(above) != Ordering::Less);
    match beyond {
        _ if !is_beyond => Ok(signed(if is_up { above } else { below })),
        Beyond::Clamp => Ok(signed(f64::INFINITY)),
        _ => Err(No::Refused),
    }
}

/// What the chunk decodes to, codec by codec.
fn expected(record: &ArrayRecord, encoded: &[u8]) -> Result<Vec<u8>, No> {
    let mut bytes = encoded.to_vec();
    for (position, codec) in record.codecs.iter().enumerate().rev() {
        let size = record.encoded_bytes(position);
        let made = record.encoded_bytes(position + 1);
        bytes = match codec {
            Codec::Zstd => zstd::bulk::decompress(&bytes, 1 << 16).expect("it was compressed"),
            Codec::Crc32c | Codec::Sum(_) => {
                if bytes.len() < 4 || size.is_some_and(|size| size + 4 != bytes.len() as u64) {
                    return Err(No::Refused);
                }
                let at = if is_at_start(*codec) { 0 } else { bytes.len() - 4 };
                let sum: Vec<u8> = bytes.splice(at..at + 4, []).collect();
                if checksum(*codec, &bytes).to_le_bytes() != *sum {
                    return Err(No::Refused);
                }
                bytes
            }
            Codec::Filter(filter) => {
                let (Some(size), Some(made)) = (size, made) else { return Err(No::Refused) };
                if bytes.len() as u64 != made {
                    return Err(No::Refused);
                }
                let decoded = undone(*filter, &bytes, size as usize)?;
                if position > 0 && has_nan(*filter, &decoded) {
                    return Err(No::Unknown);
                }
                decoded
            }
            _ => unreachable!("not chosen"),
        };
    }
    Ok(bytes)
}

fn undone(filter: Filter, bytes: &[u8], size: usize) -> Result<Vec<u8>, No> {
    match filter {
        Filter::Shuffle(width) => {
            let count = bytes.len() / usize::from(width);
            Ok((0..bytes.len())
                .map(|at| bytes[at % usize::from(width) * count + at / usize::from(width)])
                .collect())
        }
        Filter::PackBits => {
            let bits =
                bytes[1..].iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1));
            let bits: Vec<u8> = bits.collect();
            let kept = bits.len().checked_sub(usize::from(bytes[0])).filter(|kept| *kept == size);
            kept.map(|kept| bits[..kept].to_vec()).ok_or(No::Refused)
        }
        Filter::Packed(packed) => undone_small(packed, bytes, size),
        Filter::Member(Member { element_bytes, offset, bytes: own }) => {
            let is_in_field = |at: &usize| {
                let place = at % element_bytes as usize;
                (offset..offset + own).contains(&(place as u32))
            };
            Ok((0..bytes.len()).filter(is_in_field).map(|at| bytes[at]).collect())
        }
        _ => converted(filter, bytes),
    }
}

/// Elements of few bits, bit by bit; floats as the numbers that they are.
fn undone_small(packed: Packed, bytes: &[u8], size: usize) -> Result<Vec<u8>, No> {
    let Packed { small, padding } = packed;
    let (bits, count) = (small.bits() as usize, size / small.dtype().bytes() as usize);
    let (stated, data) = match padding {
        Some(Padding::First) => (Some(bytes[0]), &bytes[1..]),
        Some(Padding::Last) => (Some(bytes[bytes.len() - 1]), &bytes[..bytes.len() - 1]),
        _ => (None, bytes),
    };
    let unused = 8 * data.len() as i64 - (count * bits) as i64;
    if stated.is_some_and(|stated| i64::from(stated) != unused) {
        return Err(No::Refused);
    }
    let distance = if padding.is_some() { bits } else { 8 };
    let bit = |at: usize| u32::from(data[at / 8] >> (at % 8) & 1);
    let element = |n: usize| (0..bits).fold(0, |sum, at| sum | bit(n * distance + at) << at);
    Ok((0..count).flat_map(|n| small_value(small, element(n))).collect())
}

fn small_value(small: Small, bits: u32) -> Vec<u8> {
    let (fraction_bits, bias) = match small {
        Small::F8E4m3fn => (3, 7),
        Small::F8E5m2 => (2, 15),
        Small::I2 | Small::I4 if bits >> (small.bits() - 1) == 1 => {
            return vec![(bits as i32 - (1 << small.bits())) as u8];
        }
        _ => return vec![bits as u8],
    };
    let exponent = (bits & 0x7F) >> fraction_bits;
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let sign = if bits >= 0x80 { -1.0 } else { 1.0 };
    let is_nan = match small {
        Small::F8E4m3fn => bits & 0x7F == 0x7F,
        _ => exponent == 31 && fraction > 0.0,
    };
    let value = match exponent {
        _ if is_nan => return (0x7E00 | (bits as u16 & 0x80) << 8).to_le_bytes().to_vec(),
        31 => f64::INFINITY,
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - bias),
    };
    f16::from_f64(sign * value).to_le_bytes().to_vec()
}

fn decoded_number(filter: Filter) -> Option<Number> {
    match filter {
        Filter::Delta(types) | Filter::AsType(types) | Filter::FixedScaleOffset(types, _) => {
            Some(types.decoded)
        }
        Filter::ScaleOffset(types, _) | Filter::Cast(Cast { types, .. }) => Some(types.decoded),
        Filter::Cf(cf) => Some(cf.types.decoded),
        Filter::Shuffle(_)
        | Filter::PackBits
        | Filter::Packed(_)
        | Filter::Member(_)
        | Filter::Shard(_) => None,
    }
}

fn has_nan(filter: Filter, decoded: &[u8]) -> bool {
    decoded_number(filter).is_some_and(|number| {
        is_float(number) && values(number, decoded).iter().any(|value| value.float().is_nan())
    })
}

/// Whether two chunks are the same but for the bits of NaNs.
fn is_same(record: &ArrayRecord, found: &[u8], expected: &[u8]) -> bool {
    if found == expected {
        return true;
    }
    let Some(Codec::Filter(filter)) = record.codecs.first() else { return false };
    let Some(number) = decoded_number(*filter).filter(|number| is_float(*number)) else {
        return false;
    };
    let pairs = values(number, found).into_iter().zip(values(number, expected));
    found.len() == expected.len()
        && pairs.into_iter().all(|(a, b)| {
            let (a, b) = (a.float(), b.float());
            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
        })
}
