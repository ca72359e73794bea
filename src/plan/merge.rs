//! Many walks as one: every distinct chunk once, with all the samples that touch it.
//!
//! In: one cursor per sample, each strictly increasing. Out: positions in increasing order; the
//! samples of a position in increasing order. Invariant: `heap` is a binary heap by (position,
//! sample) of the samples whose walk is not over.

use crate::base::arena::Carver;
use crate::plan::Cursor;
use crate::plan::need::Part;
use crate::records::{ArrayRecord, Need};

/// See the module. Samples are numbered in their batch.
#[derive(Debug)]
pub struct Merge {
    cursors: &'static mut [Cursor],
    heap: &'static mut [u32],
    len: usize,
}

impl Merge {
    /// A merge of up to `samples` walks, none of them begun.
    pub fn carve(carver: &mut Carver, samples: u32) -> Merge {
        Merge {
            cursors: carver.slice("plan cursors", samples as u64, &Cursor::IDLE),
            heap: carver.slice("plan cursors", samples as u64, &0),
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

    /// The next chunk and what its samples read of it; `take` gets each of them.
    pub fn next(
        &mut self,
        record: &ArrayRecord,
        mut take: impl FnMut(u32),
    ) -> Option<((u64, u64), Need)> {
        if self.len == 0 {
            return None;
        }
        let position = self.cursors[self.heap[0] as usize].position();
        let mut part = Part::NONE;
        while self.len > 0 && self.cursors[self.heap[0] as usize].position() == position {
            let sample = self.heap[0];
            take(sample);
            part.add(&self.cursors[sample as usize].part(record), record.axes());
            if !self.cursors[sample as usize].advance(record) {
                self.len -= 1;
                self.heap[0] = self.heap[self.len];
            }
            self.sink();
        }
        Some((position, part.need(record.of_file(position.0, &mut None))))
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
    use core::ptr::NonNull;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    #[test]
    fn shared_chunks_come_out_once_with_all_their_samples() {
        let block = std::boxed::Box::leak(std::vec![0u64; 1 << 14].into_boxed_slice());
        let start = (block.as_mut_ptr() as usize + 4095) & !4095;
        // SAFETY: the block is leaked, used once, and large enough after alignment.
        let mut carver =
            unsafe { Carver::over(NonNull::new(start as *mut u8).unwrap(), (1 << 17) - 4096) };
        let mut merge = Merge::carve(&mut carver, 16);
        let record = record(&[40, 40], &[16, 16], &[4, 8]);
        let mut expected: BTreeMap<(u64, u64), Vec<u32>> = BTreeMap::new();
        for sample in 0..16u32 {
            let lo = [sample as u64 * 5 % 20, sample as u64 * 7 % 20];
            let hi = [lo[0] + 20, lo[1] + 3 + sample as u64];
            merge.add(sample, Cursor::start(&record, &padded(&lo), &padded(&hi)));
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
}
