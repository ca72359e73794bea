//! Element types into element types, a plane of rows at a time.
//!
//! In: rows of source elements as they lie in a decoded chunk (any distance between them, either
//! byte order). Out: rows of target elements side by side. Invariant: what numpy and ml_dtypes
//! give, bit for bit, except that a NaN in a change of type becomes the quiet NaN with its sign.
//!
//! | target        | sources                                                                    |
//! |---------------|----------------------------------------------------------------------------|
//! | F32, BF16, F16 | Bool, every integer, F16, BF16, F32, F64                                  |
//! | F64           | Bool, every integer                                                        |
//! | I32           | Bool, U8, I8, U16, I16                                                     |
//! | I64           | Bool, U8, I8, U16, I16, U32, I32                                           |
//! | U16, U32, U64 | Bool, every unsigned integer of fewer bytes                                |
//! | U8, I8, I16   | Bool                                                                       |
//! | any type      | itself, as a bit copy                                                      |
//! | RAW           | every type of the same size, as a bit copy                                 |
//!
//! A cast that clamps also takes Bool, every integer and every float to every integer: cut off
//! towards 0, then clamped to the integers of the target; NaN is 0.
//!
//! Bool is 1 if its byte is not 0; nothing but Bool becomes Bool. Integers and F64 round once to
//! nearest even, to BF16 through F32; what is too large becomes infinity.
//!
//! Every pair of types has one kernel, for elements side by side in the machine's order: that of
//! `simd`, or the portable loop (both in `loops`), which is the oracle of those. All
//! other elements are first gathered so, in a buffer that stays in L1, by code that knows only
//! their size: a kernel for each distance, order and pair would be three times the code.
//!
//! Elements of an array that is decoded by the CF conventions become f64 first, in that buffer, and
//! then what their numbers are cast to.
//!
//! Where rounding needs the float unit, the thread holds a [`crate::simd::FloatEnvironment`].

use crate::base::arena::{Rows, RowsMut};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::loops::casts::{
    GATHER_BYTES_MAX, Gather, Pair, RowLoop, clamping_pair, copies, copy_dense, pair,
};
use crate::loops::cf::cf as numbers_of;
use crate::loops::simd::{COPY_KERNELS, reversed};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, ByteOrder, Cf, DTYPES, Dtype, Number, Types};
use crate::simd::{DenseRows, Level, stream_fence};

/// Bytes of gathered elements between two passes: with their results well inside L1, and enough
/// that a call costs nothing beside its work. A multiple of every element size up to 16 that a
/// change of type has.
const GATHERED_BYTES: usize = 2048;

/// Converts or copies elements of one type into another. Found once per array.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    source_bytes: u32,
    target_bytes: u32,
    /// Bytes that change places in the other byte order.
    word_bytes: u32,
    /// Elements side by side in the machine's byte order.
    dense: DenseRows,
    /// Elements side by side in the other order into the machine's.
    swap: DenseRows,
    /// Elements at any distance side by side, as they are and swapped.
    gather: [Gather; 2],
    /// Whether the elements are only copied, so that gathering them is all.
    copies: bool,
    /// The numbers of CF that elements are made before that: what `dense` takes is f64.
    cf: Option<(Cf, &'static [EdgeRun])>,
    /// Whether the target is not read soon.
    is_streamed: bool,
    level: Level,
}

/// Rows of source elements: element `i` of row `r` starts at byte `first + r * pitch + i * step`.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// The bytes in which the rows lie.
    pub bytes: &'a [u8],
    /// First byte of the first element.
    pub first: u64,
    /// Bytes from one element of a row to the next: negative where the row runs backwards, 0 where
    /// every element is the same.
    pub step: i64,
    /// Bytes from one row to the next, likewise.
    pub pitch: i64,
    /// Order of the bytes of a word.
    pub order: ByteOrder,
}

impl Cast {
    /// The cast from one element type to another; None where the contract has no such cast. The
    /// sizes matter for RAW; those of other types must be their own.
    pub fn find(
        source: Dtype,
        source_bytes: u32,
        target: Dtype,
        target_bytes: u32,
    ) -> Option<Cast> {
        Cast::find_at(Level::here(), source, source_bytes, target, target_bytes)
    }

