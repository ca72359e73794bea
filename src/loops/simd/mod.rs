//! Instructions that only some CPUs have.
//!
//! In: a [`Level`], found once. Out: instruction paths that say whether they exist at that level.
//! Invariant: every path gives the same bytes as the portable code beside it, so results never
//! depend on the CPU.
//!
//! `rows` converts, swaps and copies rows of elements, `unshuffle` undoes blosc's filters.

#[cfg(target_arch = "x86_64")]
mod crc32c;
#[cfg(target_arch = "x86_64")]
mod floats;
mod kernels;
mod level;
#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(target_arch = "x86_64")]
mod unshuffle;

#[cfg(target_arch = "x86_64")]
pub use crc32c::crc32c_state;
pub use kernels::{Kernel, LevelKernel, RowsKernels};
pub use level::Level;
#[cfg(not(target_arch = "x86_64"))]
pub use portable::*;
#[cfg(target_arch = "x86_64")]
pub use rows::{COPY_KERNELS, Wide, cast_kernels, rows_streamed, swap_kernels};
#[cfg(target_arch = "x86_64")]
pub use unshuffle::{plane_of_bits, unshuffle_bytes};

/// Bits of a binary16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Half(pub u16);

/// Bits of a bfloat16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brain(pub u16);
