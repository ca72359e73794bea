//! Steps of rows that go through f32, with AVX2 and AVX-512.
//!
//! In: a vector of integers, halves, bfloats, floats or doubles. Out: one of floats, halves or
//! bfloats. Invariant: the bits of the portable conversions (`convert`).
//!
//! A NaN is made the quiet one of its sign while it is an f32, and every conversion from there
//! keeps it. Integers are clamped to +-65,520, and a double is rounded to odd, on the way to a
//! half, so that the second rounding gives what one would have.
//!
//! A conversion is written once, in the operations of a [`Width`].

use super::inlined::inlined;
use super::rows::{Step, mask};
use super::{Brain, Half};
use core::arch::x86_64::*;
use core::marker::PhantomData;

/// Vectors of eight floats.
pub struct Avx2;

/// Vectors of sixteen floats, some of which may be left out.
pub struct Avx512;

/// Makes the operations: of AVX2, then of AVX-512.
macro_rules! widths {
    ($($(#[$note:meta])* $name:ident$([$($generic:tt)*])?($($argument:ident: $type:ty),*)
        $(-> $result:ty)? = $narrow:block $wide:block)*) => {
        /// The operations on vectors of one width.
        ///
        /// # Safety
        /// Of all: the CPU has the instructions; pointers are valid for the lanes of the mask.
        pub trait Width {
            type Floats: Copy;
            type Ints: Copy;
            /// Which lanes are there.
            type Mask: Copy;

            $($(#[$note])* unsafe fn $name$(<$($generic)*>)?($($argument: $type),*)
                $(-> $result)?;)*
        }

        #[allow(unused_variables)] // all lanes are there
        impl Width for Avx2 {
            type Floats = __m256;
            type Ints = __m256i;
            type Mask = ();

            inlined! {
                $(fn $name$([$($generic)*])?($($argument: $type),*) $(-> $result)? $narrow)*
            }
        }

        impl Width for Avx512 {
            type Floats = __m512;
            type Ints = __m512i;
            type Mask = __mmask16;

            inlined! {
                $(fn $name$([$($generic)*])?($($argument: $type),*) $(-> $result)? $wide)*
            }
        }
    };
}

#[rustfmt::skip] // one operation, one line, where it fits
widths! {
    u8s(source: *const u8, mask: Self::Mask) -> Self::Ints =
        { _mm256_cvtepu8_epi32(_mm_loadl_epi64(source.cast())) }
        { _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, source.cast())) }
    i8s(source: *const u8, mask: Self::Mask) -> Self::Ints =
        { _mm256_cvtepi8_epi32(_mm_loadl_epi64(source.cast())) }
        { _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, source.cast())) }
    u16s(source: *const u8, mask: Self::Mask) -> Self::Ints =
        { _mm256_cvtepu16_epi32(_mm_loadu_si128(source.cast())) }
        { _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, source.cast())) }
    i16s(source: *const u8, mask: Self::Mask) -> Self::Ints =
        { _mm256_cvtepi16_epi32(_mm_loadu_si128(source.cast())) }
        { _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask, source.cast())) }
    i32s(source: *const u8, mask: Self::Mask) -> Self::Ints =
        { _mm256_loadu_si256(source.cast()) }
        { _mm512_maskz_loadu_epi32(mask, source.cast()) }
    halves(source: *const u8, mask: Self::Mask) -> Self::Floats =
        { _mm256_cvtph_ps(_mm_loadu_si128(source.cast())) }
        { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, source.cast())) }
    splat(value: i32) -> Self::Ints = { _mm256_set1_epi32(value) } { _mm512_set1_epi32(value) }
    and(a: Self::Ints, b: Self::Ints) -> Self::Ints =
        { _mm256_and_si256(a, b) } { _mm512_and_si512(a, b) }
    add(a: Self::Ints, b: Self::Ints) -> Self::Ints =
        { _mm256_add_epi32(a, b) } { _mm512_add_epi32(a, b) }
    min(a: Self::Ints, b: Self::Ints) -> Self::Ints =
        { _mm256_min_epi32(a, b) } { _mm512_min_epi32(a, b) }
    max(a: Self::Ints, b: Self::Ints) -> Self::Ints =
        { _mm256_max_epi32(a, b) } { _mm512_max_epi32(a, b) }
    min_unsigned(a: Self::Ints, b: Self::Ints) -> Self::Ints =
        { _mm256_min_epu32(a, b) } { _mm512_min_epu32(a, b) }
    /// The upper 16 bits of each word, as the lower ones.
    upper(a: Self::Ints) -> Self::Ints =
        { _mm256_srli_epi32::<16>(a) } { _mm512_srli_epi32::<16>(a) }
    /// The lower ones as the upper ones.
    raised(a: Self::Ints) -> Self::Ints =
        { _mm256_slli_epi32::<16>(a) } { _mm512_slli_epi32::<16>(a) }
    from_bits(a: Self::Ints) -> Self::Floats =
        { _mm256_castsi256_ps(a) } { _mm512_castsi512_ps(a) }
    to_bits(a: Self::Floats) -> Self::Ints =
        { _mm256_castps_si256(a) } { _mm512_castps_si512(a) }
    from_ints(a: Self::Ints) -> Self::Floats =
        { _mm256_cvtepi32_ps(a) } { _mm512_cvtepi32_ps(a) }
    /// AVX2 converts signed words only. The upper 16 bits become the fraction of a float of 2^39,
    /// the lower ones of 2^23; taking both powers off the upper one is exact, and the sum of the
    /// two rounds once.
    from_unsigned(whole: Self::Ints) -> Self::Floats = {
        const POWERS: f32 = ((1u64 << 39) + (1u64 << 23)) as f32;
        let fraction = _mm256_and_si256(whole, _mm256_set1_epi32(0xFFFF));
        let low = _mm256_or_si256(fraction, _mm256_set1_epi32(0x4B00_0000));
        let upper = _mm256_srli_epi32::<16>(whole);
        let high = _mm256_or_si256(upper, _mm256_set1_epi32(0x5300_0000));
        let high = _mm256_sub_ps(_mm256_castsi256_ps(high), _mm256_set1_ps(POWERS));
        _mm256_add_ps(high, _mm256_castsi256_ps(low))
    } { _mm512_cvtepu32_ps(whole) }
    /// A NaN becomes the quiet one of its sign.
    quiet(values: Self::Floats) -> Self::Floats = {
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
        let sign = _mm256_and_ps(values, _mm256_set1_ps(-0.0));
        let quiet = _mm256_or_ps(sign, _mm256_set1_ps(f32::from_bits(0x7FC0_0000)));
        _mm256_blendv_ps(values, quiet, is_nan)
    } {
        /// a & b | c.
        const AND_OR: i32 = 0xEA;
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
        let (sign, quiet) = (_mm512_set1_epi32(i32::MIN), _mm512_set1_epi32(0x7FC0_0000));
        let bits = _mm512_castps_si512(values);
        let bits = _mm512_mask_ternarylogic_epi32::<AND_OR>(bits, is_nan, sign, quiet);
        _mm512_castsi512_ps(bits)
    }
    /// Doubles; `FOR_HALF`: rounded to odd, cut off below the last place of an f32, that place set
    /// if anything was lost, by a carry out of the lower bits into it. What is beyond an f32 is
    /// infinite or 0 as a half, too.
    doubles[const FOR_HALF: bool](source: *const u8, mask: Self::Mask) -> Self::Floats = {
        fours(source, #[inline(always)] |bits| {
            let below = _mm256_set1_epi64x((1 << 29) - 1);
            let carry = _mm256_add_epi64(_mm256_and_si256(bits, below), below);
            let odd = _mm256_andnot_si256(below, _mm256_or_si256(bits, carry));
            _mm256_cvtpd_ps(_mm256_castsi256_pd(if FOR_HALF { odd } else { bits }))
        })
    } {
        eights(source, mask, #[inline(always)] |bits| {
            let below = _mm512_set1_epi64((1 << 29) - 1);
            let carry = _mm512_add_epi64(_mm512_and_si512(bits, below), below);
            let odd = _mm512_andnot_si512(below, _mm512_or_si512(bits, carry));
            _mm512_cvtpd_ps(_mm512_castsi512_pd(if FOR_HALF { odd } else { bits }))
        })
    }
    /// AVX2 has no conversion of longs, and NARROW says so.
    longs[const FOR_HALF: bool](source: *const u8, mask: Self::Mask) -> Self::Floats =
        { _mm256_setzero_ps() }
    {
        eights(source, mask, #[inline(always)] |whole| {
            let clamped = _mm512_min_epi64(whole, _mm512_set1_epi64(65_520));
            let clamped = _mm512_max_epi64(clamped, _mm512_set1_epi64(-65_520));
            _mm512_cvtepi64_ps(if FOR_HALF { clamped } else { whole })
        })
    }
    unsigned_longs[const FOR_HALF: bool](source: *const u8, mask: Self::Mask) -> Self::Floats =
        { _mm256_setzero_ps() }
    {
        eights(source, mask, #[inline(always)] |whole| {
            let clamped = _mm512_min_epu64(whole, _mm512_set1_epi64(65_520));
            _mm512_cvtepu64_ps(if FOR_HALF { clamped } else { whole })
        })
    }
    /// The integers that floats are cut off to, clamped to those of 32 bits; NaN is 0.
    whole(values: Self::Floats) -> Self::Ints = {
        let numbers = _mm256_and_ps(values, _mm256_cmp_ps::<_CMP_ORD_Q>(values, values));
        let beyond = _mm256_cmp_ps::<_CMP_GE_OQ>(numbers, _mm256_set1_ps(2_147_483_648.0));
        // What is beyond either end becomes the least integer, whose complement is the greatest.
        _mm256_xor_si256(_mm256_cvttps_epi32(numbers), _mm256_castps_si256(beyond))
    } {
        let ordered = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(values, values);
        let beyond = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, _mm512_set1_ps(2_147_483_648.0));
        let whole = _mm512_maskz_cvttps_epi32(ordered, values);
        _mm512_mask_set1_epi32(whole, beyond, i32::MAX)
    }
    store_floats(target: *mut u8, mask: Self::Mask, values: Self::Floats) =
        { _mm256_storeu_ps(target.cast(), values) }
        { _mm512_mask_storeu_ps(target.cast(), mask, values) }
    store_halves(target: *mut u8, mask: Self::Mask, values: Self::Floats) = {
        let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
        _mm_storeu_si128(target.cast(), halves)
    } {
        let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
        _mm256_mask_storeu_epi16(target.cast(), mask, halves)
    }
    /// Words below 2^16.
    store_u16s(target: *mut u8, mask: Self::Mask, words: Self::Ints) = {
        let packed = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(words, words));
        _mm_storeu_si128(target.cast(), _mm256_castsi256_si128(packed))
    } { _mm256_mask_storeu_epi16(target.cast(), mask, _mm512_cvtepi32_epi16(words)) }
    /// The low 8, 16 or 32 bits of words.
    store_low[const BYTES: usize](target: *mut u8, mask: Self::Mask, words: Self::Ints) = {
        match BYTES {
            4 => _mm256_storeu_si256(target.cast(), words),
            2 => Self::store_u16s(target, mask, Self::and(words, Self::splat(0xFFFF))),
            _ => {
                let low = Self::and(words, Self::splat(0xFF));
                let halves = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(low, low));
                let halves = _mm256_castsi256_si128(halves);
                _mm_storel_epi64(target.cast(), _mm_packus_epi16(halves, halves))
            }
        }
    } {
        match BYTES {
            4 => _mm512_mask_storeu_epi32(target.cast(), mask, words),
            2 => Self::store_u16s(target, mask, words),
            _ => _mm_mask_storeu_epi8(target.cast(), mask, _mm512_cvtepi32_epi8(words)),
        }
    }
}

