//! Recipes of augmentation: they fill an [`Augment`] and move a box, each by its own draws.
//!
//! In: a box, the field that it fills, a seed, a place in an epoch, and the recipe's name and
//! numbers. Out: the box's begin, end and step, its [`Augment`], its [`Affine`]; the same as of
//! include/wavetrain_recipes.h and of wavetrain.augment in Python. No allocation, no state but the
//! structs of the caller, and no function of the C library: every machine gives the same bits.
//!
//! ```
//! use wavetrain::abi::{Augment, Blank, SampleBox};
//! use wavetrain::recipes::{Field, Recipes, Room};
//! use wavetrain::sampler::Place;
//!
//! # fn main() -> Result<(), wavetrain::recipes::Misfit> {
//! // A picture of 3 x 32 x 32 elements, for a field of the same extents.
//! let mut target = SampleBox { rank: 3, ..SampleBox::BLANK };
//! target.end[..3].copy_from_slice(&[3, 32, 32]);
//! let field = Field::new(&[3, 32, 32], Some(0), &[1, 2], 3 /* WAVETRAIN_PAD_REFLECT */)?;
//! let (mut augment, mut room) = (Augment::EMPTY, Room::BLANK);
//! let place = Place { epoch: 0, position: 7 };
//! let mut recipes = Recipes::begin(&field, 42, place, &mut target, &mut augment, &mut room)?;
//! recipes.crop("crop", 4, &[32, 32])?;
//! recipes.flip("flip", 0.5, 1)?;
//! recipes.normalize(&[], &[255.0])?;
//! recipes.normalize(&[0.5], &[0.25])?;
//! assert_eq!(target.end[1] - target.begin[1], 32);
//! assert_eq!(augment.n_channels, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Draws
//!
//! A draw is `sampler::below(n, key, position, lane)`, where the key is made of the seed, the epoch
//! and the hash of the recipe's name, and the lane is the number of the draw in the recipe. So a
//! draw depends on nothing that was drawn before: a run that resumes with another number of ranks
//! gets the same pictures. Recipes of the same name draw the same: an image and its mask are
//! cropped alike, and two erases of one picture need two names.
//!
//! # How recipes compose
//!
//! The order is that of the calls, and the result is one pass: x * scale + bias + noise, clamp,
//! erase. Each operation below is one of f32 and rounds once. A recipe that would give another
//! result than its predecessors' result put through it is refused as [`Misfit::Order`].
//!
//! ```text
//! x * a + d     scale = scale * a, bias = bias * a + d, sigma = sigma * a,
//!               low = low * a + d, high = high * a + d, each erased value v = v * a + d.
//!               A factor or term that is not there is left out: without bias it is d, not 0 + d.
//!               After noise, a must be the same for all channels; after a clamp, d too.
//! noise         after neither noise, clamp nor erase
//! clamp         after a clamp low and high are clamped; erased values are clamped
//! erase         one more box, after those before it; 8 at most. After an affine map too
//! flip          erased boxes are mirrored; not after noise
//! crop          not after noise or erase. With padding not after a crop, whose edges the padding
//!               would be made at; with constant padding not after arithmetic, which the padding
//!               would go through
//! affine        once, after flips alone, and before all arithmetic
//! ```

mod affine;
mod arithmetic;
mod draws;
mod erases;
mod fixed;
mod moves;

pub use affine::Motion;
pub use draws::key;
pub use erases::{ERASE_RATIO, ERASE_SCALE};

use crate::base::abi::{Affine, Augment, Blank, CHANNELS_MAX, ERASES_MAX, Erase, SampleBox};
use crate::base::limits::RANK_MAX;
use crate::sampler::Place;
use core::ffi::CStr;
use core::fmt;
use draws::Draws;

/// Axes of space of a picture at most.
pub const SPATIAL_MAX: usize = 3;
/// `Field::channel_axis` of a field without channels.
pub const NO_CHANNELS: u32 = u32::MAX;
/// Bytes of a recipe's name at most.
pub const NAME_BYTES_MAX: usize = 63;

/// Why a recipe was refused; nothing was changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A number that the recipe does not take.
    Number,
    /// The field, its axes and the box do not fit together.
    Field,
    /// A name that is empty or too long.
    Name,
    /// A crop that is larger than the box and its padding, or padding without a pad_mode.
    Crop,
    /// A recipe that cannot be one pass with those before it.
    Order,
    /// More erased boxes, or more channels, than an [`Augment`] has.
    Room,
}

