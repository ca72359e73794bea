//! The ring of staging memory that waves take their bytes from.
//!
//! In: numbers of bytes. Out: contiguous intervals, given back in any order and taken back in the
//! order in which they were given out. Invariant: intervals that are out never overlap; one that
//! the host still writes to is out, whatever became of its wave.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::limits::BUFFER_ALIGN;
use crate::base::math::{align_up, index};

#[derive(Clone, Copy, Debug)]
struct Interval {
    limit: u64,
    is_done: bool,
    /// Reads that write to it although its wave was dropped.
    writers: u32,
}

/// A ring of bytes that is handed out in contiguous intervals.
#[derive(Debug)]
pub struct Ring {
    intervals: &'static mut [Interval],
    interval_first: u64,
    interval_limit: u64,
    /// Offset of its first byte in the staging memory.
    base: u64,
    capacity: u64,
    first: u64,
    limit: u64,
}

impl Ring {
    /// A ring of `capacity` bytes from `base` on and at most so many intervals.
    pub(super) fn carve(carver: &mut Carver, intervals: u32, (base, capacity): (u64, u64)) -> Ring {
        let interval = Interval { limit: 0, is_done: false, writers: 0 };
        Ring {
            intervals: carver.slice(Item::Waves, intervals as u64, &interval),
            interval_first: 0,
            interval_limit: 0,
            base,
            capacity,
            first: 0,
            limit: 0,
        }
    }

    /// Takes `bytes` contiguous bytes: the number of the interval and its offset. None until
    /// earlier intervals are given back.
    pub fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        assert!(bytes <= self.capacity);
        if self.interval_limit - self.interval_first == self.intervals.len() as u64 {
            return None;
        }
        if self.interval_first == self.interval_limit {
            self.first = 0;
            self.limit = 0;
        }
        let bytes = align_up(bytes, BUFFER_ALIGN);
        let to_wrap = self.capacity - self.limit % self.capacity;
        let start = if bytes <= to_wrap { self.limit } else { self.limit + to_wrap };
        if start + bytes > self.first + self.capacity {
            return None;
        }
        self.limit = start + bytes;
        let number = self.interval_limit;
        let at = index(number % self.intervals.len() as u64);
        self.intervals[at] = Interval { limit: self.limit, is_done: false, writers: 0 };
        self.interval_limit += 1;
        Some((number, self.base + start % self.capacity))
    }

    fn interval(&mut self, number: u64) -> &mut Interval {
        assert!(self.interval_first <= number && number < self.interval_limit);
        &mut self.intervals[index(number % self.intervals.len() as u64)]
    }

    /// The bytes of an interval are of no more use.
    pub(super) fn give_back(&mut self, number: u64) {
        let interval = self.interval(number);
        assert!(!interval.is_done && interval.writers == 0);
        interval.is_done = true;
        self.skip_done();
    }

    fn skip_done(&mut self) {
        while self.interval_first < self.interval_limit {
            let interval = *self.interval(self.interval_first);
            if !interval.is_done {
                break;
            }
            self.first = interval.limit;
            self.interval_first += 1;
        }
    }

    /// Takes every interval back but those that are still written to, each once for every number in
    /// `in_flight`.
    pub(super) fn clear(&mut self, in_flight: impl Iterator<Item = u64>) {
        for number in self.interval_first..self.interval_limit {
            let interval = self.interval(number);
            (interval.is_done, interval.writers) = (true, 0);
        }
        for number in in_flight {
            let interval = self.interval(number);
            interval.is_done = false;
            interval.writers += 1;
        }
        self.skip_done();
    }

    /// A read into an interval that is out for it alone has ended.
    pub(super) fn end_write(&mut self, number: u64) {
        let interval = self.interval(number);
        assert!(interval.writers > 0);
        interval.writers -= 1;
        if interval.writers == 0 {
            self.give_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn ring_intervals_never_overlap_and_an_empty_ring_fits_anything() {
        let mut carver = Carver::leaked(1 << 14);
        let mut ring = Ring::carve(&mut carver, 8, (0, 16 * 256));
        let mut live: VecDeque<(u64, u64, u64)> = VecDeque::new();
        let mut state = 3u64;
        for _ in 0..5000 {
            state = crate::base::cache::hash_words(&[state]);
            let bytes = 1 + state % (16 * 256);
            match ring.take(bytes) {
                Some((number, offset)) => {
                    assert!(offset + bytes <= 16 * 256);
                    for (_, other, length) in &live {
                        assert!(offset + bytes <= *other || other + length <= offset);
                    }
                    live.push_back((number, offset, bytes));
                }
                None => {
                    // Out of order on purpose.
                    let at = index(state >> 32) % live.len();
                    let (number, ..) = live.remove(at).unwrap();
                    ring.give_back(number);
                }
            }
            if live.is_empty() {
                assert!(ring.interval_first == ring.interval_limit);
            }
        }
    }

    fn ring_of(intervals: u32, capacity: u64) -> Ring {
        let mut carver = Carver::leaked(1 << 14);
        Ring::carve(&mut carver, intervals, (0, capacity))
    }

    #[test]
    fn a_cleared_ring_keeps_what_is_written_to_until_its_last_writer_ends() {
        let mut ring = ring_of(8, 16 * 256);
        let taken: std::vec::Vec<_> = (0..4).map(|_| ring.take(4 * 256).unwrap()).collect();
        ring.give_back(taken[1].0);
        ring.clear([taken[2].0, taken[0].0, taken[2].0].into_iter());
        // The first interval blocks all intervals, the third those after it.
        assert_eq!(ring.take(256), None);
        ring.end_write(taken[0].0);
        assert_eq!(ring.take(4 * 256).unwrap().1, 0);
        assert_eq!(ring.take(4 * 256).unwrap().1, 4 * 256);
        assert_eq!(ring.take(256), None);
        // Another clear counts anew.
        ring.clear([taken[2].0, taken[2].0].into_iter());
        ring.end_write(taken[2].0);
        assert_eq!(ring.take(9 * 256), None);
        ring.end_write(taken[2].0);
        assert_eq!(ring.take(16 * 256).unwrap().1, 0);
    }
}
