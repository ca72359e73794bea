//! `wavetrain bench`: streams a request list and says how fast.
//!
//! One loader is opened once; the list is replayed `--repeat` times through it. The figures are
//! those of the repeat with the median time, so that they belong together; open and the first batch
//! are those of the first repeat, where nothing is warm.

use crate::budget;
use crate::fault::{Fault, Outcome, failed, usage};
use crate::feed::{self, ElementType, Stop};
use crate::fields::{ConfigFlags, fields_help};
use crate::report;
use crate::requests::Requests;
use crate::system;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;
use wavetrain::abi::Stats;
use wavetrain::config::BACKEND_CUDA;
use wavetrain::loader::{self, Batch, Loader};

const HELP: &str = "\
Streams the boxes of a request list and measures.

  wavetrain bench --requests REQS.jsonl --batch 8 [--json] [--repeat R] [--verify] [config flags]

A request is a line {\"uri\": \"..\", \"box\": [[0,64],[0,128]]}; all boxes have one shape.

      --requests FILE   the list; '-' reads standard input
      --repeat R        replay the list R times through one instance [1]; figures are those of the
                        repeat of median time, open_seconds and first_batch_seconds of the first
      --verify          add crcs, the CRC-32 (IEEE) of every batch's bytes, in order; not for timing
      --json            one JSON object on standard output

seconds: first push to last pop. first_batch_seconds: first push to first pop. open_seconds: the
instance itself. bill_bytes: what open took. voxel_gb_per_s: source voxels delivered, 10^9 bytes.
peak_rss_bytes: of the process, from before open. backend: where batches are made, and why. reader:
who read chunk data, and why.
decoded_for_device (on a device): chunks that threads of the CPU decoded, by codec; those of them
that were decoded straight into a slab, and those whose shuffle the device undoes.
chunk_cache (with --chunk-cache-bytes): chunks found decoded, decoded, and evicted; decoded bytes of
the hits, and held at the end.

Caps are raised to what the arrays need, unless one is given.

Config (sizes take suffixes: 64MiB, 4k):
";

struct Options {
    flags: ConfigFlags,
    requests: Requests,
    repeat: u32,
    verify: bool,
    json: bool,
}

/// One replay of the list.
struct Repeat {
    samples: u64,
    failed: u64,
    seconds: f64,
    first_batch_seconds: f64,
    cpu_seconds: f64,
    crcs: Vec<u32>,
    stats: Stats,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(mut options) = options(parser)? else { return Ok(()) };
    let types = feed::element_types(&options.requests.uris);
    prepare(&mut options, &types)?;
    let config = options.flags.config;
    let bill = loader::memory_need(&config).map_err(|failure| Fault::library(&failure))?;
    system::peak_rss_reset();
    let begin = Instant::now();
    let loader = feed::open(&config).map_err(|failure| Fault::library(&failure))?;
    let open_seconds = begin.elapsed().as_secs_f64();
    let mut repeats = Vec::new();
    for _ in 0..options.repeat {
        let repeat = replay(&loader, &options);
        repeats.push(repeat.map_err(|stop| feed::stop_fault(stop, &options.requests))?);
    }
    let peak_rss_bytes = system::peak_rss_bytes();
    loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))?;

    check_repeats(&repeats)?;
    let mut order: Vec<usize> = (0..repeats.len()).collect();
    order.sort_by(|a, b| repeats[*a].seconds.total_cmp(&repeats[*b].seconds));
    let median = &repeats[order[(order.len() - 1) / 2]];
    let mut figures = json!({
        "backend": report::name_text(&median.stats.backend_text),
        "samples": median.samples,
        "seconds": median.seconds,
        "samples_per_s": median.samples as f64 / median.seconds,
        "open_seconds": open_seconds,
        "first_batch_seconds": repeats[0].first_batch_seconds,
        "voxel_gb_per_s": source_bytes(&options.requests, &types) / median.seconds * 1e-9,
        "cpu_seconds": median.cpu_seconds,
        "peak_rss_bytes": peak_rss_bytes,
        "bill_bytes": budget::total(&bill),
        "chunks_decoded": median.stats.decode.count,
        "bytes_read": median.stats.io.input_bytes,
        "reader": report::name_text(&median.stats.reader_text),
        "stages": report::stages_json(&median.stats),
    });
    if config.chunk_cache_bytes > 0 {
        figures["chunk_cache"] = json!({
            "hits": median.stats.chunk_cache_hits,
            "misses": median.stats.chunk_cache_misses,
            "evictions": median.stats.chunk_cache_evictions,
            "bytes_saved": median.stats.chunk_cache_bytes_saved,
            "bytes_held": median.stats.chunk_cache_bytes_held,
        });
    }
    if median.stats.backend == BACKEND_CUDA {
        figures["decoded_for_device"] = report::decoded_json(&median.stats);
    }
    if options.repeat > 1 {
        figures["repeat_seconds"] = repeats.iter().map(|repeat| repeat.seconds).collect();
    }
    if options.verify {
        figures["crcs"] = median.crcs.iter().copied().collect();
    }
    if options.json {
        report::print_json(&figures)?;
    } else {
        report::print(&table(&figures, &median.stats))?;
    }
    match median.failed {
        0 => Ok(()),
        count => failed(format!("{count} of {} samples failed", median.samples)),
    }
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short};
    let mut flags = ConfigFlags::new();
    let (mut file, mut repeat, mut verify, mut json) = (None, 1, false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&format!("{HELP}{}", fields_help()))?;
                return Ok(None);
            }
            Long("requests") => file = Some(PathBuf::from(parser.value()?)),
            Long("repeat") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                repeat = match text.parse::<u32>() {
                    Ok(count) if count > 0 => count,
                    _ => return usage(format!("--repeat {text}: not a count of at least 1")),
                };
            }
            Long("verify") => verify = true,
            Long("json") => json = true,
            Long(name) => {
                let name = name.to_owned();
                flags.take_or_refuse(&name, parser, "bench")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(file) = file else { return usage("bench needs --requests FILE") };
    let requests = Requests::read(&file, false)?;
    Ok(Some(Options { flags, requests, repeat, verify, json }))
}

