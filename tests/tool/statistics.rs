//! `wavetrain stats`: the figures are those of numpy (tests/data/make_statistics.py), whatever
//! threads and batches there are.

use crate::common::fixtures::{self, Scratch};
use crate::common::npy;
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output};

/// The largest difference of a mean or a deviation, as a part of it: some roundings of a double.
const ROUNDING: f64 = 1e-15;

/// The largest difference of a percentile, as a part of the range: what --help states.
const PERCENTILE: f64 = 5e-4;

fn tool(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.arg("stats").args(arguments).output().unwrap()
}

/// Runs a command that must succeed without a word on stderr; gives its stdout.
fn good(arguments: &[&str]) -> String {
    let output = tool(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn figures(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[arguments, &["--json"]].concat())).unwrap()
}

fn refused(code: i32, arguments: &[&str], reason: &str) {
    let output = tool(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(reason) && output.stdout.is_empty(), "{arguments:?}: {error}");
}

/// A case of the generator, and the arguments that ask for it.
fn cases() -> Vec<(Value, Vec<String>)> {
    let folder = fixtures::statistics();
    let cases = fs::read_to_string(folder.join("cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let with_arguments = cases.into_iter().map(|case| {
        let store = folder.join("stores").join(case["store"].as_str().unwrap());
        let mut arguments = vec![store.to_str().unwrap().to_owned(), "--percentiles".to_owned()];
        if let Some(axes) = case["box"].as_array() {
            let ends: Vec<_> = axes.iter().map(|axis| format!("{}:{}", axis[0], axis[1])).collect();
            arguments.extend(["--box".to_owned(), ends.join(",")]);
        }
        if let Some(axis) = case["axis"].as_u64() {
            arguments.extend(["--by-axis".to_owned(), axis.to_string()]);
        }
        (case, arguments)
    });
    with_arguments.collect()
}

fn close(found: &Value, expected: &Value, bound: f64) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= bound,
        _ => found == expected,
    }
}

#[test]
fn figures_are_those_of_numpy_for_every_type_box_and_axis() {
    const PERCENTS: [&str; 9] = ["0.1", "1", "5", "25", "50", "75", "95", "99", "99.9"];
    for (case, arguments) in cases() {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let found = figures(&arguments);
        assert_eq!(found["fill_value"], case["fill_value"], "{arguments:?}");
        let (sets, expected) =
            (found["sets"].as_array().unwrap(), case["sets"].as_array().unwrap());
        assert_eq!(sets.len(), expected.len(), "{arguments:?}");
        let is_narrow = ["int8", "int16", "float16", "bool"];
        let is_exact = is_narrow.iter().any(|name| case["dtype"].as_str().unwrap().ends_with(name));
        for (number, (set, expected)) in sets.iter().zip(expected).enumerate() {
            let wrong = || format!("{arguments:?}, set {number}: {set} and not {expected}");
            for name in ["count", "nan_count", "fill_share", "min", "max"] {
                assert_eq!(set[name], expected[name], "{}", wrong());
            }
            for name in ["mean", "std"] {
                let bound = ROUNDING * expected[name].as_f64().unwrap_or(0.0).abs();
                assert!(close(&set[name], &expected[name], bound), "{}", wrong());
            }
            let ends = ["max", "min"].map(|name| expected[name].as_f64().unwrap_or(0.0));
            // Percentiles are doubles, whose last place may be larger than the range.
            let place = ROUNDING * ends[0].abs();
            let bound = if is_exact { 0.0 } else { PERCENTILE * (ends[0] - ends[1]) + place };
            for (place, percent) in PERCENTS.iter().enumerate() {
                // Without a number both are null.
                let found = set["percentiles"].get(percent).unwrap_or(&Value::Null);
                let expected = expected["percentiles"].get(place).unwrap_or(&Value::Null);
                assert!(close(found, expected, bound), "{percent} %: {}", wrong());
            }
            if let Some(axis) = case["axis"].as_u64() {
                let begin = case["box"][axis as usize][0].as_u64().unwrap_or(0);
                assert_eq!(set["index"], begin + number as u64);
            }
        }
    }
}

