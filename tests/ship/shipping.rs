//! What someone who ships the archive is told of it, and what of it the tools see: licences, the
//! bill of materials, where code and constants lie, shadow stacks, the oldest C library.
//!
//! Comes in: the archive of tools/archive.sh and what lies beside it. packages.rs looks at the same
//! in the packages. A machine without a tool skips what needs it, and says so.

use crate::common::pack::archive;
use crate::common::{cc, header, pack};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Parts that are no crates: the C of one, and what comes with the compiler.
const OTHER_PARTS: [&str; 3] = ["compiler_builtins", "core", "zstd"];

/// The words of docs/install.md about the oldest C library.
const GLIBC: (u32, u32) = (2, 26);

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates of the library with their versions, as cargo tells them.
fn crates() -> BTreeMap<String, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--quiet", "--locked", "--offline", "--edges", "normal"]);
    cargo.args(["--prefix", "none", "--format", "{p}"]).current_dir(header::root());
    cc::run(&mut cargo)
        .lines()
        .map(|line| line.split(' '))
        .filter_map(|mut words| Some((words.next()?.into(), words.next()?[1..].into())))
        .collect()
}

/// The lines of tools/parts.txt, columns apart.
fn table() -> Vec<Vec<String>> {
    let text = text_of(&header::root().join("tools/parts.txt"));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let columns = |line: &str| {
        let columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        columns.map(str::to_string).collect::<Vec<_>>()
    };
    lines.map(columns).collect()
}

#[test]
fn the_table_of_parts_has_every_crate_of_the_library_and_no_other() {
    let named: BTreeSet<String> =
        table().into_iter().map(|line| line[0].split('=').next().unwrap().to_string()).collect();
    let mut parts: BTreeSet<String> = crates().into_keys().collect();
    parts.extend(OTHER_PARTS.map(String::from));
    assert_eq!(named, parts, "tools/parts.txt, then cargo tree");
}

