//! The record of a slot, and the rows of its samples.
//!
//! In: numbers. Out: numbers. Neither has an address in it, so they may lie in memory that another
//! process maps elsewhere, or that a caller lends; addresses are made when a view is taken.
//!
//! ```text
//!  slot 0 | slot 1 | ..      each: tags | statuses | filled shapes | digests | place
//! ```
//!
//! Filled shapes lie field by field, then sample by sample. So do digests, and after those of the
//! samples of a field lies their sum. A slot's place is the number of the memory that its samples
//! lie in; from `places` on these are loans, whose addresses are known by field.

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::limits::{FIELDS_MAX, TENSORS_PER_SLOT};
use crate::batch::pieces::Progress;
use crate::batch::shared::Records;
use core::mem::offset_of;
use core::ops::Range;
use static_assertions::const_assert;

/// State of a slot.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlotState {
    /// Nobody's.
    #[default]
    Free,
    /// Being planned, read, decoded.
    Filling,
    /// The last chunk has been placed, and passes run on it.
    Finishing,
    /// To be popped.
    Ready,
    /// To be reported by pop.
    Failed,
    /// Popped and not released.
    Held,
    /// Given back, and somebody is to say what it waits for. Its token is dead.
    Releasing,
    /// Released, and held by tensors that were not deleted.
    Exported,
    /// Nobody's, once the device has done what was queued before.
    Fenced,
    /// A box that a caller waits for and that is not planned yet.
    Queued,
    /// A box whose caller has left: nobody's, once nothing of it is under way.
    Dropped,
}

/// How many slots there are: those of batches come first, then those of boxes that are read into
/// memory of callers, each of which is a batch of one sample of one box of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct SlotCounts {
    /// Batches that have memory at a time, and as many memories that callers lend for one.
    pub places: u32,
    /// There is no memory but that.
    pub is_all_lent: bool,
    /// Batches that may be begun without.
    pub early: u32,
    /// Boxes that are read into memory of callers at a time.
    pub readers: u32,
    /// Samples of a batch.
    pub samples: u32,
}

impl SlotCounts {
    /// Slots of batches.
    pub fn batches(&self) -> u32 {
        self.places + self.early
    }

    /// Slots of all kinds.
    pub fn all(&self) -> u32 {
        self.batches() + self.readers
    }

    /// The slot of reader `number`.
    pub fn slot_of(&self, number: u32) -> BatchSlot {
        BatchSlot(self.batches() + number)
    }

    /// The number of the reader that a slot is, if it is one.
    pub fn reader(&self, slot: BatchSlot) -> Option<u32> {
        slot.0.checked_sub(self.batches())
    }

    /// Rows of tables that have so many rows for a sample, and for a reader.
    pub fn rows(&self, (sample, reader): (u32, u32)) -> u64 {
        let of_batches = u64::from(self.batches()) * u64::from(self.samples * sample);
        of_batches + u64::from(self.readers) * u64::from(reader)
    }

    /// The row of number `number` of a slot in such a table.
    pub fn row(&self, (slot, number): (BatchSlot, u32), each: (u32, u32)) -> usize {
        let of_batch = (self.samples * each.0) as usize;
        let first = match self.reader(slot) {
            None => slot.at() * of_batch,
            Some(reader) => self.batches() as usize * of_batch + (reader * each.1) as usize,
        };
        first + number as usize
    }
}

/// The rows that a sample has.
#[derive(Clone, Copy, Debug)]
pub struct PerSample {
    /// Boxes, one for each run of index lists among them.
    pub boxes: u32,
    /// Those that are for index lists.
    pub listed: u32,
    /// Extents that they cover, of all fields.
    pub filled_shape: u32,
    /// Boxes may be fed.
    pub takes_fed: bool,
    /// Words of what is done to the elements of a box, at most; 0: they are cast alone.
    pub augment_words: u32,
    /// Digests: one for each field, or none.
    pub digests: u32,
    /// Fields, each of which lies somewhere of its own in memory that is lent.
    pub fields: u32,
}

impl PerSample {
    /// Boxes of a sample, and of a box that is read into memory of a caller: one for each run of
    /// its index lists.
    pub fn box_rows(&self) -> (u32, u32) {
        (self.boxes, 1 + self.listed)
    }

    /// Most boxes that a caller gives.
    pub fn given(&self) -> u32 {
        self.boxes - self.listed
    }

