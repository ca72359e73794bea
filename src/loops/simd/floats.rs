//! Steps of rows that go through f32, with AVX2 and AVX-512.
//!
//! In: a vector of integers, halves, bfloats, floats or doubles. Out: one of floats, halves or
//! bfloats. Invariant: the bits of the portable conversions (`convert`).
//!
//! A NaN is made the quiet one of its sign while it is an f32, and every conversion from there
//! keeps it. Integers are clamped to +-65,520, and a double is rounded to odd, on the way to a
//! half, so that the second rounding gives what one would have.
//!
//! Functions that are always inlined carry no features of their own: the kernels of `rows` do.
//! SAFETY of all unsafe blocks below: what [`Step`] asks of its callers is passed on; masked lanes
//! are neither read nor written.

use super::rows::{Step, mask};
use super::{Brain, Half};
use core::arch::x86_64::*;
use core::marker::PhantomData;

/// A type that becomes an f32 on its way.
pub trait FloatSource {
    const BYTES: usize;
    const NARROW: bool = true;

    /// 16 elements. `FOR_HALF`: not the nearest f32, but one that rounds to the nearest half.
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512;

    /// 8 elements.
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256;
}

/// A type that an f32 becomes.
pub trait FloatTarget {
    const BYTES: usize;
    const IS_HALF: bool;

    unsafe fn store16(target: *mut u8, mask: __mmask16, values: __m512);
    unsafe fn store8(target: *mut u8, values: __m256);
}

/// A step through f32.
pub struct ThroughFloat<S, T>(PhantomData<(S, T)>);

impl<S: FloatSource, T: FloatTarget> Step for ThroughFloat<S, T> {
    const SOURCE: usize = S::BYTES;
    const TARGET: usize = T::BYTES;
    const WIDE: usize = 16;
    const NARROW: usize = if S::NARROW { 8 } else { 0 };

    #[inline(always)]
    unsafe fn wide<const FULL: bool>(source: *const u8, target: *mut u8, count: usize) {
        let mask = mask::<FULL>(count) as __mmask16;
        // SAFETY: see above.
        unsafe {
            let values = if T::IS_HALF {
                S::floats16::<true>(source, mask)
            } else {
                S::floats16::<false>(source, mask)
            };
            T::store16(target, mask, values);
        }
    }

    #[inline(always)]
    unsafe fn narrow(source: *const u8, target: *mut u8) {
        // SAFETY: see above.
        unsafe {
            let values =
                if T::IS_HALF { S::floats8::<true>(source) } else { S::floats8::<false>(source) };
            T::store8(target, values);
        }
    }
}

impl FloatTarget for f32 {
    const BYTES: usize = 4;
    const IS_HALF: bool = false;

    #[inline(always)]
    unsafe fn store16(target: *mut u8, mask: __mmask16, values: __m512) {
        // SAFETY: see above.
        unsafe { _mm512_mask_storeu_ps(target.cast(), mask, values) }
    }

    #[inline(always)]
    unsafe fn store8(target: *mut u8, values: __m256) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(target.cast(), values) }
    }
}

impl FloatTarget for Half {
    const BYTES: usize = 2;
    const IS_HALF: bool = true;

    #[inline(always)]
    unsafe fn store16(target: *mut u8, mask: __mmask16, values: __m512) {
        // SAFETY: see above.
        unsafe {
            let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
            _mm256_mask_storeu_epi16(target.cast(), mask, halves);
        }
    }

    #[inline(always)]
    unsafe fn store8(target: *mut u8, values: __m256) {
        // SAFETY: see above.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
            _mm_storeu_si128(target.cast(), halves);
        }
    }
}

/// The upper half of an f32, rounded as the portable code does. There is an instruction for it,
/// but it takes subnormals for 0.
impl FloatTarget for Brain {
    const BYTES: usize = 2;
    const IS_HALF: bool = false;

    #[inline(always)]
    unsafe fn store16(target: *mut u8, mask: __mmask16, values: __m512) {
        // SAFETY: see above.
        unsafe {
            let bits = _mm512_castps_si512(values);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let below = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
            let upper = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, below));
            _mm256_mask_storeu_epi16(target.cast(), mask, _mm512_cvtepi32_epi16(upper));
        }
    }

    #[inline(always)]
    unsafe fn store8(target: *mut u8, values: __m256) {
        // SAFETY: see above.
        unsafe {
            let bits = _mm256_castps_si256(values);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let below = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
            let upper = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, below));
            let packed = _mm256_packus_epi32(upper, upper);
            let brains = _mm256_permute4x64_epi64::<0b10_00>(packed);
            _mm_storeu_si128(target.cast(), _mm256_castsi256_si128(brains));
        }
    }
}

