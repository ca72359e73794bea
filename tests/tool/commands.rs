//! The command-line tool as its users meet it: files, JSON, exit codes, sentences.
//!
//! Small unsharded arrays of raw chunks are written here, so that expected bytes come from this
//! file alone; identity with stores of other software is tests/formats/identity.rs.

use crate::common::cuda_sim;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Extents of every array here, and of its chunks.
const SHAPE: [usize; 2] = [6, 10];
const CHUNK: [usize; 2] = [3, 5];

/// An empty folder of one test.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The bytes of element (y, x): none of them alike.
fn element(size: usize, y: usize, x: usize) -> Vec<u8> {
    (0..size).map(|byte| (1 + y * SHAPE[1] + x + 61 * byte) as u8).collect()
}

/// Writes an array of raw chunks; gives its path.
fn array(folder: &Path, name: &str, data_type: &str, size: usize, fill: Value) -> String {
    let root = folder.join(name);
    for cy in 0..SHAPE[0] / CHUNK[0] {
        for cx in 0..SHAPE[1] / CHUNK[1] {
            let rows = cy * CHUNK[0]..(cy + 1) * CHUNK[0];
            let bytes: Vec<u8> = rows
                .flat_map(|y| (cx * CHUNK[1]..(cx + 1) * CHUNK[1]).map(move |x| (y, x)))
                .flat_map(|(y, x)| {
                    if data_type == "bool" {
                        vec![((x + y) % 2) as u8]
                    } else {
                        element(size, y, x)
                    }
                })
                .collect();
            let path = root.join(format!("c/{cy}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(cx.to_string()), bytes).unwrap();
        }
    }
    let codec = match size {
        1 => json!({"name": "bytes"}),
        _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    };
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNK}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill, "codecs": [codec], "attributes": {},
    });
    fs::write(root.join("zarr.json"), metadata.to_string()).unwrap();
    root.to_str().unwrap().to_owned()
}

fn u16_array(folder: &Path, name: &str) -> String {
    array(folder, name, "uint16", 2, json!(7))
}

/// The bytes of a box of such an array.
fn expected(size: usize, y: std::ops::Range<usize>, x: std::ops::Range<usize>) -> Vec<u8> {
    y.flat_map(|y| x.clone().map(move |x| (y, x))).flat_map(|(y, x)| element(size, y, x)).collect()
}

fn line(uri: &str, boxed: Value) -> String {
    format!("{}\n", json!({"uri": uri, "box": boxed}))
}

