//! The common scratch: one region that large chunks and large metadata documents borrow from.
//!
//! In: a number of bytes. Out: a [`Hold`] on a part of the region until it is given back.
//! Invariant: holds never overlap; `holds` is sorted by offset.

use crate::base::arena::Carver;
use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::base::shelf::Shelf;

/// Most holds at a time. Further workers wait, which only machines of many small caps see.
const HOLDS_MAX: u64 = 256;

/// A part of the common scratch that is one worker's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Which parts of the common scratch are held.
pub struct Pool {
    capacity: u64,
    holds: Shelf<Hold>,
}

impl Pool {
    /// A pool of `capacity` bytes, all free.
    pub fn carve(carver: &mut Carver, capacity: u64) -> Pool {
        let places = carver.slice("common scratch", HOLDS_MAX, &Hold { offset: 0, bytes: 0 });
        Pool { capacity, holds: Shelf::new(places) }
    }

    /// Takes `bytes` bytes at the lowest place where they fit, from the start of a page; None until
    /// others are given back.
    pub fn take(&mut self, bytes: u64) -> Option<Hold> {
        assert!(bytes <= self.capacity);
        let bytes = bytes.next_multiple_of(MEMORY_PAGE_BYTES);
        let (at, offset) = self.gap(bytes)?;
        let hold = Hold { offset, bytes };
        self.holds.insert(at, hold);
        Some(hold)
    }

    /// Whether `take` would give this many bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.gap(bytes.next_multiple_of(MEMORY_PAGE_BYTES)).is_some()
    }

    /// Gives a hold back.
    pub fn give_back(&mut self, hold: Hold) {
        let held = self.holds.iter().position(|held| *held == hold);
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
        (self.capacity - offset >= bytes).then_some((self.holds.len(), offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn holds_never_overlap_and_an_empty_pool_fits_its_capacity() {
        const PAGE: u64 = MEMORY_PAGE_BYTES;
        let holds = std::vec![Hold { offset: 0, bytes: 0 }; 256].leak();
        let mut pool = Pool { capacity: 64 * PAGE, holds: Shelf::new(holds) };
        let mut live: Vec<Hold> = Vec::new();
        let mut state = 9u64;
        let mut refused = 0;
        for _ in 0..5000 {
            state = crate::base::cache::hash_words(&[state]);
            let bytes = 1 + state % (20 * PAGE);
            assert_eq!(pool.has_room(bytes), pool.gap(bytes.next_multiple_of(PAGE)).is_some());
            match pool.take(bytes) {
                Some(hold) => {
                    assert!(hold.bytes >= bytes && hold.offset + hold.bytes <= 64 * PAGE);
                    for other in &live {
                        let is_apart = hold.offset + hold.bytes <= other.offset
                            || other.offset + other.bytes <= hold.offset;
                        assert!(is_apart, "{hold:?} {other:?}");
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
        assert_eq!(pool.take(64 * PAGE), Some(Hold { offset: 0, bytes: 64 * PAGE }));
        assert_eq!(pool.take(1), None);
    }
}
