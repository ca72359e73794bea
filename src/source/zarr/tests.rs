//! Unit tests of zarr v3 metadata: one sound document, and what each change to it does. Over 500
//! lines because every rule of the format has its accepted and its refused spellings.

use super::*;
use crate::base::limits::EDGE_RUNS_MAX;
use crate::base::limits::{CHUNK_BYTES_MAX, SHARD_CHUNKS_MAX};
use crate::base::status::{Status, Why};
use crate::records::grid::{AxisGrid, EdgeRun};
use crate::records::{ByteOrder, Codec, Dtype, IndexLayout, KeyEncoding, Lzma};
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::{format, vec::Vec};

/// A sharded array that everything is changed from.
pub(super) fn sound() -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 100],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 64]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 42,
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [4, 16],
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 3, "checksum": false}}
            ],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}
            ],
            "index_location": "start"
        }}],
        "attributes": {"shape": [1]},
        "dimension_names": null,
        "storage_transformers": []
    })
}

/// The same array without shards, of `codecs`.
pub(super) fn plain(codecs: Value) -> Value {
    let mut document = sound();
    document["codecs"] = codecs;
    document
}

fn parse(json: &[u8], uri: &str, why: &mut Why) -> Result<ArrayRecord, Status> {
    array_from_zarr3(json, (uri, None), &mut [EdgeRun::EMPTY; EDGE_RUNS_MAX], why)
}

pub(super) fn read(document: &Value) -> Result<ArrayRecord, (Status, String)> {
    let mut why = Why::new();
    let result = parse(document.to_string().as_bytes(), "/data/a", &mut why);
    result.map_err(|status| {
        assert!(why.as_str().starts_with("/data/a/zarr.json: ") && !why.is_cut(), "{why}");
        (status, why.to_string())
    })
}

/// `document` is refused with `status` and a text that has every one of `parts`.
pub(super) fn refused(document: &Value, status: Status, parts: &[&str]) {
    let (found, text) = read(document).expect_err(parts[0]);
    assert_eq!(found, status, "{text}");
    for part in parts {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

/// The sound document with the value at `pointer` replaced.
pub(super) fn with(pointer: &str, value: Value) -> Value {
    let mut document = sound();
    match document.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[name] = value;
        }
    }
    document
}

/// The sound document without the member at `pointer`.
fn without(pointer: &str) -> Value {
    let mut document = sound();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    document
}

const SHARD: &str = "/codecs/0/configuration";

#[test]
fn a_sharded_array_becomes_its_record() {
    let record = read(&sound()).unwrap();
    assert_eq!((record.rank, record.dtype, record.dtype_bytes), (2, Dtype::U16, 2));
    assert_eq!(record.shape[..2], [10, 100]);
    assert_eq!((record.shard_levels, &record.shard_shape[0][..2]), (1, &[8, 64][..]));
    assert_eq!(record.chunk_shape[..2], [4, 16]);
    assert_eq!(record.file_grid[..2], [AxisGrid::Regular; 2]);
    assert_eq!(record.file_shape()[..2], [8, 64]);
    assert_eq!(record.chunk_strides[..2], [32, 2]);
    assert_eq!(record.chunk_bytes, 128);
    let index = IndexLayout { at_start: true, has_crc: true, byte_order: ByteOrder::Little };
    assert_eq!(record.index[0], index);
    assert_eq!(record.codecs.as_slice(), [Codec::Zstd]);
    assert_eq!(record.fill[..2], 42u16.to_ne_bytes());
    assert_eq!((record.key_encoding, record.separator), (KeyEncoding::Default, b'/'));
    // Values past the rank are those of an empty record.
    assert_eq!((record.shape[2], record.chunk_shape[2], record.shard_shape[0][2]), (0, 1, 1));
}

#[test]
fn an_unsharded_array_is_a_file_per_chunk() {
    let record = read(&plain(json!([{"name": "bytes", "configuration": {"endian": "big"}}])));
    let record = record.unwrap();
    assert_eq!((record.shard_levels, record.chunk_bytes), (0, 8 * 64 * 2));
    assert_eq!(record.byte_order, ByteOrder::Big);
    assert_eq!(record.file_grid[..2], [AxisGrid::Regular; 2]);
    assert_eq!(record.file_shape()[..2], [8, 64]);
    assert!(record.codecs.is_empty());
}

#[test]
fn what_is_not_json_is_decode_with_its_offset() {
    let mut why = Why::new();
    let status = parse(b"{\"zarr_format\": 3,}", "/a", &mut why).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert_eq!(why.as_str(), "/a/zarr.json: a member name in quotes is missing at byte 18");
    let status = parse(b"[3]", "/a", &mut why).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert_eq!(why.as_str(), "/a/zarr.json: the document: an array, not an object");
}

