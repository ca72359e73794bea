//! Recipes of arithmetic: factors and terms, noise, clamps. The head of the room has the rule by
//! which they compose.
//!
//! In: an augment as it is so far. Out: the same with one recipe more. Invariant: the lists of the
//! room have as many numbers as `n_channels` of the augment.

use super::{Misfit, Recipes};
use crate::base::abi::CHANNELS_MAX;

/// Numbers of a recipe: none, one for all channels, or one for each.
#[derive(Clone, Copy)]
struct Numbers {
    numbers: [f32; CHANNELS_MAX],
    count: usize,
}

impl Numbers {
    const NONE: Numbers = Numbers { numbers: [0.0; CHANNELS_MAX], count: 0 };

    fn one(number: f32) -> Numbers {
        let mut one = Numbers { count: 1, ..Numbers::NONE };
        one.numbers[0] = number;
        one
    }

    fn each(given: &[f32], number: impl Fn(usize, f32) -> f32) -> Result<Numbers, Misfit> {
        let mut each = Numbers { count: given.len(), ..Numbers::NONE };
        let numbers = each.numbers.get_mut(..given.len()).ok_or(Misfit::Room)?;
        for (at, (to, from)) in numbers.iter_mut().zip(given).enumerate() {
            *to = number(at, *from);
        }
        if numbers.iter().all(|number| number.is_finite()) { Ok(each) } else { Err(Misfit::Number) }
    }

    fn at(&self, channel: usize) -> Option<f32> {
        let channel = if self.count == 1 { 0 } else { channel };
        (self.count > 0).then(|| self.numbers[channel % CHANNELS_MAX])
    }

    /// The one number that all channels have, or `none` where there are no numbers.
    fn uniform(&self, none: f32) -> Option<f32> {
        let given = &self.numbers[..self.count.min(CHANNELS_MAX)];
        let first = given.first().copied().unwrap_or(none);
        given.iter().all(|number| *number == first).then_some(first)
    }
}

