//! Zarr v2: documents and stores of zarr-python 3, zarr-python 2 and tensorstore
//! (tests/data/make_v2.py). The stores that are pictures are in identity.rs with all others.

use crate::common::drive::{self, Job, config, first_failure, open, stream};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::hook::with_hook;
use crate::common::oracle::Pad;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use wavetrain::base::text::Text;
use wavetrain::config::{Config, PAD_CONSTANT};
use wavetrain::records::{ArrayRecord, DocumentKind, Dtype};
use wavetrain::source::zarr::{array_from_document, describe, write_file_key};
use wavetrain::status::{Status, Why};

fn bytes_of(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/metadata_v2");
    fs::read(folder.join(format!("{name}.json"))).unwrap()
}

fn record_of(name: &str) -> Result<ArrayRecord, (Status, String)> {
    let mut why = Why::new();
    array_from_document(DocumentKind::Zarr2Array, &bytes_of(name), (name, None), &mut [], &mut why)
        .map_err(|status| (status, why.to_string()))
}

/// The documents of the manifest that are read, or those that are refused.
fn manifest(refused: bool) -> Vec<(String, Value)> {
    let manifest: Value = serde_json::from_slice(&bytes_of("manifest")).unwrap();
    let documents = manifest.as_object().unwrap().clone();
    documents.into_iter().filter(|(_, says)| says["refused"].is_string() == refused).collect()
}

