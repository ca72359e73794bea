//! The limit of a run, and the one setting to try next.
//!
//! In: the waits of pops, the figures of the stages, counts of threads. Out: a sentence. Times
//! are nanoseconds, those of stages summed over threads. Shares are percentages of the time from
//! the first push to the last pop.

use crate::base::abi::{Metric, Stats};
use crate::base::limits::SHORT_TEXT_BYTES;
use crate::base::text::Text;
use crate::setup::counts::least_lookahead;
use crate::setup::share::Part;
use crate::state::waits::{Lack, Waits};

/// Batches before which nothing is known: the first ones wait for whatever is cold.
const BATCHES_LEAST: u64 = 4;
/// Pops that wait for less do not bound the run: the caller does.
const IDLE: u64 = 10;
/// Threads that work for more are what bounds it.
const BUSY: u64 = 60;
/// A chunk that takes longer to decode is a large one.
const LONG_NS: u64 = 20_000_000;
/// A sample of so few bytes is more work to push and pop than to copy, which takes up to so long.
const SMALL_BYTES: u64 = 4096;
const SMALL_NS: u64 = 20_000;

type Sentence = Text<SHORT_TEXT_BYTES>;

/// The facts of a run besides its figures.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The waits of pops.
    pub waits: Waits,
    /// Threads that wait for storage; 0 if the loader has no threads.
    pub io_threads: u32,
    /// Threads that decode: of the loader, or of its host, as many as work at a time.
    pub decode_threads: u32,
    /// Whether batches are in memory of a device, which assembles them.
    pub is_on_device: bool,
    /// CPUs of the loader.
    pub cpus: u32,
    /// Slots of batches.
    pub slots: u32,
    /// Samples in a batch.
    pub samples_per_batch: u32,
    /// Samples that push takes ahead.
    pub lookahead_samples: u32,
    /// Bytes of a sample.
    pub sample_bytes: u64,
    /// Whether decoded chunks are kept.
    pub has_cache: bool,
    /// The part that the loader has in sharing.
    pub part: Part,
}

/// `part` of `whole` as a percentage.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole.max(1))).min(u64::MAX.into()) as u64
}

fn mean(metric: &Metric) -> u64 {
    metric.ns / metric.count.max(1)
}

/// Milliseconds, as "0.12 ms" or "340 ms".
struct Milliseconds(u64);

impl core::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            ns @ 0..10_000_000 => {
                write!(f, "{}.{:02} ms", ns / 1_000_000, ns % 1_000_000 / 10_000)
            }
            ns => write!(f, "{} ms", ns / 1_000_000),
        }
    }
}

impl Run {
    /// The sentence; empty: too few batches were popped.
    pub fn limit(&self, stats: &Stats) -> Sentence {
        let mut text = Text::new();
        let wall = self.waits.ended_ns.saturating_sub(self.waits.began_ns);
        if stats.batches_emitted < BATCHES_LEAST || wall == 0 {
            return text;
        }
        let by = |lack: Lack| self.waits.by[lack as usize];
        let waited: u64 = self.waits.by.iter().fold(0, |sum, ns| sum.saturating_add(*ns));
        let share = percent(waited, wall).min(100);
        let mostly = |lack: Lack| percent(by(lack), waited) >= 50;
        if share < IDLE {
            self.write_caller(&mut text, stats, (share, wall));
        } else if self.part == Part::Consumer {
            write!(
                text,
                "owner: its batches are missing for {share} % of the time: limit_text of the owner \
                 names the reason"
            );
        } else if mostly(Lack::Held) {
            write!(
                text,
                "slots: all {} are held for {share} % of the time: release batches sooner, or \
                 raise n_batch_slots",
                self.slots
            );
        } else if mostly(Lack::Samples) {
            write!(
                text,
                "push: samples are missing for {share} % of the time: push them earlier, or from \
                 another thread"
            );
        } else if mostly(Lack::Lookahead) {
            write!(
                text,
                "lookahead: push has no room for the next batch for {share} % of the time: raise \
                 lookahead_samples ({})",
                self.lookahead_samples
            );
        } else {
            self.write_work(&mut text, stats, wall);
        }
        text
    }

