//! Every way in which a program gets the library, taken as a user takes it.
//!
//! Comes in: the packages of tools/dist.sh and the tree itself. Goes out: for each route an empty
//! folder with a program and three lines of build description, built and run there. Installed trees
//! are moved once before they are used, to a folder with a blank in its name. The commands and what
//! they print come out with --nocapture. All routes share what cargo built, except for the source
//! archive, which has nothing but itself.

use crate::common::{cc, header, pack};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// A store for programs, whose path is their argument.
fn cube() -> &'static str {
    static CUBE_PATH: OnceLock<String> = OnceLock::new();
    CUBE_PATH.get_or_init(|| pack::cube("packages"))
}

/// Runs a command and shows it and what it said.
pub fn show(command: &mut Command) -> String {
    let words: Vec<_> =
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    println!("$ {} {}", command.get_program().display(), words.join(" "));
    let text = cc::run(command);
    print!("{text}");
    text
}

pub fn have(tools: &[&str]) -> bool {
    tools.iter().all(|tool| cc::find(tool, &[tool]).is_some())
}

/// Runs a program that a route made of examples/hello.c.
fn run_hello(program: &Path) {
    let text = show(Command::new(program).arg(cube()));
    assert_eq!(text.lines().filter(|line| line.contains("4 samples, mean")).count(), 8);
}

/// A user's empty folder with the one source file of examples/hello.c.
fn user(route: &str) -> PathBuf {
    let folder = cc::folder(&format!("user-{route}"));
    fs::copy(header::root().join("examples/hello.c"), folder.join("hello.c")).unwrap();
    folder
}

/// The day of the packages, in seconds: it does not depend on the tree's last commit.
pub const DAY: &str = "1700000000";

/// tools/dist.sh on that day. Crates that are only for
/// other machines may have to be fetched.
fn dist(mut script: Command, folder: &Path) -> Command {
    script.arg(folder).env("SOURCE_DATE_EPOCH", DAY);
    script.env("PROJECT_URL", HOME);
    script
}

/// The repository that the wheel names.
pub const HOME: &str = "https://example.org/wavetrain/";

/// What tools/dist.sh made.
pub struct Packages {
    pub binary: PathBuf,
    source: PathBuf,
    /// None where there is no python3 to pack it with.
    pub wheel: Option<PathBuf>,
}

/// The packages, made once.
pub fn packages() -> Option<&'static Packages> {
    static MADE: OnceLock<Option<Packages>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        if !have(&["gcc", "ld", "ar", "readelf", "objcopy", "tar", "gzip"]) {
            return None;
        }
        let folder = cc::folder("packages");
        let mut script = dist(pack::script("dist.sh"), &folder);
        if !have(&["python3"]) {
            script.env("ONLY", "binary source");
        }
        show(&mut script);
        let machine = std::env::consts::ARCH;
        Some(Packages {
            binary: folder.join(format!("wavetrain-{}-{machine}-linux.tar.gz", version())),
            source: folder.join(format!("wavetrain-{}-src.tar.gz", version())),
            wheel: fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .find(|path| path.extension().is_some_and(|extension| extension == "whl")),
        })
    });
    made.as_ref()
}

/// The binary package, unpacked and then moved to a folder with a blank in its name.
pub fn unpacked(route: &str) -> Option<PathBuf> {
    let Packages { binary, .. } = packages()?;
    let folder = cc::folder(&format!("prefix-{route}"));
    show(Command::new("tar").arg("-xzf").arg(binary).arg("-C").arg(&folder));
    let name = binary.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.gz");
    let moved = folder.join("moved here");
    fs::rename(folder.join(name), &moved).unwrap();
    Some(moved)
}

/// Builds a user's CMake project and gives the folder with its programs. One at a time: they may
/// share a build folder of cargo's.
fn cmake(folder: &Path, options: &[String]) -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let build = folder.join("build");
    show(Command::new("cmake").arg("-S").arg(folder).arg("-B").arg(&build).args(options));
    show(Command::new("cmake").arg("--build").arg(&build).env("CC", "gcc"));
    build
}

