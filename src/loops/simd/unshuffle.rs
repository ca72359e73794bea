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
use super::inlined::inlined;
use super::level::Tier;
use core::arch::x86_64::*;

/// Undoes the byte filter for elements `first ..` that `target` holds, from planes of one length
/// each. Returns how many elements it did.
pub fn unshuffle_bytes(level: Level, planes: &[&[u8]], first: usize, target: &mut [u8]) -> usize {
    match planes.len() {
        2 => elements::<2>(level.tier(), planes, first, target),
        4 => elements::<4>(level.tier(), planes, first, target),
        8 => elements::<8>(level.tier(), planes, first, target),
        16 => elements::<16>(level.tier(), planes, first, target),
        _ => 0,
    }
}

/// The elements of one size with the widest vectors that the level has and that pay: those of
/// AVX-512 are slower for 16 planes.
fn elements<const SIZE: usize>(
    tier: Tier,
    planes: &[&[u8]],
    first: usize,
    target: &mut [u8],
) -> usize {
    let count = target.len() / SIZE;
    assert!(planes.len() == SIZE && target.len() == count * SIZE);
    let rows = core::array::from_fn(|byte| planes[byte][first..][..count].as_ptr());
    let target = target.as_mut_ptr();
    // SAFETY: the level has the instructions; each row has `count` bytes, and the target `count`
    // elements.
    unsafe {
        if SIZE < 16 && tier >= Tier::Avx512 && count >= 64 {
            planes_avx512::<SIZE>(&rows, count, target)
        } else if tier >= Tier::Avx2 && count >= 32 {
            planes_avx2::<SIZE>(&rows, count, target)
        } else {
            planes_sse2::<SIZE>(&rows, count, target)
        }
    }
}

