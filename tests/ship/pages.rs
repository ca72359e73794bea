//! The programs of the documents that are marked "run": built with the archive as their pages tell,
//! and run on arrays as the demo's.

use crate::common::pack::archive;
use crate::common::pages::{Snippet, marked, write_demo};
use crate::common::{cc, header};
use std::process::Command;

/// Builds and runs programs, which get the path of an array and print a line for each batch.
fn run(snippets: Vec<Snippet>, compiler: &str, flags: &[&str]) {
    let (Some(folder), Some(compiler)) = (archive(), cc::find(compiler, &[compiler])) else {
        return;
    };
    for snippet in snippets {
        let work = cc::folder(&format!("page-{}", snippet.at.replace(['/', ':', '.'], "-")));
        let source = work.join("first").with_extension(&snippet.language);
        std::fs::write(&source, &snippet.code).unwrap();
        let program = work.join("first");
        cc::run(
            Command::new(&compiler)
                .args(flags)
                .args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
                .args([header::root().join("include"), source, folder.join("libwavetrain.a")])
                .args(["-lpthread", "-ldl", "-o"])
                .arg(&program),
        );
        let array = write_demo(&work).join("bodies");
        let output = cc::run(Command::new(&program).arg(array));
        assert!(output.lines().count() >= 2 && output.contains('7'), "{}: {output}", snippet.at);
        let bad = Command::new(&program).arg(work.join("nothing")).output().unwrap();
        assert_eq!(bad.status.code(), Some(1), "{}", snippet.at);
        assert!(String::from_utf8_lossy(&bad.stderr).contains("nothing"), "{}", snippet.at);
    }
}

#[test]
fn programs_of_the_pages_in_c_run() {
    run(marked("c", "run"), "gcc", &["-std=c99"]);
}

#[test]
fn programs_of_the_pages_in_cpp_run() {
    run(marked("cpp", "run"), "g++", &["-std=c++17"]);
}
