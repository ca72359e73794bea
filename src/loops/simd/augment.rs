//! Arithmetic on floats with the instructions of a level.
//!
//! In: floats, or rows of elements that become floats on their way. Out: the same places, or rows
//! of a type of floats. Invariant: the bits of the plain loops, which are compiled here for each
//! level: no operation becomes another one by that.
//!
//! Rows of the usual types take all steps in one pass with AVX-512, in either direction: a second
//! pass over floats in L1 takes as long as the store of them to memory.

use super::floats::{Avx512, FloatSource, FloatTarget};
use super::inlined::inlined;
use super::kernels::{FOLD_WIDE, RowFold};
use super::level::Tier;
use super::rows::mask;
use super::{Brain, Half, Level, StepsKernel, StepsKernels};
use crate::loops::augment::{
    FloatBytes, Hole, NAN, Steps, add_noise_plain, run_each_plain, run_plain,
};
use crate::records::Dtype;
use core::arch::x86_64::*;
use static_assertions::const_assert;

/// Compiles a plain loop for each level.
macro_rules! by_level {
    ($($(#[$note:meta])* $name:ident = $plain:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$note])*
        pub fn $name(level: Level, floats: &mut [FloatBytes], $($argument: $type),*) {
            #[target_feature(enable = "avx2")]
            fn narrow(floats: &mut [FloatBytes], $($argument: $type),*) {
                $plain(floats, $($argument),*)
            }
            #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
            fn wide(floats: &mut [FloatBytes], $($argument: $type),*) {
                $plain(floats, $($argument),*)
            }
            // SAFETY: the level says that the CPU has the instructions.
            unsafe {
                match level.tier() {
                    Tier::Baseline => $plain(floats, $($argument),*),
                    Tier::Avx2 => narrow(floats, $($argument),*),
                    Tier::Avx512 | Tier::Avx512Gfni => wide(floats, $($argument),*),
                }
            }
        }
    )*};
}

by_level! {
    /// The same steps for all floats.
    run = run_plain(steps: &Steps);
    /// The same with a factor and a term for each float, of which there are as many, and limits.
    run_each = run_each_plain(tables: (&[f32], &[f32]), limits: (f32, f32));
    /// Adds noise of a deviation and a key; the first float has place `first` in its sample.
    add_noise = add_noise_plain(noise: (f32, u64), first: u64);
}

/// The kernels that take rows of one type to rows of another, by way of steps. None where the level
/// has no such kernels.
pub fn steps_kernels(level: Level, source: Dtype, target: Dtype) -> Option<StepsKernels> {
    macro_rules! kernels {
        ($($from:ident $source:ty;)*) => {
            match (source, target) {
                $((Dtype::$from, Dtype::F32) => kernels_of::<$source, f32>(),
                (Dtype::$from, Dtype::Bf16) => kernels_of::<$source, Brain>(),
                (Dtype::$from, Dtype::F16) => kernels_of::<$source, Half>(),)*
                _ => return None,
            }
        };
    }
    if level.tier() < Tier::Avx512 {
        return None;
    }
    Some(kernels! {
        U8 u8;
        U16 u16;
        I16 i16;
        F16 Half;
        F32 f32;
    })
}

fn kernels_of<S: FloatSource, T: FloatTarget>() -> StepsKernels {
    let rows: [StepsKernel; 2] = [rows_stepped::<S, T, false>, rows_stepped::<S, T, true>];
    StepsKernels { rows, folded: rows_folded::<S, T> }
}

/// Floats of a vector.
const WIDE: usize = 16;

const_assert!(WIDE == FOLD_WIDE);

/// Bytes of a cache line.
const LINE: usize = 64;

/// Steps of a vector of floats.
#[derive(Clone, Copy)]
struct Lanes {
    /// Lanes of the source by those of the target; only the lower four bits of each count.
    order: __m512i,
    scale: __m512,
    bias: __m512,
    low: __m512,
    high: __m512,
    nan: __m512,
}

inlined! {
    fn lanes(steps: &Steps, is_backwards: bool) -> Lanes {
        let places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let order = match is_backwards {
            true => _mm512_sub_epi32(_mm512_set1_epi32(-1), places),
            false => places,
        };
        let [scale, bias] = [_mm512_set1_ps(steps.scale), _mm512_set1_ps(steps.bias)];
        let [low, high] = [_mm512_set1_ps(steps.low), _mm512_set1_ps(steps.high)];
        Lanes { order, scale, bias, low, high, nan: _mm512_set1_ps(f32::from_bits(NAN)) }
    }

    fn stepped[S: FloatSource](lanes: Lanes, from: *const u8, mask: __mmask16) -> __m512 {
        let x = _mm512_permutexvar_ps(lanes.order, S::floats::<Avx512, false>(from, mask));
        let x = _mm512_add_ps(_mm512_mul_ps(x, lanes.scale), lanes.bias);
        // If one is a NaN, the second is taken.
        let x = _mm512_min_ps(lanes.high, _mm512_max_ps(lanes.low, x));
        _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x), lanes.nan)
    }

    /// The vector of the places of a row from `at` on, with the value in those of the hole.
    fn with_hole(x: __m512, hole: &Hole, at: usize) -> __m512 {
        if at + WIDE <= hole.first || hole.limit <= at {
            return x;
        }
        let (low, high) = (hole.first.saturating_sub(at), (hole.limit - at).min(WIDE));
        let mask = (1u32 << high) - (1u32 << low);
        _mm512_mask_mov_ps(x, mask as __mmask16, _mm512_set1_ps(hole.value))
    }
}

