//! The jobs that read chunk data: into the slab, or into a worker's own scratch, where each chunk
//! is decoded as soon as it is here.
//!
//! In: reads of a wave and a lease on their file. Out: bytes in the slab, or rows of batches; or
//! the samples that fail. No lock is held while a file is opened or read.

use crate::base::stats::Tally;
use crate::base::status::{Status, Why};
use crate::device::Part;
use crate::jobs::assemble::{Hands, fail_task};
use crate::jobs::look_up::{
    close_forgotten, file_path, is_short_of_descriptors, is_stale, open_counted, open_failure,
    write_file_path,
};
use crate::jobs::read::hook::Begun;
use crate::os::FileStat;
use crate::os::profiler;
use crate::os::store::{Descriptors, Fault, Path, STALE};
use crate::read::{Lease, OpenFault};
use crate::records::{ArrayRecord, Need};
use crate::state::State;
use crate::state::shared::Instance;
use crate::state::worker::Worker;
use crate::wave::{ChunkKind, ChunkTask, ReadOp};
use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes that are read at a time where chunks are decoded as they come: they stay in a cache of the
/// second level until they are decoded, and only chunks that are large take a call each.
const STREAM_BYTES: u64 = 256 << 10;

/// A file while a job reads it.
struct LeasedFile<'a> {
    instance: &'a Instance,
    lease: &'a Lease,
    record: &'static ArrayRecord,
    read: &'a ReadOp,
    /// Empty where the descriptor is enough. Not held here, because it is long and this moves.
    path: &'a Path,
    /// Descriptors and state of the file; why it cannot be used.
    opened: Result<(Descriptors, FileStat), OpenFault>,
    /// It was shorter than it looked, as far as is known.
    has_ended: Cell<bool>,
    /// It was to be one chunk and does not decode.
    is_no_chunk: Cell<bool>,
}

impl<'a> LeasedFile<'a> {
    /// Opens the file of `read`, if it is not open, which must be as it was when its chunks were
    /// located. `path`: room for its path.
    fn open(
        instance: &'a Instance,
        lease: &'a Lease,
        read: &'a ReadOp,
        path: &'a mut Path,
    ) -> LeasedFile<'a> {
        let record = instance.array_record(read.array);
        // An open file of the system is read by its descriptor alone.
        if lease.open.is_none() || instance.store.uses_hook() {
            write_file_path(instance, read.array, record, read.file, path);
        }
        let path = &*path;
        let opened = match lease.open {
            Some(open) => Ok((open, lease.stat.unwrap_or(read.stat))),
            None => open_counted(instance, path, lease),
        };
        let mut file = LeasedFile {
            instance,
            lease,
            record,
            read,
            path,
            opened,
            has_ended: Cell::new(false),
            is_no_chunk: Cell::new(false),
        };
        if opened.is_ok_and(|(_, stat)| stat != read.stat) {
            file.refuse(OpenFault::Changed);
        }
        file
    }

    /// The file is of no use: a descriptor that this job opened is closed.
    fn refuse(&mut self, fault: OpenFault) {
        if let (Ok((open, _)), None) = (self.opened, self.lease.open) {
            self.instance.store.close_data(open);
        }
        self.opened = Err(fault);
    }

    fn read(&self, target: &mut [u8], offset: u64, cached_only: bool) -> Result<(), OpenFault> {
        let (open, stat) = self.opened?;
        let store = &self.instance.store;
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
    fn check_unchanged(&mut self) -> Result<(), OpenFault> {
        let (open, stat) = self.opened?;
        if self.instance.store.uses_hook() {
            return Ok(());
        }
        let mut now = self.instance.store.stat(open.fd, self.path);
        if now == Err(STALE) {
            // The bytes are here: only their descriptor is of no more use.
            let path = file_path(self.instance, self.read.array, self.record, self.read.file);
            now = self.instance.store.stat_path(&path);
        }
        let fault = match now {
            Ok(now) if now == stat => return Ok(()),
            Ok(_) => OpenFault::Changed,
            Err(fault) => OpenFault::Store(fault),
        };
        self.refuse(fault);
        Err(fault)
    }

    /// Whether a read has to be done again: by a thread that may wait, on a new descriptor, or once
    /// descriptors are free.
    fn is_for_later(&self, fault: OpenFault) -> bool {
        match fault {
            OpenFault::Store(Fault::WouldBlock) => true,
            fault if is_stale(fault) => self.lease.open.is_some(),
            fault if self.opened.is_err() && is_short_of_descriptors(fault) => {
                self.lease.open.is_none() && self.instance.lock.lock().files.lower_open_max()
            }
            _ => false,
        }
    }

    /// Reports that a chunk cannot be read.
    fn fail(&self, wave: u32, chunk: u32, fault: OpenFault) {
        let mut why = Why::new();
        let path = file_path(self.instance, self.read.array, self.record, self.read.file);
        let status = open_failure(&path, fault, &mut why);
        fail_task(self.instance, wave, chunk, self.record, status, &why);
    }

    /// Ends the lease. `fault`: why the job ended early, if it did.
    fn give_back(&self, state: &mut State, fault: Option<OpenFault>) {
        let slot = self.lease.slot;
        if fault.is_some_and(is_stale) && self.lease.open.is_some() {
            state.files.set_stale(slot);
        }
        let (open, stat) =
            (self.opened.ok().map(|found| found.0), self.opened.ok().map(|found| found.1));
        close_forgotten(self.instance, state.files.give_back(self.lease, open, stat));
        if self.opened == Err(OpenFault::Changed) || self.has_ended.get() {
            close_forgotten(self.instance, state.forget_file(slot));
        } else if self.is_no_chunk.get() {
            close_forgotten(self.instance, state.files.forget(slot));
        }
    }
}

