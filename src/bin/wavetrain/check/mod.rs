//! `wavetrain check`: reads and decodes every chunk of an array, or of all arrays of a group.
//!
//! In: uris. Out: for each array how many chunks are sound, missing and bad, the boxes of those
//! that are not sound with the reason, and what a reader would be warned of. Each chunk is a sample
//! of its own, so that one bad chunk marks no other; large ones that nothing encodes are several.

mod advice;
mod parts;

use crate::fault::{Fault, Outcome, failure_text, usage};
use crate::feed::{self, List};
use crate::fields::{ConfigFlags, fields_help, parse_shape};
use crate::nodes::{Below, is_group};
use crate::progress::Progress;
use crate::report;
use crate::requests::Extent;
use crate::store;
use crate::system;
use parts::Parts;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Instant;
use wavetrain::abi::ArrayInfo;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{MISSING_ERROR, ON_ERROR_SKIP};
use wavetrain::loader::{self, Batch};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const HELP: &str = "\
Reads and decodes every chunk of an array, or of every array of a group, and verifies checksums.

  wavetrain check URI [URI ..] [--box EXTENTS] [--list N] [--json] [config flags]

      --box EXTENTS     extents of the boxes that you would read, as 64,128,128: the cost of a
                        random one, and advice if other chunks would cost much less. An array
                        of a group that is smaller is checked, and not priced
      --list N          bad and missing chunks that are listed, of each array [100]
      --json            one JSON object for each array on standard output, a line each

A chunk is bad if it cannot be read or decoded, or a checksum is wrong; the reason names its file. A
chunk that is missing reads as fill value, which is how sparse arrays are stored:
--missing-chunks error makes it a failure. Elements beyond the ends of the array are not looked at.
Bytes of uncompressed chunks without a checksum are taken as they are. On a rectilinear grid parts
as large as the largest chunk are counted, and one bad chunk marks each part that it lies in.

Exit code: 0 if no chunk is bad, 1 if one is, or something else failed, 2 for a wrong command line.
Caps are raised to what each array needs, unless one is given.

Config (sizes take suffixes: 64MiB, 4k):
";

/// The text of --help.
pub fn help() -> String {
    format!("{HELP}{}", fields_help())
}

/// The end of the library's text of a chunk that is missing.
const ABSENT: &str = ": the chunk does not exist (missing_chunks = error)";

/// Chunks that are listed if the command line gives no number.
const LISTED: usize = 100;

struct Options {
    flags: ConfigFlags,
    uris: Vec<String>,
    extents: Option<Vec<u64>>,
    listed: usize,
    json: bool,
}

/// The findings of an array.
struct Findings {
    /// Chunks, those that are missing, and those that are bad.
    chunks: u64,
    missing: u64,
    bad: u64,
    /// Decoded bytes of the chunks that are sound, as far as they lie in the array.
    bytes: u64,
    seconds: f64,
    /// The first of those that are not sound: the part of the array, the status, the reason.
    listed: Vec<(Extent, Status, String)>,
    warnings: Vec<String>,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(options) = options(parser)? else { return Ok(()) };
    let mut is_bad = false;
    for uri in &options.uris {
        if !is_group(uri) {
            is_bad |= check_one(&options, uri, false)?;
            continue;
        }
        let below = Below::look(uri)?;
        is_bad |= below.refused > 0;
        if below.arrays.is_empty() {
            report::warn(&format!("{uri}: a group without arrays"));
            is_bad = true;
        }
        for array in &below.arrays {
            is_bad |= check_one(&options, array, true)?;
        }
    }
    if is_bad { Err(Fault::Told) } else { Ok(()) }
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short, Value};
    let mut options = Options {
        flags: ConfigFlags::new(),
        uris: Vec::new(),
        extents: None,
        listed: LISTED,
        json: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&help())?;
                return Ok(None);
            }
            Long("box") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                let mut extents = [0; RANK_MAX];
                options.extents = match parse_shape(&text, &mut extents) {
                    Ok(rank) => Some(extents[..rank as usize].to_vec()),
                    Err(reason) => return usage(format!("--box {text}: {reason}")),
                };
            }
            Long("list") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                let Ok(listed) = text.parse() else {
                    return usage(format!("--list {text}: not a number of chunks"));
                };
                options.listed = listed;
            }
            Long("json") => options.json = true,
            Long(
                name @ ("dtype" | "dtype-bytes" | "sample-rank" | "sample-shape" | "drop-last"
                | "on-error"),
            ) => {
                return usage(format!("--{name}: check has that of each array and its chunks"));
            }
            Value(value) => options.uris.push(value.to_string_lossy().into_owned()),
            Long(name) => {
                let name = name.to_owned();
                options.flags.take_or_refuse(&name, parser, "check")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if options.uris.is_empty() {
        return usage("check needs a URI");
    }
    Ok(Some(options))
}

