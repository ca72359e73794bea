//! The last pass over a sample, its arithmetic: an affine map from places to voxels.
//!
//! In: a [`Map`], made of a matrix and extents; the block of voxels that it reads, dense and
//! row-major, in the byte order of this machine. Out: places of a target, at any strides.
//! Invariant: integers alone decide which voxels are read, and with which weights; arithmetic on
//! elements rounds once for each operation, in one order. A device that does the same gives the
//! same bits.
//!
//! ```text
//! matrix ──▶ map ──▶ hull: the voxels that have to be there
//!             │
//!             └──▶ taps of a strip of places ──▶ run: gather, cast, lerp, cast, store
//! ```
//!
//! A map has up to three axes; the array's other axes are copied, place by place. Place `p` of an
//! output and voxel `p` of an array are centres, and the matrix takes the one to the other.
//!
//! # Coordinates
//!
//! Each entry of the matrix is rounded once, to the nearest multiple of 2^-32, ties to even. The
//! coordinate of place (i, j, k) along an axis is `m0 * i + m1 * j + m2 * k + m3`, exact from there
//! on. It is kept relative to the first voxel of the hull, as an i64 with 32 bits of fraction
//! (Q31.32). The sum is linear in each of i, j and k, so its extremes are at corners of the output.
//! A map is refused if one of them does not fit, so that of each place between them fits too. It
//! differs from the coordinate of the matrix itself by at most `2^-33 * (i + j + k + 1)` voxels.
//!
//! # Nearest
//!
//! The voxel is `floor(x + 1/2)`, which the pad mode then folds into the array. Its bytes are
//! copied, or cast as `assemble` casts.
//!
//! # Linear
//!
//! The coordinate is first rounded to a multiple of 2^-24, half upwards. Edge and reflect then fold
//! it into the array; with constant, taps outside are the pad value. Its fraction `w` is the weight
//! of the upper voxel. Sources become f32, with one rounding. Axes are taken from the last of the
//! map to the first, each by `a + (b - a) * w`: three operations, each rounded once to f32, none
//! contracted. A NaN that leaves them is 0x7FC00000. If `w` is 0 the result is `a`, and nothing is
//! computed: the upper tap is neither read nor in the hull. The last result becomes the target's
//! type. A place with all of its taps outside holds the pad value itself.
//!
//! 24 bits are the most with which each `w` and each `1 - w` is an f32. Fewer bits make no product
//! exact that matters: a difference of two u16 has 17 bits, so weights of more than 7 bits round.
//! With 16 bits, weights would be off by half a unit of a u16.
//!
//! # The bound
//!
//! Let a place have taps of magnitude up to `M`, at most `D` apart, along `r` axes. Its value is
//! within `(3 * r * D + (r + 1) * M) * 2^-24` of exact interpolation at the exact coordinate, if
//! nothing overflows or is subnormal. An axis adds four errors, in units of 2^-24. The weight is
//! off by a half, which counts `D / 2`; difference and product add `D / 2` each, and the sum
//! `M / 2`. Casts of source and target add `M / 2` each; what is left covers products of errors.

mod layout;
mod map;
mod part;
mod run;
mod taps;

pub use layout::Layout;
pub use map::{AXES, Filter, Map, MapFault};
pub use part::{Cut, Part};
pub use run::{Places, Resample, Target};
