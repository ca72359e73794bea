//! `wavetrain epoch`: predictions that are the counters, and refusals that say why.

use crate::common::fixtures::Scratch;
use crate::common::npy;
use crate::common::synth::Meta;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

/// Chunks of 64 KiB, 4 x 4 x 4 of them.
const CHUNK: [u64; 3] = [16, 64, 64];
const SHAPE: [u64; 3] = [64, 256, 256];

const ZSTD: &str = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;

/// A cache with room for so many of them, and for its tables.
fn room(chunks: u64) -> String {
    (chunks * 65536 * 32 / 31 + 4096).to_string()
}

/// Chunk number `number`; zstd has compressed it, as raw data is not kept.
fn encoded(number: u8) -> Vec<u8> {
    let noise = |at: u32| (at.wrapping_mul(2_654_435_761) >> 27) as u8 + number;
    let decoded: Vec<u8> = (0..65536).map(noise).collect();
    zstd::bulk::compress(&decoded, 1).unwrap()
}

/// One shard of all chunks.
fn array(scratch: &Scratch, name: &str) -> String {
    let meta = Meta { data_type: "uint8", codecs: ZSTD, ..Meta::u16(&SHAPE, &CHUNK, Some(&SHAPE)) };
    let (mut file, mut index) = (Vec::new(), Vec::new());
    for number in 0..64 {
        let encoded = encoded(number);
        index.extend((file.len() as u64).to_le_bytes());
        index.extend((encoded.len() as u64).to_le_bytes());
        file.extend(encoded);
    }
    file.extend(&index);
    file.extend(crc32c::crc32c(&index).to_le_bytes());
    meta.write(scratch, name, Some(&file))
}

/// The same chunks, each in a file of its own.
fn array_of_files(scratch: &Scratch, name: &str) -> String {
    let meta = Meta { data_type: "uint8", codecs: ZSTD, ..Meta::u16(&SHAPE, &CHUNK, None) };
    let uri = meta.write(scratch, name, None);
    for number in 0..64u8 {
        let folder = format!("{uri}/c/{}/{}", number / 16, number / 4 % 4);
        fs::create_dir_all(&folder).unwrap();
        fs::write(format!("{folder}/{}", number % 4), encoded(number)).unwrap();
    }
    uri
}

fn tool(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.arg("epoch").args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tool(arguments);
    let error = String::from_utf8(stderr).unwrap();
    assert!(status.success() && error.is_empty(), "{arguments:?}: {error}");
    String::from_utf8(stdout).unwrap()
}

fn figures(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[arguments, &["--json"]].concat())).unwrap()
}

fn refused(code: i32, arguments: &[&str], reason: &str) {
    let Output { status, stderr, .. } = tool(arguments);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(reason), "{arguments:?}: {error}");
}

#[test]
fn boxes_inside_chunks_cost_one_decode_of_each_and_a_full_shuffle_thirty() {
    let scratch = Scratch::new();
    let (uri, cache) = (array(&scratch, "a"), room(8));
    let told = figures(&[&uri, "--box", "4,16,16", "--chunk-cache-bytes", &cache, "--shuffle"]);
    assert_eq!((&told["boxes"], &told["run"]), (&4096.into(), &64.into()));
    assert_eq!((&told["room_chunks"], &told["shuffle_window"]), (&8.into(), &4.into()));
    let predicted = &told["predicted"];
    assert_eq!(predicted["chunks"], serde_json::json!([64, 64]));
    assert_eq!(
        (&predicted["largest_shuffle_window"], &predicted["fit"]),
        (&4.into(), &"yes".into())
    );
    // A chunk is decoded twice where two batches meet it at once before its place is known.
    let decoded = told["decoded"]["chunks"].as_u64().unwrap();
    assert!((64..=70).contains(&decoded), "{told}");
    assert_eq!(told["decoded"]["bytes"], decoded * 65536);
    assert!(told["shuffled"]["chunks"].as_u64().unwrap() > 30 * 64, "{told}");
    // Windows of 4 runs of 64: neighbours lie a third of a window apart, or, of two runs, a
    // third of all.
    let apart = told["apart"].as_f64().unwrap();
    assert!((0.06..0.1).contains(&apart), "{told}");
    // Two of 256 boxes in place of 4096.
    let meets = told["meets"].as_f64().unwrap();
    assert!((14.0..18.0).contains(&meets), "{told}");
}

