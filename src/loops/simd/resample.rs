//! The loops of resampling, compiled for AVX2.
//!
//! In and out: those of the portable loops. Invariant: the same bits, because it is the same code:
//! the compiler joins no product with a sum.

use super::Level;
use super::level::Tier;
use crate::loops::resample::{self, Floats, Weights};

/// Makes a function of each: the portable loop, or the same with AVX2.
macro_rules! at_levels {
    ($($(#[$note:meta])* fn $name:ident = $wide:ident(
        $($argument:ident: $type:ty),* $(,)?
    );)*) => {$(
        $(#[$note])*
        #[inline]
        pub fn $name(level: Level, $($argument: $type),*) {
            if level.tier() == Tier::Baseline {
                return resample::$wide($($argument),*);
            }
            // SAFETY: the level says that the CPU has the instructions.
            unsafe { wide::$wide($($argument),*) }
        }
    )*

        mod wide {
            use super::*;

            $(#[target_feature(enable = "avx2")]
            pub fn $wide($($argument: $type),*) {
                resample::$wide($($argument),*)
            })*
        }
    };
}

at_levels! {
    /// See [`resample::offsets`].
    fn strip_offsets = offsets(
        first: &[i64; 3], step: &[i64; 3], stride: &[u32; 3], offsets: &mut [u32],
    );
    /// See [`resample::weights`].
    fn strip_weights = weights(first: i64, step: i64, weights: &mut [f32]);
    /// See [`resample::lerp`].
    fn strip_lerp = lerp(
        axes: usize, is_exact: bool, floats: &mut Floats, weights: &Weights, count: usize,
    );
}
