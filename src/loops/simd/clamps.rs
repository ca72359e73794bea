//! Steps of rows that clamp to an integer type, with AVX2 and AVX-512.
//!
//! In: a vector of integers of up to 32 bits, or of floats. Out: one of integers of up to 32 bits.
//! Invariant: the bits of the portable loops (`casts`).
//!
//! Every source becomes an integer of 32 bits with a sign first, clamped to those: no target has a
//! greater limit, but U32, and its sources are integers with a sign.

use super::RowsKernels;
use super::floats::{Avx2, Avx512, FloatSource, Width};
use super::inlined::inlined;
use super::rows::{Step, kernels, mask};
use super::{Brain, Half};
use crate::records::Dtype;
use core::arch::x86_64::__mmask16;
use core::marker::PhantomData;

/// The kernels that clamp; those of [`RowsKernels::NONE`] for pairs that have none.
pub fn clamping_kernels(source: Dtype, target: Dtype) -> RowsKernels {
    macro_rules! chosen {
        ($($from:ident $source:ty => $($to:ident $target:ty),*;)*) => {
            match (source, target) {
                $($((Dtype::$from, Dtype::$to) => kernels::<Clamp<$source, $target>>(),)*)*
                _ => RowsKernels::NONE,
            }
        };
    }
    chosen! {
        U8 u8 => I8 i8;
        I8 i8 => U8 u8, U16 u16, U32 u32;
        U16 u16 => U8 u8, I8 i8, I16 i16;
        I16 i16 => U8 u8, I8 i8, U16 u16, U32 u32;
        U32 u32 => U8 u8, I8 i8, U16 u16, I16 i16, I32 i32;
        I32 i32 => U8 u8, I8 i8, U16 u16, I16 i16, U32 u32;
        F16 Half => U8 u8, I8 i8, U16 u16, I16 i16, I32 i32;
        Bf16 Brain => U8 u8, I8 i8, U16 u16, I16 i16, I32 i32;
        F32 f32 => U8 u8, I8 i8, U16 u16, I16 i16, I32 i32;
    }
}

/// A type that becomes an integer of 32 bits on its way.
trait Source {
    /// A vector.
    unsafe fn ints<W: Width>(source: *const u8, mask: W::Mask) -> W::Ints;
}

macro_rules! sources {
    ($($type:ty, |$source:ident, $mask:ident| $body:block)*) => {$(
        impl Source for $type {
            inlined! {
                fn ints[W: Width]($source: *const u8, $mask: W::Mask) -> W::Ints $body
            }
        }
    )*};
}

sources! {
    u8, |source, mask| { W::u8s(source, mask) }
    i8, |source, mask| { W::i8s(source, mask) }
    u16, |source, mask| { W::u16s(source, mask) }
    i16, |source, mask| { W::i16s(source, mask) }
    u32, |source, mask| { W::min_unsigned(W::i32s(source, mask), W::splat(i32::MAX)) }
    i32, |source, mask| { W::i32s(source, mask) }
    Half, |source, mask| { W::whole(Half::floats::<W, false>(source, mask)) }
    Brain, |source, mask| { W::whole(Brain::floats::<W, false>(source, mask)) }
    f32, |source, mask| { W::whole(f32::floats::<W, false>(source, mask)) }
}

/// A type that an integer of 32 bits becomes, by its limits among those.
trait Target {
    const LEAST: i32;
    const MOST: i32;
}

macro_rules! targets {
    ($($type:ty),*) => {$(
        impl Target for $type {
            const LEAST: i32 = if <$type>::MIN == 0 { 0 } else { <$type>::MIN as i32 };
            const MOST: i32 = if size_of::<$type>() < 4 { <$type>::MAX as i32 } else { i32::MAX };
        }
    )*};
}

targets! { u8, i8, u16, i16, u32, i32 }

/// A step that clamps.
struct Clamp<S, T>(PhantomData<(S, T)>);

impl<S: Source, T: Target> Clamp<S, T> {
    inlined! {
        fn step[W: Width](source: *const u8, target: *mut u8, mask: W::Mask) {
            let ints = S::ints::<W>(source, mask);
            let ints = W::max(W::min(ints, W::splat(T::MOST)), W::splat(T::LEAST));
            match size_of::<T>() {
                1 => W::store_low::<1>(target, mask, ints),
                2 => W::store_low::<2>(target, mask, ints),
                _ => W::store_low::<4>(target, mask, ints),
            }
        }
    }
}

impl<S: Source, T: Target> Step for Clamp<S, T> {
    const SOURCE: usize = size_of::<S>();
    const TARGET: usize = size_of::<T>();
    const WIDE: usize = 16;
    const NARROW: usize = 8;

    inlined! {
        fn wide[const FULL: bool](source: *const u8, target: *mut u8, count: usize) {
            Self::step::<Avx512>(source, target, mask::<FULL>(count) as __mmask16)
        }
        fn narrow(source: *const u8, target: *mut u8) { Self::step::<Avx2>(source, target, ()) }
    }
}
