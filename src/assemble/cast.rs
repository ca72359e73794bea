//! Element types into element types, row by row.
//!
//! In: a row of source elements as they lie in a decoded chunk (any distance between them, either
//! byte order). Out: a contiguous row of target elements. Invariant: what numpy and ml_dtypes give,
//! bit for bit, except that a NaN in a change of type becomes the quiet NaN with its sign.
//!
//! | target        | sources                                                                    |
//! |---------------|----------------------------------------------------------------------------|
//! | F32, BF16, F16 | every integer, F16, BF16, F32, F64                                        |
//! | I32           | U8, I8, U16, I16                                                           |
//! | I64           | U8, I8, U16, I16, U32, I32                                                 |
//! | any type      | itself, as a bit copy                                                      |
//! | RAW           | every type of the same size, as a bit copy                                 |
//!
//! Bool is a truth value, not a number: it only copies to Bool and RAW. Integers and F64 round once
//! to nearest even, to BF16 through F32; what is too large becomes infinity.
//!
//! Where rounding needs the float unit, the thread holds a [`crate::simd::FloatEnvironment`].

use crate::limits::ELEMENT_BYTES_MAX;
use crate::records::{ByteOrder, Dtype};

/// Bits of a binary16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Half(pub u16);

/// Bits of a bfloat16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brain(pub u16);

/// Converts or copies rows of elements of one type into another. Found once per array.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    source_bytes: u32,
    target_bytes: u32,
    /// Elements side by side in the machine's byte order.
    dense: fn(&[u8], &mut [u8]),
    /// Elements at any distance in the machine's byte order.
    sparse: Sparse,
    /// Elements at any distance, most significant byte first.
    sparse_big: Sparse,
}

/// Source bytes, first byte of the first element, bytes to the next element, bytes of an element,
/// target.
type Sparse = fn(&[u8], usize, isize, &mut [u8]);

/// A row of source elements: element `i` starts at byte `first + i * step`.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The bytes in which the row lies.
    pub bytes: &'a [u8],
    /// First byte of the first element.
    pub first: u64,
    /// Bytes from one element to the next: negative where the row runs backwards, 0 where every
    /// element is the same.
    pub step: i64,
    /// Order of the bytes of a word.
    pub order: ByteOrder,
}

impl Cast {
    /// The bit copy of bytes.
    pub const BYTES: Cast = Cast {
        source_bytes: 1,
        target_bytes: 1,
        dense: copy_dense,
        sparse: copy_sparse::<1, 1>,
        sparse_big: copy_sparse::<1, 1>,
    };

    /// The cast from one element type to another; None where the contract has no such cast. The
    /// sizes matter for RAW; those of other types must be their own.
    pub fn find(
        source: Dtype,
        source_bytes: u32,
        target: Dtype,
        target_bytes: u32,
    ) -> Option<Cast> {
        if !has_size(source, source_bytes) || !has_size(target, target_bytes) {
            return None;
        }
        let copies = source == target || target == Dtype::Raw;
        if copies {
            return if source_bytes == target_bytes { copy(source, source_bytes) } else { None };
        }
        match source {
            Dtype::U8 => from_narrow::<u8>(target),
            Dtype::I8 => from_narrow::<i8>(target),
            Dtype::U16 => from_narrow::<u16>(target),
            Dtype::I16 => from_narrow::<i16>(target),
            Dtype::U32 => from_word::<u32>(target),
            Dtype::I32 => from_word::<i32>(target),
            Dtype::U64 => to_float::<u64>(target),
            Dtype::I64 => to_float::<i64>(target),
            Dtype::F16 => to_float::<Half>(target),
            Dtype::Bf16 => to_float::<Brain>(target),
            Dtype::F32 => to_float::<f32>(target),
            Dtype::F64 => to_float::<f64>(target),
            Dtype::Bool | Dtype::C64 | Dtype::C128 | Dtype::Raw => None,
        }
    }

    /// Bytes of a source element.
    pub fn source_bytes(&self) -> u32 {
        self.source_bytes
    }

    /// Bytes of a target element.
    pub fn target_bytes(&self) -> u32 {
        self.target_bytes
    }

