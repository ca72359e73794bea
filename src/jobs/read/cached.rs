//! Reads of small chunks from the page cache, decoded and scattered at once.
//!
//! In: reads of one file. Out: their chunks in the batches. What would block is left to those who
//! may wait.

use crate::base::stats::Tally;
use crate::base::status::{Status, Why};
use crate::device::Part;
use crate::jobs::assemble::Hands;
use crate::jobs::failures::fail_task;
use crate::jobs::read::lease::LeasedFile;
use crate::os::profiler;
use crate::os::store::{Fault, Path};
use crate::read::{Lease, OpenFault};
use crate::records::Need;
use crate::state::State;
use crate::state::shared::Instance;
use crate::state::worker::Worker;
use crate::wave::{ChunkTask, ReadOp};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes that are read at a time where chunks are decoded as they come: they stay in a cache of the
/// second level until they are decoded, and only chunks that are large take a call each.
pub const STREAM_BYTES: u64 = 256 << 10;

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
pub fn leave_reads(state: &mut State, (wave, first): (u32, u32), reads: &[ReadOp], done: u32) {
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
pub struct Stream<'a> {
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
