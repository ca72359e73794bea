//! The libraries that archive.sh makes: their names, and a C program that links wavetrain and this
//! crate and streams from moto. Skipped where WAVETRAIN_REMOTE_ARCHIVE (a folder that archive.sh
//! made) or WAVETRAIN_ARCHIVE (one that tools/archive.sh made) is not set.

use crate::common::python::Moto;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: {variable} is not set");
    }
    folder
}

/// The global names that `nm` shows as defined.
fn names(flags: &[&str], library: &Path) -> Vec<String> {
    let output = Command::new("nm").args(flags).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split_ascii_whitespace().nth(2).map(str::to_owned);
    text.lines().filter_map(name).collect()
}

#[test]
fn libraries_export_their_own_names_alone() {
    let Some(folder) = folder("WAVETRAIN_REMOTE_ARCHIVE") else { return };
    let header = include_str!("../../include/wavetrain_remote.h");
    let archive = names(&["-g", "--defined-only"], &folder.join("libwavetrain_remote.a"));
    let shared = names(&["-D", "-g", "--defined-only"], &folder.join("libwavetrain_remote.so.0"));
    for names in [archive, shared] {
        assert_eq!(names.len(), 8, "{names:?}");
        for name in names {
            assert!(header.contains(&format!("{name}(")), "{name}");
        }
    }
}

#[test]
fn a_cpp_program_uses_either_library() {
    let Some(remote) = folder("WAVETRAIN_REMOTE_ARCHIVE") else { return };
    for (name, library) in
        [("static", "libwavetrain_remote.a"), ("shared", "libwavetrain_remote.so.0")]
    {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("client_{name}"));
        let built = Command::new("c++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-I"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../include"))
            .arg("-I")
            .arg(&remote)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpp/client.cpp"))
            .arg(remote.join(library))
            .args(["-lm", "-lpthread", "-ldl", "-lgcc_s", "-o"])
            .arg(&program)
            .status();
        assert!(built.unwrap().success(), "{name}");
        let status = Command::new(&program).env("LD_LIBRARY_PATH", &remote).status();
        assert!(status.unwrap().success(), "{name}");
    }
}

/// An array of 8 x 8 floats in chunks of 4 x 4, element i has the value i.
fn array() -> Vec<(String, Vec<u8>)> {
    let document = r#"{"zarr_format": 3, "node_type": "array", "shape": [8, 8],
        "data_type": "float32", "fill_value": 0.0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
    let mut objects = vec![("a.zarr/zarr.json".to_owned(), document.as_bytes().to_vec())];
    for row in 0..2u16 {
        for column in 0..2u16 {
            let element = |place: u16| {
                let (y, x) = (row * 4 + place / 4, column * 4 + place % 4);
                f32::from(y * 8 + x).to_le_bytes()
            };
            let bytes = (0..16).flat_map(element).collect();
            objects.push((format!("a.zarr/c/{row}/{column}"), bytes));
        }
    }
    objects
}

#[test]
fn a_c_program_streams_from_s3() {
    let Some(remote) = folder("WAVETRAIN_REMOTE_ARCHIVE") else { return };
    let Some(library) = folder("WAVETRAIN_ARCHIVE") else { return };
    let Some(moto) = Moto::start() else { return };
    let objects = array();
    let objects: Vec<(&str, &[u8])> =
        objects.iter().map(|(key, bytes)| (key.as_str(), bytes.as_slice())).collect();
    moto.put(&objects);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stream");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(&library)
        .arg("-I")
        .arg(&remote)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/stream.c"))
        .arg(remote.join("libwavetrain_remote.a"))
        .arg(library.join("libwavetrain.a"))
        .args(["-lm", "-lpthread", "-ldl", "-lgcc_s", "-o"])
        .arg(&program)
        .status();
    assert!(built.unwrap().success());
    let output = Command::new(&program).args(["s3://bucket/a.zarr", &moto.endpoint]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Rows 0 to 3 are the elements 0 to 31, the others 32 to 63.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "496.0\n1520.0\n");
}
