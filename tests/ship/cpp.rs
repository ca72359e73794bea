//! The C++ headers: every compiler and standard takes them without a warning, the C surface is
//! reachable through them, and programs of tests/cpp and examples/ that use them check every value.
//!
//! A machine without a compiler skips what needs it, and says so.

use crate::common::pack::{CUBE, archive, cube, run};
use crate::common::store::Spec;
use crate::common::{cc, cuda_sim, header, store};
use std::path::{Path, PathBuf};
use std::process::Command;

const COMPILERS: [&str; 2] = ["g++", "clang++"];
const STANDARDS: [&str; 3] = ["c++17", "c++20", "c++2b"];
/// A program may or may not have exceptions and type information.
const NO_RUNTIME: [&str; 2] = ["-fno-exceptions", "-fno-rtti"];
const WARNINGS: [&str; 11] = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wundef",
    "-Wold-style-cast",
    "-Wnon-virtual-dtor",
    "-Wextra-semi",
    "-Werror",
];

fn header_text(name: &str) -> String {
    std::fs::read_to_string(header::root().join("include").join(name)).unwrap()
}

/// The lines of a C++ header that are code, as far as its own style goes.
fn code_of(name: &str) -> String {
    let text = header_text(name);
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some(begin) = rest.find("/*") {
        code.push_str(&rest[..begin]);
        rest = &rest[begin + rest[begin..].find("*/").expect("an open comment") + 2..];
    }
    code.push_str(rest);
    code
}

/// Compiles a source of this tree to check it only.
fn compile_only(compiler: &str, source: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(flags).arg("-fsyntax-only").arg("-I");
    command.arg(header::root().join("include")).arg(header::root().join(source));
    command
}

#[test]
fn headers_are_warning_free_in_every_standard_with_and_without_exceptions() {
    for name in COMPILERS {
        let Some(compiler) = cc::find(name, &[name]) else { continue };
        for standard in STANDARDS {
            let standard = format!("-std={standard}");
            let every_call = "tests/cpp/every_call.cpp";
            cc::run(&mut compile_only(&compiler, every_call, &[&standard]));
            let bare = [&[standard.as_str()], &NO_RUNTIME[..]].concat();
            cc::run(&mut compile_only(&compiler, every_call, &bare));
        }
    }
}

#[test]
fn owners_are_not_copied_and_nothing_borrows_of_what_is_gone() {
    for name in COMPILERS {
        let Some(compiler) = cc::find(name, &[name]) else { continue };
        for standard in STANDARDS {
            let standard = format!("-std={standard}");
            cc::run(&mut compile_only(&compiler, "tests/cpp/lifetimes.cpp", &[&standard]));
        }
    }
}

#[test]
fn spans_are_those_of_the_standard_library_where_it_has_them() {
    for name in COMPILERS {
        let Some(compiler) = cc::find(name, &[name]) else { continue };
        for standard in &STANDARDS[1..] {
            let standard = format!("-std={standard}");
            cc::run(&mut compile_only(&compiler, "tests/cpp/std_span.cpp", &[&standard]));
        }
    }
}

#[test]
fn headers_live_with_the_macros_of_other_people() {
    for name in COMPILERS {
        let Some(compiler) = cc::find(name, &[name]) else { continue };
        for standard in STANDARDS {
            let standard = format!("-std={standard}");
            for more in [&[][..], &NO_RUNTIME[..]] {
                let flags = [&[standard.as_str(), "-Itests/c"], more].concat();
                let mut command = compile_only(&compiler, "tests/cpp/macros.cpp", &flags);
                cc::run(command.current_dir(header::root()));
            }
        }
    }
    for name in ["gcc", "clang"] {
        let Some(compiler) = cc::find(name, &[name]) else { continue };
        for standard in ["c99", "c11", "c17"] {
            cc::run(
                Command::new(&compiler)
                    .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
                    .args([&format!("-std={standard}"), "-Iinclude", "tests/c/macros.c"])
                    .current_dir(header::root()),
            );
        }
    }
}

