//! CRC-64 of ECMA-182 with reversed bits, which is the default checksum of .xz blocks.
//!
//! In: bytes. Out: the checksum. The tables are those of [`super::crc_tables`], with wider words:
//! they are made when they are first used, in memory that takes no bytes of the archive.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

/// Whether the words are there: set by a thread that wrote them all, before any is read.
static IS_MADE: AtomicBool = AtomicBool::new(false);

/// `WORDS[k][b]` is the effect of byte `b` followed by `k` zero bytes. Relaxed, as `IS_MADE` orders
/// them.
static WORDS: [[AtomicU64; 256]; 8] = [const { [const { AtomicU64::new(0) }; 256] }; 8];

/// Makes the tables that a later call would make.
pub fn make_tables() {
    if IS_MADE.load(Acquire) {
        return;
    }
    for byte in 0..256 {
        let mut state = byte as u64;
        for table in &WORDS {
            for _ in 0..8 {
                state = (state >> 1) ^ if state & 1 == 1 { POLYNOMIAL } else { 0 };
            }
            table[byte].store(state, Relaxed);
        }
    }
    IS_MADE.store(true, Release);
}

/// The checksum of the bytes before `seed` and of `bytes`; `seed` is 0 or an earlier result.
pub fn crc64(seed: u64, bytes: &[u8]) -> u64 {
    make_tables();
    let effect = |level: usize, byte: u8| WORDS[level][usize::from(byte)].load(Relaxed);
    let (words, tail) = bytes.as_chunks::<8>();
    let state = words.iter().fold(!seed, |state, word| {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*word) ^ state).to_le_bytes();
        let first = effect(7, a) ^ effect(6, b) ^ effect(5, c) ^ effect(4, d);
        first ^ effect(3, e) ^ effect(2, f) ^ effect(1, g) ^ effect(0, h)
    });
    !tail.iter().fold(state, |state, byte| (state >> 8) ^ effect(0, state as u8 ^ byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out_in_pieces_too() {
        assert_eq!(crc64(0, b"123456789"), 0x995D_C9BB_DF19_39FA);
        assert_eq!(crc64(crc64(0, b"1234"), b"56789"), 0x995D_C9BB_DF19_39FA);
        let bytes = *b"0123456789abcdefghijklmnopqrstuvwxyz";
        for cut in 0..bytes.len() {
            assert_eq!(crc64(crc64(0, &bytes[..cut]), &bytes[cut..]), crc64(0, &bytes));
        }
    }
}
