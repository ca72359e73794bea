//! `wavetrain epoch`: what an epoch in a chunk-aware shuffle costs, before and after it runs.
//!
//! The prediction is that of wavetrain::sampler. Then the epoch is streamed, and the counters of
//! the library must lie within the prediction, a tenth aside. `--sweep` does that for one window
//! after the other, and draws what each decodes and mixes.

mod chart;
mod order;

use crate::fault::{Fault, Outcome, failed, usage};
use crate::feed::{self, Stop};
use crate::fields::{ConfigFlags, fields_help, parse_shape};
use crate::progress::Progress;
use crate::report;
use crate::requests::Requests;
use crate::system;
use chart::Row;
use order::{Asked, FITS, Mixing, Plan, Store};
use serde_json::{Value, json};
use std::fmt::Write as _;
use wavetrain::abi::Stats;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{PAD_CONSTANT, PAD_NONE};
use wavetrain::loader::{self, Batch};
use wavetrain::sampler::{ChunkShuffle, Cost};

const HELP: &str = "\
Predicts the cost of an epoch of all boxes of a grid in a chunk-aware shuffle, streams it, compares.

  wavetrain epoch URI [URI ..] --box 64,64,64 [--shuffle-window W] [--sweep] [config flags]

The chunk-aware shuffle is that of wavetrain_epoch.h: boxes are numbered chunk by chunk, cut into
runs, runs are shuffled, and boxes are shuffled within shuffle windows of runs. A chunk is decoded
once for each window that needs it, or less often, if the chunks of a window fit into the chunk
cache.

      --box EXTENTS     of a box, as --sample-shape
      --step EXTENTS    from box to box of the grid [those of the box: side by side]
      --margin EXTENTS  how far boxes may stick out of an array at both ends [0]; what does is
                        padded with --pad-value
      --jitter          a box begins anywhere in its cell of the grid, elsewhere in each epoch
      --run N           boxes of a run [those that belong to one chunk]
      --shuffle-window N  runs of a shuffle window [as many as fit into the chunk cache next to
                        what batches that are not done keep of the window before]
      --seed S          what all is drawn from [0]
      --epoch N         number of the epoch [0]
      --sweep           a line for each of several windows, 1, 2, 4 .. runs, and a chart of them
      --shuffle         streams a full shuffle too, with the same cache
      --dry             predicts, and streams nothing
      --json            one JSON object on standard output; with --sweep one for each window

predicted: chunks that are decoded at least, each once, and at most, if windows fit into the cache.
fits: yes; tight, where batches that are not done may keep out a chunk; or no. decoded: chunks that
were. apart: the distance between two boxes with neighbouring numbers, as a part of their distance
in a full shuffle. meets: how often two boxes of one chunk are in one batch, as a multiple of
how often in a full shuffle. 1 is mixed as well as that.

Without --batch batches have 8 boxes, and without --dtype the type of the first array. Without
--chunk-cache-bytes the cache has room for 16 chunks, at least 256 MiB. Without --lookahead-samples
the library knows the next two windows, of 4096 to 65536 boxes. Arrays have chunks of one size. The
exit code is 1 if a tenth more, or a tenth less, is decoded than predicted. More may be decoded in
windows that do not fit, and in a sweep in tight ones.

Config (sizes take suffixes: 64MiB, 4k):
";

/// The text of --help.
pub fn help() -> String {
    format!("{HELP}{}", fields_help())
}

/// Samples that the library looks ahead where nothing was asked: the chunk cache keeps what it sees
/// coming, and a window that is as small as a few batches is not seen whole by looking that far.
const LOOKAHEAD_MIN: u64 = 4096;
/// The same, at most: some MB of its memory.
const LOOKAHEAD_MAX: u64 = 65536;

/// How much more or less than predicted may be decoded.
const TOLERANCE: f64 = 1.1;

struct Options {
    flags: ConfigFlags,
    uris: Vec<String>,
    asked: Asked,
    sweeps: bool,
    shuffles: bool,
    is_dry: bool,
    json: bool,
}

