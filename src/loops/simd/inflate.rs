//! Symbols of deflate blocks with BMI2 and AVX2, as long as there is room on both sides.
//!
//! In: the codes of a block, bits, the target. Out: the same, further on, and why it stopped.
//! Invariant: it stops between two symbols, before either side ends.
//!
//! As in libdeflate, 56 bits at least are in the buffer where a turn begins, so that up to two
//! literals and a length need no look at how many there are, and the entry of the next symbol is
//! loaded before the bytes of a match are copied.

use super::Level;
use super::copies::{OVER_BYTES, align_loop, repeat};
use super::level::Tier;
use crate::loops::inflate::{
    Bits, CODE_SHIFT, DISTANCE_ROOT, IS_END, IS_LITERAL, IS_SPECIAL, IS_TABLE, LITERAL_ROOT, Stop,
    Tables, VALUE_SHIFT,
};
use core::arch::x86_64::_bzhi_u64;

/// Bytes of the source that a turn reads: it fills the buffer three times, by 8 bytes that it takes
/// in part.
const SOURCE_MARGIN: usize = 32;

/// Bytes of the target that a turn writes: three literals, or two and the longest match.
const TARGET_MARGIN: usize = 3 + 258 + OVER_BYTES;

/// Bits that a distance takes with its code.
const DISTANCE_BITS: u32 = 15 + 13;

/// Decodes symbols into `target` from `done` on.
#[inline]
pub(crate) fn inflate_symbols(
    tables: &Tables,
    bits: &mut Bits<'_>,
    target: &mut [u8],
    done: &mut usize,
) -> Stop {
    let room =
        bits.source.len() - bits.taken >= SOURCE_MARGIN && target.len() - *done >= TARGET_MARGIN;
    if !room || Level::here().tier() < Tier::Avx2 {
        return Stop::Room;
    }
    // SAFETY: the CPU has AVX2 and BMI2.
    unsafe { symbols(tables, bits, target, done) }
}

/// Where a loop is. Of `left` only the lowest six bits count: what is taken from it is an entry, of
/// which only they are bits of the source.
struct Place {
    bits: u64,
    left: u32,
    from: *const u8,
    to: *mut u8,
}

/// # Safety
/// Of all: the margins were compared at the begin of a turn, the tables are those of `inflate`, and
/// the CPU has BMI2.
impl Place {
    /// 56 bits at least are there. What lies above them are the bits that follow.
    #[inline(always)]
    unsafe fn fill(&mut self) {
        // SAFETY: eight bytes of the source are there: the margin is for three such reads.
        unsafe {
            let word = self.from.cast::<u64>().read_unaligned().to_le();
            self.bits |= word.wrapping_shl(self.left);
            self.from = self.from.add(7 - (self.left >> 3 & 7) as usize);
        }
        self.left |= 56;
    }

    /// The entry of the next bits.
    #[inline(always)]
    unsafe fn entry<const ROOT: u32>(&self, table: *const u32) -> u32 {
        // SAFETY: the index is masked.
        unsafe { *table.add(self.bits as usize & ((1 << ROOT) - 1)) }
    }

    /// The entry in the table behind the first one that `entry` says.
    #[inline(always)]
    unsafe fn second(&self, entry: u32, table: *const u32) -> u32 {
        // SAFETY: the entry was made with its table.
        unsafe {
            let index = _bzhi_u64(self.bits, entry >> CODE_SHIFT & 15) as usize;
            *table.add((entry >> VALUE_SHIFT) as usize + index)
        }
    }

    /// Takes the bits of an entry, and says what the bits were before.
    #[inline(always)]
    fn take(&mut self, entry: u32) -> u64 {
        let before = self.bits;
        self.bits = before.wrapping_shr(entry);
        self.left = self.left.wrapping_sub(entry);
        before
    }

    /// Writes a literal.
    #[inline(always)]
    unsafe fn put(&mut self, entry: u32) {
        // SAFETY: the target has its margin, which three literals fit in.
        unsafe {
            *self.to = (entry >> VALUE_SHIFT) as u8;
            self.to = self.to.add(1);
        }
    }

