//! The jobs that make batches: decode a chunk, scatter it into every sample that touches it, fill
//! what is missing, outside or failed.
//!
//! In: chunk tasks of one batch and one array, their bytes staged. Out: rows of a batch slot. Rows
//! of different chunks never overlap, so workers fill one slot together.

use crate::assemble::cast::Cast;
use crate::assemble::units::{ChunkData, DeviceSample};
use crate::assemble::{SampleBox, Target, fill_outside, outside_element, scatter, scatter_fill};
use crate::base::abi::CODEC_NONE;
use crate::base::indexes::{ArraySlot, WaveIndex};
use crate::base::limits::{FIELDS_MAX, RANK_MAX};
use crate::base::stats::Metric;
use crate::base::status::{Status, Why};
use crate::decode::{Decoder, Scratch, decode_chunk, kept_bytes};
use crate::device::SlabPart;
use crate::fail;
use crate::jobs::blanks::fill_blanks;
use crate::jobs::failures::fail_task;
use crate::jobs::feed::scatter_fed;
use crate::os::profiler;
use crate::records::{ArrayRecord, BoxRecord, ChunkBytes, Codec, Destination, Need, chunk_origin};
use crate::setup::fields::Field;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::needs::{pool_need, scratch_need};
use crate::state::scratch::Hold;
use crate::state::shared::{Padding, Shared};
use crate::state::slab_writer::SlabWriter;
use crate::state::worker::{DecodeContext, Worker};
use crate::wave::{ChunkKind, ChunkTask};
use arrayvec::ArrayVec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Decodes and assembles `count` staged chunks of a wave from `first` on, of one batch and array.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    (wave, first, count): (WaveIndex, u32, u32),
    (large, slab): (Option<Hold>, Option<SlabWriter>),
) -> Locked<'l> {
    let shared = lock.shared;
    let task = |chunk: u32| shared.tables.chunks.read(shared.wave_row(wave, chunk));
    let mut assembler = Assembler::new(shared, task(first).array, slab);
    let (record, context) = (assembler.record, &mut worker.context);
    context.large = large;
    let (mut chunk, limit) = (first, first + count);
    while chunk < limit {
        let head = task(chunk);
        let mates = chunk..limit.min(chunk + 1 + head.mates);
        chunk = mates.end;
        assembler.assemble_mates(
            context,
            wave,
            mates,
            shared.staged(&head),
            None,
            &mut |mate, failure| {
                fail_task(lock, wave, mate, record, &failure);
            },
        );
    }
    let part = assembler.end();
    let mut state = lock.lock();
    context.large.take().into_iter().for_each(|hold| state.pool.give_back(hold));
    state.finish_chunks(shared, wave, (first, count), part);
    state.end_part(part);
    state
}

/// What assembling the chunks of one array takes.
pub struct Assembler<'a> {
    pub(super) shared: &'a Shared,
    pub(super) record: &'static ArrayRecord,
    /// From the array's element type to that of each field; None where a field cannot have it, and
    /// no box of the array goes to it.
    casts: ArrayVec<Option<Cast>, { FIELDS_MAX as usize }>,
    /// Where chunks go on their way to a device.
    pub(super) slab: Option<SlabWriter>,
    decode: Metric,
    pub(super) scatter: Metric,
    /// Chunks that were decoded into the slab, and those of them that kept their filter.
    pub(super) in_slab: u64,
    pub(super) filtered: u64,
}

/// Why a chunk does not decode.
pub(super) type Refusal = (Status, Why);

/// A chunk came to a worker without a decoder, which takes no such job.
#[cold]
pub(super) fn no_decoder(mut why: Why) -> Refusal {
    let text = "a worker without a decoder was to decode it: a defect of wavetrain, report it";
    (fail!(why, Internal, "{text}"), why)
}

/// Where the bytes of a chunk come from.
enum Source<'b> {
    Decoded(ChunkBytes<'b>),
    Encoded(&'b [u8], &'b mut DecodeContext),
}