/// What came of an epoch.
struct Run {
    order: ChunkShuffle,
    cost: Cost,
    mixing: Mixing,
    /// None where nothing was streamed.
    stats: Option<Stats>,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(mut options) = options(parser)? else { return Ok(()) };
    let store = Store::read(&options.uris, &options.asked)?;
    prepare(&mut options, &store)?;
    let mut ends = Vec::new();
    let plan = Plan::new(&store, &mut ends, &options.asked, &options.flags.config)?;
    if !options.json {
        report::print(&plan.text(&options.flags.config))?;
    }
    let windows = if options.sweeps { plan.windows() } else { vec![plan.window()?] };
    if options.sweeps && !options.json {
        report::print(SWEEP_HEAD)?;
    }
    // One for all windows: it has none. It sees as far ahead as the largest.
    let largest = windows.iter().copied().max().unwrap_or(1);
    let shuffled = match options.shuffles {
        true => Some(stream(&options, &plan.order(largest)?, &plan.shuffled()?)?),
        false => None,
    };
    let (mut faults, mut rows) = (Vec::new(), Vec::new());
    for window in windows {
        let run = run_window(&options, &plan, window)?;
        tell(&options, &plan, &run, shuffled.as_ref())?;
        rows.push(row(&plan, &run));
        // A sweep shows windows that are too large, and means no harm.
        let Some(stats) =
            run.stats.filter(|_| !options.sweeps || plan.fit(&run.order, &run.cost) == FITS)
        else {
            continue;
        };
        let room = [plan.room(), plan.needed(&run.order, &run.cost)];
        let fault = broken(&run.cost, room, stats.chunk_cache_misses, stats.chunks_missing);
        faults.extend(fault.map(|fault| format!("shuffle windows of {window} runs: {fault}")));
    }
    if options.sweeps && !options.json {
        rows.extend(shuffled.map(|stats| Row {
            name: "shuffle".to_owned(),
            bytes: stats.chunk_cache_misses.saturating_mul(plan.chunk_bytes()),
            is_open: false,
            meets: Some(1.0),
        }));
        report::print(&chart::draw(
            &rows,
            if options.is_dry { "predicted, + or more" } else { "decoded" },
        ))?;
    }
    if faults.is_empty() { Ok(()) } else { failed(faults.join("\n")) }
}

/// A run as the chart shows it.
fn row(plan: &Plan<'_>, run: &Run) -> Row {
    let chunks = run.stats.as_ref().map_or(run.cost.windows, |stats| stats.chunk_cache_misses);
    Row {
        name: plan.runs_of(&run.order).to_string(),
        bytes: chunks.saturating_mul(plan.chunk_bytes()),
        is_open: run.stats.is_none() && plan.fit(&run.order, &run.cost) != FITS,
        meets: run.mixing.meets,
    }
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short, Value};
    let mut flags = ConfigFlags::new();
    flags.config.samples_per_batch = 8;
    let mut options = Options {
        flags,
        uris: Vec::new(),
        asked: Asked::default(),
        sweeps: false,
        shuffles: false,
        is_dry: false,
        json: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&help())?;
                return Ok(None);
            }
            Long(name @ ("box" | "sample-shape")) => {
                let name = name.to_owned();
                options.asked.extents = list(&name, parser)?;
            }
            Long("sample-rank") => return usage("--sample-rank is that of --box"),
            Long("step") => options.asked.step = list("step", parser)?,
            Long("margin") => options.asked.margin = list("margin", parser)?,
            Long("jitter") => options.asked.jitters = true,
            Long("run") => options.asked.run = Some(count("run", parser, 1)?),
            Long("shuffle-window") => {
                options.asked.window = Some(count("shuffle-window", parser, 1)?)
            }
            Long("seed") => options.asked.seed = count("seed", parser, 0)?,
            Long("epoch") => options.asked.epoch = count("epoch", parser, 0)?,
            Long("sweep") => options.sweeps = true,
            Long("shuffle") => options.shuffles = true,
            Long("dry") => options.is_dry = true,
            Long("json") => options.json = true,
            Value(value) => options.uris.push(value.to_string_lossy().into_owned()),
            Long(name) => {
                let name = name.to_owned();
                options.flags.take_or_refuse(&name, parser, "epoch")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    check(&mut options)?;
    Ok(Some(options))
}

