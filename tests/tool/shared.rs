//! `wavetrain bench --share`: one loader and the processes that take its batches. The batches are
//! those of a private bench, each order deals as documented, and a process that ends is named.

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Samples of the list; batches of 4, the last of 3.
const SAMPLES: u64 = 47;
const BATCHES: u64 = 12;

fn tool(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.arg("bench").args(arguments);
    command
}

/// A list of boxes of an array of 300 u16, and a name that no other test has.
fn list(test: &str) -> (String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool_shared").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("a/c")).unwrap();
    let grid = json!({"name": "regular", "configuration": {"chunk_shape": [300]}});
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [300], "data_type": "uint16",
        "chunk_grid": grid, "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    });
    fs::write(folder.join("a/zarr.json"), metadata.to_string()).unwrap();
    let elements: Vec<u8> = (0..300u16).flat_map(|at| (at * 7 + 1).to_le_bytes()).collect();
    fs::write(folder.join("a/c/0"), elements).unwrap();
    let line = |at: u64| json!({"uri": folder.join("a"), "box": [[at * 5, at * 5 + 9]]});
    let lines: Vec<String> = (0..SAMPLES).map(|at| line(at).to_string()).collect();
    let path = folder.join("list.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    (path.to_str().unwrap().to_owned(), format!("tool.{test}.{}", std::process::id()))
}

fn good(mut command: Command) -> Value {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{command:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str], reason: &str) {
    let Output { status, stdout, stderr } = tool(arguments).output().unwrap();
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}: {error}");
    assert!(error.contains(reason) && stdout.is_empty(), "{arguments:?}: {error}");
}

#[test]
fn each_order_gives_the_batches_of_a_private_bench() {
    let (list, name) = list("orders");
    let stream = ["--requests", &list, "--batch", "4", "--json", "--verify", "--digest"];
    let private = good(tool(&stream));
    for (order, copies) in [("round", 1), ("first", 1), ("all", 3)] {
        let share = ["--share", &name, "--consumers", "3", "--share-order", order];
        let figures = good(tool(&[&stream[..], &share, &["--repeat", "2"]].concat()));
        for name in ["crcs", "digest", "failed", "backend"] {
            assert_eq!(figures[name], private[name], "{order}, {name}");
        }
        assert_eq!((&figures["share"], &figures["share_order"]), (&json!(name), &json!(order)));
        assert_eq!(figures["samples"], SAMPLES * copies, "{figures}");
        assert_eq!(figures["batches"], BATCHES * copies, "{figures}");
        assert_eq!(figures["batches_lost"], 0);
        let consumers = figures["consumers"].as_array().unwrap();
        let of = |name: &'static str| consumers.iter().map(move |one| one[name].as_u64().unwrap());
        assert!(of("consumer").eq(0..3));
        assert_eq!(of("samples").sum::<u64>(), SAMPLES * copies);
        assert_eq!(of("batches").sum::<u64>(), BATCHES * copies);
        match order {
            "round" => assert!(of("samples").eq([16, 16, 15]), "{figures}"),
            "all" => assert!(of("samples").eq([SAMPLES; 3]), "{figures}"),
            _ => {}
        }
        let rates = consumers.iter().map(|one| one["samples_per_s"].as_f64().unwrap());
        let (sum, all) = (rates.sum::<f64>(), figures["samples_per_s"].as_f64().unwrap());
        assert!((sum - all).abs() < all * 1e-9, "{figures}");
        assert_eq!(figures["repeat_seconds"].as_array().unwrap().len(), 2);
        for name in ["chunks_decoded", "bytes_read", "shared_bytes", "bill_bytes"] {
            assert!(figures[name].as_u64().is_some(), "{name}: {figures}");
        }
        assert!(figures["shared_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_table_has_a_line_for_each_consumer() {
    let (list, name) = list("table");
    let arguments = ["--requests", &list, "--batch", "4", "--share", &name, "--consumers", "2"];
    let output = tool(&arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("  consumer ")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("24 samples in 6 batches = "), "{text}");
    assert!(lines[1].contains("23 samples in 6 batches = "), "{text}");
}

#[test]
fn options_that_do_not_fit_are_refused_with_the_way_out() {
    let share = ["--requests", "list", "--share", "name"];
    let with = |more: &[&'static str]| [&share[..], more].concat();
    refused(&share, "--share NAME needs --consumers N");
    refused(&["--requests", "list", "--consumers", "2"], "--consumers N needs --share NAME");
    refused(&with(&["--consumers", "0"]), "not a count of 1 to 64");
    refused(&with(&["--consumers", "65"]), "not a count of 1 to 64");
    refused(&with(&["--consumers", "2", "--consumer", "1"]), "--consumer K needs --attach NAME");
    refused(&with(&["--consumers", "2", "--digest-to", "f"]), "use --digest");
    refused(&["--requests", "list", "--share-order", "all"], "--share-order needs --share NAME");
    refused(&["--attach", "name"], "--attach NAME needs --consumer K");
    refused(&["--attach", "name", "--consumer", "one"], "not a number");
    let attach = ["--attach", "name", "--consumer", "0"];
    for more in [["--requests", "list"], ["--batch", "4"], ["--share", "name"]] {
        refused(&[attach, [more[0], more[1], "--repeat", "1"]].concat(), "give the rest to the");
    }
}

#[test]
fn a_consumer_without_an_owner_fails_with_the_name() {
    let (_, name) = list("alone");
    let attach = ["--attach", &name, "--consumer", "0", "--attach-timeout-ns", "0"];
    let output = tool(&attach).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("consumer 0: NOT_FOUND: ") && error.contains(&name), "{error}");
    let output = tool(&[&attach[..], &["--json"]].concat()).output().unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0));
    assert!(line["failure"].as_str().unwrap().starts_with("NOT_FOUND: "), "{line}");
}

/// The processes whose command line has all of these words.
fn processes(words: &[&str]) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_all = |process: &i32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let parts: Vec<&str> = line.split('\0').collect();
        words.iter().all(|word| parts.contains(word))
    };
    numbers.filter(has_all).collect()
}

/// Waits until a process is there: an endless list has no other end.
fn process(words: &[&str]) -> i32 {
    loop {
        match processes(words)[..] {
            [] => std::thread::yield_now(),
            [process, ..] => return process,
        }
    }
}

fn kill(process: i32, signal: i32) {
    // SAFETY: the process is one that this test started.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

#[test]
fn a_consumer_that_is_killed_is_named_with_its_signal() {
    let (list, name) = list("killed");
    let stream = ["--requests", &list, "--batch", "4", "--repeat", "100000000", "--json"];
    for lost in ["fail", "skip"] {
        let share = ["--share", &name, "--consumers", "2", "--on-consumer-lost", lost];
        let mut command = tool(&[&stream[..], &share].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        kill(process(&["--attach", &name, "--consumer", "1"]), libc::SIGKILL);
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("consumer 1 ended by signal: 9 (SIGKILL)"), "{lost}: {error}");
        assert!(processes(&["--attach", &name]).is_empty());
    }
}

#[test]
fn a_signal_to_the_owner_ends_its_consumers() {
    let (list, name) = list("interrupted");
    let stream = ["--requests", &list, "--batch", "4", "--repeat", "100000000"];
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let mut command = tool(&[&stream[..], &["--share", &name, "--consumers", "2"]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        process(&["--attach", &name, "--consumer", "1"]);
        kill(child.id() as i32, signal);
        // The consumers have its standard error: this ends once they have ended.
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), None);
        assert!(processes(&["--attach", &name]).is_empty());
    }
}
