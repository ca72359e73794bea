//! The table of files: what is known of each, and the descriptors that are open.
//!
//! A record is a file's layout: present or absent, size, time of change, and the checksums of its
//! shard index. It outlives its descriptor: when descriptors run short an idle one is closed, and
//! the file is opened again later and must still look the same.
//!
//! A file has one descriptor, or two where it is read past the page cache as well: one for attempts
//! that only the page cache answers, one for direct reads. They are opened, leased, evicted and
//! closed together and count as one here; whoever sets `open_max` allows for both.
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
//! once however many workers want it.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::cache::{Cache, List, hash_words};
use crate::base::indexes::FileSlot;
use crate::os::FileStat;
use crate::os::store::Descriptors;
use crate::read::sums::{IndexChecks, InnerChecks, SumRing};
use crate::read::{IndexPage, PageCheck};

#[derive(Clone, Copy, Debug)]
struct FileRecord {
    array_id: u64,
    file: u64,
    /// Changes whenever the record stands for another file or another state of it.
    epoch: u64,
    open: Option<Descriptors>,
    /// A direct read of it was refused: it is read through the page cache.
    is_direct_refused: bool,
    stat: Option<FileStat>,
    /// Batch that found the file absent; absence is looked at again by every batch.
    absent_batch: Option<u64>,
    users: u32,
    exclusive: bool,
    /// The descriptor went stale: close it when its last user is done.
    stale: bool,
    checks: Option<IndexChecks>,
}

/// Where a file's descriptor is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FilePhase {
    /// There is none.
    Closed,
    /// One worker opens the file.
    Opening,
    /// It is open, and nobody uses it.
    Idle,
    /// It is used.
    Used,
    /// It is used, and closed after that.
    Stale,
}

impl FileRecord {
    fn phase(&self) -> FilePhase {
        match (self.open.is_some(), self.users, self.stale) {
            (false, 0, false) => FilePhase::Closed,
            (false, 1, false) => FilePhase::Opening,
            (true, 0, false) => FilePhase::Idle,
            (true, 1.., false) => FilePhase::Used,
            (true, 1.., true) => FilePhase::Stale,
            _ => unreachable!("opening is exclusive, and stale is what somebody uses"),
        }
    }

    const EMPTY: FileRecord = FileRecord {
        array_id: 0,
        file: 0,
        epoch: 0,
        open: None,
        is_direct_refused: false,
        stat: None,
        absent_batch: None,
        users: 0,
        exclusive: false,
        stale: false,
        checks: None,
    };
}

/// A worker's right to use a file until it gives the lease back.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// Slot of the record.
    pub slot: FileSlot,
    /// Its descriptors; None: the worker must open the file.
    pub open: Option<Descriptors>,
    /// What the file looked like when it was first opened.
    pub stat: Option<FileStat>,
    /// What the page that was asked for is compared with, once the index was checked.
    pub check: Option<PageCheck>,
    /// Most checksums of its index that are kept.
    pub sums_max: u64,
    /// Descriptors to close before opening another file.
    pub evicted: Option<Descriptors>,
    /// Nobody else may lease the file until this lease ends.
    exclusive: bool,
}

/// Answer to a request for a lease.
#[derive(Clone, Copy, Debug)]
pub enum LeaseOutcome {
    /// The file may be used.
    Leased(Lease),
    /// Another worker opens or checks it, or everything is in use: ask again later.
    Busy,
}

/// See the module.
#[derive(Debug)]
pub struct FileTable {
    cache: Cache,
    records: &'static mut [FileRecord],
    idle: List,
    open_count: u32,
    open_max: u32,
    leases: u32,
    give_backs: u64,
    next_epoch: u64,
    sums: SumRing,
    inner: InnerChecks,
    /// Records that stood for a file once.
    known: u32,
}

/// Checksums of index pages that there are for each file on average. Shards of 32,768 chunks have
/// as many pages; files with fewer leave theirs to others.
const SUMS_PER_FILE: u64 = 128;

