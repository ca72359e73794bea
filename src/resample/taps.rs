//! The taps of a row of places: which of the row are inside, and where a strip of it reads.
//!
//! In: a map, a layout, the number of a row. Out: offsets into the block and weights, strip by
//! strip. Invariant: every offset lies in the block of the hull. Inside, coordinates become offsets
//! without a decision; elsewhere each place folds its own.

use super::layout::Layout;
use super::map::{AXES, FRACTION_BITS, Filter, Map, WEIGHT_BITS};
use crate::loops::resample::{STRIP, TAPS_MAX, Weights, weight_of};
use crate::loops::simd::{Level, strip_offsets, strip_weights};
use crate::records::PadMode;
use arrayvec::ArrayVec;
use core::ops::Range;

/// A voxel that is not in the array.
const OUTSIDE: u32 = u32::MAX;

/// What the taps of a strip are.
pub(super) struct Strip {
    /// Offsets of each tap, of one place after the other, in elements. Inside, those of the first.
    offsets: [[u32; STRIP]; TAPS_MAX],
    /// What lies between the first tap and each.
    deltas: [u32; TAPS_MAX],
    /// Whether the first tap has the offsets of all.
    is_inside: bool,
    /// By axis that is lerped.
    pub(super) weights: Weights,
    /// By place: a bit for each tap that is not in the array.
    pub(super) outside: [u8; STRIP],
    /// Number of places.
    pub(super) count: usize,
    /// Number of taps of each.
    pub(super) taps: usize,
}

impl Strip {
    pub(super) fn new() -> Strip {
        Strip {
            offsets: [[0; STRIP]; TAPS_MAX],
            deltas: [0; TAPS_MAX],
            is_inside: true,
            weights: [[0.0; STRIP]; AXES],
            outside: [0; STRIP],
            count: 0,
            taps: 1,
        }
    }

    /// Offsets of a tap, and what is added to each.
    pub(super) fn tap(&self, tap: usize) -> (&[u32], u32) {
        let row = if self.is_inside { 0 } else { tap };
        (&self.offsets[row][..self.count], self.deltas[tap])
    }

    /// Whether taps of some place are not in the array.
    pub(super) fn has_outside(&self) -> bool {
        !self.is_inside && self.outside[..self.count].iter().any(|outside| *outside != 0)
    }

    /// Whether no tap of a place is in the array; only asked of strips that have such taps.
    pub(super) fn is_outside(&self, place: usize) -> bool {
        self.outside[place] == u8::MAX >> (TAPS_MAX - self.taps)
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
    /// Row `row` of the output, counted row-major.
    pub(super) fn new(map: &'a Map, layout: &'a Layout, row: u64) -> Line<'a> {
        let (outer, inner) = ((row / map.places[1]) as i64, (row % map.places[1]) as i64);
        let mut line = Line {
            map,
            layout,
            first: map.first,
            step: map.steps.map(|steps| steps[2]),
            lerped: ArrayVec::new(),
        };
        for axis in (0..AXES).rev() {
            // What is left after all sums fits, so it does not matter if one wraps.
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

    /// Number of axes with two taps.
    pub(super) fn axes(&self) -> usize {
        self.lerped.len()
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
        (strip.count, strip.taps, strip.is_inside) = (count, 1 << self.axes(), is_inside);
        if !is_inside {
            return self.take_each(first, strip);
        }
        strip_offsets(
            level,
            &first,
            &self.step,
            &self.layout.source,
            &mut strip.offsets[0][..count],
        );
        for (number, axis) in self.lerped.iter().copied().enumerate() {
            let weights = &mut strip.weights[number][..count];
            strip_weights(level, first[axis], self.step[axis], weights);
        }
        for tap in 0..strip.taps {
            let upper = self.lerped.iter().enumerate().filter(|(bit, _)| tap >> bit & 1 == 1);
            strip.deltas[tap] = upper.map(|(_, axis)| self.layout.source[*axis]).sum();
        }
    }

    fn take_each(&self, first: [i64; AXES], strip: &mut Strip) {
        strip.deltas = [0; TAPS_MAX];
        for place in 0..strip.count {
            // By axis: what the lower and the upper tap add.
            let mut voxels = [[0; 2]; AXES];
            for axis in 0..AXES {
                let moved = self.step[axis].wrapping_mul(place as i64);
                let (at, weight) = self.folded(axis, first[axis].wrapping_add(moved));
                voxels[axis] = [at, at + i64::from(weight > 0)].map(|voxel| {
                    let is_inside = voxel >= 0 && voxel < self.map.hull[axis];
                    if is_inside { voxel as u32 * self.layout.source[axis] } else { OUTSIDE }
                });
                if let Some(number) = self.lerped.iter().position(|lerped| *lerped == axis) {
                    strip.weights[number][place] = weight_of(weight);
                }
            }
            strip.outside[place] = 0;
            for tap in 0..strip.taps {
                let is_upper = |axis: usize| {
                    self.lerped
                        .iter()
                        .position(|lerped| *lerped == axis)
                        .is_some_and(|bit| tap >> bit & 1 == 1)
                };
                let chosen: [u32; AXES] =
                    core::array::from_fn(|axis| voxels[axis][usize::from(is_upper(axis))]);
                let is_outside = chosen.contains(&OUTSIDE);
                strip.outside[place] |= u8::from(is_outside) << tap;
                strip.offsets[tap][place] = if is_outside { 0 } else { chosen.iter().sum() };
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
