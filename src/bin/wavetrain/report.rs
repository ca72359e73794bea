//! How figures are shown: units for people, tables, and the JSON form of stage figures.

use core::ffi::c_char;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};
use wavetrain::abi::{CODEC_PLACES, Metric, Stats};
use wavetrain::base::text::is_escaped;
use wavetrain::records::CODECS;

use crate::fault::{Fault, Outcome};
use crate::progress::aside;

/// Writes a line, or several, to standard output: all of it or a failure.
pub fn print(text: &str) -> Outcome<()> {
    let write = || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    aside(write).map_err(|error| Fault::Failed(format!("standard output: {error}")))
}

/// Writes a line to standard error. There is nowhere to tell that this failed.
pub fn warn(text: &str) {
    let _ = aside(|| writeln!(io::stderr().lock(), "wavetrain: {}", line(text)));
}

/// A text that somebody else chose, as one line: escaped like the texts of the library.
pub fn line(text: &str) -> String {
    let mut shown = String::new();
    for one in text.chars() {
        match is_escaped(one) {
            true => shown.extend(one.escape_default()),
            false => shown.push(one),
        }
    }
    shown
}

/// One JSON value as a line on standard output.
pub fn print_json(value: &Value) -> Outcome<()> {
    print(&format!("{value}\n"))
}

/// "1.50 MiB".
pub fn bytes_long(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// "16MiB" where the number is whole in its unit, as a flag takes it.
pub fn bytes_short(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// "1.23 s", "45.6 ms", "789 us".
pub fn seconds_long(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 1e-3 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} us", seconds * 1e6)
    }
}

/// "6 x 8 x 8".
pub fn crosses(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

/// The text of a NUL-terminated name in an info struct.
pub fn name_text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The stages of a run with their names, in the order of the data.
pub fn stages(stats: &Stats) -> [(&'static str, &Metric); 12] {
    [
        ("plan", &stats.plan),
        ("meta", &stats.meta),
        ("io", &stats.io),
        ("input_transfer", &stats.input_transfer),
        ("decode", &stats.decode),
        ("post_decode", &stats.post_decode),
        ("device_decode", &stats.device_decode),
        ("decode_gap", &stats.decode_gap),
        ("assemble", &stats.assemble),
        ("digest", &stats.digest),
        ("bind_wait", &stats.bind_wait),
        ("pop_wait", &stats.pop_wait),
    ]
}

/// `{"io": {"ns": .., "count": .., "input_bytes": .., "output_bytes": ..}, ..}`.
pub fn stages_json(stats: &Stats) -> Value {
    let mut all = Map::new();
    for (name, metric) in stages(stats) {
        all.insert(
            name.to_owned(),
            json!({
                "ns": metric.ns,
                "count": metric.count,
                "input_bytes": metric.input_bytes,
                "output_bytes": metric.output_bytes,
            }),
        );
    }
    Value::Object(all)
}

/// What compressed the chunks of each place of a count: WAVETRAIN_CODEC_ in the header.
fn codecs() -> [&'static str; CODEC_PLACES] {
    let mut names = ["none"; CODEC_PLACES];
    CODECS.iter().filter(|row| row.number > 0).for_each(|row| names[row.number] = row.name);
    names
}

/// WAVETRAIN_BY_WORKER_ in the header.
const REASONS: &[&str] = &[
    "off",
    "codec",
    "kept",
    "unneeded",
    "large",
    "array",
    "broken",
    "other_codec",
    "streams",
    "room",
    "refused",
];

/// Counts by name; those of none left out.
fn named(names: &[&'static str], counts: &[u64]) -> impl Iterator<Item = (&'static str, u64)> {
    names.iter().copied().zip(counts.iter().copied()).filter(|(_, count)| *count > 0)
}

fn named_json(names: &[&'static str], counts: &[u64]) -> Map<String, Value> {
    named(names, counts).map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

fn named_text(names: &[&'static str], counts: &[u64]) -> String {
    let counts: Vec<String> =
        named(names, counts).map(|(name, count)| format!("{count} {name}")).collect();
    if counts.is_empty() { "no chunk".to_owned() } else { counts.join(", ") }
}

/// `{"by_workers": {"zstd": ..}, "in_slab": .., "left_filtered": .., "by_device": {"lz4": ..},
/// "redone": {"lz4": ..}, "why_workers": {"codec": ..}}`.
pub fn decoded_json(stats: &Stats) -> Value {
    json!({
        "by_workers": named_json(&codecs(), &stats.chunks_decoded),
        "in_slab": stats.chunks_decoded_in_slab,
        "left_filtered": stats.chunks_left_filtered,
        "by_device": named_json(&codecs(), &stats.chunks_decoded_on_device),
        "redone": named_json(&codecs(), &stats.chunks_redone),
        "why_workers": named_json(REASONS, &stats.chunks_not_on_device),
    })
}

/// The same as lines of a table, and an empty one.
pub fn decoded_lines(stats: &Stats) -> String {
    format!(
        "  by the device    {}; {} again by workers\n  \
         by workers       {}; {} straight into slabs, {} of these still shuffled\n  \
         why by workers   {}\n\n",
        named_text(&codecs(), &stats.chunks_decoded_on_device),
        named_text(&codecs(), &stats.chunks_redone),
        named_text(&codecs(), &stats.chunks_decoded),
        stats.chunks_decoded_in_slab,
        stats.chunks_left_filtered,
        named_text(REASONS, &stats.chunks_not_on_device),
    )
}

/// The stages that ran, as a table. A rate is bytes out per second of the threads in the stage.
pub fn stages_table(stats: &Stats) -> String {
    let mut table = format!(
        "  {:<14} {:>9} {:>11} {:>12} {:>12} {:>14}\n",
        "stage", "count", "thread time", "in", "out", "rate"
    );
    for (name, metric) in stages(stats) {
        if metric.count == 0 {
            continue;
        }
        let bytes = metric.output_bytes.max(metric.input_bytes);
        let rate = if bytes == 0 || metric.ns == 0 {
            "-".to_owned()
        } else {
            format!("{:.2} GB/s", bytes as f64 / metric.ns as f64)
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            table,
            "  {:<14} {:>9} {:>11} {:>12} {:>12} {:>14}",
            name,
            metric.count,
            seconds_long(metric.ns as f64 * 1e-9),
            bytes_long(metric.input_bytes),
            bytes_long(metric.output_bytes),
            rate
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sizes_read_back_as_themselves() {
        for bytes in [0, 1, 1023, 1024, 16 << 20, (16 << 20) + 1, 3 << 30] {
            assert_eq!(crate::fields::parse_size(&bytes_short(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn long_sizes_stay_within_the_largest_unit() {
        assert_eq!(bytes_long(1536), "1.50 KiB");
        assert_eq!(bytes_long(u64::MAX), "16.00 EiB");
    }
}
