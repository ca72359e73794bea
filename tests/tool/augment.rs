//! `--augment` of `wavetrain crop` and `bench`: elements are those of numpy and scipy
//! (tests/data/make_augment.py), and what is wrong with a file is reported with its place.

use crate::common::fixtures::group_uri;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASES: &str = include_str!("../data/augment.json");

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool-augment").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn bytes(hex: &Value) -> Vec<u8> {
    let pairs = hex.as_str().unwrap().as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The cases, and a folder for one, with its array and its file.
fn cases() -> Vec<Value> {
    serde_json::from_str(CASES).unwrap()
}

fn prepare(folder: &Path, case: &Value) {
    fs::write(folder.join("a.npy"), bytes(&case["array"])).unwrap();
    fs::write(folder.join("augment.json"), case["file"].to_string()).unwrap();
}

fn tool(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

fn good(folder: &Path, arguments: &[&str]) -> Output {
    let output = tool(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    output
}

/// The elements of a file.
fn elements(path: &Path) -> Vec<u8> {
    let file = fs::read(path).unwrap();
    file[10 + usize::from(u16::from_le_bytes([file[8], file[9]]))..].to_vec()
}

fn flags(case: &Value) -> Vec<&str> {
    case["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect()
}

/// The box of a case as a line has it.
fn axes(case: &Value) -> Value {
    let axes = case["box"].as_str().unwrap().split(',').map(|axis| {
        let (begin, end) = axis.split_once(':').unwrap();
        json!([begin.parse::<i64>().unwrap(), end.parse::<i64>().unwrap()])
    });
    axes.collect()
}

#[test]
fn a_crop_has_what_numpy_makes_of_the_elements_whatever_the_threads() {
    let folder = folder("crop");
    for case in cases() {
        prepare(&folder, &case);
        let words = ["crop", "a.npy", case["box"].as_str().unwrap(), "--augment", "augment.json"];
        for more in [&["-o", "out.npy"][..], &["-o", "out.npy", "--thread-mode", "pump"]] {
            good(&folder, &[&words, &flags(&case)[..], more].concat());
            let expected = bytes(&case["expected"]);
            assert_eq!(elements(&folder.join("out.npy")), expected, "{}", case["file"]);
        }
    }
}

#[test]
fn a_bench_has_the_same_elements_in_each_batch() {
    let folder = folder("bench");
    for case in cases() {
        prepare(&folder, &case);
        let line = json!({"uri": "a.npy", "box": axes(&case)}).to_string();
        fs::write(folder.join("list.jsonl"), [line.clone(), line].join("\n")).unwrap();
        let words = ["bench", "--requests", "list.jsonl", "--augment", "augment.json", "--json"];
        let more = ["--verify", "--batch", "1", "--dtype", case["dtype"].as_str().unwrap()];
        let output = good(&folder, &[&words, &flags(&case)[..], &more].concat());
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        let crc = crc32fast::hash(&bytes(&case["expected"]));
        assert_eq!(figures["crcs"], json!([crc, crc]), "{}", case["file"]);
    }
}

/// A table of two fields of pictures and a label, and a sample of them.
fn fields(folder: &Path, case: &Value) {
    let shape: Vec<i64> = axes(case)
        .as_array()
        .unwrap()
        .iter()
        .map(|axis| axis[1].as_i64().unwrap() - axis[0].as_i64().unwrap())
        .collect();
    let fields = json!([
        {"name": "plain", "sample_shape": shape, "dtype": "f32"},
        {"name": "image", "sample_shape": shape, "dtype": "f32"},
        {"name": "label", "dtype": "i64"},
    ]);
    let piece = |field: &str| json!({"field": field, "uri": "a.npy", "box": axes(case)});
    let line = json!({"boxes": [piece("plain"), piece("image"), {"field": "label", "value": 3}]});
    fs::write(folder.join("fields.json"), fields.to_string()).unwrap();
    fs::write(folder.join("list.jsonl"), line.to_string()).unwrap();
}

const OF_FIELDS: [&str; 6] =
    ["--fields", "fields.json", "--requests", "list.jsonl", "--augment", "augment.json"];

#[test]
fn the_fields_that_the_file_names_have_it_and_no_others() {
    let folder = folder("fields");
    let case = &cases()[2];
    prepare(&folder, case);
    fields(&folder, case);
    let file = json!({"image": case["file"]}).to_string();
    fs::write(folder.join("augment.json"), file).unwrap();
    good(&folder, &[&["crop"], &OF_FIELDS[..], &["--out-dir", "out"]].concat());
    let expected = bytes(&case["expected"]);
    assert_eq!(elements(&folder.join("out/image.000000.npy")), expected);
    let plain = elements(&folder.join("a.npy"));
    let plain: Vec<u8> = plain.iter().flat_map(|byte| f32::from(*byte).to_le_bytes()).collect();
    assert_eq!(elements(&folder.join("out/plain.000000.npy")), plain);
    assert_eq!(elements(&folder.join("out/label.000000.npy")), 3i64.to_le_bytes());

    let output = good(&folder, &[&["bench"], &OF_FIELDS[..], &["--json", "--verify"]].concat());
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let crcs = [&plain[..], &expected, &3i64.to_le_bytes()].map(crc32fast::hash);
    assert_eq!(figures["crcs"], json!([crcs]));
}

/// The cases of a picture that is turned: by linear, and by nearest with a pad value of 7.
fn turned() -> [Value; 2] {
    let turned = |case: &Value| case["file"].as_object().unwrap().keys().eq(["affine"]);
    let mut turned = cases().into_iter().filter(turned);
    [turned.next().unwrap(), turned.next().unwrap()]
}

#[test]
fn fields_have_maps_of_their_own_and_labels_keep_their_type() {
    let folder = folder("maps");
    let cases = turned();
    prepare(&folder, &cases[0]);
    let field = |name: &str, dtype: &str, pad: &str| {
        json!({"name": name, "sample_shape": [3, 7, 5], "dtype": dtype, "pad_mode": pad,
            "pad_value": 7})
    };
    let fields = [field("image", "f32", "reflect"), field("near", "u8", "constant")];
    fs::write(folder.join("fields.json"), json!(fields).to_string()).unwrap();
    let piece =
        |name: &str| json!({"field": name, "uri": "a.npy", "box": [[0, 3], [0, 7], [0, 5]]});
    let line = json!({"boxes": [piece("image"), piece("near")]});
    fs::write(folder.join("list.jsonl"), line.to_string()).unwrap();
    let file = json!({"image": cases[0]["file"], "near": cases[1]["file"]});
    fs::write(folder.join("augment.json"), file.to_string()).unwrap();
    good(&folder, &[&["crop"], &OF_FIELDS[..], &["--out-dir", "out"]].concat());
    for (case, name) in cases.iter().zip(["image", "near"]) {
        let found = elements(&folder.join(format!("out/{name}.000000.npy")));
        assert_eq!(found, bytes(&case["expected"]), "{name}");
    }
}

#[test]
fn an_image_is_read_at_the_level_that_its_map_needs_or_names() {
    let folder = folder("levels");
    let image = group_uri("ome_zarr_0.5");
    let places = ["0:1,0:2,0:3,0:7,0:8", "-o", "out.npy"];
    let crop = |uri: &str, more: &[&str]| {
        good(&folder, &[&["crop", uri], &places[..], more].concat());
        elements(&folder.join("out.npy"))
    };
    let levels = [0, 1].map(|level| crop(&format!("{image}#level={level}"), &[]));
    assert_ne!(levels[0], levels[1]);
    // Level 1 has voxels of 0.5 and 0.25, twice those of level 0, and lies half a voxel further.
    for (affine, level) in [
        (json!({"matrix": [[1, 0, 0], [0, 1, 0]]}), 0),
        (json!({"matrix": [[2, 0, 0.5], [0, 2, 0.5]]}), 1),
        (json!({"matrix": [[2, 0, 0.5], [0, 2, 0.5]], "axes": [3, 4], "level": 1}), 1),
        (json!({"matrix": [[0.5, 0, 0.125], [0, 0.25, 0.0625]], "units": true}), 1),
        (json!({"matrix": [[0.25, 0, 0], [0, 0.125, 0]], "units": true, "level": 0}), 0),
    ] {
        let mut affine = affine;
        affine["filter"] = json!("nearest");
        fs::write(folder.join("f.json"), json!({"affine": affine}).to_string()).unwrap();
        assert_eq!(crop(&image, &["--augment", "f.json"]), levels[level], "{affine}");
    }
    fs::remove_file(folder.join("out.npy")).unwrap();
    let words = [&["crop", &image], &places[..]].concat();
    refused(&folder, &words, "is an image, which is a group, name one of its arrays: s0, s1");
}

/// A level of an image without a chunk, all of it 7; voxels are `step` times those of level 0.
fn write_level(folder: &Path, extent: u64, step: u64) -> Value {
    let name = step.to_string();
    fs::create_dir_all(folder.join(&name)).unwrap();
    let chunks = json!({"name": "regular", "configuration": {"chunk_shape": [512, 512]}});
    let keys = json!({"name": "default", "configuration": {"separator": "/"}});
    let array = json!({
        "zarr_format": 3, "node_type": "array", "shape": [extent, extent], "data_type": "uint8",
        "chunk_grid": chunks, "chunk_key_encoding": keys, "fill_value": 7,
        "codecs": [{"name": "bytes"}], "attributes": {}
    });
    fs::write(folder.join(&name).join("zarr.json"), array.to_string()).unwrap();
    let scale = json!({"type": "scale", "scale": [step, step]});
    json!({"path": name, "coordinateTransformations": [scale]})
}

#[test]
fn staging_is_raised_to_what_the_maps_of_the_boxes_read() {
    let folder = folder("staging");
    let levels = [(40_000, 1), (2500, 16)];
    let levels = levels.map(|(extent, step)| write_level(&folder, extent, step));
    let axes = ["y", "x"].map(|name| json!({"name": name, "type": "space"}));
    let images = json!([{"axes": axes, "datasets": levels}]);
    let ome = json!({"version": "0.5", "multiscales": images});
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}});
    fs::write(folder.join("zarr.json"), group.to_string()).unwrap();
    let write = |affine: Value| {
        fs::write(folder.join("f.json"), json!({"affine": affine}).to_string()).unwrap();
    };
    let crop = |uri: &'static str| {
        ["crop", uri, "0:64,0:64", "-o", "out.npy", "--pad-mode", "edge", "--augment", "f.json"]
    };
    // Level 1 has 2,362 x 2,362 voxels below these places; of level 0 nobody has the memory.
    write(json!({"matrix": [[600, 0, 9], [0, 600, 9]], "filter": "nearest"}));
    good(&folder, &crop("."));
    assert_eq!(elements(&folder.join("out.npy")), [7; 64 * 64]);
    // An array, by crop, by bench, and as a field.
    write(json!({"matrix": [[30, 9, 9], [-9, 30, 900]], "filter": "nearest"}));
    good(&folder, &crop("16"));
    assert_eq!(elements(&folder.join("out.npy")), [7; 64 * 64]);
    fs::remove_file(folder.join("out.npy")).unwrap();
    let line = json!({"uri": "16", "box": [[0, 64], [0, 64]]});
    fs::write(folder.join("lines"), line.to_string()).unwrap();
    let more = ["--augment", "f.json", "--pad-mode", "edge"];
    good(&folder, &[&["bench", "--requests", "lines"], &more[..]].concat());
    let field = json!([{"name": "x", "sample_shape": [64, 64], "dtype": "u8", "pad_mode": "edge"}]);
    fs::write(folder.join("fields.json"), field.to_string()).unwrap();
    let file = fs::read_to_string(folder.join("f.json")).unwrap();
    fs::write(folder.join("x.json"), format!("{{\"x\": {file}}}")).unwrap();
    let boxes = json!({"boxes": [{"field": "x", "uri": "16", "box": [[0, 64], [0, 64]]}]});
    fs::write(folder.join("samples"), boxes.to_string()).unwrap();
    let of_fields = ["--fields", "fields.json", "--augment", "x.json", "--requests", "samples"];
    good(&folder, &[&["bench"], &of_fields[..]].concat());
    // A cap that was given stays.
    for (cap, most) in [
        (["--max-resample-bytes", "2000000"], "2000000"),
        (["--max-chunk-uncompressed-bytes", "1MiB"], "1048576"),
    ] {
        let text = format!("--max-resample-bytes={most}: raise it, or scale less");
        refused(&folder, &[&crop("16")[..], &cap].concat(), &text);
    }
}

