//! Blosc's filters undone with SSE2, AVX2, AVX-512 and GFNI.
//!
//! In: the planes of a filtered block, the elements that are wanted. Out: the number of elements
//! that were done, from the first one on; the caller does the rest. Invariant: the same bytes as
//! the plain loops of `unshuffle`.
//!
//! *Bytes*: `SIZE` planes, a vector of each, are interleaved in log2(SIZE) rounds: round r joins
//! pieces of 2^r bytes of neighbours. Interleaving stays inside lanes of 16 bytes, so lanes are put
//! in order as well: before with AVX-512 (one permutation per vector), after with AVX2.
//!
//! *Bits*: eight rows of one byte position are eight bits of the same bytes. A vector of each row
//! holds 8x8 matrices of bits, one per byte; their transposes, interleaved, are a plane of bytes,
//! as the byte filter makes them.

use super::Level;
use super::level::Tier;
use core::arch::x86_64::*;

/// Undoes the byte filter for elements `first ..` that `target` holds, from `typesize` whole
/// `planes`, one behind the other. Returns how many elements it did.
pub fn unshuffle_bytes(
    level: Level,
    typesize: usize,
    planes: &[u8],
    first: usize,
    target: &mut [u8],
) -> usize {
    let pitch = planes.len() / typesize;
    let count = target.len() / typesize;
    assert!(planes.len() == pitch * typesize && target.len() == count * typesize);
    assert!(first <= pitch && count <= pitch - first);
    let source = planes[first..].as_ptr();
    let target = target.as_mut_ptr();
    // SAFETY: a level is only made where its instructions are. Each of the `typesize` planes has
    // `pitch` bytes, of which [first, first + count) are read; the target has `count` elements.
    unsafe {
        match (level.tier(), typesize) {
            (Tier::Baseline, 2) => elements_sse2::<2>(source, pitch, count, target),
            (Tier::Baseline, 4) => elements_sse2::<4>(source, pitch, count, target),
            (Tier::Baseline, 8) => elements_sse2::<8>(source, pitch, count, target),
            (_, 16) if level.tier() >= Tier::Avx2 && count >= 32 => {
                elements_avx2::<16>(source, pitch, count, target)
            }
            (_, 16) => elements_sse2::<16>(source, pitch, count, target),
            (_, 2 | 4 | 8) if count < 32 => match typesize {
                2 => elements_sse2::<2>(source, pitch, count, target),
                4 => elements_sse2::<4>(source, pitch, count, target),
                _ => elements_sse2::<8>(source, pitch, count, target),
            },
            (Tier::Avx512 | Tier::Avx512Gfni, 2) if count >= 64 => {
                elements_avx512::<2>(source, pitch, count, target)
            }
            (Tier::Avx512 | Tier::Avx512Gfni, 4) if count >= 64 => {
                elements_avx512::<4>(source, pitch, count, target)
            }
            (Tier::Avx512 | Tier::Avx512Gfni, 8) if count >= 64 => {
                elements_avx512::<8>(source, pitch, count, target)
            }
            (_, 2) => elements_avx2::<2>(source, pitch, count, target),
            (_, 4) => elements_avx2::<4>(source, pitch, count, target),
            (_, 8) => elements_avx2::<8>(source, pitch, count, target),
            _ => 0,
        }
    }
}

/// The plane of bytes, `target`, whose bits are the eight whole `rows`, one behind the other, for
/// the groups of eight elements from `first` on. Returns how many groups it did.
pub fn plane_of_bits(level: Level, rows: &[u8], first: usize, target: &mut [u8]) -> usize {
    let pitch = rows.len() / 8;
    let groups = target.len() / 8;
    assert!(rows.len() == 8 * pitch && target.len() == 8 * groups);
    assert!(first <= pitch && groups <= pitch - first);
    let source = rows[first..].as_ptr();
    let target = target.as_mut_ptr();
    // SAFETY: as in `unshuffle_bytes`, with eight rows of `pitch` bytes, of which [first, first +
    // groups) are read; the target has `8 * groups` bytes.
    unsafe {
        match level.tier() {
            Tier::Baseline => 0,
            Tier::Avx512Gfni if groups >= 64 => groups_gfni(source, pitch, groups, target),
            _ => groups_avx2(source, pitch, groups, target),
        }
    }
}

/// A register of bytes.
///
/// # Safety
/// Of its functions: the CPU has the instructions; pointers are valid for one register, the target
/// of `store_in_order` for `SIZE`.
trait Vector: Copy {
    const BYTES: usize;

