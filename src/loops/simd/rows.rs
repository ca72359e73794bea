//! Rows of elements converted, swapped and copied with AVX2 and AVX-512.
//!
//! In: rows to read, rows to write. Out: kernels that do all rows in one call. Invariant: the bits
//! of the portable conversions (`convert`), given the default floating-point environment;
//! no byte outside the rows is read or written.
//!
//! A kernel is a loop over a [`Step`], which does one vector of elements. What is left at the end
//! of a row is masked with AVX-512. With AVX2 the last vector is taken further to the left (its
//! first elements are written twice with the same bytes), and rows shorter than a vector are left
//! to the portable code: through buffers on the stack they took six times as long.
//!
//! Conversions through f32 are in `floats`.

use super::floats::{IntSource, ThroughFloat};
use super::kernels::{Kernel, RowsKernels};
use super::{Brain, Half};
use core::arch::x86_64::*;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// One vector of elements.
///
/// # Safety
/// Of its functions: the CPU has AVX2 and F16C, or for `wide` the AVX-512 of [`super::Level`]; the
/// source is valid for reads and the target for writes of that many elements.
pub trait Step {
    /// Bytes of a source element.
    const SOURCE: usize;
    /// Bytes of a target element.
    const TARGET: usize;
    /// Elements of a step with AVX-512, at most 64; 0 where that is not better than AVX2.
    const WIDE: usize;
    /// Elements of a step with AVX2; 0 where that is not better than the portable code.
    const NARROW: usize;

    /// Does `count` elements, 1 to WIDE; just WIDE if `FULL`.
    unsafe fn wide<const FULL: bool>(_source: *const u8, _target: *mut u8, _count: usize) {}

    /// Does NARROW elements.
    unsafe fn narrow(source: *const u8, target: *mut u8);
}

/// A change of type for which there is a vector path.
pub trait Wide<T> {
    /// Does it.
    type Step: Step;
}

/// The kernels that convert rows of `S` to rows of `T`.
pub const fn cast_kernels<S: Wide<T>, T>() -> RowsKernels {
    RowsKernels { can_stream: <S::Step as Step>::WIDE > 0, ..kernels::<S::Step>() }
}

/// The kernels that reverse each word of 2, 4 or 8 bytes.
pub fn swap_kernels(word_bytes: u32) -> RowsKernels {
    match word_bytes {
        2 => kernels::<Swap<2>>(),
        4 => kernels::<Swap<4>>(),
        8 => kernels::<Swap<8>>(),
        _ => RowsKernels::NONE,
    }
}

/// The kernels that copy rows of bytes.
pub const COPY_KERNELS: RowsKernels = kernels::<Copied>();

const fn kernels<P: Step>() -> RowsKernels {
    RowsKernels {
        source_bytes: P::SOURCE,
        target_bytes: P::TARGET,
        can_stream: false,
        wide: const { if P::WIDE > 0 { Some(rows_wide::<P>) } else { None } },
        narrow: const { if P::NARROW > 0 { Some(rows_narrow::<P>) } else { None } },
        narrow_length_min: P::NARROW,
    }
}

/// # Safety
/// As for every kernel; the CPU has AVX-512, and the rows one element or more.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn rows_wide<P: Step>(
    mut source: *const u8,
    source_pitch: isize,
    mut target: *mut u8,
    target_pitch: usize,
    count: usize,
    length: usize,
) {
    // At least one element, so that every row has a tail and the loop one shape: of a branch here
    // the compiler makes a copy of everything. To mask all steps costs up to 40 % in L2.
    let tail = (length - 1) % P::WIDE + 1;
    for _ in 0..count {
        let mut at = 0;
        // SAFETY: elements [at, at + WIDE) of a row of `length`, then the last `tail` of them.
        unsafe {
            while at + P::WIDE < length {
                P::wide::<true>(source.add(at * P::SOURCE), target.add(at * P::TARGET), P::WIDE);
                at += P::WIDE;
            }
            P::wide::<false>(source.add(at * P::SOURCE), target.add(at * P::TARGET), tail);
        }
        // The step past the last row may leave the allocation, so it wraps and is not used.
        source = source.wrapping_offset(source_pitch);
        target = target.wrapping_add(target_pitch);
    }
}

/// Bytes that a kernel makes before they are stored past the caches: with its source in L1.
const STREAM_BYTES: usize = 4096;

/// At a cache line.
#[repr(align(64))]
struct StreamBuffer(MaybeUninit<[u8; STREAM_BYTES]>);

