//! Structured elements as zarr-python writes them, in both of its spellings and in zarr v2
//! (tests/data/make_structs.py): each of their fields by its name, and small ones as raw bytes.

use crate::common::drive::{Job, config, stream};
use crate::common::fixtures::{self, Scratch, Store};
use std::fs;
use wavetrain::config::Config;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

fn stores() -> Vec<Store> {
    let stores = fixtures::apart("structs");
    assert_eq!(stores.len(), 40);
    stores
}

/// The whole, and boxes across the borders of chunks.
fn spans() -> [(Vec<i64>, Vec<i64>); 3] {
    [(vec![0, 0], vec![21, 25]), (vec![3, 4], vec![11, 17]), (vec![13, 15], vec![21, 25])]
}

fn config_of(dtype: Dtype, store: &Store, span: &(Vec<i64>, Vec<i64>)) -> Config {
    let extents: Vec<u64> =
        span.0.iter().zip(&span.1).map(|(begin, end)| (end - begin) as u64).collect();
    let bytes = if dtype == Dtype::Raw { store.image.fill.len() } else { 0 };
    Config { dtype_bytes: bytes as u32, ..config(dtype, &extents, 1) }
}

#[test]
fn fields_and_whole_elements_are_those_of_numpy() {
    for store in stores() {
        let dtype = store.image.dtype;
        for span in spans() {
            let job = Job::of(&store, span.clone(), dtype);
            stream(&config_of(dtype, &store, &span), &[job]);
        }
    }
}

#[test]
fn fields_become_floats() {
    let is_number = |store: &&Store| matches!(store.image.dtype, Dtype::I32 | Dtype::F64);
    for store in stores().iter().filter(is_number) {
        let [_, span, _] = spans();
        let job = Job::of(store, span.clone(), Dtype::F32);
        stream(&config_of(Dtype::F32, store, &span), &[job]);
    }
}

/// The description of a uri by array_info.
fn asked(uri: &str) -> Result<(String, String), (Status, String)> {
    let mut scratch = vec![0; SCRATCH_BYTES];
    let text = |bytes: &[core::ffi::c_char]| -> String {
        bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
    };
    let found = loader::array_info(uri, &mut scratch);
    found
        .map(|info| (text(&info.dtype_name), text(&info.codecs)))
        .map_err(|failure| (failure.status, failure.text.as_str().to_string()))
}

#[test]
fn array_info_names_the_type_of_a_field() {
    let root = fixtures::apart("structs")[0].uri.rsplit_once('/').unwrap().0.to_string();
    for (uri, dtype, codecs) in [
        ("struct?field=b", "float64", "bytes(little) zstd"),
        ("struct?field=c", "uint8", "bytes zstd"),
        ("struct/?field=c", "uint8", "bytes zstd"),
        ("struct", "r104", "bytes zstd"),
        ("structured_wide?field=t", "numpy.datetime64[ms]", "bytes(little)"),
        ("structured_wide?field=pair", "r48", "bytes"),
        ("v2_big?field=a", ">i4", "order F"),
        ("v2_big?field=c", "<u2", "order F"),
        ("v2", "|V13", "zstd order C"),
    ] {
        let found = asked(&format!("{root}/{uri}"));
        assert_eq!(found, Ok((dtype.to_string(), codecs.to_string())), "{uri}");
        assert_eq!(asked(&format!("file://{root}/{uri}")), found);
    }
}

#[test]
fn what_names_no_field_that_is_read_is_refused_with_the_names() {
    let root = fixtures::apart("structs")[0].uri.rsplit_once('/').unwrap().0.to_string();
    let names = "\"t\", \"flag\", \"name\", \"z\", \"u\", \"pair\", \"half\", \"last\"";
    let wide = format!("elements of 39 bytes: name one of its fields, ?field=.. of {names}");
    let plain = fixtures::family("matrix").next().unwrap().uri.clone();
    for (uri, status, says) in [
        (format!("{root}/struct?field=d"), Status::Invalid, "no field \"d\", only \"a\", \"b\","),
        (format!("{root}/v2?field="), Status::Invalid, "no field \"\", only \"a\""),
        (format!("{root}/struct_wide"), Status::Unsupported, &wide),
        (format!("{root}/structured_wide"), Status::Unsupported, &wide),
        (format!("{root}/struct_wide?field=name"), Status::Unsupported, "is text or objects"),
        (format!("{root}/struct_wide?field=u"), Status::Unsupported, "is text or objects"),
        (format!("{plain}?field=a"), Status::Invalid, "no fields: leave out ?field="),
        (format!("{root}/absent?field=a"), Status::NotFound, "no such file or folder"),
        (format!("{root}?field=a"), Status::NotFound, "not a zarr array"),
    ] {
        let (found, text) = asked(&uri).expect_err(&uri);
        assert!(found == status && text.contains(says), "{uri}: {found}: {text}");
    }
}

#[test]
fn a_field_of_a_level_is_read() {
    let scratch = Scratch::new();
    let store = stores().into_iter().find(|store| store.name == "struct?field=b").unwrap();
    let path = store.uri.rsplit_once('?').unwrap().0;
    fixtures::copy_folder(path.as_ref(), &scratch.path("s0"));
    let group = r#"{"zarr_format": 3, "node_type": "group", "attributes": {"ome": {
        "version": "0.5", "multiscales": [{"axes": [{"name": "y", "type": "space"},
        {"name": "x", "type": "space"}], "datasets": [{"path": "s0"}]}]}}}"#;
    fs::write(scratch.path("zarr.json"), group).unwrap();
    let [_, span, _] = spans();
    let uri = format!("{}#level=0?field=b", scratch.uri(""));
    let want = Job::of(&store, span.clone(), Dtype::F64);
    let job = Job { uri, ..want };
    stream(&config_of(Dtype::F64, &store, &span), &[job]);
}
