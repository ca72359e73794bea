//! The bookkeeping of a fixed-capacity cache: which slot holds which key, and which slot to reuse.
//!
//! In: 64-bit hashes and a test for equality. Out: slot numbers. The contents live beside it, in
//! slices with the same numbering. Slots that are pinned are never reused; the others are reused
//! least recently unpinned first. Chains instead of probing: a removal leaves no tombstones, and
//! pinned slots cannot make a lookup fail below capacity.
//!
//! Invariant: a slot is in at most one hash chain, and in the age list exactly while unpinned.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::math::index;

const NONE: u32 = u32::MAX;

/// Doubly linked lists over slot numbers, oldest first.
#[derive(Debug)]
pub struct List {
    links: &'static mut [[u32; 2]],
    first: u32,
    last: u32,
}

impl List {
    /// An empty list over `count` slots.
    pub fn carve(carver: &mut Carver, item: Item, count: u32) -> List {
        let links = carver.slice(item, count as u64, &[NONE, NONE]);
        List { links, first: NONE, last: NONE }
    }

    /// The oldest slot.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// The slot after `slot`, which is in the list.
    pub fn next(&self, slot: u32) -> Option<u32> {
        let after = self.links[slot as usize][1];
        (after != NONE).then_some(after)
    }

    /// Adds a slot that is not in the list as the youngest.
    pub fn push(&mut self, slot: u32) {
        self.links[slot as usize] = [self.last, NONE];
        match self.last {
            NONE => self.first = slot,
            last => self.links[last as usize][1] = slot,
        }
        self.last = slot;
    }

    /// Takes a slot that is in the list out of it.
    pub fn remove(&mut self, slot: u32) {
        let [before, after] = self.links[slot as usize];
        match before {
            NONE => {
                assert!(self.first == slot);
                self.first = after;
            }
            before => self.links[before as usize][1] = after,
        }
        match after {
            NONE => {
                assert!(self.last == slot);
                self.last = before;
            }
            after => self.links[after as usize][0] = before,
        }
        self.links[slot as usize] = [NONE, NONE];
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    next: u32,
    pins: u32,
    keyed: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Cache {
    buckets: &'static mut [u32],
    slots: &'static mut [Slot],
    ages: List,
}

impl Cache {
    /// A cache of `count` slots without keys.
    pub fn carve(carver: &mut Carver, item: Item, count: u32) -> Cache {
        let buckets = carver.slice(item, (count as u64 * 2).next_power_of_two(), &NONE);
        let empty = Slot { hash: 0, next: NONE, pins: 0, keyed: false };
        let slots = carver.slice(item, count as u64, &empty);
        let mut ages = List::carve(carver, item, count);
        (0..slots.len() as u32).for_each(|slot| ages.push(slot));
        Cache { buckets, slots, ages }
    }

    /// The slot whose hash is `hash` and that `is_equal` accepts.
    pub fn find(&self, hash: u64, mut is_equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut slot = self.buckets[self.bucket(hash)];
        while slot != NONE {
            if self.slots[slot as usize].hash == hash && is_equal(slot) {
                return Some(slot);
            }
            slot = self.slots[slot as usize].next;
        }
        None
    }

    /// Takes the slot that was unused for longest for a new key. None while all are pinned. What
    /// the slot held before is the caller's to end.
    pub fn take(&mut self, hash: u64) -> Option<u32> {
        let slot = self.ages.first()?;
        self.set_key(slot, hash);
        self.touch(slot);
        Some(slot)
    }

    /// Gives a slot another key; its age and its pins stay.
    pub fn set_key(&mut self, slot: u32, hash: u64) {
        self.forget(slot);
        let bucket = self.bucket(hash);
        let (next, pins) = (self.buckets[bucket], self.slots[slot as usize].pins);
        self.slots[slot as usize] = Slot { hash, next, pins, keyed: true };
        self.buckets[bucket] = slot;
    }

    /// The slot that `take` would give.
    pub fn oldest(&self) -> Option<u32> {
        self.ages.first()
    }

    /// Whether so many slots are not pinned.
    pub fn has_unpinned(&self, count: usize) -> bool {
        let slots = core::iter::successors(self.ages.first(), |slot| self.ages.next(*slot));
        slots.take(count).count() == count
    }

    /// Removes the slot's key; the slot stays where it is in age.
    pub fn forget(&mut self, slot: u32) {
        if !self.slots[slot as usize].keyed {
            return;
        }
        let bucket = self.bucket(self.slots[slot as usize].hash);
        let next = self.slots[slot as usize].next;
        let mut at = self.buckets[bucket];
        if at == slot {
            self.buckets[bucket] = next;
        } else {
            while self.slots[at as usize].next != slot {
                at = self.slots[at as usize].next;
            }
            self.slots[at as usize].next = next;
        }
        self.slots[slot as usize].keyed = false;
    }

    /// Makes an unpinned slot the youngest.
    pub fn touch(&mut self, slot: u32) {
        if self.slots[slot as usize].pins == 0 {
            self.ages.remove(slot);
            self.ages.push(slot);
        }
    }

    /// Number of pins on the slot.
    pub fn pins(&self, slot: u32) -> u32 {
        self.slots[slot as usize].pins
    }

    /// Keeps the slot from being reused, `count` times over.
    pub fn pin(&mut self, slot: u32, count: u32) {
        let pins = &mut self.slots[slot as usize].pins;
        if *pins == 0 && count > 0 {
            self.ages.remove(slot);
        }
        *pins += count;
    }

    /// Takes `count` pins back.
    pub fn unpin(&mut self, slot: u32, count: u32) {
        let pins = &mut self.slots[slot as usize].pins;
        assert!(*pins >= count);
        *pins -= count;
        if *pins == 0 && count > 0 {
            self.ages.push(slot);
        }
    }

    /// Takes back every pin of every slot.
    pub fn unpin_all(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            let pins = self.slots[slot as usize].pins;
            self.unpin(slot, pins);
        }
    }

    fn bucket(&self, hash: u64) -> usize {
        index(hash & (self.buckets.len() as u64 - 1))
    }
}

/// A hash of a few words; the finaliser is a 64-bit bijection, so single words never collide.
pub fn hash_words(words: &[u64]) -> u64 {
    words.iter().fold(0x243F_6A88_85A3_08D3, |hash, word| {
        let mut mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^= mixed >> 32;
        mixed = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 29)
    })
}

