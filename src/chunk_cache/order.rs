//! Which of the chunks that may be evicted goes first: a binary heap that knows each slot's place.
//!
//! In: slots with a lateness, which is distinct. Out: the latest ones. The heap holds the lateness
//! beside the slot, so that sifting reads one table and not the residents.
//!
//! Invariant: `entries[positions[slot]].slot == slot` for every slot in the heap, and no entry is
//! later than its parent.

use super::{NEVER, NONE, Slot};
use crate::base::arena::Carver;
use crate::base::bill::Item;
use arrayvec::ArrayVec;

/// Lateness of everything that is never used again, as far as known, is at least this.
pub(super) const NEVER_LATENESS: u64 = 1 << 63;

/// Most slots that [`Latest`] gives.
pub(super) const LATEST_MAX: usize = 64;

/// Lateness of a chunk: the time of its next use. Those without one are later than all others, the
/// oldest latest; `stamp` grows from call to call.
pub(super) fn lateness_from_use(next_use: u64, stamp: u64) -> u64 {
    if next_use == NEVER {
        return u64::MAX - stamp;
    }
    assert!(next_use < NEVER_LATENESS);
    next_use
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lateness: u64,
    slot: Slot,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Order {
    entries: &'static mut [Entry],
    count: usize,
    positions: &'static mut [u32],
}

impl Order {
    /// An empty order over slots below `count`.
    pub fn carve(carver: &mut Carver, count: u32) -> Order {
        Order {
            entries: carver.slice(
                Item::ChunkCacheTables,
                count as u64,
                &Entry { lateness: 0, slot: NONE },
            ),
            count: 0,
            positions: carver.slice(Item::ChunkCacheTables, count as u64, &NONE),
        }
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        for entry in &self.entries[..self.count] {
            self.positions[entry.slot as usize] = NONE;
        }
        self.count = 0;
    }

    /// The slot's lateness. None: it is not in the order.
    pub fn lateness(&self, slot: Slot) -> Option<u64> {
        let position = self.positions[slot as usize];
        (position != NONE).then(|| self.entries[position as usize].lateness)
    }

    /// Adds a slot that is not in the order.
    pub fn insert(&mut self, slot: Slot, lateness: u64) {
        assert!(self.positions[slot as usize] == NONE);
        let position = self.count;
        self.count += 1;
        self.sift_up(position, Entry { lateness, slot });
    }

    /// Takes out a slot that is in the order.
    pub fn remove(&mut self, slot: Slot) {
        let position = self.positions[slot as usize];
        assert!(position != NONE);
        self.positions[slot as usize] = NONE;
        self.count -= 1;
        if position as usize == self.count {
            return;
        }
        let hole = position as usize;
        let entry = self.entries[self.count];
        if hole > 0 && self.entries[(hole - 1) / 2].lateness < entry.lateness {
            self.sift_up(hole, entry);
        } else {
            self.sift_down(hole, entry);
        }
    }

    /// The latest slots, one by one; the order does not change meanwhile.
    pub fn latest(&self) -> Latest {
        let mut frontier = ArrayVec::new();
        if self.count > 0 {
            frontier.push(0);
        }
        Latest { frontier, given: 0 }
    }

    fn sift_up(&mut self, mut hole: usize, entry: Entry) {
        while hole > 0 {
            let parent = (hole - 1) / 2;
            if self.entries[parent].lateness >= entry.lateness {
                break;
            }
            self.put(hole, self.entries[parent]);
            hole = parent;
        }
        self.put(hole, entry);
    }

    fn sift_down(&mut self, mut hole: usize, entry: Entry) {
        while 2 * hole + 1 < self.count {
            let left = 2 * hole + 1;
            let right = left + 1;
            let is_right_later =
                right < self.count && self.entries[right].lateness > self.entries[left].lateness;
            let child = if is_right_later { right } else { left };
            if self.entries[child].lateness <= entry.lateness {
                break;
            }
            self.put(hole, self.entries[child]);
            hole = child;
        }
        self.put(hole, entry);
    }

    fn put(&mut self, position: usize, entry: Entry) {
        self.entries[position] = entry;
        self.positions[entry.slot as usize] = position as u32;
    }
}

/// Positions whose parents were given and that were not given themselves: the next latest slot is
/// among them. Each slot that is given takes one position out and puts at most two in.
pub(super) struct Latest {
    frontier: ArrayVec<u32, { LATEST_MAX + 1 }>,
    given: usize,
}

impl Latest {
    /// The latest slot that was not given yet. None after LATEST_MAX.
    pub fn next(&mut self, order: &Order) -> Option<Slot> {
        if self.given == LATEST_MAX {
            return None;
        }
        let lateness = |position: u32| order.entries[position as usize].lateness;
        let at = (0..self.frontier.len()).max_by_key(|at| lateness(self.frontier[*at]))?;
        let position = self.frontier.swap_remove(at);
        let left = 2 * position as usize + 1;
        for child in left..(left + 2).min(order.count) {
            self.frontier.push(child as u32);
        }
        self.given += 1;
        Some(order.entries[position as usize].slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cache::hash_words;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn after_any_history_the_latest_slots_come_first() {
        let count = 3 * LATEST_MAX as u32;
        let entries = vec![Entry { lateness: 0, slot: NONE }; count as usize].leak();
        let positions = vec![NONE; count as usize].leak();
        let mut order = Order { entries, count: 0, positions };
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut state = 4u64;
        for _ in 0..20_000 {
            state = hash_words(&[state]);
            let slot = (state >> 32) as u32 % count;
            assert_eq!(order.lateness(slot), model.get(&slot).copied());
            match model.remove(&slot) {
                Some(_) => order.remove(slot),
                None => {
                    model.insert(slot, state >> 1);
                    order.insert(slot, state >> 1);
                }
            }
            let mut sorted: Vec<(u64, u32)> = model.iter().map(|(slot, at)| (*at, *slot)).collect();
            sorted.sort_by(|a, b| b.cmp(a));
            let mut latest = order.latest();
            for (_, slot) in sorted.into_iter().take(LATEST_MAX) {
                assert_eq!(latest.next(&order), Some(slot));
            }
            assert_eq!(latest.next(&order), None);
        }
    }
}
