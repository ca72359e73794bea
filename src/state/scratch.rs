//! The common scratch: one region that large chunks and large metadata documents borrow from.
//!
//! In: a number of bytes. Out: a [`Hold`] on a part of the region until it is given back.
//! Invariant: holds never overlap; `holds` is sorted by offset.

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

/// Which parts of the common scratch are held.
pub struct Pool {
    scratch: Region,
    holds: Shelf<Held>,
}

impl Pool {
    /// A pool of all bytes of `scratch`, all free.
    pub fn carve(carver: &mut Carver, scratch: Region) -> Pool {
        let places = carver.slice(Item::CommonScratch, HOLDS_MAX, &Held { offset: 0, bytes: 0 });
        Pool { scratch, holds: Shelf::new(places) }
    }

    /// Takes `bytes` bytes at the lowest place that has room for them, from the start of a page;
    /// None until others are given back.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Region> {
        assert!(bytes <= self.scratch.bytes());
        let bytes = bytes.next_multiple_of(MEMORY_PAGE_BYTES);
        let (at, offset) = self.gap(bytes)?;
        self.holds.insert(at, Held { offset, bytes });
        Some(self.scratch.part(offset, bytes))
    }

    /// Whether `take` would give this many bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.gap(bytes.next_multiple_of(MEMORY_PAGE_BYTES)).is_some()
    }

    /// Gives a hold back.
    pub fn give_back(&mut self, hold: Hold) {
        let offset = hold.claim.region().as_ptr() as u64 - self.scratch.as_ptr() as u64;
        let bytes = hold.claim.region().bytes();
        let held = self.holds.iter().position(|held| *held == Held { offset, bytes });
        assert!(held.is_some());
        held.into_iter().for_each(|at| self.holds.remove(at));
    }

    /// The first gap of at least `bytes`: its place among the holds and its offset.
    fn gap(&self, bytes: u64) -> Option<(usize, u64)> {
        if self.holds.is_full() {
            return None;
        }
        let mut offset = 0;
        for (at, hold) in self.holds.iter().enumerate() {
            if hold.offset - offset >= bytes {
                return Some((at, offset));
            }
            offset = hold.offset + hold.bytes;
        }
        (self.scratch.bytes() - offset >= bytes).then_some((self.holds.len(), offset))
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
        let holds = std::vec![Held { offset: 0, bytes: 0 }; 256].leak();
        let scratch = Region::of(std::vec![0; 64 * PAGE as usize].leak());
        let mut pool = Pool { scratch, holds: Shelf::new(holds) };
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
            assert_eq!(pool.has_room(bytes), pool.gap(bytes.next_multiple_of(PAGE)).is_some());
            match claim_hold(&mut pool, bytes) {
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