#[test]
fn what_is_wrong_with_a_map_is_reported_with_its_place_and_the_way_out() {
    let folder = folder("wrong-maps");
    prepare(&folder, &cases()[0]);
    let whole = json!([[1, 0, 0], [0, 1, 0]]);
    let with = |name: &str, value: Value| {
        let mut affine = json!({"matrix": whole});
        affine[name] = value;
        affine
    };
    for (affine, text) in [
        (json!([]), "augment.json: affine: affine is not a JSON object"),
        (with("border", json!(1)), "unknown key 'border': affine has matrix, axes, filter, level"),
        (json!({}), "affine: no list 'matrix': give a row for each axis that is mapped"),
        (json!({"matrix": []}), "affine: 'matrix' has 0 rows: give 1 to 3, by mapped axis"),
        (json!({"matrix": [1, 2, 3, 4]}), "'matrix' has 4 rows"),
        (json!({"matrix": [[1, 0, 0], [0, 1]]}), "'matrix' has no 3 numbers in row 1: give"),
        (json!({"matrix": [[1, "0"]]}), "'matrix' has no number: \"0\""),
        (with("axes", json!([1])), "'axes' has no 2 whole numbers: give one by row of matrix"),
        (with("axes", json!([1, -2])), "'axes' has no 2 whole numbers"),
        (with("filter", json!("cubic")), "'filter' is \"cubic\": give linear or nearest"),
        (with("level", json!(-1)), "'level' is not a level: give a whole number, or leave it out"),
        (with("units", json!(1)), "'units' is neither true nor false"),
        // The library knows the array.
        (with("axes", json!([1, 3])), "affine: axes[1] = 3 of 3: each must be an axis of the box"),
        (with("axes", json!([1, 1])), "affine: axes[1] = 1 of 3"),
        (json!({"matrix": [[1, 1, 0], [1, 1, 0]]}), "affine: matrix is singular"),
        (with("units", json!(true)), "a.npy: affine: "),
    ] {
        fs::write(folder.join("augment.json"), json!({"affine": affine}).to_string()).unwrap();
        let words = ["crop", "a.npy", "0:3,0:6,0:8", "-o", "out.npy", "--augment", "augment.json"];
        refused(&folder, &words, text);
    }
    fs::write(folder.join("augment.json"), json!({"affine": {"matrix": whole}}).to_string())
        .unwrap();
    let crop = ["crop", "a.npy", "0:3,1:6,0:8", "-o", "out.npy", "--augment", "augment.json"];
    refused(
        &folder,
        &crop,
        "affine: axis 1: begin = 1, step = 1: an axis that is mapped has begin 0",
    );
    let crop = ["crop", "a.npy", "0:3,0:6,0:8", "-o", "out.npy", "--augment", "augment.json"];
    let text = "affine: a linear filter makes floats, not u8: make the field f32";
    refused(&folder, &[&crop[..], &["--dtype", "u8"]].concat(), text);
    // A map of more axes than the box has.
    let three = json!({"matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]});
    fs::write(folder.join("augment.json"), json!({"affine": three}).to_string()).unwrap();
    let line = json!({"uri": "a.npy", "box": [[0, 3], [0, 6]]}).to_string();
    fs::write(folder.join("list.jsonl"), line).unwrap();
    let words = ["crop", "--requests", "list.jsonl", "-o", "out.npy", "--augment", "augment.json"];
    refused(&folder, &words, "affine: axes[2] = 2 of 2");
}

#[test]
fn what_is_wrong_with_a_file_is_reported_with_its_place_and_the_way_out() {
    let folder = folder("wrong");
    let case = &cases()[0];
    prepare(&folder, case);
    let erased = |erased: Value| json!({"erase": [{"begin": [0, 0, 0], "end": [1, 1, 1]}, erased]});
    for (file, text) in [
        (json!([]), "an augment is not a JSON object"),
        (json!({"scales": 1}), "unknown key 'scales': an augment has scale, bias, channel_axis"),
        (json!({"scale": "1"}), "'scale' is not a number: \"1\""),
        (json!({"bias": [1, null]}), "'bias' is not a number: null"),
        (json!({"bias": 4e38}), "'bias' has 4e38: at most 3.4028235e38 fits a float"),
        (
            json!({"scale": [1, 2, 3], "bias": [1, 2]}),
            "scale, bias and values have 3 and 2 numbers: give one, or one for each channel",
        ),
        (json!({"channel_axis": -1}), "'channel_axis' is not an axis: give a whole number"),
        (json!({"noise": 0.5}), "noise is not a JSON object"),
        (json!({"noise": {"key": 1}}), "noise has no 'sigma': give its standard deviation"),
        (json!({"noise": {"sigma": 1, "key": -1}}), "'noise.key' is not a whole number of 64 bits"),
        (json!({"noise": {"sigma": 1, "seed": 1}}), "unknown key 'seed': noise has sigma, key"),
        (json!({"clamp": [1]}), "'clamp' is not a pair: give [least, largest], null for no limit"),
        (json!({"pad_goes_through": 1}), "'pad_goes_through' is neither true nor false"),
        (json!({"erase": {}}), "'erase' is not a list: give [{\"begin\": ..}]"),
        (erased(json!({"begin": [0]})), "erase[1]: no list 'end': give a whole number by axis"),
        (erased(json!({"begin": [0], "end": [1, 1]})), "erase[1]: begin has 1 axes and end 2"),
        (
            erased(json!({"begin": [0], "end": [1], "value": 1, "values": [1]})),
            "erase[1]: value and values: give one of them",
        ),
        (erased(json!({"begin": [0], "end": [1], "values": []})), "erase[1]: 'values' is empty"),
        // The library knows the field.
        (json!({"noise": {"sigma": -1}}), "augment: noise_sigma = -1: must be at least 0"),
        (json!({"clamp": [2, 1]}), "augment: clamp from 2 to 1: must be numbers"),
        (json!({"scale": [1, 2]}), "give as many channels as the axis has places"),
    ] {
        fs::write(folder.join("augment.json"), file.to_string()).unwrap();
        let words = ["crop", "a.npy", "0:3,0:6,0:8", "-o", "out.npy", "--augment", "augment.json"];
        refused(&folder, &words, text);
    }
    fs::write(folder.join("augment.json"), "{\"scale\": 1,\n  bias: 2}").unwrap();
    let words = ["crop", "a.npy", "0:3,0:6,0:8", "-o", "out.npy", "--augment"];
    let at = "augment.json: key must be a string at line 2 column 3";
    refused(&folder, &[&words, &["augment.json"][..]].concat(), at);
    refused(&folder, &[&words, &["lost.json"][..]].concat(), "lost.json: No such file");
    fs::write(folder.join("augment.json"), "{\"scale\": 1}").unwrap();
    let as_they_are = ["augment.json", "--dtype", "source"];
    let text = "augment: its elements are u8: make the field f32, bf16 or f16";
    refused(&folder, &[&words, &as_they_are[..]].concat(), text);
    let elsewhere = ["augment.json", "--backend", "cuda", "--cuda-driver", "lost.so"];
    refused(&folder, &[&words, &elsewhere[..]].concat(), "lost.so");

    fields(&folder, case);
    let by_fields = [&["crop"], &OF_FIELDS[..], &["--out-dir", "out"]].concat();
    for (file, text) in [
        (json!({"scale": 1}), "no field 'scale': with --fields members are of plain, image, label"),
        (json!({"image": {"scale": []}, "mask": {}}), "no field 'mask'"),
        (
            json!({"image": {"bias": true}}),
            "augment.json: field image: 'bias' is not a number: true",
        ),
        (json!({"label": {"bias": 1}}), "field label: augment: its elements are i64"),
    ] {
        fs::write(folder.join("augment.json"), file.to_string()).unwrap();
        refused(&folder, &by_fields, text);
    }
}

/// A command that must fail, with that text.
fn refused(folder: &Path, arguments: &[&str], text: &str) {
    let output = tool(folder, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.contains(text), "{error}\nwanted {text}");
    assert!(!folder.join("out.npy").exists());
}

#[test]
fn the_bill_has_a_line_for_it_and_the_help_has_the_file() {
    let folder = folder("bill");
    let lines = |more: &[&str]| -> Vec<String> {
        let words = ["budget", "--sample-shape", "3,32,32", "--json"];
        let output = good(&folder, &[&words, more].concat());
        let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
        let lines = bill["lines"].as_array().unwrap().iter();
        lines.map(|line| line["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(lines(&["--augment"]).contains(&"augmentation".to_owned()));
    assert!(!lines(&[]).contains(&"augmentation".to_owned()));
    for command in ["crop", "bench"] {
        let help = String::from_utf8(good(&folder, &[command, "--help"]).stdout).unwrap();
        assert_eq!(help.matches("  --augment FILE  ").count(), 1, "{help}");
        assert!(!help.contains("room for arithmetic"), "{help}");
    }
}
