//! Structured types in documents, piece by piece; whole stores are in tests/formats/structs.rs.

use super::array_from_document;
use crate::base::status::{Status, Why};
use crate::records::{ArrayRecord, ByteOrder, Codec, DocumentKind, Dtype, Filter, Member};
use serde_json::{Value, json};
use std::string::{String, ToString};

fn read(
    kind: DocumentKind,
    document: &Value,
    field: Option<&str>,
) -> Result<ArrayRecord, (Status, String)> {
    let (text, mut why) = (document.to_string(), Why::new());
    array_from_document(kind, text.as_bytes(), ("/a", field), &mut [], &mut why)
        .map_err(|status| (status, why.to_string()))
}

fn zarr2(dtype: Value, fill: Value, field: Option<&str>) -> Result<ArrayRecord, (Status, String)> {
    let document = json!({
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": dtype, "fill_value": fill,
        "order": "C", "compressor": null, "filters": null
    });
    read(DocumentKind::Zarr2Array, &document, field)
}

fn zarr3(
    fields: Value,
    fill: Value,
    codecs: Value,
    field: Option<&str>,
) -> Result<ArrayRecord, (Status, String)> {
    let table = std::boxed::Box::leak(
        std::vec![
            crate::records::grid::EdgeRun::EMPTY;
            crate::base::limits::EDGE_RUNS_MAX
        ]
        .into_boxed_slice(),
    );
    let is_list = fields.get(0).is_some_and(Value::is_array);
    let name = if is_list { "structured" } else { "struct" };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [4],
        "data_type": {"name": name, "configuration": {"fields": fields}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": "default", "fill_value": fill, "codecs": codecs
    });
    let (text, mut why) = (document.to_string(), Why::new());
    array_from_document(DocumentKind::Zarr3, text.as_bytes(), ("/a", field), table, &mut why)
        .map_err(|status| (status, why.to_string()))
}

fn member(record: &ArrayRecord) -> Member {
    let members = record.codecs.iter().filter_map(|codec| match codec {
        Codec::Filter(Filter::Member(member)) => Some(*member),
        _ => None,
    });
    { members }.next_back().expect("a field")
}

fn bytes() -> Value {
    json!(["bytes"])
}

#[test]
fn a_field_lies_after_those_before_it() {
    let dtype = json!([
        ["s", "|S3"],
        ["u", "<U2"],
        ["pad", "|V5"],
        ["grid", "<i2", [2, 3]],
        ["pair", [["x", "|u1"], ["y", ">f8"]]],
        ["when", ">M8[D]"],
        ["last", "|b1"]
    ]);
    for (field, offset, bytes, kind) in [
        ("pad", 11, 5, Dtype::Raw),
        ("pair", 28, 9, Dtype::Raw),
        ("when", 37, 8, Dtype::I64),
        ("last", 45, 1, Dtype::Bool),
    ] {
        let record = zarr2(dtype.clone(), Value::Null, Some(field)).unwrap();
        assert_eq!(member(&record), Member { element_bytes: 46, offset, bytes }, "{field}");
        assert_eq!(
            (record.dtype, record.dtype_bytes, record.chunk_bytes),
            (kind, bytes, 4 * u64::from(bytes))
        );
        assert_eq!(record.encoded_bytes(record.codecs.len()), Some(4 * 46));
        assert_eq!(record.byte_order == ByteOrder::Big, field == "when");
        assert_eq!(record.fill, [0; 16]);
    }
    let (status, text) = zarr2(dtype, Value::Null, Some("grid")).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(text.contains("a field of several values is not read"), "{text}");
}

#[test]
fn a_fill_value_is_that_of_the_field() {
    let dtype = json!([["a", ">i4"], ["b", "<f8"], ["c", "|u1"]]);
    // 00 00 00 07, 1.5, 09.
    let text = json!("AAAABwAAAAAAAPg/CQ==");
    for (field, element) in
        [("a", &7i32.to_ne_bytes()[..]), ("b", &1.5f64.to_ne_bytes()[..]), ("c", &[9][..])]
    {
        let record = zarr2(dtype.clone(), text.clone(), Some(field)).unwrap();
        assert_eq!(&record.fill[..element.len()], element, "{field}");
    }
    let whole = zarr2(dtype.clone(), text, None).unwrap();
    assert_eq!(whole.fill[..13], [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 9]);
    for wrong in [
        json!("AAAABwAAAAAAAPg/CQ="),
        json!("AAAABwAAAAAAAPg/"),
        json!("AAAABwAAAAAAAPg/CQk="),
        json!(7),
    ] {
        let (status, _) = zarr2(dtype.clone(), wrong.clone(), Some("a")).unwrap_err();
        assert_eq!(status, Status::Decode, "{wrong}");
    }
    let truth = json!([["flag", "|b1"]]);
    assert_eq!(zarr2(truth.clone(), json!("AQ=="), Some("flag")).unwrap().fill[0], 1);
    assert_eq!(zarr2(truth, json!("Ag=="), Some("flag")).unwrap_err().0, Status::Decode);
}

