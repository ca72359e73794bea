//! Rows of elements into rows of elements of another type, or of the same: portable loops, one for
//! each way of gathering elements, and the vector kernels that do the same.
//!
//! In: what kind of work. Out: its loops. Invariant: a loop and the kernels beside it give the same
//! bits. A loop reads as many source elements as its target holds.

use crate::loops::convert::{
    Brain, Half, brain_from_f32, brain_from_f64, f32_from_brain, f32_from_f64, f32_from_half,
    half_from_f32, odd_f32_from_f64,
};
use crate::loops::simd::{RowsKernels, cast_kernels, clamping_kernels, swap_kernels};
use crate::records::Dtype;

/// Largest element that is gathered.
pub const GATHER_BYTES_MAX: usize = 16;

/// Bytes of the floats between the two loops of a row: with their source well inside L1.
pub const STRIP_BYTES: usize = 512;

/// Does one row of elements side by side.
pub type Portable = fn(&[u8], &mut [u8]);

/// Gathers a row: source bytes, first byte of the first element, bytes to the next element, target.
pub type Gather = fn(&[u8], usize, isize, &mut [u8]);

/// Does rows of elements side by side: at once, or first to elements of another type and from those
/// to the target's. A loop for each source and target would be several times the code, and the
/// second one takes most of the time.
#[derive(Clone, Copy, Debug)]
pub enum RowLoop {
    /// All of it.
    Single(Portable),
    /// By way of another type.
    Double(TwoLoops),
}

/// Two loops, one after the other, and the bytes of an element before, between and after them.
#[derive(Clone, Copy, Debug)]
pub struct TwoLoops {
    loops: [Portable; 2],
    bytes: [usize; 3],
}

impl TwoLoops {
    /// From one type by way of another one to a third.
    pub fn new(loops: [Portable; 2], types: [Dtype; 3]) -> TwoLoops {
        TwoLoops { loops, bytes: types.map(|dtype| dtype.bytes() as usize) }
    }

    /// Does a row; `strip` holds anything.
    pub fn row(&self, source: &[u8], target: &mut [u8], strip: &mut [u8; STRIP_BYTES]) {
        let [before, between, after] = self.bytes;
        let elements = STRIP_BYTES / between;
        let sources = source.chunks(elements * before);
        for (source, target) in sources.zip(target.chunks_mut(elements * after)) {
            let strip = &mut strip[..target.len() / after * between];
            self.loops[0](source, strip);
            self.loops[1](strip, target);
        }
    }
}

fn halves_from_floats(source: &[u8], target: &mut [u8]) {
    each(source, target, |bytes| half_from_f32(f32::from_le_bytes(bytes)).0.to_ne_bytes());
}

/// A change of type, at all levels.
#[derive(Clone, Copy)]
pub struct Pair {
    /// The kernels.
    pub kernels: RowsKernels,
    /// The loop.
    pub portable: RowLoop,
}

/// The change of one type into another; None where there is none. Not a table: each of its pointers
/// would take a relocation.
#[inline(never)]
pub fn pair(source: Dtype, target: Dtype) -> Option<Pair> {
    let portable = match target {
        Dtype::F16 if source == Dtype::F32 => RowLoop::Single(halves_from_floats),
        Dtype::F16 => RowLoop::Double(TwoLoops::new(
            [to_halves(source)?, halves_from_floats],
            [source, Dtype::F32, target],
        )),
        Dtype::F32 => RowLoop::Single(to_floats(source)?),
        Dtype::Bf16 => RowLoop::Single(to_brains(source)?),
        Dtype::F64 => RowLoop::Single(to_doubles(source)?),
        _ => RowLoop::Single(widening(source, target)?),
    };
    Some(Pair { kernels: cast_kernels(source, target), portable })
}

/// The change of a number into an integer that clamps; None where there is none.
#[inline(never)]
pub fn clamping_pair(source: Dtype, target: Dtype) -> Option<Pair> {
    use Dtype::{Bf16, F16, F32, F64, I32, I64, U32, U64};
    let first = match source {
        F16 | Bf16 => (to_floats(source)?, F32),
        U32 => (most_i32 as Portable, I32),
        F32 | F64 | I32 | I64 | U64 => (clamping(source, target)?, target),
        _ => (widening(source, I32)?, I32),
    };
    let portable = if first.1 == target {
        RowLoop::Single(first.0)
    } else {
        let loops = [first.0, clamping(first.1, target)?];
        RowLoop::Double(TwoLoops::new(loops, [source, first.1, target]))
    };
    Some(Pair { kernels: clamping_kernels(source, target), portable })
}

