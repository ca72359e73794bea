//! What documents of both versions of zarr state, as serde_json reads it: packing, fill values and
//! edges of chunks.

use serde_json::Value;
use wavetrain::base::limits::CHUNK_BYTES_MAX;
use wavetrain::loops::cf::cf;
use wavetrain::records::grid::EdgeRun;
use wavetrain::records::{ArrayRecord, ByteOrder, Codec, Dtype, Filter, Packing};
use wavetrain::source::zarr::read_cf;
use wavetrain::status::{Status, Why};

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

/// Attributes of the CF conventions are refused with a text, or the record is one of f64, whose
/// elements are NaN or `x * scale + offset`.
pub fn check_cf(record: &ArrayRecord, name: &'static str, document: &[u8], table: &mut [EdgeRun]) {
    let (mut decoded, mut why) = (record.clone(), Why::new());
    let (runs, names) = (table[..record.runs_used() as usize].to_vec(), ("/fuzz/a", name));
    if let Err(status) = read_cf((names, document), false, &mut decoded, table, &mut why) {
        assert!([Status::Decode, Status::Unsupported].contains(&status), "{status}: {why}");
        assert!(why.as_str().starts_with(&format!("/fuzz/a/{name}: ")), "{why}");
        assert!(!why.as_str().contains(char::is_control), "{why}");
        return;
    }
    assert!(why.is_empty(), "a text without an error: {why}");
    assert_eq!(table[..runs.len()], runs);
    let mut stored = record.clone();
    let found = read_cf((names, document), true, &mut stored, &mut table.to_vec(), &mut why);
    assert_eq!((found, why.is_empty()), (Ok(()), true), "{why}");
    assert_eq!((&stored.codecs, stored.fill), (&record.codecs, record.fill));
    assert_eq!((stored.chunk_bytes, stored.byte_order), (record.chunk_bytes, record.byte_order));
    let Some(Codec::Filter(Filter::Cf(rule))) = decoded.codecs.first() else {
        assert_eq!((stored.cf, stored.number_type()), (None, (decoded.dtype, decoded.dtype_bytes)));
        assert_eq!(decoded.codecs, record.codecs);
        assert_eq!((decoded.dtype_bytes, decoded.fill), (record.dtype_bytes, record.fill));
        return;
    };
    assert_eq!((decoded.dtype, decoded.dtype_bytes), (Dtype::F64, 8));
    assert_eq!((stored.cf, stored.number_type()), (Some(*rule), (Dtype::F64, 8)));
    assert_eq!(stored.dtype, rule.types.encoded.dtype);
    assert_eq!(decoded.codecs[1..], record.codecs[..]);
    assert!(decoded.fill[8..].iter().all(|byte| *byte == 0));
    assert!(rule.scale != 0.0 && rule.scale.is_finite() && rule.offset.is_finite());
    let axes = decoded.axes();
    let elements: u64 = decoded.chunk_shape[..axes].iter().product();
    assert_eq!((decoded.chunk_bytes, decoded.chunk_shape), (8 * elements, record.chunk_shape));
    assert!(decoded.chunk_bytes <= CHUNK_BYTES_MAX);
    let first = usize::from(rule.first_row) + runs.len();
    let rows = &table[first..first + usize::from(rule.rows)];
    let source: Vec<u8> = (0..256u32).map(|byte| (byte.wrapping_mul(0x9e37) >> 4) as u8).collect();
    let mut target = vec![0; source.len() / record.dtype_bytes as usize * 8];
    cf(rule, rows, &source, &mut target);
    let is_big = rule.types.encoded.byte_order == ByteOrder::Big;
    let dtype = rule.types.encoded.dtype;
    let elements = source.chunks(record.dtype_bytes as usize).zip(target.as_chunks().0);
    for (element, decoded) in elements {
        let mut bytes = element.to_vec();
        if is_big {
            bytes.reverse();
        }
        let Some((number, key)) = number_of(dtype, &bytes) else { return };
        let keys = |row: &EdgeRun| [row.limit, row.cell_limit].map(|word| key_of(dtype, word));
        let [least, largest] = keys(&rows[0]);
        let is_missing = rows[1..].iter().any(|row| keys(row)[0] == key);
        let decoded = f64::from_le_bytes(*decoded);
        if key < least || key > largest || is_missing || number.is_nan() {
            assert!(decoded.is_nan(), "{number}");
        } else {
            assert_eq!(decoded, number * rule.scale + rule.offset, "{number}");
        }
    }
}

/// A little-endian element as a float, and as a number in the order of its type.
fn number_of(dtype: Dtype, bytes: &[u8]) -> Option<(f64, i128)> {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let (word, unused) = (u64::from_le_bytes(word), 64 - 8 * bytes.len());
    Some(match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            let whole = (word << unused) as i64 >> unused;
            (whole as f64, whole.into())
        }
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (word as f64, word.into()),
        Dtype::F64 => (f64::from_bits(word), key_of(dtype, word)),
        Dtype::F32 => {
            let wide = f64::from(f32::from_bits(word as u32));
            (wide, key_of(dtype, wide.to_bits()))
        }
        _ => return None,
    })
}

/// A word of the loops as a number in the order of its type; zeros of both signs are one.
fn key_of(dtype: Dtype, word: u64) -> i128 {
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => (word as i64).into(),
        Dtype::F16 | Dtype::F32 | Dtype::F64 => {
            let magnitude = i128::from(word & i64::MAX as u64);
            if word >> 63 == 1 { -magnitude } else { magnitude }
        }
        _ => word.into(),
    }
}
