//! Runs compilers and the programs that they make.
//!
//! A machine without a tool skips what needs it, and says so; a tool that fails is a failure.

#![allow(dead_code)] // benches/gpu uses a part of it

use std::path::{Path, PathBuf};
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

/// What tools/cuda_sim.sh makes with these arguments behind its folder: the simulated driver, or
/// another program of tests/cuda_sim, which is called `name`. None, with a printed reason, where
/// there is no g++. It stays in the build folder: the same is compiled once for all runs.
pub fn kernels(name: &str, arguments: &[&str]) -> Option<PathBuf> {
    let compiler = find("g++", &["g++"])?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tools/cuda_sim.sh");
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for path in kernel_sources(root).iter().chain([&script]) {
        eat(path.file_name().unwrap().to_str().unwrap().as_bytes());
        eat(&std::fs::read(path).unwrap());
    }
    eat(arguments.join(" ").as_bytes());
    let stem = name.split('.').next().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{hash:016x}"));
    let made = folder.join(name);
    if !made.exists() {
        run(Command::new(script).arg(folder).args(arguments).env("CXX", compiler));
    }
    Some(made)
}

/// Everything that those are made from.
fn kernel_sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["tests/cuda_sim", "kernels"] {
        let paths =
            std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(paths.filter(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("cpp" | "hpp" | "cu" | "cuh"))
        }));
    }
    found.sort();
    found
}