impl<'a> Assembler<'a> {
    /// For chunks of the array in slot `array`, which a task pins; and `slab`, where they go to a
    /// device.
    pub fn new(shared: &'a Shared, array: ArraySlot, slab: Option<SlabWriter>) -> Assembler<'a> {
        let record = shared.array_record(array);
        let settings = &shared.settings;
        let is_streamed = settings.streams_slots();
        let cast = |field: &Field| field.cast_from(record).map(|cast| cast.streamed(is_streamed));
        Assembler {
            shared,
            record,
            casts: settings.fields.iter().map(cast).collect(),
            slab,
            decode: Metric::NONE,
            scatter: Metric::NONE,
            in_slab: 0,
            filtered: 0,
        }
    }

    /// Decodes and scatters the tasks `mates`, which are one chunk; tells `fail` which failed.
    /// `in_slab`: where the encoded bytes lie in the slab already, of a chunk for the device.
    pub fn assemble_mates(
        &mut self,
        context: &mut DecodeContext,
        wave: WaveIndex,
        mates: Range<u32>,
        encoded: &[u8],
        in_slab: Option<u64>,
        fail: &mut dyn FnMut(u32, Refusal),
    ) {
        let shared = self.shared;
        let task = |mate: u32| shared.tables.chunks.read(shared.wave_row(wave, mate));
        if let Some(once) = self.decode_once(context, wave, mates.clone(), encoded) {
            for mate in mates {
                if let Err(failure) = self.assemble(wave, &task(mate), Source::Decoded(once)) {
                    fail(mate, failure);
                }
            }
            return;
        }
        for mate in mates {
            if task(mate).is_for_device() {
                self.send_encoded(wave, mate, encoded, in_slab);
                continue;
            }
            let source = Source::Encoded(encoded, &mut *context);
            if let Err(failure) = self.assemble(wave, &task(mate), source) {
                fail(mate, failure);
            }
        }
    }

    /// Decodes once what the tasks `mates`, which are one chunk, need of it together. None where
    /// each is to be decoded for itself: what is refused must not depend on what others need.
    fn decode_once<'b>(
        &mut self,
        context: &'b mut DecodeContext,
        wave: WaveIndex,
        mates: Range<u32>,
        encoded: &'b [u8],
    ) -> Option<ChunkBytes<'b>> {
        let shared = self.shared;
        let task = |mate: u32| shared.tables.chunks.read(shared.wave_row(wave, mate));
        let mut tasks = mates.map(task).filter(|task| task.kind == ChunkKind::Data);
        let (head, next) = (tasks.next()?, tasks.next()?);
        let both = head.need.span.hull(next.need.span);
        let span = tasks.fold(both, |span, task| span.hull(task.need.span));
        let _range = shared.profiler.range(profiler::DECODE);
        let start = (shared.os.now_ns)();
        let mut own = None;
        let record = self.record.of_chunk((head.file, head.chunk), &mut own);
        let whole = ChunkTask { need: Need::of(span), ..head };
        let chunk = self.decoded(context, record, &whole, encoded).ok()?;
        let ns = (shared.os.now_ns)() - start;
        self.decode.observe(ns, head.bytes, chunk.bytes.len() as u64);
        Some(chunk)
    }

    /// Decodes a chunk, unless that is done, and scatters it; or fills what needs no bytes.
    fn assemble(
        &mut self,
        wave: WaveIndex,
        task: &ChunkTask,
        source: Source<'_>,
    ) -> Result<(), Refusal> {
        let shared = self.shared;
        if task.kind == ChunkKind::Broken {
            return Ok(());
        }
        let start = (shared.os.now_ns)();
        let mut own = None;
        let record = match task.kind {
            // What is not read belongs to no file, and an array without elements has none.
            ChunkKind::Pad | ChunkKind::Blank | ChunkKind::Fed => self.record,
            _ => self.record.of_chunk((task.file, task.chunk), &mut own),
        };
        let (mut chunk, mut in_slab) = (ChunkBytes { bytes: &[], first: 0 }, None);
        let mut decoded = start;
        match (task.kind, task.kept, source) {
            (ChunkKind::Kept, Some(kept), _) => {
                chunk.bytes = shared.kept_chunk(kept, record.chunk_bytes);
            }
            (ChunkKind::Data, _, Source::Decoded(once)) => chunk = once,
            (ChunkKind::Data, _, Source::Encoded(encoded, context)) => {
                let _range = shared.profiler.range(profiler::DECODE);
                in_slab = self.decoded_in_slab(context, record, task, encoded)?;
                if in_slab.is_none() {
                    chunk = self.decoded(context, record, task, encoded)?;
                }
                decoded = (shared.os.now_ns)();
                let bytes = in_slab.as_ref().map_or(chunk.bytes.len() as u64, |data| data.bytes);
                self.decode.observe(decoded - start, task.bytes, bytes);
            }
            _ => {}
        }
        let _range = shared.profiler.range(profiler::ASSEMBLE);
        let written = match in_slab {
            None if self.is_cropped(task) => self.scatter_crop(wave, record, task, &chunk),
            _ => {
                in_slab = in_slab.or_else(|| self.copied_to_slab(task, &chunk));
                let whole = (record, self.origin(task));
                self.scatter_task(wave, whole, task, &chunk, in_slab.as_ref())
            }
        };
        let ns = (shared.os.now_ns)() - decoded;
        self.scatter.observe(ns, task.need_bytes(), written);
        Ok(())
    }

    /// First element of the chunk of a task, of those that belong to no file as well.
    pub(super) fn origin(&self, task: &ChunkTask) -> [u64; RANK_MAX] {
        match task.kind {
            ChunkKind::Pad | ChunkKind::Blank | ChunkKind::Fed => [0; RANK_MAX],
            _ => chunk_origin(self.record, task.file, task.chunk),
        }
    }

    /// Brings a task, whose chunk is of `record` and begins at `origin`, to all of its samples; how
    /// many bytes were written. Never inlined: what only a slab has would be asked for before it is
    /// known that there is one, which memcheck reports.
    #[inline(never)]
    pub(super) fn scatter_task(
        &mut self,
        wave: WaveIndex,
        (record, origin): (&ArrayRecord, [u64; RANK_MAX]),
        task: &ChunkTask,
        chunk: &ChunkBytes<'_>,
        in_slab: Option<&ChunkData>,
    ) -> u64 {
        let shared = self.shared;
        let origin = &origin[..record.axes()];
        let mut written = 0;
        for pair in 0..task.pair_count {
            let row = shared.tables.pair_row(wave, task.pair_first + pair);
            let number = shared.tables.pairs.read(row);
            let source = shared.box_record(task.slot, number);
            if task.array == ArraySlot::NONE {
                written += self.scatter_own(task, source.sample, number);
                continue;
            }
            let sample_box = self.sample_box(record, source);
            let (dtype, pad) = (shared.field(source.field).dtype, shared.padding(source.field));
            let to = source.to(task.slot);
            written += match in_slab {
                Some(data) => {
                    let address = shared.sample_region(to).as_ptr() as u64;
                    let target = DeviceSample { sample: sample_box, dtype, address };
                    self.send_sample(task.kind, &target, pad, origin, data)
                }
                None => {
                    let claim = shared.claim_sample(to);
                    let target = Target { sample: sample_box, claim };
                    write_sample(task.kind, target, pad, origin, chunk)
                }
            };
        }
        written
    }

    /// A box of the array, which has such chunks as `record` says.
    pub(super) fn sample_box<'b>(
        &self,
        record: &'b ArrayRecord,
        source: &'b BoxRecord,
    ) -> SampleBox<'b>
    where
        'a: 'b,
    {
        let field: &'b Field = self.shared.field(source.field);
        let Some(cast) = self.casts[source.field as usize] else {
            unreachable!("the planner refuses arrays without a cast");
        };
        let pad = self.shared.padding(source.field).mode;
        SampleBox { record, cast, shape: &source.shape, strides: &field.strides, pad }
    }

    /// Brings a task of no array's to its sample; how many bytes were written.
    fn scatter_own(&mut self, task: &ChunkTask, sample: u32, number: u32) -> u64 {
        let slab = self.slab.as_mut();
        if task.kind != ChunkKind::Blank {
            return scatter_fed(self.shared, task, number, slab);
        }
        let to = Destination { slot: task.slot, field: task.file as u32, sample };
        fill_blanks(self.shared, to, task.chunk, slab)
    }

    /// The decoder, and places for the chunk of a task and for a block of it.
    pub(super) fn parts<'b>(
        &self,
        context: &'b mut DecodeContext,
        task: &ChunkTask,
        encoded: &[u8],
    ) -> (Option<&'b mut Decoder>, Scratch<'b>) {
        let is_large = context.large.is_some();
        let need = if is_large { scratch_need(self.shared, task, encoded) } else { (0, 0) };
        context.parts(need)
    }

    fn decoded<'b>(
        &self,
        context: &'b mut DecodeContext,
        record: &ArrayRecord,
        task: &ChunkTask,
        encoded: &'b [u8],
    ) -> Result<ChunkBytes<'b>, Refusal> {
        let mut why = Why::new();
        let most = self.shared.settings.config.max_substreams_per_chunk;
        let (decoder, scratch) = self.parts(context, task, encoded);
        let Some(decoder) = decoder else { return Err(no_decoder(why)) };
        let span = task.need.span;
        let Some(kept) = task.kept else {
            let decoded = decode_chunk(decoder, record, most, encoded, span, scratch, &mut why);
            return decoded.map_err(|status| (status, why));
        };
        let target = self.shared.claim_kept(kept, kept_bytes(record)).into_bytes();
        let block = scratch.block;
        let scratch = Scratch { target: &mut *target, block: &mut *block };
        let decoded = decode_chunk(decoder, record, most, encoded, span, scratch, &mut why)
            .map_err(|status| (status, why))?;
        let (found, first) = (decoded.bytes.as_ptr_range(), decoded.first);
        let count = decoded.bytes.len();
        bring(found, target, 0, [encoded, block]);
        Ok(ChunkBytes { bytes: &target[..count], first })
    }

    /// Adds what was gathered to the loader's figures, and leaves the part of the slab whole, which
    /// it gives back.
    pub fn end(self) -> Option<SlabPart> {
        let stats = &self.shared.stats;
        stats.decode.add(&self.decode);
        // All of them are chunks of one array.
        let codec = self.record.compressor().map_or(CODEC_NONE, Codec::number);
        stats.chunks_decoded[codec].fetch_add(self.decode.count, Relaxed);
        stats.chunks_decoded_in_slab.fetch_add(self.in_slab, Relaxed);
        stats.chunks_left_filtered.fetch_add(self.filtered, Relaxed);
        // What a device assembles it takes the time of itself.
        let scatter = match self.shared.engine() {
            None => &stats.assemble,
            Some(_) => &stats.post_decode,
        };
        scatter.add(&self.scatter);
        self.slab.map(SlabWriter::finish)
    }
}