/// The loop that converts elements of a type of Rust's.
macro_rules! each {
    ($source:ty, $convert:expr) => {
        |source, target| {
            each(source, target, |bytes| $convert(<$source>::from_le_bytes(bytes)).to_ne_bytes())
        }
    };
}

/// The loop that turns the bytes of words of a type round.
macro_rules! swapped {
    ($word:ty) => {
        |source, target| {
            each(source, target, |word| <$word>::from_ne_bytes(word).swap_bytes().to_ne_bytes())
        }
    };
}

#[inline(always)]
fn each<const S: usize, const T: usize>(
    source: &[u8],
    target: &mut [u8],
    convert: impl Fn([u8; S]) -> [u8; T],
) {
    let elements = source.as_chunks::<S>().0;
    for (target, source) in target.as_chunks_mut::<T>().0.iter_mut().zip(elements) {
        *target = convert(*source);
    }
}

/// The number that a truth value is: any byte but 0 is true.
fn number(truth: u8) -> u8 {
    u8::from(truth != 0)
}

fn to_floats(source: Dtype) -> Option<Portable> {
    Some(match source {
        Dtype::Bool => each!(u8, |truth| f32::from(number(truth))),
        Dtype::U8 => each!(u8, f32::from),
        Dtype::I8 => each!(i8, f32::from),
        Dtype::U16 => each!(u16, f32::from),
        Dtype::I16 => each!(i16, f32::from),
        Dtype::U32 => each!(u32, |value| value as f32),
        Dtype::I32 => each!(i32, |value| value as f32),
        Dtype::U64 => each!(u64, |value| value as f32),
        Dtype::I64 => each!(i64, |value| value as f32),
        Dtype::F16 => each!(u16, |bits| f32_from_half(Half(bits))),
        Dtype::Bf16 => each!(u16, |bits| f32_from_brain(Brain(bits))),
        Dtype::F64 => each!(f64, f32_from_f64),
        _ => return None,
    })
}

/// To floats that round to the nearest half, which is infinite from 65,520 on: a clamped integer
/// rounds as the whole one would, and is exact in an f32.
fn to_halves(source: Dtype) -> Option<Portable> {
    Some(match source {
        Dtype::U32 => each!(u32, |value: u32| value.min(65_520) as i32 as f32),
        Dtype::I32 => each!(i32, |value: i32| value.clamp(-65_520, 65_520) as f32),
        Dtype::U64 => each!(u64, |value: u64| value.min(65_520) as i32 as f32),
        Dtype::I64 => each!(i64, |value: i64| value.clamp(-65_520, 65_520) as i32 as f32),
        Dtype::F64 => each!(f64, odd_f32_from_f64),
        other => return to_floats(other),
    })
}

fn to_brains(source: Dtype) -> Option<Portable> {
    Some(match source {
        Dtype::Bool => each!(u8, |truth| brain_from_f32(f32::from(number(truth))).0),
        Dtype::U8 => each!(u8, |value| brain_from_f32(f32::from(value)).0),
        Dtype::I8 => each!(i8, |value| brain_from_f32(f32::from(value)).0),
        Dtype::U16 => each!(u16, |value| brain_from_f32(f32::from(value)).0),
        Dtype::I16 => each!(i16, |value| brain_from_f32(f32::from(value)).0),
        Dtype::U32 => each!(u32, |value| brain_from_f32(value as f32).0),
        Dtype::I32 => each!(i32, |value| brain_from_f32(value as f32).0),
        Dtype::U64 => each!(u64, |value| brain_from_f32(value as f32).0),
        Dtype::I64 => each!(i64, |value| brain_from_f32(value as f32).0),
        Dtype::F16 => each!(u16, |bits| brain_from_f32(f32_from_half(Half(bits))).0),
        Dtype::F32 => each!(f32, |value| brain_from_f32(value).0),
        Dtype::F64 => each!(f64, |value| brain_from_f64(value).0),
        _ => return None,
    })
}

/// Integers, which round once to nearest even if they have more than 53 bits.
fn to_doubles(source: Dtype) -> Option<Portable> {
    Some(match source {
        Dtype::Bool => each!(u8, |truth| f64::from(number(truth))),
        Dtype::U8 => each!(u8, f64::from),
        Dtype::I8 => each!(i8, f64::from),
        Dtype::U16 => each!(u16, f64::from),
        Dtype::I16 => each!(i16, f64::from),
        Dtype::U32 => each!(u32, f64::from),
        Dtype::I32 => each!(i32, f64::from),
        Dtype::U64 => each!(u64, |value| value as f64),
        Dtype::I64 => each!(i64, |value| value as f64),
        _ => return None,
    })
}

