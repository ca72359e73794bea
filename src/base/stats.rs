//! Counters of a loader, and the struct of the header in which callers get them: one table of
//! both. Any thread adds, any thread reads; nothing is ordered by them, so all accesses are
//! relaxed. Time is in nanoseconds, sizes are in bytes.

use crate::base::abi::{
    BY_WORKER_PLACES, Blank, CODEC_PLACES, HISTOGRAM_BUCKETS, NAME_BYTES, c_structs,
};
use crate::base::limits::{ERROR_TEXT_BYTES, SHORT_TEXT_BYTES};
use core::ffi::c_char;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

c_structs! {
    /// One stage's figures: `wavetrain_metric`.
    #[derive(Debug)]
    struct Metric {
        /// Nanoseconds, summed over threads.
        ns: u64,
        /// Shortest single observation in nanoseconds; UINT64_MAX before the first.
        ns_best: u64,
        /// Bytes that went in.
        input_bytes: u64,
        /// Bytes that came out.
        output_bytes: u64,
        /// Observations.
        count: u64,
        /// log2 histogram of the nanoseconds of an observation.
        histogram: [u64; HISTOGRAM_BUCKETS],
    }
}

impl Metric {
    /// No observations.
    pub(crate) const NONE: Metric = Metric { ns_best: u64::MAX, ..Metric::BLANK };

    /// Adds one observation. A worker gathers some and adds them to a cell at once, because cells
    /// are shared by all workers.
    pub(crate) fn observe(&mut self, ns: u64, input_bytes: u64, output_bytes: u64) {
        self.ns += ns;
        self.ns_best = self.ns_best.min(ns);
        self.input_bytes += input_bytes;
        self.output_bytes += output_bytes;
        self.count += 1;
        self.histogram[bucket(ns)] += 1;
    }
}

/// Bucket of a log2 histogram: 0 and 1 ns in the first, 2 and 3 in the second, and so on.
fn bucket(ns: u64) -> usize {
    (63 - (ns | 1).leading_zeros() as usize).min(HISTOGRAM_BUCKETS - 1)
}

/// What threads add to and stats_reset sets back: one figure of [`Stats`].
trait Cell {
    type Figure;
    fn read(&self) -> Self::Figure;
    fn reset(&self);
}

impl Cell for AtomicU64 {
    type Figure = u64;

    fn read(&self) -> u64 {
        self.load(Relaxed)
    }

    fn reset(&self) {
        self.store(0, Relaxed);
    }
}

/// How many there are now; a reset leaves it as it is.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more; how many that makes.
    pub fn enter(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// One less.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Cell for Gauge {
    type Figure = u64;

    fn read(&self) -> u64 {
        self.0.read()
    }

    fn reset(&self) {}
}

impl<const N: usize> Cell for [AtomicU64; N] {
    type Figure = [u64; N];

    fn read(&self) -> [u64; N] {
        self.each_ref().map(Cell::read)
    }

    fn reset(&self) {
        self.iter().for_each(Cell::reset);
    }
}

/// A [`Metric`] that any thread adds to.
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

impl MetricCell {
    /// Adds what a worker gathered.
    pub fn add(&self, gathered: &Metric) {
        if gathered.count == 0 {
            return;
        }
        self.ns.fetch_add(gathered.ns, Relaxed);
        self.ns_best.fetch_min(gathered.ns_best, Relaxed);
        self.input_bytes.fetch_add(gathered.input_bytes, Relaxed);
        self.output_bytes.fetch_add(gathered.output_bytes, Relaxed);
        self.count.fetch_add(gathered.count, Relaxed);
        for (cell, count) in self.histogram.iter().zip(gathered.histogram).filter(|(_, n)| *n > 0) {
            cell.fetch_add(count, Relaxed);
        }
    }

    /// Adds one observation.
    pub fn observe(&self, ns: u64, input_bytes: u64, output_bytes: u64) {
        let mut one = Metric::NONE;
        one.observe(ns, input_bytes, output_bytes);
        self.add(&one);
    }
}

impl Cell for MetricCell {
    type Figure = Metric;

