//! The jobs that make batches: decode a chunk, scatter it into every sample that touches it, fill
//! what is missing, outside or failed.
//!
//! In: chunk tasks of one batch and one array, their bytes staged. Out: rows of a batch slot. Rows
//! of different chunks never overlap, so workers fill one slot together.

use crate::assemble::cast::Cast;
use crate::assemble::units::{
    ChunkData, DeviceSample, chunk_piece, for_each_outside, missing_piece,
};
use crate::assemble::{SampleBox, Target, fill_element, fill_outside, scatter, scatter_fill};
use crate::base::abi::CODEC_NONE;
use crate::base::arena::Region;
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX};
use crate::base::math::index;
use crate::base::stats::Metric;
use crate::base::status::{Status, Why};
use crate::cuda::HAS_DEVICES;
use crate::decode::unshuffle::Shuffle;
use crate::decode::{Decoder, Filtered, Scratch, decode_chunk, decode_filtered, kept_bytes};
use crate::device::{Part, Way, way_of};
use crate::jobs::failures::fail_task;
use crate::os::profiler;
use crate::records::{ArrayRecord, ChunkBytes, Codec, Need, chunk_origin};
use crate::state::State;
use crate::state::job::Job;
use crate::state::lift::{Lift, Room};
use crate::state::lock::{Lock, Locked};
use crate::state::needs::{pool_need, scratch_need, whole_bytes};
use crate::state::scratch::Hold;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::wave::{ChunkKind, ChunkTask};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Batch slots that together have this many bytes are not in any cache when they are read: rows of
/// whole lines are then stored past the caches. Scans of aligned boxes gain 10 to 20 %.
const STREAMED_SLOTS_BYTES: u64 = 48 << 20;

/// Decodes and assembles `count` staged chunks of a wave from `first` on, of one batch and array.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    (wave, first, count): (u32, u32, u32),
    (large, part): (Option<Hold>, Option<Part>),
) -> Locked<'l> {
    let shared = lock.shared;
    let task = |chunk: u32| shared.tables.chunks.read(shared.wave_row(wave, chunk));
    let mut hands = Hands::new(shared, worker, task(first).array, part.as_ref());
    hands.large = large.map(|hold| shared.common_scratch.part(hold.offset, hold.bytes));
    let (mut chunk, limit) = (first, first + count);
    while chunk < limit {
        let head = task(chunk);
        // Chunks of one read may overlap, so other workers may read the same bytes.
        let encoded = shared.tables.slab.view(head.slab_offset, head.bytes);
        let mates = chunk..limit.min(chunk + 1 + head.mates);
        let once = hands.decode_once(wave, mates.clone(), encoded);
        for mate in mates {
            if let Err((status, why)) = hands.assemble(wave, &task(mate), encoded, once) {
                fail_task(lock, wave, mate, hands.record, status, &why);
            }
            chunk = mate + 1;
        }
    }
    hands.end();
    let mut state = lock.lock();
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state.finish_chunks(shared, wave, (first, count), part.as_ref());
    state.end_part(part.as_ref());
    state
}

/// What assembling the chunks of one array takes.
pub struct Hands<'a> {
    pub shared: &'a Shared,
    pub record: &'static ArrayRecord,
    cast: Cast,
    pub decoder: Option<&'a mut Decoder>,
    target: Region,
    pub block: Region,
    /// Common scratch, for a large chunk.
    pub large: Option<Region>,
    /// Where chunks go on their way to a device.
    pub lift: Option<Lift>,
    decode: Metric,
    scatter: Metric,
    /// Chunks that were decoded into the slab, and those of them that kept their filter.
    pub in_slab: u64,
    pub filtered: u64,
}

