//! `wavetrain bench`: streams a request list and says how fast.
//!
//! One loader is opened once; the list is replayed `--repeat` times through it. The figures are
//! those of the repeat with the median time, so that they belong together; open and the first batch
//! are those of the first repeat, where nothing is warm.

mod options;

pub use options::{Options, help};

use crate::augments::{self, Change};
use crate::budget;
use crate::digests::{Digests, Expected};
use crate::fault::{Fault, Outcome, failed, failure_text};
use crate::feed::{self, Known, List, Receiver, Stop};
use crate::fields::ConfigFlags;
use crate::progress::Progress;
use crate::report;
use crate::requests::{LineList, Requests};
use crate::samples::{Fields, Samples};
use crate::shared;
use crate::spelling::spelled;
use crate::staging;
use crate::store;
use crate::system;
use crate::trace;
use options::{checked, consumer, options};
use serde_json::{Value, json};
use std::time::Instant;
use wavetrain::abi::Stats;
use wavetrain::config::{BACKEND_CUDA, ON_ERROR_FAIL};
use wavetrain::loader::{Batch, Failure, Loader};

/// One replay of the list.
pub struct Repeat {
    /// Samples that were popped.
    pub samples: u64,
    /// Those of them that failed, and those that push refused.
    pub failed: u64,
    /// First push to last pop.
    pub seconds: f64,
    /// First push to first pop.
    pub first_batch_seconds: f64,
    /// CPU time of all threads.
    pub cpu_seconds: f64,
    /// By batch, the checksums of its fields.
    pub crcs: Vec<Vec<u32>>,
    /// By field, if they are asked for.
    pub sums: Vec<u64>,
    /// By sample, if they are asked for.
    pub digests: Digests,
    /// The library's figures.
    pub stats: Stats,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(mut options) = options(parser)? else { return Ok(()) };
    if let Some(consumer) = consumer(&options)? {
        return consumer.run();
    }
    let list = checked(&mut options)?;
    match &options.fields {
        None => {
            let file = options.augment.as_deref();
            let change = file.map_or(Ok(Change::default()), augments::read)?;
            let mut requests = Requests { change, ..Requests::default() };
            requests.add_all(&list)?;
            let types = feed::element_types(&requests.uris.list, options.flags.config.cf);
            prepare(&mut options.flags, &requests, &types)?;
            measure(&options, &requests, requests.source_bytes(&types))
        }
        Some(fields) => {
            let mut samples =
                Samples::beginning_at(0, Fields::read(fields, options.augment.as_deref())?);
            samples.add_all(&list)?;
            let (config, types) = samples.prepare(&options.flags)?;
            options.flags.config = config;
            measure(&options, &samples, samples.source_bytes(&types))
        }
    }
}

/// Streams the list as often as it is to be, and tells the figures.
fn measure<L: List>(options: &Options, list: &L, source_bytes: f64) -> Outcome<()> {
    if options.asked.share.is_some() {
        return shared::measure(options, list, source_bytes);
    }
    let config = options.flags.config;
    let expected = options.digest_from.as_ref().map(|path| Expected::read(path, list));
    let expected = expected.transpose()?;
    let bill = store::memory_need(&config).map_err(|failure| Fault::library(&failure))?;
    system::peak_rss_reset();
    let begin = Instant::now();
    let loader = feed::open(&config).map_err(|failure| Fault::library(&failure))?;
    let open_seconds = begin.elapsed().as_secs_f64();
    let mut repeats = Vec::new();
    for _ in 0..options.repeat {
        let repeat = replay(&loader, options, list, expected.as_ref());
        repeats.push(repeat.map_err(|stop| feed::stop_fault(stop, list))?);
    }
    let peak_rss_bytes = system::peak_rss_bytes();
    if let Some(path) = &options.trace {
        trace::write(&loader, config.trace_events, path)?;
        let last = repeats.last().and_then(|last| trace::lost(&last.stats, config.trace_events));
        last.into_iter().for_each(|note| report::warn(&note));
    }
    loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))?;

    check_repeats(&repeats, list.fields())?;
    if let Some(path) = &options.digest_to {
        repeats[0].digests.write(list, path)?;
    }
    let median = median(&repeats);
    let failures = repeats.iter().map(|repeat| repeat.failed).max().unwrap_or(0);
    let mut figures = json!({
        "backend": report::name_text(&median.stats.backend_text),
        "limit": spelled(&report::name_text(&median.stats.limit_text)),
        "samples": median.samples,
        "failed": failures,
        "seconds": median.seconds,
        "samples_per_s": median.samples as f64 / median.seconds,
        "open_seconds": open_seconds,
        "first_batch_seconds": repeats[0].first_batch_seconds,
        "voxel_gb_per_s": source_bytes / median.seconds * 1e-9,
        "cpu_seconds": median.cpu_seconds,
        "peak_rss_bytes": peak_rss_bytes,
        "bill_bytes": budget::total(&bill),
        "chunks_decoded": median.stats.decode.count,
        "bytes_read": median.stats.io.input_bytes,
        "stages": report::stages_json(&median.stats),
    });
    add_where_asked(&mut figures, options, &repeats, median);
    add_checks(&mut figures, options, median, list.fields());
    if options.json {
        report::print_json(&figures)?;
    } else {
        report::print(&table(&figures, &median.stats, list.fields()))?;
    }
    match failures {
        0 => Ok(()),
        count => failed(format!("{count} of {} samples failed", list.len())),
    }
}

