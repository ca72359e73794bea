//! CRC-32 with carry-less multiplication, and Adler-32 with AVX2.
//!
//! In: a state, bytes. Out: the state behind whole vectors of them, and the bytes that are left.
//! Invariant: pieces do not matter; where the CPU lacks the instructions, all bytes are left.

use super::Level;
use super::level::Tier;
use crate::loops::sums::{ADLER_BYTES, ADLER_MODULUS};
use core::arch::x86_64::*;

/// Bytes that a turn of [`crc32_folded`] takes.
const CRC_STEP: usize = 64;

/// Powers of x modulo the polynomial of CRC-32, bits reversed, that move 128 bits on by 512 and by
/// 128 bits (Gopal et al., "Fast CRC Computation Using PCLMULQDQ Instruction", 2009; page 16).
const ON_BY_512: [i64; 2] = [0x1_5444_2BD4, 0x1_C6E4_1596];
const ON_BY_128: [i64; 2] = [0x1_7519_97D0, 0x0_CCAA_009E];

/// Folds `bytes` behind the inverted CRC-32 `state` into 16 bytes of the same remainder, whose
/// state before them is 0, and as many bytes at the end as are no whole vector. None where there
/// are too few, or the CPU has no such instruction.
#[inline(never)]
pub fn crc32_folded(state: u32, bytes: &[u8]) -> Option<([u8; 16], &[u8])> {
    if bytes.len() < 2 * CRC_STEP || Level::here().tier() < Tier::Avx2 {
        return None;
    }
    // SAFETY: the CPU has PCLMULQDQ.
    Some(unsafe { folded(state, bytes) })
}

#[target_feature(enable = "avx2,pclmulqdq")]
fn folded(state: u32, bytes: &[u8]) -> ([u8; 16], &[u8]) {
    let (vectors, rest) = bytes.as_chunks::<16>();
    let (fours, ones) = vectors.as_chunks::<4>();
    // SAFETY: an array of 16 bytes, of any alignment.
    let load = |vector: &[u8; 16]| unsafe { _mm_loadu_si128(vector.as_ptr().cast()) };
    let fold = |sum: __m128i, powers: __m128i, next: __m128i| {
        let low = _mm_clmulepi64_si128::<0x00>(sum, powers);
        let high = _mm_clmulepi64_si128::<0x11>(sum, powers);
        _mm_xor_si128(_mm_xor_si128(low, high), next)
    };
    let mut sums = [_mm_setzero_si128(); 4];
    let mut fours = fours.iter();
    if let Some(first) = fours.next() {
        for at in 0..4 {
            sums[at] = load(&first[at]);
        }
    }
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(state as i32));
    let powers = _mm_set_epi64x(ON_BY_512[1], ON_BY_512[0]);
    for four in fours {
        for at in 0..4 {
            sums[at] = fold(sums[at], powers, load(&four[at]));
        }
    }
    let powers = _mm_set_epi64x(ON_BY_128[1], ON_BY_128[0]);
    let mut sum = sums[0];
    for next in &sums[1..] {
        sum = fold(sum, powers, *next);
    }
    for one in ones {
        sum = fold(sum, powers, load(one));
    }
    let mut left = [0; 16];
    // SAFETY: an array of 16 bytes, of any alignment.
    unsafe { _mm_storeu_si128(left.as_mut_ptr().cast(), sum) };
    (left, rest)
}

/// Vectors that are summed up without a remainder.
const ADLER_VECTORS: usize = ADLER_BYTES / 32;

/// The two sums of Adler-32, both below the modulus, over whole vectors of `bytes`; and the bytes
/// that are left.
#[inline(never)]
pub fn adler32_sums(sums: (u32, u32), bytes: &[u8]) -> ((u32, u32), &[u8]) {
    if Level::here().tier() < Tier::Avx2 {
        return (sums, bytes);
    }
    // SAFETY: the CPU has AVX2.
    unsafe { summed(sums, bytes) }
}

#[target_feature(enable = "avx2")]
fn summed((mut a, mut b): (u32, u32), bytes: &[u8]) -> ((u32, u32), &[u8]) {
    let (vectors, rest) = bytes.as_chunks::<32>();
    // A byte is added to the second sum once for itself and once for each that follows it.
    let times: [i8; 32] = core::array::from_fn(|at| 32 - at as i8);
    // SAFETY: an array of 32 bytes, of any alignment.
    let times = unsafe { _mm256_loadu_si256(times.as_ptr().cast()) };
    let (zero, ones) = (_mm256_setzero_si256(), _mm256_set1_epi16(1));
    for part in vectors.chunks(ADLER_VECTORS) {
        let (mut first, mut earlier, mut second) = (zero, zero, zero);
        for vector in part {
            // SAFETY: an array of 32 bytes, of any alignment.
            let bytes = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
            earlier = _mm256_add_epi32(earlier, first);
            first = _mm256_add_epi32(first, _mm256_sad_epu8(bytes, zero));
            let products = _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, times), ones);
            second = _mm256_add_epi32(second, products);
        }
        let count = 32 * part.len() as u32;
        b = (b + a * count + 32 * sum(earlier) + sum(second)) % ADLER_MODULUS;
        a = (a + sum(first)) % ADLER_MODULUS;
    }
    ((a, b), rest)
}

/// The sum of eight words.
#[target_feature(enable = "avx2")]
fn sum(words: __m256i) -> u32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one) as u32
}