impl<'a> Hands<'a> {
    /// For chunks of the array in slot `array`, which a task pins; and `part` of a slab, where they
    /// go to a device.
    pub fn new(
        shared: &'a Shared,
        worker: &'a mut Worker,
        array: u32,
        part: Option<&Part>,
    ) -> Hands<'a> {
        let record = shared.array_record(array);
        let settings = &shared.settings;
        let (dtype, dtype_bytes) = (settings.dtype, settings.dtype_bytes);
        let Some(cast) = Cast::find(record.dtype, record.dtype_bytes, dtype, dtype_bytes) else {
            unreachable!("the planner refuses arrays without a cast");
        };
        Hands {
            shared,
            record,
            cast: cast.streamed(settings.slots_bytes() >= STREAMED_SLOTS_BYTES),
            decoder: worker.decoder.as_mut(),
            target: worker.target,
            block: worker.block,
            large: None,
            lift: if HAS_DEVICES { shared.lift(part) } else { None },
            decode: Metric::NONE,
            scatter: Metric::NONE,
            in_slab: 0,
            filtered: 0,
        }
    }

    /// Decodes once what the tasks `mates`, which are one chunk, need of it together. None where
    /// each is to be decoded for itself: what is refused must not depend on what others need.
    pub fn decode_once<'b>(
        &mut self,
        wave: u32,
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
        let record = self.record.of_file(head.file, &mut own);
        let whole = ChunkTask { need: Need::of(span), ..head };
        let chunk = self.decoded(record, &whole, encoded).ok()?;
        let ns = (shared.os.now_ns)() - start;
        self.decode.observe(ns, head.bytes, chunk.bytes.len() as u64);
        Some(chunk)
    }

    /// Decodes a chunk from `encoded`, unless it is there as `once`, and scatters it; or fills
    /// what needs no bytes.
    pub fn assemble(
        &mut self,
        wave: u32,
        task: &ChunkTask,
        encoded: &[u8],
        once: Option<ChunkBytes<'_>>,
    ) -> Result<(), (Status, Why)> {
        let shared = self.shared;
        if task.kind == ChunkKind::Broken {
            return Ok(());
        }
        let start = (shared.os.now_ns)();
        let mut own = None;
        let record = match task.kind {
            // Padding belongs to no file, and an array without elements has none.
            ChunkKind::Pad => self.record,
            _ => self.record.of_file(task.file, &mut own),
        };
        let (mut chunk, mut lifted) = (ChunkBytes { bytes: &[], first: 0 }, None);
        let mut decoded = start;
        if let (ChunkKind::Kept, Some(kept)) = (task.kind, task.kept) {
            chunk.bytes = shared.chunk_memory.view(kept.offset, record.chunk_bytes);
        }
        if let (ChunkKind::Data, Some(once)) = (task.kind, once) {
            chunk = once;
        } else if task.kind == ChunkKind::Data {
            let _range = shared.profiler.range(profiler::DECODE);
            if HAS_DEVICES && let Some(room) = self.room(record, task) {
                let found = self.decoded_into(&room, record, task, encoded)?;
                (chunk, lifted) = (found.chunk, Some(room.holds(&found)));
            } else {
                chunk = self.decoded(record, task, encoded)?;
            }
            decoded = (shared.os.now_ns)();
            self.decode.observe(decoded - start, task.bytes, chunk.bytes.len() as u64);
        }
        let origin = match task.kind {
            ChunkKind::Pad => [0; RANK_MAX],
            _ => chunk_origin(record, task.file, task.chunk),
        };
        let _range = shared.profiler.range(profiler::ASSEMBLE);
        if HAS_DEVICES {
            lifted = lifted.or_else(|| self.lift_bytes(task, &chunk));
        }
        let mut written = 0;
        for pair in 0..task.pair_count {
            let row = shared.tables.pair_row(wave, task.pair_first + pair);
            let sample = shared.tables.pairs.read(row);
            let geometry = shared.geometry_table.read(shared.sample_row(task.slot, sample));
            let axes = record.axes();
            let sample_box = SampleBox {
                record,
                cast: self.cast,
                begin: &geometry.begin[..axes],
                end: &geometry.end[..axes],
                pad: shared.pad_mode,
            };
            let place = shared.sample_region(task.slot, sample);
            let origin = &origin[..axes];
            written += match &lifted {
                Some(data) => self.lift_sample(task.kind, &sample_box, place, origin, data),
                None => self.write_sample(task.kind, &sample_box, place, origin, &chunk),
            };
        }
        let ns = (shared.os.now_ns)() - decoded;
        self.scatter.observe(ns, task.need_bytes(), written);
        Ok(())
    }

    fn decoded<'b>(
        &mut self,
        record: &ArrayRecord,
        task: &ChunkTask,
        encoded: &'b [u8],
    ) -> Result<ChunkBytes<'b>, (Status, Why)> {
        let mut why = Why::new();
        let most = self.shared.settings.config.max_substreams_per_chunk;
        // Workers that take this job have a decoder.
        let Some(decoder) = self.decoder.as_deref_mut() else {
            return Err((Status::Internal, why));
        };
        let (mut target, mut block) = (self.target, self.block);
        if let Some(large) = self.large {
            let (target_bytes, block_bytes) = scratch_need(self.shared, task, encoded);
            if target_bytes > 0 {
                target = large.part(0, target_bytes);
            }
            if block_bytes > 0 {
                block = large.part(target_bytes, block_bytes);
            }
        }
        if let Some(kept) = task.kept {
            target = self.shared.chunk_memory.part(kept.offset, kept_bytes(record));
        }
        let scratch =
            Scratch { target: target.rows(0, target.bytes()), block: block.rows(0, block.bytes()) };
        let decoded =
            decode_chunk(decoder, record, most, encoded, task.need.span, scratch, &mut why)
                .map_err(|status| (status, why))?;
        if task.kept.is_none() || decoded.bytes.as_ptr() == target.as_ptr() {
            return Ok(decoded);
        }
        // What nothing compressed lies in the encoded bytes, which are gone when it is used again.
        let bytes = target.rows(0, decoded.bytes.len() as u64);
        bytes.copy_from_slice(decoded.bytes);
        Ok(ChunkBytes { bytes, first: decoded.first })
    }

    /// Adds what was gathered to the instance's figures, and leaves the part of the slab whole.
    pub fn end(&mut self) {
        if HAS_DEVICES && let Some(lift) = self.lift.take() {
            lift.finish();
        }
        let stats = &self.shared.stats;
        stats.decode.add(&self.decode);
        // All of them are chunks of one array.
        let codec = self.record.compressor().map_or(CODEC_NONE, Codec::number);
        stats.chunks_decoded[codec].fetch_add(self.decode.count, Relaxed);
        if HAS_DEVICES {
            stats.chunks_decoded_in_slab.fetch_add(self.in_slab, Relaxed);
            stats.chunks_left_filtered.fetch_add(self.filtered, Relaxed);
        }
        // What a device assembles it takes the time of itself.
        let scatter = match self.shared.engine() {
            None => &stats.assemble,
            Some(_) => &stats.post_decode,
        };
        scatter.add(&self.scatter);
    }

    fn write_sample(
        &self,
        kind: ChunkKind,
        sample: &SampleBox<'_>,
        place: Region,
        origin: &[u64],
        chunk: &ChunkBytes<'_>,
    ) -> u64 {
        let target = Target { sample: *sample, region: place };
        match kind {
            ChunkKind::Data | ChunkKind::Kept => scatter(&target, origin, chunk),
            ChunkKind::Missing => scatter_fill(&target, origin),
            ChunkKind::Pad => {
                let element = self.outside_element(sample);
                fill_outside(&target, &element[..self.shared.settings.dtype_bytes as usize])
            }
            ChunkKind::Broken => 0,
        }
    }

    /// What constant padding puts where there is no source.
    pub fn outside_element(&self, sample: &SampleBox<'_>) -> [u8; ELEMENT_BYTES_MAX] {
        self.shared.pad_element.unwrap_or_else(|| fill_element(sample.record, &self.cast))
    }
}

