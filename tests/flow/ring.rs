//! reader = uring and direct: the same bytes, errors and endings as with threads that read.
//!
//! Storage is cold in every case: reads that may not wait find nothing, so that chunk data goes
//! through the ring. Cases that replace a table of system calls have statics of their own. A
//! machine without io_uring skips, and says so.

use crate::common::drive::{
    Job, PATIENCE_NS, check_batch, config, first_failure, mixed_jobs, stream_through,
};
use crate::common::fixtures::{self, Scratch};
use crate::common::ring::{each_completion, each_request, is_supported};
use crate::common::synth::{self, Meta};
use std::collections::BTreeMap;
use std::io::{PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};
use wavetrain::base::limits::compressed_bytes_max;
use wavetrain::config::*;
use wavetrain::loader::{Loader, Pop, memory_need};
use wavetrain::os::uring::kernel::{CompleteSlot, SubmitSlot};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const READERS: [u32; 2] = [READER_URING, READER_DIRECT];

fn cold_read(fd: i32, target: &mut [u8], at: u64, cached_only: bool) -> Result<usize, Errno> {
    if cached_only { Err(Errno(libc::EAGAIN)) } else { (SYSTEM.read)(fd, target, at, false) }
}

static SUBMITTED: AtomicU64 = AtomicU64::new(0);

/// Requests for a file that is not waited for: where its storage is cold the kernel refuses them.
static NOT_WAITING: AtomicU64 = AtomicU64::new(0);

static COLD: Os = Os {
    read: cold_read,
    ring_enter: |ring, submit, complete_min| {
        each_request(ring, submit, |request| {
            SUBMITTED.fetch_add(1, SeqCst);
            // SAFETY: reads flags.
            let flags = unsafe { libc::fcntl(request.fd, libc::F_GETFL) };
            NOT_WAITING.fetch_add(u64::from(flags & libc::O_NONBLOCK != 0), SeqCst);
        });
        (SYSTEM.ring_enter)(ring, submit, complete_min)
    },
    ..SYSTEM
};

fn open(os: &'static Os, config: &Config) -> Loader {
    Loader::open_on(os, config).unwrap_or_else(|failure| panic!("open: {failure}"))
}

fn stream_on(os: &'static Os, config: &Config, jobs: &[Job]) {
    let loader = open(os, config);
    stream_through(&loader, config, jobs, 0);
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
}

fn mixed_config(samples_per_batch: usize) -> Config {
    config(Dtype::F32, &[16, 16], samples_per_batch)
}

#[test]
fn every_store_comes_out_bit_for_bit_through_the_ring() {
    if !is_supported() {
        return;
    }
    let mut groups: BTreeMap<(u32, Vec<u64>), Vec<Job>> = BTreeMap::new();
    for store in fixtures::all() {
        let end: Vec<i64> = store.image.shape.iter().map(|extent| *extent as i64).collect();
        let job = Job::of(store, (vec![0; end.len()], end), store.image.dtype);
        let key = (store.image.dtype as u32, store.image.shape.clone());
        groups.entry(key).or_default().push(job);
    }
    let before = SUBMITTED.load(SeqCst);
    for ((code, shape), jobs) in &groups {
        let dtype = Dtype::from_code(*code).unwrap();
        for reader in READERS {
            let config = Config { reader, ..config(dtype, shape, jobs.len().min(5)) };
            stream_on(&COLD, &config, jobs);
        }
    }
    assert!(SUBMITTED.load(SeqCst) - before > 2 * fixtures::all().len() as u64 / 3);
    assert_eq!(NOT_WAITING.load(SeqCst), 0);
}

#[test]
fn any_geometry_gives_the_same_batches_through_the_ring() {
    if !is_supported() {
        return;
    }
    let jobs = mixed_jobs(60);
    type Change = fn(&mut Config);
    let changes: [Change; 10] = [
        |_| {},
        |config| config.max_read_op_bytes = 1,
        |config| config.max_chunks_per_wave = 1,
        |config| config.max_chunks_per_wave = 7,
        |config| config.host_buffer_waves = 2,
        |config| config.host_buffer_waves = 16,
        |config| config.n_io_threads = 1,
        |config| config.n_io_threads = 32,
        |config| config.n_chunk_layout_cache = 1,
        |config| config.max_host_memory_bytes = floor_bytes(config),
    ];
    for reader in READERS {
        for (number, change) in changes.iter().enumerate() {
            let mut config = Config { reader, ..mixed_config(6) };
            change(&mut config);
            let before = SUBMITTED.load(SeqCst);
            stream_on(&COLD, &config, &jobs);
            // With one layout in the cache every file is closed again before it is read.
            assert!(number == 8 || SUBMITTED.load(SeqCst) - before > 20, "change {number}");
        }
    }
}

