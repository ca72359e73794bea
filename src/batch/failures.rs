//! Samples of batches that fail.
//!
//! In: the failure of a chunk for a sample. Out: the status of the sample, whether it is given up,
//! and the failure that its batch reports: that of the lowest (sample, chunk), whatever failed
//! first.

use crate::base::indexes::BatchSlot;
use crate::base::status::Failure;
use crate::batch::slots::Slots;
use crate::records::Destination;

impl Slots {
    /// Samples of the batch in a slot whose status is not OK.
    pub fn failed_samples(&self, slot: BatchSlot) -> u32 {
        self.slots[slot.at()].failed_samples
    }

    /// Samples of the batch in a slot that failed, and not by chunks that are NaN alone.
    pub fn given_up(&self, slot: BatchSlot) -> impl Iterator<Item = u32> {
        (0..self.sample_count(slot)).filter(move |sample| self.is_given_up(slot, *sample))
    }

    /// No chunk of a sample has failed.
    pub(super) fn clear_failure(&mut self, slot: BatchSlot, sample: u32) {
        let row = self.row(slot, sample);
        (self.failed_chunks[row], self.given_up[row]) = (u64::MAX, false);
        self.rows.statuses(slot).write(sample as usize, 0);
    }

    /// Whether a sample failed, and not by chunks that are NaN alone.
    pub fn is_given_up(&self, slot: BatchSlot, sample: u32) -> bool {
        self.given_up[self.row(slot, sample)]
    }

    /// Notes that chunk number `chunk` of the batch failed for a sample, which is given up unless
    /// it `is_nan` there. True if this is the lowest failure of the sample so far; `failure` then
    /// also becomes the batch's if it is the lowest of the batch.
    pub fn fail(
        &mut self,
        to: Destination,
        chunk: u64,
        (failure, is_nan): (&Failure, bool),
    ) -> bool {
        let Destination { slot, sample, .. } = to;
        assert!(self.slots[slot.at()].is_filling());
        let row = self.row(slot, sample);
        self.given_up[row] |= !is_nan;
        let before = self.failed_chunks[row];
        let statuses = self.rows.statuses(slot);
        let is_first = statuses.read(sample as usize) == 0;
        if !is_first && chunk >= before {
            return false;
        }
        self.failed_chunks[row] = chunk;
        statuses.write(sample as usize, failure.status as i32);
        let tag = self.rows.tags(slot).read(sample as usize);
        let entry = &mut self.slots[slot.at()];
        let failed_at = (entry.failed_sample, entry.failed_chunk);
        let is_lowest = entry.failed_samples == 0 || (sample, chunk) <= failed_at;
        entry.failed_samples += is_first as u32;
        entry.is_fatal |= !failure.status.is_skippable();
        if is_lowest {
            (entry.failed_sample, entry.failed_chunk) = (sample, chunk);
            let kept = &mut self.failures[slot.at()];
            *kept = failure.clone();
            kept.tag = tag;
            kept.batch_id = entry.batch_id;
            kept.sample = sample;
        }
        true
    }

    /// The failure that a failed batch reports.
    pub fn failure(&self, slot: BatchSlot) -> &Failure {
        &self.failures[slot.at()]
    }
}