inlined! {
    /// Eight floats of eight longs, four at a time.
    fn fours[C: Fn(__m256i) -> __m128](source: *const u8, convert: C) -> __m256 {
        let low = convert(_mm256_loadu_si256(source.cast()));
        _mm256_set_m128(convert(_mm256_loadu_si256(source.add(32).cast())), low)
    }

    /// Sixteen floats of sixteen longs, eight at a time.
    fn eights[C: Fn(__m512i) -> __m256](source: *const u8, mask: __mmask16, convert: C) -> __m512 {
        let low = convert(_mm512_maskz_loadu_epi64(mask as __mmask8, source.cast()));
        let next = source.wrapping_add(64).cast();
        let high = convert(_mm512_maskz_loadu_epi64((mask >> 8) as __mmask8, next));
        _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
    }
}

/// A type that becomes an f32 on its way.
pub trait FloatSource {
    const BYTES: usize;
    const HAS_NARROW: bool;

    /// A vector. `FOR_HALF`: not the nearest f32, but one that rounds to the nearest half.
    unsafe fn floats<W: Width, const FOR_HALF: bool>(source: *const u8, mask: W::Mask)
    -> W::Floats;
}

macro_rules! sources {
    ($($type:ty, $has_narrow:literal, |$source:ident, $mask:ident| $body:block)*) => {$(
        impl FloatSource for $type {
            const BYTES: usize = size_of::<$type>();
            const HAS_NARROW: bool = $has_narrow;

            inlined! {
                fn floats[W: Width, const FOR_HALF: bool](
                    $source: *const u8, $mask: W::Mask
                ) -> W::Floats $body
            }
        }
    )*};
}

