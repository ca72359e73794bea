//! Cost curves: what a sample costs as one size grows, everything else as it was. All are to be
//! flat, or to be explained by what the system does (a file that must be opened).
//!
//! In: small painted arrays in a folder under target/, removed at the end. Out: a table, with
//! `--json` one line of JSON per point. `--only TEXT` takes the curves whose name contains it,
//! `--size N` their points of that size (for a profiler); `--seconds S` is how long a point is
//! measured [0.2].
//!
//! A sample is one box of one chunk of 8x8x8 uint16, uncompressed, as f32, so that almost all that
//! is measured is bookkeeping. The instance runs on the calling thread (pump), which repeats best;
//! `--threads N` gives it N decoding threads of its own, and with them waking and contention. The
//! first pass over a point's requests is measured apart: it opens files, loads metadata and checks
//! indexes.
//!
//!     cargo bench --bench scale -- --only "lookahead" --seconds 1

mod common;

use common::{Array, Codec, Dice, Scratch, Triple, cpu_seconds, flag_value, has_flag};
use serde_json::json;
use std::time::Instant;
use wavetrain::config::{BACKEND_HOST, Config, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::{Batch, Loader, Pop, Request};
use wavetrain::os::SYSTEM;

const CHUNK: Triple = [8, 8, 8];
const PATIENCE_NS: u64 = 60_000_000_000;
/// Parts that a point's time is cut into. Its figure is the cheapest, since neighbours on the
/// machine only add.
const PARTS: usize = 5;
/// A curve is flat where no point costs more than this many times a smaller one.
const FLAT: f64 = 1.5;

/// A box to be asked for.
#[derive(Clone)]
struct Item {
    uri: String,
    begin: [i64; 3],
    end: [i64; 3],
}

/// One point of a curve.
struct Point {
    size: u64,
    config: Config,
    items: Vec<Item>,
    /// What is counted for each sample: itself, or its chunks.
    units: u64,
}

struct Curve {
    name: &'static str,
    /// Why a rise is not a defect, where one is expected.
    note: &'static str,
    unit: &'static str,
    points: Vec<Point>,
}

/// Microseconds for each unit.
struct Cost {
    cpu: f64,
    wall: f64,
    first_pass_wall: f64,
    units: u64,
}

/// The stores that curves share, made when they are first needed.
struct Stores {
    scratch: Scratch,
    array_count: usize,
}

fn main() {
    let seconds = flag_value("--seconds").map_or(0.2, |text| text.parse().expect("--seconds S"));
    let only = flag_value("--only").unwrap_or_default();
    let mut stores = Stores { scratch: Scratch::new("scale"), array_count: 0 };
    let mut risen = Vec::new();
    for (name, make) in CURVES {
        if !name.contains(&only) {
            continue;
        }
        let curve = Curve { name, ..make(&mut stores) };
        if !measure(&curve, seconds) {
            risen.push(format!("{name}{}", curve.note));
        }
    }
    if !has_flag("--json") {
        println!("\nnot flat: {}", if risen.is_empty() { "none".into() } else { risen.join("; ") });
    }
}

type Make = fn(&mut Stores) -> Curve;

const CURVES: &[(&str, Make)] = &[
    ("lookahead_samples, one array", |stores| lookahead(stores, 1)),
    ("lookahead_samples, 256 arrays", |stores| lookahead(stores, 256)),
    ("samples_per_batch", samples_per_batch),
    ("max_chunks_per_wave, batches of 1", |stores| chunks_per_wave(stores, 1)),
    ("max_chunks_per_wave, batches of 1024", |stores| chunks_per_wave(stores, 1024)),
    ("chunks per sample", chunks_per_sample),
    ("n_shard_index_cache, 16 pages used", |stores| index_cache(stores, 16)),
    ("n_shard_index_cache, every page missed", |stores| index_cache(stores, 3906)),
    ("metadata_io_concurrency, every page missed", |stores| concurrency(stores, false)),
    ("metadata_io_concurrency, every array missed", |stores| concurrency(stores, true)),
    ("n_chunk_layout_cache, 16 files used", |stores| layout_cache(stores, 16)),
    ("n_chunk_layout_cache, every file missed", |stores| layout_cache(stores, 2048)),
    ("n_array_meta_cache, 16 arrays used", |stores| meta_cache(stores, 16)),
    ("n_array_meta_cache, every array missed", |stores| meta_cache(stores, 2048)),
    ("arrays, all cached", |stores| arrays(stores, true)),
    ("arrays, caches as by default", |stores| arrays(stores, false)),
    ("chunks per shard, index cached", |stores| chunks_per_shard(stores, 4096)),
    ("chunks per shard, every page missed", |stores| chunks_per_shard(stores, 1)),
];

/// Batches of 16 samples of one chunk.
fn config() -> Config {
    let threads = flag_value("--threads").map_or(0, |text| text.parse().expect("--threads N"));
    let mut config = Config {
        samples_per_batch: 16,
        sample_rank: 3,
        backend: BACKEND_HOST,
        thread_mode: if threads == 0 { THREADS_PUMP } else { THREADS_OWN },
        n_decode_threads: threads.max(1),
        max_chunk_uncompressed_bytes: 1 << 20,
        max_host_memory_bytes: 4 << 30,
        n_io_threads: 4,
        n_batch_slots: 4,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&CHUNK);
    config
}

fn item(uri: &str, chunk: Triple) -> Item {
    let begin = [0, 1, 2].map(|axis| (chunk[axis] * CHUNK[axis]) as i64);
    Item { uri: uri.to_owned(), begin, end: [0, 1, 2].map(|axis| begin[axis] + CHUNK[axis] as i64) }
}

fn shuffle<T>(items: &mut [T]) {
    let mut dice = Dice(5);
    for at in (1..items.len()).rev() {
        items.swap(at, dice.below(at as u64 + 1) as usize);
    }
}

fn cells(edge: u64) -> impl Iterator<Item = Triple> {
    (0..edge.pow(3)).map(move |cell| [cell / (edge * edge), cell / edge % edge, cell % edge])
}

impl Stores {
    /// One shard of 16^3 chunks, all there: 4,096 different samples in shuffled order.
    fn one_array(&mut self) -> Vec<Item> {
        let uri = self.scratch.uri("one");
        let chunks: Vec<Triple> = cells(16).collect();
        if !std::path::Path::new(&uri).exists() {
            let shape = CHUNK.map(|edge| edge * 16);
            Array { shape, chunk: CHUNK, shard: Some(shape), codec: Codec::Raw }
                .write(&uri, &chunks);
        }
        let mut items: Vec<Item> = chunks.iter().map(|chunk| item(&uri, *chunk)).collect();
        shuffle(&mut items);
        items
    }

    /// `count` arrays of one chunk in one file each.
    fn arrays(&mut self, count: usize) -> Vec<Item> {
        let uris: Vec<String> =
            (0..count).map(|n| self.scratch.uri(&format!("many/{n}"))).collect();
        let array = Array { shape: CHUNK, chunk: CHUNK, shard: None, codec: Codec::Raw };
        for uri in uris.iter().skip(self.array_count) {
            array.write(uri, &[[0; 3]]);
        }
        self.array_count = self.array_count.max(count);
        uris.iter().map(|uri| item(uri, [0; 3])).collect()
    }
}

fn lookahead(stores: &mut Stores, arrays: usize) -> Curve {
    let mut items = if arrays == 1 { stores.one_array() } else { stores.arrays(arrays) };
    shuffle(&mut items);
    let point = |size: u64| Point {
        size,
        config: Config { lookahead_samples: size as u32, n_array_meta_cache: 512, ..config() },
        items: items.clone(),
        units: 1,
    };
    let points = [16, 64, 256, 1024, 4096].map(point).into();
    Curve { name: "", note: "", unit: "sample", points }
}

fn samples_per_batch(stores: &mut Stores) -> Curve {
    let items = stores.one_array();
    let point = |size: u64| Point {
        size,
        config: Config { samples_per_batch: size as u32, ..config() },
        items: items.clone(),
        units: 1,
    };
    let points = [1, 4, 16, 64, 256, 1024, 4096].map(point).into();
    let note = " (a batch has costs of its own, which small ones share among fewer samples)";
    Curve { name: "", note, unit: "sample", points }
}

fn chunks_per_wave(stores: &mut Stores, batch: u32) -> Curve {
    let items = stores.one_array();
    let point = |size: u64| Point {
        size,
        config: Config {
            samples_per_batch: batch,
            lookahead_samples: 4096,
            n_batch_slots: 16,
            max_chunks_per_wave: size as u32,
            ..config()
        },
        items: items.clone(),
        units: 1,
    };
    let points = [16, 64, 512, 4096, 32768].map(point).into();
    Curve { name: "", note: "", unit: "sample", points }
}

/// Boxes over ever more chunks of 2x2x2, which do not exist, in one shard.
fn chunks_per_sample(stores: &mut Stores) -> Curve {
    let chunk = [2; 3];
    let uri = stores.scratch.uri("tiny");
    let edge = 64;
    let shape = [2 * edge; 3];
    Array { shape, chunk, shard: Some(shape), codec: Codec::Raw }.write(&uri, &[[0; 3]]);
    let point = |edge: u64| {
        let mut config = Config { samples_per_batch: 1, n_shard_index_cache: 2048, ..config() };
        config.sample_shape[..3].copy_from_slice(&[2 * edge; 3]);
        let end = [2 * edge as i64; 3];
        let items = vec![Item { uri: uri.clone(), begin: [0; 3], end }];
        Point { size: edge.pow(3), config, items, units: edge.pow(3) }
    };
    let points = [4, 8, 16, 32, 64].map(point).into();
    Curve { name: "", note: "", unit: "chunk", points }
}

/// One shard of a million chunks, of whose 3,907 index pages the samples use `pages`, in turn.
fn index_cache(stores: &mut Stores, pages: u64) -> Curve {
    let uri = stores.scratch.uri(&format!("pages{pages}"));
    let chunk_of = |page: u64| {
        let number = page * 256 + page % 256;
        [number / 10_000, number / 100 % 100, number % 100]
    };
    let chunks: Vec<Triple> = (0..pages).map(chunk_of).collect();
    let shape = CHUNK.map(|edge| edge * 100);
    Array { shape, chunk: CHUNK, shard: Some(shape), codec: Codec::Raw }.write(&uri, &chunks);
    let items: Vec<Item> = chunks.iter().map(|chunk| item(&uri, *chunk)).collect();
    let point = |size: u64| Point {
        size,
        config: Config { n_shard_index_cache: size as u32, ..config() },
        items: items.clone(),
        units: 1,
    };
    let sizes = if pages == 16 { [64, 256, 1024, 4096, 16384] } else { [16, 64, 256, 1024, 3584] };
    Curve { name: "", note: "", unit: "sample", points: sizes.map(point).into() }
}

/// Lookups that may wait at a time, where every sample needs one, in batches of 1024.
fn concurrency(stores: &mut Stores, is_meta: bool) -> Curve {
    let items = match is_meta {
        true => stores.arrays(2048),
        false => index_cache(stores, 3906).points.remove(0).items,
    };
    let point = |size: u64| Point {
        size,
        config: Config {
            samples_per_batch: 1024,
            metadata_io_concurrency: size as u32,
            n_shard_index_cache: 16,
            n_array_meta_cache: 1536,
            ..config()
        },
        items: items.clone(),
        units: 1,
    };
    let points = [4, 16, 64, 256, 1024].map(point).into();
    Curve { name: "", note: "", unit: "sample", points }
}

/// One array of as many files as chunks, of which the samples use `files`, in turn.
fn layout_cache(stores: &mut Stores, files: u64) -> Curve {
    let uri = stores.scratch.uri(&format!("files{files}"));
    let chunks: Vec<Triple> = (0..files).map(|n| [0, 0, n]).collect();
    let shape = [CHUNK[0], CHUNK[1], CHUNK[2] * files];
    Array { shape, chunk: CHUNK, shard: None, codec: Codec::Raw }.write(&uri, &chunks);
    let items: Vec<Item> = chunks.iter().map(|chunk| item(&uri, *chunk)).collect();
    let point = |size: u64| Point {
        size,
        config: Config { n_chunk_layout_cache: size as u32, ..config() },
        items: items.clone(),
        units: 1,
    };
    let sizes =
        if files == 16 { [64, 1024, 4096, 16384, 65536] } else { [64, 128, 256, 1024, 1536] };
    Curve { name: "", note: "", unit: "sample", points: sizes.map(point).into() }
}

/// Arrays of one chunk; `count` of them are used, in turn.
fn meta_cache(stores: &mut Stores, count: usize) -> Curve {
    let items = stores.arrays(count);
    let point = |size: u64| Point {
        size,
        config: Config { n_array_meta_cache: size as u32, ..config() },
        items: items.clone(),
        units: 1,
    };
    let sizes = if count == 16 { [64, 256, 1024, 4096, 16384] } else { [64, 128, 256, 1024, 1536] };
    Curve { name: "", note: "", unit: "sample", points: sizes.map(point).into() }
}

/// Ever more arrays, each of one chunk in a file of its own, in shuffled order.
fn arrays(stores: &mut Stores, is_cached: bool) -> Curve {
    let point = |count: u64| {
        let mut items = stores.arrays(count as usize);
        shuffle(&mut items);
        let mut config = config();
        if is_cached {
            config.n_array_meta_cache = 16384;
            config.n_chunk_layout_cache = 16384;
        }
        Point { size: count, config, items, units: 1 }
    };
    let note = match is_cached {
        true => {
            " (an instance keeps half of the descriptors that its process may have: beyond, samples open files)"
        }
        false => " (beyond 64 arrays each sample loads its array)",
    };
    let points = [16, 64, 256, 1024, 10_000].map(point).into();
    Curve { name: "", note, unit: "sample", points }
}

/// The same 512 chunks in ever fewer, ever larger shards.
fn chunks_per_shard(stores: &mut Stores, pages: u32) -> Curve {
    let point = |edge: u64| {
        // As many shards along the last axis as it takes to spread the chunks.
        let shards = (512 / edge.pow(3)).max(1);
        let uri = stores.scratch.uri(&format!("shards{edge}-{pages}"));
        let count = shards * edge.pow(3);
        let mut dice = Dice(9);
        let mut chosen: Vec<u64> = (0..count).collect();
        for at in 0..512 {
            chosen.swap(at, at + dice.below(count - at as u64) as usize);
        }
        let place = |number: u64| {
            let (shard, within) = (number / edge.pow(3), number % edge.pow(3));
            [within / (edge * edge), within / edge % edge, shard * edge + within % edge]
        };
        let chunks: Vec<Triple> = chosen[..512].iter().map(|number| place(*number)).collect();
        let shard = CHUNK.map(|extent| extent * edge);
        let shape = [shard[0], shard[1], shard[2] * shards];
        Array { shape, chunk: CHUNK, shard: Some(shard), codec: Codec::Raw }.write(&uri, &chunks);
        Point {
            size: edge.pow(3),
            config: Config { n_shard_index_cache: pages, ..config() },
            items: chunks.iter().map(|chunk| item(&uri, *chunk)).collect(),
            units: 1,
        }
    };
    let points = match pages {
        1 => [10, 22, 32, 47, 68, 100].map(point).into(),
        _ => [1, 2, 4, 10, 22, 47, 100].map(point).into(),
    };
    let note = match pages {
        1 => " (the first point has 4 pages, of which one is cached)",
        _ => "",
    };
    Curve { name: "", note, unit: "sample", points }
}

/// Measures and prints a curve; whether it is flat. A curve may fall.
fn measure(curve: &Curve, seconds: f64) -> bool {
    let is_json = has_flag("--json");
    if !is_json {
        println!("\n{}", curve.name);
        let unit = curve.unit;
        println!(
            "{:>10} {:>14} {:>14} {:>10} {:>22}",
            "",
            format!("CPU us/{unit}"),
            format!("wall us/{unit}"),
            "x least",
            "first pass wall us"
        );
    }
    let (mut least, mut is_flat) = (f64::INFINITY, true);
    let size = flag_value("--size").map(|text| text.parse::<u64>().expect("--size N"));
    for point in curve.points.iter().filter(|point| size.is_none_or(|size| size == point.size)) {
        let cost = cost(point, seconds);
        least = least.min(cost.cpu);
        is_flat &= cost.cpu <= FLAT * least;
        if is_json {
            let line = json!({
                "curve": curve.name,
                "size": point.size,
                "unit": curve.unit,
                "cpu_us": cost.cpu,
                "wall_us": cost.wall,
                "first_pass_wall_us": cost.first_pass_wall,
                "units_measured": cost.units,
            });
            println!("{line}");
        } else {
            println!(
                "{:>10} {:>14.3} {:>14.3} {:>10.2} {:>22.3}",
                point.size,
                cost.cpu,
                cost.wall,
                cost.cpu / least,
                cost.first_pass_wall
            );
        }
    }
    is_flat
}

fn cost(point: &Point, seconds: f64) -> Cost {
    let loader =
        Loader::open_on(&SYSTEM, &point.config).unwrap_or_else(|failure| panic!("open: {failure}"));
    let requests: Vec<Request<'_>> = point
        .items
        .iter()
        .map(|item| Request { uri: &item.uri, begin: &item.begin, end: &item.end, tag: 0 })
        .collect();
    let begin = Instant::now();
    let mut next = 0;
    let first = stream(&loader, &requests, &mut next, |count| count < requests.len() as u64);
    let first_pass_wall = begin.elapsed().as_secs_f64() * 1e6 / (first * point.units) as f64;
    let (mut cpu, mut wall, mut units) = (f64::INFINITY, f64::INFINITY, 0);
    for _ in 0..PARTS {
        let (cpu_begin, begin) = (cpu_seconds(), Instant::now());
        let deadline = seconds / PARTS as f64;
        let is_early = |_| begin.elapsed().as_secs_f64() < deadline;
        let done = stream(&loader, &requests, &mut next, is_early);
        let done = done * point.units;
        wall = wall.min(begin.elapsed().as_secs_f64() * 1e6 / done as f64);
        cpu = cpu.min((cpu_seconds() - cpu_begin) * 1e6 / done as f64);
        units += done;
    }
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    Cost { cpu, wall, first_pass_wall, units }
}

/// Streams the requests from number `next` on, over and over, while `goes_on(samples pushed)`; how
/// many came out.
fn stream(
    loader: &Loader,
    requests: &[Request<'_>],
    next: &mut usize,
    goes_on: impl Fn(u64) -> bool,
) -> u64 {
    let (mut pushed, mut popped, mut is_flushed) = (0, 0, false);
    loop {
        while !is_flushed {
            if !goes_on(pushed) {
                loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
                is_flushed = true;
                break;
            }
            let rest = &requests[*next..];
            let taken = loader.push(rest, 0).unwrap_or_else(|failure| panic!("push: {failure}"));
            pushed += taken as u64;
            *next = (*next + taken) % requests.len();
            if taken < rest.len() {
                break;
            }
        }
        match loader.pop(PATIENCE_NS).unwrap_or_else(|failure| panic!("pop: {failure}")) {
            Pop::Batch(batch) => popped += samples(&batch),
            Pop::End | Pop::Reset => return popped,
            Pop::Again(why) | Pop::Starved(why) => panic!("no batch: {}", why.as_str()),
        }
    }
}

fn samples(batch: &Batch<'_>) -> u64 {
    assert!(batch.statuses().iter().all(|status| *status == 0));
    std::hint::black_box(batch.data()[0]);
    batch.tags().len() as u64
}
