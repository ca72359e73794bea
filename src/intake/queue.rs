//! The lookahead: samples that push took and no batch has planned yet, in push order.
//!
//! In: boxes and uris, copied. Out: the samples of the next batch, once it is complete or flushed.
//! Uris lie in a ring of bytes; a sample whose uri is among the few youngest shares it, so that a
//! stream over one array costs one uri. An old uri gets no new users, so the ring always drains.
//!
//! Invariant: `first <= limit`, and every queued sample holds one use of its name.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::hash_bytes;
use crate::base::limits::RANK_MAX;
use crate::base::math::index;

/// Names that a new sample may share.
const YOUNG_NAMES: u64 = 16;

/// A half-open box and the array it lies in.
#[derive(Clone, Copy, Debug)]
pub struct QueuedSample {
    /// Number of the name in the ring of names.
    pub name: u64,
    /// The caller's tag.
    pub tag: u64,
    /// Axes of the box; 1 of a box of rank 0.
    pub rank: u32,
    /// The box has rank 0, and stands here as [0, 1) along one axis.
    pub is_scalar: bool,
    /// Flush was called behind this sample.
    pub ends_segment: bool,
    /// First element along each axis.
    pub begin: [i64; RANK_MAX],
    /// One past the last.
    pub end: [i64; RANK_MAX],
}

impl QueuedSample {
    const EMPTY: QueuedSample = QueuedSample {
        name: 0,
        tag: 0,
        rank: 0,
        is_scalar: false,
        ends_segment: false,
        begin: [0; RANK_MAX],
        end: [0; RANK_MAX],
    };
}

#[derive(Clone, Copy, Debug)]
struct Name {
    hash: u64,
    start: u64,
    bytes: u32,
    uses: u32,
}

/// Why a sample was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// As many samples wait as `lookahead_samples` says.
    Samples,
    /// The uris fill the memory for them.
    Uris,
}

/// See the module.
#[derive(Debug)]
pub struct Queue {
    samples: &'static mut [QueuedSample],
    first: u64,
    limit: u64,
    names: &'static mut [Name],
    name_first: u64,
    name_limit: u64,
    bytes: &'static mut [u8],
    byte_first: u64,
    byte_limit: u64,
    flushes: u64,
}

