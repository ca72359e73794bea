//! Filters, checksums and times in documents of both formats: what they become, what is told of
//! them, and what is refused by name.

use super::{array_from_document, describe};
use crate::base::limits::EDGE_RUNS_MAX;
use crate::base::status::{Status, Why};
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, ByteOrder, CODECS, Codec, DocumentKind, Dtype, Filter, Number, Types,
};
use serde_json::{Value, json};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

fn read(kind: DocumentKind, document: &Value) -> Result<ArrayRecord, (Status, String)> {
    let (mut why, mut table) = (Why::new(), [EdgeRun::EMPTY; EDGE_RUNS_MAX]);
    let text = document.to_string();
    array_from_document(kind, text.as_bytes(), ("/a", None), &mut table, &mut why).map_err(
        |status| {
            assert!(!why.is_cut(), "{why}");
            (status, why.to_string())
        },
    )
}

/// A zarr v2 array of 10 elements, in chunks of 5.
fn zarr2(dtype: &str, filters: Value, compressor: Value) -> Result<ArrayRecord, (Status, String)> {
    let document = json!({
        "zarr_format": 2, "shape": [10], "chunks": [5], "dtype": dtype, "order": "C",
        "fill_value": null, "compressor": compressor, "filters": filters
    });
    read(DocumentKind::Zarr2Array, &document)
}

/// The same in zarr v3.
fn zarr3(data_type: Value, fill: Value, codecs: Value) -> Result<ArrayRecord, (Status, String)> {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}},
        "chunk_key_encoding": "default", "fill_value": fill, "codecs": codecs
    });
    read(DocumentKind::Zarr3, &document)
}

fn codec(name: &str, configuration: Value) -> Value {
    json!({"name": format!("numcodecs.{name}"), "configuration": configuration})
}

fn little() -> Value {
    json!({"name": "bytes", "configuration": {"endian": "little"}})
}

fn texts(record: &ArrayRecord) -> (String, String) {
    let words = describe(record);
    (words.dtype_name.as_str().to_string(), words.codecs.as_str().to_string())
}

fn number(dtype: Dtype) -> Number {
    Number { dtype, byte_order: ByteOrder::Little }
}

fn refused(outcome: Result<ArrayRecord, (Status, String)>, expected: Status, part: &str) {
    let (status, text) = outcome.expect_err(part);
    assert!(status == expected && text.contains(part), "{status}: {text:?} lacks {part:?}");
}

#[test]
fn v2_filters_stand_before_the_compressor_and_what_changes_nothing_is_left_out() {
    let filters = json!([
        {"id": "bitround", "keepbits": 3},
        {"id": "quantize", "digits": 1, "dtype": "<f4", "astype": "<f4"},
        {"id": "shuffle", "elementsize": 1},
        {"id": "delta", "dtype": "<f4"},
        {"id": "shuffle"},
        {"id": "crc32"}
    ]);
    let record = zarr2("<f4", filters, json!({"id": "zlib", "level": 1})).unwrap();
    let f32_delta = Types { decoded: number(Dtype::F32), encoded: number(Dtype::F32) };
    assert_eq!(record.codecs[0], Codec::Filter(Filter::Delta(f32_delta)));
    // numcodecs shuffles four bytes where nobody says otherwise.
    assert_eq!(record.codecs[1], Codec::Filter(Filter::Shuffle(4)));
    assert_eq!(texts(&record).1, "delta shuffle crc32 zlib order C");
    // HDF5's, as references to its chunks name them.
    let filters =
        json!([{"id": "shuffle", "elementsize": 4}, {"id": "zlib"}, {"id": "fletcher32"}]);
    let record = zarr2("<f4", filters, Value::Null).unwrap();
    assert_eq!(texts(&record).1, "shuffle zlib fletcher32 order C");
    assert_eq!((record.encoded_bytes(1), record.encoded_bytes(3)), (Some(20), None));
}