/// Refuses what does not go together, and sets the shape of samples.
fn check(options: &mut Options) -> Outcome<()> {
    if options.uris.is_empty() || options.asked.extents.is_empty() {
        return usage("epoch needs URI and --box EXTENTS");
    }
    if let Some(at) =
        (1..options.uris.len()).find(|at| options.uris[..*at].contains(&options.uris[*at]))
    {
        return usage(format!("{}: named twice", options.uris[at]));
    }
    let rank = options.asked.extents.len();
    for (name, list) in [("step", &options.asked.step), ("margin", &options.asked.margin)] {
        if !list.is_empty() && list.len() != rank {
            return usage(format!("--{name} has {} extents, and --box {rank}", list.len()));
        }
    }
    if options.is_dry && options.shuffles {
        return usage("--dry streams no --shuffle");
    }
    if options.sweeps && options.asked.window.is_some() {
        return usage("--sweep has windows of its own, and takes no --shuffle-window");
    }
    feed::set_shape(&mut options.flags.config, &options.asked.extents)?;
    let config = &options.flags.config;
    if options.flags.is_given("chunk_cache_bytes") && config.chunk_cache_bytes == 0 {
        return usage("--chunk-cache-bytes 0: a chunk-aware shuffle needs a cache for a window");
    }
    if config.drop_last == 1 {
        return usage("--drop-last: an epoch here has all its boxes");
    }
    Ok(())
}

fn list(name: &str, parser: &mut lexopt::Parser) -> Outcome<Vec<u64>> {
    let text = parser.value()?.to_string_lossy().into_owned();
    let mut extents = [0; RANK_MAX];
    match parse_shape(&text, &mut extents) {
        Ok(rank) => Ok(extents[..rank as usize].to_vec()),
        Err(reason) => usage(format!("--{name} {text}: {reason}")),
    }
}

fn count(name: &str, parser: &mut lexopt::Parser, least: u64) -> Outcome<u64> {
    let text = parser.value()?.to_string_lossy().into_owned();
    match text.parse() {
        Ok(count) if count >= least => Ok(count),
        _ => usage(format!("--{name} {text}: not a count of at least {least}")),
    }
}

/// Fills in what the config leaves open.
fn prepare(options: &mut Options, store: &Store) -> Outcome<()> {
    let flags = &mut options.flags;
    let (dtype, dtype_bytes) = store.element_type();
    if !flags.is_given("dtype") {
        flags.config.dtype = dtype;
        flags.config.dtype_bytes = dtype_bytes;
    }
    if !flags.is_given("chunk_cache_bytes") {
        flags.config.chunk_cache_bytes = store.cache_bytes(16).max(256 << 20);
    }
    if store.sticks_out() && flags.config.pad_mode == PAD_NONE {
        if flags.is_given("pad_mode") {
            return usage("--pad-mode none: boxes stick out of their arrays");
        }
        flags.config.pad_mode = PAD_CONSTANT;
    }
    let library = |failure| Fault::library(&failure);
    if !flags.caps_given() {
        let uris: Vec<&str> = options.uris.iter().map(String::as_str).collect();
        feed::fit(&mut flags.config, &uris).map_err(library)?;
    }
    // What is wrong with the config is told before anything is predicted.
    loader::memory_need(&flags.config).map(|_| ()).map_err(library)
}