#[test]
fn a_member_that_comes_twice_is_decode() {
    let text = sound().to_string().replacen('{', "{\"shape\": [1, 1],", 1);
    let mut why = Why::new();
    assert_eq!(parse(text.as_bytes(), "/a", &mut why).unwrap_err(), Status::Decode);
    assert!(why.as_str().contains("occurs twice at byte"), "{why}");
}

#[test]
fn a_long_uri_leaves_room_for_the_reason() {
    let uri = "/čš".repeat(800);
    let mut why = Why::new();
    let document = with("/codecs", json!(["lz77"])).to_string();
    let status = parse(document.as_bytes(), &uri, &mut why).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(why.as_str().starts_with("...") && why.as_str().contains("\"lz77\""), "{why}");
    assert!(!why.is_cut());
}

#[test]
fn a_group_is_not_found_and_called_a_group() {
    let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": 1, "x": 2});
    refused(&group, Status::NotFound, &["is a group", "arrays in it"]);
}

#[test]
fn other_formats_and_nodes_are_unsupported_by_name() {
    refused(&with("/zarr_format", json!(2)), Status::Unsupported, &["zarr_format", "2"]);
    refused(&with("/zarr_format", json!("3")), Status::Decode, &["zarr_format", "\"3\""]);
    refused(&with("/node_type", json!("table")), Status::Unsupported, &["node_type", "\"table\""]);
}

#[test]
fn every_member_that_must_be_there_is_missed() {
    for pointer in [
        "/zarr_format",
        "/node_type",
        "/shape",
        "/data_type",
        "/chunk_grid",
        "/chunk_key_encoding",
        "/fill_value",
        "/codecs",
        "/chunk_grid/name",
        "/chunk_grid/configuration/chunk_shape",
        "/codecs/0/name",
        "/codecs/0/configuration/chunk_shape",
        "/codecs/0/configuration/codecs",
        "/codecs/0/configuration/index_codecs",
    ] {
        let name = pointer.rsplit('/').next().unwrap();
        let text = format!("member \"{name}\" is missing");
        refused(&without(pointer), Status::Decode, &[&text]);
    }
    let bare = without("/codecs/0/configuration");
    refused(&bare, Status::Decode, &["codecs[0] at byte", "member \"chunk_shape\" is missing"]);
}

#[test]
fn every_ill_typed_member_is_decode() {
    for pointer in [
        "/zarr_format",
        "/node_type",
        "/shape",
        "/shape/0",
        "/data_type",
        "/chunk_grid",
        "/chunk_grid/name",
        "/chunk_grid/configuration",
        "/chunk_grid/configuration/chunk_shape",
        "/chunk_key_encoding",
        "/chunk_key_encoding/configuration/separator",
        "/codecs",
        "/codecs/0",
        "/codecs/0/must_understand",
        "/codecs/0/configuration",
        "/codecs/0/configuration/chunk_shape/1",
        "/codecs/0/configuration/codecs",
        "/codecs/0/configuration/codecs/0/configuration/endian",
        "/codecs/0/configuration/codecs/1/configuration/level",
        "/codecs/0/configuration/codecs/1/configuration/checksum",
        "/codecs/0/configuration/index_codecs",
        "/codecs/0/configuration/index_location",
        "/storage_transformers",
        "/fill_value",
    ] {
        refused(&with(pointer, json!(1.5)), Status::Decode, &["1.5", " at byte "]);
    }
}

#[test]
fn an_error_names_the_way_to_its_member() {
    let document = with("/codecs/0/configuration/codecs/1/configuration/level", json!(23));
    let (status, text) = read(&document).unwrap_err();
    assert_eq!(status, Status::Decode);
    let offset = document.to_string().find("23").unwrap();
    let way = "codecs[0].configuration.codecs[1].configuration.level";
    let reason = "23 is outside of -131072 to 22";
    assert_eq!(text, format!("/data/a/zarr.json: {way} at byte {offset}: {reason}"));
}

#[test]
fn every_data_type_is_read_by_its_name() {
    for dtype in crate::records::DTYPES {
        if dtype == Dtype::Raw {
            continue;
        }
        let mut document = with("/data_type", json!({"name": dtype.zarr3_name()}));
        document["fill_value"] = match dtype {
            Dtype::Bool => json!(true),
            Dtype::C64 | Dtype::C128 => json!([0, 0]),
            _ => json!(0),
        };
        let record = read(&document).unwrap();
        assert_eq!((record.dtype, record.dtype_bytes), (dtype, dtype.bytes()));
        assert_eq!(describe(&record).dtype_name.as_str(), dtype.zarr3_name());
        assert_eq!(record.chunk_bytes, 64 * u64::from(dtype.bytes()));
    }
}

