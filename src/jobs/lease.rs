//! A file that is leased for a job: its path, its descriptor, what its failures mean.

use crate::base::indexes::WaveIndex;
use crate::base::status::{Status, Why};
use crate::base::version::Version;
use crate::fail;
use crate::jobs::failures::{fail_task, fail_task_at};
use crate::os::store::{Fault, Listing, Opened, Path, STALE, Store, Visit};
use crate::os::{Errno, FileKind, FileStat};
use crate::read::{Access, Lease, LeaseOutcome, OpenFault, open_leased, shown};
use crate::records::ArrayRecord;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::Lock;
use crate::state::shared::Shared;
use crate::wave::ReadOp;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;

/// Closes files that other versions took the place of, once no batch that looked before can need
/// them.
pub fn drop_retired(shared: &Shared, state: &mut State) {
    let first = state.slots.oldest_turn();
    while let Some(open) = state.files.drop_retired(first) {
        shared.close_forgotten(open);
    }
}

/// Uses a lease, for a request of `store`, and counts opens.
pub fn open_counted(
    shared: &Shared,
    store: &Store,
    path: &Path,
    lease: &Lease,
) -> Result<Opened, OpenFault> {
    shared.stats.files_opened.fetch_add(lease.open.is_none() as u64, Relaxed);
    open_leased(store, path, lease)
}

pub fn open_failure(path: &Path, fault: OpenFault, why: &mut Why) -> Status {
    match fault {
        OpenFault::Changed => {
            fail!(why, Io, "{}: its size or time of change is not what it was", shown(path))
        }
        OpenFault::Replaced => fail!(why, Io, "{}: it was replaced", shown(path)),
        OpenFault::Store(fault) => fail!(why, Io, "{}: {fault}", shown(path)),
    }
}

/// Whether opening failed because this process or the system has no descriptor left.
pub fn is_short_of_descriptors(fault: OpenFault) -> bool {
    matches!(fault, OpenFault::Store(Fault::Failed(Errno(libc::EMFILE | libc::ENFILE))))
}

/// Opens files that the table of files does not know. Idle descriptors of the table make room if
/// the process has none left.
pub struct Opening<'a> {
    lock: &'a Lock,
    /// Only descriptors in use were in the way of one that was to be opened.
    pub is_later: Cell<bool>,
}

impl<'a> Opening<'a> {
    pub fn new(lock: &'a Lock) -> Opening<'a> {
        Opening { lock, is_later: Cell::new(false) }
    }

    fn make_room<T: Copy>(
        &self,
        mut open: impl FnMut(&Store) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let store = self.store();
        // Ends: every turn closes a descriptor of ours, or returns.
        loop {
            let opened = open(store);
            if !opened.is_err_and(|fault| is_short_of_descriptors(OpenFault::Store(fault))) {
                return opened;
            }
            let files = &mut self.lock.lock().files;
            match files.drain() {
                Some(idle) => store.close(idle),
                None if files.leases() > 0 => {
                    self.is_later.set(true);
                    return Err(Fault::Failed(Errno(libc::EMFILE)));
                }
                None => return opened,
            }
        }
    }
}

impl Access for Opening<'_> {
    fn store(&self) -> &Store {
        let Shared { metadata, .. } = self.lock.shared;
        metadata
    }

    fn open(&self, path: &Path) -> Result<(i32, FileStat), Fault> {
        self.make_room(|store| store.open_document(path))
    }

    fn list(&self, folder: &str, visit: &mut Visit<'_>) -> Result<(Listing, Version), Fault> {
        self.make_room(|store| store.list(folder, u32::MAX, visit))
    }
}

/// Whether a network file system no longer knows the descriptor.
pub fn is_stale(fault: OpenFault) -> bool {
    fault == OpenFault::Store(STALE)
}

/// A file while a job reads it.
pub struct LeasedFile<'a> {
    pub lock: &'a Lock,
    pub lease: &'a Lease,
    pub record: &'static ArrayRecord,
    pub read: &'a ReadOp,
    /// Empty if the descriptor is enough. It is borrowed, because it is long and this moves.
    pub path: &'a Path,
    /// Descriptor and state of the file; why it cannot be used.
    pub opened: Result<Opened, OpenFault>,
    /// It was shorter than it looked, as far as is known.
    pub has_ended: Cell<bool>,
    /// A read found another version of it.
    has_changed: Cell<bool>,
    /// It was to be one chunk and does not decode.
    is_no_chunk: bool,
    /// It was looked at again since the last read.
    is_checked: Cell<bool>,
}