#[test]
fn every_part_of_the_archive_has_its_licence_beside_it() {
    let Some(folder) = archive() else { return };
    let text = text_of(&folder.join("LICENSES.txt"));
    let rule = "=".repeat(64);
    // Behind the head: names, texts, names, texts.
    let pieces: Vec<&str> = text.split(&rule).skip(1).collect();
    let mut licensed = BTreeSet::new();
    for pair in pieces.chunks(2) {
        let [names, texts] = pair else { panic!("names without a text: {pair:?}") };
        assert!(texts.contains("Copyright"), "{names}");
        for name in names.trim().lines() {
            let (part, licence) = name.split_once(": ").unwrap();
            let phrases: &[&str] = match licence {
                "MIT" => &["Permission is hereby granted, free of charge"],
                "BSD-3-Clause" => &["Redistribution and use in source and binary forms"],
                _ => &["Apache License", "LLVM Exceptions", "Permission is hereby granted"],
            };
            for phrase in phrases {
                assert!(texts.contains(phrase), "{name}: {phrase}");
            }
            licensed.insert(part.split(' ').next().unwrap().to_string());
        }
    }
    for (name, version) in crates() {
        assert!(licensed.contains(&name), "{name} has no licence in LICENSES.txt");
        assert!(text.contains(&format!("\n{name} {version}: ")), "{name} {version}");
    }
    for name in OTHER_PARTS {
        assert!(licensed.contains(name), "{name} has no licence in LICENSES.txt");
    }
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[test]
fn the_bill_of_materials_is_that_of_the_archive() {
    let Some(folder) = archive() else { return };
    let bill = folder.join("wavetrain.spdx.json");
    let document: Value = serde_json::from_str(&text_of(&bill)).unwrap();
    assert_eq!(document["spdxVersion"], "SPDX-2.3");
    assert_eq!(document["dataLicense"], "CC0-1.0");
    assert!(words(&document["documentNamespace"]).starts_with("https://"));
    assert!(words(&document["creationInfo"]["created"]).ends_with('Z'));
    let packages = document["packages"].as_array().unwrap();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for package in packages {
        let id = words(&package["SPDXID"]);
        assert!(id.starts_with("SPDXRef-") && ids.insert(id), "{id}");
        for field in ["downloadLocation", "licenseDeclared", "licenseConcluded"] {
            assert!(!words(&package[field]).is_empty(), "{id} {field}");
        }
        let name = words(&package["name"]);
        let sum = words(&package["checksums"][0]["checksumValue"]);
        assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        found.insert(name.to_string(), words(&package["versionInfo"]).to_string());
    }
    for (name, version) in crates() {
        assert_eq!(found.get(&name), Some(&version), "{name}");
    }
    // zstd-sys 2.1.2+zstd.1.5.7
    assert!(found["zstd-sys"].ends_with(&format!("+zstd.{}", found["zstd"])));
    assert_eq!(found.len(), crates().len() + OTHER_PARTS.len());

    let ours = packages.iter().find(|package| package["name"] == "wavetrain").unwrap();
    let sums = cc::run(Command::new("sha256sum").arg(folder.join("libwavetrain.a")));
    assert!(sums.starts_with(words(&ours["checksums"][0]["checksumValue"])));
    let licences = words(&ours["licenseConcluded"]);
    let pkg_config = text_of(&header::root().join("tools/package/wavetrain.pc.in"));
    assert!(pkg_config.contains(&format!("\nLicense: {licences}\n")), "{licences}");
    for line in table() {
        assert!(line[2].split(" AND ").all(|one| licences.contains(one)), "{line:?}");
    }

    let relations = document["relationships"].as_array().unwrap();
    assert_eq!(relations.len(), packages.len());
    for relation in relations {
        let (from, to) = (words(&relation["spdxElementId"]), &relation["relatedSpdxElement"]);
        assert!(ids.contains(words(to)) && (from == "SPDXRef-DOCUMENT" || ids.contains(from)));
    }
    // `pip install spdx-tools` has it.
    match Command::new("pyspdxtools").arg("-i").arg(&bill).output() {
        Err(error) => println!("skipped: pyspdxtools: {error}"),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
}

/// A section of the archive's object: its flags and its bytes.
fn section(folder: &Path, name: &str) -> (String, Vec<u8>) {
    let place = cc::folder(&format!("section{}", name.replace('.', "-")));
    let object = place.join("wavetrain.o");
    cc::run(Command::new("ar").arg("x").arg(folder.join("libwavetrain.a")).current_dir(&place));
    let table = cc::run(Command::new("readelf").args(["-S", "-W"]).arg(&object));
    let line = table.lines().find(|line| line.contains(&format!(" {name} ")));
    let line = line.unwrap_or_else(|| panic!("no section {name}: {table}"));
    let words: Vec<&str> = line.split(']').nth(1).unwrap().split_whitespace().collect();
    let hex = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let (from, bytes) = (hex(words[3]), hex(words[4]));
    let object = std::fs::read(object).unwrap();
    (words[6].to_string(), object[from..from + bytes].to_vec())
}

#[test]
fn kernels_and_constants_are_not_among_the_code() {
    let Some(folder) = archive() else { return };
    let holds = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let (flags, code) = section(folder, ".text");
    assert_eq!(flags, "AX");
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/assemble.ptx.z");
    let kernel = std::fs::read(kernel).unwrap();
    // A kernel, and the name of a status.
    let constants: [&[u8]; 2] = [&kernel, b"NOT_FOUND"];
    let (flags, read_only) = section(folder, ".rodata");
    assert_eq!(flags, "A", "no code, and nothing that is written");
    for text in constants {
        let shown = &text[..text.len().min(20)];
        assert!(!holds(&code, text), "{shown:?} is mapped as code");
        assert!(holds(&read_only, text), "{shown:?}");
    }
}

/// What a file says of its jumps and calls.
fn features(file: &Path) -> Vec<&'static str> {
    let notes = cc::run(Command::new("readelf").args(["-n", "-W"]).arg(file));
    let line = notes.lines().find(|line| line.contains("x86 feature: ")).unwrap_or("");
    ["IBT", "SHSTK"].into_iter().filter(|feature| line.contains(feature)).collect()
}

/// Shadow stacks are claimed, because it is true; IBT is not, because functions of stable rustc do
/// not begin with endbr64.
#[test]
fn a_program_with_shadow_stacks_keeps_them() {
    let Some(folder) = archive() else { return };
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let archive = folder.join("libwavetrain.a");
    assert_eq!(features(&archive), ["SHSTK"]);
    let listing = cc::run(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&archive));
    assert!(!listing.contains("endbr64"), "IBT may be claimed where every function has it");
    let code: Vec<&str> = listing.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    let returns = |code: &str| code.split_whitespace().next() == Some("ret");
    assert!(code.iter().filter(|code| returns(code)).count() > 100);
    for pair in code.windows(2).filter(|pair| returns(pair[1])) {
        // What was called is returned from: no address is put on the stack to be gone to.
        assert!(!pair[0].starts_with("push") && !pair[0].contains(",(%rsp)"), "{pair:?}");
        assert_eq!(pair[1].trim(), "ret");
    }

    let place = cc::folder("shadow-stack");
    let (source, object) = (place.join("host.c"), place.join("host.o"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let full = "-fcf-protection=full";
    cc::run(Command::new("gcc").args([full, "-c"]).arg(&source).arg("-o").arg(&object));
    assert_eq!(features(&object), ["IBT", "SHSTK"]);
    // Without the C library's objects, of which not all say what they are fit for.
    let both = place.join("both.o");
    let mut linker = Command::new("ld");
    linker.args(["-r", "--whole-archive"]).arg(&object).arg(&archive);
    cc::run(linker.arg("-o").arg(&both));
    assert_eq!(features(&both), ["SHSTK"]);

    let program = place.join("program");
    let mut linker = Command::new("gcc");
    linker.arg(full).arg(&object).args(["-Wl,-z,shstk,-z,cet-report=warning,--whole-archive"]);
    linker.arg(&archive).args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-o"]).arg(&program);
    let output = linker.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("wavetrain.o")).collect();
    assert!(ours.iter().all(|line| !line.contains("SHSTK")), "{ours:?}");
    assert_eq!(features(&program), ["SHSTK"]);
}

/// The C library of this machine, where it is glibc.
fn c_library() -> Option<PathBuf> {
    let path = cc::run(Command::new("gcc").arg("-print-file-name=libc.so.6"));
    let path = PathBuf::from(path.trim());
    path.is_absolute().then_some(path)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("GLIBC_")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// A C library keeps every version of a function that it ever had, so its oldest tells since when
/// there is one.
#[test]
fn the_archive_links_with_the_oldest_glibc_that_the_documents_name() {
    let Some(folder) = archive() else { return };
    let Some(library) = c_library() else { return };
    let mut since: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (section, name) in pack::symbols_of(&library, "--dyn-syms") {
        let Some((name, text)) = name.split_once('@') else { continue };
        let Some(version) = version(text.trim_start_matches('@')) else { continue };
        if section != "UND" {
            let oldest = since.entry(name.to_string()).or_insert(version);
            *oldest = version.min(*oldest);
        }
    }
    let mut oldest = (0, 0);
    for (section, name) in pack::symbols(folder) {
        if section != "UND" {
            continue;
        }
        // Until 2.33 each program had its own of these, from libc_nonshared.a.
        if ["stat", "fstat", "lstat"].contains(&name.as_str()) {
            continue;
        }
        let version = since[&name];
        if version > oldest {
            println!("{name} since {}.{}", version.0, version.1);
        }
        oldest = version.max(oldest);
    }
    assert!(oldest <= GLIBC, "{oldest:?}");
    let page = text_of(&header::root().join("docs/install.md"));
    let said = format!("glibc {}.{} or later", GLIBC.0, GLIBC.1);
    assert!(page.contains(&said), "docs/install.md does not say {said:?}");
}

#[test]
fn headers_have_nothing_that_clang_warns_of() {
    // What C++98 lacks, and what every class with members of several sizes or with a virtual
    // function in a header has.
    let allowed = [
        "-Wno-c++98-compat",
        "-Wno-c++98-compat-pedantic",
        "-Wno-padded",
        "-Wno-weak-vtables",
        // Of newer clang: indexing a pointer, and a default beside every case of an enum.
        "-Wno-unknown-warning-option",
        "-Wno-unsafe-buffer-usage",
        "-Wno-switch-default",
    ];
    let Some(compiler) = cc::find("clang", &["clang"]) else { return };
    let include = header::root().join("include");
    let source = cc::folder("everything").join("one.c");
    let headers = ["", "_tiles", "_epoch", "_recipes", "_node"];
    let includes = headers.map(|name| format!("#include \"wavetrain{name}.h\"\n")).concat();
    std::fs::write(&source, format!("{includes}int main(void) {{ return 0; }}\n")).unwrap();
    let every_call = header::root().join("tests/cpp/every_call.cpp");
    for (standard, source) in [
        ("-std=c99", &source),
        ("-std=c11", &source),
        ("-std=c++17", &every_call),
        ("-std=c++20", &every_call),
    ] {
        let mut command = Command::new(&compiler);
        command.args([standard, "-Weverything", "-Werror", "-fsyntax-only"]);
        if standard.contains("++") {
            command.args(allowed);
        }
        cc::run(command.arg("-I").arg(&include).arg(source));
    }
}
