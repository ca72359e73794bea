//! Faults injected where the library meets the system: reads that fail, are short, are interrupted,
//! would block or hang; opens that run out of descriptors; threads and memory that are not given.
//!
//! Each case has a table of system calls of its own, made by `seam!`, so that cases run side by
//! side.

use crate::common::fixtures::is_chunk_path;
use crate::common::store;
use crate::common::store::{Spec, value};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wavetrain::config::Config;
use wavetrain::loader::{Failure, Loader, Pop, Request};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::status::Status;

const FOREVER: u64 = u64::MAX;
const SPEC: Spec = Spec { seed: 1, edge: 16, shard: 8, chunk: 4, zstd: true, sparse: false };
const CROP: u64 = 5;
const BATCHES: u64 = 4;

fn array(test: &str) -> PathBuf {
    store::of_test("os_seam", test, &SPEC)
}

fn config() -> Config {
    let mut config = Config {
        samples_per_batch: 2,
        sample_rank: 3,
        n_decode_threads: 2,
        n_io_threads: 3,
        dtype: wavetrain::records::Dtype::U16 as u32,
        max_chunk_uncompressed_bytes: 4096,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&[CROP; 3]);
    config
}

fn corner(tag: u64) -> [i64; 3] {
    let most = SPEC.edge - CROP + 1;
    [tag * 5 % most, tag * 7 % most, tag * 3 % most].map(|at| at as i64)
}

/// Streams BATCHES batches, checks every voxel that comes out, and says how it ended: the number of
/// good batches and the failure, if there was one.
fn stream(os: &'static Os, config: &Config, array: &Path) -> (u64, Option<Failure>) {
    let loader = match Loader::open_on(os, config) {
        Ok(loader) => loader,
        Err(failure) => return (0, Some(failure)),
    };
    let uri = array.to_str().unwrap();
    let (mut pushed, mut popped) = (0, 0);
    while popped < BATCHES {
        while pushed < 2 * BATCHES {
            let begin = corner(pushed);
            let end = begin.map(|at| at + CROP as i64);
            let request = Request { uri, begin: &begin, end: &end, tag: pushed };
            match loader.push(&[request], 0) {
                Ok(1) => pushed += 1,
                Ok(_) => break,
                Err(failure) => return (popped, Some(failure)),
            }
        }
        match loader.pop(FOREVER) {
            Ok(Pop::Batch(batch)) => {
                for (sample, tag) in batch.data().chunks_exact(250).zip(batch.tags()) {
                    let at = corner(*tag).map(|at| at as u64);
                    for (pair, d) in sample.chunks_exact(2).zip(store::places(CROP)) {
                        let expected = value(SPEC.seed, [at[0] + d[0], at[1] + d[1], at[2] + d[2]]);
                        assert_eq!(u16::from_le_bytes([pair[0], pair[1]]), expected);
                    }
                }
                popped += 1;
            }
            Ok(_) => panic!("neither batch nor failure"),
            Err(failure) => return (popped, Some(failure)),
        }
    }
    (popped, None)
}