#[test]
fn chunks_that_are_files_cost_one_decode_each_although_each_waits_for_its_file() {
    let scratch = Scratch::new();
    let (uri, cache) = (array_of_files(&scratch, "a"), room(8));
    for window in ["1", "2", "3", "4"] {
        let asked =
            [&uri, "--box", "8,32,32", "--chunk-cache-bytes", &cache, "--shuffle-window", window];
        let told = figures(&asked);
        let decoded = told["decoded"]["chunks"].as_u64().unwrap();
        assert!((64..=70).contains(&decoded), "windows of {window}: {told}");
    }
}

#[test]
fn boxes_that_straddle_chunks_cost_what_was_predicted_and_a_tenth_at_most() {
    let scratch = Scratch::new();
    let (uri, cache) = (array(&scratch, "a"), room(40));
    for extra in [&["--step", "4,16,16"][..], &["--margin", "1,3,3"], &["--jitter", "--seed", "7"]]
    {
        let boxes = [&[&uri, "--box", "5,20,20", "--chunk-cache-bytes", &cache][..], extra];
        let told = figures(&boxes.concat());
        let [least, most] = [0, 1].map(|end| told["predicted"]["chunks"][end].as_f64().unwrap());
        let decoded = told["decoded"]["chunks"].as_f64().unwrap();
        assert_eq!(least, 64.0);
        assert!(most > 1.5 * least && decoded >= least && decoded <= 1.1 * most, "{told}");
        assert_eq!(told["predicted"]["fit"], "yes");
    }
}

#[test]
fn several_arrays_are_one_epoch() {
    let scratch = Scratch::new();
    let (a, b) = (array(&scratch, "a"), array(&scratch, "b"));
    let told = figures(&[&a, &b, "--box", "16,32,32", "--chunk-cache-bytes", &room(16)]);
    assert_eq!(
        (&told["boxes"], &told["run"], &told["shuffle_window"]),
        (&512.into(), &4.into(), &8.into())
    );
    let decoded = told["decoded"]["chunks"].as_u64().unwrap();
    assert!((128..=140).contains(&decoded), "{told}");
    assert_eq!(told["decoded"]["missing"], 0);
}

#[test]
fn a_sweep_has_a_line_for_each_window_and_shows_what_it_mixes() {
    let scratch = Scratch::new();
    let (uri, cache) = (array(&scratch, "a"), room(8));
    let asked = [&uri, "--box", "8,32,32", "--chunk-cache-bytes", &cache, "--sweep"];
    let lines = good(&[&asked[..], &["--json"]].concat());
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let windows: Vec<_> =
        lines.iter().map(|line| line["shuffle_window"].as_u64().unwrap()).collect();
    assert_eq!(windows, [1, 2, 4, 8, 16, 32, 64]);
    let fit: Vec<_> = lines.iter().map(|line| line["predicted"]["fit"].as_str().unwrap()).collect();
    assert_eq!(fit, ["yes", "yes", "yes", "tight", "no", "no", "no"]);
    let decoded = |line: &Value| line["decoded"]["chunks"].as_u64().unwrap();
    assert!(lines[..3].iter().all(|line| (64..=70).contains(&decoded(line))), "{lines:?}");
    assert!(decoded(&lines[6]) > 3 * 64);
    let meets: Vec<_> = lines.iter().map(|line| line["meets"].as_f64().unwrap()).collect();
    assert!(meets.is_sorted_by(|more, less| more > less) && meets[6] < 1.5, "{meets:?}");
    let apart: Vec<_> = lines.iter().map(|line| line["apart"].as_f64().unwrap()).collect();
    assert!(apart.is_sorted() && apart[0] < 0.2 && apart[6] > 0.9, "{apart:?}");
    let dry = good(&[&asked[..], &["--dry"]].concat());
    assert_eq!(dry.lines().count(), 2 + 1 + 7 + 2 + 7, "{dry}");
    let drawn = good(&[&asked[..], &["--shuffle"]].concat());
    let bar = |line: &str| line.split('|').next().unwrap().matches('#').count();
    let bars: Vec<_> = drawn.lines().skip(2 + 1 + 7 + 2).map(bar).collect();
    assert!(bars.len() == 8 && bars[0] < bars[5] && bars[7] > 20, "{drawn}");
}

