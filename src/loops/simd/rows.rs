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

use super::floats::{Avx2, ThroughFloat, Width};
use super::inlined::inlined;
use super::kernels::{Kernel, RowsKernels};
use super::level::Tier;
use super::{Brain, Half, Level};
use crate::records::Dtype;
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

/// The kernels that change the type; those of [`RowsKernels::NONE`] where there is no such change.
pub fn cast_kernels(source: Dtype, target: Dtype) -> RowsKernels {
    macro_rules! chosen {
        ($($from:ident $to:ident $step:ty;)*) => {
            match (source, target) {
                $((Dtype::$from, Dtype::$to) => {
                    RowsKernels { can_stream: <$step>::WIDE > 0, ..kernels::<$step>() }
                })*
                _ => RowsKernels::NONE,
            }
        };
    }
    macro_rules! through_floats {
        ($($from:ident $source:ty => $($to:ident $target:ty),*;)*) => {
            chosen! { $($($from $to ThroughFloat<$source, $target>;)*)* }
        };
    }
    match target {
        // Unsigned integers have the same bits in a wider integer of either kind.
        Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => chosen! {
            U8 I32 Widen<u8, i32>;
            U8 U32 Widen<u8, i32>;
            I8 I32 Widen<i8, i32>;
            U16 I32 Widen<u16, i32>;
            U16 U32 Widen<u16, i32>;
            I16 I32 Widen<i16, i32>;
            U8 I64 Widen<u8, i64>;
            U8 U64 Widen<u8, i64>;
            I8 I64 Widen<i8, i64>;
            U16 I64 Widen<u16, i64>;
            U16 U64 Widen<u16, i64>;
            I16 I64 Widen<i16, i64>;
            U32 I64 Widen<u32, i64>;
            U32 U64 Widen<u32, i64>;
            I32 I64 Widen<i32, i64>;
        },
        _ => through_floats! {
            U8 u8 => F32 f32, F16 Half, Bf16 Brain;
            I8 i8 => F32 f32, F16 Half, Bf16 Brain;
            U16 u16 => F32 f32, F16 Half, Bf16 Brain;
            I16 i16 => F32 f32, F16 Half, Bf16 Brain;
            U32 u32 => F32 f32, F16 Half, Bf16 Brain;
            I32 i32 => F32 f32, F16 Half, Bf16 Brain;
            U64 u64 => F32 f32, F16 Half, Bf16 Brain;
            I64 i64 => F32 f32, F16 Half, Bf16 Brain;
            F16 Half => F32 f32, Bf16 Brain;
            Bf16 Brain => F32 f32, F16 Half;
            F32 f32 => F16 Half, Bf16 Brain;
            F64 f64 => F32 f32, F16 Half, Bf16 Brain;
        },
    }
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

pub(super) const fn kernels<P: Step>() -> RowsKernels {
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
/// `target_bytes`, and stores them past the caches, as whole lines: [`stream_fence`] waits for it.
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
}

/// Waits for stores past the caches, so that whoever learns of them by a lock sees them: locks do
/// not order them. It takes as long as the stores of some 4 KiB.
pub fn stream_fence() {
    // SAFETY: every CPU of the target has it.
    unsafe { _mm_sfence() }
}

/// Calls bytes into the caches, which somebody reads soon.
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        // SAFETY: nothing is read, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
    }
}

/// Copies elements of `bytes` bytes from the last to the first. False if the level has no way for
/// them.
pub fn reversed(level: Level, bytes: usize, source: &[u8], target: &mut [u8]) -> bool {
    if level.tier() < Tier::Avx2 {
        return false;
    }
    // SAFETY: the level says that the CPU has the instructions.
    unsafe {
        match bytes {
            1 => reversed_narrow::<1>(source, target),
            2 => reversed_narrow::<2>(source, target),
            4 => reversed_narrow::<4>(source, target),
            8 => reversed_narrow::<8>(source, target),
            _ => return false,
        }
    }
    true
}

/// The compiler turns vectors round.
#[target_feature(enable = "avx2")]
fn reversed_narrow<const BYTES: usize>(source: &[u8], target: &mut [u8]) {
    let elements = source.as_chunks::<BYTES>().0.iter().rev();
    target.as_chunks_mut::<BYTES>().0.iter_mut().zip(elements).for_each(|(to, from)| *to = *from);
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

/// Copies bytes.
struct Copied;

impl Step for Copied {
    const SOURCE: usize = 1;
    const TARGET: usize = 1;
    const WIDE: usize = 64;
    const NARROW: usize = 32;

    inlined! {
        fn wide[const FULL: bool](source: *const u8, target: *mut u8, count: usize) {
            let mask = mask::<FULL>(count);
            let bytes = _mm512_maskz_loadu_epi8(mask, source.cast());
            _mm512_mask_storeu_epi8(target.cast(), mask, bytes)
        }
        fn narrow(source: *const u8, target: *mut u8) {
            _mm256_storeu_si256(target.cast(), _mm256_loadu_si256(source.cast()))
        }
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

    inlined! {
        fn wide[const FULL: bool](source: *const u8, target: *mut u8, count: usize) {
            let mask = mask::<FULL>(count * WORD);
            let order = _mm512_broadcast_i32x4(_mm_loadu_si128(Self::ORDER.as_ptr().cast()));
            let bytes = _mm512_maskz_loadu_epi8(mask, source.cast());
            _mm512_mask_storeu_epi8(target.cast(), mask, _mm512_shuffle_epi8(bytes, order))
        }
        fn narrow(source: *const u8, target: *mut u8) {
            let order = _mm256_broadcastsi128_si256(_mm_loadu_si128(Self::ORDER.as_ptr().cast()));
            let bytes = _mm256_loadu_si256(source.cast());
            _mm256_storeu_si256(target.cast(), _mm256_shuffle_epi8(bytes, order))
        }
    }
}

/// Widens integers. Stores are nearly all its work: in L2 AVX-512 is 0 to 30 % faster than AVX2,
/// which is not worth a kernel for each of ten pairs.
struct Widen<S, T>(PhantomData<(S, T)>);

macro_rules! widen {
    ($($from:ty => $to:ty, |$source:ident| $body:expr;)*) => {$(
        impl Step for Widen<$from, $to> {
            const SOURCE: usize = size_of::<$from>();
            const TARGET: usize = size_of::<$to>();
            const WIDE: usize = 0;
            const NARROW: usize = 32 / size_of::<$to>();

            inlined! {
                fn narrow($source: *const u8, target: *mut u8) {
                    _mm256_storeu_si256(target.cast(), $body)
                }
            }
        }
    )*};
}

widen! {
    u8 => i32, |source| Avx2::u8s(source, ());
    i8 => i32, |source| Avx2::i8s(source, ());
    u16 => i32, |source| Avx2::u16s(source, ());
    i16 => i32, |source| Avx2::i16s(source, ());
    u8 => i64, |source| _mm256_cvtepu8_epi64(_mm_loadu_si32(source.cast()));
    i8 => i64, |source| _mm256_cvtepi8_epi64(_mm_loadu_si32(source.cast()));
    u16 => i64, |source| _mm256_cvtepu16_epi64(_mm_loadl_epi64(source.cast()));
    i16 => i64, |source| _mm256_cvtepi16_epi64(_mm_loadl_epi64(source.cast()));
    u32 => i64, |source| _mm256_cvtepu32_epi64(_mm_loadu_si128(source.cast()));
    i32 => i64, |source| _mm256_cvtepi32_epi64(_mm_loadu_si128(source.cast()));
}