#[test]
fn figures_do_not_depend_on_threads_batches_or_caps() {
    let large = cases().into_iter().filter(|(case, _)| {
        case["store"].as_str().unwrap().starts_with("large") && case["axis"] != json!(0)
    });
    for (_, arguments) in large {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let found = good(&[&arguments[..], &["--json"]].concat());
        for flags in [
            &["--threads", "1", "--samples-per-batch", "1"][..],
            &["--threads", "3", "--samples-per-batch", "3", "--n-batch-slots", "4"],
            &["--thread-mode", "pump", "--max-chunk-uncompressed-bytes", "8MiB"],
        ] {
            assert_eq!(good(&[&arguments[..], &["--json"], flags].concat()), found, "{flags:?}");
        }
    }
}

#[test]
fn chunks_of_unequal_lengths_are_counted_once() {
    let stores = fixtures::all().iter().filter(|store| store.edges.is_some());
    let mut count = 0;
    for store in stores.filter(|store| store.image.dtype.name() == "u16") {
        let elements = store.image.pixels.chunks(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        let sum: u64 = elements.clone().map(u64::from).sum();
        let set = &figures(&[&store.uri])["sets"][0];
        assert_eq!(set["count"], elements.len(), "{}", store.uri);
        assert_eq!(set["mean"], sum as f64 / elements.len() as f64, "{}", store.uri);
        count += 1;
    }
    assert!(count > 0);
}

/// An uncompressed array of u8 that is one chunk of 36 MB, of which most is a hole.
fn plain(scratch: &Scratch) -> String {
    let uri = scratch.path("plain");
    fs::create_dir_all(uri.join("c/0")).unwrap();
    let chunk = json!({"name": "regular", "configuration": {"chunk_shape": [6000, 6000]}});
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [6000, 6000], "data_type": "uint8",
        "chunk_grid": chunk, "chunk_key_encoding": {"name": "default"}, "fill_value": 9,
        "codecs": [{"name": "bytes"}],
    });
    fs::write(uri.join("zarr.json"), metadata.to_string()).unwrap();
    let file = fs::File::create(uri.join("c/0/0")).unwrap();
    file.set_len(6000 * 6000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[200; 100], 6000 * 5999).unwrap();
    uri.to_str().unwrap().to_owned()
}