    unsafe fn load(source: *const u8) -> Self;

    /// The lower halves of each lane of `self` and `other`, in turns of `PIECE` bytes.
    unsafe fn low<const PIECE: usize>(self, other: Self) -> Self;

    /// The upper halves.
    unsafe fn high<const PIECE: usize>(self, other: Self) -> Self;

    /// Orders the bytes of a plane so that after the rounds the vectors are in order, where that
    /// is cheaper than to do it after them.
    unsafe fn before<const SIZE: usize>(self) -> Self;

    /// Stores what the rounds gave for `SIZE` planes.
    unsafe fn store_in_order<const SIZE: usize>(vectors: &[Self; SIZE], target: *mut u8);
}

// Below, functions that are always inlined carry no features of their own: the ones that name
// instructions in `target_feature` call them. SAFETY of all unsafe blocks below: what the traits
// and functions ask of their callers is passed on.

macro_rules! interleave {
    ($lane:ident: $($low:ident $high:ident),*) => {
        #[inline(always)]
        unsafe fn low<const PIECE: usize>(self, other: Self) -> Self {
            interleave!(@match self, other, $($low),*)
        }

        #[inline(always)]
        unsafe fn high<const PIECE: usize>(self, other: Self) -> Self {
            interleave!(@match self, other, $($high),*)
        }
    };
    (@match $a:expr, $b:expr, $by1:ident, $by2:ident, $by4:ident, $by8:ident) => {
        // SAFETY: see above.
        unsafe {
            match PIECE {
                1 => $by1($a, $b),
                2 => $by2($a, $b),
                4 => $by4($a, $b),
                _ => $by8($a, $b),
            }
        }
    };
}

impl Vector for __m128i {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { _mm_loadu_si128(source.cast()) }
    }

    interleave! { __m128i:
        _mm_unpacklo_epi8 _mm_unpackhi_epi8, _mm_unpacklo_epi16 _mm_unpackhi_epi16,
        _mm_unpacklo_epi32 _mm_unpackhi_epi32, _mm_unpacklo_epi64 _mm_unpackhi_epi64
    }

    #[inline(always)]
    unsafe fn before<const SIZE: usize>(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn store_in_order<const SIZE: usize>(vectors: &[Self; SIZE], target: *mut u8) {
        for (at, vector) in vectors.iter().enumerate() {
            // SAFETY: see above.
            unsafe { _mm_storeu_si128(target.add(at * 16).cast(), *vector) };
        }
    }
}

impl Vector for __m256i {
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(source.cast()) }
    }

    interleave! { __m256i:
        _mm256_unpacklo_epi8 _mm256_unpackhi_epi8, _mm256_unpacklo_epi16 _mm256_unpackhi_epi16,
        _mm256_unpacklo_epi32 _mm256_unpackhi_epi32, _mm256_unpacklo_epi64 _mm256_unpackhi_epi64
    }

    #[inline(always)]
    unsafe fn before<const SIZE: usize>(self) -> Self {
        self
    }

    /// First the lower lanes of all vectors, then the upper ones.
    #[inline(always)]
    unsafe fn store_in_order<const SIZE: usize>(vectors: &[Self; SIZE], target: *mut u8) {
        for pair in 0..SIZE / 2 {
            let (a, b) = (vectors[2 * pair], vectors[2 * pair + 1]);
            // SAFETY: see above.
            unsafe {
                let low = _mm256_permute2x128_si256::<0x20>(a, b);
                let high = _mm256_permute2x128_si256::<0x31>(a, b);
                _mm256_storeu_si256(target.add(pair * 32).cast(), low);
                _mm256_storeu_si256(target.add((SIZE / 2 + pair) * 32).cast(), high);
            }
        }
    }
}

/// Where lane `k`, place `j` of a vector of 4 lanes of `PLACES` pieces comes from: piece
/// `4 * j + k`. The rounds spread a lane over `PLACES` vectors, so place j ends up in vector j.
const fn lanes_apart<const PIECES: usize>() -> [u64; 8] {
    let bits = 512 / PIECES;
    let places = PIECES / 4;
    let mut words = [0; 8];
    let mut at = 0;
    while at < PIECES {
        let from = (4 * (at % places) + at / places) as u64;
        words[at * bits / 64] |= from << (at * bits % 64);
        at += 1;
    }
    words
}

