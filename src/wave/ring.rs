//! The ring of staging memory that waves take their bytes from.
//!
//! In: numbers of bytes. Out: contiguous intervals, given back in any order. Their bytes are free
//! once those before them, or all behind them, were given back, too. Invariant: intervals that are
//! out never overlap; one that the host still writes to is out, whatever became of its wave.

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
    capacity: u64,
    first: u64,
    limit: u64,
}

impl Ring {
    /// A ring of `capacity` bytes and at most so many intervals.
    pub(super) fn carve(carver: &mut Carver, intervals: u32, capacity: u64) -> Ring {
        let interval = Interval { limit: 0, is_done: false, writers: 0 };
        Ring {
            intervals: carver.slice(Item::Waves, intervals as u64, &interval),
            interval_first: 0,
            interval_limit: 0,
            capacity,
            first: 0,
            limit: 0,
        }
    }

    /// Takes `bytes` contiguous bytes: the number of the interval and its offset. None until
    /// intervals are given back.
    pub fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        self.take_beside(bytes, 0)
    }

    /// The same, if as many as `others` can be taken right behind.
    pub fn take_beside(&mut self, bytes: u64, others: u64) -> Option<(u64, u64)> {
        assert!(bytes <= self.capacity);
        if self.interval_limit - self.interval_first == self.intervals.len() as u64 {
            return None;
        }
        if self.interval_first == self.interval_limit {
            self.first = 0;
            self.limit = 0;
        }
        let (start, limit) = self.place(self.limit, bytes)?;
        self.place(limit, others)?;
        self.limit = limit;
        let number = self.interval_limit;
        let at = index(number % self.intervals.len() as u64);
        self.intervals[at] = Interval { limit: self.limit, is_done: false, writers: 0 };
        self.interval_limit += 1;
        Some((number, start % self.capacity))
    }

    /// The begin and the end of `bytes` bytes behind `limit`, if they are free.
    fn place(&self, limit: u64, bytes: u64) -> Option<(u64, u64)> {
        let bytes = align_up(bytes, BUFFER_ALIGN);
        let to_wrap = self.capacity - limit % self.capacity;
        let start = if bytes <= to_wrap { limit } else { limit + to_wrap };
        (start + bytes <= self.first + self.capacity).then_some((start, start + bytes))
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
        while self.interval_first < self.interval_limit
            && self.interval(self.interval_limit - 1).is_done
        {
            self.interval_limit -= 1;
            self.limit = match self.interval_limit - self.interval_first {
                0 => self.first,
                _ => self.interval(self.interval_limit - 1).limit,
            };
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
    fn what_is_left_to_others_is_there_whoever_holds_what_before() {
        let mut ring = Ring::carve(&mut Carver::leaked(1 << 14), 32, 64 * 256);
        let (reserve, mut held) = (20 * 256, 0);
        let mut state = 7u64;
        for _ in 0..200 {
            state = crate::base::cache::hash_words(&[state]);
            // Some is held for ever, as long as the reserve is left.
            held += u64::from(ring.take_beside((1 + state % 6) * 256, reserve).is_some());
            // Others come and go, in any order.
            let sizes = [state >> 8, state >> 16, state >> 24].map(|word| (1 + word % 10) * 256);
            let mut taken: std::vec::Vec<_> =
                sizes.iter().filter_map(|size| ring.take(*size)).collect();
            assert!(!taken.is_empty());
            while !taken.is_empty() {
                let at = index(state >> 32) % taken.len();
                ring.give_back(taken.swap_remove(at).0);
            }
            let all = ring.take(reserve).expect("the reserve");
            ring.give_back(all.0);
        }
        assert!(held > 5, "{held}");
    }

    #[test]
    fn ring_intervals_never_overlap_and_an_empty_ring_fits_anything() {
        let mut carver = Carver::leaked(1 << 14);
        let mut ring = Ring::carve(&mut carver, 8, 16 * 256);
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
        Ring::carve(&mut carver, intervals, capacity)
    }

    #[test]
    fn a_cleared_ring_keeps_what_is_written_to_until_its_last_writer_ends() {
        let mut ring = ring_of(8, 16 * 256);
        let taken: std::vec::Vec<_> = (0..4).map(|_| ring.take(4 * 256).unwrap()).collect();
        ring.give_back(taken[1].0);
        ring.clear([taken[2].0, taken[0].0, taken[2].0].into_iter());
        // The last one is free, and what lies between those that are written to is not.
        let last = ring.take(4 * 256).unwrap();
        assert_eq!((last.1, ring.take(256)), (12 * 256, None));
        ring.give_back(last.0);
        ring.end_write(taken[0].0);
        let places = [12, 0, 4].map(|place| place * 256);
        assert_eq!(places.map(|_| ring.take(4 * 256).unwrap().1), places);
        assert_eq!(ring.take(256), None);
        // Another clear counts anew.
        ring.clear([taken[2].0, taken[2].0].into_iter());
        ring.end_write(taken[2].0);
        assert_eq!(ring.take(9 * 256), None);
        ring.end_write(taken[2].0);
        assert_eq!(ring.take(16 * 256).unwrap().1, 0);
    }
}
