//! `scale_offset` and `cast_value` in documents: what they become, and what is refused by name.

use super::{array_from_zarr3, describe};
use crate::base::limits::{CAST_PAIRS_MAX, EDGE_RUNS_MAX};
use crate::base::status::{Status, Why};
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, Beyond, ByteOrder, Cast, Codec, Dtype, Filter, Number, Pair, Rounding, Scaling,
    Types,
};
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::vec::Vec;

type Outcome = Result<(ArrayRecord, Vec<Pair>), (Status, String)>;

/// An array of 10 elements in chunks of 5, with these codecs in front of `bytes`.
fn read(data_type: &str, grid: Value, codecs: &[Value]) -> Outcome {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "big"}});
    let codecs: Vec<Value> = codecs.iter().cloned().chain([bytes]).collect();
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": data_type,
        "chunk_grid": grid, "chunk_key_encoding": "default", "fill_value": 0, "codecs": codecs
    });
    let (mut why, mut table) = (Why::new(), [EdgeRun::EMPTY; EDGE_RUNS_MAX]);
    let text = document.to_string();
    let read = array_from_zarr3(text.as_bytes(), ("/a", None), &mut table, &mut why);
    let record = read.map_err(|status| {
        assert!(!why.is_cut(), "{why}");
        (status, why.to_string())
    })?;
    let rows = &table[record.runs_used() as usize..record.rows_used() as usize];
    Ok((record, rows.iter().map(|row| Pair::of_row(*row)).collect()))
}

fn regular() -> Value {
    json!({"name": "regular", "configuration": {"chunk_shape": [5]}})
}

fn scale(configuration: Value) -> Value {
    json!({"name": "scale_offset", "configuration": configuration})
}

fn cast(configuration: Value) -> Value {
    json!({"name": "cast_value", "configuration": configuration})
}

fn refused(outcome: Outcome, expected: Status, part: &str) {
    let (status, text) = outcome.map(|_| ()).expect_err(part);
    assert!(status == expected && text.contains(part), "{status}: {text:?} lacks {part:?}");
}

fn number(dtype: Dtype, byte_order: ByteOrder) -> Number {
    Number { dtype, byte_order }
}

#[test]
fn the_codec_before_bytes_takes_their_order() {
    let codecs = [
        scale(json!({"scale": "0x40000000", "offset": -0.5})),
        cast(json!({"data_type": "int16", "rounding": "towards-zero", "out_of_range": "wrap"})),
    ];
    let (record, pairs) = read("float32", regular(), &codecs).unwrap();
    let same = number(Dtype::F32, ByteOrder::Little);
    let scaling = Scaling { scale: 2f64.to_bits(), offset: (-0.5f64).to_bits() };
    let types = Types { decoded: same, encoded: same };
    assert_eq!(record.codecs[0], Codec::Filter(Filter::ScaleOffset(types, scaling)));
    let types = Types { decoded: same, encoded: number(Dtype::I16, ByteOrder::Big) };
    let (rounding, beyond) = (Rounding::Zero, Beyond::Wrap);
    let cast = Cast { types, rounding, beyond, first_pair: 0, pairs: 0 };
    assert_eq!(record.codecs[1], Codec::Filter(Filter::Cast(cast)));
    assert_eq!((record.byte_order, pairs.len()), (ByteOrder::Little, 0));
    assert_eq!(describe(&record).codecs.as_str(), "scale_offset cast_value(int16) bytes(big)");
}

#[test]
fn pairs_of_several_casts_follow_the_runs_of_the_grid() {
    let grid = json!({"name": "rectilinear", "configuration": {
        "kind": "inline", "chunk_shapes": [[3, 4, 3]]}});
    let codecs = [
        cast(json!({"data_type": "float64", "scalar_map": {
            "encode": [[1, 2.5], [2, 3.5]], "decode": [["NaN", -1], [-0.0, 7]]}})),
        cast(json!({"data_type": "uint8", "scalar_map": {"decode": [[255, "-Infinity"]]}})),
    ];
    let (record, pairs) = read("int32", grid, &codecs).unwrap();
    assert!(record.runs_used() > 0);
    let pair = |encoded: u64, decoded: u64| Pair { encoded, decoded };
    let of_f64 = |value: f64| value.to_bits();
    let want = [
        pair(of_f64(f64::NAN), -1i64 as u64),
        pair(of_f64(-0.0), 7),
        pair(255, of_f64(f64::NEG_INFINITY)),
    ];
    assert_eq!(pairs, want);
    let places = record.codecs.iter().map(|codec| match codec {
        Codec::Filter(Filter::Cast(cast)) => (cast.first_pair, cast.pairs),
        other => panic!("{other:?}"),
    });
    assert_eq!(places.collect::<Vec<_>>(), [(0, 2), (2, 1)]);
}

