//! The figures of a loader as the surfaces show them.
//!
//! In: counters, and what is known under the lock. Out: one struct. Counters are read one by one,
//! so two of them may be a moment apart.

use crate::base::abi::{Event, Stats, write_text};
use crate::base::status::{Failure, with_why};
use crate::base::trace::Trace;
use crate::engine::Engine;
use crate::engine::limits::Run;
use crate::fail;
use crate::setup::config::{BACKEND_CUDA, BACKEND_HOST, DECODE_OFF, THREADS_PUMP};
use crate::state::consumers::Stage;
use crate::state::waits::Waits;

impl Engine {
    /// Sets the figures to 0, and empties the ring of events, which are of them.
    pub fn reset_stats(&self) {
        self.shared.stats.reset();
        self.shared.profiler.trace.into_iter().for_each(Trace::reset);
        self.lock.lock().waits = Waits::since((self.shared.os.now_ns)());
    }

    /// Hands the last events, `most` at most, to `keep`, the oldest first.
    pub fn trace(&self, most: usize, keep: impl FnMut(Event)) -> Result<(), Failure> {
        let Some(trace) = self.shared.profiler.trace else {
            return with_why(|why| Err(fail!(why, Invalid, "trace: trace_events = 0: set it")));
        };
        trace.each(most, keep);
        Ok(())
    }

    /// Why chunk number `number` of those that are listed could not be read.
    pub fn bad_chunk(&self, number: u32) -> Option<Failure> {
        self.lock.lock().bad_chunks.list().get(number as usize).cloned()
    }

    /// All figures now.
    pub fn read_stats(&self, stats: &mut Stats) {
        self.shared.stats.read(stats);
        stats.host_bytes_committed = self.shared.host_bytes;
        stats.backend = if self.shared.engine().is_some() { BACKEND_CUDA } else { BACKEND_HOST };
        if let Some(engine) = self.shared.engine() {
            stats.gpu_bytes_committed = engine.sizes.device_bytes();
            stats.pinned_bytes_committed = engine.sizes.pinned_bytes();
            stats.gpu_overhead_bytes = engine.overhead_bytes;
        }
        if let Some(attached) = &self.shared.sharing.attached {
            stats.consumers_missing = attached.count - attached.records.attached().count_ones();
        }
        let registered =
            self.shared.sharing.attached.as_ref().and_then(|one| one.registered.as_ref());
        if let Some(registered) = registered {
            stats.pinned_bytes_committed = registered.bytes();
        }
        let decodes = self.shared.geometry.device.streams > 0;
        let way = self.shared.settings.config.device_decode;
        stats.device_decode_mode = if decodes { way } else { DECODE_OFF };
        let backend = self.shared.settings.backend_reason.as_str();
        write_text(&mut stats.backend_reason, backend);
        write_text(&mut stats.backend_text, backend);
        write_text(&mut stats.placement_text, self.placement().1.as_str());
        {
            let state = &*self.lock.lock();
            stats.batches_held = state.slots.kept();
            stats.memories_lent = state.slots.live_loans().count() as u32;
            stats.consumers_missing += state.consumers.in_stage(Stage::New).count_ones();
            let oldest = state.slots.longest_kept().unwrap_or((0, 0));
            (stats.oldest_held_batch, stats.oldest_held_since_ns) = oldest;
            stats.chunk_cache_bytes_held = state.chunks.held_bytes();
            stats.mapped_bytes = state.windows.mapped_bytes();
        }
        self.write_limit(stats);
    }

    /// The sentence is not to stand on the stack of others.
    #[inline(never)]
    fn write_limit(&self, stats: &mut Stats) {
        let settings = &self.shared.settings;
        let config = &settings.config;
        let is_pumped = config.thread_mode == THREADS_PUMP;
        let run = Run {
            waits: self.lock.lock().waits,
            io_threads: settings.io_threads,
            // A thread that pumps works alone, however many may.
            decode_threads: if is_pumped { 1 } else { settings.decode_threads },
            is_on_device: settings.is_cuda(),
            cpus: settings.cpus(),
            slots: config.n_batch_slots,
            samples_per_batch: config.samples_per_batch,
            lookahead_samples: settings.lookahead_samples,
            sample_bytes: settings.slot_bytes / u64::from(config.samples_per_batch.max(1)),
            has_cache: config.chunk_cache_bytes > 0,
            part: settings.share.part,
        };
        let text = run.limit(stats);
        write_text(&mut stats.limit_text, text.as_str());
    }
}