#[test]
fn without_exceptions_the_throwing_header_says_which_one_to_take() {
    for name in COMPILERS {
        let Some(compiler) = cc::find(name, &[name]) else { continue };
        let flags = ["-std=c++17", NO_RUNTIME[0]];
        let output =
            compile_only(&compiler, "tests/cpp/odr_one.cpp", &flags).output().expect("a compiler");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(text.contains("with -fno-exceptions include wavetrain.hpp"), "{text}");
    }
}

#[test]
fn every_function_of_the_c_header_is_called_by_the_cpp_header() {
    let code = code_of("wavetrain.hpp");
    let functions = header::functions(&header::text());
    assert!(functions.len() >= 18, "{functions:?}");
    for function in functions {
        assert!(code.contains(&format!("{function}(")), "{function}");
    }
}

/// What a header of C++ may include beside others of ours.
fn check_that_it_is_light(name: &str, light: &[&str]) -> String {
    let code = code_of(name);
    for line in code.lines().filter(|line| line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match words.next().unwrap() {
            "#include" => assert!(light.contains(&words.next().unwrap()), "{line}"),
            "#define" => assert!(words.next().unwrap().starts_with("WAVETRAIN_"), "{line}"),
            word => assert!(["#ifndef", "#endif"].contains(&word), "{line}"),
        }
    }
    for word in ["virtual", "throw ", "dynamic_cast", "typeid", "using namespace", "std::function"]
    {
        assert!(!code.contains(word), "{word}");
    }
    code
}

#[test]
fn core_header_takes_nothing_heavy_and_leaves_nothing_behind() {
    let light = [
        "\"wavetrain.h\"",
        "\"wavetrain_node.h\"",
        "<atomic>",
        "<cstddef>",
        "<cstdint>",
        "<cstring>",
        "<type_traits>",
        "<utility>",
    ];
    assert!(!check_that_it_is_light("wavetrain.hpp", &light).contains("new "));
}

#[test]
fn header_of_sources_takes_what_the_core_takes_and_locks_and_allocates_nothing() {
    let light = ["\"wavetrain.hpp\"", "<new>", "<pthread.h>", "<time.h>"];
    let code = check_that_it_is_light("wavetrain_source.hpp", &light);
    assert!(!code.replace("::new (static_cast<void *>", "").contains("new "));
    for word in ["pthread_create", "malloc", "delete["] {
        assert!(!code.contains(word), "{word}");
    }
}

