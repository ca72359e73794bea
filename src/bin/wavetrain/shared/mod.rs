//! `wavetrain bench --share` and `--attach`: one loader, and the processes that take its batches.
//!
//! The owner starts a process of this program for each consumer and pushes the list. A consumer
//! writes a line of JSON to its standard output once it is attached, and one at each END; the owner
//! reads them, adds them up, and checks that no batch is missing or was taken twice.

mod consumer;
mod processes;
mod sums;

pub use consumer::Consumer;
pub use processes::end_for_signal;

use crate::bench::{self, Options, Repeat};
use crate::budget;
use crate::fault::{Fault, Outcome, failed, failure_text, usage};
use crate::feed::{self, List, Stop};
use crate::report;
use crate::store;
use crate::system;
use processes::Consumers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use sums::{count_of, repeat_of};
use wavetrain::abi::{Memory, Stats};
use wavetrain::base::limits::CONSUMERS_MAX;
use wavetrain::config::{ON_ERROR_FAIL, SHARE_ALL, SHARE_FIRST};
use wavetrain::loader::{Loader, Pop};

/// Flags that are of a shared loader alone.
const OF_SHARE: [&str; 3] = ["share_order", "on_consumer_lost", "attach_timeout_ns"];

/// The part of the command line that is about sharing.
#[derive(Default)]
pub struct Asked {
    /// The name to share a loader by.
    pub share: Option<String>,
    /// How many consumers, as written.
    pub consumers: Option<String>,
    /// The name of a loader to attach to.
    pub attach: Option<String>,
    /// Which consumer, as written.
    pub consumer: Option<String>,
}

impl Asked {
    /// The number of consumers of an owner; None if nothing is shared.
    pub fn count(&self, is_given: impl Fn(&str) -> bool) -> Outcome<Option<u32>> {
        if self.consumer.is_some() {
            return usage("--consumer K needs --attach NAME");
        }
        match (&self.share, &self.consumers) {
            (None, Some(_)) => usage("--consumers N needs --share NAME"),
            (Some(_), None) => usage("--share NAME needs --consumers N, the processes that take"),
            (Some(_), Some(text)) => match text.parse::<u32>() {
                Ok(count) if count > 0 && count as usize <= CONSUMERS_MAX => Ok(Some(count)),
                _ => usage(format!("--consumers {text}: not a count of 1 to {CONSUMERS_MAX}")),
            },
            (None, None) => match OF_SHARE.into_iter().find(|name| is_given(name)) {
                Some(name) => usage(format!("--{} needs --share NAME", name.replace('_', "-"))),
                None => Ok(None),
            },
        }
    }

    /// The number of this consumer; None if it does not attach.
    pub fn number(&self) -> Outcome<Option<u32>> {
        match (&self.attach, &self.consumer) {
            (None, _) => Ok(None),
            (Some(_), None) => usage("--attach NAME needs --consumer K, counted from 0"),
            (Some(_), Some(text)) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => usage(format!("--consumer {text}: not a number, counted from 0")),
            },
        }
    }
}

/// Streams the list to `count` processes as often as it is to be, and prints the figures.
pub fn measure<L: List>(options: &Options, list: &L, source_bytes: f64) -> Outcome<()> {
    let name = options.asked.share.as_deref().unwrap_or_default();
    let (config, count) = (options.flags.config, options.flags.config.share_consumers);
    let bill = store::memory_need(&config).map_err(|failure| Fault::library(&failure))?;
    system::peak_rss_reset();
    let begin = Instant::now();
    let loader = feed::open(&config).map_err(|failure| Fault::library(&failure))?;
    let open_seconds = begin.elapsed().as_secs_f64();
    let mut consumers = Consumers::start(options, name, count)?;
    let mut repeats = Vec::new();
    let mut parts = Vec::new();
    for _ in 0..options.repeat {
        let streamed = match consumers.ends.is_empty() {
            true => stream(&loader, options, list),
            false => return failed(ends_text(&consumers.ends, 0)),
        };
        let streamed = match streamed {
            Ok(streamed) => streamed,
            Err(stop) => return Err(consumers.explain(feed::stop_fault(stop, list))),
        };
        let lines: Vec<Value> = (0..count).filter_map(|number| consumers.next(number)).collect();
        let is_whole = streamed.stats.batches_lost == 0 && consumers.ends.is_empty();
        repeats.push(repeat_of(options, list, streamed, &lines, is_whole)?);
        parts.push(lines);
        if !is_whole {
            break;
        }
    }
    let peak_rss_bytes = system::peak_rss_bytes();
    let mut lost = repeats.last().map_or(0, |repeat| repeat.stats.batches_lost);
    lost = lost.max(loader.stats().map_or(0, |stats| stats.batches_lost));
    loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))?;
    if consumers.ends.is_empty() && lost == 0 {
        bench::check_repeats(&repeats, list.fields())?;
    }

    let open = Opened { seconds: open_seconds, bill, peak_rss_bytes, lost };
    print_figures(options, list, source_bytes, (&repeats, &parts), &open)?;
    if !consumers.ends.is_empty() || lost > 0 {
        return failed(ends_text(&consumers.ends, lost));
    }
    match repeats.iter().map(|repeat| repeat.failed).max().unwrap_or(0) {
        0 => Ok(()),
        count => failed(format!("{count} of {} samples failed", list.len())),
    }
}

