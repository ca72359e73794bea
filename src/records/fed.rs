//! Arrays that the caller feeds: its memory, or a value that push copied.
//!
//! In: element type, shape, strides. Out: an [`ArrayRecord`] like that of any array, whose chunks
//! are parts of the memory that no format made; memory of a device is one chunk, because nobody
//! brings it there in parts. Invariant: strides are not negative: an axis that the caller counts
//! downwards is turned round, and so is every walk along it. A map leads to elements as the caller
//! counts them, so along its axes the voxels that it reads are turned.

use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::records::{ArrayRecord, ByteOrder, Dtype};
use static_assertions::const_assert;

/// Bytes of a value that push copies, at most.
pub const VALUE_BYTES: usize = 64;

/// Elements of a chunk have as many bytes, or less: enough for a job, and several for a large box.
const CHUNK_BYTES: u64 = 1 << 20;

/// Where the elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FedData {
    /// Nowhere: the array is one of a store.
    Nothing,
    /// In memory of the caller's, the first of them at this address.
    Memory(usize),
    /// In memory of a device.
    Device(DeviceMemory),
    /// Here, row-major.
    Value([u8; VALUE_BYTES]),
}

/// Elements in memory of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceMemory {
    /// Number of the device.
    pub device: i32,
    /// Address of the first element.
    pub address: u64,
    /// The caller's event behind which they are there; 0: they are.
    pub event: usize,
}

/// No memory has more bytes: the longest addresses that hardware translates have 57 bits. So a step
/// behind the last element, and sums of such, fit an i64.
const SPAN_MAX: u64 = 1 << 57;

/// An array that the caller feeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fed {
    /// Where its elements are.
    pub data: FedData,
    /// Element type.
    pub dtype: Dtype,
    /// Bytes of an element.
    pub dtype_bytes: u32,
    /// Number of axes.
    pub rank: u32,
    /// Their extents.
    pub shape: [u64; RANK_MAX],
    /// Bytes from one element to the next along each of them.
    pub strides: [u64; RANK_MAX],
    /// A bit for each axis that is turned round.
    pub turned: u32,
}

const_assert!(RANK_MAX <= 32);

impl Fed {
    /// An array of a store.
    pub const NOTHING: Fed = Fed {
        data: FedData::Nothing,
        dtype: Dtype::U8,
        dtype_bytes: 1,
        rank: 0,
        shape: [1; RANK_MAX],
        strides: [0; RANK_MAX],
        turned: 0,
    };

    /// Whether it is one.
    pub fn is_fed(&self) -> bool {
        self.data != FedData::Nothing
    }

    /// What is there of it in memory of a device.
    pub fn on_device(&self) -> Option<&DeviceMemory> {
        match &self.data {
            FedData::Device(memory) => Some(memory),
            _ => None,
        }
    }

    /// Whether there can be such memory at `address`; what is computed of its strides then fits.
    /// Distances along axes that nothing steps along become 0.
    pub fn settle(&mut self, address: u64) -> bool {
        for axis in 0..self.rank as usize {
            self.strides[axis] *= u64::from(self.shape[axis] > 1);
        }
        let has_none = self.shape[..self.rank as usize].contains(&0);
        let span = self.span().filter(|span| *span <= SPAN_MAX);
        has_none || span.is_some_and(|span| address.checked_add(span).is_some())
    }

    /// Whether what is computed of its extents fits. An extent of 0 counts as 1: strides of 0 keep
    /// any number of elements in a few bytes, and an extent of 0 in none.
    pub fn is_countable(&self) -> bool {
        let axes = &self.shape[..self.rank as usize];
        let more = |bytes: u64, extent: &u64| bytes.checked_mul((*extent).max(1));
        axes.iter().try_fold(u64::from(self.dtype_bytes), more).is_some()
    }

    /// Bytes from the first element to behind the last; None where that is more than memory has, or
    /// there is no element.
    pub fn span(&self) -> Option<u64> {
        let axes = 0..self.rank as usize;
        let reach = |bytes: u64, axis: usize| {
            let last = self.shape[axis].checked_sub(1)?.checked_mul(self.strides[axis])?;
            bytes.checked_add(last)
        };
        axes.into_iter().try_fold(u64::from(self.dtype_bytes), reach)
    }

