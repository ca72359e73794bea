//! What documents of both versions of zarr state, as serde_json reads it: packing, fill values and
//! edges of chunks.

use serde_json::Value;
use wavetrain::records::{ArrayRecord, Dtype, Packing};

/// The packing as serde_json reads it.
pub fn check_packing(packing: &Packing, attributes: &Value) {
    let is_there = |name: &&str| attributes.get(*name).is_some_and(|value| !value.is_null());
    let bits = [("scale_factor", 1), ("add_offset", 2), ("_FillValue", 4), ("missing_value", 4)];
    for (name, bit) in bits.iter().chain(&[("_Unsigned", 8)]) {
        assert!(!is_there(name) || packing.bits & bit != 0, "{name}: {attributes}");
    }
    assert_eq!(packing.changes & !packing.bits, 0);
    let scale = attributes.get("scale_factor").and_then(Value::as_f64);
    assert!(scale.is_none_or(|scale| scale == 1.0) || packing.changes & 1 != 0, "{attributes}");
}

/// An integer element is the number of the document, in all its bits, however that is spelled.
pub fn check_integer_fill(record: &ArrayRecord, fill: &Value) {
    let is_signed = match record.dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => false,
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => true,
        _ => return,
    };
    if record.time.is_some() && fill == "NaT" {
        assert_eq!(record.fill[..8], i64::MIN.to_ne_bytes());
        return;
    }
    let size = record.dtype_bytes as usize;
    let mut element = record.fill[..size].to_vec();
    if cfg!(target_endian = "big") {
        element.reverse();
    }
    let sign = if is_signed && element[size - 1] >> 7 == 1 { 0xff } else { 0 };
    element.resize(16, sign);
    let found = element.iter().rev().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let inner = fill.as_str().map(|text| serde_json::from_str(text).expect("a number"));
    let number: &Value = inner.as_ref().unwrap_or(fill);
    let whole = number.as_u64().map(i128::from).or(number.as_i64().map(i128::from));
    // serde_json reads -0 as a float.
    let expected = whole.or(number.as_f64().map(|number| number as i128));
    assert_eq!(Some(found as i128), expected, "{fill}");
}

/// Edges are those of the document; of an array without elements at least 1.
pub fn check_edges(record: &ArrayRecord, listed: &Value, found: &[u64]) {
    let is_empty = record.shape[..record.axes()].contains(&0);
    let listed = listed.as_array().expect("a list of edges");
    assert_eq!(listed.len(), found.len());
    for (listed, found) in listed.iter().zip(found) {
        let edge = listed.as_u64().or((listed.as_f64() == Some(0.0)).then_some(0));
        let is_same = edge == Some(*found) || is_empty && edge.is_some_and(|edge| edge < 2);
        assert!(is_same, "{listed}, not {found}");
    }
}
