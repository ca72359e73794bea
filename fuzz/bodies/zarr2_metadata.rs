//! Bytes through the zarr v2 metadata parser: a record keeps every promise that the data path
//! relies on and says what serde_json reads in the document; a refusal has a status and a text.
//!
//! Input that starts with `{` is the document. Anything else chooses, byte by byte, from menus of
//! member values, so that most documents get past the first checks; what is left of the input then
//! overwrites single bytes.

use super::choices::Choices;
use super::packed::{check_cf, check_edges, check_integer_fill, check_packing};
use super::structs::{check_layout, is_member};
use serde_json::Value;
use wavetrain::base::limits::{CHUNK_BYTES_MAX, ELEMENT_BYTES_MAX, PATH_BYTES_MAX, RANK_MAX};
use wavetrain::base::text::Text;
use wavetrain::records::grid::{AxisGrid, EdgeRun};
use wavetrain::records::{ArrayRecord, ByteOrder, DocumentKind, Dtype, KeyEncoding};
use wavetrain::source::zarr::{
    array_from_document, array_from_zarr2, describe, packing_from_attributes, write_file_key,
};
use wavetrain::status::{Status, Why};

/// Checks one input.
pub fn run(data: &[u8]) {
    becomes_record(data);
}

/// Checks one input and says whether it is an array that is read.
pub fn becomes_record(data: &[u8]) -> bool {
    if data.first() == Some(&b'{') { check(data) } else { check(&spliced(data)) }
}

/// Parses `document` and checks what comes out; of structured elements also a field.
fn check(document: &[u8]) -> bool {
    check_attributes(document);
    check_field(document, Some("a"));
    check_field(document, None)
}

fn check_field(document: &[u8], field: Option<&str>) -> bool {
    let (kind, mut why) = (DocumentKind::Zarr2Array, Why::new());
    match array_from_document(kind, document, ("/fuzz/a", field), &mut [], &mut why) {
        Ok(record) => {
            assert!(why.is_empty(), "a text without an error: {why}");
            check_record(&record);
            assert_eq!(is_member(&record), field.is_some());
            if let Ok(value) = serde_json::from_slice::<Value>(document) {
                check_layout(&record, field, &value["dtype"], &value["dtype"]);
                if field.is_none() {
                    check_against_document(&record, &value, document);
                }
            }
            true
        }
        Err(status) => {
            let is_no_field = field.is_some() && status == Status::Invalid;
            let is_known = [Status::Decode, Status::Unsupported].contains(&status);
            assert!(is_no_field || is_known, "{status}: {why}");
            assert!(why.as_str().starts_with("/fuzz/a/.zarray: "), "{why}");
            assert!(!why.as_str().contains(char::is_control), "{why}");
            false
        }
    }
}

/// The same bytes as attributes: no attribute that serde_json finds is passed over, and none is
/// refused.
fn check_attributes(document: &[u8]) {
    for dtype in [Dtype::I16, Dtype::F32] {
        let mut record = ArrayRecord { dtype, ..ArrayRecord::EMPTY };
        let packing = packing_from_attributes(document, &record);
        (record.document, record.is_fill_given) = (DocumentKind::Zarr2Array, true);
        record.dtype_bytes = dtype.bytes();
        record.pack_chunk();
        check_cf(&record, ".zattrs", document, &mut [EdgeRun::EMPTY; 80]);
        if let Ok(value) = serde_json::from_slice::<Value>(document) {
            // Ours reads all of JSON up to a depth.
            let Ok(packing) = packing else { continue };
            check_packing(&packing, &value);
        }
    }
}

