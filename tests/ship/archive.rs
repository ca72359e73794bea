//! The packed archive is as docs/install.md has it: only our names, only libc, no allocation after
//! open.
//!
//! tools/archive.sh makes it once per run; readelf looks at it (GNU nm cannot read it), and the C
//! programs of tests/c and examples/ are linked with it and run on stores that are made here. A
//! machine without gcc or binutils skips, and says so.

use crate::common::pack::{CUBE, archive, cube, run, symbols};
use crate::common::store::Spec;
use crate::common::{cc, cuda_sim, header, pack, store};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the object may ask of libc. A new name here is a decision, not an accident: none of them
/// may allocate after open.
const LIBC: [&str; 81] = [
    "__errno_location",
    "abort",
    "accept4",
    "bcmp",
    "bind",
    "calloc",
    "clock_gettime",
    "close",
    "connect",
    "dl_iterate_phdr",
    // The rest of its family is found by it, and only where there is a dynamic loader.
    "dlsym",
    "eventfd",
    "fallocate",
    "fcntl",
    "fcntl64",
    "free",
    "fstat",
    "fstat64",
    "fstatfs",
    "fstatfs64",
    "ftruncate",
    "geteuid",
    // Launchers set it for the ranks of a node; open reads it.
    "getenv",
    "getpid",
    "getrlimit",
    "getrlimit64",
    "getsockopt",
    "kill",
    "listen",
    "lstat",
    "lstat64",
    "madvise",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "mmap64",
    // The guard page of a device's thread.
    "mprotect",
    "munmap",
    "open",
    "open64",
    // Where a thread waits for the end of the process.
    "pause",
    "poll",
    "pread",
    "pread64",
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_attr_setstack",
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_condattr_destroy",
    "pthread_condattr_init",
    "pthread_condattr_setclock",
    "pthread_create",
    "pthread_join",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_self",
    "pthread_setcancelstate",
    "pthread_sigmask",
    "read",
    "recvmsg",
    "sched_yield",
    "sendmsg",
    "sigfillset",
    "socket",
    "stat",
    "stat64",
    "strlen",
    // getdents64 and gettid, which old C libraries do not wrap, and the scheduler's, which musl
    // refuses.
    "syscall",
    "unlink",
    "write",
];

const VOLUMES: u64 = 6;

/// Compiles and links one C program as docs/install.md says, with every warning an error.
fn build(folder: &Path, source: &str) -> PathBuf {
    build_with(folder, source, &[])
}

/// The same with macros defined.
fn build_with(folder: &Path, source: &str, defines: &[&str]) -> PathBuf {
    build_by("gcc", folder, source, defines)
}

/// The same by another compiler.
fn build_by(compiler: &str, folder: &Path, source: &str, defines: &[&str]) -> PathBuf {
    let name = Path::new(source).file_stem().unwrap();
    let defined = defines.join("").replace('=', "-");
    let place = format!("program-{}-{}{defined}", compiler.replace('/', "-"), name.display());
    let program = cc::folder(&place).join(name);
    cc::run(
        Command::new(compiler)
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings"])
            .args(defines)
            .arg("-I")
            .arg(folder)
            .arg(header::root().join(source))
            .arg(folder.join("libwavetrain.a"))
            .args(["-lpthread", "-ldl", "-o"])
            .arg(&program),
    );
    program
}

#[test]
#[ignore = "writes the stores of tools/sanitize.sh, which runs this by itself"]
fn stores_for_programs_under_sanitizers() {
    let (cube, many) = (cube("sanitize"), many_stores("sanitize-many"));
    println!("stores: {cube} {many} {}", uris_arguments("sanitize").join(" "));
}

/// The arguments of uris.c: two arrays, and an empty folder.
fn uris_arguments(test: &str) -> [String; 3] {
    let stores = cc::folder(&format!("uris-{test}")).canonicalize().unwrap();
    let [one, two] = [0, 1].map(|seed| {
        let store = stores.join(format!("seed{seed}"));
        store::write(&store, &Spec { seed, ..CUBE });
        store
    });
    let empty = stores.join("empty");
    std::fs::create_dir(&empty).unwrap();
    [one, two, empty].map(|path| path.to_str().unwrap().to_owned())
}

