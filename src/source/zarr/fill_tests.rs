//! Unit tests of fill values of zarr v3, and of what all fill values share.

use super::fill::read_fill;
use super::node::Document;
use crate::base::status::{Status, Why};
use crate::records::{ArrayRecord, Dtype};
use std::string::{String, ToString};
use std::vec::Vec;

fn fill(dtype: Dtype, dtype_bytes: u32, source: &str) -> Result<Vec<u8>, String> {
    let mut why = Why::new();
    let mut record = ArrayRecord { dtype, dtype_bytes, ..ArrayRecord::EMPTY };
    let document = Document::new("/a", "zarr.json", source.as_bytes(), &mut why);
    let result = read_fill(document.root().unwrap(), None, &mut record);
    if let Err(status) = result {
        assert_eq!(status, Status::Decode);
        return Err(why.to_string());
    }
    assert!(record.fill[dtype_bytes as usize..].iter().all(|byte| *byte == 0));
    Ok(record.fill[..dtype_bytes as usize].to_vec())
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
            let reason = std::format!("{value} does not fit {}", dtype.zarr3_name());
            refused(dtype, size, &value.to_string(), &reason);
        }
        assert_eq!(fill(dtype, size, "-0").unwrap(), &[0; 8][..size as usize]);
        for source in ["7.0", "\"7\"", "\"7.0\"", "70e-1"] {
            let bytes = fill(dtype, size, source).unwrap();
            assert_eq!(bytes, 7i64.to_le_bytes()[..size as usize], "{dtype:?} {source}");
        }
        let others = ["7.5", "\"7.5\"", "\"0x7\"", "\"7_0\"", "\"\"", "\"true\""];
        for source in others.into_iter().chain(["true", "[1]", "NaN", "-Infinity", "\"NaN\""]) {
            refused(dtype, size, source, "a whole number is needed");
        }
    }
}

#[test]
fn booleans_fill_from_booleans_and_from_0_and_1() {
    for (source, byte) in [("true", 1), ("false", 0), ("1", 1), ("0", 0), ("1.0", 1), ("0.0", 0)] {
        assert_eq!(fill(Dtype::Bool, 1, source).unwrap(), [byte]);
    }
    refused(Dtype::Bool, 1, "2", "2 does not fit bool");
    refused(Dtype::Bool, 1, "0.5", "0.5 is not of type bool");
    refused(Dtype::Bool, 1, "\"1\"", "\"1\", not a boolean");
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
fn floats_fill_from_strings_of_numbers() {
    for (source, number) in
        [("\"1.5\"", 1.5f32), ("\"0\"", 0.0), ("\"-0.0\"", -0.0), ("\"1e3\"", 1e3)]
    {
        assert_eq!(fill(Dtype::F32, 4, source).unwrap(), number.to_ne_bytes(), "{source}");
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
        "\"7fc0000g\"",
        "\"nan\"",
        "\"+1.5\"",
        "\"1_0\"",
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
}

/// Above the middle of two neighbours by less than an f32 shows. ml_dtypes 0.6.0 rounds a double to
/// bfloat16 through float32, so it gives the lower one; numpy 2.4 rounds to float16 at once, so it
/// gives the upper one.
#[test]
fn a_double_becomes_bfloat16_in_two_roundings_and_float16_in_one() {
    for (value, dtype, bits) in [
        (1.0 + 2f64.powi(-8) + 2f64.powi(-30), Dtype::Bf16, 0x3f80u16),
        (1.0 + 2f64.powi(-11) + 2f64.powi(-40), Dtype::F16, 0x3c01),
    ] {
        let filled = fill(dtype, 2, &std::format!("{value:e}")).unwrap();
        let padded = crate::assemble::value_element(value, dtype, 2).unwrap();
        assert_eq!((&filled[..], &padded[..2]), (&bits.to_ne_bytes()[..], &bits.to_ne_bytes()[..]));
    }
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
    refused(Dtype::C64, 8, "[[1], 2]", "is not of type complex64");
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
