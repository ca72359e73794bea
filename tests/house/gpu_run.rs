//! tools/gpu_run.sh, which shows on another machine what the CUDA backend does: its table, and its
//! exit status, with programs in the folder that only say how they end.

use crate::common::cc;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that is a line of sh. Another process writes it: a child that a test forks meanwhile
/// would inherit the open file until its own exec, and the kernel runs no file that is open for
/// writing.
fn program(folder: &Path, name: &str, line: &str) {
    let mut writer = Command::new("sh");
    writer.args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#]);
    cc::run(writer.arg(folder.join("bin").join(name)).arg(line));
}

/// A folder as tools/gpu.sh packs it, with one program for all tests.
fn packed(test: &str, gpu: &str, tests: &str) -> PathBuf {
    let folder = cc::folder(&format!("gpu-run-{test}"));
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::create_dir_all(folder.join("data/default-0")).unwrap();
    fs::write(folder.join("data/default-0/zarr.json"), "{}").unwrap();
    fs::write(folder.join("version.txt"), "v7\n").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    cc::run(Command::new("cp").arg(root.join("tools/gpu_run.sh")).arg(folder.join("run.sh")));
    program(&folder, "gpu", gpu);
    for name in ["formats", "cuda", "faults"] {
        program(&folder, &format!("test-{name}"), tests);
    }
    program(&folder, "train_cuda", "echo \"$4 $6\"");
    // A machine may have another one, which no test starts.
    fs::create_dir_all(folder.join("mps")).unwrap();
    program(&folder, MPS, "exit 1");
    folder
}

/// The control program of MPS, from the folder of programs.
const MPS: &str = "../mps/nvidia-cuda-mps-control";

/// All parts, as the script names them.
fn parts() -> Vec<&'static str> {
    let script = include_str!("../../tools/gpu_run.sh");
    let line = script.lines().find_map(|line| line.strip_prefix("all=\"")).unwrap();
    line.trim_end_matches('"').split(' ').collect()
}

/// The table and the exit status, with one more part that there is not.
fn run(folder: &Path) -> (String, Option<i32>) {
    let mut command = Command::new(folder.join("run.sh"));
    for name in ["DRIVER", "SMALL", "DATA", "FILTER", "CUDA_DEVICE_MAX_CONNECTIONS"] {
        command.env_remove(name);
    }
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.join("mps").display()));
    // Another one may be there.
    command.env("CHECKER", folder.join("sanitizer/bin/compute-sanitizer"));
    command.env("PARTS", format!("{} nonsense", parts().join(" ")));
    let output = command.output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    println!("{table}");
    (table, output.status.code())
}

/// What stands behind a name.
fn behind<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let has_name = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with(' ');
    table.lines().filter(has_name).map(|line| line[name.len()..].trim()).collect()
}

/// A folder whose compute-sanitizer starts a program if the script says so, and says `words` after
/// it; like the packed one it cannot tell how the program ended.
fn checked(test: &str, starts: &str, [memcheck, racecheck]: [&str; 2], padding: &str) -> PathBuf {
    let formats = format!("case $* in padding::*) {padding} ;; *) {PASSED} ;; esac");
    let folder = packed(test, "echo \"units: random cases, the host's bytes 40.00\"", &formats);
    fs::create_dir_all(folder.join("sanitizer/bin")).unwrap();
    let line = format!(
        r#"test "$1 $2" = "--injection-path ${{0%/bin/*}}/lib" || exit 3
           shift 2
           if test "$1" = --tool; then check=$2; shift 4; fi
           {starts}
           case ${{check:-}} in
           memcheck) echo "{memcheck}" ;;
           racecheck) echo "{racecheck}" ;;
           esac
           echo "========= Error: couldn't find exit code."
           exit 255"#
    );
    program(&folder, "../sanitizer/bin/compute-sanitizer", &line);
    folder
}

/// What stands behind the checks, memory before races, the random work before the test.
fn checks(table: &str) -> Vec<String> {
    let names =
        ["memcheck, gpu", "memcheck, test-formats", "racecheck, gpu", "racecheck, test-formats"];
    let behind = |name| behind(table, &format!("compute-sanitizer {name}")).concat();
    names.map(behind).to_vec()
}

const CLEAN: [&str; 2] = [
    "========= ERROR SUMMARY: 0 errors",
    "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
];

