//! Attributes that elements are packed by: they come out as they are stored, and not without a
//! word. Stores of xarray (tests/data/make_packed.py), and attributes that nobody can read.

use crate::common::drive::{Job, config, open, stream_through};
use crate::common::fixtures::{self, Scratch, Store};
use crate::common::hook::with_hook;
use crate::common::surface::Lines;
use std::fs;
use std::path::Path;
use wavetrain::abi::{
    ArrayInfo, PACKING_FILL, PACKING_OFFSET, PACKING_SCALE, PACKING_UNKNOWN, PACKING_UNSIGNED,
};
use wavetrain::config::{Config, LOG_WARN};
use wavetrain::loader::{SCRATCH_BYTES, array_info};
use wavetrain::records::Dtype;

fn info(uri: &str) -> ArrayInfo {
    array_info(uri, &mut vec![0; SCRATCH_BYTES]).unwrap_or_else(|failure| panic!("{failure}"))
}

fn whole(store: &Store, uri: &str) -> Job {
    let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
    let job = Job::of(store, (vec![0; end.len()], end), store.image.dtype);
    Job { uri: uri.to_string(), ..job }
}

/// Streams a job, and gives the lines of the log.
fn lines_of(change: impl Fn(Config) -> Config, store: &Store, uri: &str) -> Vec<String> {
    let lines = Lines::default();
    let job = whole(store, uri);
    let plain = config(store.image.dtype, &job.extents(), 1);
    let config = change(Config { log: lines.hook(), log_level: LOG_WARN, ..plain });
    let loader = open(&config);
    stream_through(&loader, &config, &[job], 0);
    drop(loader);
    lines.take().into_iter().map(|(_, _, text)| text).collect()
}

fn bit_of(attribute: &str) -> u32 {
    match attribute {
        "scale_factor" => PACKING_SCALE,
        "add_offset" => PACKING_OFFSET,
        "_FillValue" | "missing_value" => PACKING_FILL,
        "_Unsigned" => PACKING_UNSIGNED,
        other => panic!("{other}"),
    }
}

#[test]
fn arrays_of_xarray_come_out_packed_and_a_line_says_so_where_xarray_reads_other_numbers() {
    let stores = fixtures::apart("packed");
    let says = fixtures::packing();
    assert!(stores.len() >= 26);
    for store in &stores {
        let says = &says[&store.name];
        let attributes: Vec<&str> = says["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap())
            .collect();
        let bits = attributes.iter().fold(0, |bits, name| bits | bit_of(name));
        assert_eq!(info(&store.uri).packing, bits, "{}", store.name);
        for change in [|config| config, with_hook as fn(Config) -> Config] {
            let lines = lines_of(change, store, &store.uri);
            assert_eq!(lines.len(), usize::from(says["changes"] == true), "{lines:?}");
            for line in lines {
                assert!(
                    line.starts_with(&format!("{}: its attributes have ", store.uri)),
                    "{line}"
                );
                assert!(line.contains("are delivered packed, as they are stored"), "{line}");
                let named = attributes.iter().filter(|name| **name != "missing_value");
                assert!({ named }.all(|name| line.contains(name)), "{line}");
            }
        }
    }
}

#[test]
fn a_packed_array_is_told_of_once_however_often_it_is_loaded() {
    let stores = fixtures::apart("packed");
    let named = |name: &str| stores.iter().find(|store| store.name == name).unwrap();
    let (first, second, plain) = (named("v2/packed"), named("v3/packed"), named("v2/neutral"));
    let lines = Lines::default();
    let own = config(Dtype::I16, &[4, 6], 1);
    let config = Config { log: lines.hook(), log_level: LOG_WARN, n_array_meta_cache: 1, ..own };
    let loader = open(&config);
    let jobs = [first, plain, first, plain, first].map(|store| whole(store, &store.uri));
    for _ in 0..2 {
        stream_through(&loader, &config, &jobs, 0);
        assert!(loader.stats().unwrap().array_meta_misses >= 4);
        loader.reset().unwrap();
    }
    // It comes last: its path may hash to the place of the first, which would be told of again.
    stream_through(&loader, &config, &[whole(second, &second.uri)], 0);
    let texts: Vec<String> = lines.take().into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with(&first.uri) && texts[1].starts_with(&second.uri), "{texts:?}");
    // Another loader has another log.
    assert_eq!(lines_of(|config| config, first, &first.uri).len(), 1);
}

/// A copy of a plain zarr v2 array with these attributes.
fn with_attributes(scratch: &Scratch, name: &str, attributes: &[u8]) -> (&'static Store, String) {
    let store = fixtures::store("v2_rank2_F_slash");
    let folder = scratch.copy_of(store, name);
    fs::write(folder.join(".zattrs"), attributes).unwrap();
    (store, scratch.uri(name))
}

#[test]
fn attributes_that_cannot_be_read_are_told_of_and_refuse_nothing() {
    let scratch = Scratch::new();
    let mut large = vec![b' '; 5 << 20];
    large[..2].copy_from_slice(b"{}");
    for (name, text, reason) in [
        ("words", &b"no JSON"[..], "not a JSON"),
        ("nothing", b"", "a value is missing"),
        ("cut", b"{\"scale_factor\": 0.5", "a comma or closing bracket is missing"),
        ("bytes", b"{\"a\": \"\xff\"}", "not UTF-8"),
        ("large", &large, "bytes of metadata"),
    ] {
        let (store, uri) = with_attributes(&scratch, name, text);
        assert_eq!(info(&uri).packing, PACKING_UNKNOWN, "{name}");
        let lines = lines_of(|config| config, store, &uri);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(&format!("{uri}/.zattrs: ")), "{lines:?}");
        assert!(lines[0].contains("whether the elements of the array are packed"), "{lines:?}");
        assert!(lines[0].contains(reason) || name == "words", "{lines:?}");
    }
    let (store, uri) = with_attributes(&scratch, "folder", b"");
    fs::remove_file(Path::new(&uri).join(".zattrs")).unwrap();
    fs::create_dir(Path::new(&uri).join(".zattrs")).unwrap();
    for change in [|config| config, with_hook as fn(Config) -> Config] {
        assert_eq!(lines_of(change, store, &uri).len(), 1);
    }
    assert_eq!(info(&uri).packing, PACKING_UNKNOWN);
}

#[test]
fn attributes_that_outgrow_a_small_buffer_are_read_into_a_large_one() {
    let scratch = Scratch::new();
    let text = format!("{{\"history\": \"{}\", \"add_offset\": 3}}", "x".repeat(200_000));
    let (store, uri) = with_attributes(&scratch, "array", text.as_bytes());
    assert_eq!(info(&uri).packing, PACKING_OFFSET);
    for change in [|config| config, with_hook as fn(Config) -> Config] {
        let lines = lines_of(change, store, &uri);
        assert!(lines.len() == 1 && lines[0].contains("add_offset"), "{lines:?}");
    }
}
