//! Random histories against the slow obvious cache: maps of keys, and a list of uses.

use super::tests::cache;
use super::*;
use crate::base::cache::hash_words;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

const KEYS: u64 = 40;
const USES_MAX: u32 = 48;
const WAITERS: u32 = 32;

#[derive(Clone, Debug)]
struct Held {
    slot: Slot,
    bytes: u64,
    is_ready: bool,
    pins: u32,
    /// When it could be evicted last, or its next use changed since.
    since: u64,
    waiters: VecDeque<u32>,
}

impl Held {
    fn is_evictable(&self) -> bool {
        self.is_ready && self.pins == 0
    }
}

/// What an insertion must do.
enum Expected {
    Anything,
    Refused,
    /// Keep the chunk and evict this one.
    Kept(Option<ChunkKey>),
}

/// The obvious cache beside the real one.
struct History {
    cache: ChunkCache,
    /// Bytes of a chunk by its number.
    bytes: fn(u64) -> u64,
    uses: BTreeMap<ChunkKey, VecDeque<u64>>,
    /// Times of the uses that the front has not passed, each key's own ones or not.
    ring: VecDeque<u64>,
    held: BTreeMap<ChunkKey, Held>,
    /// Chunks that lost their key and that somebody still holds.
    lost: Vec<Held>,
    idle_waiters: BTreeSet<u32>,
    clock: u64,
    time: u64,
    passed: u64,
    evictions: u64,
    state: u64,
}

impl History {
    fn new(cache_bytes: u64, bytes: fn(u64) -> u64) -> History {
        History {
            cache: cache(cache_bytes, USES_MAX, WAITERS),
            bytes,
            uses: BTreeMap::new(),
            ring: VecDeque::new(),
            held: BTreeMap::new(),
            lost: Vec::new(),
            idle_waiters: (0..WAITERS).collect(),
            clock: 0,
            time: 0,
            passed: 0,
            evictions: 0,
            state: 99,
        }
    }

    fn random(&mut self, limit: u64) -> u64 {
        self.state = hash_words(&[self.state]);
        (self.state >> 20) % limit
    }

    fn next_use(&self, key: ChunkKey) -> u64 {
        self.uses.get(&key).and_then(|times| times.front().copied()).unwrap_or(NEVER)
    }

    /// What is evicted first is greatest.
    fn lateness(&self, key: ChunkKey) -> (u64, u64) {
        let next_use = self.next_use(key);
        (next_use, if next_use == NEVER { u64::MAX - self.held[&key].since } else { 0 })
    }

    fn changed(&mut self, key: ChunkKey) {
        self.clock += 1;
        if let Some(held) = self.held.get_mut(&key) {
            held.since = self.clock;
        }
    }

    fn random_key(&mut self) -> ChunkKey {
        let chunk = self.random(KEYS);
        ChunkKey { array_id: chunk % 3, file: chunk % 2, chunk }
    }

    fn random_held(&mut self) -> Option<ChunkKey> {
        let count = self.held.len() as u64;
        let at = (count > 0).then(|| self.random(count))?;
        self.held.keys().nth(at as usize).copied()
    }

    /// A use; each sample number has one, so that no two next uses are equal.
    fn foresee(&mut self) {
        let key = self.random_key();
        self.time += 1;
        let is_full = self.ring.len() == USES_MAX as usize && self.time >= self.passed;
        assert_eq!(self.cache.foresee(key, self.time), !is_full);
        if is_full || self.time < self.passed {
            return;
        }
        self.ring.push_back(self.time);
        let times = self.uses.entry(key).or_default();
        times.push_back(self.time);
        if times.len() == 1 {
            self.changed(key);
        }
    }

    fn end_uses(&mut self, key: ChunkKey, limit: u64) {
        let Some(times) = self.uses.get_mut(&key) else { return };
        let before = times.len();
        times.retain(|time| *time >= limit);
        if times.len() < before {
            self.changed(key);
        }
    }

    fn pass(&mut self) {
        let limit = self.passed + self.random(5);
        self.cache.pass(limit);
        self.passed = limit;
        // In the order of the uses, because chunks that are done are evicted oldest first.
        for time in self.ring.iter().filter(|time| **time < limit).copied().collect::<Vec<_>>() {
            let key = self.uses.iter().find(|(_, times)| times.front() == Some(&time));
            if let Some(key) = key.map(|(key, _)| *key) {
                self.end_uses(key, time + 1);
            }
        }
        self.ring.retain(|time| *time >= limit);
    }

