//! The physical limit of a request list on this machine: the shortest loop that does the same work.
//!
//! In: a request list as `wavetrain bench` takes it, of boxes of one shape in arrays as
//! benches/data.py writes them: up to five axes, sharded or not, zstd, blosc with zstd or lz4, or
//! uncompressed. What it does not know (gzip) it refuses by name. Out: one JSON line on standard
//! output.
//!
//! What touches what is worked out before the clock starts, and neither sizes nor contents are
//! checked beyond what zstd and lz4 do themselves: a loader has to do both. Each thread takes the
//! next chunk, reads it, decodes it into its own buffer and writes the rows that the box needs into
//! a ring of four batches. It meets the others only where it would overtake the ring. Shards are
//! open before the clock starts; the file of a single chunk is opened when it is read.
//!
//! The modes differ in how much of a chunk is touched:
//!
//! prefix  a zstd frame stops at the last needed byte, only needed blosc blocks are decoded, and of
//!         an uncompressed chunk one pread spans the first to the last needed byte
//! whole   every touched chunk is read and decoded whole
//! shared  like prefix, but a chunk that several samples of a batch touch is decoded once
//! mapped  like prefix, from a memory map of each shard: no pread, and uncompressed rows are cast in
//!         place
//!
//! zstd and lz4 are called directly, zstd with one context per thread; the frames of blosc are
//! walked here; only its unshuffle is the library's own ([`wavetrain::decode::unshuffle`]).

mod decode;
mod plan;

use plan::{Array, Codec, Load, MISSING, Work, plan};
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use zstd_safe::zstd_sys;

const USAGE: &str = "\
The physical limit of a request list.

  cargo bench --bench limit -- REQUESTS.jsonl --batch N [--threads 2] [--repeat R] [--verify]
                               [--dtype f32|i64|u64] [--mode prefix|whole|shared|mapped]

--verify adds crcs, the CRC-32 of every batch. --repeat R gives the repeat of median time.
Figures are those of `wavetrain bench --json` where they have the same name.
";

/// Batch buffers that are filled in turn.
const RING: usize = 4;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Prefix,
    Whole,
    Shared,
    Mapped,
}

struct Options {
    requests: PathBuf,
    batch: usize,
    threads: usize,
    repeat: usize,
    mode: Mode,
    mode_name: String,
    dtype: String,
    verify: bool,
}

/// Batch buffers that all threads write, each its own rows. Words, so that all types align.
struct Ring(Vec<*mut u64>);

// SAFETY: pieces of a batch cover disjoint rows, and `run` lets nobody into a buffer whose last
// batch is not complete.
unsafe impl Sync for Ring {}

impl Ring {
    fn buffer(&self, batch: usize) -> *mut u8 {
        self.0[batch % RING].cast()
    }
}

struct Figures {
    seconds: f64,
    cpu_seconds: f64,
    crcs: Vec<u32>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if arguments.is_empty() {
        return print!("{USAGE}");
    }
    if let Err(error) = options(&arguments).and_then(|options| measure(&options)) {
        eprintln!("limit: {error}");
        std::process::exit(1);
    }
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut found: HashMap<&str, &str> = HashMap::new();
    let mut requests = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--verify" => _ = found.insert("--verify", ""),
            "--batch" | "--threads" | "--repeat" | "--dtype" | "--mode" => {
                let value = rest.next().ok_or_else(|| format!("{argument} needs a value"))?;
                found.insert(argument, value);
            }
            name if name.starts_with('-') => return Err(format!("no option {name}").into()),
            path => requests = Some(PathBuf::from(path)),
        }
    }
    let count = |name: &str, default: usize| -> Result<usize> {
        match found.get(name).map_or(Ok(default), |text| text.parse())? {
            0 => Err(format!("{name} is at least 1").into()),
            count => Ok(count),
        }
    };
    let mode_name = found.get("--mode").copied().unwrap_or("prefix");
    Ok(Options {
        requests: requests.ok_or("REQUESTS.jsonl is missing")?,
        batch: count("--batch", 16)?,
        threads: count("--threads", 2)?,
        repeat: count("--repeat", 1)?,
        mode: match mode_name {
            "prefix" => Mode::Prefix,
            "whole" => Mode::Whole,
            "shared" => Mode::Shared,
            "mapped" => Mode::Mapped,
            other => return Err(format!("no mode {other}").into()),
        },
        mode_name: mode_name.to_owned(),
        dtype: found.get("--dtype").copied().unwrap_or("f32").to_owned(),
        verify: found.contains_key("--verify"),
    })
}