/// The replay of the median time.
pub fn median(repeats: &[Repeat]) -> &Repeat {
    let mut order: Vec<&Repeat> = repeats.iter().collect();
    order.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    order[(order.len() - 1) / 2]
}

/// Adds what batches can be compared by.
pub fn add_checks(figures: &mut Value, options: &Options, median: &Repeat, fields: &[String]) {
    if options.verify {
        figures["crcs"] = match fields {
            [] => median.crcs.iter().flatten().copied().collect(),
            _ => json!(median.crcs),
        };
    }
    if options.flags.config.digest == 1 {
        let hex = |sum: &u64| format!("{sum:016x}");
        let named = || fields.iter().cloned().zip(median.sums.iter().map(hex)).collect();
        figures["digest"] = if fields.is_empty() { json!(hex(&median.sums[0])) } else { named() };
    }
}

/// Adds the figures of what not every bench has.
pub fn add_where_asked(
    figures: &mut Value,
    options: &Options,
    repeats: &[Repeat],
    median: &Repeat,
) {
    if options.flags.config.chunk_cache_bytes > 0 {
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
}

/// Sets the sample shape, which all boxes share, and fits the caps to the arrays that can be read:
/// the failure of another comes out of the stream, in order.
fn prepare(flags: &mut ConfigFlags, requests: &Requests, types: &[Option<Known>]) -> Outcome<()> {
    let shape = requests.items[0].1.shape();
    if let Some(other) = requests.items.iter().position(|item| item.1.shape() != shape) {
        return failed(format!(
            "all boxes of a bench have one shape: request 0 has {}, {} does not",
            report::crosses(&shape),
            requests.name(other)
        ));
    }
    feed::set_shape(&mut flags.config, &shape)?;
    let mut config = flags.config;
    let indices = requests.items.iter().map(|item| item.1.indices());
    feed::set_indices(&mut config, flags, indices);
    flags.config = config;
    if !flags.caps_given() {
        if !flags.is_given("max_resample_bytes") {
            let field = (flags.config.pad_mode, flags.config.cf);
            let boxes = (0..requests.items.len()).map(|index| requests.box_of(index, field));
            staging::fit(&mut flags.config, (&requests.uris.list, types), boxes);
        }
        feed::fit_readable(&mut flags.config, &requests.uris.list, types)?;
    }
    Ok(())
}

fn replay<L: List>(
    loader: &Loader,
    options: &Options,
    list: &L,
    expected: Option<&Expected>,
) -> Result<Repeat, Stop> {
    loader.stats_reset()?;
    let progress = Progress::begin(Some(list.len() as u64), "streaming");
    let cpu = system::cpu_seconds();
    let begin = Instant::now();
    let mut taker = Taker {
        options,
        list,
        expected,
        begin,
        samples: 0,
        failed: 0,
        first_batch_seconds: None,
        crcs: Vec::new(),
        digests: Digests::of(list),
    };
    let timeout_ns = options.flags.config.pop_timeout_ns;
    feed::stream(loader, list, 0..list.len(), timeout_ns, &progress, &mut taker)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Repeat {
        samples: taker.samples,
        failed: taker.failed,
        seconds,
        first_batch_seconds: taker.first_batch_seconds.unwrap_or(seconds),
        cpu_seconds: system::cpu_seconds() - cpu,
        crcs: taker.crcs,
        sums: taker.digests.sums(),
        digests: taker.digests,
        stats: loader.stats()?,
    })
}

/// Takes the batches of one replay.
struct Taker<'a, L: List> {
    options: &'a Options,
    list: &'a L,
    expected: Option<&'a Expected>,
    begin: Instant,
    samples: u64,
    failed: u64,
    first_batch_seconds: Option<f64>,
    crcs: Vec<Vec<u32>>,
    digests: Digests,
}