#[test]
fn raw_types_have_1_to_16_bytes() {
    for bytes in [1, 3, 16] {
        let fill: Vec<u32> = (1..=bytes).collect();
        for name in [
            json!(format!("r{}", bytes * 8)),
            json!({"name": "raw_bytes", "configuration": {"length_bytes": bytes}}),
        ] {
            let mut document = with("/data_type", name);
            document["fill_value"] = json!(fill);
            let record = read(&document).unwrap();
            assert_eq!((record.dtype, record.dtype_bytes), (Dtype::Raw, bytes));
            assert_eq!(record.fill[bytes as usize - 1], bytes as u8);
            assert_eq!(describe(&record).dtype_name.as_str(), format!("r{}", bytes * 8));
        }
    }
    for name in ["r0", "r08", "r12", "r136", "r+8", "r", "r8x", "r18446744073709551624"] {
        refused(&with("/data_type", json!(name)), Status::Unsupported, &["data_type", name]);
    }
    let long = json!({"name": "raw_bytes", "configuration": {"length_bytes": 17}});
    refused(&with("/data_type", long), Status::Unsupported, &["length_bytes", "16"]);
    let none = json!({"name": "raw_bytes", "configuration": {"length_bytes": 0}});
    refused(&with("/data_type", none), Status::Decode, &["length_bytes", "0"]);
}

#[test]
fn other_data_types_are_unsupported_by_name() {
    for name in ["string", "int3", "float8_e4m3", "r*", "Float32", ""] {
        refused(&with("/data_type", json!(name)), Status::Unsupported, &["data_type", name]);
    }
    let structured = json!({"name": "struct", "configuration": {"fields": []}});
    refused(&with("/data_type", structured), Status::Decode, &["without a byte"]);
    let odd = json!({"name": "uint16", "configuration": {"order": 1}});
    refused(&with("/data_type", odd), Status::Unsupported, &["\"order\" = 1"]);
}

#[test]
fn both_key_encodings_have_both_separators_and_a_default() {
    for (value, encoding, separator) in [
        (json!("default"), KeyEncoding::Default, b'/'),
        (json!({"name": "default"}), KeyEncoding::Default, b'/'),
        (json!({"name": "default", "configuration": {}}), KeyEncoding::Default, b'/'),
        (
            json!({"name": "default", "configuration": {"separator": "."}}),
            KeyEncoding::Default,
            b'.',
        ),
        (json!({"name": "v2"}), KeyEncoding::V2, b'.'),
        (json!({"name": "v2", "configuration": {"separator": "/"}}), KeyEncoding::V2, b'/'),
    ] {
        let record = read(&with("/chunk_key_encoding", value)).unwrap();
        assert_eq!((record.key_encoding, record.separator), (encoding, separator));
    }
    refused(&with("/chunk_key_encoding", json!("suffix")), Status::Unsupported, &["\"suffix\""]);
    let pointer = "/chunk_key_encoding/configuration/separator";
    refused(&with(pointer, json!("-")), Status::Unsupported, &["separator", "\"-\""]);
}

#[test]
fn other_grids_and_transformers_are_unsupported_by_name() {
    let grid = json!({"name": "hexagonal", "configuration": {"kind": "inline"}});
    refused(&with("/chunk_grid", grid), Status::Unsupported, &["chunk_grid", "\"hexagonal\""]);
    let cache = json!([{"name": "cache", "must_understand": false}]);
    refused(&with("/storage_transformers", cache), Status::Unsupported, &["\"cache\""]);
}

#[test]
fn an_unknown_member_must_say_that_it_may_be_ignored() {
    assert!(read(&with("/extra", json!({"must_understand": false, "x": 1}))).is_ok());
    for value in [
        json!(1),
        json!(null),
        json!({}),
        json!({"must_understand": true}),
        json!({"must_understand": 0}),
        json!([{"must_understand": false}]),
    ] {
        refused(&with("/extra", value), Status::Unsupported, &["\"extra\""]);
    }
    for name in ["/attributes", "/dimension_names", "/consolidated_metadata"] {
        assert!(read(&with(name, json!({"must_understand": true}))).is_ok());
    }
}