impl<'a> LeasedFile<'a> {
    /// Opens the file of `read`, if it is not open, which must be as it was when its chunks were
    /// located. `path`: room for its path.
    pub fn open(
        lock: &'a Lock,
        lease: &'a Lease,
        read: &'a ReadOp,
        path: &'a mut Path,
    ) -> LeasedFile<'a> {
        let shared = lock.shared;
        let record = shared.array_record(read.array);
        // An open file of the system is read by its descriptor alone.
        if lease.open.is_none() || !shared.store.row.has_descriptors {
            shared.write_file_path(read.array, record, read.file, path);
        }
        let path = &*path;
        let opened = match lease.open {
            Some(open) => Ok((open, lease.stat.unwrap_or(read.stat))),
            None => open_counted(shared, &shared.store, path, lease),
        };
        let mut file = LeasedFile {
            lock,
            lease,
            record,
            read,
            path,
            opened,
            has_ended: Cell::new(false),
            has_changed: Cell::new(false),
            is_no_chunk: false,
            is_checked: Cell::new(false),
        };
        if opened.is_ok_and(|(_, stat)| stat != read.stat) {
            file.refuse(OpenFault::Changed);
        }
        file
    }

    /// The file is of no use: a descriptor that this job opened is closed.
    pub fn refuse(&mut self, fault: OpenFault) {
        if let (Ok((open, _)), None) = (self.opened, self.lease.open) {
            self.lock.shared.store.close(open);
        }
        self.opened = Err(fault);
    }

    pub fn read(&self, target: &mut [u8], offset: u64, cached_only: bool) -> Result<(), OpenFault> {
        let (open, stat) = self.opened?;
        self.is_checked.set(false);
        let store = &self.lock.shared.store;
        let mut result =
            (store.row.read)(store, (open, stat), self.path, target, offset, cached_only);
        if result == Err(STALE) && self.lease.open.is_none() {
            // It was opened just now: no older descriptor can be the cause.
            result = store.read_again((open, stat), self.path, target, offset);
        }
        // A hook is not asked whether the file is what it was, so its no may be the answer.
        if matches!(result, Err(Fault::Ended(_) | Fault::HookFailed)) {
            self.has_ended.set(true);
        }
        result.map_err(|fault| match fault {
            Fault::Changed => {
                self.has_changed.set(true);
                OpenFault::Changed
            }
            fault => OpenFault::Store(fault),
        })
    }

    /// Looks at the file again once bytes are read, because a chunk's place in a file that was
    /// rewritten meanwhile is another chunk's.
    pub fn check_unchanged(&mut self) -> Result<(), OpenFault> {
        let (open, stat) = self.opened?;
        if self.is_checked.get() || !self.lock.shared.store.row.shows_changes {
            return Ok(());
        }
        let mut now = self.lock.shared.store.stat(open, self.path);
        if now == Err(STALE) {
            // The bytes are read: only their descriptor is of no more use.
            let path = self.lock.shared.file_path(self.read.array, self.record, self.read.file);
            now = self.lock.shared.store.stat_path(&path);
        }
        let fault = match now {
            Ok(now) if now == stat => {
                self.is_checked.set(true);
                return Ok(());
            }
            Ok(_) => OpenFault::Changed,
            Err(fault) => OpenFault::Store(fault),
        };
        self.refuse(fault);
        Err(fault)
    }

    /// Returns whether a read has to be done again: by a thread that may wait, on a new descriptor,
    /// or once descriptors are free. If the system is short of them, it lowers how many may
    /// be open.
    pub fn give_up_a_descriptor(&self, fault: OpenFault) -> bool {
        match fault {
            OpenFault::Store(Fault::WouldBlock) => true,
            fault if is_stale(fault) => self.lease.open.is_some(),
            fault if self.opened.is_err() && is_short_of_descriptors(fault) => {
                self.lease.open.is_none() && self.lock.lock().files.lower_open_max()
            }
            _ => false,
        }
    }

    /// Reports that a chunk cannot be read.
    pub fn fail(&self, wave: WaveIndex, chunk: u32, fault: OpenFault) {
        self.fail_at((wave, chunk), fault, false);
    }

    /// The same. If the chunk `is_placed`, samples have bytes of it, and are given up.
    pub fn fail_at(&self, at: (WaveIndex, u32), fault: OpenFault, is_placed: bool) {
        let mut why = Why::new();
        let path = self.lock.shared.file_path(self.read.array, self.record, self.read.file);
        let status = open_failure(&path, fault, &mut why);
        fail_task_at(self.lock, at, self.record, &(status, why), is_placed);
    }

    /// Bytes that do not decode may be somebody else's: the file is looked at first. If it is not
    /// what it was, all chunks of the job fail when it ends.
    pub fn fail_decode(&mut self, wave: WaveIndex, chunk: u32, failure: &(Status, Why)) {
        if self.check_unchanged().is_ok() {
            self.is_no_chunk |= self.record.shard_levels == 0;
            fail_task(self.lock, wave, chunk, self.record, failure);
        }
    }

    /// Ends the lease. `fault`: why the job ended early, if it did.
    pub fn give_back(&self, state: &mut State, fault: Option<OpenFault>) {
        let slot = self.lease.slot;
        if fault.is_some_and(is_stale) && self.lease.open.is_some() {
            state.files.set_stale(slot);
        }
        let (open, stat) =
            (self.opened.ok().map(|found| found.0), self.opened.ok().map(|found| found.1));
        self.lock.shared.close_forgotten(state.files.give_back(self.lease, open, stat));
        // If the record is of another version than the read, nothing is wrong with the record.
        let is_of_record = self.lease.stat.is_none_or(|stat| stat == self.read.stat);
        let seen = self.opened == Err(OpenFault::Changed);
        let has_changed = (seen || self.has_changed.get()) && is_of_record;
        let changes = &self.lock.shared.stats.files_changed;
        changes.fetch_add(u64::from(has_changed && self.has_changed.get()), Relaxed);
        if has_changed || self.has_ended.get() {
            self.lock.shared.close_forgotten(state.forget_file(slot));
        } else if self.is_no_chunk {
            self.lock.shared.close_forgotten(state.files.forget(slot));
        }
    }
}