fn measure(options: &Options) -> Result<()> {
    let work = plan(options)?;
    let mut repeats: Vec<Figures> = (0..options.repeat).map(|_| run(&work, options)).collect();
    repeats.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let median = &repeats[(repeats.len() - 1) / 2];
    let mut line = json!({
        "name": format!("limit-{}", options.mode_name),
        "samples": work.samples,
        "seconds": median.seconds,
        "samples_per_s": work.samples as f64 / median.seconds,
        "cpu_seconds": median.cpu_seconds,
        "peak_rss_bytes": usage().1,
        "chunks_decoded": work.loads.len(),
        "threads": options.threads,
    });
    if options.verify {
        line["crcs"] = median.crcs.iter().copied().collect();
    }
    println!("{line}");
    Ok(())
}

/// All loads on all threads, once.
fn run(work: &Work, options: &Options) -> Figures {
    let element_bytes = if options.dtype == "f32" { 4 } else { 8 };
    let sample_bytes = work.sample_shape.iter().product::<usize>() * element_bytes;
    let words = (work.batch * sample_bytes).div_ceil(8);
    // Written once, so that no page is taken while the clock runs.
    let mut buffers: Vec<Vec<u64>> = (0..RING).map(|_| vec![u64::MAX; words]).collect();
    let ring = Ring(buffers.iter_mut().map(|buffer| buffer.as_mut_ptr()).collect());
    let crcs = Mutex::new(vec![0; work.batch_loads.len()]);
    let remaining: Vec<AtomicUsize> = work.batch_loads.iter().map(|n| (*n).into()).collect();
    let is_done: Vec<AtomicBool> = remaining.iter().map(|_| false.into()).collect();
    let next = AtomicUsize::new(0);
    let mut workers: Vec<Worker> = (0..options.threads).map(|_| Worker::new(work)).collect();
    let (cpu, begin) = (usage().0, Instant::now());
    std::thread::scope(|scope| {
        for worker in &mut workers {
            scope.spawn(|| {
                while let Some(load) = work.loads.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let batch = load.batch;
                    while batch >= RING && !is_done[batch - RING].load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    worker.load(work, load, options, ring.buffer(batch));
                    if remaining[batch].fetch_sub(1, Ordering::AcqRel) > 1 {
                        continue;
                    }
                    if options.verify {
                        let samples = (work.samples - batch * work.batch).min(work.batch);
                        let (start, bytes) = (ring.buffer(batch), samples * sample_bytes);
                        // SAFETY: the batch is complete and its buffer not yet free again.
                        let bytes = unsafe { std::slice::from_raw_parts(start, bytes) };
                        crcs.lock().expect("no thread failed")[batch] = crc32fast::hash(bytes);
                    }
                    is_done[batch].store(true, Ordering::Release);
                }
            });
        }
    });
    Figures {
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: usage().0 - cpu,
        crcs: crcs.into_inner().expect("no thread failed"),
    }
}

/// CPU seconds and peak resident bytes of this process.
fn usage() -> (f64, u64) {
    // SAFETY: all zeros is a valid rusage, and the call fills one that is ours.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
}

/// What a thread reuses for every chunk.
struct Worker {
    context: *mut zstd_sys::ZSTD_DCtx,
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    block: Vec<u8>,
}