/// A table of system calls that counts what is taken and given back, and passes every open and read
/// through a function of the case.
macro_rules! seam {
    ($name:ident, open: $open:expr, read: $read:expr) => {
        mod $name {
            use super::*;
            pub static FILES: AtomicI64 = AtomicI64::new(0);
            pub static BLOCKS: AtomicI64 = AtomicI64::new(0);
            pub static CALLS: AtomicI64 = AtomicI64::new(0);
            pub static OS: Os = Os {
                open: |path| {
                    let before: fn(i64, i64) -> Result<(), Errno> = $open;
                    before(CALLS.fetch_add(1, SeqCst), FILES.load(SeqCst))?;
                    (SYSTEM.open)(path).inspect(|_| {
                        FILES.fetch_add(1, SeqCst);
                    })
                },
                close: |fd| {
                    FILES.fetch_sub(1, SeqCst);
                    (SYSTEM.close)(fd);
                },
                map: |bytes| {
                    BLOCKS.fetch_add(1, SeqCst);
                    (SYSTEM.map)(bytes)
                },
                unmap: |block, bytes| {
                    BLOCKS.fetch_sub(1, SeqCst);
                    (SYSTEM.unmap)(block, bytes);
                },
                read: |fd, target, offset, cached_only| {
                    type Read = fn(i32, &mut [u8], u64, bool, i64) -> Result<usize, Errno>;
                    let read: Read = $read;
                    read(fd, target, offset, cached_only, CALLS.fetch_add(1, SeqCst))
                },
                ..SYSTEM
            };
            #[allow(dead_code)] // not every case ends cleanly
            pub fn assert_nothing_is_left() {
                assert_eq!((FILES.load(SeqCst), BLOCKS.load(SeqCst)), (0, 0));
            }
        }
    };
}

fn pass(fd: i32, target: &mut [u8], at: u64, cached: bool, _: i64) -> Result<usize, Errno> {
    (SYSTEM.read)(fd, target, at, cached)
}

seam!(plain, open: |_, _| Ok(()), read: pass);

#[test]
fn files_and_memory_are_given_back_at_close() {
    assert!(stream(&plain::OS, &config(), &array("plain")).1.is_none());
    plain::assert_nothing_is_left();
}

seam!(trickle, open: |_, _| Ok(()), read: |fd, target, at, cached, call| {
    match call % 3 {
        0 => Err(Errno(libc::EINTR)),
        _ => {
            let most = target.len().min(3);
            pass(fd, &mut target[..most], at, cached, call)
        }
    }
});

#[test]
fn short_and_interrupted_reads_go_on() {
    assert!(stream(&trickle::OS, &config(), &array("trickle")).1.is_none());
    trickle::assert_nothing_is_left();
}

/// Whether a call is one of the two of three that a signal ends.
fn is_interrupted() -> bool {
    static CALLS: AtomicI64 = AtomicI64::new(0);
    CALLS.fetch_add(1, SeqCst) % 3 != 2
}

fn interrupted<T>(call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    if is_interrupted() { Err(Errno(libc::EINTR)) } else { call() }
}

/// A file system whose every call a signal may end, as on a FUSE mount.
static INTERRUPTED: Os = Os {
    open: |path| interrupted(|| (SYSTEM.open)(path)),
    open_directory: |path| interrupted(|| (SYSTEM.open_directory)(path)),
    read_directory: |fd, target| interrupted(|| (SYSTEM.read_directory)(fd, target)),
    stat: |fd| interrupted(|| (SYSTEM.stat)(fd)),
    stat_path: |path| interrupted(|| (SYSTEM.stat_path)(path)),
    read: |fd, target, at, cached| interrupted(|| (SYSTEM.read)(fd, target, at, cached)),
    ..SYSTEM
};

#[test]
fn calls_that_a_signal_ends_are_made_again() {
    let array = array("interrupted");
    // Absent chunks are looked for, too.
    std::fs::remove_file(store::shard_path(&array, [1; 3])).unwrap();
    let failed = stream_any(&INTERRUPTED, &config(), &array);
    assert!(failed.is_none(), "{failed:?}");
    // A folder of numbered files is listed.
    let folder = array.join("numbered");
    std::fs::create_dir(&folder).unwrap();
    let file = crate::common::npy::file("<u2", false, &[8, 8, 8], &[0; 1024]);
    for number in 0..3 {
        std::fs::write(folder.join(format!("{number}.npy")), &file).unwrap();
    }
    let failed = stream_any(&INTERRUPTED, &Config { max_npy_files: 9, ..config() }, &folder);
    assert!(failed.is_none(), "{failed:?}");
}

