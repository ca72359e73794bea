//! Whether arithmetic on the elements of a box fits the field that they go to.
//!
//! In: what a surface copied. Out: nothing, or what is wrong with it.

use crate::base::status::{Status, Why};
use crate::base::text::{Float, List};
use crate::engine::Engine;
use crate::fail;
use crate::records::{Augment, AugmentWords, Erased};
use crate::setup::fields::Field;

impl Engine {
    /// Refuses a member of a box that the config keeps no memory for.
    pub(super) fn keeps_augment(&self, member: &str, why: &mut Why) -> Result<(), Status> {
        if self.shared.settings.config.augment == 1 {
            return Ok(());
        }
        let text = "the config keeps no memory for it: set its augment to 1";
        Err(fail!(why, Invalid, "{member}: {text}"))
    }

    /// Checks what is to be done to the elements of a box, if there is something.
    pub(super) fn check_augment(
        &self,
        words: &AugmentWords,
        field: &Field,
        why: &mut Why,
    ) -> Result<(), Status> {
        let Some(augment) = words.view() else { return Ok(()) };
        let of = field.of();
        self.keeps_augment("augment", why)?;
        if !field.has_floats() {
            let (name, way_out) = (field.dtype.name(), "make the field f32, bf16 or f16");
            return Err(fail!(why, Invalid, "{of}augment: its elements are {name}: {way_out}"));
        }
        check_channels(&augment, field, why)?;
        let limits = augment.clamp();
        if let Some((low, high)) =
            limits.filter(|(low, high)| low.is_nan() || high.is_nan() || low > high)
        {
            let (low, high) = (Float(low.into()), Float(high.into()));
            let text = "must be numbers, the first no larger than the second";
            return Err(fail!(why, Invalid, "{of}augment: clamp from {low} to {high}: {text}"));
        }
        let sigma = augment.noise().map_or(0.0, |(sigma, _)| sigma);
        if !(0.0..=f32::MAX).contains(&sigma) {
            let (sigma, text) = (Float(sigma.into()), "must be at least 0, and finite");
            return Err(fail!(why, Invalid, "{of}augment: noise_sigma = {sigma}: {text}"));
        }
        let mut erased = augment.erased().enumerate();
        erased
            .try_for_each(|(number, erased)| check_erased(&augment, (number, &erased), field, why))
    }
}

fn check_channels(augment: &Augment<'_>, field: &Field, why: &mut Why) -> Result<(), Status> {
    let (channels, axis) = (augment.channels(), augment.channel_axis());
    let extent = field.extents().get(axis).copied();
    if if channels > 1 { extent == Some(channels.into()) } else { axis == 0 } {
        return Ok(());
    }
    Err(fail!(
        why,
        Invalid,
        "{}augment: n_channels = {channels}, channel_axis = {axis}: a sample has the shape {}: \
         give as many channels as the axis has places, or 1 and axis 0",
        field.of(),
        List(field.extents())
    ))
}

fn check_erased(
    augment: &Augment<'_>,
    (number, erased): (usize, &Erased<'_>),
    field: &Field,
    why: &mut Why,
) -> Result<(), Status> {
    let (of, count, channels) = (field.of(), erased.channels(), augment.channels());
    if count != 1 && count != channels as usize {
        let text = "must be 1, or n_channels, which is";
        return Err(fail!(
            why,
            Invalid,
            "{of}augment: erase[{number}].n_values = {count}: {text} {channels}"
        ));
    }
    let (rank, axes) = (augment.rank(), field.extents().len());
    if rank != axes {
        let text = format_args!("erase[{number}] has {rank} axes, and a sample {axes}");
        return Err(fail!(why, Invalid, "{of}augment: {text}"));
    }
    for (axis, extent) in field.extents().iter().enumerate() {
        let (begin, end) = erased.range(axis);
        if begin >= end || end > *extent {
            return Err(fail!(
                why,
                Invalid,
                "{of}augment: erase[{number}]: axis {axis}: [{begin}, {end}) must lie in \
                 [0, {extent}) and not be empty"
            ));
        }
    }
    Ok(())
}
