//! Windows: parts of files that are mapped, so that boxes are copied straight out of them.
//!
//! In: a file's epoch and a place in it. Out: a [`Window`] on addresses that open reserved, pinned
//! until it is given back. The first user of a window maps it; until that is done others read the
//! file. A window takes the place of the one that was unused for longest. What is mapped stays the
//! file that it was, because another version of a file has another epoch.
//!
//! Invariant: a record is mapped, or its one user maps it, or it has no key.

use crate::base::arena::{Carver, Region};
use crate::base::bill::Item;
use crate::base::cache::{Cache, hash_words};
use crate::base::limits::WINDOW_BYTES;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WindowRecord {
    epoch: u64,
    /// Its first byte in the file.
    first: u64,
    /// Bytes of the file that are mapped; 0: none yet.
    bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Windows {
    cache: Cache,
    records: &'static mut [WindowRecord],
    place: Option<Region>,
    mapped_bytes: u64,
    /// Device of the last file that could not be mapped: files on it are read.
    pub refused_device: Option<u64>,
}

/// A worker's right to use a window until it gives it back.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    slot: u32,
    /// Its first byte in the file.
    pub first: u64,
    /// WINDOW_BYTES of addresses.
    pub place: Region,
    /// The worker is to map it.
    pub is_new: bool,
}

impl Windows {
    /// A table of `count` windows.
    pub fn carve(carver: &mut Carver, count: u32) -> Windows {
        let none = WindowRecord { epoch: 0, first: 0, bytes: 0 };
        Windows {
            cache: Cache::carve(carver, Item::FileLayouts, count),
            records: carver.slice(Item::FileLayouts, u64::from(count), &none),
            place: None,
            mapped_bytes: 0,
            refused_device: None,
        }
    }

    /// The addresses of all windows. None: nothing is mapped any more.
    pub fn set_place(&mut self, place: Option<Region>) {
        (self.place, self.mapped_bytes) = (place, 0);
    }

    /// Bytes of files that are mapped.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    /// The window that holds byte `offset` of a file. None while somebody maps it, or while all
    /// are used.
    pub fn lease(&mut self, epoch: u64, offset: u64) -> Option<Window> {
        let place = self.place?;
        let first = offset - offset % WINDOW_BYTES;
        let hash = hash_words(&[epoch, first]);
        let is_it = |record: &WindowRecord| (record.epoch, record.first) == (epoch, first);
        let found = self.cache.find(hash, |slot| is_it(&self.records[slot as usize]));
        let slot = found.or_else(|| self.cache.take(hash))?;
        let record = &mut self.records[slot as usize];
        let is_new = found.is_none();
        if is_new {
            self.mapped_bytes -= record.bytes;
            *record = WindowRecord { epoch, first, bytes: 0 };
        } else if record.bytes == 0 {
            return None;
        }
        self.cache.pin(slot, 1);
        let place = place.part(u64::from(slot) * WINDOW_BYTES, WINDOW_BYTES);
        Some(Window { slot, first, place, is_new })
    }

    /// Ends a lease. `mapped`: the bytes of the file that are mapped; None if those of its device
    /// cannot be, or, without a device, if it could not be opened.
    pub fn give_back(&mut self, window: &Window, mapped: Option<u64>, device: Option<u64>) {
        if window.is_new {
            let bytes = mapped.unwrap_or(0);
            self.records[window.slot as usize].bytes = bytes;
            self.mapped_bytes += bytes;
            if mapped.is_none() {
                self.refused_device = device.or(self.refused_device);
            }
            if bytes == 0 {
                self.cache.forget(window.slot);
            }
        }
        self.cache.unpin(window.slot, 1);
    }
}
