//! The packed archive, made once by tools/archive.sh, how to look at it, and the
//! store that small programs read.
//!
//! Cargo's part of the work shares the build folder of the tests.

use super::store::Spec;
use super::{cc, header, store};
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
        let folder = cc::folder("archive");
        let mut script = script("archive.sh");
        print!("{}", cc::run(script.arg(&folder).env("UNSTRIPPED", unstripped(&folder))));
        Some(folder)
    });
    if made.is_none() {
        println!("skipped: there is no archive without gcc and binutils");
    }
    made.as_deref()
}

/// The archive's object with its names and lines, beside it.
pub fn unstripped(folder: &Path) -> PathBuf {
    folder.with_extension("o")
}

/// A script of tools/ with the settings that all tests share, so that cargo builds once.
pub fn script(name: &str) -> Command {
    let mut command = Command::new(header::root().join("tools").join(name));
    command.env("CC", "gcc").env("CARGO_TARGET_DIR", build_folder());
    command
}

/// The same of the copy of the tree, in a build folder of its own: the names of its files are in
/// cargo's flags, and cargo builds all anew where those change.
pub fn script_of_the_copy(name: &str) -> Command {
    let mut command = Command::new(copy_of_the_tree().join("tools").join(name));
    command.env("CC", "gcc").env("CARGO_TARGET_DIR", build_folder().join("elsewhere"));
    command
}

/// What the archive and the packages are made of, copied to another folder: once, so that cargo
/// builds each form of it once.
pub fn copy_of_the_tree() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(copy_the_tree)
}

fn copy_the_tree() -> PathBuf {
    let copy = cc::folder("elsewhere");
    for part in [
        "Cargo.toml",
        "Cargo.lock",
        "CMakeLists.txt",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "benches", // the manifest names them
        "docs",
        "examples",
        "include",
        "kernels",
        "python",
        "src",
        "tools",
    ] {
        cc::run(Command::new("cp").arg("-R").arg(header::root().join(part)).arg(&copy));
    }
    // The manifest names it, and cargo looks at it, built or not.
    let remote = copy.join("remote");
    std::fs::create_dir(&remote).unwrap();
    for part in ["Cargo.toml", "src"] {
        let part = header::root().join("remote").join(part);
        cc::run(Command::new("cp").arg("-R").arg(part).arg(&remote));
    }
    copy
}

/// Where cargo builds.
pub fn build_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_path_buf()
}

/// Where cargo builds archives of other flags: it would build that of all tests again after each.
pub fn build_folder_of_flags() -> PathBuf {
    build_folder().join("other-flags")
}

/// Symbols of the archive in a folder that are not local: (section or "UND", name).
pub fn symbols(folder: &Path) -> Vec<(String, String)> {
    symbols_of(&folder.join("libwavetrain.a"), "-sW")
}

/// Symbols of a file that are not local, as an option of readelf tells them.
pub fn symbols_of(file: &Path, option: &str) -> Vec<(String, String)> {
    cc::run(Command::new("readelf").args([option, "-W"]).arg(file))
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() >= 8 && words[0].ends_with(':') && words[0] != "Num:")
        .filter(|words| words[4] != "LOCAL")
        .map(|words| (words[6].to_string(), words[7].to_string()))
        .collect()
}

/// A C++ program of examples/ without a warning, linked with the archive, in an empty folder of its
/// own; None where a tool is missing.
pub fn example(stem: &str, libraries: &[String]) -> Option<PathBuf> {
    let (headers, compiler) = (archive()?, cc::find("C++ compiler", &["g++"])?);
    let program = cc::folder(&format!("program-{stem}")).join(stem);
    cc::run(
        Command::new(compiler)
            .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion"])
            .args(["-Wsign-conversion", "-Wshadow", "-Wold-style-cast", "-Werror", "-I"])
            .arg(headers)
            .arg(header::root().join(format!("examples/{stem}.cpp")))
            .arg(headers.join("libwavetrain.a"))
            .args(libraries)
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    Some(program)
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

/// A sparse cube for programs that need one array.
pub fn cube(test: &str) -> String {
    let array = cc::folder(&format!("store-{test}")).join("cube");
    store::write(&array, &CUBE);
    array.to_str().unwrap().to_string()
}
