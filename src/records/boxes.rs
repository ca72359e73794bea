//! Boxes: which elements of an array are read, and where in a field of a sample they go.
//!
//! In: what push was given and checked. Out: the same in few words, for the queue and for batch
//! slots. Invariant: places are counted from 0 along each axis of a box, whichever way it is read,
//! and each goes to its own place of the field.

use crate::base::indexes::BatchSlot;
use crate::base::limits::RANK_MAX;

/// What lies outside the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PadMode {
    /// Nothing: a box must lie inside.
    None,
    /// A value; those places have no source.
    Constant,
    /// The nearest element.
    Edge,
    /// The mirror image, edge not repeated, reflected as often as it takes.
    Reflect,
}

/// Where elements go: to a sample in a field of the batch in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Batch slot.
    pub slot: BatchSlot,
    /// Field, below FIELDS_MAX.
    pub field: u32,
    /// Sample of the batch.
    pub sample: u32,
}

/// A box of a batch: of which sample it is, and what it reads.
#[derive(Clone, Copy, Debug)]
pub struct BoxRecord {
    /// Sample of the batch.
    pub sample: u32,
    /// Field.
    pub field: u32,
    /// It reads memory of a device.
    pub is_on_device: bool,
    /// Its elements are not cast alone.
    pub is_augmented: bool,
    /// A map says where its places lie in the array.
    pub is_resampled: bool,
    /// Boxes that are one of the caller's, from this one on; 0 of those after the first.
    pub runs: u32,
    /// What is read, and where it goes.
    pub shape: BoxShape,
}

impl BoxRecord {
    /// No box: it goes to no field.
    pub const EMPTY: BoxRecord = BoxRecord {
        sample: 0,
        field: u32::MAX,
        is_on_device: false,
        is_augmented: false,
        is_resampled: false,
        runs: 1,
        shape: BoxShape::EMPTY,
    };

    /// Where its elements go.
    pub fn to(&self, slot: BatchSlot) -> Destination {
        Destination { slot, field: self.field, sample: self.sample }
    }
}

/// What of an array is read, and where in a field it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoxShape {
    /// The element of the field, counted row-major, that the first place goes to; of a box that
    /// is read into memory of a caller the place, and once its array is known the byte of that.
    pub at: u64,
    /// By axis of the array.
    pub axes: [AxisWalk; RANK_MAX],
}

impl BoxShape {
    /// One element, of an array of any rank.
    pub const EMPTY: BoxShape = BoxShape { at: 0, axes: [AxisWalk::ONE; RANK_MAX] };

    /// The half-open box, each of its axes in the order of the field's.
    pub fn forward(begin: &[i64], end: &[i64]) -> BoxShape {
        let mut shape = BoxShape::EMPTY;
        for (axis, (begin, end)) in begin.iter().zip(end).enumerate() {
            let walk = AxisWalk::of(*begin, *end, 1).unwrap_or(AxisWalk::ONE);
            shape.axes[axis] = walk.to_axis(Some(axis));
        }
        shape
    }

    /// Bytes from one element to the next along each axis of a field that is all this box.
    #[cfg(any(test, feature = "internals"))]
    pub fn strides(&self, rank: usize, element_bytes: u32) -> [u64; RANK_MAX] {
        let mut strides = [0; RANK_MAX];
        let mut stride = u64::from(element_bytes);
        for axis in (0..rank).rev() {
            strides[axis] = stride;
            stride *= self.axes[axis].places();
        }
        strides
    }
}

/// The places of a box in a caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct CallerPlaces {
    /// Places along each axis of the box.
    pub places: [u64; RANK_MAX],
    /// Bytes from one place to the next along each axis of the box.
    pub strides: [u64; RANK_MAX],
    /// Along these axes the last place is the lowest one of the memory.
    pub is_turned: [bool; RANK_MAX],
    /// They lie row by row; strides are not known before the array is.
    pub is_row_major: bool,
    /// Bytes from the lowest place on that may be written.
    pub bytes: u64,
}

impl CallerPlaces {
    /// No place.
    pub const EMPTY: CallerPlaces = CallerPlaces {
        places: [1; RANK_MAX],
        strides: [0; RANK_MAX],
        is_turned: [false; RANK_MAX],
        is_row_major: false,
        bytes: 0,
    };
}

