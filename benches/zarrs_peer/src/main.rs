//! Streams a request list through the zarrs crate, the fastest way that its interface has.
//!
//!     cargo build --release --manifest-path benches/zarrs_peer/Cargo.toml
//!     zarrs-peer REQUESTS.jsonl --batch N [--threads 2] [--dtype f32|i64|u64] [--cache-bytes 0]
//!                [--verify]
//!
//! Each thread takes the next box and has it decoded straight into its place in a ring of four
//! batches, or, where types differ, into a buffer of its own and cast from there. Threads meet only
//! where one would overtake the ring; zarrs itself adds no concurrency within a box. Prints one line
//! of JSON with the names of `wavetrain bench --json`.
//!
//! zarrs reads a part of a chunk through a partial decoder. That of a shard keeps the index, and
//! is kept here. That of a compressed chunk decodes the chunk when it is made and keeps the result:
//! a table of those is a cache of decoded chunks, so they are kept only as far as --cache-bytes goes,
//! and the oldest goes first.

mod cast;
mod kept;

use cast::cast;
use kept::Kept;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use unsafe_cell_slice::UnsafeCellSlice;
use zarrs::array::{
    ArrayBytesDecodeIntoTarget, ArrayBytesFixedDisjointView, ArraySubset, CodecOptions,
};

/// Batch buffers that are filled in turn.
const RING: usize = 4;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

struct Options {
    requests: PathBuf,
    batch: usize,
    threads: usize,
    dtype: String,
    cache_bytes: usize,
    verify: bool,
}

struct Request {
    array: usize,
    extent: Vec<Range<u64>>,
}

struct Work {
    arrays: Vec<kept::Array>,
    requests: Vec<Request>,
    elements: usize,
    element_bytes: usize,
    kept: Kept,
}

/// Batch buffers that all threads write, each its own samples. Words, so that all types align.
struct Ring(Vec<*mut u64>);

// SAFETY: samples of a batch are disjoint, and `run` lets nobody into a buffer whose last batch is
// not complete.
unsafe impl Sync for Ring {}

impl Ring {
    fn start(&self, batch: usize) -> *mut u8 {
        self.0[batch % RING].cast()
    }
}

fn main() {
    if let Err(error) = options().and_then(|options| measure(&options)) {
        eprintln!("zarrs-peer: {error}");
        std::process::exit(1);
    }
}

fn options() -> Result<Options> {
    let mut found: HashMap<String, String> = HashMap::new();
    let mut requests = None;
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--verify" => _ = found.insert(argument, String::new()),
            "--batch" | "--threads" | "--dtype" | "--cache-bytes" => {
                let value = rest.next().ok_or_else(|| format!("{argument} needs a value"))?;
                found.insert(argument, value);
            }
            name if name.starts_with('-') => return Err(format!("no option {name}").into()),
            path => requests = Some(PathBuf::from(path)),
        }
    }
    let count = |name: &str, default: usize| -> Result<usize> {
        Ok(found.get(name).map_or(Ok(default), |text| text.parse())?)
    };
    Ok(Options {
        requests: requests.ok_or("REQUESTS.jsonl is missing")?,
        batch: count("--batch", 16)?.max(1),
        threads: count("--threads", 2)?.max(1),
        dtype: found.get("--dtype").map_or("f32", |name| name).to_owned(),
        cache_bytes: count("--cache-bytes", 0)?,
        verify: found.contains_key("--verify"),
    })
}

fn measure(options: &Options) -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(options.threads).build_global()?;
    let begin = Instant::now();
    let work = open(options)?;
    let open_seconds = begin.elapsed().as_secs_f64();
    let words = (options.batch * work.elements * work.element_bytes).div_ceil(8);
    // Written once, so that no page is taken while the clock runs.
    let mut buffers: Vec<Vec<u64>> = (0..RING).map(|_| vec![u64::MAX; words]).collect();
    let ring = Ring(buffers.iter_mut().map(|buffer| buffer.as_mut_ptr()).collect());
    let (cpu, begin) = (usage().0, Instant::now());
    let crcs = run(&work, options, &ring)?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut line = json!({
        "name": "zarrs",
        "samples": work.requests.len(),
        "seconds": seconds,
        "samples_per_s": work.requests.len() as f64 / seconds,
        "cpu_seconds": usage().0 - cpu,
        "open_seconds": open_seconds,
        "peak_rss_bytes": usage().1,
    });
    if options.verify {
        line["crcs"] = crcs.into();
    }
    println!("{line}");
    Ok(())
}

