//! Counters of an instance. Any thread adds, any thread reads; nothing is ordered by them, so all
//! accesses are relaxed. Time is in nanoseconds, sizes are in bytes.

use crate::base::abi::{CODEC_PLACES, HISTOGRAM_BUCKETS, Metric};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The figures of one stage.
pub struct MetricCell {
    ns: AtomicU64,
    ns_best: AtomicU64,
    input_bytes: AtomicU64,
    output_bytes: AtomicU64,
    count: AtomicU64,
    histogram: [AtomicU64; HISTOGRAM_BUCKETS],
}

impl Default for MetricCell {
    fn default() -> Self {
        MetricCell {
            ns: AtomicU64::new(0),
            ns_best: AtomicU64::new(u64::MAX),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            count: AtomicU64::new(0),
            histogram: [const { AtomicU64::new(0) }; HISTOGRAM_BUCKETS],
        }
    }
}

/// Observations that one worker gathers and adds at once, because cells are shared by all of them.
#[derive(Default)]
pub struct Tally {
    ns: u64,
    ns_best: Option<u64>,
    input_bytes: u64,
    output_bytes: u64,
    count: u64,
    histogram: [u32; HISTOGRAM_BUCKETS],
}

impl Tally {
    /// Adds one observation.
    pub fn observe(&mut self, ns: u64, input_bytes: u64, output_bytes: u64) {
        self.ns += ns;
        self.ns_best = Some(self.ns_best.map_or(ns, |best| best.min(ns)));
        self.input_bytes += input_bytes;
        self.output_bytes += output_bytes;
        self.count += 1;
        self.histogram[bucket(ns)] += 1;
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl MetricCell {
    /// Adds what a worker gathered.
    pub fn add(&self, tally: &Tally) {
        let Some(best) = tally.ns_best else { return };
        self.ns.fetch_add(tally.ns, Relaxed);
        self.ns_best.fetch_min(best, Relaxed);
        self.input_bytes.fetch_add(tally.input_bytes, Relaxed);
        self.output_bytes.fetch_add(tally.output_bytes, Relaxed);
        self.count.fetch_add(tally.count, Relaxed);
        for (cell, count) in self.histogram.iter().zip(tally.histogram).filter(|(_, n)| *n > 0) {
            cell.fetch_add(count as u64, Relaxed);
        }
    }

    /// Adds one observation.
    pub fn observe(&self, ns: u64, input_bytes: u64, output_bytes: u64) {
        self.ns.fetch_add(ns, Relaxed);
        self.ns_best.fetch_min(ns, Relaxed);
        self.input_bytes.fetch_add(input_bytes, Relaxed);
        self.output_bytes.fetch_add(output_bytes, Relaxed);
        self.count.fetch_add(1, Relaxed);
        self.histogram[bucket(ns)].fetch_add(1, Relaxed);
    }

    /// The figures now.
    pub fn read(&self) -> Metric {
        let mut metric = Metric {
            ns: self.ns.load(Relaxed),
            ns_best: self.ns_best.load(Relaxed),
            input_bytes: self.input_bytes.load(Relaxed),
            output_bytes: self.output_bytes.load(Relaxed),
            count: self.count.load(Relaxed),
            histogram: [0; HISTOGRAM_BUCKETS],
        };
        for (target, source) in metric.histogram.iter_mut().zip(&self.histogram) {
            *target = source.load(Relaxed);
        }
        metric
    }

    /// Starts again from nothing.
    pub fn reset(&self) {
        self.ns_best.store(u64::MAX, Relaxed);
        for cell in [&self.ns, &self.input_bytes, &self.output_bytes, &self.count] {
            cell.store(0, Relaxed);
        }
        self.histogram.iter().for_each(|cell| cell.store(0, Relaxed));
    }
}

/// Bucket of a log2 histogram: 0 and 1 ns in the first, 2 and 3 in the second, and so on.
fn bucket(ns: u64) -> usize {
    (63 - (ns | 1).leading_zeros() as usize).min(HISTOGRAM_BUCKETS - 1)
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Every counter that stats_reset zeroes.
        #[derive(Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)+
        }

        impl Counters {
            fn reset(&self) {
                $(self.$name.store(0, Relaxed);)+
            }

            /// Copies every counter to the field of the same name.
            pub fn write(&self, stats: &mut crate::base::abi::Stats) {
                $(stats.$name = self.$name.load(Relaxed);)+
            }
        }
    };
}

