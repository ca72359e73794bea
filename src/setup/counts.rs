//! How many slots, waves and threads there are, of batches and of callers that read boxes.
//!
//! In: settings. Out: the counts that tables are made of and that rows are found by.

use crate::base::indexes::{Lane, WaveCounts};
use crate::base::limits::SAMPLES_MAX;
use crate::base::status::{Status, Why};
use crate::batch::slots::SlotCounts;
use crate::chunk_cache::GRANULE_BYTES;
use crate::fail;
use crate::setup::config::Config;
use crate::setup::settings::Settings;

/// Waves of the boxes of readers: one is filled while the other is read.
const READER_WAVES: u32 = 2;

/// Chunks of such a wave at most.
const READER_CHUNKS: u32 = 64;

/// Fewest samples of lookahead if the config names none: so many arrays are looked up at a time.
const LOOKAHEAD_MIN: u32 = 64;
/// Most samples of lookahead that a chunk cache asks for.
const CACHE_LOOKAHEAD_MAX: u64 = 4096;

/// Samples that push takes ahead: two batches, and enough that small batches look up many arrays at
/// a time; with a chunk cache as many as fill it four times over, so that it knows what comes back:
/// to look farther than that, or than some thousands of samples, gains little.
pub(super) fn lookahead_samples(
    config: &Config,
    sample_bytes: u64,
    why: &mut Why,
) -> Result<u32, Status> {
    let (given, samples) = (config.lookahead_samples, config.samples_per_batch);
    if given == 0 {
        let known = 4 * config.chunk_cache_bytes / sample_bytes.max(1);
        let derived = least_lookahead(samples).max(known.min(CACHE_LOOKAHEAD_MAX) as u32);
        let listed = config.max_indices_per_sample;
        let waiting = LISTED_MAX.checked_div(listed).map_or(derived, |most| derived.min(most));
        return Ok(waiting.max(samples));
    }
    if given < samples {
        let least = "must be at least samples_per_batch";
        return Err(fail!(why, Invalid, "lookahead_samples = {given}: {least} = {samples}"));
    }
    Ok(given)
}

/// Indices of lists that wait, if the config has no number of samples: some 80 MB of boxes.
const LISTED_MAX: u32 = 1 << 18;

/// Samples that are taken ahead if the config has no number and no chunk cache.
pub fn least_lookahead(samples_per_batch: u32) -> u32 {
    samples_per_batch.saturating_mul(2).clamp(LOOKAHEAD_MIN, SAMPLES_MAX)
}

impl Settings {
    /// Samples that may wait, boxes of each, and those of them that are for index lists.
    pub fn queue_counts(&self) -> (u32, u32, u32) {
        (self.lookahead_samples, self.per_sample.boxes, self.per_sample.listed)
    }

    /// Granules of the cache of decoded chunks.
    pub fn cache_granules(&self) -> u64 {
        self.cache_memory_bytes / GRANULE_BYTES
    }

    /// The slots of batches and of readers.
    pub fn slot_counts(&self) -> SlotCounts {
        SlotCounts {
            places: self.config.n_batch_slots,
            is_all_lent: self.is_all_lent(),
            early: self.early_batches(),
            readers: self.config.n_readers,
            samples: self.config.samples_per_batch,
        }
    }

    /// Waves of the samples that are pushed, and of the boxes of readers.
    pub fn wave_counts(&self) -> WaveCounts {
        let (config, chunks) = (&self.config, READER_CHUNKS.min(self.config.max_chunks_per_wave));
        let readers = if config.n_readers > 0 { READER_WAVES } else { 0 };
        WaveCounts {
            waves: [config.host_buffer_waves, readers],
            chunks: [config.max_chunks_per_wave, chunks],
            // A chunk of a reader is for one box, or for all runs of its index lists.
            pairs: [self.pairs_per_wave, chunks + self.per_sample.listed],
        }
    }

    /// Planned chunks of a lane that may wait for their place in a file to be known.
    pub fn window_of(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Samples => self.window_chunks,
            Lane::Readers => 2 * self.wave_counts().chunks[1],
        }
    }

    /// Batches that are planned, read, filled, ready or held at a time.
    pub fn batch_records(&self) -> u32 {
        self.slot_counts().batches()
    }

    /// Workers that may run at once, each with a context of its own.
    pub fn worker_count(&self) -> u32 {
        self.decode_threads + self.io_threads
    }

    /// Threads of the loader's own.
    pub fn thread_count(&self) -> u32 {
        let others = u32::from(self.is_cuda()) + u32::from(self.is_owner());
        if self.is_threadless() { 0 } else { self.worker_count() + others }
    }
}
