//! Many walks as one: every distinct chunk once, with all the samples that touch it; of a chunk
//! that is read partly, each part that others are far from.
//!
//! In: one cursor per box, each strictly increasing. Out: positions in increasing order, those
//! of parts several times; the samples of each in increasing order. Invariant: `heap` is a binary
//! heap by (position, sample) of the samples whose walk is not over.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::math::align_up;
use crate::plan::Cursor;
use crate::plan::need::Part;
use crate::records::{ArrayRecord, Need};

/// Bytes that samples may read together beyond what each reads for itself, before they are far from
/// each other: out of the page cache they take about as long as the chunk of work that is saved.
const APART_BYTES: u64 = 64 << 10;

/// See the module. Samples are numbered in their batch.
#[derive(Debug)]
pub struct Merge {
    cursors: &'static mut [Cursor],
    heap: &'static mut [u32],
    len: usize,
}

impl Merge {
    /// A merge of so many walks, the second number of them for index lists; none has begun.
    pub fn carve(carver: &mut Carver, walks: (u64, u64)) -> Merge {
        Merge {
            cursors: carver.slice_of_boxes(Item::PlanWindow, walks, &Cursor::IDLE),
            heap: carver.slice_of_boxes(Item::PlanWindow, walks, &0),
            len: 0,
        }
    }

    /// Drops every walk.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Whether every walk is over.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the walk of a sample that has none.
    pub fn add(&mut self, sample: u32, cursor: Cursor) {
        self.cursors[sample as usize] = cursor;
        self.heap[self.len] = sample;
        self.len += 1;
        let mut at = self.len - 1;
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// The next chunk, or part of one, and what its samples read of it; `take` gets each of them.
    pub fn next(
        &mut self,
        record: &ArrayRecord,
        mut take: impl FnMut(u32),
    ) -> Option<((u64, u64), Need)> {
        if self.len == 0 {
            return None;
        }
        let position = self.cursors[self.heap[0] as usize].position();
        let mut own = None;
        let in_file = record.of_file(position.0, &mut own);
        let (mut part, mut apart_bytes) = (Part::NONE, APART_BYTES);
        let mut parts_bytes = 0;
        while self.len > 0 && self.cursors[self.heap[0] as usize].position() == position {
            let sample = self.heap[0];
            let more = self.cursors[sample as usize].part(record);
            if record.is_read_partly() {
                let mut both = part;
                both.add(&more, record.axes());
                apart_bytes += more.need(in_file).bytes();
                if part != Part::NONE && both.need(in_file).bytes() > apart_bytes {
                    break;
                }
            }
            take(sample);
            part.add(&more, record.axes());
            parts_bytes += align_up(more.bytes(in_file), Need::PART_ALIGN);
            if !self.cursors[sample as usize].advance(record) {
                self.len -= 1;
                self.heap[0] = self.heap[self.len];
            }
            self.sink();
        }
        let need = part.need(in_file);
        Some((position, Need { box_bytes: need.box_bytes.min(parts_bytes), ..need }))
    }

    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.len && self.is_before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let key = |at: usize| {
            let sample = self.heap[at];
            (self.cursors[sample as usize].position(), sample)
        };
        key(a) < key(b)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cursor::tests::{brute, padded, record};
    use super::*;
    use crate::plan::Reach;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn shared_chunks_come_out_once_with_all_their_samples() {
        let mut carver = Carver::leaked(1 << 17);
        let mut merge = Merge::carve(&mut carver, (16, 0));
        let record = record(&[40, 40], &[16, 16], &[4, 8]);
        let mut expected: BTreeMap<(u64, u64), Vec<u32>> = BTreeMap::new();
        for sample in 0..16u32 {
            let lo = [sample as u64 * 5 % 20, sample as u64 * 7 % 20];
            let hi = [lo[0] + 20, lo[1] + 3 + sample as u64];
            merge.add(sample, Cursor::start(&record, &Reach::of(padded(&lo), padded(&hi))));
            for position in brute(&record, &lo, &hi) {
                expected.entry(position).or_default().push(sample);
            }
        }
        let mut got = Vec::new();
        loop {
            let mut samples = Vec::new();
            let next = merge.next(&record, |sample| samples.push(sample));
            let Some((position, _)) = next else { break };
            got.push((position, samples));
        }
        assert_eq!(got, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_a_chunk_that_are_far_from_each_other_come_out_one_by_one() {
        let mut carver = Carver::leaked(1 << 17);
        let mut merge = Merge::carve(&mut carver, (5, 0));
        let mut record = record(&[1 << 20], &[1 << 20], &[1 << 20]);
        (record.dtype_bytes, record.chunk_strides[0]) = (1, 1);
        // Two that overlap, two as far as those that go together may be, one a byte farther.
        let (third, fourth) = (500_000, 500_000 + 4000 + APART_BYTES);
        let begins = [0, 1000, third, fourth, fourth + 4000 + APART_BYTES + 1];
        for (sample, begin) in begins.into_iter().enumerate() {
            let (lo, hi) = (padded(&[begin]), padded(&[begin + 4000]));
            merge.add(sample as u32, Cursor::start(&record, &Reach::of(lo, hi)));
        }
        let mut got = Vec::new();
        loop {
            let mut samples = Vec::new();
            let next = merge.next(&record, |sample| samples.push(sample));
            let Some((position, need)) = next else { break };
            got.push((position, samples, need.bytes()));
        }
        let far = |samples, bytes| ((0, 0), samples, bytes);
        let both = 8000 + APART_BYTES;
        assert_eq!(got, [far(vec![0, 1], 5000), far(vec![2, 3], both), far(vec![4], 4000)]);
        record.codecs.push(crate::records::Codec::Zstd);
        for sample in 0..2 {
            let begin = u64::from(sample) * 500_000;
            let (lo, hi) = (padded(&[begin]), padded(&[begin + 4000]));
            merge.add(sample, Cursor::start(&record, &Reach::of(lo, hi)));
        }
        let next = merge.next(&record, |_| {}).unwrap();
        assert_eq!((next.1.bytes(), merge.is_empty()), (504_000, true));
    }
}
