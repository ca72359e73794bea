//! The page that a consumer writes, and the owner reads.
//!
//! In: entries that are taken, batches that are given back. Out: numbers that the owner checks: a
//! consumer may write anything.

use crate::base::arena::Region;
use crate::base::limits::MEMORY_PAGE_BYTES;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};
use static_assertions::const_assert;

/// Bytes of the page.
pub const PAGE_BYTES: u64 = MEMORY_PAGE_BYTES;

/// Most slots.
const SLOTS_MAX: usize = 64;

#[repr(C)]
struct Words {
    /// Entries of the list that were taken, or that the owner took back.
    taken: AtomicU64,
    /// Calls that sleep on the list's word.
    waiting: AtomicU32,
    reserved: u32,
    /// By slot: 1 + the number of the entry whose batch was given back.
    released: [AtomicU64; SLOTS_MAX],
}

const_assert!(size_of::<Words>() as u64 <= PAGE_BYTES);

/// The entries of a list that a consumer has taken, as its page has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// This many.
    Entries(u64),
    /// A number that no consumer of this library writes.
    Nonsense,
}

/// See the module.
#[derive(Clone, Copy)]
pub struct Page {
    place: Region,
    /// Called before each write.
    before_store: fn(),
}

impl Page {
    /// A page in a mapping.
    ///
    /// # Safety
    /// The mapping has PAGE_BYTES bytes that can be written, and stays as long as the value is
    /// used.
    pub unsafe fn over(place: Region, before_store: fn()) -> Page {
        assert!(place.bytes() >= PAGE_BYTES);
        Page { place, before_store }
    }

    /// The mapping.
    pub fn region(&self) -> Region {
        self.place
    }

    fn words(&self) -> &Words {
        // SAFETY: the page is there and aligned; any bytes are a value of an atomic.
        unsafe { &*self.place.as_ptr().cast() }
    }

    fn store<T>(&self, write: impl FnOnce() -> T) -> T {
        (self.before_store)();
        write()
    }

    /// Begins the page at entry `first` of the list.
    pub fn begin(&self, first: u64) {
        self.store(|| self.words().taken.store(first, SeqCst));
    }

    /// The entry that is taken next.
    pub fn next(&self) -> u64 {
        self.words().taken.load(SeqCst)
    }

    /// Raises `taken` from `number` to `limit`: the consumer does so to take one entry, the owner
    /// to take entries back. False: another call was first.
    pub fn pass(&self, number: u64, limit: u64) -> bool {
        let words = self.words();
        self.store(|| words.taken.compare_exchange(number, limit, SeqCst, SeqCst).is_ok())
    }

    /// The entries that are taken, if there are from `least`, as before, to `tail` of them.
    pub fn taken(&self, least: u64, tail: u64) -> Taken {
        match self.next() {
            taken if taken < least || taken > tail => Taken::Nonsense,
            taken => Taken::Entries(taken),
        }
    }

    /// The batch of an entry is given back.
    pub fn release(&self, slot: u32, number: u64) {
        let word = &self.words().released[slot as usize % SLOTS_MAX];
        self.store(|| word.store(number + 1, SeqCst));
    }

    /// Whether the batch of an entry was given back.
    pub fn has_released(&self, slot: u32, number: u64) -> bool {
        self.words().released[slot as usize % SLOTS_MAX].load(SeqCst) == number + 1
    }

    /// A call begins to sleep on the list's word, or is awake again.
    pub fn set_waiting(&self, waits: bool) {
        let waiting = &self.words().waiting;
        self.store(|| match waits {
            true => waiting.fetch_add(1, SeqCst),
            false => waiting.fetch_sub(1, SeqCst),
        });
    }

    /// Whether a call sleeps there.
    pub fn is_waiting(&self) -> bool {
        self.words().waiting.load(SeqCst) != 0
    }
}