#[test]
fn shapes_and_chunks_must_agree() {
    let chunk = "/chunk_grid/configuration/chunk_shape";
    let inner = "/codecs/0/configuration/chunk_shape";
    refused(&with(chunk, json!([8])), Status::Decode, &["[8]", "[10, 100]"]);
    refused(&with(chunk, json!([8, 0])), Status::Decode, &["chunk_shape[1]", "0", "at least 1"]);
    refused(&with(chunk, json!([8, 65])), Status::Decode, &["[4, 16]", "[8, 65]"]);
    refused(&with(inner, json!([3, 16])), Status::Decode, &["[3, 16]", "[8, 64]"]);
    refused(&with(inner, json!([16, 16])), Status::Decode, &["[16, 16]", "[8, 64]"]);
    refused(&with(inner, json!([4, 0])), Status::Decode, &["chunk_shape[1]", "0"]);
    refused(&with(inner, json!([4])), Status::Decode, &["[4]", "[8, 64]"]);
    refused(&with("/shape/0", json!(-1)), Status::Decode, &["shape[0]", "-1"]);
    refused(&with("/shape/0", json!(1u64 << 63)), Status::Unsupported, &["shape[0]", "2^63 - 1"]);
    assert_eq!(read(&with("/shape/0", json!(0))).unwrap().shape[0], 0);
}

/// A document of `axes` axes with one-element chunks.
fn of_rank(axes: usize) -> Value {
    let mut document = plain(json!([{"name": "bytes", "configuration": {"endian": "little"}}]));
    let ones: Vec<u64> = (0..axes).map(|_| 1).collect();
    document["shape"] = json!(ones);
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!(ones);
    document
}

#[test]
fn ranks_0_to_16_are_read_and_17_is_not() {
    for axes in [0, 1, 16] {
        let record = read(&of_rank(axes)).unwrap();
        assert_eq!((record.axes(), record.chunk_bytes, record.chunks_per_file()), (axes, 2, 1));
    }
    refused(&of_rank(17), Status::Unsupported, &["shape", "16 axes"]);
}

#[test]
fn a_chunk_of_the_cap_is_read_and_a_larger_one_is_not() {
    let mut document = of_rank(2);
    let chunk = |edge: u64| json!([1 << 20, edge]);
    let edge = (CHUNK_BYTES_MAX / 2) >> 20;
    document["chunk_grid"]["configuration"]["chunk_shape"] = chunk(edge);
    assert_eq!(read(&document).unwrap().chunk_bytes, CHUNK_BYTES_MAX);
    document["chunk_grid"]["configuration"]["chunk_shape"] = chunk(edge + 1);
    refused(&document, Status::Unsupported, &["chunks of [1048576, 1025]", "2147483648"]);
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([1u64 << 40, 1u64 << 40]);
    refused(&document, Status::Unsupported, &["times 2 bytes"]);
}

#[test]
fn a_shard_of_too_many_chunks_is_unsupported() {
    let mut document = with("/codecs/0/configuration/chunk_shape", json!([1, 1]));
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([1 << 15, 1 << 15]);
    assert_eq!(read(&document).unwrap().chunks_per_file(), SHARD_CHUNKS_MAX);
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([1 << 15, (1 << 15) + 1]);
    refused(&document, Status::Unsupported, &["[32768, 32769] chunks per shard"]);
    let huge = json!([i64::MAX, i64::MAX]);
    document["chunk_grid"]["configuration"]["chunk_shape"] = huge;
    refused(&document, Status::Unsupported, &["chunks per shard"]);
}

#[test]
fn an_array_of_uncountable_chunks_is_unsupported() {
    let mut document = of_rank(2);
    document["shape"] = json!([1u64 << 32, (1u64 << 32) - 1]);
    assert!(read(&document).is_ok());
    document["shape"] = json!([1u64 << 32, 1u64 << 32]);
    refused(&document, Status::Unsupported, &["chunk_grid", "2^64 chunks"]);
    document["shape"] = json!([i64::MAX, 0]);
    assert!(read(&document).is_ok());
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([2, 1]);
    refused(&document, Status::Unsupported, &["shape", "2^63 - 1"]);
}

#[test]
fn a_chain_is_bytes_and_then_byte_codecs_in_any_order() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let blosc = json!({"name": "blosc", "configuration": {
        "cname": "zstd", "clevel": 9, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}});
    let alone = Codec::Lzma(Lzma::Alone);
    for (codecs, expected) in [
        (json!([bytes, "crc32c"]), &[Codec::Crc32c][..]),
        (json!([bytes, blosc]), &[Codec::BloscZstd]),
        (json!([bytes, "zstd", "crc32c"]), &[Codec::Zstd, Codec::Crc32c]),
        (json!([bytes, "crc32c", blosc]), &[Codec::Crc32c, Codec::BloscZstd]),
        (json!([bytes, "gzip", "crc32c"]), &[Codec::Gzip, Codec::Crc32c]),
        (json!([bytes, {"name": "numcodecs.bz2"}]), &[Codec::Bz2(9)]),
        (json!([bytes, {"name": "bz2", "configuration": {"level": 1}}]), &[Codec::Bz2(1)]),
        (json!([bytes, {"name": "numcodecs.lzma"}]), &[Codec::Lzma(Lzma::Xz)]),
        (json!([bytes, {"name": "lzma", "configuration": {"format": 2}}]), &[alone]),
        (json!([bytes, "numcodecs.zlib"]), &[Codec::Zlib]),
        (json!([bytes, "crc32c", "lz4"]), &[Codec::Crc32c, Codec::Lz4]),
        (
            json!([bytes, "crc32c", "zstd", "crc32c", {"name": "crc32c", "configuration": {}}]),
            &[Codec::Crc32c, Codec::Zstd, Codec::Crc32c, Codec::Crc32c],
        ),
    ] {
        assert_eq!(read(&plain(codecs.clone())).unwrap().codecs.as_slice(), expected);
        let sharded = with("/codecs/0/configuration/codecs", codecs);
        assert_eq!(read(&sharded).unwrap().codecs.as_slice(), expected);
    }
}

