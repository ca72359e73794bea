//! CRC-32C by the instruction of SSE4.2.

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

/// Advances the inverted CRC-32C `state` over `bytes` with the CPU's own instruction; None where
/// it has none.
#[inline(never)]
pub fn crc32c_state(state: u32, bytes: &[u8]) -> Option<u32> {
    // SAFETY: the instruction exists on this CPU.
    super::level::has_sse42().then(|| unsafe { with_sse42(state, bytes) })
}

#[target_feature(enable = "sse4.2")]
fn with_sse42(state: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<8>();
    let wide = words
        .iter()
        .fold(u64::from(state), |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)));
    tail.iter().fold(wide as u32, |state, byte| _mm_crc32_u8(state, *byte))
}
