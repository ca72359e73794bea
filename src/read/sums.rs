//! Checksums of shard indexes that were checked, for pages that are read again.
//!
//! In: the checksums of an index's groups of pages, once its own CRC was right. Out: the one that a
//! page's group must have. All files share one ring of them: the newest overwrite the oldest, whose
//! indexes are then checked as a whole again. A file gets no more than its share of the ring, so a
//! few large indexes have a checksum for each page, and many have groups of pages. Indexes of inner
//! shards are kept in a table of their own, and count as files do.
//!
//! Invariant: a place of the ring is read only through [`IndexChecks`] that nothing overwrote.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::{Cache, hash_words};
use crate::base::math::index;

/// Bytes of a checksum.
pub const SUM_BYTES: usize = 4;

/// Where the checksums of an index are.
#[derive(Clone, Copy, Debug)]
pub struct IndexChecks {
    /// Pages that one checksum covers.
    group_pages: u64,
    /// Number of the first since open.
    first: u64,
}

/// What a page that is read again is compared with.
#[derive(Clone, Copy, Debug)]
pub struct PageCheck {
    /// Pages of its group.
    pub group_pages: u64,
    /// CRC-32C of its group.
    pub sum: u32,
}

/// See the module.
#[derive(Debug)]
pub struct SumRing {
    sums: &'static mut [u32],
    limit: u64,
}

impl SumRing {
    /// A ring of `count` checksums.
    pub fn carve(carver: &mut Carver, count: u64) -> SumRing {
        SumRing { sums: carver.slice(Item::FileLayouts, count, &0), limit: 0 }
    }

    /// Most checksums that one of `files` files takes, at least 1.
    pub fn share(&self, files: u32) -> u64 {
        (self.sums.len() as u64 / u64::from(files.max(1))).max(1)
    }

    /// Keeps the checksums of an index: little-endian words, no more than the ring has.
    pub fn put(&mut self, group_pages: u64, sums: &[u8]) -> IndexChecks {
        let first = self.limit;
        let words = sums.as_chunks::<SUM_BYTES>().0;
        assert!(words.len() <= self.sums.len());
        for word in words {
            let at = index(self.limit % self.sums.len() as u64);
            self.sums[at] = u32::from_le_bytes(*word);
            self.limit += 1;
        }
        IndexChecks { group_pages, first }
    }

    /// What page `page` is compared with; None where that was overwritten.
    pub fn find(&self, checks: &IndexChecks, page: u64) -> Option<PageCheck> {
        let number = checks.first + page / checks.group_pages;
        if number + (self.sums.len() as u64) < self.limit {
            return None;
        }
        let sum = self.sums[index(number % self.sums.len() as u64)];
        Some(PageCheck { group_pages: checks.group_pages, sum })
    }
}

/// What was checked of indexes of inner shards, by (epoch of the file, inner shard). Those that
/// were not used for longest are forgotten, and checked as a whole again.
#[derive(Debug)]
pub struct InnerChecks {
    cache: Cache,
    keys: &'static mut [(u64, u64)],
    checks: &'static mut [IndexChecks],
    known: u32,
}

impl InnerChecks {
    /// A table for `count` indexes.
    pub fn carve(carver: &mut Carver, count: u32) -> InnerChecks {
        let empty = IndexChecks { group_pages: 1, first: 0 };
        InnerChecks {
            cache: Cache::carve(carver, Item::FileLayouts, count),
            keys: carver.slice(Item::FileLayouts, count as u64, &(0, 0)),
            checks: carver.slice(Item::FileLayouts, count as u64, &empty),
            known: 0,
        }
    }

    /// Number of indexes that the table stood for so far, as far as it has room.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// What was checked of the index of inner shard `inner`.
    pub fn find(&mut self, epoch: u64, inner: u64) -> Option<IndexChecks> {
        let key = (epoch, inner);
        let hash = hash_words(&[epoch, inner]);
        let slot = self.cache.find(hash, |slot| self.keys[slot as usize] == key)?;
        self.cache.touch(slot);
        Some(self.checks[slot as usize])
    }

    /// Keeps what was checked.
    pub fn put(&mut self, epoch: u64, inner: u64, checks: IndexChecks) {
        let key = (epoch, inner);
        let hash = hash_words(&[epoch, inner]);
        let found = self.cache.find(hash, |slot| self.keys[slot as usize] == key);
        // Nothing is ever pinned, so there is a slot.
        let Some(slot) = found.or_else(|| self.cache.take(hash)) else { return };
        self.known += (self.known < self.checks.len() as u32 && found.is_none()) as u32;
        self.keys[slot as usize] = key;
        self.checks[slot as usize] = checks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn ring(count: u64) -> SumRing {
        let mut carver = Carver::leaked(1 << 15);
        SumRing::carve(&mut carver, count)
    }

    fn words(first: u32, count: u32) -> Vec<u8> {
        (first..first + count).flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn each_page_finds_the_checksum_of_its_group_until_it_is_overwritten() {
        let mut ring = ring(10);
        let small = ring.put(1, &words(100, 4));
        let large = ring.put(3, &words(200, 5));
        let sum = |ring: &SumRing, checks, page| ring.find(checks, page).map(|check| check.sum);
        assert_eq!(
            (0..4).map(|page| sum(&ring, &small, page)).collect::<Vec<_>>(),
            [Some(100), Some(101), Some(102), Some(103)]
        );
        assert_eq!(sum(&ring, &large, 2), Some(200));
        assert_eq!(sum(&ring, &large, 14), Some(204));
        // Nine are taken; three more overwrite the first two.
        let newest = ring.put(1, &words(300, 3));
        assert_eq!(sum(&ring, &small, 0), None);
        assert_eq!(sum(&ring, &small, 1), None);
        assert_eq!(sum(&ring, &small, 2), Some(102));
        assert_eq!(sum(&ring, &large, 0), Some(200));
        assert_eq!(sum(&ring, &newest, 2), Some(302));
    }

    #[test]
    fn inner_indexes_are_kept_by_file_and_number_until_others_take_their_place() {
        let mut carver = Carver::leaked(1 << 15);
        let mut inner = InnerChecks::carve(&mut carver, 2);
        let checks = |first| IndexChecks { group_pages: 1, first };
        let first = |inner: &mut InnerChecks, epoch, number| {
            inner.find(epoch, number).map(|checks| checks.first)
        };
        inner.put(7, 0, checks(10));
        inner.put(8, 0, checks(20));
        inner.put(7, 0, checks(30));
        assert_eq!((first(&mut inner, 8, 0), first(&mut inner, 7, 0)), (Some(20), Some(30)));
        assert_eq!((first(&mut inner, 7, 1), inner.known()), (None, 2));
        inner.put(7, 1, checks(40));
        assert_eq!((first(&mut inner, 8, 0), first(&mut inner, 7, 0)), (None, Some(30)));
        assert_eq!((first(&mut inner, 7, 1), inner.known()), (Some(40), 2));
    }

    #[test]
    fn files_share_the_ring_and_each_has_at_least_one_checksum() {
        let ring = ring(10);
        assert_eq!([0, 1, 2, 4, 10, 99].map(|files| ring.share(files)), [10, 10, 5, 2, 1, 1]);
    }
}