/// The least cap that is accepted.
fn floor_bytes(config: &Config) -> u64 {
    let failure = memory_need(&Config { max_host_memory_bytes: 1, ..*config }).err().unwrap();
    let words = failure.text.as_str().split("at least ").nth(1).unwrap();
    words.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_chunk_at_the_cap_streams_at_the_floor_wherever_it_lies_in_its_file() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let side = 900u64;
    let pixels: Vec<u8> =
        (0..side * side).flat_map(|n| (n.wrapping_mul(0x9E37_79B9) as u16).to_le_bytes()).collect();
    for lead in [0, 1, 4095, 4096] {
        let bytes = synth::shard_bytes(
            &[vec![0xEE; lead], pixels.clone()].concat(),
            &[(lead as u64, pixels.len() as u64)],
        );
        let meta = Meta::u16(&[side, side], &[side, side], Some(&[side, side]));
        let uri = meta.write(&scratch, &format!("lead{lead}"), Some(&bytes));
        let job = Job::new(&uri, (vec![0, 0], vec![side as i64; 2]), pixels.clone());
        for reader in READERS {
            let mut config = Config { reader, ..config(Dtype::U16, &[side, side], 1) };
            config.max_chunk_uncompressed_bytes = side * side * 2;
            config.max_host_memory_bytes = floor_bytes(&config);
            stream_on(&COLD, &config, &vec![job.clone(); 3]);
        }
    }
}

#[test]
fn the_longest_encoded_chunk_finds_room_at_the_floor() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let most = compressed_bytes_max(128);
    for lead in [0, 1, 4095] {
        let payload = vec![0xEE; lead as usize + most as usize];
        let bytes = synth::shard_bytes(&payload, &[(lead, most)]);
        let codecs = r#",{"name":"zstd","configuration":{"level":1,"checksum":false}}"#;
        let meta = Meta { codecs, ..Meta::u16(&[8, 8], &[8, 8], Some(&[8, 8])) };
        let uri = meta.write(&scratch, &format!("most{lead}"), Some(&bytes));
        let job = Job::new(&uri, (vec![0, 0], vec![8, 8]), Vec::new());
        for reader in READERS {
            let mut config = Config { reader, ..config(Dtype::U16, &[8, 8], 1) };
            config.max_chunk_uncompressed_bytes = 128;
            config.max_host_memory_bytes = floor_bytes(&config);
            let loader = open(&COLD, &config);
            let (_, failure) = first_failure(&loader, std::slice::from_ref(&job));
            assert_eq!(failure.status, Status::Decode, "{failure}");
        }
    }
}

static FAULT: AtomicI32 = AtomicI32::new(0);
static EACH: AtomicU32 = AtomicU32::new(1);
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Stands for: half of the bytes came.
const SHORT: i32 = i32::MAX;

/// Addresses of the targets by the numbers of their reads.
static TARGETS: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Keeps half of what a read brought and spoils the rest.
fn cut(complete: &mut CompleteSlot) {
    let kept = complete.result.max(0) / 2;
    let start = TARGETS.lock().unwrap()[&complete.user_data] as *mut u8;
    let lost = (complete.result.max(0) - kept) as usize;
    // SAFETY: the read has just written these bytes, and nobody has been told of them.
    unsafe { start.add(kept as usize).write_bytes(0xEE, lost) };
    complete.result = kept;
}

/// The result of each EACH-th read is FAULT.
static FAULTY: Os = Os {
    read: cold_read,
    ring_enter: |ring, submit, complete_min| {
        each_request(ring, submit, |request| {
            TARGETS.lock().unwrap().insert(request.user_data, request.address);
        });
        each_completion(ring, (submit, complete_min), |complete| {
            if SEEN.fetch_add(1, SeqCst).is_multiple_of(EACH.load(SeqCst)) {
                match FAULT.load(SeqCst) {
                    SHORT => cut(complete),
                    errno => complete.result = -errno,
                }
            }
        })
    },
    ..SYSTEM
};

