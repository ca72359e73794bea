//! The uses that are foreseen, in time order, and the keys that are used or held.
//!
//! In: uses in time order, and which slot holds which key. Out: each key's next use. All uses lie
//! in one ring; those of a key are linked through it, oldest first. A use leaves its key either
//! when the front of the ring passes it or before, alone; then the front skips it.
//!
//! Invariant: a key has a record exactly while it has a use or a slot, so `uses_max + slots`
//! records always suffice.

use super::{ChunkKey, NEVER, NONE, Slot};
use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::hash_words;
use crate::base::math::index;

#[derive(Clone, Copy, Debug)]
struct Use {
    time: u64,
    /// Whose; NONE: the key is done with it.
    record: u32,
    /// The key's next one.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    key: ChunkKey,
    /// Next record of the same bucket, or next free record.
    chain: u32,
    use_first: u32,
    use_last: u32,
    slot: u32,
}

/// What a foreseen use means for its key.
pub(super) enum Foreseen {
    /// There is no room for it.
    Full,
    /// The next use of the key stays.
    Later,
    /// It is the next use of this record's key.
    Next(u32),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Uses {
    buckets: &'static mut [u32],
    records: &'static mut [Record],
    free_record: u32,
    /// Records from here on were never used.
    fresh_record: u32,
    ring: &'static mut [Use],
    /// Oldest use, counted since open.
    first: u64,
    /// One past the youngest.
    limit: u64,
    /// Time of the youngest use ever.
    last_time: u64,
    /// Uses before this time are over.
    passed: u64,
}

impl Uses {
    /// No uses, and room for `uses_max` and for the keys of `slots` held chunks.
    pub fn carve(carver: &mut Carver, uses_max: u32, slots: u32) -> Uses {
        let key = ChunkKey { array_id: 0, file: 0, chunk: 0 };
        let record = Record { key, chain: NONE, use_first: NONE, use_last: NONE, slot: NONE };
        let records = uses_max as u64 + slots as u64;
        let buckets = if records == 0 { 0 } else { records.next_power_of_two() };
        Uses {
            buckets: carver.slice(Item::ChunkCacheTables, buckets, &NONE),
            records: carver.slice(Item::ChunkCacheTables, records, &record),
            free_record: NONE,
            fresh_record: 0,
            ring: carver.slice(
                Item::ChunkCacheTables,
                uses_max as u64,
                &Use { time: 0, record: NONE, next: NONE },
            ),
            first: 0,
            limit: 0,
            last_time: 0,
            passed: 0,
        }
    }

    /// Forgets all uses and keys; time may start again.
    pub fn clear(&mut self) {
        self.buckets.fill(NONE);
        self.free_record = NONE;
        self.fresh_record = 0;
        self.first = self.limit;
        self.last_time = 0;
        self.passed = 0;
    }

