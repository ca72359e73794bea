//! The folders that files were found in: while one of them is away, what is below it is not missing
//! data.
//!
//! In: files that are there. Out: of a file that is not, the nearest folder above it that was there
//! before. Bounded: the folder that no file was found below for longest is forgotten first, those
//! above it later. One that a batch has looked at, or found a file in, it does not look at again.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::{Cache, hash_words};
use crate::records::{ArrayRecord, KeyEncoding};

/// A folder of an array: of the files that agree in their first coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Folder {
    /// How many coordinates.
    pub axes: usize,
    /// Their linear number in the grid of these axes.
    pub number: u64,
}

/// The folders above a file in its array, the nearest first.
pub fn folders_of(record: &ArrayRecord, file: u64) -> impl Iterator<Item = Folder> + use<> {
    let counts = record.file_counts();
    let least = usize::from(record.key_encoding == KeyEncoding::V2);
    let has_folders = record.separator == b'/' && !record.is_scalar;
    let axes = if has_folders { record.axes() } else { 0 };
    let mut number = file;
    (least..axes).rev().map(move |axis| {
        number /= counts[axis];
        Folder { axes: axis, number }
    })
}

#[derive(Clone, Copy, Debug)]
struct FolderRecord {
    array_id: u64,
    folder: Folder,
    /// The youngest batch that saw that it is there.
    seen_by: u64,
}

/// See the module.
#[derive(Debug)]
pub struct FolderTable {
    cache: Cache,
    records: &'static mut [FolderRecord],
    /// Folders that a batch looked at and found there or absent, by their hashes, each at its place
    /// until another takes it: that one is looked at again.
    looked_at: &'static mut [u64],
}

impl FolderTable {
    /// A table of `count` folders.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32) -> FolderTable {
        let folder = Folder { axes: 0, number: 0 };
        let record = FolderRecord { array_id: 0, folder, seen_by: 0 };
        FolderTable {
            cache: Cache::carve(carver, Item::FileLayouts, count),
            records: carver.slice(Item::FileLayouts, count as u64, &record),
            looked_at: carver.slice(Item::FileLayouts, count.max(1) as u64, &0),
        }
    }

    fn find(&self, array_id: u64, folder: Folder) -> Option<u32> {
        self.cache.find(hash(array_id, folder), |slot| {
            let record = &self.records[slot as usize];
            record.array_id == array_id && record.folder == folder
        })
    }

    /// Notes that a batch saw these folders, the nearest first.
    pub fn note(&mut self, array_id: u64, folders: impl Iterator<Item = Folder>, turn: u64) {
        for folder in folders {
            let known = self.find(array_id, folder);
            let Some(slot) = known.or_else(|| self.cache.take(hash(array_id, folder))) else {
                return;
            };
            self.cache.touch(slot);
            if known.is_some_and(|slot| self.records[slot as usize].seen_by >= turn) {
                // Those above it were seen with it.
                return;
            }
            let seen_by = turn;
            self.records[slot as usize] = FolderRecord { array_id, folder, seen_by };
        }
    }

    /// The first of these folders that was there before, and whether this batch, or one
    /// after it, saw it.
    pub fn nearest(
        &self,
        array_id: u64,
        mut folders: impl Iterator<Item = Folder>,
        turn: u64,
    ) -> Option<(Folder, bool)> {
        folders.find_map(|folder| {
            let slot = self.find(array_id, folder)?;
            Some((folder, self.records[slot as usize].seen_by >= turn))
        })
    }

    fn look(&self, array_id: u64, folder: Folder, turn: u64) -> (usize, u64) {
        let look = hash_words(&[hash(array_id, folder), turn]);
        ((look % self.looked_at.len() as u64) as usize, look)
    }

    /// Whether a batch knows what lies at the place of a folder, or it or one after it found a file
    /// in it.
    pub fn is_looked_at(&self, array_id: u64, folder: Folder, turn: u64) -> bool {
        let (place, look) = self.look(array_id, folder, turn);
        let is_seen = |slot| self.records[slot as usize].seen_by >= turn;
        self.looked_at[place] == look || self.find(array_id, folder).is_some_and(is_seen)
    }

    /// Notes that a batch looked at the place of a folder.
    pub fn set_looked_at(&mut self, array_id: u64, folder: Folder, turn: u64) {
        let (place, look) = self.look(array_id, folder, turn);
        self.looked_at[place] = look;
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.looked_at.fill(0);
        (0..self.records.len() as u32).for_each(|slot| self.cache.forget(slot));
    }
}

fn hash(array_id: u64, folder: Folder) -> u64 {
    hash_words(&[array_id, folder.axes as u64, folder.number])
}