/// Predicts one window, and streams it.
fn run_window(options: &Options, plan: &Plan<'_>, window: u64) -> Outcome<Run> {
    let order = plan.order(window)?;
    let cost = plan.cost(&order)?;
    let batch = u64::from(options.flags.config.samples_per_batch);
    let mixing = plan.mixing(&order, batch)?;
    let stats = match options.is_dry {
        true => None,
        false => Some(stream(options, &order, &plan.in_its_order(&order)?)?),
    };
    Ok(Run { order, cost, mixing, stats })
}

/// Streams an epoch through a loader of its own; what the library counted.
fn stream(options: &Options, order: &ChunkShuffle, requests: &Requests) -> Outcome<Stats> {
    let mut flags = options.flags.config;
    if !options.flags.is_given("lookahead_samples") {
        let two = order.window_samples().saturating_mul(2);
        let samples = two.clamp(LOOKAHEAD_MIN, LOOKAHEAD_MAX) as u32;
        flags.lookahead_samples = samples.max(flags.samples_per_batch);
    }
    let stop_fault = |stop: Stop| feed::stop_fault(stop, requests);
    let loader = feed::open(&flags).map_err(|failure| Fault::library(&failure))?;
    let mut came = 0;
    let mut receive = |batch: &Batch<'_>| {
        if let Some(at) = batch.statuses().iter().position(|status| *status != 0) {
            let tag = batch.tags()[at];
            let text = system::take_text(tag).unwrap_or_default();
            return failed(format!("{}: {text}", requests.name((tag - 1) as usize)));
        }
        came += batch.tags().len();
        Ok(())
    };
    let count = requests.items.len();
    let progress = Progress::begin(Some(count as u64), "streaming an epoch");
    feed::stream(&loader, requests, 0..count, flags.pop_timeout_ns, &progress, &mut receive)
        .map_err(stop_fault)?;
    drop(progress);
    if came != requests.items.len() {
        return failed(format!("{came} boxes of {} came out", requests.items.len()));
    }
    let stats = loader.stats().map_err(|failure| Fault::library(&failure))?;
    loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))?;
    if stats.chunk_cache_misses == 0 && stats.chunks_missing == 0 {
        return failed("the cache keeps none of these chunks: any order will do");
    }
    Ok(stats)
}

/// What a cost says of the chunks that were decoded, if that is not so. `room` of the cache, and
/// what is `needed`; `missing`: how often a chunk was met that does not exist, so that nothing was
/// decoded.
fn broken(cost: &Cost, [room, needed]: [u64; 2], decoded: u64, missing: u64) -> Option<String> {
    let least = cost.distinct.saturating_sub(missing);
    if cost.largest <= room && decoded as f64 > cost.windows as f64 * TOLERANCE {
        let most = cost.windows;
        let mut text = format!("{decoded} chunks were decoded, and at most {most} predicted");
        if room < needed {
            text += ": batches that are not done keep chunks of the window before, so take smaller \
                     windows or give the cache room for ";
            text += &format!("{needed} chunks");
        }
        return Some(text);
    }
    if (decoded as f64) * TOLERANCE < least as f64 {
        return Some(format!("{decoded} chunks were decoded, and at least {least} predicted"));
    }
    None
}

impl Run {
    fn json(&self, plan: &Plan<'_>, window: u64, shuffled: Option<&Stats>) -> Value {
        let bytes = |chunks: u64| chunks.saturating_mul(plan.chunk_bytes());
        let decoded = |stats: &Stats| {
            json!({
                "chunks": stats.chunk_cache_misses,
                "bytes": bytes(stats.chunk_cache_misses),
                "hits": stats.chunk_cache_hits,
                "missing": stats.chunks_missing,
            })
        };
        json!({
            "boxes": self.order.samples(),
            "run": plan.run(),
            "shuffle_window": window,
            "room_chunks": plan.room(),
            "predicted": {
                "chunks": [self.cost.distinct, self.cost.windows],
                "bytes": [bytes(self.cost.distinct), bytes(self.cost.windows)],
                "largest_shuffle_window": self.cost.largest,
                "fit": plan.fit(&self.order, &self.cost),
            },
            "decoded": self.stats.as_ref().map(decoded),
            "shuffled": shuffled.map(decoded),
            "apart": self.mixing.apart,
            "meets": self.mixing.meets,
        })
    }
}