impl Recipes<'_> {
    /// (x - mean) / std, of each channel or of all: scale 1 / std and bias -mean / std. Either list
    /// may be empty; a std alone divides, as of bytes that become 0 to 1 by 255.
    pub fn normalize(&mut self, mean: &[f32], std: &[f32]) -> Result<(), Misfit> {
        self.check_count(mean.len())?;
        self.check_count(std.len())?;
        if !std.iter().all(|std| *std > 0.0) {
            return Err(Misfit::Number);
        }
        let factors = Numbers::each(std, |_, std| 1.0 / std)?;
        let of = |at: usize| std.get(if std.len() == 1 { 0 } else { at }).copied();
        let term = |mean: f32, std: Option<f32>| std.map_or(-mean, |std| -mean / std);
        let terms = match (mean, std.len() > 1) {
            ([mean], true) => Numbers::each(std, |_, std| term(*mean, Some(std)))?,
            _ => Numbers::each(mean, |at, mean| term(mean, of(at)))?,
        };
        self.linear(&factors, &terms)
    }

    /// x * c + b, with c of 1 - contrast to 1 + contrast and b of -brightness to brightness, drawn
    /// for the sample. A contrast or a brightness of 0 is left out. Lane 0: b. Lane 1: c.
    pub fn jitter(&mut self, name: &str, brightness: f32, contrast: f32) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        if !(0.0..=f32::MAX).contains(&brightness) || !(0.0..1.0).contains(&contrast) {
            return Err(Misfit::Number);
        }
        let (mut factor, mut term) = (Numbers::NONE, Numbers::NONE);
        if brightness > 0.0 {
            term = Numbers::one(drawn.signed(0) * brightness);
        }
        if contrast > 0.0 {
            factor = Numbers::one(1.0 + drawn.signed(1) * contrast);
        }
        self.linear(&factor, &term)
    }

    /// Normal noise of a standard deviation, of a key that is this sample's alone. 0: none.
    pub fn noise(&mut self, name: &str, sigma: f32) -> Result<(), Misfit> {
        let drawn = self.draws.of(name)?;
        if !(0.0..=f32::MAX).contains(&sigma) {
            return Err(Misfit::Number);
        }
        if sigma == 0.0 {
            return Ok(());
        }
        if self.has_noise() || self.augment.has_clamp != 0 || self.augment.n_erase > 0 {
            return Err(Misfit::Order);
        }
        self.augment.noise_sigma = sigma;
        self.augment.noise_key = drawn.key_of_noise();
        Ok(())
    }

    /// Values below `low` become it, those above `high` become that. Infinities are numbers here.
    pub fn clamp(&mut self, low: f32, high: f32) -> Result<(), Misfit> {
        if low.is_nan() || high.is_nan() || low > high {
            return Err(Misfit::Number);
        }
        let clamped = |x: f32| if x < low { low } else { x };
        let clamped = |x: f32| if clamped(x) > high { high } else { clamped(x) };
        let augment = &mut *self.augment;
        let is_first = augment.has_clamp == 0;
        augment.clamp_low = if is_first { low } else { clamped(augment.clamp_low) };
        augment.clamp_high = if is_first { high } else { clamped(augment.clamp_high) };
        augment.has_clamp = 1;
        self.each_value(1, |_, value| clamped(value))
    }

    /// A list of numbers has none, one, or one for each channel.
    pub(super) fn check_count(&self, count: usize) -> Result<(), Misfit> {
        match count as u64 {
            0 | 1 => Ok(()),
            count if count != self.field.channels() => Err(Misfit::Number),
            count if count > CHANNELS_MAX as u64 => Err(Misfit::Room),
            _ => Ok(()),
        }
    }

    /// Makes room for the numbers of each channel, where `count` is more than one.
    pub(super) fn widen(&mut self, count: usize) {
        let before = self.augment.n_channels as usize;
        if count <= before {
            return;
        }
        self.augment.n_channels = count as u32;
        for list in [&mut self.room.scale, &mut self.room.bias] {
            let first = list[0];
            list.iter_mut().take(count).skip(1).for_each(|number| *number = first);
        }
        self.point();
    }

    /// x * a + d after all that is there.
    fn linear(&mut self, a: &Numbers, d: &Numbers) -> Result<(), Misfit> {
        let count = a.count.max(d.count);
        if count == 0 {
            return Ok(());
        }
        let (factor, term) = (a.uniform(1.0), d.uniform(0.0));
        let has_clamp = self.augment.has_clamp != 0;
        let needs_one_factor = self.has_noise() || has_clamp;
        if needs_one_factor && factor.is_none() || has_clamp && term.is_none() {
            return Err(Misfit::Order);
        }
        let with = |x: f32, a: Option<f32>, d: Option<f32>| {
            let x = a.map_or(x, |a| x * a);
            d.map_or(x, |d| x + d)
        };
        let (one_a, one_d) = (factor.filter(|_| a.count > 0), term.filter(|_| d.count > 0));
        let sigma = with(self.augment.noise_sigma, one_a, None);
        if !sigma.is_finite() {
            return Err(Misfit::Number);
        }
        self.augment.noise_sigma = sigma;
        if sigma == 0.0 {
            self.augment.noise_key = 0; // there was none, or it became less than a float holds
        }
        if has_clamp {
            self.augment.clamp_low = with(self.augment.clamp_low, one_a, one_d);
            self.augment.clamp_high = with(self.augment.clamp_high, one_a, one_d);
        }
        self.widen(count);
        let (has_scale, has_bias) = (!self.augment.scale.is_null(), !self.augment.bias.is_null());
        for channel in 0..(self.augment.n_channels as usize).min(CHANNELS_MAX) {
            let (a, d) = (a.at(channel), d.at(channel));
            let (scale, bias) = (&mut self.room.scale[channel], &mut self.room.bias[channel]);
            *scale = if has_scale { with(*scale, a, None) } else { a.unwrap_or(1.0) };
            *bias = if has_bias { with(*bias, a, d) } else { d.unwrap_or(0.0) };
        }
        self.show(has_scale || a.count > 0, has_bias || d.count > 0);
        self.each_value(count, |channel, value| with(value, a.at(channel), d.at(channel)))
    }

    /// Lets the augment lead to the lists that hold numbers.
    fn show(&mut self, has_scale: bool, has_bias: bool) {
        let list = |is_there: bool, list: &[f32; CHANNELS_MAX]| match is_there {
            true => list.as_ptr(),
            false => core::ptr::null(),
        };
        self.augment.scale = list(has_scale, &self.room.scale);
        self.augment.bias = list(has_bias, &self.room.bias);
        self.point();
    }

    /// Puts each erased value through an operation that has so many numbers.
    fn each_value(&mut self, count: usize, made: impl Fn(usize, f32) -> f32) -> Result<(), Misfit> {
        let erased = self.augment.n_erase as usize;
        for (erase, values) in self.room.erase.iter_mut().zip(&mut self.room.values).take(erased) {
            let before = (erase.n_values as usize).min(CHANNELS_MAX);
            let after = before.max(count).min(CHANNELS_MAX);
            if before < after {
                *values = [values[0]; CHANNELS_MAX];
            }
            for (channel, value) in values.iter_mut().take(after).enumerate() {
                *value = made(channel, *value);
            }
            erase.n_values = after as u32;
        }
        Ok(())
    }
}