    fn write_caller(&self, text: &mut Sentence, stats: &Stats, (share, wall): (u64, u64)) {
        let samples = stats.batches_emitted.saturating_mul(self.samples_per_batch.into());
        let is_small = self.sample_bytes <= SMALL_BYTES && wall / samples.max(1) < SMALL_NS;
        if is_small {
            self.write_small(text);
        } else if self.part == Part::Owner {
            write!(
                text,
                "consumers: none has a batch in wait for it for {share} % of the time alone: \
                 batches are ready before they are asked for, and no setting makes this run \
                 faster"
            );
        } else {
            write!(
                text,
                "caller: pops wait for {share} % of the time alone: batches are ready before they \
                 are asked for, and no setting makes this run faster"
            );
        }
    }

    fn write_small(&self, text: &mut Sentence) {
        write!(
            text,
            "small samples: {} bytes each cost less than what push and pop do with them: push \
             tables (wavetrain_push_table), or make samples larger",
            self.sample_bytes
        );
    }

    /// The stage that pops wait for.
    fn write_work(&self, text: &mut Sentence, stats: &Stats, wall: u64) {
        let Stats { io, meta, decode, .. } = stats;
        let assembled = if self.is_on_device { &Metric::NONE } else { &stats.assemble };
        let computed = [decode, &stats.post_decode, assembled, &stats.digest];
        let computed: u64 = computed.iter().map(|metric| metric.ns).sum();
        let threads = u64::from(self.decode_threads.max(1));
        let busy = percent(computed, wall.saturating_mul(threads));
        let copying = percent(stats.input_transfer.ns, wall);
        let is_waiting = percent(io.ns.saturating_add(meta.ns), wall) >= BUSY;
        if copying >= BUSY && copying > busy {
            write!(
                text,
                "copies to the device take {copying} % of the time: use a type of fewer bytes, or \
                 a device with a faster link"
            );
        } else if self.device_share(stats, wall) >= BUSY.max(busy) {
            self.write_device(text, stats, wall);
        } else if mean(decode) >= LONG_NS && decode.ns > io.ns.max(meta.ns) {
            self.write_large(text, stats);
        } else if busy >= BUSY {
            self.write_decode(text, stats, busy);
        } else if self.sample_bytes <= SMALL_BYTES && !is_waiting {
            self.write_small(text);
        } else if meta.ns > io.ns && meta.ns > computed {
            write!(
                text,
                "metadata: {} documents and indexes were read in {} each: raise lookahead_samples \
                 ({}), so that they are read earlier",
                meta.count,
                Milliseconds(mean(meta)),
                self.lookahead_samples
            );
        } else if io.ns > computed {
            self.write_io(text, io, wall);
        } else {
            self.write_decode(text, stats, busy);
        }
    }

    /// The share of the time in which the device decodes or assembles.
    fn device_share(&self, stats: &Stats, wall: u64) -> u64 {
        let assembled = if self.is_on_device { stats.assemble.ns } else { 0 };
        percent(stats.device_decode.ns.max(assembled), wall)
    }

    fn write_device(&self, text: &mut Sentence, stats: &Stats, wall: u64) {
        let share = self.device_share(stats, wall);
        if stats.device_decode.ns > stats.assemble.ns {
            write!(
                text,
                "the device decodes for {share} % of the time: set device_decode to off, so that \
                 the CPUs do"
            );
        } else {
            write!(
                text,
                "the device assembles for {share} % of the time: use a type of fewer bytes, or \
                 less arithmetic on elements"
            );
        }
    }

    /// How much of what is decoded is used, if that is little and a cache would help.
    fn used(&self, stats: &Stats) -> Option<u64> {
        let (decoded, used) = (stats.decode.output_bytes, stats.assemble.input_bytes);
        (!self.has_cache && decoded / 2 >= used.max(1)).then(|| percent(used, decoded))
    }