#[test]
fn documents_say_what_their_writers_read_back() {
    let documents = manifest(false);
    assert!(documents.len() >= 30, "{} documents", documents.len());
    for (name, expected) in documents {
        let record = record_of(&name).unwrap();
        let axes = record.axes();
        let last: Vec<u64> = record.file_counts()[..axes].iter().map(|count| count - 1).collect();
        let mut key = Text::<256>::new();
        write_file_key(&record, &last, &mut key);
        let words = describe(&record);
        let fill = &record.fill[..record.dtype_bytes as usize];
        let mut fill = fill.to_vec();
        if cfg!(target_endian = "big") {
            fill.chunks_mut(record.dtype.word_bytes() as usize).for_each(<[u8]>::reverse);
        }
        let found = json!({
            "shape": &record.shape[..axes],
            "chunk_shape": &record.chunk_shape[..axes],
            "dtype_bytes": record.dtype_bytes,
            "fill": fill.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
            "last_key": key.as_str(),
            "dtype_name": words.dtype_name.as_str(),
            "codecs": words.codecs.as_str(),
        });
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn documents_that_are_not_read_are_refused_by_name() {
    let documents = manifest(true);
    assert!(documents.len() >= 15, "{} documents", documents.len());
    for (name, expected) in documents {
        let (status, text) = record_of(&name).expect_err(&name);
        assert_eq!(expected["refused"], status.name(), "{text}");
        assert!(text.starts_with(&format!("{name}/.zarray: ")), "{text}");
        for part in expected["says"].as_array().unwrap() {
            assert!(text.contains(part.as_str().unwrap()), "{text:?} lacks {part}");
        }
    }
}

#[test]
fn the_stores_hold_every_type_in_both_byte_orders_and_element_orders() {
    let names = [
        "bool_one",
        "i8_one",
        "u8_one",
        "i16_little",
        "i16_big",
        "u16_little",
        "u16_big",
        "i32_little",
        "i32_big",
        "u32_little",
        "u32_big",
        "i64_little",
        "i64_big",
        "u64_little",
        "u64_big",
        "f16_little",
        "f16_big",
        "f32_little",
        "f32_big",
        "f64_little",
        "f64_big",
        "c64_little",
        "c64_big",
        "c128_little",
        "c128_big",
        "bf16",
    ];
    for name in names {
        for order in ["C", "F"] {
            fixtures::store(&format!("v2_{name}_{order}"));
        }
    }
    for rank in 1..=6 {
        for layout in ["C_slash", "F_dot", "F_slash"] {
            let store = fixtures::store(&format!("v2_rank{rank}_{layout}"));
            assert_eq!(store.image.shape.len(), rank);
        }
    }
}

/// A store that is no picture, by its name.
fn apart(name: &str) -> Store {
    let stores = fixtures::apart("v2").into_iter();
    stores.into_iter().find(|store| store.name == name).expect(name)
}

fn raw_config(store: &Store, shape: &[u64]) -> Config {
    let mut config = config(Dtype::Raw, shape, 2);
    config.dtype_bytes = store.image.fill.len() as u32;
    config
}

#[test]
fn void_types_come_out_byte_for_byte() {
    for writer in ["zarr3", "zarr2"] {
        for size in [1, 3, 16] {
            let store = apart(&format!("v2_raw{size}_{writer}"));
            let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
            let whole = (vec![0, 0], end);
            let want = store.image.inside(&whole.0, &whole.1);
            let shape = store.image.shape.clone();
            stream(&raw_config(&store, &shape), &[Job::new(&store.uri, whole, want)]);
        }
    }
}

#[test]
fn an_empty_array_reads_as_padding() {
    for writer in ["zarr3", "tensorstore", "zarr2"] {
        let store = apart(&format!("v2_empty_{writer}"));
        assert_eq!(store.image.shape, [0, 5]);
        let config = Config { pad_mode: PAD_CONSTANT, ..config(Dtype::U16, &[2, 5], 1) };
        let span = (vec![0, 0], vec![2, 5]);
        // What is padded takes the array's fill value where pad_value is not set.
        let want = store.image.crop(&span.0, &span.1, Pad::Constant, &42u16.to_le_bytes());
        stream(&config, &[Job::new(&store.uri, span, want)]);
    }
}

#[test]
fn v2_stores_read_through_a_hook() {
    for name in ["v2_rank3_F_slash", "v2_sparse_i16_minus1_zarr2", "v2_u16_big_F"] {
        let store = fixtures::store(name);
        let dtype = store.image.dtype;
        let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
        let job = Job::of(store, (vec![0; end.len()], end), dtype);
        stream(&with_hook(config(dtype, &job.extents(), 1)), &[job]);
    }
}

#[test]
fn few_columns_of_a_column_major_chunk_are_read_without_what_lies_between() {
    // Columns of 3,000 bytes, of which a box needs 20 bytes each, are read together; those of 5,000
    // bytes and more are read apart.
    let store = fixtures::store("v2_columns");
    // What is not in the page cache is read in one go.
    fixtures::read_all(store);
    let apart = Job::of(store, (vec![100, 0], vec![110, 4]), Dtype::U16);
    let scratch = Scratch::new();
    let value = |at: u16| at.to_le_bytes();
    let raw = |rows: u16| {
        let bytes: Vec<u8> = (0..4 * rows).flat_map(value).collect();
        let name = rows.to_string();
        fs::write(scratch.path(&name), bytes).unwrap();
        let uri = format!("raw:{}?dtype=u16&shape={rows},4&order=F", scratch.uri(&name));
        let want = (100..110).flat_map(|y| (0..4).flat_map(move |x| value(y + rows * x)));
        Job::new(&uri, (vec![100, 0], vec![110, 4]), want.collect())
    };
    for (job, bytes) in [(apart, 80), (raw(1500), 9020), (raw(5000), 80)] {
        let config = config(Dtype::U16, &[10, 4], 1);
        let loader = open(&config);
        drive::stream_through(&loader, &config, &[job], 0);
        let stats = loader.stats().unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(stats.io.input_bytes, bytes);
    }
}

#[test]
fn consolidated_metadata_and_attributes_are_not_looked_at() {
    let scratch = Scratch::new();
    let store = fixtures::store("v2_rank2_F_slash");
    let folder = scratch.copy_of(store, "array");
    for name in [".zattrs", ".zmetadata", ".zgroup"] {
        fs::write(folder.join(name), "no JSON").unwrap();
    }
    let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
    let job = Job { uri: scratch.uri("array"), ..Job::of(store, (vec![0, 0], end), Dtype::U16) };
    stream(&config(Dtype::U16, &job.extents(), 1), &[job]);
}

#[test]
fn a_document_that_outgrows_a_small_buffer_is_read_into_a_large_one() {
    let scratch = Scratch::new();
    let store = fixtures::store("v2_rank2_C_slash");
    let folder = scratch.copy_of(store, "array");
    let text = fs::read_to_string(folder.join(".zarray")).unwrap();
    let extra = format!("{{\"extra\": \"{}\",", "x".repeat(200_000));
    fs::write(folder.join(".zarray"), text.replacen('{', &extra, 1)).unwrap();
    let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
    let job = Job { uri: scratch.uri("array"), ..Job::of(store, (vec![0, 0], end), Dtype::U16) };
    for config in
        [config(Dtype::U16, &job.extents(), 1), with_hook(config(Dtype::U16, &job.extents(), 1))]
    {
        stream(&config, std::slice::from_ref(&job));
    }
}

#[test]
fn an_absent_chunk_of_a_vanished_v2_array_is_an_error_and_not_fill() {
    let scratch = Scratch::new();
    let store = fixtures::store("v2_rank2_F_slash");
    let folder = scratch.copy_of(store, "array");
    let uri = scratch.uri("array");
    let config = config(Dtype::U16, &[1, 1], 1);
    let loader = open(&config);
    let image = &store.image;
    let pixel = |y, x| image.inside(&[y, x], &[y + 1, x + 1]);
    let first = Job::new(&uri, (vec![0, 0], vec![1, 1]), pixel(0, 0));
    drive::stream_through(&loader, &config, &[first], 0);
    fs::remove_dir_all(&folder).unwrap();
    // A document of another format in its place is not the one that the array came from.
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("zarr.json"), "{}").unwrap();
    let last = Job::failing(&uri, (vec![12, 10], vec![13, 11]), Status::Io);
    let (_, failure) = first_failure(&loader, &[last]);
    assert_eq!(failure.status, Status::Io, "{failure}");
    let text = failure.text.as_str();
    assert!(
        text.contains("array/.zarray: no such file: the array was there and is gone"),
        "{text}"
    );
}
