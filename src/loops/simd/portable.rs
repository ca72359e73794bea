//! Machines without vector paths of their own: what the compiler makes of plain loops; other paths
//! say that they do not exist, and the portable code of their callers does the work.

use super::kernels::{Kernel, StepsKernels};
use super::{Level, RowsKernels};
use crate::loops::augment::{FloatBytes, Steps, add_noise_plain, run_each_plain, run_plain};
use crate::loops::inflate::{Bits, Stop, Tables};
use crate::loops::resample::{self, Floats, Taps, Weights};
use crate::records::Dtype;

/// The same steps for all floats.
pub fn run(_level: Level, floats: &mut [FloatBytes], steps: &Steps) {
    run_plain(floats, steps);
}

/// The same with a factor and a term for each float, of which there are as many, and limits.
pub fn run_each(
    _level: Level,
    floats: &mut [FloatBytes],
    tables: (&[f32], &[f32]),
    limits: (f32, f32),
) {
    run_each_plain(floats, tables, limits);
}

/// Adds noise of a deviation and a key; the first float has place `first` in its sample.
pub fn add_noise(_level: Level, floats: &mut [FloatBytes], noise: (f32, u64), first: u64) {
    add_noise_plain(floats, noise, first);
}

/// No kernels.
pub fn steps_kernels(_level: Level, _source: Dtype, _target: Dtype) -> Option<StepsKernels> {
    None
}

/// Nothing is stored past the caches.
pub fn stream_fence() {}

/// Nothing is called.
pub fn prefetch(_bytes: &[u8]) {}

/// No path.
pub fn reversed(_level: Level, _bytes: usize, _source: &[u8], _target: &mut [u8]) -> bool {
    false
}

/// Nothing moves.
pub fn lz4_sequences(_source: &[u8], _target: &mut [u8], done: usize) -> (usize, usize) {
    (0, done)
}

/// Nothing moves.
pub fn blosclz_instructions(_source: &[u8], _target: &mut [u8], done: usize) -> (usize, usize) {
    (0, done)
}

/// Nothing moves.
pub(crate) fn inflate_symbols(
    _tables: &Tables,
    _bits: &mut Bits<'_>,
    _target: &mut [u8],
    _done: &mut usize,
) -> Stop {
    Stop::Room
}

/// Nothing is folded.
pub fn crc32_folded(_state: u32, _bytes: &[u8]) -> Option<([u8; 16], &[u8])> {
    None
}

/// All bytes are left.
pub fn adler32_sums(sums: (u32, u32), bytes: &[u8]) -> ((u32, u32), &[u8]) {
    (sums, bytes)
}

/// All bytes are left.
pub fn digest_sums(_level: Level, bytes: &[u8], _first: u64) -> (u64, &[u8]) {
    (0, bytes)
}

/// See [`resample::offsets`].
pub fn strip_offsets(
    _level: Level,
    first: &[i64; 3],
    step: &[i64; 3],
    stride: &[u32; 3],
    offsets: &mut [u32],
) {
    resample::offsets(first, step, stride, offsets);
}

/// See [`resample::weights`].
pub fn strip_weights(_level: Level, first: i64, step: i64, weights: &mut [f32]) {
    resample::weights(first, step, weights);
}

/// No kernel.
pub fn strip_linear(
    _level: Level,
    _dtype: Dtype,
    _source: &[u8],
    _taps: &mut Taps,
    _floats: &mut Floats,
) -> bool {
    false
}

/// See [`resample::lerp`].
pub fn strip_lerp(
    _level: Level,
    axes: usize,
    is_exact: bool,
    floats: &mut Floats,
    weights: &Weights,
    count: usize,
) {
    resample::lerp(axes, is_exact, floats, weights, count);
}

/// No kernels.
pub fn cast_kernels(_source: Dtype, _target: Dtype) -> RowsKernels {
    RowsKernels::NONE
}

/// No kernels.
pub fn clamping_kernels(_source: Dtype, _target: Dtype) -> RowsKernels {
    RowsKernels::NONE
}

/// No kernels.
pub fn swap_kernels(_word_bytes: u32) -> RowsKernels {
    RowsKernels::NONE
}

/// No kernels.
pub const COPY_KERNELS: RowsKernels = RowsKernels::NONE;

/// The elements of usual sizes; the size as a constant lets the compiler make vector interleaves.
pub fn unshuffle_bytes(_level: Level, planes: &[&[u8]], first: usize, target: &mut [u8]) -> usize {
    match planes.len() {
        2 => bytes_by::<2>(planes, first, target),
        4 => bytes_by::<4>(planes, first, target),
        8 => bytes_by::<8>(planes, first, target),
        _ => 0,
    }
}

fn bytes_by<const SIZE: usize>(planes: &[&[u8]], first: usize, target: &mut [u8]) -> usize {
    let elements = target.as_chunks_mut::<SIZE>().0;
    let parts: [&[u8]; SIZE] =
        core::array::from_fn(|byte| &planes[byte][first..][..elements.len()]);
    for (at, element) in elements.iter_mut().enumerate() {
        for byte in 0..SIZE {
            element[byte] = parts[byte][at];
        }
    }
    elements.len()
}

/// No path: no groups are done.
pub fn plane_of_bits(_level: Level, _rows: &[u8], _first: usize, _target: &mut [u8]) -> usize {
    0
}

/// Nothing streams: the kernel itself.
///
/// # Safety
/// As for the kernel.
pub unsafe fn rows_streamed(
    kernel: Kernel,
    _element_bytes: (usize, usize),
    (source, source_pitch): (*const u8, isize),
    (target, target_pitch): (*mut u8, usize),
    count: usize,
    length: usize,
) {
    // SAFETY: what the kernel asks is asked of the caller.
    unsafe { kernel(source, source_pitch, target, target_pitch, count, length) }
}

/// No path.
pub fn crc32c_state(_state: u32, _bytes: &[u8]) -> Option<u32> {
    None
}