/// Bytes that the chunks of a read need of it.
pub fn needed_bytes(shared: &Shared, wave: WaveIndex, read: &ReadOp) -> u64 {
    let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
    let bytes = |chunk| shared.tables.chunks.read(shared.wave_row(wave, chunk)).bytes;
    chunks.map(bytes).sum()
}

/// The rest of a read on its own, into the slab; if its file is busy it waits among the blocking
/// ones, or with `for_io` among those that the host did not bring. What the host has is asked for,
/// as a file is that nobody looked at.
pub fn lease_read(
    state: &mut State,
    shared: &Shared,
    (wave, op): (WaveIndex, u32),
    cached_only: bool,
    for_io: bool,
) -> Option<Job> {
    let read = rest_of_read(state, shared, wave, op);
    let is_unseen = read.stat.kind == FileKind::UNSEEN;
    if is_unseen || !shared.array_record(read.array).origin.has_files {
        let target = state.claim_read(shared, wave, op, &read);
        return Some(Job::Ask { wave, op, read, target });
    }
    match state.files.lease(read.array_id, read.file, None, Some(read.stat)) {
        LeaseOutcome::Leased(lease) => {
            let ticket = if cached_only || for_io { None } else { state.async_reads.take() };
            let target = state.claim_read(shared, wave, op, &read);
            return Some(Job::Read { wave, op, read, target, lease, cached_only, ticket });
        }
        LeaseOutcome::Busy if for_io => state.waves.leave_to_io(wave, op),
        LeaseOutcome::Busy => state.waves.block(wave, op, state.waves.next_chunk(wave, op)),
    }
    None
}

/// A read without the chunks that are done. Chunks lie in the order of their offsets.
fn rest_of_read(state: &State, shared: &Shared, wave: WaveIndex, op: u32) -> ReadOp {
    let row = state.waves.row(wave, op);
    let (read, next) = (shared.tables.ops.read(row), state.waves.next_chunk(wave, op));
    if next == 0 {
        return read;
    }
    let chunk_first = read.chunk_first + next;
    let task = shared.tables.chunks.read(shared.wave_row(wave, chunk_first));
    ReadOp {
        offset: task.offset,
        bytes: read.bytes - (task.offset - read.offset),
        slab_offset: task.slab_offset,
        chunk_first,
        chunk_count: read.chunk_count - next,
        ..read
    }
}