#[test]
fn reads_that_fail_in_the_ring_or_are_short_lose_nothing() {
    if !is_supported() {
        return;
    }
    let jobs = mixed_jobs(40);
    let errnos = [libc::EIO, libc::EINVAL, libc::EOPNOTSUPP, libc::ESTALE, 0, SHORT];
    let again = [libc::EINTR, libc::EAGAIN, libc::ECANCELED];
    for fault in errnos.into_iter().chain(again) {
        for each in [1, 3] {
            for reader in READERS {
                FAULT.store(fault, SeqCst);
                EACH.store(each, SeqCst);
                SEEN.store(0, SeqCst);
                stream_on(&FAULTY, &Config { reader, ..mixed_config(5) }, &jobs);
                assert!(SEEN.load(SeqCst) > 10, "errno {fault}, each {each}, reader {reader}");
            }
        }
    }
}

/// Files end after 40 bytes, for the ring and for everybody; indexes lie behind and are whole.
static ENDS_EARLY: Os = Os {
    read: |fd, target, at, cached_only| {
        let is_chunk = (1..128).contains(&at);
        let most = if is_chunk { 40u64.saturating_sub(at) } else { u64::MAX };
        let most = most.min(target.len() as u64) as usize;
        cold_read(fd, &mut target[..most], at, cached_only)
    },
    ring_enter: |ring, submit, complete_min| {
        each_completion(ring, (submit, complete_min), |complete| complete.result = 0)
    },
    ..SYSTEM
};

#[test]
fn a_file_that_ends_early_is_an_error_and_never_stale_bytes() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let payload: Vec<u8> = (1..=128).collect();
    let entries = [(0, 32), (32, 32), (64, 32), (96, 32)];
    let bytes = synth::shard_bytes(&payload, &entries);
    let meta = Meta::u16(&[4, 16], &[4, 4], Some(&[4, 16]));
    let uri = meta.write(&scratch, "ends", Some(&bytes));
    let job = Job::new(&uri, (vec![0, 4], vec![4, 12]), Vec::new());
    for reader in READERS {
        let config = Config { reader, ..config(Dtype::U16, &[4, 8], 1) };
        let loader = open(&ENDS_EARLY, &config);
        let (batches, failure) = first_failure(&loader, std::slice::from_ref(&job));
        assert_eq!((batches, failure.status), (0, Status::Io), "{failure}");
        assert!(failure.text.as_str().contains("ends at byte 40"), "{failure}");
    }
}

static TO_CHANGE: Mutex<Option<String>> = Mutex::new(None);

/// A file is written again while its first read is on the way.
static CHANGES: Os = Os {
    read: cold_read,
    ring_enter: |ring, submit, complete_min| {
        each_request(ring, submit, |_| {
            if let Some(path) = TO_CHANGE.lock().unwrap().take() {
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(&path, [bytes, vec![1]].concat()).unwrap();
            }
        });
        (SYSTEM.ring_enter)(ring, submit, complete_min)
    },
    ..SYSTEM
};

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    if !is_supported() {
        return;
    }
    for reader in READERS {
        let scratch = Scratch::new();
        let jobs = chunk_jobs(&scratch);
        *TO_CHANGE.lock().unwrap() = Some(format!("{}/c/0/0", jobs[0].uri));
        let loader = open(&CHANGES, &Config { reader, ..chunk_config() });
        let (_, failure) = first_failure(&loader, &jobs[..2]);
        assert!(TO_CHANGE.lock().unwrap().is_none());
        assert_eq!(failure.status, Status::Io, "{failure}");
        assert!(failure.text.as_str().contains("is not what it was"), "{failure}");
    }
}

static ENTERED: AtomicU32 = AtomicU32::new(0);
static TO_FAIL: AtomicU32 = AtomicU32::new(0);

/// From some call on the ring fails, for a while or nearly for ever.
static BROKEN: Os = Os {
    read: cold_read,
    ring_enter: |ring, submit, complete_min| {
        let call = ENTERED.fetch_add(1, SeqCst);
        if call >= 5 && call < 5 + TO_FAIL.load(SeqCst) {
            return Err(Errno(libc::EIO));
        }
        (SYSTEM.ring_enter)(ring, submit, complete_min)
    },
    ..SYSTEM
};

#[test]
fn a_ring_that_fails_for_long_is_given_up_and_threads_read_on() {
    if !is_supported() {
        return;
    }
    let jobs = mixed_jobs(60);
    for (failures, reader) in [(30, READER_URING), (150, READER_THREADS)] {
        ENTERED.store(0, SeqCst);
        TO_FAIL.store(failures, SeqCst);
        let config = Config { reader: READER_URING, ..mixed_config(6) };
        let loader = open(&BROKEN, &config);
        stream_through(&loader, &config, &jobs, 0);
        assert_eq!(loader.stats().unwrap().reader, reader);
        assert!(ENTERED.load(SeqCst) >= 5 + failures.min(100));
        stream_through(&loader, &config, &jobs, 10);
        loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    }
}

