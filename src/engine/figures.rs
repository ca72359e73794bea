//! The figures of an instance as the surfaces show them.
//!
//! In: counters, and what is known under the lock. Out: one struct. Counters are read one by one,
//! so two of them may be a moment apart.

use crate::base::abi::{Stats, write_text};
use crate::setup::config::{BACKEND_CUDA, BACKEND_HOST};
use crate::state::shared::Instance;
use core::sync::atomic::Ordering::Relaxed;

impl Instance {
    /// All figures now.
    pub fn read_stats(&self, stats: &mut Stats) {
        stats.plan = self.stats.plan.read();
        stats.meta = self.stats.meta.read();
        stats.io = self.stats.io.read();
        stats.input_transfer = self.stats.input_transfer.read();
        stats.decode = self.stats.decode.read();
        stats.post_decode = self.stats.post_decode.read();
        // Nothing is decoded on a device, so nothing there waits for it.
        stats.decode_gap.ns_best = u64::MAX;
        stats.assemble = self.stats.assemble.read();
        stats.bind_wait = self.stats.bind_wait.read();
        stats.pop_wait = self.stats.pop_wait.read();
        self.stats.counters.write(stats);
        for (target, source) in stats.chunks_decoded.iter_mut().zip(&self.stats.chunks_decoded) {
            *target = source.load(Relaxed);
        }
        stats.host_bytes_committed = self.host_bytes;
        stats.backend = if self.engine().is_some() { BACKEND_CUDA } else { BACKEND_HOST };
        if let Some(engine) = self.engine() {
            stats.gpu_bytes_committed = engine.sizes().device_bytes();
            stats.pinned_bytes_committed = engine.sizes().pinned_bytes();
            stats.gpu_overhead_bytes = engine.overhead_bytes();
        }
        let backend = self.settings.backend_reason.as_str();
        write_text(&mut stats.backend_reason, backend);
        write_text(&mut stats.backend_text, backend);
        {
            let state = &*self.lock.lock();
            stats.batches_held = state.slots.kept();
            stats.chunk_cache_bytes_held = state.chunks.held_bytes();
            stats.reader = state.ring.reader;
            write_text(&mut stats.reader_reason, state.ring.reason.as_str());
            write_text(&mut stats.reader_text, state.ring.reason.as_str());
        }
    }
}