sources! {
    u8, true, |source, mask| { W::from_ints(W::u8s(source, mask)) }
    i8, true, |source, mask| { W::from_ints(W::i8s(source, mask)) }
    u16, true, |source, mask| { W::from_ints(W::u16s(source, mask)) }
    i16, true, |source, mask| { W::from_ints(W::i16s(source, mask)) }
    u32, true, |source, mask| {
        let whole = W::i32s(source, mask);
        if FOR_HALF {
            W::from_ints(W::min_unsigned(whole, W::splat(65_520)))
        } else {
            W::from_unsigned(whole)
        }
    }
    i32, true, |source, mask| {
        let whole = W::i32s(source, mask);
        let clamped = W::max(W::min(whole, W::splat(65_520)), W::splat(-65_520));
        W::from_ints(if FOR_HALF { clamped } else { whole })
    }
    u64, false, |source, mask| { W::unsigned_longs::<FOR_HALF>(source, mask) }
    i64, false, |source, mask| { W::longs::<FOR_HALF>(source, mask) }
    Half, true, |source, mask| { W::quiet(W::halves(source, mask)) }
    Brain, true, |source, mask| { W::quiet(W::from_bits(W::raised(W::u16s(source, mask)))) }
    f32, true, |source, mask| { W::quiet(W::from_bits(W::i32s(source, mask))) }
    f64, true, |source, mask| { W::quiet(W::doubles::<FOR_HALF>(source, mask)) }
}

