//! The table of files: what is known of each, and the descriptors that are open.
//!
//! A record is a file's layout: present or absent, its version, and the checksums of its shard
//! index. It outlives its descriptor: when descriptors run short an idle one is closed, and the
//! file is opened again later and must still be of the same version.
//!
//! The first touch of a file in each batch looks at its path. If that leads to another version, the
//! record is *retired*: the name gets a new record, and the old one keeps its descriptor for
//! the batches that looked before, until they are done.
//!
//! ```text
//!            lease              give_back, open            lease
//!  Closed ─────────▶ Opening ───────────────────▶ Idle ◀─────────▶ Used ──set_stale──▶ Stale
//!    ▲                  │ give_back, not open       │  give_back                         │
//!    └──────────────────┴────────── evicted ────────┴──────────── last give_back ────────┘
//! ```
//!
//! Invariant: a record is pinned while leased; `users` counts its leases; its descriptor is in
//! `idle` exactly while it is open and has no users. Opening is exclusive, so each file is opened
//! once however many workers want it. A file has one current record at most; a record is in
//! `retired` exactly while it is retired.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::{Cache, List, hash_words};
use crate::base::indexes::FileSlot;
use crate::os::FileStat;
use crate::read::file_record::{
    FilePhase, FileRecord, Lease, LeaseOutcome, Standing, retired_hash,
};
use crate::read::sums::{InnerChecks, SumRing};
use crate::read::{IndexPage, PageCheck};

/// See the module.
#[derive(Debug)]
pub struct FileTable {
    cache: Cache,
    records: &'static mut [FileRecord],
    idle: List,
    /// Retired records, in the order of the batches that found another version.
    retired: List,
    open_count: u32,
    open_max: u32,
    leases: u32,
    give_backs: u64,
    next_epoch: u64,
    sums: SumRing,
    inner: InnerChecks,
    /// Records that stood for a file once.
    known: u32,
    /// How many more of the files that were looked up last were absent than were there.
    absences: u32,
}

/// Checksums of index pages that there are for each file on average. Shards of 32,768 chunks have
/// as many pages; files with fewer leave theirs to others.
const SUMS_PER_FILE: u64 = 128;

/// Files that have to be there in a row before the next one is no longer likely absent.
const ABSENCES_MAX: u32 = 16;