/// What every record promises to the stages behind it.
fn check_record(record: &ArrayRecord) {
    let axes = record.axes();
    assert!(axes <= RANK_MAX);
    assert_eq!(record.document, DocumentKind::Zarr2Array);
    let size = record.dtype_bytes as usize;
    assert!((1..=ELEMENT_BYTES_MAX).contains(&size));
    assert!(record.dtype == Dtype::Raw || record.dtype.bytes() == record.dtype_bytes);
    assert!(record.fill[size..].iter().all(|byte| *byte == 0));
    assert!(record.dtype != Dtype::Bool || record.fill[0] <= 1);
    assert!(record.dtype.word_bytes() > 1 || record.byte_order == ByteOrder::Little);

    let mut chunk_bytes = u128::from(record.dtype_bytes);
    for axis in 0..axes {
        let chunk = record.chunk_shape[axis];
        assert!(chunk > 0);
        assert_eq!(record.file_grid[axis], AxisGrid::Regular);
        let padded = u128::from(record.shape[axis].div_ceil(chunk)) * u128::from(chunk);
        assert!(padded <= i64::MAX as u128);
        chunk_bytes *= u128::from(chunk);
    }
    assert_eq!(u128::from(record.chunk_bytes), chunk_bytes);
    assert!(record.chunk_bytes <= CHUNK_BYTES_MAX);
    assert_eq!((record.shard_levels, record.chunks_per_file()), (0, 1));
    assert_eq!(record.key_encoding, KeyEncoding::V2);
    assert!(record.codecs.iter().filter(|codec| codec.is_compressor()).count() <= 1);
    // Every filter gets whole elements, of no more bytes than there may be.
    assert!(record.working_bytes() <= CHUNK_BYTES_MAX);
    for (position, codec) in record.codecs.iter().enumerate().filter(|(_, codec)| codec.is_filter())
    {
        let given = record.encoded_bytes(position).expect("filters stand before the compressor");
        assert!(codec.encoded_bytes(given).is_some());
    }

    let counts = record.file_counts();
    if !counts[..axes].contains(&0) {
        assert!(counts.iter().try_fold(1u64, |all, count| all.checked_mul(*count)).is_some());
        let last: Vec<u64> = counts[..axes].iter().map(|count| count - 1).collect();
        let mut key = Text::<PATH_BYTES_MAX>::new();
        write_file_key(record, &last, &mut key);
        let parts = key.as_str().split(char::from(record.separator));
        let found: Vec<u64> = parts.map(|part| part.parse().expect("a coordinate")).collect();
        assert_eq!(found, if axes == 0 { vec![0] } else { last }, "{key}");
    }
}

/// What serde_json finds in the same document.
fn check_against_document(record: &ArrayRecord, value: &Value, document: &[u8]) {
    let axes = record.axes();
    assert_eq!(value["zarr_format"], 2);
    assert_eq!(extents(&value["shape"]), record.shape[..axes]);
    check_edges(record, &value["chunks"], &record.chunk_shape[..axes]);
    // Filters that some parameters make change nothing on reading, or another filter.
    let is_told = |name: &&str| !["bitround", "quantize", "astype", "shuffle"].contains(name);
    let filters = value["filters"].as_array().into_iter().flatten();
    let ids = filters.chain([&value["compressor"]]).filter_map(|codec| codec["id"].as_str());
    let codecs = record.codecs.iter().map(|codec| codec.name());
    assert!(ids.filter(is_told).eq(codecs.filter(is_told)), "{value} {:?}", record.codecs);
    let separator = value.get("dimension_separator").map_or(Some("."), Value::as_str);
    assert_eq!(separator, std::str::from_utf8(&[record.separator]).ok());

    // The strides, axis by axis from the innermost.
    let mut order: Vec<usize> = (0..axes).rev().collect();
    if value["order"] == "F" {
        order.reverse();
    }
    let mut stride = i128::from(record.dtype_bytes);
    for axis in order {
        assert_eq!(i128::from(record.chunk_strides[axis]), stride);
        stride *= i128::from(record.chunk_shape[axis]);
    }
    if let Some(name) = value["dtype"].as_str() {
        check_dtype(record, name);
    }
    check_fill(record, &value["fill_value"]);

    // The same document in another spelling and order is the same array. serde_json turns -0 into
    // -0.0, which is no extent and no boolean.
    if document.windows(2).any(|pair| pair == b"-0") {
        return;
    }
    let mut why = Why::new();
    match array_from_zarr2(value.to_string().as_bytes(), ("/fuzz/a", None), &mut why) {
        Ok(again) => assert_eq!(format!("{again:?}"), format!("{record:?}")),
        Err(status) => panic!("respelled it is {status}: {why}: {}", document.escape_ascii()),
    }
    assert!(!describe(record).codecs.is_cut());
}