/// Compiles and links sources of this tree with the archive.
fn build(folder: &Path, compiler: &str, name: &str, sources: &[&str], flags: &[&str]) -> PathBuf {
    let program = cc::folder(&format!("program-{name}-{compiler}")).join(name);
    cc::run(
        Command::new(compiler)
            .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings"])
            .args(flags)
            .arg("-I")
            .arg(folder)
            .arg("-I")
            .arg(header::root().join("tests/c"))
            .args(sources.iter().map(|source| header::root().join(source)))
            .arg(folder.join("libwavetrain.a"))
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    program
}

/// A folder with a good array and one whose indexes are all damaged.
fn good_and_damaged(test: &str) -> String {
    let stores = cc::folder(&format!("store-{test}"));
    store::write(&stores.join("cube"), &CUBE);
    let spec = Spec { sparse: false, zstd: false, ..CUBE };
    store::write(&stores.join("damaged"), &spec);
    for shard in store::places(spec.edge / spec.shard) {
        store::flip_index(&stores.join("damaged"), &spec, shard);
    }
    stores.to_str().unwrap().to_string()
}

/// tests/cpp/count_alloc.c, compiled as C: the malloc of a program that counts.
fn counting_malloc(test: &str) -> String {
    let counter = cc::folder(&format!("count-alloc-{test}")).join("count_alloc.o");
    cc::run(
        Command::new("gcc")
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-c"])
            .arg(header::root().join("tests/cpp/count_alloc.c"))
            .arg("-I")
            .arg(header::root().join("tests/c"))
            .arg("-o")
            .arg(&counter),
    );
    counter.to_str().unwrap().to_string()
}

/// The compilers that are here.
fn compilers() -> impl Iterator<Item = String> {
    COMPILERS.iter().filter_map(|name| cc::find(name, &[name]))
}

#[test]
fn two_translation_units_are_one_program() {
    let Some(folder) = archive() else { return };
    for compiler in compilers() {
        let sources = ["tests/cpp/odr_one.cpp", "tests/cpp/odr_two.cpp"];
        let program = build(folder, &compiler, "odr", &sources, &[]);
        assert_eq!(run(&program, &[]), "one program\n");
    }
}

#[test]
fn handles_batches_and_streams_do_what_the_header_says() {
    let Some(folder) = archive() else { return };
    let stores = good_and_damaged("cpp-core");
    for compiler in compilers() {
        let sources = ["tests/cpp/core.cpp", &counting_malloc("core")];
        run(&build(folder, &compiler, "core", &sources, &NO_RUNTIME), &[&stores]);
    }
}

#[test]
fn sources_give_what_callbacks_and_threads_give_in_its_order_without_allocation() {
    let Some(folder) = archive() else { return };
    for compiler in compilers() {
        let sources = ["tests/cpp/source.cpp", &counting_malloc("source")];
        run(&build(folder, &compiler, "source", &sources, &NO_RUNTIME), &[]);
    }
}

#[test]
fn sources_refuse_by_name_and_call_on_the_threads_of_the_program() {
    let Some(folder) = archive() else { return };
    let stores = good_and_damaged("cpp-source");
    for compiler in compilers() {
        let sources = ["tests/cpp/source_limits.cpp"];
        run(&build(folder, &compiler, "source_limits", &sources, &NO_RUNTIME), &[&stores]);
    }
}

/// AddressSanitizer for one's own code, where this compiler brings it.
fn address_sanitizer(compiler: &str) -> Option<&'static str> {
    const FLAG: &str = "-fsanitize=address";
    let folder = cc::folder(&format!("asan-{compiler}"));
    let source = folder.join("main.cpp");
    std::fs::write(&source, "int main() { return 0; }\n").unwrap();
    let mut command = Command::new(compiler);
    command.arg(FLAG).arg(&source).arg("-o").arg(folder.join("main"));
    let has_it = command.output().expect("a compiler").status.success();
    if !has_it {
        println!("skipped: {compiler} has no AddressSanitizer");
    }
    has_it.then_some(FLAG)
}

#[test]
fn a_source_holds_its_room_until_nothing_reads_it() {
    let Some(folder) = archive() else { return };
    for compiler in compilers() {
        let sources = ["tests/cpp/source_room.cpp"];
        run(&build(folder, &compiler, "source_room", &sources, &NO_RUNTIME), &[]);
        if let Some(flag) = address_sanitizer(&compiler) {
            run(&build(folder, &compiler, "source_room_asan", &sources, &[flag]), &[]);
        }
    }
}

/// The example as a user leaves it: with the batch that is there, and calls made for more.
#[test]
fn an_early_return_of_the_example_of_sources_frees_nothing_that_is_read() {
    let Some(folder) = archive() else { return };
    let text = std::fs::read_to_string(header::root().join("examples/external_source.cpp"));
    let line = "            const auto pixels = b.as<const float>();\n";
    let early = text.unwrap().replace(line, &format!("{line}return pixels.size() == 0;\n"));
    assert_eq!(early.matches("return pixels").count(), 1);
    let source = cc::folder("external-source-early").join("early.cpp");
    std::fs::write(&source, early).unwrap();
    let Some(compiler) = compilers().next() else { return };
    let sources = [source.to_str().unwrap()];
    let program = build(folder, &compiler, "early", &sources, &["-Wno-unused-variable"]);
    for _ in 0..100 {
        assert_eq!(run(&program, &[]), "");
    }
}

#[test]
fn every_exception_is_thrown_by_what_it_is_named_after() {
    let Some(folder) = archive() else { return };
    let stores = good_and_damaged("cpp-exceptions");
    for compiler in compilers() {
        let program = build(folder, &compiler, "exceptions", &["tests/cpp/exceptions.cpp"], &[]);
        run(&program, &[&stores]);
    }
}

