//! `wavetrain crop --fields` and `bench --fields`: samples of several boxes as files and as
//! figures, and what is wrong with them.

use crate::common::npy;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool-fields").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A .npy file of 6 x 8 u8, of which element (y, x) is 10 * y + x; its path.
fn array(folder: &Path) -> String {
    let data: Vec<u8> = (0..6u8).flat_map(|y| (0..8u8).map(move |x| 10 * y + x)).collect();
    let path = folder.join("a.npy");
    fs::write(&path, npy::file("|u1", false, &[6, 8], &data)).unwrap();
    path.to_str().unwrap().to_string()
}

/// Runs a command on a table of fields and lines of requests.
fn run(folder: &Path, command: &[&str], fields: &Value, lines: &[Value]) -> Output {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(folder.join("fields.json"), fields.to_string()).unwrap();
    fs::write(folder.join("requests.jsonl"), lines.join("\n")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_wavetrain"))
        .current_dir(folder)
        .args(command)
        .args(["--requests", "requests.jsonl"])
        .output()
        .unwrap()
}

fn crop(folder: &Path, fields: &Value, lines: &[Value], more: &[&str]) -> Output {
    let command = ["crop", "--fields", "fields.json", "--out-dir", "out"];
    run(folder, &[&command, more].concat(), fields, lines)
}

fn bench(folder: &Path, fields: &Value, lines: &[Value], more: &[&str]) -> Output {
    run(folder, &[&["bench", "--fields", "fields.json"], more].concat(), fields, lines)
}

/// The header's dictionary and the elements of a file.
fn npy(folder: &Path, name: &str) -> (String, Vec<u8>) {
    let file = fs::read(folder.join("out").join(name)).unwrap();
    let limit = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    (
        String::from_utf8(file[10..limit].to_vec()).unwrap().trim().to_string(),
        file[limit..].to_vec(),
    )
}

#[test]
fn an_axis_of_indices_is_read_in_their_order() {
    let folder = folder("indices");
    let uri = array(&folder);
    let fields = json!([{"name": "image", "sample_shape": [2, 3], "dtype": "u8", "pad_value": 9}]);
    let axis = json!({"indices": [7, 0, 0]});
    let lines = [
        json!({"uri": uri, "box": [[2, 4], axis]}),
        json!({"boxes": [{"uri": uri, "box": [{"indices": [5, 1]}, axis], "at": [0, 0]}]}),
        json!({"uri": uri, "box": [{"indices": [3]}, [4, 6]]}),
    ];
    let output = crop(&folder, &fields, &lines, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(npy(&folder, "image.000000.npy").1, [27, 20, 20, 37, 30, 30]);
    assert_eq!(npy(&folder, "image.000001.npy").1, [57, 50, 50, 17, 10, 10]);
    assert_eq!(npy(&folder, "image.000002.npy").1, [34, 35, 9, 9, 9, 9]);
    // Without fields, and with less room than a box takes.
    let command = ["crop", "-o", "one.npy"];
    let output = run(&folder, &command, &fields, &lines[..1]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = fs::read(folder.join("one.npy")).unwrap();
    assert_eq!(file[file.len() - 6..], [27, 20, 20, 37, 30, 30]);
    let command = ["crop", "-o", "one.npy", "--max-indices-per-sample", "2"];
    let output = run(&folder, &command, &fields, &lines[..1]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("--max-indices-per-sample=2"), "{text}");
}

#[test]
fn each_field_of_each_sample_is_a_file() {
    let folder = folder("files");
    let uri = array(&folder);
    let fields = json!([
        {"name": "image", "sample_shape": [2, 3], "dtype": "u8", "pad_value": 200},
        {"name": "label", "dtype": "i64"},
        {"name": "pair", "sample_shape": [2], "dtype": "f32"},
    ]);
    let whole = json!({"field": "image", "uri": uri, "box": [[1, 4], [2, 6]], "step": [2, -1],
        "axes": [0, 1]});
    let lines = [
        json!({"boxes": [{"uri": uri, "box": [[1, 4], [2, 5]], "step": [2, -1]},
            {"field": 1, "value": -7}, {"field": "pair", "value": [1.5, -2]}], "tag": 40}),
        json!({"boxes": [{"field": "image", "uri": uri, "box": [[5, 6], [0, 2]], "at": [1, 1]}]}),
        json!({"uri": uri, "box": [[0, 2], [0, 3]]}),
    ];
    let output = crop(&folder, &fields, &lines, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<String> = fs::read_dir(folder.join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 9);
    assert_eq!(names[0], "image.000000.npy");
    let (header, data) = npy(&folder, "image.000000.npy");
    assert!(header.contains("'|u1'") && header.contains("(2, 3)"), "{header}");
    assert_eq!(data, [14, 13, 12, 34, 33, 32]);
    assert_eq!(npy(&folder, "label.000000.npy").1, (-7i64).to_le_bytes());
    assert_eq!(
        npy(&folder, "label.000000.npy").0,
        "{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
    );
    let pair: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|f| f.to_le_bytes()).collect();
    assert_eq!(npy(&folder, "pair.000000.npy").1, pair);
    assert_eq!(npy(&folder, "image.000001.npy").1, [200, 200, 200, 200, 50, 51]);
    assert_eq!(npy(&folder, "label.000001.npy").1, [0; 8]);
    assert_eq!(npy(&folder, "image.000002.npy").1, [0, 1, 2, 10, 11, 12]);
    let output = crop(&folder, &fields, &[whole], &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("request 0: INVALID: field image: axis 1: 4 places from 0"), "{text}");
}

#[test]
fn what_is_wrong_with_a_table_or_a_line_is_told_with_its_place() {
    let folder = folder("wrong");
    let uri = array(&folder);
    let good = json!([{"name": "image", "sample_shape": [2, 3], "dtype": "u8"},
        {"name": "label", "dtype": "u8"}]);
    let line = json!({"uri": uri, "box": [[0, 2], [0, 3]]});
    for (fields, line, code, text) in [
        (json!([]), line.clone(), 1, "fields.json: no list of fields"),
        (json!([{"name": "a", "dtype": "u17"}]), line.clone(), 1, "field 0: dtype 'u17': no such"),
        (json!([{"name": "a", "shape": [3]}]), line.clone(), 1, "field 0: unknown key 'shape'"),
        (json!([{"name": "a"}, {"name": "a"}]), line.clone(), 1, "two fields are named a"),
        (
            good.clone(),
            json!({"boxes": [{"field": 2, "value": 1}]}),
            1,
            "line 1: no such field: there are image, label",
        ),
        (
            good.clone(),
            json!({"boxes": [{"field": 1, "value": 256}]}),
            1,
            "u8 cannot hold the value 256",
        ),
        (
            good.clone(),
            json!({"boxes": [{"field": 1, "value": [[1], 2]}]}),
            1,
            "lists and numbers side by side",
        ),
        (
            good.clone(),
            json!({"boxes": [{"field": 1, "value": [[1], [2, 3]]}]}),
            1,
            "lists of different lengths",
        ),
        (
            good.clone(),
            json!({"boxes": [{"field": 1}]}),
            1,
            "a box has a uri and a box, or a value",
        ),
        (
            good.clone(),
            json!({"boxes": [{"uri": uri, "box": [[0, 2]], "by": 1}]}),
            1,
            "unknown key 'by'",
        ),
        (
            good.clone(),
            json!({"boxes": [line, line]}),
            1,
            "request 0: INVALID: field image: boxes 0 and 1 overlap",
        ),
        (
            good.clone(),
            json!({"boxes": [], "tag": 5}),
            1,
            "request 0 (tag 5): INVALID: a sample of 0 boxes",
        ),
    ] {
        let output = crop(&folder, &fields, &[line], &[]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && told.contains(text), "{told}\nwanted {text}");
    }
    let output = crop(&folder, &good, &[line], &["--json"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn samples_that_fail_have_no_file_and_the_others_have() {
    let folder = folder("skip");
    let uri = array(&folder);
    let fields = json!([{"name": "image", "sample_shape": [2, 3], "dtype": "u8"}]);
    let of = |uri: &str| json!({"uri": uri, "box": [[0, 2], [0, 3]]});
    let lines = [of("no/such.npy"), of(&uri)];
    let output = crop(&folder, &fields, &lines, &["--keep-going"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("request 0: NOT_FOUND: /") && told.contains("1 of 2 requests failed"),
        "{told}"
    );
    assert!(!folder.join("out/image.000000.npy").exists());
    assert_eq!(npy(&folder, "image.000001.npy").1, [0, 1, 2, 10, 11, 12]);
}

/// Images of two boxes, one of them backwards, a number, and what nobody fills.
fn bench_samples(folder: &Path) -> (Value, Vec<Value>, [Vec<Vec<u8>>; 3]) {
    let uri = array(folder);
    let fields = json!([
        {"name": "image", "sample_shape": [2, 2, 3], "dtype": "f32"},
        {"name": "label", "dtype": "i64"},
        {"name": "nothing", "sample_shape": [4], "dtype": "u8", "pad_value": 9},
    ]);
    let mut expected = [const { Vec::new() }; 3];
    let lines = (0..5u8).map(|y| {
        let label = i64::from(y) - 2;
        let channel = |y: u8, step: i8| {
            let column = move |x: i8| if step > 0 { x } else { 2 * (2 - x) };
            let element = move |y: u8, x: i8| f32::from(10 * y + column(x) as u8);
            (y..y + 2).flat_map(move |y| (0..3).flat_map(move |x| element(y, x).to_le_bytes()))
        };
        expected[0].push(channel(y, 1).chain(channel(0, -1)).collect());
        expected[1].push(label.to_le_bytes().to_vec());
        expected[2].push(vec![9; 4]);
        json!({"tag": 40 + y, "boxes": [
            {"field": "image", "uri": uri, "box": [[y, y + 2], [0, 3]], "axes": [1, 2]},
            {"field": 0, "uri": uri, "box": [[0, 2], [0, 5]], "step": [1, -2], "axes": [1, 2],
                "at": [1, 0, 0]},
            {"field": "label", "value": label},
        ]})
    });
    (fields, lines.collect(), expected)
}

#[test]
fn a_bench_of_fields_has_the_same_figures_and_a_crc_of_each_field_of_each_batch() {
    let folder = folder("bench");
    let (fields, lines, expected) = bench_samples(&folder);
    let figures = |more: &[&str]| -> Value {
        let output = bench(&folder, &fields, &lines, &[&["--json", "--batch", "2"], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let of_batch = |batch: usize| -> Vec<u32> {
        let rows = |field: &Vec<Vec<u8>>| field.chunks(2).nth(batch).unwrap().concat();
        expected.iter().map(|field| crc32fast::hash(&rows(field))).collect()
    };
    let crcs: Vec<Vec<u32>> = (0..3).map(of_batch).collect();
    let told = figures(&["--verify", "--repeat", "3"]);
    assert_eq!(told["crcs"], json!(crcs));
    assert_eq!(figures(&["--verify", "--thread-mode", "pump"])["crcs"], json!(crcs));
    assert_eq!(told["samples"], 5);
    let plain = figures(&[]);
    assert!(plain["crcs"].is_null());
    // Boxes of arrays alone are source voxels: 6 of each, in u8, also where every second is read.
    let source = plain["voxel_gb_per_s"].as_f64().unwrap() * plain["seconds"].as_f64().unwrap();
    assert!((source * 1e9 - 60.0).abs() < 1e-3, "{source}");
    let keys = |figures: &Value| -> Vec<String> {
        figures.as_object().unwrap().keys().filter(|key| *key != "crcs").cloned().collect()
    };
    let uri = array(&folder);
    let line = json!({"uri": uri, "box": [[0, 2], [0, 3]]});
    let output = run(&folder, &["bench", "--json"], &fields, &[line]);
    assert_eq!(keys(&plain), keys(&serde_json::from_slice(&output.stdout).unwrap()));

    let output = bench(&folder, &fields, &lines, &["--batch", "2", "--verify"]);
    let table = String::from_utf8(output.stdout).unwrap();
    for (field, name) in ["image", "label", "nothing"].into_iter().enumerate() {
        let list: Vec<String> = crcs.iter().map(|batch| format!("{:08x}", batch[field])).collect();
        assert!(table.contains(&format!("CRC-32 of {name}: {}\n", list.join(" "))), "{table}");
    }
}

#[test]
fn a_bench_of_fields_names_what_is_wrong_and_the_way_out() {
    let folder = folder("bench-wrong");
    let (fields, lines, _) = bench_samples(&folder);
    let lost = json!({"tag": 7, "boxes": [{"uri": "no/such.npy", "box": [[0, 1]]}]});
    let told = |output: &Output, code: i32| {
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr.clone()).unwrap()
    };
    for (more, code, text) in [
        (&["--sample-shape", "4"][..], 1, "INVALID: --sample-rank is set, and so is fields"),
        (&["--out-dir", "out"], 2, "unknown flag '--out-dir': wavetrain bench --help lists them"),
        (&["--max-host-memory-bytes", "1k"], 1, "raise"),
        (&["--fields", "other.json"], 1, "other.json: No such file"),
    ] {
        let error = told(&bench(&folder, &fields, &lines, more), code);
        assert!(error.contains(text), "{error}");
    }
    let output = run(&folder, &["bench"], &fields, &lines);
    let error = told(&output, 1);
    assert!(error.contains("line 1: a request of several boxes needs --fields FILE"), "{error}");
    let output = bench(&folder, &fields, std::slice::from_ref(&lost), &[]);
    assert!(told(&output, 1).contains("request 0 (tag 7): "), "{output:?}");
    let all = [&lines[..], &[lost]].concat();
    let output = bench(&folder, &fields, &all, &["--on-error", "skip", "--json"]);
    let error = told(&output, 1);
    assert!(error.contains("request 5 (tag 7): "), "{error}");
    assert!(error.ends_with("1 of 6 samples failed\n"), "{error}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["samples"], 6);
}
