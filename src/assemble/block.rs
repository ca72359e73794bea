//! A rectangular copy between two strided layouts, cut into planes of the longest rows that there
//! are.
//!
//! In: extents and the distances of both sides along each axis. Out: one call per plane, whose rows
//! are contiguous in the target. Invariant: the rows are disjoint and cover the block exactly; axes
//! that lie seamlessly in both layouts become one, so a plane or a whole chunk can be one row.

use crate::base::limits::RANK_MAX;
use arrayvec::ArrayVec;

/// One axis of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockAxis {
    /// Number of elements, at least 1.
    pub length: u64,
    /// Bytes from one element to the next in the source; negative or 0 where padding asks for it.
    pub source_step: i64,
    /// Bytes from one element to the next in the target.
    pub target_step: u64,
}

impl BlockAxis {
    /// Whether its elements follow those of the axis `inner` seamlessly on both sides.
    pub fn continues(&self, inner: &BlockAxis) -> bool {
        self.target_step == inner.target_step * inner.length
            && self.source_step == inner.source_step * inner.length as i64
    }
}

/// A block, outermost axis first.
#[derive(Clone, Debug)]
pub struct Block {
    /// Axes of the array.
    pub axes: ArrayVec<BlockAxis, RANK_MAX>,
    /// First byte of the first element in the source.
    pub source: u64,
    /// First byte of the first element in the target.
    pub target: u64,
}

/// Equal rows at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPlane {
    /// First byte of the first element in the source.
    pub source: u64,
    /// First byte of the first element in the target.
    pub target: u64,
    /// Elements of a row, side by side in the target.
    pub length: u64,
    /// Bytes from one element of a row to the next in the source.
    pub source_step: i64,
    /// Number of rows.
    pub count: u64,
    /// Bytes from one row to the next in the source.
    pub source_pitch: i64,
    /// Bytes from one row to the next in the target.
    pub target_pitch: u64,
}

impl Block {
    /// Number of elements.
    pub fn element_count(&self) -> u64 {
        self.axes.iter().map(|axis| axis.length).product()
    }

    /// Calls `each` for every plane. Elements of the target have `target_bytes` bytes.
    pub fn for_each_plane(&self, target_bytes: u64, each: &mut dyn FnMut(&BlockPlane)) {
        let (mut plane, outer) = self.first_plane(target_bytes);
        let mut at = [0u64; RANK_MAX];
        let mut source = self.source as i64;
        // One turn per plane: the product of the outer lengths.
        loop {
            plane.source = source as u64;
            each(&plane);
            let mut axis = 0;
            loop {
                let Some(BlockAxis { length, source_step, target_step }) = outer.get(axis) else {
                    return;
                };
                at[axis] += 1;
                source += source_step;
                plane.target += target_step;
                if at[axis] < *length {
                    break;
                }
                at[axis] = 0;
                source -= source_step * *length as i64;
                plane.target -= target_step * length;
                axis += 1;
            }
        }
    }

    /// The axes of more than one element, innermost first, seamless neighbours as one. Those in
    /// `apart` (bit `i` is `axes[i]`) stay as they are; the second result says which they are now.
    pub fn collapsed(&self, apart: u16) -> (ArrayVec<BlockAxis, RANK_MAX>, u16) {
        let mut axes = ArrayVec::<BlockAxis, RANK_MAX>::new();
        let mut apart_now = 0u16;
        for (number, axis) in self.axes.iter().enumerate().rev() {
            let is_apart = apart >> number & 1 != 0;
            if axis.length == 1 && !is_apart {
                continue;
            }
            let is_inner_apart = u32::from(apart_now) << 1 >> axes.len() & 1 != 0;
            match axes.last_mut() {
                Some(inner) if !is_apart && !is_inner_apart && axis.continues(inner) => {
                    inner.length *= axis.length;
                }
                _ => {
                    apart_now |= u16::from(is_apart) << axes.len();
                    axes.push(*axis);
                }
            }
        }
        (axes, apart_now)
    }

    /// The first plane, and the axes across planes, in any order.
    fn first_plane(&self, target_bytes: u64) -> (BlockPlane, ArrayVec<BlockAxis, RANK_MAX>) {
        let mut row = BlockAxis { length: 1, source_step: 0, target_step: target_bytes };
        let (mut outer, _) = self.collapsed(0);
        if outer.first().is_some_and(|axis| axis.target_step == target_bytes) {
            row = outer.remove(0);
        }
        let one = BlockAxis { length: 1, source_step: 0, target_step: 0 };
        let across = outer.pop_at(across_place(&row, &outer)).unwrap_or(one);
        let plane = BlockPlane {
            source: self.source,
            target: self.target,
            length: row.length,
            source_step: row.source_step,
            count: across.length,
            source_pitch: across.source_step,
            target_pitch: across.target_step,
        };
        (plane, outer)
    }
}

/// Which of the axes across rows goes with the row: the next one out, whose rows follow each other
/// in both layouts; but where the row strides through the source, as in a transposed chunk, the
/// axis of the shortest source step, so that the rows of a plane use the same cache lines.
fn across_place(row: &BlockAxis, outer: &[BlockAxis]) -> usize {
    let step = |axis: &BlockAxis| axis.source_step.unsigned_abs();
    let shorter = outer.iter().enumerate().filter(|(_, axis)| (1..step(row)).contains(&step(axis)));
    shorter.min_by_key(|(_, axis)| step(axis)).map_or(0, |(at, _)| at)
}