/// A hash of bytes, the same on every run.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = hash_words(&[bytes.len() as u64]);
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = hash_words(&[hash, u64::from_le_bytes(word)]);
    }
    hash
}

/// A queue of slot numbers that never holds more than its capacity.
#[derive(Debug)]
pub struct Fifo {
    items: &'static mut [u32],
    first: u64,
    limit: u64,
}

impl Fifo {
    /// An empty queue for `count` numbers.
    pub fn carve(carver: &mut Carver, item: Item, count: u32) -> Fifo {
        Fifo { items: carver.slice(item, count as u64, &0), first: 0, limit: 0 }
    }

    /// A queue of the numbers below `count`, all waiting.
    pub fn carve_full(carver: &mut Carver, item: Item, count: u32) -> Fifo {
        let mut fifo = Fifo::carve(carver, item, count);
        if !carver.is_counting() {
            (0..count).for_each(|number| fifo.push(number));
        }
        fifo
    }

    /// Number of waiting items.
    pub fn len(&self) -> u64 {
        self.limit - self.first
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.first == self.limit
    }

    /// Adds at the end.
    pub fn push(&mut self, item: u32) {
        assert!(self.len() < self.items.len() as u64);
        self.items[index(self.limit % self.items.len() as u64)] = item;
        self.limit += 1;
    }

    /// The item at the front.
    pub fn front(&self) -> Option<u32> {
        (!self.is_empty()).then(|| self.items[index(self.first % self.items.len() as u64)])
    }

    /// All items, from the front on.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let count = self.items.len() as u64;
        (self.first..self.limit).map(move |at| self.items[index(at % count)])
    }

    /// Takes from the front.
    pub fn pop(&mut self) -> Option<u32> {
        let item = self.front()?;
        self.first += 1;
        Some(item)
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.first = self.limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;

    fn carver() -> Carver {
        let block = std::boxed::Box::leak(std::vec![0u64; 1 << 16].into_boxed_slice());
        let start = block.as_mut_ptr() as usize;
        let aligned = (start + 4095) & !4095;
        // SAFETY: the block is leaked, used once, and large enough after alignment.
        unsafe { Carver::over(NonNull::new(aligned as *mut u8).unwrap(), (1 << 19) - 4096) }
    }

    #[test]
    fn pinned_slots_are_never_taken_and_capacity_is_always_reached() {
        let mut cache = Cache::carve(&mut carver(), Item::Waves, 4);
        for key in 0..4u64 {
            let slot = cache.take(key * 8).unwrap();
            cache.pin(slot, 1);
        }
        assert_eq!(cache.take(99), None);
        let slot = cache.find(16, |_| true).unwrap();
        cache.unpin(slot, 1);
        assert_eq!(cache.take(99), Some(slot));
        assert_eq!(cache.find(16, |_| true), None);
        assert_eq!(cache.find(99, |_| true), Some(slot));
    }

    #[test]
    fn the_least_recently_used_slot_goes_first() {
        let mut cache = Cache::carve(&mut carver(), Item::Waves, 3);
        let slots: std::vec::Vec<u32> = (0..3).map(|key| cache.take(key).unwrap()).collect();
        cache.touch(slots[0]);
        assert_eq!(cache.take(7), Some(slots[1]));
        assert_eq!(cache.take(8), Some(slots[2]));
        assert_eq!(cache.take(9), Some(slots[0]));
    }

    #[test]
    fn a_random_history_agrees_with_a_map() {
        let mut cache = Cache::carve(&mut carver(), Item::Waves, 16);
        let mut keys = [u64::MAX; 16];
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = hash_words(&[state]);
            let (key, hash) = (state % 128, |key: u64| key >> 4);
            let found = cache.find(hash(key), |slot| keys[slot as usize] == key);
            let expected = keys.iter().position(|held| *held == key).map(|at| at as u32);
            assert_eq!(found, expected);
            match found {
                Some(slot) if state & 0x1000 == 0 => {
                    cache.forget(slot);
                    keys[slot as usize] = u64::MAX;
                }
                Some(slot) if state & 0x2000 == 0 && !keys.contains(&(key ^ 64)) => {
                    cache.set_key(slot, hash(key ^ 64));
                    keys[slot as usize] = key ^ 64;
                }
                Some(slot) => cache.touch(slot),
                None => {
                    let slot = cache.take(hash(key)).unwrap();
                    keys[slot as usize] = key;
                }
            }
        }
    }
}