    /// The record of an array in memory of a device: one chunk, of which nothing is staged.
    pub fn whole_record(&self) -> ArrayRecord {
        let mut record = self.record(0);
        for axis in 0..record.axes() {
            record.chunk_shape[axis] = self.shape[axis].max(1);
        }
        record.chunk_bytes = 0;
        record
    }

    /// The record of the array, in chunks of whose elements no more than `most` bytes are read: cut
    /// along the axes of the longest strides, so that each is as dense as the memory is.
    pub fn record(&self, most: u64) -> ArrayRecord {
        let rank = self.rank.max(1);
        let axes = rank as usize;
        let mut record = ArrayRecord {
            rank,
            is_scalar: self.rank == 0,
            dtype: self.dtype,
            dtype_bytes: self.dtype_bytes,
            byte_order: if cfg!(target_endian = "big") {
                ByteOrder::Big
            } else {
                ByteOrder::Little
            },
            shape: self.shape,
            fill: [0; ELEMENT_BYTES_MAX],
            ..ArrayRecord::EMPTY
        };
        let bytes = u64::from(self.dtype_bytes);
        let mut left = (most.min(CHUNK_BYTES) / bytes).max(1);
        record.chunk_bytes = bytes;
        let mut is_cut = [false; RANK_MAX];
        for _ in 0..axes {
            let open = (0..axes).filter(|axis| !is_cut[*axis]);
            // The innermost of equal ones, as in an array whose extents are 1.
            let Some(axis) = open.rev().min_by_key(|axis| self.strides[*axis]) else { break };
            is_cut[axis] = true;
            let extent = self.shape[axis].clamp(1, left);
            left /= extent;
            record.chunk_shape[axis] = extent;
            record.chunk_strides[axis] = self.strides[axis] as i64;
            record.chunk_bytes *= extent;
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(shape: &[u64], strides: &[u64]) -> Fed {
        let mut fed = Fed { dtype: Dtype::U16, dtype_bytes: 2, ..Fed::NOTHING };
        fed.rank = shape.len() as u32;
        fed.shape[..shape.len()].copy_from_slice(shape);
        fed.strides[..shape.len()].copy_from_slice(strides);
        fed
    }

    #[test]
    fn chunks_are_cut_along_the_longest_strides() {
        let record = fed(&[100, 10, 20], &[400, 40, 2]).record(2 * 700);
        assert_eq!(
            (record.chunk_shape[..3].to_vec(), record.chunk_bytes),
            ([3, 10, 20].into(), 1200)
        );
        // Transposed: the outer axes are the dense ones.
        let record = fed(&[20, 10, 100], &[2, 40, 400]).record(2 * 700);
        assert_eq!(record.chunk_shape[..3], [20, 10, 3]);
        let record = fed(&[100, 10, 20], &[400, 40, 2]).record(1);
        assert_eq!((record.chunk_shape[..3].to_vec(), record.chunk_bytes), ([1, 1, 1].into(), 2));
        let record = fed(&[1 << 40], &[2]).record(u64::MAX);
        assert_eq!(record.chunk_shape[0], CHUNK_BYTES / 2);
    }

    #[test]
    fn extents_are_countable_while_their_product_fits() {
        assert!(fed(&[1 << 31, 1 << 31, 1], &[0, 0, 2]).is_countable());
        assert!(!fed(&[1 << 31, 1 << 31, 2], &[0, 0, 2]).is_countable());
        assert!(fed(&[0, 1 << 31, 1 << 31], &[0, 0, 2]).is_countable());
        assert!(!fed(&[1 << 32, 1 << 31, 0], &[0, 0, 2]).is_countable());
    }

    #[test]
    fn a_span_that_no_memory_has_is_none() {
        assert_eq!(fed(&[3, 4], &[8, 2]).span(), Some(16 + 6 + 2));
        assert_eq!(fed(&[3, 4], &[0, 0]).span(), Some(2));
        assert_eq!(fed(&[3, 0], &[8, 2]).span(), None);
        assert_eq!(fed(&[1 << 40, 1 << 40], &[1 << 40, 1]).span(), None);
    }
}