    /// What push keeps of boxes besides what they read: whether they may be fed, and the words of
    /// what is done to the elements of each.
    pub fn keeps(&self) -> (bool, u32) {
        (self.takes_fed, self.augment_words)
    }
}

/// The record of a slot. Readers elsewhere need the numbers before `pass`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotRecord {
    pub(super) state: SlotState,
    pub(super) generation: u32,
    pub(super) batch_id: u64,
    /// Position of its first sample in the stream.
    pub(super) position: u64,
    pub(super) sample_count: u32,
    pub(super) failed_samples: u32,
    /// The pass that goes over it.
    pub(super) pass: Progress,
    /// Chunks that are missing, and one while the batch is planned.
    pub(super) remaining: u64,
    /// Position of the failure that the batch reports.
    pub(super) failed_chunk: u64,
    pub(super) failed_sample: u32,
    /// A sample failed with a status that ends the stream whatever on_error says.
    pub(super) is_fatal: bool,
    /// A tensor was deleted while somebody found out what the slot waits for.
    pub(super) is_touched: bool,
    /// Record that is looked at first for the next tensor.
    pub(super) next_tensor: u16,
    /// Tensor records of each field that live, as bits. None unless tensors hold the slot.
    pub(super) tensors: [u8; FIELDS_MAX as usize],
    /// The number of its turn: batches and boxes of readers begin one after the other.
    pub(super) turn: u64,
    /// The time at which its batch was popped, if tensors hold it.
    pub(super) popped_ns: u64,
}

const_assert!(TENSORS_PER_SLOT <= u8::BITS);
const_assert!(offset_of!(SlotRecord, generation) == 4);
const_assert!(offset_of!(SlotRecord, batch_id) == 8);
const_assert!(offset_of!(SlotRecord, position) == 16);
const_assert!(offset_of!(SlotRecord, sample_count) == 24);
const_assert!(offset_of!(SlotRecord, failed_samples) == 28);
const_assert!(offset_of!(SlotRecord, pass) == 32);
// No byte of it is padding.
const_assert!(size_of::<SlotRecord>() == 32 + size_of::<Progress>() + 40 + FIELDS_MAX as usize);

impl SlotRecord {
    /// Tensors of all fields that live.
    pub(super) fn live_tensors(&self) -> u32 {
        self.tensors.iter().map(|tensors| tensors.count_ones()).sum()
    }

    /// Whether the caller or a tensor keeps it.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.state, SlotState::Held | SlotState::Releasing | SlotState::Exported)
    }

    /// Whether it has a batch that was not popped.
    pub(super) fn is_stream(&self) -> bool {
        !self.is_kept() && !matches!(self.state, SlotState::Free | SlotState::Fenced)
    }

    /// Whether it is being planned or filled.
    pub(super) fn is_filling(&self) -> bool {
        matches!(self.state, SlotState::Filling | SlotState::Dropped)
    }
}

/// Words of a reader: a tag and a status.
const READER_WORDS: usize = 2;

/// The place of rows: the loader's own memory, or memory that processes share.
pub enum Elsewhere {
    /// They are the loader's own.
    No,
    /// They are somewhere else, and not there while memory is counted.
    Counted,
    /// There.
    At(Table<u64>),
}

impl Elsewhere {
    /// The place of the rows of a loader. `is_shared`: processes share its batches.
    pub fn of(is_shared: bool, records: Option<Records>) -> Elsewhere {
        match records {
            Some(records) => Elsewhere::At(records.rows()),
            None if is_shared => Elsewhere::Counted,
            None => Elsewhere::No,
        }
    }
}

/// The rows of all slots.
pub struct SlotRows {
    words: Table<u64>,
    /// The end of each kind of rows among those of a slot, in words; of a reader the first two.
    ends: [usize; 4],
    counts: SlotCounts,
    /// The number of the memory of each slot, then the addresses of the fields of each loan. Apart
    /// from the rest: it is read of all slots as long as one is kept.
    places: Table<u64>,
    /// Fields of a loan.
    fields: usize,
}

