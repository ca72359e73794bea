//! Ready batches on their way to consumers.
//!
//! In: the stream, in push order, and consumers. Out: entries of lists. A thread that gives up the
//! lock after a change publishes, so a consumer has its batch as soon as that is ready. A batch is
//! popped, for the loader's own books, as it is published, and stays Held until all consumers that
//! have it gave it back.
//!
//! With [`Order::First`] a consumer has at most one batch in its list. If it leaves that alone, the
//! batch is taken back for another consumer that waits, and the end is published once all batches
//! were taken.

use crate::base::indexes::BatchSlot;
use crate::base::status::{Failure, Status};
use crate::batch::received::Received;
use crate::batch::shared::{ENTRIES, Order, Records, What};
use crate::batch::slots::SlotState;
use crate::os::futex;
use crate::os::socket::Peer;
use crate::state::consumers::{Consumer, LostText, Stage};
use crate::state::device::bits;
use crate::state::lock::Condition;
use crate::state::shared::Shared;
use crate::state::{Life, State};
use core::sync::atomic::Ordering::Relaxed;

impl State {
    /// Publishes all that can be.
    #[inline(never)] // some hundred bytes of stack, for each caller otherwise
    pub fn publish(&mut self, shared: &Shared) {
        let Some(records) = self.consumers.records else { return };
        self.consumers.is_due = false;
        // Ends: each turn publishes an entry, or takes a batch back for a consumer that waits.
        while self.life == Life::Running
            && !self.is_reset_due
            && self.publish_next(shared, &records)
        {}
        self.note_lists(shared);
        records.set_holder(self.holder());
    }

    /// See [`Records::holder`].
    fn holder(&self) -> Option<(u32, u32, u32)> {
        let waits = |one: &Consumer| one.stage == Stage::Attached && one.untaken() == 0;
        if !self.slots.lacks_place() || !self.consumers.each.iter().any(waits) {
            return None;
        }
        self.consumers.holders_of_slots().max_by_key(|(_, slots, _)| *slots)
    }

    /// Notes whether the stream makes consumers wait.
    fn note_lists(&mut self, shared: &Shared) {
        let now_ns = (shared.os.now_ns)();
        let mut consumers = self.consumers.each.iter();
        let is_ahead = consumers.any(|one| one.stage != Stage::Lost && one.is_ahead());
        if is_ahead || self.consumers.has_ended || self.waits.began_ns == 0 {
            self.waits.end(now_ns);
        } else {
            self.begin_wait(shared.settings.config.samples_per_batch, now_ns);
        }
    }

    /// Publishes the next of the stream; false: there is nothing, or its lists have no room.
    fn publish_next(&mut self, shared: &Shared, records: &Records) -> bool {
        if let Some(failure) = &self.sticky {
            if core::mem::replace(&mut self.consumers.has_failed, true) {
                return false;
            }
            records.write_failure(failure);
            self.append_to_all(records, What::Error);
            return false;
        }
        if self.consumers.returned != 0 {
            let slots = bits(self.consumers.returned).map(BatchSlot);
            let next = slots.min_by_key(|slot| self.slots.batch_id(*slot));
            return next.is_some_and(|slot| self.give_first(records, slot));
        }
        let Some(slot) = self.slots.next_slot() else { return self.publish_end(records) };
        match self.slots.state(slot) {
            SlotState::Ready => self.publish_batch(shared, records, slot),
            SlotState::Failed => {
                let failure = self.slots.failure(slot).clone();
                self.slots.drop_failed(slot);
                self.end_stream(&failure);
                self.consumers.tell(failure);
                true
            }
            _ => self.even_out(),
        }
    }

    fn publish_end(&mut self, records: &Records) -> bool {
        let is_over = self.is_flushed && self.queue.is_empty() && !self.slots.has_unpopped();
        let is_first = self.consumers.order == Order::First;
        if !is_over || self.consumers.has_ended {
            return self.even_out();
        }
        if is_first && !self.consumers.have_taken_all() {
            return self.even_out();
        }
        if !self.have_room(u64::MAX) {
            return false;
        }
        self.consumers.has_ended = true;
        self.append_to_all(records, What::End);
        self.wakes.all(Condition::Batch);
        true
    }

    /// Whether the lists of consumers have room for one more entry, apart from a reset and an
    /// error.
    fn have_room(&self, consumers: u64) -> bool {
        let each = self.consumers.each.iter().enumerate();
        let mut meant = each.filter(|(number, _)| consumers & 1 << number != 0);
        meant.all(|(_, one)| one.stage == Stage::Lost || one.untaken() < ENTRIES - 2)
    }