/// To wider integers; truth values also to those of one byte.
fn widening(source: Dtype, target: Dtype) -> Option<Portable> {
    use Dtype::{Bool, I8, I16, I32, I64, U8, U16, U32, U64};
    Some(match (source, target) {
        (Bool, U8 | I8) => each!(u8, number),
        (Bool, U16 | I16) => each!(u8, |truth| u16::from(number(truth))),
        (Bool, U32 | I32) => each!(u8, |truth| u32::from(number(truth))),
        (Bool, U64 | I64) => each!(u8, |truth| u64::from(number(truth))),
        (U8, U16) => each!(u8, u16::from),
        (U8, U32 | I32) => each!(u8, u32::from),
        (U8, U64 | I64) => each!(u8, u64::from),
        (U16, U32 | I32) => each!(u16, u32::from),
        (U16, U64 | I64) => each!(u16, u64::from),
        (U32, U64 | I64) => each!(u32, u64::from),
        (I8, I32) => each!(i8, i32::from),
        (I8, I64) => each!(i8, i64::from),
        (I16, I32) => each!(i16, i32::from),
        (I16, I64) => each!(i16, i64::from),
        (I32, I64) => each!(i32, i64::from),
        _ => return None,
    })
}

/// The loop from one integer type to another that clamps to the values that both have.
macro_rules! clamped {
    ($source:ty, $target:ty) => {
        each!($source, |value: $source| {
            const LOW: i128 = <$target>::MIN as i128;
            const HIGH: i128 = <$target>::MAX as i128;
            const SOURCE: [i128; 2] = [<$source>::MIN as i128, <$source>::MAX as i128];
            const LEAST: $source = if LOW > SOURCE[0] { LOW as $source } else { <$source>::MIN };
            const MOST: $source = if HIGH < SOURCE[1] { HIGH as $source } else { <$source>::MAX };
            value.clamp(LEAST, MOST) as $target
        })
    };
}

/// To the signed integers of the same size.
fn most_i32(source: &[u8], target: &mut [u8]) {
    let convert: Portable = clamped!(u32, i32);
    convert(source, target);
}

/// The loop from a float to an integer: the conversion truncates and clamps, and NaN becomes 0.
macro_rules! truncated {
    ($source:ty, $target:ty) => {
        each!($source, |value: $source| value as $target)
    };
}

/// To integers, from the types that the others reach them by. [`widening`] has the other pairs of
/// integers.
fn clamping(source: Dtype, target: Dtype) -> Option<Portable> {
    use Dtype::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    macro_rules! chosen {
        ($($from:ident $source:ty, $make:ident => $($to:ident $target:ty),*;)*) => {
            match (source, target) {
                $($(($from, $to) => $make!($source, $target),)*)*
                _ => return None,
            }
        };
    }
    Some(chosen! {
        I32 i32, clamped => U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, U64 u64;
        I64 i64, clamped => U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64;
        U64 u64, clamped => U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, I64 i64;
        F32 f32, truncated => U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64;
        F64 f64, truncated => U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64;
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
        (2, 2) => (gather::<2, 2>, swapped!(u16)),
        (4, 4) => (gather::<4, 4>, swapped!(u32)),
        (8, 8) => (gather::<8, 8>, swapped!(u64)),
        (8, 4) => (gather::<8, 4>, swapped!(u32)),
        (16, 8) => (gather::<16, 8>, swapped!(u64)),
        // Words of one byte have no order.
        _ => (plain, copy_dense),
    };
    Some(Copies { gather: [plain, swapped], swap, swap_kernels: swap_kernels(word_bytes) })
}

/// Copies a row.
pub fn copy_dense(source: &[u8], target: &mut [u8]) {
    target.copy_from_slice(source);
}

/// The step past the last element may leave the address range, so it wraps; every read is checked.
/// Elements side by side from the last to the first are copied several at a time.
fn gather<const BYTES: usize, const WORD: usize>(
    source: &[u8],
    first: usize,
    step: isize,
    target: &mut [u8],
) {
    let elements = target.as_chunks_mut::<BYTES>().0;
    let copy = |element: &mut [u8; BYTES], from: &[u8]| {
        element.copy_from_slice(from);
        if WORD > 1 {
            element.as_chunks_mut::<WORD>().0.iter_mut().for_each(|word| word.reverse());
        }
    };
    if step == -(BYTES as isize) {
        let behind = first + BYTES;
        let reversed = source[behind - elements.len() * BYTES..behind].as_chunks::<BYTES>().0;
        let pairs = elements.iter_mut().zip(reversed.iter().rev());
        return pairs.for_each(|(element, from)| copy(element, from));
    }
    let mut at = first;
    for element in elements {
        copy(element, &source[at..][..BYTES]);
        at = at.wrapping_add_signed(step);
    }
}
