//! `wavetrain bench --trace`: the JSON that Perfetto reads, held against the figures of the run.

use crate::common::npy;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool-trace").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn bench(folder: &Path, more: &[&str]) -> Output {
    let data: Vec<u8> = (0..6u8).flat_map(|y| (0..8u8).map(move |x| 10 * y + x)).collect();
    fs::write(folder.join("a.npy"), npy::file("|u1", false, &[6, 8], &data)).unwrap();
    let line = json!({"uri": folder.join("a.npy").to_str().unwrap(), "box": [[1, 5], [2, 7]]});
    fs::write(folder.join("requests.jsonl"), format!("{line}\n").repeat(40)).unwrap();
    Command::new(env!("CARGO_BIN_EXE_wavetrain"))
        .current_dir(folder)
        .args(["bench", "--requests", "requests.jsonl", "--batch", "4"])
        .args(more)
        .output()
        .unwrap()
}

/// A time of the file, which has microseconds, in nanoseconds.
fn nanoseconds(event: &Value, name: &str) -> u64 {
    (event[name].as_f64().unwrap() * 1e3).round() as u64
}

/// The X events by their tracks, as begin and end, and sums of durations by names.
fn checked(trace: &Value) -> BTreeMap<String, (u64, u64)> {
    let (mut sums, mut named) = (BTreeMap::<String, (u64, u64)>::new(), BTreeSet::new());
    let mut tracks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        let track = event["tid"].as_u64().unwrap();
        assert!(event["pid"].as_u64().unwrap() > 0, "{event}");
        if event["ph"] == "M" {
            assert_eq!(event["name"], "thread_name");
            assert!(!event["args"]["name"].as_str().unwrap().is_empty());
            assert!(named.insert(track), "a track has one name");
            continue;
        }
        assert_eq!(event["ph"], "X");
        let (begin, ns) = (nanoseconds(event, "ts"), nanoseconds(event, "dur"));
        tracks.entry(track).or_default().push((begin, begin + ns));
        let sum = sums.entry(event["name"].as_str().unwrap().to_owned()).or_default();
        (sum.0, sum.1) = (sum.0 + ns, sum.1 + 1);
    }
    assert_eq!(named, tracks.keys().copied().collect());
    for (track, mut spans) in tracks {
        spans.sort_by_key(|(begin, end)| (*begin, u64::MAX - end));
        let mut open: Vec<u64> = Vec::new();
        for (begin, end) in spans {
            while open.last().is_some_and(|last| *last <= begin) {
                open.pop();
            }
            assert!(end <= open.last().copied().unwrap_or(u64::MAX), "{track}: {begin}, {end}");
            open.push(end);
        }
    }
    sums
}

#[test]
fn events_are_nested_on_named_tracks_and_add_up_to_the_stages() {
    let folder = folder("sums");
    // The work of a call that waits is over when that returns.
    let more = ["--trace", "out.json", "--json", "--digest", "--thread-mode", "pump"];
    let output = bench(&folder, &more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trace = serde_json::from_slice(&fs::read(folder.join("out.json")).unwrap()).unwrap();
    let sums = checked(&trace);
    assert!(sums["plan"].1 > 0 && sums["decode"].1 > 0 && sums["assemble"].1 > 0);
    for (name, stage) in figures["stages"].as_object().unwrap() {
        let (ns, count) = sums.get(name).copied().unwrap_or((0, 0));
        assert_eq!(
            (json!(ns), json!(count)),
            (stage["ns"].clone(), stage["count"].clone()),
            "{name}"
        );
    }
}

#[test]
fn a_ring_that_is_too_small_has_the_last_events_and_a_warning() {
    let folder = folder("small");
    let output = bench(&folder, &["--trace", "out.json", "--trace-events", "8"]);
    assert!(output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("raise --trace-events"), "{error}");
    let trace = serde_json::from_slice(&fs::read(folder.join("out.json")).unwrap()).unwrap();
    assert_eq!(checked(&trace).values().map(|(_, count)| count).sum::<u64>(), 8);
}
