//! Reads of small chunks from the page cache, decoded and scattered at once.
//!
//! In: reads of one file. Out: their chunks in the batches. Reads that would block are left to
//! threads that may wait.

use crate::base::indexes::WaveIndex;
use crate::base::limits::WINDOW_BYTES;
use crate::base::stats::{Metric, Stage};
use crate::jobs::assemble::{Assembler, into_sink};
use crate::jobs::lease::LeasedFile;
use crate::os::profiler;
use crate::os::store::{Fault, Path};
use crate::read::{Lease, OpenFault, Window};
use crate::records::Need;
use crate::simd::prefetch;
use crate::state::State;
use crate::state::lock::{Lock, Locked};
use crate::state::slab_writer::SlabWriter;
use crate::state::worker::{DecodeContext, Worker};
use crate::wave::{ChunkTask, ReadOp};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes that are read at a time if chunks are decoded as they arrive: they stay in a cache of the
/// second level until they are decoded, and only chunks that are large take a call each.
const STREAM_BYTES: u64 = 256 << 10;

/// Bytes from which on a chunk of one box that is read partly is read in pieces.
const PIECES_BYTES_MIN: u64 = 16 << 10;

/// Bytes of a mapped file that are called into the caches while those before them are copied.
const CALLED_BYTES: usize = 4 << 10;

/// Reads `count` reads of a wave from number `first` on, all of the leased file, and decodes and
/// scatters each chunk as soon as it is read. Reads that would block are left to threads that may
/// wait.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    (wave, first, count, staged_ns): (WaveIndex, u32, u32, u64),
    (lease, window): (&Lease, Option<Window>),
    slab: Option<SlabWriter>,
) -> Locked<'l> {
    let shared = lock.shared;
    let reads = shared.tables.ops.rows(shared.wave_row(wave, first), count as usize);
    // A job has at least one read.
    let (Some(head), Some(last)) = (reads.first(), reads.last()) else { return lock.lock() };
    let chunks = head.chunk_first..last.chunk_first + last.chunk_count;
    let mut path = Path::new();
    let file = LeasedFile::open(lock, lease, head, &mut path);
    let mapped = window.map(|window| (window, map_window(&file, &window)));
    let waits = false;
    let ((file, done, fault), part) = into_sink(shared, slab, |sink| {
        let context = &mut worker.context;
        let times = (wave, staged_ns, context.decoded_ns);
        let assembler = Assembler::new(shared, head.array, sink, times);
        let io = Metric::NONE;
        let mut stream = Stream { file, mapped, waits, assembler, context, wave, reads: 0, io };
        let (done, fault) = stream.run(reads, worker.staging);
        stream.context.decoded_ns = stream.assembler.end();
        shared.stats.reads_issued.fetch_add(stream.reads, Relaxed);
        shared.stats.io.add(&stream.io);
        (stream.file, done, fault)
    });
    let mut state = lock.lock();
    file.give_back(&mut state, fault);
    if let Some((window, mapped)) = mapped {
        let bytes = mapped.map(|limit| limit.saturating_sub(window.first));
        let device = file.opened.ok().map(|(_, stat)| stat.device);
        state.windows.give_back(&window, bytes, device);
    }
    state.note_cached(fault != Some(OpenFault::Store(Fault::WouldBlock)));
    leave_reads(&mut state, (wave, first), reads, done);
    if done > chunks.start {
        state.finish_chunks(shared, wave, (chunks.start, done - chunks.start), part);
    }
    state.end_part(part);
    state
}

/// Maps a window if it is new. The limit of the bytes of the file that it has; None if they are
/// read.
fn map_window(file: &LeasedFile<'_>, window: &Window) -> Option<u64> {
    let (open, stat) = file.opened.ok()?;
    let shared = file.lock.shared;
    let map = || (shared.os.map_file)(window.place, open, window.first).is_ok();
    if window.is_new && !((shared.os.is_mappable)(open) && map()) {
        return None;
    }
    Some(stat.bytes.min(window.first + WINDOW_BYTES))
}

/// Chunks before `done` are done: the read of that chunk waits for a thread that may wait, those
/// after it are as if nobody had begun them.
fn leave_reads(state: &mut State, (wave, first): (WaveIndex, u32), reads: &[ReadOp], done: u32) {
    for (op, read) in (first..).zip(reads) {
        let limit = read.chunk_first + read.chunk_count;
        if done >= limit {
            state.waves.finish(wave, op);
        } else if read.chunk_first > done || read.is_mapped {
            state.waves.unissue(wave, op);
        } else {
            state.waves.block(wave, op, done - read.chunk_first);
        }
    }
}

