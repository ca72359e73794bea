//! The records that the owner writes, and consumers read.
//!
//! In: batches and ends of the owner's stream. Out: the entries of lists, the same for each reader.
//! Invariant: a reader that raised `taken` from an entry's number has read that entry whole,
//! because the owner writes over it only after `taken` has passed it.

use crate::base::abi::{Blank, FieldSpec};
use crate::base::arena::{Region, Table};
use crate::base::limits::{CONSUMERS_MAX, ERROR_TEXT_BYTES, FIELDS_MAX, MEMORY_PAGE_BYTES};
use crate::base::math::align_up;
use crate::base::status::{Failure, Status};
use crate::batch::received::Received;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};
use static_assertions::const_assert;

/// "wavetrn" and a byte that is not text.
pub const MAGIC: u64 = u64::from_le_bytes(*b"wavetrn\x01");
/// Changes with the meaning of anything here.
pub const LAYOUT: u32 = 2;
/// Entries of a list that are kept: all slots, and as many ends, errors and resets.
pub const ENTRIES: u64 = 128;

/// The order in which consumers get batches.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Batch k is for consumer k modulo their number.
    Round,
    /// A batch is for the consumer that pops first.
    First,
    /// Each batch is for all.
    All,
}

impl Order {
    /// The order with this number.
    pub fn of(number: u32) -> Option<Order> {
        [Order::Round, Order::First, Order::All].get(number as usize).copied()
    }
}

/// Facts that do not change while a name is shared. They are the first bytes of the records.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Facts {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`LAYOUT`].
    pub layout: u32,
    /// The order's number.
    pub order: u32,
    /// Consumers.
    pub consumers: u32,
    /// Slots, which have rows and numbers.
    pub slots: u32,
    /// Samples of a batch.
    pub samples: u32,
    /// Fields; 0: one, which has no name.
    pub n_fields: u32,
    /// 1: samples have digests.
    pub digest: u32,
    /// Always 0.
    pub reserved: u32,
    /// The longest wait of a pop that has no limit of its own.
    pub pop_timeout_ns: u64,
    /// Bytes of the rows of all slots.
    pub rows_bytes: u64,
    /// Bytes of the samples of a slot.
    pub slot_bytes: u64,
    /// Slots that have memory for samples.
    pub places: u64,
    /// The fields.
    pub fields: [FieldSpec; FIELDS_MAX as usize],
}

impl Facts {
    /// Nothing is shared.
    pub const NONE: Facts = Facts {
        magic: MAGIC,
        layout: LAYOUT,
        order: 0,
        consumers: 0,
        slots: 0,
        samples: 0,
        n_fields: 0,
        digest: 0,
        reserved: 0,
        pop_timeout_ns: 0,
        rows_bytes: 0,
        slot_bytes: 0,
        places: 0,
        fields: [FieldSpec::BLANK; FIELDS_MAX as usize],
    };
}

/// Words of a failure: status and sample, tag, batch, lengths, chunk, text.
const FAILURE_WORDS: usize = 4 + 16 + ERROR_TEXT_BYTES / 8;

/// State of the owner that changes, apart from lists.
#[repr(C)]
struct Live {
    /// 1: the owner's loader is closed.
    is_closed: AtomicU32,
    /// 1: the owner sleeps, and is to be called about a change of a page.
    sleeps: AtomicU32,
    /// Consumers that are attached, as bits.
    attached: AtomicU64,
    /// What [`Records::holder`] returns, 16 bits each, from 1 + the consumer on; 0: nobody.
    holder: AtomicU64,
    /// Odd while the failure is written.
    failure_version: AtomicU64,
    failure: [AtomicU64; FAILURE_WORDS],
}

/// The head of a list.
#[repr(C, align(64))]
struct Head {
    /// Entries so far.
    tail: AtomicU64,
    /// Changes with each entry: its consumer sleeps on it.
    signal: AtomicU32,
}