    fn publish_batch(&mut self, shared: &Shared, records: &Records, slot: BatchSlot) -> bool {
        let count = self.consumers.each.len() as u64;
        let meant = match self.consumers.order {
            Order::Round => 1 << (self.slots.batch_id(slot) % count),
            Order::All => u64::MAX >> (u64::BITS as u64 - count),
            Order::First => {
                // It is popped once there is a consumer that takes it.
                return self.has_taker() && {
                    self.take_slot(shared, slot);
                    self.give_first(records, slot)
                };
            }
        };
        if !self.have_room(meant) {
            return false;
        }
        let lost = meant & self.consumers.in_stage(Stage::Lost);
        if lost != 0 && !self.consumers.is_skipping {
            let number = lost.trailing_zeros();
            let Consumer { peer, has_closed, .. } = self.consumers.each[number as usize];
            let was_new = peer == Peer::NONE;
            let text = LostText { number, peer, was_new, has_closed };
            let failure = Failure::of(Status::Shutdown, format_args!("{text}"));
            self.end_stream(&failure);
            self.consumers.tell(failure);
            return true;
        }
        self.take_slot(shared, slot);
        match meant & !lost {
            0 => {
                // No consumer gets it.
                shared.stats.batches_lost.fetch_add(1, Relaxed);
                self.free_abandoned(shared);
            }
            takers => bits(takers).for_each(|number| self.hand(records, slot, number)),
        }
        true
    }

    /// The batch of a slot leaves the stream.
    fn take_slot(&mut self, shared: &Shared, slot: BatchSlot) {
        let now_ns = (shared.os.now_ns)();
        let _ = self.slots.pop(slot, now_ns);
        self.waits.note_pop(now_ns);
        shared.stats.batches_emitted.fetch_add(1, Relaxed);
        // For reset and flush: the end of the stream is not published yet.
        self.consumers.has_ended = false;
    }

    /// The consumer that gets the next batch with [`Order::First`]: one that waits, else one that
    /// has none in its list.
    fn taker(&self) -> Option<u32> {
        let idle = |number: &u32| {
            let one = &self.consumers.each[*number as usize];
            one.stage == Stage::Attached && one.untaken() == 0
        };
        let waits = |number: &u32| {
            self.consumers.each[*number as usize].page.is_some_and(|page| page.is_waiting())
        };
        let all = 0..self.consumers.each.len() as u32;
        all.clone().filter(idle).find(waits).or_else(|| all.clone().find(idle))
    }

    fn has_taker(&self) -> bool {
        self.taker().is_some()
    }

    /// Gives a Held slot to the consumer that takes the next batch.
    fn give_first(&mut self, records: &Records, slot: BatchSlot) -> bool {
        let Some(number) = self.taker() else {
            self.consumers.returned |= 1 << slot.0;
            return false;
        };
        self.consumers.returned &= !(1 << slot.0);
        self.hand(records, slot, number);
        true
    }

    /// Takes a batch back from a consumer that leaves it alone, if another waits for one.
    fn even_out(&mut self) -> bool {
        if self.consumers.order != Order::First {
            return false;
        }
        let waits = |number: u32| {
            self.consumers.each[number as usize].page.is_some_and(|page| page.is_waiting())
        };
        if !self.taker().is_some_and(waits) {
            return false;
        }
        let all = 0..self.consumers.each.len() as u32;
        let is_idle = |number: &u32| {
            let one = &self.consumers.each[*number as usize];
            let has_batch = self.consumers.ahead(*number) != 0;
            one.stage == Stage::Attached && has_batch && !waits(*number)
        };
        let Some(number) = all.clone().find(is_idle) else { return false };
        let back = self.consumers.take_back(number);
        self.consumers.returned |= back;
        back != 0
    }

    /// A consumer gets the batch of a Held slot.
    fn hand(&mut self, records: &Records, slot: BatchSlot, number: u32) {
        let what = What::Batch(Received {
            slot: slot.0,
            place: self.slots.rows.place(slot) as u32,
            batch_id: self.slots.batch_id(slot),
            samples: self.slots.sample_count(slot),
            failed: self.slots.failed_samples(slot),
        });
        let at = self.consumers.number_at(slot, number);
        self.consumers.numbers[at] = self.consumers.each[number as usize].tail;
        self.consumers.holders[slot.at()] |= 1 << number;
        self.append(records, number, what);
    }

    fn append_to_all(&mut self, records: &Records, what: What) {
        for number in 0..self.consumers.each.len() as u32 {
            self.append(records, number, what);
        }
    }

    /// Appends to the list of a consumer that is not lost, and wakes it.
    pub(super) fn append(&mut self, records: &Records, number: u32, what: What) {
        let consumer = &mut self.consumers.each[number as usize];
        if consumer.stage == Stage::Lost {
            return;
        }
        records.publish(number, consumer.tail, what);
        consumer.tail += 1;
        if consumer.page.is_some_and(|page| page.is_waiting()) {
            futex::wake(records.signal(number));
        }
    }
}
