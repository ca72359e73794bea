//! Digests of the samples of full batches: what each piece of the pass reads, and what came out of
//! them.
//!
//! In: a slot whose last row was written; shares of pieces, in any order. Out: the part of a batch
//! that a piece is; a digest for each sample and field, and the sum of a field's.
//!
//! A part is some whole samples of a field, whose digests are complete with it, or a piece of one
//! sample. Of a loader that was not asked for digests there is no row here, and no piece.

use crate::base::arena::{Carver, Table, span_of};
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::limits::FIELDS_MAX;
use crate::batch::pieces::Piece;
use crate::loops::digest::{WORD_BYTES, digest, mix, share};
use crate::loops::simd::Level;
use arrayvec::ArrayVec;
use core::ops::Range;
use static_assertions::const_assert;

/// Bytes of a piece at most: what a job takes 30 to 60 us for, so that the lock is nothing beside
/// it and all workers share a batch.
pub const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that a sample counts as at least: a digest takes 20 ns besides, in which so many are read.
const SAMPLE_BYTES_MIN: u64 = 512;

// A part of a sample begins with a word.
const_assert!(PIECE_BYTES.is_multiple_of(WORD_BYTES as u64));

/// What a piece reads of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Slot of the batch.
    pub slot: BatchSlot,
    /// Field of the samples.
    pub field: u32,
    /// First sample.
    pub sample: u32,
    /// Number of samples; 1 of a part of one.
    pub samples: u32,
    /// First byte in the sample.
    pub first: u64,
    /// Bytes of each sample.
    pub bytes: u64,
    /// Bytes that a whole sample has.
    pub sample_bytes: u64,
    /// Position of the batch's first sample in the stream.
    position: u64,
    /// Row of the first sample.
    row: usize,
}

impl Part {
    fn is_part(&self) -> bool {
        self.bytes < self.sample_bytes
    }

    /// Bytes of the digests that are complete with it: a sample's come with its last part.
    pub fn output_bytes(&self) -> u64 {
        let is_last = self.first + self.bytes == self.sample_bytes;
        if is_last { u64::from(self.samples) * size_of::<u64>() as u64 } else { 0 }
    }

    /// What comes of its bytes: of whole samples their digests, which go to the table, and what
    /// these add to the field's sum; of a part of a sample its share.
    pub fn read(&self, bytes: &[u8], digests: &Table<u64>) -> u64 {
        let level = Level::here();
        if self.is_part() {
            return share(level, bytes, self.first / WORD_BYTES as u64);
        }
        let samples = bytes.chunks_exact(self.sample_bytes as usize);
        self.close(samples.map(|sample| share(level, sample, 0)), digests)
    }

    /// The same of whole samples, all of whose shares have these sums.
    pub fn close(&self, shares: impl Iterator<Item = u64>, digests: &Table<u64>) -> u64 {
        assert!(!self.is_part());
        let mut sum = 0u64;
        for (number, share) in shares.take(self.samples as usize).enumerate() {
            let digest = digest(self.sample_bytes, share);
            digests.write(self.row + number, digest);
            let position = self.position + u64::from(self.sample) + number as u64;
            sum = sum.wrapping_add(mix(position, digest));
        }
        sum
    }
}

/// How the samples of a field become pieces.
#[derive(Clone, Copy, Debug)]
struct Cut {
    sample_bytes: u64,
    /// Parts of a sample.
    parts: u64,
    /// Samples of a piece; 1 where samples have parts.
    samples: u32,
}

impl Cut {
    fn of(sample_bytes: u64, samples_per_batch: u32) -> Cut {
        let samples = PIECE_BYTES / sample_bytes.max(SAMPLE_BYTES_MIN);
        let samples = samples.clamp(1, u64::from(samples_per_batch));
        let parts = sample_bytes.div_ceil(PIECE_BYTES);
        Cut { sample_bytes, parts, samples: samples as u32 }
    }

    /// On a device a kernel cuts them, so that a field is one piece.
    fn whole(sample_bytes: u64, samples_per_batch: u32) -> Cut {
        Cut { sample_bytes, parts: 1, samples: samples_per_batch }
    }

    fn pieces(&self, samples: u32) -> u64 {
        self.parts * u64::from(samples.div_ceil(self.samples))
    }
}

/// See the module.
pub struct Digests {
    cuts: ArrayVec<Cut, { FIELDS_MAX as usize }>,
    samples_per_batch: u32,
    /// Digests, slot by slot, field by field, sample by sample.
    pub table: Table<u64>,
    /// Of each slot and field the sum over its samples.
    sums: &'static mut [u64],
}