/// Tells a run: a line of the sweep, or a table.
fn tell(options: &Options, plan: &Plan<'_>, run: &Run, shuffled: Option<&Stats>) -> Outcome<()> {
    let window = plan.runs_of(&run.order);
    if options.json {
        return report::print_json(&run.json(plan, window, shuffled));
    }
    let text = match options.sweeps {
        true => sweep_line(plan, run, window),
        false => table(plan, run, window, shuffled),
    };
    report::print(&text)
}

const SWEEP_HEAD: &str = "  \
     window  fits       predicted chunks     decoded        bytes  apart     meets\n";

fn sweep_line(plan: &Plan<'_>, run: &Run, window: u64) -> String {
    let decoded = run.stats.as_ref().map(|stats| stats.chunk_cache_misses);
    let shown = decoded.unwrap_or(run.cost.windows);
    format!(
        "  {window:>9}  {:<5} {:>9} .. {:>9}  {:>9} {:>12}  {:>5.2}  {:>8}\n",
        plan.fit(&run.order, &run.cost),
        run.cost.distinct,
        run.cost.windows,
        decoded.map_or("-".to_owned(), |count| count.to_string()),
        report::bytes_long(shown.saturating_mul(plan.chunk_bytes())),
        run.mixing.apart,
        run.mixing.meets.map_or("-".to_owned(), |meets| format!("{meets:.2}")),
    )
}

fn table(plan: &Plan<'_>, run: &Run, window: u64, shuffled: Option<&Stats>) -> String {
    let bytes = |chunks: u64| report::bytes_long(chunks.saturating_mul(plan.chunk_bytes()));
    let each = |chunks: u64| chunks as f64 / run.order.samples().max(1) as f64;
    let Cost { distinct, windows, largest } = run.cost;
    let mut text = format!(
        "  order            runs of {} boxes, shuffle windows of {window} runs\n  \
         window           {largest} chunks at most; room for {}: {}\n  \
         predicted        {distinct} to {windows} chunks, {} to {}\n",
        plan.run(),
        plan.room(),
        match plan.fit(&run.order, &run.cost) {
            FITS => "it fits",
            order::TIGHT =>
                "it fits, but not next to the chunks of the window before that batches keep",
            _ => "it does NOT fit, and more may be decoded than predicted",
        },
        bytes(distinct),
        bytes(windows),
    );
    let lines = [("decoded", run.stats.as_ref()), ("a full shuffle", shuffled)];
    for (name, stats) in lines.into_iter().filter_map(|(name, of)| Some((name, of?))) {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  {name:<16} {} chunks, {}: {:.3} for each box",
            stats.chunk_cache_misses,
            bytes(stats.chunk_cache_misses),
            each(stats.chunk_cache_misses),
        );
    }
    let meets = run.mixing.meets.map_or("no two boxes share a chunk".to_owned(), |meets| {
        format!("two of a chunk meet in a batch {meets:.2} times as often")
    });
    let apart = run.mixing.apart;
    let _ =
        writeln!(text, "  mixing           neighbours come {apart:.2} as far apart as shuffled");
    let _ = writeln!(text, "                   {meets}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_or_less_than_predicted_is_let_pass_and_no_more() {
        let cost = Cost { distinct: 100, windows: 200, largest: 8 };
        let is_broken =
            |room, decoded, missing| broken(&cost, [room, 16], decoded, missing).is_some();
        for (decoded, expected) in [(90, true), (91, false), (220, false), (221, true)] {
            assert_eq!(is_broken(8, decoded, 0), expected, "{decoded}");
        }
        // No bound where a window does not fit, and none for chunks that are not there.
        assert!(!is_broken(7, 10_000, 0));
        assert!(!is_broken(8, 50, 50) && is_broken(8, 50, 40));
    }
}