    fn write_large(&self, text: &mut Sentence, stats: &Stats) {
        let (each, count) = (Milliseconds(mean(&stats.decode)), stats.decode.count);
        write!(text, "large chunks: {count} were decoded, each by one thread in {each}: ");
        match self.used(stats) {
            Some(used) => write!(text, "boxes use {used} % of that, so set chunk_cache_bytes"),
            None => write!(text, "write smaller chunks, so that threads share the work"),
        }
    }

    fn write_decode(&self, text: &mut Sentence, stats: &Stats, busy: u64) {
        let (threads, cpus) = (self.decode_threads, self.cpus);
        write!(text, "decode: {threads} threads are at work for {busy} % of the time: ");
        if let Some(used) = self.used(stats) {
            write!(text, "boxes use {used} % of what they decode: set chunk_cache_bytes");
        } else if self.io_threads == 0 {
            write!(text, "let more of your threads work at a time, or use thread_mode own");
        } else if threads < cpus {
            write!(text, "raise n_decode_threads (there are {cpus} CPUs)");
        } else if threads > cpus {
            write!(text, "they have {cpus} CPUs: lower n_decode_threads, or ask for more CPUs");
        } else {
            write!(text, "they have {cpus} CPUs: ask for more, or for a codec that is faster");
        }
    }