    /// Casts as many elements of `row` as `target` holds.
    pub fn row(&self, row: &Row<'_>, target: &mut [u8]) {
        let target_bytes = self.target_bytes as usize;
        assert!(target.len().is_multiple_of(target_bytes));
        let count = target.len() / target_bytes;
        if count == 0 {
            return;
        }
        let source_bytes = self.source_bytes as usize;
        let first = row.first as usize;
        if row.step == source_bytes as i64 && row.order == ByteOrder::Little {
            (self.dense)(&row.bytes[first..][..count * source_bytes], target);
            return;
        }
        let step = row.step as isize;
        match row.order {
            ByteOrder::Little => (self.sparse)(row.bytes, first, step, target),
            ByteOrder::Big => (self.sparse_big)(row.bytes, first, step, target),
        }
    }

    fn of<S: Convert<T>, T: Target>() -> Cast {
        Cast {
            source_bytes: S::BYTES as u32,
            target_bytes: T::BYTES as u32,
            dense: dense::<S, T>,
            sparse: sparse::<S, T, false>,
            sparse_big: sparse::<S, T, true>,
        }
    }
}

fn has_size(dtype: Dtype, bytes: u32) -> bool {
    match dtype {
        Dtype::Raw => bytes >= 1 && bytes as usize <= ELEMENT_BYTES_MAX,
        other => bytes == other.bytes(),
    }
}

fn from_narrow<S>(target: Dtype) -> Option<Cast>
where
    S: Convert<f32> + Convert<Half> + Convert<Brain> + Convert<i32> + Convert<i64>,
{
    if target == Dtype::I32 { Some(Cast::of::<S, i32>()) } else { from_word::<S>(target) }
}

fn from_word<S>(target: Dtype) -> Option<Cast>
where
    S: Convert<f32> + Convert<Half> + Convert<Brain> + Convert<i64>,
{
    if target == Dtype::I64 { Some(Cast::of::<S, i64>()) } else { to_float::<S>(target) }
}

fn to_float<S>(target: Dtype) -> Option<Cast>
where
    S: Convert<f32> + Convert<Half> + Convert<Brain>,
{
    match target {
        Dtype::F32 => Some(Cast::of::<S, f32>()),
        Dtype::F16 => Some(Cast::of::<S, Half>()),
        Dtype::Bf16 => Some(Cast::of::<S, Brain>()),
        _ => None,
    }
}

/// The bit copy of elements of `bytes` bytes; a byte order swaps the words of `source`.
fn copy(source: Dtype, bytes: u32) -> Option<Cast> {
    let (sparse, sparse_big): (Sparse, Sparse) = match (bytes, source.word_bytes()) {
        (2, 2) => (copy_sparse::<2, 1>, copy_sparse::<2, 2>),
        (4, 4) => (copy_sparse::<4, 1>, copy_sparse::<4, 4>),
        (8, 8) => (copy_sparse::<8, 1>, copy_sparse::<8, 8>),
        (8, 4) => (copy_sparse::<8, 1>, copy_sparse::<8, 4>),
        (16, 8) => (copy_sparse::<16, 1>, copy_sparse::<16, 8>),
        // Words of one byte have no order.
        (bytes, _) => {
            let plain = copy_plain(bytes)?;
            (plain, plain)
        }
    };
    Some(Cast { source_bytes: bytes, target_bytes: bytes, dense: copy_dense, sparse, sparse_big })
}

fn copy_dense(source: &[u8], target: &mut [u8]) {
    target.copy_from_slice(source);
}

fn copy_plain(bytes: u32) -> Option<Sparse> {
    const COPIES: [Sparse; ELEMENT_BYTES_MAX] = [
        copy_sparse::<1, 1>,
        copy_sparse::<2, 1>,
        copy_sparse::<3, 1>,
        copy_sparse::<4, 1>,
        copy_sparse::<5, 1>,
        copy_sparse::<6, 1>,
        copy_sparse::<7, 1>,
        copy_sparse::<8, 1>,
        copy_sparse::<9, 1>,
        copy_sparse::<10, 1>,
        copy_sparse::<11, 1>,
        copy_sparse::<12, 1>,
        copy_sparse::<13, 1>,
        copy_sparse::<14, 1>,
        copy_sparse::<15, 1>,
        copy_sparse::<16, 1>,
    ];
    COPIES.get((bytes as usize).wrapping_sub(1)).copied()
}