/// Streams a batch of whatever lies at a uri; why not, where it does not come.
fn stream_any(os: &'static Os, config: &Config, uri: &Path) -> Option<Failure> {
    let loader = match Loader::open_on(os, config) {
        Ok(loader) => loader,
        Err(failure) => return Some(failure),
    };
    let uri = uri.to_str().unwrap();
    for tag in 0..2 {
        let (begin, end) = ([3 * tag; 3], [3 * tag + CROP as i64; 3]);
        let request = Request { uri, begin: &begin, end: &end, tag: tag as u64 };
        if let Err(failure) = loader.push(&[request], FOREVER) {
            return Some(failure);
        }
    }
    loader.pop(FOREVER).err()
}

seam!(never_cached, open: |_, _| Ok(()), read: |fd, target, at, cached, call| {
    if cached { Err(Errno(libc::EAGAIN)) } else { pass(fd, target, at, cached, call) }
});

#[test]
fn reads_that_would_block_go_to_the_threads_that_may_wait() {
    assert!(stream(&never_cached::OS, &config(), &array("never_cached")).1.is_none());
    never_cached::assert_nothing_is_left();
}

seam!(no_nowait, open: |_, _| Ok(()), read: |fd, target, at, cached, call| {
    if cached { Err(Errno(libc::EOPNOTSUPP)) } else { pass(fd, target, at, cached, call) }
});

#[test]
fn a_file_system_without_nowait_reads_works() {
    assert!(stream(&no_nowait::OS, &config(), &array("no_nowait")).1.is_none());
}

seam!(few_files, open: |_, files| {
    if files >= 2 { Err(Errno(libc::EMFILE)) } else { Ok(()) }
}, read: pass);

#[test]
fn running_out_of_descriptors_is_back_pressure() {
    for _ in 0..5 {
        let ended = stream(&few_files::OS, &config(), &array("few_files"));
        assert!(ended.1.is_none(), "{:?}", ended.1);
    }
    few_files::assert_nothing_is_left();
}

seam!(goes_stale, open: |_, _| Ok(()), read: |fd, target, at, cached, call| {
    // Every fifth read of a chunk (an index has 128 bytes) finds its descriptor stale.
    let is_chunk = (20..128).contains(&target.len());
    if is_chunk && call % 5 == 0 { Err(Errno(libc::ESTALE)) } else {
        pass(fd, target, at, cached, call)
    }
});

#[test]
fn a_stale_descriptor_is_replaced_by_opening_the_file_again() {
    let ended = stream(&goes_stale::OS, &config(), &array("goes_stale"));
    assert!(ended.1.is_none(), "{:?}", ended.1);
    goes_stale::assert_nothing_is_left();
}

seam!(one_file, open: |_, files| {
    if files >= 1 { Err(Errno(libc::EMFILE)) } else { Ok(()) }
}, read: pass);

#[test]
fn metadata_is_loaded_although_idle_files_hold_every_descriptor() {
    let arrays = [array("one_file/x"), array("one_file/y")];
    let config = Config { n_array_meta_cache: 1, n_io_threads: 1, n_decode_threads: 1, ..config() };
    let loader = Loader::open_on(&one_file::OS, &config).unwrap();
    for round in 0..6 {
        let uri = arrays[round % 2].to_str().unwrap();
        let request = Request { uri, begin: &[0; 3], end: &[CROP as i64; 3], tag: 0 };
        assert_eq!(loader.push(&[request; 2], 0).unwrap(), 2);
        assert!(matches!(loader.pop(FOREVER).unwrap(), Pop::Batch(_)));
    }
    drop(loader);
    one_file::assert_nothing_is_left();
}

static IS_READING: AtomicBool = AtomicBool::new(false);
static IS_SHORT: AtomicBool = AtomicBool::new(false);
static SHARD: AtomicI64 = AtomicI64::new(-1);

fn wait_for(flag: &AtomicBool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !flag.load(SeqCst) && Instant::now() < end {
        std::thread::yield_now();
    }
}

