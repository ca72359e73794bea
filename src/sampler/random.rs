//! Randomness without a state, and permutations without a table.
//!
//! A number is drawn for a key and a position, again and again the same.

use super::SAMPLES_MAX;

pub use crate::loops::digest::mix;

/// What keys are for, so that draws for different things have nothing to do with each other.
pub mod purpose {
    /// Which sample stands at a position of an epoch.
    pub const SHUFFLE: u64 = 1;
    /// Which part of a split a sample belongs to.
    pub const SPLIT: u64 = 2;
    /// Samples by weight.
    pub const WEIGHTED: u64 = 3;
    /// Sources of a mixture.
    pub const MIXED: u64 = 4;
    /// Where a box begins.
    pub const BOX: u64 = 5;
    /// Where a box begins that holds a point.
    pub const POINT: u64 = 6;
    /// The order of runs.
    pub const RUNS: u64 = 7;
    /// The order in a shuffle window.
    pub const WINDOW: u64 = 8;
    /// The place of the samples that are part of no whole run.
    pub const TAIL: u64 = 9;
    /// Yours: from this number on.
    pub const YOURS: u64 = 1024;
}

/// A key of its own for each seed, epoch and [`purpose`].
pub const fn key(seed: u64, epoch: u64, purpose: u64) -> u64 {
    mix(purpose, mix(epoch, mix(1, seed)))
}

/// The upper 64 bits of a product.
pub(super) const fn mul_high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// Philox 4x32-10: a counter and a key in, four numbers out. The key's lower half is its first
/// word.
///
/// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
pub const fn philox(key: u64, counter: [u32; 4]) -> [u32; 4] {
    let (mut key_0, mut key_1) = (key as u32, (key >> 32) as u32);
    let mut x = counter;
    let mut round = 0;
    while round < 10 {
        let a = 0xD251_1F53 * x[0] as u64;
        let b = 0xCD9E_8D57 * x[2] as u64;
        x = [(b >> 32) as u32 ^ x[1] ^ key_0, b as u32, (a >> 32) as u32 ^ x[3] ^ key_1, a as u32];
        key_0 = key_0.wrapping_add(0x9E37_79B9);
        key_1 = key_1.wrapping_add(0xBB67_AE85);
        round += 1;
    }
    x
}

/// A number below `n`, all equally likely; 0 for `n = 0`. `lane` says which of several numbers of
/// the position it is.
pub const fn below(n: u64, key: u64, position: u64, lane: u32) -> u64 {
    let [a, b, c, d] = philox(key, [position as u32, (position >> 32) as u32, lane, 0]);
    let high = (b as u64) << 32 | a as u64;
    let low = (d as u64) << 32 | c as u64;
    // The upper third of a product of 128 and 64 bits: of 2^128 draws, none of n is ahead by more
    // than one.
    ((high as u128 * n as u128 + mul_high(low, n) as u128) >> 64) as u64
}

/// The number at a position in a row that Fisher and Yates shuffle: from the row 0 on, number
/// `last` goes to the place `other`, at most `last`, and what was there behind it. The way of one
/// place is gone back, so the row itself is not needed.
fn permute_small(n: u64, key: u64, mut position: u64) -> u64 {
    for last in (1..n).rev() {
        let other = mul_high(mix(last + 1, key), last + 1);
        if other == position {
            return last;
        }
        if last == position {
            position = other;
        }
    }
    0
}

/// The number at a position in a shuffled row of `n`: a bijection of `0..n` onto itself, another
/// one for each key, computed for one position at a time.
///
/// None for a position that is not below `n`, and for `n` above [`SAMPLES_MAX`].
pub fn permute(n: u64, key: u64, position: u64) -> Option<u64> {
    if position >= n || n > SAMPLES_MAX {
        return None;
    }
    let keyed = mix(n, key);
    if n < 64 {
        return Some(permute_small(n, keyed, position));
    }
    // A Feistel network on pairs (left, right), left below a power of two near the root of n, right
    // below n over it: at most an eighth more pairs than numbers.
    let bits = (u64::BITS - (n - 1).leading_zeros()).max(6) / 2;
    let (lefts_mask, rights) = ((1u64 << bits) - 1, ((n - 1) >> bits) + 1);
    let mut at = position;
    loop {
        let (mut left, mut right) = (at & lefts_mask, at >> bits);
        for round in 1..=4 {
            left = left.wrapping_add(mix(2 * round, keyed.wrapping_add(right))) & lefts_mask;
            right += mul_high(mix(2 * round + 1, keyed.wrapping_add(left)), rights);
            right -= if right < rights { 0 } else { rights };
        }
        at = right << bits | left;
        // What leaves 0..n goes through it again, which ends, as it is a permutation.
        if at < n {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_known_answers_of_random123() {
        let known = [
            (0, [0; 4], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            (u64::MAX, [u32::MAX; 4], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                0x299f_31d0_a409_3822,
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (key, counter, expected) in known {
            assert_eq!(philox(key, counter), expected);
        }
    }

    /// Where a number of a row of 64 and more stands: the rounds of `permute`, backwards.
    fn position_of(n: u64, key: u64, number: u64) -> u64 {
        let keyed = mix(n, key);
        let bits = (u64::BITS - (n - 1).leading_zeros()) / 2;
        let (lefts, rights) = (1u64 << bits, ((n - 1) >> bits) + 1);
        let mut at = number;
        loop {
            let (mut left, mut right) = (at % lefts, at / lefts);
            for round in (1..=4).rev() {
                let drawn = mul_high(mix(2 * round + 1, keyed.wrapping_add(left)), rights);
                right = (right + rights - drawn) % rights;
                let drawn = mix(2 * round, keyed.wrapping_add(right)) % lefts;
                left = (left + lefts - drawn) % lefts;
            }
            at = right * lefts + left;
            if at < n {
                return at;
            }
        }
    }

    #[test]
    fn permutations_up_to_2_to_62_can_be_gone_back() {
        for bits in 7..=62 {
            for n in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + u64::from(bits < 62)] {
                for k in 0..1000 {
                    let position = mix(k, 5) % n;
                    let number = permute(n, 3, position).unwrap();
                    assert!(number < n);
                    assert_eq!(position_of(n, 3, number), position, "{n}");
                }
            }
        }
    }

    #[test]
    fn nothing_stands_behind_the_end_of_a_row() {
        for n in [0, 1, 63, 64, 65, SAMPLES_MAX] {
            assert_eq!(permute(n, 1, n), None);
            assert!(n == 0 || permute(n, 1, n - 1).unwrap() < n);
        }
        assert_eq!(permute(SAMPLES_MAX + 1, 1, 0), None);
        assert_eq!(below(0, 1, 2, 3), 0);
    }
}