#[test]
fn chains_that_are_not_read_are_refused_by_name() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let crc = "crc32c";
    for (codecs, status, part) in [
        (json!([]), Status::Decode, "is empty"),
        (json!(["zstd"]), Status::Decode, "\"zstd\" must stand after"),
        (json!(["crc32c", bytes]), Status::Decode, "\"crc32c\" must stand after"),
        (json!([bytes, bytes]), Status::Decode, "\"bytes\" cannot stand after"),
        (json!([bytes, "transpose"]), Status::Decode, "\"transpose\" cannot stand after"),
        (json!([bytes, "sharding_indexed"]), Status::Decode, "\"sharding_indexed\" cannot"),
        (json!(["transpose", bytes]), Status::Decode, "member \"order\" is missing"),
        (
            json!([{"name": "transpose", "configuration": {"order": [1, 0]}}]),
            Status::Decode,
            "no codec after transpose, reshape or filters makes bytes",
        ),
        (json!(["packbits"]), Status::Unsupported, "\"packbits\""),
        (json!([bytes, "snappy"]), Status::Unsupported, "\"snappy\""),
        (json!([bytes, {"name": "numcodecs.zfpy"}]), Status::Unsupported, "\"numcodecs.zfpy\""),
        (json!([bytes, {"name": "numcodecs.pcodec"}]), Status::Unsupported, "\"numcodecs.pcodec\""),
        (json!(["gzip"]), Status::Decode, "\"gzip\" must stand after"),
        (json!([bytes, "gzip", "numcodecs.lz4"]), Status::Unsupported, "lz4 after another"),
        (json!([bytes, {"name": "x", "must_understand": false}]), Status::Unsupported, "\"x\""),
        (json!([bytes, "zstd", "zstd"]), Status::Unsupported, "another compressor"),
        (
            json!([bytes, crc, crc, crc, crc, crc, crc, crc]),
            Status::Unsupported,
            "more than 6 codecs",
        ),
    ] {
        refused(&plain(codecs.clone()), status, &["codecs", part]);
        let sharded = with("/codecs/0/configuration/codecs", codecs);
        refused(&sharded, status, &["codecs[0].configuration.codecs", part]);
    }
}

#[test]
fn the_byte_order_may_be_absent_for_words_of_one_byte_only() {
    let mut document = plain(json!(["bytes"]));
    refused(&document, Status::Decode, &["codecs[0]", "\"endian\""]);
    document["data_type"] = json!("int8");
    assert_eq!(read(&document).unwrap().byte_order, ByteOrder::Little);
    document["codecs"] = json!([{"name": "bytes", "configuration": {"endian": "big"}}]);
    assert_eq!(read(&document).unwrap().byte_order, ByteOrder::Little);
    document["codecs"] = json!([{"name": "bytes", "configuration": {"endian": "middle"}}]);
    refused(&document, Status::Unsupported, &["endian", "\"middle\""]);
    document["codecs"] = json!(["bytes"]);
    document["data_type"] = json!("complex64");
    refused(&document, Status::Decode, &["4-byte words"]);
}

