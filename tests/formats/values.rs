//! scale_offset and cast_value of zarr-extensions as zarr-python writes them, with cast-value-rs,
//! and reshape of zarrs (tests/data/make_values.py): values are those that they read, bit for bit.

use crate::common::drive::{Job, config, first_failure, open, stream, stream_as_configured};
use crate::common::fixtures::{self, Scratch, Store};
use std::fs;
use std::path::Path;
use wavetrain::config::Config;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn stores(prefix: &str) -> Vec<Store> {
    let mut stores = fixtures::apart("values");
    assert_eq!(stores.len(), 411);
    stores.retain(|store| store.name.starts_with(prefix));
    assert!(!stores.is_empty(), "{prefix}");
    stores
}

/// The whole, and boxes across the borders of chunks.
fn spans(store: &Store) -> Vec<(Vec<i64>, Vec<i64>)> {
    let shape: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
    let whole = (vec![0; shape.len()], shape.clone());
    match shape.len() {
        2 => vec![whole, (vec![3, 4], vec![11, 17]), (vec![13, 15], shape)],
        _ if store.name.starts_with("as_f") => vec![whole, (vec![9], vec![20])],
        _ => vec![whole],
    }
}

#[test]
fn values_are_those_that_the_writer_reads() {
    for store in stores("") {
        for span in spans(&store) {
            let job = Job::of(&store, span, store.image.dtype);
            stream_as_configured(&config(store.image.dtype, &job.extents(), 1), &[job]);
        }
    }
}

#[test]
fn values_become_other_types_and_are_kept() {
    for store in stores("packed_") {
        for span in spans(&store) {
            let job = Job::of(&store, span, Dtype::F32);
            let config = config(Dtype::F32, &job.extents(), 1);
            stream(&config, std::slice::from_ref(&job));
            let kept = Config { chunk_cache_bytes: 1 << 20, ..config };
            stream(&kept, &[job.clone(), job]);
        }
    }
}

