//! The sums of the batches that the consumers of an owner took.
//!
//! In: a line of JSON from each. Out: a repeat like that of a private loader: samples, checksums
//! and digests; a failure if a sample or a batch is missing, or was taken too often.

use super::Streamed;
use crate::bench::{Options, Repeat};
use crate::digests::Digests;
use crate::fault::{Fault, Outcome, failed};
use crate::feed::List;
use crate::report;
use crate::system;
use serde_json::Value;
use std::collections::BTreeMap;
use wavetrain::config::SHARE_ALL;

/// A count of a line.
pub fn count_of(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or(0)
}

/// A repeat: the owner's part, and the consumers' added up. `is_whole`: no consumer was lost, so
/// each sample must have been taken as often as the order demands.
pub fn repeat_of<L: List>(
    options: &Options,
    list: &L,
    streamed: Streamed,
    lines: &[Value],
    is_whole: bool,
) -> Outcome<Repeat> {
    let is_all = options.flags.config.share_order == SHARE_ALL;
    let sum = |name: &str| lines.iter().map(|line| count_of(line, name)).sum::<u64>();
    let most = |name: &str| lines.iter().map(|line| count_of(line, name)).max().unwrap_or(0);
    let (samples, failures) = (sum("samples"), if is_all { most("failed") } else { sum("failed") });
    let copies = if is_all { lines.len() as u64 } else { 1 };
    let pushed = list.len() as u64 - streamed.refused;
    if is_whole && samples != pushed * copies {
        return failed(format!("consumers took {samples} samples, and not {}", pushed * copies));
    }
    for index in 0..list.len() {
        let text = if failures == 0 { None } else { system::take_text(index as u64 + 1) };
        if let Some(text) = text {
            report::warn(&format!("{}: {text}", list.name(index)));
        }
    }
    let digests = |line: &Value| -> Vec<u64> {
        let texts = line["digests"].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.filter_map(|text| u64::from_str_radix(text, 16).ok()).collect()
    };
    let mut sums: Vec<u64> = vec![0; list.fields().len().max(1)];
    for line in &lines[..if is_all { lines.len().min(1) } else { lines.len() }] {
        sums.iter_mut().zip(digests(line)).for_each(|(sum, one)| *sum = sum.wrapping_add(one));
    }
    if let Some(other) = lines.iter().find(|line| is_all && digests(line) != digests(&lines[0])) {
        return failed(format!("the digest of consumer {} differs", other["consumer"]));
    }
    let crcs = if options.verify { crcs_of(lines, is_all, is_whole)? } else { Vec::new() };
    let cpu_seconds = lines.iter().filter_map(|line| line["cpu_seconds"].as_f64()).sum::<f64>();
    Ok(Repeat {
        samples,
        failed: failures + streamed.refused,
        seconds: streamed.seconds,
        first_batch_seconds: 0.0,
        cpu_seconds: streamed.cpu_seconds + cpu_seconds,
        crcs,
        sums,
        digests: Digests::default(),
        stats: streamed.stats,
    })
}

/// The checksums of all batches, in order: each was taken once, or with ALL by each consumer.
fn crcs_of(lines: &[Value], is_all: bool, is_whole: bool) -> Outcome<Vec<Vec<u32>>> {
    let mut all: BTreeMap<u64, (Vec<u32>, u64)> = BTreeMap::new();
    for line in lines {
        let crcs: Vec<(u64, Vec<u32>)> = serde_json::from_value(line["crcs"].clone())
            .map_err(|error| Fault::Failed(format!("consumer {}: {error}", line["consumer"])))?;
        for (batch, crcs) in crcs {
            let seen = all.entry(batch).or_insert_with(|| (crcs.clone(), 0));
            seen.1 += 1;
            if seen.0 != crcs {
                let consumer = &line["consumer"];
                return failed(format!("batch {batch} of consumer {consumer} differs"));
            }
        }
    }
    let copies = if is_all { lines.len() as u64 } else { 1 };
    let wrong = all.iter().find(|(_, (_, count))| *count != copies);
    if let Some((batch, (_, count))) = wrong.filter(|_| is_whole) {
        return failed(format!("batch {batch} was taken {count} times, and not {copies}"));
    }
    let (first, last) = (all.keys().next(), all.keys().last());
    let range = first.zip(last).map_or(0, |(first, last)| last - first + 1);
    if is_whole && range != all.len() as u64 {
        return failed(format!("consumers took {} batches, and not {range}", all.len()));
    }
    Ok(all.into_values().map(|(crcs, _)| crcs).collect())
}
