//! The loops of resampling, compiled for AVX2, and the gathers that AVX2 has.
//!
//! In and out: those of the portable loops. Invariant: the same bits, because it is the same code:
//! the compiler joins no product with a sum.
//!
//! [`strip_linear`] does all that is done to a strip at once, if the two taps along the innermost
//! axis lie side by side: one gather of words has both of eight places.

use super::Level;
use super::inlined::inlined;
use super::level::Tier;
use crate::loops::resample::{self, Floats, LANES, STRIP, Taps, Weights, lerp_lanes};
use crate::records::Dtype;
use core::arch::x86_64::*;

/// Makes a function of each: the portable loop, or the same with AVX2.
macro_rules! at_levels {
    ($($(#[$note:meta])* fn $name:ident = $wide:ident(
        $($argument:ident: $type:ty),* $(,)?
    );)*) => {$(
        $(#[$note])*
        #[inline]
        pub fn $name(level: Level, $($argument: $type),*) {
            if level.tier() == Tier::Baseline {
                return resample::$wide($($argument),*);
            }
            // SAFETY: the level says that the CPU has the instructions.
            unsafe { wide::$wide($($argument),*) }
        }
    )*

        mod wide {
            use super::*;

            $(
                #[target_feature(enable = "avx2")]
                pub fn $wide($($argument: $type),*) {
                    resample::$wide($($argument),*)
                }
            )*
        }
    };
}

at_levels! {
    /// See [`resample::offsets`].
    fn strip_offsets = offsets(
        first: &[i64; 3], step: &[i64; 3], stride: &[u32; 3], offsets: &mut [u32],
    );
    /// See [`resample::weights`].
    fn strip_weights = weights(first: i64, step: i64, weights: &mut [f32]);
    /// See [`resample::lerp`].
    fn strip_lerp = lerp(
        axes: usize, is_exact: bool, floats: &mut Floats, weights: &Weights, count: usize,
    );
}

/// Lerps a strip of elements of a type, all taps of which are inside, to the first of `floats`.
/// False, and nothing is done, where there is no kernel: for most types, if taps along the
/// innermost axis do not lie side by side, and so near the end of `source` that a gather would read
/// past it.
pub fn strip_linear(
    level: Level,
    dtype: Dtype,
    source: &[u8],
    taps: &mut Taps,
    floats: &mut Floats,
) -> bool {
    if level.tier() == Tier::Baseline || taps.axes == 0 || taps.deltas[1] != 1 {
        return false;
    }
    macro_rules! kernel {
        ($pair:ty, $is_exact:literal) => {{
            let one: LinearKernel = linear::<$pair, 1, 2, $is_exact>;
            let more = (linear::<$pair, 2, 4, $is_exact>, linear::<$pair, 3, 8, $is_exact>);
            ([one, more.0, more.1], <$pair>::BYTES)
        }};
    }
    let (kernels, bytes) = match dtype {
        Dtype::U8 => kernel!(U8Pair, false),
        Dtype::U16 => kernel!(U16Pair, false),
        Dtype::I16 => kernel!(I16Pair, false),
        Dtype::F32 => kernel!(F32Pair, true),
        _ => return false,
    };
    // Lanes past the last place read what the first voxel's do.
    let lanes = taps.count.next_multiple_of(LANES);
    taps.offsets[taps.count..lanes].fill(0);
    let largest = taps.offsets[..lanes].iter().copied().fold(0, u32::max);
    let delta = taps.deltas[..taps.number()].iter().step_by(2).copied().fold(0, u32::max);
    let read_bytes = if bytes == 4 { 8 } else { 4 };
    let is_read = (largest as usize + delta as usize) * bytes + read_bytes <= source.len();
    if largest > i32::MAX as u32 || !is_read {
        return false;
    }
    // SAFETY: the level has AVX2. Gathers read that many bytes from an element of a lower tap on,
    // none of which is further than the largest offset and the largest delta.
    unsafe { kernels[taps.axes - 1](source.as_ptr(), taps, &mut floats[0], lanes) };
    true
}

/// Source, taps, target, lanes.
type LinearKernel = unsafe fn(*const u8, &Taps, &mut [[u8; 4]; STRIP], usize);

/// # Safety
/// The CPU has AVX2. `lanes` is a multiple of LANES, at most STRIP; from the element of each lower
/// tap of theirs on, four bytes lie in the source, or two elements of four bytes.
#[target_feature(enable = "avx2")]
unsafe fn linear<P: Pair, const AXES: usize, const TAPS: usize, const IS_EXACT: bool>(
    source: *const u8,
    taps: &Taps,
    target: &mut [[u8; 4]; STRIP],
    lanes: usize,
) {
    for first in (0..lanes).step_by(LANES) {
        let mut values = [[0f32; LANES]; TAPS];
        // SAFETY: as the caller promises; arrays of eight words are as long as a vector.
        unsafe {
            let places = _mm256_loadu_si256(taps.offsets[first..].as_ptr().cast());
            for tap in (0..TAPS).step_by(2) {
                let at = source.add(taps.deltas[tap] as usize * P::BYTES);
                let (low, high) = P::floats(at, places);
                _mm256_storeu_ps(values[tap].as_mut_ptr(), low);
                _mm256_storeu_ps(values[tap + 1].as_mut_ptr(), high);
            }
        }
        lerp_lanes::<AXES, TAPS, IS_EXACT>(&mut values, &taps.weights, first);
        let row = &mut target[first..first + LANES];
        (0..LANES).for_each(|lane| row[lane] = values[0][lane].to_ne_bytes());
    }
}

/// Two elements side by side, as floats.
trait Pair {
    const BYTES: usize;

    /// Both of eight places.
    unsafe fn floats(source: *const u8, places: __m256i) -> (__m256, __m256);
}

macro_rules! pairs {
    ($($name:ident, $bytes:literal, |$word:ident| $low:expr, $high:expr;)*) => {$(
        struct $name;

        impl Pair for $name {
            const BYTES: usize = $bytes;

            inlined! {
                fn floats(source: *const u8, places: __m256i) -> (__m256, __m256) {
                    let $word = _mm256_i32gather_epi32::<$bytes>(source.cast(), places);
                    (_mm256_cvtepi32_ps($low), _mm256_cvtepi32_ps($high))
                }
            }
        }
    )*};
}

pairs! {
    U8Pair, 1, |word| _mm256_and_si256(word, _mm256_set1_epi32(0xFF)),
        _mm256_and_si256(_mm256_srli_epi32::<8>(word), _mm256_set1_epi32(0xFF));
    U16Pair, 2, |word| _mm256_and_si256(word, _mm256_set1_epi32(0xFFFF)),
        _mm256_srli_epi32::<16>(word);
    I16Pair, 2, |word| _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(word)),
        _mm256_srai_epi32::<16>(word);
}

struct F32Pair;

impl Pair for F32Pair {
    const BYTES: usize = 4;

    inlined! {
        fn floats(source: *const u8, places: __m256i) -> (__m256, __m256) {
            let at = source.cast::<f32>();
            (_mm256_i32gather_ps::<4>(at, places), _mm256_i32gather_ps::<4>(at.add(1), places))
        }
    }
}
