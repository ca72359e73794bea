//! How voxels of a block and places of a target lie: one stride for each axis.
//!
//! In: a map, the axes of the array that it maps, extents of the others, strides of the target.
//! Out: a [`Layout`]. Invariant: numbers of voxels fit in 31 bits, so that offsets of taps do.

use super::map::{AXES, Map};
use crate::base::limits::RANK_MAX;
use arrayvec::ArrayVec;
use core::ops::Range;

/// An axis that is copied: it has as many places as voxels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Other {
    /// How many.
    pub places: u64,
    /// Elements of the block from one to the next.
    pub source: u64,
    /// Bytes of the target from one to the next.
    pub target: u64,
}

/// Where the voxels of a block lie, and where its places go.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Elements of the block from one voxel to the next, as the arrays of a map.
    pub source: [u32; AXES],
    /// Bytes of the target from one place to the next.
    pub target: [u64; AXES],
    /// The axes that are copied.
    pub others: ArrayVec<Other, RANK_MAX>,
    elements: u64,
}

impl Layout {
    /// The layout of one voxel and one place.
    pub const NONE: Layout =
        Layout { source: [0; AXES], target: [0; AXES], others: ArrayVec::new_const(), elements: 1 };

    /// The block is dense and row-major: along `axes[n]` of the array it has the hull of
    /// axis `n` of the map, along any other axis `extents` voxels. `target`: bytes from one
    /// place to the next along each axis of the array. None where the block has 2^31
    /// elements or more.
    pub fn new(map: &Map, axes: &[usize], extents: &[u64], target: &[u64]) -> Option<Layout> {
        assert!(axes.len() == map.rank());
        assert!(extents.len() <= RANK_MAX && extents.len() == target.len());
        let mut layout =
            Layout { source: [0; AXES], target: [0; AXES], others: ArrayVec::new(), elements: 1 };
        for array_axis in (0..extents.len()).rev() {
            let stride = layout.elements;
            let mapped = axes.iter().position(|axis| *axis == array_axis);
            let places = mapped.map_or(extents[array_axis], |axis| {
                let hull = map.hull(axis);
                hull.end - hull.start
            });
            match mapped {
                Some(axis) => {
                    layout.source[map.axis(axis)] = stride as u32;
                    layout.target[map.axis(axis)] = target[array_axis];
                }
                None if places == 1 => {}
                None => {
                    let other = Other { places, source: stride, target: target[array_axis] };
                    layout.others.push(other);
                }
            }
            layout.elements = stride.checked_mul(places).filter(|elements| *elements < 1 << 31)?;
        }
        Some(layout)
    }

    /// Elements of the block.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Calls `copy` for each combination of places in `ranges` on the axes that are copied: with
    /// its first voxel, and with the bytes to its first place from that of the first combination.
    pub(super) fn each_other(&self, ranges: &[Range<u64>], mut copy: impl FnMut(usize, u64)) {
        assert!(ranges.len() == self.others.len());
        let mut at = [0; RANK_MAX];
        let firsts = ranges.iter().zip(&self.others);
        let mut source = firsts.map(|(range, other)| range.start * other.source).sum::<u64>();
        let mut target = 0;
        if ranges.iter().any(Range::is_empty) {
            return;
        }
        // Ends: the counters count through all combinations once.
        loop {
            copy(source as usize, target);
            let mut axis = 0;
            loop {
                let Some(other) = self.others.get(axis) else { return };
                let places = ranges[axis].end - ranges[axis].start;
                at[axis] += 1;
                if at[axis] < places {
                    (source, target) = (source + other.source, target + other.target);
                    break;
                }
                source -= other.source * (places - 1);
                target -= other.target * (places - 1);
                (at[axis], axis) = (0, axis + 1);
            }
        }
    }
}
