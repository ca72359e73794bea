//! The lookahead: samples that push took and no batch has planned yet, in push order.
//!
//! In: boxes and uris, copied. Out: the samples of the next batch, once it is complete or flushed.
//! Uris lie in a ring of bytes; a box whose uri is among the few youngest shares it, so that a
//! stream over one array costs one uri. An old uri gets no new users, so the ring always drains.
//!
//! The boxes of a sample are added one by one, behind the samples that wait, and are part of none
//! before it is pushed; whoever adds holds the lock until then.
//!
//! Invariant: `first <= limit`, and every box, also of the sample that is added to, holds one use
//! of its name.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::limits::URI_BYTES_MAX;
use crate::base::math::index;
use crate::records::{Augment, BoxShape, Fed};

/// Names that a new box of a stream may share.
const YOUNG_NAMES: u64 = 16;

/// A box and the array that it is of.
#[derive(Clone, Copy, Debug)]
pub struct QueuedBox {
    /// Place of the name in the ring of names.
    name: u32,
    /// Axes of the box; 1 of a box of rank 0.
    pub rank: u8,
    /// Field that it goes to.
    pub field: u8,
    /// The box has rank 0, and stands here as [0, 1) along one axis.
    pub is_scalar: bool,
    /// The box is of an array that is fed; it has no name then.
    pub is_fed: bool,
    /// That is in memory of a device.
    pub is_on_device: bool,
    /// Its elements are not cast alone.
    pub is_augmented: bool,
    /// A map says where its places lie in the array.
    pub is_resampled: bool,
    /// Boxes that are one of the caller's, from this one on; 0 of those after the first.
    pub runs: u32,
    /// What it reads, and where that goes.
    pub shape: BoxShape,
}

impl QueuedBox {
    const EMPTY: QueuedBox = QueuedBox {
        name: 0,
        rank: 0,
        field: 0,
        is_scalar: false,
        is_fed: false,
        is_on_device: false,
        is_augmented: false,
        is_resampled: false,
        runs: 1,
        shape: BoxShape::EMPTY,
    };

    /// Whether two boxes are surely of one array, and both with a map or without one.
    pub fn is_alike(&self, other: &QueuedBox) -> bool {
        let key = |queued: &QueuedBox| (queued.name, queued.is_fed, queued.is_resampled);
        key(self) == key(other)
    }
}

/// A sample, whose boxes lie in the ring of boxes.
#[derive(Clone, Copy, Debug)]
pub struct QueuedSample {
    /// The caller's tag.
    pub tag: u64,
    /// Number of its boxes.
    pub boxes: u32,
    /// Flush was called behind this sample.
    pub ends_segment: bool,
}

/// A box as push takes it: a uri, normalised and of at most 4095 bytes, the rank of the box, which
/// may be 0, and what it reads.
#[derive(Clone, Copy, Debug)]
pub struct NewBox<'a> {
    /// The array, if it is not fed.
    pub uri: &'a [u8],
    /// Hash of that.
    pub hash: u64,
    /// What is fed.
    pub fed: &'a Fed,
    /// Axes of the box.
    pub rank: usize,
    /// Field that it goes to.
    pub field: u32,
    /// What it reads, and where that goes.
    pub shape: &'a BoxShape,
    /// Words of what is done to it; none if its elements are cast alone, place by place.
    pub augment: &'a [u32],
    /// Boxes that are one of the caller's, from this one on; 0 of those after the first.
    pub runs: u32,
}