#[test]
fn a_checker_is_judged_by_what_it_and_the_program_say() {
    let (table, status) = run(&checked("clean", "\"$@\"", CLEAN, PASSED));
    let [memory, races] = CLEAN.map(|line| line.trim_start_matches("========= "));
    assert_eq!(checks(&table), [memory, memory, races, races]);
    assert_eq!(status, Some(0));
    // Errors of the kernels, as many as begin with the digit of none.
    let found = ["========= ERROR SUMMARY: 10 errors", CLEAN[1]];
    let (table, status) = run(&checked("errors", "\"$@\"", found, PASSED));
    let rows = checks(&table);
    assert!(rows[0].starts_with("FAILED: ") && rows[0].contains("10 errors"), "{table}");
    assert!(rows[1].starts_with("FAILED: ") && rows[2..] == [races, races], "{table}");
    assert_eq!(status, Some(1));
    // A test that failed.
    let failed = "echo 'test result: FAILED. 2 passed; 1 failed'; exit 101";
    let (table, status) = run(&checked("wrong-bytes", "\"$@\"", CLEAN, failed));
    let rows = checks(&table);
    assert!(rows[0] == memory && rows[1].contains("test result: FAILED"), "{table}");
    assert_eq!(status, Some(1));
}

#[test]
fn a_checker_that_says_nothing_is_a_failure_and_one_that_cannot_start_is_skipped() {
    let (table, status) = run(&checked("silent", "\"$@\"", ["", ""], PASSED));
    assert!(checks(&table).iter().all(|row| row.starts_with("FAILED: ")), "{table}");
    assert_eq!(status, Some(1));
    let folder = checked("stuck", ":", CLEAN, PASSED);
    let (table, status) = run(&folder);
    let rows = behind(&table, "sanitizer");
    assert!(rows[0].starts_with("skipped: ") && rows[0].contains("starts no program"), "{table}");
    assert_eq!(status, Some(0));
}

#[test]
fn the_helper_of_the_checker_becomes_the_program_whose_name_comes_last() {
    let Some(compiler) = cc::find("cc", &["cc", "gcc"]) else { return };
    let helper = cc::folder("gpu-run-helper").join("TreeLauncherSubreaper");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/subreaper.c");
    let strict = ["-Wall", "-Wextra", "-Werror", "-O2", "-static"];
    cc::run(Command::new(compiler).args(strict).arg(source).arg("-o").arg(&helper));
    let script = "echo $0 $1 $2 $WORD; exit 7";
    let mut command = Command::new(&helper);
    let output = command.args(["-c", script, "a", "b", "c", "/bin/sh"]).env("WORD", "d").output();
    let output = output.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a b c d\n");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(Command::new(&helper).output().unwrap().status.code(), Some(127));
}

/// A program that gives a row for its part.
const ROWS: &str = r#"echo "row-$1   1 $3""#;

const PASSED: &str = "echo 'test result: ok. 3 passed; 0 failed'";

#[test]
fn without_a_device_every_part_is_skipped_with_the_reason() {
    let folder = packed("skip", "echo 'skipped: no driver'; exit 77", PASSED);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(0));
    for part in parts() {
        assert_eq!(behind(&table, part), ["skipped: no driver"], "{part}");
    }
    assert_eq!(behind(&table, "nonsense"), ["skipped: there is no such part"]);
    assert_eq!(behind(&table, "wavetrain"), ["v7"]);
}

#[test]
fn each_part_has_its_rows() {
    let folder = packed("rows", ROWS, PASSED);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(0));
    for part in ["device", "units", "rates", "overlap", "data", "stream"] {
        assert_eq!(behind(&table, &format!("row-{part}")), ["1 libcuda.so.1"], "{part}");
    }
    let identity = behind(&table, "identity with the host: identity");
    assert_eq!(identity, ["ok. 3 passed; 0 failed"]);
    let decode = behind(&table, "tests of codecs::blosc_chunks");
    assert_eq!(decode, ["ok. 3 passed; 0 failed"]);
    assert_eq!(behind(&table, "train_cuda, release=event"), ["edge=128 verify=1"]);
    assert_eq!(behind(&table, "train_cuda, release=export"), ["edge=128 verify=1"]);
}

/// Tests that say how many queues to the device they have; one of them runs in its own process.
const COUNTED: &str = r#"echo 'skipped: it needs what only the simulated driver can do'
    test "${CUDA_DEVICE_MAX_CONNECTIONS:-}" = 32 || echo 'skipped: it holds a stream, which needs'
    echo "test result: ok. 1 passed; queues ${CUDA_DEVICE_MAX_CONNECTIONS:-}"
    echo "test result: ok. 4 passed; queues ${CUDA_DEVICE_MAX_CONNECTIONS:-}""#;

#[test]
fn tests_that_show_nothing_on_a_driver_are_counted_and_each_part_has_its_queues() {
    let (table, status) = run(&packed("queues", ROWS, COUNTED));
    assert_eq!(status, Some(0));
    let simulated = "1 of them need the simulated driver";
    let held = format!("ok. 4 passed; queues 32; {simulated}");
    for name in ["tests of consumer", "tests of streams"] {
        assert_eq!(behind(&table, name), [&held], "{name}");
        let shared = format!("ok. 4 passed; queues 1; {simulated}; 1 need a queue for each stream");
        assert_eq!(behind(&table, &format!("one queue: {name}")), [shared], "{name}");
    }
    assert_eq!(behind(&table, "one queue: train_cuda, release=event"), ["edge=128 verify=1"]);
    for name in ["stress", "sweep::files_of_a_hook", "sweep::threads"] {
        assert_eq!(behind(&table, &format!("tests of {name}")).len(), 1, "{name}");
        assert_eq!(behind(&table, &format!("one queue: tests of {name}")).len(), 1, "{name}");
    }
}