#[test]
fn a_plain_chunk_is_read_in_parts_and_the_table_has_a_line_for_each_index() {
    let scratch = Scratch::new();
    let uri = plain(&scratch);
    let set = &figures(&[&uri])["sets"][0];
    assert_eq!((&set["count"], &set["max"]), (&json!(36_000_000), &json!(200)));
    assert_eq!(set["mean"], 100.0 * 200.0 / 36e6);
    let text = good(&[&uri, "--box", "5998:,0:200", "--by-axis", "0", "--percentiles"]);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let expected = "  u8 of 5998:6000,0:200, fill value 9

  index  count  nan    fill  min  max  mean  std
   5998    200    0  0.00 %    0    0     0    0
   5999    200    0  0.00 %    0  200   100  100

  index  0.1 %  1 %  5 %  25 %  50 %  75 %  95 %  99 %  99.9 %
   5998      0    0    0     0     0     0     0     0       0
   5999      0    0    0     0   100   200   200   200     200";
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn an_array_without_elements_and_a_set_without_numbers_have_no_figures() {
    let scratch = Scratch::new();
    let file = |name: &str, dtype: &str, shape: &[u64], data: &[u8]| {
        fs::write(scratch.path(name), npy::file(dtype, false, shape, data)).unwrap();
        scratch.uri(name)
    };
    let none = json!({"count": 0, "nan_count": 0, "fill_share": null, "min": null, "max": null,
        "mean": null, "std": null});
    assert_eq!(figures(&[&file("empty.npy", "<f4", &[0, 3], &[])])["sets"], json!([none]));
    let nan = f32::NAN.to_le_bytes();
    let sets = &figures(&[&file("nan.npy", "<f4", &[1], &nan)])["sets"];
    let mut only_nan = none.clone();
    (only_nan["nan_count"], only_nan["fill_share"]) = (json!(1), json!(0.0));
    assert_eq!(sets, &json!([only_nan]));
    // An array without axes is one element.
    let sets = &figures(&[&file("scalar.npy", "<f4", &[], &2.5f32.to_le_bytes())])["sets"];
    assert_eq!((&sets[0]["count"], &sets[0]["mean"]), (&json!(1), &json!(2.5)));
    // numpy has these too.
    let elements = [1.0, f32::INFINITY, 2.0].map(f32::to_le_bytes).concat();
    let sets = &figures(&[&file("infinite.npy", "<f4", &[3], &elements)])["sets"];
    let figures = ["min", "max", "mean", "std"].map(|name| sets[0][name].clone());
    assert_eq!(figures, [json!(1.0), json!("Infinity"), json!("Infinity"), json!("NaN")]);
}

#[test]
fn more_sets_than_histograms_have_room_for_are_counted_in_several_passes() {
    let scratch = Scratch::new();
    let array = scratch.uri("a.npy");
    let elements = (0..2000u16).flat_map(|number| (number * 7).to_le_bytes()).collect::<Vec<_>>();
    fs::write(&array, npy::file("<u2", false, &[2, 1000], &elements)).unwrap();
    let found = figures(&[&array, "--by-axis", "1", "--percentiles", "--box", ":,100:"]);
    let sets = found["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 900);
    for (index, set) in (100..).zip(sets) {
        let (least, most) = (7 * index, 7 * (index + 1000));
        assert_eq!((&set["index"], &set["count"]), (&json!(index), &json!(2)));
        assert_eq!((&set["min"], &set["max"]), (&json!(least), &json!(most)));
        assert_eq!(set["percentiles"]["50"], f64::from(least + most) / 2.0);
    }
}

#[test]
fn what_has_no_such_figures_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let array = scratch.uri("a.npy");
    fs::write(&array, npy::file("|u1", false, &[2, 5000], &[7; 10000])).unwrap();
    let complex = scratch.uri("c.npy");
    fs::write(&complex, npy::file("<c8", false, &[1], &[0; 8])).unwrap();
    for (code, arguments, reason) in [
        (1, &[&*complex][..], "elements of type c64 have no order, and no such numbers"),
        (1, &["no/such"], "no/such: NOT_FOUND: "),
        (2, &[], "stats needs a URI"),
        (2, &[&array, "--box", "0:1"], "it has 1 axes, the array 2: [2, 5000]"),
        (2, &[&array, "--box", "0:3,:"], "axis 0 reaches beyond the array, which has 2"),
        (2, &[&array, "--box", "1:1,:"], "axis 0 is empty: 1:1"),
        (2, &[&array, "--by-axis", "2"], "has 2 axes"),
        (2, &[&array, "--by-axis", "x"], "--by-axis x: not the number of an axis"),
        (2, &[&array, "--by-axis", "1"], "5000 indices, at most 4096: give a smaller --box"),
        (2, &[&array, "--dtype", "f32"], "--dtype: stats has that of the array and the box"),
        (2, &[&array, "--on-error", "skip"], "numbers without some elements would mislead"),
        (2, &[&array, "--digest"], "stats shows no digests"),
        (2, &[&array, "--percents"], "unknown flag '--percents': wavetrain stats --help lists"),
        (2, &[&array, &array], "unexpected argument"),
    ] {
        refused(code, arguments, reason);
    }
    assert_eq!(
        figures(&[&array, "--box", ":,4:4100", "--by-axis", "1"])["sets"][4095]["mean"],
        7.0
    );
}