#[test]
fn a_fill_value_may_have_a_member_for_each_field() {
    let inner = json!({"name": "struct", "configuration": {"fields": [
        {"name": "x", "data_type": "uint16"}, {"name": "y", "data_type": "int8"}]}});
    let text = json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 2}});
    let fields = json!([
        {"name": "a", "data_type": "int32"}, {"name": "n", "data_type": inner},
        {"name": "t", "data_type": text}, {"name": "f", "data_type": "float16"}
    ]);
    let fill = json!({"a": -2, "n": {"x": 258, "y": -1}, "t": "", "f": 1.0});
    let stored = [0xFE, 0xFF, 0xFF, 0xFF, 2, 1, 0xFF, 0, 0, 0, 0x3C];
    let whole = zarr3(fields.clone(), fill.clone(), bytes(), None).unwrap();
    assert_eq!((whole.dtype_bytes, &whole.fill[..11]), (11, &stored[..]));
    for (field, range) in [("a", 0..4), ("n", 4..7), ("f", 9..11)] {
        let record = zarr3(fields.clone(), fill.clone(), bytes(), Some(field)).unwrap();
        assert_eq!(record.fill[..range.len()], stored[range], "{field}");
    }
    for (wrong, says) in [
        (json!({"a": -2, "t": "", "f": 1.0}), "field \"n\" is missing"),
        (json!({"a": -2, "n": {"x": 1, "y": 1}, "t": "ab", "f": 1.0}), "is text or objects"),
        (json!({"a": 1.5, "n": {"x": 1, "y": 1}, "t": "", "f": 1.0}), "a whole number is needed"),
        (Value::Null, "not a string"),
    ] {
        let (_, text) = zarr3(fields.clone(), wrong, bytes(), None).unwrap_err();
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn the_order_of_bytes_is_that_of_the_codec() {
    let fields = json!([["a", "int32"], ["b", "uint8"], ["small", "int4"]]);
    let fill = json!("AQAAAAL/");
    let big = json!([{"name": "bytes", "configuration": {"endian": "big"}}]);
    let record = zarr3(fields.clone(), fill.clone(), big.clone(), Some("a")).unwrap();
    assert_eq!((record.byte_order, record.fill[0]), (ByteOrder::Big, 1));
    let record = zarr3(fields.clone(), fill.clone(), bytes(), Some("a")).unwrap();
    assert_eq!(record.byte_order, ByteOrder::Little);
    // Elements of few bits have a byte each.
    let record = zarr3(fields.clone(), fill.clone(), bytes(), Some("small")).unwrap();
    assert_eq!((record.dtype, record.fill[0] as i8), (Dtype::I8, -1));
    assert_eq!(member(&record), Member { element_bytes: 6, offset: 5, bytes: 1 });
    assert_eq!(record.codecs.len(), 2);
    let (status, text) = zarr3(fields.clone(), fill.clone(), big, None).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(text.contains("are read field by field: name one, ?field="), "{text}");
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}});
    let (_, text) = zarr3(fields, fill, json!([delta, "bytes"]), Some("a")).unwrap_err();
    assert!(text.contains("delta in front of structured elements is not read"), "{text}");
}

#[test]
fn a_shuffle_needs_a_size_where_elements_are_raw() {
    let fields = json!([["a", "int32"], ["b", "uint8"]]);
    let shuffled = json!(["bytes", "numcodecs.shuffle"]);
    let (status, text) = zarr3(fields.clone(), json!("AAAAAAA="), shuffled, Some("a")).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(text.contains("write \"elementsize\" there"), "{text}");
    let sized = json!(["bytes",
        {"name": "numcodecs.shuffle", "configuration": {"elementsize": 5}}]);
    let record = zarr3(fields, json!("AAAAAAA="), sized, Some("a")).unwrap();
    assert_eq!(record.encoded_bytes(2), Some(20));
}

#[test]
fn lists_that_are_none_are_refused() {
    let mut deep = json!([["a", "<i4"]]);
    for _ in 0..6 {
        deep = json!([["a", deep]]);
    }
    let (status, text) = zarr2(deep, Value::Null, Some("a")).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(text.contains("levels of structured types"), "{text}");
    for (dtype, status, says) in [
        (json!([]), Status::Decode, "without a byte"),
        (json!([["a", "|V0"]]), Status::Unsupported, "is not read"),
        (json!([["a"]]), Status::Decode, "is not a name and a type"),
        (json!([["a", "<i4", [2], 3]]), Status::Decode, "is not a name and a type"),
        (json!([["a", "<i4"], ["a", "<i4"]]), Status::Decode, "two fields \"a\""),
        (json!([["b", "|V65535"], ["a", "<i4"]]), Status::Unsupported, "above 65535 bytes"),
        (
            json!([["b", "<i8", [4294967296u64, 2]], ["a", "<i4"]]),
            Status::Unsupported,
            "above 65535 bytes",
        ),
        (
            json!([["b", "<i8", [9223372036854775807u64, 3]], ["a", "<i4"]]),
            Status::Unsupported,
            "values are not read",
        ),
        (json!([["a", "|O"]]), Status::Unsupported, "is text or objects"),
        (json!([[1, "<i4"]]), Status::Decode, "not a string"),
        (json!([["b", "<i4"]]), Status::Invalid, "no field \"a\", only \"b\""),
        (json!("<i4"), Status::Invalid, "leave out ?field="),
    ] {
        let (found, text) = zarr2(dtype.clone(), Value::Null, Some("a")).unwrap_err();
        assert!(found == status && text.contains(says), "{dtype}: {found} {text}");
    }
}
