//! The wheel of tools/dist.sh: what is in it, which glibc it asks for, and that every Python here
//! takes it without a network.
//!
//! Comes in: the wheel that packages.rs makes, once. Goes out: fresh virtual environments. A
//! machine without a tool or a Python skips what needs it, and says so.

use super::packages::{self, DAY, HOME, show, version};
use crate::common::{cc, header, pack};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn wheel() -> Option<&'static Path> {
    packages::packages()?.wheel.as_deref()
}

/// The wheel, unpacked, without what a zip knows of permissions.
fn unpacked(test: &str) -> Option<PathBuf> {
    let folder = cc::folder(&format!("wheel-{test}"));
    cc::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel()?).arg(&folder));
    Some(folder)
}

/// The files of a folder, as the wheel names them.
fn names(folder: &Path) -> BTreeSet<String> {
    let found = cc::run(Command::new("find").arg(".").args(["-type", "f"]).current_dir(folder));
    found.lines().map(|line| line.trim_start_matches("./").to_string()).collect()
}

fn info() -> String {
    format!("wavetrain-{}.dist-info", version())
}

fn tool() -> String {
    format!("wavetrain-{}.data/scripts/wavetrain", version())
}

const LIBRARY: &str = "wavetrain/lib/libwavetrain.so.0";

#[test]
fn the_wheel_has_what_its_description_says() {
    let Some(folder) = unpacked("contents") else { return };
    let mut wanted: BTreeSet<String> = [LIBRARY.to_string(), tool()].into();
    for header in names(&header::root().join("include")) {
        wanted.insert(format!("wavetrain/include/{header}"));
    }
    for source in names(&header::root().join("python/wavetrain")) {
        if source.ends_with(".py") || source.ends_with(".pyi") || source == "py.typed" {
            wanted.insert(format!("wavetrain/{source}"));
        }
    }
    let share = format!("wavetrain-{}.data/data/share", version());
    for name in [
        "man/man1/wavetrain.1",
        "bash-completion/completions/wavetrain",
        "zsh/site-functions/_wavetrain",
        "fish/vendor_completions.d/wavetrain.fish",
    ] {
        wanted.insert(format!("{share}/{name}"));
    }
    for example in names(&header::root().join("examples")) {
        if example.ends_with(".py") {
            wanted.insert(format!("{share}/doc/wavetrain/examples/{example}"));
        }
    }
    let described = ["METADATA", "WHEEL", "RECORD", "sboms/wavetrain.spdx.json"];
    for name in described.into_iter().chain(["licenses/LICENSE", "licenses/LICENSES.txt"]) {
        wanted.insert(format!("{}/{name}", info()));
    }
    assert_eq!(names(&folder), wanted);

    let metadata = fs::read_to_string(folder.join(info()).join("METADATA")).unwrap();
    for line in [
        "Metadata-Version: 2.4",
        "Name: wavetrain",
        &format!("Version: {}", version()),
        "Requires-Python: >=3.10",
        "License-Expression: MIT AND BSD-3-Clause AND Apache-2.0 WITH LLVM-exception",
        "License-File: LICENSE",
        "License-File: LICENSES.txt",
        "Project-URL: Repository, https://example.org/wavetrain",
        "Project-URL: Documentation, https://example.org/wavetrain/tree/main/docs",
        "Project-URL: Issues, https://example.org/wavetrain/issues",
    ] {
        assert!(metadata.lines().any(|found| found == line), "{line}: {metadata}");
    }
    let has_readme = header::root().join("python/README.md").is_file();
    assert_eq!(metadata.contains("\nDescription-Content-Type: text/markdown"), has_readme);
}

