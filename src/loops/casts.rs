//! Rows of elements into rows of elements of another type, or of the same: a loop for each pair of
//! types, one for each way of gathering elements, and the vector kernels that do the same.
//!
//! In: what kind of work. Out: its loops. Invariant: a loop and the kernels beside it give the same
//! bits. A loop reads as many source elements as its target holds.

use crate::loops::convert::{Brain, Convert, Half, Target};
use crate::loops::simd::{RowsKernels, cast_kernels, swap_kernels};

/// Largest element that is gathered.
pub const GATHER_BYTES_MAX: usize = 16;

/// Does one row of elements side by side.
pub type Portable = fn(&[u8], &mut [u8]);

/// Gathers a row: source bytes, first byte of the first element, bytes to the next element, target.
pub type Gather = fn(&[u8], usize, isize, &mut [u8]);

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Number {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

/// The Rust types of the numbers, by the same names.
mod types {
    use super::{Brain, Half};
    pub type U8 = u8;
    pub type I8 = i8;
    pub type U16 = u16;
    pub type I16 = i16;
    pub type U32 = u32;
    pub type I32 = i32;
    pub type U64 = u64;
    pub type I64 = i64;
    pub type F16 = Half;
    pub type Bf16 = Brain;
    pub type F32 = f32;
    pub type F64 = f64;
}

/// A change of type, at all levels.
#[derive(Clone, Copy)]
pub struct Pair {
    /// Bytes of a source element.
    pub source_bytes: u32,
    /// Bytes of a target element.
    pub target_bytes: u32,
    /// The kernels.
    pub kernels: RowsKernels,
    /// The loop.
    pub portable: Portable,
}

fn of<S: Convert<T>, T: Target>() -> Pair {
    Pair {
        source_bytes: S::BYTES as u32,
        target_bytes: T::BYTES as u32,
        kernels: cast_kernels::<S, T>(),
        portable: dense::<S, T>,
    }
}

macro_rules! pairs {
    ($source:ident, $target:ident: $($from:ident => $($to:ident)*;)*) => {
        match ($source, $target) {
            $($((Number::$from, Number::$to) => of::<types::$from, types::$to>(),)*)*
            _ => return None,
        }
    };
}

/// The change of one type into another; None where there is none. Not a table: each of its pointers
/// would take a relocation.
#[inline(never)]
pub fn pair(source: Number, target: Number) -> Option<Pair> {
    Some(pairs! { source, target:
        U8 => F32 F16 Bf16 I32 I64;
        I8 => F32 F16 Bf16 I32 I64;
        U16 => F32 F16 Bf16 I32 I64;
        I16 => F32 F16 Bf16 I32 I64;
        U32 => F32 F16 Bf16 I64;
        I32 => F32 F16 Bf16 I64;
        U64 => F32 F16 Bf16;
        I64 => F32 F16 Bf16;
        F16 => F32 Bf16;
        Bf16 => F32 F16;
        F32 => F16 Bf16;
        F64 => F32 F16 Bf16;
    })
}

/// Bit copies of elements.
#[derive(Clone, Copy)]
pub struct Copies {
    /// Gathers them as they are, and with the bytes of each word reversed.
    pub gather: [Gather; 2],
    /// Reverses the bytes of each word of a row.
    pub swap: Portable,
    /// The kernels of that.
    pub swap_kernels: RowsKernels,
}

/// The copies of elements of `bytes` bytes whose words have `word_bytes`; None for more than
/// [`GATHER_BYTES_MAX`].
#[inline(never)]
pub fn copies(bytes: u32, word_bytes: u32) -> Option<Copies> {
    let plain: Gather = match bytes {
        1 => gather::<1, 1>,
        2 => gather::<2, 1>,
        3 => gather::<3, 1>,
        4 => gather::<4, 1>,
        5 => gather::<5, 1>,
        6 => gather::<6, 1>,
        7 => gather::<7, 1>,
        8 => gather::<8, 1>,
        9 => gather::<9, 1>,
        10 => gather::<10, 1>,
        11 => gather::<11, 1>,
        12 => gather::<12, 1>,
        13 => gather::<13, 1>,
        14 => gather::<14, 1>,
        15 => gather::<15, 1>,
        16 => gather::<16, 1>,
        _ => return None,
    };
    let (swapped, swap): (Gather, Portable) = match (bytes, word_bytes) {
        (2, 2) => (gather::<2, 2>, swap_dense::<2>),
        (4, 4) => (gather::<4, 4>, swap_dense::<4>),
        (8, 8) => (gather::<8, 8>, swap_dense::<8>),
        (8, 4) => (gather::<8, 4>, swap_dense::<4>),
        (16, 8) => (gather::<16, 8>, swap_dense::<8>),
        // Words of one byte have no order.
        _ => (plain, copy_dense),
    };
    Some(Copies { gather: [plain, swapped], swap, swap_kernels: swap_kernels(word_bytes) })
}

/// Copies a row.
pub fn copy_dense(source: &[u8], target: &mut [u8]) {
    target.copy_from_slice(source);
}

fn swap_dense<const WORD: usize>(source: &[u8], target: &mut [u8]) {
    copy_dense(source, target);
    target.as_chunks_mut::<WORD>().0.iter_mut().for_each(|word| word.reverse());
}

/// The step past the last element may leave the address range, so it wraps; every read is checked.
fn gather<const BYTES: usize, const WORD: usize>(
    source: &[u8],
    first: usize,
    step: isize,
    target: &mut [u8],
) {
    let mut at = first;
    for element in target.as_chunks_mut::<BYTES>().0 {
        element.copy_from_slice(&source[at..][..BYTES]);
        if WORD > 1 {
            element.as_chunks_mut::<WORD>().0.iter_mut().for_each(|word| word.reverse());
        }
        at = at.wrapping_add_signed(step);
    }
}

fn dense<S: Convert<T>, T: Target>(source: &[u8], target: &mut [u8]) {
    for (target, source) in target.chunks_exact_mut(T::BYTES).zip(source.chunks_exact(S::BYTES)) {
        S::read(source).convert().write(target);
    }
}