/// More arrays and shards than any cache of the test holds, and one with every kind of damage.
fn many_stores(test: &str) -> String {
    let stores = cc::folder(&format!("store-{test}"));
    for seed in 0..VOLUMES {
        // Raw and compressed chunks in turn.
        let spec = Spec { seed, zstd: seed % 2 == 0, ..CUBE };
        store::write(&stores.join(format!("volume{seed}")), &spec);
    }
    let damaged = stores.join("damaged");
    let spec = Spec { seed: VOLUMES, ..CUBE };
    store::write(&damaged, &spec);
    for (number, shard) in store::places(spec.edge / spec.shard).enumerate() {
        if store::shard_is_absent(shard) {
            continue;
        }
        match number % 4 {
            0 => flip_some_chunk(&damaged, &spec, shard),
            1 => store::flip_index(&damaged, &spec, shard),
            2 => store::truncate(&damaged, shard, 10),
            _ => {}
        }
    }
    stores.to_str().unwrap().to_string()
}

fn flip_some_chunk(array: &Path, spec: &Spec, shard: [u64; 3]) {
    let inner = store::places(spec.shard / spec.chunk).position(|inner| {
        let per_edge = spec.shard / spec.chunk;
        !store::chunk_is_absent(std::array::from_fn(|axis| shard[axis] * per_edge + inner[axis]))
    });
    store::flip_chunk(array, spec, shard, inner.unwrap() as u64);
}

#[test]
fn archive_defines_exactly_the_functions_of_the_headers() {
    let Some(folder) = archive() else { return };
    let mut declared = header::functions_of_archive();
    let mut defined: Vec<String> = symbols(folder)
        .into_iter()
        .filter(|(section, _)| section != "UND")
        .map(|(_, name)| name)
        .collect();
    declared.sort();
    defined.sort();
    let count = |path: &str| header::functions(&header::text_of(path)).len();
    let [epochs, recipes, node] =
        ["epoch", "recipes", "node"].map(|name| count(&format!("include/wavetrain_{name}.h")));
    assert!(epochs <= 20 && recipes <= 12 && node <= 4, "{declared:?}");
    assert!(count("include/wavetrain.h") <= 32 && declared.len() <= 68, "{declared:?}");
    assert_eq!(defined, declared);
}

#[test]
fn archive_needs_only_libc() {
    let Some(folder) = archive() else { return };
    let mut needed: Vec<String> = symbols(folder)
        .into_iter()
        .filter(|(section, _)| section == "UND")
        .map(|(_, name)| name)
        .collect();
    needed.sort();
    println!("undefined: {}", needed.join(" "));
    for name in needed {
        assert!(LIBC.contains(&name.as_str()), "{name} is not on the list");
    }
}

/// Bytes that the archive may take without the CUDA backend, and with it. It is built for speed,
/// not for size: 900 KB without a device were allowed before read_into (22 KB), lend (12), the
/// documents and names of other writers (8), the casts of bool and to f64 (9), arithmetic on
/// elements (29), recipes (40), affine maps with their levels (72), the kernels that do that
/// arithmetic in one pass (34), those for rows with padding (13), batches that processes share
/// (60), what the system allots (18), the latency of metadata (8), the trace (10), the sentence
/// that names a limit (14), NUMA nodes (12), stores of objects (13), their groups and files asked
/// for by name (3), texts of errors (2), OME-Zarr 0.6 (8), the casts that clamp with the types of
/// few bits (45), fields of structured elements (17), index lists (11), scales, casts and reshape
/// of zarr's extensions (18), chunks that are NaN (7), attributes of the CF conventions (22),
/// shards that are decoded whole (19), bz2 (12), and lzma (23). With a device 1.2 MB were, so that
/// nobody trades speed or plain code for bytes, before the kernel had that arithmetic and its table
/// of noise (10) and the host its maps, with their way to a device (8). A bound is still there: a
/// dependency or a table that is added by accident shows in it first.
const HOST_BYTES_MAX: u64 = 1_542_000;
const BYTES_MAX: u64 = 1_732_000;