/// Figures of the loader, whatever the repeat.
struct Opened {
    seconds: f64,
    bill: Memory,
    peak_rss_bytes: u64,
    lost: u64,
}

/// Prints the figures of the repeat of median time.
fn print_figures<L: List>(
    options: &Options,
    list: &L,
    source_bytes: f64,
    (repeats, parts): (&[Repeat], &[Vec<Value>]),
    open: &Opened,
) -> Outcome<()> {
    let median = bench::median(repeats);
    let at = repeats.iter().position(|repeat| std::ptr::eq(repeat, median)).unwrap_or(0);
    let mut figures = figures(median, &parts[at], source_bytes / list.len() as f64);
    for (key, value) in [
        ("share", json!(options.asked.share)),
        ("share_order", json!(order_name(options.flags.config.share_order))),
        ("batches_lost", json!(open.lost)),
        ("open_seconds", json!(open.seconds)),
        ("peak_rss_bytes", json!(open.peak_rss_bytes)),
        ("bill_bytes", json!(budget::total(&open.bill))),
        ("shared_bytes", json!(open.bill.shared_bytes)),
    ] {
        figures[key] = value;
    }
    bench::add_where_asked(&mut figures, options, repeats, median);
    bench::add_checks(&mut figures, options, median, list.fields());
    if options.json {
        report::print_json(&figures)
    } else {
        report::print(&table(&figures, &median.stats, list.fields()))
    }
}

/// "consumer 1 ended by signal: 9 (SIGKILL); 3 batches lost".
fn ends_text(ends: &BTreeMap<u32, String>, lost: u64) -> String {
    let mut all: Vec<_> =
        ends.iter().map(|(number, end)| format!("consumer {number} ended by {end}")).collect();
    all.extend((lost > 0).then(|| format!("{lost} batches lost")));
    all.join("; ")
}

/// The owner's part of a repeat.
struct Streamed {
    refused: u64,
    seconds: f64,
    cpu_seconds: f64,
    stats: Stats,
}

/// Pushes all samples and waits until consumers took them.
fn stream<L: List>(loader: &Loader, options: &Options, list: &L) -> Result<Streamed, Stop> {
    const PUSH_MAX: usize = 1024;
    let config = &options.flags.config;
    loader.stats_reset()?;
    let mut patience = Patience { loader, timeout_ns: config.pop_timeout_ns, work: 0 };
    let (begin, cpu) = (Instant::now(), system::cpu_seconds());
    let mut refused = 0;
    for first in (0..list.len()).step_by(PUSH_MAX) {
        let limit = list.len().min(first + PUSH_MAX);
        let items: Vec<_> = (first..limit).map(|index| list.item(index)).collect();
        let mut taken = 0;
        while taken < items.len() {
            let (more, pushed) = L::push(loader, &items[taken..], config.pop_timeout_ns);
            taken += more;
            match pushed {
                Ok(()) if more == 0 => patience.wait("no room for a sample")?,
                Ok(()) => {}
                Err(failure) => {
                    let next = items.get(taken).map(L::tag);
                    let is_skipped = config.on_error != ON_ERROR_FAIL && config.digest == 0;
                    if next != Some(failure.tag) || !is_skipped {
                        return Err(failure.into());
                    }
                    let name = list.name(first + taken);
                    report::warn(&format!("{name}: {}", failure_text(&failure)));
                    (taken, refused) = (taken + 1, refused + 1);
                }
            }
        }
    }
    loader.flush()?;
    loop {
        match loader.pop(config.pop_timeout_ns)? {
            Pop::End => break,
            Pop::Again(_) | Pop::Starved(_) => patience.wait("consumers take no batch")?,
            Pop::Batch(_) | Pop::Reset => {
                return Err(Stop::Tool(Fault::Failed("the owner got a batch".to_owned())));
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = system::cpu_seconds() - cpu;
    Ok(Streamed { refused, seconds, cpu_seconds, stats: loader.stats()? })
}

/// Waits as long as the loader makes progress.
struct Patience<'l> {
    loader: &'l Loader,
    timeout_ns: u64,
    work: u64,
}

impl Patience<'_> {
    /// After a wait of `timeout_ns` in which nothing became ready.
    fn wait(&mut self, what: &str) -> Result<(), Stop> {
        let stats = self.loader.stats()?;
        let work = stats.io.count + stats.decode.count + stats.assemble.count;
        if work != self.work {
            self.work = work;
            return Ok(());
        }
        let seconds = Duration::from_nanos(self.timeout_ns).as_secs_f64();
        let text = format!("STARVED: {what} within {seconds:.1} s (--pop-timeout-ns)");
        Err(Stop::Tool(Fault::Failed(text)))
    }
}

fn order_name(order: u32) -> &'static str {
    match order {
        SHARE_ALL => "all",
        SHARE_FIRST => "first",
        _ => "round",
    }
}

