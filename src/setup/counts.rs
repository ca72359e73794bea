//! How many slots, waves and threads there are, of batches and of callers that read boxes.
//!
//! In: settings. Out: the counts that tables are made of and that rows are found by.

use crate::base::indexes::{Lane, WaveCounts};
use crate::batch::slots::SlotCounts;
use crate::chunk_cache::GRANULE_BYTES;
use crate::setup::settings::Settings;

/// Waves of the boxes of readers: one is filled while the other is read.
const READER_WAVES: u32 = 2;

/// Chunks of such a wave at most.
const READER_CHUNKS: u32 = 64;

impl Settings {
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
            // A chunk of a reader is for one box.
            pairs: [self.pairs_per_wave, chunks],
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
