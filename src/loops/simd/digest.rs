//! Digests of samples: the mix of four or eight words at a time.
//!
//! In: bytes, the number of their first word. Out: the sum of the mixes of whole vectors, and the
//! bytes that are left. Invariant: the same sum as the plain loop beside it gives.

use super::Level;
use super::level::Tier;
use crate::loops::digest::{POSITION_FACTOR, ROUND_FACTOR};
use core::arch::x86_64::*;

/// The sum over whole vectors of `bytes`, the first of whose words has number `first`; and the
/// bytes that are left.
#[inline(never)]
pub fn digest_sums(level: Level, bytes: &[u8], first: u64) -> (u64, &[u8]) {
    // SAFETY: the level says that the CPU has the instructions.
    unsafe {
        match level.tier() {
            Tier::Baseline => (0, bytes),
            Tier::Avx2 => narrow(bytes, first),
            Tier::Avx512 | Tier::Avx512Gfni => wide(bytes, first),
        }
    }
}

/// What the positions of the words from number `first` on come to, as many as there are lanes.
fn keys<const LANES: usize>(first: u64) -> [u64; LANES] {
    core::array::from_fn(|lane| (first + 1 + lane as u64).wrapping_mul(POSITION_FACTOR))
}

#[target_feature(enable = "avx2")]
fn narrow(bytes: &[u8], first: u64) -> (u64, &[u8]) {
    let (vectors, rest) = bytes.as_chunks::<32>();
    // SAFETY: an array of 32 bytes, of any alignment.
    let mut key = unsafe { _mm256_loadu_si256(keys::<4>(first).as_ptr().cast()) };
    let step = _mm256_set1_epi64x(POSITION_FACTOR.wrapping_mul(4) as i64);
    let low = _mm256_set1_epi64x(ROUND_FACTOR as u32 as i64);
    let high = _mm256_set1_epi64x((ROUND_FACTOR >> 32) as i64);
    // There is no product of 64 bits: it is that of the low halves and, above, those across. The
    // high half of `mixed` is `above` itself.
    let round = |word: __m256i| {
        let above = _mm256_srli_epi64::<32>(word);
        let mixed = _mm256_xor_si256(word, above);
        let across = _mm256_add_epi64(_mm256_mul_epu32(mixed, high), _mm256_mul_epu32(above, low));
        _mm256_add_epi64(_mm256_mul_epu32(mixed, low), _mm256_slli_epi64::<32>(across))
    };
    let mut sum = _mm256_setzero_si256();
    for vector in vectors {
        // SAFETY: an array of 32 bytes, of any alignment.
        let words = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
        let mixed = round(round(_mm256_xor_si256(words, key)));
        sum = _mm256_add_epi64(sum, _mm256_xor_si256(mixed, _mm256_srli_epi64::<32>(mixed)));
        key = _mm256_add_epi64(key, step);
    }
    let mut lanes = [0u64; 4];
    // SAFETY: an array of 32 bytes, of any alignment.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
    (lanes.into_iter().fold(0, u64::wrapping_add), rest)
}

#[target_feature(enable = "avx512f,avx512dq")]
fn wide(bytes: &[u8], first: u64) -> (u64, &[u8]) {
    let (vectors, rest) = bytes.as_chunks::<64>();
    // SAFETY: an array of 64 bytes, of any alignment.
    let mut key = unsafe { _mm512_loadu_si512(keys::<8>(first).as_ptr().cast()) };
    let step = _mm512_set1_epi64(POSITION_FACTOR.wrapping_mul(8) as i64);
    let factor = _mm512_set1_epi64(ROUND_FACTOR as i64);
    let folded = |word: __m512i| _mm512_xor_si512(word, _mm512_srli_epi64::<32>(word));
    let mut sum = _mm512_setzero_si512();
    for vector in vectors {
        // SAFETY: an array of 64 bytes, of any alignment.
        let words = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
        let once = _mm512_mullo_epi64(folded(_mm512_xor_si512(words, key)), factor);
        sum = _mm512_add_epi64(sum, folded(_mm512_mullo_epi64(folded(once), factor)));
        key = _mm512_add_epi64(key, step);
    }
    (_mm512_reduce_add_epi64(sum) as u64, rest)
}