fn shared_cargo() -> String {
    format!("-DWAVETRAIN_CARGO_TARGET_DIR={}", pack::build_folder().display())
}

#[test]
fn the_binary_package_has_what_its_description_says() {
    let Some(prefix) = unpacked("contents") else { return };
    for path in [
        "include/wavetrain.h",
        "include/wavetrain.hpp",
        "include/wavetrain_exceptions.hpp",
        "include/wavetrain_source.hpp",
        "include/wavetrain_epoch.h",
        "include/wavetrain_recipes.h",
        "include/wavetrain_node.h",
        "include/wavetrain_tiles.h",
        "lib/libwavetrain.a",
        "lib/libwavetrain.so.0",
        "lib/cmake/wavetrain/wavetrain-config.cmake",
        "lib/cmake/wavetrain/wavetrain-config-version.cmake",
        "lib/pkgconfig/wavetrain.pc",
        "lib/debug/wavetrain.o",
        "lib/unwind/libwavetrain.a",
        "share/doc/wavetrain/CHANGELOG.md",
        "share/doc/wavetrain/README.md",
        "share/doc/wavetrain/docs/index.md",
        "share/doc/wavetrain/docs/figures/store_to_batch.svg",
        "share/doc/wavetrain/docs/reference/settings.md",
        "share/doc/wavetrain/SECURITY.md",
        "share/doc/wavetrain/examples/hello.c",
        "share/doc/wavetrain/examples/train_torch.py",
        "share/man/man1/wavetrain.1",
        "share/bash-completion/completions/wavetrain",
        "share/zsh/site-functions/_wavetrain",
        "share/fish/vendor_completions.d/wavetrain.fish",
        "share/doc/wavetrain/symbols.txt",
        "share/doc/wavetrain/wavetrain.spdx.json",
        "share/licenses/wavetrain/LICENSE",
        "share/licenses/wavetrain/LICENSES.txt",
    ] {
        assert!(prefix.join(path).is_file(), "{path}");
    }
    let doc = prefix.join("share/doc/wavetrain");
    show(
        Command::new("sha256sum")
            .args(["--check", "--quiet"])
            .arg(doc.join("SHA256SUMS"))
            .current_dir(&prefix),
    );
}

#[test]
fn the_shared_library_exports_the_header_and_needs_only_libc() {
    let Some(prefix) = unpacked("shared") else { return };
    let library = prefix.join("lib/libwavetrain.so.0");
    let mut exported: Vec<String> = pack::symbols_of(&library, "--dyn-syms")
        .into_iter()
        .filter(|(section, _)| section != "UND")
        .map(|(_, name)| name)
        .collect();
    let mut declared = header::functions_of_archive();
    exported.sort();
    declared.sort();
    assert_eq!(exported, declared);
    let dynamic = show(Command::new("readelf").args(["-d", "-W"]).arg(&library));
    assert!(dynamic.contains("Library soname: [libwavetrain.so.0]"));
    assert!(!dynamic.contains("TEXTREL"));
    let notes = show(Command::new("readelf").args(["-n", "-W"]).arg(&library));
    assert!(notes.contains("Build ID: "));
    assert!(cfg!(not(target_arch = "x86_64")) || notes.contains("SHSTK"));
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    for line in &needed {
        // An older glibc keeps threads and dlopen in libraries of their own.
        assert!(
            ["[libc.so.6]", "[libpthread.so.0]", "[libdl.so.2]", "[ld-linux-x86-64.so.2]"]
                .iter()
                .any(|name| line.contains(name)),
            "{line}"
        );
    }
    let folder = user("shared");
    let program = folder.join("hello");
    show(
        Command::new("gcc")
            .arg("-I")
            .arg(prefix.join("include"))
            .arg(folder.join("hello.c"))
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()))
            .arg("-o")
            .arg(&program),
    );
    run_hello(&program);
}