/// The extents of an accepted document. serde_json reads -0 as a float.
fn extents(list: &Value) -> Vec<u64> {
    let extent = |value: &Value| value.as_u64().or((value.as_f64() == Some(0.0)).then_some(0));
    list.as_array().expect("a list").iter().map(|value| extent(value).expect("extent")).collect()
}

/// The type string says what the record says, and the description says the type string.
fn check_dtype(record: &ArrayRecord, text: &str) {
    let words = describe(record);
    let shown = words.dtype_name.as_str();
    if record.dtype == Dtype::Bf16 {
        assert_eq!((text, shown), ("bfloat16", "bfloat16"));
        return;
    }
    if let Some(time) = record.time {
        assert_eq!((record.dtype, record.dtype_bytes), (Dtype::I64, 8));
        assert_eq!(&shown[1..3], if time.is_delta { "m8" } else { "M8" });
        assert_eq!(shown.starts_with('>'), record.byte_order == ByteOrder::Big);
        // numpy reads zeros in front of a step, and writes none.
        let text = match text.split_once('[') {
            Some((kind, step)) => format!("{kind}[{}", step.trim_start_matches('0')),
            None => text.to_string(),
        };
        // A step of one unit is not written out.
        assert!(shown == text || time.scale == 1 && !text.contains(&format!("{time}")), "{text}");
        return;
    }
    let bytes: u32 = text[2..].parse().expect("a size");
    assert_eq!(bytes, record.dtype_bytes);
    assert_eq!(text[1..], shown[1..]);
    let is_one = record.dtype.word_bytes() == 1;
    assert!(if is_one { shown.starts_with('|') } else { shown == text });
    assert_eq!(!is_one && text.starts_with('>'), record.byte_order == ByteOrder::Big);
}

/// A null fill is zeros; an integer element is the number of the document, in all its bits.
fn check_fill(record: &ArrayRecord, fill: &Value) {
    if record.time.is_some() && fill.is_null() {
        assert_eq!(record.fill[..8], i64::MIN.to_ne_bytes());
        return;
    }
    if fill.is_null() {
        assert_eq!(record.fill, [0; ELEMENT_BYTES_MAX]);
        return;
    }
    check_integer_fill(record, fill);
}

const EXTENTS: [&str; 14] = [
    "[8, 64]",
    "[4, 16]",
    "[3, 5]",
    "[1, 1]",
    "[]",
    "[7]",
    "[0, 5]",
    "[2, 3, 4]",
    "[9223372036854775807, 2]",
    "[4294967296, 4294967296]",
    "[18446744073709551615, 1]",
    "[2147483648, 2]",
    "[-1, 1.0]",
    "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
];

const DTYPES: [&str; 28] = [
    "\"<u2\"",
    "\">u2\"",
    "\"|u1\"",
    "\"<u1\"",
    "\"|b1\"",
    "\"<i8\"",
    "\">i8\"",
    "\"<u8\"",
    "\"|i1\"",
    "\"<f4\"",
    "\">f8\"",
    "\"<f2\"",
    "\"bfloat16\"",
    "\"<c8\"",
    "\">c8\"",
    "\">c16\"",
    "\"|V3\"",
    "\"|V16\"",
    "\"|V17\"",
    "\"|u2\"",
    "\"<M8[ns]\"",
    "\">m8[25s]\"",
    "\"<M8\"",
    "\"<m8[0D]\"",
    "\"<U10\"",
    "\"|O\"",
    "[[\"b\", \"|S3\"], [\"a\", \">u2\"], [\"c\", \"|u1\", [2, 2]]]",
    "\"<\\u0075\\u0032\"",
];

const FILLS: [&str; 29] = [
    "\"7\"",
    "\"0.0\"",
    "null",
    "NaN",
    "-Infinity",
    "\"NaT\"",
    "42",
    "0",
    "-1",
    "-0",
    "7.0",
    "-7e0",
    "1.5",
    "9007199254740993.0",
    "9223372036854775807",
    "18446744073709551615",
    "1e400",
    "true",
    "\"NaN\"",
    "\"-Infinity\"",
    "\"0x7fc00001\"",
    "\"AQD/\"",
    "\"AACAPwAAAEA=\"",
    "\"P4AAAEAAAAA=\"",
    "[1, \"NaN\"]",
    "[1, 2.5]",
    "[1, \"0x7fc00001\"]",
    "200",
    "-129",
];

