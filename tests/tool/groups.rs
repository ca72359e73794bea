//! `wavetrain inspect` of groups as its users meet it: images, plates, and what is not understood.

use crate::common::fixtures::{Scratch, copy_folder, group_uri};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Standard output and standard error of `inspect`, whatever the exit code.
fn inspect(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    let output = command.arg("inspect").args(arguments).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// The exit code of `inspect`.
fn status(arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.arg("inspect").args(arguments).output().unwrap().status.code()
}

/// The JSON objects of `inspect --json`; the first is the group's.
fn objects(uri: &str) -> Vec<Value> {
    let (out, _) = inspect(&[uri, "--json"]);
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_image_is_a_table_of_levels_and_then_its_arrays() {
    let uri = group_uri("ome_zarr_0.5");
    let (text, _) = inspect(&[&uri]);
    for part in [
        "image        cells, OME-NGFF 0.5",
        "axes         t (time), c (channel), z (space, micrometer), y (space, micrometer)",
        "levels       level  shape                type    chunks             scale",
        "s0     1 x 2 x 3 x 14 x 16  uint16  1 x 1 x 2 x 8 x 8  1, 1, 0.5, 0.25, 0.125",
        "s1     1 x 2 x 3 x 7 x 8    uint16",
        "0, 0, 0, 0.125, 0.0625",
        &format!("{uri}/labels/nuclei/s1\n  array        3 x 7 x 8 of int32"),
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_json_of_an_image_has_every_level_and_an_object_per_array() {
    for version in ["0.4", "0.5"] {
        let objects = objects(&group_uri(&format!("ome_zarr_{version}")));
        let image = &objects[0];
        assert_eq!((&image["kind"], &image["name"]), (&json!("image"), &json!("cells")));
        assert_eq!(image["ngff_version"], version);
        assert_eq!(image["levels"][1]["path"], "s1");
        assert_eq!(image["levels"][1]["scale"], json!([1.0, 1.0, 0.5, 0.5, 0.25]));
        assert_eq!(
            image["levels"][0]["axes"][2],
            json!({"name": "z", "type": "space", "unit": "micrometer"})
        );
        // Two levels and the five of the labels, which the group itself does not name.
        assert_eq!(objects.len(), 1 + 2 + 5);
        assert!(objects[1..].iter().all(|array| array["uri"].as_str().unwrap().contains("/s")));
    }
}

#[test]
fn a_plate_tells_its_grid_and_the_fields_of_its_wells() {
    for version in ["0.4", "0.5"] {
        let uri = group_uri(&format!("plate_{version}"));
        let (text, _) = inspect(&[&uri]);
        for part in [
            &format!("plate        screen, OME-NGFF {version}"),
            "grid         2 rows x 3 columns, 3 wells, up to 2 fields each",
            "wells        A/1 (0), A/3 (0 1), B/2 (0)",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let plate = &objects(&uri)[0];
        assert_eq!(
            plate["wells"][1],
            json!({"path": "A/3", "row": 0, "column": 2, "fields": ["0", "1"]})
        );
    }
}

#[test]
fn a_group_named_by_a_file_uri_is_walked() {
    let scratch = Scratch::new();
    copy_folder(Path::new(&group_uri("plain_3")), &scratch.path("a b"));
    let (arrays, folder) = (objects(&scratch.uri("a b")).len(), scratch.uri("a%20b"));
    assert!(arrays > 1);
    for uri in [format!("file://{folder}"), format!("file:{folder}")] {
        assert_eq!(objects(&uri).len(), arrays, "{uri}");
    }
}

fn write_group(scratch: &Scratch, name: &str, attributes: Value) -> String {
    fs::create_dir_all(scratch.path(name)).unwrap();
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    fs::write(scratch.path(name).join("zarr.json"), group.to_string()).unwrap();
    scratch.uri(name)
}

#[test]
fn a_text_lists_some_wells_and_counts_the_rest_and_json_has_all() {
    let scratch = Scratch::new();
    let names = |count: u32| -> Vec<Value> {
        (0..count).map(|number| json!({"name": number.to_string()})).collect()
    };
    let wells: Vec<Value> = (0..100)
        .map(|n| json!({"path": format!("0/{n}"), "rowIndex": 0, "columnIndex": n}))
        .collect();
    let plate = json!({"rows": names(1), "columns": names(100), "wells": wells});
    let uri = write_group(&scratch, "plate", json!({"ome": {"version": "0.5", "plate": plate}}));
    let (text, _) = inspect(&[&uri]);
    assert!(text.contains("0/23 (cannot be read) (and 76 more)"), "{text}");
    let plate = &objects(&uri)[0];
    assert_eq!(plate["wells"].as_array().unwrap().len(), 100);
    assert!(plate["wells"][99]["error"].as_str().unwrap().contains("NOT_FOUND"));
}

#[test]
fn a_group_that_is_not_understood_is_named_with_the_reason() {
    let scratch = Scratch::new();
    let ome = json!({"version": "0.5", "multiscales": [{
        "axes": [{"name": "x"}], "datasets": [{"path": "../outside"}]}]});
    let uri = write_group(&scratch, "image", json!({"ome": ome}));
    let (out, error) = inspect(&[&uri, "--json"]);
    let group: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((&group["accepted"], &group["status"]), (&json!(false), &json!("DECODE")));
    assert!(error.contains("path \"../outside\" leaves the group"), "{error}");
}

#[test]
fn names_of_the_store_do_not_drive_the_terminal() {
    let scratch = Scratch::new();
    let ome = json!({"version": "0.5", "multiscales": [{
        "name": "a\u{1b}[2Jb", "axes": [{"name": "\u{7}x"}], "datasets": [{"path": "0"}]}]});
    let uri = write_group(&scratch, "image", json!({"ome": ome}));
    let (text, _) = inspect(&[&uri]);
    assert!(text.contains("a\\u{1b}[2Jb") && text.contains("\\u{7}x"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
}

#[test]
fn a_level_that_the_metadata_names_and_that_is_absent_is_a_failure_with_its_reason() {
    let scratch = Scratch::new();
    copy_folder(Path::new(&group_uri("ome_zarr_0.5")), &scratch.path("image"));
    let uri = scratch.uri("image");
    assert_eq!(status(&[&uri]), Some(0));
    fs::remove_dir_all(scratch.path("image/s1")).unwrap();
    for more in [&[][..], &["--json"]] {
        let arguments = [&[uri.as_str()], more].concat();
        assert_eq!(status(&arguments), Some(1));
        let (out, error) = inspect(&arguments);
        let reason = format!("{uri}/s1: NOT_FOUND: {uri}/s1: no such file or folder");
        assert!(error.contains(&reason), "{error}");
        assert!(out.contains("NOT_FOUND"), "{out}");
    }
    // A group below is looked at as well.
    let (_, error) = inspect(&[scratch.path("").to_str().unwrap()]);
    assert!(!error.contains("s1"), "no group: {error}");
    write_group(&scratch, "", json!({}));
    let (_, error) = inspect(&[scratch.path("").to_str().unwrap()]);
    assert!(error.contains("image/s1: NOT_FOUND"), "{error}");
}

#[test]
fn an_array_that_may_not_be_looked_at_is_a_failure_with_its_reason() {
    let scratch = Scratch::new();
    copy_folder(Path::new(&group_uri("plain_3")), &scratch.path("group"));
    let document = scratch.path("group/a/zarr.json");
    fs::remove_file(&document).unwrap();
    // A link to itself, which no user can follow: root may read whatever has no permissions.
    std::os::unix::fs::symlink(&document, &document).unwrap();
    let uri = scratch.uri("group");
    assert_eq!(status(&[&uri]), Some(1));
    let (out, error) = inspect(&[&uri, "--json"]);
    assert!(error.contains(&format!("{uri}/a: IO: ")) && error.contains("symbolic"), "{error}");
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((objects.len(), &objects[1]["status"]), (1 + 4, &json!("IO")));
}

#[test]
fn consolidated_metadata_that_does_not_agree_with_the_nodes_is_stale() {
    for (version, document) in [(2, ".zarray"), (3, "zarr.json")] {
        let scratch = Scratch::new();
        let name = format!("plain_{version}_consolidated");
        copy_folder(Path::new(&group_uri(&name)), &scratch.path("group"));
        let uri = scratch.uri("group");
        let (_, error) = inspect(&[&uri]);
        assert_eq!((error.as_str(), &objects(&uri)[0]["stale"]), ("", &json!([])), "{name}");
        let path = scratch.path("group/a").join(document);
        let mut array: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        // Members that other writers leave out, or spell otherwise, are the same.
        array["storage_transformers"] = json!(null);
        array["fill_value"] = json!(0.0);
        fs::write(&path, array.to_string()).unwrap();
        assert_eq!(objects(&uri)[0]["stale"], json!([]), "{name}");
        array["shape"] = json!([8, 5]);
        fs::write(&path, array.to_string()).unwrap();
        copy_folder(&scratch.path("group/a"), &scratch.path("group/new"));
        fs::remove_dir_all(scratch.path("group/deep/d")).unwrap();
        let key = |node: &str| match version {
            2 => format!("{node}/{document}"),
            _ => node.to_owned(),
        };
        let stale = &objects(&uri)[0]["stale"];
        for line in [
            format!("{} differs in shape", key("a")),
            format!("{} is listed and absent", key("deep/d")),
            "new is not listed".to_owned(),
        ] {
            assert!(stale.as_array().unwrap().contains(&json!(line)), "{line}: {stale}");
        }
        let (_, error) = inspect(&[&uri]);
        let says = format!("{uri}: its consolidated metadata is stale: {} differs", key("a"));
        assert!(error.contains(&says) && error.contains("consolidate it again"), "{error}");
    }
}
