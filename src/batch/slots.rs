//! Batch slots: which batch is in which slot, how far it is, and what went wrong in it.
//!
//! ```text
//!         begin        complete       finish        pop        release
//!  Free ───────▶ Filling ────▶ Finishing ───▶ Ready ────▶ Held ───────▶ Releasing ─────┐
//!   ▲ ▲ ▲              │                                           ▲    │   │ released│
//!   │ │ └─drop_failed──┴─▶ Failed                     delete_tensor│    ▼   ▼        │
//!   │ └────────────────────────────── unfence ───── Fenced ◀───────┼────┘ Exported   │
//!   └──────────────────────────────────────────────────────────────┴─────────┘ ◀─────┘
//! ```
//!
//! What passes do to a batch that is Finishing is told in `pieces`. Behind the slots of batches lie
//! those of boxes that are read into memory of callers, which `readers` tells of.
//! A slot that is released while tensors of it live is Exported, and Releasing again with the last
//! of them. One in device memory is Fenced before it is Free: until the device has done what was
//! queued on it. Reset frees what was not popped. `remaining` counts what is missing: one for the
//! planning itself, one for each chunk. The error of a batch is that of its lowest (sample, chunk),
//! whatever finished first.
//!
//! There are more slots than memory for batches. A batch that is begun while no memory is free is
//! early: its chunks are planned and read, and its samples are written once `place_next` gave it
//! the memory of a batch that was freed, or that was lent (`places`). `remaining` counts that
//! memory, too.
//!
//! Invariant: batches are begun, get their memory and are popped in push order, so the slot to pop
//! next is the one that holds `next_pop`, and no early batch waits while memory is free.

use crate::base::arena::{Carver, Table, span_of};
use crate::base::bill::Item;
use crate::base::cache::hash_words;
use crate::base::indexes::BatchSlot;
use crate::base::limits::TENSORS_PER_SLOT;
use crate::base::status::{Failure, Status};
use crate::batch::places::Loan;
use crate::batch::record::{Elsewhere, SlotRecord, SlotRows};
pub use crate::batch::record::{PerSample, SlotCounts, SlotState};
use crate::records::{BoxRecord, Fed};
use core::ops::Range;

/// See the module.
pub struct Slots {
    pub(super) slots: &'static mut [SlotRecord],
    /// Slots that have pieces which nobody has, as bits, by who is to do them.
    pub(super) waiting: [u64; 2],
    pub(super) failures: &'static mut [Failure],
    /// Chunk number of the failure of each sample, u64::MAX while it has none.
    pub(super) failed_chunks: &'static mut [u64],
    /// Whether a sample that failed is given up; else its chunks that failed are NaN.
    pub(super) given_up: &'static mut [bool],
    /// Tags, status codes and other facts of each sample.
    pub rows: SlotRows,
    /// Boxes of the samples, as many for each as one may have, slot by slot.
    pub boxes: Table<BoxRecord>,
    /// The tensors of the boxes, likewise; none if no box may be a tensor.
    pub fed: Table<Fed>,
    /// Words of what is done to the elements of each box, if some are not cast alone.
    pub augment: Table<u32>,
    /// How many there are of each kind.
    pub counts: SlotCounts,
    /// Memories of a batch that are free, as bits.
    pub(super) free_places: u64,
    pub(super) loans: &'static mut [Loan],
    pub(super) next_loan: u64,
    pub(super) next_begin: u64,
    /// Batches before this one have, or had, memory.
    pub(super) next_place: u64,
    pub(super) next_pop: u64,
    pub(super) next_turn: u64,
    /// Set in tokens, so that the number of another loader's batch is refused.
    token_key: u64,
}