/// A request that was turned into a read of a pipe: what it would have read.
struct Diverted {
    fd: i32,
    offset: u64,
    bytes: u32,
}

/// Tables whose ring turns the first read into one that ends only when `release` is called.
macro_rules! stuck {
    ($name:ident) => {
        mod $name {
            use super::*;
            pub static PIPE: AtomicI32 = AtomicI32::new(-1);
            pub static DIVERTED: Mutex<Option<Diverted>> = Mutex::new(None);
            pub static IS_STUCK: AtomicBool = AtomicBool::new(false);
            pub static COMPLETED: AtomicU32 = AtomicU32::new(0);
            pub static OS: Os = Os {
                read: cold_read,
                ring_enter: |ring, submit, complete_min| {
                    each_request(ring, submit, |request| {
                        let pipe = PIPE.swap(-1, SeqCst);
                        if pipe >= 0 {
                            let SubmitSlot { fd, offset, bytes, .. } = *request;
                            *DIVERTED.lock().unwrap() = Some(Diverted { fd, offset, bytes });
                            (request.fd, request.offset) = (pipe, 0);
                            IS_STUCK.store(true, SeqCst);
                        }
                    });
                    each_completion(ring, (submit, complete_min), |_| {
                        COMPLETED.fetch_add(1, SeqCst);
                    })
                },
                ..SYSTEM
            };

            /// Lets the read end, with the bytes of the file.
            pub fn release(writer: &mut PipeWriter) {
                let diverted = DIVERTED.lock().unwrap().take().unwrap();
                let mut bytes = vec![0; diverted.bytes as usize];
                let got = (SYSTEM.read)(diverted.fd, &mut bytes, diverted.offset, false);
                assert_eq!(got, Ok(bytes.len()));
                writer.write_all(&bytes).unwrap();
            }
        }
    };
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// An array of 64 raw chunks of 32 bytes, and its crops of one chunk.
fn chunk_jobs(scratch: &Scratch) -> Vec<Job> {
    let pixels: Vec<u8> = (0..2048u32).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 9) as u8).collect();
    let entries: Vec<(u64, u64)> = (0..64).map(|n| (n * 32, 32)).collect();
    let bytes = synth::shard_bytes(&pixels, &entries);
    let meta = Meta::u16(&[64, 16], &[1, 16], Some(&[64, 16]));
    let uri = meta.write(scratch, "chunks", Some(&bytes));
    let row = |n: usize| pixels[n * 32..][..32].to_vec();
    let crop = |n: usize| Job::new(&uri, (vec![n as i64, 0], vec![n as i64 + 1, 16]), row(n));
    (0..64).map(crop).collect()
}

fn chunk_config() -> Config {
    Config {
        reader: READER_URING,
        max_read_op_bytes: 1,
        max_chunks_per_wave: 4,
        lookahead_samples: 64,
        ..config(Dtype::U16, &[1, 16], 2)
    }
}

stuck!(slow);

#[test]
fn a_read_that_does_not_end_holds_no_other_up() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let jobs = chunk_jobs(&scratch);
    let (reader, mut writer) = pipe().unwrap();
    slow::PIPE.store(reader.as_raw_fd(), SeqCst);
    let helper = std::thread::spawn(move || {
        wait_until("no read was stuck", || slow::IS_STUCK.load(SeqCst));
        // Three batches of two samples can be under way: the other five reads come.
        wait_until("the reads behind it did not go on", || slow::COMPLETED.load(SeqCst) >= 5);
        slow::release(&mut writer);
    });
    stream_on(&slow::OS, &chunk_config(), &jobs);
    helper.join().unwrap();
}

stuck!(waiting);

