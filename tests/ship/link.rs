//! The archive in programs of every kind: beside another zstd, another Rust library, another
//! wavetrain, and under each linker.
//!
//! Comes in: the archive of tools/archive.sh and the sources of tests/link. Goes out: programs that
//! each stream one box and check every element. What is missing here is skipped, and said.

use crate::common::pack::{archive, cube, run};
use crate::common::{cc, header, pack};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn source(name: &str) -> PathBuf {
    header::root().join("tests/link").join(name)
}

/// gcc with the warnings of all C here, and the headers of the archive and of the tests.
fn gcc(folder: &Path) -> Command {
    let mut command = Command::new("gcc");
    command.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings"]);
    command.args(["-D_GNU_SOURCE", "-I"]).arg(folder);
    command.arg("-I").arg(header::root().join("tests/c"));
    command
}

/// A program of tests/link/one.c under further flags; it runs.
fn one(test: &str, flags: &[&str]) {
    let Some(folder) = archive() else { return };
    let program = cc::folder(&format!("link-{test}")).join("one");
    cc::run(
        gcc(folder)
            .args(flags)
            .args([source("one.c"), source("cube.c"), folder.join("libwavetrain.a")])
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    run(&program, &[&cube(test)]);
}

#[test]
fn a_static_program_links_and_runs() {
    one("static", &["-static"]);
}

#[test]
fn a_position_independent_program_links_and_runs() {
    one("pie", &["-pie", "-fPIE"]);
}

#[test]
fn a_program_at_fixed_addresses_links_and_runs() {
    one("fixed", &["-no-pie", "-fno-pie"]);
}

#[test]
fn a_program_of_the_first_header_works_with_the_archive_and_with_a_shared_library() {
    let Some(folder) = archive() else { return };
    let place = cc::folder("link-first-header");
    let (first, archive) = ("tests/abi/0.1.0", folder.join("libwavetrain.a"));
    let library = place.join("libnow.so");
    let mut link = Command::new("gcc");
    link.args(["-shared", "-Wl,--whole-archive"]).arg(&archive).arg("-Wl,--no-whole-archive");
    cc::run(link.args(["-lpthread", "-ldl", "-o"]).arg(&library));
    for (name, with) in [("archive", &archive), ("library", &library)] {
        let program = place.join(name);
        cc::run(
            gcc(&header::root().join(first))
                .args([&header::root().join(first).join("program.c"), with])
                .arg(format!("-Wl,-rpath,{}", place.display()))
                .args(["-lpthread", "-ldl", "-o"])
                .arg(&program),
        );
        run(&program, &[&cube("first-header")]);
    }
}

/// program.o is program.c of that folder as gcc 12 made it on x86-64, with the header beside it:
/// `gcc -std=c99 -O1 -fPIE -D_GNU_SOURCE -I tests/abi/0.1.0 -I tests/c -c`. It is never made anew.
#[test]
fn a_program_that_was_compiled_with_the_first_header_runs_with_the_archive() {
    let Some(folder) = archive() else { return };
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: program.o is of x86-64");
    }
    let object = header::root().join("tests/abi/0.1.0/program.o");
    let program = cc::folder("link-first-object").join("program");
    let mut link = Command::new("gcc");
    link.arg(object).arg(folder.join("libwavetrain.a"));
    cc::run(link.args(["-lpthread", "-ldl", "-o"]).arg(&program));
    run(&program, &[&cube("first-object")]);
}

#[test]
fn every_linker_takes_the_archive() {
    for linker in ["bfd", "gold", "lld", "mold"] {
        let program = if linker == "mold" { "mold".to_string() } else { format!("ld.{linker}") };
        if cc::find(&program, &[&program]).is_some() {
            one(linker, &[&format!("-fuse-ld={linker}"), "-Wl,--gc-sections"]);
        }
    }
}

#[test]
fn unwind_tables_are_there_only_where_they_are_asked_for() {
    let Some(folder) = archive() else { return };
    let with = cc::folder("archive-unwind");
    cc::run(pack::script("archive.sh").arg(&with).env("UNWIND", "1"));
    let has_tables = |folder: &Path| {
        let archive = folder.join("libwavetrain.a");
        cc::run(Command::new("readelf").arg("-SW").arg(archive)).contains(" .eh_frame ")
    };
    assert!(has_tables(&with) && !has_tables(folder));
    assert_eq!(pack::symbols(&with).len(), pack::symbols(folder).len());
}