impl Slots {
    /// Free slots, and so many memories of a batch.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        counts: SlotCounts,
        per_sample: &PerSample,
        elsewhere: Elsewhere,
    ) -> Slots {
        assert!(counts.places > 0 && counts.batches() <= u64::BITS);
        let (all, samples) = (u64::from(counts.all()), counts.rows((1, 1)));
        let (each, listed) = (per_sample.box_rows(), per_sample.listed);
        let rows = (counts.rows(each), counts.rows((listed, each.1 - 1)));
        // Boxes of readers are cast alone.
        let of_batches = (counts.rows((each.0, 0)), counts.rows((listed, 0)));
        let fed = if per_sample.takes_fed { of_batches } else { (0, 0) };
        let words = u64::from(per_sample.augment_words);
        let states = Item::BatchStates;
        Slots {
            slots: carver.slice(Item::BatchStates, all, &SlotRecord::default()),
            waiting: [0; 2],
            failures: carver.slice_from(Item::BatchStates, all, |_| Failure::new(Status::Ok)),
            failed_chunks: carver.slice(Item::BatchStates, samples, &u64::MAX),
            given_up: carver.slice(Item::BatchStates, samples, &false),
            rows: SlotRows::carve(carver, counts, per_sample, elsewhere),
            boxes: Table::of(carver.slice_of_boxes(states, rows, &BoxRecord::EMPTY)),
            fed: Table::of(carver.slice_of_boxes(states, fed, &Fed::NOTHING)),
            augment: Table::of(carver.slice_of_boxes(
                Item::Augmentation,
                (of_batches.0 * words, of_batches.1 * words),
                &0,
            )),
            counts,
            free_places: match counts.is_all_lent {
                true => 0,
                false => u64::MAX >> (u64::BITS - counts.places),
            },
            loans: carver.slice(Item::BatchStates, u64::from(counts.places), &Loan::default()),
            next_loan: 0,
            next_begin: 0,
            next_place: 0,
            next_pop: 0,
            next_turn: 0,
            token_key: 0,
        }
    }

    /// Makes tokens those of the loader that `loader` stands for.
    pub fn set_loader(&mut self, loader: u64) {
        // A bit that no slot's number has, so that no token is 0.
        self.token_key = hash_words(&[loader]) | 1 << 31;
    }

    /// Index of a sample in the tables.
    pub fn row(&self, slot: BatchSlot, sample: u32) -> usize {
        self.counts.row((slot, sample), (1, 1))
    }

    /// All slots of batches.
    pub fn each(&self) -> impl Iterator<Item = BatchSlot> + use<> {
        (0..self.counts.batches()).map(BatchSlot)
    }

    /// Their records.
    pub(super) fn batches(&self) -> &[SlotRecord] {
        &self.slots[..self.counts.batches() as usize]
    }

    /// Batches whose turn came before this one are not early.
    pub fn placed_turn(&self) -> u64 {
        let is_next = |slot: &&SlotRecord| {
            slot.state == SlotState::Filling && slot.batch_id == self.next_place
        };
        self.batches().iter().find(is_next).map_or(u64::MAX, |slot| slot.turn)
    }

    /// Whether a batch was begun that has no memory.
    pub fn has_early(&self) -> bool {
        self.next_place < self.next_begin
    }

    /// Whether the batch in a slot, which was begun, has no memory.
    pub fn is_early(&self, slot: BatchSlot) -> bool {
        let is_batch = self.counts.reader(slot).is_none();
        is_batch && self.slots[slot.at()].batch_id >= self.next_place
    }

    /// A slot for the next batch: if no memory is free, only if the batch may be early.
    pub fn for_next(&self, may_be_early: bool) -> Option<BatchSlot> {
        if !may_be_early && !self.has_place() {
            return None;
        }
        self.find(SlotState::Free)
    }

    /// A slot is free, and its memory too.
    fn free(&mut self, slot: BatchSlot, from: SlotState) {
        self.go(slot, from, SlotState::Free);
        self.free_place(self.rows.place(slot));
    }

    /// State of a slot.
    pub fn state(&self, slot: BatchSlot) -> SlotState {
        self.slots[slot.at()].state
    }

    /// Number of the batch in a slot.
    pub fn batch_id(&self, slot: BatchSlot) -> u64 {
        self.slots[slot.at()].batch_id
    }

    /// Samples of the batch in a slot.
    pub fn sample_count(&self, slot: BatchSlot) -> u32 {
        self.slots[slot.at()].sample_count
    }

    /// Slots in a state.
    pub fn in_state(&self, state: SlotState) -> u32 {
        self.batches().iter().filter(|slot| slot.state == state).count() as u32
    }

    /// Slots that a popped batch or tensors of it keep.
    pub fn kept(&self) -> u32 {
        self.batches().iter().filter(|slot| slot.is_kept()).count() as u32
    }

    /// The batch that was popped first of those that are held, by the caller or by tensors: its
    /// number, and when that was.
    pub fn longest_kept(&self) -> Option<(u64, u64)> {
        let kept = self.batches().iter().filter(|slot| slot.is_kept());
        let oldest = kept.min_by_key(|slot| slot.popped_ns)?;
        Some((oldest.batch_id, oldest.popped_ns))
    }

    /// The slots that are held, as bits.
    pub fn kept_set(&self) -> u64 {
        let kept = self.batches().iter().enumerate().filter(|(_, slot)| slot.is_kept());
        kept.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// The addresses of what is known of the slots themselves, and of loans.
    pub fn spans(&self) -> [Range<usize>; 2] {
        [span_of(&*self.slots), span_of(&*self.loans)]
    }

    /// A slot in a state.
    pub fn find(&self, state: SlotState) -> Option<BatchSlot> {
        self.batches().iter().position(|slot| slot.state == state).map(|at| BatchSlot(at as u32))
    }

    /// Whether a batch was begun that is not popped.
    pub fn has_unpopped(&self) -> bool {
        self.next_pop < self.next_begin
    }

    /// The number of the turn of a batch, or of the box of a reader.
    pub fn turn(&self, slot: BatchSlot) -> u64 {
        self.slots[slot.at()].turn
    }

    /// Whatever came before this turn is neither being planned nor filled.
    pub fn oldest_turn(&self) -> u64 {
        let filling = self.slots.iter().filter(|slot| slot.is_filling());
        filling.map(|slot| slot.turn).min().unwrap_or(self.next_turn)
    }

    /// A slot goes from the state `from` on to `to`.
    pub(super) fn go(
        &mut self,
        slot: BatchSlot,
        from: SlotState,
        to: SlotState,
    ) -> &mut SlotRecord {
        let entry = &mut self.slots[slot.at()];
        assert!(entry.state == from);
        entry.state = to;
        entry
    }

    /// Begins the next batch in a free slot; its first sample has this position in the stream. It
    /// is early if no memory is free. The number of its turn.
    pub fn begin(&mut self, slot: BatchSlot, sample_count: u32, position: u64) -> u64 {
        self.go(slot, SlotState::Free, SlotState::Filling);
        assert!(self.slots[slot.at()].live_tensors() == 0);
        let batch_id = self.next_begin;
        self.next_begin += 1;
        let turn = self.next_turn();
        let SlotRecord { generation, next_tensor, .. } = self.slots[slot.at()];
        self.slots[slot.at()] = SlotRecord {
            state: SlotState::Filling,
            batch_id,
            position,
            sample_count,
            remaining: 1,
            generation,
            next_tensor,
            turn,
            ..SlotRecord::default()
        };
        for sample in 0..sample_count {
            self.clear_failure(slot, sample);
        }
        match self.has_place() {
            false => self.slots[slot.at()].remaining += 1,
            true => self.give_place(slot),
        }
        turn
    }

    pub(super) fn next_turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn - 1
    }

    /// `count` more chunks are missing.
    pub fn add_remaining(&mut self, slot: BatchSlot, count: u64) {
        assert!(self.slots[slot.at()].is_filling());
        self.slots[slot.at()].remaining += count;
    }

    /// `count` fewer are missing; true when that was the last.
    #[must_use]
    pub fn sub_remaining(&mut self, slot: BatchSlot, count: u64) -> bool {
        let slot = &mut self.slots[slot.at()];
        assert!(slot.is_filling() && slot.remaining >= count);
        slot.remaining -= count;
        slot.remaining == 0
    }

    /// The last chunk has been placed: whether passes go over the batch, which failed else. `skip`:
    /// samples that fail with a status that may be skipped do not fail a batch.
    #[must_use]
    pub fn complete(&mut self, slot: BatchSlot, skip: bool) -> bool {
        if self.counts.reader(slot).is_some() {
            self.complete_reader(slot);
            return false;
        }
        let entry = &self.slots[slot.at()];
        assert!(entry.remaining == 0);
        let is_good = entry.failed_samples == 0 || skip && !entry.is_fatal;
        let to = if is_good { SlotState::Finishing } else { SlotState::Failed };
        self.go(slot, SlotState::Filling, to);
        is_good
    }

    /// The slot whose batch comes next, if that batch was begun.
    pub fn next_slot(&self) -> Option<BatchSlot> {
        let waiting = |slot: &SlotRecord| slot.is_stream() && slot.batch_id == self.next_pop;
        self.batches().iter().position(waiting).map(|at| BatchSlot(at as u32))
    }

    /// A token for a batch that is handed out.
    pub(super) fn token(&mut self, slot: BatchSlot) -> u64 {
        let entry = &mut self.slots[slot.at()];
        entry.generation = entry.generation.wrapping_add(1).max(1);
        let generation = u64::from(entry.generation);
        self.token_key ^ (generation << 32 | (u64::from(slot.0) + 1))
    }

    /// Hands the next batch out; its token.
    pub fn pop(&mut self, slot: BatchSlot, now_ns: u64) -> u64 {
        assert!(self.batch_id(slot) == self.next_pop);
        self.next_pop += 1;
        let entry = self.go(slot, SlotState::Ready, SlotState::Held);
        entry.popped_ns = now_ns;
        self.token(slot)
    }

    /// Gives the slot of a failed batch back.
    pub fn drop_failed(&mut self, slot: BatchSlot) {
        assert!(self.batch_id(slot) == self.next_pop);
        self.next_pop += 1;
        self.lose_loan(slot);
        self.free(slot, SlotState::Failed);
    }

    /// The slot of a held batch, or None for a token that was released or never given.
    pub fn held(&self, token: u64) -> Option<BatchSlot> {
        let token = token ^ self.token_key;
        let slot = BatchSlot((token as u32).checked_sub(1)?);
        let entry = self.slots.get(slot.at())?;
        let is_held = entry.state == SlotState::Held && entry.generation as u64 == token >> 32;
        is_held.then_some(slot)
    }

    /// Gives a held slot back; `released` follows.
    pub fn release(&mut self, slot: BatchSlot) {
        self.go(slot, SlotState::Held, SlotState::Releasing);
    }

    /// Whether a tensor was deleted since the slot was begun to be given back, or since this was
    /// asked: what it was used for until then is to be waited for, too.
    pub fn take_touched(&mut self, slot: BatchSlot) -> bool {
        core::mem::take(&mut self.slots[slot.at()].is_touched)
    }

    /// The events that a slot waits for after its release are known: whether it is free.
    /// `is_fenced`: for the device, at least.
    #[must_use]
    pub fn released(&mut self, slot: BatchSlot, is_fenced: bool) -> bool {
        let to = match (self.slots[slot.at()].live_tensors(), is_fenced) {
            (0, false) => SlotState::Free,
            (0, true) => SlotState::Fenced,
            _ => SlotState::Exported,
        };
        if to == SlotState::Free {
            self.free(slot, SlotState::Releasing);
            return true;
        }
        self.go(slot, SlotState::Releasing, to);
        false
    }

    /// The device has done what a slot waited for.
    pub fn unfence(&mut self, slot: BatchSlot) {
        self.free(slot, SlotState::Fenced);
    }

    /// Whether [`Slots::take_tensor`] would give a record.
    pub fn has_tensor_room(&self, slot: BatchSlot, field: u32) -> bool {
        self.slots[slot.at()].tensors[field as usize].count_ones() < TENSORS_PER_SLOT
    }

    /// Takes a tensor record of a field of a held slot; its number, or None if all of them live.
    ///
    /// The record that was used longest ago comes first, so that a deleter that is called twice
    /// most likely meets a dead one.
    pub fn take_tensor(&mut self, slot: BatchSlot, field: u32) -> Option<u32> {
        let entry = &mut self.slots[slot.at()];
        assert!(entry.state == SlotState::Held);
        let live = &mut entry.tensors[field as usize];
        let number = (0..TENSORS_PER_SLOT)
            .map(|step| (u32::from(entry.next_tensor) + step) % TENSORS_PER_SLOT)
            .find(|number| *live & (1 << number) == 0)?;
        *live |= 1 << number;
        entry.next_tensor = ((number + 1) % TENSORS_PER_SLOT) as u16;
        Some(number)
    }

    /// A tensor was deleted; whether that gives its slot back, so that `released` follows. One that
    /// does not live changes nothing.
    #[must_use]
    pub fn delete_tensor(&mut self, (slot, field, number): (BatchSlot, u32, u32)) -> bool {
        let entry = &mut self.slots[slot.at()];
        if entry.tensors[field as usize] & (1 << number) == 0 {
            return false;
        }
        assert!(entry.is_kept());
        entry.tensors[field as usize] &= !(1 << number);
        entry.is_touched |= entry.state == SlotState::Releasing;
        if entry.live_tensors() != 0 || entry.state != SlotState::Exported {
            return false;
        }
        self.go(slot, SlotState::Exported, SlotState::Releasing);
        true
    }

    /// Tensors that were handed out and not deleted.
    pub fn live_tensors(&self) -> u32 {
        self.slots.iter().map(SlotRecord::live_tensors).sum()
    }

    /// Drops every batch that neither the caller nor a tensor keeps; numbers start at 0 again.
    pub fn reset(&mut self) {
        for at in self.each() {
            let entry = &mut self.slots[at.at()];
            if entry.is_stream() {
                let has_place = entry.batch_id < self.next_place;
                entry.state = SlotState::Free;
                if has_place {
                    self.free_place(self.rows.place(at));
                }
            }
        }
        self.reset_loans();
        self.reset_readers();
        self.waiting = [0; 2];
        self.next_begin = 0;
        self.next_place = 0;
        self.next_pop = 0;
    }
}
