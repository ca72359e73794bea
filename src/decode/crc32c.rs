//! CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of zarr's `crc32c` codec and of shard
//! indexes.
//!
//! In: bytes in pieces of any length. Out: the checksum. Invariant: pieces do not matter,
//! `crc32c(crc32c(0, a), b)` is the checksum of `ab`, and every path gives the same number.

use crate::simd;

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// `TABLES[k][b]` is the effect of byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

/// The checksum of the bytes behind `seed` and of `bytes`; `seed` is 0 or an earlier result.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !simd::crc32c_state(!seed, bytes).unwrap_or_else(|| sliced(!seed, bytes))
}

/// Eight bytes per step by table: for CPUs without the instruction, and its oracle.
fn sliced(state: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<8>();
    let state = words.iter().fold(state, |state, word| {
        let mixed = (u64::from_le_bytes(*word) ^ u64::from(state)).to_le_bytes();
        (0..8).fold(0, |next, at| next ^ TABLES[7 - at][mixed[at] as usize])
    });
    tail.iter().fold(state, |state, byte| (state >> 8) ^ TABLES[0][(state as u8 ^ byte) as usize])
}

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            state = (state >> 1) ^ if state & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = state;
        byte += 1;
    }
    let mut level = 1;
    while level < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[level - 1][byte];
            tables[level][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        level += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn noise(count: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let step = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        std::iter::repeat_with(step).take(count).collect()
    }

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(!sliced(!0, b"123456789"), 0xE306_9283);
    }

    #[test]
    fn every_length_and_alignment_agrees_with_the_crc32c_crate() {
        let bytes = noise(300);
        for start in 0..9 {
            for limit in start..bytes.len() {
                let piece = &bytes[start..limit];
                assert_eq!(crc32c(0, piece), ::crc32c::crc32c(piece));
                assert_eq!(!sliced(!0, piece), ::crc32c::crc32c(piece));
            }
        }
    }

    #[test]
    fn pieces_of_any_length_give_the_checksum_of_the_whole() {
        let bytes = noise(100);
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(crc32c(crc32c(0, head), tail), ::crc32c::crc32c(&bytes));
        }
    }
}
