//! Packing: attributes by which other readers make other numbers of an array's elements.
//!
//! In: the attributes of an array. Out: which of those there are, and which of them change
//! something. Source: the CF conventions, sections 2.5.1 and 8.1, and NUG's `_Unsigned`, as xarray
//! applies them: `scale_factor`, `add_offset`, `_FillValue` and `missing_value`. Writers spell a
//! number as itself or as a list of one; xarray spells a float `_FillValue` of zarr v3 as the
//! base64 of an f64.
//!
//! In zarr v2 xarray keeps `_FillValue` as the array's fill value, and masks by it. An array that
//! xarray wrote has the attribute `_ARRAY_DIMENSIONS`.
//!
//! Invariant: attributes are hostile too, and never a reason to refuse an array: they say nothing
//! about its bytes. A value that is not understood counts as one that changes something.

use super::fill::base64_part;
use crate::base::abi::{PACKING_FILL, PACKING_OFFSET, PACKING_SCALE, PACKING_UNSIGNED};
use crate::records::{ArrayRecord, DocumentKind, Dtype, Packing};
use crate::source::json::{self, Kind, Value};

/// The attributes that are looked for, of which the last says who wrote the array.
const NAMES: &str = "scale_factor add_offset _FillValue missing_value _Unsigned _ARRAY_DIMENSIONS";

/// The packing of the zarr v2 array whose `.zattrs` is `document`.
pub fn packing_from_attributes(
    document: &[u8],
    record: &ArrayRecord,
) -> Result<Packing, json::Error> {
    json::parse(document).map(|attributes| packing_of(attributes, record))
}

/// The packing of an array with these attributes. Attributes that are no object have none.
pub(super) fn packing_of(attributes: Value<'_>, record: &ArrayRecord) -> Packing {
    let mut packing = Packing::NONE;
    for (name, value) in attributes.members().into_iter().flatten() {
        let Some(place) = name.place_in(NAMES).filter(|_| value.kind() != Kind::Null) else {
            continue;
        };
        let (bit, changes) = match place {
            0 => (PACKING_SCALE, !all(value, |item| item.as_f64() == Some(1.0))),
            1 => (PACKING_OFFSET, !all(value, |item| item.as_f64() == Some(0.0))),
            2 | 3 => (PACKING_FILL, !(is_float(record.dtype) && all(value, is_nan))),
            4 => (PACKING_UNSIGNED, is_other_sign(value, record.dtype)),
            _ => (PACKING_FILL, is_masked(record)),
        };
        // The attribute of the writer is not packing by itself.
        packing.bits |= if place < 5 || changes { bit } else { 0 };
        packing.changes |= if changes { bit } else { 0 };
    }
    packing
}

/// Whether a value, or each item of a list that is not empty, is so.
fn all(value: Value<'_>, is_so: fn(Value<'_>) -> bool) -> bool {
    match value.items() {
        Some(mut items) => items.clone().next().is_some() && items.all(is_so),
        None => is_so(value),
    }
}

fn is_nan(value: Value<'_>) -> bool {
    let Some(text) = value.as_str() else { return value.as_f64().is_some_and(f64::is_nan) };
    let mut bytes = [0; 8];
    let is_spelled = base64_part(text, 8, 0, &mut bytes).is_some();
    text == *"NaN" || is_spelled && f64::from_le_bytes(bytes).is_nan()
}

fn is_float(dtype: Dtype) -> bool {
    let floats = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64, Dtype::C64, Dtype::C128];
    floats.contains(&dtype)
}

/// Whether `_Unsigned` asks for the other kind of integers: "true" of signed, "false" of unsigned.
fn is_other_sign(value: Value<'_>, dtype: Dtype) -> bool {
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    let is_unsigned = matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64);
    let word = value.as_str().and_then(|text| text.place_in("true false"));
    match word.or(value.as_bool().map(|is_true| usize::from(!is_true))) {
        Some(0) => is_signed,
        Some(_) => is_unsigned,
        None => true,
    }
}

