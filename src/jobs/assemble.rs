//! The jobs that make batches: decode a chunk, scatter it into every sample that touches it, fill
//! what is missing, outside or failed.
//!
//! In: chunk tasks of one batch and one array, their bytes staged. Out: calls of
//! their sink.

use crate::assemble::pieces::ReadBytes;
use crate::base::indexes::{ArraySlot, Lane, WaveIndex};
use crate::base::stats::{Metric, Stage};
use crate::cuda::HAS_DEVICES;
use crate::device::SlabPart;
use crate::jobs::decode::{Refusal, decoded};
use crate::jobs::device::sink::SlabSink;
use crate::jobs::failures::fail_task;
use crate::jobs::sink::{Boxes, CpuSink, Sink, Taken};
use crate::os::profiler;
use crate::os::profiler::{At, Range as Ranged};
use crate::read::OpenFault;
use crate::records::{ChunkBytes, Need};
use crate::state::State;
use crate::state::claims::claim_hold;
use crate::state::job::{Job, Role};
use crate::state::lock::{Lock, Locked};
use crate::state::needs::pool_need;
use crate::state::scratch::Hold;
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::state::worker::{DecodeContext, Worker};
use crate::wave::{ChunkKind, ChunkTask};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Decodes and assembles `count` staged chunks of a wave from `first` on, of one batch and array.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    (wave, first, count, staged_ns): (WaveIndex, u32, u32, u64),
    (large, slab): (Option<Hold>, Option<SlabWriter>),
) -> Locked<'l> {
    let shared = lock.shared;
    let task = |chunk: u32| shared.tables.chunks.read(shared.wave_row(wave, chunk));
    let context = &mut worker.context;
    context.large = large;
    let times = (wave, staged_ns, context.decoded_ns);
    let ((), part) = into_sink(shared, slab, |sink| {
        let mut assembler = Assembler::new(shared, task(first).array, sink, times);
        let (mut chunk, limit) = (first, first + count);
        while chunk < limit {
            let head = task(chunk);
            let mates = chunk..limit.min(chunk + 1 + head.mates);
            chunk = mates.end;
            let staged = (shared.staged(&head), None);
            let record = assembler.boxes.record;
            assembler.assemble_mates(context, wave, mates, staged, &mut |mate, failure| {
                fail_task(lock, wave, mate, record, &failure);
            });
        }
        context.decoded_ns = assembler.end();
    });
    let mut state = lock.lock();
    context.large.take().into_iter().for_each(|hold| state.pool.give_back(hold));
    state.finish_chunks(shared, wave, (first, count), part);
    state.end_part(part);
    state
}

/// Calls `work` with the sink of a job: the part of a slab that was taken for it, which is given
/// back, or CPU memory.
pub fn into_sink<R>(
    shared: &Shared,
    slab: Option<SlabWriter>,
    work: impl FnOnce(&mut dyn Sink) -> R,
) -> (R, Option<SlabPart>) {
    let mut slab = slab.filter(|_| HAS_DEVICES).map(SlabSink::new);
    let done = match &mut slab {
        None => work(&mut CpuSink::new()),
        Some(sink) => work(sink),
    };
    (done, slab.map(|sink| sink.finish(shared)))
}

/// The state that assembling the chunks of one array takes.
pub struct Assembler<'a> {
    pub boxes: Boxes<'a>,
    /// The place that they go to.
    pub sink: &'a mut dyn Sink,
    decode: Metric,
    gap: Metric,
    scatter: Metric,
    /// The thread, and the wave that it works on.
    at: At,
    /// When the worker's last decode ended, or the wave was staged if that is later; 0: it slept.
    idle_since_ns: u64,
}

/// The source of the bytes of a chunk.
enum Source<'b> {
    Decoded(ChunkBytes<'b>),
    Encoded(Encoded<'b>, &'b mut DecodeContext),
}

/// Encoded bytes, and their place in the sink, if that has read them.
pub type Encoded<'b> = (&'b [u8], Option<u64>);