#[test]
fn a_shared_library_of_the_host_carries_the_archive() {
    let Some(folder) = archive() else { return };
    let place = cc::folder("link-shared");
    let library = place.join("libhost.so");
    cc::run(
        gcc(folder)
            .args(["-shared", "-fPIC", "-Wl,-z,defs", "-Wl,-z,text", "-Wl,--exclude-libs,ALL"])
            .args([source("cube.c"), folder.join("libwavetrain.a")])
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&library),
    );
    let exported: Vec<String> = pack::symbols_of(&library, "--dyn-syms")
        .into_iter()
        .filter(|(section, _)| section != "UND")
        .map(|(_, name)| name)
        .collect();
    assert_eq!(exported, ["cube_wavetrain"], "a host may keep all names of ours to itself");
    let program = place.join("one");
    cc::run(
        gcc(folder)
            .args([source("one.c"), library])
            .arg(format!("-Wl,-rpath,{}", place.display()))
            .arg("-o")
            .arg(&program),
    );
    run(&program, &[&cube("shared")]);
}

#[test]
fn two_archives_of_other_prefixes_work_in_one_program() {
    let Some(folder) = archive() else { return };
    let place = cc::folder("link-two");
    cc::run(pack::script("archive.sh").arg(&place).env("PREFIX", "other"));
    let defined: Vec<String> = pack::symbols_of(&place.join("libother.a"), "-sW")
        .into_iter()
        .filter(|(section, _)| section != "UND")
        .map(|(_, name)| name)
        .collect();
    let header = fs::read_to_string(place.join("other.h")).unwrap();
    assert!(!header.contains("wavetrain") && !header.contains("WAVETRAIN"));
    assert_eq!(defined.len(), header::functions_of_archive().len());
    assert!(defined.iter().all(|name| name.starts_with("other_")), "{defined:?}");
    for file in ["tests/c/check.h", "tests/link/cube.c"] {
        let text = fs::read_to_string(header::root().join(file)).unwrap();
        let text = text.replace("wavetrain", "other").replace("WAVETRAIN", "OTHER");
        fs::write(place.join(Path::new(file).file_name().unwrap()), text).unwrap();
    }
    let object = place.join("cube.o");
    let mut compile = Command::new("gcc");
    compile.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-c", "-I"]);
    cc::run(compile.arg(&place).arg(place.join("cube.c")).arg("-o").arg(&object));
    let (ours, other) = (folder.join("libwavetrain.a"), place.join("libother.a"));
    for (number, archives) in [[&ours, &other], [&other, &ours]].into_iter().enumerate() {
        let program = place.join(format!("two{number}"));
        cc::run(
            gcc(folder)
                .args([source("two.c"), source("cube.c"), object.clone()])
                .args(archives)
                .args(["-lpthread", "-ldl", "-o"])
                .arg(&program),
        );
        let versions = run(&program, &[&cube("two")]);
        println!("versions: {versions}");
    }
}

#[test]
fn a_host_with_the_systems_zstd_keeps_it_in_either_link_order() {
    let Some(folder) = archive() else { return };
    let zstd = cc::run(Command::new("gcc").arg("-print-file-name=libzstd.a"));
    let zstd = PathBuf::from(zstd.trim());
    if !zstd.is_absolute() {
        println!("skipped: there is no libzstd.a here");
        return;
    }
    let place = cc::folder("link-zstd");
    let alone = place.join("alone");
    cc::run(gcc(folder).arg(source("host_zstd.c")).arg(&zstd).arg("-o").arg(&alone));
    let expected = run(&alone, &[]);
    let archive = folder.join("libwavetrain.a");
    for (number, archives) in [[&archive, &zstd], [&zstd, &archive]].into_iter().enumerate() {
        let program = place.join(format!("both{number}"));
        cc::run(
            gcc(folder)
                .arg("-DWITH_CUBE")
                .args([source("host_zstd.c"), source("cube.c")])
                .args(archives)
                .args(["-lpthread", "-ldl", "-o"])
                .arg(&program),
        );
        let versions = run(&program, &[&cube("zstd")]);
        println!("the host's zstd: {}, ours is linked too", versions.trim());
        assert_eq!(versions, expected);
    }
}

#[test]
fn a_host_with_another_rust_library_links_in_either_order() {
    let Some(folder) = archive() else { return };
    let rustc = std::env::var("RUSTC").unwrap_or("rustc".into());
    let Some(rustc) = cc::find("rustc", &[&rustc]) else { return };
    let place = cc::folder("link-rust");
    let library = place.join("libhost_rust.a");
    cc::run(
        Command::new(rustc)
            .args(["--edition", "2024", "--crate-type", "staticlib", "-O", "-o"])
            .arg(&library)
            .arg(source("host_rust.rs")),
    );
    let archive = folder.join("libwavetrain.a");
    for (number, archives) in [[&archive, &library], [&library, &archive]].into_iter().enumerate() {
        let program = place.join(format!("host{number}"));
        cc::run(
            gcc(folder)
                .args([source("host_rust.c"), source("cube.c")])
                .args(archives)
                .args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc", "-o"])
                .arg(&program),
        );
        run(&program, &[&cube("rust")]);
    }
}