fn archive_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("libwavetrain.a")).unwrap().len()
}

#[test]
fn archive_is_small() {
    let Some(folder) = archive() else { return };
    // The other kernel is for benches, and is not linked in.
    let object = std::fs::read(folder.join("libwavetrain.a")).unwrap();
    let holds = |name: &str| {
        let kernel = std::fs::read(header::root().join("kernels").join(name)).unwrap();
        object.windows(kernel.len()).any(|window| window == kernel)
    };
    assert!(
        ["assemble", "digest", "lz4", "zstd"].iter().all(|name| holds(&format!("{name}.ptx.z")))
    );
    assert!(!holds("copy.ptx.z"));
    let bytes = archive_bytes(folder);
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}

#[test]
fn archive_for_the_host_alone_is_smaller_and_says_what_it_lacks() {
    let Some(_) = archive() else { return };
    let folder = cc::folder("archive-host-only");
    let target = pack::build_folder_of_flags();
    let mut script = pack::script("archive.sh");
    cc::run(script.arg(&folder).env("HOST_ONLY", "1").env("CARGO_TARGET_DIR", target));
    let bytes = archive_bytes(&folder);
    assert!(bytes <= HOST_BYTES_MAX, "{bytes} bytes");
    let program = build(&folder, "tests/c/host_only.c");
    print!("{}", run(&program, &[&cube("host-only")]));
}

#[test]
fn archive_has_the_same_bytes_from_another_folder_and_names_no_local_path() {
    let Some(folder) = archive() else { return };
    let again = cc::folder("archive-again");
    cc::run(pack::script_of_the_copy("archive.sh").arg(&again));
    let bytes = std::fs::read(folder.join("libwavetrain.a")).unwrap();
    assert!(bytes == std::fs::read(again.join("libwavetrain.a")).unwrap());
    for path in [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"), "/.cargo/", "/.rustup/"] {
        let found = bytes.windows(path.len()).any(|window| window == path.as_bytes());
        assert!(!found, "{path} is in the archive");
    }
    for beside in ["wavetrain.h", "LICENSE", "LICENSES.txt", "wavetrain.spdx.json"] {
        assert!(folder.join(beside).is_file(), "{beside} lies beside the archive");
    }
}

/// Runs hello.c.
fn check_hello(program: &Path, store: &str) {
    let output = run(program, &[store]);
    let batches = output.lines().filter(|line| line.contains("4 samples, mean"));
    assert_eq!(batches.count(), 8, "{output}");
}

#[test]
fn hello_prints_the_mean_of_every_batch() {
    let Some(folder) = archive() else { return };
    check_hello(&build(folder, "examples/hello.c"), &cube("hello"));
}

#[test]
fn the_archive_links_with_musl_and_runs() {
    let Some(folder) = archive() else { return };
    let Some(compiler) = cc::find("gcc for musl", &["musl-gcc"]) else { return };
    let program = build_by(&compiler, folder, "examples/hello.c", &["-static"]);
    check_hello(&program, &cube("musl"));
}

/// Made once, because two tests run it.
fn no_alloc_program(folder: &Path) -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build(folder, "tests/c/no_alloc.c"))
}

#[test]
fn nothing_is_allocated_between_open_and_close() {
    let Some(folder) = archive() else { return };
    let program = no_alloc_program(folder);
    let stores = many_stores("no-alloc");
    print!("{}", run(program, &[&stores, "10000"]));
    print!("{}", run(program, &[&stores, "10000", "seccomp"]));
}

#[test]
fn eight_fields_of_every_source_are_right_and_allocate_nothing() {
    let Some(folder) = archive() else { return };
    let (program, stores) = (build(folder, "tests/c/fields.c"), many_stores("fields"));
    print!("{}", run(&program, &[&stores, "3000"]));
    print!("{}", run(&program, &[&stores, "3000", "seccomp"]));
}