/// Reads into the slab; with a ticket the host is to, and completes it later.
pub fn run_read(
    instance: &Instance,
    (wave, op): (u32, u32),
    read: &ReadOp,
    lease: &Lease,
    (cached_only, ticket): (bool, Option<u64>),
) {
    let start = (instance.os.now_ns)();
    let mut path = Path::new();
    let mut file = LeasedFile::open(instance, lease, read, &mut path);
    match (ticket, file.opened) {
        (Some(ticket), Ok(opened)) => {
            let begun = Begun { wave, op, ticket, lease, opened, path: file.path };
            return instance.begin_read(read, &begun);
        }
        (Some(ticket), Err(_)) => instance.give_up_read(ticket),
        (None, _) => {}
    }
    let target = instance.tables.slab.rows(read.slab_offset, read.bytes);
    // A thread that may wait tries what need not: that it need not is worth knowing, and time tells
    // it only where nobody else is at work.
    let mut result = file.read(target, read.offset, !instance.store.uses_hook());
    let is_cached = result != Err(OpenFault::Store(Fault::WouldBlock));
    if !is_cached && !cached_only {
        result = file.read(target, read.offset, false);
    }
    let result = result.and_then(|()| file.check_unchanged());
    let again = result.err().filter(|fault| file.is_for_later(*fault));
    if again.is_none() {
        let needed = read_pieces(&mut file, wave, result);
        instance.stats.reads_issued.fetch_add(1, Relaxed);
        instance.stats.io.observe((instance.os.now_ns)() - start, read.bytes, needed);
    }
    let state = &mut *instance.lock.lock();
    file.give_back(state, again);
    let entry = &mut state.waves.waves[wave as usize];
    if again.is_some() {
        entry.blocking.push(op);
    } else {
        entry.ready.push(op);
    }
    state.note_cached(is_cached && !instance.store.uses_hook());
}

/// Bytes that the chunks of a read need of it.
pub fn needed_bytes(instance: &Instance, wave: u32, read: &ReadOp) -> u64 {
    let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
    let bytes = |chunk| instance.tables.chunks.read(instance.wave_row(wave, chunk)).bytes;
    chunks.map(bytes).sum()
}

/// Decides chunk by chunk after a read that failed as a whole, so that which chunks fail does not
/// depend on how reads were merged. Returns the bytes that chunks needed.
fn read_pieces(file: &mut LeasedFile<'_>, wave: u32, result: Result<(), OpenFault>) -> u64 {
    let (instance, read) = (file.instance, file.read);
    let (mut needed, mut has_pieces) = (0, false);
    for chunk in read.chunk_first..read.chunk_first + read.chunk_count {
        let row = instance.wave_row(wave, chunk);
        let task = instance.tables.chunks.read(row);
        needed += task.bytes;
        let fault = match (result, file.opened) {
            (Ok(()), _) => continue,
            (Err(fault), Err(_)) => fault,
            (Err(_), Ok(_)) => {
                let target = instance.tables.slab.rows(task.slab_offset, task.bytes);
                match file.read(target, task.offset, false) {
                    Ok(()) => {
                        has_pieces = true;
                        continue;
                    }
                    Err(fault) => fault,
                }
            }
        };
        file.fail(wave, chunk, fault);
    }
    if has_pieces && let Err(fault) = file.check_unchanged() {
        let is_whole = |chunk: &u32| {
            let row = instance.wave_row(wave, *chunk);
            instance.tables.chunks.read(row).kind != ChunkKind::Broken
        };
        let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
        chunks.filter(is_whole).for_each(|chunk| file.fail(wave, chunk, fault));
    }
    needed
}