    /// [`Cast::find`] with the instructions of one level: all give the same bits.
    pub fn find_at(
        level: Level,
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
            return copy(level, source_bytes, source.word_bytes())
                .filter(|_| source_bytes == target_bytes);
        }
        changes(level, pair(source, target)?, source_bytes, target_bytes)
    }

    /// [`Cast::find`] for a field that clamps.
    pub fn find_clamped(
        source: Dtype,
        source_bytes: u32,
        target: Dtype,
        target_bytes: u32,
    ) -> Option<Cast> {
        Cast::find_clamped_at(Level::here(), source, source_bytes, target, target_bytes)
    }

    /// [`Cast::find_clamped`] with the instructions of one level.
    pub fn find_clamped_at(
        level: Level,
        source: Dtype,
        source_bytes: u32,
        target: Dtype,
        target_bytes: u32,
    ) -> Option<Cast> {
        let found = Cast::find_at(level, source, source_bytes, target, target_bytes);
        if found.is_some() || !has_size(source, source_bytes) || !has_size(target, target_bytes) {
            return found;
        }
        changes(level, clamping_pair(source, target)?, source_bytes, target_bytes)
    }

    /// The types that elements of a type may become, in the order of their numbers; all that one
    /// that clamps has, if `is_clamped`.
    pub fn targets_of(
        source: Dtype,
        source_bytes: u32,
        is_clamped: bool,
    ) -> impl Iterator<Item = Dtype> {
        let find = if is_clamped { Cast::find_clamped } else { Cast::find };
        DTYPES.into_iter().filter(move |target| {
            let target_bytes = if *target == Dtype::Raw { source_bytes } else { target.bytes() };
            find(source, source_bytes, *target, target_bytes).is_some()
        })
    }

    /// The same cast for elements of an array, if it takes the numbers that they are delivered as.
    pub fn of_elements(self, record: &ArrayRecord) -> Option<Cast> {
        let Some(cf) = record.cf else { return Some(self) };
        let Cast { source_bytes, word_bytes, gather, .. } =
            copy(self.level, record.dtype_bytes, record.dtype_bytes)?;
        let cf = Some((cf, record.rows_of(&cf)));
        Some(Cast { source_bytes, word_bytes, gather, copies: false, cf, ..self })
    }

    /// The same cast for targets that are not read before much else was written.
    pub fn streamed(self, is_streamed: bool) -> Cast {
        Cast { is_streamed, ..self }
    }

    /// Bytes of a source element.
    pub fn source_bytes(&self) -> u32 {
        self.source_bytes
    }

    /// Bytes of a target element.
    pub fn target_bytes(&self) -> u32 {
        self.target_bytes
    }

    /// Whether elements in that order only change their places.
    pub fn is_copy(&self, order: ByteOrder) -> bool {
        self.copies && (order == ByteOrder::Little || self.word_bytes == 1)
    }

    /// Casts as many rows of `plane` as `target` has, each as many elements as a row of it holds.
    pub fn plane(&self, plane: &Plane<'_>, target: &mut RowsMut<'_>) {
        let (source_bytes, target_bytes) = (self.source_bytes as usize, self.target_bytes as usize);
        let length = target.row_bytes() / target_bytes;
        assert!(target.row_bytes() == length * target_bytes);
        if length == 0 || target.count() == 0 {
            return;
        }
        let is_dense = length == 1 || plane.step == source_bytes as i64;
        match &self.cf {
            Some((cf, rows)) => self.decoded((cf, rows), (plane, is_dense), length, target),
            None if is_dense => self.side_by_side(plane, length, target),
            None => self.gathered(plane, length, target),
        }
        if self.is_streamed && !self.copies {
            stream_fence();
        }
    }

    /// Casts the numbers that CF makes of the elements of a plane. `is_dense`: those of a row lie
    /// side by side.
    #[inline(never)] // its buffer is not to stand on the stack of all other casts
    fn decoded(
        &self,
        (cf, rows): (&Cf, &[EdgeRun]),
        (plane, is_dense): (&Plane<'_>, bool),
        length: usize,
        target: &mut RowsMut<'_>,
    ) {
        let encoded = Number { byte_order: plane.order, ..cf.types.encoded };
        let cf = &Cf { types: Types { encoded, ..cf.types }, ..*cf };
        let (step, source_bytes) = (plane.step as isize, self.source_bytes as usize);
        let first_of_row = |row: usize| plane.first as isize + row as isize * plane.pitch as isize;
        let mut stored = [0; GATHERED_BYTES];
        self.through_buffer(length, target, &mut |row, count, at, piece, buffer| {
            let place = |row| (first_of_row(row) + at as isize * step) as usize;
            let bytes = piece * source_bytes;
            if is_dense && count == 1 {
                return numbers_of(cf, rows, &plane.bytes[place(row)..place(row) + bytes], buffer);
            }
            let stored = &mut stored[..count * bytes];
            for (row, stored) in (row..).zip(stored.chunks_exact_mut(bytes)) {
                match is_dense {
                    true => stored.copy_from_slice(&plane.bytes[place(row)..place(row) + bytes]),
                    false => self.gather[0](plane.bytes, place(row), step, stored),
                }
            }
            numbers_of(cf, rows, stored, buffer);
        });
    }

    fn is_swapped(&self, plane: &Plane<'_>) -> bool {
        plane.order == ByteOrder::Big && self.word_bytes > 1
    }

    fn side_by_side(&self, plane: &Plane<'_>, length: usize, target: &mut RowsMut<'_>) {
        let (source_bytes, is_swapped) = (self.source_bytes as usize, self.is_swapped(plane));
        let (row_bytes, count) = ((length * source_bytes) as u64, target.count() as u64);
        let rows = Rows::new(plane.bytes, plane.first, row_bytes, count, plane.pitch);
        match self.swap {
            _ if !is_swapped => self.dense.run(&rows, target, self.is_streamed),
            swap if self.copies => swap.run(&rows, target, false),
            swap => self.through_buffer(length, target, &mut |row, count, at, piece, buffer| {
                let (first, bytes) = (at * source_bytes, piece * source_bytes);
                let mut packed = RowsMut::packed(buffer, bytes);
                swap.run(&rows.part(row, count, first, bytes), &mut packed, false);
            }),
        }
    }

    fn gathered(&self, plane: &Plane<'_>, length: usize, target: &mut RowsMut<'_>) {
        let (step, pitch) = (plane.step as isize, plane.pitch as isize);
        let first_of_row = |row: usize| plane.first as isize + row as isize * pitch;
        let (is_swapped, source_bytes) = (self.is_swapped(plane), self.source_bytes as usize);
        let slow = self.gather[usize::from(is_swapped)];
        // The unit that is turned round: elements, or all bytes of words that are swapped, too.
        let unit = match is_swapped {
            _ if step != -(source_bytes as isize) => 0,
            false => source_bytes,
            true if self.word_bytes == self.source_bytes => 1,
            true => 0,
        };
        let gather = |first: usize, target: &mut [u8]| {
            let limit = first + source_bytes;
            if unit == 0
                || !reversed(self.level, unit, &plane.bytes[limit - target.len()..limit], target)
            {
                slow(plane.bytes, first, step, target);
            }
        };
        if self.copies {
            for row in 0..target.count() {
                gather(first_of_row(row) as usize, target.row(row));
            }
            return;
        }
        self.through_buffer(length, target, &mut |row, _, at, piece, buffer| {
            let rows = buffer.chunks_exact_mut(piece * self.source_bytes as usize);
            for (row, gathered) in (row..).zip(rows) {
                let first = first_of_row(row) + at as isize * step;
                gather(first as usize, gathered);
            }
        });
    }

    /// Casts rows of `length` elements that `fill` makes dense: it gets the first row, the number
    /// of rows, the first element, the number of elements, and a buffer of just that size. Several
    /// rows at once where they are short, a piece of one where it is long.
    fn through_buffer(
        &self,
        length: usize,
        target: &mut RowsMut<'_>,
        fill: &mut dyn FnMut(usize, usize, usize, usize, &mut [u8]),
    ) {
        let mut buffer = [0; GATHERED_BYTES];
        let target_bytes = self.target_bytes as usize;
        let source_bytes = match self.cf {
            Some(_) => size_of::<f64>(),
            None => self.source_bytes as usize,
        };
        let piece_max = length.min(GATHERED_BYTES / source_bytes);
        let group = GATHERED_BYTES / (piece_max * source_bytes);
        for row in (0..target.count()).step_by(group) {
            let count = group.min(target.count() - row);
            for at in (0..length).step_by(piece_max) {
                let piece = piece_max.min(length - at);
                let bytes = piece * source_bytes;
                let buffer = &mut buffer[..count * bytes];
                fill(row, count, at, piece, buffer);
                let dense = Rows::new(buffer, 0, bytes as u64, count as u64, bytes as i64);
                let (first, bytes) = (at * target_bytes, piece * target_bytes);
                let mut rows = target.part(row, count, first, bytes);
                self.dense.run(&dense, &mut rows, self.is_streamed);
            }
        }
    }
}