/// The plane of bytes, `target`, whose bits are the eight whole `rows`, one behind the other, for
/// the groups of eight elements from `first` on. Returns how many groups it did.
pub fn plane_of_bits(level: Level, rows: &[u8], first: usize, target: &mut [u8]) -> usize {
    let pitch = rows.len() / 8;
    let groups = target.len() / 8;
    assert!(rows.len() == 8 * pitch && target.len() == 8 * groups);
    let rows = core::array::from_fn(|bit| rows[bit * pitch..][..pitch][first..][..groups].as_ptr());
    let target = target.as_mut_ptr();
    // SAFETY: the level has the instructions; each row has `groups` bytes, and the target eight
    // times as many.
    unsafe {
        match level.tier() {
            Tier::Baseline => 0,
            Tier::Avx512Gfni if groups >= 64 => bits_gfni::<8>(&rows, groups, target),
            _ => bits_avx2::<8>(&rows, groups, target),
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

    unsafe fn store(target: *mut u8, vector: Self);

    /// The lower halves of each lane of `a` and `b`, in turns of `PIECE` bytes.
    unsafe fn low<const PIECE: usize>(a: Self, b: Self) -> Self;

    /// The upper halves.
    unsafe fn high<const PIECE: usize>(a: Self, b: Self) -> Self;

    inlined! {
        /// Orders the bytes of a plane so that after the rounds the vectors are in order, where
        /// that is cheaper than to do it after them.
        fn before[const SIZE: usize](plane: Self) -> Self { plane }

        /// Stores what the rounds gave for `SIZE` planes.
        fn store_in_order[const SIZE: usize](vectors: &[Self; SIZE], target: *mut u8) {
            for (at, vector) in vectors.iter().enumerate() {
                Self::store(target.add(at * Self::BYTES), *vector);
            }
        }
    }
}

macro_rules! vector {
    (
        $vector:ident, $load:ident, $store:ident, [$($low:ident),*], [$($high:ident),*]
        $($own:tt)*
    ) => {
        impl Vector for $vector {
            const BYTES: usize = size_of::<$vector>();

            inlined! {
                fn load(source: *const u8) -> Self { $load(source.cast()) }
                fn store(target: *mut u8, vector: Self) { $store(target.cast(), vector) }
                fn low[const PIECE: usize](a: Self, b: Self) -> Self {
                    vector!(@by PIECE, a, b, $($low),*)
                }
                fn high[const PIECE: usize](a: Self, b: Self) -> Self {
                    vector!(@by PIECE, a, b, $($high),*)
                }
                $($own)*
            }
        }
    };
    (@by $piece:ident, $a:ident, $b:ident, $by1:ident, $by2:ident, $by4:ident, $by8:ident) => {
        match $piece {
            1 => $by1($a, $b),
            2 => $by2($a, $b),
            4 => $by4($a, $b),
            _ => $by8($a, $b),
        }
    };
}

vector! { __m128i, _mm_loadu_si128, _mm_storeu_si128,
    [_mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64],
    [_mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64]
}

vector! { __m256i, _mm256_loadu_si256, _mm256_storeu_si256,
    [_mm256_unpacklo_epi8, _mm256_unpacklo_epi16, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64],
    [_mm256_unpackhi_epi8, _mm256_unpackhi_epi16, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64]

    /// First the lower lanes of all vectors, then the upper ones.
    fn store_in_order[const SIZE: usize](vectors: &[Self; SIZE], target: *mut u8) {
        for pair in 0..SIZE / 2 {
            let (a, b) = (vectors[2 * pair], vectors[2 * pair + 1]);
            Self::store(target.add(pair * 32), _mm256_permute2x128_si256::<0x20>(a, b));
            let upper = target.add((SIZE / 2 + pair) * 32);
            Self::store(upper, _mm256_permute2x128_si256::<0x31>(a, b));
        }
    }
}

vector! { __m512i, _mm512_loadu_si512, _mm512_storeu_si512,
    [_mm512_unpacklo_epi8, _mm512_unpacklo_epi16, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64],
    [_mm512_unpackhi_epi8, _mm512_unpackhi_epi16, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64]

    fn before[const SIZE: usize](plane: Self) -> Self {
        const PAIR: [u64; 8] = lanes_apart::<8>();
        const FOUR: [u64; 8] = lanes_apart::<16>();
        const EIGHT: [u64; 8] = lanes_apart::<32>();
        match SIZE {
            2 => _mm512_permutexvar_epi64(Self::load(PAIR.as_ptr().cast()), plane),
            4 => _mm512_permutexvar_epi32(Self::load(FOUR.as_ptr().cast()), plane),
            8 => _mm512_permutexvar_epi16(Self::load(EIGHT.as_ptr().cast()), plane),
            _ => unreachable!("no other number of planes has lanes of its own"),
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

inlined! {
    /// The rounds: neighbours are interleaved, lower halves to the front and upper halves to the
    /// back of the list, which leaves places in reversed binary order; then they are put straight.
    fn interleaved[V: Vector, const SIZE: usize](vectors: [V; SIZE]) -> [V; SIZE] {
        let mut vectors = round::<V, SIZE, 1>(vectors);
        if SIZE > 2 {
            vectors = round::<V, SIZE, 2>(vectors);
        }
        if SIZE > 4 {
            vectors = round::<V, SIZE, 4>(vectors);
        }
        if SIZE > 8 {
            vectors = round::<V, SIZE, 8>(vectors);
        }
        let mut straight = vectors;
        for at in 0..SIZE {
            straight[at] = vectors[Reversed::<SIZE>::PLACES[at]];
        }
        straight
    }

    fn round[V: Vector, const SIZE: usize, const PIECE: usize](vectors: [V; SIZE]) -> [V; SIZE] {
        let mut next = vectors;
        for pair in 0..SIZE / 2 {
            let (a, b) = (vectors[2 * pair], vectors[2 * pair + 1]);
            next[pair] = V::low::<PIECE>(a, b);
            next[pair + SIZE / 2] = V::high::<PIECE>(a, b);
        }
        next
    }

    /// A vector of elements from `SIZE` planes.
    fn planes[V: Vector, const SIZE: usize](rows: &[*const u8; SIZE], at: usize, target: *mut u8) {
        let mut vectors = [V::load(rows[0].add(at)); SIZE];
        for byte in 0..SIZE {
            vectors[byte] = V::before::<SIZE>(V::load(rows[byte].add(at)));
        }
        V::store_in_order(&interleaved(vectors), target)
    }

    /// The matrices, as eight consecutive bytes each, times the unit matrix: gf2p8affineqb takes a
    /// matrix by its last row first, so the rows are loaded in reverse, and it gives the products
    /// with the unit vectors, which are the columns.
    fn matrices_gfni[const ROWS: usize](rows: &[*const u8; ROWS], at: usize, target: *mut u8) {
        const UNITS: i64 = i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);
        let mut vectors = [_mm512_setzero_si512(); 8];
        for bit in 0..8 {
            vectors[7 - bit] = __m512i::before::<8>(__m512i::load(rows[bit].add(at)));
        }
        let mut matrices = interleaved(vectors);
        for matrix in &mut matrices {
            *matrix = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(UNITS), *matrix);
        }
        __m512i::store_in_order(&matrices, target)
    }

    /// The transposes between registers, all bytes of a register at once: three rounds swap the
    /// off-diagonal quarters of 8x8, 4x4 and 2x2 matrices. Then register c holds the bytes of
    /// element c of every group, and interleaving puts the groups side by side.
    fn matrices_avx2[const ROWS: usize](rows: &[*const u8; ROWS], at: usize, target: *mut u8) {
        let mut vectors = [_mm256_setzero_si256(); 8];
        for bit in 0..8 {
            vectors[bit] = __m256i::load(rows[bit].add(at));
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
        __m256i::store_in_order(&interleaved(vectors), target)
    }

    /// Exchanges the bits outside `mask` of register `at` with those inside it of the register
    /// `DISTANCE` behind, which lie `DISTANCE` to the right. Masked bits do not cross bytes, so
    /// wider shifts do.
    fn exchange[const DISTANCE: i32](vectors: &mut [__m256i; 8], at: usize, mask: i8) {
        let behind = at + DISTANCE as usize;
        let moved = _mm256_srli_epi16::<DISTANCE>(vectors[at]);
        let swap = _mm256_xor_si256(moved, vectors[behind]);
        let swap = _mm256_and_si256(swap, _mm256_set1_epi8(mask));
        vectors[behind] = _mm256_xor_si256(vectors[behind], swap);
        vectors[at] = _mm256_xor_si256(vectors[at], _mm256_slli_epi16::<DISTANCE>(swap));
    }
}

/// Kernels: `count` times `SIZE` bytes from as many rows, a vector of each at a time.
/// The last vector is taken further to the left where it is not full. Each returns `count`, or 0
/// where that is less than a vector.
macro_rules! kernels {
    ($($name:ident, $features:literal, $vector:ty, $step:expr;)*) => {$(
        #[target_feature(enable = $features)]
        unsafe fn $name<const SIZE: usize>(
            rows: &[*const u8; SIZE],
            count: usize,
            target: *mut u8,
        ) -> usize {
            if count < <$vector>::BYTES {
                return 0;
            }
            let (mut at, last) = (0, count - <$vector>::BYTES);
            loop {
                // SAFETY: bytes [at, at + BYTES) of the `count` of each row.
                unsafe { $step(rows, at, target.add(SIZE * at)) };
                at += <$vector>::BYTES;
                if at > last {
                    if at == count {
                        return count;
                    }
                    at = last;
                }
            }
        }
    )*};
}

kernels! {
    planes_sse2, "sse2", __m128i, planes::<__m128i, SIZE>;
    planes_avx2, "avx2", __m256i, planes::<__m256i, SIZE>;
    planes_avx512, "avx2,avx512f,avx512bw,avx512dq,avx512vl", __m512i, planes::<__m512i, SIZE>;
    bits_avx2, "avx2", __m256i, matrices_avx2;
    bits_gfni, "avx2,avx512f,avx512bw,avx512dq,avx512vl,gfni", __m512i, matrices_gfni;
}