/// Sets the sample shape, which all boxes share, and fits the caps to the arrays that can be read:
/// the failure of another comes out of the stream, in order.
fn prepare(options: &mut Options, types: &[Option<ElementType>]) -> Outcome<()> {
    let requests = &options.requests;
    let shape = requests.items[0].1.shape();
    if let Some(other) = requests.items.iter().position(|item| item.1.shape() != shape) {
        return failed(format!(
            "all boxes of a bench have one shape: request 0 has {}, {} does not",
            report::crosses(&shape),
            requests.name(other)
        ));
    }
    feed::set_shape(&mut options.flags.config, &shape)?;
    if !options.flags.caps_given() {
        let readable = requests.uris.iter().zip(types).filter(|(_, found)| found.is_some());
        let uris: Vec<&str> = readable.map(|(uri, _)| uri.as_str()).collect();
        feed::fit(&mut options.flags.config, &uris).map_err(|failure| Fault::library(&failure))?;
    }
    Ok(())
}

fn replay(loader: &Loader, options: &Options) -> Result<Repeat, Stop> {
    loader.stats_reset()?;
    let (mut samples, mut failed) = (0, 0);
    let mut crcs = Vec::new();
    let mut first_batch_seconds = None;
    let cpu = system::cpu_seconds();
    let begin = Instant::now();
    let indexes = 0..options.requests.items.len();
    let timeout_ns = options.flags.config.pop_timeout_ns;
    feed::stream(loader, &options.requests, indexes, timeout_ns, &mut |batch: &Batch<'_>| {
        first_batch_seconds.get_or_insert_with(|| begin.elapsed().as_secs_f64());
        samples += batch.tags().len() as u64;
        for (tag, code) in batch.tags().iter().zip(batch.statuses()) {
            if *code != 0 {
                failed += 1;
                let text = system::take_text(*tag).unwrap_or_default();
                let index = (*tag - 1) as usize;
                report::warn(&format!("{}: {text}", options.requests.name(index)));
            }
        }
        if options.verify {
            crcs.push(crc32fast::hash(&feed::samples(batch)?));
        }
        Ok(())
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Repeat {
        samples,
        failed,
        seconds,
        first_batch_seconds: first_batch_seconds.unwrap_or(seconds),
        cpu_seconds: system::cpu_seconds() - cpu,
        crcs,
        stats: loader.stats()?,
    })
}

/// The same pushes give the same bytes: a repeat that differs is a failure.
fn check_repeats(repeats: &[Repeat]) -> Outcome<()> {
    let first = &repeats[0];
    for (number, repeat) in repeats.iter().enumerate() {
        let mut pairs = first.crcs.iter().zip(&repeat.crcs);
        if let Some(batch) = pairs.position(|(a, b)| a != b) {
            return failed(format!("batch {batch} of repeat {number} differs from repeat 0"));
        }
        if repeat.samples != first.samples {
            return failed(format!("repeat {number} gave {} samples", repeat.samples));
        }
    }
    Ok(())
}

/// Bytes of the requested voxels in the types of their arrays.
fn source_bytes(requests: &Requests, types: &[Option<ElementType>]) -> f64 {
    let of_item = |(uri, extent): &(usize, crate::requests::Extent)| {
        let element = types[*uri].map_or(0, |(_, bytes)| bytes);
        extent.shape().iter().fold(f64::from(element), |all, axis| all * *axis as f64)
    };
    requests.items.iter().map(of_item).sum()
}

fn table(figures: &Value, stats: &Stats) -> String {
    let real = |name: &str| figures[name].as_f64().unwrap_or(0.0);
    let bytes = |name: &str| report::bytes_long(figures[name].as_u64().unwrap_or(0));
    let mut text = format!(
        "  samples          {} in {} = {:.1} samples/s, {:.3} GB/s of source voxels\n  \
         first batch      {} after the first push; open took {}\n  \
         CPU              {}\n  \
         memory           {} at most, {} billed\n  \
         backend          {}\n  \
         read             {}; {} chunks decoded\n\n",
        figures["samples"],
        report::seconds_long(real("seconds")),
        real("samples_per_s"),
        real("voxel_gb_per_s"),
        report::seconds_long(real("first_batch_seconds")),
        report::seconds_long(real("open_seconds")),
        report::seconds_long(real("cpu_seconds")),
        bytes("peak_rss_bytes"),
        bytes("bill_bytes"),
        figures["backend"].as_str().unwrap_or(""),
        bytes("bytes_read"),
        figures["chunks_decoded"],
    );
    if stats.backend == BACKEND_CUDA {
        text.push_str(&report::decoded_line(stats));
    }
    if let Some(cache) = figures["chunk_cache"].as_object() {
        text.push_str(&format!(
            "         chunk cache      {} hits, {} misses, {} evictions\n\n",
            cache["hits"], cache["misses"], cache["evictions"],
        ));
    }
    text.push_str(&report::stages_table(stats));
    if let Some(crcs) = figures["crcs"].as_array() {
        let list: Vec<String> =
            crcs.iter().map(|crc| format!("{:08x}", crc.as_u64().unwrap_or(0))).collect();
        text.push_str(&format!("\n  CRC-32 of the batches: {}\n", list.join(" ")));
    }
    text
}
