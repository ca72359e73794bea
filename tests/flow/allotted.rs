//! The system's limits: CPUs of masks, quotas and ranks; memory of control groups and of the
//! system. Machines are made up, with the files that Linux has in /proc and /sys.

use crate::common::alone::alone;
use crate::common::machine::{MACHINE, Machine};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use wavetrain::abi::{LogHook, MemoryHook};
use wavetrain::base::cpus::CpuSet;
use wavetrain::config::{Config, CpuTable, LOG_INFO, THREADS_PUMP};
use wavetrain::loader::{Loader, memory_need};
use wavetrain::os::allotted::{cpus_online, memory_left, ranks};
use wavetrain::os::{Os, SYSTEM, cgroup};
use wavetrain::status::Status;

const GIB: u64 = 1 << 30;
const ROOT: &str = "23 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n";

/// A machine with version 2 alone, in the group `own`.
fn unified(own: &str) -> Machine {
    let mounts = format!("{ROOT}30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
    Machine::new()
        .file("/proc/self/cgroup", format!("0::{own}\n"))
        .file("/proc/self/mountinfo", mounts)
}

/// A machine with version 1, mounted from the group `root` on.
fn version_1(own: &str, root: &str) -> Machine {
    let mount = |number: u32, name: &str| {
        format!("{number} 31 0:30 {root} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n")
    };
    let mounts = [ROOT.to_owned(), mount(32, "cpu,cpuacct"), mount(35, "memory")].concat();
    Machine::new()
        .file("/proc/self/cgroup", format!("9:memory:{own}\n4:cpu,cpuacct:{own}\n1:name=x:/y\n"))
        .file("/proc/self/mountinfo", mounts)
}

/// A machine with both: version 2 without controllers, at the place that systemd gives it.
fn hybrid(own: &str) -> Machine {
    let mounts = format!(
        "{ROOT}31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
         32 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
         33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    );
    Machine::new()
        .file("/proc/self/cgroup", format!("9:memory:{own}\n4:cpu,cpuacct:{own}\n0::{own}\n"))
        .file("/proc/self/mountinfo", mounts)
}

const V2: &str = "/sys/fs/cgroup";
const CPU: &str = "/sys/fs/cgroup/cpu,cpuacct";
const MEMORY: &str = "/sys/fs/cgroup/memory";

type Row<T> = (&'static str, Machine, Option<T>);

fn quotas_are<const N: usize>(rows: [Row<u32>; N]) {
    for (name, machine, expected) in rows {
        assert_eq!(machine.enter(|| cgroup::quota(&MACHINE)), expected, "{name}");
    }
}

/// A machine with version 2 and one quota, of the group at `folder`.
fn max(own: &str, folder: &str, text: &str) -> Machine {
    unified(own).file(&format!("{V2}{folder}/cpu.max"), text)
}

#[test]
fn the_quota_is_the_smallest_on_the_way_to_the_root_that_is_seen() {
    quotas_are([
        ("none", unified("/"), None),
        ("no files at all", Machine::new(), None),
        ("max", max("/a", "/a", "max 100000\n"), None),
        ("two", max("/a", "/a", "200000 100000\n"), Some(2)),
        ("rounded up", max("/a", "/a", "150000 100000\n"), Some(2)),
        ("less than one", max("/a", "/a", "1000 100000\n"), Some(1)),
        ("without a newline", max("/a", "/a", "300000 100000"), Some(3)),
        ("of a namespace", max("/", "", "400000 100000\n"), Some(4)),
        ("outside of a namespace", max("/../b", "", "400000 100000\n"), Some(4)),
        ("of a parent", max("/a/b/c", "/a", "500000 100000\n"), Some(5)),
        ("nested", max("/a/b", "/a", "8 1").file(&format!("{V2}/a/b/cpu.max"), "7 3"), Some(3)),
        (
            "less outside",
            max("/a/b", "/a", "2 1").file(&format!("{V2}/a/b/cpu.max"), "9 3"),
            Some(2),
        ),
        ("of a group beside it", max("/a", "/ab", "100000 100000\n"), None),
        ("without a period", max("/a", "/a", "100000\n"), None),
        ("period 0", max("/a", "/a", "100000 0\n"), None),
        ("quota 0", max("/a", "/a", "0 100000\n"), None),
        ("largest", max("/a", "/a", "18446744073709551615 1\n"), Some(u32::MAX)),
        ("too large", max("/a", "/a", "18446744073709551616 1\n"), None),
        ("garbage", max("/a", "/a", "\u{0}\u{1}x y"), None),
    ]);
}

#[test]
fn mounts_are_found_by_their_escaped_paths_and_after_lines_of_any_length() {
    let escaped = "30 23 0:26 /a\\040b\\134x2d /sys/fs/cg\\040 rw - cgroup2 cgroup2 rw\n";
    let long = "overlay ".repeat(1 << 17);
    let mount = format!("30 23 0:26 / {V2} rw - cgroup2 cgroup2 rw");
    let long = format!("{long}\n{mount}");
    let twice = format!("30 23 0:26 /b /x rw - cgroup2 c rw\n{mount}\n");
    let quota = max("/a", "/a", "12 1\n");
    quotas_are([
        (
            "escaped",
            unified("/a b\\x2d/c")
                .file("/proc/self/mountinfo", escaped)
                .file("/sys/fs/cg /c/cpu.max", "11 1\n"),
            Some(11),
        ),
        ("long", quota.clone().file("/proc/self/mountinfo", long), Some(12)),
        ("the mount that has the group", quota.file("/proc/self/mountinfo", twice), Some(12)),
    ]);
}

#[test]
fn version_1_and_both_versions_at_a_time_have_quotas_too() {
    let cfs = |machine: Machine, folder: &str, quota, period| {
        let files = [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", period)];
        machine.files(&format!("{CPU}{folder}"), &files)
    };
    let both = cfs(hybrid("/a"), "/a", "6", "1");
    let less = both.clone().file("/sys/fs/cgroup/unified/cpu.max", "4 1\n");
    quotas_are([
        ("version 1", cfs(version_1("/a", "/"), "/a", "150000", "100000"), Some(2)),
        ("without", cfs(version_1("/a", "/"), "/a", "-1", "100000"), None),
        ("a container", cfs(version_1("/docker/7", "/docker/7"), "", "3", "1"), Some(3)),
        ("in a container", cfs(version_1("/docker/7/b", "/docker/7"), "/b", "3", "1"), Some(3)),
        ("a mount of another group", cfs(version_1("/a", "/docker/7"), "", "3", "1"), Some(3)),
        ("both", both, Some(6)),
        ("both, version 2 less", less, Some(4)),
    ]);
}

#[test]
fn what_a_group_has_left_is_its_limit_less_what_the_kernel_cannot_take_back() {
    let stat = "anon 1000\nfile 500000\nkernel 300\nshmem 200\nslab_reclaimable 100\n\
                inactive_anon 700\nactive_anon 400\ninactive_file 400000\nunevictable 50\n";
    let group = |limit: &str, stat: &str| {
        unified("/a").files(&format!("{V2}/a"), &[("memory.max", limit), ("memory.stat", stat)])
    };
    let version_1 = |limit: &str, stat: &str| {
        let files = [("memory.limit_in_bytes", limit), ("memory.stat", stat)];
        version_1("/a", "/").files(&format!("{MEMORY}/a"), &files)
    };
    let machines = [
        ("none", unified("/a"), None),
        ("max", group("max", stat), None),
        ("anonymous and shared", group("100000", stat), Some(100000 - 1200 - 200)),
        ("locked pages of files", group("100000", &stat.replace("50\n", "900\n")), Some(97800)),
        // Locked shared memory is in both, and counts once.
        ("locked", group("9000", "anon 1000\nshmem 700\nunevictable 900"), Some(7300)),
        (
            "an older kernel",
            group("9000", "anon 1\nslab 70\nkernel_stack 20\npagetables 9"),
            Some(8900),
        ),
        ("full", group("1000", stat), Some(0)),
        ("without figures", group("1000", ""), Some(1000)),
        ("absurd figures", group("1000", "anon 18446744073709551615\nshmem 99"), Some(0)),
        (
            "nested",
            group("5000", "anon 10")
                .files(V2, &[("memory.max", "4000"), ("memory.stat", "anon 30")]),
            Some(3970),
        ),
        (
            "version 1",
            version_1("9000", "rss 7\ntotal_rss 500\ntotal_shmem 20\ntotal_unevictable 30"),
            Some(8480),
        ),
        ("version 1 without", version_1("9223372036854771712", ""), Some(9223372036854771712)),
        (
            "hybrid",
            hybrid("/a").files(&format!("{MEMORY}/a"), &[("memory.limit_in_bytes", "77")]),
            Some(77),
        ),
    ];
    for (name, machine, expected) in machines {
        assert_eq!(machine.enter(|| cgroup::memory_left(&MACHINE)), expected, "{name}");
    }
}

#[test]
fn the_system_has_what_is_available_and_what_its_limits_leave() {
    let memory = "MemTotal: 99 kB\nMemAvailable:  10 kB\nSwapFree: 5 kB\nCommitLimit: 8 kB\n\
                  Committed_AS: 6 kB\n";
    let of = |memory: &str| Machine::new().file("/proc/meminfo", memory);
    let mode = |mode: &str| of(memory).file("/proc/sys/vm/overcommit_memory", mode);
    let limited =
        |status: &str| mode("0").address_bytes_max(9000).file("/proc/self/status", status);
    for (name, machine, expected) in [
        ("nothing known", Machine::new(), None),
        ("available and swap", mode("0\n"), Some((15 << 10, "MemAvailable"))),
        ("no swap", of("MemAvailable: 10 kB\n"), Some((10 << 10, "MemAvailable"))),
        ("huge", of("MemAvailable: 18446744073709551615 kB"), Some((u64::MAX, "MemAvailable"))),
        ("an old kernel", of("MemFree: 10 kB\n"), None),
        ("strict", mode("2\n"), Some((2 << 10, "CommitLimit"))),
        ("addresses", limited("Name:\tx\nVmSize:\t  3 kB\n"), Some((9000 - 3072, "RLIMIT_AS"))),
        ("more addresses", limited("VmSize:\t 3000 kB\n"), Some((0, "RLIMIT_AS"))),
        ("size not known", limited(""), Some((15 << 10, "MemAvailable"))),
    ] {
        let left = machine.enter(|| memory_left(&MACHINE));
        assert_eq!(left.map(|left| left.bytes), expected.map(|(bytes, _)| bytes), "{name}");
        assert!(left.zip(expected).is_none_or(|(left, (_, limit))| left.limit.contains(limit)));
    }
    let real = memory_left(&SYSTEM).unwrap();
    assert!(real.bytes > 1 << 20, "{real:?}");
}

#[test]
fn ranks_are_those_that_the_innermost_launcher_names() {
    let of = |variables: &[(&str, &str)]| {
        let machine = Machine::new();
        let machine = variables.iter().fold(machine, |it, (name, value)| it.variable(name, value));
        machine.enter(|| ranks(&MACHINE))
    };
    let (slurm, step) = (("SLURM_STEP_TASKS_PER_NODE", "6(x2),4"), ("SLURM_STEP_ID", "0"));
    assert_eq!(of(&[]), 1);
    assert_eq!(of(&[("LOCAL_WORLD_SIZE", "8"), ("MPI_LOCALNRANKS", "2"), slurm, step]), 8);
    assert_eq!(of(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]), 3);
    assert_eq!(of(&[("MV2_COMM_WORLD_LOCAL_SIZE", "4")]), 4);
    assert_eq!(of(&[("MPI_LOCALNRANKS", "5")]), 5);
    assert_eq!(of(&[slurm, step]), 6);
    assert_eq!(of(&[("SLURM_STEP_TASKS_PER_NODE", "7"), step]), 7);
    assert_eq!(of(&[("SLURM_STEP_TASKS_PER_NODE", "(x2)"), step]), 1);
    // It is that of the job, whatever a step of it has.
    assert_eq!(of(&[("SLURM_NTASKS_PER_NODE", "6"), step]), 1);
    // A script of sbatch is one process.
    assert_eq!(of(&[slurm]), 1);
    assert_eq!(of(&[slurm, ("SLURM_STEP_ID", "4294967291")]), 1);
    for wrong in ["", "x", "0", "-3", "4(x2)", "99999999999", "1.5", "12345678901234567890"] {
        assert_eq!(of(&[("LOCAL_WORLD_SIZE", wrong)]), 1, "{wrong}");
    }
}

/// The next of a sequence of numbers.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

#[test]
fn files_of_any_bytes_give_numbers_or_none() {
    let stat = "anon 1000\nshmem 200\nunevictable 50\n";
    let base = hybrid("/a/b")
        .files(&format!("{CPU}/a"), &[("cpu.cfs_quota_us", "6"), ("cpu.cfs_period_us", "1")])
        .files(&format!("{MEMORY}/a"), &[("memory.limit_in_bytes", "77"), ("memory.stat", stat)])
        .files("/sys/fs/cgroup/unified/a", &[("cpu.max", "4 1"), ("memory.max", "9")])
        .file("/proc/meminfo", "MemAvailable: 10 kB\n");
    let pieces: [&[u8]; 12] = [
        b"/",
        b":",
        b"\n",
        b" - cgroup2 x rw\n",
        b"\\777",
        b"\\04",
        b"0::/",
        b"..",
        b" ",
        b"18446744073709551616",
        b"-1",
        b"\xFF\0",
    ];
    let look = |machine: &Machine| {
        machine.enter(|| {
            let found = (cgroup::quota(&MACHINE), memory_left(&MACHINE).map(|left| left.bytes));
            std::hint::black_box((found, cpus_online(&MACHINE)));
        });
    };
    let mut state = 7;
    for path in base.paths() {
        for length in [0, 1, 4095, 4096, 4097, 1 << 20] {
            look(&base.clone().file(&path, vec![b'9'; length]));
            look(&base.clone().file(&path, vec![b'\n'; length]));
        }
        for _ in 0..300 {
            let length = draw(&mut state) as usize % 40;
            let mut bytes = Vec::new();
            for _ in 0..length {
                match draw(&mut state) % 3 {
                    0 => bytes.push(draw(&mut state) as u8),
                    _ => bytes.extend(pieces[draw(&mut state) as usize % pieces.len()]),
                }
            }
            look(&base.clone().file(&path, bytes));
        }
    }
}

fn config() -> Config {
    let mut config = Config { sample_rank: 1, n_io_threads: 4, ..Config::default() };
    config.sample_shape[0] = 64;
    config
}

/// The text of a field of the stats.
fn text(bytes: &[c_char]) -> String {
    // SAFETY: the text has a NUL.
    unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_str().unwrap().to_owned()
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn log(_: *mut c_void, _: u32, _: u64, line: *const c_char, _: u64) {
    // SAFETY: the text has a NUL.
    let line = unsafe { CStr::from_ptr(line) }.to_str().unwrap().to_owned();
    LINES.lock().unwrap().push(line);
}

#[test]
fn a_quota_of_two_cpus_starts_two_threads_that_decode_and_the_stats_and_the_log_name_it() {
    static COUNTED: Os = Os {
        thread_start: |main, argument, stack, bytes| {
            STARTED.with_borrow_mut(|started| *started += 1);
            (SYSTEM.thread_start)(main, argument, stack, bytes)
        },
        ..MACHINE
    };
    thread_local! { static STARTED: RefCell<u32> = const { RefCell::new(0) }; }
    let log = LogHook { log: Some(log), ..LogHook::NONE };
    let config = Config { log, log_level: LOG_INFO, ..config() };
    let machine = unified("/a").file(&format!("{V2}/a/cpu.max"), "150000 100000\n").mask("0-7");
    machine.enter(|| {
        let loader = Loader::open_on(&COUNTED, &config).unwrap();
        let placement = text(&loader.stats().unwrap().placement_text);
        let expected = "io 4, decode 2 threads: 2 CPUs of quota (8 in the mask, 64 online)";
        assert_eq!(placement, expected);
        assert_eq!(STARTED.take(), 4 + 2);
        let lines = LINES.lock().unwrap();
        let found = lines.iter().filter(|line| line.contains(expected)).count();
        assert_eq!(found, 1, "{lines:?}");
    });
    // Counts of the config stay.
    machine.enter(|| {
        let config = Config { n_decode_threads: 7, ..self::config() };
        drop(Loader::open_on(&COUNTED, &config).unwrap());
        assert_eq!(STARTED.take(), 4 + 7);
    });
    machine.mask("5").variable("LOCAL_WORLD_SIZE", "8").enter(|| {
        let config = Config { thread_mode: THREADS_PUMP, ..self::config() };
        let loader = Loader::open_on(&COUNTED, &config).unwrap();
        let placement = text(&loader.stats().unwrap().placement_text);
        assert!(placement.starts_with("no threads, 1 of your own work at a time: "), "{placement}");
        assert_eq!(STARTED.take(), 0);
    });
    // An owner decodes for all ranks.
    Machine::new().mask("0-4").variable("LOCAL_WORLD_SIZE", "5").enter(|| {
        let name = format!("allotted-{}", std::process::id());
        let owner = Loader::open_shared_on(&COUNTED, &self::config(), &name, 5).unwrap();
        let placement = text(&owner.stats().unwrap().placement_text);
        assert!(placement.starts_with("io 4, decode 5 threads: 5 CPUs in the mask"), "{placement}");
        drop(owner);
        STARTED.take();
    });
}

unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64, align: u64) -> *mut c_void {
    // SAFETY: the size is not 0, and the alignment is a power of two.
    unsafe { libc::aligned_alloc(align as usize, bytes.next_multiple_of(align) as usize) }
}

unsafe extern "C" fn free(_: *mut c_void, block: *mut c_void, _: u64, _: u64) {
    // SAFETY: the block is of `alloc`.
    unsafe { libc::free(block) };
}

#[test]
fn a_budget_beyond_what_is_left_is_refused_with_both_numbers_before_a_page_is_touched() {
    static UNTOUCHED: Os = Os { map: |_| panic!("a page was taken"), ..MACHINE };
    let config = config();
    let group = |limit: u64| {
        let files = [("memory.max", limit.to_string())];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        unified("/a").files(&format!("{V2}/a"), &files)
    };
    let need = group(GIB).enter(|| {
        drop(Loader::open_on(&MACHINE, &config).unwrap());
        let derived = Config { n_decode_threads: 64, ..config };
        memory_need(&derived).unwrap().host_bytes.max(1 << 20)
    });
    let config = Config { n_decode_threads: 64, ..config };
    for (machine, limit) in [
        (group(need - 1), "memory limit of the cgroup"),
        (
            Machine::new().address_bytes_max(need - 1).file("/proc/self/status", "VmSize: 0 kB\n"),
            "RLIMIT_AS",
        ),
    ] {
        machine.enter(|| {
            let failure = Loader::open_on(&UNTOUCHED, &config).err().unwrap();
            assert_eq!(failure.status, Status::OutOfMemory);
            let text = failure.text.as_str();
            let (need, left) = (need.to_string(), (need - 1).to_string());
            for part in [limit, &need, &left, "check_memory", "lower "] {
                assert!(text.contains(part), "{part} in {text}");
            }
            let unchecked = Config { check_memory: 0, ..config };
            drop(Loader::open_on(&MACHINE, &unchecked).unwrap());
            // Memory of the caller's allocator is the caller's to count.
            let memory = MemoryHook { alloc: Some(alloc), free: Some(free), ..MemoryHook::NONE };
            drop(Loader::open_on(&MACHINE, &Config { memory, ..config }).unwrap());
        });
    }
    group(need).enter(|| drop(Loader::open_on(&MACHINE, &config).unwrap()));
}

/// CPUs of each of wavetrain's threads, as the kernel lists them.
fn masks_of_threads() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let number = path.file_name()?.to_str()?.parse().ok()?;
        let mut set = CpuSet::EMPTY;
        // SAFETY: the kernel writes at most the bytes of the set.
        unsafe {
            let bytes = size_of::<CpuSet>();
            libc::sched_getaffinity(number, bytes, (&raw mut set).cast());
        }
        name.starts_with("wavetrain-").then(|| format!("{:x?}", &set.words[..2]))
    };
    threads.filter_map(|thread| of(thread.unwrap().path())).collect()
}

