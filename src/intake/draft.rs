//! The boxes of a sample that push has checked and that do not wait yet.
//!
//! In: boxes and uris, copied, one by one. Out: the same boxes for the queue, and whether two of
//! them go to the same place. A pusher fills a draft without the lock of the state: reading and
//! checking 255 boxes takes long, and under the lock only their copy is left.
//!
//! Invariant: a draft is filled by who holds its own lock, which nobody keeps while waiting.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::limits::{RANK_MAX, URI_BYTES_MAX};
use crate::base::math::index;
use crate::intake::queue::NewBox;
use crate::records::{BoxShape, Fed};

/// Pairs of boxes for each box that a sweep along an axis compares before it gives the axis up: a
/// mosaic of 16 by 16 needs 8.
const SWEEP_PAIRS: usize = 16;

/// The places of a field that a box goes to, from the first along each axis to behind the last.
#[derive(Clone, Copy, Debug)]
pub struct Cover {
    /// The field.
    pub field: u32,
    /// Its axes.
    pub axes: usize,
    /// First places.
    pub low: [u64; RANK_MAX],
    /// Places behind the last.
    pub high: [u64; RANK_MAX],
}

impl Cover {
    const EMPTY: Cover = Cover { field: 0, axes: 0, low: [0; RANK_MAX], high: [1; RANK_MAX] };

    fn meets(&self, other: &Cover) -> bool {
        let meet = |axis| self.low[axis] < other.high[axis] && other.low[axis] < self.high[axis];
        self.field == other.field && (0..self.axes).all(meet)
    }
}

/// A box as it was checked; its uri lies in the bytes of the draft.
#[derive(Clone, Copy, Debug)]
struct DraftBox {
    hash: u64,
    start: u32,
    bytes: u32,
    rank: u32,
    field: u32,
    augment_words: u32,
    runs: u32,
    shape: BoxShape,
}

/// See the module.
#[derive(Debug)]
pub struct Draft {
    boxes: &'static mut [DraftBox],
    /// By box of the caller's.
    covers: &'static mut [Cover],
    /// The fed array of each box; none if nothing may be fed.
    fed: &'static mut [Fed],
    /// Words of each box, `augment_words` apart, and how many of them there are.
    augment: &'static mut [u32],
    augment_words: usize,
    /// Numbers of boxes, for sweeps.
    order: &'static mut [u32],
    bytes: &'static mut [u8],
    count: usize,
    /// Boxes of the caller's that they are.
    given: usize,
    used: usize,
}

impl Draft {
    /// Room for a sample of `boxes` boxes, of which `uris` may each have a uri of its own.
    #[inline(never)] // as Carver::place
    pub fn carve(
        carver: &mut Carver,
        (boxes, uris): (u32, u32),
        (takes_fed, augment_words): (bool, u32),
    ) -> Draft {
        let (name, rows) = (Item::SampleQueue, (u64::from(boxes), u64::from(boxes - uris)));
        let fed = if takes_fed { rows } else { (0, 0) };
        let words = u64::from(augment_words);
        let shape = BoxShape::EMPTY;
        let (start, bytes, rank, field) = (0, 0, 0, 0);
        let empty =
            DraftBox { hash: 0, start, bytes, rank, field, augment_words: 0, runs: 1, shape };
        Draft {
            boxes: carver.slice_of_boxes(name, rows, &empty),
            covers: carver.slice(name, u64::from(uris), &Cover::EMPTY),
            fed: carver.slice_of_boxes(name, fed, &Fed::NOTHING),
            augment: carver.slice_of_boxes(
                Item::Augmentation,
                (rows.0 * words, rows.1 * words),
                &0,
            ),
            augment_words: augment_words as usize,
            order: carver.slice(name, u64::from(uris), &0),
            bytes: carver.slice(Item::Uris, u64::from(uris) * URI_BYTES_MAX as u64, &0),
            count: 0,
            given: 0,
            used: 0,
        }
    }

    /// Forgets its boxes.
    pub fn clear(&mut self) {
        (self.count, self.given, self.used) = (0, 0, 0);
    }

