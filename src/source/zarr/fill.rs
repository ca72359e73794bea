//! Fill values: one element from its JSON spelling.
//!
//! Comes in: the member `fill_value` and the element type. Goes out: the element in the byte order
//! of this machine. Source: zarr v3 core, "Permitted fill values"; raw bytes also in base64, which
//! is how zarr-python and tensorstore write them.
//!
//! Invariant: decimal numbers are read as an f64 and rounded from it as casts and `pad_value` are;
//! beyond the largest finite value they become infinite. The thread holds a
//! [`crate::simd::FloatEnvironment`].

use super::node::Reader;
use super::zarr_name;
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::status::Status;
use crate::loops::convert::{brain_from_f64, f32_from_f64, half_from_f64};
use crate::records::{Dtype, Time};
use crate::source::json::{Kind, Str, Value};

/// The bits of an IEEE binary format.
#[derive(Clone, Copy)]
struct FloatFormat {
    exponent_bits: u32,
    mantissa_bits: u32,
}

impl FloatFormat {
    const F16: FloatFormat = FloatFormat { exponent_bits: 5, mantissa_bits: 10 };
    const BF16: FloatFormat = FloatFormat { exponent_bits: 8, mantissa_bits: 7 };
    const F32: FloatFormat = FloatFormat { exponent_bits: 8, mantissa_bits: 23 };
    const F64: FloatFormat = FloatFormat { exponent_bits: 11, mantissa_bits: 52 };