/// `WORD` bytes are swapped as one; 1 swaps nothing.
fn copy_sparse<const BYTES: usize, const WORD: usize>(
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
        S::read(source, false).convert().write(target);
    }
}

/// The step past the last element may leave the address range, so it wraps; every read is checked.
fn sparse<S: Convert<T>, T: Target, const BIG: bool>(
    source: &[u8],
    first: usize,
    step: isize,
    target: &mut [u8],
) {
    let mut at = first;
    for target in target.chunks_exact_mut(T::BYTES) {
        S::read(&source[at..][..S::BYTES], BIG).convert().write(target);
        at = at.wrapping_add_signed(step);
    }
}

/// A type that chunks hold.
trait Source: Copy {
    const BYTES: usize;

    /// The element whose bytes these are, most significant first if `big`.
    fn read(bytes: &[u8], big: bool) -> Self;
}

/// A type that batches hold, in the machine's byte order.
trait Target: Copy {
    const BYTES: usize;

    fn write(self, bytes: &mut [u8]);
}

/// A change of type as the head of this file tells it.
trait Convert<T>: Source {
    fn convert(self) -> T;
}

macro_rules! source {
    ($($element:ty, $word:ty, $from:expr;)*) => {$(
        impl Source for $element {
            const BYTES: usize = size_of::<$word>();

            #[inline(always)]
            fn read(bytes: &[u8], big: bool) -> Self {
                let mut word = [0; size_of::<$word>()];
                word.copy_from_slice(bytes);
                let little = <$word>::from_le_bytes(word);
                $from(if big { little.swap_bytes() } else { little })
            }
        }
    )*};
}

source! {
    u8, u8, |word| word;
    i8, u8, |word| word as i8;
    u16, u16, |word| word;
    i16, u16, |word| word as i16;
    u32, u32, |word| word;
    i32, u32, |word| word as i32;
    u64, u64, |word| word;
    i64, u64, |word| word as i64;
    Half, u16, Half;
    Brain, u16, Brain;
    f32, u32, f32::from_bits;
    f64, u64, f64::from_bits;
}

macro_rules! target {
    ($($element:ty, $to:expr;)*) => {$(
        impl Target for $element {
            const BYTES: usize = size_of::<$element>();

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&$to(self));
            }
        }
    )*};
}

target! {
    i32, i32::to_ne_bytes;
    i64, i64::to_ne_bytes;
    f32, f32::to_ne_bytes;
    Half, |half: Half| half.0.to_ne_bytes();
    Brain, |brain: Brain| brain.0.to_ne_bytes();
}

macro_rules! convert {
    ($($source:ty => $target:ty, $convert:expr;)*) => {$(
        impl Convert<$target> for $source {
            #[inline(always)]
            fn convert(self) -> $target {
                $convert(self)
            }
        }
    )*};
}

/// Integers to floats. A binary16 is infinite from 65,520 on, so a clamped integer rounds as the
/// whole one would, and it is exact in an f32 on the way.
macro_rules! convert_integer {
    ($($source:ty, $halves:expr;)*) => {$(
        convert! {
            $source => f32, |value| value as f32;
            $source => Half, |value| half_from_f32($halves(value) as f32);
            $source => Brain, |value| brain_from_f32(value as f32);
        }
    )*};
}

convert_integer! {
    u8, i32::from;
    i8, i32::from;
    u16, |value: u16| i32::from(value.min(65_520));
    i16, i32::from;
    u32, |value: u32| value.min(65_520) as i32;
    i32, |value: i32| value.clamp(-65_520, 65_520);
    u64, |value: u64| value.min(65_520) as i32;
    i64, |value: i64| value.clamp(-65_520, 65_520) as i32;
}

convert! {
    u8 => i32, i32::from;
    i8 => i32, i32::from;
    u16 => i32, i32::from;
    i16 => i32, i32::from;
    u8 => i64, i64::from;
    i8 => i64, i64::from;
    u16 => i64, i64::from;
    i16 => i64, i64::from;
    u32 => i64, i64::from;
    i32 => i64, i64::from;
    Half => f32, f32_from_half;
    Half => Half, |half| half;
    Half => Brain, |half| brain_from_f32(f32_from_half(half));
    Brain => f32, f32_from_brain;
    Brain => Half, |brain| half_from_f32(f32_from_brain(brain));
    Brain => Brain, |brain| brain;
    f32 => f32, |value| value;
    f32 => Half, half_from_f32;
    f32 => Brain, brain_from_f32;
    f64 => f32, f32_from_f64;
    f64 => Half, half_from_f64;
    f64 => Brain, |value| brain_from_f32(f32_from_f64(value));
}