impl NewBox<'_> {
    /// The box as it waits, but for its name.
    pub fn queued(&self) -> QueuedBox {
        let words = (!self.augment.is_empty()).then(|| Augment::of(self.augment));
        QueuedBox {
            name: 0,
            rank: self.rank.max(1) as u8,
            field: self.field as u8,
            is_scalar: self.rank == 0,
            is_fed: self.fed.is_fed(),
            is_on_device: self.fed.on_device().is_some(),
            is_augmented: words.is_some_and(|words| words.is_arithmetic()),
            is_resampled: words.is_some_and(|words| words.affine().is_some()),
            runs: self.runs,
            shape: *self.shape,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Name {
    hash: u64,
    start: u64,
    /// The place of its first byte in the ring.
    at: usize,
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
    /// Boxes of each sample, at the place that it has among the samples.
    boxes: &'static mut [QueuedBox],
    /// What is fed of each box; none where nothing may be fed.
    fed: &'static mut [Fed],
    /// Words of each box of which the elements are not cast alone, `augment_words` apart.
    augment: &'static mut [u32],
    augment_words: usize,
    boxes_per_sample: u32,
    /// Boxes that were added of the sample that is not pushed yet.
    added: u32,
    first: u64,
    limit: u64,
    /// The place of the first sample in the ring.
    front: usize,
    /// Samples that had been consumed or dropped by the last reset.
    cleared: u64,
    /// Names that a new box may share.
    young: u64,
    names: &'static mut [Name],
    name_first: u64,
    name_limit: u64,
    bytes: &'static mut [u8],
    byte_first: u64,
    byte_limit: u64,
    flushes: u64,
}

impl Queue {
    /// An empty queue. `counts`: samples, boxes of each, and those of them for index lists.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        counts: (u32, u32, u32),
        uri_bytes: u64,
        kept: (bool, u32),
    ) -> Queue {
        Queue::carve_sharing(carver, counts, uri_bytes, kept, YOUNG_NAMES)
    }

    /// One for boxes of `count` callers, each a sample of its own, of at most `runs` runs of index
    /// lists: any uris of them fit, because each is given back when its box is. Runs share one.
    pub fn carve_of_callers(carver: &mut Carver, count: u32, runs: u32) -> Queue {
        let uris = if count > 0 { u64::from(count) + 2 } else { 0 };
        let bytes = uris * (URI_BYTES_MAX as u64 + 1);
        Queue::carve_sharing(carver, (count, runs, runs - 1), bytes, (false, 0), 1)
    }

    fn carve_sharing(
        carver: &mut Carver,
        (samples, boxes_per_sample, listed): (u32, u32, u32),
        uri_bytes: u64,
        (takes_fed, augment_words): (bool, u32),
        young: u64,
    ) -> Queue {
        let name = Name { hash: 0, start: 0, at: 0, bytes: 0, uses: 0 };
        let sample = QueuedSample { tag: 0, boxes: 0, ends_segment: false };
        let boxes = samples as u64 * boxes_per_sample as u64;
        let rows = (boxes, samples as u64 * listed as u64);
        let fed = if takes_fed { rows } else { (0, 0) };
        let words = u64::from(augment_words);
        Queue {
            samples: carver.slice(Item::SampleQueue, samples as u64, &sample),
            boxes: carver.slice_of_boxes(Item::SampleQueue, rows, &QueuedBox::EMPTY),
            fed: carver.slice_of_boxes(Item::SampleQueue, fed, &Fed::NOTHING),
            augment: carver.slice_of_boxes(
                Item::Augmentation,
                (rows.0 * words, rows.1 * words),
                &0,
            ),
            augment_words: augment_words as usize,
            boxes_per_sample,
            added: 0,
            first: 0,
            limit: 0,
            front: 0,
            cleared: 0,
            young,
            names: carver.slice_of_boxes(Item::SampleQueue, (boxes + young + 1, rows.1), &name),
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
        self.front = self.place(self.len());
        (self.first, self.cleared) = (self.limit, self.limit);
        self.name_first = self.name_limit;
        self.byte_first = self.byte_limit;
        self.flushes = 0;
        self.added = 0;
    }

    /// Copies a box of the next sample in.
    pub fn add_box(&mut self, new: &NewBox<'_>) -> Result<(), Full> {
        if self.len() == self.samples.len() as u64 {
            return Err(Full::Samples);
        }
        assert!(self.added < self.boxes_per_sample);
        let place = self.boxes_first(self.len()) + self.added as usize;
        let name = match new.fed.is_fed() {
            false => self.use_name(new.uri, new.hash).ok_or(Full::Uris)?,
            true => {
                self.fed[place] = *new.fed;
                0
            }
        };
        let first = place * self.augment_words;
        self.augment[first..][..new.augment.len()].copy_from_slice(new.augment);
        self.boxes[place] = QueuedBox { name: name as u32, ..new.queued() };
        self.added += 1;
        Ok(())
    }

    /// Takes the boxes back that were added of the next sample.
    pub fn drop_added(&mut self) {
        let first = self.boxes_first(self.len());
        let added = core::mem::take(&mut self.added) as usize;
        self.give_names_back(first, added);
        // Those that came with them are the youngest.
        while self.name_first < self.name_limit {
            let name = &self.names[index((self.name_limit - 1) % self.names.len() as u64)];
            if name.uses > 0 {
                break;
            }
            self.byte_limit = name.start;
            self.name_limit -= 1;
        }
    }

    /// The boxes that were added are a sample, with a box at least.
    pub fn push(&mut self, tag: u64) {
        assert!(self.added > 0 && self.len() < self.samples.len() as u64);
        let at = self.place(self.len());
        let boxes = core::mem::take(&mut self.added);
        self.samples[at] = QueuedSample { tag, boxes, ends_segment: false };
        self.limit += 1;
    }

    /// The place in the ring of the sample `offset` behind the front, or of the next one. A
    /// division would be felt: the planner asks many times for each box.
    fn place(&self, offset: u64) -> usize {
        let (at, places) = (self.front + index(offset), self.samples.len());
        if at < places { at } else { at - places }
    }

    fn boxes_first(&self, offset: u64) -> usize {
        self.place(offset) * self.boxes_per_sample as usize
    }

    /// Ends the current batch behind the youngest sample.
    pub fn flush(&mut self) {
        if self.is_empty() {
            return;
        }
        let at = self.place(self.len() - 1);
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
        &self.samples[self.place(offset as u64)]
    }

    /// The boxes of the sample `offset` behind the front.
    pub fn boxes(&self, offset: u32) -> &[QueuedBox] {
        let first = self.boxes_first(offset as u64);
        &self.boxes[first..first + self.sample(offset).boxes as usize]
    }

    /// Number of the front sample since open; grows by one for every sample consumed.
    pub fn front_number(&self) -> u64 {
        self.first
    }

    /// Position of the front sample in the stream: samples that were pushed before it since open or
    /// reset, those of discarded batches included.
    pub fn front_position(&self) -> u64 {
        self.first - self.cleared
    }

    /// What is fed of box `number` of the sample `offset` behind the front.
    pub fn fed(&self, offset: u32, number: u32) -> &Fed {
        let first = self.boxes_first(offset as u64);
        &self.fed[first + number as usize]
    }

    /// Words of box `number` of the sample `offset` behind the front, and others after them.
    pub fn augment(&self, offset: u32, number: u32) -> &[u32] {
        let first = self.boxes_first(offset as u64);
        &self.augment[(first + number as usize) * self.augment_words..][..self.augment_words]
    }

    /// The uri of a box and its hash; of one that is fed nothing.
    pub fn uri(&self, queued: &QueuedBox) -> (&[u8], u64) {
        if queued.is_fed {
            return (&[], 0);
        }
        let name = &self.names[queued.name as usize];
        (&self.bytes[name.at..name.at + name.bytes as usize], name.hash)
    }

    /// Removes the `count` samples at the front.
    pub fn consume(&mut self, count: u32) {
        for _ in 0..count {
            let sample = *self.sample(0);
            let first = self.boxes_first(0);
            self.give_names_back(first, sample.boxes as usize);
            self.flushes -= sample.ends_segment as u64;
            self.front = self.place(1);
            self.first += 1;
        }
        self.free_names();
    }

    /// Boxes from place `first` on do not use their names any more.
    fn give_names_back(&mut self, first: usize, count: usize) {
        for queued in self.boxes[first..first + count].iter().filter(|queued| !queued.is_fed) {
            self.names[queued.name as usize].uses -= 1;
        }
    }

    /// Gives the names at the front back that nobody uses.
    fn free_names(&mut self) {
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

    /// The place of a name in the ring, with one use more.
    fn use_name(&mut self, uri: &[u8], hash: u64) -> Option<usize> {
        let oldest = self.name_first.max(self.name_limit.saturating_sub(self.young));
        for number in (oldest..self.name_limit).rev() {
            let at = index(number % self.names.len() as u64);
            let name = self.names[at];
            if name.hash == hash && &self.bytes[name.at..name.at + name.bytes as usize] == uri {
                self.names[at].uses += 1;
                return Some(at);
            }
        }
        self.add_name(uri, hash)
    }

    /// Worked example: of 100 bytes, 95 to 105 in use (absolute); 20 more do not fit before the
    /// wrap at 200 only if they start past 180; the rest of the lap is then skipped.
    fn add_name(&mut self, uri: &[u8], hash: u64) -> Option<usize> {
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
        self.names[place] = Name { hash, start, at, bytes: uri.len() as u32, uses: 1 };
        self.name_limit += 1;
        Some(place)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