impl Vector for __m512i {
    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn load(source: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(source.cast()) }
    }

    interleave! { __m512i:
        _mm512_unpacklo_epi8 _mm512_unpackhi_epi8, _mm512_unpacklo_epi16 _mm512_unpackhi_epi16,
        _mm512_unpacklo_epi32 _mm512_unpackhi_epi32, _mm512_unpacklo_epi64 _mm512_unpackhi_epi64
    }

    #[inline(always)]
    unsafe fn before<const SIZE: usize>(self) -> Self {
        const PAIR: [u64; 8] = lanes_apart::<8>();
        const FOUR: [u64; 8] = lanes_apart::<16>();
        const EIGHT: [u64; 8] = lanes_apart::<32>();
        const { assert!(SIZE == 2 || SIZE == 4 || SIZE == 8) };
        // SAFETY: see above.
        unsafe {
            match SIZE {
                2 => _mm512_permutexvar_epi64(Self::load(PAIR.as_ptr().cast()), self),
                4 => _mm512_permutexvar_epi32(Self::load(FOUR.as_ptr().cast()), self),
                _ => _mm512_permutexvar_epi16(Self::load(EIGHT.as_ptr().cast()), self),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_in_order<const SIZE: usize>(vectors: &[Self; SIZE], target: *mut u8) {
        for (at, vector) in vectors.iter().enumerate() {
            // SAFETY: see above.
            unsafe { _mm512_storeu_si512(target.add(at * 64).cast(), *vector) };
        }
    }
}

/// The rounds: neighbours are interleaved, lower halves to the front and upper halves to the back
/// of the list, which leaves places in reversed binary order; then they are put straight.
#[inline(always)]
unsafe fn interleaved<V: Vector, const SIZE: usize>(mut vectors: [V; SIZE]) -> [V; SIZE] {
    // SAFETY: see above.
    unsafe {
        vectors = round::<V, SIZE, 1>(vectors);
        if SIZE > 2 {
            vectors = round::<V, SIZE, 2>(vectors);
        }
        if SIZE > 4 {
            vectors = round::<V, SIZE, 4>(vectors);
        }
        if SIZE > 8 {
            vectors = round::<V, SIZE, 8>(vectors);
        }
    }
    let mut straight = vectors;
    for at in 0..SIZE {
        straight[at] = vectors[Reversed::<SIZE>::PLACES[at]];
    }
    straight
}

/// Numbers below `SIZE`, a power of two, with their binary digits reversed. A table, because the
/// compiler keeps registers in registers only where it sees constants.
struct Reversed<const SIZE: usize>;

impl<const SIZE: usize> Reversed<SIZE> {
    const PLACES: [usize; SIZE] = {
        let mut places = [0; SIZE];
        let mut at = 0;
        while at < SIZE {
            places[at] = at.reverse_bits() >> (usize::BITS - SIZE.trailing_zeros());
            at += 1;
        }
        places
    };
}

#[inline(always)]
unsafe fn round<V: Vector, const SIZE: usize, const PIECE: usize>(vectors: [V; SIZE]) -> [V; SIZE] {
    let mut next = vectors;
    for pair in 0..SIZE / 2 {
        let (a, b) = (vectors[2 * pair], vectors[2 * pair + 1]);
        // SAFETY: see above.
        unsafe {
            next[pair] = a.low::<PIECE>(b);
            next[pair + SIZE / 2] = a.high::<PIECE>(b);
        }
    }
    next
}

/// `count` elements from planes `pitch` bytes apart, a vector of each at a time. The last vector
/// is taken further to the left where it is not full. Returns `count`, or 0 where that is less than
/// a vector.
#[inline(always)]
unsafe fn elements<V: Vector, const SIZE: usize>(
    source: *const u8,
    pitch: usize,
    count: usize,
    target: *mut u8,
) -> usize {
    if count < V::BYTES {
        return 0;
    }
    let (mut at, last) = (0, count - V::BYTES);
    // SAFETY: elements [at, at + BYTES) of `count`.
    unsafe {
        loop {
            let mut vectors = [V::load(source.add(at)); SIZE];
            for byte in 0..SIZE {
                vectors[byte] = V::load(source.add(byte * pitch + at)).before::<SIZE>();
            }
            V::store_in_order(&interleaved(vectors), target.add(at * SIZE));
            at += V::BYTES;
            if at > last {
                if at == count {
                    return count;
                }
                at = last;
            }
        }
    }
}

#[target_feature(enable = "sse2")]
unsafe fn elements_sse2<const SIZE: usize>(
    source: *const u8,
    pitch: usize,
    count: usize,
    target: *mut u8,
) -> usize {
    // SAFETY: see above.
    unsafe { elements::<__m128i, SIZE>(source, pitch, count, target) }
}

#[target_feature(enable = "avx2")]
unsafe fn elements_avx2<const SIZE: usize>(
    source: *const u8,
    pitch: usize,
    count: usize,
    target: *mut u8,
) -> usize {
    // SAFETY: see above.
    unsafe { elements::<__m256i, SIZE>(source, pitch, count, target) }
}

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn elements_avx512<const SIZE: usize>(
    source: *const u8,
    pitch: usize,
    count: usize,
    target: *mut u8,
) -> usize {
    // SAFETY: see above.
    unsafe { elements::<__m512i, SIZE>(source, pitch, count, target) }
}

/// `groups` of eight elements from eight rows `pitch` bytes apart, a vector of each row at a time,
/// the last one as in `elements`. Returns `groups`, or 0 where that is less than a vector.
macro_rules! groups {
    ($name:ident, $features:literal, $vector:ty, $step:ident) => {
        #[target_feature(enable = $features)]
        unsafe fn $name(source: *const u8, pitch: usize, groups: usize, target: *mut u8) -> usize {
            const STEP: usize = <$vector>::BYTES;
            if groups < STEP {
                return 0;
            }
            let (mut at, last) = (0, groups - STEP);
            loop {
                // SAFETY: groups [at, at + STEP) of `groups`.
                unsafe { $step(source.add(at), pitch, target.add(8 * at)) };
                at += STEP;
                if at > last {
                    if at == groups {
                        return groups;
                    }
                    at = last;
                }
            }
        }
    };
}

groups! { groups_avx2, "avx2", __m256i, step_avx2 }
groups! { groups_gfni, "avx2,avx512f,avx512bw,avx512dq,avx512vl,gfni", __m512i, step_gfni }

/// The matrices, as eight consecutive bytes each, times the unit matrix: gf2p8affineqb takes a
/// matrix by its last row first, so the rows are loaded in reverse, and it gives the products with
/// the unit vectors, which are the columns.
#[inline(always)]
unsafe fn step_gfni(rows: *const u8, pitch: usize, target: *mut u8) {
    const UNITS: i64 = i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);
    // SAFETY: see above.
    unsafe {
        let mut vectors = [_mm512_setzero_si512(); 8];
        for bit in 0..8 {
            vectors[7 - bit] = __m512i::load(rows.add(bit * pitch)).before::<8>();
        }
        let mut matrices = interleaved(vectors);
        for matrix in &mut matrices {
            *matrix = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(UNITS), *matrix);
        }
        __m512i::store_in_order(&matrices, target);
    }
}