/// Why no walk along an axis can be made of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkFault {
    /// The end does not lie behind the begin.
    Empty,
    /// More places than any batch has.
    Long,
    /// The step is longer than [`STEP_MAX`], or more than [`STEPPED_MAX`] places are stepped to.
    Step,
}

/// Longest step over more than one element.
pub const STEP_MAX: u64 = (1 << STEP_BITS) - 1;

/// Most places along an axis that is read in steps of more than one element.
pub const STEPPED_MAX: u64 = (1 << STEPPED_BITS) - 1;

/// Most places along an axis: a batch slot has 2^44 bytes at most.
pub const PLACES_MAX: u64 = (1 << 44) - 1;

/// The places along one axis of a box: place `p` reads element `first + p * step` of the array.
///
/// The word beside `first` holds, from its highest bit on: whether there is a step of more than 1,
/// whether the walk goes backwards, the axis of the field (5 bits: 0 for none, else one more), and
/// the number of places; or, with a step, its length and the number of places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisWalk {
    first: i64,
    word: u64,
}

const STEPPED: u64 = 1 << 63;
const BACKWARDS: u64 = 1 << 62;
const TO_SHIFT: u32 = 57;
const TO_MASK: u64 = 31 << TO_SHIFT;
const STEP_BITS: u32 = 29;
const STEPPED_BITS: u32 = 28;
const COUNT_MASK: u64 = (1 << TO_SHIFT) - 1;

impl AxisWalk {
    /// Element 0 alone, to no axis.
    pub const ONE: AxisWalk = AxisWalk { first: 0, word: 1 };

    /// The places of `begin <= i < end` in steps of `step`, not 0: from `begin` on, or from
    /// `end - 1` back where it is negative.
    pub fn of(begin: i64, end: i64, step: i64) -> Result<AxisWalk, WalkFault> {
        if end <= begin {
            return Err(WalkFault::Empty);
        }
        let length = step.unsigned_abs();
        let places = end.abs_diff(begin).div_ceil(length);
        let first = if step < 0 { end - 1 } else { begin };
        // A step to nowhere is no step.
        let length = if places == 1 { 1 } else { length };
        let back = if step < 0 { BACKWARDS } else { 0 };
        let word = match length {
            _ if places > PLACES_MAX => return Err(WalkFault::Long),
            1 => places,
            _ if length > STEP_MAX || places > STEPPED_MAX => return Err(WalkFault::Step),
            _ => STEPPED | length << STEPPED_BITS | places,
        };
        Ok(AxisWalk { first, word: word | back })
    }

    /// The same, to an axis of the field, or to none: then it has one place.
    pub fn to_axis(self, axis: Option<usize>) -> AxisWalk {
        assert!(axis.map_or(self.places() == 1, |axis| axis < RANK_MAX));
        let to = axis.map_or(0, |axis| axis as u64 + 1);
        AxisWalk { word: self.word & !TO_MASK | to << TO_SHIFT, ..self }
    }

    /// The same places from the last to the first.
    pub fn reversed(self) -> AxisWalk {
        let (step, is_back) = self.step();
        let reach = ((self.places() - 1) * step) as i64;
        let first = if is_back { self.first - reach } else { self.first + reach };
        AxisWalk { first, word: self.word ^ BACKWARDS }
    }

    /// Number of places, at least 1.
    pub fn places(&self) -> u64 {
        let mask = if self.word & STEPPED == 0 { COUNT_MASK } else { STEPPED_MAX };
        self.word & mask
    }

    /// Elements from one place to the next, at least 1; and whether backwards.
    pub fn step(&self) -> (u64, bool) {
        let length = match self.word & STEPPED {
            0 => 1,
            _ => self.word >> STEPPED_BITS & STEP_MAX,
        };
        (length, self.word & BACKWARDS != 0)
    }

    /// The axis of the field.
    pub fn to(&self) -> Option<usize> {
        (self.word >> TO_SHIFT & 31).checked_sub(1).map(|axis| axis as usize)
    }

