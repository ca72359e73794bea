//! Unit tests of zarr v2 metadata: one sound document, and what each change to it does.

use super::describe::Description;
use super::*;
use crate::base::limits::{CHUNK_BYTES_MAX, RANK_MAX};
use crate::records::grid::AxisGrid;
use crate::records::{
    ByteOrder, Codec, DTYPES, Dtype, Filter, KeyEncoding, Lzma, LzmaChain, LzmaProperties,
};
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::{format, vec};

/// An array that everything is changed from.
fn sound() -> Value {
    json!({
        "zarr_format": 2,
        "shape": [10, 100, 7],
        "chunks": [4, 16, 3],
        "dtype": "<u2",
        "order": "C",
        "fill_value": 42,
        "compressor": {"id": "zstd", "level": 3},
        "filters": null,
        "dimension_separator": "/"
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut document = sound();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match parent.as_array_mut() {
        Some(items) => items[name.parse::<usize>().unwrap()] = value,
        None => parent[name] = value,
    }
    document
}

fn without(name: &str) -> Value {
    let mut document = sound();
    document.as_object_mut().unwrap().remove(name);
    document
}

fn read_text(text: &str) -> Result<ArrayRecord, (Status, String)> {
    let mut why = Why::new();
    let kind = DocumentKind::Zarr2Array;
    array_from_document(kind, text.as_bytes(), ("/data/a", None), &mut [], &mut why).map_err(
        |status| {
            assert!(why.as_str().starts_with("/data/a/.zarray: ") && !why.is_cut(), "{why}");
            (status, why.to_string())
        },
    )
}

fn read(document: &Value) -> Result<ArrayRecord, (Status, String)> {
    read_text(&document.to_string())
}

/// `document` is refused with `status` and a text that has every one of `parts`.
fn refused(document: &Value, status: Status, parts: &[&str]) {
    let (found, text) = read(document).expect_err(parts[0]);
    assert_eq!(found, status, "{text}");
    for part in parts {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

#[test]
fn the_sound_document_says_everything() {
    let record = read(&sound()).unwrap();
    assert_eq!(record.document, DocumentKind::Zarr2Array);
    assert_eq!(record.shape[..record.axes()], [10, 100, 7]);
    assert_eq!(record.chunk_shape[..3], [4, 16, 3]);
    assert_eq!(record.file_grid[1], AxisGrid::Regular);
    assert_eq!(record.chunk_strides[..3], [96, 6, 2]);
    assert_eq!((record.chunk_bytes, record.shard_levels), (384, 0));
    assert_eq!((record.dtype, record.dtype_bytes), (Dtype::U16, 2));
    assert_eq!(record.byte_order, ByteOrder::Little);
    assert_eq!(record.fill[..2], 42u16.to_ne_bytes());
    assert_eq!(record.codecs.as_slice(), [Codec::Zstd]);
    assert_eq!((record.key_encoding, record.separator), (KeyEncoding::V2, b'/'));
    let Description { dtype_name, codecs } = describe(&record);
    assert_eq!((dtype_name.as_str(), codecs.as_str()), ("<u2", "zstd order C"));
}

#[test]
fn order_f_makes_the_first_axis_the_innermost() {
    let record = read(&with("/order", json!("F"))).unwrap();
    assert_eq!(record.chunk_strides[..3], [2, 8, 128]);
    assert_eq!(record.chunk_bytes, 384);
    assert_eq!(describe(&record).codecs.as_str(), "zstd order F");
}

#[test]
fn the_orders_of_one_long_axis_are_one_layout_and_one_description() {
    for order in ["C", "F"] {
        let mut document = with("/order", json!(order));
        document["chunks"] = json!([1, 16, 1]);
        let record = read(&document).unwrap();
        assert_eq!(record.chunk_strides[1], 2);
        assert_eq!(describe(&record).codecs.as_str(), "zstd order C");
    }
}

#[test]
fn other_orders_are_damaged() {
    for order in [json!("A"), json!("c"), json!(""), json!("FC")] {
        refused(&with("/order", order), Status::Decode, &["order at byte", "neither \"C\" nor"]);
    }
}

#[test]
fn every_type_string_is_read_in_each_byte_order() {
    for dtype in DTYPES.into_iter().filter(|dtype| !matches!(dtype, Dtype::Bf16 | Dtype::Raw)) {
        let kind = dtype.zarr2_name();
        let orders: &[char] = if dtype.bytes() == 1 { &['|', '<', '>'] } else { &['<', '>'] };
        for order in orders {
            let mut document = with("/dtype", json!(format!("{order}{kind}")));
            document["fill_value"] = Value::Null;
            let record = read(&document).unwrap();
            assert_eq!((record.dtype, record.dtype_bytes), (dtype, dtype.bytes()), "{kind}");
            let is_big = *order == '>' && dtype.word_bytes() > 1;
            assert_eq!(record.byte_order == ByteOrder::Big, is_big, "{order}{kind}");
            let shown = if dtype.word_bytes() == 1 { '|' } else { *order };
            assert_eq!(describe(&record).dtype_name.as_str(), format!("{shown}{kind}"));
            assert_eq!(record.chunk_bytes, 192 * u64::from(dtype.bytes()));
        }
    }
}

#[test]
fn tensorstores_bfloat16_is_little_endian() {
    let record = read(&with("/dtype", json!("bfloat16"))).unwrap();
    assert_eq!((record.dtype, record.byte_order), (Dtype::Bf16, ByteOrder::Little));
    assert_eq!(record.fill[..2], 0x4228u16.to_ne_bytes());
    assert_eq!(describe(&record).dtype_name.as_str(), "bfloat16");
}

#[test]
fn void_types_have_1_to_16_bytes() {
    for bytes in [1, 3, 16] {
        let mut document = with("/dtype", json!(format!("|V{bytes}")));
        document["fill_value"] = Value::Null;
        let record = read(&document).unwrap();
        assert_eq!((record.dtype, record.dtype_bytes), (Dtype::Raw, bytes));
        assert_eq!(describe(&record).dtype_name.as_str(), format!("|V{bytes}"));
    }
    for (name, reason) in [
        ("|V17", "elements above 16 bytes"),
        ("|V99999", "elements above 16 bytes"),
        ("|V0", "is not read"),
        ("|V07", "is not read"),
        ("|V", "is not read"),
        ("|V+3", "is not read"),
        ("|V-3", "is not read"),
        ("|V99999999999999999999", "is not read"),
    ] {
        let quoted = format!("\"{name}\"");
        refused(&with("/dtype", json!(name)), Status::Unsupported, &[&quoted, reason]);
    }
}

#[test]
fn other_types_are_refused_by_name() {
    for name in ["|S5", "<U3", "|O", "<U0", "|T16"] {
        let quoted = format!("data type \"{name}\" is text or objects, not read: write numbers");
        refused(&with("/dtype", json!(name)), Status::Unsupported, &["dtype at byte", &quoted]);
    }
    for name in [
        "<M8[]",
        "<M8[weeks]",
        "<m8[0s]",
        "<m8[2147483648s]",
        "<M4[ns]",
        "<f16",
        "<i3",
        "=u2",
        "u2",
        "",
        "<",
        "é2",
        "<int4",
        "|u1 ",
        "float8_e3m4",
    ] {
        let quoted = format!("data type \"{name}\" is not read");
        refused(&with("/dtype", json!(name)), Status::Unsupported, &["dtype at byte", &quoted]);
    }
}

#[test]
fn a_wide_type_without_a_byte_order_is_damaged() {
    for name in ["|u2", "|f8", "|c8"] {
        let says = format!("\"{name}\" has words of");
        refused(&with("/dtype", json!(name)), Status::Decode, &[&says, "no byte order"]);
    }
}

#[test]
fn no_compressor_is_null_and_other_ids_are_refused_by_name() {
    let record = read(&with("/compressor", Value::Null)).unwrap();
    assert!(record.codecs.is_empty());
    assert_eq!(describe(&record).codecs.as_str(), "order C");
    for id in ["pcodec", "numcodecs.zstd", "numcodecs.shuffle", "zfpy", "Zstd", ""] {
        let says = format!("compressor \"{id}\" is not read");
        let document = with("/compressor", json!({"id": id, "level": 1}));
        refused(&document, Status::Unsupported, &["compressor.id at byte", &says]);
    }
    for value in [json!([]), json!("zstd"), json!({}), json!({"id": 1}), json!(false)] {
        refused(&with("/compressor", value), Status::Decode, &["compressor"]);
    }
}

#[test]
fn parameters_of_compressors_are_those_of_numcodecs() {
    for compressor in [
        json!({"id": "zstd"}),
        json!({"id": "zstd", "level": -131072, "checksum": true}),
        json!({"id": "zstd", "level": 1, "checksum": null}),
        json!({"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": -1, "blocksize": 0}),
        json!({"id": "blosc", "cname": "zstd", "shuffle": 2, "typesize": null}),
        json!({"id": "blosc", "cname": "lz4", "typesize": 2}),
        json!({"id": "blosc"}),
        json!({"id": "gzip", "level": 9}),
        json!({"id": "gzip", "level": -1}),
        json!({"id": "zlib", "level": -1}),
        json!({"id": "lz4", "acceleration": 1}),
        json!({"id": "bz2", "level": 1}),
        json!({"id": "bz2", "level": "9"}),
        json!({"id": "bz2"}),
        json!({"id": "lzma"}),
        json!({"id": "lzma", "format": 1, "check": -1, "preset": null, "filters": null}),
        json!({"id": "lzma", "format": "2", "check": "0", "preset": (1u32 << 31) + 9}),
        json!({"id": "lzma", "filters": [{"id": 3, "dist": 256}, {"id": 33, "preset": 1}]}),
    ] {
        let record = read(&with("/compressor", compressor.clone())).unwrap();
        assert_eq!(compressor["id"], record.codecs[0].name());
    }
    for (compressor, status, says) in [
        (json!({"id": "zstd", "level": 23}), Status::Decode, "compressor.level"),
        (json!({"id": "zstd", "checksum": 1}), Status::Decode, "compressor.checksum"),
        (json!({"id": "zstd", "window": 1}), Status::Unsupported, "member \"window\" = 1"),
        (json!({"id": "zstd", "name": "zstd"}), Status::Unsupported, "member \"name\""),
        (json!({"id": "gzip", "level": 10}), Status::Decode, "compressor.level"),
        (json!({"id": "bz2", "level": 0}), Status::Decode, "compressor.level"),
        (json!({"id": "bz2", "level": 10}), Status::Decode, "compressor.level"),
        (json!({"id": "lzma", "format": 0}), Status::Decode, "compressor.format"),
        (json!({"id": "lzma", "format": 3}), Status::Decode, "format 3 without filters"),
        (json!({"id": "lzma", "check": 16}), Status::Decode, "compressor.check"),
        (json!({"id": "lzma", "preset": 10}), Status::Decode, "compressor.preset"),
        (json!({"id": "lzma", "level": 1}), Status::Unsupported, "member \"level\" = 1"),
        (json!({"id": "lzma", "filters": 33}), Status::Decode, "compressor.filters"),
        (json!({"id": "lz4", "acceleration": "x"}), Status::Decode, "compressor.acceleration"),
        (json!({"id": "blosc", "cname": "snappy"}), Status::Unsupported, "blosc of \"snappy\""),
        (json!({"id": "blosc", "cname": "zstd", "clevel": 10}), Status::Decode, "clevel"),
        (json!({"id": "blosc", "cname": "zstd", "shuffle": 3}), Status::Decode, "shuffle"),
        (json!({"id": "blosc", "cname": "zstd", "shuffle": -2}), Status::Decode, "shuffle"),
        (json!({"id": "blosc", "cname": "zstd", "shuffle": "shuffle"}), Status::Decode, "shuffle"),
        (json!({"id": "blosc", "cname": "zstd", "blocksize": -1}), Status::Decode, "blocksize"),
        (json!({"id": "blosc", "cname": "zstd", "typesize": 0}), Status::Decode, "typesize"),
        (json!({"id": "blosc", "cname": "zstd", "x": 0}), Status::Unsupported, "member \"x\" = 0"),
    ] {
        refused(&with("/compressor", compressor), status, &[says]);
    }
}

#[test]
fn lists_of_lzma_filters_are_those_of_python() {
    let lzma1 = 0x4000_0000_0000_0001u64;
    let properties = LzmaProperties::new(0, 4, 1);
    for (filters, deltas, dictionary_bytes, properties) in [
        (json!([{"id": 33}]), [0; 3], 1 << 23, None),
        (json!([{"id": 33, "preset": 9}]), [0; 3], 1 << 26, None),
        (json!([{"id": 33, "preset": 2, "dict_size": 5000}]), [0; 3], 5000, None),
        (json!([{"id": 3}, {"id": 33, "mode": 1, "nice_len": 9}]), [1, 0, 0], 1 << 23, None),
        (
            json!([{"id": 3, "dist": 256}, {"id": 3}, {"id": 3, "dist": 2},
                {"id": lzma1, "lc": 0, "lp": 4, "pb": 1, "mf": 20, "depth": 0, "preset": null}]),
            [256, 1, 2],
            1 << 23,
            properties,
        ),
    ] {
        let document = with("/compressor", json!({"id": "lzma", "format": 3, "filters": filters}));
        let chain = LzmaChain { deltas, dictionary_bytes, properties };
        assert_eq!(read(&document).unwrap().codecs[0], Codec::Lzma(Lzma::Raw(chain)));
    }
    for (filters, status, says) in [
        (json!([]), Status::Decode, "up to 3 filters delta and then one of LZMA"),
        (json!([{"id": 3}]), Status::Decode, "up to 3 filters delta"),
        (json!([{"id": 33}, {"id": 3}]), Status::Decode, "up to 3 filters delta"),
        (json!([{"id": 3}, {"id": 3}, {"id": 3}, {"id": 3}, {"id": 33}]), Status::Decode, "up to"),
        (json!([{"id": 4}, {"id": 33}]), Status::Unsupported, "lzma filter 4 is not read"),
        (json!([{"id": 3, "dist": 0}, {"id": 33}]), Status::Decode, "dist"),
        (json!([{"id": 3, "dist": 257}, {"id": 33}]), Status::Decode, "dist"),
        (json!([{"id": 33, "lc": 4, "lp": 1}]), Status::Decode, "more than 4 in all"),
        (json!([{"id": 33, "dict_size": -1}]), Status::Decode, "dict_size"),
        (json!([{"id": 33, "preset": 10}]), Status::Decode, "preset"),
        (json!([{"id": 33, "level": 1}]), Status::Unsupported, "member \"level\" = 1"),
        (json!([{"dist": 1}]), Status::Decode, "member \"id\" is missing"),
        (json!([33]), Status::Decode, "filters[0]"),
    ] {
        for format in [1, 2, 3] {
            let compressor = json!({"id": "lzma", "format": format, "filters": filters});
            refused(&with("/compressor", compressor), status, &[says]);
        }
    }
}

#[test]
fn no_filters_are_null_or_an_empty_list_and_others_are_refused_by_name() {
    read(&with("/filters", json!([]))).unwrap();
    for id in ["vlen-utf8", "categorize", "jenkins_lookup3", "pcodec", "zfpy", "numcodecs.delta"] {
        let says =
            format!("filter \"{id}\" is not read: write the array again with zstd (read: zstd,");
        let document = with("/filters", json!([{"id": id, "dtype": "<u2"}]));
        refused(&document, Status::Unsupported, &["filters[0].id at byte", &says]);
    }
    for value in [json!({}), json!([1]), json!([{}]), json!([{"id": 1}]), json!("delta")] {
        refused(&with("/filters", value), Status::Decode, &["filters"]);
    }
}

#[test]
fn the_separator_is_a_dot_where_the_document_does_not_say() {
    assert_eq!(read(&without("dimension_separator")).unwrap().separator, b'.');
    assert_eq!(read(&with("/dimension_separator", json!("."))).unwrap().separator, b'.');
    for value in [json!(null), json!("x"), json!(""), json!("//"), json!(0)] {
        refused(&with("/dimension_separator", value), Status::Decode, &["dimension_separator"]);
    }
}

#[test]
fn a_missing_member_is_named() {
    for name in ["zarr_format", "shape", "chunks", "dtype", "order"] {
        let says = format!("member \"{name}\" is missing");
        refused(&without(name), Status::Decode, &[&says]);
    }
}

#[test]
fn an_ill_typed_member_is_damaged() {
    for name in ["zarr_format", "shape", "chunks", "dtype", "order", "compressor", "filters"] {
        refused(&with(&format!("/{name}"), json!(1.5)), Status::Decode, &[name, "1.5"]);
    }
    for (pointer, value) in
        [("/shape/1", json!(-1)), ("/chunks/0", json!(0)), ("/chunks/2", json!(1.0))]
    {
        refused(&with(pointer, value), Status::Decode, &[&pointer[1..6]]);
    }
}

#[test]
fn other_formats_are_refused_before_anything_else() {
    for version in [1, 3] {
        let says = format!("zarr_format at byte 15: {version} is not read under this name, only 2");
        let text = format!("{{\"zarr_format\":{version}}}");
        assert_eq!(
            read_text(&text).unwrap_err(),
            (Status::Unsupported, format!("/data/a/.zarray: {says}"))
        );
    }
}

#[test]
fn members_that_the_specification_does_not_name_are_ignored() {
    let mut document = sound();
    for (name, value) in [
        ("extra", json!({"must_understand": true})),
        ("attributes", json!({"shape": [1]})),
        ("node_type", json!("group")),
        ("data_type", json!("float32")),
    ] {
        document[name] = value;
    }
    assert_eq!(format!("{:?}", read(&document).unwrap()), format!("{:?}", read(&sound()).unwrap()));
}

#[test]
fn a_member_that_comes_twice_is_damaged() {
    let text = sound().to_string().replacen('{', "{\"order\":\"F\",", 1);
    let (status, text) = read_text(&text).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(text.contains("a member that occurs twice"), "{text}");
}

#[test]
fn chunks_of_another_rank_are_damaged() {
    let says = "chunks of [4, 16] do not fit an array of [10, 100, 7]";
    refused(&with("/chunks", json!([4, 16])), Status::Decode, &["chunks at byte", says]);
}

#[test]
fn ranks_0_to_16_are_read() {
    for rank in 0..=RANK_MAX {
        let mut document = with("/shape", json!(vec![2; rank]));
        document["chunks"] = json!(vec![1; rank]);
        assert_eq!(read(&document).unwrap().axes(), rank);
    }
    let document = with("/shape", json!(vec![2; RANK_MAX + 1]));
    refused(&document, Status::Unsupported, &["more than 16 axes"]);
}

#[test]
fn chunks_above_the_cap_and_grids_beyond_counting_are_refused() {
    let edge = CHUNK_BYTES_MAX / 2;
    let mut document = with("/shape", json!([edge]));
    for (edge, is_read) in [(edge, true), (edge + 1, false)] {
        document["chunks"] = json!([edge]);
        assert_eq!(read(&document).is_ok(), is_read);
    }
    refused(&document, Status::Unsupported, &["chunks at byte", "use smaller ones"]);
    let mut document = with("/shape", json!([1u64 << 40, 1u64 << 40]));
    document["chunks"] = json!([1, 1]);
    refused(&document, Status::Unsupported, &["more than 2^64 chunks"]);
    let mut document = with("/shape", json!([i64::MAX]));
    document["chunks"] = json!([2]);
    refused(&document, Status::Unsupported, &["ends beyond 2^63 - 1"]);
}

#[test]
fn a_group_is_called_a_group() {
    let mut why = Why::new();
    let kind = DocumentKind::Zarr2Group;
    let status =
        array_from_document(kind, b"{}", ("/data/g", None), &mut [], &mut why).unwrap_err();
    assert_eq!(status, Status::NotFound);
    assert_eq!(why.as_str(), "/data/g/.zgroup: is a group: name one of the arrays in it");
}

#[test]
fn a_document_that_is_not_json_is_damaged_under_its_own_name() {
    let (status, text) = read_text("{\"zarr_format\": 2,}").unwrap_err();
    assert_eq!(status, Status::Decode);
    assert_eq!(text, "/data/a/.zarray: a member name in quotes is missing at byte 18");
}

#[test]
fn members_that_netcdf_and_zarr_python_leave_out_say_nothing() {
    let whole = read(&with("/fill_value", json!(null))).unwrap();
    let bare = read(&without("fill_value")).unwrap();
    assert_eq!((bare.fill, bare.is_fill_given), (whole.fill, whole.is_fill_given));
    for name in ["compressor", "filters"] {
        let none = read(&with(&format!("/{name}"), json!(null))).unwrap();
        assert_eq!(read(&without(name)).unwrap().codecs, none.codecs, "{name}");
    }
}

#[test]
fn parameters_of_codecs_are_numbers_or_strings_of_them() {
    let filters = json!([{"id": "shuffle", "elementsize": "4"}]);
    let record = read(&with("/filters", filters)).unwrap();
    assert_eq!(record.codecs.first(), Some(&Codec::Filter(Filter::Shuffle(4))));
    for id in ["zlib", "gzip", "zstd"] {
        read(&with("/compressor", json!({"id": id, "level": "1"}))).unwrap();
        let wrong = json!({"id": id, "level": "90"});
        refused(&with("/compressor", wrong), Status::Decode, &["compressor.level", "90"]);
    }
    let blosc = json!({"id": "blosc", "cname": "lz4", "clevel": "5", "shuffle": "1",
                       "blocksize": 0, "nthreads": 1});
    read(&with("/compressor", blosc)).unwrap();
    let blosc = json!({"id": "blosc", "nthreads": "many"});
    refused(&with("/compressor", blosc), Status::Decode, &["compressor.nthreads", "many"]);
}

#[test]
fn edges_of_arrays_without_elements_may_be_0() {
    let mut document = with("/shape/0", json!(0));
    document["chunks"][0] = json!(0);
    let record = read(&document).unwrap();
    assert_eq!(record.chunk_shape[0], 1);
    refused(&with("/chunks/0", json!(0)), Status::Decode, &["at least 1"]);
}
