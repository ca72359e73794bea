//! Recipes that move a box: random crops and flips.
//!
//! In: a box of an array. Out: its begin, end and step along axes of space, and erased boxes where
//! they lie after a flip. Invariant: on refusal the box is as it was.

use super::{Misfit, PAD_CONSTANT, PAD_NONE, Recipes};
use crate::base::abi::Erase;

/// Elements [begin, end) of an axis, and the step between places.
type Reach = (i64, i64, i64);

impl Recipes<'_> {
    /// A random crop: `padding` places are added at both ends of each axis of space, and `extents`
    /// places of the result are kept, all begins equally likely. Lane i: the begin along axis i.
    ///
    /// Padding reads the elements next to the box, and pad_mode gives those outside of the array.
    pub fn crop(&mut self, name: &str, padding: u64, extents: &[u64]) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        let pads_early = padding > 0
            && (self.room.crops > 0
                || self.field.pad_mode == PAD_CONSTANT && self.has_arithmetic());
        if self.has_noise() || self.augment.n_erase > 0 || self.is_mapped() || pads_early {
            return Err(Misfit::Order);
        }
        if extents.len() != self.field.n_spatial as usize {
            return Err(Misfit::Number);
        }
        if padding > 0 && self.field.pad_mode == PAD_NONE {
            return Err(Misfit::Crop);
        }
        let mut cropped = [(0, 0, 0); super::SPATIAL_MAX];
        let pairs = self.field.pairs().ok_or(Misfit::Field)?;
        for (lane, ((_, axis), extent)) in (0..).zip(pairs.zip(extents)) {
            let (places, step) = (self.places(axis).ok_or(Misfit::Field)?, self.step(axis));
            let padded = padding.checked_mul(2).and_then(|both| both.checked_add(places));
            let room = padded.and_then(|padded| padded.checked_sub(*extent)).ok_or(Misfit::Crop)?;
            if *extent == 0 || (padding > 0 && step.unsigned_abs() != 1) {
                return Err(Misfit::Crop);
            }
            let begin = drawn.below(room + 1, lane);
            let part = self.part_of(axis, i128::from(begin) - i128::from(padding), *extent);
            cropped[lane as usize] = part.ok_or(Misfit::Number)?;
        }
        for ((_, axis), reach) in self.field.pairs().ok_or(Misfit::Field)?.zip(cropped) {
            self.move_to(axis, reach);
        }
        self.room.crops = self.room.crops.saturating_add(1);
        Ok(())
    }

    /// A flip with the probability `p` along an axis of space, by its number in
    /// [`super::Field::spatial`]. Lane 0: whether.
    pub fn flip(&mut self, name: &str, p: f32, axis: u32) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        let mut pairs = self.field.pairs().ok_or(Misfit::Field)?;
        let (of_field, of_box) = pairs.nth(axis as usize).ok_or(Misfit::Number)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Misfit::Number);
        }
        if self.has_noise() || self.is_mapped() {
            return Err(Misfit::Order);
        }
        if !drawn.happens(p, 0) {
            return Ok(());
        }
        let places = self.places(of_box).ok_or(Misfit::Field)?;
        let first = self.target.at[of_field];
        let limit = first.checked_add(places).ok_or(Misfit::Field)?;
        let flipped = self.flipped(of_box, places).ok_or(Misfit::Number)?;
        let count = self.augment.n_erase as usize;
        let erased = self.room.erase.get_mut(..count).ok_or(Misfit::Room)?;
        let is_inside = |erase: &Erase| {
            let (begin, end) = (erase.begin[of_field], erase.end[of_field]);
            first <= begin && begin <= end && end <= limit
        };
        if !erased.iter().all(is_inside) {
            return Err(Misfit::Field);
        }
        for erase in erased {
            let (begin, end) = (erase.begin[of_field], erase.end[of_field]);
            erase.begin[of_field] = first + (limit - end);
            erase.end[of_field] = first + (limit - begin);
        }
        self.move_to(of_box, flipped);
        Ok(())
    }

    /// The same places in the opposite order: the last element is read first.
    fn flipped(&self, axis: usize, places: u64) -> Option<Reach> {
        let (begin, end, step) = (self.target.begin[axis], self.target.end[axis], self.step(axis));
        let reach = i64::try_from(places - 1).ok()?.checked_mul(step.abs())?;
        if step > 0 {
            Some((begin, begin.checked_add(reach)?.checked_add(1)?, -step))
        } else {
            Some((end.checked_sub(1)?.checked_sub(reach)?, end, -step))
        }
    }

    /// `extent` places of an axis, from place `first` on, which may lie outside of the box.
    fn part_of(&self, axis: usize, first: i128, extent: u64) -> Option<Reach> {
        let step = self.step(axis);
        let along = |place: i128| i64::try_from(place * i128::from(step)).ok();
        let (to_first, reach) = (along(first)?, along(i128::from(extent - 1))?);
        if step > 0 {
            let begin = self.target.begin[axis].checked_add(to_first)?;
            Some((begin, begin.checked_add(reach)?.checked_add(1)?, step))
        } else {
            let end = self.target.end[axis].checked_add(to_first)?;
            Some((end.checked_sub(1)?.checked_add(reach)?, end, step))
        }
    }

    fn move_to(&mut self, axis: usize, (begin, end, step): Reach) {
        self.target.begin[axis] = begin;
        self.target.end[axis] = end;
        self.target.step[axis] = step;
    }
}