#[test]
fn scales_that_nobody_meant_are_refused_by_name() {
    let of =
        |data_type: &str, configuration: Value| read(data_type, regular(), &[scale(configuration)]);
    assert!(of("int8", json!({"scale": -128, "offset": 127})).is_ok());
    assert!(read("int8", regular(), &[json!("scale_offset")]).is_ok());
    for (data_type, configuration, status, says) in [
        ("float32", json!({"scale": 0}), Status::Decode, "a scale that is 0 in float32"),
        ("float32", json!({"scale": 1e-60}), Status::Decode, "a scale that is 0 in float32"),
        ("uint8", json!({"scale": 0}), Status::Decode, "a scale that is 0 in uint8"),
        ("float32", json!({"scale": "NaN"}), Status::Unsupported, "\"NaN\" is not finite in"),
        ("float64", json!({"offset": "Infinity"}), Status::Unsupported, "is not finite in"),
        ("float16", json!({"offset": 1e6}), Status::Unsupported, "is not finite in float16"),
        ("uint8", json!({"scale": -1}), Status::Decode, "-1 does not fit uint8"),
        ("int8", json!({"offset": 128}), Status::Decode, "128 does not fit int8"),
        ("int8", json!({"scale": 0.5}), Status::Decode, "a whole number is needed"),
        ("int8", json!({"scale": [1]}), Status::Decode, "[1] is not of type int8"),
        ("int8", json!({"scale": null}), Status::Decode, "null is not of type int8"),
        ("int8", json!({"factor": 2}), Status::Unsupported, "\"factor\""),
        ("bool", json!({}), Status::Unsupported, "\"scale_offset\" of this data type"),
        ("complex64", json!({}), Status::Unsupported, "\"scale_offset\" of this data type"),
        ("bfloat16", json!({}), Status::Unsupported, "\"scale_offset\" of this data type"),
        ("r16", json!({}), Status::Unsupported, "\"scale_offset\" of this data type"),
        ("int4", json!({}), Status::Unsupported, "\"scale_offset\" of this data type"),
        ("float8_e5m2", json!({}), Status::Unsupported, "\"scale_offset\" of this data type"),
    ] {
        refused(of(data_type, configuration), status, says);
    }
}

#[test]
fn casts_that_nobody_meant_are_refused_by_name() {
    let of = |configuration: Value| read("float32", regular(), &[cast(configuration)]);
    let map = |decode: Value| json!({"data_type": "uint8", "scalar_map": {"decode": decode}});
    let many = |count: usize| Value::from_iter((0..count).map(|at| json!([at, at])));
    let (_, pairs) = of(map(many(CAST_PAIRS_MAX))).unwrap();
    assert_eq!(pairs.len(), CAST_PAIRS_MAX);
    assert!(of(json!({"data_type": "uint8", "scalar_map": null})).is_ok());
    for (configuration, status, says) in [
        (json!({}), Status::Decode, "member \"data_type\" is missing"),
        (json!({"data_type": "int4"}), Status::Unsupported, "cast_value to \"int4\" is not read"),
        (json!({"data_type": "bfloat16"}), Status::Unsupported, "cast_value to \"bfloat16\" is"),
        (json!({"data_type": "bool"}), Status::Unsupported, "cast_value to \"bool\" is not read"),
        (json!({"data_type": "complex64"}), Status::Unsupported, "cast_value to \"complex64\""),
        (json!({"data_type": "string"}), Status::Unsupported, "data type \"string\" is text"),
        (json!({"data_type": "int128"}), Status::Unsupported, "data type \"int128\" is not read"),
        (json!({"data_type": 8}), Status::Decode, "8"),
        (json!({"data_type": "uint8", "rounding": "up"}), Status::Unsupported, "\"up\" is neither"),
        (json!({"data_type": "uint8", "out_of_range": "x"}), Status::Unsupported, "\"x\" is"),
        (json!({"data_type": "uint8", "sense": 1}), Status::Unsupported, "\"sense\""),
        (
            json!({"data_type": "float64", "out_of_range": "wrap"}),
            Status::Decode,
            "\"wrap\" is for",
        ),
        (json!({"data_type": "uint8", "scalar_map": [1]}), Status::Decode, "scalar_map"),
        (
            json!({"data_type": "uint8", "scalar_map": {"both": []}}),
            Status::Unsupported,
            "\"both\"",
        ),
        (
            json!({"data_type": "uint8", "scalar_map": {"encode": [[1.5, 256]]}}),
            Status::Decode,
            "256 does not fit uint8",
        ),
        (map(json!([[256, 1.5]])), Status::Decode, "256 does not fit uint8"),
        (map(json!([["NaN", 1.5]])), Status::Decode, "\"NaN\" is not of type uint8"),
        (map(json!([[1, "x"]])), Status::Decode, "\"x\" is not of type float32"),
        (map(json!([[1, 2, 3]])), Status::Decode, "3 values, but a pair has 2"),
        (map(json!([[1, 2], [1, 3]])), Status::Unsupported, "1 occurs twice in one map"),
        (map(json!({"1": 2})), Status::Decode, "decode"),
        (
            map(many(CAST_PAIRS_MAX + 1)),
            Status::Unsupported,
            "more than 64 pairs of values are not read",
        ),
    ] {
        refused(of(configuration), status, says);
    }
    let zeros = json!({"data_type": "float64", "scalar_map": {"decode": [[0.0, 1], [-0.0, 2]]}});
    refused(of(zeros), Status::Unsupported, "occurs twice in one map");
    let time = json!({"data_type": {"name": "numpy.datetime64", "configuration": {
        "unit": "s", "scale_factor": 1}}});
    refused(of(time), Status::Unsupported, "cast_value to");
}
