//! Export: a batch as DLPack tensors, from records that were taken at open.
//!
//! In: the place and the type of a batch. Out: a record that a consumer in the same process holds
//! until it calls the record's deleter. Which records live is known by `batch`, under the lock;
//! this module fills them, and finds one again by its address.
//!
//! Invariant: the pointers in a record lead into the record itself and into its batch slot, and
//! none of it moves until close, which waits for every record that lives. A deleter's argument is
//! looked at as a number only, so that one that comes too late reads no memory.

pub use crate::batch::dlpack::{
    DEVICE_CPU, DEVICE_CUDA, DeleteLegacy, DeleteVersioned, DlDevice, DlManagedTensor,
    DlManagedTensorVersioned, DlTensor, FLAG_READ_ONLY, VERSION, data_type,
};

use crate::base::arena::{Carver, Region, Table};
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::limits::{RANK_MAX, TENSORS_PER_SLOT};
use crate::records::Dtype;
use core::iter::once;
use core::mem::offset_of;
use core::ops::Range;
use core::ptr::{self, NonNull};

/// Most axes of a tensor: samples, those of a sample, and the bytes of a raw element.
const AXES_MAX: usize = 1 + RANK_MAX + 1;

/// The memory of one exported tensor. It is filled in both forms, of which one is handed out.
#[derive(Clone, Copy)]
pub struct Record {
    versioned: DlManagedTensorVersioned,
    legacy: DlManagedTensor,
    shape: [i64; AXES_MAX],
    strides: [i64; AXES_MAX],
}

// SAFETY: the pointers in a record lead into memory that stays until close, and it is written only
// under the lock, while no tensor of it lives.
unsafe impl Send for Record {}

impl Record {
    const EMPTY: Record = {
        let tensor = DlTensor {
            data: ptr::null_mut(),
            device: DlDevice { device_type: DEVICE_CPU, device_id: 0 },
            ndim: 0,
            dtype: data_type(Dtype::U8),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        Record {
            versioned: DlManagedTensorVersioned {
                version: VERSION,
                manager_ctx: ptr::null_mut(),
                deleter: None,
                flags: 0,
                dl_tensor: tensor,
            },
            legacy: DlManagedTensor {
                dl_tensor: tensor,
                manager_ctx: ptr::null_mut(),
                deleter: None,
            },
            shape: [0; AXES_MAX],
            strides: [0; AXES_MAX],
        }
    };
}

/// The functions that end the life of a record, one for each form. They only hand the address on.
pub struct Deleters {
    /// That of the versioned form.
    pub versioned: DeleteVersioned,
    /// That of the legacy form.
    pub legacy: DeleteLegacy,
}

/// The memory and the shape of a tensor.
pub struct Source<'a> {
    /// The samples, packed.
    pub data: Region,
    /// Their device.
    pub device: DlDevice,
    /// How many.
    pub sample_count: u32,
    /// Extents of a sample.
    pub sample_shape: &'a [u64],
    /// Element type.
    pub dtype: Dtype,
    /// Bytes of an element.
    pub dtype_bytes: u32,
    /// Its memory cannot be written.
    pub is_read_only: bool,
}

/// An exported tensor in both forms. The deleter of one of them is to be called, once.
#[derive(Clone, Copy)]
pub struct Exported {
    /// For consumers of DLPack 1.0 and later.
    pub versioned: NonNull<DlManagedTensorVersioned>,
    /// For older ones.
    pub legacy: NonNull<DlManagedTensor>,
}

/// The records of all batch slots, slot by slot and field by field.
pub struct Exports {
    records: Table<Record>,
    fields: u32,
}