fn write_sample(
    kind: ChunkKind,
    mut target: Target<'_>,
    pad: &Padding,
    origin: &[u64],
    chunk: &ChunkBytes<'_>,
) -> u64 {
    match kind {
        ChunkKind::Data | ChunkKind::Kept => scatter(&mut target, origin, chunk),
        ChunkKind::Missing => scatter_fill(&mut target, origin),
        ChunkKind::Pad => {
            let element = outside_element(&target.sample, pad.element);
            let bytes = target.sample.cast.target_bytes() as usize;
            fill_outside(&mut target, &element[..bytes])
        }
        ChunkKind::Fed | ChunkKind::Blank | ChunkKind::Broken => 0,
    }
}

/// Brings decoded bytes, which lie at the addresses `found`, to byte `to` of `target`. What nothing
/// compressed lies in the encoded bytes, what a filter was undone of may lie in a block, and what a
/// checksum stands before lies behind that.
pub(super) fn bring(found: Range<*const u8>, target: &mut [u8], to: usize, others: [&[u8]; 2]) {
    let count = found.end as usize - found.start as usize;
    let within = |bytes: &[u8]| {
        let at = (found.start as usize).checked_sub(bytes.as_ptr() as usize)?;
        (at + count <= bytes.len()).then_some(at..at + count)
    };
    if let Some(range) = within(target) {
        if range.start != to {
            target.copy_within(range, to);
        }
        return;
    }
    let other = others.into_iter().find_map(|bytes| within(bytes).map(|range| &bytes[range]));
    // Decoding returns nothing else.
    assert!(other.is_some());
    other.into_iter().for_each(|bytes| target[to..][..count].copy_from_slice(bytes));
}

/// The next chunks that are staged, of the oldest wave that has some and room for them.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let mut at = state.waves.first_active();
    while let Some(wave) = at {
        at = state.waves.next_active(wave);
        let Some(op) = state.waves.waves[wave.at()].ready.front() else { continue };
        let row = state.waves.row(wave, op);
        let read = shared.tables.ops.read(row);
        let next = state.waves.next_chunk(wave, op);
        let first = read.chunk_first + next;
        let task = shared.tables.chunks.read(shared.wave_row(wave, first));
        let room = state.task_need(shared, &task);
        if !state.ask_for_room(shared, room) {
            return None;
        }
        let need = pool_need(shared, &task);
        let mut large = None;
        if need > 0 {
            large = state.pool.take(need);
            if large.is_none() {
                continue;
            }
        }
        let most = if need > 0 { 1 } else { read.chunk_count - next };
        let (count, room) = state.run_length(shared, wave, (&task, room), first, most);
        // There is room: nobody took of it since.
        let slab = state.reserve(shared, room).ok().flatten();
        state.waves.take_chunks(wave, count, read.chunk_count);
        state.note_bound(shared, wave);
        return Some(Job::Assemble { wave, first, count, large, slab });
    }
    None
}
