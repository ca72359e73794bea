//! Which forms of arrays each writer's stores have, all of them read whole, bit for bit.
//!
//! `cargo test --test formats writers -- --nocapture` prints the table: a row per form, a column
//! per writer, in each cell the number of stores that are read. What is refused has a table of its
//! own: documents of writers that are well-formed and not read, and what the refusal names.

use crate::common::drive::{stream_as_configured, stream_boxes_by};
use crate::common::fixtures::{self, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wavetrain::abi::ArrayInfo;
use wavetrain::loader::{self, SCRATCH_BYTES};
use wavetrain::records::Dtype;

/// A text of the ABI.
fn text(bytes: &[std::ffi::c_char]) -> String {
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

/// Every form that a store has, as `array_info` tells it.
fn forms(store: &Store, info: &ArrayInfo) -> Vec<String> {
    let codecs = text(&info.codecs);
    let is_v2 = codecs.contains("order ");
    let mut forms = vec![format!("zarr v{}", if is_v2 { 2 } else { 3 })];
    let mut add = |is_there: bool, form: &str| is_there.then(|| forms.push(form.to_string()));
    add(codecs.contains("order F"), "order F of v2");
    add(info.shard_levels == 0, "a file per chunk");
    add(info.shard_levels == 1, "shards");
    add(info.shard_levels == 2, "shards in shards");
    add(codecs.contains("(index at start"), "index at the start");
    add(codecs.contains("(index at end)") || codecs.contains("(index at start)"), "index, no crc");
    add(codecs.contains(", big"), "index, big endian");
    let turned = codecs.find("transpose(");
    add(turned.is_some_and(|at| !codecs[at..].contains("sharding")), "transpose of chunks");
    add(turned.is_some_and(|at| codecs[at..].contains("sharding")), "transpose around shards");
    add(info.is_rectilinear == 1, "rectilinear grid");
    add(info.byte_order == 1, "big endian");
    for codec in ["zstd", "blosc", "gzip", "zlib", "lz4", "bz2", "lzma"] {
        add(store.codecs.iter().any(|name| name == codec), codec);
    }
    add(store.codecs.iter().any(|name| name == "crc32c"), "crc32c of chunks");
    add(store.codecs.is_empty(), "no codec");
    let dtype = store.image.dtype;
    add(dtype == Dtype::Bool, "bool");
    add(dtype == Dtype::Bf16, "bfloat16");
    add(matches!(dtype, Dtype::C64 | Dtype::C128), "complex");
    add(dtype == Dtype::Raw, "raw bits");
    forms
}

#[test]
fn every_form_that_a_writer_makes_is_read() {
    let mut table: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut writers = BTreeSet::new();
    let mut scratch = vec![0; SCRATCH_BYTES];
    for store in fixtures::all() {
        let info = loader::array_info(&store.uri, &mut scratch)
            .unwrap_or_else(|failure| panic!("{}: {failure}", store.name));
        writers.insert(store.writer.as_str());
        for form in forms(store, &info) {
            *table.entry(form).or_default().entry(&store.writer).or_default() += 1;
        }
    }
    let whole =
        |store: &Store| vec![store.image.shape.iter().map(|extent| (0, *extent as i64)).unzip()];
    // On the host alone: tests/formats/identity.rs has the same arrays on a device.
    let read = stream_boxes_by(stream_as_configured, fixtures::all().iter(), whole, None);
    assert_eq!(read, fixtures::all().len());

    print!("{:24}", "form");
    writers.iter().for_each(|writer| print!("{writer:>12}"));
    println!();
    for (form, counts) in &table {
        print!("{form:24}");
        for writer in &writers {
            print!("{:>12}", counts.get(writer).map_or("-".to_string(), usize::to_string));
        }
        println!();
    }
    for (form, fewest) in [
        ("rectilinear grid", 2),
        ("shards in shards", 3),
        ("transpose of chunks", 3),
        ("transpose around shards", 2),
        ("gzip", 4),
        ("bz2", 2),
        ("blosc", 4),
        ("zarr v2", 3),
    ] {
        let made = table.get(form).map_or(0, BTreeMap::len);
        assert!(made >= fewest, "{form} is of {made} writers");
    }
}

#[test]
fn what_is_refused_is_refused_by_name() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut refused = 0;
    for folder in ["metadata", "metadata_v2"] {
        let document = if folder == "metadata" { "zarr.json" } else { ".zarray" };
        let place = fixtures::Scratch::new();
        let mut scratch = vec![0; SCRATCH_BYTES];
        let names = std::fs::read_dir(root.join(folder)).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        for name in names.iter().filter(|name| name.starts_with("refused_")) {
            let stem = name.trim_end_matches(".json");
            let array = place.path(stem);
            std::fs::create_dir_all(&array).unwrap();
            std::fs::copy(root.join(folder).join(name), array.join(document)).unwrap();
            let info = loader::array_info(array.to_str().unwrap(), &mut scratch);
            let failure = info.err().unwrap_or_else(|| panic!("{stem} is read"));
            let reason = failure.text.as_str().rsplit(&format!("{document}: ")).next().unwrap();
            println!("{:32}{:13}{reason}", stem, failure.status.name());
            refused += 1;
        }
    }
    assert!(refused >= 20, "{refused}");
}
