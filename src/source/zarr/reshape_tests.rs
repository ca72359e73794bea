//! `reshape` in documents: it changes nothing, if it says what its specification allows.

use super::{array_from_zarr3, describe};
use crate::base::limits::EDGE_RUNS_MAX;
use crate::base::status::{Status, Why};
use crate::records::ArrayRecord;
use crate::records::grid::EdgeRun;
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::vec::Vec;

/// An array of chunks of [10, 5, 8, 3], with these codecs in front of `bytes`.
fn read(codecs: &[Value]) -> Result<ArrayRecord, (Status, String)> {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let codecs: Vec<Value> = codecs.iter().cloned().chain([bytes]).collect();
    let grid = json!({"name": "regular", "configuration": {"chunk_shape": [10, 5, 8, 3]}});
    parse(json!({
        "zarr_format": 3, "node_type": "array", "shape": [20, 20, 20, 3], "data_type": "uint16",
        "chunk_grid": grid, "chunk_key_encoding": "default", "fill_value": 0, "codecs": codecs
    }))
}

fn parse(document: Value) -> Result<ArrayRecord, (Status, String)> {
    let (mut why, mut table) = (Why::new(), [EdgeRun::EMPTY; EDGE_RUNS_MAX]);
    let text = document.to_string();
    let read = array_from_zarr3(text.as_bytes(), ("/a", None), &mut table, &mut why);
    read.map_err(|status| (status, why.to_string()))
}

fn reshape(shape: Value) -> Value {
    json!({"name": "reshape", "configuration": {"shape": shape}})
}

fn turn() -> Value {
    json!({"name": "transpose", "configuration": {"order": [3, 2, 1, 0]}})
}

fn refused(codecs: &[Value], expected: Status, part: &str) {
    let (status, text) = read(codecs).expect_err(part);
    assert!(status == expected && text.contains(part), "{status}: {text:?} lacks {part:?}");
}

#[test]
fn a_reshape_leaves_the_chunk_as_it_is() {
    for shape in [
        json!([[0, 1], [2], 3]),
        json!([1200]),
        json!([-1]),
        json!([[], 50, -1, [3]]),
        json!([10, 5, 8, 3]),
        json!([1, [0, 1, 2, 3], 1]),
        json!([2, 5, [1], 24]),
    ] {
        let record = read(&[reshape(shape.clone())]).unwrap_or_else(|fault| panic!("{fault:?}"));
        let plain = read(&[]).unwrap();
        assert_eq!(record.chunk_strides, plain.chunk_strides, "{shape}");
        assert_eq!(describe(&record).codecs.as_str(), "bytes(little)");
    }
    // After a transpose the extents are [3, 8, 5, 10]; after another reshape those that it made.
    let turned = read(&[turn(), reshape(json!([[0, 1], 50]))]).unwrap();
    assert_eq!(describe(&turned).codecs.as_str(), "transpose(3,2,1,0) bytes(little)");
    assert!(read(&[reshape(json!([50, 24])), reshape(json!([[0], [1]]))]).is_ok());
    refused(&[reshape(json!([50, 24])), reshape(json!([[0], [2]]))], Status::Decode, "axis 2");
}

#[test]
fn a_reshape_that_does_not_fit_is_refused_by_name() {
    for (shape, status, says) in [
        (json!([1201]), Status::Decode, "[1201] elements where chunks have [10, 5, 8, 3]"),
        (json!([7, -1]), Status::Decode, "elements where chunks have"),
        (json!([-1, -1]), Status::Decode, "-1 occurs twice"),
        (json!([0, -1]), Status::Decode, "0, but at least 1 is needed"),
        (json!([-2]), Status::Decode, "-2, but at least 1 is needed"),
        (json!([[1], [0], 24]), Status::Decode, "axis 0 where axes in order"),
        (json!([[1, 0], 24]), Status::Decode, "axis 0 where axes in order"),
        (json!([[0, 0], 12]), Status::Decode, "axis 0 where axes in order, each below 4"),
        (json!([[4], 1200]), Status::Decode, "axis 4 where axes in order, each below 4"),
        (
            json!([5, [0], 24]),
            Status::Decode,
            "extent 1 of [5, 10, 24] is not an axis of the places",
        ),
        (json!([[0, 2], 15]), Status::Decode, "extent 0 of [80, 15] is not an axis of the places"),
        (json!([1.5, -1]), Status::Decode, "1.5"),
        (json!("C"), Status::Decode, "shape"),
        (json!([u64::MAX, u64::MAX]), Status::Unsupported, "beyond the largest extent"),
        (json!([i64::MAX, i64::MAX, -1]), Status::Decode, "elements where chunks have"),
        (json!(["x", 1]), Status::Decode, "\"x\""),
        (Value::from(std::vec![1; 17]), Status::Unsupported, "more than 16 axes are not read"),
    ] {
        refused(&[reshape(shape)], status, says);
    }
    refused(&[json!("reshape")], Status::Decode, "member \"shape\" is missing");
    let way = "\"transpose\" after reshape is not read: put reshape after it";
    refused(&[reshape(json!([-1])), turn()], Status::Unsupported, way);
    let shard = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": [100],
        "codecs": ["bytes"], "index_codecs": ["bytes"]}});
    let way = "\"sharding_indexed\" after reshape is not read";
    refused(&[reshape(json!([-1])), shard], Status::Unsupported, way);
}

#[test]
fn chunks_of_many_shapes_are_not_reshaped() {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": "uint8",
        "chunk_grid": {"name": "rectilinear", "configuration": {
            "kind": "inline", "chunk_shapes": [[3, 4, 3]]}},
        "chunk_key_encoding": "default", "fill_value": 0,
        "codecs": [reshape(json!([[0]])), "bytes"]
    });
    let (status, text) = parse(document).expect_err("refused");
    assert!(status == Status::Unsupported && text.contains("chunks of many shapes"), "{text}");
}