/// A folder with a control program of MPS that notes what it is told, and that starts, and then has
/// the servers, that the script says. Its daemon is a process that only a signal ends.
fn with_mps(test: &str, tests: &str, starts: &str, servers: &str) -> PathBuf {
    let folder = packed(test, ROWS, tests);
    let line = format!(
        r#"told=${{0%/*}}/told; test -d "$CUDA_MPS_PIPE_DIRECTORY" || exit 9
           if test "${{1:-}}" = -d; then
               echo start >> "$told"; {starts}
               sleep 600 > /dev/null 2>&1 &
               echo $! | tee "${{0%/*}}/pid" > "$CUDA_MPS_PIPE_DIRECTORY/${{0##*/}}.pid"
               exit 0
           fi
           read word; echo "$word" >> "$told"
           case $word in get_server_list) {servers} ;; esac"#
    );
    program(&folder, MPS, &line);
    folder
}

/// What the control program was told; its daemon has ended, or is a zombie that nobody waits for.
fn told(folder: &Path) -> String {
    if let Ok(pid) = fs::read_to_string(folder.join("mps/pid")) {
        let stat = PathBuf::from("/proc").join(pid.trim()).join("stat");
        let lives = || fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z"));
        // The signal was sent, and takes its time.
        assert!((0..1_000_000).any(|_| !lives()), "the daemon lives on");
    }
    let text = fs::read_to_string(folder.join("mps/told")).unwrap();
    text.lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_shares_a_device_runs_under_mps_which_is_stopped_again_however_that_ends() {
    let folder = with_mps("mps", COUNTED, "", "echo 4711");
    let (table, status) = run(&folder);
    assert_eq!((status, told(&folder).as_str()), (Some(0), "start get_server_list quit"));
    let row = behind(&table, "under MPS: tests of consumer").concat();
    assert!(row.starts_with("ok. 4 passed; queues ;"), "{row}");
    assert_eq!(behind(&table, "under MPS: train_cuda, release=export"), ["edge=128 verify=1"]);
    let fails = format!("test -z ${{CUDA_MPS_PIPE_DIRECTORY:-}} || exit 101\n{PASSED}");
    let folder = with_mps("mps-fails", &fails, "", "echo 4711");
    let (table, status) = run(&folder);
    assert_eq!((status, told(&folder).as_str()), (Some(1), "start get_server_list quit"));
    assert_eq!(behind(&table, "under MPS: tests of consumer"), ["status 101"]);
    assert!(behind(&table, "mps")[0].starts_with("FAILED, status 1"), "{table}");
}

#[test]
fn mps_that_is_not_there_does_not_start_or_serves_nobody_is_skipped_with_the_reason() {
    let reason = |folder: &Path| {
        let (table, status) = run(folder);
        assert_eq!(status, Some(0));
        behind(&table, "mps").concat()
    };
    let folder = with_mps("mps-stuck", PASSED, "echo 'no permission'; exit 1", "");
    assert!(reason(&folder).starts_with("skipped: ") && reason(&folder).contains("no permission"));
    assert_eq!(told(&folder).split(' ').filter(|word| *word == "start").count(), 2);
    let folder = with_mps("mps-none", PASSED, "", ":");
    assert_eq!(reason(&folder), "skipped: MPS serves nobody here: its daemon started no server");
    assert_eq!(told(&folder), "start get_server_list quit");
    if cc::find("MPS", &["nvidia-cuda-mps-control"]).is_none() {
        let folder = packed("no-mps", ROWS, PASSED);
        fs::remove_file(folder.join("bin").join(MPS)).unwrap();
        assert_eq!(reason(&folder), "skipped: there is no nvidia-cuda-mps-control");
    }
}

#[test]
fn bytes_that_differ_are_a_failure_of_the_whole() {
    let folder = packed("wrong", "test $1 != units || exit 1", PASSED);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(1));
    assert!(behind(&table, "units")[0].starts_with("FAILED, status 1"), "{table}");
    let failed = "echo 'test result: FAILED. 2 passed; 1 failed'; exit 101";
    let folder = packed("wrong-identity", "", failed);
    let (table, status) = run(&folder);
    assert_eq!(status, Some(1));
    let rows = behind(&table, "identity");
    assert!(rows.last().unwrap().starts_with("FAILED, status 1"), "{table}");
    assert_eq!(behind(&table, "train_cuda, release=event").len(), 1, "the rest still runs");
}
