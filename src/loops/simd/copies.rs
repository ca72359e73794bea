//! The copies of dictionary coders with AVX2: literals, and bytes that are there already once more.
//!
//! In: places inside one target that is initialised as a whole. Out: the copied bytes, and up to
//! [`OVER_BYTES`] behind them that hold anything. Invariant: what the caller says about room is all
//! that is touched. Steps are whole vectors; what a step writes too much is written again by what
//! follows.

use super::inlined::inlined;
use core::arch::asm;
use core::arch::x86_64::*;

/// Bytes that a copy may read and write behind its end.
pub(super) const OVER_BYTES: usize = 32;

/// The longest match of [`repeat_short`]: LZ4's whose length stands in the token.
pub(super) const SHORT_BYTES: usize = 18;

/// Longer copies are the system's.
const OWN_BYTES_MAX: usize = 512;

/// `PATTERNS[d][i]` is `i % d`: what fills 32 bytes with the first `d` of a vector.
static PATTERNS: [[u8; 32]; 17] = {
    let mut patterns = [[0; 32]; 17];
    let mut distance = 1;
    while distance <= 16 {
        let mut at = 0;
        while at < 32 {
            patterns[distance][at] = (at % distance) as u8;
            at += 1;
        }
        distance += 1;
    }
    patterns
};

/// The largest multiple of a distance that 32 bytes hold.
static STEPS: [u8; 17] = {
    let mut steps = [32; 17];
    let mut distance = 1;
    while distance <= 16 {
        steps[distance] = (32 - 32 % distance) as u8;
        distance += 1;
    }
    steps
};

/// Begins a cache line of instructions, for the loop that follows.
#[inline(always)]
pub(super) fn align_loop() {
    // SAFETY: nothing is executed but instructions that do nothing.
    unsafe { asm!(".p2align 6", options(nomem, nostack, preserves_flags)) };
}

// Of all: the CPU has AVX2, and bytes that are read and written are there, as each says.
inlined! {
    /// Copies `count` bytes. Both sides are valid for OVER_BYTES more.
    pub(super) fn literals(source: *const u8, target: *mut u8, count: usize) {
        if count > OWN_BYTES_MAX {
            return target.copy_from_nonoverlapping(source, count);
        }
        copy_steps(source, target, count)
    }

    /// Copies 16 bytes.
    pub(super) fn literals_16(source: *const u8, target: *mut u8) {
        _mm_storeu_si128(target.cast(), _mm_loadu_si128(source.cast()))
    }

    /// Copies 32 bytes.
    pub(super) fn literals_32(source: *const u8, target: *mut u8) {
        _mm256_storeu_si256(target.cast(), _mm256_loadu_si256(source.cast()))
    }

    /// Copies `count` bytes, 32 at a time: 1 step at least. The last begins before `count`.
    fn copy_steps(source: *const u8, target: *mut u8, count: usize) {
        let mut at = 0;
        loop {
            literals_32(source.add(at), target.add(at));
            // The empty instruction keeps the compiler from making a call of memcpy of this loop,
            // which takes longer than the copy.
            asm!("/* {at} */", at = inout(reg) at, options(pure, nomem, nostack, preserves_flags));
            at += 32;
            if at >= count {
                return;
            }
        }
    }

    /// Repeats the up to [`SHORT_BYTES`] bytes from `source` on at `target`, which lies 8 at least
    /// behind it and is valid for SHORT_BYTES. Eight bytes at a time: they are there before the
    /// next eight, and mostly lie inside one store before them, which the CPU forwards at once.
    pub(super) fn repeat_short(source: *const u8, target: *mut u8) {
        for at in [0, 8] {
            let bytes = source.add(at).cast::<u64>().read_unaligned();
            target.add(at).cast::<u64>().write_unaligned(bytes);
        }
        let bytes = source.add(16).cast::<u16>().read_unaligned();
        target.add(16).cast::<u16>().write_unaligned(bytes)
    }

    /// Repeats the up to [`OVER_BYTES`] bytes that begin `distance` before `target`, 1 to 7; the
    /// target is valid for OVER_BYTES.
    pub(super) fn repeat_near(target: *mut u8, distance: usize) {
        let row = PATTERNS.as_ptr().add(distance).cast();
        let bytes = target.sub(distance).cast::<i64>().read_unaligned();
        let bytes = _mm256_broadcastsi128_si256(_mm_cvtsi64_si128(bytes));
        let pattern = _mm256_shuffle_epi8(bytes, _mm256_loadu_si256(row));
        _mm256_storeu_si256(target.cast(), pattern)
    }

    /// Repeats `length` bytes that begin `distance` before `target`, 1 at least; they may reach
    /// into themselves. The target is valid for OVER_BYTES behind them.
    pub(super) fn repeat(target: *mut u8, distance: usize, length: usize) {
        if length <= SHORT_BYTES && distance >= 8 {
            repeat_short(target.sub(distance), target)
        } else {
            repeat_long(target, distance, length)
        }
    }

    /// [`repeat`] for what is mostly long. The tables have a row for each distance up to 16.
    pub(super) fn repeat_long(target: *mut u8, distance: usize, length: usize) {
        let source = target.sub(distance);
        if distance >= 32 {
            return copy_steps(source, target, length);
        }
        let (pattern, step) = if distance > 16 {
            literals_16(source, target);
            (_mm256_loadu_si256(source.cast()), distance)
        } else {
            let row = PATTERNS.as_ptr().add(distance).cast();
            let bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(source.cast()));
            let pattern = _mm256_shuffle_epi8(bytes, _mm256_loadu_si256(row));
            (pattern, usize::from(*STEPS.as_ptr().add(distance)))
        };
        let mut at = 0;
        loop {
            _mm256_storeu_si256(target.add(at).cast(), pattern);
            at += step;
            if at >= length {
                return;
            }
        }
    }

    /// Adds the bytes from `next` on to `length`, up to the first that is not 255, and steps behind
    /// it; false where one of them lies behind `last`. What lies between `next` and `last` can be
    /// read, and a byte more.
    pub(super) fn longer(next: &mut *const u8, last: *const u8, length: &mut usize) -> bool {
        // Ends: every turn takes a byte.
        while *next < last {
            let byte = **next;
            *next = next.add(1);
            *length += usize::from(byte);
            if byte != 255 {
                return true;
            }
            while last.addr() - next.addr() >= 8 {
                if next.cast::<u64>().read_unaligned() != u64::MAX {
                    break;
                }
                *next = next.add(8);
                *length += 8 * 255;
            }
        }
        false
    }
}
