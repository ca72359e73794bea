//! tools/gpu_run.sh, which shows on another machine what the CUDA backend does: its table, and its
//! exit status, with programs in the folder that only say how they end.

#[path = "common/cc.rs"]
mod cc;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that is a line of sh.
fn program(folder: &Path, name: &str, line: &str) {
    let path = folder.join("bin").join(name);
    fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A folder as tools/gpu.sh packs it, with one test program.
fn packed(test: &str, gpu: &str, identity: &str) -> PathBuf {
    let folder = cc::folder(&format!("gpu-run-{test}"));
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::create_dir_all(folder.join("data/default-0")).unwrap();
    fs::write(folder.join("data/default-0/zarr.json"), "{}").unwrap();
    fs::write(folder.join("version.txt"), "v7\n").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(root.join("tools/gpu_run.sh"), folder.join("run.sh")).unwrap();
    program(&folder, "gpu", gpu);
    program(&folder, "test-identity", identity);
    program(&folder, "train_cuda", "echo \"$4 $6\"");
    folder
}

/// The table and the exit status, with one more part that there is not.
fn run(folder: &Path) -> (String, Option<i32>) {
    let mut command = Command::new(folder.join("run.sh"));
    for name in ["DRIVER", "SMALL", "DATA", "FILTER"] {
        command.env_remove(name);
    }
    command.env("PARTS", "device identity units rates overlap stream train sanitizer nonsense");
    let output = command.output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    println!("{table}");
    (table, output.status.code())
}

/// What stands behind a name.
fn behind<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let has_name = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with(' ');
    table.lines().filter(has_name).map(|line| line[name.len()..].trim()).collect()
}

const PASSED: &str = "echo 'test result: ok. 3 passed; 0 failed'";

#[test]
fn without_a_device_every_part_is_skipped_with_the_reason() {
    let folder = packed("skip", "echo 'skipped: no driver'; exit 77", PASSED);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(0));
    for part in ["device", "identity", "units", "rates", "overlap", "stream", "train", "sanitizer"]
    {
        assert_eq!(behind(&table, part), ["skipped: no driver"], "{part}");
    }
    assert_eq!(behind(&table, "nonsense"), ["skipped: there is no such part"]);
    assert_eq!(behind(&table, "wavetrain"), ["v7"]);
}

#[test]
fn each_part_has_its_rows() {
    let folder = packed("rows", "echo \"row-$1   1 $3\"", PASSED);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(0));
    for part in ["device", "units", "rates", "overlap", "data", "stream"] {
        assert_eq!(behind(&table, &format!("row-{part}")), ["1 libcuda.so.1"], "{part}");
    }
    let identity = behind(&table, "identity with the host: identity");
    assert_eq!(identity, ["ok. 3 passed; 0 failed"]);
    assert_eq!(behind(&table, "train_cuda, release=event"), ["edge=128 verify=1"]);
    assert_eq!(behind(&table, "train_cuda, release=export"), ["edge=128 verify=1"]);
}

#[test]
fn bytes_that_differ_are_a_failure_of_the_whole() {
    let folder = packed("wrong", "test $1 != units || exit 1", PASSED);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(1));
    assert!(behind(&table, "units")[0].starts_with("FAILED, status 1"), "{table}");
    let failed = "echo 'test result: FAILED. 2 passed; 1 failed'; exit 101";
    let folder = packed("wrong-identity", "", failed);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(1));
    let rows = behind(&table, "identity");
    assert!(rows.last().unwrap().starts_with("FAILED, status 1"), "{table}");
    assert_eq!(behind(&table, "train_cuda, release=event").len(), 1, "the rest still runs");
}
