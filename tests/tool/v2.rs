//! The command-line tool on zarr v2 arrays.

use crate::common::fixtures::{self, Scratch};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output};

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

#[test]
fn inspect_tells_a_v2_array_in_the_words_of_v2() {
    for (name, dtype_name, codecs, key) in [
        ("v2_rank3_F_slash", "<u2", "order F", "0/0/0"),
        ("v2_rank2_C_slash", "<u2", "zstd order C", "0/0"),
        ("v2_sparse_i16_minus1_zarr2", ">i2", "zstd order F", "0.0"),
        ("v2_bf16_C", "bfloat16", "zstd order C", "0.0.0"),
    ] {
        let store = fixtures::store(name);
        let info: Value = serde_json::from_str(&good(&["inspect", &store.uri, "--json"])).unwrap();
        assert_eq!(info["accepted"], true);
        assert_eq!(info["shape"], json!(store.image.shape));
        assert_eq!(info["chunk_shape"], json!(store.chunk));
        let words = [&info["dtype_name"], &info["codecs"], &info["first_key"]];
        assert_eq!(words, [dtype_name, codecs, key], "{name}");
        let text = good(&["inspect", &store.uri]);
        assert!(text.contains(&format!("of {dtype_name} ")) && text.contains("accepted"), "{text}");
    }
}

#[test]
fn inspect_says_why_a_v2_array_is_rejected() {
    let scratch = Scratch::new();
    let folder = scratch.copy_of(fixtures::store("v2_rank2_F_dot"), "array");
    let path = folder.join(".zarray");
    let text = fs::read_to_string(&path).unwrap();
    let base64 = "\"filters\": [{\"id\": \"base64\"}]";
    let changed = text.replace("\"filters\": null", base64).replace("\"filters\":null", base64);
    assert_ne!(text, changed);
    fs::write(&path, changed).unwrap();
    let output = tool(&["inspect", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/.zarray: filters[0].id at byte "), "{error}");
    assert!(error.contains("filter \"base64\" is not read"), "{error}");
}

#[test]
fn crop_writes_the_box_of_a_v2_array() {
    let scratch = Scratch::new();
    for name in ["v2_rank3_F_slash", "v2_u16_big_F", "v2_rank2_C_slash"] {
        let store = fixtures::store(name);
        let (begin, end): (Vec<i64>, Vec<i64>) =
            store.image.shape.iter().map(|extent| (1, *extent as i64)).unzip();
        let span: Vec<String> = begin.iter().zip(&end).map(|(b, e)| format!("{b}:{e}")).collect();
        let out = scratch.path("out.npy");
        good(&["crop", &store.uri, &span.join(","), "-o", out.to_str().unwrap()]);
        let bytes = fs::read(&out).unwrap();
        let want = store.image.inside(&begin, &end);
        assert!(bytes.starts_with(b"\x93NUMPY") && bytes.ends_with(&want), "{name}");
        assert_eq!((bytes.len() - want.len()) % 64, 0);
    }
}