/// Checks an array, which may be one of a group, and prints what was found; whether it is bad.
fn check_one(options: &Options, uri: &str, is_of_group: bool) -> Outcome<bool> {
    let found = match store::array_info(uri, &mut vec![0; loader::SCRATCH_BYTES]) {
        Ok(info) => check_array(options, uri, &info, is_of_group).map(|found| (info, found)),
        Err(failure) => Err(Fault::Failed(failure_text(&failure))),
    };
    let (info, findings) = match found {
        Ok(found) => found,
        Err(Fault::Failed(text)) => {
            report::warn(&format!("{uri}: {text}"));
            if options.json {
                report::print_json(&json!({ "uri": uri, "kind": "check", "error": text }))?;
            }
            return Ok(true);
        }
        Err(other) => return Err(other),
    };
    for warning in &findings.warnings {
        report::warn(&format!("{uri}: {warning}"));
    }
    match options.json {
        true => report::print_json(&json(uri, &info, &findings))?,
        false => report::print(&text(uri, &info, &findings))?,
    }
    let is_missing_bad = options.flags.config.missing_chunks == MISSING_ERROR;
    Ok(findings.bad > 0 || is_missing_bad && findings.missing > 0)
}

fn check_array(
    options: &Options,
    uri: &str,
    info: &ArrayInfo,
    is_of_group: bool,
) -> Outcome<Findings> {
    let mut warnings = Vec::new();
    if let Some(extents) = &options.extents {
        match advice::of_boxes(info, extents) {
            Ok(advice) => warnings.extend(advice),
            // A small level of an image, or a table next to it.
            Err(reason) if is_of_group => warnings.push(format!("no box is priced: it {reason}")),
            Err(reason) => return usage(format!("--box: '{uri}' {reason}")),
        }
    }
    let parts = Parts::new(uri, info);
    let start = Instant::now();
    let mut findings = Findings {
        chunks: parts.chunks(),
        missing: 0,
        bad: 0,
        bytes: 0,
        seconds: 0.0,
        listed: Vec::new(),
        warnings,
    };
    // The chunks that are not sound, if several samples are of one.
    let mut known = HashSet::new();
    stream(options, info, &parts, |index, status, reason| {
        if status == Status::Ok {
            let elements: u64 = parts.extent(index).shape().iter().product();
            findings.bytes += elements * u64::from(info.dtype_bytes);
            return;
        }
        if parts.are_pieces() && !known.insert(parts.chunk(index)) {
            return;
        }
        match status {
            Status::NotFound => findings.missing += 1,
            _ => findings.bad += 1,
        }
        if findings.listed.len() < options.listed {
            findings.listed.push((parts.extent(index), status, reason()));
        }
    })?;
    findings.seconds = start.elapsed().as_secs_f64();
    Ok(findings)
}

