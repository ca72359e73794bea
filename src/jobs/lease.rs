//! A file that is leased for a job: its path, its descriptor, what its failures mean.

use crate::base::indexes::{ArraySlot, WaveIndex};
use crate::base::limits::RANK_MAX;
use crate::base::math::{coordinates_from_linear, index};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::jobs::failures::fail_task;
use crate::os::store::{Descriptors, Fault, Path, STALE};
use crate::os::{Errno, FileStat};
use crate::read::{Folder, Lease, LeaseOutcome, OpenFault, open_leased, shown};
use crate::records::{ArrayRecord, flat_path};
use crate::source::flat::write_numbered;
use crate::source::zarr::{write_file_key, write_folder_key};
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::Lock;
use crate::state::shared::Shared;
use crate::wave::ReadOp;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;

pub fn file_path(shared: &Shared, array: ArraySlot, record: &ArrayRecord, file: u64) -> Path {
    let mut path = Path::new();
    write_file_path(shared, array, record, file, &mut path);
    path
}

/// Writes the path of a file behind an empty one: thousands of bytes, that are not copied.
pub fn write_file_path(
    shared: &Shared,
    array: ArraySlot,
    record: &ArrayRecord,
    file: u64,
    path: &mut Path,
) {
    if record.is_in_parts() {
        let number = record.parts[index(file)].number;
        return write_numbered(shared.array_uri(array), number, record.part_digits, path);
    }
    if record.flat.is_some() {
        return path.push_str(flat_path(shared.array_uri(array)));
    }
    let mut coordinates = [0; RANK_MAX];
    let axes = record.axes();
    coordinates_from_linear(file, &record.file_counts()[..axes], &mut coordinates[..axes]);
    write_array_path(shared, array, path);
    write_file_key(record, &coordinates[..axes], path);
}

pub fn folder_path(
    shared: &Shared,
    array: ArraySlot,
    record: &ArrayRecord,
    folder: Folder,
) -> Path {
    let mut coordinates = [0; RANK_MAX];
    let axes = ..folder.axes;
    coordinates_from_linear(folder.number, &record.file_counts()[axes], &mut coordinates[axes]);
    let mut path = Path::new();
    write_array_path(shared, array, &mut path);
    write_folder_key(record, &coordinates[axes], &mut path);
    path
}

/// Writes the path of an array, with a slash at its end.
pub fn write_array_path(shared: &Shared, array: ArraySlot, path: &mut Path) {
    let uri = shared.array_uri(array);
    path.push_str(uri);
    if !uri.ends_with('/') {
        path.push_str("/");
    }
}

pub fn close_forgotten(shared: &Shared, open: Option<Descriptors>) {
    if let Some(open) = open {
        shared.store.close_data(open);
    }
}

/// Closes files that other versions took the place of, once no batch that looked before can need
/// them.
pub fn drop_retired(shared: &Shared, state: &mut State) {
    let first = state.slots.first_filling();
    while let Some(open) = state.files.drop_retired(first) {
        close_forgotten(shared, open);
    }
}