impl FileTable {
    /// A table of `count` records, with at most `open_max` open descriptors.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32, open_max: u32) -> FileTable {
        FileTable {
            cache: Cache::carve(carver, Item::FileLayouts, count),
            records: carver.slice(Item::FileLayouts, count as u64, &FileRecord::EMPTY),
            idle: List::carve(carver, Item::FileLayouts, count),
            retired: List::carve(carver, Item::FileLayouts, count),
            open_count: 0,
            open_max: open_max.max(1),
            leases: 0,
            give_backs: 0,
            next_epoch: 1,
            sums: SumRing::carve(carver, count as u64 * SUMS_PER_FILE),
            inner: InnerChecks::carve(carver, count),
            known: 0,
            absences: 0,
        }
    }

    /// The current record of a file, if there is one.
    pub fn find(&self, array_id: u64, file: u64) -> Option<FileSlot> {
        let found = self.cache.find(hash_words(&[array_id, file]), |slot| {
            let record = &self.records[slot as usize];
            let is_current = record.standing == Standing::Current;
            is_current && record.array_id == array_id && record.file == file
        });
        found.map(FileSlot)
    }

    /// The record of that version of a file: the retired one where the current one is of another.
    fn find_version(&self, array_id: u64, file: u64, stat: FileStat) -> Option<FileSlot> {
        let current = self.find(array_id, file);
        let is_same = |slot: &FileSlot| self.records[slot.at()].stat.is_none_or(|s| s == stat);
        if current.is_some_and(|slot| is_same(&slot)) {
            return current;
        }
        let retired = self.cache.find(retired_hash(array_id, file), |slot| {
            let record = &self.records[slot as usize];
            (record.array_id, record.file, record.stat) == (array_id, file, Some(stat))
                && matches!(record.standing, Standing::Retired { .. })
        });
        retired.map(FileSlot).or(current)
    }

    /// The array of a file, and its number there.
    pub fn name(&self, slot: FileSlot) -> (u64, u64) {
        let record = &self.records[slot.at()];
        (record.array_id, record.file)
    }

    /// Whether this batch already found the file absent.
    pub fn is_absent(&self, slot: FileSlot, turn: u64) -> bool {
        self.records[slot.at()].absent_batch == Some(turn)
    }

    /// Whether this batch, or one after it, looked at the path and found what is known of the file.
    pub fn is_looked_at(&self, slot: FileSlot, turn: u64) -> bool {
        self.records[slot.at()].looked_batch.is_some_and(|looked| looked >= turn)
    }

    /// Whether it is open, or is being opened.
    pub fn is_open(&self, slot: FileSlot) -> bool {
        !matches!(self.records[slot.at()].phase(), FilePhase::Closed)
    }

    /// What the file looks like, once it was opened, and the epoch of that knowledge.
    pub fn known(&self, slot: FileSlot) -> Option<(FileStat, u64)> {
        let record = &self.records[slot.at()];
        record.stat.map(|stat| (stat, record.epoch))
    }

    /// The epoch of what is known, or will be once it was opened, of the file.
    pub fn epoch(&self, slot: FileSlot) -> u64 {
        self.records[slot.at()].epoch
    }

    /// Makes the record the youngest.
    pub fn touch(&mut self, slot: FileSlot) {
        self.cache.touch(slot.0);
    }

    #[cfg(test)]
    pub(super) fn phase(&self, slot: FileSlot) -> FilePhase {
        self.records[slot.at()].phase()
    }

    /// Leases a file. `page`: a page of an index that is to be looked at; nobody else then checks
    /// the file's own index meanwhile, if it was not checked. Indexes of inner shards are small and
    /// many, so several are checked at once. `stat`: the version that is wanted, where it is known.
    pub fn lease(
        &mut self,
        array_id: u64,
        file: u64,
        page: Option<IndexPage>,
        stat: Option<FileStat>,
    ) -> LeaseOutcome {
        let found = match stat {
            Some(stat) => self.find_version(array_id, file, stat),
            None => self.find(array_id, file),
        };
        let found = found.map(|slot| (slot, None));
        let Some((slot, mut evicted)) = found.or_else(|| self.add(array_id, file)) else {
            return LeaseOutcome::Busy;
        };
        let record = self.records[slot.at()];
        let before = record.phase();
        if record.exclusive || before == FilePhase::Stale {
            return LeaseOutcome::Busy;
        }
        assert!(before != FilePhase::Opening);
        if before == FilePhase::Closed {
            if evicted.is_none() && self.open_count >= self.open_max {
                let Some(idle) = self.idle.first().map(FileSlot) else { return LeaseOutcome::Busy };
                evicted = self.take_descriptor(idle);
            }
            self.open_count += 1;
        } else if before == FilePhase::Idle {
            self.idle.remove(slot.0);
        }
        let check = page.and_then(|page| self.check_of(&record, page));
        let is_own = page.is_some_and(|page| page.inner.is_none());
        let exclusive = record.open.is_none() || (is_own && check.is_none());
        let record = &mut self.records[slot.at()];
        record.users += 1;
        record.exclusive = exclusive;
        assert!(matches!(record.phase(), FilePhase::Opening | FilePhase::Used));
        self.cache.pin(slot.0, 1);
        self.leases += 1;
        let (stat, looked_batch, open) = (record.stat, record.looked_batch, record.open);
        let sums_max = self.sums.share(self.known + self.inner.known());
        LeaseOutcome::Leased(Lease {
            slot,
            open,
            stat,
            check,
            looked_batch,
            sums_max,
            evicted,
            exclusive,
        })
    }

    /// What a page is compared with, if its index was checked.
    fn check_of(&mut self, record: &FileRecord, page: IndexPage) -> Option<PageCheck> {
        let checks = match page.inner {
            None => record.checks?,
            Some(inner) => self.inner.find(record.epoch, inner)?,
        };
        self.sums.find(&checks, page.page)
    }

    /// Ends a lease. `open`: the descriptors that are open now; `stat`: what the file looks like.
    /// Gives the descriptor to close, if it went stale.
    #[must_use]
    pub fn give_back(
        &mut self,
        lease: &Lease,
        open: Option<i32>,
        stat: Option<FileStat>,
    ) -> Option<i32> {
        let slot = lease.slot;
        if stat.is_some() && self.records[slot.at()].stat.is_none() {
            self.absences = self.absences.saturating_sub(1);
        }
        let record = &mut self.records[slot.at()];
        let before = record.phase();
        assert!(lease.open.is_some() != (before == FilePhase::Opening));
        assert!(record.users > 0);
        record.users -= 1;
        self.leases -= 1;
        self.give_backs += 1;
        if lease.open.is_none() {
            record.open = open;
            self.open_count -= open.is_none() as u32;
        }
        if lease.exclusive {
            record.exclusive = false;
        }
        if record.stat.is_none() {
            record.stat = stat;
        }
        if record.users == 0 {
            record.stale = false;
        }
        let now = record.phase();
        if now == FilePhase::Idle {
            self.idle.push(slot.0);
        }
        self.cache.unpin(slot.0, 1);
        let is_of_no_use =
            before == FilePhase::Stale || self.records[slot.at()].standing == Standing::Forgotten;
        if now == FilePhase::Idle && is_of_no_use { self.take_descriptor(slot) } else { None }
    }

    /// The descriptor of a leased file went stale on its server: it is closed with the last lease,
    /// and the file is opened again for the next.
    pub fn set_stale(&mut self, slot: FileSlot) {
        let record = &mut self.records[slot.at()];
        record.stale = true;
        assert!(record.phase() == FilePhase::Stale);
    }

    /// Files that can be looked up ahead and are still open when they are read in turn: until then
    /// as many others are looked up, and as many are read, which makes those younger.
    pub fn ahead_max(&self) -> u64 {
        self.records.len().min(self.open_max as usize) as u64 * 7 / 16
    }

    /// Notes that a batch looked at the path, and found the version that is known.
    pub fn set_looked(&mut self, slot: FileSlot, turn: u64) {
        let looked = &mut self.records[slot.at()].looked_batch;
        *looked = (*looked).max(Some(turn));
    }

    /// A batch looked at the path of a file that nobody opened for it: what it found. True where
    /// that is another version than the one that is known, whose record is retired. The descriptor
    /// is the caller's to close.
    pub fn look(
        &mut self,
        (array_id, file): (u64, u64),
        turn: u64,
        stat: FileStat,
    ) -> (bool, Option<i32>) {
        let known = self.find(array_id, file).map(|slot| (slot, None));
        let Some((slot, evicted)) = known.or_else(|| self.add(array_id, file)) else {
            return (false, None);
        };
        match self.records[slot.at()].stat {
            Some(before) if before != stat => {
                self.retire(slot, turn);
                return (true, evicted);
            }
            // Whoever opens it sees its version.
            None if self.is_open(slot) => return (false, evicted),
            None => self.absences = self.absences.saturating_sub(1),
            Some(_) => {}
        }
        self.records[slot.at()].stat = Some(stat);
        self.set_looked(slot, turn);
        (false, evicted)
    }

    /// A batch looked at the path of a file that nobody opened for it, and there is none. The
    /// descriptor is the caller's to close.
    pub fn look_absent(&mut self, (array_id, file): (u64, u64), turn: u64) -> Option<i32> {
        let known = self.find(array_id, file).map(|slot| (slot, None));
        let (slot, evicted) = known.or_else(|| self.add(array_id, file))?;
        self.set_absent(slot, turn);
        evicted
    }

    /// The path of a file leads to another version now: batches that looked before keep this one.
    pub fn retire(&mut self, slot: FileSlot, turn: u64) {
        let record = &mut self.records[slot.at()];
        if record.standing != Standing::Current {
            return;
        }
        record.standing = Standing::Retired { turn };
        self.cache.set_key(slot.0, retired_hash(record.array_id, record.file));
        self.retired.push(slot.0);
    }

    /// Forgets a retired record that no batch before `oldest_batch` can need. None while there is
    /// none; the descriptor, if it is idle, is the caller's to close.
    pub fn drop_retired(&mut self, oldest_batch: u64) -> Option<Option<i32>> {
        let slot = self.retired.first().map(FileSlot)?;
        match self.records[slot.at()].standing {
            Standing::Retired { turn } if turn <= oldest_batch => Some(self.forget(slot)),
            _ => None,
        }
    }

    /// Forgets all files of an array, or all there are; `close` gets what is open and idle of them.
    pub fn forget_array(&mut self, array_id: Option<u64>, mut close: impl FnMut(i32)) {
        for slot in (0..self.records.len() as u32).map(FileSlot) {
            if array_id.is_none_or(|id| self.records[slot.at()].array_id == id) {
                self.forget(slot).into_iter().for_each(&mut close);
            }
        }
    }

    /// Notes that a batch found the file absent.
    pub fn set_absent(&mut self, slot: FileSlot, turn: u64) {
        self.records[slot.at()].absent_batch = Some(turn);
        self.absences = ABSENCES_MAX.min(self.absences + 1);
    }

    /// Whether a file of which nothing is known is likely absent, as most of the last ones were.
    pub fn is_likely_absent(&self) -> bool {
        self.absences > 0
    }

    /// Notes that a batch found the file, or did not; false where the same batch found otherwise.
    pub fn note_look(&mut self, slot: FileSlot, turn: u64, is_there: bool) -> bool {
        let record = &mut self.records[slot.at()];
        let otherwise = if is_there { record.absent_batch } else { record.there_batch };
        if otherwise == Some(turn) {
            record.unstable_batch = otherwise;
            record.absent_batch = None;
        } else if is_there {
            record.there_batch = Some(turn);
        }
        record.unstable_batch != Some(turn)
    }

    /// Notes that an index of the file was checked, its own or that of a shard in it, and the
    /// checksums of its groups of pages.
    pub fn set_checks(
        &mut self,
        slot: FileSlot,
        inner: Option<u64>,
        group_pages: u64,
        sums: &[u8],
    ) {
        let checks = self.sums.put(group_pages, sums);
        let record = &mut self.records[slot.at()];
        match inner {
            None => record.checks = Some(checks),
            Some(inner) => self.inner.put(record.epoch, inner, checks),
        }
    }

    /// Forgets a file: whoever names it next looks at it anew. Index pages die with the epoch of
    /// its record. The descriptor, if it is idle, is the caller's to close; one in use is closed
    /// with its last lease.
    pub fn forget(&mut self, slot: FileSlot) -> Option<i32> {
        self.leave(slot);
        self.cache.forget(slot.0);
        let record = &mut self.records[slot.at()];
        record.standing = Standing::Forgotten;
        if record.phase() == FilePhase::Idle { self.take_descriptor(slot) } else { None }
    }

    /// A record is retired no more.
    fn leave(&mut self, slot: FileSlot) {
        if matches!(self.records[slot.at()].standing, Standing::Retired { .. }) {
            self.retired.remove(slot.0);
        }
    }

    /// The system has no descriptor left: asks for fewer from now on. False when we hold none
    /// ourselves, so that waiting would not help.
    pub fn lower_open_max(&mut self) -> bool {
        // The failed open counts itself.
        let others = self.open_count.saturating_sub(1);
        self.open_max = others.max(1);
        others > 0
    }

    /// Forgets which batch looked at a file: the numbers of batches begin again, and the first one
    /// that touches a file looks.
    pub fn reset(&mut self) {
        for record in self.records.iter_mut() {
            (record.absent_batch, record.looked_batch) = (None, None);
            (record.there_batch, record.unstable_batch) = (None, None);
        }
    }

    /// Leases that are out.
    pub fn leases(&self) -> u32 {
        self.leases
    }

    /// Leases that ended since open.
    pub fn give_backs(&self) -> u64 {
        self.give_backs
    }

    /// Closes every idle descriptor: all of them, once no lease is out.
    pub fn drain(&mut self) -> Option<i32> {
        let idle = self.idle.first().map(FileSlot)?;
        self.take_descriptor(idle)
    }

    /// A record for a new file, and the descriptor of the file that it stood for before, which
    /// the worker closes that opens the new one. None while every record is leased.
    fn add(&mut self, array_id: u64, file: u64) -> Option<(FileSlot, Option<i32>)> {
        let oldest = self.cache.oldest().map(FileSlot)?;
        let is_idle = self.records[oldest.at()].phase() == FilePhase::Idle;
        let descriptor = if is_idle { self.take_descriptor(oldest) } else { None };
        self.leave(oldest);
        let slot = self.cache.take(hash_words(&[array_id, file])).map(FileSlot)?;
        assert!(slot == oldest);
        let epoch = self.take_epoch();
        self.known += (self.records[slot.at()].epoch == 0) as u32;
        self.records[slot.at()] = FileRecord { array_id, file, epoch, ..FileRecord::EMPTY };
        Some((slot, descriptor))
    }

    fn take_descriptor(&mut self, slot: FileSlot) -> Option<i32> {
        assert!(self.records[slot.at()].phase() == FilePhase::Idle);
        self.idle.remove(slot.0);
        self.open_count -= 1;
        self.records[slot.at()].open.take()
    }

    fn take_epoch(&mut self) -> u64 {
        self.next_epoch += 1;
        self.next_epoch
    }
}