#[test]
fn codec_parameters_are_checked() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let blosc = |name: &str, value: Value| {
        let mut configuration = json!({"cname": "zstd", "clevel": 5, "shuffle": "shuffle",
            "typesize": 2, "blocksize": 0});
        configuration[name] = value;
        json!([bytes, {"name": "blosc", "configuration": configuration}])
    };
    for (name, value, status) in [
        ("cname", json!("snappy"), Status::Unsupported),
        ("cname", json!(null), Status::Decode),
        ("clevel", json!(10), Status::Decode),
        ("clevel", json!(-1), Status::Decode),
        ("shuffle", json!("delta"), Status::Unsupported),
        ("shuffle", json!(1), Status::Decode),
        ("typesize", json!(0), Status::Decode),
        ("blocksize", json!(-1), Status::Decode),
        ("filter", json!(7), Status::Unsupported),
    ] {
        refused(&plain(blosc(name, value.clone())), status, &[name, &value.to_string()]);
    }
    let zstd =
        |name: &str, value: Value| json!([bytes, {"name": "zstd", "configuration": {name: value}}]);
    for level in [-131072, 22] {
        assert!(read(&plain(zstd("level", json!(level)))).is_ok());
    }
    for level in [-131073, 23] {
        refused(&plain(zstd("level", json!(level))), Status::Decode, &["level", "-131072 to 22"]);
    }
    for (codec, name, range) in [
        ("gzip", "level", [0, 9]),
        ("zlib", "level", [-1, 9]),
        ("numcodecs.gzip", "level", [-1, 9]),
        ("numcodecs.bz2", "level", [1, 9]),
        ("bz2", "level", [1, 9]),
        ("lzma", "format", [1, 2]),
        ("lzma", "check", [-1, 15]),
        ("numcodecs.lzma", "preset", [0, 9]),
        ("numcodecs.zlib", "level", [-1, 9]),
    ] {
        let chain = |level: i64| json!([bytes, {"name": codec, "configuration": {name: level}}]);
        for level in range {
            assert!(read(&plain(chain(level))).is_ok(), "{codec} {level}");
        }
        for level in [range[0] - 1, range[1] + 1] {
            refused(&plain(chain(level)), Status::Decode, &[name, &level.to_string()]);
        }
        let other = json!([bytes, {"name": codec, "configuration": {"strategy": 1}}]);
        refused(&plain(other), Status::Unsupported, &["\"strategy\" = 1"]);
    }
    refused(&plain(zstd("window", json!(1))), Status::Unsupported, &["\"window\" = 1"]);
    refused(&plain(json!([bytes, "blosc"])), Status::Decode, &["\"cname\" is missing"]);
    let crc = json!([bytes, {"name": "crc32c", "configuration": {"seed": 1}}]);
    refused(&plain(crc), Status::Unsupported, &["\"seed\" = 1"]);
}

#[test]
fn what_numcodecs_says_of_its_codecs_is_taken_and_the_rest_refused() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let chain =
        |name: &str, value: Value| plain(json!([bytes, {"name": name, "configuration": value}]));
    for (name, value) in [
        ("numcodecs.blosc", json!({})),
        ("numcodecs.blosc", json!({"cname": "lz4hc", "clevel": 9, "shuffle": -1})),
        ("numcodecs.blosc", json!({"shuffle": 2, "blocksize": 0, "typesize": null})),
        ("numcodecs.lz4", json!({"acceleration": 50})),
        ("numcodecs.zstd", json!({"level": 3, "checksum": true})),
        ("numcodecs.crc32c", json!({"location": "end"})),
        ("numcodecs.crc32c", json!({"location": null})),
        ("numcodecs.crc32c", json!({"location": "start"})),
    ] {
        assert!(read(&chain(name, value.clone())).is_ok(), "{name} {value}");
    }
    for (name, value, status, part) in [
        ("numcodecs.blosc", json!({"shuffle": 3}), Status::Decode, "-1 to 2"),
        ("numcodecs.blosc", json!({"shuffle": "shuffle"}), Status::Decode, "shuffle"),
        ("numcodecs.blosc", json!({"cname": "snappy"}), Status::Unsupported, "\"snappy\""),
        ("numcodecs.lz4", json!({"acceleration": "fast"}), Status::Decode, "acceleration"),
        ("numcodecs.crc32c", json!({"location": "middle"}), Status::Unsupported, "\"middle\""),
        ("crc32c", json!({"location": "end"}), Status::Unsupported, "\"location\""),
        ("blosc", json!({"cname": "lz4", "shuffle": 1}), Status::Decode, "shuffle"),
    ] {
        refused(&chain(name, value), status, &[part]);
    }
}

pub(super) fn transpose(order: Value) -> Value {
    json!({"name": "transpose", "configuration": {"order": order}})
}

pub(super) fn shard(chunk: Value, codecs: Value) -> Value {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "big"}});
    json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk, "codecs": codecs, "index_codecs": [bytes]}})
}

#[test]
fn transposes_are_strides_and_compose_in_the_order_of_the_list() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let mut document =
        plain(json!([transpose(json!([2, 0, 1])), transpose(json!([1, 0, 2])), bytes]));
    document["shape"] = json!([9, 9, 9]);
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([2, 3, 5]);
    let record = read(&document).unwrap();
    // z y x becomes x z y becomes z x y.
    assert_eq!(record.axis_order[0][..3], [0, 2, 1]);
    assert_eq!(record.chunk_strides[..3], [30, 2, 6]);
    assert_eq!(describe(&record).codecs.as_str(), "transpose(0,2,1) bytes(little)");
    let cases = [
        (json!([[0, 1, 2]]), [30, 10, 2]),
        (json!(["C"]), [30, 10, 2]),
        (json!(["F"]), [2, 4, 12]),
        (json!([[1, 2, 0], [2, 0, 1]]), [30, 10, 2]),
        (json!([[1, 2, 0], "F"]), [30, 2, 6]),
        (json!([[2, 0, 1]]), [6, 2, 12]),
    ];
    for (orders, strides) in cases {
        let list = orders.as_array().unwrap().iter().cloned().map(transpose);
        document["codecs"] = list.chain([bytes.clone()]).collect();
        assert_eq!(read(&document).unwrap().chunk_strides[..3], strides, "{orders}");
    }
}

