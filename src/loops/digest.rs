//! The digest of a sample: 64 bits over its bytes, of pieces in any order.
//!
//! In: bytes of a sample, from a whole word on. Out: their share of a sum, which [`digest`] closes.
//! include/wavetrain.h has the definition. Invariant: shares add up modulo 2^64, so the digest does
//! not depend on who took which words when. The number of a word goes through the mix with it: then
//! changes in two words cancel no more often than random numbers do.

use crate::loops::simd::{Level, digest_sums};

/// 2^64 over the golden ratio: what the position of a word or of a sample is multiplied with.
pub(crate) const POSITION_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// What each of the two rounds multiplies with.
pub(crate) const ROUND_FACTOR: u64 = 0xD6E8_FEB8_6659_FD93;

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

/// Mixes two numbers so that each bit of either changes about half of the result's bits: for each
/// position it is a bijection. It is what a digest enters a sum with: the sum over samples of
/// `mix(position, digest)` does not depend on the order in which they are added.
pub const fn mix(position: u64, digest: u64) -> u64 {
    let mut word = digest ^ position.wrapping_mul(POSITION_FACTOR);
    word ^= word >> 32;
    word = word.wrapping_mul(ROUND_FACTOR);
    word ^= word >> 32;
    word = word.wrapping_mul(ROUND_FACTOR);
    word ^ word >> 32
}

/// The share of `bytes`, which begin at word number `first` of their sample. Only the end of a
/// sample is no whole word; it is filled up with zeros.
pub fn share(level: Level, bytes: &[u8], first: u64) -> u64 {
    let (mut sum, rest) = digest_sums(level, bytes, first);
    let mut position = first + ((bytes.len() - rest.len()) / WORD_BYTES) as u64;
    let (words, end) = rest.as_chunks::<WORD_BYTES>();
    for word in words {
        position += 1;
        sum = sum.wrapping_add(mix(position, u64::from_le_bytes(*word)));
    }
    if !end.is_empty() {
        let mut word = [0; WORD_BYTES];
        word[..end.len()].copy_from_slice(end);
        sum = sum.wrapping_add(mix(position + 1, u64::from_le_bytes(word)));
    }
    sum
}

/// The digest of a sample of so many bytes, whose shares have this sum.
pub fn digest(bytes: u64, sum: u64) -> u64 {
    mix(bytes, sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn painted(bytes: usize) -> Vec<u8> {
        (0..bytes as u64).map(|at| (mix(at, 77) >> 13) as u8).collect()
    }

    fn of(level: Level, bytes: &[u8]) -> u64 {
        digest(bytes.len() as u64, share(level, bytes, 0))
    }

    /// tests/data/make_digests.py prints them, from the words of the header alone.
    #[test]
    fn digests_are_those_of_the_definition() {
        assert_eq!(mix(0, 0), 0);
        assert_eq!(mix(1, 0), 0x4E17_CF67_001B_3979);
        assert_eq!(mix(u64::MAX, 0x0123_4567_89AB_CDEF), 0x509D_EEEB_E478_5AD4);
        let ramp: Vec<u8> = (0..=255).collect();
        for level in Level::each() {
            assert_eq!(of(level, &[]), 0);
            assert_eq!(of(level, &[0]), 0x0335_B1DA_0F36_39D7);
            assert_eq!(of(level, b"wavetrain"), 0x5132_615E_94C4_98FE);
            assert_eq!(of(level, &ramp), 0x5851_3AD1_543B_76F0);
        }
    }

    #[test]
    fn every_level_gives_the_same_of_every_length_and_alignment() {
        let bytes = painted(700);
        for length in 0..600 {
            for skip in [0, 1, 7, 64] {
                let bytes = &bytes[skip..][..length];
                let expected = of(Level::baseline(), bytes);
                for level in Level::each() {
                    assert_eq!(of(level, bytes), expected, "{level:?}, {length} from {skip}");
                }
            }
        }
    }

    #[test]
    fn pieces_add_up_wherever_they_are_cut() {
        let bytes = painted(1000);
        for level in Level::each() {
            let whole = share(level, &bytes, 0);
            for cut in (0..=bytes.len()).step_by(WORD_BYTES) {
                let (low, high) = bytes.split_at(cut);
                let high = share(level, high, (cut / WORD_BYTES) as u64);
                assert_eq!(share(level, low, 0).wrapping_add(high), whole, "{cut}");
            }
        }
    }

    /// What a plain sum, or one of words without their places, would not see.
    #[test]
    fn words_that_change_places_and_bits_that_flip_twice_are_seen() {
        let bytes = painted(256);
        let whole = of(Level::here(), &bytes);
        let mut seen = Vec::from([whole]);
        for first in 0..32 {
            for second in 0..first {
                let mut swapped = bytes.clone();
                for at in 0..WORD_BYTES {
                    swapped.swap(first * WORD_BYTES + at, second * WORD_BYTES + at);
                }
                seen.push(of(Level::here(), &swapped));
                for bit in 0..64 {
                    let mut flipped = bytes.clone();
                    flipped[first * WORD_BYTES + bit / 8] ^= 1 << (bit % 8);
                    flipped[second * WORD_BYTES + bit / 8] ^= 1 << (bit % 8);
                    seen.push(of(Level::here(), &flipped));
                }
            }
        }
        for byte in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[byte] ^= 1 << bit;
                seen.push(of(Level::here(), &flipped));
            }
        }
        seen.push(of(Level::here(), &bytes[..255]));
        seen.push(of(Level::here(), &[&bytes[..], &[0]].concat()));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    /// Each bit of a word turns each bit of its mix in about half of all words.
    #[test]
    fn every_bit_of_a_word_reaches_the_whole_mix() {
        let mut turned = [[0u32; 64]; 64];
        let words = 4096;
        for number in 0..words {
            let word = mix(number, 5);
            for bit in 0..64 {
                let change = mix(number, word) ^ mix(number, word ^ 1 << bit);
                (0..64).for_each(|to| turned[bit][to] += (change >> to & 1) as u32);
            }
        }
        for (bit, row) in turned.iter().enumerate() {
            for (to, count) in row.iter().enumerate() {
                let share = f64::from(*count) / words as f64;
                assert!((0.45..0.55).contains(&share), "bit {bit} turns bit {to} in {share}");
            }
            let all = row.iter().sum::<u32>() as f64 / (words * 64) as f64;
            assert!((0.48..0.52).contains(&all), "bit {bit} turns {all} of the bits");
        }
    }
}
