//! Arithmetic on floats with the instructions of a level.
//!
//! In: floats. Out: the same places. Invariant: the bits of the plain loops, which are compiled
//! here for each level: no operation becomes another one by that.

use super::Level;
use super::level::Tier;
use crate::loops::augment::{FloatBytes, Steps, add_noise_plain, run_each_plain, run_plain};

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