fn figures(median: &Repeat, lines: &[Value], sample_bytes: f64) -> Value {
    let rate = |samples: u64| samples as f64 / median.seconds;
    let consumers: Vec<Value> = lines
        .iter()
        .map(|line| {
            let mut one = json!({"samples_per_s": rate(count_of(line, "samples"))});
            let same = ["consumer", "batches", "samples", "failed", "cpu_seconds"];
            for name in same.into_iter().chain(["peak_rss_bytes"]) {
                one[name] = line[name].clone();
            }
            one
        })
        .collect();
    json!({
        "backend": report::name_text(&median.stats.backend_text),
        "samples": median.samples,
        "batches": lines.iter().map(|line| count_of(line, "batches")).sum::<u64>(),
        "failed": median.failed,
        "seconds": median.seconds,
        "samples_per_s": rate(median.samples),
        "voxel_gb_per_s": median.samples as f64 * sample_bytes / median.seconds * 1e-9,
        "cpu_seconds": median.cpu_seconds,
        "chunks_decoded": median.stats.decode.count,
        "bytes_read": median.stats.io.input_bytes,
        "stages": report::stages_json(&median.stats),
        "consumers": consumers,
    })
}

/// A consumer as a line of a table.
fn consumer_line(figures: &Value, rate: &Value) -> String {
    format!(
        "  consumer {:<7} {} samples in {} batches = {:.1} samples/s; {} failed\n",
        figures["consumer"].to_string(),
        figures["samples"],
        figures["batches"],
        rate.as_f64().unwrap_or(0.0),
        figures["failed"],
    )
}

fn table(figures: &Value, stats: &Stats, fields: &[String]) -> String {
    let real = |name: &str| figures[name].as_f64().unwrap_or(0.0);
    let bytes = |name: &str| report::bytes_long(count_of(figures, name));
    let mut text = format!(
        "  samples          {} in {} = {:.1} samples/s, {:.3} GB/s of source voxels\n",
        figures["samples"],
        report::seconds_long(real("seconds")),
        real("samples_per_s"),
        real("voxel_gb_per_s"),
    );
    for one in figures["consumers"].as_array().into_iter().flatten() {
        text.push_str(&consumer_line(one, &one["samples_per_s"]));
    }
    text.push_str(&format!(
        "  order            {}; {} batches, {} lost\n  \
         failed           {}\n  \
         CPU              {} of all processes; open took {}\n  \
         memory           {} at most in the owner, {} billed, {} shared\n  \
         backend          {}\n  \
         read             {}; {} chunks decoded\n\n",
        figures["share_order"].as_str().unwrap_or(""),
        figures["batches"],
        figures["batches_lost"],
        figures["failed"],
        report::seconds_long(real("cpu_seconds")),
        report::seconds_long(real("open_seconds")),
        bytes("peak_rss_bytes"),
        bytes("bill_bytes"),
        bytes("shared_bytes"),
        figures["backend"].as_str().unwrap_or(""),
        bytes("bytes_read"),
        figures["chunks_decoded"],
    ));
    text.push_str(&bench::stages_and_checks(figures, stats, fields));
    text
}