/// Does all rows as `kernel` does, which takes elements of `source_bytes` to elements of
/// `target_bytes`, and stores them past the caches, as whole lines. It waits for that at the end,
/// so that whoever learns of the rows by a lock sees them: such stores are not ordered by locks.
///
/// # Safety
/// As for the kernel, one with AVX-512; the target rows are whole cache lines.
#[target_feature(enable = "avx512f")]
pub unsafe fn rows_streamed(
    kernel: Kernel,
    (source_bytes, target_bytes): (usize, usize),
    (source, source_pitch): (*const u8, isize),
    (target, target_pitch): (*mut u8, usize),
    count: usize,
    length: usize,
) {
    let mut buffer = StreamBuffer(MaybeUninit::uninit());
    let lines = buffer.0.as_mut_ptr().cast::<u8>();
    // Several rows at once where they are short, a piece of one where it is long: whole lines both,
    // as sizes of elements divide that of a line, and that divides the buffer's.
    let piece_max = length.min(STREAM_BYTES / target_bytes);
    let group_max = STREAM_BYTES / (piece_max * target_bytes);
    for row in (0..count).step_by(group_max) {
        let group = group_max.min(count - row);
        for at in (0..length).step_by(piece_max) {
            let piece = piece_max.min(length - at);
            let bytes = piece * target_bytes;
            let from = source.wrapping_offset(row as isize * source_pitch);
            // SAFETY: elements [at, at + piece) of `group` rows from `row` on; the buffer has room
            // for as many, and each of them is stored to its own place.
            unsafe {
                kernel(from.add(at * source_bytes), source_pitch, lines, bytes, group, piece);
                for number in 0..group {
                    let to = target.add((row + number) * target_pitch + at * target_bytes);
                    for line in (0..bytes).step_by(64) {
                        let line_bytes = _mm512_load_si512(lines.add(number * bytes + line).cast());
                        _mm512_stream_si512(to.add(line).cast(), line_bytes);
                    }
                }
            }
        }
    }
    _mm_sfence();
}

/// # Safety
/// As for every kernel; the CPU has AVX2 and F16C, and the rows NARROW elements or more.
#[target_feature(enable = "avx2,f16c")]
unsafe fn rows_narrow<P: Step>(
    mut source: *const u8,
    source_pitch: isize,
    mut target: *mut u8,
    target_pitch: usize,
    count: usize,
    length: usize,
) {
    let last = length - P::NARROW;
    for _ in 0..count {
        let mut at = 0;
        loop {
            // SAFETY: elements [at, at + NARROW) of a row of `length`.
            unsafe { P::narrow(source.add(at * P::SOURCE), target.add(at * P::TARGET)) };
            at += P::NARROW;
            if at > last {
                if at == length {
                    break;
                }
                at = last;
            }
        }
        source = source.wrapping_offset(source_pitch);
        target = target.wrapping_add(target_pitch);
    }
}

/// The lowest `count` bits, or more if `FULL`; `count` is not 0.
#[inline(always)]
pub(super) fn mask<const FULL: bool>(count: usize) -> u64 {
    if FULL { u64::MAX } else { u64::MAX >> (64 - count) }
}

// Below, functions that are always inlined carry no features of their own: their callers above do.
// SAFETY of all unsafe blocks below: what `Step` asks of its callers is passed on; masked lanes are
// neither read nor written.

/// Copies bytes.
struct Copied;

impl Step for Copied {
    const SOURCE: usize = 1;
    const TARGET: usize = 1;
    const WIDE: usize = 64;
    const NARROW: usize = 32;

    #[inline(always)]
    unsafe fn wide<const FULL: bool>(source: *const u8, target: *mut u8, count: usize) {
        let mask = mask::<FULL>(count);
        // SAFETY: see above.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(mask, source.cast());
            _mm512_mask_storeu_epi8(target.cast(), mask, bytes);
        }
    }

    #[inline(always)]
    unsafe fn narrow(source: *const u8, target: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(target.cast(), _mm256_loadu_si256(source.cast())) }
    }
}

/// Reverses words of `WORD` bytes.
struct Swap<const WORD: usize>;

impl<const WORD: usize> Swap<WORD> {
    /// Which byte of 16 comes where.
    const ORDER: [u8; 16] = {
        let mut order = [0; 16];
        let mut at = 0;
        while at < 16 {
            order[at] = (at ^ (WORD - 1)) as u8;
            at += 1;
        }
        order
    };
}