impl<'a> Assembler<'a> {
    /// For chunks of the array in slot `array`, which a task pins, of a wave that was staged at
    /// `staged_ns`. `decoded_ns`: when the worker's last decode ended; 0 if it slept since.
    pub fn new(
        shared: &'a Shared,
        array: ArraySlot,
        sink: &'a mut dyn Sink,
        (wave, staged_ns, decoded_ns): (WaveIndex, u64, u64),
    ) -> Assembler<'a> {
        let boxes = Boxes::new(shared, array);
        let (decode, gap, scatter) = (Metric::NONE, Metric::NONE, Metric::NONE);
        let at = shared.profiler.here().of_wave(wave.0);
        let idle_since_ns = if decoded_ns == 0 { 0 } else { decoded_ns.max(staged_ns) };
        Assembler { boxes, sink, decode, gap, scatter, at, idle_since_ns }
    }

    /// The thread and the wave.
    pub fn at(&self) -> At {
        self.at
    }

    /// Counts a decode, and the gap before it.
    fn note_decode(
        &mut self,
        range: Ranged<'_>,
        (start, end): (u64, u64),
        (input, output): (u64, u64),
        at: At,
    ) {
        if self.idle_since_ns > 0 {
            let gap_ns = start.saturating_sub(self.idle_since_ns);
            self.gap.observe(gap_ns, 0, 0);
            // Other work of the thread may begin before it and end in it.
            let at = At { thread: 0, ..self.at };
            range.keep_more(Stage::DecodeGap, (start - gap_ns, gap_ns), 0, at);
        }
        self.idle_since_ns = end;
        self.decode.observe(end - start, input, output);
        range.keep(Stage::Decode, (start, end - start), output, at);
    }

    /// Decodes and scatters the tasks `mates`, which are one chunk; tells `fail` which failed.
    pub fn assemble_mates(
        &mut self,
        context: &mut DecodeContext,
        wave: WaveIndex,
        mates: Range<u32>,
        encoded: Encoded<'_>,
        fail: &mut dyn FnMut(u32, Refusal),
    ) {
        if let Some(once) = self.decode_once(context, wave, mates.clone(), encoded.0) {
            for mate in mates {
                if let Err(failure) = self.assemble(wave, mate, Source::Decoded(once)) {
                    fail(mate, failure);
                    self.place_broken(wave, mate);
                }
            }
            return;
        }
        for mate in mates {
            let source = Source::Encoded(encoded, &mut *context);
            if let Err(failure) = self.assemble(wave, mate, source) {
                fail(mate, failure);
                self.place_broken(wave, mate);
            }
        }
    }

    /// Makes NaN of a task that failed, where that can be.
    pub fn place_broken(&mut self, wave: WaveIndex, chunk: u32) {
        let shared = self.boxes.shared;
        let mut own = None;
        let part = self.boxes.part((wave, shared.wave_row(wave, chunk)), &mut own);
        if part.task.kind == ChunkKind::Broken && shared.fills_nan() {
            self.sink.place(&self.boxes, &part, &ChunkBytes { bytes: &[], first: 0 });
        }
    }

    /// Decodes once what the tasks `mates`, which are one chunk, need of it together. None if each
    /// is to be decoded for itself: what is refused must not depend on what others need.
    fn decode_once<'b>(
        &mut self,
        context: &'b mut DecodeContext,
        wave: WaveIndex,
        mates: Range<u32>,
        encoded: &'b [u8],
    ) -> Option<ChunkBytes<'b>> {
        let shared = self.boxes.shared;
        let task = |mate: u32| shared.tables.chunks.read(shared.wave_row(wave, mate));
        let mut tasks = mates.map(task).filter(|task| task.kind == ChunkKind::Data);
        let (head, next) = (tasks.next()?, tasks.next()?);
        let both = head.need.span.hull(next.need.span);
        let span = tasks.fold(both, |span, task| span.hull(task.need.span));
        let range = shared.profiler.range(profiler::DECODE);
        let start = (shared.os.now_ns)();
        let mut own = None;
        let record = self.boxes.record.of_chunk((head.file, head.chunk), &mut own);
        let whole = ChunkTask { need: Need::of(span), ..head };
        let chunk = decoded(shared, context, record, &whole, encoded).ok()?;
        let bytes = (head.bytes, chunk.bytes.len() as u64);
        self.note_decode(range, (start, (shared.os.now_ns)()), bytes, self.at);
        Some(chunk)
    }

    /// Decodes a chunk, unless that is done, and scatters it; or fills what needs no bytes.
    fn assemble(&mut self, wave: WaveIndex, chunk: u32, source: Source<'_>) -> Result<(), Refusal> {
        let shared = self.boxes.shared;
        let mut own = None;
        let part = self.boxes.part((wave, shared.wave_row(wave, chunk)), &mut own);
        let task = &part.task;
        if task.kind == ChunkKind::Broken && !shared.fills_nan() {
            return Ok(());
        }
        let mut chunk = ChunkBytes { bytes: &[], first: 0 };
        let (mut start, mut input) = ((shared.os.now_ns)(), task.need_bytes());
        let at = self.at.of_slot(task.slot.0);
        match (task.kind, task.kept, source) {
            (ChunkKind::Kept, Some(kept), _) => {
                chunk.bytes = shared.kept_chunk(kept, part.record.chunk_bytes);
            }
            (ChunkKind::Data, _, Source::Decoded(once)) => chunk = once,
            (ChunkKind::Data, _, Source::Encoded((encoded, place), context)) => {
                let range = shared.profiler.range(profiler::DECODE);
                let bytes = match self.sink.take(&self.boxes, context, &part, encoded, place)? {
                    Taken::Nothing => {
                        chunk = decoded(shared, context, part.record, task, encoded)?;
                        Some(chunk.bytes.len() as u64)
                    }
                    Taken::Decoded(bytes) => Some(bytes),
                    Taken::Encoded => None,
                    Taken::Refused => return Ok(()),
                };
                match bytes {
                    Some(bytes) => {
                        let end = (shared.os.now_ns)();
                        self.note_decode(range, (start, end), (task.bytes, bytes), at);
                        start = end;
                    }
                    None => input = task.bytes,
                }
            }
            _ => {}
        }
        let range = shared.profiler.range(profiler::ASSEMBLE);
        let written = self.sink.place(&self.boxes, &part, &chunk);
        let ns = (shared.os.now_ns)() - start;
        self.scatter.observe(ns, input, written);
        range.keep(scatter_stage(shared), (start, ns), written, at);
        Ok(())
    }

    /// Brings a task of uncompressed data to its samples as `read` reads the bytes of its chunk.
    /// None if the whole chunk is wanted; else the bytes that were read.
    pub fn read_pieces(
        &mut self,
        (wave, chunk): (WaveIndex, u32),
        buffer: &mut [u8],
        read: &mut ReadBytes<'_, OpenFault>,
    ) -> Option<Result<u64, OpenFault>> {
        let shared = self.boxes.shared;
        let mut own = None;
        let part = self.boxes.part((wave, shared.wave_row(wave, chunk)), &mut own);
        let mut got = 0;
        let mut counted = |first: u64, target: &mut [u8]| {
            got += target.len() as u64;
            read(first, target)
        };
        let written = self.sink.read_pieces(&self.boxes, &part, buffer, &mut counted)?;
        if let Ok(written) = written {
            self.decode.observe(0, got, got);
            self.scatter.observe(0, part.task.need_bytes(), written);
            let at = self.at.of_slot(part.task.slot.0);
            shared.profiler.keep_moment(Stage::Decode, got, at);
            shared.profiler.keep_moment(scatter_stage(shared), written, at);
        }
        Some(written.map(|_| got))
    }

    /// Adds what was gathered to the loader's figures. When the last decode ended.
    pub fn end(self) -> u64 {
        let (shared, record) = (self.boxes.shared, self.boxes.record);
        let stats = &shared.stats;
        stats.decode.add(&self.decode);
        stats.decode_gap.add(&self.gap);
        // All of them are chunks of one array.
        let codec = record.codec_place();
        stats.chunks_decoded[codec].fetch_add(self.decode.count, Relaxed);
        stats.stage(scatter_stage(shared)).add(&self.scatter);
        self.idle_since_ns
    }
}