/// The first attributes that are opened find no descriptor left, while a shard is being read.
static SHORT_FOR_ATTRIBUTES: Os = Os {
    open: |path| {
        let has = |name: &[u8]| path.windows(name.len()).any(|part| part == name);
        if has(b"/.zattrs") && !IS_SHORT.load(SeqCst) {
            wait_for(&IS_READING);
            IS_SHORT.store(true, SeqCst);
            return Err(Errno(libc::EMFILE));
        }
        (SYSTEM.open)(path).inspect(|fd| {
            if is_chunk_path(path) {
                SHARD.store(i64::from(*fd), SeqCst);
            }
        })
    },
    read: |fd, target, at, cached| {
        if i64::from(fd) == SHARD.load(SeqCst) {
            if cached {
                return Err(Errno(libc::EAGAIN));
            }
            IS_READING.store(true, SeqCst);
            wait_for(&IS_SHORT);
        }
        (SYSTEM.read)(fd, target, at, cached)
    },
    ..SYSTEM
};

#[test]
fn a_group_is_looked_at_again_where_descriptors_were_short() {
    let array = array("short_group");
    let group = array.with_file_name("image");
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(group.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    let levels = r#"{"multiscales": [{"version": "0.4", "axes": [{"name": "x"}],
        "datasets": [{"path": "s0"}]}]}"#;
    std::fs::write(group.join(".zattrs"), levels).unwrap();
    let config = Config { samples_per_batch: 1, ..config() };
    let loader = Loader::open_on(&SHORT_FOR_ATTRIBUTES, &config).unwrap();
    for uri in [&array, &group].map(|path| path.to_str().unwrap()) {
        let request = Request { uri, begin: &[0; 3], end: &[CROP as i64; 3], tag: 0 };
        assert_eq!(loader.push(&[request], 0).unwrap(), 1);
    }
    assert!(matches!(loader.pop(FOREVER).unwrap(), Pop::Batch(_)));
    let failure = loader.pop(FOREVER).err().unwrap();
    assert!(IS_SHORT.load(SeqCst) && failure.status == Status::NotFound);
    assert!(failure.text.as_str().contains("s0"), "{failure}");
}

static FAIL_AT: AtomicI64 = AtomicI64::new(0);

seam!(fails, open: |call, _| {
    if call == FAIL_AT.load(SeqCst) { Err(Errno(libc::EACCES)) } else { Ok(()) }
}, read: |fd, target, at, cached, call| {
    if call == FAIL_AT.load(SeqCst) {
        return Err(Errno(libc::EIO));
    }
    pass(fd, target, at, cached, call)
});

#[test]
fn the_nth_open_or_read_that_fails_is_an_io_error_after_good_batches() {
    let array = array("fails");
    let mut failures = 0;
    for call in 0..60 {
        fails::CALLS.store(0, SeqCst);
        FAIL_AT.store(call, SeqCst);
        let (_, failure) = stream(&fails::OS, &config(), &array);
        if let Some(failure) = failure {
            failures += 1;
            assert_eq!(failure.status, Status::Io, "call {call}: {failure}");
            let text = failure.text.as_str();
            assert!(text.contains("os_seam/fails/a"), "{text}");
        }
        fails::assert_nothing_is_left();
    }
    assert!(failures >= 15, "{failures}");
}

seam!(ends_early, open: |_, _| Ok(()), read: |fd, target, at, cached, call| {
    // Every file ends after 40 bytes, whatever fstat said.
    let most = 40u64.saturating_sub(at).min(target.len() as u64) as usize;
    if at > 0 { pass(fd, &mut target[..most], at, cached, call) } else {
        pass(fd, target, at, cached, call)
    }
});

#[test]
fn a_file_that_ends_early_is_an_error_and_never_stale_bytes() {
    let (popped, failure) = stream(&ends_early::OS, &config(), &array("ends_early"));
    assert_eq!(popped, 0);
    let failure = failure.unwrap();
    assert_eq!(failure.status, Status::Io);
    assert!(failure.text.as_str().contains("ends at byte"), "{failure}");
}

