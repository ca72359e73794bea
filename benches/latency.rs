//! Storage that answers late: how many arrays and chunks come in a second if each read waits.
//!
//! Small stores lie in a folder under target/; a hook of files reads them and sleeps before each
//! read, for 50 ms (`--latency-ms`). With the 64 threads that wait (`--threads`) and every read in
//! flight that may be, 1,280 are made in a second. `arrays` asks for a box of each of 400 arrays of
//! one chunk, which are a read of the document and one of the chunk; `npy` for as many files, a
//! read of the header and one of the data; `chunks` for 400 chunks of one array. All else is as the
//! config has it.
//!
//!     cargo bench --bench latency -- --threads 64

mod common;
#[path = "../tests/common/hook.rs"]
mod hook;

use common::{Array, Codec, Scratch, flag_value};
use std::ffi::{c_char, c_void};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wavetrain::config::{BACKEND_HOST, Config};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;

const COUNT: u64 = 400;
const EDGE: u64 = 16;
const PATIENCE_NS: u64 = 60_000_000_000;

static READS: AtomicU64 = AtomicU64::new(0);
static LATENCY_MS: AtomicU64 = AtomicU64::new(50);

/// The hook's read, late.
unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    READS.fetch_add(1, Relaxed);
    std::thread::sleep(Duration::from_millis(LATENCY_MS.load(Relaxed)));
    // SAFETY: the arguments are the library's.
    unsafe { hook::read(user, name, offset, target, bytes) }
}

/// A box to be asked for: the uri, and its corners.
type Item = (String, [i64; 3], [i64; 3]);

fn item(uri: String, first: u64) -> Item {
    let (first, edge) = (first as i64, EDGE as i64);
    (uri, [first, 0, 0], [first + edge, edge, edge])
}

fn arrays(folder: &Scratch) -> Vec<Item> {
    let array = Array { shape: [EDGE; 3], chunk: [EDGE; 3], shard: None, codec: Codec::Raw };
    let write = |number| {
        let uri = folder.uri(&format!("array{number}"));
        array.write(&uri, &[[0; 3]]);
        item(uri, 0)
    };
    (0..COUNT).map(write).collect()
}

fn npy(folder: &Scratch) -> Vec<Item> {
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend_from_slice(b"{'descr': '<u2', 'fortran_order': False, 'shape': (16, 16, 16), }");
    file.resize(128 + 2 * (EDGE * EDGE * EDGE) as usize, b' ');
    let write = |number| {
        let uri = folder.uri(&format!("{number}.npy"));
        fs::write(&uri, &file).expect("it is written");
        item(uri, 0)
    };
    (0..COUNT).map(write).collect()
}

fn chunks(folder: &Scratch) -> Vec<Item> {
    let shape = [COUNT * EDGE, EDGE, EDGE];
    let array = Array { shape, chunk: [EDGE; 3], shard: None, codec: Codec::Raw };
    let uri = folder.uri("chunks");
    let all: Vec<_> = (0..COUNT).map(|z| [z, 0, 0]).collect();
    array.write(&uri, &all);
    (0..COUNT).map(|z| item(uri.clone(), z * EDGE)).collect()
}

/// Seconds for all items.
fn stream(items: &[Item], samples_per_batch: u32, n_io_threads: u32) -> f64 {
    let mut config = hook::with_hook(Config {
        samples_per_batch,
        sample_rank: 3,
        dtype: Dtype::U16 as u32,
        backend: BACKEND_HOST,
        n_io_threads,
        ..Config::default()
    });
    config.files.read = Some(read);
    config.sample_shape[..3].copy_from_slice(&[EDGE; 3]);
    let requests: Vec<Request<'_>> = items
        .iter()
        .zip(0..)
        .map(|((uri, begin, end), tag)| Request { uri, begin, end, tag })
        .collect();
    let loader = Loader::open_on(&SYSTEM, &config).unwrap_or_else(|why| panic!("{why}"));
    let begun = Instant::now();
    let (mut pushed, mut seen) = (0, 0);
    while seen < requests.len() {
        let taken = loader.push(&requests[pushed..], 0);
        pushed += taken.unwrap_or_else(|why| panic!("{why}"));
        match loader.pop(PATIENCE_NS).unwrap_or_else(|why| panic!("{why}")) {
            Pop::Batch(batch) => seen += batch.tags().len(),
            _ => panic!("no batch"),
        }
    }
    begun.elapsed().as_secs_f64()
}

fn number(flag: &str, other: u32) -> u32 {
    flag_value(flag).map_or(other, |text| text.parse().unwrap_or_else(|_| panic!("{flag} N")))
}

fn main() {
    let (latency_ms, threads) = (number("--latency-ms", 50), number("--threads", 64));
    LATENCY_MS.store(u64::from(latency_ms), Relaxed);
    let folder = Scratch::new("latency");
    let limit = f64::from(threads) * 1000.0 / f64::from(latency_ms.max(1));
    println!("{threads} threads, {latency_ms} ms a read: at most {limit:.0} reads/s");
    println!("{:<8} {:>5} {:>8} {:>8} {:>6}", "", "batch", "boxes/s", "reads/s", "reads");
    for (name, items) in
        [("arrays", arrays(&folder)), ("npy", npy(&folder)), ("chunks", chunks(&folder))]
    {
        for batch in [8, 1] {
            READS.store(0, Relaxed);
            let seconds = stream(&items, batch, threads);
            let reads = READS.load(Relaxed);
            let rates = [COUNT as f64 / seconds, reads as f64 / seconds];
            println!("{name:<8} {batch:>5} {:>8.0} {:>8.0} {reads:>6}", rates[0], rates[1]);
        }
    }
}
