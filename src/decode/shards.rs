//! Shards that are decoded whole: the elements of all their cells, each in its place.
//!
//! In: the bytes of a shard, all of them. Out: the elements of a chunk, or of a cell of the shard
//! around it, row-major in the axis order of the chunk; a cell that was never written has the fill
//! value. Invariant: an index, whatever it says, leads to bytes of its shard alone, and each cell
//! has its own place of the target. Cells may share bytes, as those of other shards.
//!
//! Worked example: chunks of 4 x 6 bytes, cells of 2 x 3. Cell 2 of the index is [1, 0]: its rows
//! are 3 bytes at 12 and 3 at 18.

use super::chunk::{Scratch, expect_sum};
use super::filters::{Work, decode_unit};
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::{coordinates_from_linear, index};
use crate::base::status::{Status, Why};
use crate::loops::crc32c::crc32c;
use crate::records::{ArrayRecord, ByteOrder, INDEX_CRC_BYTES, IndexLayout, Span, cell_place};

/// Decodes the cells of the shard at a place of the chain into the target, which is as long as
/// their elements.
pub(super) fn unshard(
    work: &mut Work<'_>,
    place: usize,
    (shard, scratch): (&[u8], &mut [u8]),
    target: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let record = work.record;
    let number = record.codecs[place].shard().unwrap_or(0);
    let cells = Cells::new(record, place, number);
    let layout = record.index[number];
    let index_span = find_index(layout, cells.count(), shard, why)?;
    let entries = &shard[index(index_span.first)..index(index_span.limit)];
    let [_, half] = record.shard_scratch(place);
    let (front, back) = scratch.split_at_mut(index(half));
    let mut fill = [0; ELEMENT_BYTES_MAX];
    let fill = fill_element(record, &mut fill);
    // Ends: the index has an entry for each cell.
    for (number, raw) in (0..cells.count()).zip(entries.as_chunks().0) {
        let found = cell_place(raw, layout.byte_order, shard.len() as u64, index_span);
        let span = match found {
            Ok(span) => span,
            Err(bad) => broken!(why, "shard index entry {bad}"),
        };
        let target = &mut target[cells.first_byte(number)..];
        let Some(Span { first, limit }) = span else {
            cells.rows(|at, _| {
                let row = &mut target[at..][..cells.row_bytes];
                row.chunks_exact_mut(fill.len()).for_each(|element| element.copy_from_slice(fill));
            });
            continue;
        };
        let scratch = Scratch { target: &mut *front, block: &mut back[..index(half)] };
        let encoded = &shard[index(first)..index(limit)];
        let bytes = decode_unit(work, place, encoded, scratch, why)?;
        if bytes.len() != cells.bytes {
            let (bytes, expected) = (bytes.len(), cells.bytes);
            broken!(
                why,
                "chunk {number} of a shard has {bytes} bytes where {expected} are expected"
            );
        }
        cells.rows(|at, from| {
            target[at..][..cells.row_bytes].copy_from_slice(&bytes[from..][..cells.row_bytes]);
        });
    }
    Ok(())
}

/// The place of the index of so many entries in a shard; its checksum is right.
fn find_index(
    layout: IndexLayout,
    entries: u64,
    shard: &[u8],
    why: &mut Why,
) -> Result<Span, Status> {
    let (len, bytes) = (shard.len() as u64, layout.bytes(entries));
    let Some(behind) = len.checked_sub(bytes) else {
        broken!(why, "shard of {len} bytes is shorter than its index of {bytes} bytes");
    };
    let first = if layout.at_start { 0 } else { behind };
    if layout.has_crc {
        let found = &shard[index(first)..index(first + bytes)];
        if let Some((entries, sum)) = found.split_last_chunk::<{ INDEX_CRC_BYTES as usize }>() {
            let (stored, computed) = (u32::from_le_bytes(*sum), crc32c(0, entries));
            expect_sum(format_args!("shard index crc"), stored, computed, why)?;
        }
    }
    Ok(Span { first, limit: first + bytes })
}

