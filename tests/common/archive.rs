//! Makes the archive for test programs, and the store that small C and C++ programs read.
//!
//! Out: a folder with libwavetrain.a and the headers, one per test program, or None where a tool
//! is missing; cargo builds the library itself once for all of them.

#![allow(dead_code)] // each test program uses another part of it

use crate::store::Spec;
use crate::{cc, header, store};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The array that tests/c/check.h knows.
pub const CUBE: Spec = Spec { seed: 0, edge: 64, shard: 16, chunk: 8, zstd: true, sparse: true };

/// The folder that tools/archive.sh filled, or None where a tool is missing.
pub fn archive() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        for tool in ["gcc", "ld", "ar", "readelf", "objcopy"] {
            cc::find(tool, &[tool])?;
        }
        let folder = cc::folder(&format!("archive-for-{}", env!("CARGO_CRATE_NAME")));
        print!("{}", cc::run(&mut archive_command(&folder)));
        Some(folder)
    });
    if made.is_none() {
        println!("skipped: there is no archive without gcc and binutils");
    }
    made.as_deref()
}

/// tools/archive.sh with the build folder of this run.
pub fn archive_command(folder: &Path) -> Command {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut command = Command::new(header::root().join("tools/archive.sh"));
    command.arg(folder).env("CC", "gcc").env("CARGO_TARGET_DIR", target);
    command
}

/// A sparse cube for programs that need one array.
pub fn cube(test: &str) -> String {
    let array = cc::folder(&format!("store-{test}")).join("cube");
    store::write(&array, &CUBE);
    array.to_str().unwrap().to_string()
}

/// Runs a test program; 77 means that this machine cannot.
pub fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(77) {
        println!("{text}");
        return text;
    }
    assert!(
        output.status.success(),
        "{} {arguments:?}: {}\n{text}{}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