impl Exports {
    /// Records for `slots` batch slots of `fields` fields.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, slots: u32, fields: u32) -> Exports {
        let count = u64::from(slots * fields * TENSORS_PER_SLOT);
        Exports { records: carver.table(Item::TensorRecords, count, &Record::EMPTY), fields }
    }

    /// Fills record `number` of a field of a slot, which is the caller's until its deleter is
    /// called.
    pub fn fill(
        &self,
        (slot, field, number): (BatchSlot, u32, u32),
        source: &Source<'_>,
        deleters: &Deleters,
    ) -> Exported {
        assert!(field < self.fields && number < TENSORS_PER_SLOT);
        let position = ((slot.0 * self.fields + field) * TENSORS_PER_SLOT + number) as usize;
        let place = self.records.place(position);
        let mut record = Record::EMPTY;
        let dl_tensor = DlTensor {
            data: source.data.as_ptr().cast(),
            device: source.device,
            ndim: fill_axes(source, &mut record.shape, &mut record.strides) as i32,
            dtype: data_type(source.dtype),
            shape: place.as_ptr().wrapping_byte_add(offset_of!(Record, shape)).cast(),
            strides: place.as_ptr().wrapping_byte_add(offset_of!(Record, strides)).cast(),
            byte_offset: 0,
        };
        record.versioned.dl_tensor = dl_tensor;
        record.versioned.flags = if source.is_read_only { FLAG_READ_ONLY } else { 0 };
        record.versioned.deleter = Some(deleters.versioned);
        record.legacy.dl_tensor = dl_tensor;
        record.legacy.deleter = Some(deleters.legacy);
        self.records.write(position, record);
        let form = |offset: usize| place.map_addr(|start| start.saturating_add(offset));
        Exported {
            versioned: form(offset_of!(Record, versioned)).cast(),
            legacy: form(offset_of!(Record, legacy)).cast(),
        }
    }

    /// The addresses of the records of a slot.
    pub fn span(&self, slot: BatchSlot) -> Range<usize> {
        let count = (self.fields * TENSORS_PER_SLOT) as usize;
        self.records.span(slot.at() * count, count)
    }

    /// Slot, field and number of the record that a tensor at this address is the form of.
    pub fn find(&self, address: usize) -> Option<(BatchSlot, u32, u32)> {
        let offset = address.checked_sub(self.records.as_ptr() as usize)?;
        let (position, within) = (offset / size_of::<Record>(), offset % size_of::<Record>());
        let is_form =
            within == offset_of!(Record, versioned) || within == offset_of!(Record, legacy);
        if !is_form || position >= self.records.len() {
            return None;
        }
        let position = position as u32;
        let (place, number) = (position / TENSORS_PER_SLOT, position % TENSORS_PER_SLOT);
        Some((BatchSlot(place / self.fields), place % self.fields, number))
    }
}

/// Writes extents and strides of all axes, row-major; the number of axes.
///
/// Worked example: 3 samples of [4, 5] raw elements of 6 bytes: shape [3, 4, 5, 6], strides
/// [120, 30, 6, 1] bytes.
fn fill_axes(
    source: &Source<'_>,
    shape: &mut [i64; AXES_MAX],
    strides: &mut [i64; AXES_MAX],
) -> usize {
    let is_raw = source.dtype == Dtype::Raw;
    let extents = once(source.sample_count as u64)
        .chain(source.sample_shape.iter().copied())
        .chain(is_raw.then_some(source.dtype_bytes as u64));
    let mut axes = 0;
    for (target, extent) in shape.iter_mut().zip(extents) {
        *target = extent as i64;
        axes += 1;
    }
    assert!(axes == 1 + source.sample_shape.len() + is_raw as usize);
    // No product overflows: a batch has at most 16 TiB.
    let mut stride = 1;
    for axis in (0..axes).rev() {
        strides[axis] = stride;
        stride *= shape[axis];
    }
    axes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn axes(sample_shape: &[u64], dtype: Dtype, dtype_bytes: u32) -> (Vec<i64>, Vec<i64>) {
        let data = Carver::counting().region(Item::BatchSlots, 0);
        let device = DlDevice { device_type: DEVICE_CPU, device_id: 0 };
        let is_read_only = false;
        let source = Source {
            data,
            device,
            sample_count: 3,
            sample_shape,
            dtype,
            dtype_bytes,
            is_read_only,
        };
        let (mut shape, mut strides) = ([-1; AXES_MAX], [-1; AXES_MAX]);
        let count = fill_axes(&source, &mut shape, &mut strides);
        (shape[..count].to_vec(), strides[..count].to_vec())
    }

    #[test]
    fn strides_are_row_major_in_elements() {
        let expected = (Vec::from([3, 4, 5]), Vec::from([20, 5, 1]));
        assert_eq!(axes(&[4, 5], Dtype::F32, 4), expected);
    }

    #[test]
    fn a_raw_element_is_an_axis_of_its_bytes() {
        let expected = (Vec::from([3, 4, 5, 6]), Vec::from([120, 30, 6, 1]));
        assert_eq!(axes(&[4, 5], Dtype::Raw, 6), expected);
    }

    #[test]
    fn the_largest_rank_has_room() {
        let (shape, _) = axes(&[1; RANK_MAX], Dtype::Raw, 16);
        assert_eq!(shape.len(), AXES_MAX);
    }
}