/// One fill value, as elements of chunks lie in memory.
fn fill_element<'f>(record: &ArrayRecord, fill: &'f mut [u8; ELEMENT_BYTES_MAX]) -> &'f [u8] {
    *fill = record.fill;
    let element = &mut fill[..record.dtype_bytes as usize];
    if (record.byte_order == ByteOrder::Big) != cfg!(target_endian = "big") {
        let words = element.chunks_mut(record.dtype.word_bytes() as usize);
        words.for_each(<[u8]>::reverse);
    }
    element
}

/// The cells of a shard.
struct Cells {
    /// Axes in which the index counts, and how many cells it has along each.
    order: [u8; RANK_MAX],
    counts: [u64; RANK_MAX],
    /// Axes of the elements, outermost first; as many of them as rows do not reach over.
    outer: [u8; RANK_MAX],
    outer_axes: usize,
    axes: usize,
    /// Extents of a cell, and bytes from an element of the shard to the next, by axis.
    cell: [u64; RANK_MAX],
    strides: [u64; RANK_MAX],
    /// Bytes of the elements of a cell, and of those that are side by side in the shard, too.
    bytes: usize,
    row_bytes: usize,
}

impl Cells {
    fn new(record: &ArrayRecord, place: usize, number: usize) -> Cells {
        let (axes, mut strides) = (record.axes(), [0; RANK_MAX]);
        let (whole, cell) = (*record.unit_shape(place + 1), *record.unit_shape(place));
        let outer = record.axis_order[record.shard_levels as usize];
        let mut stride = u64::from(record.dtype_bytes);
        // Rows reach over the axes that a cell takes the whole of, and over one more.
        let (mut row_bytes, mut outer_axes, mut is_dense) = (stride, axes, true);
        for (at, axis) in outer[..axes].iter().map(|axis| usize::from(*axis)).enumerate().rev() {
            strides[axis] = stride;
            stride *= whole[axis];
            if is_dense {
                (row_bytes, outer_axes) = (row_bytes * cell[axis], at);
                is_dense = cell[axis] == whole[axis];
            }
        }
        let order = record.axis_order[number + 1];
        let by_axis = record.cell_counts(place);
        let mut counts = [1; RANK_MAX];
        for (count, axis) in counts.iter_mut().zip(&order[..axes]) {
            *count = by_axis[usize::from(*axis)];
        }
        let (bytes, row_bytes) = (index(record.unit_bytes(place)), index(row_bytes));
        Cells { order, counts, outer, outer_axes, axes, cell, strides, bytes, row_bytes }
    }

    fn count(&self) -> u64 {
        self.counts[..self.axes].iter().product()
    }

    /// First byte of a cell in the target, by its number in the index.
    fn first_byte(&self, number: u64) -> usize {
        let mut at = [0; RANK_MAX];
        coordinates_from_linear(number, &self.counts[..self.axes], &mut at[..self.axes]);
        let places = self.order[..self.axes].iter().map(|axis| usize::from(*axis)).zip(at);
        index(places.map(|(axis, at)| at * self.cell[axis] * self.strides[axis]).sum())
    }

    /// Calls with the first byte of each row of a cell: in the target, counted from the first byte
    /// of the cell there, and in its own elements.
    fn rows(&self, mut each: impl FnMut(usize, usize)) {
        let (mut at, mut to) = ([0; RANK_MAX], 0u64);
        for from in (0..self.bytes).step_by(self.row_bytes) {
            each(index(to), from);
            for axis in self.outer[..self.outer_axes].iter().rev().map(|axis| usize::from(*axis)) {
                (at[axis], to) = (at[axis] + 1, to + self.strides[axis]);
                if at[axis] < self.cell[axis] {
                    break;
                }
                to -= self.cell[axis] * self.strides[axis];
                at[axis] = 0;
            }
        }
    }
}