impl<const WORD: usize> Step for Swap<WORD> {
    const SOURCE: usize = WORD;
    const TARGET: usize = WORD;
    const WIDE: usize = 64 / WORD;
    const NARROW: usize = 32 / WORD;

    #[inline(always)]
    unsafe fn wide<const FULL: bool>(source: *const u8, target: *mut u8, count: usize) {
        let mask = mask::<FULL>(count * WORD);
        // SAFETY: see above.
        unsafe {
            let order = _mm512_broadcast_i32x4(_mm_loadu_si128(Self::ORDER.as_ptr().cast()));
            let bytes = _mm512_maskz_loadu_epi8(mask, source.cast());
            _mm512_mask_storeu_epi8(target.cast(), mask, _mm512_shuffle_epi8(bytes, order));
        }
    }

    #[inline(always)]
    unsafe fn narrow(source: *const u8, target: *mut u8) {
        // SAFETY: see above.
        unsafe {
            let order = _mm256_broadcastsi128_si256(_mm_loadu_si128(Self::ORDER.as_ptr().cast()));
            let bytes = _mm256_loadu_si256(source.cast());
            _mm256_storeu_si256(target.cast(), _mm256_shuffle_epi8(bytes, order));
        }
    }
}

/// Widens to i32. Stores are nearly all its work: in L2 AVX-512 is 0 to 30 % faster than AVX2,
/// which is not worth a kernel for each of ten pairs.
pub struct ToInt<S>(PhantomData<S>);

impl<S: IntSource> Step for ToInt<S> {
    const SOURCE: usize = S::BYTES;
    const TARGET: usize = 4;
    const WIDE: usize = 0;
    const NARROW: usize = 8;

    #[inline(always)]
    unsafe fn narrow(source: *const u8, target: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(target.cast(), S::ints8(source)) }
    }
}

/// Widens to i64, likewise.
pub struct ToLong<S>(PhantomData<S>);

macro_rules! to_long {
    ($($element:ty, $load4:ident, $widen4:ident;)*) => {$(
        impl Step for ToLong<$element> {
            const SOURCE: usize = size_of::<$element>();
            const TARGET: usize = 8;
            const WIDE: usize = 0;
            const NARROW: usize = 4;

            #[inline(always)]
            unsafe fn narrow(source: *const u8, target: *mut u8) {
                // SAFETY: see above.
                unsafe { _mm256_storeu_si256(target.cast(), $widen4($load4(source.cast()))) }
            }
        }
    )*};
}

to_long! {
    u8, _mm_loadu_si32, _mm256_cvtepu8_epi64;
    i8, _mm_loadu_si32, _mm256_cvtepi8_epi64;
    u16, _mm_loadl_epi64, _mm256_cvtepu16_epi64;
    i16, _mm_loadl_epi64, _mm256_cvtepi16_epi64;
    u32, _mm_loadu_si128, _mm256_cvtepu32_epi64;
    i32, _mm_loadu_si128, _mm256_cvtepi32_epi64;
}

macro_rules! wide {
    ($($source:ty => $target:ty, $step:ty;)*) => {$(
        impl Wide<$target> for $source {
            type Step = $step;
        }
    )*};
}

macro_rules! wide_through_float {
    ($($source:ty),*) => {wide! {$(
        $source => f32, ThroughFloat<$source, f32>;
        $source => Half, ThroughFloat<$source, Half>;
        $source => Brain, ThroughFloat<$source, Brain>;
    )*}};
}

wide_through_float! { u8, i8, u16, i16, u32, i32, u64, i64, f64 }

wide! {
    Half => f32, ThroughFloat<Half, f32>;
    Half => Brain, ThroughFloat<Half, Brain>;
    Brain => f32, ThroughFloat<Brain, f32>;
    Brain => Half, ThroughFloat<Brain, Half>;
    f32 => Half, ThroughFloat<f32, Half>;
    f32 => Brain, ThroughFloat<f32, Brain>;
    u8 => i32, ToInt<u8>;
    i8 => i32, ToInt<i8>;
    u16 => i32, ToInt<u16>;
    i16 => i32, ToInt<i16>;
    u8 => i64, ToLong<u8>;
    i8 => i64, ToLong<i8>;
    u16 => i64, ToLong<u16>;
    i16 => i64, ToLong<i16>;
    u32 => i64, ToLong<u32>;
    i32 => i64, ToLong<i32>;
}
