//! Instructions of blosclz streams with AVX2, as long as there is room for whole vectors.
//!
//! In: a stream and its target. Out: how far whole instructions went. Invariant: what is at all
//! unusual (an end that is near, a distance that is wrong) is left to the portable loop, which is
//! the only one that judges: an instruction is taken whole, or not at all.

use super::Level;
use super::copies::{OVER_BYTES, align_loop, literals_32, longer, repeat};
use super::level::Tier;

/// Bytes of the source that each look finds: an instruction and 32 literals; or a match, and a byte
/// behind it.
const SOURCE_MARGIN: usize = 48;

/// Bytes of the target: 32 literals, or a match of up to 18 bytes.
const TARGET_MARGIN: usize = 2 * OVER_BYTES;

/// Decodes whole instructions from the front of `source` into `target` from `done` on. Returns how
/// many bytes of the source they took, and how many of the target are there then: nothing moves
/// where a margin is short, or the CPU has no AVX2.
#[inline]
pub fn blosclz_instructions(source: &[u8], target: &mut [u8], done: usize) -> (usize, usize) {
    let room = source.len() >= SOURCE_MARGIN && target.len() - done >= TARGET_MARGIN;
    if !room || Level::here().tier() < Tier::Avx2 {
        return (0, done);
    }
    // SAFETY: the CPU has AVX2.
    unsafe { instructions(source, target, done) }
}

#[target_feature(enable = "avx2,bmi2")]
fn instructions(source: &[u8], target: &mut [u8], done: usize) -> (usize, usize) {
    assert!(source.len() >= SOURCE_MARGIN && target.len() - done >= TARGET_MARGIN);
    // SAFETY: every place is compared with the last one before it is used; behind the last ones the
    // margins are left.
    unsafe {
        let start = target.as_ptr();
        let (mut from, mut to) = (source.as_ptr(), target.as_mut_ptr().add(done));
        let (from_last, to_last) =
            (from.add(source.len() - SOURCE_MARGIN), to.add(target.len() - done - TARGET_MARGIN));
        align_loop();
        // Ends: every turn takes an instruction, or is the last.
        while from <= from_last && to <= to_last {
            let instruction = usize::from(*from);
            if instruction < 32 {
                literals_32(from.add(1), to);
                (from, to) = (from.add(instruction + 2), to.add(instruction + 1));
                continue;
            }
            let mut next = from.add(1);
            let mut length = instruction >> 5;
            if length == 7 && !longer(&mut next, from_last, &mut length) {
                break;
            }
            length += 2;
            let mut distance = ((instruction & 31) << 8) + usize::from(*next) + 1;
            next = next.add(1);
            if distance == 8192 {
                let far = next.cast::<u16>().read_unaligned();
                distance = usize::from(u16::from_be(far)) + 8192;
                next = next.add(2);
            }
            if distance > to.offset_from_unsigned(start)
                || length > to_last.add(TARGET_MARGIN - OVER_BYTES).offset_from_unsigned(to)
            {
                break;
            }
            repeat(to, distance, length);
            (from, to) = (next, to.add(length));
        }
        (from.offset_from_unsigned(source.as_ptr()), to.offset_from_unsigned(start))
    }
}