impl Misfit {
    /// Why, and what to do.
    pub fn text(self) -> &'static str {
        self.c_text().to_str().unwrap_or_default()
    }

    /// The same as C has it.
    pub(crate) const fn c_text(self) -> &'static CStr {
        match self {
            Misfit::Number => c"a pointer or a number is none that the recipe takes",
            Misfit::Field => {
                c"field, axes and box do not fit together. An erase needs a box that lies in the \
                 field (crop first), random_erase two axes of space, an affine map 2 or 3 and \
                 steps of 1 or -1"
            }
            Misfit::Name => c"the name of a recipe has 1 to 63 bytes",
            Misfit::Crop => {
                c"the crop is larger than the box with its padding, or padding has no pad_mode, or \
                 the box has a step other than 1 or -1. Crop less, or set the field's pad_mode"
            }
            Misfit::Order => {
                c"the recipe cannot be one pass with those before it: put affine, crop and flip \
                 first, then arithmetic, noise, clamp, and erase last"
            }
            Misfit::Room => {
                c"8 erased boxes, and 64 channels with numbers of their own, are the most: leave \
                 some out, or give one number for all channels"
            }
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Misfit {}

/// The field that a box fills, as recipes see it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Field {
    /// Axes of the field.
    pub rank: u32,
    /// Axis of the field along which channels lie; [`NO_CHANNELS`]: there are none.
    pub channel_axis: u32,
    /// Axes of space, up to [`SPATIAL_MAX`].
    pub n_spatial: u32,
    /// WAVETRAIN_PAD_ of the field.
    pub pad_mode: u32,
    /// Which axes of the field they are.
    pub spatial: [u32; SPATIAL_MAX],
    /// The axes of the box that become them.
    pub box_spatial: [u32; SPATIAL_MAX],
    /// Extents of the field's sample.
    pub shape: [u64; RANK_MAX],
}

impl Field {
    /// A field whose axes are those of the box. `pad_mode` is its WAVETRAIN_PAD_.
    pub fn new(
        shape: &[u64],
        channel_axis: Option<u32>,
        spatial: &[u32],
        pad_mode: u32,
    ) -> Result<Field, Misfit> {
        let mut field = Field {
            rank: shape.len() as u32,
            channel_axis: channel_axis.unwrap_or(NO_CHANNELS),
            n_spatial: spatial.len() as u32,
            pad_mode,
            spatial: [0; SPATIAL_MAX],
            box_spatial: [0; SPATIAL_MAX],
            shape: [0; RANK_MAX],
        };
        field.shape.get_mut(..shape.len()).ok_or(Misfit::Field)?.copy_from_slice(shape);
        field.spatial.get_mut(..spatial.len()).ok_or(Misfit::Field)?.copy_from_slice(spatial);
        field.box_spatial = field.spatial;
        field.check()?;
        Ok(field)
    }

    /// Whether its own numbers fit together.
    fn check(&self) -> Result<(), Misfit> {
        let rank = self.rank as usize;
        let pairs = self.pairs().ok_or(Misfit::Field)?;
        let is_axis = |axis: usize| axis < rank;
        let are_axes = pairs.clone().all(|(of_field, of_box)| {
            let other = |(field, in_box): &(usize, usize)| *field == of_field || *in_box == of_box;
            let is_once = pairs.clone().filter(other).count() == 1;
            is_once && is_axis(of_field) && of_box < RANK_MAX && of_field != self.channels_at()
        });
        let has_channels = self.channel_axis == NO_CHANNELS || is_axis(self.channels_at());
        let extents = self.shape.get(..rank).ok_or(Misfit::Field)?;
        let fits = are_axes && has_channels && self.pad_mode <= PAD_REFLECT;
        if fits && !extents.contains(&0) { Ok(()) } else { Err(Misfit::Field) }
    }

    /// The axes of space: of the field, and of the box.
    fn pairs(&self) -> Option<impl Iterator<Item = (usize, usize)> + Clone + use<>> {
        let (field, of_box, count) = (self.spatial, self.box_spatial, self.n_spatial as usize);
        let pair = move |axis: usize| (field[axis] as usize, of_box[axis] as usize);
        (count <= SPATIAL_MAX).then(|| (0..count).map(pair))
    }

    fn channels_at(&self) -> usize {
        self.channel_axis as usize
    }

    /// Channels, 1 where there are none.
    fn channels(&self) -> u64 {
        self.shape.get(self.channels_at()).copied().unwrap_or(1)
    }
}

/// WAVETRAIN_PAD_NONE
const PAD_NONE: u32 = 0;
/// WAVETRAIN_PAD_CONSTANT
const PAD_CONSTANT: u32 = 1;
/// WAVETRAIN_PAD_REFLECT
const PAD_REFLECT: u32 = 3;

/// The lists that an [`Augment`] leads to, as long as it is used.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Room {
    /// By channel, where the augment has a scale.
    pub scale: [f32; CHANNELS_MAX],
    /// By channel, where it has a bias.
    pub bias: [f32; CHANNELS_MAX],
    /// By erased box and channel.
    pub values: [[f32; CHANNELS_MAX]; ERASES_MAX],
    /// The erased boxes.
    pub erase: [Erase; ERASES_MAX],
    /// Crops so far.
    pub crops: u64,
}

impl Room {
    /// One that is empty.
    pub const BLANK: Room = Room {
        scale: [0.0; CHANNELS_MAX],
        bias: [0.0; CHANNELS_MAX],
        values: [[0.0; CHANNELS_MAX]; ERASES_MAX],
        erase: [Erase::BLANK; ERASES_MAX],
        crops: 0,
    };
}