    fn pass_chunk(&mut self) {
        let key = self.random_key();
        let limit = self.passed + self.random(12);
        self.cache.pass_chunk(key, limit);
        self.end_uses(key, limit);
    }

    /// Inserts, and checks what left for it.
    fn insert(&mut self, expect: impl Fn(&History, ChunkKey) -> Expected) {
        let key = self.random_key();
        if self.held.contains_key(&key) {
            return;
        }
        let expected = expect(self, key);
        let bytes = (self.bytes)(key.chunk);
        let slot = self.cache.insert(key, bytes);
        let is_gone = |key: &&ChunkKey| self.cache.find(**key).is_none();
        let gone: Vec<ChunkKey> = self.held.keys().filter(is_gone).copied().collect();
        match expected {
            Expected::Anything => (),
            Expected::Refused => assert_eq!(slot, None),
            Expected::Kept(evicted) => {
                assert!(slot.is_some());
                assert_eq!(gone, evicted.into_iter().collect::<Vec<_>>());
            }
        }
        assert!(slot.is_some() || gone.is_empty());
        assert!(gone.len() <= EVICTIONS_MAX as usize);
        for key_gone in &gone {
            assert!(self.held[key_gone].is_evictable());
            assert!(self.next_use(*key_gone) > self.next_use(key));
        }
        self.evictions += gone.len() as u64;
        gone.iter().for_each(|key| drop(self.held.remove(key)));
        let Some(slot) = slot else { return };
        let waiters = VecDeque::new();
        let held = Held { slot, bytes, is_ready: false, pins: 0, since: 0, waiters };
        self.held.insert(key, held);
    }

    /// What Belady does with a chunk where all have one size.
    fn belady(&self, key: ChunkKey, chunks_max: usize) -> Expected {
        if self.held.len() + self.lost.len() < chunks_max {
            return Expected::Kept(None);
        }
        let evictable = self.held.iter().filter(|(_, held)| held.is_evictable());
        let latest = evictable.map(|(key, _)| *key).max_by_key(|key| self.lateness(*key));
        match latest.filter(|latest| self.next_use(*latest) > self.next_use(key)) {
            Some(latest) => Expected::Kept(Some(latest)),
            None => Expected::Refused,
        }
    }

    fn set_ready(&mut self, is_abandoned: bool) {
        let Some(key) = self.random_held() else { return };
        if self.held[&key].is_ready {
            return;
        }
        let mut held = self.held.remove(&key).unwrap();
        while let Some(number) = held.waiters.pop_front() {
            assert_eq!(self.cache.take_waiter(held.slot), Some(number));
            assert!(self.idle_waiters.insert(number));
        }
        held.is_ready = true;
        if is_abandoned {
            self.cache.abandon(held.slot);
            self.lost.extend((held.pins > 0).then_some(held));
        } else {
            self.cache.set_ready(held.slot);
            self.held.insert(key, held);
            self.changed(key);
        }
    }

    fn pin(&mut self) {
        let Some(key) = self.random_held() else { return };
        let held = self.held.get_mut(&key).unwrap();
        held.pins += 1;
        self.cache.pin(held.slot);
    }

    fn unpin(&mut self) {
        let Some(key) = self.random_held() else { return };
        let held = self.held.get_mut(&key).unwrap();
        if held.pins > 0 {
            held.pins -= 1;
            self.cache.unpin(held.slot);
            self.changed(key);
        }
    }

    fn add_waiter(&mut self) {
        let Some(key) = self.random_held() else { return };
        let held = self.held.get_mut(&key).unwrap();
        if !held.is_ready
            && let Some(number) = self.idle_waiters.pop_first()
        {
            self.cache.add_waiter(held.slot, number);
            held.waiters.push_back(number);
        }
    }

    /// Lets go of a chunk that lost its key, a step at a time.
    fn settle_lost(&mut self) {
        let Some(mut held) = self.lost.pop() else { return };
        assert_eq!(self.cache.place(held.slot).1, held.bytes);
        while let Some(number) = held.waiters.pop_front() {
            assert_eq!(self.cache.take_waiter(held.slot), Some(number));
            assert!(self.idle_waiters.insert(number));
        }
        if !held.is_ready {
            held.is_ready = true;
            self.cache.set_ready(held.slot);
        } else {
            held.pins -= 1;
            self.cache.unpin(held.slot);
        }
        if !held.is_evictable() {
            self.lost.insert(0, held);
        }
    }

