//! The structs of the hooks and of the C surface, compared with the headers by a C compiler; the
//! names that the libraries export; and that the headers compile as C and as C++.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use wavetrain_remote::abi::{FilesHook, StoreHook};
use wavetrain_remote::c::RemoteConfig;
use wavetrain_remote::{Config, StatsView};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn compile(compiler: &str, flags: &[&str], source: &Path, output: &Path) {
    let status = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic"])
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .arg("-I")
        .arg(root().join("../include"))
        .arg(source)
        .arg("-o")
        .arg(output)
        .status()
        .unwrap();
    assert!(status.success(), "{compiler} {}", source.display());
}

/// Adds a line that compiles where the condition holds.
fn check(checks: &mut String, condition: &str) {
    writeln!(checks, "_Static_assert({condition}, \"{condition}\");").unwrap();
}

macro_rules! members {
    ($checks:ident, $c:literal, $rust:ty, $($member:ident),*) => {
        check(&mut $checks, &format!("sizeof({}) == {}", $c, size_of::<$rust>()));
        $(
            let (offset, member) = (offset_of!($rust, $member), stringify!($member));
            check(&mut $checks, &format!("offsetof({}, {member}) == {offset}", $c));
        )*
    };
}

#[test]
fn structs_are_those_of_the_headers() {
    let mut checks = String::from("#include \"wavetrain_remote.h\"\n");
    members!(checks, "wavetrain_files_hook", FilesHook, struct_size, user, size, read, read_async);
    members!(
        checks,
        "wavetrain_store_hook",
        StoreHook,
        struct_size,
        read_tail,
        read_version,
        read_version_async,
        list,
        merge_gap_bytes,
        merge_bytes_max,
        reads_max,
        retries_itself
    );
    members!(
        checks,
        "wavetrain_remote_config",
        RemoteConfig,
        struct_size,
        read_done,
        on_error,
        on_error_user,
        n_threads,
        reads_max,
        cache_bytes,
        max_entry_bytes,
        n_objects,
        n_stores,
        retries_max,
        whole_files,
        backoff_min_ns,
        backoff_max_ns,
        connect_timeout_ns,
        idle_timeout_ns,
        total_timeout_ns,
        max_age_ns,
        archive_max_age_ns,
        merge_gap_bytes,
        merge_bytes_max,
        anonymous,
        allow_http,
        path_style,
        n_options,
        options,
        endpoint,
        region,
        ca_file,
        proxy_url,
        absent
    );
    members!(
        checks,
        "wavetrain_remote_stats_view",
        StatsView,
        struct_size,
        requests,
        retries,
        bytes_received,
        bytes_read,
        reads,
        sizes,
        lists,
        absent,
        failed,
        changed,
        cache_hits,
        cached_bytes,
        inflated,
        in_flight,
        in_flight_max,
        denied
    );
    check(&mut checks, "WAVETRAIN_FILE_ABSENT == -1");
    check(&mut checks, "WAVETRAIN_FILE_FAILED == -2");
    checks.push_str("int main(void) { return 0; }\n");
    let folder = scratch("abi");
    let source = folder.join("structs.c");
    std::fs::write(&source, checks).unwrap();
    compile("cc", &["-std=c11"], &source, &folder.join("structs"));
}

#[test]
fn the_header_has_the_defaults_that_its_comments_have() {
    let header = std::fs::read_to_string(root().join("include/wavetrain_remote.h")).unwrap();
    let config = Config::default();
    let defaults = [
        ("n_threads", config.n_threads.to_string()),
        ("reads_max", config.reads_max.to_string()),
        ("cache_bytes", format!("{} MiB", config.cache_bytes >> 20)),
        ("max_entry_bytes", format!("{} MiB", config.max_entry_bytes >> 20)),
        ("n_objects", config.n_objects.to_string()),
        ("n_stores", config.n_stores.to_string()),
        ("retries_max", config.retries_max.to_string()),
        ("backoff_min_ns", format!("{} ms", config.backoff_min.as_millis())),
        ("backoff_max_ns", format!("{} s", config.backoff_max.as_secs())),
        ("connect_timeout_ns", format!("{} s", config.connect_timeout.as_secs())),
        ("idle_timeout_ns", format!("{} s", config.idle_timeout.as_secs())),
        ("total_timeout_ns", format!("{} s", config.total_timeout.as_secs())),
        ("archive_max_age_ns", format!("{} s", config.archive_max_age.as_secs())),
        ("merge_gap_bytes", format!("{} KiB", config.merge_gap_bytes >> 10)),
        ("merge_bytes_max", format!("{} MiB", config.merge_bytes_max >> 20)),
    ];
    for (name, default) in defaults {
        let is_member =
            |line: &&str| line.starts_with("    uint") && line.contains(&format!(" {name};"));
        let member = header.lines().find(is_member).unwrap();
        assert!(member.contains(&format!("[{default}]")), "{member}: [{default}]");
    }
}

#[test]
fn the_headers_compile_as_c_and_as_cpp() {
    let folder = scratch("headers");
    let source = folder.join("one.c");
    std::fs::write(&source, "#include \"wavetrain_remote.h\"\nint main(void) { return 0; }\n")
        .unwrap();
    compile("cc", &["-std=c99"], &source, &folder.join("one_c"));
    let source = folder.join("one.cpp");
    std::fs::write(&source, "#include \"wavetrain_remote.hpp\"\nint main() { return 0; }\n")
        .unwrap();
    compile("c++", &["-std=c++17"], &source, &folder.join("one_cpp"));
}
