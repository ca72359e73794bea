//! Units as the bytes that the device reads.
//!
//! In: a record. Out: its bytes, field by field at the place that the C layout gives it, so that no
//! byte of padding, and no memory of another type, is looked at.

use super::units::{Folds, RECORD_BYTES, Unit};

/// Bytes of a record.
pub type Record = [u8; RECORD_BYTES];

/// A record of no work.
pub const NOTHING: Record = [0; RECORD_BYTES];

/// A field of a record.
pub(super) trait Field {
    /// Writes it to the front of `bytes`, in the machine's order.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, bytes: &mut [u8]) {
                bytes[..size_of::<$number>()].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

fields! { u8, u16, u32, u64 }

impl<T: Field, const N: usize> Field for [T; N] {
    fn put(&self, bytes: &mut [u8]) {
        self.iter().zip(bytes.chunks_mut(size_of::<T>())).for_each(|(each, at)| each.put(at));
    }
}

/// Writes a field at its place.
pub(super) fn put(record: &mut Record, at: usize, field: &impl Field) {
    field.put(&mut record[at..]);
}

impl Unit {
    /// Bytes that the unit writes at most.
    pub fn target_span(&self) -> u64 {
        self.elements * u64::from(self.target_bytes)
    }
}

/// The bytes of the record of folds.
pub fn folds_to_bytes(folds: &Folds) -> Record {
    let mut bytes = NOTHING;
    for (number, fold) in folds.iter().enumerate() {
        let words = [fold.begin as u64, fold.extent, fold.first, fold.limit];
        put(&mut bytes, number * size_of_val(fold), &words);
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
