//! A piece of a box with a map on its way to a device: its places side by side in the slab, in the
//! order in which they lie in the field, so that the unit that copies them has long rows.
//!
//! In: a part of an output, and how its places lie in the field. Out: the layout that it is
//! resampled with, the way back from a byte of the slab to that of the field, and a unit.
//!
//! Worked example: 2 x 30 places of three channels, f32; the field has the channels first, each of
//! 100 x 50 places. The layout steps 360, 12 and 4 bytes turn to 4 * 30 along rows, 4 along places
//! and 4 * 60 along channels. Byte 4 * 61 of the slab is place (0, 1) of channel 1.

use crate::assemble::block::{Block, BlockAxis};
use crate::assemble::units::copy_unit;
use crate::base::limits::RANK_MAX;
use crate::records::Dtype;
use crate::resample::{Layout, Part};
use crate::setup::fields::Field;
use crate::state::slab_writer::{SlabChunk, SlabWriter};
use arrayvec::ArrayVec;

/// See the module.
pub struct Packed {
    /// The layout, its places side by side.
    pub layout: Layout,
    block: Block,
    bytes: u64,
}

impl Packed {
    /// A part of an output, of elements of the field. `first`: byte of the field's sample that the
    /// part begins at.
    pub fn new(field: &Field, layout: &Layout, part: &Part, first: u64) -> Packed {
        let mut layout = layout.clone();
        let others = layout.others.iter_mut().map(|other| &mut other.target);
        let strides = layout.target.iter_mut().chain(others);
        let ranges = part.mapped.iter().chain(&part.others);
        // An axis of one place is none, so there are no more than the array has.
        let long = strides.zip(ranges.map(|range| range.end - range.start));
        let mut long: ArrayVec<_, RANK_MAX> = long.filter(|(_, length)| *length > 1).collect();
        long.sort_unstable_by_key(|(stride, _)| **stride);
        let mut bytes = u64::from(field.dtype_bytes);
        let axes = long.iter_mut().map(|(stride, length)| {
            let target_step = core::mem::replace(*stride, bytes);
            bytes *= *length;
            BlockAxis { length: *length, source_step: **stride as i64, target_step }
        });
        let mut axes: ArrayVec<BlockAxis, RANK_MAX> = axes.collect();
        axes.reverse();
        drop(long);
        Packed { layout, block: Block { axes, source: 0, target: first }, bytes }
    }

    /// The byte of the field's sample that a byte of the slab goes to.
    pub fn place(&self, byte: u64) -> u64 {
        let mut rest = byte;
        let steps = self.block.axes.iter().map(|axis| {
            let step = axis.source_step.unsigned_abs();
            let at = rest / step;
            rest %= step;
            at * axis.target_step
        });
        self.block.target + steps.sum::<u64>()
    }

    /// Takes room in a slab for the places, which are then to be written, and adds the unit that
    /// copies them to the sample at `address`.
    pub fn send(&self, slab: &mut SlabWriter, address: u64, field: &Field) -> SlabChunk {
        let chunk = slab.room(self.bytes);
        let element: (Dtype, u32) = (field.dtype, field.dtype_bytes);
        slab.push(&copy_unit(address, &self.block, (chunk.data, self.bytes), element));
        chunk
    }
}
