//! The taps of a row of places: which of the row are inside, and where a strip of it reads.
//!
//! In: a map, a layout, which row. Out: offsets into the block and weights, strip by
//! strip. Invariant: every offset lies in the block of the hull. Coordinates of places inside
//! become offsets without a decision; each other place folds its own.

use super::layout::Layout;
use super::map::{AXES, FRACTION_BITS, Filter, Map, WEIGHT_BITS};
use crate::loops::resample::{STRIP, TAPS_MAX, Taps, weight_of};
use crate::loops::simd::{Level, strip_offsets, strip_weights};
use crate::records::PadMode;
use arrayvec::ArrayVec;
use core::ops::Range;

/// A bit of the offset of a voxel that is not in the array. Others fit below it.
const OUTSIDE: u32 = 1 << 31;

/// What the taps of a strip are.
pub(super) struct Strip {
    /// Of all taps, if all are inside; weights and counts in any case.
    pub(super) taps: Taps,
    /// Offsets of each tap by itself, if not.
    offsets: [[u32; STRIP]; TAPS_MAX],
    /// Whether all are inside.
    pub(super) is_inside: bool,
    /// By place: a bit for each tap that is not in the array.
    pub(super) outside: [u8; STRIP],
}

impl Strip {
    pub(super) fn new() -> Strip {
        Strip {
            taps: Taps::NONE,
            offsets: [[0; STRIP]; TAPS_MAX],
            is_inside: true,
            outside: [0; STRIP],
        }
    }

    /// Offsets of a tap, and what is added to each.
    pub(super) fn tap(&self, tap: usize) -> (&[u32], u32) {
        let count = self.taps.count;
        if self.is_inside {
            return (&self.taps.offsets[..count], self.taps.deltas[tap]);
        }
        (&self.offsets[tap][..count], 0)
    }

    /// Whether taps of some place are not in the array.
    pub(super) fn has_outside(&self) -> bool {
        !self.is_inside && self.outside[..self.taps.count].iter().any(|outside| *outside != 0)
    }

    /// Whether no tap of a place is in the array; only asked of strips that have such taps.
    pub(super) fn is_outside(&self, place: usize) -> bool {
        self.outside[place] == u8::MAX >> (TAPS_MAX - self.taps.number())
    }
}

/// A row of places along the last axis of the output.
pub(super) struct Line<'a> {
    map: &'a Map,
    layout: &'a Layout,
    /// Coordinates of its first place.
    first: [i64; AXES],
    /// What a place adds to them.
    step: [i64; AXES],
    /// The axes that have two taps, the innermost first. An axis whose weights are all 0 has one.
    lerped: ArrayVec<usize, AXES>,
}