impl Queue {
    /// An empty queue.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, samples: u32, uri_bytes: u64) -> Queue {
        let name = Name { hash: 0, start: 0, bytes: 0, uses: 0 };
        Queue {
            samples: carver.slice(Item::SampleQueue, samples as u64, &QueuedSample::EMPTY),
            first: 0,
            limit: 0,
            names: carver.slice(Item::SampleQueue, samples as u64 + YOUNG_NAMES + 1, &name),
            name_first: 0,
            name_limit: 0,
            bytes: carver.slice(Item::Uris, uri_bytes, &0),
            byte_first: 0,
            byte_limit: 0,
            flushes: 0,
        }
    }

    /// Number of samples that wait.
    pub fn len(&self) -> u64 {
        self.limit - self.first
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.first == self.limit
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.first = self.limit;
        self.name_first = self.name_limit;
        self.byte_first = self.byte_limit;
        self.flushes = 0;
    }

    /// Copies a sample in. `uri` is normalised and at most 4095 bytes.
    pub fn push(&mut self, uri: &[u8], begin: &[i64], end: &[i64], tag: u64) -> Result<(), Full> {
        if self.len() == self.samples.len() as u64 {
            return Err(Full::Samples);
        }
        let name = self.use_name(uri).ok_or(Full::Uris)?;
        let mut sample = QueuedSample {
            name,
            tag,
            rank: begin.len().max(1) as u32,
            is_scalar: begin.is_empty(),
            ..QueuedSample::EMPTY
        };
        sample.end[0] = 1;
        sample.begin[..begin.len()].copy_from_slice(begin);
        sample.end[..end.len()].copy_from_slice(end);
        let at = index(self.limit % self.samples.len() as u64);
        self.samples[at] = sample;
        self.limit += 1;
        Ok(())
    }

    /// Ends the current batch behind the youngest sample.
    pub fn flush(&mut self) {
        if self.is_empty() {
            return;
        }
        let at = index((self.limit - 1) % self.samples.len() as u64);
        if !self.samples[at].ends_segment {
            self.samples[at].ends_segment = true;
            self.flushes += 1;
        }
    }

    /// Number of samples of the next batch: `samples_per_batch`, fewer at a flush, None while
    /// samples are missing.
    pub fn next_batch(&self, samples_per_batch: u32) -> Option<u32> {
        let full = self.len() >= samples_per_batch as u64;
        if self.flushes > 0 {
            let count = self.len().min(samples_per_batch as u64);
            let flushed = (0..count).find(|at| self.sample(*at as u32).ends_segment);
            if let Some(at) = flushed {
                return Some(at as u32 + 1);
            }
        }
        full.then_some(samples_per_batch)
    }

    /// The sample `offset` behind the front.
    pub fn sample(&self, offset: u32) -> &QueuedSample {
        assert!((offset as u64) < self.len());
        &self.samples[index((self.first + offset as u64) % self.samples.len() as u64)]
    }

    /// Number of the front sample since open; grows by one for every sample consumed.
    pub fn front_number(&self) -> u64 {
        self.first
    }

    /// The uri of a queued sample and its hash.
    pub fn uri(&self, sample: &QueuedSample) -> (&[u8], u64) {
        let name = &self.names[index(sample.name % self.names.len() as u64)];
        let start = index(name.start % self.bytes.len() as u64);
        (&self.bytes[start..start + name.bytes as usize], name.hash)
    }

    /// Removes the `count` samples at the front.
    pub fn consume(&mut self, count: u32) {
        for _ in 0..count {
            let sample = *self.sample(0);
            self.flushes -= sample.ends_segment as u64;
            self.first += 1;
            let at = index(sample.name % self.names.len() as u64);
            self.names[at].uses -= 1;
        }
        while self.name_first < self.name_limit {
            let name = &self.names[index(self.name_first % self.names.len() as u64)];
            if name.uses > 0 {
                break;
            }
            self.byte_first = name.start + name.bytes as u64;
            self.name_first += 1;
        }
        if self.name_first == self.name_limit {
            self.byte_first = self.byte_limit;
        }
    }

    fn use_name(&mut self, uri: &[u8]) -> Option<u64> {
        let hash = hash_bytes(uri);
        let oldest = self.name_first.max(self.name_limit.saturating_sub(YOUNG_NAMES));
        for number in (oldest..self.name_limit).rev() {
            let at = index(number % self.names.len() as u64);
            let name = self.names[at];
            let start = index(name.start % self.bytes.len() as u64);
            if name.hash == hash && &self.bytes[start..start + name.bytes as usize] == uri {
                self.names[at].uses += 1;
                return Some(number);
            }
        }
        self.add_name(uri, hash)
    }

    /// Worked example: of 100 bytes, 95 to 105 in use (absolute); 20 more do not fit before the
    /// wrap at 200 only if they start past 180; the rest of the lap is then skipped.
    fn add_name(&mut self, uri: &[u8], hash: u64) -> Option<u64> {
        let capacity = self.bytes.len() as u64;
        let bytes = uri.len() as u64;
        let to_wrap = capacity - self.byte_limit % capacity;
        let start = if bytes <= to_wrap { self.byte_limit } else { self.byte_limit + to_wrap };
        let names_full = self.name_limit - self.name_first == self.names.len() as u64;
        if names_full || start + bytes > self.byte_first + capacity {
            return None;
        }
        let at = index(start % capacity);
        self.bytes[at..at + uri.len()].copy_from_slice(uri);
        self.byte_limit = start + bytes;
        let number = self.name_limit;
        let place = index(number % self.names.len() as u64);
        self.names[place] = Name { hash, start, bytes: uri.len() as u32, uses: 1 };
        self.name_limit += 1;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;
    use std::format;

    fn queue(samples: u32, uri_bytes: u64) -> Queue {
        let block = std::boxed::Box::leak(std::vec![0u64; 1 << 15].into_boxed_slice());
        let start = (block.as_mut_ptr() as usize + 4095) & !4095;
        let start = NonNull::new(start as *mut u8).unwrap();
        // SAFETY: the block is leaked, used once, and large enough after alignment.
        let mut carver = unsafe { Carver::over(start, (1 << 18) - 4096) };
        Queue::carve(&mut carver, samples, uri_bytes)
    }

    #[test]
    fn a_batch_is_complete_when_full_or_flushed() {
        let mut queue = queue(8, 4096);
        for tag in 0..5 {
            queue.push(b"/a", &[0], &[1], tag).unwrap();
        }
        assert_eq!(queue.next_batch(3), Some(3));
        queue.consume(3);
        assert_eq!(queue.next_batch(3), None);
        queue.flush();
        queue.push(b"/a", &[0], &[1], 5).unwrap();
        assert_eq!(queue.next_batch(3), Some(2));
        queue.consume(2);
        assert_eq!(queue.next_batch(3), None);
    }

    #[test]
    fn uris_survive_any_number_of_laps() {
        let mut queue = queue(5, 300);
        let mut pushed = 0u64;
        let mut popped = 0u64;
        let uri = |tag: u64| format!("/{}/{tag}", "x".repeat(index(tag * 7 % 90)));
        while popped < 2000 {
            let name = uri(pushed / 2);
            match queue.push(name.as_bytes(), &[0], &[1], pushed) {
                Ok(()) => pushed += 1,
                Err(_) => {
                    let sample = *queue.sample(0);
                    assert_eq!(sample.tag, popped);
                    assert_eq!(queue.uri(&sample).0, uri(popped / 2).as_bytes());
                    queue.consume(1);
                    popped += 1;
                }
            }
        }
    }

    #[test]
    fn a_full_queue_says_which_memory_is_full() {
        let mut few = queue(2, 4096);
        few.push(b"/a", &[0], &[1], 0).unwrap();
        few.push(b"/a", &[0], &[1], 0).unwrap();
        assert_eq!(few.push(b"/a", &[0], &[1], 0), Err(Full::Samples));
        let mut short = queue(8, 16);
        short.push(b"/a234567890", &[0], &[1], 0).unwrap();
        assert_eq!(short.push(b"/b234567890", &[0], &[1], 0), Err(Full::Uris));
    }
}
