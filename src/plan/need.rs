//! Which bytes of a chunk its samples read.
//!
//! In: the parts of boxes that lie in the chunk. Out: one run of bytes, or strips of them where
//! what lies between is worth leaving out. Invariant: every voxel of the parts lies in a strip.

use crate::base::limits::{GAP_BYTES_MIN, RANK_MAX};
use crate::records::{ArrayRecord, Need, Span};

/// A part of a chunk, half-open along each axis, in elements from the chunk's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// First element.
    pub low: [u64; RANK_MAX],
    /// Behind the last element.
    pub high: [u64; RANK_MAX],
}

impl Part {
    /// No element: what a union begins with.
    pub const NONE: Part = Part { low: [u64::MAX; RANK_MAX], high: [0; RANK_MAX] };

    /// Grows until it holds `other` too.
    pub fn add(&mut self, other: &Part, axes: usize) {
        for axis in 0..axes {
            self.low[axis] = self.low[axis].min(other.low[axis]);
            self.high[axis] = self.high[axis].max(other.high[axis]);
        }
    }

    /// Bytes of its elements.
    pub fn bytes(&self, record: &ArrayRecord) -> u64 {
        let extents = (0..record.axes()).map(|axis| self.high[axis] - self.low[axis]);
        extents.product::<u64>() * u64::from(record.dtype_bytes)
    }

    /// The bytes of the decoded chunk that it reads.
    ///
    /// Worked example: chunks of [4, 10] u16, part [1, 3) x [2, 5): from byte (1 * 10 + 2) * 2 = 24
    /// to behind byte (2 * 10 + 4) * 2 + 1 = 49. With rows of 10,000 elements it would be two
    /// strips of 6 bytes, 20,000 bytes apart.
    pub fn need(&self, record: &ArrayRecord) -> Need {
        let (mut first, mut last, mut outer) = (0, 0, None::<(u64, u64)>);
        for axis in 0..record.axes() {
            let stride = record.chunk_strides[axis].unsigned_abs();
            first += self.low[axis] * stride;
            last += (self.high[axis] - 1) * stride;
            let count = self.high[axis] - self.low[axis];
            if count > 1 && outer.is_none_or(|(_, longest)| longest < stride) {
                outer = Some((count, stride));
            }
        }
        let span = Span { first, limit: last + u64::from(record.dtype_bytes) };
        // Strips along the axis of the longest stride that has more than one element: the outermost
        // in memory, whichever that is in a transposed chunk.
        let need = Need { box_bytes: self.bytes(record), ..Need::of(span) };
        let Some((count, pitch)) = outer else { return need };
        let strip_bytes = span.bytes() - (count - 1) * pitch;
        let fits = u32::try_from(count).is_ok() && u32::try_from(pitch).is_ok();
        if fits && strip_bytes + GAP_BYTES_MIN <= pitch {
            return Need { strip_count: count as u32, strip_pitch: pitch as u32, ..need };
        }
        need
    }
}

#[cfg(test)]
mod tests {
    use super::super::cursor::tests::{brute, padded, record};
    use super::super::cursor::{Cursor, Reach};

    #[test]
    fn every_voxel_lies_in_a_strip_and_no_byte_before_or_behind_the_span_is_needed() {
        let mut state = 5u64;
        let mut random = |limit: u64| {
            state = crate::base::cache::hash_words(&[state]);
            state % limit
        };
        let (mut stripped, mut whole) = (0, 0);
        // Distances of the elements along each axis: row-major, spread, transposed.
        for strides in [[60, 20, 2], [9000, 20, 2], [2, 80, 8], [4000, 4, 2], [30, 5000, 2]] {
            let mut record = record(&[21, 34, 50], &[8, 12, 20], &[4, 3, 10]);
            record.dtype_bytes = 2;
            record.chunk_strides[..3].copy_from_slice(&strides);
            for _ in 0..40 {
                let (mut lo, mut hi) = ([0; 3], [0; 3]);
                for axis in 0..3 {
                    lo[axis] = random(record.shape[axis]);
                    hi[axis] = lo[axis] + 1 + random(record.shape[axis] - lo[axis]);
                }
                let mut cursor = Cursor::start(&record, &Reach::of(padded(&lo), padded(&hi)));
                loop {
                    let need = cursor.part(&record).need(&record);
                    let mut hull = (u64::MAX, 0);
                    for z in lo[0]..hi[0] {
                        for y in lo[1]..hi[1] {
                            for x in lo[2]..hi[2] {
                                let voxel = [z, y, x];
                                let end = [z + 1, y + 1, x + 1];
                                if brute(&record, &voxel, &end)[0] != cursor.position() {
                                    continue;
                                }
                                let inside = [z % 4, y % 3, x % 10];
                                let at: u64 = (0..3).map(|a| inside[a] * strides[a] as u64).sum();
                                hull = (hull.0.min(at), hull.1.max(at + 2));
                                let from = at - need.span.first;
                                let strip = match need.strip_count {
                                    1 => 0,
                                    _ => from / u64::from(need.strip_pitch),
                                };
                                assert!(strip < u64::from(need.strip_count));
                                let start = strip * u64::from(need.strip_pitch);
                                assert!(from + 2 <= start + need.strip_bytes(), "{need:?} {at}");
                            }
                        }
                    }
                    assert_eq!((need.span.first, need.span.limit), hull);
                    stripped += (need.strip_count > 1) as u32;
                    whole += (need.strip_count == 1) as u32;
                    if !cursor.advance(&record) {
                        break;
                    }
                }
            }
        }
        assert!(stripped > 100 && whole > 100, "{stripped} {whole}");
    }
}
