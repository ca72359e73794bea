//! The bookkeeping of the cache of decoded chunks: what is held where, and what leaves first.
//!
//! In: the uses that the lookahead foresees, in time order, and chunks about to be decoded. Out:
//! slots, each a place in the cache's memory. The chunk whose next use is farthest leaves first
//! (Belady, "A study of replacement algorithms", IBM Systems Journal 5(2), 1966), and a chunk is
//! not kept where that would push out one that is used sooner. Time is the number of a sample.
//!
//! One owner, under its lock; nothing here waits or allocates. Every operation costs O(log n) at
//! most, so the size of the cache hardly matters, except `clear` and `invalidate`, which walk
//! what is held, and `pass`, which costs O(log n) for each use that it ends.
//!
//! The planner of a batch of samples `[first, limit)` calls, for each chunk of the batch once,
//! `pass_chunk(key, limit)` and `find(key)`; then `pin`, or `insert` and `pin`, before anything
//! else. When every chunk of the batch has its place it calls `pass(limit)`.
//!
//! States of a slot: free -> Pending (`insert`) -> Ready (`set_ready`) -> free (evicted, or let go
//! of). A pending or pinned slot is never evicted. A slot that lost its key (`abandon`, `forget`,
//! `invalidate`) is not found any more and is free as soon as it is neither pending nor pinned.
//!
//! Invariant: a slot is in `order` exactly while it is ready, unpinned and has its key.

mod order;
mod runs;
mod uses;
mod window;

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::limits::CHUNK_BYTES_MAX;
use crate::base::version::Version;
use order::{Order, lateness_from_use};
use runs::Runs;
use uses::{Foreseen, Uses};
use window::Search;

/// Unit of memory. A chunk wastes half a granule on average, 3 % of one of 256 KiB, and about 140
/// bytes of tables stand behind each granule, 0.9 % of the cache. A quarter of it would make the
/// tables 3.4 %; four times as much would waste half the cache on chunks of 32^3 bytes.
pub const GRANULE_BYTES: u64 = 16 << 10;

/// Most chunks that one insertion evicts.
pub const EVICTIONS_MAX: u32 = 64;

const NONE: u32 = u32::MAX;

/// Time of a use that nobody foresees.
const NEVER: u64 = u64::MAX;

/// What names a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChunkKey {
    /// Identity of the array.
    pub array_id: u64,
    /// Number of the file in its file grid.
    pub file: u64,
    /// Number of the chunk in the file.
    pub chunk: u64,
}

/// A held chunk: the number of its first granule.
pub type Slot = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Pending,
    Ready,
}

/// The chunk whose place starts at a granule.
#[derive(Clone, Copy, Debug)]
struct Resident {
    state: State,
    /// Its key; NONE: it lost it.
    record: u32,
    bytes: u32,
    /// The version of its file.
    version: Version,
    /// Its bytes never came.
    is_failed: bool,
    pins: u32,
    waiter_first: u32,
    waiter_last: u32,
}

const NOBODY: Resident = Resident {
    state: State::Free,
    record: NONE,
    bytes: 0,
    version: Version::NONE,
    is_failed: false,
    pins: 0,
    waiter_first: NONE,
    waiter_last: NONE,
};

/// See the module.
#[derive(Debug)]
pub struct ChunkCache {
    uses: Uses,
    runs: Runs,
    order: Order,
    residents: &'static mut [Resident],
    /// Next waiter of the same slot; a waiter that waits for nothing has its own number.
    waiter_links: &'static mut [u32],
    /// Counts entries into `order`.
    stamp: u64,
    held_bytes: u64,
    evictions: u64,
}

/// Bytes of the memory that the places lie in: `cache_bytes` cut to whole granules.
pub const fn region_bytes(cache_bytes: u64) -> u64 {
    cache_bytes / GRANULE_BYTES * GRANULE_BYTES
}