    /// Copies a box in. Equal neighbours share their uri. `cover`: of the whole box of the caller,
    /// which the first of its runs notes.
    pub fn add(&mut self, new: &NewBox<'_>, cover: Cover) {
        let NewBox { uri, hash, fed, rank, field, shape, augment, runs } = *new;
        let uri = if fed.is_fed() { &[] } else { uri };
        let before = self.count.checked_sub(1).map(|last| self.boxes[last]);
        let is_same = |at: &DraftBox| at.hash == hash && self.uri(at) == uri;
        let (start, bytes) = match before.filter(is_same) {
            Some(same) => (same.start, same.bytes),
            None => {
                self.bytes[self.used..][..uri.len()].copy_from_slice(uri);
                self.used += uri.len();
                ((self.used - uri.len()) as u32, uri.len() as u32)
            }
        };
        let (rank, shape, augment_words) = (rank as u32, *shape, augment.len() as u32);
        let new = DraftBox { hash, start, bytes, rank, field, augment_words, runs, shape };
        self.boxes[self.count] = new;
        let first = self.count * self.augment_words;
        self.augment[first..][..augment.len()].copy_from_slice(augment);
        if runs > 0 {
            self.covers[self.given] = cover;
            self.given += 1;
        }
        if fed.is_fed() {
            self.fed[self.count] = *fed;
        }
        self.count += 1;
    }

    /// Its boxes, in the order in which they were added.
    pub fn boxes(&self) -> impl Iterator<Item = NewBox<'_>> {
        self.boxes[..self.count].iter().enumerate().map(|(number, at)| {
            let uri = self.uri(at);
            // A uri has a byte at least.
            let fed = if uri.is_empty() { &self.fed[number] } else { &Fed::NOTHING };
            let (rank, field, shape) = (index(u64::from(at.rank)), at.field, &at.shape);
            let words = &self.augment[number * self.augment_words..];
            let augment = &words[..at.augment_words as usize];
            NewBox { uri, hash: at.hash, fed, rank, field, shape, augment, runs: at.runs }
        })
    }

    /// The field that a box of the caller's goes to.
    pub fn field(&self, number: u32) -> u32 {
        self.covers[number as usize].field
    }

    fn uri(&self, at: &DraftBox) -> &[u8] {
        &self.bytes[at.start as usize..][..at.bytes as usize]
    }

    /// Two boxes that go to the same place: the first that meets one before it, and the first that
    /// it meets.
    pub fn overlap(&mut self) -> Option<(u32, u32)> {
        if !self.has_overlap() {
            return None;
        }
        let covers = &self.covers[..self.given];
        let met = |(second, b): (usize, &Cover)| {
            let first = covers[..second].iter().position(|a| a.meets(b))?;
            Some((first as u32, second as u32))
        };
        covers.iter().enumerate().find_map(met)
    }

    fn has_overlap(&mut self) -> bool {
        let (covers, order) = (&self.covers[..self.given], &mut *self.order);
        let fields = covers.iter().map(|cover| cover.field + 1).max().unwrap_or(0);
        (0..fields).any(|field| {
            let mut boxes = 0;
            for (cover, number) in covers.iter().zip(0..) {
                if cover.field == field {
                    order[boxes] = number;
                    boxes += 1;
                }
            }
            meet_in(covers, &mut order[..boxes])
        })
    }
}

/// Whether two of the boxes in `order`, which are all of one field, go to the same place. Boxes
/// that lie one behind the other along some axis are compared with few others there; only where
/// they do so along none are all pairs compared.
fn meet_in(covers: &[Cover], order: &mut [u32]) -> bool {
    let axes = order.first().map_or(0, |first| covers[*first as usize].axes);
    let most = SWEEP_PAIRS * order.len();
    let swept = (0..axes).find_map(|axis| sweep(covers, order, axis, most));
    swept.or_else(|| sweep(covers, order, 0, usize::MAX)).unwrap_or(false)
}

/// The same, of boxes in the order in which they begin along an axis: each is compared with those
/// that begin before it ends. None after `most` pairs.
fn sweep(covers: &[Cover], order: &mut [u32], axis: usize, most: usize) -> Option<bool> {
    let cover = |number: &u32| &covers[*number as usize];
    order.sort_unstable_by_key(|number| cover(number).low[axis]);
    let mut left = most;
    for (at, first) in order.iter().enumerate() {
        let first = cover(first);
        let behind = order[at + 1..].iter().map(cover);
        for second in behind.take_while(|second| second.low[axis] < first.high[axis]) {
            if first.meets(second) {
                return Some(true);
            }
            left = left.checked_sub(1)?;
        }
    }
    Some(false)
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
