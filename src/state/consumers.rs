//! The processes that take the batches of this loader, and the batches that each of them holds.
//!
//! ```text
//!            attach            hang-up, or too late
//!  New ────────────▶ Attached ─────────────────────▶ Lost ──(attach)──▶ Attached
//!    └───────────────────(too late)───────────────────▲
//! ```
//!
//! In: pages, which consumers write, and the ends of sockets. Out: slots that no consumer has any
//! more, and the batches of lost consumers. Each number of a page is checked: one that no consumer
//! writes makes its consumer a lost one.
//!
//! Invariant: a slot whose `holders` are not empty is Held, and free once the last of them gave it
//! back or is lost. `publish` appends to lists; this module alone takes from them.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::status::{Failure, Status};
use crate::batch::shared::{ENTRIES, Order, Page, Records, Taken, What};
use crate::batch::slots::SlotState;
use crate::os::socket::Peer;
use crate::setup::config::LOST_SKIP;
use crate::setup::settings::Settings;
use crate::state::State;
use crate::state::device::bits;
use crate::state::lock::Condition;
use crate::state::owned::Sharing;
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

/// Tries to take entries back. A try fails because the consumer took an entry at that moment, and a
/// list has no more than ENTRIES. A consumer that still raises `taken` after these loses the
/// batches, too.
const TRIES: u64 = 2 * ENTRIES;

/// How far a consumer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It has not attached yet, and batches for it wait.
    New,
    /// It has attached.
    Attached,
    /// It has closed or ended, or did not attach in time.
    Lost,
}

/// A consumer, as its owner knows it.
#[derive(Clone, Copy)]
pub struct Consumer {
    /// How far it is.
    pub stage: Stage,
    /// Its process.
    pub peer: Peer,
    /// Entries of its list.
    pub(super) tail: u64,
    /// Those of them that it has taken, or that were taken back.
    pub(super) taken: u64,
    /// The page that it writes, from its attach to its end.
    pub(super) page: Option<Page>,
    /// It has closed, so it takes nothing any more.
    pub has_closed: bool,
}

impl Consumer {
    const NEW: Consumer = Consumer {
        stage: Stage::New,
        peer: Peer::NONE,
        tail: 0,
        taken: 0,
        page: None,
        has_closed: false,
    };

    /// Whether its list has an entry now. Its page may have any number.
    pub(super) fn is_ahead(&self) -> bool {
        self.page.map_or(self.taken, |page| page.next()) < self.tail
    }

    /// Entries that wait for it.
    pub(super) fn untaken(&self) -> u64 {
        self.tail - self.taken
    }
}

/// The effect of a hang-up, for the log.
pub struct Loss {
    /// Batches that are dropped.
    pub batches: u32,
    /// Slots whose batches the consumer had popped, as bits: the tags of these are logged.
    pub popped: u64,
    /// The failure by which the stream ends for all.
    pub failure: Option<Failure>,
}

/// See the module.
pub struct Consumers {
    /// None: nothing is shared.
    pub records: Option<Records>,
    pub(super) order: Order,
    pub(super) each: &'static mut [Consumer],
    /// By slot: the consumers that have its batch, as bits.
    pub(super) holders: &'static mut [u64],
    /// By slot and consumer: the number of the entry.
    pub(super) numbers: &'static mut [u64],
    /// Slots whose batch was taken back from a consumer, as bits: another gets these first.
    pub(super) returned: u64,
    /// The end of the samples that were pushed so far was published.
    pub(super) has_ended: bool,
    /// The failure of the stream was published.
    pub(super) has_failed: bool,
    /// Something changed that `publish` looks at, apart from the stream.
    pub is_due: bool,
    /// A failure that is not logged yet. Its place is apart, as that of a call's failure.
    pub unlogged: &'static mut [Option<Failure>],
    pub(super) is_skipping: bool,
}

