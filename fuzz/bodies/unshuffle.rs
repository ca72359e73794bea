//! Any bytes as a filtered block: every SIMD level gives, for any part of it, what the definition
//! of the filter gives byte by byte and bit by bit.

use super::choices::Choices;
use wavetrain::decode::unshuffle::{Shuffle, TYPESIZE_MAX, unshuffle, unshuffle_at};
use wavetrain::simd::Level;

/// Bytes of a block: several vectors of every element size up to 16, and sometimes more than what
/// `decode` takes at a time (16 KiB).
const BLOCK_BYTES_MAX: u64 = 6000;
const LARGE_BLOCK_BYTES_MAX: u64 = 50_000;

const POISON: u8 = 0xA5;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    let wanted = choices.one_of(&[Shuffle::Bytes, Shuffle::Bits, Shuffle::None]);
    let typesize = match choices.below(4) {
        0 => 1 + choices.below(TYPESIZE_MAX as u64) as usize,
        _ => choices.one_of(&[1, 2, 3, 4, 8, 16]),
    };
    let is_large = choices.rarely(8);
    let most = if is_large { LARGE_BLOCK_BYTES_MAX } else { BLOCK_BYTES_MAX };
    let mut length = choices.below(most) as usize;
    if choices.rarely(2) {
        length -= length % (8 * typesize);
    }
    let cuts = (choices.word() as usize, choices.word() as usize);
    let (first, limit) = (cuts.0 % (length + 1), cuts.1 % (length + 1));
    let (first, limit) = (first.min(limit), first.max(limit));
    let seed = if choices.rest().is_empty() { &[0x17, 0xE8, 0x03] } else { choices.rest() };
    let paint = (0..length).map(|at| seed[at % seed.len()].wrapping_add((at / seed.len()) as u8));
    let source: Vec<u8> = paint.collect();

    let shuffle = wanted.of_block(typesize as u32, length);
    let whole = unfiltered(shuffle, typesize, &source);
    for (first, limit) in [(0, length), (first, limit)] {
        let expected = &whole[first..limit];
        for level in Level::each() {
            let mut target = vec![POISON; limit - first];
            unshuffle_at(level, shuffle, typesize, &source, first, &mut target);
            assert!(
                target == expected,
                "{shuffle:?} of {typesize} at {level:?}, [{first}, {limit}) of {length}"
            );
        }
        let mut target = vec![POISON; limit - first];
        unshuffle(shuffle, typesize, &source, first, &mut target);
        assert!(target == expected);
    }
}

/// The filter undone as its definition says.
fn unfiltered(shuffle: Shuffle, typesize: usize, source: &[u8]) -> Vec<u8> {
    let count = source.len() / typesize;
    let mut bytes = source.to_vec();
    for at in 0..count * typesize {
        let (element, byte) = (at / typesize, at % typesize);
        bytes[at] = match shuffle {
            Shuffle::None => source[at],
            Shuffle::Bytes => source[byte * count + element],
            Shuffle::Bits => (0..8).fold(0, |value, bit| {
                let row = (byte * 8 + bit) * (count / 8);
                value | (source[row + element / 8] >> (element % 8) & 1) << bit
            }),
        };
    }
    bytes
}
