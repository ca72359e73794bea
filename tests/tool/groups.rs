//! `wavetrain inspect` of groups as its users meet it: images, plates, and what is not understood.

use crate::common::fixtures::{Scratch, group_uri};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// Standard output and standard error of `inspect`, whatever the exit code.
fn inspect(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    let output = command.arg("inspect").args(arguments).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
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
