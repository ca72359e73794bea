//! Levels of an image under an affine map: where the voxels of each lie, which one a box reads, and
//! its map in voxels of that.
//!
//! In: scale and translation of each level, as OME-NGFF has them: unit = scale * voxel +
//! translation, voxel p being a centre. Out: a level and a matrix, or what is wrong. Invariant: no
//! number of a document makes a matrix that is not finite.

use crate::base::limits::RANK_MAX;
use crate::base::status::Status;
use crate::base::text::Uri;
use crate::records::{Affine, HOOK_PREFIX, RAW_PREFIX};
use core::fmt;

/// Voxels of a level are no longer than a step if rounding made them longer by no more than this
/// part.
pub const LEVEL_ROUNDING: f64 = 1e-6;

/// A level of an image, from its voxels to physical units.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    /// Levels of the image.
    pub levels: u32,
    /// Axes that its document gives.
    pub axes: u32,
    /// Whether the document gives scales; if not, they are 1, and translations 0.
    pub is_given: bool,
    /// Finite.
    pub scale: [f64; RANK_MAX],
    /// Finite.
    pub translation: [f64; RANK_MAX],
}

impl Placement {
    /// No level.
    pub const NONE: Placement = Placement {
        levels: 0,
        axes: 0,
        is_given: false,
        scale: [1.0; RANK_MAX],
        translation: [0.0; RANK_MAX],
    };
}

/// Writes the name by which a level of the image at `uri` is cached. It has a NUL, so no caller can
/// write it. Whether there is such a name: not of what is no path of a group, or if it is too long.
pub fn write_level_name(uri: &str, level: u32, name: &mut Uri) -> bool {
    name.clear();
    write!(name, "{uri}\0{level}");
    !name.is_cut() && !uri.starts_with(HOOK_PREFIX) && !uri.starts_with(RAW_PREFIX)
}

/// The uri of an image and the level that such a name is of.
pub fn split_level_name(name: &str) -> Option<(&str, u32)> {
    let (uri, level) = name.split_once('\0')?;
    Some((uri, level.parse().ok()?))
}

/// The choice of a level. Levels are looked at one by one: [`LevelChoice::add`] takes the one that
/// [`LevelChoice::level`] asks for, until the choice is over and that is the level chosen.
#[derive(Clone, Copy, Debug)]
pub struct LevelChoice {
    /// Level 0 and the best one so far.
    first: Placement,
    best: Placement,
    best_level: u32,
    best_is_fine: bool,
    next: u32,
    is_over: bool,
    extents: Extents,
}

/// Extents of the array of level 0, which axes that are copied have in all levels.
#[derive(Clone, Copy, Debug)]
enum Extents {
    /// None to compare with: the box reads level 0, copies no axis, or there is no such array.
    None,
    /// They are looked at next.
    Wanted,
    Of([u64; RANK_MAX]),
}

impl LevelChoice {
    /// Nothing was looked at.
    pub const NONE: LevelChoice = LevelChoice {
        first: Placement::NONE,
        best: Placement::NONE,
        best_level: 0,
        best_is_fine: false,
        next: 0,
        is_over: false,
        extents: Extents::None,
    };

    /// The level that is chosen, or else looked at next.
    pub fn level(&self) -> u32 {
        match (self.is_over, self.extents) {
            (true, Extents::Wanted) => 0,
            (true, _) => self.best_level,
            (false, _) => self.next,
        }
    }

    /// Whether the level is chosen, and the array of level 0 is to be looked at before it is read.
    pub fn wants_extents(&self) -> bool {
        matches!(self.extents, Extents::Wanted)
    }

    /// Takes the extents of the array of level 0, or that there is none to compare with.
    pub fn set_extents(&mut self, extents: Option<&[u64; RANK_MAX]>) {
        self.extents = extents.map_or(Extents::None, |extents| Extents::Of(*extents));
    }

    /// Whether the level is chosen.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes the level that is looked at. At first level 0, because maps lead to its voxels, then
    /// the one that the map names, or each.
    pub fn add(&mut self, affine: &Affine, placement: &Placement) {
        assert!(!self.is_over);
        let level = self.next;
        if level == 0 {
            (self.first, self.best) = (*placement, *placement);
            self.best_is_fine = self.is_fine(affine, placement);
            self.next = affine.level.max(1) as u32;
            let is_alone = !placement.is_given || placement.levels < 2;
            self.is_over = affine.level == 0 || affine.level < 0 && is_alone;
            return;
        }
        let is_named = affine.level > 0;
        let is_coarser = || !self.best_is_fine || self.is_coarser(affine, placement);
        if is_named || self.is_fine(affine, placement) && is_coarser() {
            (self.best, self.best_level, self.best_is_fine) = (*placement, level, true);
        }
        self.next += 1;
        self.is_over = is_named || self.next >= self.first.levels;
        let has_copied = self.best.axes > affine.rank;
        if self.is_over && self.best_level > 0 && has_copied {
            self.extents = Extents::Wanted;
        }
    }

    /// Whether two maps make the same of the level that is looked at next.
    pub fn agree(&self, one: &Affine, other: &Affine, placement: &Placement) -> bool {
        let facts = |affine: &Affine| (affine.level, affine.has_units, affine.rank, affine.axes);
        let choice = match self.next {
            0 => LevelChoice { first: *placement, ..*self },
            _ => *self,
        };
        facts(one) == facts(other)
            && choice.is_fine(one, placement) == choice.is_fine(other, placement)
    }