#[test]
fn orders_that_are_no_permutation_are_refused() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    for (order, status) in [
        (json!([0]), Status::Decode),
        (json!([0, 1, 2]), Status::Decode),
        (json!([0, 0]), Status::Decode),
        (json!([1, 2]), Status::Decode),
        (json!([0, -1]), Status::Decode),
        (json!([0, 1.0]), Status::Decode),
        (json!(null), Status::Decode),
        (json!([]), Status::Decode),
        (json!({"0": 1}), Status::Decode),
        (json!("K"), Status::Unsupported),
        (json!("c"), Status::Unsupported),
    ] {
        let document = plain(json!([transpose(order.clone()), bytes]));
        refused(&document, status, &["codecs[0].configuration.order"]);
        let shards = plain(json!([shard(json!([4, 16]), json!([transpose(order), bytes]))]));
        refused(&shards, status, &["codecs[0].configuration.codecs[0].configuration.order"]);
    }
    let more = json!({"name": "transpose", "configuration": {"order": [1, 0], "axes": 2}});
    refused(&plain(json!([more, bytes])), Status::Unsupported, &["\"axes\" = 2"]);
}

#[test]
fn shards_in_shards_are_two_levels_of_the_record() {
    let chunks = sound()["codecs"][0]["configuration"]["codecs"].clone();
    let inner = shard(json!([4, 16]), chunks);
    let mut document = with("/codecs/0/configuration/codecs", json!([inner]));
    document["codecs"][0]["configuration"]["chunk_shape"] = json!([8, 32]);
    let record = read(&document).unwrap();
    assert_eq!((record.shard_levels, record.chunk_shape[..2].to_vec()), (2, std::vec![4, 16]));
    assert_eq!(
        (&record.shard_shape[0][..2], &record.shard_shape[1][..2]),
        (&[8, 64][..], &[8, 32][..])
    );
    let layout = |at_start, has_crc, byte_order| IndexLayout { at_start, has_crc, byte_order };
    let outer = layout(true, true, ByteOrder::Little);
    assert_eq!(record.index[..2], [outer, layout(false, false, ByteOrder::Big)]);
    assert_eq!(record.file_grid[1], AxisGrid::Regular);
    assert_eq!((record.chunk_counts()[..2].to_vec(), record.chunk_bytes), (std::vec![2, 4], 128));
    let line = "sharding_indexed[sharding_indexed[bytes(little) zstd](index at end, big)]\
                (index at start, crc32c)";
    assert_eq!(describe(&record).codecs.as_str(), line);
    let inner_shape = "/codecs/0/configuration/codecs/0/configuration/chunk_shape";
    *document.pointer_mut(inner_shape).unwrap() = json!([4, 12]);
    refused(&document, Status::Decode, &["[4, 12]", "[8, 32]", "do not divide"]);
}

#[test]
fn a_transpose_in_front_of_a_shard_turns_its_chunks_and_its_index_but_not_the_array() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let flip = || transpose(json!([1, 0]));
    // Files of 8 x 64 are shards of 64 x 8 after the transpose, in chunks of 16 x 4.
    let document = plain(json!([flip(), shard(json!([16, 4]), json!([bytes]))]));
    let record = read(&document).unwrap();
    assert_eq!(
        (&record.chunk_shape[..2], &record.shard_shape[0][..2]),
        (&[4, 16][..], &[8, 64][..])
    );
    assert_eq!(
        (&record.axis_order[0][..2], &record.axis_order[1][..2]),
        (&[1, 0][..], &[1, 0][..])
    );
    assert_eq!(record.chunk_strides[..2], [2, 8]);
    let twice = plain(json!([flip(), shard(json!([16, 4]), json!([flip(), bytes]))]));
    let record = read(&twice).unwrap();
    assert_eq!(
        (&record.axis_order[0][..2], &record.axis_order[1][..2]),
        (&[1, 0][..], &[0, 1][..])
    );
    assert_eq!(record.chunk_strides[..2], [32, 2]);
    let line = "transpose(1,0) sharding_indexed[transpose(1,0) bytes(little)](index at end, big)";
    assert_eq!(describe(&record).codecs.as_str(), line);
    let wrong = plain(json!([flip(), shard(json!([4, 16]), json!([bytes]))]));
    refused(&wrong, Status::Decode, &["[4, 16]", "[64, 8]", "do not divide"]);
}

