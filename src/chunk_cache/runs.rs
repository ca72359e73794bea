//! The memory of the cache, cut into runs of granules: taken ones, and free ones that never touch.
//!
//! In: lengths. Out: first granules. Boundary tags find a run's neighbours (Knuth, volume 1, 2.5);
//! free runs lie in lists by length class with a bitmap over them (Masmano et al., "TLSF", 2004),
//! so taking and giving back are O(1). Lengths below 256 granules (4 MiB) have a list each: chunks
//! of one size free and refill the same runs, which a search by rounded-up classes would miss.
//!
//! Invariant: runs cover the granules without a gap, and no two free runs are neighbours.

use super::NONE;
use crate::base::arena::Carver;
use crate::base::bill::Item;

/// Lengths that have a list of their own.
const EXACT: u32 = 256;

/// Lists per doubling above, as a power of two.
const SPLIT_BITS: u32 = 3;

/// Lists: lengths fit in 31 bits.
const CLASSES: usize = EXACT as usize + ((31 - EXACT.ilog2()) as usize) * (1 << SPLIT_BITS);

/// Runs of the length's own class that are looked at, where a class holds several lengths.
const LOOKS_MAX: u32 = 8;

/// Stands in `before` of a run that is taken.
const TAKEN: u32 = u32::MAX - 1;

/// What is known of the run that starts at a granule, and of the one that ends there.
#[derive(Clone, Copy, Debug)]
struct Tag {
    /// Granules of the run that starts here.
    length: u32,
    /// Start of the run whose last granule is here.
    start: u32,
    /// Free run before this one in its list, NONE: first; TAKEN: not free.
    before: u32,
    /// Free run behind this one in its list.
    after: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Runs {
    tags: &'static mut [Tag],
    lists: [u32; CLASSES],
    /// Bit per list: it is not empty.
    filled: [u64; CLASSES.div_ceil(64)],
}

fn class_from_length(length: u32) -> usize {
    if length < EXACT {
        return length as usize;
    }
    let doubling = length.ilog2();
    let part = (length >> (doubling - SPLIT_BITS)) & ((1 << SPLIT_BITS) - 1);
    (EXACT + ((doubling - EXACT.ilog2()) << SPLIT_BITS) + part) as usize
}

impl Runs {
    /// One free run of `granules`.
    pub fn carve(carver: &mut Carver, granules: u32) -> Runs {
        let tag = Tag { length: 0, start: 0, before: TAKEN, after: NONE };
        let mut runs = Runs {
            tags: carver.slice(Item::ChunkCacheTables, granules as u64, &tag),
            lists: [NONE; CLASSES],
            filled: [0; CLASSES.div_ceil(64)],
        };
        runs.clear();
        runs
    }

    /// Makes everything one free run.
    pub fn clear(&mut self) {
        self.lists = [NONE; CLASSES];
        self.filled = [0; CLASSES.div_ceil(64)];
        if !self.tags.is_empty() {
            self.add(0, self.granules());
        }
    }

    /// Granules in all.
    pub fn granules(&self) -> u32 {
        self.tags.len() as u32
    }

    /// One past the last granule of the run that starts at `start`.
    pub fn limit(&self, start: u32) -> u32 {
        start + self.tags[start as usize].length
    }

    /// Start of the run that ends in front of the run that starts at `start`.
    pub fn before(&self, start: u32) -> Option<u32> {
        (start > 0).then(|| self.tags[start as usize - 1].start)
    }

    /// Whether the run that starts at `start` is free.
    pub fn is_free(&self, start: u32) -> bool {
        self.tags[start as usize].before != TAKEN
    }

    /// Takes `length` granules off the start of a free run. None: no run is known to be so long.
    pub fn take(&mut self, length: u32) -> Option<u32> {
        assert!(length > 0);
        let start = self.fitting(length)?;
        let limit = self.limit(start);
        self.remove(start);
        self.tag(start, length, TAKEN);
        if start + length < limit {
            self.add(start + length, limit - start - length);
        }
        Some(start)
    }

    /// Gives a taken run back. Gives the start of the free run that it is part of now.
    pub fn give_back(&mut self, start: u32) -> u32 {
        assert!(!self.is_free(start));
        let mut limit = self.limit(start);
        let mut first = start;
        if let Some(before) = self.before(start)
            && self.is_free(before)
        {
            self.remove(before);
            first = before;
        }
        if limit < self.granules() && self.is_free(limit) {
            let after = limit;
            limit = self.limit(after);
            self.remove(after);
        }
        self.add(first, limit - first);
        first
    }

    fn fitting(&self, length: u32) -> Option<u32> {
        let class = class_from_length(length);
        let mut start = self.lists[class];
        for _ in 0..LOOKS_MAX {
            if start == NONE {
                break;
            }
            if self.tags[start as usize].length >= length {
                return Some(start);
            }
            start = self.tags[start as usize].after;
        }
        let first = class + 1;
        let mut bits = self.filled.get(first / 64)? & (u64::MAX << (first % 64));
        for word in first / 64..self.filled.len() {
            if word > first / 64 {
                bits = self.filled[word];
            }
            if bits != 0 {
                return Some(self.lists[word * 64 + bits.trailing_zeros() as usize]);
            }
        }
        None
    }

    fn tag(&mut self, start: u32, length: u32, before: u32) {
        self.tags[start as usize].length = length;
        self.tags[start as usize].before = before;
        self.tags[(start + length) as usize - 1].start = start;
    }

    fn add(&mut self, start: u32, length: u32) {
        let class = class_from_length(length);
        let after = self.lists[class];
        self.tag(start, length, NONE);
        self.tags[start as usize].after = after;
        if after != NONE {
            self.tags[after as usize].before = start;
        }
        self.lists[class] = start;
        self.filled[class / 64] |= 1 << (class % 64);
    }

    fn remove(&mut self, start: u32) {
        let Tag { length, before, after, .. } = self.tags[start as usize];
        assert!(before != TAKEN);
        if after != NONE {
            self.tags[after as usize].before = before;
        }
        if before != NONE {
            self.tags[before as usize].after = after;
            return;
        }
        let class = class_from_length(length);
        assert!(self.lists[class] == start);
        self.lists[class] = after;
        if after == NONE {
            self.filled[class / 64] &= !(1 << (class % 64));
        }
    }
}
