//! Units as the bytes that the device reads.
//!
//! In: a record. Out: its bytes, field by field at the place that the C layout gives it, so that no
//! byte of padding, and no memory of another type, is looked at.

use super::units::{Folds, RECORD_BYTES, Unit, UnitAxis};
use core::mem::offset_of;

/// Bytes of a record.
pub type Record = [u8; RECORD_BYTES];

/// A record of no work.
pub const NOTHING: Record = [0; RECORD_BYTES];

macro_rules! put {
    ($bytes:ident, $at:expr, $($value:expr),+) => {{
        let mut at = $at;
        $(
            let value = $value.to_ne_bytes();
            $bytes[at..at + value.len()].copy_from_slice(&value);
            at += value.len();
        )+
        assert!(at <= $bytes.len());
    }};
}

impl Unit {
    /// The bytes of the unit.
    pub fn to_bytes(self) -> Record {
        let mut bytes = NOTHING;
        put!(bytes, offset_of!(Unit, data), self.data, self.data_first, self.data_bytes);
        put!(bytes, offset_of!(Unit, source), self.source, self.target, self.elements);
        put!(bytes, offset_of!(Unit, chunk_bytes), self.chunk_bytes);
        put!(bytes, offset_of!(Unit, filter_block_bytes), self.filter_block_bytes);
        put!(bytes, offset_of!(Unit, filter_typesize), self.filter_typesize);
        put!(bytes, offset_of!(Unit, filter), self.filter, self.axis_count);
        put!(bytes, offset_of!(Unit, source_dtype), self.source_dtype, self.target_dtype);
        put!(bytes, offset_of!(Unit, source_bytes), self.source_bytes, self.target_bytes);
        put!(bytes, offset_of!(Unit, word_bytes), self.word_bytes, self.is_fill);
        put!(bytes, offset_of!(Unit, folded), self.folded);
        put!(bytes, offset_of!(Unit, reflects), self.reflects, self.path, self.vector_elements);
        bytes[offset_of!(Unit, fill)..][..self.fill.len()].copy_from_slice(&self.fill);
        put!(bytes, offset_of!(Unit, row_vectors), self.row_vectors);
        for (number, axis) in self.axes.iter().take(usize::from(self.axis_count)).enumerate() {
            let at = offset_of!(Unit, axes) + number * size_of::<UnitAxis>();
            put!(bytes, at, axis.length, axis.source_step, axis.target_step);
        }
        bytes
    }

    /// Bytes that the unit writes at most.
    pub fn target_span(&self) -> u64 {
        self.elements * u64::from(self.target_bytes)
    }
}

/// The bytes of the record of folds.
pub fn folds_to_bytes(folds: &Folds) -> Record {
    let mut bytes = NOTHING;
    for (number, fold) in folds.iter().enumerate() {
        put!(bytes, number * size_of_val(fold), fold.begin, fold.extent, fold.first, fold.limit);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::units::{Fold, failed_unit};

    #[test]
    fn a_unit_in_bytes_is_the_unit_in_memory() {
        let mut unit = failed_unit(0x1234_5678_9ABC_DEF0, 4096, &[7; 16], 4);
        unit.folded = 0x8001;
        unit.axis_count = 16;
        for (number, axis) in unit.axes.iter_mut().enumerate() {
            let number = number as u64 + 1;
            (axis.length, axis.source_step) = (number << 33, -(number as i64));
            axis.target_step = number << 40;
        }
        // SAFETY: the struct has no padding: its fields fill its bytes.
        let expected = unsafe { core::mem::transmute::<Unit, Record>(unit) };
        assert_eq!(unit.to_bytes(), expected);
    }

    #[test]
    fn folds_in_bytes_are_the_folds_in_memory() {
        let fold = |n: u64| Fold { begin: -(n as i64), extent: n << 34, first: n, limit: n << 9 };
        let folds: Folds = core::array::from_fn(|axis| fold(axis as u64 + 1));
        // SAFETY: the folds have no padding: four words of eight bytes each.
        let expected = unsafe { core::mem::transmute::<Folds, Record>(folds) };
        assert_eq!(folds_to_bytes(&folds), expected);
    }
}
