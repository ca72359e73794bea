//! Fill values of zarr v2: one element from its JSON spelling.
//!
//! Comes in: the member `fill_value` and the element type. Goes out: the element in the byte order
//! of this machine. Source: zarr storage specification version 2, "Fill value encoding", and what
//! is written beside it: zarr-python writes complex numbers as [real, imaginary] and void types in
//! base64; tensorstore reads base64 for complex numbers too, in the byte order of the type; writers
//! that keep the value as a double (z5) spell whole numbers as 7.0; 0 and 1 stand for booleans.
//!
//! Invariant: null is zeros, which is what zarr-python 3 and tensorstore read (the specification
//! leaves missing chunks undefined then), and NaT where elements are times, as zarr-python has it.
//! A spelling that those two read differently is refused,
//! above all "0x..." for floats, bits in v3 and a number to tensorstore in v2.

use super::fill::{bytes_from_base64, fill_from_value, fill_of_time, write_bits};
use super::node::Reader;
use super::zarr_name;
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::status::Status;
use crate::records::{ArrayRecord, ByteOrder, Dtype, Time};
use crate::source::json::{Kind, Str, Value};

/// Below this magnitude every whole number is an f64, and no other is rounded to it.
const WHOLE_LIMIT: u64 = 1 << 53;

/// One element as `value` spells it, of the type and byte order that `record` has so far.
pub(super) fn fill_from_zarr2(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &ArrayRecord,
) -> Result<[u8; ELEMENT_BYTES_MAX], Status> {
    let ArrayRecord { dtype, dtype_bytes, .. } = *record;
    let kind = value.kind();
    match dtype {
        _ if record.time.is_some() && kind == Kind::Null => {
            return Ok(element(Time::NONE as u64, dtype_bytes));
        }
        _ if record.time.is_some() => return fill_of_time(reader, value),
        _ if kind == Kind::Null => return Ok([0; ELEMENT_BYTES_MAX]),
        Dtype::Raw => return base64(reader, value, record),
        Dtype::C64 | Dtype::C128 if kind == Kind::String => return base64(reader, value, record),
        Dtype::C64 | Dtype::C128 => {
            for part in reader.items(value)? {
                check_float(reader, part, dtype)?;
            }
        }
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => check_float(reader, value, dtype)?,
        Dtype::Bool if kind == Kind::Number => {
            let bit = reader.integer(value, 0, 1)?;
            return Ok(element(bit as u64, dtype_bytes));
        }
        Dtype::Bool => {}
        _ if kind == Kind::Number && !value.is_integer() => {
            return whole(reader, value, dtype);
        }
        _ => {}
    }
    fill_from_value(reader, value, dtype, dtype_bytes)
}

fn element(bits: u64, dtype_bytes: u32) -> [u8; ELEMENT_BYTES_MAX] {
    let mut element = [0; ELEMENT_BYTES_MAX];
    write_bits(bits, &mut element[..dtype_bytes as usize]);
    element
}

/// The bytes of an element in base64, as they lie in a chunk.
fn base64(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &ArrayRecord,
) -> Result<[u8; ELEMENT_BYTES_MAX], Status> {
    let mut fill = [0; ELEMENT_BYTES_MAX];
    let element = &mut fill[..record.dtype_bytes as usize];
    let text = reader.string(value)?;
    if bytes_from_base64(text, element).is_none() {
        let reason = format_args!("{text} is not the base64 of {} bytes", record.dtype_bytes);
        return Err(reader.decode(value, reason));
    }
    if (record.byte_order == ByteOrder::Big) != cfg!(target_endian = "big") {
        element.chunks_mut(record.dtype.word_bytes() as usize).for_each(<[u8]>::reverse);
    }
    Ok(fill)
}