#[test]
fn sizes_follow_from_the_chunk_and_the_largest_counts_against_the_cap() {
    let filters = json!([
        {"id": "delta", "dtype": "|u1", "astype": "<i4"},
        {"id": "astype", "decode_dtype": "<i4", "encode_dtype": "<i2"},
        {"id": "adler32", "location": "end"}
    ]);
    let record = zarr2("|u1", filters, Value::Null).unwrap();
    let sizes: [Option<u64>; 4] = core::array::from_fn(|count| record.encoded_bytes(count));
    assert_eq!(sizes, [Some(5), Some(20), Some(10), Some(14)]);
    assert_eq!((record.chunk_bytes, record.working_bytes()), (5, 20));
    let packed = zarr2("|b1", json!([{"id": "packbits"}]), Value::Null).unwrap();
    assert_eq!((packed.encoded_bytes(1), packed.working_bytes()), (Some(2), 5));
    let odd = json!([{"id": "shuffle", "elementsize": 4}]);
    refused(zarr2("|u1", odd, Value::Null), Status::Decode, "5 bytes of a chunk are not whole");
}

#[test]
fn a_filter_behind_a_compressor_and_a_second_compressor_are_refused() {
    let zstd = json!({"id": "zstd"});
    let behind = json!([{"id": "zlib"}, {"id": "shuffle", "elementsize": 4}]);
    let text = "shuffle after a compressor is not read";
    refused(zarr2("<f4", behind, Value::Null), Status::Unsupported, text);
    let text = "zstd after another compressor is not read";
    refused(zarr2("<f4", json!([{"id": "zlib"}]), zstd), Status::Unsupported, text);
    let many: Vec<Value> = (0..7).map(|_| json!({"id": "crc32"})).collect();
    let text = "more than 6 codecs are not read";
    refused(zarr2("<f4", json!(many), Value::Null), Status::Unsupported, text);
}

#[test]
fn parameters_of_filters_are_those_that_numcodecs_takes() {
    for (filter, status, part) in [
        (json!({"id": "delta"}), Status::Decode, "\"dtype\" is missing"),
        (json!({"id": "delta", "dtype": "<c8"}), Status::Unsupported, "a filter of type \"<c8\""),
        (json!({"id": "delta", "dtype": "|b1"}), Status::Unsupported, "delta of bool"),
        (json!({"id": "delta", "dtype": "<f4", "astype": "<i4"}), Status::Unsupported, "as int32"),
        (
            json!({"id": "delta", "dtype": "<i4", "astype": "<f4"}),
            Status::Unsupported,
            "as float32",
        ),
        (json!({"id": "delta", "dtype": "<i8", "astype": "<u8"}), Status::Unsupported, "as uint64"),
        (json!({"id": "shuffle", "elementsize": 256}), Status::Unsupported, "up to 255"),
        (json!({"id": "shuffle", "elementsize": -1}), Status::Decode, "elementsize"),
        (json!({"id": "shuffle", "elementsize": 0}), Status::Unsupported, "0 bytes"),
        (json!({"id": "crc32", "location": "middle"}), Status::Unsupported, "\"middle\""),
        (json!({"id": "astype", "decode_dtype": "<f4"}), Status::Decode, "\"encode_dtype\""),
        (json!({"id": "bitround", "keepbits": 53}), Status::Decode, "0 to 52"),
        (json!({"id": "quantize", "digits": 1, "dtype": "<i4"}), Status::Decode, "no floats"),
        (json!({"id": "packbits", "size": 1}), Status::Unsupported, "\"size\" = 1"),
        (
            json!({"id": "fixedscaleoffset", "scale": "10", "offset": 0, "dtype": "<f4"}),
            Status::Decode,
            "not a number",
        ),
        (
            json!({"id": "fixedscaleoffset", "scale": 1, "offset": 0, "dtype": "|b1"}),
            Status::Unsupported,
            "booleans",
        ),
    ] {
        refused(zarr2("<f4", json!([filter]), Value::Null), status, part);
    }
}

