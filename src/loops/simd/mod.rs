//! Instructions that only some CPUs have.
//!
//! In: a [`Level`], found once. Out: instruction paths that say whether they exist at that level.
//! Invariant: every path gives the same bytes as the portable code beside it, so results never
//! depend on the CPU.
//!
//! `rows` converts, swaps and copies rows of elements, `unshuffle` undoes blosc's filters. `lz4`,
//! `blosclz` and `inflate` are inner loops of dictionary coders, with the copies of `copies`;
//! `checksums` are those of gzip and zlib, `digest` that of samples, `resample` those of maps.

#[cfg(target_arch = "x86_64")]
mod augment;
#[cfg(target_arch = "x86_64")]
mod blosclz;
#[cfg(target_arch = "x86_64")]
mod checksums;
#[cfg(target_arch = "x86_64")]
mod clamps;
#[cfg(target_arch = "x86_64")]
mod copies;
#[cfg(target_arch = "x86_64")]
mod crc32c;
#[cfg(target_arch = "x86_64")]
mod digest;
#[cfg(target_arch = "x86_64")]
mod floats;
#[cfg(target_arch = "x86_64")]
mod inflate;
#[cfg(target_arch = "x86_64")]
mod inlined;
mod kernels;
mod level;
#[cfg(target_arch = "x86_64")]
mod lz4;
#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod resample;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(target_arch = "x86_64")]
mod unshuffle;

#[cfg(target_arch = "x86_64")]
pub use augment::{add_noise, run, run_each, steps_kernels};
#[cfg(target_arch = "x86_64")]
pub use blosclz::blosclz_instructions;
#[cfg(target_arch = "x86_64")]
pub use checksums::{adler32_sums, crc32_folded};
#[cfg(target_arch = "x86_64")]
pub use clamps::clamping_kernels;
#[cfg(target_arch = "x86_64")]
pub use crc32c::crc32c_state;
#[cfg(target_arch = "x86_64")]
pub use digest::digest_sums;
#[cfg(target_arch = "x86_64")]
pub(crate) use inflate::inflate_symbols;
#[cfg(feature = "internals")]
pub use kernels::Kernel;
pub use kernels::{LevelKernel, RowFold, RowsKernels, StepsKernel, StepsKernels};
pub use level::Level;
#[cfg(target_arch = "x86_64")]
pub use lz4::lz4_sequences;
#[cfg(not(target_arch = "x86_64"))]
pub use portable::*;
#[cfg(target_arch = "x86_64")]
pub use resample::{strip_lerp, strip_linear, strip_offsets, strip_weights};
#[cfg(target_arch = "x86_64")]
pub use rows::{
    COPY_KERNELS, cast_kernels, prefetch, reversed, rows_streamed, stream_fence, swap_kernels,
};
#[cfg(target_arch = "x86_64")]
pub use unshuffle::{plane_of_bits, unshuffle_bytes};

/// Bits of a binary16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Half(pub u16);

/// Bits of a bfloat16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brain(pub u16);