    /// The least element that is read, and the one behind the greatest.
    pub fn range(&self) -> (i64, i64) {
        let (step, is_back) = self.step();
        // Both lie between the begin and the end that it was made of.
        let reach = ((self.places() - 1) * step) as i64;
        match is_back {
            false => (self.first, self.first + reach + 1),
            true => (self.first - reach, self.first + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The elements that a walk reads, place by place.
    fn elements(walk: AxisWalk) -> Vec<i64> {
        let (step, is_back) = walk.step();
        let step = if is_back { -(step as i64) } else { step as i64 };
        (0..walk.places() as i64).map(|place| walk.first + place * step).collect()
    }

    #[test]
    fn a_walk_reads_what_a_slice_of_numpy_reads() {
        let of = |begin, end, step| elements(AxisWalk::of(begin, end, step).unwrap());
        assert_eq!(of(2, 7, 1), [2, 3, 4, 5, 6]);
        assert_eq!(of(2, 7, -1), [6, 5, 4, 3, 2]);
        assert_eq!(of(2, 7, 2), [2, 4, 6]);
        assert_eq!(of(2, 7, -2), [6, 4, 2]);
        assert_eq!(of(2, 7, 3), [2, 5]);
        assert_eq!(of(-3, 2, -3), [1, -2]);
        assert_eq!(of(2, 7, 9), [2]);
        assert_eq!(of(2, 7, i64::MIN), [6]);
        assert_eq!(of(i64::MAX - 1, i64::MAX, 1), [i64::MAX - 1]);
    }

    #[test]
    fn a_walk_turned_round_reads_the_same_from_its_end() {
        for (begin, end, step) in [(2, 7, 1), (2, 8, 2), (-3, 9, -5), (4, 5, 1), (0, 9, -1)] {
            let walk = AxisWalk::of(begin, end, step).unwrap();
            let mut turned = elements(walk.reversed());
            turned.reverse();
            assert_eq!(turned, elements(walk), "[{begin}, {end}) by {step}");
            assert_eq!(walk.reversed().range(), walk.range());
        }
    }

    #[test]
    fn the_range_of_a_walk_is_the_hull_of_its_elements() {
        for (begin, end) in [(0, 1), (-4, 9), (3, 20)] {
            for step in [1, -1, 2, -2, 3, -5, 7, -30] {
                let walk = AxisWalk::of(begin, end, step).unwrap();
                let read = elements(walk);
                let hull = (*read.iter().min().unwrap(), read.iter().max().unwrap() + 1);
                assert_eq!(walk.range(), hull, "[{begin}, {end}) by {step}");
            }
        }
    }

    #[test]
    fn the_axis_of_the_field_is_kept_beside_any_step() {
        for (end, step) in [(1 << 40, 1), (1 << 40, -1), (1 << 50, 1 << 28), (9, -4)] {
            let walk = AxisWalk::of(0, end, step).unwrap();
            for axis in 0..RANK_MAX {
                let placed = walk.to_axis(Some(axis));
                assert_eq!((placed.to(), placed.places()), (Some(axis), walk.places()));
                assert_eq!((placed.step(), placed.range()), (walk.step(), walk.range()));
            }
        }
        assert_eq!(AxisWalk::ONE.to_axis(Some(3)).to_axis(None), AxisWalk::ONE);
    }

    #[test]
    fn what_no_word_holds_is_refused() {
        assert_eq!(AxisWalk::of(4, 4, 1), Err(WalkFault::Empty));
        assert_eq!(AxisWalk::of(4, 3, -1), Err(WalkFault::Empty));
        assert_eq!(AxisWalk::of(i64::MIN, i64::MAX, 1), Err(WalkFault::Long));
        assert!(AxisWalk::of(0, PLACES_MAX as i64, 1).is_ok());
        let (step, places) = (STEP_MAX as i64, STEPPED_MAX as i64);
        assert!(AxisWalk::of(0, step * places, step).is_ok());
        assert_eq!(AxisWalk::of(0, step * places + 1, step), Err(WalkFault::Step));
        assert_eq!(AxisWalk::of(0, step + 2, step + 1), Err(WalkFault::Step));
    }
}