/// What RECORD writes of the sum that sha256sum prints: base64 of the bytes, no "=" at its end.
fn base64(hexadecimal: &str) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = hexadecimal.chars().map(|digit| digit.to_digit(16).unwrap());
    let mut bits: Vec<u32> =
        digits.flat_map(|digit| (0..4).rev().map(move |bit| digit >> bit & 1)).collect();
    bits.resize(bits.len().next_multiple_of(6), 0);
    let value = |six: &[u32]| six.iter().fold(0, |value, bit| value << 1 | bit);
    bits.chunks(6).map(|six| char::from(LETTERS[value(six) as usize])).collect()
}

#[test]
fn the_record_of_the_wheel_tells_the_sum_and_the_size_of_each_file() {
    let Some(folder) = unpacked("record") else { return };
    let mut found = names(&folder);
    let its_own_name = format!("{}/RECORD", info());
    let record = fs::read_to_string(folder.join(&its_own_name)).unwrap();
    for line in record.lines() {
        let (name, told) = line.split_once(',').unwrap();
        assert!(found.remove(name), "{line}");
        if name == its_own_name {
            assert_eq!(told, ",");
            continue;
        }
        let sum = cc::run(Command::new("sha256sum").arg(folder.join(name)));
        let bytes = fs::metadata(folder.join(name)).unwrap().len();
        assert_eq!(told, format!("sha256={},{bytes}", base64(&sum[..64])), "{name}");
    }
    assert!(found.is_empty(), "{found:?} are not in RECORD");
}

/// The newest glibc that a file asks for.
fn glibc_of(file: &Path) -> (u32, u32) {
    let table = cc::run(Command::new("readelf").args(["-V", "-W"]).arg(file));
    let needs = table.split("Name: GLIBC_").skip(1);
    let numbers = needs.map(|rest| {
        let mut numbers = rest.split_whitespace().next().unwrap().split('.');
        let mut number = || numbers.next().unwrap().parse().unwrap();
        (number(), number())
    });
    numbers.max().unwrap()
}

#[test]
fn the_wheels_name_tells_the_oldest_glibc_that_its_files_run_on() {
    let Some(folder) = unpacked("tag") else { return };
    let newest = glibc_of(&folder.join(LIBRARY)).max(glibc_of(&folder.join(tool())));
    let machine = std::env::consts::ARCH;
    let tag = format!("py3-none-manylinux_{}_{}_{machine}", newest.0, newest.1);
    let name = format!("wavetrain-{}-{tag}.whl", version());
    assert_eq!(wheel().unwrap().file_name().unwrap().to_str().unwrap(), name);
    let text = fs::read_to_string(folder.join(info()).join("WHEEL")).unwrap();
    assert!(text.contains(&format!("\nTag: {tag}\n")) && text.contains("Is-Purelib: false\n"));
    println!("the wheel is for glibc {}.{} or later", newest.0, newest.1);
    if pack::build_folder().join("glibc/zig").exists() {
        assert!(newest <= (2, 28), "{newest:?}");
        let page = fs::read_to_string(header::root().join("docs/install.md")).unwrap();
        let named = format!("wavetrain-VERSION-{tag}.whl`");
        assert!(machine != "x86_64" || page.contains(&named), "docs/install.md has not {named}");
    } else {
        println!("skipped: without zig the wheel needs the glibc of this machine");
    }
}

#[test]
fn the_library_of_the_wheel_is_that_of_the_binary_package() {
    let Some(folder) = unpacked("library") else { return };
    let prefix = packages::unpacked("wheel").unwrap();
    let library = fs::read(folder.join(LIBRARY)).unwrap();
    assert!(library == fs::read(prefix.join("lib/libwavetrain.so.0")).unwrap());
    for header in names(&prefix.join("include")) {
        let ours = fs::read(folder.join("wavetrain/include").join(&header)).unwrap();
        assert!(ours == fs::read(prefix.join("include").join(&header)).unwrap(), "{header}");
    }
}