impl ChunkCache {
    /// An empty cache for `cache_bytes` of decoded chunks, `uses_max` foreseen uses and waiters
    /// below `waiters_max`. With less than one granule it holds nothing and takes no memory.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        cache_bytes: u64,
        uses_max: u32,
        waiters_max: u32,
    ) -> ChunkCache {
        let granules = cache_bytes / GRANULE_BYTES;
        assert!(granules < (1 << 31) && uses_max < (1 << 31));
        let granules = granules as u32;
        let uses_max = if granules == 0 { 0 } else { uses_max };
        let waiters_max = if granules == 0 { 0 } else { waiters_max };
        let waiter_links = carver.slice(Item::ChunkCacheTables, waiters_max as u64, &0);
        for (number, link) in waiter_links.iter_mut().enumerate() {
            *link = number as u32;
        }
        ChunkCache {
            uses: Uses::carve(carver, uses_max, granules),
            runs: Runs::carve(carver, granules),
            order: Order::carve(carver, granules),
            residents: carver.slice(Item::ChunkCacheTables, granules as u64, &NOBODY),
            waiter_links,
            stamp: 0,
            held_bytes: 0,
            evictions: 0,
        }
    }

    /// Chunks evicted since open.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Decoded bytes of all chunks that have a place.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Notes that sample number `time` uses the chunk; times never fall. False: the table of uses
    /// is full, call again with the same use after `pass`. A use that is over, or that is known
    /// already, is nothing new, so a sample may be walked again from its start.
    pub fn foresee(&mut self, key: ChunkKey, time: u64) -> bool {
        if self.residents.is_empty() {
            return true;
        }
        match self.uses.foresee(key, time) {
            Foreseen::Full => return false,
            Foreseen::Later => (),
            Foreseen::Next(record) => self.follow_next_use(record),
        }
        true
    }

    /// Ends all uses before `time_limit`.
    pub fn pass(&mut self, time_limit: u64) {
        while let Some(record) = self.uses.end_front(time_limit) {
            self.follow_next_use(record);
        }
    }

    /// Ends the uses of one chunk before `time_limit`. For the planner of a batch: when it comes to
    /// a chunk, that chunk's next use is behind the batch, while chunks that the batch has yet to
    /// come to keep theirs and so stay.
    pub fn pass_chunk(&mut self, key: ChunkKey, time_limit: u64) {
        if self.residents.is_empty() {
            return;
        }
        if let Some(record) = self.uses.find(key)
            && self.uses.end_of_record(record, time_limit)
        {
            self.follow_next_use(record);
        }
    }

    /// The chunk's slot and whether it is ready.
    pub fn find(&self, key: ChunkKey) -> Option<(Slot, bool)> {
        if self.residents.is_empty() {
            return None;
        }
        let slot = self.uses.slot(self.uses.find(key)?)?;
        Some((slot, self.residents[slot as usize].state == State::Ready))
    }

    /// A place for a chunk that is about to be decoded and is not held: Pending. None: decode it
    /// without keeping; then nothing was evicted. Chunks are evicted only where their next use is
    /// later than this one's, so uses that the decoding serves are ended first.
    pub fn insert(&mut self, key: ChunkKey, bytes: u64) -> Option<Slot> {
        assert!(bytes <= CHUNK_BYTES_MAX);
        let granules = bytes.max(1).div_ceil(GRANULE_BYTES) as u32;
        if granules > self.runs.granules() {
            return None;
        }
        let next_use = self.uses.find(key).map_or(NEVER, |record| self.uses.next_use(record));
        let slot = match self.runs.take(granules) {
            Some(slot) => slot,
            None if next_use == NEVER => return None,
            None => self.evict_for(granules, next_use)?,
        };
        let record = self.uses.attach(key, slot);
        let resident = &mut self.residents[slot as usize];
        assert!(resident.state == State::Free);
        *resident = Resident { state: State::Pending, record, bytes: bytes as u32, ..NOBODY };
        self.held_bytes += bytes;
        Some(slot)
    }

    /// Notes the version of the file that the slot's chunk lies in.
    pub fn set_version(&mut self, slot: Slot, version: Version) {
        self.residents[slot as usize].version = version;
    }

    /// The version of the file that the slot's chunk lies in.
    pub fn version(&self, slot: Slot) -> Version {
        self.residents[slot as usize].version
    }

    /// Whether the slot, which the caller pins, was abandoned.
    pub fn is_failed(&self, slot: Slot) -> bool {
        self.residents[slot as usize].is_failed
    }

    /// Whether the slot is nobody's.
    pub fn is_free(&self, slot: Slot) -> bool {
        self.residents[slot as usize].state == State::Free
    }

    /// Whether the slot's bytes are there.
    pub fn is_ready(&self, slot: Slot) -> bool {
        self.residents[slot as usize].state == State::Ready
    }

    /// Where the slot's bytes lie: offset in the cache's memory, and decoded size.
    pub fn place(&self, slot: Slot) -> (u64, u64) {
        let resident = &self.residents[slot as usize];
        assert!(resident.state != State::Free);
        (slot as u64 * GRANULE_BYTES, resident.bytes as u64)
    }

    /// The pending slot's bytes are there. Without a pin on it, a slot that lost its key is gone.
    pub fn set_ready(&mut self, slot: Slot) {
        let resident = &mut self.residents[slot as usize];
        assert!(resident.state == State::Pending);
        resident.state = State::Ready;
        self.settle(slot);
    }

    /// The pending slot's bytes never come: it is not found any more. Without a pin on it, the slot
    /// is gone.
    pub fn abandon(&mut self, slot: Slot) {
        self.residents[slot as usize].is_failed = true;
        self.lose_key(slot);
        self.set_ready(slot);
    }

    /// Keeps the slot where it is until it is unpinned as often.
    pub fn pin(&mut self, slot: Slot) {
        let resident = &mut self.residents[slot as usize];
        assert!(resident.state != State::Free);
        resident.pins += 1;
        if resident.pins == 1 && resident.state == State::Ready {
            self.order.remove(slot);
        }
    }

    /// Takes one pin back.
    pub fn unpin(&mut self, slot: Slot) {
        let resident = &mut self.residents[slot as usize];
        assert!(resident.state != State::Free);
        assert!(resident.pins > 0);
        resident.pins -= 1;
        self.settle(slot);
    }

    /// Adds `number` behind the slot's waiters. It waits for nothing else.
    pub fn add_waiter(&mut self, slot: Slot, number: u32) {
        assert!(self.waiter_links[number as usize] == number);
        let resident = &mut self.residents[slot as usize];
        assert!(resident.state != State::Free);
        self.waiter_links[number as usize] = NONE;
        match resident.waiter_last {
            NONE => resident.waiter_first = number,
            last => self.waiter_links[last as usize] = number,
        }
        resident.waiter_last = number;
    }

    /// Takes the slot's first waiter. None: nobody waits any more. All are taken before the last
    /// pin of a slot that is ready.
    pub fn take_waiter(&mut self, slot: Slot) -> Option<u32> {
        let resident = &mut self.residents[slot as usize];
        assert!(resident.state != State::Free);
        let number = resident.waiter_first;
        if number == NONE {
            return None;
        }
        let link = &mut self.waiter_links[number as usize];
        resident.waiter_first = *link;
        if *link == NONE {
            resident.waiter_last = NONE;
        }
        *link = number;
        Some(number)
    }

    /// Chunks of these keys are not found any more, while jobs run: what they pin or fill stays
    /// until they let go. Foreseen uses stay.
    pub fn invalidate(&mut self, is_bad: impl Fn(ChunkKey) -> bool) {
        let mut at = 0;
        while at < self.runs.granules() {
            at = match self.residents[at as usize].record {
                record if record != NONE && is_bad(self.uses.key(record)) => self.forget(at),
                _ => self.runs.limit(at),
            };
        }
    }

    /// The chunk in a slot is not found any more; what jobs pin or fill of it stays until they let
    /// go. Gives the limit of the run that it lies in.
    pub fn forget(&mut self, slot: Slot) -> u32 {
        self.lose_key(slot);
        self.settle(slot)
    }

    /// Forgets everything, uses and waiters too; time may start again. Nobody holds a slot.
    pub fn clear(&mut self) {
        let mut at = 0;
        while at < self.runs.granules() {
            while self.residents[at as usize].waiter_first != NONE {
                self.take_waiter(at);
            }
            self.residents[at as usize] = NOBODY;
            at = self.runs.limit(at);
        }
        self.uses.clear();
        self.order.clear();
        self.runs.clear();
        self.held_bytes = 0;
    }

    /// Frees a window of chunks that are used later than `next_use`, and takes its start.
    fn evict_for(&mut self, granules: u32, next_use: u64) -> Option<Slot> {
        let search = Search {
            runs: &self.runs,
            order: &self.order,
            length: granules,
            next_use,
            now: self.uses.now(),
        };
        let window = search.best()?;
        let mut at = window.first;
        while at < window.limit {
            at = match self.runs.is_free(at) {
                true => self.runs.limit(at),
                false => {
                    self.evictions += 1;
                    self.lose_key(at);
                    self.settle(at)
                }
            };
        }
        let slot = self.runs.take(granules);
        assert!(slot.is_some());
        slot
    }

    /// The next use of a chunk has changed.
    fn follow_next_use(&mut self, record: u32) {
        let Some(slot) = self.uses.slot(record) else {
            self.uses.close_idle(record);
            return;
        };
        if self.order.lateness(slot).is_some() {
            self.order.remove(slot);
            self.enter_order(slot);
        }
    }

    fn enter_order(&mut self, slot: Slot) {
        let next_use = self.uses.next_use(self.residents[slot as usize].record);
        self.stamp += 1;
        self.order.insert(slot, lateness_from_use(next_use, self.stamp));
    }

    fn lose_key(&mut self, slot: Slot) {
        if self.order.lateness(slot).is_some() {
            self.order.remove(slot);
        }
        let resident = &mut self.residents[slot as usize];
        if resident.record != NONE {
            self.uses.detach(resident.record);
            resident.record = NONE;
        }
    }

    /// Where a slot that is not in `order` goes now. Gives the limit of the run that it lies in.
    fn settle(&mut self, slot: Slot) -> u32 {
        let resident = self.residents[slot as usize];
        if resident.state == State::Ready && resident.pins == 0 {
            if resident.record == NONE {
                return self.release(slot);
            }
            self.enter_order(slot);
        }
        self.runs.limit(slot)
    }

    fn release(&mut self, slot: Slot) -> u32 {
        let resident = self.residents[slot as usize];
        assert!(resident.waiter_first == NONE);
        self.held_bytes -= resident.bytes as u64;
        self.residents[slot as usize] = NOBODY;
        let merged = self.runs.give_back(slot);
        self.runs.limit(merged)
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod tests;