/// Reads `count` reads of a wave from number `first` on, all of the leased file, and decodes and
/// scatters each chunk as soon as it is here. What would block is left to threads that may wait.
pub fn run_stream(
    instance: &Instance,
    worker: &mut Worker,
    (wave, first, count): (u32, u32, u32),
    lease: &Lease,
    part: Option<&Part>,
) {
    let reads = instance.tables.ops.rows(instance.wave_row(wave, first), count as usize);
    // A job has at least one read.
    let (Some(head), Some(last)) = (reads.first(), reads.last()) else { return };
    let chunks = head.chunk_first..last.chunk_first + last.chunk_count;
    let staging = worker.staging.rows(0, worker.staging.bytes());
    let hands = Hands::new(instance, worker, head.array, part);
    let mut path = Path::new();
    let file = LeasedFile::open(instance, lease, head, &mut path);
    let mut stream =
        Stream { file, hands, wave, is_checked: false, reads: 0, io: Tally::default() };
    let (done, fault) = stream.run(reads, staging);
    stream.hands.end();
    instance.stats.reads_issued.fetch_add(stream.reads, Relaxed);
    instance.stats.io.add(&stream.io);
    let state = &mut *instance.lock.lock();
    stream.file.give_back(state, fault);
    state.note_cached(fault != Some(OpenFault::Store(Fault::WouldBlock)));
    if fault.is_some() {
        leave_reads(state, (wave, first), reads, done);
    }
    if done > chunks.start {
        state.finish_chunks(instance, wave, (chunks.start, done - chunks.start), part);
    }
    state.end_part(part);
}

/// Chunks before `done` are done: the read of that chunk waits for a thread that may wait, those
/// behind it are as if nobody had begun them.
fn leave_reads(state: &mut State, (wave, first): (u32, u32), reads: &[ReadOp], done: u32) {
    for (op, read) in (first..).zip(reads) {
        if read.chunk_first > done {
            state.waves.unissue(wave, op);
        } else if done < read.chunk_first + read.chunk_count {
            let row = state.waves.row(wave, op);
            state.waves.op_next[row] = done - read.chunk_first;
            state.waves.waves[wave as usize].blocking.push(op);
        }
    }
}

/// What reading and decoding in one go takes.
struct Stream<'a> {
    file: LeasedFile<'a>,
    hands: Hands<'a>,
    wave: u32,
    /// The file was looked at again since the last read.
    is_checked: bool,
    reads: u64,
    io: Tally,
}

