//! Arithmetic on the elements of boxes, drawn by dice: every step, any channels, boxes that are
//! erased.
//!
//! In: the extents of a field. Out: an [`Augmentation`] that push takes, or its words.

use crate::common::drive::Dice;
use wavetrain::loader::{Augmentation, Erasure};
use wavetrain::records::{AugmentHead, AugmentWords};

/// The owner of what an [`Augmentation`] leads to.
#[derive(Clone, Debug)]
pub struct Arithmetic {
    channels: usize,
    channel_axis: usize,
    scale: Vec<f32>,
    bias: Vec<f32>,
    clamp: Option<(f32, f32)>,
    noise: (f32, u64),
    erase: Vec<(Vec<u64>, Vec<u64>, Vec<f32>)>,
    pad_goes_through: bool,
}

/// Numbers of any size, and those that arithmetic treats in a way of their own.
fn number(dice: &mut Dice) -> f32 {
    let odd = [0.0, -0.0, 1.0, 1e-45, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    match dice.range(0, 4) {
        0 => odd[dice.range(0, odd.len() as i64) as usize],
        1 => f32::from_bits(dice.range(0, 1 << 31) as u32 ^ (dice.range(0, 2) as u32) << 31),
        _ => dice.range(-3000, 3000) as f32 / 64.0,
    }
}

fn numbers(dice: &mut Dice, count: usize) -> Vec<f32> {
    (0..count).map(|_| number(dice)).collect()
}

impl Arithmetic {
    pub fn draw(dice: &mut Dice, extents: &[u64]) -> Arithmetic {
        let axes = (0..extents.len()).filter(|axis| (2..=64).contains(&extents[*axis]));
        let axes: Vec<usize> = axes.collect();
        let (mut channels, mut channel_axis) = (1, 0);
        if !axes.is_empty() && dice.range(0, 2) == 0 {
            channel_axis = axes[dice.range(0, axes.len() as i64) as usize];
            channels = extents[channel_axis] as usize;
        }
        let clamp = (dice.range(0, 2) == 0).then(|| {
            let (low, high) = (dice.range(-90, 90) as f32, number(dice));
            if high.is_nan() { (low, f32::INFINITY) } else { (low.min(high), low.max(high)) }
        });
        let sigma = dice.range(-500, 500).max(0) as f32 / 16.0;
        let table = |dice: &mut Dice| {
            let count = if dice.range(0, 2) == 0 { channels } else { 0 };
            numbers(dice, count)
        };
        let (scale, bias) = (table(dice), table(dice));
        let erases = dice.range(-8, 9).max(0);
        let erase = (0..erases).map(|_| {
            let place = |extent: &u64| dice.range(0, *extent as i64) as u64;
            let begin: Vec<u64> = extents.iter().map(place).collect();
            let ends = begin.iter().zip(extents);
            let end = |(begin, extent): (&u64, &u64)| {
                dice.range(*begin as i64, *extent as i64) as u64 + 1
            };
            let end: Vec<u64> = ends.map(end).collect();
            let count = if dice.range(0, 2) == 0 { channels } else { 1 };
            (begin, end, numbers(dice, count))
        });
        let erase = erase.collect();
        let key = (dice.range(0, 1 << 31) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let noise = (sigma, key);
        let pad_goes_through = dice.range(0, 2) == 0;
        Arithmetic { channels, channel_axis, scale, bias, clamp, noise, erase, pad_goes_through }
    }

    /// As many words as there may be: every step, and most boxes with a value of each channel. One
    /// of the axes has 64 places.
    pub fn longest(dice: &mut Dice, extents: &[u64]) -> Arithmetic {
        let channel_axis = extents.iter().position(|extent| *extent == 64).expect("it has one");
        let [scale, bias] = [0; 2].map(|_| numbers(dice, 64));
        let erase = (0..8).map(|number| {
            let begin = extents.iter().map(|extent| extent * number / 10).collect();
            let end = extents.iter().map(|extent| extent * (number + 3) / 10).collect();
            (begin, end, numbers(dice, 64))
        });
        let erase = erase.collect();
        let (clamp, noise) = (Some((-1e30, 1e30)), (2.5, 99));
        let (channels, pad_goes_through) = (64, true);
        Arithmetic { channels, channel_axis, scale, bias, clamp, noise, erase, pad_goes_through }
    }

    /// The boxes that are erased.
    pub fn erasures(&self) -> Vec<Erasure<'_>> {
        let erasure = |(begin, end, values)| Erasure { begin, end, values };
        self.erase.iter().map(|(begin, end, values)| erasure((begin, end, values))).collect()
    }

    /// The same as push takes it, with those boxes.
    pub fn given<'a>(&'a self, erase: &'a [Erasure<'a>]) -> Augmentation<'a> {
        Augmentation {
            channels: self.channels,
            channel_axis: self.channel_axis,
            scale: &self.scale,
            bias: &self.bias,
            clamp: self.clamp,
            noise: self.noise,
            erase,
            pad_goes_through: self.pad_goes_through,
        }
    }

    /// Its words for a field of `rank` axes.
    pub fn words(&self, rank: usize) -> AugmentWords {
        let head = AugmentHead {
            channels: self.channels as u32,
            channel_axis: self.channel_axis as u32,
            clamp: self.clamp,
            noise: self.noise,
            pad_goes_through: self.pad_goes_through,
        };
        let tables = [&self.scale, &self.bias].map(|table| table.iter().copied());
        let [scale, bias] = tables;
        let mut words = AugmentWords::default();
        assert!(words.begin(&head, rank, scale, bias));
        for (begin, end, values) in &self.erase {
            assert!(words.erase(begin, end, values.iter().copied()));
        }
        words
    }
}
