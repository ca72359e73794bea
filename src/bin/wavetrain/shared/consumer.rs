//! A consumer: attaches by name, takes batches, and writes figures of them.
//!
//! In: the batches of an owner. Out: with JSON a line once it is attached, one at each END, one for
//! a failure; else a line for people at each END.

use super::consumer_line;
use crate::fault::{Fault, Outcome, failed};
use crate::report;
use crate::system;
use serde_json::{Value, json};
use std::time::Instant;
use wavetrain::loader::{Batch, Loader, Pop};
use wavetrain::loops::digest::mix;

/// A consumer, as its command line has it.
pub struct Consumer {
    /// The name of the loader.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// ENDs that it takes.
    pub repeat: u32,
    /// Whether it computes checksums.
    pub verify: bool,
    /// Whether its lines are JSON.
    pub json: bool,
    /// The longest wait for a batch.
    pub pop_timeout_ns: u64,
    /// The longest wait for the owner.
    pub attach_timeout_ns: u64,
}

impl Consumer {
    /// Attaches, takes batches, and prints figures at each END.
    pub fn run(&self) -> Outcome<()> {
        let Err(fault) = self.take_all() else { return Ok(()) };
        if !self.json {
            return failed(format!("consumer {}: {fault}", self.number));
        }
        report::print_json(&json!({"consumer": self.number, "failure": fault.to_string()}))?;
        Err(Fault::Told)
    }

    fn take_all(&self) -> Outcome<()> {
        let loader = Loader::attach(&self.name, self.number, self.attach_timeout_ns);
        let loader = loader.map_err(|failure| Fault::library(&failure))?;
        if self.json {
            report::print_json(&json!({"consumer": self.number, "attached": true}))?;
        }
        for _ in 0..self.repeat {
            let figures = self.take_to_end(&loader)?;
            if self.json {
                report::print_json(&figures)?;
            } else {
                report::print(&consumer_line(&figures, &figures["samples_per_s"]))?;
            }
        }
        loader.close(u64::MAX).map_err(|failure| Fault::library(&failure))
    }

    fn take_to_end(&self, loader: &Loader) -> Outcome<Value> {
        let (begin, cpu) = (Instant::now(), system::cpu_seconds());
        let mut tally = Tally::default();
        loop {
            match loader.pop(self.pop_timeout_ns).map_err(|failure| Fault::library(&failure))? {
                Pop::Batch(batch) => {
                    tally.first.get_or_insert_with(|| begin.elapsed().as_secs_f64());
                    tally.take(&batch, self.verify);
                }
                Pop::End => break,
                Pop::Reset => tally = Tally::default(),
                Pop::Again(why) | Pop::Starved(why) => {
                    let seconds = self.pop_timeout_ns as f64 * 1e-9;
                    return failed(format!(
                        "STARVED: no batch within {seconds:.1} s (--pop-timeout-ns): {why}"
                    ));
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let mut figures = json!({
            "consumer": self.number,
            "batches": tally.batches,
            "samples": tally.samples,
            "failed": tally.failed,
            "seconds": seconds,
            "first_batch_seconds": tally.first,
            "samples_per_s": tally.samples as f64 / seconds,
            "cpu_seconds": system::cpu_seconds() - cpu,
            "peak_rss_bytes": system::peak_rss_bytes(),
        });
        if self.verify {
            figures["crcs"] = json!(tally.crcs);
        }
        if !tally.sums.is_empty() {
            figures["digests"] = tally.sums.iter().map(|sum| format!("{sum:016x}")).collect();
        }
        Ok(figures)
    }
}

/// The batches that a consumer took since the last END.
#[derive(Default)]
struct Tally {
    batches: u64,
    samples: u64,
    failed: u64,
    first: Option<f64>,
    /// For each batch its number, and the checksums of its fields.
    crcs: Vec<(u64, Vec<u32>)>,
    /// For each field the sum of mix(position in the list, digest).
    sums: Vec<u64>,
}

impl Tally {
    fn take(&mut self, batch: &Batch<'_>, verify: bool) {
        self.batches += 1;
        self.samples += batch.tags().len() as u64;
        self.failed += batch.statuses().iter().filter(|code| **code != 0).count() as u64;
        let fields = || (0..).map_while(|number| batch.field(number).ok());
        if verify {
            let crcs = fields().map(|field| crc32fast::hash(field.data())).collect();
            self.crcs.push((batch.batch_id(), crcs));
        }
        if batch.digests().is_none() {
            return;
        }
        for (number, field) in fields().enumerate() {
            self.sums.resize(self.sums.len().max(number + 1), 0);
            // The tool's tags are positions, counted from 1.
            for (tag, digest) in batch.tags().iter().zip(field.digests().unwrap_or(&[])) {
                let term = mix(tag.wrapping_sub(1), *digest);
                self.sums[number] = self.sums[number].wrapping_add(term);
            }
        }
    }
}
