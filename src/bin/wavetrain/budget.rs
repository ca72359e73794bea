//! `wavetrain budget`: the memory bill of a config, line by line. Nothing is opened.

use crate::fault::{Fault, Outcome};
use crate::feed;
use crate::fields::{ConfigFlags, fields_help};
use crate::report;
use crate::store;
use serde_json::{Value, json};
use std::fmt::Write as _;
use wavetrain::abi::{Memory, MemoryLine};

const HELP: &str = "\
Prints the memory that a loader of a config takes at open, line by line.

  wavetrain budget --sample-shape 64,128,128 --batch 8 [config flags] [URI ..]

With URIs, caps are raised to what these arrays need, unless one is given.

      --json            one JSON object on standard output

Config (sizes take suffixes: 64MiB, 4k):
";

/// The text of --help.
pub fn help() -> String {
    format!("{HELP}{}", fields_help())
}

/// What the bill of a device does not say. Changes when the rest was measured.
const OF_A_DEVICE: &str = "  \
  on a device the CPUs less two decode, 1 at least, at batch priority (--threads: as many as given)
  one thread more calls the driver, on 8 MiB of stack above a guard page
  beside it, uncapped: the driver's context and the kernels' module in device memory; not measured
  yet
  on a GPU, wavetrain_stats says what open saw go beside the bill (gpu_overhead_bytes)
";

const KINDS: [&str; 3] = ["host", "pinned", "device"];

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    use lexopt::Arg::{Long, Short, Value};
    let mut flags = ConfigFlags::new();
    let mut json = false;
    let mut uris: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                return report::print(&help());
            }
            Long("json") => json = true,
            Value(value) => uris.push(value.to_string_lossy().into_owned()),
            Long(name) => {
                let name = name.to_owned();
                flags.take_or_refuse(&name, parser, "budget")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if !uris.is_empty() && !flags.caps_given() {
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        feed::fit(&mut flags.config, &uris).map_err(|failure| Fault::library(&failure))?;
    }
    let bill = store::memory_need(&flags.config).map_err(|failure| Fault::library(&failure))?;
    if json { report::print_json(&bill_json(&bill)) } else { report::print(&bill_table(&bill)) }
}

fn lines(bill: &Memory) -> &[MemoryLine] {
    &bill.lines[..(bill.line_count as usize).min(bill.lines.len())]
}

fn kind(line: &MemoryLine) -> &'static str {
    KINDS.get(line.kind as usize).copied().unwrap_or("unknown")
}

/// Host, pinned and device bytes together.
pub fn total(bill: &Memory) -> u64 {
    bill.host_bytes.saturating_add(bill.pinned_bytes).saturating_add(bill.device_bytes)
}

fn bill_json(bill: &Memory) -> Value {
    let lines: Vec<Value> = lines(bill)
        .iter()
        .map(|line| {
            json!({
                "name": report::name_text(&line.name), "kind": kind(line), "bytes": line.bytes
            })
        })
        .collect();
    json!({
        "total_bytes": total(bill),
        "host_bytes": bill.host_bytes,
        "host_align": bill.host_align,
        "pinned_bytes": bill.pinned_bytes,
        "device_bytes": bill.device_bytes,
        "slot_bytes": bill.slot_bytes,
        "threads": bill.threads,
        "lines": lines,
    })
}

fn bill_table(bill: &Memory) -> String {
    let mut table = String::new();
    // Writing into a String cannot fail.
    for line in lines(bill) {
        let _ = writeln!(
            table,
            "  {:<32} {:<7} {:>14} {:>12}",
            report::name_text(&line.name),
            kind(line),
            line.bytes,
            report::bytes_long(line.bytes)
        );
    }
    let _ = writeln!(table, "  {}", "-".repeat(68));
    let totals =
        [("host", bill.host_bytes), ("pinned", bill.pinned_bytes), ("device", bill.device_bytes)];
    for (name, bytes) in totals.into_iter().filter(|(name, bytes)| *name == "host" || *bytes > 0) {
        let _ = writeln!(
            table,
            "  {:<32} {:<7} {:>14} {:>12}",
            "total",
            name,
            bytes,
            report::bytes_long(bytes)
        );
    }
    let _ = writeln!(
        table,
        "  of it {} in batch slots; {} threads; host block aligned to {}",
        report::bytes_long(bill.slot_bytes),
        bill.threads,
        report::bytes_short(bill.host_align)
    );
    if bill.device_bytes > 0 {
        table.push_str(OF_A_DEVICE);
    }
    table
}
