//! Uncompressed data that is copied out of mapped files. That the bytes are those of a loader that
//! reads is in every test that streams through `drive::stream`.

use crate::common::alone::alone_ends_by;
use crate::common::drive::{Job, config, first_failure, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::npy;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;
use wavetrain::base::limits::WINDOW_BYTES;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// By one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
static MAPS: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicU32 = AtomicU32::new(0);

fn alone() -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    [&MAPS, &ASKED].iter().for_each(|count| count.store(0, SeqCst));
    guard
}

static COUNTED: Os = Os {
    map_file: |place, fd, first| {
        MAPS.fetch_add(1, SeqCst);
        (SYSTEM.map_file)(place, fd, first)
    },
    ..SYSTEM
};

static UNLISTED: Os = Os {
    is_mappable: |fd| {
        ASKED.fetch_add(1, SeqCst);
        assert!((SYSTEM.is_mappable)(fd));
        false
    },
    ..COUNTED
};

/// In pump mode, so that nothing depends on which thread is first.
fn mapping_of(shape: &[u64], windows: u64) -> Config {
    let base = config(Dtype::U16, shape, 1);
    let map_bytes_max = windows * WINDOW_BYTES;
    Config { map_uncompressed: 1, map_bytes_max, thread_mode: THREADS_PUMP, ..base }
}

fn mapping(windows: u64) -> Config {
    mapping_of(&[4, 3], windows)
}

fn open(os: &'static Os, config: &Config) -> Loader {
    Loader::open_on(os, config).unwrap_or_else(|failure| panic!("{failure}"))
}

fn elements(file: u16) -> Vec<u8> {
    (0..6400).flat_map(|n: u16| (n + 10_000 * file).to_le_bytes()).collect()
}

/// Rows 20 to 24, columns 5 to 8 of a new file of 64 x 100 u16.
fn job(scratch: &Scratch, file: u16) -> Job {
    let name = format!("{file}.npy");
    fs::write(scratch.path(&name), npy::file("<u2", false, &[64, 100], &elements(file))).unwrap();
    job_of(&scratch.uri(&name), file)
}

fn job_of(uri: &str, file: u16) -> Job {
    let rows = (20..24usize).map(|y| elements(file)[2 * (100 * y + 5)..][..6].to_vec());
    Job::new(uri, (vec![20, 5], vec![24, 8]), rows.collect::<Vec<_>>().concat())
}

#[test]
fn windows_leave_by_last_use() {
    let _alone = alone();
    let scratch = Scratch::new();
    let [a, b, c] = [0, 1, 2].map(|file| job(&scratch, file));
    for (windows, jobs, maps, mapped) in [
        (1, vec![&a, &a, &b, &b, &a], 3, 1),
        (2, vec![&a, &b, &a, &b], 2, 2),
        (2, vec![&a, &b, &a, &c, &a, &b, &c], 5, 2),
        (3, vec![&a, &b, &c, &a, &b, &c], 3, 3),
    ] {
        MAPS.store(0, SeqCst);
        let config = mapping(windows);
        let loader = open(&COUNTED, &config);
        for (number, job) in jobs.into_iter().enumerate() {
            stream_through(&loader, &config, std::slice::from_ref(job), number as u64);
        }
        let stats = loader.stats().unwrap();
        assert_eq!((MAPS.load(SeqCst), stats.mapped_bytes), (maps, mapped * 12_928), "{windows}");
        assert_eq!(stats.reads_issued, 0);
    }
}

#[test]
fn files_of_other_file_systems_are_read_and_asked_about_once() {
    let _alone = alone();
    let scratch = Scratch::new();
    let jobs = [0, 1, 0, 1].map(|file| job(&scratch, file));
    let config = mapping(4);
    let loader = open(&UNLISTED, &config);
    // One after the other: those that wait together share their reads.
    for (number, job) in jobs.iter().enumerate() {
        stream_through(&loader, &config, std::slice::from_ref(job), number as u64);
    }
    let stats = loader.stats().unwrap();
    assert_eq!((MAPS.load(SeqCst), ASKED.load(SeqCst), stats.mapped_bytes), (0, 1, 0));
    assert_eq!(stats.reads_issued, 4);
}

