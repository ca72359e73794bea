//! Arithmetic on the elements of a unit, as the device's assemble kernel reads it.
//!
//! In: the words of a box ([`crate::records::augment`]), its field. Out: records, which follow the
//! unit and its folds. Invariant: there is no address in them, and no place of a wave.
//!
//! ```text
//! words of the box | of each axis of the field: extent | first place that is changed | limit
//! ```
//!
//! A number of an axis takes two words. The axes are left out if it makes no difference along which
//! of them a place lies. kernels/augment.cuh reads the same.

use super::augment::Change;
use super::sample_box::SampleBox;
use super::wire::{NOTHING, Record, put};
use crate::base::limits::RANK_MAX;
use crate::records::{Augment, arithmetic_words};
use static_assertions::const_assert;

/// Words of a record.
const RECORD_WORDS: usize = size_of::<Record>() / size_of::<u32>();

/// Words of an axis.
const AXIS_WORDS: usize = 6;

/// Records that a unit of a box with so many words takes at most, if its field has `rank` axes.
pub const fn change_records(words: usize, rank: usize) -> u32 {
    (words + AXIS_WORDS * rank).div_ceil(RECORD_WORDS) as u32
}

// A unit has a byte for their number.
const_assert!(change_records(arithmetic_words(RANK_MAX), RANK_MAX) <= u8::MAX as u32);

/// The arithmetic on the elements of a unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UnitChange<'a> {
    augment: Augment<'a>,
    /// Extents of the field; none if no place differs from others.
    extents: &'a [u64],
    /// Places that are changed along each of its axes.
    ranges: [(u64, u64); RANK_MAX],
}

impl<'a> UnitChange<'a> {
    /// For a box and what is done to it. None if that is nothing: all of the box is padding, which
    /// is cast alone.
    pub fn new(change: &Change<'a>, sample: &SampleBox<'_>) -> Option<UnitChange<'a>> {
        let (augment, extents) = (change.augment(), change.extents());
        let mut ranges = [(0, u64::MAX); RANK_MAX];
        let is_cut = !augment.pad_goes_through() && sample.has_outside();
        if is_cut {
            ranges = sample.inside_ranges()?;
        }
        let differ = is_cut || augment.channels() > 1 || augment.erased().next().is_some();
        let extents = if differ { extents } else { &[] };
        Some(UnitChange { augment, extents, ranges })
    }

    /// Whether padding is changed too.
    pub fn pad_goes_through(&self) -> bool {
        self.augment.pad_goes_through()
    }

    /// Axes of the field that the words have.
    pub fn rank(&self) -> u8 {
        self.extents.len() as u8
    }

    /// Number of records.
    pub fn record_count(&self) -> u8 {
        change_records(self.augment.words().len(), self.extents.len()) as u8
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let axes = self.extents.iter().zip(self.ranges);
        let axes = axes.flat_map(|(extent, (first, limit))| [*extent, first, limit]);
        let axes = axes.flat_map(|number| [number as u32, (number >> 32) as u32]);
        let mut words = self.augment.words().iter().copied().chain(axes);
        (0..self.record_count()).map(move |_| {
            let mut record = NOTHING;
            for (number, word) in words.by_ref().take(RECORD_WORDS).enumerate() {
                put(&mut record, number * size_of::<u32>(), &word);
            }
            record
        })
    }
}