fn text(bytes: &[core::ffi::c_char]) -> String {
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

#[test]
fn array_info_names_the_codecs_and_the_type_that_is_stored() {
    for (name, says) in [
        ("scale_alone", "scale_offset bytes(little)"),
        ("scale_big", "scale_offset bytes(big)"),
        ("scale_twice", "scale_offset scale_offset bytes(little)"),
        ("as_u8_of_f64", "cast_value(float64) bytes(little)"),
        ("packed_files", "scale_offset cast_value(uint8) bytes zstd"),
        ("reshape_turned", "transpose(1,0) bytes(little) zstd"),
        ("packed_wide", "cast_value(float64) bytes(big) zstd"),
        ("packed_delta", "cast_value(int32) delta bytes(little) zstd"),
        (
            "packed_shards",
            "sharding_indexed[scale_offset cast_value(uint8) bytes zstd](index at end, crc32c)",
        ),
        (
            "packed_turned",
            "transpose(1,0) scale_offset cast_value(int16) bytes(little) zstd crc32c",
        ),
    ] {
        let store = stores(name).remove(0);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let info = loader::array_info(&store.uri, &mut scratch);
        let info = info.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!(text(&info.codecs), says, "{name}");
    }
}

/// A copy of a store whose first chunk is these bytes, and whose document has other words.
fn changed(store: &Store, scratch: &Scratch, words: &[(&str, &str)], chunk: &[u8]) -> String {
    let folder = scratch.path("changed");
    let _ = fs::remove_dir_all(&folder);
    fixtures::copy_folder(Path::new(&store.uri), &folder);
    let mut document = fs::read_to_string(folder.join("zarr.json")).unwrap();
    document.retain(|letter| !letter.is_whitespace());
    for (from, to) in words {
        assert!(document.contains(from), "{from} in {document}");
        document = document.replace(from, to);
    }
    fs::write(folder.join("zarr.json"), document).unwrap();
    fs::write(folder.join("c/0"), chunk).unwrap();
    folder.to_str().unwrap().to_string()
}

#[test]
fn what_has_no_value_in_the_type_fails_its_chunk() {
    let scratch = Scratch::new();
    let f32s = |value: f32| value.to_le_bytes().repeat(12);
    let i64s = |value: i64| value.to_le_bytes().repeat(12);
    let (float, whole) = ("as_u8_of_f32", "as_i8_of_i64");
    let clamped =
        [("\"data_type\":\"float32\"}", "\"data_type\":\"float32\",\"out_of_range\":\"clamp\"}")];
    for (name, words, chunk, says) in [
        (float, &[][..], f32s(255.5), "filter cast_value: 255.5 does not fit the type that it"),
        (float, &[], f32s(-0.75), "filter cast_value: -0.75 does not fit"),
        (float, &[], f32s(f32::NAN), "NaN does not fit the type that it decodes to, uint8"),
        (float, &clamped, f32s(f32::NAN), "NaN does not fit"),
        (float, &clamped, f32s(f32::INFINITY), "inf does not fit"),
        (whole, &[], i64s(128), "cast_value: 128 does not fit the type that it decodes to, int8"),
        (whole, &[], i64s(i64::MIN), "-9223372036854775808 does not fit"),
    ] {
        let store = stores(name).remove(0);
        let uri = changed(&store, &scratch, words, &chunk);
        let job = Job::failing(&uri, (vec![0], vec![1]), Status::Decode);
        let (_, failure) = first_failure(&open(&config(store.image.dtype, &[1], 1)), &[job]);
        assert_eq!(failure.status, Status::Decode, "{failure}");
        assert!(failure.text.as_str().contains(says), "{failure}, not {says}");
    }
}

/// The texts of scale_offset, whose arrays have two axes.
#[test]
fn scales_are_exact_or_fail_their_chunk() {
    let scratch = Scratch::new();
    let store = stores("scale_i8_down").remove(0);
    let document = fs::read_to_string(Path::new(&store.uri).join("zarr.json")).unwrap();
    let one = |words: &[(&str, &str)], byte: i8| {
        let folder = scratch.path("one");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("c/0")).unwrap();
        let mut text = document.clone();
        text.retain(|letter| !letter.is_whitespace());
        let at = text.find("\"codecs\":").unwrap();
        let end = text[at..].find(",\"attributes\"").unwrap() + at;
        let codecs = "[{\"name\":\"scale_offset\",\"configuration\":{\"scale\":3,\"offset\":100}},\
                      \"bytes\"]";
        text.replace_range(at..end, &format!("\"codecs\":{codecs}"));
        text = text.replace("\"chunk_shape\":[10,14]", "\"chunk_shape\":[1,1]");
        for (from, to) in words {
            assert!(text.contains(from), "{from} in {text}");
            text = text.replace(from, to);
        }
        fs::write(folder.join("zarr.json"), text).unwrap();
        fs::write(folder.join("c/0/0"), byte.to_le_bytes()).unwrap();
        let uri = folder.to_str().unwrap().to_string();
        let job = Job::failing(&uri, (vec![0, 0], vec![1, 1]), Status::Decode);
        first_failure(&open(&config(Dtype::I8, &[1, 1], 1)), &[job]).1.to_string()
    };
    for (words, byte, says) in [
        (&[][..], 4, "filter scale_offset: 4 is not a multiple of its scale"),
        (&[], -5, "filter scale_offset: -5 is not a multiple of its scale"),
        (&[], 84, "filter scale_offset: 128 does not fit the type that it decodes to, int8"),
        (&[("100", "-100")], -87, "-129 does not fit"),
        (&[("\"scale\":3", "\"scale\":-1"), ("100", "0")], -128, "128 does not fit"),
    ] {
        let failure = one(words, byte);
        assert!(failure.contains(says), "{failure}, not {says}");
    }
}