    /// The record of a key.
    pub fn find(&self, key: ChunkKey) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let record = &self.records[at as usize];
            if record.key == key {
                return Some(at);
            }
            at = record.chain;
        }
        None
    }

    /// The record's key.
    pub fn key(&self, record: u32) -> ChunkKey {
        self.records[record as usize].key
    }

    /// The slot that holds the record's key.
    pub fn slot(&self, record: u32) -> Option<Slot> {
        let slot = self.records[record as usize].slot;
        (slot != NONE).then_some(slot)
    }

    /// Uses before this time are over.
    pub fn now(&self) -> u64 {
        self.passed
    }

    /// Time of the key's next use, or NEVER.
    pub fn next_use(&self, record: u32) -> u64 {
        match self.records[record as usize].use_first {
            NONE => NEVER,
            at => self.ring[at as usize].time,
        }
    }

    /// Appends a use; times never fall.
    pub fn foresee(&mut self, key: ChunkKey, time: u64) -> Foreseen {
        assert!(time >= self.last_time);
        if time < self.passed {
            return Foreseen::Later;
        }
        let found = self.find(key);
        let last = found.map_or(NONE, |record| self.records[record as usize].use_last);
        if last != NONE && self.ring[last as usize].time == time {
            return Foreseen::Later;
        }
        if self.limit - self.first == self.ring.len() as u64 {
            return Foreseen::Full;
        }
        let record = found.unwrap_or_else(|| self.open(key));
        let at = (self.limit % self.ring.len() as u64) as u32;
        self.limit += 1;
        self.last_time = time;
        self.ring[at as usize] = Use { time, record, next: NONE };
        self.records[record as usize].use_last = at;
        if last == NONE {
            self.records[record as usize].use_first = at;
            return Foreseen::Next(record);
        }
        self.ring[last as usize].next = at;
        Foreseen::Later
    }

    /// Ends the oldest use if it is before `time_limit`, and gives its record, which may be idle
    /// now. None: no use before `time_limit` is left.
    pub fn end_front(&mut self, time_limit: u64) -> Option<u32> {
        self.passed = self.passed.max(time_limit);
        while self.first < self.limit {
            let front = self.ring[index(self.first % self.ring.len() as u64)];
            if front.time >= time_limit {
                return None;
            }
            self.first += 1;
            if front.record != NONE {
                self.drop_first(front.record);
                return Some(front.record);
            }
        }
        None
    }

    /// Ends the record's uses before `time_limit`. Says whether there were any; the record may be
    /// idle now.
    pub fn end_of_record(&mut self, record: u32, time_limit: u64) -> bool {
        let is_over = self.next_use(record) < time_limit;
        while self.next_use(record) < time_limit {
            let at = self.records[record as usize].use_first;
            self.drop_first(record);
            self.ring[at as usize].record = NONE;
        }
        is_over
    }

    /// Notes that `slot` holds the key, which no slot holds. Gives the key's record.
    pub fn attach(&mut self, key: ChunkKey, slot: Slot) -> u32 {
        let record = self.find(key).unwrap_or_else(|| self.open(key));
        assert!(self.records[record as usize].slot == NONE);
        self.records[record as usize].slot = slot;
        record
    }

    /// No slot holds the record's key any more. The record is gone unless it has uses.
    pub fn detach(&mut self, record: u32) {
        assert!(self.records[record as usize].slot != NONE);
        self.records[record as usize].slot = NONE;
        self.close_idle(record);
    }

    /// Closes a record that no slot holds and that has no uses.
    pub fn close_idle(&mut self, record: u32) {
        let Record { key, chain, use_first, slot, .. } = self.records[record as usize];
        assert!(slot == NONE);
        if use_first != NONE {
            return;
        }
        let bucket = self.bucket(key);
        let mut at = self.buckets[bucket];
        if at == record {
            self.buckets[bucket] = chain;
        } else {
            while self.records[at as usize].chain != record {
                at = self.records[at as usize].chain;
            }
            self.records[at as usize].chain = chain;
        }
        self.records[record as usize].chain = self.free_record;
        self.free_record = record;
    }

    fn open(&mut self, key: ChunkKey) -> u32 {
        let record = match self.free_record {
            NONE => {
                assert!((self.fresh_record as usize) < self.records.len());
                self.fresh_record += 1;
                self.fresh_record - 1
            }
            free => {
                self.free_record = self.records[free as usize].chain;
                free
            }
        };
        let bucket = self.bucket(key);
        let chain = self.buckets[bucket];
        self.records[record as usize] =
            Record { key, chain, use_first: NONE, use_last: NONE, slot: NONE };
        self.buckets[bucket] = record;
        record
    }

    fn drop_first(&mut self, record: u32) {
        let record = &mut self.records[record as usize];
        record.use_first = self.ring[record.use_first as usize].next;
        if record.use_first == NONE {
            record.use_last = NONE;
        }
    }

    fn bucket(&self, key: ChunkKey) -> usize {
        let hash = hash_words(&[key.array_id, key.file, key.chunk]);
        index(hash & (self.buckets.len() as u64 - 1))
    }
}
