//! What no box of a sample covers of a field.
//!
//! In: the extents of the field, and the places that each box covers. Out: blocks of places that
//! none does. Invariant: blocks do not meet, and they and the boxes are the whole field.

use super::block::{Block, BlockAxis};
use crate::base::limits::{BOXES_MAX, RANK_MAX};

/// Blocks of a field of a sample that one task fills: the least slab has units for as many.
pub const BLANKS_MAX: u64 = 32;

/// First place along each axis, and the one behind the last.
pub type Corners = ([u64; RANK_MAX], [u64; RANK_MAX]);

/// Boxes of a sample, as bits.
type Set = [u64; BOXES_MAX as usize / 64 + 1];

/// A field whose boxes are looked at one axis after the other.
struct Search<'a> {
    extents: &'a [u64],
    strides: &'a [u64; RANK_MAX],
    corners: &'a dyn Fn(u32) -> Corners,
    each: &'a mut dyn FnMut(&Block),
    /// Places along the axes that are chosen so far.
    chosen: [(u64, u64); RANK_MAX],
}

/// Calls `each` for the blocks that none of the boxes below `count` covers; `corners` gives what a
/// box does, or nothing of this field. `strides` are the bytes from one element of the field to the
/// next along each axis.
pub fn for_each_blank(
    (extents, strides): (&[u64], &[u64; RANK_MAX]),
    count: u32,
    corners: &dyn Fn(u32) -> Option<Corners>,
    each: &mut dyn FnMut(&Block),
) {
    let mut all = Set::default();
    for number in (0..count).filter(|number| corners(*number).is_some()) {
        all[number as usize / 64] |= 1 << (number % 64);
    }
    let known = |number: u32| corners(number).unwrap_or(([0; RANK_MAX], [0; RANK_MAX]));
    let chosen = [(0, 0); RANK_MAX];
    let mut search = Search { extents, strides, corners: &known, each, chosen };
    if all == Set::default() {
        search.found(0);
    } else {
        search.look_along(0, &all);
    }
}

fn members(set: &Set) -> impl Iterator<Item = u32> {
    let set = *set;
    (0..BOXES_MAX).filter(move |number| set[*number as usize / 64] >> (number % 64) & 1 != 0)
}

impl Search<'_> {
    /// Cuts an axis where a box begins or ends, and looks at each piece. Ends: the axes are as many
    /// as the field has, and every piece has a place at least.
    fn look_along(&mut self, axis: usize, active: &Set) {
        let Some(extent) = self.extents.get(axis).copied() else { return };
        let mut first = 0;
        while first < extent {
            let (mut limit, mut here) = (extent, Set::default());
            for number in members(active) {
                let (low, high) = (self.corners)(number);
                for bound in [low[axis], high[axis]] {
                    limit = if bound > first { limit.min(bound) } else { limit };
                }
                if (low[axis]..high[axis]).contains(&first) {
                    here[number as usize / 64] |= 1 << (number % 64);
                }
            }
            self.chosen[axis] = (first, limit);
            if here == Set::default() {
                self.found(axis + 1);
            } else {
                self.look_along(axis + 1, &here);
            }
            first = limit;
        }
    }

    /// What is chosen along the first axes, and all along the others.
    fn found(&mut self, axes: usize) {
        let mut block = Block { axes: Default::default(), source: 0, target: 0 };
        for (axis, extent) in self.extents.iter().enumerate() {
            let (first, limit) = if axis < axes { self.chosen[axis] } else { (0, *extent) };
            block.target += first * self.strides[axis];
            let (length, target_step) = (limit - first, self.strides[axis]);
            block.axes.push(BlockAxis { length, source_step: 0, target_step });
        }
        (self.each)(&block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cache::hash_words;
    use std::vec::Vec;

    fn padded(values: &[u64]) -> [u64; RANK_MAX] {
        let mut array = [0; RANK_MAX];
        array[..values.len()].copy_from_slice(values);
        array
    }

    /// How often boxes and blanks write each element.
    fn written(extents: &[u64], boxes: &[Corners], others: u32) -> Vec<u32> {
        let mut strides = [0; RANK_MAX];
        let mut elements = 1;
        for axis in (0..extents.len()).rev() {
            strides[axis] = elements;
            elements *= extents[axis];
        }
        let mut counts = std::vec![0; elements as usize];
        let mut add = |block: &Block| {
            block.for_each_plane(1, &mut |plane| {
                for row in 0..plane.count {
                    let first = plane.target + row * plane.target_pitch;
                    (first..first + plane.length).for_each(|at| counts[at as usize] += 1);
                }
            });
        };
        for (low, high) in boxes {
            let axis = |axis: usize| BlockAxis {
                length: high[axis] - low[axis],
                source_step: 0,
                target_step: strides[axis],
            };
            let axes = (0..extents.len()).map(axis).collect();
            let target = (0..extents.len()).map(|axis| low[axis] * strides[axis]).sum();
            add(&Block { axes, source: 0, target });
        }
        let corners = |number: u32| boxes.get(number as usize).copied();
        for_each_blank((extents, &strides), boxes.len() as u32 + others, &corners, &mut add);
        counts
    }

    #[test]
    fn boxes_and_blanks_are_the_whole_field() {
        let mut state = 7u64;
        let mut random = |limit: u64| {
            state = hash_words(&[state]);
            state % limit
        };
        let mut several = 0;
        for _ in 0..600 {
            let extents: Vec<u64> = (0..1 + random(4)).map(|_| 1 + random(6)).collect();
            let mut boxes: Vec<Corners> = Vec::new();
            for _ in 0..random(9) {
                let low: Vec<u64> = extents.iter().map(|extent| random(*extent)).collect();
                let high: Vec<u64> =
                    low.iter().zip(&extents).map(|(low, e)| low + 1 + random(e - low)).collect();
                let new = (padded(&low), padded(&high));
                let meets = |other: &Corners| {
                    (0..extents.len()).all(|a| new.0[a] < other.1[a] && other.0[a] < new.1[a])
                };
                if !boxes.iter().any(meets) {
                    boxes.push(new);
                }
            }
            several += u32::from(boxes.len() > 1);
            let counts = written(&extents, &boxes, 3);
            assert!(counts.iter().all(|count| *count == 1), "{extents:?} {boxes:?} {counts:?}");
        }
        assert!(several > 100, "{several}");
    }

    #[test]
    fn a_scalar_that_no_box_covers_is_a_block_of_one() {
        assert_eq!(written(&[], &[], 0), [1]);
        assert_eq!(written(&[], &[(padded(&[]), padded(&[]))], 0), [1]);
        assert_eq!(written(&[5], &[], 255), [1; 5]);
    }
}