/// Whether the fill value marks holes in an array that xarray wrote, and is not NaN anyway.
fn is_masked(record: &ArrayRecord) -> bool {
    let is_given = record.document == DocumentKind::Zarr2Array && record.is_fill_given;
    let [a, b, c, d, e, f, g, h, ..] = record.fill;
    is_given
        && !match record.dtype {
            Dtype::F16 => u16::from_ne_bytes([a, b]) & 0x7fff > 0x7c00,
            Dtype::Bf16 => u16::from_ne_bytes([a, b]) & 0x7fff > 0x7f80,
            Dtype::F32 | Dtype::C64 => f32::from_ne_bytes([a, b, c, d]).is_nan(),
            Dtype::F64 | Dtype::C128 => f64::from_ne_bytes([a, b, c, d, e, f, g, h]).is_nan(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(dtype: Dtype, attributes: &str) -> (u32, u32) {
        let record = ArrayRecord { dtype, ..ArrayRecord::EMPTY };
        let packing = packing_from_attributes(attributes.as_bytes(), &record).unwrap();
        (packing.bits, packing.changes)
    }

    #[test]
    fn what_changes_nothing_is_there_and_changes_nothing() {
        for (attributes, bit) in [
            (r#"{"scale_factor": 1}"#, PACKING_SCALE),
            (r#"{"scale_factor": [1.0]}"#, PACKING_SCALE),
            (r#"{"add_offset": -0.0}"#, PACKING_OFFSET),
            (r#"{"_FillValue": NaN}"#, PACKING_FILL),
            (r#"{"_FillValue": "NaN"}"#, PACKING_FILL),
            (r#"{"_FillValue": "AAAAAAAA+H8="}"#, PACKING_FILL),
            (r#"{"missing_value": [NaN, "NaN"]}"#, PACKING_FILL),
            (r#"{"_Unsigned": "true"}"#, PACKING_UNSIGNED),
        ] {
            assert_eq!(packed(Dtype::F32, attributes), (bit, 0), "{attributes}");
        }
        assert_eq!(packed(Dtype::U8, r#"{"_Unsigned": "true"}"#), (PACKING_UNSIGNED, 0));
        assert_eq!(packed(Dtype::I8, r#"{"_Unsigned": false}"#), (PACKING_UNSIGNED, 0));
    }

    #[test]
    fn what_is_not_understood_changes_something() {
        for (attributes, bit) in [
            (r#"{"scale_factor": "1"}"#, PACKING_SCALE),
            (r#"{"scale_factor": []}"#, PACKING_SCALE),
            (r#"{"scale_factor": [1, 2]}"#, PACKING_SCALE),
            (r#"{"scale_factor": [[1]]}"#, PACKING_SCALE),
            (r#"{"scale_factor": 1, "scale_factor": 2}"#, PACKING_SCALE),
            (r#"{"scale_factor": 1.0000000000000002}"#, PACKING_SCALE),
            (r#"{"add_offset": 5e-324}"#, PACKING_OFFSET),
            (r#"{"add_offset": {"a": 0}}"#, PACKING_OFFSET),
            (r#"{"_FillValue": "AAAAAAAA8H8="}"#, PACKING_FILL),
            (r#"{"_FillValue": "AAAAAAAA+H8"}"#, PACKING_FILL),
            (r#"{"missing_value": [NaN, 0]}"#, PACKING_FILL),
            (r#"{"\u005fFillValue": true}"#, PACKING_FILL),
            (r#"{"_Unsigned": 1}"#, PACKING_UNSIGNED),
        ] {
            assert_eq!(packed(Dtype::F64, attributes), (bit, bit), "{attributes}");
        }
        for dtype in [Dtype::I16, Dtype::Raw, Dtype::Bool] {
            assert_eq!(packed(dtype, r#"{"_FillValue": NaN}"#), (PACKING_FILL, PACKING_FILL));
        }
        assert_eq!(
            packed(Dtype::I8, r#"{"_Unsigned": true}"#),
            (PACKING_UNSIGNED, PACKING_UNSIGNED)
        );
    }

    #[test]
    fn attributes_that_say_nothing_of_elements_are_no_packing() {
        for attributes in [
            "{}",
            "[]",
            "null",
            r#""scale_factor""#,
            r#"{"scale_factor": null, "add_offset": null, "_FillValue": null}"#,
            r#"{"a": {"scale_factor": 2}, "SCALE_FACTOR": 2, "scale_factor ": 2, "scale": 2}"#,
        ] {
            assert_eq!(packed(Dtype::I16, attributes), (0, 0), "{attributes}");
        }
    }

    #[test]
    fn the_fill_value_of_an_array_of_xarray_marks_holes() {
        let text = r#"{"_ARRAY_DIMENSIONS": ["x"]}"#;
        let mut record = ArrayRecord { dtype: Dtype::F32, ..ArrayRecord::EMPTY };
        record.document = DocumentKind::Zarr2Array;
        let mut fill_bits = |is_fill_given, fill: f32| {
            record.is_fill_given = is_fill_given;
            record.fill[..4].copy_from_slice(&fill.to_ne_bytes());
            packing_from_attributes(text.as_bytes(), &record).unwrap().bits
        };
        assert_eq!(fill_bits(false, 0.0), 0);
        assert_eq!(fill_bits(true, f32::NAN), 0);
        assert_eq!(fill_bits(true, 0.0), PACKING_FILL);
    }
}