fn has_size(dtype: Dtype, bytes: u32) -> bool {
    match dtype {
        Dtype::Raw => bytes >= 1 && bytes as usize <= ELEMENT_BYTES_MAX,
        other => bytes == other.bytes(),
    }
}

/// The change of one type into another.
fn changes(level: Level, pair: Pair, source_bytes: u32, target_bytes: u32) -> Option<Cast> {
    Some(Cast {
        target_bytes,
        dense: DenseRows::at(&pair.kernels, pair.portable, level),
        copies: false,
        is_streamed: false,
        ..copy(level, source_bytes, source_bytes)?
    })
}

/// The bit copy of elements of `bytes` bytes; a byte order swaps the words of `word_bytes`.
fn copy(level: Level, bytes: u32, word_bytes: u32) -> Option<Cast> {
    let copies = copies(bytes, word_bytes)?;
    Some(Cast {
        source_bytes: bytes,
        target_bytes: bytes,
        word_bytes,
        dense: DenseRows::at(&COPY_KERNELS, RowLoop::Single(copy_dense), level),
        swap: DenseRows::at(&copies.swap_kernels, RowLoop::Single(copies.swap), level),
        gather: copies.gather,
        copies: true,
        cf: None,
        is_streamed: false,
        level,
    })
}

const _: () = assert!(ELEMENT_BYTES_MAX == GATHER_BYTES_MAX);