    fn write_io(&self, text: &mut Sentence, io: &Metric, wall: u64) {
        let threads = u64::from(self.io_threads.max(1));
        let (busy, each) = (percent(io.ns, wall.saturating_mul(threads)), Milliseconds(mean(io)));
        if self.io_threads == 0 {
            write!(
                text,
                "storage: reads take {each}, and your threads wait for them: let more of them \
                 work at a time, or use thread_mode own"
            );
            return;
        }
        write!(
            text,
            "storage: reads take {each}, and {busy} % of {threads} threads wait for one: "
        );
        let (slots, ahead) = (self.slots, self.lookahead_samples);
        if busy >= BUSY {
            text.push_str("raise n_io_threads, unless the storage is at its limit");
        } else if ahead < least_lookahead(self.samples_per_batch) {
            write!(text, "raise lookahead_samples ({ahead})");
        } else {
            write!(text, "raise n_batch_slots ({slots})");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run {
        waits: Waits::NONE,
        io_threads: 4,
        decode_threads: 2,
        is_on_device: false,
        cpus: 2,
        slots: 3,
        samples_per_batch: 8,
        lookahead_samples: 64,
        sample_bytes: 1 << 20,
        has_cache: false,
        part: Part::None,
    };

    /// The sentence of a run of 1,000 ms, in `waited` of which pops lack work; the stages take so
    /// many milliseconds each.
    fn sentence(run: Run, waited: u64, stages: &[(&str, u64)]) -> std::string::String {
        const MS: u64 = 1_000_000;
        let mut run = Run { waits: Waits::since(5), ..run };
        run.waits.note_pop(5 + 1000 * MS);
        run.waits.by[Lack::Work as usize] = waited * MS;
        let mut stats = Stats { batches_emitted: 100, ..Stats::EMPTY };
        for (name, ms) in stages {
            let stage = match *name {
                "io" => &mut stats.io,
                "meta" => &mut stats.meta,
                "decode" => &mut stats.decode,
                "transfer" => &mut stats.input_transfer,
                "device" => &mut stats.device_decode,
                "large" => {
                    stats.decode.ns = ms * MS;
                    stats.decode.count = 10;
                    continue;
                }
                _ => &mut stats.assemble,
            };
            (stage.ns, stage.count) = (ms * MS, 1000);
            (stage.input_bytes, stage.output_bytes) = (1 << 30, 1 << 30);
        }
        run.limit(&stats).as_str().into()
    }

    #[test]
    fn the_stage_that_takes_most_is_named() {
        let cached = Run { has_cache: true, ..RUN };
        let on_device = Run { is_on_device: true, ..cached };
        let pumped = Run { io_threads: 0, decode_threads: 1, ..cached };
        let [owner, consumer] = [Part::Owner, Part::Consumer].map(|part| Run { part, ..RUN });
        for (run, waited, stages, words) in [
            (RUN, 50, &[("io", 900)][..], "caller: pops wait for 5 %"),
            (RUN, 900, &[("io", 3900), ("decode", 300)], "raise n_io_threads"),
            (RUN, 900, &[("io", 900), ("decode", 300)], "raise n_batch_slots (3)"),
            (
                Run { lookahead_samples: 8, ..RUN },
                900,
                &[("io", 900)],
                "raise lookahead_samples (8)",
            ),
            (RUN, 900, &[("meta", 900), ("io", 300)], "metadata: 1000 documents and indexes"),
            (RUN, 900, &[("transfer", 900), ("decode", 300)], "copies to the device take 90 %"),
            (on_device, 900, &[("device", 900), ("decode", 300)], "the device decodes for 90 %"),
            (on_device, 900, &[("assemble", 900)], "the device assembles for 90 %"),
            (on_device, 900, &[("assemble", 500), ("decode", 1900)], "they have 2 CPUs"),
            (pumped, 900, &[("decode", 900)], "let more of your threads work"),
            (pumped, 900, &[("io", 900)], "and your threads wait for them"),
            (consumer, 900, &[], "owner: its batches are missing for 90 %"),
            (consumer, 50, &[], "caller: pops wait for 5 %"),
            (owner, 50, &[], "consumers: none has a batch in wait for it for 5 %"),
            (RUN, 900, &[("decode", 1900), ("assemble", 10), ("io", 100)], "they have 2 CPUs"),
            (RUN, 900, &[("decode", 100), ("io", 10)], "decode: 2 threads"),
            (cached, 900, &[("large", 1900)], "write smaller chunks"),
            (RUN, 900, &[("decode", 1900)], "boxes use 0 % of what they decode"),
            (
                Run { cpus: 8, ..cached },
                900,
                &[("decode", 1900)],
                "raise n_decode_threads (there are 8",
            ),
            (Run { sample_bytes: 32, ..RUN }, 900, &[("decode", 9)], "small samples: 32 bytes"),
        ] {
            let found = sentence(run, waited, stages);
            assert!(found.contains(words), "{words}: {found}");
        }
    }

    #[test]
    fn every_sentence_has_room_whatever_its_numbers_are() {
        let most = Run {
            io_threads: u32::MAX,
            decode_threads: u32::MAX,
            cpus: u32::MAX,
            slots: u32::MAX,
            lookahead_samples: u32::MAX,
            sample_bytes: u64::MAX,
            ..RUN
        };
        let mut full = Metric::NONE;
        (full.ns, full.count, full.output_bytes) = (u64::MAX, 1, u64::MAX);
        let few = Run { cpus: 1, lookahead_samples: 1, ..most };
        let shared = [Part::Owner, Part::Consumer].map(|part| Run { part, ..most });
        let small = Run { sample_bytes: 1, ..most };
        for run in [most, few, Run { has_cache: true, ..few }, small].into_iter().chain(shared) {
            for lack in [Lack::Held, Lack::Samples, Lack::Lookahead, Lack::Work] {
                for stage in 0..6 {
                    let mut run = Run { waits: Waits::since(1), ..run };
                    run.waits.note_pop(2);
                    run.waits.by[lack as usize] = if stage == 5 { 0 } else { u64::MAX };
                    let mut stats = Stats { batches_emitted: u64::MAX, ..Stats::EMPTY };
                    let Stats { io, meta, decode, input_transfer, .. } = &mut stats;
                    let stages = [io, meta, decode, input_transfer];
                    stages.into_iter().skip(stage).take(1).for_each(|place| *place = full);
                    let text = run.limit(&stats);
                    assert!(!text.is_cut() && !text.is_empty(), "{}", text.as_str());
                }
            }
        }
    }
}
