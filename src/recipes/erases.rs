//! Recipes that overwrite a part of a picture.
//!
//! In: sizes, and the values that the part gets. Out: one more erased box of the augment, in places
//! of the field. Invariant: an erased box lies in the places that the box fills.

use super::fixed::{exp2, log2};
use super::{Misfit, Recipes, SPATIAL_MAX};
use crate::base::abi::{Blank, ERASES_MAX, Erase};

/// Places of a picture that random_erase takes at most.
const AREA_MAX: u64 = 1 << 48;
/// Sides differ by this factor at most.
const RATIO_MAX: f32 = 256.0;

/// The usual parts of a picture's area that random_erase takes.
pub const ERASE_SCALE: [f32; 2] = [0.02, 0.2];
/// The usual height over width.
pub const ERASE_RATIO: [f32; 2] = [0.3, 3.3];

/// Begin and end of an erased box, by axis of space, in places of the box.
type Span = [(u64, u64); SPATIAL_MAX];

impl Recipes<'_> {
    /// A cube of `size` places along each axis of space, its centre anywhere in the picture, cut at
    /// the picture's edges: [centre - size / 2, centre - size / 2 + size). Lane i: the centre along
    /// axis i. No values: 0.
    pub fn cutout(&mut self, name: &str, size: u64, values: &[f32]) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        let extents = self.check_erase(values)?;
        if size == 0 || self.field.n_spatial == 0 {
            return Err(Misfit::Number);
        }
        let mut span = Span::default();
        for (lane, (span, extent)) in (0..).zip(span.iter_mut().zip(extents)) {
            if extent > 0 {
                let centre = drawn.below(extent, lane);
                let end = centre.saturating_add(size - size / 2);
                *span = (centre.saturating_sub(size / 2), end.min(extent));
            }
        }
        self.erase(span, values)
    }

    /// A rectangle, with the probability `p`: its area is a part of the picture's between the two
    /// of `scale`, its height over its width between the two of `ratio` (by their logarithms), its
    /// sides rounded and cut to the picture's, its place anywhere. No values: 0. Lane 0: whether.
    /// 1: area. 2: ratio. 3, 4: begin along the two axes of space.
    pub fn random_erase(
        &mut self,
        name: &str,
        p: f32,
        scale: [f32; 2],
        ratio: [f32; 2],
        values: &[f32],
    ) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        let extents = self.check_erase(values)?;
        let ([low, high], [narrow, wide]) = (scale, ratio);
        let is_scale = low > 0.0 && low <= high && high <= 1.0;
        let is_ratio = narrow >= 1.0 / RATIO_MAX && narrow <= wide && wide <= RATIO_MAX;
        if !is_scale || !is_ratio || !(0.0..=1.0).contains(&p) {
            return Err(Misfit::Number);
        }
        let [height, width, 0] = extents else { return Err(Misfit::Field) };
        let area = height.checked_mul(width).filter(|area| *area > 0 && *area <= AREA_MAX);
        let area = area.ok_or(Misfit::Field)?;
        if !drawn.happens(p, 0) {
            return Ok(());
        }
        let between = |low: i64, high: i64, part: u64| {
            low + ((i128::from(high - low) * i128::from(part)) >> 32) as i64
        };
        let fraction = between(fixed(low, 24), fixed(high, 24), drawn.part(1));
        let [narrow, wide] = [narrow, wide].map(|ratio| log2(fixed(ratio, 32) as u64));
        let ratio = u128::from(exp2(between(narrow, wide, drawn.part(2))) >> 8).max(1);
        let area = u128::from(area) * fraction as u128;
        let side = |square: u128, most: u64| {
            let rounded = ((square.isqrt() + (1 << 23)) >> 24) as u64;
            rounded.min(most).max(1)
        };
        let sides = [side(area * ratio, height), side((area << 48) / ratio, width)];
        let mut span = Span::default();
        for (lane, axis) in (3..).zip(0..2) {
            let begin = drawn.below(extents[axis] - sides[axis] + 1, lane);
            span[axis] = (begin, begin + sides[axis]);
        }
        self.erase(span, values)
    }

    /// Whether one box more can be erased; the places along each axis of space.
    fn check_erase(&self, values: &[f32]) -> Result<[u64; SPATIAL_MAX], Misfit> {
        self.check_count(values.len())?;
        if !values.iter().all(|value| !value.is_nan()) {
            return Err(Misfit::Number);
        }
        if self.augment.n_erase as usize >= ERASES_MAX {
            return Err(Misfit::Room);
        }
        let mut extents = [0; SPATIAL_MAX];
        let pairs = self.field.pairs().ok_or(Misfit::Field)?;
        for (extent, (of_field, of_box)) in extents.iter_mut().zip(pairs) {
            *extent = self.places(of_box).ok_or(Misfit::Field)?;
            let end = self.target.at[of_field].checked_add(*extent);
            if end.is_none_or(|end| end > self.field.shape[of_field]) {
                return Err(Misfit::Field);
            }
        }
        Ok(extents)
    }

    /// Erases one box more, along other axes all of the field.
    fn erase(&mut self, span: Span, values: &[f32]) -> Result<(), Misfit> {
        let mut erase = Erase::BLANK;
        erase.end = self.field.shape;
        erase.end.iter_mut().skip(self.field.rank as usize).for_each(|end| *end = 0);
        for ((begin, end), (axis, _)) in span.iter().zip(self.field.pairs().ok_or(Misfit::Field)?) {
            erase.begin[axis] = self.target.at[axis] + begin;
            erase.end[axis] = self.target.at[axis] + end;
        }
        erase.n_values = values.len().max(1) as u32;
        let at = self.augment.n_erase as usize;
        let (Some(place), Some(list)) = (self.room.erase.get_mut(at), self.room.values.get_mut(at))
        else {
            return Err(Misfit::Room);
        };
        *place = erase;
        list.fill(0.0);
        list.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
        self.augment.n_erase += 1;
        self.widen(if values.len() > 1 { values.len() } else { 0 });
        self.point();
        Ok(())
    }
}

/// A number of 0 to 256 in multiples of 2^-bits, rounded down: exact in f64.
fn fixed(number: f32, bits: u32) -> i64 {
    (f64::from(number) * (1u64 << bits) as f64) as i64
}