/// Streams all parts, and tells `end` how each ended, with a way to its reason.
fn stream(
    options: &Options,
    info: &ArrayInfo,
    parts: &Parts<'_>,
    mut end: impl FnMut(usize, Status, &mut dyn FnMut() -> String),
) -> Outcome<()> {
    let count = parts.len();
    if count == 0 {
        return Ok(());
    }
    let shape = parts.sample_shape();
    let mut config = options.flags.config;
    feed::set_shape(&mut config, shape)?;
    (config.dtype, config.on_error) = (info.dtype, ON_ERROR_SKIP);
    config.missing_chunks = MISSING_ERROR;
    config.max_boxes_per_sample = config.max_boxes_per_sample.max(1);
    if info.dtype == Dtype::Raw as u32 {
        config.dtype_bytes = info.dtype_bytes;
    }
    let bytes = |all, extent: &u64| all * extent;
    let sample_bytes = shape.iter().fold(u64::from(info.dtype_bytes), bytes);
    feed::set_batch(&mut config, &options.flags, sample_bytes, count as u64);
    if !options.flags.caps_given() {
        let fitted = feed::fit(&mut config, &[parts.uri()]);
        fitted.map_err(|failure| Fault::library(&failure))?;
    }
    let loader = feed::open(&config).map_err(|failure| Fault::library(&failure))?;
    let progress = Progress::begin(Some(count as u64), "checking");
    let mut take = |batch: &Batch<'_>| -> Outcome<()> {
        for (tag, code) in batch.tags().iter().zip(batch.statuses()) {
            let status = Status::from_code(*code).unwrap_or(Status::Internal);
            // The sink is emptied of each text, asked for or not.
            let mut kept = if status == Status::Ok { None } else { system::take_text(*tag) };
            let mut reason = || {
                let text = kept.take().unwrap_or_default();
                let rest = text.strip_prefix(status.name());
                rest.and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text).to_owned()
            };
            end((*tag - 1) as usize, status, &mut reason);
        }
        Ok(())
    };
    let timeout_ns = config.pop_timeout_ns;
    let streamed = feed::stream(&loader, parts, 0..count, timeout_ns, &progress, &mut take);
    drop(progress);
    streamed.map_err(|stop| feed::stop_fault(stop, parts))
}

fn json(uri: &str, info: &ArrayInfo, findings: &Findings) -> Value {
    let of = |(extent, status, reason): &(Extent, Status, String)| {
        let axes = extent.begin.iter().zip(&extent.end);
        json!({
            "box": axes.map(|(begin, end)| json!([begin, end])).collect::<Value>(),
            "status": status.name(),
            "error": reason,
        })
    };
    json!({
        "uri": uri,
        "kind": "check",
        "shape": info.shape[..info.rank as usize],
        "chunks": findings.chunks,
        "sound": findings.chunks - findings.missing - findings.bad,
        "missing": findings.missing,
        "bad": findings.bad,
        "bytes": findings.bytes,
        "seconds": findings.seconds,
        "checksum": advice::checksum(info),
        "listed": findings.listed.iter().map(of).collect::<Value>(),
        "warnings": findings.warnings,
    })
}

fn text(uri: &str, info: &ArrayInfo, findings: &Findings) -> String {
    let Findings { chunks, missing, bad, bytes, seconds, listed, .. } = findings;
    let mut text = format!("{}\n", report::line(uri));
    let mut row = |name: &str, value: &str| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    let sound = chunks - missing - bad;
    row("chunks", &format!("{chunks}: {sound} sound, {missing} missing, {bad} bad"));
    let rate = report::bytes_long((*bytes as f64 / seconds.max(1e-9)) as u64);
    let took = report::seconds_long(*seconds);
    row("decoded", &format!("{} in {took}, {rate}/s", report::bytes_long(*bytes)));
    row("checksum", &advice::checksum_text(info));
    for (extent, status, reason) in listed {
        let name = if *status == Status::NotFound { "missing" } else { "bad" };
        // How it is missing need not be said of each.
        let reason = reason.strip_suffix(ABSENT).unwrap_or(reason);
        row(name, &format!("{}  {}: {}", extent.text(), status.name(), report::line(reason)));
    }
    let left = missing + bad - listed.len() as u64;
    if left > 0 {
        row("", &format!("and {left} more (--list)"));
    }
    text
}