impl SlotRows {
    /// Rows of so many slots.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        counts: SlotCounts,
        per_sample: &PerSample,
        elsewhere: Elsewhere,
    ) -> SlotRows {
        let mut table = |words: u64| carver.table(Item::BatchStates, words, &0);
        let batches = u64::from(counts.batches());
        let lent = u64::from(counts.places) * u64::from(per_sample.fields);
        let fields = per_sample.fields as usize;
        let words = match elsewhere {
            Elsewhere::No => table(SlotRows::words(counts, per_sample)),
            Elsewhere::Counted => table(0),
            Elsewhere::At(words) => words,
        };
        let ends = SlotRows::ends(counts, per_sample);
        SlotRows { words, ends, counts, places: table(batches + lent), fields }
    }

    fn ends(counts: SlotCounts, per_sample: &PerSample) -> [usize; 4] {
        let (samples, digests) = (counts.samples as usize, per_sample.digests as usize);
        let extents = samples * per_sample.filled_shape as usize;
        let mut end = 0;
        let kinds = [samples, samples.div_ceil(2), extents, (samples + 1) * digests];
        kinds.map(|count| {
            end += count;
            end
        })
    }

    /// Words of the rows of so many slots.
    pub fn words(counts: SlotCounts, per_sample: &PerSample) -> u64 {
        let [.., end] = SlotRows::ends(counts, per_sample);
        let readers = READER_WORDS as u64 * u64::from(counts.readers);
        u64::from(counts.batches()) * end as u64 + readers
    }

    fn part(&self, slot: BatchSlot, kind: usize) -> Table<u64> {
        if let Some(reader) = self.counts.reader(slot) {
            assert!(kind < READER_WORDS);
            let readers = self.counts.batches() as usize * self.ends[3];
            return self.words.part(readers + reader as usize * READER_WORDS + kind, 1);
        }
        let first = if kind == 0 { 0 } else { self.ends[kind - 1] };
        self.words.part(slot.at() * self.ends[3] + first, self.ends[kind] - first)
    }

    /// The callers' tags.
    pub fn tags(&self, slot: BatchSlot) -> Table<u64> {
        self.part(slot, 0)
    }

    /// Status codes of the samples.
    pub fn statuses(&self, slot: BatchSlot) -> Table<i32> {
        self.part(slot, 1).halves()
    }

    /// The extents that boxes cover.
    pub fn filled_shape(&self, slot: BatchSlot) -> Table<u64> {
        self.part(slot, 2)
    }

    /// Digests of a field of all samples, if they are asked for, and the row of their sum.
    pub fn digests(&self, slot: BatchSlot, field: usize) -> (Table<u64>, Table<u64>) {
        let (all, samples) = (self.part(slot, 3), self.ends[0]);
        let first = field * (samples + 1);
        (all.part(first, samples), all.part(first + samples, 1))
    }

    /// The number of the memory that the samples of a slot lie in, which has some.
    pub fn place(&self, slot: BatchSlot) -> u64 {
        self.places.read(slot.at())
    }

    /// The samples of a slot lie in memory number `place` from now on.
    pub fn set_place(&self, slot: BatchSlot, place: u64) {
        self.places.write(slot.at(), place);
    }

    /// The address of a field in memory number `place`, if that is lent.
    pub fn lent_address(&self, place: u64, field: u32) -> Option<usize> {
        let loan = place.checked_sub(u64::from(self.counts.places))? as u32;
        Some(self.loan_address(loan, field))
    }

    /// The address of a field of a loan.
    pub fn loan_address(&self, loan: u32, field: u32) -> usize {
        self.places.read(self.lent_row(loan) + field as usize) as usize
    }

    /// Notes the addresses of the fields of a loan.
    pub(super) fn set_lent(&self, loan: u32, addresses: &[usize]) {
        assert!(addresses.len() == self.fields);
        for (at, address) in (self.lent_row(loan)..).zip(addresses) {
            self.places.write(at, *address as u64);
        }
    }

    fn lent_row(&self, loan: u32) -> usize {
        self.counts.batches() as usize + loan as usize * self.fields
    }

    /// The addresses of those of a slot.
    pub fn span(&self, slot: BatchSlot) -> Range<usize> {
        self.words.span(slot.at() * self.ends[3], self.ends[3])
    }

    /// The addresses of what is said of all slots.
    pub fn places_span(&self) -> Range<usize> {
        self.places.span(0, self.places.len())
    }

    /// The same rows under another name.
    pub fn share(&self) -> SlotRows {
        SlotRows { words: self.words.share(), places: self.places.share(), ..*self }
    }
}
