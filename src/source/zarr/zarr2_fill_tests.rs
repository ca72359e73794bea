//! Unit tests of fill values of zarr v2.

use super::array_from_zarr2;
use crate::base::status::{Status, Why};
use crate::records::{DTYPES, Dtype};
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
    match array_from_zarr2(document.to_string().as_bytes(), ("/data/a", None), &mut why) {
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
    let is_sized = |dtype: &Dtype| !matches!(dtype, Dtype::Raw | Dtype::Bf16);
    for dtype in DTYPES.into_iter().filter(is_sized) {
        let kind = dtype.zarr2_name();
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
        for value in [json!(-7), json!(-7.0), json!(-7e0), json!("-7"), json!("-7.0")] {
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
    for value in [json!(1.5), json!(1e300), json!(9007199254740992.0), json!("7x"), json!(true)] {
        assert!(fill("<i8", value).unwrap_err().contains("a whole number is needed"));
    }
}

#[test]
fn booleans_fill_from_booleans_and_from_0_and_1() {
    for (value, byte) in [
        (json!(true), 1),
        (json!(false), 0),
        (json!(1), 1),
        (json!(0), 0),
        (json!(1.0), 1),
        (json!(0.0), 0),
    ] {
        assert_eq!(fill("|b1", value).unwrap(), [byte]);
    }
    for value in [json!(2), json!(-1), json!(0.5), json!("1"), json!("true"), json!([])] {
        fill("|b1", value).unwrap_err();
    }
}

#[test]
fn floats_fill_from_numbers_strings_of_numbers_and_three_names_alone() {
    for (value, bits) in [
        (json!(1.5), 0x3fc0_0000u32),
        (json!(-0.0), 0x8000_0000),
        (json!(1e40), 0x7f80_0000),
        (json!(3), 0x4040_0000),
        (json!("NaN"), 0x7fc0_0000),
        (json!("Infinity"), 0x7f80_0000),
        (json!("-Infinity"), 0xff80_0000),
        (json!("1.5"), 0x3fc0_0000),
        (json!("0"), 0),
    ] {
        assert_eq!(fill(">f4", value).unwrap(), bits.to_ne_bytes());
    }
    for value in [
        json!("0x7fc00000"),
        json!("1.5f"),
        json!("nan"),
        json!(""),
        json!("AACAPw=="),
        json!(true),
        json!([1]),
    ] {
        let part = "is not of type float32: a number, \"NaN\"";
        assert!(fill("<f4", value).unwrap_err().contains(part));
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