impl FileTable {
    /// A table of `count` records, with at most `open_max` open descriptors.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32, open_max: u32) -> FileTable {
        FileTable {
            cache: Cache::carve(carver, Item::FileLayouts, count),
            records: carver.slice(Item::FileLayouts, count as u64, &FileRecord::EMPTY),
            idle: List::carve(carver, Item::FileLayouts, count),
            open_count: 0,
            open_max: open_max.max(1),
            leases: 0,
            give_backs: 0,
            next_epoch: 1,
            sums: SumRing::carve(carver, count as u64 * SUMS_PER_FILE),
            inner: InnerChecks::carve(carver, count),
            known: 0,
        }
    }

    /// The record of a file, if there is one.
    pub fn find(&self, array_id: u64, file: u64) -> Option<FileSlot> {
        let found = self.cache.find(hash_words(&[array_id, file]), |slot| {
            let record = &self.records[slot as usize];
            record.array_id == array_id && record.file == file
        });
        found.map(FileSlot)
    }

    /// Whether this batch already found the file absent.
    pub fn is_absent(&self, slot: FileSlot, batch_id: u64) -> bool {
        self.records[slot.at()].absent_batch == Some(batch_id)
    }

    /// What the file looks like, once it was opened, and the epoch of that knowledge.
    pub fn known(&self, slot: FileSlot) -> Option<(FileStat, u64)> {
        let record = &self.records[slot.at()];
        record.stat.map(|stat| (stat, record.epoch))
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
    /// many, so several are checked at once.
    pub fn lease(&mut self, array_id: u64, file: u64, page: Option<IndexPage>) -> LeaseOutcome {
        let mut evicted = None;
        let slot = match self.find(array_id, file) {
            Some(slot) => slot,
            None => match self.add(array_id, file) {
                Some((slot, descriptor)) => {
                    evicted = descriptor;
                    slot
                }
                None => return LeaseOutcome::Busy,
            },
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
        let stat = record.stat;
        let sums_max = self.sums.share(self.known + self.inner.known());
        let is_direct = !record.is_direct_refused;
        let open = record
            .open
            .map(|open| Descriptors { direct: open.direct.filter(|_| is_direct), ..open });
        LeaseOutcome::Leased(Lease { slot, open, stat, check, sums_max, evicted, exclusive })
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
        open: Option<Descriptors>,
        stat: Option<FileStat>,
    ) -> Option<Descriptors> {
        let slot = lease.slot;
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
        let is_last_of_stale = before == FilePhase::Stale && now == FilePhase::Idle;
        if is_last_of_stale { self.take_descriptor(slot) } else { None }
    }

    /// The descriptor of a leased file went stale on its server: it is closed with the last lease,
    /// and the file is opened again for the next.
    pub fn set_stale(&mut self, slot: FileSlot) {
        let record = &mut self.records[slot.at()];
        record.stale = true;
        assert!(record.phase() == FilePhase::Stale);
    }

    /// A direct read of a leased file was refused: it is read through the page cache from now on.
    /// False where that was known.
    pub fn refuse_direct(&mut self, slot: FileSlot) -> bool {
        !core::mem::replace(&mut self.records[slot.at()].is_direct_refused, true)
    }

    /// Whether a worker would have to open the file, and nobody does.
    pub fn is_closed(&self, array_id: u64, file: u64) -> bool {
        self.find(array_id, file).is_none_or(|slot| {
            let record = &self.records[slot.at()];
            record.open.is_none() && !record.exclusive
        })
    }

    /// Files that can be looked up ahead and are still open when they are read in turn: until then
    /// as many others are looked up, and as many are read, which makes those younger.
    pub fn ahead_max(&self) -> u64 {
        self.records.len().min(self.open_max as usize) as u64 * 7 / 16
    }

    /// Notes that a batch found the file absent.
    pub fn set_absent(&mut self, slot: FileSlot, batch_id: u64) {
        self.records[slot.at()].absent_batch = Some(batch_id);
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

    /// Forgets what the file looked like: it changed. Index pages of the old state die with its
    /// epoch. The descriptor, if it is idle, is the caller's to close.
    pub fn forget(&mut self, slot: FileSlot) -> Option<Descriptors> {
        let epoch = self.take_epoch();
        let record = &mut self.records[slot.at()];
        record.epoch = epoch;
        record.stat = None;
        record.checks = None;
        if record.phase() == FilePhase::Idle { self.take_descriptor(slot) } else { None }
    }

    /// The system has no descriptor left: asks for fewer from now on. False when we hold none
    /// ourselves, so that waiting would not help.
    pub fn lower_open_max(&mut self) -> bool {
        // The failed open counts itself.
        let others = self.open_count.saturating_sub(1);
        self.open_max = others.max(1);
        others > 0
    }

    /// Forgets which files were absent: the numbers of batches begin again.
    pub fn reset(&mut self) {
        self.records.iter_mut().for_each(|record| record.absent_batch = None);
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
    pub fn drain(&mut self) -> Option<Descriptors> {
        let idle = self.idle.first().map(FileSlot)?;
        self.take_descriptor(idle)
    }

    /// A record for a new file, and the descriptor of the file that it stood for before, which
    /// the worker closes that opens the new one. None while every record is leased.
    fn add(&mut self, array_id: u64, file: u64) -> Option<(FileSlot, Option<Descriptors>)> {
        let oldest = self.cache.oldest().map(FileSlot)?;
        let is_idle = self.records[oldest.at()].phase() == FilePhase::Idle;
        let descriptor = if is_idle { self.take_descriptor(oldest) } else { None };
        let slot = self.cache.take(hash_words(&[array_id, file])).map(FileSlot)?;
        assert!(slot == oldest);
        let epoch = self.take_epoch();
        self.known += (self.records[slot.at()].epoch == 0) as u32;
        self.records[slot.at()] = FileRecord { array_id, file, epoch, ..FileRecord::EMPTY };
        Some((slot, descriptor))
    }

    fn take_descriptor(&mut self, slot: FileSlot) -> Option<Descriptors> {
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
