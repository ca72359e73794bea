//! The manual page and the completions: the packages have what the tool writes, bash completes with
//! them, and groff takes the page.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Files of the packages, and the commands that write them.
const WRITTEN: [(&str, &[&str]); 4] = [
    ("wavetrain.1", &["man"]),
    ("wavetrain.bash", &["completions", "bash"]),
    ("_wavetrain", &["completions", "zsh"]),
    ("wavetrain.fish", &["completions", "fish"]),
];

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tools/package")
}

fn tool(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_wavetrain")).args(arguments).output().unwrap()
}

/// WRITE_SHELL=1 writes them: cargo test --features cli --test tool shell
#[test]
fn packages_have_what_the_tool_writes() {
    for (name, arguments) in WRITTEN {
        let written = tool(arguments);
        assert!(written.status.success(), "{name}");
        let path = package().join(name);
        if std::env::var_os("WRITE_SHELL").is_some() {
            fs::write(&path, &written.stdout).unwrap();
        }
        let is_same = fs::read(&path).unwrap() == written.stdout;
        assert!(is_same, "{} is old: run this test with WRITE_SHELL=1", path.display());
    }
}

/// The completions of a line, whose last word is begun.
fn completed(words: &[&str]) -> Vec<String> {
    let script = r#". "$1" && shift && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) &&
        _wavetrain && printf '%s\n' "${COMPREPLY[@]}""#;
    let run = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", script, "bash"])
        .arg(package().join("wavetrain.bash"))
        .args(words)
        .output()
        .unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && errors.is_empty(), "{words:?}: {errors}");
    String::from_utf8(run.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    if Command::new("bash").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: there is no bash here");
        return;
    }
    assert_eq!(completed(&["wavetrain", "b"]), ["bench", "budget"]);
    assert_eq!(completed(&["wavetrain", "--v"]), ["--version"]);
    assert_eq!(completed(&["wavetrain", "bench", "--digest-"]), ["--digest-to", "--digest-from"]);
    assert_eq!(completed(&["wavetrain", "bench", "--bat"]), ["--batch"]);
    assert_eq!(completed(&["wavetrain", "crop", "--backend", ""]), ["auto", "host", "cuda"]);
    assert_eq!(completed(&["wavetrain", "crop", "--backend", "=", "c"]), ["cuda"]);
    assert_eq!(completed(&["wavetrain", "completions", "z"]), ["zsh"]);
    // Only flags of its own.
    assert_eq!(completed(&["wavetrain", "inspect", "--"]), ["--json", "--help"]);
    let files = completed(&["wavetrain", "inspect", concat!(env!("CARGO_MANIFEST_DIR"), "/READ")]);
    assert_eq!(files, [concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")]);
}

#[test]
fn other_shells_take_their_completions() {
    for (shell, name) in
        [("zsh", "_wavetrain"), ("fish", "wavetrain.fish"), ("bash", "wavetrain.bash")]
    {
        match Command::new(shell).arg("-n").arg(package().join(name)).output() {
            Ok(run) => assert!(run.status.success() && run.stderr.is_empty(), "{shell}: {run:?}"),
            Err(_) => println!("skipped: there is no {shell} here"),
        }
    }
}

#[test]
fn groff_takes_the_manual_page() {
    let page = package().join("wavetrain.1");
    let run = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page).output();
    match run {
        Ok(run) => assert!(run.status.success() && run.stderr.is_empty(), "{run:?}"),
        Err(_) => println!("skipped: there is no groff here"),
    }
}

#[test]
fn a_shell_that_is_not_known_is_refused() {
    for arguments in [&["completions"][..], &["completions", "csh"], &["man", "7"]] {
        assert_eq!(tool(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