/// A NaN becomes the quiet one of its sign.
#[inline(always)]
unsafe fn quiet16(values: __m512) -> __m512 {
    /// a & b | c.
    const AND_OR: i32 = 0xEA;
    // SAFETY: see above.
    unsafe {
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
        let sign = _mm512_set1_epi32(i32::MIN);
        let quiet = _mm512_set1_epi32(0x7FC0_0000);
        let bits = _mm512_castps_si512(values);
        let bits = _mm512_mask_ternarylogic_epi32::<AND_OR>(bits, is_nan, sign, quiet);
        _mm512_castsi512_ps(bits)
    }
}

#[inline(always)]
unsafe fn quiet8(values: __m256) -> __m256 {
    // SAFETY: see above.
    unsafe {
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
        let sign = _mm256_and_ps(values, _mm256_set1_ps(-0.0));
        let quiet = _mm256_or_ps(sign, _mm256_set1_ps(f32::from_bits(0x7FC0_0000)));
        _mm256_blendv_ps(values, quiet, is_nan)
    }
}

impl FloatSource for f32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: see above.
        unsafe { quiet16(_mm512_maskz_loadu_ps(mask, source.cast())) }
    }

    #[inline(always)]
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
        // SAFETY: see above.
        unsafe { quiet8(_mm256_loadu_ps(source.cast())) }
    }
}

impl FloatSource for Half {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: see above.
        unsafe { quiet16(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, source.cast()))) }
    }

    #[inline(always)]
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
        // SAFETY: see above.
        unsafe { quiet8(_mm256_cvtph_ps(_mm_loadu_si128(source.cast()))) }
    }
}

impl FloatSource for Brain {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let brains = _mm256_maskz_loadu_epi16(mask, source.cast());
            let bits = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(brains));
            quiet16(_mm512_castsi512_ps(bits))
        }
    }

    #[inline(always)]
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(source.cast()));
            quiet8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)))
        }
    }
}

/// Rounded to odd: cut off below the last place of an f32, that place set if anything was lost.
/// What is beyond an f32 is infinite or 0 as a half, too.
impl FloatSource for f64 {
    const BYTES: usize = 8;

    #[inline(always)]
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let low = f64x8::<FOR_HALF>(source, mask as __mmask8);
            let high = f64x8::<FOR_HALF>(source.wrapping_add(64), (mask >> 8) as __mmask8);
            quiet16(joined(low, high))
        }
    }

    #[inline(always)]
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let four = |source: *const u8| {
                let bits = _mm256_loadu_si256(source.cast());
                let below = _mm256_set1_epi64x((1 << 29) - 1);
                // A carry out of the lower bits, if any is set, into the last place.
                let carry = _mm256_add_epi64(_mm256_and_si256(bits, below), below);
                let odd = _mm256_andnot_si256(below, _mm256_or_si256(bits, carry));
                let bits = if FOR_HALF { odd } else { bits };
                _mm256_cvtpd_ps(_mm256_castsi256_pd(bits))
            };
            quiet8(_mm256_set_m128(four(source.add(32)), four(source)))
        }
    }
}

#[inline(always)]
unsafe fn f64x8<const FOR_HALF: bool>(source: *const u8, mask: __mmask8) -> __m256 {
    // SAFETY: see above.
    unsafe {
        let bits = _mm512_maskz_loadu_epi64(mask, source.cast());
        let below = _mm512_set1_epi64((1 << 29) - 1);
        let carry = _mm512_add_epi64(_mm512_and_si512(bits, below), below);
        let odd = _mm512_andnot_si512(below, _mm512_or_si512(bits, carry));
        _mm512_cvtpd_ps(_mm512_castsi512_pd(if FOR_HALF { odd } else { bits }))
    }
}

#[inline(always)]
unsafe fn joined(low: __m256, high: __m256) -> __m512 {
    // SAFETY: see above.
    unsafe { _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high) }
}

/// Integers that an i32 holds: their widening, 16 and 8 at a time.
pub trait IntSource {
    const BYTES: usize;

    unsafe fn ints16(source: *const u8, mask: __mmask16) -> __m512i;
    unsafe fn ints8(source: *const u8) -> __m256i;
}

macro_rules! small_integer {
    ($($element:ty, $load16:ident, $load8:ident, $widen16:ident, $widen8:ident;)*) => {$(
        impl IntSource for $element {
            const BYTES: usize = size_of::<$element>();

            #[inline(always)]
            unsafe fn ints16(source: *const u8, mask: __mmask16) -> __m512i {
                // SAFETY: see above.
                unsafe { $widen16($load16(mask, source.cast())) }
            }

            #[inline(always)]
            unsafe fn ints8(source: *const u8) -> __m256i {
                // SAFETY: see above.
                unsafe { $widen8($load8(source.cast())) }
            }
        }

        impl FloatSource for $element {
            const BYTES: usize = size_of::<$element>();

            #[inline(always)]
            unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
                // SAFETY: see above.
                unsafe { _mm512_cvtepi32_ps(Self::ints16(source, mask)) }
            }

            #[inline(always)]
            unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
                // SAFETY: see above.
                unsafe { _mm256_cvtepi32_ps(Self::ints8(source)) }
            }
        }
    )*};
}