impl Stream<'_> {
    /// Does the chunks of the reads in order: the first that is not done, and why not if the rest
    /// is for later.
    fn run(&mut self, reads: &[ReadOp], staging: &mut [u8]) -> (u32, Option<OpenFault>) {
        let (mut first, mut done) = (0, 0);
        for (number, read) in reads.iter().enumerate() {
            let limit = read.chunk_first + read.chunk_count;
            done = read.chunk_first;
            first = if number == 0 { done } else { first };
            while done < limit && self.file.opened.is_ok() {
                let run = done..self.run_limit(done, limit);
                if let Err(fault) = self.read_run(run.clone(), staging)
                    && let Some((chunk, fault)) = self.settle_run(run.clone(), fault, staging)
                {
                    self.check_done(first..chunk);
                    return (chunk, Some(fault));
                }
                done = run.end;
            }
            done = limit;
        }
        match self.file.opened {
            Err(fault) if !self.has_read() && self.file.is_for_later(fault) => {
                return (first, Some(fault));
            }
            Err(fault) => self.fail_chunks(first..done, fault),
            Ok(_) => self.check_done(first..done),
        }
        (done, None)
    }

    /// Deals with a run that could not be read: fails the chunks that cannot be read, which must
    /// not depend on how many are read at a time. The first chunk that is for later, and why.
    fn settle_run(
        &mut self,
        run: Range<u32>,
        mut fault: OpenFault,
        staging: &mut [u8],
    ) -> Option<(u32, OpenFault)> {
        let is_one = run.len() == 1;
        for chunk in run {
            if !is_one {
                match self.read_run(chunk..chunk + 1, staging) {
                    Ok(()) => continue,
                    Err(found) => fault = found,
                }
            }
            if self.file.is_for_later(fault) {
                return Some((chunk, fault));
            }
            self.fail_chunks(chunk..chunk + 1, fault);
        }
        None
    }

    fn has_read(&self) -> bool {
        self.io.count() > 0
    }

    fn fail_chunks(&self, chunks: Range<u32>, fault: OpenFault) {
        chunks.for_each(|chunk| self.file.fail(self.wave, chunk, fault));
    }

    fn task(&self, chunk: u32) -> ChunkTask {
        let instance = self.file.instance;
        instance.tables.chunks.read(instance.wave_row(self.wave, chunk))
    }

    /// Behind the last of the chunks from `first` on that are read at a time: they touch.
    fn run_limit(&self, first: u32, limit: u32) -> u32 {
        let head = self.task(first);
        let (mut end, mut at) = (head.offset + head.bytes, first + 1);
        while at < limit {
            let next = self.task(at);
            let next_end = end.max(next.offset + next.bytes);
            let is_more = next_end > end;
            if next.offset > end || is_more && next_end - head.offset > STREAM_BYTES {
                break;
            }
            end = next_end;
            at += 1;
        }
        at
    }

    fn read_run(&mut self, chunks: Range<u32>, staging: &mut [u8]) -> Result<(), OpenFault> {
        let start = (self.file.instance.os.now_ns)();
        let offset = self.task(chunks.start).offset;
        let (mut end, mut needed) = (offset, 0);
        for chunk in chunks.clone() {
            let task = self.task(chunk);
            end = end.max(task.offset + task.bytes);
            needed += task.bytes;
        }
        let bytes = &mut staging[..(end - offset) as usize];
        self.is_checked = false;
        let range = self.file.instance.profiler.range(profiler::IO);
        let need = self.task(chunks.start).need;
        let has_strips = chunks.len() == 1 && self.file.record.is_read_partly();
        let got = if has_strips && need.strip_count > 1 {
            self.read_strips(&need, bytes, offset)?
        } else {
            self.file.read(bytes, offset, true)?;
            self.reads += 1;
            end - offset
        };
        drop(range);
        let ns = (self.file.instance.os.now_ns)() - start;
        self.io.observe(ns, got, needed.min(got));
        let mut chunk = chunks.start;
        while chunk < chunks.end {
            let task = self.task(chunk);
            let encoded = &bytes[(task.offset - offset) as usize..][..task.bytes as usize];
            let mates = chunk..chunks.end.min(chunk + 1 + task.mates);
            let shared = self.hands.shared(self.wave, mates.clone(), encoded);
            for mate in mates {
                let task = self.task(mate);
                if let Err(failure) = self.hands.assemble(self.wave, &task, encoded, shared) {
                    self.fail_decode(mate, failure);
                }
                chunk = mate + 1;
            }
        }
        Ok(())
    }

    /// Reads the strips of a chunk that is read partly to where they belong in `bytes`; what lies
    /// between holds anything, and no sample reads it. The number of bytes read.
    fn read_strips(
        &mut self,
        need: &Need,
        bytes: &mut [u8],
        offset: u64,
    ) -> Result<u64, OpenFault> {
        let (pitch, length) = (u64::from(need.strip_pitch), need.strip_bytes());
        for strip in 0..u64::from(need.strip_count) {
            let target = &mut bytes[(strip * pitch) as usize..][..length as usize];
            self.file.read(target, offset + strip * pitch, true)?;
            self.reads += 1;
        }
        Ok(u64::from(need.strip_count) * length)
    }

    /// Bytes that do not decode may be somebody else's: the file is looked at first.
    fn fail_decode(&mut self, chunk: u32, (status, why): (Status, Why)) {
        // Else all chunks of the job fail when it ends.
        if self.check().is_ok() {
            let file = &self.file;
            file.is_no_chunk.set(file.is_no_chunk.get() || file.record.shard_levels == 0);
            fail_task(file.instance, self.wave, chunk, file.record, status, &why);
        }
    }

    fn check(&mut self) -> Result<(), OpenFault> {
        if self.is_checked {
            return Ok(());
        }
        self.file.check_unchanged()?;
        self.is_checked = true;
        Ok(())
    }

    /// Fails chunks that were done if the file is not what it was.
    fn check_done(&mut self, chunks: Range<u32>) {
        if !chunks.is_empty()
            && let Err(fault) = self.check()
        {
            self.fail_chunks(chunks, fault);
        }
    }
}
