//! `wavetrain check`: every store of the fixtures is sound. A chunk that is then taken away or
//! changed is found, and nothing else.

use crate::common::fixtures::{self, Scratch, Store};
use crate::common::pages::write_demo;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tool(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.arg("check").args(arguments).output().unwrap()
}

/// Runs the command, which must end with this code; the objects that it printed.
fn found(code: i32, arguments: &[&str]) -> Vec<Value> {
    let output = tool(&[arguments, &["--json"]].concat());
    let (text, error) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The chunks of a store, as its writer says.
fn chunks(store: &Store) -> u64 {
    let axes = store.image.shape.iter().zip(&store.chunk);
    axes.map(|(extent, edge)| extent.div_ceil(*edge)).product()
}

#[test]
fn every_store_of_the_fixtures_is_sound() {
    // One process for many: each takes longer to start than to check a store.
    let stores: Vec<&Store> = fixtures::all().iter().collect();
    let uris: Vec<&str> = stores.iter().map(|store| store.uri.as_str()).collect();
    let all = found(0, &uris);
    assert_eq!(all.len(), stores.len());
    for (store, found) in stores.into_iter().zip(&all) {
        assert_eq!(found["bad"], 0, "{found}");
        if store.edges.is_none() {
            assert_eq!(found["chunks"], chunks(store), "{found}");
            let (sound, missing) = (&found["sound"], &found["missing"]);
            assert_eq!(sound.as_u64().unwrap() + missing.as_u64().unwrap(), chunks(store));
        }
        if found["missing"] == 0 {
            let bytes = store.image.dtype.bytes() as u64;
            let elements: u64 = store.image.shape.iter().product();
            assert_eq!(found["bytes"], elements * bytes, "{found}");
        }
    }
}

/// The files of chunks of a store, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if fixtures::is_chunk_path(path.to_str().unwrap().as_bytes()) => found.push(path),
            false => {}
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_missing_or_damaged_is_found_and_nothing_else() {
    let is_plain =
        |store: &&Store| store.shard.is_none() && store.codecs.iter().any(|c| c == "zstd");
    let store = fixtures::all()
        .iter()
        .filter(is_plain)
        .find(|store| store.image.shape.len() == 3 && files(Path::new(&store.uri)).len() > 4);
    let store = store.expect("a store of zstd chunks");
    let scratch = Scratch::new();
    let copy = scratch.copy_of(store, "damaged");
    let uri = copy.to_str().unwrap();
    let before = &found(0, &[uri])[0];
    let paths = files(&copy);
    fs::remove_file(&paths[0]).unwrap();
    fs::write(&paths[2], b"no frame").unwrap();
    let after = &found(1, &[uri])[0];
    let count = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
    assert_eq!((count("missing"), count("bad"), count("chunks")), (1, 1, 0), "{after}");
    let of = |status: &str| -> Vec<&Value> {
        let listed = after["listed"].as_array().unwrap().iter();
        listed.filter(|listed| listed["status"] == status).collect()
    };
    let bad = of("DECODE");
    assert_eq!(bad.len(), 1, "{after}");
    let name = paths[2].strip_prefix(&copy).unwrap().to_str().unwrap();
    assert!(bad[0]["error"].as_str().unwrap().contains(name), "{after}");
    // Its box is that of the chunk of this name.
    let places: Vec<u64> =
        name.trim_start_matches("c/").split('/').map(|n| n.parse().unwrap()).collect();
    let begins: Vec<u64> =
        places.iter().zip(&store.chunk).map(|(place, edge)| place * edge).collect();
    let told: Vec<u64> =
        bad[0]["box"].as_array().unwrap().iter().map(|axis| axis[0].as_u64().unwrap()).collect();
    assert_eq!(told, begins);
    // A file that is missing alone is no failure, unless it is said to be one.
    fs::write(&paths[2], fs::read(files(Path::new(&store.uri))[2].clone()).unwrap()).unwrap();
    found(0, &[uri]);
    found(1, &[uri, "--missing-chunks", "error"]);
    let output = tool(&[uri, "--list", "0"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" missing, 0 bad") && text.contains(" more (--list)"), "{text}");
}

#[test]
fn a_large_chunk_that_nothing_encodes_is_read_in_parts_and_counted_once() {
    let scratch = Scratch::new();
    let uri = scratch.uri("large");
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [3, 700, 903], "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 700, 903]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "fill_value": 0,
    });
    fs::create_dir(&uri).unwrap();
    fs::write(format!("{uri}/zarr.json"), document.to_string()).unwrap();
    for name in ["0.0.0", "1.0.0"] {
        fs::write(format!("{uri}/{name}"), vec![7; 8 * 2 * 700 * 903]).unwrap();
    }
    let sound = &found(0, &[&uri])[0];
    assert_eq!((&sound["chunks"], &sound["bytes"]), (&json!(2), &json!(8 * 3 * 700 * 903)));
    fs::write(format!("{uri}/0.0.0"), b"short").unwrap();
    fs::remove_file(format!("{uri}/1.0.0")).unwrap();
    let damaged = &found(1, &[&uri])[0];
    assert_eq!((&damaged["bad"], &damaged["missing"]), (&json!(1), &json!(1)), "{damaged}");
    assert_eq!(damaged["listed"].as_array().unwrap().len(), 2, "{damaged}");
}

#[test]
fn a_box_that_is_larger_than_a_level_leaves_the_other_levels_of_an_image_priced() {
    let scratch = Scratch::new();
    let image = write_demo(&scratch.path("home"));
    let small = image.join("mask/zarr.json");
    let document = fs::read_to_string(&small).unwrap();
    fs::write(&small, document.replace("[192, 512, 512]", "[16, 32, 32]")).unwrap();
    let found = found(0, &[image.to_str().unwrap(), "--box", "64,128,128"]);
    let warnings = |name: &str| {
        let array = found.iter().find(|array| array["uri"].as_str().unwrap().ends_with(name));
        array.unwrap()["warnings"][0].as_str().unwrap().to_string()
    };
    assert!(warnings("bodies").starts_with("a random box of 64 x 128 x 128 decodes "));
    let text = "no box is priced: it has 16 elements along axis 0, and the box 64";
    assert_eq!(warnings("mask"), text);
}

#[test]
fn boxes_are_priced_and_mistakes_have_reasons() {
    let store = fixtures::family("volumes").find(|store| store.image.shape.len() == 3);
    let store = store.unwrap_or(&fixtures::all()[0]);
    let extents = vec!["1"; store.image.shape.len()].join(",");
    let priced = &found(0, &[&store.uri, "--box", &extents])[0];
    let warnings = priced["warnings"].as_array().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("decodes 1.0 chunks of"), "{priced}");
    for (code, arguments, reason) in [
        (2, &[][..], "check needs a URI"),
        (2, &["a.zarr", "--list", "many"], "--list many: not a number"),
        (2, &["a.zarr", "--dtype", "f32"], "check has that of each array"),
        (2, &["a.zarr", "--on-error", "skip"], "check has that of each array"),
        (1, &["/nothing/here.zarr"], "NOT_FOUND"),
        (2, &[&store.uri, "--box", "1,1,1,1,1,1,1"], "axes, and the box 7"),
    ] {
        let output = tool(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
}