impl<L: List> Receiver for Taker<'_, L> {
    fn take(&mut self, batch: &Batch<'_>) -> Outcome<()> {
        self.first_batch_seconds.get_or_insert_with(|| self.begin.elapsed().as_secs_f64());
        self.samples += batch.tags().len() as u64;
        for (tag, code) in batch.tags().iter().zip(batch.statuses()) {
            if *code != 0 {
                self.failed += 1;
                let text = system::take_text(*tag).unwrap_or_default();
                let index = (*tag - 1) as usize;
                report::warn(&format!("{}: {text}", self.list.name(index)));
            }
        }
        if self.options.verify {
            let count = self.list.fields().len();
            self.crcs.push(feed::each_field(batch, count, crc32fast::hash)?);
        }
        if self.options.flags.config.digest == 1 {
            self.digests.take(self.list, batch, self.expected)?;
        }
        Ok(())
    }

    /// A sample that push refuses is skipped like one that fails later, except where digests go by
    /// the position in the list.
    fn refuse(&mut self, index: usize, failure: &Failure) -> bool {
        let config = &self.options.flags.config;
        let is_skipped = config.on_error != ON_ERROR_FAIL && config.digest == 0;
        if is_skipped {
            self.failed += 1;
            report::warn(&format!("{}: {}", self.list.name(index), failure_text(failure)));
        }
        is_skipped
    }
}

/// The same pushes give the same bytes: a repeat that differs is a failure.
pub fn check_repeats(repeats: &[Repeat], fields: &[String]) -> Outcome<()> {
    let first = &repeats[0];
    for (number, repeat) in repeats.iter().enumerate() {
        let mut pairs = first.crcs.iter().zip(&repeat.crcs);
        if let Some(batch) = pairs.position(|(a, b)| a != b) {
            let (a, b) = (&first.crcs[batch], &repeat.crcs[batch]);
            let differing = fields.iter().zip(a.iter().zip(b)).find(|(_, (a, b))| a != b);
            let field = differing.map_or(String::new(), |(name, _)| format!("field {name} of "));
            return failed(format!(
                "{field}batch {batch} of repeat {number} differs from repeat 0"
            ));
        }
        if let Some(field) = (0..first.sums.len()).find(|at| first.sums[*at] != repeat.sums[*at]) {
            let field = fields.get(field).map_or(String::new(), |name| format!(" of field {name}"));
            return failed(format!("the digest{field} of repeat {number} differs from repeat 0"));
        }
        if repeat.samples != first.samples {
            return failed(format!("repeat {number} gave {} samples", repeat.samples));
        }
    }
    Ok(())
}

fn table(figures: &Value, stats: &Stats, fields: &[String]) -> String {
    let real = |name: &str| figures[name].as_f64().unwrap_or(0.0);
    let bytes = |name: &str| report::bytes_long(figures[name].as_u64().unwrap_or(0));
    let mut text = format!(
        "  samples          {} in {} = {:.1} samples/s, {:.3} GB/s of source voxels\n  \
         failed           {}\n  \
         first batch      {} after the first push; open took {}\n  \
         CPU              {}\n  \
         memory           {} at most, {} billed\n  \
         backend          {}\n  \
         read             {}; {} chunks decoded\n  \
         limit            {}\n\n",
        figures["samples"],
        report::seconds_long(real("seconds")),
        real("samples_per_s"),
        real("voxel_gb_per_s"),
        figures["failed"],
        report::seconds_long(real("first_batch_seconds")),
        report::seconds_long(real("open_seconds")),
        report::seconds_long(real("cpu_seconds")),
        bytes("peak_rss_bytes"),
        bytes("bill_bytes"),
        figures["backend"].as_str().unwrap_or(""),
        bytes("bytes_read"),
        figures["chunks_decoded"],
        match figures["limit"].as_str().unwrap_or("") {
            "" => "unknown: too few batches; see --repeat",
            limit => limit,
        },
    );
    if stats.backend == BACKEND_CUDA {
        text.push_str(&report::decoded_lines(stats));
    }
    text.push_str(&stages_and_checks(figures, stats, fields));
    text
}

/// The end of a table: the cache, the stages, and the values by which batches are compared.
pub fn stages_and_checks(figures: &Value, stats: &Stats, fields: &[String]) -> String {
    let mut text = String::new();
    if let Some(cache) = figures["chunk_cache"].as_object() {
        text.push_str(&format!(
            "         chunk cache      {} hits, {} misses, {} evictions\n\n",
            cache["hits"], cache["misses"], cache["evictions"],
        ));
    }
    text.push_str(&report::stages_table(stats));
    match &figures["digest"] {
        Value::String(sum) => text.push_str(&format!("\n  digest: {sum}\n")),
        Value::Object(sums) => sums.iter().for_each(|(name, sum)| {
            text.push_str(&format!("\n  digest of {name}: {}\n", sum.as_str().unwrap_or("")));
        }),
        _ => {}
    }
    if let Some(crcs) = figures["crcs"].as_array() {
        let hex = |crc: &Value| format!("{:08x}", crc.as_u64().unwrap_or(0));
        let line =
            |what: &str, list: Vec<String>| format!("\n  CRC-32 of {what}: {}\n", list.join(" "));
        if fields.is_empty() {
            text.push_str(&line("the batches", crcs.iter().map(hex).collect()));
        }
        for (number, name) in fields.iter().enumerate() {
            text.push_str(&line(name, crcs.iter().map(|batch| hex(&batch[number])).collect()));
        }
    }
    text
}