/// The state of reading and decoding in one go.
struct Stream<'f, 's> {
    file: LeasedFile<'f>,
    /// The part of the file that is mapped, and its limit if it is.
    mapped: Option<(Window, Option<u64>)>,
    /// The read may wait, because no other thread takes it.
    waits: bool,
    assembler: Assembler<'s>,
    context: &'s mut DecodeContext,
    wave: WaveIndex,
    reads: u64,
    io: Metric,
}

impl Stream<'_, '_> {
    /// Does the chunks of the reads in order: the first that is not done, and why not if the rest
    /// is for later.
    fn run(&mut self, reads: &[ReadOp], staging: &mut [u8]) -> (u32, Option<OpenFault>) {
        let (mut first, mut done) = (0, 0);
        for (number, read) in reads.iter().enumerate() {
            let limit = read.chunk_first + read.chunk_count;
            (done, self.waits) = (read.chunk_first, read.is_mapped);
            reads.get(number + 1).into_iter().for_each(|next| self.call(next));
            first = if number == 0 { done } else { first };
            while done < limit && self.file.opened.is_ok() {
                let run = done..self.run_limit(done, limit, staging.len());
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
            Err(fault) if !self.has_read() && self.file.give_up_a_descriptor(fault) => {
                return (first, Some(fault));
            }
            Err(fault) => {
                let is_placed = self.has_read() || self.mapped.is_some();
                self.fail_chunks(first..done, fault, is_placed);
            }
            Ok(_) => self.check_done(first..done),
        }
        (done, None)
    }

    /// Calls the bytes of a read into the caches, if they are mapped: a copy of few bytes waits for
    /// each of its lines.
    fn call(&self, read: &ReadOp) {
        let task = self.task(read.chunk_first);
        let Some(bytes) = self.mapped(&task, read.offset, read.offset + read.bytes) else { return };
        let (pitch, mut left) = (u64::from(task.need.strip_pitch) as usize, CALLED_BYTES);
        let strips =
            (0..task.need.strip_count as usize).filter_map(|strip| bytes.get(strip * pitch..));
        for strip in strips {
            let strip = &strip[..strip.len().min(task.need.strip_bytes() as usize).min(left)];
            prefetch(strip);
            left -= strip.len().next_multiple_of(64).min(left);
            if left == 0 {
                break;
            }
        }
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
            if self.file.give_up_a_descriptor(fault) {
                return Some((chunk, fault));
            }
            self.fail_chunks(chunk..chunk + 1, fault, false);
        }
        None
    }

    fn has_read(&self) -> bool {
        self.io.count > 0
    }

    /// Fails chunks. If some of them are placed, their samples are given up.
    fn fail_chunks(&mut self, chunks: Range<u32>, fault: OpenFault, is_placed: bool) {
        for chunk in chunks {
            self.file.fail_at((self.wave, chunk), fault, is_placed);
            if !is_placed {
                self.assembler.place_broken(self.wave, chunk);
            }
        }
    }

    fn task(&self, chunk: u32) -> ChunkTask {
        let shared = self.file.lock.shared;
        shared.tables.chunks.read(shared.wave_row(self.wave, chunk))
    }

    /// The limit of the chunks from `first` on that are read at a time: they touch.
    fn run_limit(&self, first: u32, limit: u32, staging_bytes: usize) -> u32 {
        let head = self.task(first);
        let (mut end, mut at) = (head.offset + head.bytes, first + 1);
        // A config of small chunks has little staging; a chunk by itself fits.
        let most = STREAM_BYTES.min(staging_bytes as u64);
        while at < limit && !self.is_in_pieces(&head, staging_bytes) {
            let next = self.task(at);
            if self.is_in_pieces(&next, staging_bytes) {
                break;
            }
            let next_end = end.max(next.offset + next.bytes);
            let is_more = next_end > end;
            if next.way != head.way || next.offset > end || is_more && next_end - head.offset > most
            {
                break;
            }
            end = next_end;
            at += 1;
        }
        at
    }

    /// Whether a chunk that is read partly is read in pieces, box by box: one box has gaps, or is
    /// so long that it leaves the caches before it is all read; several share little of what they
    /// are read from, or do not fit the staging together.
    fn is_in_pieces(&self, task: &ChunkTask, staging_bytes: usize) -> bool {
        let (need, has_gaps) = (&task.need, task.need.strip_count > 1);
        let is_apart = match task.pair_count {
            1 => has_gaps || task.bytes >= PIECES_BYTES_MIN,
            _ => 2 * need.box_bytes <= need.bytes() && (has_gaps || task.bytes > STREAM_BYTES),
        };
        self.file.record.is_read_partly()
            && task.kept.is_none()
            && (is_apart || task.bytes > staging_bytes as u64)
    }