    /// Whether the voxels of a level are no longer, along each mapped axis, than the step of the
    /// map: it leads over one of them or more. In squares, because core has no root.
    fn is_fine(&self, affine: &Affine, placement: &Placement) -> bool {
        let least = 1.0 / ((1.0 + LEVEL_ROUNDING) * (1.0 + LEVEL_ROUNDING));
        let rank = affine.rank as usize;
        let is_given = placement.is_given && self.first.is_given;
        is_given
            && affine.axes().zip(&affine.matrix).all(|(axis, row)| {
                let factors = row[..rank].iter();
                let steps = factors.map(|each| self.factor(affine, *each, axis, placement));
                steps.map(|step| step * step).sum::<f64>() >= least
            })
    }

    /// Whether the voxels of a level are larger than those of the best one, in mapped axes.
    fn is_coarser(&self, affine: &Affine, placement: &Placement) -> bool {
        let ratio = |axis: usize| match (placement.scale[axis].abs(), self.best.scale[axis].abs()) {
            (length, other) if length == other => 1.0,
            (length, other) => length / other,
        };
        affine.axes().map(ratio).product::<f64>() > 1.0
    }

    /// A factor of the map in voxels of a level.
    fn factor(&self, affine: &Affine, factor: f64, axis: usize, to: &Placement) -> f64 {
        let scaled = if affine.has_units { factor } else { factor * self.first.scale[axis] };
        scaled / to.scale[axis]
    }

    /// The map in voxels of the level that was chosen, of an array of those extents. If nothing was
    /// looked at, the array is of no image.
    pub fn turned(&self, affine: &Affine, shape: &[u64]) -> Result<Affine, LevelFault> {
        let axes = shape.len();
        if self.first.levels == 0 {
            return match (affine.level > 0, affine.has_units) {
                (true, _) => Err(LevelFault::NoLevel(affine.level)),
                (_, true) => Err(LevelFault::NoUnits),
                _ => Ok(*affine),
            };
        }
        let (first, to, level) = (&self.first, &self.best, self.best_level);
        if to.axes as usize != axes {
            return Err(LevelFault::Axes(level, to.axes, axes));
        }
        if !affine.has_units && level == 0 {
            return Ok(*affine);
        }
        if !to.is_given || !first.is_given {
            return Err(LevelFault::NoScale(level));
        }
        let place = |of: &Placement, axis: usize| (of.scale[axis], of.translation[axis]);
        for axis in (0..axes).filter(|axis| affine.position(*axis).is_none()) {
            if place(first, axis) != place(to, axis) {
                return Err(LevelFault::Copied(level, axis));
            }
            if let Extents::Of(extents) = self.extents
                && extents[axis] != shape[axis]
            {
                return Err(LevelFault::Extent(level, axis, [shape[axis], extents[axis]]));
            }
        }
        let (mut turned, rank) = (*affine, affine.rank as usize);
        for (row, axis) in affine.axes().enumerate() {
            let entries = &mut turned.matrix[row];
            for entry in &mut entries[..rank] {
                *entry = self.factor(affine, *entry, axis, to);
            }
            let term = match affine.has_units {
                true => entries[3],
                false => entries[3] * first.scale[axis] + first.translation[axis],
            };
            entries[3] = (term - to.translation[axis]) / to.scale[axis];
            // A scale of 0 in level 0 alone makes no infinity, but a singular matrix.
            if !entries[..rank].iter().chain(&entries[3..]).all(|entry| entry.is_finite()) {
                return Err(LevelFault::Far(level, axis));
            }
        }
        Ok(turned)
    }
}

/// Why a map has no level.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LevelFault {
    /// An array has no level of that number.
    NoLevel(i32),
    /// An array has no units.
    NoUnits,
    /// The image gives no scale for that level, or for level 0.
    NoScale(u32),
    /// The image gives so many axes for that level, and its array has so many.
    Axes(u32, u32, usize),
    /// That level, and an axis that is copied and that lies elsewhere in it than in level 0.
    Copied(u32, usize),
    /// That level, an axis that is copied, and its extents there and in level 0.
    Extent(u32, usize, [u64; 2]),
    /// That level, and an axis along which the map leads to no finite number.
    Far(u32, usize),
}

impl LevelFault {
    /// The status of a sample.
    pub fn status(self) -> Status {
        if matches!(self, LevelFault::NoScale(_)) { Status::Unsupported } else { Status::Invalid }
    }
}

impl fmt::Display for LevelFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LevelFault::NoLevel(level) => {
                write!(out, "level = {level}: the uri names an array, which has level 0 alone")
            }
            LevelFault::NoUnits => {
                out.write_str("has_units: the uri names an array, which has no physical units")
            }
            LevelFault::NoScale(0) => out.write_str("has_units: the image gives no scale"),
            LevelFault::NoScale(level) => write!(
                out,
                "level = {level}: the image gives no scale for it and level 0: take level 0, or \
                 name the array of the level"
            ),
            LevelFault::Axes(level, given, axes) => write!(
                out,
                "the image gives {given} axes, and the array of its level {level} has {axes}"
            ),
            LevelFault::Copied(level, axis) => write!(
                out,
                "axis {axis} is copied, and its scale or translation in level {level} is another \
                 than in level 0: map it too, or take level 0"
            ),
            LevelFault::Extent(level, axis, [own, first]) => write!(
                out,
                "axis {axis} is copied, and has {own} voxels in level {level} and {first} in level \
                 0: map it too, or take level 0"
            ),
            LevelFault::Far(level, axis) => write!(
                out,
                "axis {axis}: with its scale and translation in level {level} the map leads to no \
                 finite number"
            ),
        }
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
