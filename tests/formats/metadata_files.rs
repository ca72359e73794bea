//! Documents that zarr-python and tensorstore wrote (tests/data/make_metadata.py): our record says
//! what those libraries read back from them.

use serde_json::Value;
use std::path::PathBuf;
use wavetrain::base::limits::EDGE_RUNS_MAX;
use wavetrain::base::text::Text;
use wavetrain::records::ArrayRecord;
use wavetrain::records::grid::EdgeRun;
use wavetrain::source::zarr::{array_from_zarr3, describe, write_file_key};
use wavetrain::status::{Status, Why};

fn bytes_of(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/metadata");
    std::fs::read(folder.join(format!("{name}.json"))).unwrap()
}

fn record_of(name: &str) -> Result<ArrayRecord, (Status, String)> {
    let mut why = Why::new();
    let table = &mut [EdgeRun::EMPTY; EDGE_RUNS_MAX];
    array_from_zarr3(&bytes_of(name), (name, None), table, &mut why)
        .map_err(|status| (status, why.to_string()))
}

/// Every document of the manifest with what its writer says of it.
fn manifest() -> Vec<(String, Value)> {
    let manifest: Value = serde_json::from_slice(&bytes_of("manifest")).unwrap();
    let documents = manifest.as_object().unwrap().clone();
    assert!(documents.len() >= 38, "{} documents", documents.len());
    documents.into_iter().collect()
}

#[test]
fn shapes_and_element_sizes_are_those_of_the_writer() {
    for (name, expected) in manifest() {
        let record = record_of(&name).unwrap();
        let axes = record.axes();
        assert_eq!(expected["shape"], Value::from(&record.shape[..axes]), "{name}");
        assert_eq!(expected["file_shape"], Value::from(&record.file_shape()[..axes]), "{name}");
        assert_eq!(expected["chunk_shape"], Value::from(&record.chunk_shape[..axes]), "{name}");
        assert_eq!(expected["dtype_bytes"], record.dtype_bytes, "{name}");
    }
}

/// The fill element little-endian, as the manifest has it.
fn fill_hex(record: &ArrayRecord) -> String {
    let size = record.dtype_bytes as usize;
    let mut fill = record.fill[..size].to_vec();
    if cfg!(target_endian = "big") {
        fill.chunks_mut(record.dtype.word_bytes() as usize).for_each(<[u8]>::reverse);
    }
    fill.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn fill_elements_are_those_of_the_writer_bit_for_bit() {
    for (name, expected) in manifest() {
        assert_eq!(expected["fill"], fill_hex(&record_of(&name).unwrap()), "{name}");
    }
}

#[test]
fn the_last_file_is_where_the_writer_put_it() {
    for (name, expected) in manifest() {
        let record = record_of(&name).unwrap();
        let last: Vec<u64> =
            record.file_counts()[..record.axes()].iter().map(|count| count - 1).collect();
        let mut key = Text::<256>::new();
        write_file_key(&record, &last, &mut key);
        assert_eq!(expected["last_key"], key.as_str(), "{name}");
    }
}

#[test]
fn codecs_are_described_as_written() {
    for (name, codecs) in [
        ("zarr_uint16", "bytes(little) zstd"),
        ("zarr_uint8", "bytes zstd"),
        ("zarr_raw", "bytes(little)"),
        ("zarr_crc", "bytes(little) crc32c zstd"),
        ("zarr_sharded_blosc", "sharding_indexed[bytes(little) blosc](index at end, crc32c)"),
        ("zarr_sharded_start", "sharding_indexed[bytes(big) zstd crc32c](index at start)"),
        ("zarr_transpose", "transpose(1,0) bytes(little) zstd"),
        (
            "zarr_nested",
            "sharding_indexed[sharding_indexed[bytes(little)](index at end, crc32c)]\
             (index at end, crc32c)",
        ),
        (
            "zarr_nested_thrice",
            "sharding_indexed[sharding_indexed[sharding_indexed[bytes(little)]\
             (index at end, crc32c)](index at end, crc32c)](index at end, crc32c)",
        ),
        ("tensorstore_crc", "bytes(little) zstd crc32c"),
        ("tensorstore_sharded_start", "sharding_indexed[bytes(little)](index at start, crc32c)"),
    ] {
        assert_eq!(describe(&record_of(name).unwrap()).codecs.as_str(), codecs, "{name}");
    }
    let record = record_of("zarr_V3").unwrap();
    assert_eq!(describe(&record).dtype_name.as_str(), "r24");
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    for (name, status, part) in [
        ("refused_group", Status::NotFound, "is a group"),
        ("refused_numcodecs", Status::Unsupported, "codec \"numcodecs.jenkins_lookup3\""),
        ("refused_snappy", Status::Unsupported, "blosc of \"snappy\""),
        ("refused_string", Status::Unsupported, "data type \"string\""),
        ("refused_text", Status::Unsupported, "data type \"fixed_length_utf32\""),
    ] {
        let (found, text) = record_of(name).unwrap_err();
        assert_eq!(found, status, "{text}");
        assert!(text.starts_with(&format!("{name}/zarr.json: ")) && text.contains(part), "{text}");
    }
}