#[test]
fn what_other_writers_say_of_a_shuffle_is_taken_where_it_has_one_meaning() {
    // netCDF-C's, whatever it shuffled by.
    let nothing = json!([{"id": "shuffle", "elementsize": 0}]);
    let zlib = json!({"id": "zlib", "level": 4});
    assert_eq!(texts(&zarr2("|u1", nothing.clone(), zlib.clone()).unwrap()).1, "zlib order C");
    refused(zarr2("<i2", nothing, zlib), Status::Unsupported, "netCDF-C");
    // GDAL's, of which no decoder needs any.
    let blosc = |shuffle: Value| json!({"id": "blosc", "cname": "lz4", "shuffle": shuffle});
    for shuffle in ["NONE", "BYTE", "BIT"] {
        assert!(zarr2("<i2", Value::Null, blosc(json!(shuffle))).is_ok(), "{shuffle}");
    }
    refused(zarr2("<i2", Value::Null, blosc(json!("bits"))), Status::Decode, "\"bits\"");
}

#[test]
fn v3_filters_stand_in_front_of_bytes_and_fit_the_elements_that_they_are_given() {
    let scale = codec("fixedscaleoffset", json!({"scale": 8, "offset": -1.5, "astype": "int32"}));
    let delta = codec("delta", json!({"dtype": "<i4", "astype": "i2"}));
    let shuffle = codec("shuffle", json!({"elementsize": 2}));
    let chain = json!([scale, delta, little(), shuffle, codec("crc32", json!({}))]);
    let record = zarr3(json!("float32"), json!(0), chain).unwrap();
    assert_eq!(texts(&record).1, "fixedscaleoffset delta bytes(little) shuffle crc32");
    assert_eq!(record.codecs[2], Codec::Filter(Filter::Shuffle(2)));
    assert_eq!(record.encoded_bytes(4), Some(5 * 2 + 4));
    // Without a size the elements of the array are shuffled.
    let bare = zarr3(json!("float32"), json!(0), json!([little(), codec("shuffle", json!({}))]));
    assert_eq!(bare.unwrap().codecs[0], Codec::Filter(Filter::Shuffle(4)));
    for (chain, status, part) in [
        (
            json!([delta, little()]),
            Status::Unsupported,
            "decodes to int32 where elements are float32",
        ),
        (json!([shuffle, little()]), Status::Decode, "must stand after \"bytes\""),
        (json!([little(), scale]), Status::Decode, "cannot stand after \"bytes\""),
        (
            json!([scale]),
            Status::Decode,
            "no codec after transpose, reshape or filters makes bytes",
        ),
        (
            json!([scale, {"name": "bytes", "configuration": {"endian": "big"}}]),
            Status::Unsupported,
            "fixedscaleoffset in front of big-endian bytes",
        ),
        (
            json!([
                codec("delta", json!({"dtype": "<f4"})),
                {"name": "transpose", "configuration": {"order": [0]}},
                little()
            ]),
            Status::Unsupported,
            "transpose after delta is not read",
        ),
        (
            json!([scale, {"name": "sharding_indexed", "configuration": {
                "chunk_shape": [5], "codecs": [little()], "index_codecs": [little()]}}]),
            Status::Unsupported,
            "in front of sharding_indexed is not read: put it among the codecs of the shard",
        ),
        (
            json!([little(), codec("pcodec", json!({}))]),
            Status::Unsupported,
            "\"numcodecs.pcodec\"",
        ),
        (json!([codec("zfpy", json!({"mode": 4}))]), Status::Unsupported, "\"numcodecs.zfpy\""),
        (json!([little(), {"name": "shuffle"}]), Status::Unsupported, "codec \"shuffle\""),
    ] {
        refused(zarr3(json!("float32"), json!(0), chain), status, part);
    }
}

