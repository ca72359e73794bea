//! Arithmetic on the elements of a box, as Rust gives it.
//!
//! In: numbers of the caller. Out: words in a request. Whether they fit the field is for push.

use crate::base::abi::{CHANNELS_MAX, ERASES_MAX};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{AugmentHead, AugmentWords};

/// Arithmetic on the elements of a box on their way into a field of F32, BF16 or F16:
/// include/wavetrain.h has the definition, at `wavetrain_augment`. Push copies it. It needs
/// `config.augment = 1`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Augmentation<'a> {
    /// Channels that scale, bias and erased values tell apart, up to 64; 0 and 1: none.
    pub channels: usize,
    /// Axis of the field along which they lie; 0 where there is at most one.
    pub channel_axis: usize,
    /// The factor of each channel; empty: none.
    pub scale: &'a [f32],
    /// The term of each channel; empty: none.
    pub bias: &'a [f32],
    /// Least and largest value.
    pub clamp: Option<(f32, f32)>,
    /// Standard deviation of the noise, and its key; a deviation of 0 is none.
    pub noise: (f32, u64),
    /// Up to 8 boxes of the field that are overwritten.
    pub erase: &'a [Erasure<'a>],
    /// Padding that `pad_mode` makes goes through all of it; else it is cast alone.
    pub pad_goes_through: bool,
}

/// A box of a field that is overwritten.
#[derive(Clone, Copy, Debug)]
pub struct Erasure<'a> {
    /// The first place along each axis of the field.
    pub begin: &'a [u64],
    /// One past the last.
    pub end: &'a [u64],
    /// One value, or one of each channel.
    pub values: &'a [f32],
}

impl Augmentation<'_> {
    /// Writes what is done to the elements of a box: nothing if there is none.
    pub(super) fn fill(
        source: Option<&Augmentation<'_>>,
        target: &mut AugmentWords,
        why: &mut Why,
    ) -> Result<(), Status> {
        target.clear();
        source.map_or(Ok(()), |source| source.write(target, why))
    }

    fn write(&self, target: &mut AugmentWords, why: &mut Why) -> Result<(), Status> {
        let head = AugmentHead {
            channels: u32::try_from(self.channels).unwrap_or(u32::MAX),
            channel_axis: u32::try_from(self.channel_axis).unwrap_or(u32::MAX),
            clamp: self.clamp,
            noise: self.noise,
            pad_goes_through: self.pad_goes_through,
        };
        let rank = self.erase.first().map_or(0, |first| first.begin.len());
        let tables = (self.scale.iter().copied(), self.bias.iter().copied());
        begin(target, &head, rank, tables, why)?;
        for (number, each) in self.erase.iter().enumerate() {
            let values = each.values.iter().copied();
            if !target.erase(each.begin, each.end, values) {
                return Err(refused_erase(number, each.values.len(), why));
            }
        }
        Ok(())
    }
}

/// Begins the words of a box, or says what is wrong with its channels.
pub(super) fn begin(
    target: &mut AugmentWords,
    head: &AugmentHead,
    rank: usize,
    (scale, bias): (impl ExactSizeIterator<Item = f32>, impl ExactSizeIterator<Item = f32>),
    why: &mut Why,
) -> Result<(), Status> {
    let (channels, scales, biases) = (head.channels, scale.len(), bias.len());
    if target.begin(head, rank, scale, bias) {
        return Ok(());
    }
    Err(fail!(
        why,
        Invalid,
        "augment: n_channels = {channels}, with {scales} numbers in scale and {biases} in bias: \
         there must be one of each channel or none, and at most {CHANNELS_MAX} channels"
    ))
}

/// Says what is wrong with a box that is to be erased.
pub(super) fn refused_erase(number: usize, values: usize, why: &mut Why) -> Status {
    fail!(
        why,
        Invalid,
        "augment: erase[{number}]: {values} values: at most {ERASES_MAX} boxes of as many axes as \
         the field has, with at most {CHANNELS_MAX} values each"
    )
}