/// The transposes between registers, all bytes of a register at once: three rounds swap the
/// off-diagonal quarters of 8x8, 4x4 and 2x2 matrices. Then register c holds the bytes of element
/// c of every group, and interleaving puts the groups side by side.
#[inline(always)]
unsafe fn step_avx2(rows: *const u8, pitch: usize, target: *mut u8) {
    // SAFETY: see above.
    unsafe {
        let mut vectors = [_mm256_setzero_si256(); 8];
        for bit in 0..8 {
            vectors[bit] = __m256i::load(rows.add(bit * pitch));
        }
        for bit in 0..4 {
            exchange::<4>(&mut vectors, bit, 0x0F);
        }
        for bit in [0, 1, 4, 5] {
            exchange::<2>(&mut vectors, bit, 0x33);
        }
        for bit in [0, 2, 4, 6] {
            exchange::<1>(&mut vectors, bit, 0x55);
        }
        __m256i::store_in_order(&interleaved(vectors), target);
    }
}

/// Exchanges the bits outside `mask` of register `at` with those inside it of the register
/// `DISTANCE` behind, which lie `DISTANCE` to the right. Masked bits do not cross bytes, so wider
/// shifts do.
#[inline(always)]
unsafe fn exchange<const DISTANCE: i32>(vectors: &mut [__m256i; 8], at: usize, mask: i8) {
    let behind = at + DISTANCE as usize;
    // SAFETY: see above.
    unsafe {
        let mask = _mm256_set1_epi8(mask);
        let moved = _mm256_srli_epi16::<DISTANCE>(vectors[at]);
        let swap = _mm256_and_si256(_mm256_xor_si256(moved, vectors[behind]), mask);
        vectors[behind] = _mm256_xor_si256(vectors[behind], swap);
        vectors[at] = _mm256_xor_si256(vectors[at], _mm256_slli_epi16::<DISTANCE>(swap));
    }
}