    /// Says where the source is now.
    #[inline(always)]
    unsafe fn give_back(&self, state: &mut Bits<'_>) {
        state.count = self.left & 63;
        // SAFETY: the CPU has BMI2; `from` lies in the source, or right behind it.
        unsafe {
            state.buffer = _bzhi_u64(self.bits, state.count);
            state.taken = self.from.offset_from_unsigned(state.source.as_ptr());
        }
    }

    /// The next distance; None for a code that means nothing.
    #[inline(always)]
    unsafe fn distance(&mut self, table: *const u32) -> Option<usize> {
        // SAFETY: `table` is that of distances, and the source has its margin.
        unsafe {
            let mut entry = self.entry::<DISTANCE_ROOT>(table);
            if (self.left & 63) < DISTANCE_BITS {
                self.fill();
            }
            if entry & IS_SPECIAL != 0 {
                if entry & IS_TABLE != 0 {
                    self.take(DISTANCE_ROOT);
                    entry = self.second(entry, table);
                }
                if entry & IS_SPECIAL != 0 {
                    return None;
                }
            }
            let before = self.take(entry);
            Some(value(entry, before))
        }
    }
}

/// The length or distance of an entry that was taken from the bits `before`.
///
/// # Safety
/// The CPU has BMI2.
#[inline(always)]
unsafe fn value(entry: u32, before: u64) -> usize {
    // SAFETY: the CPU has BMI2.
    let bits = unsafe { _bzhi_u64(before, entry) };
    (entry >> VALUE_SHIFT) as usize + bits.wrapping_shr(entry >> CODE_SHIFT) as usize
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn symbols(tables: &Tables, state: &mut Bits<'_>, target: &mut [u8], done: &mut usize) -> Stop {
    let source = state.source;
    assert!(source.len() - state.taken >= SOURCE_MARGIN && target.len() - *done >= TARGET_MARGIN);
    let (literals, distances) = (tables.literals.as_ptr(), tables.distances.as_ptr());
    // SAFETY: the margins are behind the last places, and both are compared before each turn.
    unsafe {
        let from_last = source.as_ptr().add(source.len() - SOURCE_MARGIN);
        let start = target.as_ptr();
        let to_last = start.add(target.len() - TARGET_MARGIN);
        let (from, to) = (source.as_ptr().add(state.taken), target.as_mut_ptr().add(*done));
        let mut at = Place { bits: state.buffer, left: state.count, from, to };
        at.fill();
        let mut entry = at.entry::<LITERAL_ROOT>(literals);
        align_loop();
        // Ends: every turn takes a symbol at least, or is the last.
        let stop = loop {
            if at.from > from_last || at.to.cast_const() > to_last {
                break Stop::Room;
            }
            let mut before = at.take(entry);
            if entry & IS_LITERAL != 0 {
                at.put(entry);
                entry = at.entry::<LITERAL_ROOT>(literals);
                before = at.take(entry);
                if entry & IS_LITERAL != 0 {
                    at.put(entry);
                    entry = at.entry::<LITERAL_ROOT>(literals);
                    before = at.take(entry);
                }
            }
            if entry & (IS_LITERAL | IS_SPECIAL) != 0 {
                if entry & IS_TABLE != 0 {
                    entry = at.second(entry, literals);
                    before = at.take(entry);
                }
                if entry & IS_LITERAL != 0 {
                    at.put(entry);
                    at.fill();
                    entry = at.entry::<LITERAL_ROOT>(literals);
                    continue;
                }
                if entry & IS_SPECIAL != 0 {
                    break if entry & IS_END != 0 { Stop::End } else { Stop::Wrong };
                }
            }
            let length = value(entry, before);
            let Some(distance) = at.distance(distances) else { break Stop::Wrong };
            if distance > at.to.offset_from_unsigned(start) {
                break Stop::Wrong;
            }
            at.fill();
            entry = at.entry::<LITERAL_ROOT>(literals);
            repeat(at.to, distance, length);
            at.to = at.to.add(length);
        };
        at.give_back(state);
        *done = at.to.offset_from_unsigned(start);
        stop
    }
}
