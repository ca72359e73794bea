//! The checksums of numcodecs that need no table.
//!
//! In: bytes. Out: their checksum. Invariant: no sum overflows before it is reduced.

use crate::loops::simd::adler32_sums;

/// The largest prime below 2^16.
pub(crate) const ADLER_MODULUS: u32 = 65_521;

/// Most bytes whose sums stay in a u32: the largest n with 255 n (n + 1) / 2 + (n + 1) (65521 - 1)
/// below 2^32 (RFC 1950, as zlib has it).
pub(crate) const ADLER_BYTES: usize = 5552;

/// Most words whose sums stay in a u32, as HDF5 has it.
const FLETCHER_WORDS: usize = 360;

/// Adler-32 of `bytes` (RFC 1950).
pub fn adler32(bytes: &[u8]) -> u32 {
    let ((mut low, mut high), rest) = adler32_sums((1, 0), bytes);
    for piece in rest.chunks(ADLER_BYTES) {
        for byte in piece {
            low += u32::from(*byte);
            high += low;
        }
        low %= ADLER_MODULUS;
        high %= ADLER_MODULUS;
    }
    high << 16 | low
}

/// Fletcher-32 of `bytes` as big-endian 16-bit words, the last one filled up with zeros: HDF5's,
/// which numcodecs writes.
pub fn fletcher32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xFFFF) + (sum >> 16);
    let (mut low, mut high) = (0u32, 0u32);
    let (words, odd) = bytes.as_chunks::<2>();
    for piece in words.chunks(FLETCHER_WORDS) {
        for word in piece {
            low += u32::from(u16::from_be_bytes(*word));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    if let [byte] = odd {
        low += u32::from(*byte) << 8;
        high += low;
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn check_values_of_the_literature_come_out() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
        assert_eq!(fletcher32(b""), 0);
        // What numcodecs 0.16 puts behind them.
        assert_eq!(fletcher32(b"abcd"), 0x2629_C4C6);
        assert_eq!(fletcher32(b"abcde"), 0x4FF0_29C7);
    }

    #[test]
    fn adler32_of_every_length_is_that_of_the_definition() {
        let bytes: std::vec::Vec<u8> =
            (0..12_000usize).map(|at| (at * at / 7 + at) as u8).collect();
        let (mut low, mut high) = (1u32, 0u32);
        for (length, byte) in bytes.iter().enumerate() {
            if length < 700 || length % 97 == 0 {
                assert_eq!(adler32(&bytes[..length]), high << 16 | low, "{length}");
            }
            low = (low + u32::from(*byte)) % ADLER_MODULUS;
            high = (high + low) % ADLER_MODULUS;
        }
    }

    /// Sums of the largest bytes, which come closest to an overflow.
    #[test]
    fn sums_of_long_runs_do_not_overflow() {
        let bytes = vec![0xFF; 3 * ADLER_BYTES + 7];
        let (mut low, mut high) = (1u64, 0u64);
        for byte in &bytes {
            low = (low + u64::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        assert_eq!(u64::from(adler32(&bytes)), high << 16 | low);
        // A word of ones is 0 modulo 2^16 - 1, which the folds write as ones.
        assert_eq!(fletcher32(&vec![0xFF; 2 * 3 * FLETCHER_WORDS]), 0xFFFF_FFFF);
    }
}
