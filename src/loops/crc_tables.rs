//! Checksums of 32 bits by table, eight bytes per step ("slicing by 8", Kounavis and Berry 2005),
//! for any polynomial whose bits are reversed.
//!
//! In: the tables of a polynomial, a state, bytes. Out: the state behind them. Invariant: pieces do
//! not matter.
//!
//! The tables are made when they are first used, in static memory: ready-made they are 8 KB of the
//! archive each. Threads that come first at the same time write the same words.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

/// The tables of a polynomial, which is a constant and no field: memory that starts as zeros takes
/// no bytes of the archive.
pub struct Tables<const POLYNOMIAL: u32> {
    /// Whether the words are there: set by whoever wrote them all, before anyone reads one.
    is_made: AtomicBool,
    words: Words,
}

/// `words[k][b]` is the effect of byte `b` followed by `k` zero bytes. Relaxed, as `is_made` orders
/// them.
type Words = [[AtomicU32; 256]; 8];

impl<const POLYNOMIAL: u32> Tables<POLYNOMIAL> {
    pub const fn new() -> Self {
        let words = [const { [const { AtomicU32::new(0) }; 256] }; 8];
        Tables { is_made: AtomicBool::new(false), words }
    }

    /// Makes them, if nobody did.
    pub fn made(&self) -> &Words {
        if !self.is_made.load(Acquire) {
            make(&self.words, POLYNOMIAL);
            self.is_made.store(true, Release);
        }
        &self.words
    }

    /// The state behind `bytes`.
    pub fn sliced(&self, state: u32, bytes: &[u8]) -> u32 {
        let tables = self.made();
        let effect = |level: usize, byte: u8| tables[level][usize::from(byte)].load(Relaxed);
        let (words, tail) = bytes.as_chunks::<8>();
        let state = words.iter().fold(state, |state, word| {
            let [a, b, c, d, e, f, g, h] =
                (u64::from_le_bytes(*word) ^ u64::from(state)).to_le_bytes();
            let first = effect(7, a) ^ effect(6, b) ^ effect(5, c) ^ effect(4, d);
            first ^ effect(3, e) ^ effect(2, f) ^ effect(1, g) ^ effect(0, h)
        });
        tail.iter().fold(state, |state, byte| (state >> 8) ^ effect(0, state as u8 ^ byte))
    }
}

#[cold]
fn make(words: &Words, polynomial: u32) {
    for byte in 0..256 {
        let mut state = byte as u32;
        for _ in 0..8 {
            state = (state >> 1) ^ if state & 1 == 1 { polynomial } else { 0 };
        }
        words[0][byte].store(state, Relaxed);
    }
    for level in 1..8 {
        for byte in 0..256 {
            let before = words[level - 1][byte].load(Relaxed);
            let next = words[0][(before & 0xFF) as usize].load(Relaxed);
            words[level][byte].store((before >> 8) ^ next, Relaxed);
        }
    }
}