impl Digests {
    /// For `count` slots, and fields whose samples have so many bytes each. `is_whole`: each field
    /// of a batch is one piece, because it lies on a device.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        (count, samples_per_batch): (u32, u32),
        sample_bytes: impl Iterator<Item = u64>,
        is_whole: bool,
    ) -> Digests {
        let cut = if is_whole { Cut::whole } else { Cut::of };
        let cuts: ArrayVec<Cut, { FIELDS_MAX as usize }> =
            sample_bytes.map(|bytes| cut(bytes, samples_per_batch)).collect();
        let fields = u64::from(count) * cuts.len() as u64;
        Digests {
            table: carver.table(Item::BatchStates, fields * u64::from(samples_per_batch), &0),
            sums: carver.slice(Item::BatchStates, fields, &0),
            cuts,
            samples_per_batch,
        }
    }

    fn place(&self, slot: BatchSlot, field: u32) -> usize {
        slot.at() * self.cuts.len() + field as usize
    }

    /// Row of a sample in the table.
    fn row(&self, slot: BatchSlot, field: u32, sample: u32) -> usize {
        self.place(slot, field) * self.samples_per_batch as usize + sample as usize
    }

    /// Every row of the batch in a slot is written: its sums are at nothing. How many pieces it is
    /// read in.
    pub fn begin(&mut self, slot: BatchSlot, samples: u32) -> u64 {
        for field in 0..self.cuts.len() as u32 {
            let place = self.place(slot, field);
            self.sums[place] = 0;
            if self.cuts[field as usize].parts > 1 {
                let row = self.row(slot, field, 0);
                (row..row + samples as usize).for_each(|row| self.table.write(row, 0));
            }
        }
        self.cuts.iter().map(|cut| cut.pieces(samples)).sum()
    }

    /// What a piece reads.
    pub fn part(&self, piece: &Piece) -> Part {
        let Piece { slot, samples, position, mut number, .. } = *piece;
        let mut field = 0;
        while number >= self.cuts[field].pieces(samples) {
            number -= self.cuts[field].pieces(samples);
            field += 1;
        }
        let cut = self.cuts[field];
        let (sample, part) = ((number / cut.parts) as u32 * cut.samples, number % cut.parts);
        let first = part * PIECE_BYTES;
        Part {
            slot,
            field: field as u32,
            sample,
            samples: cut.samples.min(samples - sample),
            first,
            bytes: match cut.parts {
                1 => cut.sample_bytes,
                _ => PIECE_BYTES.min(cut.sample_bytes - first),
            },
            sample_bytes: cut.sample_bytes,
            position,
            row: self.row(slot, field as u32, sample),
        }
    }

    /// What came of a part.
    pub fn end(&mut self, part: &Part, sum: u64) {
        if part.is_part() {
            self.table.write(part.row, self.table.read(part.row).wrapping_add(sum));
        } else {
            let place = self.place(part.slot, part.field);
            self.sums[place] = self.sums[place].wrapping_add(sum);
        }
    }

    /// The last piece is over: makes digests of samples that had several.
    pub fn close(&mut self, piece: &Piece) {
        for field in 0..self.cuts.len() as u32 {
            if self.cuts[field as usize].parts > 1 {
                self.close_field(piece, field);
            }
        }
    }

    fn close_field(&mut self, piece: &Piece, field: u32) {
        let (row, place) = (self.row(piece.slot, field, 0), self.place(piece.slot, field));
        let bytes = self.cuts[field as usize].sample_bytes;
        let mut sum = 0u64;
        for sample in 0..u64::from(piece.samples) {
            let row = row + sample as usize;
            let digest = digest(bytes, self.table.read(row));
            self.table.write(row, digest);
            sum = sum.wrapping_add(mix(piece.position + sample, digest));
        }
        self.sums[place] = sum;
    }

    /// The digests of a field of a batch, and their sum; None where they were not asked for.
    pub fn of(&self, slot: BatchSlot, field: u32, samples: u32) -> Option<(&'static [u64], u64)> {
        let sum = *self.sums.get(self.place(slot, field))?;
        Some((self.table.rows(self.row(slot, field, 0), samples as usize), sum))
    }

    /// The addresses of the sums.
    pub fn sums_span(&self) -> Range<usize> {
        span_of(&*self.sums)
    }
}