    fn invalidate_all(&mut self) {
        self.cache.invalidate(|_| true);
        let held = core::mem::take(&mut self.held).into_values();
        self.lost.extend(held.filter(|held| !held.is_evictable()));
    }

    fn clear(&mut self) {
        self.cache.clear();
        self.held.clear();
        self.lost.clear();
        self.uses.clear();
        self.ring.clear();
        self.idle_waiters = (0..WAITERS).collect();
        self.time = 0;
        self.passed = 0;
    }

    fn step(&mut self, expect: impl Fn(&History, ChunkKey) -> Expected) {
        match self.random(1000) {
            0..200 => self.foresee(),
            200..270 => self.pass(),
            270..330 => self.pass_chunk(),
            330..600 => self.insert(expect),
            600..740 => self.set_ready(false),
            740..770 => self.set_ready(true),
            770..830 => self.pin(),
            830..920 => self.unpin(),
            920..960 => self.add_waiter(),
            960..996 => self.settle_lost(),
            996..999 => self.invalidate_all(),
            _ => self.clear(),
        }
    }

    /// Both caches hold the same.
    fn compare(&self) {
        for chunk in 0..KEYS {
            let key = ChunkKey { array_id: chunk % 3, file: chunk % 2, chunk };
            let expected = self.held.get(&key).map(|held| (held.slot, held.is_ready));
            assert_eq!(self.cache.find(key), expected);
        }
        let all = || self.held.values().chain(&self.lost);
        assert_eq!(self.cache.held_bytes(), all().map(|held| held.bytes).sum::<u64>());
        assert_eq!(self.cache.evictions(), self.evictions);
        let mut places: Vec<(u64, u64)> = all().map(|held| self.cache.place(held.slot)).collect();
        places.sort();
        let limit = region_bytes(self.cache.runs.granules() as u64 * GRANULE_BYTES);
        let starts = places.iter().skip(1).map(|place| place.0).chain([limit]);
        assert!(places.iter().zip(starts).all(|((start, bytes), after)| start + bytes <= after));
    }

    /// Lets go of everything, and finds all room free.
    fn finish(mut self) {
        for _ in 0..1000 {
            self.set_ready(false);
            self.unpin();
            self.settle_lost();
        }
        self.invalidate_all();
        assert_eq!(self.lost.len(), 0);
        assert_eq!(self.cache.held_bytes(), 0);
        self.cache.pass(u64::MAX >> 1);
        let whole = region_bytes(self.cache.runs.granules() as u64 * GRANULE_BYTES);
        let key = self.random_key();
        assert_eq!(self.cache.insert(key, whole), Some(0));
    }
}

/// Three granules each.
fn one_size(_: u64) -> u64 {
    2 * GRANULE_BYTES + 1
}

/// One byte to 40 granules.
fn many_sizes(chunk: u64) -> u64 {
    match chunk % 4 {
        0 => 1 + chunk,
        1 => 2 * GRANULE_BYTES,
        2 => 5 * GRANULE_BYTES - chunk,
        _ => chunk * GRANULE_BYTES + 1,
    }
}

#[test]
fn chunks_of_one_size_are_held_as_belady_says() {
    let chunks_max = 9;
    let mut history = History::new((3 * chunks_max as u64 + 2) * GRANULE_BYTES, one_size);
    for _ in 0..100_000 {
        let before = history.evictions;
        history.step(|history, key| history.belady(key, chunks_max));
        assert!(history.evictions <= before + 1);
        history.compare();
        assert!(history.held.len() + history.lost.len() <= chunks_max);
    }
    assert!(history.evictions > 1000);
    history.finish();
}

#[test]
fn chunks_of_many_sizes_never_overlap_nor_leak_and_leave_by_the_rules() {
    let mut history = History::new(100 * GRANULE_BYTES, many_sizes);
    for _ in 0..100_000 {
        history.step(|_, _| Expected::Anything);
        history.compare();
    }
    assert!(history.evictions > 1000);
    history.finish();
}