/// Whether a float is a number or one of the three names.
fn check_float(reader: &mut Reader<'_>, value: Value<'_>, dtype: Dtype) -> Result<(), Status> {
    let names = "NaN Infinity -Infinity";
    let is_name = |text: Str<'_>| text.place_in(names).is_some();
    if value.kind() == Kind::Number || value.as_str().is_some_and(is_name) {
        return Ok(());
    }
    let name = zarr_name(dtype);
    let reason =
        format_args!("{value} is no {name}: a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
    Err(reader.decode(value, reason))
}

/// A whole number that is spelled with a fraction or an exponent.
fn whole(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    dtype: Dtype,
) -> Result<[u8; ELEMENT_BYTES_MAX], Status> {
    let name = zarr_name(dtype);
    let number = value.as_f64().unwrap_or(f64::NAN);
    let whole = number as i64;
    if whole as f64 != number || whole.unsigned_abs() >= WHOLE_LIMIT {
        let reason = format_args!("{value} is no {name}: a whole number is needed");
        return Err(reader.decode(value, reason));
    }
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    // Every whole number that comes here has less than 54 bits.
    let bits = (8 * dtype.bytes() - u32::from(is_signed)).min(62);
    let (first, limit) = (if is_signed { -1 << bits } else { 0 }, 1i64 << bits);
    if !(first..limit).contains(&whole) {
        return Err(reader.decode(value, format_args!("{value} does not fit {name}")));
    }
    Ok(element(whole as u64, dtype.bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::zarr2::{TYPE_NAMES, TYPES, array_from_zarr2};
    use crate::base::status::{Status, Why};
    use serde_json::{Value, json};
    use std::string::{String, ToString};
    use std::{format, vec, vec::Vec};

    /// The fill element of this type as it lies in memory, or the text of its refusal.
    fn fill(dtype: &str, value: Value) -> Result<Vec<u8>, String> {
        let document = json!({
            "zarr_format": 2, "shape": [3], "chunks": [2], "dtype": dtype, "order": "C",
            "fill_value": value, "compressor": null, "filters": null
        });
        let mut why = Why::new();
        match array_from_zarr2(document.to_string().as_bytes(), "/data/a", &mut why) {
            Ok(record) => Ok(record.fill[..record.dtype_bytes as usize].to_vec()),
            Err(status) => {
                assert_eq!(status, Status::Decode, "{why}");
                assert!(why.as_str().contains("/data/a/.zarray: fill_value"), "{why}");
                Err(why.to_string())
            }
        }
    }

    #[test]
    fn a_fill_of_null_is_zeros_in_every_type() {
        for (kind, dtype) in TYPE_NAMES.split(' ').zip(TYPES) {
            assert_eq!(
                fill(&format!(">{kind}"), json!(null)).unwrap(),
                vec![0; dtype.bytes() as usize]
            );
        }
        assert_eq!(fill("|V5", json!(null)).unwrap(), [0; 5]);
    }

    #[test]
    fn integers_fill_from_whole_numbers_however_they_are_spelled() {
        for order in ["<", ">"] {
            for value in [json!(-7), json!(-7.0), json!(-7e0)] {
                assert_eq!(fill(&format!("{order}i4"), value).unwrap(), (-7i32).to_ne_bytes());
            }
        }
        assert_eq!(fill("<u8", json!(u64::MAX)).unwrap(), [0xff; 8]);
        let largest = (1i64 << 53) - 1;
        assert_eq!(fill("<i8", json!(9007199254740991.0)).unwrap(), largest.to_ne_bytes());
        assert_eq!(fill("|i1", json!(-128.0)).unwrap(), [0x80]);
        assert_eq!(fill("|u1", json!(255.0)).unwrap(), [0xff]);
        for (dtype, value) in [
            ("|u1", json!(256.0)),
            ("|u1", json!(-1.0)),
            ("|i1", json!(128.0)),
            ("|i1", json!(-129.0)),
            ("<i4", json!(1u64 << 40)),
            ("<u4", json!(-1)),
            ("<u2", json!(65536.0)),
        ] {
            assert!(fill(dtype, value).unwrap_err().contains("does not fit"));
        }
        for value in [json!(1.5), json!(1e300), json!(9007199254740992.0), json!("7"), json!(true)]
        {
            assert!(fill("<i8", value).unwrap_err().contains("a whole number is needed"));
        }
    }

    #[test]
    fn booleans_fill_from_booleans_and_from_0_and_1() {
        for (value, byte) in [(json!(true), 1), (json!(false), 0), (json!(1), 1), (json!(0), 0)] {
            assert_eq!(fill("|b1", value).unwrap(), [byte]);
        }
        for value in [json!(2), json!(-1), json!(1.0), json!("true"), json!([])] {
            fill("|b1", value).unwrap_err();
        }
    }

    #[test]
    fn floats_fill_from_numbers_and_three_names_alone() {
        for (value, bits) in [
            (json!(1.5), 0x3fc0_0000u32),
            (json!(-0.0), 0x8000_0000),
            (json!(1e40), 0x7f80_0000),
            (json!(3), 0x4040_0000),
            (json!("NaN"), 0x7fc0_0000),
            (json!("Infinity"), 0x7f80_0000),
            (json!("-Infinity"), 0xff80_0000),
        ] {
            assert_eq!(fill(">f4", value).unwrap(), bits.to_ne_bytes());
        }
        for value in [
            json!("0x7fc00000"),
            json!("1.5"),
            json!("nan"),
            json!(""),
            json!("AACAPw=="),
            json!(true),
            json!([1]),
        ] {
            assert!(fill("<f4", value).unwrap_err().contains("is no float32: a number, \"NaN\""));
        }
    }

    #[test]
    fn complex_numbers_fill_from_two_parts_or_from_base64_in_the_order_of_the_type() {
        let element = [1f32.to_ne_bytes(), 2f32.to_ne_bytes()].concat();
        assert_eq!(fill("<c8", json!([1, 2.0])).unwrap(), element);
        assert_eq!(fill(">c8", json!([1, 2.0])).unwrap(), element);
        assert_eq!(fill("<c8", json!("AACAPwAAAEA=")).unwrap(), element);
        assert_eq!(fill(">c8", json!("P4AAAEAAAAA=")).unwrap(), element);
        for value in
            [json!([1]), json!([1, 2, 3]), json!(1), json!("AACAPw=="), json!(["0x3f800000", 1])]
        {
            fill("<c8", value).unwrap_err();
        }
    }

    /// Base64 with padding, digit by digit out of a string of bits.
    fn base64_of(bytes: &[u8]) -> String {
        let digits: Vec<char> =
            ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
        let mut bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        while !bits.len().is_multiple_of(6) {
            bits.push('0');
        }
        let mut text: String = (0..bits.len() / 6)
            .map(|at| digits[usize::from_str_radix(&bits[6 * at..6 * at + 6], 2).unwrap()])
            .collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        text
    }

    #[test]
    fn void_types_fill_from_base64_of_their_size() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for size in 1..=16usize {
            for _ in 0..50 {
                let bytes: Vec<u8> = (0..size)
                    .map(|_| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        (state >> 32) as u8
                    })
                    .collect();
                let text = base64_of(&bytes);
                assert_eq!(fill(&format!("|V{size}"), json!(text)).unwrap(), bytes, "{text}");
                let wrong = format!("|V{}", if size == 16 { 1 } else { size + 1 });
                assert!(fill(&wrong, json!(text)).unwrap_err().contains("is not the base64 of"));
            }
        }
        for value in
            [json!(0), json!([1, 2, 3]), json!(""), json!("AQ=A"), json!("A-A="), json!("AQB=")]
        {
            fill("|V2", value).unwrap_err();
        }
    }
}