#[test]
fn an_index_is_bytes_and_perhaps_a_checksum() {
    let pointer = "/codecs/0/configuration/index_codecs";
    let bytes = |endian: &str| json!({"name": "bytes", "configuration": {"endian": endian}});
    for (codecs, has_crc, byte_order) in [
        (json!([bytes("little")]), false, ByteOrder::Little),
        (json!([bytes("big"), "crc32c"]), true, ByteOrder::Big),
    ] {
        let record = read(&with(pointer, codecs)).unwrap();
        assert_eq!(record.index[0], IndexLayout { at_start: true, has_crc, byte_order });
    }
    for (codecs, status) in [
        (json!([bytes("little"), "zstd"]), Status::Unsupported),
        (json!([bytes("little"), "crc32c", "crc32c"]), Status::Unsupported),
        (
            json!([{"name": "transpose", "configuration": {"order": [1, 0, 2]}}, bytes("little")]),
            Status::Unsupported,
        ),
        (json!(["sharding_indexed"]), Status::Unsupported),
        (json!(["crc32c"]), Status::Decode),
        (json!(["bytes"]), Status::Decode),
        (json!([]), Status::Decode),
    ] {
        refused(&with(pointer, codecs), status, &["index_codecs"]);
    }
    assert!(!read(&without(&format!("{SHARD}/index_location"))).unwrap().index[0].at_start);
    assert!(
        !read(&with(&format!("{SHARD}/index_location"), json!("end"))).unwrap().index[0].at_start
    );
    let middle = with(&format!("{SHARD}/index_location"), json!("middle"));
    refused(&middle, Status::Unsupported, &["index_location", "\"middle\""]);
    let more = with(&format!("{SHARD}/order"), json!("morton"));
    refused(&more, Status::Unsupported, &["\"order\" = \"morton\""]);
}

#[test]
fn a_description_is_one_line_of_codecs() {
    let line = |document: &Value| describe(&read(document).unwrap()).codecs.to_string();
    let sharded = "sharding_indexed[bytes(little) zstd](index at start, crc32c)";
    assert_eq!(line(&sound()), sharded);
    let bytes = json!({"name": "bytes", "configuration": {"endian": "big"}});
    assert_eq!(line(&plain(json!([bytes, "crc32c", "zstd"]))), "bytes(big) crc32c zstd");
    let mut record = read(&sound()).unwrap();
    record.index[0] = IndexLayout { at_start: false, has_crc: false, byte_order: ByteOrder::Big };
    record.dtype = Dtype::U8;
    let codecs = describe(&record).codecs;
    assert_eq!(codecs.as_str(), "sharding_indexed[bytes zstd](index at end, big)");
}

#[test]
fn members_that_are_null_say_what_absent_ones_do() {
    let whole = read(&sound()).unwrap();
    for pointer in [
        "/storage_transformers",
        "/codecs/0/configuration/codecs/1/configuration",
        "/codecs/0/configuration/index_codecs/1/configuration",
        "/chunk_key_encoding/configuration",
    ] {
        assert_eq!(read(&with(pointer, json!(null))).unwrap().codecs, whole.codecs, "{pointer}");
    }
    let grid = with("/chunk_grid/configuration", json!(null));
    refused(&grid, Status::Decode, &["member \"chunk_shape\" is missing"]);
}

#[test]
fn edges_of_arrays_without_elements_may_be_0() {
    for (outer, inner, found) in [(0, 0, 1), (0, 4, 4), (8, 4, 4)] {
        let mut document = with("/shape/0", json!(0));
        document["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(outer);
        document["codecs"][0]["configuration"]["chunk_shape"][0] = json!(inner);
        let record = read(&document).unwrap();
        assert_eq!(record.chunk_shape[0], found);
    }
    refused(&with("/chunk_grid/configuration/chunk_shape/0", json!(0)), Status::Decode, &["1"]);
    let inner = "/codecs/0/configuration/chunk_shape/0";
    refused(&with(inner, json!(0)), Status::Decode, &["at least 1"]);
}

#[test]
fn blosc_may_say_how_many_threads_its_writer_had() {
    let blosc = |threads: Value| {
        let configuration = json!({"cname": "lz4", "clevel": 5, "shuffle": "shuffle",
                                   "typesize": 2, "blocksize": 0, "nthreads": threads});
        plain(json!([{"name": "bytes", "configuration": {"endian": "little"}},
                     {"name": "blosc", "configuration": configuration}]))
    };
    read(&blosc(json!(8))).unwrap();
    refused(&blosc(json!(-1)), Status::Decode, &["nthreads", "-1"]);
}