fn open(options: &Options) -> Result<Work> {
    let text = std::fs::read_to_string(&options.requests)?;
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut work = Work {
        arrays: Vec::new(),
        requests: Vec::new(),
        elements: 0,
        element_bytes: cast::bytes_of(&options.dtype)?,
        kept: Kept::new(options.cache_bytes),
    };
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let request: Value = serde_json::from_str(line)?;
        let uri = request["uri"].as_str().ok_or("a request without a uri")?;
        let array = match positions.get(uri) {
            Some(position) => *position,
            None => {
                work.arrays.push(kept::Array::open(uri)?);
                positions.insert(uri.to_owned(), work.arrays.len() - 1);
                work.arrays.len() - 1
            }
        };
        let side = |axis: &Value, at: usize| axis[at].as_u64().ok_or("a box outside its array");
        let axes = request["box"].as_array().ok_or("a request without a box")?;
        let extent: Vec<Range<u64>> =
            axes.iter().map(|axis| Ok(side(axis, 0)?..side(axis, 1)?)).collect::<Result<_>>()?;
        let elements = extent.iter().map(|axis| (axis.end - axis.start) as usize).product();
        if !work.requests.is_empty() && elements != work.elements {
            return Err("all boxes have one shape".into());
        }
        work.elements = elements;
        work.requests.push(Request { array, extent });
    }
    if work.requests.is_empty() { Err("no requests".into()) } else { Ok(work) }
}

/// All requests on all threads; the CRC-32 of every batch where they are asked for.
fn run(work: &Work, options: &Options, ring: &Ring) -> Result<Vec<u32>> {
    let batches = work.requests.len().div_ceil(options.batch);
    let size = |batch: usize| options.batch.min(work.requests.len() - batch * options.batch);
    let remaining: Vec<AtomicUsize> = (0..batches).map(|batch| size(batch).into()).collect();
    let is_done: Vec<AtomicBool> = remaining.iter().map(|_| false.into()).collect();
    let crcs = Mutex::new(vec![0; batches]);
    let failure = Mutex::new(None);
    let next = AtomicUsize::new(0);
    let sample_bytes = work.elements * work.element_bytes;
    let stream = || -> Result<()> {
        let mut buffer: Vec<u64> = vec![1; work.elements];
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(request) = work.requests.get(number)
        {
            let (batch, place) = (number / options.batch, number % options.batch);
            while batch >= RING && !is_done[batch - RING].load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            // SAFETY: the place lies in the batch, and the number was given to this thread alone.
            let sample = unsafe {
                let start = ring.start(batch).add(place * sample_bytes);
                std::slice::from_raw_parts_mut(start, sample_bytes)
            };
            load(work, request, &options.dtype, bytemuck::cast_slice_mut(&mut buffer), sample)?;
            if remaining[batch].fetch_sub(1, Ordering::AcqRel) > 1 {
                continue;
            }
            if options.verify {
                let bytes = size(batch) * sample_bytes;
                // SAFETY: the batch is complete and its buffer not yet free again.
                let bytes = unsafe { std::slice::from_raw_parts(ring.start(batch), bytes) };
                crcs.lock().expect("no thread failed")[batch] = crc32fast::hash(bytes);
            }
            is_done[batch].store(true, Ordering::Release);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                if let Err(error) = stream() {
                    // Lets nobody wait for the batch that does not come.
                    is_done.iter().for_each(|flag| flag.store(true, Ordering::Release));
                    failure.lock().expect("no thread failed").get_or_insert(error);
                }
            });
        }
    });
    match failure.into_inner().expect("no thread failed") {
        Some(error) => Err(error),
        None => Ok(crcs.into_inner().expect("no thread failed")),
    }
}

/// One box into its place; the buffer holds as many elements of eight bytes.
fn load(
    work: &Work,
    request: &Request,
    dtype: &str,
    buffer: &mut [u8],
    sample: &mut [u8],
) -> Result<()> {
    let array = &work.arrays[request.array];
    let box_bytes = work.elements * array.element_bytes;
    if array.dtype == dtype {
        return read(work, request, sample);
    }
    read(work, request, &mut buffer[..box_bytes])?;
    cast(&array.dtype, dtype, &buffer[..box_bytes], sample)
}

/// One box as it is stored, chunk by chunk.
fn read(work: &Work, request: &Request, target: &mut [u8]) -> Result<()> {
    let array = &work.arrays[request.array];
    let options = CodecOptions::default().with_concurrent_target(1);
    let extent = ArraySubset::new_with_ranges(&request.extent);
    let shape = extent.shape().to_vec();
    let cells = UnsafeCellSlice::new(target);
    let view = |subset: ArraySubset| {
        // SAFETY: chunks of an array are disjoint, and the target is this call's alone.
        unsafe { ArrayBytesFixedDisjointView::new(cells, array.element_bytes, &shape, subset) }
    };
    if !array.is_sharded && !work.kept.is_cache() {
        let mut whole = view(ArraySubset::new_with_shape(shape.clone()))?;
        let target = ArrayBytesDecodeIntoTarget::Fixed(&mut whole);
        return Ok(array.array.retrieve_array_subset_into_opt(&extent, target, &options)?);
    }
    let chunks = array.array.chunks_in_array_subset(&extent)?.ok_or("a box outside its array")?;
    for chunk in &chunks.indices() {
        let decoder = work.kept.decoder(request.array, array, &chunk, &options)?;
        let place = array.array.chunk_subset(&chunk)?;
        let part = place.overlap(&extent)?;
        let mut view = view(part.relative_to(extent.start())?)?;
        let target = ArrayBytesDecodeIntoTarget::Fixed(&mut view);
        decoder.partial_decode_into(&part.relative_to(place.start())?, target, &options)?;
    }
    Ok(())
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
