//! A box out of uncompressed data that lies in a file: read in pieces, each cast to its places as
//! soon as it is there.
//!
//! In: a [`Target`], a chunk, and a function that reads bytes of the chunk. Out: what `scatter`
//! writes of the whole chunk. Invariant: a piece begins and ends with a byte that the box reads,
//! and two pieces of a block share no element.
//!
//! Rows that are near each other are read together, as many as the buffer holds; others are read by
//! themselves, straight to their places if they are only copied. One vectored read for many rows,
//! with what lies between in a bin, was tried: for rows of up to 1 KiB it is slower than the span
//! of them, and for those of 4 KiB a fifth faster.
//!
//! Worked example: 64 rows of 100 u16, 16,384 bytes apart, are 64 reads of 200 bytes; if they are
//! 1,024 bytes apart, one of 63 * 1,024 + 200 bytes.

use super::block::{Block, BlockAxis, BlockPlane};
use super::cast::Plane;
use super::{Changing, SampleBox, Target, rows_of};
use crate::base::arena::Claim;
use crate::base::limits::{GAP_BYTES_MIN, RANK_MAX};
use crate::base::math::index;
use arrayvec::ArrayVec;

/// Bytes of a piece at most: it is still in a cache of the second level when it is cast.
const PIECE_BYTES: u64 = 512 << 10;

/// Rows of as many bytes are read straight to their places wherever the next one lies: to copy them
/// once more takes longer than a call.
const STRAIGHT_BYTES: u64 = 16 << 10;

/// Reads so many bytes of a chunk from one of its bytes on.
pub type ReadBytes<'a, E> = dyn FnMut(u64, &mut [u8]) -> Result<(), E> + 'a;

/// Reads what the box reads of the chunk at `chunk_origin`, in pieces, and writes it to its places.
/// The buffer holds an element at least.
pub fn read_pieces<E>(
    target: &mut Target<'_>,
    chunk_origin: &[u64],
    buffer: &mut [u8],
    read: &mut ReadBytes<'_, E>,
) -> Result<u64, E> {
    let sample = target.sample;
    assert!(sample.cast.source_bytes() == sample.record.dtype_bytes);
    target.check();
    let (mut written, mut result) = (0, Ok(()));
    let buffer_bytes = PIECE_BYTES.min(buffer.len() as u64);
    let buffer = &mut buffer[..index(buffer_bytes)];
    sample.for_each_block(chunk_origin, &mut |block| {
        target.for_each_part(block, &mut |block, change, claim| {
            if result.is_ok() {
                let mut pieces = Pieces::of(block, (&sample, change), buffer_bytes);
                result = pieces.read(claim, buffer, read);
            }
        });
        written += block.element_count() * target.target_bytes();
    });
    result.map(|()| written)
}

/// A block, cut into pieces.
struct Pieces<'p, 'c, 'a> {
    sample: &'p SampleBox<'p>,
    change: Option<Changing<'c, 'a>>,
    /// First byte of the first element in the source and in the target.
    first: (i64, u64),
    /// A piece, of the block's axes that it has.
    piece: Block,
    /// The place among them of an axis of which a piece has so many elements.
    cut: Option<(usize, u64)>,
    /// Axes across pieces, the shortest distance in the source first.
    outer: ArrayVec<BlockAxis, RANK_MAX>,
    /// A piece is a row that is read straight to its place.
    is_straight: bool,
}