/// A type that an f32 becomes.
pub trait FloatTarget {
    const IS_HALF: bool = false;

    unsafe fn store<W: Width>(target: *mut u8, mask: W::Mask, values: W::Floats);

    /// A cache line of one vector, or of two.
    unsafe fn line<F: Fn(usize) -> __m512>(vector: F) -> __m512i;
}

impl FloatTarget for f32 {
    inlined! {
        fn store[W: Width](target: *mut u8, mask: W::Mask, values: W::Floats) {
            W::store_floats(target, mask, values)
        }
        fn line[F: Fn(usize) -> __m512](vector: F) -> __m512i { _mm512_castps_si512(vector(0)) }
    }
}

impl FloatTarget for Half {
    const IS_HALF: bool = true;

    inlined! {
        fn store[W: Width](target: *mut u8, mask: W::Mask, values: W::Floats) {
            W::store_halves(target, mask, values)
        }
        fn line[F: Fn(usize) -> __m512](vector: F) -> __m512i {
            let [low, high] = [0, 1].map(#[inline(always)] |number| {
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(vector(number))
            });
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
}

/// The upper half of an f32, rounded as the portable code does. There is an instruction for it,
/// but it takes subnormals for 0.
impl FloatTarget for Brain {
    inlined! {
        fn store[W: Width](target: *mut u8, mask: W::Mask, values: W::Floats) {
            W::store_u16s(target, mask, rounded::<W>(values))
        }
        fn line[F: Fn(usize) -> __m512](vector: F) -> __m512i {
            let [low, high] = [0, 1].map(#[inline(always)] |number| {
                _mm512_cvtepi32_epi16(rounded::<Avx512>(vector(number)))
            });
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
}

inlined! {
    fn rounded[W: Width](values: W::Floats) -> W::Ints {
        let bits = W::to_bits(values);
        let odd = W::and(W::upper(bits), W::splat(1));
        W::upper(W::add(bits, W::add(odd, W::splat(0x7FFF))))
    }
}

/// A step through f32.
pub struct ThroughFloat<S, T>(PhantomData<(S, T)>);

impl<S: FloatSource, T: FloatTarget> ThroughFloat<S, T> {
    inlined! {
        fn step[W: Width](source: *const u8, target: *mut u8, mask: W::Mask) {
            let values = if T::IS_HALF {
                S::floats::<W, true>(source, mask)
            } else {
                S::floats::<W, false>(source, mask)
            };
            T::store::<W>(target, mask, values)
        }
    }
}

impl<S: FloatSource, T: FloatTarget> Step for ThroughFloat<S, T> {
    const SOURCE: usize = S::BYTES;
    const TARGET: usize = size_of::<T>();
    const WIDE: usize = 16;
    const NARROW: usize = if S::HAS_NARROW { 8 } else { 0 };

    inlined! {
        fn wide[const FULL: bool](source: *const u8, target: *mut u8, count: usize) {
            Self::step::<Avx512>(source, target, mask::<FULL>(count) as __mmask16)
        }
        fn narrow(source: *const u8, target: *mut u8) { Self::step::<Avx2>(source, target, ()) }
    }
}
