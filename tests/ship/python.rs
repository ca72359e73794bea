//! The Python package: its declarations are the header's, and its own tests pass.
//!
//! tests/python is run by pytest on the shared library of the archive. Warnings are errors, and
//! memory is checked: all of -X dev but asyncio's debug mode, with which zarr-python takes four
//! times as long. What a machine lacks is skipped, and said. The wheel is wheel.rs's.

use crate::common::pack::archive;
use crate::common::{cc, cuda_sim, header};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Python 3.10 or later: $PYTHON, else python3.
pub fn python() -> Option<Command> {
    let name = std::env::var("PYTHON").unwrap_or("python3".to_string());
    let python = cc::find(&name, &[&name])?;
    let version = "import sys; print(sys.version_info >= (3, 10))";
    let is_new = cc::run(Command::new(&python).args(["-c", version]));
    if is_new.trim() != "True" {
        println!("skipped: {python} is older than 3.10");
        return None;
    }
    let mut command = Command::new(python);
    command.arg("-B").env("PYTHONPATH", header::root().join("python"));
    Some(command)
}

/// The archive as a shared library.
pub fn shared_library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = LIBRARY.get_or_init(|| {
        let (folder, place) = (archive()?, cc::folder("python"));
        let library = place.join("libwavetrain.so.0");
        cc::run(
            Command::new("gcc")
                .args(["-shared", "-o"])
                .arg(&library)
                .arg("-Wl,--whole-archive")
                .arg(folder.join("libwavetrain.a"))
                .args(["-Wl,--no-whole-archive", "-lpthread", "-ldl"]),
        );
        Some(library)
    });
    made.as_deref()
}

/// Runs of pytest, each with a part of the files: one for all would be the last test that ends.
const PARTS: usize = 4;

/// The files of tests/python that one part has.
fn files_of_tests(part: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(header::root().join("tests/python")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("test_") && name.ends_with(".py")
    });
    files.sort();
    let files: Vec<PathBuf> = files.into_iter().skip(part).step_by(PARTS).collect();
    assert!(files.len() > 10, "{files:?}");
    files
}

fn run_pytest(part: usize) {
    let Some(mut looks) = python() else { return };
    let needed = "import fsspec, hypothesis, numpy, pytest, zarr; zarr.create_array";
    let output = looks.args(["-c", needed]).output().unwrap();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let why = text.lines().last().unwrap_or("no reason").to_string();
        println!("skipped: {why}: pip install fsspec hypothesis 'numpy>=2.1' pytest 'zarr>=3'");
        return;
    }
    let (Some(library), Some(mut pytest)) = (shared_library(), python()) else { return };
    if let Some(driver) = cuda_sim::library() {
        pytest.env("SIMULATED_DRIVER", driver);
    }
    let output = pytest
        .args(["-W", "error", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"])
        .envs([("PYTHONMALLOC", "debug"), ("PYTHONFAULTHANDLER", "1")])
        .args(files_of_tests(part))
        .env("WAVETRAIN_LIBRARY", library)
        .current_dir(cc::folder(&format!("pytest-{part}")))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}{complaint}", output.status);
}

#[test]
fn what_pytest_is_told_holds_in_the_first_part() {
    run_pytest(0);
}

#[test]
fn what_pytest_is_told_holds_in_the_second_part() {
    run_pytest(1);
}

#[test]
fn what_pytest_is_told_holds_in_the_third_part() {
    run_pytest(2);
}

#[test]
fn what_pytest_is_told_holds_in_the_last_part() {
    run_pytest(PARTS - 1);
}

#[test]
fn the_declarations_are_made_from_the_header() {
    let Some(mut python) = python() else { return };
    cc::run(python.arg(header::root().join("tools/bindings.py")).arg("--check"));
}

#[test]
fn the_header_and_python_say_of_settings_what_their_table_says() {
    let Some(mut python) = python() else { return };
    cc::run(python.arg(header::root().join("tools/settings.py")).arg("--check"));
}

/// Prints "struct.field offset size", "sizeof struct size" and "constant name value".
const LAYOUT: &str = "
import ctypes, re
from wavetrain import _batch, _native

def show(name, kind):
    for field, _ in kind._fields_:
        at = getattr(kind, field)
        print(f'{name}.{field}', at.offset, at.size)
    print('sizeof', name, ctypes.sizeof(kind))

for name, kind in vars(_native).items():
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
        if kind is not ctypes.Structure:
            show('wavetrain' + re.sub('[A-Z]', lambda m: '_' + m[0].lower(), name), kind)
    elif isinstance(kind, int):
        print('constant', name, kind)
show('dltensor', _batch.DLManagedTensor)
show('dltensor_versioned', _batch.DLManagedTensorVersioned)
";

/// What the C compiler says about the lines that LAYOUT printed.
fn c_compiler_on(python: &str, folder: &Path) -> String {
    let mut source = String::from(
        "#include \"wavetrain.h\"\n#include \"wavetrain_epoch.h\"\n\
         #include \"wavetrain_recipes.h\"\n\
         #include <stddef.h>\n#include <stdio.h>\n\
         /* As DLPack 1.0 lays them out. */\n\
         typedef struct { void *data; int32_t device[2]; int32_t ndim; uint8_t dtype[4];\n\
         int64_t *shape, *strides; uint64_t byte_offset; } tensor;\n\
         typedef struct { tensor dl_tensor; void *manager_ctx; void (*deleter)(void *); }\n\
         dltensor;\n\
         typedef struct { uint32_t major, minor; void *manager_ctx;\n\
         void (*deleter)(void *); uint64_t flags; tensor dl_tensor; } dltensor_versioned;\n\
         int main(void) {\n",
    );
    for line in python.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let printed = match words[..] {
            ["sizeof", name, _] => format!("\"sizeof {name} %zu\\n\", sizeof({name})"),
            ["constant", name, number] => {
                // Of the width that Python gave it: -1 and 2^64 - 1 are not one number.
                let format = if number.starts_with('-') { "%lld" } else { "%llu" };
                format!("\"constant {name} {format}\\n\", 0LL + WAVETRAIN_{name}")
            }
            [field, _, _] => {
                let (name, field) = field.split_once('.').unwrap();
                let (at, size) = (
                    format!("offsetof({name}, {field})"),
                    format!("sizeof((({name} *)0)->{field})"),
                );
                format!("\"{name}.{field} %zu %zu\\n\", {at}, {size}")
            }
            _ => panic!("{line:?}"),
        };
        writeln!(source, "printf({printed});").unwrap();
    }
    source.push_str("return 0; }\n");
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&file, source).unwrap();
    let mut compile = Command::new("gcc");
    compile.arg("-I").arg(header::root().join("include")).arg(&file).arg("-o").arg(&program);
    cc::run(&mut compile);
    cc::run(&mut Command::new(&program))
}

#[test]
fn structs_and_constants_are_those_of_the_c_compiler() {
    let (Some(mut python), Some(_)) = (python(), cc::find("C compiler", &["gcc"])) else { return };
    // The package does not load the library before it is used.
    let python = cc::run(python.args(["-c", LAYOUT]));
    assert!(python.lines().count() > 300, "{python}");
    let c = c_compiler_on(&python, &cc::folder("python-layout"));
    for (ours, theirs) in python.lines().zip(c.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(python.lines().count(), c.lines().count());
}
