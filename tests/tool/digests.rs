//! `wavetrain bench --digest`: the digest of a run, a file of them, and the first sample that is
//! not what the file says.

use crate::common::digest::{batch_digest, digest};
use crate::common::npy;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Element (y, x) of the array.
fn element(y: u8, x: u8) -> u8 {
    10 * y + x
}

/// A folder with a.npy, 6 x 8 u8, and what is streamed of it.
fn folder(test: &str, fields: Option<&Value>, lines: &[Value]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool-digests").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    write_array(&folder, None);
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(folder.join("requests.jsonl"), lines.join("\n")).unwrap();
    if let Some(fields) = fields {
        fs::write(folder.join("fields.json"), fields.to_string()).unwrap();
    }
    folder
}

/// Writes the array, an element of which is another.
fn write_array(folder: &Path, changed: Option<(u8, u8)>) {
    let places = (0..6u8).flat_map(|y| (0..8u8).map(move |x| (y, x)));
    let data: Vec<u8> =
        places.map(|place| element(place.0, place.1) ^ u8::from(changed == Some(place))).collect();
    fs::write(folder.join("a.npy"), npy::file("|u1", false, &[6, 8], &data)).unwrap();
}

fn bench(folder: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wavetrain"))
        .current_dir(folder)
        .args(["bench", "--requests", "requests.jsonl", "--batch", "3"])
        .args(more)
        .output()
        .unwrap()
}