/// The stage of laying decoded chunks out: a device measures the time of its own assembling.
fn scatter_stage(shared: &Shared) -> Stage {
    if shared.engine().is_none() { Stage::Assemble } else { Stage::PostDecode }
}

/// The next chunks that are staged, of the oldest wave that has some and room for them.
pub fn take(state: &mut State, shared: &Shared, role: Role) -> Option<Job> {
    let mut at = state.waves.first_active();
    let mut lacks_room = false;
    while let Some(wave) = at {
        at = state.waves.next_active(wave);
        let lane = state.waves.lane(wave);
        if !role.takes(lane) || lacks_room && lane == Lane::Samples {
            continue;
        }
        let Some(op) = state.waves.waves[wave.at()].ready.front() else { continue };
        let row = state.waves.row(wave, op);
        let read = shared.tables.ops.read(row);
        let next = state.waves.next_chunk(wave, op);
        let first = read.chunk_first + next;
        let task = shared.tables.chunks.read(shared.wave_row(wave, first));
        let room = state.task_need(shared, wave, &task);
        if !state.ask_for_room(shared, room) {
            lacks_room = true;
            continue;
        }
        let need = pool_need(shared, &task);
        let mut large = None;
        if need > 0 {
            large = claim_hold(&mut state.pool, need);
            if large.is_none() {
                continue;
            }
        }
        let most = if need > 0 { 1 } else { read.chunk_count - next };
        let (count, room) = state.run_length(shared, wave, (&task, room), first, most);
        let slab = state.reserve_for_chunks(shared, lane, room);
        state.waves.take_chunks(wave, count, read.chunk_count);
        state.keep_early(shared, wave, op);
        let staged_ns = state.note_bound(shared, wave);
        return Some(Job::Assemble { wave, first, count, staged_ns, large, slab });
    }
    None
}
