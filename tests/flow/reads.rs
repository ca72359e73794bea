//! Which reads reach the files, in which order, and that their order and latency change nothing.
//!
//! A table of system calls notes every read that brought bytes. All cases share it and look only
//! at the files of their own folder.

use crate::common::drive::{Job, config, stream_through};
use crate::common::fixtures::Scratch;
use crate::common::store::write_aged;
use crate::common::synth::{Meta, index_bytes};
use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::Loader;
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;

/// A read of a file: its path, the offset, the bytes.
type Read = (String, u64, usize);

static PATHS: Mutex<Option<HashMap<i32, String>>> = Mutex::new(None);
static READS: Mutex<Vec<Read>> = Mutex::new(Vec::new());

fn open(path: &[u8]) -> Result<i32, Errno> {
    // The lock is held over the call, so that no other thread can be given the same descriptor.
    let paths = &mut *PATHS.lock().unwrap();
    let fd = (SYSTEM.open)(path)?;
    let name = std::str::from_utf8(path).unwrap().trim_end_matches('\0');
    paths.get_or_insert_default().insert(fd, name.to_string());
    Ok(fd)
}

fn read(fd: i32, target: &mut [u8], offset: u64, cached_only: bool) -> Result<usize, Errno> {
    let bytes = (SYSTEM.read)(fd, target, offset, cached_only)?;
    let path = PATHS.lock().unwrap().as_ref().unwrap()[&fd].clone();
    READS.lock().unwrap().push((path, offset, target.len()));
    Ok(bytes)
}

static NOTED: Os = Os { open, read, ..SYSTEM };

static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Storage that is never cached and always slow.
static COLD: Os = Os {
    open,
    read: |fd, target, offset, cached_only| {
        if cached_only { Err(Errno(libc::EAGAIN)) } else { read(fd, target, offset, false) }
    },
    now_ns: || CLOCK.fetch_add(1_000_000, Relaxed),
    ..SYSTEM
};

/// A shard has eight chunks of 4 x 4 u16 beside each other; four shards lie below each other.
const SHARDS: u64 = 4;
const CHUNKS: u64 = 8;
const CHUNK_BYTES: u64 = 32;

/// Writes the array with `gap` bytes behind every second chunk. The job is the whole array.
fn array(scratch: &Scratch, gap: usize) -> Job {
    let meta = Meta::u16(&[4 * SHARDS, 4 * CHUNKS], &[4, 4], Some(&[4, 4 * CHUNKS]));
    let uri = meta.write(scratch, "array", None);
    let value = |y: u64, x: u64| (1 + y * 4 * CHUNKS + x) as u16;
    for shard in 0..SHARDS {
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for chunk in 0..CHUNKS {
            entries.push((bytes.len() as u64, CHUNK_BYTES));
            let places = (0..16).map(|n| (4 * shard + n / 4, 4 * chunk + n % 4));
            bytes.extend(places.flat_map(|(y, x)| value(y, x).to_le_bytes()));
            if chunk % 2 == 1 {
                bytes.extend(vec![0xEE; gap]);
            }
        }
        bytes.extend(index_bytes(&entries));
        let folder = scratch.path("array").join(format!("c/{shard}"));
        fs::create_dir_all(&folder).unwrap();
        write_aged(&folder.join("0"), &bytes);
    }
    let rows = 0..4 * SHARDS;
    let want = rows.flat_map(|y| (0..4 * CHUNKS).flat_map(move |x| value(y, x).to_le_bytes()));
    let end = vec![4 * SHARDS as i64, 4 * CHUNKS as i64];
    Job::new(&uri, (vec![0, 0], end), want.collect())
}

fn small_config() -> Config {
    config(Dtype::U16, &[4 * SHARDS, 4 * CHUNKS], 1)
}