fn good(folder: &Path, more: &[&str]) -> String {
    let output = bench(folder, more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn bad(folder: &Path, code: i32, more: &[&str]) -> String {
    let output = bench(folder, more);
    assert_eq!(output.status.code(), Some(code));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// Boxes of 2 x 3 that begin at (n % 5, n % 6).
fn line(n: u8) -> Value {
    let (y, x) = (n % 5, n % 6);
    json!({"uri": "a.npy", "box": [[y, y + 2], [x, x + 3]]})
}

/// What such a box holds.
fn sample(n: u8) -> Vec<u8> {
    let (y, x) = (n % 5, n % 6);
    (0..2).flat_map(|row| (0..3).map(move |column| element(y + row, x + column))).collect()
}

#[test]
fn the_digest_of_a_run_is_that_of_its_samples_whatever_the_batches() {
    let lines: Vec<Value> = (0..10).map(line).collect();
    let folder = folder("run", None, &lines);
    let digests: Vec<u64> = (0..10).map(|n| digest(&sample(n))).collect();
    let expected = format!("{:016x}", batch_digest(&digests, 0));
    let as_u8 = ["--dtype", "u8", "--digest", "--json"];
    for more in [&["--repeat", "3"][..], &["--batch", "1"], &["--thread-mode", "pump"]] {
        let text = good(&folder, &[&as_u8, more].concat());
        let figures: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(figures["digest"], json!(expected), "{more:?}");
        assert!(figures["stages"]["digest"]["input_bytes"].as_u64() >= Some(60));
    }
    let table = good(&folder, &as_u8[..3]);
    assert!(table.ends_with(&format!("\n  digest: {expected}\n")), "{table}");
    let figures: Value = serde_json::from_str(&good(&folder, &["--json"])).unwrap();
    assert_eq!(figures["digest"], Value::Null);
    assert_eq!(figures["stages"]["digest"]["count"], json!(0));
}

#[test]
fn a_file_has_a_line_for_each_sample_and_the_same_run_agrees_with_it() {
    let lines: Vec<Value> = (0..10).map(line).collect();
    let folder = folder("file", None, &lines);
    let as_u8 = ["--dtype", "u8"];
    good(&folder, &[&as_u8[..], &["--digest-to", "digests"]].concat());
    let text = fs::read_to_string(folder.join("digests")).unwrap();
    let mut expected = "# position tag digest\n".to_owned();
    for n in 0..10 {
        expected.push_str(&format!("{n} {} {:016x}\n", n + 1, digest(&sample(n))));
    }
    assert_eq!(text, expected);
    let from = ["--digest-from", "digests", "--repeat", "2"];
    good(&folder, &[&as_u8[..], &from].concat());
    // Of f32 the bytes are others.
    let error = bad(&folder, 1, &from);
    assert!(
        error.starts_with("wavetrain: sample 0, tag 1: request 0 (0:2,0:3 of a.npy)"),
        "{error}"
    );
}

#[test]
fn the_first_sample_that_shows_a_changed_byte_is_named_with_its_box() {
    let lines: Vec<Value> = (0..10).map(line).collect();
    let folder = folder("changed", None, &lines);
    good(&folder, &["--digest-to", "digests"]);
    for (place, first) in [((0, 0), Some(0)), ((5, 7), None), ((3, 5), Some(3)), ((5, 5), Some(4))]
    {
        let shows = |n: &u8| {
            let (y, x) = (n % 5, n % 6);
            (y..y + 2).contains(&place.0) && (x..x + 3).contains(&place.1)
        };
        assert_eq!((0..10u8).find(shows), first);
        write_array(&folder, Some(place));
        let Some(n) = first else {
            good(&folder, &["--digest-from", "digests"]);
            continue;
        };
        for threads in ["1", "2", "8"] {
            let more = ["--digest-from", "digests", "--threads", threads];
            let error = bad(&folder, 1, &more);
            let (y, x) = (n % 5, n % 6);
            let place = format!(
                "sample {n}, tag {}: request {n} ({y}:{},{x}:{} of a.npy) differs: its digest is ",
                n + 1,
                y + 2,
                x + 3
            );
            assert!(error.contains(&place) && error.ends_with(" in digests\n"), "{error}");
        }
    }
}

#[test]
fn a_field_that_differs_is_named_with_its_boxes() {
    let fields = json!([
        {"name": "image", "sample_shape": [2, 3], "dtype": "u8"},
        {"name": "label", "dtype": "i64"},
        {"name": "spot", "dtype": "u8"},
    ]);
    let request = |n: u8, label: i64| {
        let image = line(n);
        json!({"boxes": [{"field": "image", "uri": "a.npy", "box": image["box"]},
            {"field": "label", "value": label},
            {"field": "spot", "uri": "a.npy", "box": [[n, n + 1], [7, 8]], "axes": [null, null]}],
            "tag": 100 + n})
    };
    let lines: Vec<Value> = (0..6).map(|n| request(n, -i64::from(n))).collect();
    let folder = folder("fields", Some(&fields), &lines);
    let of = ["--fields", "fields.json"];
    let text = good(&folder, &[&of[..], &["--digest-to", "digests", "--json"]].concat());
    let figures: Value = serde_json::from_str(&text).unwrap();
    let sum = |each: &dyn Fn(u8) -> Vec<u8>| {
        let digests: Vec<u64> = (0..6).map(|n| digest(&each(n))).collect();
        format!("{:016x}", batch_digest(&digests, 0))
    };
    let label = |n: u8| (-i64::from(n)).to_le_bytes().to_vec();
    assert_eq!(
        figures["digest"],
        json!({"image": sum(&sample), "label": sum(&label), "spot": sum(&|n| vec![element(n, 7)])})
    );
    let text = fs::read_to_string(folder.join("digests")).unwrap();
    assert!(text.starts_with("# position tag image label spot\n0 100 "), "{text}");
    write_array(&folder, Some((4, 7)));
    let from = [&of[..], &["--digest-from", "digests"]].concat();
    let error = bad(&folder, 1, &from);
    let place = "sample 4, tag 104: field spot of request 4 (tag 104) (4:5,7:8 of a.npy) differs";
    assert!(error.contains(place), "{error}");
    write_array(&folder, None);
    let other: Vec<String> =
        (0..6).map(|n| request(n, if n == 2 { 7 } else { -i64::from(n) }).to_string()).collect();
    fs::write(folder.join("requests.jsonl"), other.join("\n")).unwrap();
    let error = bad(&folder, 1, &from);
    let place = "sample 2, tag 102: field label of request 2 (tag 102) (a value) differs";
    assert!(error.contains(place), "{error}");
}

#[test]
fn files_of_other_lists_and_flags_that_contradict_are_refused() {
    let lines: Vec<Value> = (0..4).map(line).collect();
    let folder = folder("refused", None, &lines);
    good(&folder, &["--digest-to", "digests"]);
    let text = fs::read_to_string(folder.join("digests")).unwrap();
    let cut: Vec<&str> = text.lines().take(4).collect();
    for (file, expected) in [
        (cut.join("\n"), "other: digests of 3 samples, not 4"),
        (text.replace("tag digest", "tag image"), "other, line 1: '# position tag image', not '#"),
        (text.replace("\n2 3 ", "\n2 9 "), "sample 2: tag 3, and 9 in other: another list"),
        (text.replace("\n1 2 ", "\n3 2 "), "other, line 3: '3 2 "),
        (text.replace("\n1 2 ", "\n1 2 0x"), "is not '1 TAG' and 1 digests"),
        (text.replace("\n1 2 ", "\n1 2 0123 "), "is not '1 TAG' and 1 digests"),
        // Cut off in the last digest: the data is not to blame.
        (text[..text.len() - 6].to_owned(), "other, line 5: '3 4 "),
    ] {
        fs::write(folder.join("other"), file).unwrap();
        let error = bad(&folder, 1, &["--digest-from", "other"]);
        assert!(error.contains(expected), "{error}");
    }
    let error = bad(&folder, 1, &["--digest-from", "nowhere"]);
    assert!(error.contains("nowhere: No such file"), "{error}");
    let error = bad(&folder, 2, &["--digest=0", "--digest-to", "other"]);
    assert!(error.contains("leaves no digests"), "{error}");
    let output = Command::new(env!("CARGO_BIN_EXE_wavetrain"))
        .current_dir(&folder)
        .args(["crop", "--digest", "a.npy", "0:1,0:1", "-o", "out.npy"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