#[test]
fn times_are_int64_with_a_name_and_nothing_is_not_a_time() {
    for (name, shown) in [("<M8[ns]", "<M8[ns]"), (">m8[25s]", ">m8[25s]"), ("<M8", "<M8")] {
        let record = zarr2(name, Value::Null, Value::Null).unwrap();
        assert_eq!((record.dtype, record.dtype_bytes), (Dtype::I64, 8));
        assert_eq!(texts(&record).0, shown);
        assert_eq!(record.fill[..8], i64::MIN.to_ne_bytes());
    }
    let time = |name: &str, unit: &str, scale: Value| {
        let configuration = json!({"unit": unit, "scale_factor": scale});
        json!({"name": name, "configuration": configuration})
    };
    for (fill, bits) in [(json!("NaT"), i64::MIN), (json!(-7), -7), (json!(i64::MAX), i64::MAX)] {
        let days = time("numpy.timedelta64", "D", json!(10));
        let record = zarr3(days, fill, json!([little()])).unwrap();
        assert_eq!(record.fill[..8], bits.to_ne_bytes());
        assert_eq!(texts(&record).0, "numpy.timedelta64[10D]");
    }
    for (data_type, fill, status, part) in [
        (time("numpy.datetime64", "fortnight", json!(1)), json!(0), Status::Unsupported, "unit"),
        (time("numpy.datetime64", "s", json!(0)), json!(0), Status::Decode, "1 to"),
        (time("numpy.datetime64", "s", json!(1)), json!("nat"), Status::Decode, "of type int64"),
        (time("numpy.datetime64", "s", json!(1)), json!(1.5), Status::Decode, "of type int64"),
        (json!("numpy.datetime64"), json!(0), Status::Decode, "\"unit\" is missing"),
        (json!("int64"), json!("NaT"), Status::Decode, "of type int64"),
        (json!("string"), json!(""), Status::Unsupported, "is text or objects, not read"),
        (
            json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}),
            json!(""),
            Status::Unsupported,
            "is text or objects, not read: write numbers",
        ),
    ] {
        refused(zarr3(data_type, fill, json!([little()])), status, part);
    }
}

#[test]
fn each_row_of_the_table_is_known_by_its_names_and_the_refusal_of_others_lists_them() {
    let is_known = |outcome: Result<ArrayRecord, (Status, String)>| match outcome {
        Ok(_) => true,
        Err((_, text)) => !text.contains("is not read: write the array again"),
    };
    let bare = |name: &str, is_of_elements: bool| {
        let list = if is_of_elements { json!([name, little()]) } else { json!([little(), name]) };
        zarr3(json!("float32"), json!(0), list)
    };
    for row in &CODECS {
        let id = json!([{"id": row.name}]);
        assert_eq!(is_known(zarr2("<f4", id, Value::Null)), !row.is_of_zarr3, "{}", row.name);
        let name = format!("numcodecs.{}", row.name);
        assert_eq!(is_known(bare(&name, row.is_of_elements)), !row.is_of_zarr3, "{name}");
        // Those that are specified make bytes; the one of numcodecs is another.
        let makes_bytes = ["packbits", "sharding_indexed"].contains(&row.name);
        let is_specified = row.is_specified || makes_bytes;
        assert_eq!(is_known(bare(row.name, row.is_of_elements)), is_specified, "{}", row.name);
    }
    let known = "codec \"zfpy\" is not read: write the array again with zstd (read: transpose, \
                 reshape, bytes, packbits, zstd, blosc, gzip, zlib, lz4, bz2, lzma, crc32c, \
                 scale_offset, cast_value, sharding_indexed, numcodecs. and delta, \
                 fixedscaleoffset, packbits, astype, quantize, bitround, shuffle, crc32, \
                 adler32, fletcher32)";
    let (status, text) = bare("zfpy", false).unwrap_err();
    assert!(status == Status::Unsupported && text.ends_with(known), "{text}");
    let known = "filter \"zfpy\" is not read: write the array again with zstd (read: zstd, blosc, \
                 gzip, zlib, lz4, bz2, lzma, crc32c, crc32, adler32, fletcher32, shuffle, delta, \
                 fixedscaleoffset, packbits, astype, quantize, bitround and null)";
    let (status, text) = zarr2("<f4", json!([{"id": "zfpy"}]), Value::Null).unwrap_err();
    assert!(status == Status::Unsupported && text.ends_with(known), "{text}");
}
