//! CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of zarr's `crc32c` codec and of shard
//! indexes.
//!
//! In: bytes in pieces of any length. Out: the checksum. Invariant: pieces do not matter,
//! `crc32c(crc32c(0, a), b)` is the checksum of `ab`, and every path gives the same number.

use super::crc_tables::Tables;
use crate::loops::simd;

/// For CPUs without the instruction, and its oracle.
static TABLES: Tables<0x82F6_3B78> = Tables::new();

/// Makes the tables that a later call would make.
pub fn make_tables() {
    TABLES.made();
}

/// The checksum of the bytes behind `seed` and of `bytes`; `seed` is 0 or an earlier result.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !simd::crc32c_state(!seed, bytes).unwrap_or_else(|| TABLES.sliced(!seed, bytes))
}

/// [`crc32c`] without the instruction: for CPUs that have none, and its oracle.
#[cfg(feature = "internals")]
pub fn crc32c_portable(seed: u32, bytes: &[u8]) -> u32 {
    !TABLES.sliced(!seed, bytes)
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
        assert_eq!(!TABLES.sliced(!0, b"123456789"), 0xE306_9283);
    }

    #[test]
    fn every_length_and_alignment_agrees_with_the_crc32c_crate() {
        let bytes = noise(300);
        for start in 0..9 {
            for limit in start..bytes.len() {
                let piece = &bytes[start..limit];
                assert_eq!(crc32c(0, piece), ::crc32c::crc32c(piece));
                assert_eq!(!TABLES.sliced(!0, piece), ::crc32c::crc32c(piece));
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
