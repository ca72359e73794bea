//! A map from the places of a box to voxels, as Rust gives it.
//!
//! In: numbers of the caller. Out: words in a request. Whether they make a map is for push.

use crate::base::abi::{LINEAR, MAP_AXES, NEAREST};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{Affine, AugmentWords};

/// The voxels that are read about the place that a map leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interpolation {
    /// The one at `floor(x + 1/2)`.
    #[default]
    Nearest,
    /// The two of each axis, by their distances.
    Linear,
}

/// An affine map from the places of a box to the voxels of an array: include/wavetrain.h has the
/// definition, at `wavetrain_affine`. Push copies it. It needs `config.augment = 1`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AffineMap<'a> {
    /// The axes of the array that are mapped, 1 to 3; the box has begin 0 and the output's extents
    /// along them, and the others are copied.
    pub axes: &'a [usize],
    /// A row for each of those axes, and in it a factor for each of them and, at place 3, a term.
    pub matrix: [[f64; MAP_AXES + 1]; MAP_AXES],
    /// The voxels that are read about a place.
    pub filter: Interpolation,
    /// Level of an OME-NGFF image; None: the coarsest that is fine enough.
    pub level: Option<u32>,
    /// The matrix gives physical units of an OME-NGFF image, not voxels of its level 0.
    pub has_units: bool,
}

impl AffineMap<'_> {
    /// Adds the map to what is done to a box.
    pub(super) fn add(&self, target: &mut AugmentWords, why: &mut Why) -> Result<(), Status> {
        let rank = self.axes.len();
        if rank > MAP_AXES {
            return Err(fail!(why, Invalid, "affine: {rank} axes: must be 1 to {MAP_AXES}"));
        }
        let mut axes = [0; MAP_AXES];
        for (place, axis) in axes.iter_mut().zip(self.axes) {
            *place = u32::try_from(*axis).unwrap_or(u32::MAX);
        }
        let filter = match self.filter {
            Interpolation::Nearest => NEAREST,
            Interpolation::Linear => LINEAR,
        };
        let level = self.level.map_or(-1, |level| i32::try_from(level).unwrap_or(i32::MAX));
        let (matrix, has_units) = (self.matrix, self.has_units);
        target.map(&Affine { rank: rank as u32, axes, matrix, filter, level, has_units });
        Ok(())
    }
}