impl<'a> Line<'a> {
    /// The row at a place of the first axis of the output and at one of the second.
    pub(super) fn new(map: &'a Map, layout: &'a Layout, (outer, inner): (u64, u64)) -> Line<'a> {
        let (outer, inner) = (outer as i64, inner as i64);
        let mut line = Line {
            map,
            layout,
            first: map.first,
            step: map.steps.map(|steps| steps[2]),
            lerped: ArrayVec::new(),
        };
        for axis in (0..AXES).rev() {
            // The sum is a coordinate and fits, so it does not matter if a part of it wraps.
            let [first, second, _] = map.steps[axis];
            let moved = first.wrapping_mul(outer).wrapping_add(second.wrapping_mul(inner));
            line.first[axis] = line.first[axis].wrapping_add(moved);
            let is_steady = line.step[axis] as u32 == 0;
            let has_weight = line.first[axis] as u32 >> (FRACTION_BITS - WEIGHT_BITS) != 0;
            if map.filter == Filter::Linear && (has_weight || !is_steady) {
                line.lerped.push(axis);
            }
        }
        line
    }

    /// The places whose taps are all in the hull, whatever their weights.
    pub(super) fn inside(&self) -> Range<u64> {
        let places = self.map.places[2];
        let mut inside = 0..places;
        for axis in 0..AXES {
            let taps = 1 + i64::from(self.lerped.contains(&axis));
            let limit = i128::from(self.map.hull[axis] - taps + 1) << FRACTION_BITS;
            let part = places_below(self.first[axis], self.step[axis], limit, places);
            inside = inside.start.max(part.start)..inside.end.min(part.end);
        }
        if inside.is_empty() { 0..0 } else { inside }
    }

    /// The taps of `count` places from `at` on, all of them inside or each by itself.
    pub(super) fn take(
        &self,
        level: Level,
        at: u64,
        count: usize,
        is_inside: bool,
        strip: &mut Strip,
    ) {
        let first: [i64; AXES] = core::array::from_fn(|axis| {
            self.first[axis].wrapping_add(self.step[axis].wrapping_mul(at as i64))
        });
        (strip.taps.axes, strip.taps.count, strip.is_inside) =
            (self.lerped.len(), count, is_inside);
        if !is_inside {
            return self.take_each(first, strip);
        }
        let (taps, stride) = (&mut strip.taps, &self.layout.source);
        strip_offsets(level, &first, &self.step, stride, &mut taps.offsets[..count]);
        for (number, axis) in self.lerped.iter().copied().enumerate() {
            let weights = &mut taps.weights[number][..count];
            strip_weights(level, first[axis], self.step[axis], weights);
        }
        for tap in 0..taps.number() {
            let upper = self.lerped.iter().enumerate().filter(|(bit, _)| tap >> bit & 1 == 1);
            taps.deltas[tap] = upper.map(|(_, axis)| stride[*axis]).sum();
        }
    }

    fn take_each(&self, first: [i64; AXES], strip: &mut Strip) {
        let count = strip.taps.count;
        // By axis: what the lower and the upper tap of each place add.
        let mut voxels = [[[0; STRIP]; 2]; AXES];
        for axis in 0..AXES {
            let number = self.lerped.iter().position(|lerped| *lerped == axis);
            let (hull, stride) = (self.map.hull[axis], self.layout.source[axis]);
            let [lower, upper] = &mut voxels[axis];
            let offset = |voxel: i64| {
                if voxel >= 0 && voxel < hull { voxel as u32 * stride } else { OUTSIDE }
            };
            let mut at = first[axis];
            for place in 0..count {
                let (voxel, weight) = self.folded(axis, at);
                lower[place] = offset(voxel);
                if let Some(number) = number {
                    upper[place] = offset(voxel + i64::from(weight > 0));
                    strip.taps.weights[number][place] = weight_of(weight);
                }
                at = at.wrapping_add(self.step[axis]);
            }
        }
        strip.outside[..count].fill(0);
        for tap in 0..strip.taps.number() {
            let chosen: [&[u32; STRIP]; AXES] = core::array::from_fn(|axis| {
                let number = self.lerped.iter().position(|lerped| *lerped == axis);
                &voxels[axis][number.map_or(0, |number| tap >> number & 1)]
            });
            let offsets = &mut strip.offsets[tap];
            for place in 0..count {
                let [first, second, third] = chosen.map(|offsets| offsets[place]);
                let is_outside = (first | second | third) & OUTSIDE != 0;
                strip.outside[place] |= u8::from(is_outside) << tap;
                let sum = first.wrapping_add(second).wrapping_add(third);
                offsets[place] = if is_outside { 0 } else { sum };
            }
        }
    }

    /// The lower voxel of a coordinate, and the weight of the upper one, as the pad mode
    /// folds them.
    fn folded(&self, axis: usize, at: i64) -> (i64, u32) {
        let on_grid = match self.map.filter {
            Filter::Nearest => at >> FRACTION_BITS << WEIGHT_BITS,
            Filter::Linear => at >> (FRACTION_BITS - WEIGHT_BITS),
        };
        let [low, high] = self.map.walls[axis].map(|wall| wall << WEIGHT_BITS);
        let folded = match self.map.pad {
            PadMode::Edge => on_grid.clamp(low, high),
            PadMode::Reflect if low == high => low,
            PadMode::Reflect => {
                let period = 2 * (high - low);
                let phase = (on_grid - low).rem_euclid(period);
                low + phase.min(period - phase)
            }
            PadMode::None | PadMode::Constant => on_grid,
        };
        (folded >> WEIGHT_BITS, folded as u32 & ((1 << WEIGHT_BITS) - 1))
    }
}

/// The numbers below `places` with `0 <= first + number * step < limit`.
fn places_below(first: i64, step: i64, limit: i128, places: u64) -> Range<u64> {
    let (first, step, count) = (i128::from(first), i128::from(step), i128::from(places));
    let is_inside = |at: i128| at >= 0 && at < limit;
    if is_inside(first) && is_inside(first + (count - 1) * step) {
        return 0..places;
    }
    let (from, to) = match step {
        0 => return 0..0,
        1.. => (-(first.div_euclid(step)), (limit - 1 - first).div_euclid(step) + 1),
        _ => ((limit - 1 - first).div_euclid(step), first.div_euclid(-step) + 1),
    };
    from.clamp(0, count) as u64..to.clamp(0, count) as u64
}
