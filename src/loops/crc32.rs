//! CRC-32 (IEEE 802.3, as zlib's `crc32`): the checksum of gzip members.
//!
//! In: bytes in pieces of any length. Out: the checksum. Invariant: pieces do not matter,
//! `crc32(crc32(0, a), b)` is the checksum of `ab`.

use super::crc_tables::Tables;
use crate::loops::simd::crc32_folded;

static TABLES: Tables<0xEDB8_8320> = Tables::new();

/// Makes the tables that a later call would make.
pub fn make_tables() {
    TABLES.made();
}

/// The checksum of the bytes behind `seed` and of `bytes`; `seed` is 0 or an earlier result.
pub fn crc32(seed: u32, bytes: &[u8]) -> u32 {
    let state = match crc32_folded(!seed, bytes) {
        Some((folded, rest)) => TABLES.sliced(TABLES.sliced(0, &folded), rest),
        None => TABLES.sliced(!seed, bytes),
    };
    !state
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!(crc32(0, b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn every_length_alignment_and_cut_agrees_with_the_crc32fast_crate() {
        let bytes: Vec<u8> = (0..700usize).map(|at| (at * at / 7 + at * 31) as u8).collect();
        for start in 0..9 {
            for limit in start..bytes.len() {
                let piece = &bytes[start..limit];
                let (head, tail) = piece.split_at(piece.len() / 3);
                assert_eq!(crc32(crc32(0, head), tail), crc32fast::hash(piece));
            }
        }
    }
}