fn requests(folder: &Path, lines: &[String]) -> String {
    let path = folder.join("requests.jsonl");
    fs::write(&path, lines.concat()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn tool(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wavetrain")).args(arguments).output().unwrap()
}

/// Runs a command that must succeed without a word on stderr; gives its stdout.
fn good(arguments: &[&str]) -> String {
    let output = tool(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must end with this code; gives its stdout and stderr.
fn bad(code: i32, arguments: &[&str]) -> (String, String) {
    let output = tool(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.starts_with("wavetrain: ") && error.ends_with('\n'), "{arguments:?}: {error}");
    (String::from_utf8(output.stdout).unwrap(), error)
}

/// The header dictionary and the elements of a .npy file, as the format's description reads it.
fn npy(path: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header_bytes = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    assert_eq!((10 + header_bytes) % 64, 0);
    let header = std::str::from_utf8(&bytes[10..10 + header_bytes]).unwrap();
    assert!(header.ends_with('\n'));
    (header.trim_end().to_owned(), bytes[10 + header_bytes..].to_vec())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn one_box_alone_is_written_unstacked_and_bit_for_bit() {
    let folder = folder("unstacked");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    good(&["crop", &uri, "1:5,2:9", "-o", out.to_str().unwrap()]);
    let (header, data) = npy(&out);
    assert_eq!(header, "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 7), }");
    assert_eq!(data, expected(2, 1..5, 2..9));
}

#[test]
fn every_source_type_has_numpys_name() {
    let folder = folder("types");
    let types = [
        ("bool", 1, "|b1"),
        ("int8", 1, "|i1"),
        ("uint8", 1, "|u1"),
        ("int16", 2, "<i2"),
        ("uint16", 2, "<u2"),
        ("bfloat16", 2, "<u2"),
        ("float16", 2, "<f2"),
        ("int32", 4, "<i4"),
        ("uint32", 4, "<u4"),
        ("float32", 4, "<f4"),
        ("int64", 8, "<i8"),
        ("uint64", 8, "<u8"),
        ("float64", 8, "<f8"),
        ("complex64", 8, "<c8"),
        ("complex128", 16, "<c16"),
        ("r48", 6, "|V6"),
    ];
    for (data_type, size, descr) in types {
        let fill = match data_type {
            "bool" => json!(false),
            "complex64" | "complex128" => json!([0, 0]),
            "r48" => json!([0, 0, 0, 0, 0, 0]),
            _ => json!(0),
        };
        let uri = array(&folder, data_type, data_type, size, fill);
        let out = folder.join(format!("{data_type}.npy"));
        good(&["crop", &uri, "2:5,3:8", "-o", out.to_str().unwrap()]);
        let (header, data) = npy(&out);
        let start = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (3, 5), }}");
        assert_eq!(header, start, "{data_type}");
        if data_type != "bool" {
            assert_eq!(data, expected(size, 2..5, 3..8), "{data_type}");
        }
    }
}

#[test]
fn boxes_of_one_shape_stack_in_the_order_of_the_requests() {
    let folder = folder("stack");
    let (a, b) = (u16_array(&folder, "a"), u16_array(&folder, "b"));
    let starts = [3, 0, 2, 1, 3, 0, 1];
    let lines: Vec<String> = starts
        .iter()
        .enumerate()
        .map(|(number, y)| line([&a, &b][number % 2], json!([[y, y + 3], [y + 1, y + 5]])))
        .collect();
    let (list, out) = (requests(&folder, &lines), folder.join("out.npy"));
    good(&["crop", "--requests", &list, "-o", out.to_str().unwrap(), "--batch", "2"]);
    let (header, data) = npy(&out);
    assert!(header.contains("'shape': (7, 3, 4), "), "{header}");
    let all: Vec<u8> = starts.iter().flat_map(|y| expected(2, *y..y + 3, y + 1..y + 5)).collect();
    assert_eq!(data, all);
}

#[test]
fn a_cast_gives_the_type_that_was_asked_for() {
    let folder = folder("cast");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    good(&["crop", &uri, "0:1,0:2", "-o", out.to_str().unwrap(), "--dtype", "f32"]);
    let (header, data) = npy(&out);
    assert!(header.starts_with("{'descr': '<f4', "), "{header}");
    let values = expected(2, 0..1, 0..2);
    let floats = values.chunks(2).map(|pair| f32::from(u16::from_le_bytes([pair[0], pair[1]])));
    assert_eq!(data, floats.flat_map(f32::to_le_bytes).collect::<Vec<_>>());
}

#[test]
fn different_shapes_name_out_dir_and_leave_no_file() {
    let folder = folder("shapes");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    let lines = [line(&uri, json!([[0, 2], [0, 2]])), line(&uri, json!([[0, 2], [0, 3]]))];
    let list = requests(&folder, &lines);
    let (_, error) = bad(1, &["crop", "--requests", &list, "-o", out.to_str().unwrap()]);
    assert!(error.contains("--out-dir"), "{error}");
    assert_eq!(names(&folder), ["a", "requests.jsonl"]);
}

#[test]
fn different_types_name_dtype_and_stack_with_one() {
    let folder = folder("kinds");
    let (a, b) = (u16_array(&folder, "a"), array(&folder, "b", "uint8", 1, json!(0)));
    let lines = [line(&a, json!([[0, 2], [0, 2]])), line(&b, json!([[0, 2], [0, 2]]))];
    let (list, out) = (requests(&folder, &lines), folder.join("out.npy"));
    let out = out.to_str().unwrap();
    let (_, error) = bad(1, &["crop", "--requests", &list, "-o", out]);
    assert!(error.contains("--dtype"), "{error}");
    good(&["crop", "--requests", &list, "-o", out, "--dtype", "i32"]);
    assert!(npy(Path::new(out)).0.contains("'shape': (2, 2, 2), "));
}

#[test]
fn a_folder_takes_any_shapes_under_the_numbers_of_their_requests() {
    let folder = folder("out_dir");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out"));
    let boxes = [(0, 2, 0, 2), (1, 4, 2, 9), (2, 4, 2, 4)];
    let lines = boxes.map(|(y0, y1, x0, x1)| line(&uri, json!([[y0, y1], [x0, x1]])));
    let list = requests(&folder, &lines);
    good(&["crop", "--requests", &list, "--out-dir", out.to_str().unwrap()]);
    assert_eq!(names(&out), ["000000.npy", "000001.npy", "000002.npy"]);
    for (number, (y0, y1, x0, x1)) in boxes.into_iter().enumerate() {
        let (header, data) = npy(&out.join(format!("{number:06}.npy")));
        assert!(header.contains(&format!("({}, {})", y1 - y0, x1 - x0)), "{header}");
        assert_eq!(data, expected(2, y0..y1, x0..x1));
    }
}

#[test]
fn a_failing_request_leaves_the_file_that_was_there() {
    let folder = folder("failing");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    fs::write(&out, "old").unwrap();
    let path = out.to_str().unwrap();
    let (_, error) = bad(1, &["crop", &uri, "0:2,0:2", &uri, "5:7,0:2", "-o", path]);
    assert!(error.contains("request 1") && error.contains("INVALID") && error.contains(&uri));
    assert_eq!(fs::read(&out).unwrap(), b"old");
    assert_eq!(names(&folder), ["a", "out.npy"]);
}

#[test]
fn keep_going_delivers_the_others_and_tells_each_request() {
    let folder = folder("keep_going");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    let broken = u16_array(&folder, "broken");
    fs::write(Path::new(&broken).join("c/0/0"), [1, 2, 3]).unwrap();
    let place = json!([[0, 2], [0, 2]]);
    let lines = [
        line(&uri, place.clone()),
        line(&broken, place.clone()),
        line(folder.join("none").to_str().unwrap(), place.clone()),
        line("s3://bucket/a", place.clone()),
        line(&uri, json!([[4, 6], [8, 10]])),
    ];
    let list = requests(&folder, &lines);
    let common = ["--keep-going", "--json", "--pad-value", "9"];
    let mut command = vec!["crop", "--requests", &list, "-o", out.to_str().unwrap()];
    command.extend(common);
    let (told, error) = bad(1, &command);
    let told: Vec<&str> = told.lines().collect();
    let status = |number: usize| {
        let value: Value = serde_json::from_str(told[number]).unwrap();
        assert_eq!(value["index"], number);
        assert_eq!(value["error"].is_string(), value["status"] != "OK");
        value["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (0..5).map(status).collect::<Vec<_>>(),
        ["OK", "DECODE", "NOT_FOUND", "UNSUPPORTED", "OK"]
    );
    let named = |uri: &str| format!(r#""uri":{},"box":[[0,2],[0,2]]"#, json!(uri));
    assert_eq!(told[0], format!(r#"{{"index":0,"status":"OK",{}}}"#, named(&uri)));
    let broken_line = format!(r#"{{"index":1,"status":"DECODE",{},"error":"#, named(&broken));
    assert!(told[1].starts_with(&broken_line), "{}", told[1]);
    assert!(error.contains(&broken) && error.ends_with("3 of 5 requests failed\n"), "{error}");

    let (header, data) = npy(&out);
    assert!(header.contains("'shape': (5, 2, 2), "), "{header}");
    assert_eq!(data[..8], expected(2, 0..2, 0..2));
    assert_eq!(data[8..16], [9, 0, 9, 0, 9, 0, 9, 0]);
    assert_eq!(data[24..32], [0; 8]);
    assert_eq!(data[32..], expected(2, 4..6, 8..10));

    let many = folder.join("many");
    let mut command = vec!["crop", "--requests", &list, "--out-dir", many.to_str().unwrap()];
    command.extend(common);
    bad(1, &command);
    assert_eq!(names(&many), ["000000.npy", "000004.npy"]);
}

#[test]
fn a_line_that_is_no_request_costs_that_line_alone() {
    let folder = folder("malformed");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    let place = json!([[0, 2], [0, 2]]);
    let (no_box, cut) = (json!({ "uri": uri }).to_string() + "\n", "{\n".to_string());
    let lines = [no_box, line(&uri, place.clone()), cut, line(&uri, place)];
    let list = requests(&folder, &lines);
    let path = out.to_str().unwrap();
    let (_, error) = bad(1, &["crop", "--requests", &list, "-o", path]);
    assert!(error.contains("line 1: no list 'box'") && !out.exists(), "{error}");
    let command = ["crop", "--requests", &list, "-o", path, "--keep-going", "--json"];
    let (told, error) = bad(1, &command);
    let statuses: Vec<String> = told
        .lines()
        .enumerate()
        .map(|(number, told)| {
            let told: Value = serde_json::from_str(told).unwrap();
            assert_eq!(told["index"], number);
            assert_eq!(told["uri"].is_null(), number % 2 == 0, "{told}");
            assert_eq!(told["box"].is_null(), number % 2 == 0, "{told}");
            told["status"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(statuses, ["INVALID", "OK", "INVALID", "OK"]);
    assert!(error.contains("line 3: ") && error.ends_with("2 of 4 requests failed\n"), "{error}");
    let (header, data) = npy(&out);
    assert!(header.contains("'shape': (4, 2, 2), "), "{header}");
    let sound = expected(2, 0..2, 0..2);
    assert_eq!(data, [vec![0; 8], sound.clone(), vec![0; 8], sound].concat());
    // Of nothing but such lines nothing is written.
    let none = requests(&folder, &["{".to_string()]);
    let other = folder.join("other.npy");
    let command = ["crop", "--requests", &none, "-o", other.to_str().unwrap(), "--keep-going"];
    let (_, error) = bad(1, &command);
    assert!(error.ends_with("1 of 1 requests failed\n") && !other.exists(), "{error}");
}

#[test]
fn an_array_without_axes_is_cropped_by_an_empty_box() {
    let folder = folder("scalar");
    let array = folder.join("a");
    fs::create_dir_all(&array).unwrap();
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [], "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [bytes],
    });
    fs::write(array.join("zarr.json"), metadata.to_string()).unwrap();
    fs::write(array.join("c"), [7, 9]).unwrap();
    let (uri, out) = (array.to_str().unwrap(), folder.join("out.npy"));
    good(&["crop", uri, "", "-o", out.to_str().unwrap()]);
    let (header, data) = npy(&out);
    assert!(header.contains("'shape': (), ") && data == [7, 9], "{header}");
    let list = requests(&folder, &[line(uri, json!([])), line(uri, json!([]))]);
    good(&["crop", "--requests", &list, "-o", out.to_str().unwrap()]);
    let (header, data) = npy(&out);
    assert!(header.contains("'shape': (2,), ") && data == [7, 9, 7, 9], "{header}");
}

#[test]
fn a_negative_start_is_given_as_a_flag_and_padded() {
    let folder = folder("negative");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    let path = out.to_str().unwrap();
    let (_, error) = bad(2, &["crop", &uri, "-1:1,0:1", "-o", path]);
    assert!(error.contains("--box="), "{error}");
    good(&["crop", &uri, "--box=-1:1,0:1", "-o", path, "--pad-mode", "constant"]);
    assert_eq!(npy(&out).1, [vec![7, 0], element(2, 0, 0)].concat());
}

#[test]
fn what_cannot_be_meant_is_exit_code_2_and_one_line() {
    let commands: [&[&str]; 15] = [
        &[],
        &["stream"],
        &["--colour"],
        &["bench", "--colour", "1"],
        &["bench"],
        &["bench", "--batch"],
        &["bench", "--batch", "many"],
        &["bench", "--repeat", "0", "--requests", "x"],
        &["bench", "a.zarr", "--requests", "x"],
        &["crop", "a", "0:1"],
        &["crop", "a", "0:1", "-o", "x", "--out-dir", "y"],
        &["crop", "a", "1:1", "-o", "x"],
        &["crop", "a", "0:1", "-o", "x", "--dtype", "float"],
        &["inspect"],
        &["budget", "--backend", "tpu"],
    ];
    for command in commands {
        let (out, error) = bad(2, command);
        assert_eq!((out.as_str(), error.lines().count()), ("", 1), "{command:?}: {error}");
    }
}

#[test]
fn help_is_on_stdout_and_fits_100_columns() {
    for command in ["demo", "inspect", "crop", "bench", "budget"] {
        let help = good(&[command, "--help"]);
        assert_eq!(help, good(&[command, "-h"]));
        assert!(help.contains(&format!("wavetrain {command}")));
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command}");
        assert!(good(&["--help"]).contains(&format!("wavetrain {command}")));
    }
    assert_eq!(good(&["--version"]), format!("wavetrain {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_damaged_request_list_is_named_with_its_line() {
    let folder = folder("list");
    let uri = u16_array(&folder, "a");
    let lines = [line(&uri, json!([[0, 1], [0, 1]])), "\n{\"uri\":\n".to_owned()];
    let list = requests(&folder, &lines);
    let (_, error) = bad(1, &["bench", "--requests", &list]);
    assert!(error.contains(&format!("{list}, line 3: ")), "{error}");
}

/// A bench list of seven boxes, and the f32 bytes of each.
fn bench_list(folder: &Path) -> (String, Vec<Vec<u8>>) {
    let uri = u16_array(folder, "a");
    let starts = [0, 3, 1, 2, 0, 3, 1];
    let lines = starts.map(|y| line(&uri, json!([[y, y + 3], [y, y + 4]])));
    let floats = |y: usize| -> Vec<u8> {
        let bytes = expected(2, y..y + 3, y..y + 4);
        let values = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        values.flat_map(|value| f32::from(value).to_le_bytes()).collect()
    };
    (requests(folder, &lines), starts.into_iter().map(floats).collect())
}

#[test]
fn bench_prints_one_object_with_exactly_its_keys() {
    let folder = folder("bench");
    let (list, _) = bench_list(&folder);
    let out = good(&["bench", "--requests", &list, "--batch", "3", "--json", "--threads", "2"]);
    assert_eq!(out.lines().count(), 1);
    let figures: Value = serde_json::from_str(&out).unwrap();
    let keys: Vec<&String> = figures.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "backend",
            "bill_bytes",
            "bytes_read",
            "chunks_decoded",
            "cpu_seconds",
            "failed",
            "first_batch_seconds",
            "limit",
            "open_seconds",
            "peak_rss_bytes",
            "samples",
            "samples_per_s",
            "seconds",
            "stages",
            "voxel_gb_per_s"
        ]
    );
    assert_eq!((&figures["samples"], &figures["failed"]), (&json!(7), &json!(0)));
    let stage = figures["stages"]["decode"].as_object().unwrap();
    assert_eq!(stage.keys().collect::<Vec<_>>(), ["count", "input_bytes", "ns", "output_bytes"]);
    let seconds = figures["seconds"].as_f64().unwrap();
    let source = figures["voxel_gb_per_s"].as_f64().unwrap() * seconds * 1e9;
    assert!((source - (7 * 12 * 2) as f64).abs() < 1e-3, "{source}");
}

/// Makes the chunks of a raw array zstd frames.
fn compress(array: &Path) {
    for cy in 0..SHAPE[0] / CHUNK[0] {
        for cx in 0..SHAPE[1] / CHUNK[1] {
            let chunk = array.join(format!("c/{cy}/{cx}"));
            let frame = zstd::bulk::compress(&fs::read(&chunk).unwrap(), 3).unwrap();
            fs::write(chunk, frame).unwrap();
        }
    }
    let path = array.join("zarr.json");
    let mut metadata: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let codec = json!({ "name": "zstd", "configuration": { "level": 3, "checksum": false } });
    metadata["codecs"].as_array_mut().unwrap().push(codec);
    fs::write(path, metadata.to_string()).unwrap();
}

#[test]
fn bench_with_a_chunk_cache_tells_its_hits_and_gives_the_same_bytes() {
    let folder = folder("bench_cache");
    let (list, _) = bench_list(&folder);
    compress(&folder.join("a"));
    let run = |more: &[&str]| -> Value {
        let args = ["bench", "--requests", &list, "--batch", "3", "--json", "--verify"];
        serde_json::from_str(&good(&[&args, more].concat())).unwrap()
    };
    let (plain, kept) = (run(&[]), run(&["--chunk-cache-bytes", "1MiB"]));
    assert_eq!(plain["crcs"], kept["crcs"]);
    assert!(plain["chunk_cache"].is_null());
    assert!(kept["chunk_cache"]["hits"].as_u64() > Some(0));
    let cache = kept["chunk_cache"].as_object().unwrap();
    let count = |key: &str| cache[key].as_u64().unwrap();
    // Batches in flight share chunks without a cache, too.
    assert!(count("hits") + count("misses") >= plain["chunks_decoded"].as_u64().unwrap());
    assert_eq!(count("misses"), kept["chunks_decoded"].as_u64().unwrap());
}

#[test]
fn bench_verify_gives_the_crc_of_each_batch() {
    let folder = folder("verify");
    let (list, samples) = bench_list(&folder);
    let expected: Vec<u32> = samples.chunks(3).map(|all| crc32fast::hash(&all.concat())).collect();
    let common = ["bench", "--requests", &list, "--batch", "3", "--json", "--verify"];
    let crcs = |extra: &[&str]| {
        let figures: Value = serde_json::from_str(&good(&[&common, extra].concat())).unwrap();
        figures["crcs"].clone()
    };
    assert_eq!(crcs(&[]), json!(expected));
    assert_eq!(crcs(&["--repeat", "3"]), json!(expected));
    assert_eq!(crcs(&["--thread-mode", "pump"]), json!(expected));
    assert_eq!(crcs(&["--drop-last"]), json!(expected[..2]));
}

#[test]
fn bench_through_a_files_hook_gives_the_same_bytes() {
    let folder = folder("bench_hook");
    let (list, samples) = bench_list(&folder);
    let expected: Vec<u32> = samples.chunks(3).map(|all| crc32fast::hash(&all.concat())).collect();
    let hook =
        ["bench", "--requests", &list, "--batch", "3", "--json", "--verify", "--through-hook"];
    let figures: Value = serde_json::from_str(&good(&hook)).unwrap();
    assert_eq!(figures["crcs"], json!(expected));
    // Names that are no path go to a hook, which has no such file.
    let list = requests(&folder, &[line("s3://bucket/a", json!([[0, 1]]))]);
    let (_, error) = bad(1, &["bench", "--requests", &list, "--through-hook"]);
    assert!(error.contains("NOT_FOUND"), "{error}");
}

#[test]
fn bench_refuses_boxes_of_different_shapes() {
    let folder = folder("bench_shapes");
    let uri = u16_array(&folder, "a");
    let lines = [line(&uri, json!([[0, 2], [0, 2]])), line(&uri, json!([[0, 2], [0, 3]]))];
    let (_, error) = bad(1, &["bench", "--requests", &requests(&folder, &lines)]);
    assert!(error.contains("one shape") && error.contains("request 1"), "{error}");
}

#[test]
fn bench_fails_when_a_sample_fails() {
    let folder = folder("bench_fails");
    let uri = u16_array(&folder, "a");
    let lines = [line(&uri, json!([[0, 2], [0, 2]])), line(&uri, json!([[5, 7], [0, 2]]))];
    let list = requests(&folder, &lines);
    let (out, error) = bad(1, &["bench", "--requests", &list, "--json"]);
    assert!(out.is_empty() && error.contains("request 1"), "{error}");
    let (out, error) = bad(1, &["bench", "--requests", &list, "--json", "--on-error", "skip"]);
    let figures: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&figures["samples"], &figures["failed"]), (&json!(2), &json!(1)));
    assert!(error.contains("request 1") && error.contains("1 of 2 samples failed"), "{error}");
    let (table, _) = bad(1, &["bench", "--requests", &list, "--on-error", "skip"]);
    assert!(table.contains("\n  failed           1\n"), "{table}");
    // A sample that push refuses costs itself alone, too, unless digests go by its position.
    let lines = [line("s3://bucket/a", json!([[0, 2], [0, 2]])), lines.concat()];
    let list = requests(&folder, &lines);
    let skip = ["bench", "--requests", &list, "--json", "--on-error", "skip"];
    let (out, error) = bad(1, &skip);
    let figures: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&figures["samples"], &figures["failed"]), (&json!(2), &json!(2)));
    assert!(error.contains("request 0") && error.contains("2 of 3 samples failed"), "{error}");
    let (out, error) = bad(1, &[&skip[..], &["--digest"]].concat());
    assert!(out.is_empty() && error.contains("request 0"), "{error}");
}

#[test]
fn the_lines_of_the_budget_add_up() {
    let config = ["--sample-shape", "16,64,64", "--batch", "4", "--dtype", "bf16"];
    let out = good(&[&["budget", "--json"], &config[..]].concat());
    let bill: Value = serde_json::from_str(&out).unwrap();
    let lines = bill["lines"].as_array().unwrap();
    let sum: u64 = lines.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
    assert_eq!(json!(sum), bill["total_bytes"]);
    assert!(bill["slot_bytes"].as_u64().unwrap() >= 3 * 4 * 16 * 64 * 64 * 2);
    let table = good(&[&["budget"], &config[..]].concat());
    assert!(lines.iter().all(|line| table.contains(line["name"].as_str().unwrap())));
}

#[test]
fn a_cap_that_is_too_small_is_not_raised_behind_the_users_back() {
    let folder = folder("cap");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    let command = ["crop", &uri, "0:1,0:1", "-o", out.to_str().unwrap()];
    let capped = [&command[..], &["--max-host-memory-bytes", "4k"]].concat();
    assert!(bad(1, &capped).1.contains("BUDGET"));
    // Uncompressed chunks are cut; those with a checksum are decoded whole.
    let document = folder.join("a/zarr.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    meta["codecs"].as_array_mut().unwrap().push(json!({"name": "crc32c"}));
    fs::write(&document, meta.to_string()).unwrap();
    let capped = [&command[..], &["--max-chunk-uncompressed-bytes", "16"]].concat();
    assert!(bad(1, &capped).1.contains("--max-chunk-uncompressed-bytes=16"));
}

#[test]
fn inspect_tells_shape_type_grid_and_codecs() {
    let folder = folder("inspect");
    let uri = u16_array(&folder, "a");
    let info: Value = serde_json::from_str(&good(&["inspect", &uri, "--json"])).unwrap();
    assert_eq!(info["accepted"], true);
    assert_eq!(info["shape"], json!(SHAPE));
    assert_eq!(info["chunk_shape"], json!(CHUNK));
    assert_eq!((&info["dtype"], &info["fill_value"]), (&json!("u16"), &json!("7")));
    assert_eq!(
        (&info["chunks"], &info["files"], &info["bytes"]),
        (&json!(4), &json!(4), &json!(120))
    );
    assert_eq!(info["first_key"], "c/0/0");
    let text = good(&["inspect", &uri]);
    assert!(text.contains("6 x 10 of uint16") && text.contains("accepted"), "{text}");
}

#[test]
fn inspect_tells_the_attributes_that_elements_are_packed_by() {
    let folder = folder("inspect_packed");
    let uri = u16_array(&folder, "plain");
    let info: Value = serde_json::from_str(&good(&["inspect", &uri, "--json"])).unwrap();
    assert_eq!(info["packing"], json!([]));
    assert!(!good(&["inspect", &uri]).contains("packing"));
    let document = folder.join("plain/zarr.json");
    let text = fs::read_to_string(&document).unwrap();
    let attributes = r#""attributes":{"scale_factor":0.5,"missing_value":9,"units":"K"}"#;
    let packed = text.replacen(r#""attributes":{}"#, attributes, 1);
    assert_ne!(packed, text);
    fs::write(&document, packed).unwrap();
    let info: Value = serde_json::from_str(&good(&["inspect", &uri, "--json"])).unwrap();
    assert_eq!(info["packing"], json!(["scale_factor", "_FillValue"]));
    let text = good(&["inspect", &uri]);
    let row = "  packing      scale_factor, _FillValue in its attributes: not applied";
    assert!(text.contains(row), "{text}");
    let decoded = format!("{uri}#cf=1");
    let text = good(&["inspect", &decoded]);
    for row in [
        "  array        6 x 10 of float64 (little-endian)",
        "  codecs       cf(uint16) bytes(little)",
        "  fill value   3.5",
        "  packing      scale_factor, _FillValue in its attributes: applied\n",
        "  first key    c/0/0\n",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    let info: Value = serde_json::from_str(&good(&["inspect", &decoded, "--json"])).unwrap();
    assert_eq!((&info["dtype"], &info["uri"]), (&json!("f64"), &json!(decoded)));
    // The same by the flag, and by a field of a table.
    let made = |uri: &str, more: &[&str]| {
        let file = folder.join("made.npy").to_str().unwrap().to_owned();
        let command = ["crop", uri, "--box", "0:6,0:10", "--out", &file];
        good(&[&command, more].concat());
        fs::read(file).unwrap()
    };
    let wanted = made(&decoded, &[]);
    assert_eq!(made(&uri, &["--cf"]), wanted);
    assert_ne!(made(&uri, &[]), wanted);
    let fields = json!([{"name": "x", "sample_shape": [6, 10], "dtype": "f64", "cf": true}]);
    fs::write(folder.join("fields.json"), fields.to_string()).unwrap();
    let line = json!({"boxes": [{"field": "x", "uri": uri, "box": [[0, 6], [0, 10]]}]});
    fs::write(folder.join("list.jsonl"), line.to_string()).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (table, list, out) = (path("fields.json"), path("list.jsonl"), path("out"));
    good(&["crop", "--fields", &table, "--requests", &list, "--out-dir", &out]);
    assert_eq!(fs::read(folder.join("out/x.000000.npy")).unwrap(), wanted);
    let refused = tool(&["stats", &uri, "--cf"]);
    let says = "stats has no --cf: write #cf=1 at the end of the uri";
    assert!(String::from_utf8_lossy(&refused.stderr).contains(says));
}

#[test]
fn inspect_tells_the_edges_of_a_rectilinear_grid() {
    let folder = folder("rectilinear");
    let uri = u16_array(&folder, "a");
    let path = Path::new(&uri).join("zarr.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    document["chunk_grid"] = json!({"name": "rectilinear", "configuration": {
        "kind": "inline", "chunk_shapes": [[1, 3, 2], 5]
    }});
    fs::write(&path, document.to_string()).unwrap();
    let info: Value = serde_json::from_str(&good(&["inspect", &uri, "--json"])).unwrap();
    assert_eq!((&info["rectilinear"], &info["chunk_bytes"]), (&json!(true), &json!(30)));
    assert_eq!((&info["file_shape"], &info["file_shape_min"]), (&json!([3, 5]), &json!([1, 5])));
    assert_eq!((&info["chunks"], &info["files"]), (&json!(6), &json!(6)));
    let text = good(&["inspect", &uri]);
    assert!(text.contains("rectilinear, edges 1..3 x 5 (up to"), "{text}");
    assert!(text.contains("grid 3 x 2 = 6"), "{text}");
}

#[test]
fn inspect_tells_transposes_and_shards_in_shards() {
    let folder = folder("inspect_nested");
    let uri = u16_array(&folder, "a");
    let path = Path::new(&uri).join("zarr.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let turn = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let shard = |chunk: Value, codecs: Value| {
        json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": chunk, "codecs": codecs, "index_codecs": [bytes]}})
    };
    document["chunk_grid"]["configuration"]["chunk_shape"] = json!([8, 12]);
    let inner = shard(json!([2, 3]), json!([bytes]));
    document["codecs"] =
        json!([shard(json!([4, 6]), json!([turn, shard(json!([6, 4]), json!([turn, inner]))]))]);
    fs::write(&path, document.to_string()).unwrap();
    let info: Value = serde_json::from_str(&good(&["inspect", &uri, "--json"])).unwrap();
    let line = info["codecs"].as_str().unwrap();
    assert_eq!(line.matches("sharding_indexed[").count(), 3, "{line}");
    document["codecs"] =
        json!([shard(json!([4, 6]), json!([turn, shard(json!([3, 2]), json!([bytes]))]))]);
    fs::write(&path, document.to_string()).unwrap();
    let info: Value = serde_json::from_str(&good(&["inspect", &uri, "--json"])).unwrap();
    let shapes = (&info["chunk_shape"], &info["file_shape"], &info["shard_levels"]);
    assert_eq!(shapes, (&json!([2, 3]), &json!([8, 12]), &json!(2)));
    let line = "sharding_indexed[transpose(1,0) sharding_indexed[bytes(little)](index at end)]\
                (index at end)";
    assert_eq!(info["codecs"], line);
    let text = good(&["inspect", &uri]);
    assert!(text.contains(line) && text.contains("shards inside shards"), "{text}");
}

#[test]
fn inspect_of_a_group_tells_every_array_and_what_is_rejected() {
    let folder = folder("group");
    let group = json!({"zarr_format": 3, "node_type": "group"}).to_string();
    fs::create_dir(folder.join("below")).unwrap();
    fs::write(folder.join("zarr.json"), &group).unwrap();
    fs::write(folder.join("below/zarr.json"), &group).unwrap();
    u16_array(&folder, "good");
    let strange = u16_array(&folder.join("below"), "strange");
    let path = Path::new(&strange).join("zarr.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"bytes\"", "\"cipher\"");
    fs::write(&path, text).unwrap();
    let uri = folder.to_str().unwrap();
    let (out, error) = bad(1, &["inspect", uri, "--json"]);
    let infos: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((infos.len(), &infos[2]["accepted"]), (3, &json!(true)));
    assert_eq!((&infos[0]["uri"], &infos[0]["kind"]), (&json!(uri), &json!("group")));
    assert_eq!(infos[0]["nodes"], json!([["below", "group"], ["good", "array"]]));
    assert_eq!((&infos[1]["uri"], &infos[1]["status"]), (&json!(strange), &json!("UNSUPPORTED")));
    assert!(error.contains("cipher"), "{error}");
}

#[test]
fn the_demo_passes_draws_what_it_streamed_and_finds_a_damaged_store() {
    let folder = folder("demo");
    let path = folder.to_str().unwrap();
    let command = ["demo", "--dir", path, "--crops", "8"];
    let text = good(&command);
    assert!(text.contains(path) && text.contains("8 samples of image, mask and label"), "{text}");
    assert!(text.contains("all 25165824 voxels and every label"), "{text}");
    let drawn = text.split_once("\nimage ").unwrap().1.lines().skip(1).take(16);
    let (images, masks): (Vec<&str>, Vec<&str>) =
        drawn.map(|line| (&line[..32.min(line.len())], line.get(34..).unwrap_or(""))).unzip();
    assert!(images.concat().contains('@') && masks[0].ends_with(" cells"), "{text}");
    // Where the mask has nuclei the image is bright.
    let dark = |(image, mask): (&&str, &&str)| {
        let pairs = image.chars().zip(mask.chars().take(32));
        pairs.filter(|(light, kind)| *kind == '#' && " .".contains(*light)).count()
    };
    let nuclei = masks.concat().matches('#').count();
    let dark: usize = images.iter().zip(&masks).map(dark).sum();
    assert!(nuclei > 50 && dark < nuclei / 10, "{dark} of {nuclei}\n{text}");

    let picture = fs::read(folder.join("montage.png")).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(picture)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let width = reader.next_frame(&mut pixels).unwrap().width as usize;
    let colours = |columns: std::ops::Range<usize>| -> std::collections::BTreeSet<&[u8]> {
        let rows = pixels.chunks(3 * width).skip(6).take(256);
        rows.flat_map(|row| row.chunks(3).skip(columns.start).take(columns.len())).collect()
    };
    let kinds: [&[u8]; 3] = [&[10, 10, 16], &[38, 92, 110], &[244, 180, 60]];
    assert!(colours(12..268).len() > 1000);
    assert_eq!(colours(274..530), kinds.into());
    assert_eq!(colours(536..648), [&[3, 3, 5][..], kinds[2]].into());

    let (_, error) = bad(2, &["demo", "--dir", path, "--crops", "5"]);
    assert!(error.contains("at least 6"), "{error}");
    // Most crops at the corner reach into the second shard along z.
    let shard = folder.join("mask/c/1/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    let frames = bytes.len() - (32 * 16 + 4);
    bytes[..frames].reverse();
    fs::write(&shard, bytes).unwrap();
    let (_, error) = bad(1, &command);
    assert!(error.contains("request ") && error.contains("mask"), "{error}");
}

// ---- On a device --------------------------------------------------------------------------------

/// Flags that stream on the simulated driver; None where there is no compiler for it.
fn device_flags() -> Option<[String; 4]> {
    let driver = cuda_sim::library()?;
    let driver = driver.to_str().unwrap();
    Some(["--backend", "cuda", "--cuda-driver", driver].map(str::to_string))
}

/// The arguments and the flags as one list.
fn with<'a>(arguments: &[&'a str], flags: &'a [String]) -> Vec<&'a str> {
    arguments.iter().copied().chain(flags.iter().map(String::as_str)).collect()
}

#[test]
fn a_crop_on_a_device_is_the_same_file() {
    let Some(flags) = device_flags() else { return };
    let folder = folder("crop_device");
    let uri = u16_array(&folder, "a");
    let files = ["host.npy", "device.npy"].map(|name| folder.join(name));
    let [host, device] = files.each_ref().map(|path| path.to_str().unwrap());
    for dtype in ["source", "f32", "bf16"] {
        let crop = |out| ["crop", &uri, "1:5,2:9", "--dtype", dtype, "-o", out];
        good(&[&crop(host)[..], &["--backend", "host"]].concat());
        good(&with(&crop(device), &flags));
        assert_eq!(fs::read(host).unwrap(), fs::read(device).unwrap(), "{dtype}");
    }
    assert_eq!(npy(&files[1]).1.len(), 4 * 7 * 2);
}

#[test]
fn a_bench_on_a_device_gives_the_crcs_of_the_host_and_says_where_it_ran() {
    let Some(flags) = device_flags() else { return };
    let (list, _) = bench_list(&folder("bench_device"));
    let bench = ["bench", "--requests", &list, "--batch", "3", "--verify", "--json"];
    let host = [&bench[..], &["--backend", "host"]].concat();
    let [host, device] = [host, with(&bench, &flags)]
        .map(|arguments| -> Value { serde_json::from_str(&good(&arguments)).unwrap() });
    assert_eq!(host["crcs"], device["crcs"]);
    assert_eq!(host["crcs"].as_array().unwrap().len(), 3);
    assert_eq!(host["backend"], "host: asked for by the config");
    assert_eq!(device["backend"], "cuda: asked for by the config");
    let copies = |figures: &Value| figures["stages"]["input_transfer"]["count"].as_u64().unwrap();
    assert_eq!(copies(&host), 0);
    assert!(copies(&device) > 0);
}

#[test]
fn a_bench_on_a_device_counts_chunks_by_codec_and_one_on_the_host_does_not() {
    let Some(flags) = device_flags() else { return };
    let (list, _) = bench_list(&folder("bench_codecs"));
    let bench = ["bench", "--requests", &list, "--batch", "3"];
    let json = with(&[&bench[..], &["--json"]].concat(), &flags);
    let figures: Value = serde_json::from_str(&good(&json)).unwrap();
    let decoded = &figures["decoded_for_device"];
    // Nothing compressed them.
    assert_eq!(decoded["by_workers"], json!({"none": figures["chunks_decoded"]}));
    assert_eq!((&decoded["in_slab"], &decoded["left_filtered"]), (&json!(0), &json!(0)));
    for nothing in ["by_device", "redone", "why_workers"] {
        assert_eq!(decoded[nothing], json!({}), "{nothing}");
    }
    let line = "none; 0 straight into slabs, 0 of these still shuffled";
    let table = good(&with(&bench, &flags));
    assert!(table.contains(line), "{table}");
    let host = good(&[&bench[..], &["--backend", "host"]].concat());
    assert!(!host.contains("by workers"), "{host}");
}

#[test]
fn the_tool_takes_device_0_where_none_is_named() {
    let Some(flags) = device_flags() else { return };
    let (list, _) = bench_list(&folder("bench_first"));
    let bench = ["bench", "--requests", &list, "--batch", "3", "--json"];
    let auto = [&bench[..], &["--backend", "auto", "--cuda-driver", &flags[3]]].concat();
    let figures: Value = serde_json::from_str(&good(&auto)).unwrap();
    assert_eq!(figures["backend"], "cuda: auto, Simulated GPU 0");
    // The context that is current, of which a program of its own has none.
    let (_, error) = bad(1, &with(&[&bench[..], &["--device", "-1"]].concat(), &flags));
    assert!(error.contains("--device=-1, but this thread has no current context"), "{error}");
    assert!(error.contains("set --device=0"), "{error}");
}

#[test]
fn the_budget_of_a_device_needs_no_driver_and_has_its_pinned_and_device_lines() {
    let nowhere = ["--backend", "cuda", "--cuda-driver", "/nowhere/libcuda.so.1"];
    let config = [&["budget", "--sample-shape", "16,64,64", "--batch", "4"], &nowhere[..]].concat();
    let json: Value = serde_json::from_str(&good(&[&config[..], &["--json"]].concat())).unwrap();
    for kind in ["host", "pinned", "device"] {
        let lines = json["lines"].as_array().unwrap().iter().filter(|line| line["kind"] == kind);
        let sum: u64 = lines.map(|line| line["bytes"].as_u64().unwrap()).sum();
        assert_eq!(json[format!("{kind}_bytes")], sum, "{kind}");
        assert!(sum > 0, "{kind}");
    }
    let table = good(&config);
    assert!(table.contains("pinned slabs") && table.contains("resident waves"), "{table}");
    assert!(table.contains("beside it, uncapped: the driver's context"), "{table}");
    assert!(table.contains("the CPUs less two decode") && table.contains("8 MiB"), "{table}");
    let host = ["budget", "--sample-shape", "16,64,64", "--backend", "host"];
    let host = good(&host);
    assert!(!host.contains("uncapped") && !host.contains("less two"), "{host}");
}

#[test]
fn a_driver_that_is_missing_or_refuses_is_named_with_the_way_out() {
    let folder = folder("no_driver");
    let (uri, out) = (u16_array(&folder, "a"), folder.join("out.npy"));
    let crop = ["crop", &uri, "0:1,0:1", "-o", out.to_str().unwrap(), "--backend", "cuda"];
    let nowhere = [&crop[..], &["--cuda-driver", "/nowhere/libcuda.so.1"]].concat();
    let (_, error) = bad(1, &nowhere);
    assert!(error.contains("/nowhere/libcuda.so.1 cannot be loaded"), "{error}");
    assert!(error.contains("or set --backend=host"), "{error}");
    assert!(!out.exists());
}
