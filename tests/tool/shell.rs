//! The manual page and the completions: the packages have what the tool writes, bash, zsh and fish
//! complete with them, and groff takes the page.

use std::collections::BTreeSet;
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

/// Whether the shell can be started.
fn is_here(shell: &str) -> bool {
    let is_here = Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_here {
        println!("skipped: there is no {shell} here");
    }
    is_here
}

/// The completions of a line, sorted. A shell that waits for more input is ended after a minute.
fn completed_by(shell: &str, line: &str) -> Vec<String> {
    let zsh = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool/completed.zsh");
    let fish = "source $argv[1]/wavetrain.fish; complete -C $argv[2]";
    let arguments = match shell {
        "zsh" => vec!["-f", zsh],
        _ => vec!["--no-config", "-c", fish],
    };
    let mut command = Command::new("timeout");
    command.args(["60", shell]).args(arguments).arg(package()).arg(line);
    let run = command.output().unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && errors.is_empty(), "{shell} {line:?}: {errors}");
    let shown = String::from_utf8(run.stdout).unwrap();
    // fish adds a description after a tabulator; zsh offers the same match for each of its lists.
    let matches = shown.lines().map(|line| line.split('\t').next().unwrap_or("").to_string());
    matches.collect::<BTreeSet<String>>().into_iter().collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    if !is_here("bash") {
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
fn zsh_and_fish_complete_commands_flags_and_values() {
    for shell in ["zsh", "fish"].into_iter().filter(|shell| is_here(shell)) {
        let completed = |line: &str| completed_by(shell, line);
        assert_eq!(completed("wavetrain be"), ["bench"], "{shell}");
        assert_eq!(completed("wavetrain --ver"), ["--version"], "{shell}");
        assert_eq!(completed("wavetrain bench --digest-t"), ["--digest-to"], "{shell}");
        assert_eq!(completed("wavetrain inspect --"), ["--help", "--json"], "{shell}");
        assert_eq!(completed("wavetrain completions z"), ["zsh"], "{shell}");
        assert_eq!(completed("wavetrain bench --backend "), ["auto", "cuda", "host"], "{shell}");
        // A flag that crop has besides the config's of the same name.
        assert_eq!(completed("wavetrain crop --dtype u"), ["u16", "u32", "u64", "u8"], "{shell}");
        // No file is offered as a number.
        assert!(completed("wavetrain bench --n-io-threads ").is_empty(), "{shell}");
        for line in ["wavetrain inspect", "wavetrain crop -o", "wavetrain bench --requests"] {
            let root = env!("CARGO_MANIFEST_DIR");
            let files = completed(&format!("{line} {root}/READ"));
            // zsh completes the folders on the way, too.
            assert!(files.iter().any(|file| file.ends_with("README.md")), "{shell}: {files:?}");
        }
    }
}

#[test]
fn the_shells_find_no_fault_in_their_completions() {
    for (shell, name) in
        [("zsh", "_wavetrain"), ("fish", "wavetrain.fish"), ("bash", "wavetrain.bash")]
    {
        if is_here(shell) {
            let run = Command::new(shell).arg("-n").arg(package().join(name)).output().unwrap();
            assert!(run.status.success() && run.stderr.is_empty(), "{shell}: {run:?}");
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