impl Hands<'_> {
    /// Room in the slab for the whole chunk of a task, if it is to be decoded there.
    pub fn room(&mut self, record: &ArrayRecord, task: &ChunkTask) -> Option<Room> {
        let lift = self.lift.as_mut()?;
        whole_bytes(self.shared, record, task).map(|bytes| lift.room(bytes))
    }

    /// Decodes the chunk of a task into its room in the slab, each byte at its place. A filter that
    /// the kernel undoes is left in.
    pub fn decoded_into<'b>(
        &mut self,
        room: &Room,
        record: &ArrayRecord,
        task: &ChunkTask,
        encoded: &'b [u8],
    ) -> Result<Filtered<'b>, (Status, Why)> {
        let mut why = Why::new();
        let most = self.shared.settings.config.max_substreams_per_chunk;
        // Workers that take this job have a decoder.
        let Some(decoder) = self.decoder.as_deref_mut() else {
            return Err((Status::Internal, why));
        };
        let block_bytes = scratch_need(self.shared, task, encoded).1;
        let block = match self.large {
            Some(large) if block_bytes > 0 => large.part(0, block_bytes),
            _ => self.block,
        };
        let (target, span) = (room.region, task.need.span);
        let scratch =
            Scratch { target: target.rows(0, target.bytes()), block: block.rows(0, block.bytes()) };
        let decoded = match way_of(&record.codecs) {
            Way::WorkerThenKernel => {
                decode_filtered(decoder, record, most, encoded, span, scratch, &mut why)
            }
            Way::Worker | Way::Laid => {
                decode_chunk(decoder, record, most, encoded, span, scratch, &mut why)
                    .map(Filtered::plain)
            }
        };
        let decoded = decoded.map_err(|status| (status, why))?;
        self.in_slab += 1;
        self.filtered += u64::from(decoded.shuffle != Shuffle::None);
        let ChunkBytes { bytes, first } = decoded.chunk;
        if bytes.as_ptr() == target.as_ptr().wrapping_add(index(first)) {
            return Ok(decoded);
        }
        // What blosc only copied lies in the encoded bytes.
        let place = target.rows(first, bytes.len() as u64);
        place.copy_from_slice(bytes);
        Ok(Filtered { chunk: ChunkBytes { bytes: place, first }, ..decoded })
    }

    /// Lays what the samples of a task read of its chunk into the slab; None on the host.
    pub fn lift_bytes(&mut self, task: &ChunkTask, chunk: &ChunkBytes<'_>) -> Option<ChunkData> {
        let lift = self.lift.as_mut()?;
        let span = task.need.span;
        let bytes = match task.kind {
            ChunkKind::Data | ChunkKind::Kept => {
                &chunk.bytes[index(span.first - chunk.first)..][..index(span.bytes())]
            }
            _ => &[],
        };
        Some(lift.put(bytes, span.first))
    }

    /// Adds what a sample gets from a task to the slab.
    pub fn lift_sample(
        &mut self,
        kind: ChunkKind,
        sample: &SampleBox<'_>,
        place: Region,
        origin: &[u64],
        data: &ChunkData,
    ) -> u64 {
        let dtype = self.shared.settings.dtype;
        let target = DeviceSample { sample: *sample, dtype, address: place.as_ptr() as u64 };
        let element = self.outside_element(sample);
        // Called where there is one.
        let Some(lift) = self.lift.as_mut() else { return 0 };
        let piece = match kind {
            ChunkKind::Data | ChunkKind::Kept => chunk_piece(&target, origin, data),
            ChunkKind::Missing => missing_piece(&target, origin),
            ChunkKind::Pad => {
                let mut written = 0;
                for_each_outside(&target, &element, |unit| written += lift.push(unit));
                return written;
            }
            ChunkKind::Broken => None,
        };
        piece.map_or(0, |piece| lift.push_piece(&piece))
    }
}

/// The next chunks that are staged, of the oldest wave that has some and room for them.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let mut at = state.waves.active.first();
    while let Some(wave) = at {
        at = state.waves.active.next(wave);
        let Some(op) = state.waves.waves[wave as usize].ready.front() else { continue };
        let row = state.waves.row(wave, op);
        let read = shared.tables.ops.read(row);
        let next = state.waves.next_chunk(wave, op);
        let first = read.chunk_first + next;
        let task = shared.tables.chunks.read(shared.wave_row(wave, first));
        let room = state.task_need(shared, &task);
        if !state.has_room(shared, room) {
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
        let part = state.reserve(shared, room).ok().flatten();
        state.waves.take_chunks(wave, count, read.chunk_count);
        state.note_bound(shared, wave);
        return Some(Job::Assemble { wave, first, count, large, part });
    }
    None
}