#[test]
fn every_type_is_augmented_as_the_header_says_and_nothing_allocates_for_it() {
    let Some(folder) = archive() else { return };
    let (program, stores) = (build(folder, "tests/c/augment.c"), many_stores("augment"));
    print!("{}", run(&program, &[&stores, "3000"]));
    print!("{}", run(&program, &[&stores, "3000", "seccomp"]));
}

#[test]
fn nothing_is_allocated_between_open_and_close_while_reads_wait_for_storage() {
    let Some(folder) = archive() else { return };
    let program = no_alloc_program(folder);
    let stores = many_stores("no-alloc-cold");
    for more in [&[][..], &["seccomp"]] {
        drop_from_page_cache(Path::new(&stores));
        print!("{}", run(program, &[&[stores.as_str(), "2000"], more].concat()));
    }
}

/// Writes all files of a folder to storage and takes them out of memory.
fn drop_from_page_cache(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            drop_from_page_cache(&path);
            continue;
        }
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: advice about an open descriptor.
        let failed = unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
        assert_eq!(failed, 0);
    }
}

#[test]
fn pump_with_the_callers_block_takes_no_malloc_and_no_thread() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/pump.c"), &[&cube("pump")]);
}

#[test]
fn threads_have_names_and_threads_of_the_program_keep_theirs() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/names.c"), &[&cube("names")]);
}

#[test]
fn a_uri_forges_no_line_and_means_what_it_meant_at_open() {
    let Some(folder) = archive() else { return };
    let arguments = uris_arguments("test");
    run(&build(folder, "tests/c/uris.c"), &arguments.each_ref().map(String::as_str));
}

#[test]
fn nonsense_is_refused_and_changes_nothing() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/hostile.c"), &[&cube("hostile")]);
}

#[test]
fn forked_child_gets_shutdown_and_the_parent_goes_on() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/fork.c"), &[&cube("fork")]);
}

#[test]
fn consumers_take_batches_in_other_processes_and_their_children_attach_anew() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/node.c"), &[&cube("node")]);
}

#[test]
fn threads_that_are_cancelled_end_behind_their_calls_and_the_loader_goes_on() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/cancel.c"), &[&cube("cancel")]);
}

#[test]
fn public_functions_take_no_more_stack_than_the_header_says() {
    let Some(folder) = archive() else { return };
    let documents = cc::folder("stack-documents");
    let sources = ["tests/data/metadata", "tests/data/metadata_v2"];
    for (source, key) in sources.into_iter().zip(["zarr.json", ".zarray"]) {
        for entry in std::fs::read_dir(header::root().join(source)).unwrap() {
            let path = entry.unwrap().path();
            let array = documents.join(format!("{key} {}", path.file_name().unwrap().display()));
            std::fs::create_dir_all(&array).unwrap();
            std::fs::copy(path, array.join(key)).unwrap();
        }
    }
    std::fs::write(documents.join("zarr.json"), r#"{"zarr_format":3,"node_type":"group"}"#)
        .unwrap();
    let arguments = [&cube("stacks"), documents.to_str().unwrap()];
    print!("{}", run(&build(folder, "tests/c/stacks.c"), &arguments));
}

#[test]
fn tensors_are_exported_and_deleted_without_an_allocation() {
    let Some(folder) = archive() else { return };
    print!("{}", run(&build(folder, "tests/c/dlpack.c"), &[&cube("dlpack")]));
}

#[test]
fn a_host_with_its_own_zstd_and_rust_keeps_them() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/clash.c"), &[&cube("clash")]);
}

#[test]
fn threads_have_room_beside_large_thread_local_variables_of_the_program() {
    let Some(folder) = archive() else { return };
    let cube = cube("thread-locals");
    for bytes in [12_000, 20_000, 40_000, 300_000] {
        let define = format!("-DTLS_BYTES={bytes}");
        run(&build_with(folder, "tests/c/thread_locals.c", &[&define]), &[&cube]);
    }
}

#[test]
fn a_plugin_that_is_unloaded_while_it_is_used_stays_and_else_is_gone() {
    let Some(folder) = archive() else { return };
    let plugin = cc::folder("plugin").join("plugin.so");
    cc::run(
        Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wl,--whole-archive"])
            .arg(folder.join("libwavetrain.a"))
            .args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-o"])
            .arg(&plugin),
    );
    let arguments = [plugin.to_str().unwrap(), &cube("plugin")];
    run(&build(folder, "tests/c/plugin.c"), &arguments);
}