impl Consumers {
    /// The consumers of an owner; none if nothing is shared.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, settings: &Settings, sharing: &Sharing) -> Consumers {
        let share = &settings.share;
        let count = if settings.is_owner() { u64::from(share.consumers) } else { 0 };
        let slots = if settings.is_owner() { u64::from(settings.batch_records()) } else { 0 };
        Consumers {
            records: sharing.records.filter(|_| settings.is_owner()),
            order: share.order,
            each: carver.slice(Item::BatchStates, count, &Consumer::NEW),
            holders: carver.slice(Item::BatchStates, slots, &0),
            numbers: carver.slice(Item::BatchStates, slots * count, &0),
            returned: 0,
            has_ended: false,
            has_failed: false,
            is_due: false,
            unlogged: carver.slice_from(Item::BatchStates, count.min(1), |_| None),
            is_skipping: settings.config.on_consumer_lost == LOST_SKIP,
        }
    }

    /// All of them, by number.
    pub fn each(&self) -> &[Consumer] {
        self.each
    }

    pub(super) fn number_at(&self, slot: BatchSlot, consumer: u32) -> usize {
        slot.at() * self.each.len() + consumer as usize
    }

    /// Slots that consumers hold, or that wait for another one, as bits.
    fn held(&self) -> u64 {
        let held = self.holders.iter().enumerate().filter(|(_, holders)| **holders != 0);
        held.fold(self.returned, |bits, (slot, _)| bits | 1 << slot)
    }

    /// Consumers in a stage, as bits.
    pub fn in_stage(&self, stage: Stage) -> u64 {
        let found = self.each.iter().enumerate().filter(|(_, one)| one.stage == stage);
        found.fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Whether every consumer that is not lost has taken all of its list.
    pub fn have_taken_all(&self) -> bool {
        self.each.iter().all(|one| one.stage == Stage::Lost || one.untaken() == 0)
    }

    /// Whether the end was published, and nothing after it.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Keeps a failure for the log.
    pub(super) fn tell(&mut self, failure: Failure) {
        self.unlogged.iter_mut().for_each(|place| *place = Some(failure.clone()));
    }

    /// Samples were pushed.
    pub fn note_push(&mut self) {
        self.has_ended = false;
    }

    /// A consumer attached.
    pub fn attach(&mut self, number: u32, page: Page, peer: Peer) {
        let consumer = &mut self.each[number as usize];
        page.begin(consumer.taken);
        (consumer.stage, consumer.page, consumer.peer) = (Stage::Attached, Some(page), peer);
        consumer.has_closed = false;
        self.is_due = true;
        self.show_attached();
    }

    fn show_attached(&self) {
        let attached = self.in_stage(Stage::Attached);
        self.records.iter().for_each(|records| records.set_attached(attached));
    }

    /// Looks at the page of a consumer; false: it has a number that no consumer writes.
    fn look(&mut self, number: u32) -> bool {
        let consumer = &mut self.each[number as usize];
        let Some(page) = &consumer.page else { return true };
        match page.taken(consumer.taken, consumer.tail) {
            Taken::Entries(taken) => {
                self.is_due |= taken != consumer.taken;
                consumer.taken = taken;
                true
            }
            Taken::Nonsense => false,
        }
    }

    /// Whether a consumer has given back, or never taken, the batch of a slot.
    fn has_given_back(&self, slot: BatchSlot, number: u32) -> bool {
        let consumer = &self.each[number as usize];
        let entry = self.numbers[self.number_at(slot, number)];
        let is_taken = entry < consumer.taken;
        is_taken && consumer.page.is_some_and(|page| page.has_released(slot.0, entry))
    }

    /// Takes back the entries that a consumer has not taken, unless it takes them at this moment.
    /// The slots, as bits, whose batches it loses by that.
    pub(super) fn take_back(&mut self, number: u32) -> u64 {
        let consumer = &mut self.each[number as usize];
        for _ in 0..TRIES {
            let Some(page) = &consumer.page else { break };
            let Taken::Entries(taken) = page.taken(consumer.taken, consumer.tail) else { break };
            if page.pass(taken, consumer.tail) {
                consumer.taken = taken;
                break;
            }
        }
        let lost = self.ahead(number);
        for slot in bits(lost) {
            self.holders[slot as usize] &= !(1 << number);
        }
        let consumer = &mut self.each[number as usize];
        consumer.taken = consumer.tail;
        lost
    }

    /// Drops what a consumer popped, at its end. The slots of batches that are lost by that.
    fn drop_popped(&mut self, number: u32) -> u64 {
        let mut popped = 0;
        for slot in bits(self.held()).map(BatchSlot) {
            if self.holders[slot.at()] & 1 << number != 0 {
                self.holders[slot.at()] &= !(1 << number);
                popped |= 1 << slot.0;
            }
        }
        let consumer = &mut self.each[number as usize];
        consumer.page = None;
        if consumer.has_closed { 0 } else { popped }
    }

    /// The consumers that have slots: how many, and in how many of these a batch waits.
    pub fn holders_of_slots(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        let all = (0..self.each.len() as u32).map(|number| {
            let has = |holders: &&u64| **holders & 1 << number != 0;
            let slots = self.holders.iter().filter(has).count() as u32;
            (number, slots, self.ahead(number).count_ones())
        });
        all.filter(|(_, slots, _)| *slots > 0)
    }

    /// Slots whose batches wait in the list of a consumer, as bits.
    pub(super) fn ahead(&self, number: u32) -> u64 {
        let first = self.each[number as usize].taken;
        let is_ahead = |slot: &u32| {
            let slot = BatchSlot(*slot);
            let holds = self.holders[slot.at()] & 1 << number != 0;
            holds && self.numbers[self.number_at(slot, number)] >= first
        };
        bits(self.held()).filter(is_ahead).fold(0, |bits, slot| bits | 1 << slot)
    }
}

impl State {
    /// Frees the slots that no consumer has any more, and none is to get.
    pub fn free_abandoned(&mut self, shared: &Shared) {
        while let Some(slot) = self.abandoned() {
            self.free_held(slot);
            self.slot_freed(shared);
        }
    }