/// Uses a lease and counts opens.
pub fn open_counted(
    shared: &Shared,
    path: &Path,
    lease: &Lease,
) -> Result<(Descriptors, FileStat), OpenFault> {
    shared.stats.files_opened.fetch_add(lease.open.is_none() as u64, Relaxed);
    open_leased(&shared.store, path, lease)
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
    /// Empty where the descriptor is enough. Not held here, because it is long and this moves.
    pub path: &'a Path,
    /// Descriptors and state of the file; why it cannot be used.
    pub opened: Result<(Descriptors, FileStat), OpenFault>,
    /// It was shorter than it looked, as far as is known.
    pub has_ended: Cell<bool>,
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
        if lease.open.is_none() || shared.store.uses_hook() {
            write_file_path(shared, read.array, record, read.file, path);
        }
        let path = &*path;
        let opened = match lease.open {
            Some(open) => Ok((open, lease.stat.unwrap_or(read.stat))),
            None => open_counted(shared, path, lease),
        };
        let mut file = LeasedFile {
            lock,
            lease,
            record,
            read,
            path,
            opened,
            has_ended: Cell::new(false),
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
            self.lock.shared.store.close_data(open);
        }
        self.opened = Err(fault);
    }

    pub fn read(&self, target: &mut [u8], offset: u64, cached_only: bool) -> Result<(), OpenFault> {
        let (open, stat) = self.opened?;
        self.is_checked.set(false);
        let store = &self.lock.shared.store;
        let mut result = store.read_exact(open.fd, self.path, target, offset, cached_only);
        if result == Err(STALE) && self.lease.open.is_none() {
            // It was opened just now: there is no older descriptor to blame.
            result = store.read_again((open.fd, stat), self.path, target, offset);
        }
        // A hook is not asked whether the file is what it was, so its no may be the answer.
        if matches!(result, Err(Fault::Ended(_) | Fault::HookFailed)) {
            self.has_ended.set(true);
        }
        result.map_err(OpenFault::Store)
    }

    /// Looks at the file again once bytes are here, because a chunk's place in a file that was
    /// rewritten meanwhile is somebody else's place. A files hook is not asked: it knows no time of
    /// change, and its size may be a round trip.
    pub fn check_unchanged(&mut self) -> Result<(), OpenFault> {
        let (open, stat) = self.opened?;
        if self.is_checked.get() || self.lock.shared.store.uses_hook() {
            return Ok(());
        }
        let mut now = self.lock.shared.store.stat(open.fd, self.path);
        if now == Err(STALE) {
            // The bytes are here: only their descriptor is of no more use.
            let path = file_path(self.lock.shared, self.read.array, self.record, self.read.file);
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
        let mut why = Why::new();
        let path = file_path(self.lock.shared, self.read.array, self.record, self.read.file);
        let status = open_failure(&path, fault, &mut why);
        fail_task(self.lock, wave, chunk, self.record, &(status, why));
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
        close_forgotten(self.lock.shared, state.files.give_back(self.lease, open, stat));
        // If the record is of another version than the read, nothing is wrong with the record.
        let is_of_record = self.lease.stat.is_none_or(|stat| stat == self.read.stat);
        let has_changed = self.opened == Err(OpenFault::Changed) && is_of_record;
        if has_changed || self.has_ended.get() {
            close_forgotten(self.lock.shared, state.forget_file(slot));
        } else if self.is_no_chunk {
            close_forgotten(self.lock.shared, state.files.forget(slot));
        }
    }
}

/// Bytes that the chunks of a read need of it.
pub fn needed_bytes(shared: &Shared, wave: WaveIndex, read: &ReadOp) -> u64 {
    let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
    let bytes = |chunk| shared.tables.chunks.read(shared.wave_row(wave, chunk)).bytes;
    chunks.map(bytes).sum()
}

/// A read on its own, into the slab; where its file is busy it waits among the blocking ones. What
/// the host has is asked for.
pub fn lease_read(
    state: &mut State,
    shared: &Shared,
    wave: WaveIndex,
    op: u32,
    cached_only: bool,
) -> Option<Job> {
    let read = rest_of_read(state, shared, wave, op);
    if !shared.array_record(read.array).is_in_files() {
        let target = state.claim_read(shared, wave, op, &read);
        return Some(Job::Ask { wave, op, read, target });
    }
    match state.files.lease(read.array_id, read.file, None, Some(read.stat)) {
        LeaseOutcome::Leased(lease) => {
            let ticket = if cached_only { None } else { state.async_reads.take() };
            let target = state.claim_read(shared, wave, op, &read);
            Some(Job::Read { wave, op, read, target, lease, cached_only, ticket })
        }
        LeaseOutcome::Busy => {
            let next = state.waves.next_chunk(wave, op);
            state.waves.block(wave, op, next);
            None
        }
    }
}

/// A read without the chunks that are done. Chunks lie in the order of their offsets.
pub fn rest_of_read(state: &State, shared: &Shared, wave: WaveIndex, op: u32) -> ReadOp {
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