    fn read(&self) -> Metric {
        Metric {
            ns: self.ns.read(),
            ns_best: self.ns_best.read(),
            input_bytes: self.input_bytes.read(),
            output_bytes: self.output_bytes.read(),
            count: self.count.read(),
            histogram: self.histogram.read(),
        }
    }

    fn reset(&self) {
        self.ns_best.store(u64::MAX, Relaxed);
        for cell in [&self.ns, &self.input_bytes, &self.output_bytes, &self.count] {
            cell.reset();
        }
        self.histogram.reset();
    }
}

/// Figures in the order of the header; behind `=` what counts them, where the engine does not fill
/// them in as it knows them.
macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident: $type:ty $(= $cell:ty)?,)+) => {
        c_structs! {
            /// Cumulative figures since open or stats_reset: `wavetrain_stats_view`.
            #[derive(Debug)]
            struct Stats, EMPTY { $($(#[$doc])* $name: $type,)+ }
        }

        /// Everything that is counted.
        #[derive(Default)]
        pub struct StatsCells { $($(pub $name: $cell,)?)+ }

        impl StatsCells {
            /// Copies what is counted to the fields of the same names.
            pub fn read(&self, stats: &mut Stats) {
                $($(stats.$name = <$cell as Cell>::read(&self.$name);)?)+
            }

            /// Starts again from nothing.
            pub fn reset(&self) {
                $($(<$cell as Cell>::reset(&self.$name);)?)+
            }
        }
    };
}

/// The stages that are observed, in the order of their figures: `Event::kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Stage {
    Plan,
    Meta,
    Io,
    InputTransfer,
    Decode,
    PostDecode,
    DecodeGap,
    Assemble,
    BindWait,
    PopWait,
    Digest,
    DeviceDecode,
}

/// The names of the stages, which are those of their figures.
#[cfg(feature = "internals")]
pub const STAGES: [&str; 12] = [
    "plan",
    "meta",
    "io",
    "input_transfer",
    "decode",
    "post_decode",
    "decode_gap",
    "assemble",
    "bind_wait",
    "pop_wait",
    "digest",
    "device_decode",
];

impl StatsCells {
    /// The figures of a stage.
    pub fn stage(&self, stage: Stage) -> &MetricCell {
        match stage {
            Stage::Plan => &self.plan,
            Stage::Meta => &self.meta,
            Stage::Io => &self.io,
            Stage::InputTransfer => &self.input_transfer,
            Stage::Decode => &self.decode,
            Stage::PostDecode => &self.post_decode,
            Stage::DecodeGap => &self.decode_gap,
            Stage::Assemble => &self.assemble,
            Stage::BindWait => &self.bind_wait,
            Stage::PopWait => &self.pop_wait,
            Stage::Digest => &self.digest,
            Stage::DeviceDecode => &self.device_decode,
        }
    }
}

stats! {
    /// Batches planned; one observation is one bounded planning step.
    plan: Metric = MetricCell,
    /// Array metadata and index reads.
    meta: Metric = MetricCell,
    /// Reads of chunk data; in: bytes asked for, out: bytes that chunks needed.
    io: Metric = MetricCell,
    /// Copies to the device; all 0 on the host.
    input_transfer: Metric = MetricCell,
    /// Chunks decoded; in: encoded bytes, out: decoded bytes.
    decode: Metric = MetricCell,
    /// Decoded chunks that threads of the CPU laid out for the device; all 0 on the host.
    post_decode: Metric = MetricCell,
    /// Time of a worker from the end of a decode to the beginning of the next, since the wave of
    /// that one was staged, if it did not sleep meanwhile.
    decode_gap: Metric = MetricCell,
    /// Chunks cast and scattered into batches; in: source bytes, out: batch bytes.
    assemble: Metric = MetricCell,
    /// Waves, from when their reads may begin to their first decode.
    bind_wait: Metric = MetricCell,
    /// Pops that waited, whatever came of it.
    pop_wait: Metric = MetricCell,
    /// Lookups of array metadata that found it.
    array_meta_hits: u64 = AtomicU64,
    /// Lookups of array metadata that had to load it.
    array_meta_misses: u64 = AtomicU64,
    /// Lookups of index pages that found them.
    shard_index_hits: u64 = AtomicU64,
    /// Lookups of index pages that had to load them.
    shard_index_misses: u64 = AtomicU64,
    /// Lookups of a file's layout (size, presence, index checksums) that found it.
    chunk_layout_hits: u64 = AtomicU64,
    /// Lookups of a file's layout that had to look at the file.
    chunk_layout_misses: u64 = AtomicU64,
    /// Samples taken by push.
    samples_pushed: u64 = AtomicU64,
    /// Samples whose status was not OK (on_error = skip or nan).
    samples_failed: u64 = AtomicU64,
    /// Batches popped.
    batches_emitted: u64 = AtomicU64,
    /// Waves whose last chunk was assembled.
    waves_emitted: u64 = AtomicU64,
    /// Distinct chunks that batches needed, missing ones included.
    chunks_planned: u64 = AtomicU64,
    /// Chunks that had to be read.
    chunks_to_load: u64 = AtomicU64,
    /// Chunks handed to workers.
    chunks_dispatched: u64 = AtomicU64,
    /// Chunks that do not exist and read as the fill value.
    chunks_missing: u64 = AtomicU64,
    /// Pairs of chunk and sample; more than `chunks_planned` where samples share chunks.
    chunk_uses: u64 = AtomicU64,
    /// Reads of chunk data, after merging.
    reads_issued: u64 = AtomicU64,
    /// Files opened.
    files_opened: u64 = AtomicU64,
    /// Steps that did work.
    worker_steps: u64 = AtomicU64,
    /// Host bytes taken at open.
    host_bytes_committed: u64,
    /// Page-locked bytes taken at open.
    pinned_bytes_committed: u64,
    /// Device bytes taken at open.
    gpu_bytes_committed: u64,
    /// 1 host, 2 CUDA: the backend that was taken.
    backend: u32,
    /// Slots that popped batches, or tensors of such, keep.
    batches_held: u32,
    /// NUL-terminated: `backend_text`, cut to fit.
    backend_reason: [c_char; NAME_BYTES],
    /// Chunks that were found decoded in the chunk cache.
    chunk_cache_hits: u64 = AtomicU64,
    /// Chunks that were decoded although there is a chunk cache.
    chunk_cache_misses: u64 = AtomicU64,
    /// Chunks that left the chunk cache for others.
    chunk_cache_evictions: u64 = AtomicU64,
    /// Decoded bytes of the hits: what was not decoded again.
    chunk_cache_bytes_saved: u64 = AtomicU64,
    /// Decoded bytes in the chunk cache now.
    chunk_cache_bytes_held: u64,
    /// Always 0.
    reserved3: u32,
    /// Always 0.
    reserved: u32,
    /// Always empty.
    reserved_text: [c_char; NAME_BYTES],
    /// Device memory that the driver took for kernels and streams at open.
    gpu_overhead_bytes: u64,
    /// Chunks that workers decoded, by what compressed them; they add up to `decode.count`.
    chunks_decoded: [u64; CODEC_PLACES] = [AtomicU64; CODEC_PLACES],
    /// Those of them that were decoded into a slab; 0 on the host.
    chunks_decoded_in_slab: u64 = AtomicU64,
    /// Those of these whose filter was left to the device; 0 on the host.
    chunks_left_filtered: u64 = AtomicU64,
    /// NUL-terminated: why this backend was taken.
    backend_text: [c_char; ERROR_TEXT_BYTES],
    /// Full batches that were read for the digests of their samples, by pieces; in: their bytes,
    /// out: digests.
    digest: Metric = MetricCell,
    /// Streams decoded on the device, by waves; in: encoded bytes, out: decoded bytes.
    device_decode: Metric = MetricCell,
    /// Chunks that were decoded on the device, by what compressed them.
    chunks_decoded_on_device: [u64; CODEC_PLACES] = [AtomicU64; CODEC_PLACES],
    /// Chunks that were to be, and were read again for a worker.
    chunks_redone: [u64; CODEC_PLACES] = [AtomicU64; CODEC_PLACES],
    /// Compressed chunks on their way to a device that workers were given, by why (BY_WORKER_).
    chunks_not_on_device: [u64; BY_WORKER_PLACES] = [AtomicU64; BY_WORKER_PLACES],
    /// DECODE_AUTO, _OFF or _ON: what is decoded on the device; OFF too if AUTO leaves all to
    /// workers, and on the host.
    device_decode_mode: u32,
    /// Always 0.
    reserved2: u32,
    /// Files, documents and folders that were replaced or rewritten since they were looked at, so
    /// that what was cached of them was forgotten.
    files_changed: u64 = AtomicU64,
    /// Batches for consumers that were lost: popped by one that ended, or left in its list.
    batches_lost: u64 = AtomicU64,
    /// Bytes of files that are mapped now.
    mapped_bytes: u64,
    /// Bytes of batches that were copied out of their slots by the library: by copy_to of Rust. A
    /// read_into copies none.
    bytes_copied_out: u64 = AtomicU64,
    /// Requests for metadata that slept by `metadata_latency`: the sum of the next two.
    metadata_latency_ops: u64 = AtomicU64,
    /// Those that looked: for sizes and versions of files, opens and lists of folders included.
    metadata_latency_stat_ops: u64 = AtomicU64,
    /// Those that read documents and indexes.
    metadata_latency_submit_ops: u64 = AtomicU64,
    /// Those that sleep now.
    metadata_latency_active: u64 = Gauge,
    /// Most that slept at a time.
    metadata_latency_max_active: u64 = AtomicU64,
    /// Their sleeps as they were drawn, so it does not depend on the system.
    metadata_latency_total_sleep_ns: u64 = AtomicU64,
    /// The longest of these.
    metadata_latency_max_sleep_ns: u64 = AtomicU64,
    /// Reads of documents and indexes, whether they slept or not.
    metadata_backend_read_jobs: u64 = AtomicU64,
    /// Those that the store works on now.
    metadata_backend_read_active: u64 = Gauge,
    /// Most that it worked on at a time.
    metadata_backend_read_max_active: u64 = AtomicU64,
    /// NUL-terminated: what bounds the run, and the one setting to try; empty before the fourth
    /// batch, and if other processes pop.
    limit_text: [c_char; SHORT_TEXT_BYTES],
    /// NUL-terminated: how many threads there are, on which CPUs, and why.
    placement_text: [c_char; SHORT_TEXT_BYTES],
    /// Number of the batch that is held the longest, by the caller or by tensors; 0 also where
    /// none is.
    oldest_held_batch: u64,
    /// When it was popped, by CLOCK_MONOTONIC; 0 where none is.
    oldest_held_since_ns: u64,
    /// Memories that were lent and that the caller does not have back.
    memories_lent: u32,
    /// Consumers that have not attached yet and are waited for; on a consumer those that are not
    /// attached now.
    consumers_missing: u32,
    /// Chunks that could not be read, each time that a batch needed one.
    bad_chunks: u64 = AtomicU64,
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
    fn stages_have_the_order_of_their_figures() {
        let metric_bytes = size_of::<Metric>();
        let (mut names, mut before) = (std::vec::Vec::new(), 0);
        for (number, (name, offset)) in Stats::FIELDS.iter().enumerate() {
            let end = Stats::FIELDS.get(number + 1).map_or(size_of::<Stats>(), |next| next.1);
            if end - offset == metric_bytes {
                assert!(*offset >= before);
                (before, _) = (*offset, names.push(*name));
            }
        }
        assert_eq!(names, STAGES);
        assert_eq!(STAGES[Stage::DeviceDecode as usize], "device_decode");
        assert_eq!(STAGES[Stage::Assemble as usize], "assemble");
    }

    #[test]
    fn what_a_worker_gathered_adds_what_its_observations_would() {
        let (one_by_one, at_once) = (MetricCell::default(), MetricCell::default());
        let mut gathered = Metric::NONE;
        at_once.add(&gathered);
        assert_eq!(at_once.read().ns_best, u64::MAX);
        for (ns, input, output) in [(70, 5, 9), (3, 1, 0), (1 << 40, 7, 8)] {
            one_by_one.observe(ns, input, output);
            gathered.observe(ns, input, output);
        }
        at_once.add(&gathered);
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
