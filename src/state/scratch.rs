//! Memory that is borrowed in parts of any size: the common scratch, which is one region for large
//! chunks and large metadata documents, and the offsets of any other memory.
//!
//! In: a number of bytes. Out: an offset, or a [`Hold`] on a part of the region, until it is given
//! back. Invariant: holds never overlap; `held` is sorted by offset.

use crate::base::arena::{Carver, Claim, Region};
use crate::base::bill::Item;
use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::base::shelf::Shelf;

/// Most holds at a time. Further workers wait, which only machines of many small caps see.
const HOLDS_MAX: u64 = 256;

/// A part of the common scratch that is one worker's.
#[derive(Debug)]
pub struct Hold {
    /// Its memory.
    pub claim: Claim<'static>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    offset: u64,
    bytes: u64,
}

/// Which parts of some memory are held.
pub struct Holds {
    bytes: u64,
    /// Parts begin at multiples of this.
    align: u64,
    held: Shelf<Held>,
}

impl Holds {
    /// Nothing of `bytes` bytes is held, and at most `count` parts will be at a time.
    pub fn carve(carver: &mut Carver, item: Item, count: u64, (bytes, align): (u64, u64)) -> Holds {
        let places = carver.slice(item, count, &Held { offset: 0, bytes: 0 });
        Holds { bytes, align, held: Shelf::new(places) }
    }

    /// Takes `bytes` bytes, at least one, at the lowest place that has room for them, and gives the
    /// first of them; None until others are given back.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        assert!(bytes > 0 && bytes <= self.bytes);
        let bytes = bytes.next_multiple_of(self.align);
        let (at, offset) = self.gap(bytes)?;
        self.held.insert(at, Held { offset, bytes });
        Some(offset)
    }

    /// Gives back what begins at an offset.
    pub fn give_back(&mut self, offset: u64) {
        let held = self.held.binary_search_by_key(&offset, |held| held.offset);
        assert!(held.is_ok());
        held.into_iter().for_each(|at| self.held.remove(at));
    }

    /// Nothing is held any more.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Whether `take` would give this many bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.gap(bytes.next_multiple_of(self.align)).is_some()
    }

    /// The first gap of at least `bytes`: its place among the holds and its offset.
    fn gap(&self, bytes: u64) -> Option<(usize, u64)> {
        if self.held.is_full() {
            return None;
        }
        let mut offset = 0;
        for (at, hold) in self.held.iter().enumerate() {
            if hold.offset - offset >= bytes {
                return Some((at, offset));
            }
            offset = hold.offset + hold.bytes;
        }
        (self.bytes - offset >= bytes).then_some((self.held.len(), offset))
    }
}

/// Which parts of the common scratch are held.
pub struct Pool {
    scratch: Region,
    holds: Holds,
}

impl Pool {
    /// A pool of all bytes of `scratch`, all free.
    pub fn carve(carver: &mut Carver, scratch: Region) -> Pool {
        let size = (scratch.bytes(), MEMORY_PAGE_BYTES);
        Pool { scratch, holds: Holds::carve(carver, Item::CommonScratch, HOLDS_MAX, size) }
    }

    /// Takes `bytes` bytes from the start of a page; None until others are given back.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Region> {
        let offset = self.holds.take(bytes)?;
        Some(self.scratch.part(offset, bytes.next_multiple_of(MEMORY_PAGE_BYTES)))
    }

    /// Whether `take` would give this many bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.holds.has_room(bytes)
    }

    /// Gives a hold back.
    pub fn give_back(&mut self, hold: Hold) {
        let start = hold.claim.region().as_ptr() as u64;
        self.holds.give_back(start - self.scratch.as_ptr() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::claims::claim_hold;
    use std::vec::Vec;

    #[test]
    fn holds_never_overlap_and_an_empty_pool_fits_its_capacity() {
        const PAGE: u64 = MEMORY_PAGE_BYTES;
        let held = Shelf::new(std::vec![Held { offset: 0, bytes: 0 }; 256].leak());
        let scratch = Region::of(std::vec![0; 64 * PAGE as usize].leak());
        let holds = Holds { bytes: scratch.bytes(), align: PAGE, held };
        let mut pool = Pool { scratch, holds };
        let ends = |hold: &Hold| {
            let region = hold.claim.region();
            let offset = region.as_ptr() as u64 - scratch.as_ptr() as u64;
            (offset, offset + region.bytes())
        };
        let mut live: Vec<Hold> = Vec::new();
        let mut state = 9u64;
        let mut refused = 0;
        for _ in 0..5000 {
            state = crate::base::cache::hash_words(&[state]);
            let bytes = 1 + state % (20 * PAGE);
            let has_room = pool.has_room(bytes);
            let hold = claim_hold(&mut pool, bytes);
            assert_eq!(has_room, hold.is_some());
            match hold {
                Some(hold) => {
                    let (first, limit) = ends(&hold);
                    assert!(limit - first >= bytes && limit <= 64 * PAGE);
                    for (other_first, other_limit) in live.iter().map(ends) {
                        assert!(limit <= other_first || other_limit <= first);
                    }
                    live.push(hold);
                }
                None => {
                    refused += 1;
                    let at = (state >> 32) as usize % live.len();
                    pool.give_back(live.remove(at));
                }
            }
        }
        assert!(refused > 100);
        live.drain(..).for_each(|hold| pool.give_back(hold));
        let all = claim_hold(&mut pool, 64 * PAGE);
        assert_eq!(all.map(|hold| ends(&hold)), Some((0, 64 * PAGE)));
        assert!(pool.take(1).is_none());
    }
}