    const fn bytes(self) -> usize {
        (1 + self.exponent_bits + self.mantissa_bits) as usize / 8
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    const fn sign(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The quiet NaN without payload and sign.
    const fn nan(self) -> u64 {
        self.infinity() | 1 << (self.mantissa_bits - 1)
    }
}

/// A time as `value` spells it: "NaT", or the number of its int64.
pub(super) fn fill_of_time(
    reader: &mut Reader<'_>,
    value: Value<'_>,
) -> Result<[u8; ELEMENT_BYTES_MAX], Status> {
    if value.as_str().is_some_and(|text| text == *"NaT") {
        let mut fill = [0; ELEMENT_BYTES_MAX];
        fill[..size_of::<i64>()].copy_from_slice(&Time::NONE.to_ne_bytes());
        return Ok(fill);
    }
    fill_from_value(reader, value, Dtype::I64, Dtype::I64.bytes())
}

/// One element of `dtype` as `value` spells it, in the first `dtype_bytes` bytes.
pub(super) fn fill_from_value(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    dtype: Dtype,
    dtype_bytes: u32,
) -> Result<[u8; ELEMENT_BYTES_MAX], Status> {
    let mut fill = [0; ELEMENT_BYTES_MAX];
    let name = zarr_name(dtype);
    let element = &mut fill[..dtype_bytes as usize];
    if value.kind() == Kind::Null {
        let reason = format_args!("null is no {name}: zarr v3 needs a value");
        return Err(reader.decode(value, reason));
    }
    match dtype {
        Dtype::Bool => element[0] = reader.boolean(value)? as u8,
        Dtype::Raw => raw(reader, value, element)?,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => {
            let max = u64::MAX >> (64 - 8 * dtype_bytes);
            let number = value.as_u64().filter(|number| *number <= max);
            write_bits(number.ok_or_else(|| not_an_integer(reader, value, name))?, element);
        }
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            let max = i64::MAX >> (64 - 8 * dtype_bytes);
            let number = value.as_i64().filter(|number| (-max - 1..=max).contains(number));
            let number = number.ok_or_else(|| not_an_integer(reader, value, name))?;
            write_bits(number as u64, element);
        }
        Dtype::F16 => float(reader, value, name, FloatFormat::F16, element)?,
        Dtype::Bf16 => float(reader, value, name, FloatFormat::BF16, element)?,
        Dtype::F32 => float(reader, value, name, FloatFormat::F32, element)?,
        Dtype::F64 => float(reader, value, name, FloatFormat::F64, element)?,
        Dtype::C64 => complex(reader, value, name, FloatFormat::F32, element)?,
        Dtype::C128 => complex(reader, value, name, FloatFormat::F64, element)?,
    }
    Ok(fill)
}

fn not_an_integer(reader: &mut Reader<'_>, value: Value<'_>, name: &str) -> Status {
    if value.is_integer() {
        reader.decode(value, format_args!("{value} does not fit {name}"))
    } else {
        reader.decode(value, format_args!("{value} is no {name}: a whole number is needed"))
    }
}

/// The low bytes of `bits` as an element of this machine.
pub(super) fn write_bits(bits: u64, element: &mut [u8]) {
    let bytes = bits.to_le_bytes();
    element.copy_from_slice(&bytes[..element.len()]);
    if cfg!(target_endian = "big") {
        element.reverse();
    }
}

fn complex(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    name: &str,
    format: FloatFormat,
    element: &mut [u8],
) -> Result<(), Status> {
    let mut count = 0;
    for part in reader.items(value)? {
        if count < 2 {
            let (first, limit) = (count * format.bytes(), (count + 1) * format.bytes());
            float(reader, part, name, format, &mut element[first..limit])?;
        }
        count += 1;
    }
    if count != 2 {
        let reason = format_args!("{count} parts, but {name} has 2: [real, imaginary]");
        return Err(reader.decode(value, reason));
    }
    Ok(())
}

fn float(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    name: &str,
    format: FloatFormat,
    element: &mut [u8],
) -> Result<(), Status> {
    let bits = match (value.as_f64(), value.as_str()) {
        (Some(number), _) if number.is_nan() => Some(format.nan()),
        (Some(number), _) => Some(narrow_float(number, format)),
        (_, Some(text)) => float_from_text(text, format),
        _ => None,
    };
    let Some(bits) = bits else {
        let digits = 2 * format.bytes();
        let spellings = "a number, \"NaN\", \"Infinity\", \"-Infinity\" or \"0x\" and";
        let reason = format_args!("{value} is no {name}: {spellings} {digits} hex digits");
        return Err(reader.decode(value, reason));
    };
    write_bits(bits, element);
    Ok(())
}

fn float_from_text(text: Str<'_>, format: FloatFormat) -> Option<u64> {
    // The longest spelling is "0x" and 16 digits.
    let mut buffer = [0; 18];
    match text.decode_into(&mut buffer)? {
        "NaN" => Some(format.nan()),
        "Infinity" => Some(format.infinity()),
        "-Infinity" => Some(format.infinity() | format.sign()),
        other => {
            let digits = other.strip_prefix("0x")?;
            // from_str_radix would also take a sign.
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if digits.len() == 2 * format.bytes() && is_hex {
                u64::from_str_radix(digits, 16).ok()
            } else {
                None
            }
        }
    }
}

/// The bits of a number that is no NaN, as a cast gives them.
fn narrow_float(wide: f64, format: FloatFormat) -> u64 {
    match format.mantissa_bits {
        10 => half_from_f64(wide).0.into(),
        7 => brain_from_f64(wide).0.into(),
        23 => f32_from_f64(wide).to_bits().into(),
        _ => wide.to_bits(),
    }
}

/// Raw bytes: an array of byte values, or base64.
fn raw(reader: &mut Reader<'_>, value: Value<'_>, element: &mut [u8]) -> Result<(), Status> {
    let size = element.len();
    if let Some(text) = value.as_str() {
        return match bytes_from_base64(text, element) {
            Some(()) => Ok(()),
            None => {
                let reason = format_args!("{text} is not the base64 of {size} bytes");
                Err(reader.decode(value, reason))
            }
        };
    }
    let mut count = 0;
    for item in reader.items(value)? {
        let byte = reader.integer(item, 0, 255)? as u8;
        if let Some(place) = element.get_mut(count) {
            *place = byte;
        }
        count += 1;
    }
    if count != size {
        return Err(
            reader.decode(value, format_args!("{count} bytes, but r{} has {size}", 8 * size))
        );
    }
    Ok(())
}

/// Fills `out` with exactly the bytes that `text` spells (RFC 4648, section 4, padded).
pub(super) fn bytes_from_base64(text: Str<'_>, out: &mut [u8]) -> Option<()> {
    let mut buffer = [0; ELEMENT_BYTES_MAX.div_ceil(3) * 4];
    let digits = text.decode_into(&mut buffer)?.as_bytes();
    if digits.len() != out.len().div_ceil(3) * 4 {
        return None;
    }
    for (triple, quad) in out.chunks_mut(3).zip(digits.chunks(4)) {
        let mut bits = 0;
        for (place, digit) in quad.iter().enumerate() {
            // A triple of n bytes has n + 1 digits, and padding behind them.
            let value = if place <= triple.len() { base64_digit(*digit)? } else { 0 };
            if place > triple.len() && *digit != b'=' {
                return None;
            }
            bits = bits << 6 | value;
        }
        let bytes = u32::to_be_bytes(bits << 8);
        if bytes[triple.len()..].iter().any(|byte| *byte != 0) {
            return None;
        }
        triple.copy_from_slice(&bytes[..triple.len()]);
    }
    Some(())
}

fn base64_digit(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::status::Why;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn fill(dtype: Dtype, dtype_bytes: u32, source: &str) -> Result<Vec<u8>, String> {
        let mut why = Why::new();
        let document = source.as_bytes();
        let (mut reader, value) = Reader::open("/a", "zarr.json", document, &mut why).ok().unwrap();
        match fill_from_value(&mut reader, value, dtype, dtype_bytes) {
            Ok(bytes) => {
                assert!(bytes[dtype_bytes as usize..].iter().all(|byte| *byte == 0));
                Ok(bytes[..dtype_bytes as usize].to_vec())
            }
            Err(status) => {
                assert_eq!(status, Status::Decode);
                Err(why.to_string())
            }
        }
    }

    fn refused(dtype: Dtype, dtype_bytes: u32, source: &str, reason: &str) {
        let text = fill(dtype, dtype_bytes, source).unwrap_err();
        assert!(text.contains(reason), "{text:?} lacks {reason:?}");
    }

    #[test]
    fn integers_fill_up_to_their_limits_and_not_beyond() {
        for (dtype, first, last) in [
            (Dtype::I8, i128::from(i8::MIN), i128::from(i8::MAX)),
            (Dtype::I16, i16::MIN.into(), i16::MAX.into()),
            (Dtype::I32, i32::MIN.into(), i32::MAX.into()),
            (Dtype::I64, i64::MIN.into(), i64::MAX.into()),
            (Dtype::U8, 0, u8::MAX.into()),
            (Dtype::U16, 0, u16::MAX.into()),
            (Dtype::U32, 0, u32::MAX.into()),
            (Dtype::U64, 0, u64::MAX.into()),
        ] {
            let size = dtype.bytes();
            for value in [first, last, 7] {
                let bytes = fill(dtype, size, &value.to_string()).unwrap();
                assert_eq!(bytes, value.to_le_bytes()[..size as usize], "{dtype:?} {value}");
            }
            for value in [first - 1, last + 1] {
                let reason = std::format!("{value} does not fit {}", zarr_name(dtype));
                refused(dtype, size, &value.to_string(), &reason);
            }
            assert_eq!(fill(dtype, size, "-0").unwrap(), &[0; 8][..size as usize]);
            for source in ["1.0", "1e2", "\"1\"", "true", "[1]", "NaN", "-Infinity"] {
                refused(dtype, size, source, "a whole number is needed");
            }
        }
    }

    #[test]
    fn booleans_fill_from_booleans_alone() {
        assert_eq!(fill(Dtype::Bool, 1, "true").unwrap(), [1]);
        assert_eq!(fill(Dtype::Bool, 1, "false").unwrap(), [0]);
        refused(Dtype::Bool, 1, "1", "1, not a boolean");
    }

    #[test]
    fn null_is_refused_for_every_type() {
        for dtype in crate::records::DTYPES {
            refused(dtype, dtype.bytes().max(1), "null", "null is no");
        }
    }

    #[test]
    fn named_floats_have_the_bits_of_the_specification() {
        for (source, f16, bf16, f32_bits, f64_bits) in [
            ("\"NaN\"", 0x7e00u16, 0x7fc0u16, 0x7fc0_0000u32, 0x7ff8_0000_0000_0000u64),
            ("\"Infinity\"", 0x7c00, 0x7f80, 0x7f80_0000, 0x7ff0_0000_0000_0000),
            ("\"-Infinity\"", 0xfc00, 0xff80, 0xff80_0000, 0xfff0_0000_0000_0000),
            ("NaN", 0x7e00, 0x7fc0, 0x7fc0_0000, 0x7ff8_0000_0000_0000),
            ("Infinity", 0x7c00, 0x7f80, 0x7f80_0000, 0x7ff0_0000_0000_0000),
            ("-Infinity", 0xfc00, 0xff80, 0xff80_0000, 0xfff0_0000_0000_0000),
            ("1e400", 0x7c00, 0x7f80, 0x7f80_0000, 0x7ff0_0000_0000_0000),
            ("-0.0", 0x8000, 0x8000, 0x8000_0000, 0x8000_0000_0000_0000),
        ] {
            assert_eq!(fill(Dtype::F16, 2, source).unwrap(), f16.to_ne_bytes());
            assert_eq!(fill(Dtype::Bf16, 2, source).unwrap(), bf16.to_ne_bytes());
            assert_eq!(fill(Dtype::F32, 4, source).unwrap(), f32_bits.to_ne_bytes());
            assert_eq!(fill(Dtype::F64, 8, source).unwrap(), f64_bits.to_ne_bytes());
        }
    }

    #[test]
    fn hex_floats_keep_every_bit() {
        let f32_bytes = fill(Dtype::F32, 4, "\"0xffC00001\"").unwrap();
        assert_eq!(f32_bytes, 0xffc0_0001u32.to_ne_bytes());
        let f16_bytes = fill(Dtype::F16, 2, "\"0x7c01\"").unwrap();
        assert_eq!(f16_bytes, 0x7c01u16.to_ne_bytes());
        let f64_bytes = fill(Dtype::F64, 8, "\"0x7ff0000000000001\"").unwrap();
        assert_eq!(f64_bytes, 0x7ff0_0000_0000_0001u64.to_ne_bytes());
    }

    #[test]
    fn other_spellings_of_a_float_are_refused() {
        for source in [
            "\"0x7fc0\"",
            "\"0x7fc000000\"",
            "\"0X7fc00000\"",
            "\"0x+fc00000\"",
            "\"7fc00000\"",
            "\"nan\"",
            "\"1.5\"",
            "\"\"",
            "\"0xéé0000\"",
            "\"a string that is longer than any float\"",
            "[1]",
            "true",
        ] {
            refused(Dtype::F32, 4, source, "8 hex digits");
        }
    }

    /// Numbers and their roundings from tests/data/make_casts.py: numpy's, and for bf16 ml_dtypes'.
    fn every_number_of_the_fixture(target: Dtype) {
        let records = crate::assemble::cast_tests::known();
        let record =
            records.iter().find(|record| (record.source, record.target) == (Dtype::F64, target));
        let Some(record) = record else { panic!("no casts of f64 to {}", target.name()) };
        let size = target.bytes() as usize;
        let mut count = 0;
        for (wide, narrow) in record.input.chunks(8).zip(record.output.chunks(size)) {
            let value = f64::from_le_bytes(wide.try_into().unwrap());
            let padded = crate::assemble::value_element(value, target, size as u32).unwrap();
            assert_eq!(&padded[..size], narrow, "{value:e} as padding");
            if value.is_finite() {
                let filled = fill(target, size as u32, &std::format!("{value:e}")).unwrap();
                assert_eq!(filled, narrow, "{value:e} as fill value");
                count += 1;
            }
        }
        assert!(count > 1000, "{count}");
    }

    #[test]
    fn a_number_fills_and_pads_as_numpy_and_ml_dtypes_cast_it() {
        every_number_of_the_fixture(Dtype::F16);
        every_number_of_the_fixture(Dtype::Bf16);
        every_number_of_the_fixture(Dtype::F32);
        // Above the middle of two neighbours by less than an f32 has: ml_dtypes gives the lower.
        let near = std::format!("{:e}", 1.0 + 2f64.powi(-8) + 2f64.powi(-30));
        assert_eq!(fill(Dtype::Bf16, 2, &near).unwrap(), 0x3F80u16.to_ne_bytes());
    }

    #[test]
    fn complex_numbers_fill_from_two_floats() {
        let bytes = fill(Dtype::C64, 8, "[1, \"-Infinity\"]").unwrap();
        assert_eq!(bytes[..4], 1f32.to_ne_bytes());
        assert_eq!(bytes[4..], f32::NEG_INFINITY.to_ne_bytes());
        let bytes = fill(Dtype::C128, 16, "[\"0x7ff8000000000001\", -2.5]").unwrap();
        assert_eq!(bytes[..8], 0x7ff8_0000_0000_0001u64.to_ne_bytes());
        assert_eq!(bytes[8..], (-2.5f64).to_ne_bytes());
        refused(Dtype::C64, 8, "[1]", "1 parts");
        refused(Dtype::C64, 8, "[1, 2, 3]", "3 parts");
        refused(Dtype::C64, 8, "1", "not an array");
        refused(Dtype::C64, 8, "[[1], 2]", "is no complex64");
    }

    #[test]
    fn raw_bytes_fill_from_byte_values_or_base64() {
        assert_eq!(fill(Dtype::Raw, 3, "[1, 0, 255]").unwrap(), [1, 0, 255]);
        assert_eq!(fill(Dtype::Raw, 3, "\"AQD/\"").unwrap(), [1, 0, 255]);
        assert_eq!(fill(Dtype::Raw, 4, "\"AQD/fg==\"").unwrap(), [1, 0, 255, 126]);
        assert_eq!(fill(Dtype::Raw, 5, "\"AQD\\/fn0=\"").unwrap(), [1, 0, 255, 126, 125]);
        assert_eq!(fill(Dtype::Raw, 16, "\"/////////////////////w==\"").unwrap(), [255; 16]);
    }

    #[test]
    fn raw_bytes_of_another_size_are_refused() {
        refused(Dtype::Raw, 2, "[1]", "1 bytes, but r16 has 2");
        refused(Dtype::Raw, 2, "[1, 2, 3]", "3 bytes, but r16 has 2");
        refused(Dtype::Raw, 2, "[1, 256]", "256 is outside of 0 to 255");
        refused(Dtype::Raw, 2, "[1, -1]", "-1 is outside of 0 to 255");
        refused(Dtype::Raw, 2, "[1, 0.5]", "a whole number");
        for source in ["\"AQ==\"", "\"AQID\"", "\"AQIDBA==\"", "\"A===\"", "\"AQA\"", "\"AQB=\""] {
            refused(Dtype::Raw, 2, source, "is not the base64 of 2 bytes");
        }
        for source in ["\"AQ=A\"", "\"A-A=\"", "\"\"", "\"AQA=AQA=AQA=AQA=AQA=AQA=AQA=\""] {
            refused(Dtype::Raw, 2, source, "is not the base64 of 2 bytes");
        }
    }
}