counters! {
    /// Array metadata found in the cache.
    array_meta_hits,
    /// Array metadata loaded.
    array_meta_misses,
    /// Index entries whose page was cached.
    shard_index_hits,
    /// Index pages loaded.
    shard_index_misses,
    /// Chunks whose file's layout was known.
    chunk_layout_hits,
    /// Files looked at.
    chunk_layout_misses,
    /// Samples taken by push.
    samples_pushed,
    /// Samples with a status.
    samples_failed,
    /// Batches popped.
    batches_emitted,
    /// Waves done.
    waves_emitted,
    /// Distinct chunks planned.
    chunks_planned,
    /// Chunks to read.
    chunks_to_load,
    /// Chunks handed to workers.
    chunks_dispatched,
    /// Chunks that do not exist.
    chunks_missing,
    /// Pairs of chunk and sample.
    chunk_uses,
    /// Reads of chunk data.
    reads_issued,
    /// Files opened.
    files_opened,
    /// Steps that did work.
    worker_steps,
    /// Chunks that were kept decoded.
    chunk_cache_hits,
    /// Chunks that were decoded although chunks are kept.
    chunk_cache_misses,
    /// Chunks that left for others.
    chunk_cache_evictions,
    /// Decoded bytes of the hits.
    chunk_cache_bytes_saved,
    /// Chunks that were decoded into a slab, where the device's copy takes them from.
    chunks_decoded_in_slab,
    /// Chunks of these whose filter was left to the device.
    chunks_left_filtered,
}

/// Everything that is counted.
#[derive(Default)]
pub struct StatsCells {
    /// Planning steps.
    pub plan: MetricCell,
    /// Metadata and index reads.
    pub meta: MetricCell,
    /// Reads of chunk data.
    pub io: MetricCell,
    /// Copies to a device.
    pub input_transfer: MetricCell,
    /// Chunks decoded.
    pub decode: MetricCell,
    /// Decoded chunks laid out for a device.
    pub post_decode: MetricCell,
    /// Chunks scattered.
    pub assemble: MetricCell,
    /// Waves between activation and their first decode.
    pub bind_wait: MetricCell,
    /// Pops that waited.
    pub pop_wait: MetricCell,
    /// Chunks decoded, by what compressed them.
    pub chunks_decoded: [AtomicU64; CODEC_PLACES],
    /// The counters.
    pub counters: Counters,
}

impl core::ops::Deref for StatsCells {
    type Target = Counters;
    fn deref(&self) -> &Counters {
        &self.counters
    }
}

impl StatsCells {
    /// Starts again from nothing.
    pub fn reset(&self) {
        for metric in [
            &self.plan,
            &self.meta,
            &self.io,
            &self.input_transfer,
            &self.decode,
            &self.post_decode,
            &self.assemble,
            &self.bind_wait,
            &self.pop_wait,
        ] {
            metric.reset();
        }
        self.chunks_decoded.iter().for_each(|cell| cell.store(0, Relaxed));
        self.counters.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_in_the_bucket_of_its_highest_bit() {
        for (ns, expected) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10)] {
            assert_eq!(bucket(ns), expected);
        }
        assert_eq!(bucket(u64::MAX), HISTOGRAM_BUCKETS - 1);
    }

    #[test]
    fn a_tally_adds_what_its_observations_would() {
        let (one_by_one, at_once) = (MetricCell::default(), MetricCell::default());
        let mut tally = Tally::default();
        at_once.add(&tally);
        assert_eq!(at_once.read().ns_best, u64::MAX);
        for (ns, input, output) in [(70, 5, 9), (3, 1, 0), (1 << 40, 7, 8)] {
            one_by_one.observe(ns, input, output);
            tally.observe(ns, input, output);
        }
        at_once.add(&tally);
        let (one, all) = (one_by_one.read(), at_once.read());
        assert_eq!((one.ns, one.ns_best, one.count), (all.ns, all.ns_best, all.count));
        assert_eq!((one.input_bytes, one.output_bytes), (all.input_bytes, all.output_bytes));
        assert_eq!(one.histogram, all.histogram);
    }

    #[test]
    fn the_best_is_the_smallest_and_reset_forgets_it() {
        let metric = MetricCell::default();
        metric.observe(50, 1, 2);
        metric.observe(30, 1, 2);
        let read = metric.read();
        assert_eq!((read.ns, read.ns_best, read.count, read.output_bytes), (80, 30, 2, 4));
        metric.reset();
        assert_eq!(metric.read().ns_best, u64::MAX);
    }
}
