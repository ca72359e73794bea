//! Sequences of LZ4 blocks with AVX2, as long as there is room for whole vectors.
//!
//! In: a block and its target. Out: how far whole sequences went. Invariant: what is at all unusual
//! (an end that is near, an offset that is wrong) is left to the portable loop, which is the only
//! one that judges: a sequence is taken whole, or not at all.

use super::Level;
use super::copies::{
    OVER_BYTES, SHORT_BYTES, align_loop, literals, literals_16, longer, repeat_long, repeat_near,
    repeat_short,
};
use super::inlined::inlined;
use super::level::Tier;

/// Bytes of the source that each look finds: a token, 16 literals, an offset.
const SOURCE_MARGIN: usize = 32;

/// Bytes of the target: 16 literals and a short match.
const TARGET_MARGIN: usize = 64;

/// Decodes whole sequences from the front of `source` into `target` from `done` on. Returns how
/// many bytes of the source they took, and how many of the target are there then: nothing moves
/// where a margin is short, or the CPU has no AVX2.
#[inline]
pub fn lz4_sequences(source: &[u8], target: &mut [u8], done: usize) -> (usize, usize) {
    let room = source.len() >= SOURCE_MARGIN && target.len() - done >= TARGET_MARGIN;
    if !room || Level::here().tier() < Tier::Avx2 {
        return (0, done);
    }
    // SAFETY: the CPU has AVX2.
    unsafe { sequences(source, target, done) }
}

#[target_feature(enable = "avx2,bmi2")]
fn sequences(source: &[u8], target: &mut [u8], done: usize) -> (usize, usize) {
    assert!(source.len() >= SOURCE_MARGIN && target.len() - done >= TARGET_MARGIN);
    // SAFETY: every place is compared with the last one before it is used; behind the last ones the
    // margins are left.
    unsafe {
        let start = target.as_ptr();
        let (mut from, mut to) = (source.as_ptr(), target.as_mut_ptr().add(done));
        let from_last = from.add(source.len() - SOURCE_MARGIN);
        let to_last = to.add(target.len() - done - TARGET_MARGIN);
        // Ends: every turn takes a token, or is the last.
        'all: while from <= from_last && to <= to_last {
            let (mut token, mut count, mut next, mut end, mut distance, mut copied);
            // What most sequences are, without a jump but the last. Where it lies changes its rate
            // by a fifth, and nothing else keeps the compiler from moving it.
            align_loop();
            loop {
                token = usize::from(*from);
                count = token >> 4;
                if count == 15 {
                    (next, end, distance, copied) = (from.add(1), to, 0, start);
                    break;
                }
                literals_16(from.add(1), to);
                (next, end) = (from.add(count + 3), to.add(count));
                distance = usize::from(next.sub(2).cast::<u16>().read_unaligned().to_le());
                copied = end.wrapping_sub(distance).cast_const();
                if distance < 8 || copied < start || token & 15 == 15 {
                    break;
                }
                repeat_short(copied, end);
                (from, to) = (next, end.add((token & 15) + 4));
                if from > from_last || to > to_last {
                    break 'all;
                }
            }
            if count == 15 {
                if !longer(&mut next, from_last, &mut count)
                    || count > from_last.offset_from_unsigned(next)
                    || count > to_last.offset_from_unsigned(to)
                {
                    break;
                }
                literals(next, to, count);
                (next, end) = (next.add(count + 2), to.add(count));
                distance = usize::from(next.sub(2).cast::<u16>().read_unaligned().to_le());
                copied = end.wrapping_sub(distance).cast_const();
            }
            if distance == 0 || copied < start {
                break;
            }
            let mut length = (token & 15) + 4;
            let limit = to_last.add(TARGET_MARGIN - OVER_BYTES);
            if !repeat_match((&mut next, from_last), (end, limit), distance, &mut length) {
                break;
            }
            (from, to) = (next, end.add(length));
        }
        (from.offset_from_unsigned(source.as_ptr()), to.offset_from_unsigned(start))
    }
}

inlined! {
    /// Repeats a match of any distance, and of the length to which the bytes from `next` on belong
    /// where it is long; false where they leave `last` behind, or the match ends behind `limit`,
    /// behind which OVER_BYTES are left.
    fn repeat_match(
        source: (&mut *const u8, *const u8),
        target: (*mut u8, *mut u8),
        distance: usize,
        length: &mut usize
    ) -> bool {
        let ((next, last), (target, limit)) = (source, target);
        if *length > SHORT_BYTES {
            if !longer(next, last, length) || *length > limit.offset_from_unsigned(target) {
                return false;
            }
            repeat_long(target, distance, *length);
        } else if distance >= 8 {
            repeat_short(target.wrapping_sub(distance).cast_const(), target);
        } else {
            repeat_near(target, distance);
        }
        true
    }
}
