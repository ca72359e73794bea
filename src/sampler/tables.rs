//! Splits, weights and mixtures, from tables in the caller's memory.
//!
//! A subset is a table of samples: an epoch of as many, and `table[sample]`.

use super::random::{below, key, mix, permute, purpose};
use super::{Misfit, Place, SAMPLES_MAX};
use core::ops::Range;

/// Parts of a stratified split at most.
const PARTS_MAX: usize = 64;

/// The positions of a part of `n` samples that are split as the weights are to each other: of
/// `[8, 1, 1]` part 0 trains, 1 validates and 2 tests. Nothing where all weights are 0.
///
/// They are positions of one permutation that never changes, `permute(n, key(seed, 0,
/// purpose::SPLIT), position)`, so parts share no sample; a part's epoch is one of `end - start`
/// samples.
pub fn part(n: u64, weights: &[u32], part: usize) -> Range<u64> {
    let sum = |count: usize| -> u64 { weights.iter().take(count).map(|w| u64::from(*w)).sum() };
    let total = u128::from(sum(weights.len()));
    let at = |part: usize| match total {
        0 => 0,
        _ => (u128::from(n) * u128::from(sum(part)) / total) as u64,
    };
    at(part)..at(part.saturating_add(1))
}

/// Groups samples by label, in order: those of label `c` are `table[ends[c - 1]..ends[c]]`, from 0
/// for the first. There are as many labels as `ends` is long, and `table` is as long as `label_of`.
pub fn group(label_of: &[u32], ends: &mut [u64], table: &mut [u64]) -> Result<(), Misfit> {
    if table.len() != label_of.len() {
        return Err(Misfit::Memory);
    }
    ends.fill(0);
    for label in label_of {
        *ends.get_mut(*label as usize).ok_or(Misfit::Labels)? += 1;
    }
    let mut before = 0;
    for end in ends.iter_mut() {
        before += core::mem::replace(end, before);
    }
    for (sample, label) in (0..).zip(label_of) {
        let end = &mut ends[*label as usize];
        table[*end as usize] = sample;
        *end += 1;
    }
    Ok(())
}

/// Splits what [`group`] has grouped so that each part has its share of each label: labels are
/// shuffled, and their samples go to the part that is furthest behind. Writes the samples of one
/// part to `subset`, and says how many there are. At most 64 parts.
pub fn stratify(
    ends: &[u64],
    table: &[u64],
    weights: &[u32],
    part: usize,
    seed: u64,
    subset: &mut [u64],
) -> Result<usize, Misfit> {
    let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    if weights.len() > PARTS_MAX || total == 0 {
        return Err(Misfit::Weights);
    }
    let mut behind = [0i64; PARTS_MAX];
    let behind = &mut behind[..weights.len()];
    let (mut count, mut begin) = (0, 0);
    for (label, end) in (0..).zip(ends) {
        let samples = table.get(begin as usize..*end as usize).ok_or(Misfit::Labels)?;
        let key = key(seed, label, purpose::SPLIT);
        let n = samples.len() as u64;
        for place in 0..n {
            let mut most = 0;
            for k in 0..behind.len() {
                behind[k] += i64::from(weights[k]);
                most = if behind[k] > behind[most] { k } else { most };
            }
            behind[most] -= total;
            if most == part {
                let drawn = permute(n, key, place).ok_or(Misfit::Samples)?;
                *subset.get_mut(count).ok_or(Misfit::Memory)? = samples[drawn as usize];
                count += 1;
            }
        }
        begin = *end;
    }
    Ok(count)
}

/// Adds up weights in place, for [`weighted`].
pub fn accumulate(weights: &mut [u64]) -> Result<(), Misfit> {
    let mut sum = 0u64;
    for weight in weights {
        sum = sum.checked_add(*weight).ok_or(Misfit::Weights)?;
        *weight = sum;
    }
    Ok(())
}

/// Draws a sample as often as its weight says, with replacement. `sums` is what [`accumulate`]
/// made. None where all weights are 0.
pub fn weighted(sums: &[u64], seed: u64, place: Place) -> Option<u64> {
    let total = *sums.last()?;
    if total == 0 {
        return None;
    }
    let key = key(seed, place.epoch, purpose::WEIGHTED);
    let drawn = below(total, key, place.position, 0);
    Some(sums.partition_point(|sum| *sum <= drawn) as u64)
}

/// One of several sources that are mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Share {
    /// Its samples.
    pub samples: u64,
    /// Samples that it gives to each block; 0: it gives none.
    pub weight: u32,
}

/// Several sources, mixed in blocks of as many positions as the weights' sum. In a block each
/// source comes as often as its weight says, shuffled; a source gives all its samples, shuffled,
/// before it gives one again. Classes of one data set as sources of weight 1 are sampling balanced
/// by class.
#[derive(Clone, Copy, Debug)]
pub struct Mixture<'a> {
    shares: &'a [Share],
    total: u64,
}

impl<'a> Mixture<'a> {
    /// A mixture of sources whose weights add up to less than 2^32.
    pub fn new(shares: &'a [Share]) -> Result<Mixture<'a>, Misfit> {
        let gives = |share: &&Share| share.weight > 0;
        for share in shares.iter().filter(gives) {
            if share.samples == 0 || share.samples > SAMPLES_MAX {
                return Err(Misfit::Source);
            }
        }
        let total = shares.iter().fold(0u64, |sum, share| sum.saturating_add(share.weight.into()));
        if total == 0 || total > u64::from(u32::MAX) {
            return Err(Misfit::Weights);
        }
        Ok(Mixture { shares, total })
    }

    /// Which source a place is for, and which of its samples it gets.
    pub fn at(&self, seed: u64, place: Place) -> Option<(usize, u64)> {
        let key = key(seed, place.epoch, purpose::MIXED);
        let (block, within) = (place.position / self.total, place.position % self.total);
        let mut turn = permute(self.total, mix(block, key), within)?;
        for (source, share) in self.shares.iter().enumerate() {
            let weight = u64::from(share.weight);
            if turn >= weight {
                turn -= weight;
                continue;
            }
            let drawn = (block * weight).wrapping_add(turn);
            let pass = super::key(key, source as u64, drawn / share.samples);
            return Some((source, permute(share.samples, pass, drawn % share.samples)?));
        }
        None
    }
}
