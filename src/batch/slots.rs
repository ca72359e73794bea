//! Batch slots: which batch is in which slot, how far it is, and what went wrong in it.
//!
//! States of a slot: Free -> Filling (planned and assembled) -> Ready or Failed (or Patching ->
//! Ready) -> Held (popped) -> Releasing -> Free. A slot that is released while tensors of it live
//! goes on to Exported, and through Releasing again with the last of them. One in device memory is
//! Fenced before it is Free: until the device has done what was queued on it. `remaining` counts
//! what is missing: one for the planning itself, one for each chunk. The error of a batch is that
//! of its lowest (sample, chunk), whatever finished first.
//!
//! Invariant: batches are begun in push order and popped in push order, so the slot to pop next is
//! the one that holds `next_pop`.

use crate::base::arena::{Carver, Table};
use crate::base::cache::hash_words;
use crate::base::limits::{RANK_MAX, TENSORS_PER_SLOT};
use crate::base::status::{Failure, Status};

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// Nobody's.
    Free,
    /// Being planned, read, decoded.
    Filling,
    /// Samples that failed must still be filled with pad_value.
    Patching,
    /// To be popped.
    Ready,
    /// To be reported by pop.
    Failed,
    /// Popped and not released.
    Held,
    /// Given back, and somebody is to say what it waits for. Its token is dead.
    Releasing,
    /// Released, and kept by tensors that were not deleted.
    Exported,
    /// Nobody's, once the device has done what was queued before.
    Fenced,
}

/// The box of a sample, for the workers that assemble it.
#[derive(Clone, Copy, Debug)]
pub struct SampleGeometry {
    /// First element along each axis of the array.
    pub begin: [i64; RANK_MAX],
    /// One past the last.
    pub end: [i64; RANK_MAX],
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: SlotState,
    batch_id: u64,
    sample_count: u32,
    failed_samples: u32,
    /// A sample failed with a status that ends the stream whatever on_error says.
    is_fatal: bool,
    remaining: u64,
    generation: u32,
    /// Position of the failure that the batch reports.
    failed_at: (u32, u64),
    /// Tensor records that live, as bits. None but where the slot is Held or Exported.
    tensors: u32,
    /// Record that is looked at first for the next tensor.
    next_tensor: u32,
    /// A tensor was deleted while somebody found out what the slot waits for.
    is_touched: bool,
}

impl Slot {
    /// Whether the caller or a tensor keeps it.
    fn is_kept(&self) -> bool {
        matches!(self.state, SlotState::Held | SlotState::Releasing | SlotState::Exported)
    }

    /// Whether it has a batch that was not popped.
    fn is_stream(&self) -> bool {
        !self.is_kept() && !matches!(self.state, SlotState::Free | SlotState::Fenced)
    }
}

/// See the module.
pub struct Slots {
    slots: &'static mut [Slot],
    failures: &'static mut [Failure],
    /// Chunk number of the failure of each sample, u64::MAX while it has none.
    failed_chunks: &'static mut [u64],
    /// The callers' tags, slot by slot.
    pub tags: Table<u64>,
    /// Status codes of the samples, slot by slot.
    pub statuses: Table<i32>,
    /// Boxes of the samples, slot by slot.
    pub geometry: Table<SampleGeometry>,
    samples_per_batch: u32,
    next_begin: u64,
    next_pop: u64,
    /// Set in tokens, so that a batch of another loader is none here.
    token_key: u64,
}