/// An entry of a list.
#[repr(C)]
struct Entry {
    number: AtomicU64,
    /// The kind; for a batch also its slot and its place, 16 bits each.
    what: AtomicU64,
    batch_id: AtomicU64,
    /// Samples, and above them those that failed.
    counts: AtomicU64,
}

/// The meaning of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A batch.
    Batch(Received),
    /// The owner's stream was flushed, and all of its batches were given.
    End,
    /// The owner's stream has ended with a failure.
    Error,
    /// The owner began its stream anew.
    Reset,
}

/// Words of the facts.
const FACTS_WORDS: usize = size_of::<Facts>() / 8;

const LIVE_AT: u64 = MEMORY_PAGE_BYTES;
const LISTS_AT: u64 = 2 * MEMORY_PAGE_BYTES;
const LIST_BYTES: u64 = (size_of::<Head>() + ENTRIES as usize * size_of::<Entry>()) as u64;

const_assert!(size_of::<Facts>() as u64 <= MEMORY_PAGE_BYTES);
const_assert!(size_of::<Live>() as u64 <= MEMORY_PAGE_BYTES);
const_assert!(LIST_BYTES.is_multiple_of(64));
const_assert!(ERROR_TEXT_BYTES.is_multiple_of(8));

/// The parts of the records of so many consumers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Consumers.
    pub consumers: u32,
    /// Bytes of the rows of all slots.
    pub rows_bytes: u64,
}

impl Sizes {
    fn rows_at(&self) -> u64 {
        align_up(LISTS_AT + u64::from(self.consumers) * LIST_BYTES, MEMORY_PAGE_BYTES)
    }

    /// Bytes of all records, in whole pages.
    pub fn bytes(&self) -> u64 {
        self.rows_at() + align_up(self.rows_bytes, MEMORY_PAGE_BYTES)
    }
}

/// The records, in memory that processes share.
#[derive(Clone, Copy)]
pub struct Records {
    place: Region,
    sizes: Sizes,
    /// Called before each write.
    before_store: fn(),
}

impl Records {
    /// Records in a mapping.
    ///
    /// # Safety
    /// The mapping has the bytes of `sizes` and stays as long as the value is used. Bytes of it are
    /// written by the owner's process alone, through one such value.
    pub unsafe fn over(place: Region, sizes: Sizes, before_store: fn()) -> Records {
        assert!(place.bytes() >= sizes.bytes() && sizes.consumers as usize <= CONSUMERS_MAX);
        Records { place, sizes, before_store }
    }

    /// The mapping.
    pub fn region(&self) -> Region {
        self.place
    }

    /// The facts of records that somebody made.
    ///
    /// # Safety
    /// A page can be read there.
    pub unsafe fn facts_at(place: Region) -> Facts {
        assert!(place.bytes() >= MEMORY_PAGE_BYTES);
        let mut words = [0; FACTS_WORDS];
        for (at, word) in words.iter_mut().enumerate() {
            // SAFETY: the page is there, and aligned. Word by word, in case its owner writes it.
            *word =
                unsafe { AtomicU64::from_ptr(place.as_ptr().cast::<u64>().add(at)) }.load(Relaxed);
        }
        // SAFETY: facts are numbers, of which any bytes are a value.
        unsafe { core::mem::transmute::<[u64; FACTS_WORDS], Facts>(words) }
    }

    /// Writes the facts, before a consumer reads them.
    pub fn write_facts(&self, facts: &Facts) {
        // SAFETY: the owner alone has the page yet.
        unsafe { core::ptr::copy_nonoverlapping(facts, self.place.as_ptr().cast(), 1) }
    }

    fn live(&self) -> &Live {
        let part = self.place.part(LIVE_AT, size_of::<Live>() as u64);
        // SAFETY: the part lies in the mapping, which is aligned to pages; any bytes are a value of
        // an atomic.
        unsafe { &*part.as_ptr().cast() }
    }