#[test]
fn reads_that_come_while_the_ring_waits_are_taken() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let jobs = chunk_jobs(&scratch);
    let (reader, mut writer) = pipe().unwrap();
    waiting::PIPE.store(reader.as_raw_fd(), SeqCst);
    let config = chunk_config();
    let loader = open(&waiting::OS, &config);
    let requests: Vec<_> = (0..6).map(|n| jobs[n].request(n)).collect();
    assert_eq!(loader.push(&requests[..2], 0).unwrap(), 2);
    for batch in 1..3 {
        let reads = 2 * batch - 1;
        wait_until("a read was not taken", || waiting::COMPLETED.load(SeqCst) >= reads);
        let pushed = 2 * batch as usize;
        assert_eq!(loader.push(&requests[pushed..pushed + 2], 0).unwrap(), 2);
    }
    wait_until("a read was not taken", || waiting::COMPLETED.load(SeqCst) >= 5);
    waiting::release(&mut writer);
    for first in [0, 2, 4] {
        let Ok(Pop::Batch(batch)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
        check_batch(&config, &batch, &jobs[first..first + 2], first);
    }
}

stuck!(held);

#[test]
fn reset_waits_for_reads_in_flight_and_the_loader_streams_on() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let jobs = chunk_jobs(&scratch);
    let (reader, mut writer) = pipe().unwrap();
    held::PIPE.store(reader.as_raw_fd(), SeqCst);
    let config = chunk_config();
    let loader = open(&held::OS, &config);
    let requests: Vec<_> = jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    assert_eq!(loader.push(&requests, 0).unwrap(), 64);
    wait_until("no read was stuck", || held::IS_STUCK.load(SeqCst));
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loader.reset().unwrap();
            done.send(()).unwrap();
        });
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(is_done.try_recv().is_err(), "reset did not wait for the read");
        held::release(&mut writer);
        is_done.recv_timeout(Duration::from_secs(120)).unwrap();
    });
    stream_through(&loader, &config, &jobs, 0);
}

stuck!(closed);

#[test]
fn close_waits_for_reads_in_flight() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let jobs = chunk_jobs(&scratch);
    let (reader, mut writer) = pipe().unwrap();
    closed::PIPE.store(reader.as_raw_fd(), SeqCst);
    let loader = open(&closed::OS, &chunk_config());
    assert_eq!(loader.push(&[jobs[0].request(0), jobs[1].request(1)], 0).unwrap(), 2);
    wait_until("no read was stuck", || closed::IS_STUCK.load(SeqCst));
    let (done, is_done) = mpsc::channel();
    let closer = std::thread::spawn(move || {
        loader.close(u64::MAX).unwrap();
        done.send(()).unwrap();
    });
    (0..1000).for_each(|_| std::thread::yield_now());
    assert!(is_done.try_recv().is_err(), "close did not wait for the read");
    closed::release(&mut writer);
    is_done.recv_timeout(Duration::from_secs(120)).unwrap();
    closer.join().unwrap();
}

#[test]
fn bytes_that_were_just_written_are_read_though_they_are_on_no_disk_yet() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    for round in 0..20u16 {
        let value = |n: u16| n.wrapping_mul(31).wrapping_add(round * 1009);
        let pixels: Vec<u8> = (0..4096).flat_map(|n| value(n).to_le_bytes()).collect();
        let meta = Meta::u16(&[64, 64], &[64, 64], None);
        let uri = meta.write(&scratch, &format!("fresh{round}"), Some(&pixels));
        let job = Job::new(&uri, (vec![0, 0], vec![64, 64]), pixels);
        let config = Config { reader: READER_DIRECT, ..config(Dtype::U16, &[64, 64], 1) };
        stream_on(&COLD, &config, &[job]);
    }
}

static NO_RING: Os = Os { ring_open: |_| Err(Errno(libc::ENOSYS)), ..SYSTEM };

#[test]
fn without_io_uring_uring_and_direct_are_refused_by_name_and_auto_takes_threads() {
    for reader in READERS {
        let config = Config { reader, ..mixed_config(2) };
        let failure = Loader::open_on(&NO_RING, &config).err().unwrap();
        assert_eq!(failure.status, Status::Unsupported, "{failure}");
        let text = failure.text.as_str();
        assert!(text.contains("reader") && text.contains("errno 38"), "{text}");
    }
    for (reader, why) in [(READER_AUTO, "threads: auto"), (READER_THREADS, "threads: asked for")] {
        let config = Config { reader, ..mixed_config(2) };
        let loader = open(&NO_RING, &config);
        let stats = loader.stats().unwrap();
        assert_eq!(stats.reader, READER_THREADS);
        let reason: Vec<u8> = stats.reader_reason.iter().map(|byte| *byte as u8).collect();
        assert!(reason.starts_with(why.as_bytes()), "{}", String::from_utf8_lossy(&reason));
        stream_through(&loader, &config, &mixed_jobs(4), 0);
    }
}