static SEEN: AtomicI64 = AtomicI64::new(0);

seam!(slow_first, open: |_, _| Ok(()), read: |fd, target, at, cached, call| {
    // Reads of chunks are short and lie below the index; the first one returns only once three
    // others came.
    if at < 200 && (20..200).contains(&target.len()) {
        if cached {
            return Err(Errno(libc::EAGAIN));
        }
        if SEEN.fetch_add(1, SeqCst) == 0 {
            let deadline = Instant::now() + Duration::from_secs(120);
            while SEEN.load(SeqCst) < 4 && Instant::now() < deadline {
                std::thread::yield_now();
            }
            assert!(SEEN.load(SeqCst) >= 4, "the reads behind a slow one did not go on");
        }
    }
    pass(fd, target, at, cached, call)
});

#[test]
fn a_slow_read_does_not_hold_up_the_reads_behind_it() {
    let config = Config { max_chunks_per_wave: 4, max_read_op_bytes: 1, ..config() };
    assert!(stream(&slow_first::OS, &config, &array("slow_first")).1.is_none());
}

seam!(few_threads, open: |_, _| Ok(()), read: pass);

static THREADS: AtomicI64 = AtomicI64::new(0);
static FEW_THREADS: Os = Os {
    thread_start: |main, argument, stack, bytes| {
        if THREADS.fetch_sub(1, SeqCst) <= 0 {
            return Err(Errno(libc::EAGAIN));
        }
        (SYSTEM.thread_start)(main, argument, stack, bytes)
    },
    ..few_threads::OS
};

#[test]
fn a_thread_that_does_not_start_fails_open_and_leaves_nothing() {
    for threads in 0..5 {
        THREADS.store(threads, SeqCst);
        let failure = Loader::open_on(&FEW_THREADS, &config()).err().unwrap();
        assert_eq!(failure.status, Status::OutOfMemory);
        assert!(failure.text.as_str().contains("starting threads"), "{failure}");
        few_threads::assert_nothing_is_left();
    }
    THREADS.store(5, SeqCst);
    drop(Loader::open_on(&FEW_THREADS, &config()).unwrap());
}

seam!(small_stacks, open: |_, _| Ok(()), read: pass);

/// One thread has half of its stack, the others all.
static SMALL_STACKS: Os = Os {
    thread_start: |main, argument, stack, bytes| {
        let share = if THREADS_BEFORE.fetch_sub(1, SeqCst) == 0 { 2 } else { 1 };
        (SYSTEM.thread_start)(main, argument, stack, bytes / share)
    },
    ..small_stacks::OS
};
static THREADS_BEFORE: AtomicI64 = AtomicI64::new(0);

#[test]
fn a_thread_without_room_on_its_stack_fails_open_and_leaves_nothing() {
    for before in 0..5 {
        THREADS_BEFORE.store(before, SeqCst);
        let failure = Loader::open_on(&SMALL_STACKS, &config()).err().unwrap();
        assert_eq!(failure.status, Status::OutOfMemory);
        assert!(failure.text.as_str().contains("bytes of a stack"), "{failure}");
        small_stacks::assert_nothing_is_left();
    }
    THREADS_BEFORE.store(5, SeqCst);
    drop(Loader::open_on(&SMALL_STACKS, &config()).unwrap());
}

static NO_MEMORY: Os = Os { map: |_| Err(Errno(libc::ENOMEM)), ..SYSTEM };

#[test]
fn memory_that_is_not_given_fails_open() {
    let failure = Loader::open_on(&NO_MEMORY, &config()).err().unwrap();
    assert_eq!(failure.status, Status::OutOfMemory);
    assert!(failure.text.as_str().contains("mapping"), "{failure}");
}