#[test]
fn threads_keep_to_the_cpus_that_the_config_names_and_counts_follow() {
    alone(|| {
        let own = (SYSTEM.cpus)();
        let cpu = own.first_beyond(&CpuSet::EMPTY).unwrap();
        let mut words = vec![0u64; 2];
        words[cpu as usize / 64] |= 1 << (cpu % 64);
        let expected = format!("{words:x?}");
        let cpus = CpuTable::from_static(words.leak());
        let loader = Loader::open(&Config { cpus, ..config() }).unwrap();
        assert_eq!(masks_of_threads(), vec![expected; 4 + 1]);
        let placement = text(&loader.stats().unwrap().placement_text);
        assert!(placement.starts_with("io 4, decode 1 threads: 1 CPUs in cpus"), "{placement}");
        assert_eq!((SYSTEM.cpus)(), own);
    });
}

#[test]
fn cpus_that_are_none_offline_or_forbidden_are_refused_by_number() {
    static FORBIDS: Os =
        Os { keep_to_cpus: |_| Ok(()), cpus: || CpuSet { words: [1; _] }, ..SYSTEM };
    let with = |words: &[u64]| {
        let cpus = CpuTable::from_static(words.to_vec().leak());
        Config { cpus, ..config() }
    };
    let refused = |os: &'static Os, config: &Config, parts: &[&str]| {
        let failure = Loader::open_on(os, config).err().unwrap();
        assert_eq!(failure.status, Status::Invalid, "{failure}");
        parts.iter().for_each(|part| assert!(failure.text.as_str().contains(part), "{failure}"));
    };
    refused(&SYSTEM, &with(&[0, 0]), &["cpus", "no bit"]);
    refused(&SYSTEM, &with(&[1; 129]), &["cpu_words", "129", "1 to 128"]);
    let beyond = [0; 127].into_iter().chain([1 << 63]).collect::<Vec<_>>();
    refused(&SYSTEM, &with(&beyond), &["CPU 8191 is not online"]);
    Machine::new().enter(|| {
        refused(&MACHINE, &with(&[1, 1 << 3]), &["CPU 67 is not online"]);
        refused(&MACHINE, &with(&[]), &["cpu_words", "1 to 128"]);
    });
    if (SYSTEM.cpus)().words[0] & 2 != 0 {
        refused(&FORBIDS, &with(&[3]), &["may not use CPU 1"]);
    }
}
