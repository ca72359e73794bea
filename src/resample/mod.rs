//! The last pass over a sample, its arithmetic: an affine map from places to voxels.
//!
//! In: a [`Map`], made of a matrix and extents; the block of voxels that it reads, dense and
//! row-major, in the byte order of this machine. Out: places of a target, at any strides.
//! Invariant: all that decides which voxels are read, and with which weights, is integer
//! arithmetic, and all arithmetic on elements rounds once for each operation, in one order: a
//! device that does the same gives the same bits.
//!
//! ```text
//! matrix ──▶ map ──▶ hull: what has to be there
//!             │
//!             └──▶ taps of a strip of places ──▶ run: gather, cast, lerp, cast, store
//! ```
//!
//! A map has up to three axes. Place `p` of an output and voxel `p` of an array are centres: the
//! matrix takes places to coordinates of voxels. The others of the array's axes are copied, place
//! by place.
//!
//! # Coordinates
//!
//! Each entry of the matrix is rounded once, to nearest even, to a multiple of 2^-32. The
//! coordinate of place (i, j, k) along an axis is `m0 * i + m1 * j + m2 * k + m3`, exact from there
//! on, and kept relative to the first voxel of the hull, as an i64 with 32 bits of fraction
//! (Q31.32). It is monotone along each axis of the output, so its extremes are at corners; a map is
//! refused if one of them does not fit. What lies between them fits too, sums in progress included:
//! each is the coordinate of a place. So a coordinate differs from that of the matrix itself by at
//! most `2^-33 * (i + j + k + 1)` voxels.
//!
//! # Nearest
//!
//! The voxel `floor(x + 1/2)`, as the field's pad mode folds it into the array. Its bytes are
//! copied, or cast as `assemble` casts.
//!
//! # Linear
//!
//! The coordinate is rounded to a multiple of 2^-24, half upwards, before anything else. That is
//! the finest grid on which each weight is an f32 and so is its complement: a coarser one would not
//! make products exact (a difference of two u16 has 17 bits, so any weight of more than 7 bits
//! rounds), and 2^-16 would be off by half a unit of such an element. Edge and reflect then
//! fold the coordinate into the array; constant gives taps outside the pad value. The fraction
//! `w` that is left is the weight of the upper voxel. Along the last axis of the map first, `a
//! + (b - a) * w`, three operations, each rounded once to f32 and none contracted; a NaN that
//! leaves them is 0x7FC00000. If `w` is 0, the result is `a`, and nothing is done: its upper
//! tap is neither read nor in the hull. Sources become f32 before (one rounding), results
//! become the target's type after. A place with all of its taps outside holds the pad value
//! itself.
//!
//! Of `r` axes, taps of magnitude up to `M` and at most `D` apart, the result is within
//! `(3 * r * D + (r + 1) * M) * 2^-24` of exact interpolation at the exact coordinate, as long as
//! nothing overflows or is subnormal: a weight is off by 2^-25 at most, which times `D` is half a
//! unit; a difference and a product round by half a unit of `D` each, a sum by one of `M`, and a
//! source by one of `M` once. The rest of the 3 is left for products of errors.

mod layout;
mod map;
mod run;
mod taps;

pub use layout::{Layout, Other};
pub use map::{AXES, Filter, Map, MapFault};
pub use run::{Resample, Target};