const COMPRESSORS: [&str; 12] = [
    "null",
    "{\"id\": \"zstd\", \"level\": 3, \"checksum\": false}",
    "{\"id\": \"blosc\", \"cname\": \"zstd\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": 0}",
    "{\"id\": \"blosc\", \"cname\": \"zstd\", \"shuffle\": -1, \"typesize\": null}",
    "{\"id\": \"blosc\", \"cname\": \"lz4\"}",
    "{\"level\": 1, \"id\": \"gzip\"}",
    "{\"id\": \"zlib\", \"level\": 1}",
    "{\"id\": \"lz4\", \"acceleration\": 1}",
    "{\"id\": \"bz2\"}",
    "{\"id\": \"lzma\", \"format\": 1, \"check\": -1, \"preset\": null, \"filters\": null}",
    "{\"id\": \"lzma\", \"format\": 3, \"filters\": [{\"id\": 3}, {\"id\": 33, \"preset\": 1}]}",
    "{\"level\": 3}",
];

const FILTERS: [&str; 16] = [
    "null",
    "[]",
    "[{\"id\": \"delta\", \"dtype\": \"<u2\", \"astype\": \"|i1\"}]",
    "[{\"id\": \"shuffle\", \"elementsize\": 2}, {\"id\": \"zlib\"}, {\"id\": \"fletcher32\"}]",
    "[{\"id\": \"shuffle\"}]",
    "[{\"id\": \"fixedscaleoffset\", \"scale\": 10, \"offset\": -1.5, \"dtype\": \"<f4\",\
     \"astype\": \"|u1\"}, {\"id\": \"crc32\"}]",
    "[{\"id\": \"astype\", \"encode_dtype\": \">f8\", \"decode_dtype\": \"|u1\"}, \
     {\"id\": \"adler32\", \"location\": \"end\"}]",
    "[{\"id\": \"packbits\"}, {\"id\": \"crc32c\", \"location\": \"start\"}]",
    "[{\"id\": \"bitround\", \"keepbits\": 3}]",
    "[{\"id\": \"quantize\", \"digits\": 2, \"dtype\": \"<f8\", \"astype\": \"<f4\"}]",
    "[{\"id\": \"delta\", \"dtype\": \"<f4\", \"astype\": \"<f8\"}]",
    "[{\"id\": \"astype\", \"encode_dtype\": \"<i8\", \"decode_dtype\": \"|b1\"}, \
     {\"id\": \"astype\", \"encode_dtype\": \"<i8\", \"decode_dtype\": \"|b1\"}]",
    "[{\"id\": \"delta\"}]",
    "[{\"id\": \"vlen-utf8\"}]",
    "[{}]",
    "{}",
];

const EXTRAS: [&str; 7] = [
    "",
    ", \"dimension_separator\": \".\"",
    ", \"dimension_separator\": \"/\"",
    ", \"dimension_separator\": null",
    ", \"extra\": {\"must_understand\": true}",
    ", \"sh\\u0061pe\": [8, 64]",
    ", \"attributes\": {\"shape\": [1, {}]}",
];

/// The document that `data` chooses.
fn spliced(data: &[u8]) -> Vec<u8> {
    let choices = &mut Choices::of(data);
    let document = format!(
        "{{\"zarr_format\": {}, \"shape\": {}, \"chunks\": {}, \"dtype\": {}, \"order\": {}, \
         \"fill_value\": {}, \"compressor\": {}, \"filters\": {}{}{}}}",
        choices.one_of(&["2", "2", "2", "3"]),
        choices.one_of(&EXTENTS),
        choices.one_of(&EXTENTS),
        choices.one_of(&DTYPES),
        choices.one_of(&["\"C\"", "\"F\"", "\"F\"", "\"A\""]),
        choices.one_of(&FILLS),
        choices.one_of(&COMPRESSORS),
        choices.one_of(&FILTERS),
        choices.one_of(&EXTRAS),
        choices.one_of(&EXTRAS),
    );
    let mut bytes = document.into_bytes();
    for patch in choices.rest().chunks_exact(3) {
        let place = u16::from_le_bytes([patch[0], patch[1]]) as usize % bytes.len();
        bytes[place] = patch[2];
    }
    bytes
}
