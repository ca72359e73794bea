//! Numbers that a recipe draws, by seed, place, name and lane.

use super::{Misfit, NAME_BYTES_MAX};
use crate::sampler::{self, Place, below};

/// The key of a recipe in an epoch: that of the seed, the epoch, and FNV-1a of the name as purpose.
///
/// Source of the hash: Fowler, Noll and Vo, RFC 9923, 64 bits.
pub fn key(seed: u64, epoch: u64, name: &[u8]) -> Result<u64, Misfit> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Misfit::Name);
    }
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    Ok(sampler::key(seed, epoch, name.iter().fold(0xCBF2_9CE4_8422_2325, hash)))
}

/// The seed and the place that draws depend on; names are the third.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    pub seed: u64,
    pub place: Place,
}

impl Draws {
    pub fn of(&self, name: &str) -> Result<Drawn, Misfit> {
        let key = key(self.seed, self.place.epoch, name.as_bytes())?;
        Ok(Drawn { key, position: self.place.position })
    }
}

/// The draws of one recipe for one sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    key: u64,
    position: u64,
}

impl Drawn {
    /// A number below `n`.
    pub fn below(&self, n: u64, lane: u32) -> u64 {
        below(n, self.key, self.position, lane)
    }

    /// Whether what has the probability `p` happens: k < p * 2^24 for a number k below 2^24. Both
    /// sides are exact.
    pub fn happens(&self, p: f32, lane: u32) -> bool {
        (self.below(1 << 24, lane) as f32) < p * (1 << 24) as f32
    }

    /// A number of -1 to 1, a multiple of 2^-23, exact.
    pub fn signed(&self, lane: u32) -> f32 {
        let drawn = self.below((1 << 24) + 1, lane) as i32 - (1 << 23);
        drawn as f32 / (1 << 23) as f32
    }

    /// A number of 0 to 2^32.
    pub fn part(&self, lane: u32) -> u64 {
        self.below((1 << 32) + 1, lane)
    }

    /// A number of -`most` to `most`: `most` times a multiple of 2^-32 of -1 to 1, rounded down.
    pub fn between(&self, most: i64, lane: u32) -> i64 {
        let drawn = self.below((1 << 33) + 1, lane) as i64 - (1 << 32);
        ((i128::from(drawn) * i128::from(most)) >> 32) as i64
    }

    /// The key of noise: of this sample alone.
    pub fn key_of_noise(&self) -> u64 {
        sampler::mix(self.position, self.key)
    }
}