impl Slots {
    /// `count` free slots.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32, samples_per_batch: u32) -> Slots {
        let slot = Slot {
            state: SlotState::Free,
            batch_id: 0,
            sample_count: 0,
            failed_samples: 0,
            is_fatal: false,
            remaining: 0,
            generation: 0,
            failed_at: (0, 0),
            tensors: 0,
            next_tensor: 0,
            is_touched: false,
        };
        let samples = count as u64 * samples_per_batch as u64;
        let geometry = SampleGeometry { begin: [0; RANK_MAX], end: [0; RANK_MAX] };
        Slots {
            slots: carver.slice("batch states", count as u64, &slot),
            failures: carver.slice("batch states", count as u64, &Failure::new(Status::Ok)),
            failed_chunks: carver.slice("batch states", samples, &u64::MAX),
            tags: carver.table("batch states", samples, &0),
            statuses: carver.table("batch states", samples, &0),
            geometry: carver.table("batch states", samples, &geometry),
            samples_per_batch,
            next_begin: 0,
            next_pop: 0,
            token_key: 0,
        }
    }

    /// Makes tokens those of the loader that `loader` stands for.
    pub fn set_loader(&mut self, loader: u64) {
        // A bit that no slot's number has, so that no token is 0.
        self.token_key = hash_words(&[loader]) | 1 << 31;
    }

    /// Index of a sample in the tables.
    pub fn row(&self, slot: u32, sample: u32) -> usize {
        slot as usize * self.samples_per_batch as usize + sample as usize
    }

    /// Number of slots.
    pub fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// State of a slot.
    pub fn state(&self, slot: u32) -> SlotState {
        self.slots[slot as usize].state
    }

    /// Number of the batch in a slot.
    pub fn batch_id(&self, slot: u32) -> u64 {
        self.slots[slot as usize].batch_id
    }

    /// Samples of the batch in a slot.
    pub fn sample_count(&self, slot: u32) -> u32 {
        self.slots[slot as usize].sample_count
    }

    /// Samples of the batch in a slot whose status is not OK.
    pub fn failed_samples(&self, slot: u32) -> u32 {
        self.slots[slot as usize].failed_samples
    }

    /// Slots in a state.
    pub fn in_state(&self, state: SlotState) -> u32 {
        self.slots.iter().filter(|slot| slot.state == state).count() as u32
    }

    /// Slots that a popped batch or tensors of it keep.
    pub fn kept(&self) -> u32 {
        self.slots.iter().filter(|slot| slot.is_kept()).count() as u32
    }

    /// A slot in a state.
    pub fn find(&self, state: SlotState) -> Option<u32> {
        self.slots.iter().position(|slot| slot.state == state).map(|slot| slot as u32)
    }

    /// Whether a batch was begun that is not popped.
    pub fn has_unpopped(&self) -> bool {
        self.next_pop < self.next_begin
    }

    /// Whether a batch is being planned or filled.
    pub fn has_filling(&self) -> bool {
        self.slots.iter().any(|slot| slot.state == SlotState::Filling)
    }

    /// Begins the next batch in a free slot.
    pub fn begin(&mut self, slot: u32, sample_count: u32) -> u64 {
        assert!(self.slots[slot as usize].state == SlotState::Free);
        assert!(self.slots[slot as usize].tensors == 0);
        let batch_id = self.next_begin;
        self.next_begin += 1;
        let Slot { generation, next_tensor, .. } = self.slots[slot as usize];
        self.slots[slot as usize] = Slot {
            state: SlotState::Filling,
            batch_id,
            sample_count,
            failed_samples: 0,
            is_fatal: false,
            remaining: 1,
            generation,
            failed_at: (u32::MAX, u64::MAX),
            tensors: 0,
            next_tensor,
            is_touched: false,
        };
        for sample in 0..sample_count {
            let row = self.row(slot, sample);
            self.failed_chunks[row] = u64::MAX;
            self.statuses.write(row, 0);
        }
        batch_id
    }

    /// `count` more chunks are missing.
    pub fn add_remaining(&mut self, slot: u32, count: u64) {
        assert!(self.slots[slot as usize].state == SlotState::Filling);
        self.slots[slot as usize].remaining += count;
    }

    /// `count` fewer are missing; true when that was the last.
    #[must_use]
    pub fn sub_remaining(&mut self, slot: u32, count: u64) -> bool {
        let slot = &mut self.slots[slot as usize];
        assert!(slot.state == SlotState::Filling && slot.remaining >= count);
        slot.remaining -= count;
        slot.remaining == 0
    }

    /// The last chunk is there: what the slot becomes. `skip`: samples that fail with a status that
    /// may be skipped do not fail a batch.
    pub fn complete(&mut self, slot: u32, skip: bool) -> SlotState {
        let slot = &mut self.slots[slot as usize];
        assert!(slot.state == SlotState::Filling && slot.remaining == 0);
        slot.state = match (slot.failed_samples, skip && !slot.is_fatal) {
            (0, _) => SlotState::Ready,
            (_, true) => SlotState::Patching,
            (_, false) => SlotState::Failed,
        };
        slot.state
    }

    /// The failed samples are filled.
    pub fn patched(&mut self, slot: u32) {
        assert!(self.slots[slot as usize].state == SlotState::Patching);
        self.slots[slot as usize].state = SlotState::Ready;
    }

    /// Notes that chunk number `chunk` of the batch failed for `sample`. True where this is the
    /// lowest failure of the sample so far; `failure` then also becomes the batch's if it is the
    /// lowest of the batch.
    pub fn fail(&mut self, slot: u32, sample: u32, chunk: u64, failure: &Failure) -> bool {
        let row = self.row(slot, sample);
        let before = self.failed_chunks[row];
        let is_first = self.statuses.read(row) == 0;
        if !is_first && chunk >= before {
            return false;
        }
        self.failed_chunks[row] = chunk;
        self.statuses.write(row, failure.status as i32);
        let tag = self.tags.read(row);
        let entry = &mut self.slots[slot as usize];
        entry.failed_samples += is_first as u32;
        entry.is_fatal |= !failure.status.is_skippable();
        if (sample, chunk) <= entry.failed_at {
            entry.failed_at = (sample, chunk);
            let kept = &mut self.failures[slot as usize];
            *kept = failure.clone();
            kept.tag = tag;
            kept.batch_id = entry.batch_id;
            kept.sample = sample;
        }
        true
    }

    /// The failure that a failed batch reports.
    pub fn failure(&self, slot: u32) -> &Failure {
        &self.failures[slot as usize]
    }

    /// The slot whose batch comes next, if that batch was begun.
    pub fn next_slot(&self) -> Option<u32> {
        let waiting = |slot: &Slot| slot.is_stream() && slot.batch_id == self.next_pop;
        self.slots.iter().position(waiting).map(|slot| slot as u32)
    }

    /// Hands the next batch out; its token.
    pub fn pop(&mut self, slot: u32) -> u64 {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.state == SlotState::Ready && entry.batch_id == self.next_pop);
        self.next_pop += 1;
        entry.state = SlotState::Held;
        entry.generation = entry.generation.wrapping_add(1).max(1);
        self.token_key ^ ((entry.generation as u64) << 32 | (slot as u64 + 1))
    }

    /// Gives the slot of a failed batch back.
    pub fn drop_failed(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.state == SlotState::Failed && entry.batch_id == self.next_pop);
        self.next_pop += 1;
        entry.state = SlotState::Free;
    }

    /// The slot of a held batch, or None for a token that was released or never given.
    pub fn held(&self, token: u64) -> Option<u32> {
        let token = token ^ self.token_key;
        let slot = (token & u32::MAX as u64).checked_sub(1)?;
        let entry = self.slots.get(slot as usize)?;
        let is_held = entry.state == SlotState::Held && entry.generation as u64 == token >> 32;
        is_held.then_some(slot as u32)
    }

    /// Gives a held slot back; `released` follows.
    pub fn release(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.state == SlotState::Held);
        entry.state = SlotState::Releasing;
    }

    /// Whether a tensor was deleted since the slot was begun to be given back, or since this was
    /// asked: what it was used for until then is to be waited for, too.
    pub fn take_touched(&mut self, slot: u32) -> bool {
        core::mem::take(&mut self.slots[slot as usize].is_touched)
    }

    /// What a slot that is given back waits for is known: whether it is free. `is_fenced`: for the
    /// device, at least.
    #[must_use]
    pub fn released(&mut self, slot: u32, is_fenced: bool) -> bool {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.state == SlotState::Releasing);
        entry.state = match (entry.tensors, is_fenced) {
            (0, false) => SlotState::Free,
            (0, true) => SlotState::Fenced,
            _ => SlotState::Exported,
        };
        entry.state == SlotState::Free
    }

    /// The device has done what a slot waited for.
    pub fn unfence(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.state == SlotState::Fenced);
        entry.state = SlotState::Free;
    }

    /// Whether [`Slots::take_tensor`] would give a record.
    pub fn has_tensor_room(&self, slot: u32) -> bool {
        self.slots[slot as usize].tensors.count_ones() < TENSORS_PER_SLOT
    }

    /// Takes a tensor record of a held slot; its number, or None where all of them live.
    ///
    /// The record that was used longest ago comes first, so that a deleter that is called twice
    /// most likely meets a dead one.
    pub fn take_tensor(&mut self, slot: u32) -> Option<u32> {
        let entry = &mut self.slots[slot as usize];
        assert!(entry.state == SlotState::Held);
        let number = (0..TENSORS_PER_SLOT)
            .map(|step| (entry.next_tensor + step) % TENSORS_PER_SLOT)
            .find(|number| entry.tensors & (1 << number) == 0)?;
        entry.tensors |= 1 << number;
        entry.next_tensor = (number + 1) % TENSORS_PER_SLOT;
        Some(number)
    }

    /// A tensor was deleted; whether that gives its slot back, so that `released` follows. One that
    /// does not live changes nothing.
    #[must_use]
    pub fn delete_tensor(&mut self, slot: u32, number: u32) -> bool {
        let entry = &mut self.slots[slot as usize];
        if entry.tensors & (1 << number) == 0 {
            return false;
        }
        assert!(entry.is_kept());
        entry.tensors &= !(1 << number);
        entry.is_touched |= entry.state == SlotState::Releasing;
        if entry.tensors != 0 || entry.state != SlotState::Exported {
            return false;
        }
        entry.state = SlotState::Releasing;
        true
    }

    /// Tensors that were handed out and not deleted.
    pub fn live_tensors(&self) -> u32 {
        self.slots.iter().map(|slot| slot.tensors.count_ones()).sum()
    }

    /// Drops every batch that neither the caller nor a tensor keeps; numbers start at 0 again.
    pub fn reset(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.is_stream()) {
            slot.state = SlotState::Free;
        }
        self.next_begin = 0;
        self.next_pop = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;

    /// One slot for two samples.
    fn slots() -> Slots {
        let block = std::boxed::Box::leak(std::vec![0u64; 1 << 12].into_boxed_slice());
        let start = (block.as_mut_ptr() as usize + 4095) & !4095;
        // SAFETY: the block is leaked, used once, and large enough after alignment.
        let mut carver =
            unsafe { Carver::over(NonNull::new(start as *mut u8).unwrap(), (1 << 15) - 4096) };
        Slots::carve(&mut carver, 1, 2)
    }

    /// The slot with a popped batch.
    fn held() -> Slots {
        let mut slots = slots();
        slots.begin(0, 2);
        assert!(slots.sub_remaining(0, 1));
        assert_eq!(slots.complete(0, false), SlotState::Ready);
        slots.pop(0);
        slots
    }

    fn completed(status: Status, skip: bool) -> SlotState {
        let mut slots = slots();
        slots.begin(0, 2);
        slots.fail(0, 1, 0, &Failure::new(status));
        assert!(slots.sub_remaining(0, 1));
        slots.complete(0, skip)
    }

    #[test]
    fn skip_goes_on_after_faults_of_the_data_only() {
        assert_eq!(completed(Status::Decode, false), SlotState::Failed);
        assert_eq!(completed(Status::Decode, true), SlotState::Patching);
        assert_eq!(completed(Status::Internal, true), SlotState::Failed);
    }

    #[test]
    fn a_slot_is_free_when_it_is_released_and_its_last_tensor_deleted() {
        let mut slots = held();
        let (one, two) = (slots.take_tensor(0).unwrap(), slots.take_tensor(0).unwrap());
        assert!(!slots.delete_tensor(0, one));
        slots.release(0);
        assert!(!slots.released(0, false));
        assert_eq!((slots.state(0), slots.kept()), (SlotState::Exported, 1));
        assert_eq!(slots.live_tensors(), 1);
        slots.reset();
        assert_eq!(slots.state(0), SlotState::Exported);
        assert!(slots.delete_tensor(0, two));
        assert!(slots.released(0, false));
        assert_eq!((slots.state(0), slots.kept()), (SlotState::Free, 0));
        assert!(!slots.delete_tensor(0, two));
    }

    #[test]
    fn a_fenced_slot_is_nobodys_and_not_free() {
        let mut slots = held();
        slots.release(0);
        slots.reset();
        assert_eq!((slots.state(0), slots.kept()), (SlotState::Releasing, 1));
        assert!(!slots.released(0, true));
        assert_eq!((slots.find(SlotState::Free), slots.kept()), (None, 0));
        slots.reset();
        assert_eq!((slots.state(0), slots.next_slot()), (SlotState::Fenced, None));
        slots.unfence(0);
        assert_eq!(slots.find(SlotState::Free), Some(0));
    }

    #[test]
    fn records_are_used_in_turn_and_never_twice_at_a_time() {
        let mut slots = held();
        let all: std::vec::Vec<u32> = (0..TENSORS_PER_SLOT).collect();
        let taken: std::vec::Vec<u32> = all.iter().map(|_| slots.take_tensor(0).unwrap()).collect();
        assert_eq!(taken, all);
        assert_eq!(slots.take_tensor(0), None);
        for number in [5, 2] {
            assert!(!slots.delete_tensor(0, number));
        }
        assert_eq!(slots.take_tensor(0), Some(2));
        assert_eq!(slots.take_tensor(0), Some(5));
        assert_eq!(slots.take_tensor(0), None);
    }
}