#[test]
fn a_ring_without_threads_of_its_own_is_refused_by_name() {
    for (reader, name) in [(READER_URING, "reader = uring"), (READER_DIRECT, "reader = direct")] {
        let pump = Config { reader, thread_mode: THREADS_PUMP, ..mixed_config(2) };
        let mut hooked = Config { reader, ..mixed_config(2) };
        hooked.files.size = Some(no_size);
        hooked.files.read = Some(no_read);
        for (config, way_out) in [(pump, "thread_mode"), (hooked, "files hook")] {
            let failure = Loader::open_on(&SYSTEM, &config).err().unwrap();
            assert_eq!(failure.status, Status::Invalid, "{failure}");
            let text = failure.text.as_str();
            assert!(text.contains(name) && text.contains(way_out), "{text}");
        }
    }
}

// Nobody calls a hook that is refused.

unsafe extern "C" fn no_size(_: *mut std::ffi::c_void, _: *const std::ffi::c_char) -> i64 {
    0
}

unsafe extern "C" fn no_read(
    _: *mut std::ffi::c_void,
    _: *const std::ffi::c_char,
    _: u64,
    _: *mut std::ffi::c_void,
    _: u64,
) -> i64 {
    -1
}

static THREADS: AtomicI32 = AtomicI32::new(0);
static TAKEN: AtomicI32 = AtomicI32::new(0);
static FEW_THREADS: Os = Os {
    thread_start: |main, argument, stack, bytes| {
        if THREADS.fetch_sub(1, SeqCst) <= 0 {
            return Err(Errno(libc::EAGAIN));
        }
        (SYSTEM.thread_start)(main, argument, stack, bytes)
    },
    ring_open: |entries| {
        (SYSTEM.ring_open)(entries).inspect(|_| {
            TAKEN.fetch_add(1, SeqCst);
        })
    },
    ring_close: |ring| {
        TAKEN.fetch_sub(1, SeqCst);
        (SYSTEM.ring_close)(ring);
    },
    ..SYSTEM
};

#[test]
fn a_ring_thread_that_does_not_start_fails_open_and_the_ring_is_closed() {
    if !is_supported() {
        return;
    }
    // Two decode, two wait for storage, the fifth is the ring's.
    let config = Config { reader: READER_URING, ..mixed_config(2) };
    assert_eq!(memory_need(&config).unwrap_or_else(|f| panic!("{f}")).threads, 5);
    for threads in 0..5 {
        THREADS.store(threads, SeqCst);
        let failure = Loader::open_on(&FEW_THREADS, &config).err().unwrap();
        assert_eq!(failure.status, Status::OutOfMemory);
        assert_eq!(TAKEN.load(SeqCst), 0);
    }
    THREADS.store(5, SeqCst);
    drop(open(&FEW_THREADS, &config));
    assert_eq!(TAKEN.load(SeqCst), 0);
}

#[test]
fn the_bill_names_the_rings_memory() {
    let names = |reader: u32| -> Vec<String> {
        let need = memory_need(&Config { reader, ..mixed_config(2) });
        let need = need.unwrap_or_else(|failure| panic!("{failure}"));
        let name = |line: &wavetrain::abi::MemoryLine| {
            let bytes = line.name.iter().take_while(|byte| **byte != 0);
            String::from_utf8(bytes.map(|byte| *byte as u8).collect()).unwrap()
        };
        let lines = &need.lines[..need.line_count as usize];
        lines.iter().filter(|line| line.bytes > 0).map(name).collect()
    };
    assert!(READERS.iter().all(|reader| names(*reader).contains(&"ring reads".to_string())));
    assert!(!names(READER_AUTO).contains(&"ring reads".to_string()));
}

#[test]
fn a_held_batch_stays_as_it_is_while_the_ring_reads_on() {
    if !is_supported() {
        return;
    }
    let scratch = Scratch::new();
    let jobs = chunk_jobs(&scratch);
    let config = Config { reader: READER_DIRECT, ..chunk_config() };
    let loader = open(&COLD, &config);
    let requests: Vec<_> = jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    assert_eq!(loader.push(&requests, 0).unwrap(), 64);
    let Ok(Pop::Batch(held)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
    for number in 1..32 {
        let Ok(Pop::Batch(batch)) = loader.pop(PATIENCE_NS) else { panic!("no batch") };
        check_batch(&config, &batch, &jobs[2 * number..2 * number + 2], 2 * number);
    }
    check_batch(&config, &held, &jobs[..2], 0);
}
