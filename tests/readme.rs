//! The README's C snippet compiles against the header as it stands. (Its Rust snippet is a doctest
//! of the library.)

#[path = "common/cc.rs"]
mod cc;

use std::path::Path;
use std::process::Command;

#[test]
fn the_c_snippet_of_the_readme_compiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(compiler) = cc::find("a C compiler", &["cc", "gcc", "clang"]) else { return };
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let snippet = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(snippet.contains("wavetrain_pop"));
    let folder = cc::folder("readme");
    let source = folder.join("snippet.c");
    std::fs::write(&source, snippet).unwrap();
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-I"]);
    command.arg(root.join("include")).arg(&source).arg("-o").arg(folder.join("snippet.o"));
    cc::run(&mut command);
}
