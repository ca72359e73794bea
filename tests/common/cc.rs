//! Runs compilers and the programs that they make.
//!
//! A machine without a tool skips what needs it, and says so; a tool that fails is a failure.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The first of `names` that runs here. None, with a printed reason, where there is none: the
/// caller skips.
pub fn find(what: &str, names: &[&str]) -> Option<String> {
    let found = names.iter().find(|name| {
        let mut probe = Command::new(name);
        probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    if found.is_none() {
        println!("skipped: there is no {what} here");
    }
    found.map(|name| name.to_string())
}

/// An empty folder for one test, under the build folder.
pub fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a command that must succeed; gives what it wrote to stdout.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