#[test]
fn memory_files_and_log_come_from_the_hooks() {
    let Some(folder) = archive() else { return };
    run(&build(folder, "tests/c/hooks.c"), &[]);
}

#[test]
fn jobs_on_whatever_threads_of_the_host_give_the_same_bytes_and_allocate_nothing() {
    let Some(folder) = archive() else { return };
    let program = build(folder, "tests/c/workers.c");
    let cube = cube("workers");
    for mode in ["own", "pump", "inline", "deferred", "reverse", "pool"] {
        print!("{}", run(&program, &[&cube, mode]));
        print!("{}", run(&program, &[&cube, mode, "async"]));
    }
}

#[test]
fn batches_on_a_device_allocate_nothing_after_open() {
    let Some(folder) = archive() else { return };
    let Some(driver) = cuda_sim::library() else { return };
    let program = build(folder, "tests/c/cuda_pump.c");
    let cube = cube("cuda");
    for mode in ["own", "pump"] {
        print!("{}", run(&program, &[&cube, driver.to_str().unwrap(), mode]));
    }
}

/// How often a program starts a thread or a process, by strace; None where that cannot be said.
fn starts_under_strace(program: &Path, arguments: &[&str]) -> Option<usize> {
    let log = program.with_extension("strace");
    let _ = std::fs::remove_file(&log);
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=clone,clone3,vfork,fork", "-o"])
        .arg(&log)
        .arg(program)
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && text.contains("PTRACE") {
        println!("skipped: {text}");
        return None;
    }
    assert!(output.status.success(), "{arguments:?}: {text}");
    let log = std::fs::read_to_string(log).unwrap();
    Some(log.lines().filter(|line| line.contains("clone") || line.contains("fork(")).count())
}

#[test]
fn without_threads_of_ours_no_thread_is_started() {
    let Some(folder) = archive() else { return };
    if cc::find("strace", &["strace"]).is_none() {
        return;
    }
    let program = build(folder, "tests/c/workers.c");
    let cube = cube("strace");
    // Two lives of three decoding and two io threads: strace sees what there is.
    let Some(own) = starts_under_strace(&program, &[&cube, "own"]) else { return };
    assert_eq!(own, 10);
    for mode in ["pump", "inline", "deferred", "reverse"] {
        for more in [&[][..], &["async"]] {
            let starts = starts_under_strace(&program, &[&[cube.as_str(), mode], more].concat());
            assert_eq!(starts, Some(0), "{mode} {more:?}");
        }
    }
}

#[test]
fn a_defect_ends_the_process_after_the_last_words_of_the_host() {
    let Some(folder) = archive() else { return };
    let program = build(folder, "tests/c/fatal.c");
    let ended = |mode: &str| {
        let output = Command::new(&program).arg(mode).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        (output.status.code(), signal, text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(ended("ends"), (Some(7), None, String::new(), String::new()));
    let (code, signal, output, errors) = ended("returns");
    assert_eq!((code, signal, output.as_str()), (None, Some(libc::SIGABRT), "both\n"));
    assert!(errors.contains("a defect of the library, please report it: "), "{errors}");
    let (_, places) = errors.trim_end().split_once("assertion failed at ").unwrap();
    assert!(places.split(' ').all(|place| place.starts_with("+0x")), "{errors}");
    let again = ended("again");
    assert_eq!(again, (None, Some(libc::SIGABRT), String::new(), String::new()));
    // As tools/archive.sh says.
    if cc::find("addr2line", &["addr2line"]).is_some() {
        let lines = cc::run(
            Command::new("addr2line")
                .args(["-fiC", "-j", ".text", "-e"])
                .arg(pack::unstripped(folder))
                .args(places.split(' ').map(|place| &place[1..])),
        );
        for found in ["src/os/mod.rs:", "wavetrain_pump", "src/surface/c/"] {
            assert!(lines.contains(found), "{errors}{lines}");
        }
    }
}
