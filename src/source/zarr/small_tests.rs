//! Types of few bits in documents of both formats: what they become, and what is refused by name.

use super::{array_from_document, describe};
use crate::base::limits::EDGE_RUNS_MAX;
use crate::base::status::{Status, Why};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, Codec, DocumentKind, Dtype, Filter, Packed, Padding, Small};
use serde_json::{Value, json};
use std::string::{String, ToString};

type Outcome = Result<ArrayRecord, (Status, String)>;

fn read(kind: DocumentKind, document: &Value) -> Outcome {
    let (mut why, mut table) = (Why::new(), [EdgeRun::EMPTY; EDGE_RUNS_MAX]);
    let text = document.to_string();
    array_from_document(kind, text.as_bytes(), ("/a", None), &mut table, &mut why)
        .map_err(|status| (status, why.to_string()))
}

/// A zarr v3 array of 10 elements, in chunks of 5.
fn zarr3(data_type: &str, fill: Value, codecs: Value) -> Outcome {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}},
        "chunk_key_encoding": "default", "fill_value": fill, "codecs": codecs
    });
    read(DocumentKind::Zarr3, &document)
}

fn zarr2(dtype: &str, fill: Value, filters: Value) -> Outcome {
    let document = json!({
        "zarr_format": 2, "shape": [10], "chunks": [5], "dtype": dtype, "order": "C",
        "fill_value": fill, "compressor": null, "filters": filters
    });
    read(DocumentKind::Zarr2Array, &document)
}

fn packbits(configuration: Value) -> Value {
    json!([{"name": "packbits", "configuration": configuration}, "zstd"])
}

fn refused(outcome: Outcome, expected: Status, part: &str) {
    let (status, text) = outcome.expect_err(part);
    assert!(status == expected && text.contains(part), "{status}: {text:?} lacks {part:?}");
}

#[test]
fn each_type_becomes_the_one_that_holds_its_values() {
    for (name, small, dtype) in [
        ("int2", Small::I2, Dtype::I8),
        ("uint2", Small::U2, Dtype::U8),
        ("int4", Small::I4, Dtype::I8),
        ("uint4", Small::U4, Dtype::U8),
        ("float8_e4m3fn", Small::F8E4m3fn, Dtype::F16),
        ("float8_e5m2", Small::F8E5m2, Dtype::F16),
    ] {
        let record = zarr3(name, json!(1), json!(["bytes", "zstd"])).unwrap();
        let first = Codec::Filter(Filter::Packed(Packed { small, padding: None }));
        assert_eq!((record.dtype, record.codecs[0]), (dtype, first), "{name}");
        assert_eq!(record.encoded_bytes(1), Some(5));
        assert_eq!(record.chunk_bytes, 5 * u64::from(dtype.bytes()));
        let words = describe(&record);
        assert_eq!((words.dtype_name.as_str(), words.codecs.as_str()), (name, "bytes zstd"));
        let record = zarr2(name, json!(1), Value::Null).unwrap();
        assert_eq!((record.dtype, record.codecs[0]), (dtype, first), "{name}");
        assert_eq!(describe(&record).dtype_name.as_str(), name);
    }
}

#[test]
fn packed_elements_have_three_places_for_their_padding() {
    for (configuration, padding, bytes) in [
        (json!({}), Padding::Absent, 3),
        (json!({"padding_encoding": "none", "first_bit": null}), Padding::Absent, 3),
        (json!({"padding_encoding": "first_byte", "first_bit": 0}), Padding::First, 4),
        (json!({"padding_encoding": "last_byte", "last_bit": 3}), Padding::Last, 4),
    ] {
        let record = zarr3("int4", json!(-8), packbits(configuration)).unwrap();
        let packed = Packed { small: Small::I4, padding: Some(padding) };
        assert_eq!(record.codecs[0], Codec::Filter(Filter::Packed(packed)));
        assert_eq!((record.encoded_bytes(1), record.fill[0]), (Some(bytes), 0xF8));
        assert_eq!(describe(&record).codecs.as_str(), "packbits zstd");
    }
    let truths = zarr3("bool", json!(true), packbits(json!({}))).unwrap();
    assert_eq!((truths.dtype, truths.encoded_bytes(1)), (Dtype::Bool, Some(1)));
}

#[test]
fn fill_values_are_values_of_the_type_or_refused() {
    for (name, fill, expected) in [
        ("int4", json!(7), &[7][..]),
        ("int2", json!(-2), &[0xFE]),
        ("uint4", json!(15), &[15]),
        ("float8_e4m3fn", json!(448), &[0x00, 0x5F]),
        ("float8_e4m3fn", json!(-0.001953125), &[0x00, 0x98]),
        ("float8_e4m3fn", json!("NaN"), &[0x00, 0x7E]),
        ("float8_e4m3fn", json!("0xff"), &[0x00, 0xFE]),
        ("float8_e5m2", json!("-Infinity"), &[0x00, 0xFC]),
        ("float8_e5m2", json!("0x3c"), &[0x00, 0x3C]),
        ("float8_e5m2", json!(-0.0), &[0x00, 0x80]),
    ] {
        let record = zarr3(name, fill.clone(), json!(["bytes"])).unwrap();
        assert_eq!(&record.fill[..expected.len()], expected, "{name}: {fill}");
    }
    for (name, fill) in [
        ("int4", json!(8)),
        ("int2", json!(-3)),
        ("uint2", json!(4)),
        ("uint4", json!(-1)),
        ("uint4", json!(0.5)),
        ("uint4", json!("0x0f")),
        ("float8_e4m3fn", json!("Infinity")),
        ("float8_e4m3fn", json!(449)),
        ("float8_e5m2", json!(0.3)),
        ("float8_e5m2", json!("0x3c00")),
        ("float8_e5m2", json!(true)),
    ] {
        let part = std::format!("is not of type {name}");
        refused(zarr3(name, fill, json!(["bytes"])), Status::Decode, &part);
    }
    refused(zarr2("int4", json!("0x0f"), Value::Null), Status::Decode, "is not of type int4");
    let part = "null is not of type int4";
    refused(zarr3("int4", Value::Null, json!(["bytes"])), Status::Decode, part);
}

#[test]
fn what_is_not_read_of_them_is_refused_by_name() {
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "|i1"}});
    for (name, codecs, part) in [
        ("uint16", packbits(json!({})), "codec \"packbits\" is read of bool, int2, uint2"),
        ("float8_e5m2", packbits(json!({})), "codec \"packbits\" is read of"),
        ("int4", packbits(json!({"first_bit": 1})), "packbits from bit 1: a part of the bits"),
        ("uint4", packbits(json!({"last_bit": 2})), "packbits from bit 2: a part of the bits"),
        ("int4", packbits(json!({"padding_encoding": "both"})), "\"both\" is neither \"none\","),
        ("int4", packbits(json!({"order": 1})), "\"order\" = 1"),
        ("int4", json!([delta, "bytes"]), "delta in front of int4 is not read"),
        ("int8", json!([delta, "packbits"]), "delta in front of packbits is not read"),
        ("int4", json!(["pack"]), "codec \"pack\" is not read: write the array again"),
    ] {
        refused(zarr3(name, json!(0), codecs), Status::Unsupported, part);
    }
    let behind = json!(["bytes", "packbits"]);
    let part = "codec \"packbits\" cannot stand after \"bytes\"";
    refused(zarr3("int4", json!(0), behind), Status::Decode, part);
    refused(zarr2("<int4", json!(0), Value::Null), Status::Unsupported, "\"<int4\" is not read");
}
