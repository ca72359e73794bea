//! Failures of chunks and samples.

use crate::base::status::Failure;
use crate::os::sink::Level;
use crate::state::shared::Instance;

impl Instance {
    /// Notes that a sample failed at chunk number `chunk`; with on_error = skip the text is logged.
    pub fn fail_sample(&self, slot: u32, sample: u32, chunk: u64, failure: &Failure) {
        let (is_lowest, tag) = {
            let state = &mut *self.lock.lock();
            let is_lowest = state.slots.fail(slot, sample, chunk, failure);
            let tag = state.slots.tags.read(state.slots.row(slot, sample));
            state.is_halted |= !self.skips_errors() || !failure.status.is_skippable();
            (is_lowest, tag)
        };
        if is_lowest && self.skips_errors() {
            self.sink.log(Level::Warn, tag, format_args!("{failure}"));
        }
    }
}