#[test]
fn a_dry_run_reads_no_chunk_and_text_says_what_json_does() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "a");
    fs::remove_dir_all(scratch.path("a").join("c")).unwrap();
    let asked = [&uri, "--box", "4,16,16", "--chunk-cache-bytes", &room(4)];
    let text = good(&[&asked[..], &["--dry"]].concat());
    for words in [
        "4096 of 4 x 16 x 16; 64 chunks of 16 x 64 x 64, 64.00 KiB each",
        "runs of 64 boxes, shuffle windows of 2 runs",
        "2 chunks at most; room for 4: it fits\n",
        "64 to 64 chunks, 4.00 MiB to 4.00 MiB",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Of chunks that are missing nothing fails: only this line tells that nothing was streamed.
    assert!(!text.contains("decoded "), "{text}");
    // Chunks that are missing are no broken promise.
    let told = figures(&asked);
    assert_eq!(told["decoded"]["chunks"], 0);
    assert!(told["decoded"]["missing"].as_u64().unwrap() >= 64);
    let does_not =
        [&uri, "--box", "4,16,16", "--chunk-cache-bytes", &room(4), "--shuffle-window", "8"];
    let text = good(&[&does_not[..], &["--dry"]].concat());
    assert!(text.contains("does NOT fit"), "{text}");
}

#[test]
fn what_a_chunk_shuffle_cannot_do_is_refused_by_name() {
    let scratch = Scratch::new();
    let uri = array(&scratch, "a");
    let edges = r#"[[16,16,16,16],[64,64,64,64],[64,64,64,32,32]]"#;
    let rectilinear = Meta { edges: Some(edges), ..Meta::u16(&SHAPE, &CHUNK, None) };
    let rectilinear = rectilinear.write(&scratch, "rectilinear", None);
    let boxed = ["--box", "4,16,16"];
    refused(1, &[&[rectilinear.as_str()], &boxed[..]].concat(), "its chunk grid is rectilinear");
    let other = Meta::u16(&[8, 8, 8], &[8, 8, 8], None).write(&scratch, "other", Some(&[0; 1024]));
    refused(1, &[&[uri.as_str(), &other], &boxed[..]].concat(), "chunks of 1.00 KiB");
    let flat = scratch.uri("flat.npy");
    fs::write(&flat, npy::file("<u2", false, &[8, 8, 8], &[0; 1024])).unwrap();
    refused(1, &[&flat, "--box", "4,4,4"], "the cache keeps none of these chunks");
    refused(1, &[&uri, "--box", "4,16"], "3 axes, and a box of 2");
    refused(1, &[&uri, "--box", "4,16,16", "--margin", "4,0,0"], "the grid has no boxes");
    refused(2, &[&uri], "epoch needs URI and --box");
    refused(2, &[&uri, "--box", "4,16,16", "--chunk-cache-bytes", "0"], "needs a cache");
    refused(2, &[&uri, "--box", "4,16,16", "--run", "0"], "not a count of at least 1");
    refused(2, &[&uri, "--box", "4,16,16", "--step", "4,x"], "extents are like");
    refused(2, &[&uri, "--box", "4,16,16", "--dry", "--shuffle"], "--dry streams no --shuffle");
    refused(
        2,
        &[&uri, "--box", "4,16,16", "--sweep", "--shuffle-window", "2"],
        "takes no --shuffle-window",
    );
    refused(2, &[&uri, "--box", "4,16,16", "--step", "4,16"], "--step has 2 extents, and --box 3");
    refused(2, &[&uri, "--box=-4,16,16"], "--box -4,16,16: extents are like");
    refused(
        2,
        &[&uri, "--box", "4,16,16", "--sample-rank", "17"],
        "--sample-rank is that of --box",
    );
    refused(2, &[&uri, &uri, "--box", "4,16,16"], "named twice");
    refused(2, &[&uri, "--box", "4,16,16", "--drop-last"], "an epoch here has all its boxes");
    refused(1, &[&uri, "--box", "4,16,16", "--batch", "0", "--dry"], "--samples-per-batch=0");
    refused(2, &[&uri, "--box", "9,9,9", "--margin", "1,1,1", "--pad-mode", "none"], "stick out");
    refused(2, &[&uri, "--box", "4,16,16", "--colour", "red"], "unknown flag '--colour'");
}