/// # Safety
/// As [`StepsKernel`] says; the CPU has AVX-512. `STREAM`: the target rows are whole cache lines,
/// which are stored past the caches.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn rows_stepped<S: FloatSource, T: FloatTarget, const STREAM: bool>(
    (steps, hole): (&Steps, &Hole),
    is_backwards: bool,
    (mut source, source_pitch): (*const u8, isize),
    (mut target, target_pitch): (*mut u8, usize),
    count: usize,
    length: usize,
) {
    // From one vector to the next, and from the row to its first.
    let vector_bytes = WIDE * S::BYTES;
    let (step, first) = match is_backwards {
        true => (-(vector_bytes as isize), (length * S::BYTES).wrapping_sub(vector_bytes)),
        false => (vector_bytes as isize, 0),
    };
    let tail = mask::<false>((length - 1) % WIDE + 1) as __mmask16;
    let tail_from = if is_backwards { tail.reverse_bits() } else { tail };
    let line_step = step * (LINE / (WIDE * size_of::<T>())) as isize;
    for _ in 0..count {
        let mut from = source.wrapping_add(first);
        // SAFETY: elements [at, at + WIDE) of a row of `length`, or as many from its end on: of the
        // last of them those of the masks. Lines are two vectors, or one.
        unsafe {
            let lanes = lanes(steps, is_backwards);
            if STREAM {
                for at in (0..length * size_of::<T>()).step_by(LINE) {
                    let vector = |number: usize| {
                        let from = from.wrapping_offset(number as isize * step);
                        let place = at / size_of::<T>() + number * WIDE;
                        with_hole(stepped::<S>(lanes, from, !0), hole, place)
                    };
                    _mm512_stream_si512(target.add(at).cast(), T::line(vector));
                    from = from.wrapping_offset(line_step);
                }
            } else {
                for at in (0..length).step_by(WIDE) {
                    let is_whole = at + WIDE <= length;
                    let (mask, mask_from) = if is_whole { (!0, !0) } else { (tail, tail_from) };
                    let x = with_hole(stepped::<S>(lanes, from, mask_from), hole, at);
                    T::store::<Avx512>(target.add(at * size_of::<T>()), mask, x);
                    from = from.wrapping_offset(step);
                }
            }
        }
        // The step past the last row may leave the allocation, so it wraps and is not used.
        source = source.wrapping_offset(source_pitch);
        target = target.wrapping_add(target_pitch);
    }
}

/// # Safety
/// As [`super::kernels::FoldKernel`] says; the CPU has AVX-512.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn rows_folded<S: FloatSource, T: FloatTarget>(
    steps: &Steps,
    fold: &RowFold,
    (mut source, source_pitch): (*const u8, isize),
    (mut target, target_pitch): (*mut u8, usize),
    count: usize,
) {
    for _ in 0..count {
        let mut to = target;
        for vector in fold.vectors() {
            // SAFETY: the masks of a fold leave out what is in none of its rows.
            unsafe {
                let order = _mm512_loadu_si512(vector.order.as_ptr().cast());
                let lanes = Lanes { order, ..lanes(steps, false) };
                let x = stepped::<S>(lanes, source.add(vector.first * S::BYTES), vector.source);
                T::store::<Avx512>(to, vector.target, x);
            }
            to = to.wrapping_add(WIDE * size_of::<T>());
        }
        // The step past the last row may leave the allocation, so it wraps and is not used.
        source = source.wrapping_offset(source_pitch);
        target = target.wrapping_add(target_pitch);
    }
}