#[test]
fn batches_in_device_memory_say_so_and_are_given_back() {
    let Some(folder) = archive() else { return };
    let Some(driver) = cuda_sim::library() else { return };
    let stores = good_and_damaged("cpp-device");
    for compiler in compilers() {
        let program = build(folder, &compiler, "device", &["tests/cpp/device.cpp"], &[]);
        run(&program, &[&stores, driver.to_str().unwrap()]);
    }
}

#[test]
fn hello_shows_the_whole_api() {
    let Some(folder) = archive() else { return };
    let array = cube("hello-cpp");
    for compiler in compilers() {
        let program = build(folder, &compiler, "hello", &["examples/hello.cpp"], &NO_RUNTIME);
        let output = run(&program, &[&array]);
        let count = |text: &str| output.lines().filter(|line| line.contains(text)).count();
        assert_eq!(count("samples, mean"), 8, "{output}");
    }
}

#[test]
fn engine_streams_from_its_pak_what_a_plain_run_streams_from_the_folder() {
    let Some(folder) = archive() else { return };
    let array = cube("engine");
    for compiler in compilers() {
        let program = build(folder, &compiler, "engine", &["examples/engine.cpp"], &NO_RUNTIME);
        let pak = cc::folder("engine-pak").join("cube.pak");
        let output = run(&program, &[&array, pak.to_str().unwrap()]);
        assert!(output.contains("every byte is that of the plain run"), "{output}");
    }
}

#[test]
fn stages_are_ranges_of_nvtx() {
    let Some(folder) = archive() else { return };
    let array = cube("nvtx");
    for compiler in compilers() {
        let stub = format!("-I{}", header::root().join("tests/cpp").display());
        let source = "examples/nvtx_profiler.cpp";
        let program = build(folder, &compiler, "nvtx", &[source], &[&stub]);
        let output = run(&program, &[&array]);
        assert!(output.contains("8 batches"), "{output}");
        let numbers = output.lines().find_map(|line| line.split_once(" ranges, ")).unwrap();
        assert_eq!(numbers.0, numbers.1.split(' ').next().unwrap(), "{output}");
        assert!(numbers.0.parse::<u32>().unwrap() > 8 + 8, "{output}");
    }
}

/// tests/cpp/plugin.cpp as a shared object that has the archive in it.
fn plugin(folder: &Path, compiler: &str, name: &str, flags: &[&str]) -> PathBuf {
    let library = cc::folder(&format!("plugin-{name}-{compiler}")).join(format!("{name}.so"));
    cc::run(
        Command::new(compiler)
            .args(["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"])
            .args(flags)
            .arg("-I")
            .arg(folder)
            .arg("-I")
            .arg(header::root().join("tests/c"))
            .arg(header::root().join("tests/cpp/plugin.cpp"))
            .arg(folder.join("libwavetrain.a"))
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&library),
    );
    library
}

#[test]
fn two_plugins_have_their_own_loaders_and_can_be_unloaded() {
    let Some(folder) = archive() else { return };
    let Some(compiler) = compilers().next() else { return };
    let array = cube("plugins");
    let host = cc::folder("plugin-host").join("two_plugins");
    cc::run(
        Command::new(compiler)
            .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,--no-as-needed", "-I"])
            .arg(folder)
            .arg("-I")
            .arg(header::root().join("tests/c"))
            .arg(header::root().join("tests/cpp/two_plugins.cpp"))
            .arg(folder.join("libwavetrain.a"))
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&host),
    );
    let plain: &[&str] = &[];
    let hiding = ["-fvisibility-inlines-hidden", "-Wl,--exclude-libs,ALL"];
    for (compiler, flags) in compilers().flat_map(|name| [(name.clone(), plain), (name, &hiding)]) {
        let made = ["one", "two"].map(|name| plugin(folder, &compiler, name, flags));
        for library in &made {
            let table = cc::run(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(library));
            let unique: Vec<&str> =
                table.lines().filter(|line| line.contains(" UNIQUE ")).collect();
            assert!(unique.is_empty(), "{compiler}: {unique:#?}");
        }
        let paths = made.each_ref().map(|path| path.to_str().unwrap());
        run(&host, &[paths[0], paths[1], &array]);
    }
}