    fn abandoned(&self) -> Option<BatchSlot> {
        let consumers = &self.consumers;
        let all = (0..consumers.holders.len() as u32).map(BatchSlot);
        let mut held = all.filter(|slot| self.slots.state(*slot) == SlotState::Held);
        let is_nobodys = |slot: &BatchSlot| {
            consumers.holders[slot.at()] == 0 && consumers.returned & 1 << slot.0 == 0
        };
        held.find(is_nobodys)
    }

    fn free_held(&mut self, slot: BatchSlot) {
        self.slots.release(slot);
        // No tensor of this process has it, and no device.
        let is_free = self.slots.released(slot, false);
        assert!(is_free);
    }

    /// Looks at all pages for entries that were taken, and batches that were given back. The
    /// consumers, as bits, whose pages have a number that none writes.
    pub fn collect(&mut self, shared: &Shared) -> u64 {
        let mut liars = 0;
        for number in 0..self.consumers.each.len() as u32 {
            liars |= u64::from(!self.consumers.look(number)) << number;
        }
        for slot in bits(self.consumers.held()).map(BatchSlot) {
            let holders = self.consumers.holders[slot.at()];
            for number in bits(holders) {
                if self.consumers.has_given_back(slot, number) {
                    self.consumers.holders[slot.at()] &= !(1 << number);
                }
            }
        }
        self.free_abandoned(shared);
        // A call that waits until all is taken looks again.
        self.wakes.all(Condition::Batch);
        liars
    }

    /// A consumer has closed, or has ended, or did not attach in time. Batches that it had not
    /// popped are for the next consumer, or are dropped, or end the stream. Those that it had are
    /// its own until it gave them back, because tensors may be made of them; at its end they are
    /// dropped, and lost unless it closed before.
    pub fn lose(&mut self, shared: &Shared, number: u32, has_ended: bool) -> Loss {
        // Entries that it took and batches that it gave back before its end are noted first.
        let _ = self.collect(shared);
        let mut lost = self.consumers.take_back(number);
        let mut loss = Loss { batches: 0, popped: 0, failure: None };
        if has_ended {
            loss.popped = self.consumers.drop_popped(number);
        }
        let consumer = &mut self.consumers.each[number as usize];
        let was_new = consumer.stage == Stage::New;
        let (peer, has_closed) = (consumer.peer, !has_ended || consumer.has_closed);
        (consumer.stage, consumer.has_closed) = (Stage::Lost, has_closed);
        self.consumers.show_attached();
        self.consumers.is_due = true;
        let is_first = self.consumers.order == Order::First;
        if is_first {
            self.consumers.returned |= lost;
            lost = 0;
        }
        loss.batches = (lost | loss.popped).count_ones();
        if lost != 0 && !self.consumers.is_skipping && self.sticky.is_none() {
            let text = LostText { number, peer, was_new, has_closed };
            loss.failure = Some(Failure::of(Status::Shutdown, format_args!("{text}")));
        }
        if let Some(failure) = &loss.failure {
            self.end_stream(failure);
        }
        shared.stats.batches_lost.fetch_add(u64::from(loss.batches), Relaxed);
        loss
    }

    /// The stream ends for all with a failure.
    pub(super) fn end_stream(&mut self, failure: &Failure) {
        self.sticky = Some(failure.clone());
        self.is_halted = true;
        self.wakes.all(Condition::Batch);
        self.wakes.all(Condition::Space);
    }

    /// Takes back the entries that no consumer has taken, and appends a reset to each list.
    pub(super) fn reset_consumers(&mut self) {
        let Some(records) = self.consumers.records else { return };
        for number in 0..self.consumers.each.len() as u32 {
            self.consumers.take_back(number);
        }
        self.consumers.returned = 0;
        while let Some(slot) = self.abandoned() {
            self.free_held(slot);
        }
        (self.consumers.has_ended, self.consumers.has_failed) = (false, false);
        for number in 0..self.consumers.each.len() as u32 {
            self.append(&records, number, What::Reset);
        }
    }

    /// The loader ends: its slots are its own again. Consumers keep batches that they popped, and
    /// take entries that are published.
    pub fn end_sharing(&mut self, shared: &Shared) {
        self.consumers.returned = 0;
        self.consumers.holders.fill(0);
        self.free_abandoned(shared);
    }
}

/// The text of a failure by a lost consumer.
pub(super) struct LostText {
    pub(super) number: u32,
    pub(super) peer: Peer,
    pub(super) was_new: bool,
    pub(super) has_closed: bool,
}

impl core::fmt::Display for LostText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let LostText { number, peer, was_new, has_closed } = self;
        let way_out = "attach it again after a reset, or set on_consumer_lost to skip";
        match (was_new, has_closed) {
            (true, _) => write!(
                f,
                "consumer {number} did not attach within attach_timeout_ns: start it, raise that, \
                 or {way_out}"
            ),
            (_, true) => write!(
                f,
                "consumer {number} ({peer}) has closed, and batches for it are left: \
                 {way_out}"
            ),
            _ => {
                write!(f, "consumer {number} ({peer}) ended without a close: {way_out}")
            }
        }
    }
}