/// A box, and what recipes have made of it so far.
pub struct Recipes<'a> {
    field: &'a Field,
    draws: Draws,
    target: &'a mut SampleBox,
    augment: &'a mut Augment,
    affine: Option<&'a mut Affine>,
    room: &'a mut Room,
}

impl<'a> Recipes<'a> {
    /// Begins without any recipe. `augment` gets its pointers into `room`, so the room is not to be
    /// moved before the box was pushed. `target.augment` is set to `augment`; `place` and `seed`
    /// are what draws depend on.
    pub fn begin(
        field: &'a Field,
        seed: u64,
        place: Place,
        target: &'a mut SampleBox,
        augment: &'a mut Augment,
        room: &'a mut Room,
    ) -> Result<Recipes<'a>, Misfit> {
        let mut recipes = Recipes::resume(field, seed, place, target, augment, room)?;
        recipes.clear();
        Ok(recipes)
    }

    /// Continues after recipes that an earlier value worked on.
    pub(crate) fn resume(
        field: &'a Field,
        seed: u64,
        place: Place,
        target: &'a mut SampleBox,
        augment: &'a mut Augment,
        room: &'a mut Room,
    ) -> Result<Recipes<'a>, Misfit> {
        field.check()?;
        let draws = Draws { seed, place };
        let recipes = Recipes { field, draws, target, augment, affine: None, room };
        recipes.check_box()?;
        Ok(recipes)
    }

    /// With a struct for [`Recipes::affine`], to which `target.affine` leads once it is filled.
    pub fn with_affine(mut self, affine: &'a mut Affine) -> Recipes<'a> {
        affine.rank = 0;
        self.affine = Some(affine);
        self
    }

    /// With one that an earlier call may have filled.
    pub(crate) fn with_kept_affine(mut self, affine: Option<&'a mut Affine>) -> Recipes<'a> {
        self.affine = affine;
        self
    }

    /// No arithmetic; padding gets what follows, as elements do.
    pub(crate) fn clear(&mut self) {
        let struct_size = self.augment.struct_size;
        self.room.crops = 0;
        *self.augment = Augment { struct_size, pad_goes_through: 1, ..Augment::BLANK };
        if let Some(affine) = &mut self.affine {
            affine.rank = 0;
        }
        self.point();
    }

    /// Leads all pointers to where the lists lie now.
    fn point(&mut self) {
        let list = |is_there: bool, list: &[f32]| match is_there {
            true => list.as_ptr(),
            false => core::ptr::null(),
        };
        self.augment.scale = list(!self.augment.scale.is_null(), &self.room.scale);
        self.augment.bias = list(!self.augment.bias.is_null(), &self.room.bias);
        for (erase, values) in self.room.erase.iter_mut().zip(&self.room.values) {
            erase.values = values.as_ptr();
        }
        let has_erase = self.augment.n_erase > 0;
        self.augment.erase = if has_erase { self.room.erase.as_ptr() } else { core::ptr::null() };
        self.augment.erase_bytes = if has_erase { size_of::<Erase>() as u32 } else { 0 };
        let is_by_channel = self.augment.n_channels > 1;
        self.augment.channel_axis = if is_by_channel { self.field.channel_axis } else { 0 };
        self.target.augment = &raw const *self.augment;
    }

    /// Whether recipes can work on the box and the augment.
    fn check_box(&self) -> Result<(), Misfit> {
        let pairs = self.field.pairs().ok_or(Misfit::Field)?;
        let rank = (self.target.rank as usize).min(RANK_MAX);
        for (_, axis) in pairs {
            let is_axis = axis < rank && self.places(axis).is_some();
            if !is_axis || self.target.step[axis].unsigned_abs() > STEP_MAX {
                return Err(Misfit::Field);
            }
        }
        let fits = self.augment.n_channels as usize <= CHANNELS_MAX
            && self.augment.n_erase as usize <= ERASES_MAX;
        if fits { Ok(()) } else { Err(Misfit::Room) }
    }

    /// Places of the box along one of its axes; None where it is empty or too long.
    fn places(&self, axis: usize) -> Option<u64> {
        let extent = self.target.end[axis].checked_sub(self.target.begin[axis])?;
        let extent = u64::try_from(extent).ok().filter(|extent| *extent > 0)?;
        Some(extent.div_ceil(self.step(axis).unsigned_abs()))
    }

    /// Elements from one place to the next; below 0 backwards.
    fn step(&self, axis: usize) -> i64 {
        if self.target.step[axis] == 0 { 1 } else { self.target.step[axis] }
    }

    fn has_arithmetic(&self) -> bool {
        let augment = &self.augment;
        augment.n_channels > 0 || augment.has_clamp != 0 || self.has_noise() || augment.n_erase > 0
    }

    fn has_noise(&self) -> bool {
        self.augment.noise_sigma != 0.0
    }

    fn is_mapped(&self) -> bool {
        self.affine.as_ref().is_some_and(|affine| affine.rank != 0)
    }
}

/// Elements from one place to the next at most, as include/wavetrain.h has it.
const STEP_MAX: u64 = 536_870_911;

#[cfg(test)]
mod tests;