    fn list(&self, consumer: u32) -> Region {
        assert!(consumer < self.sizes.consumers);
        self.place.part(LISTS_AT + u64::from(consumer) * LIST_BYTES, LIST_BYTES)
    }

    fn head(&self, consumer: u32) -> &Head {
        // SAFETY: as in `live`; lists are aligned to lines.
        unsafe { &*self.list(consumer).as_ptr().cast() }
    }

    fn entry(&self, consumer: u32, number: u64) -> &Entry {
        let at = size_of::<Head>() as u64 + number % ENTRIES * size_of::<Entry>() as u64;
        let part = self.list(consumer).part(at, size_of::<Entry>() as u64);
        // SAFETY: as in `live`.
        unsafe { &*part.as_ptr().cast() }
    }

    /// The rows of all slots.
    pub fn rows(&self) -> Table<u64> {
        let part = self.place.part(self.sizes.rows_at(), self.sizes.rows_bytes);
        // SAFETY: they lie in the mapping; by the protocol of slots each row has one writer at a
        // time.
        unsafe { Table::over(part) }
    }

    fn store<T>(&self, write: impl FnOnce() -> T) -> T {
        (self.before_store)();
        write()
    }

    /// Appends an entry to a list whose `tail` is its number, and calls its consumer by `signal`.
    pub fn publish(&self, consumer: u32, number: u64, what: What) {
        let (entry, head) = (self.entry(consumer, number), self.head(consumer));
        let (kind, batch_id, counts) = match what {
            What::Batch(Received { slot, place, batch_id, samples, failed }) => {
                let kind = 1 | u64::from(slot) << 16 | u64::from(place) << 32;
                (kind, batch_id, u64::from(samples) | u64::from(failed) << 32)
            }
            What::End => (2, 0, 0),
            What::Error => (3, 0, 0),
            What::Reset => (4, 0, 0),
        };
        self.store(|| entry.number.store(number, Relaxed));
        self.store(|| entry.what.store(kind, Relaxed));
        self.store(|| entry.batch_id.store(batch_id, Relaxed));
        self.store(|| entry.counts.store(counts, Relaxed));
        self.store(|| head.tail.store(number + 1, SeqCst));
        self.store(|| head.signal.fetch_add(1, SeqCst));
    }

    /// Entries of a list so far.
    pub fn tail(&self, consumer: u32) -> u64 {
        self.head(consumer).tail.load(SeqCst)
    }

    /// The word that a consumer sleeps on.
    pub fn signal(&self, consumer: u32) -> &AtomicU32 {
        &self.head(consumer).signal
    }

    /// Changes the word, so that a consumer that is about to sleep looks once more.
    pub fn touch(&self, consumer: u32) {
        self.store(|| self.head(consumer).signal.fetch_add(1, SeqCst));
    }

    /// Entry `number` of a list. None: another entry is there by now, or none.
    pub fn read(&self, consumer: u32, number: u64) -> Option<What> {
        let entry = self.entry(consumer, number);
        if entry.number.load(Relaxed) != number {
            return None;
        }
        let (kind, counts) = (entry.what.load(Relaxed), entry.counts.load(Relaxed));
        Some(match kind & 0xFFFF {
            1 => What::Batch(Received {
                slot: (kind >> 16) as u32 & 0xFFFF,
                place: (kind >> 32) as u32 & 0xFFFF,
                batch_id: entry.batch_id.load(Relaxed),
                samples: counts as u32,
                failed: (counts >> 32) as u32,
            }),
            2 => What::End,
            3 => What::Error,
            4 => What::Reset,
            _ => return None,
        })
    }

    /// Whether the owner's loader is closed.
    pub fn is_closed(&self) -> bool {
        self.live().is_closed.load(SeqCst) != 0
    }