#[test]
fn every_crate_of_the_tool_has_its_licence_in_the_wheel() {
    let Some(folder) = unpacked("licences") else { return };
    let licences = fs::read_to_string(folder.join(info()).join("licenses/LICENSES.txt")).unwrap();
    let bill = fs::read_to_string(folder.join(info()).join("sboms/wavetrain.spdx.json")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--quiet", "--locked", "--offline", "--edges", "normal"]);
    cargo.args(["--features", "cli", "--prefix", "none", "--format", "{p}"]);
    let crates = cc::run(cargo.current_dir(header::root()));
    for line in crates.lines() {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap(), &words.next().unwrap()[1..]);
        assert!(licences.contains(&format!("\n{name} {version}: ")), "{name} {version}");
        assert!(bill.contains(&format!("\"name\": \"{name}\"")), "{name}");
    }
    assert!(licences.contains("\nstd ") && crates.contains("lexopt"));
}

#[test]
fn the_wheel_packed_again_in_another_folder_has_the_same_bytes() {
    let Some(folder) = unpacked("again") else { return };
    fs::remove_file(folder.join(info()).join("RECORD")).unwrap();
    let out = cc::folder("wheel-packed-again");
    let mut script = Command::new("python3");
    script.arg(pack::copy_of_the_tree().join("tools/wheel.py")).arg(&folder).arg(&out);
    show(script.env("SOURCE_DATE_EPOCH", DAY).env("PROJECT_URL", HOME));
    let wheel = wheel().unwrap();
    let again = fs::read(out.join(wheel.file_name().unwrap())).unwrap();
    assert!(again == fs::read(wheel).unwrap());
    for path in [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"), "/.cargo/"] {
        let found = Command::new("grep").args(["-rlF", path]).arg(&folder).output().unwrap();
        assert!(found.stdout.is_empty(), "{path}: {}", String::from_utf8_lossy(&found.stdout));
    }
}

/// Which Python it is, if the wheel is for it.
const HAS_VENV: &str = "
import ensurepip, sys, venv
assert sys.version_info >= (3, 10)
print(sys.version)
";

/// Says where it was installed, and asks the library there for its version.
const IMPORTS: &str = "
import ctypes, pathlib, wavetrain
folder = pathlib.Path(wavetrain.__file__).parent
print(folder)
library = ctypes.CDLL(str(folder / 'lib' / 'libwavetrain.so.0'))
assert library.wavetrain_version() > 0
";

#[test]
fn every_python_here_installs_the_wheel_without_a_network_and_runs_it() {
    let Some(wheel) = wheel() else { return };
    let mut pythons: Vec<String> = (10..=14).map(|minor| format!("python3.{minor}")).collect();
    pythons.push("python3".to_string());
    let mut tried = BTreeSet::new();
    for python in pythons {
        let probe = Command::new(&python).args(["-c", HAS_VENV]).output();
        let Some(output) = probe.ok().filter(|output| output.status.success()) else {
            println!("skipped: {python} is not here, older than 3.10 or without venv");
            continue;
        };
        if !tried.insert(output.stdout) {
            continue;
        }
        let folder = cc::folder(&format!("wheel-{python}"));
        let bin = folder.join("venv/bin");
        // What the machine has beside its own packages is not to help.
        let run = |program: &Path, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(&folder).env_remove("PYTHONPATH");
            show(command.env("PIP_CONFIG_FILE", "/dev/null"))
        };
        run(Path::new(&python), &["-m", "venv", "venv"]);
        let install = ["-m", "pip", "install", "--no-index", "--no-deps", wheel.to_str().unwrap()];
        run(&bin.join("python"), &install);
        let place = run(&bin.join("python"), &["-c", IMPORTS]);
        assert!(Path::new(place.trim()).starts_with(folder.join("venv")), "{place}");
        let tool = bin.join("wavetrain");
        assert!(fs::metadata(&tool).unwrap().permissions().mode() & 0o111 == 0o111);
        assert_eq!(run(&tool, &["--version"]), format!("wavetrain {}\n", version()));
        assert!(run(&tool, &["--help"]).contains("wavetrain demo"));
    }
}
