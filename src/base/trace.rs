//! Events of stages: a ring of the last ones, which any thread writes and reads without a lock.
//!
//! In: one event for each observation of a stage. Out: a copy of those that the ring has, oldest
//! first, none of them torn.
//!
//! ```text
//! place of ticket t, one of `count`:  sequence  2 t + 1 while it is written, 2 t + 2 afterwards
//! ```
//!
//! Invariant: a sequence grows. A writer that finds its place with another writer, or with a later
//! ticket, was overtaken by a whole ring of events, and drops its own.

use crate::base::abi::{Event, NO_BATCH};
use crate::base::arena::Carver;
use crate::base::bill::Item;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// Words of an event.
const WORDS: usize = 6;

/// Slots whose batches have a number in events, which are all but those of readers.
const SLOTS: usize = 128;

/// A place of the ring.
#[derive(Default)]
struct Place {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// See the module.
pub struct Trace {
    places: &'static [Place],
    /// The ticket of the next event. Writers add; sequences order the rest.
    next: AtomicU64,
    /// The ticket of the first event since the figures began. A reset writes it.
    first: AtomicU64,
    /// The number of the batch in each slot. The planner writes it before the batch has work.
    batches: [AtomicU64; SLOTS],
}

/// Two numbers as one word.
fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Event {
    fn words(&self) -> [u64; WORDS] {
        let Event { begin_ns, duration_ns, bytes, batch, kind, thread, wave, slot } = *self;
        [begin_ns, duration_ns, bytes, batch, joined(kind, thread), joined(wave, slot)]
    }

    fn of_words(words: [u64; WORDS]) -> Event {
        let [begin_ns, duration_ns, bytes, batch, what, place] = words;
        let (kind, thread) = (what as u32, (what >> 32) as u32);
        let (wave, slot) = (place as u32, (place >> 32) as u32);
        Event { begin_ns, duration_ns, bytes, batch, kind, thread, wave, slot }
    }
}

impl Trace {
    /// A ring over so many places; none if that is 0, or while counting.
    pub fn carve(carver: &mut Carver, count: u32) -> Option<&'static Trace> {
        let places = &*carver.slice_from(Item::Trace, u64::from(count), |_| Place::default());
        let make = |_: &mut Carver| Trace {
            places,
            next: AtomicU64::new(0),
            first: AtomicU64::new(0),
            batches: [const { AtomicU64::new(NO_BATCH) }; SLOTS],
        };
        carver.slice_from(Item::Trace, u64::from(count > 0), make).first()
    }

    fn place(&self, ticket: u64) -> Option<&Place> {
        let number = ticket.checked_rem(self.places.len() as u64)?;
        self.places.get(number as usize)
    }

    /// Adds an event in the place of the oldest one.
    pub fn add(&self, event: &Event) {
        let ticket = self.next.fetch_add(1, Relaxed);
        let Some(place) = self.place(ticket) else { return };
        let (before, writing) = (place.sequence.load(Relaxed), 2 * ticket + 1);
        let is_free = before.is_multiple_of(2) && before < writing;
        // Acquire: the words of the writer before are older than those of this one.
        let claim = || place.sequence.compare_exchange(before, writing, Acquire, Relaxed);
        if !is_free || claim().is_err() {
            return;
        }
        // A reader that reads a word of this event then finds that its place is being written.
        fence(Release);
        for (word, value) in place.words.iter().zip(event.words()) {
            word.store(value, Relaxed);
        }
        place.sequence.store(writing + 1, Release);
    }

    /// A batch begins in a slot.
    pub fn begin_batch(&self, slot: u32, batch: u64) {
        self.batches.get(slot as usize).into_iter().for_each(|place| place.store(batch, Relaxed));
    }

    /// The batch in a slot.
    pub fn batch_of(&self, slot: u32) -> Option<u64> {
        self.batches.get(slot as usize).map(|batch| batch.load(Relaxed))
    }

    /// Forgets all events.
    pub fn reset(&self) {
        self.first.store(self.next.load(Relaxed), Relaxed);
    }

    /// Hands the last events, `most` at most, to `keep`, the oldest first. Those that are written
    /// meanwhile are left out.
    pub fn each(&self, most: usize, mut keep: impl FnMut(Event)) {
        let (next, count) = (self.next.load(Acquire), self.places.len().min(most) as u64);
        let oldest = next.saturating_sub(count).max(self.first.load(Relaxed));
        for ticket in oldest..next {
            let Some(place) = self.place(ticket) else { return };
            let sequence = place.sequence.load(Acquire);
            let words = place.words.each_ref().map(|word| word.load(Relaxed));
            fence(Acquire);
            if sequence == 2 * ticket + 2 && place.sequence.load(Relaxed) == sequence {
                keep(Event::of_words(words));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn ring(count: u32) -> &'static Trace {
        Trace::carve(&mut Carver::leaked(1 << 20), count).unwrap()
    }

    /// An event whose numbers all follow from one.
    fn event(number: u64) -> Event {
        let low = number as u32;
        Event {
            begin_ns: number,
            duration_ns: number << 7,
            bytes: !number,
            batch: number << 20,
            kind: low & 7,
            thread: low ^ 0x5555,
            wave: low >> 1,
            slot: !low,
        }
    }

    fn events(trace: &Trace, most: usize) -> Vec<[u64; WORDS]> {
        let mut found = Vec::new();
        trace.each(most, |event| found.push(event.words()));
        found
    }

    fn numbers(range: core::ops::Range<u64>) -> Vec<[u64; WORDS]> {
        range.map(|number| event(number).words()).collect()
    }

    #[test]
    fn a_ring_has_the_last_events_oldest_first() {
        let trace = ring(5);
        assert!(events(trace, 9).is_empty());
        (0..3).for_each(|number| trace.add(&event(number)));
        assert_eq!(events(trace, 9), numbers(0..3));
        (3..13).for_each(|number| trace.add(&event(number)));
        assert_eq!(events(trace, 9), numbers(8..13));
        assert_eq!(events(trace, 2), numbers(11..13));
        assert!(events(trace, 0).is_empty());
        trace.reset();
        assert!(events(trace, 9).is_empty());
        trace.add(&event(13));
        assert_eq!(events(trace, 9), numbers(13..14));
        assert!(Trace::carve(&mut Carver::leaked(1 << 10), 0).is_none());
    }

    #[test]
    fn an_event_that_is_read_while_others_are_written_is_whole() {
        let trace = ring(4);
        std::thread::scope(|scope| {
            for writer in 0..3u64 {
                let write = move || (0..30_000).for_each(|n| trace.add(&event(n * 3 + writer)));
                scope.spawn(write);
            }
            scope.spawn(|| {
                for _ in 0..20_000 {
                    trace.each(4, |found| assert_eq!(found.words(), event(found.begin_ns).words()));
                }
            });
        });
    }
}