#[test]
fn pkg_config_finds_the_moved_package() {
    if !have(&["pkg-config"]) {
        return;
    }
    let Some(prefix) = unpacked("pkgconfig") else { return };
    let folder = user("pkgconfig");
    // As a user types it, in a shell.
    let script = "set -e
        pkg-config --modversion wavetrain
        pkg-config --cflags --libs --static wavetrain
        eval gcc hello.c $(pkg-config --cflags --libs --static wavetrain) -o hello";
    let text = show(
        Command::new("sh")
            .args(["-c", script])
            .current_dir(&folder)
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    assert!(text.starts_with(version()), "{text}");
    run_hello(&folder.join("hello"));
}

const FIND_PACKAGE: &str = "cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(wavetrain VERSION CONFIG REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE wavetrain::wavetrain)
add_executable(hello_shared hello.c)
target_link_libraries(hello_shared PRIVATE wavetrain::shared)
";

fn find_package(version: &str) -> String {
    FIND_PACKAGE.replace("VERSION CONFIG", &format!("{version} CONFIG"))
}

#[test]
fn find_package_takes_the_moved_package() {
    if !have(&["cmake"]) {
        return;
    }
    let Some(prefix) = unpacked("cmake") else { return };
    let folder = user("cmake");
    fs::write(folder.join("CMakeLists.txt"), find_package(version())).unwrap();
    let build = cmake(&folder, &[format!("-DCMAKE_PREFIX_PATH={}", prefix.display())]);
    run_hello(&build.join("hello"));
    run_hello(&build.join("hello_shared"));
}

/// What CMake says of a package: whether a user's project takes it, and its words.
fn configured(route: &str, project: &str, prefix: &Path, options: &[&str]) -> (bool, String) {
    let folder = user(route);
    fs::write(folder.join("CMakeLists.txt"), project).unwrap();
    let output = Command::new("cmake")
        .arg("-S")
        .arg(&folder)
        .arg("-B")
        .arg(folder.join("build"))
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .args(options)
        .output()
        .unwrap();
    // It breaks lines where it likes.
    let text = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = text.split_whitespace().collect();
    (output.status.success(), words.join(" "))
}

/// One promise, which the header writes down under "Version": the same major, not older.
#[test]
fn the_header_the_shared_librarys_name_and_find_package_promise_the_same() {
    let Some(prefix) = unpacked("version") else { return };
    let header = fs::read_to_string(prefix.join("include/wavetrain.h")).unwrap();
    let major = header.split_once("#define WAVETRAIN_VERSION_MAJOR ").unwrap().1;
    let major: u32 = major.lines().next().unwrap().parse().unwrap();
    let library = prefix.join(format!("lib/libwavetrain.so.{major}"));
    let dynamic = cc::run(Command::new("readelf").args(["-d", "-W"]).arg(&library));
    assert!(dynamic.contains(&format!("Library soname: [libwavetrain.so.{major}]")));
    if !have(&["cmake"]) {
        return;
    }
    let mut numbers = version().split('.').map(|number| number.parse::<u32>().unwrap());
    assert_eq!(numbers.next(), Some(major));
    let (minor, patch) = (numbers.next().unwrap(), numbers.next().unwrap());
    let next_major = format!("{}.0", major + 1);
    let (here, next_minor) = (version(), format!("{major}.{}", minor + 1));
    for (wanted, is_taken) in [
        // Ranges count as they are written, the end that is left out, too.
        (format!("0.0...<{major}.{minor}"), false),
        (format!("0.0...{major}.{minor}"), patch == 0),
        (format!("{major}.{minor}...<{next_minor}"), true),
        (format!("{here}...<{next_major}"), true),
        (format!("0.0...<{here}"), false),
        (format!("0.0...{here}"), true),
        (format!("{next_minor}...<{next_major}"), false),
        (format!("{next_major}...<{}.0", major + 2), false),
        (format!("0.0...{next_major}"), true),
        (version().to_string(), true),
        (format!("{major}"), true),
        (format!("{major}.0.1"), true),
        (format!("{major}.{minor}.{}", patch + 1), false),
        (format!("{major}.{}", minor + 1), false),
        (next_major, false),
    ] {
        let project = find_package(&wanted);
        let route = format!("version-{}", wanted.replace('<', "before-"));
        let (took, text) = configured(&route, &project, &prefix, &[]);
        assert_eq!(took, is_taken, "{wanted}: {text}");
        assert!(took || text.contains(&format!("version: {}", version())), "{wanted}: {text}");
    }
}

#[test]
fn find_package_refuses_a_package_of_another_machine_with_a_sentence() {
    if !have(&["cmake"]) {
        return;
    }
    let Some(prefix) = unpacked("machine") else { return };
    let project = find_package("").replace("project(user C)", "project(user NONE)");
    let project: String = project.lines().take(3).map(|line| format!("{line}\n")).collect();
    let machine = std::env::consts::ARCH;
    let system = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=riscv64"];
    let windows = ["-DCMAKE_SYSTEM_NAME=Windows", "-DCMAKE_SYSTEM_PROCESSOR=AMD64"];
    for (route, options, wanted) in [
        ("riscv", &system[..], "not for Linux on riscv64: take the package of that machine"),
        ("windows", &windows, "not for Windows on AMD64"),
        ("32-bits", &["-DCMAKE_SIZEOF_VOID_P=4"], "not for 32 bits: take the package"),
    ] {
        let (took, text) = configured(route, &project, &prefix, options);
        let said = format!("{}, which is for Linux on {machine} with 64 bits, ", version());
        assert!(!took && text.contains(&said) && text.contains(wanted), "{route}: {text}");
    }
}

#[test]
fn the_archives_and_the_object_with_names_have_one_code() {
    let Some(prefix) = unpacked("debug") else { return };
    let sections = |file: &str| {
        cc::run(Command::new("readelf").args(["-S", "-W"]).arg(prefix.join("lib").join(file)))
    };
    let code_bytes = |file: &str| {
        let table = sections(file);
        let line = table.lines().find(|line| line.contains(" .text ")).unwrap();
        line.split(']').nth(1).unwrap().split_whitespace().nth(4).unwrap().to_string()
    };
    let bytes = code_bytes("libwavetrain.a");
    assert_eq!(bytes, code_bytes("unwind/libwavetrain.a"));
    assert_eq!(bytes, code_bytes("debug/wavetrain.o"));
    assert!(sections("unwind/libwavetrain.a").contains(" .eh_frame "));
    assert!(!sections("libwavetrain.a").contains(" .eh_frame "));
    let names = sections("debug/wavetrain.o");
    assert!(names.contains(" .debug_line ") && !names.contains(".llvmbc"), "{names}");
}

#[test]
fn cmake_builds_the_tree_and_installs_what_find_package_takes() {
    if !have(&["cmake", "gcc", "ld"]) {
        return;
    }
    let place = cc::folder("cmake-install");
    let (build, installed) = (place.join("build"), place.join("first place"));
    show(
        Command::new("cmake")
            .arg("-S")
            .arg(header::root())
            .arg("-B")
            .arg(&build)
            .arg(shared_cargo())
            .arg(format!("-DCMAKE_INSTALL_PREFIX={}", installed.display())),
    );
    show(Command::new("cmake").arg("--build").arg(&build).env("CC", "gcc"));
    show(Command::new("cmake").arg("--install").arg(&build));
    let moved = place.join("second place");
    fs::rename(&installed, &moved).unwrap();
    let folder = user("installed");
    let text = find_package("")
        .lines()
        .filter(|line| !line.contains("shared"))
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(folder.join("CMakeLists.txt"), text).unwrap();
    let build = cmake(&folder, &[format!("-DCMAKE_PREFIX_PATH={}", moved.display())]);
    run_hello(&build.join("hello"));
}

#[test]
fn fetch_content_gives_the_same_target_and_builds_again_when_a_source_changes() {
    if !have(&["cmake", "gcc", "ld"]) {
        return;
    }
    let folder = user("fetch");
    fs::write(
        folder.join("CMakeLists.txt"),
        format!(
            "cmake_minimum_required(VERSION 3.16)
project(user C)
include(FetchContent)
FetchContent_Declare(wavetrain SOURCE_DIR \"{}\")
FetchContent_MakeAvailable(wavetrain)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE wavetrain::wavetrain)
install(TARGETS hello)
",
            header::root().display()
        ),
    )
    .unwrap();
    let build = cmake(&folder, &[shared_cargo()]);
    run_hello(&build.join("hello"));
    // A host's install has nothing of ours in it.
    let installed = folder.join("installed");
    show(Command::new("cmake").arg("--install").arg(&build).arg("--prefix").arg(&installed));
    assert!(installed.join("bin/hello").is_file());
    assert!(!installed.join("include").exists() && !installed.join("lib").exists());
    let again = |options: &[&str]| {
        show(Command::new("cmake").args(options).arg("--build").arg(&build).env("CC", "gcc"))
    };
    assert!(!again(&[]).contains("cargo builds"), "nothing changed");
    // A file of the archive's recipe that cargo does not look at: its date alone changes, and back.
    let file = fs::File::open(header::root().join("tools/fold.ld")).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
    let text = again(&[]);
    file.set_modified(before).unwrap();
    assert!(text.contains("cargo builds"), "{text}");
}

#[test]
fn the_source_package_builds_without_network_and_without_cargos_home() {
    let Some(Packages { source, .. }) = packages() else { return };
    let place = cc::folder("offline");
    show(Command::new("tar").arg("-xzf").arg(source).arg("-C").arg(&place));
    let tree = place.join(format!("wavetrain-{}-src", version()));
    let (home, out) = (place.join("cargo-home"), place.join("out"));
    fs::create_dir(&home).unwrap();
    // No interface but an unconfigured loopback, where the kernel lets a test have that.
    let unshare = ["--net", "--map-root-user"];
    let probe = Command::new("unshare").args(unshare).arg("true").output();
    let mut build = if probe.is_ok_and(|output| output.status.success()) {
        let mut build = Command::new("unshare");
        build.args(unshare).arg("tools/archive.sh");
        build
    } else {
        println!("skipped: the network stays, because unshare is not allowed here");
        Command::new(tree.join("tools/archive.sh"))
    };
    show(
        build
            .arg(&out)
            .current_dir(&tree)
            .env("CARGO_HOME", &home)
            .env("CC", "gcc")
            // Its speed is of no interest here.
            .env("CARGO_PROFILE_ARCHIVE_OPT_LEVEL", "1")
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", place.join("target")),
    );
    let fetched = home.join("registry");
    assert!(!fetched.exists(), "cargo took something from its home");
    let folder = user("offline");
    let program = folder.join("hello");
    show(
        Command::new("gcc")
            .arg("-I")
            .arg(&out)
            .arg(folder.join("hello.c"))
            .arg(out.join("libwavetrain.a"))
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    run_hello(&program);
}

#[test]
fn packages_have_the_same_bytes_from_another_folder() {
    let Some(Packages { binary, source, .. }) = packages() else { return };
    let again = cc::folder("packages-again");
    // The wheel is another test's: cargo would build the tool again.
    let mut script = dist(pack::script_of_the_copy("dist.sh"), &again);
    show(script.env("ONLY", "binary source"));
    for package in [binary, source] {
        let other = fs::read(again.join(package.file_name().unwrap())).unwrap();
        assert!(fs::read(package).unwrap() == other, "{}", package.display());
    }
    show(Command::new("tar").arg("-xzf").arg(binary).arg("-C").arg(&again));
    for path in [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"), "/.cargo/"] {
        let found = Command::new("grep").args(["-rlF", path]).arg(&again).output().unwrap();
        assert!(found.stdout.is_empty(), "{path}: {}", String::from_utf8_lossy(&found.stdout));
    }
}