fn open_noted(config: &Config) -> Loader {
    Loader::open_on(&NOTED, config).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Streams the jobs through a new loader and gives the reads of their chunks.
fn chunk_reads(config: &Config, jobs: &[Job]) -> Vec<(u64, u64, usize)> {
    reads_during(&jobs[0].uri, || stream_through(&open_noted(config), config, jobs, 0))
}

/// The reads of chunks of this array while `work` runs as (shard, offset, bytes), in order.
fn reads_during<T>(uri: &str, work: impl FnOnce() -> T) -> Vec<(u64, u64, usize)> {
    let prefix = format!("{uri}/c/");
    let index_offset = fs::metadata(format!("{prefix}0/0")).unwrap().len() - CHUNKS * 16 - 4;
    READS.lock().unwrap().retain(|read| !read.0.starts_with(&prefix));
    work();
    let reads = READS.lock().unwrap();
    let own = reads.iter().filter(|read| read.0.starts_with(&prefix) && read.1 < index_offset);
    own.map(|(path, offset, bytes)| {
        let shard = path[prefix.len()..].split('/').next().unwrap();
        (shard.parse().unwrap(), *offset, *bytes)
    })
    .collect()
}

fn pump(config: Config) -> Config {
    Config { thread_mode: THREADS_PUMP, ..config }
}

#[test]
fn reads_alternate_across_shards_and_ascend_within_one() {
    let scratch = Scratch::new();
    let job = array(&scratch, 0);
    let config = pump(Config { max_read_op_bytes: 1, ..small_config() });
    // While indexes are looked up, the shards that are known go first: warm the caches.
    let loader = Loader::open_on(&COLD, &config).unwrap_or_else(|failure| panic!("{failure}"));
    stream_through(&loader, &config, std::slice::from_ref(&job), 0);
    let reads =
        reads_during(&job.uri, || stream_through(&loader, &config, std::slice::from_ref(&job), 1));
    let round = |chunk: u64| (0..SHARDS).map(move |shard| (shard, chunk * CHUNK_BYTES, 32));
    assert_eq!(reads, (0..CHUNKS).flat_map(round).collect::<Vec<_>>());
}

#[test]
fn touching_chunks_are_read_at_once_up_to_the_cap() {
    let scratch = Scratch::new();
    let job = [array(&scratch, 0)];
    for (cap, lengths) in [
        (4 << 20, &[256][..]),
        (256, &[256]),
        (255, &[224, 32]),
        (96, &[96, 96, 64]),
        (95, &[64, 64, 64, 64]),
        (63, &[32; 8]),
        (31, &[32; 8]),
    ] {
        let config = pump(Config { max_read_op_bytes: cap, ..small_config() });
        let reads = chunk_reads(&config, &job);
        for shard in 0..SHARDS {
            let own = reads.iter().filter(|read| read.0 == shard).map(|read| read.2);
            assert_eq!(own.collect::<Vec<_>>(), lengths, "cap {cap}");
        }
    }
}

#[test]
fn a_gap_of_one_byte_is_not_read() {
    let scratch = Scratch::new();
    let job = array(&scratch, 1);
    let mut reads = chunk_reads(&pump(small_config()), &[job]);
    reads.sort();
    let pairs = |shard: u64| (0..CHUNKS / 2).map(move |pair| (shard, pair * 65, 64));
    assert_eq!(reads, (0..SHARDS).flat_map(pairs).collect::<Vec<_>>());
}

#[test]
fn chunks_that_the_box_does_not_touch_are_not_read() {
    let scratch = Scratch::new();
    let whole = array(&scratch, 0);
    let Ok(want) = &whole.want else { unreachable!() };
    // One element of chunk 3 of shard 2.
    let at = ((9 * 4 * CHUNKS + 13) * 2) as usize;
    let job = Job::new(&whole.uri, (vec![9, 13], vec![10, 14]), want[at..at + 2].to_vec());
    let reads = chunk_reads(&pump(config(Dtype::U16, &[1, 1], 1)), &[job]);
    assert_eq!(reads.len(), 1);
    let (shard, offset, bytes) = reads[0];
    assert_eq!(shard, 2);
    assert!(offset >= 96 && offset + bytes as u64 <= 128, "{offset} {bytes}");
}

#[test]
fn the_same_pushes_make_the_same_reads_in_the_same_order_in_pump_mode() {
    let scratch = Scratch::new();
    let jobs = vec![array(&scratch, 0); 5];
    // All is pushed before the first pump and no slot has to come back, so that the length of a
    // pump, which is a matter of time, decides nothing.
    let config = pump(Config {
        max_read_op_bytes: 64,
        max_chunks_per_wave: 7,
        lookahead_samples: 5,
        n_batch_slots: 5,
        ..small_config()
    });
    let first = chunk_reads(&config, &jobs);
    assert!(first.len() >= 5 * 16);
    for _ in 0..3 {
        assert_eq!(chunk_reads(&config, &jobs), first);
    }
}

#[test]
fn the_same_pushes_make_the_same_set_of_reads_with_threads() {
    let scratch = Scratch::new();
    let jobs = vec![array(&scratch, 0); 5];
    let mut seen = Vec::new();
    for (decoders, readers) in [(1, 1), (1, 1), (1, 4), (4, 4)] {
        let config = Config {
            n_decode_threads: decoders,
            n_io_threads: readers,
            max_read_op_bytes: 1,
            // What batches in flight share is a matter of time.
            n_batch_slots: 1,
            ..small_config()
        };
        let mut reads = chunk_reads(&config, &jobs);
        reads.sort();
        seen.push(reads);
    }
    assert_eq!(seen[0].len() as u64, 5 * SHARDS * CHUNKS);
    assert!(seen.iter().all(|reads| *reads == seen[0]));
}

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Reads that take a random time; some of them only where a thread may wait. They sleep it: beside
/// busy programs a thread that yields its turns instead would wait for all of theirs.
static ERRATIC: Os = Os {
    read: |fd, target, offset, cached_only| {
        let call = CALLS.fetch_add(1, Relaxed);
        let length = (call.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 300;
        if cached_only && length.is_multiple_of(3) {
            return Err(Errno(libc::EAGAIN));
        }
        std::thread::sleep(Duration::from_micros(length * length / 60));
        (SYSTEM.read)(fd, target, offset, cached_only)
    },
    ..SYSTEM
};

#[test]
fn batches_come_in_push_order_however_long_each_read_takes() {
    let scratch = Scratch::new();
    let whole = array(&scratch, 1);
    let Ok(want) = &whole.want else { unreachable!() };
    let jobs: Vec<Job> = (0..120i64)
        .map(|n| {
            let (y, x) = (n * 5 % 13, n * 11 % 27);
            let row = |dy: i64| ((((y + dy) * 32) + x) * 2) as usize;
            let rows = (0..4).flat_map(|dy| want[row(dy)..row(dy) + 12].to_vec());
            Job::new(&whole.uri, (vec![y, x], vec![y + 4, x + 6]), rows.collect())
        })
        .collect();
    let mut config = config(Dtype::U16, &[4, 6], 2);
    config.n_io_threads = 8;
    config.lookahead_samples = 16;
    config.n_batch_slots = 4;
    config.max_chunks_per_wave = 3;
    config.n_chunk_layout_cache = 2;
    let loader = Loader::open_on(&ERRATIC, &config).unwrap_or_else(|failure| panic!("{failure}"));
    stream_through(&loader, &config, &jobs, 0);
}

/// Bytes that are read for a batch of boxes of a store of one uncompressed chunk, 512 x 512 u16.
fn bytes_of_one_chunk(shape: [i64; 2], corners: &[[i64; 2]]) -> u64 {
    let scratch = Scratch::new();
    let uri = Meta::u16(&[512, 512], &[512, 512], None).write(&scratch, "chunk", None);
    let value = |y: i64, x: i64| (y * 131 + x) as u16;
    let all = (0..512).flat_map(|y| (0..512).flat_map(move |x| value(y, x).to_le_bytes()));
    let folder = scratch.path("chunk/c/0");
    fs::create_dir_all(&folder).unwrap();
    write_aged(&folder.join("0"), &all.collect::<Vec<_>>());
    let job = |&[y, x]: &[i64; 2]| {
        let rows = (y..y + shape[0]).flat_map(|y| (x..x + shape[1]).map(move |x| (y, x)));
        let want = rows.flat_map(|(y, x)| value(y, x).to_le_bytes());
        Job::new(&uri, (vec![y, x], vec![y + shape[0], x + shape[1]]), want.collect())
    };
    let jobs: Vec<Job> = corners.iter().map(job).collect();
    let shape = shape.map(|extent| extent as u64);
    let config = pump(config(Dtype::U16, &shape, jobs.len()));
    let loader = Loader::open_on(&SYSTEM, &config).unwrap_or_else(|failure| panic!("{failure}"));
    stream_through(&loader, &config, &jobs, 0);
    loader.stats().unwrap().io.input_bytes
}

#[test]
fn an_uncompressed_chunk_is_read_once_for_boxes_that_overlap_and_apart_for_those_that_do_not() {
    // Rows 100 to 376 of 1,024 bytes.
    let shared = bytes_of_one_chunk([256, 400], &[[100, 0], [110, 50], [115, 60], [120, 100]]);
    assert_eq!(shared, 275 * 1024 + 1000);
    // The rows of each corner by themselves.
    let apart = bytes_of_one_chunk([2, 8], &[[0, 0], [510, 504]]);
    assert_eq!(apart, 2 * (1024 + 16));
    // Rows that are less than a page apart are read together.
    let wide = bytes_of_one_chunk([512, 8], &[[0, 4]]);
    assert_eq!(wide, 511 * 1024 + 16);
}