    /// The owner's loader is closed.
    pub fn close(&self) {
        self.store(|| self.live().is_closed.store(1, SeqCst));
    }

    /// Whether the owner is to be called about a change of a page.
    pub fn owner_sleeps(&self) -> bool {
        self.live().sleeps.load(SeqCst) != 0
    }

    /// The owner begins to sleep, or is awake again.
    pub fn set_owner_sleeps(&self, sleeps: bool) {
        self.store(|| self.live().sleeps.store(u32::from(sleeps), SeqCst));
    }

    /// Consumers that are attached, as bits.
    pub fn attached(&self) -> u64 {
        self.live().attached.load(SeqCst)
    }

    /// Notes the consumers that are attached.
    pub fn set_attached(&self, attached: u64) {
        self.store(|| self.live().attached.store(attached, SeqCst));
    }

    /// The consumer that has most slots, while there is none for the next batch and another
    /// consumer waits: its number, slots, and those of them that it has not popped.
    pub fn holder(&self) -> Option<(u32, u32, u32)> {
        let word = self.live().holder.load(SeqCst);
        let part = |number: u32| (word >> (16 * number)) as u32 & 0xFFFF;
        Some((part(0).checked_sub(1)?, part(1), part(2)))
    }

    /// Notes that consumer; None: nobody waits for the slots of another.
    pub fn set_holder(&self, holder: Option<(u32, u32, u32)>) {
        let word = holder.map_or(0, |(number, slots, ahead)| {
            u64::from(number + 1) | u64::from(slots) << 16 | u64::from(ahead) << 32
        });
        if self.live().holder.load(SeqCst) != word {
            self.store(|| self.live().holder.store(word, SeqCst));
        }
    }

    /// Writes the failure that [`What::Error`] stands for.
    pub fn write_failure(&self, failure: &Failure) {
        let live = self.live();
        let mut words = [0; FAILURE_WORDS];
        let text = failure.text.as_bytes();
        words[0] = u64::from(failure.status as i32 as u32) | u64::from(failure.sample) << 32;
        (words[1], words[2]) = (failure.tag, failure.batch_id);
        words[3] = failure.chunk.len() as u64 | (text.len() as u64) << 32;
        words[4..20].iter_mut().zip(&failure.chunk).for_each(|(to, from)| *to = *from);
        for (to, from) in words[20..].iter_mut().zip(text.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..from.len()].copy_from_slice(from);
            *to = u64::from_le_bytes(bytes);
        }
        self.store(|| live.failure_version.fetch_add(1, SeqCst));
        for (to, from) in live.failure.iter().zip(words) {
            self.store(|| to.store(from, SeqCst));
        }
        self.store(|| live.failure_version.fetch_add(1, SeqCst));
    }

    /// The failure that [`What::Error`] stands for; None while it is written.
    pub fn failure(&self) -> Option<Failure> {
        let live = self.live();
        let version = live.failure_version.load(SeqCst);
        let words = live.failure.each_ref().map(|word| word.load(SeqCst));
        if !version.is_multiple_of(2) || live.failure_version.load(SeqCst) != version {
            return None;
        }
        let status = Status::from_code(words[0] as u32 as i32).unwrap_or(Status::Internal);
        let mut failure = Failure::new(status);
        failure.sample = (words[0] >> 32) as u32;
        (failure.tag, failure.batch_id) = (words[1], words[2]);
        let axes = (words[3] as u32 as usize).min(16);
        failure.chunk.extend(words[4..4 + axes].iter().copied());
        let mut text = [0; ERROR_TEXT_BYTES];
        for (to, from) in text.chunks_mut(8).zip(&words[20..]) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        let bytes = ((words[3] >> 32) as usize).min(ERROR_TEXT_BYTES);
        let text = core::str::from_utf8(&text[..bytes]).unwrap_or("the owner's text is not UTF-8");
        failure.text.write_line(format_args!("{text}"));
        Some(failure)
    }
}