small_integer! {
    u8, _mm_maskz_loadu_epi8, _mm_loadl_epi64, _mm512_cvtepu8_epi32, _mm256_cvtepu8_epi32;
    i8, _mm_maskz_loadu_epi8, _mm_loadl_epi64, _mm512_cvtepi8_epi32, _mm256_cvtepi8_epi32;
    u16, _mm256_maskz_loadu_epi16, _mm_loadu_si128, _mm512_cvtepu16_epi32, _mm256_cvtepu16_epi32;
    i16, _mm256_maskz_loadu_epi16, _mm_loadu_si128, _mm512_cvtepi16_epi32, _mm256_cvtepi16_epi32;
}

impl FloatSource for i32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let whole = _mm512_maskz_loadu_epi32(mask, source.cast());
            let most = _mm512_set1_epi32(65_520);
            let least = _mm512_set1_epi32(-65_520);
            let clamped = _mm512_max_epi32(_mm512_min_epi32(whole, most), least);
            _mm512_cvtepi32_ps(if FOR_HALF { clamped } else { whole })
        }
    }

    #[inline(always)]
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let whole = _mm256_loadu_si256(source.cast());
            let (most, least) = (_mm256_set1_epi32(65_520), _mm256_set1_epi32(-65_520));
            let clamped = _mm256_max_epi32(_mm256_min_epi32(whole, most), least);
            _mm256_cvtepi32_ps(if FOR_HALF { clamped } else { whole })
        }
    }
}

impl FloatSource for u32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: see above.
        unsafe {
            let whole = _mm512_maskz_loadu_epi32(mask, source.cast());
            let clamped = _mm512_min_epu32(whole, _mm512_set1_epi32(65_520));
            _mm512_cvtepu32_ps(if FOR_HALF { clamped } else { whole })
        }
    }

    /// AVX2 converts signed words only. The upper 16 bits become the fraction of a float of
    /// 2^39, the lower ones of 2^23; taking both powers off the upper one is exact, and the sum of
    /// the two rounds once.
    #[inline(always)]
    unsafe fn floats8<const FOR_HALF: bool>(source: *const u8) -> __m256 {
        const POWERS: f32 = ((1u64 << 39) + (1u64 << 23)) as f32;
        // SAFETY: see above.
        unsafe {
            let whole = _mm256_loadu_si256(source.cast());
            if FOR_HALF {
                return _mm256_cvtepi32_ps(_mm256_min_epu32(whole, _mm256_set1_epi32(65_520)));
            }
            let fraction = _mm256_and_si256(whole, _mm256_set1_epi32(0xFFFF));
            let low = _mm256_or_si256(fraction, _mm256_set1_epi32(0x4B00_0000));
            let upper = _mm256_srli_epi32::<16>(whole);
            let high = _mm256_or_si256(upper, _mm256_set1_epi32(0x5300_0000));
            let high = _mm256_sub_ps(_mm256_castsi256_ps(high), _mm256_set1_ps(POWERS));
            _mm256_add_ps(high, _mm256_castsi256_ps(low))
        }
    }
}

macro_rules! long_integer {
    ($($element:ty, $convert:ident, |$whole:ident| $clamp:expr;)*) => {$(
        impl FloatSource for $element {
            const BYTES: usize = 8;
            const NARROW: bool = false;

            #[inline(always)]
            unsafe fn floats16<const FOR_HALF: bool>(source: *const u8, mask: __mmask16) -> __m512 {
                // SAFETY: see above.
                unsafe {
                    let eight = |source: *const u8, mask: __mmask8| {
                        let $whole = _mm512_maskz_loadu_epi64(mask, source.cast());
                        $convert(if FOR_HALF { $clamp } else { $whole })
                    };
                    let low = eight(source, mask as __mmask8);
                    joined(low, eight(source.wrapping_add(64), (mask >> 8) as __mmask8))
                }
            }

            /// AVX2 has no conversion of longs, and a NARROW of 0 says so.
            #[inline(always)]
            unsafe fn floats8<const FOR_HALF: bool>(_source: *const u8) -> __m256 {
                // SAFETY: see above.
                unsafe { _mm256_setzero_ps() }
            }
        }
    )*};
}

long_integer! {
    u64, _mm512_cvtepu64_ps, |whole| _mm512_min_epu64(whole, _mm512_set1_epi64(65_520));
    i64, _mm512_cvtepi64_ps, |whole| {
        let most = _mm512_min_epi64(whole, _mm512_set1_epi64(65_520));
        _mm512_max_epi64(most, _mm512_set1_epi64(-65_520))
    };
}
