//! Batches are planned and read before there is memory for them, if reads have to be waited for:
//! how many reads are in flight, that the batch in turn never waits for later ones, and that each
//! batch still has its own errors.
//!
//! Reads of chunks wait at a gate until so many are in flight at a time.

use crate::common::drive::{
    Dice, Job, PATIENCE_NS, check_batch, first_failure, stream_through, tag,
};
use crate::common::fixtures::{Scratch, is_chunk_path};
use crate::common::hook;
use crate::common::read_boxes::{self, Layout, check_each, part};
use crate::common::store::zstd_frame;
use crate::common::synth::{Meta, chunk_bytes, chunk_job, shard_bytes};
use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use wavetrain::abi::{FILE_FAILED, FilesHook};
use wavetrain::base::limits::EDGE_RUNS_MAX;
use wavetrain::config::{Config, ON_ERROR_SKIP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_close;

/// Chunks of the array along its first axis, each with a file of its own; its second axis has four.
const ROWS: u64 = 64;

/// Reads in flight.
#[derive(Default)]
struct Reads {
    now: u32,
    most: u32,
    begun: u32,
    is_open: bool,
}

/// A gate that opens for good once `enough` reads of chunks wait at it.
struct Gate {
    enough: u32,
    /// The read of a file with this at its end fails.
    bad: &'static str,
    reads: Mutex<Reads>,
    changed: Condvar,
}

impl Gate {
    fn of(enough: u32, bad: &'static str) -> Gate {
        Gate { enough, bad, reads: Mutex::default(), changed: Condvar::new() }
    }

    fn pass(&self) {
        let mut reads = self.reads.lock().unwrap();
        reads.begun += 1;
        reads.now += 1;
        reads.most = reads.most.max(reads.now);
        self.changed.notify_all();
        while !reads.is_open && reads.now < self.enough {
            let wait = self.changed.wait_timeout(reads, Duration::from_secs(20)).unwrap();
            reads = wait.0;
            // Too few come: the test says so at its end.
            reads.is_open |= wait.1.timed_out();
        }
        reads.is_open = true;
        reads.now -= 1;
        self.changed.notify_all();
    }

    fn hooked(&self, config: Config) -> Config {
        let user = std::ptr::from_ref(self).cast_mut().cast();
        let files = FilesHook { user, size: Some(hook::size), read: Some(read), ..FilesHook::NONE };
        Config { files, ..config }
    }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the gate outlives the loader, and a name has a NUL.
    let (gate, text) = unsafe { (&*user.cast::<Gate>(), CStr::from_ptr(name)) };
    let text = text.to_str().unwrap();
    if is_chunk_path(text.as_bytes()) {
        gate.pass();
        if !gate.bad.is_empty() && text.ends_with(gate.bad) {
            return FILE_FAILED;
        }
    }
    // SAFETY: as the caller's.
    unsafe { hook::read(user, name, offset, target, bytes) }
}

fn file(scratch: &Scratch, [y, x]: [u64; 2]) -> PathBuf {
    scratch.path("far").join("c").join(y.to_string()).join(x.to_string())
}

/// An array of ROWS x 4 chunks, but for the one at `absent`.
fn far(scratch: &Scratch, absent: Option<[u64; 2]>) -> String {
    let uri = Meta::u16(&[ROWS * 4, 16], &[4, 4], None).write(scratch, "far", None);
    for y in 0..ROWS {
        fs::create_dir_all(file(scratch, [y, 0]).parent().unwrap()).unwrap();
        for x in (0..4).filter(|x| absent != Some([y, *x])) {
            fs::write(file(scratch, [y, x]), chunk_bytes((4 * y + x) as u16)).unwrap();
        }
    }
    uri
}

/// The same chunks, compressed, in one file, so that reads of several batches would touch.
fn packed(scratch: &Scratch) -> String {
    let shape = [ROWS * 4, 16];
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;
    let (mut payload, mut entries) = (Vec::new(), Vec::new());
    for chunk in 0..ROWS * 4 {
        let encoded = zstd_frame(&chunk_bytes(chunk as u16));
        entries.push((payload.len() as u64, encoded.len() as u64));
        payload.extend(encoded);
    }
    let shard = shard_bytes(&payload, &entries);
    let meta = Meta { codecs, ..Meta::u16(&shape, &[4, 4], Some(&shape)) };
    meta.write(scratch, "packed", Some(&shard))
}

/// One chunk a sample, of those along the first axis.
fn jobs(uri: &str, count: u64) -> Vec<Job> {
    (0..count).map(|y| chunk_job(uri, [y, 0], Some(4 * y as u16))).collect()
}

fn config(samples_per_batch: usize) -> Config {
    Config {
        n_io_threads: 12,
        n_batch_slots: 2,
        lookahead_samples: ROWS as u32,
        metadata_io_concurrency: 64,
        ..crate::common::drive::config(Dtype::U16, &[4, 4], samples_per_batch)
    }
}

/// The least budget that a config can have.
fn least_bytes(config: &Config) -> u64 {
    let config = Config { max_host_memory_bytes: 1, ..*config };
    let failure = Loader::open_on(&SYSTEM, &config).err().unwrap();
    let least = failure.text.as_str().split("at least ").nth(1).unwrap();
    least.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn chunks_of_batches_that_have_no_memory_are_read_while_the_batch_in_turn_waits() {
    let scratch = Scratch::new();
    let uri = far(&scratch, None);
    for samples_per_batch in [1, 2, 3] {
        let gate = Gate::of(12, "");
        let config = gate.hooked(config(samples_per_batch));
        let loader = Loader::open_on(&SYSTEM, &config).unwrap();
        let jobs = jobs(&uri, ROWS);
        stream_through(&loader, &config, &jobs, 0);
        let reads = gate.reads.lock().unwrap();
        assert_eq!((reads.most, reads.begun), (12, ROWS as u32));
        loader.close(PATIENCE_NS).unwrap();
    }
}

#[test]
fn whatever_is_read_early_every_batch_comes_with_the_least_memory_and_few_waves() {
    let scratch = Scratch::new();
    let uris = [far(&scratch, None), packed(&scratch)];
    let mut dice = Dice(20);
    for round in 0..96 {
        // Samples of up to 128 chunks, whose waves have one chunk or more; or of a few chunks, that
        // many batches need.
        let is_packed = round % 4 > 1;
        let rows = dice.range(1, if is_packed { 3 } else { 33 }) as u64;
        let (jobs, firsts) = if is_packed { (96, 8) } else { (24, (ROWS - rows) as i64 + 1) };
        let samples = dice.range(1, 4) as usize;
        let gate = Gate::of(1, "");
        let mut config = gate.hooked(Config {
            n_io_threads: dice.range(1, 25) as u32,
            n_batch_slots: dice.range(1, 4) as u32,
            host_buffer_waves: dice.range(2, 6) as u32,
            max_chunks_per_wave: dice.range(1, 20) as u32,
            chunk_cache_bytes: [0, 1 << 20][round % 2],
            max_chunk_uncompressed_bytes: 4096,
            ..crate::common::drive::config(Dtype::U16, &[rows * 4, 16], samples)
        });
        config.max_host_memory_bytes = least_bytes(&config);
        let want = |first: u64| -> Vec<u8> {
            let element = |y: u64, x: u64| {
                let (chunk, within) = (4 * (y / 4) + x / 4, 4 * (y % 4) + x % 4);
                (chunk * 100 + within) as u16
            };
            let places = (0..rows * 4).flat_map(|y| (0..16).map(move |x| (first * 4 + y, x)));
            places.flat_map(|(y, x)| element(y, x).to_le_bytes()).collect()
        };
        let jobs: Vec<Job> = (0..jobs)
            .map(|_| {
                let first = dice.range(0, firsts);
                let span = (vec![first * 4, 0], vec![first * 4 + rows as i64 * 4, 16]);
                Job::new(&uris[usize::from(is_packed)], span, want(first as u64))
            })
            .collect();
        let loader = Loader::open_on(&SYSTEM, &config).unwrap();
        stream_through(&loader, &config, &jobs, 0);
        loader.close(PATIENCE_NS).unwrap();
    }
}

#[test]
fn a_chunk_that_is_in_flight_for_one_batch_is_not_read_for_another() {
    let scratch = Scratch::new();
    let uri = far(&scratch, None);
    // Each chunk is read for two batches, one after the other, and all come again.
    let jobs: Vec<Job> = jobs(&uri, 24).into_iter().flat_map(|job| [job.clone(), job]).collect();
    let jobs = [jobs.clone(), jobs].concat();
    // The slots have one chunk, and the first wave of later batches six.
    let gate = Gate::of(7, "");
    let config = gate.hooked(Config { chunk_cache_bytes: 1 << 20, ..config(1) });
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    stream_through(&loader, &config, &jobs, 0);
    let reads = gate.reads.lock().unwrap();
    assert!(reads.most >= 7 && reads.begun == 24, "{} {}", reads.most, reads.begun);
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn a_chunk_of_a_later_batch_that_cannot_be_read_fails_that_batch_alone() {
    let scratch = Scratch::new();
    let uri = far(&scratch, None);
    let mut jobs = jobs(&uri, 24);
    let gate = Gate::of(12, "/c/9/0");
    let loader = Loader::open_on(&SYSTEM, &gate.hooked(config(1))).unwrap();
    let (batches, failure) = first_failure(&loader, &jobs);
    assert_eq!((batches, failure.status, failure.tag), (9, Status::Io, tag(9)), "{failure}");
    assert_eq!(gate.reads.lock().unwrap().most, 12);
    loader.close(PATIENCE_NS).unwrap();
    let gate = Gate::of(12, "/c/9/0");
    let config = gate.hooked(Config { on_error: ON_ERROR_SKIP, ..config(1) });
    jobs[9].want = Err(Status::Io);
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    stream_through(&loader, &config, &jobs, 0);
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn a_missing_chunk_of_a_later_batch_reads_as_the_fill_value() {
    let scratch = Scratch::new();
    let uri = far(&scratch, Some([9, 0]));
    let mut jobs = jobs(&uri, 24);
    jobs[9] = chunk_job(&uri, [9, 0], None);
    let gate = Gate::of(12, "");
    let config = gate.hooked(config(1));
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    stream_through(&loader, &config, &jobs, 0);
    assert_eq!(loader.stats().unwrap().chunks_missing, 1);
    loader.close(PATIENCE_NS).unwrap();
}

/// Reads a box while a batch is held, and others are read early.
fn check_read_beside(loader: &Loader, config: &Config, samples: &[Job], read: &Job) {
    let requests: Vec<_> = samples.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    assert_eq!(loader.push(&requests, 0).unwrap(), samples.len());
    for (number, job) in samples.iter().enumerate() {
        let Pop::Batch(batch) = loader.pop(PATIENCE_NS).unwrap() else { panic!("no batch") };
        check_batch(config, &batch, std::slice::from_ref(job), number);
        // Long enough for what is read early.
        std::thread::sleep(Duration::from_millis(if number < 3 { 50 } else { 0 }));
        check_each(loader, 2, std::slice::from_ref(read));
    }
}

/// The same with boxes of two arrays in turns and a box of a third.
fn check_third(uris: &[String; 3], config: Config, job: impl Fn(&str) -> Job) {
    let gate = Gate::of(1, "");
    let config = gate.hooked(Config { n_batch_slots: 1, ..config });
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    let samples: Vec<Job> = (0..12).map(|number| job(&uris[number % 2])).collect();
    check_read_beside(&loader, &config, &samples, &job(&uris[2]));
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn a_box_of_another_array_is_read_while_later_batches_have_all_that_they_may() {
    let scratch = Scratch::new();
    let uris = ["a", "b", "c"].map(|name| {
        let uri = Meta::u16(&[ROWS * 4, 16], &[4, 4], None).write(&scratch, name, None);
        fs::create_dir_all(scratch.path(name).join("c/0")).unwrap();
        fs::write(scratch.path(name).join("c/0/0"), chunk_bytes(0)).unwrap();
        uri
    });
    for n_array_meta_cache in [1, 2, 3] {
        let config = Config { n_array_meta_cache, ..config(1) };
        check_third(&uris, config, |uri| chunk_job(uri, [0, 0], Some(0)));
    }
}

#[test]
fn a_box_of_a_grid_that_takes_all_rows_is_read_beside_early_batches_of_another() {
    let scratch = Scratch::new();
    // As many runs as an array may have, with that of the other axis.
    let edges: Vec<u64> = (1..EDGE_RUNS_MAX as u64).map(|cell| 1 + cell % 2).collect();
    let grid: &'static str = format!("[{edges:?},[[4,4]]]").leak();
    let uris = ["a", "b", "c"].map(|name| {
        let meta = Meta::u16(&[edges.iter().sum(), 16], &[4, 4], None);
        Meta { edges: Some(grid), ..meta }.write(&scratch, name, None)
    });
    let config = Config { n_array_meta_cache: 8, ..config(1) };
    check_third(&uris, config, |uri| chunk_job(uri, [0, 0], None));
}

#[test]
fn a_box_of_the_largest_chunk_may_wait_for_early_batches_and_says_so() {
    let scratch = Scratch::new();
    let codecs = r#",{"name":"zstd","configuration":{"level":3,"checksum":true}}"#;
    let mut dice = Dice(7);
    let noise: Vec<u8> = (0..1_000_000).map(|_| dice.range(0, 256) as u8).collect();
    let large = Meta { codecs, ..Meta::u16(&[500, 1000], &[500, 1000], None) };
    let large = large.write(&scratch, "large", Some(&zstd_frame(&noise)));
    let third = Job::new(&large, (vec![0, 0], vec![500, 1000]), noise.clone());
    let small = Meta::u16(&[ROWS * 64, 128], &[64, 128], None).write(&scratch, "small", None);
    for y in 0..ROWS {
        let folder = scratch.path("small").join("c").join(y.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0"), &noise[..16_384]).unwrap();
    }
    let gate = Gate::of(1, "");
    let mut config = gate.hooked(Config {
        n_batch_slots: 1,
        n_io_threads: 32,
        max_chunk_uncompressed_bytes: 1_000_000,
        ..crate::common::drive::config(Dtype::U16, &[64, 128], 1)
    });
    config.max_host_memory_bytes = least_bytes(&config);
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    let span = |y: i64| (vec![64 * y, 0], vec![64 * y + 64, 128]);
    let jobs = (0..ROWS as i64).map(|y| Job::new(&small, span(y), noise[..16_384].to_vec()));
    let jobs: Vec<Job> = jobs.collect();
    let requests: Vec<_> = jobs.iter().enumerate().map(|(n, job)| job.request(n)).collect();
    assert_eq!(loader.push(&requests, 0).unwrap(), jobs.len());
    let pop = || match loader.pop(PATIENCE_NS).unwrap() {
        Pop::Batch(batch) => batch,
        _ => panic!("no batch"),
    };
    let first = pop();
    std::thread::sleep(Duration::from_millis(100));
    let layout = Layout::row_major(&third.extents(), 2);
    let late = read_boxes::read(&loader, &part(&third), &layout, 100_000_000);
    let late = late.unwrap_err();
    assert_eq!(late.status, Status::Starved);
    assert!(late.text.as_str().contains("which are read early: release one"), "{late}");
    drop(first);
    (1..jobs.len()).for_each(|_| drop(pop()));
    check_each(&loader, 2, &[third]);
    loader.close(PATIENCE_NS).unwrap();
}

#[test]
fn reset_and_close_wait_for_the_reads_in_flight_and_begin_no_others() {
    let scratch = Scratch::new();
    let uri = far(&scratch, None);
    let jobs = jobs(&uri, ROWS);
    // It never opens by itself.
    let gate = Gate::of(u32::MAX, "");
    let config = gate.hooked(Config { reset_timeout_ns: 20_000_000, ..config(1) });
    let loader = Loader::open_on(&SYSTEM, &config).unwrap();
    let requests: Vec<Request<'_>> =
        jobs.iter().enumerate().map(|(number, job)| job.request(number)).collect();
    let fill = || {
        gate.reads.lock().unwrap().is_open = false;
        assert_eq!(loader.push(&requests, 0).unwrap(), requests.len());
        let mut reads = gate.reads.lock().unwrap();
        while reads.now < 12 {
            reads = gate.changed.wait(reads).unwrap();
        }
        reads.begun
    };
    let open = || {
        gate.reads.lock().unwrap().is_open = true;
        gate.changed.notify_all();
    };
    let begun = fill();
    assert_eq!(loader.reset().map_err(|failure| failure.status), Err(Status::Again));
    open();
    // The reads return, but whether the threads are through before the deadline is the system's.
    while let Err(failure) = loader.reset() {
        assert_eq!(failure.status, Status::Again, "{failure}");
    }
    assert_eq!(gate.reads.lock().unwrap().begun, begun);
    stream_through(&loader, &config, &jobs, 0);
    let begun = fill();
    let token = loader.token();
    // SAFETY: a count of what is held may be left out.
    let closed = unsafe { wavetrain_close(token, 0, std::ptr::null_mut()) };
    assert_eq!(closed, Status::Again as i32);
    open();
    loader.close(PATIENCE_NS).unwrap();
    assert_eq!(gate.reads.lock().unwrap().begun, begun);
}