impl<'p, 'c, 'a> Pieces<'p, 'c, 'a> {
    fn of(
        block: &Block,
        (sample, change): (&'p SampleBox<'p>, Option<Changing<'c, 'a>>),
        buffer_bytes: u64,
    ) -> Pieces<'p, 'c, 'a> {
        let (cast, order) = (sample.cast, sample.record.byte_order);
        let element = u64::from(cast.source_bytes());
        // The innermost one is the first.
        let (axes, _) = block.collapsed(0);
        let is_row =
            |axis: &BlockAxis| (axis.source_step, axis.target_step) == (element as i64, element);
        let is_copy = change.is_none() && cast.is_copy(order);
        let has_row = axes.first().is_some_and(is_row) && is_copy;
        let step = |axis: &usize| axes[*axis].source_step.unsigned_abs();
        let (mut bytes, mut inner, mut cut) = (element, 0u32, None);
        let mut left = (1u32 << axes.len()) - 1;
        let (mut is_open, mut outer) = (true, ArrayVec::new());
        // The axis of the shortest step is next, the innermost one first.
        while let Some(axis) = (0..axes.len()).filter(|axis| left >> axis & 1 != 0).min_by_key(step)
        {
            left &= !(1 << axis);
            let (step, length, taken) = (step(&axis), axes[axis].length, inner.count_ones());
            let is_long = has_row && taken == 1 && bytes >= STRAIGHT_BYTES;
            is_open &= !is_long && step.saturating_sub(bytes) < GAP_BYTES_MIN;
            let fits = buffer_bytes.saturating_sub(bytes) / step.max(1) + 1;
            let is_whole = fits >= length || has_row && taken == 0;
            if is_open && !is_whole && fits > 1 {
                cut = Some(((inner >> axis).count_ones() as usize, fits));
            }
            if is_open && (is_whole || fits > 1) {
                inner |= 1 << axis;
                bytes += (length - 1) * step;
            } else {
                outer.push(axes[axis]);
            }
            is_open &= is_whole;
        }
        let is_straight = has_row && cut.is_none() && inner == 1;
        let first = (block.source as i64, block.target);
        let inner =
            (0..axes.len()).rev().filter(|axis| inner >> axis & 1 != 0).map(|axis| axes[axis]);
        let piece = Block { axes: inner.collect(), source: 0, target: 0 };
        Pieces { sample, change, first, piece, cut, outer, is_straight }
    }

    fn read<E>(
        &mut self,
        claim: &mut Claim<'_>,
        buffer: &mut [u8],
        read: &mut ReadBytes<'_, E>,
    ) -> Result<(), E> {
        let mut at = [0u64; RANK_MAX];
        let mut place = self.first;
        // One turn per place along the outer axes.
        loop {
            self.read_at(place, claim, buffer, read)?;
            let mut axis = 0;
            loop {
                let Some(BlockAxis { length, source_step, target_step }) = self.outer.get(axis)
                else {
                    return Ok(());
                };
                at[axis] += 1;
                place = (place.0 + source_step, place.1 + target_step);
                if at[axis] < *length {
                    break;
                }
                at[axis] = 0;
                place.0 -= source_step * *length as i64;
                place.1 -= target_step * length;
                axis += 1;
            }
        }
    }

    /// Reads the pieces at a place of the outer axes.
    fn read_at<E>(
        &mut self,
        (source, to): (i64, u64),
        claim: &mut Claim<'_>,
        buffer: &mut [u8],
        read: &mut ReadBytes<'_, E>,
    ) -> Result<(), E> {
        if self.is_straight {
            let bytes = self.piece.axes[0].length * self.sample.target_bytes();
            return read(source as u64, claim.part(to, bytes));
        }
        let Some((axis, most)) = self.cut else {
            self.piece.target = to;
            return self.read_piece(source, claim, buffer, read);
        };
        let (whole, mut first) = (self.piece.axes[axis], 0);
        while first < whole.length {
            self.piece.axes[axis].length = most.min(whole.length - first);
            self.piece.target = to + first * whole.target_step;
            let source = source + first as i64 * whole.source_step;
            self.read_piece(source, claim, buffer, read)?;
            first += most;
        }
        self.piece.axes[axis] = whole;
        Ok(())
    }
    /// Reads the piece, the first element of which is at byte `first` of the chunk, and casts it.
    fn read_piece<E>(
        &mut self,
        first: i64,
        claim: &mut Claim<'_>,
        buffer: &mut [u8],
        read: &mut ReadBytes<'_, E>,
    ) -> Result<(), E> {
        let (cast, order) = (self.sample.cast, self.sample.record.byte_order);
        let (mut before, mut bytes) = (0, u64::from(cast.source_bytes()));
        for axis in &self.piece.axes {
            let reach = (axis.length - 1) * axis.source_step.unsigned_abs();
            before += if axis.source_step < 0 { reach } else { 0 };
            bytes += reach;
        }
        let bytes = &mut buffer[..index(bytes)];
        read(first as u64 - before, bytes)?;
        self.piece.source = before;
        let target_bytes = self.sample.target_bytes();
        self.piece.for_each_plane(target_bytes, &mut |plane| {
            let BlockPlane { source: first, source_step: step, source_pitch: pitch, .. } = *plane;
            let source = Plane { bytes, first, step, pitch, order };
            match &mut self.change {
                None => cast.plane(&source, &mut rows_of(claim, plane, target_bytes)),
                Some((change, strip)) => change.plane(&source, plane, claim, strip),
            }
        });
        Ok(())
    }
}