// SAFETY: the context belongs to one worker and zstd ties it to no thread.
unsafe impl Send for Worker {}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: created by `new`, freed once.
        unsafe { zstd_sys::ZSTD_freeDCtx(self.context) };
    }
}

impl Worker {
    fn new(work: &Work) -> Worker {
        let arrays = || work.arrays.iter();
        let chunk =
            arrays().map(|array| array.chunk.iter().product::<usize>() * array.element_bytes);
        let entries = arrays().flat_map(|array| &array.shards).flat_map(|shard| &shard.entries);
        let encoded = entries
            .filter(|entry| **entry != MISSING)
            .map(|entry| entry.1 as usize)
            .max()
            .unwrap_or(0);
        let decoded = chunk.max().unwrap_or(0);
        Worker {
            // SAFETY: takes nothing; null is caught by zstd's own error in the first call.
            context: unsafe { zstd_sys::ZSTD_createDCtx() },
            encoded: vec![1; encoded],
            decoded: vec![1; decoded],
            block: vec![1; decoded],
        }
    }

    fn load(&mut self, work: &Work, load: &Load, options: &Options, batch: *mut u8) {
        let array = &work.arrays[load.array];
        let shard = &array.shards[load.shard];
        let (offset, bytes) = shard.entries[load.chunk];
        if (offset, bytes) == MISSING {
            let part = &mut self.decoded[load.need.clone()];
            part.fill(0);
            return write(work, array, load, &options.dtype, &self.decoded, 0, batch);
        }
        let is_plain = array.codec == Codec::None;
        let part = if is_plain { load.need.clone() } else { 0..bytes as usize };
        let encoded = if options.mode == Mode::Mapped {
            &shard.map[offset as usize..][part]
        } else {
            let target = &mut self.encoded[..part.len()];
            let mut read = |file: &File| file.read_exact_at(target, offset + part.start as u64);
            match &shard.file {
                Some(file) => read(file),
                None => File::open(&shard.path).and_then(|file| read(&file)),
            }
            .expect("a readable chunk");
            &self.encoded[..part.len()]
        };
        let decoded = match array.codec {
            Codec::None => encoded,
            Codec::Zstd => {
                decode::zstd(self.context, encoded, &mut self.decoded, load.need.end);
                &self.decoded[..]
            }
            Codec::Blosc => {
                decode::blosc(
                    self.context,
                    encoded,
                    &mut self.decoded,
                    &mut self.block,
                    &load.need,
                );
                &self.decoded[..]
            }
        };
        let first = if is_plain { load.need.start / array.element_bytes } else { 0 };
        write(work, array, load, &options.dtype, decoded, first, batch);
    }
}

/// The rows that samples need of a chunk, decoded from its element `first` on.
fn write(
    work: &Work,
    array: &Array,
    load: &Load,
    dtype: &str,
    decoded: &[u8],
    first: usize,
    batch: *mut u8,
) {
    let sample_elements: usize = work.sample_shape.iter().product();
    macro_rules! all {
        ($from:ty, $to:ty) => {
            for piece in &load.pieces {
                let batch = batch.cast::<$to>();
                // SAFETY: the ring's buffers hold a batch, the piece lies in its sample, and no
                // other load of the batch covers its rows.
                unsafe {
                    let sample = batch.add(piece.sample * sample_elements);
                    let shape = work.sample_shape;
                    decode::scatter::<$from, $to>(
                        piece,
                        array.chunk,
                        decoded,
                        first,
                        sample,
                        shape,
                    );
                }
            }
        };
    }
    match (array.dtype, dtype) {
        ("u8", "f32") => all!(u8, f32),
        ("u16", "f32") => all!(u16, f32),
        ("i16", "f32") => all!(i16, f32),
        ("u32", "f32") => all!(u32, f32),
        ("u64", "f32") => all!(u64, f32),
        ("f32", "f32") => all!(f32, f32),
        ("u32", "i64") => all!(u32, i64),
        ("u64", "u64") => all!(u64, u64),
        (from, to) => panic!("no cast from {from} to {to} here"),
    }
}