#[test]
fn a_box_across_two_windows_is_read_and_its_neighbours_are_mapped() {
    let scratch = Scratch::new();
    let file = File::create(scratch.path("x")).unwrap();
    let first = WINDOW_BYTES - 8;
    let bytes: Vec<u8> = (1..=48).collect();
    file.write_all_at(&bytes, first - 16).unwrap();
    file.set_len(WINDOW_BYTES + (1 << 20)).unwrap();
    let rows = (WINDOW_BYTES + (1 << 20)) / 8;
    let uri = format!("raw:{}?dtype=u16&shape={rows},4", scratch.uri("x"));
    // Chunks of three rows, so that one of them lies in both.
    let config = Config { max_chunk_uncompressed_bytes: 24, ..mapping_of(&[2, 4], 2) };
    let loader = open(&SYSTEM, &config);
    let mut jobs = Vec::new();
    for row in 0..5 {
        let at = (first / 8 - 2 + row) as i64;
        let want = bytes[row as usize * 8..][..16].to_vec();
        jobs.push(Job::new(&uri, (vec![at, 0], vec![at + 2, 4]), want));
    }
    stream_through(&loader, &config, &jobs, 0);
    let stats = loader.stats().unwrap();
    assert_eq!(stats.mapped_bytes, WINDOW_BYTES + (1 << 20));
    assert!((1..4).contains(&stats.reads_issued), "{}", stats.reads_issued);
}

/// The file of the next mapping, which is changed once it is mapped.
static CHANGED: Mutex<Option<(PathBuf, fn(&File))>> = Mutex::new(None);

static CHANGING: Os = Os {
    map_file: |place, fd, first| {
        let mapped = (SYSTEM.map_file)(place, fd, first);
        if let Some((path, change)) = CHANGED.lock().unwrap().take() {
            change(&File::options().write(true).open(path).unwrap());
        }
        mapped
    },
    ..SYSTEM
};

#[test]
fn a_file_that_changes_while_it_is_mapped_is_an_io_error_and_is_mapped_anew() {
    let _alone = alone();
    let scratch = Scratch::new();
    let (job, config) = (job(&scratch, 0), mapping(2));
    let loader = open(&CHANGING, &config);
    let touch = |file: &File| {
        file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
    };
    *CHANGED.lock().unwrap() = Some((scratch.path("0.npy"), touch));
    let (_, failure) = first_failure(&loader, std::slice::from_ref(&job));
    assert_eq!(failure.status, Status::Io, "{failure}");
    assert!(failure.text.as_str().contains("time of change is not what it was"), "{failure}");
    loader.reset().unwrap();
    stream_through(&loader, &config, &[job], 0);
}

#[test]
fn truncation_of_a_mapped_file_ends_the_process() {
    alone_ends_by(libc::SIGBUS, || {
        let scratch = Scratch::new();
        let job = job(&scratch, 0);
        *CHANGED.lock().unwrap() = Some((scratch.path("0.npy"), |file| file.set_len(0).unwrap()));
        let config = mapping(1);
        stream_through(&open(&CHANGING, &config), &config, &[job], 0);
    });
}

#[test]
fn a_loader_that_maps_is_opened_by_an_unsafe_function() {
    let config = mapping(1);
    let failure = Loader::open(&config).err().expect("it is refused");
    assert_eq!(failure.status, Status::Invalid);
    assert!(failure.text.as_str().contains("map_uncompressed"), "{failure}");
    // SAFETY: nothing is read.
    drop(unsafe { Loader::open_trusting(&config) }.unwrap_or_else(|failure| panic!("{failure}")));
}

static NO_ADDRESSES: Os = Os { reserve: |_| Err(Errno(libc::ENOMEM)), ..SYSTEM };

#[test]
fn addresses_that_the_system_refuses_are_out_of_memory_by_name() {
    let failure = Loader::open_on(&NO_ADDRESSES, &mapping(3)).err().expect("it is refused");
    assert_eq!(failure.status, Status::OutOfMemory);
    let text = "no 3221225472 bytes of addresses for mapped files: lower map_bytes_max";
    assert!(failure.text.as_str().contains(text), "{failure}");
}