/// Exact. A subnormal half is a normal f32: its 10 bits in an f32 of exponent -14, less that
/// exponent's leading one.
#[inline(always)]
pub fn f32_from_half(half: Half) -> f32 {
    const LEADING_ONE: u32 = (127 - 14) << 23;
    let sign = u32::from(half.0 & 0x8000) << 16;
    let magnitude = u32::from(half.0 & 0x7FFF) << 13;
    let normal = magnitude + ((127 - 15) << 23);
    let subnormal = f32::from_bits(magnitude + LEADING_ONE) - f32::from_bits(LEADING_ONE);
    let finite = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
    let infinite = if magnitude == 0x1F << 23 { 0x7F80_0000 } else { 0x7FC0_0000 };
    f32::from_bits(sign | if magnitude < 0x1F << 23 { finite } else { infinite })
}

/// Exact.
#[inline(always)]
pub fn f32_from_brain(brain: Brain) -> f32 {
    let bits = u32::from(brain.0) << 16;
    let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    f32::from_bits(if is_nan { bits & 0x8000_0000 | 0x7FC0_0000 } else { bits })
}

/// One rounding to nearest even.
#[inline(always)]
pub fn f32_from_f64(value: f64) -> f32 {
    let sign = ((value.to_bits() >> 32) as u32) & 0x8000_0000;
    let quiet = f32::from_bits(sign | 0x7FC0_0000);
    if value.is_nan() { quiet } else { value as f32 }
}

/// One rounding to nearest even, by adding just under half of the last place that stays, and one
/// more where that place is odd.
#[inline(always)]
pub fn brain_from_f32(value: f32) -> Brain {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 & 0x8000 | 0x7FC0;
    Brain(if value.is_nan() { quiet } else { rounded })
}

/// One rounding to nearest even. Normal results round as in [`brain_from_f32`]; subnormal ones by
/// adding 0.5, whose last place is that of a subnormal half, in the float unit.
#[inline(always)]
pub fn half_from_f32(value: f32) -> Half {
    const NORMAL_MIN: u32 = (127 - 14) << 23;
    const INFINITE_MIN: u32 = 0x477F_F000;
    const INFINITY: u32 = 0x7F80_0000;
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xFFF + odd) >> 13;
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < NORMAL_MIN { subnormal } else { normal };
    let infinite = if magnitude > INFINITY { 0x7E00 } else { 0x7C00 };
    let half = if magnitude < INFINITE_MIN { finite } else { infinite };
    Half((bits >> 16) as u16 & 0x8000 | half as u16)
}

/// One rounding to nearest even, as [`half_from_f32`] at twice the width: through an f32 it would
/// be two.
#[inline(always)]
pub fn half_from_f64(value: f64) -> Half {
    const NORMAL_MIN: u64 = (1023 - 14) << 52;
    const INFINITE_MIN: u64 = 0x40EF_FE00_0000_0000;
    const INFINITY: u64 = 0x7FF0_0000_0000_0000;
    /// Its last place is 2^-24, that of a subnormal half.
    const ALIGNED: f64 = (1u64 << 28) as f64;
    let bits = value.to_bits();
    let magnitude = bits & !(1 << 63);
    let odd = magnitude >> 42 & 1;
    let normal = magnitude.wrapping_sub((1023 - 15) << 52).wrapping_add((1 << 41) - 1 + odd) >> 42;
    let aligned = (f64::from_bits(magnitude) + ALIGNED).to_bits();
    let subnormal = aligned.wrapping_sub(ALIGNED.to_bits());
    let finite = if magnitude < NORMAL_MIN { subnormal } else { normal };
    let infinite = if magnitude > INFINITY { 0x7E00 } else { 0x7C00 };
    let half = if magnitude < INFINITE_MIN { finite } else { infinite };
    Half((bits >> 48) as u16 & 0x8000 | half as u16)
}
