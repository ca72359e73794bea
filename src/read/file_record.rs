//! The record of one file, and a worker's right to use it.
//!
//! In: nothing; `files` changes these. Out: where a file's descriptor is in its life, and who finds
//! its record. Invariant: `phase` gives one of its five answers, or the table has a defect.

use crate::base::cache::hash_words;
use crate::base::indexes::FileSlot;
use crate::os::FileStat;
use crate::read::PageCheck;
use crate::read::sums::IndexChecks;

#[derive(Clone, Copy, Debug)]
pub(super) struct FileRecord {
    pub array_id: u64,
    pub file: u64,
    /// Changes whenever the record stands for another file or another state of it.
    pub epoch: u64,
    pub open: Option<i32>,
    pub stat: Option<FileStat>,
    pub standing: Standing,
    /// Batch that found the file absent; absence is looked at again by every batch.
    pub absent_batch: Option<u64>,
    /// Batch that found it there.
    pub there_batch: Option<u64>,
    /// Batch that found it both there and absent.
    pub unstable_batch: Option<u64>,
    /// The last batch that looked at the path and found this version there.
    pub looked_batch: Option<u64>,
    pub users: u32,
    pub exclusive: bool,
    /// The descriptor went stale: close it when its last user is done.
    pub stale: bool,
    pub checks: Option<IndexChecks>,
}

/// The readers that find a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// All that name the file.
    Current,
    /// Those that name this version of it. The batch found another version at the path.
    Retired { turn: u64 },
    /// None. Its descriptor is closed with the last lease.
    Forgotten,
}

/// The phase of life of a file's descriptor.
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
    pub fn phase(&self) -> FilePhase {
        match (self.open.is_some(), self.users, self.stale) {
            (false, 0, false) => FilePhase::Closed,
            (false, 1, false) => FilePhase::Opening,
            (true, 0, false) => FilePhase::Idle,
            (true, 1.., false) => FilePhase::Used,
            (true, 1.., true) => FilePhase::Stale,
            _ => unreachable!("opening is exclusive, and stale is what somebody uses"),
        }
    }

    pub const EMPTY: FileRecord = FileRecord {
        array_id: 0,
        file: 0,
        epoch: 0,
        open: None,
        stat: None,
        standing: Standing::Current,
        absent_batch: None,
        there_batch: None,
        unstable_batch: None,
        looked_batch: None,
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
    pub open: Option<i32>,
    /// The stat of the file when it was first opened.
    pub stat: Option<FileStat>,
    /// The check of the page that was asked for, once the index was checked.
    pub check: Option<PageCheck>,
    /// The last batch that looked at the path and found this version there.
    pub looked_batch: Option<u64>,
    /// Most checksums of its index that are kept.
    pub sums_max: u64,
    /// A descriptor to close before opening another file.
    pub evicted: Option<i32>,
    /// Nobody else may lease the file until this lease ends.
    pub(super) exclusive: bool,
}

/// Answer to a request for a lease.
#[derive(Clone, Copy, Debug)]
pub enum LeaseOutcome {
    /// The file may be used.
    Leased(Lease),
    /// Another worker opens or checks it, or everything is in use: ask again later.
    Busy,
}

/// The hash of the retired records of a file.
pub(super) fn retired_hash(array_id: u64, file: u64) -> u64 {
    hash_words(&[array_id, file, 1])
}