    /// Reads a chunk in pieces, each to its places at once. None if its sink takes it whole alone.
    fn read_pieces(&mut self, chunk: u32, staging: &mut [u8]) -> Option<Result<(), OpenFault>> {
        let shared = self.file.lock.shared;
        let start = (shared.os.now_ns)();
        let range = shared.profiler.range(profiler::IO);
        let (task, mut reads) = (self.task(chunk), 0);
        let (file, is_cached, base) = (&self.file, !self.waits, task.offset - task.need.span.first);
        let result =
            self.assembler.read_pieces((self.wave, chunk), staging, &mut |first, target| {
                file.read(target, base + first, is_cached)?;
                reads += 1;
                Ok(())
            })?;
        self.reads += reads;
        Some(result.map(|got| {
            let ns = (shared.os.now_ns)() - start;
            let needed = task.bytes.min(got);
            self.io.observe(ns, got, needed);
            range.keep(Stage::Io, (start, ns), needed, self.assembler.at());
        }))
    }

    /// First byte of chunks in the file, the byte after their last, and the sum of their bytes.
    fn extent(&self, chunks: &Range<u32>) -> (u64, u64, u64) {
        let first = self.task(chunks.start).offset;
        chunks
            .clone()
            .map(|chunk| self.task(chunk))
            .fold((first, first, 0), |(_, end, sum), task| {
                (first, end.max(task.offset + task.bytes), sum + task.bytes)
            })
    }

    /// The bytes from `first` to `end` of the file, if they are mapped and workers want them.
    fn mapped(&self, task: &ChunkTask, first: u64, end: u64) -> Option<&'static [u8]> {
        let (window, limit) = &self.mapped?;
        let is_in = window.first <= first && end <= (*limit)? && !task.is_for_device();
        is_in.then(|| self.file.lock.shared.mapped_bytes(window, first, end - first))
    }

    fn read_run(&mut self, chunks: Range<u32>, staging: &mut [u8]) -> Result<(), OpenFault> {
        let head = self.task(chunks.start);
        let (offset, end, needed) = self.extent(&chunks);
        let mapped = self.mapped(&head, offset, end);
        if mapped.is_none()
            && self.is_in_pieces(&head, staging.len())
            && let Some(result) = self.read_pieces(chunks.start, staging)
        {
            return result;
        }
        let now = self.file.lock.shared.os.now_ns;
        let start = if mapped.is_none() { now() } else { 0 };
        let range = self.file.lock.shared.profiler.range(profiler::IO);
        let has_strips = chunks.len() == 1 && self.file.record.is_read_partly();
        let (mut got, mut place) = (end - offset, None);
        let mut sent = None;
        if head.is_for_device() {
            let file = &mut self.file;
            let read = &mut |bytes: &mut [u8]| file.read(bytes, offset, true);
            sent = self.assembler.sink.read(end - offset, read)?;
            self.reads += 1;
        }
        let bytes = if let Some((bytes, at)) = sent {
            place = Some(at);
            bytes
        } else if let Some(bytes) = mapped {
            bytes
        } else {
            let bytes = &mut staging[..(end - offset) as usize];
            if has_strips && head.need.strip_count > 1 {
                got = self.read_strips(&head.need, bytes, offset)?;
            } else {
                self.file.read(bytes, offset, !self.waits)?;
                self.reads += 1;
            }
            bytes
        };
        if mapped.is_none() {
            let (ns, needed) = (now() - start, needed.min(got));
            self.io.observe(ns, got, needed);
            range.keep(Stage::Io, (start, ns), needed, self.assembler.at());
        } else {
            drop(range);
        }
        let mut chunk = chunks.start;
        while chunk < chunks.end {
            let task = self.task(chunk);
            let encoded = &bytes[(task.offset - offset) as usize..][..task.bytes as usize];
            let mates = chunk..chunks.end.min(chunk + 1 + task.mates);
            chunk = mates.end;
            let encoded = (encoded, place.map(|place| place + (task.offset - offset)));
            let (file, wave) = (&mut self.file, self.wave);
            self.assembler.assemble_mates(self.context, wave, mates, encoded, &mut |mate, why| {
                file.fail_decode(wave, mate, &why);
            });
        }
        Ok(())
    }

    /// Reads the strips of a chunk that is read partly to their places in `bytes`; what lies
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
            self.file.read(target, offset + strip * pitch, !self.waits)?;
            self.reads += 1;
        }
        Ok(u64::from(need.strip_count) * length)
    }

    /// Fails chunks that were done if the file is not what it was.
    fn check_done(&mut self, chunks: Range<u32>) {
        if !chunks.is_empty()
            && let Err(fault) = self.file.check_unchanged()
        {
            self.fail_chunks(chunks, fault, true);
        }
    }
}
